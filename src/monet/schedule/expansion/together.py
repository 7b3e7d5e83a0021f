"""Arrays of an operator on cores that work together (``schedule.clusters``): one step for all pieces of a tile.

Blocks of storages are cut by tiles only; a layout says what each core has of one. Of every operand a step takes so many
bytes in all (what several cores read is one multicast, and counts once), so many over the wires of the core that takes
most, and so many over the wires of all. What a core needs of a block that lies in their memories, but not in its own,
comes from the others; a result stays there only if it is made as the block lies.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from monet.arrays import F64, I64, F64x2, I64x2
from monet.formats import format_named
from monet.graph.loop_nest import Operand
from monet.graph.tensor import Tensor
from monet.mapping.cost_store import CostStore
from monet.schedule.costs.step_cost import STREAM_SHARE, StepCost
from monet.schedule.expansion.cuts import Cuts
from monet.schedule.expansion.geometry import (
    Grid,
    Layout,
    StepRanges,
    Touch,
    axis_map,
    axis_range,
    box_elements,
    box_rows,
    cut_axes,
    touched_blocks,
)
from monet.schedule.expansion.operator_arrays import OperatorArrays, over_blocks, shares_of, tick_parts
from monet.schedule.expansion.split_reductions import Adding, Sharing, accumulator_of, adding_cores, sum_cost
from monet.schedule.simulation import records
from monet.schedule.simulation.records import Buffers, Entries, Steps

if TYPE_CHECKING:
    from monet.schedule.costs.cost_table import OperatorSteps


class Amounts(NamedTuple):
    """Bytes by tile: in all, of the core with most, of all cores."""

    bytes: I64
    own: I64
    every: I64

    @classmethod
    def of(cls, size: F64x2, shares: I64) -> Amounts:
        """Of bytes by tile and piece. ``shares``: by piece, equal for those that take the same; 0: for itself."""
        alone = shares == 0
        total = size[:, alone].sum(axis=1)
        if not alone.all():
            _, group = np.unique(shares[~alone], return_inverse=True)
            most = np.zeros((int(group.max()) + 1, len(size)))
            np.maximum.at(most, group, size[:, ~alone].T)
            total = total + most.sum(axis=0)
        found = (total, size.max(axis=1), size.sum(axis=1))
        return cls(*(np.ceil(each - 1e-6).astype(np.int64) for each in found))


class Addition(NamedTuple):
    """The sums of all cores are added up after a tile: one step of cores that each add up a part."""

    tile: int
    entries: I64x2
    costs: tuple[tuple[int, StepCost], ...]  # of every core that adds, by its piece
    memory: int
    buffer: int


def arrays_together(cuts: Cuts, stepped: OperatorSteps, key: Hashable, store: CostStore) -> OperatorArrays:
    """Arrays of one operator, given how the storages it touches are cut; those that nobody has cut it cuts itself."""
    return _Together(cuts, stepped).arrays()


class _Together:
    def __init__(self, cuts: Cuts, stepped: OperatorSteps) -> None:
        self.cuts, self.stepped, self.machine = cuts, stepped, cuts.machine
        self.pieces, self.nest, self.first = stepped.steps, stepped.operator.nest, stepped.instances[0]
        self.steps = _whole_tiles(stepped.steps)
        self.shape = self.pieces.tiles, self.pieces.pieces
        self.cores = stepped.placement.cores
        self.regions: dict[str, I64] = {}
        self.additions: list[Addition] = []

    def arrays(self) -> OperatorArrays:
        stepped = self.stepped
        entries, per_step = self._entries()
        buffers, many = self._buffers()
        fits = not stepped.held or self._fits(per_step, many, Entries.of(entries), Buffers.of(buffers))
        parts, added = self._parts(), self.additions
        if added:
            entries = np.concatenate([entries, *(addition.entries for addition in added)])
            per_step = np.concatenate([per_step, [len(addition.entries) for addition in added]])
            buffers = np.concatenate([buffers, [(addition.memory, addition.buffer) for addition in added]])
            many = np.concatenate([many, np.ones(len(added), np.int64)])
            costs = [addition.costs[0][1] for addition in added]
            parts = np.concatenate([parts, tick_parts(costs, self.first, self.machine)])
        bases = np.array([self.cuts.base[storage] for storage in stepped.storages], np.int64)
        order = np.argsort(bases)
        storage = order[np.searchsorted(bases[order], Entries.of(entries).block, side="right") - 1]
        position = {name: place for place, name in enumerate(stepped.storages)}
        return OperatorArrays(
            self._steps(per_step, many).plain,
            parts,
            entries,
            buffers,
            tuple((position[name], grid, sizes) for name, grid, sizes in self.cuts.new),
            storage,
            bases,
            (len(per_step), len(entries), len(buffers), len(bases)),
            self._spans(),
            tuple(cost for addition in added for cost in addition.costs),
            fits,
            self.steps.count,
            np.concatenate([self._work(), [len(addition.costs) for addition in added] * parts[self.steps.count :, 1]]),
        )

    def _work(self) -> I64:
        """Ticks of all pieces of every tile in which their units are taken."""
        table = tick_parts(self.stepped.costs, self.first, self.machine)
        found: I64 = (table[:, 0] + table[:, 1])[self.stepped.classes].reshape(self.shape).sum(axis=1)
        return found

    # --- steps --------------------------------------------------------------------------------------------------------

    def _by_tile(self, values: I64) -> F64x2:
        """By class of shape → by tile and piece."""
        return np.asarray(values, np.float64)[self.stepped.classes].reshape(self.shape)

    def _parts(self) -> I64x2:
        """Ticks of every tile by use: those of its longest piece."""
        table = tick_parts(self.stepped.costs, self.first, self.machine)
        classes = self.stepped.classes.reshape(self.shape)
        longest = np.argmax(table.sum(axis=1)[classes], axis=1)
        found: I64x2 = table[classes[np.arange(len(classes)), longest]]
        return found

    def _steps(self, entries: I64, buffers: I64) -> Steps:
        steps = Steps.zeros(len(entries))
        steps.core[:] = self.machine.core_index[self.first.name]
        memory_of = {level.name: self.first.memory_of(level.operands[0]) for level in self.first.core.levels}
        busiest = [(0, 0)] * len(self.stepped.costs)
        for number, cost in enumerate(self.stepped.costs):
            for name, cycles in cost.ports:
                memory, ticks = memory_of.get(name, ""), self.machine.ticks(cycles, self.first)
                if memory in self.machine.ported and ticks > busiest[number][1]:
                    busiest[number] = self.machine.memory_index[memory], ticks
        table = np.array(busiest, np.int64)[self.stepped.classes].reshape(*self.shape, 2)
        most = table[np.arange(len(table)), np.argmax(table[:, :, 1], axis=1)]
        steps.port_memory[: len(most)], steps.port_ticks[: len(most)] = most.T
        np.cumsum(entries, out=steps.entry_end)
        np.cumsum(buffers, out=steps.buffer_end)
        steps.entry_start[:], steps.buffer_start[:] = steps.entry_end - entries, steps.buffer_end - buffers
        return steps

    def _spans(self) -> I64x2:
        """(first step, last step) of the gangs in order: tiles, and additions right after the last tile of each."""
        first = np.arange(self.steps.count)
        spans = np.stack([first, first + 1], axis=1)
        if not self.additions:
            return spans
        after = np.array([addition.tile for addition in self.additions]) + 1
        where = len(first) + np.arange(len(after))
        return np.insert(spans, after, np.stack([where, where + 1], axis=1), axis=0)

    def _buffers(self) -> tuple[I64x2, I64]:
        """Buffers of every step, one row per memory, and how many each has: those of the piece that needs most."""
        stepped, index = self.stepped, self.machine.memory_index
        needed: dict[int, I64] = {}
        for slot, size in self.regions.items():
            memory = index[self.first.memory_of(slot)]
            needed[memory] = needed.get(memory, 0) + size
        by_class: dict[int, I64] = {}
        for position in range(len(stepped.operator.operands)):
            size = np.array([cost.operands[position].buffer for cost in stepped.costs], np.int64)
            if size.any():
                memory = index[self.first.memory_of(stepped.costs[0].operands[position].slot)]
                by_class[memory] = by_class.get(memory, 0) + size
        for memory, size in by_class.items():
            needed[memory] = needed.get(memory, 0) + self._by_tile(size).max(axis=1).astype(np.int64)
        if not needed:
            return Buffers.zeros(0).plain, np.zeros(self.steps.count, np.int64)
        sizes = np.stack([np.broadcast_to(size, self.steps.count) for size in needed.values()])
        where = np.broadcast_to(np.array(list(needed))[:, None], sizes.shape)
        taken = sizes.T > 0
        return np.stack([where.T[taken], sizes.T[taken]], axis=1), taken.sum(axis=1)

    def _fits(self, per_step: I64, many: I64, entries: Entries, buffers: Buffers) -> bool:
        """Whether buffers and held blocks of every tile fit; with everything else evicted, that is enough."""
        memories, tile = len(self.machine.capacity), np.arange(self.steps.count)
        needed = np.zeros((self.steps.count, memories), np.int64)
        np.add.at(needed, (np.repeat(tile, many), buffers.memory), buffers.bytes)
        held = (entries.kind == records.HOLD_READ) | (entries.kind == records.HOLD_WRITE)
        place = np.repeat(tile, per_step)[held] * memories + entries.memory[held]
        pairs = np.unique(place * self.cuts.n_blocks + entries.block[held])
        place, block = np.divmod(pairs, self.cuts.n_blocks)
        np.add.at(needed.reshape(-1), place, np.concatenate([note[4] for note in self.cuts.noted])[block])
        return bool((needed <= self.machine.capacity).all())

    # --- operands -----------------------------------------------------------------------------------------------------

    def _entries(self) -> tuple[I64x2, I64]:
        """Entries of every step, operand by operand, and how many each step has."""
        tables: list[I64x2] = []
        owners: list[I64] = []
        operator = self.stepped.operator
        for position, (operand, tensor) in enumerate(operator.operands):
            for table, owner in self._operand_entries(position, operand, tensor):
                tables.append(table)
                owners.append(owner)
        for tensor in (*operator.waits, *operator.untouched):
            grid = self.cuts.grid_of(tensor, {}, self.stepped)
            entries = Entries.zeros(grid.count * self.steps.count)
            entries.block[:] = np.tile(np.arange(grid.base, grid.base + grid.count), self.steps.count)
            entries.kind[:] = records.STREAM_WRITE if tensor in operator.untouched else records.WAIT
            if tensor in operator.untouched:
                entries.memory[:] = self._memory("O")
            tables.append(entries.plain)
            owners.append(np.repeat(np.arange(self.steps.count), grid.count))
        if not tables:
            return Entries.zeros(0).plain, np.zeros(self.steps.count, np.int64)
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        return np.concatenate(tables)[order], np.bincount(owner, minlength=self.steps.count)

    def _memory(self, slot: str) -> int:
        """The memory of a slot; for a slot without one, the core's first."""
        return self.machine.memory_index[self.first.memory_of(slot) or self.first.memories[0][1]]

    def _operand_entries(self, position: int, operand: Operand, tensor: Tensor) -> Iterator[tuple[I64x2, I64]]:
        """Entries of an operand, and their steps; before those of a sum that goes on, what it reads of it."""
        stepped = self.stepped
        is_sum = position in stepped.sums
        touch, local = self._sums(position) if is_sum else self._blocks(operand, tensor)
        parts = [cost.operands[position] for cost in stepped.costs]
        owner = np.repeat(np.arange(self.steps.count), np.diff(touch.pointer))
        entries = Entries.zeros(len(owner))
        entries.block[:], entries.memory[:] = touch.block, self._memory(parts[0].slot)
        shares = np.zeros(self.shape[1], np.int64) if operand.written else shares_of(stepped, position)
        is_as_it_lies = bool((local >= 1).all())
        wider = self._sum_bits(operand) / operand.bits_per_element if is_sum else 1.0  # sums leave as they are added up
        spills = operand.written and any(part.spilled for part in parts)
        if stepped.held and not parts[0].streams:
            region = self._box_bytes(operand) * wider
            if is_as_it_lies and (operand.written or 2 * region.sum() >= self.cuts.bytes_of(touch.block)):
                entries.kind[:] = records.HOLD_WRITE if operand.written else records.HOLD_READ
                entries.every[:] = _over(Amounts.of(region, shares).every, touch)
                yield entries.plain, owner
                return
            entries.kind[:] = records.STREAM_WRITE if operand.written else records.STREAM_READ
            self._fill(entries, region, region, shares, local, touch)
            rows = box_rows(operand, tensor, self.nest, self.pieces).reshape(self.shape).sum(axis=1)
            entries.rows[:] = np.ceil(np.repeat(rows, np.diff(touch.pointer)) * touch.share)
            slot, most = parts[0].slot, region.max(axis=1).astype(np.int64)
            self.regions[slot] = self.regions.get(slot, 0) + most
            spills = False
        else:
            size, first, spilled = np.array([(part.bytes, part.first, part.spilled) for part in parts], np.int64).T
            entries.kind[:] = records.STREAM_READ
            if operand.written:
                storage = None if is_sum else self.cuts.workload.storages[tensor.storage]
                keep = not (storage and storage.persistent) and not parts[0].streams and is_as_it_lies
                entries.kind[:] = records.KEEP_WRITE if keep else records.STREAM_WRITE
            elif operand.picks:
                rows = box_rows(operand, tensor, self.nest, self.pieces).reshape(self.shape).sum(axis=1)
                entries.rows[:] = np.ceil(np.repeat(rows, np.diff(touch.pointer)) * touch.share)
            self._fill(entries, self._by_tile(size) * wider, self._by_tile(first) * wider, shares, local, touch)
        if operand.written:
            yield from self._read_back(operand, entries, owner, touch)
        if not spills:
            yield entries.plain, owner
            return
        both = np.repeat(entries.plain, 2, axis=0)  # each with what it spills right behind it
        behind = Entries.of(both).some(slice(1, None, 2))
        behind.kind[:], behind.first[:] = records.SPILL, 0
        amounts = Amounts.of(self._by_tile(spilled), shares)
        behind.bytes[:], behind.own[:], behind.every[:] = (_over(each, touch) for each in amounts)
        yield both, np.repeat(owner, 2)

    def _fill(self, entries: Entries, size: F64x2, first: F64x2, shares: I64, local: F64x2, touch: Touch) -> None:
        """Bytes that entries take, given those of every piece."""
        all_of_it, begin = Amounts.of(size, shares), Amounts.of(first, shares)
        entries.bytes[:], entries.own[:], entries.every[:] = (_over(each, touch) for each in all_of_it)
        entries.first[:] = np.minimum(_over(begin.bytes, touch), entries.bytes)
        if entries.kind[0] == records.STREAM_READ and (local < 1).any():
            away = Amounts.of(size * (1 - local), shares)
            entries.away[:] = np.minimum(_over(away.bytes, touch), entries.bytes)
            entries.own_away[:] = np.minimum(_over(away.own, touch), entries.own)

    def _box_bytes(self, operand: Operand) -> F64x2:
        """Bytes of an operand that every piece touches, by tile."""
        elements = box_elements(operand, self.nest, self.pieces)
        idle = np.zeros(self.pieces.count, bool)
        for low, high in self.pieces.ranges.values():
            idle |= low >= high
        found = np.where(idle, 0, -(-elements * operand.bits_per_element // 8))
        return found.astype(np.float64).reshape(self.shape)

    def _read_back(self, operand: Operand, entries: Entries, owner: I64, touch: Touch) -> Iterator[tuple[I64x2, I64]]:
        """Tiles of a sum read what tiles before them have summed up, unless it lies where they continue it."""
        operator = self.stepped.operator
        if not (operator.tileable - operator.splittable) & self.steps.ranges.keys() or self.steps.tiles == 1:
            return
        first = np.full(int(entries.block.max()) + 1, self.steps.tiles)
        np.minimum.at(first, entries.block, owner)
        again = owner > first[entries.block]
        extra = Entries.of(entries.plain[again])
        extra.kind[:] = records.STREAM_READ
        amounts = Amounts.of(self._box_bytes(operand), np.zeros(self.shape[1], np.int64))
        extra.bytes[:], extra.own[:], extra.every[:] = (_over(each, touch)[again] for each in amounts)
        extra.first[:] = extra.bytes // STREAM_SHARE
        yield extra.plain, owner[again]

    # --- blocks -------------------------------------------------------------------------------------------------------

    def _blocks(self, operand: Operand, tensor: Tensor) -> tuple[Touch, F64x2]:
        """The blocks of a storage that every step touches, and the share of what each piece needs that its core
        has if they lie in the memories of the cores."""
        if tensor.storage in self.cuts.grids:
            grid = self.cuts.grid(tensor.storage)
            return self._touch(operand, tensor, grid), self._local(operand, tensor, grid)
        edges, group = cut_axes(operand, self.nest, self.steps), self.stepped.tiled
        alone = self.shape[1] == 1
        if operand.written and edges and group and group.halo == "recomputed" and alone:
            regions = self._box_bytes(operand)[:, 0].astype(np.int64)
            layout = Layout(self.cores, self.steps.tiles, None, regions)
            grid = Grid(tensor, {}, self.cuts.n_blocks, regions, layout)
            self.cuts.cut(tensor.storage, grid, regions, self.stepped)
            return self._touch(operand, tensor, grid), np.ones(self.shape)
        grid, sizes = self.cuts.new_grid(tensor, edges)
        touch = self._touch(operand, tensor, grid)
        boxes, own = self._boxes(operand, tensor, grid), np.zeros(grid.count, np.int64)
        most = _over(self._box_bytes(operand).max(axis=1).astype(np.int64), touch)
        np.maximum.at(own, touch.block - grid.base, most)
        layout = Layout(self.cores, self.steps.tiles, boxes, np.clip(own, -(-sizes // self.shape[1]), sizes))
        grid = Grid(grid.tensor, grid.edges, grid.base, None, layout)
        self.cuts.cut(tensor.storage, grid, sizes, self.stepped)
        return touch, np.full(self.shape, 0.0 if boxes is None and not alone else 1.0)

    def _touch(self, operand: Operand, tensor: Tensor, grid: Grid) -> Touch:
        in_group = grid.regions is not None and self.cuts.same_group(self.stepped, tensor.storage)
        if in_group and self.steps.tiles == grid.count:  # each tile has what it needs in a block of its own
            many = self.steps.count
            return Touch(np.arange(many + 1), grid.base + np.arange(many), np.ones(many))
        return touched_blocks(operand, tensor, self.nest, self.steps, grid)

    def _boxes(self, operand: Operand, tensor: Tensor, grid: Grid) -> I64 | None:
        """(start, end) of what every piece needs along every axis that blocks have; None where it cannot be said."""
        axes = axis_map(tensor, grid.tensor)
        if operand.picks or axes is None or len(operand.indices) != len(tensor.shape):
            return None
        found = []
        for axis, size in enumerate(grid.tensor.shape):
            low: I64 | int = 0
            high: I64 | int = size
            if size > 1:
                here = axes[axis]
                low, high, _ = axis_range(operand.indices[here], tensor.shape[here], self.nest, self.pieces)
            found.append([np.broadcast_to(low, self.pieces.count), np.broadcast_to(high, self.pieces.count)])
        return np.array(found, np.int64).reshape(len(found), 2, self.pieces.count)

    def _local(self, operand: Operand, tensor: Tensor, grid: Grid) -> F64x2:
        """The share of what each piece needs that its own core has."""
        nothing, layout = np.zeros(self.shape), grid.layout
        if layout is None:
            return nothing
        if grid.regions is not None:
            same = layout.cores == self.cores and self.cuts.same_group(self.stepped, tensor.storage)
            return np.full(self.shape, float(same and self.steps.tiles == grid.count))
        if layout.cores == self.cores and len(self.cores) == 1:
            return np.ones(self.shape)
        boxes, theirs = self._boxes(operand, tensor, grid), layout.boxes
        if boxes is None or theirs is None:
            return nothing
        if layout.cores == self.cores and layout.tiles == self.steps.tiles and np.array_equal(boxes, theirs):
            return np.ones(self.shape)
        if layout.tiles > 1 or self.steps.tiles > 1:
            return nothing
        place = {core: number for number, core in enumerate(layout.cores)}
        there = np.array([place.get(core, -1) for core in self.cores])
        share: F64 = (there >= 0).astype(np.float64)
        for (low, high), (their_low, their_high) in zip(boxes, theirs, strict=True):
            common = np.minimum(high, their_high[there]) - np.maximum(low, their_low[there])
            share = share * np.maximum(0, common) / np.maximum(1, high - low)
        return share.reshape(self.shape)

    # --- sums ---------------------------------------------------------------------------------------------------------

    def _sums(self, position: int) -> tuple[Touch, F64x2]:
        """Split along a sum: each core has sums of its own, in a storage for all of these. Notes what is added up when,
        each block right after the last tile that adds to it."""
        stepped, core = self.stepped, self.first.core
        operand, tensor = stepped.operator.operands[position]
        sharing = Sharing.of(stepped.placement.split, operand)
        bits, wide = operand.bits_per_element, self._sum_bits(operand)
        part = math.prod(operand.shape) * sharing.sums / self.shape[1]  # elements that the same cores have sums of
        adders = int(adding_cores(np.array(part), np.array(float(sharing.sums)), core))
        result, touch, lies = self._result(operand, tensor, sharing, adders)
        sizes = self.cuts.sizes_of(result)
        own = _over((self._box_bytes(operand).max(axis=1) * wide / bits).astype(np.int64) + 1, touch)
        most = np.zeros(result.count, np.int64)
        np.maximum.at(most, touch.block - result.base, own)
        every = -(-sizes * sharing.sums * wide // bits)
        layout = Layout(self.cores, self.steps.tiles, None, np.minimum(most, every))
        grid = Grid(result.tensor, {}, self.cuts.n_blocks, every.astype(np.int64), layout)
        self.cuts.cut(stepped.sums[position], grid, every.astype(np.int64), stepped)
        memory = self._memory(stepped.costs[0].operands[position].slot)
        last = np.full(result.count, -1)
        np.maximum.at(last, touch.block - result.base, np.repeat(np.arange(self.steps.count), np.diff(touch.pointer)))
        adding = Adding.of(stepped.operator, operand, core)
        pieces = sharing.members[:, np.arange(adders) * sharing.sums // adders].ravel().tolist()
        for tile in sorted(set(last[last >= 0].tolist())):
            these = np.flatnonzero(last == tile)
            elements = math.ceil(int(sizes[these].sum()) * 8 / bits / len(pieces))
            cost = sum_cost(adding, elements, sharing.sums)
            rows = [
                row
                for block in these.tolist()
                for row in _addition(block, int(sizes[block]), result, grid, sharing.sums, len(pieces), lies)
            ]
            taken = int(every[these].max()) // len(pieces)
            room = 2 * min(-(-taken // STREAM_SHARE), int(self.machine.capacity[memory]) // STREAM_SHARE)
            table = Entries.of(np.array(rows, np.int64))
            table.memory[:] = memory
            self.additions.append(Addition(tile, table.plain, tuple((p, cost) for p in pieces), memory, max(1, room)))
        return Touch(touch.pointer, touch.block - result.base + grid.base, touch.share), np.ones(self.shape)

    def _sum_bits(self, result: Operand) -> float:
        return format_named(accumulator_of(self.stepped.operator, self.first.core, result)).bits

    def _result(self, operand: Operand, tensor: Tensor, sharing: Sharing, adders: int) -> tuple[Grid, Touch, bool]:
        """The blocks of a result that is added up, those that tiles touch, and whether it may stay with those who
        add."""
        if tensor.storage in self.cuts.grids:
            grid = self.cuts.grid(tensor.storage)
            return grid, self._touch(operand, tensor, grid), False
        grid, sizes = self.cuts.new_grid(tensor, cut_axes(operand, self.nest, self.steps))
        own = -(-sizes // (adders * len(sharing.members)))
        grid = Grid(grid.tensor, grid.edges, grid.base, None, Layout(self.cores, self.steps.tiles, None, own))
        self.cuts.cut(tensor.storage, grid, sizes, self.stepped)
        return grid, self._touch(operand, tensor, grid), True


def _addition(
    block: int, size: int, result: Grid, sums: Grid, parts: int, adders: int, lies: bool
) -> Iterator[tuple[int, ...]]:
    """Entries (the fields of ``Entries``) that add up the sums of all cores in one block of a result: each core that
    adds reads those of the others, and writes its part."""
    assert sums.regions is not None
    every = int(sums.regions[block])
    others, each = every * (parts - 1) // parts, -(-every // adders)
    yield (
        sums.base + block, 0, records.STREAM_READ, every, every // STREAM_SHARE, 0, 0,
        each, every, others, each * (parts - 1) // parts,
    )  # fmt: skip
    kind = records.KEEP_WRITE if lies else records.STREAM_WRITE
    yield result.base + block, 0, kind, size, size // STREAM_SHARE, 0, 0, -(-size // adders), size, 0, 0


def _over(size: I64, touch: Touch) -> I64:
    """Bytes of every step split over the blocks that it touches."""
    return over_blocks(np.repeat(size, np.diff(touch.pointer)), touch)


def _whole_tiles(steps: StepRanges) -> StepRanges:
    """The tiles of some steps, with all pieces of each."""
    shape = steps.tiles, steps.pieces
    ranges = {
        dim: (low.reshape(shape).min(axis=1), high.reshape(shape).max(axis=1))
        for dim, (low, high) in steps.ranges.items()
        if steps.tiles > 1
    }
    return StepRanges(steps.tiles, steps.tiles, 1, ranges)
