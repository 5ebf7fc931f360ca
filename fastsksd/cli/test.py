"""``fastsksd test``: the samples in a file, tested against scores, a score function or a model."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._progress import ProgressBar
from .._typing import Array
from .._validate import check_probability, counted
from ..engines.cuda import CudaUnavailable, DeviceOutOfMemory
from ..gof import gof_test
from ..kernels import KERNELS
from ..report.directions import check_coordinates
from ..result import GofResult
from ..scale.refits import Refit
from ..scale.streaming import gof_stream
from .files import is_file_name, is_netcdf, open_draws, open_file
from .output import Tested, as_json, as_page, as_words, check_page
from .shell import OPTIONS, PARAMETERS, CommandError, Shell
from .sources import FileError, Source, finite_rows, read_all, read_blocks
from .targets import load_fit, load_score, make_model

LARGE = 2**25  # bytes from which on a file is read as a stream
SLOW = 2**24  # numbers from which on the test of a family takes about half a minute
_BLOCK_BYTES = 2**22  # of numbers read at a time
# Options that name a column of the file, and what it holds.
_BESIDE = {"chains": "a label", "weights": "a number"}
# Values that options may have for a stream.
_STREAMED = {
    "method": ("sksd",),
    "lag": (1,),
    "engine": ("auto", "fourier"),
    "precondition": ("auto",),
}


def run_test(arguments: Namespace) -> int:
    """Carry out ``fastsksd test``.

    Returns the exit code: 0 when the model is not rejected, 1 when it is, 2 for an error, 3 when
    chains are too short, or effective samples too few, to tell. With a tolerance it is about the
    effects: 0 when they are within, 1 when one is beyond, 3 when it is undecided.
    """
    samples = _samples(arguments)
    files = dict.fromkeys(("x", "chunks", "samples", "idata"), samples)
    files |= {"score": _target(arguments), "name": "--posteriordb"}
    shell = Shell(files)
    try:
        # A user's function may print, and may even end the program; neither belongs to the result.
        with contextlib.redirect_stdout(sys.stderr):
            tested = Job(arguments, shell).run()
            said = as_json(tested) if arguments.json else as_words(tested)
        print(said, flush=True)
        if arguments.html is not None:
            Path(arguments.html).write_text(as_page(tested), encoding="utf-8")
        return _exit_code(tested.result, arguments.alpha)
    except (Exception, SystemExit) as error:
        if arguments.debug:
            raise
        print(f"fastsksd: {message(error, samples, shell)}", file=sys.stderr)
        return 2


def _exit_code(result: GofResult, alpha: float) -> int:
    if result.tolerated is not None:
        return {"within": 0, "beyond": 1, "undecided": 3}[result.tolerated.verdict]
    return 3 if result.draws_needed else int(result.reject(alpha))


def _samples(arguments: Namespace) -> str:
    """What is tested, as the user wrote it."""
    if arguments.samples is None and arguments.posteriordb is not None:
        return f"--posteriordb {' '.join(arguments.posteriordb)}"
    return arguments.samples or "SAMPLES"


def _target(arguments: Namespace) -> str:
    """What the samples are tested against, as the user wrote it."""
    for name in ("model", "fit"):
        if getattr(arguments, name) is not None:
            return f"--{name} {getattr(arguments, name)}"
    return arguments.scores or " ".join(filter(None, ["--score", arguments.score]))


def message(error: BaseException, samples: str, shell: Shell) -> str:
    """What was wrong, in one line."""
    if isinstance(error, SystemExit):
        return f"the score function ended the program (SystemExit: {error})"
    if isinstance(error, DeviceOutOfMemory):
        return f"{samples}: {error}; --engine direct and --engine fourier use the CPU"
    if isinstance(error, MemoryError):
        return f"{samples}: does not fit into memory; --stream reads it in blocks"
    text = " ".join(shell.said(error).split())
    known = isinstance(error, (ValueError, TypeError, ImportError, OSError, CudaUnavailable))
    return text.rstrip(".") if known else f"{type(error).__name__}: {text} (--debug shows where)"


def open_beside(path: str, name: str, column: str) -> Source:
    """The column of a file that the option `name` names."""
    source = open_file(path, column)
    if len(source.columns) > 1:
        raise CommandError(f"--{name} must name one column, with {_BESIDE[name]} for every row")
    return source


class Job:
    """One run: what is asked for, checked as far as possible before the work starts."""

    def __init__(self, arguments: Namespace, shell: Shell) -> None:
        self.arguments = arguments
        self.shell = shell
        check_probability("alpha", arguments.alpha)
        check_page(arguments.html)
        given = {name: getattr(arguments, name) for name in OPTIONS}
        self.options = {name: value for name, value in given.items() if value is not None}
        if arguments.bandwidth is not None:
            kernel = KERNELS[arguments.kernel or "rbf"]
            self.options["kernel"] = kernel(arguments.bandwidth)
        self.dropped = self.n = 0
        self.score: Any = None
        self.against: str = ""
        self.sources: list[Source] = []
        self.beside: list[str] = []  # options that the last sources are columns of
        if arguments.posteriordb is not None:
            self._open_posterior()
        elif arguments.samples is None:
            raise CommandError("give a file of samples; fastsksd test --help shows how")
        elif is_netcdf(arguments.samples):
            self._open_draws()
        else:
            self._open_files()
        self.stream = self._streams()
        for note in dict.fromkeys(note for source in self.sources for note in source.notes):
            self.note(note)

    @property
    def d(self) -> int:
        return len(self.sources[0].columns)

    @property
    def names(self) -> tuple[str, ...]:
        samples = self.sources[0]
        return tuple(samples.names or [f"x[{k}]" for k in samples.columns])

    def note(self, text: str) -> None:
        if not self.arguments.quiet:
            print(f"note: {text}", file=sys.stderr)

    def _open_files(self) -> None:
        """Samples, and what they are tested against."""
        if self.arguments.divergences is not None:
            raise CommandError("--divergences is for .nc files, which say what draws diverged")
        self._check_target(needed=True)
        path, columns = self.arguments.samples, self.arguments.columns
        self.beside = [name for name in _BESIDE if getattr(self.arguments, name) is not None]
        beside = [open_beside(path, name, getattr(self.arguments, name)) for name in self.beside]
        if beside and columns is None:
            taken = [one.columns[0] for one in beside]
            columns = [k for k in range(beside[0].width) if k not in taken]
        self.sources = [open_file(path, columns)]
        if self.arguments.scores is not None:
            self.sources.append(self._scores())
            self.against = f"the scores in {self.arguments.scores}"
        else:
            self.score, self.against = self._function()
        own = self.sources[0].chains
        if own is not None and self.arguments.chains is not None:
            raise CommandError(f"--chains is for files of rows; {path} has an axis of chains")
        if own is not None and self._tests_chains():
            beside, self.beside = [*beside, own], [*self.beside, "chains"]
        self.sources += beside

    def _open_draws(self) -> None:
        """Draws of a sampler, with the gradients it stored, or against what is given.

        They are resampled as the chain that they are.
        """
        arguments = self.arguments
        if arguments.chains is not None:
            raise CommandError("--chains is for files of rows; an .nc file knows its chains")
        if arguments.weights is not None:
            raise CommandError("--weights is for files of rows, not for .nc files")
        self._check_target(needed=False)
        options = dict(divergences=arguments.divergences or "keep", drop=arguments.drop_nan)
        values = self._scores_of_draws() if arguments.scores is not None else None
        function = any(one is not None for one in (arguments.score, arguments.model, arguments.fit))
        *self.sources, chain, self.dropped, divergent = open_draws(
            arguments.samples, arguments.columns, np.zeros_like if function else values, **options
        )
        if function:
            self.sources.pop()
            self.score, self.against = self._function()
        elif values is not None:
            self.against = f"the scores in {arguments.scores}"
        else:
            self.against = "the gradients that the sampler stored"
        self._say_divergent(divergent)
        self._take_as_chains(chain)

    def _open_posterior(self) -> None:
        """Draws of a posterior of a database, against its model."""
        from .database import open_posterior

        arguments = self.arguments
        if arguments.weights is not None:
            raise CommandError("--weights does not go with --posteriordb")
        for name in ("scores", "model"):
            if getattr(arguments, name) is not None:
                raise CommandError(
                    f"--{name} does not go with --posteriordb, whose model is in Stan; --score "
                    "MODULE:FUNCTION may take its place"
                )
        self._check_target(needed=False)
        from_rows = arguments.samples is not None and not is_netcdf(arguments.samples)
        if arguments.chains is not None and not from_rows:
            raise CommandError("--chains is for files of rows; these draws know their chains")
        if arguments.divergences is not None and (from_rows or arguments.samples is None):
            raise CommandError("--divergences is for .nc files, which say what draws diverged")
        score, self.against = None, f"the Stan model of {arguments.posteriordb[1]}"
        if arguments.score is not None:
            score, self.against = self._function()
        *self.sources, chain, self.dropped, divergent = open_posterior(
            tuple(arguments.posteriordb),
            arguments.samples,
            score=score,
            parameters=arguments.columns,
            chains=arguments.chains,
            divergences=arguments.divergences or "keep",
            drop=arguments.drop_nan,
            progress=not arguments.quiet,
        )
        self._say_divergent(divergent)
        if chain is not None:
            self._take_as_chains(chain)

    def _say_divergent(self, count: int) -> None:
        if count:
            self.note(
                f"{counted(count, 'divergent draw')} tested like the others (--divergences error "
                "or drop)"
            )

    def _take_as_chains(self, chain: np.ndarray) -> None:
        """Test draws as those of chains, if the other options allow it."""
        if self._tests_chains():
            self.options["chains"] = chain

    def _tests_chains(self) -> bool:
        """Whether the other options allow to test draws as those of chains; a note says it."""
        allowed = (
            "method" not in self.options
            and self.options.get("null", "wild") == "wild"
            and not self.arguments.stream
        )
        if "lag" not in self.options:
            self.note(
                "the draws are taken as those of Markov chains, --lag auto (--lag 1 for "
                "independent draws)"
                if allowed
                else "the draws are taken as independent, which makes p-values too small for those "
                "of a Markov chain; --lag auto goes with --null wild and --method sksd"
            )
        return allowed

    def _scores_of_draws(self) -> Array:
        """Scores in a file, with the columns that the draws have."""
        arguments = self.arguments
        scores = open_file(arguments.scores)
        names = open_draws(
            arguments.samples, arguments.columns, np.zeros_like, divergences="keep", drop=True
        )[0].names
        if scores.names and names and set(names) <= set(scores.names):
            scores = _columns_of(scores, scores.names, names)
        (values,) = read_all([scores])
        return values

    def _check_target(self, needed: bool) -> None:
        """One thing to test against, and no flag of another."""
        given = [
            f"--{name}"
            for name in ("scores", "score", "model", "fit")
            if getattr(self.arguments, name) is not None
        ]
        if len(given) > 1 or (needed and not given):
            what = "give" if not given else f"{' and '.join(given)} are given; choose"
            raise CommandError(
                f"{what} one of --scores FILE, --score MODULE:FUNCTION, --model NAME or --fit "
                "NAME, to say what the samples are tested against"
            )
        for flag in ("jobs", "checkpoint"):
            if getattr(self.arguments, flag) is not None and self.arguments.fit is None:
                raise CommandError(f"--{flag} is for --fit, which is not given")
        stray = [name for name in PARAMETERS if getattr(self.arguments, name) is not None]
        if stray and self.arguments.model is None:
            raise CommandError(f"--{stray[0]} is a parameter of --model, which is not given")

    def _function(self) -> tuple[Any, str]:
        """The score function or model asked for, and its description."""
        arguments = self.arguments
        if arguments.score is not None:
            return load_score(arguments.score), f"the score function {arguments.score}"
        if arguments.fit is not None:
            if (arguments.jobs or 1) > 1 and ".py:" in arguments.fit:
                raise CommandError(
                    f"--jobs: other processes can't import {arguments.fit}; give MODULE:FUNCTION"
                )
            self.options["fit"] = Refit(
                load_fit(arguments.fit),
                n_jobs=arguments.jobs,
                checkpoint=arguments.checkpoint,
                progress=not arguments.quiet,
            )
            return None, f"a model fitted by {arguments.fit}"
        parameters = {name: getattr(arguments, name) for name in PARAMETERS}
        model = make_model(arguments.model, self.d, parameters)
        return model, f"the model {model!r}"

    def _scores(self) -> Source:
        """The file of scores, with the columns that the samples have."""
        samples, path = self.sources[0], self.arguments.scores
        if ":" in path and not is_file_name(path) and not os.path.exists(path):
            raise CommandError(f"--scores {path}: must be a file; for a function, --score {path}")
        scores = open_file(path)
        if samples.names and scores.names and set(samples.names) <= set(scores.names):
            return _columns_of(scores, scores.names, samples.names)
        if len(scores.columns) == self.d:
            return scores
        if scores.width == samples.width:
            return open_file(path, samples.columns)
        raise FileError(
            f"{scores.path}: has {counted(scores.width, 'column')}, but the samples have {self.d}; "
            "a score has a number for each coordinate"
        )

    def _streams(self) -> bool:
        """Whether the file is read as a stream."""
        wanted, path = self.arguments.stream, self.sources[0].path
        conflict = self._unstreamable()
        if wanted and conflict:
            raise CommandError(
                f"--stream reads the samples once, in blocks; {conflict} does not apply to it"
            )
        if wanted is not None:
            return wanted
        if self.sources[0].size < LARGE:
            return False
        if conflict:
            self.note(
                f"{path} is large; with {conflict} it is read into memory, and the test may take "
                "long"
            )
            return False
        self.note(
            f"{path} is large: it is tested as a stream of blocks of rows, for independent samples "
            "(--no-stream reads it into memory)"
        )
        return True

    def _unstreamable(self) -> str | None:
        """The first of the options that a stream can't have."""
        if self.arguments.fit is not None:
            return f"--fit {self.arguments.fit}"
        for name in self.beside:
            column = getattr(self.arguments, name)
            return "its axis of chains" if column is None else f"--{name} {column}"
        if "chains" in self.options and "lag" not in self.options:
            return "--lag auto"
        for name, allowed in _STREAMED.items():
            if self.options.get(name, allowed[0]) not in allowed:
                return f"--{name} {self.options[name]}"
        one_set = {"n_slices", "basis"} & set(self.options)
        if one_set and self.options.get("null", "spectral") != "spectral":
            return f"--null {self.options['null']}"
        if "tolerance" in self.options:
            return "--tolerance"
        train = self.options.get("train")
        return None if train is None or isinstance(train, int) else f"--train {train}"

    def run(self) -> Tested:
        """The test."""
        start = time.perf_counter()
        result = self._stream() if self.stream else self._test()
        if self.dropped:
            self.note(
                f"left out: {counted(self.dropped, 'row')} with missing values, NaN or infinity; "
                "row numbers count the others only"
            )
        return Tested(
            result,
            samples=self.sources[0].path,
            against=self.against,
            names=self.names,
            named=self.sources[0].names is not None,
            n=self.n,
            dropped=self.dropped,
            streamed=self.stream,
            seconds=time.perf_counter() - start,
            alpha=self.arguments.alpha,
            seed=self.arguments.seed,
            line=self.arguments.line,
            option=self.shell.option,
        )

    def _stream(self) -> GofResult:
        options = {name: value for name, value in self.options.items() if name not in _STREAMED}
        return gof_stream(self._chunks(), self.score, rng=self.arguments.seed, **options)

    def _test(self) -> GofResult:
        with self._progress(self.sources[0].size >= LARGE) as progress:
            arrays = read_all(self.sources, progress=progress)
        kept, dropped = finite_rows(self.sources, arrays, drop=self.arguments.drop_nan)
        self.dropped += dropped
        self.n = kept[0].shape[0]
        for name, values in zip(self.beside, kept[len(kept) - len(self.beside) :], strict=True):
            self.options[name] = values[:, 0]
        score = self.score if self.score is not None or "fit" in self.options else kept[1]
        if self.n * self.d > SLOW and not {"n_slices", "basis", "method"} & set(self.options):
            self.note(
                "the default test of so many samples takes half a minute or more; "
                "--n-slices 3 --train 2000 takes less"
            )
        names = self.names if self.names != check_coordinates(None, self.d) else None
        return gof_test(kept[0], score, names=names, rng=self.arguments.seed, **self.options)

    @contextlib.contextmanager
    def _progress(self, shown: bool) -> Iterator[Callable[[float], None]]:
        """A function that is told the fraction read and shows it."""
        if self.arguments.quiet or not shown:
            yield lambda fraction: None
            return
        bar = ProgressBar(f"{Path(self.sources[0].path).name}, percent read", first=0)
        yield lambda fraction: bar(int(100 * fraction), 100) if fraction < 1 else None
        bar(100, 100)

    def _chunks(self) -> Iterator[Array | tuple[Array, ...]]:
        """Blocks of samples, or pairs of samples and scores."""
        first = 0
        with self._progress(True) as progress:
            for arrays, fraction in read_blocks(self.sources, max(1, _BLOCK_BYTES // (8 * self.d))):
                kept, dropped = finite_rows(
                    self.sources, arrays, drop=self.arguments.drop_nan, first=first
                )
                first += arrays[0].shape[0]
                self.dropped += dropped
                self.n += kept[0].shape[0]
                yield kept[0] if self.score is not None else tuple(kept)
                progress(fraction)


def _columns_of(source: Source, known: Sequence[str], wanted: Sequence[str]) -> Source:
    """The columns of the `wanted` names, in their order, where `known` are those of the file."""
    return open_file(source.path, [source.columns[known.index(name)] for name in wanted])
