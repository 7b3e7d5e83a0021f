"""What a checkpoint plan costs through the full schedule, from the overlay: latency, energy, traffic, memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from monet.graph.graph import Graph
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Plan
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.workspace import without_collecting
from monet.schedule.workload import Workload
from monet.search.checkpoint.offload import dram_peak, paged
from monet.search.checkpoint.overlay import Overlay
from monet.search.checkpoint.overlay_fusion import LocalFusion
from monet.search.checkpoint.overlay_memory import activation_peak
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan, saved_tensors


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """One plan through the schedule. ``memory_peak_bytes``: activations at the fullest moment, wherever they lie;
    ``dram_peak_bytes``: everything in DRAM at its own. ``peak_operator`` runs when activations peak."""

    latency_s: float
    energy_j: float
    memory_peak_bytes: int
    dram_bytes: int
    dram_peak_bytes: int
    kept_bytes: int
    peak_operator: str


class ScheduledCost:
    """Costs checkpoint plans of one training step on one accelerator, all under the same base plan."""

    def __init__(self, scheduler: Scheduler, base: Plan) -> None:
        self.scheduler, self.base = scheduler, base
        self.overlay, self.fusion = Overlay(scheduler.workload.graph), LocalFusion()

    @property
    def graph(self) -> Graph:
        """The plain step."""
        return self.overlay.graph

    @cached_property
    def saved_bytes(self) -> dict[str, tuple[int, int]]:
        """Saved storage → its bytes, and its bytes when narrowed."""
        return {saved.storage: (saved.bytes, saved.narrowed_bytes) for saved in saved_tensors(self.graph)}

    def kept_bytes(self, plan: CheckpointPlan) -> int:
        """Bytes that a plan keeps on the device from forward to backward."""
        total = 0
        for name, (size, narrow) in self.saved_bytes.items():
            choice = plan.choices.get(name, "keep")
            total += 0 if choice in ("recompute", "offload") else narrow if choice == "narrow" else size
        extra = (name for name in plan.named("keep") if name not in self.saved_bytes)
        return total + sum(self.graph.tensors[name].bytes for name in extra)

    def check_host(self) -> None:
        """Raise if there is nowhere to page out to."""
        if self.scheduler.machine.accelerator.endpoint("host") is None:
            raise CheckpointError(_no_host(self.scheduler.machine.accelerator.name))

    def schedule_plan(self, workload: Workload) -> Plan:
        """The base plan for a workload with clones: each runs where its original does."""
        placements = self.base.placements
        chosen = {
            operator.op.name: placements[operator.op.name if not operator.op.recompute else original(operator.op.name)]
            for operator in workload.operators
        }
        return replace(self.base, placements=chosen)

    def schedule(self, plan: CheckpointPlan, fused: bool = True) -> tuple[Scheduler, Schedule]:
        """The schedule of a plan; raises ``NoSchedule`` if something does not fit. ``fused``: clones join their
        readers where they may."""
        scheduler = self.scheduler.on(self.overlay.workload(plan))
        chosen = self.schedule_plan(scheduler.workload)
        return scheduler, scheduler.schedule(self.fusion.apply(scheduler, chosen) if fused else chosen)

    def figures(self, plan: CheckpointPlan, fused: bool = True) -> PlanFigures:
        """What a plan costs."""
        with without_collecting():
            return self._measured(plan, *self.schedule(plan, fused))

    def figures_of_plan(self, plan: CheckpointPlan, schedule_plan: Plan) -> PlanFigures:
        """What a checkpoint plan costs under a schedule plan of its own, clones included."""
        scheduler = self.scheduler.on(self.overlay.workload(plan))
        return self._measured(plan, scheduler, scheduler.schedule(schedule_plan))

    def _measured(self, plan: CheckpointPlan, scheduler: Scheduler, schedule: Schedule) -> PlanFigures:
        found, kept = figures_of(scheduler, schedule), self.kept_bytes(plan)
        away = plan.named("offload")
        if not away:
            peak = activation_peak(schedule, scheduler.workload)
            return PlanFigures(
                found.latency_s, found.energy_j, peak.bytes, found.dram_bytes, found.dram_peak_bytes, kept,
                peak.operator,
            )  # fmt: skip
        machine = scheduler.machine
        self.check_host()
        host, dram = machine.accelerator.endpoint("host"), machine.accelerator.dram
        assert host is not None
        names = [other for name in away for other in self.overlay.passes.get(name, (name,))]
        moved = paged(schedule, scheduler.workload, machine, names)
        peak = activation_peak(moved.schedule, scheduler.workload, moved.away)
        latency = moved.schedule.makespan / machine.ticks_per_second
        per_bit = dram.read_energy_j_per_bit + dram.write_energy_j_per_bit + 2 * host.energy_j_per_bit
        static = machine.accelerator.static_power_w * (latency - found.latency_s)
        return PlanFigures(
            latency, found.energy_j + static + 8 * moved.bytes * per_bit, peak.bytes,
            found.dram_bytes + 2 * moved.bytes, dram_peak(moved), kept, peak.operator,
        )  # fmt: skip


def _no_host(name: str) -> str:
    return (
        f"offload: {name} describes no host to page out to; add one to the hardware: "
        "endpoints: {host: {kind: host, bandwidth_bytes_per_s: 4 GB/s, latency_s: 1 us, energy_j_per_bit: 10 pJ}}"
    )


def original(clone: str) -> str:
    """The operator that a clone repeats."""
    return clone[: clone.rindex("/again")]
