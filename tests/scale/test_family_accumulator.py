"""The default test of a stream: that of memory, for any chunks and any order of merging."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, stats

import fastsksd as fs
from fastsksd.procedure import grouped, plan
from fastsksd.scale import family_accumulator

HEAD, N = 300, 2400
X = np.random.default_rng(0).standard_normal((N, 3)) * [1.0, 1.0, 0.95]


def family(**options):
    return fs.FamilyAccumulator(X[:HEAD], np.negative, rng=1, **options)


@pytest.fixture(scope="module")
def first():
    return family()


@pytest.fixture(scope="module")
def whole(first):
    return first.empty().add(X, np.negative).result(rng=2, n_resamples=99)


def same(result, whole):
    assert result.pvalue == whole.pvalue
    assert (result.n_test, result.n_train) == (whole.n_test, whole.n_train)
    np.testing.assert_allclose(result.null_distribution, whole.null_distribution, atol=1e-9)
    for one, other in zip(result.members, whole.members, strict=True):
        assert one[:3] == other[:3]
        assert one.statistic == pytest.approx(other.statistic, rel=1e-7, abs=1e-12)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**20), cuts=st.lists(st.integers(1, N - 1), max_size=6, unique=True))
def test_any_chunks_and_any_order_give_one_answer(first, whole, seed, cuts):
    rng = np.random.default_rng(seed)
    parts = [
        first.empty(low).add(X[low:high], np.negative)
        for low, high in pairwise((0, *sorted(cuts), N))
    ]
    while len(parts) > 1:
        taken = parts.pop(rng.integers(len(parts)))
        parts[rng.integers(len(parts))].merge(pickle.loads(pickle.dumps(taken)))
    assert parts[0].n == N and parts[0].row == N
    same(parts[0].result(rng=2, n_resamples=99), whole)


@pytest.mark.parametrize("options", [{}, dict(kernel="imq"), dict(null="bootstrap")], ids=str)
@pytest.mark.parametrize("columns", [3, 1])
def test_the_answer_is_that_of_memory(monkeypatch, options, columns):
    """`gof_test` with as many training samples, of the rows in its order."""
    monkeypatch.setattr(plan, "TAKES_OVER", 1000)
    x = X[:, :columns]
    split = {} if columns == 1 else dict(train=HEAD)
    rng = np.random.default_rng(3)
    memory = fs.gof_test(x, np.negative, **split, n_resamples=99, rng=3, **options)
    if columns == 1:  # nothing is searched for, and all samples give range and bandwidth
        assert len(memory.members) == 7
        return
    x = x[rng.permutation(N)]
    kernel = {name: value for name, value in options.items() if name == "kernel"}
    null = {name: value for name, value in options.items() if name == "null"}
    total = fs.FamilyAccumulator(x[:HEAD], np.negative, rng=rng, **kernel)
    for chunk in np.split(x, [100, 1300]):
        total.add(chunk, np.negative)
    streamed = total.result(rng=rng, n_resamples=99, **null)
    same(streamed, memory)
    assert streamed.evidence == pytest.approx(memory.evidence, rel=1e-9)
    np.testing.assert_allclose(streamed.slices.r, memory.slices.r)
    np.testing.assert_allclose(streamed.bandwidths, memory.bandwidths)


def test_groups_are_those_of_the_number_of_rows(monkeypatch):
    monkeypatch.setattr(grouped, "GROUPS", 50)
    total = fs.FamilyAccumulator(X[:HEAD], np.negative, rng=1)
    sizes = []
    for chunk in np.split(X, 8):
        total.add(chunk, np.negative)
        sizes.append(total._sums.groups.size)
        assert len(total._sums.numbers()) <= 50 + 2
    assert sizes == [8, 16, 32, 32, 32, 64, 64, 64]
    ahead = total.empty().expect(N).add(X, np.negative)
    same(ahead.result(rng=0, n_resamples=49), total.result(rng=0, n_resamples=49))


def test_members_whose_choice_depended_on_the_head_are_not_tested_on_it(first):
    total = first.empty().add(X, np.negative)
    starts = {one.start for one in total._sums.components}
    assert starts == {0, HEAD}
    result = total.result(rng=0, n_resamples=49)
    for one in result.members:
        learnt = "active" in one.name or one.name.endswith("full")
        assert one.part == ("held out" if learnt else "all")
    # The head is looked at by those alone that were fixed beforehand.
    changed = X.copy()
    changed[: HEAD // 2] *= 1.5
    other = first.empty().add(changed, np.negative).result(rng=0, n_resamples=49)
    for one in result.members:
        (same_one,) = (member for member in other.members if member[:3] == one[:3])
        assert (one.statistic == same_one.statistic) == (one.part == "held out")


def test_separate_samples_leave_all_rows_to_test():
    total = fs.FamilyAccumulator(X[:HEAD], np.negative, separate=True, rng=1)
    result = total.add(X[HEAD:], np.negative).result(rng=0, n_resamples=49)
    assert (result.n_train, result.n_test) == (HEAD, N - HEAD)


def test_memory_does_not_grow_and_accumulators_travel_light(first):
    total = first.empty()
    sizes = []
    for seed in range(12):
        x = np.random.default_rng(seed).standard_normal((2000, 3))
        sizes.append(len(pickle.dumps(total.add(x, -x))))
    features = total._sums.size
    assert max(sizes) < 8 * 2003 * features + 100_000
    assert len(pickle.dumps(first.empty())) < 100_000
    part = first.empty(20_000).expect(10**6)
    part.add(x, -x)
    assert len(pickle.dumps(part)) < 8 * 5 * features + 100_000


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_samples_beyond_the_range_of_the_head(kernel):
    """They fade along slices, change nothing for the rest, and do not overflow."""
    rng = np.random.default_rng(0)
    x = rng.standard_cauchy((6000, 2))
    x[5000] = [1e9, -1e12]
    score = -2 * x / (1 + x * x)
    total = fs.FamilyAccumulator(x[:500], score[:500], kernel=kernel, rng=0)
    result = total.add(x, score).result(rng=0, n_resamples=199)
    assert result.pvalue > 0.01
    assert fs.gof_test(x, score, kernel=kernel, rng=0, n_resamples=199).pvalue > 0.01


@pytest.mark.parametrize("law", [pytest.param("normal", marks=pytest.mark.slow), "skewed"])
def test_level(law, monkeypatch):
    """Right models are rejected as often as the level says."""
    monkeypatch.setattr(grouped, "GROUPS", 150)
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng([11, seed])
        if law == "normal":
            x = rng.standard_normal((1500, 2))
            s = -x
        else:
            x = np.log(rng.gamma(2.0, size=(1500, 2)))
            s = 2.0 - np.exp(x)
        total = fs.FamilyAccumulator(x[:300], s[:300], rng=rng).add(x, s)
        rejected += total.result(n_resamples=99, rng=rng).reject()
    low, high = stats.binom.ppf([0.0005, 0.9995], 200, 0.05)
    assert low <= rejected <= high


def test_a_chain_is_not_rejected_for_its_memory(monkeypatch):
    """Groups of 128 consecutive rows; an AR(1) chain of coefficient 0.7."""
    monkeypatch.setattr(grouped, "GROUPS", 300)
    rejected = 0
    for seed in range(40):
        rng = np.random.default_rng([12, seed])
        x = signal.lfilter([np.sqrt(0.51)], [1.0, -0.7], rng.standard_normal((30_000, 1)), axis=0)
        x = x[100:]
        total = fs.FamilyAccumulator(x[:2000], np.negative, rng=rng).add(x, np.negative)
        rejected += total.result(n_resamples=99, rng=rng).reject()
    assert rejected <= stats.binom.ppf(0.9995, 40, 0.05)


def test_a_bad_chunk_leaves_what_came_before(first):
    total = first.empty().add(X[:500], np.negative)
    for bad, message in (
        (np.where(X[500:900] > 2.5, np.nan, X[500:900]), "NaN or infinity"),
        (X[500:900, :2], "`x` must have 3 columns"),
    ):
        with pytest.raises(ValueError, match=message):
            total.add(bad, np.negative)
    with pytest.raises(ValueError, match="`score` raised RuntimeError"):
        total.add(X[500:], lambda x: (_ for _ in ()).throw(RuntimeError("no")))
    assert total.n == total.row == 500
    resumed = pickle.loads(pickle.dumps(total))
    resumed.extend([X[500:700], X[700:700], X[700:]], np.negative)
    same(
        resumed.result(rng=2, n_resamples=99),
        first.empty().add(X, np.negative).result(rng=2, n_resamples=99),
    )


def test_an_interrupt_while_sums_are_joined_is_told(first, monkeypatch):
    total = first.empty().add(X[:1500], np.negative)

    def interrupted(self, other):
        raise KeyboardInterrupt

    monkeypatch.setattr(family_accumulator.FeatureSums, "merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        total.add(X[1500:], np.negative)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="was interrupted while sums were added"):
        total.result()


def test_bad_input_is_explained(first):
    total = first.empty().add(X[:1000], np.negative)
    with pytest.raises(ValueError, match=r"leaves 700 samples to test of 1000 .* at least 1000"):
        total.result()
    with pytest.raises(ValueError, match="leaves 0 samples to test of 0"):
        first.empty().result()
    with pytest.raises(TypeError, match="`other` must be a FamilyAccumulator"):
        total.merge(3)
    with pytest.raises(ValueError, match="`other` has another family"):
        total.merge(family())
    with pytest.raises(ValueError, match="`other` has rows 900 to 999, which were added before"):
        total.merge(first.empty(900).add(X[900:1100], np.negative))
    late = first.empty(1000).add(X[1000:], np.negative)
    late.merge(total)
    late.row = 10
    with pytest.raises(ValueError, match="`x` has rows 10 to 19, which were added before"):
        late.add(X[10:20], np.negative)
    with pytest.raises(ValueError, match="`null` must be one of 'wild', 'bootstrap'"):
        late.result(null="spectral")
    with pytest.raises(ValueError, match="`row` must be"):
        first.empty(-1)
    with pytest.raises(ValueError, match="`first`"):
        fs.FamilyAccumulator(X[:2], np.negative)
    with pytest.raises(ValueError, match="`kernel` has a bandwidth so small"):
        family(kernel=fs.RBF(1e-5))
    with pytest.raises(ValueError, match="does not vary in column 3"):
        fs.FamilyAccumulator(np.c_[X[:HEAD], np.ones(HEAD)], np.negative)
