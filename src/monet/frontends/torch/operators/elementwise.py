"""Element-wise functions: activations, arithmetic with tensors and numbers in either order, comparisons, selection."""

from __future__ import annotations

import math
from typing import Any

from monet.formats import FORMATS
from monet.frontends.torch.translation import RULES, Ref, Rule, Translation, Unsupported, aten

# --- functions of one tensor ------------------------------------------------------------------------------------------

_PLAIN = {
    "relu": "relu", "silu": "silu", "mish": "mish", "sigmoid": "sigmoid", "tanh": "tanh", "hardswish": "hard_swish",
    "exp": "exp", "log": "log", "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "reciprocal", "erf": "erf",
    "sin": "sin", "cos": "cos", "abs": "abs", "neg": "neg", "sign": "sign", "floor": "floor", "ceil": "ceil",
    "round": "round",
}  # fmt: skip


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017


def _plain(kind: str) -> Rule:
    return lambda t, a: t.emit(kind, t.cast(a.self, t.out_dtype))


RULES.rows(
    {
        **{f"{name}.default": _plain(kind) for name, kind in _PLAIN.items()},
        "special_expit.default": lambda t, a: t.emit("sigmoid", a.self),
        "gelu.default": lambda t, a: t.emit("gelu", a.self, approximate=a.approximate == "tanh"),
        "relu6.default": lambda t, a: _clip(t, a.self, 0, 6),
        "hardtanh.default": lambda t, a: _clip(t, a.self, a.min_val, a.max_val),
        "hardsigmoid.default": lambda t, a: t.emit("hard_sigmoid", a.self, alpha=1 / 6, beta=0.5),
        "elu.default": lambda t, a: _elu(t, t.scale(a.self, a.input_scale), float(a.alpha), a.scale),
        "celu.default": lambda t, a: _elu(t, t.scale(a.self, 1 / a.alpha), 1.0, a.alpha),
        "selu.default": lambda t, a: _elu(t, a.self, _SELU_ALPHA, _SELU_SCALE),
        "softplus.default": lambda t, a: t.scale(t.emit("softplus", t.scale(a.self, a.beta)), 1 / a.beta),
        "log_sigmoid.default": lambda t, a: t.emit("neg", t.emit("softplus", t.emit("neg", a.self))),
        "softshrink.default": lambda t, a: t.emit("sub", a.self, _clip(t, a.self, -a.lambd, a.lambd)),
        "glu.default": lambda t, a: t.emit("glu", a.self, axis=t.axis(a.self, a.dim)),
        "expm1.default": lambda t, a: t.emit("shift", t.emit("exp", a.self), offset=-1.0),
        "log1p.default": lambda t, a: t.emit("log", t.emit("shift", a.self, offset=1.0)),
        "log2.default": lambda t, a: t.scale(t.emit("log", a.self), 1 / math.log(2.0)),
        "log10.default": lambda t, a: t.scale(t.emit("log", a.self), 1 / math.log(10.0)),
        "square.default": lambda t, a: t.emit("pow_scalar", a.self, exponent=2.0),
        "exp2.default": lambda t, a: t.emit("exp", t.scale(a.self, math.log(2.0))),
        "trunc.default": lambda t, a: truncated(t, a.self),
        "isnan.default": lambda t, a: t.emit("isnan", a.self),
    }
)


def _clip(t: Translation, x: str, low: float, high: float) -> Ref:
    return t.emit("clip", x, low=float(low), high=float(high))


def _elu(t: Translation, x: str, alpha: float, scale: float) -> Ref:
    return t.scale(t.emit("elu", x, alpha=alpha), scale)


def truncated(t: Translation, x: str) -> Ref:
    """``x`` rounded towards zero."""
    return t.emit("mul", t.emit("sign", x), t.emit("floor", t.emit("abs", x)))


@aten("leaky_relu.default")
def _leaky_relu(t: Translation, a: Any) -> Ref:
    if a.negative_slope <= 0 and t.overwrites:
        t.overwrites = ""  # the slope cannot be told from the output any more
    return t.emit("leaky_relu", a.self, alpha=float(a.negative_slope))


@aten("prelu.default")
def _prelu(t: Translation, a: Any) -> Ref:
    rank, count = t.rank(a.self), t.tensor(a.weight).elements
    shape = (1, count, *([1] * (rank - 2))) if count > 1 else (1,) * max(rank, 1)
    return t.emit("prelu", a.self, t.reshape(a.weight, shape))


@aten("hardshrink.default")
def _hardshrink(t: Translation, a: Any) -> Ref:
    edge = t.fill(a.lambd, (), t.out_dtype)
    return t.emit("masked_fill", a.self, t.emit("less_equal", t.emit("abs", a.self), edge), value=0.0)


@aten("threshold.default")
def _threshold(t: Translation, a: Any) -> Ref:
    if a.threshold == a.value == 0:
        return t.emit("relu", a.self)
    mask = t.emit("less_equal", a.self, t.fill(a.threshold, (), t.out_dtype))
    return t.emit("masked_fill", a.self, mask, value=float(a.value))


@aten("logical_not.default", "bitwise_not.default")
def _logical_not(t: Translation, a: Any) -> Ref:
    if t.tensor(a.self).dtype != "bool":
        if t.out_dtype != "bool":
            raise Unsupported("bits of integers")
        return t.emit("equal", a.self, t.fill(0, (), t.tensor(a.self).dtype))
    return t.emit("logical_not", a.self)


# --- arithmetic -----------------------------------------------------------------------------------------------------


def _scalar(x: Any) -> bool:
    return not isinstance(x, Ref)


def _binary(t: Translation, kind: str, left: Any, right: Any) -> Ref:
    dtype = t.out_dtype
    return t.emit(kind, t.operand(left, dtype), t.operand(right, dtype))


RULES.rows(
    {
        "remainder.Tensor remainder.Scalar fmod.Tensor fmod.Scalar": lambda t, a: _binary(t, "modulo", a.self, a.other),
        "pow.Tensor_Tensor": lambda t, a: _binary(t, "pow", a.self, a.exponent),
        "maximum.default max.other": lambda t, a: _binary(t, "maximum", a.self, a.other),
        "minimum.default min.other": lambda t, a: _binary(t, "minimum", a.self, a.other),
        "div.Tensor div.Scalar true_divide.Tensor div.out": lambda t, a: _quotient(t, a),
        "addcmul.default": lambda t, a: t.emit("add", a.self, t.scale(t.emit("mul", a.tensor1, a.tensor2), a.value)),
        "addcdiv.default": lambda t, a: t.emit("add", a.self, t.scale(t.emit("div", a.tensor1, a.tensor2), a.value)),
    }
)


@aten("add.Tensor", "add.Scalar")
def _add(t: Translation, a: Any) -> Ref:
    if _scalar(a.other):
        return t.emit("shift", t.cast(a.self, t.out_dtype), offset=a.other * a.alpha)
    if _scalar(a.self):
        return t.emit("shift", t.scale(t.cast(a.other, t.out_dtype), a.alpha), offset=a.self)
    if t.out_dtype == "bool":
        return t.emit("logical_or", a.self, a.other)
    return _binary(t, "add", a.self, t.scale(t.cast(a.other, t.out_dtype), a.alpha))


@aten("sub.Tensor", "sub.Scalar")
def _sub(t: Translation, a: Any) -> Ref:
    if _scalar(a.other):
        return t.emit("shift", t.cast(a.self, t.out_dtype), offset=-a.other * a.alpha)
    return _binary(t, "sub", a.self, t.scale(t.cast(a.other, t.out_dtype), a.alpha))


@aten("rsub.Scalar", "rsub.Tensor")
def _rsub(t: Translation, a: Any) -> Ref:
    if not _scalar(a.other):
        return _binary(t, "sub", a.other, t.scale(t.cast(a.self, t.out_dtype), a.alpha))
    return t.emit("shift", t.scale(t.cast(a.self, t.out_dtype), -a.alpha), offset=a.other)


@aten("mul.Tensor", "mul.Scalar")
def _mul(t: Translation, a: Any) -> Ref:
    if _scalar(a.other) or _scalar(a.self):
        tensor, number = (a.self, a.other) if _scalar(a.other) else (a.other, a.self)
        return t.emit("scale", t.cast(tensor, t.out_dtype), factor=number)
    if t.out_dtype == "bool":
        return t.emit("logical_and", a.self, a.other)
    return _binary(t, "mul", a.self, a.other)


def _quotient(t: Translation, a: Any) -> Ref:
    """The form with a place for the result is spectral norm's; what it leaves in that buffer is not followed."""
    if _scalar(a.other):
        return t.emit("scale", t.cast(a.self, t.out_dtype), factor=1.0 / a.other)
    if _scalar(a.self):
        return t.scale(t.emit("reciprocal", t.cast(a.other, t.out_dtype)), a.self)
    return _binary(t, "div", a.self, a.other)


@aten("div.Tensor_mode", "div.Scalar_mode", "floor_divide.default", "floor_divide.Scalar")
def _whole_division(t: Translation, a: Any) -> Ref:
    mode = getattr(a, "rounding_mode", "floor")
    if mode is None:
        return _quotient(t, a)
    result = t.out_dtype
    working = result if FORMATS[result].is_float else "fp32"
    quotient = t.emit("div", t.operand(a.self, working), t.operand(a.other, working))
    whole = t.emit("floor", quotient) if mode == "floor" else truncated(t, quotient)
    return t.cast(whole, result)


@aten("pow.Tensor_Scalar", "float_power.Tensor_Scalar")
def _power(t: Translation, a: Any) -> Ref:
    if a.exponent == 0.5:
        return t.emit("sqrt", a.self)
    if a.exponent == 1:
        return t.emit("copy", a.self)
    return t.emit("pow_scalar", t.cast(a.self, t.out_dtype), exponent=float(a.exponent))


@aten("pow.Scalar")
def _exponential(t: Translation, a: Any) -> Ref:
    """base^x = e^(x ln base): the gradient keeps the result, as the framework does."""
    if a.self <= 0:
        raise Unsupported("a base that is not positive")
    return t.emit("exp", t.scale(t.cast(a.exponent, t.out_dtype), math.log(a.self)))


@aten("lerp.Scalar", "lerp.Tensor")
def _lerp(t: Translation, a: Any) -> Ref:
    step = t.emit("sub", a.end, a.self)
    step = t.scale(step, a.weight) if _scalar(a.weight) else t.emit("mul", step, a.weight)
    return t.emit("add", a.self, step)


@aten("clamp.default", "clamp_min.default", "clamp_max.default", "clip.default")
def _clamp(t: Translation, a: Any) -> Ref:
    low, high = getattr(a, "min", None), getattr(a, "max", None)
    return t.emit(
        "clip", t.cast(a.self, t.out_dtype), low=-math.inf if low is None else float(low),
        high=math.inf if high is None else float(high), closed=True,
    )  # fmt: skip


@aten("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def _clamp_by_tensor(t: Translation, a: Any) -> Ref:
    x, low, high = a.self, getattr(a, "min", None), getattr(a, "max", None)
    if low is not None:
        x = _binary(t, "maximum", x, low)
    return _binary(t, "minimum", x, high) if high is not None else Ref(x)


# --- comparisons, logic, selection ----------------------------------------------------------------------------------


def _common(t: Translation, left: Any, right: Any) -> str:
    """The type two operands are compared in: floats win over integers; a number takes the tensor's type."""
    tensors = [x for x in (left, right) if isinstance(x, Ref)]
    floats = [x for x in tensors if t.is_float(x)]
    if floats:
        return t.tensor(floats[0]).dtype
    if any(isinstance(x, float) for x in (left, right)):
        return "fp32"
    return t.tensor(max(tensors, key=lambda x: FORMATS[t.tensor(x).dtype].bits)).dtype


def truth(t: Translation, x: str) -> Ref:
    """A tensor as booleans."""
    if t.tensor(x).dtype == "bool":
        return Ref(x)
    zero = t.fill(0, (), t.tensor(x).dtype)
    return t.emit("logical_not", t.emit("equal", x, zero))


def _compare(kind: str, negated: bool = False) -> Rule:
    def rule(t: Translation, a: Any) -> Ref:
        dtype = _common(t, a.self, a.other)
        result = t.emit(kind, t.operand(a.self, dtype), t.operand(a.other, dtype))
        return t.emit("logical_not", result) if negated else result

    return rule


def _logical(kind: str, negated: bool = False) -> Rule:
    def rule(t: Translation, a: Any) -> Ref:
        if t.out_dtype != "bool":
            raise Unsupported("bits of integers")
        result = t.emit(kind, truth(t, a.self), truth(t, a.other))
        return t.emit("logical_not", result) if negated else result

    return rule


RULES.rows(
    {
        "eq.Tensor eq.Scalar": _compare("equal"),
        "ne.Tensor ne.Scalar": _compare("equal", negated=True),
        "gt.Tensor gt.Scalar": _compare("greater"),
        "ge.Tensor ge.Scalar": _compare("greater_equal"),
        "lt.Tensor lt.Scalar": _compare("less"),
        "le.Tensor le.Scalar": _compare("less_equal"),
        "logical_and.default bitwise_and.Tensor __and__.Tensor": _logical("logical_and"),
        "logical_or.default bitwise_or.Tensor __or__.Tensor": _logical("logical_or"),
        "logical_xor.default bitwise_xor.Tensor __xor__.Tensor": _logical("equal", negated=True),
    }
)


@aten("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(t: Translation, a: Any) -> Ref:
    dtype = t.out_dtype
    return t.emit("where", truth(t, a.condition), t.operand(a.self, dtype), t.operand(a.other, dtype))


@aten("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(t: Translation, a: Any) -> Ref:
    x = t.cast(a.self, t.out_dtype)
    if isinstance(a.value, Ref):
        number = constant_number(t, a.value)
        if number is None:
            return t.emit("where", a.mask, t.cast(a.value, t.out_dtype), x)
        a.value = number
    if t.shape(x) != t.out_shape:
        x = t.expand(x, t.out_shape)
    return t.emit("masked_fill", x, a.mask, value=a.value if FORMATS[t.out_dtype].is_float else int(a.value))


def constant_number(t: Translation, x: str) -> float | None:
    """The value of a tensor that is a constant of one element, else None."""
    source = t.source(x)
    if source is not None and source.kind == "fill":
        return float(source.attrs["value"])
    value = t.builder.values.get(x)
    return float(value.reshape(())) if value is not None and value.size == 1 else None


# --- types, copies, dropout -----------------------------------------------------------------------------------------


@aten("to.dtype", "to.dtype_layout", "to.device", "to.other", "_to_copy.default", "type_as.default")
def _to(t: Translation, a: Any) -> Ref:
    copies = getattr(a, "copy", False)
    return t.emit("copy", a.self) if copies and t.tensor(a.self).dtype == t.out_dtype else t.cast(a.self, t.out_dtype)


@aten("dropout.default")
def _dropout(t: Translation, a: Any) -> Ref:
    """With probability 0, or outside training, the framework hands the input on."""
    if a.p == 0 or not a.train:
        return Ref(a.input)
    return t.emit("dropout", a.input, p=float(a.p), seed=len(t.builder.ops))


@aten("feature_dropout.default")
def _feature_dropout(t: Translation, a: Any) -> Ref:
    """Whole channels are dropped: a mask of one value per channel."""
    if a.p == 0 or not a.train:
        return Ref(a.input)
    shape = t.shape(a.input)
    ones = t.fill(1.0, (*shape[:2], *([1] * (len(shape) - 2))), t.out_dtype)
    return t.emit("mul", a.input, t.emit("dropout", ones, p=float(a.p), seed=len(t.builder.ops)))
