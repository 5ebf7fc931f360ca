"""Training by Stein discrepancies: losses for any model with a score, and the ICA experiment."""

from .ica import METHODS, Diverged, ICAFit, ICAProblem, Trace, fit_ica, ica_problem
from .loss import KernelSteinLoss, SlicedSteinLoss
from .lsd import LearnedSteinLoss

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
