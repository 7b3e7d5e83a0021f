"""Splits whose pieces fetch operands again are compared by what they fetch."""

from __future__ import annotations

import math
from bisect import bisect_right

import pytest

from monet.errors import MonetError
from monet.frontends import load_model
from monet.graph import Graph, GraphBuilder
from monet.hardware.loading import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Placement, Plan, Split
from monet.schedule.planning.finalists import final_split
from monet.schedule.planning.pieces import least_cycles, piece_cost, piece_cycles
from monet.schedule.planning.splits import Ways, candidates
from monet.training.step import training_step


def product(rows: int, columns: int, inner: int) -> Graph:
    builder = GraphBuilder("product")
    x, w = builder.input("x", (rows, inner), "bf16"), builder.parameter("w", (columns, inner), "bf16")
    return builder.build([builder.emit("linear", x, w, name="product", transpose=False)])


def latency(scheduler: Scheduler, split: Split) -> float:
    cores = scheduler.machine.accelerator.cores[: math.prod(parts for _, parts in split)]
    plan = Plan((), {"product": Placement(tuple(core.name for core in cores), split)}, "dram")
    schedule = scheduler.schedule(plan)
    return schedule.timed.makespan / scheduler.machine.ticks_per_second


def test_pieces_that_keep_an_operand_beat_those_that_fetch_it_again() -> None:
    """Of 256 rows by 512 columns over 256, every PE of simba has room for the weights of 32 columns, but not of 128."""
    scheduler = Scheduler(product(256, 512, 256), load_hardware("simba"))
    (operator,) = scheduler.workload.operators
    cores = next(like for like in scheduler.machine.accelerator.like_cores if like[0].template == "pe")
    poor: Split = (("N", 4), ("K", 4))
    found = final_split(operator, cores, poor, scheduler.costs, 1.0)
    assert found != poor
    assert latency(scheduler, found) < latency(scheduler, poor)


def test_a_split_whose_pieces_fetch_everything_once_stays() -> None:
    scheduler = Scheduler(product(64, 64, 64), load_hardware("edge-tpu"))
    (operator,) = scheduler.workload.operators
    cores = next(like for like in scheduler.machine.accelerator.like_cores if like[0].template == "pe")
    assert final_split(operator, cores, (("N", 16),), scheduler.costs, 1.0) == (("N", 16),)


@pytest.mark.parametrize("hardware", ["simba", "edge-tpu"])
def test_no_split_takes_less_than_arithmetic_and_bytes_alone(hardware: str) -> None:
    """What a split takes at least leaves splits unmapped: it must not be more than what the mapper finds."""
    scheduler = Scheduler(training_step(load_model("resnet18-cifar")), load_hardware(hardware))
    cores = next(like for like in scheduler.machine.accelerator.like_cores if like[0].template == "pe")
    distances = []
    products = {operator.key: operator for operator in scheduler.workload.operators if operator.is_matrix}
    for operator in list(products.values())[::3]:
        for split in list(candidates(operator, 4))[1::3]:
            try:
                cost = piece_cost(operator, cores, split, scheduler.costs, 1.0)
            except MonetError:
                continue
            least = least_cycles(operator, cores, split, scheduler.costs)
            distances.append(piece_cycles(operator, cores, split, cost, scheduler.costs) / least)
    assert len(distances) > 20
    assert min(distances) >= 1 - 1e-9
    assert min(distances) < 1.05  # it is of use


def test_splits_over_fewer_cores_are_the_first_of_those_over_all() -> None:
    scheduler = Scheduler(training_step(load_model("resnet18-cifar")), load_hardware("edge-tpu"))
    for operator in scheduler.workload.operators[:40]:
        ways = Ways.of(operator, 16)
        for count in (1, 2, 4, 8, 16):
            assert ways.splits[: bisect_right(ways.made_for, count)] == tuple(candidates(operator, count))
