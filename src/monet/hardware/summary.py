"""What a report needs to draw an accelerator: ``Result.hardware_summary``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from monet.hardware.accelerator import Accelerator, Endpoint
from monet.hardware.core import Core
from monet.hardware.drawing import peak_rates
from monet.hardware.export import field_names
from monet.hardware.ports import BOUNDLESS

Summary = TypeVar("Summary")


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
class EndpointSummary:
    """Something outside of the chip, and the port to it."""

    name: str
    kind: str  # host or network
    bandwidth_bytes_per_s: float
    latency_s: float
    capacity_bytes: int  # of the memory behind it; 0 if it is not said, or there is none
    place: str  # where the port is: at DRAM, or where links reach it


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
    endpoints: tuple[EndpointSummary, ...] = ()


def hardware_summary(accelerator: Accelerator) -> HardwareSummary:
    """Cores, memories, links and DRAM: sizes in bytes, rates per second, places in the grid."""
    memories, links = accelerator.memories, accelerator.links
    designs = {name: _design(core) for name, core in accelerator.designs.items()}
    return _copied(
        HardwareSummary,
        accelerator,
        peak_ops_per_s=peak_rates(accelerator),
        cores=tuple(_copied(CoreSummary, each, **designs[each.template]) for each in accelerator.cores),
        memories=tuple(_copied(MemorySummary, memory, shared=bool(memory.level.memory)) for memory in memories),
        links=tuple(_copied(LinkSummary, link, bandwidth_bytes_per_s=link.bandwidth_bits_per_s / 8) for link in links),
        drams=tuple(_copied(DramSummary, dram) for dram in accelerator.drams),
        endpoints=tuple(_endpoint(endpoint) for endpoint in accelerator.endpoints),
    )


def _endpoint(endpoint: Endpoint) -> EndpointSummary:
    size = 0 if endpoint.capacity_bytes == BOUNDLESS else endpoint.capacity_bytes
    return _copied(EndpointSummary, endpoint, capacity_bytes=size)


def _design(core: Core) -> dict[str, Any]:
    """What the summaries of all cores of a template have in common."""
    levels = tuple(_copied(LevelSummary, level, bytes=level.total_bytes) for level in core.levels)
    of_core = {"kind": core.kind.value, "clock_hz": core.clock_hz, "units": core.units, "lanes": core.lanes}
    return of_core | {"axes": {axis.name: axis.size for axis in core.axes}, "area_m2": core.area_m2, "levels": levels}


def _copied(made: Callable[..., Summary], source: object, /, **others: Any) -> Summary:
    """A summary with the attributes of ``source``, but for ``others``."""
    return made(**{name: others[name] if name in others else getattr(source, name) for name in field_names(made)})
