"""Writes at looked-up positions."""

from __future__ import annotations

from monet.report.onnx.body import Body, Value, Writer
from monet.report.onnx.table import writes


def _scatter(reduction: str) -> Writer:
    """Element by element; positions of whole slices are broadcast over them."""

    def write(b: Body) -> Value:
        x, positions, source = b.inputs
        axis, shape = b.call.attrs["axis"] % len(b.shape(0)), b.shape(2)
        positions = positions.cast("int64")
        if b.shape(1) != shape:
            positions = positions.reshape([-1 if a == axis else 1 for a in range(len(shape))]).expand(shape)
        how = {"reduction": reduction} if reduction else {}
        return b.node("ScatterElements", x, positions, source, axis=axis, **how)

    return write


for _kind, _reduction in (("index_copy", ""), ("scatter", ""), ("index_add", "add"), ("scatter_add", "add")):
    writes(_kind)(_scatter(_reduction))
