"""Fused attention against its own products: multiply-accumulates, compulsory traffic, bounds, and where it can run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from monet.frontends.zoo.transformers import Gpt
from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import search
from monet.schedule.costs.attention_cost import attention_step, lanes_beside, products
from monet.schedule.costs.attention_tiles import every_tile, halves, shape_of
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.measurement.padding import padding_macs
from monet.schedule.plan import Group, Plan
from monet.schedule.workload import Operator
from monet.training.options import FUSED, TrainingOptions
from monet.training.step import training_step


def step(tokens: int = 256, **options: str) -> Graph:
    forward = Gpt(layers=1, hidden=128, heads=4, sequence=tokens).build("small", 2)
    return training_step(forward, TrainingOptions(precision="bf16", **options))


def attention_of(graph: Graph, accelerator: Accelerator) -> tuple[Scheduler, list[Operator]]:
    scheduler = Scheduler(graph, accelerator)
    return scheduler, [one for one in scheduler.workload.operators if one.is_attention]


def cost_of(operator: Operator, accelerator: Accelerator, streamed: bool = True):
    instance = next(one for one in accelerator.cores if one.core.modes)
    scheduler = Scheduler(step(16), accelerator)
    border = scheduler.machine.supplying.border(instance)
    lanes = lanes_beside(accelerator, instance)
    return attention_step(
        operator.nest, dict(operator.work), instance, lanes, border, "latency", streamed, CostStore(), formats(operator)
    ), instance


def formats(operator: Operator) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair, _ in operator.products)


def explicit_macs(graph: Graph) -> int:
    """Multiply-accumulates of an attention written out: batched products of all heads."""
    scheduler = Scheduler(graph, load_hardware("fusemax"))
    return sum(one.macs for one in scheduler.workload.operators if one.op.kind == "matmul")


def test_macs_are_those_of_the_products_and_the_scores_again() -> None:
    fused = attention_of(step(attention="fused"), load_hardware("fusemax"))[1]
    assert len(fused) == 2
    forward, backward = fused
    assert 2 * backward.macs == 5 * forward.macs  # five products against two
    assert forward.macs * 3 == explicit_macs(step())  # written out: two forward, four backward
    shape = shape_of(forward.nest, load_hardware("fusemax").cores[0].core, formats(forward))
    tile = products(shape, 64, 64)
    assert sum(one.points for one in tile) * (256 // 64) ** 2 * 8 == forward.macs


@pytest.mark.parametrize("which", [0, 1])
def test_between_the_peak_and_one_after_the_other(which: int) -> None:
    accelerator = load_hardware("fusemax")
    operator = attention_of(step(attention="fused"), accelerator)[1][which]
    cost, instance = cost_of(operator, accelerator)
    core, lanes = instance.core, lanes_beside(accelerator, instance).core
    assert cost.cycles >= operator.macs / core.units
    lane_cycles = sum(lanes.function_cycles(name) * count for name, count in operator.lane_work) / lanes.lanes
    assert cost.cycles >= lane_cycles
    # every product of the whole operator for itself with all operands on chip, then the lanes: nothing side by side.
    # Products of small tiles fill the array more often, so the best tile's count.
    shape = shape_of(operator.nest, core, formats(operator))
    serial, store = math.inf, CostStore()
    for rows in halves(shape.rows):
        for keys in halves(shape.keys):
            tiles = shape.groups * -(-shape.rows // rows) * -(-shape.keys // keys)
            array = sum(search(one, core, store=store).cost.cycles for one in products(shape, rows, keys))
            serial = min(serial, tiles * array + lane_cycles)
    assert cost.cycles <= serial
    joules = dict(cost.energy_j)
    assert joules["compute"] >= operator.macs * core.rate("bf16", "bf16").energy_j


@pytest.mark.parametrize("which", [0, 1])
def test_what_fits_moves_once_and_scores_never(which: int) -> None:
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": 64 * 2**20})
    operator = attention_of(step(attention="fused"), accelerator)[1][which]
    cost, _ = cost_of(operator, accelerator)
    for part, (_, tensor) in zip(cost.operands, operator.operands, strict=True):
        assert part.bytes == tensor.bytes
        assert part.spilled == 0


def test_keys_come_again_for_every_tile_of_rows_if_they_do_not_fit() -> None:
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": 96 * 1024})
    operator = attention_of(step(1024, attention="fused"), accelerator)[1][0]
    cost, _ = cost_of(operator, accelerator)
    query, key, value, out, lse = (
        part.bytes / tensor.bytes for part, (_, tensor) in zip(cost.operands, operator.operands, strict=True)
    )
    assert (query, out, lse) == (1, 1, 1)
    assert key == value > 1
    assert key == int(key)
    assert sum(part.buffer for part in cost.operands) <= 96 * 1024


def test_gradient_with_a_small_memory_spills_only_query_sums() -> None:
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": 160 * 1024})
    operator = attention_of(step(1024, attention="fused"), accelerator)[1][1]
    cost, _ = cost_of(operator, accelerator)
    written = [part for part, (operand, _) in zip(cost.operands, operator.operands, strict=True) if operand.written]
    tensors = [tensor for operand, tensor in operator.operands if operand.written]
    passes = cost.operands[0].bytes // operator.operands[0][1].bytes
    assert passes > 1
    assert written[0].spilled == (passes - 1) * tensors[0].elements * 4  # fp32 sums
    assert written[0].bytes == written[0].spilled + tensors[0].bytes
    assert [part.spilled for part in written[1:]] == [0, 0]


def test_more_memory_or_bandwidth_is_never_slower() -> None:
    operator = attention_of(step(512, attention="fused"), load_hardware("fusemax"))[1][0]
    cycles = [
        cost_of(operator, load_hardware("fusemax", {"memories.buffer.size_bytes": size}))[0].operands[1].bytes
        for size in (64 * 1024, 128 * 1024, 512 * 1024, 4 * 2**20)
    ]
    assert cycles == sorted(cycles, reverse=True)


def test_scheduled_as_an_operator_it_saves_traffic_and_keeps_no_scores() -> None:
    hardware = load_hardware("fusemax")
    explicit, fused = evaluate(step(512), hardware), evaluate(step(512, attention="fused"), hardware)
    assert fused.latency_s < explicit.latency_s

    def moved(result) -> int:
        return sum(one.dram_read_bytes + one.dram_write_bytes for one in result.operators)

    assert moved(fused) < moved(explicit)
    rows = [one for one in fused.operators if one.family == "attention"]
    assert [one.kind for one in rows] == ["attention", "attention_gradient"]
    assert all(one.cores == ("tensor",) for one in rows)
    assert fused.latency_s >= fused.bounds.latency_s


def test_cut_along_samples_heads_and_rows_only() -> None:

    forward, backward = attention_of(step(attention="fused"), load_hardware("fusemax"))[1]
    assert forward.splittable == {"B", "H", "N"}
    assert backward.splittable == {"B", "H"}


def test_tiles_of_rows_do_the_same_work() -> None:
    graph, hardware = step(512, attention="fused"), load_hardware("fusemax")
    scheduler, (forward, _) = attention_of(graph, hardware)
    useful = []
    for plan in (Plan(), Plan(groups=(Group((forward.op.name,), (("N", 128),)),))):
        one = next(one for one in scheduler.schedule(plan).expanded.operators if one.operator is forward)
        useful.append(sum(one.costs[kind].useful for kind in one.classes))
        assert len(one.classes) == (4 if plan.groups else 1)
    assert useful[1] == pytest.approx(useful[0], rel=1e-12)


@pytest.mark.parametrize(("width", "value_width"), [(32, 32), (64, 16), (16, 64)])
@pytest.mark.parametrize("kib", [40, 96, 2048])
def test_what_a_step_holds_is_within_the_memory(width: int, value_width: int, kib: int) -> None:
    """By hand: two tiles of every operand as it is held (the gradient that comes in is fp32 here), and what tiles of
    scores take."""
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": kib * 1024})
    builder = GraphBuilder("unequal")
    query, key, value = (
        builder.parameter(name, (2, 4, 256, size)) for name, size in (("q", width), ("k", width), ("v", value_width))
    )
    result = builder.emit("attention", query, key, value, scale=1.0, causal=False, name="attention")
    graph = training_step(builder.build([result]), loss="sum", precision="bf16", attention="fused")
    for backward, operator in enumerate(attention_of(graph, accelerator)[1]):
        cost, instance = cost_of(operator, accelerator)
        shape = shape_of(operator.nest, instance.core, formats(operator))
        held = sum(part.buffer for part in cost.operands)
        assert held <= kib * 1024
        asked = set()
        for tile in every_tile(shape):
            row = 2 * width + 2 * value_width + 4  # queries and results, and a number for each row
            row += 4 * value_width + 2 * width if backward else 0  # the gradient that comes, that of queries
            pair = 2 * (width + value_width) * (2 if backward else 1)  # keys and values, and their gradients
            asked.add(tile.own_bytes + 2 * (tile.rows * row + tile.block * pair))
        assert held in asked


def test_without_lanes_or_one_memory_it_says_so() -> None:
    graph = step(64, attention="fused")
    for hardware, reason in (("edge-tpu", "needs vector lanes"), ("simba", "needs one memory")):
        result = evaluate(graph, load_hardware(hardware))
        assert not result.feasible
        assert f"fused attention {reason}" in str(result.reason)


def test_mask_is_read_with_the_scores() -> None:
    b = GraphBuilder("masked")
    q, k, v = (b.input(name, (2, 4, 64, 32), "bf16") for name in ("q", "k", "v"))
    mask = b.input("mask", (2, 1, 64, 64), "bool")
    out = b.emit("attention", q, k, v, mask, scale=1.0, causal=False)
    graph = b.build([out])
    operator = attention_of(graph, load_hardware("fusemax"))[1][0]
    cost, _ = cost_of(operator, load_hardware("fusemax"))
    place = next(i for i, (operand, _) in enumerate(operator.operands) if operand.name == "mask")
    assert cost.operands[place].bytes == 4 * 2 * 64 * 64  # once per head


def test_products_are_multiplied_in_the_formats_of_a_policy() -> None:
    """On the SNAX core: four products a cycle in MXFP8, eight in MXFP4; what is rounded, its quantiser does. Of 70 rows
    and keys by 40, squares of 8 make 72 of both, runs of 32 make 96 of both and 64 of the width."""
    accelerator = load_hardware("snax-mx", {"memories.spm.size_bytes": "1 MiB"})
    costs = {}
    for policy in ("mxfp8-square", "mxfp4-square", "mxfp8"):
        forward = Gpt(layers=1, hidden=80, heads=2, sequence=70, vocabulary=50).build("small", 2)
        graph = training_step(forward, TrainingOptions(precision=policy, attention="fused"))
        scheduler, found = attention_of(graph, accelerator)
        schedule = scheduler.schedule(Plan())
        costs[policy] = [row for row in schedule.expanded.operators if row.operator.is_attention]
        for operator in found:
            rates = [accelerator.cores[0].core.rate(*pair).products_per_cycle for pair in formats(operator)]
            assert set(rates) == {8 if policy == "mxfp4-square" else 4}
            assert sum(macs for _, macs in operator.products) == operator.macs
    for name, rounded in (("mxfp8-square", (1, 1)), ("mxfp8", (1, 2))):
        forward, backward = (dict(row.operator.work) for row in costs[name])
        scores = {"mxfp8-square": (72 * 72, 72 * 72), "mxfp8": (70 * 96, 96 * 70)}[name]
        width = {"mxfp8-square": (72 * 40, 72 * 40), "mxfp8": (70 * 64, 96 * 40)}[name]
        once, twice = width[0], sum(width) if rounded[1] == 2 else width[0]
        value = width[1] if rounded[1] == 2 else width[0]  # read along keys
        assert forward["quantize"] == 4 * (2 * once + value + scores[0])
        made = scores[1] + (sum(scores) if rounded[1] == 2 else scores[0])
        assert backward["quantize"] == 4 * (3 * twice + once + made)
    lost = [padding_macs(row) for row in costs["mxfp8-square"]]
    assert lost == [4 * 2 * 40 * (72 * 72 - 70 * 70), 4 * 5 * 40 * (72 * 72 - 70 * 70)]
    assert all(
        narrow.costs[0].cycles <= wide.costs[0].cycles
        for narrow, wide in zip(costs["mxfp4-square"], costs["mxfp8-square"], strict=True)
    )


def attending(sizes: tuple[int, int, int, int], attention: str, phases: str, precision: str) -> Graph:
    """Attention of samples, heads, tokens and width alone: its operators of some phases of training. What others read
    afterwards is in DRAM in the end, as it would be with them; what it saves for itself is wherever there is room."""
    builder = GraphBuilder("attending")
    moved, *others = (builder.parameter(name, sizes) for name in ("query", "key", "value"))
    query = builder.emit("add", moved, builder.input("x", sizes))
    result = builder.emit("attention", query, *others, scale=sizes[-1] ** -0.5, causal=False, name="attention")
    graph = training_step(builder.build([result]), optimizer="sgd", precision=precision, attention=attention)
    mine = [number for number, op in enumerate(graph.ops) if op.layer == "attention" and op.phase.value in phases]
    later = {name for op in graph.ops[mine[-1] + 1 :] for name in op.inputs if op.layer != "attention"}
    ops = tuple(graph.ops[number] for number in mine)
    results = tuple(name for op in ops for name in op.outputs if name in later)
    return replace(graph, ops=ops, outputs=results, loss="")


PRECISIONS = dict.fromkeys(("tpu-v3", "a100", "h100", "l4", "jetson-orin", "tpu-v4", "fusemax", "micro-npu"), "bf16")
PRECISIONS |= {"v100": "fp16", "t4": "fp16", "mx-square": "mxfp8-square"}
SIZES = ((2, 12, 256, 64), (1, 4, 1024, 64), (4, 2, 200, 128), (1, 1, 2048, 64), (3, 5, 333, 80))
# ten more, drawn once: samples, heads, tokens, width
DRAWN = ((3, 2, 165, 16), (1, 8, 47, 80), (1, 8, 78, 16), (4, 5, 42, 16), (4, 1, 996, 16),
         (2, 12, 434, 16), (4, 1, 1855, 16), (2, 4, 182, 80), (1, 8, 115, 128), (2, 1, 359, 96))  # fmt: skip
FIRST = {("tpu-v3", SIZES[0]), ("tpu-v4", SIZES[2]), ("v100", SIZES[0]), ("fusemax", DRAWN[2])}
SLOWER = {
    ("tpu-v4", SIZES[4], "backward"): "pieces of fifteen heads queue for the port of one vector memory",
    ("fusemax", DRAWN[1], "forward"): "the log-sum-exp leaves, one number a row: 0.6 %",
    ("micro-npu", DRAWN[1], "forward"): "the log-sum-exp leaves, one number a row: 0.6 %",
}


def fused_or_not() -> Iterator[object]:
    """Presets with lanes beside an array, sizes, phases."""
    for name, sizes in itertools.product(PRECISIONS, (*SIZES, *DRAWN)):
        for phases in ("forward", "backward", "forward backward"):
            marks = [] if (name, sizes) in FIRST else [pytest.mark.slow]
            if why := SLOWER.get((name, sizes, phases)):
                marks.append(pytest.mark.xfail(strict=True, reason=why))
            yield pytest.param(name, sizes, phases, marks=marks)


@pytest.mark.parametrize(("name", "sizes", "phases"), list(fused_or_not()))
def test_fused_is_not_slower_than_written_out(name: str, sizes: tuple[int, int, int, int], phases: str) -> None:
    """What ``--attention fused`` takes is the faster of two; see ``tests/request/test_attention.py``."""
    explicit, *fused = (
        evaluate(attending(sizes, attention, phases, PRECISIONS[name]), load_hardware(name)).latency_s
        for attention in ("explicit", *FUSED)
    )
    assert 0 < min(fused) <= explicit


# --- scores that are kept ---------------------------------------------------------------------------------------------


def test_kept_scores_save_a_product_and_are_moved_once_each_way() -> None:
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": 64 * 2**20})
    forward, backward = attention_of(step(attention="fused-scores"), accelerator)[1]
    assert backward.macs == 2 * forward.macs  # four products against two
    bytes_of_scores = 2 * 4 * 256 * 256 * 2  # samples, heads, queries, keys, of two bytes
    least = attention_of(step(attention="fused-lse"), accelerator)[1]
    for operator, other in zip((forward, backward), least, strict=True):
        cost, more = cost_of(operator, accelerator)[0], cost_of(other, accelerator)[0]
        (scores,) = (number for number, (operand, _) in enumerate(operator.operands) if operand.name == "scores")
        assert cost.operands[scores].bytes == bytes_of_scores
        assert cost.operands[scores].spilled == 0
        rest = [part.bytes for number, part in enumerate(cost.operands) if number != scores]
        assert rest == [part.bytes for part in more.operands]
    assert cost.useful == pytest.approx(more.useful * 4 / 5)


def test_scores_come_once_even_where_rows_come_again() -> None:
    """Every block of keys has scores of its own."""
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": 200 * 1024})
    operator = attention_of(step(1024, attention="fused-scores"), accelerator)[1][1]
    cost, _ = cost_of(operator, accelerator)
    times = {
        operand.name: part.bytes / tensor.bytes
        for part, (operand, tensor) in zip(cost.operands, operator.operands, strict=True)
        if not operand.written
    }
    assert times["t1"] > 1
    assert times["scores"] == 1
    assert sum(part.buffer for part in cost.operands) <= 200 * 1024


@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize("kib", [64, 128, 2048])
def test_what_a_step_with_kept_scores_holds_is_within_the_memory(width: int, kib: int) -> None:
    """By hand: two tiles of every operand, the scores among them, sums of dQ, dK and dV; of what is made, gradients of
    probabilities (fp32) and two operands of products (bf16) twice, in forward scores and probabilities."""
    accelerator = load_hardware("fusemax", {"memories.buffer.size_bytes": kib * 1024})
    builder = GraphBuilder("kept")
    query, key, value = (builder.parameter(name, (2, 4, 256, width)) for name in ("q", "k", "v"))
    result = builder.emit("attention", query, key, value, scale=1.0, causal=False, name="attention", keep_scores=True)
    graph = training_step(builder.build([result]), loss="sum", precision="bf16")
    for backward, operator in enumerate(attention_of(graph, accelerator)[1]):
        cost, instance = cost_of(operator, accelerator)
        shape = shape_of(operator.nest, instance.core, formats(operator))
        held = sum(part.buffer for part in cost.operands)
        assert held <= kib * 1024
        asked = set()
        for tile in every_tile(shape):
            rows, keys, block = tile.rows, tile.keys, tile.block
            operands = rows * (4 * width + 4) + block * 4 * width + rows * keys * 2
            made, sums = 2 * rows * keys * (4 + 2), rows * (3 + width) * 4
            if backward:
                operands += rows * (4 * width + 2 * width) + block * 4 * width
                made, sums = 2 * rows * keys * (4 + 2 * 2), (2 * rows + rows * width + 2 * block * width) * 4
            asked.add(2 * operands + made + sums)
        assert held in asked


def test_scores_lie_on_chip_where_they_fit() -> None:
    """In the common memory of a TPU v4 between the passes; in a memory of 2 MiB they go to DRAM and come back."""
    sizes, moved = (1, 4, 512, 64), {}
    for name in ("tpu-v4", "fusemax"):
        for attention in FUSED:
            result = evaluate(attending(sizes, attention, "forward backward", "bf16"), load_hardware(name))
            moved[name, attention] = result.dram_bytes.total
    scores = 4 * 512 * 512 * 2
    assert moved["tpu-v4", "fused-scores"] - moved["tpu-v4", "fused-lse"] < scores / 4
    assert moved["fusemax", "fused-scores"] - moved["fusemax", "fused-lse"] > scores
