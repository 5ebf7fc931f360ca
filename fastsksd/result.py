"""`GofResult`: the outcome of a goodness-of-fit test."""

from dataclasses import dataclass, field
from html import escape

import numpy as np

from ._validate import check_number
from .plot import inline_figure, report
from .procedure.combine import Member
from .procedure.split import Samples
from .report.explain import check_coordinates, explain, is_explicable
from .report.wording import summarise
from .slices import Slices


@dataclass(frozen=True, eq=False, repr=False)
class GofResult:
    """Outcome of a goodness-of-fit test.

    Attributes
    ----------
    statistic : float
        U-statistic of the discrepancy, summed over slices; near 0 when the model fits. It may be
        negative. For a family, that of its strongest member.
    pvalue : float
        ``(1 + #{replicate >= statistic}) / (1 + n_resamples)``, or the tail of the limit law; never zero.
    null_distribution : (n_resamples,) array
        Replicates of `statistic` under the hypothesis that the model fits; of `evidence` for a
        family, where it is empty with null="spectral".
    slices : Slices
        Directions the statistic looked along; for a family, those of its strongest member; None for methods without slices.
    slice_statistics, bandwidths : (m,) arrays
        U-statistic and kernel bandwidth of each of these slices.
    members : tuple of Member
        For a family, one entry for each set of slices, bandwidth multiple and part of the samples, strongest first: its name,
        multiple, part, statistic, p-value and adjusted p-value (which allows for the number of members). Else empty.
    evidence : float or None
        For a family, ``-log10`` of the smallest p-value of a member, each divided by the member's
        weight, before calibration; see `fastsksd.procedure.combine`. Else None.
    n_test, n_train : int
        Samples that slices were tested on and found on. With cross-fitting both are all of them: each half is tested along
        slices found on the other.
    null, engine, kernel, method : str
        How it was computed.
    lag : float
        Lag of the signs, for null="wild".
    locations : (J, d) array or None
        Where the features of method="rfsd" and "fssd" are taken.
    n_model : int
        Samples of the model that method="mmd" compared with, or that the null of method="rfsd" was made from.
    timings : dict
        Seconds spent on "slices" (or locations) and on the "statistic" with its null distribution, and in "total".
    names : tuple of str or None
        Names of the coordinates, where the samples came with names of columns, as a data frame has.
    """

    statistic: float
    pvalue: float
    null_distribution: np.ndarray
    slices: Slices
    slice_statistics: np.ndarray
    bandwidths: np.ndarray
    n_test: int
    n_train: int
    null: str
    engine: str
    kernel: str
    method: str
    lag: float = 1.0
    locations: np.ndarray | None = None
    n_model: int = 0
    members: tuple[Member, ...] = ()
    evidence: float | None = None
    timings: dict = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    _samples: Samples | None = None

    def reject(self, alpha=0.05):
        """Whether the model is rejected at level `alpha`."""
        alpha = check_number("alpha", alpha, 0.0, strict=True)
        if alpha >= 1:
            raise ValueError(f"`alpha` must be less than 1; got {alpha}.")
        return bool(self.pvalue <= alpha)

    def explain(
        self, x=None, score=None, *, names=None, n_slices=5, level=0.95, n_resamples=1000, rng=0
    ):
        """Where the model fails and how surely: witness functions with confidence bands, p-values of slices, contributions of samples.

        For a family this is about its strongest member, on the part of the samples that it was tested on.

        Parameters
        ----------
        x, score : (n, d) array, and array, callable or model, optional
            Other samples to look at along the slices of this test: such as they were not found on. Needed for results of `gof_stream` and
            `gof_batch`, which hold no samples. (Those of `gof_test` refer to the samples; they must not be changed in place.)
        names : sequence of str, optional
            Names of the coordinates; those that the samples came with unless given.
        n_slices : int
            How many of the slices are described, strongest first. Adjusted p-values allow for all.
        level : float
            Confidence of the bands. Each holds for its whole slice at once, not for several slices.
        n_resamples : int
            Replicates for the p-values of slices; fewer, but at least 199, where samples times slices are more than 150,000.
        rng : None, int or numpy.random.Generator
            Fixed unless given, so that the same result is always explained alike.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((500, 3)) * [0.5, 1.0, 1.0]
        >>> first = fs.gof_test(x, np.negative, rng=0).explain(names=["a", "b", "c"]).slices[0]
        >>> first.shape, first.leading_g[0][0]
        ('narrow', 'a')
        """
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

    def summary(self, x=None, score=None, *, names=None, alpha=0.05):
        """The outcome in a paragraph of plain words; `x`, `score` and `names` as for `explain`.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> x = np.random.default_rng(0).standard_normal((500, 1))
        >>> words = fs.gof_test(x, lambda x: -4 * x, rng=0).summary(names=["speed"])
        >>> "looks along speed. Along it, the samples are too wide for the model" in words
        True
        """
        self.reject(alpha)
        known = x is not None or score is not None or is_explicable(self)
        return summarise(self, self.explain(x, score, names=names) if known else None, alpha)

    def plot(self, *, names=None, alpha=0.05):
        """The report of this test on a page: null distribution, slices, witness of the strongest one, contributions of samples.

        Returns a `matplotlib.figure.Figure` that pyplot does not know of: show it by leaving it at the end of a notebook's cell, or save it with
        `savefig`. The single pictures are in `fastsksd.plot`.
        """
        return report(self, names=names, alpha=alpha)

    def _facts(self):
        verdict = "the model is rejected" if self.reject() else "the model is not rejected"
        first = self.members[0] if self.members else None
        facts = {"verdict": f"{verdict} at level 0.05", "p-value": f"{self.pvalue:.4g}"}
        if first is not None:
            where = "" if first.part == "all" else f", on {first.part}"
            facts["strongest member"] = (
                f"{first.name}, bandwidth x {first.multiple:g}{where} (of {len(self.members)} members)"
            )
        facts |= {
            "statistic": f"{self.statistic:.6g}" + ("" if first is None else " (of that member)"),
            "null": self._null(),
            "samples": self._usage(),
        }
        if self.slices is None:
            points = (
                "" if self.locations is None else f", features at {len(self.locations)} locations"
            )
            return facts | {
                "method": f"{self.method}, kernel {self.kernel}, bandwidth {self.bandwidths[0]:.4g}{points}"
            }
        strongest = int(np.argmax(self.slice_statistics))
        names = check_coordinates(self.names, self.slices.d)
        return facts | {
            "slices": f"{len(self.slices)} in {self.slices.d} dimensions, kernel {self.kernel}, engine {self.engine}",
            "strongest slice": f"{strongest}: statistic {self.slice_statistics[strongest]:.4g}",
            "  score along r": _direction(self.slices.r[strongest], names),
            "  input along g": _direction(self.slices.g[strongest], names),
        }

    def _null(self):
        if self.null == "spectral" and self.method != "rfsd":
            return "spectral, the limit law itself" + (
                "; members combined by Bonferroni's inequality" if self.members else ""
            )
        quantile = np.quantile(self.null_distribution, 0.95)
        lag = f" with lag {self.lag:.3g}" if self.lag > 1 else ""
        return f"{self.null}{lag}, {self.null_distribution.size} resamples, 95% quantile {quantile:.4g}"

    def _usage(self):
        if any(member.part == "half 1" for member in self.members):
            return f"{self.n_test}, each half tested along slices found on the other"
        if self.slices is None:
            apart = f", {self.n_train} used to find locations" if self.n_train else ""
            return f"{self.n_test} tested{apart}" + (
                f" against {self.n_model} of the model" if self.n_model else ""
            )
        return f"{self.n_test} tested, {self.n_train} used to find slices"

    def __repr__(self):
        facts = self._facts()
        width = max(map(len, facts))
        return "GofResult\n" + "\n".join(
            f"  {name:<{width}}  {value}" for name, value in facts.items()
        )

    def _repr_html_(self):
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>GofResult</caption>{rows}</table>{inline_figure(self)}"


def _direction(vector, names, count=3):
    """The largest coordinates of a direction, in words."""
    top = np.argsort(-np.abs(vector))[:count]
    return " ".join(f"{vector[i]:+.2f} {names[i]}" for i in top) + (
        " ..." if vector.size > count else ""
    )
