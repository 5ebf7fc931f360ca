"""Chains thinned until neighbours hardly depend on each other, for tests of independent samples.

Sets drawn from a fitted model are independent, so that draws of chains must be, too, before they
are compared with them. Every `STEP` tau-th draw of a chain is kept, tau being the longest
autocorrelation time of samples and scores, see `fastsksd.procedure.lags`. Neighbours of a chain of
first order then have a correlation of at most 0.02.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._typing import Array
from .chains import Chains
from .lags import SHORTEST, Lag, check_lag_fits, choose_lag, given_lag

STEP = 2.0  # times tau


class Thinned(NamedTuple):
    """Which draws of chains are kept.

    Attributes
    ----------
    rows : (k,) array of int
        Of the draws kept, in the caller's order.
    step : int
        Distance of two draws of a chain.
    lag : Lag
        How the chains would be cut, were they tested whole: it tells whether they are long enough.
    """

    rows: np.ndarray
    step: int
    lag: Lag


def thin(x: Array, scores: Array, chains: Chains, lag: float | None) -> Thinned:
    """Thin chains with draws and scores (n, d) by a given lag, or by their memory."""
    n, lengths = len(x), chains.lengths
    if lag is None:
        cut = choose_lag(x[chains.order], scores[chains.order], lengths)
        tau = n / cut.effective
        step = 1 if tau <= 1.0 else int(np.ceil(STEP * tau))
    else:
        check_lag_fits(lag, n)
        cut = given_lag(lag, lengths)
        step = int(np.ceil(STEP * lag / SHORTEST))
    return Thinned(np.sort(chains.order[_every(lengths, step)]), step, cut)


def _every(lengths: Sequence[int], step: int) -> np.ndarray:
    """Every so many draws of each chain, the last one kept; a chain has at least one."""
    stops = np.cumsum(lengths)
    return np.concatenate(
        [
            np.arange(stop - 1, stop - m - 1, -step)[::-1]
            for stop, m in zip(stops, lengths, strict=True)
        ]
    )
