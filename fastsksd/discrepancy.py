"""The discrepancies: sliced (SKSD-g, SKSD-rg, integrated, orthogonal), with gradients, kernelized (KSD) and projected (PSD)."""

from typing import NamedTuple

import numpy as np

from ._validate import (
    check_choice,
    check_integer,
    check_names,
    check_rng,
    check_samples,
    check_score,
    check_statistic,
    evaluate_score,
)
from .compute.linalg import product
from .compute.projections import project
from .engines import TOLERANCE, Source, choose_engine, session, slice_gradients
from .engines.multivariate import ksd_pairs
from .engines.pairs import statistic as pair_statistic
from .kernels import as_kernel
from .score_difference import score_difference
from .slices import Slices, as_slices, check_basis, random_slices


class Estimate(NamedTuple):
    """A Monte Carlo value with its standard error."""

    value: float
    standard_error: float


def sksd(
    x, score, slices, *, kernel="rbf", statistic="u", per_slice=False, engine="auto", tol=TOLERANCE
):
    """Sliced kernelized Stein discrepancy: the sum over slices of ``mean_{ij} mu_ij``.

    With r running over an orthogonal basis this is SKSD-g, with a few active slices SKSD-rg.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    slices : Slices or pair (r, g)
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel; its bandwidth is the median distance along each slice unless given.
    statistic : {"u", "v"}
        Unbiased U-statistic (may be negative) or V-statistic (never negative).
    per_slice : bool
        Return one value for each slice instead of their sum.
    engine : {"auto", "direct", "fourier", "cuda", "cuda32"}
        Pair by pair, exact to round-off, or in time linear in n from Fourier series, exact to `tol`. "cuda" does either on a GPU, "cuda32" pair by
        pair in single precision, with errors of about 1e-6 of the terms. "auto" takes what is expected to be faster.
    tol : float
        Largest error of a Stein term with the Fourier engine, relative to the size of its parts.

    Returns
    -------
    float, or (m,) array when `per_slice`

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((300, 4))
    >>> slices = fs.Slices(np.eye(4), np.eye(4))
    >>> wrong, right = fs.sksd(x, lambda x: -x / 4, slices), fs.sksd(x, lambda x: -x, slices)
    >>> wrong > 10 * abs(right)
    True
    """
    x = check_samples(x, min_rows=2)
    slices = as_slices(slices, x.shape[1])
    check_choice("statistic", statistic, ("u", "v"))
    kernel = as_kernel(kernel)
    engine = choose_engine(engine, tol)
    scores = evaluate_score(check_score(score), x)
    with session(x, scores):
        pairs = engine(
            kernel.code,
            *project(x, scores, slices, kernel),
            source=Source(x, scores, slices.r, slices.g),
        )
    values = check_statistic(pair_statistic(pairs, pairs.sums(), statistic))
    return values if per_slice else float(values.sum())


def sksd_value_and_grad(
    x, score, slices, *, kernel="rbf", statistic="v", wrt=("score", "g", "r"), engine="auto"
):
    """`sksd` with its gradients in the scores, for training a model, and in the directions, for finding better ones.

    The bandwidths count as constants.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    slices : Slices or pair (r, g)
    kernel : {"rbf", "imq"} or kernel object
    statistic : {"u", "v"}
        The V-statistic is never negative, hence the default for a loss.
    wrt : sequence of names out of "score", "g", "r", "x", or one of them
        With respect to what.
    engine : {"auto", "direct", "cuda", "cuda32"}
        On the CPU or on a GPU, in double or single precision.

    Returns
    -------
    value : float
    gradients : dict
        "score": (n, d), the derivative in each sample's score, to be chained into the model's parameters; "g", "r": (m, d), with g and
        r as free vectors: on the sphere, take off the component along the vector itself; "x": (n, d), with the scores held constant.

    Examples
    --------
    A model ``N(c, 1)`` whose score is ``c - x``: one step against the gradient moves c to where the samples are.

    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((300, 2)) + 1.0
    >>> c = np.zeros(2)
    >>> value, gradients = fs.sksd_value_and_grad(x, c - x, fs.Slices(np.eye(2), np.eye(2)), wrt="score")
    >>> c = c - gradients["score"].sum(axis=0)
    >>> bool(fs.sksd(x, c - x, fs.Slices(np.eye(2), np.eye(2)), statistic="v") < 0.2 * value)
    True
    """
    x = check_samples(x, min_rows=2)
    slices = as_slices(slices, x.shape[1])
    check_choice("statistic", statistic, ("u", "v"))
    wrt = check_names("wrt", wrt, ("score", "g", "r", "x"))
    kernel = as_kernel(kernel)
    scores = evaluate_score(check_score(score), x)
    y, s, a, h = project(x, scores, slices, kernel)
    with session(x, scores):
        source = Source(x, scores, slices.r, slices.g)
        values, ds, dy, da = slice_gradients(engine, kernel.code, y, s, a, h, statistic, source)
    gradients = {
        "score": lambda: product(ds.T, slices.r.T),
        "g": lambda: product(dy, x.T) + da[:, None] * slices.r,
        "r": lambda: product(ds, scores.T) + da[:, None] * slices.g,
        "x": lambda: product(dy.T, slices.g.T),
    }
    return float(check_statistic(values).sum()), {
        name: check_statistic(gradients[name]()) for name in wrt
    }


def integrated_sksd(x, score, *, n_slices=100, kernel="rbf", statistic="u", rng=None):
    """Integrated SKSD: the mean over r and g uniform on the sphere, by Monte Carlo over `n_slices` pairs.

    Returns
    -------
    Estimate
        ``(value, standard_error)``; the error is that of the Monte Carlo over slices, given the samples.
    """
    x = check_samples(x, min_rows=2)
    n_slices = check_integer("n_slices", n_slices, 2)
    values = sksd(
        x,
        score,
        random_slices(x.shape[1], n_slices, rng=rng),
        kernel=kernel,
        statistic=statistic,
        per_slice=True,
    )
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_slices)))


def orthogonal_sksd(
    x, score, *, basis="identity", n_slices=100, kernel="rbf", statistic="u", rng=None
):
    """Orthogonal SKSD: for each r of a basis the mean over g uniform on the sphere (`n_slices` draws), summed over r.

    Returns
    -------
    Estimate
        ``(value, standard_error)``; the error is that of the Monte Carlo over g, given the samples.
    """
    x = check_samples(x, min_rows=2)
    d = x.shape[1]
    n_slices = check_integer("n_slices", n_slices, 2)
    basis = check_basis(basis, None, d)
    if basis is None:
        raise ValueError("`basis` must be 'identity' or an (m, d) array.")
    rng = check_rng(rng)
    scores = evaluate_score(check_score(score), x)
    value, variance = 0.0, 0.0
    for r in basis:
        g = random_slices(d, n_slices, rng=rng).g
        values = sksd(
            x,
            scores,
            Slices(np.tile(r, (n_slices, 1)), g),
            kernel=kernel,
            statistic=statistic,
            per_slice=True,
        )
        value += values.mean()
        variance += values.var(ddof=1) / n_slices
    return Estimate(float(value), float(np.sqrt(variance)))


def ksd(x, score, *, kernel="rbf", statistic="u"):
    """Kernelized Stein discrepancy with a multivariate kernel of the distance between samples.

    Parameters
    ----------
    x : (n, d) array
    score : (n, d) array, callable or model
    kernel : {"rbf", "imq"} or kernel object
        Its bandwidth is the median distance between samples unless given (between 2000 of them, drawn with a fixed seed, when
        there are more).
    statistic : {"u", "v"}

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((300, 2))
    >>> bool(fs.ksd(x, lambda x: -x / 4) > 10 * abs(fs.ksd(x, lambda x: -x)))
    True
    """
    x = check_samples(x, min_rows=2)
    check_choice("statistic", statistic, ("u", "v"))
    pairs, _ = ksd_pairs(x, evaluate_score(check_score(score), x), as_kernel(kernel))
    return float(check_statistic(pair_statistic(pairs, pairs.sums(), statistic))[0])


def psd(x, score, *, estimator="ke", score_q=None, basis="identity", kernel="rbf", debias=True):
    """Projected Stein discrepancy, ``sum_r E (r.f)^2`` with ``f = s_p - s_q``: the Fisher divergence for a whole basis.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    estimator, score_q, kernel, debias
        How the score difference is found; see `active_slices`. With "exact" this is a plain Monte Carlo mean; with "ke" f is
        smoothed by the kernel, so the value is smaller than the Fisher divergence.
    basis : "identity" or (m, d) array
        Directions r; the value does not depend on which orthogonal basis is taken.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((4000, 2))
    >>> shifted = fs.psd(x, lambda x: 0.5 - x, estimator="exact", score_q=lambda x: -x)
    >>> round(shifted, 6)
    0.5
    """
    x = check_samples(x, min_rows=2)
    basis = check_basis(basis, None, x.shape[1])
    difference = score_difference(
        x, check_score(score), estimator=estimator, score_q=score_q, kernel=kernel, debias=debias
    )
    moment = difference.second_moment(debias)
    return float(
        np.einsum("md,de,me->", basis, moment, basis) if basis is not None else np.trace(moment)
    )
