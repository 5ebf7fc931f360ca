"""A training run of an ICA model: its descent, evaluations and checkpoints, and what it returns."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._progress import ProgressBar
from .._typing import Array
from .._validate import ArgumentError, frozen
from ..kernels import Kernel
from ..models import ICA
from .checkpoint import load_checkpoint, save_checkpoint
from .descent import (
    AdamDescent,
    Descent,
    ScoringDescent,
    negative_log_likelihood,
    prefixed,
    without_prefix,
)
from .loss import KernelSteinLoss, SlicedSteinLoss, SteinLoss
from .lsd import LearnedSteinLoss

_LARGEST = 1e100  # a model with larger entries has diverged


class Trace(NamedTuple):
    """Course of a training run, one entry for each evaluation.

    Attributes
    ----------
    step : (k,) array
        Number of steps taken.
    value : (k,) array
        Mean training loss since the evaluation before; NaN at the first.
    nll : (k,) array
        Mean negative log-likelihood of the test samples.
    gap : (k,) array
        How far `nll` is above that of the true model; NaN if that is not known.
    """

    step: np.ndarray
    value: np.ndarray
    nll: np.ndarray
    gap: np.ndarray


class Diverged(RuntimeError):
    """The loss or the model is no longer finite; the attribute `step` tells since when."""

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


@dataclass(frozen=True, eq=False, repr=False)
class ICAFit:
    """A trained ICA model.

    Attributes
    ----------
    model : models.ICA
        The trained model.
    unmixing : (d, d) array
        Its ``W^-1``, the parameter that was trained.
    nll : float
        Mean negative log-likelihood of the test samples.
    true_nll : float
        The same under the true model; NaN if that is not known.
    gap : float
        Difference of the two.
    trace : Trace
        Course of the training.
    method : str
        Method of training.
    settings : dict
        All settings of the run.
    seconds : float
        Time spent on training and evaluation, with that before an interruption.
    """

    model: ICA
    unmixing: np.ndarray
    nll: float
    true_nll: float
    gap: float
    trace: Trace
    method: str
    settings: dict[str, Any]
    seconds: float

    def __repr__(self) -> str:
        truth = (
            ""
            if np.isnan(self.gap)
            else f", {self.gap:.3g} above the true model's {self.true_nll:.4g}"
        )
        return (
            f"ICAFit(method={self.method!r}, d={self.model.d}, steps={self.settings['steps']}: "
            f"test NLL {self.nll:.4g}{truth}; {self.seconds:.1f} s)"
        )


class CheckedProblem(NamedTuple):
    """An `ICAProblem` of arrays that fit together."""

    x_train: Array
    x_test: Array
    truth: ICA | None
    initial: Array | None


class Run:
    """A training run: the model, its descent, and what has been recorded so far."""

    def __init__(
        self,
        problem: CheckedProblem,
        settings: dict[str, Any],
        kernel: Kernel,
        rng: np.random.Generator,
    ) -> None:
        self.problem = problem
        self.settings = settings
        self.rng = rng
        self.step = 0
        self.seconds = 0.0
        self.values: list[float] = []
        self.trace: list[tuple[float, ...]] = []
        self.df = settings["df"]
        x = problem.x_train
        initial = problem.initial
        if initial is None:
            initial = np.linalg.inv(ICA.random(x.shape[1], rng=rng).W) / np.sqrt(x.shape[1])
        self.true_nll = (
            np.nan
            if problem.truth is None
            else float(-problem.truth.log_density(problem.x_test).mean())
        )
        self.descent: Descent
        if settings["method"] == "sksd-scoring":
            self.descent = ScoringDescent(initial, x, self.df, kernel, settings["learning_rate"])
        else:
            loss = self._loss(settings["method"], kernel)
            self.descent = AdamDescent(
                initial, self.df, loss, settings["learning_rate"], settings["betas"]
            )

    def _loss(self, method: str, kernel: Kernel) -> SteinLoss:
        settings = self.settings
        d = self.problem.x_train.shape[1]
        if method == "ksd":
            return KernelSteinLoss(kernel=kernel, statistic=settings["statistic"])
        if method == "lsd":
            return LearnedSteinLoss(d, rng=self.rng)
        options: dict[str, Any] = {
            name: settings[name] for name in ("statistic", "betas", "learning_rate")
        }
        if method in ("sksd-g+ke+go", "sksd-g+ex+go"):
            exact = method == "sksd-g+ex+go"
            options |= {"fresh": self._fresh, "every": settings["every"]}
            options["estimator"] = "exact" if exact else "ke"
            if exact:
                if self.problem.truth is None:
                    raise ArgumentError(
                        "data", "must hold the true model for method='sksd-g+ex+go'"
                    )
                options["score_q"] = self.problem.truth
        options["refine"] = "rg" if method == "sksd-rg+go" else "g"
        return SlicedSteinLoss(d, kernel=kernel, **options)

    def _fresh(self) -> tuple[Array, ICA]:
        return self._draw(self.settings["slice_samples"]), self._model()

    def _model(self) -> ICA:
        return ICA(np.linalg.inv(self.descent.unmixing), self.df)

    def _draw(self, size: int) -> Array:
        x = self.problem.x_train
        if size == x.shape[0]:
            return x
        return x[self.rng.choice(x.shape[0], size, replace=False, shuffle=False)]

    def train(
        self, checkpoint: str | os.PathLike[str] | None, progress: ProgressBar | None
    ) -> None:
        settings = self.settings
        began = time.perf_counter() - self.seconds
        if self.step == 0:
            self._evaluate()
        while self.step < settings["steps"]:
            # An overflow ends the run below, with a message that names the step.
            with np.errstate(all="ignore"):
                value = self.descent.advance(self._draw(settings["batch_size"]))
            self.step += 1
            self.values.append(value)
            if not (np.isfinite(value) and np.abs(self.descent.unmixing).max() < _LARGEST):
                raise Diverged(self._divergence(checkpoint), self.step)
            if self.step % settings["evaluate_every"] == 0 or self.step == settings["steps"]:
                self._evaluate()
                self.seconds = time.perf_counter() - began
                if checkpoint is not None:
                    save_checkpoint(checkpoint, settings, self._arrays())
            if progress is not None:
                progress(self.step, settings["steps"])

    def _evaluate(self) -> None:
        nll = negative_log_likelihood(self.descent.unmixing, self.problem.x_test, self.df)
        value = float(np.mean(self.values)) if self.values else np.nan
        self.trace.append((self.step, value, nll, nll - self.true_nll))
        self.values = []

    def _divergence(self, checkpoint: str | os.PathLike[str] | None) -> str:
        text = (
            f"the loss or the model was no longer finite after step {self.step} of "
            f"method={self.settings['method']!r}"
        )
        kept = (
            f"; the state after step {self.trace[-1][0]} is kept in {checkpoint}"
            if checkpoint and self.trace[-1][0]
            else ""
        )
        return f"{text}{kept}. A smaller `learning_rate` may help."

    def _arrays(self) -> dict[str, np.ndarray]:
        random = np.array(json.dumps(self.rng.bit_generator.state))
        common = {
            "step": np.array(self.step),
            "seconds": np.array(self.seconds),
            "trace": np.array(self.trace),
            "rng": random,
        }
        return common | prefixed("descent.", self.descent.state())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue from the checkpoint at `path`, if there is one."""
        arrays = load_checkpoint(path, self.settings)
        if arrays is None:
            return
        self.step, self.seconds = int(arrays["step"]), float(arrays["seconds"])
        self.trace = [(int(step), *rest) for step, *rest in arrays["trace"].tolist()]
        self.rng.bit_generator.state = json.loads(arrays["rng"].item())
        self.descent.restore(without_prefix("descent.", arrays))

    def result(self) -> ICAFit:
        trace = Trace(*(frozen(column) for column in zip(*self.trace, strict=True)))
        return ICAFit(
            self._model(),
            frozen(self.descent.unmixing),
            trace.nll[-1].item(),
            self.true_nll,
            trace.gap[-1].item(),
            trace,
            self.settings["method"],
            self.settings,
            self.seconds,
        )
