"""Losses of scores that overflow: an error, and the state as it was."""

import numpy as np
import pytest

from fastsksd.learning import KernelSteinLoss, SlicedSteinLoss

X = np.random.default_rng(0).standard_normal((50, 2))


@pytest.mark.parametrize("refine", ["g", "rg", None])
def test_a_batch_that_overflows_leaves_the_sliced_loss_as_it_was(refine):
    loss, other = SlicedSteinLoss(2, refine=refine), SlicedSteinLoss(2, refine=refine)
    loss(X, -X)
    other(X, -X)
    with pytest.raises(ValueError, match="overflows"):
        loss(X, -1e160 * X)
    assert loss.steps == 1
    value, gradient = loss(X, -0.5 * X)
    expected, by_score = other(X, -0.5 * X)
    assert value == expected
    np.testing.assert_array_equal(gradient, by_score)


@pytest.mark.parametrize("bad", [0, 1, 2, 4])
@pytest.mark.parametrize("refine", ["g", "rg", None])
def test_a_loss_goes_on_after_such_a_batch_as_an_undisturbed_one(refine, bad):
    """Also where it comes first after new slices, whose samples are drawn at random."""

    def made():
        rng = np.random.default_rng(3)

        def fresh():
            x = rng.standard_normal((60, 2)) * [0.5, 1.0]
            return x, -x

        return SlicedSteinLoss(2, fresh=fresh, every=2, refine=refine)

    loss, other = made(), made()
    for k in range(6):
        x = np.random.default_rng(k).standard_normal((40, 2))
        if k == bad:
            with pytest.raises(ValueError, match="overflows"):
                loss(x, -1e160 * x)
        value, gradient = loss(x, -0.5 * x)
        expected, by_score = other(x, -0.5 * x)
        assert value == expected
        np.testing.assert_array_equal(gradient, by_score)
    np.testing.assert_array_equal(loss.slices.g, other.slices.g)


def test_a_batch_that_overflows_is_an_error_of_the_kernel_loss():
    with pytest.raises(ValueError, match="overflows"):
        KernelSteinLoss()(X, -1e160 * X)
