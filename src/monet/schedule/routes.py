"""Routes of a machine: the links, ports and channels between all its memories, as the arrays that kernels read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monet.arrays import I64, U8
from monet.hardware.errors import HardwareError
from monet.hardware.hierarchy import next_endpoint
from monet.mapping.cost_store import Section
from monet.schedule.simulation.records import Routes

if TYPE_CHECKING:
    from monet.schedule.machine import Machine

MOST_MEMORIES = 1200  # every pair of them has a route


@dataclass(frozen=True)
class _Paths:
    """The links between all pairs of memories, whatever their bandwidth. A hop over a link (after the links come DRAM
    and the ports of memories) belongs to a pair, and to a slot: a resource of that pair, which two hops may share."""

    pointer: I64
    resource: I64
    exists: U8
    pair: I64
    link: I64
    slot: I64

    @classmethod
    def of(cls, machine: Machine, ends: tuple[str, ...]) -> _Paths:
        pointer, resource, exists = [0], list[int](), list[bool]()
        hops: list[tuple[int, int, int]] = []
        for pair in range(len(ends) ** 2):
            path = _path(machine, *divmod(pair, len(ends)), ends)
            exists.append(path is not None)
            slots: dict[int, int] = {}
            for link, number in path or ():
                hops.append((pair, link, slots.setdefault(number, len(resource) + len(slots))))
            resource += list(slots)
            pointer.append(len(resource))
        table = np.array(hops, np.int64).reshape(-1, 3)
        return cls(
            np.array(pointer, np.int64), np.array(resource, np.int64), np.array(exists, np.uint8), *table.T.copy()
        )


PATHS = Section[_Paths]("ways between memories", 1000)


def routes_of(machine: Machine) -> Routes:
    """Routes between all memories. Pairs without a way are marked; data then goes through DRAM."""
    if len(machine.capacity) > MOST_MEMORIES:
        raise HardwareError(
            f"{machine.accelerator.name}: {len(machine.capacity):,} memories are each on their own, at most "
            f"{MOST_MEMORIES:,} are scheduled: like cores count as one if each has memories of its own and the "
            "same wires to everything else (docs/clusters.md)"
        )
    accelerator, count, dram = machine.folded, len(machine.capacity), machine.accelerator.dram
    wires = tuple((link.endpoints, link.directed, link.hub) for link in accelerator.links)
    ends = (dram.name, *(memory.endpoint for memory in machine.memories))
    levels = tuple((machine.memory_index[memory.name], machine.level_resources(memory)) for memory in machine.levels)
    key = (
        wires, ends, machine.first_outside, machine.link_resources, machine.port_resources.tobytes(), levels,
        tuple(_seconds(machine)),
    )  # fmt: skip
    paths = machine.store[PATHS].get_or(key, lambda: _Paths.of(machine, ends))
    links = accelerator.links
    ports = range(len(machine.memories))
    pace = np.array(
        [8 / link.bandwidth_bits_per_s for link in links]
        + [8 / dram.bandwidth_bits_per_s]
        + [_port_s_per_byte(machine, number) for number in ports]
        + [8 / memory.port_bits_per_s(is_write=is_write) for memory in machine.levels for is_write in (False, True)]
    )
    lag = np.zeros(len(pace))
    lag[: len(links) + 1] = [*(link.latency_s for link in links), dram.latency_s]
    seconds = np.bincount(paths.pair, lag[paths.link], minlength=count * count)
    return Routes(
        paths.pointer,
        paths.resource,
        np.asarray(
            np.bincount(paths.slot, pace[paths.link], len(paths.resource)) * machine.ticks_per_second, np.float64
        ),
        np.ceil(seconds * machine.ticks_per_second - 1e-6).astype(np.int64),
        paths.exists,
        machine.port_resources,
        machine.parents,
        machine.spread,
        machine.members,
        np.array([0, *(memory.is_cache for memory in machine.memories)], np.uint8),
        max(len(machine.chain(memory.name)) for memory in accelerator.memories),
        machine.first_outside,
        machine.dram_resource,
        dram.burst_bytes,
        np.array([size for size, _ in dram.efficiency], np.int64),
        np.array([size / share for size, share in dram.efficiency], np.float64),
    )


def _port_s_per_byte(machine: Machine, number: int) -> float:
    """Seconds that a byte takes at the narrowest port of a memory, in a copy to another one beside it."""
    memory = machine.memories[number]
    clock = min((machine.accelerator.instance(name).core.clock_hz for name in memory.cores), default=1.0)
    widths = [port.bandwidth_bits_per_cycle for port in memory.level.ports]
    return 8 / (min(widths, default=1) * memory.level.instances * clock)


def _path(machine: Machine, source: int, target: int, ends: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """(link, resource) of every hop from one memory to another, DRAM first; None if there is no way."""
    accelerator = machine.folded
    if source == target:
        return _path_between(machine, source, ends)
    found = [(len(accelerator.links), machine.dram_resource)] if 0 in (source, target) else []
    try:
        path = accelerator.route(ends[source], ends[target])
    except HardwareError:
        return None
    found += _hops(machine, path, ends[source], ends[target])
    if not found and max(source, target) >= machine.first_outside:  # no wires between them: over DRAM
        return None
    if not found:  # from one memory of a core to another
        first = len(accelerator.links)  # DRAM; ports come after it
        found = [(first + number, int(machine.port_resources[number])) for number in (source, target)]
    return found + _level_hops(machine, source, target)


def _seconds(machine: Machine) -> dict[int, str]:
    """Memory of a cluster → where its like of the second core lies."""
    return {
        machine.memory_index[name]: cluster.cores[1].endpoint
        for cluster in machine.clusters
        for name in cluster.memories[0]
    }


def _path_between(machine: Machine, memory: int, ends: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """(link, resource) of every hop from the memory of a core to that of another of its cluster."""
    second = _seconds(machine).get(memory)
    if second is None:
        return None
    try:
        path = machine.folded.route(ends[memory], second)
    except HardwareError:
        return None
    return _hops(machine, path, ends[memory], second)


def _hops(machine: Machine, path: tuple[int, ...], here: str, target: str) -> list[tuple[int, int]]:
    """(link, resource) of every hop of a path."""
    found = list[tuple[int, int]]()
    for index in path:
        link = machine.folded.links[index]
        there = next_endpoint(machine.folded, index, here, target)
        forward = link.is_bus or link.endpoints.index(here) < link.endpoints.index(there)
        found.append((index, machine.link_resources[index][0 if forward else 1]))
        here = there
    return found


def _level_hops(machine: Machine, source: int, target: int) -> list[tuple[int, int]]:
    """The ports of shared levels at the two ends of a route; they come after the ports of other memories."""
    first, names = len(machine.folded.links) + 1 + len(machine.memories), list(machine.memory_index)
    return [
        (first + 2 * number + is_write, machine.level_resources(memory)[is_write])
        for number, memory in enumerate(machine.levels)
        for is_write, end in enumerate((source, target))
        if names[end] == memory.name
    ]
