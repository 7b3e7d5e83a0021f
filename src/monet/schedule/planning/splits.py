"""How an operator is split over like cores: of all ways along one or two dimensions (of attention three), over 1, 2,
4 … all of them, the fastest by a rough clock.

The clock sees what a schedule will see of the longest piece: cycles of the array (at the best unrolling that its wires
allow) or of the lanes; bytes at the ports of the core's memory; bytes over the core's own wires; bytes over those that
cores share, where what several of them read passes once; and, if a sum is cut, moving and adding up partial sums. The
slowest of them counts in full, the others as far as the first tile does not overlap with anything.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from monet.arrays import F64, I64, Bool
from monet.formats import format_named
from monet.graph.loop_nest import LoopNest, Operand
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.core import Core, Flow
from monet.hardware.errors import HardwareError
from monet.hardware.lane_array import arrays_for, peak_products_per_cycle
from monet.hashed import Hashed
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.errors import MappingError
from monet.mapping.mapper.parts import has_phases
from monet.mapping.mapper.search import Target, frames
from monet.mapping.nest.phases import phases
from monet.mapping.nest.prices import known_shape
from monet.mapping.vector import STREAM_TILES, supports
from monet.schedule.costs.attention_cost import lanes_beside, whole_products
from monet.schedule.costs.block_kernels import kernel_of
from monet.schedule.costs.cost_table import CostTable
from monet.schedule.expansion.geometry import make_steps, step_nest
from monet.schedule.expansion.split_reductions import Adding, accumulator_of, adding_cores
from monet.schedule.machine import Machine
from monet.schedule.plan import Split
from monet.schedule.supplies import Channel
from monet.schedule.workload import Operator, overlaps

CLOSE = 1.01  # splits that differ by less are as good as each other
ALONE = 1.02  # a split over several cores is not worth less than this


WAYS = Section["Ways"]("ways to split", 10_000)
ARRAY_CYCLES = Section[float]("array cycles of pieces", 100_000)
ARRAYS = Section[Hashed[object]]("what arrays of cores depend on", 2048)
CLOCKS = Section["tuple[int, Clock]"]("clocks of splits", 4096)  # with a number each, short for its key
CLOCKS_ON = Section["tuple[int, Clock]"]("clocks of splits by core", 4096)  # the same
WIRES = Section[int]("wires of like cores", 4096)  # a number each
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
        piece = step_nest(operator.nest, steps, steps.longest)
        if operator.is_attention:
            pairs = tuple(pair for pair, _ in operator.products)
            groups, nests = whole_products(piece, core, pairs)
            return groups * _fewest_cycles(nests, core, store)
        formats = [operand.dtype for operand in operator.nest.reads[:2]]
        sums = math.prod(many for dim, many in split if dim not in operator.nest.writes[0].dims)
        kernel, arrays = kernel_of(operator.nest, core, steps.count, sums), arrays_for(core, *formats)
        if kernel is not None:  # in place of the array; lanes only where their arithmetic may take less
            paces = [array.units * array.rate(*formats, either_way=True).products_per_cycle for array in arrays]
            sooner = (pace * kernel.cycles > piece.points for pace in paces)
            arrays = tuple(array for array, may in zip(arrays, sooner, strict=True) if may and array != core)
        ways: list[tuple[Core, tuple[LoopNest, ...]]] = [(array, (piece,)) for array in arrays]
        ways += [(array, phases(piece)) for array in arrays if has_phases(piece, Target(array))]
        found = [_fewest_cycles(nests, array, store) for array, nests in ways]
        return min([*found, *([kernel.cycles] if kernel else [])])

    return store[ARRAY_CYCLES].get_or((operator.key, arrays_key(core, store), split), compute)


def arrays_key(core: Core, store: CostStore) -> Hashed[object]:
    """What the arrays of a core do depends on, whatever its memories hold: one object for equal ones."""
    known = store[ARRAYS]

    def compute() -> Hashed[object]:
        room = core.top("I").total_bytes if core.thread_blocks else 0
        found = Hashed[object]((known_shape(core, store), core.thread_blocks, room, *_lanes_key(core)))
        return known.get_or(found, lambda: found)

    return known.get_or(core, compute)


def _lanes_key(core: Core) -> tuple[object, ...]:
    return core.lanes, core.vector_rates, core.functions


def _fewest_cycles(parts: Sequence[LoopNest], array: Core, store: CostStore) -> float:
    return sum(min(frame.compute_cycles for frame in frames(part, array, None, store, limit=1)) for part in parts)


# --- candidates -------------------------------------------------------------------------------------------------------


def core_counts(cores: int) -> list[int]:
    """1, 2, 4 … all."""
    return [*(1 << bit for bit in range(cores.bit_length()) if 1 << bit < cores), cores]


def candidates(operator: Operator, cores: int) -> Iterator[Split]:
    """Ways to split an operator over up to so many cores, no split first."""
    return (split for _, split in _by_cores(operator, cores))


def _by_cores(operator: Operator, cores: int) -> Iterator[tuple[int, Split]]:
    """The same, each with how many cores it was made for. A dimension is cut into as few parts as leave the longest one
    as it is."""
    allowed = allowed_dims(operator)
    dims = [(dim, operator.nest.granules(dim)) for dim, size in operator.nest.dims if dim in allowed and size > 1]
    seen: set[Split] = set()
    for count in core_counts(cores):
        three = _along_three(dims, count) if operator.is_attention else ()
        for split in ((), *_along_one(dims, count), *_along_two(dims, count), *three):
            if split not in seen:
                seen.add(split)
                yield count, split


def _along_one(dims: Iterable[tuple[str, int]], cores: int) -> Iterator[Split]:
    return (((dim, _fewest(size, cores)),) for dim, size in dims if cores > 1)


def _along_two(dims: Iterable[tuple[str, int]], cores: int) -> Iterator[Split]:
    """Pairs of dimensions, one of them cut as far as the cores that the other leaves go. All of which none could have
    one part more: with 107 cores 2 × 53 as well as 10 × 10, and those with every core where the number has divisors."""
    counts = {cores // parts for parts in range(1, cores + 1)}
    for (first, size), (second, other) in itertools.combinations(dims, 2):
        for parts in sorted(counts | {min(size, cores), max(1, cores // other)}):
            here = _fewest(size, parts)
            there = _fewest(other, cores // here)
            if here > 1 and there > 1:
                yield (first, here), (second, there)


def _along_three(dims: Sequence[tuple[str, int]], cores: int) -> Iterator[Split]:
    """Attention of fewer samples and heads than cores: every one apart, and their rows or their keys cut."""
    apart = tuple((dim, size) for dim, size in dims if dim in ("B", "H"))
    left = cores // math.prod(size for _, size in apart)
    for dim, size in dims:
        if len(apart) == 2 and left > 1 and dim in ("N", "C"):
            yield (*apart, (dim, _fewest(size, left)))


def _fewest(size: int, parts: int) -> int:
    """The fewest parts whose longest is as long as that of ``parts``."""
    return -(-size // -(-size // max(1, min(size, parts))))


# --- the rough clock --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ways:
    """Ways to split an operator, and what its longest piece has of everything then; whatever the cores are. By operand:
    elements and bytes of a piece, different parts among all pieces."""

    splits: tuple[Split, ...]
    made_for: tuple[int, ...]  # cores, ascending: the ways over fewer come first
    pieces: I64
    share: F64  # of the points of the nest
    elements: F64
    bytes: F64
    distinct: F64
    written: Bool

    @classmethod
    def of(cls, operator: Operator, cores: int) -> Ways:
        """All ways over up to so many cores."""
        made_for, splits = zip(*_by_cores(operator, cores), strict=True)
        nest = operator.nest
        parts = {dim: np.array([dict(split).get(dim, 1) for split in splits]) for dim in nest.sizes}
        sizes = {dim: _longest_piece(nest, dim, parts[dim]) for dim in nest.sizes}
        one = np.ones(len(splits))
        elements = np.stack([one * _box(operand, sizes) for operand in nest.operands])
        bits = np.array([[operand.bits_per_element] for operand in nest.operands])
        return cls(
            splits,
            made_for,
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
    def most_sums(self) -> list[float]:
        """The same of the way that has most, by operand."""
        found: list[float] = self.sums.max(axis=1).tolist()
        return found

    @cached_property
    def one_way_bits(self) -> F64:
        """Bits of a piece that are read or that are written, whichever are more."""
        read: F64 = self.bytes[~self.written].sum(axis=0)
        written: F64 = self.bytes[self.written].sum(axis=0)
        return np.maximum(written, read) * 8

    def burst_bits(self, burst_bytes: int, way: Channel) -> F64:
        """Bits over a channel in whole bursts, what several pieces that it supplies want counted once."""
        key = burst_bytes, way.users, way.cores
        if key not in self._burst_bits:
            bursts = np.ceil(self.bytes / burst_bytes) * burst_bytes
            reached = self.by_count([float(way.reached(count)) for count in self.counts])
            self._burst_bits[key] = (np.minimum(self.distinct, reached) * bursts).sum(axis=0) * 8
        return self._burst_bits[key]

    @cached_property
    def _burst_bits(self) -> dict[tuple[int, int, int], F64]:
        return {}


def _longest_piece(nest: LoopNest, dim: str, parts: I64) -> I64:
    """Positions of the longest of so many pieces of a dimension."""
    size, grain = nest.sizes[dim], nest.grain.get(dim, 1)
    found: I64 = -(-nest.granules(dim) // parts) * grain
    return np.minimum(found, size)


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
class Wires:
    """Between like cores and what supplies them, in bits per cycle of their clock: of one core alone, of so many
    together for what they give each other (by ``Ways.counts``), and one by one."""

    alone: float
    exchanged: tuple[float, ...]
    channels: tuple[Channel, ...]
    burst_bytes: int

    @classmethod
    def of(cls, operator: Operator, first: CoreInstance, table: CostTable, ways: Ways) -> tuple[int, Wires]:
        """Wires that an operator's operands come over to cores like this one, and a number for them."""
        supply = table.machine.supplying.supply(first, operator.input_bytes + operator.output_bytes)
        key = first.name, supply, ways.counts
        found = table.wires.get(key)
        if found is None:
            wires = cls._from(supply, first, table.machine, ways.counts)
            found = table.wires[key] = table.store[WIRES].get_or(wires, table.store.next_number), wires
        return found

    @classmethod
    def _from(cls, supply: int, first: CoreInstance, machine: Machine, counts: Sequence[int]) -> Wires:
        supplying, passes = machine.supplying, _passes(machine.accelerator, first)
        exchanged = tuple(count * supplying.pace(first, count, supply) / passes for count in counts)
        alone, channels = supplying.border(first, supply).bits_per_cycle, supplying.channels(first, supply)
        return cls(alone, exchanged, channels, machine.accelerator.dram.burst_bytes)


def _passes(accelerator: Accelerator, first: CoreInstance) -> int:
    """How often what one core gives to another like it passes the same link: twice where a hub is between them."""
    like = accelerator.like_cores[accelerator.design_number[first.name]]
    other = next((core.endpoint for core in like if core.endpoint != first.endpoint), first.endpoint)
    try:
        return max(Counter(accelerator.route(first.endpoint, other)).values(), default=1)
    except HardwareError:
        return 2  # over a memory: out, and in again


@dataclass(frozen=True)
class Owed:
    """What pieces owe that have sums of a result in parts, by way: bits that a core takes from the others, bits that
    pass between all of them, cycles of adding up."""

    some: Bool  # of which ways there is anything
    own_bits: F64
    all_bits: F64
    adding: F64

    @classmethod
    def of(cls, operator: Operator, core: Core, ways: Ways, number: int) -> Owed:
        """Of one result. Sums that do not fit the core's memory go to DRAM and back."""
        elements, sums, result = ways.elements[number], ways.sums[number], operator.nest.operands[number]
        wide = _sum_bits(operator, core, result)
        mine = elements / adding_cores(elements, sums, core)
        times = np.where(_overfull(operator, core, ways, number), 2, 1)
        adding = Adding.of(operator, result, core).cycles(mine, sums)
        return cls(
            sums > 1, (sums - 1) * mine * wide, times * (sums - 1) * elements * wide * ways.pieces / sums, adding
        )


def _summed(operator: Operator, ways: Ways) -> list[int]:
    """Positions of the results that pieces of some ways have sums of."""
    if not operator.dimensions.combine:
        return []
    return [number for number in np.flatnonzero(ways.written).tolist() if ways.most_sums[number] > 1]


def _sum_bits(operator: Operator, core: Core, result: Operand) -> float:
    return format_named(accumulator_of(operator, core, result)).bits


def _overfull(operator: Operator, core: Core, ways: Ways, number: int) -> Bool:
    """Of which ways the partial sums of a result do not fit the core's memory."""
    wide = _sum_bits(operator, core, operator.nest.operands[number])
    found: Bool = 2 * ways.elements[number] * wide > 8 * core.top("O").total_bytes
    return found


@dataclass(frozen=True)
class Clock:
    """What the clock knows of ways to split an operator over cores of a design, whatever their wires."""

    operator: Operator
    core: Core
    ways: Ways
    slowest_port: F64
    all_ports: F64  # one after another
    owed: tuple[Owed, ...]
    work_cycles: float  # of the whole operator, that the array or the lanes cannot do without
    array: dict[int, float]  # by way, what its array really takes, as far as it was asked for

    @classmethod
    def of(cls, operator: Operator, core: Core, lanes: Core | None, ways: Ways) -> Clock:
        """``lanes``: the core that does vector work, this one or one beside its array."""
        ports: dict[str, F64] = {}
        for row, operand in zip(ways.bytes, operator.nest.operands, strict=True):
            name, width = _port(core, operand)
            ports[name] = ports.get(name, 0) + row * 8 / width
        clocks = np.stack([*ports.values()])
        owed = tuple(Owed.of(operator, core, ways, number) for number in _summed(operator, ways))
        work = _work_cycles(operator, core, lanes)
        return cls(operator, core, ways, clocks.max(axis=0), clocks.sum(axis=0), owed, work, {})

    @staticmethod
    def key(operator: Operator, core: Core, lanes: Core | None, ways: Ways, store: CostStore) -> tuple[object, ...]:
        """Everything that it depends on. Of the core's memories that is their ports, and for which ways partial sums
        find no room."""
        beside = None if operator.is_matrix or not lanes else (*_lanes_key(lanes), lanes.clock_hz)
        overfull = tuple(int(_overfull(operator, core, ways, number).sum()) for number in _summed(operator, ways))
        paces = core.clock_hz, core.dispatch_cycles
        return operator.key, len(ways.splits), arrays_key(core, store), paces, beside, overfull

    def beside(self, wires: Wires) -> tuple[F64, F64, F64]:
        """Cycles of everything beside array and lanes: the slowest, all together, and what comes afterwards."""
        ways, bits_per_cycle = self.ways, self.ways.by_count(wires.exchanged)
        alone = ways.one_way_bits / wires.alone
        shared = [ways.burst_bits(wires.burst_bytes, way) / way.bits_per_cycle for way in wires.channels]
        together: F64 = np.max(shared, axis=0)
        after = np.zeros(len(ways.splits))
        for owed in self.owed:
            moved = np.maximum(owed.own_bits / wires.alone, owed.all_bits / bits_per_cycle)
            after += np.where(owed.some, moved + owed.adding, 0)
        slowest = np.maximum(np.maximum(self.slowest_port, alone), together)
        return slowest, self.all_ports + alone + together, after + self.core.dispatch_cycles

    def array_cycles(self, number: int, store: CostStore) -> float:
        """Cycles that the array really takes for a way; infinite if it cannot run its pieces."""
        found = self.array.get(number)
        if found is None:
            try:
                found = array_cycles(self.operator, self.core, self.ways.splits[number], store)
            except MappingError:
                found = math.inf
            self.array[number] = found
        return found


def _port(core: Core, operand: Operand) -> tuple[str, float]:
    """The port of the core's memory that an operand passes, and its bits per cycle."""
    slot = "O" if operand.written else ("I" if core.levels_of("I") else "W")
    level = core.top(slot)
    name, bits = core.flow_ports[level.name, slot, Flow.COLLECT if operand.written else Flow.FEED]
    return name, bits * level.instances


def _work_cycles(operator: Operator, core: Core, beside: Core | None) -> float:
    """Cycles of a whole operator that the array or the lanes cannot do without."""
    nest, array, lanes = operator.nest, 0.0, 0.0
    for pair, macs in operator.products:
        array += macs / peak_products_per_cycle(core, *pair)
    work = dict(operator.lane_work) or {"copy": max((math.prod(out.shape) for out in nest.writes), default=0)}
    if beside and not operator.is_matrix and not supports(beside, work):
        cycles = math.fsum(beside.function_cycles(name) * count for name, count in work.items())
        lane_rate = beside.lane_rate(*(operand.dtype for operand in nest.operands))
        pace = core.clock_hz / beside.clock_hz
        lanes = cycles * pace / (beside.lanes * lane_rate.elements_per_cycle)
    return max(array, lanes)


# --- choice -----------------------------------------------------------------------------------------------------------


class Clocked(NamedTuple):
    """The clock of an operator on cores of one design, over all of them, with the wires of a machine; a number for what
    the clock knows."""

    number: int
    clock: Clock
    wired: int  # a number for the wires
    wires: Wires
    attending: float  # cycles of fused attention as a whole: of it no bound on its products comes near

    @property
    def key(self) -> tuple[int, int, float]:
        """Short for all of it."""
        return self.number, self.wired, self.attending

    @classmethod
    def of(cls, operator: Operator, first: CoreInstance, most: int, table: CostTable) -> Clocked:
        """Over up to ``most`` cores like one."""
        store = table.store
        attending = (table.unfused_cycles(operator, first) or 0.0) if operator.is_attention else 0.0
        beside = lanes_beside(table.machine.accelerator, first) if operator.is_attention else first
        lanes = beside.core if beside else None
        number, clock = store[CLOCKS_ON].get_or(
            (operator.key, most, first.core, lanes), lambda: _clock(operator, first.core, lanes, most, store)
        )
        return cls(number, clock, *Wires.of(operator, first, table, clock.ways), attending)


def _clock(operator: Operator, core: Core, lanes: Core | None, most: int, store: CostStore) -> tuple[int, Clock]:
    """The clock of an operator over up to ``most`` cores, and its number: one for all cores on which it is the same."""
    ways = store[WAYS].get_or((operator.key, most), lambda: Ways.of(operator, most))
    key = most, Clock.key(operator, core, lanes, ways, store)
    return store[CLOCKS].get_or(key, lambda: (store.next_number(), Clock.of(operator, core, lanes, ways)))


def best_split(operator: Operator, instances: tuple[CoreInstance, ...], table: CostTable) -> Split:
    """The split over like cores that is fastest by the rough clock, looked up if the operator was asked for before;
    none where more than one core is not worth it."""
    store, cores, first = table.store, len(instances), instances[0]
    if cores == 1:
        return ()
    accelerator = table.machine.accelerator
    every = len(accelerator.like_cores[accelerator.design_number[first.name]])
    most = every if cores in core_counts(every) else cores  # ways over fewer are the first of those over all
    key = operator.key, first.name, most
    clocked = table.clocks.get(key)
    if clocked is None:
        clocked = table.clocks[key] = Clocked.of(operator, first, most, table)
    many = bisect_right(clocked.clock.ways.made_for, cores)
    return store[SPLITS].get_or((*clocked.key, many), lambda: _best(clocked, many, table))


def _best(clocked: Clocked, many: int, table: CostTable) -> Split:
    """The best of the first ``many`` ways."""
    clock, ways = clocked.clock, clocked.clock.ways
    if many == 1:
        return ()
    beside, array, cycles = _timed(clocked, table)
    cycles = cycles[:many]
    some = beside[0][:many], beside[1][:many], beside[2][:many]
    if clock.operator.is_matrix:
        cycles = _looked_at(clock, some, array[:many], cycles, table.store)
    elif clock.operator.is_attention:
        cycles = _looked_at(clock, some, array[:many], cycles, table.store, clocked.attending)
    least = cycles.min()
    if cycles[0] <= ALONE * least:
        return ()
    return ways.splits[_simplest(ways, cycles, clock.operator, (CLOSE - 1) * clock.core.dispatch_cycles)]


def _timed(clocked: Clocked, table: CostTable) -> tuple[tuple[F64, F64, F64], F64, F64]:
    """Cycles of all ways: beside the array, of the array at least, and of both."""
    found = table.timings.get(clocked.key)
    if found is None:
        clock = clocked.clock
        beside = clock.beside(clocked.wires)
        array = clock.ways.share * max(clock.work_cycles, clocked.attending)
        found = table.timings[clocked.key] = beside, array, _overlapped(*beside, array)
    return found


HIDDEN = 1 - 1 / STREAM_TILES  # share of a stream that passes while other tiles are worked on


def _overlapped(slowest: F64, together: F64, after: F64, array: F64) -> F64:
    """Cycles of pieces, of everything beside their array and of the array."""
    return np.asarray(HIDDEN * np.maximum(slowest, array) + (1 - HIDDEN) * (together + array) + after)


def _simplest(ways: Ways, cycles: F64, operator: Operator, launch: float) -> int:
    """Of the splits as good as the best the simplest: along one dimension, the outermost one. Where cores take time to
    ``launch``, few parts of a sum, and few of them: beside it the rest is nothing."""
    rank = {dim: number for number, (dim, _) in enumerate(operator.nest.dims)}
    close = np.flatnonzero(cycles <= (cycles.min() + launch if launch else CLOSE * cycles.min()))

    def order(number: int) -> tuple[object, ...]:
        split = ways.splits[number]
        added = math.prod(parts for dim, parts in split if dim in operator.summed)
        few = (added, ways.pieces[number]) if launch else ()
        return few, len(split), [rank[dim] for dim, _ in split], cycles[number]

    return min(close.tolist(), key=order)


def _looked_at(
    clock: Clock, beside: tuple[F64, F64, F64], array: F64, cycles: F64, store: CostStore, attending: float = 0.0
) -> F64:
    """Cycles with what the array really takes of the splits that may be best. ``cycles`` with the least that it may
    take are a lower bound: those left (infinite) are out once one is found that is less. One core always: it is what
    splits are compared with. Of fused attention a piece has its share of what the whole takes (``attending``) beyond
    the array at its best."""
    found, best = [math.inf] * len(array), math.inf
    slowest, together, after = (part.tolist() for part in beside)
    least, bound = array.tolist(), cycles.tolist()
    for number in dict.fromkeys((0, *np.argsort(cycles, kind="stable").tolist())):
        if bound[number] > best * CLOSE:
            break
        taken = max(clock.array_cycles(number, store), least[number])
        if attending:
            more = max(0.0, attending - clock.array_cycles(0, store))
            taken = max(taken, clock.array_cycles(number, store) + float(clock.ways.share[number]) * more)
        found[number] = HIDDEN * max(slowest[number], taken) + (1 - HIDDEN) * (together[number] + taken) + after[number]
        best = min(best, found[number])
    return np.array(found) if math.isfinite(best) else cycles
