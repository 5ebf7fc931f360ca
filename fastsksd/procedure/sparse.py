"""Directions in which samples are most stretched or shifted, with as few coordinates as possible.

Along g, with r the coefficients of the regression of ``g.x`` on the scores, the mean of ``-t y`` is
``g.N g / g.B g``, where B holds these coefficients (the covariance that a normal model has) and N
is the part of the covariance of the samples that the scores explain. It is 1 for a correct model.
Its extremes over all g are those of a generalised eigenvalue problem, and over directions of two or
three coordinates those of the same problem with two or three rows. Likewise the largest shift in
deviations of the model is ``sqrt(m.B^-1 m)``, with m the shifts, along ``B^-1 m``.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .._typing import Array

_ROUNDS = 3  # sets of coordinates that are looked for one after the other
_PAIRS = 150  # coordinates whose pairs are all looked at
_EXTENDED = 10  # pairs that are extended by a third coordinate
_NOISE = 3.0  # standard errors that an effect must have
_WRITTEN = 3  # coordinates of a direction in words
_ROUND = 0.15  # relative error of a coefficient that is written as 1


def sparse_directions(explained: Array, model: Array, shift: Array, n: int) -> list[Array]:
    """Candidates for the worst directions: pairs, triples, and two directions of all coordinates.

    Parameters
    ----------
    explained, model : (d, d) arrays
        N and B.
    shift : (d,) array
        Shifts m of the coordinates.
    n : int
        Number of samples these were found on.

    Returns
    -------
    list of (d,) arrays
    """
    d = shift.size
    if d < 2:
        return []
    found = []
    free = np.arange(d)
    for _ in range(_ROUNDS):
        if free.size < 2:
            break
        rows = free[_most_involved(explained, model, shift, free)]
        pairs = np.array(list(combinations(range(rows.size), 2)))
        best, strengths = _best(explained, model, shift, rows[pairs])
        if strengths.max() < _NOISE / np.sqrt(n):
            break
        found.append(best)
        used = rows[pairs[np.argsort(-strengths, kind="stable")[:_EXTENDED]]]
        if rows.size > 2:
            triples = np.unique(
                [sorted((*pair, k)) for pair in used.tolist() for k in rows if k not in pair],
                axis=0,
            )
            triple, more = _best(explained, model, shift, triples)
            found.append(triple)
            if more.max() > 1.1 * strengths.max():
                best = triple
        free = np.array([k for k in free if best[k] == 0])
    if d > 3 and found:
        found.append(_best(explained, model, shift, np.arange(d)[None])[0])
    return found


def _most_involved(explained: Array, model: Array, shift: Array, rows: np.ndarray) -> np.ndarray:
    """Places of at most `_PAIRS` coordinates, those with the largest weights in the extremes."""
    if rows.size <= _PAIRS:
        return np.arange(rows.size)
    whole, _ = _best(explained, model, shift, rows[None])
    return np.sort(np.argsort(-np.abs(whole[rows]), kind="stable")[:_PAIRS])


def _best(explained: Array, model: Array, shift: Array, sets: np.ndarray) -> tuple[Array, Array]:
    """The strongest direction with coordinates of one of the sets, (m, k), and all strengths.

    Strengths are in standard errors of one sample: a logarithm of a stretch has sqrt(1/2), a shift
    has 1.
    """
    n, b = (one[sets[:, :, None], sets[:, None, :]] for one in (explained, model))
    values, vectors = np.linalg.eigh(b)
    values = np.maximum(values, 1e-10 * values[:, -1:])
    root = vectors / np.sqrt(values)[:, None, :]
    ratios, axes = np.linalg.eigh(np.swapaxes(root, 1, 2) @ n @ root)
    logs = np.log(np.maximum(ratios[:, [0, -1]], 1e-6))
    stretched = np.abs(logs) / np.sqrt(2.0)
    along = np.einsum("mka,mk->ma", root, shift[sets])
    shifted = np.linalg.norm(along, axis=1)
    strengths = np.maximum(stretched.max(axis=1), shifted)
    q = int(np.argmax(strengths))
    if shifted[q] >= stretched[q].max():
        weights = root[q] @ along[q]
    else:
        end = int(np.argmax(stretched[q]))
        weights = root[q] @ axes[q][:, [0, -1][end]]
    whole = np.zeros(shift.size)
    whole[sets[q]] = weights
    return whole, strengths


def rounded(direction: Array) -> Array:
    """A direction with few coordinates in round numbers, its largest weight 1.

    Weights near -1 and 1 become that, others have two digits, and small ones are left out.
    """
    weights = direction / direction[np.argmax(np.abs(direction))]
    whole = np.abs(np.abs(weights) - 1.0) < _ROUND
    digits = np.array([float(f"{weight:.2g}") for weight in weights.tolist()])
    return np.where(whole, np.sign(weights), digits)


def written(direction: Array, names: tuple[str, ...]) -> str:
    """A rounded direction in words, as ``a - 0.5 b``.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd.procedure.sparse import written
    >>> written(np.array([1.0, 0.0, -0.5]), ("a", "b", "c"))
    'a - 0.5 c'
    """
    order = np.argsort(-np.abs(direction), kind="stable")
    used = [k for k in order.tolist() if direction[k] != 0]
    shown = sorted(used[:_WRITTEN])
    sign = 1.0 if direction[shown[0]] > 0 else -1.0
    words = ""
    for k in shown:
        weight = sign * direction[k]
        size = "" if abs(weight) == 1 else f"{abs(weight):.2g} "
        link = "" if not words else " + " if weight > 0 else " - "
        words += f"{link}{size}{names[k]}"
    return f"{words} + ..." if len(used) > _WRITTEN else words
