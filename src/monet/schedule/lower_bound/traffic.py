"""Bytes that cross between DRAM and the chip in every plan: what is there at the start and is read, what has to be
there at the end and is written, and what memories of a given size cannot keep between its write and its use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monet.formats import whole_bytes
from monet.graph.loop_nest import LoopNest, Operand
from monet.schedule.expansion.geometry import axis_range, make_steps
from monet.schedule.lower_bound.liveness import Cut, cuts_of
from monet.schedule.result_rows import CATEGORIES
from monet.schedule.workload import Workload


@dataclass(frozen=True, slots=True)
class LeastTraffic:
    """Bytes of every plan, apart from what does not fit; and what has to be kept for that."""

    read: int
    written: int
    cuts: tuple[Cut, ...]

    def over(self, capacity: int) -> tuple[int, int]:
        """Bytes (read, written) across a border behind which memories hold ``capacity`` bytes."""
        read, written = max(((cut.read(capacity), cut.written(capacity)) for cut in self.cuts), key=sum, default=(0, 0))
        return self.read + read, self.written + written


def least_traffic(workload: Workload, resident: frozenset[str] = frozenset()) -> LeastTraffic:
    """What every plan of a graph moves between cores and DRAM, found once. ``resident``: categories of what need not be
    in DRAM at all; what else does not fit beside it is not counted then, nor where something may be outside."""
    key = " ".join(("least traffic", *sorted(resident)))
    found = workload.planned.get(key)
    if found is None:
        cuts = () if resident or workload.has_transfers else cuts_of(workload)
        found = workload.planned[key] = (LeastTraffic(*_compulsory(workload, resident), cuts),)
    traffic = found[0]
    assert isinstance(traffic, LeastTraffic)
    return traffic


def _compulsory(workload: Workload, resident: frozenset[str]) -> tuple[int, int]:
    """Bytes read of what is there at the start, or comes from outside, and written of what stays: at least what one
    operator needs. Transfers themselves need no core."""
    read: dict[str, int] = {}
    written: dict[str, int] = {}
    known: dict[str, tuple[int, ...]] = {}
    came: set[str] = set()  # over a port, to DRAM
    for operator in workload.operators:
        if operator.is_transfer:
            came.update(operator.written)
            continue
        sizes = known.get(operator.key)
        if sizes is None:
            sizes = known[operator.key] = tuple(
                distinct_bytes(operand, operator.nest) for operand, _ in operator.operands
            )
        made: dict[str, int] = {}
        for (operand, tensor), most in zip(operator.operands, sizes, strict=True):
            name = tensor.storage
            size = min(most, workload.storages[name].tensor.bytes)
            if operand.written:
                made[name] = max(size, made.get(name, written.get(name, 0)))
            elif name not in written:
                read[name] = max(size, read.get(name, 0))
        written |= made
    storages = {
        name: storage for name, storage in workload.storages.items()
        if not (storage.is_root and CATEGORIES[storage.category] in resident)
    }  # fmt: skip
    return (
        sum(size for name, size in read.items() if name in storages and (storages[name].is_root or name in came)),
        sum(size for name, size in written.items() if name in storages and storages[name].persistent),
    )


def distinct_bytes(operand: Operand, nest: LoopNest) -> int:
    """Bytes of an operand that its nest touches at least once, at most that many."""
    all_of_it = make_steps(nest, {})
    if len(operand.indices) != len(operand.shape):
        return 0
    elements = 1
    for index, length in zip(operand.indices, operand.shape, strict=True):
        low, high, _ = axis_range(index, length, nest, all_of_it)
        factors = [abs(factor) for name, factor in index.terms if factor and nest.sizes[name] > 1]
        points = math.prod(nest.sizes[name] for name, factor in index.terms if factor)
        step = math.gcd(*factors) if factors else 1
        elements *= max(1, min(-(-(int(high) - int(low)) // max(1, step)), points))
    return whole_bytes(min(elements, nest.points) * operand.bits_per_element, down=True)
