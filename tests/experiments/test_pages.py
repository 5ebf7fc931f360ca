"""Pages from kept results: verdicts, figures, errata, and the page in the repository."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest

from fastsksd import cli
from fastsksd.experiments import (
    errata,
    figures,
    level,
    pages,
    peer_tables,
    report,
    run,
    runner,
    verdicts,
)

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = ROOT / "notebooks"
KEPT = NOTEBOOKS / "paper"


def source_of(path):
    """What a PNG file says it was drawn from."""
    content, place = path.read_bytes(), 8
    while place < len(content):
        (length,), kind = (
            struct.unpack(">I", content[place : place + 4]),
            content[place + 4 : place + 8],
        )
        if kind == b"tEXt" and content[place + 8 :].startswith(b"Source\0"):
            return content[place + 15 : place + 8 + length].decode()
        place += 12 + length
    return None


def test_tables_of_the_page_on_power_are_what_their_rows_give():
    """If not: run ``.ci/check_docs.py --write``."""
    page = (NOTEBOOKS / "how_well_it_works.md").read_text()
    assert peer_tables.filled(page, NOTEBOOKS / "studies") == page
    assert page.count("<!-- table: ") == len(peer_tables.tables(NOTEBOOKS / "studies"))
    broken = page.replace(" | 100 | ", " | 101 | ")
    assert broken != page == peer_tables.filled(broken, NOTEBOOKS / "studies")


def test_page_in_the_repository_is_what_its_rows_give():
    """If not: run ``fastsksd report notebooks/paper`` and ``.ci/check_docs.py --write``."""
    text, drawn = pages.page_of(KEPT)
    assert (KEPT / "index.md").read_text() == text
    assert {path.name for path in KEPT.glob("index_*.png")} == set(drawn)
    for name, figure in drawn.items():
        assert source_of(KEPT / name) == figure.source
    (table,) = re.findall(
        r"<!-- paper -->\n(.*?)\n<!-- end -->", (ROOT / "README.md").read_text(), re.S
    )
    assert table == pages.short_table(KEPT)


def test_errata_name_tests_that_exist():
    for one in (*errata.PAPER, *errata.CODE):
        assert one.tests
        for test in one.tests:
            path, _, name = test.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M), test


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A folder with half a study."""
    settings = dict(models=["normal"], d=[2], n=[20], tests=4, block=1, n_resamples=19, burn_in=10)
    monkeypatch.setitem(level.SCALES, "tiny", settings)
    clock = iter(range(100))
    monkeypatch.setattr(runner, "monotonic", lambda: 60.0 * next(clock))
    run("level", "tiny", tmp_path, minutes=3)
    return tmp_path


def test_page_of_half_a_study(study, capsys):
    assert cli.main(["report", str(study)]) == 0
    assert capsys.readouterr().out.strip() == str(study / "index.md")
    text = (study / "index.md").read_text()
    assert "# Results of studies" in text and "2 of 4 tasks are done" in text
    machine = runner.this_machine()
    assert f"{machine['processor']}, {machine['cores']} cores" in text and machine["date"] in text
    assert "## Errata" not in text


def test_some_reports_need_all_trials():
    study = runner.Kept("quick", {}, [{"p": 0.5}], 1, 2, [])
    (block,) = pages.blocks_of("power", study)
    assert block.text == "Scale quick: 1 of 2 tasks are done. The report needs more."
    (block,) = pages.blocks_of("rbm", study._replace(rows=[], done=0))
    assert block.text == "No trial yet."


def test_report_explains_what_is_missing(study, capsys):
    (study / "empty").mkdir()
    assert cli.main(["report", str(study / "empty")]) == 2
    assert "holds no results of a study" in capsys.readouterr().err
    path = study / "level.jsonl"
    path.write_text(path.read_text().replace('"tests": 4', '"tests": 5'))
    assert cli.main(["report", str(study)]) == 2
    assert "other settings (tests: 5 there, 4 here)" in capsys.readouterr().err
    path.write_text("no results\n")
    assert cli.main(["report", str(study)]) == 2
    assert "line 1 of" in capsys.readouterr().err


def test_figures_are_drawn_when_they_are_written(tmp_path):
    calls = []

    def draw():
        calls.append(1)
        return report.pyplot().figure()

    blocks = [report.Heading("Part", level=3), report.Items(["one", "two"]),
              report.Figure(draw, "A picture", "0123abcd")]  # fmt: skip
    text, _ = report.markdown("name", "Title", blocks)
    assert text == "# Title\n\n### Part\n\n- one\n- two\n\n![A picture](name_1.png)\n"
    assert not calls
    paths = report.write_report(tmp_path, "name", "Title", blocks)
    assert len(calls) == 1 and source_of(tmp_path / "name_1.png") == "0123abcd"
    page = paths[1].read_text()
    assert "<h3>Part</h3>" in page and "<ul><li>one</li><li>two</li></ul>" in page


def test_names_at_the_ends_do_not_overlap():
    rng = np.random.default_rng(0)
    for _ in range(50):
        wanted = np.sort(rng.random(6))[::-1]
        sizes = rng.uniform(0.02, 0.2, 6)
        heights = figures.spread_out(wanted, sizes)
        assert np.all(heights[:-1] - heights[1:] >= (sizes[:-1] + sizes[1:]) / 2 - 1e-12)
    far = [1.0, 0.5, 0.0]
    np.testing.assert_allclose(figures.spread_out(far, [0.1] * 3), far)
    np.testing.assert_allclose(figures.spread_out([0.5, 0.5], [0.1, 0.3]), [0.6, 0.4])


def test_equal_lines_share_a_name():
    lines = [figures.Line(name, [1, 2], [[k, 9], [9, 9]], "black")
             for name, k in (("a", 3), ("b", 4), ("c d", 3))]  # fmt: skip
    # A name is not broken between lines.
    assert [line.name for line in figures._merged(lines)] == ["a, c\N{NO-BREAK SPACE}d", "b"]


def test_verdicts():
    assert verdicts.verdict((99, 100), 0.99) == verdicts.AGREES
    assert verdicts.verdict((80, 100), 0.99) == verdicts.WORSE
    assert verdicts.verdict((80, 100), 0.58) == verdicts.BETTER
    assert verdicts.verdict((80, 100), 0.58, spread=0.1) == verdicts.AGREES
    assert verdicts.verdict((0, 9), 0.99) == verdicts.OPEN
    assert verdicts.Claim("", (90, 100), (50, 100)).verdict == verdicts.HOLDS
    assert verdicts.Claim("", (50, 100), (90, 100)).verdict == verdicts.FAILS
    assert verdicts.Claim("", (50, 100), (45, 100)).verdict == verdicts.OPEN
    assert verdicts.Claim("", (9, 9), (0, 9)).verdict == verdicts.OPEN
    assert verdicts.Claim("", None, (45, 100)).verdict == verdicts.OPEN


def test_spread_between_models_is_apart_from_that_within():
    rng = np.random.default_rng(0)
    for spread in (0.0, 0.2):
        rates = np.clip(0.5 + spread * rng.standard_normal(2000), 0, 1)
        found = verdicts.spread_of_models([(rng.binomial(10, rate), 10) for rate in rates])
        assert found == pytest.approx(np.std(rates), abs=0.03)
    assert verdicts.spread_of_models([(1, 1), (0, 1)]) == 0.0


def test_interval_of_a_mean():
    from scipy import stats

    values = [1.0, 2.0, 4.0]
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(verdicts.mean_interval(values), expected)
    assert verdicts.mean_interval([3.0]) == (-np.inf, np.inf)
