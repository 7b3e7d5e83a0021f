"""What the programs of a plan say of bytes: sent between ranks, and kept from forward to backward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from monet.distributed.transform.blocks import is_numbered
from monet.distributed.transform.stages import RankGraphs, Stage
from monet.graph import Graph, Phase
from monet.graph.counts import call_of, saved_for_backward
from monet.graph.kind import kind_named
from monet.graph.operators.collective import sent_bytes
from monet.transforms.checkpoint_baselines import block_of


def sent_bytes_of(graph: Graph) -> Mapping[tuple[str, str], float]:
    """Bytes that a rank sends when it runs ``graph`` once, by group and kind of operator."""
    found: Counter[tuple[str, str]] = Counter()
    for op in graph.ops:
        kind = kind_named(op.kind)
        if kind.sent_bytes:
            found[op.attrs["group"], op.kind] += sent_bytes(call_of(graph, op), kind)  # type: ignore[assignment]
    return found


def sent_bytes_by_group(graphs: RankGraphs) -> dict[tuple[str, str], float]:
    """Bytes of one step, one rank of every chunk added up, by group and kind of operator. The graphs have all layers:
    of shortened ones this is less."""
    found: dict[tuple[str, str], float] = {}
    for stage in graphs.stages:
        for graph, times in ((stage.micro, graphs.micro_batches), (stage.update, 1)):
            for key, size in sent_bytes_of(graph).items():
                found[key] = found.get(key, 0.0) + times * size
    return {key: size for key, size in found.items() if size}


@dataclass(frozen=True)
class Activations:
    """Bytes that a chunk keeps of one micro-batch from forward to backward: of its layers (blocks) with their inputs,
    and of what comes before and after them (embedding, head, loss)."""

    layers: int
    others: int


def activations(stage: Stage) -> Activations:
    """What a chunk keeps of one micro-batch. Blocks that its graphs leave out count like those they have."""
    graph, runs = stage.micro, list[str]()
    for op in graph.ops:
        block = block_of(op)
        if is_numbered(block) and block not in runs:
            runs.append(block)
    times: dict[str, float] = {}
    names = iter(runs)
    for blocks, kept in zip(stage.blocks, stage.kept, strict=True):
        times |= {name: blocks / kept for name, _ in zip(names, range(kept), strict=False)}
    layers, others = 0.0, 0
    for saved in saved_for_backward(graph):
        block = _home(graph, saved.tensor.name)
        if block in times:
            layers += times[block] * saved.bytes
        else:
            others += saved.bytes
    return Activations(round(layers), others)


def _home(graph: Graph, storage: str) -> str:
    """The block that a saved value counts for: the one that makes it and works on with it, or whose input it is."""
    maker = block_of(graph.producer[storage])
    readers = [block_of(op) for op in graph.consumers[storage] if op.phase in (Phase.FORWARD, Phase.LOSS)]
    return maker if maker in readers or not readers else readers[0]
