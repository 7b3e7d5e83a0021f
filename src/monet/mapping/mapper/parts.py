"""A nest on an array in parts, one after another: as it stands, or phase by phase (``nest.phases``)."""

from __future__ import annotations

from dataclasses import dataclass

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Flow
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import NO_CONSTRAINTS, Target, cached_tiling
from monet.mapping.nest.cost import Access, Cost, frame_cost
from monet.mapping.nest.frame import Frame
from monet.mapping.nest.mapping import Mapping
from monet.mapping.nest.phases import phases


@dataclass(frozen=True, slots=True)
class Parts:
    """Mappings of all parts with their frames, the one with the most products first; cycles and joules of all."""

    parts: tuple[tuple[Frame, Mapping], ...]
    cycles: float
    energy_j: float

    @property
    def frame(self) -> Frame:
        """The first part's."""
        return self.parts[0][0]

    @property
    def mapping(self) -> Mapping:
        """The first part's."""
        return self.parts[0][1]

    @property
    def cost(self) -> Cost:
        """Of all parts together."""
        costs = [frame_cost(*part) for part in self.parts]
        return costs[0] if len(costs) == 1 else summed(costs)


def has_phases(nest: LoopNest, target: Target) -> bool:
    """Whether a nest can run in phases. Not where somebody has said how it is to be mapped, nor where an operand comes
    past the core's memory or stays in its cells; nor where the inputs have memories of their own and could change
    places from phase to phase."""
    core = target.core
    if core.output_tiles is not None and core.output_tiles.flatten:
        return False  # a flattened scatter is a product without inserted zeros
    own = core.swappable_inputs and core.top("I") != core.top("W")
    if target.constraints != NO_CONSTRAINTS or core.streamed or core.weights_resident or own:
        return False
    return bool(phases(nest))


def best_parts(nest: LoopNest, target: Target, store: CostStore, *, phased: bool) -> Parts:
    """The best mapping of a nest or, ``phased``, of every phase that it has; a nest without any is one part."""
    found = [cached_tiling(part, target, store) for part in (phases(nest) if phased else ()) or (nest,)]
    return Parts(
        tuple((frame, tiling.mapping) for frame, tiling in found),
        sum(tiling.cycles for _, tiling in found),
        sum(tiling.energy_j for _, tiling in found),
    )


def summed(costs: list[Cost]) -> Cost:
    """Costs of parts that run one after another; ports work at their own pace over all of them."""
    ports: dict[str, float] = {}
    accesses: dict[tuple[str, str, Flow], Access] = {}
    for cost in costs:
        for port, cycles in cost.port_cycles:
            ports[port] = ports.get(port, 0.0) + cycles
        for access in cost.accesses:
            key = access.level, access.slot, access.flow
            old = accesses.get(key, Access(*key, 0, 0, 0.0))
            bits, billed = old.bits + access.bits, old.billed_bits + access.billed_bits
            accesses[key] = Access(*key, old.elements + access.elements, bits, billed)
    return Cost(
        sum(cost.macs for cost in costs),
        costs[0].units,
        sum(cost.compute_cycles for cost in costs),
        sum(cost.exposed_cycles for cost in costs),
        tuple(ports.items()),
        sum(cost.fill_cycles for cost in costs),
        sum(cost.drain_cycles for cost in costs),
        tuple(accesses.values()),
    )
