"""What a chunk computes again in backward: the named policies as checkpoint plans, and what forward had gathered."""

from __future__ import annotations

from collections.abc import Sequence

from monet.distributed.plan import ParallelPlan
from monet.distributed.transform.blocks import is_numbered
from monet.errors import nearest
from monet.graph import Graph, Op, Phase
from monet.graph.counts import KEPT_ANYWAY
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.transforms.checkpoint_baselines import block_of
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan, saved_tensors
from monet.transforms.recompute import recompute

EARLY = (Phase.FORWARD, Phase.LOSS)


def recomputed(graph: Graph, plan: ParallelPlan) -> Graph:
    """A chunk's micro-batch under the plan's recomputation."""
    saved = {kept.storage for kept in saved_tensors(graph)}
    dropped, kept = _gathered(graph, saved)
    kept |= {name for op in graph.ops if op.kind == "receive" and op.phase in EARLY for name in op.outputs}
    if isinstance(plan.recompute, CheckpointPlan):
        choices = {name: choice for name, choice in plan.recompute.choices.items() if name in graph.tensors}
        ahead = {name: many for name, many in plan.recompute.ahead.items() if name in choices}
        return recompute(graph, CheckpointPlan({**dict.fromkeys(dropped, "recompute"), **choices}, ahead))
    if not dropped and plan.recompute == "none":
        return graph
    if plan.recompute == "selective":
        dropped |= _between_products(graph, saved)
    elif plan.recompute == "full":
        inside, crossing = _inside_blocks(graph, saved)
        dropped, kept = dropped | inside, kept | crossing
    return recompute(graph, CheckpointPlan.dropping(sorted(dropped), sorted(kept - dropped)))


def check_names(graphs: Sequence[Graph], plan: CheckpointPlan) -> None:
    """That every name of a checkpoint plan is one of some chunk's tensors."""
    known = {name for graph in graphs for name in graph.tensors}
    for name, choice in plan.choices.items():
        if name not in known:
            raise CheckpointError(f"recompute: {choice} {name!r}: no chunk has it; {nearest(name, known)}")


def _gathered(graph: Graph, saved: set[str]) -> tuple[set[str], set[str]]:
    """What forward gathered of other ranks is gathered again, from the own part, which is kept (Korthikanti et al.
    2022, 4.2.2; Rajbhandari et al. 2020)."""
    gathers = [op for op in graph.ops if op.kind == "all_gather" and op.phase in EARLY]
    dropped = {graph.tensors[name].storage for op in gathers for name in op.outputs} & saved
    own = {name: op.inputs for op in gathers for name in op.outputs if name in dropped}
    kept = {graph.tensors[name].storage for names in own.values() for name in names if name in graph.producer}
    return dropped, kept


def _multiplies(op: Op) -> bool:
    return kind_named(op.kind).family in MAC_FAMILIES


def _between_products(graph: Graph, saved: set[str]) -> set[str]:
    """Scores, mask, softmax and dropout of attention: what lies around a softmax up to the next products."""
    between: set[str] = set()
    for op in graph.ops:
        if op.kind != "softmax" or op.phase not in EARLY:
            continue
        ahead, waiting = {op.name}, [op]
        while waiting:  # towards the product with the values
            for name in waiting.pop().outputs:
                between.add(graph.tensors[name].storage)
                readers = (reader for reader in graph.consumers[name] if reader.phase in EARLY)
                more = [reader for reader in readers if not _multiplies(reader) and reader.name not in ahead]
                ahead |= {reader.name for reader in more}
                waiting += more
        waiting, behind = [op], {op.name}
        while waiting:  # back to the product of query and key
            for name in waiting.pop().inputs:
                maker = graph.producer.get(name)
                if maker is None or maker.phase not in EARLY:
                    continue
                between.add(graph.tensors[name].storage)
                if not _multiplies(maker) and maker.name not in behind:
                    behind.add(maker.name)
                    waiting.append(maker)
    return between & saved


def _inside_blocks(graph: Graph, saved: set[str]) -> tuple[set[str], set[str]]:
    """Storages that forward makes inside blocks and that no other block reads; and those that cross, which are kept."""
    inside, crossing = set[str](), set[str]()
    block = {op.name: block_of(op) for op in graph.ops}
    for op in graph.ops:
        for name in op.outputs if op.phase in EARLY else ():
            storage = graph.tensors[name].storage
            maker = graph.producer.get(storage)
            if maker is None or maker.kind == "receive" or graph.tensors[storage].role in KEPT_ANYWAY:
                continue
            home = block[maker.name]
            if is_numbered(home):
                inside.add(storage)
                readers = (reader for reader in graph.consumers[name] if reader.phase in EARLY)
                if any(block[reader.name] != home for reader in readers):
                    crossing.add(storage)
    return (inside - crossing) & saved, crossing
