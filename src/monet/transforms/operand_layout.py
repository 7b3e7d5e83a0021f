"""Layouts: how an operand of a product lies before it is quantised. Groups lie along axes, so rows have to be one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from monet.graph import Attributes, Graph, GraphBuilder, Op
from monet.graph.kind import Contracted
from monet.transforms.product_formats import ProductFormats

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """``kind``: "" as it is; "matrix" with all but the last axis in one (rows), "columns" with all but the first in
    one (of a filter), "positions" channels last and then rows, "patches" one row of channels × taps for every
    position that a window visits, as ``window`` says."""

    kind: str = ""
    window: Attributes = field(default_factory=Attributes)

    def placed(self, rank: int, axes: Contracted) -> tuple[int, Contracted]:
        """How many axes an operand has in this layout, and which of them ``axes`` are: of a matrix rows come first."""
        if not self.kind:
            return rank, axes
        return 2, Contracted(0, 1) if axes.summed in (0, -2) else Contracted(1, 0)


PLAIN = Layout()


def layout_of(graph: Graph, op: Op, position: int, policy: ProductFormats) -> Layout:
    """How the policy lays out an operand of a product."""
    shape = graph.tensors[op.inputs[position]].shape
    if op.kind == "linear" and position == 0:
        return PLAIN if len(shape) == 2 else Layout("matrix")
    if op.kind == "linear_weight_gradient":
        return PLAIN if len(shape) == 2 else Layout("matrix")
    if op.kind == "conv" and policy.im2col == "after" and op.attrs.get("groups", 1) == 1:
        taps = graph.tensors[op.inputs[1]].shape[2:]
        return Layout("columns") if position else Layout("patches", _window(op, taps))
    if op.kind == "conv_weight_gradient" and _by_position(policy) and op.attrs.get("groups", 1) == 1:
        return Layout("positions") if position else Layout("patches", _window(op, op.attrs["taps"]))
    return PLAIN


def _by_position(policy: ProductFormats) -> bool:
    return policy.im2col == "after" or policy.weight_gradients == "positions"


def _window(op: Op, taps: Sequence[int]) -> Attributes:
    return Attributes({"taps": tuple(taps), **{name: op.attrs[name] for name in ("stride", "padding", "dilation")}})


def product_on(graph: Graph, op: Op, layouts: Sequence[Layout]) -> tuple[str, dict[str, Any]]:
    """The product's kind and attributes on operands that lie so; its result is the same."""
    out = graph.tensors[op.outputs[0]].shape
    if op.kind == "linear" and layouts[0].kind:
        return op.kind, {**op.attrs, "rows": out[:-1]}
    if op.kind == "conv" and any(layout.kind for layout in layouts):
        return "linear", {"transpose": False, "rows": (out[0], *out[2:]), "channels": 1}
    if op.kind == "conv_weight_gradient" and any(layout.kind for layout in layouts):
        return "linear_weight_gradient", {"transpose": False, "shape": out}
    return op.kind, dict(op.attrs)


def laid_out(builder: GraphBuilder, tensor: str, layout: Layout) -> str:
    """Emit what brings a tensor into a layout: views where the framework has them, copies where it copies."""
    shape = builder.tensors[tensor].shape
    if layout.kind == "matrix":
        return builder.emit("reshape", tensor, name="rows", shape=(math.prod(shape[:-1]), shape[-1]))
    if layout.kind == "columns":
        return builder.emit("reshape", tensor, name="columns", shape=(shape[0], math.prod(shape[1:])))
    if layout.kind == "positions":
        turned = builder.emit("transpose", tensor, name="channels_last", order=(0, *range(2, len(shape)), 1))
        return builder.emit("reshape", turned, name="rows", shape=(shape[0] * math.prod(shape[2:]), shape[1]))
    if layout.kind == "patches":
        return _patches(builder, tensor, layout.window)
    return tensor


def _patches(builder: GraphBuilder, tensor: str, window: Attributes) -> str:
    """im2col: for every position of every sample the channels × taps that the filter meets there."""
    shape = builder.tensors[tensor].shape
    taps, padding = window["taps"], window["padding"]
    if any(before or after for before, after in padding):
        widths = ((0, 0), (0, 0), *padding)
        tensor = builder.emit("pad", tensor, name="pad", padding=widths, mode="constant", value=0.0)
    sizes = builder.tensors[tensor].shape[2:]
    visited = [
        (size - gap * (count - 1) - 1) // step + 1
        for size, count, step, gap in zip(sizes, taps, window["stride"], window["dilation"], strict=True)
    ]
    axes, parts = tuple(range(2, len(shape))), []
    for tap in itertools.product(*map(range, taps)):
        starts = tuple(at * gap for at, gap in zip(tap, window["dilation"], strict=True))
        stops = tuple(
            start + step * (count - 1) + 1 for start, step, count in zip(starts, window["stride"], visited, strict=True)
        )
        cut: dict[str, Any] = {"axes": axes, "starts": starts, "stops": stops, "steps": tuple(window["stride"])}
        parts.append(builder.emit("slice", tensor, name="tap", **cut))
    joined = builder.emit("concat", *parts, name="taps", axis=1) if len(parts) > 1 else parts[0]
    split = builder.emit("reshape", joined, name="by_tap", shape=(shape[0], len(parts), shape[1], *visited))
    order = (0, *range(3, len(shape) + 1), 2, 1)
    turned = builder.emit("transpose", split, name="channels_and_taps", order=order)
    rows = (shape[0] * math.prod(visited), shape[1] * len(parts))
    return builder.emit("reshape", turned, name="patches", shape=rows)
