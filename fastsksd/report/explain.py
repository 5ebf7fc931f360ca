"""What a test saw: where along each slice the model fails, which slices and which samples matter.

**Contribution of a sample.** ``c_i = sum_slices mean_{j != i} mu_ij``. The mean of the
contributions is the statistic.

**P-values of slices.** Each slice's statistic is compared with its own null distribution. With
null="wild" or "bootstrap" all slices share their replicates, and the adjusted p-values are those of
Westfall and Young (1993): step-down on the joint replicates, which allows for the dependence of the
slices. With null="spectral" they are Holm's. In addition, slices of the tested samples are never
more significant than the whole test. With a correct model the chance that any slice is marked is
therefore at most the level, even though the strongest member of a family was selected. Measured
with 40 samples in 2 dimensions, the default family and 200 tests at level 0.05: 0.02, and 0.27
without that last step.

**Conditional, not marginal.** A slice compares scores along r, that is the conditional density of
the model along r given the other coordinates. What an explanation says about the samples along a
direction holds given the other coordinates; the marginal may look different.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from .._typing import Array, ArrayLike, Rng, Score
from .._validate import (
    ArgumentError,
    Option,
    check_integer,
    check_probability,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
)
from ..baselines import BASELINES
from ..baselines.base import Baseline
from ..compute.chi_square import SMALLEST, limit_weights, log_tail_of_weighted_chi_square
from ..compute.projections import project
from ..discrepancy import Estimate
from ..engines import PairEngine, choose_engine
from ..engines.direct import DirectEngine
from ..engines.folded import FoldedEngine, FoldPair
from ..engines.pairs import statistic as pair_statistic
from ..kernels import KERNELS, Kernel
from ..procedure.chains import RowsOfChains
from ..procedure.combine import step_down
from ..procedure.nulls import Weights, check_resamples, resampling_pvalue, resampling_scale
from ..procedure.plan import TAKES_OVER
from ..procedure.split import Samples
from ..procedure.stretches import consecutive
from ..slices import Slices
from .caveats import caveats_of_outliers, caveats_of_samples
from .directions import ALIGNED, check_coordinates, coordinate_units, direction, leading, shown
from .explanation import Explanation, SliceExplanation
from .rates import holm
from .witness import Witness, moments_of, witness_of

if TYPE_CHECKING:
    from ..result import GofResult

_DRAWS = 1000  # that are listed with their chains
_MOST_WEIGHTS = 1.5e8  # resamples x samples x slices, beyond which fewer resamples are drawn
_LEAST_RESAMPLES = 199


def explain(
    result: GofResult,
    x: ArrayLike | None = None,
    score: Score | None = None,
    *,
    names: Sequence[str] | None = None,
    n_slices: int = 5,
    level: float = 0.95,
    n_resamples: int = 1000,
    rng: Rng = 0,
) -> Explanation:
    """Explain a result, see `GofResult.explain`."""
    n_slices = check_integer("n_slices", n_slices, 1)
    level = check_probability("level", level)
    n_resamples = check_resamples(n_resamples)
    rng = check_rng(rng)
    _check_explicable(result)
    samples, tested = samples_of(result, x, score)
    names = check_coordinates(result.names if names is None else names, samples.x.shape[1])
    if result.slices is None:
        return _explanation_without_slices(result, samples, names, tested)
    loaded = _load(result, result.slices, samples)
    if tested:
        loaded = loaded._replace(fold_pairs=result._fold_pairs)
    statistics, pvalues, adjusted, allows_for = _slice_pvalues(result, loaded, n_resamples, rng)
    if result.draws_needed:
        pvalues, adjusted = np.full_like(pvalues, np.nan), np.full_like(adjusted, np.nan)
    if tested:
        if not result.weighted:
            _check_unchanged(result, statistics)
        adjusted = np.maximum(adjusted, result.pvalue)
        allows_for += ", and are never below that of the whole test"
    positive = np.maximum(statistics, 0.0)
    fractions = positive / (positive.sum() or 1.0)
    order = np.argsort(-statistics, kind="stable")
    values = dict(
        statistic=statistics, fraction=fractions, pvalue=pvalues, pvalue_adjusted=adjusted
    )
    explained = [
        _explained_slice(loaded, q, values, names, level, rng) for q in order[:n_slices].tolist()
    ]
    contributions = _contributions(loaded.engine(slice(None)))
    along = _oriented(loaded, order[0], names).y
    caveats = caveats_of_samples(result, samples, order[0], names)
    whole = result._whole if tested and result._whole is not None else samples
    outliers = caveats_of_outliers(
        (samples.rows, loaded.y[order[:n_slices]]),
        (whole.rows, whole.x.T),
        chains=_chains(result) if tested else None,
    )
    ranked = _sorted(samples.rows, contributions, along)
    return Explanation(
        tuple(explained),
        statistics,
        pvalues,
        adjusted,
        allows_for,
        *ranked,
        names,
        caveats + outliers,
        _draws(result, ranked[0]) if tested else None,
    )


def _explained_slice(
    loaded: _Loaded,
    q: int,
    values: Mapping[str, Array],
    names: Sequence[str],
    level: float,
    rng: np.random.Generator,
) -> SliceExplanation:
    """The explanation of slice q; `values` of all slices are fields of it."""
    side = _oriented(loaded, q, names)
    witness = _witness(loaded, side, level, rng)
    push, spread = moments_of(side.y, side.s, side.a, loaded.samples.stretch)
    return SliceExplanation(
        index=q,
        r=side.r,
        g=side.g,
        bandwidth=side.h,
        leading_r=leading(side.r, side.names),
        leading_g=leading(side.g, side.names),
        witness=witness,
        push=push,
        spread=spread,
        shape=_shape(witness, side.a, push, spread),
        **{name: float(array[q]) for name, array in values.items()},
    )


def strongest_witness(result: GofResult, slices: Slices) -> tuple[Witness, str, bool]:
    """Witness of the strongest slice, its direction g in words, and whether r and g are close.

    It is cheaper than an explanation, which computes p-values of all slices.
    """
    samples, _ = samples_of(result, None, None)
    loaded, q = _load(result, slices, samples), int(np.argmax(result.slice_statistics))
    names = check_coordinates(result.names, slices.d)
    side = _oriented(loaded, q, names)
    witness = _witness(loaded, side, 0.95, check_rng(0))
    along = direction(leading(side.g, side.names), slices.d)
    return witness, along, bool(abs(side.a) >= ALIGNED)


def baseline_of(result: GofResult) -> Baseline:
    """The baseline that a result is of; `Baseline` itself for the sliced test.

    Results that were read from a file have only its name.
    """
    return result._baseline or BASELINES.get(result.method, Baseline)()


def is_explicable(result: GofResult) -> bool:
    """Whether the result holds all that an explanation needs."""
    return result._samples is not None and _has_contributions(result)


def _has_contributions(result: GofResult) -> bool:
    return result.slices is not None or baseline_of(result).explicable


def _check_explicable(result: GofResult) -> None:
    if _has_contributions(result):
        return
    *others, last = [repr(name) for name, kind in BASELINES.items() if kind.explicable]
    raise ArgumentError(
        "method",
        f"{result.method!r} has neither slices nor contributions of single samples to explain; ",
        Option("method", "sksd"),
        f" has both, {', '.join(others)} and {last} have contributions",
    )


def samples_of(result: GofResult, x: ArrayLike | None, score: Score | None) -> tuple[Samples, bool]:
    """Samples to look at, in the caller's order, and whether they are those of the test."""
    if x is None and score is None:
        if result._samples is None:
            raise ArgumentError(
                "x",
                "and ",
                Option("score"),
                " are needed: this result holds no samples, like those of gof_stream and "
                "gof_batch. They must not be the samples the slices were found on",
            )
        samples = result._samples
        # Draws of chains stay in their stretches, samples with bandwidths from others in folds.
        in_parts = samples.stretch is not None or result._fold_pairs
        return samples if in_parts else samples.in_order(), True
    if x is None or score is None:
        missing, given = ("x", "score") if x is None else ("score", "x")
        raise ArgumentError(missing, "is missing: it goes together with ", Option(given))
    x = check_samples(x, min_rows=2, d=None if result.slices is None else result.slices.d)
    n = x.shape[0]
    scores, stretch = evaluate_score(check_score(score), x), consecutive(n, result.lag)
    return Samples(x, scores, np.arange(n), stretch), False


class _Loaded(NamedTuple):
    """Projections of the samples along all slices; `y` is centred at `places`."""

    samples: Samples
    kernel: type[Kernel]
    slices: Slices
    y: Array
    s: Array
    a: Array
    h: Array
    units: Array
    places: Array
    choose: Callable[..., Any]
    coordinate_units: Array | None
    fold_pairs: tuple[FoldPair, ...] = ()

    def engine(self, some: Any, **demand: Any) -> Any:
        """The engine of some slices, in the units of the test."""
        y, s, a = self.y[some], self.units[some, None] * self.s[some], (self.units * self.a)[some]
        if self.fold_pairs:
            pairs = [pair.of(some) for pair in self.fold_pairs]
            return FoldedEngine(self.kernel.code, y, s, a, pairs, DirectEngine)
        arrays = (np.ascontiguousarray(array) for array in (y, s, a, self.h[some]))
        return self.choose(self.kernel.code, *arrays, **demand)


class _Oriented(NamedTuple):
    """A slice as in `SliceExplanation`, with samples along g and scores along r."""

    r: Array
    g: Array
    y: Array
    s: Array
    a: float
    h: float
    names: tuple[str, ...]


def _load(result: GofResult, slices: Slices, samples: Samples) -> _Loaded:
    kernel = KERNELS[result.kernel]
    scores = cast(Array, samples.scores)
    centre = np.median(samples.x, axis=0)  # which would cost projections their digits
    y, s, a, h = project(samples.x - centre, scores, slices, kernel(result.bandwidths))
    units = np.ones(len(slices)) if result.slice_units is None else result.slice_units
    places = np.einsum("md,d->m", slices.g, centre)
    engine = choose_engine("cpu")
    own = coordinate_units(samples.x, scores)
    return _Loaded(samples, kernel, slices, y, s, a, h, units, places, engine, own)


def _oriented(loaded: _Loaded, q: int, names: Sequence[str]) -> _Oriented:
    r, g, names, r_unit, g_unit = shown(
        loaded.slices.r[q], loaded.slices.g[q], names, loaded.coordinate_units
    )
    sign_g = np.copysign(1.0, g[np.argmax(np.abs(g))])
    along = sign_g * (r @ g)
    sign_r = np.copysign(1.0, along if abs(along) >= ALIGNED else r[np.argmax(np.abs(r))])
    r, g = sign_r * r, sign_g * g
    y = sign_g / g_unit * (loaded.y[q] + loaded.places[q])
    s = sign_r / r_unit * loaded.s[q]
    return _Oriented(r, g, y, s, float(r @ g), float(loaded.h[q]) / g_unit, names)


def _witness(loaded: _Loaded, side: _Oriented, level: float, rng: np.random.Generator) -> Witness:
    stretch = loaded.samples.stretch
    return witness_of(loaded.kernel.code, side.y, side.s, side.a, side.h, stretch, level, rng)


def _slice_pvalues(
    result: GofResult, loaded: _Loaded, n_resamples: int, rng: np.random.Generator
) -> tuple[Array, Array, Array, str]:
    """Statistics, p-values and adjusted p-values of all slices, and what the latter allow for."""
    m, n = loaded.y.shape
    slices = f"the {m} slices" if m > 1 else "the one slice"
    if result.null == "spectral":
        statistics, logs = np.empty(m), np.empty(m)
        for q in range(m):
            pairs = loaded.engine([q], spectral=True)
            statistics[q] = pair_statistic(pairs, pairs.sums(), "u")[0]
            logs[q] = log_tail_of_weighted_chi_square(
                limit_weights(pairs.spectrum(), n), statistics[q]
            )
        return statistics, _positive(logs), _positive(holm(logs)), f"{slices} by Holm's method"
    count = n_resamples
    if n_resamples > _LEAST_RESAMPLES:
        count = int(max(_LEAST_RESAMPLES, min(n_resamples, _MOST_WEIGHTS / (n * m))))
    null = "wild" if result.null == "refits" else result.null  # refits have no weights of samples
    weights = Weights(null, n, count, stretch=loaded.samples.stretch, rng=rng)
    engines = [loaded.engine([q], n_resamples=count, signs=null == "wild") for q in range(m)]
    sums, parts = np.empty(m), []
    for batch in weights.batches():
        part = np.empty((m, batch.shape[0]))
        for q, pairs in enumerate(engines):
            total, part[q] = pairs.sums_and_replicates(batch)
            sums[q] = total[0]
        parts.append(part)
    replicates = resampling_scale(null, n) * np.concatenate(parts, axis=1)
    statistics = sums / (n * (n - 1.0))
    pvalues = np.array(
        [resampling_pvalue(value, row) for value, row in zip(statistics, replicates, strict=True)]
    )
    return (
        statistics,
        pvalues,
        step_down(statistics, replicates),
        f"{slices} by Westfall and Young's step-down method, {count} resamples",
    )


def _positive(logs: Array) -> Array:
    return np.maximum(np.exp(logs), SMALLEST)


def _check_unchanged(result: GofResult, statistics: Array) -> None:
    known = result.slice_statistics
    # Kernels of many samples fade in heavy tails, see `grouped`; here they do not.
    slack = 100.0 if result.n_test > TAKES_OVER else 1.0
    largest = np.abs(known).max()
    if not np.allclose(statistics, known, rtol=1e-4 * slack, atol=1e-6 * slack * largest):
        raise ArgumentError(
            "x",
            "was changed after the test, which keeps no copy of the samples: give ",
            Option("x"),
            " and ",
            Option("score"),
            " as they were, or test again",
        )


def _explanation_without_slices(
    result: GofResult, samples: Samples, names: tuple[str, ...], tested: bool
) -> Explanation:
    pairs = cast(PairEngine, baseline_of(result).pair_terms(result, samples))
    if tested and not result.weighted:
        _check_unchanged(result, pair_statistic(pairs, pairs.sums(), "u"))
    ranked = _sorted(samples.rows, _contributions(pairs), np.empty(0))
    caveats = caveats_of_samples(result, samples, None, names)
    none = np.empty(0)
    draws = _draws(result, ranked[0]) if tested else None
    return Explanation((), none, none, none, "", *ranked, names, caveats, draws)


def _contributions(pairs: Any) -> Array:
    return pairs.row_sums() / (pairs.n - 1.0)


def _chains(result: GofResult) -> RowsOfChains | None:
    """Which chain each row is a draw of; None where there are not several chains."""
    report, chain = result.chains, result._chain
    if report is None or chain is None or len(report.chains) == 1:
        return None
    return RowsOfChains(tuple(one.chain for one in report.chains), chain)


def _draws(result: GofResult, rows: np.ndarray) -> tuple[tuple[Any, int], ...] | None:
    """Chain and draw of some rows; None where there are not several chains."""
    chains = _chains(result)
    return None if chains is None else chains.draws(rows[:_DRAWS])


def _sorted(rows: Array, values: Array, along: Array) -> tuple[Array, Array, Array]:
    """All three by decreasing values."""
    order = np.argsort(-values, kind="stable")
    return rows[order], values[order], along[order] if along.size else along


def _shape(witness: Witness, along: float, push: Estimate, spread: Estimate) -> str:
    """What they say together, see `SliceExplanation`."""
    signs = tuple(region.sign for region in witness.regions)
    if not signs:
        return "none"
    pushed = _side(push.value, push.standard_error)
    if signs == (pushed,):
        return "low" if pushed > 0 else "high"
    if along < ALIGNED:
        return "across"
    excess = 0
    if _holds_at_the_ends(witness, signs):
        excess = _side(spread.value - 1.0, spread.standard_error)
    if signs == (-1, 1):
        return "narrow" if excess < 0 else "peaked"
    if signs == (1, -1):
        return "wide" if excess > 0 else "hollow"
    if signs == (1, -1, 1, -1):
        return "tails"
    return "flat" if signs == (-1, 1, -1, 1) else "irregular"


def _holds_at_the_ends(witness: Witness, signs: tuple[int, ...]) -> bool:
    """Whether the witness keeps the signs of its outermost regions to the ends of the grid.

    In heavy or light tails it does not.
    """
    ends = [0, -1]
    half = 0.5 * (witness.upper - witness.lower)[ends]
    return bool(np.all(np.array([signs[0], signs[-1]]) * witness.values[ends] > -0.25 * half))


def _side(value: float, error: float) -> int:
    """The sign of a value that is more than three standard errors from zero, else 0."""
    return int(np.sign(value)) if abs(value) > 3.0 * error else 0
