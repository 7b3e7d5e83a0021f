"""When the host has issued what a core is to run: an eager framework's dispatch, as a timeline of its own.

The host issues groups of operators (or operators alone) one after another, in the order in which they run, collectives
and pages among them, and never waits for the device: ``host_dispatch_s`` each. A group starts when it has been issued
and its core is free, so a step is as long as the host takes or the device, whichever is behind, piece by piece: a
device with long kernels lets the host run ahead, one with short kernels waits for it.

The host is a chain of nodes that book nothing, before all others; tiles and fetches of a group wait for its node.
"""

from __future__ import annotations

import numpy as np

from monet.arrays import I64
from monet.schedule.expansion.expand import Expanded
from monet.schedule.schedule import Decided
from monet.schedule.simulation.records import COMPUTE, DATA, HOST, JOIN, MOVE, READ, Dependencies, Events, Nodes


def issued_in_order(decided: Decided, expanded: Expanded, ticks: int) -> Decided:
    """Let every tile, and every fetch for one, wait until the host has issued its group; ``ticks`` for each."""
    nodes, deps, bookings = decided.events
    first, launch = _launches(expanded)
    many = len(first)
    if not many:
        return decided
    issues, between = _issues(first, ticks)
    held = ((nodes.kind == COMPUTE) | (nodes.kind == READ) | (nodes.kind == MOVE)) & (nodes.step >= 0)
    issue = np.full(len(nodes), -1, np.int64)
    issue[held] = launch[nodes.operator[held]]
    waits = issue >= 0
    more = Dependencies.zeros(int(waits.sum()))
    more.node[:], more.reason[:] = issue[waits], HOST
    own = deps.copied()
    own.node[:] += many
    own = Dependencies.of(np.insert(own.plain, nodes.dep_end[waits], more.plain, axis=0))
    upto, nodes = np.cumsum(waits), nodes.copied()
    nodes.dep_start[:] += len(between) + upto - waits
    nodes.dep_end[:] += len(between) + upto
    events = Events(
        Nodes.of(np.concatenate([issues.plain, nodes.plain])),
        Dependencies.of(np.concatenate([between.plain, own.plain])),
        bookings,
    )
    found = Decided(events, decided.copies.copied(), decided.dram.copied())
    for column in (found.copies.came, found.copies.went, found.dram.came, found.dram.went):
        column[column >= 0] += many
    return found


def launches(expanded: Expanded) -> int:
    """How many groups a host issues."""
    return len(_launches(expanded)[0])


def _launches(expanded: Expanded) -> tuple[I64, I64]:
    """The first operator of every group that has anything to run, in the order in which groups do; and by operator,
    which of these it is issued with (-1: none)."""
    draft, steps, parts = expanded.draft, expanded.tables.steps, expanded.parts
    works = parts.useful + parts.under_used + parts.stalled > 0
    at_work = np.unique(steps.operator[works])
    group = np.full(len(draft.workload.operators), -1, np.int64)
    group[[stepped.operator.number for stepped in draft.steps_of]] = draft.group_of
    launched = np.unique(group[at_work])
    launch = np.full(int(group.max(initial=-1)) + 2, -1, np.int64)  # no group is numbered -1: the last entry
    launch[launched] = np.arange(len(launched))
    first = np.full(len(launched), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first, launch[group[at_work]], at_work)
    return first, launch[group]


def _issues(first: I64, ticks: int) -> tuple[Nodes, Dependencies]:
    """A node for every launch, each after the one before."""
    issues, between = Nodes.zeros(len(first)), Dependencies.zeros(max(0, len(first) - 1))
    issues.kind[:], issues.step[:], issues.operator[:] = JOIN, -1, first
    issues.source[:], issues.target[:], issues.targets[:] = -1, -1, 1
    issues.latency[:] = ticks
    issues.dep_start[1:], issues.dep_end[1:] = np.arange(len(between)), np.arange(len(between)) + 1
    between.node[:], between.reason[:] = np.arange(len(between)), DATA
    return issues, between
