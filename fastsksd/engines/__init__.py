"""Engines: how sums over pairs are computed, and which one is expected to be faster.

`gof_test`, `sksd` and the estimates of the score difference see only the methods in `protocol`. The
modules are

``pairs``           what every quadratic-time engine has in common
``direct``          Stein terms of slices pair by pair
``fourier``         the same in time linear in the number of samples
``kernel_series``   a kernel as a Fourier series
``waves``           features of samples along slices, the waves of such a series
``features``        pairs that are products of features, and sums of features over groups
``slice_features``  such features of slices, ``random_waves`` of kernels of the whole vector
``folded``          Stein terms with bandwidths from other samples
``multivariate``    pairs of a kernel of the whole vector (KSD, MMD)
``whole_vector``    the same in several metrics and widths at once
``gradients``       derivatives of each slice's statistic
``ascent``          steps of Adam up these derivatives
``gaussian``        the kernel matrix between samples
``sessions``        which arrays stay on a device
``cuda``            all of this on a GPU
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np

from .._typing import Array, EngineName, Statistic
from .._validate import check_choice
from . import ascent, cuda, gradients
from .ascent import Settings, State
from .direct import DirectEngine
from .fourier import FourierEngine
from .gaussian import GaussianMatrix
from .kernel_series import TOLERANCE, check_tolerance, features_needed
from .pairs import Source
from .protocol import KernelMatrix, PairEngine, SliceEngine
from .sessions import session

__all__ = [
    "DEVICE_ENGINES",
    "ENGINES",
    "NAMES",
    "PAIRWISE",
    "TOLERANCE",
    "WORTH_A_DEVICE",
    "DirectEngine",
    "FourierEngine",
    "KernelMatrix",
    "PairEngine",
    "SliceEngine",
    "Source",
    "cheapest_engine",
    "check_pairwise",
    "choose_engine",
    "climb",
    "cuda",
    "expected_cost",
    "expected_device_cost",
    "kernel_matrix",
    "load",
    "session",
    "slice_gradients",
    "takes_device",
]

ENGINES = ("direct", "fourier")
DEVICE_ENGINES = ("cuda", "cuda direct", "cuda fourier", "cuda32")
PAIRWISE = ("direct", "cuda direct", "cuda32")  # engines without Fourier series
# "auto" and "cpu" take what is expected to be faster, anywhere or on the CPU.
NAMES = ("auto", *ENGINES, "cpu", *DEVICE_ENGINES)
_FOR_USERS: tuple[str, ...] = get_args(EngineName)  # the others are for the package itself

# Nanoseconds on two cores, measured; `fastsksd bench` shows how well they predict. The choice rests
# on counts of operations and on the ratios of these numbers. They are not measured anew on each
# machine, so that the choice, and with it the last digits of a statistic, is the same on all.
_PER_TERM = 0.45  # a Stein term of a pair
_PER_PAIR = 0.7  # its entry in a tile
_PER_FEATURE = 0.8  # a feature of a sample
_PER_ANGLE = 20.0  # the cosine and sine a sample's features are made from
_PER_WEIGHT = 0.026  # one replicate's weight times a pair or a feature
_PER_SIGN = 0.011  # one replicate's sign times a pair
_PER_SIGNED = (0.020, 0.045)  # and times a feature, of RBF and IMQ
_PER_SLICE = 5e4  # the choice of a series
_PER_RUN = 2e5
_PER_MIX = 4e5  # a run of a kernel whose features are combined
_PER_CUBE = 0.1  # eigenvalues of a matrix, per cube of its size
_PER_SLOPE = 1.0  # the derivatives of a pair in a step of an ascent

# The same on a GPU: predictions for an A100 from the compiled kernels, see `cuda.report`. None was
# measured.
_DEVICE_PER_TERM = 0.006
_DEVICE_PER_FEATURE = 0.01
_DEVICE_PER_WEIGHT = 0.0002
_DEVICE_PER_RUN = 5e5
# Nanoseconds on the CPU from which "auto" looks for a GPU: kernels are compiled anew in every
# process.
WORTH_A_DEVICE = 5e9


def load(
    engine: str,
    code: int,
    y: Array,
    s: Array,
    a: Array,
    h: Array,
    tol: float = TOLERANCE,
    source: Source | None = None,
) -> SliceEngine:
    """Load the engine of a name with projected data.

    Parameters
    ----------
    engine : str
        "direct", "fourier", "cuda direct", "cuda fourier" or "cuda32".
    code : int
        Code of the kernel.
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidth of each slice.
    tol : float
        Largest error of a Stein term by a Fourier series.
    source : Source, optional
        What `y` and `s` were projected from. An engine on a GPU makes them anew from it if it is
        there already.

    Returns
    -------
    SliceEngine
        The engine.
    """
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
    return CudaDirectEngine(code, y, s, a, h, _precision(engine), source)


def choose_engine(engine: str, tol: float = TOLERANCE) -> Callable[..., SliceEngine]:
    """Return a function that loads an engine with projected data.

    It takes the kernel's code, y, s, a and h, see `load`, and by keyword their `source` and what
    will be asked for, see `expected_cost`. "auto" takes the engine that is expected to be faster;
    "cpu" and "cuda" do so among those of the CPU and of the device.
    """
    _check_name(engine, NAMES)
    tol = check_tolerance(tol)
    if engine in DEVICE_ENGINES:
        cuda.require()

    def loaded(code, y, s, a, h, source=None, **demand):
        name = engine
        if engine in ("auto", "cpu", "cuda"):
            name = cheapest_engine(code, y, h, among=engine, tol=tol, **demand)
        return load(name, code, y, s, a, h, tol, source)

    return loaded


def check_pairwise(engine: str) -> None:
    """`engine` must be the name of one for which Fourier series have no use."""
    _check_name(engine, tuple(name for name in NAMES if "fourier" not in name))


def _check_name(engine: object, names: Sequence[str]) -> None:
    """`engine` must be one of these names; an error lists those for users."""
    if not isinstance(engine, str) or engine not in names:
        check_choice("engine", engine, [name for name in _FOR_USERS if name in names])


def takes_device(engine: str, cost: float) -> bool:
    """Whether work that is expected to take `cost` nanoseconds on the CPU goes to a GPU."""
    _check_name(engine, NAMES)
    if engine in DEVICE_ENGINES:
        cuda.require()
    return engine in DEVICE_ENGINES or (
        engine == "auto" and cost > WORTH_A_DEVICE and bool(cuda.hardware())
    )


def kernel_matrix(engine: str, x: Array, width: float) -> KernelMatrix:
    """The Gaussian kernel matrix between samples, on the CPU or on a GPU."""
    n, d = x.shape
    centre = np.median(x, axis=0)  # a far outlier must not cost the others their digits
    if not takes_device(engine, n * n * (_PER_PAIR + d * _PER_TERM)):
        return GaussianMatrix(x, width, centre)
    from .cuda.gaussian import CudaGaussianMatrix

    return CudaGaussianMatrix(x, width, centre)


def slice_gradients(
    engine: str,
    code: int,
    y: Array,
    s: Array,
    a: Array,
    h: Array,
    statistic: Statistic,
    source: Source | None = None,
) -> tuple[Array, Array, Array, Array]:
    """`gradients.slice_gradients` by an engine of that name; for `source` see `load`."""
    if not takes_device(engine, y.shape[0] * y.shape[1] ** 2 * _PER_TERM):
        return gradients.slice_gradients(code, y, s, a, h, statistic)
    from .cuda.gradients import slice_gradients

    return slice_gradients(code, y, s, a, h, statistic, _precision(engine), source)


def climb(
    engine: str,
    settings: Settings,
    state: State,
    x: Array,
    scores: Array,
    order: np.ndarray,
    ends: np.ndarray,
) -> tuple[Array, Array]:
    """`ascent.climb` by an engine of that name."""
    size = int(np.diff(ends).max())
    if not takes_device(engine, _PER_SLOPE * state.steps.size * size * size):
        return ascent.climb(settings, state, x, scores, order, ends)
    from .cuda.ascent import climb

    return climb(settings, state, x, scores, order, ends, _precision(engine))


def _precision(engine: str) -> type:
    return np.float32 if engine == "cuda32" else np.float64


def cheapest_engine(code: int, y: Array, h: Array, *, among: str = "auto", **demand) -> str:
    """Name of the engine that is expected to be faster.

    `among` is "cpu", "cuda" for the device, or "auto": a GPU where there is one and the work is
    worth it. For what may be demanded see `expected_cost`.
    """
    if among != "cuda":
        costs = expected_cost(code, y, h, **demand)
        if among == "cpu" or min(costs) <= WORTH_A_DEVICE or not cuda.hardware():
            return "direct" if costs[0] <= costs[1] else "fourier"
    direct, fourier = expected_device_cost(code, y, h, **demand)
    return "cuda direct" if direct <= fourier else "cuda fourier"


def expected_device_cost(
    code: int,
    y: Array,
    h: Array,
    *,
    n_resamples: int = 0,
    multiples: Sequence[float] = (1.0,),
    signs: bool = False,
    spectral: bool = False,
    tol: float = TOLERANCE,
) -> tuple[float, float]:
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
    code: int,
    y: Array,
    h: Array,
    *,
    n_resamples: int = 0,
    multiples: Sequence[float] = (1.0,),
    signs: bool = False,
    spectral: bool = False,
    tol: float = TOLERANCE,
) -> tuple[float, float]:
    """Expected nanoseconds of the direct and of the Fourier engine.

    Parameters
    ----------
    code : int
        Code of the kernel.
    y : (m, n) array
        Samples along g.
    h : (m,) array
        Bandwidths.
    n_resamples : int
        Replicates that will be asked for.
    multiples : sequence of float
        Multiples of the bandwidths.
    signs : bool
        Whether weights are signs rather than any numbers.
    spectral : bool
        Whether eigenvalues will be asked for.
    tol : float
        Largest error of a Stein term by a Fourier series.

    Returns
    -------
    direct, fourier : float
        Nanoseconds.
    """
    m, n = y.shape
    runs = len(multiples)
    per_weight = _PER_SIGN if signs else _PER_WEIGHT
    direct = (
        0.5 * n * n * runs * (_PER_PAIR + m * _PER_TERM + n_resamples * per_weight)
        + spectral * _PER_CUBE * n**3
    )

    def fourier(features):
        fixed = runs * (_PER_RUN + (code == 1) * _PER_MIX + m * (_PER_SLICE + n * _PER_ANGLE))
        eigenvalues = spectral * features**2 * (n * _PER_WEIGHT + 4.0 * features * _PER_CUBE)
        per_weight = _PER_SIGNED[code] if signs else _PER_WEIGHT
        return fixed + n * features * (_PER_FEATURE + n_resamples * per_weight) + eigenvalues

    least = fourier(20.0 * m * runs)
    if direct <= least:  # not worth a look at the range of the data
        return direct, least
    return direct, fourier(
        sum(features_needed(code, y, multiple * h, tol) for multiple in multiples)
    )
