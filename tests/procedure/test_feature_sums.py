"""Sums over groups: groups depend on rows alone, sums add and merge, and groups may double."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsksd.engines.random_waves import LinearFeatures
from fastsksd.procedure.feature_sums import (
    Component,
    FeatureSums,
    Groups,
    Stretches,
    group_size,
    group_weights,
)
from fastsksd.procedure.metric import given as given_metric
from fastsksd.procedure.moments import MomentFeatures, plain_moments
from fastsksd.procedure.split import Samples

N, D = 90, 2


def samples():
    x, s = np.random.default_rng(0).standard_normal((2, N, D))
    return Samples(x, s, np.arange(N))


@given(
    breaks=st.lists(st.integers(1, 60), max_size=3, unique=True),
    size=st.sampled_from([1, 2, 4, 16, 128]),
    first=st.integers(0, 80),
    width=st.integers(1, 40),
)
def test_groups_depend_on_rows_alone(breaks, size, first, width):
    breaks = (0, *sorted(breaks))
    groups = Groups(breaks, size)

    def group_of(row):
        start = max(one for one in breaks if one <= row)
        return start, (row - start) // size

    numbers, edges = groups.cut(first, first + width)
    assert edges[0] == 0 and edges[-1] == width and np.all(np.diff(edges) > 0)
    assert np.all(np.diff(numbers) > 0)
    rows = [range(first + low, first + high) for low, high in pairwise(edges.tolist())]
    names = [{group_of(row) for row in some} for some in rows]
    assert all(len(one) == 1 for one in names) and len(set.union(*names)) == len(names)
    starts = [start + k * size for ((start, k),) in names]
    assert groups.first_rows(numbers).tolist() == starts


@pytest.mark.parametrize(("n", "size"), [(1, 1), (100, 1), (101, 2), (400, 4), (401, 8)])
def test_sizes_are_powers_of_two(n, size):
    assert group_size(n, 100) == size


def components():
    metric = given_metric(np.array([[1.0, 0.5], [0.0, 2.0]]))
    features = LinearFeatures(D, 100, 0)
    return [
        Component(features, None),
        Component(features, metric, 31),
        Component(features, metric, 0, 31),
    ]


def expected(size):
    """Sums of every group by a loop."""
    data = samples()
    numbers, edges = Groups((0, 31), size).cut(0, N)
    tables = []
    for _, metric, start, stop in components():
        inside = data.within(metric)
        rows = []
        for low, high in pairwise(edges.tolist()):
            tested = low >= start and (stop is None or high <= stop)
            part = slice(low, high if tested else low)
            rows.append((inside.scores[part].T @ inside.x[part]).ravel())
            rows[-1] += (part.stop - part.start) * np.eye(D).ravel()
        tables.append(np.array(rows))
    return numbers, tables


@given(
    cuts=st.lists(st.integers(1, N - 1), max_size=5, unique=True),
    seed=st.integers(0, 2**20),
    doublings=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_chunks_in_any_order_give_the_sums_of_a_loop(cuts, seed, doublings):
    parts = []
    for first, last in pairwise((0, *sorted(cuts), N)):
        part = FeatureSums(components(), Groups((0, 31), 1))
        part.add(samples().chosen(slice(first, last)), first)
        parts.append(pickle.loads(pickle.dumps(part)))
    rng = np.random.default_rng(seed)
    for one, double in zip(parts, doublings, strict=False):
        if double:
            one.double()
    for one in parts:
        while one.groups.size < 2:
            one.double()
    total = parts.pop(rng.integers(len(parts)))
    while parts:
        total.merge(parts.pop(rng.integers(len(parts))))
    total.double()
    numbers, tables = expected(4)
    assert np.array_equal(total.numbers(), numbers) and total.n == [N, N - 31, 31]
    weights = np.random.default_rng(1).standard_normal((3, numbers.size))
    met = total.meet(weights, "wild")
    rows = total.groups.first_rows(numbers)
    for (features, _, start, stop), one, table in zip(components(), met, tables, strict=True):
        np.testing.assert_allclose(one.total, table.sum(axis=0), rtol=1e-9, atol=1e-12)
        mine = (rows >= start) & (rows < (stop or N))
        replicates = features.replicates(table[mine], one.own, one.n, weights[:, mine])
        np.testing.assert_allclose(
            one.replicates, replicates / (one.n * (one.n - 1)), rtol=1e-9, atol=1e-12
        )


def test_bootstrap_weights_are_centred_between_breaks():
    groups = Groups((0, 31), 4)
    numbers, _ = groups.cut(0, N)
    weights = group_weights(numbers, "bootstrap", 20, np.random.default_rng(0))
    np.testing.assert_allclose(weights[:, :8].sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(weights[:, 8:].sum(axis=1), 0.0, atol=1e-12)


def test_pairs_within_stretches_are_in_every_replicate():
    """Against a loop over pairs of samples; moments leave these pairs out."""
    edges = np.array([0, 7, 31, 40, 41, 70, N])
    x, s, *_ = data = samples()
    centre, unit = np.zeros(D), np.ones(D)
    some = [
        Component(LinearFeatures(D, 100, 0), None),
        Component(LinearFeatures(D, 100, 0), None, 31),
        Component(MomentFeatures(centre, unit, (1, 2)), None),
    ]
    sums = FeatureSums(some, Stretches(edges))
    sums.add(data, 0)
    weights = np.random.default_rng(1).choice([-1.0, 1.0], (5, 6))
    met = sums.meet(weights, "wild")
    stretch = np.repeat(np.arange(6), np.diff(edges))
    sx = np.einsum("id,id->i", s, x)
    matrix = (s @ s.T) * (x @ x.T) + sx[:, None] + sx + D
    for one, rows in zip(met, (slice(0, N), slice(31, N)), strict=False):
        terms = matrix[rows, rows] - np.diag(np.diag(matrix)[rows])
        mine = stretch[rows]
        np.testing.assert_allclose(one.statistics.sum(), terms.sum() / (one.n * (one.n - 1)))
        for w, replicate in zip(weights, one.replicates, strict=True):
            total = np.sum(np.outer(w[mine], w[mine]) * terms)
            np.testing.assert_allclose(replicate, total / (one.n * (one.n - 1)), atol=1e-12)
    features = plain_moments(x, s, centre, unit, (1, 2)).reshape(2 * D, N)
    groups = np.add.reduceat(features, edges[:-1], axis=1)
    products = np.einsum("fg,fh->fgh", groups, groups) * (1.0 - np.eye(6))
    units = (groups**2).mean(axis=1)
    expected = products.sum(axis=(1, 2)) / units / 30.0
    np.testing.assert_allclose(met[2].statistics.ravel(), expected)
    expected = np.einsum("bg,bh,fgh->bf", weights, weights, products) / units / 30.0
    np.testing.assert_allclose(met[2].replicates.reshape(5, -1), expected)


@given(first=st.integers(0, 80), width=st.integers(1, 40))
def test_stretches_are_cut_where_they_end(first, width):
    edges = np.array([0, 5, 6, 50, 120])
    numbers, cuts = Stretches(edges).cut(first, first + width)
    expected = np.searchsorted(edges, np.arange(first, first + width), side="right") - 1
    np.testing.assert_array_equal(np.repeat(numbers, np.diff(cuts)), expected)
    np.testing.assert_array_equal(Stretches(edges).first_rows(numbers), edges[numbers])
