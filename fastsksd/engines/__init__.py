"""Engines: how the sums over pairs are computed. `gof_test` and `sksd` see only the interface of `pairs.PairTerms`."""

from .._validate import check_choice
from .direct import DirectEngine

ENGINES = {"direct": DirectEngine}


def choose_engine(engine):
    """The engine class for a name; "auto" leaves the choice to the package."""
    check_choice("engine", engine, ("auto", *ENGINES))
    return DirectEngine if engine == "auto" else ENGINES[engine]
