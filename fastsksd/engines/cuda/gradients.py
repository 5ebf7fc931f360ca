"""Derivatives of each slice's statistic with respect to its projections on the device; for the formulas see `engines.gradients`.

A thread meets one sample with all others, so every pair is met twice and no two threads write to one place.
"""

import numpy as np
from numba import float32, float64, void

from ...kernels import kernel_derivatives, own_term
from .blocks import block_sum, zeros
from .device import THREADS, Kernel, cuda, download, empty, groups, kernel, upload
from .pointwise import in_precision

_LAST = THREADS - 1
VARIANTS = [(code, real) for code in (0, 1) for real in (float64, float32)]


@kernel(*VARIANTS)
def slice_slopes(code, real):
    derivatives = in_precision(kernel_derivatives, real)
    zero = np.float64(0.0) if real == float64 else np.float32(0.0)

    def slice_slopes(y, s, a, ds, dy, sums):
        """For each sample of slice blockIdx.y its derivatives, and for each block the sums of mu and of its derivative in a.

        Terms are added up in `real` within a stretch of THREADS samples, beyond that in double precision.
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
        value = by_s = by_y = by_a = 0.0
        for start in range(0, n, THREADS):
            y_others[t] = y[q, start + t] if start + t < n else zero
            s_others[t] = s[q, start + t] if start + t < n else zero
            cuda.syncthreads()
            near = near_s = near_y = near_a = zero
            for k in range(min(THREADS, n - start)):
                if start + k != i:
                    s_j = s_others[k]
                    k0, k1, k2, k3 = derivatives(code, y_i - y_others[k])
                    drift = (s_j - s_i) * k1 - along * k2
                    near += s_i * s_j * k0 + along * drift
                    near_s += s_j * k0 - along * k1
                    near_y += s_i * s_j * k1 + along * ((s_j - s_i) * k2 - along * k3)
                    near_a += drift - along * k2
            value += near
            by_s += near_s
            by_y += near_y
            by_a += near_a
            cuda.syncthreads()
        if here:
            ds[q, i] = by_s
            dy[q, i] = by_y
        part[t] = value if here else 0.0
        block_sum(part, t)
        if t == 0:
            sums[0, q, cuda.blockIdx.x] = part[0]
        cuda.syncthreads()
        part[t] = by_a if here else 0.0
        block_sum(part, t)
        if t == 0:
            sums[1, q, cuda.blockIdx.x] = part[0]

    matrix, wide = real[:, ::1], float64[:, ::1]
    return Kernel(slice_slopes, void(matrix, matrix, real[::1], wide, wide, float64[:, :, ::1]), square=False)


def slice_gradients(code, y, s, a, h, statistic, real=np.float64):
    """As `engines.gradients.slice_gradients`."""
    m, n = y.shape
    centred, a = (y - np.median(y, axis=1, keepdims=True)) / h[:, None], a / h
    ds, dy, sums = empty(m, n), empty(m, n), zeros(2, m, groups(n, THREADS))
    kind = float64 if np.dtype(real) == np.float64 else float32
    slice_slopes(code, kind)((groups(n, THREADS), m), upload(centred, real), upload(s, real), upload(a, real), ds, dy, sums)
    ds, dy = download(ds), download(dy)
    values, da = download(sums).sum(axis=2)
    if statistic == "v":
        values += own_term(s, a[:, None]).sum(axis=1)
        ds += s
        da += 2.0 * n * a
    weight = 1.0 / (n * (n - 1.0) if statistic == "u" else float(n) ** 2)
    return weight * values, 2.0 * weight * ds, 2.0 * weight * dy / h[:, None], weight * da / h
