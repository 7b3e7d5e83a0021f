"""Rows of graphs, results, plans and outcomes of searches as a pandas DataFrame: exact values, units in the names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from monet.errors import MonetError, nearest
from monet.graph.counts import macs_of
from monet.schedule.result_rows import CATEGORIES

Rows = list[dict[str, Any]]


def dataframe(value: object, what: str = "") -> Any:
    """A DataFrame of the rows of a value: its usual table, or the one that ``what`` names."""
    tables = TABLES[type(value).__name__]
    name = what or next(iter(tables))
    if name not in tables:
        raise MonetError(f"to_dataframe({what!r}): {type(value).__name__} has no such table; {nearest(what, tables)}")
    try:
        import pandas
    except ImportError:
        raise MonetError("to_dataframe needs pandas: pip install 'monet-train[pandas]'") from None
    return pandas.DataFrame(tables[name](value))


def _plain(row: Any) -> dict[str, Any]:
    """The fields of a row that are single values; names joined, work added up."""
    found: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, tuple) and all(isinstance(part, str) for part in value):
            found[field.name] = " ".join(value)
        elif isinstance(value, Mapping):
            found[field.name] = sum(value.values())
        elif isinstance(value, str | int | float | bool):
            found[field.name] = value
    return found


def _memory(result: Any) -> Rows:
    return [
        {"memory": trace.name, "capacity_bytes": trace.capacity_bytes, "peak_bytes": trace.peak_bytes}
        | {"peak_time_s": trace.peak_time_s, "peak_operator": trace.peak_operator}
        | {f"{category}_bytes": trace.at_peak[category] for category in CATEGORIES}
        for trace in result.memory
    ]


def _bytes(peak: Any) -> dict[str, int]:
    return {f"{name}_bytes": getattr(peak, name) for name in (*CATEGORIES, "total")}


def _timeline(result: Any) -> Rows:
    timeline, second = result.timeline, result.ticks_per_second
    columns = (timeline.resource, timeline.start, timeline.end, timeline.operator)
    return [
        {"resource": timeline.resources[resource], "operator": timeline.operators[operator] if operator >= 0 else "",
         "start_s": start / second, "end_s": end / second}
        for resource, start, end, operator in zip(*(column.tolist() for column in columns), strict=True)
    ]  # fmt: skip


def _operators(graph: Any) -> Rows:
    return [
        {"operator": op.name, "kind": op.kind, "phase": op.phase.value, "layer": op.layer, "macs": macs_of(graph, op),
         "read_bytes": sum(graph.tensors[name].bytes for name in op.inputs),
         "written_bytes": sum(graph.tensors[name].bytes for name in op.outputs)}
        for op in graph.ops
    ]  # fmt: skip


def _tensors(graph: Any) -> Rows:
    names = ("name", "shape", "dtype", "bytes")
    return [
        {name: getattr(tensor, name) for name in names} | {"role": tensor.role.value}
        for tensor in graph.tensors.values()
    ]


def _cores(accelerator: Any) -> Rows:
    return [
        {"core": instance.name, "template": instance.template, "kind": instance.core.kind.value,
         "multipliers": instance.core.units, "lanes": instance.core.lanes, "clock_hz": instance.core.clock_hz,
         "area_m2": instance.core.area_m2}
        for instance in accelerator.cores
    ]  # fmt: skip


def _plan(plan: Any) -> Rows:
    group = {name: number for number, fused in enumerate(plan.groups, 1) for name in fused.operators}
    cores = {name: " ".join(placement.cores) for name, placement in plan.placements.items()}
    names = dict.fromkeys((*cores, *group))
    return [{"operator": name, "group": group.get(name, 0), "cores": cores.get(name, "")} for name in names]


def _named(name: str, figures: Any) -> dict[str, Any]:
    return {"plan": name, **_plain(figures)}


def _point(point: Any) -> dict[str, Any]:
    return {**asdict(point.figures), "recompute_over_forward": point.work_share}


def _exploration(found: Any) -> Rows:
    return [
        {**record.values, "status": record.status, "reason": record.reason, **record.metrics}
        for record in found.records
    ]


TABLES: dict[str, dict[str, Callable[[Any], Rows]]] = {
    "Graph": {"operators": _operators, "tensors": _tensors},
    "Accelerator": {"cores": _cores},
    "Result": {
        "operators": lambda result: [_plain(row) for row in result.operators],
        "phases": lambda result: [{"phase": name, **_plain(row)} for name, row in result.phases.items()],
        "cores": lambda result: [_plain(row) for row in result.cores],
        "links": lambda result: [_plain(row) for row in result.links],
        "memory": _memory,
        "timeline": _timeline,
    },
    "DistributedResult": {
        "stages": lambda result: [{**_plain(row), **_bytes(row.peak_memory_bytes)} for row in result.stages],
        "communication": lambda result: [_plain(row) for row in result.communication],
    },
    "Plan": {"operators": _plan},
    "CheckpointPlan": {
        "storages": lambda plan: [{"storage": name, "choice": choice} for name, choice in plan.choices.items()]
    },
    "FoundFusion": {"plans": lambda found: [_named(name, cost) for name, (_, cost) in found.plans.items()]},
    "Allocation": {
        "plans": lambda found: [_named(one.name, one.figures) for one in (*found.constructive, found.found)],
        "front": lambda found: [_named(one.name, one.figures) for one in found.front],
    },
    "ScheduledFront": {"front": lambda front: [_point(point) for point in front.front]},
    "Outcome": {"storages": lambda outcome: TABLES["CheckpointPlan"]["storages"](outcome.plan)},
    "Exploration": {"points": _exploration},
}  # fmt: skip
