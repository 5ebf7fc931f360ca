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


def test_a_batch_that_overflows_is_an_error_of_the_kernel_loss():
    with pytest.raises(ValueError, match="overflows"):
        KernelSteinLoss()(X, -1e160 * X)
