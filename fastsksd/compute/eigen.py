"""Eigenproblems of symmetric matrices, dense (LAPACK's) or known by their products alone (Lanczos).

Those known by their products are many small ones at once. Lanczos' vectors are kept orthogonal by
NumPy: compiled loops were no faster (1.04x) and took 0.8 s to compile. Top eigenpairs of the
tridiagonal matrices are compiled, as LAPACK has no routine for many at once. Milliseconds of one
thread for m matrices of size k, and those of a batched `numpy.linalg.eigh`: 0.18 and 0.20 for m =
100, k = 6; 0.44 and 2.2 for k = 20; 1.1 and 14 for k = 50; 5.2 and 24 for m = 1000, k = 20.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from .._typing import Array
from .jit import compiled
from .linalg import dot
from .threads import share

# Residuals, relative to the eigenvalue, at which the first and the second pair count as found.
_TOP, _SECOND = 1e-8, 1e-2
_LARGE = 2**12  # numbers in tridiagonal matrices beyond which threads pay


class Operators(Protocol):
    """Products of m symmetric (d, d) matrices with a vector each."""

    def __call__(self, u: Array) -> Array:
        """The products, (m, d), with the rows of `u`, (m, d)."""
        ...

    def restricted(self, mask: Any) -> Operators:
        """The operators picked by a boolean mask."""
        ...


def symmetric_eigenvectors(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric matrix, largest first, and their eigenvectors as rows.

    A power of two brings the entries to a size of about one, so that units change no digit.
    """
    exponent = int(np.frexp(np.abs(matrix).max())[1])
    values, vectors = np.linalg.eigh(np.ldexp(matrix, -exponent))
    return np.ldexp(values[::-1], exponent), np.ascontiguousarray(vectors.T[::-1])


def top_eigenpairs(
    apply: Operators, guess: Array, *, gaps: bool = True, max_steps: int = 150
) -> tuple[Array, Array, Array]:
    """Largest eigenvalue, its eigenvector and the gap to the second of m symmetric operators.

    Lanczos with full reorthogonalisation. All m processes advance together, so that `apply` can be
    a few large matrix products.

    Parameters
    ----------
    apply : Operators
        Products of the operators with a vector each.
    guess : (m, d) array
        A unit vector for each operator that may be close to its eigenvector, or not.
    gaps : bool
        How gaps are found:

        True
            By a second run, kept orthogonal to the top eigenvector. It finds the next eigenvalue to
            1e-2 of the first, and also sees an eigenvalue of multiplicity two.
        False
            As the difference of the two largest Ritz values of the one run, at no cost. The second
            Ritz value is at most the second eigenvalue. After few steps it may be far below, so
            this is a rough upper estimate; of an eigenvalue of multiplicity two it sees nothing.
    max_steps : int
        Most Lanczos steps of a run.

    Returns
    -------
    vectors : (m, d) array
        Eigenvectors of unit length.
    values : (m,) array
        Eigenvalues.
    gaps : (m,) array
        Gaps, never negative; infinite where there is no second value.
    """
    m, d = guess.shape
    # The random part is fixed: the result is a property of the operators, not of the caller's
    # generator.
    noise = np.random.default_rng(20210).standard_normal((m, d))
    start = guess + 0.1 / np.sqrt(d) * noise
    values, vectors, ritz_gaps = _lanczos(apply, start, min(d, max_steps), _TOP)
    if d == 1:
        return vectors, values, np.full(m, np.inf)
    if not gaps:
        return vectors, values, ritz_gaps()
    second, _, _ = _lanczos(
        apply, noise, min(d - 1, max_steps), _SECOND, deflate=vectors, scale=np.abs(values)
    )
    return vectors, values, np.maximum(values - second, 0.0)


def _lanczos(apply, start, steps, tolerance, deflate=None, scale=0.0):
    """Top eigenvalues and eigenvectors, and a function that makes the gaps of the Ritz values."""
    m, d = start.shape
    values = np.empty(m)
    vectors = np.empty((m, d))
    finished = []  # which operators, their tridiagonal matrices and the units of these
    # Operators not yet converged; those that are leave when they are half of all.
    running = np.arange(m)
    scale = np.broadcast_to(scale, m)
    deflate = np.zeros((m, d)) if deflate is None else deflate
    basis = np.empty((m, steps, d))
    diagonal = np.zeros((m, steps))
    off_diagonal = np.zeros((m, steps))
    q = _orthogonal(start, basis[:, :0], deflate)
    q = q / np.sqrt(_inner(q, q))[:, None]
    for k in range(steps):
        basis[:, k] = q
        w = apply(q)
        if k == 0:
            units = _units(w)
        w = w * units[:, None]
        with np.errstate(over="ignore", invalid="ignore"):  # of one operator, which has NaN then
            q = _lanczos_step(basis, w, k, diagonal, off_diagonal, deflate, start)
        # A few steps at least: an early Ritz value may belong to a lower eigenvalue.
        if k < steps - 1 and (k % 2 == 0 or k < 5):
            continue
        ritz, coefficients, residuals = _top_ritz_pairs(diagonal, off_diagonal, k + 1)
        done = residuals <= tolerance * np.maximum(np.abs(ritz), scale[running] * units)
        if k == steps - 1:
            done[:] = True
        if 2 * np.count_nonzero(done) >= running.size:
            values[running[done]] = ritz[done] / units[done]
            found = np.einsum("mk,mkd->md", coefficients[done], basis[done, : k + 1])
            vectors[running[done]] = found / np.linalg.norm(found, axis=1, keepdims=True)
            tridiagonal = diagonal[done, : k + 1], off_diagonal[done, :k]
            finished.append((running[done], *tridiagonal, units[done]))
            if done.all():
                break
            left = ~done
            running = running[left]
            apply = apply.restricted(left)
            basis, diagonal, off_diagonal, deflate, start, q, units = (
                np.ascontiguousarray(array[left])
                for array in (basis, diagonal, off_diagonal, deflate, start, q, units)
            )
    return values, vectors, lambda: _ritz_gaps(m, finished)


def _ritz_gaps(m, finished):
    """Differences of the two largest Ritz values, (m,); NaN where a run overflowed."""
    gaps = np.full(m, np.nan)
    for rows, diagonal, off, units in finished:
        k = diagonal.shape[1]
        if k == 1:
            gaps[rows] = np.inf
            continue
        fine = np.isfinite(diagonal).all(axis=1) & np.isfinite(off).all(axis=1)
        matrices = np.zeros((np.count_nonzero(fine), k, k))
        index = np.arange(k)
        matrices[:, index, index] = diagonal[fine]
        matrices[:, index[1:], index[:-1]] = off[fine]  # the lower triangle is enough
        ritz = np.linalg.eigvalsh(matrices)
        gaps[rows[fine]] = (ritz[:, -1] - ritz[:, -2]) / units[fine]
    return gaps


def _units(w):
    """Powers of two that bring the rows of `w` to a size of about one.

    Squares then neither overflow nor vanish, and no bit changes.
    """
    exponents = np.frexp(np.abs(w).max(axis=1))[1]
    return np.ldexp(1.0, np.clip(-exponents, -1000, 1000))


def _orthogonal(w, basis, deflate):
    """The rows of `w`, (m, d), less what lies along their rows of `deflate` and `basis`."""
    for _ in range(2):  # the first time, rounding leaves something
        w = w - _inner(w, deflate)[:, None] * deflate
        w = w - (_products(basis, w)[:, None] @ basis)[:, 0]
    return w


def _inner(v, w):
    """Inner products of the rows."""
    return np.einsum("md,md->m", v, w)


def _products(basis, w):
    """Inner products of the rows of `w`, (m, d), with their basis vectors, (m, k)."""
    return (basis @ w[:, :, None])[:, :, 0]


def _lanczos_step(basis, w, k, diagonal, off_diagonal, deflate, start):
    """Fill row k of the tridiagonal matrices; returns the next basis vectors."""
    known = basis[:, : k + 1]
    diagonal[:, k] = _inner(basis[:, k], w)
    scale = np.maximum(np.sqrt(_inner(w, w)), np.abs(diagonal[:, : k + 1]).max(axis=1))
    w = _orthogonal(w, known, deflate)
    lengths = np.sqrt(_inner(w, w))
    lost = lengths <= 1e-13 * scale
    off_diagonal[:, k] = np.where(lost, 0.0, lengths)
    if lost.any():
        # The space found so far is invariant: go on in its complement, from a new direction.
        fresh = np.roll(start[lost], -k - 1, axis=1)
        w[lost] = _orthogonal(fresh, known[lost], deflate[lost])
        lengths[lost] = np.sqrt(_inner(w[lost], w[lost]))
        lengths[lost & (lengths <= 1e-10)] = np.inf
    return w / lengths[:, None]


def _top_ritz_pairs(diagonal, off_diagonal, k):
    """Top eigenpair of each leading (k, k) tridiagonal matrix, with its residual."""
    m = diagonal.shape[0]
    values, vectors = np.empty(m), np.empty((m, k))

    def some(first: int, last: int) -> None:
        rows = slice(first, last)
        _top_ritz_of(diagonal[rows], off_diagonal[rows], values[rows], vectors[rows])

    share(some, m, large=m * k > _LARGE)
    return values, vectors, off_diagonal[:, k - 1] * np.abs(vectors[:, k - 1])


@compiled
def _top_ritz_of(diagonal, off_diagonal, values, vectors):
    k = vectors.shape[1]
    for q in range(values.size):
        values[q] = _top_ritz(diagonal[q, :k], off_diagonal[q, :k], vectors[q])


@compiled
def _top_ritz(diagonal, off, vector):
    """Top eigenvalue by bisection; its eigenvector by inverse iteration, written to `vector`."""
    k = diagonal.size
    low, high = diagonal[0], diagonal[0]
    for i in range(k):
        radius = (off[i - 1] if i > 0 else 0.0) + (off[i] if i < k - 1 else 0.0)
        high = max(high, diagonal[i] + radius)
        low = max(low, diagonal[i])
    scale = max(abs(low), abs(high))
    # Squares of its reciprocal must not overflow when the matrix is zero.
    tiny = 1e-150 + 1e-17 * scale
    while high - low > 4e-16 * scale:
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        # Sturm: the matrix minus `middle` is negative definite when every pivot is negative.
        pivot = diagonal[0] - middle
        above = pivot >= 0.0
        for i in range(1, k):
            if above:
                break
            pivot = (
                diagonal[i]
                - middle
                - off[i - 1] * off[i - 1] / (pivot if abs(pivot) > tiny else -tiny)
            )
            above = pivot >= 0.0
        if above:
            low = middle
        else:
            high = middle
    value = high
    # Inverse iteration with a shift just above the value: there the matrix is definite, and
    # elimination needs no pivoting.
    shift = value + 1e-14 * scale + tiny
    pivots = np.empty(k)
    pivots[0] = shift - diagonal[0]
    for i in range(1, k):
        pivots[i] = shift - diagonal[i] - off[i - 1] * off[i - 1] / pivots[i - 1]
    for i in range(k):
        vector[i] = 1.0 + 0.01 * i
    for _ in range(3):
        for i in range(1, k):
            vector[i] += off[i - 1] / pivots[i - 1] * vector[i - 1]
        vector[k - 1] /= pivots[k - 1]
        for i in range(k - 2, -1, -1):
            vector[i] = (vector[i] + off[i] * vector[i + 1]) / pivots[i]
        length = math.sqrt(dot(vector, vector))
        for i in range(k):
            vector[i] /= length
    return value
