"""Rows of one operator: its steps, buffers and operand blocks, counted from its own first ones.

Rows name neither operator nor storages, so that operators alike share them, under other plans and on other machines.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from monet.arrays import I64, I64x2
from monet.formats import format_named
from monet.graph.loop_nest import Operand
from monet.graph.tensor import Tensor
from monet.mapping.cost_store import Section
from monet.schedule.costs.step_cost import STREAM_SHARE, StepCost
from monet.schedule.expansion.geometry import (
    Grid,
    StepRanges,
    Touch,
    axis_map,
    box_elements,
    box_rows,
    cut_axes,
    touched_blocks,
)
from monet.schedule.expansion.split_reductions import accumulator_of, sum_cost
from monet.schedule.machine import Machine
from monet.schedule.plan import Plan
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
from monet.schedule.workload import Workload

if TYPE_CHECKING:
    from monet.schedule.costs.cost_table import OperatorSteps


@dataclass(frozen=True)
class Rows:
    """Rows of one operator, and the storages that it is the first to touch. Operator and storages are not named, so
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
    sums: tuple[StepCost, ...]  # additions of a split along a sum: steps after the tiles'
    fits: bool  # whether every memory has room for all that a tile holds in it

    @property
    def bytes(self) -> int:
        """What keeping them takes."""
        return 1000 + sum(one.nbytes for one in (self.steps, self.parts, self.entries, self.buffers, self.storage))


# rows of operators that are alike in one graph, on other machines or under other plans
ALIKE = Section[Rows]("rows of operators", 64 * 2**20, lambda rows: rows.bytes)
ROWS = Section[Rows]("rows under one scheduler", 128 * 2**20, lambda rows: rows.bytes)


class Cuts:
    """How every storage touched so far is cut into blocks, and by whom."""

    def __init__(self, workload: Workload, machine: Machine, plan: Plan) -> None:
        self.workload, self.machine, self.plan = workload, machine, plan
        self.grids: dict[str, Grid] = {}  # of every storage touched; where its blocks start is in ``base``
        self.base: dict[str, int] = {}
        self.origin: dict[str, OperatorSteps] = {}  # storage → who cut it
        self.number: dict[str, int] = {}  # storage → number of who cut it
        self.finer: dict[
            str, tuple[tuple[Tensor, Mapping[int, I64]], ...]
        ] = {}  # cuts of groups that it has to be as fine as
        self.new: list[tuple[str, Grid, I64]] = []  # those that the operator at hand cuts
        self.waiting: list[tuple[OperatorSteps, Rows]] = []  # operators whose cuts are known but not noted yet
        self.noted: list[tuple[int, I64, int, int]] = []  # by storage: first block, sizes, number, row of its flags
        self.n_blocks = 0

    def cut_finer(self, one: OperatorSteps, made: frozenset[str], overwritten: frozenset[str]) -> None:
        """Remember how an operator of a group cuts what lies outside of it (``made``: what the group itself makes), so
        that blocks are as fine as that, whoever touches them first: storages that are ``overwritten`` by tiles (an
        update its weights), and what each core reads the same part of in every tile, and so can hold."""
        if one.steps.pieces == 1 and overwritten.isdisjoint(one.operator.written):
            return
        for position, (operand, tensor) in enumerate(one.operator.operands):
            overwrites = operand.written and tensor.storage in overwritten
            if overwrites or (
                not operand.written and tensor.storage not in made and self._same_in_all_tiles(one, operand)
            ):
                edges = one.costed.edges(position, operand, one.operator.nest)
                if edges:
                    self.finer[tensor.storage] = (*self.finer.get(tensor.storage, ()), (tensor, edges))

    def _same_in_all_tiles(self, one: OperatorSteps, operand: Operand) -> bool:
        split = one.placement.split
        return split in operand.dims and one.steps.pieces > 1 and not (one.steps.ranges.keys() - {split}) & operand.dims

    def _merged(self, tensor: Tensor, edges: Mapping[int, I64]) -> Mapping[int, I64]:
        """Edges of a storage's axes, with those of all who overwrite it by tiles."""
        merged = dict(edges)
        for seen, more in self.finer.get(tensor.storage, ()):
            for axis, there in (axis_map(seen, tensor) or {}).items():
                if there in more:
                    merged[axis] = np.union1d(merged[axis], more[there]) if axis in merged else more[there]
        return merged

    def finer_content(self, storage: str) -> tuple[Any, ...]:
        """How those who overwrite a storage by tiles cut it."""
        return tuple(
            (seen.shape, seen.strides, *((axis, edge.tobytes()) for axis, edge in more.items()))
            for seen, more in self.finer.get(storage, ())
        )

    def grid_of(self, tensor: Tensor, edges: Mapping[int, I64], one: OperatorSteps) -> Grid:
        """The blocks of a storage, cut by whoever touches it first."""
        storage = tensor.storage
        if storage not in self.grids:
            found = self.workload.storages[storage]
            if tensor.elements != found.tensor.elements:
                tensor, edges = found.tensor, {}
            grid = Grid(tensor, self._merged(tensor, edges) if self.finer else edges, self.n_blocks)
            self.cut(storage, grid, grid.sizes(found.tensor.bytes), one)
        return self.grid(storage)

    def grid(self, storage: str) -> Grid:
        """The blocks of a storage touched before, counted from where they start now."""
        grid = self.grids[storage]
        if grid.base != self.base[storage]:
            grid = self.grids[storage] = replace(grid, base=self.base[storage])
        return grid

    def cut(self, storage: str, grid: Grid, sizes: I64, one: OperatorSteps) -> None:
        """The operator at hand cuts a storage that nobody has touched before."""
        self.new.append((storage, grid, sizes))
        self._note(storage, grid, sizes, one)

    def _note(self, storage: str, grid: Grid, sizes: I64, one: OperatorSteps) -> None:
        """The blocks of a storage that nobody has touched before."""
        found, start = self.workload.storages.get(storage), self.n_blocks
        self.grids[storage], self.base[storage] = grid, start
        if found is not None:
            number = flags = found.number
        else:  # sums that cores keep for themselves
            known = self.workload.storages
            number, flags = known[one.result.storage].number, len(known)
        self.noted.append((start, sizes, number, flags))
        self.n_blocks = start + len(sizes)

    def catch_up(self) -> None:
        """Note the cuts of operators whose rows were looked up: only now is asked where blocks start."""
        for one, rows in self.waiting:
            for position, grid, sizes in rows.grids:
                storage = one.storages[position]
                self.origin[storage] = one
                self._note(storage, grid, sizes, one)
        self.waiting = []

    def forget_new(self) -> None:
        """Undo the cuts of the operator at hand."""
        for storage, _, sizes in reversed(self.new):
            del self.grids[storage], self.base[storage]
            self.noted.pop()
            self.n_blocks -= len(sizes)
        self.new = []

    def same_group(self, one: OperatorSteps, storage: str) -> bool:
        """Whether a storage was cut by the group of an operator, or by nobody yet."""
        return storage not in self.origin or self.origin[storage].tiled == one.tiled

    def sizes_of(self, grid: Grid) -> I64:
        """Bytes of the blocks of a storage."""
        return self._noted(grid.base)[1]

    def bytes_of(self, blocks: I64) -> int:
        """Bytes of some blocks of one storage."""
        base, sizes, *_ = self._noted(int(blocks[0]))
        return int(sizes[blocks - base].sum())

    def _noted(self, block: int) -> tuple[int, I64, int, int]:
        """What was noted of the storage of a block."""
        return self.noted[bisect_right(self.noted, block, key=itemgetter(0)) - 1]


def rows_of(cuts: Cuts, one: OperatorSteps) -> Rows:
    """Rows of one operator, given how the storages it touches are cut; those that nobody has cut it cuts itself."""
    return _Building(cuts, one).rows()


@dataclass(frozen=True)
class Addition:
    """A step that adds up sums of several cores, after a tile."""

    tile: int
    cost: StepCost
    entries: I64x2  # plain rows of ``Entries``
    memory: int
    buffer: int  # bytes through which sums of other cores pass


def _addition(
    block: int, size: int, own: int, memory: int, pieces: int, grid: Grid, base: int
) -> list[tuple[int, ...]]:
    """Entries that add the sums of all cores in one block of the result: read all, write it."""
    first = [(grid.base + block, STREAM_READ, size)]
    others = [(base + (piece - 1) * grid.count + block, STREAM_READ, own) for piece in range(1, pieces)]
    return [
        (number, memory, kind, many, many // STREAM_SHARE, 0, 0)  # the fields of ``Entries``
        for number, kind, many in (*first, *others, (grid.base + block, KEEP_WRITE, size))
    ]


class _Building:
    def __init__(self, cuts: Cuts, one: OperatorSteps) -> None:
        self.cuts, self.one, self.machine = cuts, one, cuts.machine
        self.regions: dict[str, I64] = {}  # by slot: bytes that every step reads into buffers
        self.additions: list[Addition] = []

    def rows(self) -> Rows:
        one = self.one
        entries, per_step = self._entries()
        buffers, many = self._buffers()
        added = self.additions
        fits = not one.held or self._fits(per_step, many, Entries.of(entries), Buffers.of(buffers))
        if added:
            entries = np.concatenate([entries, *(one.entries for one in added)])
            per_step = np.concatenate([per_step, [len(one.entries) for one in added]])
            buffers = np.concatenate([buffers, [(one.memory, one.buffer) for one in added]])
            many = np.concatenate([many, np.ones(len(added), np.int64)])
        sums = tuple(one.cost for one in added)
        parts = np.concatenate([self._parts(one.costs)[one.classes], self._parts(sums)])
        bases = np.array([self.cuts.base[storage] for storage in one.storages], np.int64)
        order = np.argsort(bases)
        storage = order[np.searchsorted(bases[order], Entries.of(entries).block, side="right") - 1]
        position = {name: place for place, name in enumerate(one.storages)}
        new = tuple((position[name], grid, sizes) for name, grid, sizes in self.cuts.new)
        counts = len(per_step), len(entries), len(buffers), len(bases)
        steps = self._steps(per_step, many)
        return Rows(steps.plain, parts, entries, buffers, new, storage, bases, counts, self._spans(), sums, fits)

    def _steps(self, entries: I64, buffers: I64) -> Steps:
        """Rows of the steps, given how many entries and buffers each has; ticks and operator come later."""
        one, tiles = self.one, self.one.steps.count
        cores = np.array([self.machine.core_index[instance.name] for instance in one.instances])
        steps = Steps.zeros(len(entries))
        steps.core[:] = cores[0]
        steps.core[:tiles] = np.tile(cores, tiles // len(cores))
        steps.port_memory[:tiles], steps.port_ticks[:tiles] = self._ports(one.costs)[one.classes].T
        np.cumsum(entries, out=steps.entry_end)
        np.cumsum(buffers, out=steps.buffer_end)
        steps.entry_start[:], steps.buffer_start[:] = steps.entry_end - entries, steps.buffer_end - buffers
        return steps

    def _spans(self) -> I64x2:
        """(first step, last step) of the gangs in order."""
        pieces, count = self.one.steps.pieces, self.one.steps.count
        first = np.arange(self.one.steps.tiles) * pieces
        spans = np.stack([first, first + pieces], axis=1)
        if not self.additions:
            return spans
        after = np.array([one.tile for one in self.additions]) + 1
        where = count + np.arange(len(after))
        return np.insert(spans, after, np.stack([where, where + 1], axis=1), axis=0)

    def _fits(self, per_step: I64, many: I64, entries: Entries, buffers: Buffers) -> bool:
        """Whether buffers and held blocks of every tile fit; with everything else evicted, that is enough."""
        memories, tile = len(self.machine.capacity), np.arange(len(per_step)) // self.one.steps.pieces
        needed = np.zeros((self.one.steps.tiles, memories), np.int64)
        np.add.at(needed, (np.repeat(tile, many), buffers.memory), buffers.bytes)
        held = (entries.kind == HOLD_READ) | (entries.kind == HOLD_WRITE)
        place = np.repeat(tile, per_step)[held] * memories + entries.memory[held]
        pairs = np.unique(place * self.cuts.n_blocks + entries.block[held])
        place, block = np.divmod(pairs, self.cuts.n_blocks)
        np.add.at(needed.reshape(-1), place, np.concatenate([one[1] for one in self.cuts.noted])[block])
        return bool((needed <= self.machine.capacity).all())

    def _ports(self, costs: Sequence[StepCost]) -> I64x2:
        """(memory, ticks) of the busiest port that a step shares with other cores; nothing where it queues for none: a
        memory may be described as shared, but have one core only."""
        index, instance = self.machine.memory_index, self.one.instances[0]
        table = np.zeros((len(costs), 2), np.int64)
        for row, cost in zip(table, costs, strict=True):
            shared = [one for one in cost.ports if one[0] in self.machine.ported]
            if shared:
                memory, cycles = max(shared, key=lambda one: one[1])
                row[:] = index[memory], self.machine.ticks(cycles, instance)
        return table

    def _parts(self, costs: Sequence[StepCost]) -> I64x2:
        """Ticks of a step by use; rounded so that they add up to the ticks of the whole step."""
        table, instance = TickParts.zeros(len(costs)).plain, self.one.instances[0]
        for row, cost in zip(table, costs, strict=True):
            total = self.machine.ticks(cost.cycles, instance)
            useful = min(total, self.machine.ticks(cost.useful, instance))
            under = min(total - useful, self.machine.ticks(cost.under_use, instance))
            stall = min(total - useful - under, self.machine.ticks(cost.stall, instance))
            row[:] = useful, under, stall, total - useful - under - stall
        return table

    def _buffers(self) -> tuple[I64x2, I64]:
        """Buffers of every step, one row per memory, and how many each has."""
        one = self.one
        count, rows = one.steps.count, list[tuple[int, int]]()
        per_step = np.zeros(count, np.int64)
        needed = {slot: size.copy() for slot, size in self.regions.items()}
        for position in range(len(one.operator.operands)):
            slot = one.costs[0].operands[position].slot
            size = np.array([cost.operands[position].buffer for cost in one.costs], np.int64)[one.classes]
            if size.any():
                needed[slot] = needed.get(slot, 0) + size
        if not needed:
            return Buffers.zeros(0).plain, per_step
        memories = [
            {slot: self.machine.memory_index[instance.memory_of(slot)] for slot, _ in instance.memories}
            for instance in one.instances
        ]
        for step in range(count):
            found: dict[int, int] = {}
            for slot, where in memories[step % len(memories)].items():
                if slot in needed and needed[slot][step]:
                    found[where] = found.get(where, 0) + int(needed[slot][step])
            per_step[step] = len(found)
            rows += found.items()
        return np.array(rows, np.int64), per_step

    def _entries(self) -> tuple[I64x2, I64]:
        """Entries of every step, operand by operand; merged so that a step's entries stand together."""
        one = self.one
        count, operator = one.steps.count, one.operator
        pieces_may_be_empty = one.steps.pieces > 1 and one.steps.tiles > 1
        tables: list[I64x2] = []
        owners: list[I64] = []
        for position, (operand, tensor) in enumerate(operator.operands):
            known = tensor.storage in self.cuts.grids
            grid = self.cuts.grid(tensor.storage) if known else self._cut(operand, tensor)
            if grid.regions is not None and self.cuts.same_group(one, tensor.storage) and one.steps.tiles == grid.count:
                tile = (
                    np.arange(one.steps.count) // one.steps.pieces
                )  # each tile has what it needs in a block of its own
                touch = Touch(np.arange(one.steps.count + 1), grid.base + tile, np.ones(one.steps.count))
            else:
                touch = touched_blocks(operand, tensor, operator.nest, one.steps, grid)
            if operand.written and one.is_summed:
                touch = self._own_sums(operand, touch, grid)
            elif not operand.written and pieces_may_be_empty:
                touch = _without_idle(touch, one.steps)
            table, owner = self._operand_entries(position, touch)
            tables.append(table)
            owners.append(owner)
        for tensor in (*operator.waits, *operator.untouched):
            grid = self.cuts.grid_of(tensor, {}, one)
            written = tensor in operator.untouched
            entries = Entries.zeros(grid.count * count)
            entries.block[:] = np.tile(np.arange(grid.base, grid.base + grid.count), count)
            entries.kind[:] = STREAM_WRITE if written else WAIT
            if written:
                entries.memory[:] = self._memories("O")[0]
            tables.append(entries.plain)
            owners.append(np.repeat(np.arange(count), grid.count))
        if not tables:
            return Entries.zeros(0).plain, np.zeros(count, np.int64)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return np.concatenate(tables)[order], np.bincount(owner, minlength=count)

    def _own_sums(self, operand: Operand, touch: Touch, grid: Grid) -> Touch:
        """Split along a sum: every core but the first has blocks of its own for its sums. Notes what is added up when,
        each block right after the last tile that adds to it."""
        one, pieces = self.one, self.one.steps.pieces
        core = one.instances[0].core
        bits, wide = operand.bits_per_element, format_named(accumulator_of(one.operator, core)).bits
        sizes = np.asarray(self.cuts.sizes_of(grid))
        own = np.tile(-(-sizes * wide // bits), pieces - 1).astype(np.int64)
        base = self.cuts.n_blocks
        self.cuts.cut(one.storages[-1], Grid(grid.tensor, {}, base, own), own, one)
        owner = np.repeat(np.arange(one.steps.count), np.diff(touch.pointer))
        piece, place = owner % pieces, touch.block - grid.base
        last = np.full(grid.count, -1)
        np.maximum.at(last, place, owner // pieces)
        memory = int(self._memories(one.costs[0].operands[one.operator.operands.index((operand, one.result))].slot)[0])
        for tile in np.unique(last[last >= 0]):
            blocks = np.flatnonzero(last == tile)
            each = [
                row
                for block in blocks
                for row in _addition(int(block), int(sizes[block]), int(own[block]), memory, pieces, grid, base)
            ]
            cost = sum_cost(one.operator, core, int(int(sizes[blocks].sum()) * 8 // bits), pieces)
            room = 2 * min(
                -(-int(own[blocks].max()) // STREAM_SHARE), int(self.machine.capacity[memory]) // STREAM_SHARE
            )
            self.additions.append(Addition(int(tile), cost, np.array(each, np.int64), memory, room))
        mine = np.where(piece > 0, base + (piece - 1) * grid.count + place, touch.block)
        return Touch(touch.pointer, mine, touch.share)

    def _cut(self, operand: Operand, tensor: Tensor) -> Grid:
        """Blocks of a storage that this operator is the first to touch."""
        one = self.one
        nest, steps = one.operator.nest, one.steps
        edges, group = cut_axes(operand, nest, steps), one.tiled
        if not (operand.written and edges and group and group.halo == "recomputed" and steps.pieces == 1):
            return self.cuts.grid_of(tensor, edges, one)
        regions = self._box_bytes(operand)
        grid = Grid(tensor, {}, self.cuts.n_blocks, regions)
        self.cuts.cut(tensor.storage, grid, regions, one)
        return grid

    def _memories(self, slot: str) -> I64:
        """The memory of a slot on every core of an operator; for a slot without one, the core's first."""
        one = self.one
        index = self.machine.memory_index
        return np.array(
            [index[instance.memory_of(slot) or instance.memories[0][1]] for instance in one.instances], np.int64
        )

    def _operand_entries(self, position: int, touch: Touch) -> tuple[I64x2, I64]:
        one = self.one
        operand, tensor = one.operator.operands[position]
        owner = np.repeat(np.arange(one.steps.count), np.diff(touch.pointer))
        entries = Entries.zeros(len(owner))
        classes, parts = one.classes[owner], [cost.operands[position] for cost in one.costs]
        memories = np.stack([self._memories(part.slot) for part in parts])
        entries.block[:], entries.memory[:] = touch.block, memories[classes, owner % len(one.instances)]
        streams = parts[0].streams
        if one.held and not streams:
            entries.kind[:] = HOLD_WRITE if operand.written else HOLD_READ
            if self._region(position, touch, entries) and operand.written:
                return self._read_back(position, touch, entries.plain, owner)
            return entries.plain, owner
        entries.bytes[:] = _shares(np.array([part.bytes for part in parts])[classes], touch)
        first = _shares(np.array([part.first for part in parts])[classes], touch)
        entries.first[:] = np.minimum(first, entries.bytes)
        if not operand.written:
            entries.kind[:] = STREAM_READ
            cut = any(dim in one.steps.ranges for dim in operand.dims) if one.placement.split else False
            entries.share[:] = 0 if cut or len(one.instances) == 1 else position + 1
            return entries.plain, owner
        persistent = self.cuts.workload.storages[tensor.storage].persistent and not one.is_summed
        stays = self.cuts.plan.boundary == "keep" or one.tiled is not None or one.is_summed
        keep = stays and not persistent and not streams and not _shared_blocks(entries, one)
        entries.kind[:] = KEEP_WRITE if keep else STREAM_WRITE
        spilled = np.array([part.spilled for part in parts])[classes]
        if not spilled.any():
            return self._read_back(position, touch, entries.plain, owner)
        both = np.repeat(entries.plain, 2, axis=0)  # each with what it spills right behind it
        extra = Entries.of(both).some(slice(1, None, 2))
        extra.kind[:], extra.bytes[:], extra.first[:] = SPILL, _shares(spilled, touch), 0
        return self._read_back(position, touch, both, np.repeat(owner, 2))

    def _read_back(self, position: int, touch: Touch, table: I64x2, owner: I64) -> tuple[I64x2, I64]:
        """Tiles of a sum read what tiles before them have summed up, unless it lies where they continue it."""
        one, operator = self.one, self.one.operator
        operand, _ = operator.operands[position]
        if not (operator.tileable - operator.splittable) & one.steps.ranges.keys() or one.steps.tiles == 1:
            return table, owner
        entries = Entries.of(table)
        writes = np.isin(entries.kind, WRITES)
        tile, block = owner[writes] // one.steps.pieces, entries.block[writes]
        first = np.full(int(block.max()) + 1, one.steps.tiles)
        np.minimum.at(first, block, tile)
        again = tile > first[block]
        more, region = table[writes][again], self._box_bytes(operand)
        extra = Entries.of(more)
        extra.kind[:] = STREAM_READ
        extra.bytes[:] = _shares(np.repeat(region, np.diff(touch.pointer)), touch)[again]
        extra.first[:] = extra.bytes // STREAM_SHARE
        return np.concatenate([more, table]), np.concatenate([owner[writes][again], owner])

    def _box_bytes(self, operand: Operand) -> I64:
        """Bytes of an operand that every step touches."""
        elements = box_elements(operand, self.one.operator.nest, self.one.steps)
        return (-(-elements * operand.bits_per_element // 8)).astype(np.int64)

    def _region(self, position: int, touch: Touch, entries: Entries) -> bool:
        """A tile that needs only a part of large blocks (cut along other axes by whoever made them) does not hold them:
        it reads its own region into a buffer. Nor does it hold a block that several memories write parts of."""
        one = self.one
        operand, tensor = one.operator.operands[position]
        region = self._box_bytes(operand)
        if operand.written:
            if not _shared_blocks(entries, one):
                return False
        elif 2 * region.sum() >= self.cuts.bytes_of(touch.block):
            return False
        entries.kind[:] = STREAM_WRITE if operand.written else STREAM_READ
        entries.bytes[:] = entries.first[:] = _shares(np.repeat(region, np.diff(touch.pointer)), touch)
        rows = box_rows(operand, tensor, one.operator.nest, one.steps)
        entries.rows[:] = np.ceil(np.repeat(rows, np.diff(touch.pointer)) * touch.share)
        if len(one.instances) > 1 and not operand.written and one.placement.split not in operand.dims:
            entries.share[:] = position + 1  # all cores read the same: once, by multicast
        slot = one.costs[0].operands[position].slot
        self.regions[slot] = self.regions.get(slot, 0) + region
        return True


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


def _shared_blocks(entries: Entries, one: OperatorSteps) -> bool:
    """Whether some block is written from more than one memory."""
    if len(one.instances) == 1:
        return False
    first = np.full(int(entries.block.max(initial=0)) + 1, -1)
    first[entries.block] = entries.memory
    return bool((first[entries.block] != entries.memory).any())


def _shares(size: I64, touch: Touch) -> I64:
    """Bytes split over the blocks a step touches, adding up exactly."""
    many = np.diff(touch.pointer)
    if len(many) == 0 or many.max(initial=0) <= 1:
        return size.astype(np.int64)
    upto, begin = np.cumsum(touch.share), touch.pointer[:-1][many > 0]
    before = np.repeat(upto[begin] - touch.share[begin], many[many > 0])
    ends = np.rint((upto - before) * size).astype(np.int64)
    starts = np.roll(ends, 1)
    starts[begin] = 0
    return np.asarray(np.maximum(0, ends - starts))
