"""What samples in a file are tested against, as a command line can say it: a score function by its name, or a model by its parameters."""

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import json
import os
import sys

import numpy as np

from .. import models
from .files import FileError, is_file_name, open_file, read_all

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


def load_score(text):
    """The score function ``module:name`` or ``file.py:name``; modules of the current folder are found first.

    Examples
    --------
    >>> from fastsksd.cli.targets import load_score
    >>> load_score("numpy:negative")
    <ufunc 'negative'>
    """
    module_name, colon, name = text.rpartition(":")
    if not colon or not module_name or not name:
        hint = f"; for values in a file, --scores {text}" if is_file_name(text) else ""
        raise TargetError(f"--score {text}: must be module:function or file.py:function{hint}")
    module = _import(text, module_name)
    value = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise TargetError(
                f"--score {text}: {module_name} has no {name}{_candidates(module, name)}"
            ) from None
    if isinstance(value, type):
        raise TargetError(
            f"--score {text}: {name} is a class; name an object of it, or a function x -> (n, d)"
        )
    if not callable(value) and not callable(getattr(value, "score", None)):
        raise TargetError(
            f"--score {text}: {name} is neither a function nor a model with a .score method, but {type(value).__name__}"
        )
    return value


def _import(text, name):
    sys.path.insert(0, os.getcwd())
    try:
        # What the module prints, and its wish to end the program, are no part of the result.
        with contextlib.redirect_stdout(sys.stderr):
            if not name.endswith(".py"):
                return importlib.import_module(name)
            if not os.path.isfile(name):
                raise TargetError(f"--score {text}: there is no file {name}")
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
        raise TargetError(f"--score {text}: there is no module {error.name}{where}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"--score {text}: importing {name} raised {type(error).__name__}: {error}"
        ) from error


def _candidates(module, name):
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


def make_model(text, d, flags):
    """The model of `d` dimensions that ``--model`` and its flags ask for: a name, or a JSON file with all of its parameters.

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
            raise TargetError(
                f"--{unknown[0]} is no parameter of --model {kind}, which has {', '.join('--' + flag for flag in FLAGS[kind])}"
            )
        parameters = {name: _parameter(name, value, d) for name, value in given.items()}
    try:
        model = _build(kind, parameters, d)
    except (TypeError, ValueError) as error:
        raise TargetError(f"--model {text}: {error}") from error
    if model.d != d:
        raise TargetError(f"--model {text}: has {model.d} dimensions, but the samples have {d}")
    return model


def _build(kind, parameters, d):
    if kind == "gaussian":
        mean, cov = parameters.get("mean", 0.0), parameters.get("cov", 1.0)
        return models.Gaussian(np.full(d, mean) if np.ndim(mean) == 0 else mean, cov)
    if kind in ("laplace", "student-t"):
        parameters = {"d": d} | parameters
    return MODELS[kind](**parameters)


def _parameter(name, text, d):
    """A number, numbers with commas between, or an array in a file."""
    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        if not is_file_name(text):
            raise TargetError(
                f"--{name} {text}: must be a number, numbers with commas between (0,0.5,1), or a file of them"
            ) from None
        (values,) = read_all([open_file(text)])
    if 1 in values.shape:
        values = values.ravel()
    if values.size == 1:
        return float(values[0])
    if values.shape[0] != d or (values.ndim == 2 and (name != "cov" or values.shape[1] != d)):
        wanted = f"1, {d} or {d} x {d}" if name == "cov" else f"1 or {d}"
        raise TargetError(
            f"--{name}: has {' x '.join(map(str, values.shape))} numbers; wanted are {wanted}, for samples of {d} columns"
        )
    return values


def _from_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FileError(f"{path}: is not JSON: {error}") from error
    if not isinstance(content, dict) or content.get("model") not in MODELS:
        raise FileError(
            f'{path}: must be an object with "model": one of {", ".join(MODELS)}, and its parameters'
        )
    kind = content.pop("model")
    allowed = list(inspect.signature(MODELS[kind]).parameters)
    unknown = [name for name in content if name not in allowed]
    if unknown:
        raise FileError(
            f"{path}: {kind} has no parameter {unknown[0]!r}; it has {', '.join(allowed)}"
        )
    return kind, content
