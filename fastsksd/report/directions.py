"""Directions in words: the coordinates that carry them, with their weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, ArgumentTypeError

ALIGNED = 0.7  # r.g from which on r and g count as one direction

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
