"""All that touches Dask: many tasks on the workers of a client, and samples in a Dask array.

Dask is imported only when there is a client or a Dask array to use. Tasks run on one thread each,
since workers run several at the same time. Tasks depend on nothing but their arguments, so a task
of a worker that died gives the same result when it is started again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import accumulate
from typing import Any

from .._blas import one_blas_thread
from .._typing import Array
from .._validate import ArgumentError, ArgumentTypeError, check_score, score_is_array
from ..compute.threads import single_thread
from ..procedure.plan import Options
from ..report.directions import check_coordinates
from ..result import GofResult
from .accumulator import Accumulator
from .chunks import Chunk
from .family_accumulator import FamilyAccumulator
from .streaming import gof_stream

# Options of `gof_stream`, which are all options of `gof_test`.
STREAMED = (
    *("slices", "n_slices", "basis", "estimator", "score_q", "debias", "train"),
    *("kernel", "tol", "null", "n_resamples", "rng"),
)
_AHEAD = 3  # tasks handed out per thread of the workers
_RETRIES = 3
_PATIENCE = 10  # seconds in which a scheduler must answer
_FAN = 8  # accumulators merged at a time


class ClientLost(Exception):
    """A client that was closed, or has lost its scheduler, while there was work to do."""


def check_client(client: Any) -> Any:
    """`client` must be an open `dask.distributed.Client`."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "`client` needs Dask; install it with: pip install 'fastsksd[dask]'"
        ) from error
    if not isinstance(client, Client):
        raise ArgumentTypeError(
            "client", f"must be a dask.distributed.Client, not {type(client).__name__}"
        )
    if client.asynchronous:
        raise ArgumentError("client", "is asynchronous; make one with asynchronous=False")
    if client.status != "running":
        raise ArgumentError("client", f"is {client.status}; make a new dask.distributed.Client")
    return client


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """A client of the scheduler at an address; None without an address."""
    if address is None:
        yield None
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "a Dask scheduler can be reached with Dask only; install it with: "
            "pip install 'fastsksd[dask]'"
        ) from error
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClientLost(f"no Dask scheduler answers at {address!r}: {error}") from error
    with client:
        yield client


def finished(
    client: Any,
    function: Callable[[Any], Any],
    tasks: Iterable[Any],
    failed: Callable[[BaseException], Any],
) -> Generator[tuple[Any, Any], None, None]:
    """Yield pairs (task, function(task)) as they are done, in any order.

    Where there is no result, ``failed(error)`` takes its place. Tasks travel with their data
    through the scheduler, no more at a time than the workers need. The scheduler keeps them until
    they are done; data scattered among workers would be lost with them.
    """
    from distributed import as_completed

    token = uuid.uuid4().hex
    queue, done = enumerate(tasks), as_completed(loop=client.loop)
    running: dict[Any, Any] = {}

    def hand_out() -> None:
        if client.status != "running":
            raise ClientLost("the Dask client was closed, or has lost its scheduler")
        ahead = _AHEAD * max(4, sum(client.nthreads().values()))
        while len(running) < ahead and (item := next(queue, None)) is not None:
            key = f"fastsksd-{token}-{item[0]}"
            with warnings.catch_warnings():
                # Data travels with its task on purpose.
                warnings.filterwarnings("ignore", "Sending large graph")
                future = client.submit(_on_one_thread, function, item[1], key=key, retries=_RETRIES)
            running[future] = item[1]
            done.add(future)

    try:
        hand_out()
        for future in done:
            if future.status == "cancelled":
                raise ClientLost("the Dask client has lost its scheduler, or tasks were cancelled")
            # Its worker died before the result was fetched; it is computed again.
            if future.status == "lost":
                done.add(future)
                continue
            error = future.exception()
            result = future.result() if error is None else failed(error)
            yield running.pop(future), result
            hand_out()
    finally:
        if running and client.status == "running":
            client.cancel(list(running))


def _on_one_thread(function: Callable[[Any], Any], task: Any) -> Any:
    with single_thread(), one_blas_thread():
        return function(task)


class DaskRows:
    """Chunks of a Dask array in their order.

    They are added to accumulators where they lie, and these are merged as a tree.
    """

    def __init__(self, x: Any, score: Any) -> None:
        import dask.array as da

        if not isinstance(x, da.Array):
            raise ArgumentTypeError(
                "x",
                f"must be a Dask array, not a {type(x).__name__}; data frames have "
                "`.to_dask_array()`",
            )
        if x.ndim != 2:
            raise ArgumentError(
                "x", f"must be two-dimensional, (samples, dimensions); got {x.ndim} dimensions"
            )
        if x.numblocks[1] != 1:
            raise ArgumentError(
                "x",
                f"is split into {x.numblocks[1]} chunks along its columns; whole rows are "
                "needed: x.rechunk({1: -1})",
            )
        values = isinstance(score, da.Array)
        if values:
            score = _aligned(score, x)
        elif score is None or score_is_array(score):
            raise ArgumentTypeError(
                "score",
                "must be a callable, a model or a Dask array for a Dask array; got "
                f"{type(score).__name__}",
            )
        else:
            check_score(score)
        self._known = x.chunks[0]
        blocks = x.to_delayed().ravel()
        scores = score.to_delayed().ravel() if values else [_constant(score)] * len(blocks)
        self._left = [
            (number, *pair, 0) for number, pair in enumerate(zip(blocks, scores, strict=True))
        ]

    def head(self, count: int, keep: bool) -> list[Chunk]:
        """The first `count` rows as a list of chunks; `keep` leaves them in the array."""
        from dask import delayed

        taken: list[Chunk] = []
        left = list(self._left)
        while left and count > 0:
            number, x, score, skip = left.pop(0)
            size, front, values = delayed(_front)(x, score, count).compute()
            taken.append(Chunk(number, front, values))
            if size > count:
                left.insert(0, (number, x, score, skip + count))
            count -= min(size, count)
        if not keep:
            self._left = left
        return taken

    def draw_front(self, count: int, rng: Any) -> None:
        """Leave the rows in their order: others would have to be read twice."""

    def add_to(self, total: Any) -> Any:
        """Add all chunks to an accumulator, and return it."""
        from dask import delayed

        firsts = [0] * len(self._left)
        if isinstance(total, FamilyAccumulator):
            sizes = self._sizes()
            firsts = list(accumulate(sizes, initial=0))[:-1]
            total.expect(sum(sizes))
        empty = _constant(total.empty())
        parts = [
            delayed(_part)(empty, *block, first)
            for block, first in zip(self._left, firsts, strict=True)
        ]
        while len(parts) > 1:
            parts = [delayed(_merged)(parts[k : k + _FAN]) for k in range(0, len(parts), _FAN)]
        return total.merge(parts[0].compute()) if parts else total

    def _sizes(self) -> list[int]:
        """Number of rows of every chunk; they are counted where Dask does not know them."""
        from dask import compute, delayed

        if not any(math.isnan(size) for size in self._known):
            return [int(size) for size in self._known]
        return list(compute(*(delayed(len)(x) for _, x, _, _ in self._left)))


def _aligned(score: Any, x: Any) -> Any:
    """Scores with the chunks of the samples."""
    if any(math.isnan(size) for array in (score, x) for size in array.shape):
        if score.numblocks != x.numblocks:
            raise ArgumentError(
                "score",
                f"must have the chunks of the samples, {x.numblocks}; got "
                f"{score.numblocks}. Their sizes are not known: call `.compute_chunk_sizes()` "
                "first",
            )
        return score
    if score.shape != x.shape:
        raise ArgumentError(
            "score", f"must have the shape of the samples, {x.shape}; got {score.shape}"
        )
    return score.rechunk(x.chunks)


def _constant(value: Any) -> Any:
    """A value that is sent to each worker once."""
    from dask import delayed

    return delayed(value, traverse=False, name=f"fastsksd-{uuid.uuid4().hex}")


def _front(x: Array, score: Any, count: int) -> tuple[int, Array, Any]:
    """Number of rows, and the first of them with their scores."""
    return x.shape[0], x[:count], score[:count] if score_is_array(score) else score


def _part(empty: Any, number: int, x: Array, score: Any, skip: int, first: int) -> Any:
    with single_thread():
        chunk = Chunk(number, x, score, empty.d).rows(skip, None)
        part = empty.empty() if isinstance(empty, Accumulator) else empty.empty(first)
        with chunk.named():
            return part.add(chunk.x, chunk.score)


def _merged(parts: list[Any]) -> Any:
    total = parts[0].empty()
    for part in parts:
        total.merge(part)
    return total


def gof_test_of_dask(x: Any, score: Any, options: Options) -> GofResult:
    """`gof_test` of a Dask array: what applies goes to `gof_stream`, anything else is an error."""
    allowed: dict[str, tuple[str, ...]] = {"engine": ("auto", "fourier"), "method": ("sksd",)}
    if options.slices is not None or options.n_slices is not None or options.basis is not None:
        allowed["null"] = ("spectral",)
    for name, choices in allowed.items():
        value = getattr(options, name)
        if not isinstance(value, str) or value not in choices:
            listing = " or ".join(map(repr, choices))
            raise ArgumentError(
                name, f"must be {listing} for samples that are not in memory; got {value!r}"
            )
    options.refuse_unused({*STREAMED, *allowed}, "does not apply to samples that are not in memory")
    names = None if options.names is None else check_coordinates(options.names, x.shape[-1])
    result = gof_stream(x, score, **{name: getattr(options, name) for name in STREAMED})
    return result if names is None else dataclasses.replace(result, names=names)
