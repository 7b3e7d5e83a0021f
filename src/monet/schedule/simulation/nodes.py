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
    counters = state.counters[0]
    number = int(counters.nodes)
    counters.nodes += 1
    node = state.events.nodes[number]
    node.kind, node.step, node.operator = kind, step, counters.operator
    node.bytes, node.bursts = size, 0
    node.source, node.target, node.targets = source, target, 1
    node.own, node.every, node.place = 0, 0, 0
    node.latency, node.duration = 0, 0
    node.dep_start, node.dep_end = counters.deps, counters.deps
    node.book_start, node.book_end = counters.bookings, counters.bookings
    return number


@part()
def depend(state: State, number: int, on: int, lag: int, reason: int) -> None:
    """The node opened last waits for ``on`` (nothing if negative) and ``lag`` ticks more."""
    if on >= 0:
        counters = state.counters[0]
        dep = state.events.deps[counters.deps]
        dep.node, dep.lag, dep.reason = on, lag, reason
        counters.deps += 1
        state.events.nodes[number].dep_end = counters.deps


@part()
def book(state: State, number: int, resource: int, ticks: int) -> None:
    """The node opened last occupies a resource; one that it has already is occupied for the longer time."""
    node, bookings, counters = state.events.nodes[number], state.events.bookings, state.counters[0]
    node.duration = max(node.duration, ticks)
    for b in range(node.book_start, node.book_end):
        if bookings[b].resource == resource:
            bookings[b].ticks = max(bookings[b].ticks, ticks)
            return
    booking = bookings[counters.bookings]
    booking.resource, booking.ticks = resource, ticks
    counters.bookings += 1
    node.book_end = counters.bookings


in_bursts = part()(whole_bursts)


@part()
def in_rows(size: int, rows: int, burst: int) -> int:
    """Bytes on the pins of DRAM when ``size`` bytes lie there in more than one row: whole bursts of each."""
    if rows <= 1:
        return size
    row = (size + rows - 1) // rows
    return rows * in_bursts(row, burst)


@part()
def between(source: int, target: int, memories: int, place: int) -> int:
    """The route from one memory to another; from or to DRAM, that of a place there."""
    if place == 0 or (source != 0 and target != 0):
        return source * memories + target
    return memories * (memories + 2 * (place - 1)) + (target if source == 0 else memories + source)


@part()
def at_peak(routes: Routes, dram: int, size: float) -> float:
    """Bytes that a DRAM would move at its peak rate in the time that it takes for ``size``; interpolated between the
    sizes of which it is known, so that more bytes never take less time."""
    known, time = routes.transfer_bytes, routes.transfer_time
    first, end = routes.known[dram], routes.known[dram + 1]
    if first == end:
        return float(size)
    if size <= known[first]:
        return float(size * (time[first] / known[first]))
    for i in range(first + 1, end):
        if size <= known[i]:
            return float(time[i - 1] + (size - known[i - 1]) * ((time[i] - time[i - 1]) / (known[i] - known[i - 1])))
    return float(size * (time[end - 1] / known[end - 1]))


@part()
def part_of(value: int, size: int, whole: int) -> int:
    """Of some bytes that go along with ``whole`` bytes, those that go with ``size`` of them."""
    if value == whole or size >= whole:
        return size if value == whole else value
    return int(value * (size / whole))


@part()
def book_route(
    state: State, routes: Routes, number: int, pair: int, size: int, own: int, every: int, bursts: int, place: int
) -> None:
    """Occupy every resource of a route for as long as ``size`` bytes take there; DRAM for whole bursts, of several each
    for its share. Of cores that work together, each occupies its own wires for ``own`` bytes, and all of them for
    ``every``; DRAM serves them one by one."""
    node = state.events.nodes[number]
    node.own, node.every, node.place = max(node.own, own), node.every + every, place
    for i in range(routes.pointer[pair], routes.pointer[pair + 1]):
        moved = float(size)
        if routes.resource[i] >= routes.dram:
            parts = max(1, (size + own // 2) // max(1, own))
            whole = in_bursts((max(size, bursts) + parts - 1) // parts, routes.burst_bytes[place])
            node.bursts = parts * whole
            moved = parts * at_peak(routes, routes.resource[i] - routes.dram, whole * routes.share[i])
        elif routes.spread[routes.resource[i]] > 1:
            moved = float(own)
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
