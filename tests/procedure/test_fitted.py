"""Refits as replicates: what the verdict becomes of, and what failed refits count."""

import numpy as np

from fastsksd.procedure.combine import Member, Verdict
from fastsksd.procedure.evaluation import Evaluation, Outcome
from fastsksd.procedure.fitted import allow_for_failures, statistics_of, with_refits
from fastsksd.procedure.nulls import resampling_pvalue


def evaluation(name, statistic):
    replicates = np.zeros(1)
    return Evaluation(
        name, name, None, "all", None, np.array([statistic]), np.empty(0), "", replicates
    )


def test_refits_take_the_place_of_replicates():
    outcome = Outcome([evaluation("a", 2.0), evaluation("b", 3.0)], 1.0)
    rows = np.random.default_rng(0).standard_normal((50, 2))
    refitted = with_refits(outcome, rows)
    assert statistics_of(refitted).tolist() == [2.0, 3.0]
    for one, column in zip(refitted.members, rows.T, strict=True):
        assert np.array_equal(one.replicates, column)
        assert one.pvalue == resampling_pvalue(one.statistic, column)


def test_failed_refits_count_as_evidence_as_strong():
    replicates = np.arange(20.0)
    statistic = 17.5
    member = Member("a", None, "all", statistic, resampling_pvalue(statistic, replicates), 1.0)
    one = evaluation("a", statistic)
    verdict = Verdict(member.pvalue, replicates, one, one, None, (member,))
    allowed = allow_for_failures(verdict, 3, 23)
    expected = resampling_pvalue(statistic, np.append(replicates, [np.inf] * 3))
    assert np.isclose(allowed.pvalue, expected)
    assert np.isclose(allowed.members[0].pvalue, expected)
    assert allowed.members[0].adjusted_pvalue == 1.0
    assert allow_for_failures(verdict, 0, 20).pvalue == verdict.pvalue
