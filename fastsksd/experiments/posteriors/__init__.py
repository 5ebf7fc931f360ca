"""Posteriors of real data sets, with their scores written by hand."""

from __future__ import annotations

from functools import cache

from .base import Posterior
from .data import DataMissing
from .hierarchical import Batches, EightSchools, EightSchoolsNonCentred, Growth
from .regression import Logistic, NegativeBinomial, Poisson, Robust, Softmax
from .series import Garch, GaussianProcess, Mixture, RandomWalk

__all__ = ["POSTERIORS", "SHIPPED", "DataMissing", "EightSchoolsNonCentred", "Posterior", "load"]

# Those with their data in this package, and those that need scikit-learn for it.
SHIPPED: dict[str, type[Posterior]] = {
    "eight schools, centred": EightSchools,
    "eight schools, non-centred": EightSchoolsNonCentred,
    "dyestuff, batches": Batches,
    "growth, hierarchical regression": Growth,
    "discoveries, negative binomial": NegativeBinomial,
    "inflation, GARCH": Garch,
    "coal mines, Gaussian process": GaussianProcess,
    "coal mines, random walk": RandomWalk,
}
POSTERIORS: dict[str, type[Posterior]] = {
    **SHIPPED,
    "breast cancer, logistic": Logistic,
    "wine, softmax": Softmax,
    "fitness, Poisson": Poisson,
    "diabetes, robust regression": Robust,
    "iris, mixture": Mixture,
}


@cache
def load(name: str) -> Posterior:
    """A posterior by its name."""
    return POSTERIORS[name]()
