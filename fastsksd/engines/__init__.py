"""Engines: how the sums over pairs are computed. `gof_test` and `sksd` see only three or four methods, those of `pairs.PairTerms`."""

from .._validate import check_choice
from .direct import DirectEngine
from .fourier import TOLERANCE, FourierEngine, check_tolerance, features_needed

ENGINES = ("direct", "fourier")

# Nanoseconds on two cores, measured; `fastsksd bench` shows how well they predict.
_PER_TERM = 0.45  # a Stein term of a pair
_PER_PAIR = 0.7  # its place in a tile
_PER_FEATURE = 0.8  # a feature of a sample
_PER_ANGLE = 20.0  # the cosine and sine a sample's features are made from
_PER_WEIGHT = 0.026  # one replicate's weight meeting a pair or a feature
_PER_SIGN = 0.016  # one replicate's sign meeting a pair
_PER_SLICE = 5e4  # the choice of a series
_PER_RUN = 1e5
_PER_CUBE = 0.1  # eigenvalues of a matrix, per cube of its size


def load(engine, code, y, s, a, h, tol=TOLERANCE):
    """The engine of that name."""
    if engine == "direct":
        return DirectEngine(code, y, s, a, h)
    return FourierEngine(code, y, s, a, h, tol=tol, fallback=DirectEngine)


def choose_engine(engine, tol=TOLERANCE):
    """How to load an engine: a function of the kernel's code, y, s, a, h (see `DirectEngine`), and by keyword of what will be asked
    for, see `expected_cost`. "auto" takes the one that is expected to be faster."""
    check_choice("engine", engine, ("auto", *ENGINES))
    tol = check_tolerance(tol)

    def loaded(code, y, s, a, h, **demand):
        name = engine
        if engine == "auto":
            direct, fourier = expected_cost(code, y, h, tol=tol, **demand)
            name = "direct" if direct <= fourier else "fourier"
        return load(name, code, y, s, a, h, tol)

    return loaded


def expected_cost(code, y, h, *, n_resamples=0, multiples=(1.0,), signs=False, spectral=False, tol=TOLERANCE):
    """Expected nanoseconds of the direct and of the Fourier engine for so many replicates, with weights that are `signs` or any
    numbers, at some multiples of the bandwidth, or for the spectrum."""
    m, n = y.shape
    runs = len(multiples)
    per_weight = _PER_SIGN if signs else _PER_WEIGHT
    direct = 0.5 * n * n * runs * (_PER_PAIR + m * _PER_TERM + n_resamples * per_weight) + spectral * _PER_CUBE * n**3

    def fourier(features):
        fixed = runs * (_PER_RUN + m * (_PER_SLICE + n * _PER_ANGLE))
        spectrum = spectral * features**2 * (n * _PER_WEIGHT + 4.0 * features * _PER_CUBE)
        return fixed + n * features * (_PER_FEATURE + n_resamples * _PER_WEIGHT) + spectrum

    least = fourier(20.0 * m * runs)
    if direct <= least:  # not worth a look at the range of the data
        return direct, least
    return direct, fourier(sum(features_needed(code, y, multiple * h, tol) for multiple in multiples))
