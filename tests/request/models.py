"""Small models in files, for options that only a file has."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

PYTHON = """
import torch

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def make():
    return Two()
"""


def write_onnx(path: Path) -> str:
    """Two convolutions with ReLUs, an average over all pixels, a classifier; batch, image and channels are open."""
    shapes = {"conv1.weight": (8, 3, 3, 3), "conv2.weight": (8, 8, 3, 3), "head.weight": (5, 8), "head.bias": (5,)}
    weights = [
        helper.make_tensor(name, TensorProto.FLOAT, shape, [0.01] * _elements(shape)) for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["x", "conv1.weight"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("Conv", ["b", "conv2.weight"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], "relu2"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], "pool"),
        helper.make_node("Flatten", ["e"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "head.weight", "head.bias"], ["y"], "head", transB=1),
    ]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3, 8, 8])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 5])
    graph = helper.make_graph(nodes, "small", [given], [made], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return str(path)


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def write_python(path: Path) -> str:
    """A torch module of two layers."""
    path.write_text(PYTHON)
    return f"{path}:make"
