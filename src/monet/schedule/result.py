"""Result: everything measured from one schedule, with units in the names, and the inputs that give it again.

Times inside arrays are integer ticks (``ticks_per_second`` of them make a second); headline figures are in seconds,
joules and bytes. A breakdown adds up to its total. ``to_json`` and ``from_json`` are each other's inverse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from monet.display import Displayed
from monet.hardware.summary import HardwareSummary
from monet.schedule import result_rows as rows
from monet.schedule.result_json import plain, restored


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Displayed):
    """What one step costs; nothing, where there is no schedule. What the rows hold stands in ``result_rows``."""

    model: str
    hardware: str
    mode: str  # "training" or "inference"
    feasible: bool
    latency_s: float = 0.0
    cycles: int = 0  # of the accelerator's own clock
    ticks: int = 0
    ticks_per_second: float
    throughput_per_s: float = 0.0  # samples per second
    batch: int
    energy_j: float = 0.0
    utilisation: float = 0.0  # share of all arrays' unit-cycles that multiply, at the rates of the operators' formats
    energy_breakdown: rows.EnergyBreakdown = field(default_factory=rows.EnergyBreakdown)
    memory_peak_bytes: Mapping[str, rows.MemoryPeak] = field(default_factory=dict)  # by memory
    dram_bytes: rows.DramBytes = field(default_factory=rows.DramBytes)
    phases: Mapping[str, rows.PhaseRow] = field(default_factory=dict)  # by name, in order of time
    cores: tuple[rows.CoreRow, ...] = ()
    links: tuple[rows.LinkRow, ...] = ()  # DRAM is a row too
    operators: Sequence[rows.OperatorRow] = ()  # in execution order
    copies: tuple[rows.CopyRow, ...] = ()  # of operands, in formats that share scales
    memory: tuple[rows.MemoryTrace, ...] = ()  # DRAM first
    timeline: rows.Timeline
    bounds: rows.Bounds = field(default_factory=rows.Bounds)  # of every plan
    longest_chain_s: float = 0.0  # of this plan: its own steps and transfers, were nothing shared
    critical_path: Sequence[rows.CriticalStep] = ()
    plan: Mapping[str, Any]
    hardware_summary: HardwareSummary  # for drawing
    inputs: Mapping[str, Any]  # model, options, hardware, plan: what ``rerun`` needs
    version: str
    seconds_to_evaluate: float
    reason: rows.Infeasible | None = None
    notes: tuple[str, ...] = ()

    @property
    def peak_memory_bytes(self) -> Mapping[str, rows.MemoryPeak]:
        """The same as ``memory_peak_bytes``."""
        return self.memory_peak_bytes

    @property
    def dram_peak_bytes(self) -> int:
        """What is in DRAM at its fullest moment, in each of several at its own."""
        peaks = (self.memory_peak_bytes.get(dram.name) for dram in self.hardware_summary.drams)
        return sum(peak.total for peak in peaks if peak)

    @property
    def gap(self) -> dict[str, float]:
        """Measured over bound, at least one: latency, and DRAM peak."""
        bounds = self.bounds
        return {
            "latency": self.latency_s / bounds.latency_s if bounds.latency_s else 1.0,
            "memory": self.dram_peak_bytes / bounds.memory_bytes if bounds.memory_bytes else 1.0,
        }

    @property
    def power_w(self) -> float:
        """Average power over the step."""
        return self.energy_j / self.latency_s if self.latency_s else 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``json.dumps``; nothing is lost."""
        return {**plain(self), "gap": self.gap}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Result:
        """A result from ``to_json``'s dictionary; keys that this version does not know are left out."""
        older = values.get("bounds", {}).get("critical_path_s")  # where it stood before
        return restored(cls, values if older is None else {"longest_chain_s": older, **values})

    def report(self, path: str) -> None:
        """Write the HTML report: one file that works offline."""
        import_module("monet.report.html").write_html(self, path)  # reports are above this stage

    def __str__(self) -> str:
        return str(import_module("monet.report.text").format_result(self))
