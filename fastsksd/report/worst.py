"""Directions of few coordinates along which samples are farther off than along single ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .._typing import Array
from ..effects import FEWEST, Effects, some_effects
from ..procedure.location_scale import ScoreRegression
from ..procedure.sparse import rounded, sparse_directions, written

_NEARLY = 0.8  # part of an effect that explains nearly all of it
_SQRT2 = 2.0**0.5  # errors of a shift over those of the logarithm of a stretch


def worst_directions(
    x: Array, scores: Array, names: tuple[str, ...], chain: np.ndarray | None = None
) -> Effects | None:
    """Effects along directions of two, three or all coordinates; None where there is none to show.

    Directions are found on the first half of the samples, or of every chain, and effects are
    estimated on the second. Of directions that say nearly the same, that with fewest coordinates is
    kept. Those that single coordinates explain are left out.
    """
    first, second = _halves(len(x), chain)
    if min(len(first), len(second)) < FEWEST or x.shape[1] < 2:
        return None
    search = ScoreRegression(x[first], scores[first])
    candidates = [
        rounded(one / search.unit) for one in sparse_directions(*search.moments(), len(first))
    ]
    if not candidates:
        return None
    directions = np.unique(np.round(candidates, 12), axis=0)
    later = None if chain is None else chain[second]
    regression = ScoreRegression(x[second], scores[second])
    singles = regression.along(None, later)
    effects = Effects.of(
        regression.along(directions, later), [written(one, names) for one in directions]
    )
    # The intervals allow for all directions that were looked at.
    effects = replace(effects, allowed=2 * len(directions))
    shown = _telling(
        effects, directions, np.maximum(np.abs(singles.shift), _SQRT2 * np.abs(singles.log_stretch))
    )
    return some_effects(effects, shown) if shown else None


def _telling(effects: Effects, directions: Array, singles: Array) -> list[int]:
    """Which directions to show, see `worst_directions`; `singles` are sizes along coordinates."""
    size = np.maximum(np.abs(effects.shift), _SQRT2 * np.abs(np.log(effects.stretch)))
    supports = [frozenset(np.flatnonzero(one).tolist()) for one in directions]
    rows = list(effects)
    known = [
        k
        for k, support in enumerate(supports)
        if (rows[k].shifted or rows[k].stretched)
        and size[k] * _NEARLY >= np.nan_to_num(singles[sorted(support)]).max()
    ]
    shown = []
    for k in known:
        fewer = any(supports[j] < supports[k] and size[j] >= _NEARLY * size[k] for j in known)
        more = any(supports[k] < supports[j] and size[k] < _NEARLY * size[j] for j in known)
        if not fewer and not more:
            shown.append(k)
    # The same coordinates once, along the stronger direction.
    order = sorted(shown, key=lambda k: -size[k])
    kept: list[int] = []
    for k in order:
        if not any(supports[k] & supports[j] for j in kept):
            kept.append(k)
    return kept


def _halves(n: int, chain: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the first half of every chain, and of the second."""
    labels = np.zeros(n, dtype=int) if chain is None else chain
    first, second = [], []
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        first.append(rows[: rows.size // 2])
        second.append(rows[rows.size // 2 :])
    return np.concatenate(first), np.concatenate(second)
