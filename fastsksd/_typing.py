"""Types that signatures share: what a user may pass, and what modules pass on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from .kernels import Kernel
    from .slices import Slices

Array: TypeAlias = NDArray[np.float64]


class HasScore(Protocol):
    """A model known through its score."""

    def score(self, x: Array, /) -> ArrayLike:
        """``grad log p`` at the rows of `x`, (n, d)."""
        ...


Score: TypeAlias = ArrayLike | Callable[[Array], ArrayLike] | HasScore
"""Score of a model: values at the samples, a function x -> (n, d), or an object with `.score`."""

Rng: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None
"""Source of randomness, as in SciPy."""

KernelLike: TypeAlias = Union[Literal["rbf", "imq"], "Kernel"]
SlicesLike: TypeAlias = Union["Slices", tuple[ArrayLike, ArrayLike]]
EngineName: TypeAlias = Literal["auto", "direct", "fourier", "cuda", "cuda32"]
Null: TypeAlias = Literal["wild", "bootstrap", "spectral"]
Statistic: TypeAlias = Literal["u", "v"]

__all__ = [
    "Array",
    "ArrayLike",
    "EngineName",
    "HasScore",
    "KernelLike",
    "Null",
    "Rng",
    "Score",
    "SlicesLike",
    "Statistic",
]
