"""The goodness-of-fit test (Algorithm 2): slices from training samples, statistic and null from held-out ones.

One set of slices gives the paper's test; a family of sets gives the aggregated test of `aggregate`, the default. There every
sample is used twice (cross-fitting): slices found on either half are tested on the other, and sets fixed beforehand on all.
The statistics of the halves are not added: under the null they depend on each other (both halves look along the same accidental
directions), and the sum varies more than its replicates say. They are members of one family instead. The smallest p-value is
calibrated as if the halves were independent, each at a level a with ``1 - (1 - a)^2 = alpha``; whatever the dependence,
the union bound then holds the level at ``2 a``, which is 0.0506 for alpha = 0.05.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ._validate import (
    check_choice,
    check_integer,
    check_number,
    check_positive_vector,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
    score_is_array,
)
from .aggregate import MULTIPLES, Member, active_sets, check_sets, combine, fixed_sets, named_set, shares_of
from .discrepancy import check_statistic, ksd_pairs, project
from .engines import choose_engine
from .engines.pairs import statistic as pair_statistic
from .kernels import as_kernel
from .nulls import NULLS, resampling_pvalue, resampling_scale, resampling_weights
from .score_difference import ESTIMATORS, score_difference
from .slices import Slices, as_slices, check_basis, find_slices

METHODS = ("sksd", "ksd")


@dataclass(frozen=True, eq=False, repr=False)
class GofResult:
    """Outcome of a goodness-of-fit test.

    Attributes
    ----------
    statistic : float
        U-statistic of the discrepancy, summed over slices; near 0 when the model fits, and it may be negative. For a family
        of sets, ``-log10`` of the smallest p-value of a member (over its share, see `aggregate`), before it is calibrated.
    pvalue : float
        ``(1 + #{replicate >= statistic}) / (1 + n_resamples)``.
    null_distribution : (n_resamples,) array
        Replicates of the statistic under the hypothesis that the model fits.
    slices : Slices
        Directions the statistic looked along; for a family, those of its strongest member; None for method="ksd".
    slice_statistics, bandwidths : (m,) arrays
        U-statistic and kernel bandwidth of each of these slices.
    members : tuple of Member
        For a family, one entry for each set of slices, bandwidth multiple and part of the samples, strongest first: its name,
        multiple, part, statistic, p-value and adjusted p-value (which allows for the number of members). Else empty.
    n_test, n_train : int
        Samples that slices were tested on and found on. With cross-fitting both are all of them: each half is tested along
        slices found on the other.
    null, engine, kernel, method : str
        How it was computed.
    timings : dict
        Seconds spent on "slices", "weights" and "statistic" (with its replicates), and in "total".
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
    members: tuple[Member, ...] = ()
    timings: dict = field(default_factory=dict)

    def reject(self, alpha=0.05):
        """Whether the model is rejected at level `alpha`."""
        alpha = check_number("alpha", alpha, 0.0, strict=True)
        if alpha >= 1:
            raise ValueError(f"`alpha` must be less than 1; got {alpha}.")
        return bool(self.pvalue <= alpha)

    def _facts(self):
        verdict = "the model is rejected" if self.reject() else "the model is not rejected"
        first = self.members[0] if self.members else None
        facts = {"verdict": f"{verdict} at level 0.05", "p-value": f"{self.pvalue:.4g}"}
        if first is not None:
            where = "" if first.part == "all" else f", on {first.part}"
            facts["who spoke"] = f"{first.name}, bandwidth x {first.multiple:g}{where} (of {len(self.members)} members)"
        facts |= {
            "statistic": f"{self.statistic:.6g}" + ("" if first is None else " (-log10 of the smallest p-value of a member)"),
            "null": f"{self.null}, {self.null_distribution.size} resamples, 95% quantile {np.quantile(self.null_distribution, 0.95):.4g}",
            "samples": self._usage(),
        }
        if self.slices is None:
            return facts | {"method": f"{self.method}, kernel {self.kernel}, bandwidth {self.bandwidths[0]:.4g}"}
        strongest = int(np.argmax(self.slice_statistics))
        return facts | {
            "slices": f"{len(self.slices)} in {self.slices.d} dimensions, kernel {self.kernel}, engine {self.engine}",
            "strongest slice": f"{strongest}: statistic {self.slice_statistics[strongest]:.4g}",
            "  score along r": _direction(self.slices.r[strongest]),
            "  input along g": _direction(self.slices.g[strongest]),
        }

    def _usage(self):
        if any(member.part == "half 1" for member in self.members):
            return f"{self.n_test}, each half tested along slices found on the other"
        return f"{self.n_test} tested, {self.n_train} used to find slices"

    def __repr__(self):
        facts = self._facts()
        width = max(map(len, facts))
        return "GofResult\n" + "\n".join(f"  {name:<{width}}  {value}" for name, value in facts.items())

    def _repr_html_(self):
        rows = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in self._facts().items()
        )
        return f"<table><caption>GofResult</caption>{rows}</table>"


def gof_test(
    x,
    score,
    *,
    slices=None,
    n_slices=None,
    basis=None,
    estimator="ke",
    score_q=None,
    debias=True,
    extra_slices=None,
    multiples=MULTIPLES,
    train=None,
    kernel="rbf",
    null="wild",
    lag=1,
    n_resamples=1000,
    engine="auto",
    method="sksd",
    rng=None,
):
    """Test whether the samples `x` follow the model with this `score`.

    Parameters
    ----------
    x : (n, d) array
        Samples from the unknown law q.
    score : (n, d) array, callable or model
        Score of the model p, ``grad log p``: its values at `x`, a function x -> (n, d), or an object with a `.score` method.
        The model must have its support on all of R^d (or vanish at the boundary): transform bounded variables first.
    slices : Slices or pair (r, g), or a mapping of names to these, optional
        Directions chosen beforehand, without looking at `x`; then no sample is spent on training. Several named sets are
        tested together.
    n_slices, basis, estimator, score_q, debias
        How slices are found from the training samples; see `active_slices`. With neither `slices`, `n_slices` nor `basis`, a
        whole family is tested: the coordinate basis, and the top 1, 3, 10 and all active r, each with g = r and with
        active g.
    extra_slices : mapping of names to Slices, or sequence of (name, Slices), optional
        Sets of slices added to that family.
    multiples : sequence of float
        Multiples of the kernel's bandwidth tried for each set of a family.
    train : "cross", float, int or (n_train, d) array, optional
        Where slices are found. "cross", the default for the family: on either half of the samples, and tested on the other
        half. A fraction or a number: on so many of the samples, which are then not tested (0.2 is the default for one set).
        An array: on separate samples (then `score` must be a function). Samples are drawn at random, but for
        autocorrelated ones (``lag > 1``) they are the first stretch. Sets fixed beforehand are tested on all samples.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel of the statistic.
    null : {"wild", "bootstrap"}
        Wild bootstrap with random signs, or the paper's multinomial bootstrap. Both are right for many independent samples; the
        multinomial one rejects too often below about 100 (7% at a level of 5% with 30 samples).
    lag : float
        For null="wild": signs flip with probability ``1/lag`` from one sample to the next, for samples of a Markov chain in their
        order. Set it to 5 to 10 times the autocorrelation time, or thin the chain; up to 2 means independent signs.
    n_resamples : int
        Replicates of the statistic. The smallest p-value is ``1 / (n_resamples + 1)``.
    engine : {"auto", "direct", "fourier"}
        How sums over pairs are computed: one by one, exact to round-off, or from Fourier series in time linear in n, exact to
        1e-8 of the terms' size. "auto" takes what is faster, for each set of slices.
    method : {"sksd", "ksd"}
        The sliced discrepancy, or for comparison the kernelized one (Liu, Lee and Jordan, 2016; Chwialkowski, Strathmann and
        Gretton, 2016), which has no slices and tests all samples with a kernel of the distance between them.
    rng : None, int or numpy.random.Generator
        All randomness; the same seed gives the same result for any number of Numba threads.

    Returns
    -------
    GofResult

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((1000, 20)) * np.r_[0.5, np.ones(19)]
    >>> result = fs.gof_test(x, lambda x: -x, rng=1)
    >>> result.reject()
    True
    >>> strongest = np.argmax(result.slice_statistics)
    >>> int(np.argmax(abs(result.slices.r[strongest])))
    0
    """
    start = time.perf_counter()
    x = check_samples(x)
    n, d = x.shape
    check_score(score)
    kernel = as_kernel(kernel)
    check_choice("null", null, NULLS)
    lag = check_number("lag", lag, 1.0)
    if null != "wild" and lag > 1:
        raise ValueError(f"`lag` is for null='wild', whose signs can follow autocorrelated samples; got null={null!r}.")
    n_resamples = check_integer("n_resamples", n_resamples, 1)
    multiples = np.atleast_1d(check_positive_vector("multiples", multiples)).tolist()
    rng = check_rng(rng)
    engine = choose_engine(engine)
    check_choice("method", method, METHODS)
    chosen = dict(slices=slices, n_slices=n_slices, basis=basis, score_q=score_q, extra_slices=extra_slices)
    chosen = [name for name, value in chosen.items() if value is not None] + ["estimator"] * (estimator != "ke")
    standard = slices is None and n_slices is None and basis is None
    family, fixed = False, []
    if method == "ksd":
        if chosen or train is not None:
            raise ValueError(f"`{(chosen or ['train'])[0]}` is about slices, and method='ksd' has none; leave it out.")
    elif slices is not None:
        if chosen != ["slices"]:
            raise ValueError(f"`slices` are given, so `{chosen[1]}` has nothing to choose; leave it out.")
        family = isinstance(slices, Mapping)
        fixed = check_sets("slices", slices, d) if family else [named_set("given", as_slices(slices, d))]
    else:
        if extra_slices is not None and not standard:
            raise ValueError("`extra_slices` are added to the default family; with `n_slices` or `basis` there is none.")
        fixed = fixed_sets(d, extra_slices) if standard else []
        basis = check_basis(basis, n_slices, d)
        check_choice("estimator", estimator, ESTIMATORS)
        if train is None:
            train = "cross" if standard else 0.2
        family = standard or _is_cross(train)
    if family and np.ndim(kernel.bandwidth):
        raise ValueError("`kernel` must have one bandwidth, or the median, for a family of slice sets.")

    trained = method == "sksd" and slices is None and (d > 1 or not standard)  # in one dimension there is one direction
    x, scores, folds = _folds(x, score, train if trained else None, lag > 1, rng)
    parts = [_Part("all", 0, n, fixed)] if fixed or method == "ksd" else []
    for fold in folds:
        n_train = fold.x.shape[0]
        if n_train < 3 and estimator == "ke" and debias:
            raise ValueError(
                f"`train`={train!r} leaves {n_train} training samples; debias=True needs at least 3. Give more "
                "samples, or fixed `slices`."
            )
        difference = score_difference(
            fold.x, fold.scores if estimator in ("ke", "ksd") else score, estimator=estimator, score_q=score_q, debias=debias
        )
        if standard:  # a rough g will do, found in half the time
            sets = active_sets(find_slices(difference, debias=debias, gaps=False, tolerance=5e-2))
        else:
            sets = [named_set("active", find_slices(difference, n_slices=n_slices, basis=basis, debias=debias))]
        parts.append(_Part(fold.name, fold.start, fold.stop, sets))
    smallest = min(part.stop - part.start for part in parts)
    if smallest < 2:
        raise ValueError(f"`x` leaves {smallest} test samples; at least 2 are needed.")
    if lag > 0.5 * smallest:
        raise ValueError(
            f"`lag` must be at most half the number of test samples, {smallest}: else no sign ever flips; got {lag:g}."
        )
    searched = time.perf_counter()

    edges = sorted({part.start for part in parts} - {0})
    weights = resampling_weights(null, n, n_resamples, lag=lag, edges=edges, rng=rng)
    weighted = time.perf_counter()
    if method == "ksd":
        members = [_evaluate_ksd(x, scores, kernel, weights, null)]
    else:
        scales = multiples if family else (1.0,)
        members = [member for part in parts for member in _evaluate(part, scales, x, scores, kernel, engine, weights, null)]
    verdict = _combined_verdict(members) if family else _single_verdict(members[0])
    end = time.perf_counter()
    tested = [part for part in parts if part.name != "all"] or parts
    return GofResult(
        **verdict,
        n_test=sum(part.stop - part.start for part in tested),
        n_train=sum(fold.x.shape[0] for fold in folds),
        null=null,
        engine=" and ".join(sorted({name for member in members for name in member.engines})),
        kernel=kernel.name,
        method=method,
        timings={"slices": searched - start, "weights": weighted - searched, "statistic": end - weighted, "total": end - start},
    )


def _single_verdict(member):
    statistic = float(member.statistics.sum())
    return {
        "statistic": statistic,
        "pvalue": resampling_pvalue(statistic, member.replicates),
        "null_distribution": member.replicates,
        "slices": member.slices,
        "slice_statistics": member.statistics,
        "bandwidths": member.bandwidths,
    }


def _combined_verdict(members):
    statistics = np.array([member.statistics.sum() for member in members])
    shares = shares_of([member.kind for member in members])
    combined = combine(statistics, np.array([member.replicates for member in members]), shares)
    pvalues = zip(statistics.tolist(), combined.pvalues.tolist(), combined.adjusted_pvalues.tolist(), strict=True)
    rows = [Member(member.name, member.multiple, member.part, *values) for member, values in zip(members, pvalues, strict=True)]
    return _single_verdict(members[combined.strongest]) | {
        "statistic": combined.statistic,
        "pvalue": combined.pvalue,
        "null_distribution": combined.null_distribution,
        "members": tuple(rows[k] for k in np.argsort(-combined.scores, kind="stable")),
    }


class _Part(NamedTuple):
    """Sets of slices, and the stretch of samples they are tested on."""

    name: str
    start: int
    stop: int
    sets: list


class _Evaluated(NamedTuple):
    """Statistics and replicates of one set of slices at one multiple of the bandwidth."""

    name: str
    kind: str
    multiple: float
    part: str
    slices: Slices
    statistics: np.ndarray
    bandwidths: np.ndarray
    replicates: np.ndarray
    engines: set


def _evaluate(part, multiples, x, scores, kernel, engine, weights, null):
    """Evaluate every set of slices at every multiple; groups of slices that sets share are computed once."""
    x, scores = x[part.start : part.stop], scores[part.start : part.stop]
    scale = resampling_scale(null, x.shape[0])
    done = {}
    for group in {id(group): group for some in part.sets for group in some.parts}.values():
        y, s, a, h = project(x, scores, group, kernel)
        pairs = engine(kernel.code, y, s, a, h, weights.shape[0], multiples)
        evaluations = pairs.sums_and_replicates_at(multiples, weights, part.start)
        for multiple, (sums, replicates) in zip(multiples, evaluations, strict=True):
            statistics = check_statistic(pair_statistic(pairs, sums, "u"))
            done[id(group), multiple] = statistics, multiple * h, scale * replicates, pairs.name
    evaluated = []
    for name, kind, groups in part.sets:
        whole = groups[0] if len(groups) == 1 else Slices(*(np.concatenate([getattr(g, k) for g in groups]) for k in "rg"))
        for multiple in multiples:
            results = [done[id(group), multiple] for group in groups]
            statistics, bandwidths = (np.concatenate([result[k] for result in results]) for k in (0, 1))
            replicates = sum(result[2] for result in results)
            engines = {name for result in results for name in result[3].split(" and ")}
            evaluated.append(_Evaluated(name, kind, multiple, part.name, whole, statistics, bandwidths, replicates, engines))
    return evaluated


def _evaluate_ksd(x, scores, kernel, weights, null):
    pairs, h = ksd_pairs(x, scores, kernel)
    sums, replicates = pairs.sums_and_replicates(weights)
    statistics = check_statistic(pair_statistic(pairs, sums, "u"))
    return _Evaluated(
        "ksd", "ksd", 1.0, "all", None, statistics, np.array([h]), resampling_scale(null, x.shape[0]) * replicates, {pairs.name}
    )


class _Fold(NamedTuple):
    """Training samples with their scores, and the stretch of samples that their slices are tested on."""

    name: str
    x: np.ndarray
    scores: np.ndarray
    start: int
    stop: int


def _is_cross(train):
    return isinstance(train, str) and train == "cross"


def _folds(x, score, train, in_order, rng):
    """The samples, ordered so that each fold tests one stretch of them, their scores, and the folds.

    Chosen at random, or for samples `in_order` the first stretch.
    """
    n, d = x.shape
    if train is None:
        return x, evaluate_score(score, x), []
    if np.ndim(train) > 0:
        training = check_samples(train, "train", min_rows=2, d=d)
        if score_is_array(score):
            raise ValueError(
                "`score` must be a callable or a model when `train` holds separate samples: an array covers `x` only."
            )
        return x, evaluate_score(score, x), [_Fold("held out", training, evaluate_score(score, training), 0, n)]
    n_train = n // 2 if _is_cross(train) else _count_of(train, n)
    if n_train < 2 or n - n_train < 2:
        raise ValueError(
            f"`train`={train!r} splits {n} samples into {n_train} for training and {n - n_train} for the test; both need at "
            "least 2. Give more samples, another `train`, or fixed `slices`."
        )
    order = np.arange(n) if in_order else rng.permutation(n)
    order = np.concatenate([np.sort(order[:n_train]), np.sort(order[n_train:])])
    x, scores = x[order], evaluate_score(score, x)[order]
    head, tail = (x[:n_train], scores[:n_train]), (x[n_train:], scores[n_train:])
    if not _is_cross(train):
        return x, scores, [_Fold("held out", *head, n_train, n)]
    return x, scores, [_Fold("half 1", *tail, 0, n_train), _Fold("half 2", *head, n_train, n)]


def _count_of(train, n):
    """Number of training samples from a fraction or a count."""
    if isinstance(train, (bool, np.bool_, str)):
        raise TypeError(
            f"`train` must be a fraction, a count, an array of samples or 'cross'; got {type(train).__name__} {train!r}."
        )
    if isinstance(train, (int, np.integer)):
        return int(train)
    share = check_number("train", train, 0.0, strict=True)
    if share >= 1:
        raise ValueError(f"`train` must be a fraction between 0 and 1, or an integer count; got {train}.")
    return round(share * n)


def _direction(vector, count=3):
    """The largest coordinates of a direction, in words."""
    top = np.argsort(-np.abs(vector))[:count]
    return " ".join(f"{vector[i]:+.2f} x[{i}]" for i in top) + (" ..." if vector.size > count else "")
