"""Recurrent layers, unrolled over time. Weights are named and laid out as the framework's, gates i f g o and r z n."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from monet.errors import ModelError
from monet.frontends.onnx.file import Node
from monet.frontends.onnx.folding import Array, Known
from monet.frontends.onnx.translation import Translation, Unsupported, Value, reads
from monet.frontends.onnx.weights import made_up
from monet.frontends.recurrent import CellWeights, stack, unroll, zero_state
from monet.graph.kind import kind_named
from monet.graph.op import Phase
from monet.graph.tensor import Role

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}  # our gate order in terms of the file's
_DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
_STRUCTURE = frozenset({"slice", "split", "concat", "reshape", "transpose"})


def _reordered(array: Array, gates: tuple[int, ...]) -> Array:
    """Blocks of the first axis in our gate order."""
    blocks = np.split(array, len(gates), axis=0)
    return np.concatenate([blocks[gate] for gate in gates], axis=0)


def _cell(node: Node) -> str:
    directions = 2 if node.get("direction", "forward") == "bidirectional" else 1
    given = node.get("activations") or _DEFAULTS[node.op] * directions
    per = len(_DEFAULTS[node.op])
    names = [name.lower() for name in given[:per]]
    if node.op == "RNN" and names[0] in ("tanh", "relu") and len(set(given)) == 1:
        return names[0]
    if [name.capitalize() for name in names] != _DEFAULTS[node.op] or node.get("clip") or node.get("input_forget", 0):
        raise Unsupported("other activations, clip or input_forget")
    if node.op == "GRU" and not node.get("linear_before_reset", 0):
        raise Unsupported("linear_before_reset = 0")
    if node.op == "LSTM" and node.input(7):
        raise Unsupported("peepholes")
    return node.op.lower()


@reads("LSTM", "GRU", "RNN")
def _recurrent(t: Translation, node: Node) -> tuple[Value, ...]:
    cell, x = _cell(node), t.tensor(node, 0)
    layout = bool(node.get("layout", 0))
    if layout:
        x = t.emit(node, "transpose", x, order=(1, 0, 2))
    direction = node.get("direction", "forward")
    reverses = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    layer = t.layers.get(node.scope, 0)
    t.layers[node.scope] = layer + 1
    outputs, states = [], []
    for number, reverse in enumerate(reverses):
        weights = _weights(t, node, number, f"l{layer}" + ("_reverse" if reverse else ""))
        hidden = t.shape(weights.hidden)[1]
        state = _initial(t, node, cell, number, (t.shape(x)[1], hidden), t.of(x).dtype, layout)
        part = ".".join(name for name in (node.scope, f"layer{layer}" + ("_reverse" if reverse else "")) if name)
        with t.builder.at(Phase.FORWARD, part):
            sequence, final = unroll(t.builder, cell, _rows(t, x), weights, state, reverse)
        outputs.append(sequence)
        states.append(final)
    return _results(t, node, outputs, states, layout)


def _rows(t: Translation, x: str) -> str:
    """Each direction multiplies (and keeps) a contiguous copy of an input that is not laid out step by step."""
    if t.of(x).is_contiguous:
        return x
    shape = t.shape(x)
    flat = t.builder.emit("reshape", x, shape=(shape[0] * shape[1], shape[2]))
    return t.builder.emit("reshape", flat, shape=shape)


def _results(
    t: Translation, node: Node, outputs: list[str], states: list[tuple[str, ...]], layout: bool
) -> tuple[Value, ...]:
    """(time, directions, batch, hidden) and the final states (directions, batch, hidden), as the file numbers them."""
    steps, batch, hidden = t.shape(outputs[0])
    with t.builder.at(Phase.FORWARD, node.scope):
        parts = [t.builder.emit("reshape", name, shape=(steps, 1, batch, hidden)) for name in outputs]
        y = t.builder.emit("concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        finals = [stack(t.builder, column) for column in zip(*states, strict=True)]
    if layout:
        y = t.emit(node, "transpose", y, order=(2, 0, 1, 3))
        finals = [t.emit(node, "transpose", name, order=(1, 0, 2)) for name in finals]
    return (y, *finals)


# --- weights ---------------------------------------------------------------------------------------------------------


def _weights(t: Translation, node: Node, number: int, suffix: str) -> CellWeights:
    gates = _GATES[node.op]
    names = [
        _weight(t, node, slot, f"{leaf}_{suffix}", lambda array: _reordered(array[number], gates))
        for slot, leaf in ((1, "weight_ih"), (2, "weight_hh"))
    ]
    if not node.input(3):
        return CellWeights(*names)

    def half(which: int) -> Callable[[Array], Array]:
        return lambda array: _reordered(np.split(array[number], 2)[which], gates)

    biases = [_weight(t, node, 3, f"bias_{leaf}_{suffix}", half(which)) for which, leaf in ((0, "ih"), (1, "hh"))]
    return CellWeights(*names, *biases)


def _weight(t: Translation, node: Node, slot: int, leaf: str, layout: Callable[[Array], Array]) -> str:
    """One matrix or vector of one direction: of a stored block, or the parameter it was assembled from."""
    initializer = node.input(slot)
    title = ".".join(part for part in (t.weights.module(node), leaf) if part)
    if initializer in t.weights:
        shape = layout(np.empty(t.weights.shape(initializer), np.int8)).shape
        if not made_up(initializer) and not node.scope:
            title = f"{initializer}.{leaf}"
        return t.declare(title, shape, t.weights.dtype(initializer), initializer, layout)
    value = t.operand(node, slot)
    if isinstance(value, Known):
        array = layout(value.array)
        return t.declare(title, array.shape, "fp32", "", lambda values: values, array)
    return _assembled(t, str(value), layout)


def _assembled(t: Translation, name: str, layout: Callable[[Array], Array]) -> str:
    """The parameter whose elements, rearranged, the file feeds to the layer: found by numbering all elements."""
    writers = {output: op for op in t.builder.ops for output in op.outputs}
    starts: dict[str, int] = {}
    total = 0
    for tensor in t.builder.tensors.values():
        if tensor.role is Role.PARAMETER and tensor.storage == tensor.name:
            starts[tensor.name] = total
            total += tensor.elements

    def numbers(current: str) -> Array:
        if current in starts:
            tensor = t.of(current)
            return starts[current] + np.arange(tensor.elements).reshape(tensor.shape)
        op = writers.get(current)
        if op is None or op.kind not in _STRUCTURE:
            raise Unsupported("weights that are computed")
        result = kind_named(op.kind).evaluate(op.attrs, *(numbers(operand) for operand in op.inputs))
        return result[op.outputs.index(current)] if isinstance(result, tuple) else result

    wanted = layout(numbers(name))
    for parameter, start in starts.items():
        tensor = t.of(parameter)
        whole = start + np.arange(tensor.elements).reshape(tensor.shape)
        if whole.shape == wanted.shape and np.array_equal(whole, wanted):
            return parameter
    raise Unsupported("weights that are not whole parameters")


def _initial(
    t: Translation, node: Node, cell: str, number: int, shape: tuple[int, int], dtype: str, layout: bool
) -> tuple[str, ...]:
    slots = (5, 6) if cell == "lstm" else (5,)
    given = [t.operand(node, slot) for slot in slots]
    if all(t.is_zero(value) for value in given):
        with t.builder.at(Phase.FORWARD, node.scope):
            return zero_state(t.builder, cell, *shape, dtype)
    states = []
    for value in given:
        name = t.make(value) if value is not None else zero_state(t.builder, "gru", *shape, dtype)[0]
        if layout and len(t.shape(name)) == 3:
            name = t.emit(node, "transpose", name, order=(1, 0, 2))
        if len(t.shape(name)) == 3 and t.shape(name)[0] > 1:
            name = t.emit(node, "slice", name, axes=(0,), starts=(number,), stops=(number + 1,), steps=(1,))
        thin = t.thinned(node, name, (1, *shape))
        name = t.emit(node, "expand", thin, shape=(1, *shape)) if thin != name else name
        if t.of(name).elements != shape[0] * shape[1]:
            raise ModelError(f"the initial state {list(t.shape(name))} does not fit a batch of {shape[0]}")
        states.append(t.reshape(node, name, shape))
    return tuple(states)
