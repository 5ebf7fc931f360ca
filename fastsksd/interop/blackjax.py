"""BlackJAX: draws and gradients from the states of a sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from .._validate import ArgumentError, ArgumentTypeError
from ._draws import Draws, OnDivergence, OnNan, VarNames, collect
from ._library import library
from ._trees import scores_of_trees, tree_blocks

__all__ = ["draws", "particles"]


def draws(
    states: Any,
    *,
    logdensity_fn: Callable[[Any], Any] | None = None,
    infos: Any = None,
    chain_axis: Literal[0, 1] | None = None,
    var_names: VarNames = None,
    on_divergence: OnDivergence = "keep",
    on_nan: OnNan = "error",
    batch_size: int | None = 100,
    progress: bool = True,
) -> Draws:
    """Draws with their scores from the states of a BlackJAX sampler.

    The gradients in the states are used; HMC, NUTS, MALA and others keep them. BlackJAX samples in
    the space of `logdensity_fn`. So this must be a density on all of R^d, with the Jacobians of its
    transforms. Names are those of the position: call the logarithm of a scale "log_scale" there.

    Parameters
    ----------
    states : object
        The stacked states of all draws. Their `position` is a tree of arrays (draws, ...),
        (chains, draws, ...) or (draws, chains, ...).
    logdensity_fn : callable, optional
        Log-density of one position. Its gradient takes the place of those in the states. It is
        needed if they hold none.
    infos : object, optional
        What the sampler returned about each step, stacked like `states`. Only `is_divergent` is
        used.
    chain_axis : {0, 1}, optional
        Axis of the chains, if there are two: 0 if whole chains were run by ``vmap``, 1 if each step
        was.
    var_names : str or sequence of str, optional
        Entries of the position to test; all by default. An array without a name is "x".
    on_divergence : {"keep", "error", "drop"}
        What to do with divergent draws, for given `infos`. They are draws of the chain all the
        same, and removing them may hide a misfit: a diagnosis says how many there are.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.
    batch_size : int or None
        Number of gradients of `logdensity_fn` computed at a time; None for all at once.
    progress : bool
        Show progress on standard error, if these take more than a few seconds.

    Returns
    -------
    Draws
        Unconstrained draws with their scores.

    Raises
    ------
    ValueError
        If the states hold no gradients and `logdensity_fn` is not given, or draws are not finite.

    Examples
    --------
    >>> import blackjax, jax, jax.numpy as jnp, fastsksd as fs
    >>> nuts = blackjax.nuts(lambda z: -0.5 * (z**2).sum(), 0.5, jnp.ones(2))
    >>> step = lambda state, key: (lambda out: (out[0], out))(nuts.step(key, state))
    >>> keys = jax.random.split(jax.random.key(0), 200)
    >>> _, (states, infos) = jax.lax.scan(step, nuts.init(jnp.zeros(2)), keys)
    >>> fs.interop.blackjax.draws(states, infos=infos)
    Draws(200 of 1 chain, d=2: x[0], x[1])
    """
    jax = library("jax")
    if not hasattr(states, "position") or not hasattr(states, "logdensity"):
        raise ArgumentTypeError(
            "states",
            "must be stacked states of a BlackJAX sampler, with position and logdensity; "
            f"got {type(states).__name__}",
        )
    axes = np.ndim(states.logdensity)
    if axes not in (1, 2):
        raise ArgumentError(
            "states",
            "must be stacked along one axis, or two with chains; "
            f"the log-densities have shape {np.shape(states.logdensity)}",
        )
    if chain_axis not in ((0, 1) if axes == 2 else (None,)):
        shape = np.shape(states.logdensity)
        wanted = (
            f"0 or 1, for states stacked along two axes, {shape}: 0 if whole chains were run by "
            "vmap, (chains, draws), 1 if each step was, (draws, chains)"
            if axes == 2
            else f"None, for states stacked along one axis, {shape}"
        )
        raise ArgumentError("chain_axis", f"must be {wanted}; got {chain_axis!r}")

    def by_chain(leaf: Any) -> np.ndarray:
        leaf = np.asarray(leaf)
        return leaf[None] if axes == 1 else np.swapaxes(leaf, 0, 1) if chain_axis == 1 else leaf

    positions = jax.tree.map(by_chain, states.position)
    options: dict[str, Any] = {
        "var_names": var_names,
        "on_divergence": on_divergence,
        "on_nan": on_nan,
    }
    if infos is not None:
        if not hasattr(infos, "is_divergent"):
            raise ArgumentTypeError(
                "infos",
                f"must have is_divergent, as those of HMC and NUTS; got {type(infos).__name__}",
            )
        options["diverging"] = by_chain(infos.is_divergent)
    if logdensity_fn is not None:
        scores = scores_of_trees(logdensity_fn, positions, batch_size, progress)
        return collect(tree_blocks(positions), score=scores, **options)
    if not hasattr(states, "logdensity_grad"):
        raise ArgumentError(
            "logdensity_fn", f"is needed: {type(states).__name__} holds no gradients"
        )
    return collect(
        tree_blocks(positions, jax.tree.map(by_chain, states.logdensity_grad)), **options
    )


def particles(
    source: Any,
    logdensity_fn: Callable[[Any], Any],
    *,
    weights: Any = None,
    var_names: VarNames = None,
    on_nan: OnNan = "error",
    batch_size: int | None = 100,
    progress: bool = True,
) -> Draws:
    """Independent draws of an approximation, or particles with weights, with their scores.

    Parameters
    ----------
    source : state of sequential Monte Carlo, or tree of arrays
        A state with `particles` and `weights`. Or draws, as those that
        ``blackjax.vi.pathfinder.sample`` returns, also with their log-densities in a pair: a tree
        of arrays (draws, ...).
    logdensity_fn : callable
        Log-density of one position: that of the posterior, on all of R^d.
    weights : (draws,) array, optional
        Importance weights, in place of those of a state.
    var_names : str or sequence of str, optional
        Entries of the position to test; all by default. An array without a name is "x".
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.
    batch_size : int or None
        Number of gradients of `logdensity_fn` computed at a time; None for all at once.
    progress : bool
        Show progress on standard error, if these take more than a few seconds.

    Returns
    -------
    Draws
        Draws with their scores and weights.

    Raises
    ------
    ValueError
        If weights are negative, not finite, all on one draw or of another number than the draws,
        or draws are not finite.

    Notes
    -----
    Particles are taken as independent. After they were resampled they are not, until moves of a
    Markov kernel have parted the copies: take enough of them.

    Examples
    --------
    >>> import blackjax, jax, jax.numpy as jnp, fastsksd as fs
    >>> logdensity = lambda z: -0.5 * (z**2).sum()
    >>> state, _ = blackjax.vi.pathfinder.approximate(jax.random.key(0), logdensity, jnp.ones(2))
    >>> samples = blackjax.vi.pathfinder.sample(jax.random.key(1), state, 500)
    >>> fs.interop.blackjax.particles(samples, logdensity)
    Draws(500 independent, d=2: x[0], x[1])
    """
    jax = library("jax")
    if not callable(logdensity_fn):
        raise ArgumentTypeError(
            "logdensity_fn",
            f"must be a function of one position; got {type(logdensity_fn).__name__}",
        )
    positions = source
    if hasattr(source, "particles"):
        positions = source.particles
        weights = getattr(source, "weights", None) if weights is None else weights
    elif isinstance(source, tuple) and len(source) == 2 and not hasattr(source, "_fields"):
        positions = source[0]
    leaves = jax.tree.leaves(positions)
    sizes = {np.shape(leaf)[:1] for leaf in leaves}
    if len(sizes) != 1 or () in sizes:
        shapes = ", ".join(str(np.shape(leaf)) for leaf in leaves)
        raise ArgumentError(
            "source", f"must hold arrays (draws, ...) with one number of draws; got {shapes}"
        )
    positions = jax.tree.map(lambda leaf: np.asarray(leaf)[None], positions)
    return collect(
        tree_blocks(positions),
        score=scores_of_trees(logdensity_fn, positions, batch_size, progress),
        var_names=var_names,
        on_nan=on_nan,
        independent=True,
        weights=weights,
    )
