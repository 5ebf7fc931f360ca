"""Fourier series of a kernel on an interval of differences.

They are fitted by least squares, together with the kernel's two derivatives. Lengths are in units
of the bandwidth. The period is longer than the interval, so the kernel need not be periodic, nor
the coefficients positive.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array


def fitted_series(
    code: int, width: float, middle: float, count: int, period: float, tol: float
) -> tuple[Array, Array] | None:
    """Coefficients of the cosines and of the sines of ``k(middle + t)``, ``|t| <= width``.

    There are `count` frequencies. None when the series, its slope or its curvature is off by more
    than a fifth of `tol` somewhere.
    """
    # About 0 the kernel is even: half the interval and the cosines are enough.
    low = -width if middle else 0.0
    points = 4 * count if middle else 3 * count
    nodes = low + (width - low) * (0.5 - 0.5 * np.cos(np.pi * (np.arange(points) + 0.5) / points))
    top = 2.0 * math.pi * count / period
    matrix, target = _equations(code, nodes, middle, count, period, top)
    coefficients = np.linalg.lstsq(matrix, target, rcond=1e-15)[0]
    matrix, target = _equations(
        code, np.linspace(low, width, 7 * count), middle, count, period, 1.0
    )
    if np.abs(matrix @ coefficients - target).max() > 0.2 * tol:
        return None
    return coefficients[:count], coefficients[count:] if middle else np.zeros(count)


def reduced_series(coefficients: Array, period: float, half: float, tol: float) -> list[Array]:
    """Few combinations of the cosines, and of the sines, that make up the kernel.

    Their products sum to ``k(y - y')`` for ``|y|, |y'| <= half``. The combinations are matrices
    (frequencies, even features) and (frequencies, odd features).

    Let the functions' values and slopes on points of the range be the rows of Z = Q R, and C the
    coefficients. The kernel with its derivatives is ``Z C Z^T = Q (R C R^T) Q^T``. Of the
    eigenvectors U of the small matrix in the middle, those with eigenvalues L above a fiftieth of
    `tol` times the largest are kept: ``Z C Z^T`` is ``(Z V) (Z V)^T`` with
    ``V = C R^T U L^(-1/2)``. The cosines are separate from the sines, as the range is symmetric.
    """
    count = coefficients.size
    w = 2.0 * math.pi / period * np.arange(count)
    y = half * np.cos(np.pi * (np.arange(3 * count) + 0.5) / (3 * count))
    cos, sin = np.cos(y[:, None] * w), np.sin(y[:, None] * w)
    mixes = []
    for values, slopes in ((cos, -w * sin), (sin, w * cos)):
        root: Any = np.linalg.qr(np.concatenate([values, slopes]) / math.sqrt(y.size), mode="r")
        eigenvalues, vectors = np.linalg.eigh((root * coefficients) @ root.T)
        kept = eigenvalues > 0.02 * tol * eigenvalues[-1]
        mixes.append(coefficients[:, None] * root.T @ vectors[:, kept] / np.sqrt(eigenvalues[kept]))
    return mixes


def _equations(code, t, middle, count, period, top):
    """Values, slopes and curvatures of the series and of the kernel at `t`.

    Derivatives are in units of the frequency `top`.
    """
    w = 2.0 * math.pi / period * np.arange(count)
    cos, sin = np.cos(t[:, None] * w), np.sin(t[:, None] * w)
    series = [(cos, -w / top * sin, -((w / top) ** 2) * cos)]
    if middle:
        series.append((sin, w / top * cos, -((w / top) ** 2) * sin))
    x = middle + t
    if code == 0:
        k = np.exp(-0.5 * x * x)
        target = k, -x * k / top, (x * x - 1.0) * k / top**2
    else:
        k = 1.0 / np.sqrt(1.0 + x * x)
        target = k, -x * k**3 / top, (3.0 * x * x * k * k - 1.0) * k**3 / top**2
    return np.concatenate([np.concatenate(part) for part in series], axis=1), np.concatenate(target)
