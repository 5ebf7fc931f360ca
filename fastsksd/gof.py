"""The goodness-of-fit test (Algorithm 2): slices from training samples, statistic and null from held-out ones.

One set of slices gives the paper's test; a family of sets gives the aggregated test of `aggregate`, the default.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ._validate import (
    check_choice,
    check_integer,
    check_number,
    check_positive_vector,
    check_rng,
    check_same_columns,
    check_samples,
    check_score,
    column_names,
)
from .baselines import as_baseline
from .baselines.base import Task
from .compute.chi_square import positive_exp, weighted_chi_square_draws
from .engines import TOLERANCE, choose_engine, cuda
from .kernels import as_kernel
from .procedure.combine import Member, combine, shares_of
from .procedure.evaluate import Part, evaluate
from .procedure.family import MULTIPLES, active_sets, check_sets, fixed_sets, named_set
from .procedure.lags import choose_lag
from .procedure.nulls import NULLS, Weights
from .procedure.split import Samples, is_cross, make_folds
from .refine import OPTIONS, refine_slices
from .result import GofResult
from .score_difference import ESTIMATORS, score_difference
from .slices import as_slices, check_basis, find_slices

# Package of an array type whose samples are not in memory: function that tests them, with the
# arguments of `gof_test`.
DOORS = {}
MOST_TRAINING = (
    5000  # samples that slices are found on unless the user says more; their cost is quadratic
)


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
    refine=0,
    extra_slices=None,
    multiples=MULTIPLES,
    train=None,
    kernel="rbf",
    null=None,
    lag=1,
    n_resamples=1000,
    engine="auto",
    tol=TOLERANCE,
    method="sksd",
    rng=None,
):
    """Test whether the samples `x` follow the model with this `score`.

    Parameters
    ----------
    x : (n, d) array or data frame
        Samples from the unknown law q; names of columns become names of coordinates. A Dask array is tested where it lies, by `gof_stream`: one set of slices and null="spectral".
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
    refine : int or mapping
        For slices found with `n_slices` or `basis`: epochs of gradient ascent that improve them on the training samples, or options
        of `refine_slices`, as ``{"epochs": 50, "update": "rg"}``. Minibatches are a tenth of the training samples, but 20 to 100 of them.
    extra_slices : mapping of names to Slices, or sequence of (name, Slices), optional
        Sets of slices added to that family.
    multiples : sequence of float
        Multiples of the kernel's bandwidth tried for each set of a family.
    train : "cross", float, int or (n_train, d) array, optional
        Where slices are found. "cross", the default for the family: on either half of the samples, and tested on the other
        half (on 5000 of it at most). A fraction or a number: on so many of the samples, which are then not tested (0.2 is the default for one set, or 5000 where that is less).
        An array: on separate samples (then `score` must be a function). Samples are drawn at random, but for
        autocorrelated ones (``lag > 1``) they are the first stretch. Sets fixed beforehand are tested on all samples.
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel of the statistic.
    null : {"wild", "bootstrap", "spectral"}, optional
        Wild bootstrap with random signs, the default, or the paper's multinomial bootstrap. Both are right for many independent samples; the
        multinomial one rejects too often below about 100 (with 30, at a level of 5%, 6% for one set and 16% for the family).
        "spectral" is the limit law, a
        weighted sum of chi-squares, with its tail to any depth: for p-values below what resampling can show. Members of a
        family are then combined by Bonferroni's inequality, which is careful where they resemble each other. Methods "rfsd" and
        "mmd" have nulls of their own, see `fastsksd.baselines`.
    lag : float or "auto"
        For null="wild": signs flip with probability ``1/lag`` from one sample to the next, for samples of a Markov chain in their
        order; up to 2 means independent signs. "auto" takes 16 times the autocorrelation time of the samples' Stein features,
        see `fastsksd.procedure.lags`.
    n_resamples : int
        Replicates of the statistic. The smallest p-value is ``1 / (n_resamples + 1)``, but for "spectral", where they are draws to look
        at.
    engine : {"auto", "direct", "fourier", "cuda", "cuda32"}
        How sums over pairs are computed: one by one, exact to round-off, or from Fourier series in time linear in n, exact to
        `tol`. "cuda" takes a GPU for all of them, slices and null distribution included, "cuda32" one by one in single precision, with errors
        of about 1e-6 of the terms; see notebooks/on_a_gpu.md. "auto" takes what is expected to be faster, for each set of slices. Where a series would be too long (a bandwidth of a thousandth of
        the range), "fourier" leaves those slices to "direct"; the result's `engine` names what was used.
    tol : float
        Largest error of a Stein term with the Fourier engine, relative to the size of its parts: a V-statistic is off by at most
        `tol` times twice its diagonal part.
    method : {"sksd", "ksd", "rfsd", "fssd", "mmd", "ksdagg"} or object of `fastsksd.baselines`
        The sliced discrepancy, or for comparison a test without slices: the kernelized Stein discrepancy ("ksd"), random feature
        Stein discrepancy ("rfsd", for a model with a `.sample` method), finite-set Stein discrepancy ("fssd"), the
        maximum mean discrepancy from samples of the model ("mmd"), or "ksd" aggregated over many bandwidths ("ksdagg"). A name means the published settings; other settings are arguments of the classes in
        `fastsksd.baselines`, as in ``method=fs.baselines.RFSD(n_features=20)``.
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
    elsewhere = DOORS.get(type(x).__module__.partition(".")[0])
    if elsewhere is not None:
        return elsewhere(**{name: value for name, value in locals().items() if name != "elsewhere"})
    start = time.perf_counter()
    names, x = column_names(x), check_samples(x)
    n, d = x.shape
    baseline = as_baseline(method)
    if baseline is None or baseline.needs_score:
        check_score(score)
        check_same_columns(names, score)
    kernel = as_kernel(kernel)
    nulls = NULLS if baseline is None else baseline.nulls
    null = nulls[0] if null is None else check_choice("null", null, nulls)
    choose = isinstance(lag, str) and lag == "auto"
    lag = np.inf if choose else check_number("lag", lag, 1.0)
    if null != "wild" and lag > 1:
        raise ValueError(
            f"`lag` is for null='wild', whose signs can follow autocorrelated samples; got null={null!r}."
        )
    n_resamples = check_integer("n_resamples", n_resamples, 1)
    multiples = list(
        dict.fromkeys(np.atleast_1d(check_positive_vector("multiples", multiples)).tolist())
    )
    rng = check_rng(rng)
    place, engine = engine, choose_engine(engine, tol)
    chosen = dict(
        slices=slices, n_slices=n_slices, basis=basis, score_q=score_q, extra_slices=extra_slices
    )
    chosen = [name for name, value in chosen.items() if value is not None] + ["estimator"] * (
        estimator != "ke"
    )
    standard = slices is None and n_slices is None and basis is None
    refine = _check_refine(refine, found=not standard and slices is None)
    if baseline is not None:
        chosen += ["debias"] * (debias is not True) + ["multiples"] * (multiples != list(MULTIPLES))
        if chosen or (train is not None and not baseline.trained):
            raise ValueError(
                f"`{(chosen or ['train'])[0]}` is about slices, and method={baseline.name!r} has none; leave it out."
            )
        if choose:
            raise ValueError(
                f"`lag`='auto' looks along slices, and method={baseline.name!r} has none; give a number."
            )
        result = _baseline_test(
            baseline, x, score, kernel, null, lag, n_resamples, train, rng, start
        )
        return replace(result, names=names)
    family, fixed = False, []
    if slices is not None:
        if chosen != ["slices"]:
            raise ValueError(
                f"`slices` are given, so `{chosen[1]}` has nothing to choose; leave it out."
            )
        family = isinstance(slices, Mapping)
        fixed = (
            check_sets("slices", slices, d)
            if family
            else [named_set("given", as_slices(slices, d))]
        )
    else:
        if extra_slices is not None and not standard:
            raise ValueError(
                "`extra_slices` are added to the default family; with `n_slices` or `basis` there is none."
            )
        fixed = fixed_sets(d, extra_slices) if standard else []
        basis = check_basis(basis, n_slices, d)
        check_choice("estimator", estimator, ESTIMATORS)
        if train is None:
            train = "cross" if standard else _default_train(n)
        family = standard or is_cross(train)
    if family and np.ndim(kernel.bandwidth):
        raise ValueError(
            "`kernel` must have one bandwidth, or the median, for a family of slice sets."
        )

    trained = slices is None and (d > 1 or not standard)  # in one dimension there is one direction
    x, scores, folds, index = make_folds(x, score, train if trained else None, lag > 1, rng)
    with cuda.holding(x, scores, *(array for fold in folds for array in (fold.x, fold.scores))):
        parts = [Part("all", 0, n, fixed)] if fixed else []
        for fold in folds:
            if fold.x.shape[0] < 3 and estimator == "ke" and debias:
                raise ValueError(
                    f"`train`={train!r} leaves {fold.x.shape[0]} training samples; debias=True needs at least 3. Give more "
                    "samples, or fixed `slices`."
                )
            rows = slice(None)
            if standard and fold.x.shape[0] > MOST_TRAINING:
                rows = np.linspace(0, fold.x.shape[0] - 1, MOST_TRAINING).astype(int)
            known = fold.scores[rows] if estimator in ("ke", "ksd") else score
            difference = score_difference(
                fold.x[rows],
                known,
                estimator=estimator,
                score_q=score_q,
                debias=debias,
                engine=place,
            )
            found = _found_sets(difference, standard, n_slices, basis, debias)
            if refine:
                found = _refined(found, fold, kernel, {"engine": place, **refine}, rng)
            parts.append(Part(fold.name, fold.start, fold.stop, found))
        smallest = min(part.stop - part.start for part in parts)
        _check_test_size(smallest)
        if choose:
            lag = choose_lag(x, scores, parts[0].sets[0].parts[0], kernel, smallest)
        _check_lag(lag, smallest)
        searched = time.perf_counter()

        weights = None
        if null != "spectral":
            edges = sorted({part.start for part in parts} - {0})
            weights = Weights(null, n, n_resamples, lag=lag, edges=edges, rng=rng)
        scales = multiples if family else (1.0,)
        members = [
            member
            for part in parts
            for member in evaluate(part, scales, x, scores, kernel, engine, null, weights)
        ]
    verdict = _verdict(members, family, null, n_resamples, rng)
    end = time.perf_counter()
    tested = [part for part in parts if part.name != "all"] or parts
    return GofResult(
        **verdict,
        n_test=sum(part.stop - part.start for part in tested),
        n_train=sum(fold.x.shape[0] for fold in folds),
        null=null,
        engine=" and ".join(
            sorted({name for member in members for name in member.engine.split(" and ")})
        ),
        kernel=kernel.name,
        method="sksd",
        lag=lag,
        timings={"slices": searched - start, "statistic": end - searched, "total": end - start},
        names=names,
        _samples=_samples_for(
            verdict["members"][0].part if family else members[0].part, parts, x, scores, index
        ),
    )


def _samples_for(name, parts, x, scores, index):
    """The samples of a part; those of a smaller one are copied, so that the result does not hold the others in memory."""
    part = next(part for part in parts if part.name == name)
    rows = slice(part.start, part.stop)
    if part.stop - part.start == x.shape[0]:
        return Samples(x, scores, index)
    return Samples(x[rows].copy(), scores[rows].copy(), index[rows])


def _default_train(n):
    """A fifth of the samples, or what the search, at quadratic cost, is given at most."""
    return 0.2 if n <= 5 * MOST_TRAINING else MOST_TRAINING


def _baseline_test(baseline, x, score, kernel, null, lag, n_resamples, train, rng, start):
    """The test of a baseline, which has no slices."""
    if not baseline.has_kernel and not (kernel.name == "rbf" and isinstance(kernel.bandwidth, str)):
        raise ValueError(f"`kernel` is fixed for method={baseline.name!r}; leave it out.")
    if baseline.needs_score:
        train = _default_train(x.shape[0]) if baseline.trained and train is None else train
        x, scores, folds, index = make_folds(x, score, train, lag > 1, rng)
    else:
        scores, folds, index = None, [], np.arange(x.shape[0])
    if len(folds) > 1:
        raise ValueError(
            f"`train`='cross' is for families of slices; method={baseline.name!r} takes a fraction, a number or samples."
        )
    training = None
    if folds:
        training, tested = (folds[0].x, folds[0].scores), slice(folds[0].start, folds[0].stop)
        x, scores, index = x[tested], scores[tested], index[tested]
    n = x.shape[0]
    _check_test_size(n)
    _check_lag(lag, n)
    weights = (
        Weights(null, n, n_resamples, lag=lag, rng=rng) if null in ("wild", "bootstrap") else None
    )
    task = Task(x, scores, training, score, kernel, null, weights, n_resamples, rng)
    prepared = baseline.prepare(task)
    searched = time.perf_counter()
    outcome = baseline.evaluate(task, prepared)
    verdict = _verdict(outcome.members, outcome.family, null, n_resamples, rng)
    end = time.perf_counter()
    return GofResult(
        **verdict,
        n_test=n,
        n_train=0 if training is None else training[0].shape[0],
        null=null,
        engine=outcome.members[0].engine,
        kernel=outcome.kernel or kernel.name,
        method=baseline.name,
        lag=lag,
        locations=outcome.locations,
        n_model=outcome.n_model,
        timings={"slices": searched - start, "statistic": end - searched, "total": end - start},
        _samples=Samples(x, scores, index),
    )


def _check_test_size(n):
    if n < 2:
        raise ValueError(f"`x` leaves {n} test samples; at least 2 are needed.")


def _check_lag(lag, n):
    if lag > 0.5 * n:
        raise ValueError(
            f"`lag` must be at most half the number of test samples, {n}: else signs hardly ever flip; got {lag:g}."
        )


def _check_refine(refine, found):
    """Options for `refine_slices`, empty for none, from a number of epochs or a mapping."""
    if isinstance(refine, Mapping):
        unknown = [name for name in refine if name not in OPTIONS]
        if unknown:
            raise ValueError(f"`refine` may hold {', '.join(sorted(OPTIONS))}; got {unknown[0]!r}.")
        refine = dict(refine)
    else:
        epochs = check_integer("refine", refine, 0)
        refine = {"epochs": epochs} if epochs else {}
    if refine and not found:
        raise ValueError(
            "`refine` improves slices found on training samples: give `n_slices` or `basis` with it."
        )
    return refine


def _found_sets(difference, standard, n_slices, basis, debias):
    """Sets of active slices: those of the standard family, or the one set.

    A family has a rough g after six steps: where H_r has a leading direction it is found by then, and where it has none, any
    other is as good. Measured on nine problems in 30 and 100 dimensions, the members' statistics are those of exact g within
    0.2 standard deviations.
    """
    if standard:
        return active_sets(find_slices(difference, debias=debias, gaps=False, max_steps=6))
    return [
        named_set("active", find_slices(difference, n_slices=n_slices, basis=basis, debias=debias))
    ]


def _refined(sets, fold, kernel, options, rng):
    """The one set of slices found, improved on the samples it was found on."""
    n = fold.x.shape[0]
    options = {"batch_size": min(n, max(20, min(100, n // 10)))} | options
    return [
        named_set(
            some.name,
            refine_slices(fold.x, fold.scores, *some.parts, kernel=kernel, rng=rng, **options),
        )
        for some in sets
    ]


def _looked_along(member):
    return {
        "slices": member.slices,
        "slice_statistics": member.statistics,
        "bandwidths": member.bandwidths,
    }


def _verdict(members, family, null, n_resamples, rng):
    if not family:
        return _single_verdict(members[0], n_resamples, rng)
    return (_bounded_verdict if null == "spectral" else _combined_verdict)(members)


def _single_verdict(member, n_resamples, rng):
    if member.spectrum is None:
        null = member.replicates
    else:
        null = weighted_chi_square_draws(member.spectrum, n_resamples, rng)
    return {
        "statistic": member.statistic,
        "pvalue": member.pvalue,
        "null_distribution": null,
        **_looked_along(member),
    }


def _combined_verdict(members):
    """Smallest weighted p-value, calibrated on the joint replicates."""
    statistics = np.array([member.statistic for member in members])
    shares = shares_of([member.kind for member in members])
    combined = combine(statistics, np.array([member.replicates for member in members]), shares)
    return {
        "statistic": members[combined.strongest].statistic,
        "evidence": combined.statistic,
        "pvalue": combined.pvalue,
        "null_distribution": combined.null_distribution,
        "members": _rows(members, combined.pvalues, combined.adjusted_pvalues, combined.scores),
        **_looked_along(members[combined.strongest]),
    }


def _bounded_verdict(members):
    """Smallest weighted p-value times the number of members (Bonferroni): without replicates their dependence is not known."""
    shares = shares_of([member.kind for member in members])
    logs = np.array([member.log_pvalue for member in members])
    adjusted = [positive_exp(min(0.0, log)) for log in logs - np.log(shares / len(members))]
    scores = (np.log(shares) - logs) / np.log(10.0)
    strongest = int(np.argmax(scores))
    return {
        "statistic": members[strongest].statistic,
        "evidence": float(scores[strongest]),
        "pvalue": adjusted[strongest],
        "null_distribution": np.empty(0),
        "members": _rows(members, [member.pvalue for member in members], adjusted, scores),
        **_looked_along(members[strongest]),
    }


def _rows(members, pvalues, adjusted, scores):
    rows = [
        Member(
            member.name, member.multiple, member.part, member.statistic, float(p), float(adjusted_p)
        )
        for member, p, adjusted_p in zip(members, pvalues, adjusted, strict=True)
    ]
    return tuple(rows[k] for k in np.argsort(-np.asarray(scores), kind="stable"))
