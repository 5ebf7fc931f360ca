"""The command line: ``fastsksd test``, ``demo``, ``info``, ``bench`` and ``reproduce``. Only parsers here; the work is imported when asked for."""

import argparse
import re
import shlex
import sys

from .._version import __version__

_TEST = """\
Do the samples in a file follow a model that is known through its score, the
gradient of its log-density? Prints whether the model is rejected, how surely,
and along which direction it fails.
"""
_EXAMPLES = """\
examples:
  Scores at the samples, in a second file of the same shape:
    fastsksd test draws.npy --scores scores.npy

  A Python function score(x) -> array of the shape of x, from model.py in this
  folder:
    fastsksd test draws.csv --score model:score

  A named model for two of the columns; the rows are the states of a Markov chain:
    fastsksd test draws.csv --columns alpha,beta \\
        --model gaussian --mean 0,1 --cov 2 --lag auto

  For a script, and a page to look at:
    fastsksd test draws.npz:x --scores draws.npz:score --json --html report.html

exit code: 0 when the model is not rejected, 1 when it is, 2 for an error.

The model's density must be on all of R^d: transform bounded variables (a
variance, a probability) first, with the Jacobian in the score. The very first
run compiles for about 20 seconds.
"""


def main(argv=None):
    """Entry point of the console command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="fastsksd",
        description="Goodness-of-fit tests by sliced kernelized Stein discrepancies.",
    )
    parser.add_argument("--version", action="version", version=f"fastsksd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    _add_test(commands)
    demo = commands.add_parser(
        "demo", help="test a built-in model that fails along one hidden direction in 50 dimensions"
    )
    demo.add_argument("--seed", type=seed, default=0, help="random seed (default 0)")
    commands.add_parser("info", help='versions, threads, GPUs, and what engine="auto" would choose')
    bench = commands.add_parser(
        "bench", help="speed against vectorised NumPy, measured side by side"
    )
    bench.add_argument(
        "--repeat",
        type=count,
        default=7,
        help="runs per measurement, the median counts (default 7)",
    )
    bench.add_argument(
        "--engine",
        choices=("cpu", "cuda"),
        default="cpu",
        help="cuda: GPU kernels, measured against predicted (default cpu)",
    )
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
    reproduce.add_argument("--resume", action="store_true", help="go on with what the folder holds")
    argv = sys.argv[1:] if argv is None else list(argv)
    arguments = parser.parse_args(_with_negatives(argv))
    arguments.line = shlex.join(["fastsksd", *argv])
    try:
        commands = {
            "test": _test,
            "demo": _demo,
            "info": _info,
            "bench": _bench,
            "reproduce": _reproduce,
        }
        return commands[arguments.command](arguments)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


def _add_test(commands):
    test = commands.add_parser(
        "test",
        help="test whether the samples in a file follow a model",
        usage="fastsksd test SAMPLES (--scores FILE | --score MODULE:FUNCTION | --model NAME) [options]",
        description=_TEST,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = test.add_argument_group("what to test")
    what.add_argument(
        "samples", metavar="SAMPLES", help="file with a row for each sample: .npy, .npz (file.npz:name for one of several arrays), .csv, .tsv, .txt "
        "(with or without a line of names), .parquet, .nc (ArviZ)",
    )  # fmt: skip
    what.add_argument(
        "--columns",
        help="columns to test, by name or number from 0: a,b or 0,3:6 (default all); variables of an .nc file",
    )
    what.add_argument(
        "--drop-nan",
        action="store_true",
        help="leave out rows with missing values, NaN or infinity, which are an error else",
    )
    what.add_argument(
        "--divergences",
        choices=["error", "drop", "keep"],
        help="of .nc files: what to do about draws that diverged (default error)",
    )
    what.add_argument(
        "--stream", action=argparse.BooleanOptionalAction, default=None, help="read the file in blocks and test along one set of slices, for samples that "
        "do not fit into memory (default: for files beyond 32 MB)",
    )  # fmt: skip

    against = test.add_argument_group(
        "against what (one of the first three; an .nc file may hold the gradients itself)"
    )
    against.add_argument(
        "--scores", metavar="FILE", help="file with the score at each sample, of the same shape"
    )
    against.add_argument(
        "--score",
        metavar="MODULE:FUNCTION",
        help="Python function from (n, d) samples to (n, d) scores, or a model object; also file.py:function",
    )
    against.add_argument("--model", metavar="NAME", help="gaussian, laplace or student-t (standard ones, but for the following), or a .json file "
                         'like {"model": "mixture", "weights": [0.5, 0.5], "means": [[-1], [1]], "covs": 1} (also ica, rbm)')  # fmt: skip
    against.add_argument(
        "--mean",
        help="of the gaussian: a number, numbers with commas between, or a file of them (default 0)",
    )
    against.add_argument(
        "--cov",
        help="of the gaussian: a variance, variances with commas between, or a file with these or a matrix (default 1)",
    )
    against.add_argument("--loc", help="centre of laplace and student-t, like --mean (default 0)")
    against.add_argument(
        "--scale",
        help="of laplace (default 0.707, which has unit variance) and student-t (default 1), like --mean",
    )
    against.add_argument("--df", help="degrees of freedom of student-t (default 5)")

    how = test.add_argument_group("how (the defaults suit most)")
    how.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        help="level: how often a right model may be rejected (default 0.05)",
    )
    how.add_argument(
        "--lag",
        type=lag,
        help="for a Markov chain's samples in their order: auto, or a number of steps (default: independent samples; auto for .nc files)",
    )
    how.add_argument(
        "--seed",
        type=seed,
        default=0,
        help="random seed; the same seed gives the same answer (default 0)",
    )
    how.add_argument(
        "--null",
        choices=["wild", "bootstrap", "spectral"],
        help="where the p-value comes from; spectral can be far below 1/1000 (default wild)",
    )
    how.add_argument(
        "--n-resamples", type=count, metavar="N", help="resamples behind the p-value (default 1000)"
    )
    how.add_argument(
        "--n-slices",
        type=count,
        metavar="N",
        help="look along so many active slices only (default: a family of sets of slices)",
    )
    how.add_argument("--basis", choices=["identity"], help="project scores on the coordinates only")
    how.add_argument(
        "--estimator", choices=["ke", "ge", "ksd"], help="how slices are found (default ke)"
    )
    how.add_argument(
        "--train",
        type=train,
        help="samples that slices are found on: cross, a fraction or a number (default cross; 0.2 with --n-slices or --basis)",
    )
    how.add_argument("--kernel", choices=["rbf", "imq"], help="kernel along slices (default rbf)")
    how.add_argument(
        "--bandwidth", type=float, metavar="H", help="of the kernel (default: the median heuristic)"
    )
    how.add_argument(
        "--engine",
        choices=["auto", "direct", "fourier", "cuda", "cuda32"],
        help="how sums over pairs are computed; cuda: on a GPU (default auto)",
    )
    how.add_argument(
        "--method",
        choices=["sksd", "ksd", "ksdagg", "fssd", "rfsd", "mmd"],
        help="sksd, or another test for comparison (default sksd)",
    )

    output = test.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print the result as JSON; notes go to standard error"
    )
    output.add_argument(
        "--html", metavar="FILE", help="write a report with figures, one self-contained page"
    )
    output.add_argument("--quiet", action="store_true", help="no notes and no progress")
    output.add_argument("--debug", action="store_true", help="show where an error came from")


def _test(arguments):
    from .test import run_test

    return run_test(arguments)


def _with_negatives(argv):
    """``--mean -1,2`` as ``--mean=-1,2``, which argparse would take for an option."""
    joined = []
    for text in argv:
        if joined and joined[-1] in ("--mean", "--loc") and re.match(r"-[\d.]", text):
            joined[-1] += f"={text}"
        else:
            joined.append(text)
    return joined


def _demo(arguments):
    from .demo import run_demo

    print(run_demo(arguments.seed))
    return 0


def _info(arguments):
    from .info import info_lines

    for line in info_lines():
        print(line, flush=True)
    return 0


def _bench(arguments):
    from ..engines.cuda import CudaUnavailable

    if arguments.engine == "cuda":
        from .device_bench import run_device_bench as run_bench
    else:
        from .bench import run_bench
    try:
        for line in run_bench(arguments.repeat):
            print(line, flush=True)
    except CudaUnavailable as error:
        print(f"fastsksd: {error}", file=sys.stderr)
        return 2
    return 0


def _reproduce(arguments):
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


def count(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def seed(text):
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def lag(text):
    return text if text == "auto" else float(text)


def train(text):
    return text if text == "cross" else float(text) if "." in text else count(text)
