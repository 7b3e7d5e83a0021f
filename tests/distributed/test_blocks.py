"""Blocks that a pipeline cuts between, and graphs with fewer of them."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest

from monet.distributed import ParallelPlan, rank_graphs
from monet.distributed.transform.blocks import Blocks, balanced
from monet.frontends import load_model
from monet.graph import Graph
from monet.graph.counts import signature
from monet.training.options import TrainingOptions


def test_blocks_are_the_networks_own_units() -> None:
    assert len(Blocks.of(load_model("gpt:layers=5,hidden=8,heads=2,sequence=4", batch=1))) == 5
    assert len(Blocks.of(load_model("resnet18", batch=1, image=64))) == 8
    perceptron = Blocks.of(load_model("mlp:widths=4-8-8-2", batch=1))
    assert len(perceptron) == 3
    assert not perceptron.alike


@pytest.mark.parametrize("seed", range(30))
def test_cuts_are_the_best_there_are(seed: int) -> None:
    random = Random(seed)
    work = [random.randint(0, 9) for _ in range(random.randint(4, 9))]
    chunks = random.randint(1, 4)
    found = balanced(work, chunks)

    def most(starts: list[int]) -> int:
        borders = [*starts, len(work)]
        return max(sum(work[a:b]) for a, b in pairwise(borders))

    every = ([0, *cuts] for cuts in combinations(range(1, len(work)), chunks - 1))
    assert len(found) == chunks
    assert len(set(found)) == chunks
    assert most(found) == min(map(most, every))


def classes(graph: Graph) -> Counter[str]:
    """Operators by what decides their cost."""
    return Counter(signature(graph, op) for op in graph.ops)


@pytest.mark.parametrize(
    "plan",
    [
        ParallelPlan(pipeline=2, micro_batch=2),
        ParallelPlan(
            tensor=2, sequence_parallel=True, pipeline=3, recompute="selective", micro_batch=2, bucket_bytes=0
        ),
        ParallelPlan(data=2, shard="parameters", pipeline=4, recompute="full", micro_batch=2),
    ],
)
def test_a_block_more_is_a_block_more(plan: ParallelPlan) -> None:
    """A chunk of any length is one with two blocks and so often what the third adds, operator by operator."""
    model = load_model("gpt:layers=12,hidden=16,heads=2,vocabulary=64,sequence=8,positions=8,dropout=0.1", batch=2)
    two, three, whole = (
        rank_graphs(model, plan, TrainingOptions(precision="bf16", optimizer="adam"), 4, most) for most in (2, 3, 0)
    )
    assert len(two.stages) == len(whole.stages) == plan.chunks
    for few, more, full in zip(two.stages, three.stages, whole.stages, strict=True):
        (blocks,), (kept,) = few.blocks, few.kept
        assert (blocks, kept) == (12 // plan.chunks, 2)
        for name in ("micro", "update"):
            base, extra = classes(getattr(few, name)), classes(getattr(more, name))
            extra.subtract(base)
            expected = base + Counter({key: count * (blocks - 2) for key, count in extra.items()})
            assert expected == classes(getattr(full, name))
