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

import bisect
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from .._doors import door, interruptible
from .._typing import Array, ArrayLike, KernelLike, Rng, Score, SlicesLike
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    Overflow,
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
from ..compute.linalg import gram, low_rank_root, product
from ..compute.pointwise import diagonal_term
from ..engines.kernel_series import TOLERANCE, check_tolerance
from ..engines.waves import feature_block
from ..kernels import FlatProjection, as_kernel, constant_columns
from ..procedure.nulls import check_resamples
from ..result import GofResult
from ..slices import as_slices
from .cell_grid import Grid
from .cell_moments import Cell, CellMoments, TooMuchWork, accumulate, take_far
from .chunks import Rows

_BLOCK = 8192  # samples whose features are made at a time
_MOST_IN_BLOCK = 2**26  # of these features
# Smallest and largest width of a cell, in bandwidths: light tails fit into one cell, heavy ones
# into many that are cheap.
_WIDTHS = (2.0, 9.0)
_MOST_FEATURES = 5000  # rows of a matrix whose eigenvalues are taken, which is minutes of work
_MOST_OF_CELLS = 3000  # the same where kernels are narrow, which is seconds
_MOST_FITS = 500  # distances between cells that need a series of their own, at milliseconds each
_WILD = Option("null", "wild")
_FARTHEST = 2.0**52  # number of a cell that is still exact
_FAR_OFF = 1e5  # bandwidths, from which on samples have nothing to do with the first ones
# Widths of cells lie on a geometric grid, so that slices of similar range share a series.
_WIDTH_STEP = 1.05


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
    slice. Very heavy tails (a Cauchy distribution) reach ever more cells. If the limit distribution
    would take too long, as along 200 slices, `add` continues without what only that needs:
    `statistics` is there, and `result` raises an error.

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
        try:
            h = frozen(self.kernel.bandwidths_along(y, known, self.slices.g))
        except FlatProjection as error:
            raise constant_columns([known], None, "first") or error.about("first") from error
        middle = np.median(y, axis=1)
        spans = np.clip(2.3 * np.quantile(np.abs(y - middle[:, None]), 0.999, axis=1) / h, *_WIDTHS)
        widths = [_WIDTH_STEP ** math.ceil(math.log(span, _WIDTH_STEP)) for span in spans]
        self._grid = Grid(self.kernel.code, h, frozen(middle), tuple(widths), self.tol)
        self.n = 0
        self._diagonal = np.zeros(len(self.slices))  # sum_i mu_ii of each slice
        self._sums: dict[Cell, Array] = {}  # of the features
        self._counts: dict[Cell, int] = {}  # of samples
        # Second moments of the features; why there are none if they would be too much work.
        self._moments: CellMoments | TooMuchWork = CellMoments(self._grid.ends)
        self._insists = False

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
        other._sums, other._counts = {}, {}
        other._moments = CellMoments(self._grid.ends)
        return other

    def insisting(self) -> Accumulator:
        """Make an empty one that raises an error as soon as `result` is out of reach.

        Returns
        -------
        Accumulator
            Of the same kind, without samples.
        """
        other = self.empty()
        other._insists = True
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
        size = min(_BLOCK, max(1, _MOST_IN_BLOCK // int(grid.ends[-1])))
        for start in range(0, samples.shape[0], size):
            rows = slice(start, start + size)
            y = (product(slices.g, samples[rows]) - grid.middle[:, None]) / grid.h[:, None]
            part._add_block(y, product(slices.r, scores[rows]), alignment)
        self._absorb(part)
        return self

    @interruptible
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
            usual = float(np.abs(y).max(axis=0).min())
            if usual > _FAR_OFF:  # no single entry is to blame
                raise ArgumentError(
                    "x",
                    f"lies at least {usual:.0e} bandwidths away from the samples that gave these (",
                    Option("first"),
                    ", or the first rows of a stream)",
                    remedy="Give as these some samples of the same size and place.",
                )
            raise Overflow("x", "holds numbers too many bandwidths away from the others")
        cells = places.astype(np.int64)
        features = feature_block(y - cells * widths, s, a, *self._grid.layout())
        self.n += y.shape[1]
        self._diagonal += diagonal_term(s, a[:, None]).sum(axis=1)
        middle = np.count_nonzero(cells == 0, axis=1).tolist()
        far = take_far(features, cells, self._grid.ends)
        held = {key: members.features for key, members in far.items()}
        counts = {key: members.samples.size for key, members in far.items()}
        for q, count in enumerate(middle):
            if count:
                held[q, 0], counts[q, 0] = features[self._grid.rows(q)], count
        for key, own in held.items():
            accumulate(self._sums, key, own.sum(axis=1))
            self._counts[key] = self._counts.get(key, 0) + counts[key]
        if isinstance(self._moments, CellMoments):  # decided before they are made
            problem = self._too_many(counts, lambda key: gram(held[key]))
            if problem is None and not self._moments.add(features, far):
                problem = self._no_room()
            self._moments = problem or self._moments

    @interruptible
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
        sums, counts = dict(self._sums), dict(self._counts)
        for key, value in other._sums.items():
            accumulate(sums, key, value)
            counts[key] = counts.get(key, 0) + other._counts[key]
        moments = self._moments_with(other, counts)
        if self._insists and isinstance(moments, TooMuchWork):
            raise moments
        # One step, which no interrupt can cut in two.
        self.__dict__.update(
            n=self.n + other.n,
            _diagonal=self._diagonal + other._diagonal,
            _sums=sums,
            _counts=counts,
            _moments=moments,
        )

    def _moments_with(
        self, other: Accumulator, counts: Mapping[Cell, int]
    ) -> CellMoments | TooMuchWork:
        """Second moments of all samples, of which cells hold so many."""
        for part in (self, other):
            if isinstance(part._moments, TooMuchWork):
                return part._moments
        mine, theirs = cast(CellMoments, self._moments), cast(CellMoments, other._moments)
        moments = mine.merged(theirs)
        if moments is None:
            return self._no_room()
        return self._too_many(counts, moments.own) or moments

    def _too_many(
        self, counts: Mapping[Cell, int], own: Callable[[Cell], Array]
    ) -> TooMuchWork | None:
        """Why eigenvalues would take too long, if they would.

        The features of a cell have as many directions as their second moments, `own`, have rank.
        """
        sizes = 2 * self._grid.counts
        many = len(counts) > 2 * len(self.slices)
        most = min(_MOST_FEATURES, _MOST_OF_CELLS) if many else _MOST_FEATURES
        if sum(min(count, sizes[q]) for (q, _), count in counts.items()) <= most:
            return None
        rows = 0
        for key in counts:
            rows += _rank(cast(Array, np.linalg.eigvalsh(own(key))))
            if rows > most:
                return self._too_much_work(f"the eigenvalues of a matrix of more than {most} rows")
        return None

    def _no_room(self) -> TooMuchWork:
        return self._too_much_work("more than 2 GB of second moments")

    def _too_much_work(self, needed: str) -> TooMuchWork:
        reason = f"the limit distribution needs {needed}"
        also = ". The attribute statistics of an Accumulator needs none."
        if len(self._sums) > 2 * len(self.slices):
            return self._too_narrow(reason, also)
        return TooMuchWork(
            "slices",
            f"are {len(self.slices)}, with which {reason}",
            remedy=(
                "Give fewer, or leave them out to test the family, or gof_test with ",
                _WILD,
                also,
            ),
        )

    @property
    @interruptible
    def statistics(self) -> Array:
        """U-statistic of each slice."""
        if self.n < 2:
            held = counted(self.n, "sample")
            raise ValueError(f"the accumulator holds {held}; at least 2 are needed.")
        self._check_work()
        totals = -self._diagonal.copy()
        near = self._near()
        sums = {q: np.stack([self._sums[key] for key in near if key[0] == q]) for q, _ in near}
        places = {q: np.array([cell for k, cell in near if k == q]) for q in sums}
        for (q, cell), others in near.items():
            coupled = self._grid.couple(q, cell - places[q][others], sums[q][others].T)
            totals[q] += self._sums[q, cell] @ coupled.sum(axis=1)
        return check_statistic(totals / (self.n * (self.n - 1.0)))

    def _near(self) -> dict[Cell, slice]:
        """For each cell, in order, those of its slice that it is coupled to, itself among them.

        They are told by their places among the cells of the slice.
        """
        numbers: list[list[int]] = [[] for _ in self.slices.g]
        for q, cell in sorted(self._sums):
            numbers[q].append(cell)
        near = {}
        for q, held in enumerate(numbers):
            reach = self._grid.reach(q)
            for cell in held:
                first = bisect.bisect_left(held, cell - reach)
                near[q, cell] = slice(first, bisect.bisect_right(held, cell + reach))
        return near

    @interruptible
    def spectrum(self) -> Array:
        """Eigenvalues of the centred Stein matrix over n.

        Returns
        -------
        (k,) array
            Those that are not zero, and some that are.
        """
        self._check_work()
        if isinstance(self._moments, TooMuchWork):
            raise self._moments
        moments, near = self._moments, self._near()
        # A cell of few samples has features in few directions: only those are kept.
        basis = {key: _range(moments.own(key)) for key in near}
        ends = np.cumsum([0, *(one.shape[1] for one in basis.values())])
        rows = {key: slice(ends[k], ends[k + 1]) for k, key in enumerate(basis)}
        mean = np.concatenate([one.T @ self._sums[key] for key, one in basis.items()]) / self.n
        covariance = moments.reduced(basis) / self.n - np.outer(mean, mean)
        # With the covariance C = A A^T and the coupling T, those of C T are those of A^T T A.
        root = low_rank_root(covariance)
        coupled = np.zeros(root.shape)
        for q in range(len(self.slices)):
            keys = [key for key in basis if key[0] == q]
            if not keys:
                continue
            columns = np.concatenate([basis[key] for key in keys], axis=1)
            places = np.repeat([cell for _, cell in keys], [basis[key].shape[1] for key in keys])
            start = rows[keys[0]].start
            for key in keys:
                others = keys[near[key]]
                band = slice(rows[others[0]].start, rows[others[-1]].stop)
                inner = slice(band.start - start, band.stop - start)
                there = self._grid.couple(q, key[1] - places[inner], columns[:, inner])
                coupled[rows[key]] = basis[key].T @ there @ root[band]
        return cast(Array, np.linalg.eigvalsh(product(root.T, coupled.T)))

    def _check_work(self) -> None:
        """The series that couple cells must not be too many; far apart the RBF kernel has none."""
        if self.kernel.code == 0:
            return
        fits = 0
        held: dict[int, list[int]] = {}
        for q, cell in self._sums:
            held.setdefault(q, []).append(cell)
        for cells in map(np.array, held.values()):
            fits += cells.size  # there are at least as many distances as cells
            if fits <= _MOST_FITS:
                fits += np.unique(np.abs(cells[:, None] - cells)).size - cells.size
        if fits > _MOST_FITS:
            raise self._too_narrow(f"every distance between two of them, {fits} in all, is work")

    def _too_narrow(self, reason: str, also: str = ".") -> TooMuchWork:
        return TooMuchWork(
            "kernel",
            f"is narrow for samples with heavy tails, in {len(self._sums)} cells: {reason}",
            remedy=("Take a larger ", Option("bandwidth"), ", or gof_test with ", _WILD, also),
        )

    @interruptible
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
        n_resamples = check_resamples(n_resamples)
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
    return vectors[:, values.size - _rank(values) :]


def _rank(values: Array) -> int:
    """How many eigenvalues of second moments, in ascending order, are not zero."""
    return int(np.count_nonzero(values > 1e-15 * values.size * values[-1]))
