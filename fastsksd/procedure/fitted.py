"""A model fitted to the samples that are tested: refits as the null distribution.

A fitted model is closer to its samples than the true one, so that the null distribution of a fixed
model is far too wide. That of the fit comes from the parametric bootstrap [1]_: sets of samples are
drawn from the fitted model, and the model is fitted to each and tested on it. The statistics of the
members on these sets take the place of replicates; the verdict is reached as ever.

A refit that failed has no statistics. It counts as evidence at least as strong as that of the
samples. The p-value is then conservative, whatever the reason of the failure; leaving it out would
not be, as sets on which a fit fails are not like the others.

References
----------
.. [1] W. Stute, W. Gonzalez Manteiga and M. Presedo Quindimil, "Bootstrap based goodness-of-fit
   tests", Metrika 40, 1993.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._typing import Array
from .combine import Verdict
from .evaluation import Outcome


class Fitted(NamedTuple):
    """What is known of a model that was fitted to the samples.

    Attributes
    ----------
    model : object
        What the function that fits returned for the samples, or for a part of them.
    n_fit : int
        Number of samples it was fitted to.
    n_refits : int
        Number of refits, failed ones included; 0 where the model was tested on other samples than
        those it was fitted to.
    n_failed : int
        Number of refits that failed.
    errors : tuple of str
        What was wrong with them, each reason once.
    """

    model: Any
    n_fit: int
    n_refits: int = 0
    n_failed: int = 0
    errors: tuple[str, ...] = ()

    @property
    def same_samples(self) -> bool:
        """Whether the model was tested on the samples that it was fitted to."""
        return self.n_refits > 0


def statistics_of(outcome: Outcome) -> Array:
    """The statistic of each member, (k,)."""
    return np.array([one.statistic for one in outcome.members])


def with_refits(outcome: Outcome, statistics: Array) -> Outcome:
    """The outcome with the statistics of refits, (B, k), as replicates of its members."""
    members = [
        one._replace(replicates=column, chi2_weights=None, log_bound=None)
        for one, column in zip(outcome.members, statistics.T, strict=True)
    ]
    return outcome._replace(members=members, combined=None)


def allow_for_failures(verdict: Verdict, n_failed: int, n_refits: int) -> Verdict:
    """The verdict with failed refits as evidence at least as strong as that of the samples."""
    done = n_refits - n_failed

    def allowed(p: float) -> float:
        return (p * (1.0 + done) + n_failed) / (1.0 + n_refits)

    members = [
        one._replace(
            pvalue=allowed(one.pvalue), adjusted_pvalue=min(1.0, allowed(one.adjusted_pvalue))
        )
        for one in verdict.members
    ]
    return verdict._replace(pvalue=allowed(verdict.pvalue), members=tuple(members))
