"""The witness of a slice: where along it samples and model differ, with a confidence band.

The witness of a slice (r, g) is a function of ``y = x.g``. Up to its norm, it is the function in
the unit ball of the kernel that best separates the samples from the model. With
``s_i = s_p(x_i).r`` and ``a = r.g``,

    h(y) = mean_i xi_i(y),    xi_i(y) = s_i k(y_i - y) + a k'(y_i - y)

Its expectation is zero for samples of the model (Stein's identity), and in general
``E_q[(s_p - s_q).r k(y_i - y)]``. Where h is positive, the score of the model pushes samples near y
towards larger values of x.r than the density of the samples balances. The statistic is the squared
norm of h without the terms of each sample with itself.

**Band.** A bootstrap with normal multipliers e_i, ``1/n sum_i e_i (xi_i - h)``, studentised, so
that ``h +- c deviation`` covers the expectation of h on the whole grid at once (Chernozhukov,
Chetverikov and Kato, 2013). For chains there is one e for each stretch, like the signs of the test.
Given the samples this is a normal distribution. Its covariance is a sum over samples or stretches,
so the band is drawn from it directly.

**Measured coverage**, nominal 0.95. Normal samples and another normal model: 0.91 with 20 to 150
samples, 0.94 with 600 (600 runs each). Chains with autocorrelation 0.8, autocorrelation time 9 and
stretches of 6 times that: 0.89 with 1000 samples, 0.91 with 4000 (300 runs each); 0.34 if they are
taken as independent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numba
import numpy as np

from .._typing import Array
from ..compute.jit import compiled, parallel, prefer_wide_vectors
from ..compute.linalg import gram
from ..compute.pointwise import kernel_derivatives
from ..discrepancy import Estimate
from ..procedure.stretches import add_to_stretches

POINTS = 101  # of the grid of a witness
DRAWS = 2000  # of the bootstrap of its band
_BLOCK = 4096  # samples whose functions are in memory at a time


class Region(NamedTuple):
    """A stretch of the grid on which the band excludes zero.

    Attributes
    ----------
    sign : int
        +1 where the witness is positive, -1 where it is negative.
    low, high : float
        Ends of the stretch.
    """

    sign: int
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Witness:
    """The witness function of a slice on a grid.

    Attributes
    ----------
    grid : (k,) array
        Values of ``x.g``, over the bulk of the samples.
    values : (k,) array
        The witness function there.
    lower, upper : (k,) arrays
        Its confidence band, which holds on the whole grid at once.
    density : (k,) array
        Density of the samples along g, smoothed by the kernel.
    level : float
        Confidence of the band.
    """

    grid: Array
    values: Array
    lower: Array
    upper: Array
    density: Array
    level: float

    @property
    def regions(self) -> tuple[Region, ...]:
        """Where the band excludes zero, in order; neighbours of the same sign are one region."""
        sign = np.where(self.lower > 0, 1, np.where(self.upper < 0, -1, 0))
        found: list[Region] = []
        for k in np.flatnonzero(sign):
            y = float(self.grid[k])
            if found and found[-1].sign == sign[k]:
                found[-1] = found[-1]._replace(high=y)
            else:
                found.append(Region(int(sign[k]), y, y))
        return tuple(found)

    def __repr__(self) -> str:
        span = f"from {self.grid[0]:.4g} to {self.grid[-1]:.4g}"
        return f"Witness({self.grid.size} points {span}, {len(self.regions)} regions)"


def witness_of(
    code: int,
    y: Array,
    s: Array,
    a: float,
    h: float,
    stretch: np.ndarray | None,
    level: float,
    rng: np.random.Generator,
) -> Witness:
    """The witness of samples `y` along g with scores `s` along r, with its band.

    `stretch` is that of each draw of chains; None for independent samples.
    """
    y, a = y / h, a / h
    grid, n = _grid(y), y.size
    values, density = np.zeros(grid.size), np.zeros(grid.size)
    blocks = [slice(first, first + _BLOCK) for first in range(0, n, _BLOCK)]
    for block in blocks:
        functions, kernels = _stein_functions(code, y[block], s[block], a, grid)
        values += functions.sum(axis=1)
        density += kernels
    values /= n
    covariance, effective = np.zeros((grid.size, grid.size)), float(n)
    totals = np.zeros((grid.size, 0 if stretch is None else int(stretch[-1]) + 1))
    for block in blocks:
        functions = _stein_functions(code, y[block], s[block], a, grid)[0] - values[:, None]
        if stretch is None:
            covariance += gram(functions)
        else:
            add_to_stretches(functions, stretch[block], totals)
    if stretch is not None:
        covariance, effective = gram(totals), float(totals.shape[1])
    deviation, factor = band_of(covariance / float(n) ** 2, effective, level, rng)
    # Where all samples are equal the deviation is zero, and nothing is shown.
    half = np.where(deviation > 1e-9 * np.abs(values), factor * deviation, np.abs(values))
    step = h * (grid[1] - grid[0])
    return Witness(
        h * grid, values, values - half, values + half, density / (step * density.sum()), level
    )


def moments_of(
    y: Array, s: Array, a: float, stretch: np.ndarray | None
) -> tuple[Estimate, Estimate]:
    """`push` and `spread`, see `SliceExplanation`."""
    n = y.size
    push, centred = s.mean(), y - y.mean()
    scale = np.mean(s * centred)
    influence = np.stack([s - push, (s - push) * centred - scale])
    if stretch is not None:
        totals = np.zeros((2, int(stretch[-1]) + 1))
        add_to_stretches(influence, stretch, totals)
        influence = totals
    errors = np.sqrt(np.einsum("kn,kn->k", influence, influence)) / n
    pushed = Estimate(float(push), float(errors[0]))
    if abs(a) < 1e-6:
        return pushed, Estimate(np.nan, np.nan)
    return pushed, Estimate(float(-scale / a), float(errors[1] / abs(a)))


def _grid(y: Array) -> Array:
    """Points over the bulk of the samples; outliers do not stretch it."""
    low, first, third, high = np.quantile(y, [0.01, 0.25, 0.75, 0.99])
    reach = 4.0 * (third - first)
    low, high = max(low, first - reach), min(high, third + reach)
    if high - low < 1e-9:  # most samples are equal
        low, high = low - 2.0, high + 2.0
    return np.linspace(low, high, POINTS)


@parallel
def _stein_functions(code, y, s, a, grid):
    """``xi_i`` at the points of the grid, (points, n), and the sums of the kernel there.

    All in units of the bandwidth.
    """
    functions = np.empty((grid.size, y.size))
    kernels = np.empty(grid.size)
    for k in numba.prange(grid.size):
        kernels[k] = _stein_function_row(code, y, s, a, grid[k], functions[k])
    return functions, kernels


@compiled
def _stein_function_row(code, y, s, a, point, out):
    prefer_wide_vectors()
    total = 0.0
    for i in range(y.size):
        k, k1, _, _ = kernel_derivatives(code, y[i] - point)
        out[i] = s[i] * k + a * k1
        total += k
    return total


def band_of(
    covariance: Array, effective: float, level: float, rng: np.random.Generator
) -> tuple[Array, float]:
    """Standard deviations on the grid, and how many of them a simultaneous band needs.

    The bootstrap takes the deviations as known, but they are estimated from `effective` samples.
    Its normal factor is therefore replaced by that of the t distribution with the same tail.
    """
    from scipy.special import ndtr, stdtrit

    freedom = max(effective - 1.0, 1.0)
    deviation = np.sqrt(np.maximum(np.diag(covariance), 0.0) * (freedom + 1.0) / freedom)
    unit = np.where(deviation > 1e-12 * deviation.max(initial=0.0), deviation, np.inf)
    values, vectors = np.linalg.eigh(covariance / unit / unit[:, None])
    kept = values > 1e-10 * max(values[-1], 0.0)
    if not kept.any():
        return deviation, 0.0
    draws = (
        rng.standard_normal((DRAWS, np.count_nonzero(kept)))
        @ (vectors[:, kept] * np.sqrt(values[kept])).T
    )
    factor = np.quantile(np.abs(draws).max(axis=1), level) / np.sqrt(freedom / (freedom + 1.0))
    return deviation, float(-stdtrit(freedom, ndtr(-factor)))
