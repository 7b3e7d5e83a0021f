"""Recomputation: drop saved activations and compute them again in backward, just before they are first read.

Gradients stay those of the plain step. A clone repeats its operator on the same values: what it reads is kept, or is a
clone itself; dropout replays its mask, which is a function of the seed; batch norm takes batch statistics again but
leaves the running ones alone. An operator is repeated at most once, and its clone lives until its last reader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from monet.graph.counts import KEPT_ANYWAY
from monet.graph.graph import Graph
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op, Phase
from monet.graph.rewrite import LASTING, is_inplace
from monet.graph.tensor import Tensor
from monet.transforms.checkpoint_plan import EARLY, CheckpointError, CheckpointPlan
from monet.transforms.compact import narrow_saved, without_unread
from monet.transforms.offload import offload


def recompute(graph: Graph, plan: CheckpointPlan) -> Graph:
    """The training step under ``plan``: dropped storages recomputed, narrow ones narrowed, others paged out."""
    plan = plan.checked(graph)
    if not plan.choices:
        return graph
    passes = corresponding_storages(graph)
    away = {other: ahead for name, ahead in plan.pages.items() for other in passes.get(name, (name,))}
    step = _recomputed(graph, plan)
    step = offload(without_unread(step, away), away) if away else step
    return step.made_by(graph.recipe.checkpointed(plan.to_dict())) if graph.recipe else step


def _recomputed(graph: Graph, plan: CheckpointPlan) -> Graph:
    passes = corresponding_storages(graph)
    narrow, dropped, kept = (
        {other for name in plan.named(choice) for other in passes.get(name, (name,))}
        for choice in ("narrow", "recompute", "keep")
    )
    graph = without_unread(narrow_saved(graph, narrow), dropped) if narrow else without_unread(graph, dropped)
    replay = Replay(graph)
    available = (replay.saved - dropped) | kept
    clones = replay.needed(available)
    return _with_clones(replay, available, clones) if clones else graph


def corresponding_storages(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Storage of the first pass → the storages that take its part in every pass of gradient accumulation."""
    passes: dict[int, list[Op]] = {}
    for op in graph.ops:
        if op.phase in EARLY:
            passes.setdefault(op.micro_batch, []).append(op)
    first = passes.get(0, [])
    found: dict[str, dict[str, None]] = {}
    for ops in passes.values():
        for original, other in zip(first, ops, strict=True):
            for name, twin in zip(original.outputs, other.outputs, strict=True):
                found.setdefault(graph.tensors[name].storage, {})[graph.tensors[twin].storage] = None
    return {name: tuple(twins) for name, twins in found.items()}


@dataclass(frozen=True)
class Replay:
    """What can be computed again in backward, and from what. Shared by the transform and by the searches."""

    graph: Graph

    @cached_property
    def position(self) -> dict[str, int]:
        """Tensor → index of the operator that writes it; roots are absent."""
        return {name: i for i, op in enumerate(self.graph.ops) for name in op.outputs}

    @cached_property
    def current(self) -> dict[str, bool]:
        """Tensor → whether its storage still holds its value once the forward pass is over.

        Each operator that computes in place starts a new version of a storage; only the last one survives.
        """
        version: dict[str, int] = {}
        written: dict[str, tuple[str, int]] = {}
        for name, tensor in self.graph.tensors.items():
            if name not in self.position:
                written[name] = (tensor.storage, version.setdefault(tensor.storage, 0))
        for op in self.graph.ops:
            view = self.is_view(op)
            for name in op.outputs:
                storage = self.graph.tensors[name].storage
                # a buffer's next value is for the next step (or pass); within the step nothing else writes roots
                if op.phase in EARLY and not view:
                    version[storage] = version.get(storage, -1) + 1
                written[name] = (storage, version.setdefault(storage, 0))
        return {name: version[storage] == number for name, (storage, number) in written.items()}

    @cached_property
    def saved(self) -> frozenset[str]:
        """Storages that forward or the loss writes and backward reads, in every pass."""
        read = (name for op in self.graph.ops if op.phase is Phase.BACKWARD for name in op.inputs)
        storages = (self.graph.storage_of(name) for name in read if self.is_early(name))
        return frozenset(storage.name for storage in storages if storage.role not in KEPT_ANYWAY)

    def is_view(self, op: Op) -> bool:
        """Whether nothing is executed. A reshape that its input's strides do not allow is a copy in its own storage."""
        read, written = ({self.graph.tensors[name].storage for name in names} for names in (op.inputs, op.outputs))
        return kind_named(op.kind).family is Family.VIEW and written <= read

    def is_early(self, name: str) -> bool:
        """Whether the forward pass (or the loss) makes this tensor."""
        position = self.position.get(name)
        return position is not None and self.graph.ops[position].phase in EARLY

    def is_there(self, name: str, available: Collection[str]) -> bool:
        """Whether backward can read ``name`` as it is: ``available`` are the storages that survive until then."""
        storage = self.graph.storage_of(name)
        if storage.role in KEPT_ANYWAY:
            return self.current[name]
        return not self.is_early(name) or (storage.name in available and self.current[name])

    def reads(self, op: Op) -> tuple[str, ...]:
        """What a clone of ``op`` reads: all but running statistics and the like."""
        return _without(op.inputs, kind_named(op.kind).once)

    def writes(self, op: Op) -> tuple[str, ...]:
        """What a clone of ``op`` writes."""
        return _without(op.outputs, kind_named(op.kind).once)

    def repeatable(self, op: Op) -> bool:
        """Whether ``op`` can be run a second time without changing a lasting value."""
        return self.is_view(op) or not any(self.graph.tensors[name].role in LASTING for name in self.writes(op))

    def needed(self, available: Collection[str]) -> frozenset[int]:
        """Indices of the operators to repeat so that every backward read finds its value."""
        ops, found = self.graph.ops, set[int]()
        waiting = [
            name for op in ops if op.phase is Phase.BACKWARD for name in op.inputs if not self.is_there(name, available)
        ]
        while waiting:
            name = waiting.pop()
            index = self.position.get(name, -1)
            if index in found:
                continue
            if index < 0 or not self.repeatable(ops[index]):
                raise CheckpointError(f"{name!r} cannot be recomputed: its value is overwritten during the step")
            found.add(index)
            waiting += [read for read in self.reads(ops[index]) if not self.is_there(read, available)]
        return frozenset(found)


def _without(names: tuple[str, ...], places: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(name for place, name in enumerate(names) if place not in places)


def _with_clones(replay: Replay, available: Collection[str], clones: frozenset[int]) -> Graph:
    """``replay.graph`` with the operators ``clones`` repeated in backward, each just before it is first needed."""
    graph = replay.graph
    tensors, renamed, ops = dict(graph.tensors), dict[str, str](), list[Op]()
    shared = _read_by_others(replay, clones)
    emitted: set[int] = set()
    for op in graph.ops:
        if op.phase is Phase.BACKWARD:
            missing = [name for name in op.inputs if not replay.is_there(name, available)]
            for index in _chain(replay, available, missing, emitted):
                ops.append(clone_operator(replay, graph.ops[index], op, renamed, tensors, index in shared))
            op = replace(op, inputs=tuple(renamed[name] if name in missing else name for name in op.inputs))
        ops.append(op)
    return replace(graph, tensors=tensors, ops=tuple(ops))


def _chain(replay: Replay, available: Collection[str], names: Iterable[str], emitted: set[int]) -> list[int]:
    """The operators still to be repeated before ``names`` can be read, in the order of the forward pass."""
    found, waiting = [], list(names)
    while waiting:
        index = replay.position[waiting.pop()]
        if index in emitted:
            continue
        emitted.add(index)
        found.append(index)
        reads = replay.reads(replay.graph.ops[index])
        waiting += [read for read in reads if not replay.is_there(read, available)]
    return sorted(found)


def _read_by_others(replay: Replay, clones: frozenset[int]) -> set[int]:
    """In-place operators whose clone may not overwrite its input, because another clone reads that version too."""
    graph = replay.graph
    readers: dict[str, set[int]] = {}
    for index in clones:
        for name in replay.reads(graph.ops[index]):
            readers.setdefault(name, set()).add(index)
    found = set()
    for index in clones:
        op = graph.ops[index]
        if not is_inplace(graph, op):
            continue
        same = same_version(replay, op.inputs[0], clones)
        others = {reader for name in same for reader in readers.get(name, ())} - {index}
        if any(not replay.is_view(graph.ops[reader]) for reader in others):
            found.add(index)
    return found


def same_version(replay: Replay, name: str, clones: frozenset[int]) -> set[str]:
    """``name`` and every view of the same value that the clones make."""
    graph, same = replay.graph, {name}
    start = graph.producer.get(name)
    while start is not None and replay.is_view(start):
        name = start.inputs[0]
        same.add(name)
        start = graph.producer.get(name)
    for index in sorted(clones):
        op = graph.ops[index]
        if replay.is_view(op) and op.inputs[0] in same:
            same.update(op.outputs)
    return same


def clone_operator(
    replay: Replay, op: Op, reader: Op, renamed: dict[str, str], tensors: dict[str, Tensor], own_storage: bool
) -> Op:
    """Repeat ``op`` for ``reader`` on what its inputs are called now; declares what it writes."""
    graph = replay.graph
    inputs = tuple(renamed.get(name, name) for name in replay.reads(op))
    reads = zip(replay.reads(op), inputs, strict=True)
    storages = {graph.tensors[name].storage: tensors[now].storage for name, now in reads}
    clone = _free_name(f"{op.name}/again", tensors)
    for name in replay.writes(op):
        tensor = graph.tensors[name]
        now = clone + name.removeprefix(op.name) if name.startswith(op.name) else _free_name(f"{name}/again", tensors)
        aliased = tensor.storage != name and not own_storage
        storage = storages.get(tensor.storage, now) if aliased else now
        tensors[now] = replace(tensor, name=now, storage=storage)
        renamed[name] = now
    outputs, part = tuple(renamed[name] for name in replay.writes(op)), reader.micro_batch
    return replace(
        op, name=clone, inputs=inputs, outputs=outputs, phase=Phase.BACKWARD, recompute=True, micro_batch=part
    )


def _free_name(name: str, tensors: dict[str, Tensor]) -> str:
    number, candidate = 1, name
    while candidate in tensors:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
