"""Vector lanes as an array: what a product costs there, and which cores can run what."""

from __future__ import annotations

import pytest

from monet.graph import GraphBuilder
from monet.hardware.errors import HardwareError
from monet.hardware.lane_array import arrays_for, arrays_of, lane_array, peak_products_per_cycle
from monet.hardware.loading import load_hardware
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import search
from monet.schedule.evaluation import evaluate
from tests.mapping.nests import linear


def test_products_on_lanes_take_lanes_ports_and_the_price_of_a_lane_cycle() -> None:
    """64 lanes, a port of 512 bit: a product of int8 per lane and cycle; of bf16 only every second cycle."""
    simd = load_hardware("edge-tpu").instance("simd").core
    array = lane_array(simd)
    assert array is not None
    assert array.units == 64
    narrow = search(linear(64, 64, 64), array, store=CostStore())
    assert narrow.cost.compute_cycles == 64**3 / 64
    wide = search(linear(64, 64, 64, "bf16"), array, store=CostStore())
    port = dict(wide.cost.port_cycles)["sram.rw0"]
    read = 64**3 / 64 * (64 + 1) * 16 / 512  # of every step one input for each lane, one for all
    assert port == pytest.approx(read + 64 * 64 * 16 / 512)
    rate = simd.lane_rate("bf16")
    assert wide.energy_j_by_level["compute"] == pytest.approx(64**3 * rate.energy_j * simd.function_cycles("mac"))


def test_half_rate_and_missing_functions() -> None:
    a100 = load_hardware("a100").instance("sm[0]").core
    assert [array.units for array in arrays_of(a100)] == [1024, 64]
    assert peak_products_per_cycle(a100, "fp16", "fp16") == 1024  # the array's; lanes make 256
    assert lane_array(a100).rate("fp16", "fp16").products_per_cycle == 4  # type: ignore[union-attr]
    pooling = load_hardware("edge-tpu", {"cores.pooling.vector.only": ["max", "add"]}).instance("pooling").core
    assert lane_array(pooling) is None
    assert peak_products_per_cycle(pooling, "int8", "int8") == 0
    with pytest.raises(HardwareError, match="lanes have no function mac"):
        arrays_for(pooling, "int8", "int8")
    apart = load_hardware("edge-tpu", {"cores.pooling.vector.only": ["mul", "add"]}).instance("pooling").core
    assert peak_products_per_cycle(apart, "int8", "int8") == 72 / 2  # a product, then a sum


def test_a_depthwise_convolution_runs_on_lanes_and_a_dense_one_on_the_array() -> None:
    for groups, expected in ((32, "simd"), (1, "pe[0,0]")):
        builder = GraphBuilder("one")
        x = builder.input("x", (1, 32, 28, 28), "bf16")
        w = builder.parameter("w", (32, 32 // groups, 3, 3), "bf16")
        geometry = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": groups}
        graph = builder.build([builder.emit("conv", x, w, name="conv", **geometry)])
        result = evaluate(graph, load_hardware("edge-tpu"))
        assert result.operators[0].cores[0] == expected
        forced = evaluate(graph, load_hardware("edge-tpu"), allocation={"conv": "simd"})  # any core that can, may
        assert forced.latency_s >= result.latency_s * (1 - 1e-9)
