"""What every bridge to a sampler returns: unconstrained draws of all chains with their scores, bad ones sorted out.

Draws live in unconstrained space, where the model's density is positive everywhere, with the Jacobian of the transform in the
score: on bounded support the Stein identity fails, and a right posterior would be rejected.

Some columns of the draws with the same columns of the joint score still make a valid test: by the Stein identity
``E[s_i(x) f(x_A) + d_i f(x_A)] = 0`` for i in A and every f of the columns A alone. So `var_names` may name a few variables of a
posterior, and discrete variables may be left out of x while the scores are taken at their values.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from .._validate import check_choice
from ..gof import gof_test


@dataclass(frozen=True, eq=False, repr=False)
class Draws:
    """Draws of a sampler, ready to be tested: ``draws.test()``, or ``fs.gof_test(draws.x, draws.score, lag="auto")``.

    Attributes
    ----------
    x : (n, d) array
        Unconstrained draws: chain after chain, each in its order, without warm-up.
    score : (n, d) array
        Gradient of the log-density in unconstrained space at these draws, the transform's Jacobian included.
    names : tuple of str
        Names of the d columns.
    chain : (n,) array of int
        Which chain each draw is from.
    n_divergent : int
        Divergent draws among these.
    n_dropped : int
        Draws left out, because they diverged or were not finite.

    Notes
    -----
    The signs of the wild bootstrap with a `lag` run on across the border between two chains. That is harmless: draws of different chains are
    independent, so that the few pairs across a border whose signs agree have a Stein term of mean zero under the null, whatever their signs.
    What ``lag="auto"`` measures at distance k is diluted by the pairs across borders, a share of k over the length of a chain: chains should be
    much longer than their memory, as for every use of them.
    """

    x: np.ndarray
    score: np.ndarray
    names: tuple[str, ...]
    chain: np.ndarray
    n_divergent: int = 0
    n_dropped: int = 0

    def test(self, **options):
        """`fastsksd.gof_test` of these draws with ``lag="auto"`` and any other of its options."""
        return replace(
            gof_test(self.x, self.score, **({"lag": "auto"} | options)), names=self.names
        )

    def __len__(self):
        return self.x.shape[0]

    def __repr__(self):
        shown = ", ".join(self.names[:6]) + (", ..." if len(self.names) > 6 else "")
        notes = [f"{self.n_divergent} divergent"] * (self.n_divergent > 0) + [
            f"{self.n_dropped} dropped"
        ] * (self.n_dropped > 0)
        chains = np.unique(self.chain).size
        return f"Draws({len(self)} of {chains} chain{'s' * (chains > 1)}, d={len(self.names)}: {shown}{'; ' * bool(notes)}{', '.join(notes)})"


class Block(NamedTuple):
    """One variable: its name, the names of its k columns, draws (chains, draws, k) and, where known, scores of that shape."""

    variable: str
    names: list
    x: np.ndarray
    score: np.ndarray | None = None


def indexed(name, shape, labels=None):
    """Names of the entries of an array in C order: ``name[0, 1]``, with `labels` of each axis in place of numbers."""
    axes = [range(size) for size in shape] if labels is None else labels
    grid = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij")
    places = zip(*(axis.ravel() for axis in grid), strict=True) if shape else [()]
    return [
        f"{name}[{', '.join(str(axes[k][i]) for k, i in enumerate(place))}]" if shape else name
        for place in places
    ]


def check_variables(var_names, known):
    """`var_names` as a list, all of the `known` when None; a name that is not there is answered by those that are."""
    if var_names is None:
        return list(known)
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    missing = [name for name in names if name not in known]
    if missing or not names:
        what = f"no variable {missing[0]!r}" if missing else "nothing asked for"
        raise ValueError(f"`var_names`: {what}; there are {', '.join(map(repr, known))}.")
    return list(dict.fromkeys(names))


def collect(
    blocks, *, score=None, diverging=None, var_names=None, on_divergence="error", on_nan="error"
):
    """`Draws` of some `blocks`.

    Scores come with the blocks, or from ``score(x, rows)``, with x all columns of all blocks at these rows; it sees finite draws only.
    `diverging` is a (chains, draws) array of booleans. `on_divergence` and `on_nan` are as in every bridge.
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
    x = _columns([block.x for block in blocks], chain.size)
    keep = np.ones(chain.size, dtype=bool)
    if on_divergence != "keep" and diverging.any():
        if on_divergence == "error":
            raise ValueError(
                f"{_count(diverging, chain)} diverged, so the sampler did not follow the posterior there. Give on_divergence='keep' "
                "to test the draws as they are, or on_divergence='drop' to leave these out, which may hide the misfit."
            )
        keep &= ~diverging
    keep = _sort_out(x, keep, chain, on_nan, "hold NaN or infinity in unconstrained space")
    if score is None:
        scores = _columns([block.score for block in blocks], chain.size)
    else:
        scores = np.full(x.shape, np.nan)
        scores[keep] = score(x[keep], np.flatnonzero(keep))
    keep = _sort_out(scores, keep, chain, on_nan, "have a score of NaN or infinity")
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
    )


def _columns(arrays, n):
    return np.concatenate(
        [np.asarray(array, dtype=float).reshape(n, -1) for array in arrays], axis=1
    )


def _sort_out(values, keep, chain, on_nan, complaint):
    bad = keep & ~np.isfinite(values).all(axis=1)
    if bad.any() and on_nan == "error":
        raise ValueError(f"{_count(bad, chain)} {complaint}. Give on_nan='drop' to leave them out.")
    return keep & ~bad


def _count(bad, chain):
    where = ", ".join(
        f"{count} in chain {k}" for k, count in enumerate(np.bincount(chain[bad])) if count
    )
    return f"{np.count_nonzero(bad)} of {bad.size} draws ({where})"
