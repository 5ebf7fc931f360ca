"""All pictures of a test on one page."""

from __future__ import annotations

import base64
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._doors import interruptible
from ..effects import effects_of, has_effects
from ..report.explain import is_explicable, strongest_witness
from .canvas import BARS, as_png, new_figure
from .explained import draw_witness, samples, slices, witness
from .forest import effects
from .outcome import members, null

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..result import GofResult


@interruptible
def report(result: GofResult, *, names: Sequence[str] | None = None, alpha: float = 0.05) -> Figure:
    """Draw all pictures of one test on a page, see `GofResult.plot`.

    Parameters
    ----------
    result : GofResult
        Of any method.
    names : sequence of str, optional
        Names of the coordinates; by default those that the samples came with.
    alpha : float
        Level of the test.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that pyplot does not know of.

    Examples
    --------
    >>> import numpy as np, fastsksd as fs
    >>> x = np.random.default_rng(0).standard_normal((100, 2)) * [0.5, 1.0]
    >>> figure = fs.plot.report(fs.gof_test(x, np.negative, n_resamples=99, rng=0))
    >>> len(figure.axes) >= 4
    True
    """
    explanation = result.explain(names=names, n_slices=BARS) if is_explicable(result) else None
    first = members if result.null_distribution.size == 0 else null
    panels = [lambda ax: first(result, ax=ax, alpha=alpha)]
    if explanation is not None and explanation.slices:
        panels += [
            lambda ax: slices(explanation, ax=ax, alpha=alpha),
            lambda ax: witness(explanation, ax=ax),
        ]
    if explanation is not None:
        panels.append(lambda ax: samples(explanation, ax=ax))
    if has_effects(result):
        found = result.effects if names is None else effects_of(result, names=names)
        panels.append(lambda ax: effects(found, ax=ax))
    rows = (len(panels) + 1) // 2
    figure = new_figure((10.0 if len(panels) > 1 else 5.5, 3.6 * rows + 0.4))
    columns = min(len(panels), 2)
    for k, draw in enumerate(panels, start=1):
        last = k == len(panels)  # an odd one is as wide as the page
        draw(figure.add_subplot(rows, columns, (k, rows * columns) if last else k))
    title = (
        f"The model is {result.verdict_at(alpha)} at level {alpha:g} "
        f"(p-value {result.pvalue:.3g}, {result.n_test} samples)"
    )
    if result.draws_needed:
        title = f"The {'samples' if result.weighted else 'chains'} are {result.verdict_at(alpha)}"
    figure.suptitle(textwrap.fill(title, 90 if len(panels) > 1 else 45))
    return figure


def inline_figure(result: GofResult) -> str:
    """A small picture of a result as an HTML image.

    It is an ornament: empty where matplotlib is missing or anything goes wrong.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            slices = result.slices if is_explicable(result) else None
            figure = new_figure((4.5 if slices is None else 8.0, 2.8))
            axes = np.ravel(np.asarray(figure.subplots(1, 1 if slices is None else 2)))
            (members if result.null_distribution.size == 0 else null)(result, ax=axes[0])
            if slices is not None:
                draw_witness(axes[1], *strongest_witness(result, slices)).set_title(
                    "Witness of the strongest slice", fontsize="medium"
                )
            png = base64.b64encode(as_png(figure, 80)).decode()
            alt = "null distribution and witness"
            return f"<img alt='{alt}' src='data:image/png;base64,{png}'>"
    except Exception:
        return ""
