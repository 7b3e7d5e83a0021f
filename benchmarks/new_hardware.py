"""CPU milliseconds of a ResNet-18 step on an edge-tpu with a core or a DRAM not seen before, and of steps under plans
not seen before, as JSON (least of some).

python benchmarks/new_hardware.py --plans  (what it finds for these steps, as JSON)
python benchmarks/new_hardware.py < PLANS

Only names that older versions have, too, so that ``schedule.py --against`` can run it on their sources.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

os.environ["MONET_CACHE"] = "off"  # what is new here must not have been mapped by an earlier run

from monet.frontends import load_model
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Plan
from monet.training.step import training_step

REPEATS = 4
ROUNDS = 5  # of all plans
MOVED = 12  # plans that differ in where one operator runs
NEW = {
    "core": ("cores.pe.memories.sram.size_bytes", count(1_900_000, 1000)),
    "DRAM": ("dram.dram.bandwidth_bits_per_cycle", count(65)),
}
STEPS: dict[str, tuple[Callable[[], Graph], str]] = {
    "ResNet-18 step on edge-tpu": (lambda: training_step(load_model("resnet18")), "edge-tpu"),
    "GPT-2 small step on fusemax": (lambda: training_step(load_model("gpt2-small", sequence=1024)), "fusemax"),
}


def spent(function: Callable[[], object]) -> float:
    began = time.process_time()
    function()
    return 1e3 * (time.process_time() - began)


def new_hardware() -> dict[str, float]:
    (name, (build, preset)), *_ = STEPS.items()
    graph = build()
    evaluate(graph, load_hardware(preset))
    found: dict[str, float] = {}
    for fusion in ("none", "auto"):
        for what, (path, values) in NEW.items():
            machines = (load_hardware(preset, {path: next(values)}) for _ in range(REPEATS))
            times = [spent(partial(evaluate, graph, machine, fusion=fusion)) for machine in machines]
            found[f"{name}, new {what}, {fusion}"] = min(times)
    return found


def plans() -> dict[str, Any]:
    """The default plans of the steps."""
    every: dict[str, Any] = {}
    for name, (build, preset) in STEPS.items():
        graph, hardware = build(), load_hardware(preset)
        every |= {
            f"{name}, new plan, {fusion}": evaluate(graph, hardware, fusion=fusion).plan for fusion in ("none", "auto")
        }
    return every


def moved(plan: dict[str, Any]) -> list[Plan]:
    """Plans that differ from one in that an operator alone, another one each, runs on the first of its cores only."""
    grouped = {name for group in plan["groups"] for name in group["operators"]}
    split = [name for name, where in plan["allocation"].items() if name not in grouped and len(where["cores"]) > 1]
    chosen = split[:: max(1, len(split) // MOVED)][:MOVED] or [next(iter(plan["allocation"]))]
    alone = ({name: {"cores": plan["allocation"][name]["cores"][:1]}} for name in chosen)
    return [Plan.from_dict({**plan, "allocation": {**plan["allocation"], **place}}) for place in alone]


def search_over(scheduler: Scheduler, every: list[Plan]) -> None:
    for plan in every:
        scheduler.schedule(plan)


def new_plans(given: dict[str, Any]) -> dict[str, float]:
    """Of a round of plans that differ from each other in two operators, per plan. What operators cost is known."""
    found: dict[str, float] = {}
    for name, (build, preset) in STEPS.items():
        scheduler = Scheduler(build(), load_hardware(preset))
        for what in (what for what in given if what.startswith(name)):
            every = moved(given[what])
            search = partial(search_over, scheduler, every)
            search()
            found[what] = min(spent(search) for _ in range(ROUNDS)) / len(every)
    return found


if __name__ == "__main__" and sys.argv[1:] == ["--plans"]:
    print(json.dumps(plans()))
elif __name__ == "__main__":
    print(json.dumps(new_hardware() | new_plans(json.load(sys.stdin))))
