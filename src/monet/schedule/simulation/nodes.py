"""Nodes of a schedule: compute tiles and transfers, in the order in which resources serve them. Compiled helpers.

A node has dependencies (node, lag in ticks, reason), resources with the ticks it occupies each, and a latency that
passes after them. Nodes are only ever appended, and depend only on earlier ones, so their order is a topological one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from monet.mapping.unfused.dram_route import whole_bursts

Array = Any
Function = TypeVar("Function", bound=Callable[..., Any])


def inner(function: Function) -> Function:
    """Compile a function that only kernels call: into them, and kept on disk with them only. It allocates nothing, so
    the arrays it is given are not counted in and out (``_nrt``), which takes five times as long as the work. It is
    always inlined: a call passes some hundred words, as arrays go by value with their shapes and strides."""
    return cast(Function, numba.njit(_nrt=False, forceinline=True)(function))


# columns of a node
(
    KIND,
    STEP,
    OPERATOR,
    BYTES,
    LATENCY,
    DURATION,
    DEP_START,
    DEP_END,
    BOOK_START,
    BOOK_END,
    SOURCE,
    TARGET,
    TARGETS,
    BURSTS,  # bytes on the pins of DRAM: whole bursts
) = range(14)
NODE_COLUMNS = 14
# columns of a dependency
NODE, LAG, REASON = range(3)
# reasons
DATA, SPACE = 0, 1
# columns of a booking
RESOURCE, TICKS = range(2)
# kinds of nodes
COMPUTE, READ, WRITE, MOVE, EVICT, JOIN = range(6)
# counters
N_NODE, N_DEP, N_BOOK, N_COPY, OPERATOR_NOW, FAILED_MEMORY, FAILED_BYTES, GANG_NOW = range(8)
N_COUNTERS = 8


@inner
def open_node(count: Array, node: Array, kind: int, step: int, size: int, source: int, target: int) -> int:
    """Append a node without dependencies or bookings; they are added next, before any other node is opened."""
    number: int = count[N_NODE]
    count[N_NODE] += 1
    node[number, KIND], node[number, STEP], node[number, BYTES] = kind, step, size
    node[number, OPERATOR], node[number, LATENCY], node[number, DURATION] = count[OPERATOR_NOW], 0, 0
    node[number, DEP_START], node[number, DEP_END] = count[N_DEP], count[N_DEP]
    node[number, BOOK_START], node[number, BOOK_END] = count[N_BOOK], count[N_BOOK]
    node[number, SOURCE], node[number, TARGET], node[number, TARGETS] = source, target, 1
    node[number, BURSTS] = 0
    return number


@inner
def depend(count: Array, node: Array, dep: Array, number: int, on: int, lag: int, reason: int) -> None:
    """The node opened last waits for ``on`` (nothing if negative) and ``lag`` ticks more."""
    if on >= 0:
        new = count[N_DEP]
        dep[new, NODE], dep[new, LAG], dep[new, REASON] = on, lag, reason
        count[N_DEP] += 1
        node[number, DEP_END] = count[N_DEP]


@inner
def book(count: Array, node: Array, booking: Array, number: int, resource: int, ticks: int) -> None:
    """The node opened last occupies a resource; one that it has already is occupied for the longer time."""
    for i in range(node[number, BOOK_START], node[number, BOOK_END]):
        if booking[i, RESOURCE] == resource:
            booking[i, TICKS] = max(booking[i, TICKS], ticks)
            node[number, DURATION] = max(node[number, DURATION], ticks)
            return
    booking[count[N_BOOK], RESOURCE], booking[count[N_BOOK], TICKS] = resource, ticks
    count[N_BOOK] += 1
    node[number, BOOK_END] = count[N_BOOK]
    node[number, DURATION] = max(node[number, DURATION], ticks)


in_bursts = inner(whole_bursts)


@inner
def in_rows(size: int, rows: int, burst: int) -> int:
    """Bytes on the pins of DRAM when ``size`` bytes lie there in more than one row: whole bursts of each."""
    if rows <= 1:
        return size
    row = (size + rows - 1) // rows
    return rows * in_bursts(row, burst)


@inner
def book_route(
    count: Array, node: Array, booking: Array, number: int, pair: int, size: int, bursts: int, routes: Any
) -> None:
    """Occupy every resource of a route for as long as ``size`` bytes take there; DRAM for whole bursts."""
    pointer, way, pace, dram, burst = routes[0], routes[1], routes[2], routes[5][0], routes[5][1]
    for i in range(pointer[pair], pointer[pair + 1]):
        moved = size
        if way[i] == dram:
            moved = in_bursts(max(size, bursts), burst)
            node[number, BURSTS] = moved
        ticks = int(moved * pace[i])
        if ticks < moved * pace[i] - 1e-6:
            ticks += 1
        book(count, node, booking, number, way[i], ticks)


@inner
def join(count: Array, node: Array, dep: Array, first: int, second: int, reason: int) -> int:
    """A node that ends when both others have; one of them itself if that is enough."""
    if first < 0 or first == second:
        return second
    if second < 0:
        return first
    number = open_node(count, node, JOIN, -1, 0, -1, -1)
    depend(count, node, dep, number, first, 0, reason)
    depend(count, node, dep, number, second, 0, reason)
    return number
