"""Weighted sums of chi-squares, the limit distribution of the statistics (Theorem 6).

Tails to any depth, and draws.
"""

from __future__ import annotations

import math

import numpy as np

from .._typing import Array, ArrayLike

SMALLEST = 5e-324  # positive number, what a p-value is at least
_DRAWN = 2**16  # draws that are made at a time


def limit_weights(eigenvalues: Array, n: int) -> Array:
    """Chi-square weights of the U-statistic of n samples.

    `eigenvalues` are those of the centred matrix of its terms, over n. Centring has taken one
    degree of freedom of n.
    """
    return eigenvalues * n / (n - 1.0) ** 2


def log_tail_of_weighted_chi_square(weights: ArrayLike, x: float) -> float:
    """Logarithm of ``P(sum_j weights_j (Z_j^2 - 1) >= x)``, Z_j independent standard normal.

    Weights may have either sign. Above the mean, 0, the tail is an integral, see `_log_upper_tail`;
    below, it is one minus the other tail.
    """
    c = np.asarray(weights, dtype=float)
    # What round-off leaves of zero would be the only weights of its sign.
    c = c[np.abs(c) > 1e-11 * np.abs(c).max(initial=0.0)]
    if c.size == 0:
        return 0.0 if x <= 0 else -np.inf
    unit = np.abs(c).max()
    c, x = c / unit, x / unit
    if x >= 0:
        return _log_upper_tail(c, x)
    lower = _log_upper_tail(-c, -x)
    return np.log1p(-np.exp(lower)) if lower < 0 else -np.inf


def _log_upper_tail(c, x):
    """The same for x >= 0.

    With K the logarithm of the moment generating function, the tail is the integral of
    ``exp(K(s) - s x) / s`` over 2 pi i, along a contour that passes 0 on the right. The contour is
    a hyperbola through the saddle point that opens to where the exponential decays. The more
    weights there are, the less it opens, so that it keeps away from their singularities. Along it
    the steps grow geometrically, as few weights leave an integrand that decays slowly. The
    trapezoidal rule then converges geometrically; the step is halved until two results agree.
    """
    y = x + c.sum()  # where the tail of sum_j c_j Z_j^2 is asked for
    if c.max() <= 0 and y >= 0:
        return -np.inf
    saddle, gaps = _saddle_point(c, x)
    width = 1.0 / np.sqrt(np.sum(2.0 * (c / gaps) ** 2))
    bend = np.copysign(min(0.5, 2.0 / np.sqrt(c.size)), y)

    def exponent(offset):
        factors = gaps - 2.0 * np.multiply.outer(offset, c)
        return -0.5 * np.log(factors).sum(axis=-1) - offset * y - np.log(saddle + offset)

    size = exponent(np.zeros(1, dtype=complex))[0].real
    step, previous = 0.1, np.inf
    for _ in range(8):
        total = 0.0
        for first in range(0, math.ceil(40.0 / step), 64):
            v = step * (np.arange(first, first + 64) + 0.5)
            u, root = np.sinh(v), np.cosh(v)
            values = (
                np.exp(exponent(width * (1j * u + bend * (root - 1.0))) - size)
                * width
                * (1j * root + bend * u)
            )
            total += values.imag.sum()
            if np.abs(values[-1]) < 1e-13 * abs(total):
                break
        total *= step / np.pi
        if abs(total - previous) <= 1e-8 * abs(total):
            break
        previous, step = total, 0.5 * step
    return min(0.0, size - saddle * y + np.log(total)) if total > 0 else -np.inf


def _saddle_point(c, x):
    """Where K'(s) = x, and ``1 - 2 c s`` there.

    Near the pole at 0 any contour on its right will do, so the point keeps a distance from it.
    """
    spread = np.sqrt(2.0 * np.sum(c**2))
    top = c.max()
    # s = bound (1 - fraction): the distance to the bound keeps its digits however far the tail.
    if top > 0:
        bound = 0.5 / top
        low, high = -700.0, 0.0
        for _ in range(80):
            middle = 0.5 * (low + high)
            fraction = np.exp(middle)
            gaps = (1.0 - c / top) + c / top * fraction
            if np.sum(2.0 * c**2 * bound * (1.0 - fraction) / gaps) > x:
                low = middle
            else:
                high = middle
        fraction = min(np.exp(high), 1.0 - min(0.5 / (spread * bound), 0.3))
        return bound * (1.0 - fraction), (1.0 - c / top) + c / top * fraction
    low, high = 0.0, 1.0
    while np.sum(2.0 * c**2 * high / (1.0 - 2.0 * c * high)) < x:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.sum(2.0 * c**2 * middle / (1.0 - 2.0 * c * middle)) < x:
            low = middle
        else:
            high = middle
    saddle = max(low, 0.5 / spread)
    return saddle, 1.0 - 2.0 * c * saddle


def weighted_chi_square_draws(weights: Array, count: int, rng: np.random.Generator) -> Array:
    """Draws of ``sum_j weights_j (Z_j^2 - 1)``."""
    draws = np.zeros(count)
    for start in range(0, len(weights), 64):
        part = weights[start : start + 64]
        for first in range(0, count, _DRAWN):
            some = draws[first : first + _DRAWN]
            some += (rng.standard_normal((some.size, part.size)) ** 2 - 1.0) @ part
    return draws


def positive_exp(log: float) -> float:
    """``exp(log)``, but never zero."""
    return max(float(np.exp(log)), SMALLEST)
