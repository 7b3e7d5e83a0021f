"""What is mined for: a cost to make small, over one workload or the weighted geometric mean of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64
from monet.errors import MonetError, nearest

# name → objective of a space that ranks designs the same way
METRICS = {"throughput": "latency", "throughput-per-tdp": "tdp-energy", "edp": "edp"}
FIGURES = {"latency": "latency_s", "tdp-energy": "tdp_energy_j", "edp": "edp_js"}


@dataclass(frozen=True, slots=True)
class Metric:
    """A goal by name, with the weights of the workloads, in their order."""

    name: str
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.name not in METRICS:
            raise MonetError(f"--metric {self.name!r}: {nearest(self.name, METRICS)}")

    @property
    def objective(self) -> str:
        """The objective of a space that is this cost."""
        return METRICS[self.name]

    @property
    def shares(self) -> F64:
        """Weights of the workloads, one in all."""
        return np.array(self.weights) / sum(self.weights)

    def cost(self, latency_s: F64, watts: F64, energy_j: F64) -> F64:
        """Cost of designs from seconds and joules by workload (first axis) and watts at full use."""
        shares = self.shares
        mean = np.exp(np.tensordot(shares, np.log(latency_s), 1))
        if self.name == "throughput":
            return np.asarray(mean)
        if self.name == "throughput-per-tdp":
            return np.asarray(mean * watts)
        return np.asarray(mean * np.exp(np.tensordot(shares, np.log(energy_j), 1)))

    def of_record(self, metrics: Mapping[str, float], workloads: Sequence[str]) -> float:
        """The same of an evaluated design."""
        figure = FIGURES[self.objective]
        found = np.log([metrics[f"{name}.{figure}"] for name in workloads])
        return float(np.exp(np.dot(self.weights, found) / sum(self.weights)))
