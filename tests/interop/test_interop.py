"""Bridges to libraries that are not there."""

import sys

import numpy as np
import pytest

import fastsksd as fs


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_missing_library_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    bridge = getattr(fs.interop, name)
    bridge._loss_function.cache_clear()
    for call in (
        lambda: bridge.score_from_logp(abs),
        lambda: bridge.sksd_loss(np.eye(2), np.eye(2), (np.eye(2), np.eye(2))),
    ):
        with pytest.raises(
            ImportError, match=rf"needs {name}; install it with: pip install 'fastsksd\[{name}\]'"
        ):
            call()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("arviz", lambda bridge: bridge.draws("run.nc")),
        ("pymc", lambda bridge: bridge.score(None)),
        ("pymc", lambda bridge: bridge.draws(None, {})),
        ("numpyro", lambda bridge: bridge.score(abs)),
        ("numpyro", lambda bridge: bridge.draws(abs, {})),
    ],
)
def test_a_missing_sampler_is_named(name, call, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ImportError, match=rf"needs {name}; install it with: pip install 'fastsksd\[{name}\]'"
    ):
        call(getattr(fs.interop, name))


def test_there_are_no_other_bridges():
    assert {"arviz", "blackjax", "jax", "numpyro", "pymc", "scipy", "stan", "torch"} <= set(
        dir(fs.interop)
    )
    with pytest.raises(AttributeError, match="no attribute 'keras'"):
        _ = fs.interop.keras
