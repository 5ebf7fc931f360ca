"""Stan, through BridgeStan: scores of a compiled model, and its draws, in unconstrained space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .._typing import Array, ArrayLike
from .._validate import ArgumentError, ArgumentTypeError, check_samples
from ._draws import Block, Draws, OnDivergence, OnNan, VarNames, collect, unconstrained_names
from ._library import LateBar
from .arviz import diverging, read, variables_of

__all__ = ["draws", "score"]

_NEEDED = ("log_density_gradient", "param_unconstrain", "param_names", "param_unc_names")


def score(model: Any) -> Callable[[ArrayLike], Array]:
    """Score function of a Stan model's posterior in unconstrained space.

    Parameters
    ----------
    model : bridgestan.StanModel
        A compiled model with its data.

    Returns
    -------
    callable
        From (n, d) to (n, d). The columns are ``model.param_unc_names()``. The scores include the
        Jacobians of the transforms. The row of a point that Stan rejects is NaN.

    Examples
    -------- ``StanModel("model.stan", "data.json")`` compiles a model; here it is compiled already.
    Among its parameters are ``mu ~ normal(1, 2)`` and ``sigma ~ gamma(3, 2)``, which is replaced by
    its logarithm.

    >>> import bridgestan, numpy as np, fastsksd as fs
    >>> model = bridgestan.StanModel("model.so")
    >>> fs.interop.stan.score(model)(np.zeros((1, model.param_unc_num())))[:, :2]
    array([[0.25, 1.  ]])
    """
    _check_model(model)
    d = len(model.param_unc_names())

    def rows_to_scores(x: ArrayLike) -> Array:
        x = check_samples(x, d=d)
        return _each(_gradient_of(model), x, d)

    return rows_to_scores


def draws(
    model: Any,
    idata: Any,
    *,
    var_names: VarNames = None,
    on_divergence: OnDivergence = "keep",
    on_nan: OnNan = "error",
    progress: bool = True,
) -> Draws:
    """Posterior draws of a Stan model in unconstrained space, with their scores.

    Parameters
    ----------
    model : bridgestan.StanModel
        The model, with its data, whose posterior the draws should follow.
    idata : InferenceData, DataTree, Dataset, mapping or path
        Constrained draws of all parameters, with the shapes they have in Stan, as from
        ``arviz.from_cmdstanpy``; see `fastsksd.interop.arviz.draws`. With few digits, simplexes no
        longer sum to one: let CmdStan write ``sig_figs=18``.
    var_names : str or sequence of str, optional
        Parameters to test; all by default.
    on_divergence : {"keep", "error", "drop"}
        What to do with draws that the sampler marks as divergent. They are draws of the chain all
        the same, and removing them may hide a misfit: a diagnosis says how many there are.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite, or that Stan rejects.
    progress : bool
        Show progress on standard error, if scores take more than a few seconds.

    Returns
    -------
    Draws
        Unconstrained draws with their scores. The names say what they are: "log(a)" for a positive
        parameter, "logit(a)" for one between 0 and 1, "a (unconstrained)" for other bounded ones.

    Raises
    ------
    ValueError
        If `idata` lacks a parameter or has it in another shape, or draws are divergent or not
        finite.

    Examples
    --------
    Draws of CmdStan, written by ``arviz.from_cmdstanpy(fit).to_netcdf("draws.nc")``:

    >>> import bridgestan, fastsksd as fs
    >>> draws = fs.interop.stan.draws(bridgestan.StanModel("model.so"), "draws.nc")
    >>> len(draws), draws.names[:2]
    (1000, ('mu', 'log(sigma)'))
    >>> draws.test(rng=0).reject()
    False
    """
    _check_model(model)
    idata = read(idata)
    return unconstrained(
        model,
        variables_of(idata),
        progress=progress,
        diverging=diverging(idata),
        var_names=var_names,
        on_divergence=on_divergence,
        on_nan=on_nan,
    )


def unconstrained(
    model: Any,
    variables: Mapping[str, tuple[np.ndarray, Any]],
    *,
    argument: str = "idata",
    progress: bool = True,
    **options: Any,
) -> Draws:
    """`Draws` of constrained `variables`, which came as `argument`; options as of `collect`."""
    _check_model(model)
    theta = _parameters(model, variables, argument)
    chains, length = theta.shape[:2]
    names = model.param_unc_names()
    x = _each(
        model.param_unconstrain,
        np.ascontiguousarray(theta.reshape(chains * length, -1)),
        len(names),
    ).reshape(chains, length, -1)
    columns = {name: theta[:, :, k] for k, name in enumerate(model.param_names())}
    return collect(
        [
            Block(_base(name), unconstrained_names([name], z, columns.get(name)), z[:, :, None])
            for name, z in zip(names, np.moveaxis(x, 2, 0), strict=True)
        ],
        score=lambda x, rows: _each(_gradient_of(model), x, len(names), progress),
        **options,
    )


def _check_model(model: Any) -> None:
    if not all(callable(getattr(model, name, None)) for name in _NEEDED):
        raise ArgumentTypeError(
            "model",
            "must be a bridgestan.StanModel (pip install 'fastsksd[stan]'); "
            f"got {type(model).__name__}",
        )


def _gradient_of(model: Any) -> Callable[[Any], Any]:
    return lambda row: model.log_density_gradient(row, propto=True, jacobian=True)[1]


def _each(function: Callable[[Any], Any], rows: Array, width: int, progress: bool = False) -> Array:
    """`function` of each row; NaN if Stan rejects the row, Stan's own error if it rejects all."""
    out = np.full((rows.shape[0], width), np.nan)
    errors, bar = [], LateBar(len(rows), progress)
    for k, row in enumerate(rows):
        try:
            out[k] = function(row)
        except RuntimeError as error:
            errors.append(error)
        bar(k + 1)
    if errors and len(errors) == rows.shape[0]:
        raise errors[0]
    return out


def _base(name: str) -> str:
    return name.partition(".")[0]


def _parameters(
    model: Any, variables: Mapping[str, tuple[np.ndarray, Any]], argument: str
) -> np.ndarray:
    """All parameters in Stan's order, (chains, draws, k): the first index runs fastest."""
    names = model.param_names()
    odd = [name for name in names if ":" in name or name.endswith((".real", ".imag"))]
    if odd:
        raise ArgumentError(
            "model", f"has a parameter {odd[0]!r}; tuples and complex numbers are not supported"
        )
    columns = []
    for base in dict.fromkeys(map(_base, names)):
        if base not in variables:
            raise ArgumentError(
                argument,
                f"has no variable {base!r} of the model; "
                f"there are {', '.join(map(repr, variables))}",
            )
        values, _ = variables[base]
        expected = [name for name in names if _base(name) == base]
        axes = tuple(reversed(range(2, values.ndim)))
        flat = np.transpose(values, (0, 1, *axes)).reshape(*values.shape[:2], -1)
        last = tuple(int(index) for index in expected[-1].split(".")[1:])
        if values.shape[2:] != last:
            raise ArgumentError(
                argument,
                f"must have {base!r} in the shape {last} it has in the model; "
                f"got {values.shape[2:]}",
            )
        columns.append(flat)
    return np.concatenate(columns, axis=2)
