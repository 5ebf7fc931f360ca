"""What a baseline is: a test without slices, what it is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from .._strict import as_the_caller_has_it
from .._typing import Array, Score
from .._validate import ArgumentError, Option, check_samples
from ..engines import PairEngine
from ..kernels import Kernel
from ..procedure.evaluation import Outcome
from ..procedure.nulls import NULLS, Weights
from ..procedure.plan import Plan, check_test_size
from ..procedure.split import Samples, Split


class Task(NamedTuple):
    """Samples to be tested, training samples where there are any, and how to judge them.

    Attributes
    ----------
    x, scores : (n, d) arrays
        A method that needs no scores has None for them.
    typical : (n', d) array
        Samples without importance weights, for bandwidths; all of them where there are none.
    training : Samples or None
    score : array, callable or model
        The model as the user gave it.
    kernel : Kernel
    null : str
    weights : Weights or None
        For the nulls "wild" and "bootstrap".
    n_resamples : int
    lag : float
    rng : numpy.random.Generator
    """

    x: Array
    scores: Array
    typical: Array
    training: Samples | None
    score: Score
    kernel: Kernel
    null: str
    weights: Weights | None
    n_resamples: int
    lag: float
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class Baseline:
    """Base of the baselines: options are fields, `prepare` trains, `measure` tests.

    Attributes
    ----------
    name : str
        For ``gof_test(method=...)``.
    title : str
        For tables and figures.
    nulls : tuple of str
        Null distributions on offer; the first is the default.
    width_name : str
        What the result's `bandwidths` are.
    is_family : bool
        Whether it has several members, to be combined.
    trained : bool
        Whether part of the samples is set apart for training.
    needs_score : bool
        Whether scores at the samples are needed.
    has_kernel : bool
        Whether `kernel` is the caller's choice.
    needs_model : bool
        Whether the model itself is needed, to sample from, and not its scores alone.
    explicable : bool
        Whether single samples have contributions, see `pair_terms`.
    exact_tail : bool
        Whether null="spectral" is the limit distribution itself, to any depth.
    takes_weights : bool
        Whether samples may have importance weights.
    """

    name = ""
    title = ""
    width_name = "bandwidth"
    nulls = NULLS
    is_family = False
    needs_score = True
    has_kernel = True
    explicable = False
    exact_tail = True
    takes_weights = False

    @property
    def trained(self) -> bool:
        """Whether part of the samples is set apart for training."""
        return False

    @property
    def n_resamples(self) -> int | None:
        """Number of replicates that the method prescribes; None where it is the caller's choice."""
        return None

    @property
    def needs_model(self) -> bool:
        """Whether the model itself is needed, to sample from."""
        return False

    def search(self, plan: Plan, split: Split) -> tuple[Task, Any]:
        """Search for what is found before the test.

        Parameters
        ----------
        plan : Plan
            What the test will do.
        split : Split
            Samples, and training samples if the baseline is `trained`.

        Returns
        -------
        task : Task
            What `measure` is given.
        prepared : object
            What `prepare` returned.
        """
        part = split.parts[-1]
        samples = split.samples.chosen(part.stretch)
        check_test_size(part.n)
        weights = None
        if plan.null in ("wild", "bootstrap"):
            weights = Weights(
                plan.null,
                part.n,
                plan.n_resamples,
                stretch=samples.stretch,
                importance=samples.weights,
                rng=plan.rng,
            )
        task = Task(
            samples.x,
            cast(Array, samples.scores),
            samples.typical.x,
            part.training,
            split.score,
            plan.kernel,
            plan.null,
            weights,
            plan.n_resamples,
            split.lag_length,
            plan.rng,
        )
        return task, self.prepare(task)

    def evaluate(self, plan: Plan, found: tuple[Task, Any]) -> Outcome:
        """Evaluate the members of the test.

        Parameters
        ----------
        plan : Plan
            What the test will do.
        found : tuple
            What `search` returned.

        Returns
        -------
        Outcome
            The members, and what else a result tells.
        """
        return self.measure(*found)

    def prepare(self, task: Task) -> Any:
        """Find what the statistic needs, such as locations and a bandwidth.

        Parameters
        ----------
        task : Task
            Samples and options.

        Returns
        -------
        object
            Whatever `measure` needs; None for nothing.
        """
        return None

    def measure(self, task: Task, prepared: Any) -> Outcome:
        """Compute the statistic of each member, with its null distribution.

        Parameters
        ----------
        task : Task
            Samples and options.
        prepared : object
            What `prepare` returned.

        Returns
        -------
        Outcome
            The members, and what else a result tells.
        """
        raise NotImplementedError

    def pair_terms(self, result: Any, samples: Samples) -> PairEngine | None:
        """Terms of all pairs of samples, as in the statistic of a result.

        Parameters
        ----------
        result : GofResult
            Its bandwidth and locations are used.
        samples : Samples
            Samples with their scores.

        Returns
        -------
        PairEngine or None
            None where the statistic is not a sum over pairs of samples: single samples then have no
            contributions.
        """
        return None


def samples_of_model(
    model: Any, count: int, d: int, method: str, rng: np.random.Generator
) -> Array:
    """Samples drawn by the model's own `.sample` method."""
    if not callable(getattr(model, "sample", None)):
        raise ArgumentError(
            "score",
            "must be a model with a .sample method for ",
            Option("method", method),
            f"; got {type(model).__name__}",
        )
    try:
        with as_the_caller_has_it():
            drawn = model.sample(count, rng=rng)
    except NotImplementedError as error:
        raise ArgumentError(
            "score",
            "must be a model that can be sampled for ",
            Option("method", method),
            f": {error}",
        ) from error
    return check_samples(drawn, "score.sample", min_rows=count, d=d)


__all__ = ["Baseline", "Task", "samples_of_model"]
