"""``fastsksd bench --peers``: JAX does the same work, not less."""

import sys

import numpy as np
import pytest

from fastsksd.cli import main, peers_bench


def test_without_jax_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "jax", None)
    assert main(["bench", "--peers"]) == 2
    assert "pip install 'fastsksd[jax]'" in capsys.readouterr().err


def test_not_with_a_gpu(capsys):
    assert main(["bench", "--peers", "--engine", "cuda"]) == 2
    assert "--peers is for the CPU" in capsys.readouterr().err


def test_both_compute_the_same(monkeypatch):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr(peers_bench, "_SIZES", ((60, 4, 20),))
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        (_, ours, theirs), (_, value, gradients) = peers_bench._works()
        sums, replicates = ours()
        total, others = theirs(jax, np.float64)()
        np.testing.assert_allclose(sums.sum(), total, rtol=1e-7)
        np.testing.assert_allclose(replicates, others, rtol=1e-6, atol=1e-6)
        own, slopes = value()
        other, (by_score, by_g, by_r) = gradients(jax, np.float64)()
        np.testing.assert_allclose(own, other, rtol=1e-9)
        for name, array in (("score", by_score), ("g", by_g), ("r", by_r)):
            np.testing.assert_allclose(slopes[name], array, atol=1e-9)
    finally:
        jax.config.update("jax_enable_x64", before)


def test_table(monkeypatch, capsys):
    pytest.importorskip("jax")
    monkeypatch.setattr(peers_bench, "_SIZES", ((30, 2, 10),))
    assert main(["bench", "--peers", "--repeat", "1"]) == 0
    assert "| statistic and 10 replicates, n = 30, 2 slices |" in capsys.readouterr().out
