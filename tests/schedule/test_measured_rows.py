"""Rows of a result against its timeline, and against cases whose answer is plain: what limits an operator, what a core
waits for."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from monet.graph import Graph, GraphBuilder
from monet.graph.counts import macs_of
from monet.hardware import load_hardware
from monet.request.request import Request
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Plan
from monet.schedule.result import Result
from monet.schedule.result_rows import EVENT_KINDS, TIME_PARTS
from tests.report.small import BATCH, small, small_graph
from tests.schedule.cases import accelerator

WAITS = tuple(part for part in TIME_PARTS if part.startswith("waiting"))


@pytest.fixture(scope="module")
def result() -> Result:
    return small()


def ticks_by(result: Result, kind: str) -> Counter[tuple[str, str]]:
    """(operator, resource) → ticks of its events of a kind."""
    line, found = result.timeline, Counter[tuple[str, str]]()
    for at in range(len(line)):
        if EVENT_KINDS[line.kind[at]] == kind:
            place = line.operators[line.operator[at]], line.resources[line.resource[at]]
            found[place] += int(line.end[at] - line.start[at])
    return found


# --- sums -------------------------------------------------------------------------------------------------------------


def test_busy_times_are_those_of_the_timeline(result: Result) -> None:
    computed, second = ticks_by(result, "compute"), result.ticks_per_second
    for row in result.operators:
        mine = sum(ticks for (name, _), ticks in computed.items() if name == row.name)
        assert row.busy_s == pytest.approx(mine / second, abs=1e-15)
    for core in result.cores:
        mine = sum(ticks for (_, place), ticks in computed.items() if place == core.name)
        assert core.busy_s == pytest.approx(mine / second)
        assert core.operators == len({name for name, place in computed if place == core.name})
    every = Counter[str]()
    for kind in EVENT_KINDS:
        for (_, place), ticks in ticks_by(result, kind).items():
            every[place] += ticks
    for link in result.links:
        assert link.busy_s == pytest.approx(every[link.name] / second, abs=1e-15)
        assert link.utilisation == pytest.approx(every[link.name] / result.ticks)


def test_utilisation_is_work_over_what_the_arrays_could_do(result: Result) -> None:
    graph, hardware = small_graph(), accelerator("mesh", sram=8192, dram=16)
    macs = {op.name: macs_of(graph, op) for op in graph.ops}
    units = {one.name: one.core.units * one.core.clock_hz for one in hardware.cores}
    assert sum(units.values()) == 4 * 16 * 500e6
    rate = 0.5  # products of fp32 per unit and cycle
    assert result.utilisation == pytest.approx(sum(macs.values()) / (rate * sum(units.values()) * result.latency_s))
    assert math.fsum(core.macs for core in result.cores) == pytest.approx(sum(macs.values()))  # each has its share
    for row in result.operators:
        assert row.macs == macs[row.name]
        could = rate * sum(units[name] for name in row.cores) * (row.end_s - row.start_s)
        assert row.utilisation == pytest.approx(row.macs / could if could else 0.0)
    for core in result.cores:
        mine = sum(row.macs / len(row.cores) for row in result.operators if core.name in row.cores)
        could = rate * units[core.name] * result.latency_s
        assert core.utilisation == pytest.approx(mine / could if could else core.busy_s / result.latency_s)


def test_no_array_is_used_more_than_all_the_time() -> None:
    """Two products per unit and cycle: a full array did twice as many as it has unit-cycles, and is used once."""
    builder = GraphBuilder("square")
    left, right = (builder.input(name, (256, 256), "int8") for name in ("left", "right"))
    with builder.scope("product"):
        graph = builder.build([builder.emit("matmul", left, right, transpose_a=False, transpose_b=False)])
    fast = dict.fromkeys(("memories.sram", "cores.npu.memories.weights", "network.axi"), 4096)
    settings = {f"{path}.bandwidth_bits_per_cycle": bits for path, bits in fast.items()} | {
        "cores.npu.rates.int8.products_per_cycle": 2, "dram.external.bandwidth_bytes_per_s": 1e12,
    }  # fmt: skip
    found = evaluate(graph, load_hardware("micro-npu", settings))
    units = 2 * 16 * 8 * 400e6
    assert 0.5 < found.operators[0].utilisation <= 1
    assert found.utilisation == pytest.approx(256**3 / (units * found.latency_s))


def test_the_headline_is_of_the_whole_batch(result: Result) -> None:
    assert result.batch == BATCH
    assert result.throughput_per_s == pytest.approx(BATCH * result.ticks_per_second / result.ticks)
    assert result.cycles == math.ceil(result.ticks / 1024)
    assert result.latency_s == pytest.approx(result.cycles / 500e6, rel=1e-5)
    assert result.energy_j == pytest.approx(
        sum(row.energy_j for row in result.operators) + result.energy_breakdown.static
    )
    for name, phase in result.phases.items():
        rows = [row for row in result.operators if row.phase == name]
        assert (phase.operators, phase.macs) == (len(rows), sum(row.macs for row in rows))
        assert phase.dram_bytes == sum(row.dram_read_bytes + row.dram_write_bytes for row in rows)
        assert phase.busy_s == pytest.approx(sum(row.busy_s for row in rows))
        assert phase.energy_j == pytest.approx(sum(row.energy_j for row in rows))
        assert (phase.start_s, phase.end_s) == (min(row.start_s for row in rows), max(row.end_s for row in rows))


def test_bound_by_follows_from_traffic_and_core_time(result: Result) -> None:
    """DRAM limits an operator if its bytes take longer than its busiest core; else a port or the array does."""
    computed, bandwidth = ticks_by(result, "compute"), accelerator("mesh").dram.bandwidth_bytes_per_s
    limits = Counter[bool]()
    for row in result.operators:
        busiest = max((computed[row.name, core] for core in row.cores), default=0) / result.ticks_per_second
        moved = (row.dram_read_bytes + row.dram_write_bytes) / bandwidth
        assert (row.bound_by == "dram") == (moved > busiest), row.name
        limits[row.bound_by == "dram"] += 1
    assert min(limits.values()) > 10
    assert {row.bound_by for row in result.operators} - {"dram", "compute"} <= {"sram.r0", "local.w0", "local.r0"}


def test_small_operators_are_bound_by_their_launch() -> None:
    """On a chip whose launches are long everything small waits for them, unless it was launched with its group."""
    quick = Request("mlp", "a100", batch=4, fusion="none", set={"launch_cycles": 0}).evaluate()
    slow = Request("mlp", "a100", batch=4, fusion="none", set={"launch_cycles": 1_000_000}).evaluate()
    assert not any(row.bound_by == "launch" for row in quick.operators)
    assert all(row.bound_by == "launch" for row in slow.operators if row.busy_s)


# --- waiting ----------------------------------------------------------------------------------------------------------


def conv(builder: GraphBuilder, name: str, x: str, channels: int = 4) -> str:
    """From 4 channels to 8, or back."""
    with builder.scope(name):
        weight, pad = builder.parameter("weight", (12 - channels, channels, 3, 3)), ((1, 1), (1, 1))
        return builder.emit("conv", x, weight, stride=(1, 1), padding=pad, dilation=(1, 1), groups=1)


def one_after_another() -> Graph:
    """A convolution, then a ReLU of it."""
    builder = GraphBuilder("chain")
    x = conv(builder, "a", builder.input("x", (1, 4, 8, 8)))
    with builder.scope("c"):
        return builder.build([builder.emit("relu", x)])


def two_and_their_sum() -> Graph:
    builder = GraphBuilder("two")
    outputs = [conv(builder, name, builder.input(f"input_{name}", (1, 4, 8, 8))) for name in "ab"]
    with builder.scope("c"):
        return builder.build([builder.emit("add", *outputs)])


def two_chains() -> Graph:
    """Convolutions a and b, then c of a's result and d of b's."""
    builder = GraphBuilder("chains")
    first, second = (conv(builder, name, builder.input(f"input_{name}", (1, 4, 8, 8))) for name in "ab")
    return builder.build([conv(builder, "c", first, 8), conv(builder, "d", second, 8)])


def run(graph: Graph, sram: int, local: int, dram: int = 16) -> Result:
    """Convolutions on one array, the rest on the vector core; one tile each, no latency of DRAM."""
    hardware = accelerator("bus", sram=sram, local=local, latency=0, count=2, dram=dram)
    places = {op.name: "pe[0]" if op.kind == "conv" else "simd" for op in graph.ops}
    found = evaluate(graph, hardware, Plan(buffer_share=0.5), allocation=places)
    assert all(row.tiles == 1 for row in found.operators)
    return found


def waits(result: Result, core: str) -> dict[str, int]:
    row = next(row for row in result.cores if row.name == core)
    return {part.removeprefix("waiting_for_"): row.time_ticks[part] for part in WAITS}


def span(result: Result, operator: str, kind: str) -> tuple[int, int]:
    """First start and last end of an operator's events of a kind, in ticks."""
    line = result.timeline
    mine = (line.operator == line.operators.index(operator)) & (line.kind == EVENT_KINDS.index(kind))
    return int(line.start[mine].min()), int(line.end[mine].max())


def done_with(result: Result, operator: str) -> tuple[int, int, int]:
    """When an operator begins, when it has computed, and when the last that it streams has come."""
    began, done = span(result, operator, "compute")
    return began, done, max(done, span(result, operator, "read")[1])


def streamed_out(result: Result, operator: str) -> int:
    """When all has left that an operator writes as it runs; the last part follows when it has ended."""
    line = result.timeline
    mine = (line.operator == line.operators.index(operator)) & (line.kind == EVENT_KINDS.index("write"))
    return int(np.sort(line.end[mine])[-2])


def test_waits_are_blamed_on_what_went_on_meanwhile() -> None:
    """The vector core waits for the array's operands from DRAM, then for the array, then for the wires between them,
    and at last for what it writes."""
    result = run(one_after_another(), 65536, 65536)
    began, done, came = done_with(result, "a.conv")
    start, end = span(result, "c.relu", "compute")
    _, written = span(result, "c.relu", "write")
    assert 0 < began < came == done < start < end < written
    found, gone = waits(result, "simd"), streamed_out(result, "c.relu")
    assert 0 < found.pop("dram") - began <= gone - end  # but for the latency of the way
    assert found == {"link": start - done, "dependency": done - began, "space": 0, "host": 0}
    assert waits(result, "pe[0]") == {"dram": began, "link": 0, "dependency": 0, "space": 0, "host": 0}


def test_data_that_takes_the_way_over_dram_is_waited_for_there() -> None:
    result = run(one_after_another(), 2048, 2048)
    found = waits(result, "simd")
    start, _ = span(result, "c.relu", "compute")
    assert found["dram"] >= start
    assert {part: ticks for part, ticks in found.items() if ticks} == {"dram": found["dram"]}


def test_waiting_for_room_is_told_from_waiting_for_data() -> None:
    """With room for both results the second convolution waits for nothing but the first; with less room its own result
    has to wait until that of the first has left, and so does the sum."""
    roomy, cramped = (run(two_and_their_sum(), sram, 4096) for sram in (8192, 6144))
    found, (_, _, came) = waits(roomy, "simd"), done_with(roomy, "b.conv")
    assert found["space"] == 0
    gone = streamed_out(roomy, "c.add")
    assert came < found["dependency"] + found["dram"] <= came + gone - span(roomy, "c.add", "compute")[1]
    found, (began, _, came) = waits(cramped, "simd"), done_with(cramped, "b.conv")
    assert found["space"] == began > 0
    gone = streamed_out(cramped, "c.add")
    assert came - began <= found["dependency"] + found["dram"] <= gone - began


def test_making_room_is_waited_for_as_room() -> None:
    """The array waits for b's result to be evicted, then for c's operands; for c's result to leave, then for d's."""
    result = run(two_chains(), 6144, 4096, dram=8)
    (first, _), (_, second) = span(result, "a.conv", "compute"), span(result, "b.conv", "compute")
    (third, written), (fourth, _) = span(result, "c.conv", "compute"), span(result, "d.conv", "compute")
    (_, evicted), (_, left) = span(result, "c.conv", "evict"), span(result, "c.conv", "write")
    assert second < evicted < third < written < left < fourth
    expected = {"dram": first + third - evicted + fourth - left, "space": evicted - second + left - written}
    assert waits(result, "pe[0]") == {"link": 0, "dependency": 0, "host": 0} | expected
