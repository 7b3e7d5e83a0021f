"""Several DRAMs as one memory: which of them data is spread over, and in what shares.

Data lies in a *place*: one or more DRAMs that it is interleaved over, each with a share of its bytes in proportion to
what it and its wires move per second, so that all of them are done at the same time. A DRAM joins a place if that lets
all cores fetch a tile sooner: equal stacks do; a slow or far memory, whose latency every transfer would wait for, does
not. Where one of a place is full before the others, what comes after it may lie on the others; and every DRAM is a
place by itself. Which storage lies where is the scheduler's (``schedule.dram_places``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from monet.hardware.accelerator import Accelerator, CoreInstance, Dram

MOST_CORES = 64  # that are looked at, evenly spread over all

Shares = tuple[float, ...]  # by DRAM, one in all


def together(drams: Sequence[Dram]) -> Dram:
    """All DRAMs as one: what they hold, move and draw together; energy and latency of the best of them."""
    if len(drams) == 1:
        return drams[0]
    bandwidth = math.fsum(dram.bandwidth_bits_per_s for dram in drams)
    achieved = math.fsum(dram.bandwidth_bits_per_s * dram.achievable for dram in drams) / bandwidth
    kinds = dict.fromkeys(dram.kind for dram in drams)
    return Dram(
        name=" + ".join(dram.name for dram in drams),
        kind=" + ".join(kinds),
        capacity_bytes=sum(dram.capacity_bytes for dram in drams),
        channels=sum(dram.channels for dram in drams),
        bandwidth_bits_per_s=bandwidth,
        latency_s=min(dram.latency_s for dram in drams),
        burst_bytes=max(dram.burst_bytes for dram in drams),
        read_energy_j_per_bit=min(dram.read_energy_j_per_bit for dram in drams),
        write_energy_j_per_bit=min(dram.write_energy_j_per_bit for dram in drams),
        static_power_w=math.fsum(dram.static_power_w for dram in drams),
        efficiency=((1, achieved),) if any(dram.efficiency for dram in drams) else (),
        parts=tuple(drams),
    )


def with_places(accelerator: Accelerator) -> Accelerator:
    """An accelerator that knows where data lies in its DRAMs."""
    if len(accelerator.drams) == 1:
        return accelerator
    count = len(accelerator.drams)
    alone = [tuple(float(number == one) for number in range(count)) for one in range(count)]
    return replace(accelerator, dram_places=tuple(dict.fromkeys((*_places(accelerator), *alone))))


def _places(accelerator: Accelerator) -> Iterator[Shares]:
    """Places of several, or of what none joins: the fastest first."""
    seconds = {(number,): _tile_s(accelerator, (number,)) for number in range(len(accelerator.drams))}
    left = [number for (number,) in sorted(seconds, key=lambda one: (seconds[one], one))]
    while left:
        members = [left.pop(0)]
        best = seconds[members[0],]
        for number in tuple(left):
            with_it = _tile_s(accelerator, (*members, number))
            if with_it < best:
                best = with_it
                members.append(number)
                left.remove(number)
        yield from _as_they_fill(accelerator, members)


def _as_they_fill(accelerator: Accelerator, members: list[int]) -> Iterator[Shares]:
    """The shares of some DRAMs, then those of the ones that are not full when others are."""
    rates = {number: rate_bits_per_s(accelerator, accelerator.drams[number]) for number in members}
    lasts = {number: accelerator.drams[number].capacity_bytes / rates[number] for number in members}
    for until in sorted(set(lasts.values())):
        yield _shares(accelerator, {number: rates[number] for number in members if lasts[number] >= until})


def _shares(accelerator: Accelerator, rates: dict[int, float]) -> Shares:
    whole = math.fsum(rates.values())
    return tuple(rates.get(number, 0.0) / whole for number in range(len(accelerator.drams)))


def rate_bits_per_s(accelerator: Accelerator, dram: Dram) -> float:
    """What large transfers get from a DRAM and over all its wires."""
    wires = [link.bandwidth_bits_per_s for link in accelerator.links if dram.name in link.endpoints]
    achieved = dram.bandwidth_bits_per_s * dram.achievable
    return min(achieved, math.fsum(wires)) if wires else achieved


def _tile_s(accelerator: Accelerator, members: Iterable[int]) -> float:
    """Seconds until every core has a tile, half of the largest memory it works in, from some DRAMs together: latency,
    and the busiest of them or of the links in between."""
    drams = accelerator.drams
    shares = _shares(accelerator, {number: rate_bits_per_s(accelerator, drams[number]) for number in members})
    cores = accelerator.cores[:: max(1, -(-len(accelerator.cores) // MOST_CORES))]
    loads, latency, moved = dict[int, float](), 0.0, 0.0
    for core in cores:
        size = 4 * _largest(accelerator, core)
        moved += size
        lags = [0.0]
        for dram, share in zip(drams, shares, strict=True):
            if share:
                route = accelerator.route(core.endpoint, dram.name)
                lags.append(dram.latency_s + math.fsum(accelerator.links[index].latency_s for index in route))
                for index in route:
                    loads[index] = loads.get(index, 0.0) + share * size
        latency += max(lags) / len(cores)
    busy = [bits / accelerator.links[index].bandwidth_bits_per_s for index, bits in loads.items()]
    busy += [
        moved * share / dram.bandwidth_bits_per_s / dram.achievable for dram, share in zip(drams, shares, strict=True)
    ]
    return latency + max(busy)


def _largest(accelerator: Accelerator, core: CoreInstance) -> int:
    """Bytes of the largest memory that a core works in."""
    return max((core.core.top(slot).total_bytes for slot, _ in core.memories), default=1)


def ways(accelerator: Accelerator, end: str, *, back: bool = False) -> list[tuple[Dram, float, tuple[int, ...]]]:
    """Each DRAM of the fastest place: its share of what passes between DRAM and an endpoint, and the links it takes."""
    shares = accelerator.dram_places[0]
    pairs = [(dram, share) for dram, share in zip(accelerator.drams, shares, strict=True) if share]
    return [
        (dram, share, accelerator.route(*((end, dram.name) if back else (dram.name, end)))) for dram, share in pairs
    ]


def place_lines(accelerator: Accelerator) -> list[str]:
    """Where data may lie if there are several DRAMs."""
    if len(accelerator.drams) == 1:
        return []
    places = [
        " + ".join(f"{share:.0%} {dram.name}" for dram, share in zip(accelerator.drams, shares, strict=True) if share)
        for shares in accelerator.dram_places
    ]
    where = ", or ".join(places).replace("100% ", "")
    return [f"data lies on {where}: where the cores that use it have it soonest and there is room"]
