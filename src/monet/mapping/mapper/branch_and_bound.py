"""Numba kernel: branch and bound over uneven tilings of one frame.

A node has placed the cuts of the outermost levels. A child places one more: it picks a slot, and for the dimensions
that index it a tile that fits. Dimensions that do not index the slot stay inside its cut: moving their loops inward
costs that slot nothing and constrains no other. So the order of cuts takes the place of loop orders (stationarity
classes), and entries follow from tiles alone; only the innermost loop of a block matters beyond that, for windows that
slide.

Bound: exact cost of the cuts placed, and for the others the fewest entries that the tile reached allows. Children are
visited in order of their bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, F64x2, F64x3, I64x2, I64x3
from monet.compiled import kernel, part
from monet.mapping.mapper.tiling_bound import (
    Branch,
    Floors,
    Scratch,
    Step,
    bound,
    entries_into,
    fewest,
    floors_of,
    score_of,
    tile_size,
    would_slide,
)
from monet.mapping.mapper.tiling_problem import (
    BASE_JOULES,
    BEAT,
    BITS,
    COMPUTE_CYCLES,
    FILL_CYCLES,
    FILL_PER_ELEMENT,
    JOULES_PER_ENTRY,
    MIRRORED,
    OVERLAPPED_BITS,
    PRUNE,
    SMALLEST_TILE,
    TWIN,
    WAITS_ONCE,
    WAITS_PER_ENTRY,
    TilingProblem,
)

SCORE, CYCLES, JOULES, NODES = range(4)  # of the result
CUT, LOOP, SPAN, TILES = range(4)  # columns of what a child chose; tiles are the last ones
ENTRIES, ELEMENTS, FILL, WAITS = range(4)  # columns of what it costs
FEW_CHILDREN = 1024  # room to start with


class Best(NamedTuple):
    """The best tiling so far."""

    result: F64  # score, cycles, joules, nodes
    path: I64x2  # [depth, 2 + dim] cut placed, innermost loop above it, tiles


class Children(NamedTuple):
    """The children of every node of the branch, as far as they may win."""

    bounds: F64x2  # [depth, child] score
    choices: I64x3  # [depth, child, column] cut, innermost loop above it, its span, tiles
    costs: F64x3  # [depth, child, column]
    order: I64x2  # [depth, n] the children, the best bound first
    many: I64  # [depth] how many there are (more than there is room for: those are not kept)
    turn: I64  # [depth] the next one, in order


@kernel
def best_tiling(problem: TilingProblem) -> tuple[F64, I64x2]:
    """(score, cycles, energy, nodes) and per cut, outermost first: [cut, innermost dim, tiles …].

    Cycles are infinite if nothing fits or nothing beats the score given.
    """
    dims, cuts = problem.candidates.size, problem.slot_of.size
    result = np.array([problem.scalars[BEAT], np.inf, np.inf, 0.0])
    best = Best(result, np.full((max(cuts, 1), dims + 2), -1, np.int64))
    if cuts == 0:
        score_without_cuts(problem, best)
        return best.result, best.path
    floors, branch, scratch = floors_of(problem), root(problem), scratch_for(problem)
    children = room_for(FEW_CHILDREN, problem)
    depth, is_new = 0, True
    while depth >= 0:
        if is_new:
            expand(depth, problem, floors, branch, scratch, children, best)
            many = children.many[depth]
            if many > children.bounds.shape[1]:
                children = wider(many, children, problem)
                continue  # once more, now that there is room
            best.result[NODES] += 1
            for n, child in enumerate(np.argsort(children.bounds[depth, :many])):
                children.order[depth, n] = child
        child = next_child(depth, best.result[SCORE] * problem.scalars[PRUNE], children)
        is_new = child >= 0
        if is_new:
            descend(depth, child, children, branch, problem)
        depth += 1 if is_new else -1
    return best.result, best.path


@part(allocates=False)
def score_without_cuts(problem: TilingProblem, best: Best) -> None:
    """The only tiling there is when no level holds tiles."""
    peak = problem.scalars[COMPUTE_CYCLES]
    for port in range(problem.port_base.size):
        peak = max(peak, problem.port_base[port])
    cycles, joules = peak + problem.scalars[FILL_CYCLES], problem.scalars[BASE_JOULES]
    score = score_of(cycles, joules, problem.scalars)
    if score < best.result[SCORE]:
        best.result[SCORE], best.result[CYCLES], best.result[JOULES] = score, cycles, joules


@part(allocates=True)
def root(problem: TilingProblem) -> Branch:
    """A branch that starts with nothing placed: every dimension's tile is the whole."""
    dims, cuts, slots = problem.candidates.size, problem.slot_of.size, problem.cuts_of.size
    tiles = np.zeros((cuts + 1, dims), np.int64)
    joules, load = np.zeros(cuts + 1), np.zeros((cuts + 1, problem.port_base.size))
    for d in range(dims):
        tiles[0, d] = problem.candidates[d] - 1
    joules[0] = problem.scalars[BASE_JOULES]
    for port in range(problem.port_base.size):
        load[0, port] = problem.port_base[port]
    return Branch(
        tiles=tiles,
        placed=np.zeros((cuts + 1, slots), np.int64),
        joules=joules,
        load=load,
        waits=np.zeros(cuts + 1),
        fill=np.zeros((cuts + 1, slots)),
        used=np.zeros((cuts + 1, problem.room.size)),
        loop=np.full(cuts + 1, -1, np.int64),
        span=np.zeros(cuts + 1, np.int64),
        path=np.full((cuts, dims + 2), -1, np.int64),
    )


@part(allocates=True)
def scratch_for(problem: TilingProblem) -> Scratch:
    """Room for what the parts pass to each other."""
    dims, cuts, slots = problem.candidates.size, problem.slot_of.size, problem.cuts_of.size
    pick, free = np.zeros(dims, np.int64), np.zeros(dims, np.int64)
    return Scratch(pick, free, np.empty(slots), np.empty(cuts), np.empty(slots))


@part(allocates=True)
def room_for(many: int, problem: TilingProblem) -> Children:
    """Room for so many children at every depth."""
    dims, cuts = problem.candidates.size, problem.slot_of.size
    return Children(
        bounds=np.empty((cuts, many)),
        choices=np.empty((cuts, many, TILES + dims), np.int64),
        costs=np.empty((cuts, many, 4)),
        order=np.empty((cuts, many), np.int64),
        many=np.zeros(cuts, np.int64),
        turn=np.zeros(cuts, np.int64),
    )


@part(allocates=True)
def wider(many: int, children: Children, problem: TilingProblem) -> Children:
    """The same children, and room for twice as many as given."""
    wide = room_for(2 * many, problem)
    for depth in range(problem.slot_of.size):
        wide.many[depth], wide.turn[depth] = children.many[depth], children.turn[depth]
        for n in range(min(children.many[depth], children.bounds.shape[1])):
            wide.bounds[depth, n], wide.order[depth, n] = children.bounds[depth, n], children.order[depth, n]
            for column in range(children.choices.shape[2]):
                wide.choices[depth, n, column] = children.choices[depth, n, column]
            for column in range(children.costs.shape[2]):
                wide.costs[depth, n, column] = children.costs[depth, n, column]
    return wide


@part(allocates=False)
def expand(
    depth: int, problem: TilingProblem, floors: Floors, branch: Branch, scratch: Scratch, children: Children, best: Best
) -> None:
    """All children of the node at a depth: for every slot, its next cut with all tiles that may win."""
    children.many[depth], children.turn[depth] = 0, 0
    for slot in range(problem.cuts_of.size):
        if branch.placed[depth, slot] >= problem.cuts_of[slot]:
            continue
        cut = problem.cut_at[slot, branch.placed[depth, slot]]
        other = later_window(depth, slot, problem, branch)
        other_cut = problem.cut_at[other, branch.placed[depth, other]] if other >= 0 else -1
        for passing in range(2 if other >= 0 else 1):
            step = Step(depth, slot, cut, other if passing else -1, other_cut)
            frees, beyond = start_tiles(step, problem, branch, scratch)
            at = 0
            while True:
                at, elements, seen = next_tile(at, frees, beyond, step, problem, floors, branch, scratch, best)
                if at < 0:
                    break
                if seen <= 1.0 or not problem.pinned[cut]:
                    add_children(step, elements, seen, problem, floors, branch, scratch, children, best)


@part(allocates=False)
def later_window(depth: int, slot: int, problem: TilingProblem, branch: Branch) -> int:
    """Another slot, placed later, whose window could slide through the next cut of this one; or -1."""
    other = -1
    for s in range(problem.cuts_of.size):
        if s != slot and problem.windows_of[s] > 0 and branch.placed[depth, s] < problem.cuts_of[s]:
            other = s
    return other


@part(allocates=False)
def start_tiles(step: Step, problem: TilingProblem, branch: Branch, scratch: Scratch) -> tuple[int, float]:
    """How many dimensions of a step are free to choose a tile of, and visits over all others. ``next_tile`` begins."""
    frees, beyond = 0, 1.0
    for d in range(scratch.pick.size):
        scratch.pick[d] = branch.tiles[step.depth, d]
        if problem.relevant[step.slot, d] or (step.sliding >= 0 and problem.relevant[step.sliding, d]):
            scratch.free[frees] = d
            frees += 1
        else:
            beyond *= problem.visits[d, scratch.pick[d]]
    if frees > 0:
        scratch.pick[scratch.free[0]] += 1
    return frees, beyond


@part(allocates=False)
def next_tile(
    at: int, frees: int, beyond: float, step: Step, problem: TilingProblem, floors: Floors, branch: Branch,
    scratch: Scratch, best: Best,
) -> tuple[int, float, float]:  # fmt: skip
    """Pick the next tile that fits and may win, dimension by dimension, the largest first.

    ``at`` is the free dimension to go on with: 0 first, then what was returned, and -1 if no tile is left. Returned
    with it: elements of the tile, and how often it is visited over the dimensions that do not index it.
    """
    pick, free = scratch.pick, scratch.free
    if frees == 0:  # one tile only
        elements = tile_size(step.cut, pick, problem)
        return (1 if at == 0 and fits(step.depth, step.cut, elements, problem, branch) else -1), elements, beyond
    while at >= 0:
        d = free[at]
        pick[d] -= 1
        if pick[d] < 0:
            pick[d] = branch.tiles[step.depth, d]
            at -= 1
            continue
        if not is_allowed(d, step, problem, branch, pick):
            continue
        elements = size_if_it_fits(at, frees, step, problem, branch, scratch)
        if elements < 0:
            continue
        seen = beyond
        for n in range(frees):
            if not problem.relevant[step.slot, free[n]]:
                seen *= problem.visits[free[n], pick[free[n]]]
        if not may_win(seen, step, problem, floors, branch, scratch, best):  # smaller tiles cannot do better
            pick[d] = branch.tiles[step.depth, d]
            at -= 1
            continue
        if at + 1 == frees:
            return at, elements, seen
        at += 1
        pick[free[at]] = branch.tiles[step.depth, free[at]] + 1
    return -1, 0.0, 0.0


@part(allocates=False)
def is_allowed(d: int, step: Step, problem: TilingProblem, branch: Branch, pick: I64) -> bool:
    """Whether the tile of a dimension may be cut from the one above."""
    if not problem.nests[d, branch.tiles[step.depth, d], pick[d]]:
        return False
    if problem.relevant[step.slot, d] and pick[d] > problem.limits[step.cut, d]:
        return False
    # not one that is the same as another with rows and columns changed over
    return not (step.depth == 0 and d == problem.scalars[TWIN] and pick[int(problem.scalars[MIRRORED])] < pick[d])


@part(allocates=False)
def fits(depth: int, cut: int, elements: float, problem: TilingProblem, branch: Branch) -> bool:
    """Whether a tile finds room next to what a memory holds already."""
    memory = problem.memory_of[cut]
    return bool(branch.used[depth, memory] + elements * problem.per_cut[cut, BITS] <= problem.room[memory])


@part(allocates=False)
def size_if_it_fits(at: int, frees: int, step: Step, problem: TilingProblem, branch: Branch, scratch: Scratch) -> float:
    """Elements of the tile with the dimensions to come at their smallest, or -1 if even that does not fit. Leaves
    those at their largest."""
    pick, free = scratch.pick, scratch.free
    for n in range(at + 1, frees):
        pick[free[n]] = 0
    elements = tile_size(step.cut, pick, problem)
    if not fits(step.depth, step.cut, elements, problem, branch):
        elements = -1.0
    elif step.sliding >= 0:  # the window must fit the very same tile, or it cannot slide here
        wide = tile_size(step.sliding_cut, pick, problem)
        if not fits(step.depth, step.sliding_cut, wide, problem, branch):
            elements = -1.0
    for n in range(at + 1, frees):
        pick[free[n]] = branch.tiles[step.depth, free[n]]
    return elements


@part(allocates=False)
def may_win(
    seen: float, step: Step, problem: TilingProblem, floors: Floors, branch: Branch, scratch: Scratch, best: Best
) -> bool:
    """Whether a tile, or a smaller one, could lead to a better tiling than the best so far."""
    entries = seen * fewest(step.cut, scratch.pick, problem, floors)
    fill = problem.per_cut[step.cut, FILL_PER_ELEMENT] * problem.per_cut[step.cut, SMALLEST_TILE]
    waits = branch.waits[step.depth]
    score = bound(step, entries, fill, waits, problem, floors, branch, scratch)[0]
    return bool(score < best.result[SCORE] * problem.scalars[PRUNE])


@part(allocates=False)
def add_children(
    step: Step, elements: float, seen: float, problem: TilingProblem, floors: Floors, branch: Branch, scratch: Scratch,
    children: Children, best: Best,
) -> None:  # fmt: skip
    """A step with the tile picked: one child for every innermost loop above its cut that makes a difference."""
    depth, cut, per_cut, pick = step.depth, step.cut, problem.per_cut, scratch.pick
    changed, one_step = 0, True
    for d in range(pick.size):
        if problem.relevant[step.slot, d] and pick[d] > 0:
            one_step = False
        if pick[d] != branch.tiles[depth, d]:
            changed += 1
    for choice in range(-1, pick.size):
        if not makes_a_difference(choice, changed, step, problem, floors, branch, pick):
            continue
        loop, span = innermost_loop(choice, changed, depth, branch)
        entries = seen * entries_into(cut, loop, span, pick, problem)
        fill, waits = per_cut[cut, FILL_PER_ELEMENT] * elements, branch.waits[depth]
        if not one_step and elements * per_cut[cut, BITS] > per_cut[cut, OVERLAPPED_BITS]:
            waits += per_cut[cut, WAITS_PER_ENTRY] * entries + per_cut[cut, WAITS_ONCE]
        score, cycles, joules = bound(step, entries, fill, waits, problem, floors, branch, scratch)
        if score >= best.result[SCORE] * problem.scalars[PRUNE]:
            continue
        if depth + 1 == problem.slot_of.size:
            best.result[SCORE], best.result[CYCLES], best.result[JOULES] = score, cycles, joules
            keep_path(depth, cut, loop, branch.path, pick, best.path)
        else:
            keep_child(depth, score, (cut, loop, span), pick, (entries, elements, fill, waits), children)


@part(allocates=False)
def keep_child(
    depth: int, score: float, choice: tuple[int, int, int], pick: I64, costs: tuple[float, ...], children: Children
) -> None:
    """Add a child, if there is room, and count it in any case."""
    new = children.many[depth]
    children.many[depth] += 1
    if new >= children.bounds.shape[1]:
        return
    children.bounds[depth, new] = score
    for column in range(TILES):
        children.choices[depth, new, column] = choice[column]
    for d in range(pick.size):
        children.choices[depth, new, TILES + d] = pick[d]
    for column in range(len(costs)):
        children.costs[depth, new, column] = costs[column]


@part(allocates=False)
def innermost_loop(choice: int, changed: int, depth: int, branch: Branch) -> tuple[int, int]:
    """The innermost loop above a cut and the tile from which it starts: ``choice`` (-1: any), or the loop of the block
    further up if it goes on."""
    if choice < 0 and changed > 0:
        return -1, 0
    if choice < 0 or (changed == 1 and branch.loop[depth] == choice):
        return branch.loop[depth], branch.span[depth]
    return choice, branch.tiles[depth, choice]


@part(allocates=False)
def makes_a_difference(
    choice: int, changed: int, step: Step, problem: TilingProblem, floors: Floors, branch: Branch, pick: I64
) -> bool:
    """Whether a loop right above the cut lets a window slide, here or further in: if not, it is as good as any."""
    if choice < 0:
        return step.sliding < 0
    if pick[choice] == branch.tiles[step.depth, choice]:
        return False
    slot, cut = step.slot, step.cut
    if step.sliding >= 0:
        slot, cut = step.sliding, step.sliding_cut
    if not floors.has_window[slot, choice]:
        return False
    if branch.placed[step.depth, slot] + 1 < problem.cuts_of[slot]:
        return True
    span = innermost_loop(choice, changed, step.depth, branch)[1]
    return would_slide(cut, choice, span, pick, problem)


@part(allocates=False)
def keep_path(depth: int, cut: int, loop: int, path: I64x2, pick: I64, best: I64x2) -> None:
    """The path of the branch and the last step are the best tiling."""
    for above in range(depth):
        for column in range(path.shape[1]):
            best[above, column] = path[above, column]
    best[depth, 0], best[depth, 1] = cut, loop
    for d in range(pick.size):
        best[depth, 2 + d] = pick[d]


@part(allocates=False)
def next_child(depth: int, beat: float, children: Children) -> int:
    """The best child left of the node at a depth, or -1 if none scores below ``beat``."""
    if children.turn[depth] >= children.many[depth]:
        return -1
    child = children.order[depth, children.turn[depth]]
    children.turn[depth] += 1
    return int(child) if children.bounds[depth, child] < beat else -1


@part(allocates=False)
def descend(depth: int, child: int, children: Children, branch: Branch, problem: TilingProblem) -> None:
    """The node of a child, one deeper: what is placed, used and spent once its cut is."""
    choices, costs = children.choices[depth, child], children.costs[depth, child]
    cut, entries = choices[CUT], costs[ENTRIES]
    slot = problem.slot_of[cut]
    branch.path[depth, 0], branch.path[depth, 1] = cut, choices[LOOP]
    for d in range(branch.tiles.shape[1]):
        branch.tiles[depth + 1, d] = choices[TILES + d]
        branch.path[depth, 2 + d] = choices[TILES + d]
    for s in range(problem.cuts_of.size):
        branch.placed[depth + 1, s] = branch.placed[depth, s] + (1 if s == slot else 0)
        branch.fill[depth + 1, s] = branch.fill[depth, s] + (costs[FILL] if s == slot else 0.0)
    for m in range(problem.room.size):
        branch.used[depth + 1, m] = branch.used[depth, m]
    branch.used[depth + 1, problem.memory_of[cut]] += costs[ELEMENTS] * problem.per_cut[cut, BITS]
    branch.joules[depth + 1] = branch.joules[depth] + problem.per_cut[cut, JOULES_PER_ENTRY] * entries
    branch.waits[depth + 1] = costs[WAITS]
    for port in range(problem.port_base.size):
        branch.load[depth + 1, port] = branch.load[depth, port] + problem.port_slope[port, cut] * entries
    branch.loop[depth + 1], branch.span[depth + 1] = choices[LOOP], choices[SPAN]
