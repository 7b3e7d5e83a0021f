"""Element-wise operators: one table of unary functions, one of binary ones, and the gradients they need.

A unary entry says which of its input or output its derivative is written in: that tensor is what the framework saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from monet.errors import ModelError
from monet.formats import FORMATS
from monet.graph.backward import Backward
from monet.graph.kind import (
    BACKWARD,
    Array,
    Call,
    Family,
    GradientRule,
    MaskForm,
    Narrow,
    OpKind,
    Output,
    ShapeRule,
    along,
    like_first,
    like_second,
    pointwise,
    register,
)
from monet.graph.loop_nest import LoopNest, index
from monet.graph.op import Attributes
from monet.graph.operators.nests import axes_of, elementwise, over
from monet.graph.parts import own_part, parts_of, whole_shape
from monet.graph.tensor import Tensor

Work = Mapping[str, int]


def broadcast(*tensors: Tensor) -> tuple[int, ...]:
    """The common shape of ``tensors``."""
    try:
        return np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    except ValueError:
        shapes = " and ".join(str(list(tensor.shape)) for tensor in tensors)
        raise ModelError(f"shapes {shapes} do not broadcast") from None


def per_element(work: Work) -> Callable[[Call], dict[str, int]]:
    """A work rule: so many of each function per element of the first output."""
    return lambda call: {function: count * call.out.elements for function, count in work.items()}


def _erf(x: Array) -> Array:
    from scipy.special import erf  # only the executor needs it

    return np.asarray(erf(x))


def sigmoid(x: Array) -> Array:
    """1 / (1 + e⁻ˣ), without overflow."""
    out: Array = 0.5 * (1.0 + np.tanh(0.5 * x))
    return out


def _softplus(x: Array) -> Array:
    out: Array = np.logaddexp(0.0, x)
    return out


_GELU_TANH = float(np.sqrt(2.0 / np.pi))


def _gelu(attrs: Attributes, x: Array) -> Array:
    if attrs["approximate"]:
        return np.asarray(0.5 * x * (1.0 + np.tanh(_GELU_TANH * (x + 0.044715 * x**3))))
    return np.asarray(0.5 * x * (1.0 + _erf(x / np.sqrt(2.0))))


def _gelu_derivative(attrs: Attributes, x: Array) -> Array:
    if attrs["approximate"]:
        t = np.tanh(_GELU_TANH * (x + 0.044715 * x**3))
        return np.asarray(0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _GELU_TANH * (1 + 3 * 0.044715 * x**2))
    return np.asarray(0.5 * (1 + _erf(x / np.sqrt(2.0))) + x * np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi))


def _silu_derivative(_: Attributes, x: Array) -> Array:
    s = sigmoid(x)
    return np.asarray(s * (1 + x * (1 - s)))


def _mish_derivative(_: Attributes, x: Array) -> Array:
    t = np.tanh(_softplus(x))
    return np.asarray(t + x * (1 - t * t) * sigmoid(x))


def _elu_derivative(attrs: Attributes, x: Array) -> Array:
    return np.where(x > 0, 1.0, attrs["alpha"] * np.exp(np.minimum(x, 0)))


def _hardswish_derivative(_: Attributes, x: Array) -> Array:
    return np.where(x <= -3, 0.0, np.where(x < 3, x / 3 + 0.5, 1.0))


def _clip_derivative(attrs: Attributes, x: Array) -> Array:
    """The bounds themselves pass a gradient only where the framework says so (clamp does, ReLU6 does not)."""
    if attrs.get("closed", False):
        return np.asarray((x >= attrs["low"]) & (x <= attrs["high"]))
    return np.asarray((x > attrs["low"]) & (x < attrs["high"]))


@dataclass(frozen=True, slots=True)
class Unary:
    """One unary function. ``saves`` is "input", "output", "nothing", or "" when it has no useful derivative.

    ``inplace`` is what is saved instead when the output overwrote the input; the derivative must hold for both.
    """

    name: str
    function: Callable[[Attributes, Array], Array]
    saves: str
    derivative: Callable[[Attributes, Array], Array] | None
    work: Work
    gradient_work: Work = field(default_factory=lambda: {"mul": 1})
    onnx: tuple[str, ...] = ()
    inplace: str = ""
    no_onnx: str = ""
    mask: MaskForm | None = None


UNARY = (
    Unary("relu", lambda _, x: np.maximum(x, 0), "output", lambda _, y: y > 0, {"max": 1}, {"select": 1}, ("Relu",), mask=MaskForm("relu_masked", "relu_gradient", "mask", {"keep": True})),
    Unary("gelu", _gelu, "input", _gelu_derivative, {"erf": 1, "mul": 2, "add": 1}, {"erf": 1, "exp": 1, "mul": 4, "add": 1}, ("Gelu",)),
    Unary("silu", lambda _, x: x * sigmoid(x), "input", _silu_derivative, {"sigmoid": 1, "mul": 1}, {"sigmoid": 1, "mul": 3, "add": 2}, ("Swish",)),
    Unary("mish", lambda _, x: x * np.tanh(_softplus(x)), "input", _mish_derivative, {"exp": 1, "log": 1, "tanh": 1, "mul": 1}, {"exp": 1, "log": 1, "tanh": 1, "sigmoid": 1, "mul": 4, "add": 2}, ("Mish",)),
    Unary("sigmoid", lambda _, x: sigmoid(x), "output", lambda _, y: y * (1 - y), {"sigmoid": 1}, {"mul": 2, "add": 1}, ("Sigmoid",)),
    Unary("tanh", lambda _, x: np.tanh(x), "output", lambda _, y: 1 - y * y, {"tanh": 1}, {"mul": 2, "add": 1}, ("Tanh",)),
    Unary("elu", lambda a, x: np.where(x > 0, x, a["alpha"] * np.expm1(np.minimum(x, 0))), "input", _elu_derivative, {"exp": 1, "select": 1}, {"exp": 1, "select": 1, "mul": 1}, ("Elu",)),
    Unary("leaky_relu", lambda a, x: np.where(x > 0, x, a["alpha"] * x), "input", lambda a, x: np.where(x > 0, 1.0, a["alpha"]), {"mul": 1, "select": 1}, {"mul": 1, "select": 1}, ("LeakyRelu",), inplace="output"),
    Unary("clip", lambda a, x: np.clip(x, a["low"], a["high"]), "input", _clip_derivative, {"max": 2}, {"select": 1}, ("Clip",)),
    Unary("hard_sigmoid", lambda a, x: np.clip(a["alpha"] * x + a["beta"], 0, 1), "input", lambda a, x: np.where((a["alpha"] * x + a["beta"] > 0) & (a["alpha"] * x + a["beta"] < 1), a["alpha"], 0.0), {"mul": 1, "add": 1, "max": 2}, {"mul": 1, "select": 1}, ("HardSigmoid",)),
    Unary("hard_swish", lambda _, x: x * np.clip(x / 6 + 0.5, 0, 1), "input", _hardswish_derivative, {"mul": 2, "add": 1, "max": 2}, {"mul": 2, "add": 1, "select": 2}, ("HardSwish",)),
    Unary("softplus", lambda _, x: _softplus(x), "input", lambda _, x: sigmoid(x), {"exp": 1, "log": 1, "add": 1}, {"sigmoid": 1, "mul": 1}, ("Softplus",)),
    Unary("exp", lambda _, x: np.exp(x), "output", lambda _, y: y, {"exp": 1}, {"mul": 1}, ("Exp",)),
    Unary("log", lambda _, x: np.log(x), "input", lambda _, x: 1 / x, {"log": 1}, {"div": 1}, ("Log",)),
    Unary("sqrt", lambda _, x: np.sqrt(x), "output", lambda _, y: 0.5 / y, {"sqrt": 1}, {"div": 1, "mul": 1}, ("Sqrt",)),
    Unary("rsqrt", lambda _, x: 1 / np.sqrt(x), "output", lambda _, y: -0.5 * y**3, {"sqrt": 1, "div": 1}, {"mul": 4}, no_onnx="files write Sqrt and Reciprocal"),
    Unary("reciprocal", lambda _, x: 1 / x, "output", lambda _, y: -y * y, {"div": 1}, {"mul": 2}, ("Reciprocal",)),
    Unary("erf", lambda _, x: _erf(x), "input", lambda _, x: 2 / np.sqrt(np.pi) * np.exp(-x * x), {"erf": 1}, {"exp": 1, "mul": 3}, ("Erf",)),
    Unary("sin", lambda _, x: np.sin(x), "input", lambda _, x: np.cos(x), {"sin": 1}, {"sin": 1, "mul": 1}, ("Sin",)),
    Unary("cos", lambda _, x: np.cos(x), "input", lambda _, x: -np.sin(x), {"sin": 1}, {"sin": 1, "mul": 1}, ("Cos",)),
    Unary("abs", lambda _, x: np.abs(x), "input", lambda _, x: np.sign(x), {"max": 1}, {"select": 1}, ("Abs",)),
    Unary("pow_scalar", lambda a, x: x ** a["exponent"], "input", lambda a, x: a["exponent"] * x ** (a["exponent"] - 1), {"pow": 1}, {"pow": 1, "mul": 2}, ("Pow",)),
    Unary("scale", lambda a, x: x * a["factor"], "nothing", lambda a, g: g * a["factor"], {"mul": 1}, {"mul": 1}, ("Mul",)),
    Unary("shift", lambda a, x: x + a["offset"], "nothing", None, {"add": 1}, onnx=("Add",)),
    Unary("neg", lambda _, x: -x, "nothing", lambda _, g: -g, {"add": 1}, {"add": 1}, ("Neg",)),
    Unary("sign", lambda _, x: np.sign(x), "", None, {"select": 1}, onnx=("Sign",)),
    Unary("floor", lambda _, x: np.floor(x), "", None, {"add": 1}, onnx=("Floor",)),
    Unary("ceil", lambda _, x: np.ceil(x), "", None, {"add": 1}, onnx=("Ceil",)),
    Unary("round", lambda _, x: np.round(x), "", None, {"add": 1}, onnx=("Round",)),
)  # fmt: skip


def _unary_rule(entry: Unary) -> GradientRule:
    def rule(b: Backward) -> tuple[str | None, ...]:
        if entry.saves == "nothing":
            same = entry.derivative is None
            return (b.gradient if same else b.emit(entry.name, b.gradient, **b.attrs),)
        overwritten = b.tensor(b.output).storage == b.tensor(b.inputs[0]).storage
        source = entry.inplace if overwritten and entry.inplace else entry.saves
        saved = b.output if source == "output" else b.inputs[0]
        return (b.emit(f"{entry.name}_gradient", b.gradient, saved, **b.attrs),)

    return rule


def _gradient_function(entry: Unary) -> Callable[[Attributes, Array, Array], Array]:
    derivative = entry.derivative
    if derivative is None:
        raise ValueError(f"{entry.name} has no derivative")
    return lambda attrs, g, saved: np.asarray(g * derivative(attrs, saved))


for _entry in UNARY:
    _rule = _unary_rule(_entry) if _entry.saves else None
    _in_place = _entry.saves in ("output", "nothing") or _entry.inplace == "output"
    register(
        OpKind(
            _entry.name, Family.VECTOR, like_first, _entry.function, elementwise, pointwise, per_element(_entry.work),
            _rule, _entry.onnx, _entry.no_onnx, in_place=_in_place, mask=_entry.mask,
        )
    )  # fmt: skip
    if _entry.saves in ("input", "output"):
        register(
            OpKind(
                f"{_entry.name}_gradient", Family.VECTOR, like_first, _gradient_function(_entry), elementwise,
                pointwise, per_element(_entry.gradient_work), no_onnx=BACKWARD,
            )
        )  # fmt: skip


# --- binary ---------------------------------------------------------------------------------------------------------


def _infer_binary(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    return (Output(broadcast(*inputs), inputs[0].dtype),)


def _infer_compare(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    return (Output(broadcast(*inputs), "bool"),)


def _broadcast_rule(*terms: Callable[[Backward], str] | None) -> GradientRule:
    """By input its gradient in the shape of the output, summed over what the input was broadcast to; None: it has none."""
    return lambda b: tuple(
        b.sum_to(term(b), b.shape(position)) if term and needed else None
        for position, (term, needed) in enumerate(zip(terms, b.needs, strict=True))
    )


def _choice_rule(kind: str) -> GradientRule:
    return _broadcast_rule(
        lambda b: b.emit(kind, b.gradient, *b.inputs, position=0),
        lambda b: b.emit(kind, b.gradient, *b.inputs, position=1),
    )


_add_rule = _broadcast_rule(lambda b: b.gradient, lambda b: b.gradient)
_sub_rule = _broadcast_rule(lambda b: b.gradient, lambda b: b.emit("neg", b.sum_to(b.gradient, b.shape(1))))
_mul_rule = _broadcast_rule(
    lambda b: b.emit("mul", b.gradient, b.inputs[1]), lambda b: b.emit("mul", b.gradient, b.inputs[0])
)
_div_rule = _broadcast_rule(
    lambda b: b.emit("div", b.gradient, b.inputs[1]), lambda b: b.emit("div_gradient", b.gradient, *b.inputs)
)
_pow_rule = _broadcast_rule(
    lambda b: b.emit("pow_base_gradient", b.gradient, *b.inputs),
    lambda b: b.emit("pow_exponent_gradient", b.gradient, b.inputs[0], b.output),
)
_where_rule = _broadcast_rule(
    None,
    lambda b: b.emit("mask", b.gradient, b.inputs[0], keep=True),
    lambda b: b.emit("mask", b.gradient, b.inputs[0], keep=False),
)


def _chosen(choose: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def evaluate(attrs: Attributes, g: Array, x: Array, y: Array) -> Array:
        tie = (x == y) * 0.5
        first = choose(x, y) + tie
        return np.asarray(g * (first if attrs["position"] == 0 else 1 - first))

    return evaluate


def _vector(
    name: str,
    evaluate: Callable[..., Array | tuple[Array, ...]],
    work: Work,
    rule: GradientRule | None = None,
    onnx: tuple[str, ...] = (),
    infer: ShapeRule = _infer_binary,
    **more: Any,
) -> OpKind:
    return OpKind(name, Family.VECTOR, infer, evaluate, elementwise, pointwise, per_element(work), rule, onnx, **more)


register(
    _vector("add", lambda _, x, y: x + y, {"add": 1}, _add_rule, ("Add", "Sum"), in_place=True),
    _vector("sub", lambda _, x, y: x - y, {"add": 1}, _sub_rule, ("Sub",), in_place=True),
    _vector("mul", lambda _, x, y: x * y, {"mul": 1}, _mul_rule, ("Mul",)),
    _vector("div", lambda _, x, y: x / y, {"div": 1}, _div_rule, ("Div",)),
    _vector("div_gradient", lambda _, g, x, y: -g * x / (y * y), {"div": 1, "mul": 3}, no_onnx=BACKWARD),
    _vector("pow", lambda _, x, y: x**y, {"pow": 1}, _pow_rule, ("Pow",)),
    _vector("pow_base_gradient", lambda _, g, x, y: g * y * x ** (y - 1), {"pow": 1, "mul": 2}, no_onnx=BACKWARD),
    _vector("pow_exponent_gradient", lambda _, g, x, out: g * out * np.log(x), {"log": 1, "mul": 2}, no_onnx=BACKWARD),
    _vector("maximum", lambda _, x, y: np.maximum(x, y), {"max": 1}, _choice_rule("maximum_gradient"), ("Max",)),
    _vector("minimum", lambda _, x, y: np.minimum(x, y), {"max": 1}, _choice_rule("minimum_gradient"), ("Min",)),
    _vector("maximum_gradient", _chosen(lambda x, y: x > y), {"select": 1}, no_onnx=BACKWARD),
    _vector("minimum_gradient", _chosen(lambda x, y: x < y), {"select": 1}, no_onnx=BACKWARD),
    _vector("equal", lambda _, x, y: x == y, {"select": 1}, None, ("Equal",), _infer_compare),
    _vector("greater", lambda _, x, y: x > y, {"select": 1}, None, ("Greater",), _infer_compare),
    _vector("greater_equal", lambda _, x, y: x >= y, {"select": 1}, None, ("GreaterOrEqual",), _infer_compare),
    _vector("less", lambda _, x, y: x < y, {"select": 1}, None, ("Less",), _infer_compare),
    _vector("less_equal", lambda _, x, y: x <= y, {"select": 1}, None, ("LessOrEqual",), _infer_compare),
    _vector("logical_and", lambda _, x, y: x & y, {"select": 1}, None, ("And",), _infer_compare),
    _vector("logical_or", lambda _, x, y: x | y, {"select": 1}, None, ("Or",), _infer_compare),
    _vector("logical_not", lambda _, x: ~x, {"select": 1}, None, ("Not",), _infer_compare),
    _vector("isnan", lambda _, x: np.isnan(x), {"select": 1}, None, ("IsNaN",), _infer_compare),
    _vector("modulo", lambda _, x, y: np.mod(x, y), {"div": 1}, None, ("Mod",)),
)


# --- selection: where, masks, dropout -------------------------------------------------------------------------------


def _infer_first(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    broadcast(*inputs)
    return like_first(inputs, attrs)


def drawn(
    attrs: Attributes, shape: tuple[int, ...], draw: Callable[[np.random.Generator, tuple[int, ...]], Array]
) -> Array:
    """Random numbers of a shape: a function of the seed, and of all of a tensor of which ranks have parts."""
    generator = np.random.default_rng(attrs["seed"])
    if "parts" not in attrs:
        return draw(generator, shape)
    return own_part(draw(generator, whole_shape(shape, parts_of(attrs))), attrs)


def _infer_dropout(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    if not 0 <= attrs["p"] < 1:
        raise ModelError(f"dropout probability {attrs['p']} must be at least 0 and below 1")
    (x,) = inputs
    # eager PyTorch on the CPU, our oracle, keeps the mask in the activation's type; the compact policy a bit
    return Output(x.shape, x.dtype), Output(x.shape, attrs.get("mask_dtype", x.dtype), "mask")


def _evaluate_dropout(attrs: Attributes, x: Array) -> tuple[Array, Array]:
    """The mask is a function of the seed, so that a recomputation replays it. Ranks have parts of one mask."""
    mask = drawn(attrs, x.shape, lambda generator, shape: generator.random(shape)) >= attrs["p"]
    return np.asarray(x * mask / (1 - attrs["p"])), mask


def _cast_rule(b: Backward) -> tuple[str | None, ...]:
    source = b.tensor(b.inputs[0]).dtype
    return (b.emit("cast", b.gradient, dtype=source),) if FORMATS[source].is_float else (None,)


def _infer_relu_masked(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    return Output(x.shape, x.dtype), Output(x.shape, "bit", "mask")


register(
    _vector(
        "relu_masked", lambda _, x: (np.maximum(x, 0), x > 0), {"max": 1, "select": 1},
        lambda b: (b.emit("mask", b.gradient, b.op.outputs[1], keep=True),), infer=_infer_relu_masked,
        no_onnx="compact saving makes it of a relu",
    ),
    _vector(
        "where", lambda _, c, x, y: np.where(c, x, y), {"select": 1}, _where_rule, ("Where",),
        lambda inputs, _: (Output(broadcast(*inputs), inputs[1].dtype),),
    ),
    _vector(
        "mask", lambda attrs, g, condition: np.where(condition == attrs["keep"], g, np.zeros((), g.dtype)),
        {"select": 1}, infer=_infer_first, no_onnx=BACKWARD,
    ),
    _vector(
        "masked_fill", lambda attrs, x, m: np.where(m, np.asarray(attrs["value"], x.dtype), x), {"select": 1},
        lambda b: (b.emit("mask", b.gradient, b.inputs[1], keep=False), None), ("Where",), _infer_first, in_place=True,
    ),
    _vector(
        "dropout", _evaluate_dropout, {"random": 1, "mul": 1},
        lambda b: (b.emit("dropout_gradient", b.gradient, b.op.outputs[1], p=b.attrs["p"]),), ("Dropout",),
        _infer_dropout, narrow=lambda _: Narrow(1, "bit", "mask_dtype"),
    ),
    _vector(
        "dropout_gradient", lambda a, g, mask: g * mask / (1 - a["p"]), {"mul": 1}, infer=_infer_first,
        no_onnx=BACKWARD,
    ),
    _vector(
        "cast", lambda attrs, x: FORMATS[attrs["dtype"]].cast(x), {"cast": 1}, _cast_rule, ("Cast", "CastLike"),
        lambda inputs, attrs: (Output(inputs[0].shape, attrs["dtype"]),),
    ),
)  # fmt: skip


# --- activations with more than one operand or half the output ------------------------------------------------------------


def _prelu_rule(b: Backward) -> tuple[str | None, ...]:
    """One fused operator reads the input and the slopes; the slopes' share is summed over what they were broadcast to."""
    dx, dslope = b.emit_all("prelu_gradient", b.gradient, *b.inputs)
    return dx if b.needs[0] else None, b.sum_to(dslope, b.shape(1)) if b.needs[1] else None


def _infer_prelu_gradient(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    g = inputs[0]
    return Output(g.shape, g.dtype), Output(g.shape, g.dtype, "slope")


def _glu_axis(x: Tensor, attrs: Attributes) -> int:
    axis: int = attrs["axis"]
    if not 0 <= axis < len(x.shape) or x.shape[axis] % 2:
        raise ModelError(f"a gated linear unit halves axis {axis} of {list(x.shape)}, which cannot be halved")
    return axis


def _infer_glu(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    x, axis = inputs[0], _glu_axis(inputs[0], attrs)
    return (Output((*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :]), x.dtype),)


def _evaluate_glu(attrs: Attributes, x: Array) -> Array:
    value, gate = np.split(x, 2, axis=attrs["axis"])
    return np.asarray(value * sigmoid(gate))


def _evaluate_glu_gradient(attrs: Attributes, g: Array, x: Array) -> Array:
    value, gate = np.split(x, 2, axis=attrs["axis"])
    s = sigmoid(gate)
    return np.concatenate([g * s, g * value * s * (1 - s)], axis=attrs["axis"])


def _nest_glu(call: Call) -> LoopNest:
    """One point per output element of the forward; the wide side is read (or written) at two places of one axis."""
    wide = call.inputs[0] if len(call.inputs) == 1 else call.inputs[1]
    axis, rank = call.attrs["axis"], len(wide.shape)
    half = wide.shape[axis] // 2
    shape = (*wide.shape[:axis], half, *wide.shape[axis + 1 :])
    plain = axes_of(range(rank))
    both = (*plain[:axis], index(("half", half), f"A{axis}"), *plain[axis + 1 :])
    maps = [both if tensor.shape == wide.shape else plain for tensor in (*call.inputs, *call.outputs)]
    nest = over(shape, call, maps)
    return LoopNest((*nest.dims, ("half", 2)), nest.operands)


register(
    _vector(
        "prelu", lambda _, x, slope: np.where(x > 0, x, slope * x), {"mul": 1, "select": 1}, _prelu_rule, ("PRelu",),
    ),
    _vector(
        "prelu_gradient",
        lambda _, g, x, slope: (np.where(x > 0, g, g * slope), np.where(x > 0, np.zeros((), g.dtype), g * x)),
        {"mul": 2, "select": 2}, infer=_infer_prelu_gradient, no_onnx=BACKWARD,
    ),
    OpKind(
        "glu", Family.VECTOR, _infer_glu, _evaluate_glu, _nest_glu, pointwise, per_element({"sigmoid": 1, "mul": 1}),
        lambda b: (b.emit("glu_gradient", b.gradient, b.inputs[0], axis=b.attrs["axis"]),),
        no_onnx="importers put it together from Split, Sigmoid and Mul",
    ),
    OpKind(
        "glu_gradient", Family.VECTOR, like_second, _evaluate_glu_gradient, _nest_glu, along(lambda _: {"half"}),
        lambda call: {"sigmoid": call.inputs[0].elements, "mul": 4 * call.inputs[0].elements}, no_onnx=BACKWARD,
    ),
)  # fmt: skip
