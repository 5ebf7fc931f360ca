"""Refinement of slices by gradient ascent on the discrepancy ("GO" in the paper).

Adam climbs the statistic of minibatches. `engines.climb` takes the steps, many minibatches in one
call, so that Python is seldom returned to.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from ._doors import door
from ._progress import ProgressBar
from ._strict import as_the_callers
from ._typing import Array, ArrayLike, EngineName, KernelLike, Rng, Score, SlicesLike, Statistic
from ._validate import (
    ArgumentError,
    ArgumentTypeError,
    check_betas,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_rng,
    check_samples,
    check_score,
    evaluate_score,
)
from .compute.linalg import product
from .compute.projections import unit_rows
from .engines import check_pairwise, climb, session
from .engines.ascent import Settings, State
from .kernels import as_kernel
from .slices import Slices, as_slices

_PAIRS_PER_CALL = 50_000_000  # about a tenth of a second; Ctrl-C works between calls


class Ascent:
    """Adam climbing the statistic of given slices, batch by batch, with its state.

    Adversarial training needs it: a model descends along the gradient in the scores while its
    slices climb. For the parameters see `refine_slices`.
    """

    def __init__(
        self,
        slices: Slices,
        *,
        kernel: KernelLike = "rbf",
        statistic: Statistic = "v",
        update: Literal["g", "rg"] = "g",
        parametrisation: Literal["unit", "raw"] = "unit",
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.99),
        floor: float = 0.0,
        engine: EngineName = "direct",
    ):
        kernel = as_kernel(kernel)
        m, d = slices.r.shape
        self.m = m
        self._engine = engine
        self._begin = slices
        unit = parametrisation == "unit"
        length = 1.0 if unit else math.sqrt(d)
        given = (
            np.zeros(m)
            if isinstance(kernel.bandwidth, str)
            else kernel.bandwidths(np.empty((m, 0)))
        )
        self._settings = Settings(
            kernel.code, statistic == "v", update == "rg", unit, float(learning_rate), *betas, floor
        )
        self._state = State(
            length * slices.r,
            length * slices.g,
            np.zeros((2, 2, m, d)),
            np.zeros(m, np.int64),
            given,
        )

    @property
    def slices(self) -> Slices:
        """The directions reached."""
        begin = self._begin
        if self._settings.both:
            return Slices(unit_rows(self._state.r), unit_rows(self._state.g))
        return Slices(begin.r, unit_rows(self._state.g), begin.r_values)

    @property
    def state(self) -> dict[str, np.ndarray]:
        """Parameters, moments, numbers of steps and bandwidths by name.

        The arrays may be saved, or written to in order to go on from saved ones.
        """
        return self._state._asdict()

    def run(self, x: Array, scores: Array, order: np.ndarray, ends: np.ndarray) -> Array:
        """One step for each minibatch ``order[ends[b] : ends[b + 1]]``.

        Returns
        -------
        (batches, m) array
            Values of the statistic before each step.
        """
        return self._climb(x, scores, order, ends)[0]

    def step(self, x: Array, scores: Array) -> tuple[Array, Array]:
        """One step on one batch.

        Returns
        -------
        values : (m,) array
            Values of the statistic before the step.
        gradient : (n, d) array
            Gradient of their sum in the scores, before the step.
        """
        n = x.shape[0]
        r = unit_rows(self._state.r)
        values, by_s = self._climb(x, scores, np.arange(n), np.array([0, n]))
        return values[0], product(by_s.T, r.T)

    def _climb(self, x, scores, order, ends):
        return climb(self._engine, self._settings, self._state, x, scores, order, ends)


@door
def refine_slices(
    x: ArrayLike,
    score: Score,
    slices: SlicesLike,
    *,
    epochs: int = 50,
    batch_size: int = 100,
    learning_rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.99),
    update: Literal["g", "rg"] = "g",
    kernel: KernelLike = "rbf",
    statistic: Statistic = "v",
    parametrisation: Literal["unit", "raw"] = "unit",
    patience: int | None = None,
    callback: Callable[[int, float], Any] | None = None,
    engine: EngineName = "auto",
    rng: Rng = None,
    progress: bool = False,
) -> Slices:
    """Refine slices by gradient ascent on the discrepancy ("GO" in the paper).

    Adam climbs the statistic of minibatches, which are drawn anew in each epoch. The median
    bandwidth of each minibatch counts as a constant.

    Parameters
    ----------
    x : (n, d) array
        Training samples from q. A test must not use them again for its statistic.
    score : (n, d) array, callable or model
        Score of p.
    slices : Slices or pair (r, g)
        Where to begin, for example active or random slices.
    epochs : int
        How often each sample is used; 0 returns the slices as they are.
    batch_size : int
        Samples of a minibatch, at most n. The remainder at the end of an epoch is a smaller
        minibatch; a single sample joins the minibatch before it.
    learning_rate : float
        Adam's step size; the default is the paper's.
    betas : pair of float
        Adam's decay rates of the first and second moments; the defaults are the paper's.
    update : {"g", "rg"}
        Which directions climb:

        "g"
            The input directions g alone (SKSD-g).
        "rg"
            The score directions r as well (SKSD-rg).
    kernel : {"rbf", "imq"} or kernel object
        One-dimensional kernel.
    statistic : {"v", "u"}
        What is climbed:

        "v"
            The V-statistic, as in the published code. Its terms i = j draw g towards r and r
            towards large scores.
        "u"
            The unbiased U-statistic.
    parametrisation : {"unit", "raw"}
        How directions move on the sphere:

        "unit"
            The gradient is projected on the sphere's tangent, and the vector is brought back to
            length 1 after each step.
        "raw"
            The slice is the direction of a free vector that begins with length sqrt(d). In the
            published code it is a Gaussian draw. Steps on the sphere are sqrt(d) times smaller.
    patience : int, optional
        Stop after so many epochs without a higher value than before.
    callback : callable, optional
        Called as ``callback(epoch, value)`` after each epoch. Epochs are counted from 1. The value
        is the mean over minibatches of the statistic, summed over slices.
    engine : {"auto", "direct", "cuda", "cuda32"}
        Terms of pairs on the CPU or on a GPU, in double or single precision. A GPU pays only for
        minibatches of thousands of samples.
    rng : None, int or numpy.random.Generator
        Order of the samples. The same seed gives the same result for any number of Numba threads.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Slices
        Refined slices. `r_values` are kept when r is; the eigenvalues of g no longer apply.

    Raises
    ------
    ValueError
        If an option is out of range, or if the statistic overflows on the way.

    See Also
    --------
    active_slices : Slices by two eigenproblems, a good start.
    gof_test : The test; its option `refine` calls this function on the training samples.

    Notes
    -----
    A slice along which a minibatch does not vary has no bandwidth there. It skips that step.

    The published code keeps a vector of length about sqrt(d) as Adam's parameter, which shrinks the
    steps on the sphere by sqrt(d). With unit vectors the same number of epochs goes much further.

    References
    ----------
    .. [1] W. Gong, Y. Li and J. M. Hernandez-Lobato, "Sliced kernelized Stein discrepancy", ICLR,
       2021.
    .. [2] D. P. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR, 2015.

    Examples
    --------
    A model that is too wide along the first of five coordinates, seen from a random direction g:

    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((500, 5)) * [0.5, 1, 1, 1, 1]
    >>> start = fs.Slices(np.eye(5)[:1], fs.random_slices(5, 1, rng=0).g)
    >>> slices = fs.refine_slices(x, lambda x: -x, start, epochs=100, learning_rate=0.01, rng=0)
    >>> bool(abs(slices.g[0, 0]) > 0.95)
    True
    """
    x = check_samples(x, min_rows=2)
    n, d = x.shape
    slices = as_slices(slices, d)
    epochs = check_integer("epochs", epochs, 0)
    batch_size = check_integer("batch_size", batch_size, 2)
    if batch_size > n:
        raise ArgumentError(
            "batch_size", f"must be at most the number of samples, {n}; got {batch_size}"
        )
    learning_rate = check_number("learning_rate", learning_rate, 0.0, strict=True)
    betas = check_betas(betas)
    check_choice("update", update, ("g", "rg"))
    check_choice("statistic", statistic, ("u", "v"))
    check_choice("parametrisation", parametrisation, ("unit", "raw"))
    patience = epochs if patience is None else check_integer("patience", patience, 1)
    shown = check_flag("progress", progress)
    if callback is not None and not callable(callback):
        raise ArgumentTypeError(
            "callback", f"must be a function of (epoch, value), not {type(callback).__name__}"
        )
    check_pairwise(engine)
    rng = check_rng(rng)
    scores = evaluate_score(check_score(score), x)
    ascent = Ascent(
        slices,
        kernel=kernel,
        statistic=statistic,
        update=update,
        parametrisation=parametrisation,
        learning_rate=learning_rate,
        betas=betas,
        floor=1e-13 * float(x.std(axis=0).max()),
        engine=engine,
    )
    if epochs == 0:
        return slices
    bar = ProgressBar("refining slices") if shown else None
    best, since = -math.inf, 0
    with session(x, scores):
        for epoch, value in climbing(ascent, x, scores, epochs, batch_size, rng):
            best, since = (value, 0) if value > best else (best, since + 1)
            last = epoch == epochs or since >= patience
            if bar is not None:
                bar(epoch, epoch if last else epochs)
            if callback is not None:
                as_the_callers(callback)(epoch, value)
            if last:
                break
    return ascent.slices


# What `gof_test` may pass on.
OPTIONS = frozenset(inspect.signature(refine_slices).parameters) - {
    *("x", "score", "slices", "kernel", "rng")
}


def climbing(
    ascent: Ascent, x: Array, scores: Array, epochs: int, batch_size: int, rng: np.random.Generator
) -> Iterator[tuple[int, float]]:
    """Climb epoch by epoch: the number of each, from 1, and the mean value of its minibatches."""
    ends = _bounds(len(x), batch_size)
    for epoch in range(1, epochs + 1):
        yield epoch, _epoch(ascent, x, scores, rng.permutation(len(x)), ends, epoch)


def _bounds(n: int, batch_size: int) -> np.ndarray:
    """Where minibatches begin and end; a last sample that is alone joins the one before."""
    ends = np.append(np.arange(0, n, batch_size), n)
    return np.delete(ends, -2) if n % batch_size == 1 else ends


def _epoch(
    ascent: Ascent, x: Array, scores: Array, order: np.ndarray, ends: np.ndarray, epoch: int
) -> float:
    """All minibatches, a few at a time; the mean of their values."""
    at_once = max(1, 2 * _PAIRS_PER_CALL // (ascent.m * int(np.diff(ends).max()) ** 2))
    values: list[Array] = []
    for first in range(0, ends.size - 1, at_once):
        values.append(ascent.run(x, scores, order, ends[first : first + at_once + 1]).sum(axis=1))
        off = np.flatnonzero(~np.isfinite(values[-1]))
        if off.size:
            raise ValueError(
                f"the statistic is no longer finite in minibatch {first + off[0] + 1} of epoch "
                f"{epoch}: `x` or `score` holds numbers so large that it overflows, or "
                "`learning_rate` is too high."
            )
    return float(np.concatenate(values).mean())
