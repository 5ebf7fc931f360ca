"""Comparisons: closed forms, slow loops, level, symmetries, chains, groups, bad input, doors."""

import dataclasses
import json
from types import SimpleNamespace

import numba
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from scipy.signal import lfilter
from theory.gaussian import Pair, random_pair

import fastsksd as fs
from fastsksd.comparison import Comparison, has_interval
from fastsksd.procedure.u_statistics import UStatistic

SHIFTS = {"far": lambda x: 0.6 - x, "near": lambda x: 0.2 - x, "right": np.negative}


def normal(n=300, d=2, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def ar_chains(rng, chains, draws, d=2, memory=0.8):
    """Stationary chains of the standard normal distribution, (chains, draws, d)."""
    z = rng.standard_normal((chains, draws, d))
    z[:, 1:] *= np.sqrt(1 - memory**2)
    return lfilter([1.0], [1.0, -memory], z, axis=1)


@pytest.mark.parametrize("kernel", ["rbf", "imq"])
def test_discrepancies_are_those_of_slow_loops_on_the_samples_compared(kernel):
    x = normal(60)
    slices = fs.random_slices(2, 3, rng=1)
    h = np.array([0.7, 1.0, 1.3])
    kind = {"rbf": fs.RBF, "imq": fs.IMQ}[kernel]
    compared = fs.compare(
        x, SHIFTS, slices=slices, kernel=kind(h), precondition="raw", train=12, rng=0
    )
    rest = x[np.random.default_rng(0).permutation(60)[12:]]
    for name, parts in zip(compared.names, compared.slice_statistics, strict=True):
        slow = reference.sksd_per_slice(
            rest, SHIFTS[name](rest), slices.r, slices.g, kernel, h, "u"
        )
        np.testing.assert_allclose(parts, slow, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(compared.discrepancies, compared.slice_statistics.sum(axis=1))
    assert compared.n_compared == (48, 48, 48)
    assert compared.n_train == 12


def test_estimates_and_errors_are_those_of_closed_forms():
    # Theorem 6: the variance is 4 sigma_h^2 / n. More than 1000 samples are summed in groups.
    rng = np.random.default_rng(3)
    pair = random_pair(rng, 2)
    x = pair.sample(20_000, rng)
    r = g = np.array([[1.0, 0.0]])
    options = dict(slices=(r, g), kernel=fs.RBF(1.2), precondition="raw", train=100, rng=0)
    compared = fs.compare(x, {"p": pair.score_p, "q": pair.score_q}, **options)
    truth = pair.sksd(r[0], g[0], 1.2)
    variance = pair.witness_variance(r[0], g[0], 1.2)[0]
    error = np.sqrt(4 * variance / 19_900)
    row = compared["p", "q"]
    assert abs(row.difference - truth) < 4 * error
    low, high = row.interval
    assert (high - low) / (2 * 1.96 * error) == pytest.approx(1.0, abs=0.15)
    low, high = compared.discrepancy_intervals[0]
    assert low < truth < high
    assert row.better == "q"


def test_equally_wrong_models_are_told_apart_at_the_level():
    # Of 200 tests at 0.05, more than 19 have a probability of 0.005. The runs of the study are in
    # notebooks/studies.
    rng = np.random.default_rng(4)
    models = {"plus": lambda x: 0.3 - x, "minus": lambda x: -0.3 - x}
    pvalues = [
        fs.compare(rng.standard_normal((100, 1)), models, rng=rng)[0].pvalue for _ in range(200)
    ]
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.095


def test_two_models_that_are_nearly_right_are_not_told_apart():
    # The difference is degenerate; its first-order variance would be far too small.
    rng = np.random.default_rng(5)
    models = {"a": np.negative, "b": lambda x: -x / 1.02}
    told = [
        fs.compare(rng.standard_normal((100, 1)), models, rng=rng)[0].better for _ in range(100)
    ]
    assert 100 - told.count(None) <= 11  # more have a probability of 0.005 at 0.05
    compared = fs.compare(normal(200, 1), models, rng=0)
    assert compared.may_be_right == ("a", "b")
    assert "No discrepancy is told from 0" in compared.summary()


@settings(max_examples=30)
@given(seed=st.integers(0, 2**16), sets=st.booleans())
def test_compare_is_antisymmetric(seed, sets):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((80, 2))
    first, second = rng.uniform(-0.5, 0.5, 2)
    if sets:
        one = fs.compare({"a": x + first, "b": 1.3 * x + second}, np.negative, rng=0)
    else:
        models = {"a": lambda x: first - x, "b": lambda x: -0.8 * x + second}
        one = fs.compare(x, models, rng=0)
        two = fs.compare(x, dict(reversed(models.items())), rng=0)
        assert two.names == ("b", "a")
        assert two[0].difference == pytest.approx(-one[0].difference, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(
            two[0].interval, [-end for end in one[0].interval[::-1]], rtol=1e-6, atol=1e-9
        )
        assert two[0].pvalue == pytest.approx(one[0].pvalue, rel=1e-5)
        assert (two[0].better, two.ranking) == (one[0].better, one.ranking)
    forth, back = one["a", "b"], one["b", "a"]
    assert back.difference == -forth.difference
    assert back.interval == (-forth.interval[1], -forth.interval[0])
    assert (back.pvalue, back.better) == (forth.pvalue, forth.better)


def test_units_of_the_samples_do_not_matter():
    x, unit = normal(200), np.array([1e-3, 50.0])
    models = {"far": lambda x: 0.6 - x, "right": np.negative}
    scaled = {name: lambda y, f=f: f(y / unit) / unit for name, f in models.items()}
    one, two = fs.compare(x, models, rng=0), fs.compare(x * unit, scaled, rng=0)
    assert two[0].difference == pytest.approx(one[0].difference, rel=1e-8)
    assert two[0].pvalue == pytest.approx(one[0].pvalue, rel=1e-6)


def test_a_model_that_is_compared_with_itself():
    compared = fs.compare(normal(), {"a": np.negative, "b": lambda x: -x}, rng=0)
    assert compared[0].difference == 0
    assert compared[0].pvalue == 1
    assert compared[0].better is None


@pytest.mark.parametrize("n, d", [(200, 10), (200, 50)])
def test_a_model_fitted_to_training_samples_does_not_beat_the_true_one(n, d):
    told = []
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal((n, d))
        models = {"true": np.negative, "fitted": fs.Refit(fs.models.Gaussian.fit)}
        compared = fs.compare(x, models, rng=seed)
        told.append(compared[0].better)
        assert compared.n_train == n // 2
    assert told.count("fitted") <= 1  # 3 and 20 of 20 if fitted to all samples
    assert compared.to_dict()["fitted"] == ["fitted"] and "to fit fitted" in repr(compared)
    np.testing.assert_array_equal(np.shape(compared.fitted["fitted"].mean), d)


def test_a_fit_sees_only_the_training_samples():
    x, seen = np.random.default_rng(0).standard_normal((100, 2)), []

    def fit(some):
        seen.append(some)
        return np.negative

    compared = fs.compare(x, {"A": fs.Refit(fit), "B": np.negative}, train=30, rng=0)
    assert [one.shape for one in seen] == [(30, 2)] and compared.n_compared == (70, 70)
    assert compared.discrepancies[0] == compared.discrepancies[1]
    numbers = [{tuple(row) for row in rows.tolist()} for rows in (x, seen[0])]
    assert numbers[1] < numbers[0]


def test_a_fit_where_it_makes_no_sense():
    x = np.random.default_rng(0).standard_normal((100, 2))
    fit = fs.models.Gaussian.fit
    with pytest.raises(ValueError, match=r"`score\['B'\]` is a Refit with split="):
        fs.compare(x, {"A": np.negative, "B": fs.Refit(fit, split=0.5)})
    for options in (dict(chains=True), dict(lag="auto"), dict(lag=3)):
        with pytest.raises(ValueError, match=r"`score\['B'\]` is fitted .* Thin the chains"):
            fs.compare(x, {"A": np.negative, "B": fs.Refit(fit)}, **options)
    with pytest.raises(TypeError, match="a Refit is fitted to one set"):
        fs.compare({"a": x, "b": x}, fs.Refit(fit))
    with pytest.raises(TypeError, match=r"`score\['B'\]` must return a model"):
        fs.compare(x, {"A": np.negative, "B": fs.Refit(lambda x: None)})
    with pytest.raises(ValueError, match=r"`score\['B'\]` raised ZeroDivisionError"):
        fs.compare(x, {"A": np.negative, "B": fs.Refit(lambda x: 1 / 0)})


@pytest.mark.parametrize("constant", [0.1, 1e6])
def test_a_constant_column_is_named(constant):
    x = normal(100, 3)
    x[:, 1] = constant
    models = {"A": np.negative, "B": lambda x: 0.5 - x}
    with pytest.raises(ValueError, match="`x` does not vary in column 1,"):
        fs.compare(x, models, rng=0)
    with pytest.raises(ValueError, match="`x` does not vary in column 1,"):
        fs.compare({"a": x, "b": 2.0 * x - constant * np.eye(3)[1]}, np.negative, rng=0)


def test_ranking_of_several_models():
    compared = fs.compare(normal(1000), SHIFTS | {"too": lambda x: -1.001 * x}, rng=0)
    assert compared.ranking[2:] == ("near", "far")
    assert set(compared.best) == {"right", "too"}
    assert compared.groups[1:] == (("near",), ("far",))
    assert [row.better for row in compared].count(None) == 1
    assert "right" in compared.summary()
    assert "can't be told from" in compared.summary()


def made(values, errors):
    """A comparison with given discrepancies and errors of differences, by pairs."""
    names = tuple("abcdef"[: len(values)])
    alone = tuple(UStatistic(value, 1e-4, 0.0, 0.0, 1000.0) for value in values)
    pairs = {
        (i, j): UStatistic(values[i] - values[j], errors[i, j] ** 2, 0.0, 0.0, 1000.0)
        for i in range(len(values))
        for j in range(i + 1, len(values))
    }
    slices = fs.Slices(np.eye(1), np.eye(1))
    shape = np.array(values)[:, None]
    counts = (100,) * len(values)
    return Comparison(
        names, True, slices, shape, np.ones(1), counts, 20, _alone=alone, _pairs=pairs
    )


def test_groups_are_largest_sets_that_are_not_told_apart():
    small = np.full((4, 4), 0.1)
    assert made([0.0, 0.2, 0.4, 5.0], small).groups == (("a", "b"), ("b", "c"), ("d",))
    # a and b are told apart, but neither of them from c, which is farther away and less certain.
    small[0, 2] = small[1, 2] = 10.0
    compared = made([0.0, 1.0, 2.0], small)
    assert compared.groups == (("a", "c"), ("b", "c"))
    assert compared.best == ("a", "c")
    assert "b  " in repr(compared)
    assert made([0.0, 0.0, 0.0], np.ones((3, 3))).groups == (("a", "b", "c"),)


def test_several_differences_are_corrected_for_their_number():
    one = made([0.0, 0.25], np.full((2, 2), 0.1))
    several = made([0.0, 0.25, 3.0, 3.1], np.full((4, 4), 0.1))
    assert several[0].pvalue == pytest.approx(1 - (1 - one[0].pvalue) ** 6)
    assert one[0].better == "a"
    assert several[0].better is None
    assert several[0].interval[0] < one[0].interval[0]
    assert one.at(0.5)[0].interval[0] > one[0].interval[0]


def test_sets_of_samples_against_one_model():
    x = normal(400, 2, 1)
    sets = {"narrow": 0.7 * x, "close": normal(300, 2, 2)}
    compared = fs.compare(sets, fs.models.Gaussian(np.zeros(2), 1.0), rng=0)
    assert compared.ranking == ("close", "narrow")
    assert compared.n_compared == (320, 240)
    assert "close is closer to the model than narrow" in compared.summary()
    assert not compared.of_models


def test_sets_of_samples_that_are_equally_wrong():
    rng = np.random.default_rng(6)
    told = sum(
        fs.compare(
            {"a": rng.standard_normal((80, 1)) + 0.3, "b": rng.standard_normal((120, 1)) - 0.3},
            np.negative,
            rng=rng,
        )[0].better
        is not None
        for _ in range(100)
    )
    assert told <= 12  # of 100 at 0.05; more have a probability of 0.002


def test_chains_are_compared_by_their_stretches():
    rng = np.random.default_rng(7)
    models = {"plus": lambda x: 0.2 - x, "minus": lambda x: -0.2 - x}
    told = apart = 0
    for _ in range(40):
        draws = ar_chains(rng, 4, 300, d=1, memory=0.9)
        told += fs.compare(draws, models, rng=rng)[0].better is not None
        apart += fs.compare(draws.reshape(-1, 1), models, rng=rng)[0].better is not None
    assert told <= 6  # of 40 at 0.05; more have a probability of 0.003
    assert apart >= 15  # taken as independent
    compared = fs.compare(draws, models, rng=0)
    assert compared.lag > 30
    rows = fs.compare(draws.reshape(-1, 1), models, chains=np.repeat(range(4), 300), rng=0)
    assert rows[0] == compared[0]
    assert fs.compare(draws.reshape(-1, 1), models, rng=0).neighbour_correlation > 0.8
    given = fs.compare(draws, models, lag=50, rng=0)
    assert given.lag == 50


def test_chains_that_are_too_short_to_tell():
    walk = np.cumsum(normal(200), axis=0)
    compared = fs.compare(walk, SHIFTS, lag="auto", rng=0)
    assert compared.draws_needed > 200
    assert np.isnan(compared[0].pvalue)
    assert compared[0].better is None
    assert "too short to tell" in compared.summary()
    assert "too short to tell" in repr(compared)
    assert "letter in common" not in repr(compared)
    assert json.loads(json.dumps(compared.to_dict(), allow_nan=False))["draws_needed"] > 200
    compared.plot(ax=Figure().subplots())


def test_chains_of_sets_of_samples():
    rng = np.random.default_rng(8)
    draws = {"long": ar_chains(rng, 4, 400), "short": rng.standard_normal((200, 2))}
    compared = fs.compare(draws, np.negative, rng=0)
    assert compared.lag > 10
    labels = {"long": np.repeat(range(4), 400)}
    flat = {"long": draws["long"].reshape(-1, 2), "short": draws["short"]}
    assert fs.compare(flat, np.negative, chains=labels, rng=0)[0] == compared[0]


def test_the_same_seed_gives_the_same_result_for_any_number_of_threads():
    x = normal(3000, 5)
    results = []
    for threads in (1, numba.config.NUMBA_NUM_THREADS):
        numba.set_num_threads(threads)
        results.append(list(fs.compare(x, SHIFTS, rng=0)))
    assert results[0] == results[1]
    assert fs.compare(x, SHIFTS, rng=1)[0] != results[0][0]


def test_heavy_tails():
    x = np.random.default_rng(9).standard_cauchy((400, 2))
    cauchy = lambda x: -2 * x / (1 + x**2)  # noqa: E731
    compared = fs.compare(x, {"cauchy": cauchy, "shifted": lambda x: cauchy(x - 0.5)}, rng=0)
    assert compared.ranking[0] == "cauchy"
    assert compared[0].better == "cauchy"


def test_active_slices_find_a_direction_that_no_coordinate_shows():
    rng = np.random.default_rng(10)
    mixed = np.eye(8) + 0.5
    pair = Pair(np.zeros(8), mixed, np.zeros(8), mixed)
    x = pair.sample(600, rng)
    u = np.ones(8) / np.sqrt(8)
    off = np.linalg.inv(mixed + 6.0 * np.outer(u, u))
    models = {"off": lambda x: -x @ off, "right": pair.score_p}
    compared = fs.compare(x, models, rng=0)
    assert len(compared.slices) == 8 + 2 * 3
    assert len(fs.compare(x, models, n_slices=0, rng=0).slices) == 8
    assert np.abs(compared.slices.r @ u).max() > 0.9
    assert compared[0].better == "right"


def test_names_of_columns_are_in_the_words():
    class Frame:
        columns = ("alpha", "beta")
        shape = (300, 2)

        def __array__(self, dtype=None, copy=None):
            return normal(300)

    compared = fs.compare(Frame(), {"off": lambda x: -x + [0.0, 0.8], "right": np.negative}, rng=0)
    assert compared.coordinates == ("alpha", "beta")
    assert "most of it along beta" in compared.summary()


def test_the_larger_discrepancy_is_said_to_be_larger():
    x = normal()
    for pair in ("ab", "ba"):
        compared = fs.compare(x, {name: np.negative for name in pair}, rng=0)
        assert compared.summary().startswith(
            f"{pair[0]} and {pair[1]} can't be told apart: their discrepancies are the same."
        )
        close = fs.compare(
            x, {name: {"a": np.negative, "b": lambda x: 0.001 - x}[name] for name in pair}, rng=0
        )
        larger = "ab"[int(close["b", "a"].difference > 0)]
        assert f"the discrepancy of {larger} is larger by {abs(close[0].difference):.3g} (" in (
            close.summary()
        )


def test_weights_of_separate_groups_are_not_compared():
    """Discrepancies do not show them, and the words say so."""
    half, most = (
        fs.models.GaussianMixture([one, 1.0 - one], [[-3.0], [3.0]], [1.0, 1.0])
        for one in (0.5, 0.9)
    )
    x, y = half.sample(1000, rng=0), most.sample(1000, rng=1)
    for compared, said in (
        (fs.compare(y, {"half": half, "most": most}, rng=0), "the samples are in 2 groups with"),
        (fs.compare({"x": x, "y": y}, half, rng=0), "the samples of y are in 2 groups with"),
    ):
        assert compared[0].better is None
        assert compared.group_weights[-1] == pytest.approx([0.9, 0.1], abs=0.03)
        for words in (compared.summary(), repr(compared), compared._repr_html_()):
            assert said in words and "the comparison can" in words and "mode_weights" in words
        assert compared.to_dict()["group_weights"][-1] == list(compared.group_weights[-1])
    one = fs.compare(normal(), SHIFTS, rng=0)
    assert one.group_weights == ((),) and "groups" not in one.summary()


def test_result_is_frozen_and_shows_itself():
    compared = fs.compare(normal(), SHIFTS, rng=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        compared.level = 0.5
    assert repr(compared).startswith("Comparison\n  model")
    assert "<table>" in compared._repr_html_()
    content = json.loads(json.dumps(compared.to_dict(), allow_nan=False))
    assert content["ranking"] == list(compared.ranking)
    assert len(content["differences"]) == len(compared) == 3
    axes = compared.plot(ax=Figure().subplots())
    assert len(axes.get_yticks()) == 3
    with pytest.raises(TypeError, match="must be a Comparison"):
        fs.plot.differences(1)
    with pytest.raises(KeyError):
        compared["far", "far"]
    with pytest.raises(KeyError):
        compared["far", "unknown"]


NAN = np.where(np.arange(300)[:, None] == 7, np.nan, -normal())
BAD = {
    "one model": (normal(), {"a": np.negative}, {}, "`score` must hold at least two"),
    "no model": (normal(), {}, {}, "`score` must hold at least two"),
    "a score": (normal(), np.negative, {}, "`score` must map names"),
    "twice": (normal(), [("a", np.negative), ("a", np.negative)], {}, "the name 'a' twice"),
    "no name": (normal(), {"": np.negative, "b": np.negative}, {}, "names that are strings"),
    "number": (normal(), {1: np.negative, "b": np.negative}, {}, "names that are strings"),
    "shape": (
        normal(),
        {"a": np.negative, "b": lambda x: x[:, 0]},
        {},
        r"score\['b'\]. must return",
    ),
    "rows": (
        normal(),
        {"a": np.negative, "b": normal(9)},
        {},
        r"score\['b'\]. must have the shape",
    ),
    "nan": (normal(), {"a": np.negative, "b": NAN}, {}, r"score\['b'\]. holds NaN.*row 7"),
    "raises": (
        normal(),
        {"a": np.negative, "b": lambda x: 1 / 0},
        {},
        r"score\['b'\]. raised Zero",
    ),
    "few": (normal(20), SHIFTS, {}, "`x` must hold at least 30"),
    "both": ({"a": normal()}, SHIFTS, {}, "`score` must be one model"),
    "one set": ({"a": normal()}, np.negative, {}, "`x` must hold at least two"),
    "few of a set": ({"a": normal(), "b": normal(9)}, np.negative, {}, r"x\['b'\]. must hold"),
    "columns": ({"a": normal(), "b": normal(300, 3)}, np.negative, {}, r"x\['b'\]. must have 2"),
    "values": ({"a": normal(), "b": normal()}, normal(), {}, "must be a function or a model"),
    "train": (normal(), SHIFTS, {"train": 299}, "`train` splits"),
    "fraction": (normal(), SHIFTS, {"train": 1.5}, "`train` must be"),
    "level": (normal(), SHIFTS, {"level": 95}, "`level` must be"),
    "metric": (normal(), SHIFTS, {"precondition": "full"}, "`precondition` must be"),
    "slices": (normal(), SHIFTS, {"slices": (np.eye(3), np.eye(3))}, "`slices` are directions"),
    "n_slices": (normal(), SHIFTS, {"n_slices": -1}, "`n_slices` must be"),
    "lag": (normal(), SHIFTS, {"lag": "long"}, "`lag` must be"),
    "long lag": (normal(), SHIFTS, {"lag": 200}, "`lag` must be at most half"),
    "labels": (normal(), SHIFTS, {"chains": [1, 2]}, "`chains` must have a label"),
    "bandwidth": (normal(), SHIFTS, {"kernel": fs.RBF(1e-9)}, "`kernel` has a bandwidth"),
    "flat": (normal() * [1, 0], SHIFTS, {}, "`x` does not vary"),
    "chains of": (
        {"a": normal(), "b": normal()},
        np.negative,
        {"chains": {"c": np.zeros(300)}},
        "`chains` has labels of 'c'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    x, score, options, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=message):
        fs.compare(x, score, rng=0, **options)


def test_interval_of_the_discrepancy_of_a_test():
    x = normal(400, 3)
    slices = fs.Slices(np.eye(3), np.eye(3))
    result = fs.gof_test(x, lambda x: 0.5 - x, slices=slices, rng=0)
    low, high = result.discrepancy_interval()
    assert 0 < low < result.statistic < high
    wider = result.discrepancy_interval(0.99)
    assert wider[0] < low
    assert wider[1] > high
    truth = Pair(np.full(3, 0.5), np.eye(3), np.zeros(3), np.eye(3))
    exact = sum(truth.sksd(e, e, h) for e, h in zip(np.eye(3), result.bandwidths, strict=True))
    assert low < exact < high
    assert fs.gof_test(x, np.negative, slices=slices, rng=0).discrepancy_interval()[0] == 0


def test_interval_of_the_strongest_set_of_a_family_allows_for_the_choice():
    x = normal(300, 2) * [0.6, 1.0]
    family = fs.gof_test(x, np.negative, rng=0)
    total = family.slice_statistics.sum()
    low, high = family.discrepancy_interval()
    assert 0 < low < total < high
    count = sum(member.n_slices > 0 for member in family.members)
    assert count > 1
    alone = dataclasses.replace(family, members=())
    assert alone.discrepancy_interval(0.95 ** (1 / count)) == pytest.approx((low, high))


def test_interval_of_the_discrepancy_of_chains_and_of_other_results():
    rng = np.random.default_rng(11)
    draws = ar_chains(rng, 4, 500)
    slices = (np.eye(2), np.eye(2))
    result = fs.gof_test(draws, lambda x: 0.5 - x, slices=slices, rng=0)
    independent = fs.gof_test(draws.reshape(-1, 2), lambda x: 0.5 - x, slices=slices, rng=0)
    (low, high), (other_low, other_high) = (
        one.discrepancy_interval() for one in (result, independent)
    )
    assert high - low > 1.5 * (other_high - other_low)
    walk = np.cumsum(normal(200), axis=0)
    short = fs.gof_test(walk, np.negative, slices=slices, lag="auto", rng=0)
    assert np.isnan(short.discrepancy_interval()).all()
    with pytest.raises(ValueError, match="`method` has no slices"):
        fs.gof_test(normal(50), np.negative, method="ksd", rng=0).discrepancy_interval()
    stream = fs.gof_stream([normal(600)], np.negative, slices=slices)
    with pytest.raises(ValueError, match="holds no samples"):
        stream.discrepancy_interval()
    few = fs.gof_test(normal(10), np.negative, slices=slices, rng=0)
    with pytest.raises(ValueError, match="at least 15"):
        few.discrepancy_interval()
    with pytest.raises(ValueError, match="`level` must be"):
        result.discrepancy_interval(2)
    fitted = dataclasses.replace(result, fitted=SimpleNamespace(same_samples=True))
    with pytest.raises(ValueError, match="`fit` was to the same samples"):
        fitted.discrepancy_interval()
    assert has_interval(result)
    assert not any(has_interval(one) for one in (fitted, stream, few))
