"""Walk a mapped loop nest step by step, keep what every instance of every level holds, and count what moves.

It knows the nest only through its index expressions, and shares no code with the cost model: tiles are sets of
coordinates, found by enumerating the points inside them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

from monet.graph.loop_nest import LoopNest, Operand
from monet.hardware.core import Core, Flow
from monet.mapping.nest.mapping import Mapping


@dataclass
class Walk:
    nest: LoopNest
    core: Core
    mapping: Mapping

    def __post_init__(self) -> None:
        self.sizes = dict(self.nest.dims)
        self.factor = {dim: self.mapping.factor(dim) for dim in self.sizes}
        self.steps = {dim: -(-size // self.factor[dim]) for dim, size in self.sizes.items()}
        self.operands = {o.name: o for o in self.nest.operands}
        self.loops = merge_positions(self.mapping)

    def operand(self, slot: str) -> Operand:
        return self.operands[self.mapping.binding.operand(slot)]

    def inside(self, level, axis: str) -> bool:
        return level is None or axis == "unit" or axis in level.shared_along

    def lanes(self):
        """Every position of the unrolled array: a tuple of digits, one for each unrolled entry."""
        return itertools.product(*(range(one.factor) for one in self.mapping.unrolled))

    def lane_value(self, dim: str, chunk: int, digits: tuple[int, ...], level) -> int:
        """The dimension's value at a lane: chunk · factor + its place, entries outside a level counting as the
        slower digits so that one instance holds neighbours."""
        ordered = [i for i, one in enumerate(self.mapping.unrolled) if one.dim == dim]
        ordered.sort(key=lambda i: self.inside(level, self.mapping.unrolled[i].axis))
        place = 0
        for i in ordered:
            place = place * self.mapping.unrolled[i].factor + digits[i]
        return chunk * self.factor[dim] + place

    def element(self, operand: Operand, point: dict[str, int]):
        """Coordinates, or None in the padding."""
        found = tuple(sum(c * point[d] for d, c in ix.terms) + ix.offset for ix in operand.indices)
        return found if all(0 <= f < s for f, s in zip(found, operand.shape, strict=True)) else None

    def iterate(self, upto: int):
        """(first step of every dimension, loop that advanced) for all iterations of loops[:upto], in order."""
        loops = self.mapping.loops
        strides, below = [], {}
        for loop in reversed(loops):
            strides.append(below.get(loop.dim, 1))
            below[loop.dim] = below.get(loop.dim, 1) * loop.trips
        strides.reverse()
        before: tuple[int, ...] | None = None
        for digits in itertools.product(*(range(loop.trips) for loop in loops[:upto])):
            start = dict.fromkeys(self.sizes, 0)
            for digit, loop, stride in zip(digits, loops, strides, strict=False):
                start[loop.dim] += digit * stride
            if any(start[dim] >= self.steps[dim] for dim in start):
                continue
            advanced = -1
            if before is not None:
                advanced = next(i for i, (a, b) in enumerate(zip(before, digits, strict=True)) if a != b)
            before = digits
            yield start, advanced

    def tile(self, operand: Operand, position: int, start: dict[str, int], lane, level) -> frozenset:
        tile = self.mapping.tile(position)
        used = operand.dims
        ranges = []
        for dim in self.sizes:
            if dim not in used:
                ranges.append([0])
                continue
            stop = min(self.steps[dim], start[dim] + tile.get(dim, 1))
            values = set()
            for chunk in range(start[dim], stop):
                for digits in self.lanes():
                    same = all(
                        digits[i] == lane[i]
                        for i, one in enumerate(self.mapping.unrolled)
                        if not self.inside(level, one.axis)
                    )
                    if same:
                        value = self.lane_value(dim, chunk, digits, level)
                        if value < self.sizes[dim]:
                            values.add(value)
            ranges.append(sorted(values))
        found = set()
        for values in itertools.product(*ranges):
            element = self.element(operand, dict(zip(self.sizes, values, strict=True)))
            if element is not None:
                found.add(element)
        return frozenset(found)


def merge_positions(mapping: Mapping) -> list[int]:
    """For every loop the first of the run of neighbouring loops over the same dimension that it belongs to."""
    group, last_dim, last = [], None, -1
    for i, loop in enumerate(mapping.loops):
        if loop.trips == 1:
            group.append(last)
            continue
        if loop.dim != last_dim:
            last, last_dim = i, loop.dim
        group.append(last)
    return group


def simulate(nest: LoopNest, core: Core, mapping: Mapping) -> Counter:
    """Elements by (level, slot, flow)."""
    walk = Walk(nest, core, mapping)
    counts: Counter = Counter()
    for slot in "IWO":
        levels = list(core.levels_of(slot))
        pairs = list(zip(levels, (*levels[1:], None), strict=True))
        if slot not in core.streamed:
            pairs = pairs[:-1]
        fresh = Counter()
        for number, (level, above) in enumerate(pairs):
            fresh_here = _crossing(walk, slot, level, above, counts)
            if number == 0:
                fresh = fresh_here
        _array(walk, slot, levels[0], counts, fresh if pairs else None)
    return counts


def _crossing(walk: Walk, slot: str, level, above, counts: Counter) -> Counter:
    operand, mapping = walk.operand(slot), walk.mapping
    position = mapping.cut(slot, level.name).position
    above_name = above.name if above else "stream"
    moving = innermost_moving(walk, operand, position)
    held: dict = {}
    written_before: dict = {}
    fresh: Counter = Counter()
    instances = {}
    for lane in walk.lanes():
        key = tuple(d for d, one in zip(lane, mapping.unrolled, strict=True) if not walk.inside(level, one.axis))
        instances.setdefault(key, lane)
    for start, advanced in walk.iterate(position):
        incoming: dict = {}
        for key, lane in instances.items():
            tile = walk.tile(operand, position, start, lane, level)
            old = held.get(key, frozenset())
            if key in held and advanced > moving:  # only loops below the one that moves the tile took a step
                continue
            slides = advanced >= 0 and moving >= 0 and walk.loops[advanced] == walk.loops[moving]
            stays = old & tile if slides else frozenset()
            incoming[key] = (lane, tile - stays, old - stays)
            held[key] = tile
        _move(walk, slot, level, above, above_name, incoming, written_before, counts, fresh)
    _move(
        walk, slot, level, above, above_name,
        {key: (lane, frozenset(), held[key]) for key, lane in instances.items()}, written_before, counts, fresh,
    )  # fmt: skip
    return fresh


def innermost_moving(walk: Walk, operand: Operand, position: int) -> int:
    """The innermost loop above a cut that moves the operand's tile; -1 if none does."""
    for i in reversed(range(position)):
        if walk.mapping.loops[i].trips > 1 and walk.mapping.loops[i].dim in operand.dims:
            return i
    return -1


def _group(walk: Walk, slot: str, lane, level, above) -> tuple:
    """Instances of ``level`` with the same group share one access of ``above``: merged by multicast or addition."""
    axes = {axis.name: axis for axis in walk.core.modes[0].axes}
    found = []
    for digit, one in zip(lane, walk.mapping.unrolled, strict=True):
        if level is not None and walk.inside(level, one.axis):
            continue
        merges = one.axis == "unit" and slot == "O"
        if one.axis != "unit":
            merges = axes[one.axis].reduce if slot == "O" else slot in axes[one.axis].multicast
        if not (walk.inside(above, one.axis) and merges):
            found.append((one.axis, one.dim, digit))
    return tuple(found)


def _move(walk, slot, level, above, above_name, incoming, written_before, counts, fresh) -> None:
    groups: dict = {}
    for key, (lane, new, gone) in incoming.items():
        groups.setdefault(_group(walk, slot, lane, level, above), []).append((key, new, gone))
    for group, members in groups.items():
        if slot != "O":
            counts[above_name, slot, Flow.FEED] += len(frozenset().union(*(new for _, new, _ in members)))
            counts[level.name, slot, Flow.FILL] += sum(len(new) for _, new, _ in members)
            continue
        gone = frozenset().union(*(gone for _, _, gone in members))
        counts[level.name, slot, Flow.DRAIN] += sum(len(gone) for _, _, gone in members)
        counts[above_name, slot, Flow.COLLECT] += len(gone)
        known = written_before.setdefault(group, set())
        known |= gone
        new = frozenset().union(*(new for _, new, _ in members))
        again = new & known
        counts[above_name, slot, Flow.FEED] += len(again)
        counts[level.name, slot, Flow.FILL] += len(again)  # one of the merged positions continues the sum
        for number, (key, arrived, _) in enumerate(members):
            for element in arrived:
                if element not in known or number > 0:
                    fresh[key, element] += 1


def _array(walk: Walk, slot: str, level, counts: Counter, fresh: Counter | None) -> None:
    """What the array itself asks of the innermost level."""
    operand = walk.operand(slot)
    accesses = 0
    touched = set()
    for start, _ in walk.iterate(len(walk.mapping.loops)):
        seen = set()
        for lane in walk.lanes():
            point = {dim: walk.lane_value(dim, start[dim], lane, level) for dim in walk.sizes}
            if any(point[dim] >= walk.sizes[dim] for dim in point):
                continue
            element = walk.element(operand, point)
            if element is not None:
                seen.add((_group(walk, slot, lane, None, level), element))
                touched.add(element)
        accesses += len(seen)
    if slot != "O":
        counts[level.name, slot, Flow.FEED] += accesses
        return
    counts[level.name, slot, Flow.COLLECT] += accesses
    started = len(touched) if fresh is None else sum(fresh.values())
    counts[level.name, slot, Flow.FEED] += accesses - started
