"""Pooling, adaptive pooling, and resampling."""

from __future__ import annotations

from typing import Any

from monet.frontends.torch.operators.convolution import batched, per_axis, unbatched
from monet.frontends.torch.translation import RULES, Ref, Translation, Unsupported

RULES.rows(
    {
        "max_pool1d.default": lambda t, a: _max_pool(t, a, 1)[0],
        "max_pool2d.default": lambda t, a: _max_pool(t, a, 2)[0],
        "max_pool3d.default": lambda t, a: _max_pool(t, a, 3)[0],
        "max_pool1d_with_indices.default": lambda t, a: _max_pool(t, a, 1),
        "max_pool2d_with_indices.default": lambda t, a: _max_pool(t, a, 2),
        "avg_pool1d.default": lambda t, a: _avg_pool(t, a, 1),
        "avg_pool2d.default": lambda t, a: _avg_pool(t, a, 2),
        "avg_pool3d.default": lambda t, a: _avg_pool(t, a, 3),
        "adaptive_avg_pool1d.default": lambda t, a: _adaptive_avg(t, a, 1),
        "adaptive_avg_pool2d.default _adaptive_avg_pool2d.default": lambda t, a: _adaptive_avg(t, a, 2),
        "adaptive_avg_pool3d.default": lambda t, a: _adaptive_avg(t, a, 3),
        "adaptive_max_pool1d.default": lambda t, a: _adaptive_max(t, a, 1),
        "adaptive_max_pool2d.default": lambda t, a: _adaptive_max(t, a, 2),
        "upsample_nearest1d.vec upsample_nearest2d.vec upsample_nearest3d.vec": lambda t, a: _resize(t, a, "nearest"),
        "upsample_linear1d.vec upsample_bilinear2d.vec upsample_trilinear3d.vec": lambda t, a: _resize(t, a, "linear"),
    }
)


def _window(a: Any, rank: int) -> dict[str, Any]:
    kernel = per_axis(a.kernel_size, rank)
    stride = per_axis(a.stride, rank) if a.stride is not None and a.stride != [] else kernel
    padding = tuple((pad, pad) for pad in per_axis(a.padding, rank))
    return {"kernel": kernel, "stride": stride, "padding": padding, "ceil": bool(a.ceil_mode)}


def _max_pool(t: Translation, a: Any, rank: int) -> tuple[Ref, Ref]:
    x, added = batched(t, a.self, rank)
    dilation = per_axis(a.dilation, rank)
    out, places = t.emit_all("max_pool", x, **_window(a, rank), dilation=dilation, index_dtype="int64")
    return unbatched(t, out, added), unbatched(t, places, added)


def _avg_pool(t: Translation, a: Any, rank: int) -> Ref:
    if getattr(a, "divisor_override", None):
        raise Unsupported("a divisor of its own")
    x, added = batched(t, a.self, rank)
    out = t.emit("avg_pool", x, **_window(a, rank), dilation=(1,) * rank, count_padding=bool(a.count_include_pad))
    return unbatched(t, out, added)


# --- adaptive: the output size is given -----------------------------------------------------------------------------


def _adaptive_window(t: Translation, x: str, rank: int) -> dict[str, Any]:
    """The plain window that gives this output size; there is none unless every size divides."""
    sizes, out = t.shape(x)[-rank:], t.out_shape[-rank:]
    if any(size % target for size, target in zip(sizes, out, strict=True)):
        raise Unsupported(f"{list(sizes)} to {list(out)}: windows of different sizes")
    kernel = tuple(size // target for size, target in zip(sizes, out, strict=True))
    plain = {"padding": ((0, 0),) * rank, "dilation": (1,) * rank, "ceil": False}
    return {"kernel": kernel, "stride": kernel, **plain}


def _adaptive_avg(t: Translation, a: Any, rank: int) -> Ref:
    sizes, out = t.shape(a.self)[-rank:], t.out_shape[-rank:]
    if all(size == 1 for size in out):
        axes = tuple(range(t.rank(a.self) - rank, t.rank(a.self)))
        return t.emit("reduce_mean", a.self, axes=axes, keepdims=True)
    x, added = batched(t, a.self, rank)
    if any(size % target for size, target in zip(sizes, out, strict=True)):
        return unbatched(t, t.emit("adaptive_avg_pool", x, spatial=out), added)
    return unbatched(t, t.emit("avg_pool", x, **_adaptive_window(t, x, rank), count_padding=False), added)


def _adaptive_max(t: Translation, a: Any, rank: int) -> tuple[Ref, Ref]:
    x, added = batched(t, a.self, rank)
    out, places = t.emit_all("max_pool", x, **_adaptive_window(t, x, rank), index_dtype="int64")
    return unbatched(t, out, added), unbatched(t, places, added)


# --- resampling -----------------------------------------------------------------------------------------------------


def _resize(t: Translation, a: Any, mode: str) -> Ref:
    x = a.input if hasattr(a, "input") else a.self
    sizes, out = t.shape(x)[2:], t.out_shape[2:]
    given = getattr(a, "scale_factors", None)
    scales = tuple(map(float, given)) if given else tuple(o / s for o, s in zip(out, sizes, strict=True))
    if len(scales) != len(sizes):
        raise Unsupported("a scale per axis is needed")
    return t.emit(
        "resize", x, mode=mode, spatial=out, scales=scales, align_corners=bool(getattr(a, "align_corners", False))
    )
