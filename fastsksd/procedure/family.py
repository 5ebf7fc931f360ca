"""The standard family of slice sets, and the user's own sets."""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..slices import Slices, as_slices

TOP = (1, 3, 10)
MULTIPLES = (0.5, 1.0, 2.0)
_G = ("g = r", "active g")


class SliceSet(NamedTuple):
    """A set of slices, in parts that other sets may share."""

    name: str
    kind: str
    parts: list


def named_set(name, slices):
    """A set in one part, of a kind of its own."""
    return SliceSet(name, f"set {name}", [slices])


def fixed_sets(d, extra=None):
    """The sets of the standard family that need no training: the coordinate basis, and those the user adds."""
    added = [] if extra is None else check_sets("extra_slices", extra, d)
    reserved = {
        "coordinates",
        *(f"{size} active r, {g}" for size in (*(f"top {top}" for top in TOP), "all") for g in _G),
    }
    for added_set in added:
        if added_set.name in reserved:
            raise ValueError(
                f"`extra_slices` has a set named {added_set.name!r}, which is a name of the standard family."
            )
    return [named_set("coordinates", Slices(np.eye(d), np.eye(d))), *added]


def active_sets(found):
    """The active sets of the standard family, for slices `found` (as many as there are, most important first).

    Sets share their parts: the top 3 are the top 1 and two more, so what they have in common is computed once.
    """
    m = len(found)
    edges = [0, *(top for top in TOP if top < m), m]
    sets = []
    for title, g in zip(_G, (found.r, found.g), strict=True):
        parts = [Slices(found.r[a:b], g[a:b]) for a, b in pairwise(edges)]
        for count in range(1, len(parts) + 1):
            size = "all" if edges[count] == m else f"top {edges[count]}"
            sets.append(SliceSet(f"{size} active r, {title}", title, parts[:count]))
    return sets


def check_sets(argument, sets, d):
    """Named sets of slices, from a mapping or a sequence of pairs."""
    pairs = list(sets.items() if isinstance(sets, Mapping) else sets)
    if not pairs:
        raise ValueError(f"`{argument}` holds no set of slices; leave it out or give at least one.")
    checked = {}
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)):
            raise TypeError(
                f"`{argument}` must map names to slices, or be a sequence of pairs (name, slices)."
            )
        name, slices = pair
        if name in checked:
            raise ValueError(f"`{argument}` has two sets named {name!r}.")
        try:
            checked[name] = as_slices(slices, d)
        except (TypeError, ValueError) as error:
            raise type(error)(f"`{argument}`, set {name!r}: {error}") from None
    return [named_set(name, slices) for name, slices in checked.items()]
