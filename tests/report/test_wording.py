"""The words said about planted misfits, about a correct model, and about what was tested."""

import dataclasses

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.report.wording import summary


def axes(d):
    return fs.Slices(np.eye(d), np.eye(d))


def bimodal_score(x):
    """Score of a mixture of N(-1.5, 1) and N(1.5, 1) in the first coordinate, else of N(0, 1)."""
    score = -x.copy()
    score[:, 0] += 1.5 * np.tanh(1.5 * x[:, 0])
    return score


def planted(name, seed, n=800):
    rng = np.random.default_rng(seed)
    x, score = rng.standard_normal((n, 3)), np.negative
    if name in ("narrow", "wide"):
        x[:, 1] *= 0.6 if name == "narrow" else 1.5
    elif name in ("low", "high"):
        x[:, 1] += -0.4 if name == "low" else 0.4
    elif name == "heavy tails":
        x[:, 1] = rng.laplace(size=n) / np.sqrt(2)
    elif name == "light tails":
        x[:, 1] = rng.uniform(-np.sqrt(3), np.sqrt(3), size=n)
    elif name == "missing mode":
        x, score = x[:, [1, 0, 2]] + [1.5, 0.0, 0.0], bimodal_score
    elif name == "dependence":
        x[:, 0] = 0.8 * x[:, 1] + 0.6 * x[:, 0]
    return x, score


@pytest.mark.parametrize(
    ("name", "shapes", "words"),
    [
        ("narrow", {"narrow"}, ["is rejected", "is along b.", "samples are too narrow"]),
        ("wide", {"wide"}, ["is rejected", "is along b.", "samples are too wide"]),
        (
            "low",
            {"low"},
            ["is rejected", "is along b.", "samples are too low", "near the upper end"],
        ),
        (
            "high",
            {"high"},
            ["is rejected", "is along b.", "samples are too high", "near the lower end"],
        ),
        ("heavy tails", {"peaked", "tails", "irregular"}, ["is rejected", "is along b."]),
        ("light tails", {"hollow", "flat", "irregular"}, ["is rejected", "is along b."]),
        (
            "missing mode",
            {"high"},
            ["is rejected", "is along a.", "too few lie near the lower end"],
        ),
    ],
)
def test_words_on_planted_misfits(name, shapes, words):
    for seed in range(3):
        x, score = planted(name, seed)
        result = fs.gof_test(x, score, slices=axes(3), rng=seed, n_resamples=199)
        explanation = result.explain(names=["a", "b", "c"], n_resamples=199)
        assert explanation.slices[0].shape in shapes, (name, seed, explanation)
        said = result.summary(names=["a", "b", "c"])
        for word in words:
            assert word in said, (word, said)


def test_words_on_a_wrong_dependence():
    x, score = planted("dependence", 0)
    e = np.eye(3)
    result = fs.gof_test(x, score, slices=fs.Slices(e[[0]], e[[1]]), rng=0)
    explanation = result.explain(names=["a", "b", "c"])
    assert explanation.slices[0].shape == "across"
    said = result.summary(names=["a", "b", "c"])
    assert "The slice has score direction r = a and input direction g = b." in said
    assert "The dependence of a on b differs from the model, which pushes a up where b is -" in said
    assert "along r" in repr(explanation)


def test_words_are_about_the_conditional():
    x, score = planted("narrow", 0)
    x[:, 2] += 0.4
    said = fs.gof_test(x, score, slices=axes(3), rng=0).summary(names=["a", "b", "c"])
    assert "Along this direction, given the other coordinates, the samples are too narrow" in said
    assert "Next is c (too high), given the other coordinates." in said
    alone = fs.gof_test(x[:, [1]], score, slices=axes(1), rng=0).summary(names=["b"])
    assert "Along this direction, the samples are too narrow" in alone and "given" not in alone


def test_words_on_a_correct_model():
    for seed in range(3):
        x = np.random.default_rng(50 + seed).standard_normal((400, 3))
        result = fs.gof_test(x, -x, rng=seed)
        assert not result.reject()
        said = result.summary()
        for words in ("is not rejected", "No slice is significant.", "does not prove that"):
            assert words in said
        for words in ("rows", "too narrow", "too wide", "too low", "too high"):
            assert words not in said
    wide = 2.0 * np.random.default_rng(0).standard_normal((400, 3))
    assert "rejected at level 0.2" in fs.gof_test(wide, np.negative, rng=0).summary(alpha=0.2)


def test_coordinates_without_an_interval_are_named():
    x = np.random.default_rng(0).standard_normal((300, 3))
    x[:, 1] = 2.0 + 1e-9 * x[:, 1]
    words = fs.gof_test(x, np.negative, n_resamples=49, rng=0).summary()
    assert "every coordinate but x[1] is shifted by less than" in words
    assert "How large those of x[1] may be can't be told." in words


def test_words_on_a_family():
    x = np.random.default_rng(0).standard_normal((500, 2)) * [0.5, 1.0]
    result = fs.gof_test(x, -x, null="spectral", rng=0)
    said = result.summary()
    assert "fewer than one in 100,000 tests" in said and "limit distribution" not in said
    first = result.members[0]
    strongest = f"The strongest of {len(result.members)} members is {first.name!r} ("
    assert strongest in said and "replicates" not in said
    few = fs.gof_test(x[:200], -x[:200], null="spectral", rng=0).summary()
    assert "the limit distribution holds for many independent samples" in few


def test_a_family_in_a_table():
    x = np.random.default_rng(0).standard_normal((300, 2)) * [0.5, 1.0]
    result = fs.gof_test(x, -x, n_resamples=99, rng=0)
    text = repr(result)
    assert f"{result.statistic:.6g} (discrepancy of the strongest member)" in text
    assert f"{result.evidence:.4g} (-log10 of the members' combined p-value)" in text
    assert "99 replicates of the evidence" in text
    assert "&#x27;coordinates&#x27;" in result._repr_html_()
    one = repr(fs.gof_test(x, -x, slices=axes(2), n_resamples=99, rng=0))
    assert "evidence" not in one and "strongest member" not in one


def test_options_are_written_as_asked_for():
    x = np.random.default_rng(0).standard_normal((100, 2)) * 3.0
    result = fs.gof_test(x, -x, slices=axes(2), n_resamples=19, rng=0)
    assert "null='spectral' gives smaller p-values" in result.summary()
    said = summary(
        result, names=["null='wild'", "b"], option=lambda option: f"--{option.name} {option.value}"
    )
    assert "--null spectral gives smaller p-values" in said
    # A name that looks like an option stays as it is.
    assert "null='wild' " in said and "--null wild" not in said


@pytest.mark.parametrize(
    ("pvalue", "words"),
    [
        (1.0, "in 100% of tests"),
        (0.748, "in 75% of tests"),
        (0.0123, "in 1.2% of tests"),
        (1e-9, "one in 100,000"),
    ],
)
def test_how_often(pvalue, words):
    x = np.random.default_rng(0).standard_normal((30, 2))
    result = fs.gof_test(
        x, np.negative, slices=fs.random_slices(2, 2, rng=0), n_resamples=20, rng=1
    )
    assert words in dataclasses.replace(result, pvalue=pvalue).summary()


def test_what_was_tested_on_what():
    x = np.random.default_rng(3).standard_normal((200, 3)) * [0.4, 1.0, 1.0]
    for options, words in (
        (
            {},
            "The test used 200 samples in 3 dimensions: fixed slices and members without slices "
            "were tested on all of them, and slices found on each half were tested on the other "
            "half.",
        ),
        (
            {"n_slices": 2, "train": "cross"},
            "The test used 200 samples in 3 dimensions: slices found on each half were tested on "
            "the other half.",
        ),
        (
            {"train": 0.2},
            "Fixed slices and members without slices were tested on all samples in 3 dimensions, "
            "and active slices found on 40 samples were tested on 160 others.",
        ),
        (
            {"n_slices": 2},
            "The test used 160 samples in 3 dimensions, with slices found on 40 others.",
        ),
        ({"slices": axes(3)}, "The test used 200 samples in 3 dimensions."),
        ({"method": "fssd"}, "The test used 160 samples, with locations found on 40 others."),
    ):
        said = fs.gof_test(x, np.negative, n_resamples=50, rng=0, **options).summary()
        assert words in said, said


def test_bounded_pvalues_are_said_to_be_bounds():
    x = np.random.default_rng(4).standard_normal((200, 3))
    bound = fs.gof_test(x, np.negative, null="spectral", rng=0)
    assert "evidence as strong as this in at most " in bound.summary()
