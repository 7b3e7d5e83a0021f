"""Bytes of default plans: never fewer than the program says, which a small chain works out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import monet
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.schedule.engine import Scheduler
from monet.schedule.lower_bound.in_order import in_order_traffic, open_places
from monet.schedule.lower_bound.traffic import least_traffic
from monet.schedule.measurement.figures import figures_of
from monet.schedule.planning.default_plan import default_schedule
from monet.schedule.workload import workload_of
from monet.search.mining.templates import load_template


def step(model: str, **more: int) -> Graph:
    """One training step."""
    return monet.training_step(monet.load_model(model, **more), optimizer="sgd")


def chip(kib: int, count: int = 1) -> Accelerator:
    """A chip with so much memory a core."""
    template = load_template("edge")
    space = template.space({"model": template.workload({"model": "mlp"})})
    sizes = {"core_count": count, "rows": 8, "columns": 8, "lanes": 8, "sram_kib": kib, "dram_gbps": 3.2}
    return space.hardware(sizes)


@pytest.mark.parametrize(
    ("model", "more"),
    [
        ("mlp:widths=32-64-16", {"batch": 8}),
        ("bert:layers=1,hidden=32,heads=2", {"sequence": 8, "batch": 2}),
        ("resnet:blocks=1-1,width=8,stem=cifar,classes=10", {"image": 8, "batch": 2}),
    ],
)
@pytest.mark.parametrize(("kib", "count"), [(32, 1), (32, 2), (128, 1)])
def test_default_plans_move_no_less(model: str, more: dict[str, int], kib: int, count: int) -> None:
    scheduler = Scheduler(step(model, **more), chip(kib, count))
    schedule = default_schedule(scheduler)
    least = in_order_traffic(scheduler.workload)
    kept = sum(memory.size_bytes for memory in scheduler.machine.accelerator.memories)
    traffic = least_traffic(scheduler.workload)
    assert least.over_size(kept) <= figures_of(scheduler, schedule).dram_bytes
    assert least.over_size(kept) >= traffic.read + traffic.written
    places = set(open_places(scheduler.workload).tolist())
    number = {operator.op.name: operator.number for operator in scheduler.workload.operators}
    for group in schedule.plan.groups:
        numbers = sorted(number[name] for name in group.operators)
        assert places.isdisjoint(range(numbers[0], numbers[-1]))


def test_less_memory_never_moves_less() -> None:
    least = in_order_traffic(workload_of(step("mlp:widths=64-256-64-10", batch=16)))
    sizes = np.array([0.0, 1e3, 1e4, 1e5, 1e6, 1e9])
    moved = least.over(sizes)
    assert (np.diff(moved) <= 0).all()
    assert moved[0] > 1.2 * moved[-1]
    assert [least.over_size(int(size)) for size in sizes] == pytest.approx(moved)


def test_gradients_wait_for_their_updates() -> None:
    """Two layers without memory: every weight is read forward, backward (but for the first layer) and by its update,
    every gradient is written and read; updates follow at the end, so nothing of it can be left out."""
    graph = step("mlp:widths=64-64-64", batch=1)
    workload = workload_of(graph)
    least = in_order_traffic(workload)
    weights = sum(s.tensor.bytes for s in workload.storages.values() if s.is_root and len(s.tensor.shape) == 2)
    traffic = least_traffic(workload)
    forced = least.over_size(0) - traffic.read - traffic.written
    first = 64 * 64 * 4
    # read again by updates and by backward of the second layer, gradients written and read
    assert forced >= (weights + (weights - first) + 2 * weights) * 0.95
