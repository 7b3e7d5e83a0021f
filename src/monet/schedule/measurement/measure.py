"""From a schedule to a ``Result``: tables by operator, core, link and phase, the timeline, the critical path."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from monet.arrays import F64, I64, Bool
from monet.hardware.core import Core
from monet.schedule import result_rows as r
from monet.schedule.costs.transfer_cost import passing_bytes
from monet.schedule.folding.repeated import Repeated
from monet.schedule.machine import Machine
from monet.schedule.measurement.energy import Energy
from monet.schedule.measurement.members import Members, Unfolded, unfolded
from monet.schedule.measurement.operator_rows import Figures, OperatorRows
from monet.schedule.measurement.repetition import notes_of, repetitions
from monet.schedule.measurement.spans import operator_spans
from monet.schedule.schedule import Chain, Occupied, Schedule
from monet.schedule.simulation.records import COMPUTE
from monet.schedule.workload import Operator, Workload


def unit_cycles(operator: Operator, core: Core, macs: float) -> float:
    """Cycles of an array's units for some of an operator's multiply-accumulates, at the rate of its formats; none on a
    core whose array cannot multiply them, as its lanes do."""
    if not macs or not core.units or core.cannot_multiply(*operator.multiplied):
        return 0.0
    paces = ((core.rate(*pair, either_way=True).products_per_cycle, many) for pair, many in operator.products)
    return math.fsum(macs * (many / operator.macs) / pace for pace, many in paces)


class Measures:
    """Sums over the nodes of a schedule, each computed once."""

    def __init__(self, schedule: Schedule, machine: Machine, workload: Workload, energy: Energy) -> None:
        self.schedule, self.machine, self.workload, self.energy = schedule, machine, workload, energy
        tiles, moves = schedule.tiles, schedule.transfers
        self.count, self.seconds = len(schedule.times), 1 / machine.ticks_per_second
        self.first, self.last = self._spans()
        self.members = Members.of(schedule, machine)
        self.busy = np.bincount(
            schedule.expanded.tables.steps.operator, self.members.busy, minlength=self.count
        )  # of all cores
        cores = len(machine.cores)
        spread = tiles.operator * cores + tiles.core
        by_core = np.bincount(spread, tiles.end - tiles.start, minlength=self.count * cores)
        self.longest = by_core.reshape(self.count, cores).max(axis=1)  # on its busiest core
        self.launching = self._launching(cores)
        self.read, self.written = self._bytes(moves.from_dram), self._bytes(moves.to_dram)
        self.moved = self._bytes(~moves.from_dram & ~moves.to_dram)
        if schedule.repeated:
            self._lengthen(schedule.repeated)

    def _lengthen(self, repeated: Repeated) -> None:
        """From the operators that were scheduled to all that they stand for."""
        self.count, numbers, shift = len(repeated.numbers), repeated.numbers, repeated.shift
        self.first, self.last = self.first[numbers] + shift, self.last[numbers] + shift
        self.busy, self.longest, self.launching = self.busy[numbers], self.longest[numbers], self.launching[numbers]
        self.read, self.written, self.moved = self.read[numbers], self.written[numbers], self.moved[numbers]
        self.energy = replace(self.energy, by_operator=self.energy.by_operator[numbers])

    def _spans(self) -> tuple[I64, I64]:
        tiles, moves = self.schedule.tiles, self.schedule.transfers
        own = ~moves.is_eviction
        return operator_spans(
            self.count,
            (tiles.operator, tiles.core, tiles.start, tiles.end),
            (moves.operator[own], moves.start[own], moves.end[own]),
            int(self.machine.routes.latency.max(initial=0)),
        )

    def _launching(self, cores: int) -> F64:
        """By operator, ticks in which some core waits for its launch; none where its group was launched before."""
        if not any(instance.core.dispatch_cycles for instance in self.machine.cores):
            return np.zeros(self.count)
        steps, switching = self.schedule.expanded.tables.steps, self.schedule.expanded.parts.switching
        by_core = np.bincount(steps.operator * cores + steps.core, switching, minlength=self.count * cores)
        launch = np.zeros(self.count)
        for stepped in self.schedule.expanded.operators:
            launch[stepped.operator.number] = stepped.costed.dispatch_ticks
        most = by_core.reshape(self.count, cores).max(axis=1)
        return np.where(most >= launch, launch, 0.0)

    def _bytes(self, chosen: Bool) -> I64:
        moves = self.schedule.transfers
        return np.bincount(moves.operator[chosen], moves.bytes[chosen], minlength=self.count).astype(np.int64)

    @cached_property
    def _booked(self) -> Occupied:
        """What is occupied by tiles and transfers."""
        return self.schedule.occupied(self.schedule.events)

    @property
    def dram_bytes(self) -> r.DramBytes:
        """Bytes to and from DRAM."""
        read, write = int(self.read.sum()), int(self.written.sum())
        return r.DramBytes(read, write, read + write)

    # --- tables -------------------------------------------------------------------------------------------------------

    def operators(self) -> r.Rows[r.OperatorRow]:
        """One row per executed operator, in execution order."""
        sums = self.first, self.last, self.busy, self.longest, self.launching, self.read, self.written, self.moved
        figures = Figures(*sums, self._dram_ticks, self.energy.by_operator)
        clock_hz, repeated = self.machine.accelerator.clock_hz, self.schedule.repeated
        scheduled = self.schedule.expanded.operators
        if not repeated:
            return r.Rows(OperatorRows(scheduled, self._unit_cycles, figures, self.seconds, clock_hz))
        row, number, group = repeated.in_order(*self._in_order)
        cycles, every = [self._unit_cycles[one] for one in row.tolist()], self.workload.operators
        rows = zip(row.tolist(), number.tolist(), group.tolist(), strict=True)

        def make() -> tuple[r.OperatorRow, ...]:
            operators = [replace(scheduled[one], operator=every[own], group=of) for one, own, of in rows]
            return OperatorRows(operators, cycles, figures, self.seconds, clock_hz)()

        return r.Rows(make)

    @property
    def _in_order(self) -> tuple[I64, I64]:
        """Numbers and groups of operators that were scheduled, in execution order."""
        operators = self.schedule.expanded.operators
        return (
            np.array([stepped.operator.number for stepped in operators], np.int64),
            np.array([stepped.group for stepped in operators], np.int64),
        )

    @cached_property
    def _unit_cycles(self) -> list[float]:
        """By operator in execution order, cycles of units of the array of each of its cores, all of one design, that
        multiply."""
        known: dict[int, float] = {}
        for stepped in self.schedule.expanded.operators:
            if stepped.number not in known:
                operator, pieces = stepped.operator, len(stepped.instances)
                known[stepped.number] = unit_cycles(operator, stepped.instances[0].core, operator.macs / pieces)
        return [known[stepped.number] for stepped in self.schedule.expanded.operators]

    @cached_property
    def unit_cycles(self) -> float:
        """Cycles of units of all arrays that multiply."""
        operators, times = self.schedule.expanded.operators, self.schedule.times.tolist()
        return math.fsum(
            cycles * len(stepped.instances) * times[stepped.operator.number]
            for stepped, cycles in zip(operators, self._unit_cycles, strict=True)
        )

    @cached_property
    def _dram_ticks(self) -> F64:
        """By operator: what its bytes take at the peak rate of DRAM, of several at the one that takes longest."""
        drams, first = self.machine.accelerator.drams, self.machine.dram_resource
        per_byte = [8 / dram.bandwidth_bits_per_s / self.seconds for dram in drams]
        if len(drams) == 1:
            return np.asarray((self.read + self.written) * per_byte[0], np.float64)
        booked, most = self._booked, np.zeros(self.count)
        for number, pace in enumerate(per_byte, first):
            mine = booked.resource == number
            most = np.maximum(most, pace * np.bincount(booked.operator[mine], booked.bytes[mine], self.count))
        return most

    def cores(self) -> tuple[r.CoreRow, ...]:
        """One row per core, its makespan split exactly by cause."""
        schedule, machine, makespan = self.schedule, self.machine, self.schedule.makespan
        found, members = [], self.members
        all_parts, all_waits = members.parts.tolist(), schedule.waits.tolist()
        macs, used_cycles = self._by_core()
        for number, instance in enumerate(machine.accelerator.cores):
            parts, waits = all_parts[number], all_waits[machine.core_index[instance.name]]
            ticks = dict(zip(r.TIME_PARTS, [*parts, *waits], strict=False))
            ticks["idle"] = makespan - sum(ticks.values())
            busy = sum(parts)
            peak = instance.core.units * instance.core.clock_hz * makespan * self.seconds
            found.append(
                r.CoreRow(
                    name=instance.name,
                    template=instance.template,
                    kind=instance.core.kind.value,
                    clock_hz=instance.core.clock_hz,
                    busy_s=busy * self.seconds,
                    utilisation=float(used_cycles[number] / peak) if peak else busy / makespan if makespan else 0.0,
                    macs=float(macs[number]),
                    energy_j=self.energy.by_core.get(instance.name, 0.0),
                    operators=int(members.operators[number]),
                    tiles=int(members.tiles[number]),
                    time={name: value * self.seconds for name, value in ticks.items()},
                    time_ticks=ticks,
                )
            )
        return tuple(found)

    def _by_core(self) -> tuple[F64, F64]:
        """By core, multiply-accumulates and cycles of units that multiply."""
        share, times = dict[tuple[str, ...], list[float]](), self.schedule.times.tolist()
        for stepped, cycles in zip(self.schedule.expanded.operators, self._unit_cycles, strict=True):
            sums, many = share.setdefault(stepped.placement.cores, [0.0, 0.0]), times[stepped.operator.number]
            sums[0] += many * stepped.operator.macs / len(stepped.instances)
            sums[1] += many * cycles
        found = np.zeros((2, len(self.machine.unfolded_index)))
        for cores, sums in share.items():
            found[:, self.machine.crew(cores).numbers] += np.array(sums)[:, None]
        return found[0], found[1]

    def links(self) -> tuple[r.LinkRow, ...]:
        """One row per link direction, per port of a shared level, and one for DRAM: bytes, busy time, energy."""
        machine = self.machine
        booked, resources = self._booked, len(machine.resource_names)
        times = self.schedule.times[booked.operator]
        size = np.bincount(booked.resource, booked.bytes * times, minlength=resources)
        busy = np.bincount(booked.resource, booked.ticks * times, minlength=resources)
        makespan, table = max(1, self.schedule.makespan), list[r.LinkRow]()
        described = {
            machine.dram_resource + number: ([dram.name], dram.bandwidth_bytes_per_s)
            for number, dram in enumerate(machine.accelerator.drams)
        }
        for link, pair in zip(machine.folded.links, machine.link_resources, strict=True):
            for backwards, number in enumerate(pair):
                ends = list(reversed(link.endpoints)) if backwards and pair[0] != pair[1] else list(link.endpoints)
                described[number] = described.get(number, (ends, link.bandwidth_bits_per_s / 8))
        for memory in machine.levels:
            for number, is_write in zip(machine.level_resources(memory), (False, True), strict=True):
                described[number] = [memory.name], memory.port_bits_per_s(is_write=is_write) / 8
        if self.workload.has_transfers:
            for endpoint in machine.accelerator.endpoints:
                number = machine.core_index[endpoint.name]
                described[number] = [machine.accelerator.drams[0].name, endpoint.name], endpoint.bandwidth_bytes_per_s
                size[number] = self._sent.get(endpoint.name, 0)
        names, place = machine.unfolded_resources
        for number in range(len(machine.folded.cores), resources):
            if number not in described:
                continue  # a port of a memory that belongs to cores
            ends, bandwidth = described[number]
            like = int(machine.spread[number])  # of cores that work together each has one, with equal shares
            for one in range(like):
                table.append(
                    r.LinkRow(
                        name=names[place[number] + one],
                        endpoints=tuple(machine.like_end(end, one) for end in ends),
                        bytes=int(size[number] + like - 1 - one) // like,
                        busy_s=float(busy[number] * self.seconds),
                        utilisation=float(busy[number] / makespan),
                        energy_j=float(self.energy.by_link[number]) / like,
                        bandwidth_bytes_per_s=bandwidth,
                    )
                )
        return tuple(table)

    @cached_property
    def _sent(self) -> dict[str, int]:
        """Bytes over every port to what is outside of the chip, either way."""
        found: dict[str, int] = {}
        for stepped in self.schedule.expanded.operators:
            if stepped.operator.is_transfer:
                (port,) = stepped.placement.cores
                times = int(self.schedule.times[stepped.operator.number])
                found[port] = found.get(port, 0) + times * passing_bytes(stepped.operator)
        return found

    def phases(self) -> dict[str, r.PhaseRow]:
        """One row per phase that has operators."""
        return {
            phase: r.PhaseRow(
                start_s=float(self.first[index].min() * self.seconds),
                end_s=float(self.last[index].max() * self.seconds),
                busy_s=float(self.busy[on_cores].sum() * self.seconds),
                energy_j=float(self.energy.by_operator[index].sum()),
                dram_bytes=int(self.read[index].sum() + self.written[index].sum()),
                macs=macs,
                operators=len(index),
            )
            for phase, (index, on_cores, macs) in self.workload.of_phases.items()
        }

    def energy_breakdown(self, phases: Mapping[str, r.PhaseRow]) -> r.EnergyBreakdown:
        """Joules by level, core, phase and operator; each adds up to the total."""
        energy, static = self.energy, {"static": self.energy.static}
        return r.EnergyBreakdown(
            static=energy.static,
            dynamic=energy.total - energy.static,
            by_level=energy.by_level,
            by_core=energy.by_core,
            by_phase={name: row.energy_j for name, row in phases.items()} | static,
            by_operator=dict(zip(self.workload.names, energy.by_operator.tolist(), strict=True)) | static,
        )

    def notes(self) -> tuple[str, ...]:
        """Layers that repeat to the tick."""
        operators, repeated = self.schedule.expanded.operators, self.schedule.repeated
        order, kind = self._in_order[0], np.array([stepped.number for stepped in operators], np.int64)
        if repeated:
            row, order, _ = repeated.in_order(*self._in_order)
            kind = kind[row]
        sums = (self.last - self.first, self.busy, self.read, self.written, self.moved)
        found = repetitions(kind, self.first[order], [column[order] for column in sums])
        every = self.workload.operators
        return notes_of(found, [every[number] for number in order.tolist()], self.machine.ticks_per_second)

    # --- time ---------------------------------------------------------------------------------------------------------

    def timeline(self) -> r.Timeline:
        """Every booking of every node."""
        booked, repeated = unfolded(self._booked, self.schedule, self.machine, self.members), self.schedule.repeated
        if repeated:
            row, operator, shift = repeated.each(booked.operator)
            booked = Unfolded(
                booked.start[row] + shift, booked.ticks[row], booked.resource[row], operator, booked.kind[row]
            )
        return r.Timeline(
            self.machine.ticks_per_second,
            self.machine.unfolded_resources[0],
            self.workload.names,
            booked.start,
            booked.start + booked.ticks,
            booked.resource,
            booked.operator,
            self._kinds(booked.kind, booked.operator),
        )

    def _kinds(self, kind: I64, operator: I64) -> I64:
        """Kinds of events; what runs on a port transfers."""
        if not self.workload.has_transfers:
            return kind
        transfers = np.array([each.is_transfer for each in self.workload.operators])
        return np.where((kind == COMPUTE) & transfers[operator], r.EVENT_KINDS.index("transfer"), kind)

    def critical_path(self) -> Sequence[r.CriticalStep]:
        """The chain of waiting that ends with the last node; neighbours of one operator and resource are merged."""
        chain, repeated = self.schedule.chain, self.schedule.repeated
        if not len(chain.node):
            return ()
        if repeated:
            row, operator, shift = repeated.each(chain.operator)
            along = np.maximum.accumulate(chain.start)  # what comes to a step starts a latency before it
            order = np.lexsort((row, shift, along[row] + shift))
            row, start = row[order], (chain.start[row] + shift)[order]
            chain = Chain(chain.node[row], operator[order], chain.kind[row], start, chain.resource[row])
        until = np.append(np.minimum.accumulate(chain.start[::-1])[::-1][1:], self.schedule.makespan)
        took = until > chain.start
        start, until, operator = chain.start[took], until[took], chain.operator[took]
        what = (operator, chain.resource[took], self._kinds(chain.kind[took], operator))
        new = np.concatenate(([True], np.any([column[1:] != column[:-1] for column in what], axis=0)))[: len(start)]
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(start))[: len(first)] - 1
        names = self.workload.names
        named = zip(
            (column[first] for column in what), (names, (*self.machine.resource_names, ""), r.EVENT_KINDS), strict=True
        )
        times = (start[first] * self.seconds, ()), (until[last] * self.seconds, ())
        return r.Rows(partial(_critical_steps, (*named, *times)))


def _critical_steps(columns: Sequence[tuple[r.Array, Sequence[str]]]) -> tuple[r.CriticalStep, ...]:
    """Rows of their columns: of each field its values or, if there are names, which of these they are."""
    values = ([*map(names.__getitem__, column.tolist())] if names else column.tolist() for column, names in columns)
    return tuple(map(r.CriticalStep, *values))
