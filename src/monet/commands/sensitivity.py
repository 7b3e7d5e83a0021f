"""Which single hardware parameter would help most: every one doubled in turn, the whole step evaluated again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from monet.errors import MonetError
from monet.hardware.description import CoreModel, Description, StorageModel
from monet.request import Request
from monet.schedule.result import Result

FACTOR = 2


@dataclass(frozen=True, slots=True)
class Change:
    """One parameter set to another value."""

    path: str
    before: float
    after: float
    what: str  # what the parameter is, in words


@dataclass(frozen=True, slots=True)
class Effect:
    """What a change does. Ratios are new over old: below one is less. ``reason`` says why there are none."""

    change: Change
    latency: float | None = None
    energy: float | None = None
    area: float | None = None
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "parameter": self.change.path,
            "what": self.change.what,
            "before": self.change.before,
            "after": self.change.after,
            "latency_ratio": self.latency,
            "energy_ratio": self.energy,
            "area_ratio": self.area,
            "reason": self.reason,
        }


def _doubled(path: str, value: float, what: str) -> Change:
    return Change(path, value, value * FACTOR, what)


def _storage(path: str, storage: StorageModel, what: str) -> Iterator[Change]:
    if storage.size_bytes:
        yield _doubled(f"{path}.size_bytes", storage.size_bytes, f"size of {what}")
    if storage.bandwidth_bits_per_cycle:
        yield _doubled(f"{path}.bandwidth_bits_per_cycle", storage.bandwidth_bits_per_cycle, f"port width of {what}")


def _core(name: str, core: CoreModel) -> Iterator[Change]:
    path = f"cores.{name}"
    if core.mesh is not None:
        yield _doubled(f"{path}.mesh.x", core.mesh.x, f"columns of the {name} grid")
    elif core.count > 1:
        yield _doubled(f"{path}.count", core.count, f"copies of {name}")
    for axis, model in core.axes.items():
        yield _doubled(f"{path}.axes.{axis}.size", model.size, f"array axis {axis} of {name}")
    if core.vector is not None:
        yield _doubled(f"{path}.vector.lanes", core.vector.lanes, f"vector lanes of {name}")
    for level in core.memories:
        yield from _storage(f"{path}.memories.{level.name}", level, f"{level.name} of {name}")


def changes(description: Description) -> list[Change]:
    """Every parameter that can be doubled: clock, grids, arrays, lanes, memories, links, DRAM."""
    found = [_doubled("clock_hz", description.clock_hz, "clock")]
    for name, core in description.cores.items():
        found += _core(name, core)
    for name, memory in description.memories.items():
        found += _storage(f"memories.{name}", memory, name)
    for section in ("dram", "network"):
        for name, component in getattr(description, section).items():
            for field in ("bandwidth_bytes_per_s", "bandwidth_bits_per_cycle"):
                if value := getattr(component, field):
                    found.append(_doubled(f"{section}.{name}.{field}", value, f"bandwidth of {name}"))
    return found


def effects(request: Request, base: Result, step: Callable[[str], None] | None = None) -> list[Effect]:
    """Every change tried, largest gain in time first; those that cannot be evaluated last, with the reason."""
    graph, area = request.graph(), request.accelerator().area_m2
    found = []
    for change in changes(request.describe()):
        if step:
            step(change.path)
        try:
            changed = replace(request, set={change.path: change.after})
            result = changed.evaluate(graph)
            if not result.feasible:
                raise MonetError(result.reason.message if result.reason else "does not fit")
            ratio = changed.accelerator().area_m2 / area if area else 1.0
            found.append(Effect(change, result.latency_s / base.latency_s, result.energy_j / base.energy_j, ratio))
        except MonetError as error:
            found.append(Effect(change, reason=str(error).splitlines()[0]))
    return sorted(found, key=lambda effect: (effect.latency is None, effect.latency or 0.0, effect.change.path))
