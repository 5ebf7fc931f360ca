"""Gradient ascents ("GO") that are looked at on their way, for curves against the epochs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from .._typing import Array
from ..models import Model
from ..refine import Ascent, climbing
from ..slices import Slices


def stages(
    start: Slices,
    x: Array,
    model: Model,
    epochs: Collection[int],
    *,
    batch_size: int,
    rng: np.random.Generator,
    **options: Any,
) -> Iterator[tuple[int, Slices, float]]:
    """One ascent from `start` on the samples x, seen after each number of `epochs`.

    Yields that number, the slices reached, and the CPU seconds that the ascent has taken so far.
    Options are those of `Ascent`.
    """
    spent, begun = 0.0, time.process_time()
    if 0 in epochs:
        yield 0, start, 0.0
    ascent = Ascent(start, **options)
    for epoch, _ in climbing(ascent, x, model.score(x), max(epochs), batch_size, rng):
        if epoch in epochs:
            spent += time.process_time() - begun
            yield epoch, ascent.slices, spent
            begun = time.process_time()
