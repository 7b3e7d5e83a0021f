"""A design as every device of a system: what each stage of a pipeline takes on it, and the step that results.

Stages are costed by ``distributed``: the passes of a stage's own graph, collectives on its ports. Of a long row of
equal layers the first stage, one in between and the last are costed with few layers and with one more, which tells any
number.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from itertools import pairwise

import numpy as np

from monet.distributed.costs.chunk_costs import ChunkCost, Coster
from monet.distributed.memory.memory import ChunkMemory
from monet.distributed.pipelines.pipeline import PipelineTimes, PipelineWork, simulate
from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.network import Network
from monet.distributed.systems.system import Devices, System, load_system
from monet.errors import OptionError
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import Section, default_store
from monet.request import Request
from monet.request.distribution import coster_of
from monet.search.hardware.description import PipelineModel

ENDS = 3  # kinds of stages in a row of equal layers: the first, those in between, the last


@dataclass(frozen=True, slots=True)
class StageFigures:
    """One stage on one device: seconds and joules of its passes, bytes that it hands on. ``last``: the backward pass of
    the last micro-batch with synchronisation and update; ``weights_s``: of backward, gradients of weights."""

    blocks: float
    forward_s: float
    backward_s: float
    weights_s: float
    last_s: float
    forward_j: float
    backward_j: float
    last_j: float
    forward_bytes: float
    backward_bytes: float

    @classmethod
    def of(cls, cost: ChunkCost) -> StageFigures:
        """From what a chunk of layers costs."""
        passes = cost.forward, cost.backward, cost.last
        forward_j, backward_j, last_j = (sum(each.under("energy").values()) for each in passes)
        return cls(
            cost.blocks, cost.forward["seconds"], cost.backward["seconds"], cost.backward["weight_gradient"],
            cost.last["seconds"], forward_j, backward_j, last_j, cost.forward["message"], cost.backward["message"],
        )  # fmt: skip

    def grown(self, longer: StageFigures, blocks: int) -> StageFigures:
        """A stage of any length from this one and one that has a block more; seconds are kept above zero."""
        more = blocks - longer.blocks
        found = [after + (after - before) * more for before, after in zip(astuple(self), astuple(longer), strict=True)]
        return StageFigures(float(blocks), *(max(0.0, value) for value in found[1:]))

    def seconds(self, micro_batches: int) -> float:
        """For which a micro-batch occupies the stage, its share of what comes once per step included."""
        return self.forward_s + self.backward_s + max(0.0, self.last_s - self.backward_s) / micro_batches

    def joules(self, micro_batches: int) -> float:
        """Of a whole step on one device, without messages and static power."""
        return self.forward_j * micro_batches + self.backward_j * (micro_batches - 1) + self.last_j

    def to_metrics(self, name: str) -> dict[str, float]:
        """As figures of a record."""
        return {f"{name}.{each.name}": float(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def from_metrics(cls, metrics: Mapping[str, float], name: str) -> StageFigures:
        """From figures of a record."""
        return cls(*(metrics[f"{name}.{each.name}"] for each in fields(cls)))


@dataclass(frozen=True, slots=True)
class Step:
    """One training step over all devices."""

    seconds: float
    energy_j: float
    times: PipelineTimes


@dataclass(frozen=True)
class Pipeline:
    """A workload under a parallel plan on the network of a system, whatever its devices are."""

    coster: Coster
    system: System
    plan: ParallelPlan
    batch: int

    @cached_property
    def network(self) -> Network:
        """The network as devices see it."""
        return Network(self.system, self.plan)

    @cached_property
    def micro_batches(self) -> int:
        """Passes that each replica makes."""
        return self.plan.micro_batches(self.batch)

    @property
    def per_stage(self) -> int:
        """Devices of each stage."""
        return self.plan.tensor * self.plan.data

    @cached_property
    def layers(self) -> int:
        """Layers that stages are made of."""
        return sum(self.coster.blocks())

    @cached_property
    def cuts(self) -> tuple[int, ...]:
        """The layers that stages begin with, without the first; unless the plan says them, as equal as can be."""
        stages, layers = self.plan.pipeline, self.layers
        if stages > layers:
            raise OptionError("pipeline", stages, f"there are {layers} layers, so at most that many stages")
        return self.plan.cuts or tuple(round(number * layers / stages) for number in range(1, stages))

    def spans(self, cuts: Sequence[int] | None = None) -> list[range]:
        """Layers of each stage."""
        chosen = self.cuts if cuts is None else cuts
        return [range(begin, end) for begin, end in pairwise((0, *chosen, self.layers))]

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """By stage, which costed one stands for it."""
        stages = self.plan.pipeline
        if not self.coster.repeats or stages <= ENDS:
            return tuple(range(stages))
        return (0, *(1,) * (stages - 2), 2)

    def stage_of(self, kind: int) -> int:
        """The first stage of a kind."""
        return self.kinds.index(kind)

    def figures(self, accelerator: Accelerator, key: str, kind: int) -> tuple[StageFigures, ...]:
        """What a stage of a kind takes on a device: itself, or two short ones that differ by a layer."""
        span, device = self.spans()[self.stage_of(kind)], Devices(1, accelerator, key)
        costs = self.coster.span_costs(self.plan, span, self.network, device, self.micro_batches)
        return tuple(map(StageFigures.of, costs))

    def memories(self, kind: int) -> tuple[ChunkMemory, ...]:
        """Memory of a stage of a kind, in the same way."""
        span = self.spans()[self.stage_of(kind)]
        return self.coster.span_memories(self.plan, span, self.micro_batches)

    def step(self, stages: Sequence[StageFigures], static_w: Sequence[float]) -> Step:
        """The step that stages make, on devices that draw so many watts whatever they do."""
        plan, passes = self.plan, self.micro_batches
        split = plan.pipeline_schedule == "zero-bubble"
        forward = np.array([stage.forward_s for stage in stages])
        weights = np.array([stage.weights_s if split else 0.0 for stage in stages])
        backward = np.array([stage.backward_s for stage in stages]) - weights
        tail = np.array([max(0.0, stage.last_s - stage.backward_s) for stage in stages])
        seconds = np.repeat(np.array((forward, backward, weights))[:, :, None], passes, axis=2)
        sends = [
            np.array([self._message(getattr(stage, f"{way}_bytes")) for stage in stages])
            for way in ("forward", "backward")
        ]
        work = PipelineWork(plan.pipeline, seconds, sends[0], sends[1], np.zeros(plan.pipeline), tail)
        times = simulate(work, plan.pipeline_schedule)
        moved = passes * sum(stage.forward_bytes + stage.backward_bytes for stage in stages)
        joules = sum(stage.joules(passes) for stage in stages)
        joules += self.network.message(moved).total_energy_j if moved else 0.0
        joules += sum(static_w) * times.seconds
        return Step(times.seconds, joules * self.per_stage, times)

    def _message(self, size_bytes: float) -> float:
        if size_bytes not in self._sent:
            self._sent[size_bytes] = self.network.message(size_bytes).seconds
        return self._sent[size_bytes]

    @cached_property
    def _sent(self) -> dict[float, float]:
        """Seconds of messages by size, as they were asked for."""
        return {}


PIPELINES = Section[Pipeline]("pipelines of spaces", 8)


def pipeline_of(workload: Request, asked: PipelineModel) -> Pipeline:
    """What a space asks for, made once per process."""

    def made() -> Pipeline:
        system, plan = load_system(asked.system), ParallelPlan.from_dict(asked.plan)
        return Pipeline(coster_of(workload), system, plan, asked.batch)

    key = json.dumps((workload.to_json(), asked.model_dump()), sort_keys=True, default=str)
    return default_store()[PIPELINES].get_or(key, made)


def digest_of(accelerator: Accelerator) -> str:
    """A short text that tells designs apart."""
    return hashlib.sha256(repr(accelerator).encode()).hexdigest()[:24]


def grown_to(figures: Sequence[StageFigures], blocks: int) -> StageFigures:
    """A stage of so many layers from what was costed of it."""
    return figures[0] if len(figures) == 1 else figures[0].grown(figures[1], blocks)


def pipelined_figures(name: str, pipeline: Pipeline, accelerator: Accelerator, tdp_w: float) -> dict[str, float]:
    """Figures of a design: of every kind of stage, and of the step if all devices are alike."""
    key, found, costed = digest_of(accelerator), dict[str, float](), dict[int, tuple[StageFigures, ...]]()
    for kind in sorted(set(pipeline.kinds)):
        costed[kind] = pipeline.figures(accelerator, key, kind)
        for number, each in enumerate(costed[kind]):
            found |= each.to_metrics(f"stage{kind}.{number}")
        blocks = len(pipeline.spans()[pipeline.stage_of(kind)])
        seconds = grown_to(costed[kind], blocks).seconds(pipeline.micro_batches)
        joules = grown_to(costed[kind], blocks).joules(pipeline.micro_batches) / pipeline.micro_batches
        found |= _judged(f"stage{kind}", seconds, joules + seconds * accelerator.static_power_w, tdp_w)
    spans = zip(pipeline.kinds, pipeline.spans(), strict=True)
    stages = [grown_to(costed[kind], len(span)) for kind, span in spans]
    step = pipeline.step(stages, [accelerator.static_power_w] * len(stages))
    return found | _judged(name, step.seconds, step.energy_j, tdp_w * pipeline.plan.devices)


def _judged(name: str, seconds: float, joules: float, tdp_w: float) -> dict[str, float]:
    """Figures by which something is judged."""
    return {
        f"{name}.latency_s": seconds,
        f"{name}.energy_j": joules,
        f"{name}.edp_js": seconds * joules,
        f"{name}.tdp_energy_j": seconds * tdp_w,
    }
