"""A schedule to read: tiles, transfers, bookings and where bytes lie over time, each with names.

What measures a schedule or searches over schedules reads it here; only ``simulation`` knows how kernels number things.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monet.arrays import I64, Bool, I64x2
from monet.schedule.expansion.expand import Expanded
from monet.schedule.folding.repeated import Repeated
from monet.schedule.plan import Plan
from monet.schedule.simulation.queues import renumber, reorder
from monet.schedule.simulation.records import (
    COMPUTE,
    EVICT,
    HOLD_READ,
    HOLD_WRITE,
    JOIN,
    NOT_YET,
    ON_CHIP,
    READ,
    STREAM_READ,
    WRITE,
    WRITES,
    Copies,
    Dependencies,
    DramStays,
    Events,
    Nodes,
)
from monet.schedule.simulation.replay import Timed, longest_chain, waited_along
from monet.schedule.simulation.transfers import TransferSums, booked_bytes, sum_transfers
from monet.schedule.simulation.workspace import Workspace


class Decided(NamedTuple):
    """What ``decide`` fixed: nodes in the order their resources serve them, and where every byte lies."""

    events: Events
    copies: Copies
    dram: DramStays

    def in_order(self, order: I64, room: Workspace) -> Decided:
        """The same in ``room`` with nodes in another order."""
        (nodes, deps, bookings), place = self.events, np.empty(len(order), np.int64)
        events = Events(room.table(Nodes, len(nodes)), room.table(Dependencies, len(deps)), room.copy(bookings))
        reorder(order, self.events, events, place)
        found = Decided(events, room.copy(self.copies), room.copy(self.dram))
        for column in (found.copies.came, found.copies.went, found.dram.came, found.dram.went):
            renumber(place, column)
        return found


class Tiles(NamedTuple):
    """What cores compute, in the order in which they do."""

    node: I64
    operator: I64
    core: I64
    start: I64  # ticks
    end: I64


class Transfers(NamedTuple):
    """What moves. ``source`` and ``target`` are memories, 0 is DRAM. An eviction counts for the operator that drove the
    block out."""

    node: I64
    operator: I64
    bytes: I64
    bursts: I64  # bytes on the pins of DRAM
    source: I64
    target: I64  # the first one
    arriving: I64  # bytes that it writes, to several memories if it is a multicast
    from_dram: Bool
    to_dram: Bool
    is_eviction: Bool
    place: I64  # in DRAM
    start: I64  # ticks
    end: I64


class Occupied(NamedTuple):
    """A node occupies a resource. ``kind`` indexes the event kinds of a result."""

    owner: I64  # position among the nodes that were asked for
    resource: I64
    start: I64  # ticks
    ticks: I64
    bytes: I64
    operator: I64
    kind: I64


class Chain(NamedTuple):
    """Nodes of which each waited for the one before."""

    node: I64
    operator: I64
    kind: I64  # indexes the event kinds of a result
    start: I64  # ticks
    resource: I64  # that it occupies longest; -1 if it occupies none


class Stays(NamedTuple):
    """Bytes in a memory for a time (for none, if they go before they have come). Block -1: the buffers of a step."""

    block: I64
    memory: I64
    bytes: I64
    came: I64  # ticks
    went: I64
    operator: I64  # that made it come; -1: it is there from the start
    leaving: I64  # the operator that made it go; -1: it is there at the end


class Touched(NamedTuple):
    """A block that a step of an operator reads or writes."""

    operator: I64
    storage: I64
    bytes: I64  # that it takes of it, or gives
    is_read: Bool
    is_written: Bool
    is_shared: Bool  # all cores of the operator take the same


def bookings_of(first: I64, end: I64) -> tuple[I64, I64]:
    """(position, row in the bookings) of all that some nodes occupy, given where their bookings start and end."""
    counts = end - first
    owner = np.repeat(np.arange(len(first)), counts)
    return owner, np.arange(len(owner)) + np.repeat(first - (np.cumsum(counts) - counts), counts)


@dataclass(frozen=True)
class Schedule:
    """A plan, expanded, decided and timed."""

    plan: Plan
    expanded: Expanded
    decided: Decided
    timed: Timed
    repeated: Repeated | None = None  # of fewer layers than the plan's

    @cached_property
    def analyses(self) -> dict[type, object]:
        """What was read off it before, by kind."""
        return {}

    @property
    def makespan(self) -> int:
        """Ticks from the start to the end of the last node, of all layers."""
        return self.repeated.makespan if self.repeated else self.timed.makespan

    @cached_property
    def times(self) -> I64:
        """By operator that was scheduled, how many of the plan it stands for."""
        return self.repeated.times if self.repeated else np.ones(len(self.expanded.draft.workload.operators), np.int64)

    @property
    def waits(self) -> I64x2:
        """What every core waits for in all (see ``Timed``)."""
        return self.repeated.waits if self.repeated else self.timed.waits

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.timed.start)

    @cached_property
    def tiles(self) -> Tiles:
        """Everything that is computed."""
        nodes, timed = self.decided.events.nodes, self.timed
        chosen = np.flatnonzero(nodes.kind == COMPUTE)
        core = self.expanded.tables.steps.core[nodes.step[chosen]]
        return Tiles(chosen, nodes.operator[chosen], core, timed.start[chosen], timed.end[chosen])

    @cached_property
    def transfers(self) -> Transfers:
        """Everything that moves."""
        nodes, timed = self.decided.events.nodes, self.timed
        chosen = np.flatnonzero((nodes.kind != COMPUTE) & (nodes.kind != JOIN))
        kind = nodes.kind[chosen]
        leaves = ((kind == WRITE) | (kind == EVICT)) & (nodes.target[chosen] == 0)
        return Transfers(
            chosen,
            nodes.operator[chosen],
            nodes.bytes[chosen],
            nodes.bursts[chosen],
            nodes.source[chosen],
            nodes.target[chosen],
            nodes.every[chosen],
            kind == READ,
            leaves,
            kind == EVICT,
            nodes.place[chosen],
            timed.start[chosen],
            timed.end[chosen],
        )

    def transfer_sums(self) -> TransferSums:
        """Bytes of all transfers together."""
        routes = self.expanded.draft.machine.routes
        sizes = (ON_CHIP + 1, (routes.places, ON_CHIP + 1), len(routes.spread), *2 * (len(routes.members),))
        found = TransferSums(*(np.zeros(size, np.int64) for size in sizes))
        sum_transfers(self.decided.events, found, routes)
        return found

    def occupied(self, nodes: I64) -> Occupied:
        """What some nodes occupy, node by node."""
        table, bookings = self.decided.events.nodes, self.decided.events.bookings
        owner, booking = bookings_of(table.book_start[nodes], table.book_end[nodes])
        node, ticks = nodes[owner], bookings.ticks[booking]
        return Occupied(
            owner, bookings.resource[booking], self.timed.start[node], ticks,
            self._over(node, booking), table.operator[node], table.kind[node],
        )  # fmt: skip

    def _over(self, node: I64, booking: I64) -> I64:
        """Bytes of nodes over resources that they occupy, of those that each core of a cluster has over all of them."""
        nodes, machine = self.decided.events.nodes, self.expanded.draft.machine
        if len(machine.accelerator.drams) > 1:
            return self._booked_bytes[booking]
        if not machine.clusters:
            return nodes.bytes[node]
        resource = self.decided.events.bookings.resource[booking]
        return np.where(machine.spread[resource] > 1, nodes.every[node], nodes.bytes[node])

    @cached_property
    def _booked_bytes(self) -> I64:
        """By booking: the bytes that pass."""
        found = np.zeros(len(self.decided.events.bookings), np.int64)
        booked_bytes(self.decided.events, self.expanded.draft.machine.routes, found)
        return found

    def in_drams(self) -> Iterator[Stays]:
        """Blocks in every DRAM: of several, each has its share of their bytes."""
        stays, places = self.in_dram, self.expanded.draft.machine.accelerator.dram_places
        place, size = self.expanded.tables.blocks.place[stays.block], stays.bytes
        upto = np.array([np.cumsum((0.0, *shares)) for shares in places])[place]
        for number in range(upto.shape[1] - 1):
            mine = np.floor(size * upto[:, number + 1] + 1e-6) - np.floor(size * upto[:, number] + 1e-6)
            yield stays._replace(bytes=mine.astype(np.int64))

    @cached_property
    def events(self) -> I64:
        """Nodes that do something: all but joins."""
        return np.flatnonzero(self.decided.events.nodes.kind != JOIN)

    @cached_property
    def chain(self) -> Chain:
        """The nodes, earliest first, along which the last one waited; joins are left out."""
        links, busiest = waited_along(self.decided.events, self.timed)
        nodes = self.decided.events.nodes
        return Chain(links, nodes.operator[links], nodes.kind[links], self.timed.start[links], busiest)

    @property
    def longest_chain(self) -> int:
        """Ticks of the longest path along data alone: as if no resource were ever shared and no memory full."""
        return self.repeated.longest_chain if self.repeated else longest_chain(self.decided.events)

    def last_end(self, operators: int) -> I64:
        """By operator: the tick at which all of its nodes have ended."""
        found = np.zeros(operators, np.int64)
        np.maximum.at(found, self.decided.events.nodes.operator, self.timed.end)
        return found

    # --- memory -------------------------------------------------------------------------------------------------------

    @cached_property
    def in_dram(self) -> Stays:
        """Blocks in DRAM."""
        block = np.flatnonzero(self.decided.dram.came != NOT_YET)
        came, went = self.decided.dram.came[block], self.decided.dram.went[block]
        start, end = self._times(came, went)
        size = self.expanded.tables.blocks.bytes[block]
        return Stays(block, np.zeros_like(block), size, start, end, self._by(came), self._by(went))

    @cached_property
    def on_chip(self) -> Stays:
        """Copies of blocks, and buffers, in the memories on chip."""
        copies = self.decided.copies
        moments, (came, went) = self._times(copies.came, copies.went), map(self._by, (copies.came, copies.went))
        return Stays(copies.block, copies.memory, copies.bytes, *moments, came, went)

    def _by(self, nodes: I64) -> I64:
        """Operators of nodes; -1 where there is none."""
        found: I64 = np.where(nodes >= 0, self.decided.events.nodes.operator[nodes], -1)
        return found

    def _times(self, came: I64, went: I64) -> tuple[I64, I64]:
        """Ticks at which something comes (from the start, if no node brings it) and goes (at the end, if none does)."""
        return (
            np.where(came >= 0, self.timed.start[came], 0),
            np.where(went >= 0, self.timed.end[went], self.makespan),
        )

    # --- the plan -----------------------------------------------------------------------------------------------------

    @property
    def operator_of_gang(self) -> I64:
        """By gang (a tile of an operator, on all of its cores), in execution order: its operator."""
        tables = self.expanded.tables
        return tables.steps.operator[tables.gangs.first_step]

    @cached_property
    def touched(self) -> Touched:
        """Blocks that steps read and write, step by step."""
        steps, entries, blocks = self.expanded.tables.steps, self.expanded.tables.entries, self.expanded.tables.blocks
        held = (entries.kind == HOLD_READ) | (entries.kind == HOLD_WRITE)
        return Touched(
            np.repeat(steps.operator, steps.entry_end - steps.entry_start),
            self.expanded.block_storage[entries.block],
            np.where(held, blocks.bytes[entries.block], entries.bytes),
            (entries.kind == HOLD_READ) | (entries.kind == STREAM_READ),
            np.isin(entries.kind, WRITES),
            held | (entries.share > 0),
        )
