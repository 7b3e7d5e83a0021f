"""What one pass costs on one device: a graph through the scheduler, its collectives on the ports of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, Bool
from monet.distributed.costs.amounts import Amounts, Name
from monet.distributed.costs.page_traffic import HOST, leaving_bytes, pages
from monet.distributed.systems.network import MESSAGES, Network, is_collective
from monet.graph.counts import call_of, part_of
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.graph.operators.collective import payload_bytes
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.evaluation import select_phases
from monet.schedule.launches import launches
from monet.schedule.measurement.energy import energy_of
from monet.schedule.plan import Plan, PlanError
from monet.schedule.planning.default_plan import default_schedule
from monet.schedule.schedule import Schedule, Tiles, Transfers
from monet.schedule.simulation.replay import WAIT_HOST
from monet.schedule.workload import workload_of

SCHEDULERS = Section[Scheduler]("schedulers of devices", 16)


def pass_cost(
    graph: Graph,
    phases: Sequence[Phase],
    device: Accelerator,
    network: Network,
    fusion: str = "auto",
    objective: str = "latency",
    store: CostStore | None = None,
) -> Amounts:
    """Some phases of a graph on a device of a system, begun and ended alone; nothing, if it has none of them.

    Raises ``NoSchedule`` where something does not fit on chip.
    """
    return planned_pass(graph, phases, device, network, fusion, objective, store).amounts


class Passed(NamedTuple):
    """What a pass costs, and the plan that it runs by."""

    amounts: Amounts
    plan: Plan | None = None


def planned_pass(
    graph: Graph,
    phases: Sequence[Phase],
    device: Accelerator,
    network: Network,
    fusion: str = "auto",
    objective: str = "latency",
    store: CostStore | None = None,
    like: Plan | None = None,
) -> Passed:
    """As ``pass_cost``. ``like``: the plan of a program that does less (sends less, or does not update): operators of
    both run as they do there, the others alone."""
    scheduler = scheduler_of(graph, phases, device, network, objective, store)
    if scheduler is None:
        return Passed(Amounts())
    schedule = _like(scheduler, like) if like and fusion == "auto" else None
    schedule = schedule or default_schedule(scheduler, fusion)
    return Passed(_measured(scheduler, schedule, network), schedule.plan)


def scheduler_of(
    graph: Graph,
    phases: Sequence[Phase],
    device: Accelerator,
    network: Network,
    objective: str = "latency",
    store: CostStore | None = None,
) -> Scheduler | None:
    """Some phases of a graph on a device with ports to the network; None, if it has none of them. What its operators
    cost, where they go and how they are cut is known from other programs on that device."""
    names = {phase.value for phase in phases}
    if not any(op.phase.value in names for op in graph.ops):
        return None
    chosen, accelerator = network.timed(select_phases(graph, tuple(names))), network.with_ports(device)
    if store is None:
        return Scheduler(chosen, accelerator, objective)
    known = store[SCHEDULERS].get_or((accelerator, objective), lambda: Scheduler(chosen, accelerator, objective, store))
    return known.on(workload_of(chosen))


def _like(scheduler: Scheduler, plan: Plan) -> Schedule | None:
    """The schedule by the plan of a smaller program; None where it cannot be carried over."""
    names = {operator.op.name for operator in scheduler.workload.operators}
    groups = tuple(group for group in plan.groups if names.issuperset(group.operators))
    placements = {name: place for name, place in plan.placements.items() if name in names}
    try:
        return scheduler.schedule(replace(plan, groups=groups, placements=placements))
    except (NoSchedule, PlanError):
        return None


def _measured(scheduler: Scheduler, schedule: Schedule, network: Network) -> Amounts:
    machine, operators = scheduler.machine, scheduler.workload.operators
    graph = scheduler.workload.graph
    rate = machine.ticks_per_second
    seconds = schedule.makespan / rate
    found: dict[Name, float] = {}
    kinds = _traffic(graph, network, found)
    if away := _pages(scheduler, found):
        kinds |= away
        found["leaving",] = leaving_bytes(scheduler, schedule)
    exposed = _exposed(schedule, [kinds.get(operator.op.name, "") for operator in operators])
    for kind, ticks in exposed.items():
        found["exposed", kind] = ticks / rate
    booked = sum(value for name, value in found.items() if name[0] == "network" and name[2] != HOST)
    hidden = booked - sum(ticks for kind, ticks in exposed.items() if not kind.startswith(HOST)) / rate
    found["seconds",] = seconds + max(0.0, hidden) * _taken(graph, network)
    if scheduler.machine.host_ticks:
        found["launches",] = float(launches(schedule.expanded))
        found["host",] = _late_ticks(scheduler, schedule, sum(exposed.values())) / rate
    shares = _shares(scheduler, schedule)
    at_work = found["seconds",] - sum(exposed.values()) / rate - found.get(("host",), 0.0)
    for part in ("recomputation", "update", "weight_gradient"):
        found[part,] = at_work * shares.get(part, 0.0)
    energy = energy_of(schedule, machine, len(operators))
    for level, joules in energy.by_level.items():
        if level != "static":
            found["energy", level] = joules
    for operator in operators:
        if operator.macs:
            dtype = operator.operands[0][1].dtype
            _add(found, ("macs", dtype), float(operator.macs))
            _add(found, ("macs again", dtype), float(operator.macs) if operator.op.recompute else 0.0)
    return Amounts(found)


def _traffic(graph: Graph, network: Network, found: dict[Name, float]) -> dict[str, str]:
    """Note what goes over the network; returns collectives by name with what waiting for them is called."""
    named: dict[str, str] = {}
    for op in graph.ops:
        if not is_collective(op):
            continue
        call = call_of(graph, op)
        if op.kind in MESSAGES:
            _add(found, ("message",), payload_bytes(call) if op.kind == "send" else 0.0)
            continue
        group, cost = str(call.attrs["group"]), network.cost(op.kind, call)
        named[op.name] = f"{group} {op.kind}"
        _add(found, ("calls", op.kind, group), 1.0)
        _add(found, ("network", op.kind, group), cost.seconds)
        for span, sent in zip(network.spans[group], cost.sent_bytes, strict=True):
            if sent:
                _add(found, ("sent", op.kind, group, span.level.name), sent)
    return named


def _pages(scheduler: Scheduler, found: dict[Name, float]) -> dict[str, str]:
    """Note what goes to the host and comes from there; returns these operators with what waiting for them is called."""
    named: dict[str, str] = {}
    for op, (kind, group), seconds, size, level in pages(scheduler):
        named[op] = f"{group} {kind}"
        _add(found, ("calls", kind, group), 1.0)
        _add(found, ("network", kind, group), seconds)
        _add(found, ("sent", kind, group, level), size)
    return named


def _add(found: dict[Name, float], name: Name, value: float) -> None:
    found[name] = found.get(name, 0.0) + value


def _taken(graph: Graph, network: Network) -> float:
    """The largest share of compute that a collective of the graph takes from its device."""
    used = {str(op.attrs["group"]) for op in graph.ops if is_collective(op) and op.kind not in MESSAGES}
    levels = (span.level for group in used for span in network.spans[group] if span.count > 1)
    return max((level.takes_compute for level in levels), default=0.0)


def _exposed(schedule: Schedule, kinds: Sequence[str]) -> dict[str, int]:
    """Ticks in which a collective is under way and nothing computes, by kind; of several under way the first kind."""
    names = sorted({kind for kind in kinds if kind})
    if not names:
        return {}
    tiles = schedule.tiles
    which = np.array([names.index(kind) if kind else -1 for kind in kinds])[tiles.operator]
    edges = np.unique(np.concatenate((tiles.start, tiles.end)))
    length = np.diff(edges)
    left = np.where(_covered(tiles.start, tiles.end, which < 0, edges)[:-1], 0, length)
    found = {}
    for number, name in enumerate(names):
        under_way = _covered(tiles.start, tiles.end, which == number, edges)[:-1]
        found[name] = int(left[under_way].sum())
        left = np.where(under_way, 0, left)
    return found


def _late_ticks(scheduler: Scheduler, schedule: Schedule, exposed: int) -> int:
    """Ticks in which the core that waits least for its host does, and no collective is what is waited for."""
    tiles, cores = schedule.tiles, len(scheduler.machine.folded.cores)
    working = np.unique(tiles.core[tiles.core < cores])
    waits = schedule.waits[working, WAIT_HOST]
    return min(int(waits.min(initial=schedule.makespan)), schedule.makespan - exposed)


def _covered(start: I64, end: I64, chosen: Bool, edges: I64) -> Bool:
    """By edge: whether one of the chosen tiles is under way from there on."""
    return _at_once(start, end, chosen, edges) > 0


def _at_once(start: I64, end: I64, chosen: Bool, edges: I64) -> I64:
    """By edge: how many of the chosen tiles are under way from there on."""
    change = np.zeros(len(edges), np.int64)
    np.add.at(change, np.searchsorted(edges, start[chosen]), 1)
    np.add.at(change, np.searchsorted(edges, end[chosen]), -1)
    found: I64 = np.cumsum(change)
    return found


def _shares(scheduler: Scheduler, schedule: Schedule) -> dict[str, float]:
    """Of the time in which a device works, the shares of recomputation, update, gradients of weights and the rest.

    A moment belongs to what computes then, by the cores that do; where nothing does and no collective is waited for, to
    what is moved then: an update computes little and waits for DRAM, and that wait is the update's."""
    operators, graph = scheduler.workload.operators, scheduler.workload.graph
    parts = ["network" if operator.is_transfer else part_of(graph, operator.op) for operator in operators]
    names = sorted(set(parts) - {"network"})
    where = np.array([names.index(part) if part in names else -1 for part in parts], np.int64)
    tiles, moves = schedule.tiles, schedule.transfers
    edges = np.unique(np.concatenate((tiles.start, tiles.end, moves.start, moves.end)))
    length = np.diff(edges)
    waits = _covered(tiles.start, tiles.end, where[tiles.operator] < 0, edges)[:-1]
    computes = _under_way(tiles, where, len(names), edges)
    moved = np.where(waits | computes.any(axis=0), 0, _under_way(moves, where, len(names), edges))
    at_work = computes + moved
    spent: F64 = (at_work / np.maximum(1, at_work.sum(axis=0))) @ length
    return dict(zip(names, (spent / (spent.sum() or 1.0)).tolist(), strict=True))


def _under_way(nodes: Tiles | Transfers, where: I64, parts: int, edges: I64) -> I64:
    """By part and edge: how many nodes of the part are under way from there on, but for the last edge."""
    which = where[nodes.operator]
    found: I64 = np.array([_at_once(nodes.start, nodes.end, which == part, edges)[:-1] for part in range(parts)])
    return found.reshape(parts, len(edges) - 1)
