"""Gaussian-Bernoulli restricted Boltzmann machine (RBM)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._doors import interruptible
from .._typing import Array, ArrayLike, Rng
from .._validate import check_choice, check_integer, check_number, check_rng, frozen
from ..compute.gibbs import run_chains, ziggurat_edges
from ..compute.streams import draw_seed
from .base import Model, finite, parameter

COUPLINGS = {"half": 0.5, "full": 1.0}  # factor of x^T B h in the exponent


class GaussBernRBM(Model):
    """Gaussian-Bernoulli restricted Boltzmann machine.

    Its density ``p(x)`` is proportional to the sum over h in {-1, +1}^d_hidden of
    ``exp(kappa x^T B h + b^T x + c^T h - |x|^2 / 2)``.

    Parameters
    ----------
    B : (d, d_hidden) array
        Couplings.
    b : (d,) array
        Visible bias.
    c : (d_hidden,) array
        Hidden bias.
    coupling : {"half", "full"}
        Value of kappa.

        "half"
            ``kappa = 1/2``, the test-bed behind the published numbers.
        "full"
            ``kappa = 1``, as the paper prints it.

    Notes
    -----
    Chains mix slowly when the columns of B are long. With d = 50, d_hidden = 40, entries +-1 and
    the half coupling, a hidden unit flips about once in 30000 steps after the first thousand. Most
    samples stay in a mode that their chain found early, and the weights of the modes are not those
    of the model. Scores hardly depend on these weights; moments do.

    Examples
    --------
    >>> from fastsksd import models
    >>> model = models.GaussBernRBM.random(5, 3, rng=0)
    >>> model
    GaussBernRBM(d=5, d_hidden=3, coupling='half')
    >>> model.sample(100, burn_in=50, rng=0).shape
    (100, 5)
    """

    d: int

    def __init__(
        self, B: ArrayLike, b: ArrayLike, c: ArrayLike, coupling: Literal["half", "full"] = "half"
    ) -> None:
        self.B = parameter("B", B, ("d", "d_hidden"))
        self.d, self.d_hidden = self.B.shape
        self.b = parameter("b", b, (self.d,))
        self.c = parameter("c", c, (self.d_hidden,))
        check_choice("coupling", coupling, COUPLINGS)
        self.coupling = coupling
        self._coupled = frozen(COUPLINGS[coupling] * self.B)

    def __repr__(self) -> str:
        return f"GaussBernRBM(d={self.d}, d_hidden={self.d_hidden}, coupling={self.coupling!r})"

    @classmethod
    def random(
        cls, d: int, d_hidden: int, *, rng: Rng = None, coupling: Literal["half", "full"] = "half"
    ) -> GaussBernRBM:
        """Model with entries of B uniform on {-1, +1} and standard normal biases.

        Parameters
        ----------
        d : int
            Number of visible units.
        d_hidden : int
            Number of hidden units.
        rng : None, int or numpy.random.Generator
            Source of randomness.
        coupling : {"half", "full"}
            Value of kappa, see the class.

        Returns
        -------
        GaussBernRBM
            The model.
        """
        d, d_hidden = check_integer("d", d, 1), check_integer("d_hidden", d_hidden, 1)
        rng = check_rng(rng)
        b, c = rng.standard_normal(d), rng.standard_normal(d_hidden)
        return cls(rng.choice([-1.0, 1.0], size=(d, d_hidden)), b, c, coupling)

    def perturbed(self, std: float, *, rng: Rng = None) -> GaussBernRBM:
        """Copy with Gaussian noise added to every entry of B.

        Parameters
        ----------
        std : float
            Standard deviation of the noise.
        rng : None, int or numpy.random.Generator
            Source of randomness.

        Returns
        -------
        GaussBernRBM
            The perturbed model.
        """
        std, rng = check_number("std", std, 0), check_rng(rng)
        return type(self)(
            self.B + std * rng.standard_normal(self.B.shape), self.b, self.c, self.coupling
        )

    @interruptible
    def sample(self, n: int, *, burn_in: int = 2000, rng: Rng = None) -> Array:
        """Draw samples by block Gibbs sampling, each from its own chain.

        Parameters
        ----------
        n : int
            Number of chains, and of samples.
        burn_in : int
            Steps that each chain takes from its start, x standard normal. The sample is the last
            state.
        rng : None, int or numpy.random.Generator
            Source of randomness. The result does not depend on the number of threads.

        Returns
        -------
        (n, d) array
            Samples, one per row.
        """
        n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 1)
        return self._run_chains(np.full(n, burn_in), rng)

    @interruptible
    def burn_in_samples(self, n: int, *, burn_in: int = 2000, rng: Rng = None) -> Array:
        """Draw states of the burn-in, to train slices on.

        They do not follow the model and must not be tested.

        Parameters
        ----------
        n : int
            Number of states. Each comes from its own chain, so that they are independent.
        burn_in : int
            The states are spread evenly over the steps 1 to `burn_in`, row 0 after the first.
        rng : None, int or numpy.random.Generator
            Source of randomness. The result does not depend on the number of threads. The chains
            are those of `sample` if both get the same integer: share a generator, or use two seeds.

        Returns
        -------
        (n, d) array
            States, one per row.
        """
        n, burn_in = check_integer("n", n, 1), check_integer("burn_in", burn_in, 1)
        return self._run_chains(1 + np.arange(n) * burn_in // n, rng)

    @finite
    def score(self, x: ArrayLike) -> Array:
        x = self._check_points(x)
        return self.b - x + np.tanh(self._fields(x)) @ self._coupled.T

    @finite
    def score_along(self, x: ArrayLike, r: ArrayLike) -> Array:
        x, r = self._check_points_and_direction(x, r)
        slope = 1.0 - np.tanh(self._fields(x)) ** 2
        return (slope * (r @ self._coupled)) @ self._coupled.T - r

    @finite
    def log_density(self, x: ArrayLike) -> Array:
        """Unnormalised log-density, without the partition function.

        Parameters
        ----------
        x : (n, d) array
            Points.

        Returns
        -------
        (n,) array
            Log-densities of the rows of `x`, up to a constant.
        """
        x = self._check_points(x)
        fields = np.abs(self._fields(x))
        log_2cosh = fields + np.log1p(np.exp(-2.0 * fields))
        return x @ self.b - 0.5 * np.einsum("nd,nd->n", x, x) + log_2cosh.sum(axis=1)

    def _fields(self, x: Array) -> Array:
        return x @ self._coupled + self.c

    def _run_chains(self, steps: np.ndarray, rng: Rng) -> Array:
        # Given h, the field of the hidden units is c + K^T b + K^T K h + K^T e with K = kappa B and
        # e standard normal. By the QR decomposition of K, K^T e is R^T z with z standard normal of
        # length min(d, d_hidden). So the chain runs in h alone, and x is drawn once, at the end.
        coupled = self._coupled
        triangle = np.asarray(np.linalg.qr(coupled, mode="r"))
        return run_chains(
            draw_seed(check_rng(rng)),
            steps.astype(np.int64),
            self.b,
            self.c,
            self.b @ coupled,
            np.ascontiguousarray(coupled.T),
            np.ascontiguousarray(triangle.T),
            coupled.T @ coupled,
            ziggurat_edges(),
        )
