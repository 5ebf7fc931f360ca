"""Statistics of sets of slices on parts of the samples, each with its null distribution: the members of a test."""

from typing import NamedTuple

import numpy as np

from .._validate import check_statistic
from ..compute.chi_square import limit_law, log_tail_of_weighted_chi_square, positive_exp
from ..compute.linalg import product
from ..compute.medians import median_distances
from ..compute.projections import project, spread
from ..engines import Source
from ..engines.pairs import statistic as pair_statistic
from ..kernels import FlatProjection
from ..slices import Slices
from .nulls import resampling_pvalue, resampling_scale


class Part(NamedTuple):
    """Sets of slices, and the stretch of samples they are tested on."""

    name: str
    start: int
    stop: int
    sets: list


class Evaluated(NamedTuple):
    """Statistics of one set of slices at one multiple of the bandwidth, and its null: replicates, or the weights of a chi-square."""

    name: str
    kind: str
    multiple: float
    part: str
    slices: Slices
    statistics: np.ndarray
    bandwidths: np.ndarray
    engine: str
    replicates: np.ndarray | None = None
    spectrum: np.ndarray | None = None

    @property
    def statistic(self):
        """Sum over slices."""
        return float(self.statistics.sum())

    @property
    def log_pvalue(self):
        """Natural logarithm of the p-value by the limit law."""
        return log_tail_of_weighted_chi_square(self.spectrum, self.statistic)

    @property
    def pvalue(self):
        """The member's own p-value, never zero."""
        if self.spectrum is None:
            return resampling_pvalue(self.statistic, self.replicates)
        return positive_exp(self.log_pvalue)


def evaluate(part, multiples, x, scores, kernel, engine, null, weights):
    """Every set of slices of a part at every multiple; groups of slices that sets share are computed once."""
    everything = x
    x, scores = x[part.start : part.stop], scores[part.start : part.stop]
    if null == "spectral":
        return _evaluate_spectra(part, multiples, x, scores, everything, kernel, engine)
    scale = resampling_scale(null, x.shape[0])
    groups = {id(group): group for some in part.sets for group in some.parts}
    loaded = {}
    for key, group in groups.items():
        y, s, a, h = _project(x, scores, everything, group, kernel)
        loaded[key] = (
            engine(
                kernel.code,
                *(y, s, a, h),
                source=Source(x, scores, group.r, group.g),
                n_resamples=weights.n_resamples,
                multiples=multiples,
                signs=null == "wild",
            ),
            h,
        )
    replicates = {(key, multiple): [] for key in groups for multiple in multiples}
    sums = {}
    for draw in {pairs.draw for pairs, _ in loaded.values()}:
        for batch in weights.batches(draw):
            for key, (pairs, _) in loaded.items():
                if pairs.draw is draw:
                    results = pairs.sums_and_replicates_at(multiples, batch, part.start)
                    for multiple, (total, values) in zip(multiples, results, strict=True):
                        sums[key, multiple] = total
                        replicates[key, multiple].append(scale * values)
    done = {}
    for key, (pairs, h) in loaded.items():
        for multiple in multiples:
            statistics = check_statistic(pair_statistic(pairs, sums[key, multiple], "u"))
            done[key, multiple] = (
                statistics,
                multiple * h,
                np.concatenate(replicates[key, multiple]),
                pairs.name,
            )
    evaluated = []
    for some in part.sets:
        whole = _joined(some.parts)
        for multiple in multiples:
            statistics, bandwidths, nulls, engines = zip(
                *(done[id(group), multiple] for group in some.parts), strict=True
            )
            values, widths = np.concatenate(statistics), np.concatenate(bandwidths)
            names = " and ".join(engines)
            evaluated.append(
                Evaluated(
                    some.name,
                    some.kind,
                    multiple,
                    part.name,
                    whole,
                    values,
                    widths,
                    names,
                    replicates=sum(nulls),
                )
            )
    return evaluated


def _evaluate_spectra(part, multiples, x, scores, everything, kernel, engine):
    """The same with the limit law, whose spectrum belongs to a whole set: there is nothing to share."""
    evaluated = []
    for some in part.sets:
        whole = _joined(some.parts)
        y, s, a, h = _project(x, scores, everything, whole, kernel)
        for multiple in multiples:
            pairs = engine(
                kernel.code,
                y,
                s,
                a,
                multiple * h,
                source=Source(x, scores, whole.r, whole.g),
                spectral=True,
            )
            statistics = check_statistic(pair_statistic(pairs, pairs.sums(), "u"))
            evaluated.append(
                Evaluated(
                    some.name,
                    some.kind,
                    multiple,
                    part.name,
                    whole,
                    statistics,
                    multiple * h,
                    pairs.name,
                    spectrum=limit_law(pairs.spectrum(), pairs.n),
                )
            )
    return evaluated


def _project(x, scores, everything, slices, kernel):
    """Projections of a part of the samples; along a slice where the part is flat the bandwidth is the deviation of all samples."""
    try:
        return project(x, scores, slices, kernel)
    except FlatProjection:
        scale = 1e-13 * spread(everything, slices.g)
        h, deviation = (
            median_distances(product(slices.g, x)),
            product(slices.g, everything).std(axis=1),
        )
        h = np.where(h > scale, h, deviation)
        if x.shape[0] == everything.shape[0] or np.any(h <= scale):
            raise
        return project(x, scores, slices, type(kernel)(h))


def evaluate_pairs(name, pairs, h, null, weights, multiple=1.0):
    """A statistic of all samples without slices, from its terms of pairs."""
    if null == "spectral":
        sums, law = pairs.sums(), dict(spectrum=limit_law(pairs.spectrum(), pairs.n))
    else:
        results = [pairs.sums_and_replicates(batch) for batch in weights.batches()]
        sums, replicates = results[0][0], np.concatenate([values for _, values in results])
        law = dict(replicates=resampling_scale(null, pairs.n) * replicates)
    statistics = check_statistic(pair_statistic(pairs, sums, "u"))
    return Evaluated(
        name, name, multiple, "all", None, statistics, np.array([h]), pairs.name, **law
    )


def _joined(groups):
    return (
        groups[0]
        if len(groups) == 1
        else Slices(*(np.concatenate([getattr(group, name) for group in groups]) for name in "rg"))
    )
