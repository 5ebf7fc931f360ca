"""`compare`: input as users have it, its split, and the differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from .._doors import door
from .._typing import Array, ArrayLike, KernelLike, Rng, Score, SlicesLike
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_integer,
    check_number,
    check_probability,
    check_rng,
    check_same_columns,
    check_samples,
    check_score,
    column_names,
    counted,
    evaluate_score,
    is_dask,
    score_is_array,
)
from ..engines.kernel_series import TOLERANCE, check_tolerance
from ..kernels import FlatProjection, Kernel, as_kernel, constant_columns
from ..procedure.chains import as_chains, flattened, one_chain
from ..procedure.common_ground import Ground, learn, stein_terms
from ..procedure.fitted import Refit
from ..procedure.lags import Lag, check_lag_fits, choose_lag, given_lag, neighbour_correlation
from ..procedure.metric import check_precondition
from ..procedure.split import Samples, count_of
from ..procedure.stretches import lay_out
from ..procedure.u_statistics import UStatistic
from ..report.caveats import weights_of_groups
from ..slices import as_slices
from .table import Comparison

FEWEST = 30  # samples below which nothing is compared
FEWEST_COMPARED = 15  # of them, below which no error is estimated
_FEWEST_TO_LEARN = 3  # samples that an estimate of a direction needs
_TRAIN, _TRAIN_FIT = 0.2, 0.5  # parts for training, without and with models to fit


@door
def compare(
    x: ArrayLike | Mapping[str, ArrayLike],
    score: Score | Mapping[str, Score | Refit],
    *,
    slices: SlicesLike | None = None,
    n_slices: int = 3,
    precondition: str | ArrayLike | None = "diagonal",
    train: float | int | None = None,
    kernel: KernelLike = "rbf",
    lag: float | str | None = None,
    chains: bool | ArrayLike | Mapping[str, ArrayLike] | None = None,
    level: float = 0.95,
    tol: float = TOLERANCE,
    rng: Rng = None,
) -> Comparison:
    """Compare how well models fit samples, or how close sets of samples are to a model.

    No model needs to be right. `gof_test` says whether one is.

    Parameters
    ----------
    x : (n, d) array or data frame, (chains, draws, d) array, or mapping of names to these
        Samples, at least 30. With a mapping, or a sequence of pairs (name, samples), the sets of
        samples are compared, as those of two samplers.
    score : mapping of names to scores, or one score
        Models to compare, at least two; or for several sets of samples the one model. A score is
        an (n, d) array of its values at `x`, a function x -> (n, d), or a model with `.score`; or
        ``Refit(fit)`` for a model that is fitted to the training samples, see Notes. A sequence of
        pairs (name, score) will do for a mapping.
    slices : Slices or pair (r, g), optional
        Directions to compare along, chosen without looking at `x`. By default the coordinates, and
        the active directions of each model.
    n_slices : int
        Number of active directions of each model, or of each set of samples; 0 for the coordinates
        alone.
    precondition : {"diagonal", "raw"}, (d, d) array or None
        Units: the deviations of the (training) samples, none, or those of the samples times this
        matrix.
    train : float or int, optional
        Fraction or number of the samples that units, active directions and bandwidths are learnt
        on, and models fitted to. They are not compared. Of chains, the first draws of each. By
        default 0.2, and 0.5 if there is a model to fit.
    kernel : {"rbf", "imq"} or kernel object
        Kernel along slices. The bandwidth is the median distance of training samples, unless given
        in the units of the comparison.
    lag : float or "auto", optional
        For samples of Markov chains in their order: length of the stretches that are taken as
        independent, as for `gof_test`.
    chains : True or (n,) array of labels, optional
        Which chain each row belongs to, as for `gof_test`; for several sets of samples a mapping of
        their names to labels, or True.
    level : float
        Confidence of the intervals. Those of all differences hold at once.
    tol : float
        Largest error of a Stein term by its Fourier series, as for `gof_test`.
    rng : None, int or numpy.random.Generator
        Which samples are for training. The same seed gives the same result for any number of
        threads.

    Returns
    -------
    Comparison
        Discrepancies, their differences with intervals and p-values, and the ranking.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument, and the model or set of samples.

    See Also
    --------
    gof_test : Whether a model fits at all.
    effect_sizes : How far samples are off, in units people know.

    Notes
    -----
    The module `fastsksd.comparison` has the method. Time is linear in the number of samples, which
    are summed in groups beyond 1000.

    A model that was fitted to `x` must not be compared on `x`: it is closer to these samples than
    it is to others. Normal distributions fitted to standard normal samples were told better than
    the true one, ``{"true": np.negative, "fitted": Gaussian.fit(x)}``, in 3 of 60 comparisons (500
    samples, 2 dimensions), 12 (200, 10), 39 (1000, 20) and 59 (200, 50). Nothing shows this
    afterwards. With ``"fitted": Refit(Gaussian.fit)`` the model is fitted to the training samples
    and compared on the others, and was never told better. It is compared as it was fitted, with the
    errors of its parameters: the true model was told better in 5, 42, 60 and 60. Of `Refit` only
    the function has a use here.

    Examples
    --------
    Two models that are both wrong:

    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((1000, 3))
    >>> compared = fs.compare(x, {"far": lambda x: 0.5 - x, "near": lambda x: 0.2 - x}, rng=0)
    >>> compared["far", "near"].better
    'near'

    Two sets of samples for one model:

    >>> y = {"wide": 1.5 * x, "narrow": 0.95 * x}
    >>> fs.compare(y, np.negative, rng=0).ranking
    ('narrow', 'wide')

    A model that is fitted to a part of the samples, and compared on the others:

    >>> fit = fs.Refit(fs.models.Laplace.fit)
    >>> fs.compare(x, {"normal": np.negative, "Laplace": fit}, rng=0).best
    ('normal',)
    """
    rng, level = check_rng(rng), check_probability("level", level)
    kernel, tol = as_kernel(kernel), check_tolerance(tol)
    n_slices = check_integer("n_slices", n_slices, 0)
    subjects, of_models = _subjects(x, score, chains)
    loaded = _load(subjects, of_models)
    d = loaded[0].x.shape[1]
    units = _check_units(precondition, d)
    given = None if slices is None else as_slices(slices, d)
    split, fitted = _split(loaded, of_models, train, _check_lag(lag), rng)
    try:
        ground = learn([one.training for one in split], units, kernel, given, n_slices)
    except FlatProjection as error:
        raise constant_columns([one.x for one in loaded], loaded[0].names) or error from error
    alone, pairs, statistics = _estimated(ground, kernel, split, of_models, tol)
    directions, bandwidths = ground.slices, ground.bandwidths
    if ground.metric is not None:
        directions, _, lengths = ground.metric.to_user(ground.slices)
        bandwidths = bandwidths / lengths
    independent = [one.lag is None for one in split]
    correlations = [
        neighbour_correlation(one.x) for one, free in zip(loaded, independent, strict=True) if free
    ]
    lags = [one.lag for one in split if one.lag is not None]
    sets = split[:1] if of_models else split
    return Comparison(
        names=tuple(one.name for one in subjects),
        of_models=of_models,
        slices=directions,
        slice_statistics=statistics,
        bandwidths=bandwidths,
        n_compared=tuple(len(one.compared.x) for one in split),
        n_train=sum(len(one.training.x) for one in sets),
        lag=max((one.length for one in lags), default=1.0),
        draws_needed=max((one.needed for one in lags), default=0),
        neighbour_correlation=max(correlations, default=0.0),
        coordinates=loaded[0].names,
        group_weights=tuple(
            weights_of_groups(one.x, 1.0 if part.lag is None else part.lag.length)
            for one, part in zip(loaded[: len(sets)], sets, strict=True)
        ),
        fitted=fitted,
        level=level,
        _alone=alone,
        _pairs=pairs,
    )


class _Subject(NamedTuple):
    """A model with its samples, as the user gave them."""

    name: str
    x: Any
    score: Any
    chains: Any
    x_name: str
    score_name: str


class _Fit(NamedTuple):
    """What stands for the scores of a model that is still to be fitted; `name` in errors."""

    refit: Refit
    name: str


class _Loaded(NamedTuple):
    """The same, checked; `names` of columns."""

    name: str
    x: Array
    scores: Array | _Fit
    chains: Any
    names: tuple[str, ...] | None


class _Divided(NamedTuple):
    """Samples for training, samples to compare, and how chains were cut, if they are chains."""

    training: Samples
    compared: Samples
    lag: Lag | None


def _subjects(x: Any, score: Any, chains: Any) -> tuple[list[_Subject], bool]:
    """What is compared, and whether it is models."""
    several_x, several_scores = _is_named(x), _is_named(score)
    if several_x and several_scores:
        raise ArgumentError(
            "score", "must be one model where ", Option("x"), " holds several sets of samples"
        )
    if not several_x and not several_scores:
        raise ArgumentTypeError(
            "score",
            "must map names to at least two models, as {'A': score_a, 'B': score_b}; or ",
            Option("x"),
            " must map names to sets of samples",
        )
    if several_scores:
        models = _named("score", score, "model")
        return [
            _Subject(name, x, one, chains, "x", f"score[{name!r}]") for name, one in models
        ], True
    sets = _named("x", x, "set of samples")
    if isinstance(score, Refit):
        raise ArgumentTypeError(
            "score",
            "must be a model where ",
            Option("x"),
            " holds several sets of samples: a Refit is fitted to one set",
        )
    if score_is_array(score):
        raise ArgumentTypeError(
            "score",
            "must be a function or a model where ",
            Option("x"),
            " holds several sets of samples: an array has values at one of them only",
        )
    labels = {name: chains for name, _ in sets}
    if isinstance(chains, Mapping):
        unknown = [name for name in chains if name not in labels]
        if unknown:
            raise ArgumentError(
                "chains", f"has labels of {unknown[0]!r}, which is no set of ", Option("x")
            )
        labels = {name: chains.get(name) for name, _ in sets}
    return [
        _Subject(name, one, score, labels[name], f"x[{name!r}]", "score") for name, one in sets
    ], False


def _is_named(value: Any) -> bool:
    """Whether it is a mapping, or a sequence of pairs whose first is a name."""
    if isinstance(value, Mapping):
        return True
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(one, tuple) and len(one) == 2 for one in value)
        and all(isinstance(one[0], str) for one in value)
    )


def _named(argument: str, value: Any, what: str) -> list[tuple[str, Any]]:
    """At least two pairs of names and what they stand for."""
    pairs = list(value.items() if isinstance(value, Mapping) else value)
    if any(not isinstance(name, str) or not name.strip() for name, _ in pairs):
        raise ArgumentTypeError(argument, "must have names that are strings, and not empty")
    if len(pairs) < 2:
        raise ArgumentError(
            argument,
            f"must hold at least two to compare; got {counted(len(pairs), what)}",
            remedy="For one model there is gof_test.",
        )
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ArgumentError(argument, f"has the name {twice!r} twice")
    return pairs


def _load(subjects: Sequence[_Subject], of_models: bool) -> list[_Loaded]:
    loaded: list[_Loaded] = []
    for one in subjects:
        if is_dask(one.x):
            raise ArgumentTypeError(one.x_name, "must be in memory, not a Dask collection")
        try:
            x, score, labels = flattened(one.x, one.score, one.chains)
        except ArgumentError as error:
            if error.argument == "score":
                raise ArgumentError(one.score_name, *error.parts) from None
            raise
        names = column_names(x)
        d = loaded[0].x.shape[1] if loaded else None
        if of_models and loaded:
            samples = loaded[0].x  # the same object, checked once
        else:
            samples = check_samples(x, one.x_name, min_rows=FEWEST, d=d)
        of_chains = as_chains(labels, len(samples))
        scores: Array | _Fit
        if isinstance(score, Refit):
            scores = _to_fit(score, one.score_name, of_chains)
        else:
            check_same_columns(names, check_score(score, one.score_name))
            scores = evaluate_score(score, samples, one.score_name)
        loaded.append(_Loaded(one.name, samples, scores, of_chains, names))
    first = loaded[0].names
    for subject, other in zip(subjects, loaded, strict=True):
        if first is not None and other.names is not None and other.names != first:
            raise ArgumentError(
                subject.x_name, f"must have the columns of the first set, {', '.join(first)}"
            )
    return loaded


def _to_fit(refit: Refit, name: str, chains: Any) -> _Fit:
    """A model to fit, after a check that nothing is asked for that has no use here."""
    for option in ("split", "n_jobs", "checkpoint"):
        if getattr(refit, option) is not None:
            raise ArgumentError(
                name,
                f"is a Refit with {option}=, which has no use here: the model is fitted once, to "
                "the training samples (see ",
                Option("train"),
                ")",
            )
    if chains is not None:
        raise _of_chains_too(name)
    return _Fit(refit, name)


def _of_chains_too(name: str) -> ArgumentError:
    return ArgumentError(
        name,
        "is fitted to samples that are independent of those compared, and draws of chains are not",
        remedy=("Thin the chains, and leave out ", Option("chains"), " and ", Option("lag")),
    )


def _check_units(precondition: Any, d: int) -> str | Array:
    if isinstance(precondition, str) and precondition not in ("diagonal", "raw"):
        raise ArgumentError(
            "precondition", f"must be 'diagonal', 'raw' or a matrix; got {precondition!r}"
        )
    return check_precondition(precondition, d)


def _check_lag(lag: Any) -> float | str | None:
    if isinstance(lag, str) and lag != "auto":
        raise ArgumentTypeError("lag", f"must be a number or 'auto'; got {lag!r}")
    return lag if lag is None or isinstance(lag, str) else check_number("lag", lag, 1.0)


def _split(
    loaded: Sequence[_Loaded],
    of_models: bool,
    train: Any,
    lag: float | str | None,
    rng: np.random.Generator,
) -> tuple[list[_Divided], dict[str, Any]]:
    """Training samples and samples to compare, the same for all models; and fitted models."""
    fitted: dict[str, Any] = {}
    if not of_models:
        train = _TRAIN if train is None else train
        return [_divided([one], train, lag, rng, fitted)[0] for one in loaded], fitted
    if train is None:
        train = _TRAIN_FIT if any(isinstance(one.scores, _Fit) for one in loaded) else _TRAIN
    return _divided(loaded, train, lag, rng, fitted), fitted


def _divided(
    loaded: Sequence[_Loaded],
    train: Any,
    lag: float | str | None,
    rng: np.random.Generator,
    fitted: dict[str, Any],
) -> list[_Divided]:
    """The samples, and the scores of each model there, divided alike for all.

    Models that are fitted are put into `fitted`.
    """
    x, chains = loaded[0].x, loaded[0].chains
    n = len(x)
    n_train = count_of(train, n)
    if n_train < _FEWEST_TO_LEARN or n - n_train < FEWEST_COMPARED:
        raise ArgumentError(
            "train",
            f"splits {counted(n, 'sample')} into {n_train} for training and {n - n_train} to "
            f"compare; at least {_FEWEST_TO_LEARN} and {FEWEST_COMPARED} are needed",
        )
    cut, stretch = None, None
    if chains is not None or lag not in (None, 1.0):
        scores = []
        for one in loaded:
            if isinstance(one.scores, _Fit):
                raise _of_chains_too(one.scores.name)
            scores.append(one.scores)
        cut, rows, stretch, n_train = _of_chains(x, scores, chains or one_chain(n), n_train, lag)
    else:
        rows = rng.permutation(n)
    head, tail = rows[:n_train], rows[n_train:]
    # Models share the arrays of samples.
    training, compared = x[head], x[tail]
    numbers = None if stretch is None else stretch[n_train:]
    found = []
    for one in loaded:
        values = one.scores
        if isinstance(values, _Fit):
            fitted[one.name] = model = values.refit.model_of(training, values.name)
            values = evaluate_score(model, x, values.name)
        found.append(
            _Divided(
                Samples(training, values[head], head),
                Samples(compared, values[tail], tail, numbers),
                cut,
            )
        )
    return found


def _of_chains(
    x: Array, scores: Sequence[Array], chains: Any, n_train: int, lag: float | str | None
) -> tuple[Lag, np.ndarray, np.ndarray | None, int]:
    """How chains are cut: by the model that has the longest memory."""
    order, lengths = chains.order, chains.lengths
    if isinstance(lag, float):
        check_lag_fits(lag, len(x))
        cut = given_lag(lag, lengths)
    else:
        cut = max(
            (choose_lag(x[order], one[order], lengths) for one in scores),
            key=lambda one: (one.needed, one.length),
        )
    laid = lay_out(lengths, cut, n_train)
    if not _FEWEST_TO_LEARN <= laid.n_first <= laid.rows.size - 2:
        raise ArgumentError(
            "train",
            f"leaves {laid.n_first} of {counted(laid.rows.size, 'draw')} for training, as chains "
            "of few stretches stay whole",
        )
    stretch = laid.stretch if cut.length > 1 else None
    return cut, order[laid.rows], stretch, laid.n_first


def _estimated(
    ground: Ground, kernel: Kernel, split: Sequence[_Divided], of_models: bool, tol: float
) -> tuple[tuple[UStatistic, ...], dict[tuple[int, int], UStatistic], Array]:
    """Discrepancies, their differences, and the discrepancies of slices, (k, m)."""
    terms = stein_terms(ground, kernel, [one.compared for one in split], tol)
    statistics = np.stack([one.slices for one in terms])
    alone = tuple(UStatistic.of(one.sums, one.sizes) for one in terms)
    pairs = {}
    for a, b in combinations(range(len(terms)), 2):
        if of_models:
            pairs[a, b] = UStatistic.of(terms[a].sums - terms[b].sums, terms[a].sizes)
        else:
            pairs[a, b] = alone[a] - alone[b]
    return alone, pairs, statistics
