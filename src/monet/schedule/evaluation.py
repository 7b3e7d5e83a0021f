"""``evaluate``: a training step (or a forward graph) on an accelerator under a plan → a ``Result``."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.hardware.accelerator import Accelerator
from monet.hardware.hierarchy import unused
from monet.hardware.interleaving import place_lines
from monet.hardware.summary import hardware_summary
from monet.mapping.cost_store import CostStore
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.machine import Machine
from monet.schedule.measurement.copies import narrow_copies, wide_products
from monet.schedule.measurement.energy import energy_of
from monet.schedule.measurement.measure import Measures
from monet.schedule.measurement.occupancy import traces
from monet.schedule.plan import Plan, PlanError
from monet.schedule.planning.grouping import check_connected
from monet.schedule.result import Result
from monet.schedule.result_rows import Infeasible, MemoryPeak, MemoryTrace, Timeline
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.workspace import without_collecting
from monet.sources import source_digest

MOST_TRIES = 6  # to place storages in several DRAMs so that none is too full


def model_version() -> str:
    """Version of everything a result depends on besides its inputs."""
    version = import_module("monet").__version__  # the public API is above this stage
    return f"{version}+{source_digest()}"


def select_phases(graph: Graph, phases: Iterable[str]) -> Graph:
    """Only the operators of some phases; what they read from others is taken to be in DRAM."""
    from monet.errors import OptionError, nearest

    known, wanted = [phase.value for phase in Phase], tuple(phases)
    for name in wanted:
        if name not in known:
            raise OptionError("phases", name, nearest(name, known))
    ops = tuple(op for op in graph.ops if op.phase.value in wanted)
    if not ops:
        raise PlanError(f"the graph has no operators in {', '.join(sorted(wanted))}")
    return replace(graph, ops=ops).made_by(graph.recipe.selected(wanted) if graph.recipe else None)


def evaluate(
    graph: Graph,
    accelerator: Accelerator,
    plan: Plan | Mapping[str, Any] | None = None,
    *,
    fusion: str = "auto",
    boundary: str = "",
    allocation: Mapping[str, Any] | None = None,
    phases: Iterable[str] = (),
    inputs: Mapping[str, Any] | None = None,
    scheduler: Scheduler | None = None,
    objective: str = "latency",
    store: CostStore | None = None,
) -> Result:
    """Cost ``graph`` on ``accelerator``. What cannot run gives an infeasible result.

    ``plan`` may be plain values, as saved. Without one, ``fusion`` (auto or none) and ``boundary`` (keep or dram) say
    how the default plan is made. ``allocation`` places operators on cores: name → core, or cores and split. ``inputs``
    is kept in the result as it is, for ``rerun``. A ``scheduler`` of the same graph and accelerator saves analysing
    them again; a ``store`` keeps costs apart from those of the rest of this process.
    """
    from monet.schedule.planning.default_plan import default_schedule

    began = time.perf_counter()
    if phases:
        graph = select_phases(graph, phases)
    scheduler = scheduler or Scheduler(graph, accelerator, objective, store)
    if isinstance(plan, Mapping):
        plan = Plan.from_dict(plan)
        check_connected(scheduler.workload, plan)
    placed = Plan.from_dict({"allocation": allocation}).placements if allocation else {}
    if plan is not None:
        plan = replace(plan, placements={**plan.placements, **placed})
    for _ in range(MOST_TRIES):
        with without_collecting():
            try:
                if plan is None:
                    schedule = default_schedule(scheduler, fusion, boundary, dict(placed), to_measure=True)
                else:
                    schedule = scheduler.measured(plan)
            except NoSchedule as error:
                tried, seconds = plan or Plan(boundary=boundary or "keep"), time.perf_counter() - began
                return without_figures(scheduler, tried, error.reason, inputs or {}, seconds)
            result = measure(scheduler, schedule, inputs or {}, began)
        left_free = _left_free(result, scheduler.machine)
        if not left_free:
            break
        scheduler = scheduler.leaving(left_free)
    return result


def _left_free(result: Result, machine: Machine) -> tuple[int, ...]:
    """If one of several DRAMs is too full while there is room in others: what placement is to leave free of each, as
    more is there at once than the order of operators says."""
    drams = machine.accelerator.drams
    peaks = [result.memory_peak_bytes[dram.name].total for dram in drams]
    short = [max(0, peak - dram.capacity_bytes) for peak, dram in zip(peaks, drams, strict=True)]
    if (
        len(machine.accelerator.dram_places) == 1
        or not any(short)
        or sum(peaks) > machine.accelerator.dram.capacity_bytes
    ):
        return ()
    return tuple(before + more for before, more in zip(machine.left_free or [0] * len(drams), short, strict=True))


def measure(scheduler: Scheduler, schedule: Schedule, inputs: Mapping[str, Any], began: float) -> Result:
    """Everything there is to know of a schedule."""
    machine, workload = scheduler.machine, scheduler.workload
    accelerator, makespan = machine.accelerator, schedule.makespan
    energy = energy_of(schedule, machine, len(schedule.times))
    measures = Measures(schedule, machine, workload, energy)
    memory = traces(schedule, machine, workload)
    latency = makespan / machine.ticks_per_second
    phases = measures.phases()
    operators = measures.operators()
    arrays = sum(instance.core.units * instance.core.clock_hz for instance in accelerator.cores)
    reason = _too_full(memory, accelerator)
    plain = without_figures(scheduler, schedule.plan, reason, inputs)
    return replace(
        plain,
        notes=(*plain.notes, *measures.notes()),
        feasible=reason is None,
        latency_s=latency,
        cycles=-(-makespan // 1024),
        ticks=makespan,
        throughput_per_s=workload.batch / latency if latency else 0.0,
        energy_j=energy.total,
        utilisation=measures.unit_cycles / (arrays * latency) if arrays and latency else 0.0,
        energy_breakdown=measures.energy_breakdown(phases),
        memory_peak_bytes={row.name: MemoryPeak(**row.at_peak, total=row.peak_bytes) for row in memory},
        dram_bytes=measures.dram_bytes,
        phases=phases,
        cores=measures.cores(),
        links=measures.links(),
        operators=operators,
        copies=narrow_copies(workload.graph),
        memory=memory,
        timeline=measures.timeline(),
        bounds=bounds_of(workload, accelerator),
        longest_chain_s=schedule.longest_chain / machine.ticks_per_second,
        critical_path=measures.critical_path(),
        seconds_to_evaluate=time.perf_counter() - began,
    )


def _too_full(memory: Iterable[MemoryTrace], accelerator: Accelerator) -> Infeasible | None:
    """What does not fit DRAM, or a memory outside of the chip: nothing is ever evicted from there."""
    called = {dram.name: "DRAM" for dram in accelerator.drams}
    called |= {each.name: "the memory behind" for each in accelerator.endpoints}
    for trace in memory:
        short = trace.peak_bytes - trace.capacity_bytes
        if trace.name in called and short > 0 and trace.capacity_bytes:
            message = (
                f"{called[trace.name]} {trace.name} holds {trace.capacity_bytes:,} bytes, but {trace.peak_bytes:,} are "
                f"needed at {trace.peak_operator or 'the start'}: {short:,} bytes short"
            )
            return Infeasible(trace.peak_operator, "", trace.name, short, message)
    return None


def without_figures(
    scheduler: Scheduler, plan: Plan, reason: Infeasible | None, inputs: Mapping[str, Any], seconds: float = 0.0
) -> Result:
    """A result that only says what was asked for and, with a ``reason``, why it cannot be."""
    machine, workload = scheduler.machine, scheduler.workload
    none = np.zeros(0, np.int64)
    return Result(
        model=workload.graph.name,
        hardware=machine.accelerator.name,
        mode="training" if workload.graph.loss else "inference",
        feasible=False,
        ticks_per_second=machine.ticks_per_second,
        batch=workload.batch,
        timeline=Timeline(machine.ticks_per_second, machine.resource_names, (), none, none, none, none, none),
        plan=plan.to_dict(),
        hardware_summary=hardware_summary(machine.accelerator),
        inputs=dict(inputs),
        version=model_version(),
        seconds_to_evaluate=seconds,
        reason=reason,
        notes=(
            *unused(machine.folded, machine.levels),
            *place_lines(machine.accelerator),
            *wide_products(workload.graph),
        ),
    )
