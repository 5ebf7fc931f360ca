"""The goodness-of-fit test (Algorithm 2): slices from training samples, the test on the others.

One set of slices gives the paper's test. A family of sets and of members without slices, the
default, gives one calibrated verdict for all of them; see `fastsksd.procedure.combine`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from . import engines
from ._doors import door
from ._typing import Array, ArrayLike, EngineName, KernelLike, Null, Rng, Score, SlicesLike
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_same_columns,
    check_samples,
    check_score,
    column_names,
    evaluate_score,
    is_dask,
    score_is_array,
)
from .baselines import as_baseline
from .baselines.base import Baseline
from .compute.projections import dependent_columns
from .effects import FEWEST, check_tolerance
from .engines import TOLERANCE
from .kernels import GIVEN, FlatProjection, constant_columns, shown_columns
from .procedure.chains import as_chains, flattened, told_as_draws
from .procedure.combine import Verdict, decide
from .procedure.evaluate import evaluate
from .procedure.evaluation import Outcome
from .procedure.importance import FEWEST_ROWS, LARGEST_CUT, draws_needed, typical_rows
from .procedure.lags import neighbour_correlation
from .procedure.own_units import in_own_units
from .procedure.plan import Options, Plan, make_plan
from .procedure.precision import score_noise
from .procedure.search import search
from .procedure.split import Samples, Split, make_split
from .report.directions import check_coordinates
from .result import GofResult
from .slices import Slices

if TYPE_CHECKING:
    from .scale.refits import Refit

_RESAMPLES = 1000
_REFITS = 199  # each of them takes a fit and a test


@door
def gof_test(
    x: ArrayLike,
    score: Score | None = None,
    *,
    fit: Callable[[Array], Any] | Refit | None = None,
    slices: SlicesLike | Mapping[str, SlicesLike] | None = None,
    n_slices: int | None = None,
    basis: str | ArrayLike | None = None,
    estimator: str = "ke",
    score_q: Score | None = None,
    debias: bool = True,
    refine: int | Mapping[str, Any] = 0,
    extra_slices: Mapping[str, SlicesLike] | Sequence[tuple[str, SlicesLike]] | None = None,
    multiples: Sequence[float] | None = None,
    precondition: str | ArrayLike | None = "auto",
    train: str | float | int | ArrayLike | None = None,
    kernel: KernelLike = "rbf",
    null: Null | None = None,
    lag: float | str | None = None,
    chains: bool | ArrayLike | None = None,
    weights: ArrayLike | None = None,
    n_resamples: int | None = None,
    engine: EngineName = "auto",
    tol: float = TOLERANCE,
    method: str | Baseline = "sksd",
    tolerance: Mapping[str, float] | None = None,
    names: Sequence[str] | None = None,
    rng: Rng = None,
) -> GofResult:
    """Test whether samples follow a model that is known through its score.

    With no option but `rng` this is the aggregated test: slices along coordinates and along active
    directions, kernels of the whole vector, and moments, with one calibrated p-value. It does not
    depend on the units of the samples.

    Parameters
    ----------
    x : (n, d) array or data frame, or (chains, draws, d) array
        Samples of the unknown distribution q. Names of columns become names of coordinates. A Dask
        array is tested where it lies, by `gof_stream`. An array of three axes, or a list of (draws,
        d) arrays, holds Markov chains, see `chains`.
    score : (n, d) array, callable or model
        Score of the model p, ``grad log p``: its values at `x`, a function x -> (n, d), or an
        object with a `.score` method. The density must be positive on all of R^d, or vanish at the
        boundary of its support: transform bounded variables first. Left out with `fit`.
    fit : callable or Refit, optional
        For a model that is fitted to `x` itself: a function that takes an (n, d) array and returns
        a model with `.score`, and `.sample` if it can be drawn from, as ``models.Gaussian.fit``.
        The test asks whether any model that `fit` can return is right. Samples are drawn from the
        fitted model, the model is fitted again to each set of them, and the statistics of these
        refits are the null distribution. A model without `.sample` is fitted to a part of the
        samples and tested on the others. Draws of chains are thinned first. `Refit` has the
        options: processes, a checkpoint, progress, the split.
    slices : Slices, pair (r, g), or mapping of names to these, optional
        Directions chosen beforehand, without looking at `x`. No sample is spent on training.
        Several named sets are tested together, as a family.
    n_slices : int, optional
        Test along the top `n_slices` active directions r, found on training samples. Without
        `slices`, `n_slices` and `basis` the standard family is tested, see Notes.
    basis : "identity" or (m, d) array, optional
        Fixed directions r in place of active ones; g is found on training samples.
    estimator : {"ke", "ksd", "ge", "exact"}
        How the score difference is estimated for the search; see `active_slices`.
    score_q : callable or model, optional
        Score of the samples' own distribution, for estimator="exact".
    debias : bool
        Leave out the noise of the estimators "ke" and "ksd". False is the paper's estimate.
    refine : int or mapping
        For slices found with `n_slices` or `basis`: epochs of gradient ascent that improve them on
        the training samples, or options of `refine_slices`, as ``{"epochs": 50, "update": "rg"}``.
        Minibatches are a tenth of the training samples, between 20 and 100.
    extra_slices : mapping of names to Slices, or sequence of (name, Slices), optional
        Sets of slices added to the standard family.
    multiples : sequence of float, optional
        Multiples of the kernel's bandwidth tried for each set of slices of a family. By default 1
        and 2 for the coordinates and `extra_slices`, 1 for active slices, and 0.5, 1 and 2 for
        named sets.
    precondition : {"auto", "raw", "diagonal", "full"}, (d, d) array or None
        Coordinates in which the test is made. Slices of the result are directions in the
        coordinates of `x` all the same.

        "auto"
            "diagonal" and "full" for members of the standard family; "raw" for slices that are
            given or found with `n_slices` or `basis`.
        "diagonal"
            Every column in a unit of its own, from the deviations of samples and scores.
        "full"
            Coordinates in which samples and scores have the same covariance; for kernels of the
            whole vector those in which the information of the model is the identity, see the notes.
            They are learnt on other samples than those tested. Members of the family that know the
            coordinates are left out, so that an affine map of the samples changes nothing, but for
            the treatment of outliers and of fewer than about 20 samples for each dimension.
        "raw" or None
            As they are.
        array
            Samples times this matrix, which was not found on `x`.
    train : "cross", float, int or (n_train, d) array, optional
        What slices are found on. Samples are drawn at random; of chains the first draws of each
        are taken. Sets fixed beforehand are tested on all samples.

        "cross"
            Each half of the samples is tested along slices found on the other half, on 5000
            samples of it at most, of more than 10,000 on ``50 sqrt(n)``, up to 10,000. The default
            for the family.
        float or int
            A fraction or a number of the samples, which are then not tested. The default for one
            set is 0.2, or 5000 samples where that is less.
        array
            Separate samples; `score` must then be a function or a model. The family looks at as
            many of them as of a half.
    kernel : {"rbf", "imq"} or kernel object
        Kernel of the statistic, along slices and of the whole vector. A bandwidth that is a number
        is in the coordinates of the test, see `precondition`.
    null : {"wild", "bootstrap", "spectral"}, optional
        How the null distribution is found. Methods "rfsd" and "mmd" have nulls of their own, see
        `fastsksd.baselines`.

        "wild"
            Wild bootstrap with random signs, the default.
        "bootstrap"
            The paper's multinomial bootstrap. Below 60 samples, where it would reject too often,
            its replicates are widened; fewer than 8 are refused.
        "spectral"
            The limit distribution, a weighted sum of chi-squares, with its tail to any depth, for
            p-values below what resampling can show. Members of a family are combined by
            Bonferroni's inequality, which is conservative where they resemble each other.
    lag : float or "auto", optional
        For null="wild" and samples of Markov chains in their order: replicates draw one sign for
        every stretch of so many draws, the last sixth of which is left out. "auto" takes at least 6
        times the longest autocorrelation time of samples, scores and their squares, see
        `fastsksd.procedure.lags`. 1, the default without `chains`, means independent samples. With
        `fit`, one draw in a third of it is kept.
    chains : True or (n,) array of labels, optional
        Which chain each row belongs to; those of a chain are in their order, and chains may differ
        in length. True for one chain. Draws are then tested with lag="auto" unless `lag` is given,
        and the result's `chains` tells of each of them. With fewer than 16 stretches the chains
        are too short to tell: the p-value is NaN, and the result's `verdict` says how many draws
        are needed.
    weights : (n,) array, optional
        Importance weights of independent samples, of any sum: particles of sequential Monte Carlo,
        importance samples. Statistic and null distribution are weighted, and the result's
        `effective_draws` is ``(sum w)^2 / sum w^2``. Below 30 of these, or where a few samples have
        most of the weight, there are too few to tell: the p-value is NaN, and the result's
        `verdict` says how many draws are needed. For the
        sliced test and the methods "ksd", "ksdagg" and "psd", without null="spectral". See
        `fastsksd.procedure.importance`.
    n_resamples : int, optional
        Replicates of the statistic, 1000 by default and 10 million at most, or as many as 8 GB
        hold. The smallest p-value is ``1 / (n_resamples + 1)``, except for "spectral", where they
        are draws to look at. With `fit`, the number of refits, 199 by default.
    engine : {"auto", "direct", "fourier", "cuda", "cuda32"}
        How sums over pairs are computed.

        "auto"
            What is expected to be fastest, for each set of slices.
        "direct"
            Pair by pair, exact to round-off.
        "fourier"
            From Fourier series, in time linear in n, exact to `tol`. Slices whose series would be
            too long (a bandwidth of a thousandth of the range) go to "direct", and so do few
            samples along many slices, see Notes; the result's `engine` names what was used.
        "cuda", "cuda32"
            On a GPU, slices and null distribution included; "cuda32" pair by pair in single
            precision, with errors of about 1e-6 of the terms.
    tol : float
        Largest error of a Stein term with Fourier series, relative to the size of its parts: a
        V-statistic is off by at most `tol` times twice its diagonal part.
    method : {"sksd", "ksd", "ksdagg", "psd", "fssd", "rfsd", "mmd"} or baseline
        The sliced discrepancy ("sksd"), or for comparison a test without slices. A name means the
        published settings, but "psd" has no products of coordinates; other settings are arguments
        of the classes in `fastsksd.baselines`, as in
        ``method=fs.baselines.PSD(products=True)``.
    tolerance : mapping, optional
        Shifts and stretches that do not matter, as ``{"shift": 0.1, "stretch": 0.05}``: 0.1
        standard deviations of the model, and 5% wider or narrower; one of them is enough. The
        result then says in `tolerated` whether all effects are surely below, one is surely beyond,
        or how many samples would settle it. At least 20 samples are needed.
    names : sequence of str, optional
        Names of the coordinates, for what the result says and draws; by default the columns of a
        data frame, or "x[0]", "x[1]" and so on.
    rng : None, int or numpy.random.Generator
        All randomness. The same seed gives the same p-value for any number of threads.

    Returns
    -------
    GofResult
        Statistic, p-value, slices and members, with `explain`, `summary` and `plot`.

    Raises
    ------
    ValueError, TypeError
        For bad input, and for any option that the test asked for does not use. The message names
        the argument.

    See Also
    --------
    Refit : Options of a test with `fit`.
    gof_batch : Many tests.
    gof_stream : Samples that do not fit into memory.
    active_slices : The search for slices alone.
    sksd : The discrepancy alone.

    Notes
    -----
    Algorithmic overview (Algorithm 2 of [1]_):

    1. The samples are split; slices are found on the training part (Algorithm 1).
    2. Along each slice the U-statistic of the Stein terms of all pairs of test samples is computed,
       and summed over the slices of a set.
    3. Replicates of the statistic with random weights of the samples give its null distribution
       [2]_; all sets share the weights.
    4. The members of a family are combined by the weighted harmonic mean of their p-values,
       calibrated on the joint replicates [3]_.

    The standard family has members of six kinds:

    - the coordinates as slices, g = r;
    - the top 1, 3 and 10 active directions, g = r, found on either half and tested on the other;
    - kernels of the whole vector (the ordinary KSD) at 1/4 and 1/2 of the median distance, in two
      metrics, "diagonal" and "full";
    - the linear kernel of the whole vector, in both metrics;
    - moments along coordinates: sums of squares over all of them for the location, and for scale
      and shape;
    - the largest moment of a single coordinate.

    For kernels of the whole vector the metric "full" is ``M = (1 - w) I^-1 - w C I^-1``, made
    symmetric, with ``I = Cov(s)``, the information of the model, and ``C = Cov(x, s)``, minus the
    identity under the model. w is the share of the variance of the samples that their scores
    explain. For a Gaussian model w is 1 and M its covariance, whatever the samples. Samples are in
    five folds, and every pair is tested in a metric of the folds that hold neither of the two.

    With fewer than 30 samples, or fewer than twice the dimension, the metric "full" is left out.
    With fewer than 100 samples the linear kernel and the moments are left out: skewed features
    would reject right models too often.

    With m slices and fewer than about ``sqrt(32 m)`` samples, the bandwidth of every pair of
    samples, and the units of the metric "diagonal", are found on other samples: those of all would
    bias the sum over many slices. `bandwidths` of the result are those of all samples. With
    importance weights there are no others, and so few effective draws are an error.

    Samples that vary by more than 1e30, or by less than 1e-30, are tested in units of their own, a
    power of two; statistics are then in these units.

    Markov chains are cut into stretches that are nearly independent, and a replicate has one sign
    for each. If sums over stretches are symmetric this is an exact randomisation test, however few
    stretches there are; see `fastsksd.procedure.stretches`.

    With more than 4000 samples the time is linear in their number: replicates meet 1000 to 2000
    groups of samples instead of every one, kernels of the whole vector have random frequencies, and
    the metric "full" is learnt on a sixth of the samples. Median bandwidths are those of 20,000
    samples. With heavy tails the kernels of slices fade beyond about 25 bandwidths (8 for IMQ), and
    not before 99% of the samples. A number of training samples (``train=5000``) then fixes metrics,
    bandwidths and ranges too, and the kernels of slices fade beyond their range. With
    null="spectral" kernels of the whole vector look at the pairs within groups of 500 samples
    beyond 1000.

    References
    ----------
    .. [1] W. Gong, K. Zhang, Y. Li and J. M. Hernandez-Lobato, "Active slices for sliced Stein
       discrepancy", ICML, 2021.
    .. [2] K. Chwialkowski, H. Strathmann and A. Gretton, "A kernel test of goodness of fit", ICML,
       2016.
    .. [3] D. J. Wilson, "The harmonic mean p-value for combining dependent tests", PNAS 116, 2019.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((1000, 20)) * np.r_[0.5, np.ones(19)]
    >>> result = fs.gof_test(x, lambda x: -x, rng=1)
    >>> result.reject()
    True
    >>> strongest = np.argmax(result.slice_statistics)
    >>> int(np.argmax(abs(result.slices.r[strongest])))
    0

    Four Markov chains of 500 draws:

    >>> from scipy.signal import lfilter
    >>> steps = np.random.default_rng(1).standard_normal((4, 500, 2))
    >>> draws = lfilter([0.6], [1.0, -0.8], steps, axis=1)
    >>> result = fs.gof_test(draws, np.negative, rng=1)
    >>> result.verdict, result.chains.different, result.chains.burn_in
    ('not rejected', (), 0)

    Is any normal distribution right? The one that fits best is not:

    >>> x = np.random.default_rng(0).standard_t(3, (200, 2))
    >>> result = fs.gof_test(x, fit=fs.Refit(fs.models.Gaussian.fit, progress=False), rng=1)
    >>> result.verdict, result.fitted.n_refits
    ('rejected', 199)
    """
    options = Options(
        slices=slices,
        n_slices=n_slices,
        basis=basis,
        estimator=estimator,
        score_q=score_q,
        debias=debias,
        refine=refine,
        extra_slices=extra_slices,
        multiples=multiples,
        precondition=precondition,
        train=train,
        kernel=kernel,
        null=null,
        lag=lag,
        chains=chains,
        weights=weights,
        n_resamples=_RESAMPLES if n_resamples is None else n_resamples,
        engine=engine,
        tol=tol,
        method=method,
        tolerance=tolerance,
        names=names,
        rng=rng,
    )
    limits = None if tolerance is None else check_tolerance(tolerance)
    if fit is not None:
        from .scale.refits import gof_test_of_fitted

        if score is not None:
            raise ArgumentError(
                "score", "and ", Option("fit"), " both say what is tested; give one of them"
            )
        n_refits = _REFITS if n_resamples is None else n_resamples
        return gof_test_of_fitted(x, fit, options, n_refits)
    if score is None and as_baseline(method) is None:
        raise ArgumentTypeError(
            "score",
            "is missing: give the score of the model, or ",
            Option("fit"),
            ", a function that fits a model",
        )
    if is_dask(x):
        from .scale.cluster import gof_test_of_dask

        return gof_test_of_dask(x, score, options)
    examined = examine(x, score, options)
    result = concluded(examined, decide(examined.plan, examined.outcome))
    if limits is None:
        return result
    return replace(result, tolerated=limits.of(result.effects, result.draws_needed))


class Examined(NamedTuple):
    """A test up to its verdict.

    Attributes
    ----------
    plan : Plan
    samples : (n, d) array
        In the order of the caller.
    split : Split
        As it was before the search.
    outcome : Outcome
        The statistics of all members, with their null distributions.
    names : tuple of str or None
        Of the coordinates.
    active : Slices or None
        All active slices of the first part that has some.
    chain : (n,) array of int or None
        Number of the chain of each row.
    start, searched : float
        When the test began, and when slices were found.
    """

    plan: Plan
    samples: Array
    split: Split
    outcome: Outcome
    names: tuple[str, ...] | None
    active: Slices | None
    chain: np.ndarray | None
    start: float
    searched: float


def examine(x: Any, score: Any, options: Options) -> Examined:
    """All of `gof_test` but the verdict."""
    start = time.perf_counter()
    baseline = as_baseline(options.method)
    x, score, labels = flattened(x, score, options.chains)
    options = dataclasses.replace(options, chains=labels)
    with told_as_draws(labels):
        samples = check_samples(x)
    names = coordinate_names(x, samples.shape[1], options)
    of_chains = as_chains(labels, len(samples))
    if baseline is None or baseline.needs_score:
        check_same_columns(column_names(x), check_score(score))
    if options.tolerance is not None and len(samples) < FEWEST:
        raise ArgumentError(
            "tolerance", f"needs at least {FEWEST} samples; got {len(samples)}; leave it out"
        )
    plan = in_own_units(make_plan(options, baseline, *samples.shape), samples)
    if plan.is_sliced and isinstance(plan.kernel.bandwidth, str):
        _check_columns_vary(samples, names)
    with told_as_draws(labels):
        split = make_split(plan, samples, score, of_chains)
    try:
        with engines.session(*split.arrays()):
            found = search(plan, split)
            searched = time.perf_counter()
            outcome = evaluate(plan, found)
    except FlatProjection as error:
        _check_columns_vary(samples, names)
        n, d = samples.shape
        dependent = dependent_columns(samples) if n > d else np.empty(0)
        if not dependent.size:
            raise
        raise FlatProjection(
            "x",
            f"has {shown_columns(dependent, names)}, which are equal or linearly dependent, and "
            "does not vary along a slice that was given",
            remedy=("Drop one of them, or give a bandwidth, as in ", GIVEN, "."),
        ) from error
    return Examined(
        plan,
        samples,
        split,
        outcome,
        names,
        None if baseline is not None else found.active,
        None if of_chains is None else of_chains.numbers,
        start,
        searched,
    )


def _check_columns_vary(samples: Array, names: tuple[str, ...] | None) -> None:
    """Slices along a constant column have no median distance."""
    error = constant_columns([samples], names)
    if error is not None:
        raise error


def coordinate_names(x: Any, d: int, options: Options) -> tuple[str, ...] | None:
    """Names of the d coordinates of `x`: those of the options, else its own; None without any."""
    return column_names(x) if options.names is None else check_coordinates(options.names, d)


def concluded(examined: Examined, verdict: Verdict) -> GofResult:
    """The result of a test with its verdict."""
    plan, split, outcome = examined.plan, examined.split, examined.outcome
    start, searched, end = examined.start, examined.searched, time.perf_counter()
    lag, weights = split.lag, plan.weights
    needed = 0 if lag is None else lag.needed
    if weights is not None:
        needed = draws_needed(weights)
    if needed:
        verdict = verdict.withheld()
    samples, stretch = _held(split, _stretch_of(split, verdict.sliced.part))
    sets = [one for one in outcome.members if one.slices is not None] or outcome.members
    used = {name for one in sets for name in one.engine.split(" and ")}
    return GofResult(
        **verdict.fields(),
        n_test=split.n_test,
        n_train=split.n_train,
        null=plan.null,
        engine=" and ".join(sorted(used)),
        kernel=outcome.kernel or plan.kernel.name,
        method="sksd" if plan.baseline is None else plan.baseline.name,
        lag=outcome.lag,
        neighbour_correlation=0.0 if plan.in_order else neighbour_correlation(examined.samples),
        score_noise=_score_noise(split),
        draws_needed=needed,
        chains=split.chains,
        effective_draws=split.samples.effective if lag is None else lag.effective,
        weighted=weights is not None,
        locations=outcome.locations,
        n_model=outcome.n_model,
        timings={"slices": searched - start, "statistic": end - searched, "total": end - start},
        names=examined.names,
        _whole=samples,
        _stretch=stretch,
        _chain=examined.chain,
        _active=examined.active,
        _fold_pairs=verdict.sliced.fold_pairs,
        _baseline=cast("Baseline | None", plan.baseline),
    )


def _score_noise(split: Split) -> float:
    """What rounding of scores in single precision does, measured where there is a function."""
    x, scores, score = split.samples.x, split.samples.scores, split.score
    if scores is None:
        return 0.0
    if score_is_array(score):
        return score_noise(x, scores)
    return score_noise(x, scores, lambda z, _: evaluate_score(score, z, finite=False))


def _held(split: Split, stretch: slice) -> tuple[Samples, slice]:
    """Samples that a result keeps to explain itself, and where those of a stretch are.

    Of samples with importance weights they are some that stand for all without weights, and a few
    of the stretch, should all weight be elsewhere.
    """
    samples = split.samples
    if samples.weights is None:
        return samples, stretch
    kept = typical_rows(samples.weights, LARGEST_CUT)
    if np.count_nonzero(kept[stretch]) < FEWEST_ROWS:
        heaviest = np.argsort(-samples.weights[stretch], kind="stable")[:FEWEST_ROWS]
        kept[stretch.start + heaviest] = True
    first, last = (int(np.count_nonzero(kept[:k])) for k in (stretch.start, stretch.stop))
    return samples.chosen(kept)._replace(weights=None), slice(first, last)


def _stretch_of(split: Split, name: str) -> slice:
    """Where the samples of a part are."""
    return next((part for part in split.parts if part.name == name), split.parts[-1]).stretch
