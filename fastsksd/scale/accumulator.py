"""Sums over samples that arrive in chunks: they add, merge, and yield statistic and p-value.

Of the samples, the Fourier engine needs only the sums of their features, and for the limit
distribution their second moments. But a series holds for a range of the data that must be fixed at
the start, and later samples may lie outside. So the line is cut into cells of that range. Within a
cell features are taken about its middle, and every cell has its own sums. Samples of cells D apart
differ by D plus at most a cell's width. On that range the kernel is again a series with the same
frequencies, ``k(D + t) = sum_f A_f cos(w_f t) + B_f sin(w_f t)``, which couples the sums of the two
cells. No sample is ever outside.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._doors import door
from .._typing import Array, ArrayLike, KernelLike, Rng, Score, SlicesLike
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    Overflow,
    check_integer,
    check_rng,
    check_samples,
    check_score,
    check_statistic,
    counted,
    evaluate_score,
    frozen,
)
from ..compute.chi_square import (
    limit_weights,
    log_tail_of_weighted_chi_square,
    positive_exp,
    weighted_chi_square_draws,
)
from ..compute.linalg import eigenvalues_of_product, gram, low_rank_root, product
from ..compute.pointwise import diagonal_term
from ..compute.series import fitted_series
from ..engines.kernel_series import TOLERANCE, check_tolerance
from ..engines.waves import feature_block
from ..kernels import as_kernel
from ..result import GofResult
from ..slices import as_slices
from .chunks import Rows

_BLOCK = 8192  # samples whose features are made at a time
# Smallest and largest width of a cell, in bandwidths: light tails fit into one cell, heavy ones
# into many that are cheap.
_WIDTHS = (2.0, 9.0)
# Margin of a series beyond its range, by kernel: those that need the fewest terms.
_MARGINS = {0: 3.0, 1: 1.25}
_MOST_FEATURES = 5000  # rows of a matrix whose eigenvalues are taken, which is minutes of work
_MOST_FITS = 1000  # distances between cells that need a series of their own, at milliseconds each
_WILD = Option("null", "wild")
_FARTHEST = 2.0**52  # number of a cell that is still exact
# Widths of cells lie on a geometric grid, so that slices of similar range share a series.
_WIDTH_STEP = 1.05

_Cell = tuple[int, int]  # slice and number of the cell


class Accumulator:
    """Sums over samples that arrive in chunks, for a test along fixed slices.

    Memory does not grow with the number of samples.

    Parameters
    ----------
    slices : Slices or pair (r, g)
        Directions chosen beforehand, or from other samples.
    first : (n, d) array
        Some samples, which give the range of the data and the bandwidths; they are not added.
        Another range costs time, not accuracy.
    kernel : {"rbf", "imq"} or kernel object
        Kernel of the statistic. The bandwidth "median" is that of `first`.
    tol : float
        Largest error of a Stein term, relative to its size, as for the Fourier engine.

    Attributes
    ----------
    n : int
        Number of samples added.
    slices : Slices
        The directions.
    kernel : Kernel
        The kernel.
    tol : float
        The tolerance.

    See Also
    --------
    gof_stream : The test of a stream in one call.

    Notes
    -----
    Memory grows with the number of cells that samples reach. For light tails that is one for each
    slice. Very heavy tails (a Cauchy distribution) reach ever more cells. `add` then continues, but
    `result` raises an error if the limit distribution would take too long.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> rng = np.random.default_rng(0)
    >>> chunks = [rng.standard_normal((1000, 2)) for _ in range(5)]
    >>> total = fs.Accumulator(fs.Slices(np.eye(2), np.eye(2)), chunks[0])
    >>> for x in chunks:
    ...     _ = total.add(x, lambda x: -x)
    >>> total.n, total.result().reject()
    (5000, False)
    """

    @door
    def __init__(
        self,
        slices: SlicesLike,
        first: ArrayLike,
        *,
        kernel: KernelLike = "rbf",
        tol: float = TOLERANCE,
    ) -> None:
        known = check_samples(first, "first", min_rows=2)
        self.slices = as_slices(slices, known.shape[1])
        self.kernel = as_kernel(kernel)
        self.tol = check_tolerance(tol)
        y = product(self.slices.g, known)
        h = frozen(self.kernel.bandwidths_along(y, known, self.slices.g))
        middle = np.median(y, axis=1)
        spans = np.clip(2.3 * np.quantile(np.abs(y - middle[:, None]), 0.999, axis=1) / h, *_WIDTHS)
        widths = [_WIDTH_STEP ** math.ceil(math.log(span, _WIDTH_STEP)) for span in spans]
        self._grid = _Grid(self.kernel.code, h, frozen(middle), tuple(widths), self.tol)
        self.n = 0
        self._diagonal = np.zeros(len(self.slices))  # sum_i mu_ii of each slice
        self._sums: dict[_Cell, Array] = {}  # of the features
        # Second moments of the features, for pairs of cells in order.
        self._moments: dict[tuple[_Cell, _Cell], Array] = {}

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.slices.d

    def empty(self) -> Accumulator:
        """Make an accumulator of the same kind without samples, to be filled and merged.

        Returns
        -------
        Accumulator
            With the same slices, bandwidths and cells.
        """
        other = object.__new__(Accumulator)
        other.__dict__.update(self.__dict__)
        other.n, other._diagonal = 0, np.zeros(len(self.slices))
        other._sums, other._moments = {}, {}
        return other

    @door
    def add(self, x: ArrayLike, score: Score) -> Accumulator:
        """Add samples.

        All of them count, or none if there is an error or an interrupt.

        Parameters
        ----------
        x : (n, d) array
            Samples.
        score : (n, d) array, callable or model
            Score of the model: its values at `x`, a function, or an object with `.score`.

        Returns
        -------
        Accumulator
            This one.
        """
        samples = check_samples(x, "x", min_rows=0, d=self.slices.d)
        check_score(score)
        if samples.shape[0] == 0:
            return self
        scores = evaluate_score(score, samples)
        slices, grid = self.slices, self._grid
        alignment = np.einsum("md,md->m", slices.r, slices.g) / grid.h
        # Computed apart, and added when it is complete.
        part = self.empty()
        for start in range(0, samples.shape[0], _BLOCK):
            rows = slice(start, start + _BLOCK)
            y = (product(slices.g, samples[rows]) - grid.middle[:, None]) / grid.h[:, None]
            part._add_block(y, product(slices.r, scores[rows]), alignment)
        self._absorb(part)
        return self

    def extend(self, chunks: Any, score: Score | None = None) -> Accumulator:
        """Add all chunks of a stream, or of an array that is read in blocks of rows.

        After a bad chunk or an interrupt, the chunks before it have been added. `n` says how many
        samples they held.

        Parameters
        ----------
        chunks : iterable, or array-like of shape (n, d)
            As for `gof_stream`, but not a Dask array.
        score : callable, model or array-like, optional
            As for `gof_stream`.

        Returns
        -------
        Accumulator
            This one.
        """
        return Rows(chunks, score).add_to(self)

    def _add_block(self, y: Array, s: Array, a: Array) -> None:
        """Add samples by their projections y and s, in bandwidths, and alignments a."""
        widths = np.array(self._grid.widths)[:, None]
        places = np.floor(y / widths + 0.5)
        if np.abs(places).max() > _FARTHEST:
            raise Overflow("x", "holds numbers too many bandwidths away from the others")
        cells = places.astype(np.int64)
        features = feature_block(y - cells * widths, s, a, *self._grid.layout())
        self.n += y.shape[1]
        self._diagonal += diagonal_term(s, a[:, None]).sum(axis=1)
        # Most samples lie in the middle cell of every slice. The others are grouped by their cells.
        far = np.flatnonzero(cells.any(axis=0))
        patterns, members = np.unique(cells[:, far], axis=1, return_inverse=True)
        for k, pattern in enumerate(patterns.T.tolist()):
            self._add_features(
                np.ascontiguousarray(features[:, far[members.ravel() == k]]), pattern
            )
        if far.size < y.shape[1]:
            features[:, far] = 0.0
            self._add_features(features, [0] * len(self.slices))

    def _add_features(self, features: Array, cells: Sequence[int]) -> None:
        """Add features of samples that share their cells, one for each slice."""
        sums, moments = features.sum(axis=1), gram(features)
        for q, cell in enumerate(cells):
            rows = self._grid.rows(q)
            _accumulate(self._sums, (q, cell), sums[rows])
            for p in range(q + 1):
                _accumulate(
                    self._moments, ((p, cells[p]), (q, cell)), moments[self._grid.rows(p), rows]
                )

    def merge(self, other: Accumulator) -> Accumulator:
        """Add the sums of another accumulator.

        Parameters
        ----------
        other : Accumulator
            With the same slices, bandwidths and cells; see `empty`.

        Returns
        -------
        Accumulator
            This one.
        """
        if not isinstance(other, Accumulator):
            raise ArgumentTypeError("other", f"must be an Accumulator, not {type(other).__name__}")
        theirs = other._settings()
        for name, mine in self._settings().items():
            if not all(map(np.array_equal, mine, theirs[name])):
                raise ArgumentError(
                    "other",
                    f"has another {name}; make it by `empty()` of this accumulator, or of "
                    "a common one",
                )
        self._absorb(other)
        return self

    def _settings(self) -> dict[str, tuple[Any, ...]]:
        """What accumulators must have in common to be merged."""
        grid = self._grid
        return {
            "slices": (self.slices.r, self.slices.g),
            "bandwidths": (grid.h,),
            "kernel": (self.kernel.name,),
            "tolerance": (self.tol,),
            "range": (grid.middle, grid.widths),
        }

    def _absorb(self, other: Accumulator) -> None:
        sums, moments = dict(self._sums), dict(self._moments)
        for mine, theirs in ((sums, other._sums), (moments, other._moments)):
            for key, value in theirs.items():
                _accumulate(mine, key, value)
        # One step, which no interrupt can cut in two.
        self.__dict__.update(
            n=self.n + other.n,
            _diagonal=self._diagonal + other._diagonal,
            _sums=sums,
            _moments=moments,
        )

    @property
    def statistics(self) -> Array:
        """U-statistic of each slice."""
        if self.n < 2:
            held = counted(self.n, "sample")
            raise ValueError(f"the accumulator holds {held}; at least 2 are needed.")
        self._check_work()
        totals = -self._diagonal.copy()
        for (q, cell), sums in self._sums.items():
            for (p, other), others in self._sums.items():
                if p == q:
                    totals[q] += sums @ self._grid.couple(q, cell - other, others)
        return check_statistic(totals / (self.n * (self.n - 1.0)))

    def spectrum(self) -> Array:
        """Eigenvalues of the centred Stein matrix over n.

        Returns
        -------
        (k,) array
            Those that are not zero, and some that are.
        """
        self._check_work()
        keys = sorted(self._sums)
        # A cell of few samples has features in few directions: only those are kept.
        basis = {key: _range(self._moments[key, key]) for key in keys}
        ends = np.cumsum([0, *(basis[key].shape[1] for key in keys)])
        if ends[-1] > _MOST_FEATURES:
            reason = f"the limit distribution needs the eigenvalues of a matrix of {ends[-1]} rows"
            also = ". The attribute statistics of an Accumulator needs no eigenvalues."
            if len(keys) > 2 * len(self.slices):
                raise self._too_narrow(reason, also)
            raise ArgumentError(
                "slices",
                f"are {len(self.slices)}, with which {reason}",
                remedy=(
                    "Give fewer, or leave them out to test the family, or gof_test with ",
                    _WILD,
                    also,
                ),
            )
        rows = {key: slice(ends[k], ends[k + 1]) for k, key in enumerate(keys)}
        second, coupling = np.zeros((2, ends[-1], ends[-1]))
        mean = np.concatenate([basis[key].T @ self._sums[key] for key in keys]) / self.n
        for (a, b), value in self._moments.items():
            second[rows[a], rows[b]] = basis[a].T @ value @ basis[b]
            second[rows[b], rows[a]] = second[rows[a], rows[b]].T
        for q, cell in keys:
            for p, other in keys:
                if p == q:
                    columns = self._grid.couple(q, cell - other, basis[p, other])
                    coupling[rows[q, cell], rows[p, other]] = basis[q, cell].T @ columns
        if self.n < ends[-1]:  # second moments of few samples have a small root
            root = low_rank_root(second)
            mean = np.linalg.lstsq(root, mean, rcond=None)[0]
            second, coupling = np.eye(root.shape[1]), product(product(root.T, coupling), root.T)
        return eigenvalues_of_product(second / self.n - np.outer(mean, mean), coupling)

    def _check_work(self) -> None:
        """The series that couple cells must not be too many; far apart the RBF kernel has none."""
        if self.kernel.code == 0:
            return
        fits = 0
        for q in range(len(self.slices)):
            cells = np.array([cell for p, cell in self._sums if p == q])
            fits += cells.size  # there are at least as many distances as cells
            if fits <= _MOST_FITS:
                fits += np.unique(np.abs(cells[:, None] - cells)).size - cells.size
        if fits > _MOST_FITS:
            raise self._too_narrow(f"every distance between two of them, {fits} in all, is work")

    def _too_narrow(self, reason: str, also: str = ".") -> ArgumentError:
        return ArgumentError(
            "kernel",
            f"is narrow for samples with heavy tails, in {len(self._sums)} cells: {reason}",
            remedy=("Take a larger ", Option("bandwidth"), ", or gof_test with ", _WILD, also),
        )

    def result(self, *, n_resamples: int = 1000, rng: Rng = None) -> GofResult:
        """Test all samples so far, with the limit distribution as the null.

        Parameters
        ----------
        n_resamples : int
            Number of draws of the limit distribution, to look at.
        rng : None, int or numpy.random.Generator
            Source of these draws.

        Returns
        -------
        GofResult
            As of ``gof_test(..., null="spectral")``.
        """
        start = time.perf_counter()
        n_resamples = check_integer("n_resamples", n_resamples, 1)
        statistics = self.statistics
        statistic = float(statistics.sum())
        chi2_weights = limit_weights(self.spectrum(), self.n)
        tail = log_tail_of_weighted_chi_square(chi2_weights, statistic)
        pvalue = positive_exp(max(tail, (1.0 - self.n) * math.log(2.0)))
        seconds = time.perf_counter() - start
        return GofResult(
            statistic=statistic,
            pvalue=pvalue,
            null_distribution=weighted_chi_square_draws(chi2_weights, n_resamples, check_rng(rng)),
            slices=self.slices,
            slice_statistics=statistics,
            bandwidths=self._grid.h,
            n_test=self.n,
            n_train=0,
            null="spectral",
            engine="fourier",
            kernel=self.kernel.name,
            method="sksd",
            timings={"statistic": seconds, "total": seconds},
        )


def _range(moments: Array) -> Array:
    """An orthonormal basis of the directions in which second moments are not zero."""
    values, vectors = np.linalg.eigh(moments)
    return vectors[:, values > 1e-15 * values.size * values[-1]]


def _accumulate(table: dict[Any, Array], key: Any, value: Array) -> None:
    table[key] = table[key] + value if key in table else np.array(value)


class _Grid:
    """Cells and series of all slices; lengths in bandwidths."""

    def __init__(
        self, code: int, h: Array, middle: Array, widths: tuple[float, ...], tol: float
    ) -> None:
        self.code = code
        self.h = h
        self.middle = middle
        self.widths = widths
        self.tol = tol
        counts, self.base = zip(*(_frequencies(code, width, tol) for width in widths), strict=True)
        self.counts = np.array(counts)
        self.ends = np.cumsum([0, *(2 * self.counts)])

    def layout(self) -> tuple[Array, np.ndarray]:
        """Base frequency and number of frequencies of each slice."""
        return np.array(self.base), self.counts

    def rows(self, q: int) -> slice:
        """Rows of the features of slice q: its cosines, then its sines."""
        return slice(self.ends[q], self.ends[q + 1])

    def _series(self, q: int, distance: int) -> tuple[Array, Array]:
        return _coupling(self.code, self.widths[q], distance, self.tol)

    def couple(self, q: int, distance: int, values: Array) -> Array:
        """The coupling of slice q between two cells, times `values` of the second.

        `distance` is the number of the first cell minus that of the second.
        """
        cos, sin = self._series(q, abs(distance))
        sin = math.copysign(1.0, distance) * sin
        count = cos.size
        even, odd = values[:count], values[count:]
        shape = (-1,) + (1,) * (values.ndim - 1)
        cos, sin = cos.reshape(shape), sin.reshape(shape)
        # cos(w (u - v)) and sin(w (u - v)) multiplied out.
        return np.concatenate([cos * even - sin * odd, cos * odd + sin * even])


@functools.lru_cache(maxsize=256)
def _frequencies(code: int, width: float, tol: float) -> tuple[int, float]:
    """Number of frequencies that are enough for all distances between cells, and the lowest."""
    top = math.sqrt(2.0 * math.log(10.0 / tol)) if code == 0 else math.log(300.0 / tol)
    period = 2.0 * (width + _MARGINS[code])
    for _ in range(40):
        count = math.ceil(top * period / (2.0 * math.pi)) + 1
        if all(
            _fit(code, width, distance, tol, count, period) is not None for distance in (0, 1, 2)
        ):
            return count, 2.0 * math.pi / period
        top *= 1.05
    raise ArgumentError(
        "tol", f"is {tol:g}, too small for a series of the kernel in double precision; raise it"
    )


@functools.lru_cache(maxsize=4096)
def _coupling(code: int, width: float, distance: int, tol: float) -> tuple[Array, Array]:
    """Coefficients of the cosines and sines of ``k(D + t)``.

    For ``|t| <= width`` and D of `distance` cells.
    """
    count, base = _frequencies(code, width, tol)
    fitted = _fit(code, width, distance, tol, count, 2.0 * math.pi / base)
    if fitted is None:
        raise ArgumentError(
            "tol",
            f"is {tol:g}, too small for a series of the kernel {distance} cells apart; raise it",
        )
    return fitted


@functools.lru_cache(maxsize=4096)
def _fit(
    code: int, width: float, distance: int, tol: float, count: int, period: float
) -> tuple[Array, Array] | None:
    """The series for two cells at a distance; None where it is not accurate enough."""
    gap = (distance - 1) * width
    # There the RBF kernel is zero.
    if code == 0 and distance > 1 and gap > math.sqrt(2.0 * math.log(100.0 / tol)):
        return np.zeros(count), np.zeros(count)
    return fitted_series(code, width, distance * width, count, period, tol)
