"""Resampling weights in compiled code. Row b of the weights comes from stream b of the seed."""

import numba
import numpy as np

from .jit import parallel
from .streams import bits_of_streams, bits_to_unit, stream_bits, stream_key


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


def independent_signs(seed, first, count, n):
    """Independent signs of type int8. NumPy is as fast as a compiled loop: 64 bits are 64 signs."""
    streams = np.arange(first, first + count, dtype=np.uint64)
    bits = bits_of_streams(seed, streams, np.arange(-(-n // 64), dtype=np.uint64))
    octets = bits.astype("<u8").view(np.uint8)
    negative = np.unpackbits(octets, axis=1, count=n, bitorder="little")
    signs = negative.view(np.int8)
    signs *= -2
    signs += 1
    return signs
