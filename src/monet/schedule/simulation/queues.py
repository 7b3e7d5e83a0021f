"""The order in which links and DRAM serve what is queued for them, first come, first served. Compiled kernels."""

from __future__ import annotations

import numpy as np

from monet.arrays import I64, Column
from monet.compiled import kernel
from monet.schedule.simulation.records import EVICT, WRITE, Events, Nodes


@kernel
def could_start(events: Events, start: I64, cores: int, resources: int, strict: bool) -> None:
    """When each node could start if it had the wires to itself: reads in order, writes in order, neither in the way
    of the other; cores serve in order as always. ``strict``: when it is asked for, before the lag of what it needs."""
    nodes, deps, bookings = events.nodes, events.deps, events.bookings
    free, came = np.zeros(2 * resources, np.int64), np.zeros(2 * resources, np.int64)
    end = np.empty(start.size, np.int64)
    for number in range(start.size):
        ready, asked = 0, 0
        for d in range(nodes.dep_start[number], nodes.dep_end[number]):
            over = end[deps.node[d]]
            ready = max(ready, over + deps.lag[d])
            asked = max(asked, over + (0 if strict else deps.lag[d]))
        queue = resources if nodes.kind[number] == WRITE or nodes.kind[number] == EVICT else 0
        for b in range(nodes.book_start[number], nodes.book_end[number]):
            resource = bookings.resource[b]
            line = resource + queue if resource >= cores else resource
            ready, asked = max(ready, free[line]), max(asked, came[line])
        for b in range(nodes.book_start[number], nodes.book_end[number]):
            resource = bookings.resource[b]
            if resource >= cores:
                free[resource + queue], came[resource + queue] = ready, asked
            else:
                free[resource] = came[resource] = ready + bookings.ticks[b]
        start[number], end[number] = asked, ready + nodes.duration[number] + nodes.latency[number]


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
