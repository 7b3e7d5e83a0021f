"""Products on cores that run blocks of threads, through the scheduler: time, DRAM traffic, what resources do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from monet.graph import Graph, GraphBuilder
from monet.hardware import load_hardware
from monet.hardware.thread_blocks import Kernel
from monet.schedule.costs.block_kernels import Cache, kernel_of, kernel_step
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.result import Result

LAUNCH_S = 4000 / 1.41e9


def product(rows: int, columns: int, summed: int, batch: int = 0, dtype: str = "fp16") -> Graph:
    builder = GraphBuilder("product")
    front = (batch,) if batch else ()
    x, w = builder.input("x", (*front, rows, summed), dtype), builder.input("w", (*front, summed, columns), dtype)
    return builder.build([builder.emit("matmul", x, w, transpose_a=False, transpose_b=False)])


def cost(graph: Graph, **overrides: object) -> Result:
    return evaluate(graph, load_hardware("a100", overrides))


def test_a_large_product_takes_the_time_of_its_kernel() -> None:
    """1,024 tiles of 256×128, or 2,048 of 128×128, over 108 SMs."""
    graph, accelerator = product(8192, 4096, 4096), load_hardware("a100")
    (operator,) = Scheduler(graph, accelerator).workload.operators
    kernel = kernel_of(operator.nest, accelerator.cores[0].core, 108)
    assert kernel is not None
    assert kernel.most_blocks == -(-kernel.blocks // 108)
    result = cost(graph)
    least = kernel.cycles / 1.41e9 + LAUNCH_S
    assert least <= result.latency_s <= 1.1 * least  # the last core waits until the first have their operands
    assert result.operators[0].utilisation > 0.9
    assert result.operators[0].dram_read_bytes == result.operators[0].input_bytes  # the cache holds what comes again


def test_kernels_in_fp32_hold_a_share_of_the_clock() -> None:
    """Where power holds the clock of fp32 kernels back (l4), they take so many more cycles; others do not."""
    for dtype, factor in (("fp32", 4.0), ("fp16", 1.0)):
        cycles = []
        for share in (1.0, 0.25):
            core = load_hardware("a100").cores[0].core
            assert core.thread_blocks is not None
            held = replace(core, thread_blocks=replace(core.thread_blocks, fp32_clock_share=share))
            (operator,) = Scheduler(product(512, 512, 512, dtype=dtype), load_hardware("a100")).workload.operators
            kernel = kernel_of(operator.nest, held, 108)
            assert kernel is not None
            cycles.append((kernel.cycles, kernel.array_cycles))
        assert cycles[1] == (pytest.approx(factor * cycles[0][0]), pytest.approx(factor * cycles[0][1]))


def test_what_does_not_stay_in_the_cache_passes_dram_again() -> None:
    graph = product(4096, 4096, 16384)
    reads = [cost(graph, l2_bytes=size << 20).operators[0].dram_read_bytes for size in (1, 40, 400)]
    assert reads[0] > 2 * reads[2]
    assert reads[0] >= reads[1] >= reads[2] == 2 * 4096 * 16384 * 2


def test_batches_come_once() -> None:
    result = cost(product(256, 384, 384, batch=512, dtype="fp32"))
    assert result.operators[0].dram_read_bytes == result.operators[0].input_bytes


def test_a_product_of_few_tiles_is_cut_along_its_sum() -> None:
    """A result of one tile on one SM would take all of the sum; split-K gives the others a part of it."""
    result = cost(product(128, 128, 65536))
    assert "C" in result.operators[0].split
    assert result.latency_s < 0.2 * 128 * 128 * 65536 / (1024 * 1.41e9)


MORE = {
    "sms": (8, 15, 16, 17, 32, 54, 96, 107, 108, 128),
    "l2_bytes": (5 << 20, 20 << 20, 40 << 20, 80 << 20),
    "shared_bytes": (96 << 10, 128 << 10, 192 << 10, 384 << 10),
    "hbm_bytes_per_s": (1e12, 1.5e12, 2e12, 3e12),
}
WHOLE, SUMMED = (1024, 3072, 768), (300, 1000, 2048)  # the second is cut along its sum


@pytest.mark.parametrize("shape", [WHOLE, SUMMED])
@pytest.mark.parametrize("parameter", MORE)
def test_more_of_anything_is_never_slower(parameter: str, shape: tuple[int, int, int]) -> None:
    taken = [cost(product(*shape), **{parameter: value}).latency_s for value in MORE[parameter]]
    for less, more in pairwise(taken):
        assert more <= 1.02 * less, (parameter, taken)


def test_blocks_pay_for_every_slice_that_they_get() -> None:
    """All that 128×128 tiles read passes cache, crossbar and shared memory, whatever DRAM sees of it."""
    graph, accelerator = product(4096, 4096, 4096), load_hardware("a100")
    (operator,) = Scheduler(graph, accelerator).workload.operators
    instance = accelerator.cores[0]
    kernel = kernel_of(operator.nest, instance.core, 108)
    assert kernel is not None
    macs, rows, columns = 4096**3, *kernel.tile
    bits = 16 * kernel.padding * macs * (1 / rows + 1 / columns)
    cache = next(memory.level for memory in accelerator.memories if memory.name == "l2")
    (wire,) = accelerator.route("l2", instance.endpoint)
    found = cost(graph).energy_breakdown.by_level
    assert found["l2"] == pytest.approx(bits * cache.read_energy_j_per_bit, rel=0.25)  # and what comes from HBM
    assert found["link"] >= bits * accelerator.links[wire].energy_j_per_bit
    assert found["compute"] == pytest.approx(macs * instance.core.rate("fp16", "fp16").energy_j)
    sums = instance.core.level("sums")  # read and written for every eight products
    both_ways = sums.read_energy_j_per_bit + sums.write_energy_j_per_bit
    assert found["sums"] == pytest.approx(kernel.padding * macs / 8 * 32 * both_ways, rel=0.01)
    assert kernel.padding == pytest.approx(1, abs=0.1)


def test_tiles_that_stick_out_cost_more_than_those_that_do_not() -> None:
    joules = [cost(product(rows, 4096, 1024)).energy_breakdown.by_level["sums"] / rows for rows in (1056, 1025)]
    assert joules[1] > 1.02 * joules[0]


def step_of(kernel: Kernel, cache_bytes: int = 0) -> StepCost:
    """A product of 60 rows and 50 columns of sums of 64 in fp16, as if it were this kernel on A100's SMs."""
    (operator,) = Scheduler(product(60, 50, 64), load_hardware("a100")).workload.operators
    core = load_hardware("a100").cores[0].core
    return kernel_step(kernel, operator.nest, operator.nest, core, Cache(cache_bytes), (1.0, 1.0))


def test_what_blocks_that_run_together_share_comes_once_for_them() -> None:
    """30 tiles of 10×10, four at a time. Three rows by two columns of tiles hold four: rows come for each of the three
    sets along columns, columns for both along rows. A cache with room for a set's rows finds them there again."""
    kernel = Kernel((10, 10), 30, 2, 2, 32, 3, 1.0, 1000.0, 1000.0)
    rows, columns = 60 * 64 * 2, 50 * 64 * 2
    assert [operand.bytes for operand in step_of(kernel).operands] == [3 * rows, 2 * columns, 60 * 50 * 2]
    assert [operand.bytes for operand in step_of(kernel, rows + columns).operands[:2]] == [rows, columns]
    all_at_once = replace(kernel, cores=15)
    assert [operand.bytes for operand in step_of(all_at_once).operands[:2]] == [rows, columns]


def test_a_step_holds_the_slices_of_all_its_blocks_and_says_what_binds_it() -> None:
    kernel = Kernel((10, 20), 18, 2, 2, 32, 3, 1.0, 1000.0, 1000.0)
    first, second, results = step_of(kernel).operands
    assert (first.buffer, second.buffer, results.buffer) == (2 * 3 * 10 * 32, 2 * 3 * 20 * 32, 0)
    assert (first.first, second.first, results.first) == (10 * 32, 20 * 32, 10 * 20 * 2)  # its first slices, last tile
    assert [step_of(replace(kernel, cycles=cycles)).bound_by for cycles in (1000, 1499, 1501, 3000)] == [
        "compute", "compute", "shared.rw0", "shared.rw0",
    ]  # fmt: skip
    assert step_of(replace(kernel, cycles=1300)).stall == 300
