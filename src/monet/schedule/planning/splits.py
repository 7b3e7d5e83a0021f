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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from monet.arrays import F64, I64, Bool
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

    return store[ARRAY_CYCLES].get_or((operator.key, arrays_key(core, store), split), compute)


def arrays_key(core: Core, store: CostStore) -> tuple[object, ...]:
    """What the arrays of a core do depends on, whatever its memories hold."""
    return known_shape(core, store), core.lanes, core.vector_rates, core.functions


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
    elements and bytes of a piece, different parts among all pieces."""

    splits: tuple[Split, ...]
    pieces: I64
    share: F64  # of the points of the nest
    elements: F64
    bytes: F64
    distinct: F64
    written: Bool

    @classmethod
    def of(cls, operator: Operator, cores: int) -> Ways:
        """All ways over up to so many cores."""
        splits, nest = tuple(candidates(operator, cores)), operator.nest
        parts = {dim: np.array([dict(split).get(dim, 1) for split in splits]) for dim in nest.sizes}
        sizes = {dim: -(-size // parts[dim]) for dim, size in nest.sizes.items()}
        one = np.ones(len(splits))
        elements = np.stack([one * _box(operand, sizes) for operand in nest.operands])
        bits = np.array([[operand.bits_per_element] for operand in nest.operands])
        return cls(
            splits,
            np.array([math.prod(many for _, many in split) for split in splits]),
            math.prod((sizes[dim] / size for dim, size in nest.sizes.items()), start=one),
            elements,
            np.ceil(elements * bits / 8),
            np.stack([math.prod((parts[dim] for dim in sorted(operand.dims)), start=one) for operand in nest.operands]),
            np.array([operand.written for operand in nest.operands]),
        )

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many pieces there can be, ascending."""
        return tuple(sorted(set(self.pieces.tolist())))

    def by_count(self, values: Sequence[float]) -> F64:
        """One value for each number of pieces → the value of every way."""
        found: F64 = np.array(values)[self._place]
        return found

    @cached_property
    def _place(self) -> I64:
        found: I64 = np.searchsorted(self.counts, self.pieces)
        return found

    @cached_property
    def sums(self) -> F64:
        """How many pieces have sums of one part, by operand."""
        return self.pieces / self.distinct

    @cached_property
    def one_way_bits(self) -> F64:
        """Bits of a piece that are read or that are written, whichever are more."""
        read: F64 = self.bytes[~self.written].sum(axis=0)
        written: F64 = self.bytes[self.written].sum(axis=0)
        return np.maximum(written, read) * 8

    def burst_bits(self, burst_bytes: int) -> F64:
        """Bits of all pieces in whole bursts, what several of them want counted once."""
        if burst_bytes not in self._burst_bits:
            bursts = np.ceil(self.bytes / burst_bytes) * burst_bytes
            self._burst_bits[burst_bytes] = (self.distinct * bursts).sum(axis=0) * 8
        return self._burst_bits[burst_bytes]

    @cached_property
    def _burst_bits(self) -> dict[int, F64]:
        return {}


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
        supply = machine.supply(first, operator.input_bytes + operator.output_bytes)
        together = {count: count * machine.border_among(first, count, supply).bits_per_cycle for count in ways.counts}
        alone = machine.border(first, supply).bits_per_cycle
        attending = (table.unfused_cycles(operator, first) or 0.0) if operator.is_attention else 0.0
        lanes, burst_bytes = beside.core if beside else None, accelerator.dram.burst_bytes
        return cls(operator, first.core, lanes, alone, together, burst_bytes, attending)

    def key(self, ways: Ways, store: CostStore) -> tuple[object, ...]:
        """Everything that it says of some ways depends on. Of the core's memories that is their ports, and for which
        ways partial sums find no room."""
        wires = self.alone, tuple(self.together.items()), self.burst_bytes, self.attending
        core, lanes = self.core, self.lanes if not self.operator.is_matrix else None
        beside = lanes and (lanes.lanes, lanes.vector_rates, lanes.functions, lanes.clock_hz)
        overfull = tuple(int(self._overfull(ways, number).sum()) for number in self._summed(ways))
        return self.operator.key, arrays_key(core, store), core.clock_hz, core.dispatch_cycles, beside, wires, overfull

    def beside(self, ways: Ways) -> tuple[F64, F64, F64]:
        """Cycles of everything beside array and lanes: the slowest, all together, and what comes afterwards."""
        wires = self._wires(ways)
        ports: dict[str, F64] = {}
        for row, operand in zip(ways.bytes, self.operator.nest.operands, strict=True):
            name, width = self._port(operand)
            ports[name] = ports.get(name, 0) + row * 8 / width
        clocks = np.stack([*ports.values(), ways.one_way_bits / self.alone, ways.burst_bits(self.burst_bytes) / wires])
        return clocks.max(axis=0), clocks.sum(axis=0), self._owed(ways, wires) + self.core.dispatch_cycles

    def _wires(self, ways: Ways) -> F64:
        """Bits per cycle of all cores together."""
        return ways.by_count([self.together[count] for count in ways.counts])

    def _port(self, operand: Operand) -> tuple[str, float]:
        """The port of the core's memory that an operand passes, and its bits per cycle."""
        slot = "O" if operand.written else ("I" if self.core.levels_of("I") else "W")
        level = self.core.top(slot)
        name, bits = self.core.flow_ports[level.name, slot, Flow.COLLECT if operand.written else Flow.FEED]
        return name, bits * level.instances

    def _summed(self, ways: Ways) -> list[int]:
        """Positions of the results that pieces of some ways have sums of."""
        if not self.operator.dimensions.combine:
            return []
        return [number for number in np.flatnonzero(ways.written).tolist() if ways.sums[number].max() > 1]

    def _wide(self, number: int) -> float:
        """Bits of a partial sum of a result."""
        return format_named(accumulator_of(self.operator, self.core, self.operator.nest.operands[number])).bits

    def _overfull(self, ways: Ways, number: int) -> Bool:
        """Of which ways the partial sums of a result do not fit the core's memory."""
        found: Bool = 2 * ways.elements[number] * self._wide(number) > 8 * self.core.top("O").total_bytes
        return found

    def _owed(self, ways: Ways, wires: F64) -> F64:
        """Cycles of moving and adding up partial sums; those that do not fit the core's memory go to DRAM and back."""
        found = np.zeros(len(ways.splits))
        for number in self._summed(ways):
            elements, sums, wide = ways.elements[number], ways.sums[number], self._wide(number)
            mine = elements / adding_cores(elements, sums, self.core)
            times = np.where(self._overfull(ways, number), 2, 1)
            every = times * (sums - 1) * elements * wide * ways.pieces / sums / wires
            moved = np.maximum((sums - 1) * mine * wide / self.alone, every)
            adding = Adding.of(self.operator, self.operator.nest.operands[number], self.core).cycles(mine, sums)
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
    return store[SPLITS].get_or((clock.key(ways, store), cores), lambda: _best(clock, ways, store))


def _best(clock: Clock, ways: Ways, store: CostStore) -> Split:
    operator, splits = clock.operator, ways.splits
    beside, array = clock.beside(ways), clock.least(ways)
    cycles = _overlapped(*beside, array)
    if operator.is_matrix:
        cycles = _looked_at(clock, ways, beside, array, cycles, store)
    least = cycles.min()
    if cycles[0] <= ALONE * least:
        return ()
    return splits[_simplest(ways, cycles, operator, (CLOSE - 1) * clock.core.dispatch_cycles)]


def _overlapped(slowest: F64, together: F64, after: F64, array: F64) -> F64:
    """Cycles of pieces, of everything beside their array and of the array."""
    hidden = 1 - 1 / STREAM_TILES  # share of a stream that passes while other tiles are worked on
    return np.asarray(hidden * np.maximum(slowest, array) + (1 - hidden) * (together + array) + after)


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
    clock: Clock, ways: Ways, beside: tuple[F64, F64, F64], array: F64, cycles: F64, store: CostStore
) -> F64:
    """Cycles with what the array really takes of the splits that may be best. ``cycles`` with the least that it may
    take are a lower bound: those left (infinite) are out once one is found that is less. One core always: it is what
    splits are compared with."""
    found, best = np.full(len(array), math.inf), math.inf
    for number in dict.fromkeys((0, *np.argsort(cycles, kind="stable").tolist())):
        if cycles[number] > best * CLOSE:
            break
        try:
            taken = max(array_cycles(clock.operator, clock.core, ways.splits[number], store), array[number])
        except MappingError:
            continue
        slowest, together, after = (part[number] for part in beside)
        found[number] = _overlapped(slowest, together, after, taken)
        best = min(best, float(found[number]))
    return found if math.isfinite(best) else cycles
