"""Medians of pairwise distances, the default bandwidths: exact in O(n log n) along a line."""

from __future__ import annotations

import math

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Overflow
from .jit import bits_float, compiled, float_bits, prefer_wide_vectors
from .linalg import product
from .threads import share

MEDIAN_SUBSAMPLE = 2000
_SMALLEST = 1e-150  # its square is a normal number
_SUBSAMPLE = 4096  # values that the others are compared with
_ROUGH = 512  # values enough for a median that need not be exact
_SMALL = 10_000  # projections below which threads do not pay
_FEW = 200  # samples up to which the gaps of all pairs are looked at


def median_distances(y: Array) -> Array:
    """Median of ``|y_i - y_j|`` over i < j for each row of `y`, exact, in O(n log n).

    Where the median is 0 it is taken over the positive distances; it is 0 only for a constant row.
    """
    y, h = np.sort(y, axis=1), np.empty(len(y))

    def some(first: int, last: int) -> None:
        for q in range(first, last):
            h[q] = _median_gap(y[q])

    share(some, len(y), large=y.size > _SMALL)
    return h


def rough_median(values: Array) -> Array:
    """Median of the first axis, over at most 512 entries that are equally far apart.

    For places and units that need not be exact: of a million entries a median takes longer than the
    statistic of a slice.
    """
    return np.asarray(np.median(values[:: -(-len(values) // _ROUGH)], axis=0))


def median_distance(x: Array) -> float:
    """Median Euclidean distance between rows of `x`.

    Of more than 2000 rows, 2000 are drawn with a fixed seed.
    """
    if x.shape[0] > MEDIAN_SUBSAMPLE:
        x = x[np.random.default_rng(0).choice(x.shape[0], MEDIAN_SUBSAMPLE, replace=False)]
    x = x - np.median(x, axis=0)
    squares = np.einsum("id,id->i", x, x)
    if not np.isfinite(np.median(squares)):
        raise Overflow("x", "holds numbers whose squares overflow")
    if 0 < np.abs(x).max() < _SMALLEST:
        raise ArgumentError(
            "x",
            f"varies by no more than {np.abs(x).max():.0e}, the square of which vanishes; "
            "rescale the samples",
        )
    distances = _pair_distances(product(x, x), squares)
    middle = _median(distances)
    if middle <= 0:
        positive = distances[distances > 0]
        if positive.size == 0:
            raise ArgumentError(
                "x",
                "holds the same sample over and over: the median distance between samples is zero",
            )
        middle = np.median(positive)
    return float(middle)


def _median(values: Array) -> float:
    """The median, exact. It is selected among the few values that are near that of a subsample.

    Of half a million this takes a quarter of the time of `np.median`.
    """
    n = values.size
    some = np.sort(values[:: n // _SUBSAMPLE + 1])
    middle, margin = some.size // 2, 2 * math.isqrt(some.size)
    low, high = some[max(middle - margin, 0)], some[min(middle + margin, some.size - 1)]
    near = values[(values >= low) & (values <= high)]
    first = (n - 1) // 2 - np.count_nonzero(values < low)
    last = first + (n + 1) % 2
    if first < 0 or last >= near.size:
        return float(np.median(values))
    near = np.partition(near, [first, last])
    return float(0.5 * (near[first] + near[last]))


@compiled
def _pair_distances(products, squares):
    """Distances between all pairs of rows from their inner products."""
    n = squares.size
    distances = np.empty(n * (n - 1) // 2)
    filled = 0
    for i in range(n):
        for j in range(i + 1, n):
            square = squares[i] + squares[j] - 2.0 * products[i, j]
            # Below round-off the two rows are the same sample.
            distances[filled] = (
                math.sqrt(square) if square > 1e-14 * (squares[i] + squares[j]) else 0.0
            )
            filled += 1
    return distances


@compiled
def _median_gap(y):
    n = y.size
    pairs = n * (n - 1) // 2
    zero = _count_gaps(y, 0.0)
    if zero == pairs:
        return 0.0
    lower = (pairs - 1) // 2
    upper = pairs // 2
    if upper < zero:  # the median itself is 0: take it over the distinct pairs
        lower = zero + (pairs - zero - 1) // 2
        upper = zero + (pairs - zero) // 2
    first = _select_gap(y, lower)
    if upper == lower or _count_gaps(y, first) > upper:
        return first
    return 0.5 * (first + _next_gap(y, first))


@compiled
def _count_gaps(y, limit):
    """Number of pairs of the sorted `y` with a gap of at most `limit`."""
    count = 0
    i = 0
    for j in range(y.size):
        while y[j] - y[i] > limit:
            i += 1
        count += j - i
    return count


@compiled
def _next_gap(y, limit):
    """Smallest gap above `limit`."""
    best = np.inf
    i = 0
    for j in range(y.size):
        while y[j] - y[i] > limit:
            i += 1
        if i > 0:
            best = min(best, y[j] - y[i - 1])
    return best


@compiled
def _select_gap(y, rank):
    """The gap of the given rank (from 0) among all pairs of the sorted `y`.

    A bracket ``count(low) <= rank < count(high)`` begins about the same quantile of every 16th
    sample. It shrinks by interpolation on the smooth count, and by halving when that stalls, until
    few pairs are left inside it. Among these the gap is selected.
    """
    n = y.size
    low, count_low = 0.0, _count_gaps(y, 0.0)
    if count_low > rank:
        return 0.0
    high, count_high = y[n - 1] - y[0], n * (n - 1) // 2
    guess, margin = _guessed_gap(y, rank)
    step = 0
    while count_high - count_low > max(128, n):
        share = (rank - count_low + 0.5) / (count_high - count_low)
        width = 2.0 * math.sqrt(n) / (count_high - count_low)
        if step == 0:
            middle = guess + margin
        elif step == 1:
            middle = guess - margin
        elif step % 3 == 2:
            middle = low + (high - low) * min(share + width, 1.0)
        elif step % 3 == 0:
            middle = low + (high - low) * max(share - width, 0.0)
        else:
            middle = low + 0.5 * (high - low)
        if middle <= low or middle >= high:
            middle = low + 0.5 * (high - low)
            if middle <= low or middle >= high:
                return high  # no number lies between: every pair left has the gap `high`
        count = _count_gaps(y, middle)
        if count > rank:
            high, count_high = middle, count
        else:
            low, count_low = middle, count
        step += 1
    gaps = np.empty(count_high - count_low)
    filled = 0
    inside = 0
    outside = 0
    for j in range(n):
        while y[j] - y[outside] > high:
            outside += 1
        inside = max(inside, outside)
        while inside < j and y[j] - y[inside] > low:
            inside += 1
        for i in range(outside, inside):
            gaps[filled] = y[j] - y[i]
            filled += 1
    return _selected(gaps, rank - count_low)


@compiled
def _guessed_gap(y, rank):
    """The gap of that rank, guessed from a sixteenth of the samples, and how far off it may be."""
    thin = y[y.size % 16 // 2 :: 16].copy()
    k = thin.size
    target = rank / (0.5 * y.size * (y.size - 1.0)) * 0.5 * k * k
    low, high = 0.0, thin[k - 1] - thin[0]
    for _ in range(4 + int(math.log2(k))):
        middle = 0.5 * (low + high)
        if _count_gaps(thin, middle) + 0.5 * k > target:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high), (low + high) / k


@compiled
def _selected(values, rank):
    """The value of the given rank (from 0); the order of `values` is lost (Hoare's selection)."""
    low, high = 0, values.size - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return values[rank]


@compiled
def median_gap(y):
    """`median_distances` of one row, in any order, for loops that are compiled as a whole.

    NaN where a number is not finite.
    """
    n = y.size
    for i in range(n):
        if not math.isfinite(y[i]):
            return np.nan
    if n > _FEW:
        return _median_gap(_sorted(y))
    gaps = np.empty(n * (n - 1) // 2, np.int64)
    low, high, filled = y[0], y[0], 0
    for i in range(1, n):
        _gaps_to(y[i], y[:i], gaps[filled : filled + i])
        filled += i
        low, high = min(low, y[i]), max(high, y[i])
    zero = _count_up_to(gaps, 0)
    if zero == filled:
        return 0.0
    # Where the median itself is 0 it is taken over the distinct pairs.
    start = zero if filled // 2 < zero else 0
    first, count = _select_of_few(gaps, start + (filled - start - 1) // 2, zero, high - low)
    if count > start + (filled - start) // 2:
        return first
    return 0.5 * (first + bits_float(_next_above(gaps, float_bits(first))))


# Non-negative numbers are ordered like their bits, and with integers these loops vectorise.


@compiled
def _gaps_to(y_i, y, gaps):
    prefer_wide_vectors()
    for j in range(y.size):
        gaps[j] = float_bits(abs(y_i - y[j]))


@compiled
def _count_up_to(gaps, limit):
    prefer_wide_vectors()
    count = 0
    for k in range(gaps.size):
        count += np.int64(gaps[k] <= limit)
    return count


@compiled
def _next_above(gaps, limit):
    prefer_wide_vectors()
    nearest = np.uint64(0xFFFFFFFFFFFFFFFF)
    for k in range(gaps.size):
        # Of gaps below the limit this is huge.
        nearest = min(nearest, np.uint64(gaps[k] - limit - 1))
    return limit + 1 + np.int64(nearest)


@compiled
def _select_of_few(gaps, rank, zero, high):
    """The gap of the given rank, and how many do not exceed it.

    Of all gaps, `zero` are 0 and none is above `high`.
    """
    if zero > rank:
        return 0.0, zero
    low, count_low, count_high = 0.0, zero, gaps.size
    step = 0
    # Interpolation to just below the rank, or halving when that stalls; then from gap to gap.
    while rank - count_low > 2:
        share = 0.5 if step % 3 == 2 else (rank - count_low - 0.5) / (count_high - count_low)
        middle = low + (high - low) * share
        if middle <= low or middle >= high:
            break
        count = _count_up_to(gaps, float_bits(middle))
        if count > rank:
            high, count_high = middle, count
        else:
            low, count_low = middle, count
        step += 1
    while True:
        low = bits_float(_next_above(gaps, float_bits(low)))
        count_low = _count_up_to(gaps, float_bits(low))
        if count_low > rank:
            return low, count_low


@compiled
def _sorted(y):
    """Shell's sort: NumPy's takes seconds to compile."""
    y = y.copy()
    step = y.size // 2
    while step > 0:
        for i in range(step, y.size):
            value = y[i]
            j = i
            while j >= step and y[j - step] > value:
                y[j] = y[j - step]
                j -= step
            y[j] = value
        step = 1 if step == 2 else step * 5 // 11
    return y
