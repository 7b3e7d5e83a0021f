"""Batch, image and sequence of a file: changed, set where they are open, and refused where the file cannot follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from monet.errors import ModelError, MonetError
from monet.frontends.onnx import load_onnx, onnx_values
from monet.graph.counts import macs_by_part, saved_bytes
from monet.training.step import training_step
from tests import torch_oracle
from tests.frontends.onnx_export import Convolutional, Decoder, Patches, Recurrent, export, image, tokens
from tests.zoo_reference import Bert


class TimeMajor(nn.Module):
    """Attention over (tokens, batch, width), with weights returned: the batch lies between other axes."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(16, 4), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        return self.head(self.attention(x, x, x)[0]).transpose(0, 1)


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Tensor, ...]]]] = {
    "convolutional": (Convolutional, image),
    "decoder": (Decoder, tokens),
    "bert": (lambda: Bert(1, 32, 4, 61), tokens),
    "gru": (lambda: Recurrent("GRU"), tokens),
    "time major": (TimeMajor, lambda batch: (torch.randn(batch, 7, 16),)),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_another_batch_gives_what_pytorch_runs_at_it(case: str, batch: int, tmp_path: Path) -> None:
    make, inputs = CASES[case]
    module = make().train()
    graph = load_onnx(export(module, inputs(max(batch, 1)), tmp_path / "model.onnx", "preserve", 17), batch=6)
    step = training_step(graph)
    with torch.backends.mkldnn.flags(enabled=False):
        theirs = torch_oracle.saved_bytes(module, inputs(6))
    assert 2 * macs_by_part(step).forward == torch_oracle.forward_flops(module, inputs(6))
    assert abs(saved_bytes(step) / theirs - 1) < 0.01


def test_a_class_token_follows_the_batch(tmp_path: Path) -> None:
    for batch in (1, 2):
        graph = load_onnx(export(Patches(), image(batch), tmp_path / f"{batch}.onnx", "preserve", 17), batch=5)
        assert graph.tensors[graph.outputs[0]].shape == (5, 5)


def test_open_axes_take_the_options(tmp_path: Path) -> None:
    axes = {"tokens": {0: "batch", 1: "sequence"}}
    path = export(
        Decoder(), tokens(), tmp_path / "model.onnx", "preserve", 17, input_names=["tokens"], dynamic_axes=axes
    )
    graph = load_onnx(path, batch=3, sequence=9)
    assert graph.tensors[graph.outputs[0]].shape == (3, 9, 61)
    assert load_onnx(path, dimensions={"batch": 3, "sequence": 9}).tensors == graph.tensors
    assert onnx_values(path, graph).keys() == {tensor.name for tensor in graph.parameters}
    with pytest.raises(ModelError, match=r"axis 1 \('sequence'\) of input 'tokens'.*--sequence"):
        load_onnx(path, batch=3)


def test_an_open_axis_of_another_name_asks_for_it(tmp_path: Path) -> None:
    path = export(
        nn.Linear(4, 2), (torch.randn(3, 4),), tmp_path / "model.onnx", "preserve", 17, input_names=["x"],
        dynamic_axes={"x": {0: "rows"}},
    )  # fmt: skip
    assert load_onnx(path, batch=7).tensors["x"].shape == (7, 4)
    assert load_onnx(path, dimensions={"rows": 5}).tensors["x"].shape == (5, 4)
    with pytest.raises(MonetError, match=r"no axis of .* is called so; did you mean 'rows'"):
        load_onnx(path, dimensions={"rows": 5, "row": 5})


def test_another_image_size(tmp_path: Path) -> None:
    path = export(Convolutional(), image(), tmp_path / "model.onnx", "training", 17)
    graph = load_onnx(path, image=64)
    assert graph.tensors[graph.inputs[0]].shape == (2, 3, 64, 64)


@pytest.mark.parametrize(("option", "size"), [("batch", 0), ("image", -3)])
def test_sizes_must_be_positive(option: str, size: int, tmp_path: Path) -> None:
    path = export(Convolutional(), image(), tmp_path / "model.onnx", "training", 17)
    with pytest.raises(MonetError, match=f"{option}={size}"):
        load_onnx(path, **{option: size})


def test_a_shape_that_cannot_follow_is_one_clear_error(tmp_path: Path) -> None:
    class Fixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.flatten(1))

    path = export(Fixed(), (torch.randn(2, 1, 8, 8),), tmp_path / "model.onnx", "training", 17)
    with pytest.raises(ModelError, match="must be 64 long"):
        load_onnx(path, image=16)
