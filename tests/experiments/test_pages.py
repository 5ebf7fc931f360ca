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
    # A spread that was estimated from few models allows more.
    assert verdicts.verdict((80, 100), 0.6, spread=0.06) == verdicts.BETTER
    assert verdicts.verdict((80, 100), 0.6, spread=0.06, models=3) == verdicts.AGREES


def _outcomes(rejected, trials, name="x"):
    return {(name, trial): trial < rejected for trial in range(trials)}


def test_claims_of_other_samples():
    def verdict(larger, smaller):
        return verdicts.Claim("", _outcomes(*larger), _outcomes(*smaller, name="y")).verdict

    assert verdict((90, 100), (50, 100)) == verdicts.HOLDS
    assert verdict((50, 100), (90, 100)) == verdicts.FAILS
    assert verdict((50, 100), (45, 100)) == verdicts.OPEN
    assert verdict((9, 9), (0, 9)) == verdicts.OPEN
    assert verdict((0, 0), (45, 100)) == verdicts.OPEN


def test_claims_of_the_same_samples_are_judged_pair_by_pair():
    # 55 against 45 of 100: nothing, were it not that one finds all that the other finds.
    claim = verdicts.Claim("", _outcomes(55, 100), _outcomes(45, 100))
    assert verdicts.difference((55, 100), (45, 100))[0] < 0 < claim.difference[0]
    assert claim.verdict == verdicts.HOLDS
    assert verdicts.Claim("", claim.smaller, claim.larger).verdict == verdicts.FAILS
    # Trials of only one of the two are left out.
    more = verdicts.Claim("", {**claim.larger, ("x", 200): False}, claim.smaller)
    assert more.difference == claim.difference
    # All ten come from two of the five models: one model more or less is not sure.
    by_model = claim._replace(cluster=lambda trial: trial[1] // 20)
    assert by_model.verdict == verdicts.OPEN
    even = {("x", t): t % 2 == 0 for t in range(100)}
    more = {**even, **{("x", t): True for t in range(9, 100, 10)}}
    assert by_model._replace(larger=more, smaller=even).difference == pytest.approx((0.1, 0.1))
    table = verdicts.claims_table([claim, claim._replace(smaller={})])
    assert table.rows[0][1:3] == ["0.55, 100 tests", "0.45, 100 tests"]
    assert table.rows[0][3].startswith("+0.10 (+") and table.rows[0][4] == verdicts.HOLDS
    assert table.rows[1][2:] == ["", "", verdicts.OPEN]


@pytest.mark.parametrize(("one", "other"), [(0.5, 0.5), (0.8, 0.6), (0.95, 0.9)])
def test_paired_intervals_cover(one, other):
    """Of outcomes with one common cause, about 95%."""
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(500):
        common = rng.random(60)
        first = {t: bool(u < one) for t, u in enumerate(common)}
        second = {t: bool(0.5 * u + 0.5 * rng.random() < 0.5 * (other + 0.5))
                  for t, u in enumerate(common)}  # fmt: skip
        truth = one - _share(0.5 * (other + 0.5))
        low, high = verdicts.paired_difference(first, second)
        covered += low <= truth <= high
    assert 0.93 <= covered / 500 <= 0.99


def _share(bound):
    """Probability that the mean of two uniform numbers is below a bound."""
    return 2.0 * bound**2 if bound <= 0.5 else 1.0 - 2.0 * (1.0 - bound) ** 2


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
