"""What engines have in common: the protocols that the contract tests check.

`PairEngine`
    Sums over pairs of any statistic. Everything that judges a statistic is written against it.
`SliceEngine`
    The same for slices, at several multiples of the bandwidth.
`KernelMatrix`
    The Gaussian kernel between samples: what estimates of the score difference are made of.

The direct, Fourier, multivariate and CUDA engines and the baselines' features fulfil the first. To
add an engine, write a class with these methods and name it in `engines.load`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from .._typing import Array


@runtime_checkable
class PairEngine(Protocol):
    """Sums over pairs of terms ``mu_ij`` of n samples, for each of m components.

    A component is a slice; statistics without slices have one component.
    """

    n: int
    """Number of samples."""

    @property
    def draw(self) -> Callable[..., Any] | None:
        """Function that draws resampling weights where the engine wants them; None for the host."""
        ...

    @property
    def name(self) -> str:
        """What the result calls the engine."""
        ...

    def diagonal(self) -> Array:
        """``sum_i mu_ii`` for each component, (m,)."""
        ...

    def sums(self) -> Array:
        """``sum_{i != j} mu_ij`` for each component, (m,)."""
        ...

    def sums_and_replicates(self, weights: Any, start: int = 0) -> tuple[Array, Array]:
        """`sums`, and one replicate of their total for each row of weights.

        A replicate is ``sum_{i != j} w_i w_j mu_ij``, w a row of ``weights[:, start : start + n]``.
        """
        ...

    def row_sums(self) -> Array:
        """``sum_{j != i} mu_ij`` for each i, summed over components, (n,)."""
        ...

    def spectrum(self) -> Array:
        """Eigenvalues of the centred matrix of all ``mu_ij``, summed over components, over n."""
        ...


@runtime_checkable
class SliceEngine(PairEngine, Protocol):
    """Sums over pairs of Stein terms of m slices, whose bandwidths can be rescaled."""

    def rescaled(self, multiple: float) -> SliceEngine:
        """The same slices with their bandwidths multiplied."""
        ...

    def sums_and_replicates_at(
        self, multiples: Sequence[float], weights: Any, start: int = 0
    ) -> list[tuple[Array, Array]]:
        """`sums_and_replicates` at each multiple of the bandwidth."""
        ...


class KernelProducts(Protocol):
    """Products of rows (m, n) with a kernel matrix; all arrays are where the matrix is."""

    def row_sums(self, square: bool = False) -> Any:
        """Sums of the rows of K, or of its entries squared, (n,)."""
        ...

    def times(self, rows: Any, square: bool = False) -> Any:
        """``rows @ K``, or with the entries of K squared, (m, n)."""
        ...


@runtime_checkable
class KernelMatrix(Protocol):
    """Gaussian kernel of width H between n samples, computed about a `centre`.

    It is on the host or on a device. So are `x`, what `place` returns, and the rows that its
    `products` take and return. Functions for them are in `kit`, with the names of
    `compute.smoothing`. All other arrays are on the host.
    """

    n: int
    x: Any
    width: float
    precision: float

    @property
    def kit(self) -> Any:
        """Module of functions for arrays where the matrix is."""
        ...

    def place(self, rows: Array) -> Any:
        """Rows (n, d) that belong to the samples, where the matrix is."""
        ...

    def smooth(self, y: Array, coefficients: Array) -> Array:
        """``sum_i [coefficients_i - (x_i - y) / H^2] K_iy`` at each row of `y`."""
        ...

    def smooth_gradient(self, y: Array, coefficients: Array, r: Array) -> Array:
        """``H^2`` times the gradient of ``r.smooth`` at each row of `y`."""
        ...

    def triple_moment(self, scores: Any) -> Array:
        """Sum over distinct j, i, i' in KE's matrix S, (d, d); `scores` are placed."""
        ...

    def pair_moment(self, scores: Any, diagonal: float) -> Array:
        """Sum over pairs in KSD's matrix M, (d, d), with `diagonal` for K_ii."""
        ...

    def ridge_scores(self, eta: float) -> Array:
        """Scores of q at the samples by the Stein gradient estimator with ridge `eta`."""
        ...

    def products(self, diagonal: float, squares: bool = False) -> KernelProducts:
        """Products with K, with `diagonal` for K_ii, and with its entries squared if asked."""
        ...
