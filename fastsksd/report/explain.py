"""What a test saw: where along each slice the model fails and how surely, which slices carry the statistic, which samples.

Contribution of a sample: ``c_i = sum_slices mean_{j != i} mu_ij``; their mean is the statistic.

P-values of slices: each slice's statistic against its own null. With null="wild" or "bootstrap" all slices share their replicates, and the adjusted
p-values are those of Westfall and Young (1993), step-down on the joint replicates, which allow for the slices' dependence; with
null="spectral" they are Holm's. Slices of the tested samples themselves are moreover never more significant than the whole test: so with a true model
the chance that any slice is marked is at most the level, the choice of the strongest member of a family included. Measured, 40 samples in 2 dimensions, the
default family, 200 tests at level 0.05: 0.02, and 0.27 without that last step.
"""

from dataclasses import dataclass
from html import escape
from typing import NamedTuple

import numpy as np

from .._validate import (
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
)
from ..baselines.features import FeaturePairs
from ..baselines.fssd import stein_features
from ..compute.chi_square import limit_law, log_tail_of_weighted_chi_square
from ..compute.linalg import gram
from ..compute.projections import project
from ..discrepancy import Estimate
from ..engines import choose_engine
from ..engines.multivariate import ksd_pairs
from ..engines.pairs import statistic as pair_statistic
from ..kernels import KERNELS
from ..procedure.combine import step_down
from ..procedure.lags import FACTOR, autocorrelation_time
from ..procedure.nulls import Weights, resampling_pvalue, resampling_scale
from ..procedure.split import Samples
from ..slices import Slices
from .witness import Witness, moments_of, witness_of

_MOST_WEIGHTS = 1.5e8  # resamples x samples x slices, beyond which fewer resamples are drawn
_LEAST_RESAMPLES = 199
_FAR = 30.0  # interquartile ranges from the median
ALIKE = 0.7  # r.g from which r and g count as one direction
# Methods without slices whose statistic is a sum over pairs of samples.
_PAIRED = ("ksd", "ksdagg", "fssd")


@dataclass(frozen=True, eq=False)
class SliceExplanation:
    """What one slice saw.

    Directions have signs such that the largest coordinate of g is positive, and that r points the same way as g where they are alike (``|r.g| >= 0.7``), else
    its largest coordinate is positive too.

    Attributes
    ----------
    index : int
        Which of the result's slices.
    r, g : (d,) arrays
        Directions of the score and of the input.
    statistic, bandwidth : float
    share : float
        Of the sum of the slices' statistics, those below zero left out.
    pvalue, pvalue_adjusted : float
        Of this slice alone, and allowing for the number of slices, see `fastsksd.report.explain`.
    leading_r, leading_g : tuple of (name, weight)
        Coordinates that carry the directions, largest first.
    witness : Witness
    push, spread : Estimate
        ``mean s_i``, which is 0 for a right model (positive: the model pushes samples along r), and ``-mean s_i (y_i - mean y) / a``, which is 1 (for a
        normal model the ratio of the samples' variance to the model's), with standard errors; spread is NaN when r and g are orthogonal.
    shape : str
        What witness, push and spread together say of the samples along g, against the model given the other coordinates: "narrow", "wide", "low", "high"; with
        no proof that their spread is wrong "peaked" (too many in the middle), "hollow" (too few), "tails" (too many in the middle and far out), "flat"
        (too few there); "irregular"; "none" (the band never excludes zero). Where r and g are not alike, "low" and "high" are about the
        samples along r, and anything else is "across": how they lie along r depends on g otherwise than in the model.
    """

    index: int
    r: np.ndarray
    g: np.ndarray
    statistic: float
    bandwidth: float
    share: float
    pvalue: float
    pvalue_adjusted: float
    leading_r: tuple
    leading_g: tuple
    witness: Witness
    push: Estimate
    spread: Estimate
    shape: str

    def __repr__(self):
        return (
            f"SliceExplanation(slice {self.index}, share {self.share:.0%}, p-value {self.pvalue_adjusted:.4g} adjusted, "
            f"{self.shape}, g = {direction(self.leading_g, self.g.size)})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What a test saw, as data.

    Attributes
    ----------
    slices : tuple of SliceExplanation
        The strongest slices, strongest first; empty for methods without slices.
    statistics, pvalues, pvalues_adjusted : (m,) arrays
        Of all slices, in the order of the result's.
    allows_for : str
        What the adjusted p-values allow for.
    indices, contributions : (n,) arrays
        Rows of the samples that were looked at, in the caller's array, and what each adds to the statistic, largest first; their mean is the statistic.
    along : (n,) array
        Where these samples lie along g of the strongest slice; empty without slices.
    names : tuple of str
        Names of the coordinates.
    caveats : tuple of str
        What a reader should know before relying on it.
    """

    slices: tuple
    statistics: np.ndarray
    pvalues: np.ndarray
    pvalues_adjusted: np.ndarray
    allows_for: str
    indices: np.ndarray
    contributions: np.ndarray
    along: np.ndarray
    names: tuple
    caveats: tuple

    def to_dict(self, samples=20):
        """All of it as plain data that JSON can hold, with so many of the samples, or None for all."""
        count = None if samples is None else check_integer("samples", samples, 0)
        return {
            "slices": [
                {
                    "index": one.index,
                    "statistic": one.statistic,
                    "share": one.share,
                    "pvalue": one.pvalue,
                    "pvalue_adjusted": one.pvalue_adjusted,
                    "bandwidth": one.bandwidth,
                    "shape": one.shape,
                    "push": one.push._asdict(),
                    "spread": one.spread._asdict() if np.isfinite(one.spread.value) else None,
                    "r": one.r.tolist(),
                    "g": one.g.tolist(),
                    "leading_r": [list(pair) for pair in one.leading_r],
                    "leading_g": [list(pair) for pair in one.leading_g],
                    "witness": {
                        name: getattr(one.witness, name).tolist()
                        for name in ("grid", "values", "lower", "upper", "density")
                    }
                    | {
                        "level": one.witness.level,
                        "regions": [region._asdict() for region in one.witness.regions],
                    },
                }
                for one in self.slices
            ],
            "statistics": self.statistics.tolist(),
            "pvalues": self.pvalues.tolist(),
            "pvalues_adjusted": self.pvalues_adjusted.tolist(),
            "allows_for": self.allows_for,
            "samples": {
                "indices": self.indices[:count].tolist(),
                "contributions": self.contributions[:count].tolist(),
            },
            "names": list(self.names),
            "caveats": list(self.caveats),
        }

    def _table(self):
        rows = [("slice", "share", "p-value", "adjusted", "along g", "shape")]
        d = len(self.names)
        for one in self.slices:
            numbers = f"{one.share:.0%}", f"{one.pvalue:.3g}", f"{one.pvalue_adjusted:.3g}"
            rows.append((str(one.index), *numbers, direction(one.leading_g, d), one.shape))
        return rows if len(rows) > 1 else []

    def _notes(self):
        notes = []
        left = self.statistics.size - len(self.slices)
        if self.slices and left:
            notes.append(f"{left} more slices have smaller statistics")
        if self.slices:
            notes.append(f"adjusted p-values allow for {self.allows_for}")
        worst = ", ".join(map(str, self.indices[:5].tolist()))
        notes.append(f"samples that misfit most (of {self.indices.size}): {worst}")
        return [*notes, *self.caveats]

    def __repr__(self):
        rows = self._table()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n  ".join(["Explanation", *lines, *self._notes()])

    def _repr_html_(self):
        rows = [[escape(cell) for cell in row] for row in self._table()]
        tags = ["th", *["td"] * len(rows)]
        body = "".join(
            "<tr>"
            + "".join(f"<{tag} style='text-align:left'>{cell}</{tag}>" for cell in row)
            + "</tr>"
            for tag, row in zip(tags, rows, strict=False)
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self._notes())
        return f"<table><caption>Explanation</caption>{body}</table><ul>{notes}</ul>"


def explain(
    result, x=None, score=None, *, names=None, n_slices=5, level=0.95, n_resamples=1000, rng=0
):
    """See `GofResult.explain`."""
    n_slices = check_integer("n_slices", n_slices, 1)
    level = check_level(level)
    n_resamples = check_integer("n_resamples", n_resamples, 1)
    rng = check_rng(rng)
    if result.slices is None and result.method not in _PAIRED:
        raise ValueError(
            f"method={result.method!r} has neither slices nor contributions of single samples to explain; method='sksd' has both, 'ksd' and 'fssd' "
            "the latter."
        )
    samples, own = samples_of(result, x, score)
    names = check_coordinates(result.names if names is None else names, samples.x.shape[1])
    if result.slices is None:
        indices, values, along = _sorted(
            samples.rows, _contributions(_baseline_pairs(result, samples)), np.empty(0)
        )
        return Explanation(
            (),
            *[np.empty(0)] * 3,
            "",
            indices,
            values,
            along,
            names,
            _caveats(result, samples, None),
        )
    loaded = _load(result, samples)
    statistics, pvalues, adjusted, allows_for = _slice_pvalues(result, loaded, n_resamples, rng)
    if own:
        _check_unchanged(result, statistics)
        adjusted = np.maximum(adjusted, result.pvalue)
        allows_for += ", and are never below that of the whole test"
    positive = np.maximum(statistics, 0.0)
    shares = positive / (positive.sum() or 1.0)
    order = np.argsort(-statistics, kind="stable")
    explained = []
    for q in order[:n_slices].tolist():
        r, g, y, slope = _oriented(loaded, q)
        witness = witness_of(
            loaded.kernel.code, y, slope, float(r @ g), loaded.h[q], result.lag, level, rng
        )
        push, spread = moments_of(y, slope, float(r @ g), result.lag)
        explained.append(
            SliceExplanation(
                index=q,
                r=r,
                g=g,
                statistic=float(statistics[q]),
                bandwidth=float(loaded.h[q]),
                share=float(shares[q]),
                pvalue=float(pvalues[q]),
                pvalue_adjusted=float(adjusted[q]),
                leading_r=leading(r, names),
                leading_g=leading(g, names),
                witness=witness,
                push=push,
                spread=spread,
                shape=_shape(witness, float(r @ g), push, spread),
            )
        )
    contributions = _contributions(loaded.engine(slice(None)))
    along = _oriented(loaded, order[0])[2]
    caveats = _caveats(result, samples, order[0]) + _far_out(
        samples.rows, loaded.y[order[:n_slices]]
    )
    return Explanation(
        tuple(explained),
        statistics,
        pvalues,
        adjusted,
        allows_for,
        *_sorted(samples.rows, contributions, along),
        names,
        caveats,
    )


def strongest_witness(result, names=None, level=0.95, rng=0):
    """The witness of the strongest slice, the name of its direction g, and whether r is alike; without the price of p-values."""
    samples, _ = samples_of(result, None, None)
    loaded, q = _load(result, samples), int(np.argmax(result.slice_statistics))
    r, g, y, slope = _oriented(loaded, q)
    witness = witness_of(
        loaded.kernel.code, y, slope, float(r @ g), loaded.h[q], result.lag, level, check_rng(rng)
    )
    names = check_coordinates(result.names if names is None else names, g.size)
    return witness, direction(leading(g, names), g.size), bool(abs(r @ g) >= ALIKE)


def is_explicable(result):
    """Whether the result holds all that an explanation needs."""
    return result._samples is not None and (result.slices is not None or result.method in _PAIRED)


def samples_of(result, x, score):
    """Samples to look at, in their order, and whether they are those of the test."""
    if x is None and score is None:
        if result._samples is None:
            raise ValueError(
                "this result holds no samples, as those of gof_stream and gof_batch: give `x` and `score`, with samples that its slices were not "
                "found on, or run gof_test for this problem."
            )
        samples = result._samples
        order = np.argsort(samples.rows, kind="stable")
        if np.array_equal(order, np.arange(order.size)):
            return samples, True
        return Samples(*(None if part is None else part[order] for part in samples)), True
    if x is None or score is None:
        raise ValueError(
            f"`{'x' if x is None else 'score'}` is missing: `x` and `score` go together."
        )
    x = check_samples(x, min_rows=2, d=None if result.slices is None else result.slices.d)
    return Samples(x, evaluate_score(check_score(score), x), np.arange(x.shape[0])), False


class _Loaded(NamedTuple):
    """Projections of the samples along all slices."""

    kernel: type
    whole: Slices
    y: np.ndarray
    s: np.ndarray
    a: np.ndarray
    h: np.ndarray
    choose: object

    def engine(self, some, **demand):
        """The engine of some slices."""
        arrays = (np.ascontiguousarray(array[some]) for array in (self.y, self.s, self.a, self.h))
        return self.choose(self.kernel.code, *arrays, **demand)


def _load(result, samples):
    kernel = KERNELS[result.kernel]
    y, s, a, h = project(samples.x, samples.scores, result.slices, kernel(result.bandwidths))
    return _Loaded(kernel, result.slices, y, s, a, h, choose_engine("cpu"))


def _slice_pvalues(result, loaded, n_resamples, rng):
    """Statistics, p-values and adjusted p-values of all slices, and what the latter allow for."""
    m, n = loaded.y.shape
    slices = f"the {m} slices" if m > 1 else "the one slice"
    if result.null == "spectral":
        statistics, logs = np.empty(m), np.empty(m)
        for q in range(m):
            pairs = loaded.engine([q], spectral=True)
            statistics[q] = pair_statistic(pairs, pairs.sums(), "u")[0]
            logs[q] = log_tail_of_weighted_chi_square(limit_law(pairs.spectrum(), n), statistics[q])
        return statistics, _positive(logs), _positive(_holm(logs)), f"{slices} by Holm's method"
    count = (
        int(max(_LEAST_RESAMPLES, min(n_resamples, _MOST_WEIGHTS / (n * m))))
        if n_resamples > _LEAST_RESAMPLES
        else n_resamples
    )
    weights = Weights(result.null, n, count, lag=result.lag, rng=rng)
    engines = [loaded.engine([q], n_resamples=count, signs=result.null == "wild") for q in range(m)]
    sums, parts = np.empty(m), []
    for batch in weights.batches():
        part = np.empty((m, batch.shape[0]))
        for q, pairs in enumerate(engines):
            total, part[q] = pairs.sums_and_replicates(batch)
            sums[q] = total[0]
        parts.append(part)
    replicates = resampling_scale(result.null, n) * np.concatenate(parts, axis=1)
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


def _holm(logs):
    """Logarithms of Holm's adjusted p-values."""
    order = np.argsort(logs, kind="stable")
    adjusted = np.empty_like(logs)
    adjusted[order] = np.maximum.accumulate(logs[order] + np.log(np.arange(logs.size, 0, -1)))
    return np.minimum(adjusted, 0.0)


def _positive(logs):
    return np.maximum(np.exp(logs), np.nextafter(0.0, 1.0))


def _check_unchanged(result, statistics):
    if not np.allclose(
        statistics,
        result.slice_statistics,
        rtol=1e-4,
        atol=1e-6 * np.abs(result.slice_statistics).max(),
    ):
        raise ValueError(
            "the samples were changed after the test, which keeps no copy of them: give `x` and `score` as they were, or test again."
        )


def _contributions(pairs):
    return pairs.row_sums() / (pairs.n - 1.0)


def _sorted(index, values, along):
    """All three by decreasing values."""
    order = np.argsort(-values, kind="stable")
    return index[order], values[order], along[order] if along.size else along


def _baseline_pairs(result, samples):
    """Pair terms of a method without slices."""
    if result.method in ("ksd", "ksdagg"):
        return ksd_pairs(samples.x, samples.scores, KERNELS[result.kernel](result.bandwidths[0]))[0]
    code = KERNELS[result.kernel].code
    return FeaturePairs(
        stein_features(code, samples.x, samples.scores, result.locations, result.bandwidths[0])
    )


def _oriented(loaded, q):
    """r, g, the samples along g and the scores along r of slice q, with signs as in `SliceExplanation`."""
    r, g = loaded.whole.r[q], loaded.whole.g[q]
    sign_g = np.copysign(1.0, g[np.argmax(np.abs(g))])
    along = sign_g * (r @ g)
    sign_r = np.copysign(1.0, along if abs(along) >= ALIKE else r[np.argmax(np.abs(r))])
    return sign_r * r, sign_g * g, sign_g * loaded.y[q], sign_r * loaded.s[q]


def _shape(witness, along, push, spread):
    """What they say, see `SliceExplanation`."""
    signs = tuple(region.sign for region in witness.regions)
    if not signs:
        return "none"
    pushed = _side(push.value, push.standard_error)
    if signs == (pushed,):
        return "low" if pushed > 0 else "high"
    if along < ALIKE:
        return "across"
    spread_out = (
        _side(spread.value - 1.0, spread.standard_error)
        if _holds_at_the_ends(witness, signs)
        else 0
    )
    if signs == (-1, 1):
        return "narrow" if spread_out < 0 else "peaked"
    if signs == (1, -1):
        return "wide" if spread_out > 0 else "hollow"
    return {(1, -1, 1, -1): "tails", (-1, 1, -1, 1): "flat"}.get(signs, "irregular")


def _holds_at_the_ends(witness, signs):
    """Whether the witness keeps the signs of its outermost regions to the ends of the grid, which in heavy or light tails it does not."""
    ends = [0, -1]
    half = 0.5 * (witness.upper - witness.lower)[ends]
    return bool(np.all(np.array([signs[0], signs[-1]]) * witness.values[ends] > -0.25 * half))


def _side(value, error):
    """The sign of a value that is more than three standard errors from zero, else 0."""
    return int(np.sign(value)) if abs(value) > 3.0 * error else 0


def leading(vector, names, count=3):
    """The coordinates that carry a direction, largest first, up to `count`, with their weights."""
    order = np.argsort(-np.abs(vector), kind="stable")[:count]
    return tuple((names[k], float(vector[k])) for k in order.tolist() if vector[k] != 0)


def direction(pairs, d):
    """A direction in words, from its leading coordinates."""
    return " ".join(direction_terms(pairs, d))


def direction_terms(pairs, d):
    """The same, coordinate by coordinate."""
    if abs(pairs[0][1]) > 0.995:
        return [pairs[0][0] if pairs[0][1] > 0 else f"-{pairs[0][0]}"]
    pairs = [pairs[0], *(pair for pair in pairs[1:] if abs(pair[1]) > 0.05)]
    terms = [
        f"{'-' if weight < 0 else '+' if k else ''}{abs(weight):.2f} {name}"
        for k, (name, weight) in enumerate(pairs)
    ]
    rest = 1.0 - sum(weight**2 for _, weight in pairs)
    return [*terms, "..."] if d > len(pairs) and rest > 0.01 else terms


def check_coordinates(names, d):
    """`names` of d coordinates, by default x[0], x[1], ..."""
    if names is None:
        return tuple(f"x[{k}]" for k in range(d))
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise TypeError(
            f"`names` must be a sequence of {d} strings, one for each coordinate, not {type(names).__name__}."
        )
    names = tuple(str(name) for name in names)
    if len(names) != d:
        raise ValueError(
            f"`names` must have one name for each of {d} coordinates; got {len(names)}."
        )
    return names


def check_level(level):
    """`level` of confidence, between 0 and 1."""
    level = check_number("level", level, 0.0, strict=True)
    if level >= 1:
        raise ValueError(f"`level` must be less than 1; got {level}.")
    return level


def _far_out(index, y):
    """A caveat about samples so far out along slices, (m, n), that the kernel hardly sees them."""
    first, middle, third = np.quantile(y, [0.25, 0.5, 0.75], axis=1, keepdims=True)
    distance = np.max(np.abs(y - middle) / np.where(third > first, third - first, np.inf), axis=0)
    count = np.count_nonzero(distance > _FAR)
    if count == 0:
        return ()
    which = f"{count} samples lie" if count > 1 else "a sample lies"
    return (
        f"{which} more than {_FAR:g} interquartile ranges out (row {index[np.argmax(distance)]} farthest), where the kernel hardly sees them",
    )


def _widest(x):
    """The slice along which samples vary most."""
    axes = np.linalg.eigh(gram((x - np.median(x, axis=0)).T))[1]
    return Slices(axes[:, -1:].T, axes[:, -1:].T)


def _caveats(result, samples, strongest):
    """What a reader should know, in words; `strongest` is the number of the strongest slice, if any."""
    caveats = []
    n = samples.x.shape[0]
    if n < 100:
        caveats.append(f"only {n} samples were looked at")
    key = np.random.default_rng(0).standard_normal(samples.x.shape[1])
    repeats = n - len(np.unique(np.einsum("id,d->i", samples.x, key)))
    if repeats > 0.01 * n:
        caveats.append(f"{repeats} of {n} samples are exact repeats of others")
    if strongest is None:
        first, width = _widest(samples.x), "median"  # a chain is slow along it, if anywhere
    else:
        first, width = result.slices[strongest], result.bandwidths[strongest]
    if result.lag <= 2 and n >= 20:
        time = autocorrelation_time(samples.x, samples.scores, first, KERNELS[result.kernel](width))
        if time > 1.5 and time > 1.0 + 10.0 / np.sqrt(n):
            remedy = (
                "'wild', lag='auto'"
                if strongest is not None
                else f"'wild' and a `lag` of about {FACTOR * time:.2g}"
            )
            caveats.append(
                f"neighbouring samples depend on each other (autocorrelation time about {time:.2g}), which makes p-values too small: test with "
                f"null={remedy}"
            )
    if (
        first.g_gaps is not None
        and first.g_values is not None
        and first.g_gaps[0] < 0.1 * first.g_values[0]
    ):
        caveats.append(
            "the input direction g of the strongest slice is poorly determined: its eigenvalue is hardly apart from the next"
        )
    return tuple(caveats)
