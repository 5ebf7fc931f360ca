"""``fastsksd test``: what to test against, outputs, exit codes, and bad input at every door."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.cli import test as command
from fastsksd.cli.main import main
from fastsksd.cli.output import plain
from fastsksd.scale import streaming

QUICK = ["--n-slices", "1", "--n-resamples", "100"]
X = np.random.default_rng(7).standard_normal((120, 2))
GOOD = ["--model", "gaussian"]
BAD = ["--model", "gaussian", "--mean", "3"]


@pytest.fixture(autouse=True)
def samples(folder):
    """Samples in x.npy."""
    np.save("x.npy", X)


def write(name, text):
    Path(name).write_text(text, encoding="utf-8", newline="")


# Verdicts and outputs


def test_exit_codes_of_the_command_itself(folder):
    python = [sys.executable, "-m", "fastsksd", "test"]
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(fs.__file__))}
    for arguments, code in (["x.npy", *GOOD], 0), (["x.npy", *BAD], 1), (["y.npy", *GOOD], 2):
        ran = subprocess.run(
            python + arguments + QUICK, capture_output=True, text=True, env=environment
        )
        assert ran.returncode == code, ran.stderr
        assert "Traceback" not in ran.stderr


def test_verdict_is_that_of_python(run):
    for flags, model in (
        (GOOD, fs.models.Gaussian([0, 0], 1)),
        ([*GOOD, "--mean", "-1,0.5", "--cov", "2,1"], fs.models.Gaussian([-1, 0.5], [2, 1])),
    ):
        code, out, _ = run("x.npy", *flags, "--json", "--seed", "3")
        expected = fs.gof_test(X, model, rng=3)
        said = json.loads(out)
        assert said["pvalue"] == expected.pvalue and said["statistic"] == expected.statistic
        assert code == expected.reject() == said["reject"]


def test_the_level_decides(run):
    pvalue = json.loads(run("x.npy", *GOOD, *QUICK, "--json")[1])["pvalue"]
    assert 0.05 < pvalue < 0.9
    assert run("x.npy", *GOOD, *QUICK, "--alpha", str(pvalue + 0.01))[0] == 1
    assert run("x.npy", *GOOD, *QUICK, "--alpha", str(pvalue - 0.01))[0] == 0


def test_scores_function_and_model_agree(run):
    np.save("s.npy", -X)
    write("model.py", "def score(x):\n    print('noise')\n    return -x\n")
    answers = []
    for target in (
        ["--scores", "s.npy"],
        ["--score", "model:score"],
        ["--score", "model.py:score"],
        ["--score", "numpy:negative"],
        GOOD,
    ):
        _, out, err = run("x.npy", *target, *QUICK, "--json")
        answers.append(json.loads(out)["pvalue"])
        assert ("noise" in err) == ("model" in target[1])
    assert len(set(answers)) == 1


def test_json(run):
    write("x.csv", "alpha,beta\n" + "".join(f"{a},{b}\n" for a, b in X * [1, 0.3]))
    code, out, _ = run("x.csv", *GOOD, "--alpha", "0.01", "--json")
    said = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert code == 1 and said["reject"] and said["alpha"] == 0.01
    assert (said["n"], said["d"], said["names"]) == (120, 2, ["alpha", "beta"])
    assert said["method"] == "sksd" and said["null"] == "wild" and said["lag"] == 1.0
    assert (
        abs(said["strongest_slice"]["r"]["beta"]) > 0.9
        and abs(said["strongest_slice"]["g"]["beta"]) > 0.9
    )
    assert len(said["members"]) > 5 and said["members"][0]["adjusted_pvalue"] == said["pvalue"]
    assert said["timings"]["total"] > 0 and said["versions"]["fastsksd"] == fs.__version__
    assert said["caveats"] == []
    discrepancy = said["discrepancy"]
    low, high = discrepancy["interval"]
    assert 0 < low < discrepancy["value"] < high
    member = next(one for one in said["members"] if one["n_slices"])
    assert discrepancy["value"] == pytest.approx(member["statistic"])
    assert member["name"] in discrepancy["along"]
    code, out, _ = run("x.npy", *GOOD, "--method", "ksd", "--n-resamples", "50", "--json")
    assert json.loads(out)["strongest_slice"] is None
    assert json.loads(out)["discrepancy"] is None
    np.save(
        "chain.npy",
        np.repeat(X, 4, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((480, 2)),
    )
    for method in ("sksd", "ksd"):
        (caveat,) = json.loads(
            run("chain.npy", *GOOD, "--method", method, "--n-resamples", "50", "--json")[1]
        )["caveats"]
        assert (
            caveat.startswith("neighbouring samples depend")
            and "--null wild" in caveat
            and "--lag" in caveat
        )


def test_effects_and_tolerance(run, folder):
    write("x.csv", "alpha,beta\n" + "".join(f"{a},{b}\n" for a, b in X * [1, 0.3]))
    flags = (*GOOD, *QUICK, "--tolerance", "0.5,0.4")
    said = json.loads(run("x.csv", *flags, "--json")[1])
    alpha, beta = said["effects"]["rows"][:2]
    assert (alpha["name"], beta["name"]) == ("alpha", "beta") and beta["kind"] == "coordinate"
    assert 0.2 < beta["stretch_interval"][0] < beta["stretch"] < beta["stretch_interval"][1] < 0.45
    assert said["tolerated"]["verdict"] == "beyond" and said["tolerated"]["stretch"] == 0.4
    _, out, _ = run("x.csv", *flags, "--html", "page.html")
    text = " ".join(out.split())
    assert "beta: samples 0.2" in text and "as wide as the model says" in text
    assert "beyond the tolerance of a shift of 0.5 standard deviations and a stretch of" in text
    assert "40%: beta." in text
    page = (folder / "page.html").read_text()
    assert "Effect sizes" in page and "<td>beta</td>" in page
    assert "the intervals of all rows hold at once" in page
    code, _, err = run("x.csv", *GOOD, "--stream", "--tolerance", "0.1,0.1")
    assert code == 2 and "--tolerance does not apply to it" in err
    code, _, err = run("x.csv", *GOOD, "--tolerance", "-1,0.1")
    assert code == 2 and "--tolerance" in err
    for wrong in ("wide", "0.1", "0.1,0.2,0.3", "width=0.1", "shift=0.1,shift=0.2", "shift="):
        code, _, err = run("x.csv", *GOOD, "--tolerance", wrong)
        assert code == 2 and f"got {wrong!r}" in err and "0.1,0.05" in err and "shift=0.1" in err
    only = json.loads(run("x.csv", *GOOD, *QUICK, "--tolerance", "shift=9", "--json")[1])
    assert only["tolerated"]["verdict"] == "within" and only["tolerated"]["stretch"] is None


def test_a_page_has_correlations_and_notes(run, folder):
    np.save("mixed.npy", np.random.default_rng(0).standard_normal((400, 2)) @ [[1, 0.8], [0, 0.6]])
    run("mixed.npy", *GOOD, *QUICK, "--html", "page.html")
    page = (folder / "page.html").read_text()
    assert "Correlations" in page and "<td>x[0] and x[1]</td>" in page


def test_groups_are_compared_in_python(run, folder):
    write(
        "modes.json", '{"model": "mixture", "weights": [0.5, 0.5], "means": [[-9], [9]], "covs": 1}'
    )
    np.save("modes.npy", np.r_[X[:, :1] - 9, X[:60, :1] + 9])
    said = json.loads(run("modes.npy", "--model", "modes.json", *QUICK, "--json")[1])
    (caveat,) = [one for one in said["caveats"] if "groups" in one]
    assert "fastsksd.mode_weights in Python" in caveat


def test_exit_codes_of_a_tolerance(run):
    np.save("narrow.npy", X * [1.0, 0.3])
    flags = (*GOOD, *QUICK, "--seed", "1")
    assert run("narrow.npy", *flags)[0] == 1  # rejected
    assert run("narrow.npy", *flags, "--tolerance", "2,9")[0] == 0  # and within
    assert run("narrow.npy", *flags, "--tolerance", "0.5,0.4")[0] == 1  # beyond
    assert run("x.npy", *flags)[0] == 0  # not rejected
    code, out, _ = run("x.npy", *flags, "--tolerance", "0.1,0.05")
    assert code == 3 and "Undecided" in out


def test_a_fitted_model(run, folder):
    quick = ("--n-resamples", "19", "--basis", "identity", "--quiet")
    code, out, _ = run("x.npy", "--fit", "gaussian", *quick, "--json", "--checkpoint", "refits")
    said = json.loads(out)
    expected = fs.gof_test(
        np.load("x.npy"),
        fit=fs.Refit(fs.models.Gaussian.fit, progress=False),
        basis="identity",
        n_resamples=19,
        rng=0,
    )
    assert code == int(expected.reject()) and said["pvalue"] == expected.pvalue
    assert said["null"] == "refits" and said["against"] == "a model fitted by gaussian"
    assert said["fitted"]["n_refits"] == 19 and said["fitted"]["n_failed"] == 0
    assert len((folder / "refits").read_text().splitlines()) == 20
    write(
        "fits.py",
        "from fastsksd.models import *\ndef fit(x): return Gaussian.fit(x).score\nn = 1\n",
    )
    _, out, _ = run("x.npy", "--fit", "fits.py:fit", "--quiet")
    assert "fitted to 100 samples and tested on others" in " ".join(out.split())
    for flags, message in {
        ("--fit", "gauss"): "--fit gauss: must be one of gaussian, laplace",
        ("--fit", "fits.py:n"): "--fit fits.py:n: is no function, but int",
        ("--fit", "fits.py:nothing"): "--fit fits.py:nothing: fits.py has no nothing",
        ("--fit", "fits.py:fit", "--jobs", "2"): "--jobs: other processes can't import",
        ("--fit", "gaussian", *GOOD): "choose one of --scores FILE",
        (*GOOD, "--checkpoint", "refits"): "--checkpoint is for --fit",
        ("--fit", "gaussian", "--stream"): "--fit gaussian does not apply to it",
        ("--fit", "gaussian", "--null", "wild"): "--null has no choice",
        ("--fit", "laplace", *quick, "--checkpoint", "refits"): "--checkpoint refits holds",
    }.items():
        code, _, err = run("x.npy", *flags)
        assert code == 2 and message in err, err


def test_chains(run):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 2))
    for t in range(1, 600):
        if t != 300:
            x[t] = 0.5 * x[t - 1] + np.sqrt(0.75) * x[t]
    labels = np.repeat([3, 8], 300)
    rows = zip(x.tolist(), labels.tolist(), strict=True)
    write("x.csv", "a,chain,b\n" + "".join(f"{a!r},{k},{b!r}\n" for (a, b), k in rows))
    code, out, _ = run("x.csv", *GOOD, "--chains", "chain", "--json")
    said, expected = json.loads(out), fs.gof_test(x, -x, chains=labels, rng=0)
    assert said["names"] == ["a", "b"] and said["pvalue"] == expected.pvalue and code == 0
    assert said["verdict"] == "not rejected" and said["lag"] == expected.lag > 1
    assert [one["chain"] for one in said["chains"]["chains"]] == [3, 8]
    np.save("walk.npy", np.cumsum(x[:200], axis=0))
    code, out, _ = run("walk.npy", *GOOD, "--lag", "auto", "--json")
    said = json.loads(out)
    assert code == 3 and said["verdict"] == "too short to tell" and said["pvalue"] is None
    assert not said["reject"] and said["draws_needed"] > 200
    assert "too short to tell" in run("walk.npy", *GOOD, "--lag", "auto", "--html", "r.html")[1]
    assert "too short to tell" in Path("r.html").read_text(encoding="utf-8")
    for arguments, message in (
        (["--chains", "a,b"], "--chains must name one column"),
        (["--chains", "c"], "has no column 'c'"),
        (["--chains", "chain", "--stream"], "--chains chain does not apply"),
        (["--chains", "a"], "chain of a single draw"),
    ):
        code, _, err = run("x.csv", *GOOD, *arguments)
        assert code == 2 and message in err


def test_an_array_of_chains(run):
    """With three axes it was to be reshaped, and its chains were then tested as independent."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 300, 2))
    for t in range(1, 300):
        x[:, t] = 0.5 * x[:, t - 1] + np.sqrt(0.75) * x[:, t]
    np.save("d3.npy", x)
    np.save("s3.npy", -x)
    expected = fs.gof_test(x, -x, rng=0)
    for target in (GOOD, ["--scores", "s3.npy"]):
        code, out, err = run("d3.npy", *target, "--json")
        said = json.loads(out)
        assert said["pvalue"] == expected.pvalue and said["lag"] == expected.lag > 1
        assert len(said["chains"]["chains"]) == 3 and "those of Markov chains, --lag auto" in err
    x[1, 0, 1] = np.nan
    np.save("d3.npy", x)
    said = json.loads(run("d3.npy", *GOOD, "--json", "--drop-nan")[1])
    assert [one["draws"] for one in said["chains"]["chains"]] == [300, 299, 300]
    np.save("d3.npy", -np.load("s3.npy"))
    assert json.loads(run("d3.npy", *GOOD, "--json", "--lag", "1")[1])["chains"] is None
    assert "taken as independent" in run("d3.npy", *GOOD, "--method", "ksd")[2]
    code, _, err = run("d3.npy", *GOOD, "--chains", "0")
    assert code == 2 and "d3.npy has an axis of chains" in err


def test_weights(run):
    rng = np.random.default_rng(0)
    x = 1.5 * rng.standard_normal((200, 2))
    w = np.exp(-0.5 * (x**2).sum(axis=1) * (1.0 - 1.0 / 2.25))
    rows = zip(x.tolist(), w.tolist(), strict=True)
    write("x.csv", "a,w,b\n" + "".join(f"{a!r},{one!r},{b!r}\n" for (a, b), one in rows))
    code, out, _ = run("x.csv", *GOOD, *QUICK, "--weights", "w", "--json")
    said = json.loads(out)
    assert said["names"] == ["a", "b"] and said["weighted"] and code == 0
    assert said["effective_draws"] == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert run("x.csv", *GOOD, *QUICK, "--columns", "a,b")[0] == 1
    assert "importance weights, worth about" in run("x.csv", *GOOD, *QUICK, "--weights", "w")[1]
    for arguments, message in (
        (["--weights", "a,b"], "--weights must name one column, with a number for every row"),
        (["--weights", "w", "--stream"], "--weights w does not apply"),
        (["--weights", "a"], "--weights are negative in"),
        (["--weights", "w", "--lag", "5"], "--weights are for independent samples"),
    ):
        code, _, err = run("x.csv", *GOOD, *arguments)
        assert code == 2 and message in err, err


def test_a_gpu_that_is_not_there(run, monkeypatch):
    from fastsksd.engines import cuda

    monkeypatch.setattr(cuda, "missing", lambda: "no NVIDIA driver was found on this machine.")
    code, _, err = run("x.npy", *GOOD, *QUICK, "--engine", "cuda")
    assert code == 2 and "no NVIDIA driver" in err


def test_json_has_no_nan():
    assert plain(
        {"a": [np.float64("nan"), -np.inf, np.float64(0.5)], "b": (1, "x", True, None)}
    ) == {"a": [None, None, 0.5], "b": [1, "x", True, None]}


def test_words_name_the_file_and_the_level(run):
    code, out, err = run("x.npy", *BAD, *QUICK, "--alpha", "0.1")
    assert code == 1 and err == ""
    assert (
        "x.npy" in out
        and "is rejected at level 0.1" in " ".join(out.split())
        and "Gaussian(d=2)" in out
    )
    assert "--null spectral" in out and "null=" not in out
    write("x.csv", "alpha,beta\n" + "".join(f"{a},{b}\n" for a, b in X * [1, 0.3]))
    assert "is along beta." in " ".join(run("x.csv", *GOOD)[1].split())


def test_page(run, folder):
    code, _, _ = run("x.npy", *BAD, "--n-resamples", "100", "--html", "report.html")
    page = (folder / "report.html").read_text()
    assert code == 1 and page.startswith("<!doctype html>")
    assert "rejected" in page and "coordinates" in page and "fastsksd test x.npy" in page
    # Nothing from elsewhere.
    assert "http" not in page and page.count("data:image/png;base64,") == 1


def test_page_without_matplotlib(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert run("x.npy", *GOOD, *QUICK, "--html", "report.html")[0] == 0
    page = (folder / "report.html").read_text()
    assert "<img" not in page and "fastsksd[plot]" in page and "is not rejected" in page


def test_page_is_checked_before_the_work(run, monkeypatch, folder):
    monkeypatch.setattr(
        command, "gof_test", lambda *args, **options: pytest.fail("the test was run")
    )
    (folder / "folder.html").mkdir()
    for path in ("nowhere/report.html", "folder.html", "report.txt"):
        code, _, err = run("x.npy", *GOOD, "--html", path)
        assert code == 2 and f"--html {path}" in err
    assert run("x.npy", *GOOD, "--columns", "9", "--html", "new.html")[0] == 2
    assert not (folder / "new.html").exists()


def test_options_reach_the_test(run, monkeypatch):
    seen = {}

    def record(x, score, **options):
        seen.update(options)
        return fs.gof_test(x, score, n_slices=1, n_resamples=50)

    monkeypatch.setattr(command, "gof_test", record)
    flags = "--n-slices 2 --estimator ge --null bootstrap --lag auto --n-resamples 70 "
    flags += "--engine direct --train 0.3 --method sksd --seed 5"
    run(
        "x.npy", *GOOD, *flags.split(), "--kernel", "imq", "--bandwidth", "2", "--basis", "identity"
    )
    kernel = seen.pop("kernel")
    assert kernel.name == "imq" and kernel.bandwidth == 2
    assert seen == dict(
        n_slices=2,
        estimator="ge",
        null="bootstrap",
        lag="auto",
        n_resamples=70,
        engine="direct",
        train=0.3,
        method="sksd",
        rng=5,
        names=None,
        basis="identity",
    )
    seen.clear()
    run("x.npy", *GOOD)
    assert seen == {"rng": 0, "names": None}  # all defaults are the library's own


def test_help_is_for_newcomers(run):
    code, out, _ = run("--help")
    assert code == 0
    for words in (
        "what to test",
        "against what",
        "how",
        "output",
        "examples:",
        "exit code",
        "--drop-nan",
    ):
        assert words in out
    assert max(map(len, out.splitlines())) <= 100


def test_parquet_needs_its_library(run, monkeypatch):
    write("a.parquet", "anything")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run("a.parquet", *GOOD)
    assert code == 2 and "pip install 'fastsksd[parquet]'" in err


# Draws and scores


@pytest.fixture
def chains(folder):
    """ArviZ files with and without stored gradients: two chains, one divergent draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        az = pytest.importorskip("arviz")
        posterior = {
            "mu": X[:, 0].reshape(2, 60),
            "eta": X[:, 1].reshape(2, 60),
            "count": np.ones((2, 60), dtype=int),
        }
        stored = {"unconstrained_draw": X.reshape(2, 60, 2), "gradient": -X.reshape(2, 60, 2)}
        options = {"coords": {"u": ["mu", "eta"]}, "dims": {name: ["u"] for name in stored}}
        diverging = {"diverging": np.arange(120).reshape(2, 60) == 70}
        for name, statistics in {
            "full.nc": stored,
            "bare.nc": {},
            "divergent.nc": stored | diverging,
        }.items():
            groups = {"posterior": posterior, "sample_stats": statistics}
            data = (
                az.from_dict(**groups, **options)
                if hasattr(az, "InferenceData")
                else az.from_dict(groups, **options)
            )
            data.to_netcdf(name)


def test_netcdf(run, chains):
    np.save("s.npy", -X)
    write("s.csv", "eta,mu\n" + "".join(f"{-eta!r},{-mu!r}\n" for mu, eta in X.tolist()))
    assert "taken as independent" in run("full.nc", "--null", "spectral")[2]
    answers = []
    bare = ["bare.nc", "--columns", "mu,eta"]
    for arguments in (
        ["full.nc"],
        [*bare, *GOOD],
        [*bare, "--scores", "s.npy"],
        [*bare, "--scores", "s.csv"],
    ):
        code, out, err = run(*arguments, "--json")
        said = json.loads(out)
        assert said["names"] == ["mu", "eta"] and "--lag auto" in err
        answers.append((said["statistic"], said["pvalue"]))
    counts = [one["draws"] for one in said["chains"]["chains"]]
    labels = np.repeat(np.arange(len(counts)), counts)
    expected = fs.gof_test(X, -X, chains=labels, rng=0)
    assert expected.draws_needed == said["draws_needed"] > 0  # chains of 60 draws are too short
    assert set(answers) == {(expected.statistic, None)} and code == 3
    code, out, err = run(*bare, "--fit", "gaussian", "--json")
    fitted = json.loads(out)["fitted"]
    assert code == 3 and "--lag auto" in err and fitted["same_samples"] and not fitted["n_refits"]
    code, out, _ = run(
        *bare, "--fit", "gaussian", "--lag", "6", "--n-resamples", "19", "--quiet", "--json"
    )
    assert code in (0, 1) and json.loads(out)["fitted"]["thinned"] == 2
    out = run("full.nc", "--lag", "1", "--columns", "eta", "--json")[1]
    assert json.loads(out)["lag"] == 1 and json.loads(out)["d"] == 1
    for arguments, message in (
        (
            ["full.nc", "--columns", "nu"],
            "full.nc: --columns must name variables: no variable 'nu'; there are 'mu', 'eta'",
        ),
        (["bare.nc"], "bare.nc: --score is needed"),
        (["bare.nc", *GOOD], "'count' holds int"),
        (["divergent.nc", "--divergences", "error"], "1 of 120 draws (1 in chain 1) diverged"),
        (["x.npy", "--scores", "full.nc"], "full.nc: an .nc file can only hold what is tested"),
    ):
        code, _, err = run(*arguments)
        assert code == 2 and message in err and "on_divergence" not in err, err
    kept, dropped = (
        json.loads(run("divergent.nc", "--divergences", what, "--json")[1])
        for what in ("keep", "drop")
    )
    assert "note: 1 divergent draw tested like the others" in run("divergent.nc")[2]
    assert (kept["n"], kept["dropped"], dropped["n"], dropped["dropped"]) == (120, 0, 119, 1)


def test_netcdf_that_is_none(run, monkeypatch):
    write("a.nc", "hello")
    monkeypatch.setitem(sys.modules, "arviz", None)
    code, _, err = run("a.nc")
    assert code == 2 and "pip install 'fastsksd[arviz]'" in err
    assert "there is no such file" in run("b.nc")[2]
    assert "--divergences is for .nc files" in run("x.npy", *GOOD, "--divergences", "keep")[2]


def test_scores_take_the_columns_of_the_samples(run):
    write("x.csv", "a,b,c\n" + "".join(f"{u},{v},7\n" for u, v in X))
    write("s.csv", "c,b,a\n" + "".join(f"0,{-v},{-u}\n" for u, v in X))
    np.save("all.npy", np.column_stack([-X, np.zeros(120)]))
    np.save("two.npy", -X)
    answers = {
        run("x.csv", "--columns", "a,b", "--scores", name, *QUICK, "--json")[1].split('"pvalue"')[
            1
        ][:20]
        for name in ("s.csv", "all.npy", "two.npy")
    }
    assert len(answers) == 1
    np.save("one.npy", X[:, :1])
    code, _, err = run("x.csv", "--columns", "a,b", "--scores", "one.npy")
    assert code == 2 and "one.npy: has 1 column, but the samples have 2" in err


# Missing values


def test_missing_values(run):
    x = X.copy()
    x[3, 1], x[10, 0], x[11] = np.nan, np.inf, np.nan
    np.save("x.npy", x)
    code, _, err = run("x.npy", *GOOD)
    assert code == 2
    assert "x.npy: 3 of 120 rows have missing values, NaN or infinity (rows 3, 10, 11, " in err
    assert "counted from 0; columns 0, 1); --drop-nan leaves them out" in err
    np.save("kept.npy", np.delete(X, [3, 10, 11, 50], axis=0))
    s = -X
    s[50] = np.nan
    np.save("s.npy", s)
    code, out, err = run("x.npy", "--scores", "s.npy", "--drop-nan", *QUICK, "--json")
    assert json.loads(out)["dropped"] == 4 and "left out: 4 rows" in err
    assert (
        json.loads(out)["pvalue"]
        == json.loads(run("kept.npy", *GOOD, *QUICK, "--json")[1])["pvalue"]
    )
    np.save("x.npy", X)
    assert "s.npy: 1 of 120 rows" in run("x.npy", "--scores", "s.npy")[2]
    np.save("x.npy", X * np.nan)
    assert run("x.npy", *GOOD, "--drop-nan")[0] == 2


def test_missing_values_of_text(run):
    write(
        "x.csv",
        "a,b\n"
        + "".join(f"{a},{'' if k == 4 else 'NA' if k == 9 else b}\n" for k, (a, b) in enumerate(X)),
    )
    code, _, err = run("x.csv", *GOOD)
    assert code == 2 and "2 of 120 rows" in err and "rows 4, 9" in err and "column b" in err
    code, out, _ = run("x.csv", *GOOD, *QUICK, "--drop-nan", "--json")
    assert json.loads(out)["n"] == 118


# Large files


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_large_files_are_streamed(run, monkeypatch, kind):
    x = np.random.default_rng(0).standard_normal((3000, 3)) * [1, 1, 0.9]
    monkeypatch.setattr(command, "LARGE", 1000)
    monkeypatch.setattr(command, "_BLOCK_BYTES", 8 * 3 * 400)
    monkeypatch.setattr(streaming, "SHORT", 1000)
    np.save("x.npy", x)
    np.savetxt("x.csv", x, fmt="%.17g", delimiter=",")
    np.save("s.npy", -x)
    expected = fs.gof_stream([x], lambda x: -x, rng=0, train=500)
    for target in (GOOD, ["--scores", "s.npy"]):
        code, out, err = run(f"x.{kind}", *target, "--train", "500", "--json")
        said = json.loads(out)
        assert said["streamed"] and said["n_test"] == 2500 and said["n"] == 3000
        assert said["pvalue"] == pytest.approx(expected.pvalue, rel=1e-6) and code == said["reject"]
        assert "tested as a stream" in err and "percent read 100/100" in err
    _, out, err = run(f"x.{kind}", *GOOD, "--train", "500", "--quiet")
    assert err == ""
    words = " ".join(out.split())
    assert (
        "--no-stream on a file with some of the rows shows it" in words
        and "score`" not in words
        and "The strongest slice has scores along r = x[2] and samples along g = " in words
    )
    one_set = fs.gof_stream(x, lambda x: -x, rng=0, train=500, n_slices=2)
    _, out, _ = run(f"x.{kind}", *GOOD, "--train", "500", "--n-slices", "2", "--json")
    assert json.loads(out)["pvalue"] == pytest.approx(one_set.pvalue, rel=1e-6)
    code, out, err = run(f"x.{kind}", *GOOD, "--lag", "4", *QUICK, "--json")
    assert not json.loads(out)["streamed"] and "with --lag 4.0 it is read into memory" in err
    assert not json.loads(run(f"x.{kind}", *GOOD, "--no-stream", *QUICK, "--json")[1])["streamed"]
    code, _, err = run(f"x.{kind}", *GOOD, "--stream", "--null", "wild", "--n-slices", "2")
    assert code == 2 and "--null wild does not apply" in err
    code, _, err = run(f"x.{kind}", *GOOD, "--stream", "--precondition", "full")
    assert code == 2 and "--precondition full does not apply" in err


def test_streams_leave_out_missing_values(run, monkeypatch):
    monkeypatch.setattr(command, "_BLOCK_BYTES", 8 * 2 * 25)
    x = X.copy()
    x[77, 1] = np.nan
    np.save("x.npy", x)
    code, _, err = run("x.npy", *GOOD, "--stream", "--train", "20")
    assert code == 2 and "1 of 100 rows" in err and "rows 77" in err
    code, out, _ = run("x.npy", *GOOD, "--stream", "--train", "20", "--drop-nan", "--json")
    assert (json.loads(out)["n"], json.loads(out)["dropped"], json.loads(out)["n_test"]) == (
        119,
        1,
        99,
    )
    # 2000 rows to find slices on are more than there are.
    flags = ["--columns", "0", "--stream", "--null", "spectral"]
    assert run("x.npy", *GOOD, *flags)[0] == 2


# Bad input


def test_bad_files(run, folder):
    (folder / "folder.npy").mkdir()
    np.save("object.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("object.npz", x=np.array([{}], dtype=object))
    np.save("complex.npy", X + 1j)
    np.save("axes.npy", X.reshape(4, 5, 6, 2))
    np.save("nothing.npy", np.empty((0, 2)))
    np.save("flat.npy", np.empty((3, 0)))
    (folder / "cut.npy").write_bytes((folder / "x.npy").read_bytes()[:500])
    (folder / "empty.npy").touch()
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    for name, text in {
        "fake.npy": "hello",
        "fake.npz": "hello",
        "header.csv": "a,b\n",
        "remarks.csv": "# a\n\n",
        "twice.csv": "a,a\n1,2\n",
        "ragged.csv": "a,b\n1,2\n\n3,4,5\n",
        "words.csv": "a,who\n1,2\n3,bob\n",
        "comma.csv": "a;b\n1,5;2\n3;4\n",
        "late.csv": "1,2\n" * 50 + "1\n",
    }.items():
        write(name, text)
    for name, message in {
        "missing.npy": "there is no such file",
        "x.dat": "known are .npy, .npz, .csv",
        "folder.npy": "Is a directory",
        "object.npy": "not unpickled",
        "object.npz": "not unpickled",
        "complex.npy": "holds complex128",
        "axes.npy": "or (chains, draws, coordinates); it has shape (4, 5, 6, 2)",
        "nothing.npy": "no rows",
        "flat.npy": "no columns",
        "cut.npy": "can't be read as .npy",
        "empty.npy": "the file is empty",
        "binary.csv": "not text in UTF-8",
        "fake.npy": "is not a .npy file",
        "fake.npz": "is not a .npz file",
        "header.csv": "no rows",
        "remarks.csv": "no rows",
        "twice.csv": "two columns are named 'a'",
        "ragged.csv": "line 4 has 3 columns, but the first line has 2",
        "words.csv": "line 3, column 'who': 'bob' is not a number",
        "comma.csv": "line 2, column 'a': '1,5' is not a number; decimals need a point",
        "late.csv": "line 51 has 1 column",
    }.items():
        code, out, err = run(name, *GOOD)
        assert code == 2 and out == "", name
        assert message in err and name in err and err.count("\n") == 1, err


def test_bad_scores(run):
    write(
        "model.py",
        """
import numpy as np
def score(x): return -x
def flat(x): return x[:, 0]
def nan(x): return np.where(x > 1, np.nan, -x)
def bang(x): return 1 / 0
def leave(x): raise SystemExit(0)
class Model:
    def score(self, x): return -x
model, number = Model(), 3
""",
    )
    write("broken.py", "def f(:\n")
    write("leaves.py", "import sys; sys.exit(0)\n")
    write("needs.py", "import nothing_of_that_name\n")
    for name, message in {
        "model:scor": "model has no scor; there are score",
        "model:flat": "--score model:flat: must return an array of shape (120, 2)",
        "model:nan": "returned NaN or infinity",
        "model:bang": "raised ZeroDivisionError",
        "model:leave": "ended the program",
        "model:Model": "is a class",
        "model:number": "neither a function",
        "broken:f": "importing broken raised SyntaxError",
        "leaves:f": "importing leaves raised SystemExit",
        "needs:f": "no module nothing_of_that_name, which needs imports",
        "nomodule:f": "there is no module nomodule (looked in",
        "model": "must be module:function",
        "absent.py:f": "there is no file absent.py",
        "x.npy": "--scores x.npy",
    }.items():
        code, out, err = run("x.npy", "--score", name, *QUICK)
        assert code == 2 and out == "" and message in err and err.count("\n") == 1, err
    for name in ("model:model", "model:model.score"):
        assert run("x.npy", "--score", name, *QUICK)[0] == 0
    assert "for a function, --score model:score" in run("x.npy", "--scores", "model:score")[2]
    assert "a.npz: there is no such file" in run("x.npy", "--scores", "a.npz:s")[2]
    with pytest.raises(ValueError, match="ZeroDivisionError"):
        main(["test", "x.npy", "--score", "model:bang", "--debug"])


def test_a_file_of_scores_does_not_replace_a_module(run):
    write("json.py", "def score(x): return -x\n")
    assert run("x.npy", "--score", "json.py:score", *QUICK)[0] == 0
    assert sys.modules["json"] is json


def test_models(run):
    write("mean.csv", "0.5\n-0.5\n")
    np.save("cov.npy", np.array([[2.0, 1.0], [1.0, 2.0]]))
    write(
        "mixture.json",
        json.dumps(
            {"model": "mixture", "weights": [0.5, 0.5], "means": [[-1, 0], [1, 0]], "covs": 1}
        ),
    )
    for flags, model in (
        (
            "gaussian --mean mean.csv --cov cov.npy",
            fs.models.Gaussian([0.5, -0.5], [[2, 1], [1, 2]]),
        ),
        ("laplace --scale 2 --loc -.5", fs.models.Laplace(2, scale=2, loc=-0.5)),
        ("student-t --df 3 --scale 1,2", fs.models.StudentT(2, df=3, scale=[1, 2])),
        ("mixture.json", fs.models.GaussianMixture([0.5, 0.5], [[-1, 0], [1, 0]], 1)),
    ):
        out = run("x.npy", "--model", *flags.split(), *QUICK, "--json")[1]
        assert (
            json.loads(out)["statistic"]
            == fs.gof_test(X, model, n_slices=1, n_resamples=100, rng=0).statistic
        ), flags


def test_bad_models(run):
    for name, content in {
        "a": "{",
        "b": "[]",
        "c": '{"model": "ica", "V": 1}',
        "d": '{"model": "mixture", "weights": [1], "means": [[0]], "covs": 1}',
        "f": '{"model": ["ica"]}',
        "g": 100_000 * "[",
    }.items():
        write(f"{name}.json", content)
    np.save("three.npy", np.eye(3))
    for flags, message in {
        "cauchy": "must be one of gaussian, laplace, student-t, or a .json file",
        "rbm": "only in a .json file",
        "gaussian --df 3": "--df is not a parameter of",
        "gaussian --mean 1,2,3": "--mean: has 3 numbers; it must have 1 or 2",
        "gaussian --mean a": "must be a number",
        "gaussian --mean no.npy": "no such file",
        "gaussian --cov three.npy": "--cov: has 3 x 3 numbers",
        "gaussian --cov 0": "--cov must hold positive",
        "laplace --scale=-1": "--scale must be positive",
        "a.json": "a.json: is not JSON",
        "b.json": 'must be an object with "model"',
        "c.json": "ica has no parameter 'V'; it has W, df",
        "d.json": "has 1 dimensions, but the samples have 2",
        "e.json": "e.json",
        "f.json": 'must be an object with "model"',
        "g.json": "g.json: is not JSON",
        "a.json --mean 1": "--mean does not go with",
    }.items():
        code, _, err = run("x.npy", "--model", *flags.split(), *QUICK)
        assert code == 2 and message in err and err.count("\n") == 1, err


def test_bad_options(run):
    for flags, message in {
        "": "give one of --scores FILE",
        "--model gaussian --score a:b": "choose one of",
        "--score numpy:negative --mean 1": "--mean is a parameter of --model",
        "--model gaussian --alpha 1": "--alpha must be between 0 and 1",
        "--model gaussian --n-slices 3": "--n-slices must be between 1 and 2",
        "--model gaussian --method ksd --n-slices 1": "--n-slices does not apply to --method ksd",
        "--model gaussian --bandwidth -1": "--bandwidth",
        "--model gaussian --lag 3 --null spectral": "--lag is for --null wild",
        "--model gaussian --train 1.5": "--train must be a fraction",
        "--model gaussian --lag foo": "argument --lag",
        "--model gaussian --train foo": "argument --train",
        "--model gaussian --sed 3": "unrecognized arguments",
    }.items():
        code, out, err = run("x.npy", *flags.split())
        assert code == 2 and out == "" and message in err, (flags, err)


def test_a_fault_of_ours_is_no_verdict(run, monkeypatch):
    monkeypatch.setattr(command, "gof_test", lambda *args, **options: {}["a"])
    code, _, err = run("x.npy", *GOOD)
    assert code == 2 and "KeyError" in err and "--debug" in err


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c(folder):
    write(
        "model.py",
        "import time\ndef score(x):\n    open('started', 'w').close()\n    time.sleep(60)\n",
    )
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(fs.__file__))}
    # What runs in the background is born deaf to the signal.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    heed += "from fastsksd.cli import main; raise SystemExit(main())"
    command = [
        sys.executable,
        "-c",
        heed,
        "test",
        "x.npy",
        "--score",
        "model:score",
        "--html",
        "a.html",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    while not (folder / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    assert not (folder / "a.html").exists()


def test_scores_beside_row_numbers(folder, capsys):
    """Data frames write a column of row numbers; columns are matched by name, in any order."""
    header = ",a,b\n"
    write(
        "x.csv",
        header + "".join(f"{i},{row[0]!r},{row[1]!r}\n" for i, row in enumerate(X.tolist())),
    )
    write(
        "s.csv",
        ",b,a\n" + "".join(f"{i},{-row[1]!r},{-row[0]!r}\n" for i, row in enumerate(X.tolist())),
    )
    np.save("s.npy", -X)
    results = []
    for samples, scores in (("x.csv", "s.csv"), ("x.csv", "s.npy"), ("x.npy", "s.npy")):
        assert main(["test", samples, "--scores", scores, "--json", *QUICK]) == 0
        results.append(json.loads(capsys.readouterr().out)["pvalue"])
    assert results[0] == results[1] == results[2]
    write(
        "s.csv",
        header + "".join(f"{i},{-row[0]!r},{-row[1]!r}\n" for i, row in enumerate(X.tolist())),
    )
    # By position, row numbers left out.
    assert main(["test", "x.npy", "--scores", "s.csv", *QUICK]) == 0


def test_names_that_look_like_arguments_stay(folder, capsys):
    write("x.csv", "lag=2,`x`\n" + "".join(f"{0.3 * row[0]!r},{row[1]!r}\n" for row in X.tolist()))
    assert (
        main(
            ["test", "x.csv", "--model", "gaussian", "--basis", "identity", "--n-resamples", "100"]
        )
        == 1
    )
    assert "lag=2" in capsys.readouterr().out
