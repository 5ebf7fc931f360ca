"""A model fitted to the samples that are tested: refits as the null distribution.

A fitted model is closer to its samples than the true one, so that the null distribution of a fixed
model is far too wide. That of the fit comes from the parametric bootstrap [1]_: sets of samples are
drawn from the fitted model, and the model is fitted to each and tested on it. The statistics of the
members on these sets take the place of replicates; the verdict is reached as ever.

Sets drawn from a model have no memory. Draws of chains are thinned before all else, see
`fastsksd.procedure.thinning`.

A refit that failed has no statistics. It counts as evidence at least as strong as that of the
samples. The p-value is then conservative, whatever the reason of the failure; leaving it out would
not be, as sets on which a fit fails are not like the others.

References
----------
.. [1] W. Stute, W. Gonzalez Manteiga and M. Presedo Quindimil, "Bootstrap based goodness-of-fit
   tests", Metrika 40, 1993.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._progress import check_progress
from .._typing import Array
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    call_user,
    check_checkpoint,
    check_integer,
    check_number,
    score_is_array,
)
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
    thinned : int
        Of chains, every so many draws were fitted and tested; 1 for all of them.
    same_samples : bool
        Whether the model was tested on the samples that it was fitted to.
    """

    model: Any
    n_fit: int
    n_refits: int = 0
    n_failed: int = 0
    errors: tuple[str, ...] = ()
    thinned: int = 1
    same_samples: bool = False


@dataclass(frozen=True)
class Refit:
    """A function that fits a model, with options of its test.

    It is the `fit` of `gof_test`, or one of the models of `compare`, which fits it to samples that
    it does not compare.

    Parameters
    ----------
    function : callable
        Takes an (n, d) array, returns a model with a method `.score`, or a score function. To be
        refitted, the model must have a method ``.sample(n, rng=...)``, which takes a
        `numpy.random.Generator`. The same samples must give the same model: a fit with random
        starts needs a seed of its own.
    split : float, optional
        Fit to this fraction of the samples and test the others, in place of refits. Without it,
        0.9 for models that have no sampler (less if fewer than 20 samples were left), and refits
        for all others. See Notes.
    n_jobs : int, optional
        Number of processes, each on one thread. By default refits run in this process, one after
        the other, on all threads. In a script, start processes under
        ``if __name__ == "__main__":``. The p-value is the same for any number.
    checkpoint : path, optional
        File in which every refit is kept as soon as it is done. The same call continues from it,
        with more refits if `n_resamples` is larger than before. A file of other samples, models,
        options or seeds is an error. With rng=None the seeds are those of the file.
    progress : bool or callable
        Whether a line on standard error shows the progress, or a function that is called with
        (number done, number of all) after each refit.

    Raises
    ------
    RefitsInterrupted
        By the test, when it is interrupted from the keyboard.

    See Also
    --------
    gof_test : The test.
    compare : Fitted models among others.

    Notes
    -----
    If `function` fails on the samples, or returns nothing usable, the test ends with an error. A
    refit that fails (an error, a model without finite scores, a process that died) is counted, and
    the others go on. It counts as evidence at least as strong as that of the samples, which is
    conservative. When so many failed that no p-value could be 0.05 (more than 9 of 199), the test
    ends with an error that says why. Refits done are kept in the checkpoint; those that failed are
    tried again.

    A split tests the model as it was fitted, with the errors of its parameters. To a right family
    these are small only if the model is fitted to many more samples than are tested: of normal
    distributions fitted to half of 500 samples in 10 dimensions 97% were rejected, to 90% of them
    8%. Refits have no such error and test all samples.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).laplace(size=(200, 2))
    >>> fit = fs.Refit(fs.models.Laplace.fit, progress=False)
    >>> fs.gof_test(x, fit=fit, n_resamples=99, rng=0).verdict
    'not rejected'
    """

    function: Callable[[Array], Any]
    split: float | None = None
    n_jobs: int | None = None
    checkpoint: str | os.PathLike[str] | None = None
    progress: bool | Callable[[int, int], object] = True

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentTypeError(
                "fit",
                "must be a function that takes samples and returns a model, or a Refit, not "
                f"{type(self.function).__name__}",
            )
        if self.split is not None and check_number("split", self.split, 0.0, strict=True) >= 1.0:
            raise ArgumentError("split", f"must be less than 1; got {self.split}")
        if self.n_jobs is not None:
            check_integer("n_jobs", self.n_jobs, 1)
        if self.checkpoint is not None:
            check_checkpoint(self.checkpoint)
        check_progress(self.progress)

    def model_of(self, x: Array, name: str = "fit") -> Any:
        """Fit a model to samples.

        Parameters
        ----------
        x : (n, d) array
            Samples.
        name : str
            What errors call the function.

        Returns
        -------
        object
            A model with a score, or a score function.

        Raises
        ------
        ValueError, TypeError
            If the function fails or returns nothing usable.
        """
        model = call_user(name, self.function, x.copy())
        if model is None or score_is_array(model):
            raise ArgumentTypeError(
                name,
                "must return a model with a .score method, or a score function; it returned "
                f"{type(model).__name__}",
            )
        return model


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
