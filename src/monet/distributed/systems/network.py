"""The network as a device sees it: a port for each level, and collectives with the seconds that they occupy it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.collectives import CollectiveCost, collective_cost
from monet.distributed.systems.system import System
from monet.distributed.systems.topology import Span
from monet.graph.counts import call_of
from monet.graph.graph import Graph
from monet.graph.kind import Call, Family, kind_named
from monet.graph.op import Attributes, Op, Phase
from monet.graph.operators.collective import payload_bytes, sent_bytes
from monet.hardware.accelerator import Accelerator, Endpoint
from monet.hardware.ports import BOUNDLESS

MESSAGES = ("send", "receive")  # between stages: the pipeline times them


@dataclass(frozen=True)
class Network:
    """The groups of a plan on a system."""

    system: System
    plan: ParallelPlan

    @cached_property
    def spans(self) -> Mapping[str, tuple[Span, ...]]:
        """Where the groups that a collective may name lie."""
        plan, used = self.plan, self.plan.devices
        stage = plan.tensor * plan.data
        return {
            "tensor": self.system.spans(1, plan.tensor, used),
            "data": self.system.spans(plan.tensor, plan.data, used),
            "pipeline": self.system.spans(stage, min(2, plan.pipeline), used),
            "tied": self.system.spans(stage * max(1, plan.pipeline - 1), min(2, plan.pipeline), used),
        }

    def cost(self, kind: str, call: Call) -> CollectiveCost:
        """What a collective operator costs on its port."""
        group = self.spans[str(call.attrs["group"])]
        if kind in ("exchange_halo", "return_halo"):
            return collective_cost("send", sent_bytes(call, kind_named(kind)), group)
        return collective_cost("send" if kind in MESSAGES else kind, payload_bytes(call), group)

    def message(self, size_bytes: float) -> CollectiveCost:
        """What a message to the next stage costs."""
        return collective_cost("send", float(size_bytes), self.spans["pipeline"])

    def with_ports(self, device: Accelerator) -> Accelerator:
        """A device with a port to every level of the network."""
        ports = tuple(
            Endpoint(
                name=level.name,
                kind="network",
                bandwidth_bytes_per_s=level.device_bandwidth_bytes_per_s,
                latency_s=level.latency_s,
                energy_j_per_bit=level.energy_j_per_bit,
                capacity_bytes=BOUNDLESS,
                place=device.drams[0].name,
            )
            for level in self.system.levels
        )
        others = tuple(end for end in device.endpoints if end.kind != "network")
        return replace(device, endpoints=(*others, *ports))

    def key(self, groups: tuple[str, ...]) -> Hashable:
        """All of the network that a pass which names these groups depends on."""
        return self.system.levels, tuple((group, self.spans[group]) for group in groups)

    def timed(self, graph: Graph) -> Graph:
        """A graph whose collectives say how long they occupy which port; messages are the pipeline's."""
        return replace(graph, ops=tuple(self._timed(graph, op) for op in graph.ops))

    def _timed(self, graph: Graph, op: Op) -> Op:
        if not is_collective(op):
            return op
        if op.kind in MESSAGES:
            place = {"seconds": 0.0, "energy_j": 0.0, "endpoint": self.system.levels[0].name}
        else:
            cost = self.cost(op.kind, call_of(graph, op))
            port = _port(self.spans[str(op.attrs["group"])])
            place = {"seconds": cost.seconds, "energy_j": cost.total_energy_j, "endpoint": port}
        return replace(op, attrs=Attributes({**op.attrs, **place}))


def groups_of(graph: Graph, phases: Sequence[Phase]) -> tuple[str, ...]:
    """The groups that collectives of some phases name."""
    ours = (op for op in graph.ops if op.phase in phases and is_collective(op) and op.kind not in MESSAGES)
    return tuple(sorted({str(op.attrs["group"]) for op in ours}))


def is_collective(op: Op) -> bool:
    """Whether an operator works together with the same one on other ranks."""
    return kind_named(op.kind).family is Family.COLLECTIVE


def _port(group: tuple[Span, ...]) -> str:
    """The outermost level that a group reaches."""
    used = [span for span in group if span.count > 1]
    return (used or group)[-1].level.name
