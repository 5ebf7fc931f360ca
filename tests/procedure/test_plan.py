"""Options become a plan, and an option without a use is refused by name."""

import dataclasses
import inspect

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.procedure.plan import Options, make_plan

X = np.random.default_rng(0).standard_normal((60, 3))
I3 = fs.Slices(np.eye(3), np.eye(3))
USELESS = {
    "given slices": (dict(slices=I3), "n_slices basis estimator score_q debias refine "
                     "extra_slices multiples train"),
    "named sets": (dict(slices={"a": I3}), "n_slices basis estimator score_q debias refine "
                   "extra_slices train"),
    "one set": (dict(n_slices=2), "extra_slices multiples"),
    "the family": ({}, "refine"),
    "the family without replicates": (dict(null="spectral"), "n_resamples lag"),
    "pair by pair": (dict(engine="direct"), "tol"),
    "ksd": (dict(method="ksd"), "slices n_slices basis estimator score_q debias refine "
            "extra_slices multiples train engine tol"),
    "fssd": (dict(method="fssd"), "slices multiples engine tol debias"),
    "rfsd": (dict(method="rfsd"), "kernel lag train engine tol"),
    "mmd": (dict(method="mmd"), "lag train engine tol slices"),
}  # fmt: skip
VALUES = {
    "slices": I3,
    "n_slices": 1,
    "basis": "identity",
    "estimator": "ksd",
    "score_q": np.negative,
    "debias": False,
    "refine": 3,
    "extra_slices": {"b": I3},
    "multiples": [1.0, 3.0],
    "train": 0.5,
    "kernel": "imq",
    "lag": 5,
    "n_resamples": 50,
    "engine": "direct",
    "tol": 1e-4,
}
CASES = [(kind, name) for kind, (_, names) in USELESS.items() for name in names.split()]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: value)
def test_an_option_without_use_is_refused_by_name(kind, name):
    chosen, _ = USELESS[kind]
    model = fs.models.Gaussian(np.zeros(3), 1.0)
    with pytest.raises(ValueError, match=f"`{name}`"):
        fs.gof_test(X, model, **chosen, **{name: VALUES[name]})


@pytest.mark.parametrize("name", ["train", "estimator", "score_q", "debias"])
def test_in_one_dimension_there_is_nothing_to_search_for(name):
    value = "cross" if name == "train" else VALUES[name]
    with pytest.raises(ValueError, match=f"`{name}`"):
        fs.gof_test(X[:, :1], np.negative, **{name: value})


def test_defaults_given_in_so_many_words_are_no_error():
    default = inspect.signature(fs.gof_test).parameters
    spoken = {
        name: one.default
        for name, one in default.items()
        if one.kind is one.KEYWORD_ONLY and name not in ("slices", "n_resamples", "rng")
    }
    spoken |= {"lag": 1.0}
    given = fs.gof_test(X, -X, slices=I3, n_resamples=20, rng=0, **spoken)
    assert given.pvalue == fs.gof_test(X, -X, slices=I3, n_resamples=20, rng=0).pvalue


def test_options_are_those_of_gof_test():
    signature = inspect.signature(fs.gof_test).parameters
    fields = {one.name: one.default for one in dataclasses.fields(Options)}
    # With `fit`, `n_resamples` has a default of its own.
    assert fields == {
        name: 1000 if name == "n_resamples" else one.default
        for name, one in signature.items()
        if one.kind is one.KEYWORD_ONLY and name != "fit"
    }


def test_a_plan_is_one_of_four():
    given = make_plan(Options(slices=I3), None, 60, 3)
    assert given.search is None and len(given.fixed) == 1 and not given.is_family
    one = make_plan(Options(n_slices=2), None, 60, 3)
    assert one.fixed == () and one.train == 0.2 and not one.is_family
    family = make_plan(Options(), None, 60, 3)
    assert family.is_family and family.train == "cross" and family.most_training == 5000
    baseline = make_plan(Options(method="ksd"), fs.baselines.KSD(), 60, 3)
    assert baseline.baseline.name == "ksd" and baseline.search is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        given.null = "bootstrap"
