"""Mappings as plain data with dimensions and operands by position, so that equal nests share one cached result."""

from __future__ import annotations

from collections.abc import Mapping as Dictionary
from typing import Any

from monet.graph.loop_nest import LoopNest
from monet.mapping.nest.mapping import Binding, Cut, Loop, Mapping, Unrolled


def positions(nest: LoopNest) -> dict[str, int]:
    """Dimensions longer than one, by position."""
    return {name: place for place, name in enumerate(name for name, size in nest.dims if size > 1)}


def pack(mapping: Mapping, nest: LoopNest) -> dict[str, Any]:
    """A mapping without names."""
    at = positions(nest)
    operands = [operand.name for operand in nest.operands]
    binding = mapping.binding
    return {
        "mode": mapping.mode,
        "binding": [operands.index(binding.I), operands.index(binding.W), operands.index(binding.O)],
        "unrolled": [[unrolling.axis, at[unrolling.dim], unrolling.factor] for unrolling in mapping.unrolled],
        "loops": [[at[loop.dim], loop.trips] for loop in mapping.loops],
        "cuts": [[cut.slot, cut.level, cut.position] for cut in mapping.cuts],
    }


def unpack(packed: Dictionary[str, Any], nest: LoopNest) -> Mapping:
    """The mapping for a nest that is equal up to names."""
    names = list(positions(nest))
    operands = [operand.name for operand in nest.operands]
    return Mapping(
        packed["mode"],
        Binding(*(operands[place] for place in packed["binding"])),
        tuple(Unrolled(axis, names[at], factor) for axis, at, factor in packed["unrolled"]),
        tuple(Loop(names[at], trips) for at, trips in packed["loops"]),
        tuple(Cut(*cut) for cut in packed["cuts"]),
    )
