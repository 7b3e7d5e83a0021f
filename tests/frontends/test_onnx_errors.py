"""Bad ONNX files: each gives one clear error, and one error lists every operator that is not supported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from monet.errors import ModelError, UnsupportedOperators
from monet.frontends.onnx import load_onnx, onnx_values
from monet.graph.counts import parameter_count
from monet.training.step import training_step
from tests.frontends.onnx_export import export


def write(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, list[Any]],
    outputs: list[str],
    weights: dict[str, Any] | None = None,
) -> Path:
    """A file of float tensors, written by hand."""
    graph = helper.make_graph(
        nodes,
        "hand",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
    return path


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        load_onnx(tmp_path / "none.onnx")


def test_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a directory"):
        load_onnx(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model at all", b"\x08\x07\xff\xff\xff", b'{"a": 1}'])
def test_something_else(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"is empty|not an ONNX file"):
        load_onnx(path)


def test_a_truncated_file(tmp_path: Path) -> None:
    path = export(nn.Linear(16, 16), (torch.randn(2, 16),), tmp_path / "model.onnx")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(ModelError, match=r"not an ONNX file, or is truncated|no operators|holds no graph"):
        load_onnx(path)


def test_an_empty_graph(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no operators"):
        load_onnx(write(tmp_path / "model.onnx", [], {"x": [2, 3]}, ["x"]))


def test_a_cycle(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    with pytest.raises(ModelError, match="cycle"):
        load_onnx(write(tmp_path / "model.onnx", nodes, {"x": [2, 3]}, ["b"]))


def test_a_dangling_input(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "nowhere"], ["y"], name="sum")]
    with pytest.raises(ModelError, match=r"'sum'.*'nowhere'"):
        load_onnx(write(tmp_path / "model.onnx", nodes, {"x": [2, 3]}, ["y"]))


def test_an_output_that_nothing_gives(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    with pytest.raises(ModelError, match="'z'"):
        load_onnx(write(tmp_path / "model.onnx", nodes, {"x": [2, 3]}, ["z"]))


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    path = write(tmp_path / "model.onnx", nodes, {"x": [2, 3]}, ["y"], {"w": np.ones((4, 5), np.float32)})
    with pytest.raises(ModelError, match="'product'"):
        load_onnx(path)


def test_all_unsupported_operators_at_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Det", ["x"], ["a"], name="first"),
        helper.make_node("NonZero", ["a"], ["b"], name="second"),
        helper.make_node("Det", ["x"], ["c"], name="third"),
        helper.make_node("Secret", ["c"], ["y"], name="fourth", domain="custom.ops"),
    ]
    with pytest.raises(UnsupportedOperators) as caught:
        load_onnx(write(tmp_path / "model.onnx", nodes, {"x": [2, 2]}, ["y"]))
    assert caught.value.missing == {
        "Det": (2, "first"),
        "NonZero": (1, "second"),
        "custom.ops::Secret": (1, "fourth"),
    }


def test_nodes_in_any_order(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Gemm", ["x", "w"], ["a"])]
    path = write(tmp_path / "model.onnx", nodes, {"x": [2, 3]}, ["y"], {"w": np.ones((3, 4), np.float32)})
    assert [op.kind for op in load_onnx(path).ops] == ["linear", "relu"]


def test_weights_may_be_absent(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    path = export(module, (torch.randn(2, 8),), tmp_path / "model.onnx")
    model = onnx.load(str(path))
    onnx.save(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    present = load_onnx(path)
    assert len(onnx_values(path, present)) == 4
    (tmp_path / "weights.bin").unlink()
    absent = load_onnx(path)
    assert parameter_count(absent) == parameter_count(present) == sum(p.numel() for p in module.parameters())
    assert onnx_values(path, absent) == {}
    assert training_step(absent).gradients.keys() == training_step(present).gradients.keys()


def test_a_branch_that_is_always_taken_is_inlined(tmp_path: Path) -> None:
    def branch(op: str, out: str) -> Any:
        value = helper.make_tensor_value_info(out, TensorProto.FLOAT, [2, 3])
        return helper.make_graph([helper.make_node(op, ["a"], [out])], out, [], [value])

    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["a"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu", "t"), else_branch=branch("Tanh", "e")),
    ]
    weights = {"w": np.ones((3, 3), np.float32), "c": np.asarray(False)}
    path = write(tmp_path / "model.onnx", nodes, {"x": [2, 3]}, ["y"], weights)
    assert [op.kind for op in load_onnx(path).ops] == ["linear", "tanh"]


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["b"])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    swish = helper.make_function("own", "Swish", ["a"], ["b"], body, opsets[:1])
    path = write(
        tmp_path / "model.onnx",
        [helper.make_node("Gemm", ["x", "w"], ["a"]), helper.make_node("Swish", ["a"], ["y"], domain="own")],
        {"x": [2, 3]},
        ["y"],
        {"w": np.ones((3, 3), np.float32)},
    )
    model = onnx.load(str(path))
    model.functions.append(swish)
    model.opset_import.append(opsets[1])
    onnx.save(model, str(path))
    assert [op.kind for op in load_onnx(path).ops] == ["linear", "silu"]
