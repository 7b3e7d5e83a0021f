"""What a step of fused attention costs: online softmax on an array and vector lanes that share a memory.

Rows of scores are made, used and forgotten on chip, a tile of n query rows by c keys at a time. Forward (two products):
for every tile of rows, over all tiles of keys, S = Q·Kᵀ, P = exp(S − running maximum), O = O·correction + P·V.
Backward (five products, scores made again from the log-sum-exp): for every block of keys whose dK and dV stay as sums,
over all tiles of rows, S = Q·Kᵀ, dP = dO·Vᵀ, dV += Pᵀ·dO, dQ += dS·K, dK += dSᵀ·Q. (FlashAttention-2,
arXiv 2307.08691; FuseMax, arXiv 2406.10491, for array and lanes working side by side.)

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from monet.formats import format_named, whole_bytes
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.graph.operators.attention import MASK
from monet.graph.operators.attention_products import BACKWARD, FORWARD
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.core import Core, Flow
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.mapper.search import Mapped, search
from monet.mapping.unfused.border import Border
from monet.mapping.unfused.dram_route import OperandCost
from monet.mapping.vector import supports
from monet.schedule.costs.step_cost import StepCost

Pair = tuple[str, str]
Formats = tuple[Pair, ...]
MADE = ("probabilities", "dscores")  # operands that are made on chip
FINALISTS = 12  # pairs of tiles whose products are mapped
SMALLEST = 16  # rows and keys of a tile are not halved further


def lanes_beside(accelerator: Accelerator, instance: CoreInstance) -> CoreInstance | None:
    """Who does the vector work beside a core's array: its own lanes, or a vector core on the same memory."""
    if _has_lanes(instance):
        return instance
    mine = {name for _, name in instance.memories}
    for other in accelerator.cores:
        if _has_lanes(other) and mine & {name for _, name in other.memories}:
            return other
    return None


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


@dataclass(frozen=True, slots=True)
class _Shape:
    """One step: ``groups`` of ``rows`` queries (of all heads that share a key head) by ``keys``."""

    groups: int
    heads: int  # of queries, over all samples
    rows: int
    keys: int
    width: int
    value_width: int
    backward: bool
    dtype: str
    accumulator: str
    formats: Formats  # of the operands of every product

    @property
    def element(self) -> int:
        """Bytes of an element; rounded up, as rows of small elements are."""
        return whole_bytes(format_named(self.dtype).bits)

    @property
    def probability(self) -> int:
        """Bytes of a probability, or of the gradient of a score, as products read it."""
        sides = BACKWARD if self.backward else FORWARD
        made = [pair[0] for pair, (left, _) in zip(self.formats, sides, strict=True) if left.of in MADE]
        return max(whole_bytes(format_named(name).bits) for name in made)

    @property
    def grain(self) -> int:
        """Rows and keys that tiles keep together: groups that share a scale."""
        groups = (format_named(name).group for pair in self.formats for name in pair)
        return max((max(group.extents) for group in groups if group), default=1)

    @property
    def copied_bits(self) -> tuple[float, float]:
        """Bits of the narrow copies of a row of queries and gradients, and of a key and its value."""
        sides = BACKWARD if self.backward else FORWARD
        widths = {"query": (self.width, 0), "dout": (self.value_width, 0), "key": (0, self.width)}
        widths |= {"value": (0, self.value_width)}
        made = {
            (side.of, name)
            for pair, two in zip(self.formats, sides, strict=True)
            for side, name in zip(two, pair, strict=True)
            if side.of in widths and name != self.dtype
        }
        rows, keys = (
            math.fsum(widths[of][at] * format_named(name).bits_per_element((1024, 1024)) for of, name in made)
            for at in (0, 1)
        )
        return rows, keys

    @property
    def sum(self) -> int:
        """Bytes of a partial sum."""
        return whole_bytes(format_named(self.accumulator).bits)


@dataclass(frozen=True, slots=True)
class _Tile:
    """``rows`` × ``keys`` scores at a time, ``block`` keys kept over all rows; what it needs, and how often rows and
    keys come in."""

    rows: int
    keys: int
    block: int
    own_bytes: int  # scores, probabilities, statistics, sums of results that leave later
    row_passes: int
    key_passes: int


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
) -> StepCost:
    """Fused attention, forward or backward, of one step; ``work`` is that of this nest, ``formats`` are those of the
    operands of its products."""
    reason = cannot_attend(instance, lanes, formats)
    functions = {name: count for name, count in work.items() if name != "mac"}
    if not reason and lanes is not None:
        reason = supports(lanes.core, functions)
    if reason or lanes is None:
        raise MappingError(reason)
    shape = _shape(nest, instance.core, formats)
    room = border.memories[0][2].total_bytes
    tiles = list(_tiles(nest, shape, room if streamed else math.inf, streamed))
    if not tiles:
        least = min(tile.own_bytes + _buffers(nest, shape, tile) for tile in _every_tile(shape))
        raise DoesNotFit("one tile of scores and its operands", border.memories[0][1], least, room)
    useful = _useful_cycles(shape, instance.core)
    per_byte = 8 / border.bits_per_cycle

    def estimate(tile: _Tile) -> tuple[float, bool, int]:
        moved = per_byte * sum(_moved(shape, tile, operand)[0] for operand in nest.operands) if streamed else 0.0
        return max(useful, moved), not _staying(shape, tile, instance.core), -tile.rows * tile.keys

    best: tuple[float, _Tile, _Run] | None = None
    known: dict[tuple[int, int, bool], _Run] = {}
    for tile in sorted(tiles, key=estimate):
        least_cycles = estimate(tile)[0]
        if best is not None and least_cycles >= best[0]:
            break
        pair = tile.rows, tile.keys, bool(_staying(shape, tile, instance.core))
        if pair not in known:
            if len(known) == FINALISTS:
                continue
            known[pair] = _run(shape, tile, functions, instance.core, lanes.core, objective, store)
        cycles = max(known[pair].cycles, least_cycles)
        if best is None or cycles < best[0]:
            best = cycles, tile, known[pair]
    assert best is not None
    return _step(nest, shape, best[1], best[2], useful, instance.core, streamed)


def _useful_cycles(shape: _Shape, core: Core) -> float:
    """Cycles of the array for all products with every unit busy."""
    macs: dict[float, int] = {}
    for product, pair in zip(products(shape, shape.rows, shape.keys), shape.formats, strict=True):
        pace = core.units * core.rate(*pair, either_way=True).products_per_cycle
        macs[pace] = macs.get(pace, 0) + shape.groups * product.points
    return math.fsum(many / pace for pace, many in macs.items())


def _shape(nest: LoopNest, core: Core, formats: Formats) -> _Shape:
    sizes, backward = nest.sizes, len(nest.writes) == 3
    query, value = (nest.operands[1], nest.operands[3]) if backward else (nest.operands[0], nest.operands[2])
    groups, shared = sizes["B"] * sizes["H"], sizes["J"]
    widths = query.shape[-1], value.shape[-1]
    return _Shape(
        groups, groups * shared, shared * sizes["N"], sizes["C"], *widths, backward, query.dtype,
        core.rate(*formats[0], either_way=True).accumulator, formats,
    )  # fmt: skip


# --- tiles ------------------------------------------------------------------------------------------------------------


def _halves(size: int, grain: int = 1) -> tuple[int, ...]:
    """A size and what halving it gives, in whole grains."""
    found = [size]
    while found[-1] > max(SMALLEST, grain):
        found.append(-(-found[-1] // (2 * grain)) * grain)
    return tuple(found)


def _every_tile(shape: _Shape) -> Iterator[_Tile]:
    for rows in _halves(shape.rows, shape.grain):
        row_tiles = -(-shape.rows // rows)
        for keys in _halves(shape.keys, shape.grain):
            for block in _halves(shape.keys, shape.grain) if shape.backward else (shape.keys, keys):
                if block < keys:
                    continue
                blocks = -(-shape.keys // block)
                # whoever does not fit as a whole comes once for every part of the other
                again = row_tiles > 1 and blocks > 1
                passes = (blocks if again else 1, 1) if shape.backward else (1, row_tiles if again else 1)
                yield _Tile(rows, keys, block, _own_bytes(shape, rows, keys, block), *passes)


def _tiles(nest: LoopNest, shape: _Shape, room: float, streamed: bool) -> Iterator[_Tile]:
    """Tiles that fit. A step whose operands are held has them in the memory anyway."""
    for tile in _every_tile(shape):
        if not streamed or tile.own_bytes + _buffers(nest, shape, tile) <= room:
            yield tile


def _own_bytes(shape: _Shape, rows: int, keys: int, block: int) -> int:
    """Scores and probabilities of two tiles (one on the array, one on the lanes), statistics of the rows, sums."""
    scores = rows * keys * (shape.sum + shape.probability) * 2
    of_row, of_key = shape.copied_bits
    copies = whole_bytes(rows * of_row + block * of_key)
    if not shape.backward:  # maximum, sum, correction; sums of the output
        return scores + rows * (3 + shape.value_width) * shape.sum + copies
    sum_elements = rows * shape.width + block * (shape.width + shape.value_width)  # dQ; dK, dV
    # scores and their gradients; log-sum-exp and delta
    return 2 * scores + (2 * rows + sum_elements) * shape.sum + copies


def _buffers(nest: LoopNest, shape: _Shape, tile: _Tile) -> int:
    """Bytes of the operands' tiles; a mask comes with the scores, which are in a tile's own bytes."""
    return sum(_buffer(shape, tile, operand) for operand in nest.operands if operand.name != MASK)


def _buffer(shape: _Shape, tile: _Tile, operand: Operand) -> int:
    """Bytes of an operand's tile: two, if it changes."""
    first, parts = _first(shape, tile, operand)
    return first * (2 if parts > 1 else 1)


def _moved(shape: _Shape, tile: _Tile, operand: Operand) -> tuple[int, int]:
    """(bytes that cross the border for an operand, of them sums that come back)."""
    size = operand.bytes
    is_key = _is_key(operand)
    passes = tile.key_passes if is_key else tile.row_passes
    if operand.name == MASK:  # read with the scores of every head that it holds for
        return size * max(1, shape.heads // math.prod(operand.shape[:-2])), 0
    if not operand.written:
        return size * passes, 0
    if is_key or passes == 1:
        return size, 0
    again = (passes - 1) * math.prod(operand.shape) * shape.sum  # dQ leaves as sums and comes back
    return size + again, again


def _first(shape: _Shape, tile: _Tile, operand: Operand) -> tuple[int, int]:
    """(bytes of an operand in one tile, how many such parts there are)."""
    parts = shape.groups * (-(-shape.keys // tile.block) if _is_key(operand) else -(-shape.rows // tile.rows))
    return -(-operand.bytes // parts), parts


def _is_key(operand: Operand) -> bool:
    return "C" in operand.dims and "N" not in operand.dims


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


def _staying(shape: _Shape, tile: _Tile, core: Core) -> tuple[int, ...]:
    """Which products of a tile have sums that stay where the array adds up."""
    level = core.level(core.accumulator_level)
    if level.name == core.top("O").name:
        return ()
    elements = tile.block * (shape.width + shape.value_width) if shape.backward else tile.rows * shape.value_width
    if 2 * elements * shape.sum > level.total_bytes:
        return ()
    return (2, 4) if shape.backward else (1,)


def products(shape: _Shape, rows: int, keys: int) -> tuple[LoopNest, ...]:
    """The matrix products of one tile: scores and their gradients leave as sums, all else in the operands' type."""
    made, held = shape.accumulator, shape.formats
    scores = _product(rows, keys, shape.width, ("N", "C"), ("K", "C"), held[0], made)
    if not shape.backward:
        return scores, _product(rows, shape.value_width, keys, ("N", "C"), ("C", "K"), held[1], made)
    return (
        scores,
        _product(rows, keys, shape.value_width, ("N", "C"), ("K", "C"), held[1], made),  # dP = dO·Vᵀ
        _product(keys, shape.value_width, rows, ("C", "N"), ("C", "K"), held[2], made),  # dV += Pᵀ·dO
        _product(rows, shape.width, keys, ("N", "C"), ("C", "K"), held[3], made),  # dQ += dS·K
        _product(keys, shape.width, rows, ("C", "N"), ("C", "K"), held[4], made),  # dK += dSᵀ·Q
    )


def whole_products(nest: LoopNest, core: Core, formats: Formats) -> tuple[int, tuple[LoopNest, ...]]:
    """How many times each, and the products of a nest with all rows and keys in one tile."""
    shape = _shape(nest, core, formats)
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
    shape: _Shape, tile: _Tile, functions: Mapping[str, int], core: Core, lanes: Core, objective: str, store: CostStore
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


def _sizes(shape: _Shape, tile: _Tile) -> Iterator[tuple[int, int, int]]:
    """(how many, rows, keys) of all tiles of a step."""
    for many_rows, rows in _parts(shape.rows, tile.rows):
        for many_keys, keys in _parts(shape.keys, tile.keys):
            yield shape.groups * many_rows * many_keys, rows, keys


def _parts(size: int, tile: int) -> list[tuple[int, int]]:
    rest = size % tile
    return [(size // tile, tile), *([(1, rest)] if rest else [])]


def _ports(
    shape: _Shape, scores: int, found: Sequence[_Product], core: Core, lanes: Core, pace: float
) -> tuple[dict[str, float], dict[str, float]]:
    """(cycles of every port of the memory that array and lanes share, joules of the lanes there) for one tile."""
    top, level, slot = core.top("O"), lanes.top("O"), "I" if lanes.levels_of("I") else "W"
    ports: dict[str, float] = {}
    for product in found:
        for name, cycles in product.ports(core).items():
            if name.startswith(f"{top.name}."):
                ports[name] = ports.get(name, 0.0) + cycles
    times = 2 if shape.backward else 1  # backward: scores and their gradients
    read, written = times * scores * shape.sum * 8, times * scores * shape.probability * 8
    # all products but the scores and their gradients add to sums; those that do not stay below lie in the memory
    summing = [product.nest for product in found[times:] if not product.stays]
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


def _step(nest: LoopNest, shape: _Shape, tile: _Tile, run: _Run, useful: float, core: Core, streamed: bool) -> StepCost:
    assert run.macs == _macs(shape), "every product of every score, once"
    operands = []
    for operand in nest.operands:
        is_key = _is_key(operand)
        slot = "O" if operand.written else ("W" if is_key else "I")
        if not streamed:
            operands.append(OperandCost(slot, 0, 0, 0, 0, False))
            continue
        total, again = _moved(shape, tile, operand)
        first, _ = _first(shape, tile, operand)
        operands.append(OperandCost(slot, total, min(first, total), again, _buffer(shape, tile, operand), False))
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


def _macs(shape: _Shape) -> int:
    scores = shape.groups * shape.rows * shape.keys
    if shape.backward:
        return scores * (3 * shape.width + 2 * shape.value_width)
    return scores * (shape.width + shape.value_width)
