"""Which samples find slices and which test them: a split, separate training samples, or cross-fitting.

With cross-fitting every sample is used twice: slices found on either half are tested on the other. The statistics of the halves are
not added: under the null they depend on each other (both halves look along the same accidental directions), and the sum varies more
than its replicates say. They are members of one family instead. The smallest p-value is calibrated as if the halves were
independent, each at a level a with ``1 - (1 - a)^2 = alpha``; whatever the dependence, the union bound then holds the level at ``2 a``,
which is 0.0506 for alpha = 0.05.
"""

from typing import NamedTuple

import numpy as np

from .._validate import check_number, check_samples, evaluate_score, score_is_array


class Samples(NamedTuple):
    """Samples with their scores, and their rows in the caller's array.

    Attributes
    ----------
    x : (n, d) array
    scores : (n, d) array or None
        None for a method that needs no score.
    rows : (n,) array of int
    """

    x: np.ndarray
    scores: np.ndarray | None
    rows: np.ndarray


class Fold(NamedTuple):
    """Training samples with their scores, and the stretch of samples that their slices are tested on."""

    name: str
    x: np.ndarray
    scores: np.ndarray
    start: int
    stop: int


def is_cross(train):
    return isinstance(train, str) and train == "cross"


def make_folds(x, score, train, in_order, rng):
    """The samples, ordered so that each fold tests one stretch of them, their scores, the folds, and where the samples were before.

    Chosen at random, or for samples `in_order` the first stretch.
    """
    n, d = x.shape
    if train is None:
        return x, evaluate_score(score, x), [], np.arange(n)
    if np.ndim(train) > 0:
        training = check_samples(train, "train", min_rows=2, d=d)
        if score_is_array(score):
            raise ValueError(
                "`score` must be a callable or a model when `train` holds separate samples: an array covers `x` only."
            )
        held_out = Fold("held out", training, evaluate_score(score, training), 0, n)
        return x, evaluate_score(score, x), [held_out], np.arange(n)
    n_train = n // 2 if is_cross(train) else _count_of(train, n)
    if n_train < 2 or n - n_train < 2:
        raise ValueError(
            f"`train`={train!r} splits {n} samples into {n_train} for training and {n - n_train} for the test; both need at "
            "least 2. Give more samples, another `train`, or fixed `slices`."
        )
    order = np.arange(n) if in_order else rng.permutation(n)
    order = np.concatenate([np.sort(order[:n_train]), np.sort(order[n_train:])])
    x, scores = x[order], evaluate_score(score, x)[order]
    head, tail = (x[:n_train], scores[:n_train]), (x[n_train:], scores[n_train:])
    if not is_cross(train):
        return x, scores, [Fold("held out", *head, n_train, n)], order
    return x, scores, [Fold("half 1", *tail, 0, n_train), Fold("half 2", *head, n_train, n)], order


def _count_of(train, n):
    """Number of training samples from a fraction or a count."""
    if isinstance(train, (bool, np.bool_, str)):
        raise TypeError(
            f"`train` must be a fraction, a count, an array of samples or 'cross'; got {type(train).__name__} {train!r}."
        )
    if isinstance(train, (int, np.integer)):
        return int(train)
    share = check_number("train", train, 0.0, strict=True)
    if share >= 1:
        raise ValueError(
            f"`train` must be a fraction between 0 and 1, or an integer count; got {train}."
        )
    return round(share * n)
