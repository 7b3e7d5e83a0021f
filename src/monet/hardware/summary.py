"""What a report needs to draw an accelerator: ``Result.hardware_summary``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.drawing import peak_rates


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """One memory level of a core."""

    name: str
    operands: tuple[str, ...]
    bytes: int
    memory: str  # the shared memory that it is; empty for one of its own


@dataclass(frozen=True, slots=True)
class CoreSummary:
    """One core."""

    name: str
    template: str  # the entry of the description that it is a copy of
    kind: str  # matrix or vector
    clock_hz: float
    units: int  # multipliers of its array
    axes: Mapping[str, int]  # sizes of the array's axes
    lanes: int  # vector lanes
    position: tuple[int, ...]  # column and row in a grid; empty outside one
    endpoint: str  # where links reach it
    area_m2: float
    levels: tuple[LevelSummary, ...]  # lowest first


@dataclass(frozen=True, slots=True)
class MemorySummary:
    """One memory that the schedule fills: the top level of a core, or one that is shared."""

    name: str
    size_bytes: int
    cores: tuple[str, ...]  # that are attached to it
    shared: bool
    endpoint: str

    @property
    def private(self) -> bool:
        """Whether it belongs to one core."""
        return len(self.cores) == 1 and not self.shared


@dataclass(frozen=True, slots=True)
class LinkSummary:
    """One link or bus."""

    name: str
    endpoints: tuple[str, ...]
    bandwidth_bytes_per_s: float
    directed: bool
    hub: str  # a bus carries data only to and from here; empty for none


@dataclass(frozen=True, slots=True)
class DramSummary:
    """One DRAM."""

    name: str
    kind: str
    capacity_bytes: int
    bandwidth_bytes_per_s: float
    channels: int


@dataclass(frozen=True, slots=True)
class HardwareSummary:
    """An accelerator as a report shows it."""

    name: str
    node_nm: float
    clock_hz: float
    area_m2: float
    static_power_w: float
    peak_ops_per_s: Mapping[str, float]  # by element type, two per multiply-accumulate
    cores: tuple[CoreSummary, ...]
    memories: tuple[MemorySummary, ...]
    links: tuple[LinkSummary, ...]
    drams: tuple[DramSummary, ...]


def hardware_summary(accelerator: Accelerator) -> HardwareSummary:
    """Cores, memories, links and DRAM: sizes in bytes, rates per second, places in the grid."""
    return HardwareSummary(
        accelerator.name,
        accelerator.node_nm,
        accelerator.clock_hz,
        accelerator.area_m2,
        accelerator.static_power_w,
        peak_rates(accelerator),
        tuple(_core(one) for one in accelerator.cores),
        tuple(
            MemorySummary(one.name, one.size_bytes, tuple(one.cores), bool(one.level.memory), one.endpoint)
            for one in accelerator.memories
        ),
        tuple(
            LinkSummary(one.name, tuple(one.endpoints), one.bandwidth_bits_per_s / 8, one.directed, one.hub)
            for one in accelerator.links
        ),
        tuple(
            DramSummary(one.name, one.kind, one.capacity_bytes, one.bandwidth_bytes_per_s, one.channels)
            for one in accelerator.drams
        ),
    )


def _core(instance: CoreInstance) -> CoreSummary:
    core = instance.core
    return CoreSummary(
        instance.name,
        instance.template,
        core.kind.value,
        core.clock_hz,
        core.units,
        {axis.name: axis.size for axis in core.axes},
        core.lanes,
        tuple(instance.position),
        instance.endpoint,
        core.area_m2,
        tuple(LevelSummary(one.name, tuple(one.operands), one.total_bytes, one.memory) for one in core.levels),
    )
