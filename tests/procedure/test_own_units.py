"""Samples in any units: the same p-values, and none from NaN."""

import numpy as np
import pytest

import fastsksd as fs

X = np.random.default_rng(0).standard_normal((200, 2)) * [0.85, 1.0]
AXES = (np.eye(2), np.eye(2))
TESTS = {
    "family": {},
    "given slices": {"slices": AXES},
    "named sets": {"slices": {"a": AXES}},
    "active slices": {"n_slices": 1},
    "spectral": {"slices": AXES, "null": "spectral"},
    "raw family": {"precondition": "raw"},
    "fixed bandwidth": {"slices": AXES, "kernel": fs.RBF(0.8)},
}


@pytest.mark.parametrize("factor", [2.0**-265, 2.0**265, 2.0**-530, 2.0**530])
@pytest.mark.parametrize("name", TESTS)
def test_units_do_not_change_the_outcome(name, factor):
    options = dict(TESTS[name])
    expected = fs.gof_test(X, -X, rng=0, **options)
    if "kernel" in options:
        options["kernel"] = fs.RBF(0.8 * factor)
    result = fs.gof_test(factor * X, lambda x: -x / factor / factor, rng=0, **options)
    assert result.pvalue == pytest.approx(expected.pvalue, rel=1e-6)
    np.testing.assert_allclose(result.bandwidths / factor, expected.bandwidths)
    if result.slices is not None:
        np.testing.assert_allclose(result.slices.r, expected.slices.r, atol=1e-9)


@pytest.mark.parametrize("factor", [2.0**-1000, 2.0**-265, 2.0**265, 2.0**1000])
@pytest.mark.parametrize("name", ["family", "active slices", "fixed bandwidth"])
def test_units_of_a_given_metric_do_not_change_the_outcome(name, factor):
    matrix = np.array([[2.0, 1.0], [0.0, 0.5]])
    options = dict(TESTS[name])
    expected = fs.gof_test(X, -X, precondition=matrix, rng=0, **options)
    if "kernel" in options:
        options["kernel"] = fs.RBF(0.8 * factor)
    result = fs.gof_test(X, -X, precondition=factor * matrix, rng=0, **options)
    assert result.pvalue == pytest.approx(expected.pvalue, rel=1e-6)
    np.testing.assert_allclose(result.slices.r, expected.slices.r, atol=1e-9)
    np.testing.assert_allclose(result.bandwidths, expected.bandwidths)


@pytest.mark.parametrize("method", ["ksd", "ksdagg", "psd", "fssd", "mmd"])
@pytest.mark.parametrize("factor", [1e-80, 1e80])
def test_other_tests_ask_for_other_units(method, factor):
    with pytest.raises(ValueError, match=r"`x` varies by about .* Rescale the samples"):
        fs.gof_test(factor * X, fs.models.Gaussian(np.zeros(2), np.eye(2)), method=method, rng=0)


@pytest.mark.parametrize("value", [1e16, 1e60, 1e100])
@pytest.mark.parametrize("options", [{"slices": AXES}, {"n_slices": 1}, {"slices": {"a": AXES}}])
def test_an_outlier_is_no_constant_column(options, value):
    x = X.copy()
    x[3, 1] = value
    assert 0 < fs.gof_test(x, -X, rng=0, **options).pvalue <= 1
