"""Errata of the paper and remarks on its code, each with the tests of this package that show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .report import Block, Heading, Items, Text


class Erratum(NamedTuple):
    """What is wrong or left out, and the tests that show it, as ``file::name``."""

    text: str
    tests: tuple[str, ...]


PAPER = (
    Erratum(
        "Bootstrap (Eq. of the replicates, Algorithm 2): the weights are printed as multinomial "
        "counts. They must be divided by N. Raw counts scatter the replicates around N^2 times the "
        "statistic itself, so that no statistic is too large for them.",
        ("tests/theory/test_errata.py::test_raw_counts_are_not_centred",),
    ),
    Erratum(
        "Proof of Proposition 1: the Stein identity lost its minus sign. It is "
        "E[s_q.r h(x.g)] = -E[r.g h'(x.g)].",
        ("tests/theory/test_theorems.py::test_stein_identity",),
    ),
    Erratum(
        "Corollary on noisy slices: in the proof the factor is c_r^-2, not c_r^2.",
        ("tests/theory/test_theorems.py::test_scaled_directions_mean_another_width_and_factor",),
    ),
    Erratum(
        "Theorem 2: SK_rg does not come arbitrarily close to S_rg for one fixed kernel. What holds "
        "is 0 <= SK_rg <= S_rg for kernels bounded by 1, with equality at p = q.",
        (
            "tests/theory/test_theorems.py::test_ssd_bounds_sksd",
            "tests/theory/test_theorems.py::test_one_kernel_does_not_come_arbitrarily_close",
        ),
    ),
    Erratum(
        "Proof of the controlled approximation: the last line lost a square. It is "
        "PSD - S_g = sum over r of E (f_r - h*)^2.",
        ("tests/theory/test_theorems.py::test_controlled_approximation",),
    ),
    Erratum(
        "Proof of the bound on the gap in r: the Poincare constant multiplies both terms, "
        "-C (tr H - g.H g).",
        ("tests/theory/test_theorems.py::test_poincare_constant_multiplies_both_terms",),
    ),
    Erratum(
        "Perturbation of eigenvectors: entries of at most 1 are said to give Tr(Sigma) <= "
        "Tr(Sigma^2). It is the other way round, and that is what the next line needs.",
        ("tests/theory/test_errata.py::test_squares_of_numbers_below_one_are_smaller",),
    ),
    Erratum(
        "Theorem 6: under the alternative the variance is 4 sigma_h^2, as for any U-statistic of "
        "second order, not sigma_h^2.",
        (
            "tests/theory/test_theorems.py::test_alternative_law_has_four_times_the_printed_variance",
        ),
    ),
    Erratum(
        "KE: the smoothed score difference is not close to f(y) but to f(y) times the smoothed "
        "density of q at y.",
        ("tests/theory/test_theorems.py::test_smoothed_difference_is_weighted_by_the_density",),
    ),
    Erratum(
        "KE: the estimates of S and H_r hold their own noise, the terms of a sample with itself. "
        "`debias=True` leaves it out; the tests of the RBM are shown with both.",
        (
            "tests/theory/test_theorems.py::test_debiased_estimate_is_unbiased_and_the_plain_one_is_not",
        ),
    ),
    Erratum(
        "RBM: the energy has c.h, not c.x. The coupling is x.B h / 2 in the published test-bed, "
        "and x.B h in print, with which the same perturbation is much easier to see.",
        (
            "tests/test_models.py::test_rbm_scores_and_densities_match_the_enumeration",
            "tests/theory/test_errata.py::test_the_printed_coupling_is_easier",
        ),
    ),
    Erratum(
        "RBM: the numbers are for one random model. `fastsksd reproduce rbm` has several, "
        "and shows the spread between them.",
        (
            "tests/experiments/test_experiments.py"
            "::test_rbm_report_compares_with_the_paper_and_shows_the_spread",
        ),
    ),
    Erratum(
        "ICA: the NLL of the true models is not reported. With the published generator it is 8.23, "
        "-6.5, -18.7 and -58.0 in 10, 80, 100 and 150 dimensions on average. The best of the paper "
        "is 70 nats above that in 150 dimensions.",
        ("tests/theory/test_errata.py::test_expected_likelihood_of_true_ica_models",),
    ),
)
CODE = (
    Erratum(
        "Multivariate t: the paper states p = N(0, 5/3 I). The script builds p before it scales "
        "the covariance, so that it may have tested N(0, I). Both are in the tables.",
        ("tests/experiments/test_experiments.py::test_both_readings_of_the_student_problem",),
    ),
    Erratum(
        "GO: the script ascends in a Gaussian vector of length about sqrt(D), not in a unit vector "
        "as the paper says. Adam's steps on the sphere are then sqrt(D) times shorter. "
        '`parametrisation="raw"` and `"unit"` are both in the tables.',
        (
            "tests/test_refine.py::test_refinement_is_adam_on_minibatches",
            "tests/theory/test_errata.py::test_long_vectors_turn_slower",
        ),
    ),
    Erratum(
        "KE: the script smooths with twice the median distance for r and with the median for g. "
        "Here the width is the median distance for both.",
        ("tests/theory/test_errata.py::test_smoothing_width_is_the_median_distance",),
    ),
    Erratum(
        "GE: the script's kernel is exp(-|x - y|^2 / (2 b)) with b = sqrt(2) times the median "
        "distance, which is not squared. In 100 dimensions the estimated score of q is then almost "
        "zero. Our tests of the RBM have the median distance.",
        ("tests/theory/test_errata.py::test_gradient_estimator_of_the_script_fades",),
    ),
)


def errata() -> Iterator[Block]:
    """A section of a page."""
    yield Heading("Errata")
    yield Text("Each with the tests that show it.")
    for title, group in (("In the paper", PAPER), ("In the published code and its settings", CODE)):
        yield Heading(title, level=3)
        yield Items(
            [f"{one.text} ({', '.join(f'`{test}`' for test in one.tests)})" for one in group]
        )
