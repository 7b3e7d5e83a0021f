"""Where elements share a scale, edges of tiles and of pieces lie between groups: whoever cuts, and however."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

import monet
from monet.formats import FORMATS
from monet.graph.builder import GraphBuilder
from monet.graph.counts import nest_of
from monet.graph.loop_nest import LoopNest
from monet.hardware.loading import load_hardware
from monet.mapping.cost_store import CostStore
from monet.mapping.errors import MappingError
from monet.mapping.mapper.search import search
from monet.mapping.text.operator_arguments import operator_nest
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.operator import unfused, unfused_as
from monet.schedule.engine import Scheduler
from monet.schedule.expansion.geometry import make_steps, step_nest
from monet.schedule.plan import Group, Placement, Plan, PlanError
from monet.schedule.planning.grouping import tiled_groups
from monet.schedule.planning.splits import Ways, candidates
from monet.schedule.workload import Operator, workload_of

MLP = "mlp:widths=100-72-40"
STEP: dict[str, Any] = {"batch": 40, "loss": "mse"}


def product(dims: str, family: str) -> LoopNest:
    """Y = X·W with operands in a format: runs along C, or squares over C and what lies across it."""
    nest = operator_nest("linear", dims, "fp32")
    operands = []
    for operand in nest.operands:
        axes = [index.terms[0][0] for index in operand.indices]
        entry = FORMATS[family].along(2, axes.index("C"), 1 - axes.index("C")) if not operand.written else None
        operands.append(replace(operand, dtype=entry.name, bits_per_element=0) if entry else operand)
    return LoopNest(nest.dims, tuple(operands))


def whole_groups(nest: LoopNest, part: LoopNest) -> dict[str, int]:
    """Sizes of a part of a nest, padded to groups."""
    return {dim: -(-size // nest.grain.get(dim, 1)) * nest.grain.get(dim, 1) for dim, size in part.dims}


def edges_lie_between_groups(nest: LoopNest, dim: str, low: int, high: int) -> bool:
    grain = nest.grain.get(dim, 1)
    return low % grain == 0 and (high % grain == 0 or high == nest.sizes[dim])


@pytest.mark.parametrize("family", ["mxfp8_e4m3", "mxfp8_e4m3[8x8]", "mxfp4_e2m1[16x16]"])
def test_tiles_of_an_operator_alone(family: str) -> None:
    """Through 16 KiB: every tile is a number of groups, and all tiles multiply what the whole product does."""
    machine = load_hardware("snax-mx", {"memories.spm.size_bytes": "16 KiB"})
    instance = machine.cores[0]
    nest = product("N=150,K=190,C=330", family)
    found = unfused(nest, instance.core, border_of(machine, instance), store=CostStore())
    tile = dict(found.tile)
    assert any(tile[dim] < nest.sizes[dim] for dim in nest.grain)
    for dim, grain in nest.grain.items():
        assert tile[dim] % grain == 0 or tile[dim] == nest.sizes[dim]
    whole = sum(shape.count * math.prod(whole_groups(nest, shape.nest).values()) for shape in found.shapes)
    assert whole == math.prod(whole_groups(nest, nest).values())


@pytest.mark.parametrize(("groups", "grains"), [(1, {"C": 32}), (2, {"C": 32}), (4, {})])
def test_channels_of_a_convolution(groups: int, grains: dict[str, int]) -> None:
    """Of groups of 48 channels runs lie across, so that nothing is said of them; products of such stay wide."""
    builder = GraphBuilder("convolution")
    x = builder.input("x", (2, 192 if groups > 2 else 128, 6, 6), "mxfp8_e4m3[32x1x1]")
    w = builder.input("w", (64, builder.tensors[x].shape[1] // groups, 3, 3), "mxfp8_e4m3[32x1x1]")
    window = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": groups, "dtype": "fp32"}
    graph = builder.build([builder.emit("conv", x, w, **window)])
    nest = nest_of(graph, graph.ops[0])
    assert nest is not None
    assert nest.operands[0].grain(nest.sizes) == grains
    assert nest.grain == {"C": 32}


def test_a_tile_written_by_hand_may_not_cut_a_group() -> None:
    machine = load_hardware("snax-mx")
    core, border, store = machine.cores[0].core, border_of(machine, machine.cores[0]), CostStore()
    nest = product("N=64,K=64,C=64", "mxfp8_e4m3")
    for tile, message in (({"C": 48}, "tiles of 48 along C cut groups of 32 elements"), ({"C": 32}, "")):
        inner = search(nest.part({"C": (0, tile["C"])}), core, store=store).mapping
        if message:
            with pytest.raises(MappingError, match=message):
                unfused_as(nest, core, border, tile, ("C",), inner, store=store)
        else:
            assert unfused_as(nest, core, border, tile, ("C",), inner, store=store).macs == 64**3


@pytest.mark.parametrize("family", ["mxfp8_e4m3", "mxint8[8x8]", "mxint8[32x32]"])
def test_pieces_of_a_split(family: str) -> None:
    """All ways over up to 7 cores: pieces are groups, cover the product once, and none has more than the clock says."""
    nest = product("N=70,K=90,C=100", family)
    operator = cast(
        Operator,
        SimpleNamespace(
            nest=nest, splittable=frozenset("NK"), summed=frozenset("C"), dimensions=_Plain(), is_attention=False
        ),
    )
    ways = Ways.of(operator, 7)
    assert ways.splits == tuple(candidates(operator, 7))
    assert len(ways.splits) > 5
    for number, split in enumerate(ways.splits):
        steps = make_steps(nest, {}, split)
        points = [step_nest(nest, steps, piece).points for piece in range(steps.count)]
        assert sum(points) == nest.points
        assert min(points) > 0
        assert max(points) == points[steps.longest] <= round(ways.share[number] * nest.points)
        for dim, (low, high) in steps.ranges.items():
            assert all(edges_lie_between_groups(nest, dim, *pair) for pair in zip(low, high, strict=True))


class _Plain:
    taps: frozenset[str] = frozenset()


def test_without_groups_the_last_piece_is_the_longest() -> None:
    nest = operator_nest("linear", "N=10,K=7,C=4", "fp32")
    assert make_steps(nest, {}, (("N", 3), ("K", 2))).longest == 5
    assert nest.grain == {}


def test_a_whole_step_on_many_cores() -> None:
    """Edge TPU's processing elements with units for MXFP8: operators are split, and every piece is of whole groups."""
    rates = {"cores.pe.rates.mxfp8_e4m3": {"energy_j": 1e-13}, "cores.pe.compute_area_m2": 1e-6}
    machine = load_hardware("edge-tpu", rates)
    step = monet.Request("mlp:widths=1000-500-40", precision="mxfp8-square", batch=100, loss="mse").graph()
    scheduler = Scheduler(step, machine)
    schedule = scheduler.schedule(Plan())
    operators = {operator.op.name: operator for operator in scheduler.workload.operators}
    split = {name: placement for name, placement in schedule.plan.placements.items() if placement.split}
    assert any(dim in operators[name].nest.grain for name, placement in split.items() for dim in placement.dims)
    for name, placement in split.items():
        nest = operators[name].nest
        for dim, (low, high) in make_steps(nest, {}, placement.split).ranges.items():
            assert all(edges_lie_between_groups(nest, dim, *pair) for pair in zip(low, high, strict=True))
    cores = tuple(core.name for core in machine.cores if core.name.startswith("pe"))[:14]
    with pytest.raises(PlanError, match="N has 100 values in 13 groups of 8 that share a scale for 14 cores"):
        scheduler.schedule(Plan(placements={"0": Placement(cores, "N")}))


def test_tiles_of_a_group_whose_copies_are_made_before() -> None:
    """A product and the activation behind it, its operands narrow: tiles of 10 rows become 16, whole squares."""
    step = monet.Request(MLP, precision="mxfp8-square", **STEP).graph()
    workload = workload_of(step)
    (tiled,) = [made for made in tiled_groups(workload, Plan(groups=(Group(("0", "1"), (("A0", 10),)),))) if made.held]
    for ranges in tiled.tiles.values():
        assert [[int(edge) for edge in edges] for edges in next(iter(ranges.values()))] == [[0, 16, 32], [16, 32, 40]]
