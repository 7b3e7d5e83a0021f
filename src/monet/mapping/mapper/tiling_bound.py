"""Compiled parts of the search over tilings: sizes and entries of tiles, and the bound of a node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, F64x2, F64x4, F64x5, I64x2, I64x3, U8x2
from monet.compiled import part
from monet.mapping.mapper.tiling_problem import (
    BITS,
    COMPUTE_CYCLES,
    ENERGY,
    FEWEST_ENTRIES,
    FILL_CYCLES,
    FILL_PER_ELEMENT,
    FIXED_ELEMENTS,
    JOULES_PER_ENTRY,
    LATENCY,
    MOST_ENTRIES,
    OBJECTIVE,
    PLAIN_ELEMENTS,
    SHARED_PORT,
    SMALLEST_TILE,
    TIE_WEIGHT,
    TilingProblem,
)


class Floors(NamedTuple):
    """What follows from a problem and does not change in the search."""

    whole: F64x4  # [cut, window, tile u, tile v] fewest positions that enter with these tiles or smaller ones
    slid: F64x4  # [cut, window, tile u, tile v] the same if this window slides
    caps: I64x2  # [cut, dim] the largest tile of a dimension that fits with all others at their smallest
    has_window: U8x2  # [slot, dim] whether the dimension is part of a window


class Branch(NamedTuple):
    """The nodes from the root to the one that is looked at, by depth: what is placed, used and spent there."""

    tiles: I64x2  # [depth, dim] tile reached
    placed: I64x2  # [depth, slot] cuts placed
    joules: F64  # [depth]
    load: F64x2  # [depth, port] cycles
    waits: F64  # [depth] exposed cycles
    fill: F64x2  # [depth, slot] cycles to fill all cuts of a slot, one after the other
    used: F64x2  # [depth, memory] bits
    loop: I64  # [depth] innermost dimension of the loops above, or -1
    span: I64  # [depth] the tile from which that loop starts
    path: I64x2  # [depth, 2 + dim] cut placed, innermost loop above it, tiles


class Scratch(NamedTuple):
    """Arrays that the parts pass to each other, so that none has to allocate."""

    pick: I64  # [dim] the tile tried
    free: I64  # [n] dimensions whose tile is to choose
    beyond: F64  # [slot] visits of a tile of the slot, over the dimensions that do not index it
    least: F64  # [cut] fewest entries of the cuts to come
    fill: F64  # [slot] cycles


class Step(NamedTuple):
    """The next cut, placed below a node. ``sliding``: another slot, whose window slides in the loop right above this
    cut, with its next cut; or -1."""

    depth: int
    slot: int
    cut: int
    sliding: int
    sliding_cut: int


@part(allocates=False)
def window_tiles(slot: int, window: int, pick: I64, window_dims: I64x3) -> tuple[int, int]:
    """Tiles of both dimensions of a window."""
    u, v = window_dims[slot, window, 0], window_dims[slot, window, 1]
    return pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0


@part(allocates=False)
def tile_size(cut: int, pick: I64, problem: TilingProblem) -> float:
    """Elements of the largest tile of a cut."""
    slot, elements, width = problem.slot_of[cut], problem.per_cut[cut, FIXED_ELEMENTS], problem.visits.shape[1]
    for d in range(pick.size):
        if problem.plain[slot, d]:
            elements *= problem.widths[cut, d * width + pick[d]]
    for w in range(problem.windows_of[slot]):
        a, b = window_tiles(slot, w, pick, problem.window_dims)
        elements *= problem.largest[cut, w, a, b]
    return float(elements)


@part(allocates=False)
def would_slide(cut: int, loop: int, span: int, pick: I64, problem: TilingProblem) -> bool:
    """Whether anything of a tile of a cut stays when ``loop`` is right above it."""
    slot = problem.slot_of[cut]
    for w in range(problem.windows_of[slot]):
        a, b = window_tiles(slot, w, pick, problem.window_dims)
        if problem.window_dims[slot, w, 0] == loop and problem.kept_u[cut, w, a, span, b] > 0:
            return True
        if problem.window_dims[slot, w, 1] == loop and problem.kept_v[cut, w, b, span, a] > 0:
            return True
    return False


@part(allocates=False)
def entries_into(cut: int, loop: int, span: int, pick: I64, problem: TilingProblem) -> float:
    """Elements that enter a cut in one visit, with ``loop`` (-1: any) right above it."""
    slot, whole, stays = problem.slot_of[cut], problem.per_cut[cut, PLAIN_ELEMENTS], 0.0
    for w in range(problem.windows_of[slot]):
        a, b = window_tiles(slot, w, pick, problem.window_dims)
        here, keep = problem.total[cut, w, a, b], 0.0
        if loop >= 0 and loop == problem.window_dims[slot, w, 0]:
            keep = problem.kept_u[cut, w, a, span, b]
        elif loop >= 0 and loop == problem.window_dims[slot, w, 1]:
            keep = problem.kept_v[cut, w, b, span, a]
        stays = stays * here + whole * keep
        whole *= here
    return float(whole - stays)


@part(allocates=False)
def fewest(cut: int, pick: I64, problem: TilingProblem, floors: Floors) -> float:
    """Fewest entries of a cut in one visit, with the tiles picked or smaller ones. At most one window slides."""
    slot = problem.slot_of[cut]
    all_whole, one_slides = problem.per_cut[cut, PLAIN_ELEMENTS], problem.per_cut[cut, PLAIN_ELEMENTS]
    for w in range(problem.windows_of[slot]):
        a, b = window_tiles(slot, w, pick, problem.window_dims)
        one_slides = min(one_slides * floors.whole[cut, w, a, b], all_whole * floors.slid[cut, w, a, b])
        all_whole *= floors.whole[cut, w, a, b]
    return float(max(one_slides, problem.per_cut[cut, FEWEST_ENTRIES]))


@part(allocates=False)
def placed_after(step: Step, slot: int, placed: I64x2) -> int:
    """How many cuts of a slot are placed after a step."""
    return int(placed[step.depth, slot] + (1 if slot == step.slot else 0))


@part(allocates=False)
def bound(
    step: Step, entries: float, fill: float, waits: float, problem: TilingProblem, floors: Floors, branch: Branch,
    scratch: Scratch,
) -> tuple[float, float, float]:  # fmt: skip
    """(score, cycles, joules) after a step, with the fewest entries for all cuts still to come."""
    joules = branch.joules[step.depth] + problem.per_cut[step.cut, JOULES_PER_ENTRY] * entries
    joules = with_cuts_to_come(joules, step, fill, problem, floors, branch, scratch)
    joules += conflict(step, problem, floors, branch, scratch)
    peak = problem.scalars[COMPUTE_CYCLES] + waits
    for port in range(problem.port_base.size):
        peak = max(peak, port_load(port, step, entries, problem, branch, scratch))
    fill_i, fill_w, fill_o = scratch.fill[0], scratch.fill[1], scratch.fill[2]
    fills = fill_i + fill_w if problem.scalars[SHARED_PORT] > 0 else max(fill_i, fill_w)
    cycles = peak + problem.scalars[FILL_CYCLES] + fills + fill_o
    return score_of(cycles, joules, problem.scalars), cycles, joules


@part(allocates=False)
def with_cuts_to_come(
    joules: float, step: Step, fill: float, problem: TilingProblem, floors: Floors, branch: Branch, scratch: Scratch
) -> float:
    """``joules`` and those of the fewest entries of all cuts still to come. Leaves visits, entries and fills behind."""
    pick, beyond, least = scratch.pick, scratch.beyond, scratch.least
    for slot in range(problem.cuts_of.size):
        beyond[slot] = 1.0
        for d in range(pick.size):
            if not problem.relevant[slot, d]:
                beyond[slot] *= problem.visits[d, pick[d]]
        filling = branch.fill[step.depth, slot] + (fill if slot == step.slot else 0.0)
        for n in range(placed_after(step, slot, branch.placed), problem.cuts_of[slot]):
            cut = problem.cut_at[slot, n]
            least[cut] = beyond[slot] * fewest(cut, pick, problem, floors)
            joules += problem.per_cut[cut, JOULES_PER_ENTRY] * least[cut]
            filling += problem.per_cut[cut, FILL_PER_ELEMENT] * problem.per_cut[cut, SMALLEST_TILE]
        scratch.fill[slot] = filling
    return joules


@part(allocates=False)
def port_load(port: int, step: Step, entries: float, problem: TilingProblem, branch: Branch, scratch: Scratch) -> float:
    """Cycles that a port is busy at least: a cut whose entries spare it work (a negative slope) has the most."""
    busy = branch.load[step.depth, port] + problem.port_slope[port, step.cut] * entries
    for slot in range(problem.cuts_of.size):
        for n in range(placed_after(step, slot, branch.placed), problem.cuts_of[slot]):
            cut = problem.cut_at[slot, n]
            slope = problem.port_slope[port, cut]
            busy += slope * (scratch.least[cut] if slope >= 0 else problem.per_cut[cut, MOST_ENTRIES])
    return float(busy)


@part(allocates=False)
def conflict(step: Step, problem: TilingProblem, floors: Floors, branch: Branch, scratch: Scratch) -> float:
    """Joules that cannot be saved because of two innermost cuts one lies inside the other, whose small tile then makes
    the inner one's operand come more often; the dearest pair counts."""
    slots, dearest = problem.cuts_of.size, 0.0
    for s in range(slots):
        if placed_after(step, s, branch.placed) >= problem.cuts_of[s]:
            continue
        for t in range(s + 1, slots):
            if placed_after(step, t, branch.placed) >= problem.cuts_of[t]:
                continue
            p, q = problem.cut_at[s, problem.cuts_of[s] - 1], problem.cut_at[t, problem.cuts_of[t] - 1]
            more_p = joules_inside(p, q, problem, floors, scratch)
            more_q = joules_inside(q, p, problem, floors, scratch)
            dearest = max(dearest, min(more_p, more_q))
    return dearest


@part(allocates=False)
def joules_inside(cut: int, outer: int, problem: TilingProblem, floors: Floors, scratch: Scratch) -> float:
    """Joules that a cut costs more than at least, if it lies inside ``outer``, which limits the tiles."""
    slot, visits = problem.slot_of[cut], 1.0
    for d in range(scratch.pick.size):
        if not problem.relevant[slot, d]:
            visits *= problem.visits[d, min(scratch.pick[d], floors.caps[outer, d])]
    least = problem.per_cut[cut, JOULES_PER_ENTRY] * scratch.least[cut]
    return float(least * (visits / scratch.beyond[slot] - 1.0))


@part(allocates=False)
def score_of(cycles: float, joules: float, scalars: F64) -> float:
    """What is minimised, by objective; the weight of the other quantity breaks ties."""
    if scalars[OBJECTIVE] == LATENCY:
        return float(cycles + scalars[TIE_WEIGHT] * joules)
    if scalars[OBJECTIVE] == ENERGY:
        return float(joules + scalars[TIE_WEIGHT] * cycles)
    return cycles * joules


@part(allocates=True)
def floors_of(problem: TilingProblem) -> Floors:
    """All that bounds take from a problem once and for all."""
    whole, slid = window_floors(problem.total, problem.kept_u, problem.kept_v)
    has_window = np.zeros(problem.relevant.shape, np.uint8)
    for slot in range(problem.windows_of.size):
        for w in range(problem.windows_of[slot]):
            for d in problem.window_dims[slot, w]:
                if d >= 0:
                    has_window[slot, d] = 1
    return Floors(whole, slid, largest_tiles(problem), has_window)


@part(allocates=True)
def window_floors(total: F64x4, kept_u: F64x5, kept_v: F64x5) -> tuple[F64x4, F64x4]:
    """``whole`` and ``slid`` of ``Floors``."""
    cuts, windows, wide, _ = total.shape
    whole, slid = total.copy(), total.copy()
    for k in range(cuts):
        for w in range(windows):
            for a in range(wide):
                for b in range(wide):
                    most = 0.0
                    for s in range(wide):
                        most = max(most, kept_u[k, w, a, s, b], kept_v[k, w, b, s, a])
                    slid[k, w, a, b] -= most
                    if a > 0:
                        whole[k, w, a, b] = min(whole[k, w, a, b], whole[k, w, a - 1, b])
                        slid[k, w, a, b] = min(slid[k, w, a, b], slid[k, w, a - 1, b])
                    if b > 0:
                        whole[k, w, a, b] = min(whole[k, w, a, b], whole[k, w, a, b - 1])
                        slid[k, w, a, b] = min(slid[k, w, a, b], slid[k, w, a, b - 1])
    return whole, slid


@part(allocates=True)
def largest_tiles(problem: TilingProblem) -> I64x2:
    """``caps`` of ``Floors``."""
    cuts, dims = problem.slot_of.size, problem.candidates.size
    caps = np.empty((cuts, dims), np.int64)
    pick = np.zeros(dims, np.int64)
    for cut in range(cuts):
        slot, room = problem.slot_of[cut], problem.room[problem.memory_of[cut]]
        for d in range(dims):
            caps[cut, d] = problem.candidates[d] - 1
            while problem.relevant[slot, d] and caps[cut, d] > 0:
                pick[d] = caps[cut, d]
                if tile_size(cut, pick, problem) * problem.per_cut[cut, BITS] <= room:
                    break
                caps[cut, d] -= 1
            pick[d] = 0
    return caps
