"""Features of samples along slices: the cosines and sines of a kernel's Fourier series.

With ``phi`` the waves of a slice, the feature of a sample is ``s phi(y) + a phi'(y)``, times a
factor of the sample. Waves of neighbouring frequencies follow from each other by rotations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from .._typing import Array
from ..compute.jit import compiled, prefer_wide_vectors
from ..compute.linalg import product
from ..compute.threads import share
from .kernel_series import Series

BLOCK = 4096  # samples whose features are made at a time
_STRIP = 512  # samples per task
_LARGE = 2**17  # features beyond which threads pay
_MOST_WAVES = 2**22  # in memory at a time, where they are combined


class Layout:
    """Series of all slices one after another.

    For each slice the base frequency, the number of frequencies, where its features end and how
    many of them are even; the coefficients of all features; and pairs of matrices that combine
    cosines and sines, where there are any.
    """

    def __init__(self, series: Sequence[Series]):
        self.base = np.array([one.base for one in series])
        self.counts = np.array([one.frequencies for one in series], dtype=np.int64)
        self.ends = np.cumsum([0, *(one.coefficients.size for one in series)])
        self.coefficients = np.concatenate([np.empty(0), *(one.coefficients for one in series)])
        self.evens = np.array([one.even.shape[1] for one in series], dtype=np.int64)
        self.mixes = [(one.even, one.odd) for one in series if one.even.size]

    @property
    def mix(self) -> Array:
        """The matrices that combine features, one after another."""
        return np.concatenate(
            [np.empty(0), *(part.ravel() for pair in self.mixes for part in pair)]
        )


def blocks(n: int, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Where blocks of up to `size` of n samples begin and end."""
    for first in range(0, n, size):
        yield first, min(first + size, n)


def feature_block(y: Array, s: Array, a: Array, base: Array, counts: np.ndarray) -> Array:
    """Plain features of samples along all slices, in units of the bandwidths.

    Returns an array (sum of 2 counts, n): for each slice cosines, then sines.
    """
    return _all_waves(y, s, a, np.ones(y.shape), base, counts, 0, y.shape[1], True)[0]


def wave_features(
    loaded: Sequence[Array], inside: Array, layout: Layout, first: int, last: int, keep: bool
) -> tuple[Array, Array]:
    """Features of samples first..last, slice after slice, and their sums.

    Without `keep` there are no columns of features.
    """
    if not layout.mixes:
        return _all_waves(*loaded, inside, layout.base, layout.counts, first, last, keep)
    features = np.empty((layout.ends[-1], last - first if keep else 0))
    sums = np.empty(layout.ends[-1])
    some = max(1, _MOST_WAVES // (2 * int(layout.counts.max()) * max(1, features.shape[1])))
    for q in range(0, len(layout.counts), some):
        slices = slice(q, q + some)
        waves, totals = _all_waves(
            *(array[slices] for array in (*loaded, inside, layout.base, layout.counts)),
            first,
            last,
            keep,
        )
        row = 0
        for k, (even, odd) in enumerate(layout.mixes[slices], start=q):
            out = int(layout.ends[k])
            for mix in (even, odd):
                rows, kept = slice(row, row + mix.shape[0]), slice(out, out + mix.shape[1])
                sums[kept] = totals[rows] @ mix
                if keep:
                    features[kept] = product(mix.T, waves[rows].T)
                row, out = rows.stop, kept.stop
    return features, sums


def _all_waves(y, s, a, inside, base, counts, first, last, keep):
    """Cosines, then sines, of samples first..last along each slice, and their sums."""
    ends = np.cumsum([0, *(2 * counts)])
    width = last - first
    waves = np.empty((ends[-1], width if keep else 0))
    sums = np.empty((-(-width // _STRIP), ends[-1]))
    share(
        lambda begin, end: _waves(
            y, s, a, inside, base, ends, first, last, begin, end, waves, sums
        ),
        len(y) * len(sums),
        large=ends[-1] * width > _LARGE,
    )
    return waves, sums.sum(axis=0)


@compiled
def _waves(y, s, a, inside, base, ends, first, last, first_turn, last_turn, waves, sums):
    """Waves of some strips of the samples along some slices."""
    strips = sums.shape[0]
    for task in range(first_turn, last_turn):
        q = task // strips
        start = first + (task % strips) * _STRIP
        stop = min(start + _STRIP, last)
        _strip_of_waves(
            y[q, start:stop],
            s[q, start:stop],
            a[q],
            inside[q, start:stop],
            base[q],
            waves,
            ends[q],
            start - first,
            sums[task % strips, ends[q] : ends[q + 1]],
        )


@compiled
def _strip_of_waves(y, s, a, inside, base, waves, row, start, sums):
    # Rows of `waves` are cut out here: a piece of a matrix is not contiguous to the compiler.
    n = y.size
    stop = start + n
    count = sums.size // 2
    scratch = np.empty((6, n))
    cos, sin, cos1, sin1 = scratch[0], scratch[1], scratch[2], scratch[3]
    for i in range(n):
        cos1[i] = math.cos(base * y[i])
        sin1[i] = math.sin(base * y[i])
        cos[i] = 1.0
        sin[i] = 0.0
    even, odd = scratch[4], scratch[5]
    for f in range(count):
        if waves.shape[1] > 0:
            even, odd = waves[row + f, start:stop], waves[row + count + f, start:stop]
        sums[f], sums[count + f] = _wave(s, a * base * f, inside, cos, sin, cos1, sin1, even, odd)


@compiled
def _wave(s, slope, inside, cos, sin, cos1, sin1, even, odd):
    """Features of one frequency with their sums, and the rotation to the next."""
    prefer_wide_vectors()
    even_sum = odd_sum = 0.0
    for i in range(s.size):
        c = cos[i]
        d = sin[i]
        even[i] = inside[i] * (s[i] * c - slope * d)
        odd[i] = inside[i] * (s[i] * d + slope * c)
        even_sum += even[i]
        odd_sum += odd[i]
        cos[i] = c * cos1[i] - d * sin1[i]
        sin[i] = d * cos1[i] + c * sin1[i]
    return even_sum, odd_sum
