"""Examples in the docstrings of bridges to other libraries run where these are installed; elsewhere they are skipped, visibly."""

import importlib.util
from pathlib import Path

import pytest

_LIBRARY = {f"interop/{name}.py": name for name in ("torch", "jax", "pymc", "numpyro", "blackjax")} | {"learning/lsd.py": "jax"}


def pytest_collection_modifyitems(items):
    for item in items:
        if not isinstance(item, pytest.DoctestItem):
            continue
        path = "/".join(Path(item.path).parts[-2:])
        if path == "interop/stan.py":
            item.add_marker(pytest.mark.skip(reason="needs a compiled model: test_interop_stan.py runs them"))
        elif path in _LIBRARY and importlib.util.find_spec(_LIBRARY[path]) is None:
            item.add_marker(pytest.mark.skip(reason=f"needs {_LIBRARY[path]}"))
