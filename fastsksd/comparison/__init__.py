"""Which model is better: differences of discrepancies with intervals.

**What is compared.** The sliced Stein discrepancy of each model from the samples' distribution,
summed over slices; 0 for a right model. `compare` has the difference of every pair, with an
interval and a p-value. It needs no model to be right. The same for several sets of samples and one
model: which sampler is closer.

**On common ground.** One part of the samples (`train`) fixes the units, the slices and the
bandwidths, which are the same for all; the other part is compared. The unit of a coordinate is the
deviation of the samples, not that of a model; see `fastsksd.procedure.common_ground`. Slices are
the coordinates and the leading active directions of every model, as many of each. So the answer is
about discrepancies as seen along these slices: a model may be better in one respect and worse in
another. `Comparison.slice_statistics` has them apart.

**Errors.** The difference of two U-statistics is asymptotically normal where a model is wrong [1]_
[2]_. Where both are nearly right it is degenerate, and errors from the asymptotic variance alone
are far too small. Here the exact variance of a U-statistic is estimated with both of its parts, and
intervals are those of a score test; see `fastsksd.procedure.u_statistics`. Between two right models
the p-values are conservative: they should not be told apart. For chains the pairs are those of
stretches that are nearly independent.

**Several models.** Intervals and p-values hold for all pairs at once, by Sidak's inequality.
Models that can't be told apart are in one group; a model may be in several.

References
----------
.. [1] W. Jitkrittum, H. Kanagawa, P. Sangkloy, J. Hays, B. Schoelkopf and A. Gretton, "Informative
   features for model comparison", NeurIPS, 2018.
.. [2] H. Kanagawa, W. Jitkrittum, L. Mackey, K. Fukumizu and A. Gretton, "A kernel Stein test for
   comparing latent variable models", JRSS B 85, 2023.
"""

from .estimate import compare
from .interval import discrepancy_interval, has_interval
from .table import Comparison, Difference

__all__ = ["Comparison", "Difference", "compare", "discrepancy_interval", "has_interval"]
