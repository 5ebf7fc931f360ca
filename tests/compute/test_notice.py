"""The notice that code is being compiled."""

import io
from types import SimpleNamespace

import pytest

from fastsksd.compute import notice
from fastsksd.compute.linalg import dot


class Terminal(io.StringIO):
    def isatty(self):
        return True


def compilation(function):
    return SimpleNamespace(data={"dispatcher": function})


@pytest.fixture
def said(monkeypatch):
    """What is printed for some compilations, each so many seconds long."""

    def run(stream, function=dot, seconds=(1.0, 1.0, 4.0)):
        now = [0.0]
        monkeypatch.setattr(notice.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(notice.sys, "stderr", stream)
        listener = notice._Notice()
        for duration in seconds:
            listener.on_start(compilation(function))
            now[0] += duration
            listener.on_end(compilation(function))
        return stream.getvalue()

    return run


def test_one_line_for_a_person(said):
    assert said(Terminal(), seconds=(1.0, 1.0)).count("\n") == 1
    assert "fastsksd warmup" in said(Terminal(), seconds=(1.0,))


def test_count_is_shown_when_it_takes_long_and_wiped_off(said):
    text = said(Terminal(), seconds=(1.0, 4.0, 1.0))
    assert text.count("\n") == 1
    assert "2 functions, 5 s" in text
    assert text.endswith("\r" + " " * 30 + "\r")


def test_seconds_are_those_of_compilation(monkeypatch):
    now, stream = [0.0], Terminal()
    monkeypatch.setattr(notice.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(notice.sys, "stderr", stream)
    listener = notice._Notice()
    for pause in (0.0, 3600.0):
        now[0] += pause
        listener.on_start(compilation(dot))
        now[0] += 2.0
        listener.on_start(compilation(dot))
        now[0] += 0.5
        listener.on_end(compilation(dot))
        listener.on_end(compilation(dot))
    assert "3 functions, 5 s" in stream.getvalue() and "36" not in stream.getvalue()


def test_one_function_is_not_several(said):
    assert "  1 function, 4 s" in said(Terminal(), seconds=(4.0, 1.0))


def test_nothing_for_a_program_or_for_code_of_others(said):
    assert said(io.StringIO()) == ""
    assert said(Terminal(), SimpleNamespace(py_func=lambda x: x)) == ""


def test_a_stream_that_fails_stops_nothing(said, monkeypatch):
    class Broken(Terminal):
        def write(self, text):
            raise BrokenPipeError

    assert said(Broken()) == ""
    closed = Terminal()
    closed.close()
    for stream in (None, object(), closed):
        monkeypatch.setattr(notice.sys, "stderr", stream)
        listener = notice._Notice()
        listener.on_start(compilation(dot))
        listener.on_end(compilation(dot))
        assert listener.done == 1
