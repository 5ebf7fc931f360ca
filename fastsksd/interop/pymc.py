"""PyMC: scores of a model in unconstrained space, and its posterior draws there."""

import numpy as np

from .._validate import check_samples
from ._draws import Block, collect, indexed
from ._library import library
from .arviz import diverging, read, variables_of


def score(model, *, mode=None):
    """Score function of a PyMC model's posterior in unconstrained space.

    Parameters
    ----------
    model : pymc.Model
        Without discrete variables (for these, see `draws`).
    mode : str, optional
        PyTensor's compilation mode. "FAST_COMPILE" needs no C++ compiler and starts at once; "NUMBA" and "JAX" need none either.

    Returns
    -------
    callable
        From (n, d) to (n, d). The columns are the entries of ``model.value_vars`` in their order; the transforms' Jacobians are included.

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
        raise ValueError(
            f"`model` has discrete variables, {names}; fastsksd.interop.pymc.draws takes scores at their draws."
        )
    start = model.initial_point()
    gradient = _gradient(model, {name: np.shape(value) for name, value in start.items()}, {}, mode)
    d = sum(np.size(value) for value in start.values())

    def rows_to_scores(x):
        x = check_samples(x, d=d)
        return gradient(x, range(x.shape[0]))

    return rows_to_scores


def draws(model, idata, *, var_names=None, mode=None, on_divergence="error", on_nan="error"):
    """Posterior draws of a PyMC model in unconstrained space, with their scores.

    Draws are transformed as the model transforms its variables, unless `idata` holds them transformed already, which keeps more digits:
    nutpie's does, and PyMC's with ``pm.sample(idata_kwargs={"include_transformed": True})``.

    Parameters
    ----------
    model : pymc.Model
        The model that the posterior ought to be of. Discrete variables are no columns; scores are taken at their draws.
    idata : InferenceData, DataTree, Dataset, mapping or path
        Draws of all its free variables; see `fastsksd.interop.arviz.draws`.
    var_names : str or sequence of str, optional
        Variables to look at, by their names in the model; all by default.
    mode : str, optional
        As for `score`.
    on_divergence : {"error", "drop", "keep"}
        What to do about draws that the sampler calls divergent. Leaving them out may hide the misfit.
    on_nan : {"error", "drop"}
        What to do about draws, or scores, that are not finite.

    Returns
    -------
    Draws

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
        raise ValueError("`model` has no continuous variable, and so no score.")
    idata = read(idata)
    values = _unconstrained(model, variables_of(idata), mode)
    blocks = []
    for variable in model.continuous_value_vars:
        value = values[variable.name]
        names = indexed(variable.name, value.shape[2:])
        blocks.append(
            Block(model.values_to_rvs[variable].name, names, value.reshape(*value.shape[:2], -1))
        )
    shapes = {
        variable.name: values[variable.name].shape[2:] for variable in model.continuous_value_vars
    }
    discrete = {v.name: _rows(values[v.name]).astype(v.dtype) for v in model.discrete_value_vars}
    return collect(
        blocks,
        score=_gradient(model, shapes, discrete, mode),
        diverging=diverging(idata),
        var_names=var_names,
        on_divergence=on_divergence,
        on_nan=on_nan,
    )


def _check_model(model):
    pymc = library("pymc")
    if not isinstance(model, pymc.Model):
        raise TypeError(f"`model` must be a pymc.Model; got {type(model).__name__}.")


def _gradient(model, shapes, discrete, mode):
    """Function of continuous columns x and of the rows they stand in, which is where `discrete` has the other variables."""
    gradient = model.compile_dlogp(jacobian=True, mode=mode)
    kinds = {variable.name: variable.dtype for variable in model.value_vars}
    edges = np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1]

    def scores(x, rows):
        out = np.empty(x.shape)
        for k, row in enumerate(rows):
            parts = zip(shapes.items(), np.split(x[k], edges), strict=True)
            point = {name: part.reshape(shape).astype(kinds[name]) for (name, shape), part in parts}
            out[k] = gradient(point | {name: value[row] for name, value in discrete.items()})
        return out

    return scores


def _unconstrained(model, variables, mode):
    """Values of the model's value variables, (chains, draws, ...): as they are in `variables`, or transformed."""
    ready = {
        v.name: np.asarray(variables[v.name][0]) for v in model.value_vars if v.name in variables
    }
    rvs = [rv for rv in model.free_RVs if model.rvs_to_values[rv].name not in ready]
    if not rvs:
        return ready
    missing = [rv.name for rv in model.free_RVs if rv.name not in variables]
    if missing:
        raise ValueError(
            f"`idata` has no variable {missing[0]!r} of the model; there are {', '.join(map(repr, variables))}."
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
    # What is not finite is reported as such.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        results = [transform(*row) for row in zip(*map(_rows, drawn), strict=True)]
    for k, rv in enumerate(rvs):
        stacked = np.stack([result[k] for result in results])
        ready[model.rvs_to_values[rv].name] = stacked.reshape(chains, length, *stacked.shape[1:])
    return ready


def _rows(values):
    return values.reshape(-1, *values.shape[2:])
