"""NumPyro: scores of a model in unconstrained space, and the draws of a run there."""

from ._draws import collect
from ._library import library
from ._trees import tree_blocks, tree_score
from .arviz import diverging, read, variables_of

_BATCH = 100


def score(model, model_args=(), model_kwargs=None, *, batch_size=_BATCH):
    """Score function of a NumPyro model's posterior in unconstrained space.

    Parameters
    ----------
    model : callable
        A model without discrete latent sites.
    model_args, model_kwargs : tuple and dict
        Its arguments, with the data.
    batch_size : int or None
        Rows at a time; None for all at once.

    Returns
    -------
    callable
        From (n, d) to (n, d). The columns are the entries of the latent sites, which are sorted by name; the transforms' Jacobians are included.

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
    source,
    samples=None,
    *,
    model_args=None,
    model_kwargs=None,
    var_names=None,
    on_divergence="error",
    on_nan="error",
    batch_size=_BATCH,
):
    """Draws of NumPyro in unconstrained space, with their scores.

    What a run has stored is used: gradients with ``mcmc.run(..., extra_fields=("z_grad",))``, unconstrained draws of a site "a" with "z.a" there.
    Otherwise both are computed. NumPyro works in single precision unless ``numpyro.enable_x64()`` was called first; draws near the border of
    their support may then round to it.

    Parameters
    ----------
    source : numpyro.infer.MCMC or callable
        A finished run, or a model.
    samples : InferenceData, DataTree, Dataset, mapping or path, optional
        For a model: draws of its sites, constrained; see `fastsksd.interop.arviz.draws`.
    model_args, model_kwargs : tuple and dict, optional
        Arguments of the model, with the data; by default those of the run.
    var_names : str or sequence of str, optional
        Sites to look at; all by default.
    on_divergence : {"error", "drop", "keep"}
        What to do about draws that the sampler calls divergent. Leaving them out may hide the misfit.
    on_nan : {"error", "drop"}
        What to do about draws, or scores, that are not finite.
    batch_size : int or None
        Scores computed at a time; None for all at once.

    Returns
    -------
    Draws

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
    options = dict(var_names=var_names, on_divergence=on_divergence, on_nan=on_nan)
    if not isinstance(source, numpyro.infer.MCMC):
        if samples is None:
            raise TypeError(
                "`samples` are needed with a model; a finished numpyro.infer.MCMC has its own."
            )
        samples = read(samples, "samples")
        target = _Target(source, model_args or (), model_kwargs or {})
        drawn = {name: values for name, (values, _) in variables_of(samples).items()}
        positions = target.unconstrain_all(_sites(drawn, target.sites, "samples"))
        return _with_computed_scores(
            target.log_density, positions, batch_size, diverging=diverging(samples), **options
        )
    if samples is not None:
        raise TypeError("`samples` are for a model; a numpyro.infer.MCMC has its own.")
    if getattr(source, "_states", None) is None:
        raise ValueError("`source` has no draws yet; call its run method first.")
    extra = source.get_extra_fields(group_by_chain=True)
    drawn = source.get_samples(group_by_chain=True)
    options["diverging"] = extra.get("diverging")
    gradients = extra.get("z_grad")
    target = None
    # The draws of a potential_fn are where it lives.
    if getattr(source.sampler, "model", None) is None:
        positions = drawn
    elif gradients is not None and all(f"z.{name}" in extra for name in gradients):
        positions = {name: extra[f"z.{name}"] for name in gradients}
    else:
        args = source._args if model_args is None else model_args
        kwargs = source._kwargs if model_kwargs is None else model_kwargs
        target = _Target(source.sampler.model, args, kwargs)
        positions = target.unconstrain_all(_sites(drawn, target.sites, "source"))
    if gradients is not None:
        return collect(tree_blocks(positions, jax.tree.map(lambda g: -g, gradients)), **options)
    if target is None:
        potential = source.sampler.get_potential_fn()
        return _with_computed_scores(lambda z: -potential(z), positions, batch_size, **options)
    return _with_computed_scores(target.log_density, positions, batch_size, **options)


def _with_computed_scores(log_density, positions, batch_size, **options):
    example = library("jax").tree.map(lambda leaf: leaf[0, 0], positions)
    function = tree_score(log_density, example, batch_size)
    return collect(tree_blocks(positions), score=lambda x, rows: function(x), **options)


def _sites(drawn, sites, name):
    missing = [site for site in sites if site not in drawn]
    if missing:
        raise ValueError(
            f"`{name}` holds no site {missing[0]!r} of the model; there are {', '.join(map(repr, drawn))}."
        )
    return {site: library("jax").numpy.asarray(drawn[site]) for site in sites}


class _Target:
    """A model with its arguments: its latent sites, the way to unconstrained space, the log-density there."""

    def __init__(self, model, args, kwargs):
        numpyro = library("numpyro")
        if not callable(model):
            raise TypeError(
                f"`source` must be a finished numpyro.infer.MCMC or a model, a function; got {type(model).__name__}."
            )
        self.model = numpyro.handlers.seed(model, 0)
        self.args, self.kwargs = tuple(args), dict(kwargs)
        trace = numpyro.handlers.trace(self.model).get_trace(*self.args, **self.kwargs)
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
                f"the model has discrete sites, {', '.join(map(repr, discrete))}; its own gradients can be used, from a run with "
                f"extra_fields=('z_grad', {fields})."
            )
        self.example = {name: latent[name]["value"] for name in self.sites}

    def unconstrain(self, values):
        return library("numpyro.infer.util").unconstrain_fn(
            self.model, self.args, self.kwargs, values
        )

    def unconstrain_all(self, values):
        """The same for arrays (chains, draws, ...)."""
        jax = library("jax")
        return jax.jit(jax.vmap(jax.vmap(self.unconstrain)))(values)

    def log_density(self, z):
        return -library("numpyro.infer.util").potential_energy(
            self.model, self.args, self.kwargs, z
        )
