"""Networks through PyTorch's exporters and back: saved bytes, FLOPs, parameter names, loss and gradients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from monet.frontends.onnx import load_onnx, onnx_values
from monet.graph import Role
from monet.graph.counts import parameter_count
from monet.training.step import training_step
from tests.frontends.onnx_export import (
    Activations,
    Comparison,
    Convolutional,
    Decoder,
    Patches,
    Points,
    Recurrent,
    Rotary,
    clouds,
    export,
    image,
    tokens,
)
from tests.zoo_reference import Bert, MobileNetV2, ResNet, UNet

Inputs = Callable[[], tuple[Tensor, ...]]

TRACED: dict[str, tuple[Callable[[], nn.Module], Inputs, str, int]] = {
    "convolutional, training, 13": (Convolutional, image, "training", 13),
    "convolutional, preserve, 20": (Convolutional, image, "preserve", 20),
    "resnet, training, 16": (lambda: ResNet((1, 1, 1, 1), False, 10, True), lambda: image(4, 16), "training", 16),
    "mobilenet, preserve, 18": (lambda: MobileNetV2(10), lambda: image(4, 16), "preserve", 18),
    "unet, training, 15": (lambda: UNet(4), image, "training", 15),
    "activations, training, 13": (Activations, lambda: image(2, 8, 4), "training", 13),
    "activations, eval, 18": (Activations, lambda: image(2, 8, 4), "eval", 18),
    "decoder, training, 14": (Decoder, tokens, "training", 14),
    "decoder, training, 17": (Decoder, tokens, "training", 17),
    "bert, training, 16": (lambda: Bert(2, 32, 4, 61), tokens, "training", 16),
    "rotary, training, 17": (Rotary, tokens, "training", 17),
    "gru, preserve, 17": (lambda: Recurrent("GRU"), tokens, "preserve", 17),
    "rnn, training, 14": (lambda: Recurrent("RNN"), tokens, "training", 14),
}
DYNAMO: dict[str, tuple[Callable[[], nn.Module], Inputs, int]] = {
    "decoder, 18": (Decoder, tokens, 18),
    "bert, 20": (lambda: Bert(2, 32, 4, 61), tokens, 20),
    "activations, 22": (Activations, lambda: image(2, 8, 4), 22),
    "gru, 18": (lambda: Recurrent("GRU"), tokens, 18),
    "points, 18": (Points, clouds, 18),
}


@pytest.mark.parametrize("case", TRACED)
def test_traced_files(case: str, tmp_path: Path) -> None:
    make, inputs, how, opset = TRACED[case]
    torch.manual_seed(0)
    module = make().train()
    found = Comparison(module, inputs(), export(module, inputs(), tmp_path / "model.onnx", how, opset))
    ours, theirs = found.flops()
    loss, gradient = found.errors()
    assert ours == theirs
    assert abs(found.saved()) < 0.01
    assert not found.unmatched()
    assert loss < 1e-6
    assert gradient < 1e-5
    assert parameter_count(found.graph) == sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("case", DYNAMO)
def test_dynamo_files(case: str, tmp_path: Path) -> None:
    """The dynamo exporter folds look-ups by fixed positions, so the parameters of those are not compared."""
    make, inputs, opset = DYNAMO[case]
    torch.manual_seed(0)
    module = make().train()
    found = Comparison(module, inputs(), export(module, inputs(), tmp_path / "model.onnx", "dynamo", opset))
    ours, theirs = found.flops()
    loss, gradient = found.errors()
    assert ours == theirs
    assert abs(found.saved()) < 0.01
    assert loss < 1e-6
    assert gradient < 1e-5


@pytest.mark.parametrize(("how", "opset"), [("eval", 17), ("dynamo", 20)])
def test_batch_norms_folded_into_convolutions_are_put_back(how: str, opset: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Convolutional()
    path = export(module.eval(), image(), tmp_path / "model.onnx", how, opset)
    found = Comparison(module.train(), image(), path)
    assert [op.kind for op in found.graph.ops].count("batch_norm") == 2
    assert found.flops()[0] == found.flops()[1]
    assert abs(found.saved()) < 0.01
    assert parameter_count(found.graph) == sum(parameter.numel() for parameter in module.parameters())


def test_running_statistics_merged_with_equal_parameters(tmp_path: Path) -> None:
    """A fresh batch norm has weight = variance = 1 and bias = mean = 0, which the dynamo exporter writes once."""
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 1), nn.ReLU(), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3)
    module = nn.Sequential(*layers).train()
    found = Comparison(module, image(2, 4), export(module, image(2, 4), tmp_path / "model.onnx", "dynamo", 20))
    assert not found.unmatched()
    assert len(found.graph.role(Role.BUFFER)) == 2
    assert abs(found.saved()) < 0.01
    assert max(found.errors()) < 1e-5


def test_a_norm_used_twice_updates_its_statistics_twice(tmp_path: Path) -> None:
    """Saved bytes are not compared: the tracing exporter writes max(dim) and amax, which keep more, alike."""
    torch.manual_seed(0)
    module = Points()
    found = Comparison(module, clouds(), export(module, clouds(), tmp_path / "model.onnx", "training", 17))
    assert not found.unmatched()
    assert max(found.errors()) < 1e-5
    assert found.step.updated["norm.running_mean"].startswith("norm_1.batch_norm")


def test_an_lstm_keeps_its_weights_by_name_and_layout(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Recurrent("LSTM")
    for how, opset in (("training", 17), ("eval", 14)):
        found = Comparison(module, tokens(), export(module, tokens(), tmp_path / f"{how}.onnx", how, opset))
        assert not found.unmatched()
        assert found.flops()[0] == found.flops()[1]
        loss, gradient = found.errors()
        assert max(loss, gradient) < 1e-6


@pytest.mark.parametrize(("how", "opset"), [("training", 17), ("dynamo", 20)])
def test_scaled_dot_product_attention_can_be_fused(how: str, opset: int, tmp_path: Path) -> None:
    """Written out by default; fused by option, which is what PyTorch runs."""
    torch.manual_seed(0)
    module = Decoder(fused=True)
    found = Comparison(module, tokens(3, 8), export(module, tokens(3, 8), tmp_path / "model.onnx", how, opset))
    assert max(found.errors()) < 1e-5
    fused = training_step(found.graph, attention="fused")
    assert abs(found.saved(fused)) < 0.01
    assert sum(op.kind == "attention" for op in fused.ops) == 2


def test_equal_layers_are_not_merged(tmp_path: Path) -> None:
    """PyTorch's encoder copies one layer, so all start equal; each exporter then writes its weights once."""
    torch.manual_seed(0)
    module = Patches().train()
    for how, opset in (("eval", 17), ("dynamo", 20)):
        path = export(module, image(), tmp_path / f"{how}.onnx", how, opset)
        missing = sum(p.numel() for p in module.parameters()) - parameter_count(load_onnx(path))
        assert abs(missing) <= 64  # the class token may have been stretched over the batch


def test_a_tied_head_is_one_parameter(tmp_path: Path) -> None:
    path = export(Decoder().train(), tokens(), tmp_path / "model.onnx", "preserve", 17)
    graph = load_onnx(path)
    readers = {op.kind for op in graph.ops if "wte.weight" in op.inputs}
    assert readers == {"embedding", "linear"}


def test_tables_and_masks_are_not_trained(tmp_path: Path) -> None:
    path = export(Rotary().train(), tokens(), tmp_path / "model.onnx", "eval", 17)
    graph = load_onnx(path)
    assert "inv_freq" not in {tensor.name for tensor in graph.parameters}
    assert parameter_count(graph) == sum(parameter.numel() for parameter in Rotary().parameters())


def test_values_have_the_names_and_shapes_of_the_graph(tmp_path: Path) -> None:
    module = Convolutional()
    path = export(module, image(), tmp_path / "model.onnx", "training", 17)
    graph = load_onnx(path)
    values = onnx_values(path, graph)
    roots = {tensor.name: tensor.shape for role in (Role.PARAMETER, Role.BUFFER) for tensor in graph.role(role)}
    assert {name: value.shape for name, value in values.items()} == roots


def test_dropout_keeps_a_mask_only_when_it_is_random(tmp_path: Path) -> None:
    module = Convolutional(dropout=0.5)
    found = Comparison(module, image(), export(module, image(), tmp_path / "model.onnx", "training", 17))
    assert abs(found.saved()) < 0.01
    quiet = load_onnx(export(module.eval(), image(), tmp_path / "eval.onnx", "eval", 17))
    assert all(op.kind != "dropout" for op in quiet.ops)
