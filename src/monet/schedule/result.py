"""Result: everything measured from one schedule, with units in the names, and the inputs that give it again.

Times inside arrays are integer ticks (``ticks_per_second`` of them make a second); headline figures are in seconds,
joules and bytes. A breakdown adds up to its total. ``to_json`` and ``from_json`` are each other's inverse.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

CATEGORIES = ("weights", "activations", "gradients", "optimizer_state", "workspace")

# Where a core's time goes; the parts add up to the makespan exactly.
TIME_PARTS = (
    "useful_compute",  # every multiplier or lane has work
    "spatial_under_use",  # some of them have none
    "inner_port_stall",  # the array waits for a memory port at or below the border
    "fill_and_switch",  # first operands in, last results out, dispatch, change of mode
    "waiting_for_dram",
    "waiting_for_link",
    "waiting_for_dependency",
    "waiting_for_space",
    "idle",  # nothing left to do, or nothing placed here yet
)

EVENT_KINDS = ("compute", "read", "write", "move", "evict")


@dataclass(frozen=True)
class Infeasible:
    """Why there is no schedule: what does not fit where, by how much."""

    operator: str
    core: str
    level: str
    bytes_short: int
    message: str


@dataclass(frozen=True)
class Timeline:
    """Every tile and transfer as five parallel arrays; names are looked up in ``resources`` and ``operators``.

    A transfer that books several resources appears once per resource. ``kind`` indexes ``EVENT_KINDS``.
    """

    ticks_per_second: float
    resources: tuple[str, ...]
    operators: tuple[str, ...]
    start: Array
    end: Array
    resource: Array
    operator: Array
    kind: Array

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class MemoryTrace:
    """Bytes in one memory over time. ``bytes[c, i]`` of category ``CATEGORIES[c]`` from ``time[i]`` (ticks) on."""

    name: str
    capacity_bytes: int
    time: Array
    bytes: Array
    peak_bytes: int
    peak_time_s: float
    peak_operator: str  # the operator that was starting when the peak was reached


@dataclass(frozen=True)
class Bounds:
    """Lower bounds. All but the critical path hold for every plan; that one is of the plan at hand."""

    compute_s: float  # work over the peak of all cores that can do it
    dram_s: float  # compulsory bytes over the bandwidth
    critical_path_s: float  # longest chain of this plan's own steps and transfers, were nothing shared
    memory_bytes: int  # what is in DRAM before the step begins
    energy_j: float = 0.0  # work at its cheapest and compulsory off-chip bytes; 0 where it is not known

    @property
    def latency_s(self) -> float:
        """The stronger of the two that hold for every plan."""
        return max(self.compute_s, self.dram_s)


class CriticalStep(NamedTuple):
    """One link of the chain that sets the makespan, in order of time; neighbours of one operator are merged."""

    operator: str
    resource: str
    kind: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Result:
    """What one step costs.

    ``energy_breakdown``: ``static`` and ``dynamic``; and ``by_level``, ``by_core``, ``by_phase``, ``by_operator``, each
    of which adds up to ``energy_j`` (static energy is an entry ``static`` of its own). ``memory_peak_bytes``: memory →
    category → bytes at the moment of the peak, with their ``total``. ``dram_bytes``: ``read``, ``write``, ``total``.
    ``phases``: phase → start_s, end_s, busy_s, energy_j, dram_bytes, macs, operators. ``cores``, ``links`` and
    ``operators`` are tables: one dictionary per row, the same keys in every row.

    ``cores`` rows: name, template, kind, clock_hz, busy_s, utilisation, macs, energy_j, operators, tiles, time (parts
    in seconds, names of ``TIME_PARTS``), time_ticks (the same in ticks, adding up to ``ticks`` exactly).
    ``links`` rows: name, endpoints, bytes, busy_s, utilisation, energy_j, bandwidth_bytes_per_s (DRAM is a row too).
    ``operators`` rows: name, kind, family, phase, layer, group, cores, split, tiles, start_s, end_s, latency_s, busy_s,
    cycles, macs, work, utilisation, energy_j, dram_read_bytes, dram_write_bytes, link_bytes, input_bytes,
    output_bytes, bound_by, recompute.
    """

    model: str
    hardware: str
    mode: str  # "training" or "inference"
    feasible: bool
    latency_s: float
    cycles: int  # of the accelerator's own clock
    ticks: int
    ticks_per_second: float
    throughput_per_s: float  # samples per second
    batch: int
    energy_j: float
    utilisation: float  # multiply-accumulates done over what all arrays could do in this time
    energy_breakdown: Mapping[str, Any]
    memory_peak_bytes: Mapping[str, Mapping[str, int]]
    dram_bytes: Mapping[str, int]
    phases: Mapping[str, Mapping[str, Any]]
    cores: tuple[Mapping[str, Any], ...]
    links: tuple[Mapping[str, Any], ...]
    operators: tuple[Mapping[str, Any], ...]
    memory: tuple[MemoryTrace, ...]
    timeline: Timeline
    bounds: Bounds
    critical_path: tuple[CriticalStep, ...]
    plan: Mapping[str, Any]
    hardware_summary: Mapping[str, Any]  # for drawing: cores, memories, links, drams
    inputs: Mapping[str, Any]  # model, options, hardware, plan: what ``rerun`` needs
    version: str
    seconds_to_evaluate: float
    reason: Infeasible | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def peak_memory_bytes(self) -> Mapping[str, Mapping[str, int]]:
        """The same as ``memory_peak_bytes``."""
        return self.memory_peak_bytes

    @property
    def gap(self) -> dict[str, float]:
        """Measured over bound, at least one: latency, and DRAM peak."""
        dram = self.hardware_summary.get("drams", [{}])[0].get("name", "")
        peak = self.memory_peak_bytes.get(dram, {}).get("total", 0)
        return {
            "latency": self.latency_s / self.bounds.latency_s if self.bounds.latency_s else 1.0,
            "memory": peak / self.bounds.memory_bytes if self.bounds.memory_bytes else 1.0,
        }

    @property
    def power_w(self) -> float:
        """Average power over the step."""
        return self.energy_j / self.latency_s if self.latency_s else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``json.dumps``; nothing is lost."""
        values = {one.name: _plain(getattr(self, one.name)) for one in fields(self)}
        return {**values, "gap": self.gap}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Result:
        """A result from ``to_json``'s dictionary; keys that this version does not know are left out."""
        known = {one.name: values[one.name] for one in fields(cls) if one.name in values}
        known["timeline"] = _timeline(known["timeline"])
        known["memory"] = tuple(_trace(one) for one in known["memory"])
        known["bounds"] = Bounds(**_fields(Bounds, known["bounds"]))
        known["critical_path"] = tuple(
            CriticalStep(**{name: one[name] for name in CriticalStep._fields}) for one in known["critical_path"]
        )
        known["reason"] = Infeasible(**_fields(Infeasible, known["reason"])) if known.get("reason") else None
        for name in ("cores", "links", "operators", "notes"):
            known[name] = tuple(known.get(name, ()))
        return cls(**known)

    def report(self, path: str) -> None:
        """Write the HTML report: one file that works offline."""
        import_module("monet.report.html").write_html(self, path)  # reports are above this stage

    def __str__(self) -> str:
        from monet.schedule.measurement.result_text import format_result  # printing is needed only here

        return format_result(self)

    def __repr__(self) -> str:
        state = f"{self.latency_s:.4g} s, {self.energy_j:.4g} J" if self.feasible else "infeasible"
        return f"<Result {self.model} on {self.hardware}: {state}>"

    def _repr_html_(self) -> str:
        return f"<pre style='line-height:1.25'>{html.escape(str(self))}</pre>"


# --- plain values -----------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, CriticalStep):
        return value._asdict()
    if isinstance(value, Timeline | MemoryTrace | Bounds | Infeasible):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value


def _fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name: values[one.name] for one in fields(kind) if one.name in values}


def _timeline(values: Mapping[str, Any]) -> Timeline:
    return Timeline(
        values["ticks_per_second"],
        tuple(values["resources"]),
        tuple(values["operators"]),
        *(np.array(values[name], np.int64) for name in ("start", "end", "resource", "operator", "kind")),
    )


def _trace(values: Mapping[str, Any]) -> MemoryTrace:
    found = _fields(MemoryTrace, values)
    found["time"] = np.array(values["time"], np.int64)
    found["bytes"] = np.array(values["bytes"], np.int64).reshape(len(CATEGORIES), -1)
    return MemoryTrace(**found)
