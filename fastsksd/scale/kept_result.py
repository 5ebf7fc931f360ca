"""A result as data that JSON can hold, exactly, and back again.

What comes from a file may have been edited: every value is checked for its type and range, so that
no verdict is from a number that no test gives.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..baselines import BASELINES
from ..effects import Tolerated
from ..procedure.combine import Member
from ..procedure.nulls import NULLS
from ..procedure.per_chain import ChainRecord, ChainReport, Start
from ..result import GofResult
from ..slices import Slices

_Wanted: TypeAlias = dict[str, Callable[[Any], bool]]
_NULLS = {*NULLS, "refits", *(null for one in BASELINES.values() for null in one.nulls)}


def as_record(value: Any) -> Any:
    """A result, or a part of it, as data; arrays as base64 of their bytes."""
    if isinstance(value, np.ndarray):
        content = base64.b64encode(value.astype("<f8").tobytes()).decode()
        return {"array": content, "shape": value.shape}
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value) if not one.name.startswith("_")]
        return {name: as_record(getattr(value, name)) for name in names}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: as_record(some) for name, some in value._asdict().items()}
    if isinstance(value, (tuple, list)):
        return [as_record(some) for some in value]
    if isinstance(value, dict):
        return {name: as_record(some) for name, some in value.items()}
    return value.item() if isinstance(value, np.generic) else value


def result_of_record(record: dict[str, Any]) -> GofResult:
    """The result that a record holds; an error if it holds none."""
    fields = {name: _array(value) for name, value in record.items()}
    if fields["slices"] is not None:
        parts = {name: _array(value) for name, value in fields["slices"].items()}
        fields["slices"] = Slices(**parts)
    fields["names"] = None if fields.get("names") is None else tuple(fields["names"])
    fields["members"] = tuple(Member(**member) for member in fields["members"])
    if fields.get("tolerated") is not None:
        fields["tolerated"] = Tolerated(**fields["tolerated"])
    if fields.get("chains") is not None:
        fields["chains"] = _chains(**fields["chains"])
    result = GofResult(**fields)
    _check(result, _RESULT)
    for member in result.members:
        _check(member, _MEMBER)
    if result.tolerated is not None:
        _check(result.tolerated, _TOLERATED)
    if result.chains is not None:
        _check(result.chains, _CHAINS)
        for chain in result.chains.chains:
            _check(chain, _CHAIN)
        for start in result.chains.start:
            _check(start, _START)
    # NaN where there are too few draws to tell; then no verdict is made from it.
    pvalues = [result.pvalue]
    pvalues += [p for one in result.members for p in (one.pvalue, one.adjusted_pvalue)]
    if not result.draws_needed and any(map(math.isnan, pvalues)):
        raise ValueError("no p-value")
    count = 1 if result.slices is None else len(result.slices)
    if result.slice_statistics.shape != (count,) or result.bandwidths.shape != (count,):
        raise ValueError("not as many statistics as slices")
    return result


def is_count(value: Any) -> bool:
    """Whether a value of JSON is a number of things, or that of a problem or a refit."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _chains(chains: Any, start: Any, **others: Any) -> ChainReport:
    records = tuple(ChainRecord(**one) for one in chains)
    return ChainReport(records, tuple(Start(**one) for one in start), **others)


def _array(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"array", "shape"}:
        return np.frombuffer(base64.b64decode(value["array"]), "<f8").reshape(value["shape"]).copy()
    return value


def _check(record: Any, wanted: _Wanted) -> None:
    for name, fits in wanted.items():
        if not fits(getattr(record, name)):
            raise ValueError(f"no {name}")


def _number(low: float = -math.inf, high: float = math.inf) -> Callable[[Any], bool]:
    """Whether a value is a finite number between these."""
    return lambda value: (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and low <= value <= high
        and math.isfinite(value)
    )


def _or_nan(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: fits(value) or (isinstance(value, float) and math.isnan(value))


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _numbers(axes: int, low: float = -math.inf) -> Callable[[Any], bool]:
    """Whether a value is an array of finite numbers, of at least `low`, with so many axes."""
    return lambda value: (
        isinstance(value, np.ndarray)
        and value.ndim == axes
        and bool(np.all(np.isfinite(value)) and np.all(value >= low))
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


_POSITIVE = 5e-324
_PVALUE = _number(_POSITIVE, 1.0)
_RESULT: _Wanted = {
    "statistic": _number(),
    "pvalue": _or_nan(_PVALUE),
    "null_distribution": _numbers(1),
    "slice_statistics": _numbers(1),
    "bandwidths": _numbers(1, 0.0),
    "n_test": is_count,
    "n_train": is_count,
    "null": lambda value: _is_text(value) and value in _NULLS,
    "engine": _is_text,
    "kernel": _is_text,
    "method": _is_text,
    "lag": _number(1.0),
    "neighbour_correlation": _number(),
    "score_noise": _number(0.0),
    "draws_needed": is_count,
    "effective_draws": _or_nan(_number(0.0)),
    "weighted": _is_flag,
    "locations": _or_none(_numbers(2)),
    "n_model": is_count,
    "evidence": _or_none(_number()),
    "coordinate_statistics": _or_none(_numbers(1)),
    "slice_units": _or_none(_numbers(1, _POSITIVE)),
    "timings": lambda value: (
        isinstance(value, dict) and all(map(_number(0.0), value.values()))
    ),
    "names": _or_none(lambda value: all(map(_is_text, value))),
}  # fmt: skip
_MEMBER: _Wanted = {
    "name": _is_text,
    "multiple": _or_none(_number(_POSITIVE)),
    "part": _is_text,
    "statistic": _number(),
    "pvalue": _or_nan(_number(0.0, 1.0)),
    "adjusted_pvalue": _or_nan(_number(0.0, 1.0)),
    "n_slices": is_count,
}
_TOLERATED: _Wanted = {
    "verdict": lambda value: value in ("within", "beyond", "undecided"),
    "shift": lambda value: value == math.inf or _number(0.0)(value),
    "stretch": lambda value: value == math.inf or _number(0.0)(value),
    "worst": _is_text,
    "n_needed": _or_none(is_count),
    "level": _number(_POSITIVE, 1.0),
}
_CHAINS: _Wanted = {"burn_in": is_count, "apart": _is_flag}
_CHAIN: _Wanted = {
    "draws": is_count,
    "effective_draws": _or_nan(_number(0.0)),
    "pvalue": _or_nan(_number(0.0, 1.0)),
    "pvalue_differs": _or_nan(_number(0.0, 1.0)),
}
_START: _Wanted = {"end": _number(0.0, 1.0), "pvalue": _or_nan(_number(0.0, 1.0))}
