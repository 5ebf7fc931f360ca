"""Projections of samples and scores on slices."""

from __future__ import annotations

import numpy as np

from .._typing import Array
from .eigen import symmetric_eigenvectors
from .linalg import product
from .medians import rough_median

_OUTLYING = 1e6
CONSTANT = 1e-13  # of the spread: what round-off leaves of the distances of a constant
_DEPENDENT = 1e-13  # largest eigenvalue of correlations that is zero but for rounding, of the first


def project(x: Array, scores: Array, slices, kernel) -> tuple[Array, Array, Array, Array]:
    """What an engine is loaded with: samples and scores projected on slices.

    Parameters
    ----------
    x, scores : (n, d) arrays
        Samples and scores.
    slices : Slices
        Directions r and g.
    kernel : Kernel
        One-dimensional kernel.

    Returns
    -------
    y, s : (m, n) arrays
        Samples along g and scores along r.
    a, h : (m,) arrays
        ``r.g`` and the bandwidths.
    """
    y = product(slices.g, x)
    return (
        y,
        product(slices.r, scores),
        np.einsum("md,md->m", slices.r, slices.g),
        kernel.bandwidths_along(y, x, slices.g),
    )


def unit_rows(rows: Array) -> Array:
    """Rows divided by their lengths."""
    return rows / row_lengths(rows)[:, None]


def row_lengths(rows: Array) -> Array:
    """Lengths of rows, of any size: squares neither overflow nor vanish."""
    # By powers of two, which cost no digits.
    units = np.ldexp(1.0, np.frexp(np.abs(rows).max(axis=1))[1] - 1)
    return units * np.linalg.norm(rows / units[:, None], axis=1)


def spread(x: Array, g: Array) -> Array:
    """How much samples may vary along each row of `g`, whatever the units of the columns.

    A few outliers count for no more than a million times what the others vary.
    """
    moved = np.abs(x - rough_median(x))
    usual = rough_median(moved)
    usual = np.where(usual > 0, _OUTLYING * usual, moved.max(axis=0))
    moved = np.minimum(moved, usual)
    units = np.where(usual > 0, usual, 1.0)
    return np.einsum("md,d->m", np.abs(g), units * (moved / units).std(axis=0))


def is_flat(x: Array, g: Array) -> np.ndarray:
    """Whether samples (n, d) vary by no more than round-off along each row of `g`."""
    return product(g, x).std(axis=1) <= CONSTANT * spread(x, g)


def varied_directions(x: Array) -> Array:
    """Orthonormal rows that span the directions along which samples (n, d) vary."""
    units, correlations = _correlations(x)
    values, vectors = symmetric_eigenvectors(correlations)
    return orthonormal_rows(units * vectors[values > _DEPENDENT * values[0]])


def orthonormal_rows(rows: Array) -> Array:
    """As many orthonormal rows, at most d, whose span holds that of `rows`, (k, d), none zero."""
    return np.ascontiguousarray(np.linalg.qr(unit_rows(rows).T)[0].T)


def dependent_columns(x: Array) -> np.ndarray:
    """The columns of samples (n, d) that are equal, or linearly dependent on each other."""
    values, vectors = symmetric_eigenvectors(_correlations(x)[1])
    return np.flatnonzero((np.abs(vectors[values <= _DEPENDENT * values[0]]) > 1e-6).any(axis=0))


def _correlations(x: Array) -> tuple[Array, Array]:
    """Units of the columns, zero where they are constant, and what they have in common."""
    units = np.abs(x - x[0]).max(axis=0)
    moved = (x - x[0]) / np.where(units > 0, units, 1.0)
    moved -= moved.mean(axis=0)
    deviations = moved.std(axis=0)
    moved /= np.where(deviations > 0, deviations, 1.0)
    return units * deviations, product(moved.T, moved.T) / len(x)
