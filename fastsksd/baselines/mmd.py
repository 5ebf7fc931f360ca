"""Maximum mean discrepancy between samples of the data and samples of the model.

The null distribution permutes the pooled samples. If both sets follow one distribution, the p-value
is then valid for any number of samples; with a wild bootstrap it is so only in the limit. Nothing
is recomputed for a permutation. With signs a for the two groups, and a kernel matrix K with row
sums R, the statistic needs only ``a.K.a`` and ``a.R``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._doors import door
from .._typing import Array, ArrayLike, KernelLike, Statistic
from .._validate import (
    ArgumentError,
    Option,
    check_choice,
    check_integer,
    check_samples,
    check_statistic,
)
from ..compute.linalg import product, quadratic_forms
from ..engines.multivariate import KernelPairs
from ..kernels import Kernel, as_kernel, one_bandwidth
from ..procedure.evaluation import Evaluation, Outcome
from .base import Baseline, Task, samples_of_model

_BATCH = 2**24  # signs in memory at a time


@door
def mmd(
    x: ArrayLike, y: ArrayLike, *, kernel: KernelLike = "rbf", statistic: Statistic = "u"
) -> float:
    """Squared maximum mean discrepancy between two sets of samples.

    Parameters
    ----------
    x : (n, d) array
        Samples of one distribution.
    y : (m, d) array
        Samples of the other.
    kernel : {"rbf", "imq"} or kernel object
        If no bandwidth is given, it is the median distance between all n + m samples; if there are
        more than 2000, between 2000 of them, drawn with a fixed seed.
    statistic : {"u", "v"}
        Kind of estimate.

        "u"
            U-statistic: unbiased, may be negative.
        "v"
            V-statistic: never negative.

    Returns
    -------
    float
        The estimate.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument.

    See Also
    --------
    fastsksd.baselines.MMD : The test.

    References
    ----------
    .. [1] A. Gretton, K. M. Borgwardt, M. J. Rasch, B. Schoelkopf and A. Smola, "A kernel
       two-sample test", Journal of Machine Learning Research 13, 2012.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300, 2))
    >>> bool(fs.mmd(x, y + 1.0) > 10 * abs(fs.mmd(x, y)))
    True
    """
    first = check_samples(x, min_rows=2)
    second = check_samples(y, "y", min_rows=2, d=first.shape[1])
    n, m = first.shape[0], second.shape[0]
    check_choice("statistic", statistic, ("u", "v"))
    pairs, _ = _pooled(first, second, as_kernel(kernel))
    sums = _sums(pairs, _groups(n, m)[None, :])
    return float(check_statistic(_statistics(sums, n, m, statistic))[0])


@dataclass(frozen=True, eq=False)
class MMD(Baseline):
    """Two-sample test against samples of the model, with a permutation null.

    Parameters
    ----------
    y : (m, d) array, optional
        Samples of the model. `gof_test` then needs no model: give ``score=None``. By default they
        are drawn by the model's own `.sample` method.
    n_model : int, optional
        Number of samples to draw from the model; by default as many as there are samples.

    See Also
    --------
    fastsksd.mmd : The discrepancy alone.

    References
    ----------
    .. [1] A. Gretton, K. M. Borgwardt, M. J. Rasch, B. Schoelkopf and A. Smola, "A kernel
       two-sample test", Journal of Machine Learning Research 13, 2012.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200, 2))
    >>> fs.gof_test(2 * x, None, method=fs.baselines.MMD(y=y), rng=0).reject()
    True
    >>> fs.gof_test(2 * x, fs.models.Gaussian([0.0, 0.0], 1.0), method="mmd", rng=0).reject()
    True
    """

    y: ArrayLike | None = None
    n_model: int | None = None

    name = "mmd"
    title = "MMD"
    nulls = ("permutation",)
    needs_score = False

    @property
    def needs_model(self) -> bool:
        return self.y is None

    def __post_init__(self) -> None:
        if self.y is not None:
            object.__setattr__(self, "y", check_samples(self.y, "y", min_rows=2))
            if self.n_model is not None:
                raise ArgumentError(
                    "n_model",
                    "is how many samples to draw from the model, and ",
                    Option("y"),
                    " are given; leave one out",
                )
        if self.n_model is not None:
            check_integer("n_model", self.n_model, 2)

    def measure(self, task: Task, prepared: Any) -> Outcome:
        x, (n, d) = task.x, task.x.shape
        if self.y is not None:
            y = check_samples(self.y, "y", d=d)
        else:
            y = samples_of_model(task.score, self.n_model or n, d, self.name, task.rng)
        m = y.shape[0]
        pairs, h = _pooled(x, y, task.kernel)
        groups = _groups(n, m)
        size = max(1, _BATCH // (n + m))
        parts = []
        for first in range(0, task.n_resamples + 1, size):
            signs = np.tile(groups, (min(size, task.n_resamples + 1 - first), 1))
            task.rng.permuted(signs[int(first == 0) :], axis=1, out=signs[int(first == 0) :])
            parts.append(_statistics(_sums(pairs, signs), n, m, "u"))
        values = check_statistic(np.concatenate(parts))
        member = Evaluation(
            "mmd",
            "mmd",
            1.0,
            "all",
            None,
            values[:1],
            np.array([h]),
            pairs.name,
            replicates=values[1:],
        )
        return Outcome([member], task.lag, n_model=m)


def _pooled(x: Array, y: Array, kernel: Kernel) -> tuple[KernelPairs, float]:
    """Kernel of all pairs, and the bandwidth."""
    pooled = np.concatenate([x, y])
    h = one_bandwidth(kernel, pooled, "MMD")
    return KernelPairs(kernel.code, pooled, h), h


def _groups(n: int, m: int) -> np.ndarray:
    """Signs that tell the two sets apart."""
    return np.repeat(np.array([1, -1], dtype=np.int8), [n, m])


def _sums(pairs: KernelPairs, signs: np.ndarray) -> tuple[Array, Array, Array]:
    """Sums of the kernel over pairs, for each row of signs.

    Over pairs within the first group, within the second, and across.
    """
    count, n = signs.shape
    forms, row_sums = np.zeros(count), np.zeros(n)
    for rows, columns, entries, _ in pairs.tiles():
        forms += 2.0 * quadratic_forms(entries[None], signs, rows.start, columns.start)[0]
        row_sums[rows] += entries.sum(axis=1)
        row_sums[columns] += entries.sum(axis=0)
    total = row_sums.sum()
    # Pairs whose first member is in the first group.
    touching = 0.5 * (product(signs, row_sums[None, :])[:, 0] + total)
    within = 0.25 * (forms + 4.0 * touching - total)
    return within, total - 2.0 * touching + within, touching - within


def _statistics(sums: tuple[Array, Array, Array], n: int, m: int, kind: Statistic) -> Array:
    """U- or V-statistics from the three sums."""
    within_x, within_y, across = sums
    if kind == "u":
        return within_x / (n * (n - 1.0)) + within_y / (m * (m - 1.0)) - 2.0 * across / (n * m)
    return (within_x + n) / n**2 + (within_y + m) / m**2 - 2.0 * across / (n * m)
