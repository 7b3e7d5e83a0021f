"""What a checkpoint plan costs through the full schedule, from the overlay: latency, energy, traffic, memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from monet.graph.graph import Graph
from monet.graph.op import Op
from monet.hardware.accelerator import Endpoint
from monet.schedule.costs.transfer_cost import endpoint_of
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.workspace import without_collecting
from monet.schedule.workload import Workload
from monet.search.checkpoint.overlay import Overlay
from monet.search.checkpoint.overlay_fusion import LocalFusion
from monet.search.checkpoint.overlay_memory import activation_peak
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan, saved_tensors
from monet.transforms.compact import without_unread
from monet.transforms.offload import ahead_of, trips_of

MARGIN = 1.25  # of the time that a page takes: other pages, and DRAM, may be in its way


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """One plan through the schedule. ``memory_peak_bytes``: activations at the fullest moment, wherever they lie;
    ``dram_peak_bytes``: everything in DRAM at its own, ``host_peak_bytes``: what is paged out. ``peak_operator`` runs
    when activations peak."""

    latency_s: float
    energy_j: float
    memory_peak_bytes: int
    dram_bytes: int
    dram_peak_bytes: int
    kept_bytes: int
    peak_operator: str
    host_peak_bytes: int = 0


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

    def host(self) -> Endpoint:
        """Where to page out to; raises if there is nowhere."""
        host = self.scheduler.machine.accelerator.endpoint("host")
        if host is None:
            raise CheckpointError(_no_host(self.scheduler.machine.accelerator.name))
        return host

    @cached_property
    def _begins(self) -> dict[str, float]:
        """Operator → seconds at which it begins in the plain schedule."""
        scheduler, schedule = self.schedule(CheckpointPlan())
        first = np.full(len(scheduler.workload.operators), schedule.makespan, np.int64)
        np.minimum.at(first, schedule.tiles.operator, schedule.tiles.start)
        rate = scheduler.machine.ticks_per_second
        return {operator.op.name: int(first[operator.number]) / rate for operator in scheduler.workload.operators}

    def settled(self, plan: CheckpointPlan) -> CheckpointPlan:
        """The plan with a time for every page to come back: as late as the host's link allows, by when operators begin
        in the plain schedule. What it says already stays."""
        away = plan.named("offload")
        if not away:
            return plan
        host = self.host()
        graph, begins, latest = self.overlay.workload(without_pages(plan)).graph, list[float](), 0.0
        for op in graph.ops:
            latest = max(latest, self._begins.get(op.name, 0.0))
            begins.append(latest)
        trips = trips_of(without_unread(graph, away), away)
        takes = [MARGIN * (host.latency_s + trip.value.bytes / host.bandwidth_bytes_per_s) for trip in trips]
        return CheckpointPlan(plan.choices, ahead_of(graph, trips, begins, takes) | dict(plan.ahead))

    def schedule_plan(self, workload: Workload) -> Plan:
        """The base plan for a workload with clones and pages: each clone runs where its original does. A page that
        would have to come back in the middle of a group takes it apart."""
        placements, chosen, pages = self.base.placements, dict[str, Placement](), list[Op]()
        for operator in workload.operators:
            name = operator.op.name
            if operator.is_transfer:
                chosen[name] = Placement((endpoint_of(operator, self.scheduler.machine.accelerator).name,))
                pages.append(operator.op)
            else:
                chosen[name] = placements[name if not operator.op.recompute else original(name)]
        groups = without_cut(self.base.groups, workload.graph, pages) if pages else self.base.groups
        return replace(self.base, placements=chosen, groups=groups)

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
        found, peak = figures_of(scheduler, schedule), activation_peak(schedule, scheduler.workload)
        return PlanFigures(
            found.latency_s, found.energy_j, peak.bytes, found.dram_bytes, found.dram_peak_bytes, self.kept_bytes(plan),
            peak.operator, found.host_peak_bytes,
        )  # fmt: skip


def without_pages(plan: CheckpointPlan) -> CheckpointPlan:
    """The plan with what it offloads kept."""
    return CheckpointPlan({name: choice for name, choice in plan.choices.items() if choice != "offload"})


def without_cut(groups: tuple[Group, ...], graph: Graph, pages: Iterable[Op]) -> tuple[Group, ...]:
    """Groups but for those of which some operators come before a page and others wait for it, be it through others."""
    group_of = {name: number for number, group in enumerate(groups) for name in group.operators}
    place = {op.name: index for index, op in enumerate(graph.ops)}
    cut = set[int]()
    for page in pages:
        makers = (graph.producer.get(name) for name in page.inputs)
        for number in {group_of.get(maker.name, -1) for maker in makers if maker is not None} - cut - {-1}:
            last = max(place[name] for name in groups[number].operators)
            waiting, seen = [page], {page.name}
            while waiting and number not in cut:
                for name in waiting.pop().outputs:
                    for reader in graph.consumers[name]:
                        if reader.name in seen or place[reader.name] > last:
                            continue
                        seen.add(reader.name)
                        waiting.append(reader)
                        if group_of.get(reader.name, -1) == number:
                            cut.add(number)
    return tuple(group for number, group in enumerate(groups) if number not in cut)


def _no_host(name: str) -> str:
    return (
        f"offload: {name} describes no host to page out to; add one to the hardware: "
        "endpoints: {host: {kind: host, bandwidth_bytes_per_s: 4 GB/s, latency_s: 1 us, energy_j_per_bit: 10 pJ}}"
    )


def original(clone: str) -> str:
    """The operator that a clone repeats."""
    return clone[: clone.rindex("/again")]
