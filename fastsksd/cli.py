"""The command line: ``fastsksd demo``, ``fastsksd bench`` and ``fastsksd reproduce``."""

import argparse
import sys

from ._version import __version__


def main(argv=None):
    """Entry point of the console command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="fastsksd", description="Goodness-of-fit tests by sliced kernelized Stein discrepancies."
    )
    parser.add_argument("--version", action="version", version=f"fastsksd {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    demo = commands.add_parser("demo", help="test a built-in model that fails along one hidden direction in 50 dimensions")
    demo.add_argument("--seed", type=seed, default=0, help="random seed (default 0)")
    bench = commands.add_parser("bench", help="speed against vectorised NumPy, measured side by side")
    bench.add_argument("--repeat", type=count, default=7, help="runs per measurement, the median counts (default 7)")
    reproduce = commands.add_parser("reproduce", help="run a study, or all of them, and write reports")
    reproduce.add_argument("name", help="a study (an unknown name lists them), or all")
    reproduce.add_argument("--scale", default="quick", help="smoke, quick (default) or paper")
    reproduce.add_argument("--out", default="results", help="folder of results and report (default: results)")
    reproduce.add_argument("--jobs", type=count, default=1, help="processes, each on one thread (default 1, on all threads)")
    reproduce.add_argument("--dask", metavar="ADDRESS", help="run trials on the workers of this Dask scheduler, as tcp://10.0.0.1:8786")
    reproduce.add_argument("--resume", action="store_true", help="go on with what the folder holds")
    arguments = parser.parse_args(argv)
    try:
        return {"demo": _demo, "bench": _bench, "reproduce": _reproduce}[arguments.command](arguments)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _demo(arguments):
    from .demo import run_demo

    print(run_demo(arguments.seed))
    return 0


def _bench(arguments):
    from .bench import run_bench

    for line in run_bench(arguments.repeat):
        print(line, flush=True)
    return 0


def _reproduce(arguments):
    from .cluster import ClientLost, connected
    from .experiments import RunError, names_of, reproduce
    from .progress import ProgressBar

    if arguments.dask is not None and arguments.jobs != 1:
        print("fastsksd: --jobs and --dask both say where trials run; give one of them.", file=sys.stderr)
        return 2
    try:
        names = names_of(arguments.name, arguments.scale)
        with connected(arguments.dask) as client:
            for name in names:
                options = dict(jobs=arguments.jobs, client=client, resume=arguments.resume, progress=ProgressBar(name))
                print(*reproduce(name, arguments.scale, arguments.out, **options), sep="\n", flush=True)
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
