"""What one checkpoint plan costs to evaluate through the full schedule: the overlay against building and analysing the
recomputed graph. Prints CPU time (least and median over random plans) and ratios.

    python benchmarks/checkpoint_schedule.py [model ...]
"""

from __future__ import annotations

import random
import statistics
import sys
import time

import monet
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import figures_of
from monet.schedule.planning.default_plan import default_plan
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.transforms.checkpoint_plan import CheckpointPlan, saved_tensors
from monet.transforms.recompute import recompute

BUDGET_MS = 10.0  # for ResNet-18
SIZES = {"resnet18": {"batch": 1}, "gpt2-small": {"sequence": 1024}}
WARM, PLANS = 40, 100


def random_plans(names: list[str], count: int) -> list[CheckpointPlan]:
    """Plans that drop a random number of random activations."""
    chance = random.Random(1)
    return [CheckpointPlan.dropping(chance.sample(names, chance.randrange(len(names) + 1))) for _ in range(count)]


def measure(model: str, hardware: str = "edge-tpu") -> None:
    """Print one row."""
    graph = monet.training_step(monet.load_model(model, **SIZES.get(model, {})))
    accelerator = monet.load_hardware(hardware)
    scheduler = Scheduler(graph, accelerator)
    costed = ScheduledCost(scheduler, default_plan(scheduler))
    plans = random_plans([one.storage for one in saved_tensors(graph)], WARM + PLANS)
    for plan in plans[:WARM]:  # a search has seen most operators and their surroundings before
        costed.figures(plan)
    overlay, scratch = [], []
    for plan in plans[WARM:]:  # one after another, as a search has them
        began = time.process_time()
        costed.figures(plan)
        overlay.append(1e3 * (time.process_time() - began))
    for plan in plans[WARM::8]:
        _, schedule = costed.schedule(plan)
        began = time.process_time()
        fresh = Scheduler(recompute(graph, plan), accelerator)
        figures_of(fresh, fresh.schedule(schedule.plan))
        scratch.append(1e3 * (time.process_time() - began))
    least, middle = min(overlay), statistics.median(overlay)
    text = f"{model:12} on {hardware}: {least:6.1f} ms least, {middle:6.1f} ms median of {PLANS} new plans"
    text += f"; a new graph takes {statistics.median(scratch) / middle:.1f} times as long"
    if model == "resnet18":
        text += f"; {middle / BUDGET_MS:.2f} of the budget of {BUDGET_MS:.0f} ms"
    print(text)


if __name__ == "__main__":
    for name in sys.argv[1:] or SIZES:
        measure(name)
