"""Power at full use and prices of what connects memories, part by part: figures by hand from widths and joules."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from monet.formats import format_named
from monet.hardware import load_hardware
from monet.hardware.accelerator import Accelerator, Endpoint, Link, Memory
from monet.hardware.core import Flow, Port
from monet.hardware.ports import BOUNDLESS, memory_behind, port_of
from monet.hardware.power import _all_ports_w, arithmetic_w, budget, demand, full_use, full_use_power_w, within_ports
from monet.hardware.technology import Technology

CHIPS = ("edge-tpu", "micro-npu", "fusemax", "simba", "a100", "tpu-v3")


def rows(accelerator: Accelerator) -> dict[str, float]:
    return {row.name: row.watts for row in full_use(accelerator)}


def wire(name: str, *ends: str, **more: bool | str) -> Link:
    """A kilobit a second at a millijoule a bit: a watt for every direction."""
    return Link(name, ends, 1e3, 0.0, 1e-3, 0.0, 1.0, 1e3, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("more", "watts"),
    [({}, 2.0), ({"directed": True}, 1.0), ({"shared_directions": True}, 1.0)],
    ids=["both ways", "one way", "shared"],
)
def test_a_link_draws_for_every_direction_it_has(more: dict[str, bool], watts: float) -> None:
    chip = replace(load_hardware("micro-npu"), links=(wire("a", "one", "other", **more),))
    assert rows(chip)["links"] == pytest.approx(watts)


def test_links_to_dram_carry_together_what_dram_does() -> None:
    chip = load_hardware("micro-npu")
    dram = replace(chip.dram, bandwidth_bits_per_s=1500.0)
    links = (wire("a", "one", dram.name, directed=True), wire("b", "other", dram.name), wire("c", "one", "other"))
    assert rows(replace(chip, dram=dram, links=links))["links"] == pytest.approx(1.5 + 2.0)
    bus = wire("bus", "one", "other", dram.name, shared_directions=True, hub=dram.name)
    assert rows(replace(chip, dram=dram, links=(bus,)))["links"] == pytest.approx(1.0)


def test_a_port_to_the_outside_draws_for_every_bit() -> None:
    chip = load_hardware("micro-npu")
    host = Endpoint("host", "host", 1e3, 0.0, 1e-3, 0, chip.dram.name)
    assert rows(replace(chip, endpoints=(host,)))["host, transfers"] == pytest.approx(8.0)


def test_lanes_read_two_operands_and_write_one() -> None:
    core = next(each.core for each in load_hardware("edge-tpu").cores if each.core.lanes and not each.core.modes)
    rate = max(core.vector_rates, key=lambda rate: rate.elements_per_cycle * rate.energy_j)
    bits = core.lanes * rate.elements_per_cycle * format_named(rate.dtype).bits
    wanted = {("I", Flow.FEED): bits, ("W", Flow.FEED): bits, ("O", Flow.COLLECT): bits}
    found = {(slot, flow): amount for (_, slot, flow), amount in demand(core).items()}
    assert found == {key: value for key, value in wanted.items() if core.levels_of(key[0])}
    assert arithmetic_w(core) == pytest.approx(core.lanes * rate.elements_per_cycle * rate.energy_j * core.clock_hz)


@pytest.mark.parametrize("name", CHIPS)
def test_no_port_moves_more_than_it_can_and_what_fits_is_left_alone(name: str) -> None:
    for core in load_hardware(name).designs.values():
        asked = demand(core)
        kept = within_ports(core, asked)
        load: dict[tuple[str, str], float] = {}
        room: dict[tuple[str, str], float] = {}
        for (level, slot, flow), bits in asked.items():
            port = core.level(level).port_for(slot, flow)
            key = level, port.name
            load[key] = load.get(key, 0.0) + bits
            room[key] = port.bandwidth_bits_per_cycle * core.level(level).instances
        for (level, slot, flow), bits in asked.items():
            key = level, core.level(level).port_for(slot, flow).name
            assert kept[level, slot, flow] == pytest.approx(bits * min(1.0, room[key] / load[key]))


@pytest.mark.parametrize("name", CHIPS)
def test_parts_add_up(name: str) -> None:
    chip = load_hardware(name)
    assert math.fsum(row.area_m2 for row in budget(chip)) == pytest.approx(chip.area_m2, rel=1e-9)
    assert math.fsum(row.static_w for row in budget(chip)) == pytest.approx(chip.static_power_w, rel=1e-9)
    found, dram = rows(chip), chip.dram
    assert full_use_power_w(chip) == pytest.approx(sum(found.values()))
    per_bit = (dram.read_energy_j_per_bit + dram.write_energy_j_per_bit) / 2
    assert found[f"{dram.name}, transfers"] == pytest.approx(8 * dram.bandwidth_bytes_per_s * per_bit)
    assert found["static"] == chip.static_power_w
    busy = sum(watts * sum(core.template == name for core in chip.cores) for name, watts in chip.gated_clock_w)
    assert found["clock of busy cores"] == pytest.approx(busy)


def test_a_port_is_as_wide_as_what_passes_it_in_a_cycle() -> None:
    endpoint = Endpoint("host", "pcie", 16e9, 1e-6, 1e-12, BOUNDLESS, "dram")
    instance = port_of(endpoint, 1e9)
    (level,) = instance.core.levels
    (port,) = level.ports
    assert port.bandwidth_bits_per_cycle == 16 * 8
    assert (level.size_bytes, instance.core.clock_hz, instance.endpoint) == (BOUNDLESS, 1e9, "dram")
    assert memory_behind(endpoint, 1e9).level == level
    assert instance.core.area_m2 == level.area_m2 == level.leakage_w == 0.0


def test_picojoules_that_differ_are_told_apart() -> None:
    """In this folder and that of mappings, see ``conftest.py``."""
    assert pytest.approx(2e-13) != 1e-13
    assert pytest.approx([0.0, 3e-15]) == [0.0, 3e-15]


# --- what connects ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [7.0, 28.0, 45.0])
def test_a_link_pays_for_its_wires_and_for_a_write_and_a_read_at_its_end(node: float) -> None:
    technology = Technology(node)
    wires = technology.link_energy_j_per_bit(3e-3) - technology.link_energy_j_per_bit(1e-3)
    assert wires == pytest.approx(2e-3 * technology.wire_energy_j_per_bit_m)
    buffer = technology.register_file(4, 8)
    assert technology.link_energy_j_per_bit(0.0) == pytest.approx((buffer.read_energy_j + buffer.write_energy_j) / 8)
    if node == 28.0:  # 0.0013 pJ a bit of one word, four words, in and out
        assert technology.link_energy_j_per_bit(0.0) == pytest.approx(2 * 0.0013e-12 * 4**0.455)


def test_banks_pay_for_the_way_to_them() -> None:
    technology = Technology(16)
    bank = technology.sram(64 * 1024, 128)
    whole = technology.banked_sram(32 * 64 * 1024, 512, 32, 128)
    side = math.sqrt(32 * bank.area_m2)
    way = technology.wire_energy_j_per_bit_m * side / 2 * 128
    assert whole.read_energy_j == pytest.approx(4 * (bank.read_energy_j + way))
    assert whole.write_energy_j == pytest.approx(4 * (bank.write_energy_j + way))
    assert whole.area_m2 == pytest.approx(32 * bank.area_m2)
    assert whole.leakage_w == pytest.approx(technology.leakage_w(whole.area_m2))
    assert way > 0.1 * bank.read_energy_j


@pytest.mark.parametrize("name", CHIPS)
def test_arrays_read_the_sums_they_add_to(name: str) -> None:
    for core in load_hardware(name).designs.values():
        if core.modes and not core.lanes:
            lowest, asked = core.levels_of("O")[0].name, demand(core)
            assert asked[lowest, "O", Flow.FEED] == pytest.approx(asked[lowest, "O", Flow.COLLECT])


def test_a_memory_that_reads_and_writes_by_one_port_does_either_half_of_the_time() -> None:
    level = load_hardware("edge-tpu").cores[0].core.levels[-1]
    ports = (Port("a", "read_write", 100, frozenset()), Port("b", "read", 10, frozenset()))
    priced = replace(level, ports=ports, instances=2, access_bits=1, read_energy_j=1e-12, write_energy_j=3e-12)
    memory = Memory("m", priced, (), "here", 1e9)
    read, write = priced.read_energy_j_per_bit, priced.write_energy_j_per_bit
    assert _all_ports_w(memory) == pytest.approx((100 * (read + write) / 2 + 10 * read) * 2 * 1e9)
