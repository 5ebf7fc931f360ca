"""The bridge to ArviZ: InferenceData, DataTree, Dataset and netCDF, stored gradients or a score."""

import warnings

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", message="(?s).*ArviZ is undergoing a major refactor", category=FutureWarning
    )
    az = pytest.importorskip("arviz")

import xarray as xr

import fastsksd as fs

RNG = np.random.default_rng(0)
POSTERIOR = {"mu": RNG.standard_normal((2, 200)), "theta": RNG.standard_normal((2, 200, 3))}
STATISTICS = {
    "diverging": np.arange(400).reshape(2, 200) % 190 == 189,
    "unconstrained_draw": np.concatenate([POSTERIOR["mu"][:, :, None], POSTERIOR["theta"]], axis=2),
    "gradient": RNG.standard_normal((2, 200, 4)),
}
COORDS = {
    "school": ["Choate", "Deerfield", "Andover"],
    "unconstrained_parameter": ["mu", "theta_0", "theta_1", "theta_2"],
}
PARAMETERS = ["unconstrained_parameter"]
DIMS = {"theta": ["school"], "unconstrained_draw": PARAMETERS, "gradient": PARAMETERS}


def inference_data():
    if not hasattr(az, "InferenceData"):  # ArviZ 1
        return az.from_dict(
            {"posterior": POSTERIOR, "sample_stats": STATISTICS}, coords=COORDS, dims=DIMS
        )
    return az.from_dict(posterior=POSTERIOR, sample_stats=STATISTICS, coords=COORDS, dims=DIMS)


def data_tree():
    """What ArviZ 1 returns."""
    idata = inference_data()
    return xr.DataTree.from_dict(
        {
            name: idata[name].to_dataset() if hasattr(idata[name], "to_dataset") else idata[name]
            for name in idata
        }
    )


@pytest.fixture(params=[inference_data, data_tree])
def idata(request):
    return request.param()


def test_draws_that_seem_to_be_constrained():
    """Used as they are, with the score of another space, they would be rejected without a hint."""
    rng = np.random.default_rng(0)
    shape = (4, 500)
    samples = {
        "mu": rng.standard_normal(shape),
        "tau": np.exp(rng.standard_normal(shape)),
        "p": rng.beta(2.0, 2.0, shape),
        "far": 20.0 + rng.standard_normal(shape),  # positive, but nothing keeps it there
        "edge": 3.6 + 0.9 * rng.standard_normal(shape).clip(-3.5, 3.5),
    }
    draws = fs.interop.arviz.draws(samples, score=np.negative)
    assert draws.seem_bounded == ("tau", "p")
    notes = "\n".join(draws.diagnose(n_resamples=99).notes())
    assert "draws of tau, p seem to be bounded: if a parameter is constrained" in notes
    right = fs.interop.arviz.draws({"mu": samples["mu"]}, score=np.negative)
    assert right.seem_bounded == () and "bounded" not in repr(right.diagnose(n_resamples=99))


def test_a_mapping_with_chains_of_unequal_length():
    x = RNG.standard_normal((2, 200))
    with pytest.raises(ValueError, match=r"`idata` must hold arrays.*'a' can't.*length 200, 100"):
        fs.interop.arviz.draws({"a": [x[0], x[1, :100]]}, score=np.negative)


def test_variables_with_a_score(idata):
    draws = fs.interop.arviz.draws(idata, score=lambda x: -x, on_divergence="keep")
    assert draws.names == ("mu", "theta[Choate]", "theta[Deerfield]", "theta[Andover]")
    np.testing.assert_array_equal(
        draws.x, np.c_[POSTERIOR["mu"].reshape(400), POSTERIOR["theta"].reshape(400, 3)]
    )
    assert draws.n_divergent == 2
    turned = fs.interop.arviz.draws(
        idata, score=lambda x: -x, var_names=["theta", "mu"], on_divergence="keep"
    )
    np.testing.assert_array_equal(turned.x, draws.x[:, [1, 2, 3, 0]])


def test_stored_gradients(idata):
    with pytest.raises(ValueError, match=r"2 of 400 draws \(1 in chain 0, 1 in chain 1\) diverged"):
        fs.interop.arviz.draws(idata, on_divergence="error")
    draws = fs.interop.arviz.draws(idata, on_divergence="drop")
    keep = ~STATISTICS["diverging"].ravel()
    np.testing.assert_array_equal(draws.x, STATISTICS["unconstrained_draw"].reshape(400, 4)[keep])
    np.testing.assert_array_equal(draws.score, STATISTICS["gradient"].reshape(400, 4)[keep])
    assert draws.names == ("mu", "theta[Choate]", "theta[Deerfield]", "theta[Andover]")
    some = fs.interop.arviz.draws(idata, var_names="theta", on_divergence="drop")
    np.testing.assert_array_equal(some.score, draws.score[:, 1:])
    assert some.names == draws.names[1:]
    with pytest.raises(
        ValueError, match=r"`var_names` .*: no variable 'tau'; there are 'mu', 'theta'"
    ):
        fs.interop.arviz.draws(idata, var_names="tau", on_divergence="drop")


def test_names_of_stored_draws_say_what_they_are():
    """Those of Stan's transformed parameters are the names of the parameters themselves."""
    z = RNG.standard_normal((2, 50, 5))
    labels = ["mu", "sigma", "p.1", "q.1", "tau_log__"]
    dims = ("chain", "draw", "k")
    stored = {"unconstrained_draw": (dims, z), "gradient": (dims, -z)}
    p = 1 / (1 + np.exp(-z[:, :, 2:3]))
    simplex = np.concatenate([p, 1 - p], axis=2) / 2
    posterior = {
        "mu": (("chain", "draw"), z[:, :, 0]),
        "sigma": (("chain", "draw"), np.exp(z[:, :, 1])),
        "p": (("chain", "draw", "one"), p),
        "q": (("chain", "draw", "two"), simplex),
        "tau": (("chain", "draw"), np.exp(z[:, :, 4])),
    }
    tree = xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior),
            "sample_stats": xr.Dataset(stored, coords={"k": labels}),
        }
    )
    names = ("mu", "log(sigma)", "logit(p[0])", "q[0] (unconstrained)", "tau_log__")
    assert fs.interop.arviz.draws(tree).names == names
    assert fs.interop.arviz.draws(tree, var_names=["sigma"]).names == names[1:2]


def test_dimensions_may_come_in_any_order():
    data = xr.Dataset({"a": (("k", "draw", "chain"), np.arange(12.0).reshape(3, 2, 2))})
    draws = fs.interop.arviz.draws(data, score=lambda x: -x)
    np.testing.assert_array_equal(draws.x[:, 0], [0, 2, 1, 3])
    with pytest.raises(ValueError, match="'a' must have the dimensions chain and draw"):
        fs.interop.arviz.draws(data.rename(draw="time"), score=lambda x: -x)


def test_groups_are_listed(idata):
    del idata["sample_stats"]
    with pytest.raises(ValueError, match="`group`: no group 'prior'; there are 'posterior'"):
        fs.interop.arviz.draws(idata, score=lambda x: -x, group="prior")
    with pytest.raises(
        ValueError,
        match=r"hold no 'unconstrained_draw' and no 'gradient'.*fastsksd.interop.pymc.draws",
    ):
        fs.interop.arviz.draws(idata)
    assert len(fs.interop.arviz.draws(idata, score=lambda x: -x)) == 400


def test_files(tmp_path):
    pytest.importorskip("h5netcdf")
    inference_data().to_netcdf(tmp_path / "run.nc")
    read = fs.interop.arviz.draws(tmp_path / "run.nc", on_divergence="keep")
    np.testing.assert_array_equal(read.score, STATISTICS["gradient"].reshape(400, 4))
    assert len(fs.interop.arviz.draws(str(tmp_path / "run.nc"), on_divergence="drop")) == 398
    with pytest.raises(FileNotFoundError, match=r"`idata`: there is no file .*other\.nc"):
        fs.interop.arviz.draws(tmp_path / "other.nc")
    (tmp_path / "text.nc").write_text("not a netCDF file")
    with pytest.raises(ValueError, match="could not be read as netCDF"):
        fs.interop.arviz.draws(tmp_path / "text.nc")
