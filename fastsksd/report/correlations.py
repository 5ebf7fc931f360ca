"""Pairs of coordinates whose correlation in the samples is not that of the model.

With coordinates in deviations of the model, ``arctanh(rho)`` is half the logarithm of the ratio of
the variances along their sum and along their difference. Stretches along these two directions, see
`fastsksd.effects`, therefore say how far the correlation of the samples is from that which the
model implies. Pairs are found on the first half of the samples, or of every chain, and what is said
of them comes from the second.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..effects import FEWEST, Effects
from ..procedure.location_scale import ScoreRegression
from ..procedure.metric import moderate
from .worst import halves

_PAIRS = 10  # looked at on the second half
_LARGEST = 0.999  # correlation beyond which there is one coordinate and not two


class Correlation(NamedTuple):
    """A pair of coordinates whose correlation is off.

    Attributes
    ----------
    first, second : str
        Names of the coordinates.
    samples : float
        Correlation of the samples.
    model : float
        Correlation that the model implies.
    interval : (float, float)
        Of the latter, for samples that have the former. Intervals of all pairs that were looked at
        hold at once.
    """

    first: str
    second: str
    samples: float
    model: float
    interval: tuple[float, float]

    def said(self) -> str:
        """The pair in words.

        Returns
        -------
        str

        Examples
        --------
        >>> from fastsksd.report.correlations import Correlation
        >>> Correlation("a", "b", 0.012, 0.951, (0.93, 0.96)).said()
        'a and b: correlation 0.01, and 0.95 in the model (0.93 to 0.96)'
        """
        low, high = self.interval
        return (
            f"{self.first} and {self.second}: correlation {self.samples:.2f}, and "
            f"{self.model:.2f} in the model ({low:.2f} to {high:.2f})"
        )


def wrong_correlations(
    x: Array,
    scores: Array,
    names: tuple[str, ...],
    chain: np.ndarray | None = None,
    level: float = 0.95,
) -> tuple[Correlation, ...]:
    """Pairs whose correlation is surely off, farthest first; rough ones are left out."""
    first, second = halves(len(x), chain)
    if min(len(first), len(second)) < FEWEST or x.shape[1] < 2:
        return ()
    pairs = _candidates(x[first], scores[first])
    if not len(pairs):
        return ()
    later = None if chain is None else chain[second]
    x, scores = x[second], scores[second]
    regression = ScoreRegression(x, scores)
    own = regression.along(None, later)
    values = moderate(x)
    units = values.std(axis=0) * np.exp(-own.log_stretch)  # deviations of the model
    pairs = pairs[np.isfinite(units[pairs]).all(axis=1)]
    if not len(pairs):
        return ()
    directions = np.zeros((2, len(pairs), x.shape[1]))
    rows = np.arange(len(pairs))
    directions[:, rows, pairs[:, 0]] = 1.0 / units[pairs[:, 0]]
    directions[:, rows, pairs[:, 1]] = np.array([[1.0], [-1.0]]) / units[pairs[:, 1]]
    flat = directions.reshape(-1, x.shape[1])
    effects = Effects.of(regression.along(flat, later), [""] * len(flat)).at(level)
    effects = replace(effects, allowed=len(pairs))
    with np.errstate(all="ignore"):
        stretch = np.log(effects.stretch).reshape(2, -1)
        half = effects.quantiles(1) * effects.log_stretch_error
        half = np.sqrt((half.reshape(2, -1) ** 2).sum(axis=0))
        z = np.arctanh(
            np.clip(_correlations(values)[pairs[:, 0], pairs[:, 1]], -_LARGEST, _LARGEST)
        )
        off = stretch[0] - stretch[1]
    known = np.isfinite(off) & np.isfinite(half) & ~effects.rough.reshape(2, -1).any(axis=0)
    found = np.flatnonzero(known & (np.abs(off) > half))
    return tuple(
        Correlation(
            names[pairs[k, 0]],
            names[pairs[k, 1]],
            float(np.tanh(z[k])),
            float(np.tanh(z[k] - off[k])),
            (float(np.tanh(z[k] - off[k] - half[k])), float(np.tanh(z[k] - off[k] + half[k]))),
        )
        for k in found[np.argsort(-np.abs(off[found]), kind="stable")].tolist()
    )


def _candidates(x: Array, scores: Array) -> np.ndarray:
    """The pairs whose correlations seem to be farthest off, (k, 2)."""
    search = ScoreRegression(x, scores)
    _, model, _ = search.moments()
    variance = np.diagonal(model)
    some = np.flatnonzero(~search.constant & (variance > 0))
    unit = np.sqrt(variance[some])
    rho = model[np.ix_(some, some)] / unit[:, None] / unit
    z = [
        np.arctanh(np.clip(one, -_LARGEST, _LARGEST))
        for one in (rho, _correlations(search.bounded[:, some]))
    ]
    off = np.abs(z[0] - z[1])
    row, column = np.triu_indices(some.size, 1)
    order = np.argsort(-off[row, column], kind="stable")[:_PAIRS]
    return np.stack([some[row[order]], some[column[order]]], axis=1)


def _correlations(x: Array) -> Array:
    z = x - x.mean(axis=0)
    deviation = z.std(axis=0)
    z /= np.where(deviation > 0, deviation, 1.0)
    return z.T @ z / len(z)
