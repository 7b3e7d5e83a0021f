"""A held tile from end to end: the way of its first operands down into the array, the steady part, and the way of its
last results up. What a port moves on these ways is not counted again in the steady part, and results go up as wide as
they are stored; both make a difference to tiles of a few steps."""

from __future__ import annotations

from dataclasses import dataclass

from monet.hardware.core import OPERANDS, Flow
from monet.mapping.mapper.search import Mapped
from monet.mapping.nest.cost import tile_elements
from monet.mapping.nest.frame import Frame


@dataclass(frozen=True, slots=True)
class Edges:
    """Cycles of a tile. ``steady`` is at least what the array takes; ``fill`` and ``drain`` stand before and after."""

    fill: float
    steady: float
    drain: float


def edges_of(frame: Frame, found: Mapped) -> Edges:
    """Edges of a mapping in its frame."""
    ways, ports = dict.fromkeys(OPERANDS, 0.0), dict(found.cost.port_cycles)
    for crossing in frame.crossings:
        slot, level = crossing.slot, crossing.level
        cut = found.mapping.cut(slot, level.name)
        tile = found.mapping.tile(cut.position if cut else 0)
        entered = tile_elements(frame, crossing, tile) * crossing.positions
        outward, below = slot == "O", frame.bits[slot]
        above = frame.result_bits if outward else below
        if outward and level.name != frame.levels["O"][0].name:
            below = frame.result_bits
        port, per_bit = frame.cycles_per_bit(crossing.above_name, slot, Flow.COLLECT if outward else Flow.FEED)
        upper = entered * above * crossing.reads * per_bit
        ports[port] -= upper
        port, per_bit = frame.cycles_per_bit(level.name, slot, Flow.DRAIN if outward else Flow.FILL)
        lower = entered * below * crossing.fills * per_bit
        ports[port] -= lower
        ways[slot] += max(upper, lower)
    fill = ways["I"] + ways["W"] if frame.inputs_share_a_port else max(ways["I"], ways["W"])
    steady = max(found.cost.compute_cycles + found.cost.exposed_cycles, *ports.values(), 0.0)
    return Edges(fill + frame.constant_fill_cycles, steady, ways["O"])
