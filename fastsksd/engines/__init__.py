"""Engines: how the sums over pairs are computed. `gof_test` and `sksd` see only three or four methods, those of `pairs.PairTerms`."""

import functools

from .._validate import check_choice
from .direct import DirectEngine
from .fourier import FourierEngine, features_needed

ENGINES = {"direct": DirectEngine, "fourier": functools.partial(FourierEngine, fallback=DirectEngine)}

# Nanoseconds on two cores, measured; `fastsksd bench` shows how well they predict.
_PER_TERM = 0.55  # a Stein term of a pair
_PER_PAIR = 0.7  # its place in a tile
_PER_FEATURE = 0.8  # a feature of a sample
_PER_ANGLE = 20.0  # the cosine and sine a sample's features are made from
_PER_WEIGHT = 0.028  # one replicate's weight meeting a pair or a feature
_PER_SLICE = 5e4  # the choice of a series
_PER_RUN = 1e5
_PER_CUBE = 0.1  # eigenvalues of a matrix, per cube of its size


def choose_engine(engine):
    """How to load an engine: a function of the kernel's code, y, s, a, h (see `DirectEngine`), and of what will be asked for: the
    number of replicates and multiples of the bandwidth, or the spectrum. "auto" takes the one that is expected to be faster."""
    check_choice("engine", engine, ("auto", *ENGINES))
    if engine == "auto":
        return _load_faster
    return lambda code, y, s, a, h, *demand, **more: ENGINES[engine](code, y, s, a, h)


def _load_faster(code, y, s, a, h, *demand, **more):
    direct, fourier = expected_cost(code, y, h, *demand, **more)
    return ENGINES["direct" if direct <= fourier else "fourier"](code, y, s, a, h)


def expected_cost(code, y, h, n_resamples=0, multiples=(1.0,), spectral=False):
    """Expected nanoseconds of the direct and of the Fourier engine."""
    m, n = y.shape
    runs = len(multiples)
    direct = 0.5 * n * n * runs * (_PER_PAIR + m * _PER_TERM + n_resamples * _PER_WEIGHT) + spectral * _PER_CUBE * n**3

    def fourier(features):
        fixed = runs * (_PER_RUN + m * (_PER_SLICE + n * _PER_ANGLE))
        spectrum = spectral * features**2 * (n * _PER_WEIGHT + 4.0 * features * _PER_CUBE)
        return fixed + n * features * (_PER_FEATURE + n_resamples * _PER_WEIGHT) + spectrum

    least = fourier(20.0 * m * runs)
    if direct <= least:  # not worth a look at the range of the data
        return direct, least
    return direct, fourier(sum(features_needed(code, y, multiple * h) for multiple in multiples))
