"""The study of MCMC runs: runs of every kind, what the tests and alarms say, its report."""

import numpy as np
import pytest

from fastsksd.experiments import approximations, failures, mcmc, posteriors, report, runner

NAME = "discoveries, negative binomial"
MOMENTS = approximations.Moments(np.array([1.2, -0.4, -1.0, 1.9]), np.diag([0.01, 0.02, 0.05, 0.2]))


@pytest.fixture(autouse=True)
def short_warm_up(monkeypatch):
    monkeypatch.setattr(failures, "_WARM_UP", 80)


def test_runs_of_every_kind():
    counts = dict.fromkeys(failures.KINDS, 2)
    runs = failures.make_runs(NAME, counts, 60, np.random.default_rng(0))
    assert set(runs) == set(failures.KINDS)
    for kind, x in runs.items():
        assert x.shape == (2, 4, 60, 4) and np.isfinite(x).all(), kind
    stuck = runs["chain stuck"]
    still = (np.diff(stuck, axis=2) == 0).all(axis=3)
    assert (still[:, :3].sum(axis=2) < 20).all() and (still[:, 3].sum(axis=1) >= 29).all()
    # A prior of a third of the width pulls the constant to zero, and no Jacobian the size down.
    constant, size = (runs["good"][..., k].mean() for k in (0, 3))
    assert runs["wrong prior"][..., 0].mean() < constant
    assert runs["wrong Jacobian"][..., 3].mean() < size
    # The chains of a run that keeps its warm-up start far away.
    first = np.abs(runs["warm-up kept"][:, :, 0] - runs["good"].mean(axis=(0, 1, 2)))
    assert first.mean() > 2 * np.abs(runs["good"] - runs["good"].mean(axis=(0, 1, 2))).mean()


def test_laplace_is_at_the_mode():
    posterior = posteriors.load(NAME)
    mode, root = approximations.laplace(posterior, MOMENTS)
    cov = root @ root.T
    np.testing.assert_allclose(posterior.score(mode[None]), 0.0, atol=1e-3)
    # One Newton step from nearby leads there.
    near = mode + 0.01 * np.sqrt(np.diag(cov))
    np.testing.assert_allclose(near + cov @ posterior.score(near[None])[0], mode, atol=1e-3)


class Normal(posteriors.Posterior):
    """A normal distribution with correlated coordinates."""

    names = ("a", "b")
    mean = np.array([1.0, -2.0])
    precision = np.array([[2.0, 1.2], [1.2, 1.0]])

    def density(self, x):
        slope = -(x - self.mean) @ self.precision
        return 0.5 * ((x - self.mean) * slope).sum(axis=1), slope


def test_approximations_of_a_normal_distribution():
    """Laplace is exact, mean field has too small deviations, and Langevin too large ones."""
    rng, normal = np.random.default_rng(0), Normal()
    cov = np.linalg.inv(normal.precision)
    moments = approximations.Moments(normal.mean + 0.1, cov)
    mode, root = approximations.laplace(normal, moments)
    np.testing.assert_allclose(mode, normal.mean, atol=1e-4)
    np.testing.assert_allclose(root @ root.T, cov, rtol=1e-4)
    mean, deviation = approximations.mean_field(normal, moments, rng)
    np.testing.assert_allclose(mean, normal.mean, atol=0.05)
    np.testing.assert_allclose(deviation, 1 / np.sqrt(np.diag(normal.precision)), rtol=0.05)
    x = approximations.langevin(normal, moments, 400, 100, rng).reshape(-1, 2)
    # In units of the deviations, along direction v of curvature c: variance 1 / (c (1 - h c / 4)).
    unit = moments.deviation
    curvature, v = np.linalg.eigh(np.outer(unit, unit) * normal.precision)
    along = ((x - normal.mean) / unit) @ v
    expected = 1 / (curvature * (1 - curvature / curvature.max() / 4))
    np.testing.assert_allclose(along.var(axis=0), expected, rtol=0.05)


def test_draws_of_eight_schools_are_those_of_both_parametrisations(monkeypatch):
    monkeypatch.setattr(failures, "_WARM_UP", 40)
    counts = {"good": 1, "step too long": 1}
    x = failures.make_runs(failures.CENTRED, counts, 20, np.random.default_rng(0))["good"]
    flat = x.reshape(-1, 10)
    eta = (flat[:, 2:] - flat[:, :1]) / np.exp(flat[:, 1:2])
    assert np.abs(eta).max() < 6.0 and np.ptp(flat[:, 1]) > 0.5


def test_a_study_and_its_report(monkeypatch, tmp_path):
    settings = dict(posteriors=[NAME], blocks=1, good=2, wrong=1, draws=80, n_resamples=49)
    monkeypatch.setitem(mcmc.SCALES, "tiny", settings)
    rows = runner.run("mcmc", "tiny", tmp_path)
    assert len(rows) == 10 and {row["kind"] for row in rows} == set(failures.KINDS)
    mean_field = next(row for row in rows if row["kind"] == "mean field")
    assert mean_field["rhat"] < 1.1 and mean_field["ess"] > 80
    blocks = mcmc.report(rows, settings)
    table = next(block for block in blocks if isinstance(block, report.Table))
    assert [line[0] for line in table.rows] == list(failures.KINDS)
    assert table.rows[0][1] == 2
    assert any(isinstance(block, report.Figure) for block in blocks)


def test_what_tests_and_alarms_say():
    row = {"p": 0.01, "ksd": None, "rhat": 1.0, "ess": 500.0, "different": [], "burn_in": 0}
    rows = [row, row | {"p": None}, row | {"ess": 399.0, "ksd": 0.05}, row | {"rhat": 1.02}]
    rows[1] |= {"different": [3]}
    rows[2] |= {"burn_in": 25}
    said = {name: values.tolist() for name, values in mcmc._said(rows).items()}
    assert said["rejected"] == [True, False, True, True]
    assert said["too short"] == [False, True, False, False]
    assert said["R-hat or ESS"] == [False, False, True, True]
    assert said["chains differ"] == [False, True, False, False]
    assert said["burn-in"] == [False, False, True, False]
    assert said["KSD"] == [False, False, True, False]
    assert said["rejected, no alarm"] == [True, False, False, False]


def test_data_that_are_not_there_stop_the_study_at_once(monkeypatch, tmp_path):
    def missing(name):
        raise posteriors.DataMissing("the data set 'wine' is in scikit-learn: pip install ...")

    monkeypatch.setattr(mcmc, "load", missing)
    with pytest.raises(runner.RunError, match="'wine' is in scikit-learn"):
        runner.run("mcmc", "paper", tmp_path)
