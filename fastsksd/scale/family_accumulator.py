"""Sums for the default test of samples that arrive in chunks: they add, merge, and yield a result.

The first rows, the head, fix the family: metrics, active slices, bandwidths, ranges, frequencies.
Of all samples only sums of features over groups are kept, see `fastsksd.procedure.feature_sums`.
The result is that of `gof_test` in memory for the same head and the same order of the rows.

Later samples may lie outside of the range of the head. Along slices the kernel fades there: it is
``w(y) k(y - y') w(y')`` with w = 1 on the range and w = 0 beyond. Stein's identity holds for this
kernel too, so the test stays valid. Kernels of the whole vector and moments hold for any range.
"""

from __future__ import annotations

import copy
import time
import uuid
from typing import Any

import numpy as np

from .._doors import door, interruptible
from .._typing import Array, ArrayLike, KernelLike, Rng, Score
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    check_choice,
    check_integer,
    check_score,
    counted,
)
from ..engines.kernel_series import TOLERANCE, SeriesTooLong
from ..kernels import FlatProjection, constant_columns
from ..procedure import grouped
from ..procedure.chains import check_draws, evaluate_draws
from ..procedure.combine import decide
from ..procedure.evaluation import Outcome
from ..procedure.feature_sums import FeatureSums, Groups, group_size, group_weights
from ..procedure.lags import FEWEST
from ..procedure.nulls import check_resamples
from ..procedure.plan import Options, Plan, make_plan, most_members
from ..procedure.search import search
from ..procedure.split import Samples, Split, fixed_part, trained_part
from ..result import GofResult
from .chain_rows import chain_rows
from .chunks import Rows

NULLS = ("wild", "bootstrap")
_MOST_SUMS = 2**26  # numbers in memory, where that leaves at least `_FEWEST_GROUPS` groups
_FEWEST_GROUPS = 500
_FEWEST = 1000  # samples to test: with fewer, moments need what groups can't give


class FamilyAccumulator:
    """Sums over samples that arrive in chunks, for the default test.

    Memory does not grow with the number of samples. In 20 dimensions it is at most 150 MB.

    Parameters
    ----------
    first : (n, d) or (chains, draws, d) array
        Samples that fix the family: metrics, active slices, bandwidths, ranges. By default they are
        the first rows of the samples. Add them too: members that were fixed beforehand are tested
        on all rows, the others on those that follow. With three axes they are the first draws of
        Markov chains, which also tell how long the chains remember.
    score : array of the shape of `first`, callable or model
        Score of the model at these samples.
    separate : bool
        Whether `first` are other samples than those that are tested.
    estimator : {"ke", "ksd", "ge", "exact"}
        Estimate of the score difference, for active slices; see `active_slices`.
    score_q : callable or model, optional
        Score of the samples' own distribution, for the estimator "exact".
    debias : bool
        Whether the estimation noise of "ke" is left out.
    kernel : {"rbf", "imq"} or kernel object
        Kernel of the statistic.
    tol : float
        Largest error of a Stein term along slices, relative to its size.
    rng : None, int or numpy.random.Generator
        Source of the frequencies of kernels of the whole vector.

    Attributes
    ----------
    n : int
        Number of samples added. Of chains with a memory about one in twenty is left out.
    row : int
        Number of the row that is added next, or of the draw of every chain.
    d : int
        Number of columns.

    See Also
    --------
    gof_stream : The test of a stream in one call.
    Accumulator : The same for one set of slices, with the limit distribution.

    Notes
    -----
    Samples are numbered in the order in which they are added. Between 1000 and 2000 groups of
    consecutive rows share the signs of the wild bootstrap; fewer in more than 100 dimensions.
    Groups of draws of a chain are at least 20 autocorrelation times long, with gaps between them.
    Rows that are sorted or have a trend must be shuffled first: those that are unlike the first
    ones do not follow the model without them, and are rejected.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((12_000, 2)) * [1.0, 0.9]
    >>> total = fs.FamilyAccumulator(x[:2000], np.negative, rng=0)
    >>> other = total.empty(8000).add(x[8000:], np.negative)  # on another machine, say
    >>> _ = total.add(x[:3000], np.negative).add(x[3000:8000], np.negative)
    >>> result = total.merge(other).result(rng=0)
    >>> result.n_train, result.n_test, result.reject()
    (2000, 10000, True)
    """

    @door
    def __init__(
        self,
        first: ArrayLike,
        score: Score,
        *,
        separate: bool = False,
        estimator: str = "ke",
        score_q: Score | None = None,
        debias: bool = True,
        kernel: KernelLike = "rbf",
        tol: float = TOLERANCE,
        rng: Rng = None,
    ) -> None:
        known = check_draws(first, "first", min_rows=3)
        scores = evaluate_draws(check_score(score), known)
        self.d = known.shape[-1]
        self._chains = chain_rows(known, scores, separate) if known.ndim == 3 else None
        if self._chains is not None:
            # The head as it will be added.
            pieces = list(self._chains._replace(head=known.shape[1]).pieces(0, known, scores))
            known, scores = (np.concatenate([piece[k] for piece in pieces]) for k in (1, 2))
        head = Samples(known, scores, np.arange(len(known)))
        self._options: dict[str, Any] = dict(kernel=kernel, tol=tol)
        found: dict[str, Any] = dict(estimator=estimator, score_q=score_q, debias=debias)
        plan = self._plan(rng=rng, **found)
        try:
            split = search(plan, _split(plan, head, score, separate))
            self._family = grouped.fix_family(plan, split.parts, grouped.Head(head, separate))
        except SeriesTooLong:
            raise ArgumentError(
                "kernel",
                "has a bandwidth so small, beside the range of the samples, that its Fourier "
                "series is too long",
                remedy="Take a larger one.",
            ) from None
        except FlatProjection as error:
            raise constant_columns([known], None, "first") or error.about("first") from error
        self.n_train = 0 if plan.search is None else len(known)
        self._active = split.active
        starts = {0, *(one.start for one in self._family.components)}
        groups = Groups(tuple(sorted(starts)), 1)
        if self._chains is not None and self._chains.dependent:
            groups = groups._replace(size=self._chains.length, dependent=True)
        self._sums = FeatureSums(self._family.components, groups)
        self._most = int(np.clip(_MOST_SUMS // self._sums.size, _FEWEST_GROUPS, grouped.GROUPS))
        self.row = 0
        self._rows: list[tuple[int, int]] = []  # that were added
        self._torn = False
        self._token = uuid.uuid4().hex  # of the family

    def _plan(self, **options: Any) -> Plan:
        return make_plan(Options(**self._options, **options), None, 1000, self.d)

    @property
    def n(self) -> int:
        """Number of samples added."""
        return sum(stop - start for start, stop in self._rows)

    def empty(self, row: int = 0) -> FamilyAccumulator:
        """Make an accumulator of the same family without samples, to be filled and merged.

        Parameters
        ----------
        row : int
            Number of the row, or of the draw of every chain, that will be added first.

        Returns
        -------
        FamilyAccumulator
            Which holds no samples.
        """
        other = object.__new__(FamilyAccumulator)
        other.__dict__.update(self.__dict__)
        other._sums = self._sums.empty()
        other.row = check_integer("row", row, 0)
        other._rows, other._torn = [], False
        return other

    def expect(self, n: int) -> FamilyAccumulator:
        """Take groups as large as n samples need, so that less memory is used on the way.

        Parameters
        ----------
        n : int
            Number of samples that there will be, at least.

        Returns
        -------
        FamilyAccumulator
            This one.
        """
        self._enlarge(group_size(check_integer("n", n, 0), self._most))
        return self

    @door
    def add(self, x: ArrayLike, score: Score) -> FamilyAccumulator:
        """Add samples, as the rows from `row` on.

        All of them count, or none if there is an error.

        Parameters
        ----------
        x : (n, d) or (chains, draws, d) array
            Samples, or the next draws of every chain.
        score : array of the shape of `x`, callable or model
            Score of the model: its values at `x`, a function, or an object with `.score`.

        Returns
        -------
        FamilyAccumulator
            This one.
        """
        samples = check_draws(x, "x", d=self.d)
        check_score(score)
        if samples.size == 0:
            return self
        pieces, count, last = self._numbered(samples, evaluate_draws(score, samples))
        rows = [(row, row + len(y)) for row, y, _ in pieces]
        self._check_apart(rows, "x", "the row that is added next")
        # Computed apart, and added when it is complete.
        part = self.empty(self.row).expect(last)
        for row, y, s in pieces:
            part._sums.add(Samples(y, s, np.arange(len(y))), row)
        part._rows = _joined(rows)
        if pieces:
            self._absorb(part)
        self.row += count
        return self

    def _numbered(self, x: Array, scores: Array) -> tuple[list[tuple[int, Array, Array]], int, int]:
        """Pieces of consecutive rows, the number of rows or draws, and that of all up to them."""
        chains = self._chains
        if chains is None:
            if x.ndim != 2:
                raise ArgumentError(
                    "x", f"must have rows of independent samples, (n, d); got shape {x.shape}"
                )
            return [(self.row, x, scores)], len(x), self.row + len(x)
        if x.ndim != 3 or x.shape[0] != chains.chains:
            raise ArgumentError(
                "x",
                f"must have the next draws of every chain, ({chains.chains}, draws, {self.d}); "
                f"got shape {x.shape}",
            )
        count = x.shape[1]
        pieces = list(chains.pieces(self.row, x, scores))
        return pieces, count, chains.chains * chains.used(self.row + count)

    @interruptible
    def extend(self, chunks: Any, score: Score | None = None) -> FamilyAccumulator:
        """Add all chunks of a stream, or of an array that is read in blocks of rows.

        After a bad chunk the chunks before it have been added. `row` says where to go on.

        Parameters
        ----------
        chunks : iterable, or array-like of shape (n, d)
            As for `gof_stream`, but not a Dask array.
        score : callable, model or array-like, optional
            As for `gof_stream`.

        Returns
        -------
        FamilyAccumulator
            This one.
        """
        return Rows(chunks, score).add_to(self)

    @interruptible
    def merge(self, other: FamilyAccumulator) -> FamilyAccumulator:
        """Add the sums of another accumulator, of other rows.

        Parameters
        ----------
        other : FamilyAccumulator
            Of the same family; see `empty`.

        Returns
        -------
        FamilyAccumulator
            This one.
        """
        if not isinstance(other, FamilyAccumulator):
            raise ArgumentTypeError(
                "other", f"must be a FamilyAccumulator, not {type(other).__name__}"
            )
        if other._token != self._token:
            raise ArgumentError(
                "other",
                "has another family; make it by `empty()` of this accumulator, or of a common one",
            )
        self._check_apart(other._rows, "other", "which `empty(row)` numbers")
        self._absorb(other)
        self.row = max(self.row, other.row)
        return self

    def _check_apart(self, rows: list[tuple[int, int]], name: str, hint: str) -> None:
        """No row counts twice."""
        for start, stop in rows:
            for low, high in self._rows:
                if start < high and low < stop:
                    raise ArgumentError(
                        name,
                        f"has rows {max(start, low)} to {min(stop, high) - 1}, which were added "
                        f"before; rows have numbers, {hint}",
                    )

    def _enlarge(self, size: int) -> None:
        while self._sums.group_size < size:
            self._sums.double()

    def _absorb(self, other: FamilyAccumulator) -> None:
        self._check_whole()
        other._check_whole()
        self._torn = True
        self._enlarge(other._sums.group_size)
        if other._sums.group_size < self._sums.group_size:
            other = copy.copy(other)
            other._sums = copy.copy(other._sums)  # whose arrays `double` does not change
            other._enlarge(self._sums.group_size)
        self._sums.merge(other._sums)
        self._rows = _joined([*self._rows, *other._rows])
        self._torn = False

    def _check_whole(self) -> None:
        if self._torn:
            raise ValueError(
                "the accumulator was interrupted while sums were added; go on from a copy."
            )

    @interruptible
    def result(self, *, null: str = "wild", n_resamples: int = 1000, rng: Rng = None) -> GofResult:
        """Test all samples so far.

        Parameters
        ----------
        null : {"wild", "bootstrap"}
            How the null distribution is found, see `gof_test`.
        n_resamples : int
            Number of replicates.
        rng : None, int or numpy.random.Generator
            Source of their weights.

        Returns
        -------
        GofResult
            As of `gof_test`, but without the samples.
        """
        start = time.perf_counter()
        self._check_whole()
        check_choice("null", null, NULLS)
        plan = self._plan(null=null, n_resamples=n_resamples, rng=rng)
        n_test = min(self._sums.n)
        if n_test < _FEWEST:
            raise ArgumentError(
                "x",
                f"leaves {counted(n_test, 'sample')} to test of {self.n} that were added; at least "
                f"{_FEWEST} are needed",
                remedy="Test fewer samples by gof_test.",
            )
        numbers = self._sums.numbers()
        check_resamples(plan.n_resamples, most_members(plan), groups=numbers.size, null=null)
        weights = group_weights(numbers, null, plan.n_resamples, plan.rng)
        members = self._family.evaluations(self._sums.meet(weights, null))
        verdict = decide(plan, Outcome(members, 1.0))
        lag, effective, needed = self._memory(numbers)
        if needed:
            verdict = verdict.withheld()
        seconds = time.perf_counter() - start
        return GofResult(
            **verdict.fields(),
            n_test=n_test,
            n_train=self.n_train,
            null=null,
            engine="fourier",
            kernel=plan.kernel.name,
            method="sksd",
            lag=lag,
            effective_draws=effective,
            draws_needed=needed,
            timings={"statistic": seconds, "total": seconds},
            _active=self._active,
        )

    def _memory(self, numbers: np.ndarray) -> tuple[float, float, int]:
        """Draws of a group, effective number of draws, and how many a verdict needs; or 0."""
        chains = self._chains
        if chains is None or not chains.dependent:
            return 1.0, float(self.n), 0
        drawn = (chains.length + chains.gap) / chains.length  # draws for each that is used
        effective = drawn * self.n / chains.tau
        needed = 0 if numbers.size >= FEWEST else chains.needed()
        return float(round(drawn * self._sums.group_size)), effective, needed


def _split(plan: Plan, head: Samples, score: Score, separate: bool) -> Split:
    """Parts of the samples that will come: all of them, and those after the head."""
    n = len(head.x)
    parts = [fixed_part(plan, head)._replace(stretch=slice(0, None))]
    if plan.search is not None:
        held_out = trained_part("held out", slice(0, n), head, head, plan)
        parts.append(held_out._replace(stretch=slice(0 if separate else n, None)))
    return Split(head, tuple(parts), score)


def _joined(rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches of rows in order, neighbours as one."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(rows):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined
