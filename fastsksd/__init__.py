"""Sliced kernelized Stein discrepancies: fast goodness-of-fit tests.

For samples and a model known through its score.
"""

from . import baselines, interop, learning, models, plot, score_difference
from ._version import __version__
from .baselines.mmd import mmd
from .comparison import Comparison, compare
from .discrepancy import (
    Estimate,
    integrated_sksd,
    ksd,
    orthogonal_sksd,
    psd,
    sksd,
    sksd_value_and_grad,
)
from .effects import Effects, effect_sizes
from .gof import gof_test
from .kernels import IMQ, RBF
from .models import Model
from .modes import ModeWeights, mode_weights
from .refine import refine_slices
from .report.explanation import Explanation
from .result import GofResult
from .scale.accumulator import Accumulator
from .scale.batch import BatchError, BatchInterrupted, BatchResult, gof_batch
from .scale.family_accumulator import FamilyAccumulator
from .scale.refits import Refit, RefitsInterrupted
from .scale.streaming import gof_stream
from .slices import Slices, active_slices, random_slices

__all__ = [
    "IMQ",
    "RBF",
    "Accumulator",
    "BatchError",
    "BatchInterrupted",
    "BatchResult",
    "Comparison",
    "Effects",
    "Estimate",
    "Explanation",
    "FamilyAccumulator",
    "GofResult",
    "ModeWeights",
    "Model",
    "Refit",
    "RefitsInterrupted",
    "Slices",
    "__version__",
    "active_slices",
    "baselines",
    "compare",
    "effect_sizes",
    "gof_batch",
    "gof_stream",
    "gof_test",
    "integrated_sksd",
    "interop",
    "ksd",
    "learning",
    "mmd",
    "mode_weights",
    "models",
    "orthogonal_sksd",
    "plot",
    "psd",
    "random_slices",
    "refine_slices",
    "score_difference",
    "sksd",
    "sksd_value_and_grad",
]
