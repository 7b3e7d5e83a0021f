"""What counts as a weight in an ONNX file, however it is stored; and what is said where the file cannot tell."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from monet.errors import ModelWarning
from monet.frontends import load_model
from monet.frontends.onnx import load_onnx
from monet.graph import Graph
from monet.training.step import training_step
from tests.frontends.onnx_export import export

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
PARAMETERS = {  # as published for the networks; densenet121 and resnet50 are torchvision's counts too
    "bvlc_alexnet": 60_965_224, "zfnet512": 87_250_536, "resnet50": 25_557_032, "vgg19": 143_667_240,
    "densenet121": 7_978_856, "inception_v1": 6_998_552, "inception_v2": 11_194_984, "shufflenet": 1_393_320,
    "squeezenet": 1_235_496,
}  # fmt: skip


def trained(graph: Graph) -> int:
    return sum(tensor.elements for tensor in graph.parameters if tensor.trainable)


@pytest.mark.parametrize("name", PARAMETERS)
def test_files_without_weights_have_all_their_parameters(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ModelWarning)
        graph = load_model(str(LIGHT / f"light_{name}.onnx"))
    assert trained(graph) == PARAMETERS[name]
    step = training_step(graph)
    layers = [op for op in graph.ops if op.kind in ("conv", "linear")]
    assert layers
    assert all(graph.tensors[op.inputs[1]].storage in step.gradients for op in layers)


# --- files written here ---------------------------------------------------------------------------------------------


def _file(path: Path, nodes: list[onnx.NodeProto], stored: dict[str, np.ndarray], shape: tuple[int, ...]) -> Path:
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def _matrix(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    "maker",
    [
        lambda name: helper.make_node("Constant", [], [name], value=numpy_helper.from_array(_matrix(8, 4))),
        lambda name: helper.make_node("RandomNormal", [], [name], shape=[8, 4]),
        lambda name: helper.make_node(
            "ConstantOfShape", ["sizes"], [name], value=helper.make_tensor("", TensorProto.FLOAT, [1], [0.5])
        ),
    ],
    ids=["constant", "drawn", "fill"],
)
@pytest.mark.parametrize("layout", ["Identity", "Transpose"])
def test_whatever_makes_a_constant_it_is_a_parameter_in_the_place_of_a_weight(
    maker: object, layout: str, tmp_path: Path
) -> None:
    nodes = [maker("w"), helper.make_node(layout, ["w"], ["v"]), helper.make_node("MatMul", ["x", "v"], ["y"])]
    rows = 8 if layout == "Identity" else 4
    graph = load_onnx(_file(tmp_path / "net.onnx", nodes, {"sizes": np.array([8, 4])}, (2, rows)))
    assert trained(graph) == 32


def test_a_bias_that_an_operator_of_its_own_adds_is_trained_under_any_name(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "net/dense/w:0"], ["h"]),
        helper.make_node("Add", ["h", "net/b:0"], ["y"]),
    ]
    stored = {"net/dense/w:0": _matrix(8, 4), "net/b:0": _matrix(4)}
    assert trained(load_onnx(_file(tmp_path / "net.onnx", nodes, stored, (2, 8)))) == 8 * 4 + 4


def test_a_shift_of_the_input_is_not_trained(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "net/mean:0"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    stored = {"net/mean:0": _matrix(8), "w": _matrix(8, 4)}
    assert trained(load_onnx(_file(tmp_path / "net.onnx", nodes, stored, (2, 8)))) == 32


def test_a_file_that_trains_next_to_nothing_says_so(tmp_path: Path) -> None:
    path = _file(
        tmp_path / "net.onnx",
        [
            helper.make_node("Einsum", ["mask", "x"], ["h"], equation="abi,ni->nb"),
            helper.make_node("Mul", ["h", "s"], ["y"]),
        ],
        {"mask": _matrix(1, 64, 64), "s": _matrix(1, 64)}, (2, 64),
    )  # fmt: skip
    with pytest.warns(ModelWarning, match=r"64 parameters \(s\) will be trained, and 100 % .*constants and buffers"):
        load_model(str(path))


# --- what exporters take out ----------------------------------------------------------------------------------------


class Relative(nn.Module):
    """Scores plus a trained table looked up by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(7, 2), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        tokens = torch.arange(x.shape[1])
        distance = (tokens[None] - tokens[:, None]).clamp(-3, 3) + 3
        heads = self.inner(x).view(*x.shape[:2], 2, 4).transpose(1, 2)
        return (heads @ heads.transpose(2, 3) + self.table(distance).permute(2, 0, 1)).softmax(-1) @ heads


def _exported(module: nn.Module, x: Tensor, path: Path, how: str) -> tuple[int, int]:
    """Parameters of the module, and those of its file."""
    file = export(module, (x,), path, how, 18 if how == "dynamo" else 17)
    return sum(value.numel() for value in module.parameters()), trained(load_onnx(file))


def test_biases_that_start_at_zero_are_put_back(tmp_path: Path) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    theirs, ours = _exported(layer, torch.randn(2, 4, 16), tmp_path / "encoder.onnx", "dynamo")
    assert ours == theirs


def test_a_table_looked_up_at_fixed_positions_is_the_table(tmp_path: Path) -> None:
    with pytest.warns(ModelWarning, match="7 distinct rows are taken as that table"):
        theirs, ours = _exported(Relative(), torch.randn(2, 8, 8), tmp_path / "relative.onnx", "dynamo")
    assert ours == theirs


def test_biases_that_went_into_a_folded_norm_are_spoken_of(tmp_path: Path) -> None:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=4), nn.BatchNorm2d(4)
    )
    with pytest.warns(ModelWarning, match="2 batch norms .* up to 8 parameters, cannot be told apart"):
        theirs, ours = _exported(module.eval(), torch.randn(2, 1, 8, 8), tmp_path / "net.onnx", "eval")
    assert theirs - ours == 8
