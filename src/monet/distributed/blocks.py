"""Blocks: the units that a pipeline cuts between. A network's own repeated units (``h.11``, ``layer1.0``) where it has
them, otherwise its products, each with what follows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from monet.distributed.plan import ParallelPlan, check_divides
from monet.errors import OptionError
from monet.graph import Graph
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.transforms.checkpoint_baselines import block_of


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
        products = cls.products(graph)
        if len(products) < least:
            what = f"{graph.name} has {len(named) or len(products)} layers to cut between"
            raise OptionError("pipeline", least, f"more chunks than layers: {what}; at most that many")
        return products

    @classmethod
    def named(cls, graph: Graph) -> Blocks:
        """Numbered units, in the order of execution."""
        starts, current, ends = list[int](), "", 0
        for at, op in enumerate(graph.ops):
            block = block_of(op)
            numbered = any(part.isdigit() for part in block.split(".")[1:])
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


def first_blocks(blocks: Blocks, plan: ParallelPlan) -> list[int]:
    """The block that each chunk starts with."""
    if plan.cuts:
        if plan.cuts[-1] >= len(blocks):
            raise OptionError("cuts", list(plan.cuts), f"there are {len(blocks)} blocks, the last is {len(blocks) - 1}")
        return [0, *plan.cuts]
    if blocks.alike:
        check_divides("pipeline", plan.pipeline, len(blocks), "layers")
        check_divides("interleave", plan.interleave, len(blocks) // plan.pipeline, "layers of a stage")
    return [number * len(blocks) // plan.chunks for number in range(plan.chunks)]
