"""ArviZ: draws of any sampler from its InferenceData (ArviZ 0.x), DataTree (1.x) or netCDF file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .._typing import Score
from .._validate import ArgumentError, ArgumentTypeError, evaluate_score, score_is_array
from ._draws import (
    Block,
    Draws,
    OnDivergence,
    OnNan,
    VarNames,
    check_variables,
    collect,
    indexed,
    seem_bounded,
    unconstrained_names,
)
from ._library import library

__all__ = ["draws"]

_STORED = ("unconstrained_draw", "gradient")


def draws(
    idata: Any,
    *,
    score: Score | None = None,
    var_names: VarNames = None,
    group: str = "posterior",
    on_divergence: OnDivergence = "keep",
    on_nan: OnNan = "error",
) -> Draws:
    """Draws with their scores, from gradients that the sampler stored or from a score function.

    Parameters
    ----------
    idata : InferenceData, DataTree, Dataset, mapping or path
        What ArviZ, PyMC, nutpie and others return, a netCDF file of it, or a mapping of names to
        arrays (chains, draws, ...).
    score : callable, model or (n, d) array, optional
        Score of the variables in the order of `var_names`: a function from (n, d) to (n, d), or its
        values, chain after chain. The variables are used as they are, so they must be
        unconstrained. By default the gradients and the unconstrained draws in the sample statistics
        are used; nutpie stores both with ``store_gradient=True, store_unconstrained=True``.
        Posteriors with constrained parameters and without gradients need their model: see
        `fastsksd.interop.pymc.draws`, `numpyro.draws` and `stan.draws`.
    var_names : str or sequence of str, optional
        Variables to test; all by default.
    group : str
        Group of the variables, for a given `score`.
    on_divergence : {"keep", "error", "drop"}
        What to do with draws that the sample statistics mark as divergent. They are draws of the
        chain all the same, and removing them may hide a misfit: a diagnosis says how many there
        are.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.

    Returns
    -------
    Draws
        Unconstrained draws with their scores.

    Raises
    ------
    ValueError
        If scores are neither given nor stored, a variable is unknown or discrete, or draws are
        not finite.

    See Also
    --------
    fastsksd.interop.pymc.draws : Draws of a PyMC model.
    fastsksd.interop.numpyro.draws : Draws of a NumPyro model.
    fastsksd.interop.stan.draws : Draws of a Stan model.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> rng = np.random.default_rng(0)
    >>> samples = {"a": rng.standard_normal((4, 250)), "b": np.ones((4, 250, 2))}
    >>> fs.interop.arviz.draws(samples, score=lambda x: -x, var_names="a")
    Draws(1000 of 4 chains, d=1: a)
    """
    idata = read(idata)
    options: dict[str, Any] = {
        "diverging": diverging(idata),
        "on_divergence": on_divergence,
        "on_nan": on_nan,
    }
    if score is None:
        return collect(_stored_blocks(idata), var_names=var_names, **options)
    variables = variables_of(idata, group)
    chosen = check_variables(var_names, list(variables))
    blocks = [
        Block(name, labels, values)
        for name in chosen
        for labels, values in [flat(name, *variables[name])]
    ]
    if score_is_array(score):
        found = collect(_with_scores(blocks, score), **options)
    else:
        found = collect(
            blocks, score=lambda x, rows: evaluate_score(score, x, finite=False), **options
        )
    return replace(found, seem_bounded=seem_bounded(found.x, found.names))


def read(idata: Any, name: str = "idata") -> Any:
    """`idata` itself, or the content of the netCDF file at that path."""
    if isinstance(idata, (str, os.PathLike)):
        path = os.fspath(idata)
        arviz = library("arviz")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"`{name}`: there is no file {path}.")
        try:
            return arviz.from_netcdf(path)
        except Exception as error:
            raise ArgumentError(name, f"could not be read as netCDF: {error}") from error
    if not (hasattr(idata, "groups") or hasattr(idata, "data_vars") or isinstance(idata, Mapping)):
        raise ArgumentTypeError(
            name,
            f"must be an InferenceData, DataTree or Dataset, a mapping of names to arrays "
            f"(chains, draws, ...), or the path of a netCDF file; got {type(idata).__name__}",
        )
    return idata


def variables_of(
    idata: Any, group: str = "posterior"
) -> dict[str, tuple[np.ndarray, list[Sequence[Any]]]]:
    """The variables of a group: values (chains, draws, ...) and labels of each further axis."""
    if hasattr(idata, "groups"):
        members = _group(idata, group)
        if members is None:
            raise ValueError(
                f"`group`: no group {group!r}; there are {', '.join(repr(name) for name in idata)}."
            )
        return {str(name): _labelled(name, members[name]) for name in members.data_vars}
    if hasattr(idata, "data_vars"):
        return {str(name): _labelled(name, idata[name]) for name in idata.data_vars}
    variables = {name: _array(name, values) for name, values in idata.items()}
    shapes = {values.shape[:2] for values in variables.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise ValueError(
            "a mapping must hold arrays (chains, draws, ...) with the same first two axes; "
            "got shapes "
            + ", ".join(f"{name} {values.shape}" for name, values in variables.items())
        )
    return {
        name: (values, [range(size) for size in values.shape[2:]])
        for name, values in variables.items()
    }


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        lengths = ", ".join(str(len(one)) for one in values)
        raise ArgumentError(
            "idata",
            f"must hold arrays (chains, draws, ...); {name!r} can't be read as one, with parts of "
            f"length {lengths}",
            remedy="Chains of unequal length can be given to fastsksd.gof_test, as a list.",
        ) from error


def diverging(idata: Any) -> np.ndarray | None:
    """Which draws diverged, (chains, draws), or None if that is not known."""
    statistics = _group(idata, "sample_stats") if hasattr(idata, "groups") else None
    if statistics is None or "diverging" not in statistics.data_vars:
        return None
    return statistics["diverging"].transpose("chain", "draw").values


def flat(
    name: str, values: np.ndarray, labels: list[Sequence[Any]]
) -> tuple[list[str], np.ndarray]:
    """Names and values (chains, draws, k) of one variable's entries; discrete ones are an error."""
    if values.dtype.kind != "f":
        raise ArgumentError(
            "var_names",
            f"must name continuous variables: {name!r} holds {values.dtype} and has no score",
        )
    return indexed(name, values.shape[2:], labels), values.reshape(*values.shape[:2], -1)


def _group(idata: Any, name: str) -> Any:
    return idata[name] if name in idata else None


def _labelled(name: str, array: Any) -> tuple[np.ndarray, list[Sequence[Any]]]:
    if not {"chain", "draw"} <= set(array.dims):
        raise ValueError(f"{name!r} must have the dimensions chain and draw; it has {array.dims}.")
    array = array.transpose("chain", "draw", ...)
    return array.values, [array[dim].values for dim in array.dims[2:]]


def _with_scores(blocks: list[Block], score: Any) -> list[Block]:
    chains, length = blocks[0].x.shape[:2]
    widths = np.cumsum([block.x.shape[2] for block in blocks])
    scores = np.asarray(score, dtype=float)
    if scores.shape != (chains * length, widths[-1]):
        raise ArgumentError(
            "score",
            f"must have the shape of the draws, {(chains * length, int(widths[-1]))}; "
            f"got {scores.shape}",
        )
    parts = np.split(scores.reshape(chains, length, -1), widths[:-1], axis=2)
    return [block._replace(score=part) for block, part in zip(blocks, parts, strict=True)]


def _stored_blocks(idata: Any) -> list[Block]:
    """One block for each unconstrained parameter whose draws and gradients the sampler stored."""
    statistics = _group(idata, "sample_stats") if hasattr(idata, "groups") else None
    stored = () if statistics is None else statistics.data_vars
    missing = [name for name in _STORED if name not in stored]
    if statistics is None or missing:
        raise ArgumentError(
            "score",
            "is needed: the sample statistics hold no "
            f"{' and no '.join(map(repr, missing))}. Give the score of the (unconstrained) "
            "variables, or the model to fastsksd.interop.pymc.draws, numpyro.draws or stan.draws; "
            "nutpie stores both with store_gradient=True, store_unconstrained=True",
        )
    x, gradient = (statistics[name].transpose("chain", "draw", ...) for name in _STORED)
    owners = _owners(idata)
    blocks = []
    for k, column in enumerate(x[x.dims[2]].values):
        label, z = str(column), x.values[:, :, k]
        name, shown, values = owners.get(label, (label, label, None))
        names = unconstrained_names([shown], z, values)
        if values is None and "__" in label:
            names = [label]  # PyMC's of a transformed variable, which says what it is: tau_log__
        blocks.append(Block(name, names, z[:, :, None], gradient.values[:, :, k : k + 1]))
    return blocks


def _owners(idata: Any) -> dict[str, tuple[str, str, np.ndarray]]:
    """Variable, name and constrained draws of each of nutpie's parameters.

    They are called ``name``, or ``name_i.j`` for an entry; in Stan ``name.i.j``, counted from 1.
    Those of PyMC's transformed variables are missing.
    """
    owners: dict[str, tuple[str, str, np.ndarray]] = {}
    for name, (values, labels) in variables_of(idata).items():
        shape = values.shape[2:]
        for place, shown in zip(np.ndindex(*shape), indexed(name, shape, labels), strict=True):
            owner = name, shown, values[np.s_[:, :] + place]
            owners["_".join([name, *([".".join(map(str, place))] if place else [])])] = owner
            owners[".".join([name, *(str(k + 1) for k in place)])] = owner
    return owners
