"""Members that the default test could have: moments along active directions.

The features are those of `procedure.moments`: damped Stein features of polynomials of degree
``q + 1``. Coordinates have them in the default test. Here are those of the directions r that were
found on the other half of the samples, with their location and unit from there too, in the metric
of that half. Signs are those of all other members.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .._validate import check_samples
from ..compute.linalg import product
from ..models import Model
from ..procedure.evaluate import evaluate
from ..procedure.evaluation import Evaluation
from ..procedure.moments import location_and_unit, plain_moments
from ..procedure.nulls import Weights, resampling_scale
from ..procedure.own_units import in_own_units
from ..procedure.plan import Options, Plan, make_plan
from ..procedure.search import search
from ..procedure.split import Part, Samples, make_split

# Degrees q that are summed, and numbers of directions.
SUMS = {"location": (0,), "scale and shape": (1, 2, 3), "degrees 1 to 3": (0, 1, 2)}
TOP = (1, 3, 10)
DEGREES = (0, 1, 2, 3)


class Joint(NamedTuple):
    """Members of a test of one kind, and their joint replicates.

    Attributes
    ----------
    kinds : list of tuple (str, float)
        Kind of each member, and its share.
    statistics : (k,) array
    replicates : (k, n_resamples) array
    """

    kinds: list[tuple[str, float]]
    statistics: Array
    replicates: Array


def with_active_moments(x: Array, model: Model, options: Options) -> tuple[Joint, dict[str, Joint]]:
    """The members of the default test, and of each candidate, with the same signs."""
    plan = in_own_units(make_plan(options, None, *x.shape), check_samples(x))
    split = search(plan, make_split(plan, x, model, None))
    rng = copy.deepcopy(plan.rng)  # evaluate draws the signs from here on
    members = evaluate(plan, split).members
    edges = sorted({part.stretch.start for part in split.parts} - {0})
    weights = Weights(plan.null, len(x), plan.n_resamples, edges=edges, rng=rng)
    candidates: dict[str, Joint] = {}
    for part in split.parts:
        for pool in part.pools:
            if pool.kind == "active":
                _add(candidates, plan, part, pool.slices.r, weights)
    return _joint(members), candidates


def _joint(members: list[Evaluation]) -> Joint:
    return Joint(
        [(one.kind, one.share) for one in members],
        np.array([one.statistic for one in members]),
        np.array([one.replicates for one in members]),
    )


def _add(candidates: dict[str, Joint], plan: Plan, part: Part, r: Array, weights: Weights) -> None:
    """The sums of one part of the samples, beside those of the others."""
    assert part.training is not None
    y, s = _along(part.tested, r)
    where = location_and_unit(_along(part.training, r)[0])
    features = plain_moments(y, s, *where, DEGREES).reshape(-1, part.n)
    features /= np.sqrt((features * features).mean(axis=1, keepdims=True))
    own = np.einsum("fn,fn->f", features, features)
    own_rows = part.stretch
    drawn = [product(batch[:, own_rows], features) ** 2 - own for batch in weights.batches()]
    squares = (features.sum(axis=1) ** 2 - own).reshape(len(DEGREES), -1)
    replicates = np.concatenate(drawn).reshape(-1, *squares.shape)
    scales = 1.0 / (part.n * (part.n - 1.0)), resampling_scale(plan.null, part.n)
    for name, degrees in SUMS.items():
        rows = [DEGREES.index(q) for q in degrees]
        for top in TOP:
            label = f"{name}, top {top}"
            old = candidates.get(label, Joint([], np.empty(0), np.empty((0, len(replicates)))))
            statistic = scales[0] * squares[rows, :top].sum()
            values = scales[1] * replicates[:, rows, :top].sum(axis=(1, 2))
            candidates[label] = Joint(
                [*old.kinds, (label, 1.0)],
                np.append(old.statistics, statistic),
                np.vstack([old.replicates, values]),
            )


def _along(samples: Samples, r: Array) -> tuple[Array, Array]:
    """Samples and scores along directions, (n, m) each."""
    assert samples.scores is not None
    return product(samples.x, r), product(samples.scores, r)
