"""Samples and scores on the device, where they stay for a whole test.

Within `engines.session` an array goes to the device when it is first asked for, and stays there.
Halves of the samples are stretches of it. Projections, minibatches and centred copies are made from
it.
"""

import numpy as np
from numba import float32, float64, int64, void

from ..sessions import find
from .blocks import DEPTH, PADDED, add_outer
from .device import LAST, MICRO, SIDE, SPAN, THREADS, Kernel, cuda, empty, groups, kernel, upload

_MATRIX, _VECTOR = float64[:, ::1], float64[::1]


@kernel((float64,), (float32,))
def project(real):
    def project(directions, x, rows, shift, unit, out):
        """``out[q, i] = (sum_k directions[q, k] x[rows[i], k] - shift[q]) / unit[q]``.

        All samples are taken if `rows` is empty. Sums are in double precision.
        """
        left = cuda.shared.array((DEPTH, PADDED), float64)
        right = cuda.shared.array((DEPTH, PADDED), float64)
        sums = cuda.local.array((MICRO, MICRO), float64)
        tx, ty = cuda.threadIdx.x & LAST, cuda.threadIdx.y & LAST
        t = ty * SIDE + tx
        m, n = out.shape
        d = x.shape[1]
        q0, i0 = cuda.blockIdx.y * SPAN, cuda.blockIdx.x * SPAN
        for u in range(MICRO):
            for v in range(MICRO):
                sums[u, v] = 0.0
        for k0 in range(0, d, DEPTH):
            for place in range(t, DEPTH * SPAN, THREADS):
                c, k = place // DEPTH, place % DEPTH
                left[k, c] = directions[q0 + c, k0 + k] if q0 + c < m and k0 + k < d else 0.0
                value = 0.0
                if i0 + c < n and k0 + k < d:
                    value = x[rows[i0 + c] if rows.size > 0 else i0 + c, k0 + k]
                right[k, c] = value
            cuda.syncthreads()
            add_outer(DEPTH, MICRO, MICRO, left, right, ty, tx, sums)
            cuda.syncthreads()
        for u in range(MICRO):
            for v in range(MICRO):
                q, i = q0 + ty + SIDE * u, i0 + tx + SIDE * v
                if q < m and i < n:
                    out[q, i] = (sums[u, v] - shift[q]) / unit[q]

    return Kernel(project, void(_MATRIX, _MATRIX, int64[::1], _VECTOR, _VECTOR, real[:, ::1]))


@kernel()
def shift_rows():
    def shift_rows(x, centre, out):
        """``out[i, k] = x[i, k] - centre[k]``."""
        place = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if place < x.size:
            i, k = place // x.shape[1], place % x.shape[1]
            out[i, k] = x[i, k] - centre[k]

    return Kernel(shift_rows, void(_MATRIX, _VECTOR, _MATRIX), square=False, hot=False)


def rows_there(x):
    """The samples `x` on the device: a stretch of what is there already, or a copy."""
    found = find(x)
    if found is None:
        return upload(x)
    held, start, stop = found
    if held.copy is None:
        held.copy = upload(held.array)
    return held.copy if stop - start == held.array.shape[0] else held.copy[start:stop]


def centred(x, centre):
    """``x - centre`` on the device."""
    out = empty(*x.shape)
    shift_rows()((groups(x.size, THREADS), 1), rows_there(x), upload(centre), out)
    return out


def along(directions, x, shift=None, unit=None, rows=None, real=np.float64):
    """``(directions x^T - shift) / unit`` for directions (m, d), an array (m, n) on the device.

    `x` are samples on the device, of which some `rows` may be picked.
    """
    m = directions.shape[0]
    out = empty(m, x.shape[0] if rows is None else rows.size, dtype=real)
    shift = np.zeros(m) if shift is None else shift
    unit = np.ones(m) if unit is None else unit
    grid = groups(out.shape[1], SPAN), groups(m, SPAN)
    kind = float64 if np.dtype(real) == np.float64 else float32
    places = empty(0, dtype=np.int64) if rows is None else upload(rows, np.int64)
    project(kind)(grid, upload(directions), x, places, upload(shift), upload(unit), out)
    return out


def projections(y, s, h, source=None, real=np.float64):
    """Projected samples and scores on the device.

    Samples are about their median, in units of the bandwidths h. `y` and `s` are the projections on
    the host, and `source` is what they were made from; see `pairs.Source`.
    """
    middle = np.median(y, axis=1)
    if source is None:
        return upload((y - middle[:, None]) / h[:, None], real), upload(s, real)
    if _to_be_made_there(source.x, source):
        y = along(source.g, rows_there(source.x), middle, h, source.rows, real)
    else:
        y = upload((y - middle[:, None]) / h[:, None], real)
    if _to_be_made_there(source.scores, source):
        return y, along(source.r, rows_there(source.scores), rows=source.rows, real=real)
    return y, upload(s, real)


def _to_be_made_there(data, source):
    """Whether projections are made from data on the device.

    The data must be there already, be used again and again, or be no larger than the projections.
    """
    found = find(data)
    return found is not None and (
        found[0].copy is not None or source.rows is not None or source.g.shape[0] >= data.shape[1]
    )
