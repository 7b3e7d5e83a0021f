"""The parts of a template's designs: kinds of cores, and the rest of the chip, each distinct one resolved once.

Sums over parts leave out what depends on the whole (links that are no buses), so area and power by them are lower
bounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from monet.arrays import F64, I64
from monet.hardware.accelerator import Accelerator
from monet.hardware.core import Core
from monet.hardware.power import arithmetic_w, core_memories_w
from monet.hardware.technology import Technology
from monet.search.hardware.space import Space, Values


@dataclass(frozen=True, slots=True)
class CorePart:
    """A kind of core as some parameters make it."""

    core: Core
    area_m2: float
    watts: float  # at full use, clock included, links and shared memories not
    static_w: float
    private_bytes: int  # that the scheduler owns


@dataclass(frozen=True, slots=True)
class BusPart:
    """A bus as long as the side of all cores: what it takes per metre of that, per end, and in any case."""

    area_m2_per_m: float
    area_m2_per_end: float
    watts_per_m: float
    watts_per_end: float
    watts: float
    other_ends: int  # that are no cores

    def area_m2(self, length_m: F64, cores: F64) -> F64:
        """Wires and receivers."""
        return self.area_m2_per_m * length_m + self.area_m2_per_end * (cores + self.other_ends)

    def power_w(self, length_m: F64, cores: F64) -> F64:
        """Transfers at full bandwidth, leakage and clock."""
        return self.watts_per_m * length_m + self.watts_per_end * (cores + self.other_ends) + self.watts


@dataclass(frozen=True, slots=True)
class ChipPart:
    """What there is once on a chip, whatever its cores: shared memories, interfaces, buses, DRAM."""

    area_m2: float
    watts: float
    static_w: float
    moving_j_per_byte: float
    shared_bytes: int
    dram_bytes_per_s: float
    buses: tuple[BusPart, ...]
    resident: frozenset[str]  # categories that memories keep for good


@dataclass(frozen=True)
class Group:
    """Designs of the same parts in different numbers: rows of choices, and how many cores of each kind each row has."""

    choice: I64
    cores: tuple[tuple[F64, CorePart], ...]
    chip: ChipPart

    @property
    def area_m2(self) -> F64:
        """Chip area, links other than buses left out."""
        of_cores, number = self._sums()
        buses = sum(bus.area_m2(np.sqrt(of_cores), number) for bus in self.chip.buses)
        return np.asarray(self.chip.area_m2 + of_cores + buses)

    @property
    def watts(self) -> F64:
        """Power at full use, links other than buses left out."""
        of_cores, number = self._sums()
        buses = sum(bus.power_w(np.sqrt(of_cores), number) for bus in self.chip.buses)
        return np.asarray(self.chip.watts + sum(count * part.watts for count, part in self.cores) + buses)

    def _sums(self) -> tuple[F64, F64]:
        """Area of all cores, and how many there are."""
        area = np.sum([count * part.area_m2 for count, part in self.cores], axis=0)
        return area, np.sum([count for count, _ in self.cores], axis=0)

    def some(self, rows: I64) -> Group:
        """Some of its rows."""
        return Group(self.choice[rows], tuple((count[rows], part) for count, part in self.cores), self.chip)


class Split:
    """A space by what its parameters decide: numbers of cores, a kind of core each, the rest of the chip."""

    def __init__(self, space: Space) -> None:
        self.space = space
        base = space.base
        self.templates = tuple(base["cores"])
        deciding = space.set_by
        rest = {path: names for path, names in deciding.items() if not path.startswith(_PARTS)}
        outside = frozenset(name for names in rest.values() for name in names)
        every = frozenset(name for path, names in rest.items() for name in names if not path.startswith(_OUTSIDE))
        self.counts = {
            template: frozenset(n for path, names in deciding.items() if _is_count(path, template) for n in names)
            for template in self.templates
        }
        shared = {name: self._set(f"memories.{name}.") for name in base.get("memories") or {}}
        self.chip = frozenset().union(outside, *shared.values())
        self.of_core = {
            template: frozenset().union(every, self._own(template), *self._used(template, shared))
            for template in self.templates
        }
        decisive = [*(self.of_core[each] | self.counts[each] for each in self.templates), self.chip]
        names = [parameter.name for parameter in space.parameters]
        # of what a step may wait for, each kind of core and last DRAM: places of the parameters that it depends on
        self.binders = tuple(tuple(place for place, name in enumerate(names) if name in some) for some in decisive)
        self.first = {parameter.name: parameter.values[0] for parameter in space.parameters}
        self.known: dict[tuple[object, ...], Accelerator] = {}
        self.cores: dict[tuple[object, ...], CorePart] = {}
        self.chips: dict[tuple[object, ...], ChipPart] = {}
        self.numbers: dict[tuple[str, bytes], F64] = {}

    @property
    def arrays(self) -> tuple[bool, ...]:
        """Which kinds of cores have an array."""
        return tuple(bool(self._core(template, self.first).core.modes) for template in self.templates)

    def _own(self, template: str) -> frozenset[str]:
        """What decides a core, its number apart."""
        paths = [path for path in self.space.set_by if path.startswith(f"cores.{template}.")]
        return frozenset(name for path in paths if not _is_count(path, template) for name in self.space.set_by[path])

    def _used(self, template: str, shared: Mapping[str, frozenset[str]]) -> list[frozenset[str]]:
        """What decides the shared memories that a core computes from."""
        levels = self.space.base["cores"][template].get("memories", ())
        return [shared[level["memory"]] for level in levels if level.get("memory") in shared]

    def _set(self, prefix: str) -> frozenset[str]:
        return frozenset(n for path, names in self.space.set_by.items() if path.startswith(prefix) for n in names)

    def groups(self) -> Iterator[Group]:
        """Designs by parts: for every choice of what decides parts, all numbers of cores."""
        parameters = self.space.parameters
        names = [parameter.name for parameter in parameters]
        numbers = frozenset().union(*self.counts.values())
        inner = [place for place, name in enumerate(names) if name in numbers and name not in self._deciding()]
        outer = [place for place in range(len(names)) if place not in inner]
        grid = np.array(list(itertools.product(*(range(len(parameters[place].values)) for place in inner))), np.int64)
        grid = grid.reshape(-1, len(inner))
        for chosen in itertools.product(*(range(len(parameters[place].values)) for place in outer)):
            choice = np.empty((len(grid), len(names)), np.int64)
            choice[:, inner] = grid
            choice[:, outer] = chosen
            point = self.first | {
                names[place]: parameters[place].values[position] for place, position in zip(outer, chosen, strict=True)
            }
            cores = tuple(
                (self._numbers(template, point, choice, names), self._core(template, point))
                for template in self.templates
            )
            yield Group(choice, cores, self._chip(point))

    def _deciding(self) -> frozenset[str]:
        return frozenset().union(self.chip, *self.of_core.values())

    def _numbers(self, template: str, point: Values, choice: I64, names: list[str]) -> F64:
        """Cores of a kind in each row: as the description of a design with that choice says."""
        places = [names.index(name) for name in sorted(self.counts[template])]
        key = template, choice[:, places].tobytes()
        if key not in self.numbers:
            self.numbers[key] = self._distinct_numbers(template, point, choice, names, places)
        return self.numbers[key]

    def _distinct_numbers(self, template: str, point: Values, choice: I64, names: list[str], places: list[int]) -> F64:
        found = np.empty(len(choice))
        distinct, where = np.unique(choice[:, places], axis=0, return_inverse=True)
        counts = []
        for positions in distinct.tolist():
            values = {
                names[place]: self.space.parameters[place].values[at]
                for place, at in zip(places, positions, strict=True)
            }
            counts.append(self._count(template, point | values))
        found[:] = np.array(counts, float)[where.reshape(-1)]
        return found

    def _count(self, template: str, values: Values) -> int:
        core, prefix = self.space.base["cores"][template], f"cores.{template}"
        chosen = self.space.overrides(values)
        if f"{prefix}.count" in chosen or "mesh" not in core:
            return int(chosen.get(f"{prefix}.count", core.get("count", 1)))
        mesh = chosen.get(f"{prefix}.mesh", core["mesh"])
        x, y = mesh.split("x") if isinstance(mesh, str) else (mesh["x"], mesh["y"])
        return int(chosen.get(f"{prefix}.mesh.x", x)) * int(chosen.get(f"{prefix}.mesh.y", y))

    def _accelerator(self, names: frozenset[str], point: Values) -> Accelerator:
        """A design with some parameters as given and all others at their first value."""
        key = _choice(names, point)
        if key not in self.known:
            self.known[key] = self.space.hardware(self.first | {name: point[name] for name in names})
        return self.known[key]

    def _core(self, template: str, point: Values) -> CorePart:
        """A kind of core as some parameters make it: one object for every choice of these."""
        key = template, *_choice(self.of_core[template], point)
        if key not in self.cores:
            self.cores[key] = self._resolved_core(template, point)
        return self.cores[key]

    def _resolved_core(self, template: str, point: Values) -> CorePart:
        accelerator = self._accelerator(self.of_core[template], point)
        core = accelerator.designs[template]
        one = next(instance for instance in accelerator.cores if instance.template == template)
        private = sum(
            memory.size_bytes
            for memory in accelerator.memories
            if memory.cores == (one.name,) and not memory.level.memory
        )
        watts = core.leakage_w + arithmetic_w(core) + core_memories_w(core) + self._clock_w(accelerator, template)
        return CorePart(core, core.area_m2, watts, core.leakage_w, private)

    def _clock_w(self, accelerator: Accelerator, template: str) -> float:
        """Clock of a core: as gated; else that of its units alone, as the registers' is in the chip's."""
        gated = dict(accelerator.gated_clock_w)
        if template in gated or self.space.base.get("clock_power_w") is not None:
            return gated.get(template, 0.0)
        core = accelerator.designs[template]
        return Technology(accelerator.node_nm).clock_w(core.compute_area_m2, core.clock_hz)

    def _chip(self, point: Values) -> ChipPart:
        key = _choice(self.chip, point)
        if key not in self.chips:
            self.chips[key] = self._resolved_chip(point)
        return self.chips[key]

    def _resolved_chip(self, point: Values) -> ChipPart:
        accelerator = self._accelerator(self.chip, point)
        shared = [memory for memory in accelerator.memories if memory.level.memory]
        interfaces, dram = accelerator.interfaces, accelerator.dram
        area = math.fsum(m.level.total_area_m2 for m in shared) + math.fsum(part.area_m2 for part in interfaces)
        watts = math.fsum(m.level.total_leakage_w for m in shared) + math.fsum(part.standing_w for part in interfaces)
        per_bit = (dram.read_energy_j_per_bit + dram.write_energy_j_per_bit) / 2
        static = watts + accelerator.other_leakage_w + dram.static_power_w
        watts = static + dram.bandwidth_bits_per_s * per_bit
        least_j = 8 * min(dram.read_energy_j_per_bit, dram.write_energy_j_per_bit)
        area += accelerator.other_area_m2
        kept, buses = sum(m.size_bytes for m in shared), tuple(self._buses(accelerator))
        resident = frozenset(name for memory in accelerator.memories for name in memory.resident)
        return ChipPart(area, watts, static, least_j, kept, dram.bandwidth_bytes_per_s, buses, resident)

    def _buses(self, accelerator: Accelerator) -> Iterator[BusPart]:
        """Buses whose price follows from their length; those with a price of their own are left out."""
        technology = Technology(accelerator.node_nm, self.space.base.get("process", "low_power"))
        clocked = self.space.base.get("clock_power_w") is None
        for link in accelerator.links:
            model = self.space.base["network"].get(link.name, {})
            if not link.is_bus or any(
                model.get(key) is not None for key in ("length_m", "area_m2", "energy_j_per_bit")
            ):
                continue
            width = link.width_bits_per_cycle
            metre, end = technology.link(width, 1.0, 0), technology.link(width, 0.0, 1000 * width)
            watts = [
                cost.leakage_w + (technology.clock_w(cost.logic_m2, link.clock_hz) if clocked else 0.0)
                for cost in (metre, end)
            ]
            to_dram = link.hub in {dram.name for dram in accelerator.drams}
            rate = (
                min(link.bandwidth_bits_per_s, accelerator.dram.bandwidth_bits_per_s)
                if to_dram
                else link.bandwidth_bits_per_s
            )
            at_once = rate * technology.link_energy_j_per_bit(0.0)
            yield BusPart(
                metre.area_m2, end.area_m2 / 1000, watts[0] + rate * technology.wire_energy_j_per_bit_m,
                watts[1] / 1000, at_once, sum(end not in self._core_ends(accelerator) for end in link.endpoints),
            )  # fmt: skip

    @staticmethod
    def _core_ends(accelerator: Accelerator) -> frozenset[str]:
        return frozenset(instance.endpoint for instance in accelerator.cores)


def _choice(names: frozenset[str], point: Values) -> tuple[object, ...]:
    """What some parameters are chosen as."""
    return names, tuple(point[name] for name in sorted(names))


def _is_count(path: str, template: str) -> bool:
    return path == f"cores.{template}.count" or path.startswith(f"cores.{template}.mesh")


_PARTS = ("cores.", "memories.", "workloads.")
_OUTSIDE = ("dram.", "network.", "host.", "serial.")  # what changes nothing of a core
