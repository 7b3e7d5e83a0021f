"""Steps of operators on their cores and what they cost, each distinct one computed once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from monet.arrays import F64, I64, Bool, I64x2
from monet.errors import MonetError
from monet.graph.loop_nest import LoopNest, Operand
from monet.hardware.accelerator import CoreInstance
from monet.hardware.core import CoreKind
from monet.hardware.lane_array import arrays_for
from monet.hardware.thread_blocks import Kernel
from monet.hashed import Hashed
from monet.mapping.cost_store import CostStore, Kept, Section
from monet.mapping.errors import DoesNotFit
from monet.mapping.unfused.border import Border
from monet.schedule.costs.attention_cost import arrays_beside, attention_step, lanes_beside
from monet.schedule.costs.block_kernels import Cache, kernel_of, kernel_step
from monet.schedule.costs.output_stage import behind_the_array, feeder
from monet.schedule.costs.step_cost import (
    StepCost,
    matrix_held,
    matrix_streamed,
    passing_cycles,
    smaller_border,
    vector_step,
    with_bias,
)
from monet.schedule.costs.transfer_cost import endpoint_of, transfer_step
from monet.schedule.expansion.geometry import StepRanges, cut_axes, make_steps, shape_classes, step_nest
from monet.schedule.expansion.operator_arrays import OPERATOR_ARRAYS
from monet.schedule.machine import Machine
from monet.schedule.plan import Group, Placement, Plan, Split
from monet.schedule.planning.grouping import TiledGroup
from monet.schedule.result_rows import Infeasible
from monet.schedule.workload import Operator

if TYPE_CHECKING:
    from monet.schedule.expansion.expand import Draft
    from monet.schedule.planning.splits import Clocked, Wires


@dataclass(frozen=True)
class Costed:
    """Steps of an operator on some cores: classes of equal shape and the cost of each."""

    instances: tuple[CoreInstance, ...]
    steps: StepRanges
    classes: I64
    costs: tuple[StepCost, ...]
    summed: tuple[int, ...]  # positions of the results that every piece has sums of its own of
    mode: tuple[int, int]  # number of the mode that the arrays are in, ticks of changing to it; -1 if there is one only
    refills: bool  # nothing stays in the arrays from tile to tile
    dispatch_ticks: int  # that a core waits for the launch of its group
    _edges: dict[int, dict[int, I64]] = field(default_factory=dict, compare=False)

    def edges(self, position: int, operand: Operand, nest: LoopNest) -> dict[int, I64]:
        """Where its steps cut an operand, by its position among the operator's (a bias is not in the nest)."""
        if position not in self._edges:
            self._edges[position] = cut_axes(operand, nest, self.steps)
        return self._edges[position]

    @cached_property
    def energy(self) -> tuple[float, dict[str, float], F64]:
        """Joules of all steps at and below the cores' memories: in all, by level, by core."""
        times = np.bincount(self.classes, minlength=len(self.costs))
        each = np.array([math.fsum(value for _, value in cost.energy_j) for cost in self.costs])
        by_level: dict[str, float] = {}
        for cost, many in zip(self.costs, times.tolist(), strict=True):
            for level, value in cost.energy_j:
                by_level[level] = by_level.get(level, 0.0) + many * value
        return float(each @ times), by_level, each[self.classes].reshape(-1, len(self.instances)).sum(axis=0)


Sharing = tuple[tuple[str, int], ...]  # as ``StepRanges.sharing``

SURROUNDINGS = Section[int]("surroundings of steps", 10_000)  # what a cost depends on outside of its step → a number
STEPS = Section[StepCost]("costs of steps", 100_000)  # by content, for all accelerators
OF_ALIKE = Section["OperatorSteps"]("steps of operators alike", 50_000)
UNFUSED_CYCLES = Section[float | None]("cycles of operators alone", 100_000)  # None where a core cannot run one
# steps, class of shape of each, first of every class, which are not empty
CUT_STEPS = Section[tuple[StepRanges, I64, I64, Bool]](
    "steps of operators", 64 * 2**20, lambda found: 500 + found[1].nbytes * (2 + 2 * len(found[0].ranges))
)


class CostTable:
    """Costs of distinct steps on distinct cores, each computed once; accelerators with equal cores share them."""

    def __init__(self, machine: Machine, objective: str = "latency") -> None:
        self.machine, self.objective, self.store = machine, objective, machine.store
        self._known: dict[tuple[Any, ...], StepCost] = {}
        self._borders: dict[tuple[str, int, float, int, Sharing], Border] = {}
        self._places: dict[tuple[tuple[str, ...], bool], tuple[Any, ...]] = {}
        self._numbers: dict[tuple[bool, bool, str, int, bool, float, str, int, Sharing], int] = {}
        self._caches: dict[str, Cache] = {}  # by core
        self.steps: dict[tuple[Any, ...], Costed] = {}
        # each has a number: keys are slow to compare, numbers are not
        self.numbered: dict[tuple[Any, ...], OperatorSteps] = {}
        self.of_alike = Kept(OF_ALIKE)  # of operators alike, by the number of the first's and their own
        self.arrays = Kept(OPERATOR_ARRAYS)  # of operators whose surroundings have not changed either
        self.legal: set[tuple[str, Placement]] = set()  # (key of an operator, placement) that were checked
        # by operator, share, most: its default placement, and the design of core for it
        self.defaults: dict[tuple[str, float, int | None], Placement] = {}
        self.best_designs: dict[tuple[str, float, int | None], tuple[CoreInstance, ...]] = {}
        self.clocks: dict[tuple[str, str, int], Clocked] = {}  # by operator, first core, most; see ``planning.splits``
        # by first core, supply, numbers of pieces: the wires, after a number for them
        self.wires: dict[tuple[str, int, tuple[int, ...]], tuple[int, Wires]] = {}
        self.timings: dict[tuple[int, int, float], tuple[tuple[F64, F64, F64], F64, F64]] = {}
        self.final_splits: dict[tuple[Any, ...], Split] = {}  # see ``planning.finalists``
        self._cut_numbers: dict[tuple[Any, ...], int] = {}
        self.cut_as: list[tuple[Any, ...]] = []  # cuts of storages, by number
        self.orders: dict[tuple[Any, ...], I64x2] = {}  # of the tiles of groups, by the arrays of their operators
        self.drafted: Draft | None = None  # the last one: the next is made of the same, as far as it has not changed

    def cost(
        self,
        operator: Operator,
        steps: StepRanges,
        number: int,
        instance: CoreInstance,
        held: bool,
        share: float,
        goal: str = "",
    ) -> StepCost:
        """The cost of one step of an operator on a core; ``share`` of its memory may be used for buffers. Cores that
        share a streamed operator see their part of DRAM's bandwidth when they choose their tiles, and all of it for
        what comes for all of them. ``goal``: what tiles are chosen for, if not the table's objective (``goal_of``)."""
        if operator.is_transfer:
            return transfer_step(operator, steps, number, instance, endpoint_of(operator, self.machine.accelerator))
        goal = goal or self.objective
        ranges = steps.of_step(number)
        cores = steps.pieces if operator.macs and not held else 1
        instance = self.alike[instance.name]
        key = (operator.key, ranges, instance.name, steps.pieces, held, share, goal)
        found = self._known.get(key)
        if found is None and share < 1 and operator.is_matrix and not held:
            whole = self.cost(operator, steps, number, instance, held, 1.0, goal)
            if self._fits(whole, instance, cores, share / self.machine.supplying.sharing(instance, cores)):
                found = self._known[key] = whole  # what is best with all of a memory, and takes less of it
        if found is None:
            share /= 1 if held else self.machine.supplying.sharing(instance, steps.pieces)
            sharing = steps.sharing(operator.nest) if cores > 1 and operator.is_matrix else ()
            around = operator, instance, cores, held, share, goal, sharing
            blocks = (steps.pieces, self._cache(instance)) if instance.core.thread_blocks else ()
            content = (operator.key, ranges, held, self._surroundings(*around), blocks)
            found = self._known[key] = self.store[STEPS].get_or(content, lambda: self._compute(*around, steps, number))
        return found

    def cut_number(self, content: tuple[Any, ...]) -> int:
        """A number for how a storage is cut, and by which group; what it stands for is slow to compare."""
        found = self._cut_numbers.setdefault(content, len(self.cut_as))
        if found == len(self.cut_as):
            self.cut_as.append(content)
        return found

    def goal_of(self, operator: Operator, plan: Plan, held: bool) -> str:
        """What a plan has the tiles of an operator chosen for: for throughput only where there are tiles to choose,
        and time is what counts."""
        choosing = operator.is_matrix and not held and self.objective == "latency"
        return plan.tiles if choosing else self.objective

    def _fits(self, cost: StepCost, instance: CoreInstance, cores: int, share: float) -> bool:
        """Whether the buffers of a step fit a share of its core's memories."""
        taken: dict[str, int] = {}
        for operand in cost.operands:
            name = instance.memory_of(operand.slot)
            taken[name] = taken.get(name, 0) + operand.buffer
        memories = self._border(instance, cores, share, 0, ()).memories
        return all(taken.get(name, 0) <= level.total_bytes for _, name, level in memories)

    def unfused_cycles(self, operator: Operator, instance: CoreInstance) -> float | None:
        """Cycles of a whole operator alone on a core, with all of its memory for buffers; None if it cannot run it."""

        if operator.is_transfer:
            is_port = instance.core.kind is CoreKind.PORT
            return (
                self.cost(operator, make_steps(operator.nest, {}), 0, instance, False, 1.0).cycles if is_port else None
            )

        def compute() -> float | None:
            try:
                return self.cost(operator, make_steps(operator.nest, {}), 0, instance, False, 1.0).cycles
            except MonetError:
                return None

        key = operator.key, self._surroundings(operator, instance, 1, False, 1.0, self.objective, ())
        return self.store[UNFUSED_CYCLES].get_or(key, compute)

    def passing_cycles(self, cost: StepCost, instance: CoreInstance) -> float:
        """Cycles that the operands of a streamed step of a core take on their way from and to DRAM."""
        return passing_cycles(cost, self._border(instance, 1, 1.0, 0, ()))

    @cached_property
    def alike(self) -> dict[str, CoreInstance]:
        """Core → the first core of its design that DRAM and shared levels serve as fast, with the same lanes beside it:
        what steps cost on one they cost on the other."""
        accelerator, first, found = self.machine.accelerator, dict[Any, CoreInstance](), dict[str, CoreInstance]()
        design, seen = accelerator.design_number, self.machine.supplying
        for instance in self.machine.folded.cores:
            lanes = lanes_beside(accelerator, instance)
            paces = tuple(
                (int(self.machine.capacity[supply]), seen.pace(instance, 1, supply))
                for supply in seen.supplies(instance)
            )
            key = design[instance.name], paces, lanes and design[lanes.name]
            found[instance.name] = first.setdefault(key, instance)
        return found | {core: found[cluster.first.name] for core, cluster in self.machine.cluster_of.items()}

    def places(self, cores: tuple[str, ...], roomy: bool) -> tuple[Any, ...]:
        """Of every core its number, and the memory of every slot; ``roomy``: with their sizes, which matter then."""
        found = self._places.get((cores, roomy))
        if found is None:
            machine = self.machine
            index, room = machine.memory_index, (machine.capacity * roomy).tolist()
            found = self._places[cores, roomy] = Hashed(
                (
                    machine.core_index[core],
                    *((slot, index[name], room[index[name]]) for slot, name in instance.memories),
                )
                for core, instance in ((core, machine.accelerator.instance(core)) for core in cores)
            )
        return found

    def _surroundings(
        self,
        operator: Operator,
        instance: CoreInstance,
        cores: int,
        held: bool,
        share: float,
        goal: str,
        sharing: Sharing,
    ) -> int:
        """A number for the core and what its costs see beyond it: DRAM only where it streams from there, and for fused
        attention the lanes beside it."""
        is_matrix = operator.macs > 0
        supply = self.machine.supplying.supply(instance, operator.input_bytes + operator.output_bytes)
        key = operator.is_attention, is_matrix, instance.name, cores, held, share, goal, supply, sharing
        if key not in self._numbers:
            border = self._border(instance, cores, 1.0 if held else share, supply, sharing)
            beyond: Any = border.memories
            if is_matrix and (instance.core.streamed or not held):
                beyond = border.stream if held else border
            lanes = lanes_beside(self.machine.accelerator, instance) if operator.is_attention else None
            sharers = self._sharers(instance, cores) if operator.is_attention else 1
            content = instance.core, beyond, goal if is_matrix else "", lanes and lanes.core, sharers
            self._numbers[key] = self.store[SURROUNDINGS].get_or(content, self.store.next_number)
        return self._numbers[key]

    def _sharers(self, instance: CoreInstance, cores: int) -> int:
        """How many of so many cores that work side by side compute from the memory of one."""
        return min(cores, arrays_beside(self.machine.accelerator, instance))

    def _border(self, instance: CoreInstance, cores: int, share: float, supply: int, sharing: Sharing) -> Border:
        key = instance.name, cores, share, supply, sharing
        if key not in self._borders:
            border = self.machine.supplying.border_among(instance, cores, supply)
            shared = tuple(
                (operand, self.machine.supplying.pace_among(instance, cores, supply, parts))
                for operand, parts in sharing
            )
            self._borders[key] = smaller_border(replace(border, shared=shared) if shared else border, share)
        return self._borders[key]

    def _compute(
        self,
        operator: Operator,
        instance: CoreInstance,
        cores: int,
        held: bool,
        share: float,
        goal: str,
        sharing: Sharing,
        steps: StepRanges,
        number: int,
    ) -> StepCost:
        nest = step_nest(operator.nest, steps, number) if steps.ranges else operator.nest
        supply = self.machine.supplying.supply(instance, operator.input_bytes + operator.output_bytes)
        border = self._border(instance, cores, 1.0 if held else share, supply, sharing)
        if operator.is_matrix:
            run = matrix_held if held else matrix_streamed
            found = None
            if instance.core.thread_blocks and not held:
                found = self._as_kernel(operator, steps, nest, instance, border, goal, share)
            found = found or run(nest, instance, border, goal, self.store)
            return with_bias(found, nest, operator.operands[-1][0].dtype, instance.core) if operator.has_bias else found
        work = _part_of(operator, nest)
        if operator.is_attention:
            lanes = lanes_beside(self.machine.accelerator, instance)
            formats = tuple(pair for pair, _ in operator.products)
            return attention_step(
                nest, work, instance, lanes, border, self.objective, not held, self.store, formats,
                self._sharers(instance, cores),
            )  # fmt: skip
        return vector_step(nest, work, operator.dimensions, instance, border, not held)

    def _as_kernel(
        self,
        operator: Operator,
        steps: StepRanges,
        piece: LoopNest,
        instance: CoreInstance,
        border: Border,
        goal: str,
        share: float,
    ) -> StepCost | None:
        """A streamed step as the part of a kernel that it is, or on lanes if they are done with it sooner; None if
        there is no kernel of its formats."""
        core, (first, second) = instance.core, (operand.dtype for operand in operator.nest.reads[:2])
        sums = steps.pieces // steps.parts(operator.nest.writes[0])
        kernel = self.kernel(operator, instance, steps.pieces, sums, share)
        if kernel is None:
            return None
        for lanes in arrays_for(core, first, second)[1:]:
            pace = lanes.units * lanes.rate(first, second, either_way=True).products_per_cycle
            if piece.points >= kernel.cycles * pace:
                continue  # their arithmetic alone takes longer
            by_lanes = matrix_streamed(piece, replace(instance, core=lanes), border, goal, self.store)
            if by_lanes.cycles <= kernel.cycles:
                return by_lanes
        own = tuple(steps.parts(operand) / steps.pieces for operand in operator.nest.reads[:2])
        return kernel_step(kernel, operator.nest, piece, core, self._cache(instance), (own[0], own[1]))

    def kernel(
        self, operator: Operator, instance: CoreInstance, pieces: int, sums: int, share: float = 1.0
    ) -> Kernel | None:
        """The kernel that a matrix operator in so many pieces is, on cores that run blocks of threads."""
        supply = self.machine.supplying.supply(instance, operator.input_bytes + operator.output_bytes)
        leave = self.machine.supplying.border_among(instance, pieces, supply).bits_per_cycle
        return kernel_of(operator.nest, instance.core, pieces, sums, share, leave)

    def _cache(self, instance: CoreInstance) -> Cache:
        """The largest memory between a core and DRAM."""
        found = self._caches.get(instance.name)
        if found is None:
            machine = self.machine
            *levels, _ = machine.supplying.supplies(instance)
            found = Cache()
            if levels:
                number = max(levels, key=lambda level: int(machine.capacity[level]))
                memory, folded = machine.folded.memories[number - 1], machine.folded
                wires = (folded.links[index] for index in folded.route(memory.name, instance.endpoint))
                joules = memory.level.read_energy_j_per_bit, math.fsum(link.energy_j_per_bit for link in wires)
                found = Cache(int(machine.capacity[number]), ((memory.level.name, joules[0]), ("link", joules[1])))
            self._caches[instance.name] = found
        return found


@dataclass(frozen=True, slots=True)
class OperatorSteps:
    """An operator's steps on their cores, with their costs: the same in every plan that places and cuts it so."""

    operator: Operator
    placement: Placement
    instances: tuple[CoreInstance, ...]
    steps: StepRanges
    held: bool
    classes: I64
    costs: tuple[StepCost, ...]
    tiled: Group | None  # the plan's group
    number: int  # equal for equal operator, placement and tiles; alone, also for operators alike
    costed: Costed
    storages: tuple[str, ...]  # of the operator; split along a sum, also those for sums that further cores keep
    sums: dict[int, str]  # by position of a result that pieces sum up, the storage of these sums

    @property
    def is_summed(self) -> bool:
        """Whether it is split along a dimension that it sums over."""
        return bool(self.sums)


def operator_steps(
    operator: Operator,
    group: TiledGroup,
    table: CostTable,
    plan: Plan,
    *,
    held: bool,
    before: OperatorSteps | None = None,
) -> OperatorSteps:
    """Steps and costs of one operator under a plan, looked up if they were asked for before. ``held``: its operands lie
    in the memory; otherwise they are streamed. ``before``: its steps under another plan, returned if they are equal."""
    placement, goal = plan.placements[operator.op.name], table.goal_of(operator, plan, held)
    fed = feeder(operator, group, plan, table.machine) if held else None
    from_array = plan.placements[fed.op.name] if fed else None
    which = (operator.identity, group.identity) if group.key else (operator.alike, None)
    key = (*which, placement, held, from_array, plan.share, goal)
    found = table.numbered.get(key)
    if found is None:
        found = table.numbered[key] = _numbered(operator, group, table, key, fed)
    if found.operator is operator:
        return found
    if group.key:  # in another variant of the graph it may stand elsewhere
        return replace(found, operator=operator)
    if before is not None and before.number == found.number:
        return before
    own = table.of_alike.get((found.number, operator.number))
    if own is not None and own.operator is operator:
        return own
    sums = _sums(operator, found.costed)
    own = OperatorSteps(
        operator, found.placement, found.instances, found.steps, found.held, found.classes, found.costs, None,
        found.number, found.costed, (*operator.storages, *sums.values()), sums,
    )  # fmt: skip
    return table.of_alike.keep((found.number, operator.number), own)


def _sums(operator: Operator, costed: Costed) -> dict[int, str]:
    """Storages for the sums that pieces keep, by position of the result."""
    return {position: f"sums {position} of {operator.op.name}" for position in costed.summed}


def _numbered(
    operator: Operator, group: TiledGroup, table: CostTable, key: tuple[Any, ...], fed: Operator | None
) -> OperatorSteps:
    """Steps of an operator that were not asked for before."""
    *_, placement, held, from_array, share, goal = key
    costed_as = key if group.key else (operator.key, *key[2:])
    if costed_as not in table.steps:
        try:
            costed = _costed(operator, group, table, placement, held, share, goal)
            if fed:
                array = _costed(fed, group, table, from_array, held, share, goal)
                costed = _in_output_stage(operator, costed, array)
            table.steps[costed_as] = costed
        except DoesNotFit as error:
            raise _infeasible(operator, placement, error) from None
    costed = table.steps[costed_as]
    plain = table.numbered.get((*key[:-2], 1.0, table.objective))
    if plain and plain.costs == costed.costs:
        return plain  # a share is enough, or throughput asks for the same tiles
    sums = _sums(operator, costed)
    return OperatorSteps(
        operator, placement, costed.instances, costed.steps, held, costed.classes, costed.costs,
        group.key, table.store.next_number(), costed, (*operator.storages, *sums.values()), sums,
    )  # fmt: skip


def _costed(
    operator: Operator, group: TiledGroup, table: CostTable, placement: Placement, held: bool, share: float, goal: str
) -> Costed:
    instances = table.machine.crew(placement.cores).instances
    pieces = len(instances)
    tiles = group.tiles[operator.number] if group.key else {}
    steps, classes, first, some = _steps(operator, tiles, placement.split, table.store)
    costs = {
        int(step): table.cost(operator, steps, int(step), instances[int(step) % pieces], held, share, goal)
        for step in first
        if some[step]
    }
    if len(costs) < len(first):  # a tile with fewer rows than there are cores leaves some idle
        nothing = _nothing(next(iter(costs.values())))
        costed = tuple(costs.get(int(step), nothing) for step in first)
    else:
        costed = tuple(costs.values())
    first_core = instances[0]
    return Costed(
        instances, steps, classes, costed, operator.summed_up(placement.dims),
        _mode(table.machine, first_core, costed[0].mode, operator), first_core.core.refills_every_tile,
        table.machine.ticks(first_core.core.dispatch_cycles, first_core),
    )  # fmt: skip


def _in_output_stage(operator: Operator, costed: Costed, array: Costed) -> Costed:
    """A quantize behind the array whose product ``array`` costs, step by step."""
    if costed.steps.count != array.steps.count:
        return costed
    busy = np.array([cost.cycles for cost in array.costs])[array.classes]
    costs = []
    for number, cost in enumerate(costed.costs):
        mine = costed.classes == number
        nest = step_nest(operator.nest, costed.steps, int(np.argmax(mine)))
        work = _part_of(operator, nest)
        known = not nest.points  # a step without anything to do
        least = float(busy[mine].min())
        costs.append(cost if known else behind_the_array(cost, nest, work, costed.instances[0].core, least))
    return replace(costed, costs=tuple(costs))


def _part_of(operator: Operator, nest: LoopNest) -> dict[str, int]:
    """Vector work of a part of an operator."""
    part = nest.points / max(1, operator.nest.points)
    return {name: math.ceil(count * part - 1e-9) for name, count in operator.work}


def _mode(machine: Machine, instance: CoreInstance, mode: str, operator: Operator) -> tuple[int, int]:
    """(number of a mode among a core's, ticks of changing to it): one of its array, and one by formats if it takes time
    to change those; both together count as one."""
    core = instance.core
    names = [each.name for each in core.modes]
    if mode not in names or (len(names) < 2 and not core.format_switch_cycles):
        return -1, 0
    number, cycles = names.index(mode), core.mode_switch_cycles if len(names) > 1 else 0
    if core.format_switch_cycles:
        number = number * len(core.rates) + core.rates.index(core.rate(*operator.multiplied, either_way=True))
        cycles += core.format_switch_cycles
    return number, machine.ticks(cycles, instance)


def _infeasible(operator: Operator, placement: Placement, error: DoesNotFit) -> Exception:
    from monet.schedule.engine import NoSchedule

    name, core, short = operator.op.name, placement.cores[0], error.needed_bytes - error.offered_bytes
    return NoSchedule(Infeasible(name, core, error.level, short, f"operator {name} on {core}: {error}"))


def _nothing(like: StepCost) -> StepCost:
    """The cost of a step that has nothing to do."""
    operands = tuple(replace(operand, bytes=0, first=0, spilled=0, buffer=0) for operand in like.operands)
    return StepCost(0.0, 0.0, 0.0, 0.0, operands, (), like.bound_by)


def _steps(
    operator: Operator, tiles: Mapping[str, tuple[I64, I64]], split: Split, store: CostStore
) -> tuple[StepRanges, I64, I64, Bool]:
    """Steps of an operator, with their classes of shape and which are not empty: the same on every machine."""

    def compute() -> tuple[StepRanges, I64, I64, Bool]:
        steps = make_steps(operator.nest, tiles, split)
        return steps, *shape_classes(operator.nest, steps), _not_empty(steps)

    cut = tuple((dim, low.tobytes(), high.tobytes()) for dim, (low, high) in tiles.items())
    return store[CUT_STEPS].get_or((operator.key, cut, split), compute)


def _not_empty(steps: StepRanges) -> Bool:
    """Which steps have anything to do."""
    if not steps.ranges:
        return np.ones(1, bool)
    found: Bool = np.all([low < high for low, high in steps.ranges.values()], axis=0)
    return found
