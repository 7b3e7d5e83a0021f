"""The fusion search: CPU time against its budgets, and what it finds against 2,000 random legal plans.

python benchmarks/fusion.py [resnet18-cifar] [gpt2-small] [random]

Random plans are asked for by name: they take a quarter of an hour, as each has groups that must be mapped for it alone.
"""

from __future__ import annotations

import random
import sys
import time

from rich.console import Console
from rich.progress import track

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.search.fusion.evaluation import FusionEvaluator
from monet.search.fusion.search import FoundFusion, FusionSettings, find_fusion
from monet.search.fusion.structure import structure_of
from monet.search.fusion.traffic import baseline_of
from monet.search.progress import SearchProgress
from monet.training.step import training_step
from random_fusion_plans import random_plan

# model, batch, budget of the whole search and of the first plan better than the default, seconds on two cores
CASES = (("resnet18-cifar", 4, 60.0, 5.0), ("gpt2-small", 1, 120.0, 0.0))
RANDOM = 2000


def scheduler_of(model: str, batch: int) -> Scheduler:
    scheduler = Scheduler(training_step(load_model(model, batch=batch)), load_hardware("edge-tpu"))
    scheduler.schedule(Plan())  # kernels compiled or loaded
    return scheduler


def timed(model: str, batch: int, budget: float, first_budget: float) -> FoundFusion:
    scheduler = scheduler_of(model, batch)
    began, best = time.process_time(), list[tuple[float, float]]()

    def watch(now: SearchProgress) -> None:
        if now.best:
            best.append((time.process_time() - began, now.best.latency_s))

    found = find_fusion(scheduler, FusionSettings(), watch=watch)
    took = time.process_time() - began
    default = found.plans["default"][1].latency_s
    first = next((at for at, latency in best if latency < default * (1 - 1e-9)), float("nan"))
    print(f"{model} batch {batch}: {took:.1f} s of CPU, {took / budget:.2f} of the budget of {budget:.0f} s")
    if first_budget:
        print(f"  first plan better than the default after {first:.1f} s, {first / first_budget:.2f} of the budget")
    for name, (_, figures) in found.plans.items():
        against = figures.latency_s / found.plans["unfused"][1].latency_s
        print(
            f"  {name:8} {1e3 * figures.latency_s:10.3f} ms  {against:.3f}× unfused  {figures.dram_bytes / 1e6:9.1f} MB"
        )
    print(f"  {found.schedules} schedules, {found.census}")
    print(f"  rank correlation {found.correlation:.2f}, {found.correlation_of_best:.2f} among the better half")
    return found


def against_random(found: FoundFusion, model: str, batch: int) -> None:
    scheduler = scheduler_of(model, batch)
    base = found.plans["unfused"][0]
    of, baseline = structure_of(scheduler.workload), baseline_of(scheduler, scheduler.schedule(base))
    rng, evaluator = random.Random(0), FusionEvaluator(scheduler, "latency", 6)
    costs = []
    for _ in track(range(RANDOM), "random plans", console=Console(stderr=True)):
        costs.append(evaluator.cost(random_plan(of, baseline, base, 6, rng)))
    costs.sort()
    legal = [one for one in costs if one < float("inf")]
    best, middle, ours = 1e3 * legal[0], 1e3 * legal[len(legal) // 2], 1e3 * found.plans["found"][1].latency_s
    print(f"{RANDOM} random legal plans, {len(legal)} with a schedule: best {best:.3f} ms, middle {middle:.3f} ms")
    print(f"  found {ours:.3f} ms, {ours / best:.3f}× the best of them")


def main() -> None:
    wanted = sys.argv[1:] or [case[0] for case in CASES]
    for model, batch, budget, first in CASES:
        if model not in wanted and not (model == CASES[0][0] and "random" in wanted):
            continue
        found = timed(model, batch, budget, first)
        if "random" in wanted and model == CASES[0][0]:
            against_random(found, model, batch)


if __name__ == "__main__":
    main()
