"""Paging out: a kept activation leaves DRAM for the host after its last use in forward, and is back before backward.

Pages pass between DRAM and the host, so each books DRAM and the host's link, in the order of the schedule: pages out as
early, pages in as late as the link allows, both beside whatever else runs. A reader in backward waits for its pages.
What lies on chip at that time stays there and is not paged. Only time and where bytes lie change, never the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from monet.arrays import I64
from monet.graph.op import Phase
from monet.hardware.accelerator import Endpoint
from monet.schedule.engine import run_replay
from monet.schedule.machine import Machine
from monet.schedule.measurement.figures import dram_peak_bytes
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.insertion import Extra, inserted
from monet.schedule.workload import Workload

PAGE_BYTES = 256 * 1024  # other traffic passes between two pages
LATE = (Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True)
class Paged:
    """A schedule with pages in it. ``away``: block → (ticks at which it has left DRAM, at which it comes back)."""

    schedule: Schedule
    away: dict[int, tuple[int, int]]
    bytes: int  # paged out, and in again


@dataclass
class _Trip:
    """One storage on its way: ``after`` and ``readers`` are nodes, times are ticks of the schedule without pages."""

    blocks: I64
    bytes: int
    after: I64
    readers: I64
    ready: int
    due: int
    out: int = 0  # expected start of the first page out, of the first page in
    back: int = 0


@dataclass
class _Page:
    """One page. ``before``: the node that it is queued before; ``waits``: nodes that it waits for."""

    trip: int
    inwards: bool
    bytes: int
    time: int
    before: int
    waits: list[int]


def paged(schedule: Schedule, workload: Workload, machine: Machine, storages: Iterable[str]) -> Paged:
    """The schedule with some storages paged out to the host between forward and backward."""
    host = machine.accelerator.endpoint("host")
    if host is None:
        raise ValueError("the accelerator has no host")
    trips = [trip for name in storages if (trip := _trip(schedule, workload, name)) is not None]
    if not trips:
        return Paged(schedule, {}, 0)
    slower = min(host.bandwidth_bytes_per_s, machine.accelerator.dram.bandwidth_bytes_per_s)
    per_byte = machine.ticks_per_second * (1 / slower)
    _expect(trips, per_byte, round(host.latency_s * machine.ticks_per_second))
    pages = _pages(schedule, trips, per_byte)
    held_up: dict[int, list[int]] = {}
    for number, trip in enumerate(trips):
        back = [at for at, page in enumerate(pages) if page.inwards and page.trip == number]
        for reader in trip.readers.tolist():
            held_up.setdefault(reader, []).extend(back)
    decided, places = inserted(schedule.decided, _extras(trips, pages, machine, host), held_up)
    timed = run_replay(decided, machine, more_resources=1)
    away: dict[int, tuple[int, int]] = {}
    for number, trip in enumerate(trips):
        mine = [(page.inwards, at) for page, at in zip(pages, places, strict=True) if page.trip == number]
        gone = max(int(timed.end[at]) for inwards, at in mine if not inwards)
        again = min(int(timed.start[at]) for inwards, at in mine if inwards)
        away |= {int(block): (gone, again) for block in trip.blocks}
    return Paged(replace(schedule, decided=decided, timed=timed), away, sum(trip.bytes for trip in trips))


def dram_peak(found: Paged) -> int:
    """Most bytes in DRAM at one time, without what is away."""
    return dram_peak_bytes(found.schedule, found.away)


def _trip(schedule: Schedule, workload: Workload, storage: str) -> _Trip | None:
    """When and what of a storage can be away; None if it is not in DRAM between forward and backward."""
    known = workload.storages.get(storage)
    if known is None:
        return None
    late_operator = np.array([operator.op.phase in LATE for operator in workload.operators])
    gang_late = late_operator[schedule.operator_of_gang]
    early, late, blocks = -1, len(gang_late), []
    for block in np.flatnonzero(schedule.expanded.block_storage == known.number).tolist():
        uses = schedule.uses_of(block)
        mine, theirs = uses[gang_late[uses]], uses[~gang_late[uses]]
        if len(mine) and len(theirs) and schedule.decided.dram.came[block] >= 0:
            blocks.append(block)
            early, late = max(early, int(theirs.max())), min(late, int(mine.min()))
    if not blocks:
        return None
    timed, readers = schedule.timed, schedule.nodes_of_gang(late)
    due = int(timed.start[readers].min())
    came = schedule.decided.dram.came[blocks]
    there = timed.end[came] < due  # what is evicted only later is on chip when it is wanted
    after = np.concatenate((schedule.nodes_of_gang(early), came[there]))
    chosen = np.array(blocks)[there]
    if not len(chosen) or after.max() >= readers.min():
        return None
    size = int(schedule.expanded.tables.blocks.bytes[chosen].sum())
    return _Trip(chosen, size, after, readers, int(timed.end[after].max()), due)


def _expect(trips: list[_Trip], per_byte: float, latency: int) -> None:
    """Expected times: out one after another as early, in one after another as late as the link allows."""
    free = 0
    for trip in sorted(trips, key=lambda trip: trip.ready):
        trip.out = max(free, trip.ready)
        free = trip.out + round(trip.bytes * per_byte)
    busy_from = 2**62
    for trip in sorted(trips, key=lambda trip: -trip.due):
        trip.back = max(trip.ready, min(trip.due, busy_from) - latency - round(trip.bytes * per_byte))
        busy_from = trip.back


def _pages(schedule: Schedule, trips: list[_Trip], per_byte: float) -> list[_Page]:
    """Pages in the order in which the link serves them."""
    upto, tiles = np.maximum.accumulate(schedule.timed.start), schedule.tiles
    order = np.argsort(tiles.end, kind="stable")
    by_end, ends = tiles.node[order], tiles.end[order]
    found: list[_Page] = []
    for number, trip in enumerate(trips):
        count = -(-trip.bytes // PAGE_BYTES)
        sizes = np.diff(np.arange(count + 1) * trip.bytes // count)
        last_before = first = int(trip.after.max()) + 1
        limit = int(trip.readers.min())
        for inwards, began in ((False, trip.out), (True, trip.back)):
            for i, size in enumerate(sizes):
                time = began + round(i * trip.bytes / count * per_byte)
                before = min(limit, max(last_before, first, int(np.searchsorted(upto, time))))
                last_before = before
                # a page is not to come back before it is wanted: it waits for what computes then
                pin = int(np.searchsorted(ends, time, side="right")) - 1
                waits = [int(by_end[pin])] if inwards and pin >= 0 and by_end[pin] < before else []
                found.append(_Page(number, inwards, int(size), time, before, waits))
    return sorted(found, key=lambda page: (page.before, page.inwards, page.time))


def _extras(trips: list[_Trip], pages: list[_Page], machine: Machine, host: Endpoint) -> list[Extra]:
    """Pages as nodes. The host's link is one more resource, after those of the machine."""
    dram = 8 / machine.accelerator.dram.bandwidth_bits_per_s * machine.ticks_per_second
    link = machine.ticks_per_second / host.bandwidth_bytes_per_s
    latency = round(host.latency_s * machine.ticks_per_second)
    last_out: dict[int, int] = {}
    found: list[Extra] = []
    for number, page in enumerate(pages):
        books = {
            machine.dram_resource: round(page.bytes * dram),
            len(machine.resource_names): round(page.bytes * link),
        }
        waits = (*page.waits, *(() if page.inwards else trips[page.trip].after.tolist()))
        after = (last_out[page.trip],) if page.inwards else ()
        found.append(Extra(page.before, page.inwards, page.bytes, latency, books, waits, after))
        if not page.inwards:
            last_out[page.trip] = number
    return found
