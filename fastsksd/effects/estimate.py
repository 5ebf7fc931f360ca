"""Effect sizes of samples, and those of the result of a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from .._doors import door
from .._typing import Array, ArrayLike, Score, SlicesLike
from .._validate import (
    ArgumentError,
    check_probability,
    check_samples,
    check_score,
    column_names,
    evaluate_score,
)
from ..procedure.chains import as_chains, flattened, told_as_draws
from ..procedure.correlations import pair_correlations
from ..procedure.location_scale import LocationScale, ScoreRegression
from ..procedure.modes import find_modes
from ..procedure.split import Samples
from ..report.directions import check_coordinates, coordinate_units, direction, leading, shown
from ..slices import Slices, as_slices
from .correlations import Correlations
from .table import Effects, joined

if TYPE_CHECKING:
    from ..result import GofResult

FEWEST = 20  # samples below which nothing is estimated
_SLICES = 5  # of a result, strongest first
_WHOLE = 1e-9  # length below which a coordinate of a slice counts as zero
_LOOKED_AT = 20_000  # samples in which separate groups are looked for
_DIVIDED = 0.01  # part of the variance between groups from which on their weights matter


@door
def effect_sizes(
    x: ArrayLike,
    score: Score,
    *,
    slices: SlicesLike | None = None,
    names: Sequence[str] | None = None,
    chains: bool | ArrayLike | None = None,
    level: float = 0.95,
) -> Effects:
    """Estimate how far samples are shifted and stretched against a model.

    Parameters
    ----------
    x : (n, d) array or data frame, (chains, draws, d) array, or list of (draws, d) arrays
        Samples, at least 20. Names of columns become names of coordinates. An array of three axes
        and a list hold Markov chains, see `chains`.
    score : (n, d) array, callable or model
        Score of the model, as for `gof_test`.
    slices : Slices or pair (r, g), optional
        Directions to look along besides the coordinates; they must not have been found on `x`.
    names : sequence of str, optional
        Names of the coordinates.
    chains : True or (n,) array of labels, optional
        Which chain each row belongs to, for draws of Markov chains; those of a chain are in their
        order. True for one chain. By default samples are independent.
    level : float
        Confidence of the intervals, which hold for all rows at once.

    Returns
    -------
    Effects
        A table with a row for each coordinate, and one for each slice. Its `correlations` are those
        of pairs of coordinates, in the samples and in the model.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument.

    See Also
    --------
    GofResult.effects : The effect sizes of a test.

    Notes
    -----
    The module `fastsksd.effects` has the method and its limits. A coordinate that is constant, or
    has constant scores, has NaN. With fewer than about two samples for each dimension directions r
    can't be learnt, and numbers are about coordinates given the others.

    The model must not have been fitted to `x`: effects would be near none, whatever it is.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((4000, 2)) @ [[1.0, 0.8], [0.0, 0.6]] + [0.3, 0.0]
    >>> precision = np.linalg.inv([[1.0, 0.8], [0.8, 1.0]])
    >>> effects = fs.effect_sizes(x, lambda x: -x @ precision, names=["a", "b"])
    >>> [bool(low < truth < high) for (low, high), truth in zip(effects.shift_interval, [0.3, 0])]
    [True, True]
    """
    x, score, rows = flattened(x, score, chains)
    names = column_names(x) if names is None else names
    with told_as_draws(rows):
        samples = check_samples(x, min_rows=FEWEST)
    d = samples.shape[1]
    coordinates = check_coordinates(names, d)
    of_chains = as_chains(rows, samples.shape[0])
    labels = None if of_chains is None else of_chains.numbers
    with told_as_draws(rows):
        scores = evaluate_score(check_score(score), samples)
    directions = None if slices is None else as_slices(slices, d)
    effects = coordinate_effects(samples, scores, coordinates, labels)
    if directions is not None:
        found = slice_effects(samples, scores, directions, coordinates, labels)
        effects = joined(effects, found)
    return effects.at(check_probability("level", level))


def coordinate_effects(
    x: Array, scores: Array, names: Sequence[str], chain: np.ndarray | None = None
) -> Effects:
    """Effects along the coordinates; parameters are as for `effect_sizes`, and were checked."""
    regression = ScoreRegression(x, scores)
    found = regression.along(None, chain)
    effects = Effects.of(
        found, names, n_coordinates=x.shape[1], divided=_divided(x, np.eye(x.shape[1]), found)
    )
    pairs = Correlations.of(pair_correlations(regression, chain), names, effects.rough)
    return replace(effects, correlations=pairs)


def _divided(x: Array, g: Array, found: LocationScale) -> np.ndarray:
    """Directions along which the samples are in separate groups, (k,)."""
    sizes = found.sizes[np.isfinite(found.sizes)]
    if sizes.size == 0:
        return np.zeros(len(g), dtype=bool)
    every = max(1, len(x) // _LOOKED_AT)
    some, lag = x[::every], max(1.0, len(x) / sizes.min() / every)
    modes = find_modes(some, lag)
    if modes.n_modes == 1:
        return np.zeros(len(g), dtype=bool)
    y = some @ g.T
    y -= y.mean(axis=0)
    means = np.stack([y[modes.labels == k].mean(axis=0) for k in range(modes.n_modes)])
    # Means of groups differ by chance, too.
    least = max(_DIVIDED, 10.0 * lag * (modes.n_modes - 1) / len(some))
    return np.asarray(modes.weights @ means**2 > least * y.var(axis=0))


def slice_effects(
    x: Array, scores: Array, slices: Slices, names: Sequence[str], chain: np.ndarray | None = None
) -> Effects:
    """Effects along slices that were not found on these samples."""
    d = x.shape[1]
    units = coordinate_units(x, scores)
    pairs = [shown(r, g, names, units) for r, g in zip(slices.r, slices.g, strict=True)]
    signs = np.array([np.copysign(1.0, one.g[np.abs(one.g).argmax()]) for one in pairs])
    g = slices.g * signs[:, None]
    regression = ScoreRegression(x, scores)
    shear, error, size, across = regression.across(slices.r, g, chain)
    words = [
        direction(leading(sign * one.g, one.names), d)
        for sign, one in zip(signs, pairs, strict=True)
    ]
    found = regression.along(g, chain)
    return Effects.of(
        found,
        words,
        shear=(shear, error, size),
        across=[
            _said_across(one, names, units) if known else None
            for one, known in zip(across, np.isfinite(shear), strict=True)
        ],
        divided=_divided(x, g, found),
    )


def _said_across(r: Array, names: Sequence[str], units: Array | None) -> str:
    one = shown(r, r, names, units)
    return direction(leading(one.r, one.names), r.size)


def effects_of(
    result: GofResult,
    x: ArrayLike | None = None,
    score: Score | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Effects:
    """Effects of a result, see `GofResult.effects`; along its slices in other samples, if given."""
    if x is not None and score is not None:
        other = check_samples(
            x, min_rows=FEWEST, d=None if result.slices is None else result.slices.d
        )
        whole = tested = Samples(
            other, evaluate_score(check_score(score), other), np.arange(len(other))
        )
        labels = None
    else:
        if result.fitted is not None and result.fitted.same_samples:
            raise ArgumentError(
                "fit",
                "was to the same samples, so that shifts and stretches are near those of a right "
                "model whatever it is: give other samples for effect sizes",
            )
        whole = _held(result._whole, result.weighted).in_order()
        tested = cast(Samples, result._samples).in_order()
        labels = result._chain
    if labels is None and result.lag > 2:
        labels = np.zeros(int(whole.rows.max()) + 1, dtype=int)  # draws may have been left out
    coordinates = check_coordinates(result.names if names is None else names, whole.x.shape[1])
    chain = None if labels is None else labels[whole.rows]
    effects = coordinate_effects(whole.x, cast(Array, whole.scores), coordinates, chain)
    if result.slices is None or len(tested.x) < FEWEST:
        return effects
    order = np.argsort(-result.slice_statistics, kind="stable")
    order = order[~is_coordinate(result.slices)[order]][:_SLICES]
    if order.size == 0:
        return effects
    chain = None if labels is None else labels[tested.rows]
    slices = Slices(result.slices.r[order], result.slices.g[order])
    found = slice_effects(tested.x, cast(Array, tested.scores), slices, coordinates, chain)
    return joined(effects, found)


def has_effects(result: GofResult) -> bool:
    """Whether the result holds all that its effects need."""
    whole = result._whole
    if result.fitted is not None and result.fitted.same_samples:
        return False
    return whole is not None and whole.scores is not None and len(whole.x) >= FEWEST


def _held(samples: Samples | None, weighted: bool) -> Samples:
    """Samples of a result, with scores and enough of them."""
    if samples is None:
        raise ArgumentError(
            "x",
            "is not known: this result holds no samples, like those of gof_stream and gof_batch",
        )
    if samples.scores is None:
        raise ArgumentError("method", "needs no score, so that there are no effect sizes")
    if len(samples.x) < FEWEST:
        count = f"their weights leave {len(samples.x)}" if weighted else f"got {len(samples.x)}"
        raise ArgumentError("x", f"must hold at least {FEWEST} samples for effect sizes; {count}")
    return samples


def is_coordinate(slices: Slices) -> np.ndarray:
    """Which slices look along one coordinate, r and g alike."""
    both = np.maximum(np.abs(slices.r), np.abs(slices.g))
    return np.count_nonzero(both > _WHOLE, axis=1) == 1
