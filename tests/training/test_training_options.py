"""Options of a training step: each changes what it says and nothing else; gradients prove it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from monet import load_model, training_step
from monet.errors import MonetError, OptionError
from monet.formats import FORMATS
from monet.frontends.zoo.small import Mlp
from monet.frontends.zoo.transformers import Bert, Gpt, Llama
from monet.frontends.zoo.vision import ResNet, UNet
from monet.graph import Graph, GraphBuilder, Phase, Role
from monet.graph.counts import macs_by_part, saved_bytes, saved_for_backward
from monet.graph.verify import verify
from monet.numerics import execute, random_values
from monet.training.options import TrainingOptions
from monet.training.step import prepare
from monet.transforms.attention import fuse_attention, write_out_attention
from monet.transforms.lora import add_lora
from tests import torch_oracle


def gpt(batch: int = 2) -> Graph:
    return Gpt(layers=2, hidden=16, heads=2, vocabulary=40, positions=8, sequence=8).build("gpt", batch)


def resnet(batch: int = 2) -> Graph:
    return ResNet(blocks=(1, 1), classes=10, image=32).build("resnet", batch)


def gradients(step: Graph, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    results = execute(step, values)
    return {name: results[gradient] for name, gradient in step.gradients.items()} | {"loss": results[step.loss]}


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray], tolerance: float = 1e-10) -> None:
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize(
    "model", [gpt(), Bert(layers=1, hidden=16, heads=2, vocabulary=40, sequence=8).build("bert", 2)]
)
def test_fused_attention_has_the_same_gradients_and_keeps_less(model: Graph) -> None:
    explicit, fused = training_step(model), verify(training_step(model, attention="fused"))
    values = random_values(explicit)
    assert_same(gradients(explicit, values), gradients(fused, values))
    assert saved_bytes(fused) < saved_bytes(explicit)
    # the scores are computed again in backward: one product more
    per_layer = 2 * 2 * 8 * 8 * 8
    layers = sum(op.kind == "attention" for op in fused.ops)
    assert macs_by_part(fused).backward == macs_by_part(explicit).backward + layers * per_layer


@pytest.mark.parametrize(("width", "value_width"), [(4, 7), (9, 2)])
def test_work_of_fused_attention_with_values_of_another_width(width: int, value_width: int) -> None:
    """Two products of the query's width and three of the values' in one direction would give the same sum only for
    equal widths: the explicit graph's products, counted one by one, and the scores once more."""

    def step(fused: bool) -> Graph:
        builder = GraphBuilder("attention")
        q = builder.parameter("q", (2, 3, 5, width), "fp64")
        k, v = (builder.parameter(name, (2, 3, 6, size), "fp64") for name, size in (("k", width), ("v", value_width)))
        if fused:
            out = builder.emit("attention", q, k, v, scale=0.5, causal=False)
            return training_step(builder.build([out]), loss="sum")
        scores = builder.emit("scale", builder.emit("matmul", q, k, transpose_a=False, transpose_b=True), factor=0.5)
        weights = builder.emit("softmax", scores, axis=-1)
        out = builder.emit("matmul", weights, v, transpose_a=False, transpose_b=False)
        return training_step(builder.build([out]), loss="sum")

    explicit, fused = macs_by_part(step(False)), macs_by_part(step(True))
    points = 2 * 3 * 5 * 6
    assert fused.forward == explicit.forward == points * (width + value_width)
    assert fused.backward == explicit.backward + points * width == points * (3 * width + 2 * value_width)


@pytest.mark.parametrize(
    "model", [gpt(), Bert(layers=1, hidden=16, heads=2, vocabulary=40, sequence=8).build("bert", 2)]
)
def test_attention_that_keeps_its_scores_makes_them_once(model: Graph) -> None:
    explicit, fused = training_step(model), verify(training_step(model, attention="fused-scores"))
    values = random_values(explicit)
    assert_same(gradients(explicit, values), gradients(fused, values))
    assert macs_by_part(fused) == macs_by_part(explicit)  # two products forward, four backward
    layers = [op for op in fused.ops if op.kind == "attention"]
    kept = {item.name for item in saved_for_backward(fused)}
    assert {name for op in layers for name in op.outputs[1:]} <= kept
    least = training_step(model, attention="fused-lse")
    scores = sum(fused.tensors[op.outputs[2]].bytes for op in layers)
    hidden = [item.bytes for item in saved_for_backward(least) if "mask" in item.made_by]  # of kept scores no part
    assert saved_bytes(fused) == saved_bytes(least) + scores - sum(hidden)


def test_what_is_fused_is_said_by_its_name() -> None:
    """An operator that keeps its scores becomes one that does not, is written out, and the other way round."""
    kept, plain = fuse_attention(gpt(), keep_scores=True), fuse_attention(gpt())
    assert fuse_attention(kept).ops == plain.ops
    assert fuse_attention(plain, keep_scores=True).ops == kept.ops
    assert write_out_attention(kept).ops == write_out_attention(plain).ops


def test_without_hardware_fused_keeps_least_and_auto_is_refused() -> None:
    fused, least = (training_step(gpt(), attention=name) for name in ("fused", "fused-lse"))
    assert fused.ops == least.ops
    with pytest.raises(OptionError, match="on given hardware, and here is none"):
        training_step(gpt(), attention="auto")
    with pytest.raises(OptionError, match="inference keeps nothing"):
        prepare(gpt(), TrainingOptions(attention="fused-scores"))


def test_fused_attention_keeps_log_sum_exp_instead_of_probabilities() -> None:
    step = training_step(load_model("gpt2-small", sequence=256), attention="fused")
    kinds = {item.made_by for item in saved_for_backward(step)}
    assert "softmax" not in kinds
    assert "causal_mask" not in kinds
    assert sum(item.name.endswith("log_sum_exp") for item in saved_for_backward(step)) == 12


def test_fused_attention_shares_grouped_heads() -> None:
    sizes = {"layers": 2, "hidden": 16, "heads": 4, "kv_heads": 2, "intermediate": 24, "vocabulary": 50}
    model = Llama(**sizes, sequence=8).build("llama", 2)
    explicit, fused = training_step(model), verify(training_step(model, attention="fused"))
    values = random_values(explicit)
    assert_same(gradients(explicit, values), gradients(fused, values))
    keys = {fused.tensors[op.inputs[1]].shape for op in fused.ops if op.kind == "attention"}
    assert keys == {(2, 2, 8, 4)}


def test_fusing_nothing_is_an_error() -> None:
    with pytest.raises(MonetError, match="no attention found"):
        fuse_attention(resnet())


@pytest.mark.parametrize("make", [resnet, gpt])
def test_compact_saving_keeps_gradients_and_fewer_bytes(make: object) -> None:
    model = make()  # type: ignore[operator]
    plain, compact = training_step(model), verify(training_step(model, saved="compact"))
    values = random_values(plain)
    assert_same(gradients(plain, values), gradients(compact, values))
    assert saved_bytes(compact) <= saved_bytes(plain)


def test_compact_saving_of_resnet18() -> None:
    compact = training_step(load_model("resnet18"), saved="compact")
    indices = next(item for item in saved_for_backward(compact) if item.name == "maxpool:indices")
    assert indices.tensor.dtype == "uint8"
    assert indices.bytes == 64 * 56 * 56
    # the stem's ReLU output feeds only the pooling, so a bit per element is all that is kept of it
    assert next(item.bytes for item in saved_for_backward(compact) if item.name == "relu:mask") == 64 * 112 * 112 // 8


def test_accumulated_gradients_are_the_mean_over_micro_batches() -> None:
    one, two = training_step(gpt(4)), verify(training_step(gpt(2), micro_batches=2))
    values = random_values(one)
    halves = {**values}
    for name in ("tokens", "label"):
        halves[name], halves[f"{name}.1"] = values[name][:2], values[name][2:]
    a, b = gradients(one, values), gradients(two, halves)
    a.pop("loss"), b.pop("loss")
    assert_same(a, b)


def test_gradients_are_added_where_they_lie() -> None:
    step = training_step(gpt(2), micro_batches=3)
    names = {f"{parameter}/accumulate{number}" for parameter in step.gradients for number in ("", "_2")}
    sums = [op for op in step.ops if op.outputs[0] in names]
    assert len(sums) == 2 * len(step.gradients)
    for op in sums:
        assert step.tensors[op.outputs[0]].storage == step.tensors[op.inputs[0]].storage


def test_running_statistics_pass_through_micro_batches() -> None:
    step = verify(training_step(resnet(), micro_batches=3))
    readers = step.consumers["bn1.running_mean"]
    assert len(readers) == 1
    assert (
        step.updated["bn1.running_mean"]
        == [op for op in step.ops if op.kind == "batch_norm" and op.layer == "bn1"][-1].outputs[3]
    )
    assert saved_bytes(step) == saved_bytes(training_step(resnet()))


def test_mixed_precision_keeps_fp32_masters_and_statistics() -> None:
    step = verify(training_step(gpt(), precision="bf16", optimizer="adam"))
    dtypes = {tensor.dtype for tensor in step.parameters}
    assert dtypes == {"bf16"}
    masters = [tensor for tensor in step.role(Role.STATE) if tensor.name.endswith(".master")]
    assert len(masters) == len(step.parameters)
    assert {tensor.dtype for tensor in step.role(Role.STATE)} == {"fp32"}
    assert all(step.tensors[name].dtype == "bf16" for name in step.gradients.values())
    statistics = [item.tensor for item in saved_for_backward(step) if "mean" in item.name or "deviation" in item.name]
    assert statistics
    assert {tensor.dtype for tensor in statistics} == {"fp32"}


def test_mixed_precision_runs_close_to_fp32() -> None:
    plain, mixed = training_step(gpt(), optimizer="adam"), training_step(gpt(), optimizer="adam", precision="bf16")
    values = random_values(mixed)
    a, b = execute(plain, values), execute(mixed, values, compute=None)
    assert abs(float(a[plain.loss]) - float(b[mixed.loss])) < 0.05


def test_without_a_type_to_compute_in_every_value_has_its_own() -> None:
    step = training_step(gpt(), precision="bf16", optimizer="adam")
    found = execute(step, random_values(step), want=step.tensors, compute=None)
    for name, value in found.items():
        tensor = step.tensors[name]
        assert value.dtype == FORMATS[tensor.dtype].numpy, name
    wide = execute(step, random_values(step), want=step.gradients.values())
    assert {value.dtype for value in wide.values()} == {np.dtype(np.float64)}


def test_freezing_stops_differentiation_upstream() -> None:
    model = Mlp(widths=(5, 6, 7, 3), activation="silu").build("mlp", 4)
    step = verify(training_step(model, freeze=("0.*", "2.*")))
    assert set(step.gradients) == {"4.weight", "4.bias"}
    assert macs_by_part(step).input_gradient == 0
    assert all(op.layer in ("loss", "4") or op.layer.startswith("loss") for op in step.phase(Phase.BACKWARD))
    full = training_step(model)
    values = random_values(full)
    a, b = gradients(full, values), gradients(step, values)
    assert_same({name: a[name] for name in b}, b)


def test_freezing_the_head_still_trains_below() -> None:
    model = Mlp(widths=(5, 6, 3), activation="silu").build("mlp", 4)
    step = verify(training_step(model, freeze=("2.*",)))
    assert set(step.gradients) == {"0.weight", "0.bias"}


def test_freeze_pattern_that_matches_nothing() -> None:
    with pytest.raises(MonetError, match=r"matches no parameter.*did you mean"):
        training_step(gpt(), freeze=("h.0.mpl.*",))


def headed() -> Graph:
    """Two layers; only views lie between the second and the output."""
    builder = GraphBuilder("headed")
    x = builder.input("x", (4, 6))
    with builder.scope("body"):
        y = builder.emit("relu", builder.emit("linear", x, builder.parameter("weight", (6, 6)), transpose=False))
    with builder.scope("head"):
        y = builder.emit("linear", y, builder.parameter("weight", (8, 6)), transpose=False)
    y = builder.emit("transpose", builder.emit("reshape", y, shape=(4, 2, 4)), order=(1, 0, 2))
    return builder.build([y])


@pytest.mark.parametrize("model", [headed(), gpt(), resnet()], ids=lambda model: model.name)
def test_lora_leaves_heads_alone_unless_asked(model: Graph) -> None:
    """With heads there is one adapter more, beside the layer that makes the output."""
    layers = {heads: adapted(add_lora(model, 2, heads=heads)) for heads in (False, True)}
    (head,) = layers[True] - layers[False]
    assert layers[False] < layers[True]
    makers = {op.layer: op for op in model.ops if op.kind in ("linear", "conv")}
    assert head == list(makers)[-1]
    assert set(makers) == layers[True]


def test_lora_with_heads_starts_from_the_frozen_model() -> None:
    plain, model = headed(), add_lora(headed(), 2, heads=True)
    values = random_values(model)
    values |= {name: np.zeros_like(array) for name, array in values.items() if name.endswith("lora_b.weight")}
    (expected,) = execute(plain, values, want=plain.outputs).values()
    (found,) = execute(model, values, want=model.outputs).values()
    np.testing.assert_allclose(found, expected)
    values |= {
        name: np.ones_like(array) for name, array in values.items() if name.startswith("head.") and "lora_b" in name
    }
    (moved,) = execute(model, values, want=model.outputs).values()
    assert not np.allclose(moved, expected)  # the adapter is in the path of the output


def adapted(graph: Graph) -> set[str]:
    return {name.removesuffix(".lora_a.weight") for name in graph.tensors if name.endswith(".lora_a.weight")}


def test_lora_starts_from_the_frozen_model() -> None:
    step = verify(training_step(gpt(), lora=2, optimizer="adam"))
    assert all("lora" in name for name in step.gradients)
    values = random_values(step)
    for name in values:
        if name.endswith("lora_b.weight"):
            values[name] = np.zeros_like(values[name])
    plain = training_step(gpt())
    reference = {name: values[name] for name in values if name in plain.tensors}
    assert np.isclose(execute(step, values)[step.loss], execute(plain, reference)[plain.loss])


def test_dropout_replays_its_mask_and_keeps_it_as_torch_does() -> None:
    builder = GraphBuilder("dropout")
    x = builder.input("x", (64, 64))
    w = builder.parameter("w", (64, 64))
    y = builder.emit("dropout", builder.emit("linear", x, w, transpose=False), p=0.25, seed=7)
    step = verify(training_step(builder.build([builder.emit("tanh", y)]), loss="sum"))
    masks = [item for item in saved_for_backward(step) if item.name.endswith(":mask")]
    assert [item.bytes for item in masks] == [4 * 64 * 64]
    compact = training_step(builder.build(["tanh"]), loss="sum", saved="compact")
    assert [item.bytes for item in saved_for_backward(compact) if item.name.endswith(":mask")] == [64 * 64 // 8]
    module = torch.nn.Sequential(torch.nn.Linear(64, 64, bias=False), torch.nn.Dropout(0.25), torch.nn.Tanh())
    assert saved_bytes(step) == torch_oracle.saved_bytes(module, (torch.randn(64, 64),), "sum")
    values = random_values(step)
    assert_same(gradients(step, values), gradients(step, values), 0)


@pytest.mark.parametrize(
    ("shape", "label"),
    [((4, 10), (4,)), ((2, 5, 10), (2, 5)), ((2, 10, 5, 6), (2, 5, 6)), ((2, 10, 3, 4, 5), (2, 3, 4, 5))],
)
def test_classes_lie_where_the_framework_has_them(shape: tuple[int, ...], label: tuple[int, ...]) -> None:
    """On the last axis of tables and sequences, on axis 1 of images and volumes."""
    builder = GraphBuilder("scores")
    x, w = builder.input("x", shape), builder.parameter("w", shape[1:])
    step = training_step(builder.build([builder.emit("mul", x, w)]), loss="cross-entropy")
    assert step.tensors["label"].shape == label


def test_class_axis_of_image_outputs() -> None:
    step = training_step(UNet(width=2, image=16).build("unet", 2))
    assert step.tensors["label"].shape == (2, 16, 16)
    step = training_step(UNet(width=2, image=16).build("unet", 2), class_axis=3)
    assert step.tensors["label"].shape == (2, 2, 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "cross_entropy"}, "did you mean 'cross-entropy'"),
        ({"optimizer": "adm"}, "did you mean 'adam'"),
        ({"precision": "bf61"}, "did you mean 'bf16'"),
        ({"precision": "int8"}, "for inference"),
        ({"class_axis": 7}, "class_axis=7: the output"),
        ({"clip_norm": -1.0}, "more than 0 is needed"),
        ({"micro_batches": 0}, "at least 1 is needed"),
        ({"saved": "all"}, "framework, compact"),
        ({"attention": "flash"}, "explicit, fused"),
        ({"lora": -1}, "lora=-1: at least 0 is needed"),
        ({"freeze": ("*",)}, "every parameter is frozen"),
    ],
)
def test_bad_options_say_what_is_allowed(settings: dict[str, object], message: str) -> None:
    with pytest.raises(MonetError, match=message):
        training_step(gpt(), **settings)


def test_tied_weights_are_one_parameter_with_accumulated_gradients() -> None:
    step = training_step(gpt())
    assert [tensor.name for tensor in step.parameters if tensor.shape == (40, 16)] == ["wte.weight"]
    assert step.producer[step.gradients["wte.weight"]].kind == "add"


def test_deterministic() -> None:
    assert str(training_step(gpt(), optimizer="adam")) == str(training_step(gpt(), optimizer="adam"))
