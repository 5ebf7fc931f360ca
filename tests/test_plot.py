"""Pictures show what the result holds and leave matplotlib as it was; HTML never fails."""

import dataclasses
import io
import sys
from itertools import pairwise

import numpy as np
import pytest

import fastsksd as fs

matplotlib = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

X = np.random.default_rng(0).standard_normal((200, 3)) * [0.5, 1.0, 1.0]
MODEL = fs.models.Gaussian(np.zeros(3), 1.0)
AXES = fs.Slices(np.eye(3), np.eye(3))


def results():
    quick = dict(n_resamples=99, rng=0)
    yield "family", fs.gof_test(X, MODEL, **quick)
    yield "spectral family", fs.gof_test(X, MODEL, null="spectral", rng=0)
    yield "spectral", fs.gof_test(X, MODEL, slices=AXES, null="spectral", rng=0)
    yield "one set", fs.gof_test(X, MODEL, n_slices=2, **quick)
    yield "given", fs.gof_test(X, MODEL, slices=AXES, **quick)
    yield "right", fs.gof_test(X[:, 1:], np.negative, **quick)
    yield "one dimension", fs.gof_test(X[:, :1], np.negative, **quick)
    yield "chain", fs.gof_test(X, MODEL, slices=AXES, lag=5, **quick)
    yield "tiny", fs.gof_test(X[:3], MODEL, slices=AXES, n_resamples=9, rng=0)
    yield (
        "constant",
        fs.gof_test(
            np.ones((30, 2)),
            np.negative,
            slices=fs.Slices(*[np.eye(2)] * 2),
            kernel=fs.RBF(1.0),
            **quick,
        ),
    )
    yield (
        "outlier",
        fs.gof_test(np.r_[X, [[1e8] * 3]], MODEL, slices=AXES, kernel=fs.RBF(1.0), **quick),
    )
    yield "ksd", fs.gof_test(X, MODEL, method="ksd", **quick)
    few = fs.baselines.KSDAgg(n_quantile=19, n_level=19)
    yield "ksdagg", fs.gof_test(X, MODEL, method=few, rng=0)
    yield "fssd", fs.gof_test(X, MODEL, method="fssd", **quick)
    yield "mmd", fs.gof_test(X, MODEL, method="mmd", **quick)
    yield "stream", fs.gof_stream([X], MODEL, slices=AXES)


RESULTS = dict(results())


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.mark.parametrize("name", RESULTS)
def test_report_and_html_of_every_kind_of_result(name, tmp_path):
    result = RESULTS[name]
    figure = result.plot()
    panels = {"ksd": 3, "ksdagg": 3, "fssd": 3, "mmd": 1, "stream": 1, "tiny": 4}.get(name, 5)
    assert isinstance(figure, Figure) and len(figure.axes) == panels
    figure.savefig(tmp_path / "report.png", dpi=40)
    assert (
        "not rejected" if not result.reject() else "is rejected"
    ) in figure.get_suptitle().replace("\n", " ")
    html = result._repr_html_()
    assert html.startswith("<table>") and html.count("<img") == 1 and len(html) < 150_000
    assert result.summary().startswith("The model is")


def test_null(ax):
    result = fs.gof_test(
        X[:, 1:], np.negative, slices=fs.Slices(*[np.eye(2)] * 2), n_resamples=99, rng=0
    )
    assert fs.plot.null(result, ax=ax) is ax
    assert sum(patch.get_height() for patch in ax.patches) == 99
    places = sorted(line.get_xdata()[0] for line in ax.lines)
    np.testing.assert_allclose(
        places, sorted([result.statistic, np.quantile(result.null_distribution, 0.95)])
    )


def test_a_statistic_far_out_leaves_room_for_the_replicates(ax):
    result = RESULTS["given"]
    fs.plot.null(result, ax=ax)
    low, high = ax.get_xlim()
    assert (
        high - low < 2.0 * np.ptp(result.null_distribution)
        and "beyond the axis" in ax.get_legend_handles_labels()[1][-1]
    )


def test_slices_are_sorted_and_marked(ax):
    result = RESULTS["given"]
    explanation = result.explain(names=["a", "b", "c"])
    fs.plot.slices(explanation, ax=ax)
    widths = [patch.get_width() for patch in ax.patches]
    np.testing.assert_allclose(widths, np.sort(result.slice_statistics)[::-1])
    assert [bool(patch.get_hatch()) for patch in ax.patches] == [
        one.pvalue_adjusted > 0.05 for one in explanation.slices
    ]
    assert ax.get_yticklabels()[0].get_text() == "a"


def test_labels_of_many_slices_do_not_overprint():
    """Twelve bars leave room for one line each; five for three."""
    d = 15
    slices = fs.random_slices(d, 12, rng=0)
    x = np.random.default_rng(1).standard_normal((60, d))
    result = fs.gof_test(x, np.negative, slices=slices, n_resamples=19, rng=0)
    figure = result.plot(names=[f"log_sigma[{k}]" for k in range(d)])
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[1].get_yticklabels()]
    assert len(boxes) == 12
    assert all(below.y1 <= above.y0 for above, below in pairwise(boxes))
    five = fs.plot.slices(result.explain(n_slices=5), ax=Figure().subplots())
    assert max(label.get_text().count("\n") for label in five.get_yticklabels()) > 0


def test_witness_is_drawn_as_it_is(ax):
    explanation = RESULTS["given"].explain(names=["a", "b", "c"])
    assert fs.plot.witness(explanation, which=0, ax=ax) is ax
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), explanation.slices[0].witness.values)
    assert ax.get_xlabel() == "a"
    assert "too narrow for the model,\ngiven the other coordinates" in ax.get_title()
    other = Figure().subplots()
    assert (
        fs.plot.witness(RESULTS["given"], which=2, ax=other, names=["a", "b", "c"]).get_xlabel()
        in "bc"
    )
    with pytest.raises(ValueError, match="`which` must be below the number of slices explained, 3"):
        fs.plot.witness(RESULTS["given"], which=3, ax=ax)


def test_samples_show_the_worst(ax):
    explanation = RESULTS["given"].explain()
    fs.plot.samples(explanation, ax=ax)
    rows = ", ".join(map(str, explanation.indices[:3]))
    assert f"rows {rows}" in ax.get_legend_handles_labels()[1]
    assert len(ax.lines[0].get_xdata()) == 200
    far = Figure().subplots()
    fs.plot.samples(RESULTS["outlier"], ax=far)
    assert far.get_xlim()[1] < 100 and "1 beyond the edges" in far.get_legend_handles_labels()[1]


def test_spectrum(ax):
    slices = fs.active_slices(X, MODEL)
    assert fs.plot.spectrum(slices, ax=ax) is ax
    np.testing.assert_allclose(
        ax.lines[0].get_ydata(), slices.r_values / np.abs(slices.r_values).max()
    )
    for bare in (AXES, RESULTS["given"]):
        with pytest.raises(ValueError, match="`what` has no eigenvalues"):
            fs.plot.spectrum(bare, ax=ax)
    with pytest.raises(TypeError, match=r"`what` must be Slices or a GofResult .*, not int"):
        fs.plot.spectrum(3, ax=ax)
    with pytest.raises(ValueError, match="`what` is of a method without slices"):
        fs.plot.spectrum(RESULTS["ksd"], ax=ax)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (fs.plot.null, "`result` must be a GofResult, not int"),
        (fs.plot.members, "`result` must be a GofResult, not int"),
        (fs.plot.samples, "`what` must be a GofResult or an Explanation, not int"),
    ],
)
def test_what_is_drawn_is_checked(ax, draw, message):
    with pytest.raises(TypeError, match=message):
        draw(3, ax=ax)


def test_spectrum_of_a_result(ax):
    result = RESULTS["one set"]
    fs.plot.spectrum(result, ax=ax)
    values = result.slices.r_values
    np.testing.assert_allclose(ax.lines[0].get_ydata(), values / np.abs(values).max())


def test_power(ax):
    fs.plot.power(
        {"a": ([1, 2], [3, 10], 10), "b": ([1, 2], [0, 5], [10, 20])}, ax=ax, xlabel="d", logx=True
    )
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.3, 1.0])
    np.testing.assert_allclose(ax.lines[1].get_ydata(), [0.0, 0.25])
    assert ax.lines[0].get_linestyle() != ax.lines[1].get_linestyle() and ax.get_xscale() == "log"
    assert (
        len(Figure().subplots().lines) == 0
        and fs.plot.power(([1], [1], 2), ax=Figure().subplots()).lines
    )
    for bad in (
        {},
        {"a": ([1], [1, 2], 3)},
        {"a": ([1], [4], 3)},
        {"a": ([1], [1], 0)},
        ([1], [2]),
    ):
        with pytest.raises(ValueError, match="`curves`"):
            fs.plot.power(bad, ax=ax)


def test_what_can_not_be_drawn(ax):
    with pytest.raises(ValueError, match="no null distribution"):
        fs.plot.null(RESULTS["spectral family"], ax=ax)
    with pytest.raises(ValueError, match="`result` has no members"):
        fs.plot.members(RESULTS["given"], ax=ax)
    with pytest.raises(ValueError, match="`what` is of a method without slices"):
        fs.plot.slices(RESULTS["ksd"], ax=ax)
    with pytest.raises(ValueError, match="holds no samples"):
        fs.plot.witness(RESULTS["stream"], ax=ax)
    with pytest.raises(TypeError, match="`what` must be a GofResult or an Explanation"):
        fs.plot.slices(3, ax=ax)
    with pytest.raises(ValueError, match="`names` must have one name"):
        RESULTS["given"].plot(names=["a"])


def test_matplotlib_is_left_as_it_was():
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    before, figures = dict(matplotlib.rcParams), plt.get_fignums()
    RESULTS["family"].plot()
    RESULTS["family"]._repr_html_()
    assert plt.get_fignums() == figures
    ax = fs.plot.null(RESULTS["family"])
    assert len(plt.get_fignums()) == len(figures) + 1
    plt.close(ax.figure)
    assert dict(matplotlib.rcParams) == before


def test_a_report_shows_itself():
    assert RESULTS["mmd"].plot()._repr_png_().startswith(b"\x89PNG")


def test_without_matplotlib(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    html = RESULTS["given"]._repr_html_()
    assert html.startswith("<table>") and "<img" not in html
    for draw in (RESULTS["given"].plot, lambda: fs.plot.null(RESULTS["given"])):
        with pytest.raises(ImportError, match=r"fastsksd\[plot\]"):
            draw()


def test_html_never_fails(monkeypatch):
    def broken(*args, **options):
        raise RuntimeError

    monkeypatch.setattr("fastsksd.plot.page.strongest_witness", broken)
    assert RESULTS["given"]._repr_html_().startswith("<table>")


def test_spectrum_of_the_default_test_whichever_member_is_strongest():
    x = X * [0.5, 1.0, 1.0]
    result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    assert result.members[0].name == "coordinates"
    ax = fs.plot.spectrum(result, ax=Figure().subplots())
    assert len(ax.lines[0].get_xdata()) == 3


def test_a_dollar_in_a_name_is_no_formula():
    x = np.random.default_rng(0).standard_normal((40, 2)) * [0.5, 1.0]
    sets = {"$x^{$": (np.eye(2), np.eye(2))}
    result = fs.gof_test(x, np.negative, slices=sets, n_resamples=49, rng=0)
    figure = fs.plot.report(result, names=["a$b_{$", "c"])
    figure.savefig(io.BytesIO())
    fs.plot.members(result).figure.savefig(io.BytesIO())


def test_ticks_of_stretches_do_not_run_into_each_other():
    x = np.random.default_rng(0).standard_normal((100, 2))
    x[0, 0] = 1e8  # intervals that end nowhere
    ax = Figure().subplots()
    fs.plot.effects(fs.effect_sizes(x, np.negative), ax=ax)
    (top,) = ax.child_axes
    places = top.get_xticks()
    assert places.size >= 3 and np.diff(places).min() > 0.05 * np.ptp(ax.get_xlim())


def test_rough_effects_are_grey_and_dashed():
    x = np.random.default_rng(0).standard_normal((200, 2))
    found = fs.effect_sizes(x, np.negative)
    rough = dataclasses.replace(found, linearity=np.array([0.1, 1.0]))
    ax = fs.plot.effects(rough, ax=Figure().subplots())
    styles = {line.get_linestyle() for line in ax.lines if len(line.get_ydata()) == 2}
    assert styles == {"-", "--"}
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "numbers are rough" in labels
    plain = fs.plot.effects(found, ax=Figure().subplots())
    assert "numbers are rough" not in [text.get_text() for text in plain.get_legend().get_texts()]
