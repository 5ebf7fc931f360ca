"""Training by Stein discrepancies: losses for any model with a score, and the ICA experiment."""

from .ica import METHODS, ICAProblem, fit_ica, ica_problem
from .loss import KernelSteinLoss, SlicedSteinLoss
from .lsd import LearnedSteinLoss
from .training import Diverged, ICAFit, Trace

__all__ = [
    "METHODS",
    "Diverged",
    "ICAFit",
    "ICAProblem",
    "KernelSteinLoss",
    "LearnedSteinLoss",
    "SlicedSteinLoss",
    "Trace",
    "fit_ica",
    "ica_problem",
]
