"""Seconds that default plans take at least because cores and DRAM wait for each other in turn.

A step is bound by cores in one part and by DRAM in another: convolutions, then updates of all weights. A default plan
(``planning.family``) splits every operator over the first so many of like cores, or runs them whole on cores in turn;
every core does its part in the graph's order, but inside of groups. So for each way to staff a step, with pieces that
take no longer than their least occupancy, and operators that wait for what they surely wait for (``barriers``), there
is a moment before which no core can have begun with anything behind a place. From then on DRAM has to move what the
operators behind it need (``tails``), but for what came *ahead*: the next steps of every core may have been fetched,
once what they read was there, as far as their buffers have room. How far that is is known where only vector work is
left: its buffers are two of the tiles in which its operands pass, a part of what a step moves or most of a memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, F64x2, I64x2
from monet.errors import MonetError
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.mapping.cost_store import CostStore, default_store
from monet.mapping.vector import STREAM_TILES
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.lower_bound.barriers import waited_for, waited_for_whole
from monet.schedule.lower_bound.in_order import groups_of
from monet.schedule.lower_bound.occupancy import Classes, classes_of, occupancies
from monet.schedule.lower_bound.tails import Tails, tails_of
from monet.schedule.machine import Machine
from monet.schedule.planning.designs import some_of
from monet.schedule.planning.splits import best_split
from monet.schedule.workload import Operator, Workload

STREAMED = STREAM_TILES / 2  # times its buffer, at most, that vector work passes if it does not fill its memory
PLACES = 4  # behind which only vector work is left that are looked at
FILLED = 0.45  # of a memory that buffers take at least if they would be larger; an operator may have half of it


class Part(NamedTuple):
    """What is certain of who runs an operator. ``kind``: of cores, -1 if it may be several. Cores of that kind from
    ``first`` to ``last`` (exclusive) have pieces, none behind ``most``; each takes ``least_s`` and has ``least_share``
    of the operator, the first of them takes ``longest_s``, and so does the operator."""

    kind: int
    first: int
    last: int
    most: int
    least_s: float
    longest_s: float
    least_share: float = 0.0


Makers = tuple[tuple[tuple[int, int], ...], ...]  # by operator: who made what it reads, and bytes of that


@dataclass(frozen=True)
class _Step:
    """A workload on an accelerator, for all ways to staff it."""

    workload: Workload
    classes: Classes
    number: I64  # of each operator's class
    seconds: F64x2  # of one core: by kind of cores and class; infinite where it cannot
    likes: tuple[tuple[CoreInstance, ...], ...]
    table: CostTable
    makers: Makers

    @property
    def most_cores(self) -> int:
        """Of one kind."""
        return max(len(like) for like in self.likes)


def in_turn_bound_s(workload: Workload, accelerator: Accelerator, store: CostStore | None = None) -> float:
    """Seconds that every default plan takes at least; 0 where plans may be of another kind."""
    memories = accelerator.memories
    if workload.has_transfers or len(accelerator.drams) > 1 or any(memory.resident for memory in memories):
        return 0.0
    if any(len(memory.cores) != 1 or memory.level.memory for memory in memories):
        return 0.0  # what a shared level holds ahead is not known
    likes = tuple(tuple(like) for like in accelerator.like_cores)
    if any(like[0].core.thread_blocks or some_of(like, 1)[0] is not like[0] for like in likes):
        return 0.0
    store = store or default_store()
    classes = classes_of(workload)
    place = {operator.key: number for number, operator in enumerate(classes.operators)}
    step = _Step(
        workload,
        classes,
        np.array([place[operator.key] for operator in workload.operators]),
        np.array([occupancies(classes, like[0].core, store) for like in likes]),
        likes,
        CostTable(Machine(accelerator, store)),
        _makers(workload),
    )
    tails = tails_of(workload)
    moved = tails.over_size(sum(memory.size_bytes for memory in memories))
    rate = accelerator.dram.bandwidth_bytes_per_s
    return min(_Timed(step, parts, waits).seconds(tails, moved, rate) for parts, waits in _staffings(step))


def _makers(workload: Workload) -> Makers:
    """Who made what operators read, found once."""
    found = workload.planned.get("makers")
    if found is None:
        last, every = dict[str, int](), []
        for operator in workload.operators:
            reads = [(operand.bytes, tensor.storage) for operand, tensor in operator.operands if not operand.written]
            every.append(tuple((last[storage], size) for size, storage in reads if storage in last))
            last |= dict.fromkeys(operator.written, operator.number)
        found = workload.planned["makers"] = tuple(every)
    return found


# --- who runs what ----------------------------------------------------------------------------------------------------


def _staffings(step: _Step) -> Iterator[tuple[list[Part], I64x2]]:
    """Every way of the family: over all like cores, half of them, a quarter … one; every operator whole, in turn. With
    what operators wait for all of, one after another: -1 for nothing."""
    waits = waited_for(step.workload)[:, None]
    count = step.most_cores
    while True:
        yield _split(step, count), waits
        if count == 1:
            break
        count = 1 << ((count - 1).bit_length() - 1)
    if step.most_cores > 1:
        yield _whole(step), np.column_stack((waits, waited_for_whole(step.workload)))


def _split(step: _Step, count: int) -> list[Part]:
    """Every operator over so many cores of a kind at most."""
    chosen = [some_of(like, count) for like in step.likes]
    known = [_split_part(step, operator, number, chosen) for number, operator in enumerate(step.classes.operators)]
    return [known[number] for number in step.number.tolist()]


def _split_part(step: _Step, operator: Operator, number: int, chosen: Sequence[tuple[CoreInstance, ...]]) -> Part:
    seconds = step.seconds[:, number]
    able = np.flatnonzero(np.isfinite(seconds)).tolist()
    least = min((float(seconds[kind]) / len(chosen[kind]) for kind in able), default=0.0)
    if len(able) != 1:
        return Part(-1, 0, 0, 0, 0.0, least)
    (kind,) = able
    cores, whole = chosen[kind], float(seconds[kind])
    if operator.is_matrix or operator.is_attention:  # how it is split depends on mappings
        return Part(kind, 0, 1, len(cores), least, least)
    longest = shortest = 1.0
    pieces = 1
    try:
        split = best_split(operator, cores, step.table)
    except MonetError:  # a schedule will say why
        return Part(-1, 0, 0, 0, 0.0, least)
    for dim, parts in split:
        size = operator.nest.sizes[dim]
        piece = -(-operator.nest.granules(dim) // parts) * operator.nest.grain.get(dim, 1)
        pieces *= parts
        longest *= min(1.0, piece / size)
        shortest *= max(0.0, (size - (parts - 1) * piece) / size)
    return Part(kind, 0, pieces, pieces, shortest * whole, longest * whole, shortest)


def _whole(step: _Step) -> list[Part]:
    """Every operator on one core, those of a kind on its cores in turn. What may be in a group may be on the first."""
    turn: dict[tuple[int, bool], int] = {}
    unknown = set[bool]()  # whether products, other work: which kind has one of them is not certain, nor its turn
    moved = {
        number
        for group in groups_of(step.workload)
        for number in group
        if not step.workload.operators[number].is_matrix
    }
    found = []
    for operator, number in zip(step.workload.operators, step.number.tolist(), strict=True):
        seconds = step.seconds[:, number]
        able = np.flatnonzero(np.isfinite(seconds)).tolist()
        least = min((float(seconds[kind]) for kind in able), default=0.0)
        if len(able) != 1:
            unknown.add(operator.is_matrix)
        if operator.is_matrix in unknown:
            found.append(Part(-1, 0, 0, 0, 0.0, least))
            continue
        key = able[0], operator.is_matrix
        at = turn.get(key, 0) % len(step.likes[able[0]])
        turn[key] = turn.get(key, 0) + 1
        if operator.number in moved:
            found.append(Part(able[0], 0, 0, at + 1, 0.0, least))
        else:
            found.append(Part(able[0], at, at + 1, at + 1, least, least, 1.0))
    return found


# --- when -------------------------------------------------------------------------------------------------------------


class _Timed:
    """One way to staff a step, operator by operator: when cores are free, operators end, stretches of them begin."""

    def __init__(self, step: _Step, parts: list[Part], waits: I64x2) -> None:
        self.step, self.parts, self.waits = step, parts, waits
        self.free = [np.zeros(len(like)) for like in step.likes]
        self.ended = np.zeros(len(parts) + 1)  # the last for what is not waited for
        self.began = np.zeros(len(parts))
        self.kind = np.array([part.kind for part in parts])
        self.most = np.array([part.most for part in parts])
        self.blocks = self._blocks(step.workload)

    def _blocks(self, workload: Workload) -> list[tuple[int, int]]:
        """First and last operator of what runs in order; tiles of a group may take turns. Where all that does other
        work than products is split there are none."""
        inside = np.zeros(len(self.parts), bool)
        for group in groups_of(workload):
            others = [self.parts[number] for number in group if not workload.operators[number].is_matrix]
            if not any(part.kind >= 0 and part.last - part.first > 1 for part in others):
                inside[min(group) : max(group)] = True
        lasts = np.flatnonzero(~inside).tolist()
        return list(zip([0, *(last + 1 for last in lasts[:-1])], lasts, strict=True))

    def seconds(self, tails: Tails, moved: F64, rate: float) -> float:
        """Seconds at least. ``moved``: bytes that pass DRAM for the operators behind each place; ``rate``: a second."""
        streaming = self._streaming()
        behind = [(begin, place) for place, begin in enumerate(tails.begins.tolist()) if begin >= streaming]
        after: dict[int, int] = dict(behind[:PLACES])
        least = 0.0
        for first, last in self.blocks:
            if first in after:
                begin = self._begin(first)
                left = moved[after[first]] / rate - self._ahead(first, begin, rate)
                least = max(least, begin + max(0.0, left))
            self._block(first, last)
        return max(float(self.ended.max()), least)

    def _streaming(self) -> int:
        """The first operator from which on all is vector work of one kind of cores each that is never in a group and
        goes over its operands once."""
        grouped = frozenset(number for group in groups_of(self.step.workload) for number in group)
        for operator in reversed(self.step.workload.operators):
            plain = not operator.macs and operator.dimensions.passes == 1 and operator.number not in grouped
            if not plain or self.parts[operator.number].kind < 0:
                return operator.number + 1
        return 0

    def _ahead(self, first: int, begin: float, rate: float) -> float:
        """Seconds of DRAM that operators from this one on may have had before ``begin``, when the first of them begins:
        the next steps of every core whose buffers fit its memory together. What reads more than all memories hold
        of a result is not fetched before that was made."""
        room = [like[0].core.top("I").total_bytes for like in self.step.likes]
        every = sum(most * len(like) for most, like in zip(room, self.step.likes, strict=True))
        makers = self.step.makers
        taken = [np.zeros(len(like)) for like in self.step.likes]
        early = [(begin, 0.0)]  # when operators may have begun to be fetched, and how long that takes at most
        for number in range(first, len(self.parts)):
            part, operator = self.parts[number], self.step.workload.operators[number]
            size = operator.input_bytes + operator.output_bytes
            mine = taken[part.kind][part.first : part.last]
            mine += min(part.least_share * size / STREAMED, FILLED * room[part.kind])
            if (mine > room[part.kind]).all():
                continue
            large = [maker for maker, read in makers[number] if part.least_share * read > every]
            if any(maker >= first for maker in large):
                continue
            ready = max((float(self.began[maker]) for maker in large), default=0.0)
            early.append((min(ready, begin), min(size / rate, max(0.0, begin - ready))))
        early.sort()
        before = np.cumsum([0.0, *(taking for _, taking in early[:-1])])
        return float(min(sum_before + begin - ready for sum_before, (ready, _) in zip(before, early, strict=True)))

    def _begin(self, first: int) -> float:
        """Before that no core begins with this operator or a later one: what begins first waits for none of them."""
        kinds, most, waits = self.kind[first:], self.most[first:], self.waits[first:]
        ready = np.where((waits < first).all(axis=1), self.ended[waits].max(axis=1), np.inf)
        earliest = float(ready[kinds < 0].min(initial=np.inf))
        for kind, free in enumerate(self.free):
            mine = kinds == kind
            if mine.any():
                earliest = min(earliest, max(float(ready[mine].min()), float(free[: most[mine].max()].min())))
        return earliest

    def _block(self, first: int, last: int) -> None:
        """Operators whose tiles may take turns: each after what it waits for, all of them after what was before."""
        before = [free.copy() for free in self.free] if first < last else self.free
        work = [np.zeros(len(free)) for free in before]
        for number in range(first, last + 1):
            part = self.parts[number]
            ready = float(self.ended[self.waits[number]].max())
            began, ended = ready, ready + part.longest_s
            if part.last > part.first:
                mine = slice(part.first, part.last)
                taken = np.full(part.last - part.first, part.least_s)
                taken[0] = part.longest_s
                done = np.maximum(before[part.kind][mine], ready) + taken
                work[part.kind][mine] += taken
                began, ended = float((done - taken).min()), float(done.max())
                self.free[part.kind][mine] = np.maximum(self.free[part.kind][mine], done)
            self.began[number], self.ended[number] = began, ended
        if first < last:
            for free, at_first, added in zip(self.free, before, work, strict=True):
                free[:] = np.maximum(free, at_first + added)
