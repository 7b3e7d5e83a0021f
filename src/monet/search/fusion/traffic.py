"""Where the time, energy and off-chip bytes of the unfused step go, and how much of each a group could save at most.

A group can save an off-chip read of what another of its operators has just made or read, and the write of what nobody
outside needs. It can overlap operators on different cores. It cannot save the core's own time, nor the first read and
the write of what is needed later: in training that is every tensor saved for the backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from monet.arrays import F64, I64, F64x2
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.energy import energy_of
from monet.schedule.schedule import Schedule
from monet.search.fusion.evaluation import Variant
from monet.search.fusion.structure import bits


@dataclass(frozen=True)
class Baseline:
    """An unfused schedule, split over its operators. Seconds and joules add up to those of the whole step."""

    scheduler: Scheduler
    schedule: Schedule
    seconds: F64  # by how much the end of the step moves with an operator, in order of execution
    joules: F64  # static energy included, by seconds
    read: I64  # bytes from DRAM
    busy: F64x2  # by operator and core: seconds of work
    static_power_w: float
    variants: dict[int, tuple[Variant, ...]] = field(default_factory=dict)  # of groups, as they are asked for

    @cached_property
    def written_bytes(self) -> dict[str, int]:
        """Bytes of every storage that were written to DRAM and are not there from the start."""
        stays, names = self.schedule.in_dram, list(self.scheduler.workload.storages)
        made = stays.operator >= 0
        storage = self.schedule.expanded.block_storage[stays.block[made]]
        total = np.bincount(storage, stays.bytes[made], minlength=len(names))
        return {name: int(total[number]) for number, name in enumerate(names)}

    @cached_property
    def touched(self) -> dict[str, tuple[int, int, int, bool]]:
        """By storage that is not written last by its only user: readers, writers (bit sets), bytes, persistent."""
        workload = self.scheduler.workload
        readers: dict[str, int] = {}
        writers: dict[str, int] = {}
        for operator in workload.operators:
            for operand, tensor in operator.operands:
                table = writers if operand.written else readers
                table[tensor.storage] = table.get(tensor.storage, 0) | 1 << operator.number
            for tensor in (*operator.waits, *operator.untouched):
                readers[tensor.storage] = readers.get(tensor.storage, 0) | 1 << operator.number
        return {
            name: (readers.get(name, 0), writers.get(name, 0), storage.tensor.bytes, storage.persistent)
            for name, storage in workload.storages.items()
        }

    @cached_property
    def storages_of(self) -> tuple[tuple[str, ...], ...]:
        """Storages of every operator that another one touches as well."""
        shared = {name for name, (read, written, *_) in self.touched.items() if (read | written).bit_count() > 1}
        operators = self.scheduler.workload.operators
        return tuple(tuple(name for name in operator.storages if name in shared) for operator in operators)

    def saveable_bytes(self, mask: int) -> int:
        """Most off-chip bytes that a group can save against its operators alone."""
        numbers = list(bits(mask))
        first: dict[str, int] = {}
        again = dict.fromkeys(numbers, 0)
        for number in numbers:
            for name in self.storages_of[number]:
                if name not in first:
                    first[name] = number
                elif self.touched[name][0] >> number & 1:
                    again[number] += self.touched[name][2]
        saved = sum(min(again[number], int(self.read[number])) for number in numbers)
        for name in first:
            readers, writers, _, persistent = self.touched[name]
            if not persistent and writers and not (readers | writers) & ~mask:
                saved += self.written_bytes[name]
        return saved

    def least_seconds(self, mask: int) -> float:
        """What a group takes at least on the cores that its operators have now."""
        bandwidth = self.scheduler.machine.accelerator.dram.bandwidth_bytes_per_s
        numbers = list(bits(mask))
        off_chip = self.traffic[numbers].sum() - self.saveable_bytes(mask)
        return max(float(self.busy[numbers].sum(axis=0).max()), max(0.0, float(off_chip)) / bandwidth)

    @cached_property
    def traffic(self) -> F64:
        """Off-chip bytes of every operator, both ways; what was driven out counts where it was made."""
        workload = self.scheduler.workload
        found = self.read.astype(float)
        for name, (_, writers, _, _) in self.touched.items():
            if writers and self.written_bytes[name]:
                found[next(bits(writers))] += self.written_bytes[name]
        for name, storage in workload.storages.items():  # in place: written where it was
            writers = self.touched[name][1]
            if storage.is_root and storage.persistent and writers:
                found[max(bits(writers))] += storage.tensor.bytes
        return found

    def potential(self, mask: int, objective: str) -> float:
        """Estimate of what a group may gain, in units of the objective's own figure (edp: to first order)."""
        numbers = list(bits(mask))
        dram = self.scheduler.machine.accelerator.dram
        saved = self.saveable_bytes(mask)
        seconds = max(saved / dram.bandwidth_bytes_per_s, float(self.seconds[numbers].sum()) - self.least_seconds(mask))
        per_byte = 8 * max(dram.read_energy_j_per_bit, dram.write_energy_j_per_bit)
        joules = per_byte * saved + self.static_power_w * seconds
        return weighted(objective, seconds, joules, float(self.seconds.sum()), float(self.joules.sum()))


def weighted(objective: str, seconds: float, joules: float, all_seconds: float, all_joules: float) -> float:
    """A change of both figures as a change of the objective; of their product, to first order."""
    if objective == "latency":
        return seconds
    return joules if objective == "energy" else seconds * all_joules + joules * all_seconds


def baseline_of(scheduler: Scheduler, schedule: Schedule) -> Baseline:
    """Split an unfused schedule over its operators."""
    machine, count = scheduler.machine, len(scheduler.workload.operators)
    moves, steps = schedule.transfers, schedule.expanded.tables.steps
    latest = schedule.last_end(count)
    order = np.array([stepped.operator.number for stepped in schedule.expanded.operators])
    front = np.maximum.accumulate(latest[order])
    seconds = np.zeros(count)
    seconds[order] = np.diff(front, prepend=0) / machine.ticks_per_second
    energy = energy_of(schedule, machine, count)
    power = machine.accelerator.static_power_w
    joules = energy.by_operator + power * seconds
    read = np.bincount(moves.operator[moves.from_dram], moves.bytes[moves.from_dram], minlength=count)
    busy = np.zeros((count, len(machine.cores)))
    np.add.at(busy, (steps.operator, steps.core), steps.ticks / machine.ticks_per_second)
    return Baseline(scheduler, schedule, seconds, joules, read, busy, power)
