"""What is mined for a pipeline: a template for the devices of a system, under a parallel plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from monet.distributed.costs.programs import FEW
from monet.distributed.memory.fitting import that_fit
from monet.distributed.memory.memory import ChunkMemory
from monet.distributed.memory.stage_memory import stage_peaks
from monet.distributed.pipelines.pipeline import order_of
from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.network import Network
from monet.distributed.systems.system import Devices, System
from monet.errors import MonetError
from monet.schedule.evaluation import select_phases
from monet.schedule.workload import Workload as Analysed
from monet.schedule.workload import workload_of
from monet.search.hardware.description import PipelineModel
from monet.search.hardware.pipeline_stages import Pipeline, pipeline_of
from monet.search.hardware.space import Space
from monet.search.hardware.workload import Workload
from monet.search.mining.metrics import Metric
from monet.search.mining.templates import Limits, Template

MOST_BOUNDED = 12  # layers of a stage that bounds look at
PASSES = ("forward", "loss", "backward")
RECOMPUTATION = ("none", "selective", "full")


@dataclass(frozen=True)
class StageProblem:
    """A template, a workload and how it is laid over a system; limits are of one device."""

    template: Template
    name: str  # of the workload
    workload: Workload
    system: System
    plan: ParallelPlan
    batch: int
    limits: Limits
    metric: str = "throughput"
    floor: float = 0.0  # samples per second of the whole system

    @property
    def goal(self) -> Metric:
        """The metric of one stage."""
        return Metric(self.metric, (1.0,))

    def space(self, cuts: tuple[int, ...] | None = None) -> Space:
        """Designs within limits as a space, with a port to every level of the network."""
        ports = {
            level.name: {
                "kind": "network",
                "bandwidth_bytes_per_s": level.device_bandwidth_bytes_per_s,
                "latency_s": level.latency_s,
                "energy_j_per_bit": 0.0,  # of the network, not of the chip: its limits do not count it
            }
            for level in self.system.levels
        }
        model = self.template.model
        hardware = {**model.hardware, "endpoints": {**model.hardware.get("endpoints", {}), **ports}}
        ported = replace(self.template, model=model.model_copy(update={"hardware": hardware}))
        plan = replace(self.plan, cuts=self.pipeline.cuts if cuts is None else cuts)
        asked = {"system": dict(self.system.document), "batch": self.batch, "plan": plan.to_dict()}
        return ported.space({self.name: self.workload}, self.limits, self.goal.objective, (), asked)

    @cached_property
    def pipeline(self) -> Pipeline:
        """The workload under its plan."""
        asked = {"system": dict(self.system.document), "batch": self.batch, "plan": self.plan.to_dict()}
        return pipeline_of(self.workload, PipelineModel.model_validate(asked))

    def bounded_workloads(self) -> dict[str, Analysed]:
        """By kind of stage what bounds are taken of: the passes of a micro-batch, of at most so many layers."""
        pipeline, found = self.pipeline, dict[str, Analysed]()
        network = Network(self.system, self.plan)
        for kind in sorted(set(pipeline.kinds)):
            span = pipeline.spans()[pipeline.stage_of(kind)]
            graph = pipeline.coster.span_graph(self.plan, span, pipeline.micro_batches, MOST_BOUNDED)
            found[f"stage{kind}"] = workload_of(network.timed(select_phases(graph, PASSES)))
        return found


# --- what fits --------------------------------------------------------------------------------------------------------


def stage_bytes(pipeline: Pipeline, spans: Sequence[range]) -> list[float]:
    """By stage the bytes of a device at its fullest moment; the order of passes decides it, not their times."""
    plan, passes = pipeline.plan, pipeline.micro_batches
    order, pointer = order_of(plan.pipeline_schedule, plan.pipeline, plan.pipeline, passes)
    memories = [_memory(pipeline, kind, span) for kind, span in zip(pipeline.kinds, spans, strict=True)]
    return [peak.total for peak in stage_peaks(memories, order, pointer, passes)]


def _memory(pipeline: Pipeline, kind: int, span: range) -> ChunkMemory:
    if not pipeline.coster.repeats:
        return pipeline.coster.span_memories(pipeline.plan, span, pipeline.micro_batches)[0]
    found = pipeline.memories(kind)
    return found[0] if len(found) == 1 else found[0].grown(found[1], len(span) - FEW - 1)


def fitted(problem: StageProblem) -> tuple[StageProblem, tuple[str, ...]]:
    """The problem with a plan that fits the DRAM of the template, and what was changed. Where the plan shares and
    recomputes nothing, the fewest tensor ranks that fit are taken, with as little recomputation as they need."""
    space = problem.space()
    accelerator = space.hardware(next(space.points()))
    capacity = accelerator.dram.capacity_bytes
    needed = max(stage_bytes(problem.pipeline, problem.pipeline.spans()))
    if needed <= capacity:
        return problem, ()
    plan = problem.plan
    holds = f"{accelerator.dram.name} holds {capacity:,}"
    said = f"{plan.pipeline} stages need {needed:,.0f} bytes on a device, {holds}"
    if plan.tensor == 1 and plan.recompute == "none" and plan.shard == "none":
        for other in _sharing_more(plan, problem.system):
            shared = replace(problem, plan=other)
            try:
                if max(stage_bytes(shared.pipeline, shared.pipeline.spans())) <= capacity:
                    return shared, (f"{said}: {_words(other)} taken, the fewest devices that fit",)
            except MonetError:
                continue
    devices = (Devices(problem.system.size, accelerator, "template"),)
    near = that_fit(problem.pipeline.coster, replace(problem.system, devices=devices), plan, problem.batch)
    would = f"; would fit: {', or '.join(near)}" if near else ""
    raise MonetError(f"{said}: {needed - capacity:,.0f} bytes short{would}")


def _sharing_more(plan: ParallelPlan, system: System) -> Iterator[ParallelPlan]:
    """Plans that need less memory of a device: more tensor ranks, tokens shared too, more recomputation."""
    tensor = 1
    while tensor <= 2 * system.levels[0].size and plan.data * tensor * plan.pipeline <= system.size:
        for recompute in RECOMPUTATION:
            for tokens in (False, True) if tensor > 1 else (False,):
                yield replace(plan, tensor=tensor, recompute=recompute, sequence_parallel=tokens)
        tensor *= 2


def _words(plan: ParallelPlan) -> str:
    tokens = " --sequence-parallel" if plan.sequence_parallel else ""
    return f"--tensor {plan.tensor}{tokens} --recompute {plan.recompute}"
