"""Activation checkpointing of ResNet-18 through the full schedule: the paper's third result beside ours.

The paper reports up to 13 MB less for 4 % latency and 4 % energy (its figures 11 and 12), and that some plans lower
memory and latency together. It stores activations in fp16. At batch 1 and 224×224 only the CIFAR stem (stride 1, no
pooling) has as much to drop: 13 MB is two of its first stage's activations, 64·224·224 values of two bytes each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.report.checkpoint_schedule import render, summary
from monet.report.html import study as page
from monet.report.html.checkpoint import scheduled_page
from monet.report.table import TextTable
from monet.schedule.engine import Scheduler
from monet.schedule.planning.default_plan import default_plan
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.search.checkpoint.scheduled_search import search_front
from monet.search.genetic import EvolutionSettings
from monet.studies.study import Options, Outcome
from monet.training.step import training_step

SAVED_MB, LATENCY, ENERGY = 13.0, 0.04, 0.04  # MONET (arXiv 2603.15002), figures 11 and 12, as its digests give them
MODEL, HARDWARE, PRECISION = "resnet18-cifar", "edge-tpu", "fp16"
POPULATION, GENERATIONS = 48, 4  # generations for each step of effort


def costed_step() -> ScheduledCost:
    """The paper's step on its accelerator, ready for checkpoint plans."""
    step = training_step(load_model(MODEL, batch=1, image=224), precision=PRECISION)
    scheduler = Scheduler(step, load_hardware(HARDWARE))
    return ScheduledCost(scheduler, default_plan(scheduler))


def run(options: Options) -> Outcome:
    """Search the front and put the published point beside it."""
    costed = costed_step()
    settings = EvolutionSettings(POPULATION, GENERATIONS * options.effort)
    last = [0]

    def watch(count: int) -> None:
        if count >= last[0] + 100:
            last[0] = count
            options.say(f"{count} plans through the schedule")

    front = search_front(costed, seed=options.seed, settings=settings, jobs=options.jobs, watch=watch)
    values = summary(costed, front, front.unbudgeted, "ga") | {"cost": "schedule", "precision": PRECISION}
    return outcome(values | {"published": published(values)})


def published(values: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's point beside ours: what that much memory costs here, and what that cost buys here."""
    plain, front = values["plain"], values["front"]

    def saved(plan: Mapping[str, Any]) -> float:
        return (int(plain["memory_peak_bytes"]) - int(plan["memory_peak_bytes"])) / 1e6

    def price(plan: Mapping[str, Any]) -> tuple[float, float]:
        return plan["latency_s"] / plain["latency_s"] - 1, plan["energy_j"] / plain["energy_j"] - 1

    enough = [plan for plan in front if saved(plan) >= SAVED_MB]
    cheap = [plan for plan in front if price(plan)[0] <= LATENCY and price(plan)[1] <= ENERGY]
    fastest = min(enough, key=lambda plan: plan["latency_s"], default=None)
    thriftiest = min(enough, key=lambda plan: plan["energy_j"], default=None)
    most = max(cheap, key=saved, default=None)
    both = [plan for plan in front if saved(plan) > 0 and price(plan)[0] < 0]

    def point(plan: Mapping[str, Any] | None) -> dict[str, float] | None:
        if plan is None:
            return None
        latency, energy = price(plan)
        return {"saved_mb": saved(plan), "latency": latency, "energy": energy}

    return {
        "paper": {"saved_mb": SAVED_MB, "latency": LATENCY, "energy": ENERGY},
        "as_much_memory_fastest": point(fastest),
        "as_much_memory_least_energy": point(thriftiest),
        "same_price_most_memory": point(most),
        "less_memory_and_faster": point(max(both, key=saved, default=None)),
        "plans_less_memory_and_faster": len(both),
    }


ROWS = (
    ("paper", "paper: memory saved, latency, energy"),
    ("as_much_memory_fastest", "ours: as much memory, fastest"),
    ("as_much_memory_least_energy", "ours: as much memory, least energy"),
    ("same_price_most_memory", "ours: most memory for that price"),
    ("less_memory_and_faster", "ours: most memory at less latency"),
)


def outcome(values: Mapping[str, Any]) -> Outcome:
    """Tables and panels of the study."""
    beside, rows = values["published"], []
    for key, label in ROWS:
        plan = beside[key]
        more = [f"{100 * plan[figure]:+.2f} %" for figure in ("latency", "energy")] if plan else ["", ""]
        rows.append((label, f"{plan['saved_mb']:.2f} MB" if plan else "none", *more))
    heads = ("", "memory saved", "latency", "energy")
    title = "The published point beside ours"
    made = TextTable(title, heads, rows)
    _, facts, panels = scheduled_page(values)
    less = f"{beside['plans_less_memory_and_faster']} plans of the front take less memory and less time"
    first = page.Panel(title, f"{less} than the plain step.", body=page.table(heads, rows))
    whole = "Checkpointing ResNet-18 (CIFAR stem, 224×224, batch 1, fp16) on edge-tpu"
    return Outcome(whole, values, (render({**values, "budget_bytes": None}), made), tuple(facts), (first, *panels))
