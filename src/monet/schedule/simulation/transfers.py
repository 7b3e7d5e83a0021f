"""Sums over the transfers of a schedule, for searches that need no more than their energy. A compiled kernel."""

from __future__ import annotations

from typing import NamedTuple

from monet.arrays import I64, I64x2
from monet.compiled import kernel, part
from monet.schedule.simulation.nodes import between
from monet.schedule.simulation.records import EVICT, FROM_DRAM, ON_CHIP, READ, TO_DRAM, WRITE, Events, Routes


class TransferSums(NamedTuple):
    """Bytes: by direction (FROM_DRAM, TO_DRAM, ON_CHIP), also on the pins of DRAM (by place there and direction); over
    every resource (and all like it, of cores that work together); read from and written to every memory (0: DRAM, or
    none)."""

    bytes: I64
    bursts: I64x2
    over_resource: I64
    read_from: I64
    written_to: I64


@part()
def direction_of(kind: int, target: int) -> int:
    """What a node has to do with DRAM. Results and evicted blocks may end in a memory on the way there."""
    if kind == READ:
        return FROM_DRAM
    return TO_DRAM if kind in (WRITE, EVICT) and target == 0 else ON_CHIP


@part()
def bytes_over(events: Events, routes: Routes, number: int, booking: int) -> int:
    """Bytes of a node over one of the resources that it occupies; of those that each of the cores that work together
    has, over all of them. Of several DRAMs each has its share, and so do the links of its way; all bytes are on one of
    the DRAMs."""
    node, resource = events.nodes[number], events.bookings[booking].resource
    size = node.every if routes.spread[resource] > 1 else node.bytes
    drams, memories = routes.known.size - 1, routes.members.size
    if drams == 1 or (node.source != 0 and node.target != 0):
        return int(size)
    pair = between(node.source, node.target, memories, node.place)
    if resource >= routes.dram:
        before = 0.0
        for i in range(routes.pointer[pair], routes.pointer[pair + 1]):
            if routes.resource[i] == resource:
                return int(size * (before + routes.share[i]) + 1e-6) - int(size * before + 1e-6)
            before += routes.share[i] if routes.resource[i] >= routes.dram else 0.0
    for other in range(memories):  # of a multicast, the way to any of its memories
        pair = between(node.source, node.target if other == 0 else other, memories, node.place)
        for i in range(routes.pointer[pair], routes.pointer[pair + 1]):
            if routes.resource[i] == resource:
                return int(size * routes.share[i] + 0.5)
        if node.source != 0:
            break
    return int(size)


@kernel
def booked_bytes(events: Events, routes: Routes, found: I64) -> None:
    """Bytes of every booking, into ``found``."""
    for number in range(len(events.nodes)):
        for b in range(events.nodes[number].book_start, events.nodes[number].book_end):
            found[b] = bytes_over(events, routes, number, b)


@kernel
def sum_transfers(events: Events, totals: TransferSums, routes: Routes) -> None:
    """Add up all transfers, from zeros."""
    for number in range(len(events.nodes)):
        node = events.nodes[number]
        if node.bytes <= 0:
            continue
        direction = direction_of(node.kind, node.target)
        totals.bytes[direction] += node.bytes
        totals.bursts[node.place, direction] += node.bursts
        totals.read_from[max(0, node.source)] += node.bytes
        totals.written_to[max(0, node.target)] += node.every
        for b in range(node.book_start, node.book_end):
            resource = events.bookings[b].resource
            totals.over_resource[resource] += bytes_over(events, routes, number, b)
