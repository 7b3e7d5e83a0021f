"""Shapes and layouts: views, copies, joins, splits, pads and permutations."""

from __future__ import annotations

import math
from typing import Any

from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported, aten


def _alias(t: Translation, a: Any) -> Ref:
    """Another name for the same tensor. In an exported program ``detach_`` marks constants only."""
    return t.cast(a.self, t.out_dtype)


def _nothing(t: Translation, a: Any) -> None:
    """Checks that compute nothing."""


RULES.rows(
    {
        "view.default reshape.default _unsafe_view.default view_as.default reshape_as.default flatten.using_ints "
        "unflatten.int ravel.default": lambda t, a: t.reshape(a.self, t.out_shape),
        "expand.default expand_as.default broadcast_to.default": lambda t, a: t.expand(a.self, t.out_shape),
        "broadcast_tensors.default": lambda t, a: tuple(t.expand(x, t.out_shape) for x in a.tensors),
        "contiguous.default": lambda t, a: a.self if t.is_contiguous(a.self) else t.emit("copy", a.self),
        "clone.default": lambda t, a: t.emit("copy", a.self),
        "detach.default detach_copy.default": lambda t, a: t.emit("detach", a.self),
        "alias.default lift_fresh_copy.default lift_fresh.default view.dtype positive.default detach_.default": _alias,
        "pad.default": lambda t, a: _pad_as(t, a.self, a.pad, a.mode, a.value or 0.0),
        "constant_pad_nd.default": lambda t, a: _pad_as(t, a.self, a.pad, "constant", a.value or 0.0),
        "reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default": (
            lambda t, a: _pad_as(t, a.self, a.padding, "reflect")
        ),
        "replication_pad1d.default replication_pad2d.default replication_pad3d.default": (
            lambda t, a: _pad_as(t, a.self, a.padding, "replicate")
        ),
        "flip.default fliplr.default flipud.default": lambda t, a: t.emit("flip", a.self, axes=t.axes(a.self, a.dims)),
        "sym_size.int _assert_tensor_metadata.default _assert_async.msg _assert_scalar.default _assert_async.default": (
            _nothing
        ),
    }
)


@aten("squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default")
def _squeeze(t: Translation, a: Any) -> Ref:
    return t.emit("reshape", a.self, shape=t.out_shape) if t.shape(a.self) != t.out_shape else a.self


@aten("permute.default", "movedim.intlist", "movedim.int")
def _permute(t: Translation, a: Any) -> Ref:
    if hasattr(a, "dims"):
        return t.transpose(a.self, t.axes(a.self, a.dims))
    source, target = t.axes(a.self, a.source), t.axes(a.self, a.destination)
    rest = iter(axis for axis in range(t.rank(a.self)) if axis not in source)
    moved = dict(zip(target, source, strict=True))
    return t.transpose(a.self, [moved[axis] if axis in moved else next(rest) for axis in range(t.rank(a.self))])


@aten("transpose.int", "swapaxes.default", "swapdims.default")
def _transpose(t: Translation, a: Any) -> Ref:
    names = ("dim0", "dim1") if hasattr(a, "dim0") else ("axis0", "axis1")
    first, second = (t.axis(a.self, getattr(a, name)) for name in names)
    order = list(range(t.rank(a.self)))
    order[first], order[second] = order[second], order[first]
    return t.transpose(a.self, order)


@aten("t.default", "numpy_T.default", "mT.default", "matrix_H.default")
def _t(t: Translation, a: Any) -> Ref:
    rank = t.rank(a.self)
    return t.transpose(a.self, (*range(rank - 2), *range(rank - 1, max(rank - 3, -1), -1)) if rank > 1 else range(rank))


@aten("repeat.default", "tile.default")
def _repeat(t: Translation, a: Any) -> Ref:
    times = tuple(getattr(a, "repeats", None) or a.dims)
    rank = max(t.rank(a.self), len(times))
    times = (*([1] * (rank - len(times))), *times)
    x = t.reshape(a.self, (*([1] * (rank - t.rank(a.self))), *t.shape(a.self)))
    return t.emit("repeat", x, times=times)


@aten("repeat_interleave.self_int")
def _repeat_interleave(t: Translation, a: Any) -> Ref:
    if a.dim is None:
        x, axis = t.reshape(a.self, (math.prod(t.shape(a.self)),)), 0
    else:
        x, axis = a.self, t.axis(a.self, a.dim)
    shape = t.shape(x)
    wide = t.expand(
        t.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :])),
        (*shape[: axis + 1], a.repeats, *shape[axis + 1 :]),
    )
    return t.reshape(t.emit("copy", wide), t.out_shape)


# --- joining and splitting ------------------------------------------------------------------------------------------


@aten("cat.default", "concat.default", "concatenate.default")
def _cat(t: Translation, a: Any) -> Ref:
    parts = [t.cast(x, t.out_dtype) for x in a.tensors if math.prod(t.shape(x))]
    return t.emit("concat", *parts, axis=t.axis(parts[0], a.dim)) if len(parts) > 1 else t.emit("copy", parts[0])


@aten("stack.default")
def _stack(t: Translation, a: Any) -> Ref:
    axis = a.dim % (t.rank(a.tensors[0]) + 1)
    slices = []
    for x in a.tensors:
        shape = t.shape(x)
        slices.append(t.emit("reshape", t.cast(x, t.out_dtype), shape=(*shape[:axis], 1, *shape[axis:])))
    return t.emit("concat", *slices, axis=axis) if len(slices) > 1 else t.emit("copy", slices[0])


def _split_by(t: Translation, x: str, axis: int, sizes: tuple[int, ...]) -> tuple[Ref, ...]:
    return t.emit_all("split", x, axis=axis, sizes=sizes) if len(sizes) > 1 else (Ref(x),)


@aten(
    "split.Tensor", "split.sizes", "split_with_sizes.default", "chunk.default", "tensor_split.sections",
    "tensor_split.indices",
)  # fmt: skip
def _split(t: Translation, a: Any) -> tuple[Ref, ...]:
    axis = t.axis(a.self, a.dim)
    return _split_by(t, a.self, axis, tuple(int(part.shape[axis]) for part in t.meta))


@aten("unbind.int")
def _unbind(t: Translation, a: Any) -> tuple[Ref, ...]:
    axis = t.axis(a.self, a.dim)
    parts = _split_by(t, a.self, axis, (1,) * t.shape(a.self)[axis])
    return tuple(t.emit("reshape", part, shape=t.out_shape) for part in parts)


# --- parts, padding, permutations -----------------------------------------------------------------------------------


@aten("slice.Tensor", "narrow.default")
def _slice(t: Translation, a: Any) -> Ref:
    axis = t.axis(a.self, a.dim)
    size = t.shape(a.self)[axis]
    if hasattr(a, "length"):
        return t.slice(a.self, axis, a.start % size if size else 0, a.start % size + a.length)
    start, stop, step = slice(a.start, a.end, a.step).indices(size)
    return t.slice(a.self, axis, start, stop, step)


@aten("select.int")
def _select(t: Translation, a: Any) -> Ref:
    axis = t.axis(a.self, a.dim)
    return t.select(a.self, axis, a.index % t.shape(a.self)[axis])


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


def _pad_as(t: Translation, x: str, pads: list[int], mode: str, value: float = 0.0) -> Ref:
    """``pads`` lists (before, after) from the last axis on."""
    if mode not in _MODES:
        raise Unsupported(f"padding mode {mode!r}")
    pairs = [(int(pads[i]), int(pads[i + 1])) for i in range(0, len(pads), 2)][::-1]
    padding = (*([(0, 0)] * (t.rank(x) - len(pairs))), *pairs)
    if not any(any(pair) for pair in padding):
        return t.emit("copy", x)
    return t.emit("pad", x, padding=tuple(padding), mode=_MODES[mode], value=value)


@aten("roll.default")
def _roll(t: Translation, a: Any) -> Ref:
    shifts = tuple(a.shifts)
    if not len(a.dims):
        flat = t.reshape(a.self, (math.prod(t.shape(a.self)),))
        return t.reshape(t.emit("roll", flat, axes=(0,), shifts=shifts), t.shape(a.self))
    return t.emit("roll", a.self, axes=t.axes(a.self, a.dims), shifts=shifts)


@aten("pixel_shuffle.default")
def _pixel_shuffle(t: Translation, a: Any) -> Ref:
    *lead, channels, height, width = t.shape(a.self)
    r, n = a.upscale_factor, len(lead)
    x = t.emit("reshape", a.self, shape=(*lead, channels // (r * r), r, r, height, width))
    return t.reshape(t.transpose(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2)), t.out_shape)


@aten("pixel_unshuffle.default")
def _pixel_unshuffle(t: Translation, a: Any) -> Ref:
    *lead, channels, height, width = t.shape(a.self)
    r, n = a.downscale_factor, len(lead)
    x = t.emit("reshape", a.self, shape=(*lead, channels, height // r, r, width // r, r))
    return t.reshape(t.transpose(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3)), t.out_shape)


@aten("channel_shuffle.default")
def _channel_shuffle(t: Translation, a: Any) -> Ref:
    batch, channels, *spatial = t.shape(a.self)
    x = t.emit("reshape", a.self, shape=(batch, a.groups, channels // a.groups, *spatial))
    order = (0, 2, 1, *range(3, t.rank(x)))
    return t.reshape(t.transpose(x, order), t.out_shape)
