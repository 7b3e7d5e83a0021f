"""Technology: energy, area and leakage of what a description leaves out, from node, size, width and ports.

Two published tables anchor the arithmetic and the memories: 45 nm (M. Horowitz, ISSCC 2014, figure 1.1.9) and 7 nm
(N. Jouppi et al., ISCA 2021, TPUv4i, table 2). Between them the shape of Stillmaker & Baas (Integration 58, 2017)
decides how far along the way a node is; above 45 nm their factor is applied as it stands. Their full 45 → 7 nm
factor (about 10×) is *not* used: real units improved by 2–4× only, as the 7 nm table shows.

Bandwidth is priced beside capacity: an SRAM by all bits its ports move in a cycle, a register file by the drivers of
its ports, links by width, length and receivers, clocks by area of logic and frequency (``docs/technology.md``). What
leaves the chip is priced in ``interfaces``. Leakage has no good public source per node and is an estimate, marked so.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import astuple, dataclass

from monet.errors import nearest
from monet.formats import FORMATS, format_named
from monet.hardware.errors import HardwareError

PICO, MICRO_SQUARE, NANO = 1e-12, 1e-12, 1e-9  # joules per pJ; square metres per µm²; metres per nm

# Stillmaker & Baas 2017: switching energy at 0.8 V and area, both relative to 45 nm. The two rows below 7 nm are the
# foundry's public claims (TSMC: N5 −30 % power, 1.8× density against N7; N3 −28 % power, 1.6× density against N5),
# low confidence.
ENERGY_BY_NODE = {
    130.0: 3.07, 90.0: 1.90, 65.0: 1.24, 45.0: 1.0, 32.0: 0.66, 20.0: 0.22, 16.0: 0.17, 14.0: 0.14, 10.0: 0.12,
    7.0: 0.094,
}  # fmt: skip
ENERGY_BELOW_7 = {7.0: 1.0, 5.0: 0.70, 3.0: 0.504}
LOGIC_AREA_BY_NODE = {
    130.0: 6.4, 90.0: 2.8, 65.0: 1.5, 45.0: 1.0, 32.0: 0.46, 20.0: 0.21, 16.0: 0.19, 14.0: 0.17, 10.0: 0.10, 7.0: 0.059,
    5.0: 0.0328, 3.0: 0.0205,
}  # fmt: skip

# Area of a high-density 6T bit cell in µm². 130, 90, 65, 45, 32, 22 nm: Intel at IEDM 2000, 2002, 2004, 2007, 2008 and
# VLSI 2012; 28, 16, 10, 7, 5, 3 nm: TSMC at IEDM/ISSCC 2009–2022.
BIT_CELL_UM2 = {
    130.0: 2.0, 90.0: 1.0, 65.0: 0.57, 45.0: 0.346, 32.0: 0.171, 28.0: 0.127, 22.0: 0.092, 16.0: 0.070, 10.0: 0.042,
    7.0: 0.027, 5.0: 0.021, 3.0: 0.0199,
}  # fmt: skip

# Share of leakage in area, W/m². Estimates: low-power processes of edge chips about 1 mW/mm², high-performance ones
# about 30 mW/mm² hot (an idle 826 mm² 7 nm GPU then draws 25 W besides its memory; such boards idle near 50 W).
LEAKAGE_W_PER_M2 = {"low_power": 1e3, "high_performance": 30e3}

MIN_NODE_NM, MAX_NODE_NM = 3.0, 130.0


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """A published unit: pJ of one operation at 45 nm and at 7 nm, µm² at 45 nm."""

    pj_45: float
    pj_7: float
    um2_45: float


# Units by (unit, mode): a mode is the formats that the unit takes. Energy: Horowitz 2014 (45 nm), Jouppi et al. 2021
# (7 nm); area: Horowitz 2014. A unit ``mac`` of mode (first, second, accumulator) may stand here too; one that does not
# is a multiplier, an adder and its registers.
PRICES: dict[tuple[str, tuple[str, ...]], UnitPrice] = {
    ("multiply", ("int8", "int8")): UnitPrice(0.2, 0.07, 282.0),
    ("multiply", ("int32", "int32")): UnitPrice(3.1, 1.48, 3495.0),
    ("multiply", ("fp16", "fp16")): UnitPrice(1.1, 0.34, 1640.0),
    ("multiply", ("fp32", "fp32")): UnitPrice(3.7, 1.31, 7700.0),
    ("add", ("int8",)): UnitPrice(0.03, 0.007, 36.0),
    ("add", ("int32",)): UnitPrice(0.1, 0.03, 137.0),
    ("add", ("fp16",)): UnitPrice(0.4, 0.16, 1360.0),
    ("add", ("fp32",)): UnitPrice(0.9, 0.38, 4184.0),
}
# Modes that are not listed follow the two that are, integers or floats: the power law through them in the product of
# operand bits (multiplications) or the bits (additions). Floats multiply along a line in the product of significands,
# with an offset for the exponents. A format without significand has no published unit to be derived from.
_ANCHORS = {False: ("int8", "int32"), True: ("fp16", "fp32")}

# 64-bit read of an SRAM, pJ. 45 nm: 10, 20, 100 at 8 KiB, 32 KiB, 1 MiB (Horowitz); 7 nm: 7.5, 8.5, 14 (TPUv4i).
# One power law of capacity per node, anchored at 8 KiB; the exponents are least squares on those three points.
_SRAM_8KIB_PJ = (10.3, 7.4)
_SRAM_EXPONENT = (0.475, 0.130)
# Below 8 KiB decoders and bit lines shrink faster: CACTI at 28 nm 128 B and 45 nm 512 B (32-bit) lie 30× and 9× under
# the 8 KiB point.
_SMALL_SRAM_EXPONENT = 0.80
# Row activation and decoding cost as much as this many bits; set so that 64-bit reads (Horowitz) and 512-bit reads
# (CACTI, 28 nm, 8 KiB: 0.035 pJ/bit) lie on one curve.
_SRAM_OVERHEAD_BITS = 400.0
_SRAM_WRITE_OVER_READ = 1.4  # CACTI, 28 nm: 0.049/0.035 at 8 KiB, 0.013/0.009 at 128 B

# Area per byte over that of its bit cells: (1 + k·(1 KiB / size)^g)/density, fitted to the priced SRAMs of the WHAM
# release (22 nm, 1 KB … 128 MB, Accelergy + CACTI).
_SRAM_DENSITY, _SRAM_SMALL_FACTOR, _SRAM_SMALL_EXPONENT = 0.555, 3.1, 0.46
# That is the area of a 64-bit port. Every further bit of a port takes wires across the array: 12 node widths (CACTI at
# 90 nm with four buses, of ZigZag's memory pool: 64 against 128 bit at 1 kB, 1 MB and 10 MB give 11, 12 and 14; runs of
# neighbouring sizes scatter by 3 % of the area, so the two large ones are rough). A wide memory is therefore built of
# slices side by side, which pay as small memories do; the cheapest power of two is taken.
SRAM_REFERENCE_BITS = 64
_SRAM_WIRE_PITCH_NODES = 12.0
# Above the widest published access (2 MiB, 2048 bit, ZigZag) nothing more is amortised: a wider access is several of
# those, and its bits come from further away by half of what the memory's side has grown.
_SRAM_WIDEST_BITS = 2048
_PORT_AREA = 0.3  # an 8T cell (one extra port) takes about 30 % more than a 6T one (Chang et al., VLSI 2005)

# Register files: 0.0013 pJ/bit for one word, growing with words as 0.0119 pJ/bit at 128 words (the 2 B and 128 B
# files of ZigZag's tpu_like and its latches, taken as 28 nm; that tool does not state a node).
_REGISTER_PJ_PER_BIT, _REGISTER_EXPONENT, _REGISTER_NODE = 0.0013, 0.455, 28.0
_REGISTER_UM2_PER_BIT_45 = 6.0  # a flip-flop with its read multiplexer, 45 nm standard cells (estimate)
_PORT_DRIVER_UM2_45 = 1.862  # of each bit of a port: BUF_X4 of the 45 nm NanGate open cell library
REGISTER_LIMIT_BYTES = 1024  # a memory up to this size is a register file unless the description says otherwise

# Wires: 0.3 pJ/bit/mm at 45 nm and 0.1 at 7 nm (constants of a published network-on-chip study).
_WIRE_PJ_PER_BIT_MM = (0.3, 0.1)
# Room of a wire: the semi-global pitch of four node widths that CACTI assumes. Repeaters: one INV_X32 (8.8 µm², NanGate
# 45 nm) a millimetre at 45 nm, closer together in proportion to the node (estimate); they leak, wires do not.
_WIRE_PITCH_NODES = 4.0
_REPEATER_UM2_PER_MM_45 = 8.8
_RECEIVER_WORDS = 4  # what an end of a link can hold

# Clock network and what it drives, per square metre of logic and registers and cycle. Measured on Eyeriss (JSSC 2017,
# 65 nm, 1 V, 200 MHz, 12.25 mm²): 33 to 45 % of the power of AlexNet's layers (332 to 236 mW), about 108 mW in all of
# them, busy or not; 6.1 mm² of that core are SRAM by this model. The same is taken at every node: Stillmaker & Baas's
# energy per area changes by +7 % to 16 nm and +93 % to 7 nm, which would add to the clock of new nodes.
CLOCK_J_PER_M2 = 108e-3 / (6.1e-6 * 200e6)


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """Price of one memory instance: joules per full-width access, square metres, watts."""

    read_energy_j: float
    write_energy_j: float
    area_m2: float
    leakage_w: float


@dataclass(frozen=True, slots=True)
class LinkCost:
    """Price of a link: square metres with its wires, those of clocked logic alone, watts."""

    area_m2: float
    logic_m2: float
    leakage_w: float


def _interpolate(table: dict[float, float], node_nm: float) -> float:
    """Log-log interpolation over nodes; nodes beyond the table take its last slope's end value."""
    nodes = sorted(table)
    if node_nm <= nodes[0]:
        return table[nodes[0]]
    for low, high in itertools.pairwise(nodes):
        if node_nm <= high:
            part = math.log(node_nm / low) / math.log(high / low)
            return float(table[low] * (table[high] / table[low]) ** part)
    return table[nodes[-1]]


def _power_law(first: tuple[float, float], second: tuple[float, float], at: float) -> float:
    """The power law through two points."""
    exponent = math.log(second[1] / first[1]) / math.log(second[0] / first[0])
    return float(first[1] * (at / first[0]) ** exponent)


def _line(first: tuple[float, float], second: tuple[float, float], at: float) -> float:
    """The straight line through two points."""
    return first[1] + (second[1] - first[1]) * (at - first[0]) / (second[0] - first[0])


def is_derivable(name: str) -> bool:
    """Whether energy and area of a unit for this format can be derived; if not, a core must give them."""
    return format_named(name).significand_bits > 0


def unit_price(unit: str, *mode: str) -> UnitPrice:
    """Price of a ``multiply`` or ``add`` unit in a mode: as published, or derived from its published relatives."""
    listed = PRICES.get((unit, mode))
    if listed is not None:
        return listed
    formats = [format_named(name) for name in mode]
    for number_format in formats:
        if not number_format.significand_bits:
            raise HardwareError(f"there is no published unit for {number_format} to derive figures from: give them")
    is_float = any(number_format.is_float for number_format in formats)
    first, second = (
        (FORMATS[name].significand_bits ** len(mode), PRICES[unit, (name,) * len(mode)]) for name in _ANCHORS[is_float]
    )
    along = _line if is_float and unit == "multiply" else _power_law
    at = float(math.prod(number_format.significand_bits for number_format in formats))
    figures = zip(astuple(first[1]), astuple(second[1]), strict=True)
    return UnitPrice(*(along((first[0], low), (second[0], high), at) for low, high in figures))


def _ports_area(ports: int) -> float:
    """Area of an SRAM's cells with these ports, relative to one port."""
    return 1 + _PORT_AREA * max(0, ports - 1)


@dataclass(frozen=True, slots=True)
class Technology:
    """A process: ``node_nm`` and its leakage flavour, ``low_power`` or ``high_performance``."""

    node_nm: float
    process: str = "low_power"

    def __post_init__(self) -> None:
        if not MIN_NODE_NM <= self.node_nm <= MAX_NODE_NM:
            raise HardwareError(f"no data for {self.node_nm} nm; allowed: {MIN_NODE_NM:g} to {MAX_NODE_NM:g} nm")
        if self.process not in LEAKAGE_W_PER_M2:
            raise HardwareError(f"unknown process {self.process!r}; {nearest(self.process, LEAKAGE_W_PER_M2)}")

    # --- scaling ------------------------------------------------------------------------------------------------------

    def _progress(self) -> float:
        """0 at 45 nm (and above), 1 at 7 nm (and below), in between by Stillmaker & Baas's switching energy."""
        node = min(45.0, max(7.0, self.node_nm))
        return math.log(_interpolate(ENERGY_BY_NODE, node)) / math.log(ENERGY_BY_NODE[7.0])

    def _beyond(self) -> float:
        """Energy factor outside 7 … 45 nm."""
        if self.node_nm > 45.0:
            return _interpolate(ENERGY_BY_NODE, self.node_nm)
        return _interpolate(ENERGY_BELOW_7, self.node_nm) if self.node_nm < 7.0 else 1.0

    def _energy(self, at_45: float, at_7: float) -> float:
        """A figure in joules from its two anchors in picojoules."""
        return float(at_45 * (at_7 / at_45) ** self._progress()) * self._beyond() * PICO

    @property
    def logic_area_factor(self) -> float:
        """Area of logic relative to 45 nm."""
        return _interpolate(LOGIC_AREA_BY_NODE, self.node_nm)

    def leakage_w(self, area_m2: float) -> float:
        """Leakage of an area of logic or memory (estimate)."""
        return area_m2 * LEAKAGE_W_PER_M2[self.process]

    # --- arithmetic ---------------------------------------------------------------------------------------------------

    def energy_j(self, unit: str, *mode: str) -> float:
        """Energy of one operation of a unit in a mode: ``multiply`` of two formats, ``add`` of one, ``mac`` of two and
        the accumulator's."""
        if unit == "mac" and (unit, mode) not in PRICES:
            return self.energy_j("multiply", *mode[:2]) + self.energy_j("add", mode[2])
        price = unit_price(unit, *mode)
        return self._energy(price.pj_45, price.pj_7)

    def area_m2(self, unit: str, *mode: str) -> float:
        """Area of a unit that can do a mode; a ``mac`` has one pipeline register for each operand and the sum."""
        if unit == "mac" and (unit, mode) not in PRICES:
            logic = unit_price("multiply", *mode[:2]).um2_45 + unit_price("add", mode[2]).um2_45
            registers = self.register_area_m2(sum(format_named(name).bits for name in mode))
            return logic * self.logic_area_factor * MICRO_SQUARE + registers
        return unit_price(unit, *mode).um2_45 * self.logic_area_factor * MICRO_SQUARE

    # --- memories -----------------------------------------------------------------------------------------------------

    def register_area_m2(self, bits: int) -> float:
        """Area of flip-flops with their read multiplexers."""
        return bits * _REGISTER_UM2_PER_BIT_45 * self.logic_area_factor * MICRO_SQUARE

    def register_file(
        self, size_bytes: int, width_bits: int, ports: int = 2, port_bits: int | None = None
    ) -> MemoryCost:
        """A file of flip-flops or latches read and written ``width_bits`` at a time, by ``ports`` ports that move
        ``port_bits`` a cycle together (absent: ``width_bits`` each)."""
        words = max(1.0, size_bytes * 8 / width_bits)
        scale = self._sram_8kib_j() / Technology(_REGISTER_NODE)._sram_8kib_j()
        energy = _REGISTER_PJ_PER_BIT * PICO * width_bits * words**_REGISTER_EXPONENT * scale
        drivers = (width_bits * ports if port_bits is None else port_bits) * _PORT_DRIVER_UM2_45
        area = self.register_area_m2(size_bytes * 8) * (1 + _PORT_AREA * max(0, ports - 2))
        area += drivers * self.logic_area_factor * MICRO_SQUARE
        return MemoryCost(energy, energy, area, self.leakage_w(area))

    def _sram_8kib_j(self) -> float:
        return self._energy(*_SRAM_8KIB_PJ)

    def sram(self, size_bytes: int, width_bits: int, ports: int = 1, port_bits: int | None = None) -> MemoryCost:
        """An SRAM read and written ``width_bits`` at a time, by ``ports`` ports that move ``port_bits`` a cycle
        together (absent: ``width_bits`` each)."""
        at_45, at_7 = _SRAM_EXPONENT
        exponent = at_45 + (at_7 - at_45) * self._progress() if size_bytes >= 8192 else _SMALL_SRAM_EXPONENT
        row_bits = min(width_bits, _SRAM_WIDEST_BITS)
        width = (row_bits + _SRAM_OVERHEAD_BITS) / (64 + _SRAM_OVERHEAD_BITS) * width_bits / row_bits
        read = self._sram_8kib_j() * (size_bytes / 8192) ** exponent * width * math.sqrt(_ports_area(ports))
        moved = width_bits * ports if port_bits is None else port_bits
        area = self.sram_area_m2(size_bytes, ports, moved)
        usual = self.sram_area_m2(size_bytes, ports, min(moved, ports * _SRAM_WIDEST_BITS))
        further = (math.sqrt(area) - math.sqrt(usual)) / 2 * self.wire_energy_j_per_bit_m * width_bits
        return MemoryCost(read + further, read * _SRAM_WRITE_OVER_READ + further, area, self.leakage_w(area))

    def banked_sram(self, size_bytes: int, width_bits: int, banks: int, bank_bits: int) -> MemoryCost:
        """Single-ported banks behind a crossbar, read and written ``width_bits`` at a time: as many banks as that
        takes, and for every bit a wire over half a side of all banks, which is as far as a bank lies off on average."""
        bank = self.sram(max(1, size_bytes // banks), bank_bits)
        area, words = bank.area_m2 * banks, width_bits / bank_bits
        wires = self.wire_energy_j_per_bit_m * math.sqrt(area) / 2 * bank_bits
        read, write = ((each + wires) * words for each in (bank.read_energy_j, bank.write_energy_j))
        return MemoryCost(read, write, area, self.leakage_w(area))

    def sram_area_m2(self, size_bytes: int, ports: int = 1, port_bits: int = SRAM_REFERENCE_BITS) -> float:
        """Area of an SRAM with its periphery whose ports move ``port_bits`` a cycle together: the smallest over the
        numbers of slices that it can be built of."""
        slices = [1]
        while slices[-1] * ports * SRAM_REFERENCE_BITS < port_bits:  # more would be smaller without being cheaper
            slices.append(2 * slices[-1])
        return min(count * self._slice_m2(size_bytes / count, ports, port_bits / count) for count in slices)

    def _slice_m2(self, size_bytes: float, ports: int, port_bits: float) -> float:
        cells = size_bytes * 8 * _interpolate(BIT_CELL_UM2, self.node_nm) * MICRO_SQUARE
        periphery = 1 + _SRAM_SMALL_FACTOR * (1024 / size_bytes) ** _SRAM_SMALL_EXPONENT
        array = cells * periphery / _SRAM_DENSITY
        further_bits = max(0.0, port_bits - SRAM_REFERENCE_BITS * ports)
        wires = further_bits * _SRAM_WIRE_PITCH_NODES * self.node_nm * NANO * math.sqrt(array)
        return float(array * _ports_area(ports) + wires)

    def memory(self, size_bytes: int, width_bits: int, ports: int, port_bits: int, *, is_register: bool) -> MemoryCost:
        """A register file or an SRAM."""
        return (self.register_file if is_register else self.sram)(size_bytes, width_bits, ports, port_bits)

    # --- wires --------------------------------------------------------------------------------------------------------

    @property
    def wire_energy_j_per_bit_m(self) -> float:
        """Energy of moving a bit one metre over on-chip wires with repeaters."""
        return self._energy(*_WIRE_PJ_PER_BIT_MM) * 1e3

    def link_energy_j_per_bit(self, length_m: float) -> float:
        """Energy of moving a bit over a link: its wires, and one write and read of a four-word buffer at its end."""
        buffer = self.register_file(4, 8)
        return self.wire_energy_j_per_bit_m * length_m + (buffer.read_energy_j + buffer.write_energy_j) / 8

    def link(self, wires: float, length_m: float, receivers: float) -> LinkCost:
        """Area and leakage of parallel ``wires`` of a length, with ``receivers`` bits of ends that receive (a bus of n
        ends has n times its width of them)."""
        metal = wires * length_m * _WIRE_PITCH_NODES * self.node_nm * NANO
        repeaters = wires * length_m * 1e3 * _REPEATER_UM2_PER_MM_45 * (45 / self.node_nm) * self.logic_area_factor
        logic = self.register_area_m2(math.ceil(receivers) * _RECEIVER_WORDS) + repeaters * MICRO_SQUARE
        return LinkCost(metal + logic, logic, self.leakage_w(logic))

    # --- clock --------------------------------------------------------------------------------------------------------

    def clock_w(self, area_m2: float, clock_hz: float) -> float:
        """Power of the clock of an area of logic and registers, busy or not."""
        return area_m2 * clock_hz * CLOCK_J_PER_M2
