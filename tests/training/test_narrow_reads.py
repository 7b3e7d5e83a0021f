"""``--precision tf32``: products read fp32 as TF32, and nothing else of a step changes."""

from __future__ import annotations

import numpy as np
import pytest

from monet import Request, load_model, summarise, training_step
from monet.formats import FORMATS
from monet.graph import GraphBuilder
from monet.graph.kind import MAC_FAMILIES, kind_named
from monet.numerics import execute
from monet.numerics.executor import random_values
from monet.transforms.narrow_reads import narrow_reads
from monet.transforms.precision import precision_named


def test_a_product_multiplies_what_is_rounded_and_its_sum_is_not() -> None:
    builder = GraphBuilder("product")
    x, w = builder.input("x", (5, 64)), builder.input("w", (64, 7))
    y = builder.emit("matmul", x, w, transpose_a=False, transpose_b=False)
    graph = narrow_reads(builder.build([y]), "fp32", "tf32")
    rng = np.random.default_rng(0)
    values = {"x": rng.standard_normal((5, 64), np.float32), "w": rng.standard_normal((64, 7), np.float32)}
    found = execute(graph, values)[graph.outputs[0]]
    rounded = FORMATS["tf32"].cast(values["x"]) @ FORMATS["tf32"].cast(values["w"])
    np.testing.assert_allclose(found, rounded, rtol=1e-6, atol=1e-6)
    assert np.abs(found - values["x"] @ values["w"]).max() > 1e-4
    assert graph.tensors[graph.outputs[0]].dtype == "fp32"


@pytest.mark.parametrize(
    ("model", "sizes", "attention"),
    [("gpt2-mini", {"sequence": 16}, "explicit"), ("gpt2-mini", {"sequence": 16}, "fused"), ("resnet18-cifar", {}, "")],
)
def test_memory_and_work_stay_those_of_fp32(model: str, sizes: dict[str, int], attention: str) -> None:
    wide, narrow = (
        training_step(load_model(model, **sizes), precision=name, attention=attention) for name in ("fp32", "tf32")
    )
    before, after = summarise(wide), summarise(narrow)
    for what in ("saved_for_backward_bytes", "parameters", "macs"):
        if what in before:
            assert after[what] == before[what]
    assert {tensor.dtype for tensor in narrow.tensors.values() if tensor.name in narrow.producer} >= {"tf32", "fp32"}
    for op in narrow.ops:
        if kind_named(op.kind).family in MAC_FAMILIES:
            assert {narrow.tensors[name].dtype for name in op.inputs[:2]} == {"tf32"}
            assert {narrow.tensors[name].dtype for name in op.outputs} == {"fp32"}
        elif op.kind != "read_as":
            assert "tf32" not in {narrow.tensors[name].dtype for name in (*op.inputs, *op.outputs)}
    storages = {tensor.storage for tensor in narrow.tensors.values()}
    assert storages == {tensor.storage for tensor in wide.tensors.values()}


def test_a_step_comes_out_near_that_of_fp32() -> None:
    model = load_model("mlp-pusher", batch=4)
    wide, narrow = (training_step(model, precision=name) for name in ("fp32", "tf32"))
    values = random_values(wide, seed=1)
    first, second = execute(wide, values), execute(narrow, values)
    assert wide.loss is not None
    assert narrow.loss is not None
    assert first[wide.loss] != second[narrow.loss]
    assert second[narrow.loss] == pytest.approx(first[wide.loss], rel=5e-3)


def test_tensor_cores_run_it_faster_and_who_cannot_says_so() -> None:
    wide, narrow = (Request("mlp-pusher", "a100", batch=4096, precision=name).evaluate() for name in ("fp32", "tf32"))
    assert narrow.latency_s < wide.latency_s
    assert precision_named("tf32").trainable
    refused = Request("mlp-pusher", "edge-tpu", batch=4, precision="tf32").evaluate()
    assert refused.reason is not None
    assert "tf32" in refused.reason.message
