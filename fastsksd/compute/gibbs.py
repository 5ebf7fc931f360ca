"""Block Gibbs sampling of the Gaussian-Bernoulli RBM, in compiled code.

Every chain has its own stream of random numbers. Normal draw number j of a stream is a function of
its key and j alone, like the uniform ones.
"""

import functools
import math

import numba
import numpy as np

from .jit import compiled, parallel, pointwise, prefer_wide_vectors
from .linalg import add_scaled
from .pointwise import exp_nonpositive
from .streams import bits_to_unit, stream_bits, stream_key

_LAYERS = 256


@functools.cache
def ziggurat_edges():
    """Right edges of the 256 layers of equal area under exp(-x^2 / 2), widest first.

    Marsaglia and Tsang (2000). Layer 0 holds the tail: it counts as a rectangle whose width makes
    its area equal to the others'.
    """
    # This edge closes the construction: the last layer ends at the top of the curve.
    tail = 3.654152885361009
    area = tail * math.exp(-0.5 * tail**2) + math.sqrt(0.5 * math.pi) * math.erfc(
        tail / math.sqrt(2.0)
    )
    edges = np.zeros(_LAYERS + 1)
    edges[0] = area * math.exp(0.5 * tail**2)
    edges[1] = tail
    for i in range(2, _LAYERS):
        edges[i] = math.sqrt(
            -2.0 * math.log(area / edges[i - 1] + math.exp(-0.5 * edges[i - 1] ** 2))
        )
    return edges


@parallel
def run_chains(seed, steps, b, c, shift, columns, factor, gram, edges):
    """The last states of all chains, (n, d), each after its own number of steps."""
    n = steps.size
    x = np.empty((n, b.size))
    for turn in numba.prange(n):
        # Chains may grow longer with their number. Taken from both ends in turn, they give every
        # thread the same work.
        chain = turn // 2 if turn % 2 == 0 else n - 1 - turn // 2
        key = stream_key(seed, np.uint64(chain))
        _run_chain(key, steps[chain], b, c, shift, columns, factor, gram, edges, x[chain])
    return x


@compiled
def _run_chain(key, steps, b, c, shift, columns, factor, gram, edges, x):
    """Write the state after `steps` steps from a standard normal start to `x`.

    `base` is the field of the hidden units without its noise. Units flip seldom, so it is updated
    flip by flip.
    """
    n_hidden, rank = factor.shape
    noise = np.empty(rank)
    base = c.copy()
    field = np.empty(n_hidden)
    h = np.zeros(n_hidden)
    drawn = np.empty(n_hidden)
    counter = np.uint64(0)
    for step in range(steps):
        _fill_normals(edges, key, counter, noise)
        counter += np.uint64(rank)
        field[:] = base
        _add_product(factor, noise, field)
        _draw_hidden(field, key, counter, drawn)
        counter += np.uint64(n_hidden)
        if step == 0:  # the start has mean 0, every later x has mean b + K h
            add_scaled(base, 1.0, shift)
        for k in range(n_hidden):
            change = drawn[k] - h[k]
            if change != 0.0:
                add_scaled(base, change, gram[k])
                h[k] = drawn[k]
    _fill_normals(edges, key, counter, x)
    add_scaled(x, 1.0, b)
    for k in range(n_hidden):
        add_scaled(x, h[k], columns[k])


@compiled
def _draw_hidden(field, key, counter, out):
    """h_k = +1 with probability ``1 / (1 + exp(-2 field_k))``, else -1."""
    prefer_wide_vectors()
    for k in range(field.size):
        likely = 1.0 if field[k] > 0.0 else -1.0
        odds = exp_nonpositive(-2.0 * abs(field[k]))
        u = bits_to_unit(stream_bits(key, counter + np.uint64(k)))
        out[k] = likely if u * (1.0 + odds) < 1.0 else -likely


@compiled
def _add_product(lower, z, out):
    """Add ``lower @ z`` to `out`, where `lower` is zero above its diagonal.

    Four rows at a time, so that z is loaded once for them.
    """
    m, rank = lower.shape
    m4 = m // 4 * 4
    for k in range(0, m4, 4):
        # Whole vectors of 8: the zeros beyond the diagonal cost less than a scalar remainder loop.
        end = min((k + 11) // 8 * 8, rank)
        _dot_4(
            lower[k, :end],
            lower[k + 1, :end],
            lower[k + 2, :end],
            lower[k + 3, :end],
            z[:end],
            out[k : k + 4],
        )
    for k in range(m4, m):
        total = 0.0
        for j in range(min(k + 1, rank)):
            total += lower[k, j] * z[j]
        out[k] += total


@compiled
def _dot_4(a0, a1, a2, a3, z, out):
    prefer_wide_vectors()
    s0 = s1 = s2 = s3 = 0.0
    for j in range(z.size):
        s0 += a0[j] * z[j]
        s1 += a1[j] * z[j]
        s2 += a2[j] * z[j]
        s3 += a3[j] * z[j]
    out[0] += s0
    out[1] += s1
    out[2] += s2
    out[3] += s3


@pointwise
def _layer_and_point(edges, bits):
    """Layer from the low 8 bits, position in it, of either sign, from the high 53."""
    layer = np.int64(bits & np.uint64(_LAYERS - 1))
    return layer, (2.0 * bits_to_unit(bits) - 1.0) * edges[layer]


@compiled
def _fill_normals(edges, key, counter, out):
    for i in range(out.size):
        bits = stream_bits(key, counter + np.uint64(i))
        layer, x = _layer_and_point(edges, bits)
        if abs(x) >= edges[layer + 1]:  # 1.2% of the points are not surely under the curve
            x = _finish_normal(edges, bits, stream_key(key, counter + np.uint64(i)))
        out[i] = x


@compiled
def _finish_normal(edges, bits, key):
    """The normal draw that begins with `bits`; what more it needs comes from a separate stream."""
    counter = np.uint64(0)
    while True:
        layer, x = _layer_and_point(edges, bits)
        if abs(x) < edges[layer + 1]:
            return x
        if layer == 0:
            return math.copysign(_tail_normal(edges[1], key, counter), x)
        # The curve at the edges of the layer, relative to its value at x. A height drawn between
        # them must be under 1.
        low = math.exp(0.5 * (x * x - edges[layer] * edges[layer]))
        high = math.exp(0.5 * (x * x - edges[layer + 1] * edges[layer + 1]))
        if high + bits_to_unit(stream_bits(key, counter)) * (low - high) < 1.0:
            return x
        bits = stream_bits(key, counter + np.uint64(1))
        counter += np.uint64(2)


@compiled
def _tail_normal(edge, key, counter):
    """A standard normal beyond `edge` (Marsaglia 1964)."""
    while True:
        beyond = -math.log(1.0 - bits_to_unit(stream_bits(key, counter))) / edge
        height = -math.log(1.0 - bits_to_unit(stream_bits(key, counter + np.uint64(1))))
        counter += np.uint64(2)
        if 2.0 * height > beyond * beyond:
            return edge + beyond
