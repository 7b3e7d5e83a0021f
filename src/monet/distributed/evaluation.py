"""A parallel plan on a system → ``DistributedResult``: chunks costed and put into a pipeline, memory and energy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from monet.arrays import F64
from monet.distributed.costs.amounts import Amounts, total
from monet.distributed.costs.chunk_costs import ChunkCost, Coster
from monet.distributed.layout import Laid
from monet.distributed.memory.fitting import memory_of, short_by, that_fit
from monet.distributed.memory.stage_memory import StagePeak, stage_peaks
from monet.distributed.pipelines.balance import laid_and_cut
from monet.distributed.pipelines.pipeline import PipelineTimes, PipelineWork, simulate
from monet.distributed.plan import ParallelPlan
from monet.distributed.result import CommunicationRow, DistributedResult, StageRow, TimeRow
from monet.distributed.systems.system import System
from monet.schedule.engine import NoSchedule
from monet.schedule.evaluation import model_version
from monet.schedule.result_rows import Infeasible, MemoryPeak

HOURS = 3600.0
ROUNDING = 1e-12  # of sums in another order


def evaluate_plan(
    coster: Coster,
    system: System,
    plan: ParallelPlan,
    batch: int,
    model: str,
    inputs: Mapping[str, Any] | None = None,
    *,
    details: bool = True,
    only_fitting: bool = False,
) -> DistributedResult:
    """Cost one training step. ``details``: also the chart of all passes and memory over time; ``only_fitting``: a plan
    that does not fit memory is not costed."""
    began = time.perf_counter()
    laid = laid_and_cut(coster, plan, system, batch)
    plan = laid.plan
    result = DistributedResult(
        model=model,
        system=system.name,
        devices=plan.devices,
        batch=batch,
        micro_batches=laid.micro_batches,
        parallel={declared.name: _plain(getattr(plan, declared.name)) for declared in fields(plan)},
        feasible=False,
        inputs=dict(inputs or {}),
        version=model_version(),
    )
    if only_fitting and (reason := too_large(laid, memory_of(coster, laid), list)):
        return replace(result, reason=reason, seconds_to_evaluate=time.perf_counter() - began)
    try:
        chunks = coster.chunks(plan, laid.network, laid.devices, laid.micro_batches)
    except NoSchedule as error:
        return replace(result, reason=error.reason, seconds_to_evaluate=time.perf_counter() - began)
    times = pipeline_of(laid, chunks)
    memories = [chunk.memory for chunk in chunks]
    peaks = stage_peaks(memories, times.order, times.pointer, laid.micro_batches, times if details else None)
    reason = too_large(laid, peaks, lambda: that_fit(coster, system, plan, batch) if details else [])
    measured = _measured(result, laid, chunks, times, peaks)
    if details:
        from monet.distributed.charts import chart_of, matrix_of

        measured = replace(
            measured,
            chart=chart_of(times),
            memory=tuple(peak.over_time for peak in peaks if peak.over_time is not None),
            matrix=matrix_of(measured, laid),
        )
    return replace(measured, feasible=reason is None, reason=reason, seconds_to_evaluate=time.perf_counter() - began)


def _plain(value: Any) -> Any:
    return value.to_dict() if hasattr(value, "to_dict") else list(value) if isinstance(value, tuple) else value


def pipeline_of(laid: Laid, chunks: Sequence[ChunkCost]) -> PipelineTimes:
    """The pipeline of a plan in time."""
    plan, micro_batches = laid.plan, laid.micro_batches
    split = plan.pipeline_schedule == "zero-bubble"
    seconds = np.zeros((3, len(chunks), micro_batches))
    tail: F64 = np.zeros(plan.pipeline)
    for number, chunk in enumerate(chunks):
        weights = chunk.backward["weight_gradient"] if split else 0.0
        seconds[0, number] = chunk.forward["seconds"]
        seconds[1, number] = chunk.backward["seconds"] - weights
        seconds[2, number] = weights
        tail[number % plan.pipeline] += max(0.0, chunk.last["seconds"] - chunk.backward["seconds"])
    sends = [
        np.array([laid.network.message(getattr(chunk, way)["message"]).seconds for chunk in chunks])
        for way in ("forward", "backward")
    ]
    work = PipelineWork(plan.pipeline, seconds, sends[0], sends[1], np.zeros(plan.pipeline), tail)
    return simulate(work, plan.pipeline_schedule)


def too_large(laid: Laid, peaks: list[StagePeak], others: Callable[[], list[str]]) -> Infeasible | None:
    """Why a plan does not fit, if it does not: the stage that is most short, and what ``others`` would fit."""
    short = short_by(laid, peaks)
    worst = int(np.argmax(short))
    if (full := _full_host(laid, peaks)) is not None:
        return full
    if short[worst] <= 0:
        return None
    near = others()
    dram, peak = laid.devices[worst].accelerator.dram, peaks[worst]
    parts = ", ".join(f"{name.replace('_', ' ')} {size:,.0f}" for name, size in peak.parts.items() if size)
    message = (
        f"stage {worst} needs {peak.total:,.0f} bytes ({parts}) on each device, but {dram.name} holds "
        f"{dram.capacity_bytes:,}: {short[worst]:,.0f} bytes short"
        + (f"; would fit: {', or '.join(near)}" if near else "")
    )
    return Infeasible("", f"stage {worst}", dram.name, math.ceil(short[worst]), message)


def _full_host(laid: Laid, peaks: list[StagePeak]) -> Infeasible | None:
    """Why hosts do not hold what devices leave with them, if they do not."""
    for stage, (peak, device) in enumerate(zip(peaks, laid.devices, strict=True)):
        host = device.accelerator.endpoint("host")
        if host is not None and peak.host > host.capacity_bytes:
            short = math.ceil(peak.host - host.capacity_bytes)
            message = (
                f"stage {stage} leaves {peak.host:,.0f} bytes of each device with {host.name}, which holds "
                f"{host.capacity_bytes:,}: {short:,} bytes short; offload less, or recompute more"
            )
            return Infeasible("", f"stage {stage}", host.name, short, message)
    return None


# --- figures ----------------------------------------------------------------------------------------------------------


def of_stages(laid: Laid, chunks: Sequence[ChunkCost]) -> list[Amounts]:
    """By stage: the amounts of a step on one of its devices."""
    passes, known, stages = laid.micro_batches, dict[tuple[int, ...], Amounts](), []
    for stage in range(laid.plan.pipeline):
        mine = chunks[stage :: laid.plan.pipeline]
        key = tuple(map(id, mine))  # alike chunks are one
        if key not in known:
            known[key] = total(
                amounts
                for chunk in mine
                for amounts in (chunk.forward * passes, chunk.backward * (passes - 1), chunk.last)
            )
        stages.append(known[key])
    return stages


def _measured(
    result: DistributedResult,
    laid: Laid,
    chunks: Sequence[ChunkCost],
    times: PipelineTimes,
    peaks: Sequence[StagePeak],
) -> DistributedResult:
    plan, latency = laid.plan, times.seconds
    per_stage = plan.tensor * plan.data
    steps = of_stages(laid, chunks)
    rows = [_time(step, latency) for step in steps]
    energy = _energy(laid, steps, latency)
    useful, executed = _ideal_seconds(laid, steps)
    held = times.held()
    stages = tuple(
        StageRow(
            number, laid.devices[number].accelerator.name, per_stage,
            sum(chunk.blocks for chunk in chunks[number :: plan.pipeline]),
            sum(chunk.forward["seconds"] for chunk in chunks[number :: plan.pipeline]),
            sum(chunk.backward["seconds"] for chunk in chunks[number :: plan.pipeline]),
            sum(chunk.last["seconds"] for chunk in chunks[number :: plan.pipeline]),
            float(times.work.busy()[number]), _waits(float(times.bubble[number]), latency),
            int(held[number :: plan.pipeline].sum()),
            _peak(peaks[number]),
            laid.devices[number].accelerator.dram.capacity_bytes, rows[number], round(peaks[number].host),
        )
        for number in range(plan.pipeline)
    )  # fmt: skip
    return replace(
        result,
        latency_s=latency,
        throughput_per_s=result.batch / latency,
        mfu=useful / (latency * plan.pipeline),
        hfu=executed / (latency * plan.pipeline),
        energy_j=math.fsum(energy.values()),
        energy_by_level=energy,
        device_hours=plan.devices * latency / HOURS,
        time=_mean(rows),
        stages=stages,
        communication=_communication(laid, chunks, steps),
    )


def _waits(bubble: float, latency: float) -> float:
    """A bubble; nothing where it is but the rounding of sums in another order."""
    return bubble if bubble > ROUNDING * latency else 0.0


def _peak(peak: StagePeak) -> MemoryPeak:
    parts = {name: round(size) for name, size in peak.parts.items()}
    return MemoryPeak(**parts, total=sum(parts.values()))


def _time(step: Amounts, latency: float) -> TimeRow:
    """Where a stage's time goes; what comes out of differences of schedules is kept from going below zero."""
    exposed = {name[0]: max(0.0, value) for name, value in step.under("exposed").items() if value > 0}
    again, update, host = (max(0.0, step[part]) for part in ("recomputation", "update", "host"))
    compute = step["seconds"] - sum(exposed.values()) - again - update - host
    return TimeRow(compute, exposed, _waits(latency - step["seconds"], latency), again, update, host)


def _mean(rows: Sequence[TimeRow]) -> TimeRow:
    count = len(rows)
    kinds = dict.fromkeys(kind for row in rows for kind in row.communication)
    return TimeRow(
        sum(row.compute for row in rows) / count,
        {kind: sum(row.communication.get(kind, 0.0) for row in rows) / count for kind in kinds},
        sum(row.bubble for row in rows) / count,
        sum(row.recomputation for row in rows) / count,
        sum(row.update for row in rows) / count,
        sum(row.host for row in rows) / count,
    )


def _energy(laid: Laid, steps: Sequence[Amounts], latency: float) -> dict[str, float]:
    """Joules of all devices by level, messages between stages and static power included."""
    found: dict[str, float] = {}
    per_stage = laid.plan.tensor * laid.plan.data
    for devices, step in zip(laid.devices, steps, strict=True):
        for (level,), joules in step.under("energy").items():
            found[level] = found.get(level, 0.0) + joules * per_stage
        if step["message"]:
            sent = laid.network.message(step["message"])
            for span, joules in zip(laid.network.spans["pipeline"], sent.energy_j, strict=True):
                found[span.level.name] = found.get(span.level.name, 0.0) + joules * per_stage
        static = devices.accelerator.static_power_w * latency * per_stage
        found["static"] = found.get("static", 0.0) + static
    return {level: joules for level, joules in found.items() if joules}


def _ideal_seconds(laid: Laid, steps: Sequence[Amounts]) -> tuple[float, float]:
    """Seconds that a device's multiply-accumulates would take at its peak, summed over stages: those of the model, and
    all that are executed."""
    useful = executed = 0.0
    for devices, step in zip(laid.devices, steps, strict=True):
        for (dtype,), macs in step.under("macs").items():
            peak = devices.accelerator.peak_macs_per_s(dtype)
            executed += macs / peak if peak else 0.0
            useful += (macs - step["macs again", dtype]) / peak if peak else 0.0
    return useful, executed


def _communication(laid: Laid, chunks: Sequence[ChunkCost], steps: Sequence[Amounts]) -> tuple[CommunicationRow, ...]:
    count, per_stage = len(steps), laid.plan.tensor * laid.plan.data
    whole = total(steps)
    rows = []
    for (kind, group, level), sent in whole.under("sent").items():
        name = kind, group
        rows.append(
            CommunicationRow(
                kind, group, level, whole["calls", *name] / count, sent / count, sent * per_stage,
                whole["network", *name] / count, max(0.0, whole["exposed", f"{group} {kind}"]) / count,
            )
        )  # fmt: skip
    sizes = (passed["message"] for chunk in chunks for passed in (chunk.forward, chunk.backward))
    messages = [laid.network.message(size) for size in sizes if size]
    for number, span in enumerate(laid.network.spans["pipeline"]):
        sent = sum(each.sent_bytes[number] for each in messages) * laid.micro_batches
        if sent:
            calls, seconds = len(messages), sum(each.seconds for each in messages)
            each_stage = laid.micro_batches / count
            rows.append(
                CommunicationRow(
                    "send", "pipeline", span.level.name, calls * each_stage, sent / count, sent * per_stage,
                    seconds * each_stage, 0.0,
                )
            )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -row.total_bytes))
