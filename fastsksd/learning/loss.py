"""Stein discrepancies as training losses: called with samples and a model's scores there, they return the value and its gradient
in the scores. No density, no normalising constant and no sample of the model is needed.

`SlicedSteinLoss` is the paper's recipe (Section "Model learning"): Algorithm 1 finds the slices afresh every so many steps, and
between two such refreshes g climbs while the model descends. `KernelSteinLoss` is the KSD, for comparison.
"""

import numpy as np

from .._validate import (
    check_betas,
    check_choice,
    check_integer,
    check_number,
    check_samples,
    check_score,
    evaluate_score,
)
from ..compute.linalg import product
from ..compute.medians import median_distance
from ..discrepancy import sksd_value_and_grad
from ..kernels import as_kernel
from ..refine import Ascent
from ..score_difference import ESTIMATORS, score_difference
from ..slices import Slices, check_basis, find_slices

_LANCZOS_STEPS = 6  # for g, which climbs afterwards anyway


class SlicedSteinLoss:
    """Sliced Stein discrepancy with slices that follow the model in training.

    Parameters
    ----------
    d : int
        Dimension of the samples.
    fresh : callable, optional
        Called without arguments every `every` steps, before the first among them; returns ``(x, score)``, samples and the model's
        score (an array there, a function or a model) for Algorithm 1. Without it the slices begin as the coordinates, r = g, and
        Algorithm 1 runs only when `refresh` is called.
    every : int
        Steps between refreshes.
    estimator, score_q, basis, debias
        As in `active_slices`; with ``debias=False``, the paper's estimate.
    refine : {"g", "rg"} or None
        What climbs, one step of Adam for each call: g, both r and g, or nothing.
    kernel : {"rbf", "imq"} or kernel object
    statistic : {"u", "v"}
        The V-statistic, the default of the published script, adds ``mean |s.r|^2 / n`` to the loss of a batch of n for each slice,
        and so trains towards another model than the data's, however small the steps. The U-statistic does not, but is noisier and
        asks for smaller steps.
    learning_rate, betas : float, pair of float
        Of the climb.
    engine : {"auto", "direct", "cuda", "cuda32"}
        Terms of pairs on the CPU or on a GPU, in double or single precision.

    Attributes
    ----------
    slices : Slices
        Those of the next call.
    steps : int
        Calls so far.

    Examples
    --------
    A model of the user's own, here ``N(mean, I)``, whose score is ``mean - x``; its parameter follows by the chain rule:

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
        d,
        *,
        fresh=None,
        every=200,
        estimator="ke",
        score_q=None,
        basis=None,
        debias=False,
        refine="g",
        kernel="rbf",
        statistic="u",
        learning_rate=1e-3,
        betas=(0.9, 0.99),
        engine="auto",
    ):
        self.engine = engine
        self.d = check_integer("d", d, 1)
        if fresh is not None and not callable(fresh):
            raise TypeError(
                f"`fresh` must be a function that returns (x, score), not {type(fresh).__name__}."
            )
        self.fresh = fresh
        self.every = check_integer("every", every, 1)
        self.estimator = check_choice("estimator", estimator, ESTIMATORS)
        if estimator == "exact" and score_q is None:
            raise ValueError(
                "`score_q`, the score of the samples' own law, is needed for estimator='exact'."
            )
        self.score_q = score_q
        self.basis = check_basis(basis, None, self.d)
        self.debias = debias
        self.refine = refine if refine is None else check_choice("refine", refine, ("g", "rg"))
        self.kernel = as_kernel(kernel)
        self.statistic = check_choice("statistic", statistic, ("u", "v"))
        self.learning_rate = check_number("learning_rate", learning_rate, 0.0, strict=True)
        self.betas = check_betas(betas)
        self.steps = 0
        r = np.eye(self.d) if self.basis is None else self.basis
        self._begin(Slices(r, r))

    def __repr__(self):
        names = ("d", "every", "estimator", "refine", "statistic", "steps")
        return f"SlicedSteinLoss({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    @property
    def slices(self):
        return self._ascent.slices

    def __call__(self, x, score):
        """Value of the loss at samples `x`, a float, and its gradient in the scores there, (n, d). Then the slices climb."""
        x = check_samples(x, min_rows=2, d=self.d)
        scores = evaluate_score(check_score(score), x)
        if self.fresh is not None and self.steps % self.every == 0:
            self._refresh_from_user()
        self.steps += 1
        if self.refine is not None:
            values, gradient = self._ascent.step(x, scores)
            return float(values.sum()), gradient
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

    def refresh(self, x, score):
        """New slices by Algorithm 1 from samples and the model's score; the climb begins anew."""
        x = check_samples(x, min_rows=3, d=self.d)
        difference = score_difference(
            x,
            check_score(score),
            estimator=self.estimator,
            score_q=self.score_q,
            debias=self.debias,
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

    def state(self):
        """Arrays from which `restore` makes a loss of the same settings go on as this one would."""
        return {
            "calls": np.array(self.steps),
            **{name: array.copy() for name, array in self._ascent.state.items()},
        }

    def restore(self, state):
        """Go on from what `state` returned."""
        self.steps = int(state["calls"])
        self._begin(Slices(state["r"], state["g"]))
        for name, array in self._ascent.state.items():
            array[...] = state[name]

    def _begin(self, slices):
        self._ascent = Ascent(
            slices,
            kernel=self.kernel,
            statistic=self.statistic,
            update=self.refine or "g",
            learning_rate=self.learning_rate,
            betas=self.betas,
            engine=self.engine,
        )

    def _refresh_from_user(self):
        pair = self.fresh()
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"`fresh` must return a pair (x, score); it returned {type(pair).__name__}."
            )
        self.refresh(*pair)


class KernelSteinLoss:
    """Kernelized Stein discrepancy (KSD) with a multivariate kernel, called like `SlicedSteinLoss`.

    Parameters
    ----------
    kernel : {"rbf", "imq"} or kernel object
        Its bandwidth is the median distance between the samples of each call unless given, and counts as a constant.
    statistic : {"u", "v"}

    Examples
    --------
    >>> import numpy as np
    >>> from fastsksd.learning import KernelSteinLoss
    >>> x = np.random.default_rng(0).standard_normal((200, 2)) + 1.0
    >>> value, by_score = KernelSteinLoss()(x, -x)
    >>> bool(np.all(by_score.sum(axis=0) < 0))
    True
    """

    def __init__(self, *, kernel="rbf", statistic="u"):
        self.kernel = as_kernel(kernel)
        if np.ndim(self.kernel.bandwidth):
            raise ValueError("`kernel` of the KSD must have one bandwidth; got one per slice.")
        self.statistic = check_choice("statistic", statistic, ("u", "v"))

    def __repr__(self):
        return f"KernelSteinLoss(kernel={self.kernel!r}, statistic={self.statistic!r})"

    def __call__(self, x, score):
        """Value of the loss at samples `x`, a float, and its gradient in the scores there, (n, d)."""
        x = check_samples(x, min_rows=2)
        scores = evaluate_score(check_score(score), x)
        h = median_distance(x) if self.kernel.bandwidth == "median" else self.kernel.bandwidth
        return _ksd_value_and_grad(self.kernel.name, x, scores, h, self.statistic)

    def state(self):
        """No array is needed to go on."""
        return {}

    def restore(self, state):
        """Go on from what `state` returned."""


def _ksd_value_and_grad(kernel, x, scores, h, statistic):
    """KSD of a batch and its gradient in the scores: ``u_p = k s.s' + w (s - s').(x - x') + trace``, ``grad' k = w (x - x')``."""
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
    return float(weight * terms.sum() / h**2), 2.0 * weight / h * gradient
