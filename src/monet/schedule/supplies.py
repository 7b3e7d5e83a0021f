"""What cores see of DRAM and of the shared levels above them: borders, and the channels that like cores share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from monet.hardware.accelerator import CoreInstance
from monet.hardware.interleaving import ways
from monet.mapping.unfused.border import Border, border_of, border_pace
from monet.mapping.unfused.dram_route import links_from, supply_of

if TYPE_CHECKING:
    from monet.schedule.machine import Machine

UNLIMITED = 2**62  # bytes


@dataclass(frozen=True)
class Channel:
    """A memory or a link that supplies some of ``cores`` like cores."""

    bits_per_cycle: float  # of the cores' clock
    users: int
    cores: int

    def reached(self, cores: int) -> int:
        """Of so many of the cores, spread evenly, those that it supplies."""
        return max(1, -(-cores * self.users // self.cores))


class Supplies:
    """Borders and channels of a machine, each found once."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._borders: dict[tuple[str, int], Border] = {}  # by core, and number of the memory that operands come from
        self._paces: dict[tuple[str, int], float] = {}  # bits per cycle of these
        self._borders_among: dict[tuple[str, int, int], Border] = {}  # by core, cores that share an operator, memory
        self._supplies: dict[str, tuple[int, ...]] = {}  # by core
        self._channels: dict[tuple[int, int], tuple[Channel, ...]] = {}  # by design and memory

    def border(self, instance: CoreInstance, supply: int = 0) -> Border:
        """What a core sees of DRAM, or of a shared level (``supply``: its number), when it is alone. DRAM is not
        limited here either: an operator may work in place, which its nest does not say."""
        instance = self.machine.first_of(instance)
        key = instance.name, supply
        if key not in self._borders:
            level = self.machine.folded.memories[supply - 1] if supply else None
            self._borders[key] = replace(border_of(self.machine.folded, instance, level), dram_bytes=UNLIMITED)
        return self._borders[key]

    def supplies(self, instance: CoreInstance) -> tuple[int, ...]:
        """What a core may stream operands from: the shared levels above it, the nearest first, and DRAM."""
        name = instance.name
        found = self._supplies.get(name)
        if found is None:
            instance = self.machine.first_of(instance)
            levels = self.machine.chain(instance.memories[0][1]) if instance.memories else ()
            found = (*(self.machine.memory_index[level.name] for level in levels), 0)
            self._supplies[name] = found
        return found

    def supply(self, instance: CoreInstance, size: int) -> int:
        """The memory from which a core streams an operator's operands, ``size`` bytes in all, as far as its tiles are
        concerned: the nearest shared level that can hold them, else DRAM."""
        found = self.supplies(instance)
        if len(found) == 1:
            return found[0]
        *levels, dram = found
        return next((number for number in levels if size <= self.machine.capacity[number]), dram)

    def border_among(self, instance: CoreInstance, cores: int, supply: int = 0) -> Border:
        """The border of one of several cores that share an operator: what supplies them, and links that others use too,
        are divided among them."""
        if cores == 1:
            return self.border(instance, supply)
        key = instance.name, cores, supply
        if key not in self._borders_among:
            pace = self.pace(instance, cores, supply)
            self._borders_among[key] = replace(self.border(instance, supply), bits_per_cycle=pace)
        return self._borders_among[key]

    def pace(self, instance: CoreInstance, cores: int, supply: int) -> float:
        """Bits per cycle of that border."""
        if cores > 1:
            return self.pace_among(instance, cores, supply, cores)
        instance = self.machine.first_of(instance)
        key = instance.name, supply
        if key not in self._paces:
            level = self.machine.folded.memories[supply - 1] if supply else None
            self._paces[key] = border_pace(self.machine.folded, instance, level)
        return self._paces[key]

    def pace_among(self, instance: CoreInstance, cores: int, supply: int, parts: int) -> float:
        """Bits per cycle of the slowest of several like cores that share an operator, for an operand of which they want
        so many different parts: what several want passes once, also over a link that only some of them use."""
        return min(way.bits_per_cycle / min(parts, way.reached(cores)) for way in self.channels(instance, supply))

    def channels(self, instance: CoreInstance, supply: int) -> tuple[Channel, ...]:
        """The memory that supplies all cores like one, and the links between it and any of them. Of links that are
        equal the most used one."""
        design = self.machine.accelerator.design_number[instance.name]
        if (design, supply) not in self._channels:
            self._channels[design, supply] = self._channels_to(design, supply)
        return self._channels[design, supply]

    def _channels_to(self, design: int, supply: int) -> tuple[Channel, ...]:
        accelerator, like = self.machine.folded, self.machine.accelerator.like_cores[design]
        source = supply_of(accelerator, accelerator.memories[supply - 1] if supply else None)
        firsts = dict.fromkeys(map(self.machine.first_of, like))
        mine = [core for core in firsts if supply in self.supplies(core)]
        used: dict[float, int] = {}
        crossed = {way for core in mine for way in links_from(accelerator, source, core.endpoint)}
        for index, share in crossed:
            rate = accelerator.links[index].bandwidth_bits_per_s / share
            used[rate] = max(used.get(rate, 0), self._users[design, index])
        clock, many = like[0].core.clock_hz, len(like)
        ways = ((source.bandwidth_bits_per_s, many), *sorted(used.items()))
        return tuple(Channel(rate / clock, users, many) for rate, users in ways)

    def sharing(self, instance: CoreInstance, cores: int) -> int:
        """Among how many of so many like cores the top memory of one is divided."""
        number = self.machine.accelerator.design_number[instance.name]
        return max(1, -(-cores * self._beside[instance.name] // len(self.machine.accelerator.like_cores[number])))

    @cached_property
    def _beside(self) -> dict[str, int]:
        """How many cores of a core's design, itself included, are on its memory; of several the one that most share."""
        cores, number = self.machine.accelerator.cores, self.machine.accelerator.design_number
        on = Counter((number[core.name], name) for core in cores for name in {name for _, name in core.memories})
        return {core.name: max((on[number[core.name], name] for _, name in core.memories), default=1) for core in cores}

    @cached_property
    def _users(self) -> Counter[tuple[int, int]]:
        """How many cores of a design get their data from DRAM over a link."""
        accelerator, number = self.machine.folded, self.machine.accelerator.design_number
        found: Counter[tuple[int, int]] = Counter()
        for core in accelerator.cores:
            many = len(self.machine.cluster_of[core.name].cores) if core.name in self.machine.cluster_of else 1
            for index in {index for *_, route in ways(accelerator, core.endpoint) for index in route}:
                alone = index in self.machine.twins.values() and core.name in self.machine.cluster_of
                found[number[core.name], index] += 1 if alone else many
        return found
