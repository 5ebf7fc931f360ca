"""Every public function keeps the rule of `rule`, whatever it is called with.

``FASTSKSD_FUZZ=10000 pytest tests/fuzz`` makes 10,000 calls of each function in place of 300, and
other ones each time. A call that fails goes to `found`, as it is printed.
"""

import os
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from fuzz import rule
from fuzz.found import FOUND
from fuzz.rule import keeps_the_rule
from fuzz.targets import TARGETS
from fuzz.values import Samples, built
from hypothesis import HealthCheck, given, settings

import fastsksd as fs

CASES = os.environ.get("FASTSKSD_FUZZ")


@pytest.mark.parametrize("name", TARGETS)
def test_rule(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a checkpoint may be named anything
    target = TARGETS[name]
    accepted = []

    def keeps(call):
        accepted.append(
            keeps_the_rule(target.call, lambda: built(call), target.names | target.also)
        )

    for call in FOUND.get(name, ()):
        keeps(call)
    del accepted[:]
    settings(
        max_examples=300 if CASES is None else int(CASES),
        derandomize=CASES is None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(given(target.calls())(keeps))()
    assert np.mean(accepted) >= 0.5, "most calls are refused, so that little is tested"


# Records that functions return, errors, names, and what needs an optional library or a picture.
RECORDS = {"BatchError", "BatchResult", "Comparison", "Effects", "Estimate", "Explanation", "Model"}
RECORDS |= {
    "BatchInterrupted",
    "ModeWeights",
    "GofResult",
    "RefitsInterrupted",
    "learning.Diverged",
    "learning.ICAFit",
    "learning.ICAProblem",
}
RECORDS |= {"learning.Trace", "interop.Diagnosis", "models.Model", "baselines.KSD"}
RECORDS |= {"score_difference.ScoreDifference", "score_difference.needs_function"}
ELSEWHERE = {"learning.LearnedSteinLoss": "JAX"}


def test_every_public_function_is_called():
    """A new one needs a target in `targets`."""
    public = {name for name in fs.__all__ if callable(getattr(fs, name))}
    for part in ("baselines", "interop", "learning", "models", "score_difference"):
        module = getattr(fs, part)
        public |= {f"{part}.{name}" for name in module.__all__ if callable(getattr(module, name))}
    public |= {"interop.scipy.draws", "interop.scipy.model"}  # the bridge that needs no extra
    assert public - RECORDS - set(ELSEWHERE) <= set(TARGETS)


def raises_something_else(x):
    return {}[x]


def names_nothing(x):
    raise ValueError("bad input")


def warns(x):
    warnings.warn("overflow", RuntimeWarning, stacklevel=1)
    return 1.0


def not_a_number(x):
    return {"a": [1.0, np.array([0.0, np.nan])]}


def without_a_verdict(x):
    result = fs.gof_test(x, -x, slices=fs.Slices(np.eye(2), np.eye(2)), n_resamples=9, rng=0)
    return replace(result, pvalue=0.0)


def endless(x):
    while True:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (raises_something_else, KeyError),
        (names_nothing, AssertionError),
        (warns, RuntimeWarning),
        (not_a_number, AssertionError),
        (without_a_verdict, AssertionError),
        (endless, rule.TookTooLong),
    ],
)
def test_the_rule_can_be_broken(call, error, monkeypatch):
    if call is endless:
        monkeypatch.setattr(rule, "LONGEST", 1)
    x = Samples().build() if call is without_a_verdict else 0
    with pytest.raises(error):
        keeps_the_rule(call, lambda: {"x": x}, {"x"})
    assert not keeps_the_rule(fs.ksd, lambda: {"x": x, "score": None}, {"x", "score"})
