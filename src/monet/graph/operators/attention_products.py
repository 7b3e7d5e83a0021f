"""The matrix products inside fused attention: what they multiply, and in which formats a precision policy has them.

The attribute ``formats`` has a pair of them for every product, "" where an operand stays as it is. Tiles of q, k, v and
of gradients are rounded as they come on chip, probabilities and gradients of scores as they are made.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from monet.block_scaling import quantise
from monet.formats import FORMATS
from monet.graph.kind import Array, Call
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Attributes


class Side(NamedTuple):
    """An operand of a product: query, key, value, probabilities, gradient of the result or of scores, by the axis that
    is summed over."""

    of: str
    summed: int

    @property
    def kept(self) -> int:
        """The axis across."""
        return -3 - self.summed

    @property
    def role(self) -> str:
        """Its place in a precision policy."""
        return "gradient" if self.of in ("dout", "dscores") else "input"


SCORES = Side("query", -1), Side("key", -1)
FORWARD = SCORES, (Side("probabilities", -1), Side("value", -2))
BACKWARD = (
    SCORES,
    (Side("dout", -1), Side("value", -1)),  # gradient of probabilities
    (Side("probabilities", -2), Side("dout", -2)),  # of values
    (Side("dscores", -1), Side("key", -2)),  # of queries
    (Side("dscores", -2), Side("query", -2)),  # of keys
)


def keeps_scores(attrs: Attributes) -> bool:
    """Whether backward reads the scores that the forward pass made, and does not make them again."""
    return bool(attrs.get("keep_scores", False))


def products_of(kind: str, attrs: Attributes) -> tuple[tuple[Side, Side], ...]:
    """The products of an operator; none if it is no fused attention."""
    if kind == "attention_gradient":
        return BACKWARD[1:] if keeps_scores(attrs) else BACKWARD
    return FORWARD if kind == "attention" else ()


def formats_of(kind: str, attrs: Attributes, dtype: str) -> tuple[tuple[str, str], ...]:
    """Formats of the operands of all products; ``dtype`` is what stays as it is."""
    given = attrs.get("formats") or (("", ""),) * len(products_of(kind, attrs))
    return tuple((first or dtype, second or dtype) for first, second in given)


def attended(kind: str, attrs: Attributes, nest: LoopNest) -> tuple[tuple[tuple[str, str], int], ...]:
    """Formats and multiply-accumulates of all products of a nest."""
    backward, sizes = kind == "attention_gradient", nest.sizes
    query, value = (nest.operands[1], nest.operands[3]) if backward else (nest.operands[0], nest.operands[2])
    scores = math.prod(sizes[dim] for dim in "BHJNC")
    key, out = scores * query.shape[-1], scores * value.shape[-1]
    macs = (key, out, out, key, key)[-len(products_of(kind, attrs)) :] if backward else (key, out)
    return tuple(zip(formats_of(kind, attrs, query.dtype), macs, strict=True))


def narrow(attrs: Attributes, number: int, side: int, values: Array) -> Array:
    """An operand of a product as its format holds it."""
    name = attrs["formats"][number][side] if "formats" in attrs else ""
    if not name:
        return values
    held, seed = FORMATS[name], attrs["seeds"][number][side]
    assert held.element is not None  # formats of operands
    assert held.group is not None
    rounding = "nearest" if seed is None else "stochastic"
    return quantise(values, held.element, held.group, rule=attrs["rule"], rounding=rounding, seed=seed or 0)


def rounding_work(call: Call, kind: str) -> dict[str, int]:
    """Elements that are rounded, each once for every format that a product reads it in; those that pad groups too."""
    if "formats" not in call.attrs:
        return {}
    backward = kind == "attention_gradient"
    query, key, value = call.inputs[1:4] if backward else call.inputs[:3]
    scores = (*query.shape[:-1], key.shape[-2])
    shapes = {"query": query.shape, "key": key.shape, "value": value.shape}
    shapes["dout"] = *query.shape[:-1], value.shape[-1]
    attrs = call.attrs
    made = {
        (side.of, name): seed
        for sides, names, seeds in zip(products_of(kind, attrs), attrs["formats"], attrs["seeds"], strict=True)
        for side, name, seed in zip(sides, names, seeds, strict=True)
        if name
    }
    found: dict[str, int] = {}
    for (of, name), seed in made.items():
        group, shape = FORMATS[name].group, shapes.get(of, scores)
        assert group is not None
        many = {"quantize": group.padded(shape)}
        many |= {"random": math.prod(shape)} if seed is not None else {}
        many |= {"div": group.count(shape)} if group.scale == "e4m3" else {}
        for function, count in many.items():
            found[function] = found.get(function, 0) + count
    return found
