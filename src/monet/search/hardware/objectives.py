"""What a point is judged by: figures of the design itself, of each workload, and means over workloads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from monet.errors import MonetError, nearest
from monet.hardware.accelerator import Accelerator
from monet.hardware.drawing import peak_rates, si
from monet.hardware.power import full_use_power_w

# figures that need no evaluation
HARDWARE_FIGURES = {
    "area_mm2": "chip area, DRAM not included",
    "peak_tops": "peak 10¹² operations per second at the fastest element type; peak_tops_bf16 for one type",
    "static_power_w": "leakage, clock, interfaces and DRAM standby",
    "full_use_power_w": "every unit, memory, link and DRAM busy at once",
    "on_chip_mib": "all memories of the chip",
    "macs": "multiply-accumulate units",
    "cores": "cores of any kind",
    "dram_gb_per_s": "off-chip bandwidth",
}
# figures of one workload; without a workload's name, their geometric mean (memory: the largest)
WORKLOAD_FIGURES = {
    "latency_s": "of one step",
    "energy_j": "of one step",
    "edp_js": "energy × latency",
    "tdp_energy_j": "power at full use × latency",
    "power_w": "average, energy ÷ latency",
    "dram_bytes": "moved to and from DRAM in one step",
    "memory_bytes": "in DRAM at the fullest moment",
    "gradient_error": "of one executed step against fp32, over all gradients; only where a space asks for it",
}
EXECUTED = "gradient_error"  # takes a run of the step in NumPy
OBJECTIVES = {
    "latency": "latency_s",
    "energy": "energy_j",
    "edp": "edp_js",
    "tdp-energy": "tdp_energy_j",
    "memory": "memory_bytes",
    "area": "area_mm2",
    "gradient_error": "gradient_error",
}
UNITS = {
    "gradient_error": "",
    "latency_s": "s",
    "energy_j": "J",
    "edp_js": "J·s",
    "tdp_energy_j": "J",
    "memory_bytes": "B",
    "area_mm2": "mm²",
}


@dataclass(frozen=True, slots=True)
class Objective:
    """A figure to make small, over some workloads (none for area)."""

    text: str
    figure: str
    workloads: tuple[str, ...]

    def value(self, metrics: Mapping[str, float], weights: Mapping[str, float]) -> float:
        """The figure of a point: one workload's, or the weighted geometric mean over several."""
        if not self.workloads:
            return metrics[self.figure]
        if any(not metrics[f"{name}.{self.figure}"] for name in self.workloads):
            return 0.0
        whole = math.fsum(weights.get(name, 1.0) for name in self.workloads)
        logs = (weights.get(name, 1.0) * math.log(metrics[f"{name}.{self.figure}"]) for name in self.workloads)
        return math.exp(math.fsum(logs) / whole) if len(self.workloads) > 1 else metrics[self._only]

    @property
    def _only(self) -> str:
        return f"{self.workloads[0]}.{self.figure}"

    @property
    def unit(self) -> str:
        """Unit of the figure."""
        return UNITS[self.figure]


def parse_objective(text: str, modes: Mapping[str, str]) -> Objective:
    """``latency`` (over all workloads), ``training.latency`` (over those of a mode) or ``gpt.latency`` (of one)."""
    scope, _, name = text.rpartition(".")
    if name not in OBJECTIVES:
        raise MonetError(f"objective {text!r}: no figure {name!r}; {nearest(name, OBJECTIVES)}")
    if name == "area":
        if scope:
            raise MonetError(f"objective {text!r}: area is that of the chip, whatever runs on it; write area")
        return Objective(text, OBJECTIVES[name], ())
    scopes = [*modes, *dict.fromkeys(modes.values())]
    if scope and scope not in scopes:
        raise MonetError(f"objective {text!r}: no workload or mode {scope!r}; {nearest(scope, scopes)}")
    named = scope if scope in modes else ""
    chosen = tuple(name for name, mode in modes.items() if named == name or (not named and scope in ("", mode)))
    if OBJECTIVES[name] == EXECUTED and any(modes[workload] == "inference" for workload in chosen):
        raise MonetError(f"objective {text!r}: inference has no gradients; write training.{name}")
    return Objective(text, OBJECTIVES[name], chosen)


def shown(objective: Objective, value: float) -> str:
    """A value of an objective with its unit: ``12.3 ms``, ``41.2 mm²``; an error as a share."""
    if objective.figure == EXECUTED:
        return f"{100 * value:.3g} %"
    return f"{value:.1f} mm²" if objective.figure == "area_mm2" else si(value, objective.unit)


def hardware_figures(accelerator: Accelerator) -> dict[str, float]:
    """What is known of a design before anything runs on it."""
    peaks = {dtype: rate / 1e12 for dtype, rate in peak_rates(accelerator).items()}
    return {
        "area_mm2": accelerator.area_m2 * 1e6,
        "peak_tops": max(peaks.values(), default=0.0),
        **{f"peak_tops_{dtype}": rate for dtype, rate in peaks.items()},
        "static_power_w": accelerator.static_power_w,
        "full_use_power_w": full_use_power_w(accelerator),
        "on_chip_mib": accelerator.on_chip_bytes / 2**20,
        "macs": sum(instance.core.units for instance in accelerator.cores),
        "cores": len(accelerator.cores),
        "dram_gb_per_s": accelerator.dram.bandwidth_bytes_per_s / 1e9,
    }


def means(metrics: Mapping[str, float], weights: Mapping[str, float]) -> dict[str, float]:
    """Figures over all workloads: geometric means, and the largest memory."""
    found = {}
    for figure in WORKLOAD_FIGURES:
        if any(f"{name}.{figure}" not in metrics for name in weights):
            continue
        each = [metrics[f"{name}.{figure}"] for name in weights]
        if figure == "memory_bytes":
            found[figure] = max(each)
        elif min(each) > 0:
            logs = math.fsum(weight * math.log(value) for weight, value in zip(weights.values(), each, strict=True))
            found[figure] = math.exp(logs / math.fsum(weights.values()))
        else:
            found[figure] = 0.0
    return found
