"""What a checkpoint search decides about: values that can be kept, operators that can be repeated, and who needs what.

A value is what one operator leaves in one storage; a later in-place operator makes another value of the same storage,
and only the last one survives the forward pass, so only that one can be kept. Views are the value they look at. Of
several passes of gradient accumulation the first is described: they are alike and reuse the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from monet.graph.counts import KEPT_ANYWAY, macs_of
from monet.graph.graph import Graph
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.graph.op import Op, Phase
from monet.transforms.checkpoint_plan import EARLY, CheckpointPlan
from monet.transforms.compact import narrowed_bytes
from monet.transforms.recompute import Replay

COUNTING = "2 per multiply-accumulate of matmuls and convolutions, 1 per element any other operator writes"


def flops_cost(graph: Graph, op: Op) -> int:
    """Work of one operator: FLOPs of the matmul and convolution families, else one per element it writes."""
    if kind_named(op.kind).family in MAC_FAMILIES:
        return 2 * macs_of(graph, op)
    return sum(graph.tensors[name].elements for name in op.outputs)


@dataclass(frozen=True, slots=True)
class Value:
    """What one operator left in a storage. ``maker`` indexes ``CheckpointProblem.operators``.

    ``bytes`` is what keeping it costs, -1 when it is overwritten before the forward pass ends and cannot be kept.
    ``needed`` says that backward reads it; ``narrowed_bytes`` is the size of what would be enough for that (a ReLU's
    sign bits, a pool's winning taps), equal to ``bytes`` where it takes the whole value.
    """

    storage: str
    maker: int
    bytes: int
    needed: bool
    narrowed_bytes: int

    @property
    def keepable(self) -> bool:
        """Whether the value can survive until backward."""
        return self.bytes >= 0

    @property
    def narrowable(self) -> bool:
        """Whether backward could do with less."""
        return self.narrowed_bytes < self.bytes


@dataclass(frozen=True, slots=True)
class Operator:
    """A forward operator that backward may repeat. ``reads`` and ``writes`` index ``CheckpointProblem.values``."""

    name: str
    cost: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    repeatable: bool


@dataclass(frozen=True)
class CheckpointProblem:
    """Keep or recompute: values and operators of one forward pass, in execution order.

    ``forward_cost`` is the cost of every operator of the pass once; ``keep_all_bytes`` what the plain step keeps.
    ``value_of_tensor`` finds a tensor's value, views included.
    """

    values: tuple[Value, ...]
    operators: tuple[Operator, ...]
    forward_cost: int
    keep_all_bytes: int
    saved: frozenset[str]
    value_of_tensor: Mapping[str, int]

    @cached_property
    def value_of_storage(self) -> Mapping[str, int]:
        """Storage → its value that can be kept."""
        return {value.storage: index for index, value in enumerate(self.values) if value.keepable}

    def repeated(self, kept: frozenset[int], narrowed: frozenset[int] = frozenset()) -> frozenset[int]:
        """Operators that have to run again when just these values survive, whole or narrowed."""
        found: set[int] = set()
        enough = kept | narrowed
        waiting = [i for i, value in enumerate(self.values) if value.needed and i not in enough]
        while waiting:
            maker = self.values[waiting.pop()].maker
            if maker not in found:
                found.add(maker)
                waiting += [i for i in self.operators[maker].reads if i not in kept]
        return frozenset(found)

    def useful(self, kept: frozenset[int], narrowed: frozenset[int] = frozenset()) -> frozenset[int]:
        """Those of ``kept`` that something reads: backward, or an operator that runs again."""
        read = {i for operator in self.repeated(kept, narrowed) for i in self.operators[operator].reads}
        return frozenset(i for i in kept if i in read or (self.values[i].needed and i not in narrowed))

    def cost(self, kept: frozenset[int], narrowed: frozenset[int] = frozenset()) -> int:
        """Work that is repeated when just these values survive."""
        return sum(self.operators[i].cost for i in self.repeated(kept, narrowed))

    def bytes(self, kept: frozenset[int], narrowed: frozenset[int] = frozenset()) -> int:
        """Bytes of what survives."""
        whole = sum(self.values[i].bytes for i in kept)
        return whole + sum(self.values[i].narrowed_bytes for i in narrowed)

    def plan(self, kept: frozenset[int], narrowed: frozenset[int] = frozenset()) -> CheckpointPlan:
        """The plan under which just these values survive."""
        storages = {self.values[i].storage for i in self.useful(kept, narrowed)}
        narrow = {self.values[i].storage for i in narrowed}
        plan = dict.fromkeys(self.saved - storages - narrow, "recompute") | dict.fromkeys(storages - self.saved, "keep")
        return CheckpointPlan(plan | dict.fromkeys(narrow, "narrow"))

    def surviving(self, plan: CheckpointPlan) -> tuple[frozenset[int], frozenset[int]]:
        """The values that a plan keeps whole (those it offloads included), and those it narrows."""
        narrow = {name for name in plan.named("narrow") if self.values[self.value_of_storage[name]].narrowable}
        storages = (self.saved - set(plan.named("recompute")) - narrow) | set(plan.named("keep"))
        kept, narrowed = ({self.value_of_storage[name] for name in names} for names in (storages, narrow))
        return frozenset(kept), frozenset(narrowed)


def problem_of(graph: Graph, cost: Callable[[Graph, Op], int] = flops_cost) -> CheckpointProblem:
    """The keep-or-recompute problem of a training step."""
    replay = Replay(graph)
    forward = [op for op in graph.ops if op.phase in EARLY and op.micro_batch == 0]
    value_of, drafts = _values(replay, forward)
    needed, saved = _needed(replay, value_of)
    narrow, values = narrowed_bytes(graph), []
    for i, (name, storage, maker) in enumerate(drafts):
        size = graph.tensors[storage].bytes if replay.current[name] else -1
        values.append(Value(storage, maker, size, i in needed, narrow.get(storage, size) if i in needed else size))
    executed = [op for op in forward if not replay.is_view(op)]
    operators = tuple(
        Operator(
            op.name,
            cost(graph, op),
            tuple(dict.fromkeys(value_of[name] for name in replay.reads(op) if name in value_of)),
            tuple(value_of[name] for name in replay.writes(op) if name in value_of),
            replay.repeatable(op) and not any(_is_lost(replay, name, value_of) for name in replay.reads(op)),
        )
        for op in executed
    )
    return CheckpointProblem(
        tuple(values),
        operators,
        sum(operator.cost for operator in operators),
        sum(graph.tensors[storage].bytes for storage in saved),
        frozenset(saved),
        value_of,
    )


def _values(replay: Replay, forward: list[Op]) -> tuple[dict[str, int], list[tuple[str, str, int]]]:
    """Tensor → value, and for each value (a tensor of it, its storage, the operator that makes it)."""
    graph, value_of, drafts, number = replay.graph, dict[str, int](), list[tuple[str, str, int]](), 0
    for op in forward:
        view = replay.is_view(op)
        for name in op.outputs:
            storage = graph.storage_of(name)
            if storage.role in KEPT_ANYWAY:
                continue
            if view:
                value_of[name] = next(
                    value_of[read] for read in op.inputs if graph.tensors[read].storage == storage.name
                )
            else:
                value_of[name] = len(drafts)
                drafts.append((name, storage.name, number))
        number += not view
    return value_of, drafts


def _needed(replay: Replay, value_of: dict[str, int]) -> tuple[set[int], set[str]]:
    """Values whose elements backward reads, and storages that the plain step keeps for it."""
    needed, saved = set(), set()
    for op in replay.graph.ops:
        if op.phase is Phase.BACKWARD and op.micro_batch == 0:
            retained = kind_named(op.kind).retained
            for slot, name in enumerate(op.inputs):
                if name in value_of:
                    saved.add(replay.graph.tensors[name].storage)
                    if slot not in retained:
                        needed.add(value_of[name])
    return needed, saved


def _is_lost(replay: Replay, name: str, value_of: dict[str, int]) -> bool:
    """Whether a root's value is overwritten by the step, so that nothing that reads it can be repeated."""
    return name not in value_of and not replay.current[name]
