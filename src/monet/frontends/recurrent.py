"""Recurrent layers, unrolled over time: one projection of all inputs, then a step product and a cell per time step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from monet.graph import GraphBuilder


@dataclass(frozen=True, slots=True)
class CellWeights:
    """Weights of one direction of one layer: (gates·hidden, in), (gates·hidden, hidden), and their biases or ""."""

    input: str
    hidden: str
    input_bias: str = ""
    hidden_bias: str = ""


def _linear(builder: GraphBuilder, x: str, weight: str, bias: str, name: str) -> str:
    operands = (x, weight, bias) if bias else (x, weight)
    return builder.emit("linear", *operands, name=name, transpose=False)


def _lstm_step(builder: GraphBuilder, x: str, h: str, state: tuple[str, ...]) -> tuple[str, ...]:
    gates = builder.emit("add", x, h, name="gates")
    return builder.emit_all("lstm_cell", gates, state[1], name="cell")[:2]


def _gru_step(builder: GraphBuilder, x: str, h: str, state: tuple[str, ...]) -> tuple[str, ...]:
    return builder.emit_all("gru_cell", x, h, state[0], name="cell")[:1]


def _tanh_step(builder: GraphBuilder, x: str, h: str, _: tuple[str, ...]) -> tuple[str, ...]:
    return (builder.emit("tanh", builder.emit("add", x, h, name="sum"), name="cell"),)


def _relu_step(builder: GraphBuilder, x: str, h: str, _: tuple[str, ...]) -> tuple[str, ...]:
    return (builder.emit("relu", builder.emit("add", x, h, name="sum"), name="cell"),)


Step = Callable[[GraphBuilder, str, str, tuple[str, ...]], tuple[str, ...]]
STEPS: dict[str, Step] = {"lstm": _lstm_step, "gru": _gru_step, "tanh": _tanh_step, "relu": _relu_step}


def zero_state(builder: GraphBuilder, cell: str, batch: int, hidden: int, dtype: str) -> tuple[str, ...]:
    """The initial state a framework makes when none is given."""
    count = 2 if cell == "lstm" else 1
    return tuple(
        builder.emit("fill", name="initial_state", shape=(batch, hidden), value=0.0, dtype=dtype) for _ in range(count)
    )


def unroll(
    builder: GraphBuilder, cell: str, x: str, weights: CellWeights, state: tuple[str, ...], reverse: bool = False
) -> tuple[str, tuple[str, ...]]:
    """One direction of one layer over ``x`` of (time, batch, width); returns ((time, batch, hidden), final state)."""
    steps, batch, _ = builder.tensors[x].shape
    projected = _linear(builder, x, weights.input, weights.input_bias, "input_projection")
    rows = builder.emit_all("split", projected, sizes=(1,) * steps, axis=0) if steps > 1 else (projected,)
    gates = builder.tensors[projected].shape[-1]
    outputs: list[str] = []
    for time in reversed(range(steps)) if reverse else range(steps):
        with builder.scope(f"step{time}"):
            now = builder.emit("reshape", rows[time], shape=(batch, gates))
            hidden = _linear(builder, state[0], weights.hidden, weights.hidden_bias, "hidden_projection")
            state = STEPS[cell](builder, now, hidden, state)
        outputs.append(state[0])
    return stack(builder, outputs[::-1] if reverse else outputs), state


def stack(builder: GraphBuilder, names: Sequence[str]) -> str:
    """Join tensors along a new first axis."""
    shape = builder.tensors[names[0]].shape
    rows = [builder.emit("reshape", name, shape=(1, *shape)) for name in names]
    return builder.emit("concat", *rows, axis=0) if len(rows) > 1 else rows[0]
