"""Operators without inputs: constants of a shape, counting sequences, causal masks. The framework makes them anew each
step, so what they write and what backward keeps of it counts."""

from __future__ import annotations

import numpy as np

from monet.formats import FORMATS
from monet.graph.kind import Array, Family, OpKind, Output, pointwise, register
from monet.graph.op import Attributes
from monet.graph.operators.nests import elementwise
from monet.graph.tensor import Tensor


def _infer_fill(_: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    return (Output(tuple(attrs["shape"]), attrs["dtype"]),)


def _evaluate_fill(attrs: Attributes) -> Array:
    return np.full(attrs["shape"], attrs["value"], FORMATS[attrs["dtype"]].numpy)


def _evaluate_iota(attrs: Attributes) -> Array:
    numbers = attrs.get("start", 0) + attrs.get("step", 1) * np.arange(attrs["size"])
    return np.asarray(numbers, FORMATS[attrs["dtype"]].numpy)


def _evaluate_causal_mask(attrs: Attributes) -> Array:
    """True where a query may *not* look."""
    rows, columns = attrs["rows"], attrs["columns"]
    return np.triu(np.ones((rows, columns), np.bool_), k=1 + columns - rows)


def _evaluate_random(attrs: Attributes) -> Array:
    """A function of the seed, so that a recomputation replays it."""
    generator, shape = np.random.default_rng(attrs["seed"]), attrs["shape"]
    if attrs["distribution"] == "normal":
        return np.asarray(generator.standard_normal(shape))
    drawn: Array = generator.random(shape)
    return drawn if attrs["distribution"] == "uniform" else np.asarray(drawn < attrs["probability"], np.float64)


for _kind, _infer, _evaluate, _onnx in (
    ("fill", _infer_fill, _evaluate_fill, ("ConstantOfShape",)),
    ("iota", lambda _, a: (Output((a["size"],), a["dtype"]),), _evaluate_iota, ("Range",)),
    ("causal_mask", lambda _, a: (Output((a["rows"], a["columns"]), "bool"),), _evaluate_causal_mask, ("Trilu",)),
):
    register(OpKind(_kind, Family.MOVE, _infer, _evaluate, elementwise, pointwise, onnx=_onnx))

register(
    OpKind(
        "random", Family.VECTOR, _infer_fill, _evaluate_random, elementwise, pointwise,
        lambda call: {"random": call.out.elements}, no_onnx="importers refuse random numbers other than dropout's",
    ),
)  # fmt: skip
