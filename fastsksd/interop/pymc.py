"""PyMC: scores of a model in unconstrained space, and its posterior draws there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .._typing import Array, ArrayLike, Rng
from .._validate import ArgumentError, ArgumentTypeError, check_integer, check_rng, check_samples
from ._draws import Block, Draws, OnDivergence, OnNan, VarNames, collect, indexed
from ._library import library, with_progress
from .arviz import diverging, read, variables_of

__all__ = ["draws", "score", "variational"]


def score(model: Any, *, mode: str | None = None) -> Callable[[ArrayLike], Array]:
    """Score function of a PyMC model's posterior in unconstrained space.

    Parameters
    ----------
    model : pymc.Model
        A model without discrete variables (for these, see `draws`).
    mode : str, optional
        PyTensor's compilation mode. "FAST_COMPILE" needs no C++ compiler and starts at once;
        "NUMBA" and "JAX" need none either.

    Returns
    -------
    callable
        From (n, d) to (n, d). The columns are the entries of ``model.value_vars`` in their order.
        The scores include the Jacobians of the transforms.

    Raises
    ------
    ValueError
        If the model has discrete variables.

    Examples
    --------
    >>> import numpy as np, pymc as pm, fastsksd as fs
    >>> with pm.Model() as model:
    ...     scale = pm.HalfNormal("scale")
    >>> fs.interop.pymc.score(model, mode="FAST_COMPILE")(np.zeros((1, 1)))
    array([[0.]])
    """
    _check_model(model)
    if model.discrete_value_vars:
        names = ", ".join(repr(variable.name) for variable in model.discrete_value_vars)
        raise ArgumentError(
            "model",
            f"has discrete variables, {names}; "
            "fastsksd.interop.pymc.draws takes scores at their draws",
        )
    start = model.initial_point()
    gradient = _gradient(model, {name: np.shape(value) for name, value in start.items()}, {}, mode)
    d = sum(np.size(value) for value in start.values())

    def rows_to_scores(x: ArrayLike) -> Array:
        x = check_samples(x, d=d)
        return gradient(x, range(x.shape[0]))

    return rows_to_scores


def draws(
    model: Any,
    idata: Any,
    *,
    var_names: VarNames = None,
    mode: str | None = None,
    on_divergence: OnDivergence = "keep",
    on_nan: OnNan = "error",
    progress: bool = True,
) -> Draws:
    """Posterior draws of a PyMC model in unconstrained space, with their scores.

    Draws are transformed as the model transforms its variables. If `idata` already holds
    transformed draws, these are used, which keeps more digits: nutpie's does, and PyMC's with
    ``pm.sample(idata_kwargs={"include_transformed": True})``.

    Parameters
    ----------
    model : pymc.Model
        The model whose posterior the draws should follow. Discrete variables are not among the
        columns; scores are taken at their draws.
    idata : InferenceData, DataTree, Dataset, mapping or path
        Draws of all its free variables; see `fastsksd.interop.arviz.draws`.
    var_names : str or sequence of str, optional
        Variables to test, by their names in the model; all by default.
    mode : str, optional
        PyTensor's compilation mode, as for `score`.
    on_divergence : {"keep", "error", "drop"}
        What to do with draws that the sampler marks as divergent. They are draws of the chain all
        the same, and removing them may hide a misfit: a diagnosis says how many there are.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.
    progress : bool
        Show progress on standard error, if scores take more than a few seconds.

    Returns
    -------
    Draws
        Unconstrained draws with their scores.

    Raises
    ------
    ValueError
        If the model has no continuous variable, `idata` lacks one of its variables, or draws are
        not finite.

    Examples
    --------
    >>> import numpy as np, pymc as pm, fastsksd as fs
    >>> with pm.Model() as model:
    ...     scale = pm.HalfNormal("scale")
    >>> idata = {"scale": abs(np.random.default_rng(0).standard_normal((4, 250)))}
    >>> draws = fs.interop.pymc.draws(model, idata, mode="FAST_COMPILE")
    >>> draws
    Draws(1000 of 4 chains, d=1: scale_log__)
    >>> draws.test(rng=0).reject()
    False
    """
    _check_model(model)
    if not model.continuous_value_vars:
        raise ArgumentError("model", "has no continuous variable, and so no score")
    idata = read(idata)
    values = _unconstrained(model, variables_of(idata), mode)
    blocks = []
    for variable in model.continuous_value_vars:
        value = values[variable.name]
        names = _names(model, variable, value.shape[2:])
        blocks.append(
            Block(model.values_to_rvs[variable].name, names, value.reshape(*value.shape[:2], -1))
        )
    shapes = {
        variable.name: values[variable.name].shape[2:] for variable in model.continuous_value_vars
    }
    discrete = {v.name: _rows(values[v.name]).astype(v.dtype) for v in model.discrete_value_vars}
    return collect(
        blocks,
        score=with_progress(_gradient(model, shapes, discrete, mode), progress),
        diverging=diverging(idata),
        var_names=var_names,
        on_divergence=on_divergence,
        on_nan=on_nan,
    )


def variational(
    approximation: Any,
    n_draws: int = 1000,
    *,
    var_names: VarNames = None,
    mode: str | None = None,
    on_nan: OnNan = "error",
    progress: bool = True,
    rng: Rng = None,
) -> Draws:
    """Independent draws of a PyMC approximation in unconstrained space, with the model's scores.

    Parameters
    ----------
    approximation : pymc.variational.Approximation
        What ``pm.fit`` returned: mean field or full-rank ADVI, SVGD, ASVGD.
    n_draws : int
        Number of draws.
    var_names : str or sequence of str, optional
        Variables to test, by their names in the model; all by default.
    mode : str, optional
        PyTensor's compilation mode, as for `score`.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.
    progress : bool
        Show progress on standard error, if scores take more than a few seconds.
    rng : None, int or numpy.random.Generator
        Seed of the draws.

    Returns
    -------
    Draws
        Independent draws with their scores.

    Raises
    ------
    ValueError
        If the model has discrete variables, or draws are not finite.

    See Also
    --------
    draws : Posterior draws of a sampler.

    Examples
    --------
    >>> import pymc as pm, fastsksd as fs
    >>> with pm.Model() as model:
    ...     scale = pm.HalfNormal("scale")
    ...     approximation = pm.fit(2000, random_seed=0, progressbar=False)
    >>> draws = fs.interop.pymc.variational(approximation, 500, mode="FAST_COMPILE", rng=0)
    >>> draws
    Draws(500 independent, d=1: scale_log__)
    """
    if not callable(getattr(approximation, "sample_dict_fn", None)):
        raise ArgumentTypeError(
            "approximation", f"must be what pymc.fit returned; got {type(approximation).__name__}"
        )
    count = check_integer("n_draws", n_draws, 2)
    model = approximation.model
    function = score(model, mode=mode)
    seed = int(check_rng(rng).integers(2**31))
    drawn = approximation.sample_dict_fn(count, random_seed=seed)
    blocks = []
    for variable in model.value_vars:
        value = np.asarray(drawn[variable.name])
        names = _names(model, variable, value.shape[1:])
        name = model.values_to_rvs[variable].name
        blocks.append(Block(name, names, value.reshape(1, count, -1)))
    return collect(
        blocks,
        score=with_progress(lambda x, rows: function(x), progress),
        var_names=var_names,
        on_nan=on_nan,
        independent=True,
    )


def _check_model(model: Any) -> None:
    pymc = library("pymc")
    if not isinstance(model, pymc.Model):
        raise ArgumentTypeError("model", f"must be a pymc.Model; got {type(model).__name__}")


def _names(model: Any, variable: Any, shape: tuple[int, ...]) -> list[str]:
    """Names of the entries of a value variable, with the model's coordinates as ArviZ has them."""
    dims = model.named_vars_to_dims.get(model.values_to_rvs[variable].name, ())
    labels = [model.coords.get(dim) for dim in dims]
    if len(labels) != len(shape):
        return indexed(variable.name, shape)
    known = (
        range(size) if some is None or len(some) != size else some
        for some, size in zip(labels, shape, strict=True)
    )
    return indexed(variable.name, shape, list(known))


def _gradient(
    model: Any,
    shapes: Mapping[str, tuple[int, ...]],
    discrete: Mapping[str, np.ndarray],
    mode: str | None,
) -> Callable[[Array, Iterable[int]], Array]:
    """Scores from continuous columns x and their row numbers, at which `discrete` is read."""
    gradient = model.compile_dlogp(jacobian=True, mode=mode)
    kinds = {variable.name: variable.dtype for variable in model.value_vars}
    edges = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]

    def scores(x: Array, rows: Iterable[int]) -> Array:
        out = np.empty(x.shape)
        for k, row in enumerate(rows):
            parts = zip(shapes.items(), np.split(x[k], edges), strict=True)
            point = {name: part.reshape(shape).astype(kinds[name]) for (name, shape), part in parts}
            out[k] = gradient(point | {name: value[row] for name, value in discrete.items()})
        return out

    return scores


def _unconstrained(
    model: Any, variables: Mapping[str, tuple[np.ndarray, Any]], mode: str | None
) -> dict[str, np.ndarray]:
    """Values (chains, draws, ...) of the model's value variables, as stored or transformed here."""
    ready = {
        v.name: np.asarray(variables[v.name][0]) for v in model.value_vars if v.name in variables
    }
    rvs = [rv for rv in model.free_RVs if model.rvs_to_values[rv].name not in ready]
    if not rvs:
        return ready
    missing = [rv.name for rv in model.free_RVs if rv.name not in variables]
    if missing:
        raise ArgumentError(
            "idata",
            f"has no variable {missing[0]!r} of the model; "
            f"there are {', '.join(map(repr, variables))}",
        )
    pytensor = library("pytensor")
    inputs = {rv: rv.type(f"{rv.name}_drawn") for rv in model.free_RVs}
    forward = [model.rvs_to_transforms[rv].forward(inputs[rv], *rv.owner.inputs) for rv in rvs]
    forward = pytensor.clone_replace(forward, inputs)
    transform = pytensor.function(
        list(inputs.values()), forward, mode=mode, on_unused_input="ignore"
    )
    drawn = [np.asarray(variables[rv.name][0]).astype(rv.dtype) for rv in inputs]
    chains, length = drawn[0].shape[:2]
    # Values that are not finite are reported later.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        results = [transform(*row) for row in zip(*map(_rows, drawn), strict=True)]
    for k, rv in enumerate(rvs):
        stacked = np.stack([result[k] for result in results])
        ready[model.rvs_to_values[rv].name] = stacked.reshape(chains, length, *stacked.shape[1:])
    return ready


def _rows(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *values.shape[2:])
