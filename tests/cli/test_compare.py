"""``fastsksd compare``: models for one file, several files for one model, errors."""

import json

import numpy as np
import pytest

from fastsksd.cli.main import main

MODEL = """
import numpy as np

def right(x):
    return -x

def off(x):
    return 0.8 - x

def same(x):
    return -1.0001 * x

def broken(x):
    s = -x
    s[3] = np.nan
    return s
"""


@pytest.fixture
def run(folder, capsys):
    """Runs the command in a folder with samples and models."""
    x = np.random.default_rng(0).standard_normal((200, 2))
    (folder / "model.py").write_text(MODEL)
    np.savetxt(folder / "draws.csv", x, delimiter=",", header="a,b", comments="")
    np.save(folder / "wide.npy", 2.0 * x)
    np.save(folder / "few.npy", x[:9])

    def run(*arguments):
        try:
            code = main(["compare", *arguments])
        except SystemExit as stop:
            code = stop.code
        return code, *capsys.readouterr()

    return run


def test_models_for_one_file(run):
    code, out, _ = run("draws.csv", "--score", "A=model:off", "--score", "B=model:right")
    assert code == 0
    assert "B fits better than A" in out
    code, out, _ = run("draws.csv", "--score", "A=model:same", "--score", "B=model:right")
    assert code == 1
    assert "can't be told apart" in out


def test_a_model_that_is_fitted(run):
    code, out, _ = run("draws.csv", "--score", "A=model:off", "--fit", "B=gaussian")
    assert code == 0 and "B fits better than A" in out
    assert "100 samples compared" in out and "and to fit B" in out


def test_json_and_page(run, folder):
    models = ["--score", "A=model:off", "--score", "B=model:right"]
    code, out, _ = run("draws.csv", *models, "--json", "--html", "page.html", "--level", "0.9")
    content = json.loads(out)
    assert code == 0
    assert (content["ranking"], content["level"]) == (["B", "A"], 0.9)
    page = (folder / "page.html").read_text()
    assert "Which is better?" in page
    assert "data:image/png" in page
    assert "those with a letter in common" in page and "used to learn units" in page


def test_files_for_one_model(run):
    code, out, _ = run("draws.csv", "wide=wide.npy", "--score", "model:right")
    assert code == 0
    assert "draws.csv is closer to the model than wide" in out


def test_columns_have_their_names(run, folder):
    _, out, _ = run("draws.csv", "wide=wide.npy", "--score", "model:right")
    assert "most of it along b" in out
    x = np.random.default_rng(1).standard_normal((200, 2))
    np.savetxt(folder / "other.csv", x, delimiter=",", header="b,a", comments="")
    code, _, err = run("draws.csv", "other.csv", "--score", "model:right")
    assert code == 2 and "other.csv: must have the columns of the first file, a, b" in err


def test_chains(run, folder):
    x = np.cumsum(np.random.default_rng(1).standard_normal((200, 2)), axis=0)
    np.savetxt(
        folder / "walk.csv", np.c_[np.zeros(200), x], delimiter=",", header="c,a,b", comments=""
    )
    models = ["--score", "A=model:off", "--score", "B=model:right"]
    code, out, _ = run("walk.csv", "--chains", "c", *models)
    assert code == 3
    assert "too short to tell" in out
    np.save(folder / "walk.npy", x.reshape(2, 100, 2))
    code, out, _ = run("walk.npy", *models)
    assert code == 3
    assert "too short to tell" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["draws.csv", "--score", "A=model:off"], "give at least two models"),
        (["draws.csv", "--score", "model:off"], "must have a name"),
        (["draws.csv", "--score", "A=model:off", "--score", "A=model:right"], "'A' twice"),
        (
            ["draws.csv", "--score", "A=model:off", "--score", "B=model:broken"],
            "--score B=model:broken: returned NaN",
        ),
        (["draws.csv", "--score", "A=model:off", "--score", "B=model:none"], "has no none"),
        (["draws.csv", "wide.npy", "--score", "A=model:off", "--score", "B=model:same"], "one --"),
        (["draws.csv", "few.npy", "--score", "model:right"], "few.npy: must hold at least 30"),
        (["none.csv", "--score", "A=model:off", "--score", "B=model:right"], "none.csv"),
        (["a.nc", "--score", "A=model:off", "--score", "B=model:right"], "can't be compared"),
        (
            ["draws.csv", "--score", "A=model:off", "--score", "B=model:right", "--level", "2"],
            "--level must be",
        ),
    ],
)
def test_errors(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.startswith("fastsksd: ") and err.count("\n") == 1
