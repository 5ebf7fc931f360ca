"""A test of more samples than memory holds: sums that chunks add to, that merge, and that yield statistic and p-value at the end.

The Fourier engine needs of the samples only the sums of their features, and for the limit law their second moments. A series holds for
a range of the data that must be fixed at the start, though, and later samples may lie outside. So the line is cut into cells of that
range. Within a cell features are taken about its middle, and every cell has sums of its own. Samples of cells D apart differ by D and at
most a cell's width more, and on that stretch the kernel is a series with the same frequencies again,
``k(D + t) = sum_f A_f cos(w_f t) + B_f sin(w_f t)``, which couples the sums of the two cells. No sample is ever outside.

`gof_stream` does it all in one call: it reads the first rows for what must be known beforehand, and adds chunk after chunk.
"""

import contextlib
import functools
import inspect
import itertools
import math
import time
from dataclasses import replace

import numpy as np

from .._validate import (
    check_choice,
    check_integer,
    check_rng,
    check_samples,
    check_score,
    check_statistic,
    evaluate_score,
    frozen,
    score_is_array,
)
from ..compute.chi_square import (
    limit_law,
    log_tail_of_weighted_chi_square,
    positive_exp,
    weighted_chi_square_draws,
)
from ..compute.linalg import eigenvalues_of_product, gram, product
from ..compute.pointwise import own_term
from ..compute.projections import spread
from ..compute.series import fitted_series
from ..engines.fourier import TOLERANCE, check_tolerance, feature_block
from ..gof import gof_test
from ..kernels import as_kernel
from ..result import GofResult
from ..score_difference import ESTIMATORS
from ..slices import active_slices, as_slices, check_basis

_BLOCK = 8192  # samples whose features are made at a time
# Of cells, in bandwidths: light tails fit into one, heavy ones into many that are cheap.
_WIDTHS = (2.0, 9.0)
# Of a series beyond its stretch, by kernel: those that need the fewest terms.
_MARGINS = {0: 3.0, 1: 1.25}
_MOST_FEATURES = 5000  # rows of a matrix whose eigenvalues are taken, which is minutes of work
_WIDTH_STEP = (
    1.05  # widths of cells lie on a geometric grid, so that slices of like range share a series
)

LEARNING = 5000  # rows at the front of a stream that range and bandwidths are learnt from
TRAINING = 2000  # rows that slices are found on
_READ_BYTES = 2**25  # of an array that is read in blocks of rows


class Accumulator:
    """Sums over samples that arrive in chunks, for a test along fixed slices in memory that does not grow with their number.

    It grows with the number of cells that samples reach, which for light tails is one for each slice. Very heavy tails (a Cauchy
    law) reach ever new ones; then `add` goes on, but `result` refuses a law that would take too long.

    Parameters
    ----------
    slices : Slices or pair (r, g)
        Directions chosen beforehand, or from other samples.
    first : (n, d) array
        Some samples, to learn the range of the data and the bandwidths from; they are not added. Any other range costs time, not
        accuracy.
    kernel : {"rbf", "imq"} or kernel object
        Its bandwidth, when it is "median", is that of `first`.
    tol : float
        Largest error of a Stein term, relative to its size, as for the Fourier engine.

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

    def __init__(self, slices, first, *, kernel="rbf", tol=TOLERANCE):
        first = check_samples(first, "first", min_rows=2)
        self.slices = as_slices(slices, first.shape[1])
        self.kernel = as_kernel(kernel)
        self.tol = check_tolerance(tol)
        y = product(self.slices.g, first)
        h = frozen(self.kernel.bandwidths(y, spread(first, self.slices.g)))
        middle = np.median(y, axis=1)
        spans = np.clip(2.3 * np.quantile(np.abs(y - middle[:, None]), 0.999, axis=1) / h, *_WIDTHS)
        widths = [_WIDTH_STEP ** math.ceil(math.log(span, _WIDTH_STEP)) for span in spans]
        self._grid = _Grid(self.kernel.code, h, frozen(middle), tuple(widths), self.tol)
        self.n = 0
        self._own = np.zeros(len(self.slices))
        self._sums = {}  # (slice, cell): sums of the features
        self._moments = {}  # (slice, cell), (slice, cell): second moments, for keys in order

    def empty(self):
        """An accumulator of the same kind without samples, for another stream that is to be merged."""
        other = object.__new__(Accumulator)
        other.__dict__.update(self.__dict__)
        other.n, other._own, other._sums, other._moments = 0, np.zeros(len(self.slices)), {}, {}
        return other

    def add(self, x, score):
        """Add samples, (n, d), with the model's score: its values there, a function or a model. Returns the accumulator.

        All of them count or, when there is an error or an interrupt, none.
        """
        x = check_samples(x, "x", min_rows=0, d=self.slices.d)
        check_score(score)
        if x.shape[0] == 0:
            return self
        scores = evaluate_score(score, x)
        slices, grid = self.slices, self._grid
        alignment = np.einsum("md,md->m", slices.r, slices.g) / grid.h
        # Worked out apart and counted when it is whole.
        part = self.empty()
        for start in range(0, x.shape[0], _BLOCK):
            rows = slice(start, start + _BLOCK)
            y = (product(slices.g, x[rows]) - grid.middle[:, None]) / grid.h[:, None]
            part._add_block(y, product(slices.r, scores[rows]), alignment)
        self._absorb(part)
        return self

    def extend(self, chunks, score=None):
        """Add all `chunks` of a stream or of an array that is read in blocks of rows, see `gof_stream`. Returns the accumulator.

        When a chunk is bad or there is an interrupt, the chunks before it have been added, and `n` says how many samples they held.
        """
        return _Rows(chunks, score).add_to(self)

    def _add_block(self, y, s, a):
        widths = np.array(self._grid.widths)[:, None]
        cells = np.floor(y / widths + 0.5).astype(np.int64)
        features = feature_block(y - cells * widths, s, a, *self._grid.layout())
        self.n += y.shape[1]
        self._own += own_term(s, a[:, None]).sum(axis=1)
        # Most samples lie in the middle cell of every slice; the others are taken out, grouped by their cells.
        far = np.flatnonzero(cells.any(axis=0))
        patterns, members = np.unique(cells[:, far], axis=1, return_inverse=True)
        for k, pattern in enumerate(patterns.T.tolist()):
            self._add_features(
                np.ascontiguousarray(features[:, far[members.ravel() == k]]), pattern
            )
        if far.size < y.shape[1]:
            features[:, far] = 0.0
            self._add_features(features, [0] * len(self.slices))

    def _add_features(self, features, cells):
        """Add features of samples that share their cells, one for each slice."""
        sums, moments = features.sum(axis=1), gram(features)
        for q, cell in enumerate(cells):
            rows = self._grid.rows(q)
            _accumulate(self._sums, (q, cell), sums[rows])
            for p in range(q + 1):
                _accumulate(
                    self._moments, ((p, cells[p]), (q, cell)), moments[self._grid.rows(p), rows]
                )

    def merge(self, other):
        """Add the sums of another accumulator with the same slices, bandwidths and cells. Returns the accumulator."""
        if not isinstance(other, Accumulator):
            raise TypeError(f"`other` must be an Accumulator, not {type(other).__name__}.")
        for name, mine, theirs in (
            ("slices", (self.slices.r, self.slices.g), (other.slices.r, other.slices.g)),
            ("bandwidths", self._grid.h, other._grid.h),
            ("kernel", self.kernel.name, other.kernel.name),
            ("tolerance", self.tol, other.tol),
            (
                "range",
                (self._grid.middle, self._grid.widths),
                (other._grid.middle, other._grid.widths),
            ),
        ):
            same = (
                all(map(np.array_equal, mine, theirs))
                if isinstance(mine, tuple)
                else np.array_equal(mine, theirs)
            )
            if not same:
                raise ValueError(
                    f"`other` has another {name}; make it by `empty()` of this accumulator, or of a common one."
                )
        self._absorb(other)
        return self

    def _absorb(self, other):
        sums, moments = dict(self._sums), dict(self._moments)
        for mine, theirs in ((sums, other._sums), (moments, other._moments)):
            for key, value in theirs.items():
                _accumulate(mine, key, value)
        # One step, which no interrupt can cut in two.
        self.__dict__.update(
            n=self.n + other.n, _own=self._own + other._own, _sums=sums, _moments=moments
        )

    @property
    def statistics(self):
        """U-statistic of each slice."""
        if self.n < 2:
            raise ValueError(f"the accumulator holds {self.n} samples; at least 2 are needed.")
        totals = -self._own.copy()
        for (q, cell), sums in self._sums.items():
            for (p, other), others in self._sums.items():
                if p == q:
                    totals[q] += sums @ self._grid.couple(q, cell - other, others)
        return check_statistic(totals / (self.n * (self.n - 1.0)))

    def spectrum(self):
        """Eigenvalues of the centred Stein matrix over n."""
        keys = sorted(self._sums)
        # A cell of few samples has features in few directions: only those are kept.
        basis = {key: _range(self._moments[key, key]) for key in keys}
        ends = np.cumsum([0, *(basis[key].shape[1] for key in keys)])
        if ends[-1] > _MOST_FEATURES:
            raise ValueError(
                f"the limit law would take the eigenvalues of a matrix of {ends[-1]} rows: the samples lie in {len(keys)} cells, as their tails "
                "are heavy. Take a kernel of larger `bandwidth`, or gof_test with null='wild'. The statistic itself is in `statistics`."
            )
        place = {key: slice(ends[k], ends[k + 1]) for k, key in enumerate(keys)}
        second, coupling = np.zeros((2, ends[-1], ends[-1]))
        mean = np.concatenate([basis[key].T @ self._sums[key] for key in keys]) / self.n
        for (a, b), value in self._moments.items():
            second[place[a], place[b]] = basis[a].T @ value @ basis[b]
            second[place[b], place[a]] = second[place[a], place[b]].T
        for q, cell in keys:
            for p, other in keys:
                if p == q:
                    columns = self._grid.couple(q, cell - other, basis[p, other])
                    coupling[place[q, cell], place[p, other]] = basis[q, cell].T @ columns
        return eigenvalues_of_product(second / self.n - np.outer(mean, mean), coupling)

    def result(self, *, n_resamples=1000, rng=None):
        """The test of all samples so far, with the limit law as its null; `n_resamples` draws of it are for looking at."""
        start = time.perf_counter()
        n_resamples = check_integer("n_resamples", n_resamples, 1)
        statistics = self.statistics
        law = limit_law(self.spectrum(), self.n)
        pvalue = positive_exp(log_tail_of_weighted_chi_square(law, float(statistics.sum())))
        seconds = time.perf_counter() - start
        return GofResult(
            statistic=float(statistics.sum()), pvalue=pvalue,
            null_distribution=weighted_chi_square_draws(law, n_resamples, check_rng(rng)), slices=self.slices,
            slice_statistics=statistics, bandwidths=self._grid.h, n_test=self.n, n_train=0, null="spectral", engine="fourier",
            kernel=self.kernel.name, method="sksd", timings={"statistic": seconds, "total": seconds},
        )  # fmt: skip


def gof_stream(
    chunks,
    score=None,
    *,
    slices=None,
    n_slices=None,
    basis=None,
    estimator="ke",
    score_q=None,
    debias=True,
    train=None,
    kernel="rbf",
    tol=TOLERANCE,
    n_resamples=1000,
    rng=None,
):
    """Test of samples that need not fit into memory: a stream of chunks, or an array on disk or on a cluster, read once.

    Parameters
    ----------
    chunks : iterable, or array-like of shape (n, d)
        An iterable (a generator, say) of arrays (n_k, d), or of pairs (x, scores) of such arrays; empty chunks are skipped. Or an
        array with a `.shape` that can be sliced (a memory map, Zarr, HDF5), which is read in blocks of rows of about 32 MB.
        Or a Dask array, split along its rows only: then every chunk becomes an `Accumulator` where it lies, and these are merged.
    score : callable, model or array-like
        Score of the model, evaluated chunk by chunk; or its values, (n, d), in an array of the same sort as `chunks`. Left out
        when `chunks` yields pairs.
    slices : Slices or pair (r, g), optional
        Directions chosen beforehand. Range and median bandwidths are then learnt from the first 5000 rows, which are tested too.
    n_slices, basis, estimator, score_q, debias
        Without `slices`, how they are found; see `active_slices`. By default the top 3 active directions.
    train : int or (n_train, d) array, optional
        Without `slices`, what they are found on: so many rows at the front of the stream, 2000 by default, which are not tested, or
        separate samples (then `score` must be a function). Range and median bandwidths are learnt from these.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel of the statistic.
    tol : float
        Largest error of a Stein term, relative to its size, as for the Fourier engine.
    n_resamples : int
        Draws of the limit law to look at.
    rng : None, int or numpy.random.Generator
        Source of these draws; nothing else is random.

    Returns
    -------
    GofResult
        As of ``gof_test(..., null="spectral")``; the limit law is for independent samples.

    Notes
    -----
    What is learnt from the first rows: the range, which costs time but no accuracy when later samples lie elsewhere; and the
    bandwidths, with which every test is valid but not equally powerful, so give one (``kernel=RBF(1.0)``) or shuffle when
    the first rows are not like the others. The result does not depend on how rows are grouped into chunks, up to rounding.

    When something goes wrong half-way, what was added is lost with the call. ``Accumulator(slices, first).extend(chunks, score)``
    keeps it.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> rng = np.random.default_rng(0)
    >>> stream = (rng.standard_normal((1000, 3)) * [1.0, 0.9, 1.0] for _ in range(10))
    >>> result = fs.gof_stream(stream, lambda x: -x)
    >>> result.n_train, result.n_test, result.reject()
    (2000, 8000, True)
    """
    start = time.perf_counter()
    n_resamples = check_integer("n_resamples", n_resamples, 1)
    rng = check_rng(rng)
    search = dict(n_slices=n_slices, basis=basis, score_q=score_q, train=train)
    given = [name for name, value in search.items() if value is not None]
    if slices is not None and given:
        raise ValueError(
            f"`slices` are given, so `{given[0]}` has nothing to choose; leave it out."
        )
    check_choice("estimator", estimator, ESTIMATORS)
    source = _source_of(chunks, score)
    n_train = 0
    if slices is not None:
        known = _samples_of(source.head(LEARNING, keep=True))
        if known.shape[0] < 2:
            raise ValueError(f"`chunks` must hold at least 2 samples; got {known.shape[0]}.")
    else:
        known, values = _training_samples(source, score, train)
        n_train, d = known.shape
        check_basis(basis, n_slices, d)
        if n_slices is None and basis is None:
            n_slices = min(3, d)
        if estimator not in ("ke", "ksd") and score is not None:
            values = score  # these differentiate it
        slices = active_slices(
            known,
            values,
            n_slices=n_slices,
            basis=basis,
            estimator=estimator,
            score_q=score_q,
            debias=debias,
        )
    searched = time.perf_counter()
    total = source.add_to(Accumulator(slices, known, kernel=kernel, tol=tol))
    if total.n < 2:
        raise ValueError(
            f"`chunks` leaves {total.n} samples to test after `train`={n_train} to find slices; at least 2 are needed. Lower `train` "
            "or give `slices`."
        )
    result = total.result(n_resamples=n_resamples, rng=rng)
    end = time.perf_counter()
    timings = {"slices": searched - start, "statistic": end - searched, "total": end - start}
    return replace(result, n_train=n_train, timings=timings)


def _training_samples(source, score, train):
    """Samples that slices are found on, and their scores."""
    if np.ndim(train) > 0:
        if score is None or score_is_array(score):
            raise ValueError(
                "`score` must be a callable or a model when `train` holds separate samples."
            )
        x = check_samples(train, "train", min_rows=3)
        return x, evaluate_score(score, x)
    if isinstance(train, float):
        raise TypeError(
            f"`train` must be a number of rows or an array of samples, not a fraction; got {train!r}."
        )
    count = TRAINING if train is None else check_integer("train", train, 3)
    chunks = source.head(count, keep=False)
    x = _samples_of(chunks)
    if x.shape[0] < 3:
        raise ValueError(
            f"`chunks` must hold more samples than `train`={count}, which find slices; got {x.shape[0]}."
        )
    return x, np.concatenate([chunk.scores() for chunk in chunks if chunk.x.size])


def _samples_of(chunks):
    return np.concatenate(
        [np.empty((0, chunks[0].x.shape[1] if chunks else 1)), *(chunk.x for chunk in chunks)]
    )


class Chunk:
    """Samples, (n, d), with the score of the model there, and the number of the chunk, for messages."""

    def __init__(self, number, x, score, d=None):
        self.number = number
        with self.named():
            self.x = check_samples(x, min_rows=0, d=d)
            self.score = check_score(score)
            if score_is_array(score) and np.shape(score) != self.x.shape:
                raise ValueError(
                    f"`score` must have the shape of the samples, {self.x.shape}; got {np.shape(score)}."
                )

    def rows(self, start, stop):
        """Some of the rows, as a chunk of the same number."""
        rows = slice(start, stop)
        return Chunk(
            self.number,
            self.x[rows],
            self.score[rows] if score_is_array(self.score) else self.score,
        )

    def scores(self):
        """Values of the score at the samples."""
        with self.named():
            return evaluate_score(self.score, self.x)

    @contextlib.contextmanager
    def named(self):
        """Say in messages which chunk is meant."""
        try:
            yield
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"chunk {self.number}: {error}") from error


class _Rows:
    """Chunks of a stream, or blocks of an array, in their order."""

    def __init__(self, chunks, score):
        self._left = _chunks_of(chunks, score)

    def head(self, count, keep):
        """The first `count` rows as a list of chunks; they are visited again only with `keep`."""
        taken, rest = [], self._left
        for chunk in self._left:
            if chunk.x.shape[0] > count:
                taken.append(chunk.rows(0, count))
                rest = itertools.chain([chunk.rows(count, None)], self._left)
                break
            taken.append(chunk)
            count -= chunk.x.shape[0]
            if count == 0:
                break
        self._left = itertools.chain(taken, rest) if keep else rest
        return taken

    def add_to(self, total):
        """Add all chunks to an accumulator; returns it."""
        for chunk in self._left:
            with chunk.named():
                total.add(chunk.x, chunk.score)
        return total


# Package of an array type that is neither in this process nor on its disks: class with the methods
# of `_Rows`.
SOURCES = {}


def _source_of(chunks, score):
    return SOURCES.get(package_of(chunks), _Rows)(chunks, score)


def package_of(value):
    """Name of the package that a value's type comes from, which need not be imported to tell."""
    return type(value).__module__.partition(".")[0]


def _chunks_of(chunks, score):
    """Generator of `Chunk` from an iterable or an array."""
    # Values on disk are looked at block by block.
    if score is not None and not hasattr(score, "shape"):
        check_score(score)
    if hasattr(chunks, "shape") and hasattr(chunks, "__getitem__"):
        return _blocks(chunks, score)
    if isinstance(chunks, (str, bytes)) or not hasattr(chunks, "__iter__"):
        raise TypeError(
            f"`chunks` must be an iterable of arrays or of pairs (x, scores), or an (n, d) array; got {type(chunks).__name__}."
        )
    if score is not None and score_is_array(score):
        raise TypeError(
            "`score` must be a callable or a model for a stream of chunks; values come with them, as pairs (x, scores)."
        )
    return _streamed(chunks, score)


def _streamed(chunks, score):
    d = None
    for number, x in enumerate(chunks):
        values = score
        if isinstance(x, tuple):
            if score is not None or len(x) != 2:
                what = (
                    "a tuple, but `score` is given" if score is not None else f"a tuple of {len(x)}"
                )
                raise ValueError(
                    f"chunk {number}: must be an array, or without `score` a pair (x, scores); got {what}."
                )
            x, values = x
        elif score is None:
            raise ValueError(
                f"chunk {number}: comes without scores; give `score`, or pairs (x, scores)."
            )
        chunk = Chunk(number, x, values, d)
        d = chunk.x.shape[1]
        yield chunk


def _blocks(array, score):
    """Blocks of rows of an array that may be on disk; whole chunks of it where it has them."""
    shape = tuple(array.shape)
    if len(shape) != 2:
        raise ValueError(
            f"`chunks` must be two-dimensional, (samples, dimensions), or an iterable of arrays; got shape {shape}."
        )
    if score is None:
        raise ValueError("`score` must be given for an array of samples.")
    values = score_is_array(score)
    if values and tuple(np.shape(score)) != shape:
        raise ValueError(
            f"`score` must have the shape of the samples, {shape}; got {np.shape(score)}."
        )
    rows = max(1, _READ_BYTES // (8 * max(1, shape[1])))
    stored = getattr(array, "chunks", None)
    if stored and isinstance(stored[0], int) and stored[0] <= rows:
        rows -= rows % stored[0]

    def blocks():
        for number, start in enumerate(range(0, shape[0], rows)):
            block = slice(start, start + rows)
            yield Chunk(number, array[block], score[block] if values else score)

    return blocks()


def gof_test_elsewhere(**arguments):
    """`gof_test` of samples that are elsewhere: what applies goes to `gof_stream`, anything else is an error."""
    allowed = {"null": ("spectral",), "engine": ("auto", "fourier"), "method": ("sksd",)}
    for name, choices in allowed.items():
        value = arguments.pop(name)
        if not isinstance(value, str) or value not in choices:
            listing = " or ".join(map(repr, choices))
            raise ValueError(
                f"`{name}` must be {listing} for samples that are not in memory; got {value!r}."
            )
    offered = inspect.signature(gof_stream).parameters
    for name, parameter in inspect.signature(gof_test).parameters.items():
        if (
            name in arguments
            and name not in offered
            and name != "x"
            and arguments.pop(name) is not parameter.default
        ):
            raise ValueError(
                f"`{name}` does not apply to samples that are not in memory; leave it out."
            )
    return gof_stream(arguments.pop("x"), **arguments)


def _range(moments):
    """An orthonormal basis of the directions that second moments are not zero in."""
    values, vectors = np.linalg.eigh(moments)
    return vectors[:, values > 1e-15 * values.size * values[-1]]


def _accumulate(table, key, value):
    table[key] = table[key] + value if key in table else np.array(value)


class _Grid:
    """Cells and series of all slices; lengths in bandwidths."""

    def __init__(self, code, h, middle, widths, tol):
        self.code = code
        self.h = h
        self.middle = middle
        self.widths = widths
        self.tol = tol
        counts, self.base = zip(*(_frequencies(code, width, tol) for width in widths), strict=True)
        self.counts = np.array(counts)
        self.ends = np.cumsum([0, *(2 * self.counts)])

    def layout(self):
        """Base frequency and number of frequencies of each slice."""
        return np.array(self.base), self.counts

    def rows(self, q):
        """Rows of the features of slice q: its cosines, then its sines."""
        return slice(self.ends[q], self.ends[q + 1])

    def _series(self, q, distance):
        return _coupling(self.code, self.widths[q], distance, self.tol)

    def couple(self, q, distance, values):
        """The coupling of slice q between cells so many apart (the first minus the second), times values of the second."""
        cos, sin = self._series(q, abs(distance))
        sin = math.copysign(1.0, distance) * sin
        count = cos.size
        even, odd = values[:count], values[count:]
        shape = (-1,) + (1,) * (values.ndim - 1)
        cos, sin = cos.reshape(shape), sin.reshape(shape)
        # cos(w (u - v)) and sin(w (u - v)) multiplied out.
        return np.concatenate([cos * even - sin * odd, cos * odd + sin * even])


@functools.lru_cache(maxsize=256)
def _frequencies(code, width, tol):
    """Number of frequencies that serve all distances between cells, and the lowest."""
    top = math.sqrt(2.0 * math.log(10.0 / tol)) if code == 0 else math.log(300.0 / tol)
    period = 2.0 * (width + _MARGINS[code])
    for _ in range(40):
        count = math.ceil(top * period / (2.0 * math.pi)) + 1
        if all(
            _fit(code, width, distance, tol, count, period) is not None for distance in (0, 1, 2)
        ):
            return count, 2.0 * math.pi / period
        top *= 1.05
    raise ValueError(
        f"`tol`={tol:g} is too small for a series of the kernel in double precision; raise it."
    )


@functools.lru_cache(maxsize=4096)
def _coupling(code, width, distance, tol):
    """Coefficients of the cosines and sines of ``k(D + t)``, ``|t| <= width``, D = `distance` cells."""
    count, base = _frequencies(code, width, tol)
    fitted = _fit(code, width, distance, tol, count, 2.0 * math.pi / base)
    if fitted is None:
        raise ValueError(
            f"`tol`={tol:g} is too small for a series of the kernel {distance} cells apart; raise it."
        )
    return fitted


@functools.lru_cache(maxsize=4096)
def _fit(code, width, distance, tol, count, period):
    """The series for cells so many apart, None when it is not good enough; far apart the RBF kernel is zero."""
    if (
        code == 0
        and distance > 1
        and (distance - 1) * width > math.sqrt(2.0 * math.log(100.0 / tol))
    ):
        return np.zeros(count), np.zeros(count)
    return fitted_series(code, width, distance * width, count, period, tol)
