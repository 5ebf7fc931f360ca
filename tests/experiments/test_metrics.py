"""The study of metrics on posteriors: its draws, rows and report."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.experiments import metrics, report, reproduce
from fastsksd.experiments.approximations import Moments
from fastsksd.experiments.failures import independent_draws
from fastsksd.experiments.posteriors import load


def test_draws_of_a_posterior_are_independent_and_right():
    name = "discoveries, negative binomial"
    (first, second), moments = independent_draws(name, 2, 500, np.random.default_rng(0))
    assert first.shape == second.shape == (500, 4) and not np.any(first[0] == second)
    assert np.abs((first.mean(axis=0) - moments.mean) / moments.deviation).max() < 4 / 22
    for x in (first, second):
        assert fs.gof_test(x, load(name).score, n_resamples=199, rng=0).pvalue > 0.01
    # Neighbours are of different chains, so that their order says nothing either.
    z = (first - moments.mean) / moments.deviation
    assert np.abs((z[1:] * z[:-1]).mean(axis=0)).max() < 4 / 22


def test_a_tail_is_missing():
    cov = np.array([[4.0, 1.9], [1.9, 1.0]])
    moments = Moments(np.array([1.0, -2.0]), cov)
    x = (
        moments.mean
        + np.random.default_rng(0).standard_normal((1000, 2)) @ np.linalg.cholesky(cov).T
    )
    kept = metrics.without_tail(x, moments, 900, np.random.default_rng(1))
    v = np.random.default_rng(1).standard_normal(2)
    z = np.linalg.solve(np.linalg.cholesky(cov), (x - moments.mean).T).T @ v
    np.testing.assert_array_equal(kept, x[z <= np.sort(z)[899]])


def _row(kind, p, posterior="discoveries, negative binomial"):
    return dict(posterior=posterior, block=0, kind=kind, d=4, p=dict.fromkeys(metrics.TESTS, p))


def test_report_counts_rejections():
    rows = [_row("right", 0.5), _row("right", 0.04), _row("shrunk", 0.01), _row("shrunk", 0.02)]
    rows[2]["p"]["raw"] = 0.9
    text = report.markdown("metrics", "", metrics.report(rows, metrics.SCALES["smoke"]))[0]
    assert f"| right | 2 | {report.show_rate(1, 2)} |" in text
    assert f"| shrunk | 2 | {report.show_rate(2, 2)} | {report.show_rate(1, 2)} |" in text
    assert "| discoveries, negative binomial | 4 | 1, 1 of 2 | 2, 1 of 2 |  |" in text


@pytest.mark.filterwarnings("error")
def test_metrics_study(tmp_path):
    text = reproduce("metrics", "smoke", tmp_path)[0].read_text()
    for kind in metrics.KINDS:
        assert f"| {kind} | {1 if kind == 'Laplace' else 2} |" in text
