"""The command line: ``fastsksd demo`` and ``fastsksd bench``."""

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
    arguments = parser.parse_args(argv)
    try:
        if arguments.command == "demo":
            from .demo import run_demo

            print(run_demo(arguments.seed))
        else:
            from .bench import run_bench

            for line in run_bench(arguments.repeat):
                print(line, flush=True)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
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
