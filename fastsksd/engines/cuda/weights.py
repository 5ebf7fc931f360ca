"""Resampling weights, drawn on the device from the CPU's counter-based streams.

The same seed gives the same weights; see `procedure.nulls`.
"""

from itertools import pairwise

import numpy as np
from numba import float64, int32, int64, uint64, void

from ...compute.streams import bits_to_unit, stream_bits, stream_key
from .device import THREADS, Kernel, cuda, empty, groups, kernel

_MATRIX = float64[:, ::1]


@kernel()
def no_counts():
    def no_counts(counts):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < counts.size:
            counts[i] = 0

    return Kernel(no_counts, void(int32[::1]), square=False, hot=False)


@kernel()
def multinomial():
    def multinomial(seed, first, counts, start, stop):
        """Count the draws of a row, a block for each.

        Counts are integers: these add up exactly in any order, and not every compiler takes atomic
        sums of doubles for every device.
        """
        b = cuda.blockIdx.x
        key = np.uint64(stream_key(seed, np.uint64(first + b)))
        size = stop - start
        for i in range(start + cuda.threadIdx.x, stop, THREADS):
            drawn = start + np.int64(bits_to_unit(np.uint64(stream_bits(key, np.uint64(i)))) * size)
            cuda.atomic.add(counts, (b, drawn), 1)

    return Kernel(
        multinomial, void(uint64, int64, int32[:, ::1], int64, int64), square=False, blocks=4
    )


@kernel()
def centred_counts():
    def centred_counts(counts, weights):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < counts.size:
            weights[i] = counts[i] - 1.0

    return Kernel(centred_counts, void(int32[::1], float64[::1]), square=False, hot=False)


@kernel()
def independent_signs():
    def independent_signs(seed, first, weights):
        """A block for each row; one draw of 64 bits is 64 signs."""
        b = cuda.blockIdx.x
        n = weights.shape[1]
        key = np.uint64(stream_key(seed, np.uint64(first + b)))
        for i in range(cuda.threadIdx.x, n, THREADS):
            bits = np.uint64(stream_bits(key, np.uint64(i // 64))) >> np.uint64(i % 64)
            weights[b, i] = 1.0 - 2.0 * np.float64(bits & np.uint64(1))

    return Kernel(independent_signs, void(uint64, int64, _MATRIX), square=False, blocks=4)


@kernel()
def chained_signs():
    def chained_signs(seed, first, weights, lag):
        """A block for each row, a stretch of it for each thread.

        A thread first counts the flips of its stretch, and finds its first sign from the counts of
        the threads before it.
        """
        flips = cuda.shared.array(THREADS, int64)
        b, t = cuda.blockIdx.x, cuda.threadIdx.x
        n = weights.shape[1]
        key = np.uint64(stream_key(seed, np.uint64(first + b)))
        stretch = (n + THREADS - 1) // THREADS
        begin, end = min(t * stretch, n), min((t + 1) * stretch, n)
        turns = 0
        for i in range(max(begin, 1), end):
            if bits_to_unit(np.uint64(stream_bits(key, np.uint64(i)))) * lag < 1.0:
                turns += 1
        flips[t] = turns
        cuda.syncthreads()
        turns = 0
        for k in range(t):
            turns += flips[k]
        sign = 1.0 if bits_to_unit(np.uint64(stream_bits(key, np.uint64(0)))) < 0.5 else -1.0
        if turns % 2 == 1:
            sign = -sign
        for i in range(begin, end):
            if i > 0 and bits_to_unit(np.uint64(stream_bits(key, np.uint64(i)))) * lag < 1.0:
                sign = -sign
            weights[b, i] = sign

    return Kernel(chained_signs, void(uint64, int64, _MATRIX, float64), square=False, blocks=4)


def draw(weights, first, count):
    """Rows first..first + count of the `nulls.Weights` given, on the device."""
    n, seed, grid = weights.n, np.uint64(weights.seed), (count, 1)
    if weights.null == "wild":
        rows = empty(count, n)
        if weights.lag <= 2:
            independent_signs()(grid, seed, first, rows)
        else:
            chained_signs()(grid, seed, first, rows, float(weights.lag))
        return rows
    size = count * n
    counts, rows, everything = empty(size, dtype=np.int32), empty(size), (groups(size, THREADS), 1)
    no_counts()(everything, counts)
    for start, stop in pairwise((0, *weights.edges, n)):
        multinomial()(grid, seed, first, counts.reshape(count, n), start, stop)
    centred_counts()(everything, counts, rows)
    return rows.reshape(count, n)
