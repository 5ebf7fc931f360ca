"""JAX's trees of arrays, as BlackJAX and NumPyro use them: columns of draws, and scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._draws import Block, indexed, unconstrained_names
from ._library import library, with_progress
from .jax import score_from_logp


def tree_blocks(
    positions: Any, gradients: Any = None, constrained: Mapping[str, Any] | None = None
) -> list[Block]:
    """One block for each leaf of a tree of arrays (chains, draws, ...), in JAX's order.

    `constrained` has the same leaves in constrained space, by name, where the model has another.
    """
    tree = library("jax").tree_util
    leaves, structure = tree.tree_flatten_with_path(positions)
    scores = [None] * len(leaves) if gradients is None else structure.flatten_up_to(gradients)
    blocks = []
    for (path, x), score in zip(leaves, scores, strict=True):
        x = np.asarray(x)
        name = (
            ".".join(
                str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key))))
                for key in path
            )
            or "x"
        )
        flat = x.reshape(*x.shape[:2], -1)
        names = indexed(name, x.shape[2:])
        if constrained is not None:
            values = np.asarray(constrained.get(name))
            same = values.shape == x.shape
            names = unconstrained_names(names, flat, values.reshape(flat.shape) if same else None)
        blocks.append(
            Block(
                name, names, flat, None if score is None else np.asarray(score).reshape(flat.shape)
            )
        )
    return blocks


def tree_score(
    logdensity: Callable[[Any], Any], example: Any, batch_size: int | None
) -> Callable[[np.ndarray], np.ndarray]:
    """Score function (n, d) -> (n, d) of a log-density of trees like `example`."""
    _, unravel = library("jax.flatten_util").ravel_pytree(example)
    return score_from_logp(lambda row: logdensity(unravel(row)), batch_size=batch_size)


def scores_of_trees(
    logdensity: Callable[[Any], Any], positions: Any, batch_size: int | None, progress: bool
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Scores of draws at trees of arrays (chains, draws, ...), as `collect` asks for them."""
    example = library("jax").tree.map(lambda leaf: leaf[0, 0], positions)
    function = tree_score(logdensity, example, batch_size)
    return with_progress(lambda x, rows: function(x), progress, batch_size)
