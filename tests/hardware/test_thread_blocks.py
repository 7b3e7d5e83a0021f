"""Kernels of blocks of threads, by hand: waves, tails, what limits a slice, and what a larger machine does to them."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from monet.hardware import DescriptionError, load_hardware
from monet.hardware.thread_blocks import Multiplier, Product, ThreadBlocks, best_kernel

CORE = Multiplier(1024, 128 << 10, 192 << 10, 1024, 1024, True)
BLOCKS = ThreadBlocks(((128, 128),), (64, 64), 64, 4, 0)
SQUARE = Product(1024, 1024, 1024, 1, 16, 32, 16)


def test_a_kernel_by_hand() -> None:
    """64 blocks of 128×128 on 108 cores: one each, 32 slices of 512 cycles, and the results at 128 bytes a cycle."""
    kernel = best_kernel(SQUARE, BLOCKS, CORE, 108)
    assert (kernel.blocks, kernel.most_blocks, kernel.waves) == (64, 1, 1)
    assert kernel.tail == pytest.approx(1 - 64 / 108)
    assert kernel.array_cycles == 32 * 512
    assert kernel.cycles == 32 * 512 + 128 * 128 * 2 / 128


def test_waves_are_dealt_to_all_cores_and_the_last_leaves_some_idle() -> None:
    """Of 3,072 tiles a core of 108 has 29 at most (NVIDIA's wave quantisation), however the sides divide."""
    product = Product(8192, 12288, 4096, 1, 16, 32, 16)
    kernel = best_kernel(product, replace(BLOCKS, tiles=((256, 128),)), CORE, 108)
    assert (kernel.blocks, kernel.resident, kernel.most_blocks, kernel.waves) == (3072, 1, 29, 29)
    assert kernel.tail == pytest.approx(1 - 3072 / (29 * 108))
    assert best_kernel(replace(product, rows=8193), replace(BLOCKS, tiles=((256, 128),)), CORE, 108).blocks == 33 * 96


@pytest.mark.parametrize(
    ("blocks", "core", "slice_cycles"),
    [
        (BLOCKS, CORE, 512),  # the array: 128 · 128 · 32 / 1024
        (BLOCKS, replace(CORE, macs_per_cycle=4096), 384),  # one port: 4 warps read 128 rows, 256 come, 64 bytes each
        (BLOCKS, replace(CORE, macs_per_cycle=4096, one_port=False), 256),
        (replace(BLOCKS, fetch_bits=128), CORE, 1024),  # 256 rows of 64 bytes at 16 bytes a cycle
        (replace(BLOCKS, latency_cycles=6144, stages=4), CORE, 2048),  # three slices on their way, one block
        (replace(BLOCKS, latency_cycles=6144, stages=2), CORE, 6144),
    ],
)
def test_what_a_slice_waits_for(blocks: ThreadBlocks, core: Multiplier, slice_cycles: float) -> None:
    kernel = best_kernel(SQUARE, blocks, core, 108)
    ends = blocks.latency_cycles + 128 * 128 * 2 * 8 / core.write_bits
    assert kernel.cycles == 32 * slice_cycles + ends


def test_blocks_side_by_side_hide_each_others_ends() -> None:
    """Two blocks fit 128 KiB of sums; where only one does, every block pays for its own beginning and end."""
    product = replace(SQUARE, rows=8192)
    blocks = replace(BLOCKS, latency_cycles=500)
    two, one = (best_kernel(product, blocks, replace(CORE, sums_bytes=size << 10), 64) for size in (128, 64))
    assert (two.resident, one.resident, two.most_blocks) == (2, 1, 8)
    assert one.cycles - two.cycles == 7 * (500 + 256)


def test_narrow_products_take_narrow_tiles_and_sums_decide_what_fits() -> None:
    """A kernel multiplies whole tiles, also where they stick out: 20 rows take as long as 128."""
    thin = replace(SQUARE, rows=20)
    assert best_kernel(thin, BLOCKS, CORE, 8).cycles == best_kernel(replace(SQUARE, rows=128), BLOCKS, CORE, 8).cycles
    assert best_kernel(thin, replace(BLOCKS, tiles=((128, 128), (32, 128))), CORE, 8).tile == (32, 128)
    assert best_kernel(SQUARE, BLOCKS, replace(CORE, sums_bytes=1 << 10), 108).tile == (128, 128)  # spills, but runs


@pytest.mark.parametrize("seed", range(60))
def test_a_larger_machine_is_never_slower(seed: int) -> None:
    rng = random.Random(seed)
    product = Product(
        *(rng.randint(1, 6000) for _ in range(3)), rng.choice((1, 1, 12)), rng.choice((8, 16, 32)), 32, 16
    )
    blocks = load_hardware("a100").cores[0].core.thread_blocks
    assert blocks is not None
    cores = rng.randint(1, 130)
    least = best_kernel(product, blocks, CORE, cores).cycles
    assert least >= product.repeats * product.rows * product.columns * product.summed / (1024 * cores) * (1 - 1e-9)
    larger = (
        (blocks, CORE, cores + rng.randint(1, 40)),
        (blocks, replace(CORE, sums_bytes=2 * CORE.sums_bytes), cores),
        (blocks, replace(CORE, slices_bytes=2 * CORE.slices_bytes), cores),
        (blocks, replace(CORE, read_bits=2048, write_bits=2048), cores),
        (replace(blocks, fetch_bits=2 * blocks.fetch_bits), CORE, cores),
        (replace(blocks, latency_cycles=blocks.latency_cycles // 2), CORE, cores),
    )
    for number, machine in enumerate(larger):
        assert best_kernel(product, machine[0], machine[1], machine[2]).cycles <= least * (1 + 1e-9), number
    assert math.isfinite(least)


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"cores.sm.thread_blocks.tiles": ["128by64"]}, "'128by64' is not rows x columns such as '128x64'"),
        ({"cores.sm.thread_blocks.warp": "0x64"}, "'0x64' is not rows x columns"),
        ({"cores.sm.axes.n.multicast": []}, "needs an axis that multicasts I and one that multicasts W"),
    ],
)
def test_a_file_that_says_it_wrong_is_told_so(overrides: dict[str, object], said: str) -> None:
    with pytest.raises(DescriptionError, match=said):
        load_hardware("a100", overrides)


def test_libraries_have_fewer_kernels_in_fp32_and_fewer_still_for_many_products() -> None:
    blocks = replace(BLOCKS, fp32_tiles=((64, 64), (128, 64)), fp32_batched_tiles=((64, 64),))
    assert blocks.for_format("fp16", 8).tiles == ((128, 128),)
    assert blocks.for_format("fp32", 1).tiles == ((64, 64), (128, 64))
    assert blocks.for_format("fp32", 8).tiles == ((64, 64),)
    assert BLOCKS.for_format("fp32", 8).tiles == BLOCKS.tiles
