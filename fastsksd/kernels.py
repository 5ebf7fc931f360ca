"""Translation-invariant kernels, their derivatives, and bandwidths.

Pointwise functions take ``t`` in units of the bandwidth, ``t = (y_i - y_j) / h``, and derivatives are with respect to
that ``t``. They are scalar, inlined and free of allocation, so CPU loops and CUDA kernels share one source.

RBF   ``k(t) = exp(-t^2 / 2)``
IMQ   ``k(t) = (1 + t^2)^(-1/2)``
"""

import math
from dataclasses import dataclass

import numba
import numpy as np

from ._jit import bits_float, compiled, exp_nonpositive, float_bits, inverse_sqrt, parallel, pointwise, prefer_wide_vectors
from ._linalg import product
from ._validate import check_choice, check_positive_vector, frozen

MEDIAN_SUBSAMPLE = 2000
_SMALLEST = 1e-150  # its square is a number that is held in full
_SMALL = 10_000  # projections below which threads do not pay
_FEW = 200  # samples up to which the gaps of all pairs are looked at


@pointwise
def rbf_derivatives(t):
    """k, k', k'', k''' of the RBF kernel."""
    t2 = t * t
    k = exp_nonpositive(-0.5 * t2)
    return k, -t * k, (t2 - 1.0) * k, (3.0 - t2) * t * k


@pointwise
def imq_derivatives(t):
    """k, k', k'', k''' of the IMQ kernel."""
    t2 = t * t
    k = inverse_sqrt(1.0 + t2)
    k2 = k * k
    k3 = k2 * k
    return k, -t * k3, (3.0 * t2 * k2 - 1.0) * k3, (9.0 - 15.0 * t2 * k2) * t * k2 * k3


@pointwise
def kernel_derivatives(kind, t):
    """k, k', k'', k''' of the kernel with code `kind`. The branch does not depend on t, so LLVM moves it out of loops."""
    if kind == 0:
        return rbf_derivatives(t)
    return imq_derivatives(t)


@pointwise
def stein_term(kind, t, a, s_i, s_j):
    """mu_ij of one slice (Eq. "SKSD inner"): ``s_i s_j k + a (s_j - s_i) k' - a^2 k''``, with ``a = r.g / h``."""
    k, k1, k2, _ = kernel_derivatives(kind, t)
    return s_i * s_j * k + a * (s_j - s_i) * k1 - a * a * k2


@pointwise
def rbf_stein_ladder(t, a, s_i, s_j):
    """mu_ij of the RBF kernel with a quarter, half and the whole of the bandwidth in whose units `t` and `a` are."""
    k = exp_nonpositive(-0.5 * t * t)
    k4 = (k * k) * (k * k)
    k16 = (k4 * k4) * (k4 * k4)
    b = a * t
    ss = s_i * s_j
    drift = b * (s_j - s_i) - a * a
    curve = b * b
    return k16 * (ss - 16.0 * (drift + 16.0 * curve)), k4 * (ss - 4.0 * (drift + 4.0 * curve)), k * (ss - (drift + curve))


@pointwise
def stein_derivatives(kind, t, a, s_i, s_j):
    """Derivatives of mu_ij in s_i, s_j, t and a:

    ``s_j k - a k'``,  ``s_i k + a k'``,  ``s_i s_j k' + a (s_j - s_i) k'' - a^2 k'''``  and  ``(s_j - s_i) k' - 2 a k''``.

    For the RBF kernel ``mu = k (p q + a^2)`` with ``p = s_i - a t`` and ``q = s_j + a t``, which takes fewer operations.
    """
    if kind == 0:
        k = exp_nonpositive(-0.5 * t * t)
        p, q = s_i - a * t, s_j + a * t
        return k * q, k * p, k * (a * (p - q) - t * (p * q + a * a)), k * (t * (p - q) + 2.0 * a)
    k, k1, k2, k3 = imq_derivatives(t)
    drift = (s_j - s_i) * k1 - a * k2
    return s_j * k - a * k1, s_i * k + a * k1, s_i * s_j * k1 + a * ((s_j - s_i) * k2 - a * k3), drift - a * k2


def own_term(s, a):
    """mu_ii of one slice, ``s^2 k(0) - a^2 k''(0)``: for both kernels k(0) = 1 and k''(0) = -1."""
    return s * s + a * a


class FlatProjection(ValueError):
    """Samples that do not vary along a slice, so that they have no median distance."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """Base of the kernels: a `bandwidth`, which is "median", a number, or one number per slice.

    "median" is the median of the pairwise distances ``|y_i - y_j|``, i < j, exact for every n. Where more than half of
    the pairs coincide (discretised data) it is the median of the positive distances.
    """

    bandwidth: object = "median"

    code = None
    name = None

    def __post_init__(self):
        if isinstance(self.bandwidth, str):
            check_choice("bandwidth", self.bandwidth, ("median",))
        else:
            values = check_positive_vector("bandwidth", self.bandwidth)
            object.__setattr__(self, "bandwidth", float(values) if values.ndim == 0 else frozen(values))

    def bandwidths(self, y, scale=0.0):
        """One bandwidth for each row of the projections `y`, shape (m, n), of samples that vary by about `scale`."""
        m = y.shape[0]
        if not isinstance(self.bandwidth, str):
            given = np.asarray(self.bandwidth)
            if given.ndim == 1 and given.size != m:
                raise ValueError(f"`bandwidth` has {given.size} values but there are {m} slices.")
            return np.broadcast_to(given, m).astype(float)
        h = median_distances(y)
        flat = np.flatnonzero(h <= 1e-13 * scale)  # what round-off leaves of a constant
        if flat.size:
            raise FlatProjection(
                f"`x` does not vary along the projection of {flat.size} of {m} slices (slices {_listing(flat)}): a constant "
                "column, or all samples alike. Drop the column or give the kernel a `bandwidth`."
            )
        return h


class RBF(Kernel):
    """Gaussian kernel ``exp(-t^2 / (2 h^2))``.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.RBF(bandwidth=0.5)
    RBF(bandwidth=0.5)
    """

    code = 0
    name = "rbf"


class IMQ(Kernel):
    """Inverse multiquadric kernel ``(1 + t^2 / h^2)^(-1/2)``, with heavier tails than the Gaussian.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.IMQ()
    IMQ(bandwidth='median')
    """

    code = 1
    name = "imq"


KERNELS = {"rbf": RBF, "imq": IMQ}


def as_kernel(kernel):
    """The kernel object for a name or an object."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        check_choice("kernel", kernel, KERNELS)
        return KERNELS[kernel]()
    raise TypeError(f"`kernel` must be 'rbf', 'imq' or a kernel object such as RBF(bandwidth=1.0), not {type(kernel).__name__}.")


def median_distances(y):
    """Median of ``|y_i - y_j|`` over i < j for each row of `y`, in O(n log n), exact; 0 only where a row is constant."""
    gaps = _median_gaps if y.size > _SMALL else _median_gaps.serial
    return gaps(np.sort(y, axis=1))


def median_distance(x):
    """Median Euclidean distance between rows of `x`: all pairs up to 2000 rows, a subsample of 2000, drawn with a fixed seed, beyond."""
    if x.shape[0] > MEDIAN_SUBSAMPLE:
        x = x[np.random.default_rng(0).choice(x.shape[0], MEDIAN_SUBSAMPLE, replace=False)]
    x = x - np.median(x, axis=0)
    squares = np.einsum("id,id->i", x, x)
    if not np.isfinite(np.median(squares)):
        raise too_large(x)
    if 0 < np.abs(x).max() < _SMALLEST:
        raise ValueError(f"`x` varies by no more than {np.abs(x).max():.0e}, the square of which vanishes; rescale the samples.")
    distances = _pair_distances(product(x, x), squares)
    middle = np.median(distances)
    if middle <= 0:
        positive = distances[distances > 0]
        if positive.size == 0:
            raise ValueError("`x` holds the same sample over and over: the median distance between samples is zero.")
        middle = np.median(positive)
    return float(middle)


def too_large(x):
    """The error for samples whose squares overflow."""
    return ValueError(f"`x` holds numbers as large as {np.abs(x).max():.0e}, whose squares overflow; rescale the samples.")


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
            distances[filled] = math.sqrt(square) if square > 1e-14 * (squares[i] + squares[j]) else 0.0
            filled += 1
    return distances


def _listing(indices, limit=5):
    shown = ", ".join(str(i) for i in indices[:limit])
    return shown + (", ..." if len(indices) > limit else "")


@parallel
def _median_gaps(y):
    m = y.shape[0]
    h = np.empty(m)
    for q in numba.prange(m):
        h[q] = _median_gap(y[q])
    return h


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

    A bracket ``count(low) <= rank < count(high)`` begins about the same quantile of every 16th sample and shrinks by interpolation
    on the smooth count, by halving when that stalls, until few pairs are left inside it, among which the gap is selected.
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
    """About the gap of that rank, from a sixteenth of the samples, and how far off it may be."""
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
    """`median_distances` of one row, in any order, for loops that are compiled as a whole; NaN where a number is not finite."""
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
    start = zero if filled // 2 < zero else 0  # where the median itself is 0 it is taken over the distinct pairs
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
        nearest = min(nearest, np.uint64(gaps[k] - limit - 1))  # of gaps below the limit this is huge
    return limit + 1 + np.int64(nearest)


@compiled
def _select_of_few(gaps, rank, zero, high):
    """The gap of the given rank, of which `zero` are 0 and none above `high`, and how many do not exceed it."""
    if zero > rank:
        return 0.0, zero
    low, count_low, count_high = 0.0, zero, gaps.size
    step = 0
    # Interpolation to just below the rank, by halving when that stalls; the rest of the way from gap to gap.
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
