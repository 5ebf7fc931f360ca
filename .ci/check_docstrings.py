"""Run as a program: all that a user reaches from fastsksd has a numpydoc docstring and annotations.

numpydoc judges each docstring. Here stands which of its findings count, where more is asked than
numpydoc asks, and the few exceptions with their reasons. Three codes are our own:

    TY01   an argument or the result has no annotation
    RF01   a method of the literature has no References section
    AT01   a record's documented attributes are not its fields
"""

import dataclasses
import functools
import inspect
import os
import sys
from importlib import import_module

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import Validator, validate

import fastsksd

# Not asked for: ES01, an extended summary, where the summary says it all; SS05, since a noun phrase
# in the plural looks like a verb in the third person.
ALWAYS = {
    *("GL01", "GL02", "GL03", "GL05", "GL06", "GL07", "GL08", "GL09", "GL10"),
    *("SS01", "SS02", "SS03", "SS04", "SS06", "SA02", "SA03", "SA04", "YD01"),
    *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10"),
    *("RT01", "RT02", "RT03", "RT04", "RT05"),
}
# Methods of the literature also name their papers and their relatives.
LITERATURE = {
    "fastsksd.gof_test",
    "fastsksd.active_slices",
    "fastsksd.refine_slices",
    "fastsksd.sksd",
    "fastsksd.ksd",
    "fastsksd.psd",
    "fastsksd.mmd",
    *(f"fastsksd.baselines.{name}" for name in fastsksd.baselines.__all__),
}
# (name, code): reason.
ALLOWED: dict[tuple[str, str], str] = {}


def reached():
    """Yield name and object of all public functions and classes, and of the members of classes."""
    modules = [fastsksd]
    modules += [getattr(fastsksd, name) for name in fastsksd.__all__]
    modules += [import_module(f"fastsksd.interop.{name}") for name in fastsksd.interop._BRIDGES]
    for module in filter(inspect.ismodule, modules):
        for name, value in public_names(module):
            yield f"{module.__name__}.{name}", value
            for base in inspect.getmro(value) if inspect.isclass(value) else ():
                if base.__module__.startswith("fastsksd"):
                    for member, function in public_members(base):
                        yield f"{base.__module__}.{base.__qualname__}.{member}", function


def public_names(module):
    """Functions and classes of a module's `__all__`; without one, those it defines."""
    names = getattr(module, "__all__", None)
    for name in vars(module) if names is None else names:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            if names is not None or (
                not name.startswith("_") and value.__module__ == module.__name__
            ):
                yield name, value


def public_members(cls):
    """Methods and properties that a class defines; one without a docstring inherits its base's."""
    for name, value in vars(cls).items():
        if name.startswith("_") and name != "__call__":
            continue
        function = getattr(value, "__func__", value)
        if not (inspect.isfunction(function) or isinstance(value, PROPERTIES)):
            continue
        inherited = any(getattr(base, name, None) is not None for base in cls.__mro__[1:])
        if value.__doc__ or not inherited:
            yield name, value


PROPERTIES = (property, functools.cached_property)


def findings(name, value):
    """Triples of a place (file and line), a code and its text."""
    verdict = validate(name)
    where = f"{os.path.relpath(verdict['file'])}:{verdict['file_line']}"
    for code, text in _findings(name, value, verdict["errors"]):
        yield where, code, text


def _findings(name, value, errors):
    fields = record_fields(value)
    raised = inspect.isclass(value) and issubclass(value, Exception)
    wanted = set(ALWAYS)
    if fields is not None:  # AT01 takes their place
        wanted -= {"PR01", "PR03"}
    if raised:  # users catch it, they do not make it
        wanted -= {"PR01"}
    elif not is_member(name) and fields is None:  # functions that return records show them
        wanted.add("EX01")
    if name in LITERATURE:
        wanted.add("SA01")
    for code, text in errors:
        if code in wanted:
            yield code, text
    if not value.__doc__:
        return
    doc = Validator(get_doc_object(Validator._load_obj(name))).doc
    if name in LITERATURE and not doc["References"]:
        yield "RF01", "No References section found"
    if fields is not None:
        documented = {
            one for section in ("Parameters", "Attributes")
            for entry in doc[section] for one in entry.name.split(", ")
        }  # fmt: skip
        if missing := fields - documented:
            yield "AT01", f"Fields {sorted(missing)} not documented"
    for target in [] if raised else annotated(value):
        if missing := unannotated(target):
            yield "TY01", f"No annotation of {', '.join(missing)}"


def is_member(name):
    """Whether a dotted name is that of a method or property."""
    return inspect.isclass(Validator._load_obj(name.rpartition(".")[0]))


def record_fields(value):
    """Names of the public fields of a dataclass or a named tuple, or None."""
    if not inspect.isclass(value):
        return None
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    elif issubclass(value, tuple):
        names = value._fields
    else:
        return None
    return {name for name in names if not name.startswith("_")}


def annotated(value):
    """The function whose annotations count: a property's getter, a class's own `__init__`."""
    if isinstance(value, property):
        return [value.fget]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if inspect.isclass(value):
        own = vars(value).get("__init__")
        return [own] if inspect.isfunction(own) else []
    return [inspect.unwrap(getattr(value, "__func__", value))]


def unannotated(function):
    signature = inspect.signature(function)
    missing = [
        f"`{name}`"
        for name, parameter in signature.parameters.items()
        if parameter.annotation is parameter.empty and name not in ("self", "cls")
    ]
    if signature.return_annotation is signature.empty and function.__name__ != "__init__":
        missing.append("the result")
    return missing


def main():
    """Print all findings; return 1 where there are any."""
    unused, count, seen = set(ALLOWED), 0, set()
    for name, value in reached():
        if id(value) in seen:
            continue
        seen.add(id(value))
        for where, code, text in findings(name, value):
            if (name, code) in ALLOWED:
                unused.discard((name, code))
                continue
            count += 1
            print(f"{where}: {code} {name}: {text}")
    for name, code in sorted(unused):
        count += 1
        print(f".ci/check_docstrings.py: {name} {code}: allowed, but not found any more")
    print(f"{len(seen)} public functions, classes and members, {count} findings")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
