"""`Comparison`: discrepancies of several models, their differences, and the ranking, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import check_probability
from ..procedure.u_statistics import UStatistic
from ..report.rates import sidak
from ..slices import Slices

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Difference(NamedTuple):
    """One row of a `Comparison`.

    Attributes
    ----------
    first, second : str
        Names of the two.
    difference : float
        Discrepancy of the first less that of the second. Negative: the first is better.
    interval : (float, float)
        Interval of the difference; those of all rows hold at once.
    pvalue : float
        P-value of the hypothesis that both discrepancies are the same, allowing for the number of
        rows.
    better : str or None
        The one with the smaller discrepancy, where the interval excludes 0.
    """

    first: str
    second: str
    difference: float
    interval: tuple[float, float]
    pvalue: float
    better: str | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Discrepancies of models from samples, or of samples from a model, compared in pairs.

    It has a length, can be indexed by a number or a pair of names, and iterates over rows, each a
    `Difference`. It prints as a table.

    Attributes
    ----------
    names : tuple of str
        Of the models, or of the sets of samples.
    of_models : bool
        Whether models are compared, or sets of samples.
    discrepancies : (k,) array
        Discrepancy of each, summed over slices, by a U-statistic that may be negative.
    slices : Slices
        The slices, in the coordinates of the samples.
    slice_statistics : (k, m) array
        Discrepancy of each along every slice.
    bandwidths : (m,) array
        Bandwidth of the kernel along each slice, in the units of the samples.
    n_compared : tuple of int
        Number of samples that each was compared on.
    n_train : int
        Number of samples that units, slices and bandwidths were learnt on.
    lag : float
        For chains, the length of the stretches taken as independent; 1 for independent samples.
    draws_needed : int
        About the number of draws that a verdict needs, where chains are too short to tell;
        otherwise 0.
    neighbour_correlation : float
        Of samples taken as independent, as in `GofResult`.
    coordinates : tuple of str or None
        Names of the coordinates, where samples have names of columns.
    group_weights : tuple of tuple of float
        For each set of samples (for models there is one) the weights of the groups that it is in,
        with hardly any sample in between; empty for one group. Discrepancies do not show whether
        these weights are right, see `mode_weights`.
    fitted : dict
        Models that were fitted to the training samples, by name.
    level : float
        Confidence of the intervals.

    See Also
    --------
    compare : Makes one.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((1000, 2))
    >>> models = {"wide": lambda x: -x / 2, "right": np.negative, "shifted": lambda x: 0.5 - x}
    >>> compared = fs.compare(x, models, rng=0)
    >>> compared.ranking[0], compared["wide", "right"].better
    ('right', 'right')
    """

    names: tuple[str, ...]
    of_models: bool
    slices: Slices
    slice_statistics: Array
    bandwidths: Array
    n_compared: tuple[int, ...]
    n_train: int
    lag: float = 1.0
    draws_needed: int = 0
    neighbour_correlation: float = 0.0
    coordinates: tuple[str, ...] | None = None
    group_weights: tuple[tuple[float, ...], ...] = ()
    fitted: Mapping[str, Any] = field(default_factory=dict)
    level: float = 0.95
    _alone: tuple[UStatistic, ...] = ()
    _pairs: Mapping[tuple[int, int], UStatistic] | None = None

    @property
    def discrepancies(self) -> Array:
        """Discrepancy of each, (k,)."""
        return np.array([one.value for one in self._alone])

    @property
    def discrepancy_intervals(self) -> Array:
        """Intervals of the discrepancies, (k, 2), each for itself; none ends below 0."""
        if self.draws_needed:
            return np.full((len(self.names), 2), np.nan)
        ends = np.array([one.interval(1.0 - self.level) for one in self._alone])
        return np.maximum(ends, 0.0)

    @property
    def may_be_right(self) -> tuple[str, ...]:
        """Those whose discrepancy may be 0, by its interval; `gof_test` tells more of them."""
        low = self.discrepancy_intervals[:, 0]
        return tuple(name for name, end in zip(self.names, low, strict=True) if end <= 0)

    @property
    def ranking(self) -> tuple[str, ...]:
        """Names, smallest discrepancy first."""
        return tuple(self.names[k] for k in self._order())

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Sets of names that can't be told apart, best first.

        Every set is as large as possible; a name may be in several.
        """
        order = self._order()
        apart = {frozenset((row.first, row.second)) for row in self if row.better is not None}
        groups = [[self.names[k] for k in order]]
        for pair in apart:
            split = []
            for group in groups:
                if pair <= set(group):
                    split += [[name for name in group if name != left_out] for left_out in pair]
                else:
                    split.append(group)
            groups = [
                one
                for k, one in enumerate(split)
                if not any(set(one) < set(other) for other in split)
                and not any(set(one) == set(other) for other in split[:k])
            ]
        place = {name: k for k, name in enumerate(self.ranking)}
        return tuple(sorted(map(tuple, groups), key=lambda group: [place[one] for one in group]))

    @property
    def best(self) -> tuple[str, ...]:
        """Those that can't be told apart from the one with the smallest discrepancy."""
        first = self.ranking[0]
        worse = {
            row.second if row.better == row.first else row.first
            for row in self
            if row.better == first
        }
        return tuple(name for name in self.ranking if name not in worse)

    def _order(self) -> list[int]:
        return np.argsort(self.discrepancies, kind="stable").tolist()

    def at(self, level: float) -> Comparison:
        """The same estimates with other intervals.

        Parameters
        ----------
        level : float
            Confidence of the intervals.

        Returns
        -------
        Comparison
            A new one.
        """
        return replace(self, level=check_probability("level", level))

    def __len__(self) -> int:
        return len(self.names) * (len(self.names) - 1) // 2

    def __iter__(self) -> Iterator[Difference]:
        for a, b in combinations(range(len(self.names)), 2):
            yield self._row(a, b)

    def __getitem__(self, which: int | tuple[str, str]) -> Difference:
        if not isinstance(which, tuple):
            return list(self)[which]
        if len(which) != 2 or which[0] == which[1] or not set(which) <= set(self.names):
            raise KeyError(which)
        a, b = map(self.names.index, which)
        return self._row(a, b)

    def _row(self, a: int, b: int) -> Difference:
        """The first less the second; exactly minus the row of the second and the first."""
        assert self._pairs is not None
        one = self._pairs[min(a, b), max(a, b)]
        sign = 1.0 if a < b else -1.0
        count = len(self)
        low, high, pvalue, better = np.nan, np.nan, np.nan, None
        if not self.draws_needed:
            low, high = one.interval(sidak(1.0 - self.level, count))
            pvalue = _for_several(one.pvalue, count)
            if not low <= 0.0 <= high:
                better = self.names[min(a, b) if high < 0 else max(a, b)]
        ends = (low, high) if a < b else (-high, -low)
        return Difference(
            self.names[a], self.names[b], sign * one.value, ends, float(pvalue), better
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that JSON can hold; what is not known is None.

        Returns
        -------
        dict
            "discrepancies", "differences", "ranking", "groups" and how they were found.
        """
        intervals = self.discrepancy_intervals
        return {
            "compared": "models" if self.of_models else "samples",
            "level": self.level,
            "n_compared": list(self.n_compared),
            "n_train": self.n_train,
            "fitted": list(self.fitted),
            "lag": self.lag,
            "draws_needed": self.draws_needed,
            "discrepancies": [
                {"name": name, "discrepancy": float(value), "interval": _plain(*ends)}
                for name, value, ends in zip(self.names, self.discrepancies, intervals, strict=True)
            ],
            "differences": [
                row._asdict() | {"interval": _plain(*row.interval), "pvalue": _plain(row.pvalue)[0]}
                for row in self
            ],
            "ranking": list(self.ranking),
            "groups": [list(group) for group in self.groups],
            "may_be_right": list(self.may_be_right),
            "group_weights": [list(weights) for weights in self.group_weights],
        }

    def summary(self) -> str:
        """Summarise the outcome in a paragraph of plain words.

        Returns
        -------
        str
            The paragraph.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((1000, 2))
        >>> compared = fs.compare(x, {"A": lambda x: -x / 3, "B": np.negative}, rng=0)
        >>> compared.summary()[:18]
        'B fits better than'
        """
        from ..report.comparison import summary

        return summary(self)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the differences with their intervals, see `fastsksd.plot.differences`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes drawn on.
        """
        from ..plot import differences

        return differences(self, ax=ax)

    def __repr__(self) -> str:
        from ..report.comparison import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from ..report.comparison import comparison_html

        return comparison_html(self)


def _for_several(pvalue: float, count: int) -> float:
    """A p-value that allows for a number of tests, by Sidak's inequality; never 0."""
    if pvalue == 1.0:
        return 1.0
    return float(max(-np.expm1(count * np.log1p(-pvalue)), pvalue))


def _plain(*values: float) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
