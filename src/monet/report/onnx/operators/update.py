"""Optimizer updates and gradient clipping."""

from __future__ import annotations

from collections.abc import Callable

from monet.report.onnx.body import Body, Value, Writer
from monet.report.onnx.table import WRITERS, writes

Step = Callable[[Body, Value, Value, tuple[Value, ...]], tuple[Value, ...]]


def _sgd(b: Body, weight: Value, g: Value, _: tuple[Value, ...]) -> tuple[Value, ...]:
    return (weight - b.call.attrs["rate"] * _decayed(b, weight, g),)


def _decayed(b: Body, weight: Value, g: Value) -> Value:
    decay = b.call.attrs["decay"]
    return g + decay * weight if decay else g


def _momentum(b: Body, weight: Value, g: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
    velocity = b.call.attrs["momentum"] * state[0] + _decayed(b, weight, g)
    return weight - b.call.attrs["rate"] * velocity, velocity


def _adam(b: Body, weight: Value, g: Value, state: tuple[Value, ...]) -> tuple[Value, ...]:
    attrs, (first, second, step) = b.call.attrs, state
    beta1, beta2 = attrs["betas"]
    if attrs["decoupled"]:
        weight = weight * (1 - attrs["rate"] * attrs["decay"])
    else:
        g = _decayed(b, weight, g)
    step = step + 1.0
    first = beta1 * first + (1 - beta1) * g
    second = beta2 * second + (1 - beta2) * (g * g)
    deviation = b.node("Sqrt", second) / b.node("Sqrt", _correction(b, beta2, step)) + attrs["epsilon"]
    return weight - attrs["rate"] / _correction(b, beta1, step) * (first / deviation), first, second, step


def _correction(b: Body, beta: float, step: Value) -> Value:
    """1 − betaᵗ, in fp64: with beta near one, fp32 would lose half of its digits on the first steps."""
    return (1.0 - b.binary("Pow", b.scalar(beta, "fp64"), step.cast("fp64"))).cast(step.dtype)


def _update(step: Step) -> Writer:
    def write(b: Body) -> tuple[Value, ...]:
        weight, gradient, *rest = b.inputs
        if b.call.attrs["clipped"]:
            gradient = gradient * rest.pop()
        if not b.call.attrs["master"]:
            return step(b, weight, gradient, tuple(rest))
        master, *state = step(b, rest[0], gradient, tuple(rest[1:]))
        return (master, master, *state)

    return write


WRITERS.rows(
    {
        "sgd_update": _update(_sgd),
        "momentum_update": _update(_momentum),
        "adam_update": _update(_adam),
        "square_sum": lambda b: b.node("ReduceSumSquare", b.inputs[0], keepdims=0),
    }
)


@writes("clip_coefficient")
def _clip_coefficient(b: Body) -> Value:
    norm = b.node("Sqrt", b.node("Sum", *b.inputs))
    one, limit = b.scalar(1.0, norm.dtype), b.scalar(b.call.attrs["max_norm"], norm.dtype)
    return b.node("Min", one, limit / (norm + 1e-6))
