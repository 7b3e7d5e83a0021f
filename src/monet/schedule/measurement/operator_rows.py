"""Rows of a result by operator, made once somebody asks for them: searches ask for totals only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from monet.schedule.expansion.expand import PlannedSteps
from monet.schedule.measurement.padding import padding_macs
from monet.schedule.plan import split_text
from monet.schedule.result_rows import Array, OperatorRow


class Figures(NamedTuple):
    """Sums over the nodes of operators, by number: ticks, bytes, joules."""

    first: Array
    last: Array
    busy: Array
    longest: Array  # on its busiest core
    launching: Array  # of these, at most until it starts
    read: Array
    written: Array
    moved: Array
    at_dram: Array  # ticks that its bytes take at the peak rate of DRAM
    joules: Array


class _Figures(NamedTuple):
    """The same of one operator."""

    first: int
    last: int
    busy: float
    longest: float
    launching: float
    read: int
    written: int
    moved: int
    at_dram: float
    joules: float


@dataclass(frozen=True)
class OperatorRows:
    """All that the rows are made of. Nothing here lies in arrays that the next schedule is written to."""

    operators: Sequence[PlannedSteps]  # in execution order
    unit_cycles: Sequence[float]  # of each
    figures: Figures
    seconds_per_tick: float
    clock_hz: float
    _common: dict[int, tuple[float, dict[str, Any]]] = field(default_factory=dict)

    def __call__(self) -> tuple[OperatorRow, ...]:
        """The rows, in the order of the operators."""
        by_number = list(map(_Figures, *(column.tolist() for column in self.figures)))
        pairs = zip(self.operators, self.unit_cycles, strict=True)
        return tuple([self._row(stepped, by_number[stepped.operator.number], cycles) for stepped, cycles in pairs])

    def _row(self, stepped: PlannedSteps, of: _Figures, cycles: float) -> OperatorRow:
        op, tick = stepped.operator.op, self.seconds_per_tick
        seconds = float(of.last - of.first) * tick
        peak, common = self._common_of(stepped)
        return OperatorRow(
            name=op.name,
            phase=op.phase.value,
            layer=op.layer,
            group=stepped.group,
            start_s=of.first * tick,
            end_s=of.last * tick,
            latency_s=seconds,
            busy_s=of.busy * tick,
            cycles=math.ceil(seconds * self.clock_hz - 1e-6),
            utilisation=cycles * len(stepped.instances) / (peak * seconds) if peak and seconds else 0.0,
            energy_j=of.joules,
            dram_read_bytes=of.read,
            dram_write_bytes=of.written,
            link_bytes=of.moved,
            bound_by=_bound(stepped, of),
            recompute=op.recompute,
            **common,
        )

    def _common_of(self, stepped: PlannedSteps) -> tuple[float, dict[str, Any]]:
        """Of operators alike, worked out once: units of their cores' arrays, times their clocks; what their rows have
        in common."""
        found = self._common.get(stepped.number)
        if found is None:
            operator = stepped.operator
            found = self._common[stepped.number] = (
                sum(each.core.units * each.core.clock_hz for each in stepped.instances),
                {
                    "kind": operator.op.kind,
                    "family": operator.family.value,
                    "cores": stepped.placement.cores,
                    "split": split_text(stepped.placement.split),
                    "tiles": stepped.steps.count,
                    "macs": operator.macs,
                    "work": dict(operator.work),
                    "input_bytes": operator.input_bytes,
                    "output_bytes": operator.output_bytes,
                    "padding_macs": padding_macs(stepped),
                },
            )
        return found


def _bound(stepped: PlannedSteps, of: _Figures) -> str:
    if of.at_dram > of.longest:
        return "dram"
    if 2 * of.launching > of.longest:
        return "launch"
    return str(stepped.costs[0].bound_by) if stepped.costs[0].bound_by != "dram" else "compute"
