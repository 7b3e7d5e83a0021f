"""Time: replay the nodes that ``decide`` fixed. Only max and +: a shorter duration never makes anything later."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.compiled import kernel
from monet.schedule.simulation.nodes import (
    BOOK_END,
    BOOK_START,
    COMPUTE,
    DEP_END,
    DEP_START,
    DURATION,
    JOIN,
    KIND,
    LAG,
    LATENCY,
    MOVE,
    NODE,
    REASON,
    RESOURCE,
    SPACE,
    TICKS,
)

Array = Any

# waits of a core, as columns of the partition
WAIT_DRAM, WAIT_LINK, WAIT_DEPENDENCY, WAIT_SPACE = range(4)


@kernel(
    "void(int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1],"
    "int64[:,::1], int64)"
)
def replay(
    node: Array, dep: Array, booking: Array, start: Array, end: Array, cause: Array, why: Array, free: Array,
    waits: Array, cores: int,
) -> None:  # fmt: skip
    """Start and end of every node; ``cause``: what it waited for last (-1: none); ``why``: 0 data, 1 space, 2 queue.

    ``free`` holds, by resource, when it is free. ``waits`` gets, by core, ticks of waiting by reason: the gap before a
    node is followed back along what it waited for, and each part of it is charged to what was going on then.
    """
    last = np.full(len(free), -1, np.int64)
    for number in range(len(node)):
        row = node[number]
        ready, by, reason = 0, -1, 0
        for d in range(row[DEP_START], row[DEP_END]):
            at = end[dep[d, NODE]] + dep[d, LAG]
            if at > ready:
                ready, by, reason = at, dep[d, NODE], dep[d, REASON]
        core = -1
        for b in range(row[BOOK_START], row[BOOK_END]):
            resource = booking[b, RESOURCE]
            if resource < cores:
                core = resource
            if free[resource] > ready:
                ready, by, reason = free[resource], last[resource], 2
        start[number], cause[number], why[number] = ready, by, reason
        if core >= 0 and ready > free[core]:
            since, until, at, blame = free[core], ready, by, reason
            while until > since and at >= 0:
                kind = node[at, KIND]
                if blame == SPACE and kind != JOIN:
                    waits[core, WAIT_SPACE] += until - since
                    until = since
                    break
                if kind == JOIN:
                    blame, at = why[at] if blame != SPACE else SPACE, cause[at]
                    continue
                column = WAIT_DEPENDENCY if kind == COMPUTE else WAIT_LINK if kind == MOVE else WAIT_DRAM
                if kind == COMPUTE and blame == 2:
                    column = WAIT_LINK  # for the port of a memory that another core is using
                began = max(since, min(until, start[at]))
                if why[at] == 2 and kind != COMPUTE:
                    began = since  # the rest is queueing for the same wires
                waits[core, column] += until - began
                until = began
                blame, at = why[at], cause[at]
            waits[core, WAIT_DEPENDENCY] += until - since
        for b in range(row[BOOK_START], row[BOOK_END]):
            resource = booking[b, RESOURCE]
            free[resource], last[resource] = ready + booking[b, TICKS], number
        end[number] = ready + row[DURATION] + row[LATENCY]


@kernel("int64(int64[:,::1], int64[:,::1])")
def longest_chain(node: Array, dep: Array) -> int:
    """Ticks of the longest path along data alone: as if no resource were ever shared and no memory full."""
    longest = 0
    end = np.empty(len(node), np.int64)
    for number in range(len(node)):
        ready = 0
        for i in range(node[number, DEP_START], node[number, DEP_END]):
            if dep[i, REASON] != SPACE:
                ready = max(ready, end[dep[i, NODE]] + dep[i, LAG])
        end[number] = ready + node[number, DURATION] + node[number, LATENCY]
        longest = max(longest, end[number])
    return longest
