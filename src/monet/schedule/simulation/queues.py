"""The order in which links and DRAM serve what is queued for them: first come, first served, or reads no sooner than
they are needed. Compiled kernels."""

from __future__ import annotations

import numpy as np

from monet.arrays import I64, Column
from monet.compiled import kernel
from monet.schedule.simulation.records import EVICT, MOVE, NEVER, READ, WRITE, Events


@kernel
def could_start(
    events: Events, start: I64, cores: int, resources: int, outside: int, has_levels: bool, strict: bool
) -> None:
    """When each node could start if it had the wires to itself: reads in order, writes in order, neither in the way
    of the other, nor is what a port to the outside reads and writes (memories from ``outside`` on) in the way of what
    cores or other ports do; cores serve in order as always. ``has_levels``: nor are reads from DRAM in the way of what
    moves on from a shared level, which waits for them. ``strict``: when it is asked for, before the lag of what it
    needs."""
    bookings = events.bookings
    beyond = outside - 1
    for number in range(start.size):
        beyond = max(beyond, events.nodes[number].source, events.nodes[number].target)
    lines = 3 + 2 * (beyond + 1 - outside)  # reads, writes and moves of cores; reads and writes of each port
    free, came = np.zeros(lines * resources, np.int64), np.zeros(lines * resources, np.int64)
    end = np.empty(start.size, np.int64)
    for number in range(start.size):
        node, ready, asked = events.nodes[number], 0, 0
        for d in range(node.dep_start, node.dep_end):
            dep = events.deps[d]
            ready = max(ready, end[dep.node] + dep.lag)
            asked = max(asked, end[dep.node] + (0 if strict else dep.lag))
        queue = resources if node.kind in (WRITE, EVICT) else 2 * resources if has_levels and node.kind == MOVE else 0
        port = max(node.source, node.target) - outside
        if port >= 0:
            queue = (3 + 2 * port + (1 if node.kind in (WRITE, EVICT) else 0)) * resources
        for b in range(node.book_start, node.book_end):
            resource = bookings[b].resource
            line = resource + queue if resource >= cores else resource
            ready, asked = max(ready, free[line]), max(asked, came[line])
        if has_levels:  # what goes on as it comes may start before all it waits for has ended
            asked = min(asked, ready)
        for b in range(node.book_start, node.book_end):
            resource = bookings[b].resource
            if resource >= cores:
                free[resource + queue], came[resource + queue] = ready, asked
            else:
                free[resource] = came[resource] = ready + bookings[b].ticks
        start[number], end[number] = asked, ready + node.duration + node.latency


@kernel
def needed_by(events: Events, start: I64, cores: int, resources: int) -> None:
    """Change when each node could start (``start``) to when it has to, for what is read from DRAM: as late as lets all
    that waits for it, and the reads behind it on the same wires, start when they could. Whatever was behind what it
    waits for still is."""
    bookings = events.bookings
    need, behind = np.full(start.size, NEVER, np.int64), np.full(resources, NEVER, np.int64)
    for number in range(start.size - 1, -1, -1):
        node = events.nodes[number]
        if node.kind == READ or node.book_start == node.book_end:  # what only joins others takes no time of anybody
            late = need[number] - node.duration - node.latency
            for b in range(node.book_start, node.book_end):
                if bookings[b].resource >= cores:
                    late = min(late, behind[bookings[b].resource] - bookings[b].ticks)
            start[number] = max(start[number], late)
            for b in range(node.book_start, node.book_end):
                behind[bookings[b].resource] = start[number]
        for d in range(node.dep_start, node.dep_end):
            dep = events.deps[d]
            need[dep.node] = min(need[dep.node], start[number] - max(0, dep.lag))


@kernel
def packed(start: I64, keys: I64) -> bool:
    """Into ``keys`` numbers in the order of ``start``, of equal ones that of the first less; their low bits say which
    it is, as many as its size takes. NumPy sorts them in a fraction of the time of ``argsort``. False if 63 bits are
    too few."""
    bits, least, most, never = 0, NEVER, 0, NEVER
    while start.size >> bits:
        bits += 1
    for number in range(start.size):
        if start[number] > NEVER // 2:  # what nobody waits for
            never = min(never, start[number])
        else:
            least, most = min(least, start[number]), max(most, start[number])
    last = most - least + 1
    for number in range(start.size):
        at = start[number] - least if start[number] <= NEVER // 2 else start[number] - never + last
        if at >> (62 - bits):
            return False
        keys[number] = at << bits | number
    return True


@kernel
def reorder(order: I64, events: Events, moved: Events, place: I64) -> None:
    """Nodes in another order, with what they wait for, into ``moved``; ``place`` gets the new number of each."""
    for number in range(order.size):
        place[order[number]] = number
    for number in range(order.size):
        moved.nodes[number] = events.nodes[order[number]]
    for d in range(events.deps.size):
        dep, there = events.deps[d], moved.deps[d]
        there.node, there.lag, there.reason = place[dep.node], dep.lag, dep.reason


@kernel
def renumber(place: I64, names: Column) -> None:
    """Name nodes by their new numbers; what is no node (below zero) stays."""
    for i in range(names.size):
        if names[i] >= 0:
            names[i] = place[names[i]]
