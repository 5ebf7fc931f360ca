"""Pairs of folds with bandwidths and units of their own, against the slow matrices."""

import numpy as np
import pytest
import reference

import fastsksd as fs
from fastsksd.compute.projections import project
from fastsksd.engines.direct import DirectEngine
from fastsksd.engines.folded import FoldedEngine, FoldPair
from fastsksd.engines.protocol import SliceEngine
from fastsksd.procedure.nulls import Weights

N, D, M = 11, 4, 3


@pytest.fixture(params=["rbf", "imq"])
def folded(request):
    """An engine, and the slow matrix of its terms."""
    rng = np.random.default_rng(0)
    x, s = rng.standard_normal((N, D)), rng.standard_normal((N, D))
    slices = fs.random_slices(D, M, rng=1)
    kernel = {"rbf": fs.RBF(), "imq": fs.IMQ()}[request.param]
    y, projected, a, _ = project(x, s, slices, kernel)
    folds = np.array_split(rng.permutation(N), 4)
    pairs, slow = [], np.zeros((N, N))
    for k, rows in enumerate(folds):
        for columns in folds[k:]:
            h, units = rng.uniform(0.5, 2.0, M), rng.uniform(0.5, 2.0, M)
            pairs.append(FoldPair(rows, columns, h, units))
            terms = sum(
                units[q] ** 2
                * reference.stein_matrix(x, s, slices.r[q], slices.g[q], request.param, h[q])
                for q in range(M)
            )
            slow[np.ix_(rows, columns)] = terms[np.ix_(rows, columns)]
            slow[np.ix_(columns, rows)] = terms[np.ix_(columns, rows)]
    return FoldedEngine(kernel.code, y, projected, a, pairs, DirectEngine), slow


def test_its_terms_are_those_of_the_slow_matrix(folded):
    engine, slow = folded
    assert isinstance(engine, SliceEngine)
    off = slow - np.diag(np.diag(slow))
    np.testing.assert_allclose(engine.matrix(), off, atol=1e-12)
    np.testing.assert_allclose(engine.sums().sum(), off.sum())
    np.testing.assert_allclose(engine.row_sums(), off.sum(axis=1))
    np.testing.assert_allclose(engine.diagonal_terms(), np.diag(slow))
    np.testing.assert_allclose(engine.diagonal().sum(), np.trace(slow))
    centre = np.eye(N) - 1.0 / N
    expected = np.linalg.eigvalsh(centre @ slow @ centre) / N
    np.testing.assert_allclose(np.sort(engine.spectrum()), np.sort(expected), atol=1e-12)


def test_its_replicates_are_weighted_sums(folded):
    engine, slow = folded
    weights = Weights("wild", N + 2, 7, rng=np.random.default_rng(2)).matrix()
    off = slow - np.diag(np.diag(slow))
    some = weights[:, 2:]
    sums, replicates = engine.sums_and_replicates(weights, 2)
    np.testing.assert_allclose(sums, engine.sums())
    np.testing.assert_allclose(replicates, np.einsum("bi,ij,bj->b", some, off, some))


def test_multiples_multiply_the_bandwidths_of_all_folds(folded):
    engine, _ = folded
    weights = np.ones((1, N))
    (one, _), (two, _) = engine.sums_and_replicates_at((1.0, 2.0), weights)
    np.testing.assert_allclose(one, engine.sums())
    twice = [pair._replace(h=2.0 * pair.h) for pair in engine.pairs]
    again = FoldedEngine(engine.code, engine.y, engine.s, engine.a, twice, DirectEngine)
    np.testing.assert_allclose(two, again.sums())


def test_equal_bandwidths_give_the_direct_engine():
    rng = np.random.default_rng(3)
    y, s, a, h = rng.standard_normal((M, N)), rng.standard_normal((M, N)), np.ones(M), np.ones(M)
    folds = np.array_split(np.arange(N), 3)
    pairs = [FoldPair(one, two, h, h) for k, one in enumerate(folds) for two in folds[k:]]
    direct = DirectEngine(0, y, s, a, h)
    np.testing.assert_allclose(FoldedEngine(0, y, s, a, pairs, DirectEngine).sums(), direct.sums())
