"""Every check of user input, once. Messages name the argument, say what was expected and what came."""

import numbers

import numpy as np


def check_choice(name, value, choices):
    """`value` must be one of the names in `choices`."""
    if not isinstance(value, str) or value not in choices:
        listing = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must be one of {listing}; got {value!r}.")
    return value


def check_names(name, value, choices):
    """`value` must be one of the names in `choices` or a non-empty sequence of them; returns a tuple."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list, set, frozenset)) or len(names) == 0:
        listing = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"`{name}` must hold one or more of {listing}; got {value!r}.")
    return tuple(check_choice(name, entry, choices) for entry in names)


def check_integer(name, value, low, high=None):
    """`value` must be an integer in low..high."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be an integer, not {type(value).__name__}.")
    if value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"`{name}` must be {span}; got {value}.")
    return int(value)


def check_number(name, value, low, *, strict=False):
    """`value` must be a finite real number of at least `low` (above it when `strict`)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number, not {type(value).__name__}.")
    if not np.isfinite(value) or value < low or (strict and value == low):
        raise ValueError(
            f"`{name}` must be finite and {'greater than' if strict else 'at least'} {low:g}; got {value}."
        )
    return float(value)


def check_positive_vector(name, value):
    """`value` must be one positive finite number or a one-dimensional array of them."""
    values = real_array(name, value)
    if values.ndim > 1 or values.size == 0:
        raise ValueError(
            f"`{name}` must be a number or a one-dimensional array of numbers; got shape {values.shape}."
        )
    if not np.all(np.isfinite(values)) or np.any(values <= 0):
        raise ValueError(f"`{name}` must be positive and finite; got {value!r}.")
    return values


def check_betas(betas):
    """`betas`, Adam's, must be a pair of numbers in [0, 1)."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ValueError(f"`betas` must be a pair of numbers; got {betas!r}.")
    betas = tuple(check_number("betas", beta, 0.0) for beta in betas)
    if max(betas) >= 1:
        raise ValueError(f"`betas` must be less than 1; got {betas}.")
    return betas


def check_samples(x, name="x", min_rows=1, d=None):
    """`x` as a float64, C-ordered (n, d) array of finite numbers. The caller's array is never written to."""
    column = "x.to_frame()" if hasattr(x, "to_frame") else "x[:, None]"
    x = real_array(name, x)
    if x.ndim != 2:
        hint = f" A single variable is a column: use {column}." if x.ndim == 1 else ""
        raise ValueError(
            f"`{name}` must be two-dimensional, (samples, dimensions); got shape {x.shape}.{hint}"
        )
    if x.shape[1] == 0 or (d is not None and x.shape[1] != d):
        wanted = "at least one column" if d is None else f"{d} columns"
        raise ValueError(f"`{name}` must have {wanted}; got shape {x.shape}.")
    if x.shape[0] < min_rows:
        raise ValueError(f"`{name}` must hold at least {min_rows} samples; got {x.shape[0]}.")
    _check_finite(name, x)
    return np.ascontiguousarray(x)


def column_names(x):
    """Names of the columns of a data frame or of an xarray.DataArray; None where they are no strings, or there are none."""
    names = getattr(x, "columns", ())
    if hasattr(x, "coords") and len(x.dims) == 2:
        names = x.coords[x.dims[1]].values.tolist() if x.dims[1] in x.coords else ()
    return tuple(names) if len(names) and all(isinstance(name, str) for name in names) else None


def is_dask(x):
    """Whether `x` is a Dask collection; Dask need not be installed to tell."""
    return type(x).__module__.partition(".")[0] == "dask"


def check_same_columns(names, score):
    """Scores in a data frame must not have the columns of the samples, called `names`, in another order."""
    others = column_names(score)
    if (
        names is not None
        and others is not None
        and names != others
        and sorted(names) == sorted(others)
    ):
        first = next(k for k, (a, b) in enumerate(zip(names, others, strict=True)) if a != b)
        raise ValueError(
            f"`score` has the columns of `x` in another order: column {first} is {others[first]!r}, and {names[first]!r} in `x`."
        )


def check_unit_rows(name, rows, d=None, m=None):
    """`rows` as an (m, d) array of unit vectors."""
    given, rows = rows, real_array(name, rows)
    wanted = f"({'m' if m is None else m}, {'d' if d is None else d})"
    if (
        rows.ndim != 2
        or rows.size == 0
        or (d is not None and rows.shape[1] != d)
        or (m is not None and rows.shape[0] != m)
    ):
        raise ValueError(
            f"`{name}` must have shape {wanted}, one direction per row; got {rows.shape}."
        )
    _check_finite(name, rows)
    if np.asarray(given).dtype == np.float16:
        rows = rows / rounded_lengths(rows, np.finfo(np.float16).eps)
    off = np.flatnonzero(np.abs(np.linalg.norm(rows, axis=1) - 1.0) > 1e-6)
    if off.size:
        raise ValueError(
            f"`{name}` must have rows of unit length; row {off[0]} has length {np.linalg.norm(rows[off[0]]):.6g}."
        )
    return np.ascontiguousarray(rows)


def rounded_lengths(rows, precision, numpy=np):
    """Lengths, (m, 1), of rows that are unit vectors up to rounding to `precision`, by which they become so again; 1 for other rows."""
    lengths = numpy.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return numpy.where(abs(lengths - 1.0) <= 4.0 * precision, lengths, 1.0)


def check_score(score, name="score"):
    """`score` must be an array, a callable, or an object with a `.score` method; returns it unchanged."""
    if not score_is_array(score):
        return score
    try:
        array = np.asarray(score)
    except Exception as error:
        raise TypeError(f"`{name}` could not be read as an array: {error}") from error
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise TypeError(
            f"`{name}` must be an (n, d) array, a callable x -> (n, d), or a model with a .score method; got {type(score).__name__}."
        )
    return score


def score_is_array(score):
    """Whether `score` holds values at the samples only and can't be evaluated elsewhere."""
    return not (callable(score) or callable(getattr(score, "score", None)))


def evaluate_score(score, x, name="score", *, finite=True):
    """Scores at the rows of `x`, (n, d) float64, from an array, a callable or a model; if `finite`, or an error says which rows are not."""
    if score_is_array(score):
        values = real_array(name, check_score(score, name))
        if values.shape != x.shape:
            raise ValueError(
                f"`{name}` must have the shape of the samples, {x.shape}; got {values.shape}."
            )
    else:
        # Copies both ways: the function may work in place, or return a buffer that it uses again.
        values = call_user(name, getattr(score, "score", score), x.copy())
        values = np.array(real_array(name, values, what=f"what `{name}` returned"))
        if values.shape != x.shape:
            raise ValueError(
                f"`{name}` must return an array of shape {x.shape} for samples of that shape; it returned {values.shape}."
            )
    if finite:
        _check_finite(name, values, returned=not score_is_array(score))
    return np.ascontiguousarray(values)


def call_user(name, function, *args):
    """Call a user's function; what it raises is chained to an error that names the argument."""
    try:
        return function(*args)
    except Exception as error:
        raise ValueError(
            f"`{name}` raised {type(error).__name__} on samples of shape {args[0].shape}: {error}"
        ) from error


def check_rng(rng):
    """A `numpy.random.Generator` from None, an integer seed, or a generator."""
    if rng is None or (
        isinstance(rng, (numbers.Integral, np.random.SeedSequence, np.random.Generator))
        and not isinstance(rng, bool)
    ):
        if isinstance(rng, numbers.Integral) and rng < 0:
            raise ValueError(f"`rng` must be a non-negative seed; got {rng}.")
        return np.random.default_rng(rng)
    raise TypeError(
        f"`rng` must be None, an integer seed or a numpy.random.Generator, not {type(rng).__name__}."
    )


def frozen(array):
    """A read-only copy, so that an object does not change with the array it was made from."""
    array = np.array(array)
    array.setflags(write=False)
    return array


def real_array(name, value, what=None):
    what = f"`{name}`" if what is None else what
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{what} is a masked array; drop or fill the masked entries first.")
    try:
        array = np.asarray(value)
    except Exception as error:
        raise TypeError(f"{what} could not be read as an array: {error}") from error
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
            holder = (
                f"column {(column_names(value) or range(array.shape[1]))[where[1]]!r}"
                if array.ndim == 2
                else "it"
            )
            raise TypeError(
                f"{what} must be an array of real numbers; {holder} holds {array[where]!r}."
            )
    elif array.dtype.kind not in "fiub":
        raise TypeError(f"{what} must be an array of real numbers; got dtype {array.dtype}.")
    return array.astype(np.float64, order="C", copy=False)


def _check_finite(name, array, returned=False):
    bad = ~np.isfinite(array)
    if not bad.any():
        return
    rows = np.flatnonzero(bad.any(axis=1))
    shown = ", ".join(str(row) for row in rows[:5]) + (", ..." if rows.size > 5 else "")
    verb = "returned" if returned else "holds"
    raise ValueError(
        f"`{name}` {verb} NaN or infinity in {rows.size} of {array.shape[0]} rows (rows {shown})."
    )


def check_statistic(values):
    """Statistics that did not overflow."""
    if not np.all(np.isfinite(values)):
        raise ValueError(
            "`x` or `score` holds numbers so large that the statistic overflows; rescale the samples."
        )
    return values
