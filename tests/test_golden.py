"""Ten configurations of the test and their stored outcomes, so that no number changes unnoticed.

Where a number is meant to change, write the file again and look at the difference:

    python tests/test_golden.py && git diff tests/golden.json
"""

import json
from pathlib import Path

import numpy as np
import pytest

import fastsksd as fs

STORED = Path(__file__).with_name("golden.json")


def _normal(seed, n, d):
    return np.random.default_rng(seed).standard_normal((n, d))


def _chain(n, d, memory=0.8):
    x = _normal(4, n, d)
    for t in range(1, n):
        x[t] = memory * x[t - 1] + np.sqrt(1.0 - memory**2) * x[t]
    return x


# The first coordinate is a little too narrow for the model N(0, I): p-values are neither 0 nor 1.
X = _normal(0, 300, 5) * np.array([0.88, 1.0, 1.0, 1.0, 1.0])
AXES = fs.Slices(np.eye(5), np.eye(5))
SETS = {"axes": AXES, "random": fs.random_slices(5, 3, rng=3)}


def _test(x=X, **options):
    return lambda: fs.gof_test(x, np.negative, rng=0, **options)


CASES = {
    "given slices, IMQ, Fourier": _test(slices=AXES, kernel="imq", engine="fourier"),
    "named sets, bootstrap": _test(slices=SETS, null="bootstrap"),
    "active slices, half for training": _test(n_slices=2, train=0.5),
    "coordinate basis, refined, direct": _test(basis="identity", refine=5, engine="direct"),
    "family": _test(),
    "family, spectral": _test(null="spectral"),
    "family, lag found": _test(_chain(1000, 3), lag="auto"),
    "KSD, spectral": _test(method="ksd", null="spectral"),
    "FSSD": _test(method="fssd"),
    "stream": lambda: fs.gof_stream(
        [X[:100], X[100:]], np.negative, train=100, null="spectral", rng=0
    ),
}


def _outcome(result):
    family = bool(result.members)
    return {
        "statistic": float(result.evidence if family else result.statistic),
        "pvalue": float(result.pvalue),
        "strongest member": result.members[0].name if family else None,
        "n_test": int(result.n_test),
    }


@pytest.mark.parametrize("name", CASES)
def test_outcomes_are_the_stored_ones(name):
    outcome, stored = _outcome(CASES[name]()), json.loads(STORED.read_text())[name]
    # The search for locations, by L-BFGS, carries the rounding of the processor into the 8th digit.
    rel = 1e-5 if name == "FSSD" else 1e-8
    for key in ("statistic", "pvalue"):  # p-values are multiples of 1/1001, or tails by quadrature
        assert outcome.pop(key) == pytest.approx(stored.pop(key), rel=rel), key
    assert outcome == stored


def test_no_stored_outcome_is_left_over():
    assert set(json.loads(STORED.read_text())) == set(CASES)


if __name__ == "__main__":
    outcomes = {name: _outcome(case()) for name, case in CASES.items()}
    STORED.write_text(json.dumps(outcomes, indent=1) + "\n")
