"""The no-U-turn sampler, for many chains at once.

Multinomial NUTS [1]_ with the adaptation of Stan: step sizes by dual averaging, a diagonal mass
matrix from windows of the warm-up, every chain for itself. The tree of a transition grows leaf by
leaf. With every leaf that completes subtrees, their U-turns are found from momenta kept at their
first leaves [2]_. One step of all chains is one call of the density, also where their trees differ
in size: a chain that has finished a transition begins the next one.

References
----------
.. [1] M. Betancourt, "A conceptual introduction to Hamiltonian Monte Carlo", arXiv:1701.02434.
.. [2] D. Phan, N. Pradhan and M. Jankowiak, "Composable effects for flexible and accelerated
   probabilistic programming in NumPyro", arXiv:1912.11554.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from .._typing import Array

Density: TypeAlias = Callable[[Array, np.ndarray], tuple[Array, Array]]

_DEEPEST = 10  # doublings of a tree
_DIVERGENT = -1000.0  # change of the log-density of a leaf
_FIRST, _WINDOW, _LAST = 75, 25, 50  # transitions of a warm-up
# For every leaf of a subtree: where the first leaves of the subtrees that hold it are kept, and how
# many subtrees end with it. They are bits of its number: all but the last one, and the last ones.
_PLACE = np.array([bin(leaf >> 1).count("1") for leaf in range(2**_DEEPEST)])
_SUBTREES = np.array([bin(leaf & ~(leaf + 1)).count("1") for leaf in range(2**_DEEPEST)])


class Run(NamedTuple):
    """What a sampler did.

    Attributes
    ----------
    draws, warm_up : (chains, draws, d) arrays
        The draws, and those of the warm-up before them.
    divergent : (chains, draws) array of bool
        Which of the draws are from a tree that ended in a divergence.
    step : (chains,) array
        Step sizes.
    variance : (chains, d) array
        Diagonals of the inverse mass matrices.
    accepted : (chains,) array
        Mean acceptance statistics of the draws.
    """

    draws: Array
    warm_up: Array
    divergent: np.ndarray
    step: Array
    variance: Array
    accepted: Array


def sample(
    density: Density,
    start: Array,
    rng: np.random.Generator,
    *,
    draws: int,
    warm_up: int = 500,
    target: float | Array = 0.8,
    step: float = 0.1,
) -> Run:
    """Draws of many chains.

    Parameters
    ----------
    density : callable
        From (n, d) points and the numbers of their chains to log-densities (n,) and their gradients
        (n, d). So chains may have densities of their own.
    start : (chains, d) array
        Where the chains start.
    rng : numpy.random.Generator
        Random numbers.
    draws, warm_up : int
        Number of draws of each chain, and of those before, in which it adapts.
    target : float or (chains,) array
        Acceptance statistic that the step size is adapted to.
    step : float
        The first step size, which is kept if there is no warm-up.

    Returns
    -------
    Run
    """
    chains, d = start.shape
    tree = _Trees(density, start, rng, step)
    adaptation = _Adaptation(tree, warm_up, target)
    found = np.empty((chains, warm_up + draws, d))
    divergent = np.zeros((chains, warm_up + draws), dtype=bool)
    accepted = np.zeros(chains)
    count = np.zeros(chains, dtype=int)
    active = np.arange(chains)
    tree.begin(active)
    with np.errstate(all="ignore"):
        while active.size:
            ended, broke = tree.grow(active)
            if not ended.size:
                continue
            found[ended, count[ended]] = tree.chosen[ended]
            divergent[ended, count[ended]] = broke
            statistic = tree.accepted[ended] / tree.leaves[ended]
            adaptation.learn(ended, count[ended], statistic)
            accepted[ended] += np.where(count[ended] >= warm_up, statistic, 0.0)
            count[ended] += 1
            tree.begin(ended)
            active = active[count[active] < warm_up + draws]
    return Run(
        found[:, warm_up:],
        found[:, :warm_up],
        divergent[:, warm_up:],
        tree.step,
        tree.variance,
        accepted / max(draws, 1),
    )


class _Trees:
    """The trees of all chains; `a` is always the rows of the chains that something is done for."""

    def __init__(self, density: Density, start: Array, rng: np.random.Generator, step: float):
        chains, d = start.shape
        self.density, self.rng = density, rng
        self.step, self.variance = np.full(chains, step), np.ones((chains, d))
        # The draw that a tree would end with.
        self.chosen = np.array(start, dtype=float)
        with np.errstate(all="ignore"):
            self.value, self.slope = density(self.chosen, np.arange(chains))
        # Both ends: position, momentum, gradient.
        self.ends = np.empty((3, chains, 2, d))
        self.energy, self.weight = np.empty(chains), np.empty(chains)
        self.momenta = np.empty((chains, d))
        self.depth, self.side = np.empty(chains, dtype=int), np.empty(chains, dtype=int)
        self.accepted, self.leaves = np.empty(chains), np.empty(chains, dtype=int)
        # The subtree that is growing, and what its U-turns are found from.
        self.new = np.empty((chains, d)), np.empty(chains), np.empty((chains, d))
        self.new_weight, self.new_momenta = np.empty(chains), np.empty((chains, d))
        self.leaf = np.empty(chains, dtype=int)
        self.kept = np.empty((2, chains, _DEEPEST, d))

    def begin(self, a: np.ndarray) -> None:
        """New trees, from the chosen draws."""
        momentum = self.rng.standard_normal((a.size, self.chosen.shape[1]))
        momentum /= np.sqrt(self.variance[a])
        for end in (0, 1):
            self.ends[0][a, end] = self.chosen[a]
            self.ends[1][a, end] = momentum
            self.ends[2][a, end] = self.slope[a]
        self.energy[a] = self.value[a] - 0.5 * (self.variance[a] * momentum**2).sum(axis=1)
        self.weight[a], self.momenta[a] = 0.0, momentum
        self.depth[a], self.accepted[a], self.leaves[a] = 0, 0.0, 0
        self._begin_subtree(a)

    def _begin_subtree(self, a: np.ndarray) -> None:
        self.side[a] = self.rng.integers(0, 2, a.size)
        self.leaf[a], self.new_weight[a], self.new_momenta[a] = 0, -np.inf, 0.0

    def grow(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One leaf more for each; returns those that are finished, and which of them diverged."""
        x, momentum, value, slope = self._leapfrog(a)
        weight = value - 0.5 * (self.variance[a] * momentum**2).sum(axis=1) - self.energy[a]
        weight[~np.isfinite(weight)] = -np.inf
        self.accepted[a] += np.exp(np.minimum(weight, 0.0))
        self.leaves[a] += 1
        self.new_weight[a] = np.logaddexp(self.new_weight[a], weight)
        taken = self.rng.random(a.size) < np.exp(weight - self.new_weight[a])
        for old, leaf in zip(self.new, (x, value, slope), strict=True):
            old[a[taken]] = leaf[taken]
        self.new_momenta[a] += momentum
        broke = weight < _DIVERGENT
        ended = broke | self._turns_within(a, momentum)
        self.leaf[a] += 1
        whole = ~ended & (self.leaf[a] == 2 ** self.depth[a])
        if whole.any():
            ended[whole] = self._join(a[whole])
        return a[ended], broke[ended]

    def _leapfrog(self, a: np.ndarray) -> tuple[Array, Array, Array, Array]:
        end = self.side[a]
        x, momentum, slope = self.ends[:, a, end]
        step = ((2 * end - 1) * self.step[a])[:, None]
        momentum = momentum + 0.5 * step * slope
        x = x + step * self.variance[a] * momentum
        value, slope = self.density(x, a)
        momentum = momentum + 0.5 * step * slope
        self.ends[:, a, end] = x, momentum, slope
        return x, momentum, value, slope

    def _turns_within(self, a: np.ndarray, momentum: Array) -> np.ndarray:
        """Whether a subtree that ends with this leaf turns; its first leaf is remembered."""
        leaf = self.leaf[a]
        place = _PLACE[leaf]
        first = leaf % 2 == 0
        rows = a[first]
        self.kept[0][rows, place[first]] = momentum[first]
        self.kept[1][rows, place[first]] = self.new_momenta[rows]
        turns = np.zeros(a.size, dtype=bool)
        some = np.flatnonzero(~first)
        level = 0
        while some.size:
            start, before = self.kept[:, a[some], place[some] - level]
            total = self.new_momenta[a[some]] - before + start
            turns[some] |= self._turning(a[some], start, momentum[some], total)
            level += 1
            some = some[_SUBTREES[leaf[some]] > level]
        return turns

    def _join(self, a: np.ndarray) -> np.ndarray:
        """Join subtrees to their trees; returns which trees are finished."""
        taken = self.rng.random(a.size) < np.exp(self.new_weight[a] - self.weight[a])
        rows = a[taken]
        for old, new in zip((self.chosen, self.value, self.slope), self.new, strict=True):
            old[rows] = new[rows]
        self.weight[a] = np.logaddexp(self.weight[a], self.new_weight[a])
        self.momenta[a] += self.new_momenta[a]
        self.depth[a] += 1
        ended = self._turning(a, self.ends[1][a, 0], self.ends[1][a, 1], self.momenta[a])
        ended |= self.depth[a] == _DEEPEST
        self._begin_subtree(a[~ended])
        return ended

    def _turning(self, a: np.ndarray, first: Array, last: Array, total: Array) -> np.ndarray:
        across = self.variance[a] * (total - 0.5 * (first + last))
        return ((across * first).sum(axis=1) <= 0) | ((across * last).sum(axis=1) <= 0)


class _Adaptation:
    """Step sizes and variances of all chains, learnt during their warm-up."""

    def __init__(self, tree: _Trees, warm_up: int, target: float | Array):
        chains, d = tree.chosen.shape
        self.tree, self.warm_up = tree, warm_up
        self.target = np.broadcast_to(target, chains)
        self.windows = _windows(warm_up)
        self.centre, self.time = np.log(10.0 * tree.step), np.zeros(chains)
        self.error, self.mean_log = np.zeros(chains), np.zeros(chains)
        self.count, self.mean = np.zeros(chains), np.zeros((chains, d))
        self.squares = np.zeros((chains, d))

    def learn(self, a: np.ndarray, place: np.ndarray, accepted: Array) -> None:
        """From transitions of these chains, the `place`-th of each."""
        warm = place < self.warm_up
        a, place, accepted = a[warm], place[warm], accepted[warm]
        if not a.size:
            return
        self._steps(a, accepted)
        first, last = self.windows[0], self.windows[-1]
        self._moments(a[(place >= first) & (place < last)])
        self._variances(a[np.isin(place + 1, self.windows[1:])])
        done = a[place == self.warm_up - 1]
        self.tree.step[done] = np.exp(self.mean_log[done])

    def _steps(self, a: np.ndarray, accepted: Array) -> None:
        """Dual averaging with the constants of Stan."""
        self.time[a] += 1.0
        time = self.time[a]
        rate = 1.0 / (time + 10.0)
        self.error[a] = (1.0 - rate) * self.error[a] + rate * (self.target[a] - accepted)
        log_step = self.centre[a] - np.sqrt(time) / 0.05 * self.error[a]
        share = time**-0.75
        self.mean_log[a] = share * log_step + (1.0 - share) * self.mean_log[a]
        self.tree.step[a] = np.exp(log_step)

    def _moments(self, a: np.ndarray) -> None:
        self.count[a] += 1.0
        change = self.tree.chosen[a] - self.mean[a]
        self.mean[a] += change / self.count[a, None]
        self.squares[a] += change * (self.tree.chosen[a] - self.mean[a])

    def _variances(self, a: np.ndarray) -> None:
        if not a.size:
            return
        count = self.count[a, None]
        variance = self.squares[a] / (count - 1.0)
        # As in Stan: a little towards a small number, for short windows.
        self.tree.variance[a] = (count * variance + 5e-3) / (count + 5.0)
        self.count[a], self.mean[a], self.squares[a] = 0.0, 0.0, 0.0
        self.centre[a], self.time[a] = np.log(10.0 * self.tree.step[a]), 0.0
        self.error[a], self.mean_log[a] = 0.0, 0.0


def _windows(warm_up: int) -> list[int]:
    """Where the windows of the variances begin and end; each is twice as long as the last one."""
    first, width, last = _FIRST, _WINDOW, warm_up - _LAST
    if warm_up < _FIRST + _WINDOW + _LAST:
        first, last = int(0.15 * warm_up), warm_up - int(0.1 * warm_up)
        return [first, last]
    edges = [first]
    while edges[-1] + 3 * width <= last:
        edges.append(edges[-1] + width)
        width *= 2
    return [*edges, last]
