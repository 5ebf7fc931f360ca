"""Every public function, with right calls of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from scipy import stats

import fastsksd as fs

from .calls import ENGINES, ESTIMATORS, FEW, SEED, UV, WIDE, F, S, Target, X, keywords, right
from .uses import (
    accumulated,
    batched,
    diagnosed,
    differences,
    drawn,
    estimated,
    explained,
    fresh_loss,
    from_scipy,
    gathered,
    ica,
    kernel_loss,
    modelled,
    of_scipy,
    read,
    refitted,
    trained,
)
from .values import Made, Samples, Scores, Weights, directions, kernels, samples, scores

WEIGHTS = st.sampled_from([Weights(), Weights(0.0), Weights(1.5)])
FITS = st.sampled_from([fs.models.Gaussian.fit, fs.models.Laplace.fit])


def _tests():
    """Right calls of `gof_test`, one strategy for each kind of test."""
    common = dict(kernel=kernels(), null=st.sampled_from(["wild", "bootstrap"]), rng=SEED)
    engine = dict(engine=ENGINES)
    base = dict(x=WIDE, score=S, n_resamples=FEW)
    family = right(
        base,
        **common,
        **engine,
        precondition=st.sampled_from(["auto", "raw", "diagonal", None]),
        multiples=st.sampled_from([(1.0,), (0.5, 2.0)]),
        debias=st.booleans(),
        train=st.sampled_from(["cross", 0.3, 9]),
    )
    given = right(
        dict(x=X, score=S, slices=directions(), n_resamples=FEW),
        **common,
        **engine,
        precondition=st.sampled_from(["raw", "diagonal"]),
    )
    named = right(
        dict(base, slices=st.fixed_dictionaries({"a": directions(), "b": directions()})),
        **common,
        multiples=st.just((1.0, 2.0)),
    )
    active = right(
        dict(base, n_slices=st.integers(1, 2), score=F),
        **common,
        **engine,
        estimator=ESTIMATORS,
        train=st.sampled_from([0.3, 0.5, 8]),
        refine=st.sampled_from([0, 1, 2]),
    )
    basis = right(
        dict(base, basis=st.sampled_from(["identity"])), **common, **engine, debias=st.booleans()
    )
    exact = right(dict(base, n_slices=1, score=F, score_q=F, estimator="exact"), rng=SEED)
    spectral = right(dict(x=X, score=S, null="spectral", slices=directions()), rng=SEED, **engine)
    chains = right(dict(base, chains=True), rng=SEED, kernel=kernels())
    lag = right(dict(base, slices=directions()), rng=SEED, lag=st.sampled_from([1, 2.5, 4, "auto"]))
    ksd = right(
        dict(x=X, score=S, method=st.sampled_from(["ksd", "psd"]), n_resamples=FEW),
        rng=SEED,
        null=st.sampled_from(["wild", "bootstrap", "spectral"]),
    )
    weights = right(dict(base, weights=WEIGHTS), rng=SEED)
    fit = right(
        dict(x=samples(n=(20, 30), d=(1, 2)), fit=FITS, n_resamples=st.integers(1, 3)), rng=SEED
    )
    return st.one_of(
        weights,
        fit,
        family,
        given,
        given,
        named,
        active,
        basis,
        exact,
        spectral,
        chains,
        lag,
        ksd,
        _baselines(),
    )


def _baselines():
    methods = st.sampled_from(
        [
            Made("baselines.FSSD", (("n_locations", 2), ("max_steps", 2))),
            Made("baselines.FSSD", (("n_locations", 1), ("optimise", False))),
            Made("baselines.KSDAgg", (("n_widths", 2), ("n_quantile", 20), ("n_level", 20))),
            Made("baselines.RFSD", (("n_features", 2),)),
            Made("baselines.MMD", (("n_model", 20),)),
            Made("baselines.PSD", (("degree", 1),)),
            "ksd",
        ]
    )
    return right(dict(x=WIDE, score=scores(("sampler",)), method=methods), rng=SEED)


def _baseline(name, **fields):
    """A baseline made from its fields, and used."""
    kind = getattr(fs.baselines, name)

    def use(seed, **given):
        method = kind(**given)
        model = fs.models.Gaussian(np.zeros(2), np.eye(2))
        return fs.gof_test(Samples(n=24, seed=seed).array, model, method=method, rng=0)

    names = keywords(kind)
    return Target(use, right(dict(seed=st.integers(0, 999)), **fields), names)


def model(name, needed, **optional):
    use, names = modelled(name)
    return Target(use, right(needed, **optional, n=st.integers(1, 5), rng=SEED), names)


# Not `Samples`, of which scores might be taken to be those.
POINTS = st.sampled_from([((0.0, 1.0),), [[1e3, -1e-3], [0.5, 0.0]], np.eye(2)])


def estimate(name, forms, **optional):
    """An estimate of the score difference made by its class, at other points than its samples."""
    use, names = estimated(name)
    one = "scores" if "scores" in names else "score"
    first = samples(n=(20, 30), d=(2,))
    needed = {"x": first, one: scores(forms), "y": POINTS}
    if "score_q" in names:
        needed["score_q"] = F
    return Target(use, right(needed, **optional), names)


def fitted(name, **options):
    """A model fitted to samples, and its score there."""
    kind = getattr(fs.models, name)

    def use(x, **given):
        one = kind.fit(x, **given)
        repr(one)
        return one.score(x)

    needed = dict(x=samples(n=(20, 30, 60), d=(1, 2, 3)))
    if "n_components" in options:
        needed["n_components"] = options.pop("n_components")
    return Target(use, right(needed, **options), keywords(kind.fit))


def kerneled(kind):
    """A kernel made, and its discrepancy."""

    def use(bandwidth="median"):
        x = Samples(n=12, d=2).array
        kernel = kind(bandwidth)
        repr(kernel)
        return fs.sksd(x, -x, fs.Slices(np.eye(2), np.eye(2)), kernel=kernel)

    widths = st.one_of(
        st.just("median"), st.floats(1e-3, 1e3), st.lists(st.floats(0.1, 9), min_size=2, max_size=2)
    )
    names, also = frozenset({"bandwidth"}), frozenset({"kernel"})
    return Target(use, right(dict(bandwidth=widths)), names, also=also)


def normal_pair():
    """Samples and their score, for a loss that asks for them."""
    return Samples(n=12, d=2).array, Scores().build(np.eye(2), 1.0)


BATCH = st.lists(
    st.one_of(
        st.tuples(samples(n=(8, 20), d=(1, 2, 3)), S),
        st.fixed_dictionaries(dict(x=samples(n=(8, 20), d=(2,)), score=S, slices=directions())),
    ),
    max_size=2,
)
SLICED = dict(x=X, score=S, slices=directions())
DISCREPANCY = dict(kernel=kernels(), statistic=UV)
SQUARE = st.sampled_from(
    [((1.0, 0.0), (0.0, 1.0)), ((2.0, 0.5), (0.5, 1.0)), [[1e-3, 0], [0, 1e3]]]
)
TURNED = st.floats(0.0, 6.0).map(lambda angle: ((np.cos(angle), np.sin(angle)),))
PAIR = st.sampled_from([(0.0, 0.0), [1.0, -2.0], (1e3, 1e-3)])
LOSS = right(
    dict(d=2, x=samples(n=(8, 20), d=(2,)), score=S),
    estimator=st.sampled_from(["ke", "ksd"]),
    refine=st.sampled_from(["g", "rg", None]),
    debias=st.booleans(),
    **DISCREPANCY,
    learning_rate=st.sampled_from([1e-3, 0.1]),
    basis=st.just("identity"),
)

LINES = st.sampled_from(
    [
        stats.norm(1.0, 2.0),
        stats.t(3.0),
        stats.logistic(),
        stats.gennorm(3.0),
        stats.norm([0.0, 1.0], [1.0, 3.0]),
        [stats.norm(), stats.cauchy()],
        stats.multivariate_normal([0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]]),
        stats.multivariate_t([0.0], [[2.0]], df=4),
        stats.gaussian_kde([[0.0, 1.0, 5.0]]),
    ]
)
PARTS = st.sampled_from([stats.norm(), stats.expon(), stats.beta(2.0, 0.5), stats.gamma(0.1)])

TARGETS: dict[str, Target] = {
    "gof_test": Target(fs.gof_test, _tests(), keywords(fs.gof_test)),
    "gof_batch": Target(
        batched,
        right(
            dict(problems=BATCH, progress=False, n_resamples=19),
            rng=SEED,
            on_error=st.just("raise"),
        ),
        keywords(fs.gof_batch) | keywords(fs.gof_test),
    ),
    "gof_stream": Target(
        fs.gof_stream,
        st.one_of(
            right(
                dict(
                    chunks=st.lists(X, min_size=1, max_size=1),
                    score=F,
                    slices=directions(),
                    n_resamples=FEW,
                ),
                rng=SEED,
                kernel=kernels(),
                null=st.just("spectral"),
            ),
            right(
                dict(chunks=WIDE, score=F, n_slices=1, train=8, n_resamples=FEW),
                rng=SEED,
                estimator=ESTIMATORS,
            ),
            right(
                dict(chunks=st.lists(WIDE, min_size=1, max_size=1), score=F, n_resamples=FEW),
                rng=SEED,
                null=st.sampled_from(["wild", "bootstrap"]),
            ),
        ),
        keywords(fs.gof_stream),
        also=frozenset({"x"}),  # of a chunk, whose number is named
    ),
    "Accumulator": Target(
        accumulated,
        right(
            dict(slices=directions(), first=X, score=F),
            kernel=kernels(),
            n_resamples=FEW,
            tol=st.sampled_from([1e-8, 1e-3]),
            rng=SEED,
        ),
        keywords(fs.Accumulator, fs.Accumulator.add, fs.Accumulator.result),
    ),
    "FamilyAccumulator": Target(
        gathered,
        st.builds(
            Samples,
            n=st.sampled_from([20, 30]),
            d=st.integers(1, 3),
            seed=SEED,
            unit=st.sampled_from([1e-3, 1.0, 1e3]),
        ).flatmap(
            lambda first: right(
                dict(first=first, x=replace(first, n=1100, seed=9), score=F, n_resamples=FEW),
                kernel=kernels(),
                rng=SEED,
                null=st.sampled_from(["wild", "bootstrap"]),
            )
        ),
        keywords(fs.FamilyAccumulator, fs.FamilyAccumulator.add, fs.FamilyAccumulator.result),
    ),
    "active_slices": Target(
        fs.active_slices,
        st.one_of(
            right(
                dict(x=WIDE, score=F),
                n_slices=st.integers(1, 2),
                estimator=ESTIMATORS,
                rng=SEED,
                noise=st.sampled_from([0.0, 0.1]),
            ),
            right(dict(x=WIDE, score=S), basis=st.just("identity"), debias=st.booleans(), rng=SEED),
            right(dict(x=WIDE, score=F, score_q=F, estimator="exact"), rng=SEED),
        ),
        keywords(fs.active_slices),
    ),
    "refine_slices": Target(
        fs.refine_slices,
        right(
            dict(SLICED, epochs=st.integers(0, 2), batch_size=st.sampled_from([2, 3])),
            learning_rate=st.sampled_from([1e-3, 0.1]),
            update=st.sampled_from(["g", "rg"]),
            kernel=kernels(),
            statistic=UV,
            parametrisation=st.sampled_from(["unit", "raw"]),
            patience=st.sampled_from([None, 1]),
            rng=SEED,
        ),
        keywords(fs.refine_slices),
    ),
    "random_slices": Target(
        fs.random_slices,
        right(dict(d=st.integers(1, 5), n_slices=st.integers(1, 5), rng=SEED)),
        keywords(fs.random_slices),
    ),
    "sksd": Target(
        fs.sksd,
        right(SLICED, **DISCREPANCY, per_slice=st.booleans(), engine=ENGINES),
        keywords(fs.sksd),
    ),
    "sksd_value_and_grad": Target(
        fs.sksd_value_and_grad,
        right(
            SLICED,
            **DISCREPANCY,
            wrt=st.sampled_from(["score", "g", ("r", "g"), ["score"], ("score", "g", "r")]),
        ),
        keywords(fs.sksd_value_and_grad),
    ),
    "integrated_sksd": Target(
        fs.integrated_sksd,
        right(dict(x=X, score=S, n_slices=st.integers(2, 5)), **DISCREPANCY, rng=SEED),
        keywords(fs.integrated_sksd),
    ),
    "orthogonal_sksd": Target(
        fs.orthogonal_sksd,
        right(dict(x=X, score=S, n_slices=st.integers(2, 5)), **DISCREPANCY, rng=SEED),
        keywords(fs.orthogonal_sksd),
    ),
    "ksd": Target(fs.ksd, right(dict(x=X, score=S), **DISCREPANCY), keywords(fs.ksd)),
    "mmd": Target(
        fs.mmd,
        st.sampled_from([1, 2, 3]).flatmap(
            lambda d: right(dict(x=samples(d=(d,)), y=samples(d=(d,))), **DISCREPANCY)
        ),
        keywords(fs.mmd),
    ),
    "psd": Target(
        fs.psd,
        right(dict(x=WIDE, score=F), estimator=ESTIMATORS, debias=st.just(True)),
        keywords(fs.psd),
    ),
    "effect_sizes": Target(
        fs.effect_sizes,
        right(dict(x=WIDE, score=S), level=st.sampled_from([0.5, 0.95]), slices=directions()),
        keywords(fs.effect_sizes),
    ),
    "compare": Target(
        fs.compare,
        right(
            dict(
                x=samples(n=(60,), d=(2, 3)),
                score=st.fixed_dictionaries(dict(a=S, b=S | FITS.map(fs.Refit))),
            ),
            slices=directions(),
            kernel=kernels(),
            level=st.sampled_from([0.5, 0.95]),
            rng=SEED,
        ),
        keywords(fs.compare),
    ),
    "mode_weights": Target(
        fs.mode_weights,
        right(dict(x=samples(n=(30, 60, 60), d=(1, 2)), model=F), rng=SEED),
        keywords(fs.mode_weights),
    ),
    "Slices": Target(
        fs.Slices,
        right(
            dict(r=TURNED, g=TURNED),
            r_values=st.tuples(st.floats(0, 9)),
            g_gaps=st.lists(st.floats(0, 1), min_size=1, max_size=1),
        ),
        keywords(fs.Slices),
    ),
    "RBF": kerneled(fs.RBF),
    "IMQ": kerneled(fs.IMQ),
    "explain": Target(
        explained,
        right(
            dict(n_resamples=19),
            n_slices=st.integers(1, 3),
            level=st.sampled_from([0.5, 0.95]),
            rng=SEED,
            names=st.just(["a", "b"]),
            alpha=st.sampled_from([0.01, 0.5]),
        ),
        keywords(fs.GofResult.explain, fs.GofResult.reject),
    ),
    "Refit": Target(
        refitted,
        right(
            dict(x=samples(n=(20, 30), d=(1, 2)), function=FITS, progress=False),
            n_resamples=st.integers(1, 3),
            split=st.sampled_from([None, 0.5]),
            rng=SEED,
        ),
        keywords(fs.Refit) | {"x", "n_resamples", "rng"},
        also=frozenset({"fit"}),
    ),
    "results": Target(
        read,
        right(
            {},
            alpha=st.floats(0.001, 0.999),
            method=st.sampled_from(["holm", "bh"]),
            level=st.floats(0.001, 0.999),
            simultaneous=st.booleans(),
        ),
        keywords(read),
    ),
    "models.Gaussian": model("Gaussian", dict(mean=PAIR, cov=SQUARE)),
    "models.GaussianMixture": model(
        "GaussianMixture",
        dict(
            weights=st.sampled_from([(0.5, 0.5), (0.1, 0.9)]),
            means=((0.0, 0.0), (1.0, 5.0)),
            covs=st.sampled_from([1.0, 0.1]),
        ),
    ),
    "models.Laplace": model(
        "Laplace", dict(d=st.integers(1, 3)), scale=st.just(2.0), loc=st.just(1)
    ),
    "models.StudentT": model(
        "StudentT",
        dict(d=st.integers(1, 3)),
        df=st.sampled_from([0.5, 1, 5, 100.0]),
        loc=st.just(-1),
    ),
    "models.ICA": model("ICA", dict(W=SQUARE), df=st.sampled_from([1, 5.0])),
    "models.GaussBernRBM": model(
        "GaussBernRBM",
        dict(B=SQUARE, b=PAIR.map(lambda b: [0.1 * abs(one) % 3 for one in b]), c=(0.5, -0.5)),
        coupling=st.sampled_from(["half", "full"]),
    ),
    **{
        f"models.{name}.fit": fitted(name, **options)
        for name, options in dict(
            Gaussian=dict(cov=st.sampled_from(["full", "diagonal"])),
            Laplace={},
            StudentT=dict(df=st.sampled_from([None, 3.0, 30])),
            ICA=dict(df=st.sampled_from([3, 5.0])),
            GaussianMixture=dict(n_components=st.integers(1, 2), n_starts=st.just(1), rng=SEED),
        ).items()
    },
    "learning.SlicedSteinLoss": Target(
        trained,
        LOSS,
        keywords(fs.learning.SlicedSteinLoss, fs.learning.SlicedSteinLoss.refresh) - {"fresh"},
    ),
    "learning.SlicedSteinLoss.fresh": Target(
        fresh_loss,
        right(
            dict(d=2, seed=st.integers(0, 999), fresh=st.just(normal_pair)), every=st.integers(1, 3)
        ),
        frozenset({"d", "fresh", "every"}),
        also=frozenset({"x"}),
    ),
    "learning.KernelSteinLoss": Target(
        kernel_loss,
        right(dict(x=X, score=S), **DISCREPANCY),
        keywords(fs.learning.KernelSteinLoss) | {"x", "score"},
    ),
    "learning.ica_problem": Target(
        fs.learning.ica_problem,
        right(
            dict(d=st.integers(1, 3), n_train=st.integers(2, 9), n_test=st.integers(1, 9)), rng=SEED
        ),
        keywords(fs.learning.ica_problem),
    ),
    "score_difference.score_difference": Target(
        differences,
        st.one_of(
            right(
                dict(x=WIDE, score=F),
                estimator=ESTIMATORS,
                engine=st.sampled_from(["auto", "direct"]),
            ),
            right(dict(x=WIDE, score=S), debias=st.booleans()),
            right(dict(x=WIDE, score=F, score_q=F, estimator="exact")),
        ),
        keywords(fs.score_difference.score_difference),
    ),
    "score_difference.ExactDifference": estimate("ExactDifference", ("function", "model")),
    **{
        f"score_difference.{name}": estimate(name, forms, width=st.sampled_from([None, 0.5, 2]))
        for name, forms in dict(
            KernelSmoothed=("values",),
            KernelizedDifference=("values",),
            SteinGradient=("function", "model"),
        ).items()
    },
    "interop.Draws": Target(
        drawn,
        right(dict(x=WIDE, score=F, n_resamples=19), rng=SEED),
        frozenset({"x", "score", "names", "chain", "n_resamples", "rng"}) | keywords(fs.gof_test),
    ),
    "interop.Draws.diagnose": Target(
        diagnosed,
        right(dict(x=WIDE, score=F, n_resamples=19), rng=SEED, level=st.sampled_from([0.5, 0.95])),
        frozenset({"x", "score", "names", "chain", "level", "n_resamples", "rng"})
        | keywords(fs.gof_test),
    ),
    "interop.scipy.model": Target(
        of_scipy,
        right(dict(distribution=LINES), n=st.integers(1, 5), rng=SEED),
        frozenset({"distribution", "n", "rng"}),
    ),
    "interop.scipy.draws": Target(
        from_scipy,
        st.builds(
            lambda part, seed, d: dict(
                x=part.rvs((20, d), random_state=seed), distribution=[part] * d
            ),
            PARTS,
            SEED,
            st.integers(1, 3),
        ),
        frozenset({"x", "distribution"}),
    ),
    "learning.fit_ica": Target(
        ica,
        right(
            dict(
                x_train=samples(n=(20,), d=(2,)),
                x_test=samples(n=(8,), d=(2,)),
                method=st.sampled_from(sorted(set(fs.learning.METHODS) - {"lsd", "sksd-g+ex+go"})),
                steps=st.integers(1, 3),
            ),
            df=st.sampled_from([3, 5.0]),
            statistic=UV,
            kernel=kernels(),
            rng=SEED,
        ),
        (keywords(fs.learning.fit_ica) - {"data"}) | {"x_train", "x_test"},
        also=frozenset({"data"}),
    ),
    "baselines.FSSD": _baseline(
        "FSSD", n_locations=st.integers(1, 2), optimise=st.booleans(), max_steps=st.just(2)
    ),
    "baselines.KSDAgg": _baseline(
        "KSDAgg", n_widths=st.integers(1, 3), n_quantile=st.just(20), n_level=st.just(20)
    ),
    "baselines.RFSD": _baseline("RFSD", n_features=st.integers(1, 3), gamma=st.just(0.3)),
    "baselines.MMD": _baseline("MMD", n_model=st.just(20)),
    "baselines.PSD": _baseline("PSD", degree=st.integers(1, 3)),
}
