"""Kernel objects and their bandwidths."""

import numpy as np
import pytest

import fastsksd as fs


def test_bandwidth_given_as_number_or_per_slice():
    y = np.random.default_rng(0).standard_normal((3, 10))
    assert fs.RBF(0.5).bandwidths(y).tolist() == [0.5] * 3
    assert fs.IMQ([1, 2, 3]).bandwidths(y).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="`kernel` has 2 bandwidths but there are 3 slices"):
        fs.RBF([1.0, 2.0]).bandwidths(y)
