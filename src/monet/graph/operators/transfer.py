"""Transfers to and from the memory of a host: a tensor is paged out, and comes back when it is soon needed."""

from __future__ import annotations

from monet.graph.kind import Array, Call, Family, OpKind, like_first, pointwise, register
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Attributes
from monet.graph.operators.nests import broadcast_indices, over

_NO_ONNX = "checkpoint plans put it in; files hold forward graphs"


def _copy(_: Attributes, x: Array, *__: Array) -> Array:
    return x.copy()


def _through_port(call: Call) -> LoopNest:
    """Every element once; what is only waited for is not touched."""
    rank = len(call.out.shape)
    axes = broadcast_indices(call.out, rank)
    waited = (None,) * (len(call.inputs) - 1)
    return over(call.out.shape, call, (axes, *waited, axes))


register(
    OpKind(
        "page_out", Family.TRANSFER, like_first, _copy, _through_port, pointwise, no_onnx=_NO_ONNX, endpoint="host",
        stays_outside=(0,),
    ),
    OpKind(
        "page_in", Family.TRANSFER, like_first, _copy, _through_port, pointwise, no_onnx=_NO_ONNX, endpoint="host",
        awaited=(1,),
    ),
)  # fmt: skip
