"""Which memories lie between DRAM and cores, and what a description declares but nothing can use."""

from __future__ import annotations

from collections.abc import Iterable

from monet.hardware.accelerator import Accelerator, Memory


def passed(accelerator: Accelerator, memory: Memory) -> list[str]:
    """Memories of no core that data from DRAM, from each of several, passes on its way to a memory, those next to DRAM
    first."""
    free = _of_no_core(accelerator)
    first, *others = (_stops(accelerator, dram.name, memory.endpoint) for dram in accelerator.drams)
    found = [name for name in first if all(name in stops for stops in others)]
    return [name for name in found if name in free and name != memory.name]


def _stops(accelerator: Accelerator, here: str, target: str) -> list[str]:
    """Endpoints on the way from one to another, the last included."""
    return [hop.there for hop in accelerator.hops(here, target)]


def shared_levels(accelerator: Accelerator) -> tuple[Memory, ...]:
    """Memories of no core that data from DRAM passes on its way to one."""
    names = {name for memory in accelerator.memories if memory.cores for name in passed(accelerator, memory)}
    return tuple(memory for memory in accelerator.memories if memory.name in names)


def unused(accelerator: Accelerator, levels: Iterable[Memory] | None = None) -> tuple[str, ...]:
    """What is declared but holds nothing in any schedule, one sentence each. ``levels``: shared ones, if known."""
    levels, dram = shared_levels(accelerator) if levels is None else levels, accelerator.dram.name
    used = {memory.name for memory in levels}
    return tuple(
        f"memory {name} holds nothing: no core works in it, and data from {dram} passes it on no way to one"
        for name in sorted(_of_no_core(accelerator) - used)
    )


def _of_no_core(accelerator: Accelerator) -> frozenset[str]:
    """Memories that are no level of any core."""
    attached = {level.memory for instance in accelerator.cores for level in instance.core.levels}
    return frozenset(memory.name for memory in accelerator.memories if memory.level.memory) - attached
