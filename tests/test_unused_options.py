"""Options without a use are refused, by name."""

import numpy as np
import pytest

import fastsksd as fs
from fastsksd.learning import SlicedSteinLoss

LINE = np.random.default_rng(0).standard_normal((50, 1))
X = np.random.default_rng(1).standard_normal((50, 2))
AXES = (np.eye(2), np.eye(2))

CALLS = {
    "one dimension, estimator": (
        "estimator",
        lambda: fs.gof_test(LINE, np.negative, estimator="ge"),
    ),
    "one dimension, score_q": (
        "score_q",
        lambda: fs.gof_test(LINE, np.negative, score_q=np.negative),
    ),
    "one dimension, debias": ("debias", lambda: fs.gof_test(LINE, np.negative, debias=False)),
    "baseline, engine": (
        "engine",
        lambda: fs.gof_test(X, np.negative, method="ksd", engine="fourier"),
    ),
    "baseline, tol": ("tol", lambda: fs.gof_test(X, np.negative, method="ksd", tol=1e-3)),
    "stream, estimator": (
        "estimator",
        lambda: fs.gof_stream(X, np.negative, slices=AXES, estimator="ge"),
    ),
    "stream, debias": ("debias", lambda: fs.gof_stream(X, np.negative, slices=AXES, debias=False)),
    "search, engine": ("engine", lambda: fs.active_slices(X, np.negative, engine="fourier")),
    "refinement, engine": (
        "engine",
        lambda: fs.refine_slices(X, np.negative, AXES, batch_size=50, engine="fourier"),
    ),
    "gradients, engine": (
        "engine",
        lambda: fs.sksd_value_and_grad(X, np.negative, AXES, engine="fourier"),
    ),
    "exact, kernel": (
        "kernel",
        lambda: fs.active_slices(
            X, np.negative, estimator="exact", score_q=np.negative, kernel=fs.RBF(2.0)
        ),
    ),
    "loss, engine": ("engine", lambda: SlicedSteinLoss(2, engine="quick")),
    "loss, Fourier": ("engine", lambda: SlicedSteinLoss(2, engine="fourier")),
    "loss, debias": ("debias", lambda: SlicedSteinLoss(2, debias="x")),
    "loss, score_q": ("score_q", lambda: SlicedSteinLoss(2, score_q=np.negative)),
    "loss, score_q of no use": (
        "score_q",
        lambda: SlicedSteinLoss(2, estimator="exact", score_q=3),
    ),
    "search, debias": (
        "debias",
        lambda: fs.active_slices(X, np.negative, estimator="ge", debias=False),
    ),
    "search with the exact score, debias": (
        "debias",
        lambda: fs.active_slices(
            X, np.negative, estimator="exact", score_q=np.negative, debias=False
        ),
    ),
    "PSD, debias": ("debias", lambda: fs.psd(X, np.negative, estimator="ge", debias=False)),
    "batch, progress": (
        "progress",
        lambda: fs.gof_batch([(X, -X)], progress="no", slices=AXES, n_resamples=9),
    ),
    "refinement, progress": (
        "progress",
        lambda: fs.refine_slices(X, -X, AXES, epochs=0, batch_size=50, progress="no"),
    ),
    "refits, progress": ("progress", lambda: fs.Refit(fs.models.Gaussian.fit, progress="no")),
    "ICA, progress": (
        "progress",
        lambda: fs.learning.fit_ica((X, X), steps=1, batch_size=50, progress="no"),
    ),
    "loss, every": ("every", lambda: SlicedSteinLoss(2, every=3)),
    "loss, learning rate": (
        "learning_rate",
        lambda: SlicedSteinLoss(2, refine=None, learning_rate=3.0),
    ),
    "loss, betas": ("betas", lambda: SlicedSteinLoss(2, refine=None, betas=(0.5, 0.5))),
    "loss, debias of no use": ("debias", lambda: SlicedSteinLoss(2, estimator="ge", debias=True)),
    "per_slice": ("per_slice", lambda: fs.sksd(X, np.negative, AXES, per_slice="no")),
}


@pytest.mark.parametrize("case", CALLS)
def test_it_is_refused(case):
    argument, call = CALLS[case]
    with pytest.raises((TypeError, ValueError), match=f"`{argument}`"):
        call()


def test_refinement_within_a_test_takes_its_engine_from_the_test():
    result = fs.gof_test(
        X, np.negative, n_slices=1, refine=1, engine="fourier", n_resamples=49, rng=0
    )
    assert result.engine == "fourier"
