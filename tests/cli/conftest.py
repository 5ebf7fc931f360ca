"""A folder to work in, and the command ``fastsksd test`` in it."""

import sys

import pytest

from fastsksd.cli.main import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in ("model", "score_of_model", "score_of_json"):
        if name not in known:
            sys.modules.pop(name, None)


@pytest.fixture
def run(folder, capsys):
    """Runs the command; returns exit code, standard output and standard error."""

    def run(*arguments):
        try:
            code = main(["test", *arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return run
