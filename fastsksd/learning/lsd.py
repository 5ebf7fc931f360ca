"""Learned Stein discrepancy (Grathwohl et al., 2020): the test function is a neural network, the critic.

The critic f climbs  ``mean [s.f + div f] - penalty * mean |f|^2``,  the model descends along the first part. The divergence is
Hutchinson's estimate ``mean_v v.(J v)`` over random signs v. JAX is needed, from the extra ``fastsksd[jax]``.
"""

import functools
import itertools

import numpy as np

from .._validate import (
    check_betas,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
)


class LearnedSteinLoss:
    """Learned Stein discrepancy as a training loss, called like `SlicedSteinLoss`.

    The critic is a network of fully connected layers with the swish activation ``z / (1 + exp(-z))``. It takes `critic_steps`
    steps of Adam for each call.

    Parameters
    ----------
    d : int
        Dimension of the samples.
    hidden : tuple of int
        Widths of the hidden layers.
    penalty : float
        Weight of the critic's squared length.
    critic_steps : int
        Steps of the critic for each call.
    probes : int
        Random vectors of Hutchinson's estimate.
    learning_rate, betas : float, pair of float
        Adam's, for the critic.
    rng : None, int or numpy.random.Generator
        Source of the critic's first weights and of the random vectors.

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
        d,
        *,
        hidden=(300, 300),
        penalty=1.0,
        critic_steps=1,
        probes=10,
        learning_rate=1e-3,
        betas=(0.5, 0.9),
        rng=None,
    ):
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

    def __repr__(self):
        hidden = tuple(weight.shape[1] for weight in self._weights[:-2:2])
        return f"LearnedSteinLoss(d={self.d}, hidden={hidden}, penalty={self.penalty:g}, steps={self.steps})"

    def __call__(self, x, score):
        """Value of the loss at samples `x`, a float, and its gradient in the scores there, (n, d), after the critic's steps."""
        x = check_samples(x, min_rows=1, d=self.d)
        scores = evaluate_score(check_score(score), x).astype(np.float32)
        points = x.astype(np.float32)
        climb, evaluate = self._functions
        for _ in range(self.critic_steps):
            self.steps += 1
            self._weights, self._moments = climb(
                self._weights, self._moments, self.steps, points, scores, self._signs(x.shape[0]),
                self.penalty, self.learning_rate, self.betas,
            )  # fmt: skip
        value, test = evaluate(self._weights, points, scores, self._signs(x.shape[0]))
        return float(value), np.asarray(test, dtype=float) / x.shape[0]

    def _signs(self, n):
        return self.rng.choice(np.array([-1.0, 1.0], dtype=np.float32), (self.probes, n, self.d))

    def state(self):
        """Arrays from which `restore` makes a loss of the same settings go on; the generator `rng` is not among them."""
        groups = {"weight": self._weights, "mean": self._moments[0], "square": self._moments[1]}
        arrays = {
            f"{name}{k}": np.asarray(array)
            for name, group in groups.items()
            for k, array in enumerate(group)
        }
        return {"steps": np.array(self.steps), **arrays}

    def restore(self, state):
        """Go on from what `state` returned."""
        self.steps = int(state["steps"])
        groups = [
            [state[f"{name}{k}"] for k in range(len(self._weights))]
            for name in ("weight", "mean", "square")
        ]
        self._weights, self._moments = groups[0], groups[1:]


@functools.cache
def _compiled_functions():
    """One step of the critic, and the discrepancy with the critic's values."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        raise ImportError(
            "the learned Stein discrepancy needs JAX; install it with: pip install 'fastsksd[jax]'"
        ) from error

    def critic(weights, x):
        for k in range(0, len(weights) - 2, 2):
            x = jax.nn.swish(x @ weights[k] + weights[k + 1])
        return x @ weights[-2] + weights[-1]

    def discrepancy(weights, x, scores, signs):
        test = critic(weights, x)

        def divergence(v):
            return jnp.sum(
                v * jax.jvp(lambda points: critic(weights, points), (x,), (v,))[1], axis=1
            )

        return jnp.mean(
            jnp.sum(scores * test, axis=1) + jnp.mean(jax.vmap(divergence)(signs), axis=0)
        ), test

    def descended(weights, x, scores, signs, penalty):
        value, test = discrepancy(weights, x, scores, signs)
        return penalty * jnp.mean(jnp.sum(test**2, axis=1)) - value

    def climb(weights, moments, step, x, scores, signs, penalty, learning_rate, betas):
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

    def beta_mean(beta, old, new):
        return beta * old + (1.0 - beta) * new

    return jax.jit(climb), jax.jit(discrepancy)
