"""Pairs of coordinates whose correlation in the samples is not that of the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import check_probability
from ..procedure.correlations import PairCorrelations
from ..report.rates import sidak

# Samples for each degree of freedom of the errors: for normal models the influence of a sample is a
# product of two normal deviates, of kurtosis 9.
_FOLD = 4.0
_EXPLAINED = 0.5  # part of the variance of a product below which numbers are rough


class Correlation(NamedTuple):
    """One row of `Correlations`.

    Attributes
    ----------
    first, second : str
        Names of the coordinates.
    samples, model : float
        Correlation in the samples, and that which the model implies.
    difference : float
        The first less the second.
    interval : (float, float)
        Interval of the difference.
    rough : bool
        Whether only the fact that the correlation is off can be relied on, not the numbers.
    """

    first: str
    second: str
    samples: float
    model: float
    difference: float
    interval: tuple[float, float]
    rough: bool = False

    @property
    def off(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        low, high = self.interval
        return bool(low > 0.0 or high < 0.0)

    @property
    def name(self) -> str:
        """Both coordinates."""
        return f"{self.first} and {self.second}"


@dataclass(frozen=True, eq=False, repr=False)
class Correlations:
    """Correlations of pairs of coordinates: those of samples and of a model, with intervals.

    It has a length, can be indexed by number or by a pair of names, and iterates over rows, each a
    `Correlation`. It prints as a table of the pairs that are off.

    Attributes
    ----------
    pairs : tuple of (str, str)
        Names of the coordinates. All pairs of up to 20 coordinates; of more, the 190 that seem
        farthest off.
    samples, model : (k,) arrays
        Correlations.
    errors : (3, k) array
        Standard errors of ``arctanh`` of `samples`, of that of `model`, and of their difference.
    sizes : (3, k) array
        Effective numbers of samples behind these errors.
    rough : (k,) array of bool
        Pairs of which only the fact that something is off can be relied on: the control variates
        explain less than half of the variance of the product of the two, or the effects of one of
        them are rough (`Effects.rough`).
    n_pairs : int
        Number of all pairs, which simultaneous intervals allow for.
    level : float
        Confidence of the intervals.
    simultaneous : bool
        Whether the intervals of all pairs hold at once, or each for itself.

    See Also
    --------
    fastsksd.effect_sizes : Makes one, as `Effects.correlations`.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((1000, 2))
    >>> model = fs.models.Gaussian(np.zeros(2), [[1.0, 0.9], [0.9, 1.0]])
    >>> row = fs.effect_sizes(x, model, names=["a", "b"]).correlations["a", "b"]
    >>> round(row.model, 3), row.off, bool(row.interval[0] < -0.9 < row.interval[1])
    (0.9, True, True)
    """

    pairs: tuple[tuple[str, str], ...]
    samples: Array
    model: Array
    errors: Array
    sizes: Array
    rough: np.ndarray
    n_pairs: int
    level: float = 0.95
    simultaneous: bool = True

    @classmethod
    def of(cls, found: PairCorrelations, names: Sequence[str], rough: np.ndarray) -> Correlations:
        """A table of estimates.

        Parameters
        ----------
        found : PairCorrelations
            Estimates.
        names : sequence of str
            Names of the coordinates.
        rough : (d,) array of bool
            Coordinates whose own effects are rough.

        Returns
        -------
        Correlations
        """
        first, second = found.first, found.second
        d = len(names)
        return cls(
            tuple((names[i], names[j]) for i, j in zip(first, second, strict=True)),
            found.samples,
            found.model,
            found.errors,
            found.sizes,
            (found.explained < _EXPLAINED) | rough[first] | rough[second],
            d * (d - 1) // 2,
        )

    @property
    def difference(self) -> Array:
        """Correlations of the samples less those of the model, (k,)."""
        return self.samples - self.model

    @property
    def interval(self) -> Array:
        """Intervals of the differences, (k, 2), from those of both correlations (Zou, 2007)."""
        samples, model, apart = self.errors
        ends = [
            np.tanh(np.arctanh(value) + sign * self._quantiles(kind) * self.errors[kind])
            for kind, value in enumerate((self.samples, self.model))
            for sign in (-1.0, 1.0)
        ]
        below, above = self.samples - ends[0], ends[1] - self.samples
        under, over = self.model - ends[2], ends[3] - self.model
        product = 2.0 * samples * model
        with np.errstate(divide="ignore", invalid="ignore"):
            common = (samples**2 + model**2 - apart**2) / product
        common = np.where(product > 0.0, np.clip(common, -1.0, 1.0), 0.0)
        down = np.sqrt(np.maximum(below**2 + over**2 - 2.0 * common * below * over, 0.0))
        up = np.sqrt(np.maximum(above**2 + under**2 - 2.0 * common * above * under, 0.0))
        return np.stack([self.difference - down, self.difference + up], axis=1)

    def _quantiles(self, kind: int) -> Array:
        """How many standard errors an interval reaches, (k,)."""
        from scipy.special import stdtrit

        miss = 1.0 - self.level
        if self.simultaneous and self.n_pairs > 1:
            miss = sidak(miss, self.n_pairs)
        return -stdtrit(np.maximum((self.sizes[kind] - 1.0) / _FOLD, 1.0), 0.5 * miss)

    @property
    def off(self) -> tuple[Correlation, ...]:
        """Rows whose interval excludes 0, the clearest first."""
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.abs(np.arctanh(self.samples) - np.arctanh(self.model)) / self.errors[2]
        order = np.argsort(-np.nan_to_num(z, nan=0.0, posinf=np.inf), kind="stable").tolist()
        rows = list(self)
        return tuple(rows[k] for k in order if rows[k].off)

    def at(self, level: float | None = None, *, simultaneous: bool | None = None) -> Correlations:
        """The same estimates with other intervals.

        Parameters
        ----------
        level : float, optional
            Confidence of the intervals.
        simultaneous : bool, optional
            Whether they hold for all pairs at once.

        Returns
        -------
        Correlations
            A new table.
        """
        level = self.level if level is None else check_probability("level", level)
        together = self.simultaneous if simultaneous is None else bool(simultaneous)
        return replace(self, level=level, simultaneous=together)

    def to_dict(self) -> dict[str, Any]:
        """The pairs that are off as plain data that JSON can hold.

        Returns
        -------
        dict
            "level", "simultaneous", "n_pairs", and "off": a list of dictionaries.
        """
        return {
            "level": self.level,
            "simultaneous": self.simultaneous,
            "n_pairs": self.n_pairs,
            "off": [row._asdict() | {"interval": list(row.interval)} for row in self.off],
        }

    def __len__(self) -> int:
        return len(self.pairs)

    def __iter__(self) -> Iterator[Correlation]:
        difference, interval = self.difference, self.interval
        for k, (first, second) in enumerate(self.pairs):
            yield Correlation(
                first,
                second,
                float(self.samples[k]),
                float(self.model[k]),
                float(difference[k]),
                (float(interval[k, 0]), float(interval[k, 1])),
                bool(self.rough[k]),
            )

    def __getitem__(self, which: int | tuple[str, str]) -> Correlation:
        if isinstance(which, tuple):
            found = [k for k, pair in enumerate(self.pairs) if set(pair) == set(which)]
            if not found or len(which) != 2:
                raise KeyError(which)
            which = found[0]
        return list(self)[which]

    def __repr__(self) -> str:
        from ..report.tables import correlations_text

        return correlations_text(self)

    def _repr_html_(self) -> str:
        from ..report.tables import correlations_html

        return correlations_html(self)
