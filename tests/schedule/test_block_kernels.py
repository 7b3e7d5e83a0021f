"""Products on cores that run blocks of threads, through the scheduler: time, DRAM traffic, what resources do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from monet.graph import Graph, GraphBuilder
from monet.hardware import load_hardware
from monet.schedule.costs.block_kernels import kernel_of
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
