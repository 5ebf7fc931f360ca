"""Steps of Adam up the statistic of minibatches, for many slices at once.

Slices do not interact, so each is a separate task: one compiled call takes all of them, each
through many minibatches. `engines.cuda.ascent` does the same with the terms of pairs on a GPU.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.linalg import add_four, add_scaled
from ..compute.medians import median_gap
from .gradients import MARGIN, one_slice_gradients

_SMALL = 100_000  # pairs below which threads do not pay
EPSILON = 1e-8  # Adam's guard against division by zero


class Settings(NamedTuple):
    """What stays the same during an ascent."""

    code: int  # of the kernel
    v_statistic: bool  # pairs of a sample with itself count
    both: bool  # r climbs as well as g
    unit: bool  # parameters are brought back to unit length
    learning_rate: float
    beta1: float
    beta2: float
    floor: float  # bandwidths up to here are what round-off leaves of a constant


class State(NamedTuple):
    """Parameters of the slices and what Adam remembers; the arrays are updated in place."""

    r: Array  # parameters, (m, d): the slice is their direction
    g: Array
    moments: Array  # (2, 2, m, d): of r and of g, first and second
    steps: np.ndarray  # (m,)
    bandwidths: Array  # (m,), 0 for the median of each minibatch


def climb(
    settings: Settings, state: State, x: Array, scores: Array, order: np.ndarray, ends: np.ndarray
) -> tuple[Array, Array]:
    """One step of each slice for each minibatch ``order[ends[b] : ends[b + 1]]``.

    Returns
    -------
    values : (batches, m) array
        Statistics before each step. From a step that overflows on they are NaN, and the slice stays
        where it is.
    by_s : (m, size) array
        Derivatives of the last values in the projected scores ``s``.
    """
    size = int(np.diff(ends).max())
    m = state.steps.size
    by_s = np.empty((m, size + MARGIN))
    # Read-only arrays compile all over again.
    x, scores = (np.require(array, requirements=("C", "W")) for array in (x, scores))
    run = _climb if m * (ends[-1] - ends[0]) * size > 2 * _SMALL else _climb.serial
    return run(settings, state, x, scores, order, ends, by_s), by_s[:, :size]


@parallel
def _climb(settings, state, x, scores, order, ends, by_s):
    m = state.steps.size
    values = np.empty((ends.size - 1, m))
    for q in numba.prange(m):
        _climb_along(settings, state, x, scores, order, ends, q, by_s[q], values[:, q])
    return values


@compiled
def _climb_along(settings, state, x, scores, order, ends, q, by_s, values):
    """All steps of one slice; `by_s` has room for a margin."""
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
            settings.code,
            settings.v_statistic,
            y[:room],
            s[:room],
            alignment / h,
            by_s[:room],
            by_y[:room],
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
        adam(
            settings,
            state.g[q],
            g,
            slope_g,
            state.moments[1, :, q],
            state.steps[q],
            EPSILON / (h * h),
        )
        if settings.both:
            adam(
                settings,
                state.r[q],
                r,
                slope_r,
                state.moments[0, :, q],
                state.steps[q],
                EPSILON / (h * h),
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
        add_four(
            out, x[rows[i]], x[rows[i + 1]], x[rows[i + 2]], x[rows[i + 3]], weights[i : i + 4]
        )
    for i in range(full, rows.size):
        add_scaled(out, weights[i], x[rows[i]])


@compiled
def adam(settings, vector, direction, slope, moments, step, epsilon):
    """One step of `vector` up the slope.

    The slope is projected on the sphere's tangent and divided by the vector's length.
    """
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
