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

from typing import NamedTuple

import numpy as np

from .._typing import Array
from .approximations import Moments, langevin, laplace, mean_field, moments_of
from .nuts import sample
from .posteriors import EightSchoolsNonCentred, load

CENTRED = "eight schools, centred"
_FUNNEL = ("step too long", "warm-up kept")  # sampled in its own coordinates
_WARM_UP = 300
_CHAINS = 4
_MANY, _APART = 100, 20  # chains, and draws from one that is kept to the next


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


def make_runs(
    name: str, counts: dict[str, int], draws: int, rng: np.random.Generator
) -> dict[str, Array]:
    """Draws of so many runs of each kind, four chains each: (runs, 4, draws, d).

    There must be good runs, whose moments the approximations start from.
    """
    counts = {kind: count for kind, count in counts.items() if applies(kind, name)}
    runs = _nuts(name, {kind: counts[kind] for kind in _SAMPLED if kind in counts}, draws, rng)
    posterior, moments = load(name), moments_of(runs["good"])
    shapes = {kind: (count, _CHAINS, draws, posterior.d) for kind, count in counts.items()}
    if "no accept step" in counts:
        shape = shapes["no accept step"]
        found = langevin(posterior, moments, shape[0] * _CHAINS, draws, rng)
        runs["no accept step"] = found.reshape(shape)
    if "mean field" in counts:
        mean, deviation = mean_field(posterior, moments, rng)
        runs["mean field"] = mean + deviation * rng.standard_normal(shapes["mean field"])
    if "Laplace" in counts:
        mode, root = laplace(posterior, moments)
        runs["Laplace"] = mode + rng.standard_normal(shapes["Laplace"]) @ root.T
    return runs


def independent_draws(
    name: str, sets: int, n: int, rng: np.random.Generator
) -> tuple[list[Array], Moments]:
    """Sets of n nearly independent draws, and the moments of all of them.

    A set has every twentieth draw or so of a hundred chains of NUTS.
    """
    each = -(-n // _MANY)
    step = -(-_APART // sets) * sets
    found = _nuts(name, {"good": _MANY // _CHAINS}, step * each, rng)["good"]
    chains = found.reshape(_MANY, step * each, -1)
    drawn = [chains[:, k * step // sets :: step].reshape(-1, chains.shape[2]) for k in range(sets)]
    return [rng.permutation(x)[:n] for x in drawn], moments_of(np.stack(drawn))


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
    for one in found.get("chain stuck", ()):
        since = rng.integers(draws // 4, draws // 2)
        one[-1, since:] = one[-1, since]
    return found
