"""A format whose elements share a scale, known only to the table: it flows through graph, mapper and schedule."""

from __future__ import annotations

import dataclasses

import pytest

import monet
from monet.formats import FORMATS, Format
from monet.graph import Graph, GraphBuilder
from monet.graph.counts import saved_for_backward
from monet.grouping import Group
from monet.hardware import Accelerator, DescriptionError
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.schedule.result import Result
from monet.search.checkpoint.liveness import peak_of
from monet.transforms.precision import POLICIES, Precision

WIDE = "float32"
# 4-bit elements with an 8-bit scale for every 32; and two that take 8 bits an element, the first with its scale.
MADE = (
    Format("grouped4", 4, WIDE, True, group=Group((32,), 8)),
    Format("grouped8", 7, WIDE, True, group=Group((32,), 32)),
    Format("plain8", 8, WIDE, True),
)
HARDWARE = """
name: tiny
node_nm: 28
clock_hz: 1 GHz
cores:
  pe:
    kind: matrix
    axes: {k: {size: 4, multicast: [I]}, c: {size: 8, reduce: true}}
    rates: {FORMAT: {energy_j: 1 pJ}, FORMAT*plain8: {energy_j: 1 pJ}}
    compute_area_m2: 1 mm2
    vector: {lanes: 8, dtypes: {FORMAT: {energy_j: 1 pJ}, fp32: {}}}
    memories:
      - {name: rf, operands: [W], per: mac, size_bytes: 8, bandwidth_bits_per_cycle: 8}
      - {name: sram, size_bytes: 16 KiB, bandwidth_bits_per_cycle: 256}
dram: {main: {kind: LPDDR4, capacity_bytes: 1 GiB}}
network: {bus: {bus: [pe, main], hub: main, bandwidth_bits_per_cycle: 64}}
"""


@pytest.fixture(autouse=True)
def _formats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONET_CACHE", "off")
    for one in MADE:
        monkeypatch.setitem(FORMATS, one.name, one)
        monkeypatch.setitem(POLICIES, one.name, Precision(one.name, one.name, master="fp32"))


def chip(name: str, cores: int = 1, sram: str = "16 KiB") -> Accelerator:
    text = HARDWARE.replace("FORMAT", name).replace("16 KiB", sram)
    return resolve(describe_text(text.replace("kind: matrix", f"kind: matrix\n    count: {cores}")))


def step_in(name: str, width: int = 64) -> Graph:
    builder = GraphBuilder("two layers")
    x = builder.input("x", (32, width))
    hidden = builder.emit("linear", x, builder.parameter("first", (64, width)), transpose=False)
    hidden = builder.emit("relu", hidden)
    y = builder.emit("linear", hidden, builder.parameter("second", (64, 64)), transpose=False)
    return monet.training_step(builder.build([y]), precision=name, optimizer="sgd")


def figures(result: Result) -> dict[str, object]:
    assert result.feasible, result.reason
    rows = [dataclasses.replace(one, energy_j=0.0) for one in result.operators]
    return {
        "ticks": result.ticks,
        "energy": pytest.approx(result.energy_j),
        "dram": result.dram_bytes,
        "peaks": result.peak_memory_bytes,
        "operators": rows,
    }


@pytest.mark.parametrize(("cores", "sram"), [(1, "16 KiB"), (2, "2 KiB")])
@pytest.mark.parametrize("boundary", ["keep", "dram"])
@pytest.mark.parametrize("fusion", ["auto", "none"])
def test_groups_of_whole_bytes_cost_what_plain_bytes_do(fusion: str, boundary: str, cores: int, sram: str) -> None:
    """Independent of any formula: 7 bits and a 32nd of a 32-bit scale are 8 bits, wherever they are counted."""
    results = [
        monet.evaluate(step_in(name, 256), chip(name, cores, sram), fusion=fusion, boundary=boundary)
        for name in ("grouped8", "plain8")
    ]
    assert figures(results[0]) == figures(results[1])
    assert results[0].bounds == results[1].bounds


@pytest.mark.parametrize("halo", ["cached", "recomputed"])
def test_tiles_with_halo_are_as_large_as_plain_ones(halo: str) -> None:
    def result(name: str) -> Result:
        builder, same = GraphBuilder("stack"), ((1, 1), (1, 1))
        x = builder.input("x", (1, 8, 16, 32), name)
        for number in range(3):
            weight = builder.parameter(f"w{number}", (8, 8, 3, 3), "plain8")
            x = builder.emit("conv", x, weight, stride=(1, 1), padding=same, dilation=(1, 1), groups=1)
        graph = builder.build([x])
        plan = {"groups": [{"operators": [op.name for op in graph.ops], "tile": {"OY": 4}, "halo": halo}]}
        return monet.evaluate(graph, chip(name, 1, "64 KiB"), plan)

    assert figures(result("grouped8")) == figures(result("plain8"))


@pytest.mark.parametrize(("width", "padded"), [(64, 64), (40, 64)])
def test_bytes_agree_from_tensor_to_traffic(width: int, padded: int) -> None:
    step = step_in("grouped4", width)
    tensors = step.tensors
    per_row = padded * 4 // 8 + padded // 32
    assert tensors["x"].bytes == 32 * per_row
    assert tensors["first"].bytes == 64 * per_row
    saved = {one.name: one.bytes for one in saved_for_backward(step)}
    assert saved["relu"] == 32 * (64 * 4 // 8 + 2)
    assert peak_of(step).bytes >= saved["relu"] + saved["loss.log_softmax"]
    result = monet.evaluate(step, chip("grouped4"), fusion="none", boundary="dram")
    assert result.feasible, result.reason
    written = sum(tensors[name].bytes for op in step.ops for name in op.outputs)
    assert result.dram_bytes.write == written
    by_name = {row.name: row for row in result.operators}
    for op in step.ops:  # nothing that passes once is read twice
        row, once = by_name[op.name], sum(tensors[name].bytes for name in dict.fromkeys(op.inputs))
        if row.family == "matmul":
            assert row.dram_read_bytes % 1 == 0
            assert row.dram_read_bytes >= once
        elif op.kind == "nll_loss":
            assert row.dram_read_bytes == 32 * (4 + 8)  # of every row a log-probability, and the label
        elif "softmax" not in op.kind:
            assert row.dram_read_bytes == once
    weights = result.peak_memory_bytes["main"].weights
    assert weights == tensors["first"].bytes + tensors["second"].bytes


def test_padding_costs_what_the_padded_tensor_does() -> None:
    """Rows of 33 elements take two groups, as rows of 64 do: the same bytes to DRAM and back, though fewer products."""
    narrow, wide = (monet.evaluate(step_in("grouped4", width), chip("grouped4"), fusion="none") for width in (33, 64))
    assert narrow.peak_memory_bytes["main"].weights == wide.peak_memory_bytes["main"].weights
    assert sum(row.macs for row in narrow.operators) < sum(row.macs for row in wide.operators)


def test_a_core_gives_what_no_published_unit_tells() -> None:
    text = HARDWARE.replace("FORMAT: {energy_j: 1 pJ}, ", "FORMAT: {}, ").replace("    compute_area_m2: 1 mm2\n", "")
    with pytest.raises(DescriptionError) as caught:
        describe_text(text.replace("FORMAT", "grouped4"))
    problems = {one.path: str(one) for one in caught.value.problems}
    assert "must be given" in problems["cores.pe.rates.grouped4.energy_j"]
    assert "must be given" in problems["cores.pe.compute_area_m2"]
