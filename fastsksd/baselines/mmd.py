"""Maximum mean discrepancy between samples of the data and samples of the model (Gretton, Borgwardt, Rasch, Schoelkopf and Smola, 2012).

The null permutes the pooled samples: under the hypothesis that both follow one law the p-value is then valid for any number of samples, which a
wild bootstrap is only in the limit. Nothing is recomputed for a permutation: with signs a for the two groups, and kernel matrix K
with row sums R, all that the statistic needs is ``a.K.a`` and ``a.R``.
"""

from dataclasses import dataclass

import numpy as np

from .._validate import check_choice, check_integer, check_samples, check_statistic
from ..compute.linalg import product, quadratic_forms
from ..compute.medians import median_distance
from ..engines.multivariate import KernelPairs
from ..engines.pairs import tiles
from ..kernels import as_kernel
from ..procedure.evaluate import Evaluation, Outcome
from .base import Baseline, samples_of_model

_BATCH = 2**24  # signs in memory at a time


def mmd(x, y, *, kernel="rbf", statistic="u"):
    """Squared maximum mean discrepancy between the laws of two sets of samples.

    Parameters
    ----------
    x : (n, d) array
    y : (m, d) array
    kernel : {"rbf", "imq"} or kernel object
        Its bandwidth is the median distance between all n + m samples unless given (between 2000 of them, drawn with a fixed seed,
        when there are more).
    statistic : {"u", "v"}
        Unbiased U-statistic (may be negative) or V-statistic (never negative).

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x, y = np.random.default_rng(0).standard_normal((2, 300, 2))
    >>> bool(fs.mmd(x, y + 1.0) > 10 * abs(fs.mmd(x, y)))
    True
    """
    x = check_samples(x, min_rows=2)
    y = check_samples(y, "y", min_rows=2, d=x.shape[1])
    check_choice("statistic", statistic, ("u", "v"))
    pairs, _ = _pooled(x, y, as_kernel(kernel))
    sums = _sums(pairs, _groups(x.shape[0], y.shape[0])[None, :])
    return float(check_statistic(_statistics(sums, x.shape[0], y.shape[0], statistic))[0])


@dataclass(frozen=True, eq=False)
class MMD(Baseline):
    """Two-sample test of maximum mean discrepancy against samples of the model (Gretton et al., 2012), with a permutation null.

    Parameters
    ----------
    y : (m, d) array, optional
        Samples of the model. Else they are drawn by the model's own `.sample` method; `gof_test` needs no score then, ``score=None`` will do.
    n_model : int, optional
        How many to draw; as many as there are samples unless given.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x, y = np.random.default_rng(0).standard_normal((2, 200, 2))
    >>> fs.gof_test(2 * x, None, method=fs.baselines.MMD(y=y), rng=0).reject()
    True
    >>> fs.gof_test(2 * x, fs.models.Gaussian([0.0, 0.0], 1.0), method="mmd", rng=0).reject()
    True
    """

    y: object = None
    n_model: int | None = None

    name = "mmd"
    needs_model = True
    nulls = ("permutation",)
    needs_score = False

    def __post_init__(self):
        if self.y is not None:
            object.__setattr__(self, "y", check_samples(self.y, "y", min_rows=2))
            if self.n_model is not None:
                raise ValueError(
                    "`n_model` is how many samples to draw from the model, and `y` are given; leave one out."
                )
        if self.n_model is not None:
            check_integer("n_model", self.n_model, 2)

    def measure(self, task, prepared):
        x, (n, d) = task.x, task.x.shape
        if self.y is not None:
            y = check_samples(self.y, "y", d=d)
        else:
            y = samples_of_model(task.score, self.n_model or n, d, self.name, task.rng)
        m = y.shape[0]
        pairs, h = _pooled(x, y, task.kernel)
        groups = _groups(n, m)
        size = max(1, _BATCH // (n + m))
        values = []
        for first in range(0, task.n_resamples + 1, size):
            signs = np.tile(groups, (min(size, task.n_resamples + 1 - first), 1))
            task.rng.permuted(signs[int(first == 0) :], axis=1, out=signs[int(first == 0) :])
            values.append(_statistics(_sums(pairs, signs), n, m, "u"))
        values = check_statistic(np.concatenate(values))
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


def _pooled(x, y, kernel):
    """Kernel of all pairs, and the bandwidth."""
    if np.ndim(kernel.bandwidth):
        raise ValueError("`kernel` of the MMD must have one bandwidth; got one per slice.")
    pooled = np.concatenate([x, y])
    h = median_distance(pooled) if isinstance(kernel.bandwidth, str) else kernel.bandwidth
    return KernelPairs(kernel.code, pooled, h), h


def _groups(n, m):
    return np.repeat([1.0, -1.0], [n, m])


def _sums(pairs, signs):
    """Sums of the kernel over pairs within the first group, within the second and across, for each row of signs."""
    forms, row_sums = np.zeros(len(signs)), np.zeros(pairs.n)
    for rows, columns in tiles(pairs.n):
        entries, _ = pairs.tile(rows, columns)
        forms += 2.0 * quadratic_forms(entries, signs, rows.start, columns.start)
        row_sums[rows] += entries.sum(axis=1)
        row_sums[columns] += entries.sum(axis=0)
    total = row_sums.sum()
    # Pairs whose first member is in the first group.
    touching = 0.5 * (product(signs, row_sums[None, :])[:, 0] + total)
    within = 0.25 * (forms + 4.0 * touching - total)
    return within, total - 2.0 * touching + within, touching - within


def _statistics(sums, n, m, kind):
    within_x, within_y, across = sums
    if kind == "u":
        return within_x / (n * (n - 1.0)) + within_y / (m * (m - 1.0)) - 2.0 * across / (n * m)
    return (within_x + n) / n**2 + (within_y + m) / m**2 - 2.0 * across / (n * m)
