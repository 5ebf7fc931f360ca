"""What a baseline is given and what it gives back."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._validate import check_samples
from ..kernels import Kernel
from ..procedure.nulls import NULLS, Weights


class Task(NamedTuple):
    """Samples to be tested with their scores, separate training samples where there are any, and how to judge them."""

    x: np.ndarray
    scores: np.ndarray | None
    train: tuple | None
    score: object
    kernel: Kernel
    null: str
    weights: Weights | None
    n_resamples: int
    rng: np.random.Generator


class Outcome(NamedTuple):
    """Members of a test, see `members.Evaluated`, and what else the result tells."""

    members: list
    family: bool = False
    locations: np.ndarray | None = None
    n_model: int = 0
    kernel: str | None = None


@dataclass(frozen=True, eq=False)
class Baseline:
    """Base of the baselines: options as fields, `prepare` for what needs training samples, `evaluate` for statistic and null."""

    name = None
    nulls = NULLS  # the first of them is the default
    trained = False  # whether part of the samples is set apart for training
    needs_score = True
    has_kernel = True  # whether `kernel` is the caller's choice
    explicable = False  # whether single samples have contributions, see `pair_terms`
    exact_tail = True  # whether null="spectral" is the limit distribution itself, to any depth

    def prepare(self, task):
        """What is found before the test."""
        return None

    def evaluate(self, task, prepared):
        """The `Outcome`."""
        raise NotImplementedError

    def pair_terms(self, result, samples):
        """Terms of all pairs of `samples`, at the bandwidth and locations of a `GofResult`.

        An object with `n` and `row_sums()`, as engines are; None where the statistic is not a sum
        over pairs of samples, so that single samples have no contributions.
        """
        return None


def samples_of_model(model, count, d, method, rng):
    """Samples drawn by the model's own `.sample` method."""
    if not callable(getattr(model, "sample", None)):
        raise ValueError(
            f"`score` must be a model with a `.sample` method for method={method!r}; got {type(model).__name__}."
        )
    drawn = model.sample(count, rng=rng)
    return check_samples(drawn, "score.sample", min_rows=count, d=d)
