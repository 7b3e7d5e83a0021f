"""Bandwidth has a price: whatever moves more bits a cycle takes area and static power, and draws more at full use."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import monet
from monet.hardware.interfaces import DRAM_KINDS, SERIAL_KINDS
from monet.hardware.loading import describe_text, load_description, preset_names
from monet.hardware.power import budget, full_use, full_use_power_w
from monet.hardware.resolve import resolve
from monet.hardware.technology import Technology
from monet.search.hardware.exploration import explore
from tests.search.spaces import small_space

DOUBLING = {
    "cores.pe.memories.sram.bandwidth_bits_per_cycle": [256 << power for power in range(10)],
    "dram.dram.bandwidth_bits_per_cycle": [64 << power for power in range(7)],
    "network.bus.bandwidth_bits_per_cycle": [128 << power for power in range(7)],
    "network.noc.bandwidth_bits_per_cycle": [32 << power for power in range(7)],
    "cores.pe.memories.sums.bandwidth_bits_per_cycle": [32, 64, 128],
}


@pytest.mark.parametrize("path", DOUBLING)
def test_bandwidth_is_not_free(path: str) -> None:
    """The audit's chip: SRAM from 256 to 131,072 bit a cycle and DRAM × 64 were 106.645 mm² throughout."""
    chips = [resolve(load_description("edge-tpu", {path: width})) for width in DOUBLING[path]]
    for narrow, wide in itertools.pairwise(chips):
        assert wide.area_m2 > narrow.area_m2
        assert wide.static_power_w > narrow.static_power_w
        assert full_use_power_w(wide) > full_use_power_w(narrow)
        assert {wide.clock_hz, wide.on_chip_bytes} == {narrow.clock_hz, narrow.on_chip_bytes}


@given(st.integers(4, 27), st.integers(1, 4), st.integers(0, 17), st.sampled_from([7.0, 22.0, 65.0]))
def test_a_wider_memory_is_never_smaller(power: int, ports: int, width: int, node: float) -> None:
    technology, bits = Technology(node), (64 * ports) << width
    area = technology.sram_area_m2(1 << power, ports, bits)
    assert technology.sram_area_m2(1 << power, ports, bits + bits // 4) >= area
    assert technology.sram_area_m2(1 << power, ports, 2 * bits) > area
    assert technology.sram_area_m2(1 << power, ports, bits // 2) <= area


def test_only_accesses_wider_than_any_published_one_cost_more_a_bit_than_before() -> None:
    """Up to 2,048 bit an access costs (bits + 400) / 464 of one of 64 bit; beyond, nothing more is amortised."""
    technology = Technology(28)
    narrow = technology.sram(2 << 20, 64).read_energy_j
    for width in (128, 512, 2048):
        assert technology.sram(2 << 20, width).read_energy_j == pytest.approx(narrow * (width + 400) / 464)
    usual = technology.sram(2 << 20, 2048).read_energy_j / 2048
    per_bit = [technology.sram(2 << 20, width).read_energy_j / width for width in (4096, 8192, 131072)]
    assert usual < per_bit[0] < per_bit[1] < per_bit[2]


def test_ports_of_a_register_file_have_drivers() -> None:
    technology = Technology(45)
    narrow, wide = (technology.register_file(256, 32, 2, bits).area_m2 for bits in (64, 192))
    assert wide - narrow == pytest.approx(128 * 1.862e-12)


def test_an_interface_is_a_phy_that_does_not_shrink_and_a_controller_that_does() -> None:
    """Five stacks of HBM2E as on an A100 die photograph (LLMCompass): 10.45 mm² of PHY each."""
    five = DRAM_KINDS["HBM2E"].interface(5 * 409.6e9)
    assert five.phy_mm2 == pytest.approx(52.25)
    assert five.area_m2(Technology(7)) * 1e6 == pytest.approx(52.25 + 5 * 552.743 / 96.3)
    assert five.area_m2(Technology(16)) - 52.25e-6 == pytest.approx(5 * 552.743e-6 / 96.3 * 0.19 / 0.059)
    assert SERIAL_KINDS["NVLink3"].power_w(300e9) == pytest.approx(12.0)  # 5 pJ a bit


@pytest.mark.parametrize("name", preset_names())
def test_parts_add_up(name: str) -> None:
    chip = resolve(load_description(name))
    rows = budget(chip)
    assert math.fsum(row.area_m2 for row in rows) == pytest.approx(chip.area_m2)
    assert math.fsum(row.static_w for row in rows) == pytest.approx(chip.static_power_w)
    assert full_use_power_w(chip) >= chip.static_power_w


TEXT = """
name: by-hand
node_nm: 28
clock_hz: 1 GHz
clock_power_w: 3
cores:
  array:
    kind: matrix
    axes:
      k: {size: 4, multicast: [I]}
      c: {size: 8, reduce: true}
    rates: {int8: {energy_j: 1 pJ, accumulator: int32}, int16: {products_per_cycle: 0.25, energy_j: 3 pJ}}
    compute_area_m2: 1 mm2
    memories:
      - {name: weights, operands: [W], per: mac, size_bytes: 1, bandwidth_bits_per_cycle: 8, read_energy_j: 1 pJ,
         write_energy_j: 2 pJ}
      - {name: sums, operands: [O], per: [k], size_bytes: 4, ports: 2r2w, bandwidth_bits_per_cycle: 32,
         read_energy_j: 4 pJ, write_energy_j: 8 pJ}
      - {name: buffer, size_bytes: 64 KiB, bandwidth_bits_per_cycle: 128, read_energy_j: 128 pJ, write_energy_j: 256 pJ}
dram:
  main: {kind: custom, capacity_bytes: 1 GiB, bandwidth_bytes_per_s: 1 GB/s, latency_s: 0, burst_bytes: 8,
         read_energy_j_per_bit: 10 pJ/bit, write_energy_j_per_bit: 30 pJ/bit, static_power_w: 0.5}
network:
  link: {link: [array, main], bandwidth_bits_per_cycle: 64, energy_j_per_bit: 5 pJ/bit}
"""


def test_full_use_by_hand() -> None:
    chip = resolve(describe_text(TEXT))
    watts = {row.name: row.watts for row in full_use(chip)}
    assert watts["1 × array, arithmetic"] == pytest.approx(32 * 1e-12 * 1e9)  # int8: 32 pJ; int16 would be 24
    # a cycle: 32 weights read (1 pJ) and, as the buffer's read port allows, some written (2 pJ); 4 sums read, written
    # and drained (4, 8, 4 pJ), which the buffer's write port just takes (128 bit, 256 pJ). The buffer is asked for
    # 64 bit of inputs and 128 of weights, of which 128 pass: 128 pJ, two thirds of them weights.
    drained = 4 * 32
    weights = 32 * 1e-12 + 128 / 8 * 2e-12  # the level's fill is not slowed by the other flow of the port above
    sums = 4 * (4e-12 + 8e-12 + 4e-12)
    buffer = 128e-12 + drained / 128 * 256e-12
    assert watts["1 × array, memories"] == pytest.approx((weights + sums + buffer) * 1e9)
    assert watts["links"] == pytest.approx(1e9 * 8 * 5e-12)  # as much as DRAM gives
    assert watts["main, transfers"] == pytest.approx(1e9 * 8 * 20e-12)
    assert watts["static"] == pytest.approx(chip.static_power_w)
    assert chip.static_power_w > 3.5


def test_cores_that_wait_are_clocked_in_high_performance_processes_only() -> None:
    low = monet.Request("mlp-robot", "edge-tpu").evaluate()
    chip = monet.load_hardware("edge-tpu")
    watts = dict(chip.gated_clock_w)
    expected = math.fsum(watts[row.template] * row.busy_s for row in low.cores)
    assert low.energy_breakdown.by_level["clock"] == pytest.approx(expected)
    assert low.energy_breakdown.static == pytest.approx(chip.static_power_w * low.latency_s)
    gated, ungated = (resolve(load_description("edge-tpu", {"clock_gating": gating})) for gating in (True, False))
    always = math.fsum(watts[core.template] for core in chip.cores)
    assert gated.static_power_w == chip.static_power_w
    assert ungated.static_power_w == pytest.approx(chip.static_power_w + always)
    assert not monet.load_hardware("a100").gated_clock_w


def test_exploration_does_not_buy_bandwidth_that_it_does_not_need(tmp_path: Path) -> None:
    """A chain of small layers waits for DRAM only: a wider SRAM is never on the front, a faster DRAM is."""
    space = small_space(
        parameters={
            "sram": {"sets": "cores.pe.memories.sram.bandwidth_bits_per_cycle", "values": [2048, 131072]},
            "dram": {"sets": "dram.dram.bandwidth_bits_per_cycle", "values": [16, 64]},
        },
        set={"cores.pe.mesh.x": 1, "cores.pe.mesh.y": 1},
        workloads={"inference": {"model": "mlp-robot", "mode": "inference", "batch": 2}},
        objectives=["latency", "area"],
    )
    found = explore(space, str(tmp_path / "store"))
    assert all(record.ok for record in found.records)
    front = {(record.values["sram"], record.values["dram"]) for record in found.front()}
    assert front == {(2048, 16), (2048, 64)}
