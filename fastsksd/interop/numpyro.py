"""NumPyro: scores of a model in unconstrained space, and the draws of a run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import Rng
from .._validate import ArgumentError, ArgumentTypeError, check_integer, check_rng
from ._draws import Draws, OnDivergence, OnNan, VarNames, collect
from ._library import library
from ._trees import scores_of_trees, tree_blocks, tree_score
from .arviz import diverging, read, variables_of

__all__ = ["draws", "score", "variational"]

_BATCH = 100


def score(
    model: Callable[..., Any],
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    *,
    batch_size: int | None = _BATCH,
) -> Callable[[np.ndarray], np.ndarray]:
    """Score function of a NumPyro model's posterior in unconstrained space.

    Parameters
    ----------
    model : callable
        A model without discrete latent sites.
    model_args : sequence
        Its positional arguments, with the data.
    model_kwargs : mapping, optional
        Its keyword arguments, with the data.
    batch_size : int or None
        Number of rows at a time; None for all at once.

    Returns
    -------
    callable
        From (n, d) to (n, d). The columns are the entries of the latent sites, sorted by name. The
        scores include the Jacobians of the transforms.

    Raises
    ------
    ValueError
        If the model has discrete latent sites.

    Examples
    --------
    >>> import numpy as np, numpyro, fastsksd as fs
    >>> def model():
    ...     numpyro.sample("scale", numpyro.distributions.HalfNormal())
    >>> fs.interop.numpyro.score(model)(np.zeros((1, 1)))
    array([[0.]])
    """
    target = _Target(model, model_args, model_kwargs or {})
    return tree_score(target.log_density, target.unconstrain(target.example), batch_size)


def draws(
    source: Any,
    samples: Any = None,
    *,
    model_args: Sequence[Any] | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    var_names: VarNames = None,
    on_divergence: OnDivergence = "keep",
    on_nan: OnNan = "error",
    batch_size: int | None = _BATCH,
    progress: bool = True,
) -> Draws:
    """Draws of NumPyro in unconstrained space, with their scores.

    What a run has stored is used: gradients with ``mcmc.run(..., extra_fields=("z_grad",))``, and
    unconstrained draws of a site "a" with "z.a" there. Otherwise both are computed. NumPyro works
    in single precision unless ``numpyro.enable_x64()`` was called first. Draws near the border of
    their support may then round to it.

    Parameters
    ----------
    source : numpyro.infer.MCMC or callable
        A finished run, or a model.
    samples : InferenceData, DataTree, Dataset, mapping or path, optional
        For a model: draws of its sites, constrained; see `fastsksd.interop.arviz.draws`.
    model_args : sequence, optional
        Positional arguments of the model, with the data; by default those of the run.
    model_kwargs : mapping, optional
        Keyword arguments of the model, with the data; by default those of the run.
    var_names : str or sequence of str, optional
        Sites to test; all by default.
    on_divergence : {"keep", "error", "drop"}
        What to do with draws that the sampler marks as divergent. They are draws of the chain all
        the same, and removing them may hide a misfit: a diagnosis says how many there are.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.
    batch_size : int or None
        Number of scores computed at a time; None for all at once.
    progress : bool
        Show progress on standard error, if scores take more than a few seconds.

    Returns
    -------
    Draws
        Unconstrained draws with their scores. The names say what they are: "log(a)" for a positive
        site, "logit(a)" for one between 0 and 1, "a (unconstrained)" for other bounded sites.

    Raises
    ------
    ValueError
        If the run has no draws yet, the model has discrete sites without stored gradients, or draws
        are not finite.

    Examples
    --------
    >>> import jax, numpyro, fastsksd as fs
    >>> from numpyro.infer import MCMC, NUTS
    >>> def model():
    ...     numpyro.sample("shift", numpyro.distributions.Normal())
    >>> mcmc = MCMC(NUTS(model), num_warmup=200, num_samples=500, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), extra_fields=("z_grad",))
    >>> fs.interop.numpyro.draws(mcmc)
    Draws(500 of 1 chain, d=1: shift)
    """
    numpyro, jax = library("numpyro"), library("jax")
    options: dict[str, Any] = {
        "var_names": var_names,
        "on_divergence": on_divergence,
        "on_nan": on_nan,
    }
    if not isinstance(source, numpyro.infer.MCMC):
        if samples is None:
            raise ArgumentTypeError(
                "samples", "are needed with a model; a finished numpyro.infer.MCMC has its own"
            )
        samples = read(samples, "samples")
        target = _Target(source, model_args or (), model_kwargs or {})
        drawn = {name: values for name, (values, _) in variables_of(samples).items()}
        positions = target.unconstrain_all(_sites(drawn, target.sites, "samples"))
        scores = scores_of_trees(target.log_density, positions, batch_size, progress)
        options["diverging"] = diverging(samples)
        return collect(tree_blocks(positions, constrained=drawn), score=scores, **options)
    if samples is not None:
        raise ArgumentTypeError("samples", "are for a model; a numpyro.infer.MCMC has its own")
    if getattr(source, "_states", None) is None:
        raise ArgumentError("source", "has no draws yet; call its run method first")
    extra = source.get_extra_fields(group_by_chain=True)
    drawn = source.get_samples(group_by_chain=True)
    options["diverging"] = extra.get("diverging")
    gradients = extra.get("z_grad")
    log_density, constrained = None, drawn
    # The draws of a potential_fn are unconstrained already.
    if getattr(source.sampler, "model", None) is None:
        positions, constrained = drawn, None
    elif gradients is not None and all(f"z.{name}" in extra for name in gradients):
        positions = {name: extra[f"z.{name}"] for name in gradients}
    else:
        args = source._args if model_args is None else model_args
        kwargs = source._kwargs if model_kwargs is None else model_kwargs
        target = _Target(source.sampler.model, args, kwargs)
        log_density = target.log_density
        positions = target.unconstrain_all(_sites(drawn, target.sites, "source"))
    if gradients is not None:
        scored = jax.tree.map(lambda g: -g, gradients)
        return collect(tree_blocks(positions, scored, constrained), **options)
    if log_density is None:
        potential = source.sampler.get_potential_fn()
        log_density = lambda z: -potential(z)  # noqa: E731
    scores = scores_of_trees(log_density, positions, batch_size, progress)
    return collect(tree_blocks(positions, constrained=constrained), score=scores, **options)


def variational(
    guide: Any,
    params: Mapping[str, Any],
    n_draws: int = 1000,
    *,
    model: Callable[..., Any] | None = None,
    model_args: Sequence[Any] = (),
    model_kwargs: Mapping[str, Any] | None = None,
    var_names: VarNames = None,
    on_nan: OnNan = "error",
    batch_size: int | None = _BATCH,
    progress: bool = True,
    rng: Rng = None,
) -> Draws:
    """Independent draws of a NumPyro guide in unconstrained space, with the model's scores.

    Parameters
    ----------
    guide : numpyro.infer.autoguide.AutoGuide or callable
        A fitted guide: mean field, multivariate normal, Laplace, normalising flows, or a function
        of the user's.
    params : mapping
        Its parameters, ``svi_result.params``.
    n_draws : int
        Number of draws.
    model : callable, optional
        The model; by default that of the guide.
    model_args : sequence
        Positional arguments of the model, with the data.
    model_kwargs : mapping, optional
        Keyword arguments of the model, with the data.
    var_names : str or sequence of str, optional
        Sites to test; all by default.
    on_nan : {"error", "drop"}
        What to do with draws or scores that are not finite.
    batch_size : int or None
        Number of scores computed at a time; None for all at once.
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
        If the model has discrete sites, the guide lacks one of its sites, or draws are not finite.

    See Also
    --------
    draws : Draws of a sampler.

    Examples
    --------
    >>> import jax, numpyro, fastsksd as fs
    >>> from numpyro.infer import SVI, Trace_ELBO, autoguide
    >>> def model():
    ...     numpyro.sample("shift", numpyro.distributions.Normal())
    >>> guide = autoguide.AutoMultivariateNormal(model)
    >>> svi = SVI(model, guide, numpyro.optim.Adam(0.05), Trace_ELBO())
    >>> fitted = svi.run(jax.random.key(0), 500, progress_bar=False)
    >>> fs.interop.numpyro.variational(guide, fitted.params, 500, rng=0)
    Draws(500 independent, d=1: shift)
    """
    jax = library("jax")
    model = getattr(guide, "model", None) if model is None else model
    if model is None or not callable(guide):
        raise ArgumentTypeError(
            "model" if callable(guide) else "guide",
            "must be given with a guide that does not know it"
            if callable(guide)
            else f"must be a fitted guide; got {type(guide).__name__}",
        )
    if not isinstance(params, Mapping):
        raise ArgumentTypeError(
            "params", f"must map names to arrays, as svi_result.params; got {type(params).__name__}"
        )
    count = check_integer("n_draws", n_draws, 2)
    target = _Target(model, model_args, model_kwargs or {})
    key = jax.random.key(int(check_rng(rng).integers(2**31)))
    positions, drawn = jax.tree.map(
        lambda leaf: leaf[None], _guided(guide, params, key, count, target)
    )
    return collect(
        tree_blocks(positions, constrained=drawn),
        score=scores_of_trees(target.log_density, positions, batch_size, progress),
        var_names=var_names,
        on_nan=on_nan,
        independent=True,
    )


def _guided(
    guide: Any, params: Any, key: Any, count: int, target: _Target
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draws of a guide, (draws, ...) for each site: unconstrained, and constrained."""
    numpyro, jax = library("numpyro"), library("jax")
    if isinstance(guide, numpyro.infer.autoguide.AutoContinuous):
        # Its own draws, which keep the digits that constrained values lose near a border.
        latent = guide.get_posterior(params).sample(key, (count,))
        positions = _sites(jax.vmap(guide._unpack_latent)(latent), target.sites, "guide")
        return positions, jax.jit(jax.vmap(target.constrain))(positions)
    if isinstance(guide, numpyro.infer.autoguide.AutoGuide):
        drawn = guide.sample_posterior(
            key, params, *target.args, sample_shape=(count,), **target.kwargs
        )
    else:
        drawn = numpyro.infer.Predictive(guide, params=params, num_samples=count)(
            key, *target.args, **target.kwargs
        )
    drawn = _sites(drawn, target.sites, "guide")
    return jax.jit(jax.vmap(target.unconstrain))(drawn), drawn


def _sites(drawn: Mapping[str, Any], sites: Sequence[str], name: str) -> dict[str, Any]:
    missing = [site for site in sites if site not in drawn]
    if missing:
        raise ArgumentError(
            name,
            f"holds no site {missing[0]!r} of the model; there are {', '.join(map(repr, drawn))}. "
            "Data of the model are needed in `model_args` or `model_kwargs`",
        )
    return {site: library("jax").numpy.asarray(drawn[site]) for site in sites}


class _Target:
    """A model with its arguments: its latent sites, unconstraining transform and log-density."""

    def __init__(
        self, model: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        numpyro = library("numpyro")
        if not callable(model):
            raise ArgumentTypeError(
                "source",
                "must be a finished numpyro.infer.MCMC or a model, a function; "
                f"got {type(model).__name__}",
            )
        self.model = numpyro.handlers.seed(model, 0)
        self.args, self.kwargs = tuple(args), dict(kwargs)
        # Improper priors can't be sampled from, so sites start as those of a sampler do.
        started = numpyro.handlers.substitute(
            self.model, substitute_fn=numpyro.infer.init_to_uniform
        )
        trace = numpyro.handlers.trace(started).get_trace(*self.args, **self.kwargs)
        latent = {
            name: site
            for name, site in trace.items()
            if site["type"] == "sample" and not site["is_observed"]
        }
        discrete = [name for name, site in latent.items() if site["fn"].support.is_discrete]
        self.sites = sorted(latent)
        if discrete:
            fields = ", ".join(repr(f"z.{name}") for name in self.sites if name not in discrete)
            raise ValueError(
                f"the model has discrete sites, {', '.join(map(repr, discrete))}; the gradients of "
                f"the sampler can be used, from a run with extra_fields=('z_grad', {fields})."
            )
        self.example = {name: latent[name]["value"] for name in self.sites}

    def unconstrain(self, values: Any) -> Any:
        return library("numpyro.infer.util").unconstrain_fn(
            self.model, self.args, self.kwargs, values
        )

    def constrain(self, z: Any) -> Any:
        return library("numpyro.infer.util").constrain_fn(self.model, self.args, self.kwargs, z)

    def unconstrain_all(self, values: Any) -> Any:
        """The same for arrays (chains, draws, ...)."""
        jax = library("jax")
        return jax.jit(jax.vmap(jax.vmap(self.unconstrain)))(values)

    def log_density(self, z: Any) -> Any:
        return -library("numpyro.infer.util").potential_energy(
            self.model, self.args, self.kwargs, z
        )
