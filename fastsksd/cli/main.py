"""The command line: ``fastsksd test``, ``compare``, ``demo``, ``info``, ``warmup``, ``bench``,
``reproduce``, ``report``.

Only parsers are here; the work is imported when it is asked for.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any, get_args

from .._typing import EngineName, Null
from .._version import __version__
from ..baselines import METHODS
from ..kernels import KERNELS
from .compare_parser import add_compare


def count(text: str) -> int:
    """A positive whole number, from a flag."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def positive(text: str) -> float:
    """A positive number that may have a fraction, from a flag."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("must be positive")
    return value


def seed(text: str) -> int:
    """A seed, from a flag."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def lag(text: str) -> str | float:
    """A lag, from a flag."""
    return text if text == "auto" else float(text)


def train(text: str) -> str | float:
    """A choice of training samples, from a flag."""
    return text if text == "cross" else float(text) if "." in text else count(text)


def tolerance(text: str) -> dict[str, float]:
    """Tolerances of shift and stretch, from a flag."""
    names, parts = ("shift", "stretch"), text.split(",")
    found = {}
    try:
        if "=" not in text:
            found = dict(zip(names, map(float, parts), strict=True))
        else:
            for part in parts:
                name, _, value = (one.strip() for one in part.partition("="))
                if name not in names or name in found:
                    raise ValueError(name)
                found[name] = float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(
            "must be a shift and a stretch, as 0.1,0.05, or one of them, as shift=0.1 or "
            f"stretch=0.05; got {text!r}"
        ) from None
    return found


_TEST = """\
Test whether the samples in a file follow a model that is known through its
score, the gradient of its log-density. Prints whether the model is rejected,
how strong the evidence is, and along which direction the model fails.
"""
_EXAMPLES = """\
examples:
  Scores at the samples, in a second file of the same shape:
    fastsksd test draws.npy --scores scores.npy

  A Python function score(x) -> array of the shape of x, from model.py in this
  folder:
    fastsksd test draws.csv --score model:score

  A named model for two of the columns; the rows are states of a Markov chain:
    fastsksd test draws.csv --columns alpha,beta \\
        --model gaussian --mean 0,1 --cov 2 --lag auto

  Draws of a posterior of a local posterior database, whose Stan model BridgeStan
  compiles; without a file, its reference draws:
    fastsksd test --posteriordb posteriordb eight_schools-eight_schools_centered \\
        draws.csv

  For a script, and a page to look at:
    fastsksd test draws.npz:x --scores draws.npz:score --json --html report.html

exit code: 0 when the model is not rejected, 1 when it is, 2 for an error, 3 when
chains are too short, or effective samples too few, to tell. With --tolerance: 0
when every effect is within it, whether the model is rejected or not, 1 when one
is beyond, 3 when it is undecided.

The density of the model must be on all of R^d: transform bounded variables (a
variance, a probability) first, with the Jacobian in the score. The very first
run compiles for about 7 seconds of CPU; `fastsksd warmup` does that beforehand.
"""
_USAGE = """\
fastsksd test SAMPLES (--scores FILE | --score MODULE:FUNCTION | --model NAME) [options]
       fastsksd test --posteriordb PATH POSTERIOR [SAMPLES] [options]"""
# Flag and its settings, in groups.
_WHAT: dict[str, dict[str, Any]] = {
    "samples": dict(
        metavar="SAMPLES",
        nargs="?",
        help="file with a row for each sample: .npy, .npz (file.npz:name for one of several "
        "arrays), .csv, .tsv, .txt (with or without a line of names), .parquet, .nc (ArviZ)",
    ),
    "--columns": dict(
        help="columns to test, by name or number from 0: a,b or 0,3:6 (default all); variables of "
        "an .nc file"
    ),
    "--chains": dict(
        metavar="COLUMN",
        help="column with the chain of each row, for draws of Markov chains in their order, which "
        "are then tested with --lag auto; it is no coordinate (an .nc file, and an array (chains, "
        "draws, coordinates), know their chains; with --posteriordb they must be equally long)",
    ),
    "--weights": dict(
        metavar="COLUMN",
        help="column with the importance weight of each row, for particles and importance samples; "
        "it is no coordinate",
    ),
    "--drop-nan": dict(
        action="store_true",
        help="leave out rows with missing values, NaN or infinity, which are otherwise an error",
    ),
    "--divergences": dict(
        choices=["keep", "error", "drop"],
        help="what to do about divergent draws of .nc files (default keep, with a note)",
    ),
    "--stream": dict(
        action=argparse.BooleanOptionalAction,
        default=None,
        help="read the file once, in blocks, for samples that do not fit into memory (default: for "
        "files beyond 32 MB)",
    ),
}
_AGAINST: dict[str, dict[str, Any]] = {
    "--scores": dict(metavar="FILE", help="file with the score at each sample, of the same shape"),
    "--score": dict(
        metavar="MODULE:FUNCTION",
        help="Python function from (n, d) samples to (n, d) scores, or a model object; also "
        "file.py:function",
    ),
    "--model": dict(
        metavar="NAME",
        help="gaussian, laplace or student-t (standard unless the flags below say otherwise), or a "
        '.json file like {"model": "mixture", "weights": [0.5, 0.5], "means": [[-1], [1]], '
        '"covs": 1} (also ica, rbm)',
    ),
    "--fit": dict(
        metavar="NAME",
        help="fit the model to the samples themselves, and refit it to samples of the fitted one: "
        "gaussian, laplace, student-t, ica, or MODULE:FUNCTION from samples to a model with .score "
        "and .sample; also file.py:function",
    ),
    "--jobs": dict(type=count, metavar="N", help="processes of --fit (default: none)"),
    "--checkpoint": dict(
        metavar="FILE", help="file in which --fit keeps its refits; the same command goes on"
    ),
    "--mean": dict(
        help="mean of gaussian: a number, numbers separated by commas, or a file of them "
        "(default 0)"
    ),
    "--cov": dict(
        help="covariance of gaussian: a variance, variances separated by commas, or a file with "
        "these or a matrix (default 1)"
    ),
    "--loc": dict(help="centre of laplace and student-t, like --mean (default 0)"),
    "--scale": dict(
        help="scale of laplace (default 0.707, which has unit variance) and student-t (default 1), "
        "like --mean"
    ),
    "--df": dict(help="degrees of freedom of student-t (default 5)"),
}
_DATABASE: dict[str, dict[str, Any]] = {
    "--posteriordb": dict(
        nargs=2,
        metavar=("PATH", "POSTERIOR"),
        help="a posterior of a local posterior database: SAMPLES are constrained draws, in columns "
        "named as in Stan (theta[1] or theta.1); without them, the reference draws are tested. "
        "BridgeStan compiles the model; --score takes its place where it can't",
    )
}
_HOW: dict[str, dict[str, Any]] = {
    "--alpha": dict(
        type=float,
        default=0.05,
        help="level of the test: how often a correct model may be rejected (default 0.05)",
    ),
    "--lag": dict(
        type=lag,
        help="for the samples of a Markov chain in their order: auto, or the number of draws that "
        "share a random sign (default: independent samples; auto for .nc files and --chains)",
    ),
    "--seed": dict(
        type=seed, default=0, help="random seed; the same seed gives the same answer (default 0)"
    ),
    "--null": dict(
        choices=get_args(Null),
        help="null distribution; spectral gives p-values far below 1/1000 (default wild)",
    ),
    "--n-resamples": dict(
        type=count,
        metavar="N",
        help="replicates of the null distribution (default 1000; refits of --fit, default 199)",
    ),
    "--n-slices": dict(
        type=count,
        metavar="N",
        help="number of active slices to test along (default: a family of statistics)",
    ),
    "--basis": dict(choices=["identity"], help="project scores on the coordinates only"),
    "--estimator": dict(choices=["ke", "ge", "ksd"], help="how slices are found (default ke)"),
    "--precondition": dict(
        choices=["auto", "raw", "diagonal", "full"],
        help="coordinates of the test (default auto: none that depend on units)",
    ),
    "--train": dict(
        type=train,
        help="samples that slices are found on: cross, a fraction or a number (default cross; "
        "0.2 with --n-slices or --basis)",
    ),
    "--kernel": dict(choices=[*KERNELS], help="kernel along slices (default rbf)"),
    "--bandwidth": dict(
        type=float, metavar="H", help="of the kernel (default: the median heuristic)"
    ),
    "--engine": dict(
        choices=get_args(EngineName),
        help="how sums over pairs are computed; cuda: on a GPU (default auto)",
    ),
    "--tolerance": dict(
        type=tolerance,
        metavar="SHIFT,STRETCH",
        help="effects that do not matter: a shift in standard deviations and a fraction by which "
        "samples are wider or narrower, as 0.1,0.05, or one of them, as shift=0.1; the report says "
        "whether they are within, and so does the exit code (for a model that was not fitted to "
        "these samples: such a fit takes the effects away)",
    ),
    "--method": dict(choices=METHODS, help="sksd, or another test for comparison (default sksd)"),
}
_OUTPUT: dict[str, dict[str, Any]] = {
    "--json": dict(
        action="store_true", help="print the result as JSON; notes go to standard error"
    ),
    "--html": dict(metavar="FILE", help="write a report with figures, one self-contained page"),
    "--quiet": dict(action="store_true", help="no notes and no progress"),
    "--debug": dict(action="store_true", help="show where an error came from"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the console command; returns the exit code."""
    argv = sys.argv[1:] if argv is None else list(argv)
    arguments = _parser().parse_args(_with_negatives(argv))
    arguments.line = shlex.join(["fastsksd", *argv])
    try:
        return _COMMANDS[arguments.command](arguments)
    except KeyboardInterrupt as stop:
        print(f"\n{str(stop) or 'interrupted'}", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fastsksd",
        description="Goodness-of-fit tests by sliced kernelized Stein discrepancies.",
    )
    parser.add_argument("--version", action="version", version=f"fastsksd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_test(commands)
    add_compare(commands, _WHAT | _HOW | _OUTPUT)
    demo = commands.add_parser(
        "demo", help="test a built-in model that fails along one hidden direction in 50 dimensions"
    )
    demo.add_argument("--seed", type=seed, default=0, help="random seed (default 0)")
    commands.add_parser("info", help='versions, threads, GPUs, and what engine="auto" chooses')
    warmup = commands.add_parser(
        "warmup", help="compile ahead what later calls need, for images, clusters and classrooms"
    )
    warmup.add_argument(
        "--jobs",
        type=count,
        help="processes that compile side by side (default: the number of cores)",
    )
    bench = commands.add_parser(
        "bench", help="speed against vectorised NumPy, measured side by side"
    )
    bench.add_argument(
        "--repeat",
        type=count,
        default=7,
        help="runs per measurement, of which the median is shown (default 7)",
    )
    bench.add_argument(
        "--engine",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: GPU kernels, measured against predictions (default cpu)",
    )
    bench.add_argument(
        "--loaded",
        action="store_true",
        help="calls beside busy processes, which the command starts and ends itself",
    )
    bench.add_argument(
        "--peers", action="store_true", help="the same work in JAX, which must be installed"
    )
    _add_reproduce(commands)
    report = commands.add_parser(
        "report", help="write a page from the results that studies left in a folder"
    )
    report.add_argument("folder", help="where `fastsksd reproduce` left them, finished or not")
    return parser


def _add_test(commands: Any) -> None:
    test = commands.add_parser(
        "test",
        help="test whether the samples in a file follow a model",
        usage=_USAGE,
        description=_TEST,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    against = "against what (one of the first three; an .nc file may hold the gradients itself)"
    for title, flags in {
        "what to test": _WHAT,
        against: _AGAINST | _DATABASE,
        "how (the defaults suit most problems)": _HOW,
        "output": _OUTPUT,
    }.items():
        group = test.add_argument_group(title)
        for flag, settings in flags.items():
            group.add_argument(flag, **settings)


def _add_reproduce(commands: Any) -> None:
    reproduce = commands.add_parser(
        "reproduce", help="run a study, or all of them, and write reports"
    )
    reproduce.add_argument("name", help="a study (an unknown name lists them), or all")
    reproduce.add_argument("--scale", default="quick", help="smoke, quick (default) or paper")
    reproduce.add_argument(
        "--out", default="results", help="folder of results and report (default: results)"
    )
    reproduce.add_argument(
        "--jobs",
        type=count,
        default=1,
        help="processes, each on one thread (default 1, on all threads)",
    )
    reproduce.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="run trials on the workers of this Dask scheduler, as tcp://10.0.0.1:8786",
    )
    reproduce.add_argument(
        "--resume", action="store_true", help="continue with what the folder holds"
    )
    reproduce.add_argument(
        "--minutes",
        type=positive,
        help="begin no trial after so many minutes (of each study); go on later with --resume",
    )


def _test(arguments: argparse.Namespace) -> int:
    from .test import run_test

    return run_test(arguments)


def _compare(arguments: argparse.Namespace) -> int:
    from .compare import run_compare

    return run_compare(arguments)


def _with_negatives(argv: Sequence[str]) -> list[str]:
    """``--mean -1,2`` as ``--mean=-1,2``, which argparse would take for an option."""
    joined: list[str] = []
    for text in argv:
        if joined and joined[-1] in ("--mean", "--loc") and re.match(r"-[\d.]", text):
            joined[-1] += f"={text}"
        else:
            joined.append(text)
    return joined


def _demo(arguments: argparse.Namespace) -> int:
    from .demo import run_demo

    print(run_demo(arguments.seed))
    return 0


def _info(arguments: argparse.Namespace) -> int:
    from .info import info_lines

    for line in info_lines():
        print(line, flush=True)
    return 0


def _warmup(arguments: argparse.Namespace) -> int:
    from ..compute.threads import core_count
    from .warmup import run_warmup

    try:
        for line in run_warmup(arguments.jobs or core_count()):
            print(line, flush=True)
    except OSError as error:
        print(f"fastsksd: {error}", file=sys.stderr)
        return 2
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from ..engines.cuda import CudaUnavailable
    from .shell import Shell

    if (arguments.loaded or arguments.peers) and arguments.engine == "cuda":
        flag = "--loaded" if arguments.loaded else "--peers"
        print(f"fastsksd: {flag} is for the CPU; leave out --engine cuda.", file=sys.stderr)
        return 2
    if arguments.peers:
        from .peers_bench import run_peers_bench

        lines = run_peers_bench(arguments.repeat)
    elif arguments.loaded:
        from .loaded import run_loaded_bench

        lines = run_loaded_bench(arguments.repeat)
    elif arguments.engine == "cuda":
        from .device_bench import run_device_bench

        lines = run_device_bench(arguments.repeat)
    else:
        from .bench import run_bench

        lines = run_bench(arguments.repeat)
    try:
        for line in lines:
            print(line, flush=True)
    except (CudaUnavailable, ImportError) as error:
        print(f"fastsksd: {Shell().said(error)}", file=sys.stderr)
        return 2
    return 0


def _reproduce(arguments: argparse.Namespace) -> int:
    from .._progress import ProgressBar
    from ..experiments import RunError, names_of, reproduce
    from ..scale.cluster import ClientLost, connected

    if arguments.dask is not None and arguments.jobs != 1:
        print(
            "fastsksd: --jobs and --dask both say where trials run; give one of them.",
            file=sys.stderr,
        )
        return 2
    try:
        names = names_of(arguments.name, arguments.scale)
        with connected(arguments.dask) as client:
            for name in names:
                options = dict(
                    jobs=arguments.jobs,
                    client=client,
                    resume=arguments.resume,
                    minutes=arguments.minutes,
                    progress=ProgressBar(name),
                )
                print(
                    *reproduce(name, arguments.scale, arguments.out, **options),
                    sep="\n",
                    flush=True,
                )
    except (RunError, ImportError, ClientLost) as error:
        print(f"fastsksd: {error}", file=sys.stderr)
        return 2
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from ..experiments import RunError, write_page

    try:
        print(write_page(arguments.folder))
    except (RunError, ImportError) as error:
        print(f"fastsksd: {error}", file=sys.stderr)
        return 2
    return 0


_COMMANDS = {
    "test": _test,
    "compare": _compare,
    "demo": _demo,
    "info": _info,
    "warmup": _warmup,
    "bench": _bench,
    "reproduce": _reproduce,
    "report": _report,
}
