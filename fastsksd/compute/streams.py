"""Counter-based random streams.

Any thread draws any number of any stream, so results do not depend on the threads.
"""

import numpy as np

from .jit import pointwise

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


@pointwise
def _mix(z):
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@pointwise
def stream_key(seed, stream):
    """Key of stream number `stream` under `seed`, both uint64."""
    return _mix(seed + _GOLDEN * _mix(stream + _GOLDEN))


@pointwise
def stream_bits(key, counter):
    """Draw number `counter` of a stream: SplitMix64 addressed by counter, 64 random bits."""
    return _mix(key + _GOLDEN * counter)


def bits_of_streams(seed: np.uint64, streams: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """`stream_bits` of all streams and counters, uint64 arrays, in NumPy."""
    mix = _mix.py_func
    keys = mix(seed + _GOLDEN * mix(streams + _GOLDEN))
    return mix(keys[:, None] + _GOLDEN * counters)


@pointwise
def bits_to_unit(bits):
    """Uniform in [0, 1) from the top 53 of 64 random bits."""
    return np.float64(bits >> np.uint64(11)) * 1.1102230246251565e-16


def draw_seed(rng: np.random.Generator) -> np.uint64:
    """A uint64 seed for counter-based streams, drawn from a `numpy.random.Generator`."""
    return rng.integers(0, 2**64, dtype=np.uint64)
