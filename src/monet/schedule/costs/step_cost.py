"""What one step costs: a nest (an operator, a piece or a tile of it) on one core. Each distinct one is costed once.

Two ways to run. *Streamed*: operands lie outside and pass through buffers as the mapper's DRAM-level tiling asks (an
operator alone). *Held*: every operand lies in the core's memory (a tile inside a fusion group).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from monet.formats import whole_bytes
from monet.graph.kind import Dimensions
from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import CoreInstance
from monet.hardware.core import Core
from monet.hashed import Hashed
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import MappingError
from monet.mapping.mapper.parts import has_phases
from monet.mapping.mapper.search import Target, search
from monet.mapping.nest.bias import bias_cost
from monet.mapping.nest.cost import Access
from monet.mapping.nest.phases import phases
from monet.mapping.nest.spatial import known_frame
from monet.mapping.unfused.arrays import below_on, quickest
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.dram_route import OperandCost
from monet.mapping.unfused.operator import Below
from monet.mapping.vector import VectorCost, supports, vector_cost
from monet.schedule.costs.held_tile import edges_of

STREAM_SHARE = 8  # a held tile's streamed operand is there before the array starts to this fraction


@dataclass(frozen=True)
class StepCost:
    """Cycles of the core by use, traffic by operand (in the nest's order), joules by level at and below the border.

    ``switch``: of a held step the way of the first operands down and of the last sums up. A core that
    goes on with the next tile of the same operator does not pay it again: the array stays filled.
    """

    useful: float
    under_use: float
    stall: float
    switch: float
    operands: tuple[OperandCost, ...]
    energy_j: tuple[tuple[str, float], ...]
    bound_by: str
    ports: tuple[tuple[str, float], ...] = ()  # levels that other cores share: cycles of the busiest port of each
    mode: str = ""  # of the array; a core that was in another one before pays for the change

    @cached_property
    def _hash(self) -> int:
        return hash((self.useful, self.under_use, self.stall, self.switch, self.operands, self.energy_j))

    def __hash__(self) -> int:
        return self._hash  # part of many keys, and deep

    @property
    def cycles(self) -> float:
        """Time on the core."""
        return self.useful + self.under_use + self.stall + self.switch


MATRIX_STEPS = Section[StepCost]("costs of matrix steps", 50_000)
BY_TILES = Section[StepCost]("costs of matrix steps by their tiles", 50_000)


def smaller_border(border: Border, share: float) -> Border:
    """The border of a core that may use only a share of its top memories. Cells spread over an array hold an operator's
    weights, not tiles of them: they are not shared out."""
    if share >= 1:
        return border
    memories = Hashed(
        (slot, name, replace(level, size_bytes=int(level.size_bytes * share)) if level.instances == 1 else level)
        for slot, name, level in border.memories
    )
    return replace(border, memories=memories)


def matrix_streamed(
    nest: LoopNest, instance: CoreInstance, border: Border, objective: str, store: CostStore
) -> StepCost:
    """A matrix operator whose operands are streamed: exactly what ``monet map`` says, cut into what the core does and
    what crosses its border."""
    core = instance.core

    def compute() -> StepCost:
        below, serial = below_on(nest, core, border, objective, store)
        return store[BY_TILES].get_or((below.number, serial), lambda: _of_tiles(nest, below, serial))

    key = store.key("streamed step", nest, core, border, objective)
    return store.lasting(MATRIX_STEPS, key, compute, _pack, _unpack)


def matrix_held(nest: LoopNest, instance: CoreInstance, border: Border, objective: str, store: CostStore) -> StepCost:
    """A matrix operator whose operands lie in the core's memory, on whichever of its arrays is done first."""
    core = instance.core

    def compute() -> StepCost:
        return quickest(nest, core, lambda array: _held(nest, array, border, objective, store), _cycles)

    key = store.key("held step", nest, core, border.stream, objective)
    return store.lasting(MATRIX_STEPS, key, compute, _pack, _unpack)


def passing_cycles(cost: StepCost, border: Border) -> float:
    """Cycles that the operands of a streamed step take on the slowest wire of the way to DRAM."""
    return 8 * sum(operand.bytes + operand.spilled for operand in cost.operands) / border.bits_per_cycle


def _pack(cost: StepCost) -> dict[str, Any]:
    operands = [[o.slot, o.bytes, o.first, o.spilled, o.buffer, o.streams] for o in cost.operands]
    cycles = [cost.useful, cost.under_use, cost.stall, cost.switch]
    energy, ports = ([list(pair) for pair in some] for some in (cost.energy_j, cost.ports))
    by = cost.bound_by
    return {"cycles": cycles, "operands": operands, "energy": energy, "by": by, "ports": ports, "mode": cost.mode}


def _unpack(packed: Mapping[str, Any]) -> StepCost:
    operands = tuple(OperandCost(*fields) for fields in packed["operands"])
    useful, under_use, stall, switch = packed["cycles"]
    energy = tuple((level, joules) for level, joules in packed["energy"])
    ports = tuple((memory, cycles) for memory, cycles in packed["ports"])
    return StepCost(useful, under_use, stall, switch, operands, energy, packed["by"], ports, packed["mode"])


def shared_ports(core: Core, accesses: Iterable[Access]) -> tuple[tuple[str, float], ...]:
    """Levels that other cores share, and for how many cycles some accesses take the busiest port of each. Of levels in
    one memory the first stands for all."""
    levels = {level.name: level for level in core.levels if level.memory}
    if not levels:
        return ()
    first = {level.memory: level.name for level in reversed(core.levels)}
    busy: dict[tuple[str, str], float] = {}
    for access in accesses:
        for port in levels[access.level].ports if access.level in levels else ():
            if (access.slot, access.flow) in port.carries:
                key = first[levels[access.level].memory], port.name
                busy[key] = busy.get(key, 0.0) + access.bits / port.bandwidth_bits_per_cycle
    names = sorted({level for level, _ in busy})
    return tuple((name, max(cycles for (level, _), cycles in busy.items() if level == name)) for name in names)


def _useful_cycles(nest: LoopNest, core: Core, first: str, second: str) -> float:
    rate = core.rate(first, second)
    return nest.points / (core.units * rate.products_per_cycle)


def _of_tiles(nest: LoopNest, below: Below, serial: float) -> StepCost:
    core, totals = below.array, below.totals
    by_slot = {below.binding.slot(operand.name): operand.dtype for operand in nest.operands}
    useful = min(_useful_cycles(nest, core, by_slot["I"], by_slot["W"]), below.compute_cycles)
    return StepCost(
        useful,
        below.compute_cycles - useful,
        below.core_cycles + serial - below.compute_cycles,
        0.0,
        below.operands,
        tuple(sorted(totals.joules.items())),
        totals.mapped.cost.bound_by,
        shared_ports(core, (*totals.counts.accesses, *below.border_accesses)),
        below.mode,
    )


def _cycles(cost: StepCost) -> float:
    return cost.cycles


def _held(nest: LoopNest, core: Core, border: Border, objective: str, store: CostStore) -> StepCost:
    """As it stands or, where that is quicker, in phases one after another."""
    direct = _held_at_once(nest, core, border, objective, store)
    if not has_phases(nest, Target(core)):
        return direct
    parts = [_held_at_once(phase, core, border, objective, store) for phase in phases(nest)]
    return min(direct, _one_after_another(parts), key=_cycles)


def _one_after_another(parts: list[StepCost]) -> StepCost:
    """Phases of a step: the array is filled and drained for each, but those of the longest only are the step's own."""
    joules: dict[str, float] = {}
    ports: dict[str, float] = {}
    for part in parts:
        for level, spent in part.energy_j:
            joules[level] = joules.get(level, 0.0) + spent
        for memory, cycles in part.ports:
            ports[memory] = ports.get(memory, 0.0) + cycles
    switch = max(part.switch for part in parts)
    return replace(
        parts[0],
        useful=sum(part.useful for part in parts),
        under_use=sum(part.under_use for part in parts),
        stall=sum(part.stall + part.switch for part in parts) - switch,
        switch=switch,
        energy_j=tuple(sorted(joules.items())),
        ports=tuple(sorted(ports.items())),
    )


def _held_at_once(nest: LoopNest, core: Core, border: Border, objective: str, store: CostStore) -> StepCost:
    found = search(nest, core, objective, border.stream, store=store)
    binding, cost = found.mapping.binding, found.cost
    operands = []
    for operand in nest.operands:
        slot = binding.slot(operand.name)
        size = whole_bytes(cost.stream_bits(slot), down=True)
        operands.append(OperandCost(slot, size, size // STREAM_SHARE, 0, 0, slot in core.streamed))
    by_slot = {binding.slot(operand.name): operand.dtype for operand in nest.operands}
    useful = min(_useful_cycles(nest, core, by_slot["I"], by_slot["W"]), cost.compute_cycles)
    energy = {level: joules for level, joules in found.energy_j_by_level.items() if level != "stream"}
    mapping = found.mapping
    frame = known_frame(nest, core, mapping.mode, binding, mapping.unrolled, border.stream, store)
    edges = edges_of(frame, found)
    return StepCost(
        useful,
        cost.compute_cycles - useful,
        edges.steady - cost.compute_cycles,
        edges.fill + edges.drain,
        tuple(operands),
        tuple(sorted(energy.items())),
        cost.bound_by,
        shared_ports(core, cost.accesses),
        mapping.mode,
    )


def with_bias(cost: StepCost, nest: LoopNest, dtype: str, core: Core) -> StepCost:
    """A matrix step that adds a bias to its results as they leave."""
    bias, more = bias_cost(nest, dtype, core)
    joules = dict(cost.energy_j)
    for level, spent in more.items():
        joules[level] = joules.get(level, 0.0) + spent
    return replace(cost, operands=(*cost.operands, bias), energy_j=tuple(sorted(joules.items())))


def vector_step(
    nest: LoopNest,
    work: Mapping[str, int],
    dimensions: Dimensions,
    instance: CoreInstance,
    border: Border,
    streamed: bool,
) -> StepCost:
    """Vector work; ``work`` is that of this nest."""
    core = instance.core
    reason = supports(core, work)
    if reason:
        raise MappingError(reason)
    found = vector_cost(nest, work, core, border, dimensions)
    slots = ("I" if core.levels_of("I") else "W", "O")
    buffer = _vector_buffer(found, border, slots) if streamed else 0
    operands = list(found.operands)
    if operands and buffer:
        operands[0] = replace(operands[0], buffer=buffer)
    return StepCost(
        found.compute_cycles,
        0.0,
        found.core_cycles - found.compute_cycles,
        0.0,
        tuple(operands),
        tuple(sorted(found.energy_j_by_level.items())),
        found.core_bound_by if streamed else "compute",
        shared_ports(core, (*found.accesses, *found.border_accesses) if streamed else found.accesses),
    )


def _vector_buffer(found: VectorCost, border: Border, slots: tuple[str, str]) -> int:
    """Two of the tiles in which operands pass the memory, as far as it has room."""
    level = border.memory_of(slots[0])
    wanted = int(-(-2 * (found.dram_read_bits + found.dram_write_bits) // (8 * found.tiles)))
    return min(wanted, level.total_bytes if level else wanted)
