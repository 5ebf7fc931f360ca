"""Other tests of the field, through the door of `gof_test`: ``method="rfsd"`` with the published settings, ``method=RFSD(n_features=20)`` with others."""

from .._validate import check_choice
from .base import Baseline
from .fssd import FSSD
from .ksd import KSD, KSDAgg
from .mmd import MMD
from .rfsd import RFSD

__all__ = ["FSSD", "KSD", "MMD", "RFSD", "KSDAgg"]

BASELINES = {"ksd": KSD, "rfsd": RFSD, "fssd": FSSD, "mmd": MMD, "ksdagg": KSDAgg}
METHODS = ("sksd", *BASELINES)


def as_baseline(method):
    """The baseline for a name or an object; None for the sliced discrepancy itself."""
    if isinstance(method, Baseline):
        return method
    check_choice("method", method, METHODS)
    return None if method == "sksd" else BASELINES[method]()
