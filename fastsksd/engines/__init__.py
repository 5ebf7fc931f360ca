"""Engines: how the sums over pairs are computed. `gof_test` and `sksd` see only three or four methods, those of `pairs.PairTerms`."""

import numpy as np

from .._validate import check_choice
from . import cuda, gradients
from .direct import DirectEngine
from .fourier import TOLERANCE, FourierEngine, check_tolerance, features_needed
from .pairs import Source  # noqa: F401

ENGINES = ("direct", "fourier")
DEVICE_ENGINES = ("cuda", "cuda direct", "cuda fourier", "cuda32")
# "auto" and "cpu" take what is expected to be faster, anywhere or on the CPU.
NAMES = ("auto", *ENGINES, "cpu", *DEVICE_ENGINES)

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

# The same on a GPU: predictions for an A100 from the compiled kernels, see `cuda.report`; none was measured.
_DEVICE_PER_TERM = 0.006
_DEVICE_PER_FEATURE = 0.01
_DEVICE_PER_WEIGHT = 0.0002
_DEVICE_PER_RUN = 5e5
# Nanoseconds on the CPU from which "auto" looks for one: kernels are compiled anew in every
# process.
WORTH_A_DEVICE = 5e9


def load(engine, code, y, s, a, h, tol=TOLERANCE, source=None):
    """The engine of that name; one on a GPU makes the projections y and s there from their `source`, see `pairs.Source`, if that lies there."""
    if engine == "direct":
        return DirectEngine(code, y, s, a, h)
    if engine == "fourier":
        return FourierEngine(code, y, s, a, h, tol=tol, fallback=DirectEngine)
    from .cuda.fourier import CudaFourierEngine
    from .cuda.pairs import CudaDirectEngine

    if engine == "cuda fourier":
        return CudaFourierEngine(
            code, y, s, a, h, tol=tol, fallback=CudaDirectEngine, source=source
        )
    return CudaDirectEngine(
        code, y, s, a, h, np.float32 if engine == "cuda32" else np.float64, source
    )


def choose_engine(engine, tol=TOLERANCE):
    """How to load an engine: a function of the kernel's code, y, s, a, h (see `DirectEngine`), and by keyword of their source and of what
    will be asked for, see `expected_cost`. "auto" takes the one that is expected to be faster, "cpu" and "cuda" do among those of the CPU and of the device."""
    check_choice("engine", engine, NAMES)
    tol = check_tolerance(tol)
    if engine in DEVICE_ENGINES:
        cuda.require()

    def loaded(code, y, s, a, h, source=None, **demand):
        name = engine
        if engine in ("auto", "cpu", "cuda"):
            name = cheapest_engine(code, y, h, among=engine, tol=tol, **demand)
        return load(name, code, y, s, a, h, tol, source)

    return loaded


def takes_device(engine, cost):
    """Whether work that is expected to take `cost` nanoseconds on the CPU goes to a GPU."""
    check_choice("engine", engine, NAMES)
    if engine in DEVICE_ENGINES:
        cuda.require()
    return engine in DEVICE_ENGINES or (
        engine == "auto" and cost > WORTH_A_DEVICE and bool(cuda.hardware())
    )


def kernel_matrix(engine, x, centre, width):
    """The Gaussian kernel between samples on a GPU, or None for the CPU, where score differences make it themselves. Distances are computed
    about the `centre`."""
    n, d = x.shape
    if not takes_device(engine, n * n * (_PER_PAIR + d * _PER_TERM)):
        return None
    from .cuda.smoothing import CudaKernelMatrix

    return CudaKernelMatrix(x, width, centre)


def slice_gradients(engine, code, y, s, a, h, statistic, source=None):
    """`gradients.slice_gradients` by an engine of that name; for `source` see `load`."""
    if not takes_device(engine, y.shape[0] * y.shape[1] ** 2 * _PER_TERM):
        return gradients.slice_gradients(code, y, s, a, h, statistic)
    from .cuda.gradients import slice_gradients

    return slice_gradients(
        code, y, s, a, h, statistic, np.float32 if engine == "cuda32" else np.float64, source
    )


def cheapest_engine(code, y, h, *, among="auto", **demand):
    """Name of the engine that is expected to be faster: on the "cpu", on the device ("cuda"), or with "auto" on a GPU where there is one
    and the work is worth it."""
    if among != "cuda":
        costs = expected_cost(code, y, h, **demand)
        if among == "cpu" or min(costs) <= WORTH_A_DEVICE or not cuda.hardware():
            return "direct" if costs[0] <= costs[1] else "fourier"
    direct, fourier = expected_device_cost(code, y, h, **demand)
    return "cuda direct" if direct <= fourier else "cuda fourier"


def expected_device_cost(
    code, y, h, *, n_resamples=0, multiples=(1.0,), signs=False, spectral=False, tol=TOLERANCE
):
    """Predicted nanoseconds of the two engines on a GPU; see `expected_cost`."""
    m, n = y.shape
    runs = len(multiples)
    direct = runs * (
        _DEVICE_PER_RUN + 0.5 * n * n * (m * _DEVICE_PER_TERM + n_resamples * _DEVICE_PER_WEIGHT)
    )
    direct += spectral * _PER_CUBE * n**3
    features = sum(features_needed(code, y, multiple * h, tol) for multiple in multiples)
    fourier = runs * (_DEVICE_PER_RUN + m * _PER_SLICE) + n * features * (
        _DEVICE_PER_FEATURE + n_resamples * _DEVICE_PER_WEIGHT
    )
    return direct, fourier + spectral * features**2 * (
        n * _DEVICE_PER_WEIGHT + 4.0 * features * _PER_CUBE
    )


def expected_cost(
    code, y, h, *, n_resamples=0, multiples=(1.0,), signs=False, spectral=False, tol=TOLERANCE
):
    """Expected nanoseconds of the direct and of the Fourier engine for so many replicates, with weights that are `signs` or any
    numbers, at some multiples of the bandwidth, or for the spectrum."""
    m, n = y.shape
    runs = len(multiples)
    per_weight = _PER_SIGN if signs else _PER_WEIGHT
    direct = (
        0.5 * n * n * runs * (_PER_PAIR + m * _PER_TERM + n_resamples * per_weight)
        + spectral * _PER_CUBE * n**3
    )

    def fourier(features):
        fixed = runs * (_PER_RUN + m * (_PER_SLICE + n * _PER_ANGLE))
        spectrum = spectral * features**2 * (n * _PER_WEIGHT + 4.0 * features * _PER_CUBE)
        return fixed + n * features * (_PER_FEATURE + n_resamples * _PER_WEIGHT) + spectrum

    least = fourier(20.0 * m * runs)
    if direct <= least:  # not worth a look at the range of the data
        return direct, least
    return direct, fourier(
        sum(features_needed(code, y, multiple * h, tol) for multiple in multiples)
    )
