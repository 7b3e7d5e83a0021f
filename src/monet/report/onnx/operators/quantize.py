"""quantize: the arithmetic of ``monet.block_scaling`` in standard operators; files hold the rounded values in fp64."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from monet.formats import FORMATS
from monet.grouping import Element, Group
from monet.report.onnx.body import Body, Value
from monet.report.onnx.operators.elementwise import MASK_LIMIT
from monet.report.onnx.table import writes

_TINY = 2.0**-1000
_E4M3 = FORMATS["mxfp8_e4m3"].element


class Rounding(NamedTuple):
    """How values are rounded: the rule of a scale, and the seed of draws (None: to nearest)."""

    rule: str = "floor"
    seed: int | None = None


@writes("quantize")
def _quantize(b: Body) -> Value:
    attrs = b.call.attrs
    seed = attrs["seed"] if attrs.get("rounding") == "stochastic" else None
    return rounded(b, b.raw[0], b.shape(0), b.call.out.dtype, Rounding(attrs.get("rule", "floor"), seed))


def rounded(b: Body, values: Value, shape: tuple[int, ...], dtype: str, how: Rounding) -> Value:
    """Values of some shape as a format holds them, in fp64."""
    held = FORMATS[dtype]
    assert held.element is not None  # of operands of products
    assert held.group is not None
    sizes, steps = held.group.aligned(shape)
    padded = [-(-size // step) * step for size, step in zip(sizes, steps, strict=True)]
    x = values.cast("fp64").reshape(sizes)
    x = x.pad([0] * len(sizes), [whole - size for whole, size in zip(padded, sizes, strict=True)])
    split = [part for whole, step in zip(padded, steps, strict=True) for part in (whole // step, step)]
    blocks = x.reshape(split)
    magnitudes = b.node("Abs", blocks)
    scale = _scales(b, magnitudes, held.element, held.group, shape, how)
    most = b.scalar(held.element.maximum, "fp64")
    most = b.where(blocks < 0.0, b.scalar(2.0, "fp64"), most) if held.element.twos_complement else most
    stepped = _to_steps(b, b.node("Min", magnitudes / scale, most), held.element, tuple(split), how.seed)
    signed = (stepped * scale * b.node("Sign", blocks)).reshape(padded)
    whole = b.slice(signed, {axis: (0, size, 1) for axis, size in enumerate(sizes) if size != padded[axis]})
    return whole.reshape(shape)


def _power_below(b: Body, value: Value) -> Value:
    """2^⌊log2 x⌋; a logarithm may be off by one next to a power of two, which is put right."""
    safe = b.node("Max", value, b.scalar(_TINY, "fp64"))
    guess = b.node("Pow", b.scalar(2.0, "fp64"), b.node("Floor", b.node("Log", safe) / math.log(2.0)))
    guess = b.where(guess * 2.0 <= safe, guess * 2.0, guess)
    return b.where(guess > safe, guess / 2.0, guess)


def _to_steps(b: Body, magnitudes: Value, element: Element, shape: tuple[int, ...], seed: int | None) -> Value:
    least = b.scalar(2.0**element.least_exponent, "fp64")
    step = b.node("Max", _power_below(b, magnitudes), least) * 2.0**-element.fraction_bits
    if seed is None:
        return b.node("Round", magnitudes / step) * step
    drawn = b.node("Floor", magnitudes / step + _draws(b, shape, seed)) * step
    return b.node("Min", drawn, b.node("Max", magnitudes, b.scalar(element.maximum, "fp64")))


def _draws(b: Body, shape: tuple[int, ...], seed: int) -> Value:
    """The numbers that the seed gives, where they may go into the file; else the standard operator draws its own."""
    if b.exact or math.prod(shape) <= MASK_LIMIT:
        return b.array(np.random.default_rng(seed).random(shape), "fp64")
    return b.node("RandomUniform", dtype="fp32", shape=list(shape), seed=float(seed)).cast("fp64")


def _scales(b: Body, magnitudes: Value, element: Element, group: Group, shape: tuple[int, ...], how: Rounding) -> Value:
    rank = 2 * len(group.aligned(shape)[0])
    largest = magnitudes.reduce("ReduceMax", range(1, rank, 2), keepdims=True)
    if group.scale == "e4m3":
        assert _E4M3 is not None
        tensor = (largest.reduce("ReduceMax", range(rank), keepdims=True) / (element.maximum * 448.0)).cast("fp32")
        safe = b.node("Max", tensor.cast("fp64"), b.scalar(_TINY, "fp64"))
        wanted = b.node("Min", largest / element.maximum / safe, b.scalar(448.0, "fp64"))
        return b.node("Max", _to_steps(b, wanted, _E4M3, (), None) * safe, b.scalar(_TINY, "fp64"))
    if how.rule == "floor":
        scale = _power_below(b, largest) * 2.0**-element.largest_exponent
    else:
        ratio = largest / element.maximum
        below = _power_below(b, ratio)
        scale = b.where(ratio > below, below * 2.0, below)
    scale = b.node("Clip", scale, b.scalar(2.0**-127, "fp64"), b.scalar(2.0**127, "fp64"))
    return scale * _microexponents(b, magnitudes / scale, element, group, shape, how.rule) if group.micro else scale


def _microexponents(b: Body, scaled: Value, element: Element, group: Group, shape: tuple[int, ...], rule: str) -> Value:
    sizes, steps = group.aligned(shape)
    counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
    whole = [part for pair in zip(counts, steps, strict=True) for part in pair]
    split: list[int] = []
    for count, step in zip(counts, steps, strict=True):
        shared = group.micro if step > 1 else 1
        split += [count, step // shared, shared]
    largest = scaled.reshape(split).reduce("ReduceMax", range(2, len(split), 3), keepdims=True)
    fits = largest < 1.0 if rule == "floor" else largest * 2.0 <= element.maximum
    return b.where(fits, b.scalar(0.5, "fp64"), b.scalar(1.0, "fp64")).expand(split).reshape(whole)
