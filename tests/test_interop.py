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
    for call in (lambda: bridge.score_from_logp(abs), lambda: bridge.sksd_loss(np.eye(2), np.eye(2), (np.eye(2), np.eye(2)))):
        with pytest.raises(ImportError, match=rf"needs {name}; install it with: pip install 'fastsksd\[{name}\]'"):
            call()


def test_there_are_no_other_bridges():
    assert {"jax", "torch"} <= set(dir(fs.interop))
    with pytest.raises(AttributeError, match="no attribute 'keras'"):
        _ = fs.interop.keras
