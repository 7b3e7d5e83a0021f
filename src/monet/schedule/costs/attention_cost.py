"""What a step of fused attention costs: online softmax on an array and vector lanes that share a memory.

Rows of scores are made, used and forgotten on chip, a tile of n query rows by c keys at a time. Forward (two products):
for every tile of rows, over all tiles of keys, S = Q·Kᵀ, P = exp(S − running maximum), O = O·correction + P·V.
Backward (five products, scores made again from the log-sum-exp): for every block of keys whose dK and dV stay as sums,
over all tiles of rows, S = Q·Kᵀ, dP = dO·Vᵀ, dV += Pᵀ·dO, dQ += dS·K, dK += dSᵀ·Q. (FlashAttention-2,
arXiv 2307.08691; FuseMax, arXiv 2406.10491, for array and lanes working side by side.) If scores are kept, lanes write
every tile of S once in forward, and read it once in backward, which has four products then.

* The products are costed by the mapper as matrix products of one tile, operands and results in the core's memory.
* Array and lanes work on different tiles at a time: a tile takes as long as the slowest of array, lanes, and each port
  of the memory they share. The first tile on the lanes, or the last on the array, has nothing beside it.
* Products follow each other on the array without a pause, as those of a batch do: what one needs is loaded, and what
  another made leaves, beside a third. The array fills once before the first and drains once behind the last.
* Sums that many tiles add to (the output; in backward dK and dV) stay where the array adds up if they take at most half
  of that level, and pass the core's memory once; else every tile reads and writes them there.
* Query heads that share a key head are more rows for the same keys.
* Keys and values stay if they fit; otherwise they come again for every tile of rows. In backward, rows come again for
  every block of keys, and dQ leaves and comes back as sums. Of all tiles that fit, the one with the least time counts.
* Every score is computed, also those that a causal mask hides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from monet.graph.loop_nest import LoopNest, Operand, index
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.core import Core, Flow
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.mapper.search import Mapped, search
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.dram_route import OperandCost
from monet.mapping.vector import supports
from monet.schedule.costs.attention_tiles import (
    Formats,
    Pair,
    Shape,
    Tile,
    at_ends,
    buffer,
    buffers,
    every_tile,
    halves,
    is_key,
    moved_bytes,
    shape_of,
    tiles_within,
)
from monet.schedule.costs.step_cost import StepCost

FINALISTS = 12  # pairs of tiles whose products are mapped


def lanes_beside(accelerator: Accelerator, instance: CoreInstance) -> CoreInstance | None:
    """Who does the vector work beside a core's array: its own lanes, or a vector core on the same memory."""
    if _has_lanes(instance):
        return instance
    mine = {name for _, name in instance.memories}
    for other in accelerator.cores:
        if _has_lanes(other) and mine & {name for _, name in other.memories}:
            return other
    return None


def arrays_beside(accelerator: Accelerator, instance: CoreInstance) -> int:
    """How many cores compute from the memory that a core's array computes from, itself included."""
    mine = {name for _, name in instance.memories}
    return sum(
        bool(other.core.modes) and bool(mine & {name for _, name in other.memories}) for other in accelerator.cores
    )


def _has_lanes(instance: CoreInstance) -> bool:
    """Whether a core has more than a quantiser behind its array."""
    return instance.core.lanes > 0 and not instance.core.only_quantises


def cannot_attend(instance: CoreInstance, lanes: CoreInstance | None, formats: Formats) -> str:
    """Why a core cannot run fused attention; empty if it might."""
    core = instance.core
    if not core.modes:
        return "it has no array"
    if core.streamed or core.weights_resident or len({name for _, name in instance.memories}) != 1:
        return "fused attention needs one memory that holds inputs, weights and results of the array"
    if lanes is None:
        return "fused attention needs vector lanes, in the core or in a vector core on its memory"
    return next(filter(None, (core.cannot_multiply(*pair) for pair in formats)), "")


def attention_step(
    nest: LoopNest,
    work: Mapping[str, int],
    instance: CoreInstance,
    lanes: CoreInstance | None,
    border: Border,
    objective: str,
    streamed: bool,
    store: CostStore,
    formats: Formats,
    sharers: int = 1,
) -> StepCost:
    """Fused attention, forward or backward, of one step; ``work`` is that of this nest, ``formats`` are those of the
    operands of its products. So many cores (``sharers``) do such steps from the memory of this one."""
    reason = cannot_attend(instance, lanes, formats)
    functions = {name: count for name, count in work.items() if name != "mac"}
    if not reason and lanes is not None:
        reason = supports(lanes.core, functions)
    if reason or lanes is None:
        raise MappingError(reason)
    shape = shape_of(nest, instance.core, formats)
    room = border.memories[0][2].total_bytes
    tiles = list(tiles_within(nest, shape, room if streamed else math.inf, streamed))
    if not tiles:
        least = min(tile.own_bytes + buffers(nest, shape, tile) for tile in every_tile(shape))
        raise DoesNotFit("one tile of scores and its operands", border.memories[0][1], least, room)
    run = lambda tile: _run(shape, tile, functions, instance.core, lanes.core, objective, store)  # noqa: E731
    chosen = _Choice(nest, shape, instance.core, border if streamed else None, run, tiles, sharers)
    tile, found = chosen.best()
    return _step(nest, shape, tile, found, chosen.useful, instance.core, streamed)


@dataclass
class _Choice:
    """Which tile a step takes: of those that are looked at, the one that is done first with all that passes the
    ``border``, if there is one: its first operands in, the slower of core and wires, its last results out. Cores on one
    memory wait for its port while the others have it."""

    nest: LoopNest
    shape: Shape
    core: Core
    border: Border | None
    run: Callable[[Tile], _Run]
    tiles: list[Tile]
    sharers: int
    useful: float = 0.0
    known: dict[tuple[int, int, bool], _Run] = field(default_factory=dict)
    found: tuple[float, Tile, _Run] | None = None

    def __post_init__(self) -> None:
        self.useful = _useful_cycles(self.shape, self.core)

    def best(self) -> tuple[Tile, _Run]:
        """Those are looked at that move least, the largest of them; then, as long as that is faster, tiles with half
        the rows, half the keys, or both, of the best one: their first operands are there earlier."""
        for tile in sorted(self.tiles, key=self._least):
            if self.found is not None and self._least(tile)[0] >= self.found[0]:
                break
            if self._pair(tile) in self.known or len(self.known) < FINALISTS:
                self._try(tile)
        assert self.found is not None
        before = None
        while self.border is not None and before is not self.found[1]:
            before = self.found[1]
            rows, keys = (halves(size, self.shape.grain)[:2] for size in (before.rows, before.keys))
            for tile in self.tiles:
                if tile.rows in rows and tile.keys in keys:
                    self._try(tile)
        return self.found[1:]

    def _least(self, tile: Tile) -> tuple[float, bool, int]:
        """Cycles that a tile takes at least; then, which one is looked at first."""
        return max(self.useful, self._wires(tile)[0]), not _staying(self.shape, tile, self.core), -tile.rows * tile.keys

    def _pair(self, tile: Tile) -> tuple[int, int, bool]:
        """Equal for tiles that take the core equally long."""
        return tile.rows, tile.keys, bool(_staying(self.shape, tile, self.core))

    def _try(self, tile: Tile) -> None:
        passing, edges = self._wires(tile)
        pair = self._pair(tile)
        if self.found is not None and edges + max(self.useful, passing - edges) >= self.found[0]:
            return
        if pair not in self.known:
            self.known[pair] = self.run(tile)
        run = self.known[pair]
        cycles = edges + max(run.cycles, passing - edges) + (self.sharers - 1) * run.port_cycles
        if self.found is None or cycles < self.found[0]:
            self.found = cycles, tile, self.known[pair]

    def _wires(self, tile: Tile) -> tuple[float, float]:
        """Cycles of all that passes the border, and of what the core waits for at both ends."""
        if self.border is None:
            return 0.0, 0.0
        per_byte, operands = 8 / self.border.bits_per_cycle, self.nest.operands
        passing = per_byte * sum(moved_bytes(self.shape, tile, operand)[0] for operand in operands)
        edges = per_byte * sum(at_ends(self.shape, tile, operand) for operand in operands)
        return passing, edges + 2 * self.border.latency_cycles


def _useful_cycles(shape: Shape, core: Core) -> float:
    """Cycles of the array for all products with every unit busy."""
    macs: dict[float, int] = {}
    for product, pair in zip(products(shape, shape.rows, shape.keys), shape.formats, strict=True):
        pace = core.units * core.rate(*pair, either_way=True).products_per_cycle
        macs[pace] = macs.get(pace, 0) + shape.groups * product.points
    return math.fsum(many / pace for pace, many in macs.items())


# --- cycles and joules ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """All tiles of a step on array and lanes."""

    macs: int
    compute: float  # cycles of the array without waiting
    array: float  # with its stalls
    cycles: float
    energy_j: dict[str, float]
    bound_by: str
    port_cycles: float  # of the busiest port of the memory that array and lanes share


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of a tile; whether its sums ``stay`` where the array adds them up, from tile to tile."""

    nest: LoopNest
    mapped: Mapped
    stays: bool

    def ports(self, core: Core) -> dict[str, float]:
        """Cycles of every port; without its results in the core's memory if they stay below it."""
        found, top = dict(self.mapped.cost.port_cycles), core.top("O")
        for access in self.mapped.cost.accesses:
            if self.stays and access.level == top.name and access.slot == "O":
                port = top.port_for("O", access.flow)
                found[f"{top.name}.{port.name}"] -= access.bits / port.bandwidth_bits_per_cycle
        return found

    def cycles(self, core: Core) -> float:
        """Cycles of the array between others."""
        cost = self.mapped.cost
        return max(cost.compute_cycles + cost.exposed_cycles, *self.ports(core).values())


def _staying(shape: Shape, tile: Tile, core: Core) -> tuple[int, ...]:
    """Which products of a tile have sums that stay where the array adds up."""
    level = core.level(core.accumulator_level)
    if level.name == core.top("O").name:
        return ()
    elements = tile.block * (shape.width + shape.value_width) if shape.backward else tile.rows * shape.value_width
    if 2 * elements * shape.sum > level.total_bytes:
        return ()
    first = shape.score_products
    return (first, first + 2) if shape.backward else (first,)


def products(shape: Shape, rows: int, keys: int) -> tuple[LoopNest, ...]:
    """The matrix products of one tile: scores and their gradients leave as sums, all else in the operands' type."""
    made, held = shape.accumulator, shape.formats
    scores = (_product(rows, keys, shape.width, ("N", "C"), ("K", "C"), held[0], made),)
    if not shape.backward:
        return *scores, _product(rows, shape.value_width, keys, ("N", "C"), ("C", "K"), held[1], made)
    held = held[-4:]
    return (
        *(() if shape.kept else scores),
        _product(rows, keys, shape.value_width, ("N", "C"), ("K", "C"), held[0], made),  # dP = dO·Vᵀ
        _product(keys, shape.value_width, rows, ("C", "N"), ("C", "K"), held[1], made),  # dV += Pᵀ·dO
        _product(rows, shape.width, keys, ("N", "C"), ("C", "K"), held[2], made),  # dQ += dS·K
        _product(keys, shape.width, rows, ("C", "N"), ("C", "K"), held[3], made),  # dK += dSᵀ·Q
    )


def whole_products(nest: LoopNest, core: Core, formats: Formats) -> tuple[int, tuple[LoopNest, ...]]:
    """How many times each, and the products of a nest with all rows and keys in one tile."""
    shape = shape_of(nest, core, formats)
    return shape.groups, products(shape, shape.rows, shape.keys)


def _product(
    rows: int, columns: int, inner: int, left: tuple[str, str], right: tuple[str, str], dtypes: Pair, result: str
) -> LoopNest:
    sizes = {"N": rows, "K": columns, "C": inner}
    operands = []
    sides = ("x", left, dtypes[0]), ("w", right, dtypes[1]), ("y", ("N", "K"), result)
    for slot, (name, axes, kind) in enumerate(sides):
        shape = (sizes[axes[0]], sizes[axes[1]])
        operands.append(Operand(name, slot, kind, shape, (index(axes[0]), index(axes[1])), slot == 2))
    return LoopNest(tuple(sizes.items()), tuple(operands))


def _run(
    shape: Shape, tile: Tile, functions: Mapping[str, int], core: Core, lanes: Core, objective: str, store: CostStore
) -> _Run:
    """Cost of all tiles of a step; those at the edges by their own size."""
    pace = core.clock_hz / lanes.clock_hz
    rate = lanes.lane_rate(shape.accumulator, shape.dtype)
    rounded = functions.get("quantize", 0) if core.only_quantises else 0  # behind the array, not on the lanes
    own = {name: count for name, count in functions.items() if not (rounded and name == "quantize")}
    lane_cycles = math.fsum(lanes.function_cycles(name) * count for name, count in own.items())
    vector = lane_cycles / (lanes.lanes * rate.elements_per_cycle) * pace  # of the whole step
    rounding = rounded * core.function_cycles("quantize") if rounded else 0.0
    energy = {"compute": lane_cycles * rate.energy_j}
    if rounded:
        energy["compute"] += rounding * core.lane_rate(shape.accumulator).energy_j
        rounding /= core.lanes
    macs, compute, array, cycles, shortest, ends = 0, 0.0, 0.0, 0.0, 0.0, 0.0
    slowest, busiest = dict[str, float](), dict[str, float]()
    scores, staying = shape.groups * shape.rows * shape.keys, _staying(shape, tile, core)
    for count, rows, keys in _sizes(shape, tile):
        found = [
            _Product(product, search(product, core, objective, store=store), number in staying)
            for number, product in enumerate(products(shape, rows, keys))
        ]
        costs = [product.mapped.cost for product in found]
        modes = [product.mapped.mapping.mode for product in found]
        changes = sum(mode != before for mode, before in zip(modes, [modes[-1], *modes], strict=False))
        part = rows * keys / scores
        ports, spent = _ports(shape, rows * keys, found, core, lanes, pace)
        switching = changes * core.mode_switch_cycles
        ends = max(ends, *(cost.fill_cycles + cost.drain_cycles for cost in costs))
        passing = sum(product.cycles(core) for product in found)
        busy = {"array": switching + passing, "lanes": vector * part} | ports
        busy |= {"quantiser": rounding * part} if rounded else {}
        longest = max(busy, key=lambda name: busy[name])
        slowest[longest] = slowest.get(longest, 0.0) + count * busy[longest]
        cycles += count * busy[longest]
        shortest = max(shortest, min(busy["array"], busy["lanes"]))
        macs += count * sum(cost.macs for cost in costs)
        compute += count * sum(cost.compute_cycles for cost in costs)
        array += count * busy["array"]
        for product in found:
            for level, joules in product.mapped.energy_j_by_level.items():
                energy[level] = energy.get(level, 0.0) + count * joules
        for name, taken in ports.items():
            busiest[name] = busiest.get(name, 0.0) + count * taken
        for level, joules in spent.items():
            energy[level] = energy.get(level, 0.0) + count * joules
    bound_by = max(slowest, key=lambda name: slowest[name])
    bound_by = "compute" if bound_by == "array" else bound_by
    return _Run(macs, compute, array + ends, cycles + shortest + ends, energy, bound_by, max(busiest.values()))


def _sizes(shape: Shape, tile: Tile) -> Iterator[tuple[int, int, int]]:
    """(how many, rows, keys) of all tiles of a step."""
    for many_rows, rows in _parts(shape.rows, tile.rows):
        for many_keys, keys in _parts(shape.keys, tile.keys):
            yield shape.groups * many_rows * many_keys, rows, keys


def _parts(size: int, tile: int) -> list[tuple[int, int]]:
    rest = size % tile
    return [(size // tile, tile), *([(1, rest)] if rest else [])]


def _ports(
    shape: Shape, scores: int, found: Sequence[_Product], core: Core, lanes: Core, pace: float
) -> tuple[dict[str, float], dict[str, float]]:
    """(cycles of every port of the memory that array and lanes share, joules of the lanes there) for one tile."""
    top, level, slot = core.top("O"), lanes.top("O"), "I" if lanes.levels_of("I") else "W"
    ports: dict[str, float] = {}
    for product in found:
        for name, cycles in product.ports(core).items():
            if name.startswith(f"{top.name}."):
                ports[name] = ports.get(name, 0.0) + cycles
    made, times = shape.score_products, 2 if shape.backward else 1  # backward: scores and their gradients
    read = (made * shape.sum + (shape.kept if shape.backward else 0)) * scores * 8
    written = (times * shape.probability + (0 if shape.backward else shape.kept)) * scores * 8
    # all products but the scores and their gradients add to sums; those that do not stay below lie in the memory
    summing = [product.nest for product in found[made:] if not product.stays]
    sum_bits = 8 * shape.sum * sum(nest.points // nest.sizes["C"] for nest in summing)
    for port, bits, clock in (
        (level.port_for(slot, Flow.FEED), read, pace),
        (level.port_for("O", Flow.COLLECT), written, pace),
        (top.port_for("O", Flow.FEED), sum_bits, 1.0),
    ):
        name = f"{top.name}.{port.name}"
        ports[name] = ports.get(name, 0.0) + bits / port.bandwidth_bits_per_cycle * clock
    joules = read * level.read_energy_j_per_bit + written * level.write_energy_j_per_bit
    return ports, {top.name: joules + sum_bits * top.read_energy_j_per_bit}


def _step(nest: LoopNest, shape: Shape, tile: Tile, run: _Run, useful: float, core: Core, streamed: bool) -> StepCost:
    assert run.macs == _macs(shape), "every product of every score, once"
    operands = []
    for operand in nest.operands:
        slot = "O" if operand.written else ("W" if is_key(operand) else "I")
        if not streamed:
            operands.append(OperandCost(slot, 0, 0, 0, 0, False))
            continue
        total, again = moved_bytes(shape, tile, operand)
        ends = at_ends(shape, tile, operand)
        operands.append(OperandCost(slot, total, ends, again, buffer(shape, tile, operand), False))
    operands[0] = replace(operands[0], buffer=operands[0].buffer + tile.own_bytes)
    useful = min(useful, run.compute)
    return StepCost(
        useful,
        run.compute - useful,
        run.cycles - run.compute,
        0.0,
        tuple(operands),
        tuple(sorted(run.energy_j.items())),
        run.bound_by,
        ((core.top("O").name, run.port_cycles),) if core.top("O").memory else (),
    )


def _macs(shape: Shape) -> int:
    scores = shape.groups * shape.rows * shape.keys
    if shape.backward:
        return scores * ((2 if shape.kept else 3) * shape.width + 2 * shape.value_width)
    return scores * (shape.width + shape.value_width)
