"""Point-wise parts of recurrent cells."""

from __future__ import annotations

from monet.report.onnx.body import Body, Value
from monet.report.onnx.table import writes


def _parts(b: Body, value: Value, slot: int, count: int) -> tuple[Value, ...]:
    """Gates that lie side by side on the last axis."""
    size = b.shape(slot)[-1] // count
    return b.node_all("Split", value, b.integers(*([size] * count)), dtypes=(value.dtype,) * count, axis=-1)


def _joined(b: Body, *parts: Value) -> Value:
    return b.node("Concat", *parts, axis=-1)


def _sigmoid(b: Body, x: Value) -> Value:
    return b.node("Sigmoid", x)


def _tanh(b: Body, x: Value) -> Value:
    return b.node("Tanh", x)


@writes("lstm_cell")
def _lstm_cell(b: Body) -> tuple[Value, ...]:
    gates, cell = b.inputs
    i, f, g, o = _parts(b, gates, 0, 4)
    i, f, g, o = _sigmoid(b, i), _sigmoid(b, f), _tanh(b, g), _sigmoid(b, o)
    new = f * cell + i * g
    return o * _tanh(b, new), new, _joined(b, i, f, g, o)


@writes("lstm_cell_gradient")
def _lstm_cell_gradient(b: Body) -> tuple[Value, ...]:
    dh, dc, gates, cell, new = b.inputs
    i, f, g, o = _parts(b, gates, 2, 4)
    t = _tanh(b, new)
    dc = dc + dh * o * (1.0 - t * t)
    di, df = dc * g * i * (1.0 - i), dc * cell * f * (1.0 - f)
    return _joined(b, di, df, dc * i * (1.0 - g * g), dh * t * o * (1.0 - o)), dc * f


@writes("gru_cell")
def _gru_cell(b: Body) -> tuple[Value, ...]:
    x, h, hidden = b.inputs
    (rx, zx, nx), (rh, zh, nh) = _parts(b, x, 0, 3), _parts(b, h, 1, 3)
    r, z = _sigmoid(b, rx + rh), _sigmoid(b, zx + zh)
    n = _tanh(b, nx + r * nh)
    return (1.0 - z) * n + z * hidden, _joined(b, r, z, n)


@writes("gru_cell_gradient")
def _gru_cell_gradient(b: Body) -> tuple[Value, ...]:
    g, gates, h, hidden = b.inputs
    (r, z, n), nh = _parts(b, gates, 1, 3), _parts(b, h, 2, 3)[2]
    dn = g * (1.0 - z) * (1.0 - n * n)
    dz = g * (hidden - n) * z * (1.0 - z)
    dr = dn * nh * r * (1.0 - r)
    return _joined(b, dr, dz, dn), _joined(b, dr, dz, dn * r), g * z
