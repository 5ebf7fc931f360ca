"""What a reader should know before relying on a result: caveats, with the options that help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .._typing import Array
from .._validate import Option, OptionFormat
from ..procedure.chains import RowsOfChains, draw_name
from ..procedure.fitted import Fitted
from ..procedure.modes import find_modes
from ..procedure.precision import MATTERS
from ..procedure.split import Samples

if TYPE_CHECKING:
    from ..result import GofResult
    from .explanation import Explanation

_FAR = 30.0  # interquartile ranges from the median
_QUARTILES = (0.25, 0.5, 0.75)
_FEW = 100  # samples below which the multinomial bootstrap rejects too often
_STEPS = 0.1  # distinct values of a coordinate, relative to samples, that are few
_FOR_STEPS = 2000  # samples whose values are counted
_LOOKED_AT = 20_000  # samples of which quantiles and separated modes are looked for
_REJECTED = 0.05  # p-values that refits must allow for
_MANY = 500  # samples from which on the limit distribution is trusted


@dataclass(frozen=True)
class Caveat:
    """A caveat.

    Attributes
    ----------
    text : str
        What is the matter.
    remedy : tuple of Option
        Options of `gof_test` that help; empty where none does.
    """

    text: str
    remedy: tuple[Option, ...] = ()

    def said(self, option: OptionFormat = str) -> str:
        """The caveat with its remedy; `option` says how options are written."""
        if not self.remedy:
            return self.text
        return f"{self.text}; test with {' and '.join(map(option, self.remedy))}"

    def __str__(self) -> str:
        return self.said()


def caveats_of(result: GofResult, explanation: Explanation | None) -> tuple[Caveat, ...]:
    """Caveats of a result.

    Without an explanation (None) nothing is known about the samples, their number apart.
    """
    caveats = []
    if result.null == "bootstrap" and result.n_test < _FEW:
        caveats.append(
            Caveat(
                f"the multinomial bootstrap rejects too often with fewer than about {_FEW} samples",
                (Option("null", "wild"),),
            )
        )
    sliced = result.slices is not None
    if result.null == "spectral" and sliced and (result.n_test < _MANY or explanation is None):
        caveats.append(Caveat("the limit distribution holds for many independent samples"))
    if result.lag > 1:
        caveats.append(
            Caveat(
                "the samples are treated as a Markov chain: replicates draw one sign for every "
                f"{result.lag:.3g} draws"
            )
        )
    if result.neighbour_correlation:
        caveats.append(dependent_samples(result))
    if result.score_noise >= MATTERS:
        caveats.append(imprecise(result.score_noise))
    if result.fitted is not None and not result.draws_needed:
        caveats += _of_fit(result.fitted)
    return (*caveats, *(() if explanation is None else explanation.caveats))


def _of_fit(fitted: Fitted) -> list[Caveat]:
    """Of a model that was fitted to the samples, or to others."""
    if not fitted.same_samples:
        return [
            Caveat(
                f"the model is tested as it was fitted to {fitted.n_fit} other samples, with the "
                "errors of its parameters"
            )
        ]
    caveats = [
        Caveat(
            "p-values and bands of single slices do not allow for the fit, and are usually "
            "conservative"
        )
    ]
    if 1.0 > _REJECTED * (1 + fitted.n_refits):
        caveats.append(
            Caveat(
                f"p-values of {fitted.n_refits} refits are at least {1 / (1 + fitted.n_refits):.2g}"
                ", and no model can be rejected",
                (Option("n_resamples", 199),),
            )
        )
    if fitted.n_failed:
        caveats.append(
            Caveat(
                f"{fitted.n_failed} of {fitted.n_refits} refits failed, and count as evidence as "
                f"strong as that of the samples ({fitted.errors[0].rstrip('.')})"
            )
        )
    return caveats


def swapped_axes(result: GofResult) -> str:
    """A hint where there are more chains than draws in each of them; empty otherwise."""
    lengths = [] if result.chains is None else [one.draws for one in result.chains.chains]
    if not lengths or len(lengths) <= max(lengths):
        return ""
    return (
        f"more chains than draws in each ({max(lengths)}): an array must have the shape (chains, "
        "draws, d), not (draws, chains, d)"
    )


def imprecise(noise: float) -> Caveat:
    """Of scores in single precision whose rounding errors matter."""
    return Caveat(
        f"scores are in single precision, with rounding errors of about {noise:.2g} standard "
        "errors of their mean, which the test may see; compute them in double precision"
    )


def dependent_samples(result: GofResult) -> Caveat:
    """Of the samples of a result whose neighbours are correlated."""
    return dependent(
        result.neighbour_correlation, weighted=result.weighted, fitted=result.fitted is not None
    )


def dependent(correlation: float, *, weighted: bool = False, fitted: bool = False) -> Caveat:
    """Of samples taken as independent whose neighbours are correlated."""
    text = (
        f"neighbouring samples depend on each other (correlation {correlation:.2g}), which makes "
        "p-values too small"
    )
    if weighted:
        return Caveat(f"{text}; weights are for independent samples")
    if fitted:
        return Caveat(text, (Option("lag", "auto"),))
    return Caveat(text, (Option("null", "wild"), Option("lag", "auto")))


def caveats_of_samples(
    result: GofResult, samples: Samples, strongest: int | None, names: Sequence[str]
) -> tuple[Caveat, ...]:
    """Caveats of the samples looked at; `strongest` is the index of the strongest slice, if any.

    `names` are those of the coordinates.
    """
    caveats = []
    n = samples.x.shape[0]
    if n < 100:
        caveats.append(Caveat(f"only {n} samples were looked at"))
    key = np.random.default_rng(0).standard_normal(samples.x.shape[1])
    repeats = n - len(np.unique(np.einsum("id,d->i", samples.x, key)))
    steps = _in_steps(samples.x, n - repeats)
    if repeats > 0.01 * n and len(steps) < len(names):
        text = f"{repeats} of {n} samples are exact repeats of others"
        if result.lag <= 1:
            text += "; if they are copies, p-values are too small"
        caveats.append(Caveat(text))
    caveats += _of_steps(steps, names)
    weights = weights_of_groups(samples.x, result.lag)
    if weights:
        caveats.append(Caveat(separate({"": weights}, "test")))
    if strongest is None or result.slices is None:
        return tuple(caveats)
    first = result.slices[strongest]
    if (
        first.g_gaps is not None
        and first.g_values is not None
        and first.g_gaps[0] < 0.1 * first.g_values[0]
    ):
        caveats.append(
            Caveat(
                "the input direction g of the strongest slice is poorly determined: its "
                "eigenvalue is close to the next one"
            )
        )
    return tuple(caveats)


def _in_steps(x: Array, distinct: int) -> dict[int, int]:
    """Columns that take few values, with the number of these; `distinct` is that of whole rows.

    Of samples that are copies of others, columns take as many values as there are distinct rows.
    """
    some = np.sort(x[:: max(1, len(x) // _FOR_STEPS)], axis=0)
    values = 1 + np.count_nonzero(np.diff(some, axis=0), axis=0)
    few = (values < _STEPS * len(some)) & ((2 * values <= distinct) | (x.shape[1] == 1))
    return {k: int(values[k]) for k in np.flatnonzero(few).tolist()}


def _of_steps(steps: dict[int, int], names: Sequence[str]) -> list[Caveat]:
    """Of coordinates that are discrete, or rounded to a few values."""
    if not steps:
        return []
    listed = [f"{names[k]} takes only {values} values" for k, values in steps.items()]
    more = f" (and {len(steps) - 3} more)" if len(steps) > 3 else ""
    return [Caveat(f"{', '.join(listed[:3])}{more}, and the test is for continuous variables")]


def weights_of_groups(x: Array, lag: float) -> tuple[float, ...]:
    """Weights of groups with hardly any sample in between, the largest first; none of one group."""
    every = max(1, len(x) // _LOOKED_AT)
    modes = find_modes(x[::every], max(1.0, lag / every))
    return tuple(np.sort(modes.weights)[::-1].tolist()) if modes.n_modes > 1 else ()


def separate(groups: Mapping[str, Sequence[float]], what: str) -> str:
    """Of samples in groups with hardly any sample in between; `what` was made of them.

    `groups` has the weights of each set of samples, by names that may be empty.
    """
    listed = [
        f"the samples{name and ' of '}{name} are in {len(weights)} groups with hardly any sample "
        f"in between (weights {', '.join(f'{one:.2g}' for one in weights)})"
        for name, weights in groups.items()
    ]
    return (
        f"{', '.join(listed)}, and the {what} can't see whether these weights are right: "
        "fastsksd.mode_weights in Python compares them with a log-density or a score function"
    )


def caveats_of_outliers(
    *seen: tuple[Array, Array], chains: RowsOfChains | None = None
) -> tuple[Caveat, ...]:
    """A caveat about samples so far out that the kernel hardly sees them.

    Each of `seen` holds rows of samples, (n,), with the samples along some directions, (m, n). Rows
    of several `chains` are called draws.
    """
    distances: dict[int, float] = {}
    for rows, projections in seen:
        for y in projections:
            first, middle, third = np.quantile(y[:: max(1, y.size // _LOOKED_AT)], _QUARTILES)
            distance = np.abs(y - middle) / (third - first if third > first else np.inf)
            for k in np.flatnonzero(distance > _FAR).tolist():
                row = int(rows[k])
                distances[row] = max(distances.get(row, 0.0), float(distance[k]))
    if not distances:
        return ()
    which = f"{len(distances)} samples lie" if len(distances) > 1 else "one sample lies"
    row = max(distances, key=lambda row: distances[row])
    farthest = f"row {row}"
    if chains is not None:
        farthest = draw_name(*chains.draws(np.array([row]))[0])
    return (
        Caveat(
            f"{which} more than {_FAR:g} interquartile ranges from the median ({farthest} "
            "is the farthest), where the kernel hardly sees them"
        ),
    )
