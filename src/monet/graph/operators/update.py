"""Optimizer updates: one fused operator per parameter, in place on the weight and its state; and gradient clipping.

Every update takes (weight, gradient, *state); ``master`` in the attributes says that the first state is an fp32 master
copy, which is then what is updated, the weight being its rounded image; ``clipped`` that a clip coefficient comes last.
Formulas are the framework's (torch.optim): coupled weight decay for SGD and Adam, decoupled for AdamW.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from monet.errors import ModelError
from monet.graph.kind import UPDATE, Array, Call, Family, OpKind, Output, pointwise, reduces, register, sums
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Attributes
from monet.graph.operators.nests import broadcast_indices, over
from monet.graph.operators.normalization import statistics_dtype
from monet.graph.tensor import Role, Tensor

Step = Callable[[Attributes, Array, Array, tuple[Array, ...]], tuple[Array, ...]]


def _infer(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    weight, gradient = inputs[:2]
    if weight.shape != gradient.shape:
        raise ModelError(f"the gradient {list(gradient.shape)} does not fit the weight {list(weight.shape)}")
    state = inputs[2 : len(inputs) - int(attrs["clipped"])]
    states = (Output(tensor.shape, tensor.dtype, f"state{i}", i + 2, role=Role.STATE) for i, tensor in enumerate(state))
    return (Output(weight.shape, weight.dtype, "", 0, role=Role.PARAMETER), *states)


def _sgd(attrs: Attributes, weight: Array, g: Array, _: tuple[Array, ...]) -> tuple[Array, ...]:
    return (weight - attrs["rate"] * (g + attrs["decay"] * weight),)


def _momentum(attrs: Attributes, weight: Array, g: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    velocity = attrs["momentum"] * state[0] + g + attrs["decay"] * weight
    return weight - attrs["rate"] * velocity, velocity


def _adam(attrs: Attributes, weight: Array, g: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
    first, second, step = state
    beta1, beta2 = attrs["betas"]
    if attrs["decoupled"]:
        weight = weight * (1 - attrs["rate"] * attrs["decay"])
    else:
        g = g + attrs["decay"] * weight
    step = step + 1
    first = beta1 * first + (1 - beta1) * g
    second = beta2 * second + (1 - beta2) * g * g
    deviation = np.sqrt(second) / np.sqrt(1 - beta2**step) + attrs["epsilon"]
    return weight - attrs["rate"] / (1 - beta1**step) * first / deviation, first, second, step


def _evaluate(step: Step) -> Callable[..., tuple[Array, ...]]:
    def evaluate(attrs: Attributes, weight: Array, gradient: Array, *rest: Array) -> tuple[Array, ...]:
        if attrs["clipped"]:
            *kept, coefficient = rest
            gradient, rest = gradient * coefficient, tuple(kept)
        if not attrs["master"]:
            return step(attrs, weight, gradient, rest)
        master, *state = step(attrs, rest[0], gradient.astype(rest[0].dtype), rest[1:])
        return (master.astype(weight.dtype), master, *state)

    return evaluate


def _nest(call: Call) -> LoopNest:
    """Over the elements of the weight; scalars (step count, clip coefficient) stay put."""
    shape = call.inputs[0].shape
    tensors = (*call.inputs, *call.outputs)
    return over(shape, call, [broadcast_indices(t, len(shape)) if t.shape == shape else () for t in tensors])


def _work(**counts: int) -> Callable[[Call], dict[str, int]]:
    def work(call: Call) -> dict[str, int]:
        extra = {"mul": counts["mul"] + int(call.attrs["clipped"])}
        return {function: n * call.inputs[0].elements for function, n in {**counts, **extra}.items()}

    return work


for _name, _step, _count in (
    ("sgd_update", _sgd, _work(mul=1, add=1)),
    ("momentum_update", _momentum, _work(mul=2, add=2)),
    ("adam_update", _adam, _work(mul=6, add=4, div=1, sqrt=1)),
):
    register(
        OpKind(_name, Family.VECTOR, _infer, _evaluate(_step), _nest, pointwise, _count, no_onnx=UPDATE, is_update=True)
    )


# --- gradient clipping by global norm: a sum of squares per gradient, then one coefficient --------------------------


def _infer_scalar(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    return (Output((), statistics_dtype(inputs[0])),)


def _evaluate_coefficient(attrs: Attributes, *squares: Array) -> Array:
    norm = np.sqrt(sum(squares))
    return np.asarray(np.minimum(1.0, attrs["max_norm"] / (norm + 1e-6)))


def _nest_square_sum(call: Call) -> LoopNest:
    x = call.inputs[0]
    return over(x.shape, call, [broadcast_indices(x, len(x.shape)), ()])


register(
    OpKind(
        "square_sum", Family.VECTOR, _infer_scalar, lambda _, g: np.asarray((g * g).sum()), _nest_square_sum, sums,
        lambda call: {"mul": call.inputs[0].elements, "add": call.inputs[0].elements}, no_onnx=UPDATE,
    ),
    OpKind(
        "clip_coefficient", Family.VECTOR, _infer_scalar, _evaluate_coefficient,
        lambda call: over((), call, [()] * (len(call.inputs) + 1)), reduces,
        lambda call: {"add": len(call.inputs), "sqrt": 1, "div": 1}, no_onnx=UPDATE,
    ),
)  # fmt: skip
