"""Resampling weights in compiled code. Row b of the weights comes from stream b of the seed."""

import numba
import numpy as np

from .jit import parallel
from .streams import bits_to_unit, stream_bits, stream_key


@parallel
def fill_multinomial(seed, first, weights, start, stop):
    """Multinomial counts minus one, in columns start..stop."""
    n = stop - start
    for b in numba.prange(weights.shape[0]):
        key = stream_key(seed, np.uint64(first + b))
        row = weights[b]
        for i in range(start, stop):
            row[i] = -1.0
        for i in range(start, stop):
            row[start + int(bits_to_unit(stream_bits(key, np.uint64(i))) * n)] += 1.0


@parallel
def independent_signs(seed, first, count, n):
    """Independent signs; one draw of 64 bits is 64 of them."""
    weights = np.empty((count, n))
    for b in numba.prange(count):
        key = stream_key(seed, np.uint64(first + b))
        for start in range(0, n, 64):
            bits = stream_bits(key, np.uint64(start // 64))
            for i in range(start, min(start + 64, n)):
                weights[b, i] = 1.0 - 2.0 * np.float64(bits & np.uint64(1))
                bits >>= np.uint64(1)
    return weights
