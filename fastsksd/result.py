"""`GofResult`: the outcome of a goodness-of-fit test, as data.

Explaining, wording, tables and pictures are functions that take a result, in `report` and `plot`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ._doors import interruptible
from ._typing import Array, ArrayLike, Rng, Score
from ._validate import check_probability
from .engines.folded import FoldPair
from .procedure.combine import Member
from .procedure.per_chain import ChainReport
from .procedure.split import Samples
from .slices import Slices

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .baselines.base import Baseline
    from .effects import Effects, Tolerated
    from .procedure.fitted import Fitted
    from .report.explanation import Explanation


@dataclass(frozen=True, eq=False, repr=False)
class GofResult:
    """Outcome of a goodness-of-fit test.

    Attributes
    ----------
    statistic : float
        U-statistic of the discrepancy, summed over slices; near 0 when the model fits. It may be
        negative. For a family it is the discrepancy of the strongest member.
    pvalue : float
        ``(1 + #{replicate >= statistic}) / (1 + n_resamples)``, or the tail of the limit
        distribution; never zero. For a family, replicates of `evidence` are compared with it. NaN
        for chains that are too short to tell and for too few effective samples, see `draws_needed`.
    null_distribution : (n_resamples,) array
        Replicates of `statistic` under the hypothesis that the model fits. For a family, of
        `evidence`; there it is empty with null="spectral".
    slices : Slices or None
        Directions the statistic looked along, in the coordinates of the samples as they were given.
        For a family, those of its strongest member that has slices. None for methods without.
    slice_statistics : (m,) array
        U-statistic of each of these slices.
    bandwidths : (m,) array
        Bandwidth of the kernel along each of these slices.
    n_test : int
        Number of samples that slices were tested on. With cross-fitting these are all samples:
        each half is tested along slices found on the other.
    n_train : int
        Number of samples that slices, or locations, were found on.
    null : str
        Null distribution: "wild", "bootstrap", "spectral", "refits" for a fitted model, or one of a
        baseline.
    engine : str
        How sums over pairs were computed; for a family, along slices.
    kernel : str
        Kernel of the statistic.
    method : str
        "sksd", or the name of a baseline.
    lag : float
        For chains, the number of consecutive draws that share a sign of a replicate; 1 for
        independent samples.
    neighbour_correlation : float
        For samples taken as independent: the largest correlation along a coordinate of
        neighbouring rows, as they were given, where it is more than chance; otherwise 0.
    score_noise : float
        Rounding error of scores in single precision, in standard errors of their mean, along the
        worst coordinate. From 1 on it may matter. 0 for double precision.
    draws_needed : int
        About the number of draws that a verdict needs, for chains that are too short to tell, and
        for weighted samples that are too few; 0 where there are enough.
    effective_draws : float
        For chains, the number of independent draws that are worth as much along the slowest
        direction; for independent samples, their number, with importance weights the effective one.
    weighted : bool
        Whether the samples had importance weights. What the result tells about samples (`effects`,
        `explain`, `plot`) is then about some of them that stand for all without weights.
    chains : ChainReport or None
        For chains: `chains`, a record for each (label, draws, effective draws, p-value alone,
        p-value that it differs from the others), `different`, the labels of those that differ,
        `start`, the p-values of pieces of the first half, and `burn_in`, the number of draws to
        drop at the start. See `fastsksd.procedure.per_chain`.
    locations : (J, d) array or None
        Where the features of a method with features are evaluated.
    n_model : int
        Number of samples of the model that a method used.
    members : tuple of Member
        For a family, one entry for each set of slices or kernel, bandwidth multiple and part of the
        samples, strongest first. Each has a name, multiple, part, statistic, p-value, adjusted
        p-value, which allows for the number of members, and number of slices. Empty otherwise.
    evidence : float or None
        For a family, ``-log10`` of the weighted harmonic mean of the members' p-values, before
        calibration; see `fastsksd.procedure.combine`. With null="spectral", and for KSDAgg, of the
        smallest one. None otherwise.
    coordinate_statistics : (d,) array or None
        Where the strongest member has no slices: the part of its statistic that belongs to each
        coordinate of its metric. None otherwise.
    slice_units : (m,) array or None
        What scores along each slice are multiplied by in the coordinates of the test; the
        statistics of slices are in the squares of these units. None for 1.
    timings : dict of str to float
        Seconds spent on "slices" (or locations), on the "statistic" with its null distribution,
        and in "total".
    names : tuple of str or None
        Names of the coordinates, where the samples had names of columns, as a data frame has.
    tolerated : Tolerated or None
        Whether the effects are within the `tolerance` of the test, if it had one.
    fitted : Fitted or None
        For a test with `fit`: the fitted `model`, `n_fit`, the number of samples it was fitted to,
        `n_refits`, `n_failed` and the `errors` of refits that failed, `thinned`, for chains, of
        which one draw in so many was kept, and `same_samples`, whether it was tested on the samples
        it was fitted to. See `fastsksd.procedure.fitted`.

    See Also
    --------
    gof_test : Makes one.
    Explanation : What `explain` returns.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 2)) * [0.5, 1.0]
    >>> result = fs.gof_test(x, np.negative, rng=0)
    >>> result.reject()
    True
    >>> result.members[0].statistic == result.statistic
    True
    """

    statistic: float
    pvalue: float
    null_distribution: Array
    slices: Slices | None
    slice_statistics: Array
    bandwidths: Array
    n_test: int
    n_train: int
    null: str
    engine: str
    kernel: str
    method: str
    lag: float = 1.0
    neighbour_correlation: float = 0.0
    score_noise: float = 0.0
    draws_needed: int = 0
    effective_draws: float = float("nan")
    weighted: bool = False
    chains: ChainReport | None = None
    locations: Array | None = None
    n_model: int = 0
    members: tuple[Member, ...] = ()
    evidence: float | None = None
    coordinate_statistics: Array | None = None
    slice_units: Array | None = None
    timings: dict[str, float] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    tolerated: Tolerated | None = None
    fitted: Fitted | None = None
    _whole: Samples | None = None
    _stretch: slice | None = None
    _chain: np.ndarray | None = None
    _active: Slices | None = None
    _baseline: Baseline | None = None
    _fold_pairs: tuple[FoldPair, ...] = ()

    @property
    def _samples(self) -> Samples | None:
        """Samples that the slices were tested on; for other methods, all that were tested."""
        if self._whole is None or self._stretch is None:
            return None
        return self._whole.chosen(self._stretch)

    def reject(self, alpha: float = 0.05) -> bool:
        """Whether the model is rejected at level `alpha`.

        Parameters
        ----------
        alpha : float
            Level of the test: the probability of rejecting a correct model.

        Returns
        -------
        bool
            True if the p-value is at most `alpha`. False where chains are too short to tell; see
            `verdict`.
        """
        return bool(self.pvalue <= check_probability("alpha", alpha))

    @functools.cached_property
    @interruptible
    def effects(self) -> Effects:
        """How far the samples are shifted and stretched against the model, with intervals.

        A row for each coordinate, from all samples, and one for each of the strongest slices (at
        most five) that is not along a coordinate, from the samples it was tested on. Samples of a
        chain (``lag > 2``) have intervals that allow for their dependence. Computed when it is
        first asked for.

        Returns
        -------
        Effects
            A table; see `fastsksd.effects` for the method and its limits.

        Raises
        ------
        ValueError
            If the result holds no samples, like those of `gof_stream` and `gof_batch`, if the
            method has no score, or for fewer than 20 samples.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((500, 2)) * [1.4, 1.0]
        >>> sigma = fs.gof_test(x, np.negative, rng=0).effects[0]
        >>> bool(sigma.stretch_interval[0] < 1.4 < sigma.stretch_interval[1])
        True
        """
        from .effects import effects_of

        return effects_of(self)

    @interruptible
    def discrepancy_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval of the discrepancy along `slices`, whose estimates add up to it.

        For one set of slices that is `statistic`. For a family the slices are those of its
        strongest set: the intervals of all sets hold at once, so that the choice does no harm.

        Parameters
        ----------
        level : float
            Confidence of the interval.

        Returns
        -------
        (float, float)
            The ends, which are not below 0; NaN where chains are too short to tell.

        Raises
        ------
        ValueError
            If the result holds no samples, like those of `gof_stream` and `gof_batch`, or if the
            method has no slices.

        Notes
        -----
        Far from 0 the estimate is asymptotically normal, near 0 it is degenerate. The interval
        holds for both, see `fastsksd.procedure.u_statistics`; near 0 it is conservative. An
        interval that begins at 0 does not mean that the model fits, as the p-value sees more.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((500, 2)) * [0.5, 1.0]
        >>> result = fs.gof_test(x, np.negative, slices=(np.eye(2), np.eye(2)), rng=0)
        >>> low, high = result.discrepancy_interval()
        >>> bool(0 < low < result.statistic < high)
        True
        """
        from .comparison import discrepancy_interval

        return discrepancy_interval(self, level)

    @property
    def verdict(self) -> str:
        """The outcome at level 0.05 in a few words."""
        return self.verdict_at(0.05)

    def verdict_at(self, alpha: float) -> str:
        """The outcome in a few words.

        Parameters
        ----------
        alpha : float
            Level of the test.

        Returns
        -------
        str
            "rejected", "not rejected", or what a verdict needs: "too short to tell: ..." of chains,
            with the number of draws or the chains that are in other places, and "too few to tell:
            ..." of weighted samples.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> walk = np.cumsum(np.random.default_rng(0).standard_normal((200, 2)), axis=0)
        >>> fs.gof_test(walk, np.negative, lag="auto", rng=0).verdict[:17]
        'too short to tell'
        """
        if self.draws_needed and self.chains is not None and self.chains.apart:
            return f"too short to tell: {self.chains.places}"
        if self.draws_needed:
            lacking = "few" if self.weighted else "short"
            return f"too {lacking} to tell: about {self.draws_needed} draws needed"
        return "rejected" if self.reject(alpha) else "not rejected"

    @interruptible
    def explain(
        self,
        x: ArrayLike | None = None,
        score: Score | None = None,
        *,
        names: Sequence[str] | None = None,
        n_slices: int = 5,
        level: float = 0.95,
        n_resamples: int = 1000,
        rng: Rng = 0,
    ) -> Explanation:
        """Explain where the model fails, with confidence bands and p-values of slices.

        For a family this is about the strongest member that has slices, on the part of the samples
        that it was tested on.

        Parameters
        ----------
        x : (n, d) array, optional
            Other samples to look at along the slices of this test. They must not be the samples
            the slices were found on. Needed for results of `gof_stream` and `gof_batch`, which hold
            no samples. Results of `gof_test` refer to the samples, which must not be changed in
            place.
        score : (n, d) array, callable or model, optional
            Score of the model at these samples.
        names : sequence of str, optional
            Names of the coordinates; by default those that the samples came with.
        n_slices : int
            How many slices are described, strongest first. Adjusted p-values allow for all slices.
        level : float
            Confidence of the bands. Each band holds for its whole slice at once, not for several
            slices.
        n_resamples : int
            Replicates for the p-values of slices; fewer, but at least 199, where samples times
            slices are more than 150,000.
        rng : None, int or numpy.random.Generator
            Fixed by default, so that a result has the same explanation every time.

        Returns
        -------
        Explanation
            The explanation as data, which prints as a table.

        Raises
        ------
        ValueError
            If the result holds no samples and none are given, or the method has neither slices nor
            contributions of single samples.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((500, 3)) * [0.5, 1.0, 1.0]
        >>> first = fs.gof_test(x, np.negative, rng=0).explain(names=["a", "b", "c"]).slices[0]
        >>> first.shape, first.leading_g[0][0]
        ('narrow', 'a')
        """
        from .report.explain import explain

        return explain(
            self,
            x,
            score,
            names=names,
            n_slices=n_slices,
            level=level,
            n_resamples=n_resamples,
            rng=rng,
        )

    @interruptible
    def summary(
        self,
        x: ArrayLike | None = None,
        score: Score | None = None,
        *,
        names: Sequence[str] | None = None,
        alpha: float = 0.05,
    ) -> str:
        """Summarise the outcome in a paragraph of plain words.

        Parameters
        ----------
        x : (n, d) array, optional
            Other samples to look at, as for `explain`.
        score : (n, d) array, callable or model, optional
            Score of the model at these samples.
        names : sequence of str, optional
            Names of the coordinates; by default those that the samples came with.
        alpha : float
            Level of the test.

        Returns
        -------
        str
            The paragraph.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((500, 1))
        >>> words = fs.gof_test(x, lambda x: -4 * x, rng=0).summary(names=["speed"])
        >>> "The slice is along speed. Along this direction, the samples are too wide" in words
        True
        """
        from .report.wording import summary

        return summary(self, x, score, names=names, alpha=alpha)

    @interruptible
    def plot(self, *, names: Sequence[str] | None = None, alpha: float = 0.05) -> Figure:
        """Draw a report of the test on one page.

        It shows the null distribution, the slices, the witness of the strongest slice, the
        contributions of the samples, and the effect sizes. The single pictures are in
        `fastsksd.plot`.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the coordinates; by default those that the samples came with.
        alpha : float
            Level of the test.

        Returns
        -------
        matplotlib.figure.Figure
            Not managed by pyplot: leave it at the end of a notebook's cell to show it, or save it
            with `savefig`.
        """
        from .plot import report

        return report(self, names=names, alpha=alpha)

    @interruptible
    def __repr__(self) -> str:
        from .report.tables import result_text

        return result_text(self)

    @interruptible
    def _repr_html_(self) -> str:
        from .report.tables import result_html

        return result_html(self)
