"""The study of fitted models: its energy-based model, and p-values from pooled refits."""

import numpy as np

from fastsksd.experiments import fit, run


def test_energy_model_has_the_score_of_its_samples():
    model = fit.Energy(np.array([0.1, 0.2, -1.0, 0.5, 0.5, 0.4]))
    x = model.sample(20000, rng=0)
    products = model.score(x)[:, :, None] * x[:, None, :] + np.eye(2)  # E s x^T = -I
    assert np.all(np.abs(products.mean(axis=0)) < 5 * products.std(axis=0) / np.sqrt(len(x)))

    def energy(x):
        u, v = x.T
        return np.stack([u, v, u**2, u * v, v**2, u**4], axis=1) @ model.theta

    step = 1e-6 * np.eye(2)
    slopes = [(energy(x[:9] + one) - energy(x[:9] - one)) / 2e-6 for one in step]
    np.testing.assert_allclose(model.score(x[:9]), -np.stack(slopes, axis=1), atol=1e-6)
    np.testing.assert_allclose(fit.Energy.fit(x).theta, model.theta, atol=0.1)


def test_pooled_refits():
    rows = [
        {"statistics": [float(k)], "refit": [float(k)] if k else None, "weights": [1.0]}
        for k in range(20)
    ]
    found = fit.pvalues_of(rows)
    # 19 refits, of which one failed: it counts for every run.
    expected = [(1 + sum(j >= k for j in range(1, 20)) + 1) / 21 for k in range(20)]
    np.testing.assert_allclose(found, expected)


def test_rows_and_report(monkeypatch, tmp_path):
    chains = [[0.5, 2, 200, 2, True], [0.5, 2, 200, 2, False], [0.97, 2, 100, 2, True]]
    settings = dict(
        cells=[["normal", 2], ["t", 2]], chains=chains, n=60, runs=4, block=2, n_refits=19
    )
    monkeypatch.setitem(fit.SCALES, "tiny", settings)
    rows = run("fit", "tiny", tmp_path)
    sets = [row for row in rows if row["case"] != "chains"]
    assert len(sets) == 8 and all(len(row["refit"]) == len(row["statistics"]) for row in sets)
    tables = [block for block in fit.report(rows, settings) if hasattr(block, "rows")]
    assert [table.rows[0][:3] for table in tables[:2]] == [["normal", 2, 4], ["t", 2, 4]]
    found = {(row[0], row[1]): row[5:8] for row in tables[2].rows}
    assert found[("normal", 0.97)] == [4, 4, ""]  # too short to tell
    assert found[("normal", 0.5)][:2] == found[("t (wrong)", 0.5)][:2] == [4, 0]
    assert 40 < int(found[("normal", 0.5)][2]) < 100  # draws left of 400
