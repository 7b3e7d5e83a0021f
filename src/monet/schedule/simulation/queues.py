"""The order in which links and DRAM serve what is queued for them, first come, first served. Compiled kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.compiled import kernel
from monet.schedule.simulation.decide import DONE, RUN
from monet.schedule.simulation.nodes import (
    BOOK_END,
    BOOK_START,
    DEP_END,
    DEP_START,
    DURATION,
    EVICT,
    KIND,
    LAG,
    LATENCY,
    NODE,
    NODE_COLUMNS,
    REASON,
    RESOURCE,
    TICKS,
    WRITE,
)
from monet.schedule.simulation.residency import DRAM_FROM, DRAM_READY, DRAM_TO, FROM, GUARD, READY, TO

Array = Any


@kernel("void(int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64, int64, boolean)")
def could_start(
    node: Array, dep: Array, booking: Array, start: Array, cores: int, resources: int, strict: bool
) -> None:  # fmt: skip
    """When each node could start if it had the wires to itself: reads in order, writes in order, neither in the way
    of the other; cores serve in order as always. ``strict``: when it is asked for, before the lag of what it needs."""
    free, came = np.zeros(2 * resources, np.int64), np.zeros(2 * resources, np.int64)
    end = np.empty(len(node), np.int64)
    for number in range(len(node)):
        row = node[number]
        ready, asked = 0, 0
        for i in range(row[DEP_START], row[DEP_END]):
            ready = max(ready, end[dep[i, NODE]] + dep[i, LAG])
            asked = max(asked, end[dep[i, NODE]] + (0 if strict else dep[i, LAG]))
        queue = resources if row[KIND] == WRITE or row[KIND] == EVICT else 0
        for i in range(row[BOOK_START], row[BOOK_END]):
            resource = booking[i, RESOURCE]
            line = resource + queue if resource >= cores else resource
            ready, asked = max(ready, free[line]), max(asked, came[line])
        for i in range(row[BOOK_START], row[BOOK_END]):
            resource = booking[i, RESOURCE]
            if resource >= cores:
                free[resource + queue], came[resource + queue] = ready, asked
            else:
                free[resource] = came[resource] = ready + booking[i, TICKS]
        start[number], end[number] = asked, ready + row[DURATION] + row[LATENCY]


@kernel(
    "void(int64[::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1], int64[:,::1])"
)
def reorder(
    order: Array, node: Array, moved: Array, dep: Array, renamed: Array, copies: Array, blocks: Array, steps: Array
) -> None:  # fmt: skip
    """Nodes in another order (into ``moved``), and their dependencies (into ``renamed``); everything else that names
    nodes is renumbered in place."""
    place = np.empty(len(order), np.int64)
    for number in range(len(order)):
        old = order[number]
        place[old] = number
        for column in range(NODE_COLUMNS):
            moved[number, column] = node[old, column]
    for i in range(len(dep)):
        renamed[i, NODE], renamed[i, LAG], renamed[i, REASON] = place[dep[i, NODE]], dep[i, LAG], dep[i, REASON]
    for i in range(len(copies)):
        for column in (READY, GUARD, FROM, TO):
            if copies[i, column] >= 0:
                copies[i, column] = place[copies[i, column]]
    for i in range(len(blocks)):
        for column in (DRAM_READY, DRAM_FROM, DRAM_TO):
            if blocks[i, column] >= 0:
                blocks[i, column] = place[blocks[i, column]]
    for i in range(len(steps)):
        for column in (RUN, DONE):
            if steps[i, column] >= 0:
                steps[i, column] = place[steps[i, column]]
