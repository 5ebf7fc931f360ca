"""Results and explanations as small tables, in text and in HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .._typing import Array
from .._validate import counted
from ..effects import Correlations, Effect, Effects, has_effects
from ..procedure.combine import Member
from ..procedure.fitted import Fitted
from ..procedure.precision import MATTERS
from .caveats import dependent_samples, imprecise, swapped_axes
from .directions import check_coordinates, coordinate_units, direction, leading, shown
from .explain import baseline_of
from .explanation import Explanation

if TYPE_CHECKING:
    from ..result import GofResult

WIDE = 20.0  # shift in standard deviations, or factor, from which on an interval says nothing
_ROWS = 20  # of effect sizes


def facts(result: GofResult, names: Sequence[str] | None = None) -> dict[str, str]:
    """What a result says, by title; `names` of the coordinates, unless those of the samples."""
    if result.draws_needed:
        why = "too few effective draws" if result.weighted else "the chains are too short"
        if result.chains is not None and result.chains.apart:
            why = "the chains are in different places"
        found = {"verdict": result.verdict, "p-value": f"none: {why}"}
    else:
        found = {
            "verdict": f"the model is {result.verdict} at level 0.05",
            "p-value": f"{result.pvalue:.4g}",
        }
    if result.neighbour_correlation:
        found["caution"] = str(dependent_samples(result))
    if result.score_noise >= MATTERS:
        found["precision"] = str(imprecise(result.score_noise))
    if result.members:
        strongest = member_name(result.members[0])
        found |= {
            "strongest member": f"{strongest}, of {len(result.members)} members",
            "statistic": f"{result.statistic:.6g} (discrepancy of the strongest member)",
            "evidence": f"{result.evidence:.4g} (-log10 of the members' combined p-value)",
        }
    else:
        found["statistic"] = f"{result.statistic:.6g}"
    if result.tolerated is not None:
        needed = result.tolerated.n_needed
        more = "" if needed is None else f", about {needed:,} samples would settle it"
        found["tolerance"] = f"{result.tolerated.verdict} ({result.tolerated.worst}){more}"
    if result.fitted is not None:
        found["fitted"] = fit_fact(result.fitted, not result.draws_needed)
    found |= {"null distribution": _null(result), "samples": _samples(result)}
    if result.weighted:
        found["weights"] = weights_fact(result)
    found |= {name: text for name, text in chain_facts(result).items() if text}
    if result.slices is None:
        z = result.locations
        points = "" if z is None else f", features at {len(z)} locations"
        width = f"{baseline_of(result).width_name} {result.bandwidths[0]:.4g}"
        return found | {"method": f"{result.method}, kernel {result.kernel}, {width}{points}"}
    d = result.slices.d
    q = int(np.argmax(result.slice_statistics))
    names = check_coordinates(result.names if names is None else names, d)
    if result.coordinate_statistics is not None:
        largest = largest_coordinates(result.coordinate_statistics, names)
        found |= {"largest along": largest} if largest else {}
        found["strongest slices"] = member_name(sliced_member(result))
    units = None if result._samples is None else coordinate_units(*result._samples[:2])
    strongest_slice = shown(result.slices.r[q], result.slices.g[q], names, units)
    how = f"kernel {result.kernel}, engine {result.engine}"
    return found | {
        "slices": f"{len(result.slices)} in {counted(d, 'dimension')}, {how}",
        "strongest slice": f"{q}: statistic {result.slice_statistics[q]:.4g}",
        "  score along r": direction(leading(strongest_slice.r, strongest_slice.names), d),
        "  input along g": direction(leading(strongest_slice.g, strongest_slice.names), d),
    }


def fit_fact(fitted: Fitted, tested: bool) -> str:
    """What the model was fitted to, and how refits went, where chains were long enough for any."""
    what = "samples" if fitted.thinned == 1 else f"draws, one in {fitted.thinned} of every chain"
    if not fitted.same_samples:
        return f"to {fitted.n_fit} other {what}"
    text = f"to the same {what}"
    if tested:
        text += f"; {fitted.n_refits} refits"
    if fitted.n_failed:
        text += f", {fitted.n_failed} of which failed and count as evidence as strong"
    return text


def weights_fact(result: GofResult) -> str:
    """What importance weights leave of the samples."""
    return f"importance weights, worth about {result.effective_draws:.0f} samples without"


def chain_facts(result: GofResult) -> dict[str, str]:
    """What a result says of chains, by title; empty texts where there is nothing to say."""
    report = result.chains
    if report is None:
        return {}
    count = len(report.chains)
    text = (
        f"{count} chain{'s' if count > 1 else ''}, worth about {result.effective_draws:.0f} "
        "independent draws along the slowest direction"
    )
    if hint := swapped_axes(result):
        text += f"; {hint}"
    different = ", ".join(map(str, report.different[:5]))
    start = (
        f"the first {report.burn_in} draws of every chain differ from its second half: drop them"
    )
    return {
        "chains": text,
        "chains that differ": different,
        "burn-in": start if report.burn_in else "",
    }


def member_name(member: Member) -> str:
    """Name, bandwidth multiple and samples of a `Member`."""
    where = "all samples" if member.part == "all" else member.part
    width = "" if member.multiple is None else f"bandwidth x {member.multiple:g}, "
    return f"{member.name!r} ({width}{where})"


def sliced_member(result: GofResult) -> Member:
    """The member of a family that the slices of its result belong to."""
    return next(member for member in result.members if member.n_slices)


def largest_coordinates(statistics: Array, names: Sequence[str]) -> str:
    """The three coordinates to which most of a statistic belongs, with their fractions."""
    positive = np.maximum(statistics, 0.0)
    fractions = positive / (positive.sum() or 1.0)
    order = np.argsort(-fractions, kind="stable")[:3].tolist()
    return ", ".join(f"{names[k]} ({fractions[k]:.0%})" for k in order if fractions[k] > 0.005)


def result_text(result: GofResult) -> str:
    """The `repr` of a result."""
    found = facts(result)
    width = max(map(len, found))
    return "GofResult\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in found.items())


def result_html(result: GofResult) -> str:
    """A result in a notebook: its facts, and a picture where matplotlib is there."""
    from ..plot.page import inline_figure

    rows = "".join(
        f"<tr><th style='text-align:left'>{name}</th><td>{escape(value)}</td></tr>"
        for name, value in facts(result).items()
    )
    table = f"<table><caption>GofResult</caption>{rows}</table>"
    effects = effects_html(result.effects) if has_effects(result) else ""
    return f"{table}{inline_figure(result)}{effects}"


def text_table(title: str, rows: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """Rows in columns, the first is the header, with notes below."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n  ".join([title, *lines, *notes])


def html_table(title: str, rows: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """The same for a notebook."""
    tags = ["th", *["td"] * len(rows)]
    body = "".join(_row(tag, row) for tag, row in zip(tags, rows, strict=False))
    listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<table><caption>{escape(title)}</caption>{body}</table><ul>{listed}</ul>"


def effects_text(effects: Effects) -> str:
    """The `repr` of effect sizes."""
    text = text_table("Effects", effects_table(effects), effect_notes(effects))
    pairs = effects.correlations
    return text if pairs is None or not pairs.off else f"{text}\n{correlations_text(pairs)}"


def effects_html(effects: Effects) -> str:
    """Effect sizes in a notebook."""
    html = html_table("Effect sizes", effects_table(effects), effect_notes(effects))
    pairs = effects.correlations
    return html if pairs is None or not pairs.off else html + correlations_html(pairs)


def correlations_text(pairs: Correlations) -> str:
    """The `repr` of correlations."""
    return text_table("Correlations", correlations_table(pairs), correlation_notes(pairs))


def correlations_html(pairs: Correlations) -> str:
    """Correlations in a notebook."""
    return html_table("Correlations", correlations_table(pairs), correlation_notes(pairs))


def correlations_table(pairs: Correlations) -> list[tuple[str, ...]]:
    """A header and a row for each pair that is off, the clearest `_ROWS`."""
    header = ("", "samples", "model", "difference", f"{pairs.level:.0%} interval")
    rows: list[tuple[str, ...]] = [header]
    off = pairs.off[:_ROWS]
    cells = estimate_cells([row.difference for row in off], [row.interval for row in off], 0.0)
    for row, difference in zip(off, cells, strict=True):
        values = (f"{round(one, 2) + 0.0:.2f}" for one in (row.samples, row.model))
        rows.append((row.name, *values, *difference))
    return rows


def correlation_notes(pairs: Correlations) -> list[str]:
    """What is to be said below the pairs that are off."""
    off = pairs.off
    count = counted(pairs.n_pairs, "pair")
    if not off:
        return [f"none is off, of {count} of coordinates"]
    notes = [f"the clearest {_ROWS} of {len(off)} that are off"] if len(off) > _ROWS else []
    if rough := [row.name for row in off if row.rough]:
        notes.append(
            f"numbers are rough: {_some(rough)}; only the fact that the correlation is off can be "
            "relied on"
        )
    if pairs.simultaneous and pairs.n_pairs > 1:
        notes.append(f"the intervals of all {count} of coordinates hold at once")
    return notes


def effects_table(effects: Effects) -> list[tuple[str, ...]]:
    """A header and rows in words: all of them, or the strongest `_ROWS`."""
    percent = f"{effects.level:.0%} interval"
    header = ("", "shift (sd)", percent, "stretch", percent, "shear", percent, "across")
    rows: list[tuple[str, ...]] = [header]
    shown = strongest_effects(effects, _ROWS)
    columns = [
        estimate_cells(
            [getattr(row, one) for row in shown],
            [getattr(row, f"{one}_interval") for row in shown],
            right,
        )
        for one, right in (("shift", 0.0), ("stretch", 1.0), ("shear", 0.0))
    ]
    for row, *cells in zip(shown, *columns, strict=True):
        rows.append((row.name, *(cell for pair in cells for cell in pair), row.across or ""))
    if not any(row.across for row in effects):
        rows = [row[:5] for row in rows]
    return rows


def strongest_effects(effects: Effects, most: int) -> list[Effect]:
    """Rows in their order, where there are more than `most` the strongest of them."""
    rows = list(effects)
    if len(rows) <= most:
        return rows
    order = np.argsort(-effects.strength, kind="stable")[:most]
    return [rows[k] for k in sorted(order.tolist())]


def digits(interval: tuple[float, float]) -> int:
    """Decimals that show where an interval ends, at least two."""
    width = interval[1] - interval[0]
    return 2 if not width > 0 else int(np.clip(1 - np.floor(np.log10(width)), 2, 8))


def says_nothing(interval: tuple[float, float], right: float) -> bool:
    """Whether an interval reaches far on both sides of what is `right`: 0, or 1 of a factor."""
    low, high = interval
    if right:
        return low < right / WIDE and high > right * WIDE
    return low < -WIDE and high > WIDE


def estimate_cells(
    values: Sequence[float], intervals: Sequence[tuple[float, float]], right: float
) -> list[tuple[str, str]]:
    """Estimates and intervals of a column in words; empty where they are not known.

    `right` is the value of a right model.
    """
    empty = [says_nothing(one, right) for one in intervals]
    known = [
        digits(one)
        for one, nothing in zip(intervals, empty, strict=True)
        if np.isfinite(one).all() and not nothing
    ]
    places = int(np.median(known)) if known else 2
    cells = []
    for value, interval, nothing in zip(values, intervals, empty, strict=True):
        middle, low, high = (
            f"{number:.{places}f}" if abs(number) < 1e4 else f"{number:.2g}"
            for number in (value, *interval)
        )
        if not np.isfinite(value):
            cells.append(("", ""))
        else:
            cells.append((middle, "unknown" if nothing else f"{low} to {high}"))
    return cells


def rough_note(effects: Effects) -> list[str]:
    """Notes that name the rows whose numbers are rough, if there are any."""
    notes, divided = [], effects.divided
    off = np.array([row.shifted or row.stretched for row in effects], dtype=bool)
    for which, said in (
        (off, "only the fact that something is off can be relied on"),
        (~off, "nothing is seen to be off, but how large an effect may be can't be told"),
    ):
        if rough := [effects.names[k] for k in np.flatnonzero(effects.rough & ~divided & which)]:
            notes.append(
                "numbers are rough, as shapes differ or the model is far from normal: "
                f"{_some(rough)}; {said}"
            )
    if divided.any():
        notes.append(
            "numbers are rough, as the samples are in separate groups: "
            f"{_some([effects.names[k] for k in np.flatnonzero(divided)])}; what comes from wrong "
            "weights of the groups is not seen, fastsksd.mode_weights in Python compares them"
        )
    return notes


def _some(names: Sequence[str]) -> str:
    """The first of some names."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{', '.join(names[:5])}{more}"


def effect_notes(effects: Effects) -> list[str]:
    """What is to be said below the table of effects."""
    notes = []
    if len(effects) > _ROWS:
        notes.append(f"the strongest {_ROWS} of {len(effects)} rows")
    notes.append("shifts in standard deviations of the model; stretch 1 is the model's width")
    notes += rough_note(effects)
    if effects.simultaneous and len(effects) > 1:
        notes.append("the intervals of all rows hold at once")
    return notes


def explanation_text(explanation: Explanation) -> str:
    """The `repr` of an explanation."""
    return text_table("Explanation", _table(explanation), _notes(explanation))


def explanation_html(explanation: Explanation) -> str:
    """An explanation in a notebook."""
    return html_table("Explanation", _table(explanation), _notes(explanation))


def _row(tag: str, cells: Iterable[str]) -> str:
    return (
        "<tr>"
        + "".join(f"<{tag} style='text-align:left'>{escape(cell)}</{tag}>" for cell in cells)
        + "</tr>"
    )


def _null(result: GofResult) -> str:
    if result.null == "spectral" and baseline_of(result).exact_tail:
        bound = "; members combined by Bonferroni's inequality" if result.members else ""
        return f"spectral, the limit distribution itself{bound}"
    quantile = np.quantile(result.null_distribution, 0.95)
    lag = f", a sign for every {result.lag:.3g} draws" if result.lag > 1 else ""
    of = " of the evidence" if result.members else ""
    count = result.null_distribution.size
    return f"{result.null}{lag}, {count} replicates{of}, 95% quantile {quantile:.4g}"


def _samples(result: GofResult) -> str:
    if any(member.part == "half 1" for member in result.members):
        given = 0 if result.chains is None else sum(one.draws for one in result.chains.chains)
        count = f"{result.n_test}"
        if given > result.n_test:
            count += f" of {given} draws"
            count += "" if result.fitted else ", without gaps between stretches"
        return f"{count}, each half tested along slices found on the other"
    if result.slices is not None:
        return f"{result.n_test} tested, {result.n_train} used to find slices"
    training = f", {result.n_train} used to find locations" if result.n_train else ""
    model = f" against {result.n_model} of the model" if result.n_model else ""
    return f"{result.n_test} tested{training}{model}"


def _table(explanation: Explanation) -> list[tuple[str, ...]]:
    """A header and a row for each slice; directions r only where one differs from its g."""
    if not explanation.slices:
        return []
    d = len(explanation.names)
    rows: list[tuple[str, ...]] = []
    header = ("slice", "fraction", "p-value", "adjusted", "along r", "along g", "shape")
    for one in explanation.slices:
        numbers = f"{one.fraction:.0%}", f"{one.pvalue:.3g}", f"{one.pvalue_adjusted:.3g}"
        r, g = direction(one.leading_r, d), direction(one.leading_g, d)
        rows.append((str(one.index), *numbers, r, g, one.shape))
    if all(row[4] == row[5] for row in rows):
        return [row[:4] + row[5:] for row in (header, *rows)]
    return [header, *rows]


def _notes(explanation: Explanation) -> list[str]:
    notes = []
    left = explanation.statistics.size - len(explanation.slices)
    if explanation.slices and left:
        notes.append(f"{left} more slices have smaller statistics")
    if explanation.slices:
        if len(explanation.names) > 1:
            notes.append("shapes are those of the samples given the other coordinates")
        notes.append(f"adjusted p-values allow for {explanation.allows_for}")
    what = "rows" if explanation.draws is None else "draws"
    largest = ", ".join(explanation.said(5))
    notes.append(
        f"{what} with the largest contributions (of {explanation.indices.size}): {largest}"
    )
    return [*notes, *map(str, explanation.caveats)]


def plain(value: Any) -> Any:
    """`value` in types that JSON has; numbers that are not finite are None."""
    if isinstance(value, dict):
        return {name: plain(some) for name, some in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(some) for some in value]
    if isinstance(value, float):  # NumPy's too
        return float(value) if math.isfinite(value) else None
    return value
