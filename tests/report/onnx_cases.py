"""One-operator graphs for every operator kind: operands (shape, dtype, range of values) and attributes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monet.formats import FORMATS
from monet.graph import Graph, GraphBuilder

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Operand:
    shape: Shape
    dtype: str = "fp32"
    low: float = -2.0
    high: float = 2.0


@dataclass(frozen=True)
class Case:
    kind: str
    operands: tuple[Operand, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    def graph(self, precision: str = "fp32") -> Graph:
        builder = GraphBuilder(self.kind)
        names = []
        for slot, operand in enumerate(self.operands):
            dtype = precision if operand.dtype == "fp32" else operand.dtype
            names.append(builder.input(f"x{slot}", operand.shape, dtype))
        attrs = {k: precision if k == "dtype" and v == "fp32" else v for k, v in self.attrs.items()}
        return builder.build(builder.emit_all(self.kind, *names, **attrs))

    def values(self, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
        generator = np.random.default_rng(seed)
        values: dict[str, np.ndarray[Any, Any]] = {}
        for slot, operand in enumerate(self.operands):
            if FORMATS[operand.dtype].is_float:
                data = generator.uniform(operand.low, operand.high, operand.shape).astype(np.float32)
            elif operand.dtype in ("bool", "bit"):
                data = generator.random(operand.shape) < 0.5
            else:
                data = generator.integers(int(operand.low), int(operand.high), operand.shape)
            values[f"x{slot}"] = np.asarray(data)
        return values


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    return Operand(shape, "fp32", low, high)


def positive(*shape: int) -> Operand:
    return Operand(shape, "fp32", 0.5, 2.0)


def i(high: int, *shape: int, low: int = 0, dtype: str = "int64") -> Operand:
    return Operand(shape, dtype, low, high)


def flags(*shape: int, dtype: str = "bool") -> Operand:
    return Operand(shape, dtype)


X = f(2, 3, 4)
_ATTRIBUTES: dict[str, dict[str, Any]] = {
    "elu": {"alpha": 1.5},
    "leaky_relu": {"alpha": 0.25},
    "clip": {"low": -0.5, "high": 1.0},
    "hard_sigmoid": {"alpha": 0.25, "beta": 0.5},
    "pow_scalar": {"exponent": 3.0},
}
_FROM_POSITIVE = ("log", "sqrt", "rsqrt", "reciprocal", "pow_scalar")
_SAVING = (
    "relu", "silu", "mish", "sigmoid", "tanh", "elu", "leaky_relu", "clip", "hard_sigmoid", "hard_swish", "softplus",
    "exp", "log", "sqrt", "rsqrt", "reciprocal", "erf", "sin", "cos", "abs", "pow_scalar",
)  # fmt: skip


def unary() -> list[Case]:
    cases = [Case(kind, (X,)) for kind in ("neg", "sign", "floor", "ceil", "round")]
    for kind in _SAVING:
        x = positive(2, 3, 4) if kind in _FROM_POSITIVE else f(2, 3, 4, low=-4, high=4)
        cases.append(Case(kind, (x,), _ATTRIBUTES.get(kind, {})))
        cases.append(Case(f"{kind}_gradient", (X, x), _ATTRIBUTES.get(kind, {})))
    for approximate in (True, False):
        cases.append(Case("gelu", (X,), {"approximate": approximate}))
        cases.append(Case("gelu_gradient", (X, X), {"approximate": approximate}))
    cases += [Case("scale", (X,), {"factor": 0.3}), Case("shift", (X,), {"offset": -1.7})]
    cases += [Case("clip", (X,), {"low": 0.0, "high": math.inf}), Case("clip", (X,), {"low": -math.inf, "high": 0.5})]
    return cases


def binary() -> list[Case]:
    y, base = f(3, 1), positive(2, 3, 4)
    cases = [Case(kind, (X, y)) for kind in ("add", "sub", "mul", "maximum", "minimum")]
    cases += [Case(kind, (i(3, 2, 3), i(3, 3))) for kind in ("equal", "greater", "greater_equal", "less", "less_equal")]
    cases += [Case(kind, (X, f(4))) for kind in ("greater", "less")]
    cases += [Case("div", (X, positive(4))), Case("div_gradient", (X, X, base)), Case("pow", (base, f(3, 4)))]
    cases += [Case("pow_base_gradient", (X, base, X)), Case("pow_exponent_gradient", (X, base, base))]
    for position in (0, 1):
        cases += [Case(f"{kind}_gradient", (X, X, y), {"position": position}) for kind in ("maximum", "minimum")]
        tie = Operand((2, 3, 4), "int64", 0, 2)
        cases.append(Case("maximum_gradient", (X, tie, tie), {"position": position}))
    cases += [Case(kind, (flags(2, 3), flags(3))) for kind in ("logical_and", "logical_or")]
    cases += [Case("logical_not", (flags(2, 3),)), Case("isnan", (X,))]
    cases += [Case("modulo", (X, positive(4))), Case("modulo", (i(9, 2, 4, low=-9), i(5, 4, low=1)))]
    cases += [Case("prelu", (X, f(3, 1))), Case("prelu_gradient", (X, X, f(3, 1)))]
    cases += [Case("glu", (X,), {"axis": 2}), Case("glu_gradient", (f(2, 3, 2), X), {"axis": 2})]
    return cases


def selection() -> list[Case]:
    mask = flags(3, 4)
    return [
        Case("relu_masked", (X,)),
        Case("where", (mask, X, f(4))),
        Case("mask", (X, mask), {"keep": True}),
        Case("mask", (X, flags(2, 3, 4, dtype="bit")), {"keep": False}),
        Case("masked_fill", (X, mask), {"value": -math.inf}),
        Case("dropout", (X,), {"p": 0.3, "seed": 7}),
        Case("dropout_gradient", (X, flags(2, 3, 4)), {"p": 0.3}),
        Case("cast", (X,), {"dtype": "int64"}),
        Case("cast", (i(5, 3),), {"dtype": "fp32"}),
        Case("quantize", (f(3, 20),), {"dtype": "mxfp8_e4m3[1x16]"}),
        Case("quantize", (f(11, 9),), {"dtype": "mx6[8x8]", "rule": "round-up"}),
        Case("quantize", (f(2, 9, 3),), {"dtype": "mxint8[16x1]", "rule": "round-up"}),
        Case("quantize", (f(17, 16),), {"dtype": "nvfp4", "rounding": "stochastic", "seed": 3}),
    ]


def reductions() -> list[Case]:
    cases = []
    for kind in ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min"):
        cases.append(Case(kind, (X,), {"axes": (0, 2), "keepdims": True}))
        cases.append(Case(kind, (X,), {"axes": (-1,), "keepdims": False}))
    cases.append(Case("reduce_sum", (X,), {"axes": (0, 1, 2), "keepdims": False, "dtype": "fp32"}))
    cases.append(Case("reduce_sum", (X,), {"axes": (), "keepdims": False}))
    cases.append(Case("reduce_extreme_gradient", (f(2, 4), X, f(2, 4)), {"axes": (1,)}))
    cases.append(Case("argmax", (X,), {"axes": (1,), "keepdims": False}))
    for largest in (True, False):
        cases.append(Case("topk", (X,), {"axis": 2, "k": 3, "largest": largest}))
        cases.append(Case("topk", (i(3, 7, 2),), {"axis": 0, "k": 7, "largest": largest}))
    cases += [Case("cumsum", (X,), {"axis": 1, "reverse": reverse}) for reverse in (False, True)]
    for kind in ("softmax", "log_softmax"):
        cases.append(Case(kind, (X,), {"axis": 1}))
        cases.append(Case(f"{kind}_gradient", (X, X), {"axis": -1, "dtype": "fp32"}))
    return cases


def look_ups() -> list[Case]:
    return [
        Case("embedding", (f(7, 3), i(7, 2, 4))),
        Case("embedding_gradient", (f(2, 4, 3), i(5, 2, 4)), {"rows": 7}),
        Case("gather", (X, i(3, 2, 5)), {"axis": 1}),
        Case("gather_gradient", (f(2, 2, 5, 4), i(3, 2, 5)), {"axis": 1, "shape": (2, 3, 4)}),
        Case("gather_gradient", (f(3, 2), i(4, 2, dtype="int32")), {"axis": 1, "shape": (3, 4)}),
        Case("gather_elements", (X, i(3, 2, 5, 4)), {"axis": 1}),
        Case("gather_elements_gradient", (f(2, 5, 4), i(3, 2, 5, 4)), {"axis": 1, "shape": (2, 3, 4)}),
        Case("gather_elements_gradient", (f(2, 5, 4), i(3, 2, 5, 4), X), {"axis": 1, "shape": (2, 3, 4)}),
        Case("index_add", (X, i(3, 5), f(2, 5, 4)), {"axis": 1}),
        Case("index_add", (f(6), i(6, 9), f(9)), {"axis": 0}),
        Case("index_copy", (X, i(3, 1), f(2, 1, 4)), {"axis": -2}),
        Case("scatter_add", (X, i(3, 2, 5, 3), f(2, 5, 3)), {"axis": 1}),
        Case("scatter", (X, i(4, 2, 2, 1), f(2, 2, 1)), {"axis": 2}),
    ]


def losses_and_updates() -> list[Case]:
    cases = [
        Case("nll_loss", (f(2, 5, 3), i(5, 2, 3)), {"axis": 1}),
        Case("nll_loss", (f(4, 5), i(5, 4)), {"axis": 1}),
        Case("nll_loss_gradient", (f(), i(5, 2, 3), positive()), {"axis": 1, "classes": 5, "dtype": "fp32"}),
        Case("mse_loss", (X, X)),
        Case("mse_loss_gradient", (f(), X, X)),
        Case("square_sum", (X,)),
        Case("clip_coefficient", (positive(), positive(), positive()), {"max_norm": 0.5}),
    ]
    shared = {"rate": 0.1, "decay": 0.02, "momentum": 0.9, "betas": (0.9, 0.99), "epsilon": 1e-8, "decoupled": False}
    w, moment = f(3, 4), positive(3, 4)
    step = positive()
    for clipped in (False, True):
        coefficient = (positive(),) if clipped else ()
        for decoupled in (False, True):
            attrs = {**shared, "clipped": clipped, "master": False, "decoupled": decoupled}
            cases.append(Case("adam_update", (w, w, w, moment, step, *coefficient), attrs))
        attrs = {**shared, "clipped": clipped, "master": False}
        cases += [
            Case("sgd_update", (w, w, *coefficient), attrs),
            Case("momentum_update", (w, w, w, *coefficient), attrs),
        ]
        attrs = {**attrs, "master": True}
        cases.append(Case("momentum_update", (w, w, w, w, *coefficient), attrs))
    return cases


def matrices() -> list[Case]:
    cases = [
        Case("linear", (f(6, 3), f(5, 3)), {"transpose": False, "rows": (2, 3), "channels": 1}),
        Case("linear_weight_gradient", (f(6, 4), f(6, 5)), {"transpose": False, "shape": (5, 2, 2)}),
    ]
    for transpose in (False, True):
        w = f(3, 5) if transpose else f(5, 3)
        for lead in ((4,), (2, 4), ()):
            cases.append(Case("linear", (f(*lead, 3), w, f(5)), {"transpose": transpose}))
            cases.append(Case("linear", (f(*lead, 3), w), {"transpose": transpose}))
            cases.append(Case("linear_weight_gradient", (f(*lead, 3), f(*lead, 5)), {"transpose": transpose}))
        for other in (False, True):
            attrs = {"transpose_a": transpose, "transpose_b": other}
            left, right = (4, 3) if transpose else (3, 4), (5, 4) if other else (4, 5)
            cases.append(Case("matmul", (f(*left), f(*right)), attrs))
            cases.append(Case("matmul", (f(2, 3, *left), f(3, *right)), attrs))
    return cases


def shapes() -> list[Case]:
    cut = {"axes": (1, 2), "starts": (1, 0), "stops": (6, 5), "steps": (2, 3)}
    plain = {"axes": (0, 2), "starts": (1, -3), "stops": (3, 5), "steps": (1, 1)}
    cases = [
        Case("reshape", (X,), {"shape": (4, 6)}),
        Case("transpose", (X,), {"order": (2, 0, 1)}),
        Case("expand", (f(3, 1),), {"shape": (2, 3, 4)}),
        Case("slice", (f(3, 7, 5),), cut),
        Case("slice", (f(3, 7, 5),), plain),
        Case("slice_gradient", (f(3, 3, 2),), {**cut, "shape": (3, 7, 5)}),
        Case("slice_gradient", (f(2, 7, 3),), {**plain, "shape": (3, 7, 5)}),
        Case("split", (X,), {"axis": 2, "sizes": (1, 3)}),
        Case("copy", (X,)),
        Case("detach", (X,)),
        Case("page_out", (X,)),
        Case("page_in", (X,)),
        Case("page_in", (X, f(3))),
        Case("read_as", (X,), {"dtype": "fp32"}),
        Case("concat", (X, f(2, 1, 4), X), {"axis": 1}),
        Case("pad", (X,), {"padding": ((0, 0), (1, 2), (-1, 0)), "mode": "constant", "value": 0.5}),
        Case("repeat", (X,), {"times": (1, 2, 3)}),
        Case("flip", (X,), {"axes": (0, 2)}),
        Case("roll", (X,), {"axes": (1, 2), "shifts": (1, -2)}),
        Case("fill", (), {"shape": (2, 3), "value": 2.5, "dtype": "fp32"}),
        Case("fill", (), {"shape": (), "value": 1, "dtype": "int64"}),
        Case("iota", (), {"size": 5, "dtype": "int64"}),
        Case("iota", (), {"size": 4, "dtype": "int32", "start": 3, "step": -2}),
        Case("iota", (), {"size": 4, "dtype": "fp32", "start": 0.5, "step": 0.25}),
        *(
            Case("random", (), {**drawn, "distribution": name})
            for drawn in ({"shape": (3, 4), "dtype": "fp32", "probability": 0.3, "seed": 5},)
            for name in ("normal", "uniform", "bernoulli")
        ),
        Case("causal_mask", (), {"rows": 3, "columns": 5}),
        Case("causal_mask", (), {"rows": 4, "columns": 4}),
    ]
    for mode in ("reflect", "edge"):
        padding = ((0, 0), (2, 1), (0, 3))
        cases.append(Case("pad", (X,), {"padding": padding, "mode": mode, "value": 0.0}))
        cases.append(Case("pad_gradient", (f(2, 6, 7),), {"padding": padding, "mode": mode, "shape": (2, 3, 4)}))
    return cases


def norms() -> list[Case]:
    image, c = f(3, 4, 5, 2), f(4)
    every = ("input", "weight", "bias")
    running = {"epsilon": 1e-5, "momentum": 0.2}
    cases = [
        Case("batch_norm", (image, c, c, c, positive(4)), running),
        Case("batch_norm", (f(6, 4), c, c), running),
        Case("batch_norm_gradient", (image, image, c, positive(4), c), {"wanted": every}),
        Case("batch_norm_gradient", (image, image, c, positive(4), c), {"wanted": ("weight", "bias")}),
        Case("batch_norm_fixed", (image, c, c, c, positive(4)), {"epsilon": 1e-3}),
        Case("batch_norm_fixed_gradient", (image, image, c, positive(4), c), {"epsilon": 1e-3, "wanted": every}),
    ]
    for axes, lead, inner in ((1, (2, 3), (4,)), (2, (2,), (3, 4))):
        x, w, row = f(*lead, *inner), f(*inner), positive(*lead, *([1] * axes))
        attrs = {"axes": axes, "epsilon": 1e-5}
        wanted, free = {"axes": axes, "affine": True}, {"axes": axes, "affine": False, "wanted": ("input",)}
        cases += [Case("layer_norm", operands, attrs) for operands in ((x, w, w), (x, w), (x,))]
        cases += [Case("rms_norm", operands, attrs) for operands in ((x, w), (x,))]
        cases.append(Case("layer_norm_gradient", (x, x, row, row, w), {**wanted, "wanted": every}))
        cases.append(Case("layer_norm_gradient", (x, x, row, row), free))
        cases.append(Case("rms_norm_gradient", (x, x, row, w), {**wanted, "wanted": every[:2]}))
        cases.append(Case("rms_norm_gradient", (x, x, row), free))
    rows = positive(3, 2)
    cases += [Case("group_norm", operands, {"groups": 2, "epsilon": 1e-5}) for operands in ((image, c, c), (image,))]
    affine = {"groups": 2, "affine": True, "wanted": every}
    cases.append(Case("group_norm_gradient", (image, image, rows, rows, c), affine))
    free = {"groups": 2, "affine": False, "wanted": ("input",)}
    cases.append(Case("group_norm_gradient", (image, image, rows, rows), free))
    return cases


def cells_and_attention() -> list[Case]:
    h, four, three = f(2, 3), f(2, 12), f(2, 9)
    cases = [
        Case("lstm_cell", (four, h)),
        Case("lstm_cell_gradient", (h, h, four, h, h)),
        Case("gru_cell", (three, three, h)),
        Case("gru_cell_gradient", (h, three, three, h)),
    ]
    cases += [Case("rotary", (f(2, 3, 5, 8), f(5, 4), f(5, 4)), {"inverse": inverse}) for inverse in (False, True)]
    for heads, causal in ((4, True), (2, False)):
        q, kv, out, lse = f(2, 4, 5, 6), f(2, heads, 5, 6), f(2, 4, 5, 6), positive(2, 4, 5)
        attrs = {"scale": 0.3, "causal": causal}
        masks: tuple[tuple[Operand, ...], ...] = ((),) if causal else ((), (f(5, 5),))
        for mask in masks:
            cases.append(Case("attention", (q, kv, kv, *mask), attrs))
            cases.append(Case("attention_gradient", (out, q, kv, kv, out, lse, *mask), attrs))
        kept = {**attrs, "keep_scores": True}
        cases.append(Case("attention", (q, kv, kv, *masks[-1]), kept))
        cases.append(Case("attention_gradient", (out, q, kv, kv, out, lse, f(2, 4, 5, 5)), kept))
    return cases


def rounded_attention() -> list[Case]:
    """Attention whose products a precision policy has made narrow, which is done after differentiation."""
    runs = ("mxfp8_e4m3[1x16]", "mxfp8_e4m3[16x1]")  # along the last axis, along the one before it
    plain, cases = cells_and_attention(), []
    for kind, formats in (
        ("attention", ((runs[0],) * 2, runs)),
        ("attention_gradient", ((runs[0],) * 2, (runs[0],) * 2, (runs[1],) * 2, runs, (runs[1],) * 2)),
    ):
        for keeps in (False, True):
            same = [case for case in plain if case.kind == kind and case.attrs.get("keep_scores", False) == keeps]
            made = formats[1:] if keeps and kind == "attention_gradient" else formats
            told = {"formats": made, "seeds": ((None, None),) * len(made), "rule": "floor"}
            cases.append(Case(kind, same[-1].operands, {**same[-1].attrs, **told}))
    return cases


def resampling() -> list[Case]:
    cases = []
    for sizes, out, mode, align in (
        ((3, 4), (6, 8), "nearest", False),
        ((5, 3), (7, 8), "nearest", False),
        ((3, 4), (6, 8), "linear", False),
        ((3, 4), (7, 5), "linear", True),
        ((6, 5), (3, 4), "linear", False),
        ((4,), (7,), "linear", False),
        ((2, 3, 2), (4, 3, 5), "linear", False),
    ):
        scales = tuple(target / size for size, target in zip(sizes, out, strict=True))
        attrs = {"mode": mode, "scales": scales, "align_corners": align}
        cases.append(Case("resize", (f(2, 3, *sizes),), {**attrs, "spatial": out}))
        cases.append(Case("resize_gradient", (f(2, 3, *out),), {**attrs, "shape": (2, 3, *sizes)}))
    for sizes, out in (((5, 9), (3, 7)), ((2, 7), (7, 2)), ((5,), (3,)), ((3, 4, 5), (2, 4, 3))):
        wide, narrow = f(2, 3, *sizes), f(2, 3, *out)
        cases.append(Case("adaptive_avg_pool", (wide,), {"spatial": out}))
        cases.append(Case("adaptive_avg_pool_gradient", (narrow, wide), {"shape": (2, 3, *sizes)}))
    return cases


def windows(seed: int, count: int) -> list[Case]:
    """Convolutions and pools of random geometry: one to three axes, strides, dilations, groups, uneven padding."""
    generator = np.random.default_rng(seed)
    cases: list[Case] = []
    for number in range(count):
        rank = int(generator.choice((1, 2, 2, 2, 3)))

        def draw(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(int(value) for value in generator.integers(low, high + 1, rank))

        taps, stride, dilation = draw(1, 3), draw(1, 3), draw(1, 2)
        padding = tuple((int(generator.integers(0, t)), int(generator.integers(0, t))) for t in taps)
        spatial = tuple(int(d * (t - 1) + 1 + extra) for t, d, extra in zip(taps, dilation, draw(0, 4), strict=True))
        groups, per_group, k_group, batch = (int(generator.integers(1, 4)) for _ in range(4))
        geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        x, w = f(batch, groups * per_group, *spatial), f(groups * k_group, per_group, *taps)
        bias = (f(groups * k_group),) if number % 2 else ()
        conv = Case("conv", (x, w, *bias), geometry)
        y = Operand(conv.graph().tensors[conv.graph().outputs[0]].shape)
        cases += [conv, Case("conv_weight_gradient", (x, y), {**geometry, "taps": taps})]
        wide = (f(groups * per_group),) if number % 2 else ()
        cases.append(Case("conv_transpose", (y, w, *wide), {**geometry, "spatial": spatial}))
        cases += pools(x, taps, stride, padding, dilation, bool(number % 3 == 0), number)
    return cases


def pools(
    x: Operand, kernel: Shape, stride: Shape, padding: tuple[Shape, ...], dilation: Shape, ceil: bool, number: int
) -> list[Case]:
    """A max-pool and an average-pool with their gradients; padding at most half the window, as frameworks ask."""
    half = tuple((min(a, k // 2), min(b, k // 2)) for (a, b), k in zip(padding, kernel, strict=True))
    spread = (1,) * len(kernel) if ceil else dilation
    index = "uint8" if number % 2 else "int64"
    attrs = {"kernel": kernel, "stride": stride, "padding": half, "ceil": ceil}
    largest = Case("max_pool", (x,), {**attrs, "dilation": spread, "index_dtype": index})
    tensors = largest.graph()
    y = Operand(tensors.tensors[tensors.outputs[0]].shape)
    average = {**attrs, "dilation": (1,) * len(kernel), "count_padding": number % 4 < 2}
    flat = Case("avg_pool", (x,), average)
    tensors = flat.graph()
    z = Operand(tensors.tensors[tensors.outputs[0]].shape)
    limit = math.prod(x.shape[2:])
    chosen = i(limit, *y.shape) if index == "int64" else i(1, *y.shape, dtype="uint8")
    cases = [largest, flat, Case("avg_pool_gradient", (z, x), {**average, "shape": x.shape})]
    if index == "int64" or not any(before for before, _ in half):
        gradient = {**attrs, "dilation": spread, "index_dtype": index, "shape": x.shape}
        cases.append(Case("max_pool_gradient", (y, chosen, x), gradient))
    return cases


def all_cases() -> list[Case]:
    return [
        *unary(), *binary(), *selection(), *reductions(), *look_ups(), *losses_and_updates(), *matrices(), *shapes(),
        *norms(), *cells_and_attention(), *resampling(), *windows(seed=3, count=16),
    ]  # fmt: skip
