"""Sums and products that the kernels of the other modules are made of.

Square blocks compute SPAN x SPAN results, MICRO x MICRO for each thread: rows ``ty + SIDE u`` and
columns ``tx + SIDE v``. Sums never depend on the order in which blocks run: every block writes to
its own entries, and `fold` adds these up.
"""

import numpy as np
from numba import float32, float64, int64, void

from .device import (
    LAST,
    MICRO,
    SIDE,
    SPAN,
    THREADS,
    Kernel,
    cuda,
    download,
    empty,
    groups,
    inlined,
    kernel,
    upload,
)

DEPTH = 16  # of the products that threads of a block share at a time
PADDED = SPAN + 1  # columns of shared memory, so that threads of a warp write to different banks
# Terms that a block of `pairs` adds up, in single precision where the data is, and one of `product`
# at least.
CHUNK = 4 * SPAN
# Blocks that keep a large device busy; sums are split over samples to have about as many.
FULL = 512


@inlined
def block_sum(values, t):
    """Sum of the THREADS numbers in shared memory, in place; ``values[0]`` for all threads."""
    cuda.syncthreads()
    width = THREADS // 2
    while width > 0:
        if t < width:
            values[t] += values[t + width]
        cuda.syncthreads()
        width //= 2


@inlined
def add_outer(depth, height, width, left, right, ty, tx, sums):
    """``sums[u, v] += sum_k left[k, ty + SIDE u] right[k, tx + SIDE v]``.

    What a thread adds to its height x width results from shared memory. The sizes must be constants
    where it is called, for `sums` to be in registers.
    """
    for k in range(depth):
        for u in range(height):
            for v in range(width):
                sums[u, v] += left[k, ty + SIDE * u] * right[k, tx + SIDE * v]


@kernel()
def fill():
    def fill(value, out):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < out.size:
            out[i] = value

    return Kernel(fill, void(float64, float64[::1]), square=False, hot=False)


def filled(value, *shape):
    """An array of equal numbers on the device."""
    size = int(np.prod(shape))
    flat = empty(size)
    fill()((groups(size, THREADS), 1), value, flat)
    return flat.reshape(*shape)


def zeros(*shape):
    """An array of zeros on the device."""
    return filled(0.0, *shape)


@kernel()
def put():
    def put(value, places, out):
        """``out[places[i]] = value``."""
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < places.size:
            out[places[i]] = value

    return Kernel(put, void(float64, int64[::1], float64[::1]), square=False, hot=False)


@kernel()
def take():
    def take(rows, places, out):
        """``out[k, i] = rows[places[k], i]``."""
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        k = cuda.blockIdx.y
        if i < rows.shape[1]:
            out[k, i] = rows[places[k], i]

    matrix = float64[:, ::1]
    return Kernel(take, void(matrix, int64[::1], matrix), square=False, hot=False)


def taken(rows, places):
    """Some of the rows, on the device."""
    out = empty(places.size, rows.shape[1])
    take()((groups(rows.shape[1], THREADS), places.size), rows, upload(places, np.int64), out)
    return out


@kernel()
def fold():
    def fold(parts, out):
        """``out[i] = sum_p parts[p, i]``."""
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < out.size:
            total = 0.0
            for p in range(parts.shape[0]):
                total += parts[p, i]
            out[i] = total

    return Kernel(fold, void(float64[:, ::1], float64[::1]), square=False, hot=False)


def folded(parts):
    """Sum over the first axis, on the device."""
    size = int(np.prod(parts.shape[1:]))
    out = empty(size)
    fold()((groups(size, THREADS), 1), parts.reshape(parts.shape[0], size), out)
    return out.reshape(*parts.shape[1:])


@kernel()
def dots():
    def dots(a, column, b, values, out):
        """``out[k] = sum_i a[k, column + i] b[k, column + i] values[i]``, a block for each row."""
        part = cuda.shared.array(THREADS, float64)
        t = cuda.threadIdx.x
        k = cuda.blockIdx.x
        total = 0.0
        for i in range(t, values.size, THREADS):
            total += a[k, column + i] * b[k, column + i] * values[i]
        part[t] = total
        block_sum(part, t)
        if t == 0:
            out[k] = part[0]

    matrix = float64[:, ::1]
    return Kernel(
        dots, void(matrix, int64, matrix, float64[::1], float64[::1]), square=False, hot=False
    )


def row_dots(a, b, values, column=0):
    """``sum_i a_ki b_ki values_i`` for each row k, on the host.

    The columns of a and b begin at `column`.
    """
    out = empty(a.shape[0])
    dots()((a.shape[0], 1), a, column, b, values, out)
    return download(out)


@kernel()
def row_sum():
    def row_sum(a, width, out):
        """``out[k] += sum_i a[k, i]``, ``i < width``, a block for each row."""
        part = cuda.shared.array(THREADS, float64)
        t = cuda.threadIdx.x
        k = cuda.blockIdx.x
        total = 0.0
        for i in range(t, width, THREADS):
            total += a[k, i]
        part[t] = total
        block_sum(part, t)
        if t == 0:
            out[k] += part[0]

    return Kernel(row_sum, void(float64[:, ::1], int64, float64[::1]), square=False, hot=False)


def add_row_sums(a, width, out):
    """Add the sums of the first `width` columns of each row to `out`."""
    row_sum()((a.shape[0], 1), a, width, out)


@kernel()
def product():
    def product(a, column, b, width, share, parts):
        """``parts[z, i, j] += sum_k a[i, column + k] b[j, k]``, k in share z of ``0..width``."""
        left = cuda.shared.array((DEPTH, PADDED), float64)
        right = cuda.shared.array((DEPTH, PADDED), float64)
        sums = cuda.local.array((MICRO, MICRO), float64)
        tx, ty, z = cuda.threadIdx.x & LAST, cuda.threadIdx.y & LAST, cuda.blockIdx.z
        t = ty * SIDE + tx
        i0, j0 = cuda.blockIdx.y * SPAN, cuda.blockIdx.x * SPAN
        for u in range(MICRO):
            for v in range(MICRO):
                sums[u, v] = 0.0
        last = min((z + 1) * share, width)
        for k0 in range(z * share, last, DEPTH):
            for place in range(t, DEPTH * SPAN, THREADS):
                i, k = place // DEPTH, place % DEPTH
                left[k, i] = (
                    a[i0 + i, column + k0 + k] if i0 + i < a.shape[0] and k0 + k < last else 0.0
                )
                right[k, i] = b[j0 + i, k0 + k] if j0 + i < b.shape[0] and k0 + k < last else 0.0
            cuda.syncthreads()
            add_outer(DEPTH, MICRO, MICRO, left, right, ty, tx, sums)
            cuda.syncthreads()
        for u in range(MICRO):
            for v in range(MICRO):
                i, j = i0 + ty + SIDE * u, j0 + tx + SIDE * v
                if i < a.shape[0] and j < b.shape[0]:
                    parts[z, i, j] += sums[u, v]

    matrix = float64[:, ::1]
    return Kernel(product, void(matrix, int64, matrix, int64, int64, float64[:, :, ::1]))


def product_parts(a, b, width):
    """Zeros to which `add_product` adds, for about `width` terms at a time.

    There are no more shares than keep the device busy, since each is as large as the product.
    """
    return zeros(
        shares(groups(a.shape[0], SPAN) * groups(b.shape[0], SPAN), groups(width, CHUNK)),
        a.shape[0],
        b.shape[0],
    )


def add_product(a, column, b, width, parts):
    """Add ``a[:, column : column + width] @ b[:, :width].T``, in shares."""
    share = max(CHUNK, groups(width, parts.shape[0]))
    grid = groups(b.shape[0], SPAN), groups(a.shape[0], SPAN), groups(width, share)
    product()(grid, a, column, b, width, share, parts)


def shares(blocks, most):
    """Into how many shares to split a sum that takes so many blocks, `most` at the most."""
    return min(max(1, FULL // blocks), most)


@kernel()
def narrow():
    def narrow(wide, out):
        i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
        if i < out.size:
            out[i] = wide[i]

    return Kernel(narrow, void(float64[::1], float32[::1]), square=False, hot=False)


def on_device(weights, real=np.float64):
    """Weights on the device in some precision, uploaded if they are an array of the host."""
    if isinstance(weights, np.ndarray):
        return upload(weights, real)
    if np.dtype(real) == weights.dtype:
        return weights
    size = weights.shape[0] * weights.shape[1]
    out = empty(size, dtype=real)
    narrow()((groups(size, THREADS), 1), weights.reshape(size), out)
    return out.reshape(*weights.shape)
