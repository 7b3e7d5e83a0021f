"""Blocks: the units that a pipeline cuts between. A network's own repeated units (``h.11``, ``layer1.0``) where it has
them, otherwise its products, each with what follows."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64
from monet.distributed.plan import ParallelPlan, check_divides
from monet.errors import OptionError
from monet.graph import Graph, Op
from monet.graph.counts import macs_of
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.graph.op import Attributes
from monet.transforms.checkpoint_baselines import block_of


def is_numbered(block: str) -> bool:
    """Whether a unit is one of several of its kind: ``h.11``."""
    return any(part.isdigit() for part in block.split(".")[1:])


@dataclass(frozen=True)
class Blocks:
    """The repeated units of a forward graph: where each starts; the first also has what lies before it (embedding), the
    last what comes after (head, loss)."""

    starts: tuple[int, ...]
    ends: int  # where the last one does
    ops: int
    alike: bool = True  # units of the network's own; products are not, and chunks may have more or fewer of them

    @classmethod
    def of(cls, graph: Graph, least: int = 1) -> Blocks:
        """Blocks of a graph, by products if there are fewer than ``least`` by name."""
        named = cls.named(graph)
        if len(named) >= max(1, least):
            return named
        repeated = len(named) > 1 and len(set(contents(graph, named))) == 1
        products = cls.products(graph)
        found = named if repeated else products
        if len(found) < least:
            reason = f"pipeline × interleave is more than the {len(found)} layers of {graph.name}; at most that many"
            raise OptionError("pipeline", least, reason)
        return found

    @classmethod
    def named(cls, graph: Graph) -> Blocks:
        """Numbered units, in the order of execution."""
        starts, current, ends = list[int](), "", 0
        for at, op in enumerate(graph.ops):
            block = block_of(op)
            numbered = is_numbered(block)
            if numbered and block != current:
                starts.append(at)
            current, ends = block, at + 1 if numbered else ends
        return cls(tuple(starts), ends, len(graph.ops))

    @classmethod
    def products(cls, graph: Graph) -> Blocks:
        """Products, each with what follows."""
        starts = [at for at, op in enumerate(graph.ops) if kind_named(op.kind).family in MAC_FAMILIES]
        return cls(tuple(starts), len(graph.ops), len(graph.ops), False)

    def again(self, graph: Graph) -> Blocks:
        """The blocks of a graph that was made of the one these are of."""
        return Blocks.named(graph) if self.alike else Blocks.products(graph)

    def __len__(self) -> int:
        return len(self.starts)

    def spans(self, firsts: Sequence[int]) -> list[range]:
        """Operators of chunks that start with the given blocks."""
        borders = [0, *(self.starts[first] for first in firsts[1:]), self.ops]
        return [range(start, stop) for start, stop in itertools.pairwise(borders)]


def first_blocks(graph: Graph, blocks: Blocks, plan: ParallelPlan) -> list[int]:
    """The block that each chunk starts with: equally many equal blocks each, of others so that no chunk has more work
    than it must."""
    if plan.cuts:
        if plan.cuts[-1] >= len(blocks):
            raise OptionError("cuts", list(plan.cuts), f"there are {len(blocks)} blocks, the last is {len(blocks) - 1}")
        return [0, *plan.cuts]
    if len(set(contents(graph, blocks))) == 1:
        check_divides("pipeline", plan.pipeline, len(blocks), "layers")
        check_divides("interleave", plan.interleave, len(blocks) // plan.pipeline, "layers of a stage")
        return [number * len(blocks) // plan.chunks for number in range(plan.chunks)]
    work = [sum(macs_of(graph, graph.ops[at]) for at in span_of(blocks, number)) for number in range(len(blocks))]
    return balanced(work, plan.chunks)


def balanced(work: Sequence[float], chunks: int) -> list[int]:
    """Where to cut a row of blocks so that the chunk with most work has least."""
    return balanced_over([work] * chunks)


def balanced_over(work: Sequence[Sequence[float]]) -> list[int]:
    """The same where chunks do not work alike: ``work`` by chunk and block. By dynamic programming over how many blocks
    the first few chunks take."""
    sums: list[F64] = [np.concatenate(([0.0], np.cumsum(np.array(row, np.float64)))) for row in work]
    most, starts, blocks = sums[0], list[I64](), len(sums[0]) - 1
    for chunk in range(1, len(work)):
        ends = np.arange(blocks + 1)
        own = sums[chunk][:, None] - sums[chunk][None, :]  # by end and start
        worst = np.maximum(own, most[None, :])
        legal = (ends[None, :] >= chunk) & (ends[None, :] < ends[:, None])
        worst = np.where(legal, worst, np.inf)
        taken = np.argmin(worst, axis=1)
        most = worst[ends, taken]
        starts.append(taken)
    found, end = list[int](), blocks
    for taken in reversed(starts):
        end = int(taken[end])
        found.append(end)
    return [0, *reversed(found)]


# --- equal blocks ---------------------------------------------------------------------------------------------------


def span_of(blocks: Blocks, number: int) -> range:
    """Operators of a block alone. The last one ends where another of its kind would."""
    stop = blocks.starts[number + 1] if number + 1 < len(blocks) else blocks.ends
    return range(blocks.starts[number], stop)


class _Contents(dict[Blocks, list[int]]):
    """By blocks, what each is made of, as a number that equal ones share."""


def contents(graph: Graph, blocks: Blocks) -> list[int]:
    """A number for every block, the same for equal ones; worked out once for a graph."""
    known = graph.analyses.setdefault(_Contents, _Contents())
    if not isinstance(known, _Contents):
        raise TypeError("an analysis of another type stands under this one")
    if blocks not in known:
        numbers: dict[Hashable, int] = {}
        contents = (_content(graph, blocks, number) for number in range(len(blocks)))
        known[blocks] = [numbers.setdefault(content, len(numbers)) for content in contents]
    return known[blocks]


def _content(graph: Graph, blocks: Blocks, number: int) -> Hashable:
    """All that makes a block what it is but its names."""
    places: dict[str, tuple[object, ...]] = {}
    found = []
    for at, position in enumerate(span_of(blocks, number)):
        op = graph.ops[position]
        for name in op.inputs:
            if name not in places:
                tensor = graph.tensors[name]
                outside = "value" if name in graph.producer else tensor.role
                places[name] = (outside, len(places), tensor.shape, tensor.dtype, tensor.trainable)
        reads = tuple(places[name] for name in op.inputs)
        places |= {name: (at, slot) for slot, name in enumerate(op.outputs)}
        shapes = tuple((graph.tensors[name].shape, graph.tensors[name].dtype) for name in op.outputs)
        found.append((op.kind, _attributes(op), reads, shapes))
    return tuple(found)


def _attributes(op: Op) -> Attributes:
    return (
        Attributes({key: value for key, value in op.attrs.items() if key != "seed"}) if "seed" in op.attrs else op.attrs
    )
