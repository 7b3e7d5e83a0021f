"""Numba kernel: rank the tiles in which an operator alone passes its operands between DRAM and the top memories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, F64x2, F64x4, F64x5, I64x2, I64x3, U8x2
from monet.compiled import kernel, part


class Ranking(NamedTuple):
    """What there is to rank. Slots are the operands I, W, O; tiles are numbered from the smallest."""

    candidates: I64  # [dim] how many tiles there are
    counts: F64x2  # [dim, tile] tiles of that size along the dimension
    steps: F64x2  # [dim, tile] array steps over all of them
    relevant: U8x2  # [slot, dim]
    plain: U8x2  # [slot, dim] relevant, and not part of a window
    widths: F64x2  # [slot, dim * tile] elements of a plain dimension in a tile, flattened
    windows_of: I64  # [slot] how many windows
    window_dims: I64x3  # [slot, window, 2] dimensions u and v, or -1
    largest: F64x4  # [slot, window, tile u, tile v] positions in the largest tile
    total: F64x4  # [slot, window, tile u, tile v] positions in all tiles
    kept_u: F64x5  # [slot, window, tile u, span, tile v] positions that stay when u is the innermost loop
    kept_v: F64x5  # [slot, window, tile v, span, tile u]
    per_slot: F64x2  # [slot, column] see below
    scalars: F64  # see below


# columns of ``per_slot``
(
    PLAIN_ELEMENTS,  # elements over plain dimensions
    BITS,  # of an element
    MEMORY,  # -1: streamed
    ROOM,  # bits
    STREAMED_BITS,
    JOULES_IN,  # per bit
    JOULES_OUT,
    RESULTS,
    TRANSPOSE_CYCLES,
    ONCE,  # 1: it may enter only once
    CYCLES_PER_BIT,
) = range(11)
SLOT_COLUMNS = 11

# ``scalars``
(
    LATENCY_CYCLES,
    JOULES_BELOW,  # the border
    LEAKAGE,  # joules per cycle
    OBJECTIVE,
    CYCLES_PER_STEP,
    RESULT_BITS,
    TILE_CYCLES,  # that every tile adds
    SPARE_WEIGHT,  # of energy at objective latency
    BUSY_CYCLES,  # of array and ports
) = range(9)
SCALARS = 9

SLOTS, OUTPUT = 3, 2
THROUGHPUT = 3  # after the mapper's objectives
# Weights of ``taken_cycles``, seen to be good on fusemax (five networks, inference): a quarter to all of hidden
# cycles give the same plans; without edges tiles grow for nothing and steps take up to a third longer.
HIDDEN, EDGES = 0.5, 0.1
EQUAL = 1 - 1e-12
SLACK = 1 + 1e-9  # a bound that is over a score by less may be so by rounding
COARSE = 3  # every third tile of a dimension is looked at first


class Tile(NamedTuple):
    """A tile that is being ranked: which one of every dimension, and by slot what holds whatever the order of loops."""

    pick: I64  # [dim]
    bits: F64  # [slot] of the largest tile
    visits: F64  # [slot] how often all tiles of a slot pass if none stays
    entries: F64  # [slot] elements that enter in one visit if no window slides
    sliding: U8x2  # [slot, dim] whether a window of the slot slides along a dimension


@kernel
def rank_tiles(ranking: Ranking, scores: F64, ranked: I64x2) -> None:
    """The best tiles, best first, into ``scores`` and ``ranked`` (stationary slot, sliding dim, tiles …), as many as
    there are rows; unused ones score infinity. To return arrays would take as long as half of the work.

    Some tiles from all over are ranked first: as many of all are at least as good as the worst of these, and what
    cannot be is left out when all are ranked.
    """
    dims = ranking.candidates.size
    tile = Tile(np.zeros(dims, np.int64), np.zeros(SLOTS), np.zeros(SLOTS), np.zeros(SLOTS), sliding_dims(ranking))
    once = bits_once(ranking)
    scores[:], ranked[:] = np.inf, -1
    rank_some(COARSE, np.inf, once, tile, scores, ranked, ranking)
    limit = scores[scores.size - 1]
    scores[:], ranked[:] = np.inf, -1
    rank_some(1, limit, once, tile, scores, ranked, ranking)


@part(allocates=True)
def sliding_dims(ranking: Ranking) -> U8x2:
    """[slot, dim]: whether a window of the slot slides along the dimension."""
    found = np.zeros((SLOTS, ranking.candidates.size), np.uint8)
    for slot in range(SLOTS):
        for w in range(ranking.windows_of[slot]):
            for side in range(2):
                if ranking.window_dims[slot, w, side] >= 0:
                    found[slot, ranking.window_dims[slot, w, side]] = 1
    return found


@part(allocates=True)
def bits_once(ranking: Ranking) -> F64:
    """[slot] bits that pass at least, whatever the tiles: every element that is touched, once."""
    found = np.zeros(SLOTS)
    for slot in range(SLOTS):
        elements = ranking.per_slot[slot, PLAIN_ELEMENTS]
        for w in range(ranking.windows_of[slot]):
            u, v = ranking.window_dims[slot, w, 0], ranking.window_dims[slot, w, 1]
            i = ranking.candidates[u] - 1 if u >= 0 else 0
            elements *= ranking.total[slot, w, i, ranking.candidates[v] - 1 if v >= 0 else 0]
        found[slot] = elements * ranking.per_slot[slot, BITS]
    return found


@part(allocates=False)
def rank_some(stride: int, limit: float, once: F64, tile: Tile, scores: F64, ranked: I64x2, ranking: Ranking) -> None:
    """Rank every ``stride``-th tile of every dimension and the largest, but for those that must score over ``limit``
    or the worst that is kept."""
    pick, candidates = tile.pick, ranking.candidates
    pick[:] = 0
    more = True
    while more:
        most = min(limit, scores[scores.size - 1]) * SLACK
        hopeless = hopeless_dims(most, once, pick, ranking)
        if hopeless < 0 and fits(pick, tile.bits, ranking):
            rank_orders(tile, scores, ranked, ranking)
        for d in range(hopeless):
            pick[d] = candidates[d] - 1
        more = next_pick(pick, candidates, stride)


@part(allocates=False)
def hopeless_dims(most: float, once: F64, pick: I64, ranking: Ranking) -> int:
    """Of how many dimensions, the fastest first, no tile scores up to ``most`` with the picks of the others; asked only
    where these dimensions begin anew. -1: this tile may."""
    if least_score(0, once, pick, ranking) <= most:
        return -1
    found = 0
    while found < pick.size and pick[found] == 0 and least_score(found + 1, once, pick, ranking) > most:
        found += 1
    return found


@part(allocates=False)
def least_score(free: int, once: F64, pick: I64, ranking: Ranking) -> float:
    """A score that no order reaches with these picks, and with any of the first ``free`` dimensions."""
    per_slot, scalars = ranking.per_slot, ranking.scalars
    compute, tiles = scalars[CYCLES_PER_STEP], 1.0
    for d in range(pick.size):
        at = ranking.candidates[d] - 1 if d < free else pick[d]
        compute *= ranking.steps[d, at]
        tiles *= ranking.counts[d, at]
    compute = max(compute, scalars[BUSY_CYCLES]) + max(0.0, scalars[TILE_CYCLES]) * tiles
    passing, stays = 0.0, 0.0  # cycles
    for slot in range(SLOTS):
        visits, per_bit = 1.0, per_slot[slot, CYCLES_PER_BIT]
        for d in range(free, pick.size):
            if not ranking.relevant[slot, d]:
                visits *= ranking.counts[d, pick[d]]
        if per_slot[slot, MEMORY] < 0:
            passing += per_slot[slot, STREAMED_BITS] * visits * per_bit
            continue
        again = (visits - 1) * (once[slot] if slot != OUTPUT else 2 * per_slot[slot, RESULTS] * per_slot[slot, BITS])
        first = once[slot] if slot != OUTPUT else per_slot[slot, RESULTS] * scalars[RESULT_BITS]
        passing += (again + first) * per_bit
        stays = max(stays, again * per_bit)  # one of them is stationary
    if scalars[OBJECTIVE] == THROUGHPUT:
        return float(taken_cycles(compute, passing - stays, 0.0))
    cycles = scalars[LATENCY_CYCLES] + max(compute, passing - stays)
    if scalars[OBJECTIVE] == 1:
        return float(scalars[JOULES_BELOW] + scalars[LEAKAGE] * cycles)
    return float(cycles * scalars[JOULES_BELOW] if scalars[OBJECTIVE] == 2 else cycles)


@part(allocates=False)
def next_pick(pick: I64, candidates: I64, stride: int) -> bool:
    """Count up to the next tile, the first dimension fastest; False after the last."""
    for d in range(pick.size):
        if pick[d] < candidates[d] - 1:
            pick[d] = min(pick[d] + stride, candidates[d] - 1)
            return True
        pick[d] = 0
    return False


@part(allocates=False)
def fits(pick: I64, size: F64, ranking: Ranking) -> bool:
    """Whether a tile of every slot finds room in its memory. Leaves behind the bits of each."""
    per_slot = ranking.per_slot
    for slot in range(SLOTS):
        size[slot] = tile_bits(slot, pick, ranking)
        if per_slot[slot, MEMORY] < 0:
            continue
        taken = 0.0
        for other in range(slot + 1):
            if per_slot[other, MEMORY] == per_slot[slot, MEMORY]:
                taken += size[other] * times_held(other, pick, ranking.relevant, ranking.counts)
        if taken > per_slot[slot, ROOM]:
            return False
    return True


@part(allocates=False)
def tile_bits(slot: int, pick: I64, ranking: Ranking) -> float:
    """Bits of the largest tile of a slot."""
    bits, width = ranking.per_slot[slot, BITS], ranking.counts.shape[1]
    for d in range(pick.size):
        if ranking.plain[slot, d]:
            bits *= ranking.widths[slot, d * width + pick[d]]
    for w in range(ranking.windows_of[slot]):
        u, v = ranking.window_dims[slot, w, 0], ranking.window_dims[slot, w, 1]
        bits *= ranking.largest[slot, w, pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0]
    return float(bits)


@part(allocates=False)
def times_held(slot: int, pick: I64, relevant: U8x2, counts: F64x2) -> float:
    """Once, or twice if the slot has more than one tile: the next comes meanwhile."""
    times = 1.0
    for d in range(pick.size):
        if relevant[slot, d] and counts[d, pick[d]] > 1:
            times = 2.0
    return times


@part(allocates=False)
def rank_orders(tile: Tile, scores: F64, ranked: I64x2, ranking: Ranking) -> None:
    """Rank a tile with every slot stationary, and every innermost loop along which a window slides."""
    pick = tile.pick
    compute = array_cycles(pick, ranking)
    for slot in range(SLOTS):
        tile.visits[slot] = visits_of(slot, pick, ranking)
        tile.entries[slot] = entries_into(slot, -1, pick, ranking)
    for stationary in range(SLOTS):
        for loop in range(-1, pick.size):
            if loop >= 0 and not slides(loop, stationary, tile, ranking):
                continue
            score = score_of(stationary, loop, compute, tile, ranking)
            if score < scores[scores.size - 1] * EQUAL:
                insert(score, stationary, loop, pick, scores, ranked)


@part(allocates=False)
def visits_of(slot: int, pick: I64, ranking: Ranking) -> float:
    """How often all tiles of a slot pass if none stays: once for every tile along dimensions that do not move it."""
    visits = 1.0
    for d in range(pick.size):
        if not ranking.relevant[slot, d]:
            visits *= ranking.counts[d, pick[d]]
    return visits


@part(allocates=False)
def array_cycles(pick: I64, ranking: Ranking) -> float:
    """Cycles of the array over all tiles."""
    per_slot, scalars = ranking.per_slot, ranking.scalars
    compute, tiles = scalars[CYCLES_PER_STEP], 1.0
    for d in range(pick.size):
        compute *= ranking.steps[d, pick[d]]
        tiles *= ranking.counts[d, pick[d]]
    compute = max(compute, scalars[BUSY_CYCLES]) + scalars[TILE_CYCLES] * tiles
    for slot in range(SLOTS):  # every tile transposes its part
        turned = per_slot[slot, TRANSPOSE_CYCLES]
        if turned == 0:
            continue
        for d in range(pick.size):
            if not ranking.relevant[slot, d]:
                turned *= ranking.counts[d, pick[d]]
        compute += turned
    return float(compute)


@part(allocates=False)
def slides(loop: int, stationary: int, tile: Tile, ranking: Ranking) -> bool:
    """Whether a loop may be the innermost with a slot stationary, and some window slides along it."""
    if ranking.relevant[stationary, loop] or ranking.counts[loop, tile.pick[loop]] == 1:
        return False
    windows = 0
    for slot in range(SLOTS):
        windows += tile.sliding[slot, loop]
    return windows > 0


@part(allocates=False)
def score_of(stationary: int, loop: int, compute: float, tile: Tile, ranking: Ranking) -> float:
    """Score in the objective asked for; infinite if a slot would enter more often than it may."""
    per_slot, scalars = ranking.per_slot, ranking.scalars
    passing, joules, first, last = 0.0, scalars[JOULES_BELOW], 0.0, 0.0  # cycles
    for slot in range(SLOTS):
        bits, per_bit, is_streamed = per_slot[slot, BITS], per_slot[slot, CYCLES_PER_BIT], per_slot[slot, MEMORY] < 0
        visits = tile.visits[slot] if slot != stationary or is_streamed else 1.0
        if per_slot[slot, ONCE] > 0 and visits > 1:
            return np.inf
        if is_streamed:
            streamed = per_slot[slot, STREAMED_BITS] * visits
            passing += streamed * per_bit
            joules += (streamed - per_slot[slot, STREAMED_BITS]) * per_slot[slot, JOULES_IN]
            continue
        entering = tile.entries[slot]
        if loop >= 0 and tile.sliding[slot, loop]:
            entering = entries_into(slot, loop, tile.pick, ranking)
        entries = visits * entering
        if slot != OUTPUT:
            passing += entries * bits * per_bit
            joules += entries * bits * per_slot[slot, JOULES_IN]
            first += tile.bits[slot] * per_bit
        else:
            again = (entries - per_slot[slot, RESULTS]) * bits
            out = again + per_slot[slot, RESULTS] * scalars[RESULT_BITS]
            passing += (out + again) * per_bit
            joules += out * per_slot[slot, JOULES_OUT] + again * per_slot[slot, JOULES_IN]
            last = tile.bits[slot] / bits * scalars[RESULT_BITS] * per_bit
    spare = 1 + scalars[SPARE_WEIGHT] * joules / scalars[JOULES_BELOW]
    if scalars[OBJECTIVE] == THROUGHPUT:
        return float(taken_cycles(compute, passing, first + last) * spare)
    cycles = scalars[LATENCY_CYCLES] + first + max(compute, passing - first - last) + last
    if scalars[OBJECTIVE] == 1:
        return float(joules + scalars[LEAKAGE] * cycles)
    if scalars[OBJECTIVE] == 2:
        return float(cycles * joules)
    return float(cycles * spare)


@part(allocates=False)
def taken_cycles(core: float, wires: float, edges: float) -> float:
    """What counts for throughput: cycles of the slower of core and wires, and part of those that hide behind them, as
    neighbours may want either; hardly that the core waits for its first tiles, as it has work of a neighbour then."""
    return max(core, wires) + HIDDEN * min(core, wires) + EDGES * edges


@part(allocates=False)
def entries_into(slot: int, loop: int, pick: I64, ranking: Ranking) -> float:
    """Elements of a slot that enter in one visit of all its tiles, with ``loop`` (-1: any) the innermost."""
    whole, stays = ranking.per_slot[slot, PLAIN_ELEMENTS], 0.0
    for w in range(ranking.windows_of[slot]):
        u, v = ranking.window_dims[slot, w, 0], ranking.window_dims[slot, w, 1]
        i, j = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
        here, kept = ranking.total[slot, w, i, j], 0.0
        if loop >= 0 and loop == u:
            kept = ranking.kept_u[slot, w, i, ranking.candidates[u] - 1, j]
        elif loop >= 0 and loop == v:
            kept = ranking.kept_v[slot, w, j, ranking.candidates[v] - 1, i]
        stays = stays * here + whole * kept
        whole *= here
    return float(whole - stays)


@part(allocates=False)
def insert(score: float, stationary: int, loop: int, pick: I64, scores: F64, ranked: I64x2) -> None:
    """Put a row where its score belongs; the last one drops out."""
    at = scores.size - 1
    while at > 0 and score < scores[at - 1] * EQUAL:
        scores[at] = scores[at - 1]
        for column in range(ranked.shape[1]):
            ranked[at, column] = ranked[at - 1, column]
        at -= 1
    scores[at] = score
    ranked[at, 0], ranked[at, 1] = stationary, loop
    for d in range(pick.size):
        ranked[at, 2 + d] = pick[d]
