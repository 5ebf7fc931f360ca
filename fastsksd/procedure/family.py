"""Which slices a test looks along: pools of slices, and the nested sets of them that are members.

The standard family has a pool of the coordinate basis and, from training samples, two pools of
active slices: with g = r and with active g. Their sets are the top 1, 3, 10 and all slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .._typing import SlicesLike
from .._validate import AboutArgument, ArgumentError, ArgumentTypeError, Option
from ..slices import Slices, as_slices

TOP = (1, 3, 10)
MULTIPLES = (0.5, 1.0, 2.0)
_G = ("g = r", "active g")
_NAMED_SETS = "must map names to slices, or be a sequence of pairs (name, slices)"


class SliceSet(NamedTuple):
    """A set of slices: the first `size` of a pool."""

    name: str
    size: int


class Pool(NamedTuple):
    """Slices, most important first, and the nested sets of them that are tested.

    Sets of a pool share their slices: the top 3 are the top 1 and two more. What sets have in
    common is computed once.

    Attributes
    ----------
    kind : str
        Pools of different kinds get equal weight in a family.
    slices : Slices
    sets : tuple of SliceSet
        In increasing size; the last one is the whole pool.
    """

    kind: str
    slices: Slices
    sets: tuple[SliceSet, ...]


def named_pool(name: str, slices: Slices) -> Pool:
    """A pool of one set, of a kind of its own."""
    return Pool(f"set {name}", slices, (SliceSet(name, len(slices)),))


def fixed_pools(d: int, extra: Mapping[str, SlicesLike] | None = None) -> tuple[Pool, ...]:
    """The pools of the standard family that need no training: the coordinates and the user's."""
    added = () if extra is None else check_pools("extra_slices", extra, d)
    sizes = (*(f"top {top}" for top in TOP), "all")
    reserved = {"coordinates", *(f"{size} active r, {g}" for size in sizes for g in _G)}
    for pool in added:
        if pool.sets[0].name in reserved:
            raise ArgumentError(
                "extra_slices",
                f"has a set named {pool.sets[0].name!r}, which is a name of the standard family",
            )
    return (named_pool("coordinates", Slices(np.eye(d), np.eye(d))), *added)


def active_pools(found: Slices) -> tuple[Pool, ...]:
    """The pools of active slices of the standard family, from all slices found."""
    m = len(found)
    counts = (*(top for top in TOP if top < m), m)
    pools = []
    for kind, slices in zip(_G, (Slices(found.r, found.r, found.r_values), found), strict=True):
        sizes = [(f"top {count}" if count < m else "all", count) for count in counts]
        sets = tuple(SliceSet(f"{size} active r, {kind}", count) for size, count in sizes)
        pools.append(Pool(kind, slices, sets))
    return tuple(pools)


def check_pools(
    argument: str, sets: Mapping[str, SlicesLike] | Iterable[tuple[str, SlicesLike]], d: int
) -> tuple[Pool, ...]:
    """Named sets of slices as pools, from a mapping or a sequence of pairs."""
    if not isinstance(sets, Iterable):
        raise ArgumentTypeError(argument, _NAMED_SETS)
    pairs = list(sets.items() if isinstance(sets, Mapping) else sets)
    if not pairs:
        raise ArgumentError(argument, "holds no set of slices; leave it out or give at least one")
    checked: dict[str, Slices] = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ArgumentTypeError(argument, _NAMED_SETS)
        name, slices = pair
        if name in checked:
            raise ArgumentError(argument, f"has two sets named {name!r}")
        try:
            checked[name] = as_slices(slices, d)
        except (TypeError, ValueError) as error:
            kind = ArgumentTypeError if isinstance(error, TypeError) else ArgumentError
            reason: tuple[str | Option, ...] = (str(error).rstrip("."),)
            if isinstance(error, AboutArgument) and error.argument == "slices":
                reason = error.parts
            raise kind(argument, f"has a set {name!r} that can't be used: ", *reason) from None
    return tuple(named_pool(name, slices) for name, slices in checked.items())
