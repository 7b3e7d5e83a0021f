"""Allocation search on Stream's quad-core, step by step from Stream's own search to ours, and how fast it is.

    python benchmarks/allocation.py [effort]

Prints the tables of docs/allocation.md. CPU times are of this process; ratios against Stream are of CPU seconds per
plan (its figures: 21 evaluations of 1.8 s each, on a machine with two cores).
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from monet import load_hardware
from monet.frontends import load_model
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Plan
from monet.schedule.result import Result
from monet.search.allocation import allocate
from monet.search.allocation.bases import allocate_fused
from monet.search.allocation.evaluator import AllocationEvaluator
from monet.search.allocation.published import published_rows
from monet.validation.stream import stream_plan

STREAM_SECONDS_PER_PLAN = 1.8


def main() -> None:
    """Print all tables."""
    effort = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    graph, hardware = load_model("resnet18-stream"), load_hardware("tpu-like-quad")
    scheduler = Scheduler(graph, hardware)
    print("published")
    for row in published_rows(scheduler):
        print(f"  {row.name:58} {row.cycles / 1e6:7.3f} Mcycles {row.energy_j * 1e3:6.3f} mJ")
    print("Stream's plans in our model (nothing stays on chip between its stacks)")
    for name, fused, split in (("layer by layer, K split", 0, 1), ("fused, K split", 1, 1), ("fused, one core", 1, 0)):
        show(name, evaluate(graph, hardware, stream_plan(graph, bool(fused), bool(split))))
    stacks = replace(stream_plan(graph, True, True), placements={})
    print(f"searches, effort {effort}")
    for name, base, splits in (
        ("its stacks, boundary dram, no splits (what its GA searches)", stacks, False),
        ("its stacks, boundary keep, no splits", replace(stacks, boundary="keep"), False),
        ("its stacks, boundary dram, splits", stacks, True),
        ("its stacks, boundary keep, splits", replace(stacks, boundary="keep"), True),
    ):
        show(name, evaluate(graph, hardware, allocate(scheduler, base, effort=effort, splits=splits).found.plan))
    speed(Scheduler(graph, hardware), effort)


def show(name: str, result: Result) -> None:
    """One row: time, energy, traffic, and what cores and links do."""
    levels, clock = result.energy_breakdown.by_level, result.hardware_summary.clock_hz
    tensor = [row for row in result.cores if row.kind == "matrix"]
    busy = [row.busy_s * clock / 1e6 for row in tensor]
    between = [row for row in result.links if row.name not in ("bus", "dram")]
    moved = sum(row.bytes for row in between)
    print(
        f"  {name:58} {result.cycles / 1e6:7.3f} Mcycles {result.energy_j * 1e3:6.3f} mJ "
        f"(DRAM {levels['dram'] * 1e3:.3f}, SRAM {levels['sram'] * 1e3:.3f}, static {levels['static'] * 1e3:.3f}) "
        f"off-chip {result.dram_bytes.total / 1e6:6.2f} MB, arrays busy {min(busy):.3f}-{max(busy):.3f} Mcycles, "
        f"links {moved / 1e6:.2f} MB, busiest {max(row.utilisation for row in between):.0%}"
    )


def speed(scheduler: Scheduler, effort: int) -> None:
    """CPU seconds to the first plan better than the default, to the end, and per plan."""
    began, first = time.process_time(), 0.0
    default = scheduler.schedule(Plan()).timed.makespan / scheduler.machine.ticks_per_second

    def watch(stage: str, evaluator: AllocationEvaluator) -> None:
        nonlocal first
        if not first and evaluator.best is not None and evaluator.best_figures.latency_s < default:
            first = time.process_time() - began

    watched = allocate_fused(scheduler, "auto", effort=effort, watch=watch)
    total = time.process_time() - began
    show("monet allocate (--fusion auto)", evaluate_found(scheduler, watched.found.plan))
    tried = len(watched.points) + watched.infeasible
    per_plan = total / tried
    print(
        f"first plan better than the default after {first:.1f} CPU s, last after {total:.1f} CPU s; "
        f"{per_plan * 1e3:.1f} ms a plan (at most: {tried:,} of the last search), "
        f"Stream's GA {STREAM_SECONDS_PER_PLAN / per_plan:.0f} times as long"
    )


def evaluate_found(scheduler: Scheduler, plan: Plan) -> Result:
    """The full result of a plan."""
    return evaluate(scheduler.workload.graph, scheduler.machine.accelerator, plan, scheduler=scheduler)


if __name__ == "__main__":
    main()
