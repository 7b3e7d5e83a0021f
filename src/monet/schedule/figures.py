"""The few figures of a schedule that searches compare, without the tables of a full ``Result``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from monet.schedule import nodes as n
from monet.schedule import residency as r
from monet.schedule.energy import energy_of
from monet.schedule.engine import Schedule, Scheduler

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
    """Figures of a schedule; equal to those of the full ``Result``."""
    nodes, machine = schedule.decided.nodes, scheduler.machine
    energy = energy_of(schedule, machine, len(scheduler.workload.operators))
    traffic = np.isin(nodes[:, n.KIND], (n.READ, n.WRITE, n.EVICT))
    return Figures(
        schedule.timed.makespan / machine.ticks_per_second,
        energy.total,
        int(nodes[traffic, n.BYTES].sum()),
        _dram_peak(schedule),
    )


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
