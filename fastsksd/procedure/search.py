"""Slices from training samples (Algorithm 1), for each part that has some."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Option, counted, score_is_array
from ..kernels import Kernel
from ..refine import refine_slices
from ..score_difference import needs_function, score_difference
from ..slices import Slices, active_directions, find_slices, where_samples_vary
from .family import active_pool, named_pool
from .plan import Plan, Search
from .split import Part, Samples, Split

_ENOUGH = 500  # samples to tell along which directions they vary


def search(plan: Plan, split: Split) -> Any:
    """The split with the slices of every part: those known beforehand and those found.

    A baseline returns what it looks for itself, such as locations, with its task.
    """
    if plan.baseline is not None:
        return plan.baseline.search(plan, split)
    if plan.search is None:
        return split
    return split._replace(parts=tuple(_searched(plan, part, split) for part in split.parts))


def _searched(plan: Plan, part: Part, split: Split) -> Part:
    how, training = plan.search, part.training
    if training is None or how is None:
        return part
    if training.x.shape[0] < 3 and how.estimator == "ke" and how.debias:
        raise ArgumentError(
            "train",
            f"leaves {counted(training.x.shape[0], 'training sample')}; ",
            Option("debias", True),
            " needs at least 3",
            remedy="Give more samples, or fixed slices.",
        )
    score, score_q = _within(part, split.score), _within(part, how.score_q)
    difference = score_difference(
        training.x,
        score if needs_function(how.estimator) else cast(Array, training.scores),
        estimator=how.estimator,
        score_q=score_q,
        debias=how.debias,
        engine=how.engine_name,
    )
    everything = split.samples.at_most(max(_ENOUGH, 2 * training.x.shape[1])).within(part.metric)
    if how.standard:
        found = where_samples_vary(
            everything.x, partial(active_directions, difference, debias=how.debias)
        )
        return part._replace(pools=(active_pool(found, plan.multiples),), active=found)
    basis = how.basis
    if part.metric is not None and basis is not None:
        basis = part.metric.from_user(Slices(basis, basis)).r
    options: dict[str, Any] = dict(n_slices=how.n_slices, basis=basis, debias=how.debias)
    found = where_samples_vary(everything.x, partial(find_slices, difference, **options))
    if how.refine:
        found = _refined(found, training, plan.kernel, how, plan.rng)
    return part._replace(pools=(named_pool("active", found, plan.multiples),), active=found)


def _within(part: Part, score: Any) -> Any:
    """A score function in the metric of a part; anything else as it is."""
    if part.metric is None or score is None or score_is_array(score):
        return score
    return part.metric.score_function(score)


def _refined(
    found: Slices, training: Samples, kernel: Kernel, how: Search, rng: np.random.Generator
) -> Slices:
    """Slices improved on the samples they were found on, by minibatches of a tenth of them."""
    n = training.x.shape[0]
    options: dict[str, Any] = {
        "batch_size": min(n, max(20, min(100, n // 10))),
        "engine": "direct" if how.engine_name == "fourier" else how.engine_name,
        **how.refine,
    }
    scores = cast(Array, training.scores)
    return refine_slices(training.x, scores, found, kernel=kernel, rng=rng, **options)
