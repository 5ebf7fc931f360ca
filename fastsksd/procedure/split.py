"""Which samples find slices and which test them: a split, separate samples, or cross-fitting.

With cross-fitting every sample is used twice: slices found on either half are tested on the other.
The statistics of the halves are not added. Under the null they depend on each other (both halves
look along the same accidental directions), and the sum varies more than its replicates say. They
are members of one family instead, calibrated as if the halves were independent. For the smallest
p-value that is each at a level a with ``1 - (1 - a)^2 = alpha``. Whatever the dependence, the union
bound then holds the level at ``2 a``, which is 0.0506 for alpha = 0.05.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from .._typing import Array, Score
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_number,
    check_samples,
    counted,
    evaluate_score,
    score_is_array,
)
from ..slices import Slices
from . import metric as metrics
from .chains import Chains, one_chain
from .family import COORDINATES, Pool
from .importance import effective_size, typical_rows
from .lags import Lag, check_lag_fits, choose_lag, given_lag
from .metric import Metric
from .per_chain import ChainReport, per_chain
from .plan import Plan, is_cross
from .stretches import lay_out

_LARGEST = 1e70


class Samples(NamedTuple):
    """Samples with their scores, and their rows in the caller's array.

    Attributes
    ----------
    x : (n, d) array
    scores : (n, d) array or None
        None for a method that needs no score.
    rows : (n,) array of int
    stretch : (n,) array of int or None
        For chains, the stretch of each draw; None for independent samples.
    weights : (n,) array or None
        Importance weights; None where they are equal.
    """

    x: Array
    scores: Array | None
    rows: np.ndarray
    stretch: np.ndarray | None = None
    weights: Array | None = None

    @property
    def effective(self) -> float:
        """Number of samples without weights that would be worth as much."""
        return float(len(self.x)) if self.weights is None else effective_size(self.weights)

    @property
    def typical(self) -> Samples:
        """Samples without weights to learn from: all of them, or some that stand for all."""
        if self.weights is None:
            return self
        return self.chosen(typical_rows(self.weights))._replace(weights=None)

    def chosen(self, which: slice | np.ndarray) -> Samples:
        """Some of the samples; the stretches of chains are numbered from 0 on again."""
        scores = None if self.scores is None else self.scores[which]
        numbers = None if self.stretch is None else self.stretch[which]
        if numbers is not None:
            numbers = np.unique(numbers, return_inverse=True)[1]
        weights = None if self.weights is None else self.weights[which]
        return Samples(self.x[which], scores, self.rows[which], numbers, weights)

    def in_order(self) -> Samples:
        """The samples in the caller's order."""
        order = np.argsort(self.rows, kind="stable")
        return self if np.array_equal(order, np.arange(order.size)) else self.chosen(order)

    def at_most(self, count: int) -> Samples:
        """The samples, or so many of them, spread evenly."""
        n = len(self.x)
        return self if n <= count else self.chosen(spread_evenly(n, count))

    def within(self, metric: Metric | None) -> Samples:
        """The samples in a metric; None for the caller's own coordinates."""
        if metric is None:
            return self
        x, scores = metric.samples(self.x), metric.scores(cast(Array, self.scores))
        for name, array in (("x", x), ("score", scores)):
            _check_size(name, array, self.rows)
        return self._replace(x=x, scores=scores)


def spread_evenly(n: int, count: int) -> np.ndarray:
    """At most `count` of the numbers 0..n - 1, about equally far apart."""
    return np.arange(n) if n <= count else np.linspace(0, n - 1, count).astype(int)


def _check_size(name: str, array: Array, rows: np.ndarray) -> None:
    """Fourth powers of what is computed with, in units of its own, must not overflow."""
    if not np.abs(array).max() <= _LARGEST:
        row, column = np.unravel_index(np.argmax(np.abs(array)), array.shape)
        raise ArgumentError(
            name,
            f"is beyond {_LARGEST:.0e} of its units in row {rows[row]}, column {column}, where "
            "statistics overflow; check the units of samples and scores",
        )


class Part(NamedTuple):
    """A stretch of the samples that is tested, and what its slices are found on.

    Attributes
    ----------
    name : str
        "all", "held out", "half 1" or "half 2".
    stretch : slice
        Of the samples of the `Split`.
    tested : Samples
        The samples of that stretch, in the metric; as they came where there are so many that
        replicates meet groups of them.
    metric : Metric or None
        Coordinates of the test; None for those of the caller.
    training : Samples or None
        In the metric, which was learnt on them. None where nothing is searched for.
    pools : tuple of Pool
        The slices, in the metric; `search` fills in those that are found.
    active : Slices or None
        All slices that were found.
    """

    name: str
    stretch: slice
    tested: Samples
    metric: Metric | None = None
    training: Samples | None = None
    pools: tuple[Pool, ...] = ()
    active: Slices | None = None

    @property
    def n(self) -> int:
        """Number of samples that are tested."""
        return int(self.stretch.stop - self.stretch.start)


class Split(NamedTuple):
    """Samples in such an order that each part is one stretch, the parts, and the model.

    `lag` says how chains were cut, `chains` what each of them says; None for independent samples.
    """

    samples: Samples
    parts: tuple[Part, ...]
    score: Score
    lag: Lag | None = None
    chains: ChainReport | None = None

    @property
    def lag_length(self) -> float:
        """Length of the stretches of chains; 1 for independent samples."""
        return 1.0 if self.lag is None else self.lag.length

    @property
    def n_test(self) -> int:
        """Samples that searched slices are tested on; all of them where nothing is searched for."""
        return sum(part.n for part in [part for part in self.parts if part.training] or self.parts)

    @property
    def n_train(self) -> int:
        """Samples that slices or locations were found on."""
        return sum(part.training.x.shape[0] for part in self.parts if part.training)

    @property
    def active(self) -> Slices | None:
        """All active slices of the first part that has some, in the caller's coordinates."""
        for part in self.parts:
            if part.active is not None:
                return part.active if part.metric is None else part.metric.to_user(part.active)[0]
        return None

    def arrays(self) -> list[Array]:
        """All samples and scores, for a session on a device."""
        # Parts without a metric are views of all samples.
        plain = any(part.metric is None for part in self.parts)
        records = [self.samples] if plain else []
        records += [part.tested for part in self.parts if part.metric is not None]
        records += [part.training for part in self.parts if part.training]
        return [array for one in records for array in (one.x, one.scores) if array is not None]


def make_split(plan: Plan, x: Array, score: Score, chains: Chains | None = None) -> Split:
    """Split the samples as the plan says, and put each part into its metric.

    Training samples are chosen at random; for chains they are the first draws of each, see
    `fastsksd.procedure.stretches`. Without `chains`, samples in their order are one chain.
    """
    n = x.shape[0]
    if not plan.needs_score:
        samples = Samples(x, None, np.arange(n))
        return Split(samples, (Part("all", slice(0, n), samples),), score)
    train = plan.train
    separate = train is not None and np.ndim(train) > 0
    n_train = _training_size(train, n) if train is not None and not separate else 0
    scores = evaluate_score(score, x)
    samples, lag, report = Samples(x, scores, np.arange(n), weights=plan.weights), None, None
    if plan.in_order:
        chains = chains or one_chain(n)
        samples, lag, n_train = _of_chains(plan, samples, chains, n_train)
        report = per_chain(x, scores, chains, lag)
    else:
        order = _order(plan, n, n_train)
        samples = samples if order is None else samples.chosen(order)
    n = samples.x.shape[0]
    parts = []
    if plan.fixed or train is None:
        parts.append(fixed_part(plan, samples))
    if separate:
        found_on = _separate(x, score, train)
        parts.append(trained_part("held out", slice(0, n), found_on, samples, plan))
    elif train is not None:
        head, tail = slice(0, n_train), slice(n_train, n)
        folds = [("held out", tail, head)]
        if is_cross(train):
            folds = [("half 1", head, tail), ("half 2", tail, head)]
        for name, tested, training in folds:
            parts.append(trained_part(name, tested, samples.chosen(training), samples, plan))
    return Split(samples, tuple(parts), score, lag, report)


def _of_chains(
    plan: Plan, samples: Samples, chains: Chains, n_train: int
) -> tuple[Samples, Lag, int]:
    """Draws of chains in stretches, how they were cut, and the number of training samples."""
    n, lengths = samples.x.shape[0], chains.lengths
    samples = samples.chosen(chains.order)
    if plan.lag is None:
        lag = choose_lag(samples.x, samples.scores, lengths)
    else:
        check_lag_fits(plan.lag, n)
        lag = given_lag(plan.lag, lengths)
    laid = lay_out(lengths, lag, n_train)
    if n_train and not 1 < laid.n_first < laid.rows.size - 1:
        raise ArgumentError(
            "train",
            f"leaves {laid.n_first} of {counted(laid.rows.size, 'draw')} for training; both parts "
            "need at least 2",
        )
    samples = samples.chosen(laid.rows)
    if lag.length > 1:
        samples = samples._replace(stretch=laid.stretch)
    return samples, lag, laid.n_first


def fixed_part(plan: Plan, samples: Samples) -> Part:
    """All samples, along slices known beforehand."""
    metric = metric_of_all(plan, samples)
    pools = plan.fixed
    if metric is not None:
        pools = tuple(
            pool
            if pool.kind == COORDINATES
            else pool._replace(slices=metric.from_user(pool.slices))
            for pool in pools
        )
    tested = _tested(plan, samples, samples, metric)
    return Part("all", slice(0, len(samples.x)), tested, metric, pools=pools)


def metric_of_all(plan: Plan, samples: Samples) -> Metric | None:
    """The metric of members that test all samples with slices known beforehand.

    The d units of "diagonal" may be learnt on all samples, those of "full" may not; see
    `fastsksd.procedure.metric`.
    """
    if not isinstance(plan.precondition, str):
        return metrics.given(plan.precondition)
    if plan.precondition == "raw":
        return None
    typical = samples.typical
    return metrics.diagonal(typical.x, cast(Array, typical.scores))


def trained_part(name: str, tested: slice, training: Samples, samples: Samples, plan: Plan) -> Part:
    """A stretch of the samples, along slices found on training samples, in their metric."""
    training = training.typical
    if plan.most_training is not None:
        training = training.at_most(plan.most_training)
    scores = cast(Array, training.scores)
    metric = None
    if not isinstance(plan.precondition, str):
        metric = metrics.given(plan.precondition)
    elif plan.precondition == "full":
        metric = metrics.full(training.x, scores)
    elif plan.precondition != "raw":
        metric = metrics.diagonal(training.x, scores)
    inside = _tested(plan, samples.chosen(tested), samples, metric)
    return Part(name, tested, inside, metric, training.within(metric))


def _tested(plan: Plan, part: Samples, samples: Samples, metric: Metric | None) -> Samples:
    """A part of the samples in its metric, unless they are many, and mapped block by block."""
    return part if plan.is_grouped(len(samples.x)) else part.within(metric)


def _training_size(train: object, n: int) -> int:
    n_train = n // 2 if is_cross(train) else count_of(train, n)
    if n_train < 2 or n - n_train < 2:
        raise ArgumentError(
            "train",
            f"splits {counted(n, 'sample')} into {n_train} for training and {n - n_train} for the "
            "test; both need at least 2",
            remedy="Give more samples, another fraction, or fixed slices.",
        )
    return n_train


def _order(plan: Plan, n: int, n_train: int) -> np.ndarray | None:
    """The order of independent samples, training samples first; None for the caller's.

    The standard family has folds in that order, so it is random throughout.
    """
    if plan.standard:
        return plan.rng.permutation(n)
    if n_train == 0:
        return None
    order = plan.rng.permutation(n)
    return np.concatenate([np.sort(order[:n_train]), np.sort(order[n_train:])])


def _separate(x: Array, score: Score, train: Array) -> Samples:
    """Separate training samples."""
    training = check_samples(train, "train", min_rows=2, d=x.shape[1])
    if score_is_array(score):
        raise ArgumentError(
            "score",
            "must be a callable or a model when ",
            Option("train"),
            " holds separate samples: an array covers ",
            Option("x"),
            " only",
        )
    return Samples(training, evaluate_score(score, training), np.arange(training.shape[0]))


def count_of(train: object, n: int) -> int:
    """Number of training samples from a fraction or a count."""
    if isinstance(train, (bool, np.bool_, str)):
        raise ArgumentTypeError(
            "train",
            "must be a fraction, a count, an array of samples or 'cross'; got "
            f"{type(train).__name__} {train!r}",
        )
    if isinstance(train, (int, np.integer)):
        if not 0 < train < n:
            raise ArgumentError(
                "train", f"must be at least 1 and less than the number of samples, {n}; got {train}"
            )
        return int(train)
    fraction = check_number("train", train, 0.0, strict=True)
    if fraction >= 1:
        raise ArgumentError(
            "train", f"must be a fraction between 0 and 1, or an integer count; got {train}"
        )
    return round(fraction * n)
