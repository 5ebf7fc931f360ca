"""Every check of user input, once.

What is wrong with an argument is an `ArgumentError` (a ValueError) or an `ArgumentTypeError` (a
TypeError). Both hold the name of the argument and the problem as data, so that the command line can
speak of its flags and files. A message names the argument and says what was expected and what came.
"""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ._strict import as_the_caller_has_it
from ._typing import Array, ArrayLike, Rng, Score

LARGEST = 10**15  # as a number of anything; beyond, arrays and loops have no end


class Option(NamedTuple):
    """An option that a message mentions, with the value it speaks of, if any.

    Its text is Python's, ``null='wild'`` or `` `lag` ``; others are made by an `OptionFormat`.
    """

    name: str
    value: object = None

    def __str__(self) -> str:
        return f"`{self.name}`" if self.value is None else f"{self.name}={self.value!r}"


OptionFormat: TypeAlias = Callable[[Option], str]
"""How options are written: `str` as in Python, the command line's as flags."""


def joined(parts: Iterable[str | Option], option: OptionFormat = str) -> str:
    """Text from parts, some of which are options.

    Examples
    --------
    >>> from fastsksd._validate import Option, joined
    >>> joined(["is for ", Option("null", "wild"), " only"])
    "is for null='wild' only"
    """
    return "".join(option(part) if isinstance(part, Option) else part for part in parts)


def counted(number: int, noun: str) -> str:
    """A number of things, as in "1 sample" and "2 samples"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_few(items: Sequence[object] | np.ndarray, most: int = 5) -> str:
    """The first of these, as in "1, 2, 3, ..."."""
    return ", ".join([*map(str, items[:most]), *(["..."] if len(items) > most else [])])


class AboutArgument(Exception):
    """An error that knows which argument is wrong.

    Parameters
    ----------
    argument : str
        Its name.
    *problem : str or Option
        What is wrong with it: the rest of a sentence that begins with the name, without a full
        stop. Options it mentions are given as `Option`, so that they can be written in other ways.
    remedy : str or sequence of str and Option, optional
        A sentence that says what to do.

    Attributes
    ----------
    argument, problem, remedy
        As given; the problem as one string.
    """

    def __init__(
        self,
        argument: str,
        *problem: str | Option,
        remedy: str | Sequence[str | Option] | None = None,
    ) -> None:
        super().__init__(argument, *problem)
        self.argument = argument
        self.parts = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {"remedy": self.remedy}

    @property
    def problem(self) -> str:
        return joined(self.parts)

    def message(self, subject: str | None = None, option: OptionFormat = str) -> str:
        """The message, with `subject` in place of the argument's name."""
        subject = f"`{self.argument}`" if subject is None else subject
        text = f"{subject} {joined(self.parts, option)}."
        if self.remedy is None:
            return text
        remedy = (self.remedy,) if isinstance(self.remedy, str) else self.remedy
        return f"{text} {joined(remedy, option)}"

    def __str__(self) -> str:
        return self.message()


class ArgumentError(AboutArgument, ValueError):
    """An argument has a value that can't be used.

    Examples
    --------
    >>> from fastsksd._validate import ArgumentError
    >>> error = ArgumentError("lag", "must be at least 1; got 0.5")
    >>> str(error), error.argument
    ('`lag` must be at least 1; got 0.5.', 'lag')
    >>> error.message("--lag")
    '--lag must be at least 1; got 0.5.'
    """


class ArgumentTypeError(AboutArgument, TypeError):
    """An argument is of a type that can't be used."""


class NotFiniteError(ArgumentError):
    """NaN or infinity in some rows of an array: draws of chains, or a piece of a larger array."""

    verb = "holds"
    rows = np.empty(0, dtype=int)
    of_rows = 0

    @classmethod
    def of(cls, name: str, verb: str, rows: np.ndarray, of_rows: int) -> NotFiniteError:
        """The error about rows by number, of so many."""
        error = cls(name, "")
        error.verb, error.rows, error.of_rows = verb, rows, of_rows
        return error.named(f"{rows.size} of {counted(of_rows, 'row')} ({shown_rows(rows)})")

    def named(self, where: str) -> NotFiniteError:
        """The same with other words for where it is."""
        error = NotFiniteError(self.argument, f"{self.verb} NaN or infinity in {where}")
        error.verb, error.rows, error.of_rows = self.verb, self.rows, self.of_rows
        return error

    def with_draws(self, draws: Sequence[str]) -> NotFiniteError:
        """The same about draws, which have names."""
        count = f"{self.rows.size} of {counted(self.of_rows, 'row')}"
        return self.named(f"{count} ({first_few(draws)})")


def shown_rows(rows: np.ndarray) -> str:
    """Rows by number."""
    return f"{'row' if rows.size == 1 else 'rows'} {first_few(rows)}"


class Overflow(ArgumentError):
    """Numbers so large, or so small, that a statistic is not finite."""


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """`value` must be one of the names in `choices`."""
    if not isinstance(value, str) or value not in choices:
        names = tuple(choices)
        wanted = f"one of {_listing(names)}" if len(names) > 1 else _listing(names)
        raise ArgumentError(name, f"must be {wanted}; got {value!r}")
    return value


def check_flag(name: str, value: object) -> bool:
    """`value` must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(name, f"must be True or False; got {value!r}")
    return bool(value)


def check_names(name: str, value: object, choices: Iterable[str]) -> tuple[str, ...]:
    """`value` must be one of the names in `choices` or a non-empty sequence of them."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list, set, frozenset)) or len(names) == 0:
        raise ArgumentError(name, f"must hold one or more of {_listing(choices)}; got {value!r}")
    return tuple(check_choice(name, entry, choices) for entry in names)


def check_integer(name: str, value: object, low: int, high: int | None = None) -> int:
    """`value` must be an integer in low..high."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentTypeError(name, f"must be an integer, not {type(value).__name__}")
    number = int(value)
    if number < low or (high is not None and number > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ArgumentError(name, f"must be {span}; got {value}")
    if number > LARGEST:
        raise ArgumentError(name, f"must be at most {LARGEST:g}; it has {len(str(number))} digits")
    return number


def check_number(name: str, value: object, low: float, *, strict: bool = False) -> float:
    """`value` must be a finite real number of at least `low` (above it when `strict`)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(name, f"must be a number, not {type(value).__name__}")
    number = as_float(value)
    if not np.isfinite(number) or number < low or (strict and number == low):
        span = "greater than" if strict else "at least"
        raise ArgumentError(name, f"must be finite and {span} {low:g}; got {number:g}")
    return number


def check_probability(name: str, value: object) -> float:
    """`value` must be a number between 0 and 1, both excluded: a level, a confidence."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ArgumentTypeError(name, f"must be a number, not {type(value).__name__}")
    number = as_float(value)
    if not 0.0 < number < 1.0:
        raise ArgumentError(name, f"must be between 0 and 1; got {number:g}")
    return number


def as_float(value: Any) -> float:
    """A real number in double precision; infinite where an integer is larger than that holds."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_positive_vector(name: str, value: ArrayLike) -> Array:
    """`value` must be one positive finite number or a one-dimensional array of them."""
    values = real_array(name, value)
    if values.ndim > 1 or values.size == 0:
        shape = f"got shape {values.shape}"
        raise ArgumentError(
            name, f"must be a number or a one-dimensional array of numbers; {shape}"
        )
    if not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise ArgumentError(name, f"must be positive and finite; got {value!r}")
    return values


def check_betas(betas: object) -> tuple[float, float]:
    """`betas`, Adam's, must be a pair of numbers in [0, 1)."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ArgumentError("betas", f"must be a pair of numbers; got {betas!r}")
    first, second = (check_number("betas", beta, 0.0) for beta in betas)
    if max(first, second) >= 1:
        raise ArgumentError("betas", f"must be less than 1; got {(first, second)}")
    return first, second


def check_samples(x: Any, name: str = "x", min_rows: int = 1, d: int | None = None) -> Array:
    """`x` as a float64, C-ordered (n, d) array of finite numbers.

    The caller's array is never written to.
    """
    column = "x.to_frame()" if hasattr(x, "to_frame") else "x[:, None]"
    x = real_array(name, x)
    if x.ndim != 2:
        raise ArgumentError(
            name,
            f"must be two-dimensional, (samples, dimensions); got shape {x.shape}",
            remedy=f"A single variable is a column: use {column}." if x.ndim == 1 else None,
        )
    if x.shape[1] == 0 or (d is not None and x.shape[1] != d):
        wanted = "at least one column" if d is None else f"{d} columns"
        raise ArgumentError(name, f"must have {wanted}; got shape {x.shape}")
    if x.shape[0] < min_rows:
        wanted = counted(min_rows, "sample")
        raise ArgumentError(name, f"must hold at least {wanted}; got {x.shape[0]}")
    _check_finite(name, x)
    return np.ascontiguousarray(x)


def column_names(x: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame or of an xarray.DataArray.

    None where there are none, or they are not strings.
    """
    names = getattr(x, "columns", ())
    if hasattr(x, "coords") and len(x.dims) == 2:
        names = x.coords[x.dims[1]].values.tolist() if x.dims[1] in x.coords else ()
    return tuple(names) if len(names) and all(isinstance(name, str) for name in names) else None


def is_dask(x: Any) -> bool:
    """Whether `x` is a Dask collection; Dask need not be installed to tell."""
    return type(x).__module__.partition(".")[0] == "dask"


def check_same_columns(names: Sequence[str] | None, score: Any) -> None:
    """Scores in a data frame must have their columns in the order of the samples, `names`."""
    others = column_names(score)
    if names is None or others is None or names == others or sorted(names) != sorted(others):
        return
    first = next(k for k, (a, b) in enumerate(zip(names, others, strict=True)) if a != b)
    raise ArgumentError(
        "score",
        "has the columns of ",
        Option("x"),
        f" in another order: column {first} is {others[first]!r}, and {names[first]!r} in ",
        Option("x"),
    )


def check_unit_rows(name: str, rows: Any, d: int | None = None, m: int | None = None) -> Array:
    """`rows` as an (m, d) array of unit vectors."""
    given, rows = rows, real_array(name, rows)
    wanted = f"({'m' if m is None else m}, {'d' if d is None else d})"
    if (
        rows.ndim != 2
        or rows.size == 0
        or (d is not None and rows.shape[1] != d)
        or (m is not None and rows.shape[0] != m)
    ):
        raise ArgumentError(
            name, f"must have shape {wanted}, one direction per row; got {rows.shape}"
        )
    _check_finite(name, rows)
    if np.asarray(given).dtype == np.float16:
        rows = rows / rounded_lengths(rows, float(np.finfo(np.float16).eps))
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(rows, axis=1)
    off = np.flatnonzero(np.abs(lengths - 1.0) > 1e-6)
    if off.size:
        raise ArgumentError(
            name, f"must have rows of unit length; row {off[0]} has length {lengths[off[0]]:.6g}"
        )
    return np.ascontiguousarray(rows)


def rounded_lengths(rows: Any, precision: float, numpy: Any = np) -> Any:
    """Lengths, (m, 1), of rows that are unit vectors up to rounding to `precision`; else 1.

    Divided by them, such rows are unit vectors again.
    """
    lengths = numpy.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return numpy.where(abs(lengths - 1.0) <= 4.0 * precision, lengths, 1.0)


def check_score(score: Score, name: str = "score") -> Score:
    """`score` must be an array, a callable, or an object with a `.score` method."""
    if not score_is_array(score):
        return score
    try:
        array = _as_array(score)
    except Exception as error:
        raise ArgumentTypeError(name, f"could not be read as an array: {error}") from error
    if array.ndim == 0 or array.dtype.kind in "SUV":
        raise ArgumentTypeError(
            name,
            "must be an (n, d) array, a callable x -> (n, d), or a model with a .score method; "
            f"got {type(score).__name__}",
        )
    if array.dtype.kind not in "fiub":
        real_array(name, score)
    return score


def score_is_array(score: Score) -> bool:
    """Whether `score` holds values at the samples only and can't be evaluated elsewhere."""
    return not (callable(score) or callable(getattr(score, "score", None)))


def evaluate_score(score: Any, x: Array, name: str = "score", *, finite: bool = True) -> Array:
    """Scores at the rows of `x`, (n, d) float64, from an array, a callable or a model.

    If `finite`, an error names the rows that are not.
    """
    if score_is_array(score):
        values = real_array(name, check_score(score, name))
        if values.shape != x.shape:
            raise ArgumentError(
                name, f"must have the shape of the samples, {x.shape}; got {values.shape}"
            )
    else:
        # Copies both ways: the function may work in place, or return a buffer that it uses again.
        values = call_user(name, getattr(score, "score", score), x.copy())
        values = np.array(real_array(name, values, returned=True))
        if values.shape != x.shape:
            raise ArgumentError(
                name,
                f"must return an array of shape {x.shape} for samples of that shape; "
                f"it returned {values.shape}",
            )
    if finite:
        _check_finite(name, values, returned=not score_is_array(score))
    return np.ascontiguousarray(values)


def call_user(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call a user's function; what it raises is chained to an error that names the argument."""
    try:
        with as_the_caller_has_it():
            return function(*args)
    except MemoryError:  # a matter of the machine, not of the function
        raise
    except Exception as error:
        if isinstance(error, AboutArgument) and error.argument == name.partition(".")[0]:
            raise
        said = str(error).rstrip(".")  # some say nothing
        raise ArgumentError(
            name,
            f"raised {type(error).__name__} on samples of shape {args[0].shape}"
            f"{said and ': '}{said}",
        ) from error


def check_checkpoint(path: Any) -> Path:
    """The path of a file that is a checkpoint, or will be."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            "checkpoint", f"must be the path of a file, not {type(path).__name__}"
        )
    if Path(path).is_dir():
        raise ArgumentError(
            "checkpoint", f"must be the path of a file, and {str(path)!r} is a folder"
        )
    return Path(path)


def check_rng(rng: Rng) -> np.random.Generator:
    """A `numpy.random.Generator` from None, an integer seed, or a generator."""
    if rng is None or (
        isinstance(rng, (numbers.Integral, np.random.SeedSequence, np.random.Generator))
        and not isinstance(rng, bool)
    ):
        if isinstance(rng, numbers.Integral) and rng < 0:
            raise ArgumentError("rng", f"must be a non-negative seed; got {rng}")
        return np.random.default_rng(rng)
    raise ArgumentTypeError(
        "rng",
        f"must be None, an integer seed or a numpy.random.Generator, not {type(rng).__name__}",
    )


def frozen(array: ArrayLike) -> Array:
    """A read-only copy, so that an object does not change with the array it was made from."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def refuse_masked(name: str, value: Any, *, returned: bool = False) -> None:
    """A masked array is an error: what reads it as an array would lose the mask."""
    if isinstance(value, np.ma.MaskedArray):
        verb = "returned" if returned else "is"
        raise ArgumentTypeError(
            name, f"{verb} a masked array; drop or fill the masked entries first"
        )


def _as_array(value: Any) -> np.ndarray:
    """`value` as an array; what is none yet may have code of the user's for it."""
    if type(value) is np.ndarray:
        return value
    with as_the_caller_has_it():
        return np.asarray(value)


def real_array(name: str, value: Any, *, returned: bool = False) -> Array:
    """`value` as a float64 array of real numbers; `returned`: by the user's function `name`."""
    refuse_masked(name, value, returned=returned)
    wanted = f"must {'return' if returned else 'be'} an array of real numbers"
    try:
        array = _as_array(value)
    except Exception as error:
        what = "returned what" if returned else ""
        raise ArgumentTypeError(
            name, f"{what} could not be read as an array: {error}".lstrip()
        ) from error
    # A data frame with columns of several types, which may be numbers all the same.
    if array.dtype.kind == "O":
        where = next(
            (
                place
                for place, entry in np.ndenumerate(array)
                if not isinstance(entry, numbers.Real)
            ),
            None,
        )
        if where is not None:
            holder = "it"
            if array.ndim == 2:
                columns = column_names(value) or range(array.shape[1])
                holder = f"column {columns[where[1]]!r}"
            raise ArgumentTypeError(name, f"{wanted}; {holder} holds {array[where]!r}")
    elif array.dtype.kind not in "fiub":
        raise ArgumentTypeError(name, f"{wanted}; got dtype {array.dtype}")
    try:
        with np.errstate(over="ignore"):  # of a wider type: infinity, which is refused as such
            return array.astype(np.float64, order="C", copy=False)
    except OverflowError:
        raise ArgumentError(name, "holds an integer beyond 1e308") from None


def check_statistic(values: Array) -> Array:
    """Statistics that did not overflow."""
    if not np.all(np.isfinite(values)):
        raise Overflow("x", "holds numbers, or has scores, for which the statistic overflows")
    return values


def _check_finite(name: str, array: Array, returned: bool = False) -> None:
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    rows = np.flatnonzero(bad.any(axis=1))
    verb = "returned" if returned else "holds"
    raise NotFiniteError.of(name, verb, rows, array.shape[0])


def _listing(choices: Iterable[str]) -> str:
    return ", ".join(repr(choice) for choice in choices)
