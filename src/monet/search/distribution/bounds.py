"""What no plan is below, so that most plans need not be costed. Every bound holds by itself, none is fitted.

Seconds, closer and closer: multiply-accumulates at the devices' peak (``ModelNumbers``); what the blocks of a layer
shape take at least, collectives in a row included (``Coster.floor``); what a block between others takes (``Shapes``). A
pipeline passes all micro-batches through each stage, and the last stage waits until the first has come through the
others; chunks are taken to need no less than their blocks do (``Coster.least``), so this is no assumption. Bytes:
weights, gradients and states as they are cut and shared, and what the first stage holds of micro-batches under way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from monet.distributed.costs.chunk_costs import Coster, Least
from monet.distributed.costs.programs import FEW
from monet.distributed.memory.memory import chunk_memory
from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.collectives import collective_cost
from monet.distributed.systems.system import System
from monet.errors import MonetError
from monet.graph.counts import macs_by_part, macs_of
from monet.graph.graph import Graph
from monet.graph.op import Phase
from monet.hardware.accelerator import Accelerator


@dataclass(frozen=True, slots=True)
class ModelNumbers:
    """Of one block of a model: multiply-accumulates of a sample, bytes that stay; and the fastest device's peak.
    ``equal``: blocks are alike, so stages are."""

    forward_macs: float
    backward_macs: float
    weights_bytes: float
    gradients_bytes: float
    states_bytes: float
    peak_macs_per_s: float
    blocks: int
    equal: bool = True

    @classmethod
    def of(cls, coster: Coster, system: System) -> ModelNumbers:
        """From the programs of one device with few blocks and with one more; from the whole where there are few."""
        plan = ParallelPlan()
        runs = coster.blocks()
        blocks = sum(runs)
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
            sizes["optimizer_state"] / count, peak, blocks, len(runs) == 1 and len(system.devices) == 1,
        )  # fmt: skip

    def seconds(self, plan: ParallelPlan, batch: int) -> float:
        """No less for a step."""
        again = 1.0 if plan.recompute == "full" else 0.0
        rate = plan.tensor * self.peak_macs_per_s / plan.micro_batch
        forward, backward = self.forward_macs / rate, (self.backward_macs + again * self.forward_macs) / rate
        if not self.equal:  # some stage has its share or more
            passes = max(1.0, plan.micro_batches(batch) / plan.pipeline)
            return (forward + backward) * self.blocks * passes
        per_chunk = self.blocks / plan.chunks
        return piped(plan, plan.micro_batches(batch), forward * per_chunk, backward * per_chunk)

    def port_seconds(self, plan: ParallelPlan, batch: int, system: System) -> float:
        """For how long a device's port to other replicas is busy at least: its gradients, and parameters where these or
        states are shared, each time sent at once."""
        if plan.data == 1:
            return 0.0
        size = self.gradients_bytes * self.blocks / (plan.pipeline * plan.tensor)
        group, passes = system.spans(plan.tensor, plan.data, plan.devices), plan.micro_batches(batch)
        gathers, scatters = {"none": (1, 1), "states": (1, 1), "gradients": (1, passes)}.get(
            plan.shard, (passes, passes)
        )
        if plan.shard == "none":
            return collective_cost("all_reduce", size, group).seconds
        return sum(
            times * collective_cost(kind, size, group).seconds
            for kind, times in (("all_gather", gathers), ("reduce_scatter", scatters))
        )

    def bytes(self, plan: ParallelPlan) -> float:
        """No less on a device."""
        # among them copies in full precision, which go with the states
        kept = self.weights_bytes + (0.0 if plan.states_away else self.states_bytes)
        gradients = self.gradients_bytes
        if plan.shard != "none":
            kept /= plan.data
        if plan.shard in ("gradients", "parameters"):
            gradients /= plan.data
        return (kept + gradients) * self.blocks / (plan.pipeline * plan.tensor)


def piped(plan: ParallelPlan, micro_batches: int, forward: float, backward: float) -> float:
    """A step whose chunks take so many seconds each at least: the last stage passes all of its own after the first
    micro-batch has come to it, and the others wait for its last to come back. Gradients of weights that may wait
    (zero-bubble) need not."""
    own = plan.interleave * micro_batches * (forward + backward)
    return own + (plan.pipeline - 1) * (forward + (backward if plan.pipeline_schedule != "zero-bubble" else 0.0))


class Block(NamedTuple):
    """Both passes of a block between others, and of the few that are scheduled together (``FEW`` + 1)."""

    forward: float
    backward: float
    few_forward: float
    few_backward: float


def by_blocks(plan: ParallelPlan, micro_batches: int, blocks: int, least: Least) -> float:
    """A step of chunks whose blocks take so long at least. It ends with the last backward pass of the first chunk, in
    which what replicas send has to be sent as well."""
    forward, backward, last = blocks * least.forward, blocks * least.backward, blocks * least.last
    if plan.chunks == 1:
        both = max(0.0, forward + backward - least.apart)
        return (micro_batches - 1) * both + max(both, last)
    return piped(plan, micro_batches, forward, backward) + _more(plan, last, backward)


def by_middle(plan: ParallelPlan, micro_batches: int, blocks: int, least: Least, block: Block) -> float:
    """A step by what chunks between others take, first and last ones no less than their blocks. Seen from the last
    stage that has such chunks only, and from the last of all; chunks of a stage synchronise one after the other."""
    rough = by_blocks(plan, micro_batches, blocks, least)
    if plan.pipeline < 3 or plan.shard in ("gradients", "parameters") or plan.pipeline_schedule == "zero-bubble":
        return rough
    more = blocks - (FEW + 1)
    forward = max(block.few_forward + more * block.forward, blocks * least.forward)
    backward = max(block.few_backward + more * block.backward, blocks * least.backward)
    chunk, last = forward + backward, blocks * least.last
    edge = blocks * (least.forward + least.backward)
    inner = (plan.interleave * micro_batches + plan.pipeline - 3) * chunk + edge
    outer = micro_batches * ((plan.interleave - 1) * chunk + edge) + (plan.pipeline - 2) * chunk + edge
    ends = _more(plan, last, blocks * least.backward) + (plan.interleave - 1) * max(0.0, last - backward)
    return max(rough, max(inner, outer) + ends)


def _more(plan: ParallelPlan, last: float, backward: float) -> float:
    """By how much sending takes longer than a backward pass that takes so long at least."""
    return max(0.0, last - backward) if plan.pipeline_schedule != "zero-bubble" else 0.0


Shape = tuple[int, bool, str, str, bool]


class HeldBytes:
    """What the first stage holds of micro-batches under way: nothing less, since its blocks keep what blocks in between
    do, and the embedding more. Every storage is a constant and a part per sample, so two sizes of micro-batch tell
    all others; one graph of few blocks serves every plan that cuts a block alike."""

    def __init__(self, coster: Coster, alike: bool = True) -> None:
        """``alike``: devices are, so that stages have equally many blocks."""
        self.coster, self.blocks, self.alike = coster, sum(coster.blocks()), alike
        self.saved: dict[Shape, tuple[float, float]] = {}

    def bytes(self, plan: ParallelPlan, batch: int) -> float:
        """No less on a device of the first stage. Before its first backward pass a stage has started as many
        micro-batches as there are stages (or all): with 1F1B and its interleaved kind. Of others one is counted."""
        if not self.alike:
            return 0.0
        shape = plan.tensor, plan.sequence_parallel, plan.tensor_split, str(plan.recompute), plan.activations_away
        if shape not in self.saved:
            self.saved[shape] = _saved(self.coster, plan)
        one, more = self.saved[shape]
        under_way = min(plan.pipeline, plan.micro_batches(batch)) if plan.pipeline_schedule == "1f1b" else 1
        return under_way * (one + more * (plan.micro_batch - 1)) * (self.blocks / plan.pipeline)


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
