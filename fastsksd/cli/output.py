"""What ``fastsksd test`` hands out: words for people, JSON for programs, a page with figures."""

from __future__ import annotations

import json
import os
import platform
import shutil
import textwrap
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .._validate import OptionFormat, counted, first_few
from .._version import __version__
from ..comparison import has_interval
from ..effects import effects_of, has_effects
from ..report.caveats import caveats_of
from ..report.directions import direction, leading
from ..report.explain import explain, is_explicable
from ..report.tables import (
    correlation_notes,
    correlations_table,
    effect_notes,
    effects_table,
    facts,
    member_name,
    plain,
    sliced_member,
)
from ..report.wording import summary
from ..result import GofResult
from .shell import CommandError

_NO_SAMPLES = (
    "A stream keeps no samples, so that it can't show where the model fails; --no-stream on a file "
    "with some of the rows shows it."
)
_SHOWN = 8  # names of columns


@dataclass(frozen=True)
class Tested:
    """A test on the command line, with its outcome.

    Attributes
    ----------
    result : GofResult
        The outcome.
    samples, against : str
        The file, and what it was tested against, in words.
    names : tuple of str
        Names of the columns tested.
    named : bool
        Whether the file has names of columns.
    n, dropped : int
        Rows tested, and rows left out.
    streamed : bool
        Whether the file was read as a stream.
    seconds : float
        Time of the test, with reading.
    alpha : float
        Level of the test.
    seed : int
        Seed of the test.
    line : str
        The command line.
    option : callable
        How options are written.
    """

    result: GofResult
    samples: str
    against: str
    names: tuple[str, ...]
    named: bool
    n: int
    dropped: int
    streamed: bool
    seconds: float
    alpha: float
    seed: int
    line: str
    option: OptionFormat

    @property
    def d(self) -> int:
        """Number of columns tested."""
        return len(self.names)


def as_words(tested: Tested) -> str:
    """The outcome for people, in two paragraphs."""
    width = min(100, max(40, shutil.get_terminal_size().columns))
    return "\n\n".join(
        textwrap.fill(text, width, break_on_hyphens=False)
        for text in (_files(tested), _summary(tested))
    )


def as_json(tested: Tested) -> str:
    """The outcome for programs; numbers that are not finite are null."""
    result = tested.result
    explanation = explain(result, n_slices=1) if is_explicable(result) else None
    content = {
        "samples": tested.samples,
        "against": tested.against,
        "n": tested.n,
        "d": tested.d,
        "names": tested.names,
        "dropped": tested.dropped,
        "statistic": result.statistic,
        "evidence": result.evidence,
        "pvalue": result.pvalue,
        "alpha": tested.alpha,
        "reject": result.reject(tested.alpha),
        "verdict": result.verdict_at(tested.alpha).partition(":")[0],
        "draws_needed": result.draws_needed,
        "effective_draws": result.effective_draws,
        "weighted": result.weighted,
        "score_noise": result.score_noise,
        "method": result.method,
        "null": result.null,
        "kernel": result.kernel,
        "engine": result.engine,
        "lag": result.lag,
        "n_test": result.n_test,
        "n_train": result.n_train,
        "streamed": tested.streamed,
        "seed": tested.seed,
        "strongest_slice": _strongest_slice(tested),
        "caveats": [caveat.said(tested.option) for caveat in caveats_of(result, explanation)],
        "largest_coordinates": _largest_coordinates(tested),
        "effects": effects_of(result, names=tested.names).to_dict()
        if has_effects(result)
        else None,
        "discrepancy": _discrepancy(result),
        "tolerated": None if result.tolerated is None else result.tolerated._asdict(),
        "chains": _chains(result),
        "fitted": _fitted(result),
        "members": [member._asdict() for member in result.members],
        "timings": result.timings | {"all": tested.seconds},
        "versions": _versions(),
    }
    return json.dumps(plain(content), indent=2, allow_nan=False)


def _discrepancy(result: GofResult) -> dict[str, Any] | None:
    """The discrepancy along the slices of a result, which of a family are those of one member."""
    if not has_interval(result):
        return None
    along = member_name(sliced_member(result)) if result.members else "the slices"
    return {
        "value": float(result.slice_statistics.sum()),
        "interval": result.discrepancy_interval(),
        "along": along,
    }


def _fitted(result: GofResult) -> dict[str, Any] | None:
    if result.fitted is None:
        return None
    return {name: one for name, one in result.fitted._asdict().items() if name != "model"}


def as_page(tested: Tested) -> str:
    """The outcome as one HTML page."""
    from ..experiments.report import Heading, Items, Table, Text, figure_of, page

    result = tested.result
    blocks: list[Any] = [Text(_files(tested)), Text(_summary(tested))]
    try:
        figure = result.plot(names=tested.names, alpha=tested.alpha)
        blocks.append(figure_of(figure, "What the test saw"))
    except ImportError as error:
        blocks.append(Text(f"No figures: {error}"))
    known = facts(result, tested.names)
    if has_interval(result):
        low, high = result.discrepancy_interval()
        known["discrepancy"] = (
            f"{result.slice_statistics.sum():.4g} along the slices, {low:.4g} to {high:.4g} (95%)"
        )
    blocks += [
        Heading("In numbers"),
        Table(["", ""], [item for item in known.items() if item[0] != "verdict"]),
    ]
    if has_effects(result):
        effects = effects_of(result, names=tested.names)
        first, *rest = effects_table(effects)
        blocks += [Heading("Effect sizes"), Table(list(first), rest), Items(effect_notes(effects))]
        pairs = effects.correlations
        if pairs is not None and pairs.off:
            first, *rest = correlations_table(pairs)
            blocks += [Heading("Correlations"), Table(list(first), rest)]
            blocks.append(Items(correlation_notes(pairs)))
    if result.members:
        header = ["member", "bandwidth x", "samples", "statistic", "p-value", "adjusted p-value"]
        rows = [
            (
                member.name,
                "" if member.multiple is None else f"{member.multiple:g}",
                member.part,
                f"{member.statistic:.4g}",
                f"{member.pvalue:.3g}",
                f"{member.adjusted_pvalue:.3g}",
            )
            for member in result.members
        ]
        blocks += [Heading("Members of the family, strongest first"), Table(header, rows)]
    versions = ", ".join(f"{name} {value}" for name, value in _versions().items())
    blocks += [Heading("How it was made"), Text(f"{tested.line} ({versions})")]
    return page(f"{Path(tested.samples).name}: does the model fit?", blocks)


def check_page(path: str | None) -> None:
    """The page asked for, if any, must be one that can be written there."""
    if path is None:
        return
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


def _files(tested: Tested) -> str:
    names = ""
    if tested.named:
        names = f" ({first_few(tested.names, _SHOWN)})"
    counts = f"{counted(tested.n, 'sample')} of {counted(tested.d, 'column')}{names}"
    return f"{counts} in {tested.samples}, against {tested.against}."


def _summary(tested: Tested) -> str:
    result = tested.result
    words = summary(
        result, names=tested.names, alpha=tested.alpha, option=tested.option, no_samples=_NO_SAMPLES
    )
    if not tested.streamed or result.slices is None:
        return words
    q = int(np.argmax(result.slice_statistics))
    r, g = (
        direction(leading(vectors[q], tested.names), tested.d)
        for vectors in (result.slices.r, result.slices.g)
    )
    return f"{words} The strongest slice has scores along r = {r} and samples along g = {g}."


def _strongest_slice(tested: Tested) -> dict[str, Any] | None:
    result = tested.result
    if result.slices is None:
        return None
    q = int(np.argmax(result.slice_statistics))
    return {
        "statistic": result.slice_statistics[q],
        "bandwidth": result.bandwidths[q],
        "r": dict(zip(tested.names, result.slices.r[q].tolist(), strict=True)),
        "g": dict(zip(tested.names, result.slices.g[q].tolist(), strict=True)),
    }


def _largest_coordinates(tested: Tested) -> dict[str, float] | None:
    """What belongs to each coordinate, where the strongest member has no slices."""
    parts = tested.result.coordinate_statistics
    return None if parts is None else dict(zip(tested.names, parts.tolist(), strict=True))


def _chains(result: GofResult) -> dict[str, Any] | None:
    report = result.chains
    if report is None:
        return None
    return {
        "chains": [one._asdict() for one in report.chains],
        "different": report.different,
        "start": [one._asdict() for one in report.start],
        "burn_in": report.burn_in,
        "apart": report.apart,
    }


def _versions() -> dict[str, str]:
    return {
        "fastsksd": __version__,
        "numpy": np.__version__,
        "numba": version("numba"),
        "python": platform.python_version(),
    }
