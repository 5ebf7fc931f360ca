"""The record of what a test saw, see `fastsksd.report.explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import Array
from .._validate import check_integer
from ..discrepancy import Estimate
from ..procedure.chains import draw_name
from .caveats import Caveat
from .directions import ALIGNED, direction
from .witness import Witness


@dataclass(frozen=True, eq=False)
class SliceExplanation:
    """What one slice saw.

    The signs of the directions are chosen: the largest coordinate of g is positive, and r points
    the same way as g where the two are close (``|r.g| >= 0.7``). Otherwise the largest coordinate
    of r is positive too.

    Attributes
    ----------
    index : int
        Index of the slice in the result.
    r, g : (d,) arrays
        Directions of the score and of the input. Where the units of coordinates differ by more than
        a factor of 2, slices that are not along one of them are shown in coordinates divided by
        their units, the deviations of the model; `result.slices` are in those of the samples.
    statistic : float
        U-statistic of this slice.
    bandwidth : float
        Bandwidth of the kernel along it.
    fraction : float
        Fraction of the summed positive slice statistics.
    pvalue, pvalue_adjusted : float
        P-value of this slice alone, and adjusted for the number of slices; see
        `fastsksd.report.explain`.
    leading_r, leading_g : tuple of (str, float)
        Coordinates with the largest weights in r and in g, largest first; "a/sd" is coordinate a
        divided by its unit.
    witness : Witness
        Where along g the samples and the model differ.
    push : Estimate
        ``mean s_i``, with its standard error; 0 for a correct model. Positive: the model pushes the
        samples along r.
    spread : Estimate
        ``-mean s_i (y_i - mean y) / a``, with its standard error; 1 for a correct model. For a
        normal model it is the ratio of the variance of the samples to that of the model. NaN when
        r and g are orthogonal.
    shape : str
        What witness, push and spread together say about the samples along g, compared with the
        model given the other coordinates:

        "narrow", "wide"
            The spread of the samples is too small, or too large.
        "low", "high"
            The samples lie too low, or too high. Where r and g are not close this is about the
            samples along r.
        "peaked", "hollow"
            Too many samples in the middle, or too few; the spread is not shown to be wrong.
        "tails", "flat"
            Too many samples in the middle and in the tails, or too few there.
        "across"
            r and g are not close, and the dependence of the samples along r on those along g
            differs from the model.
        "irregular"
            None of these.
        "none"
            The confidence band contains zero everywhere.
    """

    index: int
    r: Array
    g: Array
    statistic: float
    bandwidth: float
    fraction: float
    pvalue: float
    pvalue_adjusted: float
    leading_r: tuple[tuple[str, float], ...]
    leading_g: tuple[tuple[str, float], ...]
    witness: Witness
    push: Estimate
    spread: Estimate
    shape: str

    @property
    def aligned(self) -> bool:
        """Whether r and g count as one direction."""
        return bool(abs(self.r @ self.g) >= ALIGNED)

    def __repr__(self) -> str:
        along = direction(self.leading_g, self.g.size)
        return (
            f"SliceExplanation(slice {self.index}, fraction {self.fraction:.0%}, adjusted p-value "
            f"{self.pvalue_adjusted:.4g}, {self.shape}, g = {along})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """What a test saw, as data; `GofResult.explain` makes it.

    Attributes
    ----------
    slices : tuple of SliceExplanation
        The strongest slices, strongest first; empty for methods without slices.
    statistics, pvalues, pvalues_adjusted : (m,) arrays
        Statistic and p-values of all slices, in the order of the result.
    allows_for : str
        What the adjusted p-values allow for.
    indices : (n,) array of int
        Rows of the samples in the caller's array, by decreasing contribution.
    contributions : (n,) array
        What each of these samples adds to the statistic; their mean is the statistic.
    along : (n,) array
        These samples along g of the strongest slice; empty for methods without slices.
    names : tuple of str
        Names of the coordinates.
    caveats : tuple of Caveat
        What a reader should know before relying on it; ``str(caveat)`` is its text.
    draws : tuple of (chain, int), or None
        Label of the chain of each of the first 1000 of `indices`, and which of its draws it is;
        None without several chains.

    See Also
    --------
    GofResult.explain : Explain a result.
    GofResult.summary : The same in words.
    fastsksd.plot : The same in pictures.

    Notes
    -----
    What is said about the samples along a direction is conditional: it holds given the other
    coordinates, see `fastsksd.report.explain`.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 3)) * [0.5, 1.0, 1.0]
    >>> explanation = fs.gof_test(x, np.negative, rng=0).explain(names=["a", "b", "c"])
    >>> explanation.slices[0].shape
    'narrow'
    >>> bool(explanation.pvalues_adjusted.min() < 0.05)
    True
    """

    slices: tuple[SliceExplanation, ...]
    statistics: Array
    pvalues: Array
    pvalues_adjusted: Array
    allows_for: str
    indices: Array
    contributions: Array
    along: Array
    names: tuple[str, ...]
    caveats: tuple[Caveat, ...]
    draws: tuple[tuple[Any, int], ...] | None = None

    def said(self, count: int) -> list[str]:
        """The samples with the largest contributions in words: rows, or draws of chains.

        Parameters
        ----------
        count : int
            How many.

        Returns
        -------
        list of str
            As "445", or "draw 45 of chain 1".
        """
        if self.draws is None:
            return list(map(str, self.indices[:count].tolist()))
        return [draw_name(*one) for one in self.draws[:count]]

    def to_dict(self, samples: int | None = 20) -> dict[str, Any]:
        """All of it as plain data that JSON can hold.

        Parameters
        ----------
        samples : int or None
            How many samples are listed, largest contributions first; None for all.

        Returns
        -------
        dict
            Numbers, strings, lists and dictionaries only.
        """
        count = None if samples is None else check_integer("samples", samples, 0)
        return {
            "slices": [_slice_as_dict(one) for one in self.slices],
            "statistics": self.statistics.tolist(),
            "pvalues": self.pvalues.tolist(),
            "pvalues_adjusted": self.pvalues_adjusted.tolist(),
            "allows_for": self.allows_for,
            "samples": {
                "indices": self.indices[:count].tolist(),
                "contributions": self.contributions[:count].tolist(),
                **({} if self.draws is None else {"draws": list(map(list, self.draws[:count]))}),
            },
            "names": list(self.names),
            "caveats": [str(caveat) for caveat in self.caveats],
        }

    def __repr__(self) -> str:
        from .tables import explanation_text

        return explanation_text(self)

    def _repr_html_(self) -> str:
        from .tables import explanation_html

        return explanation_html(self)


def _slice_as_dict(one: SliceExplanation) -> dict[str, Any]:
    witness = one.witness
    arrays = ("grid", "values", "lower", "upper", "density")
    return {
        "index": one.index,
        "statistic": one.statistic,
        "fraction": one.fraction,
        "pvalue": one.pvalue,
        "pvalue_adjusted": one.pvalue_adjusted,
        "bandwidth": one.bandwidth,
        "shape": one.shape,
        "push": one.push._asdict(),
        "spread": one.spread._asdict() if np.isfinite(one.spread.value) else None,
        "r": one.r.tolist(),
        "g": one.g.tolist(),
        "leading_r": [list(pair) for pair in one.leading_r],
        "leading_g": [list(pair) for pair in one.leading_g],
        "witness": {
            **{name: getattr(witness, name).tolist() for name in arrays},
            "level": witness.level,
            "regions": [region._asdict() for region in witness.regions],
        },
    }
