"""The data sets: small tables of published numbers, and those that scikit-learn ships."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Array


def _numbers(text: str) -> Array:
    return np.array(text.split(), dtype=float)


# Effects of coaching in eight schools and their standard errors (Rubin, 1981).
SCHOOLS = _numbers("28 8 -3 7 -1 1 18 12"), _numbers("15 10 16 11 9 11 10 18")
# Yield of dyestuff, five samples of each of six batches (Davies, 1947).
DYESTUFF = _numbers(
    """
1545 1440 1440 1520 1580 1540 1555 1490 1560 1495 1595 1550 1605 1510 1560 1445 1440 1595 1465
1545 1595 1630 1515 1635 1625 1520 1455 1450 1480 1445
"""
).reshape(6, 5)
# Distance between two points of the skull at ages 8, 10, 12 and 14: 16 boys, then 11 girls
# (Potthoff and Roy, 1964).
GROWTH = _numbers(
    """
26 25 29 31 21.5 22.5 23 26.5 23 22.5 24 27.5 25.5 27.5 26.5 27 20 23.5 22.5 26 24.5 25.5 27
28.5 22 22 24.5 26.5 24 21.5 24.5 25.5 23 20.5 31 26 27.5 28 31 31.5 23 23 23.5 25 21.5 23.5 24
28 17 24.5 26 29.5 22.5 25.5 25.5 26 23 24.5 26 30 22 21.5 23.5 25 21 20 21.5 23 21 21.5 24 25.5
20.5 24 24.5 26 23.5 24.5 25 26.5 21.5 23 22.5 23.5 20 21 21 22.5 21.5 22.5 23 25 23 23 23.5 24
20 21 22 21.5 16.5 19 19 19.5 24.5 25 28 28
"""
).reshape(27, 4)
# Great inventions and discoveries in each year from 1860 to 1959 (McNeil, 1977).
DISCOVERIES = _numbers(
    """
5 3 0 2 0 3 2 3 6 1 2 1 2 1 3 3 3 5 2 4 4 0 2 3 7 12 3 10 9 2 3 7 7 2 3 3 6 2 4 3 5 2 2 4 0 4 2
5 2 3 3 6 5 8 3 6 6 0 5 2 2 2 6 3 4 4 2 2 4 7 5 3 3 0 2 2 2 1 3 4 2 2 1 1 1 2 1 4 4 3 2 1 4 1 1
1 0 0 2 0
"""
)
# Disasters in British coal mines in each year from 1851 on, two of them unknown (Jarrett, 1979).
DISASTERS = _numbers(
    """
4 5 4 0 1 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 nan 2 1 1 1 1 3 0
0 1 0 1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 nan 2 1 1 1 1 2 4 2 0 0
1 4 0 0 0 1 0 0 0 0 0 1 0 0 1 0 1
"""
)
# Inflation of consumer prices in the United States, quarters from 1959 to 2009, in percent a year
# (Federal Reserve Bank of St. Louis, public domain).
INFLATION = _numbers(
    """
2.34 2.74 0.27 2.31 0.14 2.7 1.21 -0.4 1.47 0.8 0.8 2.26 0.13 2.11 0.79 0.53 2.75 0.78 2.46 0.13
0.9 1.29 2.05 1.28 2.54 0.89 2.9 4.99 2.1 4.9 0.61 2.42 3.61 3.58 4.72 3.5 5.77 4.56 4.51 6.67
5.47 5.4 6.38 6.28 4.13 5.11 5.04 2 4.96 2.94 2.92 2.9 2.88 3.81 4.71 9.26 4.55 12.47 10.39
10.96 9.86 13.56 10.07 5.32 7.48 6.61 6.5 2.14 6.37 6.27 5.49 8.76 5.3 5.23 7.08 7.58 9.89 9.65
8.26 12.08 13.37 11.88 14.62 14.6 8.32 10.04 11.64 8.62 10.63 8.22 4.26 2.53 10.39 2.45 -0.82
3.66 4.03 3.99 5.13 4.67 3.09 3.82 2.28 4.89 2.61 2.96 5.13 -4.39 2.93 2.55 4.33 4.64 3.89 4.2
3.46 4.12 4.41 4.7 4.31 6.22 4.52 2.88 6.64 4.37 4.93 8.79 3.88 1.19 3.24 2.93 3.19 3.17 3.14
3.4 3.09 2.79 1.94 3.03 1.92 2.45 3.25 2.69 2.93 3.44 2.1 2.35 3.11 3.6 2.3 3.05 3.02 1.25 1.25
2.73 1.24 0.49 2.46 1.71 1.95 2.9 1.92 3.35 2.85 3.76 4.19 2.77 3.89 1.82 2.26 0.45 0.23 3.59
1.56 2.66 3.08 1.31 1.09 2.6 3.02 2.35 3.61 3.58 2.09 4.15 1.85 9.14 0.4 2.6 3.97 -1.58 3.3 4.58
2.75 3.45 6.38 2.82 8.53 -3.16 -8.79 0.94 3.37 3.56
"""
)


class DataMissing(ImportError):
    """The library that holds a data set is not installed."""


def from_sklearn(name: str) -> Any:
    """A data set that scikit-learn ships."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise DataMissing(
            f"the data set {name!r} is in scikit-learn: pip install 'fastsksd[studies]'"
        ) from error
    return getattr(datasets, f"load_{name}")()


def standardised(x: Array) -> Array:
    """Columns with mean 0 and variance 1."""
    return (x - x.mean(axis=0)) / x.std(axis=0)
