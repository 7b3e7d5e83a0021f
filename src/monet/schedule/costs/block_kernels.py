"""Matrix operators alone on cores that run blocks of threads (``hardware/thread_blocks.py``): the kernel that an
operator is, and what a piece of it costs: time, bytes that pass DRAM, joules of all that its blocks read and write."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from monet.formats import format_named
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core, Flow
from monet.hardware.rates import Rate
from monet.hardware.thread_blocks import Kernel, Multiplier, Product, best_kernel
from monet.mapping.unfused.dram_route import OperandCost
from monet.schedule.costs.step_cost import StepCost

SLOTS = "I", "W", "O"


def kernel_of(
    nest: LoopNest, core: Core, pieces: int, sums: int = 1, share: float = 1.0, leave_bits: float = math.inf
) -> Kernel | None:
    """The kernel of a whole operator over so many cores, what is summed cut into ``sums`` parts, with a share of the
    core's memory; None for cores that run no blocks, or whose array cannot multiply its operands. ``leave_bits`` per
    cycle of a core's last results go on their way, all cores at once: large tiles have more of them."""
    first, second = (operand.dtype for operand in nest.reads[:2])
    if core.thread_blocks is None or core.cannot_multiply(first, second):
        return None
    rate = core.rate(first, second, either_way=True)
    below = _multiplier(core, rate, share)
    product = _product(nest, rate, sums)
    blocks = core.thread_blocks.for_format(first, product.repeats)
    kernel = best_kernel(product, blocks, below, max(1, pieces // sums), leave_bits)
    held = blocks.fp32_clock_share if first == "fp32" else 1.0
    return replace(kernel, array_cycles=kernel.array_cycles / held, cycles=kernel.cycles / held)


@dataclass(frozen=True, slots=True)
class Cache:
    """The memory between cores and DRAM that blocks get their slices from: its bytes, and by level joules per bit of
    the way from there into a core."""

    bytes: int = 0
    joules: tuple[tuple[str, float], ...] = ()


def kernel_step(
    kernel: Kernel, nest: LoopNest, piece: LoopNest, core: Core, cache: Cache, own: tuple[float, float]
) -> StepCost:
    """A piece of an operator in the time of its kernel: all cores are done when the last one is. ``own``: of the bytes
    of its inputs the share that is brought for it, the rest being so for other pieces."""
    rate = core.rate(*(operand.dtype for operand in nest.reads[:2]), either_way=True)
    useful = min(piece.points / (core.units * rate.products_per_cycle), kernel.array_cycles)
    stall = max(0.0, kernel.cycles - kernel.array_cycles)
    top = core.top("I")
    port = f"{top.name}.{top.port_for('I', Flow.FEED).name}"
    by = "compute" if stall <= kernel.array_cycles / 2 else port
    times = _times(kernel, nest, cache.bytes)
    operands = (*(_fetched(kernel, piece, side, times[side]) for side in (0, 1)), _stored(kernel, piece))
    energy = tuple(sorted(_joules(kernel, piece, core, rate, operands, own, cache).items()))
    under_use = kernel.array_cycles - useful
    return StepCost(useful, under_use, stall, 0.0, operands, energy, by, (), core.modes[0].name)


def _joules(
    kernel: Kernel,
    piece: LoopNest,
    core: Core,
    rate: Rate,
    operands: Sequence[OperandCost],
    own: tuple[float, float],
    cache: Cache,
) -> dict[str, float]:
    """By level. Whole tiles are read and added up, also where they stick out. A slice comes from the cache for every
    block that wants it, which is paid here but for what the
    schedule brings."""
    assert core.thread_blocks is not None
    made, warp = piece.points * kernel.padding, core.thread_blocks.warp
    found = defaultdict[str, float](float, {"compute": piece.points * rate.energy_j})
    for side, slot in enumerate(SLOTS[:2]):
        bits, other = piece.reads[side].bits_per_element * made, kernel.tile[1 - side]
        inside, top = core.levels_of(slot)[0], core.top(slot)
        brought = 8 * operands[side].bytes
        again, arriving = (max(0.0, bits / other - share * brought) for share in (own[side], 1.0))
        for level, joules in cache.joules:
            found[level] += again * joules
        by_warps = bits / min(warp[1 - side], other)
        found[top.name] += arriving * top.write_energy_j_per_bit + by_warps * top.read_energy_j_per_bit
        if inside.name != top.name:
            by_array = bits / math.prod(axis.size for axis in core.modes[0].axes if slot in axis.multicast)
            found[inside.name] += by_warps * inside.write_energy_j_per_bit + by_array * inside.read_energy_j_per_bit
    sums, result, top = core.level(core.accumulator_level), piece.writes[0], core.top("O")
    width = format_named(rate.accumulator).bits
    reach = rate.products_per_step * math.prod(axis.size for axis in core.modes[0].axes if axis.reduce)
    both_ways = sums.read_energy_j_per_bit + sums.write_energy_j_per_bit
    found[sums.name] += made / reach * width * both_ways
    if sums.name != top.name:
        elements = math.prod(result.shape)
        found[sums.name] += elements * width * sums.read_energy_j_per_bit
        found[top.name] += elements * result.bits_per_element * top.write_energy_j_per_bit
    return dict(found)


def _times(kernel: Kernel, nest: LoopNest, cache_bytes: int) -> tuple[int, int]:
    """How often the inputs pass DRAM. Blocks that run at the same time are some rows of tiles by some columns, and get
    what they have in common from the cache: rows come again for every such set along columns, columns for every set
    along rows. If the cache has room for what a set has, the next one finds its rows (or its columns) still there;
    with room for all of the other input too, both come once. Blocks are in the order that reads least."""
    lengths = _side(nest, 0), _side(nest, 1)
    blocks = [-(-length // tile) for length, tile in zip(lengths, kernel.tile, strict=True)]
    together = kernel.cores * kernel.resident
    if together >= math.prod(blocks):
        return 1, 1
    repeats = max(1, math.prod(nest.sizes[dim] for dim in frozenset.intersection(*(o.dims for o in nest.operands))))
    size = [operand.bytes / repeats for operand in nest.reads[:2]]
    one = [min(1.0, tile / length) * each for tile, length, each in zip(kernel.tile, lengths, size, strict=True)]
    found = list[tuple[int, int]]()
    for rows in range(-(-together // blocks[1]), min(blocks[0], together) + 1):
        columns = -(-together // rows)
        again = -(-blocks[1] // columns), -(-blocks[0] // rows)
        mine = rows * one[0], columns * one[1]
        found.append(again)
        if sum(mine) <= cache_bytes:
            found.append((1, 1 if mine[0] + size[1] <= cache_bytes else again[1]))
            found.append((1 if mine[1] + size[0] <= cache_bytes else again[0], 1))
    return min(found, key=lambda times: size[0] * times[0] + size[1] * times[1])


def _fetched(kernel: Kernel, piece: LoopNest, side: int, times: int) -> OperandCost:
    """An input of a piece, which passes DRAM so many times. Work begins with the first slice of the first block."""
    size, a_slice = piece.reads[side].bytes, kernel.tile[side] * kernel.slice_bytes
    return OperandCost(
        SLOTS[side], size * times, min(size, a_slice), 0, kernel.resident * kernel.stages * a_slice, False
    )


def _stored(kernel: Kernel, piece: LoopNest) -> OperandCost:
    """The results of a piece: they leave registers once, those of the last blocks at the end."""
    result = piece.writes[0]
    last = math.ceil(math.prod(kernel.tile) * result.bits_per_element / 8)
    return OperandCost("O", result.bytes, min(result.bytes, last), 0, 0, False)


def _side(nest: LoopNest, number: int) -> int:
    """Rows (0) or columns (1) of a product."""
    mine, other, output = nest.reads[number], nest.reads[1 - number], nest.writes[0]
    return math.prod(nest.sizes[dim] for dim in (mine.dims & output.dims) - other.dims)


def _product(nest: LoopNest, rate: Rate, sums: int) -> Product:
    """A nest as a matrix product, each side with its dimensions as one, as an implicit product makes of a
    convolution."""
    first, second, output = nest.reads[0], nest.reads[1], nest.writes[0]
    sizes, results = nest.sizes, math.prod(output.shape)
    columns = math.prod(sizes[dim] for dim in (second.dims & output.dims) - first.dims)
    repeats = math.prod(sizes[dim] for dim in first.dims & second.dims & output.dims)
    rows = max(1, results // (columns * repeats))
    summed = nest.points / (rows * columns * repeats * sums)
    wider = max(first.bits_per_element, second.bits_per_element)
    return Product(rows, columns, summed, repeats, wider, format_named(rate.accumulator).bits, output.bits_per_element)


def _multiplier(core: Core, rate: Rate, share: float) -> Multiplier:
    """What a kernel uses of a core. Where sums have no level below the top, they share it with slices."""
    top, sums = core.top("I"), core.level(core.accumulator_level)
    feed, fill = top.port_for("I", Flow.FEED), top.port_for("I", Flow.FILL)
    return Multiplier(
        core.units * rate.products_per_cycle,
        sums.total_bytes,
        int(top.total_bytes * share),
        feed.bandwidth_bits_per_cycle,
        fill.bandwidth_bits_per_cycle,
        feed.name == fill.name,
    )
