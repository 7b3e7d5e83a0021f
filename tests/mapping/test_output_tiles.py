"""Arrays that work output tile by output tile: DaCapo's simulator as oracle, tiles counted one by one, refusals."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from monet.errors import MonetError
from monet.frontends.zoo.layers import Layers
from monet.graph.counts import nest_of
from monet.graph.loop_nest import LoopNest
from monet.hardware.core import Axis
from monet.hardware.loading import describe, load_hardware
from monet.hardware.output_tiles import OutputTiles, bank_conflicts
from monet.hardware.resolve import resolve
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import frames
from monet.mapping.nest.footprint import footprints
from monet.mapping.nest.mapping import Unrolled
from monet.mapping.nest.output_tiles import product_of, unrolled_tiling
from monet.mapping.text.operator_arguments import operator_nest
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.operator import unfused
from monet.training.step import training_step

# int16, int8 and bf16 stand for MX9, MX6 and MX4: a dot product of 16 in 16, 4 and 1 cycles
ENGINES: dict[str, Any] = {
    "name": "engines",
    "node_nm": 28,
    "clock_hz": 500e6,
    "cores": {
        "engines": {
            "kind": "matrix",
            "axes": {
                "columns": {"size": 16, "multicast": ["W"], "systolic": True},
                "rows": {"size": 16, "multicast": ["I"], "systolic": True},
            },
            "rates": {
                "int16": {"products_per_cycle": 1, "products_per_step": 16},
                "int8": {"products_per_cycle": 4, "products_per_step": 16},
                "bf16": {"products_per_cycle": 16, "products_per_step": 16},
            },
            "output_tiles": {"flatten": True, "col2im": True, "queue_steps": 16, "first_fill_bytes": 80000},
            "swappable_inputs": False,
            "memories": [
                {"name": "sums", "operands": ["O"], "per": "mac", "size_bytes": 8, "bandwidth_bits_per_cycle": 64},
                {"name": "sram", "size_bytes": 1 << 19, "ports": "2r2w", "bandwidth_bits_per_cycle": 8192},
            ],
        }
    },
    "dram": {"dram": {"kind": "HBM2", "capacity_bytes": 1 << 30, "bandwidth_bytes_per_s": 204.8e9}},
    "network": {"link": {"link": ["engines", "dram"], "bandwidth_bytes_per_s": 204.8e9}},
}


def alone(kind: str, dims: str, dtype: str) -> Any:
    accelerator = resolve(describe(ENGINES))
    instance = accelerator.cores[0]
    border = border_of(accelerator, instance)
    return unfused(operator_nest(kind, dims, dtype), instance.core, border, store=CostStore())


@pytest.mark.parametrize(
    ("dims", "dtype", "cycles"),
    [("N=40,C=300,K=50", "int8", 1394), ("N=37,C=700,K=21", "int16", 5025)],
)
def test_the_cycles_are_those_of_the_simulator(dims: str, dtype: str, cycles: int) -> None:
    """Of DaCapo's released simulator, its first fill of 196 cycles included, in MX6 and MX9."""
    assert alone("linear", dims, dtype).array_cycles == cycles


def test_a_convolution_is_one_product_however_it_is_cut_for_dram() -> None:
    """16 images at 112²: 12,544 × 4 tiles of ⌈147/16⌉ = 10 steps and a skew of 30, whatever fits the memory."""
    found = alone("conv", "N=16,K=64,C=3,OY=112,OX=112,FY=7,FX=7,stride=2,pad=3", "bf16")
    assert sum(shape.count for shape in found.shapes) > 1
    assert found.array_cycles == 196 + 12544 * 4 * (10 + 30)


@pytest.mark.parametrize(
    ("kind", "stride", "col2im", "sides"),
    [
        ("conv", 1, True, (50, 8, 27)),
        ("conv_transpose", 1, True, (50, 27, 8)),
        ("conv_transpose", 1, False, (50, 3, 72)),
        ("conv_transpose", 2, False, (18, 27, 8)),
        ("conv_weight_gradient", 1, True, (27, 8, 50)),
    ],
)
def test_the_sides_of_a_product(kind: str, stride: int, col2im: bool, sides: tuple[int, int, int]) -> None:
    """Two images of three channels and 5², eight 3×3 filters: forward, and both gradients of a training step."""
    net = Layers("m")
    image = net.builder.input("image", (2, 3, 5, 5), differentiated=True)
    step = training_step(net.build(net.conv("c", image, 8, 3, stride, 1)), loss="sum")
    nest = nest_of(step, next(op for op in step.ops if op.kind == kind))
    assert nest is not None
    slots = dict(zip("IWO", (operand.name for operand in (*nest.reads, *nest.writes)), strict=True))
    touched = {slot: footprints(nest)[name] for slot, name in slots.items()}
    found = product_of({dim: size for dim, size in nest.dims if size > 1}, touched, col2im)
    assert (found.rows, found.columns, found.summed) == sides
    assert found.repeats == 1


def test_tiles_of_an_unrolling_are_counted_as_if_one_by_one() -> None:
    nest = operator_nest("conv", "N=3,K=7,C=5,OY=4,OX=6,FY=3,FX=1,pad=1", "fp32")
    sizes = {dim: size for dim, size in nest.dims if size > 1}
    touched = {slot: footprints(nest)[name] for slot, name in (("I", "x"), ("W", "w"), ("O", "y"))}
    axes = (Axis("rows", 8, frozenset("W"), systolic=True), Axis("columns", 4, frozenset("I"), systolic=True))
    placed = (("rows", "OX", 4), ("rows", "N", 2), ("columns", "K", 4), ("unit", "C", 2))
    tiling = unrolled_tiling(sizes, touched, axes, tuple(Unrolled(*each) for each in placed))
    expected: Counter[tuple[int, int]] = Counter()
    for x, n, k, _ in itertools.product(range(0, 6, 4), range(0, 3, 2), range(0, 7, 4), range(4)):
        expected[min(4, 6 - x) * min(2, 3 - n), min(4, 7 - k)] += 1
    assert tiling.used == expected
    assert tiling.steps == 3 * 3
    cycles = tiling.cycles(axes, 1, OutputTiles(overhead_cycles=2))
    assert cycles == sum(count * (9 + a + b - 2 + 2) for (a, b), count in expected.items())


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("axes", "rows"), {"size": 4, "reduce": True}, "axis rows adds outputs up"),
        (("axes", "rows"), {"size": 4, "multicast": ["W"]}, "one that multicasts I and one that multicasts W"),
        (("rates", "int8"), {"products_per_cycle": 4, "products_per_step": 6}, "no multiple of products_per_cycle, 4"),
    ],
)
def test_arrays_that_cannot_are_refused(path: tuple[str, str], value: dict[str, Any], message: str) -> None:
    core = ENGINES["cores"]["engines"]
    changed = core | {path[0]: core[path[0]] | {path[1]: value}}
    with pytest.raises(MonetError, match=message):
        describe(ENGINES | {"cores": {"engines": changed}})


def test_runs_meet_as_often_as_if_all_places_were_tried() -> None:
    for first, second in ((1, 1), (4, 4), (4, 9), (9, 9)):
        places = [{(start + word) % 32 for word in range(second)} for start in range(32)]
        met = sum(bool(set(range(first)) & place) for place in places) / 32
        assert bank_conflicts(32, (first, second), 0, 0) == met
    assert bank_conflicts(32, (4,), 9, 3) == 3 * 12 / 32


def test_any_array_multiplies_whole_groups() -> None:
    """33 sums of 40 on 16 outputs × 8 inputs: runs of 32 make 64 of 40, squares of 8 leave 40 and make 40 of 33."""
    rates = {"mxint8": {"energy_j": 1e-13}}
    core = ENGINES["cores"]["engines"] | {"output_tiles": None, "rates": rates, "compute_area_m2": 1e-6}
    core |= {"axes": {"outputs": {"size": 16, "multicast": ["I"]}, "inputs": {"size": 8, "reduce": True}}}
    array = resolve(describe(ENGINES | {"cores": {"engines": core}})).cores[0].core
    nest = operator_nest("linear", "N=2,K=33,C=40", "fp32")
    for mode, cycles in (("mxint8", 2 * 3 * 8), ("mxint8[8x8]", 8 * 3 * 5)):
        operands = tuple(replace(each, dtype=each.dtype if each.written else mode) for each in nest.operands)
        found = frames(LoopNest(nest.dims, operands), array, None, CostStore())
        assert min(frame.compute_cycles for frame in found) == cycles


def test_whole_groups_are_multiplied() -> None:
    """6 × 5 × 6 on 8×8 units takes one block: 8 products in 8, 2 and 1 cycles and one more, groups of 8×8 or not."""
    core = load_hardware("snax-mx", {"memories.spm.banks": None}).cores[0].core
    nest = operator_nest("linear", "N=6,K=5,C=6", "fp32")
    for mode, cycles in (("mxint8[8x8]", 8), ("mxfp8_e4m3[8x8]", 2), ("mxfp4_e2m1[8x8]", 1), ("mxint8", 32)):
        operands = tuple(replace(each, dtype=each.dtype if each.written else mode) for each in nest.operands)
        frame = frames(LoopNest(nest.dims, operands), core, None, CostStore())[0]
        assert frame.compute_cycles == cycles + 1


def test_banks_hold_at_least_a_word() -> None:
    with pytest.raises(MonetError, match="32,768 banks of 64 bits hold a word each, more than 131,072 bytes"):
        load_hardware("snax-mx", {"memories.spm.banks": 32768})
