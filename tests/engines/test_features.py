"""Products of features summed over pairs in linear time, also where few samples are huge."""

from fractions import Fraction

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.engines.features import FeaturePairs

N = 30
WEIGHTS = np.random.default_rng(1).choice([-1, 1], (5, N)).astype(np.int8)


def exact_rows(features, w):
    """``w_i sum_{j != i} w_j xi_i . xi_j`` for each i, without rounding."""
    exact = [[Fraction(float(entry)) for entry in row] for row in features.T]
    w = [Fraction(int(one)) for one in w]
    return [
        float(
            w[i] * sum(
                w[j] * sum(p * q for p, q in zip(exact[i], exact[j], strict=True))
                for j in range(N)
                if j != i
            )
        )
        for i in range(N)
    ]  # fmt: skip


@pytest.mark.parametrize("huge", [{}, {4: 1e18}, {4: 1e18, 9: -1e18}, {4: 1e40, 9: 1e12, 11: 1e7}])
def test_round_off_does_not_decide(huge):
    features = np.random.default_rng(0).standard_normal((3, N))
    for place, value in huge.items():
        features[place % 3, place] = value
    pairs = FeaturePairs(features)
    signs = np.vstack([np.ones(N, np.int8), WEIGHTS])
    expected = [sum(exact_rows(features, w)) for w in signs]
    np.testing.assert_allclose(pairs.sums(), expected[0], rtol=1e-9)
    for given in (signs, signs.astype(float)):
        padded = np.hstack([np.zeros((len(signs), 2), given.dtype), given])
        sums, replicates = pairs.sums_and_replicates(padded, 2)
        assert sums == pairs.sums()
        np.testing.assert_allclose(replicates, expected, rtol=1e-9)
    np.testing.assert_allclose(pairs.row_sums(), exact_rows(features, signs[0]), rtol=1e-9)
    np.testing.assert_allclose(pairs.diagonal(), (features**2).sum())
    assert pairs.spectrum().max() > 0


@pytest.mark.parametrize("method", ["psd", "fssd"])
def test_one_huge_score_is_no_false_alarm(method):
    pvalues = []
    for seed in range(60):
        x = np.random.default_rng(seed).standard_normal((60, 2))
        scores = -x
        scores[seed, 0] = 1e18
        result = fs.gof_test(x, scores, method=method, rng=seed, n_resamples=39)
        pvalues.append(result.pvalue)
    assert np.mean(np.array(pvalues) == 1.0) < 0.2  # sums that vanish are never rejected, or noise
