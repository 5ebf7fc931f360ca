"""Eigenproblems of symmetric matrices, dense (LAPACK's) or known by their products alone (Lanczos).

Those known by their products are many small ones at once, compiled.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numba
import numpy as np

from .._typing import Array
from .blas import one_blas_thread
from .jit import compiled, parallel
from .linalg import add_scaled, dot

# Residuals, relative to the eigenvalue, at which the first and the second pair count as found.
_TOP, _SECOND = 1e-8, 1e-2


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
    with one_blas_thread():
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
    q = _sized(_orthonormalise, m * d)(start, basis, 0, deflate)
    for k in range(steps):
        basis[:, k] = q
        work = running.size * d
        w = apply(q)
        if k == 0:
            units = _units(w)
        w = np.ascontiguousarray(w * units[:, None])
        q = _sized(_lanczos_step, work)(basis, w, k, diagonal, off_diagonal, deflate, start)
        # A few steps at least: an early Ritz value may belong to a lower eigenvalue.
        if k < steps - 1 and (k % 2 == 0 or k < 5):
            continue
        ritz, coefficients, residuals = _sized(_top_ritz_pairs, work)(diagonal, off_diagonal, k + 1)
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
        with one_blas_thread():
            ritz = np.linalg.eigvalsh(matrices)
        gaps[rows[fine]] = (ritz[:, -1] - ritz[:, -2]) / units[fine]
    return gaps


def _units(w):
    """Powers of two that bring the rows of `w` to a size of about one.

    Squares then neither overflow nor vanish, and no bit changes.
    """
    exponents = np.frexp(np.abs(w).max(axis=1))[1]
    return np.ldexp(1.0, np.clip(-exponents, -1000, 1000))


def _sized(function, work):
    """The serial version of a parallel function when there is little work."""
    return function if work >= 4096 else function.serial


@parallel
def _orthonormalise(start, basis, k, deflate):
    """Rows of `start`, orthogonal to the first k basis vectors and to `deflate`, of unit length."""
    out = start.copy()
    for q in numba.prange(out.shape[0]):
        _project_out(out[q], basis[q], k, deflate[q])
        _scale(out[q], 1.0 / math.sqrt(dot(out[q], out[q])))
    return out


# Plain loops where array expressions would do: those take seconds to compile.


@compiled
def _scale(w, factor):
    for i in range(w.size):
        w[i] *= factor


@compiled
def _project_out(w, basis, k, deflate):
    for _ in range(2):
        add_scaled(w, -dot(w, deflate), deflate)
        for i in range(k):
            add_scaled(w, -dot(w, basis[i]), basis[i])


@parallel
def _lanczos_step(basis, w, k, diagonal, off_diagonal, deflate, start):
    """Fill row k of the tridiagonal matrices; returns the next basis vectors."""
    m = w.shape[0]
    for q in numba.prange(m):
        scale = math.sqrt(dot(w[q], w[q]))
        diagonal[q, k] = dot(basis[q, k], w[q])
        _project_out(w[q], basis[q], k + 1, deflate[q])
        norm = math.sqrt(dot(w[q], w[q]))
        for i in range(k):
            scale = max(scale, abs(diagonal[q, i]))
        if norm <= 1e-13 * scale:
            # The space found so far is invariant: go on in its complement, from a new direction.
            norm = 0.0
            for i in range(w.shape[1]):
                w[q, i] = start[q, (i + k + 1) % w.shape[1]]
            _project_out(w[q], basis[q], k + 1, deflate[q])
            fresh = math.sqrt(dot(w[q], w[q]))
            _scale(w[q], 1.0 / fresh if fresh > 1e-10 else 0.0)
        else:
            _scale(w[q], 1.0 / norm)
        off_diagonal[q, k] = norm
    return w


@parallel
def _top_ritz_pairs(diagonal, off_diagonal, k):
    """Top eigenpair of each leading (k, k) tridiagonal matrix, with its residual."""
    m = diagonal.shape[0]
    values = np.empty(m)
    vectors = np.empty((m, k))
    residuals = np.empty(m)
    for q in numba.prange(m):
        values[q] = _top_ritz(diagonal[q, :k], off_diagonal[q, :k], vectors[q])
        residuals[q] = off_diagonal[q, k - 1] * abs(vectors[q, k - 1])
    return values, vectors, residuals


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
        _scale(vector, 1.0 / math.sqrt(dot(vector, vector)))
    return value
