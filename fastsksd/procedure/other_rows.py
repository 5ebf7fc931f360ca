"""Bandwidths and units from other samples than those of a pair, where slices are many.

The median bandwidth of a slice depends a little on every sample. So the Stein term of a pair has
not quite mean zero under the model: with n samples a slice's statistic is off by about 0.7 / n of
its standard deviation, at twice the median. Over m slices the means add up, and the standard
deviations only as their squares do: the sum is off by ``0.7 sqrt(m) / n`` deviations. With 10
samples and 1000 slices a right model was rejected in every second test. The units of the metric
"diagonal" have the same effect where scores are not linear.

From ``m > n^2 / 32`` on, samples are therefore put into folds, and every pair of samples gets a
bandwidth and units that were found on the folds that hold neither of them. Its terms then have mean
zero, whatever m. With more samples the bias is below 0.13 deviations, and all samples find one
bandwidth.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Option
from ..compute.linalg import product
from ..compute.medians import median_distances
from ..engines.folded import FoldPair
from ..slices import Slices
from .importance import draws_needed
from .metric import Metric, diagonal, diagonal_if_known
from .plan import Plan
from .split import Part, Samples

_MOST_FOLDS = 8
_FEWEST = 4  # samples, so that two are left for the distance of a pair's bandwidth
_ENOUGH = 32.0


def are_needed(n: int, m: int) -> bool:
    """Whether n samples along m slices need bandwidths and units from other samples."""
    return n >= _FEWEST and _ENOUGH * m > n * n


def fold_count(n: int) -> int:
    """So many folds that few of n samples are left out for each pair."""
    return min(n, _MOST_FOLDS)


class Folds:
    """The samples of a part in folds.

    Independent samples are put into them at random, draws of chains in their order.
    """

    def __init__(self, plan: Plan, part: Part) -> None:
        self.plan, self.part = plan, part
        chain = part.tested.stretch is not None
        order = np.arange(part.n) if chain else plan.rng.permutation(part.n)
        self.samples = np.array_split(order, fold_count(part.n))

    def pairs(self, slices: Slices, y: Array, h: Array) -> list[FoldPair]:
        """Bandwidths and units of all pairs of folds, for samples `y` (m, n) along slices.

        Where the other folds do not vary along a slice, its bandwidth is `h`, that of all samples.
        Where they do not know the unit of its score, the slice is left out of this pair: the unit
        of all samples is large where the scores of the pair are like those of the others.
        """
        tested, scores = self.part.tested.x, cast(Array, self.part.tested.scores)
        median = isinstance(self.plan.kernel.bandwidth, str)
        met = [
            (rows, columns, self._others(k, j))
            for k, rows in enumerate(self.samples)
            for j, columns in enumerate(self.samples[k:], start=k)
        ]
        units: Array = np.ones((len(met), len(h)))
        if learns_metric(self.plan, self.part):
            learnt = [diagonal_if_known(tested[others], scores[others]) for *_, others in met]
            units = _units(slices.r**2, learnt)
        found = []
        for (rows, columns, others), unit in zip(met, units, strict=True):
            widths = h
            if median:
                widths = median_distances(y[:, others])
                widths = np.where(widths > 1e-6 * h, widths, h)
            found.append(FoldPair(rows, columns, widths, unit))
        return found

    def _others(self, k: int, j: int) -> np.ndarray:
        """Samples outside of two folds."""
        return np.concatenate([one for i, one in enumerate(self.samples) if i not in (k, j)])


def _units(squares: Array, learnt: list[tuple[Array, np.ndarray]]) -> Array:
    """Factors of the scores of slices with squares of r, (m, d), for each metric learnt.

    They are 0 where most of r is not known.
    """
    forward, known = (np.stack(field) for field in zip(*learnt, strict=True))
    weight = product(known.astype(float), squares)
    lengths = product(known * forward**2, squares)
    enough = weight > 0.5 * squares.sum(axis=1)
    return np.where(enough, np.sqrt(weight / np.where(enough, lengths, 1.0)), 0.0)


def folds_for(plan: Plan, part: Part, m: int) -> Folds | None:
    """Folds where a part along m slices needs them; there are none with importance weights."""
    learns = isinstance(plan.kernel.bandwidth, str) or learns_metric(plan, part)
    if plan.weights is None:
        return Folds(plan, part) if learns and are_needed(part.n, m) else None
    if learns and are_needed(int(part.tested.effective), m) and not draws_needed(plan.weights):
        raise ArgumentError(
            "weights",
            f"leave {part.tested.effective:.0f} effective draws for {m} slices, whose bandwidths "
            "and units are found on the draws tested: right models would be rejected too often",
            remedy=(
                f"About {math.ceil(math.sqrt(_ENOUGH * m))} effective draws are enough; or give ",
                Option("slices"),
                " with a ",
                Option("kernel"),
                " of a given bandwidth.",
            ),
        )
    return None


def learns_metric(plan: Plan, part: Part) -> bool:
    """Whether the samples of a part are tested in a metric that was learnt on them."""
    return part.training is None and part.metric is not None and isinstance(plan.precondition, str)


def diagonal_of_folds(samples: Samples, stretches: list[slice]) -> dict[tuple[int, int], Metric]:
    """For folds a <= b, the metric "diagonal" learnt on the samples outside of both."""
    numbers = np.arange(len(samples.x))
    metrics = {}
    for a, first in enumerate(stretches):
        for b, second in enumerate(stretches[a:], start=a):
            others = np.delete(numbers, np.concatenate([numbers[first], numbers[second]]))
            metrics[a, b] = diagonal(samples.x[others], cast(Array, samples.scores)[others])
    return metrics
