"""Effect sizes: how far samples are shifted and stretched against the model, with intervals.

**What is estimated.** Along a direction g the samples are ``y = g.x``. If they are samples of the
model moved and stretched about its mean m, ``y = m + c (z - m) + delta`` with z from the model, the
shift is delta in standard deviations of the model along g, and the stretch is c. Both are about the
marginal of y, not about the conditional given other coordinates.

**How.** For every vector r with ``r.g = 1``, ``E[r.s | y]`` is the score of the model's marginal of
y. So ``t = r.s`` stands for that score, and the family of locations and scales along g has the
scores ``-t`` and ``-t y - 1``. One step of maximum likelihood with the empirical Fisher information
estimates shift and stretch together. Three details make it work in practice.

- *Direction.* r is the one whose t varies least: the coefficients of the regression of y on all
  scores. For a normal model t is then a function of y, whatever the samples: other coordinates do
  not matter. r is learnt on other samples than those it is used on (five folds).
- *Nuisance.* The scale of the whole vector, with score ``-s.x - d``, is estimated along with the
  two, as in a multivariate t distribution it is felt along every direction.
- *Step.* The scale's mean score enters as ``log mean(-t y)`` and the information is taken relative
  to its mean, unless that mean is uncertain by more than a quarter or half of it is due to
  outliers. The step is then exact for normal models at any shift and stretch, and for generalised
  normal models (Laplace among them) at any stretch. Elsewhere it is exact to first order.

As a regression on the scores this is the method of zero-variance control variates [1]_: the
estimate is the mean, or the spread, of the samples less what the model says it is.

**Shapes.** If samples and model differ in shape too, the step leads to the nearest member of the
family, which need not have the mean and deviation of the samples. A second method estimates mean
and deviation of the model by themselves, by control variates of up to the third degree, see
`fastsksd.procedure.model_moments`. It varies somewhat more. Where the two are apart by more than
two standard errors, intervals reach to both.

**Correlations** of pairs of coordinates are compared too (`Effects.correlations`): that of the
samples with that of the model, whose second moments come from control variates, see
`fastsksd.procedure.correlations`. They name faults that no marginal shows, such as the missing
correlation of a mean-field approximation. The intervals are those of the differences; those of all
pairs hold at once. All pairs of up to 20 coordinates are looked at, of more those 190 that seem
farthest off, with intervals that allow for all. For normal models the correlation of the model has
no error; elsewhere it is exact to first order. Of samples that lacked a correlation of the model,
or had one that it does not have, differences of 0.4 came out as 0.38 to 0.42 in t and log-gamma
models and as 0.32 and 0.38 in Laplace models, and those of 0.8 as 0.36 to 0.97, which are called
`rough`. Of a Laplace model with a correlation of 0.8 it was not found from independent samples.

**Where it is only a direction.** The study ``fastsksd reproduce effects`` compares estimates with
the truth, with one coordinate off.

- Normal models: no error but that of sampling, at stretches from 0.5 to 2 and shifts up to 1.
- t with 5 degrees of freedom, Laplace: stretches from 0.5 to 2 come out within 13%, shifts of 0.25
  and 0.5 within 16%, but shifts of 1 as 0.94 to 2.2. Shifts bring a stretch that is not there: of
  Laplace 1.1, 1.4 and 2.5, of t up to 1.2.
- Two modes: stretches from 0.8 to 1.25 and shifts up to 0.5 within 7%; a stretch of 2 as 2.3, and
  one of 0.5 as 0.26. Wrong weights of separate modes are hardly seen: rows along which the samples
  are in separate groups are called `rough`.
- Centred hierarchical models with a funnel (eight schools): log tau stretched or shifted on its own
  gives numbers, and signs, far from the truth, and other parameters seem to move too. Only the fact
  that something is wrong can be relied on.
- Many coordinates off at once are a large effect even if each is little: with all of 100
  coordinates of a multivariate t off by up to 0.1 deviations, stretches came out 0.07 too small.
- Samples that hardly correlate with the score along a direction (squared correlation below 0.35)
  mark such cases: log tau of the funnel, and two modes pushed into one. They are called `rough`,
  and so are rows where the two methods disagree by more than a quarter of a deviation or 25%.
- Laplace's approximation of a log-gamma variable, normal where that is skew: with shape parameters
  1, 2 and 5 nominal 95% intervals hold the truth in 0.91 to 0.98 of runs.
- Other shapes, where the score knows little of the width, may have both methods wrong together and
  are not called rough. Of a Laplace model uniform samples with a stretch of 0.82 came out as 1.00,
  Gumbel ones with a shift of 0.41 as 0.20; of a t with 3 degrees of freedom those of a t with 5,
  with a stretch of 0.75, as 0.92.
- Of the 22 large effects above that are not called rough, in models other than the normal,
  simultaneous intervals of 100,000 samples hold both truths in 15. Of the others three miss by less
  than 0.004; the rest are stretches of 2 in both t distributions (2.14 to 2.28, 1.87 to 1.97), a
  shift of 1 in the multivariate one (0.93 to 0.96) and one of 0.5 with two modes (0.35 to 0.48).

**Errors** are from the influence functions of the estimates, by the central limit theorem; for
chains with the effective sample size of each influence function. The intervals of a table hold
simultaneously, by Sidak's inequality [2]_, which is valid whatever the dependence.

References
----------
.. [1] A. Mira, R. Solgi and D. Imparato, "Zero variance Markov chain Monte Carlo for Bayesian
   estimators", Statistics and Computing 23, 2013.
.. [2] Z. Sidak, "Rectangular confidence regions for the means of multivariate normal
   distributions", JASA 62, 1967.
"""

from .correlations import Correlation, Correlations
from .estimate import FEWEST, coordinate_effects, effect_sizes, effects_of, has_effects
from .table import Effect, Effects, some_effects
from .tolerance import Tolerance, Tolerated, check_tolerance

__all__ = [
    "FEWEST",
    "Correlation",
    "Correlations",
    "Effect",
    "Effects",
    "Tolerance",
    "Tolerated",
    "check_tolerance",
    "coordinate_effects",
    "effect_sizes",
    "effects_of",
    "has_effects",
    "some_effects",
]
