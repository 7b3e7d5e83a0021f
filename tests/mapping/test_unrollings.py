"""Unrollings over an array: as few steps as any assignment of up to three dimensions to each axis allows."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import pytest

from monet.hardware.core import Core
from monet.mapping.nest.footprint import Footprint
from monet.mapping.nest.spatial import bindings, footprints_of, is_legal, rate_of, unrollings
from tests.mapping.cores import two_level
from tests.mapping.nests import conv

MOST = 3  # dimensions on one axis


def uses_of(sizes: dict[str, int], legal: list[str], room: int) -> Iterator[dict[str, int]]:
    """Every way to put dimensions with factors on an axis."""
    for many in range(MOST + 1):
        for chosen in itertools.combinations(legal, many):
            for factors in itertools.product(*(range(2, min(sizes[dim], room) + 1) for dim in chosen)):
                if math.prod(factors) <= room:
                    yield dict(zip(chosen, factors, strict=True))


def fewest_steps(touched: dict[str, Footprint], sizes: dict[str, int], core: Core) -> int:
    legal = [[dim for dim in sizes if not is_legal(touched, core, axis, dim)] for axis in core.axes]
    each = [list(uses_of(sizes, dims, axis.size)) for axis, dims in zip(core.axes, legal, strict=True)]
    return min(steps_left(sizes, [pair for use in uses for pair in use.items()]) for uses in itertools.product(*each))


def steps_left(sizes: dict[str, int], unrolled: list[tuple[str, int]]) -> int:
    left = dict(sizes)
    for dim, factor in unrolled:
        left[dim] = -(-left[dim] // factor)
    return math.prod(left.values())


@pytest.mark.parametrize("seed", range(40))
def test_no_legal_unrolling_takes_fewer_steps(seed: int) -> None:
    rng = random.Random(seed)
    core = two_level(rng.choice((4, 6, 8, 12)), rng.choice((4, 6, 8, 9)))
    choices = {"N": (1, 2, 3), "G": (1, 2), "K": (1, 2, 5), "C": (1, 2, 3), "OY": (2, 3, 4), "OX": (2, 4)}
    picked = {dim: rng.choice(values) for dim, values in choices.items()}
    nest = conv(rng.choice("yxw"), **picked, FY=rng.choice((1, 3)), FX=rng.choice((1, 2, 3)))
    sizes = {name: size for name, size in nest.dims if size > 1}
    for binding in bindings(nest, core):
        touched = footprints_of(nest, binding)
        best = unrollings(touched, sizes, core, core.modes[0], rate_of(nest, core, binding))[0]
        found = steps_left(sizes, [(unrolling.dim, unrolling.factor) for unrolling in best])
        assert found == fewest_steps(touched, sizes, core), (nest, best)


def test_channels_and_both_taps_of_a_grouped_convolution_share_an_adder_axis() -> None:
    core = two_level(1, 40)
    nest = conv(K=1, C=4, OY=8, FY=3, FX=3)
    sizes = {name: size for name, size in nest.dims if size > 1}
    binding = bindings(nest, core)[0]
    best = unrollings(footprints_of(nest, binding), sizes, core, core.modes[0], rate_of(nest, core, binding))[0]
    assert {unrolling.dim for unrolling in best if unrolling.axis == "b"} == {"C", "FY", "FX"}
