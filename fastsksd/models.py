"""Models: distributions with samples, scores and Hessian-vector products, for examples, tests and the paper's experiments.

Every model has ``sample(n, rng=...)``, ``score(x) = grad log p(x)``, ``score_along(x, r) = Hess(log p)(x) r`` (the derivative of
the score along r, since the Hessian is symmetric) and ``log_density(x)`` where it exists.
"""

import functools
import math

import numba
import numpy as np

from ._jit import bits_to_unit, compiled, draw_seed, exp_nonpositive, parallel, prefer_wide_vectors, stream_bits, stream_key
from ._validate import check_choice, check_integer, check_number, check_rng, check_samples, evaluate_score

__all__ = ["ICA", "GaussBernRBM", "Gaussian", "GaussianMixture", "Laplace", "Model", "StudentT"]

_LANES = 32  # Gibbs chains advanced together by one task


class Model:
    """Base of all models. A subclass sets `d` and defines at least `score`.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> model = fs.Model.from_score(lambda x: -x**3)
    >>> model.score_along(np.array([[1.0, 2.0]]), [0.0, 1.0]).round(4)
    array([[  0., -12.]])
    """

    d = None

    @staticmethod
    def from_score(score, d=None):
        """A model known through its score function alone; `score_along` is then a central difference."""
        return _ScoreModel(score, d)

    def sample(self, n, *, rng=None):
        """`n` independent samples, (n, d)."""
        raise NotImplementedError(f"{type(self).__name__} has no sampler.")

    def score(self, x):
        """``grad log p`` at each row of `x`, (n, d)."""
        raise NotImplementedError(f"{type(self).__name__} has no score.")

    def score_along(self, x, r):
        """Derivative of the score along `r` at each row of `x`, (n, d): by central differences of two score calls."""
        x = check_samples(x, d=self.d)
        r = _direction(r, x.shape[1])
        length = np.linalg.norm(r)
        if length == 0:
            return np.zeros_like(x)
        spread = x.std() if x.shape[0] > 1 else 1.0
        step = np.cbrt(np.finfo(float).eps) * (np.abs(x).max(axis=1, keepdims=True) + (spread if spread > 0 else 1.0))
        shift = step * (r / length)
        ahead, behind = evaluate_score(self, x + shift), evaluate_score(self, x - shift)
        return (ahead - behind) * (length / (2.0 * step))

    def log_density(self, x):
        """Log-density at each row of `x`, (n,)."""
        raise NotImplementedError(f"{type(self).__name__} has no log-density.")

    def __repr__(self):
        return f"{type(self).__name__}(d={self.d})"


class _ScoreModel(Model):
    def __init__(self, score, d):
        if not callable(score):
            raise TypeError(f"`score` must be a callable x -> (n, d), not {type(score).__name__}.")
        self.score = score
        self.d = None if d is None else check_integer("d", d, 1)

    def __repr__(self):
        return f"Model.from_score({getattr(self.score, '__name__', 'score')})"


class Gaussian(Model):
    """Normal distribution.

    Parameters
    ----------
    mean : (d,) array or float
    cov : (d, d) array, (d,) array of variances, or float

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.models.Gaussian([0.0, 1.0], 2.0).score([[0.0, 3.0]])
    array([[ 0., -1.]])
    """

    def __init__(self, mean, cov):
        mean, cov = _array("mean", mean), _array("cov", cov)
        if mean.ndim > 1:
            raise ValueError(f"`mean` must be a number or a one-dimensional array; got shape {mean.shape}.")
        sizes = {array.shape[0] for array in (mean, cov) if array.ndim}
        if len(sizes) > 1:
            raise ValueError(f"`mean` has {mean.size} entries but `cov` has shape {cov.shape}.")
        self.d = sizes.pop() if sizes else 1
        self.mean = np.broadcast_to(mean, self.d).copy()
        self.cov, self._factor = _covariance("cov", cov, self.d)
        self.precision = np.linalg.inv(self.cov)

    def sample(self, n, *, rng=None):
        return self.mean + check_rng(rng).standard_normal((check_integer("n", n, 1), self.d)) @ self._factor.T

    def score(self, x):
        return (self.mean - check_samples(x, d=self.d)) @ self.precision

    def score_along(self, x, r):
        return np.tile(-self.precision @ _direction(r, self.d), (check_samples(x, d=self.d).shape[0], 1))

    def log_density(self, x):
        x = check_samples(x, d=self.d)
        return _gaussian_log_density(x - self.mean, self._factor)


class _Factorised(Model):
    """Independent coordinates of one shape, shifted by `loc` and scaled by `scale`."""

    def __init__(self, d, scale, loc):
        self.d = check_integer("d", d, 1)
        self.scale = check_number("scale", scale, 0.0, strict=True)
        self.loc = _array("loc", loc)
        if self.loc.shape not in ((), (self.d,)):
            raise ValueError(f"`loc` must be a number or have {self.d} entries; got shape {self.loc.shape}.")

    def _standard(self, x):
        return (check_samples(x, d=self.d) - self.loc) / self.scale


class Laplace(_Factorised):
    """Independent Laplace coordinates; the default scale has unit variance.

    The density has a kink at `loc`: the score is ``-sign / scale`` and its derivative 0 almost everywhere.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.models.Laplace(2, scale=0.5).score([[3.0, -1.0]])
    array([[-2.,  2.]])
    """

    def __init__(self, d, scale=1 / math.sqrt(2), loc=0.0):
        super().__init__(d, scale, loc)

    def sample(self, n, *, rng=None):
        return self.loc + self.scale * check_rng(rng).laplace(size=(check_integer("n", n, 1), self.d))

    def score(self, x):
        return -np.sign(self._standard(x)) / self.scale

    def score_along(self, x, r):
        _direction(r, self.d)
        return np.zeros_like(check_samples(x, d=self.d))

    def log_density(self, x):
        return -np.abs(self._standard(x)).sum(axis=1) - self.d * math.log(2 * self.scale)


class StudentT(_Factorised):
    """Independent Student-t coordinates with `df` degrees of freedom.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.models.StudentT(1, df=5).score([[1.0]])
    array([[-1.]])
    """

    def __init__(self, d, df=5.0, scale=1.0, loc=0.0):
        super().__init__(d, scale, loc)
        self.df = check_number("df", df, 0.0, strict=True)

    def sample(self, n, *, rng=None):
        return self.loc + self.scale * check_rng(rng).standard_t(self.df, size=(check_integer("n", n, 1), self.d))

    def score(self, x):
        return _t_score(self._standard(x), self.df) / self.scale

    def score_along(self, x, r):
        return _t_curvature(self._standard(x), self.df) / self.scale**2 * _direction(r, self.d)

    def log_density(self, x):
        return _t_log_density(self._standard(x), self.df) - self.d * math.log(self.scale)


class GaussBernRBM(Model):
    """Restricted Boltzmann machine with Gaussian visible and binary (-1, +1) hidden units.

    ``p(x, h) ~ exp(kappa x.B h + b.x + c.h - |x|^2 / 2)``. The paper prints kappa = 1 (and ``c.x`` for ``c.h``); the test-bed behind
    published numbers has kappa = 1/2.

    Parameters
    ----------
    B : (d, d_hidden) array
    b : (d,) array
    c : (d_hidden,) array
    coupling : {"half", "full"}
        kappa = 1/2 or 1.

    Examples
    --------
    >>> import fastsksd as fs
    >>> rbm = fs.models.GaussBernRBM.random(5, 3, rng=0)
    >>> rbm.sample(10, burn_in=50, rng=1).shape
    (10, 5)
    """

    def __init__(self, B, b, c, coupling="half"):
        self.B = check_samples(B, "B")
        self.d, self.d_hidden = self.B.shape
        self.b, self.c = _array("b", b), _array("c", c)
        for name, array, size in (("b", self.b, self.d), ("c", self.c, self.d_hidden)):
            if array.shape != (size,):
                raise ValueError(f"`{name}` must have shape ({size},) to go with `B` of shape {self.B.shape}; got {array.shape}.")
        self.coupling = check_choice("coupling", coupling, ("half", "full"))
        self._kappa = 0.5 if coupling == "half" else 1.0

    @classmethod
    def random(cls, d, d_hidden, *, coupling="half", rng=None):
        """Entries of B uniform in {-1, +1}, b and c standard normal."""
        d, d_hidden, rng = check_integer("d", d, 1), check_integer("d_hidden", d_hidden, 1), check_rng(rng)
        B = rng.choice([-1.0, 1.0], size=(d, d_hidden))
        return cls(B, rng.standard_normal(d), rng.standard_normal(d_hidden), coupling)

    def perturbed(self, std, *, rng=None):
        """The same machine with Gaussian noise of standard deviation `std` added to B."""
        noise = check_rng(rng).standard_normal(self.B.shape)
        return GaussBernRBM(self.B + check_number("std", std, 0.0) * noise, self.b, self.c, self.coupling)

    def sample(self, n, *, burn_in=2000, rng=None):
        """Last states of `n` independent chains of block Gibbs sampling after `burn_in` steps."""
        n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 1)
        return self._gibbs(n, burn_in, 0, check_rng(rng))[0]

    def burn_in_samples(self, n, *, burn_in=2000, rng=None):
        """`n` pseudo-samples for slice search: one chain's states spread evenly over its burn-in.

        They are correlated and not yet from the model, so they must not be tested.
        """
        n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 1)
        return self._gibbs(-(-n // burn_in), burn_in, 1, check_rng(rng))[1].reshape(-1, self.d)[:n]

    def _gibbs(self, chains, steps, keep, rng):
        start = rng.standard_normal((chains, self.d))
        return _gibbs(draw_seed(rng), start, self._kappa * self.B, self.b, self.c, steps, keep, *_ziggurat())

    def _fields(self, x):
        x = check_samples(x, d=self.d)
        return x, self._kappa * (x @ self.B) + self.c

    def score(self, x):
        x, fields = self._fields(x)
        return self.b - x + self._kappa * (np.tanh(fields) @ self.B.T)

    def score_along(self, x, r):
        x, fields = self._fields(x)
        r = _direction(r, self.d)
        return -r + self._kappa**2 * ((1.0 - np.tanh(fields) ** 2) * (r @ self.B)) @ self.B.T

    def log_density(self, x):
        """Log-density up to a constant."""
        x, fields = self._fields(x)
        return x @ self.b - 0.5 * np.sum(x * x, axis=1) + np.logaddexp(fields, -fields).sum(axis=1)

    def __repr__(self):
        return f"GaussBernRBM(d={self.d}, d_hidden={self.d_hidden}, coupling={self.coupling!r})"


class ICA(Model):
    """Independent component analysis: ``x = W z`` with independent Student-t(df) coordinates z.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.models.ICA([[2.0]]).score([[2.0]])
    array([[-0.5]])
    """

    def __init__(self, W, df=5.0):
        self.W = check_samples(W, "W")
        self.d = self.W.shape[0]
        self.df = check_number("df", df, 0.0, strict=True)
        if self.W.shape != (self.d, self.d) or not np.linalg.cond(self.W) < 1e12:
            raise ValueError(f"`W` must be a square, invertible matrix; got shape {self.W.shape}, condition {np.linalg.cond(self.W):.3g}.")
        self.W_inverse = np.linalg.inv(self.W)

    @classmethod
    def random(cls, d, *, df=5.0, rng=None):
        """W^-1 with standard normal entries, drawn again until its condition number is below `d` (at least 10 allowed)."""
        d, rng = check_integer("d", d, 1), check_rng(rng)
        while True:
            inverse = rng.standard_normal((d, d))
            if np.linalg.cond(inverse) < max(d, 10):
                return cls(np.linalg.inv(inverse), df)

    def sample(self, n, *, rng=None):
        return check_rng(rng).standard_t(self.df, size=(check_integer("n", n, 1), self.d)) @ self.W.T

    def _sources(self, x):
        return check_samples(x, d=self.d) @ self.W_inverse.T

    def score(self, x):
        return _t_score(self._sources(x), self.df) @ self.W_inverse

    def score_along(self, x, r):
        return (_t_curvature(self._sources(x), self.df) * (self.W_inverse @ _direction(r, self.d))) @ self.W_inverse

    def log_density(self, x):
        return _t_log_density(self._sources(x), self.df) + np.linalg.slogdet(self.W_inverse)[1]


class GaussianMixture(Model):
    """Mixture of normal distributions.

    Parameters
    ----------
    weights : (k,) array
        Non-negative, summing to one.
    means : (k, d) array
    covs : (k, d, d) array, or what `Gaussian` takes for one covariance shared by all

    Examples
    --------
    >>> import fastsksd as fs
    >>> mixture = fs.models.GaussianMixture([0.5, 0.5], [[-2.0], [2.0]], 1.0)
    >>> mixture.score([[0.0]])
    array([[0.]])
    """

    def __init__(self, weights, means, covs=1.0):
        self.means = check_samples(means, "means")
        k, self.d = self.means.shape
        self.weights = _array("weights", weights)
        if self.weights.shape != (k,):
            raise ValueError(f"`weights` must have one entry for each of {k} means; got shape {self.weights.shape}.")
        if np.any(self.weights < 0) or abs(self.weights.sum() - 1.0) > 1e-8:
            raise ValueError(f"`weights` must be non-negative and sum to one; they sum to {self.weights.sum():.6g}.")
        covs = _array("covs", covs)
        if covs.ndim == 3 and covs.shape[0] != k:
            raise ValueError(f"`covs` has {covs.shape[0]} matrices for {k} means.")
        parts = [_covariance("covs", cov, self.d) for cov in (covs if covs.ndim == 3 else [covs] * k)]
        self.covs, self._factors = (np.stack(field) for field in zip(*parts, strict=True))
        self.precisions = np.linalg.inv(self.covs)

    def sample(self, n, *, rng=None):
        rng = check_rng(rng)
        component = rng.choice(self.weights.size, size=check_integer("n", n, 1), p=self.weights / self.weights.sum())
        return self.means[component] + np.einsum("nij,nj->ni", self._factors[component], rng.standard_normal((n, self.d)))

    def _parts(self, x):
        """Log-density, responsibilities (k, n) and component scores (k, n, d)."""
        x = check_samples(x, d=self.d)
        with np.errstate(divide="ignore"):
            logs = np.log(self.weights)[:, None] + np.stack(
                [_gaussian_log_density(x - mean, factor) for mean, factor in zip(self.means, self._factors, strict=True)]
            )
        total = np.logaddexp.reduce(logs, axis=0)
        return total, np.exp(logs - total), (self.means[:, None] - x) @ self.precisions

    def score(self, x):
        _, shares, scores = self._parts(x)
        return np.einsum("kn,knd->nd", shares, scores)

    def score_along(self, x, r):
        r = _direction(r, self.d)
        _, shares, scores = self._parts(x)
        along = scores @ r
        mean = np.einsum("kn,knd->nd", shares, scores)
        spread = np.einsum("kn,knd->nd", shares * along, scores) - np.einsum("kn,kn->n", shares, along)[:, None] * mean
        return spread - shares.T @ (self.precisions @ r)

    def log_density(self, x):
        return self._parts(x)[0]


def _array(name, value):
    array = np.array(value, dtype=float)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{name}` must be finite.")
    return array


def _direction(r, d):
    r = _array("r", r)
    if r.shape != (d,):
        raise ValueError(f"`r` must be a direction with {d} entries; got shape {r.shape}.")
    return r


def _covariance(name, cov, d):
    """Covariance matrix and its Cholesky factor from a matrix, variances or one variance."""
    if cov.ndim < 2:
        cov = np.diag(np.broadcast_to(cov, d)) if cov.shape in ((), (d,)) else cov
    if cov.shape != (d, d):
        raise ValueError(f"`{name}` must be a ({d}, {d}) matrix, {d} variances or a number; got shape {cov.shape}.")
    if not np.allclose(cov, cov.T, rtol=1e-8, atol=1e-12 * np.abs(cov).max()):
        raise ValueError(f"`{name}` must be symmetric.")
    try:
        return cov, np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        raise ValueError(f"`{name}` must be positive definite.") from None


def _gaussian_log_density(centred, factor):
    z = np.linalg.solve(factor, centred.T)
    return -0.5 * np.sum(z * z, axis=0) - np.log(np.diag(factor)).sum() - 0.5 * centred.shape[1] * math.log(2 * math.pi)


def _t_score(z, df):
    return -(df + 1.0) * z / (df + z * z)


def _t_curvature(z, df):
    return -(df + 1.0) * (df - z * z) / (df + z * z) ** 2


def _t_log_density(z, df):
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    return np.sum(constant - 0.5 * (df + 1) * np.log1p(z * z / df), axis=1)


@functools.cache
def _ziggurat():
    """Edges of 256 layers of equal area under ``exp(-x^2 / 2)``, and the heights there (Marsaglia and Tsang 2000)."""
    tail, area = 3.6541528853610088, 0.00492867323399
    edges = np.zeros(257)
    edges[0], edges[1] = area / math.exp(-0.5 * tail**2), tail
    for i in range(2, 256):
        edges[i] = math.sqrt(-2.0 * math.log(area / edges[i - 1] + math.exp(-0.5 * edges[i - 1] ** 2)))
    return edges, np.exp(-0.5 * edges**2)


@compiled
def _normal(key, counter, edges, heights):
    """A standard normal from the stream; returns it with the advanced counter."""
    while True:
        bits = stream_bits(key, counter)
        counter += np.uint64(1)
        layer = np.int64(bits & np.uint64(255))
        sign = 1.0 if bits & np.uint64(256) else -1.0
        x = bits_to_unit(bits) * edges[layer]
        if x < edges[layer + 1]:
            return sign * x, counter
        extra = 1.0 - bits_to_unit(stream_bits(key, counter))
        counter += np.uint64(1)
        if layer == 0:
            beyond = -math.log(extra) / edges[1]
            other = 1.0 - bits_to_unit(stream_bits(key, counter))
            counter += np.uint64(1)
            while -2.0 * math.log(other) < beyond * beyond:
                beyond = -math.log(1.0 - bits_to_unit(stream_bits(key, counter))) / edges[1]
                other = 1.0 - bits_to_unit(stream_bits(key, counter + np.uint64(1)))
                counter += np.uint64(2)
            return sign * (edges[1] + beyond), counter
        if heights[layer] + extra * (heights[layer + 1] - heights[layer]) < math.exp(-0.5 * x * x):
            return sign * x, counter


@compiled
def _accumulate(out, factor, row):
    prefer_wide_vectors()
    for lane in range(out.size):
        out[lane] += factor * row[lane]


@compiled
def _draw_hidden(fields, uniforms):
    """Replace fields u by -1 or +1 with ``P(+1) = 1 / (1 + exp(-2u))``."""
    prefer_wide_vectors()
    for lane in range(fields.size):
        u = fields[lane]
        decay = exp_nonpositive(-2.0 * abs(u))
        up = (1.0 if u > 0 else decay) / (1.0 + decay)
        fields[lane] = 1.0 if uniforms[lane] < up else -1.0


@parallel
def _gibbs(seed, start, coupled, b, c, steps, keep, edges, heights):
    """Block Gibbs sampling, `_LANES` chains to a task; with `keep`, the state after each step is kept too."""
    chains, d = start.shape
    hidden = c.size
    last = np.empty((chains, d))
    path = np.empty((chains if keep else 0, steps, d))
    for task in numba.prange((chains + _LANES - 1) // _LANES):
        first = task * _LANES
        lanes = min(_LANES, chains - first)
        keys = np.empty(lanes, np.uint64)
        counters = np.zeros(lanes, np.uint64)
        x = np.empty((d, lanes))
        h = np.empty((hidden, lanes))
        uniforms = np.empty(lanes)
        for lane in range(lanes):
            keys[lane] = stream_key(seed, np.uint64(first + lane))
            x[:, lane] = start[first + lane]
        for step in range(steps):
            for k in range(hidden):
                h[k] = c[k]
                for i in range(d):
                    _accumulate(h[k], coupled[i, k], x[i])
                for lane in range(lanes):
                    uniforms[lane] = bits_to_unit(stream_bits(keys[lane], counters[lane]))
                    counters[lane] += np.uint64(1)
                _draw_hidden(h[k], uniforms)
            for i in range(d):
                for lane in range(lanes):
                    x[i, lane], counters[lane] = _normal(keys[lane], counters[lane], edges, heights)
                    x[i, lane] += b[i]
                for k in range(hidden):
                    _accumulate(x[i], coupled[i, k], h[k])
            if keep:
                for lane in range(lanes):
                    path[first + lane, step] = x[:, lane]
        for lane in range(lanes):
            last[first + lane] = x[:, lane]
    return last, path
