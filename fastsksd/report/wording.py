"""The outcome of a test in plain words: what it means, where the model fails and in which way, and what to beware of."""

from .explain import ALIKE, direction

NO_SAMPLES = "The result holds no samples that would show where and how; give `x` and `score`."
_SAID = {
    "narrow": (
        "too narrow",
        "the samples are too narrow for the model: too many of them near {middle}, from where the model pushes them outwards",
    ),
    "wide": (
        "too wide",
        "the samples are too wide for the model, which pulls them inwards, towards {middle}",
    ),
    "low": (
        "too low",
        "the samples lie too low for the model: too few of them at the upper end, whereto the model pushes them",
    ),
    "high": (
        "too high",
        "the samples lie too high for the model: too few of them at the lower end, whereto the model pushes them",
    ),
    "peaked": (
        "too peaked",
        "too many samples for the model are near {middle}, too few on either side",
    ),
    "hollow": (
        "too few in the middle",
        "too few samples for the model are near {middle}, too many on either side",
    ),
    "tails": (
        "peak and tails too heavy",
        "too many samples for the model are near {middle} and far out, too few between: a sharp peak and heavy tails",
    ),
    "flat": (
        "too flat",
        "too few samples for the model are near {middle} and far out, too many between: a flat or hollow top and light tails",
    ),
}


def summarise(result, explanation, alpha):
    """A paragraph, from a result and its explanation (None where there is none to be had)."""
    sentences = [_verdict(result, alpha), _samples(result)]
    if result.members:
        sentences.append(_who_spoke(result))
    if explanation is not None:
        sentences += _slices(result, explanation, alpha)
        if result.reject(alpha):
            sentences.append(_worst(explanation))
    elif result.slices is not None:
        sentences.append(NO_SAMPLES)
    beware = caveats(result, explanation)
    if beware:
        sentences.append(f"Beware: {'; '.join(beware)}.")
    return " ".join(sentences)


def _verdict(result, alpha):
    rejected = result.reject(alpha)
    percent = 100.0 * result.pvalue
    shown = f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"
    often = f"{shown}% of tests" if percent >= 0.001 else "fewer than one in 100,000 tests"
    if result.members and result.null == "spectral" and percent >= 0.001:
        often = f"at most {often}"  # by Bonferroni's inequality
    words = f"The model is {'rejected' if rejected else 'not rejected'} at level {alpha:g} (p-value {result.pvalue:.3g}): "
    if rejected:
        words += f"if it were right, evidence as strong as this would turn up in {often}."
    else:
        words += f"a right model gives evidence as strong as this in {often}. That does not prove it right."
    least = result.null_distribution.size and result.pvalue <= 1.0 / (
        1.0 + result.null_distribution.size
    ) * (1.0 + 1e-9)
    if least and result.null in ("wild", "bootstrap"):
        words += f" (No replicate of {result.null_distribution.size} reached it; null='spectral' shows smaller p-values.)"
    return words


def _samples(result):
    dimensions = ""
    if result.slices is not None:
        dimensions = f" in {result.slices.d} dimension{'s' if result.slices.d > 1 else ''}"
    # The strongest looks along fixed directions.
    also = "also " if result.members and result.members[0].part == "all" else ""
    if any(member.part == "half 1" for member in result.members):
        return f"It was tested on {result.n_test} samples{dimensions}, each half {also}along directions found on the other."
    if also and result.n_train:
        return f"It was tested on all samples{dimensions}, {result.n_test} of them also along directions found on {result.n_train} others."
    apart = ""
    if result.n_train:
        apart = (
            f", along directions found on {result.n_train} others"
            if result.slices is not None
            else f", with locations found on {result.n_train} others"
        )
    model = f", against {result.n_model} samples of the model" if result.n_model else ""
    return f"It was tested on {result.n_test} samples{dimensions}{apart}{model}."


def _who_spoke(result):
    first = result.members[0]
    where = "" if first.part == "all" else f", on {first.part}"
    return f"Of {len(result.members)} members of the family, the strongest is {first.name!r} with {first.multiple:g} times the bandwidth{where}."


def _slices(result, explanation, alpha):
    if not explanation.slices:
        return []
    first = explanation.slices[0]
    m, d = explanation.statistics.size, len(explanation.names)
    marked = int((explanation.pvalues_adjusted <= alpha).sum())
    if not result.reject(alpha) or marked == 0:
        return [
            "No slice stands out"
            + (": the evidence is spread over all of them." if result.reject(alpha) else ".")
        ]
    along = direction(first.leading_g, d)
    if m == 1:
        which = f"Its one slice looks along {along}"
    else:
        stand = (
            f"One of its {m} slices stands"
            if marked == 1
            else f"{marked} of its {m} slices stand"
            if marked < m
            else f"{'Both' if m == 2 else 'All'} of its {m} slices stand"
        )
        share = f"{first.share:.0%}" if first.share >= 0.1 else f"only {first.share:.1%}"
        which = f"{stand} out, allowing for their number; the strongest carries {share} of the misfit and looks along {along}"
    sentences = [f"{which}. {_said(first, d)}."]
    others = [
        one for one in explanation.slices[1:] if one.pvalue_adjusted <= alpha and one.shape in _SAID
    ]
    if others:
        listed = "; ".join(
            f"{direction(one.leading_g, d)} ({_SAID[one.shape][0]})" for one in others[:3]
        )
        sentences.append(f"Next come {listed}.")
    return sentences


def _said(one, d):
    given = ", given the other coordinates" if d > 1 else ""
    alike = abs(one.r @ one.g) >= ALIKE
    it = "it" if alike else direction(one.leading_r, d)
    if one.shape in _SAID:
        return f"Along {it}{given}, " + _SAID[one.shape][1].format(
            middle=f"{_middle(one.witness.regions):.2g}"
        )
    if one.shape == "none":
        return "The misfit is sure as a whole, but not where along this direction it is"
    where = ", ".join(
        f"{'up' if region.sign > 0 else 'down'} where it is "
        + (
            f"{region.low:.2g} to {region.high:.2g}"
            if region.high > region.low
            else f"{region.low:.2g}"
        )
        for region in one.witness.regions
    )
    if alike:
        return f"Along it{given}, the model pushes the samples {where}"
    return f"How the samples lie along {it} changes with it otherwise than in the model, which pushes them {where}"


def _middle(regions):
    """Where the witness changes sign, the second time when it does so thrice."""
    k = (len(regions) - 1) // 2
    return 0.5 * (regions[k].high + regions[min(k + 1, len(regions) - 1)].low)


def _worst(explanation):
    worst = [str(index) for index in explanation.indices[:3].tolist()]
    return (
        f"The samples that misfit most are rows {', '.join(worst[:-1])} and {worst[-1]}."
        if len(worst) > 1
        else ""
    )


def caveats(result, explanation):
    """What to beware of, in words; without an explanation the samples' number and dependence can't be looked at either."""
    known = explanation is not None
    caveats = []
    if result.null == "bootstrap" and result.n_test < 100:
        caveats.append(
            "the multinomial bootstrap rejects too often with fewer than about 100 samples; null='wild' does not"
        )
    if result.null == "spectral" and result.method == "sksd" and (result.n_test < 500 or not known):
        caveats.append("the limit law is for many independent samples")
    if result.lag > 2:
        caveats.append(f"the samples count as a chain, with signs of lag {result.lag:.3g}")
    return caveats + (list(explanation.caveats) if known else [])
