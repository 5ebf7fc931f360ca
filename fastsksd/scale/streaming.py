"""`gof_stream`: a test of more samples than memory holds, in one pass over them.

The first rows are read for what must be known beforehand: slices, range and bandwidths. Then chunk
after chunk is added to an `Accumulator`.
"""

import time
from dataclasses import replace

import numpy as np

from .._validate import (
    check_choice,
    check_integer,
    check_rng,
    check_samples,
    evaluate_score,
    is_dask,
    score_is_array,
)
from ..engines.fourier import TOLERANCE
from ..procedure.plan import Options
from ..score_difference import ESTIMATORS, needs_function
from ..slices import active_slices, check_basis
from .accumulator import Accumulator
from .chunks import Rows

LEARNING = 5000  # rows at the front of a stream that range and bandwidths are learnt from
TRAINING = 2000  # rows that slices are found on


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
    if slices is not None:
        options = Options(
            n_slices=n_slices,
            basis=basis,
            estimator=estimator,
            score_q=score_q,
            debias=debias,
            train=train,
        )
        options.refuse_unused(
            set(), "`slices` are given, so `{name}` has nothing to choose; leave it out."
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
        if needs_function(estimator) and score is not None:
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


def _source_of(chunks, score):
    """What is read: a Dask array where it lies, anything else here."""
    if is_dask(chunks):
        from .cluster import DaskRows

        return DaskRows(chunks, score)
    return Rows(chunks, score)
