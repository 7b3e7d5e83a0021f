"""Arrays of one operator: its steps, buffers and operand blocks, counted from its own first ones.

They name neither operator nor storages, so that operators alike share them, under other plans and on other machines.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from monet.arrays import I64, I64x2, Table
from monet.formats import format_named
from monet.graph.loop_nest import Operand
from monet.graph.tensor import Tensor
from monet.hardware.accelerator import CoreInstance
from monet.mapping.cost_store import CostStore, Section
from monet.schedule.costs.step_cost import STREAM_SHARE, StepCost
from monet.schedule.expansion.cuts import Cuts
from monet.schedule.expansion.filling import Filling, Streamed, fill_tables, flows_of, upto
from monet.schedule.expansion.geometry import (
    Grid,
    StepRanges,
    Touch,
    box_elements,
    box_rows,
    cut_axes,
    touched_blocks,
)
from monet.schedule.expansion.split_reductions import (
    Adding,
    Addition,
    BlockSums,
    Sharing,
    accumulator_of,
    adders_of,
    additions_of,
    cut_for_additions,
)
from monet.schedule.machine import Machine
from monet.schedule.simulation.records import (
    HOLD_READ,
    HOLD_WRITE,
    KEEP_WRITE,
    SPILL,
    STREAM_READ,
    STREAM_WRITE,
    WAIT,
    WRITES,
    Buffers,
    Entries,
    Steps,
    TickParts,
)

if TYPE_CHECKING:
    from monet.schedule.costs.cost_table import OperatorSteps


class GangEntries(Table):
    """Entries of a gang: the first, the one after the last; whether it adds sums up; its own number among tiles, of
    additions that of the tile before."""

    first: I64
    last: I64
    adds: I64
    own: I64


@dataclass(frozen=True)
class OperatorArrays:
    """Arrays of one operator, and the storages that it is the first to touch. Operator and storages are not named, so
    that operators alike share them."""

    steps: I64x2  # plain rows of ``Steps``; entries and buffers are counted from the operator's own first
    parts: I64x2  # of ``TickParts``
    entries: I64x2  # of ``Entries``
    buffers: I64x2  # of ``Buffers``
    grids: tuple[tuple[int, Grid, I64], ...]  # (position in the operator's storages, blocks, their bytes)
    storage: I64  # of every entry, as a position in the operator's storages
    bases: I64  # first block of each of these storages
    counts: tuple[int, int, int, int]  # of steps, entries, buffers, storages
    spans: I64x2  # first and last step of its gangs in order: tiles, and additions right after the last tile of each
    addition_costs: tuple[tuple[int, StepCost], ...]  # of a split along a sum: (piece whose core adds, cost)
    fits: bool  # whether every memory has room for all that a tile holds in it
    main: int  # steps that are no additions
    work: I64  # by step, ticks of all cores in which their units are taken

    @cached_property
    def cut(self) -> I64:
        """Positions of the storages that it is the first to touch."""
        return np.array([position for position, *_ in self.grids], np.int64)

    @cached_property
    def blocks(self) -> tuple[I64, I64, I64]:
        """Of these storages: how many blocks each is cut into; of every block its bytes, and those in the memory of
        each of the cores that work together."""
        sizes = [size for *_, size in self.grids]
        own = [size if grid.layout is None else grid.layout.own for _, grid, size in self.grids]
        many = np.array(list(map(len, sizes)), np.int64)
        return many, np.concatenate(sizes), np.concatenate(own)

    @property
    def gangs(self) -> GangEntries:
        """Its gangs by their entries, counted from its own first."""
        first, last = self.spans.T
        steps, found = Steps.of(self.steps), GangEntries.empty(len(first))
        found.first[:], found.last[:] = steps.entry_start[first], steps.entry_end[last - 1]
        found.adds[:] = first >= self.main
        found.own[:] = np.cumsum(found.adds == 0) - 1
        return found

    @cached_property
    def bytes(self) -> int:
        """What keeping them takes."""
        return 1000 + sum(array.nbytes for array in (self.steps, self.parts, self.entries, self.buffers, self.storage))


# arrays of operators that are alike in one graph, on other machines or under other plans
ALIKE = Section[OperatorArrays]("rows of operators", 64 * 2**20, lambda arrays: arrays.bytes)


class KnownArrays(NamedTuple):
    """Arrays of an operator under one scheduler, and its cuts: (position of a storage, number of how it is cut)."""

    arrays: OperatorArrays
    cuts: tuple[tuple[int, int], ...]


OPERATOR_ARRAYS = Section[KnownArrays]("rows under one scheduler", 128 * 2**20, lambda known: known.arrays.bytes)


@dataclass(frozen=True)
class Pattern:
    """Arrays of an operator but for what its steps cost: operators alike share it, whatever a core's memories hold."""

    entries: I64x2  # plain rows of ``Entries``; those that stream have no bytes yet
    filling: Filling  # how costs come in
    regions: Mapping[str, I64]  # by slot: bytes that every step reads into buffers
    additions: tuple[Addition, ...]
    grids: tuple[tuple[int, Grid, I64], ...]  # as in ``OperatorArrays``, like the rest
    storage: I64
    bases: I64

    @property
    def weight(self) -> int:
        """Bytes that keeping it takes."""
        return 1000 + 2 * self.entries.nbytes


PATTERNS = Section[Pattern]("patterns of operators", 64 * 2**20, lambda pattern: pattern.weight)


def arrays_of(cuts: Cuts, stepped: OperatorSteps, key: Hashable, store: CostStore) -> OperatorArrays:
    """Arrays of one operator, given how the storages it touches are cut; those that nobody has cut it cuts itself.
    ``key``: all that an operator alone depends on besides its costs; such patterns are looked up in ``store``."""
    building = _Building(cuts, stepped)
    if stepped.held or stepped.tiled or stepped.is_summed:
        return building.arrays(building.pattern())
    costs = tuple(tuple((part.slot, part.streams) for part in cost.operands) for cost in stepped.costs)
    spills = tuple(
        any(part.spilled for part in parts) for parts in zip(*(c.operands for c in stepped.costs), strict=True)
    )
    return building.arrays(store[PATTERNS].get_or((key, costs, spills), building.pattern))


class _Building:
    def __init__(self, cuts: Cuts, stepped: OperatorSteps) -> None:
        self.cuts, self.stepped, self.machine = cuts, stepped, cuts.machine
        self.regions: dict[str, I64] = {}
        self.additions: list[Addition] = []
        self.streamed: list[Streamed] = []
        self.n_bytes = 0  # of streamed operands so far, one for each entry
        self.core = stepped.instances[0].core

    def pattern(self) -> Pattern:
        stepped = self.stepped
        entries, per_step, source = self._entries()
        added = self.additions
        fits_in = [addition.entries for addition in added]
        bases = np.array([self.cuts.base[storage] for storage in stepped.storages], np.int64)
        order = np.argsort(bases)
        every = np.concatenate([entries, *fits_in])
        storage = order[np.searchsorted(bases[order], Entries.of(every).block, side="right") - 1]
        position = {name: place for place, name in enumerate(stepped.storages)}
        new = tuple((position[name], grid, sizes) for name, grid, sizes in self.cuts.new)
        rows = np.flatnonzero(source >= 0)
        flows = flows_of(self.streamed, rows, source[rows])
        filling = Filling(*flows, per_step, *self._places())
        return Pattern(entries, filling, self.regions, tuple(added), new, storage, bases)

    def _places(self) -> tuple[I64, I64x2, I64]:
        """Cores of pieces, memories of their slots, and the slot of every operand."""
        instances, index = self.stepped.instances, self.machine.memory_index
        slots = [slot for slot, _ in instances[0].memories]
        cores = np.array([self.machine.core_index[instance.name] for instance in instances])
        where = np.array([[index[instance.memory_of(slot)] for instance in instances] for slot in slots], np.int64)
        operands = self.stepped.costs[0].operands
        slot_of = [slots.index(operand.slot) if operand.slot in slots else -1 for operand in operands]
        return cores, where.reshape(len(slots), len(instances)), np.array(slot_of, np.int64)

    def arrays(self, pattern: Pattern) -> OperatorArrays:
        """The pattern with what steps cost."""
        stepped, added = self.stepped, pattern.additions
        ticks = tick_parts(stepped.costs, stepped.instances[0], self.machine)
        filled = fill_tables(
            pattern.filling, pattern.entries, stepped.classes, stepped.costs, ticks, self._ports(stepped.costs)
        )
        entries, steps, parts, buffers = filled.entries.plain, filled.steps, filled.parts.plain, filled.buffers.plain
        per_step, fits = pattern.filling.per_step, True
        if stepped.held or added:
            many = filled.many
            if pattern.regions:
                buffers, many = self._buffers(pattern.regions)
            fits = not stepped.held or self._fits(per_step, many, filled.entries, Buffers.of(buffers))
            entries = np.concatenate([entries, *(addition.entries for addition in added)])
            per_step = np.concatenate([per_step, [len(addition.entries) for addition in added]]).astype(np.int64)
            buffers = np.concatenate([buffers, *([(addition.memory, addition.buffer)] for addition in added)])
            many = np.concatenate([many, np.ones(len(added), np.int64)])
            sums = tick_parts([addition.cost for addition in added], stepped.instances[0], self.machine)
            parts = np.concatenate([parts, sums])
            alone = Entries.of(entries)
            alone.own[:] = alone.every[:] = alone.bytes
            steps = self._with_additions(steps, per_step, many, pattern)
        return OperatorArrays(
            steps.plain,
            parts,
            entries,
            buffers,
            pattern.grids,
            pattern.storage,
            pattern.bases,
            (len(per_step), len(entries), len(buffers), len(pattern.bases)),
            self._spans(added),
            tuple((addition.piece, addition.cost) for addition in added),
            fits,
            stepped.steps.count,
            parts[:, 0] + parts[:, 1],
        )

    def _with_additions(self, some: Steps, entries: I64, buffers: I64, pattern: Pattern) -> Steps:
        """Rows of all steps, given how many entries and buffers each has; ticks and operator come later."""
        steps, cores = Steps.zeros(len(entries)), pattern.filling.cores
        steps.plain[: len(some)] = some.plain
        steps.core[len(some) :] = [cores[addition.piece] for addition in pattern.additions]
        np.cumsum(entries, out=steps.entry_end)
        np.cumsum(buffers, out=steps.buffer_end)
        steps.entry_start[:], steps.buffer_start[:] = steps.entry_end - entries, steps.buffer_end - buffers
        return steps

    def _spans(self, additions: Sequence[Addition]) -> I64x2:
        """(first step, last step) of the gangs in order."""
        pieces, count = self.stepped.steps.pieces, self.stepped.steps.count
        first = np.arange(self.stepped.steps.tiles) * pieces
        spans = np.stack([first, first + pieces], axis=1)
        if not additions:
            return spans
        after = np.array([addition.tile for addition in additions]) + 1
        where = count + np.arange(len(after))
        return np.insert(spans, after, np.stack([where, where + 1], axis=1), axis=0)

    def _fits(self, per_step: I64, many: I64, entries: Entries, buffers: Buffers) -> bool:
        """Whether buffers and held blocks of every tile fit; with everything else evicted, that is enough."""
        memories, tile = len(self.machine.capacity), np.arange(len(per_step)) // self.stepped.steps.pieces
        needed = np.zeros((self.stepped.steps.tiles, memories), np.int64)
        np.add.at(needed, (np.repeat(tile, many), buffers.memory), buffers.bytes)
        held = (entries.kind == HOLD_READ) | (entries.kind == HOLD_WRITE)
        place = np.repeat(tile, per_step)[held] * memories + entries.memory[held]
        pairs = np.unique(place * self.cuts.n_blocks + entries.block[held])
        place, block = np.divmod(pairs, self.cuts.n_blocks)
        np.add.at(needed.reshape(-1), place, np.concatenate([note[1] for note in self.cuts.noted])[block])
        return bool((needed <= self.machine.capacity).all())

    def _ports(self, costs: Sequence[StepCost]) -> I64:
        """(memory, ticks) of the busiest port that a step shares with other cores, by class of shape and core; nothing
        where it queues for none: a memory may be described as shared, but have one core only."""
        index, instances = self.machine.memory_index, self.stepped.instances
        table = np.zeros((len(costs), len(instances), 2), np.int64)
        if not any(cost.ports for cost in costs):
            return table
        for place, instance in enumerate(instances):
            memory_of = {level.name: level.memory for level in instance.core.levels}
            for row, cost in zip(table[:, place], costs, strict=True):
                shared = [(memory_of[name], cycles) for name, cycles in cost.ports]
                shared = [(memory, cycles) for memory, cycles in shared if memory in self.machine.ported]
                if shared:
                    memory, cycles = max(shared, key=lambda port: port[1])
                    row[:] = index[memory], self.machine.ticks(cycles, instance)
        return table

    def _buffers(self, regions: Mapping[str, I64]) -> tuple[I64x2, I64]:
        """Buffers of every step, one row per memory, and how many each has. ``regions``: by slot, bytes that every step
        reads into them."""
        stepped, index = self.stepped, self.machine.memory_index
        needed = {slot: size.copy() for slot, size in regions.items()}
        for position in range(len(stepped.operator.operands)):
            size = np.array([cost.operands[position].buffer for cost in stepped.costs], np.int64)
            if size.any():
                slot = stepped.costs[0].operands[position].slot
                needed[slot] = needed.get(slot, 0) + size[stepped.classes]
        slots = [slot for slot, _ in stepped.instances[0].memories if slot in needed]
        if not slots:
            return Buffers.zeros(0).plain, np.zeros(stepped.steps.count, np.int64)
        cores = np.arange(stepped.steps.count) % len(stepped.instances)
        where = np.array([[index[instance.memory_of(slot)] for instance in stepped.instances] for slot in slots])
        memory, sizes = where[:, cores], np.stack([needed[slot] for slot in slots])
        for later in range(1, len(slots)):
            for first in range(later):  # slots in one memory have one buffer
                same = (memory[first] == memory[later]) & (sizes[first] > 0)
                sizes[first] += np.where(same, sizes[later], 0)
                sizes[later] = np.where(same, 0, sizes[later])
        taken = sizes.T > 0
        return np.stack([memory.T[taken], sizes.T[taken]], axis=1), taken.sum(axis=1)

    def _entries(self) -> tuple[I64x2, I64, I64]:
        """Entries of every step, operand by operand, merged so that a step's entries stand together; how many each step
        has; and which of the bytes of streamed operands each entry gets, -1 if it streams nothing."""
        stepped = self.stepped
        count, operator = stepped.steps.count, stepped.operator
        pieces_may_be_empty = stepped.steps.pieces > 1 and stepped.steps.tiles > 1
        tables: list[I64x2] = []
        owners: list[I64] = []
        sources: list[I64] = []
        for position, (operand, tensor) in enumerate(operator.operands):
            known = tensor.storage in self.cuts.grids
            grid = self.cuts.grid(tensor.storage) if known else self._cut(position, operand, tensor)
            if (
                grid.regions is not None
                and self.cuts.same_group(stepped, tensor.storage)
                and stepped.steps.tiles == grid.count
            ):
                tile = (
                    np.arange(stepped.steps.count) // stepped.steps.pieces
                )  # each tile has what it needs in a block of its own
                touch = Touch(np.arange(stepped.steps.count + 1), grid.base + tile, np.ones(stepped.steps.count))
            else:
                touch = touched_blocks(operand, tensor, operator.nest, stepped.steps, grid)
            if position in stepped.sums:
                touch = self._own_sums(position, touch, grid)
            elif not operand.written and pieces_may_be_empty:
                touch = _without_idle(touch, stepped.steps)
            table, owner, source = self._operand_entries(position, touch)
            tables.append(table)
            owners.append(owner)
            sources.append(source)
        for tensor in (*operator.waits, *operator.untouched):
            grid = self.cuts.grid_of(tensor, {}, stepped)
            written = tensor in operator.untouched
            entries = Entries.zeros(grid.count * count)
            entries.block[:] = np.tile(np.arange(grid.base, grid.base + grid.count), count)
            entries.kind[:] = STREAM_WRITE if written else WAIT
            if written:
                entries.memory[:] = self._memories("O")[0]
            tables.append(entries.plain)
            owners.append(np.repeat(np.arange(count), grid.count))
            sources.append(np.full(len(entries), -1))
        if not tables:
            return Entries.zeros(0).plain, np.zeros(count, np.int64), np.zeros(0, np.int64)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return np.concatenate(tables)[order], np.bincount(owner, minlength=count), np.concatenate(sources)[order]

    def _own_sums(self, position: int, touch: Touch, grid: Grid) -> Touch:
        """Split along a sum: every core but the one that adds up a block has one of its own for its sums. Notes what is
        added up when, each block right after the last tile that adds to it."""
        stepped, pieces = self.stepped, self.stepped.steps.pieces
        operand, _ = stepped.operator.operands[position]
        sharing = Sharing.of(stepped.placement.split, operand)
        bits, wide = operand.bits_per_element, format_named(accumulator_of(stepped.operator, self.core, operand)).bits
        sizes = np.asarray(self.cuts.sizes_of(grid))
        own = np.tile(-(-sizes * wide // bits), sharing.sums - 1).astype(np.int64)
        base = self.cuts.n_blocks
        self.cuts.cut(stepped.sums[position], Grid(grid.tensor, {}, base, own), own, stepped)
        owner = np.repeat(np.arange(stepped.steps.count), np.diff(touch.pointer))
        tile, piece, place = owner // pieces, owner % pieces, touch.block - grid.base
        slot = stepped.costs[0].operands[position].slot
        blocks = BlockSums(grid.base, base, sizes, own, bits, self._memories(slot))
        last = np.full(grid.count, -1)
        np.maximum.at(last, place, tile)
        adder, rank = adders_of(sharing, piece, place, grid.count)
        adding = Adding.of(stepped.operator, operand, self.core)
        self.additions += additions_of(adding, sharing.sums, blocks, last, adder, self.machine.capacity)
        turn = (sharing.rank[piece] - rank[place]) % sharing.sums  # from the core that adds up on
        mine = np.where(turn > 0, base + (turn - 1) * grid.count + place, touch.block)
        return Touch(touch.pointer, mine, touch.share)

    def _cut(self, position: int, operand: Operand, tensor: Tensor) -> Grid:
        """Blocks of a storage that this operator is the first to touch."""
        stepped = self.stepped
        nest, steps = stepped.operator.nest, stepped.steps
        edges, group = cut_axes(operand, nest, steps), stepped.tiled
        if position in stepped.sums and steps.tiles == 1 and len(operand.shape) == len(tensor.shape):
            edges |= cut_for_additions(operand, edges, Sharing.of(stepped.placement.split, operand).sums, self.core)
        if not (operand.written and edges and group and group.halo == "recomputed" and steps.pieces == 1):
            return self.cuts.grid_of(tensor, edges, stepped)
        regions = self._box_bytes(operand)
        grid = Grid(tensor, {}, self.cuts.n_blocks, regions)
        self.cuts.cut(tensor.storage, grid, regions, stepped)
        return grid

    def _memories(self, slot: str) -> I64:
        """The memory of a slot on every core of an operator; for a slot without one, the core's first."""
        stepped = self.stepped
        index = self.machine.memory_index
        return np.array(
            [index[instance.memory_of(slot) or instance.memories[0][1]] for instance in stepped.instances], np.int64
        )

    def _operand_entries(self, position: int, touch: Touch) -> tuple[I64x2, I64, I64]:
        """Entries of an operand, their steps, and where the bytes of each come from, as ``_entries`` says."""
        stepped = self.stepped
        operand, tensor = stepped.operator.operands[position]
        owner = np.repeat(np.arange(stepped.steps.count), np.diff(touch.pointer))
        entries, fixed = Entries.zeros(len(owner)), np.full(len(owner), -1)
        classes, parts = stepped.classes[owner], [cost.operands[position] for cost in stepped.costs]
        memories = np.stack([self._memories(part.slot) for part in parts])
        entries.block[:], entries.memory[:] = touch.block, memories[classes, owner % len(stepped.instances)]
        streams = parts[0].streams
        if stepped.held and not streams:
            entries.kind[:] = HOLD_WRITE if operand.written else HOLD_READ
            if self._region(position, touch, entries) and operand.written:
                return self._read_back(position, touch, entries.plain, owner, fixed)
            return entries.plain, owner, fixed
        if not operand.written:
            entries.kind[:] = STREAM_READ
            entries.share[:] = shares_of(stepped, position)[owner % stepped.steps.pieces]
            if operand.picks:
                rows = box_rows(operand, tensor, stepped.operator.nest, stepped.steps)
                entries.rows[:] = np.ceil(np.repeat(rows, np.diff(touch.pointer)) * touch.share)
            return entries.plain, owner, self._stream(position, classes, touch, False)
        persistent = self.cuts.workload.storages[tensor.storage].persistent and position not in stepped.sums
        keep = not persistent and not streams and not _shared_blocks(entries, stepped)
        entries.kind[:] = KEEP_WRITE if keep else STREAM_WRITE
        spills = bool(np.array([part.spilled for part in parts])[classes].any())
        source = self._stream(position, classes, touch, spills)
        if not spills:
            return self._read_back(position, touch, entries.plain, owner, source)
        both = np.repeat(entries.plain, 2, axis=0)  # each with what it spills right behind it
        Entries.of(both).some(slice(1, None, 2)).kind[:] = SPILL
        return self._read_back(position, touch, both, np.repeat(owner, 2), source)

    def _stream(self, position: int, classes: I64, touch: Touch, spills: bool) -> I64:
        """Note a streamed operand; of its entries, each with what it spills, which of all bytes they get."""
        count, first = len(classes), self.n_bytes
        self.streamed.append(Streamed(position, classes, touch, spills))
        self.n_bytes += (1 + spills) * count
        return first + np.arange((1 + spills) * count).reshape(1 + spills, count).T.ravel()

    def _read_back(self, position: int, touch: Touch, table: I64x2, owner: I64, source: I64) -> tuple[I64x2, I64, I64]:
        """Tiles of a sum read what tiles before them have summed up, unless it lies where they continue it."""
        stepped, operator = self.stepped, self.stepped.operator
        operand, _ = operator.operands[position]
        if not (operator.tileable - operator.splittable) & stepped.steps.ranges.keys() or stepped.steps.tiles == 1:
            return table, owner, source
        entries = Entries.of(table)
        writes = np.isin(entries.kind, WRITES)
        tile, block = owner[writes] // stepped.steps.pieces, entries.block[writes]
        first = np.full(int(block.max()) + 1, stepped.steps.tiles)
        np.minimum.at(first, block, tile)
        again = tile > first[block]
        more, region = table[writes][again], self._box_bytes(operand)
        extra = Entries.of(more)
        extra.kind[:] = STREAM_READ
        extra.bytes[:] = over_blocks(np.repeat(region, np.diff(touch.pointer)), touch)[again]
        extra.first[:] = extra.bytes // STREAM_SHARE
        owner, source = np.concatenate([owner[writes][again], owner]), np.concatenate([np.full(len(more), -1), source])
        return np.concatenate([more, table]), owner, source

    def _box_bytes(self, operand: Operand) -> I64:
        """Bytes of an operand that every step touches."""
        elements = box_elements(operand, self.stepped.operator.nest, self.stepped.steps)
        return (-(-elements * operand.bits_per_element // 8)).astype(np.int64)

    def _region(self, position: int, touch: Touch, entries: Entries) -> bool:
        """A tile that needs only a part of large blocks (cut along other axes by whoever made them) does not hold them:
        it reads its own region into a buffer. Nor does it hold a block that several memories write parts of."""
        stepped = self.stepped
        operand, tensor = stepped.operator.operands[position]
        region = self._box_bytes(operand)
        if operand.written:
            if not _shared_blocks(entries, stepped):
                return False
        elif 2 * region.sum() >= self.cuts.bytes_of(touch.block):
            return False
        entries.kind[:] = STREAM_WRITE if operand.written else STREAM_READ
        entries.bytes[:] = entries.first[:] = over_blocks(np.repeat(region, np.diff(touch.pointer)), touch)
        rows = box_rows(operand, tensor, stepped.operator.nest, stepped.steps)
        entries.rows[:] = np.ceil(np.repeat(rows, np.diff(touch.pointer)) * touch.share)
        if not operand.written:
            owner = np.repeat(np.arange(stepped.steps.count), np.diff(touch.pointer))
            entries.share[:] = shares_of(stepped, position)[owner % stepped.steps.pieces]
        slot = stepped.costs[0].operands[position].slot
        self.regions[slot] = self.regions.get(slot, 0) + region
        return True


def shares_of(stepped: OperatorSteps, position: int) -> I64:
    """By piece, a number of an operand that is equal for pieces that read the same part of it, which one multicast
    brings; zero for a part that one piece reads alone."""
    split, operators, pieces = stepped.placement.split, stepped.operator.operands, stepped.steps.pieces
    dims = operators[position][0].dims
    number = np.zeros(pieces, np.int64)
    if all(dim in dims or many == 1 for dim, many in split):
        return number
    places = np.unravel_index(np.arange(pieces), [many for _, many in split])
    for (dim, many), place in zip(split, places, strict=True):
        if dim in dims:
            number = number * many + place
    return 1 + position + len(operators) * number


def tick_parts(costs: Sequence[StepCost], instance: CoreInstance, machine: Machine) -> I64x2:
    """Ticks of steps by use; rounded so that they add up to the ticks of the whole step."""
    table = TickParts.zeros(len(costs)).plain
    for row, cost in zip(table, costs, strict=True):
        total = machine.ticks(cost.cycles, instance)
        useful = min(total, machine.ticks(cost.useful, instance))
        under = min(total - useful, machine.ticks(cost.under_use, instance))
        stall = min(total - useful - under, machine.ticks(cost.stall, instance))
        row[:] = useful, under, stall, total - useful - under - stall
    return table


def _without_idle(touch: Touch, steps: StepRanges) -> Touch:
    """What steps with nothing to do would read (a tile has fewer rows than there are cores) is left out; above all,
    they do not lead a multicast, whose size is that of its first reader."""
    idle = np.any([low >= high for low, high in steps.ranges.values()], axis=0)
    if not idle.any():
        return touch
    many = np.diff(touch.pointer)
    kept = ~np.repeat(idle, many)
    pointer = np.concatenate([[0], np.cumsum(np.where(idle, 0, many))])
    return Touch(pointer, touch.block[kept], touch.share[kept])


def _shared_blocks(entries: Entries, stepped: OperatorSteps) -> bool:
    """Whether some block is written from more than one memory."""
    if len(stepped.instances) == 1:
        return False
    first = np.full(int(entries.block.max(initial=0)) + 1, -1)
    first[entries.block] = entries.memory
    return bool((first[entries.block] != entries.memory).any())


def over_blocks(size: I64, touch: Touch) -> I64:
    """Bytes split over the blocks a step touches, adding up exactly."""
    many = np.diff(touch.pointer)
    if many.max(initial=0) <= 1:
        return size.astype(np.int64)
    ends = np.rint(upto(touch) * size).astype(np.int64)
    starts = np.roll(ends, 1)
    starts[touch.pointer[:-1][many > 0]] = 0
    return np.asarray(np.maximum(0, ends - starts))
