"""SciPy: models from frozen distributions, and samples of bounded ones taken to unconstrained space."""

import numpy as np

from .._validate import check_integer, check_rng, check_samples
from ..models import Gaussian, GaussianMixture, Model
from ._draws import Draws

# d/du log p(u) of standard forms (loc 0, scale 1), on the inside of their support.
_SCORES = {
    "beta": lambda u, a, b: (a - 1) / u - (b - 1) / (1 - u),
    "cauchy": lambda u: -2 * u / (1 + u**2),
    "chi2": lambda u, df: (0.5 * df - 1) / u - 0.5,
    "expon": lambda u: -np.ones_like(u),
    "gamma": lambda u, a: (a - 1) / u - 1,
    "gumbel_l": lambda u: 1 - np.exp(u),
    "gumbel_r": lambda u: np.exp(-u) - 1,
    "halfnorm": lambda u: -u,
    "hypsecant": lambda u: -np.tanh(u),
    "invgamma": lambda u, a: 1 / u**2 - (a + 1) / u,
    "laplace": lambda u: -np.sign(u),
    "logistic": lambda u: -np.tanh(u / 2),
    "lognorm": lambda u, s: -(1 + np.log(u) / s**2) / u,
    "norm": lambda u: -u,
    "t": lambda u, df: -(df + 1) * u / (df + u**2),
    "uniform": lambda u: np.zeros_like(u),
    "weibull_min": lambda u, c: (c - 1) / u - c * u ** (c - 1),
}


def model(distribution):
    """A model, with `score`, `sample` and `log_density`, from a frozen distribution of `scipy.stats`.

    Parameters
    ----------
    distribution : frozen distribution, or a sequence of univariate ones
        ``multivariate_normal``, ``multivariate_t``, ``gaussian_kde``: scores in closed form. Univariate continuous distributions on the whole
        line, frozen or of SciPy's new kind (``stats.Normal(...)``): independent coordinates, one for each distribution of a sequence
        and each entry of array parameters. Scores are in closed form for norm, t, laplace, logistic, cauchy, gumbel_r,
        gumbel_l and hypsecant, and by differences of fourth order of ``logpdf`` for others, to about ten digits.

    Returns
    -------
    Model
        Distributions on part of the line are refused, since the Stein identity fails there: see `draws`.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from scipy import stats
    >>> p = fs.interop.scipy.model(stats.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]]))
    >>> p.score([[1.0, 0.0]]).round(6)
    array([[-1.333333,  0.666667]])
    >>> fs.interop.scipy.model([stats.norm(), stats.t(4)]).score([[1.0, 2.0]])
    array([[-1.  , -1.25]])
    """
    found = _as_model(distribution)
    bounded = np.flatnonzero(found.bounded) if isinstance(found, _Product) else ()
    if len(bounded):
        k = bounded[0]
        raise ValueError(
            f"`distribution`: coordinate {k} lives on ({found.low[k]:g}, {found.high[k]:g}), where the Stein identity fails. Test in "
            f"unconstrained space: fastsksd.interop.scipy.draws(x, distribution) takes samples there, by {found.formula(k)}, with their scores."
        )
    return found


def draws(x, distribution):
    """Samples and scores in unconstrained space, where a bounded distribution can be tested.

    Coordinates on the whole line stay as they are; z = log(x - a) for those above a, log(b - x) below b, and log((x - a) / (b - x)) in between.

    Parameters
    ----------
    x : (n, d) array
        Samples, inside the support.
    distribution : frozen distribution, or a sequence of univariate ones
        As for `model`, on any support. Further closed forms: beta, chi2, expon, gamma, halfnorm, invgamma, lognorm, uniform, weibull_min.

    Returns
    -------
    Draws
        For independent samples, test them with ``draws.test(lag=1)``.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> from scipy import stats
    >>> gamma = stats.gamma(1.5)
    >>> x = gamma.rvs((2000, 1), random_state=1)
    >>> fs.interop.scipy.draws(x, gamma).test(lag=1, rng=0).reject()
    False
    """
    found = _as_model(distribution)
    x = check_samples(x, d=found.d)
    product = isinstance(found, _Product)
    z = found.unconstrain(x) if product else x
    names = tuple(found.formula(k) if product else f"x[{k}]" for k in range(found.d))
    return Draws(x=z, score=found.score(z), names=names, chain=np.zeros(len(z), dtype=int))


def _as_model(distribution):
    from scipy import stats

    kinds = {
        type(stats.multivariate_normal([0.0])): lambda p: Gaussian(p.mean, p.cov_object.covariance),
        type(stats.multivariate_t([0.0])): _MultivariateT,
        stats.gaussian_kde: _kernel_density,
    }
    for kind, make in kinds.items():
        if isinstance(distribution, kind):
            return make(distribution)
    several = isinstance(distribution, (list, tuple))
    parts = list(distribution) if several else [distribution]
    wrong = [part for part in parts if not _is_univariate(stats, part)]
    if wrong or not parts:
        got = type(wrong[0]).__name__ if wrong else "an empty sequence"
        hint = " Freeze it first, as in stats.norm(0, 1)." if wrong and callable(wrong[0]) else ""
        raise TypeError(
            "`distribution` must be a frozen continuous distribution of scipy.stats (multivariate_normal, multivariate_t, gaussian_kde, or "
            f"univariate), or a sequence of univariate ones; got {got}.{hint}"
        )
    return _Product(stats, parts)


def _is_univariate(stats, part):
    old = isinstance(getattr(part, "dist", None), stats.rv_continuous)
    return old or all(hasattr(part, name) for name in ("logpdf", "icdf", "support", "sample"))


def _kernel_density(kde):
    used = kde.weights > 0
    return GaussianMixture(
        kde.weights[used], kde.dataset.T[used], [kde.covariance] * int(used.sum())
    )


class _MultivariateT(Model):
    def __init__(self, frozen):
        self._frozen = frozen
        self.d = frozen.dim
        self._precision = np.linalg.inv(np.atleast_2d(frozen.shape))

    def sample(self, n, *, rng=None):
        return self._frozen.rvs(check_integer("n", n, 1), random_state=check_rng(rng)).reshape(
            n, self.d
        )

    def score(self, x):
        centred = self._check_points(x) - self._frozen.loc
        pulled = centred @ self._precision
        df = self._frozen.df
        if np.isinf(df):
            return -pulled
        return -(df + self.d) * pulled / (df + np.sum(centred * pulled, axis=1, keepdims=True))

    def log_density(self, x):
        return np.atleast_1d(self._frozen.logpdf(self._check_points(x)))


class _Product(Model):
    """Independent coordinates, each taken to the whole line by a transform according to its support."""

    def __init__(self, stats, parts):
        supports = [np.broadcast_arrays(*np.atleast_1d(*part.support())) for part in parts]
        self._parts = parts
        self._edges = np.cumsum([0, *(low.size for low, _ in supports)])
        self.low = np.concatenate([low.ravel() for low, _ in supports])
        self.high = np.concatenate([high.ravel() for _, high in supports])
        self.d = self.low.size
        self.bounded = np.isfinite(self.low) | np.isfinite(self.high)
        self._slopes = [_closed_form(stats, part) for part in parts]

    def formula(self, k):
        """The transform of coordinate k in words."""
        low, high = np.isfinite(self.low[k]), np.isfinite(self.high[k])
        a, b = f"{self.low[k]:g}", f"{self.high[k]:g}"
        if low and high:
            return f"log((x[{k}] - {a}) / ({b} - x[{k}]))"
        return f"log(x[{k}] - {a})" if low else f"log({b} - x[{k}])" if high else f"x[{k}]"

    def unconstrain(self, x):
        outside = np.flatnonzero(((x <= self.low) | (x >= self.high)).any(axis=0))
        if outside.size:
            k = outside[0]
            count = np.count_nonzero((x[:, k] <= self.low[k]) | (x[:, k] >= self.high[k]))
            raise ValueError(
                f"`x` holds {count} of {x.shape[0]} samples that are not inside the support ({self.low[k]:g}, {self.high[k]:g}) of coordinate {k}: "
                "the distribution gives them no density."
            )
        return _to_line(x, self.low, self.high)

    def sample(self, n, *, rng=None):
        n, rng = check_integer("n", n, 1), check_rng(rng)
        return np.concatenate(
            [_draw(part, n, stop - start, rng) for part, start, stop in self._columns()], axis=1
        )

    def score(self, x):
        z = self._check_points(x)
        scores = np.empty(z.shape)
        for (part, start, stop), slope in zip(self._columns(), self._slopes, strict=True):
            columns = slice(start, stop)
            support = self.low[columns], self.high[columns]
            if slope is None:
                scores[:, columns] = _differences(part, z[:, columns], *support)
            else:
                point, first, second = _from_line(z[:, columns], *support)
                scores[:, columns] = slope(point) * first + second
        return scores

    def log_density(self, x):
        x = self._check_points(x)
        return sum(
            part.logpdf(x[:, start:stop]).sum(axis=1) for part, start, stop in self._columns()
        )

    def _columns(self):
        return zip(self._parts, self._edges[:-1], self._edges[1:], strict=True)


def _to_line(x, low, high):
    """The whole line for each column from its support (low, high)."""
    z = x.copy()
    above, below = np.isfinite(low), np.isfinite(high)
    both = above & below
    z[:, above] = np.log(x[:, above] - low[above])
    z[:, below] = np.log(high[below] - x[:, below])
    z[:, both] = np.log(x[:, both] - low[both]) - z[:, both]
    return z


def _from_line(z, low, high):
    """The way back, its derivative, and the derivative of the logarithm of that."""
    above, below = np.isfinite(low), np.isfinite(high)
    both = above & below
    point, first, second = z.copy(), np.ones(z.shape), np.zeros(z.shape)
    for some, border, sign in ((above & ~below, low, 1.0), (below & ~above, high, -1.0)):
        first[:, some] = sign * np.exp(z[:, some])
        point[:, some] = border[some] + first[:, some]
        second[:, some] = 1.0
    share = 1.0 / (1.0 + np.exp(-z[:, both]))
    width = (high - low)[both]
    point[:, both] = low[both] + width * share
    first[:, both] = width * share * (1.0 - share)
    second[:, both] = 1.0 - 2.0 * share
    return point, first, second


def _differences(part, z, low, high):
    """Derivative of the log-density of z by differences of fourth order, their steps by the spread of the distribution."""
    quantile = getattr(part, "icdf", None) or part.ppf
    quartiles = np.stack([np.broadcast_to(quantile(q), low.shape) for q in (0.25, 0.5, 0.75)])
    first, middle, last = _to_line(quartiles, low, high)
    step = 1e-3 * (np.abs(last - first) + np.abs(z - middle))

    def log_density(z):
        point, slope, _ = _from_line(z, low, high)
        return part.logpdf(point) + np.log(np.abs(slope))

    near = log_density(z + step) - log_density(z - step)
    far = log_density(z + 2 * step) - log_density(z - 2 * step)
    return (8.0 * near - far) / (12.0 * step)


def _closed_form(stats, part):
    """Derivative of the log-density in x of a frozen distribution, or None."""
    law = getattr(part, "dist", None)
    name = getattr(law, "name", None)
    if name not in _SCORES or type(law) is not type(getattr(stats, name)):
        return None
    shapes, loc, scale = law._parse_args(*part.args, **part.kwds)
    shapes, loc, scale = (
        [np.asarray(value, dtype=float).ravel() for value in shapes],
        np.ravel(loc),
        np.ravel(scale),
    )
    return lambda x: _SCORES[name]((x - loc) / scale, *shapes) / scale


def _draw(part, n, width, rng):
    if hasattr(part, "rvs"):
        return part.rvs(size=(n, width), random_state=rng)
    return np.reshape(part.sample((n,), rng=rng), (n, width))
