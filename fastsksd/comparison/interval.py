"""The interval of the discrepancy of a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._validate import ArgumentError, check_probability
from ..kernels import KERNELS
from ..procedure.common_ground import Ground, stein_terms
from ..procedure.u_statistics import UStatistic
from ..report.rates import sidak
from .estimate import FEWEST_COMPARED

if TYPE_CHECKING:
    from ..result import GofResult


def discrepancy_interval(result: GofResult, level: float = 0.95) -> tuple[float, float]:
    """Interval of the discrepancy along the slices of a result.

    See `GofResult.discrepancy_interval`.
    """
    miss = 1.0 - check_probability("level", level)
    samples, slices = result._samples, result.slices
    if slices is None:
        raise ArgumentError("method", "has no slices, so that there is no interval")
    if samples is None:
        raise ArgumentError(
            "x",
            "is not known: this result holds no samples, like those of gof_stream and gof_batch",
        )
    if _fitted_to_them(result):
        raise ArgumentError(
            "fit", "was to the same samples, whose discrepancy is then smaller than that of others"
        )
    if len(samples.x) < FEWEST_COMPARED:
        raise ArgumentError(
            "x", f"must hold at least {FEWEST_COMPARED} tested samples; got {len(samples.x)}"
        )
    if result.draws_needed:
        return float("nan"), float("nan")
    ground = Ground(None, slices, result.bandwidths, samples.x, result.slice_units)
    (terms,) = stein_terms(ground, KERNELS[result.kernel](), [samples])
    count = sum(member.n_slices > 0 for member in result.members) or 1
    low, high = UStatistic.of(terms.sums, terms.sizes).interval(sidak(miss, count))
    return max(low, 0.0), max(high, 0.0)


def has_interval(result: GofResult) -> bool:
    """Whether the result holds all that the interval of its discrepancy needs."""
    samples = result._samples
    if _fitted_to_them(result):
        return False
    return result.slices is not None and samples is not None and len(samples.x) >= FEWEST_COMPARED


def _fitted_to_them(result: GofResult) -> bool:
    """Whether the model was fitted to the samples of the test."""
    return result.fitted is not None and result.fitted.same_samples
