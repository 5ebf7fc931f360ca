"""Refinement of slices by gradient ascent on the discrepancy ("GO" in the paper).

Adam climbs the statistic of minibatches. Slices do not interact, so a slice is a task of its own: one compiled call takes all of
them, each through many minibatches, and only these calls return to Python.
"""

import math
from typing import NamedTuple

import numba
import numpy as np

from ._progress import ProgressBar
from ._validate import (
    check_betas,
    check_choice,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
)
from .compute.jit import compiled, parallel, prefer_wide_vectors
from .compute.linalg import add_scaled, product
from .compute.medians import median_distances, median_gap
from .engines import Source, cuda, slice_gradients, takes_device
from .engines.gradients import MARGIN, one_slice_gradients
from .kernels import as_kernel
from .slices import Slices, as_slices, unit_rows

_PAIRS_PER_CALL = 50_000_000  # about a tenth of a second; between calls an interrupt is heard
_SMALL = 100_000  # pairs below which threads do not pay
_EPSILON = 1e-8  # Adam's guard against division by zero
_NS_PER_PAIR = 1.0


class _Settings(NamedTuple):
    code: int  # of the kernel
    own: bool  # pairs of a sample with itself count: V-statistic
    both: bool  # r climbs as well as g
    unit: bool  # parameters are brought back to unit length
    learning_rate: float
    beta1: float
    beta2: float
    floor: float  # bandwidths up to here are what round-off leaves of a constant


class _State(NamedTuple):
    r: np.ndarray  # parameters, (m, d): the slice is their direction
    g: np.ndarray
    moments: np.ndarray  # (2, 2, m, d): of r and of g, first and second
    steps: np.ndarray  # (m,)
    bandwidths: np.ndarray  # (m,), 0 for the median of each minibatch


class Ascent:
    """Adam climbing the statistic of given slices, batch by batch, with its state; for the arguments see `refine_slices`.

    What adversarial training needs: a model descends along the gradient in the scores while its slices climb.
    """

    def __init__(
        self,
        slices,
        *,
        kernel="rbf",
        statistic="v",
        update="g",
        parametrisation="unit",
        learning_rate=1e-3,
        betas=(0.9, 0.99),
        floor=0.0,
        engine="direct",
    ):
        kernel = as_kernel(kernel)
        m, d = slices.r.shape
        self.m = m
        self._engine = engine
        self._begin = slices
        unit = parametrisation == "unit"
        length = 1.0 if unit else math.sqrt(d)
        given = (
            np.zeros(m)
            if isinstance(kernel.bandwidth, str)
            else kernel.bandwidths(np.empty((m, 0)))
        )
        self._settings = _Settings(
            kernel.code, statistic == "v", update == "rg", unit, float(learning_rate), *betas, floor
        )
        self._state = _State(
            length * slices.r,
            length * slices.g,
            np.zeros((2, 2, m, d)),
            np.zeros(m, np.int64),
            given,
        )

    @property
    def slices(self):
        """The directions reached."""
        begin = self._begin
        if self._settings.both:
            return Slices(unit_rows(self._state.r), unit_rows(self._state.g))
        return Slices(begin.r, unit_rows(self._state.g), begin.r_values)

    @property
    def state(self):
        """Parameters, moments, numbers of steps and bandwidths by name: to be saved, or written to in order to go on from saved ones."""
        return self._state._asdict()

    def run(self, x, scores, order, ends):
        """One step for each minibatch ``order[ends[b] : ends[b + 1]]``; returns their values before it, (batches, m)."""
        return self._climb(x, scores, order, ends)[0]

    def step(self, x, scores):
        """One step on one batch; returns the values (m,) and the gradient of their sum in the scores, (n, d), from before it."""
        n = x.shape[0]
        r = unit_rows(self._state.r)
        values, by_s = self._climb(x, scores, np.arange(n), np.array([0, n]))
        return values[0], product(by_s.T, r.T)

    def _climb(self, x, scores, order, ends):
        size = int(np.diff(ends).max())
        if takes_device(self._engine, _NS_PER_PAIR * self.m * size * size):
            by_s = np.empty((self.m, size))
            return _climb_on_device(
                self._engine, self._settings, self._state, x, scores, order, ends, by_s
            ), by_s
        by_s = np.empty((self.m, size + MARGIN))
        # Read-only arrays compile all over again.
        x, scores = (np.require(array, requirements=("C", "W")) for array in (x, scores))
        climb = _climb if self.m * (ends[-1] - ends[0]) * size > 2 * _SMALL else _climb.serial
        return climb(self._settings, self._state, x, scores, order, ends, by_s), by_s[:, :size]


def refine_slices(
    x,
    score,
    slices,
    *,
    epochs=50,
    batch_size=100,
    learning_rate=1e-3,
    betas=(0.9, 0.99),
    update="g",
    kernel="rbf",
    statistic="v",
    parametrisation="unit",
    patience=None,
    callback=None,
    engine="auto",
    rng=None,
    progress=False,
):
    """Better slices by gradient ascent on the discrepancy ("GO" in the paper), from active or random ones.

    Adam climbs the statistic of minibatches, drawn anew in each epoch, with the median bandwidth of each minibatch as a constant.

    Parameters
    ----------
    x : (n, d) array
        Training samples from q. For an honest test, not those the statistic is computed on.
    score : (n, d) array, callable or model
        Score of p.
    slices : Slices or pair (r, g)
        Where to begin.
    epochs : int
        How often each sample is used; 0 returns the slices as they are.
    batch_size : int
        Samples of a minibatch, at most n. What is left over at the end of an epoch is a smaller minibatch; a single sample joins
        the minibatch before.
    learning_rate, betas : float, pair of float
        Adam's; the defaults are the paper's.
    update : {"g", "rg"}
        Directions g alone (SKSD-g), or r as well (SKSD-rg).
    kernel : {"rbf", "imq"} or kernel object
    statistic : {"v", "u"}
        What is climbed. The published code climbs the V-statistic, whose terms i = j draw g towards r and scores towards large values.
    parametrisation : {"unit", "raw"}
        "unit": the gradient is projected on the sphere's tangent and the vector brought back to length 1 after each step. "raw": the
        slice is the direction of a free vector that begins with length sqrt(d), as in the published code, where it was a Gaussian
        draw; steps on the sphere are sqrt(d) times smaller.
    patience : int, optional
        Stop after so many epochs without a higher value than before.
    callback : callable, optional
        Called as ``callback(epoch, value)`` after each epoch, counted from 1, with the mean over its minibatches of the statistic,
        summed over slices.
    engine : {"auto", "direct", "cuda", "cuda32"}
        Terms of pairs on the CPU or on a GPU, in double or single precision. A GPU can pay for minibatches of thousands of samples only.
    rng : None, int or numpy.random.Generator
        Order of the samples; the same seed gives the same result for any number of Numba threads.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Slices
        With `r_values` kept when r is; eigenvalues of g no longer apply.

    Notes
    -----
    A slice along which a minibatch does not vary has no bandwidth there: it sits out that step.

    Examples
    --------
    A model that is too wide along the first of five coordinates, seen from a random direction g:

    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 5)) * [0.5, 1, 1, 1, 1]
    >>> start = fs.Slices(np.eye(5)[:1], fs.random_slices(5, 1, rng=0).g)
    >>> slices = fs.refine_slices(x, lambda x: -x, start, epochs=100, learning_rate=0.01, rng=0)
    >>> bool(abs(slices.g[0, 0]) > 0.95)
    True
    """
    x = check_samples(x, min_rows=2)
    n, d = x.shape
    slices = as_slices(slices, d)
    epochs = check_integer("epochs", epochs, 0)
    batch_size = check_integer("batch_size", batch_size, 2)
    if batch_size > n:
        raise ValueError(
            f"`batch_size` must be at most the number of samples, {n}; got {batch_size}."
        )
    learning_rate = check_number("learning_rate", learning_rate, 0.0, strict=True)
    betas = check_betas(betas)
    check_choice("update", update, ("g", "rg"))
    check_choice("statistic", statistic, ("u", "v"))
    check_choice("parametrisation", parametrisation, ("unit", "raw"))
    patience = epochs if patience is None else check_integer("patience", patience, 1)
    if callback is not None and not callable(callback):
        raise TypeError(
            f"`callback` must be a function of (epoch, value), not {type(callback).__name__}."
        )
    rng = check_rng(rng)
    scores = evaluate_score(check_score(score), x)
    ascent = Ascent(
        slices,
        kernel=kernel,
        statistic=statistic,
        update=update,
        parametrisation=parametrisation,
        learning_rate=learning_rate,
        betas=betas,
        floor=1e-13 * float(x.std(axis=0).max()),
        engine=engine,
    )
    if epochs == 0:
        return slices
    bar = ProgressBar("refining slices") if progress else None
    ends = _bounds(n, batch_size)
    best, since = -math.inf, 0
    with cuda.holding(x, scores):
        for epoch in range(1, epochs + 1):
            value = _epoch(ascent, x, scores, rng.permutation(n), ends, epoch)
            best, since = (value, 0) if value > best else (best, since + 1)
            last = epoch == epochs or since >= patience
            if bar is not None:
                bar(epoch, epoch if last else epochs)
            if callback is not None:
                callback(epoch, value)
            if last:
                return ascent.slices


OPTIONS = frozenset(refine_slices.__kwdefaults__) - {"kernel", "rng"}  # what `gof_test` may pass on


def _bounds(n, batch_size):
    """Where minibatches begin and end; a last one of a single sample, which has no pairs, joins the one before."""
    ends = np.append(np.arange(0, n, batch_size), n)
    return np.delete(ends, -2) if n % batch_size == 1 else ends


def _epoch(ascent, x, scores, order, ends, epoch):
    """All minibatches, a few at a time; the mean of their values."""
    at_once = max(1, 2 * _PAIRS_PER_CALL // (ascent.m * int(np.diff(ends).max()) ** 2))
    values = []
    for first in range(0, ends.size - 1, at_once):
        values.append(ascent.run(x, scores, order, ends[first : first + at_once + 1]).sum(axis=1))
        off = np.flatnonzero(~np.isfinite(values[-1]))
        if off.size:
            raise ValueError(
                f"the statistic is no longer finite in minibatch {first + off[0] + 1} of epoch {epoch}: `x` or `score` holds numbers "
                "so large that it overflows, or `learning_rate` is too high."
            )
    return float(np.concatenate(values).mean())


def _climb_on_device(engine, settings, state, x, scores, order, ends, by_s):
    """What `_climb` does, all slices at once, with the terms of pairs on a GPU, from data that lies there, and the rest in NumPy."""
    m = state.steps.size
    values = np.full((ends.size - 1, m), np.nan)
    fine = np.ones(m, dtype=bool)  # slices that did not overflow
    for b in range(ends.size - 1):
        rows = order[ends[b] : ends[b + 1]]
        some_x, some_scores = x[rows], scores[rows]
        r, g = unit_rows(state.r), unit_rows(state.g)
        y, s = product(g, some_x), product(r, some_scores)
        fine &= np.isfinite(y).all(axis=1) & np.isfinite(s).all(axis=1)
        given = state.bandwidths > 0.0
        h = np.where(given, state.bandwidths, 0.0)
        h[fine & ~given] = median_distances(np.ascontiguousarray(y[fine & ~given]))
        flat = fine & ~given & (h <= settings.floor)
        values[b, flat] = 0.0
        by_s[flat, : rows.size] = 0.0
        live = np.flatnonzero(fine & ~flat)
        if live.size == 0:
            continue
        a = np.einsum("md,md->m", r, g)
        statistic = "v" if settings.own else "u"
        source = Source(x, scores, r[live], g[live], rows)
        value, ds, dy, da = slice_gradients(
            engine, settings.code, y[live], s[live], a[live], h[live], statistic, source
        )
        by_s[live, : rows.size] = ds
        slope_g = product(dy, some_x.T) + da[:, None] * r[live]
        slope_r = product(ds, some_scores.T) + da[:, None] * g[live]
        finite = np.isfinite(value + np.abs(slope_g).sum(axis=1) + np.abs(slope_r).sum(axis=1))
        fine[live[~finite]] = False
        values[b, live[finite]] = value[finite]
        state.steps[live[finite]] += 1
        for q, k in zip(live[finite], np.flatnonzero(finite), strict=True):
            epsilon = _EPSILON / h[q] ** 2
            _adam(
                settings,
                state.g[q],
                g[q],
                slope_g[k],
                state.moments[1, :, q],
                state.steps[q],
                epsilon,
            )
            if settings.both:
                _adam(
                    settings,
                    state.r[q],
                    r[q],
                    slope_r[k],
                    state.moments[0, :, q],
                    state.steps[q],
                    epsilon,
                )
    return values


@parallel
def _climb(settings, state, x, scores, order, ends, by_s):
    m = state.steps.size
    values = np.empty((ends.size - 1, m))
    for q in numba.prange(m):
        _climb_along(settings, state, x, scores, order, ends, q, by_s[q], values[:, q])
    return values


@compiled
def _climb_along(settings, state, x, scores, order, ends, q, by_s, values):
    """All steps of one slice. `by_s` is left with the derivative of the last value in s, and a margin. From a step that overflows on, values are
    NaN and the slice stays where it is."""
    d = x.shape[1]
    size = by_s.size
    y, s, by_y = np.empty(size), np.empty(size), np.empty(size)
    r, g, slope_r, slope_g = np.empty(d), np.empty(d), np.empty(d), np.empty(d)
    for b in range(values.size):
        values[b] = np.nan
    for b in range(values.size):
        rows = order[ends[b] : ends[b + 1]]
        n = rows.size
        _direction(state.r[q], r)
        _direction(state.g[q], g)
        _project(x, rows, g, y)
        _project(scores, rows, r, s)
        h = state.bandwidths[q] if state.bandwidths[q] > 0.0 else median_gap(y[:n])
        if state.bandwidths[q] == 0.0 and h <= settings.floor:
            values[b] = 0.0
            for i in range(n):
                by_s[i] = 0.0
            continue
        alignment = 0.0
        for k in range(d):
            alignment += r[k] * g[k]
        for i in range(n):
            y[i] /= h
        room = n + MARGIN
        value, by_a = one_slice_gradients(
            settings.code, settings.own, y[:room], s[:room], alignment / h, by_s[:room], by_y[:room]
        )
        for k in range(d):
            slope_g[k] = by_a / h * r[k]
            slope_r[k] = by_a / h * g[k]
        for i in range(n):
            by_y[i] /= h
        _add_rows(x, rows, by_y, slope_g)
        if settings.both:
            _add_rows(scores, rows, by_s, slope_r)
        if not math.isfinite(value + _size(slope_g) + _size(slope_r)):
            return
        values[b] = value
        state.steps[q] += 1
        # The statistic is in units of 1 / h^2, and so is what guards Adam's division.
        _adam(
            settings,
            state.g[q],
            g,
            slope_g,
            state.moments[1, :, q],
            state.steps[q],
            _EPSILON / (h * h),
        )
        if settings.both:
            _adam(
                settings,
                state.r[q],
                r,
                slope_r,
                state.moments[0, :, q],
                state.steps[q],
                _EPSILON / (h * h),
            )


@compiled
def _size(vector):
    prefer_wide_vectors()
    total = 0.0
    for k in range(vector.size):
        total += abs(vector[k])
    return total


@compiled
def _direction(vector, out):
    square = 0.0
    for k in range(out.size):
        square += vector[k] * vector[k]
    for k in range(out.size):
        out[k] = vector[k] / math.sqrt(square)


@compiled
def _project(x, rows, direction, out):
    """Rows of x along a direction, four at a time."""
    full = rows.size // 4 * 4
    for i in range(0, full, 4):
        _dot_4(
            x[rows[i]], x[rows[i + 1]], x[rows[i + 2]], x[rows[i + 3]], direction, out[i : i + 4]
        )
    for i in range(full, rows.size):
        row = x[rows[i]]
        out[i] = 0.0
        for k in range(direction.size):
            out[i] += row[k] * direction[k]


@compiled
def _dot_4(x0, x1, x2, x3, direction, out):
    prefer_wide_vectors()
    s0 = s1 = s2 = s3 = 0.0
    for k in range(direction.size):
        v = direction[k]
        s0 += x0[k] * v
        s1 += x1[k] * v
        s2 += x2[k] * v
        s3 += x3[k] * v
    out[0], out[1], out[2], out[3] = s0, s1, s2, s3


@compiled
def _add_rows(x, rows, weights, out):
    """Add the rows of x times their weights, four at a time."""
    full = rows.size // 4 * 4
    for i in range(0, full, 4):
        _add_4(x[rows[i]], x[rows[i + 1]], x[rows[i + 2]], x[rows[i + 3]], weights[i : i + 4], out)
    for i in range(full, rows.size):
        add_scaled(out, weights[i], x[rows[i]])


@compiled
def _add_4(x0, x1, x2, x3, weights, out):
    prefer_wide_vectors()
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    for k in range(out.size):
        out[k] += (w0 * x0[k] + w1 * x1[k]) + (w2 * x2[k] + w3 * x3[k])


@compiled
def _adam(settings, vector, direction, slope, moments, step, epsilon):
    """One step up the slope in the direction of `vector`: projected on the sphere's tangent, and divided by the vector's length."""
    prefer_wide_vectors()
    along = square = 0.0
    for k in range(slope.size):
        along += slope[k] * direction[k]
        square += vector[k] * vector[k]
    length = math.sqrt(square)
    beta1, beta2 = settings.beta1, settings.beta2
    rate = settings.learning_rate / (1.0 - beta1**step)
    scale = 1.0 / (1.0 - beta2**step)
    first, second = moments[0], moments[1]
    square = 0.0
    for k in range(slope.size):
        climb = (slope[k] - along * direction[k]) / length
        first[k] = beta1 * first[k] + (1.0 - beta1) * climb
        second[k] = beta2 * second[k] + (1.0 - beta2) * climb * climb
        vector[k] += rate * first[k] / (math.sqrt(scale * second[k]) + epsilon)
        square += vector[k] * vector[k]
    if settings.unit:
        for k in range(slope.size):
            vector[k] /= math.sqrt(square)
