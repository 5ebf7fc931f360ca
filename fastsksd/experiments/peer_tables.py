"""The tables of the page `how_well_it_works` that are made from rows of `peers` and `choices`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from . import choices, peers
from .peers import DEFAULT, GROUPS, Cell
from .report import Table, table_lines
from .runner import kept

# Tests of the first two tables, beside the default.
_OTHERS = ("KSD", "KSDAgg", "PSD 1", "PSD 2", "PSD 2, products", "PSD 4", "FSSD", *GROUPS["paper"])
_PLACE = re.compile(r"(<!-- table: (.*?) -->\n)(.*?)(<!-- end -->\n)", re.S)
_VARIANTS = ("paper", "variants", "exact")


def filled(page: str, folder: Path) -> str:
    """The text of the page with its tables made anew, from the results in a folder.

    A table stands between ``<!-- table: its name -->`` and ``<!-- end -->``.
    """
    made = tables(folder)
    return _PLACE.sub(lambda found: found[1] + made.pop(found[2]) + found[4], page)


def tables(folder: Path) -> dict[str, str]:
    """Tables in Markdown by the names of their places, from the results in a folder."""
    results = peers.Results(kept(folder / "peers.jsonl").rows)
    cells = list(results.right)
    headline = [cell for cell in cells if results.count(cell, DEFAULT)[1] >= 100]
    headline.sort(key=lambda cell: results.right[cell])  # right models last
    hidden = [cell for cell in cells if _of_hidden_units(cell)]
    hidden.sort(key=lambda cell: cell.hidden or 0)
    study = kept(folder / "choices.jsonl")
    made = {
        "peers": _rates(results, headline, "problem", _name),
        "peers by hidden units": _rates(
            results, hidden, "hidden units", lambda cell: str(cell.hidden)
        ),
        "variants of the paper": _variants(results, headline),
        "choices": choices.short_table(study.rows),
    }
    return {name: "\n".join(table_lines(table)) + "\n" for name, table in made.items()}


def _of_hidden_units(cell: Cell) -> bool:
    return (cell.problem, cell.d, cell.n, cell.size) == ("RBM", 50, 1000, 0.02)


def _rates(
    results: peers.Results, cells: Sequence[Cell], what: str, label: Callable[[Cell], str]
) -> Table:
    rows = []
    for cell in cells:
        name = f"*level: {label(cell)}*" if results.right[cell] else label(cell)
        rates = [f"{results.rate(cell, test):.2f}" for test in (DEFAULT, *_OTHERS)]
        rows.append([name, results.count(cell, DEFAULT)[1], *rates])
    return Table([what, "trials", DEFAULT, *map(_short, _OTHERS)], rows)


def _variants(results: peers.Results, cells: Sequence[Cell]) -> Table:
    """The paper's tests, with the default's rate in the same trials."""
    tests = [test for group in _VARIANTS for test in GROUPS[group]]
    tests.sort(key=lambda test: "rg" in test)
    rows = []
    for cell in cells:
        decisions = results.decisions[cell]
        trials = sorted(set.intersection(*(set(decisions[test]) for test in (DEFAULT, *tests))))
        rates = [
            sum(decisions[test][trial] for trial in trials) / len(trials)
            for test in (DEFAULT, *tests)
        ]
        name = _name(cell, chosen=False)
        name = f"*level: {name}*" if results.right[cell] else name
        rows.append([name, len(trials), *(f"{rate:.2f}" for rate in rates)])
    short = [_short(test).removeprefix("SKSD-") for test in tests]
    return Table(["problem", "trials", DEFAULT, *short], rows)


def _short(test: str) -> str:
    return test.removesuffix(", 3 slices")


def _name(cell: Cell, *, chosen: bool = True) -> str:
    """What a cell is called; (c) if the members of the default were chosen on its kind."""
    name = {
        "RBM": f"RBM {cell.d}/{cell.hidden}" + (f", noise {cell.size:g}" if cell.size else ""),
        "one variance": f"one variance {cell.size}, d = {cell.d}",
    }.get(cell.problem)
    if name is None:
        kind, _, rotated = cell.problem.partition(", ")
        name = f"{rotated} {kind}".strip() + f", d = {cell.d}"
    name += "" if cell.n == 1000 else f", n = {cell.n}"
    wrong = cell.problem != "normal" and cell.size != 0
    return f"{name} (c)" if chosen and wrong and peers.chosen_on(cell) else name
