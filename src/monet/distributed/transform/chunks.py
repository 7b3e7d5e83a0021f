"""Pipeline chunks: a forward graph cut between operators. What crosses a cut is received by the next chunk and sent by
the one before, through chunks in between; what depends on no data (masks, positions) every chunk makes by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from monet.graph import Graph, GraphBuilder, Op, Phase, Role
from monet.graph.rewrite import copy_root, replay_op

GROUP: dict[str, Any] = {"group": "pipeline", "size": 2}  # a message has two ends


@dataclass(frozen=True)
class Chunk:
    """The forward graph of one chunk. ``received`` are the tensors that came from the chunk before, ``sent`` the token
    of what went to the next one: the chunk's own end of the backward pass."""

    graph: Graph
    received: tuple[str, ...]
    sent: str


def cut_into_chunks(graph: Graph, spans: Sequence[range], numbers: Sequence[int]) -> list[Chunk]:
    """The chunks of a forward graph whose operators lie in ``spans``, called by ``numbers``."""
    free = _dataless(graph)
    if len(spans) == 1:
        return [Chunk(graph, (), "")]
    made = [{name for at in span for name in graph.ops[at].outputs} for span in spans]
    needs: list[dict[str, None]] = [{} for _ in spans]
    for number in reversed(range(1, len(spans))):
        read = [name for at in spans[number] for name in _reads(graph, graph.ops[at], free)]
        own = made[number] | free
        onward = needs[number + 1] if number + 1 < len(spans) else {}
        needs[number] = {name: None for name in (*read, *onward) if name in graph.producer and name not in own}
    needs.append({})
    return [
        _chunk(graph, span, numbers[at], tuple(needs[at]), tuple(needs[at + 1]), free) for at, span in enumerate(spans)
    ]


def _dataless(graph: Graph) -> frozenset[str]:
    """Tensors made of constants alone."""
    found: set[str] = set()
    for op in graph.ops:
        constants = (name in found or _is_constant(graph, name) for name in op.inputs)
        if all(constants) and op.kind != "receive":
            found.update(op.outputs)
    return frozenset(found)


def _is_constant(graph: Graph, name: str) -> bool:
    return name not in graph.producer and graph.tensors[name].role is Role.CONSTANT


def _reads(graph: Graph, op: Op, free: frozenset[str]) -> list[str]:
    return [name for name in op.inputs if name not in free]


def _chunk(
    graph: Graph, span: range, number: int, received: tuple[str, ...], sent: tuple[str, ...], free: frozenset[str]
) -> Chunk:
    ops = _with_sources(graph, [graph.ops[at] for at in span], free)
    builder, renamed = GraphBuilder(graph.name), dict[str, str]()
    builder.usual_loss = graph.usual_loss
    used = {name for op in ops for name in op.inputs}
    for name, tensor in graph.tensors.items():
        if name in used and name not in graph.producer:
            renamed[name] = copy_root(builder, graph, tensor)
    if received:
        tensors = [graph.tensors[name] for name in received]
        shapes, dtypes = tuple(x.shape for x in tensors), tuple(x.dtype for x in tensors)
        names = builder.emit_all("receive", name="receive", shapes=shapes, dtypes=dtypes, peer=number - 1, **GROUP)
        renamed.update(zip(received, names, strict=True))
    for op in ops:
        replay_op(builder, graph, op, renamed)
    token = ""
    if sent:
        last = builder.ops[-1].layer
        token = builder.emit("send", *(renamed[name] for name in sent), name="send", peer=number + 1, **GROUP)
        builder.ops[-1] = replace(builder.ops[-1], layer=last, phase=Phase.FORWARD)
    outputs = [renamed[name] for name in graph.outputs if name in renamed and name not in received]
    loss = "" if sent else renamed.get(graph.loss, "")
    made = builder.build([*outputs, *([token] if token else [])], loss)
    return Chunk(made, tuple(renamed[name] for name in received), token)


def _with_sources(graph: Graph, ops: list[Op], free: frozenset[str]) -> list[Op]:
    """Operators with those of other chunks that make what they read from constants alone."""
    own, waiting, more = {op.name for op in ops}, [name for op in ops for name in op.inputs], dict[str, Op]()
    while waiting:
        name = waiting.pop()
        if name in free and (op := graph.producer[name]).name not in own and op.name not in more:
            more[op.name] = op
            waiting += op.inputs
    order = {op.name: at for at, op in enumerate(graph.ops)} if more else {}
    return [*sorted(more.values(), key=lambda op: order[op.name]), *ops]
