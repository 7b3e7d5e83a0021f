"""Sums over the transfers of a schedule, for searches that need no more than their energy. A compiled kernel."""

from __future__ import annotations

from typing import NamedTuple

from monet.arrays import I64
from monet.compiled import kernel, part
from monet.schedule.simulation.records import EVICT, FROM_DRAM, ON_CHIP, READ, TO_DRAM, WRITE, Events


class TransferSums(NamedTuple):
    """Bytes: by direction (FROM_DRAM, TO_DRAM, ON_CHIP), also on the pins of DRAM; over every resource (and
    all like it, of cores that work together); read from and written to every memory (0: DRAM, or none)."""

    bytes: I64
    bursts: I64
    over_resource: I64
    read_from: I64
    written_to: I64


@part()
def direction_of(kind: int, target: int) -> int:
    """What a node has to do with DRAM. Results and evicted blocks may end in a memory on the way there."""
    if kind == READ:
        return FROM_DRAM
    return TO_DRAM if kind in (WRITE, EVICT) and target == 0 else ON_CHIP


@kernel
def sum_transfers(events: Events, totals: TransferSums, spread: I64) -> None:
    """Add up all transfers, from zeros. ``spread``: see ``Routes``."""
    for number in range(len(events.nodes)):
        node = events.nodes[number]
        if node.bytes <= 0:
            continue
        direction = direction_of(node.kind, node.target)
        totals.bytes[direction] += node.bytes
        totals.bursts[direction] += node.bursts
        totals.read_from[max(0, node.source)] += node.bytes
        totals.written_to[max(0, node.target)] += node.every
        for b in range(node.book_start, node.book_end):
            resource = events.bookings[b].resource
            totals.over_resource[resource] += node.every if spread[resource] > 1 else node.bytes
