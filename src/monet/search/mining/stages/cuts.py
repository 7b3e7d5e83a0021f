"""Where to cut a row of layers for devices that are not alike: so that the slowest stage is as fast as can be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monet.arrays import F64x2


def best_cuts(seconds: Sequence[F64x2]) -> tuple[int, ...] | None:
    """By dynamic programming over how many layers the first stages take. ``seconds``: by stage, of layers from ``i`` up
    to ``j``, infinite where it cannot be. Of cuts whose slowest stage is the same the one with least in all. None if
    there is none."""
    layers = seconds[0].shape[0] - 1
    worst, total = seconds[0][0].copy(), seconds[0][0].copy()
    worst[0] = total[0] = np.inf
    taken = []
    for stage in seconds[1:]:
        each = np.triu(np.ones_like(stage, bool), 1)
        cost = np.where(each, stage, np.inf)
        slowest = np.maximum(worst[:, None], cost)
        summed = total[:, None] + cost
        best = slowest.min(axis=0)
        tied = np.where(slowest <= best[None, :] * (1 + 1e-12), summed, np.inf)
        start = np.argmin(tied, axis=0)
        taken.append(start)
        worst, total = best, tied[start, np.arange(layers + 1)]
    if not np.isfinite(worst[layers]):
        return None
    found, end = list[int](), layers
    for start in reversed(taken):
        end = int(start[end])
        found.append(end)
    return tuple(reversed(found))


def by_length(lengths: Sequence[float]) -> F64x2:
    """Seconds of layers ``i`` up to ``j`` where only their number counts; ``lengths``: of 1, 2 … layers."""
    every = np.concatenate((np.array(lengths, float), [np.inf]))
    ends = np.arange(len(lengths) + 1)
    counts = ends[None, :] - ends[:, None]
    return np.asarray(every[np.where(counts > 0, counts - 1, -1)])
