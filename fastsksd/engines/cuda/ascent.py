"""The steps of `engines.ascent` with the terms of pairs on a GPU, from data that is there.

All slices take a step at once. Projections, medians and Adam are on the host.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Array
from ...compute.linalg import product
from ...compute.medians import median_distances
from ...compute.projections import unit_rows
from ..ascent import EPSILON, Settings, State, adam
from ..pairs import Source
from .gradients import slice_gradients


def climb(
    settings: Settings,
    state: State,
    x: Array,
    scores: Array,
    order: np.ndarray,
    ends: np.ndarray,
    real: type = np.float64,
) -> tuple[Array, Array]:
    """As `engines.ascent.climb`, with terms of pairs in the precision `real`."""
    m = state.steps.size
    by_s = np.empty((m, int(np.diff(ends).max())))
    values = np.full((ends.size - 1, m), np.nan)
    fine = np.ones(m, dtype=bool)  # slices that did not overflow
    for b in range(ends.size - 1):
        rows = order[ends[b] : ends[b + 1]]
        some_x, some_scores = x[rows], scores[rows]
        r, g = unit_rows(state.r), unit_rows(state.g)
        y, s = product(g, some_x), product(r, some_scores)
        fine &= np.isfinite(y).all(axis=1) & np.isfinite(s).all(axis=1)
        given = state.bandwidths > 0.0
        h = np.where(given, state.bandwidths, 0.0)
        h[fine & ~given] = median_distances(np.ascontiguousarray(y[fine & ~given]))
        flat = fine & ~given & (h <= settings.floor)
        values[b, flat] = 0.0
        by_s[flat, : rows.size] = 0.0
        live = np.flatnonzero(fine & ~flat)
        if live.size == 0:
            continue
        a = np.einsum("md,md->m", r, g)
        value, ds, dy, da = slice_gradients(
            settings.code,
            y[live],
            s[live],
            a[live],
            h[live],
            "v" if settings.v_statistic else "u",
            real,
            Source(x, scores, r[live], g[live], rows),
        )
        by_s[live, : rows.size] = ds
        slope_g = product(dy, some_x.T) + da[:, None] * r[live]
        slope_r = product(ds, some_scores.T) + da[:, None] * g[live]
        finite = np.isfinite(value + np.abs(slope_g).sum(axis=1) + np.abs(slope_r).sum(axis=1))
        fine[live[~finite]] = False
        values[b, live[finite]] = value[finite]
        state.steps[live[finite]] += 1
        for q, k in zip(live[finite], np.flatnonzero(finite), strict=True):
            step, epsilon = state.steps[q], EPSILON / h[q] ** 2
            adam(settings, state.g[q], g[q], slope_g[k], state.moments[1, :, q], step, epsilon)
            if settings.both:
                adam(settings, state.r[q], r[q], slope_r[k], state.moments[0, :, q], step, epsilon)
    return values, by_s
