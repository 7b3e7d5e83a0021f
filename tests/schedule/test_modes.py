"""An array that goes from one mode to another pays for it, once per change."""

from __future__ import annotations

import itertools

import pytest

from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan

SWITCH = "cores.array.mode_switch_cycles"


def chain(kernels: tuple[int, ...]) -> Graph:
    """Convolutions one after another: 3×3 take the rows of the array for filter rows, 1×1 run filters across."""
    b = GraphBuilder("chain")
    x = b.input("x", (1, 16, 14, 14), "int16")
    for number, size in enumerate(kernels):
        w, pad = b.parameter(f"w{number}", (16, 16, size, size), "int16"), size // 2
        x = b.emit("conv", x, w, stride=(1, 1), padding=((pad, pad), (pad, pad)), dilation=(1, 1), groups=1)
    return b.build([x])


def modes_and_ticks(kernels: tuple[int, ...], cycles: int) -> tuple[list[str], int]:
    scheduler = Scheduler(chain(kernels), load_hardware("eyeriss", {SWITCH: cycles}))
    expanded = scheduler.schedule(Plan()).expanded
    ticks = int(expanded.parts.switching.sum())
    return [one.costs[0].mode for one in expanded.operators], ticks


@pytest.mark.parametrize("kernels", [(3, 3, 3), (3, 1, 3), (1, 3, 3, 1, 1)])
def test_every_change_is_paid_once(kernels: tuple[int, ...]) -> None:
    modes, free = modes_and_ticks(kernels, 0)
    same, paid = modes_and_ticks(kernels, 20_000)
    assert modes == same
    changes = sum(a != b for a, b in itertools.pairwise(modes))
    machine = Scheduler(chain(kernels), load_hardware("eyeriss")).machine
    assert paid - free == changes * machine.ticks(20_000, machine.accelerator.instance("array"))


def test_both_modes_are_used() -> None:
    assert len({mode for kernels in ((3, 1, 3), (1, 3)) for mode in modes_and_ticks(kernels, 0)[0]}) == 2
