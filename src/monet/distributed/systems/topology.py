"""Where a group of ranks lies on the levels of a network, and what share of a port its traffic can use there."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

TOPOLOGIES = {"switch": 1, "fully_connected": 1, "ring": 1, "torus_2d": 2, "torus_3d": 3}  # and their dimensions
ALGORITHMS = ("ring", "tree", "halving_doubling", "direct")


@dataclass(frozen=True, slots=True)
class NetworkLevel:
    """One level of a network; ``efficiency`` holds (bytes, share) by rising size."""

    name: str
    extents: tuple[int, ...]
    topology: str
    bandwidth_bytes_per_s: float  # of one member, each direction
    device_bandwidth_bytes_per_s: float  # that a device gets at most
    latency_s: float
    launch_s: float
    efficiency: tuple[tuple[float, float], ...]
    energy_j_per_bit: float
    takes_compute: float
    algorithms: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many members it has."""
        return math.prod(self.extents)

    def share(self, sent_bytes: float) -> float:
        """What of the bandwidth is achieved when a device sends this much."""
        table = self.efficiency
        if not table:
            return 1.0
        if sent_bytes <= table[0][0]:
            return table[0][1]
        for (small, low), (large, high) in pairwise(table):
            if sent_bytes <= large:
                return low + (high - low) * math.log(sent_bytes / small) / math.log(large / small)
        return table[-1][1]


@dataclass(frozen=True, slots=True)
class Span:
    """A group on one level: its members along each dimension, how far apart they are, and what a device may send.

    ``below``: devices of the group inside one member, which share what the group has of its port.
    """

    level: NetworkLevel
    members: tuple[int, ...]
    steps: tuple[int, ...]
    device_bandwidth_bytes_per_s: float
    below: int

    @property
    def count(self) -> int:
        """Members of the group on this level."""
        return math.prod(self.members)

    def dimension_shares(self) -> tuple[tuple[int, float], ...]:
        """(members, share of the port) of each dimension with more than one member, for traffic between neighbours.

        A torus has a pair of links along each dimension; a ring that is not closed uses one of its two directions for
        the way back. Groups that lie between each other's members share links.
        """
        level, found = self.level, []
        for members, step, extent in zip(self.members, self.steps, level.extents, strict=True):
            if members == 1:
                continue
            if level.topology == "switch":
                share = 1.0
            elif level.topology == "fully_connected":
                share = (members - 1) / (extent - 1)
            else:
                closed = members * step >= extent
                share = (1.0 if closed else 0.5) / len(level.extents) / step
            found.append((members, share))
        return tuple(found)

    def hops(self) -> float:
        """Links between neighbours of the group, on the average over dimensions that it has."""
        if self.level.topology in ("switch", "fully_connected"):
            return 1.0
        used = [step for members, step in zip(self.members, self.steps, strict=True) if members > 1]
        return sum(used) / len(used) if used else 1.0


def spans(levels: tuple[NetworkLevel, ...], stride: int, members: int, devices: int) -> tuple[Span, ...]:
    """Where ``members`` ranks lie that are ``stride`` apart, in a system of which ``devices`` are used.

    Ranks fill a level before the next. All devices below a port are taken to use it at the same time, as they do where
    all run the same program. What does not divide lies on as many members as it touches.
    """
    found, inside, group_inside = [], 1, 1
    for level in levels:
        active = max(1, min(inside, devices))
        bandwidth = min(level.device_bandwidth_bytes_per_s, level.bandwidth_bytes_per_s / active)
        counts, steps, below = [], [], group_inside
        for extent in level.extents:
            if stride >= extent:
                counts.append(1)
                steps.append(1)
                stride = -(-stride // extent)
            else:
                here = min(members, max(1, extent // stride))
                counts.append(here)
                steps.append(stride)
                members, stride = -(-members // here), 1
            group_inside *= counts[-1]
            inside *= extent
        found.append(Span(level, tuple(counts), tuple(steps), bandwidth, below))
    return tuple(found)
