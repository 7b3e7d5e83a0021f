"""Paging out: a kept activation leaves DRAM for the host after its last use in forward, and is back before backward.

Pages pass between DRAM and the host, so each books DRAM and the host's link, in the order of the schedule: pages out as
early, pages in as late as the link allows, both beside whatever else runs. A reader in backward waits for its pages.
What lies on chip at that time stays there and is not paged. Only time and where bytes lie change, never the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monet.graph.op import Phase
from monet.hardware.accelerator import Host
from monet.schedule.engine import Decided, Schedule, Timed
from monet.schedule.machine import Machine
from monet.schedule.simulation import decide as d
from monet.schedule.simulation import nodes as n
from monet.schedule.simulation import residency as r
from monet.schedule.simulation.replay import replay
from monet.schedule.workload import Workload

Array = np.ndarray[Any, Any]
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

    blocks: Array
    bytes: int
    after: Array
    readers: Array
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
    host = machine.accelerator.host
    if host is None:
        raise ValueError("the accelerator has no host")
    trips = [one for name in storages if (one := _trip(schedule, workload, name)) is not None]
    if not trips:
        return Paged(schedule, {}, 0)
    per_byte = machine.ticks_per_second * max(
        1 / host.bandwidth_bytes_per_s, 1 / machine.accelerator.drams[0].bandwidth_bytes_per_s
    )
    _expect(trips, per_byte, round(host.latency_s * machine.ticks_per_second))
    pages = _pages(schedule, trips, per_byte)
    decided, places = _inserted(schedule.decided, trips, pages, machine, host)
    timed = _replayed(decided, machine)
    away: dict[int, tuple[int, int]] = {}
    for number, trip in enumerate(trips):
        mine = [(page.inwards, at) for page, at in zip(pages, places, strict=True) if page.trip == number]
        gone = max(int(timed.end[at]) for inwards, at in mine if not inwards)
        back = min(int(timed.start[at]) for inwards, at in mine if inwards)
        away |= {int(block): (gone, back) for block in trip.blocks}
    return Paged(replace(schedule, decided=decided, timed=timed), away, sum(one.bytes for one in trips))


def dram_peak(found: Paged) -> int:
    """Most bytes in DRAM at one time, without what is away."""
    schedule = found.schedule
    blocks, start, end = schedule.decided.blocks, schedule.timed.start, schedule.timed.end
    rows = blocks[blocks[:, r.DRAM_FROM] != r.NOT_YET]
    came = np.where(rows[:, r.DRAM_FROM] >= 0, start[rows[:, r.DRAM_FROM]], 0)
    went = np.where(rows[:, r.DRAM_TO] >= 0, end[rows[:, r.DRAM_TO]], schedule.timed.makespan)
    holes = [(gone, back, int(blocks[block, r.SIZE])) for block, (gone, back) in found.away.items() if back > gone]
    gone, back, size = np.array(holes, np.int64).reshape(-1, 3).T
    time = np.concatenate((came, np.maximum(came, went), gone, back))
    change = np.concatenate((rows[:, r.SIZE], -rows[:, r.SIZE], -size, size))
    return int(np.cumsum(change[np.lexsort((change, time))]).max(initial=0))


def _trip(schedule: Schedule, workload: Workload, storage: str) -> _Trip | None:
    """When and what of a storage can be away; None if it is not in DRAM between forward and backward."""
    known = workload.storages.get(storage)
    if known is None:
        return None
    expanded, decided, timed = schedule.expanded, schedule.decided, schedule.timed
    late_operator = np.array([one.op.phase in LATE for one in workload.operators])
    gang_late = late_operator[expanded.steps[expanded.gangs[:, d.FIRST_STEP], d.OPERATOR]]
    early, late, blocks = -1, len(gang_late), []
    for block in np.flatnonzero(expanded.block_storage == known.number):
        uses = expanded.uses[expanded.blocks[block, r.USE] : expanded.blocks[block, r.USE_END]]
        mine, theirs = uses[gang_late[uses]], uses[~gang_late[uses]]
        if len(mine) and len(theirs) and decided.blocks[block, r.DRAM_FROM] >= 0:
            blocks.append(block)
            early, late = max(early, int(theirs.max())), min(late, int(mine.min()))
    if not blocks:
        return None
    readers = _nodes_of(schedule, late)
    due = int(timed.start[readers].min())
    came = decided.blocks[blocks, r.DRAM_FROM]
    there = timed.end[came] < due  # what is evicted only later is on chip when it is wanted
    after = np.concatenate((_nodes_of(schedule, early), came[there]))
    chosen = np.array(blocks)[there]
    if not len(chosen) or after.max() >= readers.min():
        return None
    size = int(decided.blocks[chosen, r.SIZE].sum())
    return _Trip(chosen, size, after, readers, int(timed.end[after].max()), due)


def _nodes_of(schedule: Schedule, gang: int) -> Array:
    """Everything that the steps of a gang compute and move."""
    first, last = schedule.expanded.gangs[gang, d.FIRST_STEP], schedule.expanded.gangs[gang, d.LAST_STEP]
    nodes = schedule.decided.nodes
    mine = (nodes[:, n.STEP] >= first) & (nodes[:, n.STEP] < last) & (nodes[:, n.KIND] != n.EVICT)
    return np.flatnonzero(mine)


def _expect(trips: list[_Trip], per_byte: float, latency: int) -> None:
    """Expected times: out one after another as early, in one after another as late as the link allows."""
    free = 0
    for trip in sorted(trips, key=lambda one: one.ready):
        trip.out = max(free, trip.ready)
        free = trip.out + round(trip.bytes * per_byte)
    busy_from = 2**62
    for trip in sorted(trips, key=lambda one: -one.due):
        trip.back = max(trip.ready, min(trip.due, busy_from) - latency - round(trip.bytes * per_byte))
        busy_from = trip.back


def _pages(schedule: Schedule, trips: list[_Trip], per_byte: float) -> list[_Page]:
    """Pages in the order in which the link serves them."""
    timed, nodes = schedule.timed, schedule.decided.nodes
    upto = np.maximum.accumulate(timed.start)
    compute = np.flatnonzero(nodes[:, n.KIND] == n.COMPUTE)
    by_end = compute[np.argsort(timed.end[compute], kind="stable")]
    ends = timed.end[by_end]
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
    return sorted(found, key=lambda one: (one.before, one.inwards, one.time))


def _inserted(
    decided: Decided, trips: list[_Trip], pages: list[_Page], machine: Machine, host: Host
) -> tuple[Decided, list[int]]:
    """The nodes with pages among them, and where the pages are."""
    before = np.array([page.before for page in pages], np.int64)
    place = np.arange(len(decided.nodes)) + np.searchsorted(before, np.arange(len(decided.nodes)), side="right")
    places = [int(one) for one in before + np.arange(len(pages))]
    nodes = np.zeros((len(decided.nodes) + len(pages), n.NODE_COLUMNS), np.int64)
    nodes[place] = decided.nodes
    deps, bookings = decided.deps.copy(), decided.bookings
    deps[:, n.NODE] = place[deps[:, n.NODE]]
    more_deps, more_books = [deps], [bookings]
    n_dep, n_book = len(deps), len(bookings)
    last_out: dict[int, list[int]] = {}
    last_in: dict[int, list[int]] = {}
    dram = 8 / machine.accelerator.drams[0].bandwidth_bits_per_s * machine.ticks_per_second
    link = machine.ticks_per_second / host.bandwidth_bytes_per_s
    for page, at in zip(pages, places, strict=True):
        waits = [*place[page.waits].tolist()]
        if page.inwards:
            waits += last_out[page.trip]
            last_in.setdefault(page.trip, []).append(at)
        else:
            waits += place[trips[page.trip].after].tolist()
            last_out[page.trip] = [at]
        rows = np.zeros((len(waits), deps.shape[1]), np.int64)
        rows[:, n.NODE] = waits
        booked = (machine.dram_resource, page.bytes * dram), (len(machine.resource_names), page.bytes * link)
        books = np.array([(resource, round(ticks)) for resource, ticks in booked], np.int64)
        row = nodes[at]
        row[n.KIND], row[n.STEP], row[n.BYTES] = n.WRITE if page.inwards else n.READ, -1, page.bytes
        row[n.LATENCY] = round(host.latency_s * machine.ticks_per_second)
        row[n.DURATION] = int(books[:, n.TICKS].max())
        row[n.DEP_START], row[n.DEP_END] = n_dep, n_dep + len(rows)
        row[n.BOOK_START], row[n.BOOK_END] = n_book, n_book + len(books)
        more_deps.append(rows)
        more_books.append(books)
        n_dep, n_book = n_dep + len(rows), n_book + len(books)
    for number, trip in enumerate(trips):
        found = np.concatenate(more_deps)
        more_deps = [found]
        for reader in place[trip.readers]:
            old = found[nodes[reader, n.DEP_START] : nodes[reader, n.DEP_END]]
            rows = np.zeros((len(last_in[number]), deps.shape[1]), np.int64)
            rows[:, n.NODE] = last_in[number]
            nodes[reader, n.DEP_START], nodes[reader, n.DEP_END] = n_dep, n_dep + len(old) + len(rows)
            more_deps += [old, rows]
            n_dep += len(old) + len(rows)
    return replace(
        decided, nodes=nodes, deps=np.concatenate(more_deps), bookings=np.concatenate(more_books),
        copies=_renumbered(decided.copies, (r.READY, r.GUARD, r.FROM, r.TO), place),
        blocks=_renumbered(decided.blocks, (r.DRAM_READY, r.DRAM_FROM, r.DRAM_TO), place),
        steps=_renumbered(decided.steps, (d.RUN, d.DONE), place),
    ), places  # fmt: skip


def _renumbered(table: Array, columns: tuple[int, ...], place: Array) -> Array:
    table = table.copy()
    for column in columns:
        known = table[:, column] >= 0
        table[known, column] = place[table[known, column]]
    return table


def _replayed(decided: Decided, machine: Machine) -> Timed:
    """Timing with the host's link as one more resource."""
    count, cores = len(decided.nodes), len(machine.accelerator.cores)
    start, end, cause, why = (np.zeros(count, np.int64) for _ in range(4))
    free, waits = np.zeros(len(machine.resource_names) + 1, np.int64), np.zeros((cores, 4), np.int64)
    replay(decided.nodes, decided.deps, decided.bookings, start, end, cause, why, free, waits, cores)
    return Timed(start, end, cause, why, waits, free)
