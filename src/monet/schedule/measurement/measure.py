"""From a schedule to a ``Result``: tables by operator, core, link and phase, the timeline, the critical path."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from monet.graph.op import Phase
from monet.schedule import result_rows as r
from monet.schedule.engine import Schedule, bookings_of
from monet.schedule.machine import Machine
from monet.schedule.measurement.energy import Energy
from monet.schedule.measurement.spans import operator_spans
from monet.schedule.simulation import decide as d
from monet.schedule.simulation import nodes as n
from monet.schedule.workload import Operator, Workload

Array = np.ndarray[Any, Any]


class Measures:
    """Sums over the nodes of a schedule, each computed once."""

    def __init__(self, schedule: Schedule, machine: Machine, workload: Workload, energy: Energy) -> None:
        self.schedule, self.machine, self.workload, self.energy = schedule, machine, workload, energy
        nodes, timed = schedule.decided.nodes, schedule.timed
        self.count = len(workload.operators)
        self.kind, self.operator, self.bytes = nodes[:, n.KIND], nodes[:, n.OPERATOR], nodes[:, n.BYTES]
        self.start, self.end = timed.start, timed.end
        self.seconds = 1 / machine.ticks_per_second
        run = self.kind == n.COMPUTE
        self.first, self.last = self._spans(run)
        self.busy = np.bincount(self.operator[run], nodes[run, n.DURATION], minlength=self.count)
        cores = len(machine.accelerator.cores)
        spread = self.operator[run] * cores + schedule.expanded.steps[nodes[run, n.STEP], d.CORE]
        by_core = np.bincount(spread, nodes[run, n.DURATION], minlength=self.count * cores)
        self.longest = by_core.reshape(self.count, cores).max(axis=1)  # on its busiest core
        self.read = self._bytes((n.READ,))
        self.written = self._bytes((n.WRITE, n.EVICT))
        self.moved = self._bytes((n.MOVE,))

    def _spans(self, run: Array) -> tuple[Array, Array]:
        steps, nodes = self.schedule.expanded.steps, self.schedule.decided.nodes
        moves = np.isin(self.kind, (n.READ, n.WRITE, n.MOVE))
        return operator_spans(
            self.count,
            (self.operator[run], steps[nodes[run, n.STEP], d.CORE], self.start[run], self.end[run]),
            (self.operator[moves], self.start[moves], self.end[moves]),
            int(self.machine.routes.latency.max(initial=0)),
        )

    def _bytes(self, kinds: tuple[int, ...]) -> Array:
        here = np.isin(self.kind, kinds)
        return np.bincount(self.operator[here], self.bytes[here], minlength=self.count).astype(np.int64)

    @property
    def dram_bytes(self) -> r.DramBytes:
        """Bytes to and from DRAM."""
        read, write = int(self.read.sum()), int(self.written.sum())
        return r.DramBytes(read, write, read + write)

    # --- tables -------------------------------------------------------------------------------------------------------

    def operators(self) -> tuple[r.OperatorRow, ...]:
        """One row per executed operator, in execution order."""
        return tuple(self._operator(one) for one in self.schedule.expanded.operators)

    def _operator(self, one: Any) -> r.OperatorRow:
        operator: Operator = one.operator
        number, op = operator.number, operator.op
        seconds = float(self.last[number] - self.first[number]) * self.seconds
        peak = sum(instance.core.units * instance.core.clock_hz for instance in one.instances)
        return r.OperatorRow(
            name=op.name,
            kind=op.kind,
            family=operator.family.value,
            phase=op.phase.value,
            layer=op.layer,
            group=one.group,
            cores=tuple(instance.name for instance in one.instances),
            split=one.placement.split,
            tiles=one.steps.count,
            start_s=float(self.first[number] * self.seconds),
            end_s=float(self.last[number] * self.seconds),
            latency_s=seconds,
            busy_s=float(self.busy[number] * self.seconds),
            cycles=math.ceil(seconds * self.machine.accelerator.clock_hz - 1e-6),
            macs=operator.macs,
            work=dict(operator.work),
            utilisation=operator.macs / (peak * seconds) if peak and seconds else 0.0,
            energy_j=float(self.energy.by_operator[number]),
            dram_read_bytes=int(self.read[number]),
            dram_write_bytes=int(self.written[number]),
            link_bytes=int(self.moved[number]),
            input_bytes=operator.input_bytes,
            output_bytes=operator.output_bytes,
            bound_by=self._bound(one, number),
            recompute=op.recompute,
        )

    def _bound(self, one: Any, number: int) -> str:
        machine = self.machine
        per_byte = 8 / machine.accelerator.drams[0].bandwidth_bits_per_s / self.seconds
        if (self.read[number] + self.written[number]) * per_byte > self.longest[number]:
            return "dram"
        return str(one.costs[0].bound_by) if one.costs[0].bound_by != "dram" else "compute"

    def cores(self) -> tuple[r.CoreRow, ...]:
        """One row per core, its makespan split exactly by cause."""
        schedule, machine, makespan = self.schedule, self.machine, self.schedule.timed.makespan
        steps = schedule.expanded.steps
        rows = []
        macs = np.zeros(len(machine.accelerator.cores))
        for one in schedule.expanded.operators:
            for instance in one.instances:
                macs[machine.core_index[instance.name]] += one.operator.macs / len(one.instances)
        for number, instance in enumerate(machine.accelerator.cores):
            here = steps[:, d.CORE] == number
            parts = [int(value) for value in schedule.expanded.parts[here].sum(axis=0)]
            waits = [int(value) for value in schedule.timed.waits[number]]
            ticks = dict(zip(r.TIME_PARTS, [*parts, *waits], strict=False))
            ticks["idle"] = makespan - sum(ticks.values())
            busy, used = sum(parts), np.unique(steps[here, d.OPERATOR])
            peak = instance.core.units * instance.core.clock_hz * makespan * self.seconds
            rows.append(
                r.CoreRow(
                    name=instance.name,
                    template=instance.template,
                    kind=instance.core.kind.value,
                    clock_hz=instance.core.clock_hz,
                    busy_s=busy * self.seconds,
                    utilisation=float(macs[number] / peak) if peak else busy / makespan if makespan else 0.0,
                    macs=float(macs[number]),
                    energy_j=self.energy.by_core.get(instance.name, 0.0),
                    operators=len(used),
                    tiles=int(here.sum()),
                    time={name: value * self.seconds for name, value in ticks.items()},
                    time_ticks=ticks,
                )
            )
        return tuple(rows)

    def links(self) -> tuple[r.LinkRow, ...]:
        """One row per link direction and one for DRAM: bytes, busy time, energy."""
        machine = self.machine
        owner, rows = bookings_of(self.schedule.decided.nodes)
        bookings = self.schedule.decided.bookings[rows]
        resources = len(machine.resource_names)
        size = np.bincount(bookings[:, n.RESOURCE], self.bytes[owner], minlength=resources)
        busy = np.bincount(bookings[:, n.RESOURCE], bookings[:, n.TICKS], minlength=resources)
        makespan, table = max(1, self.schedule.timed.makespan), list[r.LinkRow]()
        dram = machine.accelerator.drams[0]
        described = {machine.dram_resource: ([dram.name], dram.bandwidth_bytes_per_s)}
        for link, pair in zip(machine.accelerator.links, machine.link_resources, strict=True):
            for backwards, number in enumerate(pair):
                ends = list(reversed(link.endpoints)) if backwards and pair[0] != pair[1] else list(link.endpoints)
                described[number] = described.get(number, (ends, link.bandwidth_bits_per_s / 8))
        for number in range(len(machine.accelerator.cores), resources):
            if number not in described:
                continue  # a port
            ends, bandwidth = described[number]
            table.append(
                r.LinkRow(
                    name=machine.resource_names[number],
                    endpoints=tuple(ends),
                    bytes=int(size[number]),
                    busy_s=float(busy[number] * self.seconds),
                    utilisation=float(busy[number] / makespan),
                    energy_j=float(self.energy.by_link[number]),
                    bandwidth_bytes_per_s=bandwidth,
                )
            )
        return tuple(table)

    def phases(self) -> dict[str, r.PhaseRow]:
        """One row per phase that has operators."""
        found: dict[str, r.PhaseRow] = {}
        for phase in Phase:
            mine = [one for one in self.workload.operators if one.op.phase is phase]
            if not mine:
                continue
            index = np.array([one.number for one in mine])
            found[phase.value] = r.PhaseRow(
                start_s=float(self.first[index].min() * self.seconds),
                end_s=float(self.last[index].max() * self.seconds),
                busy_s=float(self.busy[index].sum() * self.seconds),
                energy_j=float(self.energy.by_operator[index].sum()),
                dram_bytes=int(self.read[index].sum() + self.written[index].sum()),
                macs=sum(one.macs for one in mine),
                operators=len(mine),
            )
        return found

    def energy_breakdown(self, phases: Mapping[str, r.PhaseRow]) -> r.EnergyBreakdown:
        """Joules by level, core, phase and operator; each adds up to the total."""
        energy, static = self.energy, {"static": self.energy.static}
        names = [one.op.name for one in self.workload.operators]
        return r.EnergyBreakdown(
            static=energy.static,
            dynamic=energy.total - energy.static,
            by_level=energy.by_level,
            by_core=energy.by_core,
            by_phase={name: row.energy_j for name, row in phases.items()} | static,
            by_operator=dict(zip(names, map(float, energy.by_operator), strict=True)) | static,
        )

    # --- time ---------------------------------------------------------------------------------------------------------

    def timeline(self) -> r.Timeline:
        """Every booking of every node."""
        owner, places = bookings_of(self.schedule.decided.nodes)
        bookings = self.schedule.decided.bookings[places]
        real = (self.kind[owner] != n.JOIN) & (bookings[:, n.TICKS] > 0)
        owner, rows = owner[real], bookings[real]
        names = tuple(one.op.name for one in self.workload.operators)
        start = self.start[owner]
        return r.Timeline(
            self.machine.ticks_per_second,
            self.machine.resource_names,
            names,
            start,
            start + rows[:, n.TICKS],
            rows[:, n.RESOURCE],
            self.operator[owner],
            self.kind[owner],
        )

    def critical_path(self) -> tuple[r.CriticalStep, ...]:
        """The chain of waiting that ends with the last node; neighbours of one operator and resource are merged."""
        nodes, timed = self.schedule.decided.nodes, self.schedule.timed
        if not len(nodes):
            return ()
        causes, number, chain = timed.cause.tolist(), int(np.argmax(timed.end)), list[int]()
        while number >= 0:
            chain.append(number)
            number = causes[number]
        links = np.array(chain[::-1])  # earliest first
        links = links[self.kind[links] != n.JOIN]
        start = timed.start[links]
        until = np.append(np.minimum.accumulate(start[::-1])[::-1][1:], timed.makespan)
        took = until > start
        links, start, until = links[took], start[took], until[took]
        what = (self.operator[links], self._longest_booking(nodes[links]), self.kind[links])
        new = np.concatenate(([True], np.any([one[1:] != one[:-1] for one in what], axis=0)))[: len(links)]
        first = np.flatnonzero(new)
        last = np.append(first[1:], len(links))[: len(first)] - 1
        names, resources = [one.op.name for one in self.workload.operators], (*self.machine.resource_names, "")
        rows = (*(one[first] for one in what), start[first] * self.seconds, until[last] * self.seconds)
        return tuple(
            [
                r.CriticalStep(names[operator], resources[where], r.EVENT_KINDS[kind], begins, ends)
                for operator, where, kind, begins, ends in zip(*(row.tolist() for row in rows), strict=True)
            ]
        )

    def _longest_booking(self, nodes: Array) -> Array:
        """The resource that each node occupies longest, the first of equals; -1 if it occupies none."""
        owner, rows = bookings_of(nodes)
        bookings, found = self.schedule.decided.bookings[rows], np.full(len(nodes), -1, np.int64)
        order = np.lexsort((-bookings[:, n.TICKS], owner))  # stable: among equals the first stays first
        owners, first = np.unique(owner[order], return_index=True)
        found[owners] = bookings[order[first], n.RESOURCE]
        return found
