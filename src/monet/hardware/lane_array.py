"""Vector lanes as an array: how multiply-accumulates (convolutions, matrix products) run on a core's lanes.

What is assumed of lanes is little. They are one axis of units; each adds up one output in a register of its own until
it is done. A lane reads both inputs of every product from the core's memory; where one operand is the same for all
lanes it is read once and broadcast. No input stays in a register for the next product, and lanes do not add to each
other. A product takes as long as the function ``mac`` does, or ``mul`` and ``add`` where there is no ``mac``, and costs
what so many lane-cycles of its format cost; the register is part of the lane.

The mapper then treats lanes like any other array, ports and bytes of their memory included.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from monet.formats import format_named, whole_bytes
from monet.hardware.core import (
    OPERANDS,
    OUTPUT_FLOWS,
    ArrayMode,
    Axis,
    Core,
    CoreKind,
    MemoryLevel,
    Port,
    TransposedRead,
)
from monet.hardware.description import default_accumulator
from monet.hardware.errors import HardwareError
from monet.hardware.rates import Rate

LANES = "lanes"  # the axis
SUMS = "lane_sums"  # the level of the lanes' registers
MODES = (("lanes", frozenset[str]()), ("lanes, I broadcast", frozenset("I")), ("lanes, W broadcast", frozenset("W")))


@lru_cache(maxsize=256)
def lane_array(core: Core) -> Core | None:
    """The lanes of a core as a core with an array; None if they cannot multiply and add, or a slot has no memory."""
    cycles = _product_cycles(core)
    levels = {core.top(slot).name: core.top(slot) for slot in OPERANDS if core.levels_of(slot)}
    if cycles is None or core.streamed or any(level.instances > 1 for level in levels.values()):
        return None
    rates = tuple(
        Rate(
            (first, second),
            default_accumulator(first, second),
            1,
            cycles / core.lane_rate(first, second).elements_per_cycle,
            cycles * core.lane_rate(first, second).energy_j,
        )
        for first in _numbers(core)
        for second in _numbers(core)
    )
    if not rates:
        return None
    tops = tuple(_shared(level) for level in levels.values())
    private = sum(level.total_leakage_w for level in tops if not level.memory)
    return Core(
        kind=CoreKind.MATRIX,
        clock_hz=core.clock_hz,
        modes=tuple(ArrayMode(name, (Axis(LANES, core.lanes, multicast),)) for name, multicast in MODES),
        rates=rates,
        lanes=0,
        vector_rates=(),
        functions=(),
        levels=(_sums(core.lanes, rates), *tops),
        accumulator_level=SUMS,
        swappable_inputs=True,
        zero_skipping=True,
        transposed_read=TransposedRead("free", 0.0),
        mode_switch_cycles=0,
        dispatch_cycles=core.dispatch_cycles,
        area_m2=0.0,
        compute_area_m2=0.0,
        compute_leakage_w=core.leakage_w - private,
    )


def arrays_of(core: Core) -> tuple[Core, ...]:
    """Where a core can run multiply-accumulates: its array, and its lanes as one."""
    lanes = lane_array(core)
    return (*((core,) if core.modes else ()), *((lanes,) if lanes else ()))


def arrays_for(core: Core, first: str, second: str) -> tuple[Core, ...]:
    """Those of a core's arrays that multiply operands of these formats; an error that says why not if none does."""
    arrays = arrays_of(core)
    found = tuple(array for array in arrays if not array.cannot_multiply(first, second))
    if found:
        return found
    raise HardwareError(arrays[0].cannot_multiply(first, second) if arrays else _why_none(core))


def peak_products_per_cycle(core: Core, first: str, second: str) -> float:
    """Multiply-accumulates per cycle of a core with operands of these formats, on whichever of its arrays does most;
    0 if none can."""
    return max(
        (
            array.units * array.rate(first, second, either_way=True).products_per_cycle
            for array in arrays_of(core)
            if not array.cannot_multiply(first, second)
        ),
        default=0.0,
    )


def _product_cycles(core: Core) -> float | None:
    """Lane-cycles of a product that is added to a sum; None if the lanes have no functions for it."""
    functions = dict(core.functions)
    if core.lanes <= 0:
        return None
    if "mac" in functions:
        return functions["mac"]
    return functions["mul"] + functions["add"] if {"mul", "add"} <= functions.keys() else None


def _why_none(core: Core) -> str:
    if core.lanes <= 0:
        return "it has no array and no vector lanes"
    if _product_cycles(core) is None:
        return "it has no array, and its lanes have no function mac, nor mul and add"
    return "it has no array, and its lanes no memory for all operands"


def _numbers(core: Core) -> tuple[str, ...]:
    return tuple(rate.dtype for rate in core.vector_rates if rate.dtype != "bool")


def _shared(level: MemoryLevel) -> MemoryLevel:
    """A memory of the core as all lanes see it."""
    return replace(level, shared_along=(LANES,))


def _sums(lanes: int, rates: tuple[Rate, ...]) -> MemoryLevel:
    """A register of two sums in every lane: one is added to while the other leaves."""
    widest = max(format_named(rate.accumulator).bits for rate in rates)
    flows = frozenset(("O", flow) for flow in OUTPUT_FLOWS)
    per_cycle = int(-(-4 * widest // min(rate.cycles_per_step for rate in rates)))  # read and written in every step
    return MemoryLevel(
        name=SUMS,
        operands=("O",),
        size_bytes=2 * whole_bytes(widest),
        shared_along=(),
        instances=lanes,
        ports=(Port("port0", "read_write", per_cycle, flows),),
        min_access_bits=1,
        access_bits=1,
        read_energy_j=0.0,
        write_energy_j=0.0,
        area_m2=0.0,
        leakage_w=0.0,
    )
