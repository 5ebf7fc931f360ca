"""Calls of every public function: arguments that are right, and the same with one or two replaced.

Two calls in three are meant to succeed. In the others one or two arguments are replaced, by a
strange value of their kind (samples with an outlier of 1e160, a kernel with a bandwidth of 1e-300)
or by anything at all. Numbers of samples and replicates are small: size is not what is tested here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from .values import (
    STRANGE,
    rarely,
    samples,
    scores,
    strange_directions,
    strange_kernels,
    strange_samples,
    strange_scores,
)


@dataclass(frozen=True)
class Target:
    """A public function, and right calls of it.

    `names` are the arguments; errors may name them, and what is in `also`.
    """

    call: Callable[..., Any]
    right: st.SearchStrategy[dict[str, Any]]
    names: frozenset[str]
    also: frozenset[str] = frozenset()

    def calls(self):
        """Right calls, and calls with strange arguments."""
        replaced = st.integers(0, 8).flatmap(lambda k: self.strange() if k > 5 else st.just({}))
        return st.tuples(self.right, replaced).map(lambda pair: pair[0] | pair[1])

    def strange(self):
        """One or two arguments to be replaced."""
        replaced = st.sampled_from(sorted(self.names)).flatmap(
            lambda name: st.tuples(st.just(name), _strange(name))
        )
        return st.lists(replaced, min_size=1, max_size=2).map(dict)


def _strange(name: str):
    if name in (
        "x",
        "y",
        "x_train",
        "x_test",
        "first",
        "train",
        "mean",
        "means",
        "cov",
        "W",
        "B",
        "z",
    ):
        return st.one_of(strange_samples(), strange_samples(), STRANGE)
    if name in ("score", "score_q", "scores"):
        return st.one_of(strange_scores(), strange_scores(), STRANGE)
    if name in ("slices", "basis", "extra_slices"):
        return st.one_of(strange_directions(), strange_directions(("rows",)), STRANGE)
    if name == "kernel":
        return st.one_of(strange_kernels(), STRANGE)
    return STRANGE


def keywords(*functions) -> frozenset[str]:
    """Names of the arguments of functions."""
    names = [name for one in functions for name in inspect.signature(one).parameters]
    return frozenset(names) - {"self", "options"}


def right(needed: dict[str, Any], **optional: Any):
    """Needed arguments, and any of the optional ones."""
    made = {
        name: one if isinstance(one, st.SearchStrategy) else st.just(one)
        for name, one in needed.items()
    }
    return st.fixed_dictionaries(made, optional=optional)


SEED = st.integers(0, 999_999)  # so many that right calls don't come to an end
UV = st.sampled_from(["u", "v"])
ENGINES = st.sampled_from(["auto", "direct", "fourier"])
ESTIMATORS = st.sampled_from(["ke", "ksd", "ge"])
FEW = st.sampled_from([1, 19, 19, 39])
FAR_FEWER = samples(n=(5, 8, 12), d=(200,))
WIDE = rarely(FAR_FEWER, samples(n=(20, 30, 30, 60), d=(2, 2, 3, 5)))
X = rarely(FAR_FEWER, samples())
S = scores()
F = scores(("function", "model"))
