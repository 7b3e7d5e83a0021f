"""Like cores that work together: many cores of one design, each with memories of its own and with the same wires to
everything else, as the multiprocessors of a GPU. They run one operator at a time, a piece each, and keep their memories
alike: the schedule sees one core, whose time, wires and memory are those of the core with the largest piece, while
shared wires, shared levels and DRAM serve the pieces of all. So what a schedule takes to make does not grow with their
number. Fewer cores than ``LEAST``, and cores that lie differently (in a mesh), are each on their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from monet.hardware.accelerator import Accelerator, CoreInstance, Link, Memory

LEAST = 16  # like cores that work together; a plan places operators on fewer one by one


@dataclass(frozen=True)
class Cluster:
    """Cores that work together. Of each, in the same order: the names of its memories, and the links that only it
    has (as numbers in ``Accelerator.links``)."""

    cores: tuple[CoreInstance, ...]
    memories: tuple[tuple[str, ...], ...]
    links: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> CoreInstance:
        """The core that stands for all."""
        return self.cores[0]


def clusters_of(accelerator: Accelerator, least: int = LEAST) -> tuple[Cluster, ...]:
    """All cores that work together, if there are at least so many of a design."""
    if all(len(like) < least for like in accelerator.like_cores):
        return ()
    return tuple(
        found for like in accelerator.like_cores if len(like) >= least for found in _cluster(accelerator, like)
    )


def _cluster(accelerator: Accelerator, like: tuple[CoreInstance, ...]) -> Iterator[Cluster]:
    """The cores of a design, if any two of them could change places and nothing else would change."""
    ends = {core.endpoint for core in like}
    memories = {memory.name: memory for memory in accelerator.memories}
    links: dict[str, list[int]] = {end: [] for end in ends}
    for number, link in enumerate(accelerator.links):
        for end in ends.intersection(link.endpoints):
            links[end].append(number)
    places = [memory.endpoint for memory in accelerator.memories if memory.endpoint in ends]
    if len(ends) < len(like) or any(link.hub in ends for link in accelerator.links):
        return
    wires = {number for numbers in links.values() for number in numbers}
    beyond = {number: [end for end in accelerator.links[number].endpoints if end not in ends] for number in wires}
    common = {
        number
        for number, others in beyond.items()
        if others and accelerator.links[number].is_bus and ends.issubset(accelerator.links[number].endpoints)
    }
    found = [_of_one(accelerator, core, memories, links[core.endpoint], beyond, common) for core in like]
    if any(each is None or each[0] != (found[0] or each)[0] for each in found):
        return
    own = [each for each in found if each is not None]
    if len(places) == sum(len(names) for _, names, _ in own):  # no other memory lies beside theirs
        yield Cluster(like, tuple(names for _, names, _ in own), tuple(wires for *_, wires in own))


def _of_one(
    accelerator: Accelerator,
    core: CoreInstance,
    memories: dict[str, Memory],
    links: list[int],
    beyond: dict[int, list[str]],
    common: set[int],
) -> tuple[Any, tuple[str, ...], tuple[int, ...]] | None:
    """What a core has around it but for names, its memories and its own links; None if it shares one of these.
    ``beyond``: by link, its ends that are no core like it; ``common``: buses that all such cores are on."""
    names, wires, around = tuple(dict.fromkeys(name for _, name in core.memories)), list[int](), list[Any]()
    for name in names:
        memory = memories[name]
        if memory.cores != (core.name,) or memory.endpoint != core.endpoint:
            return None
        around.append((replace(memory.level, memory=""), memory.clock_hz, memory.is_cache, memory.resident))
    for number in links:
        link, others = accelerator.links[number], beyond[number]
        if number in common:
            around.append(number)
        elif len(link.endpoints) == 2 and others:
            wires.append(number)
            around.append((others[0], link.endpoints.index(core.endpoint), *_figures(link)))
        else:
            return None
    slots = tuple((slot, names.index(name)) for slot, name in core.memories)
    return (slots, tuple(around)), names, tuple(wires)


def _figures(link: Link) -> tuple[Any, ...]:
    return replace(link, name="", endpoints=()), link.hub


def folded(accelerator: Accelerator, clusters: tuple[Cluster, ...]) -> tuple[Accelerator, dict[int, int]]:
    """The accelerator with the first core of every cluster for all of it. A second one stays on the network, so that
    there are ways from one core to another; of its links, the number of the one of the first core."""
    if not clusters:
        return accelerator, {}
    gone = {core.name for cluster in clusters for core in cluster.cores[1:]}
    lost = {name for cluster in clusters for names in cluster.memories[1:] for name in names}
    ends = {core.endpoint for cluster in clusters for core in cluster.cores[2:]}
    every = accelerator.links
    kept = [number for number, link in enumerate(every) if link.is_bus or ends.isdisjoint(link.endpoints)]
    links = (
        replace(link, endpoints=tuple(end for end in link.endpoints if end not in ends)) if link.is_bus else link
        for link in (every[number] for number in kept)
    )
    place = {number: new for new, number in enumerate(kept)}
    twins = {
        place[other]: place[first]
        for cluster in clusters
        for first, other in zip(cluster.links[0], cluster.links[1], strict=True)
    }
    fewer = replace(
        accelerator,
        cores=tuple(core for core in accelerator.cores if core.name not in gone),
        memories=tuple(memory for memory in accelerator.memories if memory.name not in lost),
        links=tuple(links),
    )
    return fewer, twins
