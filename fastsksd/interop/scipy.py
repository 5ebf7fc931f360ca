"""SciPy: models from frozen distributions, and samples of bounded ones in unconstrained space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .._typing import Array, ArrayLike, Rng
from .._validate import ArgumentError, check_integer, check_rng, check_samples
from ..models import Gaussian, GaussianMixture, Model
from ._draws import Draws

__all__ = ["draws", "model"]

# d/du log p(u) of standard forms (loc 0, scale 1), inside their support.
_SCORES: dict[str, Callable[..., Array]] = {
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


def model(distribution: Any) -> Model:
    """Make a model from a frozen distribution of `scipy.stats`.

    Parameters
    ----------
    distribution : frozen distribution, or a sequence of univariate ones
        ``multivariate_normal``, ``multivariate_t`` and ``gaussian_kde`` have scores in closed form.
        Univariate continuous distributions on the whole line, frozen or of SciPy's new kind
        (``stats.Normal(...)``), are independent coordinates: one for each distribution of a
        sequence and for each entry of array parameters. Their scores are in closed form for norm,
        t, laplace, logistic, cauchy, gumbel_r, gumbel_l and hypsecant. For others they are
        differences of fourth order of ``logpdf``, to about ten digits.

    Returns
    -------
    Model
        With `score`, `sample` and `log_density`.

    Raises
    ------
    ValueError
        If the distribution is on a part of the line, where the Stein identity fails; see `draws`.

    See Also
    --------
    draws : Samples of bounded distributions in unconstrained space.

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
    if isinstance(found, _Product) and found.bounded.any():
        k = int(np.argmax(found.bounded))
        raise ValueError(
            f"`distribution`: coordinate {k} lives on ({found.low[k]:g}, {found.high[k]:g}), where "
            "the Stein identity fails. Test in unconstrained space: "
            "fastsksd.interop.scipy.draws(x, distribution) takes samples there, by "
            f"{found.formula(k)}, with their scores."
        )
    return found


def draws(x: ArrayLike, distribution: Any) -> Draws:
    """Samples and scores in unconstrained space, where a bounded distribution can be tested.

    Coordinates on the whole line stay as they are. Those above a become ``log(x - a)``, those below
    b ``log(b - x)``, and those between a and b ``log((x - a) / (b - x))``.

    Parameters
    ----------
    x : (n, d) array
        Samples inside the support.
    distribution : frozen distribution, or a sequence of univariate ones
        As for `model`, on any support. Further closed forms are beta, chi2, expon, gamma, halfnorm,
        invgamma, lognorm, uniform and weibull_min.

    Returns
    -------
    Draws
        Test them with ``draws.test(lag=1)`` if the samples are independent.

    Raises
    ------
    ValueError
        If samples are outside the support.

    See Also
    --------
    model : Model of a distribution on the whole space.

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
    if isinstance(found, _Product):
        z, names = found.unconstrain(x), tuple(found.formula(k) for k in range(found.d))
    else:
        z, names = x, tuple(f"x[{k}]" for k in range(x.shape[1]))
    return Draws(x=z, score=found.score(z), names=names, chain=np.zeros(len(z), dtype=int))


def _as_model(distribution: Any) -> Model:
    from scipy import stats

    kinds: dict[type, Callable[[Any], Model]] = {
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
            "`distribution` must be a frozen continuous distribution of scipy.stats "
            "(multivariate_normal, multivariate_t, gaussian_kde, or univariate), or a sequence of "
            f"univariate ones; got {got}.{hint}"
        )
    return _Product(stats, parts)


def _is_univariate(stats: Any, part: Any) -> bool:
    old = isinstance(getattr(part, "dist", None), stats.rv_continuous)
    return old or all(hasattr(part, name) for name in ("logpdf", "icdf", "support", "sample"))


def _kernel_density(kde: Any) -> GaussianMixture:
    used = kde.weights > 0
    return GaussianMixture(
        kde.weights[used], kde.dataset.T[used], [kde.covariance] * int(used.sum())
    )


class _MultivariateT(Model):
    d: int

    def __init__(self, frozen: Any) -> None:
        self._frozen = frozen
        self.d = frozen.dim
        self._precision = np.linalg.inv(np.atleast_2d(frozen.shape))

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        return self._frozen.rvs(check_integer("n", n, 1), random_state=check_rng(rng)).reshape(
            n, self.d
        )

    def score(self, x: ArrayLike) -> Array:
        centred = self._check_points(x) - self._frozen.loc
        pulled = centred @ self._precision
        df = self._frozen.df
        if np.isinf(df):
            return -pulled
        return -(df + self.d) * pulled / (df + np.sum(centred * pulled, axis=1, keepdims=True))

    def log_density(self, x: ArrayLike) -> Array:
        return np.atleast_1d(self._frozen.logpdf(self._check_points(x)))


class _Product(Model):
    """Independent coordinates, each transformed to the whole line according to its support."""

    d: int

    def __init__(self, stats: Any, parts: Sequence[Any]) -> None:
        supports = [np.broadcast_arrays(*np.atleast_1d(*part.support())) for part in parts]
        self._parts = parts
        self._edges = np.cumsum([0, *(low.size for low, _ in supports)])
        self.low = np.concatenate([low.ravel() for low, _ in supports])
        self.high = np.concatenate([high.ravel() for _, high in supports])
        self.d = self.low.size
        self.bounded = np.isfinite(self.low) | np.isfinite(self.high)
        self._slopes = [_closed_form(stats, part) for part in parts]

    def formula(self, k: int) -> str:
        """The transform of coordinate k as text."""
        low, high = np.isfinite(self.low[k]), np.isfinite(self.high[k])
        a, b = f"{self.low[k]:g}", f"{self.high[k]:g}"
        if low and high:
            return f"log((x[{k}] - {a}) / ({b} - x[{k}]))"
        return f"log(x[{k}] - {a})" if low else f"log({b} - x[{k}])" if high else f"x[{k}]"

    def unconstrain(self, x: Array) -> Array:
        outside = np.flatnonzero(((x <= self.low) | (x >= self.high)).any(axis=0))
        if outside.size:
            k = outside[0]
            count = np.count_nonzero((x[:, k] <= self.low[k]) | (x[:, k] >= self.high[k]))
            raise ArgumentError(
                "x",
                f"holds {count} of {x.shape[0]} samples that are not inside the support "
                f"({self.low[k]:g}, {self.high[k]:g}) of coordinate {k}: their density is zero",
            )
        return _to_line(x, self.low, self.high)

    def sample(self, n: int, *, rng: Rng = None) -> Array:
        n, rng = check_integer("n", n, 1), check_rng(rng)
        return np.concatenate(
            [_draw(part, n, stop - start, rng) for part, start, stop in self._columns()], axis=1
        )

    def score(self, x: ArrayLike) -> Array:
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

    def log_density(self, x: ArrayLike) -> Array:
        x = self._check_points(x)
        return sum(
            part.logpdf(x[:, start:stop]).sum(axis=1) for part, start, stop in self._columns()
        )

    def _columns(self) -> Iterator[tuple[Any, int, int]]:
        return zip(self._parts, self._edges[:-1], self._edges[1:], strict=True)


def _to_line(x: Array, low: Array, high: Array) -> Array:
    """The whole line for each column from its support (low, high)."""
    z = x.copy()
    above, below = np.isfinite(low), np.isfinite(high)
    both = above & below
    z[:, above] = np.log(x[:, above] - low[above])
    z[:, below] = np.log(high[below] - x[:, below])
    z[:, both] = np.log(x[:, both] - low[both]) - z[:, both]
    return z


def _from_line(z: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """The inverse, its derivative, and the derivative of the logarithm of that."""
    above, below = np.isfinite(low), np.isfinite(high)
    both = above & below
    point, first, second = z.copy(), np.ones(z.shape), np.zeros(z.shape)
    for some, border, sign in ((above & ~below, low, 1.0), (below & ~above, high, -1.0)):
        first[:, some] = sign * np.exp(z[:, some])
        point[:, some] = border[some] + first[:, some]
        second[:, some] = 1.0
    fraction = 1.0 / (1.0 + np.exp(-z[:, both]))
    width = (high - low)[both]
    point[:, both] = low[both] + width * fraction
    first[:, both] = width * fraction * (1.0 - fraction)
    second[:, both] = 1.0 - 2.0 * fraction
    return point, first, second


def _differences(part: Any, z: Array, low: Array, high: Array) -> Array:
    """Derivative of the log-density of z by differences of fourth order.

    Their steps are in proportion to the spread of the distribution.
    """
    quantile = getattr(part, "icdf", None) or part.ppf
    quartiles = np.stack([np.broadcast_to(quantile(q), low.shape) for q in (0.25, 0.5, 0.75)])
    first, middle, last = _to_line(quartiles, low, high)
    step = 1e-3 * (np.abs(last - first) + np.abs(z - middle))

    def log_density(z: Array) -> Array:
        point, slope, _ = _from_line(z, low, high)
        return part.logpdf(point) + np.log(np.abs(slope))

    near = log_density(z + step) - log_density(z - step)
    far = log_density(z + 2 * step) - log_density(z - 2 * step)
    return (8.0 * near - far) / (12.0 * step)


def _closed_form(stats: Any, part: Any) -> Callable[[Array], Array] | None:
    """Derivative of the log-density in x of a frozen distribution, or None."""
    family = getattr(part, "dist", None)
    name = getattr(family, "name", None)
    if family is None or name not in _SCORES or type(family) is not type(getattr(stats, name)):
        return None
    shapes, loc, scale = family._parse_args(*part.args, **part.kwds)
    shapes, loc, scale = (
        [np.asarray(value, dtype=float).ravel() for value in shapes],
        np.ravel(loc),
        np.ravel(scale),
    )
    return lambda x: _SCORES[name]((x - loc) / scale, *shapes) / scale


def _draw(part: Any, n: int, width: int, rng: np.random.Generator) -> Array:
    if hasattr(part, "rvs"):
        return part.rvs(size=(n, width), random_state=rng)
    return np.reshape(part.sample((n,), rng=rng), (n, width))
