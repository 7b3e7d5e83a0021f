"""Vector work: element-wise operators, reductions, norms, softmax, losses, optimizer updates, copies.

Lanes take cycles per element by function; operands pass the ports of the core's top memory. The slower one counts.
A norm or softmax passes over its input twice (statistics, then apply); from DRAM only once if the extent it reduces
over fits the memory. Operands with a window (pooling) are read once per window position, all others once per pass.
Which operator does what stands in the operator table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from monet.errors import MonetError
from monet.formats import whole_bytes
from monet.graph.kind import PLAIN, Dimensions
from monet.graph.loop_nest import LoopNest, Operand
from monet.hardware.core import Core, Flow
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.nest.cost import Access
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.dram_route import OperandCost, UnfusedCost

STREAM_TILES = 16  # a long operand is passed through the memory in at least so many tiles


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorCost(UnfusedCost):
    """A vector operator alone."""

    elements: int
    work: tuple[tuple[str, int], ...]
    port_cycles: tuple[tuple[str, float], ...]
    tiles: int
    lanes: int

    @property
    def utilisation(self) -> float:
        """Share of lane cycles that do work."""
        return self.compute_cycles / self.cycles if self.cycles else 0.0


def vector_cost(
    nest: LoopNest, work: Mapping[str, int], core: Core, border: Border, dimensions: Dimensions = PLAIN
) -> VectorCost:
    """Cost of vector work on ``core``; ``dimensions`` are those of the whole operator."""
    border.check_room(nest)
    if core.lanes <= 0:
        raise MappingError(f"the core has no vector lanes for {', '.join(work) or 'copies'}")
    rate = core.lane_rate(*(operand.dtype for operand in nest.operands))
    functions = dict(work) or {"copy": max((math.prod(operand.shape) for operand in nest.writes), default=0)}
    lane_cycles = math.fsum(core.function_cycles(name) * count for name, count in functions.items())
    compute = lane_cycles / (core.lanes * rate.elements_per_cycle)
    passes = dimensions.passes
    accesses = _accesses(nest, core, passes)
    held_bits = dimensions.extent * max((operand.bits_per_element for operand in nest.reads), default=0)
    once = passes == 1 or _fits(held_bits, core)
    read, written, inward = _traffic(nest, core, 1 if once else passes)
    tiles = _tiles(read + written, core)
    operands = _operands(nest, core, 1 if once else passes, tiles)
    passed, across = border.pass_operands(nest, operands, core)
    below = {"compute": lane_cycles * rate.energy_j}
    for access in accesses:
        level = core.level(access.level)
        joules = level.read_energy_j_per_bit if access.flow.is_read else level.write_energy_j_per_bit
        below[access.level] = below.get(access.level, 0.0) + joules * access.bits
    ports = _port_cycles(core, accesses)
    port, busiest = max(ports, key=lambda port: port[1], default=("", 0.0))
    return VectorCost(
        elements=sum(math.prod(operand.shape) for operand in nest.writes),
        work=tuple(functions.items()),
        compute_cycles=compute,
        core_cycles=max(compute, busiest),
        core_bound_by=port if busiest > compute else "compute",
        port_cycles=ports,
        dispatch_cycles=core.dispatch_cycles,
        operands=operands,
        passing=passed,
        dram_read_bits=read,
        dram_write_bits=written,
        tiles=tiles,
        accesses=accesses,
        border_accesses=inward,
        energy_j_by_level=below,
        border_energy_j=across,
        lanes=core.lanes,
    )


def _slot(operand: Operand, core: Core) -> str:
    if operand.written:
        return "O"
    return "I" if core.levels_of("I") else "W"


def _accesses(nest: LoopNest, core: Core, passes: int) -> tuple[Access, ...]:
    """What lanes read and write at the core's top memory."""
    found: dict[tuple[str, str, Flow], tuple[int, float]] = {}
    for operand in nest.operands:
        slot = _slot(operand, core)
        bits, elements = operand.bits_per_element, math.prod(operand.shape)
        if operand.written:
            count = elements
        else:  # windows are read position by position; of axes that hold blocks side by side, a part of each is read
            joined = any(len([n for n, f in index.terms if f and nest.sizes[n] > 1]) > 1 for index in operand.indices)
            count = (math.prod(nest.sizes[dim] for dim in operand.dims) if joined else elements) * passes
        key = (core.top(slot).name, slot, Flow.COLLECT if operand.written else Flow.FEED)
        before = found.get(key, (0, 0))
        found[key] = before[0] + count, before[1] + count * bits
    return tuple(Access(*key, count, bits, float(bits)) for key, (count, bits) in found.items())


def _traffic(nest: LoopNest, core: Core, passes: int) -> tuple[float, float, tuple[Access, ...]]:
    """(bits read from DRAM, bits written, the top memory's side of it)."""
    read: float = 0
    written: float = 0
    came = left = 0
    for operand in nest.operands:
        elements, bits = math.prod(operand.shape), operand.bits_per_element
        if operand.written:
            left, written = left + elements, written + elements * bits
            continue
        times = passes if len(operand.shape) > 1 else 1  # per-channel parameters stay
        came, read = came + elements * times, read + elements * bits * times
    slot = "I" if core.levels_of("I") else "W"
    inward = []
    if read:
        inward.append(Access(core.top(slot).name, slot, Flow.FILL, came, read, float(read)))
    if written:
        inward.append(Access(core.top("O").name, "O", Flow.DRAIN, left, written, float(written)))
    return read, written, tuple(inward)


def _operands(nest: LoopNest, core: Core, passes: int, tiles: int) -> tuple[OperandCost, ...]:
    """What crosses the border for every operand; a tile of each comes before the lanes start, or leaves after them."""
    found = []
    for operand in nest.operands:
        size = whole_bytes(math.prod(operand.shape) * operand.bits_per_element, down=True)
        if not operand.written and len(operand.shape) > 1:
            size *= passes
        found.append(OperandCost(_slot(operand, core), size, size // tiles, 0, 0, False))
    return tuple(found)


def _fits(bits: float, core: Core) -> bool:
    return bits <= core.top("I").total_bytes * 8 // 2


def _tiles(bits: float, core: Core) -> int:
    """Tiles in which operands pass the memory, two of them at a time."""
    room = core.top("I").total_bytes * 8
    if room <= 0:
        raise DoesNotFit("I", core.top("I").name, 1, 0)
    return int(max(min(STREAM_TILES, max(1, bits // 4096)), -(-2 * bits // room)))


def _port_cycles(core: Core, accesses: tuple[Access, ...]) -> tuple[tuple[str, float], ...]:
    cycles: dict[str, float] = {}
    for access in accesses:
        level = core.level(access.level)
        port = level.port_for(access.slot, access.flow)
        name = f"{level.name}.{port.name}"
        cycles[name] = cycles.get(name, 0.0) + access.bits / port.bandwidth_bits_per_cycle
    return tuple(cycles.items())


def supports(core: Core, work: Mapping[str, int]) -> str:
    """Empty if a core can do the functions, else why not."""
    if core.lanes <= 0:
        return "it has no vector lanes"
    for name in work or ("copy",):
        try:
            core.function_cycles(name)
        except MonetError as error:
            return str(error)
    return ""
