"""Element-wise operators: activations, arithmetic with scalars folded into attributes, comparisons, selection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.frontends.onnx.element_types import dtype_of, dtype_of_array
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Known
from monet.frontends.onnx.translation import RULES, Rule, Translation, Value, is_causal, reads

_NEGLIGIBLE = -1e4  # a score at or below this has no weight after the softmax


def unary(kind: str, **fixed: Any) -> Rule:
    """One of our element-wise functions, as it is."""
    return lambda t, node: t.emit(node, kind, t.tensor(node, 0), **fixed)


def with_alpha(kind: str, default: float) -> Rule:
    """A function with a slope."""
    return lambda t, node: t.emit(node, kind, t.tensor(node, 0), alpha=round(float(node.get("alpha", default)), 7))


@reads("HardSigmoid")
def _hard_sigmoid(t: Translation, node: Node) -> str:
    alpha, beta = float(node.get("alpha", 0.2)), float(node.get("beta", 0.5))
    alpha = 1 / 6 if abs(alpha - 1 / 6) < 1e-6 else alpha
    return t.emit(node, "hard_sigmoid", t.tensor(node, 0), alpha=alpha, beta=beta)


@reads("Selu")
def _selu(t: Translation, node: Node) -> str:
    alpha, gamma = float(node.get("alpha", 1.6732632423543772)), float(node.get("gamma", 1.0507009873554805))
    return t.emit(node, "scale", t.emit(node, "elu", t.tensor(node, 0), alpha=alpha), factor=gamma)


@reads("Celu")
def _celu(t: Translation, node: Node) -> str:
    alpha = float(node.get("alpha", 1.0))
    if alpha == 1.0:
        return t.emit(node, "elu", t.tensor(node, 0), alpha=1.0)
    inner = t.emit(node, "elu", t.emit(node, "scale", t.tensor(node, 0), factor=1 / alpha), alpha=1.0)
    return t.emit(node, "scale", inner, factor=alpha)


@reads("Softsign")
def _softsign(t: Translation, node: Node) -> str:
    x = t.tensor(node, 0)
    return t.emit(node, "div", x, t.emit(node, "shift", t.emit(node, "abs", x), offset=1.0))


@reads("ThresholdedRelu")
def _thresholded(t: Translation, node: Node) -> str:
    x, alpha = t.tensor(node, 0), float(node.get("alpha", 1.0))
    bound = t.emit(node, "fill", shape=(), value=alpha, dtype=t.of(x).dtype)
    below = t.emit(node, "less_equal", x, bound)
    return t.emit(node, "masked_fill", x, below, value=0.0)


@reads("Shrink")
def _shrink(t: Translation, node: Node) -> str:
    x, bound, bias = t.tensor(node, 0), float(node.get("lambd", 0.5)), float(node.get("bias", 0.0))
    limit = t.emit(node, "fill", shape=(), value=bound, dtype=t.of(x).dtype)
    inside = t.emit(node, "less_equal", t.emit(node, "abs", x), limit)
    if bias:
        x = t.emit(node, "sub", x, t.emit(node, "scale", t.emit(node, "sign", x), factor=bias))
    return t.emit(node, "masked_fill", x, inside, value=0.0)


@reads("Clip")
def _clip(t: Translation, node: Node) -> str:
    bounds = t.number(node, 1, "a bound", "min", -math.inf), t.number(node, 2, "a bound", "max", math.inf)
    low, high = (value if abs(value) < 3e38 else math.copysign(math.inf, value) for value in bounds)
    return t.emit(node, "clip", t.tensor(node, 0), low=low, high=high)


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _scalar_and_other(t: Translation, node: Node) -> tuple[int, float | int, str] | None:
    """(position of the scalar, its value, the other operand), if one operand is a known scalar that adds no axes."""
    for position in (1, 0):
        value, other = t.operand(node, position), t.operand(node, 1 - position)
        if not isinstance(value, Known) or not value.is_scalar or not isinstance(other, str):
            continue
        if value.array.ndim <= len(t.shape(other)):
            return position, value.scalar, other
    return None


def _arithmetic(kind: str) -> Rule:
    def rule(t: Translation, node: Node) -> Value:
        if kind == "add" and (masked := _causal_sum(t, node)):
            return masked
        found = _scalar_and_other(t, node)
        if found is not None:
            return _with_scalar(t, node, kind, *found)
        return t.emit(node, kind, *t.fitted(node, t.tensor(node, 0), t.tensor(node, 1)))

    return rule


def _causal_sum(t: Translation, node: Node) -> str:
    """Scores plus a table that is −∞ exactly ahead of the diagonal are scores under a causal mask; "" otherwise."""
    for position in (0, 1):
        table, x = t.operand(node, position), t.operand(node, 1 - position)
        if not isinstance(table, Known) or not isinstance(x, str) or not np.issubdtype(table.array.dtype, np.floating):
            continue
        array = np.asarray(table.array, np.float64)
        hidden = array <= _NEGLIGIBLE
        if is_causal(hidden) and not array[~hidden].any() and array.shape[-2:] == t.shape(x)[-2:]:
            mask = t.emit(node, "causal_mask", rows=array.shape[-2], columns=array.shape[-1])
            return t.emit(node, "masked_fill", x, mask, value=-math.inf)
    return ""


def _with_scalar(t: Translation, node: Node, kind: str, position: int, value: float | int, x: str) -> str:
    if FORMATS[t.of(x).dtype].is_float:
        value = float(value)
    elif kind == "div":
        return t.emit(node, "div", t.tensor(node, 0), t.tensor(node, 1))
    if kind in ("add", "sub") and value == 0 and position == 1:
        return x
    if kind in ("mul", "div") and value == 1 and position == 1:
        return x
    if kind == "add":
        return t.emit(node, "shift", x, offset=value)
    if kind == "mul":
        return t.emit(node, "scale", x, factor=value)
    if kind == "sub":
        return t.emit(node, "shift", x if position else t.emit(node, "neg", x), offset=-value if position else value)
    if position:
        return t.emit(node, "scale", x, factor=1.0 / value)
    inverse = t.emit(node, "reciprocal", x)
    return inverse if value == 1 else t.emit(node, "scale", inverse, factor=value)


@reads("Pow")
def _pow(t: Translation, node: Node) -> str:
    exponent = t.operand(node, 1)
    if not isinstance(exponent, Known) or not exponent.is_scalar:
        return t.emit(node, "pow", t.tensor(node, 0), t.tensor(node, 1))
    value, x = float(exponent.scalar), t.tensor(node, 0)
    if value == 1.0:
        return x
    if value == 0.5:
        return t.emit(node, "sqrt", x)
    return t.emit(node, "pow_scalar", x, exponent=int(value) if value == int(value) else value)


def _variadic(kind: str, mean: bool = False) -> Rule:
    def rule(t: Translation, node: Node) -> str:
        total = t.tensor(node, 0)
        for position in range(1, len(node.inputs)):
            total = t.emit(node, kind, total, t.tensor(node, position))
        return t.emit(node, "scale", total, factor=1.0 / len(node.inputs)) if mean else total

    return rule


def binary(kind: str) -> Rule:
    """One of our operators on two tensors."""
    return lambda t, node: t.emit(node, kind, *t.fitted(node, t.tensor(node, 0), t.tensor(node, 1)))


# --- selection, types ------------------------------------------------------------------------------------------------


@reads("Where")
def _where(t: Translation, node: Node) -> Value:
    condition, chosen, other = (t.operand(node, position) for position in range(3))
    if condition is None or chosen is None or other is None:
        raise ModelError("Where needs three inputs")
    for fill, x, inverted in ((chosen, other, False), (other, chosen, True)):
        if not (isinstance(fill, Known) and fill.is_uniform and isinstance(x, str)):
            continue
        shape = np.broadcast_shapes(t.shape_of(condition), fill.array.shape, t.shape(x))
        if shape != t.shape(x) or not FORMATS[t.of(x).dtype].is_float:
            continue
        if not inverted:
            return t.emit(node, "masked_fill", x, t.make(condition), value=float(fill.scalar))
        if isinstance(condition, Known):
            mask = Known(~condition.array, f"not {condition.name}", None, condition.follows_shapes, True)
            return t.emit(node, "masked_fill", x, t.make(mask), value=float(fill.scalar))
    return t.emit(node, "where", t.make(condition), t.make(chosen), t.make(other))


@reads("Cast", "CastLike")
def _cast(t: Translation, node: Node) -> Value:
    x = t.tensor(node, 0)
    if node.op == "CastLike":
        like = t.operand(node, 1)
        dtype = dtype_of_array(like.array) if isinstance(like, Known) else t.of(str(like)).dtype
    else:
        dtype = dtype_of(node.get("to"), "the result")
    return x if dtype == t.of(x).dtype else t.emit(node, "cast", x, dtype=dtype)


@reads("Dropout")
def _dropout(t: Translation, node: Node) -> Value | tuple[Value, ...]:
    """Random only where the file says it is training; the framework keeps its mask in the type of the values."""
    x = t.tensor(node, 0)
    ratio = t.number(node, 1, "a ratio", "ratio", 0.5)
    if not t.number(node, 2, "a training mode") or ratio == 0:
        return x
    return t.emit_all(node, "dropout", x, p=round(ratio, 7), seed=len(t.builder.ops))


@reads("Identity")
def _identity(t: Translation, node: Node) -> Value:
    value = t.operand(node, 0)
    if value is None:
        raise ModelError("Identity needs an input")
    return value


RULES.rows(
    {
        **{
            op: unary(kind)
            for op, kind in {
                "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Softplus": "softplus", "Mish": "mish",
                "HardSwish": "hard_swish", "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Reciprocal": "reciprocal",
                "Erf": "erf", "Sin": "sin", "Cos": "cos", "Abs": "abs", "Neg": "neg", "Sign": "sign", "Floor": "floor",
                "Ceil": "ceil", "Round": "round", "Not": "logical_not", "IsNaN": "isnan", "Swish": "silu",
            }.items()
        },
        **{
            op: binary(kind)
            for op, kind in {
                "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Less": "less",
                "LessOrEqual": "less_equal", "And": "logical_and", "Or": "logical_or", "Mod": "modulo",
            }.items()
        },
        "Gelu": lambda t, node: t.emit(
            node, "gelu", t.tensor(node, 0), approximate=node.get("approximate", "none") == "tanh"
        ),
        # the slope is one for all, or one per channel under an axis for each position
        "PRelu": lambda t, node: t.emit(node, "prelu", t.tensor(node, 0), t.weight(node, 1)),
        "LeakyRelu": with_alpha("leaky_relu", 0.01),
        "Elu": with_alpha("elu", 1.0),
        "Add": _arithmetic("add"),
        "Sub": _arithmetic("sub"),
        "Mul": _arithmetic("mul"),
        "Div": _arithmetic("div"),
        "Sum": _variadic("add"),
        "Mean": _variadic("add", mean=True),
        "Max": _variadic("maximum"),
        "Min": _variadic("minimum"),
        "Xor": lambda t, node: t.emit(node, "logical_not", t.emit(node, "equal", t.tensor(node, 0), t.tensor(node, 1))),
    }
)  # fmt: skip
