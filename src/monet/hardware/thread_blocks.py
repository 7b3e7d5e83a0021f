"""Cores that run matrix products as blocks of threads, each of which makes one tile of the results: what a kernel of
such blocks takes, by mechanism.

A kernel has one tile size. Its blocks are dealt out to all cores; a core that has room for several works on them side
by side. The last blocks may leave cores idle (the tail of the last wave), and tiles that stick out of the result
multiply for nothing. Inside, a block walks over what is summed in slices: while one is multiplied, the next ones are
on their way (software pipelining). Of all tile sizes the one that is done first is taken, as libraries try to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ThreadBlocks:
    """What a core says of its blocks: sizes of ``tiles`` (rows, columns), of which libraries may have fewer for fp32,
    and fewer still for many products at once; the tile of one ``warp``, which reads both of
    its inputs from the core's memory for itself; bytes of a row in a slice; slices that are on their way at once;
    cycles until a slice arrives that was asked for; bits per cycle at which a core gets them, all cores asking (0: as
    its memory takes them)."""

    tiles: tuple[tuple[int, int], ...]
    warp: tuple[int, int]
    slice_bytes: int
    stages: int
    latency_cycles: int
    fetch_bits: int = 0
    fp32_tiles: tuple[tuple[int, int], ...] = ()
    fp32_batched_tiles: tuple[tuple[int, int], ...] = ()
    fp32_clock_share: float = 1.0  # of the core's clock, that power lets kernels in fp32 hold

    def for_format(self, dtype: str, repeats: int) -> ThreadBlocks:
        """Blocks of the kernels that there are for so many products of a format at once."""
        if dtype != "fp32":
            return self
        return replace(self, tiles=(self.fp32_batched_tiles if repeats > 1 else self.fp32_tiles) or self.tiles)


@dataclass(frozen=True, slots=True)
class Multiplier:
    """The core below a kernel: multiply-accumulates per cycle; bytes for sums and for slices; bits
    per cycle of the port that warps read from and of the one that slices come through, perhaps the same."""

    macs_per_cycle: float
    sums_bytes: int
    slices_bytes: int
    read_bits: float
    write_bits: float
    one_port: bool


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix product as a kernel sees it: results of ``rows`` × ``columns``, ``repeats`` times; bits of an element of
    the inputs (the wider one), of a sum and of a result."""

    rows: int
    columns: int
    summed: float
    repeats: int
    input_bits: float
    sum_bits: float
    result_bits: float


@dataclass(frozen=True, slots=True)
class Kernel:
    """A product in blocks of one tile size over some cores."""

    tile: tuple[int, int]
    blocks: int
    cores: int
    resident: int  # blocks that a core works on side by side
    slice_bytes: int  # of a row (or column) of a tile
    stages: int
    padding: float  # products that blocks make for every one that is asked for: whole tiles, whole slices
    array_cycles: float  # of the core that has most blocks, every product that it makes
    cycles: float  # with ports, latencies, and what is not hidden at both ends

    @property
    def most_blocks(self) -> int:
        """Blocks of the core that has most."""
        return -(-self.blocks // self.cores)

    @property
    def held_bytes(self) -> int:
        """Bytes of the slices that a core holds at once."""
        return self.resident * self.stages * sum(self.tile) * self.slice_bytes

    @property
    def waves(self) -> int:
        """How often all cores are filled with blocks, the last time perhaps in part."""
        return -(-self.blocks // (self.cores * self.resident))

    @property
    def tail(self) -> float:
        """Share of the cores' time that the last wave leaves idle."""
        return 1 - self.blocks / (self.most_blocks * self.cores)


def best_kernel(
    product: Product, blocks: ThreadBlocks, core: Multiplier, cores: int, leave_bits: float = math.inf
) -> Kernel:
    """Of all tile sizes the kernel that is done first, with the results of its last blocks on their way at so many bits
    per cycle and core; of equal ones the largest tile."""
    found = [kernel for tile in blocks.tiles if (kernel := _kernel(product, tile, blocks, core, cores)) is not None]
    if not found:  # no tile fits: that of one warp, whatever it takes
        smallest = min(blocks.tiles, key=math.prod)
        found = [_timed(product, smallest, blocks, core, cores, 1)]

    def done(kernel: Kernel) -> float:
        return kernel.cycles + math.prod(kernel.tile) * product.result_bits / leave_bits

    return min(found, key=lambda kernel: (done(kernel), -math.prod(kernel.tile)))


def _kernel(
    product: Product, tile: tuple[int, int], blocks: ThreadBlocks, core: Multiplier, cores: int
) -> Kernel | None:
    rows, columns = tile
    for_sums = rows * columns * product.sum_bits / 8
    for_slices = blocks.stages * (rows + columns) * blocks.slice_bytes
    resident = int(min(core.sums_bytes // for_sums, core.slices_bytes // for_slices))
    return _timed(product, (rows, columns), blocks, core, cores, resident) if resident else None


def _timed(
    product: Product, tile: tuple[int, int], blocks: ThreadBlocks, core: Multiplier, cores: int, resident: int
) -> Kernel:
    rows, columns = tile
    count = product.repeats * -(-product.rows // rows) * -(-product.columns // columns)
    most = -(-count // cores)
    beside = min(resident, most)
    depth = blocks.slice_bytes * 8 / product.input_bits
    slices = math.ceil(product.summed / depth)
    array = rows * columns * depth / core.macs_per_cycle
    warp_rows, warp_columns = (min(size, side) for size, side in zip(blocks.warp, tile, strict=True))
    warps = -(-rows // warp_rows) * -(-columns // warp_columns)
    read = warps * (warp_rows + warp_columns) * blocks.slice_bytes * 8 / core.read_bits
    written = (rows + columns) * blocks.slice_bytes * 8 / core.write_bits
    waiting = blocks.latency_cycles / (max(1, blocks.stages - 1) * beside)
    ports = read + written if core.one_port else max(read, written)
    fetched = (rows + columns) * blocks.slice_bytes * 8 / (blocks.fetch_bits or core.write_bits)
    a_slice = max(array, ports, fetched, waiting)
    ends = blocks.latency_cycles + rows * columns * product.result_bits / core.write_bits
    cycles = most * slices * a_slice + ends * (most if resident == 1 else 1)
    asked = product.repeats * product.rows * product.columns * product.summed
    padding = count * rows * columns * slices * depth / asked
    slices_of = blocks.slice_bytes, blocks.stages
    return Kernel(tile, count, cores, resident, *slices_of, padding, most * slices * array, cycles)
