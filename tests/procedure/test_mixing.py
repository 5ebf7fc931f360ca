"""Effective sample sizes and R-hat: against slow formulas, and against ArviZ where it is there."""

import math

import numpy as np
import pytest

from fastsksd.procedure.mixing import (
    bulk_and_tail_size,
    effective_size,
    sizes_of_means,
    split_chains,
    split_rhat,
)


def ar1(rng, chains, n, rho):
    z = np.empty((chains, n))
    z[:, 0] = rng.standard_normal(chains)
    for k in range(1, n):
        z[:, k] = rho * z[:, k - 1] + math.sqrt(1 - rho**2) * rng.standard_normal(chains)
    return z


def slow_size(chains):
    """The effective size by its definition: loops over distances and pairs of them."""
    m, n = chains.shape
    means = chains.mean(axis=1)
    covariances = []
    for k in range(n):
        one = [
            sum((chain[t] - mean) * (chain[t + k] - mean) for t in range(n - k)) / n
            for chain, mean in zip(chains, means, strict=True)
        ]
        covariances.append(sum(one) / m)
    within = covariances[0] * n / (n - 1)
    total = covariances[0] + (means.var(ddof=1) if m > 1 else 0)
    rho = [1.0] + [1 - (within - one) / total for one in covariances[1:]]
    tau, before, k = -1.0, math.inf, 0
    while k + 1 < n - 2 and rho[k] + rho[k + 1] >= 0:
        before = min(before, rho[k] + rho[k + 1])
        tau += 2 * before
        k += 2
    tau += max(rho[k], 0.0)
    return m * n / max(tau, 1 / math.log10(m * n))


@pytest.mark.parametrize(("rho", "n"), [(0.0, 40), (0.5, 61), (-0.5, 50), (0.8, 80)])
def test_the_effective_size_is_that_of_the_definition(rho, n):
    z = ar1(np.random.default_rng(n), 3, n, rho)
    assert effective_size(z[:, :, None])[0] == pytest.approx(slow_size(z), rel=1e-9)


def test_the_effective_size_of_an_autoregression():
    z = ar1(np.random.default_rng(0), 4, 20000, 0.8)
    size = sizes_of_means(z.reshape(-1, 1), np.repeat(np.arange(4), 20000))[0]
    assert size == pytest.approx(80000 * (1 - 0.8) / (1 + 0.8), rel=0.1)
    assert sizes_of_means(z.reshape(-1, 1), None)[0] == 80000


def test_chains_of_unequal_length_are_cut_from_the_front():
    chain = np.repeat([3, 7], [10, 7])
    halves = split_chains(np.arange(17.0)[:, None], chain)[:, :, 0]
    assert halves.tolist() == [[3, 4, 5], [7, 8, 9], [10, 11, 12], [14, 15, 16]]


def test_short_and_constant_chains():
    short = split_chains(np.zeros((6, 2)), np.zeros(6, dtype=int))
    assert np.isnan(effective_size(short)).all() and np.isnan(split_rhat(short)).all()
    assert effective_size(np.ones((2, 10, 1)))[0] == 20


def test_a_stuck_chain_is_seen():
    z = ar1(np.random.default_rng(0), 4, 500, 0.3)
    z[0] += 3
    halves = split_chains(z.reshape(-1, 1), np.repeat(np.arange(4), 500))
    assert split_rhat(halves)[0] > 1.4 and bulk_and_tail_size(halves, z.reshape(-1, 1))[0][0] < 20


def test_numbers_are_those_of_arviz():
    arviz = pytest.importorskip("arviz")
    rng = np.random.default_rng(0)
    for rho, n in ((0.0, 50), (0.5, 501), (0.9, 1000), (-0.5, 400)):
        z = ar1(rng, 4, n, rho)
        for values in (z, z + np.arange(4)[:, None], np.round(2 * z)):
            flat = values.reshape(-1, 1)
            halves = split_chains(flat, np.repeat(np.arange(4), n))
            bulk, tail = bulk_and_tail_size(halves, flat)
            assert bulk[0] == pytest.approx(float(arviz.ess(values, method="bulk")), rel=1e-9)
            assert tail[0] == pytest.approx(float(arviz.ess(values, method="tail")), rel=1e-9)
            assert split_rhat(halves)[0] == pytest.approx(float(arviz.rhat(values)), rel=1e-9)
            mean = effective_size(halves)[0]
            assert mean == pytest.approx(float(arviz.ess(values, method="mean")), rel=1e-9)
