"""The few figures of a schedule that searches compare, without the tables of a full ``Result``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.schedule.engine import Schedule, Scheduler
from monet.schedule.machine import Machine
from monet.schedule.simulation import nodes as n
from monet.schedule.simulation import residency as r
from monet.schedule.simulation.transfers import transferred

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Figures:
    """What one plan costs. ``dram_peak_bytes`` is everything in DRAM at the fullest moment."""

    latency_s: float
    energy_j: float
    dram_bytes: int
    dram_peak_bytes: int

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
    return Figures(latency, _own_energy(scheduler, schedule) + joules, traffic, _dram_peak(schedule))


def _own_energy(scheduler: Scheduler, schedule: Schedule) -> float:
    """Joules of a schedule but for its transfers."""
    machine = scheduler.machine
    joules = machine.accelerator.static_power_w * schedule.timed.makespan / machine.ticks_per_second
    for one in schedule.expanded.operators:
        spent = one.costed.energy[0]
        if one.sums:
            spent += sum(value for cost in one.sums for _, value in cost.energy_j)
        joules += spent
    return joules


def _transfers(schedule: Schedule, machine: Machine) -> tuple[float, int]:
    """Joules of a schedule's transfers, and bytes between chip and DRAM."""
    accelerator = machine.accelerator
    dram, memories = accelerator.drams[0], [memory.level for memory in accelerator.memories]
    kinds, resources = np.zeros((n.JOIN + 1, 2), np.int64), np.zeros(len(machine.resource_names), np.int64)
    read, written = (np.zeros(len(memories) + 1, np.int64) for _ in range(2))
    transferred(schedule.decided.nodes, schedule.decided.bookings, kinds, resources, read, written)
    bursts, size = kinds.T
    joules = 8 * bursts[n.READ] * dram.read_energy_j_per_bit
    joules += 8 * (bursts[n.WRITE] + bursts[n.EVICT]) * dram.write_energy_j_per_bit
    joules += resources @ machine.link_j_per_byte
    # DRAM is memory 0, paid above
    joules += 8 * read[1:] @ np.array([level.read_energy_j_per_bit for level in memories])
    joules += 8 * written[1:] @ np.array([level.write_energy_j_per_bit for level in memories])
    return float(joules), int(size[n.READ] + size[n.WRITE] + size[n.EVICT])


def _dram_peak(schedule: Schedule) -> int:
    blocks, start, end = schedule.decided.blocks, schedule.timed.start, schedule.timed.end
    rows = blocks[blocks[:, r.DRAM_FROM] != r.NOT_YET]
    came = np.where(rows[:, r.DRAM_FROM] >= 0, start[rows[:, r.DRAM_FROM]], 0)
    went = np.where(rows[:, r.DRAM_TO] >= 0, end[rows[:, r.DRAM_TO]], schedule.timed.makespan)
    time = np.concatenate((came, np.maximum(came, went)))
    size = np.concatenate((rows[:, r.SIZE], -rows[:, r.SIZE]))
    # at one moment what leaves goes before what comes, as in the traces
    order = np.lexsort((size, time))
    return int(np.cumsum(size[order]).max(initial=0))
