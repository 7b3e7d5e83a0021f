"""Splits along a reduction: of the cores that sum up the same results, each adds up a part of them in the end (a
reduce-scatter): it sums into the result's own blocks there, all others into blocks of theirs.

With p such cores there are p accumulators of the size of the results; p - 1 of them move over links, a part of each to
every core, whose lanes add them (or its array, if it has no lanes for the type: each output of the array adds one
element in a cycle).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, I64x2
from monet.formats import format_named
from monet.graph.loop_nest import Operand
from monet.hardware.core import Core, Flow, MemoryLevel
from monet.hardware.lane_array import arrays_for
from monet.schedule.costs.step_cost import STREAM_SHARE, StepCost
from monet.schedule.plan import Split
from monet.schedule.simulation.records import KEEP_WRITE, STREAM_READ
from monet.schedule.workload import Operator

MOST_ADDING = (
    16  # cores that add up the same results: each reads the sums of all, so that transfers grow with their square
)


class Sharing(NamedTuple):
    """Which pieces of a split sum up the same part of a result: ``sums`` of them each, the piece's ``rank`` among them,
    and by part (rows) the pieces in order of their rank."""

    sums: int
    rank: I64
    members: I64x2

    @classmethod
    def of(cls, split: Split, operand: Operand) -> Sharing:
        """The sharing of a result: along dimensions that do not index it."""
        parts = [many for _, many in split]
        pieces = math.prod(parts)
        rank, group, sums = np.zeros(pieces, np.int64), np.zeros(pieces, np.int64), 1
        for (dim, many), place in zip(split, np.unravel_index(np.arange(pieces), parts), strict=True):
            if dim in operand.dims:
                group = group * many + place
            else:
                rank, sums = rank * many + place, sums * many
        return cls(sums, rank, np.lexsort((rank, group)).reshape(-1, sums))


class BlockSums(NamedTuple):
    """Blocks of a result and of the sums that cores keep for themselves: the first of each, bytes of both, bits of an
    element of the result; by piece, the memory that its sums are in."""

    result: int
    own: int
    sizes: I64
    own_sizes: I64
    bits: float
    memory: I64


@dataclass(frozen=True)
class Addition:
    """A step that adds up sums of several cores, after a tile, on the core of a piece."""

    tile: int
    piece: int
    cost: StepCost
    entries: I64x2  # plain rows of ``Entries``
    memory: int
    buffer: int  # bytes through which sums of other cores pass


def adding_cores(elements: F64, sums: F64, core: Core) -> F64:
    """How many of the cores that have sums of so many elements add them up: those that have work for all lanes."""
    return np.maximum(1, np.minimum(np.minimum(sums, MOST_ADDING), elements // max(1, core.lanes)))


def cut_for_additions(operand: Operand, edges: Mapping[int, I64], sums: int, core: Core) -> dict[int, I64]:
    """A cut of a result along its longest axis that is whole so far, so that several of the cores that sum it up add up
    a part each."""
    whole = [(length, -axis) for axis, length in enumerate(operand.shape) if axis not in edges]
    length, axis = max(whole, default=(0, 0))
    elements = math.prod(operand.shape) // math.prod(len(edge) - 1 for edge in edges.values())
    parts = min(length, int(adding_cores(np.array(elements, float), np.array(sums, float), core)))
    return {-axis: np.arange(parts + 1) * length // parts} if parts > 1 else {}


def adders_of(sharing: Sharing, piece: I64, place: I64, count: int) -> tuple[I64, I64]:
    """By block of a result: the piece whose core adds it up, and its rank. Blocks of a part go to its cores in turn."""
    part = np.empty(sharing.members.size, np.int64)
    part[sharing.members] = np.arange(len(sharing.members))[:, None]
    owner = np.full(count, -1)
    owner[place] = part[piece]
    rank = np.zeros(count, np.int64)
    for number in range(len(sharing.members)):
        mine = np.flatnonzero(owner == number)
        rank[mine] = np.arange(len(mine)) * sharing.sums // max(1, len(mine))
    return sharing.members[np.maximum(owner, 0), rank], rank


def additions_of(
    adding: Adding, sums: int, blocks: BlockSums, last: I64, adder: I64, capacity: I64
) -> Iterator[Addition]:
    """Additions of a result: blocks that are complete after the same tile (``last``, of every block), on the core that
    adds them up (``adder``: its piece)."""
    some = last >= 0
    for tile, piece in sorted(set(zip(last[some].tolist(), adder[some].tolist(), strict=True))):
        these = np.flatnonzero((last == tile) & (adder == piece))
        memory, own = int(blocks.memory[piece]), int(blocks.own_sizes[these].max())
        rows = [row for block in these.tolist() for row in _rows(block, blocks, sums, memory)]
        elements = int(int(blocks.sizes[these].sum()) * 8 // blocks.bits)
        cost = sum_cost(adding, elements, sums)
        room = 2 * min(-(-own // STREAM_SHARE), int(capacity[memory]) // STREAM_SHARE)
        yield Addition(tile, piece, cost, np.array(rows, np.int64), memory, room)


def _rows(block: int, blocks: BlockSums, sums: int, memory: int) -> Iterator[tuple[int, ...]]:
    """Entries that add the sums of all cores in one block of the result: read all, write it."""
    count, size, own = len(blocks.sizes), int(blocks.sizes[block]), int(blocks.own_sizes[block])
    others = [(blocks.own + rank * count + block, STREAM_READ, own) for rank in range(sums - 1)]
    here = blocks.result + block
    for number, kind, many in ((here, STREAM_READ, size), *others, (here, KEEP_WRITE, size)):
        yield number, memory, kind, many, many // STREAM_SHARE, 0, 0, many, many, 0, 0  # the fields of ``Entries``


def accumulator_of(operator: Operator, core: Core, result: Operand) -> str:
    """Element type in which a core sums up a result of an operator."""
    if not operator.macs:
        return result.dtype
    array = core if operator.is_attention else arrays_for(core, *operator.multiplied)[0]
    return array.rate(*operator.multiplied, either_way=True).accumulator


@dataclass(frozen=True)
class Adding:
    """What adding up partial sums of a result takes on a core: cycles and joules of one addition, cycles of one element
    at every port of its memory, read and written."""

    add_cycles: float
    add_joules: float
    ports: tuple[tuple[float, float], ...]
    bits: int
    top: MemoryLevel

    @classmethod
    def of(cls, operator: Operator, result: Operand, core: Core) -> Adding:
        """Lanes add, or the array, if there are no lanes for the type: each of its outputs an element in a cycle."""
        dtype, function = accumulator_of(operator, core, result), operator.dimensions.combine
        lanes = core.lanes > 0 and any(rate.dtype == dtype for rate in core.vector_rates)
        if not core.modes or (lanes and function in dict(core.functions)):
            rate, cycles = core.lane_rate(dtype), core.function_cycles(function)
            add, joules = cycles / (core.lanes * rate.elements_per_cycle), cycles * rate.energy_j
        else:
            add = 1 / max(1, math.prod(axis.size for axis in core.axes if not axis.reduce))
            joules = core.rates[0].energy_j
        top, bits = core.top("O"), format_named(dtype).bits
        each = [
            tuple(
                bits / port.bandwidth_bits_per_cycle / top.instances if ("O", flow) in port.carries else 0.0
                for flow in (Flow.FEED, Flow.COLLECT)
            )
            for port in top.ports
        ]
        return cls(add, joules, tuple((read, written) for read, written in each), bits, top)

    def cycles(self, elements: F64, parts: F64) -> F64:
        """Cycles of adding up so many accumulators of so many elements."""
        found: F64 = self.add_cycles * (parts - 1) * elements
        for read, written in self.ports:
            found = np.maximum(found, (read * parts + written) * elements)
        return found


def sum_cost(adding: Adding, elements: int, parts: int) -> StepCost:
    """Adding up ``parts`` accumulators of so many elements. Work that one core alone would not have: it is counted as
    under-use. Operands are the scheduler's, not given here."""
    adds, top = (parts - 1) * elements, adding.top
    compute, joules = adds * adding.add_cycles, adds * adding.add_joules
    stall = max(0.0, float(adding.cycles(np.array(elements, float), np.array(parts, float))) - compute)
    energy = elements * adding.bits * (parts * top.read_energy_j_per_bit + top.write_energy_j_per_bit)
    return StepCost(0.0, compute, stall, 0.0, (), (("compute", joules), (top.name, energy)), "compute")
