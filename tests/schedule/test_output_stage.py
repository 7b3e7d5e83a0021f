"""quantize in the output stage of an array: when it is, what it saves, and that its cost follows the declaration."""

from __future__ import annotations

import math
from typing import Any

import pytest

from monet.frontends.zoo.layers import Layers
from monet.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import load_hardware
from monet.mapping.cost_store import CostStore
from monet.schedule.costs.cost_table import OperatorSteps
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Group, Placement, Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.training.options import TrainingOptions
from monet.training.step import prepare

ROWS, WIDTH, TILE = 64, 96, 32


def two_layers() -> Graph:
    net = Layers("two")
    x = net.linear("first", net.builder.input("x", (ROWS, WIDTH)), WIDTH, bias=False)
    return prepare(net.build(net.linear("second", x, WIDTH, bias=False)), TrainingOptions(precision="mxfp8-square"))


def machine(**quantiser: Any) -> Accelerator:
    return load_hardware("snax-mx", {f"cores.mx_core.quantiser.{name}": value for name, value in quantiser.items()})


def steps_of(accelerator: Accelerator, core: str = "mx_core") -> tuple[OperatorSteps, OperatorSteps, float]:
    """The first product and the copy of its result, in one group of two tiles; the makespan."""
    graph = two_layers()
    copy = next(op.name for op in graph.ops if op.kind == "quantize" and op.inputs[0] == "first")
    plan = Plan(groups=(Group(("first", copy), (("A0", TILE),)),), placements={copy: Placement((core,))})
    schedule = Scheduler(graph, accelerator, store=CostStore()).schedule(plan)
    found = {steps.operator.op.name: steps for steps in schedule.expanded.operators}
    return found["first"], found[copy], schedule.makespan


def test_values_come_from_the_array() -> None:
    """Blocks of 64 in a cycle, behind a product that takes longer: a cycle more for the last, nothing is read."""
    accelerator = machine()
    product, copy, fused = steps_of(accelerator)
    blocks = TILE * WIDTH / 64
    assert product.costs[0].cycles > blocks
    assert copy.costs[0].cycles == 1
    level = accelerator.cores[0].core.top("O")
    bits = TILE * WIDTH * (8 + 1 / 8)
    assert dict(copy.costs[0].energy_j)["spm"] == pytest.approx(bits * level.write_energy_j_per_bit)
    _, lanes, apart = steps_of(accelerator, "snitch")
    assert lanes.costs[0].cycles > 100
    assert fused < apart
    alone = Scheduler(two_layers(), accelerator, store=CostStore()).schedule(Plan())
    passed = next(steps for steps in alone.expanded.operators if steps.operator.op.name == copy.operator.op.name)
    assert passed.costs[0].cycles > 2 * blocks  # a pass of its own reads wide values through a port
    assert dict(passed.costs[0].energy_j)["spm"] > 4 * 2 * dict(copy.costs[0].energy_j)["spm"] / 2


def test_the_cost_follows_the_declaration() -> None:
    """A quantiser slower than the array is what a tile waits for; joules are those of its blocks."""
    for cycles, joules in ((1, 0.0), (20, 3e-12), (200, 5e-12)):
        product, copy, _ = steps_of(machine(cycles_per_block=cycles, energy_j=joules))
        blocks = TILE * WIDTH / 64
        late = max(0.0, blocks * cycles - product.costs[0].cycles)
        assert copy.costs[0].cycles == pytest.approx(cycles + late)
        assert dict(copy.costs[0].energy_j)["compute"] == pytest.approx(blocks * joules)
        assert bool(late) == (cycles == 200)


def test_default_plans_take_it_where_it_is_faster() -> None:
    schedule = default_schedule(Scheduler(two_layers(), machine(), store=CostStore()))
    copies = [steps for steps in schedule.expanded.operators if steps.operator.op.kind == "quantize" and steps.tiled]
    assert [steps.placement.cores for steps in copies] == [("mx_core",)]
    assert all(math.isclose(cost.cycles, 1) for steps in copies for cost in steps.costs)
