"""`gof_stream`: a test of more samples than memory holds, in one pass over them.

The first rows give what must be known beforehand: slices, metrics, ranges and bandwidths. Then
chunk after chunk is added to a `FamilyAccumulator` or, for one set of slices, to an `Accumulator`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from .._doors import door
from .._typing import Array, ArrayLike, KernelLike, Null, Rng, Score, SlicesLike
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_choice,
    check_integer,
    check_rng,
    check_samples,
    counted,
    evaluate_score,
    is_dask,
    score_is_array,
)
from ..engines.kernel_series import TOLERANCE
from ..gof import gof_test
from ..kernels import FlatProjection
from ..procedure.nulls import NULLS, check_resamples
from ..procedure.plan import GROUPS, NOTHING_TO_CHOOSE, Options
from ..result import GofResult
from ..score_difference import ESTIMATORS, check_debias, needs_function
from ..slices import active_slices, check_basis
from .accumulator import Accumulator
from .chunks import Chunk, Rows, rows_named
from .family_accumulator import FamilyAccumulator

LEARNING = 5000  # rows at the front of a stream that give range and bandwidths
TRAINING = 2000  # rows that one set of slices is found on
HEAD = 5000  # rows that fix the family
HEAD_OF_CHAINS = 10_000  # the same, for chains, whose memory is measured on them
SHORT = 20_000  # rows up to which the family is tested in memory


class _Source(Protocol):
    """Samples in chunks, here or on a cluster."""

    def head(self, count: int, keep: bool) -> list[Chunk]: ...

    def draw_front(self, count: int, rng: np.random.Generator) -> None: ...

    def add_to(self, total: Any) -> Any: ...


@door
def gof_stream(
    chunks: Any,
    score: Score | None = None,
    *,
    slices: SlicesLike | None = None,
    n_slices: int | None = None,
    basis: str | ArrayLike | None = None,
    estimator: str = "ke",
    score_q: Score | None = None,
    debias: bool = True,
    train: int | ArrayLike | None = None,
    kernel: KernelLike = "rbf",
    tol: float = TOLERANCE,
    null: Null | None = None,
    chains: bool = False,
    n_resamples: int = 1000,
    rng: Rng = None,
) -> GofResult:
    """Test samples that need not fit into memory: a stream, or an array on disk or on a cluster.

    With no option but `rng` this is the aggregated test of `gof_test`. The samples are read once.

    Parameters
    ----------
    chunks : iterable, or array-like of shape (n, d)
        One of three. Empty chunks are skipped.

        iterable
            A generator, say, of arrays (n_k, d), or of pairs (x, scores) of such arrays.
        array-like
            An array with a `.shape` that can be sliced (a memory map, Zarr, HDF5). It is read in
            blocks of rows of about 32 MB.
        Dask array
            Split along its rows only. Every chunk becomes an accumulator where it lies, and these
            are merged.
    score : callable, model or array-like, optional
        Score of the model, evaluated chunk by chunk; or its values, (n, d), in an array of the same
        sort as `chunks`. Left out if `chunks` yields pairs.
    slices : Slices or pair (r, g), optional
        Directions chosen beforehand. The first 5000 rows then give the range and the median
        bandwidths; they are tested too.
    n_slices : int, optional
        Test along so many active directions, which are found on the first rows. Without `slices`,
        `n_slices` and `basis` the standard family is tested; with null="spectral" the top 3 active
        directions.
    basis : "identity" or (m, d) array, optional
        Fixed directions r, for which g are found; see `active_slices`.
    estimator : {"ke", "ksd", "ge", "exact"}
        Estimate of the score difference; see `active_slices`.
    score_q : (n_train, d) array, callable or model, optional
        Score of q, for the estimator "exact".
    debias : bool
        Whether the estimation noise of "ke" is left out.
    train : int or (n_train, d) array, optional
        Without `slices`, what they are found on. Ranges, median bandwidths and the metrics of the
        family come from these samples too.

        int
            So many rows at the front of the stream. Slices found on them are not tested there. By
            default 5000 for the family, and 2000 for one set.
        array
            Separate samples; `score` must then be a function or a model.
    kernel : {"rbf", "imq"} or kernel object
        Kernel of the statistic.
    tol : float
        Largest error of a Stein term along slices, relative to its size, as for the Fourier engine.
    null : {"wild", "bootstrap", "spectral"}, optional
        How the null distribution is found, see `gof_test`. For the family "wild", the default, or
        "bootstrap"; for one set of slices "spectral", the limit distribution.
    chains : bool
        Whether the rows are the draws of one Markov chain in their order. Draws of several chains
        are chunks, or an array, of shape (chains, draws, d); a chunk has the next draws of every
        chain. For the family alone.
    n_resamples : int
        Number of replicates, or of draws of the limit distribution to look at.
    rng : None, int or numpy.random.Generator
        All randomness.

    Returns
    -------
    GofResult
        As of `gof_test`. It holds no samples, unless the stream was short.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument, or the number of the chunk.

    See Also
    --------
    gof_test : Samples in memory.
    FamilyAccumulator : The sums, for chunks that arrive one by one.
    Accumulator : The same for one set of slices.

    Notes
    -----
    A stream of at most 20,000 rows is tested by `gof_test`, in memory. Of a longer one the first
    5000 rows fix the family; of a NumPy array or a memory map, 5000 rows drawn at random, which
    come first then. Members whose choice depended on them (active slices, the metric "full") are
    tested on the other rows, all others on all rows. The result is that of
    ``gof_test(x, score, train=5000)`` for rows in this order.

    There is no `precondition`: the family has its members in the metrics "diagonal" and "full", and
    one set of slices is tested in the units of the samples. To test in other coordinates, map the
    chunks and their scores.

    Replicates meet 1000 to 2000 groups of consecutive rows, see `FamilyAccumulator`. The first
    10,000 draws of chains tell how long they remember, and groups are at least 20 times as long.
    With fewer than 16 groups the verdict is "too short to tell".

    If independent rows are sorted or have a trend, the test of a NumPy array or a memory map is
    conservative. Rows of other sources must be shuffled first: those that are unlike the first ones
    do not follow the model without them, and are rejected.

    Later rows may lie outside of the range of the first. For the family the kernel fades there,
    along slices; for one set they cost time, but no accuracy. With any bandwidth and range the test
    is valid, but not equally powerful.

    The result does not depend on how rows are grouped into chunks, up to rounding. If there is an
    error half-way, what was added is lost with the call. An accumulator that you hold yourself
    keeps it: ``FamilyAccumulator(first, score).extend(chunks, score)``, or
    ``Accumulator(slices, first).extend(chunks, score)``.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> rng = np.random.default_rng(0)
    >>> stream = (rng.standard_normal((1000, 3)) * [1.0, 0.95, 1.0] for _ in range(25))
    >>> result = fs.gof_stream(stream, lambda x: -x, rng=0)
    >>> result.n_train, result.n_test, result.reject()
    (5000, 20000, True)
    """
    given = slices is not None or n_slices is not None or basis is not None
    check_choice("null", null or "wild", NULLS)
    if given and null not in (None, "spectral"):
        raise ArgumentError(
            "null",
            f"must be 'spectral' for one set of slices of a stream; got {null!r}",
            remedy=(
                "Leave out ",
                Option("slices"),
                ", ",
                Option("n_slices"),
                " and ",
                Option("basis"),
                " to test the family.",
            ),
        )
    check_resamples(n_resamples)
    options = Options(
        slices=slices,
        n_slices=n_slices,
        basis=basis,
        estimator=estimator,
        score_q=score_q,
        debias=debias,
        train=train,
        kernel=kernel,
        tol=tol,
        null=null,
        n_resamples=n_resamples,
        rng=check_rng(rng),
    )
    check_choice("estimator", estimator, ESTIMATORS)
    check_debias(debias, estimator)
    if isinstance(train, float):
        raise ArgumentTypeError(
            "train",
            f"must be a number of rows or an array of samples, not a fraction; got {train!r}",
        )
    if not isinstance(chains, (bool, np.bool_)):
        raise ArgumentTypeError(
            "chains",
            "must be True or False; several chains are chunks of shape (chains, draws, d); got "
            f"{chains!r}",
        )
    source = _source_of(chunks, score, bool(chains))
    if given or null == "spectral":
        if _number_of_chains(source) is not None:
            raise ArgumentError(
                "chunks",
                "holds draws of chains, which are tested by the family alone; one set of slices is "
                "for independent samples",
            )
        return _test_of_one_set(source, score, options)
    return _test_of_family(source, score, options)


def _test_of_family(source: _Source, score: Score | None, options: Options) -> GofResult:
    start = time.perf_counter()
    train = options.train
    separate = train is not None and np.ndim(train) > 0
    chains = _number_of_chains(source)
    count = HEAD if chains is None else HEAD_OF_CHAINS
    if separate and chains is not None:
        raise ArgumentError("train", "must be a number of draws, for chains")
    if not separate and train is not None:
        count = check_integer("train", train, 3)
    # Rows are draws of every chain.
    count, look = (-(-rows // (chains or 1)) for rows in (count, max(SHORT, 2 * count)))
    front = source.head(look + 1, keep=True)
    x = _samples_of(front)
    search: Any = dict(estimator=options.estimator, score_q=options.score_q, debias=options.debias)
    same: Any = dict(kernel=options.kernel, tol=options.tol)
    if x.shape[-2] <= look:
        return _test_in_memory(front, x, score, options)
    null = options.null or "wild"
    check_resamples(options.n_resamples, groups=GROUPS, null=null)
    model: Any = score
    if separate:
        first = _separate_samples(score, train)[0]
    else:
        source.draw_front(count, check_rng(options.rng))
        front = source.head(count, keep=True)
        first = _samples_of(front)
        if score is None or score_is_array(score):
            model = _scores_of(front)
    del x
    try:
        with rows_named([] if separate else front):
            total = FamilyAccumulator(
                first, model, separate=separate, **search, **same, rng=options.rng
            )
    except FlatProjection as error:
        raise error.about("train" if separate else "chunks") from error
    except ArgumentError as error:
        if chains is None or error.argument != "first":
            raise
        raise ArgumentError(
            "chunks",
            *error.parts,
            remedy=(str(error.remedy), " Raise ", Option("train"), ", which counts all chains."),
        ) from None
    searched = time.perf_counter()
    del front
    total = source.add_to(total)
    replicates: Any = dict(null=null, n_resamples=options.n_resamples)
    result = total.result(**replicates, rng=options.rng)
    return _timed(result, start, searched)


def _number_of_chains(source: _Source) -> int | None:
    """Number of chains; None for independent samples, as those of a Dask array."""
    if not isinstance(source, Rows):
        return None
    first = source.head(1, keep=True)
    return len(first[0].x) if first and first[0].x.ndim == 3 else None


def _test_in_memory(
    front: Sequence[Chunk], x: Array, score: Score | None, options: Options
) -> GofResult:
    """The test of a short stream."""
    if x.shape[-2] < 2:
        raise ArgumentError("chunks", f"must hold at least 2 samples; got {x.shape[-2]}")
    values: Any = _scores_of(front)  # so that an error names its chunk
    if score is not None and not score_is_array(score):
        values = score
    given = {name: getattr(options, name) for name in options.given()}
    return gof_test(x, values, **given)


def _test_of_one_set(source: _Source, score: Score | None, options: Options) -> GofResult:
    start = time.perf_counter()
    slices, n_slices, basis = options.slices, options.n_slices, options.basis
    if slices is not None:
        used = ("slices", "kernel", "tol", "null", "n_resamples", "rng")
        options.refuse_unused(used, *NOTHING_TO_CHOOSE)
    n_train = 0
    if slices is not None:
        known = _samples_of(source.head(LEARNING, keep=True))
        if known.shape[0] < 2:
            raise ArgumentError("chunks", f"must hold at least 2 samples; got {known.shape[0]}")
    else:
        known, values = _training_samples(source, score, options.train)
        n_train, d = known.shape
        check_basis(basis, n_slices, d)
        if n_slices is None and basis is None:
            n_slices = min(3, d)
        slices = active_slices(
            known,
            values if score is None or not needs_function(options.estimator) else score,
            n_slices=n_slices,
            basis=basis,
            estimator=options.estimator,
            score_q=options.score_q,
            debias=options.debias,
        )
    searched = time.perf_counter()
    try:
        total = Accumulator(slices, known, kernel=options.kernel, tol=options.tol)
    except FlatProjection as error:
        raise error.about("chunks") from error
    total = source.add_to(total.insisting())
    if total.n < 2:
        raise ArgumentError(
            "chunks",
            f"leaves {counted(total.n, 'sample')} to test after ",
            Option("train", n_train),
            " to find slices; at least 2 are needed",
            remedy=("Lower ", Option("train"), " or give ", Option("slices"), "."),
        )
    result = total.result(n_resamples=options.n_resamples, rng=options.rng)
    return _timed(replace(result, n_train=n_train), start, searched)


def _timed(result: GofResult, start: float, searched: float) -> GofResult:
    end = time.perf_counter()
    timings = {"slices": searched - start, "statistic": end - searched, "total": end - start}
    return replace(result, timings=timings)


def _separate_samples(score: Score | None, train: Any) -> tuple[Array, Array]:
    """Separate samples that slices are found on, and their scores."""
    if score is None or score_is_array(score):
        raise ArgumentError(
            "score",
            "must be a callable or a model when ",
            Option("train"),
            " holds separate samples",
        )
    x = check_samples(train, "train", min_rows=3)
    return x, evaluate_score(score, x)


def _training_samples(
    source: _Source, score: Score | None, train: int | ArrayLike | None
) -> tuple[Array, Array]:
    """Samples that slices are found on, and their scores."""
    if train is not None and np.ndim(train) > 0:
        return _separate_samples(score, train)
    count = TRAINING if train is None else check_integer("train", train, 3)
    chunks = source.head(count, keep=False)
    x = _samples_of(chunks)
    if x.shape[0] < 3:
        raise ArgumentError(
            "chunks",
            "must hold more samples than ",
            Option("train", count),
            f", which find slices; got {x.shape[0]}",
        )
    return x, _scores_of(chunks)


def _scores_of(chunks: Sequence[Chunk]) -> Array:
    """The scores at the samples of all chunks."""
    return np.concatenate([chunk.scores() for chunk in chunks if chunk.x.size], axis=-2)


def _samples_of(chunks: Sequence[Chunk]) -> Array:
    """The samples of all chunks."""
    if not chunks:
        return np.empty((0, 1))
    return np.concatenate([chunk.x for chunk in chunks], axis=-2)


def _source_of(chunks: Any, score: Score | None, chain: bool) -> _Source:
    """The chunks: those of a Dask array are read where they lie, any others here."""
    if not is_dask(chunks):
        return Rows(chunks, score, chain=chain)
    if chain:
        raise ArgumentError(
            "chains", "has no use for a Dask array; give chunks of (chains, draws, d)"
        )
    from .cluster import DaskRows

    return DaskRows(chunks, score)
