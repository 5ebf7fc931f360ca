"""The problems of a batch: what a user gives for one test, and how it is sent to a process."""

from __future__ import annotations

import dataclasses
import pickle
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .._validate import ArgumentTypeError, check_choice, check_samples, evaluate_score
from ..baselines import as_baseline
from ..baselines.base import samples_of_model
from ..procedure.chains import flattened
from ..procedure.plan import Options
from ..score_difference import ESTIMATORS, needs_function

OPTIONS = tuple(one.name for one in dataclasses.fields(Options) if one.name != "rng")
_DRAWS = 20  # samples of a model that tell it from another


class Problem(NamedTuple):
    """One test of a batch.

    Attributes
    ----------
    number : int
        Place among the problems, from 0.
    name : str
    x, score
        As for `gof_test`.
    options : dict
        Of `gof_test`.
    seed : numpy.random.SeedSequence
    digest : str
        Of what is tested, for a batch with a checkpoint.
    """

    number: int
    name: str
    x: Any
    score: Any
    options: dict[str, Any]
    seed: np.random.SeedSequence
    digest: str = ""


class Parcel(NamedTuple):
    """A problem as bytes, so that an error while a process unpacks them can be reported."""

    number: int
    digest: str
    content: bytes


def check_options(options: Iterable[str]) -> None:
    """All names must be options of `gof_test`, other than `rng`."""
    for name in options:
        if name == "fit":
            raise ArgumentTypeError(name, "is not for batches; call gof_test for each problem")
        if name not in OPTIONS:
            raise ArgumentTypeError(
                name, f"is not an option of gof_test; the options are {', '.join(OPTIONS)}"
            )


def make_problem(
    number: int, given: object, options: dict[str, Any], seed: np.random.SeedSequence
) -> Problem:
    """The problem that a user gave as a pair or a mapping, with the options of the batch."""
    if isinstance(given, Mapping):
        missing = [name for name in ("x", "score") if name not in given]
        if missing:
            raise ValueError(
                f"one of `problems` has no {missing[0]!r}; it has {', '.join(map(repr, given))}."
            )
        added = {name: one for name, one in given.items() if name not in ("x", "score", "name")}
        check_options(added)
        name, x, score = str(given.get("name", number)), given["x"], given["score"]
        options = {**options, **added}
    elif isinstance(given, (tuple, list)) and len(given) == 2:
        name, (x, score) = str(number), given
    else:
        raise TypeError(
            "each of `problems` must be a pair (x, score) or a mapping, not "
            f"{type(given).__name__}."
        )
    x, score, chains = flattened(x, score, options.get("chains"))
    if chains is not None:
        options = {**options, "chains": chains}
    # What the test needs of the model is decided by these two, before the test checks them.
    as_baseline(options.get("method", "sksd"))
    check_choice("estimator", options.get("estimator", "ke"), ESTIMATORS)
    return Problem(number, name, x, score, options, seed)


def values_are_enough(problem: Problem) -> bool:
    """Whether the test needs only the scores at the samples, or nothing, of the model."""
    options = problem.options
    train = options.get("train")
    if train is not None and np.ndim(train) > 0:
        return False
    baseline = as_baseline(options.get("method", "sksd"))
    if baseline is not None:
        return not baseline.needs_model
    return not needs_function(options.get("estimator", "ke"))


def values_of_model(problem: Problem, x: Array) -> Array | None:
    """What the test sees of the model: its scores at the samples, None if it needs none of them.

    Of a model that is only sampled from, some draws with a fixed seed.
    """
    baseline = as_baseline(problem.options.get("method", "sksd"))
    if baseline is None or baseline.needs_score:
        return evaluate_score(problem.score, x)
    if baseline.needs_model:
        rng = np.random.default_rng(0)
        return samples_of_model(problem.score, _DRAWS, x.shape[1], baseline.name, rng)
    return None


def pack(problem: Problem) -> Parcel:
    """The problem as bytes, with the scores in place of a function that can't be sent."""
    if not isinstance(problem.score, np.ndarray) and not travels(problem.score):
        if not values_are_enough(problem):
            raise ArgumentTypeError(
                "score",
                "can't be sent to another process; define it in a module that can be "
                "imported, pass its values at `x`, or leave `n_jobs` out",
            )
        scores = values_of_model(problem, check_samples(problem.x))
        problem = problem._replace(score=scores)
    try:
        return Parcel(problem.number, problem.digest, pickle.dumps(problem))
    except Exception as error:
        raise TypeError(
            f"the problem can't be sent to another process: {message_of(error)}"
        ) from error


def travels(function: object) -> bool:
    """Whether another process can unpickle it.

    It can't unpickle a lambda, nor what an interactive session defined.
    """
    try:
        content = pickle.dumps(function)
    except Exception:
        return False
    return b"__main__" not in content or hasattr(sys.modules["__main__"], "__file__")


def message_of(error: BaseException) -> str:
    """An error in one line."""
    said = str(error)  # some say nothing
    return f"{type(error).__name__}{said and ': '}{said}"
