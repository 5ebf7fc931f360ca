"""Translation-invariant kernels and their bandwidths.

With ``t = (y_i - y_j) / h`` in units of the bandwidth,

RBF   ``k(t) = exp(-t^2 / 2)``
IMQ   ``k(t) = (1 + t^2)^(-1/2)``

Engines know a kernel by its code; its values and derivatives are in `compute.pointwise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ._typing import Array, KernelLike
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    check_choice,
    check_positive_vector,
    counted,
    first_few,
    frozen,
)
from .compute.linalg import product
from .compute.medians import median_distance, median_distances
from .compute.projections import CONSTANT, spread

GIVEN = Option("kernel=fs.RBF(1.0)")  # a kernel with a bandwidth


class FlatProjection(ArgumentError):
    """Samples that do not vary along a slice, so that they have no median distance."""

    def about(self, name: str) -> FlatProjection:
        """The same error about the argument `name`."""
        return FlatProjection(name, *self.parts, remedy=self.remedy)


def constant_columns(
    sets: Sequence[Array], names: Sequence[str] | None, argument: str = "x"
) -> FlatProjection | None:
    """The error about columns that are constant in all sets of samples; None without any.

    Where all columns are constant, other errors say so.
    """
    together = np.concatenate([x - sets[0][0] for x in sets])
    still = np.flatnonzero((together == 0.0).all(axis=0))
    if not 0 < still.size < together.shape[1]:
        return None
    return FlatProjection(
        argument,
        f"does not vary in {shown_columns(still, names)}, along which slices have no median "
        "distance",
        remedy=("Drop the column, or give a bandwidth, as in ", GIVEN, "."),
    )


def shown_columns(columns: np.ndarray, names: Sequence[str] | None) -> str:
    """Columns by their names or numbers."""
    shown = columns.tolist() if names is None else [repr(names[k]) for k in columns]
    return f"{'column' if columns.size == 1 else 'columns'} {first_few(shown)}"


@dataclass(frozen=True, eq=False)
class Kernel:
    """Base of the kernels.

    Parameters
    ----------
    bandwidth : "median", float or sequence of float
        The bandwidth h:

        "median"
            The median of the pairwise distances ``|y_i - y_j|``, i < j, exact for every n. Where
            more than half of the pairs coincide (discretised data), it is the median of the
            positive distances.
        float
            One number for all slices.
        sequence of float
            One number for each slice.
    """

    bandwidth: Any = "median"

    code: ClassVar[int]
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "median":
                raise ArgumentError(
                    "bandwidth", f"must be 'median' or positive numbers; got {self.bandwidth!r}"
                )
        else:
            values = check_positive_vector("bandwidth", self.bandwidth)
            object.__setattr__(
                self, "bandwidth", float(values) if values.ndim == 0 else frozen(values)
            )

    def bandwidths(self, y: Array, scale: float | Array = 0.0) -> Array:
        """One bandwidth for each row of projected samples.

        Parameters
        ----------
        y : (m, n) array
            Samples along each slice.
        scale : float or (m,) array
            How much the samples may vary along a slice. A median distance far below is round-off.

        Returns
        -------
        (m,) array
            Bandwidths.

        Raises
        ------
        FlatProjection
            If the samples do not vary along a slice.
        """
        m = y.shape[0]
        if not isinstance(self.bandwidth, str):
            given = np.asarray(self.bandwidth)
            if given.ndim == 1 and given.size != m:
                raise ArgumentError(
                    "kernel",
                    f"has {counted(given.size, 'bandwidth')} but there are {counted(m, 'slice')}",
                )
            return np.broadcast_to(given, m).astype(float)
        h = median_distances(y)
        flat = np.flatnonzero(h <= CONSTANT * scale)
        if flat.size:
            raise FlatProjection(
                "x",
                f"does not vary along the projection of {flat.size} of {counted(m, 'slice')} "
                f"({'slice' if flat.size == 1 else 'slices'} {first_few(flat)}): a constant "
                "column, columns that depend on each other, or all samples equal",
                remedy=("Drop the column, or give a bandwidth, as in ", GIVEN, "."),
            )
        return h

    def bandwidths_along(self, y: Array, x: Array, g: Array) -> Array:
        """`bandwidths` of samples along directions.

        Parameters
        ----------
        y : (m, n) array
            Samples along each direction.
        x : (n, d) array
            Samples.
        g : (m, d) array
            Directions.

        Returns
        -------
        (m,) array
            Bandwidths.
        """
        if not isinstance(self.bandwidth, str):
            return self.bandwidths(y)
        # An upper bound of the spread is quick, and mostly enough.
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.abs(g) @ (x.max(axis=0) - x.min(axis=0))
        try:
            return self.bandwidths(y, most)
        except FlatProjection:
            return self.bandwidths(y, spread(x, g))


def check_one_bandwidth(kernel: Kernel, method: str) -> None:
    """A kernel of the whole vector has one bandwidth."""
    if np.ndim(kernel.bandwidth):
        raise ArgumentError("kernel", f"of the {method} must have one bandwidth; got one per slice")


def one_bandwidth(kernel: Kernel, x: Array, method: str) -> float:
    """The bandwidth of a kernel of the whole vector: a number, or the median distance in `x`."""
    check_one_bandwidth(kernel, method)
    given = kernel.bandwidth
    return median_distance(x) if isinstance(given, str) else float(np.asarray(given))


def bandwidths_of_part(x: Array, everything: Array, g: Array) -> Array | None:
    """Median bandwidths of a part of the samples along directions g.

    Where the part does not vary, it is the deviation of all samples. None if they do not either.
    """
    least = CONSTANT * spread(everything, g)
    h, deviation = median_distances(product(g, x)), product(g, everything).std(axis=1)
    h = np.where(h > least, h, deviation)
    return None if np.any(h <= least) else h


class RBF(Kernel):
    """Gaussian kernel ``exp(-t^2 / (2 h^2))``.

    Parameters
    ----------
    bandwidth : "median", float or sequence of float
        The bandwidth h: the median distance, one number, or one for each slice.

    See Also
    --------
    IMQ : A kernel with heavier tails.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.RBF(bandwidth=0.5)
    RBF(bandwidth=0.5)
    """

    code = 0
    name = "rbf"


class IMQ(Kernel):
    """Inverse multiquadric kernel ``(1 + t^2 / h^2)^(-1/2)``, with heavier tails than the Gaussian.

    Parameters
    ----------
    bandwidth : "median", float or sequence of float
        The bandwidth h: the median distance, one number, or one for each slice.

    See Also
    --------
    RBF : The Gaussian kernel.

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.IMQ()
    IMQ(bandwidth='median')
    """

    code = 1
    name = "imq"


KERNELS: dict[str, type[Kernel]] = {"rbf": RBF, "imq": IMQ}


def as_kernel(kernel: KernelLike) -> Kernel:
    """The kernel object for a name or an object."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        check_choice("kernel", kernel, KERNELS)
        return KERNELS[kernel]()
    raise ArgumentTypeError(
        "kernel",
        "must be 'rbf', 'imq' or a kernel object such as RBF(bandwidth=1.0), not "
        f"{type(kernel).__name__}",
    )
