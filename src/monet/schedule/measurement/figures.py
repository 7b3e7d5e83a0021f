"""The few figures of a schedule that searches compare, without the tables of a full ``Result``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monet.arrays import I64
from monet.schedule.engine import Scheduler
from monet.schedule.machine import Machine
from monet.schedule.measurement.energy import clock_joules
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.records import FROM_DRAM, TO_DRAM


@dataclass(frozen=True, slots=True)
class Figures:
    """What one plan costs. ``dram_peak_bytes`` is everything in DRAM at the fullest moment, ``host_peak_bytes`` what is
    on hosts, each at its own."""

    latency_s: float
    energy_j: float
    dram_bytes: int
    dram_peak_bytes: int
    host_peak_bytes: int = 0

    @property
    def edp(self) -> float:
        """Energy-delay product, joule seconds."""
        return self.latency_s * self.energy_j

    def objective(self, name: str) -> float:
        """The figure that an objective minimises: latency, energy or edp."""
        return {"latency": self.latency_s, "energy": self.energy_j, "edp": self.edp}[name]


def figures_of(scheduler: Scheduler, schedule: Schedule) -> Figures:
    """Figures of a schedule; those of the full ``Result`` (energy is summed in another order)."""
    machine = scheduler.machine
    latency = schedule.timed.makespan / machine.ticks_per_second
    joules, traffic = _transfers(schedule, machine)
    energy, hosts = _own_energy(scheduler, schedule) + joules, sum(outside_peaks(schedule, machine).values())
    return Figures(latency, energy, traffic, dram_peak_bytes(schedule), hosts)


def _own_energy(scheduler: Scheduler, schedule: Schedule) -> float:
    """Joules of a schedule but for its transfers."""
    machine = scheduler.machine
    joules = machine.accelerator.static_power_w * schedule.timed.makespan / machine.ticks_per_second
    joules += float(clock_joules(schedule, machine).sum())
    for stepped in schedule.expanded.operators:
        spent = stepped.costed.energy[0]
        if stepped.addition_costs:
            spent += sum(value for _, cost in stepped.addition_costs for _, value in cost.energy_j)
        joules += spent
    return joules


def _transfers(schedule: Schedule, machine: Machine) -> tuple[float, int]:
    """Joules of a schedule's transfers, and bytes between chip and DRAM."""
    memories = [memory.level for memory in machine.memories]
    transfers, (read_j, write_j) = schedule.transfer_sums(), machine.dram_j_per_bit
    joules = 8 * transfers.bursts[:, FROM_DRAM] @ read_j
    joules += 8 * transfers.bursts[:, TO_DRAM] @ write_j
    joules += transfers.over_resource @ machine.link_j_per_byte
    # DRAM is memory 0, paid above
    joules += 8 * transfers.read_from[1:] @ np.array([level.read_energy_j_per_bit for level in memories])
    joules += 8 * transfers.written_to[1:] @ np.array([level.write_energy_j_per_bit for level in memories])
    return float(joules), int(transfers.bytes[FROM_DRAM] + transfers.bytes[TO_DRAM])


def dram_peak_bytes(schedule: Schedule) -> int:
    """Most bytes in DRAM at one time, in each of several at its own."""
    return sum(most_at_once(stays.came, stays.went, stays.bytes) for stays in schedule.in_drams())


def outside_peaks(schedule: Schedule, machine: Machine) -> dict[str, int]:
    """Most bytes at one time in every memory outside of the chip that something is in."""
    outside = machine.memories[machine.first_outside - 1 :]
    if not outside:
        return {}
    copies, found = schedule.on_chip, dict[str, int]()
    for number, memory in enumerate(outside, machine.first_outside):
        here = (copies.memory == number) & (copies.block >= 0)
        if here.any():
            found[memory.name] = most_at_once(copies.came[here], copies.went[here], copies.bytes[here])
    return found


def most_at_once(came: I64, went: I64, size: I64) -> int:
    """Most bytes at one time. At one moment what leaves goes before what comes, as in the traces."""
    time, change = np.concatenate((came, np.maximum(came, went))), np.concatenate((size, -size))
    return int(np.cumsum(change[np.lexsort((change, time))]).max(initial=0))
