"""A kernel of one dimension as a short Fourier series, on a range of so many bandwidths.

RBF   Its Fourier transform is Gaussian. It is periodised with a period beyond the range by z
      bandwidths, and cut at the frequency z; both errors are ``exp(-z^2 / 2)``.
IMQ   It decays too slowly to be periodised. A cosine series with a longer period is fitted to it on
      the range, by least squares together with its two derivatives. That takes far more terms than
      the kernel has degrees of freedom there, so the features are combined into less than half as
      many, see `compute.series.reduced_series`.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, check_number
from ..compute.medians import rough_median
from ..compute.series import fitted_series, reduced_series

TOLERANCE = 1e-8
MOST_FEATURES = {0: 8192, 1: 1024}  # of one slice, by kernel
MOST_OUTSIDE = 1024  # samples of a slice outside of its core
# Fitted series are made for ranges on a geometric grid, so that slices of similar range share one.
_RANGE_STEP = 1.05
# How far the period of a fitted series goes beyond the range, in bandwidths: shorter ones need more
# terms, longer ones cancel.
_MARGIN = 1.0


class SeriesTooLong(Exception):
    """A range of so many bandwidths that its series would be too long."""


class Series(NamedTuple):
    """A kernel as ``sum_f coefficients_f xi_f xi'_f``.

    The cosines and sines of `frequencies` multiples of the lowest frequency `base` are the
    features. Where there are matrices (frequencies, features), they combine the cosines into `even`
    features and the sines into `odd` ones.
    """

    base: float
    frequencies: int
    coefficients: Array
    even: Array = np.empty((0, 0))
    odd: Array = np.empty((0, 0))


def check_tolerance(tol: float) -> float:
    """`tol` must be one that double precision can keep."""
    tol = check_number("tol", tol, 0.0, strict=True)
    if not 1e-12 <= tol <= 0.1:
        raise ArgumentError("tol", f"must be between 1e-12 and 0.1; got {tol:g}")
    return tol


def series_of(code: int, span: float, tol: float) -> Series | None:
    """The series for samples within half of `span` bandwidths about 0.

    None when double precision has none to the tolerance.
    """
    if code == 1:
        return _imq_series(_rounded(span), tol)
    z = _cut(tol)
    period = span + z
    frequencies = 2.0 * math.pi / period * np.arange(math.floor(z * period / (2.0 * math.pi)) + 1)
    coefficients = 2.0 * math.sqrt(2.0 * math.pi) / period * np.exp(-0.5 * frequencies**2)
    coefficients[0] *= 0.5
    return Series(
        2.0 * math.pi / period, coefficients.size, np.concatenate([coefficients, coefficients])
    )


def series_length(code: int, span: float, tol: float) -> float:
    """About how many features a series over `span` bandwidths has."""
    if code == 0:
        z = _cut(tol)
        return z * (span + z) / math.pi + 2.0
    return 0.45 * 2.0 * _imq_frequencies(span, tol)


def features_needed(code: int, y: Array, h: Array, tol: float = TOLERANCE) -> float:
    """Number of features of all slices together, without making any series.

    It is infinite when a slice would go to the direct engine.
    """
    needed = [
        cheapest_core(code, row, tol)[1] for row in (y - rough_median(y.T)[:, None]) / h[:, None]
    ]
    return math.inf if max(needed) > MOST_FEATURES[code] else sum(needed)


def cheapest_core(code: int, row: Array, tol: float, all_inside: bool = False) -> tuple[int, float]:
    """How many of the farthest samples to leave out of the core, and the features needed then."""
    best = 0, series_length(code, float(np.ptp(row)), tol)
    # Only a range far beyond that of a light tail is worth a search.
    if best[1] > 100.0 and not all_inside:
        ordered = np.sort(np.abs(row))[::-1]
        count = 1
        while count <= min(row.size // 2, MOST_OUTSIDE):
            features = count + series_length(code, 2.0 * ordered[count], tol)
            if features < best[1]:
                best = count, features
            count += max(1, count // 4)
    return best


@functools.lru_cache(maxsize=1024)
def _imq_series(span: float, tol: float) -> Series | None:
    """The same for IMQ; terms are added until the fit is good enough."""
    period = 2.0 * (span + _MARGIN)
    least = math.ceil(_imq_frequencies(span, tol))
    for count in range(least, 2 * least, 2 + least // 16):
        fitted = fitted_series(1, span, 0.0, count, period, tol)
        if fitted is not None:
            even, odd = reduced_series(fitted[0], period, 0.5 * span, tol)
            return Series(
                2.0 * math.pi / period, count, np.ones(even.shape[1] + odd.shape[1]), even, odd
            )
    return None


def _imq_frequencies(span: float, tol: float) -> float:
    return (span + _MARGIN) * math.log(1000.0 / tol) / math.pi + 2.0


def _rounded(span: float) -> float:
    """The span rounded up to the grid of ranges."""
    return _RANGE_STEP ** math.ceil(math.log(max(span, 0.5), _RANGE_STEP))


def _cut(tol: float) -> float:
    # Derivatives multiply what is cut off by up to z^2.
    return math.sqrt(2.0 * math.log(300.0 / tol))
