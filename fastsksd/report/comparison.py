"""Comparisons of models as tables and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .caveats import dependent, separate
from .directions import check_coordinates, direction, leading
from .tables import html_table, text_table

if TYPE_CHECKING:
    from ..comparison import Comparison, Difference

_ROWS = 20  # differences shown
_MUCH = 0.5  # of the difference, from which on a direction is named
_NEAR = 0.9  # cosine of slices that count as one direction


def comparison_text(compared: Comparison) -> str:
    """The `repr` of a comparison."""
    first, second = comparison_tables(compared)
    alone = text_table("Comparison", first, [])
    return "\n".join([alone, text_table("", second, comparison_notes(compared)).lstrip("\n")])


def comparison_html(compared: Comparison) -> str:
    """A comparison in a notebook."""
    first, second = comparison_tables(compared)
    return html_table("Discrepancies, best first", first, []) + html_table(
        "Differences", second, comparison_notes(compared)
    )


def comparison_tables(compared: Comparison) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Discrepancies, best first, and differences, smallest p-value first, each with a header."""
    percent = f"{compared.level:.0%} interval"
    what = "model" if compared.of_models else "samples"
    letters = _letters(compared)
    alone: list[tuple[str, ...]] = [(what, "discrepancy", percent, "group")]
    values = dict(zip(compared.names, compared.discrepancies, strict=True))
    ends = dict(zip(compared.names, compared.discrepancy_intervals, strict=True))
    for name in compared.ranking:
        alone.append((name, f"{values[name]:.4g}", _said(tuple(ends[name])), letters[name]))
    rows: list[tuple[str, ...]] = [("", "difference", percent, "p-value", "better")]
    for row in _strongest(compared):
        pvalue = "" if np.isnan(row.pvalue) else f"{row.pvalue:.3g}"
        title = f"{row.first} - {row.second}"
        rows.append((title, f"{row.difference:.4g}", _said(row.interval), pvalue, row.better or ""))
    return alone, rows


def summary(compared: Comparison) -> str:
    """A comparison in a paragraph."""
    if compared.draws_needed:
        return f"The chains are too short to tell: about {compared.draws_needed} draws are needed."
    sentences = [_pair(compared)] if len(compared) == 1 else _ranking(compared)
    right = compared.may_be_right
    if len(right) > 1 and len(right) == len(compared.names):
        sentences.append(
            "No discrepancy is told from 0: all may be right, and then there is no difference to "
            "be found."
        )
    elif right:
        noun, verb = ("discrepancy", "is") if len(right) == 1 else ("discrepancies", "are")
        sentences.append(
            f"The {noun} of {_listed(right)} {verb} not told from 0; gof_test says more."
        )
    sentences += [f"Caution: {text}." for text in _cautions(compared)]
    return " ".join(sentences)


def _cautions(compared: Comparison) -> list[str]:
    """What makes a comparison wrong, or blind."""
    found = []
    if compared.neighbour_correlation:
        found.append(dependent(compared.neighbour_correlation).text)
    names = ("",) if compared.of_models else compared.names
    groups = {
        name: weights
        for name, weights in zip(names, compared.group_weights, strict=False)
        if weights
    }
    return [*found, separate(groups, "comparison")] if groups else found


def _pair(compared: Comparison) -> str:
    row = compared[0]
    if row.better is None:
        both = f"{row.first} and {row.second} can't be told apart"
        if row.difference == 0.0:
            return f"{both}: their discrepancies are the same."
        if row.difference < 0.0:
            row = compared[row.second, row.first]
        return (
            f"{both}: the discrepancy of {row.first} is larger by {row.difference:.3g} "
            f"({_said(row.interval)}; p-value {row.pvalue:.3g})."
        )
    worse = row.second if row.better == row.first else row.first
    row = compared[worse, row.better]
    verb = "fits better than" if compared.of_models else "is closer to the model than"
    return (
        f"{row.second} {verb} {row.first}: the discrepancy of {row.first} is larger by "
        f"{row.difference:.3g} ({_said(row.interval)}; p-value {row.pvalue:.3g})"
        f"{_where(compared, row)}."
    )


def _ranking(compared: Comparison) -> list[str]:
    adjective = "fits best" if compared.of_models else "is closest to the model"
    best = compared.best
    if len(best) == 1:
        first = f"{best[0]} {adjective}."
    elif len(best) == len(compared.names):
        first = f"None of {_listed(compared.ranking)} can be told from the best."
    else:
        first = f"The best is among {_listed(best)}, which can't be told from {best[0]}."
    order = ", ".join(compared.ranking)
    sentences = [first, f"From the smallest discrepancy to the largest: {order}."]
    together = [group for group in compared.groups if len(group) > 1]
    if together and len(best) < len(compared.names):
        said = "; ".join(_listed(group) for group in together)
        sentences.append(f"Not told apart: {said}.")
    return sentences


def _where(compared: Comparison, row: Difference) -> str:
    """The direction that has most of a difference, with the slices nearly along it."""
    a, b = map(compared.names.index, (row.first, row.second))
    parts = compared.slice_statistics[a] - compared.slice_statistics[b]
    m = int(np.argmax(parts))
    d = compared.slices.d
    near = np.abs(compared.slices.g @ compared.slices.g[m]) > _NEAR
    if d == 1 or parts[near].sum() < _MUCH * np.abs(parts).sum():
        return ""
    names = check_coordinates(compared.coordinates, d)
    return f", most of it along {direction(leading(compared.slices.g[m], names), d)}"


def comparison_notes(compared: Comparison) -> list[str]:
    """What is to be said below the tables of a comparison."""
    notes = []
    if compared.draws_needed:
        notes.append(f"too short to tell: about {compared.draws_needed} draws needed")
    if len(compared) > _ROWS:
        notes.append(f"the clearest {_ROWS} of {len(compared)} differences")
    if len(compared) > 1:
        notes.append("intervals and p-values of all differences hold at once")
    if not compared.draws_needed:
        notes.append("those with a letter in common can't be told apart")
    samples = " and ".join(map(str, dict.fromkeys(compared.n_compared)))
    fit = f", and to fit {_listed(tuple(compared.fitted))}" if compared.fitted else ""
    notes.append(
        f"{samples} samples compared along {len(compared.slices)} slices, {compared.n_train} used "
        f"to learn units, slices and bandwidths{fit}"
    )
    return [*notes, *(f"caution: {text}" for text in _cautions(compared))]


def _strongest(compared: Comparison) -> list[Difference]:
    rows = list(compared)
    if len(rows) <= _ROWS:
        return rows
    order = np.argsort([row.pvalue for row in rows], kind="stable")[:_ROWS]
    return [rows[k] for k in order]


def _letters(compared: Comparison) -> dict[str, str]:
    """Letters of the groups that each name is in."""
    if compared.draws_needed:
        return dict.fromkeys(compared.names, "")
    groups = compared.groups
    titles = [chr(ord("a") + k) if len(groups) <= 26 else f"{k + 1} " for k in range(len(groups))]
    return {
        name: "".join(t for t, group in zip(titles, groups, strict=True) if name in group).strip()
        for name in compared.names
    }


def _said(interval: tuple[float, ...]) -> str:
    if not np.isfinite(interval).all():
        return ""
    return f"{interval[0]:.3g} to {interval[1]:.3g}"


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
