"""The scheduler: a graph on an accelerator, analysed once; then any number of plans, each decided and timed."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import CostStore, default_store
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.expansion.expand import Expanded, expand
from monet.schedule.machine import Machine
from monet.schedule.plan import Plan
from monet.schedule.planning.grouping import tiled_groups
from monet.schedule.planning.placement import complete_placements
from monet.schedule.result_rows import Infeasible
from monet.schedule.simulation import decide as d
from monet.schedule.simulation import nodes as n
from monet.schedule.simulation import residency as r
from monet.schedule.simulation.queues import could_start, reorder
from monet.schedule.simulation.replay import replay
from monet.schedule.simulation.workspace import Workspace, without_collecting
from monet.schedule.workload import Workload, workload_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Decided:
    """What ``decide`` fixed: nodes in the order their resources serve them, and where every byte lies."""

    nodes: Array
    deps: Array
    bookings: Array
    copies: Array
    blocks: Array
    steps: Array


@dataclass(frozen=True)
class Timed:
    """Start and end of every node in ticks, the node it waited for, and why (0 data, 1 space, 2 queue)."""

    start: Array
    end: Array
    cause: Array
    why: Array
    waits: Array  # by core: DRAM, link, dependency, space
    free: Array  # by resource: end of its last booking

    @property
    def makespan(self) -> int:
        """Ticks from the start to the end of the last node."""
        return int(self.end.max(initial=0))


@dataclass(frozen=True)
class Schedule:
    """A plan, expanded, decided and timed."""

    plan: Plan
    expanded: Expanded
    decided: Decided
    timed: Timed


class NoSchedule(Exception):
    """A plan that cannot run: something does not fit even alone. Carries the reason; becomes an infeasible result."""

    def __init__(self, reason: Infeasible) -> None:
        self.reason = reason
        super().__init__(reason.message)


class Scheduler:
    """One graph on one accelerator. ``schedule`` may be called with any number of plans. ``store``: where costs are
    kept; this process's own unless one is given."""

    def __init__(
        self, graph: Graph, accelerator: Accelerator, objective: str = "latency", store: CostStore | None = None
    ) -> None:
        self.workload, self.machine = workload_of(graph), Machine(accelerator, store or default_store())
        self.costs = CostTable(self.machine, objective)
        self.workspace = Workspace()

    def on(self, workload: Workload) -> Scheduler:
        """This scheduler on another variant of its graph; costs known so far are shared."""
        other = copy(self)
        other.workload = workload
        return other

    def complete(self, plan: Plan) -> Plan:
        """The plan with a placement for every operator."""
        return complete_placements(self.workload, self.machine, self.costs, plan)

    def schedule(self, plan: Plan) -> Schedule:
        """Decide and time a plan; raises ``NoSchedule`` if something does not fit."""
        with without_collecting():
            plan = self.complete(plan)
            groups = tiled_groups(self.workload, plan)
            expanded = expand(self.workload, self.machine, plan, groups, self.costs)
            decided = run_decide(expanded, self.machine, self.workload, self.workspace)
            if not plan.prefetch:
                decided = one_tile_at_a_time(decided, self.machine)
            decided = first_come_first_served(decided, self.machine, strict=not plan.prefetch)
            return Schedule(plan, expanded, decided, run_replay(decided, self.machine))


def run_decide(expanded: Expanded, machine: Machine, workload: Workload, workspace: Workspace | None = None) -> Decided:
    """Run the ``decide`` kernel on fresh state. What it finds lies in ``workspace``, if one is given: it is good until
    the next call with it."""
    routes, memories, room = machine.routes, len(machine.capacity), workspace or Workspace()
    steps, entries = room.copy("steps", expanded.steps), expanded.entries
    blocks, work = room.copy("blocks", expanded.blocks), room.copy("work", expanded.work)
    widest = int(np.diff(routes.pointer).max(initial=1)) + 1
    n_copy = len(entries) + len(expanded.work) + 1
    n_node = 10 * len(entries) + 8 * len(steps) + 4 * n_copy + 64
    chunks = room.array("chunks", 2 * n_copy + memories + 8, 3)
    state_memory = np.zeros((memories, 4), np.int64)
    state_memory[:, r.FREE] = machine.capacity
    state_memory[:, r.HEAD] = state_memory[:, r.TAIL] = np.arange(memories) + 1
    state_memory[:, r.FIRST] = -1
    chunks[1 : memories + 1, r.CHUNK_BYTES] = machine.capacity
    chunks[1 : memories + 1, r.CHUNK_EVENT] = chunks[1 : memories + 1, r.CHUNK_NEXT] = -1
    chunks[0, r.CHUNK_NEXT] = memories + 1
    nodes, deps = room.array("nodes", n_node, n.NODE_COLUMNS), room.array("deps", 4 * n_node, 3)
    bookings = room.array("bookings", 4 * (len(entries) + n_copy) * widest + 4 * len(steps) + 64, 2)
    copies, pending = room.array("copies", n_copy, r.COPY_COLUMNS), room.array("pending", len(entries) + 2, 2)
    pending[0] = 0
    at = np.full((len(blocks), memories), -1, np.int32)
    count = np.zeros(n.N_COUNTERS, np.int64)
    state = (
        nodes, deps, bookings, state_memory, chunks, blocks, copies, expanded.gangs, steps, work, entries,
        room.array("live", len(entries), d.LIVE_COLUMNS), pending,
    )  # fmt: skip
    dram = np.array([machine.dram_resource, machine.accelerator.drams[0].burst_bytes], np.int64)
    tables = (
        routes.pointer, routes.resource, routes.ticks_per_byte, routes.latency, routes.exists, dram,
        machine.port_resources,
    )  # fmt: skip
    status = d.decide(count, state, at, expanded.uses, tables)
    if status != d.OK:
        raise NoSchedule(_reason(status, count, machine, expanded, workload))
    return Decided(
        nodes[: count[n.N_NODE]], deps[: count[n.N_DEP]], bookings[: count[n.N_BOOK]], copies[: count[n.N_COPY]],
        blocks, steps,
    )  # fmt: skip


def run_replay(decided: Decided, machine: Machine) -> Timed:
    """Run the ``replay`` kernel."""
    count, cores = len(decided.nodes), len(machine.accelerator.cores)
    start, end, cause, why = (np.zeros(count, np.int64) for _ in range(4))
    free, waits = np.zeros(len(machine.resource_names), np.int64), np.zeros((cores, 4), np.int64)
    replay(decided.nodes, decided.deps, decided.bookings, start, end, cause, why, free, waits, cores)
    return Timed(start, end, cause, why, waits, free)


def bookings_of(nodes: Array) -> tuple[Array, Array]:
    """(node, row in the bookings) of everything that some nodes occupy, node by node."""
    counts = nodes[:, n.BOOK_END] - nodes[:, n.BOOK_START]
    owner = np.repeat(np.arange(len(nodes)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, nodes[owner, n.BOOK_START] + offset


def one_tile_at_a_time(decided: Decided, machine: Machine) -> Decided:
    """Without prefetching, a core asks for the operands of a tile when it is done with the tile before."""
    nodes, cores = decided.nodes.copy(), len(machine.accelerator.cores)
    owner, rows = bookings_of(nodes)
    resource = decided.bookings[rows, n.RESOURCE]
    before = np.full(len(nodes), -1, np.int64)
    asks = ((nodes[:, n.KIND] == n.READ) | (nodes[:, n.KIND] == n.MOVE)) & (nodes[:, n.STEP] >= 0)
    for core in range(cores):
        runs = np.concatenate(([-1], owner[resource == core]))
        mine = np.flatnonzero(asks & (decided.steps[nodes[:, n.STEP], d.CORE] == core))
        before[mine] = runs[np.searchsorted(runs, mine) - 1]
    waits = before >= 0
    new = np.zeros((int(waits.sum()), decided.deps.shape[1]), np.int64)
    new[:, n.NODE] = before[waits]
    deps = np.insert(decided.deps, nodes[waits, n.DEP_END], new, axis=0)
    upto = np.cumsum(waits)
    nodes[:, n.DEP_START] += upto - waits
    nodes[:, n.DEP_END] += upto
    return replace(decided, nodes=nodes, deps=deps)


def first_come_first_served(decided: Decided, machine: Machine, *, strict: bool = False) -> Decided:
    """Merge reads and writes in the queues of links and DRAM by when each could start if it had the wires to itself;
    ``strict``: by when it is asked for, so that what a core asks for after a tile comes behind that tile's results
    however long these take to the wires.

    Reads stay in order, and so do writes; but a result that waits for its tile no longer holds up the reads queued
    behind it. The new order is as fixed as the old one, so timing stays a longest path.
    """
    nodes, cores = decided.nodes, len(machine.accelerator.cores)
    start, moved, deps = np.empty(len(nodes), np.int64), np.empty_like(nodes), np.empty_like(decided.deps)
    could_start(nodes, decided.deps, decided.bookings, start, cores, len(machine.resource_names), strict)
    copies, blocks, steps = (one.copy() for one in (decided.copies, decided.blocks, decided.steps))
    reorder(np.argsort(start, kind="stable"), nodes, moved, decided.deps, deps, copies, blocks, steps)
    return Decided(moved, deps, decided.bookings.copy(), copies, blocks, steps)


def _reason(status: int, count: Array, machine: Machine, expanded: Expanded, workload: Workload) -> Infeasible:
    operator = workload.operators[int(count[n.OPERATOR_NOW])].op.name
    if status == d.NOWHERE:
        return Infeasible(operator, "", "", 0, f"operator {operator} reads data that nothing has written")
    memory = machine.accelerator.memories[int(count[n.FAILED_MEMORY]) - 1]
    short, core = int(count[n.FAILED_BYTES]), ", ".join(memory.cores) or memory.name
    message = (
        f"operator {operator} does not fit memory {memory.name} ({memory.size_bytes:,} bytes) of core {core}: "
        f"{short:,} bytes short with everything else evicted"
    )
    return Infeasible(operator, core, memory.name, short, message)
