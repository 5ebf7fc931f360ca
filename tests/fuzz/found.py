"""Calls that once broke the rule, by function. Every failure ever found is kept here."""

from __future__ import annotations

from typing import Any

from fastsksd.models import Gaussian

from .values import Directions, Made, Odd, Samples, Scores

HUGE = 10**400  # no double holds it
LONG = 2**70  # nor any array so many entries
PAIR = Directions(form="pair", fault="entry", size=2.0)
WIDE = Directions(form="lists", fault="entry", size=1e200)
SHORT = Directions(form="pair", fault="number", m=1)

FOUND: dict[str, list[dict[str, Any]]] = {
    "gof_test": [
        dict(x=Samples(), score=Scores("model"), method=Made("baselines.MMD", (("n_model", 20),))),
        dict(x=Samples(), score=Scores(), n_resamples=LONG),
        dict(x=Samples(), score=Scores(), tol=HUGE),
    ],
    "gof_batch": [
        dict(problems=[], progress=False, checkpoint=1.5),
        dict(problems=[], progress=False, checkpoint=""),
        dict(problems=[(Samples(d=1), Scores())], progress=False, debias=1.0),
        dict(problems=range(3), progress=False, n_resamples=19),
    ],
    "gof_stream": [dict(chunks=Samples(form="list"), score=Scores(), n_slices=1, train=8)],
    "Accumulator": [
        dict(slices=WIDE, first=Samples(), score=Scores()),
        dict(slices=Directions(), first=Samples(), score=Scores(), tol=HUGE),
        dict(
            slices=Directions(m=1),
            first=Samples(n=3, d=1, law="chain", fault="entry", size=1e308),
            score=Scores(),
        ),
        dict(
            slices=Directions(m=1),
            first=Samples(n=2, d=1, law="chain", fault="column", size=1e308),
            score=Scores(),
        ),
    ],
    "FamilyAccumulator": [
        dict(
            first=Samples(n=3, d=1, law="chain", fault=fault, size=1e308),
            x=Samples(n=1100, d=1),
            score=Scores(),
        )
        for fault in ("column", "entry")
    ],
    "active_slices": [
        dict(x=Samples(n=2, d=1), score=Scores(), score_q=Scores(), estimator="exact")
    ],
    "refine_slices": [dict(x=Samples(), score=Scores(), slices=PAIR)],
    "random_slices": [dict(d=LONG, n_slices=1), dict(d=1, n_slices=LONG)],
    "sksd": [
        dict(x=Samples(), score=Scores(), slices=PAIR),
        dict(x=Samples(), score=Scores(), slices=SHORT),
        dict(
            x=Samples(),
            score=Scores(),
            slices=Directions(m=3),
            kernel=Made("RBF", (("bandwidth", (1.0, 2.0)),)),
        ),
    ],
    "sksd_value_and_grad": [dict(x=Samples(), score=Scores(), slices=SHORT)],
    "integrated_sksd": [
        dict(x=Samples(), score=Scores(), n_slices=LONG),
        dict(
            x=Samples(),
            score=Scores(),
            n_slices=5,
            kernel=Made("RBF", (("bandwidth", (1.0, 2.0)),)),
        ),
    ],
    "effect_sizes": [
        dict(x=Samples(n=20, law="uneven"), score=Scores("model")),
        dict(x=Samples(d=5, unit=1e-6), score=Scores(fault="all", size=0.0)),
        dict(x=Samples(d=3), score=Scores(fault="all", size=1e-160), slices=Directions()),
        dict(x=Samples(), score=Scores(), slices=WIDE),
    ],
    "Slices": [
        dict(r=((1.0, 0.0),), g=((0.6, 0.8),), g_gaps=b"u"),
        dict(r=((1.0, 0.0),), g=((0.6, 0.8),), r_values={"a": 1}),
        dict(r=((1.0, 0.0),), g=((0.6, 0.8),), g_values=[None]),
    ],
    "explain": [dict(alpha=HUGE, n_resamples=19)],
    "models.Gaussian": [
        dict(mean=(1e3, 1e-3), cov=((1.0, 0.0), (0.0, 1.0)), n=LONG),
        dict(mean=(0.0, 0.0), cov=Samples(n=2, law="chain", fault="equal", size=1e308)),
    ],
    "models.GaussianMixture": [
        dict(weights=(0.5, 0.5), means=((0.0, 0.0), (1.0, 5.0)), covs=1.0, n=LONG),
        dict(
            weights=(0.5, 0.5),
            means=((0.0, 0.0), (1.0, 5.0)),
            covs=0.1,
            x=Samples(fault="entry", size=1e160),
        ),
    ],
    "models.Laplace": [dict(d=1, loc=1, scale=5e-324)],
    "models.StudentT": [dict(d=LONG, r=None)],
    "models.ICA": [dict(W=((2.0, 0.5), (0.5, 1.0)), df=1e-12, n=4, rng=2, r=Odd())],
    "learning.SlicedSteinLoss": [dict(d=2, x=Samples(), score=Scores(), learning_rate=HUGE)],
    "learning.ica_problem": [dict(d=2, n_train=9, n_test=6, df=HUGE)],
    "score_difference.score_difference": [
        dict(x=Samples(form="list"), score=Scores(), estimator="ge"),
        dict(x=1.0, score=Scores("values")),
        dict(x={}, score=Scores("model"), score_q=Scores(), estimator="exact"),
    ],
    "Refit": [dict(x=Samples(n=20, d=1), function=Gaussian.fit, progress=False, checkpoint=True)],
    "interop.Draws": [dict(x=Samples(d=3), score=Scores("model"), names=-2.5, n_resamples=19)],
}

TINY = tuple(Made(name, (("bandwidth", 1e-300),)) for name in ("RBF", "IMQ"))
FOUND["Accumulator"] += [
    dict(slices=Directions(), first=Samples(), score=Scores(), kernel=TINY[0]),
    dict(
        slices=Directions(),
        first=Samples(n=60),
        score=Scores(),
        kernel=Made("IMQ", (("bandwidth", 1e-4),)),
    ),
]
FOUND["sksd_value_and_grad"] += [
    dict(x=Samples(), score=Scores(), slices=Directions(), kernel=one) for one in TINY
]
FOUND["integrated_sksd"] += [dict(x=Samples(), score=Scores(), n_slices=2, kernel=TINY[1])]
FOUND["ksd"] = [
    dict(x=Samples(), score=Scores(), kernel=TINY[1]),
    dict(x=Samples(), score=Scores(fault="entry", size=1e160)),
    dict(x=Samples(fault="nearly constant", size=1e80), score=Scores(), statistic="v"),
]
FOUND["mmd"] = [dict(x=Samples(), y=Samples(seed=1), kernel=TINY[0])]
FOUND["psd"] = [dict(x=Samples(unit=1e-6), score=Scores(fault="all", size=1e308))]
FOUND["RBF"] = [dict(bandwidth=5e-324)]
FOUND["IMQ"] = [dict(bandwidth=5e-324)]
FOUND["learning.KernelSteinLoss"] = FOUND["ksd"][1:]
FOUND["interop.Draws"] += [dict(x=Samples(fault="row", size=1e308), score=Scores(), n_resamples=19)]
FOUND["effect_sizes"] += [
    dict(
        x=Samples(seed=1, law="chain", fault="column"),
        score=Scores(),
        slices=Directions(m=1, seed=2),
    )
]
FOUND["models.StudentT.fit"] = [dict(x=Samples(n=20, d=1), df=1e-12)]
FOUND["score_difference.score_difference"] += [
    dict(x=Samples(n=20), score=Scores(fault="all", size=1e160)),
    dict(x=Samples(fault="entry", size=1e200), score=Scores(), estimator="ge"),
]
FOUND["score_difference.KernelSmoothed"] = [
    dict(x=Samples(form="list"), scores=Scores("values"), y=Samples(n=5, d=3)),
    dict(x="x", scores=Scores("values"), y=Samples(n=5)),
    dict(x=Samples(), scores=Scores("values"), y=Samples(n=5), width="x"),
]
FOUND["learning.fit_ica"] = [
    dict(x_train=Samples(n=20), x_test=Samples(n=8), checkpoint=True),
    dict(
        x_train=Samples(n=20),
        x_test=Samples(n=8),
        method="ksd",
        steps=1,
        kernel=Made("RBF", (("bandwidth", 1e-300),)),
    ),
]
FOUND["baselines.RFSD"] = [dict(seed=0, df=LONG)]
FOUND["interop.Draws"] += [dict(x=Samples(form="complex"), score=Scores(), n_resamples=19)]
FOUND["interop.Draws.diagnose"] = [
    dict(x=Samples(n=20), score=Scores(), n_resamples=19, names=names)
    for names in (True, (), [1, 2, 3])
] + [dict(x=Samples(n=5, d=200), score=Scores(), n_resamples=19)]
