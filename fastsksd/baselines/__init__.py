"""Other tests of the field, through `gof_test`.

``method="rfsd"`` has the published settings. ``method=RFSD(n_features=20)`` has others.
"""

from __future__ import annotations

from .._validate import check_choice
from .base import Baseline
from .fssd import FSSD
from .ksd import KSD
from .ksdagg import KSDAgg
from .mmd import MMD
from .psd import PSD
from .rfsd import RFSD

__all__ = ["FSSD", "KSD", "MMD", "PSD", "RFSD", "KSDAgg"]

BASELINES: dict[str, type[Baseline]] = {
    "ksd": KSD,
    "rfsd": RFSD,
    "fssd": FSSD,
    "mmd": MMD,
    "ksdagg": KSDAgg,
    "psd": PSD,
}
METHODS = ("sksd", *BASELINES)


def as_baseline(method: str | Baseline) -> Baseline | None:
    """The baseline for a name or an object; None for the sliced discrepancy itself."""
    if isinstance(method, Baseline):
        return method
    check_choice("method", method, METHODS)
    return None if method == "sksd" else BASELINES[method]()
