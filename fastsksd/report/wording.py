"""The outcome of a test in plain words.

What it means, where the model fails and in which way, and the caveats. Options are written as in
Python, or by an `OptionFormat` as the command line writes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .._typing import ArrayLike, Score
from .._validate import Option, OptionFormat, check_probability
from ..effects import FEWEST, Correlation, Effect, Effects, Tolerated, effects_of, has_effects
from .caveats import caveats_of
from .directions import check_coordinates, direction
from .explain import explain, is_explicable
from .explanation import Explanation, SliceExplanation
from .tables import (
    WIDE,
    chain_facts,
    digits,
    largest_coordinates,
    member_name,
    sliced_member,
    weights_fact,
)
from .witness import Region

if TYPE_CHECKING:
    from ..result import GofResult

_EFFECTS = 4  # effects in a sentence
_NO_SAMPLES = "This result holds no samples: give `x` and `score` to see where the model fails."
# Shape of a slice: in short, and as a sentence after "given the other coordinates,".
_SHAPES = {
    "narrow": (
        "too narrow",
        "the samples are too narrow for the model, which pushes them away from {middle}",
    ),
    "wide": (
        "too wide",
        "the samples are too wide for the model, which pulls them towards {middle}",
    ),
    "low": (
        "too low",
        "the samples are too low for the model: too few lie near the upper end, where the model "
        "puts more mass",
    ),
    "high": (
        "too high",
        "the samples are too high for the model: too few lie near the lower end, where the model "
        "puts more mass",
    ),
    "peaked": (
        "too peaked",
        "too many samples lie near {middle} and too few on either side, compared with the model",
    ),
    "hollow": (
        "too few in the middle",
        "too few samples lie near {middle} and too many on either side, compared with the model",
    ),
    "tails": (
        "peak and tails too heavy",
        "too many samples lie near {middle} and in the tails, and too few in between, compared "
        "with the model: a sharp peak and heavy tails",
    ),
    "flat": (
        "too flat",
        "too few samples lie near {middle} and in the tails, and too many in between, compared "
        "with the model: a flat or hollow top and light tails",
    ),
}


def summary(
    result: GofResult,
    x: ArrayLike | None = None,
    score: Score | None = None,
    *,
    names: Sequence[str] | None = None,
    alpha: float = 0.05,
    option: OptionFormat = str,
    no_samples: str = _NO_SAMPLES,
) -> str:
    """A result in a paragraph, see `GofResult.summary`.

    Parameters
    ----------
    result, x, score, names, alpha
        As for `GofResult.summary`.
    option : callable
        How an `Option` is written; as in Python by default.
    no_samples : str
        What to say of a result that holds no samples to show where the model fails.

    Returns
    -------
    str
    """
    check_probability("alpha", alpha)
    if result.draws_needed:
        listed = "; ".join(caveat.said(option) for caveat in caveats_of(result, None))
        words = [_too_short(result), *_chains(result), f"Caveats: {listed}." if listed else ""]
        return " ".join(words).strip()
    explanation = None
    if x is not None or score is not None or is_explicable(result):
        explanation = explain(result, x, score, names=names)
    sentences = [_verdict(result, alpha, option), *_fit(result), _samples(result)]
    sentences += _chains(result)
    if result.members:
        strongest = member_name(result.members[0])
        sentences.append(f"The strongest of {len(result.members)} members is {strongest}.")
        sentences += _without_slices(result, names)
    if explanation is not None:
        sentences += _slices(result, explanation, alpha)
        if result.reject(alpha):
            sentences += _rows(explanation)
    elif result.slices is not None:
        sentences.append(no_samples)
    if x is not None:
        if explanation is not None and explanation.indices.size >= FEWEST:
            sentences += _effects(effects_of(result, x, score, names=names))
    elif has_effects(result):
        named = names is None or tuple(names) == result.names
        sentences += _effects(result.effects if named else effects_of(result, names=names))
    if result.tolerated is not None:
        sentences.append(tolerated_said(result.tolerated, result.reject(alpha)))
    caveats = [caveat.said(option) for caveat in caveats_of(result, explanation)]
    if caveats:
        sentences.append(f"Caveats: {'; '.join(caveats)}.")
    return " ".join(sentences)


def _too_short(result: GofResult) -> str:
    if result.weighted:
        return (
            f"The samples have {weights_fact(result)}: too few to tell whether the model fits. "
            f"About {result.draws_needed} draws are needed."
        )
    if result.chains is not None and result.chains.apart:
        return (
            "The chains are in different places and have not mixed: too short to tell whether the "
            "model fits. More draws help only if the chains mix: about "
            f"{result.draws_needed} are needed then."
        )
    return (
        f"The chains are too short to tell whether the model fits: about {result.draws_needed} "
        "draws are needed."
    )


def _chains(result: GofResult) -> list[str]:
    """What is known of chains, and of importance weights."""
    if result.weighted and not result.draws_needed:
        return [f"They have {weights_fact(result)}."]
    said = chain_facts(result)
    if not said:
        return []
    sentences = [f"The draws are those of {said['chains']}."]
    if said["chains that differ"]:
        sentences.append(f"Chains that differ from the others: {said['chains that differ']}.")
    if said["burn-in"]:
        sentences.append(f"Of the start, {said['burn-in']}.")
    return sentences


def _verdict(result: GofResult, alpha: float, option: OptionFormat) -> str:
    rejected = result.reject(alpha)
    percent = 100.0 * result.pvalue
    shown = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    often = f"{shown}% of tests" if percent >= 0.001 else "fewer than one in 100,000 tests"
    if result.members and result.null == "spectral" and percent >= 0.001:
        often = f"at most {often}"  # by Bonferroni's inequality
    verdict = f"The model is {'rejected' if rejected else 'not rejected'} at level {alpha:g}"
    words = f"{verdict} (p-value {result.pvalue:.3g}). "
    words += f"A correct model gives evidence as strong as this in {often}."
    if not rejected:
        words += " This does not prove that the model is correct."
    count = result.null_distribution.size
    smallest = count and result.pvalue <= 1.0 / (1.0 + count) * (1.0 + 1e-9)
    if smallest and result.null in ("wild", "bootstrap") and not result.weighted:
        words += (
            f" (None of {count} replicates is as large; "
            f"{option(Option('null', 'spectral'))} gives smaller p-values.)"
        )
    return words


def _fit(result: GofResult) -> list[str]:
    fitted = result.fitted
    if fitted is None:
        return []
    thinned = ""
    if fitted.thinned > 1:
        thinned = f", one in {fitted.thinned} of every chain, as samples of a model are independent"
    if not fitted.same_samples:
        return [f"The model was fitted to {fitted.n_fit} samples and tested on others{thinned}."]
    return [
        f"The model was fitted to the samples{thinned}. The null distribution is that of "
        f"{fitted.n_refits} refits to samples of the fitted model."
    ]


def _samples(result: GofResult) -> str:
    dimensions = ""
    if result.slices is not None:
        d = result.slices.d
        dimensions = f" in {d} dimension{'s' if d > 1 else ''}"
    parts = {member.part for member in result.members}
    fixed = [
        what
        for what, some in (("fixed slices", True), ("members without slices", False))
        if any(one.part == "all" and bool(one.n_slices) == some for one in result.members)
    ]
    if "half 1" in parts:
        all_of_them = f"{' and '.join(fixed)} were tested on all of them, and " if fixed else ""
        return (
            f"The test used {result.n_test} samples{dimensions}: {all_of_them}slices found on each "
            "half were tested on the other half."
        )
    if "all" in parts and result.n_train:
        what = " and ".join(fixed).capitalize()
        return (
            f"{what} were tested on all samples{dimensions}, and active slices found on "
            f"{result.n_train} samples were tested on {result.n_test} others."
        )
    training = ""
    if result.n_train:
        what = "slices" if result.slices is not None else "locations"
        training = f", with {what} found on {result.n_train} others"
    model = f", against {result.n_model} samples of the model" if result.n_model else ""
    return f"The test used {result.n_test} samples{dimensions}{training}{model}."


def _without_slices(result: GofResult, names: Sequence[str] | None) -> list[str]:
    """What is known of a strongest member without slices, and which slices are the strongest."""
    parts = result.coordinate_statistics
    if parts is None:
        return []
    names = check_coordinates(result.names if names is None else names, parts.size)
    largest = largest_coordinates(parts, names)
    sentences = [f"It is largest along {largest}{_given(parts.size)}."] if largest else []
    if result.slices is not None:
        sentences.append(f"Of the members with slices the strongest is {_sliced(result)}.")
    return sentences


def _sliced(result: GofResult) -> str:
    member = sliced_member(result)
    return f"{member_name(member)}, with adjusted p-value {member.adjusted_pvalue:.3g}"


def _slices(result: GofResult, explanation: Explanation, alpha: float) -> list[str]:
    if not explanation.slices:
        return []
    first = explanation.slices[0]
    m, d = explanation.statistics.size, len(explanation.names)
    significant = int((explanation.pvalues_adjusted <= alpha).sum())
    if not result.reject(alpha):
        return ["No slice is significant."]
    if significant == 0:
        return ["No single slice is significant: the evidence is spread over all of them."]
    if m == 1:
        sentences = [f"The slice {_along(first, d)}."]
    else:
        which = f"{significant} of {m} slices {'is' if significant == 1 else 'are'}"
        percent = f"{first.fraction:.0%}" if first.fraction >= 0.1 else f"{first.fraction:.1%}"
        sentences = [
            f"{which} significant after adjustment for their number.",
            f"The strongest {_along(first, d)}. It makes up {percent} of the summed positive "
            "slice statistics.",
        ]
    sentences.append(f"{_said(first, d)}.")
    others = [
        f"{direction(one.leading_g, d)} ({_SHAPES[one.shape][0]})"
        for one in explanation.slices[1:]
        if one.pvalue_adjusted <= alpha and one.shape in _SHAPES
    ]
    if others:
        listed = "; ".join(others[:3])
        sentences.append(f"Next {'is' if len(others) == 1 else 'are'} {listed}{_given(d)}.")
    return sentences


def effect_words(row: Effect) -> list[str]:
    """What an effect says, for each estimate whose interval excludes that of a correct model.

    Examples
    --------
    >>> from fastsksd.effects import Effect
    >>> from fastsksd.report.wording import effect_words
    >>> effect_words(Effect("sigma", 0.02, (-0.05, 0.09), 1.36, (1.29, 1.43)))
    ['sigma: samples 1.36 times as wide as the model says (1.29 to 1.43)']
    """
    words = []
    if row.rough:
        if row.shifted or row.stretched:
            words.append(f"{row.name}: shifted or stretched, by how much can't be told")
        return words
    if row.shifted:
        low, high = sorted(map(abs, row.shift_interval))
        places = digits(row.shift_interval)
        words.append(
            f"{row.name}: samples {abs(row.shift):.{places}f} standard deviations too "
            f"{'high' if row.shift > 0 else 'low'} ({low:.{places}f} to {high:.{places}f})"
        )
    if row.stretched:
        low, high = row.stretch_interval
        places = digits(row.stretch_interval)
        words.append(
            f"{row.name}: samples {row.stretch:.{places}f} times as wide as the model says "
            f"({low:.{places}f} to {high:.{places}f})"
        )
    if row.sheared:
        low, high = row.shear_interval
        words.append(
            f"{row.name}: a correlation of {row.shear:.2f} ({low:.2f} to {high:.2f}) with "
            f"{row.across} that the model does not have"
        )
    return words


def effects_said(effects: Effects) -> str:
    """The strongest effects in a sentence, and correlations that are off in another."""
    said = [_shifts_said(effects), _correlations_said(effects)]
    return " ".join(filter(None, said))


def correlation_words(row: Correlation) -> str:
    """What a correlation that is off says.

    Examples
    --------
    >>> from fastsksd.effects import Correlation
    >>> from fastsksd.report.wording import correlation_words
    >>> correlation_words(Correlation("a", "b", 0.0, 0.9, -0.9, (-0.94, -0.86)))
    'a and b: correlation 0.00 in the samples, 0.90 in the model (lower by 0.86 to 0.94)'
    """
    samples, model = (f"{round(one, 2) + 0.0:.2f}" for one in (row.samples, row.model))
    words = f"{row.name}: correlation {samples} in the samples"
    if row.rough:
        return f"{words}, another in the model, by how much can't be told"
    low, high = sorted(map(abs, row.interval))
    places = max(2, digits(row.interval) - 1)
    return (
        f"{words}, {model} in the model ({'lower' if row.difference < 0 else 'higher'} by "
        f"{low:.{places}f} to {high:.{places}f})"
    )


def _correlations_said(effects: Effects) -> str:
    """Pairs whose correlation is off, if there are any."""
    off = () if effects.correlations is None else effects.correlations.off
    if not off:
        return ""
    more = f"; and {len(off) - _EFFECTS} more" if len(off) > _EFFECTS else ""
    listed = "; ".join(map(correlation_words, off[:_EFFECTS]))
    return f"In pairs, with {effects.level:.0%} intervals: {listed}{more}."


def _shifts_said(effects: Effects) -> str:
    """The strongest effects in a sentence; if there is none, how large they can be."""
    percent = f"{effects.level:.0%}"
    order = (-effects.strength).argsort(kind="stable").tolist()
    rows = list(effects)
    words = [one for k in order for one in effect_words(rows[k])]
    if words:
        more = f"; and {len(words) - _EFFECTS} more" if len(words) > _EFFECTS else ""
        return f"Effect sizes, with {percent} intervals: {'; '.join(words[:_EFFECTS])}{more}."
    coordinates = rows[: effects.n_coordinates]
    if all(math.isnan(row.shift) for row in coordinates):
        return ""
    known = [row for row in coordinates if _is_telling(row)]
    unknown = [row.name for row in coordinates if not _is_telling(row)]
    if not known:
        return "No shift or stretch is significant; how large they may be can't be told."
    shift = max(max(map(abs, row.shift_interval)) for row in known)
    low = min(row.stretch_interval[0] for row in known)
    high = max(row.stretch_interval[1] for row in known)
    every = "every coordinate" if len(coordinates) > 1 else "the coordinate"
    named = ", ".join(unknown[:_EFFECTS])
    if len(unknown) > _EFFECTS:
        named += f" and {len(unknown) - _EFFECTS} more"
    but = f" but {named}" if unknown else ""
    rest = f" How large those of {named} may be can't be told." if unknown else ""
    return (
        f"No shift or stretch is significant: with {percent} confidence {every}{but} is "
        f"shifted by less than {shift:.2g} standard deviations and stretched by a factor between "
        f"{low:.3g} and {high:.3g}.{rest}"
    )


def _is_telling(row: Effect) -> bool:
    """Whether a row is not rough, and its intervals are neither huge nor NaN."""
    low, high = row.stretch_interval
    known = max(map(abs, row.shift_interval)) < WIDE and 1.0 / WIDE < low <= high < WIDE
    return known and not row.rough


def tolerated_said(tolerated: Tolerated, rejected: bool) -> str:
    """Whether effects are within the tolerance, in a sentence."""
    limits = []
    if tolerated.shift < math.inf:
        limits.append(f"a shift of {tolerated.shift:g} standard deviations")
    if tolerated.stretch < math.inf:
        limits.append(f"a stretch of {100 * tolerated.stretch:g}%")
    listed = " and ".join(limits)
    if tolerated.verdict == "within":
        start = "Wrong, but within tolerance" if rejected else "Within tolerance"
        return f"{start}: every effect is surely below {listed} ({tolerated.level:.0%} confidence)."
    if tolerated.verdict == "beyond":
        return f"Surely beyond the tolerance of {listed}: {tolerated.worst}."
    # A number is not known where rows are rough, too; then more samples would be of no use.
    more = "how many samples would settle it can't be said"
    if tolerated.n_needed is not None:
        more = f"about {tolerated.n_needed:,} samples would settle it"
    return f"Undecided whether within the tolerance of {listed}: {more} ({tolerated.worst})."


def _effects(effects: Effects) -> list[str]:
    said = effects_said(effects)
    return [said] if said else []


def _along(one: SliceExplanation, d: int) -> str:
    """Direction of a slice, or both of its directions where they differ, with a verb."""
    r, g = direction(one.leading_r, d), direction(one.leading_g, d)
    return f"is along {g}" if r == g else f"has score direction r = {r} and input direction g = {g}"


def _given(d: int) -> str:
    """A slice is about the conditional along r, not about the marginal."""
    return ", given the other coordinates" if d > 1 else ""


def _said(one: SliceExplanation, d: int) -> str:
    """What a slice says, with its direction r where that is not close to g."""
    r, g = direction(one.leading_r, d), direction(one.leading_g, d)
    if one.shape in _SHAPES:
        middle = f"{_middle(one.witness.regions):.2g}"
        along = "this direction" if r == g else g if one.aligned else r
        return f"Along {along}{_given(d)}, {_SHAPES[one.shape][1].format(middle=middle)}"
    if one.shape == "none":
        return (
            "The slice is significant as a whole, but the band does not show where along it the "
            "model fails"
        )
    where = ", ".join(
        f"{'up' if region.sign > 0 else 'down'} where {g} is {_span(region)}"
        for region in one.witness.regions
    )
    if one.aligned:
        return f"Along this slice{_given(d)}, the model pushes the samples {where}"
    return f"The dependence of {r} on {g} differs from the model, which pushes {r} {where}"


def _span(region: Region) -> str:
    if region.high > region.low:
        return f"{region.low:.2g} to {region.high:.2g}"
    return f"{region.low:.2g}"


def _middle(regions: Sequence[Region]) -> float:
    """Where the witness changes sign; of three changes, the second."""
    k = (len(regions) - 1) // 2
    return 0.5 * (regions[k].high + regions[min(k + 1, len(regions) - 1)].low)


def _rows(explanation: Explanation) -> list[str]:
    rows = explanation.said(3)
    if len(rows) < 2:
        return []
    listed = f"{', '.join(rows[:-1])} and {rows[-1]}"
    what = "rows " if explanation.draws is None else ""
    return [f"The samples with the largest contributions are {what}{listed}."]
