"""Point-wise parts of recurrent cells. A layer is unrolled over time into matrix products and these."""

from __future__ import annotations

import numpy as np

from monet.errors import ModelError
from monet.graph.backward import Backward
from monet.graph.kind import BACKWARD, Array, Call, Family, OpKind, Output, WorkRule, along, pointwise, register
from monet.graph.loop_nest import LoopNest, index
from monet.graph.op import Attributes
from monet.graph.operators.elementwise import sigmoid
from monet.graph.operators.nests import axes_of, over
from monet.graph.tensor import Tensor

# --- lstm_cell: gates (…, 4h) in order input, forget, cell, output; previous cell state ---------------------------------


def _infer_lstm(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    gates, cell = inputs
    if gates.shape != (*cell.shape[:-1], 4 * cell.shape[-1]):
        raise ModelError(f"an LSTM cell of {list(cell.shape)} needs four gates of its width, got {list(gates.shape)}")
    hidden, new = Output(cell.shape, cell.dtype), Output(cell.shape, cell.dtype, "cell")
    return hidden, new, Output(gates.shape, gates.dtype, "gates")


def _evaluate_lstm(_: Attributes, gates: Array, cell: Array) -> tuple[Array, ...]:
    i, f, g, o = np.split(gates, 4, axis=-1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    new = f * cell + i * g
    return o * np.tanh(new), new, np.concatenate([i, f, g, o], axis=-1)


def _lstm_rule(b: Backward) -> tuple[str | None, ...]:
    """Reads the activated gates and both cell states, as the framework's fused cell does."""
    hidden, cell = b.gradients[0], b.gradients[1]
    shape, dtype = b.shape(1), b.tensor(b.inputs[1]).dtype
    zeros = [g or b.emit("fill", shape=shape, value=0.0, dtype=dtype) for g in (hidden, cell)]
    names = b.emit_all("lstm_cell_gradient", *zeros, b.op.outputs[2], b.inputs[1], b.op.outputs[1])
    return tuple(name if needed else None for name, needed in zip(names, b.needs, strict=True))


def _infer_lstm_gradient(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    gates, cell = inputs[2], inputs[3]
    return Output(gates.shape, gates.dtype), Output(cell.shape, cell.dtype, "cell")


def _evaluate_lstm_gradient(
    _: Attributes, dh: Array, dc: Array, gates: Array, cell: Array, new: Array
) -> tuple[Array, ...]:
    i, f, g, o = np.split(gates, 4, axis=-1)
    t = np.tanh(new)
    dc = dc + dh * o * (1 - t * t)
    parts = [dc * g * i * (1 - i), dc * cell * f * (1 - f), dc * i * (1 - g * g), dh * t * o * (1 - o)]
    return np.concatenate(parts, axis=-1), dc * f


# --- gru_cell: gates of the input and of the hidden state (…, 3h) in order reset, update, new ---------------------------


def _infer_gru(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    x, h, hidden = inputs
    if x.shape != h.shape or x.shape[-1] != 3 * hidden.shape[-1]:
        raise ModelError(f"a GRU cell of {list(hidden.shape)} needs three gates of its width, got {list(x.shape)}")
    return Output(hidden.shape, hidden.dtype), Output(x.shape, x.dtype, "gates")


def _evaluate_gru(_: Attributes, x: Array, h: Array, hidden: Array) -> tuple[Array, ...]:
    (rx, zx, nx), (rh, zh, nh) = np.split(x, 3, axis=-1), np.split(h, 3, axis=-1)
    r, z = sigmoid(rx + rh), sigmoid(zx + zh)
    n = np.tanh(nx + r * nh)
    return (1 - z) * n + z * hidden, np.concatenate([r, z, n], axis=-1)


def _gru_rule(b: Backward) -> tuple[str | None, ...]:
    names = b.emit_all("gru_cell_gradient", b.gradient, b.op.outputs[1], b.inputs[1], b.inputs[2])
    return tuple(name if needed else None for name, needed in zip(names, b.needs, strict=True))


def _infer_gru_gradient(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    gates, h, hidden = inputs[1:]
    first, second = Output(gates.shape, gates.dtype), Output(h.shape, h.dtype, "hidden_gates")
    return first, second, Output(hidden.shape, hidden.dtype, "hidden")


def _evaluate_gru_gradient(_: Attributes, g: Array, gates: Array, h: Array, hidden: Array) -> tuple[Array, ...]:
    r, z, n = np.split(gates, 3, axis=-1)
    nh = np.split(h, 3, axis=-1)[2]
    dn = g * (1 - z) * (1 - n * n)
    dz = g * (hidden - n) * z * (1 - z)
    dr = dn * nh * r * (1 - r)
    return np.concatenate([dr, dz, dn], -1), np.concatenate([dr, dz, dn * r], -1), g * z


def _nest(call: Call) -> LoopNest:
    """One point per hidden unit; a gate tensor holds several such blocks side by side."""
    tensors = (*call.inputs, *call.outputs)
    hidden = min(tensors, key=lambda tensor: tensor.elements)
    rank = len(hidden.shape)
    lead = axes_of(range(rank - 1))
    maps = []
    for tensor in tensors:
        blocks = tensor.shape[-1] // hidden.shape[-1]
        last = index(f"A{rank - 1}") if blocks == 1 else index(("gate", hidden.shape[-1]), f"A{rank - 1}")
        maps.append((*lead, last))
    nest = over(hidden.shape, call, maps)
    gates = max(tensor.shape[-1] for tensor in tensors) // hidden.shape[-1]
    return LoopNest((*nest.dims, ("gate", gates)), nest.operands)


def _counts(**per_unit: int) -> WorkRule:
    def work(call: Call) -> dict[str, int]:
        units = min(tensor.elements for tensor in (*call.inputs, *call.outputs))
        return {function: count * units for function, count in per_unit.items()}

    return work


_GATES = along(lambda _: {"gate"})  # the gradient of one gate needs the values of the others

register(
    OpKind("lstm_cell", Family.VECTOR, _infer_lstm, _evaluate_lstm, _nest, pointwise, _counts(sigmoid=3, tanh=2, mul=3, add=1), _lstm_rule, ("LSTM",)),
    OpKind("lstm_cell_gradient", Family.VECTOR, _infer_lstm_gradient, _evaluate_lstm_gradient, _nest, _GATES, _counts(tanh=1, mul=14, add=6), no_onnx=BACKWARD),
    OpKind("gru_cell", Family.VECTOR, _infer_gru, _evaluate_gru, _nest, pointwise, _counts(sigmoid=2, tanh=1, mul=3, add=5), _gru_rule, ("GRU",)),
    OpKind("gru_cell_gradient", Family.VECTOR, _infer_gru_gradient, _evaluate_gru_gradient, _nest, _GATES, _counts(mul=12, add=5), no_onnx=BACKWARD),
)  # fmt: skip
