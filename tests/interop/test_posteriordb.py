"""A posterior database on disk: read, tested with a score function, and with its model in Stan."""

import json
import os
import zipfile

import numpy as np
import pytest
import stan_compiler

from fastsksd.cli.main import main
from fastsksd.interop import posteriordb

NAME = "heights-normal_model"
STAN = """
data { int N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; matrix[2, 2] b; }
model {
  mu ~ normal(0, 10);
  sigma ~ lognormal(0, 1);
  to_vector(b) ~ normal(0, 1);
  y ~ normal(mu, sigma);
}
"""
Y = [1.2, 0.4, 2.0, 1.1, 0.7, 1.6]


def posterior_draws(shape, rng, *, narrow=1.0):
    """Draws of the model above: of sigma on a grid, then of mu given sigma."""
    grid = np.linspace(-3.0, 2.5, 4001)
    y, n = np.mean(Y), len(Y)
    spread = np.sum((np.array(Y) - y) ** 2)
    variance = np.exp(2 * grid)
    precision = n / variance + 0.01
    log_p = -0.5 * grid**2 - n * grid - 0.5 * spread / variance
    log_p += -0.5 * np.log(precision) - 0.5 * n / variance * y**2 * (1 - n / variance / precision)
    p = np.exp(log_p - log_p.max())
    log_sigma = rng.choice(grid, size=shape, p=p / p.sum())
    log_sigma += (grid[1] - grid[0]) * (rng.random(shape) - 0.5)
    precision = n * np.exp(-2 * log_sigma) + 0.01
    mean = n * np.exp(-2 * log_sigma) * y / precision
    draws = {
        "mu": mean + narrow * rng.standard_normal(shape) / np.sqrt(precision),
        "sigma": np.exp(log_sigma),
    }
    for j in (1, 2):
        for i in (1, 2):
            draws[f"b[{i},{j}]"] = rng.standard_normal(shape)
    return draws


class Score:
    """The same model by hand; its order is that of the draws."""

    @staticmethod
    def unconstrain(x):
        return np.column_stack([x[:, 0], np.log(x[:, 1]), x[:, 2:]])

    def __call__(self, z):
        error = np.array(Y) - z[:, :1]
        variance = np.exp(2 * z[:, 1])
        by_mu = error.sum(axis=1) / variance - z[:, 0] / 100
        by_sigma = (error**2).sum(axis=1) / variance - len(Y) - z[:, 1]
        return np.column_stack([by_mu, by_sigma, -z[:, 2:]])


def zipped(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(f"{path}.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(path.name, json.dumps(content))


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("database")
    root = folder / "posterior_database"
    chains = posterior_draws((4, 200), np.random.default_rng(0))
    reference = [{name: values[k].tolist() for name, values in chains.items()} for k in range(4)]
    zipped(root / "data" / "data" / "heights.json", {"N": len(Y), "y": Y})
    zipped(root / "reference_posteriors" / "draws" / "draws" / f"{NAME}.json", reference)
    info = {
        "name": NAME,
        "model_name": "normal_model",
        "data_name": "heights",
        "reference_posterior_name": NAME,
        "dimensions": {"mu": 1, "sigma": 1, "b": 4},
    }
    code = {"model_implementations": {"stan": {"model_code": "models/stan/normal_model.stan"}}}
    for path, content in {
        f"posteriors/{NAME}.json": json.dumps(info),
        "posteriors/weights-other_model.json": json.dumps(
            info | {"reference_posterior_name": None, "model_name": "other_model"}
        ),
        "models/info/normal_model.info.json": json.dumps(code),
        "models/stan/normal_model.stan": STAN,
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return folder


def write_csv(path, draws, extra=""):
    names = list(draws)
    rows = np.column_stack([draws[name].ravel() for name in names])
    header = ",".join(f'"{name}"' if "," in name else name for name in names)
    np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")


def test_content_of_a_posterior(database):
    for path in (database, database / "posterior_database"):
        posterior = posteriordb.load(path, NAME)
        assert posterior.data() == {"N": 6, "y": Y}
        assert posterior.stan_file.read_text() == STAN
        reference = posterior.reference()
        assert {name: values.shape for name, values in reference.items()} == {
            "mu": (4, 200),
            "sigma": (4, 200),
            "b": (4, 200, 2, 2),
        }
        expected = posterior_draws((4, 200), np.random.default_rng(0))
        np.testing.assert_array_equal(reference["b"][:, :, 1, 0], expected["b[2,1]"])
    assert repr(posterior) == f"Posterior({NAME!r}, model='normal_model', data='heights')"


def test_reference_draws_with_a_score_function(database):
    posterior = posteriordb.load(database, NAME)
    draws = posterior.draws(score=Score())
    assert draws.names == ("mu", "log(sigma)", "b[1, 1]", "b[1, 2]", "b[2, 1]", "b[2, 2]")
    np.testing.assert_allclose(draws.x[:, 1], np.log(posterior.reference()["sigma"].ravel()))
    assert len(draws) == 800 and set(draws.chain) == {0, 1, 2, 3}
    assert not draws.test(rng=0).reject(0.01)
    bad = posterior_draws((4, 200), np.random.default_rng(1), narrow=0.6)
    wrong = posterior.draws(posteriordb.variables(bad), score=Score(), var_names="mu")
    assert wrong.names == ("mu",) and wrong.test(rng=0).reject(0.01)


def test_names_of_columns():
    one = np.arange(6.0).reshape(1, 6)
    found = posteriordb.variables({"a.1": one, "a.2": one + 1, "c": one, "d[1, 1]": one})
    assert {name: values.shape for name, values in found.items()} == {
        "a": (1, 6, 2),
        "c": (1, 6),
        "d": (1, 6, 1, 1),
    }
    np.testing.assert_array_equal(found["a"][..., 1], one + 1)
    for names in (["a.1", "a.3"], ["a", "a.1"], ["a[0]", "a[1]"], ["a.1.1", "a.2"]):
        with pytest.raises(ValueError, match="has 2 columns of 'a', which do not fill an array"):
            posteriordb.variables(dict.fromkeys(names, one))
    with pytest.raises(ValueError, match=r"`samples` has a column 'a\[x\]'"):
        posteriordb.variables({"a[x]": one})


def test_what_is_missing_is_said(database, tmp_path):
    with pytest.raises(FileNotFoundError, match="is no posterior database; there is no folder"):
        posteriordb.load(tmp_path, NAME)
    with pytest.raises(
        ValueError, match=r"of the 2 posteriors there; .*mean 'heights-normal_model'"
    ):
        posteriordb.load(database, "heights-normal")
    with pytest.raises(ValueError, match="did you mean 'weights-other_model'"):
        posteriordb.load(database, "OTHER")
    with pytest.raises(ValueError, match="got 'xyz'; see its posteriors"):
        posteriordb.load(database, "xyz")
    other = posteriordb.load(database, "weights-other_model")
    with pytest.raises(ValueError, match="'weights-other_model', which has no reference draws"):
        other.draws(score=Score())
    with pytest.raises(FileNotFoundError, match=r"there is no file .*other_model\.stan"):
        other.model()


@pytest.mark.parametrize(
    "content, said",
    [
        (b"PK nonsense", "can't be read as a .zip file"),
        ("not json", "can't be read as JSON"),
        (None, "there is no file .*a.json.zip"),
        ('{"mu": [1, 2]}', "must hold a list of chains"),
        ('[{"mu": [1, 2]}, {"mu": [1]}]', "must hold a list of chains"),
        ("[]", "must hold a list of chains"),
    ],
)
def test_broken_files_are_named(tmp_path, content, said):
    posteriors = tmp_path / "posteriors"
    posteriors.mkdir()
    (posteriors / "a.json").write_text('{"reference_posterior_name": "a"}')
    place = tmp_path / "reference_posteriors" / "draws" / "draws" / "a.json"
    place.parent.mkdir(parents=True)
    if isinstance(content, bytes):
        place.with_name("a.json.zip").write_bytes(content)
    elif content is not None:
        place.write_text(content)
    with pytest.raises((ValueError, FileNotFoundError), match=said):
        posteriordb.load(tmp_path, "a").reference()


def test_a_score_that_changes_the_shape_is_refused(database):
    class Shorter(Score):
        @staticmethod
        def unconstrain(x):
            return x[:, :2]

    with pytest.raises(ValueError, match=r"`score` must have a method `unconstrain` .* \(800, 2\)"):
        posteriordb.load(database, NAME).draws(score=Shorter())


MODULE = f"""
import numpy as np
Y = np.array({Y})
class Model:
    def unconstrain(self, x):
        return np.column_stack([x[:, 0], np.log(x[:, 1]), x[:, 2:]])
    def score(self, z):
        error, variance = Y - z[:, :1], np.exp(2 * z[:, 1])
        by_mu = error.sum(axis=1) / variance - z[:, 0] / 100
        by_sigma = (error**2).sum(axis=1) / variance - len(Y) - z[:, 1]
        return np.column_stack([by_mu, by_sigma, -z[:, 2:]])
model = Model()
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys, database):
    """``fastsksd test --posteriordb`` with the database, in a folder with draws and a score."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "heights_score.py").write_text(MODULE)
    rng = np.random.default_rng(2)
    good = posterior_draws((400,), rng)
    write_csv(tmp_path / "good.csv", good | {"lp__": good["mu"]})
    dots = {name.replace("[", ".").replace(",", ".").strip("]"): v for name, v in good.items()}
    write_csv(tmp_path / "dots.csv", dots)
    chain = np.repeat([1.0, 2.0, 3.0, 4.0], 100)
    bad = posterior_draws((400,), rng, narrow=0.5)
    write_csv(tmp_path / "bad.csv", bad | {"chain": chain})
    write_csv(tmp_path / "short.csv", {name: good[name] for name in ("mu", "sigma")})

    def run(*arguments, name=NAME):
        code = main(["test", "--posteriordb", str(database), name, *arguments])
        return code, *capsys.readouterr()

    return run


SCORE = ["--score", "heights_score.py:model"]


def test_command_with_a_score_function(run):
    code, out, _ = run(*SCORE, "--json")
    said = json.loads(out)
    assert code == 0 and said["n"] == 800 and said["samples"] == f"reference draws of {NAME}"
    assert run("good.csv", *SCORE)[0] == 0
    assert run("dots.csv", *SCORE, "--json")[1] != "" and run("dots.csv", *SCORE)[0] == 0
    code, out, _ = run("bad.csv", "--chains", "chain", *SCORE)
    assert code == 1 and "mu" in out
    assert run("bad.csv", "--chains", "chain", "--columns", "b", *SCORE)[0] == 0


def test_command_explains_what_is_wrong(run, tmp_path):
    cases = {
        ("--model", "gaussian"): "--model does not go with --posteriordb",
        ("--chains", "chain", *SCORE): "--chains is for files of rows",
        ("nothing.csv", *SCORE): "nothing.csv: there is no such file",
        ("good.csv", "--divergences", "drop", *SCORE): "--divergences is for .nc files",
        ("good.csv", "--columns", "gamma", *SCORE): "no variable 'gamma'; there are 'mu', 'sigma'",
    }
    for arguments, said in cases.items():
        code, _, err = run(*arguments)
        assert code == 2 and said in err, err
    assert "did you mean 'heights-normal_model'" in run(name="height-normal")[2]
    (tmp_path / "bare.csv").write_text("1,2\n3,4\n")
    assert "must have a line with the names" in run("bare.csv", *SCORE)[2]
    rows = (tmp_path / "bad.csv").read_text().splitlines()
    (tmp_path / "uneven.csv").write_text("\n".join(rows[:-3]))
    err = run("uneven.csv", "--chains", "chain", *SCORE)[2]
    assert "uneven.csv: has chains of 97 to 100 draws" in err
    code = main(["test"])
    assert code == 2


@pytest.fixture(scope="module")
def compiled(database):
    """The database with its model compiled by Stan's own compiler, for BridgeStan."""
    pytest.importorskip("bridgestan")
    if not stan_compiler.available():
        pytest.skip("needs Stan's compiler and headers, from httpstan, and g++")
    stan = database / "posterior_database" / "models" / "stan"
    library = stan / "normal_model_model.so"
    stan_compiler.compile_model(stan / "normal_model.stan", library)
    yield database
    os.remove(library)


def test_draws_with_the_model_in_stan(compiled):
    posterior = posteriordb.load(compiled, NAME)
    draws = posterior.draws()
    by_hand = posterior.draws(score=Score())
    # Stan's matrices run down the columns first.
    order = [0, 1, 2, 4, 3, 5]
    assert draws.names == ("mu", "log(sigma)", "b.1.1", "b.2.1", "b.1.2", "b.2.2")
    np.testing.assert_allclose(draws.x, by_hand.x[:, order], atol=1e-12)
    np.testing.assert_allclose(draws.score, by_hand.score[:, order], atol=1e-8)
    assert not draws.test(rng=0).reject(0.01)


def test_command_with_the_model_in_stan(compiled, run):
    code, out, _ = run("--json")
    assert code == 0 and json.loads(out)["n"] == 800
    assert run("good.csv")[0] == 0
    code, out, _ = run("bad.csv", "--chains", "chain")
    assert code == 1 and f"the Stan model of {NAME}" in out
    code, _, err = run("short.csv")
    assert code == 2
    assert "short.csv: has no variable 'b' of the model; there are 'mu', 'sigma'" in err


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_command_with_draws_of_arviz(compiled, run, tmp_path):
    arviz = pytest.importorskip("arviz")
    samples = posteriordb.variables(posterior_draws((4, 150), np.random.default_rng(5)))
    diverging = np.zeros((4, 150), dtype=bool)
    diverging[2, 7] = True
    idata = arviz.from_dict(posterior=samples, sample_stats={"diverging": diverging})
    idata.to_netcdf(tmp_path / "draws.nc")
    assert "note: 1 divergent draw tested like the others" in run("draws.nc")[2]
    code, _, err = run("draws.nc", "--divergences", "error")
    assert code == 2 and "1 of 600 draws (1 in chain 2) diverged" in err
    code, out, _ = run("draws.nc", "--divergences", "drop", "--json")
    assert code == 0 and json.loads(out)["n"] == 599
    assert "these draws know their chains" in run("draws.nc", "--chains", "chain")[2]


def test_a_model_that_can_not_be_compiled(compiled, monkeypatch):
    import bridgestan

    def fails(path, *rest, **options):
        raise RuntimeError("no make")

    posterior = posteriordb.load(compiled, NAME)
    library = posterior.stan_file.with_name("normal_model_model.so")
    os.utime(library, (0, 0))  # older than the Stan file
    monkeypatch.setattr(bridgestan, "StanModel", fails)
    with pytest.raises(RuntimeError, match=r"could not compile .*normal_model.stan: no make"):
        posterior.draws()


def test_without_bridgestan(database, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "bridgestan", None)
    with pytest.raises(ImportError, match=r"needs BridgeStan: pip install 'fastsksd\[stan\]'"):
        posteriordb.load(database, NAME).draws()
