"""Derivatives of each slice's statistic with respect to its projections.

Refinement ascends along them, and training descends.

Every unordered pair is computed once, and its `stein_derivatives` are written to both of its
samples. Two threads must not write to one sample, so blocks of samples meet in the rounds of a
tournament: within a round every block plays once.

Rows of projections end in a margin of samples so far away that they count for nothing. Loops over
the last block then have whole vectors, which at fifty samples saves a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numba
import numpy as np

from .._typing import Array, Statistic
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.pointwise import stein_derivatives
from .pairs import statistic_and_slopes

MARGIN = 8  # numbers of the widest vector
_BLOCK = 256  # samples; fixed, so that sums do not depend on the number of threads
_SMALL = 20_000  # pairs of all slices below which threads do not pay


def slice_gradients(
    code: int, y: Array, s: Array, a: Array, h: Array, statistic: Statistic
) -> tuple[Array, Array, Array, Array]:
    """Value and gradient of the statistic of each slice.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidth of each slice; the bandwidth counts as a constant.
    statistic : {"u", "v"}
        U-statistic or V-statistic.

    Returns
    -------
    values : (m,) array
        The statistics.
    ds, dy : (m, n) arrays
        Their derivatives in `s` and `y`.
    da : (m,) array
        Their derivatives in `a`.

    Notes
    -----
    The chain rule gives the derivatives in the scores, ``ds.T @ r``, in r,
    ``ds @ score + da[:, None] * g``, and in g, ``dy @ x + da[:, None] * r``.
    """
    m, n = y.shape
    small = m * n * n < 2 * _SMALL
    a = a / h
    wide = np.zeros((4, m, n + MARGIN))
    wide[0, :, :n], wide[1, :, :n] = y / h[:, None], s
    y, s, ds, dy = wide
    blocks = -(-n // _BLOCK)
    by_a = np.zeros((m, blocks))
    (_meet_within.serial if small else _meet_within)(code, y, s, a, ds, dy, by_a)
    for first, second in _rounds(blocks):
        _meet_across(code, y, s, a, ds, dy, by_a, first, second)
    s, ds, dy, da = s[:, :n], ds[:, :n], dy[:, :n], 2.0 * by_a.sum(axis=1)
    return statistic_and_slopes(s, a, h, ds, dy, da, statistic)


def _rounds(blocks: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of blocks, as two arrays for each round, such that every two meet once.

    This is the circle method: one block keeps its seat and the others move on. With an odd number
    that block does not exist, and its partner rests.
    """
    seats = blocks + blocks % 2 - 1
    for turn in range(seats):
        step = np.arange(seats // 2 + 1)
        first, second = (turn + step) % seats, (turn - step) % seats
        second[0] = seats
        there = second < blocks
        yield np.minimum(first, second)[there], np.maximum(first, second)[there]


@parallel
def _meet_within(code, y, s, a, ds, dy, by_a):
    m, blocks = by_a.shape
    for q in numba.prange(m):
        _keep_away(code, y[q])
    for task in numba.prange(m * blocks):
        q, b = task // blocks, task % blocks
        by_a[q, b] += _meet(code, y[q], s[q], a[q], ds[q], dy[q], b * _BLOCK, b * _BLOCK)


@parallel
def _meet_across(code, y, s, a, ds, dy, by_a, first, second):
    pairs = first.size
    for task in numba.prange(y.shape[0] * pairs):
        q, p = task // pairs, task % pairs
        by_a[q, first[p]] += _meet(
            code, y[q], s[q], a[q], ds[q], dy[q], first[p] * _BLOCK, second[p] * _BLOCK
        )


@compiled
def one_slice_gradients(code, v_statistic, y, s, a, ds, dy):
    """The same for one slice, in units of its bandwidth, for loops that are compiled as a whole.

    Fills `ds` and `dy`, and returns the value and its derivative in `a`. The four arrays have room
    for the margin.
    """
    n = y.size - MARGIN
    for i in range(y.size):
        ds[i] = dy[i] = 0.0
    for i in range(n, y.size):
        s[i] = 0.0
    _keep_away(code, y)
    by_a = 0.0
    for first in range(0, n, _BLOCK):
        for second in range(first, n, _BLOCK):
            by_a += _meet(code, y, s, a, ds, dy, first, second)
    value = a * by_a  # mu is of degree 2 in s and a
    for i in range(n):
        value += s[i] * ds[i]
    by_a *= 2.0
    weight = 1.0 / (n * (n - 1.0))
    if v_statistic:
        for i in range(n):
            value += s[i] * s[i] + a * a
            ds[i] += s[i]
        by_a += 2.0 * n * a
        weight = 1.0 / (float(n) * n)
    for i in range(n):
        ds[i] *= 2.0 * weight
        dy[i] *= 2.0 * weight
    return weight * value, weight * by_a


@compiled
def _keep_away(code, y):
    """Fill the margin with samples, of score 0, that neither kernel sees from the others."""
    n = y.size - MARGIN
    far = 0.0
    for i in range(n):
        far = max(far, abs(y[i]))
    for i in range(n, y.size):
        y[i] = 2.0 * far + 1e3 if code == 0 else 1e150


@compiled
def _meet(code, y, s, a, ds, dy, b, c):
    """Pairs between the blocks that begin at b and c, or of one block with itself.

    Returns the derivative in a.
    """
    n = y.size - MARGIN
    by_a = 0.0
    for i in range(b, min(b + _BLOCK, n)):
        j = i + 1 if b == c else c
        stop = c + _BLOCK
        if stop >= n:  # the last block, and as much of the margin as makes whole vectors
            stop = j + (n - j + MARGIN - 1) // MARGIN * MARGIN
        by_s, by_y, more = _meet_one(
            code, y[i], s[i], a, y[j:stop], s[j:stop], ds[j:stop], dy[j:stop]
        )
        ds[i] += by_s
        dy[i] += by_y
        by_a += more
    return by_a


@compiled
def _meet_one(code, y_i, s_i, a, y, s, ds, dy):
    """Pairs of one sample with others.

    Writes to those, and returns the sums of the derivatives in s_i, y_i and a.
    """
    prefer_wide_vectors()
    by_s = by_y = by_a = 0.0
    for j in range(y.size):
        by_s_i, by_s_j, by_t, more = stein_derivatives(code, y_i - y[j], a, s_i, s[j])
        by_s += by_s_i
        by_y += by_t
        by_a += more
        ds[j] += by_s_j
        dy[j] -= by_t
    return by_s, by_y, by_a
