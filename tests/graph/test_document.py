"""A graph as plain values and back: nothing is lost, whatever the graph."""

from __future__ import annotations

import dataclasses
import json

import ml_dtypes
import numpy as np
import pytest

from monet.errors import ModelError
from monet.frontends import ZOO, load_model
from monet.graph import Graph, GraphBuilder
from monet.graph.document import graph_document, graph_from
from monet.training.step import training_step

CHOICES = {
    "optimizer": ("sgd", "momentum", "adam", "adamw"), "precision": ("fp32", "bf16", "fp16"), "lora": (0, 2),
    "micro_batches": (1, 2), "saved": ("framework", "compact"), "clip_norm": (None, 1.0),
}  # fmt: skip
SMALL = [name for name in ZOO if not name.startswith(("gpt3", "llama", "gpt2-", "bert-large", "resnet18-stream"))]


def assert_same(graph: Graph) -> None:
    again = graph_from(json.loads(json.dumps(graph_document(graph))))
    for one in dataclasses.fields(Graph):
        if one.name not in ("values", "recipe"):
            assert getattr(again, one.name) == getattr(graph, one.name), one.name
    assert list(again.tensors) == list(graph.tensors)
    assert list(again.values) == list(graph.values)
    for name, value in graph.values.items():
        assert again.values[name].dtype == value.dtype
        np.testing.assert_array_equal(again.values[name], value)
    assert str(again) == str(graph)


@pytest.mark.parametrize("seed", range(12))
def test_steps_of_the_zoo_survive(seed: int) -> None:
    random = np.random.default_rng(seed)
    options = {name: random.choice(np.array(some, object)) for name, some in CHOICES.items()}
    name, batch = str(random.choice(np.array(SMALL, object))), int(random.integers(1, 4))
    model = load_model(name, batch=batch if ZOO[name].family.trains else 1)  # networks as published have a fixed size
    if not model.parameters or not any(one.trainable for one in model.parameters):
        assert_same(model)
        return
    assert_same(training_step(model, **options))


def test_constants_of_every_type_survive() -> None:
    builder = GraphBuilder("constants")
    x = builder.input("x", (2, 3))
    for dtype, kind in (("fp32", np.float32), ("bf16", ml_dtypes.bfloat16), ("bool", np.bool_), ("int64", np.int64)):
        builder.constant(f"c.{dtype}", np.arange(6).reshape(2, 3).astype(kind), dtype)
    builder.constant("scalar", np.array(1.5, np.float32), "fp32")
    assert_same(builder.build([builder.emit("relu", x)]))


def test_numbers_that_are_not_finite_survive() -> None:
    builder = GraphBuilder("fill")
    assert_same(builder.build([builder.emit("fill", shape=(2,), value=float("-inf"), dtype="fp32")]))


def test_anything_else_is_an_error() -> None:
    with pytest.raises(ModelError, match="not a graph as monet writes it"):
        graph_from({"name": "x"})
