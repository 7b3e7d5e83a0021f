"""Sums over the transfers of a schedule, for searches that need no more than their energy. A compiled kernel."""

from __future__ import annotations

from typing import NamedTuple

from monet.arrays import I64
from monet.compiled import kernel
from monet.schedule.simulation.records import DIRECTION, Events


class TransferSums(NamedTuple):
    """Bytes: by direction (FROM_DRAM, TO_DRAM, ON_CHIP), also on the pins of DRAM; over every resource; read from and
    written to every memory (0: DRAM, or none)."""

    bytes: I64
    bursts: I64
    over_resource: I64
    read_from: I64
    written_to: I64


@kernel
def sum_transfers(events: Events, sums: TransferSums) -> None:
    """Add up all transfers, from zeros."""
    nodes, bookings = events.nodes, events.bookings
    for number in range(len(nodes)):
        size = nodes.bytes[number]
        if size <= 0:
            continue
        direction = DIRECTION[nodes.kind[number]]
        sums.bytes[direction] += size
        sums.bursts[direction] += nodes.bursts[number]
        sums.read_from[max(0, nodes.source[number])] += size
        sums.written_to[max(0, nodes.target[number])] += size * nodes.targets[number]
        for b in range(nodes.book_start[number], nodes.book_end[number]):
            sums.over_resource[bookings.resource[b]] += size
