"""Time: replay the nodes that ``decide`` fixed. Only max and +: a shorter duration never makes anything later."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import I64, Bool, I64x2
from monet.compiled import kernel, part
from monet.schedule.simulation.records import (
    COMPUTE,
    DATA,
    HOST,
    JOIN,
    MOVE,
    QUEUE,
    READ,
    SPACE,
    Dependencies,
    Events,
    Nodes,
)

# waits of a core, as columns of the partition
WAIT_DRAM, WAIT_LINK, WAIT_DEPENDENCY, WAIT_SPACE, WAIT_HOST = range(5)


class Timed(NamedTuple):
    """Start and end of every node in ticks, the node it waited for last (-1: none), and why."""

    start: I64
    end: I64
    cause: I64
    why: I64  # DATA, SPACE, QUEUE or HOST
    waits: I64x2  # by core: DRAM, link, dependency, space, host
    free: I64  # by resource: end of its last booking

    @property
    def makespan(self) -> int:
        """Ticks from the start to the end of the last node."""
        return int(self.end.max(initial=0))


@kernel
def replay(events: Events, timed: Timed, cores: int) -> None:
    """Fill in ``timed``, given zeros. Resources below ``cores`` are cores."""
    nodes, deps, bookings, free = events.nodes, events.deps, events.bookings, timed.free
    last = np.full(free.size, -1, np.int64)
    for number in range(len(nodes)):
        node = nodes[number]
        ready, cause, why = 0, -1, DATA
        for d in range(node.dep_start, node.dep_end):
            dep = deps[d]
            at = timed.end[dep.node] + dep.lag
            if at > ready:
                ready, cause, why = at, dep.node, dep.reason
        core = -1
        for b in range(node.book_start, node.book_end):
            resource = bookings[b].resource
            if resource < cores:
                core = resource
            if free[resource] > ready:
                ready, cause, why = free[resource], last[resource], QUEUE
        timed.start[number], timed.cause[number], timed.why[number] = ready, cause, why
        if core >= 0 and ready > free[core]:
            charge(nodes, deps, timed, core, number)
        for b in range(node.book_start, node.book_end):
            booking = bookings[b]
            free[booking.resource], last[booking.resource] = ready + booking.ticks, number
        timed.end[number] = ready + node.duration + node.latency


@part()
def charge(nodes: Nodes, deps: Dependencies, timed: Timed, core: int, number: int) -> None:
    """Charge the gap on a core before a node: followed back along what it waited for, each part of the gap goes to what
    was going on then; what lies before its host has issued it is the host's."""
    since, until = timed.free[core], timed.start[number]
    for d in range(nodes[number].dep_start, nodes[number].dep_end):
        if deps[d].reason == HOST and timed.end[deps[d].node] > since:
            issued = min(until, timed.end[deps[d].node])
            timed.waits[core, WAIT_HOST] += issued - since
            since = issued
    blame, at = timed.why[number], timed.cause[number]
    while until > since and at >= 0:
        kind = nodes[at].kind
        if blame == SPACE:
            timed.waits[core, WAIT_SPACE] += until - since
            return
        if kind == JOIN:
            blame, at = timed.why[at], timed.cause[at]
            continue
        stays = kind == MOVE or (nodes[at].target > 0 and kind != READ)  # on chip
        column = WAIT_DEPENDENCY if kind == COMPUTE else WAIT_LINK if stays else WAIT_DRAM
        if kind == COMPUTE and blame == QUEUE:
            column = WAIT_LINK  # for the port of a memory that another core is using
        began = max(since, min(until, timed.start[at]))
        if timed.why[at] == QUEUE and kind != COMPUTE:
            began = since  # the rest is queueing for the same wires
        timed.waits[core, column] += until - began
        until = began
        blame, at = timed.why[at], timed.cause[at]
    timed.waits[core, WAIT_DEPENDENCY] += until - since


@kernel
def booked_ticks(events: Events, booked: I64) -> None:
    """How long each resource is booked for in all, into ``booked``."""
    booked[:] = 0
    for b in range(len(events.bookings)):
        booked[events.bookings[b].resource] += events.bookings[b].ticks


@kernel
def last_end(events: Events, order: I64, booked: I64, most: int, end: I64) -> int:
    """The makespan that ``replay`` would find of the nodes in some order, in a fraction of its time, and when each ends
    (into ``end``); ``most`` as soon as it is sure to be at least that: what a resource is still ``booked`` for comes
    one after another."""
    nodes, deps, bookings = events.nodes, events.deps, events.bookings
    free, left, latest = np.zeros(booked.size, np.int64), booked.copy(), 0
    for place in range(order.size):
        node, ready = nodes[order[place]], 0
        for d in range(node.dep_start, node.dep_end):
            ready = max(ready, end[deps[d].node] + deps[d].lag)
        for b in range(node.book_start, node.book_end):
            ready = max(ready, free[bookings[b].resource])
        for b in range(node.book_start, node.book_end):
            booking = bookings[b]
            if ready + left[booking.resource] >= most:
                return most
            left[booking.resource] -= booking.ticks
            free[booking.resource] = ready + booking.ticks
        end[order[place]] = ready + node.duration + node.latency
        latest = max(latest, end[order[place]])
    return min(latest, most)


@kernel
def ends_along_data(events: Events, end: I64) -> None:
    """When each node would end if no resource were ever shared and no memory full: the longest path to it along data
    alone, into ``end``."""
    for number in range(len(events.nodes)):
        node, ready = events.nodes[number], 0
        for d in range(node.dep_start, node.dep_end):
            dep = events.deps[d]
            if dep.reason != SPACE:
                ready = max(ready, end[dep.node] + dep.lag)
        end[number] = ready + node.duration + node.latency


@kernel
def along_data(events: Events, end: I64, found: Bool) -> None:
    """Note in ``found`` the nodes of the path that ends last, of those with which ``ends_along_data`` ends."""
    at = np.argmax(end) if end.size else -1
    while at >= 0:
        found[at], node = True, events.nodes[at]
        began, at = end[at] - node.duration - node.latency, -1
        for d in range(node.dep_start, node.dep_end):
            dep = events.deps[d]
            if began > 0 and dep.reason != SPACE and end[dep.node] + dep.lag == began:
                at = dep.node


def longest_chain(events: Events) -> int:
    """Ticks of the longest path along data alone: as if no resource were ever shared and no memory full."""
    end = np.empty(len(events.nodes), np.int64)
    ends_along_data(events, end)
    return int(end.max(initial=0))


@kernel
def waits_before(events: Events, timed: Timed, chosen: Bool, cores: int) -> None:
    """What cores waited before the ``chosen`` nodes, added to ``timed.waits``; ``timed.free`` is zeros at first."""
    nodes, bookings, free = events.nodes, events.bookings, timed.free
    for number in range(len(nodes)):
        node = nodes[number]
        start, core = timed.start[number], -1
        for b in range(node.book_start, node.book_end):
            if bookings[b].resource < cores:
                core = bookings[b].resource
        if chosen[number] and core >= 0 and start > free[core]:
            charge(nodes, events.deps, timed, core, number)
        for b in range(node.book_start, node.book_end):
            free[bookings[b].resource] = start + bookings[b].ticks


@kernel
def waited_along(events: Events, timed: Timed) -> tuple[I64, I64]:
    """The nodes, earliest first, along which the last one waited, joins left out; and the resource that each occupies
    longest, the first of equals (-1: none)."""
    nodes, bookings, many = events.nodes, events.bookings, 0
    last = np.argmax(timed.end) if timed.end.size else -1
    at = last
    while at >= 0:
        many += nodes[at].kind != JOIN
        at = timed.cause[at]
    links, busiest, at = np.empty(many, np.int64), np.full(many, -1, np.int64), last
    while at >= 0:
        node = nodes[at]
        if node.kind != JOIN:
            many -= 1
            links[many], longest = at, -1
            for b in range(node.book_start, node.book_end):
                if bookings[b].ticks > longest:
                    longest, busiest[many] = bookings[b].ticks, bookings[b].resource
        at = timed.cause[at]
    return links, busiest
