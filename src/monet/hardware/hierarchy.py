"""Which memories lie between DRAM and cores, and what a description declares but nothing can use."""

from __future__ import annotations

import math

from monet.hardware.accelerator import Accelerator, Memory


def next_endpoint(accelerator: Accelerator, index: int, here: str, target: str) -> str:
    """The endpoint that a hop over a link leads to, on the way to a target."""
    hops = accelerator._hops[target]
    return min(
        neighbour
        for number, neighbour in accelerator._neighbours[here]
        if number == index and hops.get(neighbour, math.inf) == hops[here] - 1
    )


def passed(accelerator: Accelerator, memory: Memory) -> list[str]:
    """Memories of no core that data from DRAM passes on its way to a memory, those next to DRAM first."""
    here, found = accelerator.dram.name, list[str]()
    for index in accelerator.route(here, memory.endpoint):
        here = next_endpoint(accelerator, index, here, memory.endpoint)
        found.append(here)
    free = _of_no_core(accelerator)
    return [name for name in found if name in free and name != memory.name]


def shared_levels(accelerator: Accelerator) -> tuple[Memory, ...]:
    """Memories of no core that data from DRAM passes on its way to one."""
    names = {name for memory in accelerator.memories if memory.cores for name in passed(accelerator, memory)}
    return tuple(memory for memory in accelerator.memories if memory.name in names)


def unused(accelerator: Accelerator) -> tuple[str, ...]:
    """What is declared but holds nothing in any schedule, one sentence each."""
    used, dram = {memory.name for memory in shared_levels(accelerator)}, accelerator.dram.name
    return tuple(
        f"memory {name} holds nothing: no core works in it, and data from {dram} passes it on no way to one"
        for name in sorted(_of_no_core(accelerator) - used)
    )


def _of_no_core(accelerator: Accelerator) -> frozenset[str]:
    """Memories that are no level of any core."""
    attached = {level.memory for instance in accelerator.cores for level in instance.core.levels}
    return frozenset(memory.name for memory in accelerator.memories if memory.level.memory) - attached
