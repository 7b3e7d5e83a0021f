"""What a core computes with: rates by mode of its array and by format of its lanes, and which one an operator gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from monet.formats import format_named
from monet.hardware.errors import HardwareError


@dataclass(frozen=True, slots=True)
class Rate:
    """What one unit of an array does in one mode: with operands of these formats, adding up in that one.

    A unit takes ``cycles_per_step`` cycles for a step of ``products_per_step`` products that are summed inside it
    (so they must lie along a reduced dimension). ``energy_j`` is of one multiply-accumulate, memories not included.
    """

    inputs: tuple[str, str]  # formats of slots I and W
    accumulator: str  # format of partial sums
    products_per_step: int
    cycles_per_step: float
    energy_j: float

    def takes(self, first: str, second: str) -> bool:
        """Whether it is the rate of operands of these formats, in this order."""
        return self.inputs[0] in _listed_as(first) and self.inputs[1] in _listed_as(second)

    @property
    def products_per_cycle(self) -> float:
        """Multiply-accumulates per unit and cycle."""
        return self.products_per_step / self.cycles_per_step


@cache
def _listed_as(name: str) -> frozenset[str]:
    """What a rate may call a format: itself, as a unit sees it, or without its group."""
    return frozenset((name, format_named(name).mode, format_named(name).family))


@dataclass(frozen=True, slots=True)
class VectorRate:
    """What one vector lane does with one format: elements per cycle of a one-cycle function, joules per
    lane-cycle. A function of n cycles per element costs n · energy_j per element."""

    dtype: str
    elements_per_cycle: float
    energy_j: float


def array_rate(rates: Sequence[Rate], first: str, second: str, *, either_way: bool = False) -> Rate:
    """Rate for operands of these formats, in this order or (``either_way``) in the other one if this is not listed.
    Never interpolated: an unlisted pair is an error. ``mxfp8_e4m3`` lists any group of it, ``mxfp8_e4m3[8x8]`` one."""
    for one, other in ((first, second), (second, first))[: 2 if either_way else 1]:
        for rate in rates:
            if rate.takes(one, other):
                return rate
    raise HardwareError(f"the array has no rate for {first}×{second}; it supports: {_listed(rates)}")


def _listed(rates: Sequence[Rate]) -> str:
    """The pairs that there are rates for."""
    pairs = {rate.inputs: None for rate in rates}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    if len(names) > 1 and len(pairs) == len(names) ** 2:
        return f"any two of {', '.join(names)}"
    return ", ".join("×".join(pair) for pair in pairs) or "none"


def lane_rate(rates: Sequence[VectorRate], formats: Sequence[str]) -> VectorRate:
    """Rate of the format that lanes compute operands of these formats in: the widest float that they have a rate for,
    else the first that they have one for."""
    found, listed = [format_named(name) for name in formats], {rate.dtype: rate for rate in rates}
    floats = sorted(
        (number_format for number_format in found if number_format.is_float),
        key=lambda number_format: -number_format.bits,
    )
    for number_format in (*floats, *found):
        if number_format.name in listed:
            return listed[number_format.name]
    raise HardwareError(f"the vector lanes have no rate for {found[0]}; they support: {', '.join(listed) or 'none'}")
