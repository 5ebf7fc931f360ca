"""Projections of samples and scores on slices."""

from __future__ import annotations

import numpy as np

from .._typing import Array
from .linalg import product
from .medians import rough_median

_OUTLYING = 1e6


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
