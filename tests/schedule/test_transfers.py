"""Transfers to endpoints outside of the chip: on a port of their own, beside what computes, with DRAM in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monet.graph import Graph, GraphBuilder
from monet.graph.op import Attributes
from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.schedule.costs.transfer_cost import NoEndpoint
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Plan, PlanError
from monet.schedule.result import Result
from monet.schedule.result_rows import OperatorRow

CHIP = """
name: chip
node_nm: 28
clock_hz: 1 GHz
cores:
  simd:
    kind: vector
    vector: {lanes: 16, dtypes: [fp32]}
    memories: [{name: local, size_bytes: 64 KiB, bandwidth_bits_per_cycle: 512}]
dram:
  main: {kind: LPDDR4, capacity_bytes: 1 GiB, bandwidth_bytes_per_s: 8 GB/s}
network:
  bus: {bus: [simd, main], bandwidth_bits_per_cycle: 128}
"""
ENDPOINTS = """
endpoints:
  host: {kind: host, bandwidth_bytes_per_s: 1 GB/s, latency_s: 2 us, energy_j_per_bit: 10 pJ}
"""
SIZE = 256 * 1024  # elements, a MiB


def chip(more: str = ENDPOINTS) -> Accelerator:
    return resolve(describe_text(CHIP + more))


def there_and_back(steps: int = 6, **attrs: float) -> Graph:
    """A tensor goes out and comes back while something else is computed."""
    builder = GraphBuilder("there-and-back")
    kept, x = builder.input("kept", (SIZE,)), builder.input("x", (SIZE,))
    away = builder.emit("page_out", kept, name="out", **attrs)
    for number in range(steps):
        x = builder.emit("relu", x, name=f"step{number}")
    back = builder.emit("page_in", away, name="in", **attrs)
    return builder.build([builder.emit("add", x, back, name="sum")])


def row(result: Result, name: str) -> OperatorRow:
    return next(each for each in result.operators if each.name == name)


@pytest.mark.parametrize("boundary", ["keep", "local", "dram"])
def test_a_transfer_takes_its_port_and_runs_beside_what_computes(boundary: str) -> None:
    result = evaluate(there_and_back(), chip(), fusion="none", boundary=boundary)
    out, back = row(result, "out"), row(result, "in")
    seconds = 2e-6 + 4 * SIZE / 1e9
    assert out.cores == back.cores == ("host",)
    assert out.busy_s == back.busy_s == pytest.approx(seconds, rel=1e-6)
    assert back.start_s >= out.end_s - 4 * SIZE / 8e9  # a page is never read before it was written
    assert (out.dram_read_bytes, out.dram_write_bytes) == (4 * SIZE, 0)
    assert (back.dram_read_bytes, back.dram_write_bytes) == (0, 4 * SIZE)
    assert row(result, "step0").start_s < out.end_s  # they overlap
    assert result.latency_s < 2 * seconds + sum(row(result, f"step{n}").latency_s for n in range(6))


def test_results_show_the_port_and_what_is_behind_it_but_no_core() -> None:
    result = evaluate(there_and_back(), chip())
    (link,) = [each for each in result.links if each.name == "host"]
    assert link.bytes == 8 * SIZE
    assert link.busy_s == pytest.approx(2 * (2e-6 + 4 * SIZE / 1e9), rel=1e-6)
    assert link.energy_j == pytest.approx(8 * 8 * SIZE * 10e-12)
    assert result.energy_breakdown.by_level["host"] == result.energy_breakdown.by_core["host"] == link.energy_j
    assert result.energy_j == pytest.approx(sum(result.energy_breakdown.by_operator.values()))
    (memory,) = [each for each in result.memory if each.name == "host"]
    assert memory.peak_bytes == memory.at_peak["activations"] == 4 * SIZE
    assert [core.name for core in result.cores] == ["simd"]
    assert result.bounds.endpoints_s == pytest.approx(link.busy_s, rel=1e-6)
    assert result.bounds.endpoints_s <= result.bounds.latency_s <= result.latency_s
    assert result.phases["forward"].busy_s == pytest.approx(sum(core.busy_s for core in result.cores))


def test_a_duration_may_be_given_from_outside() -> None:
    result = evaluate(there_and_back(seconds=5e-3, energy_j=1e-6), chip())
    assert row(result, "out").busy_s == row(result, "in").busy_s == pytest.approx(5e-3)
    assert result.energy_breakdown.by_level["host"] == pytest.approx(2e-6)
    assert result.bounds.endpoints_s == pytest.approx(1e-2)


def test_transfers_without_an_endpoint_are_refused() -> None:
    with pytest.raises(
        NoEndpoint, match=r"operator out \(page_out\) needs an endpoint of kind host, and chip has none;"
    ):
        evaluate(there_and_back(), chip(""))
    only_network = "endpoints: {net: {kind: network, bandwidth_bytes_per_s: 1 GB/s}}"
    with pytest.raises(NoEndpoint, match=r"has net \(network\); add one to the hardware: endpoints: {host:"):
        evaluate(there_and_back(), chip(only_network))


def test_an_attribute_names_one_of_several_endpoints() -> None:
    two = ENDPOINTS + "  pool: {kind: host, bandwidth_bytes_per_s: 2 GB/s}\n"
    graph = there_and_back()
    ops = tuple(
        replace(op, attrs=Attributes({"endpoint": "pool"})) if op.kind.startswith("page") else op for op in graph.ops
    )
    result = evaluate(replace(graph, ops=ops), chip(two))
    assert row(result, "out").cores == ("pool",)
    assert {memory.name: memory.peak_bytes for memory in result.memory if memory.name in ("host", "pool")} == {
        "host": 0,
        "pool": 4 * SIZE,
    }


def test_a_full_memory_behind_the_port_is_infeasible() -> None:
    small = ENDPOINTS.replace("latency_s", "capacity_bytes: 1 MB, latency_s")
    result = evaluate(there_and_back(), chip(small))
    assert not result.feasible
    assert result.reason is not None
    assert (result.reason.level, result.reason.bytes_short) == ("host", 4 * SIZE - 1_000_000)


def test_only_transfers_run_on_ports() -> None:
    scheduler = Scheduler(there_and_back(), chip())
    for operator, core, why in (("step0", "host", "it is a port"), ("out", "simd", "it is no port to a host")):
        with pytest.raises(PlanError, match=why):
            scheduler.schedule(Plan.from_dict({"allocation": {operator: core}}))


def test_a_port_may_hang_on_the_network() -> None:
    linked = ENDPOINTS + "  edge: {kind: network, bandwidth_bytes_per_s: 1 GB/s}\n"
    text = (CHIP + linked).replace(
        "network:\n", "network:\n  pcie: {link: [main, host], bandwidth_bits_per_cycle: 8}\n"
    )
    accelerator = resolve(describe_text(text))
    assert [each.place for each in accelerator.endpoints] == ["host", "main"]
    result = evaluate(there_and_back(), accelerator)
    wire = {each.name: each.bytes for each in result.links}
    assert wire["pcie"] + wire["pcie (back)"] == 8 * SIZE


def test_a_machine_with_endpoints_costs_what_it_did_without() -> None:
    builder = GraphBuilder("plain")
    x = builder.input("x", (SIZE,))
    graph = builder.build([builder.emit("relu", builder.emit("relu", x))])
    with_ports, without = (evaluate(graph, chip(more)) for more in (ENDPOINTS, ""))
    assert with_ports.ticks == without.ticks
    assert with_ports.energy_j == without.energy_j
    assert [each.name for each in with_ports.memory] == [each.name for each in without.memory]
    assert with_ports.links == without.links


def test_collectives_and_messages_occupy_the_network_port() -> None:
    """A bucket of two tensors is reduced, then sent: the port is busy with each in turn, DRAM moves every byte once."""
    builder = GraphBuilder("bucket")
    x, y = builder.input("x", (SIZE,)), builder.input("y", (2, SIZE))
    group = {"group": "data", "size": 4}
    reduced = builder.emit_all("all_reduce", builder.emit("relu", x), y, name="sum", seconds=1e-2, **group)
    builder.emit_all("send", *reduced, name="message", peer=1, **group)
    graph = builder.build([builder.emit("relu", reduced[0])])
    network = "endpoints: {fabric: {kind: network, bandwidth_bytes_per_s: 4 GB/s, latency_s: 1 us}}"
    result = evaluate(graph, chip(network))
    total, message = row(result, "sum"), row(result, "message")
    assert total.cores == message.cores == ("fabric",)
    assert total.busy_s == pytest.approx(1e-2)
    assert message.busy_s == pytest.approx(1e-6 + 12 * SIZE / 4e9)
    assert total.end_s <= message.end_s
    assert total.dram_write_bytes == message.dram_read_bytes == 12 * SIZE
    (link,) = [each for each in result.links if each.name == "fabric"]
    assert link.busy_s == pytest.approx(total.busy_s + message.busy_s)
    assert "fabric" not in {memory.name for memory in result.memory}
