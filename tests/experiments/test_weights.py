"""The study of importance weights: its samples, and its table."""

import numpy as np
import pytest

from fastsksd.experiments import weights


@pytest.mark.parametrize("kind", ["wide", "shift", "narrow"])
def test_weights_lead_to_the_standard_normal_distribution(kind):
    x, w = weights.weighted_samples(kind, 3, 200_000, np.random.default_rng(0))
    w /= w.sum()
    assert np.abs(x.mean(axis=0)).max() > 0.3 or abs(np.std(x) - 1.0) > 0.1
    np.testing.assert_allclose(w @ x, 0.0, atol=0.02)
    np.testing.assert_allclose((w * x.T) @ x, np.eye(3), atol=0.04)


def test_a_small_study():
    settings = weights.SCALES["smoke"] | dict(block=1, tests=1)
    rng = np.random.default_rng(0)
    rows = [
        row for task in weights.tasks(settings) for row in weights.run_task(task, settings, rng)
    ]
    assert len(rows) == 8 and {row["model"] for row in rows} == {"right", "shifted", "narrower"}
    table = weights.report(rows, settings)[-1]
    assert len(table.rows) == 2 and table.rows[0][:3] == ["wide", 2, 100]
