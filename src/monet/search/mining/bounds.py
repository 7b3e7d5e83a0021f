"""One design, exactly: what it takes, and what no plan of the workloads on it is below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monet.hardware.accelerator import Accelerator
from monet.hardware.power import full_use_power_w
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.lower_bound.occupancy import occupancy_bound_s
from monet.schedule.workload import Workload


@dataclass(frozen=True, slots=True)
class LeastStep:
    """Least seconds by what takes them, and least joules, of one step on one design."""

    times: Mapping[str, float]  # cores, ports, DRAM, links
    energy_j: float

    @property
    def latency_s(self) -> float:
        """No plan is faster."""
        return max(self.times.values())

    @property
    def limit(self) -> str:
        """What takes longest."""
        return max(self.times, key=lambda name: self.times[name])


@dataclass(frozen=True, slots=True)
class Bounded:
    """A design and its workloads' least steps."""

    accelerator: Accelerator
    area_m2: float
    tdp_w: float
    steps: Mapping[str, LeastStep]


def least_step(workload: Workload, accelerator: Accelerator) -> LeastStep:
    """Bounds over all plans of a workload on a design."""
    found = bounds_of(workload, accelerator)
    cores = max(found.compute_s, occupancy_bound_s(workload, accelerator))
    times = {"cores": cores, "ports": found.ports_s, "DRAM": found.dram_s, "links": found.links_s}
    standing = max(0.0, max(times.values()) - max(found.compute_s, found.ports_s, found.dram_s, found.links_s))
    return LeastStep(times, found.energy_j + accelerator.static_power_w * standing)


def bounded(accelerator: Accelerator, workloads: Mapping[str, Workload]) -> Bounded:
    """A design with the bounds of all workloads."""
    steps = {name: least_step(workload, accelerator) for name, workload in workloads.items()}
    return Bounded(accelerator, accelerator.area_m2, full_use_power_w(accelerator), steps)
