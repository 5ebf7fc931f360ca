"""Stein discrepancies as training losses.

A loss is called with samples and the model's scores there. It returns its value and its gradient in
the scores. No density, no normalising constant and no sample of the model is needed.

`SlicedSteinLoss` is the paper's method (Section "Model learning"). Algorithm 1 finds new slices
every so many steps; in between, g ascends while the model descends. `KernelSteinLoss` is the KSD,
for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from .._doors import door
from .._strict import as_the_callers
from .._typing import Array, ArrayLike, KernelLike, Score, Statistic
from .._validate import (
    ArgumentError,
    ArgumentTypeError,
    Option,
    Overflow,
    check_betas,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_samples,
    check_score,
    check_statistic,
    evaluate_score,
)
from ..compute.linalg import product
from ..discrepancy import sksd_value_and_grad
from ..engines import check_pairwise
from ..kernels import as_kernel, check_one_bandwidth, one_bandwidth
from ..refine import Ascent
from ..score_difference import ESTIMATORS, check_debias, score_difference
from ..slices import Slices, check_basis, find_slices

_LANCZOS_STEPS = 6  # for g, which ascends afterwards anyway
_EVERY, _RATE, _BETAS = 200, 1e-3, (0.9, 0.99)  # defaults


class SteinLoss:
    """Base of the losses: what training needs from one."""

    def __call__(self, x: ArrayLike, score: Score) -> tuple[float, Array]:
        """Evaluate the loss, and let what it learns itself take a step.

        Parameters
        ----------
        x : (n, d) array
            Samples.
        score : (n, d) array, callable or model
            Score of the model.

        Returns
        -------
        value : float
            The loss.
        gradient : (n, d) array
            Its gradient in the scores at `x`.
        """
        raise NotImplementedError

    def state(self) -> dict[str, np.ndarray]:
        """Arrays from which a loss with the same settings continues.

        Returns
        -------
        dict of arrays
            For `restore`. The state of a random generator is not included.
        """
        return {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from what `state` returned.

        Parameters
        ----------
        state : dict of arrays
            From a loss with the same settings.
        """


class SlicedSteinLoss(SteinLoss):
    """Sliced Stein discrepancy with slices that follow the model in training.

    Parameters
    ----------
    d : int
        Dimension of the samples.
    fresh : callable, optional
        Called without arguments every `every` steps, before the first of them. It returns
        ``(x, score)``: samples for Algorithm 1, and the model's score (its values there, a function
        or a model). By default the slices begin as the coordinates, r = g, and Algorithm 1 runs
        only when `refresh` is called.
    every : int
        Steps between two calls of `fresh`.
    estimator : {"ke", "exact", "ksd", "ge"}
        Estimate of the score difference, as in `active_slices`.
    score_q : callable or model, optional
        Score of the distribution of the samples, for ``estimator="exact"``.
    basis : "identity" or (m, d) array, optional
        Fixed directions r. By default r is active.
    debias : bool
        Remove the estimate's own noise. False is the paper's estimate.
    refine : {"g", "rg"} or None
        What ascends, by one step of Adam for each call.

        "g"
            The input directions g.
        "rg"
            Both r and g.
        None
            Nothing.
    kernel : {"rbf", "imq"} or kernel object
        Kernel of the discrepancy.
    statistic : {"u", "v"}
        Estimator of the discrepancy.

        "u"
            U-statistic: unbiased, but noisier, so that it needs smaller steps.
        "v"
            V-statistic, the default of the published script. For each slice it adds
            ``mean |s.r|^2 / n`` to the loss of a batch of n. So it trains towards another model
            than the data's, however small the steps are.
    learning_rate : float
        Adam's step size for the slices.
    betas : pair of float
        Adam's decay rates for the slices.
    engine : {"auto", "direct", "cuda", "cuda32"}
        Where terms of pairs are computed: on the CPU, or on a GPU in double or single precision.

    Attributes
    ----------
    steps : int
        Number of calls so far.

    See Also
    --------
    KernelSteinLoss : The same with the kernelized Stein discrepancy.
    LearnedSteinLoss : The same with a neural critic.
    fastsksd.sksd_value_and_grad : Value and gradients for given slices.

    References
    ----------
    .. [1] W. Gong, K. Zhang, Y. Li and J. M. Hernández-Lobato, "Active Slices for Sliced Stein
       Discrepancy", ICML 2021.

    Examples
    --------
    Any model will do, here ``N(mean, I)`` with score ``mean - x``. The gradient in its parameter
    follows by the chain rule.

    >>> import numpy as np
    >>> from fastsksd.learning import SlicedSteinLoss
    >>> rng = np.random.default_rng(0)
    >>> data = rng.standard_normal((1000, 3)) + [1.0, 0.0, -1.0]
    >>> mean = np.zeros(3)
    >>> loss = SlicedSteinLoss(3, fresh=lambda: (data[:200], mean - data[:200]), every=50)
    >>> for _ in range(150):
    ...     x = data[rng.choice(1000, 100, replace=False)]
    ...     value, by_score = loss(x, mean - x)
    ...     mean = mean - 0.1 * by_score.sum(axis=0)
    >>> bool(np.abs(mean - data.mean(axis=0)).max() < 0.15)
    True
    """

    def __init__(
        self,
        d: int,
        *,
        fresh: Callable[[], tuple[ArrayLike, Score]] | None = None,
        every: int = _EVERY,
        estimator: str = "ke",
        score_q: Score | None = None,
        basis: ArrayLike | None = None,
        debias: bool = False,
        refine: Literal["g", "rg"] | None = "g",
        kernel: KernelLike = "rbf",
        statistic: Statistic = "u",
        learning_rate: float = _RATE,
        betas: tuple[float, float] = _BETAS,
        engine: Literal["auto", "direct", "cuda", "cuda32"] = "auto",
    ) -> None:
        check_pairwise(engine)
        self.engine = engine
        self.d = check_integer("d", d, 1)
        if fresh is not None and not callable(fresh):
            raise ArgumentTypeError(
                "fresh", f"must be a function that returns (x, score), not {type(fresh).__name__}"
            )
        self.fresh = fresh
        self.every = check_integer("every", every, 1)
        if fresh is None and self.every != _EVERY:
            raise ArgumentError("every", "has no use without ", Option("fresh"), "; leave it out")
        self.estimator = check_choice("estimator", estimator, ESTIMATORS)
        if estimator == "exact" and score_q is None:
            raise ArgumentError(
                "score_q", "is needed for estimator='exact': the score of the samples' distribution"
            )
        if score_q is not None and estimator != "exact":
            raise ArgumentError("score_q", f"has no use for estimator={estimator!r}; leave it out")
        self.score_q = score_q if score_q is None else check_score(score_q, "score_q")
        self.basis = check_basis(basis, None, self.d)
        self.debias = check_flag("debias", debias)
        check_debias(debias, estimator, usual=False)
        if refine is not None:
            check_choice("refine", refine, ("g", "rg"))
        self.refine = refine
        self.kernel = as_kernel(kernel)
        check_choice("statistic", statistic, ("u", "v"))
        self.statistic = statistic
        self.learning_rate = check_number("learning_rate", learning_rate, 0.0, strict=True)
        self.betas = check_betas(betas)
        for name, value, usual in (
            ("learning_rate", self.learning_rate, _RATE),
            ("betas", self.betas, _BETAS),
        ):
            if refine is None and value != usual:
                raise ArgumentError(name, "has no use with refine=None; leave it out")
        self.steps = 0
        self._refreshed = -1  # the step before which `fresh` was called; its batch may have failed
        r = np.eye(self.d) if self.basis is None else self.basis
        self._begin(Slices(r, r))

    def __repr__(self) -> str:
        names = ("d", "every", "estimator", "refine", "statistic", "steps")
        return f"SlicedSteinLoss({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def slices(self) -> Slices:
        """Slices of the next call."""
        return self._ascent.slices

    @door
    def __call__(self, x: ArrayLike, score: Score) -> tuple[float, Array]:
        x = check_samples(x, min_rows=2, d=self.d)
        scores = evaluate_score(check_score(score), x)
        due = self.steps % self.every == 0 and self.steps != self._refreshed
        if self.fresh is not None and due:
            self._refresh_from(self.fresh)
            self._refreshed = self.steps
        value, gradient = self._value_and_gradient(x, scores)
        self.steps += 1
        return value, gradient

    def _value_and_gradient(self, x: Array, scores: Array) -> tuple[float, Array]:
        if self.refine is not None:
            return self._step(x, scores)
        value, gradients = sksd_value_and_grad(
            x,
            scores,
            self.slices,
            kernel=self.kernel,
            statistic=self.statistic,
            wrt="score",
            engine=self.engine,
        )
        return value, gradients["score"]

    def _step(self, x: Array, scores: Array) -> tuple[float, Array]:
        """Value and gradient before a step of the slices; no step where they overflow."""
        before = {name: array.copy() for name, array in self._ascent.state.items()}
        values, gradient = self._ascent.step(x, scores)
        try:
            check_statistic(values)
            check_statistic(gradient)
            for array in self._ascent.state.values():
                check_statistic(array)
        except Overflow:
            for name, array in self._ascent.state.items():
                array[...] = before[name]
            raise
        return float(values.sum()), gradient

    @door
    def refresh(self, x: ArrayLike, score: Score) -> None:
        """Find new slices by Algorithm 1; Adam starts again from them.

        Parameters
        ----------
        x : (n, d) array
            Samples.
        score : (n, d) array, callable or model
            Score of the model.
        """
        x = check_samples(x, min_rows=3, d=self.d)
        difference = score_difference(
            x,
            check_score(score),
            estimator=self.estimator,
            score_q=self.score_q,
            debias=self.debias or not ESTIMATORS[self.estimator].has_noise,
            engine=self.engine,
        )
        self._begin(
            find_slices(
                difference,
                basis=self.basis,
                debias=self.debias,
                gaps=False,
                max_steps=_LANCZOS_STEPS,
            )
        )

    def state(self) -> dict[str, np.ndarray]:
        return {
            "calls": np.array(self.steps),
            **{name: array.copy() for name, array in self._ascent.state.items()},
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.steps, self._refreshed = int(state["calls"]), -1
        self._begin(Slices(state["r"], state["g"]))
        for name, array in self._ascent.state.items():
            array[...] = state[name]

    def _begin(self, slices: Slices) -> None:
        self._ascent = Ascent(
            slices,
            kernel=self.kernel,
            statistic=self.statistic,
            update=self.refine or "g",
            learning_rate=self.learning_rate,
            betas=self.betas,
            engine=self.engine,
        )

    def _refresh_from(self, fresh: Callable[[], tuple[ArrayLike, Score]]) -> None:
        pair = as_the_callers(fresh)()
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ArgumentTypeError(
                "fresh", f"must return a pair (x, score); it returned {type(pair).__name__}"
            )
        self.refresh(*pair)


class KernelSteinLoss(SteinLoss):
    """Kernelized Stein discrepancy (KSD) as a training loss, called like `SlicedSteinLoss`.

    Parameters
    ----------
    kernel : {"rbf", "imq"} or kernel object
        Kernel of the whole vector. Its bandwidth is by default the median distance between the
        samples of each call, and is held constant in the gradient.
    statistic : {"u", "v"}
        U-statistic or V-statistic.

    See Also
    --------
    SlicedSteinLoss : The same with the sliced discrepancy.
    fastsksd.ksd : The discrepancy alone.

    References
    ----------
    .. [1] Q. Liu, J. D. Lee and M. I. Jordan, "A Kernelized Stein Discrepancy for Goodness-of-fit
       Tests", ICML 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd.learning import KernelSteinLoss
    >>> x = np.random.default_rng(0).standard_normal((200, 2)) + 1.0
    >>> value, by_score = KernelSteinLoss()(x, -x)
    >>> bool(np.all(by_score.sum(axis=0) < 0))
    True
    """

    def __init__(self, *, kernel: KernelLike = "rbf", statistic: Statistic = "u") -> None:
        self.kernel = as_kernel(kernel)
        check_one_bandwidth(self.kernel, "KSD")
        check_choice("statistic", statistic, ("u", "v"))
        self.statistic = statistic

    def __repr__(self) -> str:
        return f"KernelSteinLoss(kernel={self.kernel!r}, statistic={self.statistic!r})"

    @door
    def __call__(self, x: ArrayLike, score: Score) -> tuple[float, Array]:
        x = check_samples(x, min_rows=2)
        scores = evaluate_score(check_score(score), x)
        h = one_bandwidth(self.kernel, x, "KSD")
        return _ksd_value_and_grad(self.kernel.name, x, scores, h, self.statistic)


def _ksd_value_and_grad(
    kernel: str, x: Array, scores: Array, h: float, statistic: str
) -> tuple[float, Array]:
    """KSD of a batch and its gradient in the scores.

    The Stein kernel is ``k s.s' + w (s - s').(x - x') + trace``, where ``grad' k = w (x - x')``.
    """
    n, d = x.shape
    x, s = (x - np.median(x, axis=0)) / h, scores * h  # in units of h
    x_squares, s_dot_x = np.einsum("id,id->i", x, x), np.einsum("id,id->i", s, x)
    squares = np.maximum(x_squares[:, None] + x_squares - 2.0 * product(x, x), 0.0)
    if kernel == "rbf":
        w = k = np.exp(-0.5 * squares)
        trace = (d - squares) * k
    else:
        k = 1.0 / np.sqrt(1.0 + squares)
        w = k**3
        trace = (d - 3.0 * k**2 * squares) * w
    cross = product(s, x)
    terms = k * product(s, s) + w * (s_dot_x[:, None] + s_dot_x - cross - cross.T) + trace
    weight = 1.0 / n**2
    if statistic == "u":
        weight = 1.0 / (n * (n - 1.0))
        k = k - np.eye(n)
        terms[np.diag_indices(n)] = 0.0
    gradient = product(k, s.T) + w.sum(axis=1)[:, None] * x - product(w, x.T)
    value = check_statistic(np.asarray(weight * terms.sum() / h**2))
    return float(value), check_statistic(2.0 * weight / h * gradient)
