"""The test of a model that is fitted to the samples: refits in processes, or a split.

See `fastsksd.procedure.fitted` for the null distribution. Every refit has a seed of its own, so
that the p-value does not depend on the number of processes, or on where an earlier run stopped.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from .._progress import shown_progress
from .._strict import as_the_caller_has_it
from .._typing import Array, Rng
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_rng,
    check_samples,
    evaluate_score,
    is_dask,
)
from ..baselines import as_baseline
from ..gof import Examined, concluded, coordinate_names, examine, gof_test
from ..procedure.chains import Chains, as_chains, flattened, told_as_draws
from ..procedure.combine import decide
from ..procedure.fitted import Fitted, Refit, allow_for_failures, statistics_of, with_refits
from ..procedure.nulls import check_resamples
from ..procedure.per_chain import ChainReport, per_chain
from ..procedure.plan import Options, check_lag
from ..procedure.thinning import Thinned, thin
from ..result import GofResult
from .kept_refits import KeptRefits
from .pool import ProcessesDied, finished
from .problems import message_of, travels

_SPLIT = 0.9  # fraction that a model without a sampler is fitted to
_LEAST_TESTED = 20  # samples, where there are twice as many
_LEVEL = 0.05  # refits may fail as long as p-values can be as small
_FEWEST = 19  # refits that make a result of an interrupted test: a p-value of 0.05 is possible
_DEATH = "its process died twice: it ran out of memory, or `fit` brings the process down"


class RefitsInterrupted(KeyboardInterrupt):
    """A test with `fit` that was interrupted from the keyboard.

    Parameters
    ----------
    message : str
        How many refits were done, and where they are.
    result : GofResult or None
        The result of the refits that were done; None if they were fewer than 19.

    See Also
    --------
    Refit : Has a checkpoint, from which the same test goes on.

    Examples
    --------
    >>> import fastsksd as fs
    >>> def fit(x):
    ...     raise KeyboardInterrupt
    >>> try:
    ...     fs.gof_test([[0.0], [1.0], [2.0], [3.0]], fit=fit)
    ... except KeyboardInterrupt:
    ...     print("interrupted by the first fit, which is no refit")
    interrupted by the first fit, which is no refit
    """

    def __init__(self, message: str, result: GofResult | None) -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class Task:
    """What every refit needs; called with the number and the seed of one, it makes it.

    Attributes
    ----------
    model : object
        The fitted model, to draw from.
    n, d : int
        Shape of the samples.
    refit : Refit
    options : Options
        Of the test.
    members : tuple of str
        Names of the members that the test of the samples has.
    """

    model: Any
    n: int
    d: int
    refit: Refit
    options: Options
    members: tuple[str, ...]

    def __call__(self, numbered: tuple[int, np.random.SeedSequence]) -> tuple[Any, str | None]:
        """Statistics of a refit and None, or None and what was wrong."""
        try:
            rng = np.random.default_rng(numbered[1])
            x = drawn(self.model, self.n, self.d, rng)
            model = self.refit.model_of(x)
            examined = examine_in_own_metric(x, model, self.options, rng)
            if names_of(examined) != self.members:
                raise ValueError("the test has other members than that of the samples.")
            statistics = statistics_of(examined.outcome)
            if not np.all(np.isfinite(statistics)):
                raise ValueError("the statistic is not finite.")
            return statistics.tolist(), None
        except Exception as error:
            return None, message_of(error)


@dataclass(frozen=True)
class Sent:
    """A task as bytes, so that an error while a process unpacks them can be reported."""

    content: bytes

    def __call__(self, numbered: tuple[int, np.random.SeedSequence]) -> tuple[Any, str | None]:
        """The same as of the task."""
        try:
            task = pickle.loads(self.content)
        except Exception as error:
            return None, f"`fit` could not be unpacked in another process: {message_of(error)}"
        return task(numbered)


def gof_test_of_fitted(
    x: Any, fit: Callable[[Array], Any] | Refit, options: Options, n_refits: int
) -> GofResult:
    """`gof_test` with `fit`; replicates of its options are those of a split."""
    check_resamples(n_refits)
    refit = fit if isinstance(fit, Refit) else Refit(fit)
    names, samples, chains = _check_input(x, options)
    if chains is None:
        return _test(samples, names, refit, options, n_refits)
    lag = check_lag(dataclasses.replace(options, chains=True), "wild")
    options = dataclasses.replace(options, lag=None, chains=None)
    model = refit.model_of(samples)
    with _about_the_fit():
        scores = evaluate_score(model, samples)
    kept = thin(samples, scores, chains, lag)
    report = per_chain(samples, scores, chains, kept.lag)
    told = functools.partial(_told_of_chains, kept=kept, report=report, chain=chains.numbers)
    if kept.lag.needed:
        return told(_too_short(samples, names, model, options))
    try:
        return told(_test(samples[kept.rows], names, refit, options, n_refits))
    except RefitsInterrupted as interrupted:
        if interrupted.result is not None:
            interrupted.result = told(interrupted.result)
        raise


def _test(
    samples: Array, names: tuple[str, ...] | None, refit: Refit, options: Options, n_refits: int
) -> GofResult:
    """The test of independent samples."""
    rng = check_rng(options.rng)
    if refit.split is not None:
        return _split(samples, names, refit, refit.split, options, rng)
    start = time.perf_counter()
    model = refit.model_of(samples)
    if not _can_be_drawn(model, samples.shape[1]):
        fraction = min(_SPLIT, max(0.5, 1.0 - _LEAST_TESTED / len(samples)))
        return _split(samples, names, refit, fraction, options, rng)
    options = _inner_options(options)
    seeds = cast(np.random.SeedSequence, rng.bit_generator.seed_seq)
    kept = None
    if refit.checkpoint is not None:
        kept = KeptRefits(refit.checkpoint, seeds, fixed=options.rng is not None)
        seeds = kept.seeds
    try:
        first, *others = seeds.spawn(1 + n_refits)
        with _about_the_fit():
            examined = examine_in_own_metric(samples, model, options, first)
        done = {} if kept is None else kept.open(statistics_of(examined.outcome))
        task = Task(model, len(samples), samples.shape[1], refit, options, names_of(examined))
        book = _Book(examined._replace(names=names, start=start), model, n_refits, done)
        waiting = [(k, seed) for k, seed in enumerate(others) if k not in book.statistics]
        _run(task, waiting, book, kept)
    finally:
        if kept is not None:
            kept.close()
    return book.result()


def _check_input(x: Any, options: Options) -> tuple[tuple[str, ...] | None, Array, Chains | None]:
    """Names, samples in memory, and the chains that they are draws of."""
    if is_dask(x):
        raise ArgumentTypeError("fit", "is for samples in memory, not for a Dask array")
    if options.weights is not None:
        raise ArgumentError(
            "weights", "are not known to ", Option("fit"), ", which takes samples alone"
        )
    rows, _, labels = flattened(x, None, options.chains)
    if labels is None and "lag" in options.given():
        labels = True  # one chain
    with told_as_draws(labels):
        samples = check_samples(rows, min_rows=4)
    names = coordinate_names(x, samples.shape[1], options)
    return names, samples, as_chains(labels, len(samples))


def _too_short(x: Array, names: tuple[str, ...] | None, model: Any, options: Options) -> GofResult:
    """The test of all draws of chains, without refits and without p-values."""
    rng = check_rng(options.rng)
    with _about_the_fit():
        options = dataclasses.replace(_inner_options(options), n_resamples=options.n_resamples)
        examined = examine_in_own_metric(x, model, options, rng)
    verdict = decide(examined.plan, examined.outcome).withheld()
    result = concluded(examined._replace(names=names), verdict)
    return dataclasses.replace(result, fitted=Fitted(model, len(x), same_samples=True))


def _told_of_chains(
    result: GofResult, kept: Thinned, report: ChainReport, chain: np.ndarray
) -> GofResult:
    """The result of thinned draws, with what is known of the chains they come from."""
    needed, whole = kept.lag.needed, result._whole
    fitted = cast(Fitted, result.fitted)
    if whole is not None and not needed:
        whole = whole._replace(rows=kept.rows[whole.rows])
    # The chains alone were tested against a model that was fitted to them.
    chains = tuple(one._replace(pvalue=float("nan")) for one in report.chains)
    return dataclasses.replace(
        result,
        draws_needed=needed,
        effective_draws=kept.lag.effective,
        neighbour_correlation=0.0 if needed else result.neighbour_correlation,
        chains=report._replace(chains=chains),
        fitted=fitted._replace(thinned=1 if needed else kept.step),
        _whole=whole,
        _chain=chain,
    )


def _inner_options(options: Options) -> Options:
    """Options of the test of a single set, for its statistics: one replicate, which has no use."""
    reasons = {
        "null": "has no choice: the null distribution is that of refits",
        "tolerance": "has no use: effects of a model fitted to the same samples are near none",
        "score_q": "is not known for samples drawn from the fitted model",
    }
    for name in options.given():
        if name in reasons:
            raise ArgumentError(name, reasons[name], remedy=("Leave it out with ", Option("fit")))
    if options.train is not None and np.ndim(options.train) > 0:
        raise ArgumentError(
            "train",
            "must not hold samples with ",
            Option("fit"),
            ": sets drawn from the fitted model have none",
        )
    options = dataclasses.replace(options, names=None)
    baseline = as_baseline(options.method)
    if baseline is not None and baseline.n_resamples is not None:
        return options
    return dataclasses.replace(options, n_resamples=1)


@contextmanager
def _about_the_fit() -> Iterator[None]:
    """Errors about the score of a fitted model are about `fit`."""
    try:
        yield
    except ArgumentError as error:
        if error.argument != "score":
            raise
        raise ArgumentError(
            "fit", f"returned a model that can't be tested: {str(error).rstrip('.')}"
        ) from error


def examine_in_own_metric(x: Array, model: Any, options: Options, rng: Rng) -> Examined:
    """The test of one set up to its verdict; the family in coordinates of unit covariance.

    Mean and covariance are those of the set itself. The statistics then hardly depend on parameters
    of location, scale and correlation, so that refits have the null distribution of the samples
    although these parameters are estimated: exactly for normal distributions. In the coordinates
    of `x`, right normal distributions of 50 dimensions were rejected in all tests with 200 samples.
    """
    options = dataclasses.replace(options, rng=rng)
    standard = options.slices is None and options.n_slices is None and options.basis is None
    own = isinstance(options.precondition, str) and options.precondition == "auto"
    n, d = x.shape
    if not (own and standard and n >= 2 * d and as_baseline(options.method) is None):
        return examine(x, model, options)
    root = np.linalg.cholesky(np.atleast_2d(np.cov(x.T)))
    metric = np.linalg.solve(root, np.eye(d))
    mean, scores = x.mean(axis=0), evaluate_score(model, x)
    found = examine(x - mean, scores, dataclasses.replace(options, precondition=metric))
    centred = found.split.samples
    samples = centred._replace(x=centred.x + mean)
    return found._replace(samples=x, split=found.split._replace(samples=samples))


def names_of(examined: Examined) -> tuple[str, ...]:
    """Names of the members of a test, with what tells them apart."""
    return tuple(f"{one.name} {one.multiple} {one.part}" for one in examined.outcome.members)


def drawn(model: Any, n: int, d: int, rng: np.random.Generator) -> Array:
    """Samples of a model."""
    with as_the_caller_has_it():
        x = model.sample(n, rng=rng)
    return check_samples(x, "fit.sample", min_rows=n, d=d)


def _can_be_drawn(model: Any, d: int) -> bool:
    """Whether the model has a sampler; one that fails is an error."""
    if not callable(getattr(model, "sample", None)):
        return False
    try:
        drawn(model, 2, d, np.random.default_rng(0))
    except NotImplementedError:
        return False
    except Exception as error:
        raise ArgumentError(
            "fit",
            "must return a model with .sample(n, rng=...), or without .sample; it raised "
            f"{message_of(error).rstrip('.')}",
        ) from error
    return True


def _split(
    x: Array,
    names: tuple[str, ...] | None,
    refit: Refit,
    fraction: float,
    options: Options,
    rng: np.random.Generator,
) -> GofResult:
    """The test of a part of the samples against the model fitted to the others."""
    n = x.shape[0]
    count = min(max(round(fraction * n), 2), n - 2)
    order = rng.permutation(n)
    fitted, tested = np.sort(order[:count]), np.sort(order[count:])
    model = refit.model_of(x[fitted])
    given = {name: getattr(options, name) for name in options.given()}
    with _about_the_fit():
        result = gof_test(x[tested], model, **{**given, "names": names, "rng": rng})
    whole = result._whole
    if whole is not None:
        whole = whole._replace(rows=tested[whole.rows])
    return dataclasses.replace(result, names=names, fitted=Fitted(model, count), _whole=whole)


class _Book:
    """Statistics and errors of refits as they come, by number."""

    def __init__(
        self, examined: Examined, model: Any, n_refits: int, statistics: dict[int, list[float]]
    ) -> None:
        self.examined, self.model, self.n_refits = examined, model, n_refits
        self.statistics = {k: row for k, row in statistics.items() if k < n_refits}
        self.errors: dict[int, str] = {}

    @property
    def n_done(self) -> int:
        return len(self.statistics) + len(self.errors)

    def enter(self, number: int, statistics: list[float] | None, error: str | None) -> None:
        """Note a refit; too many failures are an error."""
        if statistics is not None:
            self.statistics[number] = statistics
            return
        self.errors[number] = str(error)
        if 1 + len(self.errors) > max(1.0, _LEVEL * (1 + self.n_refits)):
            raise ArgumentError(
                "fit",
                f"failed on {len(self.errors)} of {self.n_done} sets of samples drawn from the "
                f"fitted model, too many for a p-value from {self.n_refits}: {self.reasons()}",
            )

    def reasons(self) -> str:
        """The first of the reasons why refits failed."""
        listed = list(dict.fromkeys(self.errors.values()))
        return "; ".join([one.rstrip(".") for one in listed[:2]] + ["..."] * (len(listed) > 2))

    def result(self) -> GofResult:
        """The result of the refits that are done."""
        rows = np.array([self.statistics[k] for k in sorted(self.statistics)])
        rows = rows.reshape(-1, len(self.examined.outcome.members))
        outcome = with_refits(self.examined.outcome, rows)
        verdict = decide(self.examined.plan, outcome)
        verdict = allow_for_failures(verdict, len(self.errors), self.n_done)
        result = concluded(self.examined._replace(outcome=outcome), verdict)
        errors = tuple(dict.fromkeys(self.errors[k] for k in sorted(self.errors)))
        fitted = Fitted(
            self.model,
            self.examined.samples.shape[0],
            self.n_done,
            len(self.errors),
            errors,
            same_samples=True,
        )
        return dataclasses.replace(result, null="refits", fitted=fitted)


def _run(
    task: Task,
    waiting: list[tuple[int, np.random.SeedSequence]],
    book: _Book,
    kept: KeptRefits | None,
) -> None:
    """Make the refits that are waiting, and enter them in the book."""
    jobs = task.refit.n_jobs or 1
    if jobs > 1:
        _check_travels(task)
    # Files and functions that show progress stay in this process.
    sent = dataclasses.replace(task, refit=Refit(task.refit.function, progress=False))
    bar = shown_progress(task.refit.progress, "refits", first=book.n_done)
    work = sent if jobs == 1 else Sent(pickle.dumps(sent))
    outcomes = finished(work, waiting, jobs, died=lambda: (None, _DEATH))
    try:
        for (number, _), (statistics, error) in outcomes:
            if kept is not None and statistics is not None:
                kept.keep(number, statistics)
            book.enter(number, statistics, error)
            if bar is not None:
                bar(book.n_done, book.n_refits)
    except KeyboardInterrupt:
        result = book.result() if len(book.statistics) >= _FEWEST else None
        where = "" if kept is None else f"; they are in {kept.path}, and the same call goes on"
        raise RefitsInterrupted(
            f"interrupted after {book.n_done} of {book.n_refits} refits{where}", result
        ) from None
    except ProcessesDied as error:
        raise ArgumentError(
            "fit", f"was stopped after {book.n_done} of {book.n_refits} refits: {error}"
        ) from error
    finally:
        outcomes.close()


def _check_travels(task: Task) -> None:
    for what, value in (("", task.refit.function), ("returned a model that ", task.model)):
        if not travels(value):
            raise ArgumentTypeError(
                "fit",
                f"{what}can't be sent to another process; define it in a module that can be "
                "imported, or leave ",
                Option("n_jobs"),
                " out",
            )
