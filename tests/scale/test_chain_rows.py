"""Chains in streams: which draws are rows, the answer for any chunks, the level, bad input."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.signal import lfilter

import fastsksd as fs
from fastsksd.scale import streaming
from fastsksd.scale.chain_rows import ChainRows, chain_rows


def ar1(rho, chains, draws, d, seed):
    steps = np.random.default_rng(seed).standard_normal((chains, draws + 200, d))
    return lfilter([np.sqrt(1.0 - rho * rho)], [1.0, -rho], steps, axis=1)[:, 200:]


@settings(max_examples=50)
@given(
    chains=st.integers(1, 3),
    head=st.integers(0, 12),
    length=st.integers(1, 5),
    gap=st.integers(0, 3),
    cuts=st.lists(st.integers(1, 39), max_size=5, unique=True),
)
def test_every_draw_that_is_used_has_one_row(chains, head, length, gap, cuts):
    """Whatever the chunks: the rows of a chain go on one by one, and the head comes first."""
    rows = ChainRows(chains, head, length, gap, 1.0)
    x = np.arange(chains * 40.0).reshape(chains, 40, 1)
    found = {}
    for first, stop in pairwise((0, *sorted(cuts), 40)):
        part = x[:, first:stop]
        for row, values, scores in rows.pieces(first, part, -part):
            np.testing.assert_array_equal(values, -scores)
            for k, value in enumerate(values[:, 0].tolist()):
                assert row + k not in found
                found[row + k] = value
    draws = np.arange(40)
    used = draws % (length + gap) < length
    assert sorted(found.values()) == x[:, used, 0].ravel().tolist()
    in_order = [found[row] for row in sorted(found)]
    first = x[:, used & (draws < head), 0].ravel().tolist()
    assert in_order == first + x[:, used & (draws >= head), 0].ravel().tolist()


def test_the_memory_of_the_head_sets_groups_and_gaps():
    x = ar1(0.8, 4, 2000, 3, 0)  # an autocorrelation time of 9
    rows = chain_rows(x, -x, separate=False)
    assert rows.dependent and 7 < rows.tau < 14
    assert rows.gap == round(rows.tau) and rows.length + rows.gap == round(20 * rows.tau)
    independent = np.random.default_rng(1).standard_normal((4, 2000, 3))
    assert not chain_rows(independent, -independent, separate=False).dependent


@pytest.fixture(scope="module")
def draws():
    return ar1(0.7, 3, 4000, 2, 5)


@pytest.fixture(scope="module")
def first(draws):
    return fs.FamilyAccumulator(draws[:, :1000], np.negative, rng=1)


def test_chunks_of_chains_merge_in_any_order(first, draws):
    whole = first.empty().add(draws, np.negative)
    parts = [
        first.empty(low).add(draws[:, low:high], -draws[:, low:high])
        for low, high in ((2500, 4000), (0, 700), (700, 2500))
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.row == whole.row == 4000
    assert 0.9 * draws[..., 0].size < merged.n == whole.n < draws[..., 0].size
    one, other = (total.result(rng=2, n_resamples=199) for total in (whole, merged))
    assert one.pvalue == other.pvalue
    assert one.lag > 20 and one.effective_draws == pytest.approx(
        12000 / first._chains.tau, rel=0.02
    )
    assert not one.draws_needed


def test_a_wrong_model_of_chains_is_rejected(draws):
    total = fs.FamilyAccumulator(1.2 * draws[:, :1000], np.negative, rng=1)
    assert total.add(1.2 * draws, np.negative).result(rng=0, n_resamples=199).reject()


def test_the_level_holds_on_chains():
    """Taken as independent, these chains are rejected nearly always."""
    tests, rejected, naive = 40, 0, 0
    for seed in range(tests):
        x = ar1(0.7, 2, 2000, 1, 100 + seed)
        total = fs.FamilyAccumulator(x[:, :1000], np.negative, rng=seed).add(x, np.negative)
        rejected += total.result(rng=seed, n_resamples=99).reject()
        if seed < 10:
            rows = np.random.default_rng(seed).permutation(np.concatenate(x))
            plain = fs.FamilyAccumulator(rows[:2000], np.negative, rng=seed).add(rows, np.negative)
            naive += plain.result(rng=seed, n_resamples=99).reject()
    assert rejected <= stats.binom.ppf(0.999, tests, 0.06)
    assert naive >= 5


def test_streams_of_chains(monkeypatch):
    monkeypatch.setattr(streaming, "SHORT", 4000)
    monkeypatch.setattr(streaming, "HEAD_OF_CHAINS", 2000)
    x = ar1(0.7, 2, 4000, 2, 7)
    options = dict(rng=0, n_resamples=99)
    array = fs.gof_stream(x, np.negative, **options)
    assert array.lag > 20
    chunks = fs.gof_stream((x[:, k : k + 900] for k in range(0, 4000, 900)), np.negative, **options)
    pairs = fs.gof_stream(
        ((x[:, k : k + 900], -x[:, k : k + 900]) for k in range(0, 4000, 900)), **options
    )
    assert array.pvalue == chunks.pvalue == pairs.pvalue == fs.gof_stream(x, -x, **options).pvalue
    one = fs.gof_stream(np.concatenate(x), np.negative, chains=True, **options)
    assert one.lag > 20
    short = fs.gof_stream(x[:, :1000], np.negative, **options)  # in memory
    assert short.pvalue == fs.gof_test(x[:, :1000], np.negative, **options).pvalue


def test_chains_with_too_few_groups_have_no_verdict():
    x = ar1(0.9, 1, 2600, 1, 3)
    total = fs.FamilyAccumulator(x, np.negative, separate=True, rng=0).add(x[:, :2000], np.negative)
    total._chains = total._chains._replace(length=200, gap=20)
    result = total.result(rng=0, n_resamples=99)
    assert np.isnan(result.pvalue) == bool(result.draws_needed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: fs.gof_stream(x, np.negative, chains="yes"), "`chains` must be True or False"),
        (lambda x: fs.gof_stream(x, np.negative, chains=True, n_slices=1), "tested by the family"),
        (
            lambda x: fs.gof_stream(x, np.negative, chains=True, train=x[:50]),
            "`train` must be a num",
        ),
        (lambda x: fs.FamilyAccumulator(x[None], np.negative, rng=0), "too few to measure"),
        (
            lambda x: fs.FamilyAccumulator(x, np.negative, rng=0).add(x[None], np.negative),
            "rows of independent samples",
        ),
        (
            lambda x: fs.FamilyAccumulator(ar1(0.5, 2, 900, 2, 0), np.negative, rng=0).add(
                x[None], np.negative
            ),
            "must have the next draws of every chain, (2, draws, 2)",
        ),
    ],
)
def test_bad_chains_are_explained(call, message):
    with pytest.raises((ValueError, TypeError)) as error:
        call(ar1(0.995, 1, 3000, 2, 0)[0])
    assert message in str(error.value)
