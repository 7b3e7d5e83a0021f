"""The sums of products that matrix operators share in NumPy: exact, or with a narrow accumulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from monet.block_scaling import to_fraction_bits
from monet.graph.kind import Array


def product(attrs: Mapping[str, Any], left: Array, right: Array) -> Array:
    """A (batched) matrix product, added up as ``accumulate`` says."""
    if "accumulator" not in attrs:
        out: Array = left @ right
        return out
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return accumulate(attrs, np.zeros((*batch, left.shape[-2], right.shape[-1])), left, right)


def accumulate(attrs: Mapping[str, Any], total: Array, left: Array, right: Array) -> Array:
    """``total`` with a matrix product added, in place where that is exact.

    With the attribute ``accumulator`` = (bits, terms), as by a unit that keeps so many bits of fraction: so many
    products at a time are added exactly to the partial sum, which is then rounded.
    """
    if "accumulator" not in attrs:
        total += left @ right
        return total
    bits, terms = attrs["accumulator"]
    for start in range(0, left.shape[-1], terms):
        part = left[..., start : start + terms] @ right[..., start : start + terms, :]
        total = to_fraction_bits(total + part, bits)
    return total
