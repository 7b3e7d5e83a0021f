"""Seconds that default plans take at least because cores and DRAM wait for each other in turn.

A step is bound by cores in one part and by DRAM in another: convolutions, then updates of all weights. A default plan
(``planning.family``) splits every operator over the first so many of like cores, or runs them whole on cores in turn;
every core does its part in the graph's order, but inside of groups. So for each way to staff a step, with pieces that
take no longer than their least occupancy, and operators that wait for what they surely wait for (``barriers``), there
is a moment before which no core can have begun with anything behind a place. From then on DRAM has to move what the
windows that begin there (``windows``) say. Where every core has a part in an operator, whatever waits for all of it
waits for all that came before on any core, and for what DRAM had to move for that.
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
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.lower_bound.barriers import waited_for, waited_for_whole
from monet.schedule.lower_bound.in_order import groups_of
from monet.schedule.lower_bound.occupancy import Classes, classes_of, occupancies
from monet.schedule.lower_bound.windows import Windows, windows_of
from monet.schedule.machine import Machine
from monet.schedule.planning.designs import some_of
from monet.schedule.planning.splits import best_split
from monet.schedule.workload import Operator, Workload


class Part(NamedTuple):
    """What is certain of who runs an operator. ``kind``: of cores, -1 if it may be several. Cores of that kind from
    ``first`` to ``last`` (exclusive) have pieces, none behind ``most``; each takes ``least_s``, the first of them
    ``longest_s``, and so does the operator."""

    kind: int
    first: int
    last: int
    most: int
    least_s: float
    longest_s: float


@dataclass(frozen=True)
class _Step:
    """A workload on an accelerator, for all ways to staff it."""

    workload: Workload
    classes: Classes
    number: I64  # of each operator's class
    seconds: F64x2  # of one core: by kind of cores and class; infinite where it cannot
    likes: tuple[tuple[CoreInstance, ...], ...]
    table: CostTable

    @property
    def most_cores(self) -> int:
        """Of one kind."""
        return max(len(like) for like in self.likes)


def in_turn_bound_s(workload: Workload, accelerator: Accelerator, store: CostStore | None = None) -> float:
    """Seconds that every default plan takes at least; 0 where plans may be of another kind."""
    if workload.has_transfers or len(accelerator.drams) > 1 or any(memory.resident for memory in accelerator.memories):
        return 0.0
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
    )
    kept = sum(memory.size_bytes for memory in accelerator.memories)
    windows = windows_of(workload)
    moving = windows.over_size(kept) / accelerator.dram.bandwidth_bytes_per_s
    return min(_Race(step, parts, waits, windows, moving).run() for parts, waits in _staffings(step))


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
    return Part(kind, 0, pieces, pieces, shortest * whole, longest * whole)


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
            found.append(Part(able[0], at, at + 1, at + 1, least, least))
    return found


# --- when ---------------------------------------------------------------------------------------------------------------


class _Race:
    """One way to staff a step, operator by operator: when cores are free, operators end, stretches of them begin."""

    def __init__(self, step: _Step, parts: list[Part], waits: I64x2, windows: Windows, moving: F64x2) -> None:
        self.parts, self.waits, self.windows, self.moving = parts, waits, windows, moving
        self.free = [np.zeros(len(like)) for like in step.likes]
        self.ended = np.zeros(len(parts) + 1)  # the last for what is not waited for
        self.kind = np.array([part.kind for part in parts])
        self.most = np.array([part.most for part in parts])
        self.blocks = self._blocks(step.workload)
        every = {part.kind for part in parts}
        self.alone = len(every) == 1 and -1 not in every  # one kind of cores has all the work
        self.everybody = max(part.most for part in parts)

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

    def run(self) -> float:
        """Seconds at least."""
        begins = self.windows.begins.tolist()
        began = np.zeros(len(begins))
        stretch, moved = 0, 0.0  # until when DRAM moves what operators before the stretch need
        for first, last in self.blocks:
            if stretch < len(begins) and begins[stretch] == first:
                if stretch:
                    moved = max(moved, self._moved(began, stretch))
                began[stretch] = self._begin(first)
                stretch += 1
            self._block(first, last, moved)
        return max(float(self.ended.max()), self._moved(began, stretch))

    def _moved(self, began: F64, stretch: int) -> float:
        """When DRAM has moved at least what all operators before a stretch need."""
        return float((began[:stretch] + self.moving[:stretch, stretch - 1]).max())

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

    def _block(self, first: int, last: int, moved: float) -> None:
        """Operators whose tiles may take turns: each after what it waits for, all of them after what was before."""
        before = self.free if first == last else [free.copy() for free in self.free]
        work = [0.0] if first == last else [np.zeros(len(free)) for free in before]
        for number in range(first, last + 1):
            part = self.parts[number]
            ready = float(self.ended[self.waits[number]].max())
            ended = ready + part.longest_s
            if part.kind >= 0 and part.last > part.first:
                mine = slice(part.first, part.last)
                start = np.maximum(before[part.kind][mine], ready)
                ended = max(ended, float(start[0]) + part.longest_s)
                start += part.least_s
                start[0] = ended
                if first == last:
                    self.free[part.kind][mine] = start
                else:
                    self.free[part.kind][mine] = np.maximum(self.free[part.kind][mine], start)
                    work[part.kind][mine] += part.least_s
                    work[part.kind][part.first] += part.longest_s - part.least_s
                ended = max(ended, float(start.max()))
                if self.alone and part.last - part.first >= self.everybody:  # all that was before has ended by then
                    ended = max(ended, moved)
            self.ended[number] = ended
        if first < last:
            for kind, free in enumerate(self.free):
                free[:] = np.maximum(free, before[kind] + work[kind])
