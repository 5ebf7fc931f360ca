"""The table of effect sizes: shifts, stretches and shears with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import check_probability
from ..report.rates import sidak
from .correlations import Correlations

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..procedure.location_scale import LocationScale

# Samples for each degree of freedom of the errors of shifts, stretches and shears. For normal
# models the influence of a sample is a normal deviate, a squared one, or a product of two. Their
# kurtoses are 3, 15 and 9; a variance estimated from n numbers of kurtosis k has 2 n / (k - 1)
# degrees of freedom.
_FOLD = np.array([1.0, 7.0, 4.0])
_LINEAR = 0.35  # squared correlation of samples and scores below which numbers are rough
_APART = 0.25  # deviations, or logarithms of stretches, by which two methods may disagree
_NOISE = 2.0  # standard errors up to which they agree
_ARRAYS = (
    "shift",
    "shift_error",
    "stretch",
    "log_stretch_error",
    "shear",
    "shear_error",
    "linearity",
    "moment_shift",
    "moment_stretch",
    "divided",
)


class Effect(NamedTuple):
    """One row of `Effects`.

    Attributes
    ----------
    name : str
        Coordinate, or direction of a slice.
    shift : float
        Shift in standard deviations of the model.
    shift_interval : (float, float)
    stretch : float
        Width of the samples over that of the model.
    stretch_interval : (float, float)
    shear : float
        For a slice with r and g apart: correlation of the samples along g with those `across` that
        the model does not have. NaN otherwise.
    shear_interval : (float, float)
    across : str or None
        Direction across g that the shear is about.
    rough : bool
        Whether only the fact that something is wrong can be relied on, not the numbers; see
        `Effects.rough`.
    """

    name: str
    shift: float
    shift_interval: tuple[float, float]
    stretch: float
    stretch_interval: tuple[float, float]
    shear: float = float("nan")
    shear_interval: tuple[float, float] = (float("nan"), float("nan"))
    across: str | None = None
    rough: bool = False

    @property
    def shifted(self) -> bool:
        """Whether the interval of the shift excludes 0."""
        return _excludes(self.shift_interval, 0.0)

    @property
    def stretched(self) -> bool:
        """Whether the interval of the stretch excludes 1."""
        return _excludes(self.stretch_interval, 1.0)

    @property
    def sheared(self) -> bool:
        """Whether the interval of the shear excludes 0."""
        return _excludes(self.shear_interval, 0.0)


def _excludes(interval: tuple[float, float], value: float) -> bool:
    return not np.isnan(interval[0]) and not interval[0] <= value <= interval[1]


@dataclass(frozen=True, eq=False, repr=False)
class Effects:
    """Shifts and stretches of samples against a model, with confidence intervals.

    A row for each coordinate, then one for each slice. It has a length, can be indexed by number or
    name, and iterates over rows, each an `Effect`. It prints as a table.

    Attributes
    ----------
    names : tuple of str
        Names of the rows.
    shift, shift_error : (k,) arrays
        Shifts in standard deviations of the model, with standard errors. Positive: the samples lie
        too high.
    stretch : (k,) array
        Width of the samples over that of the model.
    log_stretch_error : (k,) array
        Standard error of the logarithm of `stretch`.
    shear, shear_error : (k,) arrays
        For slices with r and g apart: the correlation of the samples along g with those along
        `across` that the model does not have; its standard error is that of ``arctanh(shear)``. NaN
        in other rows.
    across : tuple of (str or None)
        Directions across g that shears are about.
    n_coordinates : int
        How many rows are coordinates; they come first.
    linearity : (k,) array
        Squared correlation of the samples with the score along the same direction. It is 1 for
        normal models and 0.5 for Laplace.
    moment_shift, moment_stretch : (k,) arrays
        Shifts and stretches by a second method, from the mean and the deviation of the model that
        control variates give. Where shapes differ as well, the two methods disagree.
    apart_error : (2, k) array
        Standard errors of the differences of the two methods, for shifts and for logarithms of
        stretches.
    divided : (k,) array of bool
        Rows along which the samples are in separate groups. Scores do not know the weights of the
        groups, so that shifts and stretches which come from wrong weights are not seen.
    sizes : (3, k) array
        Effective numbers of samples behind shift, stretch and shear.
    level : float
        Confidence of the intervals.
    simultaneous : bool
        Whether the intervals of all rows hold at once, or each for itself.
    allowed : int or None
        How many estimates simultaneous intervals allow for, where that is more than are shown.
    correlations : Correlations or None
        Correlations of pairs of coordinates, those of the samples and of the model; see `off` there
        for the pairs that differ. Their intervals hold at once among themselves. None where there
        are no coordinates.

    See Also
    --------
    effect_sizes : Makes one.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((2000, 2)) * [1.5, 1.0]
    >>> effects = fs.effect_sizes(x, np.negative, names=["a", "b"])
    >>> effects["a"].stretched, effects["b"].stretched
    (True, False)
    >>> [bool(low < 1.5 < high) for low, high in effects.stretch_interval]
    [True, False]
    """

    names: tuple[str, ...]
    shift: Array
    shift_error: Array
    stretch: Array
    log_stretch_error: Array
    shear: Array
    shear_error: Array
    across: tuple[str | None, ...]
    n_coordinates: int
    linearity: Array
    moment_shift: Array
    moment_stretch: Array
    apart_error: Array
    divided: np.ndarray
    sizes: Array
    level: float = 0.95
    simultaneous: bool = True
    allowed: int | None = None
    correlations: Correlations | None = None

    @classmethod
    def of(
        cls,
        found: LocationScale,
        names: Sequence[str],
        *,
        n_coordinates: int = 0,
        shear: tuple[Array, Array, Array] | None = None,
        across: Sequence[str | None] | None = None,
        divided: np.ndarray | None = None,
    ) -> Effects:
        """A table of estimates.

        Parameters
        ----------
        found : LocationScale
            Shifts and stretches.
        names : sequence of str
            Names of the rows.
        n_coordinates : int
            How many rows are coordinates.
        shear : tuple of (k,) arrays, optional
            Shears, their errors and effective sizes.
        across : sequence of (str or None), optional
            Directions that shears are about.
        divided : (k,) array of bool, optional
            Rows along which the samples are in separate groups; none by default.

        Returns
        -------
        Effects
        """
        none = np.full(len(names), np.nan)
        values, errors, sizes = (none, none, none) if shear is None else shear
        return cls(
            tuple(names),
            found.shift,
            found.shift_error,
            np.exp(found.log_stretch),
            found.log_stretch_error,
            values,
            errors,
            (None,) * len(names) if across is None else tuple(across),
            n_coordinates,
            found.linearity,
            found.moment_shift,
            np.exp(found.moment_log_stretch),
            found.apart_error,
            np.zeros(len(names), dtype=bool) if divided is None else divided,
            np.stack([*found.sizes, sizes]),
        )

    @property
    def rough(self) -> np.ndarray:
        """Rows of which only the fact that something is wrong can be relied on, (k,) booleans.

        The model is far from normal there (`linearity` below 0.35), the two methods disagree by
        more than a quarter of a deviation or 25%, or the samples are in separate groups
        (`divided`).
        """
        apart = [one[1] - one[0] for one in self._both()]
        disagree = (np.stack(apart) > _APART).any(axis=0)
        return np.asarray((self.linearity < _LINEAR) | disagree | self.divided)

    def _both(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Lower and upper of the two estimates of shift and log stretch; infinite if one fails.

        The second counts only where it is apart from the first by more than two standard errors,
        both of the first and of the difference.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.stack([self.shift_error, self.log_stretch_error])
            pairs = (
                (self.shift, self.moment_shift),
                (np.log(self.stretch), np.log(self.moment_stretch)),
            )
            both = []
            for (first, second), noise in zip(
                pairs, _NOISE * np.maximum(errors, self.apart_error), strict=True
            ):
                agree = np.abs(second - first) <= noise
                lower, upper = np.minimum(first, second), np.maximum(first, second)
                failed = np.isnan(second) & np.isfinite(first)
                both.append(
                    (
                        np.where(agree, first, np.where(failed, -np.inf, lower)),
                        np.where(agree, first, np.where(failed, np.inf, upper)),
                    )
                )
        return both[0], both[1]

    @property
    def shift_interval(self) -> Array:
        """Intervals of the shifts, (k, 2). Where the two methods disagree they reach to both."""
        half = self.quantiles(0) * self.shift_error
        low, high = self._both()[0]
        return np.stack([low - half, high + half], axis=1)

    @property
    def stretch_interval(self) -> Array:
        """Intervals of the stretches, (k, 2). Where the two methods disagree they reach to both."""
        half = self.quantiles(1) * self.log_stretch_error
        low, high = self._both()[1]
        with np.errstate(all="ignore"):  # an estimate of 0 that may as well be infinite
            return np.exp(np.stack([low - half, high + half], axis=1))

    @property
    def shear_interval(self) -> Array:
        """Intervals of the shears, (k, 2); NaN where there is none."""
        half = self.quantiles(2) * self.shear_error
        middle = np.arctanh(self.shear)
        return np.tanh(np.stack([middle - half, middle + half], axis=1))

    @property
    def pvalue(self) -> Array:
        """P-values of the hypothesis that a row has neither shift nor stretch nor shear, (k,).

        By Bonferroni's inequality over the estimates of the row, not adjusted for other rows.
        """
        from scipy.special import stdtr

        tails = 2.0 * stdtr(self._freedom(), -self._standardised())
        known = np.isfinite(tails)
        least = np.where(known, tails, 1.0).min(axis=0)
        count = known.sum(axis=0)
        return np.where(count > 0, np.minimum(least * count, 1.0), np.nan)

    @property
    def strength(self) -> Array:
        """Largest estimate of each row in its standard errors, (k,)."""
        return np.nan_to_num(self._standardised(), nan=0.0).max(axis=0)

    def _standardised(self) -> Array:
        """Shifts, stretches and shears in their standard errors, without signs, (3, k)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(
                np.stack(
                    [
                        self.shift / self.shift_error,
                        np.log(self.stretch) / self.log_stretch_error,
                        np.arctanh(self.shear) / self.shear_error,
                    ]
                )
            )

    def at(self, level: float | None = None, *, simultaneous: bool | None = None) -> Effects:
        """The same estimates with other intervals.

        Parameters
        ----------
        level : float, optional
            Confidence of the intervals.
        simultaneous : bool, optional
            Whether they hold for all rows at once.

        Returns
        -------
        Effects
            A new table.
        """
        level = self.level if level is None else check_probability("level", level)
        together = self.simultaneous if simultaneous is None else bool(simultaneous)
        pairs = self.correlations and self.correlations.at(level, simultaneous=together)
        return replace(self, level=level, simultaneous=together, correlations=pairs)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that JSON can hold; what is not known is None.

        Returns
        -------
        dict
            "level", "simultaneous", "rows": a list of dictionaries, and "correlations".
        """
        rows = []
        for k, row in enumerate(self):
            entry: dict[str, Any] = {
                "name": row.name,
                "kind": "coordinate" if k < self.n_coordinates else "slice",
                "shift": _plain(row.shift),
                "shift_interval": [_plain(end) for end in row.shift_interval],
                "stretch": _plain(row.stretch),
                "stretch_interval": [_plain(end) for end in row.stretch_interval],
                "rough": row.rough,
            }
            if row.across is not None:
                entry |= {
                    "shear": _plain(row.shear),
                    "shear_interval": [_plain(end) for end in row.shear_interval],
                    "across": row.across,
                }
            rows.append(entry)
        pairs = None if self.correlations is None else self.correlations.to_dict()
        return {
            "level": self.level,
            "simultaneous": self.simultaneous,
            "rows": rows,
            "correlations": pairs,
        }

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw a forest plot of the shifts and stretches, see `fastsksd.plot.effects`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes drawn on.
        """
        from ..plot import effects

        return effects(self, ax=ax)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Effect]:
        ends = [self.shift_interval, self.stretch_interval, self.shear_interval]
        rough = self.rough
        for k, name in enumerate(self.names):
            shift, stretch, shear = ((float(one[k, 0]), float(one[k, 1])) for one in ends)
            yield Effect(
                name,
                float(self.shift[k]),
                shift,
                float(self.stretch[k]),
                stretch,
                float(self.shear[k]),
                shear,
                self.across[k],
                bool(rough[k]),
            )

    def __getitem__(self, which: int | str) -> Effect:
        if isinstance(which, str):
            if which not in self.names:
                raise KeyError(which)
            which = self.names.index(which)
        return list(self)[which]

    def quantiles(self, kind: int) -> Array:
        """How many standard errors an interval reaches.

        Parameters
        ----------
        kind : int
            0 for shifts, 1 for stretches, 2 for shears.

        Returns
        -------
        (k,) array
            One for each row.
        """
        from scipy.special import stdtrit

        estimates = [self.shift_error, self.log_stretch_error, self.shear_error]
        count = self.allowed or sum(int(np.isfinite(errors).sum()) for errors in estimates)
        miss = 1.0 - self.level
        if self.simultaneous and count > 1:
            miss = sidak(miss, count)
        return -stdtrit(self._freedom()[kind], 0.5 * miss)

    def _freedom(self) -> Array:
        """Degrees of freedom of the standard errors, (3, k)."""
        return np.maximum((self.sizes - 1.0) / _FOLD[:, None], 1.0)

    def __repr__(self) -> str:
        from ..report.tables import effects_text

        return effects_text(self)

    def _repr_html_(self) -> str:
        from ..report.tables import effects_html

        return effects_html(self)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def joined(first: Effects, second: Effects) -> Effects:
    """Rows of both, with intervals that hold for all of them."""
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _ARRAYS
    }
    return replace(
        first,
        names=first.names + second.names,
        across=first.across + second.across,
        apart_error=np.concatenate([first.apart_error, second.apart_error], axis=1),
        sizes=np.concatenate([first.sizes, second.sizes], axis=1),
        **arrays,
    )


def some_effects(effects: Effects, rows: list[int]) -> Effects:
    """Some of the rows, in this order."""
    arrays: dict[str, Any] = {name: getattr(effects, name)[rows] for name in _ARRAYS}
    return replace(
        effects,
        names=tuple(effects.names[k] for k in rows),
        across=tuple(effects.across[k] for k in rows),
        apart_error=effects.apart_error[:, rows],
        sizes=effects.sizes[:, rows],
        **arrays,
    )
