"""A synthetic but consistent Result: a real graph on a real accelerator under a toy schedule, of any number of tiles.

The toy has one core per operator, one DRAM queue and no residency: enough for every breakdown to add up and every
figure of a report to have something to show, without the scheduler.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from functools import cache
from typing import Any

import numpy as np

from monet.frontends import load_model
from monet.graph.counts import macs_of, work_of
from monet.graph.graph import Graph
from monet.graph.kind import Family, kind_named
from monet.graph.op import Op
from monet.graph.tensor import Role
from monet.hardware import Accelerator, CoreInstance, load_hardware
from monet.hardware.summary import hardware_summary
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, EVENT_KINDS, TIME_PARTS, Bounds, CriticalStep, MemoryTrace, Timeline
from monet.training import training_step

TICKS = 1e9
PICO = 1e-12
CATEGORY = {
    Role.PARAMETER: 0, Role.BUFFER: 0, Role.CONSTANT: 0, Role.ACTIVATION: 1, Role.INPUT: 1, Role.LABEL: 1,
    Role.GRADIENT: 2, Role.STATE: 3,
}  # fmt: skip


class Toy:
    """Fills a timeline operator by operator."""

    def __init__(self, graph: Graph, accelerator: Accelerator, tiles: int) -> None:
        self.graph, self.accelerator = graph, accelerator
        self.ops = [op for op in graph.ops if kind_named(op.kind).family is not Family.VIEW]
        self.tiles_per_op = max(1, round(tiles / (3 * len(self.ops))))
        self.dram = accelerator.drams[0].name
        self.resources = [one.name for one in accelerator.cores] + [one.name for one in accelerator.links] + [self.dram]
        self.free: Counter[str] = Counter()
        self.ready: Counter[str] = Counter()
        self.events: list[tuple[int, int, int, int, int]] = []
        self.parts: dict[str, Counter[str]] = defaultdict(Counter)
        self.rows: list[dict[str, Any]] = []
        self.moved: Counter[str] = Counter()
        self.spans: list[tuple[int, int]] = []
        for position, op in enumerate(self.ops):
            self.run(position, op)

    def core(self, position: int, op: Op) -> CoreInstance:
        wanted = macs_of(self.graph, op) > 0
        able = [one for one in self.accelerator.cores if bool(one.core.modes) == wanted] or list(self.accelerator.cores)
        return able[position % len(able)]

    def transfer(self, position: int, core: CoreInstance, amount: int, earliest: int, kind: str) -> int:
        drams = self.accelerator.drams[0]
        ends = (drams.name, core.endpoint) if kind == "read" else (core.endpoint, drams.name)
        route = [self.accelerator.links[index].name for index in self.accelerator.route(*ends)]
        begin = max([earliest] + [self.free[name] for name in (*route, self.dram)])
        end = begin + max(1, round(amount / drams.bandwidth_bytes_per_s * TICKS))
        for name in (*route, self.dram):
            self.free[name] = end
            self.moved[name] += amount
            self.events.append((begin, end, self.resources.index(name), position, EVENT_KINDS.index(kind)))
        return end

    def run(self, position: int, op: Op) -> None:
        core, macs = self.core(position, op), macs_of(self.graph, op)
        inputs = sum(self.graph.tensors[name].bytes for name in dict.fromkeys(op.inputs))
        outputs = sum(self.graph.tensors[name].bytes for name in op.outputs)
        work = sum(work_of(self.graph, op).values())
        rate = (core.core.units or core.core.lanes) * core.core.clock_hz * 0.6
        ticks = max(4, round((macs or work) / rate * TICKS / self.tiles_per_op))
        depends = max((self.ready[self.graph.tensors[name].storage] for name in op.inputs), default=0)
        first, begin = self.free[core.name], len(self.events)
        for _ in range(self.tiles_per_op):
            arrived = self.transfer(position, core, inputs // self.tiles_per_op + 64, depends, "read")
            start = max(self.free[core.name], arrived, depends)
            wait = start - self.free[core.name]
            self.parts[core.name]["waiting_for_dependency" if depends > first else "waiting_for_dram"] += wait
            useful, under, stall = (round(ticks * share) for share in (0.6, 0.22, 0.1))
            shares = (useful, under, stall, ticks - useful - under - stall)
            for part, share in zip(TIME_PARTS[:4], shares, strict=True):
                self.parts[core.name][part] += share
            self.events.append((start, start + ticks, self.resources.index(core.name), position, 0))
            self.free[core.name] = start + ticks
            written = self.transfer(position, core, outputs // self.tiles_per_op + 64, start + ticks, "write")
        for name in op.outputs:
            self.ready[self.graph.tensors[name].storage] = written
        began = min(start for start, *_ in self.events[begin:])
        self.spans.append((began, written))
        bound = "dram" if (inputs + outputs) / 6.4e9 > ticks * self.tiles_per_op / TICKS else "compute"
        self.rows.append(self.row(op, core, macs, work, inputs, outputs, began, written, ticks, bound))

    def row(
        self, op: Op, core: CoreInstance, macs: int, work: int, inputs: int, outputs: int, start: int, end: int,
        ticks: int, bound: str,
    ) -> dict[str, Any]:  # fmt: skip
        busy, overhead = ticks * self.tiles_per_op / TICKS, 64 * self.tiles_per_op
        energy = 2 * macs * PICO + 0.4 * work * PICO + 8 * 8 * (inputs + outputs + 2 * overhead) * PICO
        return {
            "name": op.name, "kind": op.kind, "family": kind_named(op.kind).family.value, "phase": op.phase.value,
            "layer": op.layer, "group": len(self.rows) // 3, "cores": [core.name], "tiles": self.tiles_per_op,
            "start_s": start / TICKS, "end_s": end / TICKS, "latency_s": (end - start) / TICKS, "busy_s": busy,
            "cycles": round(busy * core.core.clock_hz), "macs": macs, "work": work, "utilisation": 0.6 if macs else 0.0,
            "energy_j": energy, "dram_read_bytes": inputs + overhead, "dram_write_bytes": outputs + overhead,
            "link_bytes": inputs + outputs + 2 * overhead, "input_bytes": inputs, "output_bytes": outputs,
            "bound_by": bound, "recompute": False,
        }  # fmt: skip


def _memory(toy: Toy, makespan: int) -> tuple[MemoryTrace, ...]:
    graph, changes = toy.graph, defaultdict(lambda: np.zeros(len(CATEGORIES), np.int64))
    last: dict[str, int] = {}
    for (_, end), op in zip(toy.spans, toy.ops, strict=True):
        for name in (*op.inputs, *op.outputs):
            last[graph.tensors[name].storage] = end
    roots = {tensor.storage for name, tensor in graph.tensors.items() if name not in graph.producer}
    for storage in roots:
        tensor = graph.tensors[storage]
        changes[0][CATEGORY[tensor.role]] += tensor.bytes
    for (start, _), op in zip(toy.spans, toy.ops, strict=True):
        for name in op.outputs:
            tensor = graph.tensors[name]
            if tensor.storage in roots or tensor.storage != name:
                continue
            category = CATEGORY[tensor.role]
            changes[start][category] += tensor.bytes
            changes[last[tensor.storage]][category] -= tensor.bytes
    traces = [_trace(toy, toy.dram, toy.accelerator.drams[0].capacity_bytes, changes)]
    for memory in toy.accelerator.memories[:6]:
        rng = np.random.default_rng(len(traces))
        time = np.unique(np.linspace(0, makespan * 0.97, 400).astype(np.int64))
        shape = rng.random((len(CATEGORIES), len(time))) * np.array([[4], [5], [2], [0.5], [1]]) / 13
        used = (shape * memory.size_bytes).astype(np.int64)
        steps = {int(t): np.diff(used, axis=1, prepend=0)[:, i] for i, t in enumerate(time)}
        traces.append(_trace(toy, memory.name, memory.size_bytes, steps))
    return tuple(traces)


def _trace(toy: Toy, name: str, capacity: int, changes: dict[int, Any]) -> MemoryTrace:
    time = np.array(sorted(changes), np.int64)
    used = np.cumsum(np.stack([changes[t] for t in time.tolist()], axis=1), axis=1)
    peak = int(used.sum(axis=0).argmax())
    at = int(time[peak])
    operator = next((op.name for (start, end), op in zip(toy.spans, toy.ops, strict=True) if start <= at < end), "")
    total = int(used[:, peak].sum())
    return MemoryTrace(name, capacity, time, used, total, at / TICKS, operator or toy.ops[-1].name)


def _cores(toy: Toy, makespan: int, energy: Counter[str]) -> tuple[dict[str, Any], ...]:
    rows = []
    for one in toy.accelerator.cores:
        parts = Counter(toy.parts[one.name])
        parts["idle"] += makespan - parts.total()
        mine = [row for row in toy.rows if one.name in row["cores"]]
        ticks = {part: parts[part] for part in TIME_PARTS}
        busy = sum(ticks[part] for part in TIME_PARTS[:4])
        rows.append({
            "name": one.name, "template": one.template, "kind": one.core.kind.value, "clock_hz": one.core.clock_hz,
            "busy_s": busy / TICKS, "utilisation": ticks["useful_compute"] / makespan,
            "macs": sum(row["macs"] for row in mine), "energy_j": energy[one.name], "operators": len(mine),
            "tiles": sum(row["tiles"] for row in mine), "time": {k: v / TICKS for k, v in ticks.items()},
            "time_ticks": ticks,
        })  # fmt: skip
    return tuple(rows)


def _links(toy: Toy, makespan: int) -> tuple[dict[str, Any], ...]:
    busy: Counter[str] = Counter()
    for start, end, resource, _, _ in toy.events:
        busy[toy.resources[resource]] += end - start
    ends = {link.name: (list(link.endpoints), link.bandwidth_bits_per_s / 8) for link in toy.accelerator.links}
    ends[toy.dram] = ([toy.dram], toy.accelerator.drams[0].bandwidth_bytes_per_s)
    return tuple(
        {
            "name": name, "endpoints": points, "bytes": toy.moved[name], "busy_s": busy[name] / TICKS,
            "utilisation": busy[name] / makespan, "energy_j": 0.0, "bandwidth_bytes_per_s": bandwidth,
        }
        for name, (points, bandwidth) in ends.items()
    )  # fmt: skip


def _energy(toy: Toy, static: float) -> dict[str, Any]:
    levels = {
        "compute": sum(2 * row["macs"] + 0.4 * row["work"] for row in toy.rows) * PICO,
        "sram": sum(0.25 * 64 * (row["dram_read_bytes"] + row["dram_write_bytes"]) for row in toy.rows) * PICO,
        toy.dram: sum(0.75 * 64 * (row["dram_read_bytes"] + row["dram_write_bytes"]) for row in toy.rows) * PICO,
        "static": static,
    }
    table: dict[str, Counter[str]] = {"by_core": Counter(), "by_phase": Counter(), "by_operator": Counter()}
    for row in toy.rows:
        table["by_core"][row["cores"][0]] += row["energy_j"]
        table["by_phase"][row["phase"]] += row["energy_j"]
        table["by_operator"][row["name"]] += row["energy_j"]
    for one in table.values():
        one["static"] += static
    dynamic = sum(levels.values()) - static
    return {"static": static, "dynamic": dynamic, "by_level": levels} | {k: dict(v) for k, v in table.items()}


def _phases(toy: Toy, energy: dict[str, Any]) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(row["phase"] for row in toy.rows):
        rows = [row for row in toy.rows if row["phase"] == name]
        table[name] = {
            "start_s": min(row["start_s"] for row in rows), "end_s": max(row["end_s"] for row in rows),
            "busy_s": sum(row["busy_s"] for row in rows), "energy_j": energy["by_phase"][name],
            "dram_bytes": sum(row["dram_read_bytes"] + row["dram_write_bytes"] for row in rows),
            "macs": sum(row["macs"] for row in rows), "operators": len(rows),
        }  # fmt: skip
    return table


def build(graph: Graph, accelerator: Accelerator, tiles: int = 2000, batch: int = 1) -> Result:
    toy = Toy(graph, accelerator, tiles)
    makespan = max(end for _, end, *_ in toy.events)
    latency = makespan / TICKS
    energy = _energy(toy, 0.05 * latency)
    memory = _memory(toy, makespan)
    events = np.array(sorted(toy.events), np.int64).T
    macs = sum(row["macs"] for row in toy.rows)
    peak = sum(one.core.units * one.core.clock_hz for one in accelerator.cores)
    moved = {
        "read": sum(row["dram_read_bytes"] for row in toy.rows),
        "write": sum(row["dram_write_bytes"] for row in toy.rows),
    }
    compulsory = (moved["read"] + moved["write"]) // 3
    path = tuple(
        CriticalStep(op.name, toy.resources[0], "compute", start / TICKS, end / TICKS)
        for (start, end), op in list(zip(toy.spans, toy.ops, strict=True))[::4]
    )
    dram = {name: int(value) for name, value in zip(CATEGORIES, _at_peak(memory[0]), strict=True)}
    return Result(
        model=graph.name, hardware=accelerator.name, mode="training", feasible=True, latency_s=latency,
        cycles=round(latency * accelerator.clock_hz), ticks=makespan, ticks_per_second=TICKS,
        throughput_per_s=batch / latency, batch=batch, energy_j=sum(energy["by_level"].values()),
        utilisation=macs / (peak * latency), energy_breakdown=energy,
        memory_peak_bytes={
            one.name: dict(zip(CATEGORIES, map(int, _at_peak(one)), strict=True)) | {"total": one.peak_bytes}
            for one in memory
        },
        dram_bytes=moved | {"total": sum(moved.values())}, phases=_phases(toy, energy),
        cores=_cores(toy, makespan, Counter(energy["by_core"])), links=_links(toy, makespan),
        operators=tuple(toy.rows), memory=memory,
        timeline=Timeline(TICKS, tuple(toy.resources), tuple(op.name for op in toy.ops), *events),
        bounds=Bounds(
            macs / peak, compulsory / accelerator.drams[0].bandwidth_bytes_per_s, latency / 4, sum(dram.values()) // 2,
            energy["by_level"]["compute"],
        ),
        critical_path=path, plan={"fusion": "none"}, hardware_summary=hardware_summary(accelerator),
        inputs={"model": graph.name, "hardware": accelerator.name}, version="0.1.0", seconds_to_evaluate=0.1,
    )  # fmt: skip


def _at_peak(trace: MemoryTrace) -> Any:
    return trace.bytes[:, int(trace.bytes.sum(axis=0).argmax())]


@cache
def synthetic(model: str = "resnet18", hardware: str = "edge-tpu", tiles: int = 2000, **options: int) -> Result:
    """A result of a zoo model on a preset with about ``tiles`` tiles and transfers."""
    graph = training_step(load_model(model, batch=1, **options), optimizer="adam")
    return build(graph, load_hardware(hardware), tiles)


def infeasible() -> Result:
    from monet.schedule.result_rows import Infeasible

    whole = synthetic("mlp-cartpole", "tpu-like", 60)
    reason = Infeasible("fc", "core", "sram", 123_456, "fc does not fit core: 123,456 B short in sram")
    return dataclasses.replace(whole, feasible=False, reason=reason, latency_s=0.0, cycles=0)
