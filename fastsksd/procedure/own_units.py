"""Tests in units of the samples' own, where theirs would make squares overflow or vanish.

A Stein discrepancy in coordinates ``c x`` with scores ``s / c`` is the same but for the factor
``1 / c^2``. With c a power of two not a digit changes. Metrics that are learnt do this anyway.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Option
from .metric import location_and_deviation, moderate
from .plan import Plan

_USUAL = 1e30  # samples that vary by more, or by less than its inverse, get other units
_ENOUGH = 500  # samples to tell
_BASELINES = 1e60  # the same for other tests, which are made in the units of the samples


def in_own_units(plan: Plan, x: Array) -> Plan:
    """The plan of a test in units of the samples' own, if theirs are extreme."""
    some = x[:: -(-len(x) // _ENOUGH)]
    deviations = location_and_deviation(moderate(some))[1]
    varied = deviations[deviations > 0]
    unit = float(np.median(varied)) if varied.size else 1.0
    if plan.baseline is not None:
        _check_unit(plan.baseline.name, unit)
        return plan
    raw = isinstance(plan.precondition, str) and plan.precondition == "raw"
    if not raw or 1.0 / _USUAL < unit < _USUAL:
        return plan
    c = 2.0 ** -np.round(np.log2(unit))
    kernel = plan.kernel
    if not isinstance(kernel.bandwidth, str):
        kernel = type(kernel)(c * np.asarray(kernel.bandwidth))
    return dataclasses.replace(plan, precondition=np.full(x.shape[1], c), kernel=kernel)


def _check_unit(name: str, unit: float) -> None:
    if not 1.0 / _BASELINES < unit < _BASELINES:
        raise ArgumentError(
            "x",
            f"varies by about {unit:.0e}, and ",
            Option("method", name),
            f" takes samples that vary by {1.0 / _BASELINES:.0e} to {_BASELINES:.0e}",
            remedy="Rescale the samples, and the scores by the inverse.",
        )
