"""`gof_stream`: a test of more samples than memory holds, in one pass over them.

The first rows give what must be known beforehand: slices, range and bandwidths. Then chunk after
chunk is added to an `Accumulator`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from .._typing import Array, ArrayLike, KernelLike, Rng, Score, SlicesLike
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
from ..engines.fourier import TOLERANCE
from ..procedure.plan import NOTHING_TO_CHOOSE, Options, check_debias
from ..result import GofResult
from ..score_difference import ESTIMATORS, needs_function
from ..slices import active_slices, check_basis
from .accumulator import Accumulator
from .chunks import Chunk, Rows

LEARNING = 5000  # rows at the front of a stream that give range and bandwidths
TRAINING = 2000  # rows that slices are found on


class _Source(Protocol):
    """Samples in chunks, here or on a cluster."""

    def head(self, count: int, keep: bool) -> list[Chunk]: ...

    def add_to(self, total: Accumulator) -> Accumulator: ...


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
    n_resamples: int = 1000,
    rng: Rng = None,
) -> GofResult:
    """Test samples that need not fit into memory: a stream, or an array on disk or on a cluster.

    The samples are read once.

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
            Split along its rows only. Every chunk becomes an `Accumulator` where it lies, and these
            are merged.
    score : callable, model or array-like, optional
        Score of the model, evaluated chunk by chunk; or its values, (n, d), in an array of the same
        sort as `chunks`. Left out if `chunks` yields pairs.
    slices : Slices or pair (r, g), optional
        Directions chosen beforehand. The first 5000 rows then give the range and the median
        bandwidths; they are tested too.
    n_slices : int, optional
        Without `slices`, how many are found; see `active_slices`. By default the top 3 active
        directions are found.
    basis : "identity" or (m, d) array, optional
        Fixed directions r, for which g are found; see `active_slices`.
    estimator : {"ke", "ksd", "ge", "exact"}
        Estimate of the score difference; see `active_slices`.
    score_q : (n_train, d) array, callable or model, optional
        Score of q, for the estimator "exact".
    debias : bool
        Whether the estimation noise of "ke" is left out.
    train : int or (n_train, d) array, optional
        Without `slices`, what they are found on. Range and median bandwidths come from these
        samples too.

        int
            So many rows at the front of the stream, which are not tested; by default 2000.
        array
            Separate samples; `score` must then be a function or a model.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel of the statistic.
    tol : float
        Largest error of a Stein term, relative to its size, as for the Fourier engine.
    n_resamples : int
        Number of draws of the limit distribution, to look at.
    rng : None, int or numpy.random.Generator
        Source of these draws; nothing else is random.

    Returns
    -------
    GofResult
        As of ``gof_test(..., null="spectral")``. The limit distribution is for independent samples.

    Raises
    ------
    ValueError, TypeError
        For bad input. The message names the argument, or the number of the chunk.

    See Also
    --------
    gof_test : Samples in memory.
    Accumulator : The sums, for chunks that arrive one by one.

    Notes
    -----
    The first rows give the range and the bandwidths. If later samples lie elsewhere, this costs
    time but no accuracy. With any bandwidth the test is valid, but not equally powerful. So give
    one (``kernel=RBF(1.0)``), or shuffle, if the first rows are unlike the others. The result does
    not depend on how rows are grouped into chunks, up to rounding.

    If there is an error half-way, what was added is lost with the call.
    ``Accumulator(slices, first).extend(chunks, score)`` keeps it.

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
    if slices is not None:
        options = Options(
            n_slices=n_slices,
            basis=basis,
            estimator=estimator,
            score_q=score_q,
            debias=debias,
            train=train,
        )
        options.refuse_unused((), *NOTHING_TO_CHOOSE)
    check_choice("estimator", estimator, ESTIMATORS)
    check_debias(debias, estimator)
    source = _source_of(chunks, score)
    n_train = 0
    if slices is not None:
        known = _samples_of(source.head(LEARNING, keep=True))
        if known.shape[0] < 2:
            raise ArgumentError("chunks", f"must hold at least 2 samples; got {known.shape[0]}")
    else:
        known, values = _training_samples(source, score, train)
        n_train, d = known.shape
        check_basis(basis, n_slices, d)
        if n_slices is None and basis is None:
            n_slices = min(3, d)
        slices = active_slices(
            known,
            values if score is None or not needs_function(estimator) else score,
            n_slices=n_slices,
            basis=basis,
            estimator=estimator,
            score_q=score_q,
            debias=debias,
        )
    searched = time.perf_counter()
    total = source.add_to(Accumulator(slices, known, kernel=kernel, tol=tol))
    if total.n < 2:
        raise ArgumentError(
            "chunks",
            f"leaves {counted(total.n, 'sample')} to test after ",
            Option("train", n_train),
            " to find slices; at least 2 are needed",
            remedy=("Lower ", Option("train"), " or give ", Option("slices"), "."),
        )
    result = total.result(n_resamples=n_resamples, rng=rng)
    end = time.perf_counter()
    timings = {"slices": searched - start, "statistic": end - searched, "total": end - start}
    return replace(result, n_train=n_train, timings=timings)


def _training_samples(
    source: _Source, score: Score | None, train: int | ArrayLike | None
) -> tuple[Array, Array]:
    """Samples that slices are found on, and their scores."""
    if train is not None and np.ndim(train) > 0:
        if score is None or score_is_array(score):
            raise ArgumentError(
                "score",
                "must be a callable or a model when ",
                Option("train"),
                " holds separate samples",
            )
        x = check_samples(train, "train", min_rows=3)
        return x, evaluate_score(score, x)
    if isinstance(train, float):
        raise ArgumentTypeError(
            "train",
            f"must be a number of rows or an array of samples, not a fraction; got {train!r}",
        )
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
    return x, np.concatenate([chunk.scores() for chunk in chunks if chunk.x.size])


def _samples_of(chunks: Sequence[Chunk]) -> Array:
    """The samples of all chunks."""
    return np.concatenate(
        [np.empty((0, chunks[0].x.shape[1] if chunks else 1)), *(chunk.x for chunk in chunks)]
    )


def _source_of(chunks: Any, score: Score | None) -> _Source:
    """The chunks: those of a Dask array are read where they lie, any others here."""
    if is_dask(chunks):
        from .cluster import DaskRows

        return DaskRows(chunks, score)
    return Rows(chunks, score)
