"""One design, exactly: what it takes, and what no default plan of the workloads on it is below."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from monet.hardware.accelerator import Accelerator
from monet.hardware.power import full_use_power_w
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.lower_bound.channels import borders, cheapest_link_j_per_byte
from monet.schedule.lower_bound.in_order import in_order_traffic
from monet.schedule.lower_bound.in_turn import in_turn_bound_s
from monet.schedule.lower_bound.occupancy import occupancy_bound_s
from monet.schedule.workload import Workload

IN_TURN = "cores + DRAM"


@dataclass(frozen=True, slots=True)
class LeastStep:
    """Least seconds by what takes them, and least joules, of one step on one design."""

    times: Mapping[str, float]  # cores, ports, DRAM, links; cores and DRAM in turn
    energy_j: float
    static_w: float

    @property
    def latency_s(self) -> float:
        """No default plan is faster."""
        return max(self.times.values())

    @property
    def limit(self) -> str:
        """What takes longest."""
        return max(self.times, key=lambda name: self.times[name])

    def with_time(self, name: str, seconds: float) -> LeastStep:
        """The same with another least time."""
        longer = max(0.0, seconds - self.latency_s)
        return LeastStep({**self.times, name: seconds}, self.energy_j + self.static_w * longer, self.static_w)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A design and its workloads' least steps."""

    accelerator: Accelerator
    area_m2: float
    tdp_w: float
    steps: Mapping[str, LeastStep]


def least_step(workload: Workload, accelerator: Accelerator, *, in_order: bool = True) -> LeastStep:
    """Bounds over the default plans of a workload on a design, but for ``closer`` ones; over all plans if not
    ``in_order``."""
    found = bounds_of(workload, accelerator)
    cores = max(found.compute_s, occupancy_bound_s(workload, accelerator))
    times = {"cores": cores, "ports": found.ports_s, "DRAM": found.dram_s, "links": found.links_s}
    moving_j = 0.0
    if in_order and not any(memory.resident for memory in accelerator.memories):
        traffic, dram = in_order_traffic(workload), accelerator.dram
        kept = sum(memory.size_bytes for memory in accelerator.memories)
        moved = max(float(found.dram_bytes), traffic.over_size(kept))
        times["DRAM"] = moved / dram.bandwidth_bytes_per_s
        for border in borders(accelerator):
            if border.together:
                times["links"] = max(times["links"], 8 * traffic.over_size(border.kept_bytes) / border.together)
        per_byte = 8 * min(dram.read_energy_j_per_bit, dram.write_energy_j_per_bit)
        moving_j = (moved - found.dram_bytes) * (per_byte + cheapest_link_j_per_byte(accelerator))
    standing = max(0.0, max(times.values()) - max(found.compute_s, found.ports_s, found.dram_s, found.links_s))
    static_w = accelerator.static_power_w
    return LeastStep(times, found.energy_j + moving_j + static_w * standing, static_w)


def closer(step: LeastStep, workload: Workload, accelerator: Accelerator) -> LeastStep:
    """Bounds over the default plans with the one that takes longest to find."""
    return step.with_time(IN_TURN, in_turn_bound_s(workload, accelerator))


def bounded(accelerator: Accelerator, workloads: Mapping[str, Workload], *, in_order: bool = True) -> Bounded:
    """A design with the bounds of all workloads, but for ``closer`` ones."""
    steps = {name: least_step(workload, accelerator, in_order=in_order) for name, workload in workloads.items()}
    return Bounded(accelerator, accelerator.area_m2, full_use_power_w(accelerator), steps)


def closely_bounded(design: Bounded, workloads: Mapping[str, Workload]) -> Bounded:
    """A design with all bounds over the default plans of all workloads."""
    steps = {name: closer(design.steps[name], workload, design.accelerator) for name, workload in workloads.items()}
    return replace(design, steps=steps)
