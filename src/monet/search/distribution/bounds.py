"""What no plan is below, from numbers of the model alone: so that most plans need not be costed.

Seconds: every stage passes all micro-batches at the device's peak, and the last stage waits until the first micro-batch
has come through the others and back. Bytes: weights, gradients and optimizer states as they are cut and shared, and
what the first stage holds of micro-batches under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from monet.distributed.chunk_costs import FEW, Coster
from monet.distributed.memory import chunk_memory
from monet.distributed.plan import ParallelPlan
from monet.distributed.system import System
from monet.errors import MonetError
from monet.graph.counts import macs_by_part, macs_of
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.hardware.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """Of one block of a model: multiply-accumulates of a sample, bytes that stay; and the fastest device's peak."""

    forward_macs: float
    backward_macs: float
    weights_bytes: float
    gradients_bytes: float
    states_bytes: float
    peak_macs_per_s: float
    blocks: int

    @classmethod
    def of(cls, coster: Coster, system: System) -> ModelNumbers:
        """From the programs of one device with few blocks and with one more; from the whole where there are few."""
        plan = ParallelPlan()
        blocks = sum(coster.blocks())
        few = blocks > FEW + 1
        longer = coster.graphs(plan, 2, FEW + 1 if few else 0).stages[0]
        work, stays = macs_by_part(longer.micro), chunk_memory(longer.micro, longer.update, longer.last).stays
        forward, backward, sizes = float(work.forward), float(work.backward), dict(stays)
        count = blocks
        if few:
            shorter = coster.graphs(plan, 2, FEW).stages[0]
            less = macs_by_part(shorter.micro)
            forward, backward, count = forward - less.forward, backward - less.backward, 1
            before = chunk_memory(shorter.micro, shorter.update, shorter.last).stays
            sizes = {name: size - before[name] for name, size in stays.items()}
        peak = max(_peak(longer.micro, part.accelerator) for part in system.devices)
        return cls(
            forward / count, backward / count, sizes["weights"] / count, sizes["gradients"] / count,
            sizes["optimizer_state"] / count, peak, blocks,
        )  # fmt: skip

    def seconds(self, plan: ParallelPlan, batch: int) -> float:
        """No less for a step."""
        per_chunk = self.blocks / plan.chunks
        again = 1.0 if plan.recompute == "full" else 0.0
        work = (self.forward_macs * (1 + again) + self.backward_macs) * per_chunk * plan.micro_batch
        passed = work / (plan.tensor * self.peak_macs_per_s)
        return passed * (plan.interleave * plan.micro_batches(batch) + plan.pipeline - 1)

    def bytes(self, plan: ParallelPlan) -> float:
        """No less on a device."""
        kept = self.weights_bytes + self.states_bytes  # among them copies in full precision, which go with the states
        gradients = self.gradients_bytes
        if plan.shard != "none":
            kept /= plan.data
        if plan.shard in ("gradients", "parameters"):
            gradients /= plan.data
        return (kept + gradients) * self.blocks / (plan.pipeline * plan.tensor)


Shape = tuple[int, bool, str, str]


class HeldBytes:
    """What the first stage holds of micro-batches under way: nothing less, since its blocks keep what blocks in between
    do, and the embedding more. Every storage is a constant and a part per sample, so two sizes of micro-batch tell
    all others; one graph of few blocks serves every plan that cuts a block alike."""

    def __init__(self, coster: Coster, plans: Iterable[ParallelPlan]) -> None:
        self.blocks = sum(coster.blocks())
        self.saved: dict[Shape, tuple[float, float]] = {}
        for plan in plans:
            if _shape(plan) not in self.saved:
                self.saved[_shape(plan)] = _saved(coster, plan)

    def bytes(self, plan: ParallelPlan, batch: int) -> float:
        """No less on a device of the first stage. Before its first backward pass a stage has started as many
        micro-batches as there are stages (or all): with 1F1B and its interleaved kind. Of others one is counted."""
        one, more = self.saved[_shape(plan)]
        under_way = min(plan.pipeline, plan.micro_batches(batch)) if plan.pipeline_schedule == "1f1b" else 1
        return under_way * (one + more * (plan.micro_batch - 1)) * (self.blocks / plan.pipeline)


def _shape(plan: ParallelPlan) -> Shape:
    return plan.tensor, plan.sequence_parallel, plan.tensor_split, str(plan.recompute)


def _saved(coster: Coster, plan: ParallelPlan) -> tuple[float, float]:
    """Of one block: bytes with one sample, and with every further one."""
    try:
        one, two = (coster.block_saved_bytes(replace(plan, micro_batch=samples)) for samples in (1, 2))
    except MonetError:
        return 0.0, 0.0  # whoever costs it says why it cannot be
    return one, two - one


def _peak(graph: Graph, device: Accelerator) -> float:
    dtypes = {graph.tensors[op.inputs[0]].dtype for op in graph.ops if op.phase is Phase.FORWARD and macs_of(graph, op)}
    return max((device.peak_macs_per_s(dtype) for dtype in dtypes), default=0.0) or 1e30
