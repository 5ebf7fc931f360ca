"""Slices, and the active slice algorithm (Algorithm 1).

A slice is a pair of unit vectors: the score is projected on r, the input on g. Active slices come from two
eigen-problems: r are the top eigenvectors of ``S = E f f^T`` (Theorem 5), and for each r, g is the top eigenvector of
``H_r = E (grad f_r)(grad f_r)^T`` (Theorem 4), with ``f = s_p - s_q`` estimated by `score_difference`.
"""

from dataclasses import dataclass

import numpy as np

from ._validate import (
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    check_unit_rows,
    frozen,
)
from .compute.linalg import product, symmetric_eigenvectors, top_eigenpairs
from .compute.projections import unit_rows
from .score_difference import score_difference

_BASIS_BYTES = 256 * 2**20  # memory for the Krylov bases of the directions r handled at a time


@dataclass(frozen=True, eq=False)
class Slices:
    """Pairs of directions (r, g), one per row.

    Parameters
    ----------
    r, g : (m, d) arrays
        Unit rows: score directions and input directions.
    r_values : (m,) array, optional
        ``r.S r``, the (estimated) squared score difference along r: how much p and q differ there.
    g_values, g_gaps : (m,) arrays, optional
        Top eigenvalue of H_r and its gap to the next one. The error of g is at most ``2^(3/2) |error of H_r| / gap``
        (Appendix "Perturbation of eigenvectors"), so a g with a small gap is not to be trusted.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> slices = fs.Slices(np.eye(3), np.eye(3))
    >>> len(slices), slices[:2]
    (3, Slices(m=2, d=3))
    """

    r: np.ndarray
    g: np.ndarray
    r_values: np.ndarray | None = None
    g_values: np.ndarray | None = None
    g_gaps: np.ndarray | None = None

    def __post_init__(self):
        r = check_unit_rows("r", self.r)
        object.__setattr__(self, "r", frozen(r))
        object.__setattr__(
            self, "g", frozen(check_unit_rows("g", self.g, d=r.shape[1], m=r.shape[0]))
        )
        for name in ("r_values", "g_values", "g_gaps"):
            values = getattr(self, name)
            if values is not None:
                values = np.asarray(values, dtype=float)
                if values.shape != (r.shape[0],):
                    raise ValueError(
                        f"`{name}` must have one value for each of {r.shape[0]} slices; got shape {values.shape}."
                    )
                object.__setattr__(self, name, frozen(values))

    @property
    def d(self):
        """Dimension of the space."""
        return self.r.shape[1]

    def __len__(self):
        return self.r.shape[0]

    def __getitem__(self, index):
        """The slices picked by an integer, a slice or an index array, as `Slices`."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        fields = (self.r, self.g, self.r_values, self.g_values, self.g_gaps)
        return Slices(*(None if field is None else field[rows] for field in fields))

    def __repr__(self):
        return f"Slices(m={len(self)}, d={self.d})"


def as_slices(slices, d):
    """`slices` as a `Slices` object of dimension `d`; a pair (r, g) is accepted."""
    if not isinstance(slices, Slices):
        if not (isinstance(slices, (tuple, list)) and len(slices) == 2):
            raise TypeError(
                f"`slices` must be a Slices object or a pair (r, g); got {type(slices).__name__}."
            )
        slices = Slices(*slices)
    if slices.d != d:
        raise ValueError(
            f"`slices` are directions in {slices.d} dimensions but `x` has {d} columns."
        )
    return slices


def random_slices(d, n_slices, *, rng=None):
    """Slices drawn uniformly from the sphere; valid with probability one (Theorem 1).

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.random_slices(10, 3, rng=0)
    Slices(m=3, d=10)
    """
    d = check_integer("d", d, 1)
    n_slices = check_integer("n_slices", n_slices, 1)
    rng = check_rng(rng)
    return Slices(
        unit_rows(rng.standard_normal((n_slices, d))), unit_rows(rng.standard_normal((n_slices, d)))
    )


def active_slices(
    x,
    score,
    *,
    n_slices=None,
    basis=None,
    estimator="ke",
    score_q=None,
    kernel="rbf",
    debias=True,
    noise=0.0,
    engine="auto",
    rng=None,
):
    """Active slices from samples and a model's score (Algorithm 1).

    Parameters
    ----------
    x : (n, d) array
        Training samples from q. For an honest test, not those the statistic is computed on.
    score : (n, d) array, callable or model
        Score of p, at `x` or as a function. "ge" and "exact" differentiate it and need a function.
    n_slices : int, optional
        Keep the top `n_slices` directions r (pruning). All d by default. Fewer come back when the samples do not determine as
        many, as with fewer samples than dimensions.
    basis : "identity" or (m, d) array, optional
        Fixed directions r instead of active ones. With "identity", `n_slices` must not be given.
    estimator : {"ke", "ksd", "ge", "exact"} or ScoreDifference
        How the score difference is found; see `fastsksd.score_difference`.
    score_q : callable or model
        Score of q, for "exact".
    kernel : "rbf" or RBF(bandwidth=...)
        Smoothing kernel of "ke", "ksd" and "ge", by default of the median distance between samples.
    debias : bool
        Leave the estimator's own noise out of S and H_r ("ke", "ksd"). False is the paper's estimate.
    noise : float
        Standard deviation of Gaussian noise added to r and g before they are normalised again; it makes slices valid
        almost surely (Theorem 1 and its corollary). Rarely needed.
    engine : {"auto", "direct", "cuda"}
        Sums over pairs of "ke", "ksd" and "ge" on the CPU or on a GPU; "auto" takes what is expected to be faster.
    rng : None, int or numpy.random.Generator
        Source of the noise.

    Returns
    -------
    Slices

    Examples
    --------
    A model that is too wide along the first of five coordinates:

    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 5)) * [0.5, 1, 1, 1, 1]
    >>> slices = fs.active_slices(x, lambda x: -x, n_slices=2)
    >>> bool(np.abs(slices.g[:, 0]).max() > 0.95)
    True
    """
    x = check_samples(x, min_rows=2)
    check_score(score)
    noise = check_number("noise", noise, 0.0)
    basis = check_basis(basis, n_slices, x.shape[1])
    rng = check_rng(rng)
    difference = score_difference(
        x, score, estimator=estimator, score_q=score_q, kernel=kernel, debias=debias, engine=engine
    )
    return find_slices(
        difference, n_slices=n_slices, basis=basis, debias=debias, noise=noise, rng=rng
    )


def find_slices(
    difference,
    *,
    n_slices=None,
    basis=None,
    debias=True,
    noise=0.0,
    rng=None,
    gaps=True,
    max_steps=150,
):
    """Algorithm 1 for a given score difference.

    Without `gaps`, which take about as long as the slices, they are left out. `max_steps` are Lanczos steps for g, which seldom
    needs as many.
    """
    moment = difference.second_moment(debias)
    r = (
        _leading_eigenvectors(moment, moment.shape[0] if n_slices is None else n_slices)
        if basis is None
        else basis
    )
    r_values = np.einsum("md,md->m", product(r, moment), r)
    r = _perturbed(r, noise, rng)
    g, g_values, g_gaps = _active_g(difference, r, debias, gaps, max_steps)
    return Slices(r, _perturbed(g, noise, rng), r_values, g_values, g_gaps)


def check_basis(basis, n_slices, d):
    """The fixed directions r, (m, d), or None for active ones; `n_slices` goes with the latter only."""
    if n_slices is not None:
        check_integer("n_slices", n_slices, 1, d)
        if basis is not None:
            raise ValueError(
                "`n_slices` prunes active directions; with a fixed `basis`, pass the rows wanted instead."
            )
    if basis is None:
        return None
    if isinstance(basis, str):
        if basis != "identity":
            raise ValueError(f"`basis` must be None, 'identity' or an (m, d) array; got {basis!r}.")
        return np.eye(d)
    return check_unit_rows("basis", basis, d=d)


def _leading_eigenvectors(matrix, count):
    """Rows: eigenvectors of the largest eigenvalues, largest first, each with its largest component positive.

    The null space is left out: which vectors span it is decided by rounding.
    """
    values, vectors = symmetric_eigenvectors(matrix)
    known = np.abs(values) > values.size * np.finfo(float).eps * np.abs(values).max()
    vectors = (vectors[known] if known.any() else vectors)[:count]
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(vectors * np.where(largest < 0, -1.0, 1.0))


def _active_g(difference, r, debias, gaps, max_steps):
    """Top eigenvector of H_r for each r, with eigenvalue and gap, as many r at a time as memory allows."""
    m, d = r.shape
    batch = max(1, _BASIS_BYTES // (8 * d * (d + min(d, max_steps))))
    parts = []
    for start in range(0, m, batch):
        rows = np.ascontiguousarray(r[start : start + batch])
        operators = difference.sensitivity(rows, debias)
        parts.append(top_eigenpairs(operators, rows, gaps=gaps, max_steps=max_steps))
    g, g_values, g_gaps = (
        None if field[0] is None else np.concatenate(field) for field in zip(*parts, strict=True)
    )
    # The sign of g is free: let it point along r.
    return g * np.where(np.einsum("md,md->m", g, r) < 0, -1.0, 1.0)[:, None], g_values, g_gaps


def _perturbed(directions, noise, rng):
    if noise == 0:
        return directions
    return unit_rows(directions + noise * rng.standard_normal(directions.shape))
