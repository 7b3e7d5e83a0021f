"""Whether plans fit the memory of their devices, without costing them; and which small change makes one fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from monet.distributed.costs.chunk_costs import Coster
from monet.distributed.layout import Laid
from monet.distributed.memory.stage_memory import StagePeak, stage_peaks
from monet.distributed.pipelines.balance import laid_and_cut
from monet.distributed.pipelines.pipeline import order_of
from monet.distributed.plan import SHARDING, ParallelPlan
from monet.distributed.systems.system import System
from monet.errors import MonetError

MOST_NAMED = 3


def memory_of(coster: Coster, laid: Laid) -> list[StagePeak]:
    """Memory of a device of each stage. The order of passes decides it, not how long they take."""
    plan, micro_batches = laid.plan, laid.micro_batches
    order, pointer = order_of(plan.pipeline_schedule, plan.pipeline, plan.chunks, micro_batches)
    return stage_peaks(coster.memories(plan, micro_batches), order, pointer, micro_batches)


def short_by(laid: Laid, peaks: list[StagePeak]) -> list[float]:
    """By stage: bytes that a device lacks; below zero where some are left."""
    devices = zip(peaks, laid.devices, strict=True)
    return [peak.total - part.accelerator.dram.capacity_bytes for peak, part in devices]


def that_fit(coster: Coster, system: System, plan: ParallelPlan, batch: int) -> list[str]:
    """Single changes of a plan, smallest first, after which it fits."""
    found: list[str] = []
    for words, other in _changes(plan):
        try:
            laid = laid_and_cut(coster, other, system, batch)
            fits = max(short_by(laid, memory_of(coster, laid))) <= 0
        except MonetError:
            continue
        if fits:
            found.append(words)
        if len(found) == MOST_NAMED:
            break
    return found


def _changes(plan: ParallelPlan) -> Iterator[tuple[str, ParallelPlan]]:
    for recompute in ("selective", "full"):
        if plan.recompute == "none" or (recompute == "full" and plan.recompute == "selective"):
            yield f"recompute={recompute}", replace(plan, recompute=recompute)
    micro_batch = plan.micro_batch // 2
    while micro_batch:
        yield f"micro_batch={micro_batch}", replace(plan, micro_batch=micro_batch)
        micro_batch //= 2
    if plan.offload == "none":
        for offload in ("activations", "states", "both"):
            yield f"offload={offload}", replace(plan, offload=offload)
    if plan.data > 1:
        for shard in SHARDING[SHARDING.index(plan.shard) + 1 :]:
            yield f"shard={shard}", replace(plan, shard=shard)
    for times in (2, 4, 8):
        for name in ("tensor", "pipeline"):
            degree = getattr(plan, name) * times
            if plan.data % times == 0:
                data = plan.data // times
                yield f"{name}={degree}, data={data}", _changed(plan, name, degree, data)
            else:
                devices = plan.devices * times
                yield f"{name}={degree} ({devices} devices)", _changed(plan, name, degree, plan.data)


def _changed(plan: ParallelPlan, name: str, degree: int, data: int) -> ParallelPlan:
    shard = plan.shard if data > 1 else "none"
    if name == "tensor":
        return replace(plan, tensor=degree, data=data, shard=shard)
    return replace(plan, pipeline=degree, data=data, shard=shard, cuts=())
