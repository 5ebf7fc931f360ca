"""The discrepancies that a user calls.

Sliced (SKSD-g, SKSD-rg, integrated, orthogonal), with gradients; kernelized (KSD); projected (PSD).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ._doors import door
from ._typing import Array, ArrayLike, EngineName, KernelLike, Rng, Score, SlicesLike, Statistic
from ._validate import (
    ArgumentError,
    check_choice,
    check_flag,
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
from .engines import TOLERANCE, Source, check_pairwise, choose_engine, session, slice_gradients
from .engines.multivariate import ksd_pairs
from .engines.pairs import statistic as pair_statistic
from .kernels import as_kernel
from .score_difference import ScoreDifference, score_difference
from .slices import Slices, as_slices, check_basis, random_slices


class Estimate(NamedTuple):
    """A Monte Carlo value with its standard error.

    Parameters
    ----------
    value : float
        The value.
    standard_error : float
        Its standard error.
    """

    value: float
    standard_error: float


@door
def sksd(
    x: ArrayLike,
    score: Score,
    slices: SlicesLike,
    *,
    kernel: KernelLike = "rbf",
    statistic: Statistic = "u",
    per_slice: bool = False,
    engine: EngineName = "auto",
    tol: float = TOLERANCE,
) -> float | Array:
    """Sliced kernelized Stein discrepancy: the sum over slices of ``mean_ij mu_ij``.

    With r running over an orthogonal basis this is SKSD-g, with a few active slices SKSD-rg.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    slices : Slices or pair (r, g)
        Directions of the scores and of the samples.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel; its bandwidth is the median distance along each slice unless given.
    statistic : {"u", "v"}
        Which estimate of the mean over pairs:

        "u"
            The unbiased U-statistic, which may be negative.
        "v"
            The V-statistic, which is never negative.
    per_slice : bool
        Return one value for each slice instead of their sum.
    engine : {"auto", "direct", "fourier", "cuda", "cuda32"}
        How sums over pairs are computed:

        "auto"
            By the engine that is expected to be faster.
        "direct"
            Pair by pair, exact to round-off.
        "fourier"
            In time linear in n from Fourier series, exact to `tol`.
        "cuda"
            Either of these on a GPU.
        "cuda32"
            Pair by pair on a GPU in single precision, with errors of about 1e-6 of the terms.
    tol : float
        Largest error of a Stein term with the Fourier engine, relative to the size of its parts.

    Returns
    -------
    float or (m,) array
        The discrepancy, or one value for each slice with `per_slice`.

    Raises
    ------
    ValueError
        If samples, scores or options are not valid, or if the samples do not vary along a slice.

    See Also
    --------
    sksd_value_and_grad : The same with gradients.
    active_slices : Slices along which a model and samples differ most.
    gof_test : A test whose statistic this is.

    Notes
    -----
    With ``y = x.g``, ``s = score.r``, ``a = r.g`` and ``t = y_i - y_j``, the Stein term of a slice
    is ``mu_ij = s_i s_j k(t) + a (s_j - s_i) k'(t) - a^2 k''(t)``.

    References
    ----------
    Gong, W., Li, Y. and Hernandez-Lobato, J. M. (2021). Sliced kernelized Stein discrepancy. ICLR.

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
    check_flag("per_slice", per_slice)
    load = choose_engine(engine, tol)
    scores = evaluate_score(check_score(score), x)
    with session(x, scores):
        pairs = load(
            kernel.code,
            *project(x, scores, slices, kernel),
            source=Source(x, scores, slices.r, slices.g),
        )
    values = check_statistic(pair_statistic(pairs, pairs.sums(), statistic))
    return values if per_slice else float(values.sum())


@door
def sksd_value_and_grad(
    x: ArrayLike,
    score: Score,
    slices: SlicesLike,
    *,
    kernel: KernelLike = "rbf",
    statistic: Statistic = "v",
    wrt: str | Sequence[str] = ("score", "g", "r"),
    engine: EngineName = "auto",
) -> tuple[float, dict[str, Array]]:
    """`sksd` with its gradients in the scores and in the directions.

    Those in the scores train a model; those in the directions find better slices. Bandwidths count
    as constants.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    slices : Slices or pair (r, g)
        Directions of the scores and of the samples.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel; its bandwidth is the median distance along each slice unless given.
    statistic : {"u", "v"}
        U-statistic or V-statistic. The latter is never negative, hence the default for a loss.
    wrt : {"score", "g", "r", "x"} or sequence of them
        With respect to what.
    engine : {"auto", "direct", "cuda", "cuda32"}
        On the CPU or on a GPU, in double or single precision.

    Returns
    -------
    value : float
        The discrepancy.
    gradients : dict
        A gradient for each name in `wrt`:

        "score"
            (n, d), in each sample's score, to be chained into the model's parameters.
        "g", "r"
            (m, d), with g and r as free vectors. On the sphere, subtract the component along the
            vector itself.
        "x"
            (n, d), in each sample, with the scores held constant.

    Raises
    ------
    ValueError
        If samples, scores or options are not valid, or if the samples do not vary along a slice.

    See Also
    --------
    sksd : The value alone.
    refine_slices : Gradient ascent in the directions.

    Examples
    --------
    A model ``N(c, 1)`` has the score ``c - x``. A step against the gradient moves c to the samples:

    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((300, 2)) + 1.0
    >>> c, slices = np.zeros(2), fs.Slices(np.eye(2), np.eye(2))
    >>> value, gradients = fs.sksd_value_and_grad(x, c - x, slices, wrt="score")
    >>> c = c - gradients["score"].sum(axis=0)
    >>> bool(fs.sksd(x, c - x, slices, statistic="v") < 0.2 * value)
    True
    """
    x = check_samples(x, min_rows=2)
    slices = as_slices(slices, x.shape[1])
    check_choice("statistic", statistic, ("u", "v"))
    wrt = check_names("wrt", wrt, ("score", "g", "r", "x"))
    kernel = as_kernel(kernel)
    check_pairwise(engine)
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


@door
def integrated_sksd(
    x: ArrayLike,
    score: Score,
    *,
    n_slices: int = 100,
    kernel: KernelLike = "rbf",
    statistic: Statistic = "u",
    rng: Rng = None,
) -> Estimate:
    """Integrated SKSD: the mean over r and g uniform on the sphere, by Monte Carlo.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    n_slices : int
        Number of random pairs (r, g).
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel.
    statistic : {"u", "v"}
        U-statistic or V-statistic, see `sksd`.
    rng : None, int or numpy.random.Generator
        Source of the slices.

    Returns
    -------
    Estimate
        ``(value, standard_error)``. The error is that of the Monte Carlo over slices, given the
        samples.

    See Also
    --------
    orthogonal_sksd : With r from a basis.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((300, 3))
    >>> value, error = fs.integrated_sksd(x, lambda x: -x / 4, rng=0)
    >>> bool(value > 3 * error)
    True
    """
    x = check_samples(x, min_rows=2)
    n_slices = check_integer("n_slices", n_slices, 2)
    slices = random_slices(x.shape[1], n_slices, rng=rng)
    values = np.asarray(sksd(x, score, slices, kernel=kernel, statistic=statistic, per_slice=True))
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_slices)))


@door
def orthogonal_sksd(
    x: ArrayLike,
    score: Score,
    *,
    basis: Literal["identity"] | ArrayLike = "identity",
    n_slices: int = 100,
    kernel: KernelLike = "rbf",
    statistic: Statistic = "u",
    rng: Rng = None,
) -> Estimate:
    """Orthogonal SKSD: the sum over a basis r of the mean over g uniform on the sphere.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    basis : "identity" or (m, d) array
        Directions r.
    n_slices : int
        Number of random g for each r.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel.
    statistic : {"u", "v"}
        U-statistic or V-statistic, see `sksd`.
    rng : None, int or numpy.random.Generator
        Source of the directions g.

    Returns
    -------
    Estimate
        ``(value, standard_error)``. The error is that of the Monte Carlo over g, given the samples.

    See Also
    --------
    integrated_sksd : With random r.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((300, 3))
    >>> value, error = fs.orthogonal_sksd(x, lambda x: -x / 4, rng=0)
    >>> bool(value > 3 * error)
    True
    """
    x = check_samples(x, min_rows=2)
    d = x.shape[1]
    n_slices = check_integer("n_slices", n_slices, 2)
    directions = check_basis(basis, None, d)
    if directions is None:
        raise ArgumentError("basis", "must be 'identity' or an (m, d) array")
    rng = check_rng(rng)
    scores = evaluate_score(check_score(score), x)
    value, variance = 0.0, 0.0
    for r in directions:
        slices = Slices(np.tile(r, (n_slices, 1)), random_slices(d, n_slices, rng=rng).g)
        values = np.asarray(
            sksd(x, scores, slices, kernel=kernel, statistic=statistic, per_slice=True)
        )
        value += values.mean()
        variance += values.var(ddof=1) / n_slices
    return Estimate(float(value), float(np.sqrt(variance)))


@door
def ksd(
    x: ArrayLike, score: Score, *, kernel: KernelLike = "rbf", statistic: Statistic = "u"
) -> float:
    """Kernelized Stein discrepancy with a multivariate kernel of the distance between samples.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    kernel : {"rbf", "imq"} or kernel object
        Its bandwidth is the median distance between samples unless given. With more than 2000
        samples the median is over 2000 of them, drawn with a fixed seed.
    statistic : {"u", "v"}
        U-statistic or V-statistic, see `sksd`.

    Returns
    -------
    float
        The squared discrepancy.

    See Also
    --------
    sksd : The sliced discrepancy, which keeps its power in high dimension.

    References
    ----------
    Liu, Q., Lee, J. and Jordan, M. (2016). A kernelized Stein discrepancy for goodness-of-fit
    tests. ICML.

    Chwialkowski, K., Strathmann, H. and Gretton, A. (2016). A kernel test of goodness of fit. ICML.

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


@door
def psd(
    x: ArrayLike,
    score: Score,
    *,
    estimator: str | ScoreDifference = "ke",
    score_q: Score | None = None,
    basis: Literal["identity"] | ArrayLike = "identity",
    kernel: KernelLike = "rbf",
    debias: bool = True,
) -> float:
    """Projected Stein discrepancy, ``sum_r E (r.f)^2`` with ``f = s_p - s_q``.

    For a whole basis it is the Fisher divergence.

    Parameters
    ----------
    x : (n, d) array
        Samples from q.
    score : (n, d) array, callable or model
        Score of p.
    estimator : {"ke", "ksd", "ge", "exact"} or ScoreDifference
        How the score difference is found; see `active_slices`. With "exact" the result is a plain
        Monte Carlo mean. With "ke" f is smoothed by the kernel, so the value is smaller than the
        Fisher divergence.
    score_q : callable or model, optional
        Score of q, for "exact".
    basis : "identity" or (m, d) array
        Directions r. The value is the same for every orthogonal basis.
    kernel : "rbf" or RBF(bandwidth=...)
        Smoothing kernel of "ke", "ksd" and "ge".
    debias : bool
        Leave out the estimation noise ("ke", "ksd"); see `active_slices`.

    Returns
    -------
    float
        The discrepancy.

    See Also
    --------
    active_slices : The directions r in which it is largest.

    References
    ----------
    .. [1] W. Gong, K. Zhang, Y. Li and J. M. Hernandez-Lobato, "Active slices for sliced Stein
       discrepancy", ICML, 2021.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((4000, 2))
    >>> shifted = fs.psd(x, lambda x: 0.5 - x, estimator="exact", score_q=lambda x: -x)
    >>> round(shifted, 6)
    0.5
    """
    x = check_samples(x, min_rows=2)
    directions = check_basis(basis, None, x.shape[1])
    difference = score_difference(
        x, check_score(score), estimator=estimator, score_q=score_q, kernel=kernel, debias=debias
    )
    moment = difference.second_moment(debias)
    if directions is None:
        return float(np.trace(moment))
    return float(np.einsum("md,de,me->", directions, moment, directions))
