"""A model with fewer of its equal layers: what a cost model needs of a deep network.

Blocks that follow equal ones are left out, and what reads their results reads those of the block before. Whole chunks
that equal the one before them are left out too: their programs differ in names only.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from monet.distributed.transform.blocks import Blocks, contents, span_of
from monet.graph import Graph


@dataclass(frozen=True)
class Shortened:
    """A forward graph with fewer blocks. By chunk of the plan: which of the graph's chunks stands for it
    (``stands_for``), how many blocks it has of every run of equal ones, and how many of them are in the graph.
    ``firsts``: the block that each chunk of the graph starts with; ``numbers``: the plan's chunk that it was."""

    graph: Graph
    firsts: tuple[int, ...]
    numbers: tuple[int, ...]
    stands_for: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    kept: tuple[tuple[int, ...], ...]


def shortened(graph: Graph, blocks: Blocks, firsts: Sequence[int], most: int) -> Shortened:
    """``graph`` with at most so many of equal blocks in a row, in every chunk; 0: all of them."""
    borders = [*firsts, len(blocks)]
    spans = [list(range(start, stop)) for start, stop in pairwise(borders)]
    if not most:
        counts: tuple[tuple[int, ...], ...] = tuple((len(span),) for span in spans)
        whole = tuple(range(len(spans)))
        return Shortened(graph, tuple(firsts), whole, whole, counts, counts)
    content = contents(graph, blocks)
    runs = [_runs(span, content) for span in spans]
    keys: list[Hashable] = [tuple((content[run[0]], len(run)) for run in chunk) for chunk in runs]
    stands_for, numbers = list[int](), list[int]()
    for number, key in enumerate(keys):
        inner = 1 < number < len(spans) - 1  # the first has the embedding, the last the loss
        if not (inner and key == keys[number - 1]):
            numbers.append(number)
        stands_for.append(len(numbers) - 1)
    kept = [[block for run in runs[number] for block in run[:most]] for number in numbers]
    starts, at = list[int](), 0
    for chunk in kept:
        starts.append(at)
        at += len(chunk)
    short = _without(graph, blocks, {block for chunk in kept for block in chunk}, content)
    counts = tuple(tuple(len(run) for run in chunk) for chunk in runs)
    fewer = tuple(tuple(min(most, count) for count in chunk) for chunk in counts)
    return Shortened(short, tuple(starts), tuple(numbers), tuple(stands_for), counts, fewer)


def _runs(span: Sequence[int], content: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for block in span:
        if found and content[found[-1][-1]] == content[block]:
            found[-1].append(block)
        else:
            found.append([block])
    return found


def _without(graph: Graph, blocks: Blocks, kept: set[int], content: Sequence[int]) -> Graph:
    """``graph`` without the blocks that are not kept."""
    renamed: dict[str, str] = {}
    latest: dict[int, int] = {}
    dropped: set[int] = set()
    for number in range(len(blocks)):
        if number in kept:
            latest[content[number]] = number
            continue
        own, model = span_of(blocks, number), span_of(blocks, latest[content[number]])
        dropped.update(own)
        for mine, other in zip(own, model, strict=True):
            renamed.update(zip(graph.ops[mine].outputs, graph.ops[other].outputs, strict=True))
    ops = [op for at, op in enumerate(graph.ops) if at not in dropped]
    ops = [replace(op, inputs=tuple(renamed.get(name, name) for name in op.inputs)) for op in ops]
    used = {name for op in ops for name in (*op.inputs, *op.outputs)} | set(graph.inputs)
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    outputs = tuple(renamed.get(name, name) for name in graph.outputs)
    return replace(graph, tensors=tensors, ops=tuple(ops), outputs=outputs)
