"""The scheduler: a graph on an accelerator, analysed once; then any number of plans, each decided and timed."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np

from monet.arrays import I64
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import CostStore, default_store
from monet.schedule.clusters import LEAST
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.expansion.expand import Draft, Expanded, draft, too_large
from monet.schedule.folding.recurrence import Recurrence
from monet.schedule.folding.shortened import KEPT, NotRepeating, Shortened, shortened
from monet.schedule.launches import issued_in_order
from monet.schedule.machine import Machine
from monet.schedule.plan import Plan
from monet.schedule.planning.grouping import tiled_groups
from monet.schedule.planning.placement import complete_placements
from monet.schedule.prefetch import ask_when_free
from monet.schedule.result_rows import CATEGORIES, Infeasible
from monet.schedule.schedule import Decided, Schedule
from monet.schedule.serving import best_order, served, served_within, timed_in_order
from monet.schedule.simulation.decide import NOWHERE, OK, decide
from monet.schedule.simulation.records import (
    NEVER,
    NOT_YET,
    BlockState,
    Bookings,
    Chunks,
    Copies,
    Counters,
    Dependencies,
    DramStays,
    EntryState,
    Events,
    Guards,
    Memories,
    Nodes,
    State,
    StepState,
    Tables,
)
from monet.schedule.simulation.workspace import Workspace, measured_workspace, own_workspace, without_collecting
from monet.schedule.workload import Workload, workload_of

RESERVED_BYTES = 3_700  # per operand of a tile in ``fresh_state``: 3.68 and 3.67 kB of gpt2-mini and gpt2-small

PORT_BUFFERS = 2  # transfers that a port has asked data for and is not done with


class NoSchedule(Exception):
    """A plan that cannot run: something does not fit even alone. Carries the reason; becomes an infeasible result."""

    def __init__(self, reason: Infeasible) -> None:
        self.reason = reason
        super().__init__(reason.message)


class Scheduler:
    """One graph on one accelerator. ``schedule`` may be called with any number of plans. ``store``: where costs are
    kept; this process's own unless one is given. ``least``: how many like cores work together (``clusters``).
    ``short``: if its graph stands for one with more equal layers, that; makespans are then of all layers."""

    short: Shortened | None = None

    def __init__(
        self,
        graph: Graph,
        accelerator: Accelerator,
        objective: str = "latency",
        store: CostStore | None = None,
        least: int = LEAST,
    ) -> None:
        self.workload, self.machine = workload_of(graph), Machine(accelerator, store or default_store(), least)
        self.costs = CostTable(self.machine, objective)

    def on(self, workload: Workload) -> Scheduler:
        """This scheduler on another variant of its graph; costs known so far are shared."""
        other = copy(self)
        other.workload = workload
        return other

    def with_fewer_layers(self, kept: int) -> Scheduler | None:
        """A scheduler of the graph with so many of its equal layers (``folding``), that says what plans for all of them
        take; None if its layers are few, or not equal, or if a host issues them: how far ahead it is, no layer says."""
        if self.machine.host_ticks:
            return None
        short = shortened(self.workload, kept) if self.workload is workload_of(self.workload.graph) else None
        if short is None:
            return None
        other = self.on(short.workload)
        other.short = short
        return other

    def leaving(self, left_free: tuple[int, ...]) -> Scheduler:
        """This scheduler with so many bytes of each of several DRAMs left free when storages are placed."""
        other = copy(self)
        other.machine = replace(self.machine, left_free=left_free)
        other.costs = CostTable(other.machine, self.costs.objective)
        return other

    def check_fits(self) -> None:
        """Raise ``NoSchedule`` if DRAM cannot even hold what is there before the step begins: no plan can run then. A
        search asks this first."""
        dram = self.machine.accelerator.dram
        resident = self.machine.resident
        needed = sum(
            storage.tensor.bytes
            for storage in self.workload.storages.values()
            if storage.is_root and CATEGORIES[storage.category] not in resident
        )
        short = needed - dram.capacity_bytes
        if short > 0:
            message = (
                f"does not fit: DRAM {dram.name} holds {dram.capacity_bytes:,} bytes, but {needed:,} are there before "
                f"the step begins (weights, states, inputs): {short:,} bytes short"
            )
            raise NoSchedule(Infeasible("", "", dram.name, short, message))

    def complete(self, plan: Plan, most_cores: int | None = None) -> Plan:
        """The plan with a placement for every operator; those that it leaves open take at most so many like cores."""
        return complete_placements(self.workload, self.machine, self.costs, plan, most_cores)

    def schedule(self, plan: Plan) -> Schedule:
        """Decide and time a plan; raises ``NoSchedule`` if something does not fit."""
        with without_collecting():
            plan = self.complete(plan)
            return self.timed(plan, self.draft(plan))

    def draft(self, plan: Plan) -> Draft:
        """Arrays of a complete plan, the same for every boundary that gives operators the same share of a memory.
        Raises ``NoSchedule`` if an operator does not fit."""
        return draft(self.workload, self.costs, plan, tiled_groups(self.workload, plan))

    def timed(self, plan: Plan, made: Draft, *, to_measure: bool = False) -> Schedule:
        """Decide and time a complete plan of which there is a draft; raises ``NoSchedule`` if something does not
        fit. ``to_measure``: it is good until the next plan is decided."""
        with without_collecting():
            expanded, decided, strict = self._decided(plan, made, own_workspace() if to_measure else None)
            room = measured_workspace() if to_measure else None
            return Schedule(plan, expanded, *served(decided, self.machine, strict=strict, room=room))

    def measured(self, plan: Plan) -> Schedule:
        """The same as ``schedule``, to be measured before the next one is: made with fewer of many equal layers where
        these say to the tick and byte what all do (``Schedule.repeated``)."""
        if len(plan.placements) < len(self.workload.operators):
            plan = self.complete(plan)
        # with these it depends on all layers what lies where
        by_all = self.machine.resident or len(self.machine.accelerator.drams) > 1
        for kept in () if by_all else KEPT:
            few = self.with_fewer_layers(kept)
            if few is None:
                break
            assert few.short is not None
            if any(plan is refused for refused in few.short.refused):
                continue
            try:
                return few.folded(plan)
            except (NoSchedule, NotRepeating):
                few.short.refused.append(plan)
        return self.timed(plan, self.draft(plan), to_measure=True)

    def folded(self, plan: Plan) -> Schedule:
        """The schedule of a complete plan for all layers, made with those that are kept. Raises ``NotRepeating`` if
        they do not say what all do, or ``NoSchedule``."""
        assert self.short is not None
        with without_collecting():
            kept = self.short.shortened(plan)
            expanded, decided, strict = self._decided(kept, self.draft(kept))
            layers = Recurrence(self.short, expanded, decided)
            order, _ = best_order(decided, self.machine, strict, layers.whole_ticks)
            found, timed = timed_in_order(decided, self.machine, order, Workspace())
            return Schedule(plan, expanded, found, timed, layers.repeated(order, found, timed))

    def makespan(self, plan: Plan, made: Draft, most: int = NEVER) -> int:
        """Ticks of the schedule that ``timed`` would make; ``most`` if they are not less, which is often known long
        before the end. Raises as ``timed`` does, and ``NotRepeating`` if fewer layers do not say what all take."""
        with without_collecting():
            expanded, decided, strict = self._decided(plan, made, own_workspace())
            if self.short is None:
                return served_within(decided, self.machine, most, strict=strict)
            layers = Recurrence(self.short, expanded, decided)
            _, ticks = best_order(decided, self.machine, strict, layers.whole_ticks)
            return min(most, ticks)

    def _decided(self, plan: Plan, made: Draft, room: Workspace | None = None) -> tuple[Expanded, Decided, bool]:
        """A plan spelled out (in ``room``, if it is given) and decided, and whether what is asked for first is served
        first. What is decided is good until the next plan is."""
        expanded = made.expanded(plan.boundary, room)
        decided = run_decide(expanded, self.machine, self.workload, own_workspace(), plan.memory_share)
        buffers = self.machine.tile_buffers(plan.prefetch)
        strict = bool(buffers.any())
        ports = len(self.machine.folded.cores)
        if self.workload.has_transfers:
            buffers[ports:] = PORT_BUFFERS
        if buffers.any():
            decided = ask_when_free(decided, expanded, buffers, ports)
        if self.machine.host_ticks:
            decided = issued_in_order(decided, expanded, self.machine.host_ticks)
        return expanded, decided, strict


def run_decide(
    expanded: Expanded,
    machine: Machine,
    workload: Workload,
    workspace: Workspace | None = None,
    memory_share: float = 1.0,
) -> Decided:
    """Run the ``decide`` kernel on fresh state. What it finds lies in ``workspace``, if one is given: it is good until
    the next call with it. ``memory_share``: of every memory on chip, what may be used."""
    capacity = machine.some_capacity(memory_share)
    check_residents(expanded.tables, machine, capacity)
    try:
        state = fresh_state(expanded.tables, machine, workspace or Workspace(), capacity)
    except MemoryError:
        entries = len(expanded.tables.entries)
        needed, found = entries * RESERVED_BYTES, f"room is made for {entries:,} operands of tiles"
        raise too_large(workload, machine, needed, found) from None
    status = decide(expanded.tables, machine.routes, state)
    count = state.counters
    if status != OK:
        raise NoSchedule(_reason(status, count, machine, workload, capacity))
    events = Events(
        state.events.nodes.some(slice(count.nodes[0])),
        state.events.deps.some(slice(count.deps[0])),
        state.events.bookings.some(slice(count.bookings[0])),
    )
    machine.check_ticks(events.bookings.resource, events.bookings.ticks)
    return Decided(events, state.copies.some(slice(count.copies[0])), state.dram)


def fresh_state(plan: Tables, machine: Machine, room: Workspace, capacity: I64) -> State:
    """All memories empty, each with its ``capacity``, all blocks where they are at the start; room for all that a plan
    can add."""
    memories, entries, steps = len(capacity), len(plan.entries), len(plan.steps)
    resident = np.flatnonzero(plan.blocks.resident)
    copies = entries + len(plan.buffers) + len(resident) + 1
    if machine.routes.depth:  # each may be evicted to a level, each result may go to one, each block be kept by all
        copies *= 3 + machine.routes.depth
    nodes = 10 * entries + 8 * steps + 4 * copies + 64
    widest = int(np.diff(machine.routes.pointer).max(initial=1)) + 1
    bookings = 4 * (entries + copies) * widest + 4 * steps + 64
    state = State(
        Counters.zeros(1),
        Events(room.table(Nodes, nodes), room.table(Dependencies, 4 * nodes), room.table(Bookings, bookings)),
        room.table(Copies, copies),
        room.table(DramStays, len(plan.blocks)),
        Memories.empty(memories),
        room.table(Chunks, 2 * copies + memories + 8),
        room.table(StepState, steps),
        np.empty(len(plan.buffers), np.int64),
        room.table(EntryState, entries),
        room.table(BlockState, len(plan.blocks)),
        room.table(Guards, copies),
        np.full((len(plan.blocks), memories), -1, np.int32),
        np.empty(entries + 1, np.int64),
    )
    state.counters.chunks[0] = memories  # each has one, with all of its bytes
    state.chunks.bytes[:memories] = state.memories.free[:] = capacity
    state.memories.head[:] = state.memories.tail[:] = np.arange(memories)
    state.memories.newest[:] = state.memories.oldest[:] = state.memories.turn[:] = -1
    state.chunks.event[:memories] = state.chunks.next[:memories] = -1
    blocks = state.blocks
    blocks.in_dram[:], blocks.writes_left[:], blocks.use[:] = (
        plan.blocks.in_dram,
        plan.blocks.writes,
        plan.blocks.use_start,
    )
    blocks.dram_ready[:], blocks.pinned[:], blocks.due[:], blocks.copies[:] = -1, -1, NEVER, 0
    blocks.home[:], blocks.homed[:], blocks.settled[:], blocks.spilled[:] = 0, -1, -1, -1
    here = (plan.blocks.in_dram == 1) & (plan.blocks.resident == 0)
    state.dram.came[:], state.dram.went[:] = np.where(here, -1, NOT_YET), NOT_YET
    if len(resident):
        put_residents(state, plan, resident)
    return state


def check_residents(plan: Tables, machine: Machine, capacity: I64) -> None:
    """Raise ``NoSchedule`` if what stays on chip between steps is more than its memory holds."""
    if not plan.blocks.resident.any():
        return
    needed = np.bincount(plan.blocks.resident, plan.blocks.bytes, minlength=len(capacity)).astype(np.int64)
    for number, memory in enumerate(machine.folded.memories, 1):
        short = int(needed[number] - capacity[number])
        if short > 0:
            what = " and ".join(name.replace("_", " ") for name in memory.resident)
            message = (
                f"memory {memory.name} holds {capacity[number]:,} bytes, but resident {what} take "
                f"{int(needed[number]):,}: {short:,} bytes short"
            )
            raise NoSchedule(Infeasible("", "", memory.name, short, message))


def put_residents(state: State, plan: Tables, resident: I64) -> None:
    """What stays on chip between steps is there from the start; no list of what may be evicted has it."""
    rows, where, size = slice(len(resident)), plan.blocks.resident[resident], plan.blocks.bytes[resident]
    copies, guards = state.copies, state.guards
    copies.block[rows], copies.memory[rows], copies.bytes[rows] = resident, where, size
    copies.came[rows], copies.went[rows] = -1, NOT_YET
    copies.since[rows], copies.upto[rows] = -1, NEVER
    for column in (guards.room, guards.ready, guards.until, guards.core, guards.previous, guards.next):
        column[rows] = -1
    guards.filled[rows] = size
    state.at[resident, where] = np.arange(len(resident))
    state.counters.copies[0] = len(resident)
    taken = np.bincount(where, size, minlength=len(state.memories)).astype(np.int64)
    state.memories.free[:] -= taken
    state.chunks.bytes[: len(taken)] -= taken


def _reason(status: int, count: Counters, machine: Machine, workload: Workload, capacity: I64) -> Infeasible:
    operator = workload.operators[int(count.operator[0])].op.name
    if status == NOWHERE:
        return Infeasible(operator, "", "", 0, f"operator {operator} reads data that nothing has written")
    number = int(count.failed_memory[0])
    memory = machine.memories[number - 1]
    short, core = int(count.failed_bytes[0]), ", ".join(memory.cores) or memory.name
    message = (
        f"operator {operator} does not fit memory {memory.name} ({capacity[number]:,} bytes) of core {core}: "
        f"{short:,} bytes short with everything else evicted"
    )
    return Infeasible(operator, core, memory.name, short, message)
