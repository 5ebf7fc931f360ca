"""Derivatives of each slice's statistic with respect to its projections, on the device.

For the formulas see `engines.gradients`. A thread takes one sample with all others, so every pair
is computed twice and no two threads write to one entry.
"""

import numpy as np
from numba import float32, float64, void

from ...compute.pointwise import stein_derivatives
from ..pairs import statistic_and_slopes
from .blocks import block_sum, zeros
from .data import projections
from .device import THREADS, Kernel, cuda, download, empty, groups, kernel, upload
from .pointwise import in_precision

_LAST = THREADS - 1
VARIANTS = [(code, real) for code in (0, 1) for real in (float64, float32)]


@kernel(*VARIANTS)
def slice_slopes(code, real):
    derivatives = in_precision(stein_derivatives, real)
    zero = np.float64(0.0) if real == float64 else np.float32(0.0)

    def slice_slopes(y, s, a, ds, dy, sums):
        """Derivatives in each sample of slice blockIdx.y, and for each block their sum in a.

        Terms are added up in `real` within a stretch of THREADS samples, beyond that in double
        precision.
        """
        y_others = cuda.shared.array(THREADS, real)
        s_others = cuda.shared.array(THREADS, real)
        part = cuda.shared.array(THREADS, float64)
        q, t = cuda.blockIdx.y, cuda.threadIdx.x & _LAST
        n = y.shape[1]
        i = cuda.blockIdx.x * THREADS + t
        here = i < n
        y_i = y[q, i] if here else zero
        s_i = s[q, i] if here else zero
        along = a[q]
        by_s = by_y = by_a = 0.0
        for start in range(0, n, THREADS):
            y_others[t] = y[q, start + t] if start + t < n else zero
            s_others[t] = s[q, start + t] if start + t < n else zero
            cuda.syncthreads()
            near_s = near_y = near_a = zero
            for k in range(min(THREADS, n - start)):
                if start + k != i:
                    more_s, _, more_y, more_a = derivatives(
                        code, y_i - y_others[k], along, s_i, s_others[k]
                    )
                    near_s += more_s
                    near_y += more_y
                    near_a += more_a
            by_s += near_s
            by_y += near_y
            by_a += near_a
            cuda.syncthreads()
        if here:
            ds[q, i] = by_s
            dy[q, i] = by_y
        part[t] = by_a if here else 0.0
        block_sum(part, t)
        if t == 0:
            sums[q, cuda.blockIdx.x] = part[0]

    matrix, wide = real[:, ::1], float64[:, ::1]
    return Kernel(slice_slopes, void(matrix, matrix, real[::1], wide, wide, wide), square=False)


def slice_gradients(code, y, s, a, h, statistic, real=np.float64, source=None):
    """As `engines.gradients.slice_gradients`; for `source` see `data.projections`."""
    m, n = y.shape
    placed, a = projections(y, s, h, source, real), a / h
    ds, dy, sums = empty(m, n), empty(m, n), zeros(m, groups(n, THREADS))
    kind = float64 if np.dtype(real) == np.float64 else float32
    slice_slopes(code, kind)((groups(n, THREADS), m), *placed, upload(a, real), ds, dy, sums)
    ds, dy = download(ds), download(dy)
    da = download(sums).sum(axis=1)
    return statistic_and_slopes(s, a, h, ds, dy, da, statistic)
