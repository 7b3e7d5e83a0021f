"""Attributes of ONNX operators in combination, against onnxruntime; one that no rule looks at is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx.reference
import pytest
import torch

from monet.errors import ModelError, UnsupportedOperators
from monet.frontends.onnx import load_onnx, onnx_values
from monet.numerics import execute
from tests.frontends.onnx_node import (
    NONE,
    Array,
    F,
    I,
    assert_same,
    imported_results,
    node_file,
    runtime_results,
    weight,
)

SIZES = (7, 6, 5)
X = np.linspace(-2, 3, 48, dtype=F).reshape(2, 4, 6)
IMAGE = np.cos(np.arange(2 * 4 * 7 * 6, dtype=F)).reshape(2, 4, 7, 6)
Attributes = dict[str, Any]


def check(path: Path, op: str, arrays: Sequence[Array], ours: Attributes, theirs: Attributes, opset: int = 17) -> None:
    """What we compute of a node is what onnxruntime computes of it, or of the same node said in another way."""
    feeds = node_file(path, op, arrays, theirs, opset)
    expected = runtime_results(path, feeds)
    node_file(path, op, arrays, ours, opset)
    assert_same(imported_results(path, feeds), expected, f"{op} {ours}")


# --- windows ----------------------------------------------------------------------------------------------------------

PADS = ("SAME_UPPER", "SAME_LOWER", "VALID", "explicit", "none")


def image(rank: int) -> Array:
    return np.cos(np.arange(2 * 4 * np.prod(SIZES[:rank]), dtype=F)).reshape(2, 4, *SIZES[:rank])


def same_pads(rule: str, sizes: Sequence[int], kernel: Sequence[int], at: Attributes) -> list[int]:
    """By definition: the least padding under which a window stops at every stride-th place."""
    befores, afters = [], []
    for axis, (size, taps) in enumerate(zip(sizes, kernel, strict=True)):
        step, reach = at["strides"][axis], at["dilations"][axis] * (taps - 1) + 1
        wanted = len(range(0, size, step))
        total = next(n for n in itertools.count() if len(range(0, size + n - reach + 1, step)) == wanted)
        more = total - total // 2
        befores.append(more if rule == "SAME_LOWER" else total - more)
        afters.append(total - befores[-1])
    return befores + afters


def windows(rank: int) -> Iterator[tuple[str, tuple[int, ...], Attributes]]:
    """(padding, kernel, strides and dilations), every axis another."""
    for pad, (strides, dilations, kernel) in itertools.product(
        PADS, itertools.product(((1, 1, 1), (2, 3, 2)), ((1, 1, 1), (2, 1, 1), (1, 2, 2)), ((3, 2, 2), (2, 3, 1)))
    ):
        yield pad, kernel[:rank], {"strides": list(strides[:rank]), "dilations": list(dilations[:rank])}


def padded(pad: str, rank: int) -> Attributes:
    explicit = {"pads": [1, 0, 1][:rank] + [0, 1, 1][:rank]}
    return {"explicit": explicit, "none": {}}.get(pad, {"auto_pad": pad})


def convolutions(rank: int, path: Path, groups: int) -> int:
    x = image(rank)
    count = 0
    for pad, kernel, at in windows(rank):
        ours = {**at, **padded(pad, rank), "group": groups, "kernel_shape": list(kernel)}
        # onnxruntime takes no dilation under SAME
        pads = {"pads": same_pads(pad, x.shape[2:], kernel, at)} if pad.startswith("SAME") else padded(pad, rank)
        check(path, "Conv", [x, weight(6, 4 // groups, *kernel), weight(6)], ours, {**at, **pads, "group": groups})
        count += 1
    return count


def transposed_convolutions(rank: int, path: Path, groups: int) -> int:
    x = image(rank)
    count = 0
    for (pad, kernel, at), extra in itertools.product(windows(rank), (0, 1)):
        steps = at["strides"]
        given = {**at, **padded(pad, rank), "group": groups, "output_padding": [extra * (s > 1) for s in steps]}
        arrays = [x, weight(4, 6 // groups, *kernel), weight(6)]
        # where the window is smaller than the stride, onnxruntime forgets the size that SAME asks for
        sizes = [size * step for size, step in zip(x.shape[2:], steps, strict=True)]
        check(path, "ConvTranspose", arrays, given, {**given, "output_shape": sizes} if "SAME" in pad else given)
        if pad != "explicit" and min(kernel) > 1:  # an output that no tap reaches is refused by the runtime
            asked = {**given, "output_shape": [size + 1 for size in sizes]}
            check(path, "ConvTranspose", arrays, asked, asked)
        count += 1
    return count


def pools(rank: int, path: Path) -> int:
    x = image(rank)
    count = 0
    for (pad, kernel, at), ceil in itertools.product(windows(rank), (0, 1)):
        same = {"pads": same_pads(pad, x.shape[2:], kernel, at)} if pad.startswith("SAME") else padded(pad, rank)
        if any(before >= taps for before, taps in zip(same.get("pads", ()), kernel + kernel, strict=False)):
            continue  # the runtime refuses padding as large as the window
        rest = {**at, "kernel_shape": list(kernel), **({} if pad.startswith("SAME") else {"ceil_mode": ceil})}
        check(path, "MaxPool", [x], {**padded(pad, rank), **rest}, {**same, **rest})
        for inside in ({"count_include_pad": 0}, {"count_include_pad": 1}, {}) if set(at["dilations"]) == {1} else ():
            counted = {**rest, **inside}
            check(path, "AveragePool", [x], {**padded(pad, rank), **counted}, {**same, **counted}, 19)
        count += 1
    return count


def test_convolutions(tmp_path: Path) -> None:
    assert convolutions(2, tmp_path / "one.onnx", 2) == 60


def test_transposed_convolutions(tmp_path: Path) -> None:
    assert transposed_convolutions(2, tmp_path / "one.onnx", 2) == 120


def test_pools(tmp_path: Path) -> None:
    assert pools(2, tmp_path / "one.onnx") > 100


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "groups"), [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)])
def test_windows_of_every_rank(rank: int, groups: int, tmp_path: Path) -> None:
    assert convolutions(rank, tmp_path / "one.onnx", groups)
    assert transposed_convolutions(rank, tmp_path / "one.onnx", groups)
    assert pools(rank, tmp_path / "one.onnx")


def test_same_is_what_the_framework_calls_same() -> None:
    """The definition above, against one that we did not write; it knows stride 1 only."""
    for kernel, dilation, size in itertools.product((1, 2, 3, 4), (1, 2), (7, 12)):
        pads = same_pads("SAME_UPPER", [size], [kernel], {"strides": [1], "dilations": [dilation]})
        x, w = torch.rand(1, 1, size), torch.rand(1, 1, kernel)
        theirs = torch.nn.functional.conv1d(x, w, padding="same", dilation=dilation)
        ours = torch.nn.functional.conv1d(torch.nn.functional.pad(x, pads), w, dilation=dilation)
        torch.testing.assert_close(ours, theirs)


# --- everything else --------------------------------------------------------------------------------------------------


def each(op: str, arrays: Sequence[Array], opset: int = 17, **values: Sequence[Any]) -> Iterator[Any]:
    """One case for every combination of attribute values; None leaves an attribute out."""
    for chosen in itertools.product(*values.values()):
        given = {name: value for name, value in zip(values, chosen, strict=True) if value is not None}
        yield pytest.param(op, arrays, given, opset, id=f"{op} {opset} {given}")


def integers(*values: Any) -> Array:
    return np.asarray(values, I)


def scalar(value: float) -> Array:
    return np.asarray(value, F)


SQUARE, OTHER = weight(4, 4), weight(4, 4) + 1
UNEVEN = np.cos(np.arange(2 * 4 * 3 * 5, dtype=F)).reshape(2, 4, 3, 5)
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare")
ASYMMETRIC = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}

CASES = [
    *each("Gemm", [SQUARE, OTHER, weight(4)], transA=(None, 1), transB=(None, 1), alpha=(None, 0.5), beta=(None, 3.0)),
    *each("Gemm", [SQUARE, OTHER, weight(4, 1)], transB=(0, 1), beta=(None, 0.5)),
    *each("Gemm", [SQUARE, OTHER, scalar(2)], alpha=(None, 2.0)),
    *(case for op in ("Softmax", "LogSoftmax") for opset in (11, 12, 13)
      for case in each(op, [X], opset, axis=(None, 0, 1, -1))),
    *(case for op in REDUCTIONS for case in each(op, [X], 11, axes=(None, [0], [1, -1]), keepdims=(None, 0, 1))),
    *(case for op in REDUCTIONS for axes in ([0, 2], [-2])
      for case in each(op, [X, integers(*axes)], 18, keepdims=(0, 1), noop_with_empty_axes=(None, 1))),
    *each("ReduceSum", [X], 13, noop_with_empty_axes=(None, 0, 1), keepdims=(0, 1)),
    *each("ReduceLogSum", [X + 3], axes=(None, [1]), keepdims=(0, 1)),
    *each("ReduceLogSumExp", [X], axes=(None, [0, 2], [-1]), keepdims=(0, 1)),
    *each("ReduceProd", [X], axes=([1], [-1]), keepdims=(0, 1)),
    *each("ArgMax", [X], axis=(None, 1, -1), keepdims=(None, 0)),
    *each("ArgMin", [X], axis=(None, 1, -1), keepdims=(None, 0)),
    *each("CumSum", [X, integers(-1)[0]], exclusive=(None, 1), reverse=(None, 1)),
    *each("TopK", [np.cos(X), integers(2)], axis=(None, 0, 1), largest=(None, 0)),
    *each("Pad", [X, integers(0, 2, 1, 1, 0, 3), scalar(2.5)]),
    *each("Pad", [X, integers(0, 2, 1, 1, 0, 3)], mode=(None, "edge")),
    *each("Pad", [X, integers(0, 2, 1, 1, 0, 3)[:], NONE], 13, mode=("reflect",)),
    *each("Pad", [X, integers(1, 2, 3, 1), NONE, integers(-1, 1)], 18, mode=("constant", "edge", "reflect")),
    *each("Pad", [X], 2, pads=([0, 1, 2, 0, 0, 1],), mode=(None, "reflect"), value=(None, 1.5)),
    *(pytest.param("Slice", [X, *map(np.asarray, cut)], {}, 17, id=f"Slice {cut}") for cut in (
        ([-3], [-1], [1], [1]), ([5], [0], [2], [-2]), ([-1], [-100], [1], [-1]), ([100], [-100], [2], [-3]),
        ([1, 0], [100, -1], [-1, 1], [2, 3]), ([0, 1], [1, 3]), ([4, 1], [0, 0], [2, 0], [-1, -1]))),
    *each("Slice", [X], 9, starts=([1, 0],), ends=([2, -2],), axes=([0, 2], None)),
    *each("Split", [X, integers(1, 2, 1)], axis=(1, -2)),
    *each("Split", [X, integers(3, 1, 2)], axis=(-1, 2)),
    *each("Split", [IMAGE], 18, num_outputs=(3,), axis=(2, -1)),
    *each("Split", [X], 11, split=([1, 1, 4],), axis=(2, -1)),
    *each("Transpose", [X], perm=(None, [0, 2, 1], [2, 0, 1])),
    *each("Gather", [X, integers([0, -1], [1, 0])], axis=(None, 1, -1)),
    *each("Gather", [X, integers(-2)[0]], axis=(None, 1, -2)),
    *each("GatherElements", [X, integers([[0, 1, 1]], [[1, 0, 0]])], axis=(None, 1, -1)),
    *each("Flatten", [IMAGE], axis=(None, 0, 2, 4, -1)),
    *each("Concat", [X, X + 1, weight(2, 4, 6)], axis=(0, 1, -1)),
    *each("Clip", [X]),
    *each("Clip", [X, scalar(-1)]),
    *each("Clip", [X, NONE, scalar(1)]),
    *each("Clip", [X, scalar(-1), scalar(1)]),
    *each("Clip", [X], 6, min=(None, -1.0), max=(None, 1.0)),
    *each("LayerNormalization", [X, weight(6), weight(6)], axis=(None, 2), epsilon=(None, 0.1)),
    *each("LayerNormalization", [X, weight(4, 6)], axis=(1, -2), epsilon=(1e-3,), stash_type=(1,)),
    *each("InstanceNormalization", [IMAGE, weight(4), weight(4)], epsilon=(None, 0.2)),
    *each("GroupNormalization", [IMAGE, weight(4), weight(4)], 21, num_groups=(1, 2, 4), epsilon=(None, 0.1)),
    *each("LpNormalization", [X], axis=(None, 0, 1), p=(None, 1, 2)),
    *each("LRN", [IMAGE], size=(1, 3, 5), alpha=(None, 0.3), beta=(None, 0.5), bias=(None, 2.0)),
    *each("MeanVarianceNormalization", [IMAGE], axes=(None, [2, 3])),
    *each("LpPool", [IMAGE], kernel_shape=([2, 3],), strides=(None, [2, 1]), p=(None, 1, 3)),
    *each("LeakyRelu", [X], alpha=(None, 0.3)),
    *each("Elu", [X], alpha=(None, 0.3)),
    *each("Celu", [X], alpha=(None, 0.3)),
    *each("Selu", [X], alpha=(None, 0.3), gamma=(None, 2.0)),
    *each("HardSigmoid", [X], alpha=(None, 0.4), beta=(None, 0.3)),
    *each("ThresholdedRelu", [X], alpha=(None, 0.3)),
    *each("Shrink", [X], lambd=(None, 0.9), bias=(None, 0.4)),
    *each("Gelu", [X], 20, approximate=(None, "none", "tanh")),
    *each("DepthToSpace", [IMAGE], blocksize=(2,), mode=(None, "DCR", "CRD")),
    *each("Trilu", [X, integers(-1)[0]], upper=(None, 0, 1)),
    *each("Trilu", [X], upper=(None, 0)),
    *each("OneHot", [integers([0, 2], [1, 3]), integers(4)[0], np.asarray([-1, 3], F)], axis=(None, 0, 1, -2)),
    *each("OneHot", [integers([0, 2], [1, 3]), integers(4)[0], np.asarray([0, 1], F)], axis=(1,)),
    *each("ScatterElements", [X, integers([[0, 1, 1]]), weight(1, 1, 3)], 18, axis=(1, -1), reduction=("none",)),
    *each("ScatterElements", [X, integers([[0, 1, 1]]), weight(1, 1, 3)], 18, axis=(None, 1, -1), reduction=("add",)),
    *each("Resize", [UNEVEN, NONE, np.asarray([1, 1, 2, 3], F)], mode=("nearest", "linear")),
    *each("Resize", [UNEVEN, NONE, NONE, integers(2, 4, 5, 7)], mode=("linear",),
          coordinate_transformation_mode=("half_pixel", "pytorch_half_pixel", "align_corners")),
    *(pytest.param("Resize", [UNEVEN, NONE, np.asarray([1, 1, a, b], F)], ASYMMETRIC, 17, id=f"Resize {a} {b}")
      for a, b in ((1.7, 2.0), (2.0, 0.6))),
    *each("Einsum", [X, weight(2, 6, 4)], equation=("bij,bji->b", "bij,bjk->bik", "bij,cjk->bcik", "bij,bjk")),
    *each("Einsum", [X], equation=("bij->jb", "bij->bji", "b...->...b", "...j->...")),
]  # fmt: skip
OUTPUTS = {"TopK": (F, I), "ArgMax": (I,), "ArgMin": (I,)}


@pytest.mark.parametrize(("op", "arrays", "attributes", "opset"), CASES)
def test_attributes(op: str, arrays: list[Array], attributes: Attributes, opset: int, tmp_path: Path) -> None:
    path = tmp_path / "one.onnx"
    feeds = node_file(path, op, arrays, attributes, opset, (0,), (F,) * 3 if op == "Split" else OUTPUTS.get(op, (F,)))
    assert_same(imported_results(path, feeds), runtime_results(path, feeds))


@pytest.mark.parametrize(("momentum", "epsilon"), [(None, None), (0.7, 1e-2)])
def test_batch_norm_in_training_form(momentum: float | None, epsilon: float | None, tmp_path: Path) -> None:
    """Batch statistics and updated running ones whatever the file says; its momentum is one minus the framework's."""
    given = {name: value for name, value in (("momentum", momentum), ("epsilon", epsilon)) if value is not None}
    arrays = [IMAGE, weight(4), weight(5)[1:], weight(6)[2:], np.abs(weight(4))]
    feeds = node_file(tmp_path / "one.onnx", "BatchNormalization", arrays, given, 15)
    graph = load_onnx(tmp_path / "one.onnx")
    (norm,) = graph.ops
    found = execute(graph, {**onnx_values(tmp_path / "one.onnx", graph), **feeds}, want=norm.outputs)
    x, scale, bias, mean, variance = (torch.from_numpy(array.copy()) for array in arrays)
    expected = torch.nn.functional.batch_norm(
        x, mean, variance, scale, bias, training=True, momentum=1 - (momentum or 0.9), eps=epsilon or 1e-5
    )
    assert_same([found[norm.outputs[0]], *(found[name] for name in norm.outputs[3:])], [expected, mean, variance])  # type: ignore[list-item]


# --- recurrent layers and attention -----------------------------------------------------------------------------------

TIME, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("full", [False, True], ids=["bare", "with biases and states"])
@pytest.mark.parametrize("direction", [None, "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_recurrent_layers(op: str, direction: str | None, full: bool, tmp_path: Path) -> None:
    count, rows = 2 if direction == "bidirectional" else 1, GATES[op] * HIDDEN
    numbers = np.random.default_rng(1)
    arrays = [
        numbers.standard_normal(shape).astype(F)
        for shape in ((TIME, BATCH, WIDTH), (count, rows, WIDTH), (count, rows, HIDDEN))
    ]
    if full:
        states = [numbers.standard_normal((count, BATCH, HIDDEN)).astype(F) for _ in range(1 + (op == "LSTM"))]
        arrays += [numbers.standard_normal((count, 2 * rows)).astype(F), NONE, *states]
    given: Attributes = {"hidden_size": HIDDEN}
    given |= {"direction": direction} if direction else {}
    given |= {"linear_before_reset": 1} if op == "GRU" else {}
    path = tmp_path / "one.onnx"
    feeds = node_file(path, op, arrays, given, 17, outputs=(F,) * (3 if op == "LSTM" else 2))
    assert_same(imported_results(path, feeds), runtime_results(path, feeds))


def attention_cases() -> Iterator[Any]:
    for scale, causal, mask, heads in itertools.product((None, 0.3), (None, 1), (None, F, np.bool_), (2, 4)):
        given = {"q_num_heads": 4, "kv_num_heads": heads}
        given |= {"scale": scale} if scale else {}
        given |= {"is_causal": causal} if causal else {}
        yield pytest.param(given, mask, id=f"{given} {mask}")


@pytest.mark.parametrize(("given", "mask"), list(attention_cases()))
def test_attention(given: Attributes, mask: type | None, tmp_path: Path) -> None:
    """Opset 23 in the format's own reference evaluator."""
    numbers, heads = np.random.default_rng(2), given["kv_num_heads"]
    arrays = [numbers.standard_normal((2, 5, 4 * 4)).astype(F)]
    arrays += [numbers.standard_normal((2, 5, heads * 4)).astype(F) for _ in range(2)]
    if mask is not None:
        hidden = numbers.random((5, 5)) < 0.3
        np.fill_diagonal(hidden, False)
        arrays.append(~hidden if mask is np.bool_ else numbers.standard_normal((5, 5)).astype(F))
    path = tmp_path / "one.onnx"
    feeds = node_file(path, "Attention", arrays, given, 23, data=(0, 1, 2))
    expected = onnx.reference.ReferenceEvaluator(str(path)).run(None, feeds)
    assert_same(imported_results(path, feeds), expected)


@pytest.mark.parametrize("interleaved", [None, 1])
@pytest.mark.parametrize("looked_up", [False, True])
@pytest.mark.parametrize("half", [2, 4])
def test_rotary_embedding(interleaved: int | None, looked_up: bool, half: int, tmp_path: Path) -> None:
    numbers = np.random.default_rng(3)
    tables = [numbers.standard_normal((9, half) if looked_up else (2, 5, half)).astype(F) for _ in range(2)]
    arrays = [numbers.standard_normal((2, 3, 5, 8)).astype(F), *tables]
    arrays += [integers([3, 1, 4, 1, 5], [2, 6, 5, 3, 8])] if looked_up else []
    given = {"rotary_embedding_dim": 2 * half} if half < 4 else {}
    given |= {"interleaved": interleaved} if interleaved else {}
    path = tmp_path / "one.onnx"
    feeds = node_file(path, "RotaryEmbedding", arrays, given, 23, data=range(len(arrays)))
    expected = onnx.reference.ReferenceEvaluator(str(path)).run(None, feeds)
    assert_same(imported_results(path, feeds), expected)


# --- what no rule looks at --------------------------------------------------------------------------------------------

RECURRENT = [weight(3, 2, 4), weight(1, 5, 4), weight(1, 5, 5)]
REFUSED = [
    ("Mod", [X, X + 9], {"fmod": 1}, 17, "fmod = 1"),
    ("ArgMax", [X], {"select_last_index": 1}, 17, "select_last_index = 1"),
    ("MaxPool", [IMAGE], {"kernel_shape": [2, 2], "storage_order": 1}, 17, "storage_order = 1"),
    ("AveragePool", [IMAGE], {"kernel_shape": [2, 2], "dilations": [2, 1]}, 19, "dilation"),
    ("LpPool", [IMAGE], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}, 17, "padding or dilation"),
    ("LpPool", [IMAGE], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, 18, "windows that are not whole"),
    ("Resize", [IMAGE, NONE, np.asarray([1, 1, 2, 2], F)], {"mode": "linear", "antialias": 1}, 18, "antialias = 1"),
    ("Resize", [IMAGE, NONE, np.asarray([1, 1, 2, 2], F)], {"mode": "cubic"}, 18, "mode cubic"),
    ("Resize", [UNEVEN, NONE, np.asarray([1, 1, 1.7, 2], F)], {}, 18, "nearest with half_pixel, round_prefer_floor"),
    ("Pad", [X, integers(0, 0, 1, 0, 0, 1)], {"mode": "wrap"}, 19, "mode wrap"),
    ("Add", [IMAGE[:, :, :4, :4], weight(4)], {"broadcast": 1, "axis": 1}, 6, "axis = 1"),
    ("RNN", RECURRENT, {"hidden_size": 5, "clip": 0.1}, 17, "clip"),
    ("RNN", RECURRENT, {"hidden_size": 5, "activations": ["Sigmoid"]}, 17, "other activations"),
    ("GRU", [RECURRENT[0], weight(1, 15, 4), weight(1, 15, 5)], {"hidden_size": 5}, 17, "linear_before_reset = 0"),
    ("LSTM", [RECURRENT[0], weight(1, 20, 4), weight(1, 20, 5)], {"hidden_size": 5, "input_forget": 1}, 17, "forget"),
    ("ScatterElements", [X, integers([[0]]), weight(1, 1, 1)], {"reduction": "mul"}, 18, "reduction mul"),
    ("GatherND", [X, integers([[0]], [[1]])], {"batch_dims": 1}, 17, "batch_dims"),
    ("Relu", [X], {"slope": 0.5}, 17, "slope = 0.5"),
    ("Softmax", [X], {"temperature": 2}, 17, "temperature = 2"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arrays", "attributes", "opset", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_not_understood_is_refused(
    op: str, arrays: list[Array], attributes: Attributes, opset: int, reason: str, tmp_path: Path
) -> None:
    node_file(tmp_path / "one.onnx", op, arrays, attributes, opset)
    with pytest.raises(UnsupportedOperators, match=rf"{op} \(.*{reason}"):
        load_onnx(tmp_path / "one.onnx")


def test_what_an_attribute_would_be_if_left_out_is_accepted(tmp_path: Path) -> None:
    written = {"select_last_index": 0, "axis": 1}
    feeds = node_file(tmp_path / "one.onnx", "ArgMax", [X], written, 17, outputs=(I,))
    assert_same(imported_results(tmp_path / "one.onnx", feeds), [X.argmax(1)[:, None]])


@pytest.mark.parametrize(
    ("op", "count", "axis"),
    [("Flatten", 1, 4), ("Flatten", 1, -4), ("Concat", 2, 3), ("Concat", 2, -4), ("Split", 1, 3)],
)
def test_an_axis_out_of_range_is_an_error(op: str, count: int, axis: int, tmp_path: Path) -> None:
    outputs = (F, F) if op == "Split" else (F,)
    node_file(tmp_path / "one.onnx", op, [X, X + 1][:count], {"axis": axis}, 17, outputs=outputs)
    with pytest.raises(ModelError, match=rf"axis {axis} is out of range for 3 axes"):
        load_onnx(tmp_path / "one.onnx")
