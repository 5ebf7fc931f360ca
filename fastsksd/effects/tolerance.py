"""Whether effects matter: their simultaneous intervals against a tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .._validate import ArgumentError, ArgumentTypeError, check_number
from .table import Effects

_MOST_MORE = 1e4  # times as many samples, beyond which nobody asks


class Tolerated(NamedTuple):
    """Whether effects are within a tolerance.

    Attributes
    ----------
    verdict : str
        "within": every shift and stretch is surely below. "beyond": one is surely above.
        "undecided": neither, as where one is not known, or where chains are too short to tell.
    shift, stretch : float
        The tolerances; infinity where there is none.
    worst : str
        Name of the row that decides, or is farthest from a decision.
    n_needed : int or None
        About how many samples would settle it, if it is undecided, where effects whose intervals
        hold none are taken for none; None where the estimate is too close to the tolerance to say.
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

    def of(self, effects: Effects, draws_needed: int = 0) -> Tolerated:
        """What effects are to this tolerance.

        Parameters
        ----------
        effects : Effects
            Their intervals decide, all at once.
        draws_needed : int
            Draws without which nothing is sure, where a test has too few of them.

        Returns
        -------
        Tolerated
        """
        effects = effects.at(simultaneous=True)
        errors = np.stack([effects.shift_error, effects.log_stretch_error])
        half = errors * np.stack([effects.quantiles(0), effects.quantiles(1)])
        with np.errstate(all="ignore"):
            low, high = np.moveaxis(
                np.stack([effects.shift_interval, np.log(effects.stretch_interval)]), 2, 0
            )
            limit = np.array([self.shift, np.log1p(self.stretch)])[:, None]
            asked = np.broadcast_to(np.isfinite(limit), half.shape)
            most = np.maximum(np.abs(low), np.abs(high))
            least = np.where(low * high > 0, np.minimum(np.abs(low), np.abs(high)), 0.0)
            size = np.abs(np.stack([effects.shift, np.log(effects.stretch)]))
            over = asked & (least > 0) & (size > limit)
            # With more samples intervals shrink down to both estimates; those that may be nothing
            # but noise shrink too. Without an effect, noise is the largest of all.
            noise = (least == 0) & (high - low < 2.0 * half * (1.0 + 1e-9))
            reach = half + np.where(over, 0.0, _largest(int(asked.sum())) * errors)
            room = np.where(over, least + half - limit, limit - np.where(noise, 0.0, most - half))
            factors = np.where(room > 0, (reach / room) ** 2, np.inf)
        # Of rough numbers, and of those that are not known, nothing is sure.
        unsure = asked & (effects.rough | ~np.isfinite(half))
        factors = np.where(asked, np.where(unsure, np.inf, factors), -np.inf)
        within = ~asked | ((most <= limit) & ~unsure)
        beyond = asked & (least > limit) & ~unsure
        if draws_needed:
            return self._said("undecided", effects, np.argmax(factors), draws_needed)
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
        if factor <= _MOST_MORE and not unsure.any():
            digits = f"{np.nanmax(sizes) * max(factor, 1.0):.2g}"
            n_needed = int(float(digits))
        return self._said("undecided", effects, place, n_needed)

    def _said(
        self, verdict: str, effects: Effects, place: Any, n_needed: int | None = None
    ) -> Tolerated:
        name = effects.names[int(place) % len(effects)]
        return Tolerated(verdict, self.shift, self.stretch, name, n_needed, effects.level)


def _largest(count: int) -> float:
    """Median of the largest of so many standard normal variables, without signs."""
    from scipy.special import ndtri

    return float(ndtri(0.5 + 0.5 * 0.5 ** (1.0 / max(count, 1))))


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
