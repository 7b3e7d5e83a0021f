"""Energy and area per access and per operation against published points."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from monet.hardware import load_hardware
from monet.hardware.interfaces import DRAM_KINDS, SERIAL_KINDS
from monet.hardware.power import full_use_power_w
from monet.hardware.technology import Technology
from monet.validation.figure import Figure

TOPIC = "technology"
JOUPPI = "Jouppi et al., Ten Lessons, ISCA 2021, table 2 (7 nm)"
HOROWITZ = "Horowitz, ISSCC 2014 (45 nm)"
WHAM = "WHAM (arXiv 2404.14632) release: priced memories, 22 nm"
ZIGZAG = "ZigZag tpu_like (node taken as 28 nm)"
CACTI = "CACTI, 28 nm"

# node in nm, element types of the inputs and of the sum, pJ
MAC_ENERGY = (
    (7, "int8", "int32", 0.10, JOUPPI),
    (7, "bf16", "fp32", 0.59, JOUPPI),
    (7, "fp32", "fp32", 1.69, JOUPPI),
    (45, "int8", "int32", 0.3, HOROWITZ),
    (45, "fp16", "fp32", 2.0, HOROWITZ),
    (45, "fp32", "fp32", 4.6, HOROWITZ),
)
# node in nm, KiB, pJ of a 64-bit read
SRAM_READ = (
    (45, 8, 10, HOROWITZ),
    (45, 32, 20, HOROWITZ),
    (45, 1024, 100, HOROWITZ),
    (7, 8, 7.5, JOUPPI),
    (7, 32, 8.5, JOUPPI),
    (7, 1024, 14, JOUPPI),
)
# bytes, width in bit, read and write pJ, tolerance of each
WIDE_SRAM = (
    (8192, 512, 0.035 * 512, 0.049 * 512, 0.05, 0.05, CACTI),
    (2 << 20, 2048, 416.16, 378.4, 0.10, 0.45, ZIGZAG),
    (32 << 10, 512, 22.9, 52.01, 0.35, 0.20, "ZigZag meta_prototype (node taken as 28 nm)"),
)
# CACTI at 45 nm, 512 B, 32 bit: the read and our worst write, 37 % low
SMALL_SRAM = (0.033 * 32, 0.073 * 32, 0.40)
# KiB, µm²
SRAM_AREA = ((4, 12_611), (64, 116_470), (1024, 1_648_386), (16_384, 23.75e6), (131_072, 175.42e6))
# preset, element type, published operations per second
PEAKS = (
    ("a100", "bf16", 312e12, "NVIDIA A100 data sheet"),
    ("a100", "fp32", 19.5e12, "NVIDIA A100 data sheet"),
    ("tpu-v3", "bf16", 123e12, "Jouppi et al., CACM 2020"),
    ("depfin", "int8", 3.8e12, "Goetschalckx et al., VLSI 2021"),
    ("eyeriss", "int16", 67.2e9, "Chen et al., JSSC 2017"),
)
# Chips that are no preset, idle: name, node, mm², SRAM in MiB, clock, GiB and kind of DRAM, serial bytes per second one
# way, published W. Leakage of the die, clock of what is not SRAM, DRAM, serial links.
IDLE = (
    ("TPU v1", 28, 331, 28, 700e6, 8, "DDR4", 0.0, 28, "Jouppi et al., ISCA 2017, table 2"),
    ("TPU v4", 7, 600, 160, 1050e6, 32, "HBM2", 300e9, 90, "Jouppi et al., ISCA 2023"),
)
IDLE_NOTE = "tolerance set after a rough sum by hand; DDR3 of TPU v1 taken as DDR4"
# preset, at full use or idle, published W, tolerance (set with our value in view), why we are off
WATTS = (
    ("a100", "full use", 400, 0.42, "NVIDIA A100 data sheet",
     "theirs is a limit that the chip is throttled to; ours has every unit, register, L2 and HBM busy at once"),
    ("tpu-v3", "full use", 262, 0.15, "Cloud TPU documentation, v3 (measured maximum)", ""),
    ("tpu-v3", "idle", 123, 0.40, "Jouppi et al., ISCA 2023; Cloud TPU documentation, v3",
     "missing: hot leakage of a water-cooled 16 nm die, regulators, PHYs that stay trained"),
)  # fmt: skip
EYERISS = "Chen et al., JSSC 2017: AlexNet, the chip without DRAM"
EYERISS_NOTE = "the clock, a third of it, was measured on this chip; tolerance set with our value in view"


def _idle(node: float, mm2: float, mib: int, clock: float, gib: float, dram: str, serial: float) -> float:
    technology, area = Technology(node, "high_performance"), mm2 * 1e-6
    clocked = area - technology.sram_area_m2(mib << 20)
    standing = DRAM_KINDS[dram].static_w_per_gib * gib + SERIAL_KINDS["NVLink3"].power_w(serial)
    return technology.leakage_w(area) + technology.clock_w(clocked, clock) + standing


def _watts(preset: str, state: str) -> float:
    chip = load_hardware(preset)
    return full_use_power_w(chip) if state == "full use" else chip.static_power_w


def _eyeriss() -> float:
    chip = load_hardware("eyeriss")
    dram = chip.dram.bandwidth_bits_per_s * chip.dram.read_energy_j_per_bit + chip.dram.static_power_w
    return (full_use_power_w(chip) - dram) * 1e3


def _mac(node: float, inputs: str, total: str) -> float:
    return Technology(node).energy_j("mac", inputs, inputs, total) * 1e12


def _read(node: float, size: int, width: int) -> float:
    return Technology(node).sram(size, width).read_energy_j * 1e12


def _write(node: float, size: int, width: int) -> float:
    return Technology(node).sram(size, width).write_energy_j * 1e12


def _area(size: int) -> float:
    return Technology(22).sram_area_m2(size) * 1e12


def _mac_area(node: float, inputs: str) -> float:
    return Technology(node).area_m2("mac", inputs, inputs, "int32") * 1e12


def _peak(preset: str, dtype: str) -> float:
    return 2 * load_hardware(preset).peak_macs_per_s(dtype) / 1e12


def figures() -> Iterator[Figure]:
    """Every row of this topic."""
    for node, inputs, total, energy, source in MAC_ENERGY:
        name = f"{inputs} multiply-accumulate into {total}, {node} nm"
        yield Figure(TOPIC, name, "pJ", energy, 0.02, source, partial(_mac, node, inputs, total))
    for node, kib, energy, source in SRAM_READ:
        name = f"64-bit read of {kib} KiB, {node} nm"
        yield Figure(TOPIC, name, "pJ", energy, 0.05, source, partial(_read, node, kib * 1024, 64))
    for size, width, read, write, read_tolerance, write_tolerance, source in WIDE_SRAM:
        name = f"of {size // 1024} KiB, {width} bit, 28 nm"
        yield Figure(TOPIC, f"read {name}", "pJ", read, read_tolerance, source, partial(_read, 28, size, width))
        yield Figure(TOPIC, f"write {name}", "pJ", write, write_tolerance, source, partial(_write, 28, size, width))
    for kib, area in SRAM_AREA:
        name = f"area of {kib:,} KiB SRAM, 22 nm"
        yield Figure(TOPIC, name, "µm²", area, 0.15, WHAM, partial(_area, int(kib * 1024)))
    read, write, tolerance = SMALL_SRAM
    name = "of 512 B, 32 bit, 45 nm"
    yield Figure(TOPIC, f"read {name}", "pJ", read, tolerance, "CACTI, 45 nm", partial(_read, 45, 512, 32))
    yield Figure(TOPIC, f"write {name}", "pJ", write, tolerance, "CACTI, 45 nm", partial(_write, 45, 512, 32))
    yield Figure(TOPIC, "area of an int8 MAC, 16 nm", "µm²", 144, 0.10, "OpenGeMM", partial(_mac_area, 16, "int8"))
    # our worst row: theirs is a tool's figure with the unit's registers, ours the bare unit
    mac = partial(_mac_area, 22, "int16")
    yield Figure(TOPIC, "area of a 16-bit MAC with registers, 22 nm", "µm²", 759.8, 0.52, WHAM, mac)
    for preset, dtype, peak, source in PEAKS:
        name, ours = f"peak of {preset}, {dtype}", partial(_peak, preset, dtype)
        yield Figure(TOPIC, name, "Top/s", peak / 1e12, 0.01, source, ours)
    for chip, node, mm2, mib, clock, gib, dram, serial, watts, source in IDLE:
        ours = partial(_idle, node, mm2, mib, clock, gib, dram, serial)
        yield Figure(TOPIC, f"power of {chip}, idle", "W", watts, 0.25, source, ours, note=IDLE_NOTE)
    for preset, state, watts, tolerance, source, note in WATTS:
        name = f"power of {preset}, {state}"
        yield Figure(TOPIC, name, "W", watts, tolerance, source, partial(_watts, preset, state), note=note)
    yield Figure(TOPIC, "power of eyeriss, full use", "mW", 278, 0.25, EYERISS, _eyeriss, note=EYERISS_NOTE)
