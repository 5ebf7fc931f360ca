"""Distributions with samples, scores and directional derivatives of the score (the test-beds of the experiments).

A score is ``s(x) = grad log p(x)``. Its derivative along a direction r is ``Hess(log p)(x) r``, which is all that the
exact slices of Algorithm 1 ask of a model: the Hessian is symmetric, so ``grad (r.s(x))`` is that same vector. Models
know it in closed form; a bare score function gets it by central differences.
"""

import math

import numpy as np

from ._validate import (
    check_choice,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    evaluate_score,
    frozen,
    real_array,
    score_is_array,
)
from .compute.gibbs import run_chains, ziggurat_edges
from .compute.streams import draw_seed

__all__ = ["ICA", "GaussBernRBM", "Gaussian", "GaussianMixture", "Laplace", "Model", "StudentT"]

COUPLINGS = {"half": 0.5, "full": 1.0}  # factor of x^T B h in the RBM's exponent
_UNIT_VARIANCE_LAPLACE = 1 / math.sqrt(2)
_LARGEST_CONDITION = 1e12  # beyond it W^-1 x keeps fewer than four digits


class Model:
    """Base of the models. A subclass sets `d` and defines `score`, and whatever else it knows.

    Attributes
    ----------
    d : int or None
        Dimension; None when any will do.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd import models
    >>> class Logistic(models.Model):
    ...     d = 2
    ...     def score(self, x):
    ...         return -np.tanh(x / 2)
    >>> Logistic().score_along([[0.0, 0.0]], [1.0, 0.0]).round(6) + 0.0
    array([[-0.5,  0. ]])
    """

    d = None

    def __repr__(self):
        return f"{type(self).__name__}(d={self.d})"

    def sample(self, n, *, rng=None):
        """Draw `n` samples, an (n, d) array. `rng` is None, an integer seed or a `numpy.random.Generator`."""
        raise NotImplementedError(f"{type(self).__name__} has no sampler.")

    def score(self, x):
        """Gradient of the log-density at each row of `x`, (n, d)."""
        raise NotImplementedError(f"{type(self).__name__} does not define its score.")

    def score_along(self, x, r):
        """Derivative of the score along `r` at each row of `x`, (n, d): the Hessian of the log-density times `r`.

        In closed form where the model has one, else by central differences of `score`. Their step balances
        truncation, judged by the spread of `x` along `r` (taken as 1 for a single row), against round-off, which grows
        with the size of each row: about ten digits are right for centred data.
        """
        x = self._check_points(x)
        r = _check_direction(r, x.shape[1])
        length = np.linalg.norm(r)
        if length == 0.0:
            return np.zeros_like(x)
        unit = r / length
        steps = _difference_steps(x, unit)[:, None]
        forward, backward = x + steps * unit, x - steps * unit
        return (
            (evaluate_score(self, forward) - evaluate_score(self, backward))
            / (2.0 * steps)
            * length
        )

    def log_density(self, x):
        """Log-density at each row of `x`, (n,)."""
        raise NotImplementedError(f"{type(self).__name__} does not define its log-density.")

    @staticmethod
    def from_score(score, d=None):
        """Model that knows nothing but its score.

        Parameters
        ----------
        score : callable
            Takes an (n, d) array, returns the scores of its rows, (n, d).
        d : int, optional
            Dimension. Any dimension is accepted when it is not given.

        Returns
        -------
        Model
            Its `score_along` uses central differences; it can't be sampled and has no log-density.

        Examples
        --------
        >>> from fastsksd import models
        >>> model = models.Model.from_score(lambda x: -2 * x)
        >>> model.score_along([[1.0, 5.0]], [1.0, 1.0]).round(6)
        array([[-2., -2.]])
        """
        return _ScoreModel(score, d)

    def _check_points(self, x):
        return check_samples(x, d=self.d)

    def _check_points_and_direction(self, x, r):
        return check_samples(x, d=self.d), _check_direction(r, self.d)


class _ScoreModel(Model):
    def __init__(self, score, d):
        if score_is_array(score):
            raise TypeError(f"`score` must be a callable x -> (n, d), not {type(score).__name__}.")
        self._score = score
        self.d = None if d is None else check_integer("d", d, 1)

    def __repr__(self):
        return f"Model.from_score(d={self.d})"

    def sample(self, n, *, rng=None):
        raise NotImplementedError(
            "A model made by Model.from_score knows only its score: it can't be sampled."
        )

    def score(self, x):
        return evaluate_score(self._score, self._check_points(x))

    def log_density(self, x):
        raise NotImplementedError(
            "A model made by Model.from_score knows only its score, not its log-density."
        )


class Gaussian(Model):
    """Normal distribution.

    Parameters
    ----------
    mean : float or (d,) array
        A number stands for every coordinate.
    cov : float, (d,) array or (d, d) array
        Covariance matrix, the variances of independent coordinates, or one variance for all.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.Gaussian([0.0, 0.0], [[2.0, 1.0], [1.0, 2.0]])
    >>> model
    Gaussian(d=2)
    >>> model.score([[1.0, 0.0]]).round(6)
    array([[-0.666667,  0.333333]])
    """

    def __init__(self, mean, cov):
        shape = real_array("mean", mean).shape or real_array("cov", cov).shape or (1,)
        self.d = shape[0]
        self.mean = _per_coordinate("mean", mean, self.d)
        self._cov = _Covariance("cov", cov, self.d)

    @property
    def cov(self):
        """Covariance matrix, (d, d)."""
        return self._cov.matrix()

    def sample(self, n, *, rng=None):
        n = check_integer("n", n, 1)
        return self.mean + self._cov.colour(check_rng(rng).standard_normal((n, self.d)))

    def score(self, x):
        return -self._cov.solve(self._check_points(x) - self.mean)

    def score_along(self, x, r):
        """Derivative of the score along `r`, (n, d): ``-cov^-1 r`` in every row."""
        x, r = self._check_points_and_direction(x, r)
        return np.tile(-self._cov.solve(r[None, :]), (x.shape[0], 1))

    def log_density(self, x):
        return self._cov.log_density(self._check_points(x) - self.mean)


class GaussianMixture(Model):
    """Mixture of normal distributions.

    Parameters
    ----------
    weights : (k,) array
        Positive, summing to one.
    means : (k, d) array
        One mean per component.
    covs : float or sequence of length k
        One covariance per component, each a (d, d) matrix, d variances, or one variance; a number is the variance of
        every coordinate of every component.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.GaussianMixture([0.5, 0.5], [[-2.0], [2.0]], 1.0)
    >>> model
    GaussianMixture(d=1, components=2)
    >>> model.score([[0.0], [2.0]]).round(3) + 0.0
    array([[ 0.   ],
           [-0.001]])
    """

    def __init__(self, weights, means, covs):
        self.means = _parameter("means", means, ("k", "d"))
        count, self.d = self.means.shape
        weights = _parameter("weights", weights, (count,))
        if np.any(weights <= 0):
            raise ValueError(f"`weights` must be positive; got {weights.min()}.")
        if abs(weights.sum() - 1.0) > 1e-6:
            raise ValueError(f"`weights` must sum to one; they sum to {weights.sum():.6g}.")
        self.weights = frozen(weights / weights.sum())
        covs = list(covs) if np.iterable(covs) else [covs] * count
        if len(covs) != count:
            raise ValueError(
                f"`covs` must hold one covariance for each of the {count} components; got {len(covs)}."
            )
        self._covs = [_Covariance(f"covs[{k}]", cov, self.d) for k, cov in enumerate(covs)]

    def __repr__(self):
        return f"GaussianMixture(d={self.d}, components={self.weights.size})"

    @property
    def covs(self):
        """Covariance matrices, (k, d, d)."""
        return np.stack([cov.matrix() for cov in self._covs])

    def sample(self, n, *, rng=None):
        n, rng = check_integer("n", n, 1), check_rng(rng)
        labels = rng.choice(self.weights.size, size=n, p=self.weights)
        x = rng.standard_normal((n, self.d))
        for k, cov in enumerate(self._covs):
            rows = labels == k
            x[rows] = self.means[k] + cov.colour(x[rows])
        return x

    def score(self, x):
        return self._responsibilities_and_scores(self._check_points(x))[2]

    def score_along(self, x, r):
        """Derivative of the score along `r`, (n, d).

        With responsibilities w_k and component scores s_k it is ``sum_k w_k (H_k r + (s_k - s) (s_k - s).r)``; the
        centred form loses no digits far from the components.
        """
        x, r = self._check_points_and_direction(x, r)
        share, scores, score = self._responsibilities_and_scores(x)
        scores -= score
        curved = np.einsum("kn,knd->nd", share * (scores @ r), scores)
        return curved - share.T @ np.concatenate([cov.solve(r[None, :]) for cov in self._covs])

    def log_density(self, x):
        joint = self._log_joint(self._check_points(x))
        top = joint.max(axis=0)
        return top + np.log(np.exp(joint - top).sum(axis=0))

    def _log_joint(self, x):
        parts = [
            cov.log_density(x - mean) for mean, cov in zip(self.means, self._covs, strict=True)
        ]
        return np.stack(parts) + np.log(self.weights)[:, None]

    def _responsibilities_and_scores(self, x):
        """Responsibilities (k, n), component scores (k, n, d) and the score of the mixture (n, d)."""
        joint = self._log_joint(x)
        share = np.exp(joint - joint.max(axis=0))
        share /= share.sum(axis=0)
        scores = np.stack(
            [-cov.solve(x - mean) for mean, cov in zip(self.means, self._covs, strict=True)]
        )
        return share, scores, np.einsum("kn,knd->nd", share, scores)


class _Factorised(Model):
    """Independent coordinates, ``(x - loc) / scale`` of each following one standard law.

    A subclass gives that law: its draws, log-density, and the log-density's first and second derivatives.
    """

    def __init__(self, d, scale, loc):
        self.d = check_integer("d", d, 1)
        self.scale = _per_coordinate("scale", scale, self.d)
        if np.any(self.scale <= 0):
            raise ValueError(f"`scale` must be positive; got {self.scale.min()}.")
        self.loc = _per_coordinate("loc", loc, self.d)

    def sample(self, n, *, rng=None):
        n = check_integer("n", n, 1)
        return self.loc + self.scale * self._draw(check_rng(rng), (n, self.d))

    def score(self, x):
        return self._slope(self._standardise(self._check_points(x))) / self.scale

    def score_along(self, x, r):
        x, r = self._check_points_and_direction(x, r)
        return self._curvature(self._standardise(x)) * (r / self.scale**2)

    def log_density(self, x):
        z = self._standardise(self._check_points(x))
        return self._log_law(z).sum(axis=1) - np.log(self.scale).sum()

    def _standardise(self, x):
        return (x - self.loc) / self.scale


class Laplace(_Factorised):
    """Independent Laplace coordinates.

    The score jumps at `loc`; `score_along` is zero, the derivative almost everywhere, and knows nothing of the jump.

    Parameters
    ----------
    d : int
        Dimension.
    scale : float or (d,) array
        Mean absolute deviation; the default gives unit variance.
    loc : float or (d,) array
        Centre.

    Examples
    --------
    >>> from fastsksd import models
    >>> models.Laplace(2, scale=0.5).score([[3.0, -1.0]])
    array([[-2.,  2.]])
    """

    def __init__(self, d, scale=_UNIT_VARIANCE_LAPLACE, loc=0.0):
        super().__init__(d, scale, loc)

    def _draw(self, rng, shape):
        return rng.laplace(size=shape)

    def _log_law(self, z):
        return -np.abs(z) - math.log(2.0)

    def _slope(self, z):
        return -np.sign(z)

    def _curvature(self, z):
        return np.zeros_like(z)


class StudentT(_Factorised):
    """Independent Student-t coordinates.

    Parameters
    ----------
    d : int
        Dimension.
    df : float
        Degrees of freedom. The variance is ``scale^2 df / (df - 2)`` where `df` exceeds 2, infinite otherwise.
    scale, loc : float or (d,) array
        Scale and centre.

    Examples
    --------
    >>> from fastsksd import models
    >>> models.StudentT(2, df=3).score([[1.0, 0.0]]) + 0.0
    array([[-1.,  0.]])
    """

    def __init__(self, d, df=5, scale=1.0, loc=0.0):
        super().__init__(d, scale, loc)
        self.df = check_number("df", df, 0, strict=True)

    def __repr__(self):
        return f"StudentT(d={self.d}, df={self.df:g})"

    def _draw(self, rng, shape):
        return rng.standard_t(self.df, size=shape)

    def _log_law(self, z):
        return _student_log_density(z, self.df)

    def _slope(self, z):
        return _student_slope(z, self.df)

    def _curvature(self, z):
        return _student_curvature(z, self.df)


class ICA(Model):
    """Linear mixture ``x = W z`` of independent Student-t sources.

    Parameters
    ----------
    W : (d, d) array
        Mixing matrix, invertible.
    df : float
        Degrees of freedom of the sources.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.ICA([[2.0, 0.0], [0.0, 1.0]], df=3)
    >>> model
    ICA(d=2, df=3)
    >>> model.score([[2.0, 0.0]]) + 0.0
    array([[-0.5,  0. ]])
    """

    def __init__(self, W, df=5):
        self.W = _parameter("W", W, ("d", "d"))
        if self.W.shape[0] != self.W.shape[1]:
            raise ValueError(f"`W` must be square; got shape {self.W.shape}.")
        self.d = self.W.shape[0]
        self.df = check_number("df", df, 0, strict=True)
        condition = np.linalg.cond(self.W)
        if not condition < _LARGEST_CONDITION:
            raise ValueError(f"`W` must be invertible; its condition number is {condition:.3g}.")
        self._unmixing = np.linalg.inv(self.W)
        self._log_det = np.linalg.slogdet(self.W)[1]

    def __repr__(self):
        return f"ICA(d={self.d}, df={self.df:g})"

    @classmethod
    def random(cls, d, *, df=5, rng=None):
        """Model with a random mixing matrix, from the generator of the published experiments.

        The entries of ``W^-1`` are standard normal, drawn afresh until its condition number is at most `d` (about 55
        draws when `d` is large).
        """
        d, rng = check_integer("d", d, 1), check_rng(rng)
        unmixing = rng.standard_normal((d, d))
        while np.linalg.cond(unmixing) > d:
            unmixing = rng.standard_normal((d, d))
        return cls(np.linalg.inv(unmixing), df)

    def sample(self, n, *, rng=None):
        n = check_integer("n", n, 1)
        return check_rng(rng).standard_t(self.df, size=(n, self.d)) @ self.W.T

    def score(self, x):
        return _student_slope(self._sources(self._check_points(x)), self.df) @ self._unmixing

    def score_along(self, x, r):
        x, r = self._check_points_and_direction(x, r)
        return (
            _student_curvature(self._sources(x), self.df) * (self._unmixing @ r)
        ) @ self._unmixing

    def log_density(self, x):
        return (
            _student_log_density(self._sources(self._check_points(x)), self.df).sum(axis=1)
            - self._log_det
        )

    def _sources(self, x):
        return x @ self._unmixing.T


class GaussBernRBM(Model):
    """Gaussian-Bernoulli restricted Boltzmann machine.

    ``p(x)`` is proportional to ``sum_h exp(kappa x^T B h + b^T x + c^T h - |x|^2 / 2)`` over h in {-1, +1}^d_hidden.

    Parameters
    ----------
    B : (d, d_hidden) array
        Couplings.
    b : (d,) array
        Visible bias.
    c : (d_hidden,) array
        Hidden bias.
    coupling : {"half", "full"}
        ``kappa = 1/2``, the test-bed behind the published numbers, or ``kappa = 1``, as the paper prints it.

    Notes
    -----
    Chains mix slowly when the columns of B are long. With d = 50, d_hidden = 40, entries +-1 and the half coupling, a hidden
    unit flips about once in 30000 steps after the first thousand: most samples sit in a mode that their chain found early,
    and the weights of the modes are not those of the model. Scores are blind to these weights; moments are not.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.GaussBernRBM.random(5, 3, rng=0)
    >>> model
    GaussBernRBM(d=5, d_hidden=3, coupling='half')
    >>> model.sample(100, burn_in=50, rng=0).shape
    (100, 5)
    """

    def __init__(self, B, b, c, coupling="half"):
        self.B = _parameter("B", B, ("d", "d_hidden"))
        self.d, self.d_hidden = self.B.shape
        self.b = _parameter("b", b, (self.d,))
        self.c = _parameter("c", c, (self.d_hidden,))
        self.coupling = check_choice("coupling", coupling, COUPLINGS)
        self._coupled = frozen(COUPLINGS[coupling] * self.B)

    def __repr__(self):
        return f"GaussBernRBM(d={self.d}, d_hidden={self.d_hidden}, coupling={self.coupling!r})"

    @classmethod
    def random(cls, d, d_hidden, *, rng=None, coupling="half"):
        """Model with entries of B uniform on {-1, +1} and standard normal biases."""
        d, d_hidden, rng = (
            check_integer("d", d, 1),
            check_integer("d_hidden", d_hidden, 1),
            check_rng(rng),
        )
        b, c = rng.standard_normal(d), rng.standard_normal(d_hidden)
        return cls(rng.choice([-1.0, 1.0], size=(d, d_hidden)), b, c, coupling)

    def perturbed(self, std, *, rng=None):
        """Copy with Gaussian noise of standard deviation `std` added to every entry of B."""
        std, rng = check_number("std", std, 0), check_rng(rng)
        return type(self)(
            self.B + std * rng.standard_normal(self.B.shape), self.b, self.c, self.coupling
        )

    def sample(self, n, *, burn_in=2000, rng=None):
        """Draw `n` samples by block Gibbs sampling, each from a chain of its own.

        Parameters
        ----------
        n : int
            Number of chains, and of samples.
        burn_in : int
            Steps each chain takes from its start, x standard normal. The sample is the state after the last.
        rng : None, int or numpy.random.Generator
            Decides the result together with `n` and `burn_in`; the number of threads does not.

        Returns
        -------
        (n, d) array
        """
        n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 1)
        return self._run_chains(np.full(n, burn_in), rng)

    def burn_in_samples(self, n, *, burn_in=2000, rng=None):
        """States met on the way to equilibrium, to train slices on; they do not follow the model and are not for testing.

        Parameters
        ----------
        n : int
            Number of states. Each comes from a chain of its own, so that they are independent of one another.
        burn_in : int
            The states are spread evenly over the steps 1 to `burn_in`, row 0 after the first.
        rng : None, int or numpy.random.Generator
            Decides the result together with `n` and `burn_in`; the number of threads does not. Chains repeat those of
            `sample` when both get the same integer: share a generator, or use two seeds.

        Returns
        -------
        (n, d) array
        """
        n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 1)
        return self._run_chains(1 + np.arange(n) * burn_in // n, rng)

    def score(self, x):
        x = self._check_points(x)
        return self.b - x + np.tanh(self._fields(x)) @ self._coupled.T

    def score_along(self, x, r):
        x, r = self._check_points_and_direction(x, r)
        slope = 1.0 - np.tanh(self._fields(x)) ** 2
        return (slope * (r @ self._coupled)) @ self._coupled.T - r

    def log_density(self, x):
        """Unnormalised log-density at each row of `x`, (n,): the partition function is not included."""
        x = self._check_points(x)
        fields = np.abs(self._fields(x))
        log_2cosh = fields + np.log1p(np.exp(-2.0 * fields))
        return x @ self.b - 0.5 * np.einsum("nd,nd->n", x, x) + log_2cosh.sum(axis=1)

    def _fields(self, x):
        return x @ self._coupled + self.c

    def _run_chains(self, steps, rng):
        # Given h, the field of the hidden units is c + K^T b + K^T K h + K^T e with K = kappa B and e standard normal.
        # By the QR decomposition of K, K^T e is R^T z with z standard normal of length min(d, d_hidden): the chain
        # runs in h alone, and x is drawn once, at the end.
        coupled = self._coupled
        return run_chains(
            draw_seed(check_rng(rng)),
            steps.astype(np.int64),
            self.b,
            self.c,
            self.b @ coupled,
            np.ascontiguousarray(coupled.T),
            np.ascontiguousarray(np.linalg.qr(coupled, mode="r").T),
            coupled.T @ coupled,
            ziggurat_edges(),
        )


class _Covariance:
    """A covariance by its Cholesky factor, or by standard deviations when coordinates are independent."""

    def __init__(self, name, value, d):
        value = real_array(name, value)
        if value.ndim < 2:
            variances = _per_coordinate(name, value, d)
            if np.any(variances <= 0):
                raise ValueError(f"`{name}` must hold positive variances; got {variances.min()}.")
            self._factor = frozen(np.sqrt(variances))
        else:
            self._factor = frozen(_cholesky(name, _parameter(name, value, (d, d))))
        self._diagonal = self._factor.ndim == 1
        self._log_det = (
            2.0 * np.log(self._factor if self._diagonal else np.diag(self._factor)).sum()
        )

    def matrix(self):
        return np.diag(self._factor**2) if self._diagonal else self._factor @ self._factor.T

    def colour(self, z):
        """Rows with this covariance from standard rows."""
        return z * self._factor if self._diagonal else z @ self._factor.T

    def solve(self, rows):
        """The inverse covariance times each row."""
        if self._diagonal:
            return rows / self._factor**2
        from scipy.linalg import cho_solve

        return np.ascontiguousarray(cho_solve((self._factor, True), rows.T).T)

    def log_density(self, rows):
        """Log-density of the centred normal distribution at each row."""
        if self._diagonal:
            white = rows / self._factor
        else:
            from scipy.linalg import solve_triangular

            white = solve_triangular(self._factor, rows.T, lower=True).T
        return -0.5 * (
            np.einsum("nd,nd->n", white, white)
            + self._log_det
            + rows.shape[1] * math.log(2.0 * math.pi)
        )


def _cholesky(name, matrix):
    asymmetry = np.abs(matrix - matrix.T).max()
    if asymmetry > 1e-8 * np.abs(matrix).max():
        raise ValueError(
            f"`{name}` must be symmetric; entries differ from their mirror images by up to {asymmetry:.3g}."
        )
    try:
        return np.linalg.cholesky(0.5 * (matrix + matrix.T))
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ValueError(
            f"`{name}` must be positive definite; its smallest eigenvalue is {smallest:.3g}."
        ) from None


# The law of one Student-t coordinate, in forms that neither overflow nor cancel for large |z|.


def _student_log_density(z, df):
    constant = math.lgamma(0.5 * (df + 1.0)) - math.lgamma(0.5 * df) - 0.5 * math.log(df * math.pi)
    return constant - (df + 1.0) * np.log(np.hypot(1.0, z / math.sqrt(df)))


def _student_slope(z, df):
    root = np.hypot(1.0, z / math.sqrt(df))
    return -(df + 1.0) / df * (z / root / root)


def _student_curvature(z, df):
    share = (1.0 / np.hypot(1.0, z / math.sqrt(df))) ** 2
    return -(df + 1.0) / df * share * (2.0 * share - 1.0)


def _difference_steps(x, unit):
    """Step of a central difference along `unit` for each row of `x`.

    With L the length over which the score bends and m the size of a row, the error is about ``(t/L)^2 + eps m / t``,
    least near ``t = (eps m L^2)^(1/3)``. L is judged by the spread of the rows, by a quantile since tails may be heavy.
    """
    y = x @ unit
    deviations = np.abs(y - np.median(y))
    spread = np.quantile(deviations, 0.75) or deviations.max() or 1.0
    size = np.abs(x).max(axis=1)
    return spread * np.cbrt(np.finfo(float).eps * np.maximum(size / spread, 1.0))


def _check_direction(r, d):
    r = real_array("r", r)
    if r.shape != (d,):
        raise ValueError(f"`r` must be a vector of length {d}; got shape {r.shape}.")
    if not np.all(np.isfinite(r)):
        raise ValueError("`r` holds NaN or infinity.")
    return r


def _parameter(name, value, shape):
    """A read-only copy of `value`, finite and of the given shape; a name in `shape` stands for any length but zero."""
    array = real_array(name, value)
    fits = array.size > 0 and array.ndim == len(shape)
    if not fits or any(
        size != wanted
        for size, wanted in zip(array.shape, shape, strict=True)
        if not isinstance(wanted, str)
    ):
        wanted = ", ".join(str(size) for size in shape) + ("," if len(shape) == 1 else "")
        raise ValueError(f"`{name}` must have shape ({wanted}); got {array.shape}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{name}` holds NaN or infinity.")
    return frozen(array)


def _per_coordinate(name, value, d):
    """`value` as a vector of length d; a number stands for every coordinate."""
    value = real_array(name, value)
    return _parameter(name, np.full(d, value) if value.ndim == 0 else value, (d,))
