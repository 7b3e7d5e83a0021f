"""Routes of a machine: the links, ports and channels between all its memories, as the arrays that kernels read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monet.arrays import F64, I64, U8
from monet.hardware.errors import HardwareError
from monet.hardware.network import Hop
from monet.mapping.cost_store import Section
from monet.schedule.simulation.records import Routes

if TYPE_CHECKING:
    from monet.schedule.machine import Machine

MOST_MEMORIES = 1200  # every pair of them has a route


@dataclass(frozen=True)
class _Paths:
    """The links between all pairs of memories, whatever their bandwidth; then between every further place in DRAM and
    all memories, there and back. A hop over a link (after the links come DRAMs and the ports of memories) belongs to a
    pair, to a slot (a resource of that pair, which two hops may share), and to the way of one of the DRAMs, which has a
    share of the bytes."""

    pointer: I64
    resource: I64
    exists: U8
    pair: I64
    link: I64
    slot: I64
    way: I64
    share: F64

    @classmethod
    def of(cls, machine: Machine, ends: tuple[str, ...]) -> _Paths:
        pointer, resource, exists = [0], list[int](), list[bool]()
        hops, shares = list[tuple[int, int, int, int]](), list[float]()
        for pair, (source, target, place) in enumerate(pairs_of(machine)):
            path = _ways(machine, source, target, ends, place)
            exists.append(path is not None)
            slots: dict[int, int] = {}
            for way, share, link, number in path or ():
                hops.append((pair, link, slots.setdefault(number, len(resource) + len(slots)), way))
                shares.append(share)
            resource += list(slots)
            pointer.append(len(resource))
        of_pair, over, slot, by = np.array(hops, np.int64).reshape(-1, 4).T.copy()
        ends_of = np.array(pointer, np.int64), np.array(resource, np.int64), np.array(exists, np.uint8)
        return cls(*ends_of, of_pair, over, slot, by, np.array(shares, np.float64))


PATHS = Section[_Paths]("ways between memories", 1000)


def pairs_of(machine: Machine) -> Iterator[tuple[int, int, int]]:
    """(source, target, place in DRAM) of every route, in their order (``nodes.between``)."""
    memories = range(len(machine.capacity))
    yield from ((source, target, 0) for source in memories for target in memories)
    for place in range(1, len(machine.accelerator.dram_places)):
        yield from ((0, memory, place) for memory in memories)
        yield from ((memory, 0, place) for memory in memories)


def routes_of(machine: Machine) -> Routes:
    """Routes between all memories. Pairs without a way are marked; data then goes through DRAM."""
    if len(machine.capacity) > MOST_MEMORIES:
        raise HardwareError(
            f"{machine.accelerator.name}: {len(machine.capacity):,} memories are each on their own, at most "
            f"{MOST_MEMORIES:,} are scheduled: like cores count as one if each has memories of its own and the "
            "same wires to everything else (docs/clusters.md)"
        )
    accelerator, drams, places = machine.folded, machine.accelerator.drams, machine.accelerator.dram_places
    wires = tuple((link.endpoints, link.directed, link.hub) for link in accelerator.links)
    ends = ("", *(memory.endpoint for memory in machine.memories))
    levels = tuple((machine.memory_index[memory.name], machine.level_resources(memory)) for memory in machine.levels)
    key = (
        wires, tuple(dram.name for dram in drams), places, ends, machine.first_outside, machine.link_resources,
        machine.port_resources.tobytes(), levels, tuple(_seconds(machine)),
    )  # fmt: skip
    paths = machine.store[PATHS].get_or(key, lambda: _Paths.of(machine, ends))
    links, first = accelerator.links, len(accelerator.links)
    ports = range(len(machine.memories))
    pace = np.array(
        [8 / link.bandwidth_bits_per_s for link in links]
        + [8 / dram.bandwidth_bits_per_s for dram in drams]
        + [_port_s_per_byte(machine, number) for number in ports]
        + [8 / memory.port_bits_per_s(is_write=is_write) for memory in machine.levels for is_write in (False, True)]
    )
    lag = np.zeros(len(pace))
    lag[: first + len(drams)] = [*(link.latency_s for link in links), *(dram.latency_s for dram in drams)]
    seconds = np.bincount(paths.pair * len(drams) + paths.way, lag[paths.link], len(paths.exists) * len(drams))
    at_dram = (paths.link >= first) & (paths.link < first + len(drams))
    size = len(paths.resource)
    return Routes(
        paths.pointer,
        paths.resource,
        np.asarray(
            np.bincount(paths.slot, pace[paths.link] * np.where(at_dram, 1.0, paths.share), size)
            * machine.ticks_per_second,
            np.float64,
        ),
        np.bincount(paths.slot, paths.share, size).astype(np.float64),
        np.ceil(seconds.reshape(-1, len(drams)).max(axis=1) * machine.ticks_per_second - 1e-6).astype(np.int64),
        paths.exists,
        machine.port_resources,
        machine.parents,
        machine.spread,
        machine.members,
        np.array([0, *(memory.is_cache for memory in machine.memories)], np.uint8),
        max(len(machine.chain(memory.name)) for memory in accelerator.memories),
        machine.first_outside,
        len(places),
        machine.dram_resource,
        np.array([max(each.burst_bytes for each, share in zip(drams, place, strict=True) if share)
                  for place in places], np.int64),
        np.cumsum([0, *(len(dram.efficiency) for dram in drams)]),
        np.array([size for dram in drams for size, _ in dram.efficiency], np.int64),
        np.array([size / share for dram in drams for size, share in dram.efficiency], np.float64),
    )  # fmt: skip


def _port_s_per_byte(machine: Machine, number: int) -> float:
    """Seconds that a byte takes at the narrowest port of a memory, in a copy to another one beside it."""
    memory = machine.memories[number]
    clock = min((machine.accelerator.instance(name).core.clock_hz for name in memory.cores), default=1.0)
    widths = [port.bandwidth_bits_per_cycle for port in memory.level.ports]
    return 8 / (min(widths, default=1) * memory.level.instances * clock)


def _ways(
    machine: Machine, source: int, target: int, ends: tuple[str, ...], place: int
) -> list[tuple[int, float, int, int]] | None:
    """(DRAM, its share, link, resource) of every hop from one memory to another, from or to a place in DRAM by the ways
    of all DRAMs there; None if there is none."""
    if 0 not in (source, target) or source == target:
        path = _path(machine, source, target, ends)
        return None if path is None else [(0, 1.0, *hop) for hop in path]
    found, first = list[tuple[int, float, int, int]](), len(machine.folded.links)
    for number, share in enumerate(machine.accelerator.dram_places[place]):
        if share:
            there = (machine.accelerator.drams[number].name, *ends[1:])
            path = _path(machine, source, target, there)
            if path is None:
                return None
            path = [(first + number, machine.dram_resource + number), *path]
            found += [(number, share, *hop) for hop in path]
    return found


def _path(machine: Machine, source: int, target: int, ends: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """(link, resource) of every hop from one memory to another, but for DRAM itself; None if there is no way."""
    accelerator = machine.folded
    if source == target:
        return _path_between(machine, source, ends)
    try:
        path = accelerator.hops(ends[source], ends[target])
    except HardwareError:
        return None
    found = _hops(machine, path, ends[source])
    if 0 not in (source, target) and not found:
        if max(source, target) >= machine.first_outside:  # no wires between them: over DRAM
            return None
        first = len(accelerator.links) + len(accelerator.drams)  # ports come after them
        found = [(first + number - 1, int(machine.port_resources[number])) for number in (source, target)]
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
        path = machine.folded.hops(ends[memory], second)
    except HardwareError:
        return None
    return _hops(machine, path, ends[memory])


def _hops(machine: Machine, path: tuple[Hop, ...], here: str) -> list[tuple[int, int]]:
    """(link, resource) of every hop of a path."""
    found = list[tuple[int, int]]()
    for index, there in path:
        link = machine.folded.links[index]
        forward = link.is_bus or link.endpoints.index(here) < link.endpoints.index(there)
        found.append((index, machine.link_resources[index][0 if forward else 1]))
        here = there
    return found


def _level_hops(machine: Machine, source: int, target: int) -> list[tuple[int, int]]:
    """The ports of shared levels at the two ends of a route; they come after the ports of other memories."""
    first = len(machine.folded.links) + len(machine.folded.drams) + len(machine.memories)
    names = list(machine.memory_index)
    return [
        (first + 2 * number + is_write, machine.level_resources(memory)[is_write])
        for number, memory in enumerate(machine.levels)
        for is_write, end in enumerate((source, target))
        if names[end] == memory.name
    ]
