"""Sums over the transfers of a schedule, for searches that need no more than their energy. A compiled kernel."""

from __future__ import annotations

from typing import Any

from monet.compiled import kernel
from monet.schedule.simulation.nodes import BOOK_END, BOOK_START, BURSTS, BYTES, KIND, RESOURCE, SOURCE, TARGET, TARGETS

Array = Any


@kernel("void(int64[:,::1], int64[:,::1], int64[:,::1], int64[::1], int64[::1], int64[::1])")
def transferred(node: Array, booking: Array, kinds: Array, resources: Array, read: Array, written: Array) -> None:
    """By kind of node bytes of whole bursts, and bytes; bytes by resource that they pass; bytes read from and written
    to every memory (0: DRAM, or none)."""
    for number in range(len(node)):
        row = node[number]
        size = row[BYTES]
        if size <= 0:
            continue
        kinds[row[KIND], 0] += row[BURSTS]
        kinds[row[KIND], 1] += size
        read[max(0, row[SOURCE])] += size
        written[max(0, row[TARGET])] += size * row[TARGETS]
        for b in range(row[BOOK_START], row[BOOK_END]):
            resources[booking[b, RESOURCE]] += size
