"""Seconds that links and buses take at least: what crosses every border between DRAM and the cores.

A border separates DRAM, and buffers next to it, from all cores. What a core computes with comes over it, unless it was
made or kept behind it; so at least that crosses it which memories behind it cannot keep, and all of that shares the
links that the border cuts: a bus is cut once, whatever hangs on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from monet.hardware.accelerator import Accelerator, Link
from monet.schedule.costs.transfer_cost import endpoint_of, transfer_seconds
from monet.schedule.lower_bound.traffic import LeastTraffic
from monet.schedule.workload import Workload


class Border(NamedTuple):
    """What a border leaves behind it, and bits per second over the links that it cuts."""

    kept_bytes: int  # that memories behind it hold
    inward: float
    outward: float
    together: float


def borders(accelerator: Accelerator) -> Iterator[Border]:
    """All borders that are looked at."""
    for outside in _borders(accelerator):
        rates = _rates([link for link in accelerator.links if _cuts(link, outside)], outside)
        kept = sum(memory.size_bytes for memory in accelerator.memories if memory.endpoint not in outside)
        yield Border(kept, *rates)


def links_bound_s(traffic: LeastTraffic, accelerator: Accelerator) -> float:
    """The strongest border."""
    best = 0.0
    for border in borders(accelerator):
        read, written = traffic.over(border.kept_bytes)
        for size, rate in ((read, border.inward), (written, border.outward), (read + written, border.together)):
            best = max(best, 8 * size / rate if rate else 0.0)
    return best


def endpoints_bound_s(workload: Workload, accelerator: Accelerator) -> float:
    """Seconds that transfers take at the busiest port to what is outside of the chip: one after another."""
    busy: dict[str, float] = {}
    for operator in workload.operators if workload.has_transfers else ():
        if operator.is_transfer:
            endpoint = endpoint_of(operator, accelerator)
            busy[endpoint.name] = busy.get(endpoint.name, 0.0) + transfer_seconds(operator, endpoint)
    return max(busy.values(), default=0.0)


def cheapest_link_j_per_byte(accelerator: Accelerator) -> float:
    """Joules of a byte on any link of DRAM's; 0 if something hangs on DRAM without one."""
    outside = frozenset(dram.name for dram in accelerator.drams)
    if _beside(accelerator, outside):
        return 0.0
    return 8 * min((link.energy_j_per_bit for link in accelerator.links if _cuts(link, outside)), default=0.0)


def _borders(accelerator: Accelerator) -> Iterator[frozenset[str]]:
    """Sets of endpoints on DRAM's side, smallest first: DRAM, then buffers one link further each time."""
    cores = {instance.endpoint for instance in accelerator.cores}
    cores |= {memory.endpoint for memory in accelerator.memories if memory.cores}
    outside = frozenset(dram.name for dram in accelerator.drams)
    while not _beside(accelerator, outside):
        yield outside
        near = {end for link in accelerator.links if _cuts(link, outside) for end in link.endpoints} - cores
        if near <= outside:
            return
        outside |= near


def _beside(accelerator: Accelerator, outside: frozenset[str]) -> bool:
    """Whether a core computes on DRAM's side."""
    return any(instance.endpoint in outside for instance in accelerator.cores)


def _cuts(link: Link, outside: frozenset[str]) -> bool:
    return any(end in outside for end in link.endpoints) and any(end not in outside for end in link.endpoints)


def _rates(links: list[Link], outside: frozenset[str]) -> tuple[float, float, float]:
    """Bits per second over some links towards the cores, away from them, and both together."""
    inward = outward = together = 0.0
    for link in links:
        rate = link.bandwidth_bits_per_s
        shared = link.is_bus or link.shared_directions
        leads_in = shared or not link.directed or link.endpoints[0] in outside
        leads_out = shared or not link.directed or link.endpoints[0] not in outside
        inward, outward = inward + rate * leads_in, outward + rate * leads_out
        together += rate if shared or link.directed else 2 * rate
    return inward, outward, together
