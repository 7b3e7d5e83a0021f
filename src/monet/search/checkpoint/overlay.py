"""The overlay: a training step with every operator that backward could need again beside it, dormant.

A checkpoint plan wakes some of them and says whether each reader finds a kept storage or a recomputed one. What an
operator looks like is analysed once, for each combination of storages it is found to read; a plan then only puts the
list together. ``transforms.recompute`` stays the definition: names, clones and their order are its own, and a test
shows that both cost the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property

from monet.graph.graph import Graph
from monet.graph.op import Op, Phase
from monet.graph.rewrite import is_inplace
from monet.graph.tensor import Tensor
from monet.schedule.workload import (
    Operator,
    Storage,
    Workload,
    flags_of,
    left_behind,
    operator_of,
    storage_of,
    workload_of,
)
from monet.transforms.checkpoint_plan import EARLY, CheckpointError, CheckpointPlan
from monet.transforms.compact import narrow_saved, without_unread
from monet.transforms.offload import offload
from monet.transforms.recompute import Replay, clone_operator, corresponding_storages, same_version

MOST_NARROWED = 64  # sets of narrowed storages whose analysis is kept

There = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Live:
    """An operator as some plan has it; ``operator`` is None for a view. ``outputs``: the tensors a clone writes."""

    op: Op
    operator: Operator | None
    outputs: tuple[tuple[str, Tensor], ...] = ()  # name of the original, tensor


class Overlay:
    """One training step, and the workload that any checkpoint plan turns it into."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.passes = corresponding_storages(graph)
        self._supersets: dict[frozenset[str], Superset] = {}
        self._paged: dict[tuple[object, ...], Operator | None] = {}  # operators as pages change them

    def workload(self, plan: CheckpointPlan) -> Workload:
        """The workload of ``recompute(graph, plan)``."""
        narrow, dropped, kept = (self._storages(plan, choice) for choice in ("narrow", "recompute", "keep"))
        found = self._superset(narrow).workload(dropped, kept)
        away = {other: ahead for name, ahead in plan.pages.items() for other in self.passes.get(name, (name,))}
        return self._with_pages(found, offload(without_unread(found.graph, away), away)) if away else found

    def _with_pages(self, before: Workload, graph: Graph) -> Workload:
        """The workload of a graph with pages, given that of the same graph without: what did not change is known."""
        known = {operator.op.name: operator for operator in before.operators}
        old, now = before.graph.tensors, graph.tensors
        same = {id(op) for op in before.graph.ops}
        operators, storages, results = list[Operator](), dict(before.storages), left_behind(graph)
        for op in graph.ops:
            names = (*op.inputs, *op.outputs)
            if id(op) in same and all(now[name] is old[name] for name in names):
                found = known.get(op.name)
            else:
                key = (op.name, *((name, now[name].storage) for name in names))
                if key not in self._paged:
                    self._paged[key] = operator_of(graph, op, 0)
                found = self._paged[key]
                for name in names:
                    storage = now[name].storage
                    if storage not in storages:
                        storages[storage] = storage_of(graph, storage, len(storages), results)
            if found is not None:
                at = len(operators)
                operators.append(found if found.number == at else replace(found, number=at))
        return Workload(graph, tuple(operators), storages, flags_of(storages), before.ranges)

    def _storages(self, plan: CheckpointPlan, choice: str) -> frozenset[str]:
        return frozenset(other for name in plan.named(choice) for other in self.passes.get(name, (name,)))

    def _superset(self, narrow: frozenset[str]) -> Superset:
        if narrow not in self._supersets:
            if len(self._supersets) >= MOST_NARROWED:
                self._supersets.clear()
            graph = narrow_saved(self.graph, narrow) if narrow else self.graph
            self._supersets[narrow] = Superset(graph)
        return self._supersets[narrow]


class Superset:
    """All clones that some plan may wake, for a graph whose narrowed storages are settled."""

    def __init__(self, graph: Graph) -> None:
        self.plain = graph
        self.graph = without_unread(graph, Replay(graph).saved)
        self.replay = Replay(self.graph)
        self._clones: dict[tuple[object, ...], Live] = {}
        self._readers: dict[tuple[object, ...], Live] = {}
        self._storages: dict[str, Storage] = dict(self.base.storages)
        self._flags = self.base.storage_flags

    @cached_property
    def base(self) -> Workload:
        """The plain step."""
        return workload_of(self.graph)

    @cached_property
    def _before(self) -> list[int]:
        """By operator of the graph: how many executed operators stand before it."""
        executed = {operator.op.name for operator in self.base.operators}
        found = [0]
        for op in self.graph.ops:
            found.append(found[-1] + (op.name in executed))
        return found

    @cached_property
    def _fate(self) -> dict[str, int]:
        """Tensor that the forward pass makes → 1 if it lasts as long as its storage is kept, 2 if it is overwritten
        before backward. Tensors that are always there are absent."""
        everything = self.replay.saved | {tensor.storage for tensor in self.graph.tensors.values()}
        found: dict[str, int] = {}
        for name in self.graph.tensors:
            if not self.replay.is_there(name, ()):
                found[name] = 1 if self.replay.is_there(name, everything) else 2
        return found

    @cached_property
    def _reads(self) -> dict[int, tuple[tuple[str, str, int], ...]]:
        """Operator index → (tensor, storage, fate) of what its clone (or, in backward, itself) may find missing."""
        found: dict[int, tuple[tuple[str, str, int], ...]] = {}
        for index, op in enumerate(self.graph.ops):
            names = op.inputs if op.phase is Phase.BACKWARD else self.replay.reads(op) if op.phase in EARLY else ()
            fates = ((name, self._fate[name]) for name in names if name in self._fate)
            found[index] = tuple((name, self.graph.tensors[name].storage, fate) for name, fate in fates)
        return found

    @cached_property
    def _repeatable(self) -> frozenset[int]:
        """Operators whose results can be recomputed."""
        ops, replay = self.graph.ops, self.replay
        return frozenset(index for index in replay.position.values() if replay.repeatable(ops[index]))

    @cached_property
    def _backward(self) -> tuple[int, ...]:
        """Backward operators that read something the forward pass makes."""
        ops = self.graph.ops
        return tuple(i for i, op in enumerate(ops) if op.phase is Phase.BACKWARD and self._reads[i])

    @cached_property
    def _other_readers(self) -> dict[int, frozenset[int]]:
        """In-place operator → operators that read the version it overwrites: no clone may overwrite it before them."""
        graph, replay = self.graph, self.replay
        early = frozenset(i for i, op in enumerate(graph.ops) if op.phase in EARLY)
        readers: dict[str, set[int]] = {}
        for index in early:
            if not replay.is_view(graph.ops[index]):
                for name in replay.reads(graph.ops[index]):
                    readers.setdefault(name, set()).add(index)
        found: dict[int, frozenset[int]] = {}
        for index in early:
            if is_inplace(graph, graph.ops[index]):
                same = same_version(replay, graph.ops[index].inputs[0], early)
                found[index] = frozenset(reader for name in same for reader in readers.get(name, ())) - {index}
        return found

    # --- one plan -----------------------------------------------------------------------------------------------------

    def workload(self, dropped: Collection[str], kept: Collection[str]) -> Workload:
        """The workload with ``dropped`` storages recomputed, starting also from ``kept`` ones."""
        available = (self.replay.saved - frozenset(dropped)) | frozenset(kept)
        chains = self._chains(available)
        if not chains:
            return workload_of(self.plain)
        clones = {index for _, chain, _ in chains for index in chain}
        ops, operators = list[Op](), list[Operator]()
        tensors, renamed = dict(self.graph.tensors), dict[str, Tensor]()
        done = 0
        for reader, chain, missing in chains:
            ops += self.graph.ops[done:reader]
            operators += self.base.operators[self._before[done] : self._before[reader]]
            for index in chain:
                own = not self._other_readers.get(index, frozenset()).isdisjoint(clones)
                live = self._clone(index, reader, own, renamed, tensors)
                for name, tensor in live.outputs:
                    renamed[name] = tensors[tensor.name] = tensor
                ops.append(live.op)
                if live.operator is not None:
                    operators.append(live.operator)
            live = self._reader(reader, missing, renamed, tensors)
            ops.append(live.op)
            if live.operator is not None:
                operators.append(live.operator)
            done = reader + 1
        ops += self.graph.ops[done:]
        operators += self.base.operators[self._before[done] :]
        graph = replace(self.graph, tensors=tensors, ops=tuple(ops))
        for tensor in renamed.values():
            if tensor.storage not in self._storages:
                number = len(self._storages)
                self._storages[tensor.storage] = storage_of(graph, tensor.storage, number, left_behind(graph))
        numbered = tuple(live if live.number == at else replace(live, number=at) for at, live in enumerate(operators))
        if len(self._flags) != len(self._storages) + 1:
            self._flags = flags_of(self._storages)
        return Workload(graph, numbered, self._storages, self._flags, self.base.ranges)

    def _chains(self, available: Collection[str]) -> list[tuple[int, list[int], list[str]]]:
        """(backward operator, operators repeated before it, tensors it reads from clones) in order."""
        reads, position, emitted = self._reads, self.replay.position, set[int]()
        found = []
        for reader in self._backward:
            missing = [name for name, storage, fate in reads[reader] if fate == 2 or storage not in available]
            if not missing:
                continue
            chain, waiting = list[int](), list(missing)
            while waiting:
                name = waiting.pop()
                index = position.get(name, -1)
                if index in emitted:
                    continue
                if index not in self._repeatable:
                    raise CheckpointError(f"{name!r} cannot be recomputed: its value is overwritten during the step")
                emitted.add(index)
                chain.append(index)
                waiting += [operand for operand, storage, fate in reads[index] if fate == 2 or storage not in available]
            found.append((reader, sorted(chain), missing))
        return found

    def _clone(
        self, index: int, reader: int, own: bool, renamed: dict[str, Tensor], tensors: dict[str, Tensor]
    ) -> Live:
        op, ops = self.graph.ops[index], self.graph.ops
        now = tuple(renamed.get(name) for name in self.replay.reads(op))
        key = (index, own, *((tensor.name, tensor.storage) if tensor is not None else None for tensor in now))
        if key not in self._clones:
            names = {name: tensor.name for name, tensor in renamed.items()}
            declared = dict(tensors)
            clone = clone_operator(self.replay, op, ops[reader], names, declared, own)
            outputs = zip(self.replay.writes(op), clone.outputs, strict=True)
            self._clones[key] = Live(
                clone,
                self._analysed(clone, declared),
                tuple((name, declared[again]) for name, again in outputs),
            )
        return self._clones[key]

    def _reader(self, index: int, missing: list[str], renamed: dict[str, Tensor], tensors: dict[str, Tensor]) -> Live:
        key = (index, *((name, renamed[name].storage) for name in missing))
        if key not in self._readers:
            op = self.graph.ops[index]
            gone = set(missing)
            op = replace(op, inputs=tuple(renamed[name].name if name in gone else name for name in op.inputs))
            self._readers[key] = Live(op, self._analysed(op, tensors))
        return self._readers[key]

    def _analysed(self, op: Op, tensors: dict[str, Tensor]) -> Operator | None:
        return operator_of(replace(self.graph, tensors=tensors, ops=()), op, 0)
