"""Runs of a sampler on a posterior: good ones, and common ways in which they go wrong.

good             NUTS with the adaptation of Stan, 300 draws of warm-up
step too long    the same with an acceptance target of 0.3, so that it adapts to long steps
no accept step   unadjusted Langevin with steps at which it is stable
warm-up kept     draws from the very first on, adaptation included
mean field       independent normal draws that variational inference fits
Laplace          normal draws around the mode, with its curvature
chain stuck      one of the chains stays where it is, from somewhere in its first half on
wrong Jacobian   NUTS for a density that lacks the Jacobian of the logarithms
wrong prior      NUTS for a density whose priors have a third of their scales
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .nuts import sample
from .posteriors import EightSchoolsNonCentred, load

CENTRED = "eight schools, centred"
_FUNNEL = ("step too long", "warm-up kept")  # sampled in its own coordinates
_WARM_UP = 300
_CHAINS = 4


class _Variant(NamedTuple):
    """How NUTS is run."""

    jacobian: float = 1.0
    width: float = 1.0
    target: float = 0.8


_SAMPLED = {
    "good": _Variant(),
    "chain stuck": _Variant(),
    "wrong prior": _Variant(width=1.0 / 3.0),
    "wrong Jacobian": _Variant(jacobian=0.0),
    "step too long": _Variant(target=0.3),
    "warm-up kept": _Variant(),
}
KINDS = (*_SAMPLED, "no accept step", "mean field", "Laplace")


class Reference(NamedTuple):
    """Means and covariance of a posterior, from long runs."""

    mean: Array
    cov: Array

    @property
    def deviation(self) -> Array:
        """Standard deviations."""
        return np.sqrt(np.diag(self.cov))


@cache
def reference(name: str) -> Reference:
    """Moments of a posterior, from 40 chains of 400 draws."""
    found = _nuts(name, {"good": 10}, 400, np.random.default_rng(1))
    x = found["good"].reshape(-1, load(name).d)
    return Reference(x.mean(axis=0), np.cov(x.T))


def make_runs(
    name: str, counts: dict[str, int], draws: int, rng: np.random.Generator
) -> dict[str, Array]:
    """Draws of so many runs of each kind, four chains each: (runs, 4, draws, d)."""
    sampled = {kind: counts[kind] for kind in _SAMPLED if counts.get(kind)}
    runs = _nuts(name, sampled, draws, rng)
    for kind, make in _OTHERS.items():
        if counts.get(kind):
            runs[kind] = make(name, counts[kind], draws, rng)
    return runs


def applies(kind: str, name: str) -> bool:
    """Whether a posterior can fail in this way."""
    if kind == "wrong Jacobian":
        # That of eight schools has no finite integral.
        return bool(load(name).logs) and not name.startswith("eight schools")
    if kind == "Laplace":
        return name != CENTRED  # there is no mode
    return True


def _nuts(
    name: str, counts: dict[str, int], draws: int, rng: np.random.Generator
) -> dict[str, Array]:
    """Runs of all kinds by one call of the sampler, which takes hardly longer than one of them."""
    if name == CENTRED:
        # NUTS does not reach the neck of this funnel, but gets there in other coordinates.
        other = {kind: counts[kind] for kind in counts if kind not in _FUNNEL}
        found = _nuts("eight schools, non-centred", other, draws, rng)
        found = {kind: EightSchoolsNonCentred.centred(x) for kind, x in found.items()}
        counts = {kind: counts[kind] for kind in counts if kind in _FUNNEL}
        return found | _sampled(name, counts, draws, rng)
    return _sampled(name, counts, draws, rng)


def _sampled(
    name: str, counts: dict[str, int], draws: int, rng: np.random.Generator
) -> dict[str, Array]:
    if not counts:
        return {}
    kinds = np.repeat(list(counts), [_CHAINS * count for count in counts.values()]).tolist()
    jacobian, width, target = np.array([_SAMPLED[kind] for kind in kinds]).T
    posterior = load(name)
    run = sample(
        lambda x, chains: posterior.density(x, jacobian=jacobian[chains], width=width[chains]),
        posterior.start(len(kinds), rng),
        rng,
        draws=draws,
        warm_up=_WARM_UP,
        target=target,
    )
    found = {}
    for kind in counts:
        rows = np.array([one == kind for one in kinds])
        x = run.draws[rows]
        if kind == "warm-up kept":
            x = np.concatenate([run.warm_up[rows], x], axis=1)[:, :draws]
        found[kind] = x.reshape(-1, _CHAINS, *x.shape[1:])
    for one, since in zip(found.get("chain stuck", ()), rng.random(10**3), strict=False):
        place = int((0.25 + 0.25 * since) * draws)
        one[-1, place:] = one[-1, place]
    return found


def _langevin(name: str, runs: int, draws: int, rng: np.random.Generator) -> Array:
    """In units of the posterior's deviations; the step is the largest that is safely stable."""
    posterior, moments = load(name), reference(name)
    unit = moments.deviation
    curvatures = 1.0 / np.linalg.eigvalsh(moments.cov / np.outer(unit, unit))
    step = 1.0 / curvatures.max()
    thin = int(np.clip(np.ceil(0.5 * curvatures.max() / curvatures.min()), 1, 20))
    count = runs * _CHAINS
    x = moments.mean + unit * rng.standard_normal((count, posterior.d))
    found = np.empty((count, draws, posterior.d))
    for t in range(-100, draws):
        for _ in range(thin):
            # A bound on the drift, as of tamed Langevin, keeps chains from running away.
            drift = np.clip(0.5 * step * unit * posterior.score(x), -1.0, 1.0)
            x = x + unit * (drift + np.sqrt(step) * rng.standard_normal(x.shape))
        if t >= 0:
            found[:, t] = x
    return found.reshape(runs, _CHAINS, draws, posterior.d)


@cache
def mean_field(name: str) -> tuple[Array, Array]:
    """Means and deviations of the independent normal distribution that is nearest.

    The evidence bound is maximised from the posterior's own moments, by Adam.
    """
    posterior, moments = load(name), reference(name)
    rng = np.random.default_rng(2)
    mean, log_deviation = moments.mean.copy(), np.log(moments.deviation)
    unit = moments.deviation
    first, second = np.zeros((2, posterior.d)), np.zeros((2, posterior.d))
    kept = np.zeros((2, posterior.d))
    steps = 1500
    for t in range(1, steps + 1):
        z = rng.standard_normal((20, posterior.d))
        z = np.concatenate([z, -z])
        deviation = np.exp(log_deviation)
        score = posterior.score(mean + deviation * z)
        slope = np.stack([unit * score.mean(axis=0), (score * z).mean(axis=0) * deviation + 1.0])
        slope = np.clip(slope, -10.0, 10.0)  # where a funnel has no bound on its scores
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        move = (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.99**t)) + 1e-8)
        move *= 0.05 / (1.0 + t / 100.0) ** 0.5
        mean, log_deviation = mean + unit * move[0], log_deviation + move[1]
        if t > steps // 2:
            kept += np.stack([mean, log_deviation]) / (steps - steps // 2)
    return kept[0], np.exp(kept[1])


@cache
def laplace(name: str) -> tuple[Array, Array]:
    """The mode of a posterior, and the inverse of the curvature there."""
    from scipy.optimize import minimize

    posterior, moments = load(name), reference(name)
    unit = moments.deviation

    def negative(z: Array) -> tuple[float, Array]:
        value, slope = posterior.density((moments.mean + unit * z)[None])
        return -float(value[0]), -unit * slope[0]

    found = minimize(negative, np.zeros(posterior.d), jac=True, method="BFGS")
    mode = moments.mean + unit * found.x
    around = 1e-4 * np.diag(unit)
    slopes = posterior.score(mode + around) - posterior.score(mode - around)
    curvature = -slopes / (2e-4 * unit[:, None])
    return mode, np.linalg.inv(0.5 * (curvature + curvature.T))


def _mean_field(name: str, runs: int, draws: int, rng: np.random.Generator) -> Array:
    mean, deviation = mean_field(name)
    return mean + deviation * rng.standard_normal((runs, _CHAINS, draws, mean.size))


def _laplace(name: str, runs: int, draws: int, rng: np.random.Generator) -> Array:
    mode, cov = laplace(name)
    z = rng.standard_normal((runs, _CHAINS, draws, mode.size))
    return mode + z @ np.linalg.cholesky(cov).T


_OTHERS: dict[str, Callable[[str, int, int, np.random.Generator], Array]] = {
    "no accept step": _langevin,
    "mean field": _mean_field,
    "Laplace": _laplace,
}
