"""Single ONNX operators against onnxruntime: the imported graph computes what the file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from monet.frontends.onnx import load_onnx
from monet.numerics import execute
from tests.frontends.onnx_node import (
    NONE,
    F,
    I,
    assert_same,
    imported_results,
    node_file,
    runtime_results,
    value_info,
    weight,
)

Case = tuple[str, list[Any], dict[str, Any], int]
X = np.linspace(-2, 3, 48, dtype=F).reshape(2, 4, 6)
IMAGE = np.cos(np.arange(2 * 4 * 7 * 6, dtype=F)).reshape(2, 4, 7, 6)


STEP, TWO, PADDED = {"strides": [2, 2]}, {"group": 2}, {"count_include_pad": 1}
TRANSPOSED = {**STEP, "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
ADD = {"reduction": "add"}
FLOOR = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


CASES: dict[str, Case] = {
    "conv same upper": ("Conv", [IMAGE, weight(6, 2, 3, 3)], {"auto_pad": "SAME_UPPER", **STEP, **TWO}, 17),
    "conv same lower": ("Conv", [IMAGE, weight(6, 4, 2, 2)], {"auto_pad": "SAME_LOWER"}, 17),
    "conv uneven pads": ("Conv", [IMAGE, weight(6, 4, 3, 3)], {"pads": [0, 1, 2, 0], "dilations": [2, 1]}, 17),
    "conv one axis": ("Conv", [X, weight(3, 4, 3), weight(3)], {"pads": [1, 1]}, 17),
    "conv transpose": ("ConvTranspose", [IMAGE, weight(4, 3, 3, 3)], TRANSPOSED, 17),
    "conv transpose shape": ("ConvTranspose", [IMAGE, weight(4, 3, 3, 3)], {**STEP, "output_shape": [14, 12]}, 17),
    "max pool": ("MaxPool", [IMAGE], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, 17),
    "average pool": ("AveragePool", [IMAGE], {"kernel_shape": [3, 2], "pads": [1, 0, 1, 0], **PADDED}, 17),
    "global max pool": ("GlobalMaxPool", [IMAGE], {}, 17),
    "global average pool": ("GlobalAveragePool", [IMAGE], {}, 17),
    "lp pool": ("LpPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "p": 2}, 17),
    "lrn": ("LRN", [IMAGE], {"size": 3, "alpha": 0.2}, 17),
    "instance norm": ("InstanceNormalization", [IMAGE, weight(4), weight(4)], {}, 17),
    "layer norm": ("LayerNormalization", [X, weight(4, 6), weight(4, 6)], {"axis": 1}, 17),
    "lp normalization": ("LpNormalization", [X], {"axis": 1, "p": 2}, 17),
    "mean variance": ("MeanVarianceNormalization", [IMAGE], {}, 17),
    "softmax of old": ("Softmax", [X], {"axis": 1}, 11),
    "softmax": ("Softmax", [X], {"axis": 1}, 17),
    "log softmax": ("LogSoftmax", [X], {}, 17),
    "gemm": ("Gemm", [X[0].T.copy(), weight(3, 4), weight(3)], {"alpha": 0.5, "beta": 2.0, "transB": 1}, 17),
    "gemm of transposed": ("Gemm", [X[0], weight(4, 3)], {"transA": 1}, 17),
    "matmul": ("MatMul", [X, weight(6, 3)], {}, 17),
    "einsum": ("Einsum", [X, weight(5, 6, 4)], {"equation": "bij,kji->bk"}, 17),
    "einsum batched": ("Einsum", [X, weight(2, 3, 6)], {"equation": "bid,bjd->bij"}, 17),
    "einsum ellipsis": ("Einsum", [X, weight(6, 3)], {"equation": "...d,de->...e"}, 17),
    "selu": ("Selu", [X], {}, 17),
    "celu": ("Celu", [X], {"alpha": 2.0}, 17),
    "elu": ("Elu", [X], {"alpha": 0.5}, 17),
    "hard sigmoid": ("HardSigmoid", [X], {}, 17),
    "softsign": ("Softsign", [X], {}, 17),
    "thresholded relu": ("ThresholdedRelu", [X], {"alpha": 0.7}, 17),
    "shrink": ("Shrink", [X], {"lambd": 0.7, "bias": 0.2}, 17),
    "clip": ("Clip", [X, np.asarray(-1, F), np.asarray(1, F)], {}, 17),
    "gelu": ("Gelu", [X], {"approximate": "tanh"}, 20),
    "prelu": ("PRelu", [IMAGE, weight(4, 1, 1)], {}, 17),
    "sum": ("Sum", [X, X * 2, X[:1]], {}, 17),
    "mean": ("Mean", [X, X * 2], {}, 17),
    "max": ("Max", [X, -X, X * 0.5], {}, 17),
    "one over": ("Div", [np.asarray(2, F), X + 10], {}, 17),
    "less": ("Sub", [np.asarray(2, F), X], {}, 17),
    "power": ("Pow", [X + 3, np.asarray(1.5, F)], {}, 17),
    "reduce l2": ("ReduceL2", [X], {"axes": [1], "keepdims": 0}, 17),
    "reduce log sum exp": ("ReduceLogSumExp", [X], {"axes": [2], "keepdims": 0}, 17),
    "reduce sum": ("ReduceSum", [X, np.asarray([0, -1], I)], {"keepdims": 0}, 17),
    "reduce product": ("ReduceProd", [X], {"axes": [2]}, 17),
    "cumulative": ("CumSum", [X, np.asarray(1, I)], {"exclusive": 1, "reverse": 1}, 17),
    "slice": ("Slice", [X, *(np.asarray(cut, I) for cut in ([1, -1], [9, -7], [1, 2], [1, -2]))], {}, 17),
    "split": ("Split", [X], {"axis": 2}, 17),
    "pad": ("Pad", [X, np.asarray([0, 1, 2, 0, 0, 1], I)], {"mode": "reflect"}, 17),
    "pad axes": ("Pad", [X, np.asarray([1, 2], I), np.asarray(3, F), np.asarray([1], I)], {}, 18),
    "tile": ("Tile", [X, np.asarray([1, 2, 3], I)], {}, 17),
    "expand": ("Expand", [X[:1], np.asarray([2, 4, 1], I)], {}, 17),
    "gather": ("Gather", [X, np.asarray([[0, -1], [2, 1]], I)], {"axis": 1}, 17),
    "gather one": ("Gather", [X, np.asarray(-1, I)], {"axis": 2}, 17),
    "gather elements": ("GatherElements", [X, np.asarray([[[0, 1, 1]]], I)], {"axis": 2}, 17),
    "gather nd": ("GatherND", [X, np.asarray([[0, 1], [1, -1]], I)], {}, 17),
    "scatter elements": ("ScatterElements", [X, np.asarray([[[0, -1, 2]]], I), weight(1, 1, 3)], {"axis": 2}, 17),
    "scatter add": ("ScatterElements", [X, np.asarray([[[0, 1, 1]]], I), weight(1, 1, 3)], {"axis": 2, **ADD}, 18),
    "scatter nd": ("ScatterND", [X, np.asarray([[0, 1], [1, -1]], I), weight(2, 6)], {}, 17),
    "scatter nd add": ("ScatterND", [X, np.asarray([[[1], [1]]], I), weight(1, 2, 4, 6)], ADD, 18),
    "depth to space": ("DepthToSpace", [IMAGE], {"blocksize": 2, "mode": "CRD"}, 17),
    "depth to space by columns": ("DepthToSpace", [IMAGE], {"blocksize": 2}, 17),
    "space to depth": ("SpaceToDepth", [IMAGE[:, :, :6]], {"blocksize": 2}, 17),
    "upper triangle": ("Trilu", [X, np.asarray(1, I)], {"upper": 1}, 17),
    "resize nearest": ("Resize", [IMAGE, NONE, np.asarray([1, 1, 2, 2], F)], FLOOR, 17),
    "resize linear": ("Resize", [IMAGE, NONE, NONE, np.asarray([2, 4, 9, 11], I)], {"mode": "linear"}, 17),
    "where": ("Where", [X > 0, X, X * 2], {}, 17),
    "where fill": ("Where", [X[:, :, :1] > 0, np.asarray(-5, F), X], {}, 17),
    "flatten": ("Flatten", [IMAGE], {"axis": -2}, 17),
    "squeeze": ("Squeeze", [X[:, :1], np.asarray([1], I)], {}, 17),
    "top k": ("TopK", [X, np.asarray([3], I)], {"axis": 1, "largest": 0}, 17),
    "argmin": ("ArgMin", [X], {"axis": -1, "keepdims": 0}, 17),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_operator_computes_what_the_runtime_does(case: str, tmp_path: Path) -> None:
    op, arrays, attributes, opset = CASES[case]
    path = tmp_path / "one.onnx"
    data = [position for position in range(len(arrays)) if position == 0 or op in ("Sum", "Mean", "Max", "Where")]
    outputs = {"Split": (F, F, F), "TopK": (F, I), "ArgMin": (I,)}.get(op, (F,))
    feeds = node_file(path, op, arrays, attributes, opset, data if arrays[0].ndim else (1,), outputs)
    assert_same(imported_results(path, feeds), runtime_results(path, feeds))


def test_attention_and_rotary_embedding_as_operators(tmp_path: Path) -> None:
    """Opset 23 has both as single operators; the reference evaluator of the format is the oracle."""
    generator = np.random.default_rng(0)
    q, k, v = (generator.standard_normal((2, 5, 8)).astype(F) for _ in range(3))
    cos, sin = (generator.standard_normal((2, 5, 2)).astype(F) for _ in range(2))
    nodes = [
        helper.make_node("RotaryEmbedding", ["q", "cos", "sin"], ["r"], num_heads=2),
        helper.make_node("Attention", ["r", "k", "v"], ["y"], q_num_heads=2, kv_num_heads=2, is_causal=1),
    ]
    feeds = {"q": q, "k": k, "v": v, "cos": cos, "sin": sin}
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes, "one", [value_info(name, array.dtype, array.shape) for name, array in feeds.items()], [output]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    onnx.save(model, str(tmp_path / "one.onnx"))
    expected = onnx.reference.ReferenceEvaluator(model).run(None, feeds)[0]
    imported = load_onnx(tmp_path / "one.onnx")
    result = execute(imported, feeds, want=imported.outputs)[imported.outputs[0]]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
