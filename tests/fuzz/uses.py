"""What is done with an object of the package, from its arguments to its results."""

from __future__ import annotations

import numpy as np

import fastsksd as fs
from fastsksd._validate import check_samples

from .calls import keywords
from .values import Samples


def batched(**arguments):
    """Tests that failed are a `BatchError` with their messages."""
    try:
        return fs.gof_batch(**arguments)
    except fs.BatchError as error:
        raise ValueError(str(error)) from error


def accumulated(slices, first, score, n_resamples=19, rng=0, x=None, **options):
    """All of an `Accumulator`'s life."""
    total = fs.Accumulator(slices, first, **options)
    one = total.empty().add(first if x is None else x, score)
    other = total.empty().extend([first], score)
    return one.merge(other).result(n_resamples=n_resamples, rng=rng)


def gathered(first, score, n_resamples=19, rng=0, null="wild", x=None, **options):
    """All of a `FamilyAccumulator`'s life."""
    total = fs.FamilyAccumulator(first, score, **options)
    total.add(first if x is None else x, score)
    return total.result(null=null, n_resamples=n_resamples, rng=rng)


def trained(d, x, score, **options):
    """A loss made, used twice, and restored."""
    loss = fs.learning.SlicedSteinLoss(d, **options)
    values = [loss(x, score)]
    loss.refresh(x, score)
    other = fs.learning.SlicedSteinLoss(d, **options)
    other.restore(loss.state())
    return [*values, other(x, score)]


def fresh_loss(d, fresh, seed, **options):
    """A loss that asks for samples itself."""
    x = Samples(n=12, d=2, seed=seed).array
    return fs.learning.SlicedSteinLoss(d, fresh=fresh, **options)(x, -x)


def kernel_loss(x, score, **options):
    """The loss of the ordinary KSD."""
    return fs.learning.KernelSteinLoss(**options)(x, score)


def modelled(name):
    """A model made from its parameters, and everything it can do."""
    kind = getattr(fs.models, name)

    def use(n=5, x=None, r=None, rng=0, burn_in=3, **parameters):
        model = kind(**parameters)
        draws = model.sample(
            n, rng=rng, **(dict(burn_in=burn_in) if name == "GaussBernRBM" else {})
        )
        x = draws if x is None else x
        along = np.eye(model.d)[0] if r is None else r
        done = [draws, model.score(x), model.score_along(x, along)]
        repr(model)
        return [*done, model.log_density(x)]

    extra = {"n", "x", "r", "rng"} | ({"burn_in"} if name == "GaussBernRBM" else set())
    return use, keywords(kind) | extra


def differences(x, score, **options):
    """A score difference and its matrices."""
    one = fs.score_difference.score_difference(x, score, **options)
    x = one.x
    r = np.eye(x.shape[1])[0]
    return [one.value(x), one.jacobian(x, r), one.second_moment(options.get("debias", True))]


def estimated(name):
    """A class of estimates, made and evaluated."""
    kind = getattr(fs.score_difference, name)

    def use(y, r=(0.6, 0.8), debias=True, **given):
        one = kind(**given)
        found = [one.value(y), one.jacobian(y, r), one.second_moment(debias)]
        return [*found, one.sensitivity(np.eye(2), debias)(np.eye(2))]

    return use, keywords(kind) | {"y", "r", "debias"}


def drawn(x, score, names=None, chain=None, level=0.95, **options):
    """Draws of a sampler, tested."""
    x = check_samples(x)
    chain = np.arange(len(x)) * 2 // len(x) if chain is None else chain
    names = tuple(f"a[{k}]" for k in range(x.shape[1])) if names is None else names
    values = score(x) if callable(score) else score
    return fs.interop.Draws(x, values, names, chain).test(**options)


def diagnosed(x, score, names=None, chain=None, level=0.95, **options):
    """Draws of a sampler, in one table."""
    x = check_samples(x)
    chain = np.arange(len(x)) * 2 // len(x) if chain is None else chain
    names = tuple(f"a[{k}]" for k in range(x.shape[1])) if names is None else names
    evaluate = getattr(score, "score", score)
    values = evaluate(x) if callable(evaluate) else score
    table = fs.interop.Draws(x, values, names, chain).diagnose(level=level, **options)
    repr(table), table.to_dict()
    return table.result


def refitted(x, function, n_resamples=2, rng=0, **options):
    """A test of a model that is fitted to the samples."""
    return fs.gof_test(x, fit=fs.Refit(function, **options), n_resamples=n_resamples, rng=rng)


def read(alpha=0.05, method="holm", level=0.95, simultaneous=None):
    """Adjusted p-values and intervals of results, at other levels than before."""
    result = explained_result()
    batch = fs.BatchResult((result, result), ("a", "b"), {})
    batch.reject(alpha, method)
    effects = result.effects.at(level, simultaneous=simultaneous)
    return [batch.adjusted_pvalues(method), effects, result.discrepancy_interval(level)]


def of_scipy(distribution, n=5, rng=0):
    """A model of a distribution of SciPy, and what it can do."""
    model = fs.interop.scipy.model(distribution)
    x = model.sample(n, rng=rng)
    return [x, model.score(x), model.log_density(x)]


def from_scipy(x, distribution):
    """Samples of a distribution of SciPy, in unconstrained space."""
    one = fs.interop.scipy.draws(x, distribution)
    return [one.x, one.score]


def ica(x_train, x_test, **options):
    """An ICA model after few steps."""
    try:
        fit = fs.learning.fit_ica((x_train, x_test), **options)
    except fs.learning.Diverged as error:
        raise ValueError(f"`learning_rate`: {error}") from error
    repr(fit)
    return fit.model.score(x_test)


RESULT = None


def explained_result():
    """A result, tested once."""
    global RESULT
    if RESULT is None:
        RESULT = fs.gof_test(Samples(n=30, d=2).array, np.negative, n_resamples=19, rng=0)
    return RESULT


def explained(**arguments):
    """What a result says: its explanation and its summary."""
    result = explained_result()
    alpha = arguments.pop("alpha", None)
    done = result.explain(**arguments)
    repr(done)
    if alpha is not None:
        result.reject(alpha), result.verdict_at(alpha)
    return done.pvalues
