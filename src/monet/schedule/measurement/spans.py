"""When operators run: their tiles, the transfers that lead straight to the first (while its core had nothing else to
do), and those that follow straight on the last. All events of an operator would say little: weights are fetched long
before."""

from __future__ import annotations

import numpy as np

from monet.arrays import I64


def operator_spans(
    count: int, tiles: tuple[I64, I64, I64, I64], moves: tuple[I64, I64, I64], slack: int
) -> tuple[I64, I64]:
    """(start, end) of every operator in ticks; operators are numbered up to ``count``.

    ``tiles``: operator, core, start and end of every tile. ``moves``: operator, start and end of every transfer;
    transfers touch if they are at most ``slack`` apart. An operator without tiles spans its transfers; without any
    events it is nowhere: (0, 0).
    """
    operator, core, start, end = tiles
    never = np.iinfo(np.int64).max
    first, last, free = np.full(count, never), np.full(count, -1), np.zeros(count, np.int64)
    order = np.lexsort((start, core))
    same = core[order][1:] == core[order][:-1]
    before = np.zeros(len(order), np.int64)  # when the core was done with the tile before
    before[order[1:]] = np.where(same, end[order][:-1], 0)
    np.maximum.at(last, operator, end)
    order = np.lexsort((before, start))[::-1]  # the earliest tile writes last
    first[operator[order]], free[operator[order]] = start[order], before[order]
    owner, begins, ends = moves
    idle = last < 0
    found_first, found_last = _all(count, owner, begins, ends)
    lead = _leading(first, owner, begins, ends, slack)
    trail = -_leading(-last, owner, -ends, -begins, slack)  # the same with time turned round
    return np.where(idle, found_first, np.maximum(np.minimum(lead, first), free)), np.where(idle, found_last, trail)


def _all(count: int, owner: I64, begins: I64, ends: I64) -> tuple[I64, I64]:
    """From the first to the last transfer."""
    never = np.iinfo(np.int64).max
    first, last = np.full(count, never), np.zeros(count, np.int64)
    np.minimum.at(first, owner, begins)
    np.maximum.at(last, owner, ends)
    return np.where(first == never, 0, first), last


def _leading(reached: I64, owner: I64, begins: I64, ends: I64, slack: int) -> I64:
    """Back from ``reached`` along transfers that touch, for every operator at once."""
    if not len(owner):
        return reached
    order = np.lexsort((-ends, owner))
    owner, begins, ends = owner[order], begins[order], ends[order]
    low, high = min(int(begins.min()), int(reached.min())), int(ends.max())
    shift = owner * np.int64(high - low + slack + 1)  # a running least that starts anew with every operator
    least = np.minimum.accumulate(np.minimum(begins, reached[owner]) - shift) + shift
    new = np.diff(owner, prepend=-1) != 0
    so_far = np.where(new, reached[owner], np.concatenate(([0], least[:-1])))
    apart = ends < so_far - slack
    # of every operator the transfers before the first gap
    gaps = np.cumsum(apart)
    start_of = np.flatnonzero(new)
    before: I64 = np.repeat(gaps[start_of] - apart[start_of], np.diff(np.append(start_of, len(owner))))
    joined = gaps == before
    found = reached.copy()
    np.minimum.at(found, owner[joined], begins[joined])
    return found
