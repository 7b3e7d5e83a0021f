"""Element-wise operators and their gradients, selection, dropout and casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from monet.formats import FORMATS
from monet.graph.op import Attributes
from monet.report.onnx.body import Body, Value, Writer
from monet.report.onnx.table import WRITERS, formula_table, writes

# --- kinds that are one standard operator -----------------------------------------------------------------------------

_SAME = {
    "relu": "Relu", "mish": "Mish", "sigmoid": "Sigmoid", "tanh": "Tanh", "hard_swish": "HardSwish",
    "softplus": "Softplus", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "erf": "Erf",
    "sin": "Sin", "cos": "Cos", "abs": "Abs", "neg": "Neg", "sign": "Sign", "floor": "Floor", "ceil": "Ceil",
    "round": "Round", "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "maximum": "Max",
    "minimum": "Min", "prelu": "PRelu",
}  # fmt: skip
_COMPARE = {
    "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "less": "Less",
    "less_equal": "LessOrEqual", "isnan": "IsNaN",
}  # fmt: skip
_LOGICAL = {"logical_and": "And", "logical_or": "Or", "logical_not": "Not"}


def _same(op_type: str, dtype: str = "") -> Writer:
    return lambda b: b.node(op_type, *b.native(op_type), dtype=dtype)


def _with_attributes(op_type: str, attributes: Callable[[Attributes], dict[str, Any]]) -> Writer:
    return lambda b: b.node(op_type, *b.native(op_type), **attributes(b.call.attrs))


def _logical(op_type: str) -> Writer:
    return lambda b: b.node(op_type, *(value.cast("bool") for value in b.raw))


def _with_number(op_type: str, key: str) -> Writer:
    """A number as second operand. It is kept exact: where the type would round it, the operator computes wider."""

    def write(b: Body) -> Value:
        number, dtype = b.call.attrs[key], FORMATS[b.raw[0].dtype]
        exact = dtype.bits >= 32 if dtype.is_float else number == int(number)
        if not exact and dtype.is_float:
            exact = float(dtype.cast(np.asarray(number))) == number
        (x,) = b.native(op_type) if exact else (b.raw[0].cast(b.compute),)
        return b.binary(op_type, x, number)

    return write


WRITERS.rows(
    {
        **{kind: _same(op_type) for kind, op_type in _SAME.items()},
        **{kind: _same(op_type, "bool") for kind, op_type in _COMPARE.items()},
        **{kind: _logical(op_type) for kind, op_type in _LOGICAL.items()},
        "gelu": _with_attributes("Gelu", lambda a: {"approximate": "tanh" if a["approximate"] else "none"}),
        "elu": _with_attributes("Elu", lambda a: {"alpha": a["alpha"]}),
        "leaky_relu": _with_attributes("LeakyRelu", lambda a: {"alpha": a["alpha"]}),
        "hard_sigmoid": _with_attributes("HardSigmoid", lambda a: {"alpha": a["alpha"], "beta": a["beta"]}),
        "scale": _with_number("Mul", "factor"),
        "shift": _with_number("Add", "offset"),
        "pow_scalar": _with_number("Pow", "exponent"),
        "cast": lambda b: b.raw[0].cast(b.call.attrs["dtype"]),
    }
)


@writes("clip")
def _clip(b: Body) -> Value:
    (x,) = b.native("Clip")
    low, high = (b.call.attrs[key] for key in ("low", "high"))
    bounds = [None if bound is None or math.isinf(bound) else b.scalar(bound, x.dtype) for bound in (low, high)]
    return b.node("Clip", x, *bounds[: 2 if bounds[1] else 1])


@writes("modulo")
def _modulo(b: Body) -> Value:
    """Sign of the divisor; ONNX has that for integers only."""
    if not any(FORMATS[value.dtype].is_float for value in b.raw):
        return b.node("Mod", *b.native("Mod"))
    x, y = (value.cast(b.compute) for value in b.raw)
    return x - b.node("Floor", x / y) * y


# --- gradients: the incoming gradient times a derivative of what was saved --------------------------------------------


def _gelu_derivative(b: Body, x: Value) -> Value:
    if b.call.attrs["approximate"]:
        slope = math.sqrt(2.0 / math.pi)
        t = b.node("Tanh", slope * (x + 0.044715 * (x * x * x)))
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * (slope * (1.0 + 3 * 0.044715 * (x * x)))
    density = b.node("Exp", -0.5 * (x * x)) * (1.0 / math.sqrt(2.0 * math.pi))
    return 0.5 * (1.0 + b.node("Erf", x * math.sqrt(0.5))) + x * density


def _silu_derivative(b: Body, x: Value) -> Value:
    s = b.node("Sigmoid", x)
    return s * (1.0 + x * (1.0 - s))


def _mish_derivative(b: Body, x: Value) -> Value:
    t = b.node("Tanh", b.node("Softplus", x))
    return t + x * (1.0 - t * t) * b.node("Sigmoid", x)


def _elu_derivative(b: Body, x: Value) -> Value:
    falling = float(b.call.attrs["alpha"]) * b.node("Exp", b.node("Min", x, b.scalar(0.0, x.dtype)))
    return b.where(x > 0.0, 1.0, falling)


def _clip_derivative(b: Body, x: Value) -> Value:
    low, high = float(b.call.attrs["low"]), float(b.call.attrs["high"])
    return ((x > low) & (x < high)).cast(x.dtype)


def _hard_sigmoid_derivative(b: Body, x: Value) -> Value:
    alpha, beta = float(b.call.attrs["alpha"]), float(b.call.attrs["beta"])
    line = alpha * x + beta
    return ((line > 0.0) & (line < 1.0)).cast(x.dtype) * alpha


def _hard_swish_derivative(b: Body, x: Value) -> Value:
    return b.where(x <= -3.0, 0.0, b.where(x < 3.0, x * (1.0 / 3.0) + 0.5, 1.0))


def _power_derivative(b: Body, x: Value) -> Value:
    exponent = float(b.call.attrs["exponent"])
    return exponent * x ** (exponent - 1)


_DERIVATIVES: dict[str, Callable[[Body, Value], Value]] = {
    "relu": lambda b, y: (y > 0.0).cast(y.dtype),
    "gelu": _gelu_derivative,
    "silu": _silu_derivative,
    "mish": _mish_derivative,
    "sigmoid": lambda b, y: y * (1.0 - y),
    "tanh": lambda b, y: 1.0 - y * y,
    "elu": _elu_derivative,
    "leaky_relu": lambda b, x: b.where(x > 0.0, 1.0, b.scalar(b.call.attrs["alpha"], x.dtype)),
    "clip": _clip_derivative,
    "hard_sigmoid": _hard_sigmoid_derivative,
    "hard_swish": _hard_swish_derivative,
    "softplus": lambda b, x: b.node("Sigmoid", x),
    "exp": lambda b, y: y,
    "log": lambda b, x: 1.0 / x,
    "sqrt": lambda b, y: 0.5 / y,
    "rsqrt": lambda b, y: -0.5 * (y * y * y),
    "reciprocal": lambda b, y: -(y * y),
    "erf": lambda b, x: (2.0 / math.sqrt(math.pi)) * b.node("Exp", -(x * x)),
    "sin": lambda b, x: b.node("Cos", x),
    "cos": lambda b, x: -b.node("Sin", x),
    "abs": lambda b, x: b.node("Sign", x),
    "pow_scalar": _power_derivative,
}


def _chosen(b: Body, op_type: str, g: Value, x: Value, y: Value) -> Value:
    """Gradient of the larger (smaller) of two: all to the chosen side, half each on a tie."""
    first = b.node(op_type, x, y, dtype="bool").cast(g.dtype) + 0.5 * x.same_as(y).cast(g.dtype)
    return g * (first if b.call.attrs["position"] == 0 else 1.0 - first)


def _gradient(derivative: Callable[[Body, Value], Value]) -> Callable[[Body, Value, Value], Value]:
    return lambda b, gradient, saved: gradient * derivative(b, saved)


formula_table(
    {
        **{f"{kind}_gradient": _gradient(derivative) for kind, derivative in _DERIVATIVES.items()},
        "rsqrt": lambda b, x: b.node("Reciprocal", b.node("Sqrt", x)),
        "silu": lambda b, x: x * b.node("Sigmoid", x),
        "div_gradient": lambda b, g, x, y: -(g * x / (y * y)),
        "pow_base_gradient": lambda b, g, x, y: g * y * x ** (y - 1.0),
        "pow_exponent_gradient": lambda b, g, x, out: g * out * b.node("Log", x),
        "maximum_gradient": lambda b, g, x, y: _chosen(b, "Greater", g, x, y),
        "minimum_gradient": lambda b, g, x, y: _chosen(b, "Less", g, x, y),
        "dropout_gradient": lambda b, g, mask: g * mask.cast(g.dtype) / (1.0 - float(b.call.attrs["p"])),
    }
)


@writes("prelu_gradient")
def _prelu_gradient(b: Body) -> tuple[Value, ...]:
    g, x, slope = b.inputs
    rising = x > 0.0
    return b.where(rising, g, g * slope), b.where(rising, 0.0, g * x)


def _halves(b: Body, x: Value, size: int) -> tuple[Value, Value]:
    """The value and the gate of a gated linear unit."""
    axis = b.call.attrs["axis"]
    value, gate = b.node_all("Split", x, b.integers(size // 2, size // 2), dtypes=(x.dtype,) * 2, axis=axis)
    return value, b.node("Sigmoid", gate)


@writes("glu")
def _glu(b: Body) -> Value:
    value, opened = _halves(b, b.inputs[0], b.shape(0)[b.call.attrs["axis"]])
    return value * opened


@writes("glu_gradient")
def _glu_gradient(b: Body) -> Value:
    (g, x), axis = b.inputs, b.call.attrs["axis"]
    value, opened = _halves(b, x, b.shape(1)[axis])
    return b.node("Concat", g * opened, g * value * opened * (1.0 - opened), axis=axis)


# --- selection, dropout, casts ----------------------------------------------------------------------------------------

MASK_LIMIT = 1 << 16  # elements of a dropout mask that go into the file even where nobody asks for exact numbers


@writes("relu_masked")
def _relu_masked(b: Body) -> tuple[Value, ...]:
    (x,) = b.raw
    return b.node("Relu", x), x > 0.0


@writes("where")
def _where(b: Body) -> Value:
    condition, x, y = b.raw
    return b.where(condition, x, y.cast(x.dtype))


@writes("mask")
def _mask(b: Body) -> Value:
    g, condition = b.raw
    return b.where(condition, g, 0.0) if b.call.attrs["keep"] else b.where(condition, 0.0, g)


@writes("masked_fill")
def _masked_fill(b: Body) -> Value:
    x, mask = b.raw
    return b.where(mask, b.call.attrs["value"], x)


@writes("dropout")
def _dropout(b: Body) -> tuple[Value, ...]:
    """The mask that the seed gives, where it may go into the file; else the standard operator, which draws its own."""
    p, seed, shape = b.call.attrs["p"], b.call.attrs["seed"], b.shape(0)
    if b.exact or math.prod(shape) <= MASK_LIMIT:
        (x,) = b.inputs
        mask = b.array(np.random.default_rng(seed).random(shape) >= p, "bool")
        return x * mask.cast(x.dtype) / (1.0 - p), mask
    (x,) = b.raw
    ratio, training = b.scalar(p, "fp32"), b.scalar(True, "bool")
    return b.node_all("Dropout", x, ratio, training, dtypes=(x.dtype, "bool"), seed=int(seed))
