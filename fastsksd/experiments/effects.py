"""Effect sizes: coverage of their intervals for small effects, and the truth for large ones.

Samples are drawn from the model, then moved and stretched about its mean, so that the truth is
known. Small effects are up to 0.1 deviations and 5%, in all coordinates; of the multivariate t in
one coordinate of twenty, as all of its coordinates share one scale (see `fastsksd.effects`). Shapes
differ where Laplace's approximation of the logarithm of a gamma variable is drawn.

Correlations: to every coordinate up to 0.1 of the next one is added (of the multivariate t, to one
of twenty), or, for large effects, independent coordinates are tested against a model that has a
correlation, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._typing import Array
from ..effects import coordinate_effects
from .posteriors.data import SCHOOLS
from .problems import correlated
from .report import Block, Heading, Table, Text, cells_of
from .runner import Row, Settings, Task

FIGURES = False
TITLE = "Effect sizes: coverage, and brute-force truth"
_SMALL_MODELS = ["normal", "t", "multivariate t"]
_LARGE_MODELS = ["normal", "t", "multivariate t", "Laplace", "two modes", "eight schools"]
_LARGE = [[0.0, 0.5], [0.0, 0.8], [0.0, 1.25], [0.0, 2.0], [0.25, 1.0], [0.5, 1.0], [1.0, 1.0]]
_PAIRS = [[model, d, "independent"] for d in (2, 5, 20) for model in _SMALL_MODELS]
_PAIRS += [["normal", 2, "chains"], ["t", 5, "chains"]]
_CORRELATIONS = [-0.8, -0.4, 0.4, 0.8]  # of the samples less those of the model
_SHAPES = [1.0, 2.0, 5.0]  # of gamma variables; the smaller, the more skewed is the logarithm
SCALES = {
    "smoke": dict(
        models=_SMALL_MODELS, d=[2, 5], n=200, runs=20, block=10, chains=["normal"],
        schools=True, shapes=[2.0], large=_LARGE_MODELS, effects=_LARGE[:2], n_large=2000,
        pairs=[["normal", 2, "independent"], ["t", 2, "chains"]], correlations=_CORRELATIONS[2:3],
    ),
    "quick": dict(
        models=_SMALL_MODELS, d=[2, 20, 100], n=1000, runs=100, block=25, chains=["normal", "t"],
        schools=True, shapes=_SHAPES, large=_LARGE_MODELS, effects=_LARGE, n_large=20000,
        pairs=_PAIRS, correlations=_CORRELATIONS,
    ),
    "paper": dict(
        models=_SMALL_MODELS, d=[2, 20, 100], n=1000, runs=500, block=25, chains=["normal", "t"],
        schools=True, shapes=_SHAPES, large=_LARGE_MODELS, effects=_LARGE, n_large=100000,
        pairs=_PAIRS, correlations=_CORRELATIONS,
    ),
}  # fmt: skip
_NU = 5.0
_SCHOOLS, _ERRORS = SCHOOLS
_LOG_GAMMA = "log-gamma"
_MEMORY = 0.9  # coefficient of the chains
_CHAINS = 4


class Target(NamedTuple):
    """A model that can be drawn from; mean and standard deviation of each coordinate."""

    draw: Callable[[int, np.random.Generator], Array]
    score: Callable[[Array], Array]
    mean: Array
    deviation: Array


def make_target(name: str, d: int) -> Target:
    """A model by name. Correlations are those of an AR(1) process with coefficient 0.6."""
    if name == "eight schools":
        return _eight_schools()
    if name.startswith(_LOG_GAMMA):
        return _log_gamma(float(name.split()[-1]))
    zero, one = np.zeros(d), np.ones(d)
    if name == "Laplace":
        return Target(
            lambda n, rng: rng.laplace(size=(n, d)), lambda x: -np.sign(x), zero, np.sqrt(2) * one
        )
    if name == "two modes":
        return Target(
            lambda n, rng: rng.standard_normal((n, d)) + rng.choice([-1.5, 1.5], size=(n, d)),
            lambda x: -x + 1.5 * np.tanh(1.5 * x),
            zero,
            np.sqrt(1.0 + 1.5**2) * one,
        )
    covariance = correlated(d)
    root, precision = np.linalg.cholesky(covariance), np.linalg.inv(covariance)
    if name == "normal":
        return Target(
            lambda n, rng: rng.standard_normal((n, d)) @ root.T, lambda x: -x @ precision, zero, one
        )
    wide = np.sqrt(_NU / (_NU - 2.0)) * one
    if name == "t":  # a linear map of independent ones
        back = np.linalg.inv(root)

        def score(x: Array) -> Array:
            z = x @ back.T
            return -((_NU + 1.0) * z / (_NU + z * z)) @ back

        return Target(lambda n, rng: rng.standard_t(_NU, (n, d)) @ root.T, score, zero, wide)
    assert name == "multivariate t"

    def draw(n: int, rng: np.random.Generator) -> Array:
        z = rng.standard_normal((n, d)) @ root.T
        return z * np.sqrt(_NU / rng.chisquare(_NU, (n, 1)))

    def whole_score(x: Array) -> Array:
        z = x @ precision
        return -(_NU + d) * z / (_NU + np.sum(x * z, axis=1, keepdims=True))

    return Target(draw, whole_score, zero, wide)


def _log_gamma(shape: float) -> Target:
    """The logarithm of a gamma variable."""
    from scipy.stats import loggamma

    found = loggamma(shape)
    return Target(
        lambda n, rng: found.rvs((n, 1), random_state=rng),
        lambda x: shape - np.exp(x),
        np.array([found.mean()]),
        np.array([found.std()]),
    )


def _eight_schools() -> Target:
    """Posterior of mu, log tau and the eight effects (centred), drawn exactly: tau on a grid."""
    grid = np.linspace(-6.0, 5.0, 4001)
    tau = np.exp(grid)[:, None]
    precision = 1.0 / (tau**2 + _ERRORS**2)
    whole = precision.sum(axis=1) + 1.0 / 25.0
    centre = (precision * _SCHOOLS).sum(axis=1) / whole
    logs = 0.5 * np.log(precision).sum(axis=1) - 0.5 * (precision * _SCHOOLS**2).sum(axis=1)
    logs += 0.5 * whole * centre**2 - 0.5 * np.log(whole)
    logs += grid - np.log1p(np.exp(2.0 * grid) / 25.0)
    mass = np.cumsum(np.exp(logs - logs.max()))

    def draw(n: int, rng: np.random.Generator) -> Array:
        log_tau = np.interp(rng.uniform(size=n), mass / mass[-1], grid)
        mu = np.interp(log_tau, grid, centre)
        mu = mu + rng.standard_normal(n) / np.sqrt(np.interp(log_tau, grid, whole))
        pooled = np.exp(-2.0 * log_tau)[:, None]
        weight = pooled + _ERRORS**-2.0
        theta = (pooled * mu[:, None] + _SCHOOLS / _ERRORS**2) / weight
        theta = theta + rng.standard_normal((n, 8)) / np.sqrt(weight)
        return np.column_stack([mu, log_tau, theta])

    def score(x: Array) -> Array:
        mu, log_tau, theta = x[:, 0], x[:, 1], x[:, 2:]
        pooled = np.exp(-2.0 * log_tau)
        apart = theta - mu[:, None]
        square = np.exp(2.0 * log_tau) / 25.0
        return np.column_stack(
            [
                -mu / 25.0 + pooled * apart.sum(axis=1),
                1.0 - 2.0 * square / (1.0 + square) - 8.0 + pooled * (apart**2).sum(axis=1),
                -pooled[:, None] * apart + (_SCHOOLS - theta) / _ERRORS**2,
            ]
        )

    many = draw(400_000, np.random.default_rng(0))
    return Target(draw, score, many.mean(axis=0), many.std(axis=0))


def tasks(settings: Settings) -> list[Task]:
    blocks = range(settings["runs"] // settings["block"])
    cells = [
        dict(kind="small", model=model, d=d) for d in settings["d"] for model in settings["models"]
    ]
    cells += [dict(kind="chains", model=model, d=2) for model in settings["chains"]]
    cells += [
        dict(kind="shape", model=f"{_LOG_GAMMA} {shape:g}", d=1) for shape in settings["shapes"]
    ]
    if settings["schools"]:
        cells.append(dict(kind="none", model="eight schools", d=10))
    found: list[Task] = [{**cell, "block": block} for cell in cells for block in blocks]
    for model in settings["large"]:
        d = 10 if model == "eight schools" else 3
        found += [
            dict(kind="large", model=model, d=d, block=k) for k in range(len(settings["effects"]))
        ]
    found += [
        dict(kind="pairs", model=model, d=d, samples=samples, block=block)
        for model, d, samples in settings["pairs"]
        for block in blocks
    ]
    return found + [
        dict(kind="large pairs", model=model, d=2, block=k)
        for model in _CORRELATED
        for k in range(len(settings["correlations"]))
    ]


def run_task(task: Task, settings: Settings, rng: np.random.Generator) -> list[Row]:
    target = make_target(task["model"], task["d"])
    if task["kind"] == "large":
        return [_large_effect(target, task, settings, rng)]
    if task["kind"] == "large pairs":
        return [_large_correlation(task, settings, rng)]
    one_run = _pairs if task["kind"] == "pairs" else _small_effects
    runs = [one_run(target, task, settings, rng) for _ in range(settings["block"])]
    return [
        {
            **task,
            "runs": len(runs),
            **{name: float(np.mean([one[name] for one in runs])) for name in runs[0]},
        }
    ]


def _small_effects(
    target: Target, task: Task, settings: Settings, rng: np.random.Generator
) -> dict[str, float]:
    """One run: fractions of intervals that hold, and mean squares of errors."""
    d = task["d"]
    shift, log_stretch = rng.uniform(-0.1, 0.1, d), rng.uniform(-0.05, 0.05, d)
    if task["model"] == "multivariate t" and d > 2:
        off = np.zeros(d, dtype=bool)
        off[rng.choice(d, max(1, d // 20), replace=False)] = True
        shift, log_stretch = np.where(off, shift, 0.0), np.where(off, log_stretch, 0.0)
    if task["kind"] == "none":
        shift, log_stretch = np.zeros(d), np.zeros(d)
    chain = None
    if task["kind"] == "chains":
        chain = np.repeat(np.arange(_CHAINS), settings["n"])
        z = _chains(task["model"], d, settings["n"], rng)
    else:
        z = target.draw(settings["n"], rng)
    if task["kind"] == "shape":  # the mode is the logarithm of the shape, the curvature the shape
        shape = float(task["model"].split()[-1])
        shift = (np.log(shape) - target.mean) / target.deviation
        log_stretch = -np.log(np.sqrt(shape) * target.deviation)
        z = target.mean + target.deviation * rng.standard_normal((settings["n"], d))
    x = target.mean + np.exp(log_stretch) * (z - target.mean) + shift * target.deviation
    effects = coordinate_effects(x, target.score(x), [str(k) for k in range(d)], chain)
    alone = effects.at(simultaneous=False)
    truths = shift, np.exp(log_stretch)
    hits, together = [], True
    for truth, name in zip(truths, ("shift_interval", "stretch_interval"), strict=True):
        hits.append(float(_inside(truth, getattr(alone, name)).mean()))
        together &= bool(_inside(truth, getattr(effects, name)).all())
    errors = effects.shift - truths[0], np.log(effects.stretch) - log_stretch
    return {
        "shift_hits": hits[0],
        "stretch_hits": hits[1],
        "all_hit": float(together),
        "shift_bias": float(errors[0].mean()),
        "stretch_bias": float(errors[1].mean()),
        "shift_square": float((errors[0] ** 2).mean()),
        "stretch_square": float((errors[1] ** 2).mean()),
        "shift_variance": float((effects.shift_error**2).mean()),
        "stretch_variance": float((effects.log_stretch_error**2).mean()),
    }


def _pairs(
    target: Target, task: Task, settings: Settings, rng: np.random.Generator
) -> dict[str, float]:
    """One run: fractions of intervals of correlations that hold."""
    d, n, chain = task["d"], settings["n"], None
    mixed = np.eye(d)
    added = rng.uniform(-0.1, 0.1, d)
    if task["model"] == "multivariate t" and d > 2:
        added[1:] = 0.0
    mixed[np.arange(d), (np.arange(d) + 1) % d] += added
    if task["samples"] == "chains":
        chain = np.repeat(np.arange(_CHAINS), n)
        z = _chains(task["model"], d, n, rng)
    else:
        z = target.draw(n, rng)
    x = z @ mixed.T
    covariance = mixed @ correlated(d) @ mixed.T
    unit = np.sqrt(np.diagonal(covariance))
    first, second = np.triu_indices(d, 1)
    truth = (covariance / unit / unit[:, None] - correlated(d))[first, second]
    found = coordinate_effects(x, target.score(x), [str(k) for k in range(d)], chain).correlations
    assert found is not None and len(found) == truth.size
    return {
        "hits": float(_inside(truth, found.at(simultaneous=False).interval).mean()),
        "all_hit": float(_inside(truth, found.interval).all()),
        "rough": float(found.rough.mean()),
        "bias": float((found.difference - truth).mean()),
        "square": float(((found.difference - truth) ** 2).mean()),
    }


def _large_correlation(task: Task, settings: Settings, rng: np.random.Generator) -> Row:
    """Independent samples where the model has a correlation (negative effect), or the reverse."""
    effect = settings["correlations"][task["block"]]
    root = np.linalg.cholesky(np.array([[1.0, abs(effect)], [abs(effect), 1.0]]))
    draw, score = _CORRELATED[task["model"]]
    z = draw(settings["n_large"], rng)
    if effect > 0:
        x = z @ root.T
        scores = score(x)
    else:
        x, back = z, np.linalg.inv(root)
        scores = score(x @ back.T) @ back
    found = coordinate_effects(x, scores, ["0", "1"]).correlations
    assert found is not None
    return {
        **task,
        "effect": effect,
        "found": float(found.difference[0]),
        "interval": found.interval[0].tolist(),
        "rough": bool(found.rough[0]),
    }


def _whole_t(x: Array) -> Array:
    return -(_NU + 2.0) * x / (_NU + np.sum(x * x, axis=1, keepdims=True))


# Uncorrelated samples of two coordinates, and their scores.
_CORRELATED: dict[str, tuple[Callable[..., Array], Callable[[Array], Array]]] = {
    "normal": (lambda n, rng: rng.standard_normal((n, 2)), np.negative),
    "t": (lambda n, rng: rng.standard_t(_NU, (n, 2)), lambda x: -(_NU + 1.0) * x / (_NU + x * x)),
    "multivariate t": (
        lambda n, rng: rng.standard_normal((n, 2)) * np.sqrt(_NU / rng.chisquare(_NU, (n, 1))),
        _whole_t,
    ),
    "Laplace": (lambda n, rng: rng.laplace(size=(n, 2)), lambda x: -np.sign(x)),
    "log-gamma 2": (lambda n, rng: np.log(rng.gamma(2.0, size=(n, 2))), lambda x: 2.0 - np.exp(x)),
}


def _inside(truth: Array, intervals: Array) -> np.ndarray:
    return (intervals[:, 0] <= truth) & (truth <= intervals[:, 1])


def _chains(model: str, d: int, n: int, rng: np.random.Generator) -> Array:
    """Stationary chains that follow the model, one after the other: an AR(1) process, mapped."""
    z = np.empty((n, _CHAINS, d))
    z[0] = rng.standard_normal((_CHAINS, d))
    noise = np.sqrt(1.0 - _MEMORY**2) * rng.standard_normal((n, _CHAINS, d))
    for k in range(1, n):
        z[k] = _MEMORY * z[k - 1] + noise[k]
    if model == "t":
        from scipy.special import ndtr, stdtrit

        z = stdtrit(_NU, ndtr(z))
    return z.transpose(1, 0, 2).reshape(-1, d) @ np.linalg.cholesky(correlated(d)).T


def _large_effect(target: Target, task: Task, settings: Settings, rng: np.random.Generator) -> Row:
    """The effect in one coordinate: the first, or log tau of the eight schools."""
    shift, stretch = settings["effects"][task["block"]]
    k = 1 if task["model"] == "eight schools" else 0
    x = target.draw(settings["n_large"], rng)
    x[:, k] = target.mean[k] + stretch * (x[:, k] - target.mean[k]) + shift * target.deviation[k]
    effects = coordinate_effects(x, target.score(x), [str(k) for k in range(task["d"])])
    others = np.arange(task["d"]) != k
    return {
        **task,
        "shift": shift,
        "stretch": stretch,
        "found_shift": float(effects.shift[k]),
        "found_stretch": float(effects.stretch[k]),
        "shift_interval": effects.shift_interval[k].tolist(),
        "stretch_interval": effects.stretch_interval[k].tolist(),
        "rough": bool(effects.rough[k]),
        "other_shift": float(np.abs(effects.shift[others]).max()),
        "other_stretch": float(np.exp(np.abs(np.log(effects.stretch[others])).max())),
    }


def report(rows: list[Row], settings: Settings) -> list[Block]:
    return [
        Text(
            f"{settings['n']} samples (of each chain), nominal coverage 0.95: of the intervals of "
            'shifts and of stretches, each for itself, and ("all at once") of all simultaneous '
            "intervals of a table. Errors of stretches are those of their logarithms."
        ),
        Heading("Coverage for small effects"),
        _coverage(rows),
        Heading("One coordinate off: truth and estimate"),
        Text(
            f"{settings['n_large']} samples; simultaneous 95% intervals, and the largest estimates "
            "in other coordinates."
        ),
        _large_effects(rows),
        Heading("Coverage of correlations"),
        Text("Differences of the correlations of samples and model, each for itself and all."),
        _pairs_coverage(rows),
        Heading("A correlation that the samples, or the model, lack"),
        _large_correlations(rows),
    ]


def _pairs_coverage(rows: list[Row]) -> Table:
    cells = cells_of((row for row in rows if row["kind"] == "pairs"), "model", "d", "samples")
    table = []
    for key, some in cells.items():
        names = ("hits", "all_hit", "rough", "bias", "square")
        mean = {name: np.mean([row[name] for row in some]) for name in names}
        table.append(
            [
                *key,
                sum(row["runs"] for row in some),
                f"{mean['hits']:.3f}",
                f"{mean['all_hit']:.3f}",
                f"{mean['rough']:.3f}",
                f"{mean['bias']:.4f}, {np.sqrt(mean['square']):.4f}",
            ]
        )
    return Table(
        ["model", "d", "samples", "runs", "each", "all at once", "rough", "bias, RMSE"], table
    )


def _large_correlations(rows: list[Row]) -> Table:
    table = [
        [
            row["model"],
            f"{row['effect']:g}",
            f"{row['found']:.3f} ({row['interval'][0]:.2f} to {row['interval'][1]:.2f})",
            "rough" if row["rough"] else "",
        ]
        for row in rows
        if row["kind"] == "large pairs"
    ]
    return Table(["model", "samples less model", "estimate", ""], table)


def _coverage(rows: list[Row]) -> Table:
    """How often intervals hold, and the errors of estimates, by cell."""
    small = (row for row in rows if "shift_hits" in row)
    cells = cells_of(small, "kind", "model", "d")
    titles = {
        "small": "independent",
        "chains": f"{_CHAINS} chains, coefficient {_MEMORY}",
        "none": "independent, no effect",
        "shape": "normal, another shape",
    }
    table = []
    for (kind, model, d), some in cells.items():
        mean = {name: np.mean([row[name] for row in some]) for name in some[0] if "_" in name}
        table.append(
            [
                model,
                d,
                titles[kind],
                sum(row["runs"] for row in some),
                f"{mean['shift_hits']:.3f}",
                f"{mean['stretch_hits']:.3f}",
                f"{mean['all_hit']:.3f}",
                *(
                    f"{mean[f'{one}_bias']:.4f}, {np.sqrt(mean[f'{one}_square']):.4f}, "
                    f"{np.sqrt(mean[f'{one}_variance']):.4f}"
                    for one in ("shift", "stretch")
                ),
            ]
        )
    header = ["model", "d", "samples", "runs", "shift", "stretch", "all at once"]
    header += [f"{one}: bias, RMSE, standard error" for one in ("shift", "stretch")]
    return Table(header, table)


def _large_effects(rows: list[Row]) -> Table:
    """Truth and estimate of large effects in one coordinate."""
    table = [
        [
            row["model"],
            f"{row['shift']:g}",
            _estimate(row, "shift"),
            f"{row['stretch']:g}",
            _estimate(row, "stretch"),
            "rough" if row["rough"] else "",
            f"{row['other_shift']:.3f}",
            f"{row['other_stretch']:.3f}",
        ]
        for row in rows
        if row["kind"] == "large"
    ]
    return Table(
        ["model", "shift", "estimate", "stretch", "estimate", "", "other shift", "other stretch"],
        table,
    )


def _estimate(row: Row, name: str) -> str:
    low, high = row[f"{name}_interval"]
    return f"{row[f'found_{name}']:.3f} ({low:.2f} to {high:.2f})"
