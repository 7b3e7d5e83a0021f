"""What leaves the chip: kinds of DRAM and of serial links, with energy, area of the interface and what is always drawn.

Area of a PHY and transistors of its controller, for HBM2E, DDR5, PCIe 4 and NVLink 3: measured on die photographs by
the cost model of LLMCompass (Zhang et al., ISCA 2024), whose 96.3 million transistors per mm² turn the latter into the
area at 7 nm used here. A PHY does not shrink with the node; a controller is logic and does. Both are paid in
proportion to bandwidth, as pins at the rate of their kind.
"""

from __future__ import annotations

from dataclasses import dataclass

from monet.errors import nearest
from monet.hardware.errors import HardwareError
from monet.hardware.technology import Technology

MM2 = 1e-6


@dataclass(frozen=True, slots=True)
class Pads:
    """What one unit of a physical interface takes: mm² of its PHY at any node, and of its controller at 7 nm."""

    phy_mm2: float
    controller_mm2_7: float

    def times(self, units: float) -> Pads:
        """So many units side by side."""
        return Pads(self.phy_mm2 * units, self.controller_mm2_7 * units)

    def controller_m2(self, technology: Technology) -> float:
        """Area of the controller at the node of ``technology``."""
        return self.controller_mm2_7 * MM2 * technology.logic_area_factor / Technology(7.0).logic_area_factor

    def area_m2(self, technology: Technology) -> float:
        """Area of both at the node of ``technology``."""
        return self.phy_mm2 * MM2 + self.controller_m2(technology)


_STACK = Pads(10.45, 552.743 / 96.3)  # 1,024 data pins to a stack beside the chip (HBM2E)
_BOARD = Pads(1.45, 90.4464 / 96.3)  # 32 data pins across a board (DDR5)
# A channel of 16 pins: DDR5's PHY by the pin, and a mobile controller of about half a million gates (estimate: the one
# measured for DDR5 is a server's).
_MOBILE = Pads(1.45 / 2, 2.0 / 96.3)


@dataclass(frozen=True, slots=True)
class DramKind:
    """What is known of a kind of DRAM. ``energy_pj_per_bit`` is (low, used, high): carry the range, not the point.
    ``pads`` are those of one channel."""

    energy_pj_per_bit: tuple[float, float, float]
    static_w_per_gib: float
    latency_s: float
    burst_bytes: int
    channel_bytes_per_s: float
    pads: Pads

    def interface(self, bandwidth_bytes_per_s: float) -> Pads:
        """PHY and controller for a bandwidth."""
        return self.pads.times(bandwidth_bytes_per_s / self.channel_bytes_per_s)


# Energy: mx notes collected from O'Connor MICRO 2017 (HBM2 3.9), Jouppi ISCA 2021 (HBM2 3.9–7, GDDR6 5.5–7.5, DDR 20),
# Micron's product pages (HBM2E 6.0, GDDR6 7.5), Accelergy's CACTI plug-in (LPDDR4 8; 13–14 with background), design
# studies of low confidence (LPDDR5 4–8, HBM3 3–8). Static power: DDR4 from 8 Gb ×8 datasheet currents (IDD3N 44 mA and
# 4.5 % of a 250 mA refresh at 1.2 V = 64 mW per GiB); the others are estimates. Burst and channel rate: JEDEC (burst
# length × width; 3200, 6400, 3200, 4800 MT/s, 16, 2.0, 3.2, 6.4 Gb/s a pin). Latency: idle, controller included
# (estimate). Pads: HBM2E and DDR5 as measured; HBM2 and HBM3 have as many pins as HBM2E; DDR4 (64 pins) and GDDR6 (32)
# take DDR5's by the pin, low confidence.
DRAM_KINDS = {
    "LPDDR4": DramKind((8.0, 8.0, 14.0), 0.020, 120e-9, 32, 6.4e9, _MOBILE),
    "LPDDR5": DramKind((4.0, 5.0, 8.0), 0.020, 120e-9, 32, 12.8e9, _MOBILE),
    "DDR4": DramKind((20.0, 20.0, 40.0), 0.064, 90e-9, 64, 25.6e9, _BOARD.times(2)),
    "DDR5": DramKind((14.0, 20.0, 25.0), 0.060, 90e-9, 64, 38.4e9, _BOARD.times(2)),
    "GDDR6": DramKind((5.5, 7.5, 7.5), 0.200, 150e-9, 32, 64.0e9, _BOARD),
    "HBM2": DramKind((3.9, 3.9, 7.0), 0.250, 120e-9, 32, 256.0e9, _STACK),
    "HBM2E": DramKind((3.9, 6.0, 7.0), 0.250, 120e-9, 32, 409.6e9, _STACK),
    "HBM3": DramKind((3.0, 4.0, 8.0), 0.250, 120e-9, 32, 819.2e9, _STACK),
}


def dram_kind(name: str) -> DramKind:
    """The kind of DRAM called ``name``."""
    try:
        return DRAM_KINDS[name]
    except KeyError:
        raise HardwareError(f"unknown kind of DRAM {name!r}; {nearest(name, DRAM_KINDS)}") from None


@dataclass(frozen=True, slots=True)
class SerialKind:
    """A kind of serial link to other chips, per unit: a lane or a link. Drawn whether used or not, as links stay
    trained. ``energy_pj_per_bit`` is of sender and receiver, of a bit one way."""

    energy_pj_per_bit: float
    unit_bytes_per_s: float  # one way
    pads: Pads

    def interface(self, bandwidth_bytes_per_s: float) -> Pads:
        """PHY and controller for a bandwidth one way."""
        return self.pads.times(bandwidth_bytes_per_s / self.unit_bytes_per_s)

    def power_w(self, bandwidth_bytes_per_s: float) -> float:
        """Power of senders and receivers for a bandwidth each way."""
        return bandwidth_bytes_per_s * 8 * self.energy_pj_per_bit * 1e-12


# Energy: 2 to 5.5 pJ/bit are quoted for serial links of this generation, 5 for NVLink 3; no maker's figure, low
# confidence. Rates: PCI-SIG (16 GT/s a lane), NVIDIA (25 GB/s a link and way). Pads: LLMCompass, as above.
SERIAL_KINDS = {
    "PCIe4": SerialKind(5.0, 2.0e9, Pads(0.48, 3.9625 / 96.3)),
    "NVLink3": SerialKind(5.0, 25.0e9, Pads(1.888, 74.632 / 96.3)),
}


def serial_kind(name: str) -> SerialKind:
    """The kind of serial link called ``name``."""
    try:
        return SERIAL_KINDS[name]
    except KeyError:
        raise HardwareError(f"unknown kind of serial link {name!r}; {nearest(name, SERIAL_KINDS)}") from None
