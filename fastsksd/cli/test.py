"""``fastsksd test``: samples in a file, tested against scores, a score function or a model; the verdict in words, as JSON or as a page."""

import contextlib
import json
import math
import os
import platform
import re
import shutil
import sys
import textwrap
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .._progress import ProgressBar
from .._version import __version__
from ..engines.cuda import CudaUnavailable, DeviceOutOfMemory
from ..gof import gof_test
from ..kernels import IMQ, RBF
from ..report.explain import direction, is_explicable
from ..report.wording import NO_SAMPLES, caveats
from ..scale.streaming import gof_stream
from .files import (
    FileError,
    finite_rows,
    is_file_name,
    is_netcdf,
    open_draws,
    open_file,
    plural,
    read_all,
    read_blocks,
)
from .targets import load_score, make_model

# Bytes of a file from which on it is read as a stream: the family's test of 4 million numbers takes
# minutes.
LARGE = 2**25
SLOW = 2**20  # numbers from which on the family's test takes about a minute
_BLOCK_BYTES = 2**22  # of numbers read at a time
# What a stream allows.
_NOT_STREAMED = {
    "null": ("spectral",),
    "method": ("sksd",),
    "lag": (1,),
    "engine": ("auto", "fourier"),
}
_OPTIONS = (
    "n_slices",
    "basis",
    "estimator",
    "kernel",
    "null",
    "lag",
    "n_resamples",
    "engine",
    "train",
    "method",
)
_GONE_BY = "A stream keeps no samples that would show where and how; --no-stream on a file with some of the rows shows it."
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
            said = (
                json.dumps(job.as_dict(result), indent=2, allow_nan=False)
                if arguments.json
                else job.words(result)
            )
        print(said, flush=True)
        if arguments.html is not None:
            Path(arguments.html).write_text(job.page(result), encoding="utf-8")
        return int(result.reject(arguments.alpha))
    except (Exception, SystemExit) as error:
        if arguments.debug:
            raise
        print(f"fastsksd: {_message(error, arguments)}", file=sys.stderr)
        return 2


def _message(error, arguments):
    """What was wrong, in one line."""
    if isinstance(error, SystemExit):
        return f"the score function ended the program (SystemExit: {error})"
    if isinstance(error, DeviceOutOfMemory):
        return f"{arguments.samples}: {error}; --engine direct and --engine fourier take the CPU"
    if isinstance(error, MemoryError):
        return f"{arguments.samples}: does not fit into memory; --stream reads it in blocks"
    text = _spoken(" ".join(str(error).split()), arguments)
    known = isinstance(error, (ValueError, TypeError, ImportError, OSError, CudaUnavailable))
    return text.rstrip(".") if known else f"{type(error).__name__}: {text} (--debug shows where)"


def _spoken(text, arguments):
    """What the library says of its arguments, said of options and files."""
    score = (
        f"--model {arguments.model}"
        if arguments.model
        else arguments.scores or " ".join(filter(None, ["--score", arguments.score]))
    )
    flags = {name: f"--{name.replace('_', '-')}" for name in (*_OPTIONS, *_PARAMETERS, "bandwidth")}
    flags |= {"on_divergence": "--divergences", "var_names": "--columns"}
    words = flags | {
        "x": arguments.samples,
        "chunks": arguments.samples,
        "score": score,
        "slices": "slices in Python",
    }
    text = text.replace("on_nan='drop'", "--drop-nan")
    text = re.sub(
        r"`?\b(\w+)`?='?([\w.]+)'?",
        lambda match: f"{flags[match[1]]} {match[2]}" if match[1] in flags else match[0],
        text,
    )
    return re.sub(r"`(\w+)`", lambda match: words.get(match[1], match[0]), text)


class Job:
    """One run: what is asked for, checked as far as it can be before the work starts."""

    def __init__(self, arguments):
        self.arguments = arguments
        if not 0 < arguments.alpha < 1:
            raise CommandError(f"--alpha must be between 0 and 1; got {arguments.alpha:g}")
        if arguments.html is not None:
            _check_page(arguments.html)
        self.options = {
            name: getattr(arguments, name)
            for name in _OPTIONS
            if getattr(arguments, name) is not None
        }
        if arguments.bandwidth is not None:
            self.options["kernel"] = (IMQ if arguments.kernel == "imq" else RBF)(
                arguments.bandwidth
            )
        self.dropped = self.n = 0
        self.score, self.against = None, None
        if is_netcdf(arguments.samples):
            self._open_draws()
        else:
            self._open_files()
        self.stream = self._streams()
        for note in dict.fromkeys(note for source in self.sources for note in source.notes):
            self.note(note)

    @property
    def d(self):
        return len(self.sources[0].columns)

    @property
    def names(self):
        return list(self.sources[0].names or [f"x[{k}]" for k in self.sources[0].columns])

    def note(self, text):
        if not self.arguments.quiet:
            print(f"note: {text}", file=sys.stderr)

    def _open_files(self):
        """Samples, and what they are tested against."""
        if self.arguments.divergences is not None:
            raise CommandError("--divergences is for .nc files, which say what draws diverged")
        self._check_target(needed=True)
        self.sources = [open_file(self.arguments.samples, self.arguments.columns)]
        if self.arguments.scores is not None:
            self.sources.append(self._scores())
            self.against = f"the scores in {self.arguments.scores}"
        else:
            self.score, self.against = self._function()

    def _open_draws(self):
        """Draws of a sampler: with the gradients it stored, or against what is given; resampled as the chain that they are."""
        arguments = self.arguments
        self._check_target(needed=False)
        options = dict(divergences=arguments.divergences or "error", drop=arguments.drop_nan)
        values = None
        if arguments.scores is not None:
            scores = open_file(arguments.scores)
            names = open_draws(
                arguments.samples, arguments.columns, np.zeros_like, divergences="keep", drop=True
            )[0].names
            if scores.names and set(names) <= set(scores.names):
                scores = open_file(
                    arguments.scores, [scores.columns[scores.names.index(name)] for name in names]
                )
            (values,) = read_all([scores])
        function = arguments.score is not None or arguments.model is not None
        *self.sources, self.dropped = open_draws(
            arguments.samples, arguments.columns, np.zeros_like if function else values, **options
        )
        if function:
            self.sources.pop()
            self.score, self.against = self._function()
        else:
            self.against = f"the {'gradients that the sampler stored' if values is None else f'scores in {arguments.scores}'}"
        if (
            not {"lag", "method"} & set(self.options)
            and self.options.get("null", "wild") == "wild"
            and not arguments.stream
        ):
            self.options["lag"] = "auto"
            self.note(
                "the draws are taken for those of a Markov chain, --lag auto (--lag 1 for independent ones)"
            )
        elif "lag" not in self.options:
            self.note(
                "the draws are taken for independent ones, which makes p-values too small for those of a Markov chain; --lag auto goes with --null wild "
                "and --method sksd"
            )

    def _check_target(self, needed):
        """One thing to test against, and no flag of another."""
        given = [
            f"--{name}"
            for name in ("scores", "score", "model")
            if getattr(self.arguments, name) is not None
        ]
        if len(given) > 1 or (needed and not given):
            what = "give" if not given else f"{' and '.join(given)} are given; choose"
            raise CommandError(
                f"{what} one of --scores FILE, --score MODULE:FUNCTION or --model NAME, to say what the samples are tested against"
            )
        stray = [name for name in _PARAMETERS if getattr(self.arguments, name) is not None]
        if stray and self.arguments.model is None:
            raise CommandError(f"--{stray[0]} is a parameter of --model, which is not given")

    def _function(self):
        """The score function or model asked for, and its description."""
        arguments = self.arguments
        if arguments.score is not None:
            return load_score(arguments.score), f"the score function {arguments.score}"
        model = make_model(
            arguments.model, self.d, {name: getattr(arguments, name) for name in _PARAMETERS}
        )
        return model, f"the model {model!r}"

    def _scores(self):
        """The file of scores, with the columns that the samples have."""
        samples, path = self.sources[0], self.arguments.scores
        if ":" in path and not is_file_name(path) and not os.path.exists(path):
            raise CommandError(f"--scores {path}: must be a file; for a function, --score {path}")
        scores = open_file(path)
        if samples.names and scores.names and set(samples.names) <= set(scores.names):
            return open_file(
                path, [scores.columns[scores.names.index(name)] for name in samples.names]
            )
        if len(scores.columns) == self.d:
            return scores
        if scores.width == samples.width:
            return open_file(path, samples.columns)
        raise FileError(
            f"{scores.path}: has {plural(scores.width, 'column')}, but the samples have {self.d}; a score has a number for each coordinate"
        )

    def _streams(self):
        """Whether the file is read as a stream."""
        wanted, path = self.arguments.stream, self.arguments.samples
        conflict = self._unstreamable()
        if wanted and conflict:
            raise CommandError(
                f"--stream tests one set of slices with the limit law (--null spectral); {conflict} does not apply to it"
            )
        if wanted is not None:
            return wanted
        if self.sources[0].size < LARGE:
            return False
        if conflict:
            self.note(
                f"{path} is large; with {conflict} it is read into memory, and the test may take long"
            )
            return False
        self.note(
            f"{path} is large: tested as a stream, along one set of slices and for independent samples (--no-stream for the whole test)"
        )
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
            options = {
                name: value for name, value in self.options.items() if name not in _NOT_STREAMED
            }
            result = gof_stream(self._chunks(), self.score, rng=self.arguments.seed, **options)
        else:
            with self._progress(self.sources[0].size >= LARGE) as progress:
                arrays = read_all(self.sources, progress=progress)
            arrays, dropped = finite_rows(self.sources, arrays, drop=self.arguments.drop_nan)
            self.dropped += dropped
            self.n = arrays[0].shape[0]
            score = arrays[1] if self.score is None else self.score
            if self.n * self.d > SLOW and not {"n_slices", "basis", "method"} & set(self.options):
                self.note(
                    "the test of so many samples along a whole family of slices takes minutes; --stream or --n-slices 3 --train 2000 take less"
                )
            result = gof_test(arrays[0], score, rng=self.arguments.seed, **self.options)
        self.seconds = time.perf_counter() - start
        if self.dropped:
            self.note(
                f"left out: {plural(self.dropped, 'row')} with missing values, NaN or infinity; row numbers count the others only"
            )
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
                kept, dropped = finite_rows(
                    self.sources, arrays, drop=self.arguments.drop_nan, first=first
                )
                first += arrays[0].shape[0]
                self.dropped += dropped
                self.n += kept[0].shape[0]
                yield kept[0] if self.score is not None else tuple(kept)
                progress(fraction)

    def words(self, result):
        """The outcome for people."""
        width = min(100, max(40, shutil.get_terminal_size().columns))
        return "\n\n".join(
            textwrap.fill(text, width, break_on_hyphens=False)
            for text in (self._files(), self._summary(result))
        )

    def _summary(self, result):
        # Stand-ins for the names of columns, which may look like arguments, as lag=1 does.
        stand_ins = [f"\x00{k}\x00" for k in range(self.d)]
        text = result.summary(names=stand_ins, alpha=self.arguments.alpha).replace(
            NO_SAMPLES, _GONE_BY
        )
        text = _spoken(text, self.arguments)
        text = re.sub("\x00(\\d+)\x00", lambda match: self.names[int(match[1])], text)
        if self.stream:
            strongest = self._strongest(result)
            text += f" The slice with scores along {_direction(strongest['r'])} and samples along {_direction(strongest['g'])} is the strongest."
        return text

    def _files(self):
        named = (
            f" ({', '.join(self.names[:8])}{', ...' if self.d > 8 else ''})"
            if self.sources[0].names
            else ""
        )
        return f"{plural(self.n, 'sample')} of {plural(self.d, 'column')}{named} in {self.sources[0].path}, against {self.against}."

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
            "evidence": result.evidence,
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
            "caveats": self._caveats(result),
            "members": [member._asdict() for member in result.members],
            "timings": result.timings | {"all": self.seconds},
            "versions": _versions(),
        })  # fmt: skip

    def _caveats(self, result):
        explanation = result.explain(n_slices=1) if is_explicable(result) else None
        return [_spoken(text, self.arguments) for text in caveats(result, explanation)]

    def _strongest(self, result):
        if result.slices is None:
            return None
        q = int(np.argmax(result.slice_statistics))
        return {
            "statistic": result.slice_statistics[q],
            "bandwidth": result.bandwidths[q],
            "r": dict(zip(self.names, result.slices.r[q].tolist(), strict=True)),
            "g": dict(zip(self.names, result.slices.g[q].tolist(), strict=True)),
        }

    def page(self, result):
        """The outcome as one HTML page."""
        from ..experiments.report import Heading, Table, Text, figure_of, page

        blocks = [Text(self._files()), Text(self._summary(result))]
        try:
            blocks.append(
                figure_of(
                    result.plot(names=self.names, alpha=self.arguments.alpha), "What the test saw"
                )
            )
        except ImportError as error:
            blocks.append(Text(f"No figures: {error}"))
        blocks.append(Heading("In numbers"))
        facts = {
            name: value
            for name, value in result._facts().items()
            if name != "verdict" and not name.startswith(" ")
        }
        if result.slices is not None:
            strongest = self._strongest(result)
            facts |= {
                "its scores along r": _direction(strongest["r"]),
                "its samples along g": _direction(strongest["g"]),
            }
        blocks.append(Table(["", ""], facts.items()))
        if result.members:
            rows = [
                (
                    m.name,
                    f"{m.multiple:g}",
                    m.part,
                    f"{m.statistic:.4g}",
                    f"{m.pvalue:.3g}",
                    f"{m.adjusted_pvalue:.3g}",
                )
                for m in result.members
            ]
            blocks.append(Heading("Sets of slices that were tested"))
            blocks.append(
                Table(
                    [
                        "slices",
                        "bandwidth x",
                        "samples",
                        "statistic",
                        "p-value",
                        "adjusted p-value",
                    ],
                    rows,
                )
            )
        blocks.append(Heading("How it was made"))
        versions = ", ".join(f"{name} {value}" for name, value in _versions().items())
        blocks.append(Text(f"{self.arguments.line} ({versions})"))
        return page(f"{Path(self.sources[0].path).name}: does the model fit?", blocks)


def _direction(weights):
    """The largest weights of a direction, in words."""
    leading = sorted(weights.items(), key=lambda pair: -abs(pair[1]))[:4]
    return direction([pair for pair in leading if abs(pair[1]) >= 0.005], len(weights))


def _versions():
    return {
        "fastsksd": __version__,
        "numpy": np.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
    }


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
