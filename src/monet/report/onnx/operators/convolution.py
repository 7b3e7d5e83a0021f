"""Convolution, its transpose and its weight gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monet.report.onnx.body import Body, Value
from monet.report.onnx.operators.matmul import exact_sums
from monet.report.onnx.table import writes


def _pads(padding: Sequence[tuple[int, int]]) -> list[int]:
    """All beginnings, then all ends, as ONNX lists them."""
    return [before for before, _ in padding] + [after for _, after in padding]


def window_attributes(taps: Sequence[int], attrs: Mapping[str, Any]) -> dict[str, Any]:
    """What ONNX calls the size and the steps of a window of ``taps``."""
    return {"kernel_shape": list(taps), "strides": list(attrs["stride"]), "dilations": list(attrs["dilation"])}


@writes("conv")
def _conv(b: Body) -> Value:
    exact_sums(b)
    attrs, window = b.call.attrs, window_attributes(b.shape(1)[2:], b.call.attrs)
    return b.node("Conv", *b.native("Conv"), pads=_pads(attrs["padding"]), group=attrs["groups"], **window)


def scatter_windows(
    b: Body, operands: Sequence[Value], sizes: Sequence[int], taps: Sequence[int], target: Sequence[int],
    attrs: Mapping[str, Any], groups: int,
) -> Value:  # fmt: skip
    """A transposed convolution from ``sizes`` positions to exactly ``target`` ones.

    What the last window leaves uncovered is output padding; ONNX allows less than a stride (or dilation) of it. Beyond
    that, and where the padded target is shorter than what the windows cover, everything is scattered and then cut.
    """
    stride, dilation, padding = attrs["stride"], attrs["dilation"], attrs["padding"]
    covered = [(n - 1) * s + (t - 1) * d + 1 for n, s, t, d in zip(sizes, stride, taps, dilation, strict=True)]
    spare = [size + sum(pads) - span for size, pads, span in zip(target, padding, covered, strict=True)]
    shared = window_attributes(taps, attrs) | {"group": groups}
    if all(0 <= extra < max(s, d) for extra, s, d in zip(spare, stride, dilation, strict=True)):
        shared |= {"output_padding": spare} if any(spare) else {}
        return b.node("ConvTranspose", *operands, pads=_pads(padding), **shared)
    out = b.node("ConvTranspose", *operands[:2], **shared)
    before = [-pads[0] for pads in padding]
    after = [size - first - span for size, first, span in zip(target, before, covered, strict=True)]
    out = out.pad([0, 0, *before], [0, 0, *after])
    return out + operands[2].reshape((1, -1, *([1] * len(taps)))) if len(operands) > 2 else out


@writes("conv_transpose")
def _conv_transpose(b: Body) -> Value:
    exact_sums(b)
    attrs = b.call.attrs
    operands = b.native("ConvTranspose")
    return scatter_windows(b, operands, b.shape(0)[2:], b.shape(1)[2:], attrs["spatial"], attrs, attrs["groups"])


@writes("conv_weight_gradient")
def _conv_weight_gradient(b: Body) -> Value:
    """A convolution again: the batch is contracted, the incoming gradient is the filter, taps are the positions.

    dW[k, c, t] = Σ x[n, c, t·dilation + o·stride] · g[n, k, o]: stride and dilation change places. The samples of one
    group are the channels of one group of that convolution, so any number of groups is a single operator.
    """
    exact_sums(b)
    x, g = b.native("Conv")
    attrs, groups, taps = b.call.attrs, b.call.attrs["groups"], b.call.attrs["taps"]
    batch, channels, *spatial = b.shape(0)
    rank, per_group = len(spatial) + 2, channels // groups
    axes = range(2, rank)
    if groups > 1:
        x = x.reshape((batch, groups, per_group, *spatial)).transpose((2, 1, 0, *(axis + 1 for axis in axes)))
        x = x.reshape((per_group, groups * batch, *spatial))
    else:
        x = x.transpose((1, 0, *axes))
    steps: dict[str, Any] = {"strides": list(attrs["dilation"]), "dilations": list(attrs["stride"]), "group": groups}
    out = b.node("Conv", x, g.transpose((1, 0, *axes)), pads=_pads(attrs["padding"]), **steps)
    out = b.slice(out, _surplus(b, spatial, taps))
    return out.transpose((1, 0, *axes))


def _surplus(b: Body, spatial: Sequence[int], taps: Sequence[int]) -> dict[int, tuple[int, int, int]]:
    """Cuts for the axes on which the gradient meets more positions than the filter has taps."""
    attrs, cuts = b.call.attrs, {}
    for axis, (size, count, wanted) in enumerate(zip(spatial, b.shape(1)[2:], taps, strict=True)):
        span = size + sum(attrs["padding"][axis]) - attrs["stride"][axis] * (count - 1) - 1
        if span // attrs["dilation"][axis] + 1 != wanted:
            cuts[axis + 2] = (0, wanted, 1)
    return cuts
