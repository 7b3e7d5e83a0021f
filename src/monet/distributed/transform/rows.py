"""Rows of images over tensor ranks: how far a window reaches into the rows of the neighbours."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from monet.graph import Op
from monet.graph.kind import Call

ROWS = 2  # the axis of an image (N, C, H, W)


class Halo(NamedTuple):
    """Rows that a rank needs of its neighbours for its part of a windowed operator, what stands beyond the image, and
    the operator's attributes once they are there."""

    before: int
    after: int
    beyond: float
    attrs: dict[str, Any]


def halo(op: Op, call: Call, ranks: int) -> Halo | None:
    """The halo of an operator whose input and results are cut along rows into so many parts; None where no parts of its
    results are made of parts of the input, or a window reaches past the neighbours."""
    if op.kind not in _BEYOND or "padding" not in op.attrs or op.attrs.get("ceil"):
        return None
    if op.kind == "avg_pool" and not op.attrs["count_padding"] and tuple(op.attrs["padding"][0]) != (0, 0):
        return None
    taps = op.attrs["kernel"][0] if "kernel" in op.attrs else call.inputs[1].shape[ROWS]
    stride, dilation, (above, _) = op.attrs["stride"][0], op.attrs["dilation"][0], op.attrs["padding"][0]
    rows, made = call.inputs[0].shape[ROWS], call.out.shape[ROWS]
    if made * stride != rows or made % ranks or above < 0:
        return None
    after = max(0, dilation * (taps - 1) - above - stride + 1)
    if max(above, after) > rows // ranks:
        return None
    attrs = {**op.attrs, "padding": ((0, 0), *op.attrs["padding"][1:])}
    return Halo(above, after, _BEYOND[op.kind], attrs)


_BEYOND = {"conv": 0.0, "avg_pool": 0.0, "max_pool": -math.inf}
