"""DistributedResult: what one training step costs under a parallel plan on a system, with units in the names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from monet.display import Displayed
from monet.schedule.result_json import plain, restored
from monet.schedule.result_rows import Infeasible, MemoryPeak

Array = np.ndarray[Any, Any]
TASKS = ("forward", "backward", "weight gradients", "synchronisation and update")


@dataclass(frozen=True, slots=True)
class TimeRow:
    """Where the step's seconds go on a device, on the average over stages; the parts add up to the step."""

    compute: float = 0.0
    communication: Mapping[str, float] = field(default_factory=dict)  # that nothing hides, by group and kind
    bubble: float = 0.0  # waiting for other stages
    recomputation: float = 0.0
    update: float = 0.0
    host: float = 0.0  # waiting for a host that has issued nothing yet

    @property
    def total(self) -> float:
        """The step."""
        own = self.compute + self.recomputation + self.update + self.host
        return own + sum(self.communication.values()) + self.bubble


@dataclass(frozen=True, slots=True)
class StageRow:
    """One pipeline stage; all of its devices do the same."""

    number: int
    device: str
    devices: int
    blocks: int  # layers of its chunks
    forward_s: float  # of one micro-batch, all its chunks
    backward_s: float
    last_s: float  # the last backward pass with what is left of synchronisation, and the update
    busy_s: float
    bubble_s: float
    micro_batches_held: int  # most at a time, over all chunks
    peak_memory_bytes: MemoryPeak  # of one device
    capacity_bytes: int
    time: TimeRow
    host_memory_bytes: int = 0  # at the host, for one device


@dataclass(frozen=True, slots=True)
class CommunicationRow:
    """What goes over one level of the network for one kind of collective in one kind of group."""

    kind: str
    group: str
    level: str
    calls: float  # of one device in a step, on the average over stages
    bytes: float  # that one device sends in a step, on the average over stages
    total_bytes: float  # of all devices
    seconds: float  # on a device's port, hidden or not, on the average over stages
    exposed_s: float  # of these, those that nothing hides


@dataclass(frozen=True)
class PipelineChart:
    """Every pass as parallel arrays; times are nanoseconds. ``kind`` indexes ``TASKS``."""

    stage: Array
    chunk: Array
    micro_batch: Array
    kind: Array
    start: Array
    end: Array


@dataclass(frozen=True)
class StageMemory:
    """Bytes on a device of one stage over time (nanoseconds): what stays, activations held, what a pass works with."""

    stage: int
    time: Array
    stays: int
    activations: Array
    workspace: Array


@dataclass(frozen=True, kw_only=True, repr=False)
class DistributedResult(Displayed):
    """What one step costs on a system; nothing but the reason where a plan does not fit."""

    model: str
    system: str
    devices: int
    batch: int
    micro_batches: int
    parallel: Mapping[str, Any]  # the plan, all of its fields
    feasible: bool
    latency_s: float = 0.0
    throughput_per_s: float = 0.0  # samples per second
    mfu: float = 0.0  # share of the devices' peak that the model's own multiply-accumulates take
    hfu: float = 0.0  # with recomputation
    energy_j: float = 0.0  # of the whole system
    energy_by_level: Mapping[str, float] = field(
        default_factory=dict
    )  # static power and every network level among them
    device_hours: float = 0.0  # of one step
    time: TimeRow = field(default_factory=TimeRow)
    stages: tuple[StageRow, ...] = ()
    communication: tuple[CommunicationRow, ...] = ()
    chart: PipelineChart | None = None
    memory: tuple[StageMemory, ...] = ()
    matrix: tuple[tuple[float, ...], ...] = ()  # bytes in a step from stage to stage; its own on the diagonal
    inputs: Mapping[str, Any] = field(default_factory=dict)
    version: str = ""
    seconds_to_evaluate: float = 0.0
    reason: Infeasible | None = None
    notes: tuple[str, ...] = ()

    @property
    def power_w(self) -> float:
        """Average power of the whole system over the step."""
        return self.energy_j / self.latency_s if self.latency_s else 0.0

    @property
    def peak_memory_bytes(self) -> int:
        """Of the device that needs most."""
        return max((stage.peak_memory_bytes.total for stage in self.stages), default=0)

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``json.dumps``; nothing is lost."""
        return {**plain(self), "power_w": self.power_w}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> DistributedResult:
        """A result from ``to_json``'s dictionary; keys that this version does not know are left out."""
        return restored(cls, values)

    def report(self, path: str) -> None:
        """Write the HTML report: one file that works offline."""
        import_module("monet.report.html.distributed").write_distributed(self, path)  # reports are above this stage

    def __str__(self) -> str:
        return str(import_module("monet.report.distributed").text(self))
