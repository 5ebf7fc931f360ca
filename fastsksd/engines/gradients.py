"""Derivatives of each slice's statistic with respect to its projections: what refinement and training descend or ascend along.

For one slice, ``t = y_i - y_j``, the Stein term ``mu = s_i s_j k + a (s_j - s_i) k' - a^2 k''`` has the derivatives

    d mu/d s_i = s_j k - a k'        d mu/d s_j = s_i k + a k'
    d mu/d y_i = -d mu/d y_j = s_i s_j k' + a (s_j - s_i) k'' - a^2 k'''
    d mu/d a   = (s_j - s_i) k' - 2 a k''

Every unordered pair is met once and written to both of its samples. Two threads must not write to one sample, so blocks of samples
meet in the rounds of a tournament: within a round every block plays once.
"""

import numba
import numpy as np

from .._jit import compiled, parallel, prefer_wide_vectors
from ..kernels import kernel_derivatives, own_term

_BLOCK = 256  # samples; fixed, so that sums do not depend on the number of threads
_SMALL = 20_000  # pairs of all slices below which threads do not pay


def slice_gradients(code, y, s, a, h, statistic):
    """Value and gradient of the U-statistic ("u") or V-statistic ("v") of each slice.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidth of each slice; the bandwidth counts as a constant.
    statistic : {"u", "v"}

    Returns
    -------
    values (m,), ds (m, n), dy (m, n), da (m,)
        The statistics and their derivatives in `s`, `y` and `a`. The chain rule gives those in the scores, ``ds.T @ r``, in r,
        ``ds @ score + da[:, None] * g``, and in g, ``dy @ x + da[:, None] * r``.
    """
    m, n = y.shape
    small = m * n * n < 2 * _SMALL
    y, s, a = y / h[:, None], np.require(s, requirements=("C", "W")), a / h
    ds, dy = np.zeros((m, n)), np.zeros((m, n))
    blocks = -(-n // _BLOCK)
    sums = np.zeros((m, blocks, 2))  # of mu and of its derivative in a
    (_meet_within.serial if small else _meet_within)(code, y, s, a, ds, dy, sums)
    for first, second in _rounds(blocks):
        _meet_across(code, y, s, a, ds, dy, sums, first, second)
    values, da = 2.0 * sums.sum(axis=1).T
    if statistic == "v":
        values += own_term(s, a[:, None]).sum(axis=1)
        ds += s
        da += 2.0 * n * a
    weight = 1.0 / (n * (n - 1.0) if statistic == "u" else float(n) ** 2)
    return weight * values, 2.0 * weight * ds, 2.0 * weight * dy / h[:, None], weight * da / h


def _rounds(blocks):
    """Pairs of blocks, as two arrays for each round, in which every two blocks meet once (circle method)."""
    seats = blocks + blocks % 2 - 1  # one more block keeps its seat; with an odd number it is not there and its partner rests
    for turn in range(seats):
        step = np.arange(seats // 2 + 1)
        first, second = (turn + step) % seats, (turn - step) % seats
        second[0] = seats
        there = second < blocks
        yield np.minimum(first, second)[there], np.maximum(first, second)[there]


@parallel
def _meet_within(code, y, s, a, ds, dy, sums):
    m, blocks = sums.shape[:2]
    for task in numba.prange(m * blocks):
        q, b = task // blocks, task % blocks
        _meet(code, y[q], s[q], a[q], ds[q], dy[q], b * _BLOCK, b * _BLOCK, sums[q, b])


@parallel
def _meet_across(code, y, s, a, ds, dy, sums, first, second):
    pairs = first.size
    for task in numba.prange(y.shape[0] * pairs):
        q, p = task // pairs, task % pairs
        _meet(code, y[q], s[q], a[q], ds[q], dy[q], first[p] * _BLOCK, second[p] * _BLOCK, sums[q, first[p]])


@compiled
def one_slice_gradients(code, own, y, s, a, ds, dy):
    """The same for one slice, in units of its bandwidth, for loops that are compiled as a whole: fills `ds` and `dy`, returns the
    value and its derivative in `a`. The U-statistic, or with `own` pairs the V-statistic."""
    n = y.size
    for i in range(n):
        ds[i] = dy[i] = 0.0
    sums = np.zeros(2)
    for first in range(0, n, _BLOCK):
        for second in range(first, n, _BLOCK):
            _meet(code, y, s, a, ds, dy, first, second, sums)
    value, da = 2.0 * sums[0], 2.0 * sums[1]
    weight = 1.0 / (n * (n - 1.0))
    if own:
        k, _, k2, _ = kernel_derivatives(code, 0.0)
        for i in range(n):
            value += k * s[i] * s[i]
            ds[i] += k * s[i]
        value -= n * k2 * a * a
        da -= 2.0 * n * k2 * a
        weight = 1.0 / (float(n) * n)
    for i in range(n):
        ds[i] *= 2.0 * weight
        dy[i] *= 2.0 * weight
    return weight * value, weight * da


@compiled
def _meet(code, y, s, a, ds, dy, b, c, sums):
    """Pairs of the samples of the blocks that begin at b and c, or of one block with itself; adds to the sums of mu and its derivative
    in a."""
    stop = min(c + _BLOCK, y.size)
    for i in range(b, min(b + _BLOCK, y.size)):
        j = i + 1 if b == c else c
        value, by_s, by_y, by_a = _meet_one(code, y[i], s[i], a, y[j:stop], s[j:stop], ds[j:stop], dy[j:stop])
        ds[i] += by_s
        dy[i] += by_y
        sums[0] += value
        sums[1] += by_a


@compiled
def _meet_one(code, y_i, s_i, a, y, s, ds, dy):
    """Pairs of one sample with others: writes to those, returns the sums of mu and of its derivatives in s_i, y_i and a."""
    prefer_wide_vectors()
    value = by_s = by_y = by_a = 0.0
    for j in range(y.size):
        k, k1, k2, k3 = kernel_derivatives(code, y_i - y[j])
        drift = (s[j] - s_i) * k1 - a * k2
        slope = s_i * s[j] * k1 + a * ((s[j] - s_i) * k2 - a * k3)
        value += s_i * s[j] * k + a * drift
        by_s += s[j] * k - a * k1
        by_y += slope
        by_a += drift - a * k2
        ds[j] += s_i * k + a * k1
        dy[j] -= slope
    return value, by_s, by_y, by_a
