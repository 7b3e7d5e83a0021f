"""Every preset loads, is complete, and has the figures of its source."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from monet.hardware import Accelerator, load_description, load_hardware, preset_names
from monet.hardware.core import OPERANDS, Flow, flows_of
from monet.hardware.drawing import peak_rates, stated_peaks
from monet.hardware.errors import HardwareError

EXPECTED = (
    "a100", "a100-40gb", "a100-pcie", "aimc-4x4", "dacapo", "depfin", "edge-tpu", "eyeriss", "fusemax", "h100",
    "jetson-orin", "l4", "micro-npu", "mx-square", "simba", "snax-mx", "t4", "tpu-like", "tpu-like-quad", "tpu-v3",
    "tpu-v4", "v100", "v100-pcie",
)  # fmt: skip


def test_the_presets_are_all_there() -> None:
    assert preset_names() == EXPECTED


def _numbers(value: Any) -> list[float]:
    if dataclasses.is_dataclass(value):
        return [n for field in dataclasses.fields(value) for n in _numbers(getattr(value, field.name))]
    if isinstance(value, tuple | frozenset):
        return [n for item in value for n in _numbers(item)]
    assert value is not None
    return [float(value)] if isinstance(value, int | float) else []


@pytest.mark.parametrize("name", EXPECTED)
def test_a_preset_is_fully_resolved_and_connected(name: str) -> None:
    accelerator = load_hardware(name)
    for part in (accelerator.memories, (accelerator.dram,), accelerator.links):
        assert all(math.isfinite(number) and number >= 0 for number in _numbers(part))
    for one in accelerator.cores:
        hash(one.core)  # usable as a cache key
        for level in one.core.levels:
            for operand in level.operands:
                for flow in flows_of(operand):
                    assert level.port_for(operand, flow).bandwidth_bits_per_cycle > 0
        for operand in OPERANDS:
            memory = one.memory_of(operand)
            endpoint = accelerator.memory(memory).endpoint if memory else one.endpoint
            assert accelerator.route(accelerator.dram.name, endpoint)
            assert accelerator.route(endpoint, accelerator.dram.name)
    assert accelerator.area_m2 > 0
    assert load_description(name).source


def _only_core(name: str) -> tuple[Accelerator, Any]:
    accelerator = load_hardware(name)
    return accelerator, accelerator.cores[0].core


def test_tpu_like_equals_the_table_of_zigzag() -> None:
    accelerator, core = _only_core("tpu-like")
    assert [(axis.name, axis.size) for axis in core.axes] == [("D1", 32), ("D2", 32)]
    assert core.rate("int8", "int8").energy_j == pytest.approx(0.04e-12)
    assert core.rate("int8", "int8").accumulator == "int16"
    rows = [
        (level.name, level.operands, level.size_bytes, level.instances, level.read_energy_j, level.write_energy_j)
        for level in core.levels
    ]
    assert rows == [
        ("rf_128B", ("W",), 128, 1024, pytest.approx(0.095e-12), pytest.approx(0.095e-12)),
        ("rf_2B", ("O",), 2, 1024, pytest.approx(0.021e-12), pytest.approx(0.021e-12)),
        ("sram_2MB", ("I", "O"), 2 << 20, 1, pytest.approx(416.16e-12), pytest.approx(378.4e-12)),
    ]
    weights, sums, sram = core.levels
    assert [(p.direction, p.bandwidth_bits_per_cycle) for p in weights.ports] == [("read", 8), ("write", 8)]
    assert [(p.direction, p.bandwidth_bits_per_cycle) for p in sums.ports] == [("read", 16)] * 2 + [("write", 16)] * 2
    assert [(p.direction, p.bandwidth_bits_per_cycle) for p in sram.ports] == [("read", 2048), ("write", 2048)]
    assert (sram.min_access_bits, sram.access_bits) == (64, 2048)
    assert core.levels_of("I") == (sram,)
    assert core.levels_of("W") == (weights,)
    assert core.streamed == {"W"}
    dram = accelerator.dram
    assert dram.capacity_bytes * 8 == 10**10
    assert dram.bandwidth_bits_per_s == 64 * core.clock_hz
    assert dram.read_energy_j_per_bit * 64 == pytest.approx(700e-12)
    assert dram.write_energy_j_per_bit * 64 == pytest.approx(750e-12)
    assert all(link.energy_j_per_bit == 0 for link in accelerator.links)


def test_sums_of_tpu_like_use_separate_ports_for_array_and_above() -> None:
    sums = _only_core("tpu-like")[1].level("rf_2B")
    assert {flow: sums.port_for("O", flow).name for flow in Flow} == {
        Flow.FEED: "r_low", Flow.DRAIN: "r_high", Flow.COLLECT: "w_low", Flow.FILL: "w_high",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "dtype", "published_ops"),
    [
        ("a100", "bf16", 312e12),
        ("a100", "tf32", 156e12),
        ("a100", "int8", 624e12),
        ("a100", "fp32", 19.5e12),
        ("a100-40gb", "fp16", 312e12),
        ("a100-pcie", "fp16", 312e12),
        ("v100", "fp16", 125e12),
        ("v100", "fp32", 15.7e12),
        ("v100-pcie", "fp16", 112e12),
        ("v100-pcie", "fp32", 14e12),
        ("h100", "bf16", 989e12),
        ("h100", "tf32", 494e12),
        ("h100", "fp8_e4m3", 1979e12),
        ("jetson-orin", "fp32", 5.3e12),
        ("jetson-orin", "int8", 85e12),
        ("tpu-v3", "bf16", 123e12),
        ("tpu-v4", "bf16", 275e12),
        ("depfin", "int8", 3.8e12),
        ("eyeriss", "int16", 67.2e9),  # 33.6 GMAC/s at 200 MHz
    ],
)
def test_peak_rate_is_the_published_one(name: str, dtype: str, published_ops: float) -> None:
    assert stated_peaks(load_hardware(name))[dtype] == pytest.approx(published_ops, rel=0.01)


@pytest.mark.parametrize(
    ("name", "boost_hz", "published_ops"),
    [
        ("h100", 1.83e9, {"bf16": 989e12, "fp8_e4m3": 1979e12}),
        ("t4", 1.59e9, {"fp16": 65e12, "int8": 130e12, "fp32": 8.1e12}),
        ("l4", 2.04e9, {"fp16": 121e12, "tf32": 60e12, "int8": 242e12, "fp32": 30.3e12}),
    ],
)
def test_what_power_lets_products_hold_is_less_than_the_published_peak(
    name: str, boost_hz: float, published_ops: dict[str, float]
) -> None:
    device, boosted = load_hardware(name), load_hardware(name, {"clock_hz": boost_hz})
    assert device.stated_clock_hz == boosted.clock_hz == boost_hz
    for dtype, expected in published_ops.items():
        assert stated_peaks(device)[dtype] == pytest.approx(expected, rel=0.01)
        assert 2 * boosted.peak_macs_per_s(dtype) == pytest.approx(expected, rel=0.01)
        assert peak_rates(device)[dtype] < 0.85 * expected


def test_depfin_ports_are_the_ones_of_the_chip() -> None:
    activations = _only_core("depfin")[1].level("activations")
    assert activations.port_for("I", Flow.FEED).name == "outside"
    assert activations.port_for("O", Flow.DRAIN).name == "outside"
    assert activations.port_for("O", Flow.COLLECT).name == "array"


def test_analog_weights_are_resident_and_owned_by_the_scheduler() -> None:
    analog = load_hardware(str(Path(__file__).parents[1] / "chips" / "shared-l1.yaml"))
    array = analog.instance("analog")
    assert array.core.weights_resident
    assert array.core.streamed == frozenset()
    assert analog.memory(array.memory_of("W")).size_bytes == 1152 * 512


def test_aimc_cores_form_a_one_way_pipeline_and_load_their_cells_from_a_buffer() -> None:
    accelerator = load_hardware("aimc-4x4")
    assert {accelerator.memory(one.memory_of("W")).size_bytes for one in accelerator.cores} == {256 * 1024}
    widths = [one.core.top("W").port_for("W", Flow.FEED).bandwidth_bits_per_cycle for one in accelerator.cores]
    assert widths == [4096, 8192, 4096, 4096, 8192]
    assert [accelerator.links[i].name for i in accelerator.route("cimu_0", "cimu_4")] == [
        f"pipeline[{i}]" for i in range(4)
    ]


def test_fusemax_cores_share_one_memory() -> None:
    accelerator = load_hardware("fusemax")
    tensor, vector = accelerator.cores
    assert tensor.memory_of("O") == vector.memory_of("I") == "buffer"
    assert tensor.endpoint == vector.endpoint == "buffer"
    assert accelerator.memory("buffer").cores == ("tensor", "vector")


@pytest.mark.parametrize(
    ("parameter", "value", "grows"),
    [
        ("x_pes", 8, "cores"), ("y_pes", 8, "cores"), ("simd_units", 128, "macs"), ("lanes", 8, "macs"),
        ("pe_memory_bytes", 4 << 20, "bytes"), ("register_bytes", 64 << 10, "bytes"),
    ],
)  # fmt: skip
def test_every_parameter_of_table_2_can_be_set_and_has_a_price(parameter: str, value: int, grows: str) -> None:
    base, changed = load_hardware("edge-tpu"), load_hardware("edge-tpu", {parameter: value})
    measure = {
        "cores": lambda a: len(a.cores),
        "macs": lambda a: a.peak_macs_per_s("int8"),
        "bytes": lambda a: a.on_chip_bytes,
    }[grows]
    assert measure(changed) > measure(base)
    assert changed.area_m2 > base.area_m2
    assert changed.static_power_w > base.static_power_w
    if grows == "bytes":
        pairs = zip(base.designs["pe"].levels, changed.designs["pe"].levels, strict=True)
        assert any(after.read_energy_j > before.read_energy_j for before, after in pairs)


def test_every_value_of_table_2_loads() -> None:
    description = load_description("edge-tpu")
    assert math.prod(len(parameter.values) for parameter in description.parameters.values()) == 10_000
    for name, parameter in description.parameters.items():
        for value in parameter.values:
            load_hardware("edge-tpu", {name: value})


@pytest.mark.parametrize(
    ("name", "clock_hz", "gops"),
    [
        # arXiv 2511.06313; casys-kaist/DaCapo; 4096 units at the 400 MHz of the later version of arXiv 2505.22404
        ("snax-mx", 500e6, {"mxint8": 64, "mxfp8_e4m3": 256, "mxfp6_e2m3": 256, "mxfp4_e2m1": 512}),
        ("dacapo", 500e6, {"mx9": 256, "mx6": 1024, "mx4": 4096}),
        ("mx-square", 400e6, {"mxint8[8x8]": 3276.8, "mxfp8_e4m3[8x8]": 13107.2, "mxfp4_e2m1[8x8]": 26214.4}),
    ],
)
def test_microscaling_cores_have_their_published_throughput(name: str, clock_hz: float, gops: dict[str, float]) -> None:
    accelerator = load_hardware(name, {"clock_hz": clock_hz})
    for mode, expected in gops.items():
        assert 2 * accelerator.peak_macs_per_s(mode) == expected * 1e9


def test_products_cost_what_the_mode_costs_and_not_what_the_width_does() -> None:
    core = load_hardware("snax-mx").cores[0].core
    eight, four = core.rate("mxint8[8x8]", "mxint8[8x8]"), core.rate("mxfp8_e4m3[8x8]", "mxfp8_e4m3[8x8]")
    assert eight.energy_j > 2 * four.energy_j
    with pytest.raises(HardwareError, match="no rate for mxfp8_e4m3×mxfp8_e5m2; it supports: mxint8×mxint8"):
        core.rate("mxfp8_e4m3", "mxfp8_e5m2")
