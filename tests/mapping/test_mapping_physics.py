"""What no mapping can do: beat the array, a port or the compulsory traffic; and what more hardware must not cost."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Core, Flow
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import DoesNotFit, MappingError
from monet.mapping.mapper.search import Mapped, Target, best_tiling_of, evaluate, search
from monet.mapping.mapper.tiling import OBJECTIVES
from monet.mapping.nest.frame import UNIT
from monet.mapping.nest.mapping import Binding, Unrolled
from monet.mapping.nest.prices import prices_of
from monet.mapping.nest.spatial import footprints_of, frame_of, is_legal
from tests.mapping.cores import three_level, two_level
from tests.mapping.nests import conv, linear
from tests.mapping.random_cases import STREAM, random_core, random_nest


def best(nest: LoopNest, core: Core, objective: str) -> Mapped:
    frame, tiling = best_tiling_of(nest, Target(core, objective, STREAM, limit=4), CostStore())
    return evaluate(frame, tiling.mapping, prices_of(core, STREAM))


def case(seed: int) -> tuple[LoopNest, Core, str]:
    rng = random.Random(seed)
    while True:
        nest, core = random_nest(rng, 6, 3000), random_core(rng)
        if all(level.tile_bytes >= 1 for level in core.levels):
            return nest, core, OBJECTIVES[seed % 3]


@pytest.mark.parametrize("seed", range(60))
def test_bounds(seed: int) -> None:
    nest, core, objective = case(seed)
    found = best(nest, core, objective)
    counts = found.cost
    assert counts.cycles >= nest.points / counts.units
    assert counts.cycles >= max(cycles for _, cycles in counts.port_cycles)
    assert 0 < counts.utilisation <= 1
    for slot in "IWO":
        top, operand = core.top(slot).name, found.mapping.binding.operand(slot)
        flow = Flow.COLLECT if slot == "O" else Flow.FEED
        moved = sum(one.elements for one in counts.accesses if (one.level, one.slot, one.flow) == (top, slot, flow))
        assert moved >= touched(nest, operand)


def touched(nest: LoopNest, name: str) -> int:
    """Elements of an operand that the nest uses, by enumeration of each axis."""
    operand = next(one for one in nest.operands if one.name == name)
    total = 1
    for index, length in zip(operand.indices, operand.shape, strict=True):
        values = {index.offset}
        for dim, factor in index.terms:
            values = {value + factor * i for value in values for i in range(nest.sizes[dim])}
        total *= sum(0 <= value < length for value in values)
    return total


@pytest.mark.parametrize("seed", range(60))
def test_wires_are_respected_and_counts_add_up(seed: int) -> None:
    nest, core, objective = case(seed)
    found = best(nest, core, objective)
    axes = {axis.name: axis for axis in core.modes[0].axes}
    touched_by = footprints_of(nest, found.mapping.binding)
    used: dict[str, int] = {}
    for one in found.mapping.unrolled:
        if one.axis == UNIT:
            assert one.dim not in touched_by["O"].dims
            continue
        assert not is_legal(touched_by, core, axes[one.axis], one.dim)
        used[one.axis] = used.get(one.axis, 1) * one.factor
    assert all(factor <= axes[name].size for name, factor in used.items())
    writes = {(one.slot, one.flow): one.elements for one in found.cost.accesses if one.level == core.accumulator_level}
    drained, filled = writes.get(("O", Flow.DRAIN), 0), writes.get(("O", Flow.FILL), 0)
    assert drained >= filled >= 0
    assert found.energy_j == pytest.approx(math.fsum(found.energy_j_by_level.values()), rel=1e-12)


def latency(nest: LoopNest, core: Core) -> float:
    """What the search minimises: the mapping's cycles, with the way of its resident operands through the top memory."""
    return best_tiling_of(nest, Target(core, "latency", STREAM, limit=4), CostStore())[1].cycles


@pytest.mark.parametrize("seed", range(40))
def test_more_bandwidth_is_never_slower(seed: int) -> None:
    nest, core, _ = case(seed)
    wider = replace(core, levels=tuple(_wider(level) for level in core.levels))
    assert latency(nest, wider) <= latency(nest, core) * (1 + 1e-5)


def _wider(level):  # type: ignore[no-untyped-def]
    ports = tuple(replace(port, bandwidth_bits_per_cycle=2 * port.bandwidth_bits_per_cycle) for port in level.ports)
    return replace(level, ports=ports)


@pytest.mark.parametrize("seed", range(40))
def test_nested_larger_capacity_is_never_worse(seed: int) -> None:
    nest, core, objective = case(seed)
    larger = replace(core, levels=tuple(replace(level, size_bytes=2 * level.size_bytes) for level in core.levels))
    before, after = best(nest, core, objective), best(nest, larger, objective)
    if objective == "latency":
        assert after.cost.cycles <= before.cost.cycles * (1 + 1e-5)
    elif objective == "energy":
        assert after.energy_j <= before.energy_j * (1 + 1e-5)


def test_wires_forbid() -> None:
    core = two_level(2, 2, dims=(("K",), ("C",)))
    nest = conv("w", K=4, C=4, OY=4)
    with pytest.raises(MappingError, match="adds outputs, and C indexes the output"):
        frame_of(nest, core, "default", Binding("x", "y", "w"), (Unrolled("b", "C", 2),), None)


def test_what_does_not_fit_is_named_in_bytes() -> None:
    core = three_level(8)
    small = replace(
        core, levels=tuple(replace(one, size_bytes=1) if one.name == "o_reg" else one for one in core.levels)
    )
    with pytest.raises(DoesNotFit, match=r"operand y does not fit level 'o_reg'.*1 bytes short"):
        search(linear(4, 4, 4), small, store=CostStore())


@pytest.mark.parametrize("products", [1, 2, 4])
def test_utilisation_is_of_every_product_that_the_units_could_have_made(products: int) -> None:
    core = two_level(2, 2)
    core = replace(core, rates=tuple(replace(rate, products_per_step=products) for rate in core.rates))
    counts = best(linear(8, 4, 8), core, "latency").cost
    assert counts.utilisation == pytest.approx(8 * 4 * 8 / (2 * 2 * products * counts.cycles))
