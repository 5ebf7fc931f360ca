"""`draws.diagnose()`: one table for a run."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import fastsksd as fs
from fastsksd._validate import Overflow
from fastsksd.interop import Diagnosis
from fastsksd.interop import arviz as bridge
from fastsksd.interop._draws import Block, collect

COVARIANCE = np.array([[1.0, 0.95, 0.0], [0.95, 1.0, 0.0], [0.0, 0.0, 1.0]])


def run(seed, chains=4, n=500, narrow=1.0, wide=1.0):
    """Chains of a right law, or with b wrong given a and c too wide, and their score."""
    x = np.random.default_rng(seed).standard_normal((chains, n, 3))
    x[:, :, 1] = 0.95 * x[:, :, 0] + narrow * math.sqrt(1 - 0.95**2) * x[:, :, 1]
    x[:, :, 2] *= wide
    precision = np.linalg.inv(COVARIANCE)
    samples = {"a": x[:, :, 0], "b": x[:, :, 1], "c": x[:, :, 2:]}
    return bridge.draws(samples, score=lambda x: -x @ precision)


def test_a_right_run():
    draws = run(0)
    diagnosis = draws.diagnose()
    assert isinstance(diagnosis, Diagnosis) and not diagnosis.result.reject()
    assert diagnosis.names == ("a", "b", "c[0]") and diagnosis.directions is None
    assert (diagnosis.pvalues_adjusted > 0.01).all() and diagnosis.n_chains == 4
    assert (diagnosis.pvalues_adjusted >= diagnosis.pvalues).all()
    assert (diagnosis.r_hat < 1.02).all() and (diagnosis.ess_bulk > 1000).all()
    again = draws.diagnose()
    assert again.result.pvalue == diagnosis.result.pvalue and repr(again) == repr(diagnosis)
    verdict = diagnosis.notes()[0]
    assert verdict.startswith("2000 draws of 4 chains, in unconstrained space: not rejected")
    assert verdict.endswith(", no sign that the draws differ from the model")


def test_a_wrong_run():
    diagnosis = run(1, narrow=0.5, wide=1.4).diagnose()
    text, data = repr(diagnosis), diagnosis.to_dict()["stein"]
    assert diagnosis.notes()[0].startswith(
        "2000 draws of 4 chains, in unconstrained space: they do"
    )
    assert data["reject"] and "c[0]" in data["bad_params"] and "a" not in data["bad_params"]
    low, high = diagnosis.effects["c[0]"].stretch_interval
    assert low < 1.4 < high
    (words,) = data["directions"]
    assert words.startswith("a - b: samples too narrow, 0.5") and words in text
    assert json.dumps(data, allow_nan=False)
    html = diagnosis._repr_html_()
    assert html.startswith("<table>") and "c[0]" in html and "a - b" in html


def test_columns_have_a_number_for_each_parameter():
    columns = run(2).diagnose(level=0.8).columns()
    assert list(columns)[:3] == ["shift", "shift_low", "shift_high"]
    for column in columns.values():
        assert list(column) == ["a", "b", "c[0]"]
    assert columns["shift_low"]["a"] < columns["shift"]["a"] < columns["shift_high"]["a"]


def test_the_forest_plot():
    Figure = pytest.importorskip("matplotlib.figure").Figure
    ax = run(3, wide=1.4).diagnose().plot(ax=Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c[0]"]
    assert "95% intervals" in ax.get_title()


def test_the_forest_plot_shows_directions_below_parameters():
    """A run whose only fault is that of a pair would show nothing wrong."""
    Figure = pytest.importorskip("matplotlib.figure").Figure
    diagnosis = run(1, narrow=0.5).diagnose()
    assert not any(row.shifted or row.stretched for row in diagnosis.effects)
    ax = diagnosis.plot(ax=Figure().subplots())
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b", "c[0]", "a - b"]
    places = {
        line.get_ydata()[0]
        for line in ax.lines
        if line.get_marker() != "None" and len(line.get_xdata()) == 1
        if line.get_markerfacecolor() != "white"
    }
    assert places == {3.16}  # the stretch of the pair


def test_a_missing_correlation_is_named():
    """A mean-field sample: every marginal has its width, and only the correlation is missing."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 500, 3))
    precision = np.linalg.inv(COVARIANCE)
    samples = {"a": x[:, :, 0], "b": x[:, :, 1], "c": x[:, :, 2]}
    diagnosis = bridge.draws(samples, score=lambda x: -x @ precision).diagnose()
    (pair,) = diagnosis.correlations
    assert (pair.first, pair.second) == ("a", "b") and abs(pair.samples) < 0.1
    assert abs(pair.model - 0.95) < 0.01 and pair.interval[1] < -0.85
    assert "a and b: correlation" in repr(diagnosis) and "0.95 in the model" in repr(diagnosis)
    data = diagnosis.to_dict()["stein"]["correlations"]
    assert data[0]["first"] == "a" and json.loads(json.dumps(data)) == data
    assert run(0).diagnose().correlations == ()


def test_one_chain_in_another_place_is_named():
    x = np.random.default_rng(0).standard_normal((4, 500, 3))
    x[2] += 5.0
    diagnosis = collect([Block("a", ["a", "b", "c"], x, -x)]).diagnose()
    verdict = "too short to tell: chain 2 is in another place than the others"
    assert diagnosis.result.verdict == verdict and verdict in diagnosis.notes()[0]
    assert "draws needed" not in repr(diagnosis) + repr(diagnosis.result)
    assert "more draws help only if" in repr(diagnosis)
    assert "chain 2" in repr(diagnosis.result) and "have not mixed" in diagnosis.result.summary()
    x += 5.0 * np.arange(4)[:, None, None]
    result = collect([Block("a", ["a", "b", "c"], x, -x)]).diagnose().result
    assert result.verdict == f"too short to tell: {result.chains.places}"


def test_intervals_that_say_nothing_are_unknown():
    Figure = pytest.importorskip("matplotlib.figure").Figure
    x = np.random.default_rng(0).standard_normal((4, 500, 1))
    x[2] += 8.0
    diagnosis = collect([Block("a", ["a"], x, -x)]).diagnose()
    low, high = diagnosis.effects[0].stretch_interval
    assert low < 0.05 and high > 20
    assert "unknown" in repr(diagnosis) and "e+0" not in repr(diagnosis)
    limits = diagnosis.plot(ax=Figure().subplots()).get_xlim()
    assert -10 <= limits[0] and limits[1] <= 10
    low, high = (
        replace(diagnosis.effects, shift_error=np.array([0.1]))
        .plot(ax=Figure().subplots())
        .get_xlim()
    )
    assert -4 < low and high < 4


def test_slow_and_stuck_chains_are_said():
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.standard_normal((2, 300, 1)), axis=1)
    x = x / x.std()
    diagnosis = collect([Block("a", ["a"], x, -x)]).diagnose()
    assert "neither p-values nor intervals are reliable" in repr(diagnosis)
    assert "the chains have not mixed well" in repr(diagnosis)


def test_draws_that_were_dropped_leave_chains_of_unequal_length():
    x = np.random.default_rng(0).standard_normal((2, 300, 2))
    diverging = np.zeros((2, 300), dtype=bool)
    diverging[0, :40] = True
    blocks = [Block("a", ["a", "b"], x, -x)]
    kept = collect(blocks, diverging=diverging, on_divergence="drop").diagnose()
    assert kept.n_draws == 560 and np.isfinite(kept.ess_bulk).all()
    assert "40 draws are divergent" in repr(
        collect(blocks, diverging=diverging, on_divergence="keep").diagnose()
    )


def test_repeated_draws_of_a_sampler_that_rejects():
    # Random-walk Metropolis on a normal distribution.
    rng = np.random.default_rng(0)
    x = np.zeros((4, 2000, 1))
    for c in range(4):
        z = rng.standard_normal()
        for k in range(2000):
            proposal = z + 2.4 * rng.standard_normal()
            if math.log(rng.uniform()) < 0.5 * (z**2 - proposal**2):
                z = proposal
            x[c, k] = z
    diagnosis = collect([Block("a", ["a"], x, -x)]).diagnose()
    assert not diagnosis.effects[0].shifted and not diagnosis.effects[0].stretched
    assert diagnosis.ess_bulk[0] < 4000


def test_effects_of_a_test_allow_for_its_chains():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4, 1000, 1))
    for k in range(1, 1000):
        z[:, k] = 0.9 * z[:, k - 1] + math.sqrt(1 - 0.81) * z[:, k]
    draws = collect([Block("a", ["a"], z, -z)])
    error = draws.test(n_resamples=49, rng=0).effects.shift_error[0]
    # The test leaves draws out between stretches.
    assert error == pytest.approx(draws.diagnose(n_resamples=49).effects.shift_error[0], rel=0.2)
    assert error > 3 * fs.effect_sizes(draws.x, draws.score).shift_error[0]


def test_bad_input_is_named():
    draws = run(0, n=500)
    with pytest.raises(ValueError, match="`level`"):
        draws.diagnose(level=0)
    with pytest.raises(TypeError, match="nothing"):
        draws.diagnose(nothing=1)
    with pytest.raises(ValueError, match=r"`x` must hold at least 20 draws"):
        run(0, chains=1, n=19).diagnose()


def test_short_chains_a_start_that_has_not_settled_and_chains_that_stand_still():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal((2, 100, 1)), axis=1)
    assert "the chains are too short to tell: about" in diagnosed(walk).notes()[0]
    assert "no sign" not in repr(diagnosed(walk))
    assert np.isnan(diagnosed(walk).pvalues_adjusted).all()
    data = diagnosed(walk).to_dict()["stein"]
    assert data["pvalue"] is None and data["stein_p"]["a"] is None and not data["reject"]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert np.isnan(diagnosed(walk).columns()["stein_p"]["a"])  # a number for data frames
    start = rng.standard_normal((4, 1000, 1))
    start[:, :100] += 4.0
    assert any("drop the first" in note for note in diagnosed(start).notes())
    stuck = rng.standard_normal((4, 500, 1))
    stuck[2] += 3.0
    assert "chain 2 is in another place than the others" in diagnosed(stuck).notes()[0]
    still = np.ones((4, 100, 3))
    with pytest.raises(ValueError, match="`draws` never change in a"):
        diagnosed(still)


def test_numbers_that_overflow_are_named_and_outliers_do_no_harm():
    z = np.random.default_rng(1).standard_normal((4, 100, 3))
    with pytest.raises(Overflow, match="so large or small that the statistic overflows"):
        collect([Block("a", ["a", "b", "c"], z * 1e200, -z / 1e200)]).diagnose(n_resamples=99)
    z[0, 17, 1] = 1e20
    diagnosis = diagnosed(z)  # warnings are errors here
    assert np.isfinite(diagnosis.effects.shift[[0, 2]]).all() and repr(diagnosis)


def test_words_for_a_newcomer():
    rng = np.random.default_rng(2)
    z = rng.standard_normal((4, 500, 3))
    z[:, :, 1] = np.abs(z[:, :, 1]) * np.sign(z[:, :, 0] * z[:, :, 2])  # of third order
    diagnosis = diagnosed(z)
    assert diagnosis.result.reject() and diagnosis.directions is None
    assert "no single parameter is clearly off" in diagnosis.notes()[1]
    assert "no sign" not in repr(diagnosis)
    assert diagnosis.notes()[-1].startswith("Stein p: p-value of each parameter by itself")
    located = replace(run(0).diagnose(), pvalues_adjusted=np.array([1.0, 0.01, 1.0]))
    assert "no sign that the draws taken together differ" in located.notes()[0]
    assert "stretch: width of the draws over that of the posterior, 1 if right" in repr(diagnosis)
    assert "no single parameter" not in repr(run(3, wide=1.5).diagnose())
    one = collect(
        [Block("a", ["a"], z[:, :, :1], -z[:, :, :1])], diverging=np.arange(2000) == 7
    ).diagnose(n_resamples=99)
    assert "1 draw is divergent" in one.notes()


def diagnosed(z):
    names = ["a", "b", "c"][: z.shape[2]]
    return collect([Block("a", names, z, -z)]).diagnose(n_resamples=99)
