"""A mapping as a loop nest that a person can read."""

from __future__ import annotations

import math

from monet.graph.loop_nest import LoopNest
from monet.mapping.nest.cost import tile_elements
from monet.mapping.nest.frame import Crossing, Stream
from monet.mapping.nest.mapping import trips_by_dim
from monet.mapping.nest.spatial import frame_of
from monet.mapping.unfused.operator import Unfused


def loop_nest_text(nest: LoopNest, found: Unfused) -> str:
    """Loops from DRAM inward; after each block, what a level keeps there."""
    core, mapping, tile = found.array, found.mapped.mapping, dict(found.tile)
    inner = found.mapped_nest
    frame = frame_of(inner, core, mapping.mode, mapping.binding, mapping.unrolled, _ANY_SOURCE)
    flat = frame_of(nest, core, mapping.mode, mapping.binding, (), _ANY_SOURCE)
    lines: list[str] = []
    depth = 0
    for loop in found.order:
        lines.append(f"{'  ' * depth}for {loop.dim.lower()} in {loop.trips} tiles of {tile[loop.dim]}   # from DRAM")
        depth += 1
    cut_levels = {(cut.slot, cut.level) for cut in mapping.cuts}
    for slot in ("I", "W", "O"):
        top = core.top(slot)
        if (slot, top.name) in cut_levels:
            lines.append(f"{'  ' * depth}# {mapping.binding.operand(slot)} streams in from DRAM")
            continue
        elements = tile_elements(flat, Crossing(slot, top, None, 1, 1, 1), tile)
        lines.append(
            f"{'  ' * depth}# {top.name} holds {_size(mapping.binding.operand(slot), elements, flat.bits[slot])}"
        )
    if found.phases > 1:
        lines.append(f"{'  ' * depth}# the first of {found.phases} phases: {inner}")
    for position in range(len(mapping.loops) + 1):
        for crossing in frame.crossings:
            cut = mapping.cut(crossing.slot, crossing.level.name)
            if cut and cut.position == position:
                elements = tile_elements(frame, crossing, trips_by_dim(mapping.loops[position:]))
                operand = mapping.binding.operand(crossing.slot)
                each = " each" if crossing.level.instances > 1 else ""
                text = f"{_size(operand, elements, frame.bits[crossing.slot])}{each}"
                lines.append(f"{'  ' * depth}# {crossing.level.name} keeps {text}")
        if position < len(mapping.loops):
            loop = mapping.loops[position]
            if loop.trips > 1:
                lines.append(f"{'  ' * depth}for {loop.dim.lower()} in {loop.trips}")
                depth += 1
    if mapping.unrolled:
        sides = ", ".join(
            f"{unrolling.dim.lower()} {unrolling.factor} on {unrolling.axis}" for unrolling in mapping.unrolled
        )
        lines.append(f"{'  ' * depth}side by side: {sides}")
        depth += 1
    names = [operand.name for operand in nest.reads]
    lines.append(f"{'  ' * depth}{nest.writes[0].name} += {' · '.join(names)}")
    return "\n".join(lines)


def _size(operand: str, elements: int, bits: float) -> str:
    return f"{operand}: {elements:,} elements, {math.ceil(elements * bits / 8):,} bytes"


_ANY_SOURCE = Stream(1.0, 0.0, 0.0)  # sizes do not depend on where a stream comes from
