"""Draws of a sampler as every bridge returns them: layout, removed draws, and the test."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.interop import arviz as bridge
from fastsksd.interop._draws import Block, collect, unconstrained_names

RNG = np.random.default_rng(0)
SAMPLES = {"a": RNG.standard_normal((2, 300)), "b": 2.0 * RNG.standard_normal((2, 300, 2, 2))}


def score(x):
    return -x / np.r_[1.0, 4.0, 4.0, 4.0, 4.0][: x.shape[1]]


def test_chains_follow_each_other_and_entries_are_named():
    draws = bridge.draws(SAMPLES, score=score)
    assert draws.names == ("a", "b[0, 0]", "b[0, 1]", "b[1, 0]", "b[1, 1]")
    assert draws.x.shape == (600, 5) and len(draws) == 600
    np.testing.assert_array_equal(draws.x[300:, 2], SAMPLES["b"][1, :, 0, 1])
    np.testing.assert_array_equal(draws.score, score(draws.x))
    np.testing.assert_array_equal(draws.chain, np.repeat([0, 1], 300))
    assert repr(draws) == "Draws(600 of 2 chains, d=5: a, b[0, 0], b[0, 1], b[1, 0], b[1, 1])"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_names_of_unconstrained_columns(kind):
    z = (10.0 * RNG.standard_normal((2, 100, 5))).astype(kind)
    z[1, 3] = np.nan
    values = z.copy()
    values[:, :, 1] = np.exp(z[:, :, 1])
    values[:, :, 2] = (1 / (1 + np.exp(-z[:, :, 2].astype(float)))).astype(kind)
    values[:, :, 3] = np.log1p(np.exp(z[:, :, 3]))
    values[:, :, 4] = 1.0 + np.exp(z[:, :, 4])
    names = unconstrained_names(list("abcde"), z, values)
    assert names == ["a", "log(b)", "logit(c)", "d (unconstrained)", "e (unconstrained)"]
    small = (z[:, :, :1] / 10 - 10).astype(kind)
    chances = (1 / (1 + np.exp(-small.astype(float)))).astype(kind)
    assert unconstrained_names(["p"], small, chances) == ["logit(p)"]
    assert unconstrained_names(["p"], z[:, :, :1], None) == ["p (unconstrained)"]
    assert unconstrained_names(["p"], z[:, :, :1], values) == ["p (unconstrained)"]


def test_scores_may_be_an_array():
    values = RNG.standard_normal((600, 5))
    draws = bridge.draws(SAMPLES, score=values, var_names=("a", "b"))
    np.testing.assert_array_equal(draws.score, values)
    with pytest.raises(
        ValueError, match=r"`score` must have the shape of the draws, \(600, 1\); got \(600, 5\)"
    ):
        bridge.draws(SAMPLES, score=values, var_names="a")


def test_the_test_of_draws_is_the_test_with_their_chains():
    draws = bridge.draws(SAMPLES, score=score)
    expected = fs.gof_test(draws.x, draws.score, chains=draws.chain, n_resamples=50, rng=0)
    result = draws.test(n_resamples=50, rng=0)
    assert result.names == draws.names and draws.names[0] in result.summary()
    assert result.pvalue == expected.pvalue and result.lag == expected.lag
    assert [one.draws for one in result.chains.chains] == [300, 300]
    assert draws.test(lag=40, n_resamples=50, rng=0).lag == 40
    assert draws.test(null="spectral", lag=1).null == "spectral"


def test_some_columns_of_a_joint_score_make_a_valid_test():
    # Strongly correlated: the first column of the joint score is not the score of the marginal.
    rng = np.random.default_rng(3)
    precision = np.linalg.inv([[1.0, 0.9], [0.9, 1.0]])
    pvalues = []
    for _ in range(40):
        x = rng.multivariate_normal([0.0, 0.0], np.linalg.inv(precision), size=(1, 200))
        s = -x @ precision
        blocks = [
            Block(name, [name], x[:, :, k : k + 1], s[:, :, k : k + 1])
            for k, name in enumerate("ab")
        ]
        draws = collect(blocks, var_names="a")
        assert draws.names == ("a",) and draws.x.shape == (200, 1)
        pvalues.append(draws.test(lag=1, n_resamples=200, rng=rng).pvalue)
    # 40 tests at level 0.05: 6 rejections or fewer.
    assert np.mean(np.array(pvalues) <= 0.05) <= 0.15
    assert 0.3 <= np.mean(pvalues) <= 0.7


def test_draws_that_diverged_are_counted():
    x = RNG.standard_normal((2, 10, 1))
    diverging = np.zeros((2, 10), dtype=bool)
    diverging[0, 3] = diverging[1, [0, 9]] = True
    blocks = [Block("a", ["a"], x, -x)]
    with pytest.raises(
        ValueError, match=r"3 of 20 draws \(1 in chain 0, 2 in chain 1\) diverged.*='keep'.*='drop'"
    ):
        collect(blocks, diverging=diverging, on_divergence="error")
    kept = collect(blocks, diverging=diverging)
    assert (
        len(kept) == 20
        and kept.n_divergent == 3
        and kept.n_dropped == 0
        and "3 divergent" in repr(kept)
    )
    dropped = collect(blocks, diverging=diverging, on_divergence="drop")
    np.testing.assert_array_equal(dropped.x[:, 0], np.delete(x.ravel(), [3, 10, 19]))
    np.testing.assert_array_equal(np.bincount(dropped.chain), [9, 8])
    assert dropped.n_dropped == 3 and dropped.n_divergent == 0 and "3 dropped" in repr(dropped)
    with pytest.raises(ValueError, match="`on_divergence` must be one of 'error', 'drop', 'keep'"):
        collect(blocks, on_divergence="ignore")
    with pytest.raises(ValueError, match="none of the 20 draws is left"):
        collect(blocks, diverging=np.ones((2, 10)), on_divergence="drop")


def test_draws_that_are_not_finite_are_counted():
    broken = {"a": SAMPLES["a"].copy()}
    broken["a"][1, 7] = np.nan
    with pytest.raises(
        ValueError, match=r"1 of 600 draws \(1 in chain 1\) hold NaN or infinity.*on_nan='drop'"
    ):
        bridge.draws(broken, score=score)
    seen = []
    draws = bridge.draws(broken, score=lambda x: seen.append(x) or score(x), on_nan="drop")
    assert len(draws) == 599 and draws.n_dropped == 1
    assert all(np.isfinite(x).all() for x in seen)

    def fails(x):
        return np.where(x > 2.0, np.inf, -x)

    count = np.count_nonzero(SAMPLES["a"] > 2.0)
    with pytest.raises(
        ValueError, match=rf"{count} of 600 draws .* have a score of NaN or infinity"
    ):
        bridge.draws(SAMPLES, score=fails, var_names="a")
    assert len(bridge.draws(SAMPLES, score=fails, var_names="a", on_nan="drop")) == 600 - count
    with pytest.raises(ValueError, match="`on_nan` must be one of"):
        bridge.draws(SAMPLES, score=score, on_nan="keep")


def test_bad_input_is_explained(tmp_path):
    with pytest.raises(
        ValueError, match=r"`var_names` must .* no variable 'c'; there are 'a', 'b'"
    ):
        bridge.draws(SAMPLES, score=score, var_names=["a", "c"])
    with pytest.raises(ValueError, match="nothing asked for; there are 'a', 'b'"):
        bridge.draws(SAMPLES, score=score, var_names=[])
    with pytest.raises(ValueError, match="'k' holds int64 and has no score"):
        bridge.draws({"k": np.zeros((2, 3), dtype=int)}, score=score)
    with pytest.raises(
        ValueError, match=r"arrays \(chains, draws, ...\) .* got shapes a \(2, 300\), c \(300,\)"
    ):
        bridge.draws({"a": SAMPLES["a"], "c": np.zeros(300)}, score=score)
    with pytest.raises(
        ValueError, match=r"`score` is needed: .* hold no 'unconstrained_draw' and no 'gradient'"
    ):
        bridge.draws(SAMPLES)
    with pytest.raises(
        TypeError, match=r"`idata` must be an InferenceData, DataTree or Dataset, .* got list"
    ):
        bridge.draws([1.0], score=score)
    with pytest.raises(ValueError, match=r"`score` must return an array of shape \(600, 1\)"):
        bridge.draws(SAMPLES, score=lambda x: x[:5], var_names="a")
    with pytest.raises(
        TypeError,
        match=r"must be a bridgestan.StanModel \(pip install 'fastsksd\[stan\]'\); got dict",
    ):
        fs.interop.stan.draws({}, SAMPLES)
