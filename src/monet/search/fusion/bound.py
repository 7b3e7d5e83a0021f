"""What no plan can be below: work over the peak of all cores, compulsory off-chip bytes, and the energy of both.

Compulsory bytes: what is in DRAM at the start and is read, what must be there at the end and is written. In training
also what the chip cannot hold over the loss: everything saved for the backward pass and every parameter that is read
again is needed on both sides of it, so what exceeds all on-chip memories together comes from DRAM once more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from monet.formats import whole_bytes
from monet.graph.loop_nest import Operand
from monet.graph.op import Phase
from monet.schedule.engine import Scheduler
from monet.schedule.expansion.geometry import axis_range, make_steps
from monet.schedule.measurement.bounds import compute_bound_s
from monet.schedule.measurement.energy_bound import energy_bound_j
from monet.schedule.workload import Operator, Workload
from monet.search.fusion.structure import structure_of


@dataclass(frozen=True, slots=True)
class Bound:
    """Lower bounds over all plans; ``compute_s`` and ``dram_s`` are what latency is bounded by."""

    latency_s: float
    energy_j: float
    dram_bytes: int
    compute_s: float
    dram_s: float
    compulsory: dict[str, int]  # bytes by kind: read, written, over the loss; and saved if all of it goes off chip


def bound_of(scheduler: Scheduler) -> Bound:
    """Lower bounds of a graph on an accelerator, whatever the plan."""
    workload, accelerator = scheduler.workload, scheduler.machine.accelerator
    read, written = _compulsory(workload)
    saved, again = _over_the_loss(workload)
    chip = sum(memory.size_bytes for memory in accelerator.memories)
    over = max(0, saved - chip) + max(0, saved + again - chip)
    total = read + written + over
    dram = accelerator.dram
    compute_s, dram_s = compute_bound_s(workload.operators, scheduler.machine), total / dram.bandwidth_bytes_per_s
    latency = max(compute_s, dram_s)
    energy = energy_bound_j(workload.operators, accelerator, total, latency)
    kinds = {"read": read, "written": written, "over_the_loss": over, "saved": saved, "read_again": again, "chip": chip}
    return Bound(latency, energy, total, compute_s, dram_s, kinds)


def _compulsory(workload: Workload) -> tuple[int, int]:
    """Bytes read of what is there at the start, and written of what stays: at least what one operator needs."""
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    for operator in workload.operators:
        fresh = set(written)
        for operand, tensor in operator.operands:
            name, size = tensor.storage, distinct_bytes(operand, operator)
            size = min(size, workload.storages[name].tensor.bytes)
            if operand.written:
                written[name] = max(size, written.get(name, 0))
            elif name not in fresh:
                read[name] = max(size, read.get(name, 0))
    storages = workload.storages
    return (
        sum(size for name, size in read.items() if storages[name].is_root),
        sum(size for name, size in written.items() if storages[name].persistent),
    )


def distinct_bytes(operand: Operand, operator: Operator) -> int:
    """Bytes of an operand that its operator touches at least once, at most that many."""
    nest, whole = operator.nest, make_steps(operator.nest, {}, "", 1)
    if len(operand.indices) != len(operand.shape):
        return 0
    elements = 1
    for index, length in zip(operand.indices, operand.shape, strict=True):
        low, high, _ = axis_range(index, length, nest, whole)
        factors = [abs(factor) for name, factor in index.terms if factor and nest.sizes[name] > 1]
        points = math.prod(nest.sizes[name] for name, factor in index.terms if factor)
        step = math.gcd(*factors) if factors else 1
        elements *= max(1, min(-(-(int(high) - int(low)) // max(1, step)), points))
    return whole_bytes(min(elements, nest.points) * operand.bits_per_element, down=True)


def _over_the_loss(workload: Workload) -> tuple[int, int]:
    """Bytes made before and read after an operator of the loss that lies between; bytes of what is there from the start
    and is read on both sides of it. Of all operators of the loss the one with the largest sum."""
    of = structure_of(workload)
    best = 0, 0
    for middle in (loss.number for loss in workload.operators if loss.op.phase is Phase.LOSS):
        before, after = of.ancestors[middle] | 1 << middle, of.descendants[middle]
        made, seen, again = dict[str, int](), dict[str, int](), dict[str, int]()
        for operator in workload.operators:
            here = before if before >> operator.number & 1 else after if after >> operator.number & 1 else 0
            for operand, tensor in operator.operands if here else ():
                table = (made if operand.written else seen) if here is before else (None if operand.written else again)
                if table is not None:
                    size = distinct_bytes(operand, operator)
                    table[tensor.storage] = max(size, table.get(tensor.storage, 0))
        roots = {name for name, storage in workload.storages.items() if storage.is_root and name not in made}
        saved = sum(min(size, made[name]) for name, size in again.items() if name in made)
        twice = sum(min(size, seen[name]) for name, size in again.items() if name in seen and name in roots)
        best = max(best, (saved, twice), key=sum)
    return best
