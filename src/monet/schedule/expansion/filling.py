"""Fill: put what steps cost into the arrays of an operator that streams its operands. A compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from monet.arrays import F64, I64, I64x2, I64x3, Table
from monet.compiled import kernel
from monet.schedule.expansion.geometry import Touch
from monet.schedule.simulation.records import Buffers, Entries, Steps, TickParts

if TYPE_CHECKING:
    from monet.schedule.costs.step_cost import StepCost

BYTES, FIRST, SPILLED, BUFFER = range(4)  # of an operand's cost


class Flows(Table):
    """What entries stream: of each its row among them, the class of its step's shape, which operand it is of, whether
    it is what that spills, and whether all of it is in this block."""

    entry: I64
    steps: I64
    operand: I64
    spilled: I64
    whole: I64


class Filling(NamedTuple):
    """What is known of an operator's arrays before its costs. A flow has the part of its operand between two shares."""

    flows: Flows
    starts: F64
    ends: F64
    per_step: I64  # entries of every step
    cores: I64  # by piece
    memories: I64x2  # [slot, piece]
    slots: I64  # by operand, its slot


class Streamed(NamedTuple):
    """A streamed operand: of every entry the class of its step's shape; whether each spills, right behind it."""

    position: int
    classes: I64
    touch: Touch
    spills: bool

    def shares(self) -> tuple[F64, F64, bool]:
        """Where the part of every entry begins and ends in what its step streams; whether each has all of it."""
        many = np.diff(self.touch.pointer)
        if many.max(initial=0) <= 1:
            return np.zeros(len(self.classes)), np.ones(len(self.classes)), True
        ends = upto(self.touch)
        starts = np.roll(ends, 1)
        starts[self.touch.pointer[:-1][many > 0]] = 0
        return starts, ends, False


def upto(touch: Touch) -> F64:
    """Of every block that a step touches, the share of the step up to its end."""
    many, sums = np.diff(touch.pointer), np.cumsum(touch.share)
    begin = touch.pointer[:-1][many > 0]
    found: F64 = sums - np.repeat(sums[begin] - touch.share[begin], many[many > 0])
    return found


def flows_of(streamed: Sequence[Streamed], rows: I64, source: I64) -> tuple[Flows, F64, F64]:
    """What entries in some rows stream. ``source``: of each, its place among all that operands stream, with what they
    spill behind the rest of each."""
    found: list[I64x2] = [np.zeros((0, 4), np.int64)]
    starts: list[F64] = [np.zeros(0)]
    ends: list[F64] = [np.zeros(0)]
    for operand in streamed:
        start, end, whole = operand.shares()
        for spilled in range(1 + operand.spills):
            same = np.full((len(start), 4), (0, operand.position, spilled, whole))
            same[:, 0] = operand.classes
            found.append(same)
            starts.append(start)
            ends.append(end)
    flows = np.column_stack([rows, np.concatenate(found)[source]])
    return Flows.of(flows), np.concatenate(starts)[source], np.concatenate(ends)[source]


class Filled(NamedTuple):
    """Tables of an operator; entries have their blocks already."""

    entries: Entries
    steps: Steps
    parts: TickParts
    buffers: Buffers  # more than enough rows
    many: I64  # buffers of every step


def fill_tables(
    filling: Filling, entries: I64x2, classes: I64, costs: Sequence[StepCost], ticks: I64x2, ports: I64x3
) -> Filled:
    """All tables of an operator. ``ticks``, ``ports``: of every class of steps; of a port, by piece."""
    streams = np.array([[(p.bytes, p.first, p.spilled, p.buffer) for p in cost.operands] for cost in costs], np.int64)
    count = len(classes)
    tables = Filled(
        Entries.of(entries.copy()),
        Steps.zeros(count),
        TickParts.empty(count),
        Buffers.empty(count * len(filling.memories)),
        np.empty(count, np.int64),
    )
    used = fill(filling, classes, streams.reshape(len(costs), -1, 4), ticks, ports, tables)
    return tables._replace(buffers=tables.buffers.some(slice(used)))


@kernel
def fill(filling: Filling, classes: I64, costs: I64x3, ticks: I64x2, ports: I64x3, tables: Filled) -> int:
    """Fill in entries, steps and buffers; returns how many buffers there are."""
    entries, flows = tables.entries, filling.flows
    for f in range(len(flows)):
        flow, entry = flows[f], entries[flows[f].entry]
        cost = costs[flow.steps, flow.operand]
        size, first = (cost[SPILLED], 0) if flow.spilled else (cost[BYTES], cost[FIRST])
        if not flow.whole:
            start, end = filling.starts[f], filling.ends[f]
            size = max(0, int(np.rint(end * size)) - int(np.rint(start * size)))
            first = max(0, int(np.rint(end * first)) - int(np.rint(start * first)))
        entry.bytes, entry.first = size, min(first, size)
    for e in range(len(entries)):
        entries[e].own = entries[e].every = entries[e].bytes
    slots, pieces = filling.memories.shape
    needed = np.zeros(slots, np.int64)
    last_entry, last_buffer = 0, 0
    for s in range(classes.size):
        step, shape, piece = tables.steps[s], classes[s], s % pieces
        step.core, step.port_memory, step.port_ticks = (
            filling.cores[piece],
            ports[shape, piece, 0],
            ports[shape, piece, 1],
        )
        step.entry_start, step.buffer_start = last_entry, last_buffer
        part = tables.parts[s]
        part.useful, part.under_used, part.stalled, part.switching = (
            ticks[shape, 0], ticks[shape, 1], ticks[shape, 2], ticks[shape, 3],
        )  # fmt: skip
        needed[:] = 0
        for o in range(costs.shape[1]):
            if filling.slots[o] >= 0:
                needed[filling.slots[o]] += costs[shape, o, BUFFER]
        for slot in range(slots):
            memory = filling.memories[slot, piece]
            for first_slot in range(slot):  # slots in one memory have one buffer
                if filling.memories[first_slot, piece] == memory and needed[first_slot] > 0:
                    needed[first_slot] += needed[slot]
                    needed[slot] = 0
        for slot in range(slots):
            if needed[slot] > 0:
                buffer = tables.buffers[last_buffer]
                buffer.memory, buffer.bytes = filling.memories[slot, piece], needed[slot]
                last_buffer += 1
        last_entry += filling.per_step[s]
        step.entry_end, step.buffer_end = last_entry, last_buffer
        tables.many[s] = last_buffer - step.buffer_start
    return last_buffer
