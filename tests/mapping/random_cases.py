"""Random small nests, cores and mappings."""

from __future__ import annotations

import random

from monet.graph.loop_nest import LoopNest
from monet.hardware.core import OPERANDS, Core
from monet.mapping.cost_store import CostStore
from monet.mapping.mapper.search import frames
from monet.mapping.nest.frame import Frame, Stream
from monet.mapping.nest.mapping import Cut, Loop, Mapping
from tests.mapping.cores import streaming, three_level, two_level
from tests.mapping.nests import backwards, conv, linear, matmul


def random_nest(rng: random.Random, largest: int = 4, most: int = 1500) -> LoopNest:
    while True:
        nest = _nest(rng, largest)
        if 1 < nest.points <= most:
            return nest


def _nest(rng: random.Random, largest: int) -> LoopNest:
    kind = rng.choice(["conv", "conv", "conv", "conv", "linear", "matmul"])

    def size() -> int:
        return rng.choice([1, rng.randint(1, largest), rng.randint(2, largest)])

    if kind == "linear":
        return linear(size(), size(), size())
    if kind == "matmul":
        return matmul(size(), size(), size(), size())
    f, pad = rng.choice([1, 2, 3]), rng.choice([0, 1])
    flip = backwards if rng.random() < 0.2 else lambda nest: nest
    return flip(conv(
        rng.choice(["y", "x", "w"]), N=rng.choice([1, 1, 2]), G=rng.choice([1, 1, 2]), K=size(), C=size(), OY=size(),
        OX=size(), FY=f if pad else rng.choice([1, f]), FX=f, stride=rng.choice([1, 1, 2]),
        dilation=rng.choice([1, 1, 2]), pad=pad if f > 1 else 0,
    ))  # fmt: skip


STREAM = Stream(16.0, 10e-12, 12e-12)


def random_core(rng: random.Random) -> Core:
    if rng.random() < 0.2:
        return streaming(rng.choice([2, 3]), 2, rng.choice([2, 4, 16]))
    if rng.random() < 0.4:
        return three_level(
            rng.choice([24, 64, 256]), double=rng.random() < 0.5, a=rng.choice([1, 2]), b=rng.choice([1, 2])
        )
    products = rng.choice([1, 1, 1, 2])
    least = 1 if products == 1 else 4  # registers must hold the operands of one step
    return two_level(
        rng.choice([1, 2, 3]), rng.choice([1, 2]), rng.choice([least, 4, 16]), rng.choice([2, 4, 8]),
        rng.choice([0, least, 4, 16]), double=rng.random() < 0.3,
        sram_bits=rng.choice([16, 64, 512]), products=products,
    )  # fmt: skip


def random_frame(rng: random.Random, nest: LoopNest, core: Core) -> Frame:
    return rng.choice(list(frames(nest, core, STREAM, CostStore())))


def random_mapping(rng: random.Random, frame: Frame) -> Mapping:
    """Any loop order and any cuts; outermost loops may be ragged. Capacity is not looked at."""
    loops: list[Loop] = []
    for dim, steps in frame.steps.items():
        left, mine = steps, []
        while left > 1:
            trips = rng.randint(2, left)
            if left % trips == 0 or rng.random() < 0.3:
                mine.append(Loop(dim, trips))
                left = -(-left // trips)
        inner = 1
        for loop in mine[:-1]:
            inner *= loop.trips
        if mine:
            mine[-1] = Loop(dim, -(-steps // inner))
        loops += [loop for loop in mine if loop.trips > 1]
    order = list(range(len(loops)))
    rng.shuffle(order)
    # innermost loops of a dimension keep their place below its outer ones
    shuffled = [loops[i] for i in order]
    by_dim: dict[str, list[Loop]] = {}
    for loop in loops:
        by_dim.setdefault(loop.dim, []).append(loop)
    final = []
    for loop in reversed(shuffled):
        final.append(by_dim[loop.dim].pop(0))
    final.reverse()
    cuts = []
    for slot in OPERANDS:
        names = [crossing.level.name for crossing in frame.crossings if crossing.slot == slot]
        places = sorted((rng.randint(0, len(final)) for _ in names), reverse=True)
        cuts += [Cut(slot, name, place) for name, place in zip(names, places, strict=True)]
    return Mapping(frame.mode, frame.binding, frame.unrolled, tuple(final), tuple(cuts))
