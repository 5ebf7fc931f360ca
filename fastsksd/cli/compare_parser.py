"""The parser of ``fastsksd compare``; the work is in `compare`, imported when it is asked for."""

from __future__ import annotations

import argparse
from typing import Any

_COMPARE = """\
Compare how well models fit the samples in a file, or how close the samples in
several files are to one model. No model needs to be right.

  fastsksd compare draws.csv --score A=model:score_a --score B=model:score_b
  fastsksd compare long=a.csv short=b.csv --score model:score
  fastsksd compare draws.csv --score A=model:score_a --fit B=gaussian

A model whose parameters were fitted to these same samples must not be given with
--score: it is closer to them than to others. Normal distributions fitted to
samples of one were told better than the true one in 3 of 60 comparisons (500
samples, 2 dimensions), 12 (200, 10), 39 (1000, 20) and 59 (200, 50). --fit fits
the model to one part of the samples and compares it on the others.

exit code: 0 when one is told to be the best, 1 when the best can't be told from
another, 2 for an error, 3 when chains are too short to tell.
"""
# Flags of `test` that `compare` has too.
_COMPARED = {
    *("--columns", "--chains", "--drop-nan", "--lag", "--seed", "--kernel"),
    *("--json", "--html", "--quiet", "--debug"),
}


def _train(text: str) -> float:
    """A fraction or a number of samples, from a flag."""
    return float(text) if "." in text else int(text)


def add_compare(commands: Any, flags_of_test: dict[str, dict[str, Any]]) -> None:
    """Add the command to a parser, with some of the flags of ``fastsksd test``."""
    compare = commands.add_parser(
        "compare",
        help="which of several models fits the samples in a file better",
        description=_COMPARE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    compare.add_argument(
        "samples",
        metavar="SAMPLES",
        nargs="+",
        help="file of samples, as for test; several, as long=a.csv short=b.csv, are compared for "
        "one model",
    )
    compare.add_argument(
        "--score",
        action="append",
        default=[],
        metavar="NAME=MODULE:FUNCTION",
        help="score function or model with its name; once for each model",
    )
    compare.add_argument(
        "--fit",
        action="append",
        default=[],
        metavar="NAME=MODEL",
        help="a model that is fitted to the training samples, with its name: gaussian, laplace, "
        "student-t, ica, or MODULE:FUNCTION from samples to a model with .score",
    )
    compare.add_argument("--level", type=float, help="confidence of the intervals (default 0.95)")
    compare.add_argument(
        "--n-slices", type=int, metavar="N", help="active slices of each model (default 3)"
    )
    for flag, settings in flags_of_test.items():
        if flag in _COMPARED:
            compare.add_argument(flag, **settings)
    compare.add_argument(
        "--train",
        type=_train,
        help="fraction or number of samples that units, slices and bandwidths are learnt on, and "
        "models fitted to (default 0.2; 0.5 with --fit)",
    )
