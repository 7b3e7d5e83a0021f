"""What moving and multiplying costs on a core, apart from how data moves in it.

Cores that differ in energies, leakage, clock, lanes or the size of their top memories move data below the border in
the same ways: they share one *shape*. Frames, their arrays and the counts of a mapping belong to the shape and are
worked out once; a core's own ``Prices`` turn them into joules.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from monet.arrays import F64
from monet.hardware.core import OPERANDS, Core, MemoryLevel
from monet.mapping.cost_store import CostStore, Section
from monet.mapping.nest.frame import Stream


@dataclass(frozen=True)
class Prices:
    """Joules per bit of every level (``stream`` among them), of a product by operand types, of a cycle's leakage."""

    read_j_per_bit: dict[str, float]
    write_j_per_bit: dict[str, float]
    mac_j: dict[tuple[str, str], float]
    leakage_j_per_cycle: float

    def per_bit(self, level: str, is_read: bool) -> float:
        """Joules of one bit read or written at a level."""
        return (self.read_j_per_bit if is_read else self.write_j_per_bit)[level]

    def of_flows(self, flows: tuple[tuple[str, bool], ...]) -> F64:
        """Joules of one bit of some flows: of each a level, and whether it is read."""
        if flows not in self._of_flows:
            self._of_flows[flows] = np.array([self.per_bit(*flow) for flow in flows])
        return self._of_flows[flows]

    @cached_property
    def _of_flows(self) -> dict[tuple[tuple[str, bool], ...], F64]:
        return {}


def prices_of(core: Core, stream: Stream | None) -> Prices:
    """The prices of a core whose streamed slots come from ``stream``."""
    read = {level.name: level.read_energy_j_per_bit for level in core.levels}
    write = {level.name: level.write_energy_j_per_bit for level in core.levels}
    if stream is not None:
        read["stream"], write["stream"] = stream.read_energy_j_per_bit, stream.write_energy_j_per_bit
    products = {rate.inputs: rate.energy_j for rate in core.rates}
    return Prices(read, write, products, core.leakage_w / core.clock_hz)


PRICES = Section[Prices]("prices of cores", 1024)


def known_prices(core: Core, stream: Stream | None, store: CostStore) -> Prices:
    """``prices_of``, looked up."""
    return store[PRICES].get_or((core, stream), lambda: prices_of(core, stream))


SHAPES = Section[Core]("shapes of cores", 1024)


def shape_of(core: Core) -> Core:
    """A core without everything that has no part in how data moves below its border."""
    tops = {slot: core.top(slot).name for slot in OPERANDS if core.levels_of(slot)}
    levels = tuple(_level_shape(level, tops) for level in core.levels)
    rates = tuple(replace(rate, energy_j=0.0) for rate in core.rates)
    bare = replace(core, clock_hz=1.0, rates=rates, lanes=0, vector_rates=(), functions=(), levels=levels)
    bare = replace(bare, mode_switch_cycles=0, dispatch_cycles=0, area_m2=0.0, compute_area_m2=0.0)
    return replace(bare, compute_leakage_w=0.0, format_switch_cycles=0, thread_blocks=None)


def known_shape(core: Core, store: CostStore) -> Core:
    """``shape_of``, looked up: one object for all cores of a shape, which is quick to compare."""
    known = store[SHAPES]

    def compute() -> Core:
        shape = shape_of(core)
        return known.get_or(shape, lambda: shape)

    return known.get_or(core, compute)


def _level_shape(level: MemoryLevel, tops: dict[str, str]) -> MemoryLevel:
    held_whole = level.instances == 1 and all(tops[slot] == level.name for slot in level.operands)
    return replace(
        level,
        size_bytes=0 if held_whole else level.size_bytes,  # the border: who schedules sees to it that operands fit
        access_bits=1,
        read_energy_j=0.0,
        write_energy_j=0.0,
        area_m2=0.0,
        leakage_w=0.0,
        memory="",
    )


def stream_shape(stream: Stream | None) -> Stream | None:
    """A source without its energies."""
    return None if stream is None else Stream(stream.bandwidth_bits_per_cycle, 0.0, 0.0)
