"""Exact counts: multiply-accumulates by phase, saved bytes by storage, state bytes, classes of equal operators."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass

from monet.graph.graph import Graph
from monet.graph.kind import MAC_FAMILIES, Call, kind_named
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Op, Phase
from monet.graph.tensor import Role, Tensor

KEPT_ANYWAY = frozenset({Role.INPUT, Role.LABEL, Role.PARAMETER, Role.BUFFER, Role.STATE, Role.CONSTANT})


def call_of(graph: Graph, op: Op) -> Call:
    """The operator with its tensors resolved."""
    tensors = graph.tensors
    return Call(tuple(tensors[name] for name in op.inputs), tuple(tensors[name] for name in op.outputs), op.attrs)


def work_of(graph: Graph, op: Op) -> dict[str, int]:
    """Scalar operations by function; ``mac`` is a multiply-accumulate."""
    return dict(kind_named(op.kind).work(call_of(graph, op)))


def nest_of(graph: Graph, op: Op) -> LoopNest | None:
    """The operator's loop nest; None for views, which execute nothing."""
    rule = kind_named(op.kind).nest
    return rule(call_of(graph, op)) if rule else None


def signature(graph: Graph, op: Op) -> str:
    """Content hash of what decides an operator's cost: kind, loop nest, dtypes. Equal signatures cost the same."""
    nest, call = nest_of(graph, op), call_of(graph, op)
    shapes = tuple((tensor.shape, tensor.dtype) for tensor in (*call.inputs, *call.outputs))
    key = (op.kind, nest.canonical() if nest else (), shapes, op.attrs.get("wanted", ()))
    return hashlib.blake2b(repr(key).encode(), digest_size=12).hexdigest()


def equal_classes(graph: Graph) -> dict[str, tuple[Op, ...]]:
    """Operators grouped by signature, so that later stages cost each class once."""
    classes: dict[str, list[Op]] = defaultdict(list)
    for op in graph.ops:
        classes[signature(graph, op)].append(op)
    return {key: tuple(ops) for key, ops in classes.items()}


# --- work -----------------------------------------------------------------------------------------------------------


def part_of(graph: Graph, op: Op) -> str:
    """The column an operator's work belongs to: forward, recomputation, input_gradient, weight_gradient or update."""
    if op.recompute:
        return "recomputation"
    if op.phase is Phase.UPDATE:
        return "update"
    if op.phase is not Phase.BACKWARD:
        return "forward"
    for name in op.outputs:
        target = graph.tensors[name].gradient_of
        if target and graph.storage_of(target).role is Role.PARAMETER:
            return "weight_gradient"
    return "input_gradient"


def macs_of(graph: Graph, op: Op) -> int:
    """Multiply-accumulates of the matmul and convolution families; zero for everything else."""
    return work_of(graph, op).get("mac", 0) if kind_named(op.kind).family in MAC_FAMILIES else 0


@dataclass(frozen=True, slots=True)
class WorkByPart:
    """Multiply-accumulates of a step, by part."""

    forward: int
    input_gradient: int
    weight_gradient: int
    recomputation: int = 0

    @property
    def backward(self) -> int:
        """Both gradients together, recomputation left out."""
        return self.input_gradient + self.weight_gradient

    @property
    def total(self) -> int:
        """The whole step."""
        return self.forward + self.recomputation + self.backward

    def as_dict(self, scale: int = 1) -> dict[str, int]:
        """Named columns, each times ``scale`` (2 turns multiply-accumulates into FLOPs). ``recomputation`` is there if
        something is recomputed."""
        again = ("recomputation",) if self.recomputation else ()
        columns = ("forward", *again, "input_gradient", "weight_gradient", "backward", "total")
        return {column: scale * getattr(self, column) for column in columns}


def macs_by_part(graph: Graph) -> WorkByPart:
    """Multiply-accumulates of the whole graph by part."""
    totals: Counter[str] = Counter()
    for op in graph.ops:
        totals[part_of(graph, op)] += macs_of(graph, op)
    return WorkByPart(totals["forward"], totals["input_gradient"], totals["weight_gradient"], totals["recomputation"])


def macs_by_kind(graph: Graph) -> dict[str, dict[str, int]]:
    """Part → operator kind → multiply-accumulates."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for op in graph.ops:
        macs = macs_of(graph, op)
        if macs:
            table[part_of(graph, op)][op.kind] += macs
    return {part: dict(kinds) for part, kinds in table.items()}


# --- memory ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Saved:
    """One storage kept from forward to backward. ``kept_by`` names the kinds of backward operators that need it.

    ``name`` is the tensor backward reads; where it reads several views of the storage, the storage's own.
    """

    name: str
    tensor: Tensor
    bytes: int
    made_by: str
    kept_by: tuple[str, ...]


def saved_for_backward(graph: Graph, micro_batch: int = 0) -> tuple[Saved, ...]:
    """Every storage that forward (or the loss) writes and backward reads, once each, largest first.

    Parameters, buffers, inputs and labels are kept anyway and are left out. With gradient accumulation the passes
    reuse the same memory, so one of them is counted.
    """
    early = (Phase.FORWARD, Phase.LOSS)
    readers: dict[str, list[str]] = defaultdict(list)
    names: dict[str, set[str]] = defaultdict(set)
    for op in graph.ops:
        if op.phase is Phase.BACKWARD and op.micro_batch == micro_batch:
            for name in op.inputs:
                readers[graph.tensors[name].storage].append(op.kind)
                names[graph.tensors[name].storage].add(name)
    result = []
    for storage, kinds in readers.items():
        owner = graph.tensors[storage]
        producer = graph.producer.get(storage)
        if producer is None or producer.phase not in early or owner.role in KEPT_ANYWAY:
            continue
        name = next(iter(names[storage])) if len(names[storage]) == 1 else storage
        maker = graph.producer[name].kind
        result.append(Saved(name, owner, owner.bytes, maker, tuple(dict.fromkeys(kinds))))
    return tuple(sorted(result, key=lambda saved: (-saved.bytes, saved.name)))


def saved_bytes(graph: Graph) -> int:
    """Bytes kept from forward to backward, each storage once."""
    return sum(saved.bytes for saved in saved_for_backward(graph))


def role_bytes(graph: Graph, role: Role) -> int:
    """Bytes of all root tensors of one role."""
    return sum(tensor.bytes for tensor in graph.role(role))


def parameter_count(graph: Graph, trainable_only: bool = False) -> int:
    """Number of parameter elements, tied ones once."""
    return sum(tensor.elements for tensor in graph.parameters if tensor.trainable or not trainable_only)
