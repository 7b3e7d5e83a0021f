"""Operators between ranks: collectives over a group, and messages between pipeline stages.

All ranks of a group run the same operator, on values of their own. ``group`` names the group (``tensor``, ``data``,
``pipeline``; ``tied``: the stages that hold one parameter) and ``size`` says how many ranks it has. Collectives take
several tensors at once (a bucket). Gradient rules follow one convention: the gradient of a value that all ranks hold
alike is whole on every one of them; so what a rank adds to it by work of its own has to be added up over the ranks.

| forward | gradient |
|---|---|
| ``all_reduce`` (sum of what ranks have) | the gradient as it is |
| ``replicate`` (nothing; readers are cut) | ``all_reduce`` |
| ``reduce_scatter`` (sum, each rank a part) | ``all_gather`` |
| ``all_gather``, readers are cut | ``reduce_scatter`` |
| ``all_gather``, readers are alike | ``shard`` |
| ``shard`` (each rank its part of what all have) | ``all_gather`` |
| ``exchange_halo`` (rows of the neighbours) | ``return_halo`` |
| ``send``, ``receive`` | ``receive``, ``send`` |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from monet.errors import ModelError, MonetError
from monet.formats import FORMATS
from monet.graph.backward import Backward
from monet.graph.kind import Array, Call, Exchanged, Family, OpKind, Output, along, no_work, register
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.graph.op import Attributes
from monet.graph.parts import Part, own_part, parts_of
from monet.graph.tensor import Tensor

BETWEEN_RANKS = "a file holds the graph of one device"


def payload_bytes(call: Call) -> int:
    """Bytes of a collective before they are cut: of the whole tensors that are reduced, gathered or sent."""
    return max(sum(tensor.bytes for tensor in call.inputs), sum(tensor.bytes for tensor in call.outputs))


def _ring(times: int) -> Callable[[Call], float]:
    """Each rank sends all but its own part, once for a reduction and once for a gathering."""
    return lambda call: times * (call.attrs["size"] - 1) / call.attrs["size"] * payload_bytes(call)


def _nest(call: Call) -> LoopNest:
    """One point per element of the longer side, tensors one behind another."""
    operands, start, total, many = [], 0, 0, len(call.inputs)
    for slot, tensor in enumerate((*call.inputs, *call.outputs)):
        start = 0 if slot == many else start
        at = (index("E", offset=-start),)
        name = f"out{slot - many}" if slot >= many else f"in{slot}"
        operands.append(
            Operand(name, slot, tensor.dtype, (tensor.elements,), at, slot >= many, tensor.bits_per_element)
        )
        start += tensor.elements
        total = max(total, start)
    return LoopNest((("E", total),), tuple(operands))


def _alone(name: str) -> Callable[..., Array | tuple[Array, ...]]:
    """What a collective means on a single rank: nothing."""

    def evaluate(attrs: Attributes, *arrays: Array) -> tuple[Array, ...]:
        if attrs["size"] > 1:
            raise MonetError(
                f"{name} over {attrs['size']} ranks of group {attrs['group']!r} needs the other ranks; "
                "monet.distributed.execute_plan runs all of them"
            )
        return arrays

    return evaluate


# --- all_reduce, replicate ------------------------------------------------------------------------------------------


def _infer_all_reduce(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    if attrs.get("function", "sum") not in ("sum", "max"):
        raise ModelError(f"ranks are added up (sum) or compared (max), not {attrs['function']!r}")
    return tuple(Output(x.shape, x.dtype, _label(i)) for i, x in enumerate(inputs))


def _label(number: int) -> str:
    return str(number) if number else ""


def _all_reduced(attrs: Attributes, ranks: Sequence[Exchanged]) -> list[Exchanged]:
    merge = np.max if attrs.get("function", "sum") == "max" else np.sum
    made = tuple(np.asarray(merge(np.stack(same), axis=0)) for same in zip(*ranks, strict=True))
    return [made for _ in ranks]


def _all_reduce_rule(b: Backward) -> tuple[str | None, ...]:
    return b.gradients if b.attrs.get("function", "sum") == "sum" else (None,) * len(b.inputs)


def _group(b: Backward) -> dict[str, object]:
    return {"group": b.attrs["group"], "size": b.attrs["size"]}


def _infer_replicate(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    (x,) = inputs
    return (Output(x.shape, x.dtype, alias=0, strides=x.strides),)


# --- reduce_scatter, all_gather, shard --------------------------------------------------------------------------------


def _part(attrs: Attributes, length: int) -> Part:
    return Part.plain(attrs["group"], attrs["size"], attrs["axis"], length)


def _infer_reduce_scatter(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    axis, size, found = attrs["axis"], attrs["size"], []
    for number, x in enumerate(inputs):
        if x.shape[axis] % size:
            raise ModelError(f"axis {axis} of {list(x.shape)} cannot be cut into {size} equal parts")
        found.append(Output(_part(attrs, x.shape[axis]).shape(x.shape), x.dtype, _label(number)))
    return tuple(found)


def _infer_all_gather(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    axis, size = attrs["axis"], attrs["size"]
    shapes = ((*x.shape[:axis], x.shape[axis] * size, *x.shape[axis + 1 :]) for x in inputs)
    return tuple(Output(shape, x.dtype, _label(i)) for i, (shape, x) in enumerate(zip(shapes, inputs, strict=True)))


def _scattered(attrs: Attributes, ranks: Sequence[Exchanged]) -> list[Exchanged]:
    totals = [np.sum(np.stack(same), axis=0) for same in zip(*ranks, strict=True)]
    cut = [np.split(total, attrs["size"], axis=attrs["axis"]) for total in totals]
    return list(zip(*cut, strict=True))


def _gathered(attrs: Attributes, ranks: Sequence[Exchanged]) -> list[Exchanged]:
    made = tuple(np.concatenate(same, axis=attrs["axis"]) for same in zip(*ranks, strict=True))
    return [made for _ in ranks]


def _all_gather_rule(b: Backward) -> tuple[str | None, ...]:
    known = [gradient for gradient in b.gradients if gradient]
    if b.attrs["summed"]:
        made = b.emit_all("reduce_scatter", *known, axis=b.attrs["axis"], **_group(b))
    else:
        lengths = [b.tensor(name).shape[b.attrs["axis"]] for name in known]
        cuts = [_part(b.attrs, length) for length in lengths]
        made = tuple(b.emit("shard", name, parts=(tuple(cut),)) for name, cut in zip(known, cuts, strict=True))
    given = iter(made)
    return tuple(next(given) if gradient else None for gradient in b.gradients)


def _reduce_scatter_rule(b: Backward) -> tuple[str | None, ...]:
    known = [gradient for gradient in b.gradients if gradient]
    made = iter(b.emit_all("all_gather", *known, axis=b.attrs["axis"], summed=False, **_group(b)))
    return tuple(next(made) if gradient else None for gradient in b.gradients)


def _infer_shard(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    """A view where the rank's part lies in one piece."""
    (x,), (part,) = inputs, parts_of(attrs)
    if any(length % part.size for length in part.segments) or sum(part.segments) != x.shape[part.axis]:
        raise ModelError(f"axis {part.axis} of {list(x.shape)} cannot be cut into {part.size} equal parts")
    if len(part.segments) > 1:
        return (Output(part.shape(x.shape), x.dtype),)
    return (Output(part.shape(x.shape), x.dtype, alias=0, strides=x.strides),)


def _shard_rule(b: Backward) -> tuple[str | None, ...]:
    (part,) = parts_of(b.attrs)
    if len(part.segments) > 1:
        raise ModelError("what was cut segment by segment is not gathered again")
    attrs = {"group": part.group, "size": part.size, "axis": part.axis}
    return (b.emit("all_gather", b.gradient, summed=False, **attrs),)


# --- halo: rows of the neighbours, on either side -------------------------------------------------------------------


def _infer_halo(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), axis = inputs, attrs["axis"]
    if max(attrs["before"], attrs["after"]) > x.shape[axis]:
        raise ModelError(
            f"a window reaches {max(attrs['before'], attrs['after'])} rows beyond a part of {x.shape[axis]}: "
            f"cut axis {axis} into fewer parts"
        )
    longer = x.shape[axis] + attrs["before"] + attrs["after"]
    return (Output((*x.shape[:axis], longer, *x.shape[axis + 1 :]), x.dtype),)


def _infer_return_halo(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (g,), axis = inputs, attrs["axis"]
    kept = g.shape[axis] - attrs["before"] - attrs["after"]
    return (Output((*g.shape[:axis], kept, *g.shape[axis + 1 :]), g.dtype),)


def _with_halo(attrs: Attributes, ranks: Sequence[Exchanged]) -> list[Exchanged]:
    """Rows of the ranks before and after; beyond the first and the last one, zeros (or what a maximum ignores)."""
    axis, before, after = attrs["axis"], attrs["before"], attrs["after"]
    widths = [(0, 0)] * ranks[0][0].ndim
    widths[axis] = (before, after)
    whole = np.pad(np.concatenate([rank[0] for rank in ranks], axis=axis), widths, constant_values=attrs["beyond"])
    length = ranks[0][0].shape[axis]
    starts = (number * length for number in range(len(ranks)))
    return [(np.take(whole, np.arange(start, start + length + before + after), axis=axis),) for start in starts]


def _halo_returned(attrs: Attributes, ranks: Sequence[Exchanged]) -> list[Exchanged]:
    """Gradients of a neighbour's rows go back to it, and are added."""
    axis, before, after = attrs["axis"], attrs["before"], attrs["after"]
    length = ranks[0][0].shape[axis] - before - after
    shape = list(ranks[0][0].shape)
    shape[axis] = length * len(ranks) + before + after
    whole = np.zeros(shape, ranks[0][0].dtype)
    for number, (gradient,) in enumerate(ranks):
        at = [slice(None)] * len(shape)
        at[axis] = slice(number * length, number * length + length + before + after)
        whole[tuple(at)] += gradient
    own = np.take(whole, np.arange(before, before + length * len(ranks)), axis=axis)
    return [(part,) for part in np.split(own, len(ranks), axis=axis)]


def _halo_rule(b: Backward) -> tuple[str | None, ...]:
    edges = {key: b.attrs[key] for key in ("axis", "before", "after")}
    return (b.emit("return_halo", b.gradient, **edges, **_group(b)),)


def _halo_bytes(call: Call) -> float:
    """A rank between two others sends rows both ways."""
    rows, positions = call.attrs["before"] + call.attrs["after"], call.out.shape[call.attrs["axis"]]
    return float(rows / positions * call.out.bytes)


def _halo_alone(attrs: Attributes, x: Array) -> tuple[Array, ...]:
    _alone("exchange_halo")(attrs, x)
    return _with_halo(attrs, [(x,)])[0]


def _return_alone(attrs: Attributes, g: Array) -> tuple[Array, ...]:
    _alone("return_halo")(attrs, g)
    return _halo_returned(attrs, [(g,)])[0]


# --- messages between stages ----------------------------------------------------------------------------------------


def _infer_send(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    """A token says that it was sent; a gradient asked of it is received."""
    return (Output((), "fp32", "sent"),)


def _infer_receive(_: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    pairs = zip(attrs["shapes"], attrs["dtypes"], strict=True)
    return tuple(Output(tuple(shape), dtype, _label(i)) for i, (shape, dtype) in enumerate(pairs))


def _floats(b: Backward, names: Sequence[str]) -> list[str]:
    return [name for name in names if FORMATS[b.tensor(name).dtype].may_train]


def _send_rule(b: Backward) -> tuple[str | None, ...]:
    """What the other stage finds of gradients comes back."""
    wanted = _floats(b, b.inputs)
    tensors = [b.tensor(name) for name in wanted]
    shapes, dtypes = tuple(x.shape for x in tensors), tuple(x.dtype for x in tensors)
    given = b.emit_all("receive", shapes=shapes, dtypes=dtypes, peer=b.attrs["peer"], **_group(b))
    found = dict(zip(wanted, given, strict=True))
    return tuple(found.get(name) for name in b.inputs)


def _receive_rule(b: Backward) -> tuple[str | None, ...]:
    parts = []
    for name, gradient in zip(b.op.outputs, b.gradients, strict=True):
        x = b.tensor(name)
        if FORMATS[x.dtype].may_train:
            parts.append(gradient or b.emit("fill", shape=x.shape, value=0.0, dtype=x.dtype))
    b.emit("send", *parts, peer=b.attrs["peer"], **_group(b))
    return ()


def _no_message(*_: object) -> tuple[Array, ...]:
    raise MonetError("a message needs another stage; monet.distributed.execute_plan runs all of them")


_WHOLE = along(lambda _: "E")

for _name, _infer, _evaluate, _exchange, _sent, _rule in (
    ("all_reduce", _infer_all_reduce, _alone("all_reduce"), _all_reduced, _ring(2), _all_reduce_rule),
    ("reduce_scatter", _infer_reduce_scatter, _alone("reduce_scatter"), _scattered, _ring(1), _reduce_scatter_rule),
    ("all_gather", _infer_all_gather, _alone("all_gather"), _gathered, _ring(1), _all_gather_rule),
    ("exchange_halo", _infer_halo, _halo_alone, _with_halo, _halo_bytes, _halo_rule),
    ("return_halo", _infer_return_halo, _return_alone, _halo_returned, _halo_bytes, None),
    ("send", _infer_send, _no_message, None, payload_bytes, _send_rule),
    ("receive", _infer_receive, _no_message, None, lambda _: 0.0, _receive_rule),
):
    register(
        OpKind(
            _name, Family.COLLECTIVE, _infer, _evaluate, _nest, _WHOLE, no_work, _rule, no_onnx=BETWEEN_RANKS,
            exchange=_exchange, sent_bytes=_sent, endpoint="network",
        )
    )  # fmt: skip

register(
    OpKind(
        "replicate", Family.VIEW, _infer_replicate, lambda _, x: x, no_onnx=BETWEEN_RANKS, ranked=True,
        gradient=lambda b: (b.emit("all_reduce", b.gradient, **_group(b)),),
    ),
    OpKind(
        "shard", Family.VIEW, _infer_shard, lambda attrs, x: own_part(x, attrs), no_onnx=BETWEEN_RANKS, ranked=True,
        gradient=_shard_rule,
    ),
)  # fmt: skip


def sent_bytes(call: Call, kind: OpKind) -> float:
    """Bytes that each rank of the group sends, by an algorithm that sends no more than it must."""
    return float(kind.sent_bytes(call)) if kind.sent_bytes else 0.0
