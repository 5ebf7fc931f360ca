"""Resampling weights, drawn on the device from the CPU's counter-based streams.

The same seed gives the same weights; see `procedure.nulls`.
"""

from itertools import pairwise

import numpy as np
from numba import float64, int32, int64, uint64, void

from ...compute.streams import bits_to_unit, stream_bits, stream_key
from .device import THREADS, Kernel, cuda, empty, groups, kernel, upload

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


def draw(weights, first, count):
    """Rows first..first + count of the `nulls.Weights` given, on the device."""
    n, seed, grid = weights.n, np.uint64(weights.seed), (count, 1)
    if weights.importance is not None:
        return upload(weights.rows(first, count))
    if weights.null == "wild":
        if weights.stretch is not None:
            return upload(weights.rows(first, count))
        rows = empty(count, n)
        independent_signs()(grid, seed, first, rows)
        return rows
    size = count * n
    counts, rows, everything = empty(size, dtype=np.int32), empty(size), (groups(size, THREADS), 1)
    no_counts()(everything, counts)
    for start, stop in pairwise((0, *weights.edges, n)):
        multinomial()(grid, seed, first, counts.reshape(count, n), start, stop)
    centred_counts()(everything, counts, rows)
    return rows.reshape(count, n)
