"""Sums of features over groups of samples: all that members made of features need of the samples.

Row i of the samples is in a group that depends on i alone: groups are stretches of `Groups.size`
consecutive rows, a power of 2. When there are more rows than `most` groups of that size hold, pairs
of neighbours become one, and the size doubles. So sums of several chunks of the rows, made anywhere
and in any order, merge into the sums of all of them, and the groups are those of the number of rows
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from .._typing import Array
from .._validate import check_statistic
from ..engines.features import FeatureMap
from .metric import Metric
from .nulls import Weights, resampling_scale
from .split import Samples

_BLOCK = 8192  # rows whose features are made at a time
_STRETCH = 2**48  # beyond the number of groups of a stretch
_ROOM = 16  # groups that there is room for at first


class Component(NamedTuple):
    """Features in a metric, of the rows from `start` to `stop`, or to the end if that is None."""

    features: FeatureMap
    metric: Metric | None
    start: int = 0
    stop: int | None = None


class Met(NamedTuple):
    """A component's statistics and replicates, and what is left of its sums.

    Attributes
    ----------
    statistics : array
        As `FeatureMap.pair_sums`, over the number of pairs.
    replicates : array
        As `FeatureMap.replicates`, scaled likewise.
    component : Component
    total, own : arrays
        Sums over all samples.
    n : int
        Number of samples, or of stretches.
    pairs : float
        Number of pairs of samples, each counted twice; with importance weights the sum of theirs.
    """

    statistics: Array
    replicates: Array
    component: Component
    total: Array
    own: Array
    n: int
    pairs: float

    def coordinates(self) -> Array:
        """What belongs to each coordinate of the statistic, (d,)."""
        sums = self.component.features.coordinate_sums(self.total, self.own)
        return sums / self.pairs


class Groups(NamedTuple):
    """Groups of `size` consecutive rows. They begin anew at every break, the first of which is 0.

    The number of a group is that of its stretch between breaks times a large number, plus its
    number within. Rows may be `dependent` on others of their group, as draws of chains are.
    """

    breaks: tuple[int, ...]
    size: int
    dependent: bool = False

    def cut(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the groups of rows first..last, and their edges counted from `first`."""
        numbers, starts = [], []
        for k, (begin, end) in enumerate(pairwise((*self.breaks, max(last, self.breaks[-1])))):
            low, high = max(first, begin), min(last, end)
            if low < high:
                within = np.arange((low - begin) // self.size, (high - 1 - begin) // self.size + 1)
                numbers.append(k * _STRETCH + within)
                starts.append(np.maximum(begin + within * self.size, low) - first)
        return np.concatenate(numbers), np.append(np.concatenate(starts), last - first)

    def first_rows(self, numbers: np.ndarray) -> np.ndarray:
        """The first row of each group."""
        return np.array(self.breaks)[numbers // _STRETCH] + numbers % _STRETCH * self.size

    def doubled(self) -> Groups:
        """Groups of twice the size."""
        return self._replace(size=2 * self.size)


class Stretches(NamedTuple):
    """The stretches of chains as groups, from ``edges[k]`` to ``edges[k + 1]``, of any length."""

    edges: np.ndarray
    dependent: bool = True

    def cut(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """As `Groups.cut`."""
        low = int(np.searchsorted(self.edges, first, side="right")) - 1
        high = int(np.searchsorted(self.edges, last, side="left"))
        starts = np.maximum(self.edges[low:high], first) - first
        return np.arange(low, high), np.append(starts, last - first)

    def first_rows(self, numbers: np.ndarray) -> np.ndarray:
        """As `Groups.first_rows`."""
        return self.edges[numbers]


def group_size(n: int, most: int) -> int:
    """The smallest power of 2 that is the size of at most `most` groups of n rows."""
    size = 1
    while n > most * size:
        size *= 2
    return size


def group_weights(
    numbers: np.ndarray, null: str, n_resamples: int, rng: np.random.Generator
) -> Array:
    """Resampling weights of groups, (n_resamples, groups)."""
    edges = (np.flatnonzero(np.diff(numbers // _STRETCH)) + 1).tolist()
    return Weights(null, numbers.size, n_resamples, edges=edges, rng=rng).matrix()


class FeatureSums:
    """Sums over groups of the features of several components.

    Parameters
    ----------
    components : sequence of Component
        Where they start and stop there must be breaks of the groups.
    groups : Groups or Stretches
        Stretches can't be doubled.
    """

    def __init__(self, components: Sequence[Component], groups: Groups | Stretches) -> None:
        self.components = tuple(components)
        self.groups = groups
        self._clear()

    def _clear(self) -> None:
        self.n = [0] * len(self.components)
        # The sum of importance weights and of their squares; zero where there are none.
        self.importance = np.zeros((len(self.components), 2))
        self.own = [np.zeros(one.features.own_size) for one in self.components]
        self._place: dict[int, int] = {}  # of each group in the arrays
        self._sums = [np.zeros((_ROOM, one.features.size)) for one in self.components]

    @property
    def size(self) -> int:
        """Number of features."""
        return sum(one.features.size for one in self.components)

    @property
    def group_size(self) -> int:
        """Rows of a group, for groups of one size."""
        return cast(Groups, self.groups).size

    def empty(self) -> FeatureSums:
        """Sums of the same components over the same groups, of no samples."""
        return FeatureSums(self.components, self.groups)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to another process: sums without the room for more."""
        used = len(self._place)
        return self.__dict__ | {"_sums": [sums[:used].copy() for sums in self._sums]}

    def add(self, samples: Samples, first: int) -> None:
        """Add samples, which are the rows from `first` on."""
        for start in range(0, len(samples.x), _BLOCK):
            self._add_block(samples.chosen(slice(start, start + _BLOCK)), first + start)

    def _add_block(self, block: Samples, first: int) -> None:
        width = len(block.x)
        numbers, edges = self.groups.cut(first, first + width)
        places = self._places(numbers)
        inside: dict[int, Samples] = {}  # the block in each metric
        for k, (features, metric, start, stop) in enumerate(self.components):
            low = max(start - first, 0)
            high = width if stop is None else min(stop - first, width)
            if low >= high:
                continue
            if id(metric) not in inside:
                inside[id(metric)] = block.within(metric)
            y, t = inside[id(metric)].x[low:high], inside[id(metric)].scores
            assert t is not None
            begin, end = np.searchsorted(edges, [low, high])
            w = None if block.weights is None else block.weights[low:high]
            sums, own = features.group_sums(y, t[low:high], edges[begin : end + 1] - low, w)
            if w is not None:
                self.importance[k] += w.sum(), w @ w
            self._sums[k][places[begin:end]] += sums
            self.own[k] += own
            self.n[k] += high - low

    def _places(self, numbers: np.ndarray) -> np.ndarray:
        """Places of groups in the arrays, which grow by half where there is no room."""
        for number in numbers.tolist():
            self._place.setdefault(number, len(self._place))
        room = self._sums[0].shape[0]
        if len(self._place) > room:
            more = max(len(self._place), room + room // 2) - room
            self._sums = [
                np.concatenate([sums, np.zeros((more, sums.shape[1]))]) for sums in self._sums
            ]
        return np.array([self._place[number] for number in numbers.tolist()], dtype=int)

    def merge(self, other: FeatureSums) -> None:
        """Add the sums of the same components over other rows, with groups of the same size."""
        numbers = np.array(list(other._place), dtype=np.int64)
        places = self._places(numbers)
        for k in range(len(self.components)):
            self._sums[k][places] += other._sums[k][: numbers.size]
            self.own[k] += other.own[k]
            self.n[k] += other.n[k]
        self.importance += other.importance

    def double(self) -> None:
        """Make one group of every two neighbours."""
        numbers, order = self._sorted()
        coarse = numbers // _STRETCH * _STRETCH + numbers % _STRETCH // 2
        first = np.flatnonzero(np.diff(coarse, prepend=-1))
        if first.size:
            self._sums = [np.add.reduceat(sums[order], first, axis=0) for sums in self._sums]
        self._place = {number: k for k, number in enumerate(coarse[first].tolist())}
        self.groups = cast(Groups, self.groups).doubled()

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the groups in order, and their places."""
        numbers = np.array(sorted(self._place), dtype=np.int64)
        return numbers, np.array([self._place[number] for number in numbers.tolist()], dtype=int)

    def numbers(self) -> np.ndarray:
        """Numbers of the groups, in order."""
        return self._sorted()[0]

    def sums_of(self, k: int) -> Array:
        """Sums of the features of component k over the groups in order, (groups, features)."""
        return self._sums[k][self._sorted()[1]]

    def meet(self, weights: Array, null: str) -> list[Met]:
        """Statistics and replicates of all components, for weights of the groups in order.

        Pairs within groups of dependent rows have a mean of their own. They are left out, or the
        same in all replicates.
        """
        dependent = self.groups.dependent
        numbers, order = self._sorted()
        rows = self.groups.first_rows(numbers)
        results = []
        for k, one in enumerate(self.components):
            stop = rows.size if one.stop is None else int(np.searchsorted(rows, one.stop))
            start = int(np.searchsorted(rows, one.start))
            sums, own, n = self._sums[k][order[start:stop]], self.own[k], self.n[k]
            total = sums.sum(axis=0)
            mine = np.ascontiguousarray(weights[:, start:stop])
            if dependent and one.features.by_feature:
                # Units are those of sums over groups.
                own, n = np.einsum("gf,gf->f", sums, sums), len(sums)
            pairs, scale = n * (n - 1.0), resampling_scale(null, n)
            if self.importance[k].any():
                weight, squares = self.importance[k].tolist()
                scale *= pairs / (weight**2 - squares)
                pairs = weight**2 - squares
            statistics = one.features.pair_sums(total, own, n) / pairs
            if dependent and not one.features.by_feature:
                mine = np.vstack([mine, np.ones(mine.shape[1], mine.dtype)])
            replicates = scale * one.features.replicates(sums, own, n, mine)
            if len(mine) > len(weights):  # what pairs within groups add to the statistic
                replicates = replicates[:-1] + (statistics.sum() - replicates[-1])
            statistics = check_statistic(statistics)
            results.append(Met(statistics, replicates, one, total, own, n, pairs))
        return results
