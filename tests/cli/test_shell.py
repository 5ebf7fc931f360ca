"""Arguments and options of the library as the shell writes them."""

import argparse

import pytest

from fastsksd._validate import ArgumentError, ArgumentTypeError, Option
from fastsksd.cli.main import _parser
from fastsksd.cli.shell import _FLAGS, Shell

SHELL = Shell({"x": "draws.csv", "score": "--score model:score"})


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (Option("null", "wild"), "--null wild"),
        (Option("n_slices", 3), "--n-slices 3"),
        (Option("lag"), "--lag"),
        (Option("on_nan", "drop"), "--drop-nan"),
        (Option("on_divergence", "keep"), "--divergences keep"),
        (Option("x"), "draws.csv"),
        (Option("score"), "--score model:score"),
        (Option("slices"), "slices in Python"),
        (Option("debias", True), "debias=True in Python"),
    ],
)
def test_options(option, text):
    assert SHELL.option(option) == text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ArgumentError("n_slices", "must be 1; got 3"), "--n-slices must be 1; got 3."),
        (ArgumentTypeError("x", "is complex"), "draws.csv: is complex."),
        (ArgumentError("score", "returned NaN"), "--score model:score: returned NaN."),
        (ArgumentError("slices", "do not fit"), "`slices` do not fit."),
        (
            ArgumentError("train", "needs ", Option("lag", "auto"), remedy="Give more."),
            "--train needs --lag auto. Give more.",
        ),
        (
            ArgumentError("x", "is flat", remedy=("Give ", Option("bandwidth"), ".")),
            "draws.csv: is flat. Give --bandwidth.",
        ),
        # What is not said of an argument is left as it is, whatever it looks like.
        (ValueError("`lag` is for null='wild'."), "`lag` is for null='wild'."),
        (ArgumentError("x", "has a column lag=1"), "draws.csv: has a column lag=1."),
    ],
)
def test_errors(error, text):
    assert SHELL.said(error) == text


def test_every_flag_exists():
    commands = next(
        action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    known = {
        flag
        for name in ("test", "compare")
        for flag in commands.choices[name]._option_string_actions
    }
    assert set(_FLAGS.values()) <= set(known)
