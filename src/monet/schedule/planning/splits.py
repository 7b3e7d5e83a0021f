"""How an operator is split over like cores: of all ways along one or two dimensions, over 1, 2, 4 … all of them, the
fastest by a rough clock.

The clock sees what a schedule will see of the longest piece: cycles of the array (at the best unrolling that its wires
allow) or of the lanes; bytes at the ports of the core's memory; bytes over the core's own wires; bytes over those that
cores share, where what several of them read passes once; and, if a sum is cut, moving and adding up partial sums. The
slowest of them counts in full, the others as far as the first tile does not overlap with anything.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64
from monet.formats import format_named
from monet.graph.loop_nest import LoopNest, Operand
from monet.hardware.accelerator import Core, CoreInstance, Flow
from monet.hardware.lane_array import arrays_for, peak_products_per_cycle
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import MappingError
from monet.mapping.mapper.parts import has_phases
from monet.mapping.mapper.search import Target, frames
from monet.mapping.nest.phases import phases
from monet.mapping.nest.prices import known_shape
from monet.mapping.vector import STREAM_TILES, supports
from monet.schedule.costs.attention_cost import lanes_beside
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.expansion.geometry import make_steps, step_nest
from monet.schedule.expansion.split_reductions import Adding, accumulator_of, adding_cores
from monet.schedule.plan import MOST_SPLIT, Split
from monet.schedule.workload import Operator, overlaps

CLOSE = 1.01  # splits that differ by less are as good as each other
ALONE = 1.02  # a split over several cores is not worth less than this


WAYS = Section["Ways"]("ways to split", 10_000)
ARRAY_CYCLES = Section[float]("array cycles of pieces", 100_000)
SPLITS = Section[Split]("splits over cores", 10_000)


def scattered_dims(operator: Operator) -> frozenset[str]:
    """Dimensions that together with a filter tap say where a result goes, as in the input gradient of a convolution:
    their pieces write overlapping parts."""
    nest, taps = operator.nest, operator.dimensions.taps
    return frozenset(
        name
        for operand in nest.writes
        for index in operand.indices
        if overlaps(index, nest, taps)
        for name, factor in index.terms
        if factor and nest.sizes[name] > 1
    )


def disjoint_dims(operator: Operator) -> frozenset[str]:
    """Dimensions whose pieces write disjoint parts of every result."""
    return operator.splittable - scattered_dims(operator)


def allowed_dims(operator: Operator) -> frozenset[str]:
    """Dimensions that an operator can be split along; pieces of some owe the addition of their sums."""
    return disjoint_dims(operator) | (operator.summed - scattered_dims(operator))


def array_cycles(operator: Operator, core: Core, split: Split, store: CostStore) -> float:
    """Cycles that an array of a core itself takes for the longest piece, at the best unrolling that its wires allow."""

    def compute() -> float:
        steps = make_steps(operator.nest, {}, split)
        piece = step_nest(operator.nest, steps, steps.count - 1)  # of nearly equal pieces, the last is the longest
        arrays = arrays_for(core, *(operand.dtype for operand in operator.nest.reads[:2]))
        ways: list[tuple[Core, tuple[LoopNest, ...]]] = [(array, (piece,)) for array in arrays]
        ways += [(array, phases(piece)) for array in arrays if has_phases(piece, Target(array))]
        return min(_fewest_cycles(parts, array, store) for array, parts in ways)

    arrays = known_shape(core, store), core.lanes, core.vector_rates, core.functions  # whatever its memories hold
    return store[ARRAY_CYCLES].get_or((operator.key, arrays, split), compute)


def _fewest_cycles(parts: Sequence[LoopNest], array: Core, store: CostStore) -> float:
    return sum(min(frame.compute_cycles for frame in frames(part, array, None, store, limit=1)) for part in parts)


# --- candidates -------------------------------------------------------------------------------------------------------


def core_counts(cores: int) -> list[int]:
    """1, 2, 4 … all."""
    return [*(1 << bit for bit in range(cores.bit_length()) if 1 << bit < cores), cores]


def candidates(operator: Operator, cores: int) -> Iterator[Split]:
    """Ways to split an operator over up to so many cores, no split first. A dimension is cut into as few parts as leave
    the longest one as it is."""
    allowed = allowed_dims(operator)
    dims = [(dim, size) for dim, size in operator.nest.dims if dim in allowed and size > 1]
    seen: set[Split] = set()
    for count in core_counts(cores):
        for split in ((), *_along_one(dims, count), *_along_two(dims, count)):
            if split not in seen:
                seen.add(split)
                yield split


def _along_one(dims: Iterable[tuple[str, int]], cores: int) -> Iterator[Split]:
    return (((dim, _fewest(size, cores)),) for dim, size in dims if cores > 1)


def _along_two(dims: Iterable[tuple[str, int]], cores: int) -> Iterator[Split]:
    """Pairs of dimensions, one of them cut into a divisor of the number of cores or as far as it goes."""
    for (first, size), (second, other) in itertools.combinations(dims, MOST_SPLIT):
        for parts in {part for part in range(2, cores) if cores % part == 0} | {size, cores // max(1, other)}:
            here = _fewest(size, min(parts, cores))
            there = _fewest(other, cores // here)
            if here > 1 and there > 1:
                yield (first, here), (second, there)


def _fewest(size: int, parts: int) -> int:
    """The fewest parts whose longest is as long as that of ``parts``."""
    return -(-size // -(-size // max(1, min(size, parts))))


# --- the rough clock --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ways:
    """Ways to split an operator, and what its longest piece has of everything then; whatever the cores are. By operand:
    elements of a piece, different parts among all pieces."""

    splits: tuple[Split, ...]
    pieces: I64
    share: F64  # of the points of the nest
    elements: F64
    distinct: F64

    @classmethod
    def of(cls, operator: Operator, cores: int) -> Ways:
        """All ways over up to so many cores."""
        splits, nest = tuple(candidates(operator, cores)), operator.nest
        parts = {dim: np.array([dict(split).get(dim, 1) for split in splits]) for dim in nest.sizes}
        sizes = {dim: -(-size // parts[dim]) for dim, size in nest.sizes.items()}
        one = np.ones(len(splits))
        return cls(
            splits,
            np.array([math.prod(many for _, many in split) for split in splits]),
            math.prod((sizes[dim] / size for dim, size in nest.sizes.items()), start=one),
            np.stack([one * _box(operand, sizes) for operand in nest.operands]),
            np.stack([math.prod((parts[dim] for dim in sorted(operand.dims)), start=one) for operand in nest.operands]),
        )


def _box(operand: Operand, sizes: dict[str, I64]) -> F64:
    """Elements of an operand that pieces of some sizes touch."""
    found: F64 = np.ones(1)
    for axis, (index, length) in enumerate(zip(operand.indices, operand.shape, strict=True)):
        if index.terms:
            extent = 1 + sum(abs(factor) * (sizes[name] - 1) for name, factor in index.terms)
        elif operand.picks and operand.picks.axis == axis:
            extent = math.prod((sizes[name] for name in operand.picks.dims), start=np.ones(1, np.int64))
        else:
            extent = length
        found = found * np.minimum(length, extent)
    return found


@dataclass(frozen=True)
class Clock:
    """What the clock knows of one operator on like cores: wires in bits per cycle of the core, for one core alone and
    for so many together."""

    operator: Operator
    core: Core
    lanes: Core | None  # that do vector work: the core's own, or those beside its array
    alone: float
    together: dict[int, float]
    burst_bytes: int
    attending: float  # cycles of all of fused attention on one core, which no bound on its products comes near

    @classmethod
    def of(cls, operator: Operator, instances: tuple[CoreInstance, ...], table: CostTable, ways: Ways) -> Clock:
        """The clock of some ways to split an operator over like cores."""
        first, machine = instances[0], table.machine
        accelerator = machine.accelerator
        beside = lanes_beside(accelerator, first) if operator.is_attention else first
        counts = sorted(set(ways.pieces.tolist()))
        supply = machine.supply(first, operator.input_bytes + operator.output_bytes)
        together = {count: count * machine.border_among(first, count, supply).bits_per_cycle for count in counts}
        alone = machine.border(first, supply).bits_per_cycle
        attending = (table.unfused_cycles(operator, first) or 0.0) if operator.is_attention else 0.0
        lanes, burst_bytes = beside.core if beside else None, accelerator.dram.burst_bytes
        return cls(operator, first.core, lanes, alone, together, burst_bytes, attending)

    @property
    def key(self) -> tuple[object, ...]:
        """Everything that it says depends on."""
        wires = self.alone, tuple(self.together.items()), self.burst_bytes, self.attending
        return self.operator.key, self.core.design, self.lanes and self.lanes.design, wires

    def beside(self, ways: Ways) -> tuple[F64, F64, F64]:
        """Cycles of everything beside array and lanes: the slowest, all together, and what comes afterwards."""
        operands = self.operator.nest.operands
        bits = np.array([[operand.bits_per_element] for operand in operands])
        written = np.array([operand.written for operand in operands])
        size = np.ceil(ways.elements * bits / 8)
        bursts = np.ceil(size / self.burst_bytes) * self.burst_bytes
        alone = np.maximum(size[written].sum(axis=0), size[~written].sum(axis=0)) * 8 / self.alone
        together = (ways.distinct * bursts).sum(axis=0) * 8 / self._wires(ways.pieces)
        ports: dict[str, F64] = {}
        for row, operand in zip(size, operands, strict=True):
            name, width = self._port(operand)
            ports[name] = ports.get(name, 0) + row * 8 / width
        clocks = np.stack([*ports.values(), alone, together])
        return clocks.max(axis=0), clocks.sum(axis=0), self._owed(ways) + self.core.dispatch_cycles

    def _wires(self, pieces: I64) -> F64:
        """Bits per cycle of so many cores together."""
        return np.array([self.together[count] for count in pieces.tolist()])

    def _port(self, operand: Operand) -> tuple[str, float]:
        """The port of the core's memory that an operand passes, and its bits per cycle."""
        slot = "O" if operand.written else ("I" if self.core.levels_of("I") else "W")
        level = self.core.top(slot)
        name, bits = self.core.flow_ports[level.name, slot, Flow.COLLECT if operand.written else Flow.FEED]
        return name, bits * level.instances

    def _owed(self, ways: Ways) -> F64:
        """Cycles of moving and adding up partial sums; those that do not fit the core's memory go to DRAM and back."""
        found = np.zeros(len(ways.splits))
        if not self.operator.dimensions.combine:
            return found
        for operand, elements, distinct in zip(self.operator.nest.operands, ways.elements, ways.distinct, strict=True):
            sums = ways.pieces / distinct
            if not operand.written or sums.max() <= 1:
                continue
            mine = elements / adding_cores(elements, sums, self.core)
            wide = format_named(accumulator_of(self.operator, self.core, operand)).bits
            times = np.where(2 * elements * wide > 8 * self.core.top("O").total_bytes, 2, 1)
            every = times * (sums - 1) * elements * wide * ways.pieces / sums / self._wires(ways.pieces)
            moved = np.maximum((sums - 1) * mine * wide / self.alone, every)
            adding = Adding.of(self.operator, operand, self.core).cycles(mine, sums)
            found += np.where(sums > 1, moved + adding, 0)
        return found

    def least(self, ways: Ways) -> F64:
        """Cycles that the array or the lanes cannot do without."""
        operator, nest = self.operator, self.operator.nest
        array = lanes = 0.0
        if operator.macs:
            first, second = (operand.dtype for operand in nest.reads[:2])
            array = operator.macs / peak_products_per_cycle(self.core, first, second)
        work = dict(operator.lane_work) or {"copy": max((math.prod(out.shape) for out in nest.writes), default=0)}
        if self.lanes and not operator.is_matrix and not supports(self.lanes, work):
            cycles = math.fsum(self.lanes.function_cycles(name) * count for name, count in work.items())
            lane_rate = self.lanes.lane_rate(*(operand.dtype for operand in nest.operands))
            pace = self.core.clock_hz / self.lanes.clock_hz
            lanes = cycles * pace / (self.lanes.lanes * lane_rate.elements_per_cycle)
        return ways.share * max(array, lanes, self.attending)


# --- choice -----------------------------------------------------------------------------------------------------------


def best_split(operator: Operator, instances: tuple[CoreInstance, ...], table: CostTable) -> Split:
    """The split over like cores that is fastest by the rough clock, looked up if the operator was asked for before;
    none where more than one core is not worth it."""
    store, cores = table.store, len(instances)
    if cores == 1:
        return ()
    ways = store[WAYS].get_or((operator.key, cores), lambda: Ways.of(operator, cores))
    if len(ways.splits) == 1:
        return ()
    clock = Clock.of(operator, instances, table, ways)
    return store[SPLITS].get_or((clock.key, cores), lambda: _best(clock, ways, store))


def _best(clock: Clock, ways: Ways, store: CostStore) -> Split:
    operator, splits = clock.operator, ways.splits
    slowest, together, after = clock.beside(ways)

    def cycles_with(array: F64) -> F64:
        hidden = 1 - 1 / STREAM_TILES  # share of a stream that passes while other tiles are worked on
        return np.asarray(hidden * np.maximum(slowest, array) + (1 - hidden) * (together + array) + after)

    array = clock.least(ways)
    cycles = cycles_with(array)
    if operator.is_matrix:
        cycles = cycles_with(_looked_at(clock, ways, array, cycles, cycles_with, store))
    least = cycles.min()
    if cycles[0] <= ALONE * least:
        return ()
    return splits[_simplest(ways, cycles, operator, (CLOSE - 1) * clock.core.dispatch_cycles)]


def _simplest(ways: Ways, cycles: F64, operator: Operator, launch: float) -> int:
    """Of the splits as good as the best the simplest: along one dimension, the outermost one. Where cores take time to
    ``launch``, few of them: beside it the rest is nothing."""
    rank = {dim: number for number, (dim, _) in enumerate(operator.nest.dims)}
    close = np.flatnonzero(cycles <= (cycles.min() + launch if launch else CLOSE * cycles.min()))

    def order(number: int) -> tuple[object, ...]:
        split = ways.splits[number]
        few = ways.pieces[number] if launch else 0
        return few, len(split), [rank[dim] for dim, _ in split], cycles[number]

    return min(close.tolist(), key=order)


def _looked_at(
    clock: Clock, ways: Ways, array: F64, cycles: F64, cycles_with: Callable[[F64], F64], store: CostStore
) -> F64:
    """What the array really takes of the splits that may be best. ``cycles`` without it are a lower bound: those left
    (infinite) are out once one is found that is less. One core always: it is what splits are compared with."""
    found, best = np.full(len(array), math.inf), math.inf
    for number in dict.fromkeys((0, *np.argsort(cycles, kind="stable").tolist())):
        if cycles[number] > best * CLOSE:
            break
        try:
            found[number] = max(array_cycles(clock.operator, clock.core, ways.splits[number], store), array[number])
        except MappingError:
            continue
        best = min(best, float(cycles_with(found)[number]))
    return found if math.isfinite(best) else array
