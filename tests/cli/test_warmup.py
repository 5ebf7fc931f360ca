"""``fastsksd warmup``."""

from fastsksd.cli import main, warmup


def test_every_task_says_what_it_compiled(monkeypatch, capsys):
    monkeypatch.setattr(warmup, "TASKS", {"training": warmup.TASKS["training"]})
    assert main(["warmup", "--jobs", "1"]) == 0
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("training: ") and "functions compiled" in first
    assert last.startswith("ready after") and "kept in" in last


def test_no_folder_to_keep_code_in(monkeypatch, capsys):
    monkeypatch.setattr(warmup, "folder_of", lambda function: None)
    assert main(["warmup"]) == 2
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
