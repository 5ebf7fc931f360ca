"""Which slices a test looks along: pools of slices, and the nested sets of them that are members.

The standard family has a pool of the coordinate basis and, from training samples, one of active
directions r with g = r. The sets of the latter are the top 1, 3 and 10.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .._typing import SlicesLike
from .._validate import AboutArgument, ArgumentError, ArgumentTypeError, MessagePart
from ..slices import Slices, as_slices

TOP = (1, 3, 10)
# Multiples of the bandwidth: of sets named by the user, of the coordinates, of active slices.
MULTIPLES = (0.5, 1.0, 2.0)
COORDINATE_MULTIPLES = (1.0, 2.0)
ACTIVE_MULTIPLES = (1.0,)
COORDINATES = "coordinates"
# What the names of members without slices begin with.
_UNSLICED = ("whole vector, ", "linear kernel, ", "location, ", "scale and shape, ", "largest ")
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
    multiples : tuple of float
        Multiples of the bandwidth at which each set is tested.
    """

    kind: str
    slices: Slices
    sets: tuple[SliceSet, ...]
    multiples: tuple[float, ...]


def named_pool(name: str, slices: Slices, multiples: tuple[float, ...] = (1.0,)) -> Pool:
    """A pool of one set, of a kind of its own."""
    return Pool(f"set {name}", slices, (SliceSet(name, len(slices)),), multiples)


def coordinate_pool(d: int, multiples: tuple[float, ...]) -> Pool:
    """The coordinates, each with g = r."""
    return Pool(COORDINATES, Slices(np.eye(d), np.eye(d)), (SliceSet(COORDINATES, d),), multiples)


def active_pool(found: Slices, multiples: tuple[float, ...]) -> Pool:
    """The pool of active slices of the standard family, from all that were found."""
    most = min(len(found), TOP[-1])
    counts = (*(top for top in TOP if top < most), most)
    slices = found[:most]
    sets = tuple(SliceSet(_active_name(count), count) for count in counts)
    return Pool("active", slices, sets, multiples)


def _active_name(count: int) -> str:
    return f"top {count} active r"


def check_pools(
    argument: str,
    sets: Mapping[str, SlicesLike] | Iterable[tuple[str, SlicesLike]],
    d: int,
    multiples: tuple[float, ...],
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
            reason: tuple[MessagePart, ...] = (str(error).rstrip("."),)
            if isinstance(error, AboutArgument) and error.argument == "slices":
                reason = error.parts
            raise kind(argument, f"has a set {name!r} that can't be used: ", *reason) from None
    return tuple(named_pool(name, slices, multiples) for name, slices in checked.items())


def check_extra_pools(
    extra: Mapping[str, SlicesLike] | None, d: int, multiples: tuple[float, ...]
) -> tuple[Pool, ...]:
    """The user's sets in the standard family, whose own names are taken."""
    pools = () if extra is None else check_pools("extra_slices", extra, d, multiples)
    reserved = {COORDINATES, *(_active_name(count) for count in range(1, TOP[-1] + 1))}
    for pool in pools:
        name = pool.sets[0].name
        if name in reserved or name.startswith(_UNSLICED):
            raise ArgumentError(
                "extra_slices",
                f"has a set named {pool.sets[0].name!r}, which is a name of the standard family",
            )
    return pools
