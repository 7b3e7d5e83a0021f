"""Strided input gradients in phases: the same products as the scatter, and what moves is what a simulator counts."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest

from monet.graph.loop_nest import LoopNest
from monet.hardware.loading import load_hardware
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.parts import best_parts
from monet.mapping.mapper.search import Target, search
from monet.mapping.nest.cost import frame_cost
from monet.mapping.nest.phases import phases
from monet.mapping.text.operator_arguments import operator_nest
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.operator import unfused
from tests.mapping.cores import two_level
from tests.mapping.nests import conv
from tests.mapping.random_cases import random_frame, random_mapping
from tests.mapping.simulator import simulate


def products(nest: LoopNest) -> Counter[tuple[tuple[int, ...], ...]]:
    """Positions of the three operands at every point that lies inside all of them."""
    found: Counter[tuple[tuple[int, ...], ...]] = Counter()
    names = [name for name, _ in nest.dims]
    for values in itertools.product(*(range(size) for _, size in nest.dims)):
        point = dict(zip(names, values, strict=True))
        at = [
            tuple(sum(factor * point[name] for name, factor in index.terms) + index.offset for index in operand.indices)
            for operand in nest.operands
        ]
        inside = [
            all(0 <= place < size for place, size in zip(places, operand.shape, strict=True))
            for places, operand in zip(at, nest.operands, strict=True)
        ]
        if all(inside):
            found[tuple(at)] += 1
    return found


GEOMETRIES = [(2, 1, 3, 1), (2, 1, 3, 0), (2, 1, 5, 2), (3, 1, 4, 1), (2, 2, 3, 2), (3, 2, 4, 1)]


@pytest.mark.parametrize(("stride", "dilation", "taps", "pad"), GEOMETRIES)
def test_phases_make_every_product_of_the_scatter_once(stride: int, dilation: int, taps: int, pad: int) -> None:
    nest = conv("x", K=2, OY=4, OX=2, FY=taps, FX=taps, stride=stride, dilation=dilation, pad=pad)
    whole, parts = products(nest), phases(nest)
    assert 1 <= len(parts) <= stride**2
    together: Counter[tuple[int, ...]] = Counter()  # of y, which a phase does not rename: how often each is used
    for part in parts:
        at = [operand.name for operand in part.operands].index("y")
        for places, many in products(part).items():
            together[places[at]] += many
    expected: Counter[tuple[int, ...]] = Counter()
    for places, many in whole.items():
        expected[places[2]] += many
    assert together == expected
    parts_of = {name: [next(o for o in part.operands if o.name == name).shape for part in parts] for name in "wx"}
    assert sum(height * width for _, _, height, width in parts_of["w"]) == taps**2  # every tap is in one phase
    reached = {places[0][2:] for places in whole}
    assert sum(height * width for _, _, height, width in parts_of["x"]) == len(reached)  # and so is every position


def test_a_nest_without_stride_or_without_scatter_has_no_phases() -> None:
    assert phases(conv("x", OY=4, FY=3, stride=1)) == ()
    assert phases(conv("y", OY=4, FY=3, stride=2)) == ()
    assert phases(conv("x", K=2, OY=4, OX=4, FY=1, FX=1, stride=2)) == ()  # no two taps meet: each has its place
    assert phases(conv("x", K=2, OY=4, OX=4, FY=2, FX=2, stride=2)) == ()


@pytest.mark.parametrize("seed", range(12))
def test_what_phases_move_is_what_a_simulator_counts(seed: int) -> None:
    rng = random.Random(seed)
    nest = conv("x", K=2, C=rng.choice((1, 2)), OY=3, OX=2, FY=3, FX=rng.choice((2, 3)), stride=2, pad=1)
    core = two_level(w_bytes=1024, o_bytes=1024)
    for part in phases(nest):
        frame = random_frame(rng, part, core)
        mapping = random_mapping(rng, frame)
        found = {(a.level, a.slot, a.flow): a.elements for a in frame_cost(frame, mapping).accesses}
        assert {k: v for k, v in found.items() if v} == {k: v for k, v in simulate(part, core, mapping).items() if v}


def test_phases_are_taken_where_they_are_faster_and_only_there() -> None:
    """On an output-stationary array a strided scatter cannot put positions side by side; its phases can."""
    accelerator, store = load_hardware("fusemax"), CostStore()
    tensor = accelerator.cores[0]
    nest = operator_nest("conv_transpose", "N=1,K=32,C=16,OY=14,OX=14,FY=3,FX=3,stride=2", "bf16")
    found = unfused(nest, tensor.core, border_of(accelerator, tensor), store=store)
    assert found.phases == 4
    scatter = search(nest, tensor.core, store=store)
    together = best_parts(nest, Target(tensor.core), store, phased=True)
    assert together.cost.compute_cycles < scatter.cost.compute_cycles / 8
    assert found.macs == nest.points  # as many as the forward pass, whatever padding the phases leave out
