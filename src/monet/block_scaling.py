"""Values rounded to narrow elements with shared scales, in NumPy: what the grouped formats of ``formats`` mean.

Rules of a scale (of powers of two):

- ``floor``, OCP MX v1.0: 2^(⌊log2 largest⌋ − largest exponent of an element); what is larger than an element saturates.
- ``round-up``: the least power of two that saturates nothing (arXiv 2506.08027).

Microsoft's MX9, MX6 and MX4 (arXiv 2302.08007) halve the step of neighbours that lie below half of the group's range.
NVFP4 (arXiv 2509.25149) divides by fp32 = largest of the tensor / (6 · 448), and by the group's largest / 6 in E4M3.

A NaN makes its group NaN (the scale has a code for it); an infinity takes the largest scale and saturates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.grouping import Element, Group, Shape

Array = np.ndarray[Any, Any]

RULES = ("floor", "round-up")

_EXPONENT = np.int64(0x7FF0000000000000)  # of a float64: what is left is the power of two below a magnitude
_E8M0 = 2.0**-127, 2.0**127
_E4M3 = Element(8, 8, -6, 3, 448.0)


def quantise(
    values: Array, element: Element, group: Group, *, rule: str = "floor", rounding: str = "nearest", seed: int = 0
) -> Array:
    """``values`` as the format holds them, in float64. ``seed`` is of stochastic rounding; a shape keeps its groups."""
    wide = np.asarray(values, np.float64)
    blocks, shape = _blocks(wide, group)
    over = tuple(range(1, blocks.ndim, 2))
    magnitudes = np.abs(blocks)
    largest = magnitudes.max(axis=over, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = _float_scales(largest, element) if group.scale == "e4m3" else _power_scales(largest, element, rule)
        if group.micro:
            scale = scale * _microexponents(magnitudes / scale, element, group, rule)
        scaled = np.divide(magnitudes, scale, out=magnitudes)
        scaled[np.broadcast_to(scale == 0, scaled.shape)] = 0.0
        limit = np.where(np.signbit(blocks), 2.0, element.maximum) if element.twos_complement else element.maximum
        rounded = to_steps(np.minimum(scaled, limit, out=scaled), element, rounding, seed)
        rounded *= scale
        np.copysign(rounded, blocks, out=rounded)
    if element.twos_complement:
        rounded += 0.0  # there is no negative zero
    return _whole(rounded, shape, wide.shape)


def power_below(magnitudes: Array) -> Array:
    """2^⌊log2 x⌋ of positive float64 numbers; 0 of 0, and of what is too small to be normal."""
    powers: Array = (magnitudes.view(np.int64) & _EXPONENT).view(np.float64)
    return powers


def to_steps(magnitudes: Array, element: Element, rounding: str = "nearest", seed: int = 0) -> Array:
    """Magnitudes up to an element's largest, rounded to its numbers: to nearest with ties to even, or by chance with
    the odds that keep the mean."""
    step = np.maximum(power_below(np.ascontiguousarray(magnitudes)), 2.0**element.least_exponent)
    step *= 2.0**-element.fraction_bits
    if rounding == "stochastic":
        draws = np.random.default_rng(seed).random(magnitudes.shape)
        drawn: Array = np.minimum(np.floor(magnitudes / step + draws) * step, np.maximum(magnitudes, element.maximum))
        return drawn
    step *= 1.5 * 2.0**52  # a float64 of this size has no bits below a step: adding it rounds
    rounded: Array = magnitudes + step
    rounded -= step
    return rounded


def to_fraction_bits(values: Array, bits: int) -> Array:
    """float64 numbers with so many bits of fraction, to nearest with ties to even: a narrow accumulator."""
    with np.errstate(invalid="ignore", over="ignore"):
        step = power_below(np.abs(np.ascontiguousarray(values, np.float64))) * (1.5 * 2.0 ** (52 - bits))
        return np.where(np.isfinite(values), (values + step) - step, values)


# --- groups -----------------------------------------------------------------------------------------------------------


def _blocks(values: Array, group: Group) -> tuple[Array, Shape]:
    """Values padded with zeros to whole groups, every axis as (groups, elements of a group); and the padded shape."""
    sizes, steps = group.aligned(values.shape)
    counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
    padded = tuple(count * step for count, step in zip(counts, steps, strict=True))
    array = values.reshape(sizes)
    if padded != sizes:
        array = np.pad(array, [(0, whole - size) for whole, size in zip(padded, sizes, strict=True)])
    split = [extent for pair in zip(counts, steps, strict=True) for extent in pair]
    return np.ascontiguousarray(array).reshape(split), padded


def _whole(blocks: Array, padded: Shape, shape: Shape) -> Array:
    array = blocks.reshape(padded)
    if padded != shape:
        lead = len(padded) - len(shape)
        array = array[(0,) * lead + tuple(slice(size) for size in shape)]
    return np.ascontiguousarray(array)


# --- scales -----------------------------------------------------------------------------------------------------------


def _power_scales(largest: Array, element: Element, rule: str) -> Array:
    """Powers of two, as the rule says; that of zeros is the smallest one."""
    if rule == "floor":
        scale = power_below(largest) * 2.0**-element.largest_exponent
    else:
        ratio = largest / element.maximum
        scale = power_below(ratio)
        scale = np.where(ratio > scale, 2 * scale, scale)
    return np.where(np.isnan(largest), np.nan, np.clip(scale, *_E8M0))


def _microexponents(scaled: Array, element: Element, group: Group, rule: str) -> Array:
    """By element 1/2 where it and its neighbours fit below half of the range, else 1."""
    split = []
    for size, step in zip(scaled.shape[::2], scaled.shape[1::2], strict=True):
        shared = group.micro if step > 1 else 1
        split += [size, step // shared, shared]
    neighbours = scaled.reshape(split)
    over = tuple(range(2, neighbours.ndim, 3))
    largest = neighbours.max(axis=over, keepdims=True)
    fits = largest < 1.0 if rule == "floor" else 2 * largest <= element.maximum
    return np.broadcast_to(np.where(fits, 0.5, 1.0), neighbours.shape).reshape(scaled.shape)


def _float_scales(largest: Array, element: Element) -> Array:
    """An E4M3 scale of every group times an fp32 scale of the tensor, by which its largest value is their largest."""
    highest = float(np.finfo(np.float32).max)
    finite = np.minimum(largest, highest)
    most = np.fmax.reduce(finite, axis=None, initial=0.0)
    tensor = float(np.float32(most / (element.maximum * _E4M3.maximum)))
    if not tensor:
        return np.where(np.isnan(largest), np.nan, 0.0)
    groups = to_steps(np.minimum(finite / element.maximum / tensor, _E4M3.maximum), _E4M3)
    return np.asarray(groups * tensor)
