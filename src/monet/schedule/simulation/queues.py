"""The order in which links and DRAM serve what is queued for them: first come, first served, or reads no sooner than
they are needed. Compiled kernels."""

from __future__ import annotations

import numpy as np

from monet.arrays import I64, Column
from monet.compiled import kernel
from monet.schedule.simulation.records import EVICT, MOVE, WRITE, Events, Nodes


@kernel
def asked_for(events: Events, start: I64, cores: int, resources: int, outside: int, has_levels: bool) -> None:
    """When each node could start if it had the wires to itself: reads in order, writes in order, neither in the way
    of the other, nor is what a port to the outside reads and writes (memories from ``outside`` on) in the way of what
    cores or other ports do; cores serve in order as always. ``has_levels``: nor are reads from DRAM in the way of what
    moves on from a shared level, which waits for them."""
    bookings = events.bookings
    beyond = outside - 1
    for number in range(start.size):
        beyond = max(beyond, events.nodes[number].source, events.nodes[number].target)
    lines = 3 + 2 * (beyond + 1 - outside)  # reads, writes and moves of cores; reads and writes of each port
    free, came = np.zeros(lines * resources, np.int64), np.zeros(lines * resources, np.int64)
    end = np.empty(start.size, np.int64)
    for number in range(start.size):
        node, ready, asked, least = events.nodes[number], 0, 0, 0
        for d in range(node.dep_start, node.dep_end):
            dep = events.deps[d]
            ready = max(ready, end[dep.node] + dep.lag)
            asked = max(asked, end[dep.node] + min(0, dep.lag))
            least = max(least, start[dep.node])  # nobody asks before what it waits for does
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
        asked = max(asked, least)
        for b in range(node.book_start, node.book_end):
            resource = bookings[b].resource
            if resource >= cores:
                free[resource + queue], came[resource + queue] = ready, asked
            else:
                free[resource] = came[resource] = ready + bookings[b].ticks
        start[number], end[number] = asked, ready + node.duration + node.latency


@kernel
def reorder(order: I64, nodes: Nodes, moved: Nodes, place: I64) -> None:
    """Nodes in another order, into ``moved``; ``place`` gets the new number of each."""
    for number in range(order.size):
        place[order[number]] = number
        moved[number] = nodes[order[number]]


@kernel
def renumber(place: I64, names: Column) -> None:
    """Name nodes by their new numbers; what is no node (below zero) stays."""
    for i in range(names.size):
        if names[i] >= 0:
            names[i] = place[names[i]]
