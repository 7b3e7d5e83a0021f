"""What a description leaves out, worked out by hand: memories, cores, DRAM and links of one small chip."""

from __future__ import annotations

import math

import pytest

from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.hardware.technology import Technology

TEXT = """
name: derived
node_nm: 28
clock_hz: 1 GHz
other_area_m2: 2 mm2
memories:
  shared: {size_bytes: 256 KiB, bandwidth_bits_per_cycle: 128, clock_hz: 500 MHz}
cores:
  array:
    kind: matrix
    clock_hz: 250 MHz
    count: 3
    axes:
      k: {size: 4, multicast: [I], systolic: true}
      c: {size: 8, reduce: true}
    modes:
      turned: {k: {reduce: true}, c: {multicast: [W], dims: [N]}}
    rates: {int8: {products_per_cycle: 4}, int16: {products_per_cycle: 0.5}}
    compute_area_m2: 1 mm2
    memories:
      - {name: rf, operands: [W], per: mac, size_bytes: 16, bandwidth_bits_per_cycle: 8, latency_cycles: 2}
      - {name: row, operands: [I], per: [c], size_bytes: 64, bandwidth_bits_per_cycle: 16, access_bits: 32}
      - {name: buffer, size_bytes: 64 KiB, bandwidth_bits_per_cycle: 256, ports: 2rw, min_access_bits: 64}
  lanes:
    kind: vector
    vector: {lanes: 16, dtypes: {fp32: {}, bf16: {elements_per_cycle: 2, energy_j: 0.5 pJ}}, functions: {exp: 7}}
    memories: [{name: view, memory: shared}]
dram:
  main: {kind: DDR4, capacity_bytes: 4 GiB, channels: 2}
network:
  wide:
    bus: [array, lanes, shared, main]
    hub: main
    bandwidth_bits_per_cycle: 64
    clock_hz: 2 GHz
    latency_cycles: 6
  near: {link: ["array[0]", "array[1]"], bandwidth_bytes_per_s: 4 GB/s, latency_cycles: 3}
"""


@pytest.fixture(scope="module")
def chip() -> Accelerator:
    return resolve(describe_text(TEXT))


def test_memories_are_priced_by_size_width_and_ports(chip: Accelerator) -> None:
    technology, core = Technology(28), chip.designs["array"]
    expected = {
        "rf": (technology.register_file(16, 8, 2), 4 * 8, (), 8, 8),
        "row": (technology.register_file(64, 32, 2, 2 * 16), 8, ("k",), 32, 32),
        "buffer": (technology.sram(64 << 10, 256, 2), 1, ("k", "c"), 256, 64),
    }
    for name, (cost, instances, shared, width, least) in expected.items():
        level = core.level(name)
        assert (level.read_energy_j, level.write_energy_j) == (cost.read_energy_j, cost.write_energy_j), name
        assert (level.area_m2, level.leakage_w) == (cost.area_m2, cost.leakage_w), name
        assert (level.instances, level.shared_along) == (instances, shared), name
        assert (level.access_bits, level.min_access_bits) == (width, least), name
        assert level.read_energy_j_per_bit == pytest.approx(cost.read_energy_j / width)
        assert level.write_energy_j_per_bit == pytest.approx(cost.write_energy_j / width)
    assert [level.latency_cycles for level in core.levels] == [2, 1, 1]
    assert (core.level("rf").total_bytes, core.level("row").total_bytes) == (16 * 32, 64 * 8)


def test_a_given_area_has_its_own_leakage() -> None:
    level = (
        resolve(describe_text(TEXT.replace("ports: 2rw,", "ports: 2rw, area_m2: 3 mm2,"))).designs["array"].levels[2]
    )
    assert level.leakage_w == pytest.approx(3e-6 * 1e3)  # 1 mW per mm² of a low-power process
    given = resolve(describe_text(TEXT.replace("ports: 2rw,", "ports: 2rw, leakage_w: 7 mW,"))).designs["array"]
    assert given.levels[2].leakage_w == pytest.approx(7e-3)


def test_cores_add_up(chip: Accelerator) -> None:
    core = chip.designs["array"]
    memories = sum(level.area_m2 * level.instances for level in core.levels)
    assert core.area_m2 == pytest.approx(1e-6 + memories)
    leaks = sum(level.leakage_w * level.instances for level in core.levels)
    assert core.leakage_w == pytest.approx(1e-6 * 1e3 + leaks)
    assert chip.designs["lanes"].area_m2 == chip.designs["lanes"].compute_area_m2  # its memory is shared
    assert (core.clock_hz, chip.designs["lanes"].clock_hz) == (250e6, 1e9)
    assert [one.name for one in chip.cores] == ["array[0]", "array[1]", "array[2]", "lanes"]
    shared = next(one for one in chip.memories if one.name == "shared")
    assert (shared.clock_hz, shared.cores) == (500e6, ("lanes",))
    whole = 3 * core.area_m2 + chip.designs["lanes"].area_m2 + shared.level.area_m2 + 2e-6
    whole += chip.interfaces[0].area_m2
    assert chip.area_m2 == pytest.approx(whole + sum(link.area_m2 for link in chip.links))
    assert chip.other_leakage_w == pytest.approx(2e-6 * 1e3)


def test_rates_in_products_or_cycles(chip: Accelerator) -> None:
    core, lanes = chip.designs["array"], chip.designs["lanes"]
    fast, slow = core.rate("int8", "int8"), core.rate("int16", "int16")
    assert (fast.products_per_step, fast.cycles_per_step, fast.products_per_cycle) == (4, 1, 4)
    assert (slow.products_per_step, slow.cycles_per_step, slow.products_per_cycle) == (1, 2, 0.5)
    assert core.peak_macs_per_s(fast) == pytest.approx(4 * 8 * 4 * 250e6)
    assert core.peak_macs_per_s(slow) == pytest.approx(4 * 8 * 250e6 / 2)
    assert lanes.lane_rate("bf16").elements_per_cycle == 2
    assert lanes.lane_rate("bf16").energy_j == pytest.approx(0.5e-12)
    assert lanes.lane_rate("fp32").energy_j == Technology(28).energy_j("mac", "fp32", "fp32", "fp32")
    assert (lanes.function_cycles("exp"), lanes.function_cycles("add")) == (7, 1)


def test_modes_change_all_wires_of_the_axes_they_name(chip: Accelerator) -> None:
    default, turned = chip.designs["array"].modes
    wires = [(axis.size, set(axis.multicast), axis.reduce, axis.dims, axis.systolic) for axis in default.axes]
    assert wires == [(4, {"I"}, False, None, True), (8, set(), True, None, False)]
    wires = [(axis.size, set(axis.multicast), axis.reduce, axis.dims, axis.systolic) for axis in turned.axes]
    assert wires == [(4, set(), True, None, True), (8, {"W"}, False, ("N",), False)]


def test_dram_by_kind_and_by_what_is_given(chip: Accelerator) -> None:
    main = chip.dram
    given = (
        "{kind: LPDDR4, capacity_bytes: 1 GiB, bandwidth_bits_per_cycle: 32, static_power_w: 5 mW, burst_bytes: 128}"
    )
    side = resolve(describe_text(TEXT.replace("{kind: DDR4, capacity_bytes: 4 GiB, channels: 2}", given))).dram
    assert main.bandwidth_bits_per_s == pytest.approx(2 * 25.6e9 * 8)
    assert main.static_power_w == pytest.approx(4 * 0.064)
    assert (main.burst_bytes, main.latency_s) == (64, 90e-9)
    assert main.read_energy_j_per_bit == main.write_energy_j_per_bit == pytest.approx(20e-12)
    assert side.bandwidth_bits_per_s == pytest.approx(32 * 1e9)
    assert (side.static_power_w, side.burst_bytes) == (5e-3, 128)


def test_links_by_their_own_clock_and_length(chip: Accelerator) -> None:
    links, technology = {link.name: link for link in chip.links}, Technology(28)
    bus, near = links["wide"], next(link for name, link in links.items() if name.startswith("near"))
    assert bus.bandwidth_bits_per_s == pytest.approx(64 * 2e9)
    assert bus.latency_s == pytest.approx(6 / 2e9)
    assert bus.width_bits_per_cycle == pytest.approx(64)
    assert near.bandwidth_bits_per_s == pytest.approx(32e9)
    assert near.latency_s == pytest.approx(3 / 1e9)
    assert near.width_bits_per_cycle == pytest.approx(32)
    pitch, side = math.sqrt(chip.designs["array"].area_m2), math.sqrt(sum(one.core.area_m2 for one in chip.cores))
    assert near.energy_j_per_bit == pytest.approx(technology.link_energy_j_per_bit(pitch))
    assert bus.energy_j_per_bit == pytest.approx(technology.link_energy_j_per_bit(side))
    over_bus, over_link = (
        technology.link(64, side, 5 * 64),
        technology.link(2 * 32, pitch, 2 * 32),
    )  # lanes hang at shared
    assert (bus.area_m2, bus.leakage_w) == pytest.approx((over_bus.area_m2, over_bus.leakage_w))
    assert (near.area_m2, near.leakage_w) == pytest.approx((over_link.area_m2, over_link.leakage_w))
    assert (bus.shared_directions, near.shared_directions) == (True, False)


# --- the technology itself --------------------------------------------------------------------------------------------


def test_nodes_between_two_known_ones_lie_on_a_power_law() -> None:
    """Halfway on a logarithmic scale, a figure is the geometric mean of its neighbours."""
    for low, high, between in ((32.0, 45.0, "logic_area_factor"), (10.0, 14.0, "logic_area_factor")):
        middle = Technology(math.sqrt(low * high))
        ends = [getattr(Technology(node), between) for node in (low, high)]
        assert getattr(middle, between) == pytest.approx(math.sqrt(ends[0] * ends[1]))
    energies = [Technology(node).energy_j("mac", "int8", "int8", "int32") for node in (65.0, math.sqrt(65 * 90), 90.0)]
    assert energies[1] == pytest.approx(math.sqrt(energies[0] * energies[2]))


def test_every_port_beyond_the_usual_takes_its_share() -> None:
    """A register file has two ports, an SRAM one; each further one takes 30 % of the area."""
    technology = Technology(28)
    files = [technology.register_file(256, 32, ports, 0).area_m2 for ports in (1, 2, 3, 4)]
    assert [one / files[0] for one in files] == pytest.approx([1.0, 1.0, 1.3, 1.6])
    arrays = [technology.sram(1 << 16, 64, ports) for ports in (1, 2, 3)]
    assert [one.area_m2 / arrays[0].area_m2 for one in arrays] == pytest.approx([1.0, 1.3, 1.6])
    assert [one.read_energy_j / arrays[0].read_energy_j for one in arrays] == pytest.approx(
        [1.0, math.sqrt(1.3), math.sqrt(1.6)]
    )
    assert all(one.write_energy_j == pytest.approx(1.4 * one.read_energy_j) for one in arrays)


def test_links_are_wires_and_buffers() -> None:
    technology = Technology(45)
    buffer = technology.register_file(4, 8)
    per_bit = (buffer.read_energy_j + buffer.write_energy_j) / 8
    assert technology.link_energy_j_per_bit(2e-3) == pytest.approx(2 * 0.3e-12 + per_bit)
    link = technology.link(32, 3e-3, 64)
    receivers, wires = technology.register_area_m2(64 * 4), 32 * 3e-3 * 4 * 45e-9
    assert link.logic_m2 == pytest.approx(receivers + 32 * 3 * 8.8e-12)  # a repeater a millimetre
    assert link.area_m2 == pytest.approx(link.logic_m2 + wires)
    assert link.leakage_w == pytest.approx(link.logic_m2 * 1e3)
