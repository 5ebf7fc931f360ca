"""Translation-invariant kernels, their derivatives, and bandwidths.

Pointwise functions take ``t`` in units of the bandwidth, ``t = (y_i - y_j) / h``, and derivatives are with respect to
that ``t``. They are scalar, inlined and free of allocation, so CPU loops and CUDA kernels share one source.

RBF   ``k(t) = exp(-t^2 / 2)``
IMQ   ``k(t) = (1 + t^2)^(-1/2)``
"""

from dataclasses import dataclass

import numpy as np

from ._validate import check_choice, check_positive_vector, frozen
from .compute.medians import median_distances


class FlatProjection(ValueError):
    """Samples that do not vary along a slice, so that they have no median distance."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """Base of the kernels: a `bandwidth`, which is "median", a number, or one number per slice.

    "median" is the median of the pairwise distances ``|y_i - y_j|``, i < j, exact for every n. Where more than half of
    the pairs coincide (discretised data) it is the median of the positive distances.
    """

    bandwidth: object = "median"

    code = None
    name = None

    def __post_init__(self):
        if isinstance(self.bandwidth, str):
            check_choice("bandwidth", self.bandwidth, ("median",))
        else:
            values = check_positive_vector("bandwidth", self.bandwidth)
            object.__setattr__(
                self, "bandwidth", float(values) if values.ndim == 0 else frozen(values)
            )

    def bandwidths(self, y, scale=0.0):
        """One bandwidth for each row of the projections `y`, shape (m, n), of samples that vary by about `scale`."""
        m = y.shape[0]
        if not isinstance(self.bandwidth, str):
            given = np.asarray(self.bandwidth)
            if given.ndim == 1 and given.size != m:
                raise ValueError(f"`bandwidth` has {given.size} values but there are {m} slices.")
            return np.broadcast_to(given, m).astype(float)
        h = median_distances(y)
        flat = np.flatnonzero(h <= 1e-13 * scale)  # what round-off leaves of a constant
        if flat.size:
            raise FlatProjection(
                f"`x` does not vary along the projection of {flat.size} of {m} slices (slices {_listing(flat)}): a constant "
                "column, or all samples alike. Drop the column or give the kernel a `bandwidth`."
            )
        return h


class RBF(Kernel):
    """Gaussian kernel ``exp(-t^2 / (2 h^2))``.

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

    Examples
    --------
    >>> import fastsksd as fs
    >>> fs.IMQ()
    IMQ(bandwidth='median')
    """

    code = 1
    name = "imq"


KERNELS = {"rbf": RBF, "imq": IMQ}


def as_kernel(kernel):
    """The kernel object for a name or an object."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        check_choice("kernel", kernel, KERNELS)
        return KERNELS[kernel]()
    raise TypeError(
        f"`kernel` must be 'rbf', 'imq' or a kernel object such as RBF(bandwidth=1.0), not {type(kernel).__name__}."
    )


def _listing(indices, limit=5):
    shown = ", ".join(str(i) for i in indices[:limit])
    return shown + (", ..." if len(indices) > limit else "")
