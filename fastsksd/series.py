"""Fourier series of a kernel on a stretch of differences, by least squares together with its two derivatives.

Lengths are in units of the bandwidth. The period is longer than the stretch, so the kernel need not be periodic, nor the
coefficients positive.
"""

import math

import numpy as np


def fitted_series(code, width, middle, count, period, tol):
    """Coefficients of the cosines and of the sines of ``k(middle + t)``, ``|t| <= width``, with `count` frequencies each.

    None when the series, its slope or its curvature is off by more than a fifth of `tol` somewhere.
    """
    low = -width if middle else 0.0  # about 0 the kernel is even: half the stretch and the cosines are enough
    points = 4 * count if middle else 3 * count
    nodes = low + (width - low) * (0.5 - 0.5 * np.cos(np.pi * (np.arange(points) + 0.5) / points))
    top = 2.0 * math.pi * count / period
    coefficients = np.linalg.lstsq(*_equations(code, nodes, middle, count, period, top), rcond=1e-15)[0]
    matrix, target = _equations(code, np.linspace(low, width, 7 * count), middle, count, period, 1.0)
    if np.abs(matrix @ coefficients - target).max() > 0.2 * tol:
        return None
    return coefficients[:count], coefficients[count:] if middle else np.zeros(count)


def _equations(code, t, middle, count, period, top):
    """Values, slopes and curvatures of the series and of the kernel at `t`; derivatives in units of the frequency `top`."""
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
