"""Distributions with samples, scores and directional derivatives of the score.

They are the test-beds of the experiments and the targets of the command line. A score is
``s(x) = grad log p(x)``. Its derivative along a direction r is ``Hess(log p)(x) r``. The exact
slices of Algorithm 1 need nothing else from a model: the Hessian is symmetric, so that
``grad (r.s(x))`` is the same vector. These models know it in closed form. A bare score function is
differentiated by central differences.
"""

from .base import Model
from .gaussian import Gaussian, GaussianMixture
from .ica import ICA
from .independent import Laplace, StudentT
from .rbm import GaussBernRBM

__all__ = ["ICA", "GaussBernRBM", "Gaussian", "GaussianMixture", "Laplace", "Model", "StudentT"]
