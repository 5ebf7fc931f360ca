"""``fastsksd test``: samples in a file, tested against scores, a score function or a model; the verdict in words, as JSON or as a page."""

import contextlib
import json
import math
import os
import platform
import re
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ._version import __version__
from .files import FileError, finite_rows, open_file, plural, read_all, read_blocks
from .gof import gof_test
from .kernels import IMQ, RBF
from .progress import ProgressBar
from .streaming import gof_stream
from .targets import load_score, make_model

LARGE = 2**25  # bytes of a file from which on it is read as a stream: the family's test of 4 million numbers takes minutes
_BLOCK_BYTES = 2**22  # of numbers read at a time
_NOT_STREAMED = {"null": ("spectral",), "method": ("sksd",), "lag": (1,), "engine": ("auto", "fourier")}  # what a stream allows
_OPTIONS = ("n_slices", "basis", "estimator", "kernel", "null", "lag", "n_resamples", "engine", "train", "method")
_PARAMETERS = ("mean", "cov", "loc", "scale", "df")  # of models


class CommandError(ValueError):
    """A combination of options that makes no sense; the message says so."""


def run_test(arguments):
    """Carry out ``fastsksd test``; returns the exit code: 0 not rejected, 1 rejected, 2 for an error."""
    try:
        # A user's function may print, and may even end the program; neither belongs to the result.
        with contextlib.redirect_stdout(sys.stderr):
            job = Job(arguments)
            result = job.run()
            page = None if arguments.html is None else job.page(result)
        if page is not None:
            Path(arguments.html).write_text(page, encoding="utf-8")
        print(json.dumps(job.as_dict(result), indent=2, allow_nan=False) if arguments.json else job.words(result), flush=True)
        return int(result.reject(arguments.alpha))
    except (Exception, SystemExit) as error:
        if arguments.debug:
            raise
        print(f"fastsksd: {_message(error, arguments)}", file=sys.stderr)
        return 2


def _message(error, arguments):
    """What was wrong, in one line that speaks of options and files."""
    if isinstance(error, SystemExit):
        return f"the score function ended the program (SystemExit: {error})"
    if isinstance(error, MemoryError):
        return f"{arguments.samples}: does not fit into memory; --stream reads it in blocks"
    text = " ".join(str(error).split())
    if not isinstance(error, (ValueError, TypeError, ImportError, OSError)):
        return f"{type(error).__name__}: {text} (--debug shows where)"
    score = f"--score {arguments.score}" if arguments.score else arguments.scores or f"--model {arguments.model}"
    words = {name: f"--{name.replace('_', '-')}" for name in (*_OPTIONS, *_PARAMETERS, "bandwidth")}
    words |= {"x": arguments.samples, "chunks": arguments.samples, "score": score, "slices": "slices in Python"}
    text = re.sub(r"`?\b(\w+)`?='?([\w.]+)'?", lambda match: f"{words[match[1]]} {match[2]}" if match[1] in _OPTIONS else match[0], text)
    return re.sub(r"`(\w+)`", lambda match: words.get(match[1], match[0]), text).rstrip(".")


class Job:
    """One run: what is asked for, checked as far as it can be before the work starts."""

    def __init__(self, arguments):
        self.arguments = arguments
        if not 0 < arguments.alpha < 1:
            raise CommandError(f"--alpha must be between 0 and 1; got {arguments.alpha:g}")
        if arguments.html is not None:
            _check_page(arguments.html)
        self.options = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name) is not None}
        if arguments.bandwidth is not None:
            self.options["kernel"] = (IMQ if arguments.kernel == "imq" else RBF)(arguments.bandwidth)
        self.sources = [open_file(arguments.samples, arguments.columns)]
        self.d = len(self.sources[0].columns)
        self.names = list(self.sources[0].names or [f"x[{k}]" for k in self.sources[0].columns])
        self.score, self.against = self._target()
        self.stream = self._streams()
        self.dropped = self.n = 0
        for note in dict.fromkeys(note for source in self.sources for note in source.notes):
            self.note(note)

    def note(self, text):
        if not self.arguments.quiet:
            print(f"note: {text}", file=sys.stderr)

    def _target(self):
        """The score, None where a file holds its values, and its description."""
        arguments = self.arguments
        given = [f"--{name}" for name in ("scores", "score", "model") if getattr(arguments, name) is not None]
        if len(given) != 1:
            what = "give" if not given else f"{' and '.join(given)} are given; choose"
            raise CommandError(f"{what} one of --scores FILE, --score MODULE:FUNCTION or --model NAME, to say what the samples are tested against")
        flags = {name: getattr(arguments, name) for name in _PARAMETERS}
        if arguments.model is not None:
            model = make_model(arguments.model, self.d, flags)
            return model, f"the model {model!r}"
        stray = [name for name, value in flags.items() if value is not None]
        if stray:
            raise CommandError(f"--{stray[0]} is a parameter of --model, which is not given")
        if arguments.score is not None:
            return load_score(arguments.score), f"the score function {arguments.score}"
        self.sources.append(self._scores())
        return None, f"the scores in {arguments.scores}"

    def _scores(self):
        """The file of scores, with the columns that the samples have."""
        samples, path = self.sources[0], self.arguments.scores
        if ":" in path and not os.path.exists(path.rpartition(":")[0]) and not path.lower().endswith(".npz"):
            raise CommandError(f"--scores {path}: must be a file; for a function, --score {path}")
        scores = open_file(path)
        if samples.names and scores.names and set(samples.names) <= set(scores.names):
            return open_file(path, [scores.names.index(name) for name in samples.names])
        if scores.width == self.d:
            return scores
        if scores.width == samples.width:
            return open_file(path, samples.columns)
        raise FileError(f"{scores.path}: has {plural(scores.width, 'column')}, but the samples have {self.d}; a score has a number for each coordinate")

    def _streams(self):
        """Whether the file is read as a stream."""
        wanted, path = self.arguments.stream, self.arguments.samples
        conflict = self._unstreamable()
        if wanted and conflict:
            raise CommandError(f"--stream tests one set of slices with the limit law (--null spectral); {conflict} does not apply to it")
        if wanted is not None:
            return wanted
        if self.sources[0].size < LARGE:
            return False
        if conflict:
            self.note(f"{path} is large; with {conflict} it is read into memory, and the test may take long")
            return False
        self.note(f"{path} is large: tested as a stream, along one set of slices and for independent samples (--no-stream for the whole test)")
        return True

    def _unstreamable(self):
        """The first of the options that a stream can't have."""
        train = self.options.get("train")
        for name, allowed in _NOT_STREAMED.items():
            if self.options.get(name, allowed[0]) not in allowed:
                return f"--{name} {self.options[name]}"
        return None if train is None or isinstance(train, int) else f"--train {train}"

    def run(self):
        """The test; a `GofResult`."""
        start = time.perf_counter()
        if self.stream:
            options = {name: value for name, value in self.options.items() if name not in _NOT_STREAMED}
            result = gof_stream(self._chunks(), self.score, rng=self.arguments.seed, **options)
        else:
            with self._progress(self.sources[0].size >= LARGE) as progress:
                arrays = read_all(self.sources, progress=progress)
            arrays, self.dropped = finite_rows(self.sources, arrays, drop=self.arguments.drop_nan)
            self.n = arrays[0].shape[0]
            score = arrays[1] if self.score is None else self.score
            result = gof_test(arrays[0], score, rng=self.arguments.seed, **self.options)
        self.seconds = time.perf_counter() - start
        if self.dropped:
            self.note(f"left out: {plural(self.dropped, 'row')} with missing values, NaN or infinity")
        return result

    @contextlib.contextmanager
    def _progress(self, shown):
        """A function that is told the fraction read and shows it."""
        if self.arguments.quiet or not shown:
            yield lambda fraction: None
            return
        bar = ProgressBar(f"{Path(self.arguments.samples).name}, percent read")
        bar.first = 0
        yield lambda fraction: bar(int(100 * fraction), 100) if fraction < 1 else None
        bar(100, 100)

    def _chunks(self):
        """Blocks of samples, or pairs of samples and scores."""
        first = 0
        with self._progress(True) as progress:
            for arrays, fraction in read_blocks(self.sources, max(1, _BLOCK_BYTES // (8 * self.d))):
                kept, dropped = finite_rows(self.sources, arrays, drop=self.arguments.drop_nan, first=first)
                first += arrays[0].shape[0]
                self.dropped += dropped
                self.n += kept[0].shape[0]
                yield kept[0] if self.score is not None else tuple(kept)
                progress(fraction)

    def words(self, result):
        """The outcome for people."""
        return f"{self._files()}\n{self._verdict(result)}\n\n{result!r}"

    def _files(self):
        named = f" ({', '.join(self.names[:8])}{', ...' if self.d > 8 else ''})" if self.sources[0].names else ""
        return f"{plural(self.n, 'sample')} of {plural(self.d, 'column')}{named} in {self.sources[0].path}, against {self.against}."

    def _verdict(self, result):
        alpha = self.arguments.alpha
        said = "is rejected" if result.reject(alpha) else "is not rejected"
        return f"The model {said} at level {alpha:g}: p-value {result.pvalue:.4g}."

    def as_dict(self, result):
        """The outcome for programs; what is not finite is None."""
        arguments = self.arguments
        return _plain({
            "samples": self.sources[0].path,
            "against": self.against,
            "n": self.n,
            "d": self.d,
            "names": self.names,
            "dropped": self.dropped,
            "statistic": result.statistic,
            "pvalue": result.pvalue,
            "alpha": arguments.alpha,
            "reject": result.reject(arguments.alpha),
            "method": result.method,
            "null": result.null,
            "kernel": result.kernel,
            "engine": result.engine,
            "lag": result.lag,
            "n_test": result.n_test,
            "n_train": result.n_train,
            "streamed": self.stream,
            "seed": arguments.seed,
            "strongest_slice": self._strongest(result),
            "members": [member._asdict() for member in result.members],
            "timings": result.timings | {"all": self.seconds},
            "versions": _versions(),
        })  # fmt: skip

    def _strongest(self, result):
        if result.slices is None:
            return None
        q = int(np.argmax(result.slice_statistics))
        return {
            "statistic": result.slice_statistics[q],
            "bandwidth": result.bandwidths[q],
            "r": dict(zip(self.names, result.slices.r[q], strict=True)),
            "g": dict(zip(self.names, result.slices.g[q], strict=True)),
        }

    def page(self, result):
        """The outcome as one HTML page."""
        from .experiments.report import Heading, Table, Text, page

        blocks = [Text(self._verdict(result)), Text(self._files())]
        blocks.append(Table(["", ""], [(name.strip(), value) for name, value in result._facts().items()]))
        if result.members:
            rows = [(m.name, f"{m.multiple:g}", m.part, f"{m.statistic:.4g}", f"{m.pvalue:.3g}", f"{m.adjusted_pvalue:.3g}") for m in result.members]
            blocks.append(Heading("Sets of slices that were tested"))
            blocks.append(Table(["slices", "bandwidth x", "samples", "statistic", "p-value", "adjusted p-value"], rows))
        blocks.append(Heading("How it was made"))
        versions = ", ".join(f"{name} {value}" for name, value in _versions().items())
        blocks.append(Text(f"{self.arguments.line} ({versions})"))
        return page(f"{self.sources[0].path}: does the model fit?", blocks)


def _versions():
    return {"fastsksd": __version__, "numpy": np.__version__, "numba": version("numba"), "python": platform.python_version()}


def _plain(value):
    """`value` in types that JSON has."""
    if isinstance(value, dict):
        return {name: _plain(some) for name, some in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(some) for some in value]
    if isinstance(value, float):  # NumPy's too
        return float(value) if math.isfinite(value) else None
    return value


def _check_page(path):
    """An error when the page can't be written in the end."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"--html {path}: the name must end in .html")
    existed = os.path.exists(path)
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise CommandError(f"--html {path}: can't be written: {error.strerror}") from error
    if not existed:
        os.remove(path)
