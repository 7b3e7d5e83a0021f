"""Once per step: gradients added up over ranks, clipped by the norm of all of them, and the optimizer's update.

Every gradient is whole (or the rank's own part of it) when it is clipped: shares of tensor ranks are added up, then
those of replicas (all of it for everyone, or each replica its part), then those of stages that hold the same parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from monet.distributed.plan import ParallelPlan
from monet.distributed.transform.replicas import flattened, unflattened
from monet.graph import Graph, GraphBuilder, Phase, Role
from monet.graph.parts import Part
from monet.graph.rewrite import copy_root
from monet.training.optimizers import Optimizer, emit_update


@dataclass(frozen=True)
class Shared:
    """What a chunk's parameters have to do with other ranks. ``cut``: of which tensor ranks have parts; ``partial``: of
    whose gradients they have shares; ``tied``: parameter → the chunks that hold it; ``whole``: its shape, flattened or
    not, as one tensor rank has it."""

    cut: frozenset[str]
    partial: frozenset[str]
    tied: Mapping[str, tuple[int, ...]]
    whole: Mapping[str, tuple[int, ...]]


@dataclass
class Update:
    """Writes a chunk's update behind what is in ``builder``."""

    builder: GraphBuilder
    plan: ParallelPlan
    shared: Shared
    number: int

    def write(
        self, gradients: Mapping[str, str], optimizer: Optimizer, master: str, clip_norm: float | None
    ) -> dict[str, str]:
        """Gradients → what holds every parameter's and state's next value, by name of the root."""
        held = dict(gradients)
        plan, replicas = self.plan, self.plan.data
        shares = [name for name in held if name in self.shared.partial]
        self._reduced(held, shares, "tensor", plan.tensor)
        weights = {name: name for name in held}
        if replicas > 1 and plan.shard == "none":
            self._reduced(held, list(held), "data", replicas)
        elif replicas > 1:
            if plan.shard == "states":
                self._scattered(held)
            if plan.shard != "parameters":
                weights = {name: self._own(name) for name in held}
        for name, chunks in self.shared.tied.items():
            if name in held:
                self._reduced(held, [name], "tied", len(chunks), members=chunks)
        clip = self._clip(held, clip_norm) if clip_norm is not None else None
        updated: dict[str, str] = {}
        for name, gradient in held.items():
            names = emit_update(self.builder, optimizer, name, gradient, master, clip, weights[name])
            states = self.builder.ops[-1].inputs[2 : 1 + len(names)]
            updated |= dict(zip(states, names[1:], strict=True))
            updated[name] = names[0]
        if replicas > 1 and plan.shard in ("states", "gradients"):
            self._gathered(updated, list(held))
        return updated

    # --- sums over groups --------------------------------------------------------------------------------------------

    def _reduced(self, held: dict[str, str], names: Iterable[str], group: str, size: int, **more: Any) -> None:
        if size == 1:
            return
        for bucket in self._buckets(held, names):
            with self.builder.at(Phase.UPDATE, "synchronise"):
                given = (held[name] for name in bucket)
                made = self.builder.emit_all("all_reduce", *given, group=group, size=size, **more)
            held.update(zip(bucket, made, strict=True))

    def _scattered(self, held: dict[str, str]) -> None:
        replicas = self.plan.data
        for bucket in self._buckets(held, held):
            with self.builder.at(Phase.UPDATE, "synchronise"):
                flat = [flattened(self.builder, held[name], replicas, f"{name}/gradient") for name in bucket]
                made = self.builder.emit_all("reduce_scatter", *flat, axis=0, group="data", size=replicas)
            held.update(zip(bucket, made, strict=True))

    def _own(self, name: str) -> str:
        """The part of a parameter that this replica updates."""
        with self.builder.at(Phase.UPDATE, "synchronise"):
            flat = flattened(self.builder, name, self.plan.data, f"{name}/weight")
            part = Part.plain("data", self.plan.data, 0, self.builder.tensors[flat].elements)
            return self.builder.emit("shard", flat, name=f"{name}/own", parts=(tuple(part),))

    def _gathered(self, updated: dict[str, str], names: list[str]) -> None:
        for bucket in self._buckets(updated, names):
            with self.builder.at(Phase.UPDATE, "synchronise"):
                parts = (updated[name] for name in bucket)
                attrs = dict[str, Any](axis=0, group="data", size=self.plan.data, summed=False)
                made = self.builder.emit_all("all_gather", *parts, **attrs)
                for name, flat in zip(bucket, made, strict=True):
                    updated[name] = unflattened(self.builder, flat, self.shared.whole[name], f"{name}/next")

    def _buckets(self, held: Mapping[str, str], names: Iterable[str]) -> list[list[str]]:
        """Tensors of one format that are sent together, those whose gradients are known first in front."""
        order = {name: at for at, op in enumerate(self.builder.ops) for name in op.outputs}
        found: list[list[str]] = []
        filled: dict[str, tuple[list[str], int]] = {}
        for name in sorted(names, key=lambda name: order.get(held[name], -1)):
            tensor = self.builder.tensors[held[name]]
            bucket, size = filled.get(tensor.dtype, ([], 0))
            if not bucket or size + tensor.bytes > self.plan.bucket_bytes:
                bucket, size = [], 0
                found.append(bucket)
            bucket.append(name)
            filled[tensor.dtype] = bucket, size + tensor.bytes
        return found

    # --- clipping ----------------------------------------------------------------------------------------------------

    def _clip(self, held: Mapping[str, str], max_norm: float) -> str:
        """The coefficient by the norm of all gradients of all ranks; of a tied parameter the first chunk counts."""
        builder, plan = self.builder, self.plan
        first = {name for name in held if self.shared.tied.get(name, (self.number,))[0] == self.number}
        with builder.at(Phase.UPDATE, "clip"):
            parts = [builder.emit("square_sum", held[name]) for name in held if name in first & self.shared.cut]
            wholes = [builder.emit("square_sum", held[name]) for name in held if name in first - self.shared.cut]
            if parts and plan.tensor > 1:
                wholes.append(self._total(self._added(parts), "tensor", plan.tensor))
            else:
                wholes += parts
            total = self._added(wholes) if wholes else builder.emit("fill", shape=(), value=0.0, dtype="fp32")
            if plan.shard != "none":
                total = self._total(total, "data", plan.data)
            total = self._total(total, "pipeline", plan.chunks)
            return builder.emit("clip_coefficient", total, max_norm=max_norm)

    def _added(self, scalars: list[str]) -> str:
        total, *others = scalars
        for other in others:
            total = self.builder.emit("add", total, other)
        return total

    def _total(self, scalar: str, group: str, size: int) -> str:
        if size == 1:
            return scalar
        more = dict[str, Any](members=tuple(range(size))) if group == "pipeline" else {}
        return self.builder.emit("all_reduce", scalar, group=group, size=size, **more)


def accumulated(builder: GraphBuilder, gradients: Mapping[str, str], dtype: str) -> dict[str, str]:
    """Gradients added to roots that hold those of earlier micro-batches, in ``dtype`` or as they are."""
    found = {}
    for parameter, gradient in gradients.items():
        tensor = builder.tensors[gradient]
        root = builder.root(gradient_root(parameter), tensor.shape, dtype or tensor.dtype, Role.GRADIENT)
        builder.tensors[root] = replace(builder.tensors[root], gradient_of=parameter)
        with builder.at(Phase.BACKWARD, parameter.rpartition(".")[0] or parameter, parameter):
            if builder.tensors[root].dtype != tensor.dtype:
                gradient = builder.emit("cast", gradient, dtype=dtype)
            found[parameter] = builder.emit("add", root, gradient, name="accumulate", inplace=True)
        builder.mark_gradient(found[parameter], parameter)
    return found


def gradient_root(parameter: str) -> str:
    """The root that holds a parameter's gradient between micro-batches, and until the update."""
    return f"{parameter}.gradient"


def update_roots(micro: Graph, gradients: Mapping[str, str]) -> tuple[GraphBuilder, dict[str, str]]:
    """A builder with the roots that an update by itself reads, and what gradients are called there."""
    builder, names = GraphBuilder(f"{micro.name} update"), {}
    for parameter, gradient in gradients.items():
        copy_root(builder, micro, micro.tensors[parameter])
        tensor = micro.tensors[gradient]
        names[parameter] = builder.root(gradient_root(parameter), tensor.shape, tensor.dtype, Role.GRADIENT)
        builder.tensors[names[parameter]] = replace(builder.tensors[names[parameter]], gradient_of=parameter)
    return builder, names
