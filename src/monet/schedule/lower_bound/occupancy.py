"""Seconds that every operator takes of cores at least, however it is split, tiled and fused.

A core does one step at a time, and a step takes as long as its arithmetic or what passes the ports of the core's
memory, whichever is slower. Of arithmetic this counts what the wires of an array leave idle: positions along an axis
beyond all that the axis may take of an operator stay empty in every tile of it. Summed up over the steps of an
operator, however they are cut, this is its least occupancy of cores of one design; operators together, on all cores of
all designs, are a linear program, whose dual is tried at the prices where one design becomes cheaper than another
(``least_seconds``).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64
from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import Accelerator
from monet.hardware.core import Core
from monet.hardware.lane_array import arrays_of
from monet.mapping.cost_store import CostStore, Section, default_store
from monet.mapping.nest.phases import phases
from monet.mapping.nest.spatial import bindings, footprints_of, is_legal
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.lower_bound.work import function_rate, top_ports
from monet.schedule.workload import Operator, Workload

MOST_PRICES = 64  # ratios of the prices of two designs that are tried
OCCUPANCIES = Section[F64]("least occupancies", 20_000)


@dataclass(frozen=True, slots=True)
class Classes:
    """The distinct operators of a workload, how often each is there, and bits that it reads and writes at least."""

    operators: tuple[Operator, ...]
    times: F64
    read_bits: F64
    written_bits: F64
    digest: str

    @property
    def moved_bytes(self) -> F64:
        """Of each, read and written."""
        return (self.read_bits + self.written_bits) / 8


def classes_of(workload: Workload) -> Classes:
    """Operators that differ, found once."""
    found = workload.planned.get("operator classes")
    if found is None:
        times = Counter(operator.key for operator in workload.operators)
        distinct = {operator.key: operator for operator in workload.operators}
        operators = tuple(distinct.values())
        counts = np.array([times[key] for key in distinct], float)
        read, written = (np.array([_bits(each, which) for each in operators], float) for which in (False, True))
        classes = Classes(operators, counts, read, written, "\n".join(distinct))
        found = workload.planned["operator classes"] = (classes,)
    known = found[0]
    assert isinstance(known, Classes)
    return known


def _bits(operator: Operator, written: bool) -> float:
    touched = (
        distinct_bytes(operand, operator.nest) for operand in operator.nest.operands if operand.written is written
    )
    return 8.0 * sum(touched)


def occupancy_bound_s(workload: Workload, accelerator: Accelerator, store: CostStore | None = None) -> float:
    """Seconds that all operators together take at least on all cores."""
    counts = Counter(instance.core for instance in accelerator.cores)
    classes = classes_of(workload)
    seconds = [occupancies(classes, core, store) for core in counts]
    return float(least_seconds(classes.times, seconds, [np.array(float(count)) for count in counts.values()]))


def occupancies(classes: Classes, core: Core, store: CostStore | None = None) -> F64:
    """Core-seconds of each class on one core of a design; infinite where it cannot. Remembered by content."""
    section = (store or default_store())[OCCUPANCIES]
    return section.get_or(
        (classes.digest, _speed(core)), lambda: np.maximum(_arithmetic(classes, core), _ports_s(classes, core))
    )


def _arithmetic(classes: Classes, core: Core) -> F64:
    return np.array([arithmetic_s(operator, core) for operator in classes.operators])


def _speed(core: Core) -> tuple[object, ...]:
    """All of a core that its occupancies depend on: not what memories hold, nor what anything costs."""
    rates = tuple((rate.inputs, rate.products_per_step, rate.cycles_per_step) for rate in core.rates)
    lanes = tuple((rate.dtype, rate.elements_per_cycle) for rate in core.vector_rates)
    levels = tuple((level.operands, level.shared_along, level.instances > 1) for level in core.levels)
    vector = core.lanes, lanes, core.functions
    return (
        core.modes,
        rates,
        vector,
        levels,
        core.clock_hz,
        core.swappable_inputs,
        core.weights_resident,
        top_ports(core),
    )


def least_seconds(times: F64, seconds: list[F64], counts: list[F64]) -> F64:
    """The most that prices of the designs prove: Σ of (times · least price · seconds) over Σ of price · cores.

    ``seconds``: by design, of each class; ``counts``: by design, cores, as arrays of one shape (many machines at once).
    """
    return dearest(priced(times, seconds), counts)


def priced(times: F64, seconds: list[F64]) -> tuple[F64, F64]:
    """Prices of the designs, a row each, and what all classes cost at least by each: whatever the numbers of cores."""
    able = np.isfinite(seconds).any(axis=0)
    prices = _prices([each[able] for each in seconds])
    totals = []
    for price in prices:
        cheapest = np.min(
            [cost * each[able] if cost else _free(each[able]) for cost, each in zip(price, seconds, strict=True)],
            axis=0,
        )
        totals.append(float((times[able] * cheapest).sum()))
    return np.array(prices), np.array(totals)


def dearest(found: tuple[F64, F64], counts: list[F64]) -> F64:
    """What prices and totals prove of some numbers of cores: the most of total over price of all cores."""
    best = np.zeros(np.shape(counts[0]))
    for price, total in zip(*found, strict=True):
        room = sum(cost * count for cost, count in zip(price.tolist(), counts, strict=True))
        best = np.maximum(best, total / room)
    return best


def _free(seconds: F64) -> F64:
    """What a design that costs nothing asks: nothing, where it can do the work at all."""
    return np.where(np.isfinite(seconds), 0.0, np.inf)


def _prices(seconds: list[F64]) -> list[tuple[float, ...]]:
    """Prices worth trying: equal ones, each design alone, and for pairs the ratios at which classes change sides."""
    many = len(seconds)
    found = {(1.0,) * many}
    found |= {tuple(float(one == other) for other in range(many)) for one in range(many)}
    for one in range(many):
        for other in range(one + 1, many):
            both = np.isfinite(seconds[one]) & np.isfinite(seconds[other]) & (seconds[one] > 0) & (seconds[other] > 0)
            ratios = np.unique(np.round(seconds[other][both] / seconds[one][both], 9))
            for ratio in ratios[:: max(1, -(-len(ratios) // MOST_PRICES))]:
                price = [0.0] * many
                price[one], price[other] = float(ratio), 1.0
                found.add(tuple(price))
    return sorted(found)


# --- one operator on one core -----------------------------------------------------------------------------------------


def arithmetic_s(operator: Operator, core: Core) -> float:
    """Seconds of one core of this design that the arithmetic of an operator takes at least; infinite if it cannot.

    Fused attention shares its work between an array and lanes, maybe of two cores: counted is what its array takes.
    """
    if operator.is_attention:
        return _attention_s(operator, core)
    return _matrix_s(operator, core) if operator.is_matrix else _lanes_s(operator, core)


def _matrix_s(operator: Operator, core: Core) -> float:
    parts = phases(operator.nest)
    best = math.inf
    for array in arrays_of(core):
        whole = _cycles(operator.nest, array)
        if parts:
            whole = min(whole, math.fsum(_cycles(part, array) for part in parts))
        best = min(best, whole / array.clock_hz)
    return best


def _cycles(nest: LoopNest, array: Core) -> float:
    """Array cycles of a nest at least: its products over what the wires can keep busy."""
    first, second = (operand.dtype for operand in nest.reads[:2])
    if array.cannot_multiply(first, second):
        return math.inf
    rate = array.rate(first, second, either_way=True)
    most = 0.0
    for binding in bindings(nest, array):
        touched = footprints_of(nest, binding)
        inside = math.prod(size for dim, size in nest.dims if dim not in touched["O"].dims)
        for mode in array.modes:
            filled = float(min(rate.products_per_step, inside))
            for axis in mode.axes:
                along = math.prod(
                    size for dim, size in nest.dims if size > 1 and not is_legal(touched, array, axis, dim)
                )
                filled *= min(axis.size, along)
            most = max(most, filled)
    return nest.points * rate.cycles_per_step / most


def _lanes_s(operator: Operator, core: Core) -> float:
    formats = tuple(dict.fromkeys(operand.dtype for operand in operator.nest.operands))
    total = 0.0
    for name, count in operator.lane_work:
        rate = function_rate(core, formats, name)
        if not rate:
            return math.inf
        total += count / rate
    return total if core.lanes else math.inf


def _attention_s(operator: Operator, core: Core) -> float:
    formats = {operand.dtype for operand in operator.nest.reads[:2]}
    rates = [
        array.units * array.rate(min(formats), max(formats), either_way=True).products_per_cycle * array.clock_hz
        for array in arrays_of(core)
        if not array.cannot_multiply(min(formats), max(formats))
    ]
    return operator.macs / max(rates) if rates else math.inf


def _ports_s(classes: Classes, core: Core) -> F64:
    """Every operand once through a port of the memory that the core computes from; fused attention left out."""
    feeds, collects, both = top_ports(core)
    read, written = classes.read_bits, classes.written_bits
    pairs = ((read, feeds), (written, collects), (read + written, both))
    seconds = np.max([bits / rate if rate else np.zeros(len(bits)) for bits, rate in pairs], axis=0)
    return np.where([operator.is_attention for operator in classes.operators], 0.0, seconds)
