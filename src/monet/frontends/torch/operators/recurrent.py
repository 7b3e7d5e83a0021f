"""Recurrent layers and cells, unrolled over time."""

from __future__ import annotations

from typing import Any

from monet.frontends.recurrent import STEPS, CellWeights, unroll
from monet.frontends.torch.operators.matmul import linear, with_merged_rows
from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported


def _cells(a: Any) -> list[CellWeights]:
    """The flat list of weights, four (or two, without biases) per direction of a layer."""
    each = 4 if a.has_biases else 2
    directions = 2 if a.bidirectional else 1
    if len(a.params) != each * a.num_layers * directions:
        raise Unsupported("projections of the hidden state")
    return [CellWeights(*a.params[start : start + each]) for start in range(0, len(a.params), each)]


def _layers(t: Translation, a: Any, cell: str, initial: list[str]) -> tuple[Ref, ...]:
    """All layers and directions, from states of (layers · directions, batch, hidden); the output, then finals."""
    x, added = a.input, t.rank(a.input) == 2
    if added:
        x = t.emit("reshape", x, shape=(t.shape(x)[0], 1, t.shape(x)[1]))
        initial = [t.emit("reshape", h, shape=(t.shape(h)[0], 1, t.shape(h)[1])) for h in initial]
    swapped = a.batch_first and not added
    x = t.transpose(x, (1, 0, 2)) if swapped else x
    cells, directions, finals = _cells(a), 2 if a.bidirectional else 1, []
    for layer in range(a.num_layers):
        outputs = []
        for direction in range(directions):
            position = layer * directions + direction
            state = tuple(t.select(h, 0, position) for h in initial)
            with t.builder.scope(f"layer{layer}" + ("_reverse" if direction else "")):
                rows, start = with_merged_rows(t, x), len(t.builder.ops)
                out, final = unroll(t.builder, cell, rows, cells[position], state, reverse=bool(direction))
            t.producers.update({name: op for op in t.builder.ops[start:] for name in op.outputs})
            outputs.append(out)
            finals.append(final)
        x = t.emit("concat", *outputs, axis=2) if directions == 2 else Ref(outputs[0])
        if a.train and a.dropout and layer < a.num_layers - 1:
            x = t.emit("dropout", x, p=float(a.dropout), seed=len(t.builder.ops))
    states = [_stacked(t, [final[part] for final in finals], added) for part in range(len(initial))]
    x = t.transpose(x, (1, 0, 2)) if swapped else x
    return (t.emit("reshape", x, shape=(t.shape(x)[0], t.shape(x)[2])) if added else Ref(x)), *states


def _stacked(t: Translation, finals: list[str], added: bool) -> Ref:
    rows = [t.emit("reshape", final, shape=(1, *t.shape(final))) for final in finals]
    joined = t.emit("concat", *rows, axis=0) if len(rows) > 1 else rows[0]
    return t.emit("reshape", joined, shape=(len(rows), t.shape(joined)[-1])) if added else joined


def _cell(t: Translation, a: Any, cell: str, state: tuple[str, ...]) -> tuple[Ref, ...]:
    x = linear(t, a.input, a.w_ih, a.b_ih)
    hidden = linear(t, state[0], a.w_hh, a.b_hh)
    names = tuple(map(Ref, STEPS[cell](t.builder, x, hidden, state)))
    t.producers.update(dict.fromkeys(names, t.builder.ops[-1]))
    return names


RULES.rows(
    {
        "lstm.input": lambda t, a: _layers(t, a, "lstm", list(a.hx)),
        "gru.input": lambda t, a: _layers(t, a, "gru", [a.hx]),
        "rnn_tanh.input": lambda t, a: _layers(t, a, "tanh", [a.hx]),
        "rnn_relu.input": lambda t, a: _layers(t, a, "relu", [a.hx]),
        "lstm_cell.default": lambda t, a: _cell(t, a, "lstm", tuple(a.hx)),
        "gru_cell.default": lambda t, a: _cell(t, a, "gru", (a.hx,))[0],
        "rnn_tanh_cell.default": lambda t, a: _cell(t, a, "tanh", (a.hx,))[0],
        "rnn_relu_cell.default": lambda t, a: _cell(t, a, "relu", (a.hx,))[0],
    }
)
