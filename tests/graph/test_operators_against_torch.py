"""Single operators over random shapes, strides, groups and paddings: value and gradients against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from monet.formats import FORMATS
from monet.graph import GraphBuilder
from monet.graph.counts import macs_by_part
from monet.graph.verify import verify
from monet.numerics import execute
from monet.training.step import training_step

NUMPY_TO_MONET = {"float64": "fp64", "int64": "int64", "bool": "bool"}


def check(
    kind: str,
    function: Callable[..., torch.Tensor],
    arrays: Sequence[np.ndarray],
    attrs: dict[str, Any] | None = None,
    seed: int = 0,
) -> None:
    """Make every float input a parameter, weight the output by a fixed random tensor, sum, compare all gradients."""
    builder = GraphBuilder(kind)
    names = []
    for position, array in enumerate(arrays):
        dtype = NUMPY_TO_MONET[str(array.dtype)]
        if FORMATS[dtype].is_float:
            names.append(builder.parameter(f"p{position}", array.shape, dtype))
        else:
            names.append(builder.input(f"p{position}", array.shape, dtype))
    out = builder.emit(kind, *names, **(attrs or {}))
    weights = np.random.default_rng(seed).standard_normal(builder.tensors[out].shape)
    weighting = builder.input("weighting", weights.shape, "fp64")
    graph = builder.build([builder.emit("mul", out, weighting)])
    step = verify(training_step(graph, loss="sum", precision="fp64"))

    leaves = [torch.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
    expected = function(*leaves)
    (expected * torch.from_numpy(weights)).sum().backward()
    values = {f"p{position}": array for position, array in enumerate(arrays)} | {"weighting": weights}
    results = execute(step, values, want=[out, *step.gradients.values()])
    np.testing.assert_allclose(results[out], expected.detach().numpy(), rtol=1e-9, atol=1e-9)
    for position, leaf in enumerate(leaves):
        if leaf.requires_grad:
            gradient = results[step.gradients[f"p{position}"]]
            np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-8, atol=1e-8)


def normal(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


small = st.integers(1, 3)
fast = settings(max_examples=40, deadline=None)


@fast
@given(data=st.data(), rank=st.integers(1, 3), bias=st.booleans())
def test_conv(data: st.DataObject, rank: int, bias: bool) -> None:
    groups, batch = data.draw(small), data.draw(small)
    channels, out = groups * data.draw(small), groups * data.draw(small)
    taps = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    stride = tuple(data.draw(st.integers(1, 3)) for _ in range(rank))
    dilation = tuple(data.draw(st.integers(1, 2)) for _ in range(rank))
    padding = tuple(data.draw(st.integers(0, 2)) for _ in range(rank))
    sizes = tuple(
        data.draw(st.integers(max(1, d * (t - 1) + 1 - 2 * p), 7))
        for d, t, p in zip(dilation, taps, padding, strict=True)
    )
    arrays = [normal(batch, channels, *sizes), normal(out, channels // groups, *taps, seed=2)]
    if bias:
        arrays.append(normal(out, seed=3))
    function = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    attrs = {"stride": stride, "padding": tuple((p, p) for p in padding), "dilation": dilation, "groups": groups}
    check(
        "conv",
        lambda *xs: function(*xs, stride=stride, padding=padding, dilation=dilation, groups=groups),
        arrays,
        attrs,
    )


@fast
@given(data=st.data())
def test_conv_transpose(data: st.DataObject) -> None:
    groups, batch = data.draw(small), data.draw(small)
    channels, out = groups * data.draw(small), data.draw(small)
    kernel, stride, dilation = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    padding = data.draw(st.integers(0, min(1, dilation * (kernel - 1))))
    extra = data.draw(st.integers(0, max(stride, dilation) - 1))
    size = data.draw(st.integers(1, 4))
    spatial = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
    if spatial < 1:
        return
    arrays = [
        normal(batch, channels, size, size),
        normal(channels, out, kernel, kernel, seed=2),
        normal(out * groups, seed=3),
    ]
    attrs = {
        "stride": (stride,) * 2,
        "padding": ((padding, padding - extra),) * 2,
        "dilation": (dilation,) * 2,
        "groups": groups,
        "spatial": (spatial,) * 2,
    }
    check(
        "conv_transpose",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride, padding, extra, groups, dilation),
        arrays,
        attrs,
    )


@fast
@given(data=st.data(), kind=st.sampled_from(["max_pool", "avg_pool"]))
def test_pooling(data: st.DataObject, kind: str) -> None:
    kernel, stride = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    padding, ceil = data.draw(st.integers(0, kernel // 2)), data.draw(st.booleans())
    size = data.draw(st.integers(kernel, 7))
    counted = data.draw(st.booleans())
    attrs: dict[str, Any] = {
        "kernel": (kernel,) * 2,
        "stride": (stride,) * 2,
        "padding": ((padding,) * 2,) * 2,
        "dilation": (1, 1),
        "ceil": ceil,
    }
    if kind == "max_pool":
        attrs["index_dtype"] = data.draw(st.sampled_from(["int64", "uint8"]))
        check(kind, lambda x: F.max_pool2d(x, kernel, stride, padding, 1, ceil), [normal(2, 2, size, size)], attrs)
    else:
        attrs["count_padding"] = counted
        check(
            kind, lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, counted), [normal(2, 2, size, size)], attrs
        )


@fast
@given(
    size=st.integers(1, 5), out=st.integers(1, 9), mode=st.sampled_from(["nearest", "bilinear"]), align=st.booleans()
)
def test_resize(size: int, out: int, mode: str, align: bool) -> None:
    align = align and mode == "bilinear"
    attrs = {
        "spatial": (out, out),
        "scales": (out / size,) * 2,
        "mode": "nearest" if mode == "nearest" else "linear",
        "align_corners": align,
    }
    function = lambda x: F.interpolate(x, (out, out), mode=mode, align_corners=align if mode == "bilinear" else None)  # noqa: E731
    check("resize", function, [normal(1, 2, size, size)], attrs)


@fast
@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=2), out=st.tuples(st.integers(1, 8), st.integers(1, 8)))
def test_adaptive_average(sizes: list[int], out: tuple[int, int]) -> None:
    check("adaptive_avg_pool", lambda x: F.adaptive_avg_pool2d(x, out), [normal(2, 2, *sizes)], {"spatial": out})


@fast
@given(
    n=small,
    c=st.integers(1, 4),
    k=st.integers(1, 4),
    lead=st.integers(0, 2),
    transpose=st.booleans(),
    bias=st.booleans(),
)
def test_linear(n: int, c: int, k: int, lead: int, transpose: bool, bias: bool) -> None:
    arrays = [normal(*([n] * lead), n, c), normal(*((c, k) if transpose else (k, c)), seed=2)]
    if bias:
        arrays.append(normal(k, seed=3))
    check("linear", lambda x, w, *b: F.linear(x, w.T if transpose else w, *b), arrays, {"transpose": transpose})


@fast
@given(data=st.data(), ta=st.booleans(), tb=st.booleans())
def test_matmul(data: st.DataObject, ta: bool, tb: bool) -> None:
    n, c, k, b = (data.draw(small) for _ in range(4))
    left_batch = data.draw(st.sampled_from([(), (b,), (1,), (2, b)]))
    right_batch = data.draw(st.sampled_from([(), (b,), (1, b)]))
    left = normal(*left_batch, *((c, n) if ta else (n, c)))
    right = normal(*right_batch, *((k, c) if tb else (c, k)), seed=2)
    function = lambda x, y: (x.mT if ta else x) @ (y.mT if tb else y)  # noqa: E731
    check("matmul", function, [left, right], {"transpose_a": ta, "transpose_b": tb})


UNARY: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], dict[str, Any]]] = {
    "relu": (F.relu, {}),
    "silu": (F.silu, {}),
    "mish": (F.mish, {}),
    "sigmoid": (torch.sigmoid, {}),
    "tanh": (torch.tanh, {}),
    "elu": (lambda x: F.elu(x, 0.7), {"alpha": 0.7}),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), {"alpha": 0.1}),
    "clip": (F.relu6, {"low": 0.0, "high": 6.0}),
    "hard_sigmoid": (F.hardsigmoid, {"alpha": 1 / 6, "beta": 0.5}),
    "hard_swish": (F.hardswish, {}),
    "softplus": (F.softplus, {}),
    "exp": (torch.exp, {}),
    "erf": (torch.erf, {}),
    "sin": (torch.sin, {}),
    "cos": (torch.cos, {}),
    "abs": (torch.abs, {}),
    "neg": (torch.neg, {}),
    "reciprocal": (torch.reciprocal, {}),
    "scale": (lambda x: x * 3.0, {"factor": 3.0}),
    "shift": (lambda x: x + 3.0, {"offset": 3.0}),
    "pow_scalar": (lambda x: x**3, {"exponent": 3.0}),
    "relu_masked": (F.relu, {}),
}
POSITIVE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
}


@pytest.mark.parametrize("kind", UNARY)
def test_unary(kind: str) -> None:
    function, attrs = UNARY[kind]
    check(kind, function, [4 * normal(3, 5)], attrs)


@pytest.mark.parametrize("kind", POSITIVE)
def test_unary_of_positive_numbers(kind: str) -> None:
    check(kind, POSITIVE[kind], [np.abs(normal(3, 5)) + 0.1])


@pytest.mark.parametrize("tanh", [True, False])
def test_gelu(tanh: bool) -> None:
    check(
        "gelu", lambda x: F.gelu(x, approximate="tanh" if tanh else "none"), [2 * normal(3, 5)], {"approximate": tanh}
    )


@fast
@given(data=st.data(), kind=st.sampled_from(["add", "sub", "mul", "div", "pow", "maximum", "minimum"]))
def test_binary_with_broadcasting(data: st.DataObject, kind: str) -> None:
    shape = data.draw(st.lists(small, min_size=1, max_size=3))
    other = [data.draw(st.sampled_from([1, size])) for size in shape[data.draw(st.integers(0, len(shape) - 1)) :]]
    arrays = [np.abs(normal(*shape)) + 0.1, np.abs(normal(*other, seed=2)) + 0.1]
    if data.draw(st.booleans()):
        arrays.reverse()
    check(kind, getattr(torch, kind), arrays)


@fast
@given(
    kind=st.sampled_from(["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]),
    axes=st.sets(st.integers(0, 2), min_size=1),
    keepdims=st.booleans(),
)
def test_reductions(kind: str, axes: set[int], keepdims: bool) -> None:
    names = {"reduce_sum": torch.sum, "reduce_mean": torch.mean, "reduce_max": torch.amax, "reduce_min": torch.amin}
    attrs = {"axes": tuple(sorted(axes)), "keepdims": keepdims}
    check(kind, lambda x: names[kind](x, dim=tuple(axes), keepdim=keepdims), [normal(2, 3, 4)], attrs)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis: int) -> None:
    check("softmax", lambda x: F.softmax(x, axis), [normal(3, 4)], {"axis": axis})
    check("log_softmax", lambda x: F.log_softmax(x, axis), [normal(3, 4)], {"axis": axis})
    check("cumsum", lambda x: torch.cumsum(x, axis), [normal(3, 4)], {"axis": axis, "reverse": False})


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("axis", "k"), [(0, 1), (1, 2), (-1, 4)])
def test_topk(axis: int, k: int, largest: bool) -> None:
    attrs = {"axis": axis, "k": k, "largest": largest}
    check("topk", lambda x: torch.topk(x, k, axis, largest)[0], [normal(2, 3, 4)], attrs)


def test_norms() -> None:
    x, weight, bias = normal(3, 4, 5), normal(4, seed=2), normal(4, seed=3)
    function = lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)  # noqa: E731
    check("batch_norm", function, [x, weight, bias], {"epsilon": 1e-5, "momentum": 0.1})
    last, shift = normal(5, seed=2), normal(5, seed=3)
    check("layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), [x, last, shift], {"axes": 1, "epsilon": 1e-5})
    check("layer_norm", lambda x: F.layer_norm(x, (4, 5)), [x], {"axes": 2, "epsilon": 1e-5})
    check("rms_norm", lambda x, w: F.rms_norm(x, (5,), w, 1e-5), [x, last], {"axes": 1, "epsilon": 1e-5})
    check("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), [x, weight, bias], {"groups": 2, "epsilon": 1e-5})


def test_batch_norm_with_fixed_statistics() -> None:
    x, weight, bias = normal(3, 4, 5), normal(4, seed=2), normal(4, seed=3)
    builder = GraphBuilder("fixed")
    names = [builder.parameter(f"p{i}", a.shape, "fp64") for i, a in enumerate((x, weight, bias))]
    running = [builder.buffer(name, (4,), "fp64") for name in ("mean", "variance")]
    out = builder.emit("batch_norm_fixed", *names, *running, epsilon=1e-5)
    step = training_step(builder.build([out]), loss="sum", precision="fp64")
    mean, variance = normal(4, seed=4), np.abs(normal(4, seed=5))
    values = {"p0": x, "p1": weight, "p2": bias, "mean": mean, "variance": variance}
    leaves = [torch.tensor(a, requires_grad=True) for a in (x, weight, bias)]
    F.batch_norm(leaves[0], torch.tensor(mean), torch.tensor(variance), leaves[1], leaves[2]).sum().backward()
    results = execute(step, values)
    for position, leaf in enumerate(leaves):
        np.testing.assert_allclose(results[step.gradients[f"p{position}"]], leaf.grad.numpy(), rtol=1e-8, atol=1e-8)


def test_gathers() -> None:
    rows = np.array([[0, 2, 2], [1, 0, 2]])
    check("embedding", lambda table, i: F.embedding(i, table), [normal(4, 3), rows])
    check("gather", lambda x, i: x[:, i], [normal(2, 3, 2), rows], {"axis": 1})
    check("gather_elements", lambda x, i: torch.gather(x, 1, i), [normal(2, 3), rows[:, :2]], {"axis": 1})


def test_scatters() -> None:
    x, rows, source = normal(4, 3), np.array([0, 2, 2, 1, 0]), normal(5, 3, seed=2)
    check("index_add", lambda x, i, y: x.index_add(0, i, y), [x, rows, source], {"axis": 0})
    check("index_add", lambda x, i, y: x.index_add(1, i, y), [x.T.copy(), rows, source.T.copy()], {"axis": 1})
    check("index_copy", lambda x, i, y: x.index_copy(1, i, y), [x, rows[1:2], normal(4, 1)], {"axis": -1})
    places = np.array([[0, 3], [2, 3], [2, 0], [1, 1], [3, 1]])  # fewer columns than x, more rows
    check("scatter_add", lambda x, i, y: x.scatter_add(0, i, y), [x, places, source[:, :2]], {"axis": 0})
    check("scatter", lambda x, i, y: x.scatter(1, i, y), [x, np.array([[2, 0], [1, 2]]), normal(2, 2)], {"axis": 1})


def test_shapes() -> None:
    x = normal(2, 3, 4)
    check("reshape", lambda x: x.reshape(4, 6), [x], {"shape": (4, 6)})
    check("transpose", lambda x: x.permute(2, 0, 1), [x], {"order": (2, 0, 1)})
    check("expand", lambda x: x.expand(5, 2, 3), [normal(2, 1)], {"shape": (5, 2, 3)})
    attrs = {"axes": (1, 2), "starts": (1, 0), "stops": (3, 4), "steps": (1, 2)}
    check("slice", lambda x: x[:, 1:3, 0:4:2], [x], attrs)
    check("split", lambda x: x.split([1, 2], 1)[0], [x], {"axis": 1, "sizes": (1, 2)})
    check("concat", lambda x, y: torch.cat([x, y], 1), [x, normal(2, 1, 4, seed=2)], {"axis": 1})
    check("repeat", lambda x: x.repeat(2, 1, 3), [x], {"times": (2, 1, 3)})
    check("flip", lambda x: x.flip(0, 2), [x], {"axes": (0, 2)})
    check("roll", lambda x: x.roll((1, -2), (0, 2)), [x], {"axes": (0, 2), "shifts": (1, -2)})
    check("copy", lambda x: x.clone(), [x])
    for mode in ("constant", "reflect", "edge"):
        attrs = {"padding": ((0, 0), (1, 2), (2, 1)), "mode": mode, "value": 0.0}
        torch_mode = "replicate" if mode == "edge" else mode
        check("pad", lambda x, mode=torch_mode: F.pad(x[None], (2, 1, 1, 2), mode=mode)[0], [x], attrs)


def test_selection() -> None:
    condition = np.array([[True, False, True]])
    check("where", torch.where, [condition, normal(2, 3), normal(2, 3, seed=2)])
    check("masked_fill", lambda x, m: x.masked_fill(m, -3.0), [normal(2, 3), condition], {"value": -3.0})


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("key_heads", [1, 2, 4])
@pytest.mark.parametrize("kept", [{}, {"keep_scores": True}], ids=["lse", "scores"])
def test_fused_attention(causal: bool, key_heads: int, kept: dict[str, bool]) -> None:
    arrays = [normal(2, 4, 5, 3), normal(2, key_heads, 5, 3, seed=2), normal(2, key_heads, 5, 3, seed=3)]
    function = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)  # noqa: E731
    check("attention", function, arrays, {"causal": causal, "scale": 1 / math.sqrt(3), **kept})


@pytest.mark.parametrize("kept", [{}, {"keep_scores": True}], ids=["lse", "scores"])
def test_fused_attention_with_a_mask_and_values_of_another_width(kept: dict[str, bool]) -> None:
    """PyTorch masks where the mask is false, we where it is true."""
    query, key, value = normal(2, 3, 5, 4), normal(2, 3, 6, 4, seed=2), normal(2, 3, 6, 7, seed=3)
    mask = np.random.default_rng(4).random((2, 1, 5, 6)) < 0.4
    mask[..., 0] = False
    function = lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=~m)  # noqa: E731
    check("attention", function, [query, key, value, mask], {"causal": False, "scale": 0.5, **kept})


def test_gru_cell() -> None:
    cell = torch.nn.GRUCell(3, 2).double()
    x, h = normal(4, 3), normal(4, 2, seed=2)
    xg = x @ cell.weight_ih.detach().numpy().T + cell.bias_ih.detach().numpy()
    hg = h @ cell.weight_hh.detach().numpy().T + cell.bias_hh.detach().numpy()

    def function(xg: torch.Tensor, hg: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        (rx, zx, nx), (rh, zh, nh) = xg.chunk(3, -1), hg.chunk(3, -1)
        r, z = torch.sigmoid(rx + rh), torch.sigmoid(zx + zh)
        return (1 - z) * torch.tanh(nx + r * nh) + z * h

    check("gru_cell", function, [xg, hg, h])
    expected = cell(torch.tensor(x), torch.tensor(h)).detach().numpy()
    np.testing.assert_allclose(function(*map(torch.tensor, (xg, hg, h))).numpy(), expected, rtol=1e-9)


@pytest.mark.parametrize(("stride", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (3, 2, 2), (2, 1, 4)])
def test_both_conv_gradients_cost_what_forward_costs(stride: int, dilation: int, groups: int) -> None:
    builder = GraphBuilder("conv")
    x = builder.parameter("x", (2, 4, 11, 11))
    w = builder.parameter("w", (8, 4 // groups, 3, 3))
    attrs = {"stride": (stride,) * 2, "padding": ((1, 1),) * 2, "dilation": (dilation,) * 2, "groups": groups}
    macs = macs_by_part(training_step(builder.build([builder.emit("conv", x, w, **attrs)]), loss="sum"))
    # x is a parameter here, so both gradients are gradients of parameters
    assert macs.weight_gradient == 2 * macs.forward
    assert macs.input_gradient == 0
