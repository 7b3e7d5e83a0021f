"""Known values: what the file computes from constants and shapes alone is computed here, at import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from monet.frontends.onnx.file import Node

Array = np.ndarray[Any, Any]
_LARGEST = 1 << 26  # elements; anything larger is left to the graph


@dataclass(frozen=True, slots=True)
class Known:
    """A value known at import. ``node`` computed it in the file (None: it is stored); ``name`` is its name there.

    ``follows_shapes``: a Shape went into it, so it is right at every batch size. ``literal``: a Constant of the
    program, which the framework makes anew each step, unlike a buffer of the model.
    """

    array: Array
    name: str
    node: Node | None = None
    follows_shapes: bool = False
    literal: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether it holds one element."""
        return self.array.size == 1

    @property
    def is_uniform(self) -> bool:
        """Whether it holds the same value everywhere."""
        return self.array.size > 0 and bool((self.array == self.array.flat[0]).all())

    @property
    def scalar(self) -> float | int | bool:
        """The value of every element."""
        value: float | int | bool = self.array.flat[0].item()
        return value


def fold(node: Node, inputs: tuple[Array | None, ...], versions: dict[str, int]) -> tuple[Array, ...] | None:
    """Outputs of ``node`` on known inputs; None if it cannot be computed here."""
    if any(array is not None and array.size > _LARGEST for array in inputs):
        return None
    quick = _QUICK.get(node.op)
    try:
        with np.errstate(all="ignore"):
            if quick is not None and all(array is not None for array in inputs):
                return (np.asarray(quick(node, *inputs)),)
            feeds = {name: array for name, array in zip(node.inputs, inputs, strict=True) if name and array is not None}
            outputs = ReferenceEvaluator(node.proto, opsets=versions).run(None, feeds)
    except Exception:  # the reference evaluator raises anything; the operator is then treated as not known
        return None
    arrays = tuple(np.asarray(output) for output in outputs)
    return None if any(array.dtype == object or array.size > _LARGEST for array in arrays) else arrays


def _gather(node: Node, data: Array, positions: Array) -> Array:
    return np.take(data, positions, axis=node.get("axis", 0))


def _constant(node: Node) -> Array:
    for name, value in node.attributes.items():
        if name == "value":
            return np.asarray(numpy_helper.to_array(value))
        if name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise ValueError("a constant without a numeric value")


def _divide(_: Node, x: Array, y: Array) -> Array:
    if np.issubdtype(x.dtype, np.integer):
        return np.asarray(np.trunc(x / y)).astype(x.dtype)
    return np.asarray(x / y)


_QUICK: dict[str, Any] = {
    "Constant": _constant,
    "Identity": lambda node, x: x,
    "Gather": _gather,
    "Concat": lambda node, *arrays: np.concatenate(arrays, axis=node.get("axis", 0)),
    "Add": lambda node, x, y: x + y,
    "Sub": lambda node, x, y: x - y,
    "Mul": lambda node, x, y: x * y,
    "Div": _divide,
    "Sqrt": lambda node, x: np.sqrt(x),
    "Equal": lambda node, x, y: x == y,
    "Where": lambda node, condition, x, y: np.where(condition, x, y),
}
