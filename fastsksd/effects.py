"""Effect sizes: how far samples are shifted and stretched against the model, with intervals.

**What is estimated.** Along a direction g the samples are ``y = g.x``. If they are samples of the
model moved and stretched about its mean m, ``y = m + c (z - m) + delta`` with z from the model, the
shift is delta in standard deviations of the model along g, and the stretch is c. Both are about the
marginal of y, not about the conditional given other coordinates.

**How.** For every vector r with ``r.g = 1``, ``E[r.s | y]`` is the score of the model's marginal of
y. So ``t = r.s`` stands for that score, and the family of locations and scales along g has the
scores ``-t`` and ``-t y - 1``. One step of maximum likelihood with the empirical Fisher information
estimates shift and stretch together. Three details make it work in practice.

- *Direction.* r is the one whose t varies least: the coefficients of the regression of y on all
  scores. For a normal model t is then a function of y, whatever the samples: other coordinates do
  not matter. r is learnt on other samples than those it is used on (five folds).
- *Nuisance.* The scale of the whole vector, with score ``-s.x - d``, is estimated along with the
  two, as in a multivariate t distribution it is felt along every direction.
- *Step.* The scale's mean score enters as ``log mean(-t y)`` and the information is taken relative
  to its mean, unless that mean is uncertain by more than a quarter. The step is then exact for
  normal models at any shift and stretch, and for generalised normal models (Laplace among them) at
  any stretch. Elsewhere it is exact to first order.

As a regression on the scores this is the method of zero-variance control variates [1]_: the
estimate is the mean, or the spread, of the samples less what the model says it is.

**Where it is only a direction.** The study ``fastsksd reproduce effects`` compares estimates with
the truth, with one coordinate off.

- Normal models: no error but that of sampling, at stretches from 0.5 to 2 and shifts up to 1.
- t with 5 degrees of freedom, Laplace: stretches from 0.5 to 2 come out within 13%, shifts of 0.25
  and 0.5 within 16%, but shifts of 1 as 0.94 to 2.2. Shifts bring a stretch that is not there: of
  Laplace 1.1, 1.4 and 2.5, of t up to 1.2.
- Two modes: stretches from 0.8 to 1.25 and shifts up to 0.5 within 7%; a stretch of 2 as 2.3, and
  one of 0.5 as 0.26. Wrong weights of separate modes are hardly seen.
- Centred hierarchical models with a funnel (eight schools): log tau stretched or shifted on its own
  gives numbers, and signs, far from the truth, and other parameters seem to move too. Only the fact
  that something is wrong can be relied on.
- Many coordinates off at once are a large effect even if each is little: with all of 100
  coordinates of a multivariate t off by up to 0.1 deviations, stretches came out 0.07 too small.
- Samples that hardly correlate with the score along a direction (squared correlation below 0.35)
  mark such cases: log tau of the funnel, and two modes pushed into one. They are called `rough`.
- Distributions that differ in other ways than shift and stretch: the nearest member of the family.

**Errors** are from the influence functions of the estimates, by the central limit theorem; for
chains with the effective sample size of each influence function. The intervals of a table hold
simultaneously, by Sidak's inequality [2]_, which is valid whatever the dependence.

References
----------
.. [1] A. Mira, R. Solgi and D. Imparato, "Zero variance Markov chain Monte Carlo for Bayesian
   estimators", Statistics and Computing 23, 2013.
.. [2] Z. Sidak, "Rectangular confidence regions for the means of multivariate normal
   distributions", JASA 62, 1967.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ._doors import door
from ._typing import Array, ArrayLike, Score, SlicesLike
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    check_number,
    check_probability,
    check_samples,
    check_score,
    column_names,
    evaluate_score,
)
from .procedure.location_scale import ScoreRegression
from .procedure.split import Samples
from .report.directions import check_coordinates, direction, leading
from .slices import Slices, as_slices

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .result import GofResult

FEWEST = 20  # samples below which nothing is estimated
_SLICES = 5  # of a result, strongest first
_LINEAR = 0.35  # squared correlation of samples and scores below which numbers are rough
_MOST_MORE = 1e4  # times as many samples, beyond which nobody asks
_WHOLE = 1e-9  # length below which a coordinate of a slice counts as zero


_ARRAYS = (
    "shift",
    "shift_error",
    "stretch",
    "log_stretch_error",
    "shear",
    "shear_error",
    "linearity",
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
        Whether the model is so far from normal along it that only the fact that something is wrong
        can be relied on, not the numbers; see `Effects.linearity`.
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
        normal models and 0.5 for Laplace; below 0.35 the numbers of a row are `rough`.
    sizes : (3, k) array
        Effective numbers of samples behind shift, stretch and shear.
    level : float
        Confidence of the intervals.
    simultaneous : bool
        Whether the intervals of all rows hold at once, or each for itself.
    allowed : int or None
        How many estimates simultaneous intervals allow for, where that is more than are shown.

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
    sizes: Array
    level: float = 0.95
    simultaneous: bool = True
    allowed: int | None = None

    @property
    def shift_interval(self) -> Array:
        """Intervals of the shifts, (k, 2)."""
        half = self._quantiles(0) * self.shift_error
        return np.stack([self.shift - half, self.shift + half], axis=1)

    @property
    def stretch_interval(self) -> Array:
        """Intervals of the stretches, (k, 2)."""
        half = self._quantiles(1) * self.log_stretch_error
        with np.errstate(all="ignore"):  # an estimate of 0 that may as well be infinite
            return np.exp(np.log(self.stretch)[:, None] + np.stack([-half, half], axis=1))

    @property
    def shear_interval(self) -> Array:
        """Intervals of the shears, (k, 2); NaN where there is none."""
        half = self._quantiles(2) * self.shear_error
        middle = np.arctanh(self.shear)
        return np.tanh(np.stack([middle - half, middle + half], axis=1))

    @property
    def pvalue(self) -> Array:
        """P-values of the hypothesis that a row has neither shift nor stretch nor shear, (k,).

        By Bonferroni's inequality over the estimates of the row, not adjusted for other rows.
        """
        from scipy.special import stdtr

        tails = 2.0 * stdtr(np.maximum(self.sizes - 1.0, 1.0), -self._standardised())
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
        return replace(self, level=level, simultaneous=together)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data that JSON can hold; what is not known is None.

        Returns
        -------
        dict
            "level", "simultaneous", and "rows": a list of dictionaries.
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
        return {"level": self.level, "simultaneous": self.simultaneous, "rows": rows}

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
        from .plot import effects

        return effects(self, ax=ax)

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Effect]:
        ends = [self.shift_interval, self.stretch_interval, self.shear_interval]
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
                bool(self.linearity[k] < _LINEAR),
            )

    def __getitem__(self, which: int | str) -> Effect:
        if isinstance(which, str):
            if which not in self.names:
                raise KeyError(which)
            which = self.names.index(which)
        return list(self)[which]

    def _quantiles(self, kind: int) -> Array:
        """How many standard errors an interval reaches."""
        from scipy.special import stdtrit

        estimates = [self.shift_error, self.log_stretch_error, self.shear_error]
        count = self.allowed or sum(int(np.isfinite(errors).sum()) for errors in estimates)
        miss = 1.0 - self.level
        if self.simultaneous and count > 1:
            miss = -np.expm1(np.log1p(-miss) / count)
        return -stdtrit(np.maximum(self.sizes[kind] - 1.0, 1.0), 0.5 * miss)

    def __repr__(self) -> str:
        from .report.tables import effects_text

        return effects_text(self)

    def _repr_html_(self) -> str:
        from .report.tables import effects_html

        return effects_html(self)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


class Tolerated(NamedTuple):
    """Whether effects are within a tolerance.

    Attributes
    ----------
    verdict : str
        "within": every shift and stretch is surely below. "beyond": one is surely above.
        "undecided": neither.
    shift, stretch : float
        The tolerances; infinity where there is none.
    worst : str
        Name of the row that decides, or is farthest from a decision.
    n_needed : int or None
        About how many samples would settle it, if it is undecided; None where the estimate is too
        close to the tolerance to say.
    level : float
        Confidence.
    """

    verdict: str
    shift: float
    stretch: float
    worst: str
    n_needed: int | None
    level: float


class Tolerance(NamedTuple):
    """Shifts and stretches that do not matter; infinity for any.

    Attributes
    ----------
    shift : float
        In standard deviations of the model.
    stretch : float
        A fraction: 0.05 for 5% wider or narrower.
    """

    shift: float = np.inf
    stretch: float = np.inf

    def of(self, effects: Effects) -> Tolerated:
        """What effects are to this tolerance.

        Parameters
        ----------
        effects : Effects
            Their intervals decide, all at once.

        Returns
        -------
        Tolerated
        """
        effects = effects.at(simultaneous=True)
        errors = np.stack([effects.shift_error, effects.log_stretch_error])
        half = errors * np.stack([effects._quantiles(0), effects._quantiles(1)])
        size = np.abs(np.stack([effects.shift, np.log(effects.stretch)]))
        limit = np.array([self.shift, np.log1p(self.stretch)])[:, None]
        known = np.isfinite(half) & np.isfinite(limit)
        with np.errstate(invalid="ignore", divide="ignore"):
            # Intervals shrink like the root of the number of samples.
            factors = np.where(known, (half / (limit - size)) ** 2, -np.inf)
        # Of rough numbers nothing is sure.
        rough = known & (effects.linearity < _LINEAR)
        factors = np.where(rough, np.inf, factors)
        within = ~known | ((size + half <= limit) & ~rough)
        beyond = known & (size - half > limit) & ~rough
        over = known & (size > limit)
        if beyond.any():
            # The one with the most certainty.
            place = np.argmin(np.where(beyond, factors, np.inf))
            return self._said("beyond", effects, place)
        if within.all():
            return self._said("within", effects, np.argmax(factors))
        # One surely beyond is enough; below must be all.
        place = np.argmin(np.where(over, factors, np.inf)) if over.any() else np.argmax(factors)
        sizes = np.maximum(effects.sizes[:2], 1.0)
        factor = factors.ravel()[place]
        n_needed = None
        if factor <= _MOST_MORE and not rough.any():
            digits = f"{np.nanmax(sizes) * max(factor, 1.0):.2g}"
            n_needed = int(float(digits))
        return self._said("undecided", effects, place, n_needed)

    def _said(
        self, verdict: str, effects: Effects, place: Any, n_needed: int | None = None
    ) -> Tolerated:
        name = effects.names[int(place) % len(effects)]
        return Tolerated(verdict, self.shift, self.stretch, name, n_needed, effects.level)


def check_tolerance(tolerance: Any) -> Tolerance:
    """A tolerance from a mapping of "shift" and "stretch" to positive numbers."""
    if not isinstance(tolerance, Mapping):
        raise ArgumentTypeError(
            "tolerance",
            "must be a mapping such as {'shift': 0.1, 'stretch': 0.05}, "
            f"not {type(tolerance).__name__}",
        )
    unknown = [name for name in tolerance if name not in Tolerance._fields]
    if unknown or not tolerance:
        what = f"got {unknown[0]!r}" if unknown else "it is empty"
        raise ArgumentError("tolerance", f"must have the names 'shift' and 'stretch'; {what}")
    return Tolerance(
        **{
            name: check_number("tolerance", value, 0.0, strict=True)
            for name, value in tolerance.items()
        }
    )


@door
def effect_sizes(
    x: ArrayLike,
    score: Score,
    *,
    slices: SlicesLike | None = None,
    names: Sequence[str] | None = None,
    chain: ArrayLike | None = None,
    level: float = 0.95,
) -> Effects:
    """Estimate how far samples are shifted and stretched against a model.

    Parameters
    ----------
    x : (n, d) array or data frame
        Samples, at least 20. Names of columns become names of coordinates.
    score : (n, d) array, callable or model
        Score of the model, as for `gof_test`.
    slices : Slices or pair (r, g), optional
        Directions to look along besides the coordinates; they must not have been found on `x`.
    names : sequence of str, optional
        Names of the coordinates.
    chain : (n,) array, optional
        Chain that each sample belongs to, for samples of Markov chains; the samples of a chain are
        in their order. By default samples are independent.
    level : float
        Confidence of the intervals, which hold for all rows at once.

    Returns
    -------
    Effects
        A table with a row for each coordinate, and one for each slice.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument.

    See Also
    --------
    GofResult.effects : The effect sizes of a test.

    Notes
    -----
    The module `fastsksd.effects` has the method and its limits. A coordinate that is constant, or
    has constant scores, has NaN. With fewer than about two samples for each dimension directions r
    can't be learnt, and numbers are about coordinates given the others.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> rng = np.random.default_rng(0)
    >>> x = rng.standard_normal((4000, 2)) @ [[1.0, 0.8], [0.0, 0.6]] + [0.3, 0.0]
    >>> precision = np.linalg.inv([[1.0, 0.8], [0.8, 1.0]])
    >>> effects = fs.effect_sizes(x, lambda x: -x @ precision, names=["a", "b"])
    >>> [bool(low < truth < high) for (low, high), truth in zip(effects.shift_interval, [0.3, 0])]
    [True, True]
    """
    names = column_names(x) if names is None else names
    samples = check_samples(x, min_rows=FEWEST)
    d = samples.shape[1]
    coordinates = check_coordinates(names, d)
    labels = None if chain is None else check_chain(chain, samples.shape[0])
    scores = evaluate_score(check_score(score), samples)
    directions = None if slices is None else as_slices(slices, d)
    effects = coordinate_effects(samples, scores, coordinates, labels)
    if directions is not None:
        found = slice_effects(samples, scores, directions, coordinates, labels)
        effects = joined(effects, found)
    return effects.at(check_probability("level", level))


def check_chain(chain: ArrayLike, n: int) -> np.ndarray:
    """Labels of chains, (n,)."""
    labels = np.asarray(chain)
    if labels.shape != (n,):
        raise ArgumentError(
            "chain", f"must hold one label for each of {n} samples; got shape {labels.shape}"
        )
    if labels.dtype.kind == "f" and not np.all(np.isfinite(labels)):
        raise ArgumentError("chain", "holds NaN or infinity")
    return np.unique(labels, return_inverse=True)[1].reshape(n)


def coordinate_effects(
    x: Array, scores: Array, names: Sequence[str], chain: np.ndarray | None = None
) -> Effects:
    """Effects along the coordinates; parameters are as for `effect_sizes`, and were checked."""
    k = x.shape[1]
    shift, stretch, sizes, linearity = ScoreRegression(x, scores).along(None, chain)
    none = np.full(k, np.nan)
    return Effects(
        tuple(names),
        *shift,
        np.exp(stretch[0]),
        stretch[1],
        none,
        none,
        (None,) * k,
        k,
        linearity,
        np.stack([*sizes, none]),
    )


def slice_effects(
    x: Array, scores: Array, slices: Slices, names: Sequence[str], chain: np.ndarray | None = None
) -> Effects:
    """Effects along slices that were not found on these samples."""
    d = x.shape[1]
    largest = slices.g[np.arange(len(slices)), np.abs(slices.g).argmax(axis=1)]
    g = slices.g * np.copysign(1.0, largest)[:, None]
    regression = ScoreRegression(x, scores)
    shift, stretch, sizes, linearity = regression.along(g, chain)
    shear, error, size, across = regression.across(slices.r, g, chain)
    words = [direction(leading(one, names), d) for one in g]
    return Effects(
        tuple(words),
        *shift,
        np.exp(stretch[0]),
        stretch[1],
        shear,
        error,
        tuple(
            direction(leading(one, names), d) if known else None
            for one, known in zip(across, np.isfinite(shear), strict=True)
        ),
        0,
        linearity,
        np.stack([*sizes, size]),
    )


def joined(first: Effects, second: Effects) -> Effects:
    """Rows of both, with intervals that hold for all of them."""
    return replace(
        first,
        names=first.names + second.names,
        across=first.across + second.across,
        sizes=np.concatenate([first.sizes, second.sizes], axis=1),
        **{name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _ARRAYS},
    )


def effects_of(
    result: GofResult,
    x: ArrayLike | None = None,
    score: Score | None = None,
    *,
    names: Sequence[str] | None = None,
) -> Effects:
    """Effects of a result, see `GofResult.effects`; along its slices in other samples, if given."""
    if x is not None and score is not None:
        other = check_samples(
            x, min_rows=FEWEST, d=None if result.slices is None else result.slices.d
        )
        whole = tested = Samples(
            other, evaluate_score(check_score(score), other), np.arange(len(other))
        )
        labels = None
    else:
        if result.fitted is not None and result.fitted.same_samples:
            raise ArgumentError(
                "fit",
                "was to the same samples, so that shifts and stretches are near those of a right "
                "model whatever it is: give other samples for effect sizes",
            )
        whole = _in_order(_held(result._whole))
        tested = _in_order(cast(Samples, result._samples))
        labels = result._chain
    if labels is None and result.lag > 2:
        labels = np.zeros(int(whole.rows.max()) + 1, dtype=int)  # draws may have been left out
    coordinates = check_coordinates(result.names if names is None else names, whole.x.shape[1])
    chain = None if labels is None else labels[whole.rows]
    effects = coordinate_effects(whole.x, cast(Array, whole.scores), coordinates, chain)
    if result.slices is None or len(tested.x) < FEWEST:
        return effects
    order = np.argsort(-result.slice_statistics, kind="stable")
    order = order[~is_coordinate(result.slices)[order]][:_SLICES]
    if order.size == 0:
        return effects
    chain = None if labels is None else labels[tested.rows]
    slices = Slices(result.slices.r[order], result.slices.g[order])
    found = slice_effects(tested.x, cast(Array, tested.scores), slices, coordinates, chain)
    return joined(effects, found)


def has_effects(result: GofResult) -> bool:
    """Whether the result holds all that its effects need."""
    whole = result._whole
    if result.fitted is not None and result.fitted.same_samples:
        return False
    return whole is not None and whole.scores is not None and len(whole.x) >= FEWEST


def _held(samples: Samples | None) -> Samples:
    """Samples of a result, with scores and enough of them."""
    if samples is None:
        raise ArgumentError(
            "x",
            "is not known: this result holds no samples, like those of gof_stream and gof_batch",
        )
    if samples.scores is None:
        raise ArgumentError("method", "needs no score, so that there are no effect sizes")
    if len(samples.x) < FEWEST:
        raise ArgumentError(
            "x", f"must hold at least {FEWEST} samples for effect sizes; got {len(samples.x)}"
        )
    return samples


def _in_order(samples: Samples) -> Samples:
    """Samples in the caller's order."""
    order = np.argsort(samples.rows, kind="stable")
    if np.array_equal(order, np.arange(order.size)):
        return samples
    return Samples(samples.x[order], cast(Array, samples.scores)[order], samples.rows[order])


def some_effects(effects: Effects, rows: list[int]) -> Effects:
    """Some of the rows, in this order."""
    return replace(
        effects,
        names=tuple(effects.names[k] for k in rows),
        across=tuple(effects.across[k] for k in rows),
        sizes=effects.sizes[:, rows],
        **{name: getattr(effects, name)[rows] for name in _ARRAYS},
    )


def is_coordinate(slices: Slices) -> np.ndarray:
    """Which slices look along one coordinate, r and g alike."""
    both = np.maximum(np.abs(slices.r), np.abs(slices.g))
    return np.count_nonzero(both > _WHOLE, axis=1) == 1
