"""What every bridge to a sampler returns: unconstrained draws of all chains with their scores.

Draws are in unconstrained space, where the model's density is positive everywhere, and the score
includes the Jacobian of the transform. On bounded support the Stein identity fails, and a right
posterior would be rejected. Divergent draws are kept unless asked for otherwise: they are draws of
the chain all the same, and their number is told. Non-finite ones are errors, or are removed on
request.

Some columns of the draws with the same columns of the joint score still make a valid test: by the
Stein identity, ``E[s_i(x) f(x_A) + d_i f(x_A)] = 0`` for i in A and every f of the columns A alone.
So `var_names` may name a few variables of a posterior. Discrete variables may be left out of x
while the scores are taken at their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from .._doors import interruptible
from .._typing import Array
from .._validate import ArgumentError, Option, check_choice, check_probability, first_few
from ..effects import FEWEST
from ..gof import gof_test
from ..procedure.importance import LARGEST_CUT, check_weights, effective_size, typical_rows
from ..procedure.precision import score_noise
from ..result import GofResult
from ._diagnosis import Diagnosis, diagnose

OnDivergence: TypeAlias = Literal["error", "drop", "keep"]
OnNan: TypeAlias = Literal["error", "drop"]
VarNames: TypeAlias = str | Sequence[str] | None
_BEYOND = 5.0  # normal draws that are expected beyond a bound before none of them tells of it


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Draws of a sampler with their scores, ready to be tested.

    Use ``draws.test()`` for a verdict, ``draws.diagnose()`` for a table of all parameters, or
    ``fs.gof_test(draws.x, draws.score, chains=draws.chain)``.

    Attributes
    ----------
    x : (n, d) array
        Unconstrained draws without warm-up: chain after chain, each in its order.
    score : (n, d) array
        Gradient of the log-density in unconstrained space at these draws, with the Jacobian of the
        transform.
    names : tuple of str
        Names of the d columns.
    chain : (n,) array of int
        Index of the chain of each draw.
    n_divergent : int
        Number of divergent draws among these.
    n_dropped : int
        Number of draws removed because they diverged or were not finite.
    independent : bool
        Whether the draws are independent, as those of an approximation; they are then tested
        without regard to their order.
    weights : (n,) array or None
        Importance weights of independent draws, as of particles; None where they are equal.
    score_noise : float
        Rounding error of scores in single precision, see `GofResult.score_noise`.
    seem_bounded : tuple of str
        Parameters that were taken as they are, for a given score, and whose draws are all positive,
        or all between 0 and 1, where some would not be if nothing kept them there.

    See Also
    --------
    fastsksd.gof_test : The test.
    """

    x: Array
    score: Array
    names: tuple[str, ...]
    chain: np.ndarray
    n_divergent: int = 0
    n_dropped: int = 0
    independent: bool = False
    weights: Array | None = None
    score_noise: float = 0.0
    seem_bounded: tuple[str, ...] = ()

    @interruptible
    def test(self, **options: Any) -> GofResult:
        """Test these draws by `fastsksd.gof_test` with their chains, or weights.

        Parameters
        ----------
        **options
            Other options of `fastsksd.gof_test`. ``lag=1`` takes the draws as independent.

        Returns
        -------
        GofResult
            Outcome of the test, with the names of the columns.
        """
        given: dict[str, Any] = {"names": self.names, "chains": self.chain}
        if self.independent:
            given = {"names": self.names, "weights": self.weights}
        result = gof_test(self.x, self.score, **given | options)
        return replace(result, score_noise=max(self.score_noise, result.score_noise))

    @interruptible
    def diagnose(self, *, level: float = 0.95, **options: Any) -> Diagnosis:
        """Make one table of the run: a row per parameter, beside ESS and R-hat.

        For every parameter: how far the draws are shifted (in posterior standard deviations) and
        stretched against the model, with intervals; the Stein p-value of its marginal, adjusted for
        the number of parameters; effective sample sizes and R-hat. Below it are the verdict of the
        test of all draws, and combinations of parameters that are farther off than single ones.

        Parameters
        ----------
        level : float
            Confidence of the intervals, which hold for all parameters at once.
        **options
            Options of `test`; `rng` is 0 by default, so that the table is the same every time.

        Returns
        -------
        Diagnosis
            The table. It prints, `plot` draws it, and `columns` and `to_dict` are plain data.

        Raises
        ------
        ValueError
            For fewer than 20 draws, or a bad option.

        See Also
        --------
        fastsksd.effect_sizes : Shifts and stretches of any samples.

        Notes
        -----
        The parameters are those of unconstrained space, such as the logarithm of a scale. ESS and
        R-hat are computed on them by the formulas of ArviZ's `ess` and `rhat`, which is not needed
        for it. Chains of unequal length are cut to the shortest for these two. Independent draws
        have no R-hat, and their effective size is their number. Of draws with weights, the table is
        about some that stand for all without weights; the test is of all of them.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> rng = np.random.default_rng(0)
        >>> samples = {"mu": rng.standard_normal((4, 500)), "eta": rng.normal(0, 1.5, (4, 500))}
        >>> diagnosis = fs.interop.arviz.draws(samples, score=np.negative).diagnose()
        >>> diagnosis.to_dict()["stein"]["bad_params"]
        ['eta']
        """
        check_probability("level", level)
        if len(self) < FEWEST:
            raise ArgumentError(
                "x", f"must hold at least {FEWEST} draws for a diagnosis; got {len(self)}"
            )
        return diagnose(self, level, {"rng": 0} | options)

    def unweighted(self) -> Draws:
        """Draws without weights that stand for these: fewer of them, each at most once.

        Returns
        -------
        Draws
            These draws themselves where they have no weights.
        """
        if self.weights is None:
            return self
        kept = typical_rows(self.weights, LARGEST_CUT)
        x, score, chain = self.x[kept], self.score[kept], self.chain[kept]
        return replace(self, x=x, score=score, chain=chain, weights=None)

    def __len__(self) -> int:
        return self.x.shape[0]

    def __repr__(self) -> str:
        shown = first_few(self.names, 6)
        counts = {"divergent": self.n_divergent, "dropped": self.n_dropped}
        notes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        chains = np.unique(self.chain).size
        kind = f"of {chains} chain{'s' * (chains > 1)}"
        if self.independent:
            kind = "independent"
        if self.weights is not None:
            kind = f"with weights, worth {effective_size(self.weights):.0f} without"
        whole = f"{len(self)} {kind}, d={len(self.names)}: {shown}"
        return f"Draws({whole}; {notes})" if notes else f"Draws({whole})"


class Block(NamedTuple):
    """One variable: its name, the names of its k columns, draws and scores (chains, draws, k)."""

    variable: str
    names: list[str]
    x: np.ndarray
    score: np.ndarray | None = None


def indexed(
    name: str, shape: tuple[int, ...], labels: Sequence[Sequence[Any]] | None = None
) -> list[str]:
    """Names of the entries of an array in C order, as ``name[0, 1]``.

    `labels` of each axis take the place of numbers.
    """
    axes: Sequence[Sequence[Any]] = [range(size) for size in shape] if labels is None else labels
    grid = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij")
    places = zip(*(axis.ravel() for axis in grid), strict=True) if shape else [()]
    return [
        f"{name}[{', '.join(str(axes[k][i]) for k, i in enumerate(place))}]" if shape else name
        for place in places
    ]


def unconstrained_names(
    names: Sequence[str], x: np.ndarray, constrained: np.ndarray | None
) -> list[str]:
    """Names that say what columns x of unconstrained space are: "log(a)", "logit(a)" or "a" itself.

    `constrained` has the same columns as the model has them; None where it has others, as of a
    simplex. The values tell, as libraries do not: BridgeStan knows of no transforms, and those of
    NumPyro are composed of many. What is neither is "a (unconstrained)".
    """
    if constrained is None or np.shape(constrained) != np.shape(x):
        return [f"{name} (unconstrained)" for name in names]
    precision = max(_precision(x), _precision(constrained))
    z = np.asarray(x, dtype=float).reshape(-1, len(names))
    values = np.asarray(constrained, dtype=float).reshape(-1, len(names))
    return [
        _formula(name, column[known], some[known], precision)
        for name, column, some in zip(names, z.T, values.T, strict=True)
        for known in [np.isfinite(column) & np.isfinite(some)]
    ]


def _precision(values: Any) -> float:
    kind = np.asarray(values).dtype
    return float(np.finfo(kind if kind.kind == "f" else float).eps)


def _formula(name: str, z: Array, values: Array, precision: float) -> str:
    """The name of a column z that is `values`, of that name, in constrained space."""
    sizes = abs(values) + np.finfo(np.float32).tiny  # where single precision ends
    with np.errstate(over="ignore"):
        inverses = {name: z, f"log({name})": np.exp(z), f"logit({name})": 1.0 / (1.0 + np.exp(-z))}
        errors = {
            formula: float(np.max(abs(expected - values) / sizes, initial=0.0))
            for formula, expected in inverses.items()
        }
    best = min(errors, key=lambda formula: errors[formula])  # small chances: log is almost logit
    return best if z.size and errors[best] <= precision**0.5 else f"{name} (unconstrained)"


def seem_bounded(x: Array, names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns of which no number is below 0, or none outside (0, 1), against all odds.

    Of normal draws with the same mean and deviation, at least five would be.
    """
    from scipy.special import ndtr

    deviation = x.std(axis=0)
    z = np.stack([-x.mean(axis=0), x.mean(axis=0) - 1.0]) / np.where(deviation > 0, deviation, 1.0)
    below, above = len(x) * ndtr(z)
    positive = (x > 0).all(axis=0)
    some = (positive & (below >= _BEYOND)) | (
        positive & (x < 1).all(axis=0) & (below + above >= _BEYOND)
    )
    return tuple(names[k] for k in np.flatnonzero(some & (deviation > 0)).tolist())


def check_variables(var_names: VarNames, known: Sequence[str]) -> list[str]:
    """`var_names` as a list, all that are `known` if None; an unknown name is an error."""
    if var_names is None:
        return list(known)
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    missing = [name for name in names if name not in known]
    if missing or not names:
        what = f"no variable {missing[0]!r}" if missing else "nothing asked for"
        raise ArgumentError(
            "var_names", f"must name variables: {what}; there are {', '.join(map(repr, known))}"
        )
    return list(dict.fromkeys(names))


def collect(
    blocks: Sequence[Block],
    *,
    score: Callable[[Array, np.ndarray], np.ndarray] | None = None,
    diverging: np.ndarray | None = None,
    var_names: VarNames = None,
    on_divergence: OnDivergence = "keep",
    on_nan: OnNan = "error",
    independent: bool = False,
    weights: Any = None,
) -> Draws:
    """`Draws` of some `blocks`.

    Scores come with the blocks, or from ``score(x, rows)``, with x all columns of all blocks at
    these rows. It is called with finite draws only. `diverging` is a (chains, draws) array of
    booleans. `on_divergence` and `on_nan` are as in every bridge. `weights`, (chains * draws,), are
    for independent draws.
    """
    check_choice("on_divergence", on_divergence, ("error", "drop", "keep"))
    check_choice("on_nan", on_nan, ("error", "drop"))
    chosen = check_variables(var_names, list(dict.fromkeys(block.variable for block in blocks)))
    chains, length = blocks[0].x.shape[:2]
    chain = np.repeat(np.arange(chains), length)
    diverging = (
        np.zeros(chain.size, dtype=bool)
        if diverging is None
        else np.asarray(diverging, dtype=bool).reshape(-1)
    )
    weights = check_weights(weights, chain.size)
    x = _columns([block.x for block in blocks], chain.size)
    keep = np.ones(chain.size, dtype=bool)
    if on_divergence != "keep" and diverging.any():
        if on_divergence == "error":
            raise ArgumentError(
                "on_divergence",
                f"is 'error', and {_count(diverging, chain)} diverged: the sampler did not follow "
                "the posterior there. ",
                Option("on_divergence", "keep"),
                " tests the draws as they are; ",
                Option("on_divergence", "drop"),
                " removes these, which may hide a misfit",
            )
        keep &= ~diverging
    keep = _finite(x, keep, chain, on_nan, "hold NaN or infinity in unconstrained space")
    noise = 0.0
    if score is None:
        scores = _columns([block.score for block in blocks if block.score is not None], chain.size)
    else:
        scores = np.full(x.shape, np.nan)
        rows = np.flatnonzero(keep)
        scores[keep] = score(x[keep], rows)
        good = rows[np.isfinite(scores[keep]).all(axis=1)]
        if good.size:
            noise = score_noise(x[good], scores[good], lambda z, k: score(z, good[k]))
    keep = _finite(scores, keep, chain, on_nan, "have a score of NaN or infinity")
    if not keep.any():
        raise ValueError(f"none of the {chain.size} draws is left.")
    variables = [block.variable for block in blocks for _ in block.names]
    names = [name for block in blocks for name in block.names]
    columns = [k for wanted in chosen for k, variable in enumerate(variables) if variable == wanted]
    return Draws(
        x=np.ascontiguousarray(x[keep][:, columns]),
        score=np.ascontiguousarray(scores[keep][:, columns]),
        names=tuple(names[k] for k in columns),
        chain=chain[keep],
        n_divergent=int(diverging[keep].sum()),
        n_dropped=int(np.count_nonzero(~keep)),
        independent=independent,
        weights=None if weights is None else weights[keep],
        score_noise=noise,
    )


def _columns(arrays: Iterable[np.ndarray], n: int) -> Array:
    return np.concatenate(
        [np.asarray(array, dtype=float).reshape(n, -1) for array in arrays], axis=1
    )


def _finite(
    values: Array, keep: np.ndarray, chain: np.ndarray, on_nan: str, complaint: str
) -> np.ndarray:
    """Which of the draws to `keep` have finite values; an error where that is asked for."""
    bad = keep & ~np.isfinite(values).all(axis=1)
    if bad.any() and on_nan == "error":
        raise ArgumentError(
            "on_nan",
            f"is 'error', and {_count(bad, chain)} {complaint}; ",
            Option("on_nan", "drop"),
            " removes them",
        )
    return keep & ~bad


def _count(bad: np.ndarray, chain: np.ndarray) -> str:
    where = ", ".join(
        f"{count} in chain {k}" for k, count in enumerate(np.bincount(chain[bad])) if count
    )
    return f"{np.count_nonzero(bad)} of {bad.size} draws ({where})"
