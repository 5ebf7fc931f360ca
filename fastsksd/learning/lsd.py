"""Learned Stein discrepancy: the test function is a neural network, the critic.

The critic f maximises ``mean [s.f + div f] - penalty * mean |f|^2``; the model minimises the first
mean. The divergence is Hutchinson's estimate ``mean_v v.(J v)`` over random signs v. JAX is needed,
from the extra ``fastsksd[jax]``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._doors import interruptible
from .._typing import Array, ArrayLike, Rng, Score
from .._validate import (
    check_betas,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
)
from .loss import SteinLoss


class LearnedSteinLoss(SteinLoss):
    """Learned Stein discrepancy as a training loss, called like `SlicedSteinLoss`.

    The critic is a network of fully connected layers with the swish activation
    ``z / (1 + exp(-z))``. It takes `critic_steps` steps of Adam for each call.

    Parameters
    ----------
    d : int
        Dimension of the samples.
    hidden : sequence of int
        Widths of the hidden layers.
    penalty : float
        Weight of the critic's mean squared norm.
    critic_steps : int
        Steps of the critic for each call.
    probes : int
        Number of random vectors in Hutchinson's estimate.
    learning_rate : float
        Adam's step size for the critic.
    betas : pair of float
        Adam's decay rates for the critic.
    rng : None, int or numpy.random.Generator
        Source of the critic's first weights and of the random vectors.

    Attributes
    ----------
    steps : int
        Number of steps of the critic so far.

    Raises
    ------
    ImportError
        If JAX is not installed.

    See Also
    --------
    SlicedSteinLoss : The same with the sliced discrepancy.

    References
    ----------
    .. [1] W. Grathwohl, K.-C. Wang, J.-H. Jacobsen, D. Duvenaud and R. Zemel, "Learning the Stein
       Discrepancy for Training and Evaluating Energy-Based Models without Sampling", ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd.learning import LearnedSteinLoss
    >>> loss = LearnedSteinLoss(2, hidden=(32,), rng=0)
    >>> x = np.random.default_rng(0).standard_normal((100, 2))
    >>> value, by_score = loss(x, -x)
    >>> by_score.shape
    (100, 2)
    """

    def __init__(
        self,
        d: int,
        *,
        hidden: Sequence[int] = (300, 300),
        penalty: float = 1.0,
        critic_steps: int = 1,
        probes: int = 10,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.5, 0.9),
        rng: Rng = None,
    ) -> None:
        self.d = check_integer("d", d, 1)
        widths = [self.d, *(check_integer("hidden", width, 1) for width in hidden), self.d]
        self.penalty = check_number("penalty", penalty, 0.0, strict=True)
        self.critic_steps = check_integer("critic_steps", critic_steps, 1)
        self.probes = check_integer("probes", probes, 1)
        self.learning_rate = check_number("learning_rate", learning_rate, 0.0, strict=True)
        self.betas = check_betas(betas)
        self.rng = check_rng(rng)
        self._functions = _compiled_functions()
        # Uniform first weights of variance 1 / (3 fan-in), the common default.
        self._weights = []
        for before, after in itertools.pairwise(widths):
            for shape in ((before, after), (after,)):
                self._weights.append(
                    self.rng.uniform(-1.0, 1.0, shape).astype(np.float32)
                    / np.float32(np.sqrt(before))
                )
        self._moments = [[np.zeros_like(weight) for weight in self._weights] for _ in range(2)]
        self.steps = 0

    def __repr__(self) -> str:
        hidden = tuple(weight.shape[1] for weight in self._weights[:-2:2])
        return (
            f"LearnedSteinLoss(d={self.d}, hidden={hidden}, penalty={self.penalty:g}, "
            f"steps={self.steps})"
        )

    @interruptible
    def __call__(self, x: ArrayLike, score: Score) -> tuple[float, Array]:
        x = check_samples(x, min_rows=1, d=self.d)
        scores = evaluate_score(check_score(score), x).astype(np.float32)
        points = x.astype(np.float32)
        ascend, evaluate = self._functions
        for _ in range(self.critic_steps):
            self.steps += 1
            self._weights, self._moments = ascend(
                self._weights, self._moments, self.steps, points, scores, self._signs(x.shape[0]),
                self.penalty, self.learning_rate, self.betas,
            )  # fmt: skip
        value, test = evaluate(self._weights, points, scores, self._signs(x.shape[0]))
        return float(value), np.asarray(test, dtype=float) / x.shape[0]

    def _signs(self, n: int) -> np.ndarray:
        return self.rng.choice(np.array([-1.0, 1.0], dtype=np.float32), (self.probes, n, self.d))

    def state(self) -> dict[str, np.ndarray]:
        groups = {"weight": self._weights, "mean": self._moments[0], "square": self._moments[1]}
        arrays = {
            f"{name}{k}": np.asarray(array)
            for name, group in groups.items()
            for k, array in enumerate(group)
        }
        return {"steps": np.array(self.steps), **arrays}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.steps = int(state["steps"])
        groups = [
            [state[f"{name}{k}"] for k in range(len(self._weights))]
            for name in ("weight", "mean", "square")
        ]
        self._weights, self._moments = groups[0], groups[1:]


@functools.cache
def _compiled_functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """One step of the critic, and the discrepancy with the critic's values."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        raise ImportError(
            "the learned Stein discrepancy needs JAX; install it with: pip install 'fastsksd[jax]'"
        ) from error

    def critic(weights: list, x: Any) -> Any:
        for k in range(0, len(weights) - 2, 2):
            x = jax.nn.swish(x @ weights[k] + weights[k + 1])
        return x @ weights[-2] + weights[-1]

    def discrepancy(weights: list, x: Any, scores: Any, signs: Any) -> tuple[Any, Any]:
        test = critic(weights, x)

        def divergence(v: Any) -> Any:
            return jnp.sum(
                v * jax.jvp(lambda points: critic(weights, points), (x,), (v,))[1], axis=1
            )

        return jnp.mean(
            jnp.sum(scores * test, axis=1) + jnp.mean(jax.vmap(divergence)(signs), axis=0)
        ), test

    def descended(weights: list, x: Any, scores: Any, signs: Any, penalty: float) -> Any:
        value, test = discrepancy(weights, x, scores, signs)
        return penalty * jnp.mean(jnp.sum(test**2, axis=1)) - value

    def ascend(
        weights: list, moments: list, step: int, x: Any, scores: Any, signs: Any,
        penalty: float, learning_rate: float, betas: tuple[float, float],
    ) -> tuple[list, list]:  # fmt: skip
        slopes = jax.grad(descended)(weights, x, scores, signs, penalty)
        first = [
            beta_mean(betas[0], old, slope) for old, slope in zip(moments[0], slopes, strict=True)
        ]
        second = [
            beta_mean(betas[1], old, slope**2)
            for old, slope in zip(moments[1], slopes, strict=True)
        ]
        corrections = [1.0 - beta**step for beta in betas]
        moved = [
            weight - learning_rate * (m / corrections[0]) / (jnp.sqrt(v / corrections[1]) + 1e-8)
            for weight, m, v in zip(weights, first, second, strict=True)
        ]
        return moved, [first, second]

    def beta_mean(beta: float, old: Any, new: Any) -> Any:
        return beta * old + (1.0 - beta) * new

    return jax.jit(ascend), jax.jit(discrepancy)
