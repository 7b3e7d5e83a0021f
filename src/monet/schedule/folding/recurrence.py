"""What the schedule of a shortened network says of that of all layers: how long it takes.

Around the cut of every pass, layers have to follow each other as they would for ever:

- each makes the same transfers and tiles, which wait for the same nodes of the same neighbours (or for the same ones
  from before) and book the same resources for the same time;
- before each, the same blocks of the same neighbours lie in every memory, so nothing is filling up or wearing off;
- all of its nodes end as much later than those of the layer before as every other node does, on all resources, and are
  served in the same order.

Then a layer between them does the same, and all that comes after it is as much later. Nothing of this looks at figures
of a layer as a whole: one byte or tick of one node that differs, and the schedule is not extrapolated.
"""

from __future__ import annotations

import numpy as np

from monet.arrays import I64, Bool, I64x2
from monet.schedule.expansion.expand import Expanded
from monet.schedule.folding.repeated import Repeated
from monet.schedule.folding.shortened import NotRepeating, Shortened
from monet.schedule.schedule import Decided, bookings_of
from monet.schedule.simulation.records import NOT_YET, Nodes
from monet.schedule.simulation.replay import Timed, along_data, ends_along_data, waited_along, waits_before

AROUND = range(3)  # segments that are compared, counted from the last one before a cut
OF_ITSELF = ("kind", "bytes", "bursts", "source", "target", "targets", "place", "own", "every", "latency", "duration")


class Recurrence:
    """Layers that follow each other alike in what was decided for a shortened network. Raises ``NotRepeating`` if they
    do not."""

    def __init__(self, short: Shortened, expanded: Expanded, decided: Decided) -> None:
        self.short, self.expanded, self.decided = short, expanded, decided
        nodes, tables = decided.events.nodes, expanded.tables
        self.segment = short.segment[nodes.operator]
        gangs = short.segment[tables.steps.operator[tables.gangs.first_step]]
        if (np.diff(self.segment) < 0).any() or (np.diff(gangs) < 0).any():
            raise NotRepeating("operators of different layers run side by side")
        every = np.arange(len(short.layer) + 1)
        self.first, self.first_gang = np.searchsorted(self.segment, every), np.searchsorted(gangs, every)
        self.rows: list[I64] = []
        for number in range(len(short.passes)):
            self._check_memories(short.cut(number))
            rows = self._rows(number)
            self._check_nodes(rows)
            self._check_waits(rows)
            self._check_bookings(rows)
            self.rows.append(rows)

    def whole_ticks(self, order: I64, end: I64) -> int:
        """The makespan of all layers if nodes are served in some order, and end then."""
        return self._whole(order, end)[0]

    def repeated(self, order: I64, found: Decided, timed: Timed) -> Repeated:
        """What the nodes that are served in some order, and ``timed``, stand for. Raises ``NotRepeating`` where layers
        wait, or leave something in memories, in ways that differ."""
        place, end = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
        place[order], end[order] = np.arange(len(order)), timed.end
        makespan, later = self._whole(order, end)
        self._check_parts()
        self._check_changes()
        on_chain = np.zeros(len(order), np.bool_)
        on_chain[waited_along(found.events, timed)[0]] = True
        waits = timed.waits.copy()
        for rows in self.rows:
            _same(on_chain[place[rows]])
            each = np.stack([self._waits(place[layer], found, timed) for layer in rows])
            _same(each)
            waits += self.short.removed * each[0]
        return Repeated(self.short, np.array(later), makespan, self._longest_chain(), waits)

    def _waits(self, nodes: I64, found: Decided, timed: Timed) -> I64x2:
        """What cores wait before some nodes."""
        chosen = np.zeros(len(timed.start), np.bool_)
        chosen[nodes] = True
        counted = timed._replace(waits=np.zeros_like(timed.waits), free=np.zeros_like(timed.free))
        waits_before(found.events, counted, chosen, len(timed.waits))
        return counted.waits

    def _longest_chain(self) -> int:
        """Ticks of the longest path along data alone. Nothing ends more than ``most`` later in a layer than in the one
        before, so nothing in those that are left out does; and the longest path, if it passes a node that does so in
        every layer, is longer by as much for each."""
        events, end = self.decided.events, np.empty(len(self.decided.events.nodes), np.int64)
        ends_along_data(events, end)
        on_longest, found = np.zeros(len(end), np.bool_), int(end.max(initial=0))
        along_data(events, end, on_longest)
        for rows in self.rows:
            deps = events.deps.some(self._of(rows, "dep_start", "dep_end"))
            waited = np.diff(end[deps.node].reshape(len(rows), -1), axis=0)
            growth = np.diff(end[rows], axis=0)
            most = max(0, int(growth.max()))
            if waited.max(initial=0) > most:
                raise NotRepeating("what nodes wait for grows faster than they do")
            if most and not ((growth == most).all(axis=0) & on_longest[rows].all(axis=0)).any():
                raise NotRepeating("the longest path does not pass what grows most")
            found += self.short.removed * most
        return found

    def _check_parts(self) -> None:
        """Tiles of layers take their time for the same."""
        steps = self.expanded.tables.steps
        segment = self.short.segment[steps.operator]
        for number in range(len(self.rows)):
            mine = [self.expanded.parts.plain[segment == self.short.cut(number) + each] for each in AROUND]
            if any(other.shape != mine[0].shape or (other != mine[0]).any() for other in mine[1:]):
                raise NotRepeating("tiles of layers take different times")

    def _check_changes(self) -> None:
        """The nodes of every layer bring the same to the same memories, and take the same from there."""
        copies, dram, nodes = self.decided.copies, self.decided.dram, len(self.decided.events.nodes)
        blocks, block = self.expanded.tables.blocks.bytes, np.arange(len(dram))
        there = block[dram.came != NOT_YET]
        kind = np.append(self.short.storage_kind[self.expanded.block_storage], -1)  # the last for buffers
        came = np.concatenate([copies.came, dram.came[there]])
        went = np.concatenate([copies.went, dram.went[there]])
        what = np.stack(
            [
                np.concatenate([copies.memory, np.zeros_like(there)]),
                np.concatenate([kind[copies.block], kind[there]]),
                np.concatenate([copies.bytes, blocks[there]]),
            ]
        )
        for rows in self.rows:
            of, column = np.full(nodes + 1, -1), np.zeros(nodes + 1, np.int64)
            of[rows], column[rows] = np.arange(len(rows))[:, None], np.arange(rows.shape[1])
            for moved in (np.maximum(came, -1), np.maximum(went, -1)):
                found = []
                for layer in range(len(rows)):
                    mine = of[moved] == layer
                    table = np.vstack([column[moved[mine]], what[:, mine]])
                    found.append(table[:, np.lexsort(table)])
                if any(other.shape != found[0].shape or (other != found[0]).any() for other in found[1:]):
                    raise NotRepeating("layers bring different blocks to memories")

    def _whole(self, order: I64, end: I64) -> tuple[int, list[int]]:
        """The makespan of all layers, and by pass how much later each is than the one before."""
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        later = []
        for rows in self.rows:
            _constant(place[rows])
            later.append(_constant(end[rows]))
        last = int(np.argmax(end))
        if last < self.first[self.short.cut(len(self.rows) - 1) + 1]:
            raise NotRepeating("the last node does not come last")
        return int(end[last]) + self.short.removed * sum(later), later

    def _rows(self, number: int) -> I64:
        """Nodes around the cut of a pass, a row for each layer."""
        around = self.short.cut(number) + np.array(AROUND)
        many = self.first[around + 1] - self.first[around]
        if (many != many[0]).any() or not many[0]:
            raise NotRepeating("layers have different transfers")
        rows: I64 = self.first[around][:, None] + np.arange(many[0])
        return rows

    def _check_nodes(self, rows: I64) -> None:
        nodes = self.decided.events.nodes
        for column in (getattr(nodes, name) for name in OF_ITSELF):
            _same(column[rows])
        operator, step = nodes.operator[rows], nodes.step[rows]
        _same(operator - operator.min(axis=1, keepdims=True))
        first = np.where(step >= 0, step, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        _same(np.where(step >= 0, step - first, -1))
        _same(nodes.dep_end[rows] - nodes.dep_start[rows])
        _same(nodes.book_end[rows] - nodes.book_start[rows])

    def _check_waits(self, rows: I64) -> None:
        """The same nodes of the same neighbours are waited for, or the same nodes."""
        deps = self.decided.events.deps.some(self._of(rows, "dep_start", "dep_end"))
        shape = len(rows), -1
        _same(deps.lag.reshape(shape))
        _same(deps.reason.reshape(shape))
        node, layer = deps.node.reshape(shape), self.short.layer
        segment = self.segment[node]
        own = layer[self.segment[rows[:, :1]]]
        along = np.searchsorted(self.short.passes, segment, side="right")
        like = along, layer[segment] - own, node - self.first[segment]
        alike = np.all([column[1:] == column[:-1] for column in like], axis=0) & (layer[segment] >= 0)[1:]
        if not (alike | (node[1:] == node[:-1])).all():
            raise NotRepeating("layers wait for different nodes")

    def _check_bookings(self, rows: I64) -> None:
        bookings = self.decided.events.bookings.some(self._of(rows, "book_start", "book_end"))
        _same(bookings.resource.reshape(len(rows), -1))
        _same(bookings.ticks.reshape(len(rows), -1))

    def _of(self, rows: I64, start: str, end: str) -> I64:
        """Numbers of what nodes wait for, or of what they book."""
        nodes: Nodes = self.decided.events.nodes
        return bookings_of(getattr(nodes, start)[rows.reshape(-1)], getattr(nodes, end)[rows.reshape(-1)])[1]

    def _check_memories(self, cut: int) -> None:
        """Before the layers from the cut on, memories hold the same blocks of the same neighbours."""
        copies, short = self.decided.copies, self.short
        storage = self.expanded.block_storage[copies.block]
        home, kind = short.storage_layer[storage], short.storage_kind[storage]
        held = []
        for segment in (cut, cut + 1, cut + 2):
            gang = self.first_gang[segment]
            here = (copies.since < gang) & (copies.upto >= gang) & (copies.block >= 0)
            near = np.where(home >= 0, home - short.layer[segment], 0)
            found = np.stack([copies.memory[here], kind[here], near[here], copies.bytes[here]])
            held.append(found[:, np.lexsort(found)])
        if any(other.shape != held[0].shape or (other != held[0]).any() for other in held[1:]):
            raise NotRepeating("memories hold something else layer by layer")


def _same(table: I64 | Bool) -> None:
    """Raise unless all rows are equal."""
    if (table[1:] != table[:-1]).any():
        raise NotRepeating("layers differ")


def _constant(table: I64) -> int:
    """By how much every row is more than the one before. Raises unless it is one number."""
    apart = np.diff(table, axis=0)
    if (apart != apart[0, 0]).any():
        raise NotRepeating("layers take different times")
    return int(apart[0, 0])
