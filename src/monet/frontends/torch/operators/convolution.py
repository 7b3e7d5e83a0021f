"""Convolutions of one to three axes, transposed ones, and the padding modes that the framework writes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monet.frontends.torch.translation import RULES, Ref, Translation, aten


def per_axis(value: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One number per spatial axis; a single one holds for all."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * rank if len(values) == 1 else values


def batched(t: Translation, x: str, rank: int) -> tuple[Ref, bool]:
    """``x`` with a batch axis, and whether one had to be added."""
    if t.rank(x) == rank + 2:
        return Ref(x), False
    return t.emit("reshape", x, shape=(1, *t.shape(x))), True


def unbatched(t: Translation, x: str, added: bool) -> Ref:
    """Take an added batch axis away again."""
    return t.emit("reshape", x, shape=t.shape(x)[1:]) if added else Ref(x)


def _conv(t: Translation, a: Any, padding: tuple[tuple[int, int], ...]) -> Ref:
    rank = t.rank(a.weight) - 2
    x, added = batched(t, a.input, rank)
    out = t.emit(
        "conv", x, a.weight, *((a.bias,) if a.bias is not None else ()), stride=per_axis(a.stride, rank),
        padding=padding, dilation=per_axis(a.dilation, rank), groups=a.groups,
    )  # fmt: skip
    return unbatched(t, out, added)


def _conv_plain(t: Translation, a: Any) -> Ref:
    return _conv(t, a, tuple((pad, pad) for pad in per_axis(a.padding, t.rank(a.weight) - 2)))


@aten("conv1d.padding", "conv2d.padding", "conv3d.padding")
def _conv_named(t: Translation, a: Any) -> Ref:
    """ "valid" or "same"; an uneven total is padded at the end first, in a copy."""
    rank, taps = t.rank(a.weight) - 2, t.shape(a.weight)[2:]
    if a.padding == "valid":
        return _conv(t, a, ((0, 0),) * rank)
    totals = [dilation * (size - 1) for dilation, size in zip(per_axis(a.dilation, rank), taps, strict=True)]
    if any(total % 2 for total in totals):
        lead = ((0, 0),) * (t.rank(a.input) - rank)
        extra = (*lead, *((0, total % 2) for total in totals))
        a.input = t.emit("pad", a.input, padding=extra, mode="constant", value=0.0)
    return _conv(t, a, tuple((total // 2, total // 2) for total in totals))


def _conv_transpose(t: Translation, a: Any) -> Ref:
    rank = t.rank(a.weight) - 2
    x, added = batched(t, a.input, rank)
    pads = tuple((pad, pad) for pad in per_axis(a.padding, rank))
    out = t.emit(
        "conv_transpose", x, a.weight, *((a.bias,) if a.bias is not None else ()), stride=per_axis(a.stride, rank),
        padding=pads, dilation=per_axis(a.dilation, rank), groups=a.groups, spatial=t.out_shape[-rank:],
    )  # fmt: skip
    return unbatched(t, out, added)


RULES.rows(
    {
        "conv1d.default conv2d.default conv3d.default": _conv_plain,
        "conv_transpose1d.default conv_transpose2d.input conv_transpose3d.input": _conv_transpose,
        "convolution.default _convolution.default": (
            lambda t, a: _conv_transpose(t, a) if a.transposed else _conv_plain(t, a)
        ),
    }
)
