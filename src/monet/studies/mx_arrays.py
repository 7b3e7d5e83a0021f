"""What the studies of microscaling NPUs share: all matrix operators of a graph on the array of an accelerator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from monet.errors import MonetError
from monet.graph.counts import nest_of
from monet.graph.graph import Graph
from monet.graph.kind import kind_named
from monet.graph.loop_nest import LoopNest
from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.mapping.cost_store import default_store
from monet.mapping.mapper.search import frames
from monet.mapping.unfused.arrays import unfused_on
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.model_operators import MATRIX
from monet.mapping.unfused.operator import Unfused
from monet.request import Request


@dataclass(frozen=True, slots=True)
class ArrayWork:
    """All matrix operators one after another. ``array_cycles`` are those of the array alone, a first fill of each
    included; ``compute_cycles`` without it; ``core_cycles`` with what the core waits for, DRAM not counted."""

    operators: int
    macs: int
    array_cycles: float
    compute_cycles: float
    core_cycles: float
    full_cycles: float  # with every unit busy all the time
    energy_j: dict[str, float]  # below and at the core's memory, by level

    @property
    def utilisation(self) -> float:
        """Share of the products that the array could have made while the core was busy."""
        return self.full_cycles / self.core_cycles


def array_core(accelerator: Accelerator) -> CoreInstance:
    """The core with an array."""
    for instance in accelerator.cores:
        if instance.core.modes:
            return instance
    raise MonetError(f"{accelerator.name} has no core with an array")


def products_of(graph: Graph) -> Counter[LoopNest]:
    """The nests of all matrix operators, and how often each occurs."""
    nests: Counter[LoopNest] = Counter()
    for op in graph.ops:
        if kind_named(op.kind).family in MATRIX:
            nest = nest_of(graph, op)
            assert nest is not None, "a product has a loop nest"
            nests[nest] += 1
    return nests


def array_cycles(nests: Counter[LoopNest], accelerator: Accelerator) -> float:
    """Cycles of an array that works output tile by output tile, alone, a first fill of every product included: what
    ``monet map`` sums up, without a search for how data moves."""
    core = array_core(accelerator).core
    assert core.output_tiles is not None, "other arrays depend on their mapping"
    fill, store = core.output_tiles.first_fill_cycles, default_store()
    return sum(count * (frames(nest, core, None, store)[0].compute_cycles + fill) for nest, count in nests.items())


def nests_work(nests: Counter[LoopNest], accelerator: Accelerator) -> ArrayWork:
    """So many products of each nest."""
    instance = array_core(accelerator)
    border, store = border_of(accelerator, instance), default_store()
    energy: dict[str, float] = {}
    totals = dict.fromkeys(("array", "compute", "core", "full"), 0.0)
    for nest, count in nests.items():
        found = unfused_on(nest, instance.core, border, store=store)
        for name, cycles in _cycles(nest, found).items():
            totals[name] += count * cycles
        for level, joules in found.energy_j_by_level.items():
            energy[level] = energy.get(level, 0.0) + count * joules
    return ArrayWork(
        operators=nests.total(),
        macs=sum(nest.points * count for nest, count in nests.items()),
        array_cycles=totals["array"],
        compute_cycles=totals["compute"],
        core_cycles=totals["core"],
        full_cycles=totals["full"],
        energy_j=energy,
    )


def _cycles(nest: LoopNest, found: Unfused) -> dict[str, float]:
    first, second = (operand.dtype for operand in nest.reads)
    rate = found.array.rate(first, second, either_way=True)
    full = nest.points / (found.array.units * rate.products_per_cycle)
    return {"array": found.array_cycles, "compute": found.compute_cycles, "core": found.core_cycles, "full": full}


def work_of(model: str, hardware: Accelerator, precision: str, mode: str, batch: int) -> ArrayWork:
    """The matrix operators of a model under a policy."""
    return nests_work(products_of(Request(model, precision=precision, mode=mode, batch=batch).graph()), hardware)


def percent(share: float, digits: int = 1) -> str:
    """A share with so many digits after the point."""
    return f"{100 * share:.{digits}f} %"
