"""What every posterior has: density, score, and ways to get it wrong.

All coordinates are unconstrained; a positive parameter is its logarithm, and the density includes
the Jacobian. Wrong versions have the density of a common mistake: without the Jacobian, or with
priors of another width.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Array


class Posterior:
    """A posterior with independent normal priors for some coordinates.

    Attributes
    ----------
    names : list of str
        Names of the d coordinates.
    logs : tuple of int
        Coordinates that are logarithms of positive parameters.
    centre, scale : (d,) arrays
        Of the normal priors; scale infinity where a coordinate has none.
    """

    names: list[str]
    logs: tuple[int, ...] = ()
    centre: Array
    scale: Array

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return len(self.names)

    def likelihood(self, x: Array) -> tuple[Array, Array]:
        """What the density has beside the priors of `prior`: logarithm (n,), gradient (n, d)."""
        raise NotImplementedError

    def prior(self, x: Array, width: Array) -> tuple[Array, Array]:
        """The priors, with all their scales multiplied by `width`, (n,) or a number."""
        scale = np.multiply.outer(width, self.scale)
        z = (x - self.centre) / scale
        return -0.5 * (z * z).sum(axis=1), -z / scale

    def density(
        self, x: Array, *, jacobian: float | Array = 1.0, width: float | Array = 1.0
    ) -> tuple[Array, Array]:
        """Log-density up to a constant, (n,), and its gradient, (n, d).

        Parameters
        ----------
        x : (n, d) array
            Points in unconstrained space.
        jacobian : float or (n,) array
            1 for a density with the Jacobian of the logarithms, 0 for one that lacks it.
        width : float or (n,) array
            Factor of the scales of the priors, which should be 1.
        """
        value, slope = self.likelihood(x)
        prior, push = self.prior(x, np.asarray(width))
        value, slope = value + prior, slope + push
        lacking = 1.0 - np.asarray(jacobian)
        logs = list(self.logs)
        value -= lacking * x[:, logs].sum(axis=1)
        slope[:, logs] -= lacking[..., None]
        return value, slope

    def score(self, x: Array) -> Array:
        """Gradient of the log-density, (n, d)."""
        with np.errstate(over="ignore"):
            return self.density(x)[1]

    def start(self, chains: int, rng: np.random.Generator) -> Array:
        """Where chains start: uniform between -2 and 2, as in Stan."""
        return rng.uniform(-2.0, 2.0, (chains, self.d))


def indexed(name: str, count: int) -> list[str]:
    """Names of the entries of a vector."""
    return [f"{name}[{k}]" for k in range(count)]
