"""Appending nodes, with what they wait for and what they occupy. Compiled parts of ``decide``.

Nodes are only ever appended, and depend only on earlier ones, so their order is a topological one.
"""

from __future__ import annotations

from monet.compiled import part
from monet.mapping.unfused.dram_route import whole_bursts
from monet.schedule.simulation.records import JOIN, Routes, State


@part()
def open_node(state: State, kind: int, step: int, size: int, source: int, target: int) -> int:
    """Append a node without dependencies or bookings; they are added next, before any other node is opened."""
    nodes, count = state.events.nodes, state.counters
    new = int(count.nodes[0])
    count.nodes[0] += 1
    nodes.kind[new], nodes.step[new], nodes.operator[new] = kind, step, count.operator[0]
    nodes.bytes[new], nodes.bursts[new] = size, 0
    nodes.source[new], nodes.target[new], nodes.targets[new] = source, target, 1
    nodes.latency[new], nodes.duration[new] = 0, 0
    nodes.dep_start[new], nodes.dep_end[new] = count.deps[0], count.deps[0]
    nodes.book_start[new], nodes.book_end[new] = count.bookings[0], count.bookings[0]
    return new


@part()
def depend(state: State, number: int, on: int, lag: int, reason: int) -> None:
    """The node opened last waits for ``on`` (nothing if negative) and ``lag`` ticks more."""
    if on >= 0:
        deps, new = state.events.deps, state.counters.deps[0]
        deps.node[new], deps.lag[new], deps.reason[new] = on, lag, reason
        state.counters.deps[0] = new + 1
        state.events.nodes.dep_end[number] = new + 1


@part()
def book(state: State, number: int, resource: int, ticks: int) -> None:
    """The node opened last occupies a resource; one that it has already is occupied for the longer time."""
    nodes, bookings = state.events.nodes, state.events.bookings
    nodes.duration[number] = max(nodes.duration[number], ticks)
    for i in range(nodes.book_start[number], nodes.book_end[number]):
        if bookings.resource[i] == resource:
            bookings.ticks[i] = max(bookings.ticks[i], ticks)
            return
    new = state.counters.bookings[0]
    bookings.resource[new], bookings.ticks[new] = resource, ticks
    state.counters.bookings[0] = new + 1
    nodes.book_end[number] = new + 1


in_bursts = part()(whole_bursts)


@part()
def in_rows(size: int, rows: int, burst: int) -> int:
    """Bytes on the pins of DRAM when ``size`` bytes lie there in more than one row: whole bursts of each."""
    if rows <= 1:
        return size
    row = (size + rows - 1) // rows
    return rows * in_bursts(row, burst)


@part()
def book_route(state: State, routes: Routes, number: int, pair: int, size: int, bursts: int) -> None:
    """Occupy every resource of a route for as long as ``size`` bytes take there; DRAM for whole bursts."""
    for i in range(routes.pointer[pair], routes.pointer[pair + 1]):
        moved = size
        if routes.resource[i] == routes.dram:
            moved = in_bursts(max(size, bursts), routes.burst_bytes)
            state.events.nodes.bursts[number] = moved
        ticks = int(moved * routes.ticks_per_byte[i])
        if ticks < moved * routes.ticks_per_byte[i] - 1e-6:
            ticks += 1
        book(state, number, routes.resource[i], ticks)


@part()
def join(state: State, first: int, second: int, reason: int) -> int:
    """A node that ends when both others have; one of them itself if that is enough."""
    if first < 0 or first == second:
        return second
    if second < 0:
        return first
    number = open_node(state, JOIN, -1, 0, -1, -1)
    depend(state, number, first, 0, reason)
    depend(state, number, second, 0, reason)
    return number
