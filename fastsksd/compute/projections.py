"""Projections of samples and scores on slices."""

from __future__ import annotations

import numpy as np

from .._typing import Array
from .linalg import product
from .medians import too_large


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
        kernel.bandwidths(y, spread(x, slices.g)),
    )


def unit_rows(rows: Array) -> Array:
    """Rows divided by their lengths."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def spread(x: Array, g: Array) -> Array:
    """How much samples may vary along each row of `g`, whatever the units of the columns."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = x.std(axis=0)
    if not np.all(np.isfinite(deviations)):
        raise too_large(x)
    return np.einsum("md,d->m", np.abs(g), deviations)
