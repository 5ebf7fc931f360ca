"""Slices, and the active slice algorithm (Algorithm 1).

A slice is a pair of unit vectors: the score is projected on r, the input on g. Active slices come
from two eigenproblems. The directions r are the top eigenvectors of ``S = E f f^T`` (Theorem 5).
For each r, g is the top eigenvector of ``H_r = E (grad f_r)(grad f_r)^T`` (Theorem 4). The score
difference ``f = s_p - s_q`` is estimated by `score_difference`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ._doors import door, interruptible
from ._typing import Array, ArrayLike, EngineName, KernelLike, Rng, Score, SlicesLike
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    check_statistic,
    check_unit_rows,
    counted,
    frozen,
    real_array,
)
from .compute.eigen import Operators, symmetric_eigenvectors, top_eigenpairs
from .compute.linalg import product
from .compute.projections import is_flat, unit_rows, varied_directions
from .engines import check_pairwise
from .score_difference import ScoreDifference, on_its_span, score_difference

_BASIS_BYTES = 256 * 2**20  # memory for the Krylov bases of the directions r handled at a time


@dataclass(frozen=True, eq=False)
class Slices:
    """Pairs of directions (r, g), one per row.

    Parameters
    ----------
    r : (m, d) array
        Unit rows: directions that scores are projected on.
    g : (m, d) array
        Unit rows: directions that samples are projected on.
    r_values : (m,) array, optional
        ``r.S r``, the (estimated) squared score difference along r: how much p and q differ there.
    g_values : (m,) array, optional
        Top eigenvalue of H_r.
    g_gaps : (m,) array, optional
        Gap between that eigenvalue and the next one. The slices of the default test have none, as
        their g is r.

    See Also
    --------
    active_slices : Slices along which a model and samples differ most.
    random_slices : Slices drawn uniformly from the sphere.

    Notes
    -----
    The error of g is at most ``2^(3/2) |error of H_r| / gap`` (Appendix "Perturbation of
    eigenvectors"), so a g with a small gap is not to be trusted.

    The gap is computed to about 1e-2 of the eigenvalue.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> slices = fs.Slices(np.eye(3), np.eye(3))
    >>> len(slices), slices[:2]
    (3, Slices(m=2, d=3))
    """

    r: Array
    g: Array
    r_values: Array | None = None
    g_values: Array | None = None
    g_gaps: Array | None = None

    def __post_init__(self) -> None:
        r = check_unit_rows("r", self.r)
        object.__setattr__(self, "r", frozen(r))
        object.__setattr__(
            self, "g", frozen(check_unit_rows("g", self.g, d=r.shape[1], m=r.shape[0]))
        )
        for name in ("r_values", "g_values", "g_gaps"):
            values = getattr(self, name)
            if values is not None:
                values = real_array(name, values)
                if values.shape != (r.shape[0],):
                    raise ArgumentError(
                        name,
                        f"must have one value for each of {r.shape[0]} slices; got shape "
                        f"{values.shape}",
                    )
                object.__setattr__(self, name, frozen(values))

    @property
    def d(self) -> int:
        """Dimension of the space."""
        return self.r.shape[1]

    def __len__(self) -> int:
        """Number of slices."""
        return self.r.shape[0]

    def __getitem__(self, index: Any) -> Slices:
        """The slices picked by an integer, a slice or an index array, as `Slices`."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        if np.array_equal(rows, np.arange(len(self))):
            return self
        values = (self.r_values, self.g_values, self.g_gaps)
        return Slices(
            self.r[rows],
            self.g[rows],
            *(None if field is None else field[rows] for field in values),
        )

    def __repr__(self) -> str:
        return f"Slices(m={len(self)}, d={self.d})"


def as_slices(slices: SlicesLike, d: int) -> Slices:
    """`slices` as a `Slices` object of dimension `d`; a pair (r, g) is accepted."""
    if not isinstance(slices, Slices):
        if not (isinstance(slices, (tuple, list)) and len(slices) == 2):
            raise ArgumentTypeError(
                "slices", f"must be a Slices object or a pair (r, g); got {type(slices).__name__}"
            )
        try:
            slices = Slices(*slices)  # type: ignore[arg-type]
        except (ArgumentError, ArgumentTypeError) as error:
            kind = type(error)
            raise kind("slices", "is a pair (r, g) in which ", str(error).rstrip(".")) from error
    if slices.d != d:
        raise ArgumentError(
            "slices",
            f"are directions in {counted(slices.d, 'dimension')} but ",
            Option("x"),
            f" has {counted(d, 'column')}",
        )
    return slices


@interruptible
def random_slices(d: int, n_slices: int, *, rng: Rng = None) -> Slices:
    """Draw slices uniformly from the sphere; they are valid with probability one (Theorem 1).

    Parameters
    ----------
    d : int
        Dimension of the space.
    n_slices : int
        Number of slices.
    rng : None, int or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Slices
        Independent r and g.

    See Also
    --------
    active_slices : Slices along which a model and samples differ most.

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


@door
def active_slices(
    x: ArrayLike,
    score: Score,
    *,
    n_slices: int | None = None,
    basis: Literal["identity"] | ArrayLike | None = None,
    estimator: str | ScoreDifference = "ke",
    score_q: Score | None = None,
    kernel: KernelLike = "rbf",
    debias: bool = True,
    noise: float = 0.0,
    engine: EngineName = "auto",
    rng: Rng = None,
) -> Slices:
    """Active slices from samples and a model's score (Algorithm 1).

    Parameters
    ----------
    x : (n, d) array
        Training samples from q. A test must not use them again for its statistic.
    score : (n, d) array, callable or model
        Score of p, at `x` or as a function. "ge" and "exact" differentiate it and need a function.
    n_slices : int, optional
        Keep the top `n_slices` directions r (pruning). All d by default. Fewer come back when the
        samples do not determine as many, as with fewer samples than dimensions.
    basis : "identity" or (m, d) array, optional
        Fixed directions r instead of active ones. With "identity", `n_slices` must not be given.
    estimator : {"ke", "ksd", "ge", "exact"} or ScoreDifference
        How the score difference ``f = s_p - s_q`` is found; see `fastsksd.score_difference`:

        "ke"
            Smoothed by a kernel, from the scores at the samples alone.
        "ksd"
            The same, with matrices of second order, of which the first has the KSD as its trace.
        "ge"
            With s_q from the Stein gradient estimator.
        "exact"
            With `score_q` known.
    score_q : callable or model, optional
        Score of q, for "exact".
    kernel : "rbf" or RBF(bandwidth=...)
        Smoothing kernel of "ke", "ksd" and "ge"; its bandwidth is the median distance between
        samples unless given.
    debias : bool
        Leave the estimation noise out of S and H_r ("ke", "ksd"). False is the paper's estimate.
    noise : float
        Standard deviation of Gaussian noise that is added to r and g before they are normalised
        again. It makes slices valid almost surely (Theorem 1 and its corollary). Rarely needed.
    engine : {"auto", "direct", "cuda"}
        Sums over pairs of "ke", "ksd" and "ge" on the CPU or on a GPU; "auto" takes what is
        expected to be faster.
    rng : None, int or numpy.random.Generator
        Source of the noise.

    Returns
    -------
    Slices
        Directions, largest score difference first, with their eigenvalues and gaps.

    Raises
    ------
    ValueError
        If options exclude each other, or if an estimator lacks what it needs.

    See Also
    --------
    refine_slices : Better slices by gradient ascent.
    gof_test : The test; it finds active slices on its training samples.
    fastsksd.score_difference : The estimators.

    References
    ----------
    Gong, W., Zhang, K., Li, Y. and Hernandez-Lobato, J. M. (2021). Active slices for sliced Stein
    discrepancy. ICML.

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
    check_pairwise(engine)
    rng = check_rng(rng)
    difference = score_difference(
        x, score, estimator=estimator, score_q=score_q, kernel=kernel, debias=debias, engine=engine
    )
    options: dict[str, Any] = dict(
        n_slices=n_slices, basis=basis, debias=debias, noise=noise, rng=rng
    )
    return where_samples_vary(x, partial(find_slices, difference, **options))


def where_samples_vary(x: Array, find: Callable[[Array | None], Slices]) -> Slices:
    """Slices that are found, none of them with a g along which the samples do not vary.

    Where columns depend on each other there are such directions, and round-off decides whether
    they are found. If so, slices are found again `within` the others.
    """
    found = find(None)
    return find(varied_directions(x)) if is_flat(x, found.g).any() else found


def find_slices(
    difference: ScoreDifference,
    within: Array | None = None,
    *,
    n_slices: int | None = None,
    basis: Array | None = None,
    debias: bool = True,
    noise: float = 0.0,
    rng: np.random.Generator | None = None,
    gaps: bool = True,
    max_steps: int = 150,
) -> Slices:
    """Algorithm 1 for a given score difference; for the other parameters see `active_slices`.

    Parameters
    ----------
    within : (k, d) array, optional
        Orthonormal rows. All directions that are found are in their span.
    gaps : bool
        How `g_gaps` are found. True takes about as long as the slices, and is right to about 1e-2
        of the eigenvalue. False costs nothing, and gives rough upper estimates from the Ritz values
        of the same Lanczos steps. With six steps for 1000 samples in up to 100 dimensions, three
        quarters of them were right to 2%, and a few were ten to a hundred times too large.
    max_steps : int
        Most Lanczos steps for g, which seldom needs as many.
    """
    if basis is None:
        r, r_values = _active_r(difference, within, debias, n_slices)
    else:
        r = basis
        r_values = _forms(r, difference.second_moment(debias))
    r = _perturbed(r, noise, rng)
    g, g_values, g_gaps = _active_g(difference, r, debias, gaps, max_steps, within)
    return Slices(r, _perturbed(check_statistic(g), noise, rng), r_values, g_values, g_gaps)


def active_directions(
    difference: ScoreDifference, within: Array | None = None, *, debias: bool = True
) -> Slices:
    """All active directions r, largest score difference first, each with g = r.

    They are in the span of the orthonormal rows `within`, if given.
    """
    r, r_values = _active_r(difference, within, debias)
    return Slices(r, r, r_values)


def check_basis(
    basis: Literal["identity"] | ArrayLike | None, n_slices: int | None, d: int
) -> Array | None:
    """The fixed directions r, (m, d), or None for active ones, which alone may have `n_slices`."""
    if n_slices is not None:
        check_integer("n_slices", n_slices, 1, d)
        if basis is not None:
            raise ArgumentError(
                "n_slices",
                "prunes active directions; with a fixed ",
                Option("basis"),
                ", pass the rows wanted instead",
            )
    if basis is None:
        return None
    if isinstance(basis, str):
        if basis != "identity":
            raise ArgumentError(
                "basis", f"must be None, 'identity' or an (m, d) array; got {basis!r}"
            )
        return np.eye(d)
    return check_unit_rows("basis", basis, d=d)


def _active_r(
    difference: ScoreDifference, within: Array | None, debias: bool, count: int | None = None
) -> tuple[Array, Array]:
    """Eigenvectors of the largest eigenvalues of S as rows, largest first, and these values.

    Each has its largest component positive. With far fewer samples than dimensions they are found
    in the span of the samples and scores.
    """
    narrow = on_its_span(difference) if within is None else None
    if narrow is None:
        moment = difference.second_moment(debias)
        if within is not None:
            moment = product(product(within, moment), within)
    else:
        within, difference = narrow
        moment = difference.second_moment(debias)
    r = _leading_eigenvectors(moment, len(moment) if count is None else count)
    r_values = _forms(r, moment)
    if within is not None:
        r = unit_rows(product(r, within.T))
    largest = np.take_along_axis(r, np.abs(r).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(r * np.where(largest < 0, -1.0, 1.0)), r_values


def _forms(rows: Array, matrix: Array) -> Array:
    """``u.M u`` for each row u."""
    return np.einsum("md,md->m", product(rows, matrix), rows)


def _leading_eigenvectors(matrix: Array, count: int) -> Array:
    """Eigenvectors of the largest eigenvalues as rows, largest first.

    The null space is left out: which vectors span it is decided by rounding.
    """
    values, vectors = symmetric_eigenvectors(matrix)
    known = np.abs(values) > values.size * np.finfo(float).eps * np.abs(values).max()
    return (vectors[known] if known.any() else vectors)[:count]


def _active_g(
    difference: ScoreDifference,
    r: Array,
    debias: bool,
    gaps: bool,
    max_steps: int,
    within: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Top eigenvector of H_r for each r, with eigenvalue and gap.

    As many r are taken at a time as memory allows.
    """
    m, d = r.shape
    batch = max(1, _BASIS_BYTES // (8 * d * (d + min(d, max_steps))))
    parts = []
    for start in range(0, m, batch):
        rows = np.ascontiguousarray(r[start : start + batch])
        operators, guess = difference.sensitivity(rows, debias), rows
        if within is not None:
            operators, guess = _Within(operators, within), product(rows, within)
        parts.append(top_eigenpairs(operators, guess, gaps=gaps, max_steps=max_steps))
    g, g_values, g_gaps = (np.concatenate(field) for field in zip(*parts, strict=True))
    if within is not None:
        g = unit_rows(product(g, within.T))
    # The sign of g is free: let it point along r.
    return g * np.where(np.einsum("md,md->m", g, r) < 0, -1.0, 1.0)[:, None], g_values, g_gaps


class _Within:
    """Operators on the span of orthonormal rows, as operators on coefficients of these."""

    def __init__(self, operators: Operators, rows: Array) -> None:
        self.operators, self.rows = operators, rows

    def __call__(self, u: Array) -> Array:
        return product(self.operators(product(u, self.rows.T)), self.rows)

    def restricted(self, mask: Any) -> _Within:
        """The operators picked by a boolean mask."""
        return _Within(self.operators.restricted(mask), self.rows)


def _perturbed(directions: Array, noise: float, rng: np.random.Generator | None) -> Array:
    if noise == 0:
        return directions
    return unit_rows(directions + noise * check_rng(rng).standard_normal(directions.shape))
