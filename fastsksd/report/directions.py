"""Directions in words: the coordinates that carry them, with their weights.

Coordinates of different units are divided by them, as in "0.71 mu/sd -0.70 tau/sd".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, ArgumentTypeError
from ..compute.projections import row_lengths, unit_rows
from ..procedure.metric import diagonal_if_known

ALIGNED = 0.7  # r.g from which on r and g count as one direction
_ALIKE = 2.0  # ratio of the largest unit of a coordinate to the smallest up to which they are one
_WHOLE = 1e-9  # length below which a coordinate of a slice counts as zero

Weights: TypeAlias = Sequence[tuple[str, float]]
"""Names of coordinates with their weights in a direction, largest first."""


def check_coordinates(names: Iterable[object] | None, d: int) -> tuple[str, ...]:
    """`names` of d coordinates, by default x[0], x[1], ..."""
    if names is None:
        return tuple(f"x[{k}]" for k in range(d))
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise ArgumentTypeError(
            "names",
            f"must be a sequence of {d} strings, one for each coordinate, "
            f"not {type(names).__name__}",
        )
    names = tuple(str(name) for name in names)
    if len(names) != d:
        raise ArgumentError(
            "names", f"must have one name for each of {d} coordinates; got {len(names)}"
        )
    return names


class Shown(NamedTuple):
    """The directions of a slice as they are shown.

    Attributes
    ----------
    r, g : (d,) arrays
        Unit vectors; for coordinates of different units, directions of ``x / units``.
    names : tuple of str
        Of the coordinates, as "a/sd" where they are divided by their units.
    r_unit, g_unit : float
        What scores along r, and samples along g, are divided by.
    """

    r: Array
    g: Array
    names: tuple[str, ...]
    r_unit: float = 1.0
    g_unit: float = 1.0


def coordinate_units(x: Array, scores: Array | None) -> Array | None:
    """Units of the coordinates, deviations of the model; None where they are alike or unknown."""
    if scores is None:
        return None
    factors, known = diagonal_if_known(x, scores)
    if not known.all() or factors.max() <= _ALIKE * factors.min():
        return None
    return 1.0 / factors


def shown(r: Array, g: Array, names: Sequence[str], units: Array | None) -> Shown:
    """A slice as it is shown: one that is not along a coordinate, in `units` if they differ.

    In the user's units, the coordinates with the largest weights are those of the smallest units in
    g, and those of the largest ones in r, whatever the slice is about.
    """
    names = tuple(names)
    alone = np.count_nonzero(np.maximum(np.abs(r), np.abs(g)) > _WHOLE) == 1
    if units is None or alone:
        return Shown(r, g, names)
    both = np.stack([r / units, g * units])
    r, g = unit_rows(both)
    r_unit, g_unit = row_lengths(both).tolist()
    return Shown(r, g, tuple(f"{name}/sd" for name in names), r_unit, g_unit)


def leading(vector: Array, names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The three coordinates with the largest weights that are not zero, largest first."""
    order = np.argsort(-np.abs(vector), kind="stable")[:3]
    return tuple((names[k], float(vector[k])) for k in order.tolist() if vector[k] != 0)


def direction(weights: Weights, d: int) -> str:
    """A direction of `d` coordinates in words, from its leading ones.

    Examples
    --------
    >>> from fastsksd.report.directions import direction
    >>> direction([("a", 0.8), ("b", -0.6)], 2)
    '0.80 a -0.60 b'
    >>> direction([("a", -1.0)], 2)
    '-a'
    """
    return " ".join(direction_terms(weights, d))


def direction_terms(weights: Weights, d: int) -> list[str]:
    """The terms of `direction`, one for each coordinate; small ones are left out."""
    if abs(weights[0][1]) > 0.995:
        return [weights[0][0] if weights[0][1] > 0 else f"-{weights[0][0]}"]
    weights = [weights[0], *(pair for pair in weights[1:] if abs(pair[1]) > 0.05)]
    terms = [
        f"{'-' if weight < 0 else '+' if k else ''}{abs(weight):.2f} {name}"
        for k, (name, weight) in enumerate(weights)
    ]
    rest = 1.0 - sum(weight**2 for _, weight in weights)
    return [*terms, "..."] if d > len(weights) and rest > 0.01 else terms
