"""Which links join which endpoints, and the ways over them: the same for all accelerators that are wired alike,
whatever their bandwidths."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple


class Hop(NamedTuple):
    """One link of a route, and the endpoint that it leads to."""

    link: int
    there: str


class Wire(NamedTuple):
    """What routes depend on of a link."""

    endpoints: tuple[str, ...]
    directed: bool
    hub: str

    def leads(self, source: str, target: str) -> bool:
        """Whether data may go from ``source`` to ``target`` over this link."""
        if source == target or source not in self.endpoints or target not in self.endpoints:
            return False
        if self.hub and self.hub not in (source, target):
            return False
        return not self.directed or self.endpoints.index(source) < self.endpoints.index(target)


@dataclass(frozen=True)
class Network:
    """Links by number, and endpoints that nothing passes through."""

    wires: tuple[Wire, ...]
    ends: frozenset[str]

    def hops(self, source: str, target: str) -> tuple[Hop, ...] | None:
        """The way from one endpoint to another: fewest hops, then lowest link at each hop; None if there is none."""
        if (source, target) not in self._known:
            self._known[source, target] = self._find(source, target)
        return self._known[source, target]

    def _find(self, source: str, target: str) -> tuple[Hop, ...] | None:
        if target not in self._distances:
            self._distances[target] = self._distances_to(target)
        distance = self._distances[target]
        if source not in distance:
            return None
        path: list[Hop] = []
        while source != target:
            nearer = (hop for hop in self._neighbours[source]
                      if distance.get(hop.there, math.inf) == distance[source] - 1)  # fmt: skip
            path.append(min(nearer))
            source = path[-1].there
        return tuple(path)

    @cached_property
    def _known(self) -> dict[tuple[str, str], tuple[Hop, ...] | None]:
        return {}

    @cached_property
    def _distances(self) -> dict[str, dict[str, int]]:
        """Target → hops from every endpoint, filled as routes are asked for."""
        return {}

    @cached_property
    def _neighbours(self) -> dict[str, list[Hop]]:
        """Endpoint → endpoints one hop away, in link order."""
        table: dict[str, list[Hop]] = {}
        for index, wire in enumerate(self.wires):
            for source in wire.endpoints:
                through_hub = wire.hub and source != wire.hub  # one of thousands has one neighbour only
                table.setdefault(source, []).extend(
                    Hop(index, target)
                    for target in ((wire.hub,) if through_hub else wire.endpoints)
                    if target != source and (not wire.directed or wire.leads(source, target))
                )
        return table

    @cached_property
    def _sources(self) -> dict[str, list[str]]:
        """Endpoint → endpoints that have a link to it."""
        found: dict[str, list[str]] = {}
        for source, steps in self._neighbours.items():
            for hop in steps:
                found.setdefault(hop.there, []).append(source)
        return found

    def _distances_to(self, target: str) -> dict[str, int]:
        """Hops from every endpoint that can reach ``target``."""
        found = {target: 0}
        queue = deque([target])
        while queue:
            here = queue.popleft()
            if here != target and here in self.ends:
                continue
            for source in self._sources.get(here, ()):
                if source not in found:
                    found[source] = found[here] + 1
                    queue.append(source)
        return found


@lru_cache(maxsize=64)
def _network(wires: tuple[Wire, ...], ends: frozenset[str]) -> Network:
    return Network(wires, ends)


def network_of(wires: Iterable[Wire], ends: Iterable[str]) -> Network:
    """The network of some links; the same object for equal ones, as routes are long to find and asked for often."""
    return _network(tuple(wires), frozenset(ends))
