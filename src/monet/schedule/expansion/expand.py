"""A plan expanded into the arrays that ``decide`` walks: gangs, steps, buffers, entries, blocks, uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from monet.arrays import I64, U8, I64x2
from monet.errors import ComputerMemoryError
from monet.processes import free_memory_bytes
from monet.schedule.costs.cost_table import CostTable, OperatorSteps, operator_steps
from monet.schedule.expansion.assemble import DRAM, LOCAL, Cut, Placed, assemble
from monet.schedule.expansion.operator_arrays import ALIKE, Cuts, OperatorArrays, arrays_of
from monet.schedule.machine import Machine
from monet.schedule.plan import BOUNDARIES, Plan
from monet.schedule.planning.grouping import TiledGroup
from monet.schedule.planning.ordering import gang_order
from monet.schedule.result_rows import CATEGORIES
from monet.schedule.simulation.records import Blocks, Buffers, Entries, Gangs, Steps, Tables, TickParts
from monet.schedule.workload import Workload

ENTRY_BYTES = 1_100  # that a schedule takes per operand of a tile: 1.09 and 1.10 kB of gpt2-mini and gpt2-small on a100
CHECKED = 1_000_000  # operands of tiles between two looks at the memory that is free
MOST_ORDERS = 10_000  # of the tiles of groups, kept to be looked up


@dataclass(frozen=True)
class Expanded:
    """Everything ``decide`` needs, and what is needed to read its answer."""

    tables: Tables
    parts: TickParts  # of every step
    block_storage: I64  # by block: the number of its storage
    operators: tuple[OperatorSteps, ...]


def too_large(workload: Workload, machine: Machine, needed_bytes: float, found: str) -> ComputerMemoryError:
    """That a schedule takes so much memory of the computer that monet runs on; ``found`` says what for."""
    free = free_memory_bytes()
    have = f", of which {free / 1e9:.1f} GB is free" if free is not None else ""
    return ComputerMemoryError(
        f"{workload.graph.name} on {machine.accelerator.name}: its schedule takes about {needed_bytes / 1e9:,.0f} GB "
        f"of this computer's memory{have}: {found}. Fewer samples, tokens or layers take less, so does a part "
        "(--phases forward)"
    )


class Expansion:
    """Collects arrays operator by operator."""

    def __init__(self, workload: Workload, table: CostTable, plan: Plan) -> None:
        self.workload, self.machine, self.plan, self.table = workload, table.machine, plan, table
        self.cuts = Cuts(workload, table.machine, plan)
        self.stays = plan.boundary != "dram"
        self.operators: list[OperatorSteps] = []
        self.arrays: list[OperatorArrays] = []
        self.keys: list[tuple[Any, ...]] = []
        self.spans: list[I64x2] = []  # by group: (first step, last step) of its gangs, from its own first step
        self.groups: list[int] = []  # by group: first step
        self.ahead: list[int] = []  # gangs whose reads go ahead of a gang's writes, for so many gangs one after another
        self.alike: list[int] = []
        self.finer: dict[str, int] = {}
        self.n_steps = 0
        self.n_entries = 0

    def _check_memory(self, more: int) -> None:
        """Refuse a schedule that this computer has no memory for, before it is taken. ``more``: operands of tiles."""
        before, self.n_entries = self.n_entries, self.n_entries + more
        if before // CHECKED == self.n_entries // CHECKED:
            return
        free = free_memory_bytes()
        if free is not None and self.n_entries * ENTRY_BYTES > free:
            raise self.too_large()

    def too_large(self) -> ComputerMemoryError:
        """That a schedule takes more memory than there is."""
        whole, done = len(self.workload.operators), max(1, len(self.operators))
        needed = self.n_entries * ENTRY_BYTES * max(1.0, whole / done)
        found = f"the first {done:,} of {whole:,} operators have {self.n_entries:,} operands of tiles"
        return too_large(self.workload, self.machine, needed, found)

    def add(self, stepped: OperatorSteps) -> bool:
        """Arrays of an operator's steps; those of last time if the storages it touches are cut as then. False
        if they do not fit: nothing is added."""
        cuts, storages = self.cuts, stepped.storages
        stepped.base = self.n_steps
        key: tuple[Any, ...] = (stepped.number, self.stays, *map(cuts.number.get, storages))
        if not cuts.finer.keys().isdisjoint(storages):  # which of them is cut finer, and how
            finer = [number for number, storage in enumerate(storages) if storage in cuts.finer]
            key = (*key, *((number, self._finer(storages[number])) for number in finer))
        arrays = self.table.arrays.get(key) or self._arrays(stepped, key)
        if not arrays.fits:
            return False
        if arrays.grids:
            cuts.waiting.append((stepped, arrays))
            for position, *_ in arrays.grids:
                cuts.number[storages[position]] = stepped.number
        stepped.addition_costs = arrays.addition_costs
        self.operators.append(stepped)
        self.arrays.append(arrays)
        self.keys.append(key)
        self.n_steps += arrays.counts[0]
        self._check_memory(arrays.counts[1])
        return True

    def _arrays(self, stepped: OperatorSteps, key: tuple[Any, ...]) -> OperatorArrays:
        """Arrays that were not made for these surroundings before; those of an operator alike if there is one."""
        if not self.stays and stepped.tiled is None and not stepped.is_summed:
            staying = self.table.arrays.get((key[0], True, *key[2:]))
            if staying is not None:  # the same plan was expanded with results that stay
                return self.table.arrays.keep(key, staying.leaving_chip())
        self.cuts.catch_up()
        alike = self._content(stepped)
        kept = self.table.store[ALIKE]
        arrays = kept.get(alike)
        if arrays is None:
            arrays = arrays_of(self.cuts, stepped)
            self.cuts.forget_new()  # they are noted in their turn
            kept.keep(alike, arrays)
        self.table.arrays.keep(key, arrays)
        return arrays

    def _finer(self, storage: str) -> int:
        """A number for how groups cut a storage more finely; what it stands for is slow to compare."""
        number = self.finer.get(storage)
        if number is None:
            known, content = self.table.contents, self.cuts.finer_content(storage)
            number = self.finer[storage] = known.setdefault(content, len(known))
        return number

    def _content(self, stepped: OperatorSteps) -> tuple[Any, ...]:
        """Everything that an operator's arrays depend on; no names, so that it is equal for operators alike."""
        operator, group, steps = stepped.operator, stepped.tiled, stepped.steps
        storages = []
        for storage in operator.storages:
            grid = self.cuts.grids.get(storage)
            cut = (grid.content, self.cuts.same_group(stepped, storage)) if grid else self.cuts.finer_content(storage)
            owner = self.workload.storages[storage]
            storages.append((cut, owner.persistent, owner.tensor.shape, owner.tensor.strides, owner.tensor.dtype))
        places = self.table.places(stepped.placement.cores, stepped.held or stepped.is_summed)
        pace = self.machine.accelerator.clock_hz / stepped.instances[0].core.clock_hz
        return (
            operator.alike, steps.content, stepped.held, group is not None and group.halo,
            stepped.placement.split, self.stays, stepped.costs, places, pace, tuple(storages),
            stepped.instances[0].core if stepped.is_summed else None,
        )  # fmt: skip

    def close_group(self, count: int) -> None:
        """The last operators, ``count`` of them, are a group: order its tiles."""
        if count == 1:
            stepped, spans = self.operators[-1], self.arrays[-1].spans
            self.spans.append(spans)
            self.groups.append(stepped.base)
            self.ahead.append(self._ahead(stepped.placement.cores))
            self.alike.append(len(spans))
            return
        members, spans = self.operators[-count:], self._order(count)
        self.spans.append(spans)
        self.groups.append(members[0].base)
        if members[0].tiled:
            # a pipeline over several cores has a tile of every operator in flight on each of them
            self.ahead.append(count * self._ahead(_cores(members)))
            self.alike.append(len(spans))
        else:  # one after another, as alone
            first = [member.base - members[0].base for member in members]
            for number in (np.searchsorted(first, spans[:, 0], side="right") - 1).tolist():
                self.ahead.append(self._ahead(members[number].placement.cores))
                self.alike.append(1)

    def _ahead(self, cores: Collection[str]) -> int:
        """Steps of some cores whose reads may go before the writes of one of them."""
        return len(cores) * self.machine.tiles_ahead(self.plan.prefetch, cores)

    def _order(self, count: int) -> I64x2:
        """Spans of the gangs of the last operators in execution order; that of last time for the same arrays."""
        ahead = self.machine.tiles_ahead(self.plan.prefetch, _cores(self.operators[-count:]))
        orders = self.table.orders
        key = (ahead, *self.keys[-count:])
        found = orders.get(key)
        if found is None:
            if len(orders) >= MOST_ORDERS:
                orders.clear()
            entries = self.entries(count)
            found = gang_order(self.operators[-count:], self.arrays[-count:], entries, self.cuts.n_blocks, ahead)
            orders[key] = found
        return found

    def _shifts(self, last: int) -> I64:
        """How far the blocks of every storage of the last few operators have moved since their arrays were made."""
        self.cuts.catch_up()
        base = self.cuts.base
        first = np.array(
            [base[storage] for stepped in self.operators[-last:] for storage in stepped.storages], np.int64
        )
        return np.asarray(first - np.concatenate([arrays.bases for arrays in self.arrays[-last:]]))

    def entries(self, last: int) -> Entries:
        """Entries of the last few operators, with the blocks of every storage counted from where they start now."""
        by_operator = self.arrays[-last:]
        ends = np.cumsum([len(arrays.bases) for arrays in by_operator])
        before = np.repeat(
            ends - [len(arrays.bases) for arrays in by_operator], [arrays.counts[1] for arrays in by_operator]
        )
        entries = Entries.of(np.concatenate([arrays.entries for arrays in by_operator]))
        entries.block[:] += self._shifts(last)[np.concatenate([arrays.storage for arrays in by_operator]) + before]
        return entries

    def finish(self) -> Expanded:
        """All arrays, with blocks and their uses in gang order."""
        by_operator, boundary = self.arrays, BOUNDARIES.index(self.plan.boundary)
        where = Cut(self._shifts(len(by_operator)), np.concatenate([arrays.storage for arrays in by_operator]))
        about = (
            (
                *arrays.counts,
                stepped.operator.number,
                stepped.group,
                stepped.held and not stepped.costed.refills,
                *stepped.costed.mode,
                self.machine.ticks(stepped.instances[0].core.dispatch_cycles, stepped.instances[0]),
            )
            for stepped, arrays in zip(self.operators, by_operator, strict=True)
        )
        table = np.fromiter(chain.from_iterable(about), np.int64).reshape(len(by_operator), -1)
        first = np.cumsum(table[:, :4], axis=0) - table[:, :4]
        placed = Placed.of(np.concatenate([first, table], axis=1))
        steps, parts, entries, buffers = (
            np.concatenate(some)
            for some in zip(*((o.steps, o.parts, o.entries, o.buffers) for o in by_operator), strict=True)
        )
        _, cut, numbers, flagged = zip(*self.cuts.noted, strict=True)
        sizes, many = np.concatenate(cut), list(map(len, cut))
        owner, flags = np.repeat(np.array(numbers, np.int64), many), np.repeat(np.array(flagged, np.int64), many)
        blocks = Blocks.zeros(len(sizes))
        blocks.bytes[:] = sizes
        blocks.in_dram[:], blocks.persistent[:], _ = self.workload.storage_flags[flags].T
        blocks.through[:], blocks.from_outside[:] = blocks.persistent, boundary == LOCAL
        uses = np.empty(len(entries), np.int64)
        gangs = self._gangs(boundary == DRAM)
        tables = Tables(gangs, Steps.of(steps), Buffers.of(buffers), Entries.of(entries), blocks, uses)
        tick_parts = TickParts.of(parts)
        used = assemble(placed, where, tables, tick_parts, len(self.machine.core_index), boundary)
        self._settle_residents(tables, self.workload.storage_flags[flags][:, 2])
        return Expanded(tables._replace(uses=uses[:used]), tick_parts, owner, tuple(self.operators))

    def _settle_residents(self, tables: Tables, category: U8) -> None:
        """Blocks of what stays on chip between steps lie in the level of the core that uses them first."""
        for name in sorted(self.machine.resident):
            home = self.machine.residence(name)[tables.entries.memory]
            block = tables.entries.block
            mine = (home > 0) & (tables.blocks.in_dram[block] == 1) & (category[block] == CATEGORIES.index(name))
            tables.blocks.resident[block[mine][::-1]] = home[mine][::-1]  # the first is written last

    def _gangs(self, is_dram: bool) -> Gangs:
        """One row per gang, in execution order."""
        many = [len(spans) for spans in self.spans]
        ends = np.cumsum(many)
        gangs = Gangs.zeros(ends[-1])
        first_step = np.repeat(self.groups, many)
        spans = np.concatenate(self.spans)
        gangs.first_step[:], gangs.last_step[:] = spans[:, 0] + first_step, spans[:, 1] + first_step
        gangs.ahead[:] = np.repeat(self.ahead, self.alike)
        gangs.leaves_chip[ends - many] = is_dram
        return gangs


def _cores(members: Iterable[OperatorSteps]) -> frozenset[str]:
    """All cores that some operators run on."""
    return frozenset(chain.from_iterable(member.placement.cores for member in members))


def expand(
    workload: Workload, machine: Machine, plan: Plan, groups: Sequence[TiledGroup], table: CostTable
) -> Expanded:
    """All arrays of a plan. ``groups`` are in execution order, with tiles for every operator."""
    building = Expansion(workload, table, plan)
    by_group = [
        [operator_steps(operator, group, number, table, plan, held=group.held) for operator in group.operators]
        for number, group in enumerate(groups)
    ]
    held = [here for here in by_group if here[0].held]
    made = [frozenset(storage for stepped in here for storage in stepped.operator.written) for here in held]
    overwritten = workload.overwritten(frozenset().union(*made))
    for here, own in zip(held, made, strict=True):
        for stepped in here:
            building.cuts.cut_finer(stepped, own, overwritten)
    for number, (group, here) in enumerate(zip(groups, by_group, strict=True)):
        for stepped in here:
            if not building.add(stepped):  # its weights are then read again with every tile, its sums written and read
                building.add(operator_steps(stepped.operator, group, number, table, plan, held=False))
        building.close_group(len(here))
    try:
        return building.finish()
    except MemoryError:
        raise building.too_large() from None
