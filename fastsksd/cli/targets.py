"""What samples in a file are tested against.

A command line names a score function, or a model with its parameters.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from .. import models
from .files import is_file_name, open_file
from .shell import Shell
from .sources import FileError, read_all

MODELS = {
    "gaussian": models.Gaussian,
    "laplace": models.Laplace,
    "student-t": models.StudentT,
    "mixture": models.GaussianMixture,
    "ica": models.ICA,
    "rbm": models.GaussBernRBM,
}
FLAGS = {
    "gaussian": ("mean", "cov"),
    "laplace": ("loc", "scale"),
    "student-t": ("loc", "scale", "df"),
}


class TargetError(ValueError):
    """A score or model that can't be used; the message says what was asked for and why not."""


FITS: dict[str, Any] = {
    "gaussian": models.Gaussian.fit,
    "laplace": models.Laplace.fit,
    "student-t": models.StudentT.fit,
    "ica": models.ICA.fit,
}


def load_fit(text: str) -> Any:
    """Find what fits a model: the name of a model, or a function ``module:name``.

    Parameters
    ----------
    text : str
        What ``--fit`` says.

    Returns
    -------
    callable

    Raises
    ------
    TargetError
        If there is no such function.

    Examples
    --------
    >>> from fastsksd.cli.targets import load_fit
    >>> load_fit("laplace")([[0.0], [1.0], [5.0]])
    Laplace(d=1)
    """
    if text in FITS:
        return FITS[text]
    if ":" not in text:
        raise TargetError(
            f"--fit {text}: must be one of {', '.join(FITS)}, or module:function or "
            "file.py:function"
        )
    value = _load("--fit", text)
    if not callable(value):
        raise TargetError(f"--fit {text}: is no function, but {type(value).__name__}")
    return value


def load_score(text: str) -> Any:
    """Import the score function ``module:name`` or ``file.py:name``.

    Modules of the current folder are found first.

    Parameters
    ----------
    text : str
        What ``--score`` says.

    Returns
    -------
    callable or model

    Raises
    ------
    TargetError
        If there is no such function.

    Examples
    --------
    >>> from fastsksd.cli.targets import load_score
    >>> load_score("numpy:negative")
    <ufunc 'negative'>
    """
    value = _load("--score", text)
    name = text.rpartition(":")[2]
    if isinstance(value, type):
        raise TargetError(
            f"--score {text}: {name} is a class; name an object of it, or a function x -> (n, d)"
        )
    if not callable(value) and not callable(getattr(value, "score", None)):
        raise TargetError(
            f"--score {text}: {name} is neither a function nor a model with a .score method, but "
            f"{type(value).__name__}"
        )
    return value


def _load(flag: str, text: str) -> Any:
    """What ``module:name`` names."""
    module_name, colon, name = text.rpartition(":")
    if not colon or not module_name or not name:
        hint = f"; for values in a file, --scores {text}" if is_file_name(text) else ""
        raise TargetError(f"{flag} {text}: must be module:function or file.py:function{hint}")
    module = _import(f"{flag} {text}", module_name)
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise TargetError(
                f"{flag} {text}: {module_name} has no {name}{_candidates(module, name)}"
            ) from None
    return value


def _import(flag: str, name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    try:
        # The module may print, and may even end the program; neither belongs to the result.
        with contextlib.redirect_stdout(sys.stderr):
            if not name.endswith(".py"):
                return importlib.import_module(name)
            if not os.path.isfile(name):
                raise TargetError(f"{flag}: there is no file {name}")
            sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
            # So that a file json.py does not become the module json.
            title = f"score_of_{os.path.splitext(os.path.basename(name))[0]}"
            spec = importlib.util.spec_from_file_location(title, name)
            module = sys.modules[title] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    except TargetError:
        raise
    except ModuleNotFoundError as error:
        own = error.name is not None and (name == error.name or name.startswith(error.name + "."))
        where = (
            f" (looked in {os.getcwd()} and where Python has its packages)"
            if own
            else f", which {name} imports"
        )
        raise TargetError(f"{flag}: there is no module {error.name}{where}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"{flag}: importing {name} raised {type(error).__name__}: {error}"
        ) from error


def _candidates(module: ModuleType, name: str) -> str:
    names = [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and callable(value) and not isinstance(value, type)
    ]
    own = [
        key for key in names if getattr(vars(module)[key], "__module__", None) == module.__name__
    ] or names
    shown = difflib.get_close_matches(name, own, n=10, cutoff=0.5) or own[:10]
    return f"; there are {', '.join(shown)}" if shown else "; it has no functions"


def make_model(text: str, d: int, flags: Mapping[str, str | None]) -> Any:
    """Make the model of `d` dimensions that ``--model`` and its flags ask for.

    Parameters
    ----------
    text : str
        The name of a model, or of a JSON file with all of its parameters.
    d : int
        Number of dimensions.
    flags : mapping
        Parameters of a model that is given by its name, as text; None where not given.

    Returns
    -------
    Model

    Raises
    ------
    TargetError
        If there is no such model, or its parameters don't fit.
    FileError
        If a file can't be used.

    Examples
    --------
    >>> from fastsksd.cli.targets import make_model
    >>> make_model("gaussian", 3, {"mean": "0,0,1", "cov": "2"}).mean
    array([0., 0., 1.])
    """
    given = {name: value for name, value in flags.items() if value is not None}
    if text.endswith(".json"):
        if given:
            raise TargetError(
                f"--{next(iter(given))} does not go with --model {text}, which holds all parameters"
            )
        kind, parameters = _from_json(text)
    else:
        kind = text
        if kind not in FLAGS:
            only = " (the others only in a .json file)" if kind in MODELS else ""
            raise TargetError(
                f"--model {text}: must be one of {', '.join(FLAGS)}, or a .json file{only}"
            )
        unknown = [name for name in given if name not in FLAGS[kind]]
        if unknown:
            known = ", ".join(f"--{flag}" for flag in FLAGS[kind])
            raise TargetError(f"--{unknown[0]} is not a parameter of --model {kind}, only {known}")
        parameters = {name: _parameter(name, value, d) for name, value in given.items()}
    try:
        model = _build(kind, parameters, d)
    except (TypeError, ValueError) as error:
        # The parameters of a name are flags; those of a file are not.
        said = str(error) if text.endswith(".json") else Shell().said(error)
        raise TargetError(f"--model {text}: {said}") from error
    if model.d != d:
        raise TargetError(f"--model {text}: has {model.d} dimensions, but the samples have {d}")
    return model


def _build(kind: str, parameters: Mapping[str, Any], d: int) -> Any:
    if kind == "gaussian":
        mean, cov = parameters.get("mean", 0.0), parameters.get("cov", 1.0)
        return models.Gaussian(np.full(d, mean) if np.ndim(mean) == 0 else mean, cov)
    if kind in ("laplace", "student-t"):
        parameters = {"d": d, **parameters}
    return MODELS[kind](**parameters)


def _parameter(name: str, text: str, d: int) -> float | np.ndarray:
    """A number, numbers separated by commas, or an array in a file."""
    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        if not is_file_name(text):
            raise TargetError(
                f"--{name} {text}: must be a number, numbers separated by commas (0,0.5,1), or a "
                "file of them"
            ) from None
        (values,) = read_all([open_file(text)])
    if 1 in values.shape:
        values = values.ravel()
    if values.size == 1:
        return float(values[0])
    if values.shape[0] != d or (values.ndim == 2 and (name != "cov" or values.shape[1] != d)):
        wanted = f"1, {d} or {d} x {d}" if name == "cov" else f"1 or {d}"
        shape = " x ".join(map(str, values.shape))
        raise TargetError(
            f"--{name}: has {shape} numbers; it must have {wanted}, for samples of {d} columns"
        )
    return values


def _from_json(path: str) -> tuple[str, dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FileError(f"{path}: is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("model") not in MODELS:
        known = ", ".join(MODELS)
        raise FileError(
            f'{path}: must be an object with "model", one of {known}, and its parameters'
        )
    kind = content.pop("model")
    allowed = list(inspect.signature(MODELS[kind]).parameters)
    unknown = [name for name in content if name not in allowed]
    if unknown:
        raise FileError(
            f"{path}: {kind} has no parameter {unknown[0]!r}; it has {', '.join(allowed)}"
        )
    return kind, content
