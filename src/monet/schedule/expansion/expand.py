"""A plan expanded into the arrays that ``decide`` walks: gangs, steps, buffers, entries, blocks, uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from monet.arrays import I64, I64x2, U8x2
from monet.errors import ComputerMemoryError
from monet.processes import free_memory_bytes
from monet.schedule.costs.cost_table import CostTable, OperatorSteps, operator_steps
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.dram_places import places_of_storages
from monet.schedule.expansion.assemble import DRAM, LOCAL, Cut, Placed, assemble
from monet.schedule.expansion.cuts import Cuts
from monet.schedule.expansion.operator_arrays import ALIKE, KnownArrays, OperatorArrays, arrays_of
from monet.schedule.expansion.together import arrays_together
from monet.schedule.machine import Machine
from monet.schedule.plan import BOUNDARIES, Plan
from monet.schedule.planning.grouping import TiledGroup
from monet.schedule.planning.ordering import gang_order
from monet.schedule.result_rows import CATEGORIES
from monet.schedule.simulation.records import Blocks, Buffers, Entries, Gangs, Steps, Tables, TickParts
from monet.schedule.simulation.workspace import Rows, Workspace
from monet.schedule.workload import CATEGORY, Operator, Workload

ENTRY_BYTES = 1_100  # that a schedule takes per operand of a tile: 1.09 and 1.10 kB of gpt2-mini and gpt2-small on a100
CHECKED = 1_000_000  # operands of tiles between two looks at the memory that is free
MOST_ORDERS = 10_000  # of the tiles of groups, kept to be looked up
ROW, GROUP = 10, 5  # columns of ``Placed`` from counts on, and which of them is the group
OF_STEPS = tuple(field.name for field in fields(OperatorSteps))


@dataclass(frozen=True, slots=True)
class PlannedSteps(OperatorSteps):
    """An operator's steps in a plan: the number of its group, the first of its steps, and of a split along a sum what
    is added up after them: (piece whose core adds, cost)."""

    group: int
    base: int
    addition_costs: tuple[tuple[int, StepCost], ...]


class Origins(NamedTuple):
    """What a draft was made of, for another of the same graph to take over what has not changed: by operator, in
    execution order, its arrays with their key, its row of ``Placed`` (from its counts on) and, if it is alone, how many
    gangs are read ahead of its writes; of every storage, numbers for how it is cut, and for how groups cut it more
    finely. ``by``: what of a plan operators alone depend on besides their placements; ``prefetch``: as in the plan."""

    known: tuple[KnownArrays, ...]
    keys: tuple[tuple[Any, ...], ...]
    rows: I64x2
    ahead: tuple[int, ...]
    by: tuple[float, str]
    prefetch: int | None
    cuts: Mapping[str, int]
    finer: Mapping[str, int]


@dataclass(frozen=True)
class Draft:
    """Arrays of a plan as far as they are the same for every boundary: rows of all operators one after another, still
    counted from the first of each (``assemble`` numbers them)."""

    workload: Workload
    machine: Machine
    steps_of: tuple[OperatorSteps, ...]  # by operator, in execution order
    arrays_of: tuple[OperatorArrays, ...]
    group_of: tuple[int, ...]
    placed: Placed
    cut: Cut
    gangs: Gangs  # nothing leaves the chip
    group_starts: I64  # the first gang of every group
    block_bytes: I64
    block_own: I64  # see ``Blocks``
    block_storage: I64
    block_flags: U8x2
    origins: Origins

    def expanded(self, boundary: str, room: Workspace | None = None) -> Expanded:
        """The arrays of the plan with results that stay as ``boundary`` says. They lie in ``room``, if it is given:
        they are good until the next that do."""
        try:
            return self._expanded(BOUNDARIES.index(boundary), room)
        except MemoryError:
            entries = int(self.placed.entries.sum())
            found = f"its operators have {entries:,} operands of tiles"
            raise too_large(self.workload, self.machine, entries * ENTRY_BYTES, found) from None

    def _expanded(self, number: int, room: Workspace | None) -> Expanded:
        every = self.arrays_of
        steps = _joined(Steps, [each.steps for each in every], room)
        parts = _joined(TickParts, [each.parts for each in every], room)
        entries = _joined(Entries, [each.entries for each in every], room)
        buffers = _joined(Buffers, [each.buffers for each in every], room)
        blocks = Blocks.zeros(len(self.block_bytes))
        blocks.bytes[:], blocks.own[:] = self.block_bytes, self.block_own
        blocks.in_dram[:], blocks.persistent[:], _ = self.block_flags.T
        blocks.through[:], blocks.from_outside[:] = blocks.persistent, number == LOCAL
        if self.machine.routes.places > 1:
            blocks.place[:] = self._places[self.block_storage]
        gangs = self.gangs
        if number == DRAM:
            gangs = gangs.copied()
            gangs.leaves_chip[self.group_starts] = 1
        uses = np.empty(len(entries), np.int64)
        tables, machine = Tables(gangs, steps, buffers, entries, blocks, uses), self.machine
        used = assemble(self.placed, self.cut, tables, parts, len(machine.cores), machine.first_outside, number)
        self._settle_residents(tables)
        return Expanded(tables._replace(uses=uses[:used]), parts, self.block_storage, self)

    @cached_property
    def _places(self) -> I64:
        """By storage, where it lies in several DRAMs."""
        return places_of_storages(self.workload, self.machine, self.steps_of)

    def _settle_residents(self, tables: Tables) -> None:
        """Blocks of what stays on chip between steps lie in the level of the core that uses them first."""
        for name in sorted(self.machine.resident):
            home = self.machine.residence(name)[tables.entries.memory]
            block, category = tables.entries.block, self.block_flags[:, CATEGORY]
            mine = (home > 0) & (tables.blocks.in_dram[block] == 1) & (category[block] == CATEGORIES.index(name))
            tables.blocks.resident[block[mine][::-1]] = home[mine][::-1]  # the first is written last

    @property
    def numbers(self) -> tuple[int, ...]:
        """Equal for drafts of one plan that are equal."""
        return tuple(steps.number for steps in self.steps_of)

    @property
    def operators(self) -> tuple[PlannedSteps, ...]:
        """The steps of every operator, in execution order."""
        rows = zip(self.steps_of, self.arrays_of, self.group_of, self.placed.first_step.tolist(), strict=True)
        values = attrgetter(*OF_STEPS)
        made: Callable[..., PlannedSteps] = PlannedSteps
        return tuple([made(*values(steps), group, base, arrays.addition_costs) for steps, arrays, group, base in rows])


def _joined(kind: type[Rows], parts: Sequence[I64x2], room: Workspace | None) -> Rows:
    """Rows of a table, one part after another."""
    if room is None:
        return kind.of(np.concatenate(parts))
    found = room.table(kind, sum(map(len, parts)))
    np.concatenate(parts, out=found.plain)
    return found


class Alike(NamedTuple):
    """Operators with the same costs and additions on the same cores: the first of them, the first step of each, and
    their numbers."""

    first: PlannedSteps
    base: I64
    number: I64


@dataclass(frozen=True)
class Expanded:
    """Everything ``decide`` needs, and what is needed to read its answer."""

    tables: Tables
    parts: TickParts  # of every step
    block_storage: I64  # by block: the number of its storage
    draft: Draft

    @cached_property
    def operators(self) -> tuple[PlannedSteps, ...]:
        """The steps of every operator, in execution order."""
        return self.draft.operators

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """All operators, those together that are alike."""
        found: dict[tuple[int, int, tuple[str, ...]], list[PlannedSteps]] = {}
        for stepped in self.operators:
            key = id(stepped.costed), id(stepped.addition_costs), stepped.placement.cores
            found.setdefault(key, []).append(stepped)
        return tuple(
            Alike(
                like[0],
                np.array([stepped.base for stepped in like], np.int64),
                np.array([stepped.operator.number for stepped in like], np.int64),
            )
            for like in found.values()
        )


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
    """Collects arrays operator by operator. ``like``: another draft of the graph; operators with the same steps, of
    which all that they touch is cut as there, have the same arrays."""

    def __init__(self, workload: Workload, table: CostTable, prefetch: int | None, like: Draft | None) -> None:
        self.workload, self.machine, self.table, self.prefetch = workload, table.machine, table, prefetch
        self.like = like
        self.cuts = Cuts(workload, table.machine)
        self.operators: list[OperatorSteps] = []
        self.known: list[KnownArrays] = []
        self.keys: list[tuple[Any, ...]] = []
        self.first: list[int] = []  # by operator: its first step
        self.group_of: list[int] = []  # by operator
        self.other: list[int] = []  # operators that are not as in ``like``
        self.elsewhere: set[int] = set()  # operators, by number, that were added here and not there so far, or reverse
        self.moved: set[str] = set()  # storages that are cut in another way than there
        self.spans: list[I64x2] = []  # by group: (first step, last step) of its gangs, from its own first step
        self.groups: list[int] = []  # by group: first step
        self.ahead: list[int] = []  # gangs whose reads go ahead of a gang's writes, for so many gangs one after another
        self.alike: list[int] = []
        self.alone: list[int] = []  # by operator: the same, or -1 if it is in a group
        self.finer: dict[str, int] = {}
        self.ahead_of: dict[frozenset[tuple[str, ...]], int] = {}
        self.ahead_alone: dict[tuple[str, ...], int] = {}
        self.n_steps = 0
        self.n_entries = 0
        self.check_at = CHECKED

    def _check_memory(self) -> None:
        """Refuse a schedule that this computer has no memory for, before it is taken."""
        self.check_at = (self.n_entries // CHECKED + 1) * CHECKED
        free = free_memory_bytes()
        if free is not None and self.n_entries * ENTRY_BYTES > free:
            raise self.too_large()

    def too_large(self) -> ComputerMemoryError:
        """That a schedule takes more memory than there is."""
        whole, done = len(self.workload.operators), max(1, len(self.operators))
        needed = self.n_entries * ENTRY_BYTES * max(1.0, whole / done)
        found = f"the first {done:,} of {whole:,} operators have {self.n_entries:,} operands of tiles"
        return too_large(self.workload, self.machine, needed, found)

    def note_finer(self) -> None:
        """Groups have said how they cut storages; whoever touches what they cut in another way than in ``like`` has
        other arrays."""
        before = self.like.origins.finer if self.like else {}
        now = {storage: self._finer(storage) for storage in self.cuts.finer}
        self.moved = {storage for storage in {**before, **now} if before.get(storage) != now.get(storage)}

    def take_over(self, by_group: Sequence[Sequence[OperatorSteps]], group: int) -> int:
        """Add the groups from this number on that are operators alone, as far as they are what stood in their place in
        ``like``, and all that they touch is cut as there; returns the number of the first that is not."""
        like, place, end = self.like, len(self.operators), group
        if like is None or like.origins.prefetch != self.prefetch or self.elsewhere:
            return group
        stood = zip(islice(like.steps_of, place, None), islice(like.origins.ahead, place, None), strict=True)
        for here, (there, ahead) in zip(islice(by_group, group, None), stood, strict=False):
            if here[0] is not there or len(here) > 1 or ahead < 0 or not self.moved.isdisjoint(there.storages):
                break
            end += 1
        same = slice(place, place + end - group)
        operators, known, first = like.steps_of[same], like.origins.known[same], list[int]()
        next_step, entries = self.n_steps, 0
        for steps, each in zip(operators, known, strict=True):
            if each.cuts:
                self._note_cuts(steps, each)
            first.append(next_step)
            more = each.arrays.counts
            next_step += more[0]
            entries += more[1]
        self.operators += operators
        self.known += known
        self.keys += like.origins.keys[same]
        self.first += first
        self.group_of += range(group, end)
        self.groups += first
        self.spans += [each.arrays.spans for each in known]
        self.alike += map(len, self.spans[len(self.spans) - len(known) :])
        self.ahead += like.origins.ahead[same]
        self.alone += like.origins.ahead[same]
        self._count(next_step - self.n_steps, entries)
        return end

    def _note_cuts(self, stepped: OperatorSteps, known: KnownArrays) -> None:
        """Note how an operator cuts storages."""
        self.cuts.waiting.append((stepped, known.arrays))
        for position, new in known.cuts:
            self.cuts.number[stepped.storages[position]] = new

    def _count(self, steps: int, entries: int) -> None:
        """Count what is added; refuse what this computer has no memory for."""
        self.n_steps += steps
        self.n_entries += entries
        if self.n_entries >= self.check_at:
            self._check_memory()

    def add(self, stepped: OperatorSteps, group: int) -> bool:
        """Arrays of an operator's steps; those of last time if the storages it touches are cut as then. False
        if they do not fit: nothing is added."""
        place, number = len(self.operators), stepped.operator.number
        before = self.like.steps_of[place] if self.like else None
        if before is stepped and not self.elsewhere and self.moved.isdisjoint(stepped.storages):
            assert self.like is not None
            known, key = self.like.origins.known[place], self.like.origins.keys[place]
        else:
            inner = self._key(stepped)
            known, key = (
                self.table.arrays.get(inner) or self._arrays(stepped, inner),
                (stepped.operator.identity, inner),
            )
            if not known.arrays.fits:
                return False
            self.other.append(place)
            if before is not None and before.operator is not stepped.operator:
                self.elsewhere ^= {before.operator.number, number}
            if self.like is not None:
                cut = self.like.origins.cuts
                for position, new in known.cuts:
                    if cut.get(stepped.storages[position]) != new:
                        self.moved.add(stepped.storages[position])
        if known.cuts:
            self._note_cuts(stepped, known)
        self.operators.append(stepped)
        self.known.append(known)
        self.keys.append(key)
        self.first.append(self.n_steps)
        self.group_of.append(group)
        self._count(*known.arrays.counts[:2])
        return True

    def _key(self, stepped: OperatorSteps) -> tuple[Any, ...]:
        """All that the arrays of an operator depend on under one scheduler."""
        cuts, storages = self.cuts, stepped.storages
        known = self.workload.storages
        seen = [known[storage].alike for storage in stepped.operator.storages]
        key: tuple[Any, ...] = (stepped.number, *map(cuts.number.get, storages), *seen)
        if cuts.finer and not cuts.finer.keys().isdisjoint(storages):  # which of them is cut finer, and how
            finer = [number for number, storage in enumerate(storages) if storage in cuts.finer]
            key = (*key, *((number, self._finer(storages[number])) for number in finer))
        return key

    def _arrays(self, stepped: OperatorSteps, key: tuple[Any, ...]) -> KnownArrays:
        """Arrays that were not made for these surroundings before; those of an operator alike if there is one."""
        store, surroundings = self.table.store, self._surroundings(stepped)
        pace = self.machine.accelerator.clock_hz / stepped.instances[0].core.clock_hz
        alike, kept = (surroundings, stepped.costs, pace), store[ALIKE]
        arrays = kept.get(alike)
        if arrays is None:
            self.cuts.catch_up()
            together = stepped.instances[0].name in self.machine.cluster_of
            arrays = (arrays_together if together else arrays_of)(self.cuts, stepped, surroundings, store)
            self.cuts.forget_new()  # they are noted in their turn
            kept.keep(alike, arrays)
        number = self.table.cut_number
        cuts = tuple([(position, number((grid.content, stepped.tiled))) for position, grid, _ in arrays.grids])
        return self.table.arrays.keep(key, KnownArrays(arrays, cuts))

    def _finer(self, storage: str) -> int:
        """A number for how groups cut a storage more finely; what it stands for is slow to compare."""
        number = self.finer.get(storage)
        if number is None:
            number = self.finer[storage] = self.table.cut_number(self.cuts.finer_content(storage))
        return number

    def _surroundings(self, stepped: OperatorSteps) -> tuple[Any, ...]:
        """Everything that an operator's arrays depend on but its costs; no names: it is equal for operators alike."""
        operator, group, steps = stepped.operator, stepped.tiled, stepped.steps
        storages, known, cut_as = [], self.workload.storages, self.table.cut_as
        for storage in operator.storages:
            number = self.cuts.number.get(storage)
            if number is None:
                cut = self.cuts.finer_content(storage)
            else:
                content, tiled = cut_as[number]
                cut = content, tiled == group  # whether it was cut by this group
            storages.append((cut, known[storage].alike))
        cores, roomy = stepped.placement.cores, stepped.held or stepped.is_summed
        cluster = self.machine.cluster_of.get(cores[0])
        places = (cores, self.table.places(cores[:1], roomy)) if cluster else self.table.places(cores, roomy)
        return (
            operator.alike, steps.content, stepped.held, group is not None and group.halo, bool(cluster),
            stepped.placement.split, places, tuple(storages), stepped.instances[0].core if stepped.is_summed else None,
        )  # fmt: skip

    def close_group(self, count: int) -> None:
        """The last operators, ``count`` of them, are a group: order its tiles."""
        if count == 1:
            self.spans.append(self.known[-1].arrays.spans)
            self.groups.append(self.first[-1])
            self.ahead.append(self._ahead_alone(self.operators[-1].placement.cores))
            self.alone.append(self.ahead[-1])
            self.alike.append(len(self.spans[-1]))
            return
        self.alone += count * [-1]
        first, members = self.first[-count:], self.operators[-count:]
        spans = self._order(count)
        self.spans.append(spans)
        self.groups.append(first[0])
        if members[0].tiled:
            # a pipeline over several cores has a tile of every operator in flight on each of them
            self.ahead.append(count * self._ahead(_crews(members)))
            self.alike.append(len(spans))
        else:  # one after another, as alone
            for number in (np.searchsorted(first, spans[:, 0] + first[0], side="right") - 1).tolist():
                self.ahead.append(self._ahead_alone(members[number].placement.cores))
                self.alike.append(1)

    def _ahead_alone(self, cores: tuple[str, ...]) -> int:
        """``_ahead`` of some cores that work on one operator."""
        found = self.ahead_alone.get(cores)
        if found is None:
            found = self.ahead_alone[cores] = self._ahead(frozenset({cores}))
        return found

    def _ahead(self, crews: frozenset[tuple[str, ...]]) -> int:
        """Steps of some cores whose reads may go before the writes of one of them."""
        found = self.ahead_of.get(crews)
        if found is None:
            resources = frozenset[int]().union(*(self.machine.crew(cores).resources for cores in crews))
            found = self.ahead_of[crews] = len(resources) * self.machine.tiles_ahead(self.prefetch, crews)
        return found

    def _order(self, count: int) -> I64x2:
        """Spans of the gangs of the last operators in execution order; that of last time for the same arrays."""
        members, first = self.operators[-count:], self.first[-count:]
        ahead = self.machine.tiles_ahead(self.prefetch, _crews(members))
        orders = self.table.orders
        key = (ahead, *self.keys[-count:])
        found = orders.get(key)
        if found is None:
            if len(orders) >= MOST_ORDERS:
                orders.clear()
            begins = [step - first[0] for step in first]
            arrays = [known.arrays for known in self.known[-count:]]
            found = gang_order(members, arrays, begins, self.entries(count), self.cuts.n_blocks, ahead)
            orders[key] = found
        return found

    def _shifts(self, last: int) -> I64:
        """How far the blocks of every storage of the last few operators have moved since their arrays were made."""
        self.cuts.catch_up()
        base = self.cuts.base
        first = np.array(
            [base[storage] for stepped in self.operators[-last:] for storage in stepped.storages], np.int64
        )
        return np.asarray(first - np.concatenate([known.arrays.bases for known in self.known[-last:]]))

    def entries(self, last: int) -> Entries:
        """Entries of the last few operators, with the blocks of every storage counted from where they start now."""
        by_operator = [known.arrays for known in self.known[-last:]]
        ends = np.cumsum([len(arrays.bases) for arrays in by_operator])
        before = np.repeat(
            ends - [len(arrays.bases) for arrays in by_operator], [arrays.counts[1] for arrays in by_operator]
        )
        entries = Entries.of(np.concatenate([arrays.entries for arrays in by_operator]))
        entries.block[:] += self._shifts(last)[np.concatenate([arrays.storage for arrays in by_operator]) + before]
        return entries

    def draft(self, by: tuple[float, str]) -> Draft:
        """All arrays, with blocks numbered in the order in which they are cut."""
        arrays, table = tuple(known.arrays for known in self.known), self._rows()
        first = np.cumsum(table[:, :4], axis=0) - table[:, :4]
        placed = Placed.of(np.concatenate([first, table], axis=1))
        slot, leaves, owner, flags = self._storages(table[:, 3])
        cutting = [(place, each) for place, each in enumerate(arrays) if each.grids]
        cut = [each.cut for _, each in cutting]
        before = first[[place for place, _ in cutting], 3]
        new = slot[np.concatenate(cut) + np.repeat(before, list(map(len, cut)))]
        many, sizes, own = (np.concatenate(each) for each in zip(*(each.blocks for _, each in cutting), strict=True))
        base = np.zeros(len(owner), np.int64)
        base[new] = np.cumsum(many) - many
        shift = base[slot] - np.concatenate([each.bases for each in arrays])
        where = Cut(shift, leaves, np.concatenate([each.storage for each in arrays]))
        gangs, starts = self._gangs()
        return Draft(
            self.workload, self.machine, tuple(self.operators), arrays, tuple(self.group_of), placed, where,
            gangs, starts, sizes, own, np.repeat(owner[new], many),
            self.workload.storage_flags[np.repeat(flags[new], many)],
            Origins(
                tuple(self.known), tuple(self.keys), table, tuple(self.alone), by, self.prefetch, self.cuts.number,
                self.finer,
            ),
        )  # fmt: skip

    def _rows(self) -> I64x2:
        """Of every operator its row of ``Placed``, from its counts on; those of ``like`` where it is as there."""
        if self.like is not None:
            table, which = self.like.origins.rows.copy(), self.other
        else:
            table, which = np.zeros((len(self.operators), ROW), np.int64), [*range(len(self.operators))]
        rows = []
        for place in which:
            steps, costed = self.operators[place], self.operators[place].costed
            held = steps.held and not costed.refills
            rows.append((
                *self.known[place].arrays.counts, steps.operator.number, 0, held, *costed.mode, costed.dispatch_ticks,
            ))  # fmt: skip
        if rows:
            table[which] = rows
        table[:, GROUP] = self.group_of
        return table

    def _storages(self, many: I64) -> tuple[I64, I64, I64, I64]:
        """Of all storages that operators touch, so ``many`` by each, one operator after another: a number for each, and
        whether results in it leave the chip where nothing stays there. By that number: that of the storage, and the row
        of its flags."""
        count, touched = len(self.workload.storages), self.workload.touched
        numbers = [touched[steps.operator.number] for steps in self.operators]
        leaves = np.repeat(np.array([steps.tiled is None for steps in self.operators], np.int64), many)
        owner, flags = list(range(count)), list(range(count))
        for place, steps in enumerate(self.operators):
            if not steps.sums:
                continue
            summed = [steps.operator.operands[position][1].storage for position in steps.sums]
            stay = {*summed, *steps.sums.values()}
            begin = int(many[:place].sum())
            leaves[begin : begin + len(steps.storages)] = [
                steps.tiled is None and storage not in stay for storage in steps.storages
            ]
            numbers[place] = np.concatenate([numbers[place], len(owner) + np.arange(len(summed))])
            owner += [self.workload.storages[storage].number for storage in summed]
            flags += [count] * len(summed)  # sums that cores keep for themselves
        return np.concatenate(numbers), leaves, np.array(owner), np.array(flags)

    def _gangs(self) -> tuple[Gangs, I64]:
        """One row per gang, in execution order, and the first gang of every group."""
        many = np.array([len(spans) for spans in self.spans], np.int64)
        ends = np.cumsum(many)
        gangs = Gangs.zeros(ends[-1])
        first_step = np.repeat(self.groups, many)
        spans = np.concatenate(self.spans)
        gangs.first_step[:], gangs.last_step[:] = spans[:, 0] + first_step, spans[:, 1] + first_step
        gangs.ahead[:] = np.repeat(self.ahead, self.alike)
        return gangs, ends - many


def _crews(members: Iterable[OperatorSteps]) -> frozenset[tuple[str, ...]]:
    """The cores that each of some operators runs on."""
    return frozenset(member.placement.cores for member in members)


def draft(workload: Workload, table: CostTable, plan: Plan, groups: Sequence[TiledGroup]) -> Draft:
    """Arrays of a plan for any boundary. ``groups`` are in execution order, with tiles for every operator."""
    like = table.drafted if table.drafted and table.drafted.workload is workload else None
    building = Expansion(workload, table, plan.prefetch, like)
    by_group = _steps_of(groups, table, plan, like)
    _cut_finer(building.cuts, [here for here in by_group if here[0].held])
    building.note_finer()
    number = 0
    while (number := building.take_over(by_group, number)) < len(groups):
        group, here = groups[number], by_group[number]
        for steps in here:
            if not building.add(steps, number):  # its weights are then read again with every tile, its sums too
                building.add(operator_steps(steps.operator, group, table, plan, held=False), number)
        building.close_group(len(here))
        number += 1
    try:
        table.drafted = building.draft((plan.share, plan.tiles))
    except MemoryError:
        raise building.too_large() from None
    return table.drafted


def _steps_of(
    groups: Sequence[TiledGroup], table: CostTable, plan: Plan, like: Draft | None
) -> list[list[OperatorSteps]]:
    """The steps of all operators, by group: those of ``like`` wherever they are the same."""
    before = {steps.operator.number: steps for steps in like.steps_of} if like else {}
    alike, placements = like is not None and like.origins.by == (plan.share, plan.tiles), plan.placements

    def steps(operator: Operator, group: TiledGroup) -> OperatorSteps:
        there = before.get(operator.number)
        alone = alike and there is not None and group.key is there.tiled is None and there.operator is operator
        if alone and there is not None and there.placement == placements[operator.op.name]:
            return there
        return operator_steps(operator, group, table, plan, held=group.held, before=there)

    return [[steps(operator, group) for operator in group.operators] for group in groups]


def _cut_finer(cuts: Cuts, held: Sequence[Sequence[OperatorSteps]]) -> None:
    """Note how groups cut what lies outside of them."""
    if not held:
        return
    made = [frozenset(storage for steps in here for storage in steps.operator.written) for here in held]
    overwritten = cuts.workload.overwritten(frozenset().union(*made))
    for here, own in zip(held, made, strict=True):
        for steps in here:
            cuts.cut_finer(steps, own, overwritten)


def expand(workload: Workload, plan: Plan, groups: Sequence[TiledGroup], table: CostTable) -> Expanded:
    """All arrays of a plan. ``groups`` are in execution order, with tiles for every operator."""
    return draft(workload, table, plan, groups).expanded(plan.boundary)
