"""ONNX files without their weights, whichever way they were taken out, give the same training step."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from monet import load_model, training_step


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of every common kind of weight: convolution, batch norm, table, LSTM, linear."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.table, self.rnn, self.head = nn.Embedding(10, 8), nn.LSTM(8, 6), nn.Linear(6, 5)

        def forward(self, image: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
            seen = torch.relu(self.bn(self.conv(image))).mean()
            return self.head(self.rnn(self.table(tokens))[0]) + seen

    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    example = (torch.randn(2, 3, 8, 8), torch.zeros(5, 2, dtype=torch.int64))
    mode = torch.onnx.TrainingMode.TRAINING
    torch.onnx.export(Net().train(), example, str(path), dynamo=False, training=mode, opset_version=17)
    return path


def is_weight(entry: onnx.TensorProto) -> bool:
    return entry.data_type == onnx.TensorProto.FLOAT and len(entry.dims) > 0


def without_values(model: onnx.ModelProto) -> None:
    for entry in filter(is_weight, model.graph.initializer):
        entry.ClearField("raw_data")


def as_missing_external_file(model: onnx.ModelProto) -> None:
    for entry in filter(is_weight, model.graph.initializer):
        entry.ClearField("raw_data")
        entry.data_location = onnx.TensorProto.EXTERNAL
        place = entry.external_data.add()
        place.key, place.value = "location", "gone.bin"


def moved(model: onnx.ModelProto, to: object) -> None:
    for entry in filter(is_weight, model.graph.initializer):
        to.append(onnx.helper.make_tensor_value_info(entry.name, entry.data_type, list(entry.dims)))  # type: ignore[attr-defined]
    kept = [entry for entry in model.graph.initializer if not is_weight(entry)]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)


def as_inputs(model: onnx.ModelProto) -> None:
    moved(model, model.graph.input)


def as_shapes_only(model: onnx.ModelProto) -> None:
    moved(model, model.graph.value_info)


@pytest.mark.parametrize("strip", [without_values, as_missing_external_file, as_inputs, as_shapes_only])
def test_same_step_without_weights(whole: Path, strip: object, tmp_path: Path) -> None:
    model = onnx.load(str(whole))
    strip(model)  # type: ignore[operator]
    stripped = tmp_path / "net.onnx"
    stripped.write_bytes(model.SerializeToString())
    expected, found = training_step(load_model(str(whole))), training_step(load_model(str(stripped)))
    assert sorted(t.name for t in found.parameters) == sorted(t.name for t in expected.parameters)
    assert [op.kind for op in found.ops] == [op.kind for op in expected.ops]
    assert found.inputs == expected.inputs
