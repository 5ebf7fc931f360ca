"""`Diagnosis`: one table for a sampler's run, with a row per parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._doors import door
from .._typing import Array
from .._validate import ArgumentError, first_few
from ..compute.chi_square import SMALLEST
from ..effects import FEWEST, Correlation, Effect, Effects, coordinate_effects
from ..procedure.location_scale import marginal_pvalues
from ..procedure.mixing import bulk_and_tail_size, split_chains, split_rhat
from ..procedure.precision import MATTERS
from ..report.caveats import imprecise, swapped_axes
from ..report.directions import check_coordinates
from ..report.rates import holm
from ..report.tables import estimate_cells, html_table, plain, rough_note, text_table, weights_fact
from ..report.wording import correlation_words, effect_words
from ..report.worst import worst_directions
from ..result import GofResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._draws import Draws

_FEW = 100.0  # effective draws below which nothing is certain
_MIXED = 1.01  # R-hat of chains that have mixed
_ROWS = 40  # parameters printed
_PAIRS = 3  # correlations printed


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What a run of a sampler looks like against its model, parameter by parameter.

    It prints as a table. All of it is about the parameters in unconstrained space.

    Attributes
    ----------
    names : tuple of str
        Names of the parameters.
    effects : Effects
        Shift in posterior standard deviations and stretch of every parameter, with intervals that
        hold for all parameters at once.
    pvalues, pvalues_adjusted : (d,) arrays
        Stein p-value of the marginal of every parameter, and adjusted for their number by Holm's
        method. NaN where the chains are too short, or the weights too uneven, to tell.
    ess_bulk, ess_tail, r_hat : (d,) arrays
        Effective sample sizes and rank-normalised split R-hat, as in ArviZ and Stan.
    directions : Effects or None
        Combinations of two or three parameters, or of all, along which the draws are farther off
        than along single parameters. They were found on the first half of every chain, and the
        effects are those of the second half.
    result : GofResult
        The test of all draws together.
    n_draws, n_chains, n_divergent : int
        Counts of the draws; no chains for independent draws.
    seem_bounded : tuple of str
        Parameters that seem to be constrained, see `Draws`.

    See Also
    --------
    fastsksd.interop.Draws.diagnose : Makes one.
    """

    names: tuple[str, ...]
    effects: Effects
    pvalues: Array
    pvalues_adjusted: Array
    ess_bulk: Array
    ess_tail: Array
    r_hat: Array
    directions: Effects | None
    result: GofResult
    n_draws: int
    n_chains: int
    n_divergent: int = 0
    seem_bounded: tuple[str, ...] = ()

    def columns(self) -> dict[str, dict[str, float]]:
        """The table as columns, each a mapping of parameters to numbers.

        ``pandas.DataFrame(diagnosis.columns())`` has a row for each parameter, and can be joined to
        ArviZ's ``summary``.

        Returns
        -------
        dict of str to dict
            "shift", "shift_low", "shift_high", "stretch", "stretch_low", "stretch_high",
            "stein_p", "ess_bulk", "ess_tail" and "r_hat".
        """
        shift, stretch = self.effects.shift_interval, self.effects.stretch_interval
        columns = {
            "shift": self.effects.shift,
            "shift_low": shift[:, 0],
            "shift_high": shift[:, 1],
            "stretch": self.effects.stretch,
            "stretch_low": stretch[:, 0],
            "stretch_high": stretch[:, 1],
            "stein_p": self.pvalues_adjusted,
            "ess_bulk": self.ess_bulk,
            "ess_tail": self.ess_tail,
            "r_hat": self.r_hat,
        }
        return {
            name: dict(zip(self.names, values.tolist(), strict=True))
            for name, values in columns.items()
        }

    def to_dict(self, alpha: float = 0.05) -> dict[str, dict[str, Any]]:
        """The diagnosis under the key "stein", to be merged into other diagnostics.

        Parameters
        ----------
        alpha : float
            Level at which parameters are listed in "bad_params" and the model in "reject".

        Returns
        -------
        dict
            ``{"stein": ...}`` with "pvalue" and "reject" of all draws together, "bad_params",
            "directions" in words, the `correlations`, and the `columns`. JSON can hold it: what
            is not known is None.

        Examples
        --------
        >>> import numpy as np, fastsksd as fs
        >>> draws = {"a": np.random.default_rng(0).standard_normal((4, 250))}
        >>> diagnosis = fs.interop.arviz.draws(draws, score=np.negative).diagnose()
        >>> diagnostics = {"rhat": {}} | diagnosis.to_dict()
        >>> sorted(diagnostics)
        ['rhat', 'stein']
        """
        wrong = np.nan_to_num(self.pvalues_adjusted, nan=1.0) <= alpha
        content = {
            "pvalue": self.result.pvalue,
            "reject": self.result.reject(alpha),
            "bad_params": [name for name, bad in zip(self.names, wrong, strict=True) if bad],
            "directions": self.said(),
            "correlations": [one._asdict() for one in self.correlations],
            **self.columns(),
        }
        return {"stein": plain(content)}

    def said(self) -> list[str]:
        """Directions in words, as "a - b: samples too narrow ...".

        Returns
        -------
        list of str
            Empty where single parameters say it all.
        """
        return [] if self.directions is None else [_said(row) for row in self.directions]

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw a forest plot of shifts and stretches, see `fastsksd.plot.effects`.

        Parameters are above the line, `directions` below it.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.axes.Axes
            The axes drawn on.
        """
        from ..plot.forest import draw_forest

        below = () if self.directions is None else (self.directions,)
        return draw_forest((self.effects, *below), ax)

    def notes(self) -> list[str]:
        """Verdict and remarks, as they are printed.

        Returns
        -------
        list of str
            The verdict first.
        """
        notes = [self._verdict(), *self.said()]
        notes += self._correlation_notes()
        notes += self._rejection_notes()
        notes += self._chain_notes()
        notes += self._reliability_notes()
        if len(self.names) > _ROWS:
            notes.append(f"{len(self.names) - _ROWS} more parameters have weaker effects")
        return [*notes, *self._legend()]

    def _verdict(self) -> str:
        drawn = f"draws of {self.n_chains} chain{'s' * (self.n_chains > 1)}"
        if not self.n_chains:
            drawn = "independent draws"
        if self.result.weighted:
            drawn = f"draws with {weights_fact(self.result)}"
        verdict = f"{self.result.verdict} at level 0.05 (p-value {self.result.pvalue:.3g})"
        if self.result.reject(0.05):
            verdict = f"they do not follow the model, {verdict}"
        elif self.result.draws_needed:
            verdict = f"the {'chains' if self.n_chains else 'draws'} are {self.result.verdict}"
        else:
            together = " taken together" if self._located() else ""
            verdict += f", no sign that the draws{together} differ from the model"
        return f"{self.n_draws} {drawn}, in unconstrained space: {verdict}"

    def _correlation_notes(self) -> Iterator[str]:
        for one in self.correlations[:_PAIRS]:
            yield correlation_words(one)
        if len(self.correlations) > _PAIRS:
            yield f"{len(self.correlations) - _PAIRS} more correlations are off"

    def _rejection_notes(self) -> Iterator[str]:
        """Where to look when the model is rejected."""
        if not self.result.reject(0.05):
            return
        if not self._located():
            yield (
                "no single parameter is clearly off: shapes or dependences may be; "
                "`diagnosis.result.summary()` says more"
            )
        if self.seem_bounded:
            yield (
                f"draws of {first_few(self.seem_bounded)} seem to be bounded: if a parameter is "
                "constrained, the draws must be those of its logarithm or logit, and the score "
                "with the Jacobian"
            )

    def _chain_notes(self) -> Iterator[str]:
        """What the chains say about themselves."""
        if hint := swapped_axes(self.result):
            yield hint
        found = self.result.chains
        if found is None:
            return
        if found.apart:
            words = found.places
            if self.result.draws_needed:  # the verdict has said where
                words = "chains in different places have not mixed"
            yield f"{words}: look at each of them; more draws help only if they visit all places"
        elif found.different:
            some = ", ".join(str(one) for one in found.different)
            yield f"chains that differ from the others: {some}"
        if found.burn_in:
            yield f"the start has not settled: drop the first {found.burn_in} draws of every chain"

    def _reliability_notes(self) -> Iterator[str]:
        """What makes p-values or intervals unreliable."""
        worst = np.nanmin(self.ess_bulk) if np.isfinite(self.ess_bulk).any() else np.nan
        if not worst >= _FEW:
            size = "unknown" if np.isnan(worst) else f"{worst:.0f}"
            yield (
                f"the smallest ESS is {size}: below {_FEW:.0f} neither p-values nor intervals are "
                "reliable; draw more"
            )
        if self.result.score_noise >= MATTERS:
            yield str(imprecise(self.result.score_noise))
        if np.nanmax(self.r_hat, initial=1.0) > _MIXED:
            yield (
                f"the largest R-hat is {np.nanmax(self.r_hat):.3f}, above {_MIXED}: the chains "
                "have not mixed well"
            )
        yield from rough_note(self.effects)
        if self.n_divergent:
            many = "draws are" if self.n_divergent > 1 else "draw is"
            yield f"{self.n_divergent} {many} divergent"

    def _legend(self) -> tuple[str, str]:
        """What the columns of the table mean."""
        return (
            "shift in posterior standard deviations, 0 if right; stretch: width of the draws over "
            f"that of the posterior, 1 if right; {self.effects.level:.0%} intervals hold for all "
            "parameters at once",
            "Stein p: p-value of each parameter by itself, adjusted for their number; small if its "
            "draws do not fit the model",
        )

    @property
    def correlations(self) -> tuple[Correlation, ...]:
        """Pairs of parameters whose correlation is off, the clearest first.

        Empty where chains are too short to tell.
        """
        pairs = self.effects.correlations
        return () if pairs is None or self.result.draws_needed else pairs.off

    def _located(self) -> bool:
        """Whether a parameter or a direction shows what is wrong."""
        marked = any(row.shifted or row.stretched for row in self.effects)
        told = bool(self.said()) or bool(self.correlations)
        return marked or told or bool((self.pvalues_adjusted <= 0.05).any())

    def _table(self) -> list[tuple[str, ...]]:
        percent = f"{self.effects.level:.0%} interval"
        header = ("", "shift", percent, "stretch", percent)
        rows: list[tuple[str, ...]] = [(*header, "Stein p", "ess_bulk", "ess_tail", "r_hat")]
        order = np.arange(len(self.names))
        if len(order) > _ROWS:
            order = np.sort(np.argsort(-self.effects.strength, kind="stable")[:_ROWS])
        effects = [list(self.effects)[k] for k in order.tolist()]
        shifts = estimate_cells(
            [one.shift for one in effects], [one.shift_interval for one in effects], 0.0
        )
        stretches = estimate_cells(
            [one.stretch for one in effects], [one.stretch_interval for one in effects], 1.0
        )
        for k, row, shift, stretch in zip(order.tolist(), effects, shifts, stretches, strict=True):
            rows.append(
                (
                    row.name,
                    *shift,
                    *stretch,
                    "<1e-16"
                    if self.pvalues_adjusted[k] < 1e-16
                    else _number(self.pvalues_adjusted[k], ".2g"),
                    _number(self.ess_bulk[k], ".0f"),
                    _number(self.ess_tail[k], ".0f"),
                    _number(self.r_hat[k], ".2f"),
                )
            )
        return rows

    def __repr__(self) -> str:
        return text_table("Diagnosis", self._table(), self.notes())

    def _repr_html_(self) -> str:
        return html_table("Diagnosis", self._table(), self.notes())


def diagnose(draws: Draws, level: float, options: dict[str, Any]) -> Diagnosis:
    """The diagnosis of draws, see `Draws.diagnose`."""
    check_coordinates(draws.names, np.shape(draws.x)[-1])
    chain = np.unique(draws.chain, return_inverse=True)[1].reshape(-1)
    still = [
        name for name, width in zip(draws.names, np.ptp(draws.x, axis=0), strict=True) if not width
    ]
    if still:
        raise ArgumentError(
            "draws",
            f"never change in {', '.join(still[:5])}{' ...' * (len(still) > 5)}: every proposal "
            "was rejected, or the parameter is a constant",
        )
    result = draws.test(**options)
    labels: np.ndarray | None = chain
    if draws.independent:
        draws, labels = draws.unweighted(), None
    n = float(len(draws))
    if n < FEWEST:
        raise ArgumentError(
            "weights", f"must leave at least {FEWEST} draws for a diagnosis; they leave {n:.0f}"
        )
    effects, pvalues, directions = _parameters(draws.x, draws.score, draws.names, labels)
    if result.draws_needed:
        pvalues = np.full_like(pvalues, np.nan)  # whose level does not hold
    known = np.isfinite(pvalues)
    adjusted = np.full_like(pvalues, np.nan)
    adjusted[known] = np.maximum(np.exp(holm(np.log(pvalues[known]))), SMALLEST)
    if labels is None:
        unknown = np.full(len(draws.names), np.nan)
        mixing = np.full(len(draws.names), n), np.full(len(draws.names), n), unknown
    else:
        halves = split_chains(draws.x, chain)
        mixing = (*bulk_and_tail_size(halves, draws.x), split_rhat(halves))
    return Diagnosis(
        draws.names,
        effects.at(level),
        pvalues,
        adjusted,
        *mixing,
        None if directions is None else directions.at(level),
        result,
        n_draws=chain.size,
        n_chains=0 if draws.independent else int(chain.max()) + 1,
        n_divergent=draws.n_divergent,
        seem_bounded=draws.seem_bounded,
    )


@door
def _parameters(
    x: Array, score: Array, names: tuple[str, ...], chain: np.ndarray | None
) -> tuple[Effects, Array, Effects | None]:
    """Effects and p-values of single parameters, and the worst directions."""
    return (
        coordinate_effects(x, score, names, chain),
        marginal_pvalues(x, score, chain),
        worst_directions(x, score, names, chain),
    )


def _said(row: Effect) -> str:
    """A direction in words, with what is wrong along it first."""
    words = []
    for one, wrong in (
        (row._replace(shift_interval=(-1.0, 1.0)), row.stretched),
        (row._replace(stretch_interval=(0.0, 2.0)), row.shifted),
    ):
        if wrong:
            words += effect_words(one)
    if not row.stretched:
        return "; ".join(words)
    kind = "too narrow" if row.stretch < 1 else "too wide"
    return "; ".join(words).replace(": samples ", f": samples {kind}, ", 1)


def _number(value: float, form: str) -> str:
    return f"{value:{form}}" if np.isfinite(value) else ""
