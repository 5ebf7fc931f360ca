"""Chains as users give them, and what a test says of each."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.procedure.chains import Chains, as_chains, one_chain
from fastsksd.procedure.lags import choose_lag
from fastsksd.procedure.per_chain import per_chain

QUICK = dict(n_resamples=99, rng=0)


def chain(n, coefficient, seed, d=2):
    """An AR(1) chain whose stationary distribution is the standard normal."""
    noise = np.random.default_rng(seed).standard_normal((n, d))
    x = noise.copy()
    for t in range(1, n):
        x[t] = coefficient * x[t - 1] + noise[t] * np.sqrt(1 - coefficient**2)
    return x


def chains(count, n, coefficient, d=2, seed=0):
    return np.stack([chain(n, coefficient, [seed, k], d) for k in range(count)])


def report(x):
    count, n, d = x.shape
    rows = x.reshape(-1, d)
    lengths = (n,) * count
    every = Chains(tuple(range(count)), np.arange(count * n), lengths)
    return per_chain(rows, -rows, every, choose_lag(rows, -rows, lengths))


def test_labels():
    found = as_chains(["b", "a", "b", "a", "a"], 5)
    assert found.labels == ("a", "b") and found.lengths == (3, 2)
    assert found.order.tolist() == [1, 3, 4, 0, 2]
    assert as_chains(None, 5) is None
    assert fs.gof_test(X, -X, chains=False, **QUICK).lag == 1
    assert as_chains(True, 5).lengths == one_chain(5).lengths == (5,)


def test_three_axes_labels_and_any_order_of_chains_are_the_same_test():
    x = chains(3, 300, 0.5)
    rows, labels = x.reshape(-1, 2), np.repeat([0, 1, 2], 300)
    first = fs.gof_test(x, np.negative, **QUICK)
    assert first.pvalue == fs.gof_test(x, -x, chains=True, **QUICK).pvalue
    assert first.pvalue == fs.gof_test(rows, -rows, chains=labels, **QUICK).pvalue
    # One draw of each chain after the other.
    mixed = x.transpose(1, 0, 2).reshape(-1, 2)
    again = fs.gof_test(mixed, -mixed, chains=np.tile([0, 1, 2], 300), **QUICK)
    assert again.pvalue == first.pvalue and again.lag == first.lag > 1
    assert np.array_equal(mixed[again._samples.rows], again._samples.x)
    assert again.summary() and again.explain().slices


def test_batches_of_chains(tmp_path):
    x = chains(3, 300, 0.5)
    options = dict(progress=False, rng=0, n_resamples=99, checkpoint=tmp_path / "batch")
    for _ in range(2):  # the second time from the file
        (one,) = fs.gof_batch([(x, -x)], **options)
        assert one.lag == fs.gof_test(x, -x, **QUICK).lag and len(one.chains.chains) == 3
        assert one.chains.different == () and "3 chains" in repr(one)


def test_chains_of_unequal_length():
    x = np.concatenate([chain(m, 0.5, m) for m in (150, 400, 250)])
    result = fs.gof_test(x, -x, chains=np.repeat(["a", "b", "c"], [150, 400, 250]), **QUICK)
    assert 0 < result.pvalue <= 1
    assert [one[:2] for one in result.chains.chains] == [("a", 150), ("b", 400), ("c", 250)]
    assert 50 < result.effective_draws < 500


def test_a_lag_takes_precedence():
    x = chains(2, 200, 0.5)
    assert fs.gof_test(x, -x, lag=5, **QUICK).lag == 5
    independent = fs.gof_test(x, -x, lag=1, **QUICK)
    assert independent.lag == 1 and independent.chains is None
    assert independent.neighbour_correlation == pytest.approx(0.5, abs=0.15)


X = np.random.default_rng(0).standard_normal((60, 2))
BAD = {
    "too few labels": (X, dict(chains=[0, 1]), "`chains` must have a label for every one of 60"),
    "a matrix of labels": (X, dict(chains=X), "`chains` must be True, or a label for every row"),
    "a number": (X, dict(chains=4), "`chains` must be True, or a label for every row"),
    "labels of nothing": (
        X,
        dict(chains=np.full(60, np.nan)),
        "`chains` holds labels that are NaN",
    ),
    "a single draw": (X, dict(chains=[0] * 59 + [1]), "`chains` has a chain of a single draw, 1"),
    "another null": (X, dict(chains=True, null="spectral"), "`chains` are for null='wild'"),
    "three axes and labels": (
        X.reshape(3, 20, 2),
        dict(chains=[0, 1, 2]),
        "`chains` must be left out, or True, for `x` of shape",
    ),
    "three axes, no chains": (
        X.reshape(3, 20, 2),
        dict(chains=False),
        "`x` must be two-dimensional",
    ),
    "four axes": (X.reshape(3, 10, 2, 2), {}, "`x` must be two-dimensional"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_chains(case):
    x, options, message = BAD[case]
    with pytest.raises((ValueError, TypeError)) as error:
        fs.gof_test(x, np.negative, **options, **QUICK)
    assert message in str(error.value)


def test_scores_of_another_shape():
    with pytest.raises(ValueError, match=r"`score` must have the shape of the samples, \(3, 20"):
        fs.gof_test(X.reshape(3, 20, 2), -X, **QUICK)


def test_too_short_to_tell():
    x = chain(300, 0.97, 0)
    result = fs.gof_test(x, -x, chains=True, **QUICK)
    assert np.isnan(result.pvalue) and not result.reject() and result.draws_needed > 1000
    said = f"too short to tell: about {result.draws_needed} draws needed"
    assert result.verdict == said and said in repr(result) and said in result._repr_html_()
    assert f"about {result.draws_needed} draws are needed" in result.summary()
    assert all(np.isnan(one.adjusted_pvalue) for one in result.members)
    assert np.all(np.isnan(result.explain().pvalues))
    problems = [dict(x=x, score=-x, chains=True), (X, -X)]
    batch = fs.gof_batch(problems, progress=False, rng=0, n_resamples=99)
    assert np.isnan(batch.pvalues).tolist() == [True, False] and "too short" in repr(batch)
    with pytest.raises(ValueError, match="too short to tell"):
        fs.plot.members(result)


def test_repeated_draws_and_a_constant_chain():
    x = np.repeat(chains(4, 150, 0.0), 6, axis=1)
    good = fs.gof_test(x, np.negative, **QUICK)
    assert not np.isnan(good.pvalue) and good.lag > 15
    x[1] = x[1, :1]
    stuck = fs.gof_test(x, np.negative, **QUICK)
    assert stuck.chains.different == (1,) and stuck.chains.apart and stuck.draws_needed > 5000
    assert "in different places" in repr(stuck) and "have not mixed" in stuck.summary()
    assert stuck.chains.chains[1].effective_draws == 1.0 < good.chains.chains[1].effective_draws
    with pytest.raises(ValueError, match="the same sample over and over"):
        fs.gof_test(np.full((4, 100, 2), 0.3), np.negative, **QUICK)


def test_a_list_of_chains_of_unequal_length():
    first, second = chain(300, 0.5, 1), chain(200, 0.5, 2)
    rows, labels = np.concatenate([first, second]), np.repeat([0, 1], [300, 200])
    expected = fs.gof_test(rows, -rows, chains=labels, **QUICK)
    for x, score in (([first, second], np.negative), ((first, second), [-first, -second])):
        result = fs.gof_test(x, score, **QUICK)
        assert result.pvalue == expected.pvalue
        assert [one.draws for one in result.chains.chains] == [300, 200]
    batch = fs.gof_batch([([first, second], np.negative)], progress=False, **QUICK)
    assert batch[0].chains.chains[1].draws == 200
    with pytest.raises(ValueError, match=r"`x` must be a list of chains.*columns; got 2, 1"):
        fs.gof_test([first, second[:, :1]], np.negative)
    with pytest.raises(ValueError, match="`score` must be a list of arrays of the shapes"):
        fs.gof_test([first, second], -rows)
    for empty, said in (([first, first[:0]], "chain 1 has none"), ([first[:0]] * 2, "chains 0, 1")):
        with pytest.raises(ValueError, match=f"`x` must be a list of chains with draws; {said}"):
            fs.gof_test(empty, np.negative)
    with pytest.raises(ValueError, match="`chains` must be left out, or True, for a list"):
        fs.gof_test([first, second], np.negative, chains=labels)


def test_nested_lists_are_chains():
    x = chains(3, 200, 0.5)
    expected = fs.gof_test(x, np.negative, **QUICK)
    for draws, score in (
        (x.tolist(), np.negative),
        (x.tolist(), (-x).tolist()),
        (x.tolist(), -x),
        (x, (-x).tolist()),
        ([list(one) for one in x], np.negative),
    ):
        result = fs.gof_test(draws, score, **QUICK)
        assert result.pvalue == expected.pvalue and result.lag == expected.lag
        assert len(result.chains.chains) == 3
    unequal = [x[0].tolist(), x[1, :40].tolist()]
    assert fs.gof_test(unequal, np.negative, **QUICK).chains.chains[1].draws == 40
    plain = fs.gof_test(x[0].tolist(), np.negative, **QUICK)
    assert plain.chains is None and plain.pvalue == fs.gof_test(x[0], np.negative, **QUICK).pvalue
    ragged = [x[0].tolist(), [*x[1].tolist(), [0.0]]]
    with pytest.raises((ValueError, TypeError), match="`x`"):
        fs.gof_test(ragged, np.negative, **QUICK)


def test_draws_that_are_not_finite_are_named_by_chain():
    x = chains(4, 60, 0.0, d=3)
    wrong = x.copy()
    wrong[0, 3, 1] = wrong[2, 5, 0] = np.nan
    said = r"holds NaN or infinity in 2 of 240 rows \(draw 3 of chain 0, draw 5 of chain 2\)"
    labels = np.repeat(list("badc"), 60)
    for call in (fs.gof_test, fs.effect_sizes):
        with pytest.raises(ValueError, match=f"`x` {said}"):
            call(wrong, np.negative)
        with pytest.raises(ValueError, match=f"`x` {said}"):
            call(list(wrong), np.negative)
        with pytest.raises(ValueError, match=f"`score` {said}"):
            call(x, -wrong)
        with pytest.raises(ValueError, match=r"\(draw 3 of chain b, draw 5 of chain d\)"):
            call(wrong.reshape(-1, 3), np.negative, chains=labels)
        with pytest.raises(ValueError, match=r"`score` returned NaN.* \(draw 3 of chain 0, draw"):
            call(x, lambda z: np.where(np.isnan(wrong.reshape(-1, 3)), np.nan, -z))
    with pytest.raises(ValueError, match=r"chunk 0: `x` holds .* \(draw 3 of chain 0"):
        fs.gof_stream([(wrong, -x)], chains=True)
    with pytest.raises(ValueError, match=r"in 2 of 240 rows \(rows 3, 125\)"):
        fs.gof_test(wrong.reshape(-1, 3), np.negative, chains=True)


def test_explanations_name_chain_and_draw():
    x = chains(3, 300, 0.0, d=2)
    x[1, 7] = [4.0, -4.0]
    x[2] *= 1.5
    labels = np.repeat(["p", "q", "r"], 300)
    result = fs.gof_test(x.reshape(-1, 2), np.negative, chains=labels, **QUICK)
    explanation = result.explain()
    for row, (chain, draw) in zip(explanation.indices.tolist(), explanation.draws, strict=True):
        assert (row // 300, row % 300) == ("pqr".index(chain), draw)
    first = "draw {1} of chain {0}".format(*explanation.draws[0])
    assert (
        first in result.summary()
        and first in repr(explanation)
        and "rows " not in repr(explanation)
    )
    assert explanation.to_dict()["samples"]["draws"][0] == list(explanation.draws[0])
    assert fs.gof_test(x[0], np.negative, chains=True, **QUICK).explain().draws is None


def test_masked_draws_are_refused():
    x = np.ma.masked_greater(chains(2, 100, 0.0), 2.0)
    for draws in (x, list(x)):
        with pytest.raises(TypeError, match="`x` is a masked array"):
            fs.gof_test(draws, np.negative)
    full = np.asarray(x)
    for draws, score in ((full, -x), (list(full), list(-x))):
        with pytest.raises(TypeError, match="`score` is a masked array"):
            fs.gof_test(draws, score)
    labels = np.ma.masked_equal(np.repeat([0, 1], 100), 1)
    with pytest.raises(TypeError, match="`chains` is a masked array"):
        fs.gof_test(full.reshape(200, -1), np.negative, chains=labels)


def test_a_chain_that_differs():
    x = chains(4, 500, 0.5, seed=3)
    assert report(x).different == ()
    x[2, :, 1] += 1.0
    found = report(x)
    assert found.different == (2,) and found.chains[2].pvalue <= 0.01 < found.chains[0].pvalue


def test_a_chain_that_is_stuck_in_one_mode():
    """Near each of two modes the scores fit: only the draws tell the chains apart."""
    x = chains(4, 300, 0.5, seed=1)
    x[3, :, 0] += 8.0

    def score(x):
        centre = np.where(x[:, :1] > 4.0, 8.0, 0.0) * (np.arange(x.shape[1]) == 0)
        return centre - x

    result = fs.gof_test(x, score, **QUICK)
    assert not result.reject() and result.chains.different == (3,)


def test_pvalues_of_chains_hold_their_level():
    alone, differs, burn_in = [], [], 0
    for seed in range(60):
        found = report(chains(4, 400, 0.5, seed=seed))
        alone += [one.pvalue for one in found.chains]
        differs += [one.pvalue_differs for one in found.chains]
        burn_in += found.burn_in > 0
    assert np.mean(np.array(alone) <= 0.05) <= 0.1
    assert np.mean(np.array(differs) <= 0.05) <= 0.1
    assert burn_in <= 4


def test_chains_that_are_too_short_have_no_pvalues():
    """Chains of a right model that have not mixed would be said to differ in half of all runs."""
    for seed in range(3):
        found = report(chains(4, 300, 0.995, d=3, seed=seed))
        assert found.different == ()
        assert np.isnan([(one.pvalue, one.pvalue_differs) for one in found.chains]).all()
    x = chains(4, 300, 0.5, d=3, seed=1)
    x[2, 100:] = 2.0 + 0.01 * chains(1, 200, 0.999, d=3)[0]  # hardly moves, far out
    rows = x.reshape(-1, 3)
    assert choose_lag(rows, -rows, (300,) * 4).needed and report(x).different == (2,)


def test_burn_in():
    x = chains(4, 1000, 0.8, seed=1)
    assert report(x).burn_in == 0
    x += 8 * 0.96 ** np.arange(1000)[None, :, None]
    assert 50 <= report(x).burn_in <= 200
    assert report(x[:, :60]).start == ()


def test_effective_draws():
    found = [one.effective_draws for one in report(chains(8, 2000, 0.8)).chains]
    assert 2000 / 9 * 0.5 <= np.mean(found) <= 2000 / 9 * 1.3


def test_exchanged_axes_are_noticed():
    """Draws of shape (draws, chains, d), as some samplers return them."""
    x = chains(4, 100, 0.5, seed=6)
    hint = r"more chains than draws in each (4): an array must have the shape (chains, draws, d)"
    exchanged = fs.gof_test(x.swapaxes(0, 1), np.negative, n_resamples=99, rng=0)
    assert hint in repr(exchanged) and hint in exchanged.summary()
    result = fs.gof_test(x, np.negative, n_resamples=99, rng=0)
    assert "more chains than" not in repr(result)
    assert f"{result.n_test} of 400 draws, without gaps between stretches" in repr(result)
