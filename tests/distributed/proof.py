"""A plan against one device: the same values, all ranks run side by side, every result compared."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from monet.distributed import ParallelPlan, RankGraphs, execute_plan, rank_graphs
from monet.frontends import load_model
from monet.graph import Graph
from monet.graph.verify import verify
from monet.numerics.executor import execute, random_values
from monet.training.options import TrainingOptions
from monet.training.step import training_step

Array = np.ndarray[Any, Any]

MODELS = {
    "mlp": "mlp:widths=8-16-16-16-16-8",
    "resnet": "resnet:blocks=2-2,width=8,classes=8,image=16,stem=cifar",
    "gpt": "gpt:layers=4,hidden=16,heads=4,vocabulary=48,sequence=8,positions=8,dropout=0.1",
    "llama": "llama:layers=4,hidden=16,heads=4,kv_heads=4,vocabulary=48,sequence=8,intermediate=24",
    "bert": "bert:layers=4,hidden=16,heads=4,vocabulary=48,sequence=8,dropout=0.1",
    "vit": "vit:layers=4,hidden=16,heads=4,image=32,classes=8",
}
OPTIONS = {"optimizer": "adam", "clip_norm": 0.01, "precision": "fp64"}  # all gradients are clipped
BATCH = 2


@cache
def one_device(model: str, batch: int, passes: int, options: tuple[tuple[str, Any], ...]) -> tuple[Graph, Any, Any]:
    """A step of one device: its graph, the values it is given and those it comes to."""
    step = training_step(load_model(MODELS.get(model, model), batch=batch), micro_batches=passes, **dict(options))
    values = random_values(step)
    return step, values, execute(step, values)


def graphs_of(model: str, passes: int = 1, options: dict[str, Any] | None = None, **plan: Any) -> RankGraphs:
    """The programs of a plan, each a valid graph."""
    chosen = ParallelPlan(micro_batch=BATCH, **plan)
    network = load_model(MODELS.get(model, model), batch=BATCH)
    graphs = rank_graphs(network, chosen, TrainingOptions(**(options or OPTIONS)), passes)
    for stage in graphs.stages:
        for graph in (stage.micro, stage.update, stage.last):
            verify(graph)
    return graphs


def difference(model: str, passes: int = 1, options: dict[str, Any] | None = None, **plan: Any) -> float:
    """The largest difference between a plan and one device, in losses, gradients and everything that is updated,
    relative to the largest element of a tensor (or a thousandth where it has none that large)."""
    options = options or OPTIONS
    graphs = graphs_of(model, passes, options, **plan)
    replicas = graphs.plan.data
    step, values, expected = one_device(model, BATCH * replicas, passes, tuple(sorted(options.items())))
    found = execute_plan(graphs, values)
    losses = [float(expected[name]) for name in step.outputs[-passes:]]
    worst = max(abs(a - b) for a, b in zip(found.losses, losses, strict=True))
    assert set(found.gradients) == set(step.gradients)
    kept = {root: name for root, name in step.updated.items() if root in found.updated}
    assert {tensor.name for tensor in step.parameters if tensor.trainable} <= set(kept)
    pairs = [(found.gradients[root], expected[name]) for root, name in step.gradients.items()]
    pairs += [(found.updated[root], expected[name]) for root, name in kept.items()]
    return max(worst, *(_relative(a, b) for a, b in pairs))


def _relative(found: Array, expected: Array) -> float:
    assert found.shape == expected.shape
    return float(np.max(np.abs(found - expected)) / max(1e-3, float(np.max(np.abs(expected)))))
