"""Operators without inputs."""

from __future__ import annotations

import math

from monet.formats import FORMATS
from monet.graph.kind import kind_named
from monet.report.onnx.body import Body, Value
from monet.report.onnx.operators.elementwise import MASK_LIMIT
from monet.report.onnx.table import writes


@writes("fill")
def _fill(b: Body) -> Value:
    return b.full(b.call.attrs["shape"], b.call.attrs["value"], b.call.attrs["dtype"])


@writes("iota")
def _iota(b: Body) -> Value:
    attrs, dtype = b.call.attrs, b.call.attrs["dtype"]
    size: int = attrs["size"]
    start, step = attrs.get("start", 0), attrs.get("step", 1)
    if start == int(start) and step == int(step):
        kind = dtype if dtype in ("int32", "int64") else "int64"
        bounds = (b.scalar(int(number), kind) for number in (start, start + step * size, step))
        return b.node("Range", *bounds)
    counted = b.counted(size, "fp64" if FORMATS[dtype].bits > 32 else b.compute)
    return counted * float(step) + float(start)


def may_look(b: Body, rows: int, columns: int) -> Value:
    """True where a query of a causal attention may look at a key; the last query sees every key."""
    key, query = b.counted(columns).unsqueeze(0), b.counted(rows).unsqueeze(1)
    return key <= query + (columns - rows)


@writes("causal_mask")
def _causal_mask(b: Body) -> Value:
    return b.node("Not", may_look(b, b.call.attrs["rows"], b.call.attrs["columns"]))


@writes("random")
def _random(b: Body) -> Value:
    """The numbers that the seed gives, where they may go into the file; else the standard operator draws its own."""
    attrs = b.call.attrs
    if b.exact or math.prod(attrs["shape"]) <= MASK_LIMIT:
        return b.array(kind_named("random").evaluate(attrs), attrs["dtype"])
    operator = "RandomNormal" if attrs["distribution"] == "normal" else "RandomUniform"
    drawn = b.node(operator, dtype="fp32", shape=list(attrs["shape"]), seed=float(attrs["seed"]))
    drawn = (drawn < attrs["probability"]).cast("fp32") if attrs["distribution"] == "bernoulli" else drawn
    return drawn.cast(attrs["dtype"])
