"""How a shell writes what the library says about its arguments: as flags and names of files."""

from __future__ import annotations

from collections.abc import Mapping

from .._validate import AboutArgument, Option
from ..kernels import GIVEN

# Options of `gof_test` that are flags of ``fastsksd test``, by the same name.
OPTIONS = (
    "n_slices",
    "basis",
    "estimator",
    "precondition",
    "kernel",
    "null",
    "lag",
    "n_resamples",
    "engine",
    "train",
    "method",
    "tolerance",
)
PARAMETERS = ("mean", "cov", "loc", "scale", "df")  # of models
_OTHERS = ("alpha", "bandwidth", "score", "chains", "weights", "fit", "checkpoint", "level")
_RENAMED = {"on_divergence": "divergences", "var_names": "columns", "rng": "seed", "n_jobs": "jobs"}
_FLAGS = {name: f"--{name.replace('_', '-')}" for name in (*OPTIONS, *PARAMETERS, *_OTHERS)} | {
    name: f"--{flag}" for name, flag in _RENAMED.items()
}


class CommandError(ValueError):
    """A combination of options that makes no sense; the message says so."""


class Shell:
    """Arguments of the library as flags, some of them as files.

    Parameters
    ----------
    files : mapping of str to str
        What stands for an argument that is not an option, as in ``{"x": "draws.csv"}``.

    Examples
    --------
    >>> from fastsksd._validate import ArgumentError, Option
    >>> from fastsksd.cli.shell import Shell
    >>> shell = Shell({"x": "draws.csv"})
    >>> shell.option(Option("null", "wild"))
    '--null wild'
    >>> shell.said(ArgumentError("lag", "is for ", Option("null", "wild")))
    '--lag is for --null wild.'
    >>> shell.said(ArgumentError("x", "must have 2 columns"))
    'draws.csv: must have 2 columns.'
    """

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self.files = dict(files or {})

    def option(self, option: Option) -> str:
        """An option that a message mentions; what has no flag is for Python only."""
        if option.name in self.files:
            return self.files[option.name]
        if option == ("on_nan", "drop"):
            return "--drop-nan"
        if option == GIVEN:
            return "--bandwidth 1"
        if option.name not in _FLAGS:
            return f"{option.name if option.value is None else option} in Python"
        flag = _FLAGS[option.name]
        return flag if option.value is None else f"{flag} {option.value}"

    def said(self, error: BaseException) -> str:
        """The message of an error: about flags and files if it names its argument."""
        if not isinstance(error, AboutArgument):
            return str(error)
        name = error.argument
        known = f"{self.files[name]}:" if name in self.files else _FLAGS.get(name)
        return error.message(known, self.option)
