"""A plan expanded into the arrays that ``decide`` walks: gangs, steps, buffers, entries, blocks, uses."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from monet.graph.dtypes import dtype_named
from monet.graph.loop_nest import Operand
from monet.graph.tensor import Tensor
from monet.hardware.accelerator import CoreInstance
from monet.mapping.border import Border
from monet.mapping.errors import MappingError
from monet.schedule import decide as d
from monet.schedule.geometry import (
    Grid,
    Steps,
    Touch,
    axis_map,
    box_elements,
    cut_axes,
    make_steps,
    shape_classes,
    step_nest,
    touched_blocks,
)
from monet.schedule.grouping import TiledGroup
from monet.schedule.machine import Machine
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.step_cost import StepCost, matrix_held, matrix_streamed, smaller_border, vector_step
from monet.schedule.workload import Operator, Workload

Array = np.ndarray[Any, Any]


class CostTable:
    """Costs of distinct steps on distinct cores, each computed once."""

    def __init__(self, machine: Machine, objective: str = "latency") -> None:
        self.machine, self.objective = machine, objective
        self._known: dict[tuple[Any, ...], StepCost] = {}
        self._borders: dict[tuple[str, float], Border] = {}
        self.steps: dict[tuple[Any, ...], tuple[tuple[CoreInstance, ...], Steps, Array, tuple[StepCost, ...]]] = {}
        self.rows: dict[tuple[Any, ...], Rows] = {}  # of operators whose surroundings have not changed either
        self.numbers: dict[tuple[Any, ...], int] = {}  # of (operator, placement, tiles), which are slow to compare

    def cost(
        self, operator: Operator, steps: Steps, number: int, instance: CoreInstance, held: bool, share: float
    ) -> StepCost:
        """The cost of one step of an operator on a core; ``share`` of its memory may be used for buffers."""
        ranges = tuple((dim, int(low[number]), int(high[number])) for dim, (low, high) in steps.ranges.items())
        key = (operator.key, ranges, instance.template, instance.endpoint if not instance.template else "", held, share)
        if key not in self._known:
            self._known[key] = self._compute(operator, steps, number, instance, held, share)
        return self._known[key]

    def _border(self, instance: CoreInstance, share: float) -> Border:
        key = instance.name, share
        if key not in self._borders:
            self._borders[key] = smaller_border(self.machine.borders[instance.name], share)
        return self._borders[key]

    def _compute(
        self, operator: Operator, steps: Steps, number: int, instance: CoreInstance, held: bool, share: float
    ) -> StepCost:
        nest = step_nest(operator.nest, steps, number) if steps.ranges else operator.nest
        border = self._border(instance, 1.0 if held else share)
        if operator.is_matrix:
            run = matrix_held if held else matrix_streamed
            return run(nest, instance, border, self.objective)
        if operator.family == "attention":
            raise MappingError(
                f"operator {operator.op.name}: fused attention has no cost model; use --attention explicit"
            )
        part = nest.points / max(1, operator.nest.points)
        work = {name: math.ceil(count * part - 1e-9) for name, count in operator.work}
        return vector_step(nest, work, operator.extent, instance, border, not held)


@dataclass
class OperatorSteps:
    """An operator's steps on their cores, with their costs."""

    operator: Operator
    placement: Placement
    instances: tuple[CoreInstance, ...]
    steps: Steps
    held: bool
    classes: Array
    costs: tuple[StepCost, ...]
    group: int
    tiled: Group | None  # the plan's group
    number: int  # equal for equal operator, placement and tiles
    base: int = 0


@dataclass(frozen=True)
class Expanded:
    """Everything ``decide`` needs, and what is needed to read its answer."""

    gangs: Array
    steps: Array
    work: Array
    entries: Array
    blocks: Array
    uses: Array
    parts: Array  # per step: useful, under-used, stalled, switching ticks
    block_storage: Array
    operators: tuple[OperatorSteps, ...]


def operator_steps(operator: Operator, group: TiledGroup, number: int, table: CostTable, plan: Plan) -> OperatorSteps:
    """Steps and costs of one operator under a plan, looked up if they were asked for before."""
    placement = plan.placements[operator.op.name]
    share = plan.buffer_share if plan.boundary == "keep" else 1.0
    key = (operator.identity, placement, group.identity, group.held, share)
    alike = key if group.key else (operator.key, placement, None, group.held, share)
    known = table.steps.get(alike)
    if known is None:
        accelerator = table.machine.accelerator
        instances = tuple(accelerator.instance(name) for name in placement.cores)
        steps = make_steps(operator.nest, group.tiles[operator.number], placement.split, len(instances))
        classes, first = shape_classes(operator.nest, steps)
        costs = tuple(
            table.cost(operator, steps, int(one), instances[int(one) % len(instances)], group.held, share)
            for one in first
        )
        known = table.steps[alike] = instances, steps, classes, costs
    instances, steps, classes, costs = known
    own = table.numbers.setdefault(key, len(table.numbers))
    return OperatorSteps(operator, placement, instances, steps, group.held, classes, costs, number, group.key, own)


@dataclass(frozen=True)
class Rows:
    """Rows of one operator, and the storages that it is the first to touch. Operator and storages are not named, so
    that operators alike share them."""

    steps: Array  # entries and buffers are counted from the operator's own first
    parts: Array
    entries: Array
    work: Array
    grids: tuple[tuple[int, Grid, Array], ...]  # (position in the operator's storages, blocks, their bytes)
    storage: Array  # of every entry, as a position in the operator's storages
    bases: Array  # first block of each of these storages

    @property
    def bytes(self) -> int:
        """What keeping them takes."""
        return 1000 + sum(one.nbytes for one in (self.steps, self.parts, self.entries, self.work, self.storage))


class RowStore:
    """Rows by content, for operators that are alike in one graph, on other machines or under other plans."""

    def __init__(self, most_bytes: int) -> None:
        self._rows: dict[tuple[Any, ...], Rows] = {}
        self._bytes, self._most = 0, most_bytes

    def get(self, key: tuple[Any, ...]) -> Rows | None:
        """The rows kept for a key."""
        return self._rows.get(key)

    def clear(self) -> None:
        """Forget all."""
        self._rows.clear()
        self._bytes = 0

    def keep(self, key: tuple[Any, ...], rows: Rows) -> None:
        """Keep rows; all others go when there are too many."""
        if self._bytes > self._most:
            self.clear()
        self._rows[key] = rows
        self._bytes += rows.bytes


ALIKE = RowStore(64 * 2**20)


class Expansion:
    """Collects rows operator by operator."""

    def __init__(self, workload: Workload, table: CostTable, plan: Plan) -> None:
        self.workload, self.machine, self.plan, self.table = workload, table.machine, plan, table
        self.grids: dict[str, Grid] = {}  # of every storage touched; where its blocks start is in ``base``
        self.base: dict[str, int] = {}
        self.origin: dict[str, OperatorSteps] = {}  # storage → who cut it
        self.finer: dict[str, tuple[tuple[Tensor, Mapping[int, Array]], ...]] = {}  # cuts of who overwrites it by tiles
        self.new: list[tuple[str, Grid, Array]] = []
        self.rows: list[Rows] = []
        self.first: list[list[int]] = []  # by operator: first block of each of its storages
        self.regions: dict[str, Array] = {}  # by slot: bytes that every step of the operator at hand reads into buffers
        self.n_blocks = self.n_steps = 0
        self.bases: list[int] = []
        self.block_sizes: list[Array] = []
        self.storages: list[int] = []  # numbers, in the order of their blocks

    def cut_finer(self, one: OperatorSteps) -> None:
        """Remember how an operator of a group overwrites storages that others have touched (an update its weights): by
        tiles, so that blocks have to be as fine as these, whoever touches them first."""
        for operand, tensor in one.operator.operands:
            if operand.written and tensor.storage in self.workload.overwritten:
                edges = cut_axes(operand, one.operator.nest, one.steps)
                if edges:
                    self.finer[tensor.storage] = (*self.finer.get(tensor.storage, ()), (tensor, edges))

    def _merged(self, tensor: Tensor, edges: Mapping[int, Array]) -> Mapping[int, Array]:
        """Edges of a storage's axes, with those of all who overwrite it by tiles."""
        merged = dict(edges)
        for seen, more in self.finer.get(tensor.storage, ()):
            for axis, there in (axis_map(seen, tensor) or {}).items():
                if there in more:
                    merged[axis] = np.union1d(merged[axis], more[there]) if axis in merged else more[there]
        return merged

    def _finer_content(self, storage: str) -> tuple[Any, ...]:
        return tuple(
            (seen.shape, seen.strides, *((axis, edge.tobytes()) for axis, edge in more.items()))
            for seen, more in self.finer.get(storage, ())
        )

    def grid_of(self, tensor: Tensor, edges: Mapping[int, Array]) -> Grid:
        """The blocks of a storage, cut by whoever touches it first."""
        storage = tensor.storage
        if storage not in self.grids:
            found = self.workload.storages[storage]
            if tensor.elements != found.tensor.elements:
                tensor, edges = found.tensor, {}
            grid = Grid(tensor, self._merged(tensor, edges) if self.finer else edges, self.n_blocks)
            self._note(storage, grid, grid.sizes(found.tensor.bytes))
        return self._grid(storage)

    def _grid(self, storage: str) -> Grid:
        """The blocks of a storage touched before, counted from where they start now."""
        grid = self.grids[storage]
        if grid.base != self.base[storage]:
            grid = self.grids[storage] = replace(grid, base=self.base[storage])
        return grid

    def _note(self, storage: str, grid: Grid, sizes: Array) -> None:
        self.new.append((storage, grid, sizes))
        self.grids[storage], self.base[storage] = grid, self.n_blocks
        self.bases.append(self.n_blocks)
        self.block_sizes.append(sizes)
        self.storages.append(self.workload.storages[storage].number)
        self.n_blocks += len(sizes)

    def add(self, one: OperatorSteps) -> None:
        """Rows of one operator's steps; those of last time if the storages it touches are cut as they were then."""
        one.base, self.new = self.n_steps, []
        storages = one.operator.storages
        cut = (self.origin.get(storage) for storage in storages)
        key: tuple[Any, ...] = (one.number, self.plan.boundary, *(who.number if who else -1 for who in cut))
        if self.finer:
            key = (*key, *(self._finer_content(storage) for storage in storages if storage in self.finer))
        rows = self.table.rows.get(key)
        if rows is None:
            alike = self._content(one)
            rows = ALIKE.get(alike)
            if rows is None:
                rows = self._rows(one)
                ALIKE.keep(alike, rows)
            self.table.rows[key] = rows
        if not self.new:
            for position, grid, sizes in rows.grids:
                self._note(storages[position], grid, sizes)
        for position, *_ in rows.grids:
            self.origin[storages[position]] = one
        self.rows.append(rows)
        self.first.append([self.base[storage] for storage in storages])
        self.n_steps += one.steps.count

    def _content(self, one: OperatorSteps) -> tuple[Any, ...]:
        """Everything that an operator's rows depend on; no names, so that it is equal for operators alike."""
        operator, group, steps = one.operator, one.tiled, one.steps
        storages = []
        for storage in operator.storages:
            grid = self.grids.get(storage)
            cut = (grid.content, self._same_group(one, storage)) if grid else self._finer_content(storage)
            owner = self.workload.storages[storage]
            storages.append((cut, owner.persistent, owner.tensor.shape, owner.tensor.strides, owner.tensor.dtype))
        ranges = tuple((dim, low.tobytes(), high.tobytes()) for dim, (low, high) in steps.ranges.items())
        index = self.machine.memory_index
        places = tuple(
            (self.machine.core_index[core.name], *((slot, index[name]) for slot, name in core.memories))
            for core in one.instances
        )
        pace = self.machine.accelerator.clock_hz / one.instances[0].core.clock_hz
        return (
            operator.alike, steps.tiles, steps.pieces, ranges, one.held, group is not None and group.halo,
            one.placement.split, self.plan.boundary, one.costs, places, pace, tuple(storages),
        )  # fmt: skip

    def entries(self, last: int) -> Array:
        """Entries of the last few operators, with the blocks of every storage counted from where they start now."""
        rows = self.rows[-last:]
        first = np.fromiter(chain.from_iterable(self.first[-last:]), np.int64)
        shift = first - np.concatenate([one.bases for one in rows])
        ends = np.cumsum([len(one.bases) for one in rows])
        before = np.repeat(ends - [len(one.bases) for one in rows], [len(one.entries) for one in rows])
        table = np.concatenate([one.entries for one in rows])
        if len(table):
            table[:, d.E_BLOCK] += shift[np.concatenate([one.storage for one in rows]) + before]
        return table

    def _rows(self, one: OperatorSteps) -> Rows:
        count = one.steps.count
        rows = np.zeros((count, d.STEP_COLUMNS), np.int64)
        cores = np.array([self.machine.core_index[instance.name] for instance in one.instances])
        rows[:, d.CORE] = np.tile(cores, count // len(cores))
        parts = self._parts(one)[one.classes]
        self.regions = {}
        entries, per_step = self._entries(one)
        ends = np.cumsum(per_step)
        rows[:, d.ENTRY_START], rows[:, d.ENTRY_END] = ends - per_step, ends
        work, per_step = self._work(one)
        ends = np.cumsum(per_step)
        rows[:, d.WORK_START], rows[:, d.WORK_END] = ends - per_step, ends
        bases = np.array([self.base[storage] for storage in one.operator.storages], np.int64)
        order = np.argsort(bases)
        storage = order[np.searchsorted(bases[order], entries[:, d.E_BLOCK], side="right") - 1]
        position = {name: place for place, name in enumerate(one.operator.storages)}
        new = tuple((position[name], grid, sizes) for name, grid, sizes in self.new)
        return Rows(rows, parts, entries, work, new, storage, bases)

    def _parts(self, one: OperatorSteps) -> Array:
        """Ticks of a step by use; rounded so that they add up to the ticks of the whole step."""
        table = np.zeros((len(one.costs), 4), np.int64)
        for row, cost in zip(table, one.costs, strict=True):
            instance = one.instances[0]
            total = self.machine.ticks(cost.cycles, instance)
            useful = min(total, self.machine.ticks(cost.useful, instance))
            under = min(total - useful, self.machine.ticks(cost.under_use, instance))
            stall = min(total - useful - under, self.machine.ticks(cost.stall, instance))
            row[:] = useful, under, stall, total - useful - under - stall
        return table

    def _work(self, one: OperatorSteps) -> tuple[Array, Array]:
        """Buffers of every step, one row per memory."""
        count, rows = one.steps.count, list[list[int]]()
        per_step = np.zeros(count, np.int64)
        needed = {slot: size.copy() for slot, size in self.regions.items()}
        for position in range(len(one.operator.operands)):
            slot = one.costs[0].operands[position].slot
            size = np.array([cost.operands[position].buffer for cost in one.costs], np.int64)[one.classes]
            if size.any():
                needed[slot] = needed.get(slot, 0) + size
        if not needed:
            return np.zeros((0, 3), np.int64), per_step
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
            rows += [[where, size, -1] for where, size in found.items()]
        return np.array(rows, np.int64).reshape(-1, 3), per_step

    def _entries(self, one: OperatorSteps) -> tuple[Array, Array]:
        """Entries of every step, operand by operand; merged so that a step's entries stand together."""
        count, operator = one.steps.count, one.operator
        tables: list[Array] = []
        owners: list[Array] = []
        for position, (operand, tensor) in enumerate(operator.operands):
            known = tensor.storage in self.grids
            grid = self._grid(tensor.storage) if known else self._cut(one, operand, tensor)
            if grid.regions is not None and self._same_group(one, tensor.storage) and one.steps.tiles == grid.count:
                tile = (
                    np.arange(one.steps.count) // one.steps.pieces
                )  # each tile has what it needs in a block of its own
                touch = Touch(np.arange(one.steps.count + 1), grid.base + tile, np.ones(one.steps.count))
            else:
                touch = touched_blocks(operand, tensor, operator.nest, one.steps, grid)
            table, owner = self._operand_entries(one, position, touch)
            tables.append(table)
            owners.append(owner)
        for tensor in (*operator.waits, *operator.untouched):
            grid = self.grid_of(tensor, {})
            written = tensor in operator.untouched
            table = np.zeros((grid.count * count, d.ENTRY_COLUMNS), np.int64)
            table[:, d.E_BLOCK] = np.tile(np.arange(grid.base, grid.base + grid.count), count)
            table[:, d.E_KIND] = d.STREAM_WRITE if written else d.WAIT
            if written:
                table[:, d.E_MEMORY] = self._memories(one, "O")[0]
            tables.append(table)
            owners.append(np.repeat(np.arange(count), grid.count))
        if not tables:
            return np.zeros((0, d.ENTRY_COLUMNS), np.int64), np.zeros(count, np.int64)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return np.concatenate(tables)[order], np.bincount(owner, minlength=count)

    def _cut(self, one: OperatorSteps, operand: Operand, tensor: Tensor) -> Grid:
        """Blocks of a storage that this operator is the first to touch."""
        nest, steps = one.operator.nest, one.steps
        edges, group = cut_axes(operand, nest, steps), one.tiled
        if not (operand.written and edges and group and group.halo == "recomputed" and steps.pieces == 1):
            return self.grid_of(tensor, edges)
        regions = -(-box_elements(operand, nest, steps) * dtype_named(operand.dtype).bits // 8)
        grid = Grid(tensor, {}, self.n_blocks, regions)
        self._note(tensor.storage, grid, regions)
        return grid

    def _same_group(self, one: OperatorSteps, storage: str) -> bool:
        return storage not in self.origin or self.origin[storage].tiled == one.tiled

    def _memories(self, one: OperatorSteps, slot: str) -> Array:
        """The memory of a slot on every core of an operator; for a slot without one, the core's first."""
        index = self.machine.memory_index
        return np.array(
            [index[instance.memory_of(slot) or instance.memories[0][1]] for instance in one.instances], np.int64
        )

    def _operand_entries(self, one: OperatorSteps, position: int, touch: Touch) -> tuple[Array, Array]:
        operand, tensor = one.operator.operands[position]
        count = one.steps.count
        owner = np.repeat(np.arange(count), np.diff(touch.pointer))
        table = np.zeros((len(owner), d.ENTRY_COLUMNS), np.int64)
        table[:, d.E_BLOCK] = touch.block
        classes = one.classes[owner]
        parts = [cost.operands[position] for cost in one.costs]
        memories = np.stack([self._memories(one, part.slot) for part in parts])
        table[:, d.E_MEMORY] = memories[classes, owner % len(one.instances)]
        streams = parts[0].streams
        if one.held and not streams:
            table[:, d.E_KIND] = d.HOLD_WRITE if operand.written else d.HOLD_READ
            self._region(one, position, touch, table)
            return table, owner
        size = np.array([part.bytes for part in parts])[classes]
        first = np.array([part.first for part in parts])[classes]
        table[:, d.E_BYTES], table[:, d.E_FIRST] = _shares(size, touch), _shares(first, touch)
        table[:, d.E_FIRST] = np.minimum(table[:, d.E_FIRST], table[:, d.E_BYTES])
        if not operand.written:
            table[:, d.E_KIND] = d.STREAM_READ
            cut = any(dim in one.steps.ranges for dim in operand.dims) if one.placement.split else False
            table[:, d.E_SHARE] = 0 if cut or len(one.instances) == 1 else position + 1
            return table, owner
        persistent = self.workload.storages[tensor.storage].persistent
        keep = self.plan.boundary == "keep" and not persistent and not streams and not _shared_blocks(table, one)
        table[:, d.E_KIND] = d.KEEP_WRITE if keep else d.STREAM_WRITE
        spilled = np.array([part.spilled for part in parts])[classes]
        if not spilled.any():
            return table, owner
        extra = table.copy()
        extra[:, d.E_KIND], extra[:, d.E_BYTES], extra[:, d.E_FIRST] = d.SPILL, _shares(spilled, touch), 0
        both = np.stack([table, extra], axis=1).reshape(-1, d.ENTRY_COLUMNS)
        return both, np.repeat(owner, 2)

    def _region(self, one: OperatorSteps, position: int, touch: Touch, table: Array) -> None:
        """A tile that needs only a part of large blocks (cut along other axes by whoever made them) does not hold them:
        it reads its own region into a buffer. Nor does it hold a block that several memories write parts of."""
        operand, _ = one.operator.operands[position]
        elements = box_elements(operand, one.operator.nest, one.steps)
        region = -(-elements * dtype_named(operand.dtype).bits // 8)
        if operand.written:
            if not _shared_blocks(table, one):
                return
        elif 2 * region.sum() >= self._bytes_of(touch.block):
            return
        table[:, d.E_KIND] = d.STREAM_WRITE if operand.written else d.STREAM_READ
        table[:, d.E_BYTES] = table[:, d.E_FIRST] = _shares(np.repeat(region, np.diff(touch.pointer)), touch)
        slot = one.costs[0].operands[position].slot
        self.regions[slot] = self.regions.get(slot, 0) + region

    def _bytes_of(self, blocks: Array) -> int:
        """Bytes of some blocks of one storage."""
        place = bisect_right(self.bases, int(blocks[0])) - 1
        return int(self.block_sizes[place][blocks - self.bases[place]].sum())

    def finish(self, gangs: Sequence[tuple[int, int, bool, int]], operators: Sequence[OperatorSteps]) -> Expanded:
        """All arrays, with blocks and their uses in gang order. ``gangs``: (first step, last step, leaves
        chip, gangs whose reads go ahead of its writes)."""
        entries = self.entries(len(self.rows))
        steps = np.concatenate([one.steps for one in self.rows])
        parts = np.concatenate([one.parts for one in self.rows])
        work = np.concatenate([one.work for one in self.rows])
        each = np.array([len(one.steps) for one in self.rows])
        steps[:, d.OPERATOR] = np.repeat([one.operator.number for one in operators], each)
        for columns, sizes in (
            ((d.ENTRY_START, d.ENTRY_END), [len(one.entries) for one in self.rows]),
            ((d.WORK_START, d.WORK_END), [len(one.work) for one in self.rows]),
        ):
            before = np.repeat(np.cumsum(sizes) - sizes, each)
            for column in columns:
                steps[:, column] += before
        table = np.array(gangs, np.int64).reshape(-1, 4)
        gang_of = np.zeros(len(steps), np.int64)
        lengths = table[:, 1] - table[:, 0]
        gang_of[_ranges(table[:, 0], lengths)] = np.repeat(np.arange(len(table)), lengths)
        goes_on = _goes_on(steps, gang_of) & np.repeat(
            [one.held for one in operators], [one.steps.count for one in operators]
        )
        parts[goes_on, 3] = 0
        steps[:, d.TICKS] = parts.sum(axis=1)
        entry_gang = np.repeat(gang_of, steps[:, d.ENTRY_END] - steps[:, d.ENTRY_START])
        pairs = np.sort(entries[:, d.E_BLOCK] * (len(table) + 1) + entry_gang)
        owner, uses = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], len(table) + 1)
        groups = np.repeat([one.group for one in operators], [len(one.entries) for one in self.rows])
        blocks = self._blocks(entries, owner, groups)
        return Expanded(
            table, steps, work, entries, blocks, uses.astype(np.int64), parts,
            self._owners(), tuple(operators),
        )  # fmt: skip

    def _blocks(self, entries: Array, owner: Array, groups: Array) -> Array:
        from monet.schedule import residency as r

        sizes = np.concatenate(self.block_sizes)
        storage = self._owners()
        every = list(self.workload.storages.values())
        root = np.array([one.is_root for one in every])[storage]
        persistent = np.array([one.persistent for one in every])[storage]
        blocks = np.zeros((len(sizes), r.BLOCK_COLUMNS), np.int64)
        blocks[:, r.SIZE], blocks[:, r.IN_DRAM] = sizes, root
        blocks[:, r.DRAM_READY] = -1
        blocks[:, r.PERSISTENT] = persistent
        written = d.WRITES[entries[:, d.E_KIND]]
        blocks[:, r.WRITES_LEFT] = np.bincount(entries[written, d.E_BLOCK], minlength=len(sizes))
        blocks[:, r.THROUGH] = persistent | self._leaves_group(entries, len(sizes), groups)
        counts = np.bincount(owner, minlength=len(sizes))
        ends = np.cumsum(counts)
        blocks[:, r.USE], blocks[:, r.USE_END] = ends - counts, ends
        blocks[:, r.PIN], blocks[:, r.DUE] = -1, r.NEVER
        blocks[:, r.DRAM_FROM] = np.where(root, -1, r.NOT_YET)
        blocks[:, r.DRAM_TO] = r.NOT_YET
        return blocks

    def _owners(self) -> Array:
        """The storage of every block."""
        return np.repeat(np.array(self.storages, np.int64), [len(one) for one in self.block_sizes])

    def _leaves_group(self, entries: Array, count: int, groups: Array) -> Array:
        """Blocks that are written through under boundary ``dram``: those that another group uses."""
        if self.plan.boundary != "dram":
            return np.zeros(count, bool)
        low, high = np.full(count, 2**62), np.full(count, -1)
        np.minimum.at(low, entries[:, d.E_BLOCK], groups)
        np.maximum.at(high, entries[:, d.E_BLOCK], groups)
        return np.asarray(low != high)


def _shared_blocks(table: Array, one: OperatorSteps) -> bool:
    """Whether some block is written from more than one memory."""
    if len(one.instances) == 1:
        return False
    first = np.full(int(table[:, d.E_BLOCK].max(initial=0)) + 1, -1)
    first[table[:, d.E_BLOCK]] = table[:, d.E_MEMORY]
    return bool((first[table[:, d.E_BLOCK]] != table[:, d.E_MEMORY]).any())


def _goes_on(steps: Array, gang_of: Array) -> Array:
    """Steps whose core did a tile of the same operator just before."""
    order = np.lexsort((gang_of, steps[:, d.CORE]))
    core, operator = steps[order, d.CORE], steps[order, d.OPERATOR]
    same = np.zeros(len(steps), bool)
    same[order[1:]] = (core[1:] == core[:-1]) & (operator[1:] == operator[:-1])
    return same


def _shares(size: Array, touch: Touch) -> Array:
    """Bytes split over the blocks a step touches, adding up exactly."""
    many = np.diff(touch.pointer)
    if len(many) == 0 or many.max(initial=0) <= 1:
        return size.astype(np.int64)
    upto = np.cumsum(touch.share)
    before = np.repeat(upto[touch.pointer[:-1]] - touch.share[touch.pointer[:-1]], many)
    ends = np.rint((upto - before) * size).astype(np.int64)
    starts = np.roll(ends, 1)
    starts[touch.pointer[:-1]] = 0
    return np.asarray(np.maximum(0, ends - starts))


def _ranges(starts: Array, lengths: Array) -> Array:
    """starts[0] … starts[0]+lengths[0]-1, then the next, …"""
    offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.asarray(np.repeat(starts, lengths) + offsets)


def expand(
    workload: Workload, machine: Machine, plan: Plan, groups: Sequence[TiledGroup], table: CostTable
) -> Expanded:
    """All arrays of a plan. ``groups`` are in execution order, with tiles for every operator."""
    from monet.schedule.ordering import gang_order

    building, found = Expansion(workload, table, plan), list[OperatorSteps]()
    gangs: list[tuple[int, int, bool, int]] = []
    stepped = [
        [operator_steps(operator, group, number, table, plan) for operator in group.operators]
        for number, group in enumerate(groups)
    ]
    for here in stepped:
        for one in here if here[0].held else ():
            building.cut_finer(one)
    for here in stepped:
        for one in here:
            building.add(one)
        found += here
        order = gang_order(here, building)
        # a pipeline over several cores has a tile of every operator in flight on each of them
        ahead = plan.prefetch * len(here) * len({name for one in here for name in one.placement.cores})
        if len(here) > 1 and not here[0].held:  # one after another, as alone
            each = [plan.prefetch * len(one.placement.cores) for one in here]
        else:
            each = [ahead] * len(order)
        gangs += [(*span, plan.boundary == "dram" and i == 0, each[i]) for i, span in enumerate(order)]
    return building.finish(gangs, found)
