"""Arguments as data: small records that print as the code that makes them.

A call that failed is kept by its printed form, see `found`. So samples are told by their number,
seed and fault, and not by their entries; `build` makes the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import fastsksd as fs


def often(usual, *rare):
    """One of `rare`, or three times in four `usual`."""
    return st.sampled_from([*[usual] * (3 * len(rare)), *rare])


def rarely(rare, usual):
    """One time in ten or so from the first strategy, else from the second."""
    return st.integers(0, 9).flatmap(lambda k: rare if k == 7 else usual)


@dataclass(frozen=True)
class Samples:
    """Samples of a seed: their distribution, unit, form, and what is wrong with them."""

    n: int = 30
    d: int = 2
    seed: int = 0
    law: str = "normal"
    unit: float = 1.0
    form: str = "array"
    fault: str | None = None
    size: float = 0.0

    def build(self):
        rng = np.random.default_rng(self.seed)
        x = rng.standard_normal((self.n, self.d))
        with np.errstate(all="ignore"):
            x = _LAWS[self.law](x) * self.unit
            if self.fault is not None and x.size:
                x = _FAULTS[self.fault](x, self.size)
            return _FORMS[self.form](x)

    @property
    def array(self):
        """As plain numbers, for the score."""
        return np.asarray(Samples(**{**vars(self), "form": "array"}).build(), float)


_LAWS = {
    "normal": lambda x: x,
    "heavy": lambda x: x / (np.abs(x[::-1]) + 1e-3),
    "ties": lambda x: np.round(x),
    "signs": lambda x: np.sign(x),
    "far": lambda x: x + 1e5,
    "correlated": lambda x: np.cumsum(x, axis=1),
    "chain": lambda x: np.cumsum(x, axis=0) / np.sqrt(1.0 + np.arange(len(x)))[:, None],
    "uneven": lambda x: x * 10.0 ** np.linspace(-3, 3, x.shape[1]),
}


def _with(x, row, column, value):
    x = x.copy()
    x[row % len(x), column % x.shape[1]] = value
    return x


_FAULTS = {
    "entry": lambda x, size: _with(x, 3, 0, size),
    "row": lambda x, size: np.where(np.arange(len(x))[:, None] == len(x) // 2, size, x),
    "column": lambda x, size: np.where(np.arange(x.shape[1]) == x.shape[1] - 1, size, x),
    "nearly constant": lambda x, size: np.where(np.arange(len(x))[:, None] > 1, size, x),
    "equal": lambda x, size: np.full_like(x, size),
    "copies": lambda x, size: np.repeat(x[: len(x) // 2 + 1], 2, axis=0)[: len(x)],
    "copied column": lambda x, size: np.repeat(x[:, :1], x.shape[1], axis=1),
    "unit": lambda x, size: x * size,
    "unit of a column": lambda x, size: x * np.r_[size, np.ones(x.shape[1] - 1)],
    "shift": lambda x, size: x + size,
}

_FORMS = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "integers": lambda x: (
        np.nan_to_num(np.round(8 * x), posinf=9, neginf=9).clip(-99, 99).astype(int)
    ),
    "object": lambda x: x.astype(object),
    "fortran": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "read only": lambda x: fs._validate.frozen(x),
    "flat": lambda x: x.ravel(),
    "three axes": lambda x: x[None],
    "text": lambda x: x.astype(str),
    "complex": lambda x: x + 1j,
    "masked": lambda x: np.ma.masked_greater(x, 0.5),
    "big-endian": lambda x: x.astype(">f8"),
}
SIZES = [0.0, 1e-310, 1e-160, 1e-80, 1e-12, 1e12, 1e18, 1e80, 1e160, 1e308, np.inf, np.nan]


def samples(n=(3, 8, 20, 30, 30, 60), d=(1, 2, 2, 3, 5)):
    """Samples that a test may be asked about."""
    return st.builds(
        Samples,
        n=st.sampled_from(n),
        d=st.sampled_from(d),
        seed=st.integers(0, 50),
        law=often("normal", "heavy", "far", "correlated", "chain", "uneven"),
        unit=often(1.0, 1e-6, 1e-3, 1e4),
        form=often("array", "list", "float32", "fortran", "strided", "read only", "big-endian"),
    )


def strange_samples():
    """Samples with a fault, or of a wrong form, or too few."""
    return st.builds(
        Samples,
        n=st.sampled_from([0, 1, 2, 3, 5, 30, 30, 30]),
        d=st.sampled_from([0, 1, 2, 2, 2, 3, 40]),
        seed=st.integers(0, 50),
        law=st.sampled_from(sorted(_LAWS)),
        unit=often(1.0, 1e-6, 1e-3, 1e4),
        form=often("array", *_FORMS),
        fault=st.sampled_from([None, *_FAULTS]),
        size=st.sampled_from(SIZES),
    )


@dataclass(frozen=True)
class Scores:
    """The score of N(shift, unit^2 I), in one of the forms a user may give, with a fault."""

    form: str = "function"
    shift: float = 0.0
    fault: str | None = None
    size: float = 1.0

    def build(self, x: np.ndarray, unit: float):
        def score(y):
            with np.errstate(all="ignore"):
                s = (self.shift - np.asarray(y, float) / unit) / unit
                return s if self.fault is None else _SCORE_FAULTS[self.fault](s, self.size)

        if self.form == "function" or self.fault == "raises":
            return score
        if self.form == "model":
            return fs.models.Model.from_score(score)
        if self.form == "sampler":
            d = x.shape[1] if x.ndim == 2 and x.shape[1] else 1
            return fs.models.Gaussian(np.full(d, self.shift * unit), np.eye(d) * unit**2)
        return score(x)


def _raises(s, size):
    raise RuntimeError("no score here")


_SCORE_FAULTS = {
    "entry": lambda s, size: _with(s, 3, 0, size) if s.size else s,
    "all": lambda s, size: np.full_like(s, size),
    "factor": lambda s, size: s * size,
    "narrow": lambda s, size: s[:, :1],
    "short": lambda s, size: s[1:],
    "text": lambda s, size: s.astype(str),
    "complex": lambda s, size: s + 1j,
    "nothing": lambda s, size: None,
    "raises": _raises,
}


def scores(forms=("function", "function", "values", "model")):
    """Scores of a model that may be right or wrong."""
    return st.builds(Scores, st.sampled_from(forms), st.sampled_from([0.0, 0.0, 0.5, -3.0]))


def strange_scores(forms=("function", "values", "model")):
    """Scores with a fault."""
    return st.builds(
        Scores,
        st.sampled_from(forms),
        st.just(0.0),
        st.sampled_from(sorted(_SCORE_FAULTS)),
        st.sampled_from(SIZES),
    )


@dataclass(frozen=True)
class Directions:
    """Slices; d is that of the samples unless it is given."""

    m: int = 2
    seed: int = 0
    form: str = "slices"
    d: int | None = None
    fault: str | None = None
    size: float = 1.0

    def build(self, d: int):
        d = max(self.d or d, 1)
        if self.form == "coordinates":
            return fs.Slices(np.eye(d), np.eye(d))
        slices = fs.random_slices(d, self.m, rng=self.seed)
        if self.form == "slices":
            return slices
        r, g = slices.r.copy(), slices.g.copy()
        if self.fault == "length":
            g *= self.size
        elif self.fault == "entry":
            g[0, 0] = self.size
        elif self.fault == "number":
            g = g[1:]
        elif self.fault == "flat":
            r, g = r[0], g[0]
        if self.form == "rows":
            return r
        return [r.tolist(), g.tolist()] if self.form == "lists" else (r, g)


def directions(forms=("slices", "slices", "pair", "lists", "coordinates")):
    """Slices in as many dimensions as the samples."""
    return st.builds(Directions, st.integers(1, 3), st.integers(0, 20), st.sampled_from(forms))


def strange_directions(forms=("pair", "slices", "lists")):
    """Slices in other dimensions, of other lengths, or no slices."""
    return st.builds(
        Directions,
        st.integers(1, 3),
        st.integers(0, 20),
        st.sampled_from(forms),
        st.sampled_from([None, None, 1, 7]),
        st.sampled_from([None, "length", "entry", "number", "flat"]),
        st.sampled_from([0.0, 1e-310, 1.0 + 1e-9, 2.0, 1e200, np.nan, np.inf]),
    )


@dataclass(frozen=True)
class Made:
    """An object of the package that is made from arguments, as ``fs.RBF(2.0)``."""

    path: str
    arguments: tuple[tuple[str, Any], ...] = ()

    def build(self):
        made: Any = fs
        for part in self.path.split("."):
            made = getattr(made, part)
        return made(**dict(self.arguments))


def kernels():
    """Kernels as users give them."""
    widths = st.sampled_from(["median", 0.3, 1.0, 2.5])
    objects = st.builds(
        lambda name, width: Made(name, (("bandwidth", width),)),
        st.sampled_from(["RBF", "IMQ"]),
        widths,
    )
    return st.one_of(st.sampled_from(["rbf", "imq"]), objects)


def strange_kernels():
    """Kernels with extreme bandwidths, or as many as there are no slices."""
    widths = st.sampled_from(
        [1e-300, 1e-150, 1e-4, 1e-2, 1e2, 1e12, 1e150, 1e300, (1.0, 2.0), (1.0,) * 7]
    )
    return st.builds(
        lambda name, width: Made(name, (("bandwidth", width),)),
        st.sampled_from(["RBF", "IMQ"]),
        widths,
    )


@dataclass(frozen=True)
class Weights:
    """Importance weights, one for each sample."""

    spread: float = 0.5

    def build(self, n: int):
        return np.exp(self.spread * np.random.default_rng(n).standard_normal(n))


class Odd:
    """An object that is nothing else."""

    def __repr__(self):
        return "Odd()"


STRANGE = st.sampled_from(
    [
        None, True, False, -1, 0, 1, 2**70, -(2**70), 10**400, 0.0, 0.5, 1.0, 1.5, -2.5, 1e-12,
        float("nan"), float("inf"), "", "x", "auto", "identity", b"u", 1j, (), [], {}, [1, 2, 3],
        (0.5,), [None], ["a", "b"], {"a": 1}, ((0.9, 0.99),), Odd(), range(3),
    ]
)  # fmt: skip


def built(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call from their records.

    Scores are those of the samples beside them, and slices have as many dimensions.
    """
    known = next((one for one in given.values() if isinstance(one, Samples)), Samples())
    return {name: _built(value, known) for name, value in given.items()}


def _built(value: Any, known: Samples) -> Any:
    if isinstance(value, Samples | Made):
        return value.build()
    if isinstance(value, Scores):
        return value.build(known.array, known.unit)
    if isinstance(value, Directions):
        return value.build(known.d)
    if isinstance(value, Weights):
        return value.build(known.n)
    if isinstance(value, dict):
        known = next((one for one in value.values() if isinstance(one, Samples)), known)
        return {name: _built(one, known) for name, one in value.items()}
    if isinstance(value, list | tuple):
        known = next((one for one in value if isinstance(one, Samples)), known)
        return type(value)(_built(one, known) for one in value)
    return value
