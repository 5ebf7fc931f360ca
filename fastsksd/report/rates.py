"""Rates, and many intervals or p-values: Wilson's interval, Sidak's and Holm's adjustments."""

from __future__ import annotations

import numpy as np

from .._typing import Array


def interval(successes: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's confidence interval of a rate.

    Parameters
    ----------
    successes, trials : float
        How often something happened, of how many times it could have.
    level : float
        Confidence.

    Returns
    -------
    low, high : float

    References
    ----------
    Wilson (1927), Probable inference, the law of succession, and statistical inference. Journal of
    the American Statistical Association 22.

    Examples
    --------
    >>> from fastsksd.report.rates import interval
    >>> [round(float(end), 3) for end in interval(5, 100)]
    [0.022, 0.112]
    """
    from scipy.special import ndtri

    z = ndtri(0.5 + 0.5 * level)
    rate = successes / trials
    centre = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = (
        z
        / (1 + z * z / trials)
        * (rate * (1 - rate) / trials + z * z / (4 * trials * trials)) ** 0.5
    )
    return max(0.0, centre - half), min(1.0, centre + half)


def sidak(miss: float, count: int) -> float:
    """Chance that each of `count` intervals may miss, for any of them to miss with `miss`."""
    return -np.expm1(np.log1p(-miss) / count)


def holm(log_pvalues: Array) -> Array:
    """Logarithms of Holm's adjusted p-values.

    They bound the chance of any false rejection, whatever the dependence. Logarithms keep p-values
    that are below the smallest number of floating point.

    Parameters
    ----------
    log_pvalues : (k,) array

    Returns
    -------
    (k,) array
        In the same order, at most 0.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure. Scandinavian Journal of
    Statistics 6.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd.report.rates import holm
    >>> np.exp(holm(np.log([0.01, 0.5, 0.02]))).round(3)
    array([0.03, 0.5 , 0.04])
    """
    order = np.argsort(log_pvalues, kind="stable")
    adjusted = np.empty_like(log_pvalues)
    factors = np.log(np.arange(log_pvalues.size, 0, -1))
    adjusted[order] = np.maximum.accumulate(log_pvalues[order] + factors)
    return np.minimum(adjusted, 0.0)
