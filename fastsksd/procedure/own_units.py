"""Tests in units of the samples' own, where theirs would make squares overflow or vanish.

A Stein discrepancy in coordinates ``c x`` with scores ``s / c`` is the same but for the factor
``1 / c^2``. With c a power of two not a digit changes. Metrics that are learnt do this anyway.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from .._typing import Array
from .._validate import ArgumentError, Option
from ..compute.linalg import product
from .covariances import location_and_deviation, moderate
from .plan import Plan

_USUAL = 1e30  # samples that vary by more, or by less than its inverse, get other units
_ENOUGH = 500  # samples to tell
_BASELINES = 1e60  # the same for other tests, which are made in the units of the samples


def in_own_units(plan: Plan, x: Array) -> Plan:
    """The plan of a test in units of the samples' own, if theirs are extreme.

    So are those in a metric that was given.
    """
    some, matrix, exponent = x[:: -(-len(x) // _ENOUGH)], plan.precondition, 0
    if not isinstance(matrix, str):
        exponent = int(np.frexp(np.abs(matrix).max())[1])
        matrix = np.ldexp(matrix, -exponent)
        some = product(some, matrix)
    elif matrix != "raw":
        return plan
    deviations = location_and_deviation(moderate(some))[1]
    varied = deviations[deviations > 0]
    unit = float(np.median(varied)) if varied.size else 1.0
    if plan.baseline is not None:
        _check_unit(plan.baseline.name, unit)
        return plan
    if abs(np.log2(unit) + exponent) < np.log2(_USUAL):
        return plan
    power = -int(np.round(np.log2(unit)))
    matrix = np.full(x.shape[1], 1.0) if isinstance(matrix, str) else matrix
    kernel = plan.kernel
    if not isinstance(kernel.bandwidth, str):
        kernel = type(kernel)(np.ldexp(np.asarray(kernel.bandwidth), power - exponent))
    return dataclasses.replace(plan, precondition=np.ldexp(matrix, power), kernel=kernel)


def _check_unit(name: str, unit: float) -> None:
    if not 1.0 / _BASELINES < unit < _BASELINES:
        raise ArgumentError(
            "x",
            f"varies by about {unit:.0e}, and ",
            Option("method", name),
            f" takes samples that vary by {1.0 / _BASELINES:.0e} to {_BASELINES:.0e}",
            remedy="Rescale the samples, and the scores by the inverse.",
        )
