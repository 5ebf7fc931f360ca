"""Cells of the line and the series of a kernel between them, see `fastsksd.scale.accumulator`."""

from __future__ import annotations

import functools
import math

import numpy as np

from .._typing import Array
from .._validate import ArgumentError
from ..compute.series import fitted_series

# Margin of a series beyond its range, by kernel: those that need the fewest terms.
_MARGINS = {0: 3.0, 1: 1.25}


class Grid:
    """Cells and series of all slices; lengths in bandwidths."""

    def __init__(
        self, code: int, h: Array, middle: Array, widths: tuple[float, ...], tol: float
    ) -> None:
        self.code = code
        self.h = h
        self.middle = middle
        self.widths = widths
        self.tol = tol
        counts, self.base = zip(*(_frequencies(code, width, tol) for width in widths), strict=True)
        self.counts = np.array(counts)
        self.ends = np.cumsum([0, *(2 * self.counts)])

    def layout(self) -> tuple[Array, np.ndarray]:
        """Base frequency and number of frequencies of each slice."""
        return np.array(self.base), self.counts

    def rows(self, q: int) -> slice:
        """Rows of the features of slice q: its cosines, then its sines."""
        return slice(self.ends[q], self.ends[q + 1])

    def reach(self, q: int) -> float:
        """How many cells of a slice apart the kernel may still differ from zero."""
        if self.code != 0:
            return math.inf
        return _reach(self.tol) / self.widths[q] + 1.0

    def couple(self, q: int, distances: np.ndarray, values: Array) -> Array:
        """The couplings of slice q between a cell and others, each times a column of `values`.

        `distances` are the number of the cell minus those of the others.
        """
        apart, which = np.unique(np.abs(distances), return_inverse=True)
        series = [_coupling(self.code, self.widths[q], one, self.tol) for one in apart.tolist()]
        cos, sin = np.array(series).transpose(1, 2, 0)[:, :, which.ravel()]
        sin = np.where(distances < 0, -sin, sin)
        even, odd = np.split(values, 2)
        # cos(w (u - v)) and sin(w (u - v)) multiplied out.
        return np.concatenate([cos * even - sin * odd, cos * odd + sin * even])


def _reach(tol: float) -> float:
    """Distance, in bandwidths, from which the RBF kernel is zero."""
    return math.sqrt(2.0 * math.log(100.0 / tol))


@functools.lru_cache(maxsize=256)
def _frequencies(code: int, width: float, tol: float) -> tuple[int, float]:
    """Number of frequencies that are enough for all distances between cells, and the lowest."""
    top = math.sqrt(2.0 * math.log(10.0 / tol)) if code == 0 else math.log(300.0 / tol)
    period = 2.0 * (width + _MARGINS[code])
    for _ in range(40):
        count = math.ceil(top * period / (2.0 * math.pi)) + 1
        if all(
            _fit(code, width, distance, tol, count, period) is not None for distance in (0, 1, 2)
        ):
            return count, 2.0 * math.pi / period
        top *= 1.05
    raise ArgumentError(
        "tol", f"is {tol:g}, too small for a series of the kernel in double precision; raise it"
    )


@functools.lru_cache(maxsize=4096)
def _coupling(code: int, width: float, distance: int, tol: float) -> tuple[Array, Array]:
    """Coefficients of the cosines and sines of ``k(D + t)``.

    For ``|t| <= width`` and D of `distance` cells.
    """
    count, base = _frequencies(code, width, tol)
    fitted = _fit(code, width, distance, tol, count, 2.0 * math.pi / base)
    if fitted is None:
        raise ArgumentError(
            "tol",
            f"is {tol:g}, too small for a series of the kernel {distance} cells apart; raise it",
        )
    return fitted


@functools.lru_cache(maxsize=4096)
def _fit(
    code: int, width: float, distance: int, tol: float, count: int, period: float
) -> tuple[Array, Array] | None:
    """The series for two cells at a distance; None where it is not accurate enough."""
    gap = (distance - 1) * width
    # There the RBF kernel is zero.
    if code == 0 and distance > 1 and gap > _reach(tol):
        return np.zeros(count), np.zeros(count)
    return fitted_series(code, width, distance * width, count, period, tol)
