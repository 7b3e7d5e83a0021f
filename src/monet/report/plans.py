"""What mining designs together with parallel plans found, as plain values and as tables."""

from __future__ import annotations

from typing import Any

from monet.report import stages
from monet.report.quantities import quantity
from monet.report.table import Heading, TextTable
from monet.search.mining.stages.plans import PlanMining, Tried

UNITS = {"throughput": "/s", "throughput-per-tdp": "/J", "edp": "/Js"}


def summary(found: PlanMining) -> dict[str, Any]:
    """Plain values: those of the best combination, and all combinations beside it."""
    best = found.best
    return {
        "options": dict(best.options),
        **(stages.summary(best.found) if best.found is not None else {}),
        "combinations": [_values(each) for each in found.tried],
        "evaluations": sum(len(each.found.records) for each in found.tried if each.found),
        "seconds": sum(each.found.seconds for each in found.tried if each.found),
        "cpu_seconds": sum(each.found.cpu_seconds for each in found.tried if each.found),
        "interrupted": found.interrupted,
    }


def _values(each: Tried) -> dict[str, Any]:
    found, choice = each.found, each.choice
    if found is None or choice is None:
        return {"options": dict(each.options), "why": each.why}
    return {
        "options": dict(each.options),
        "plan": found.problem.plan.to_dict(),
        "devices": found.problem.plan.devices,
        "worth": each.worth,
        "choice": stages.choice_values(found, choice),
    }


def headline(found: PlanMining) -> list[str]:
    """What was chosen, and among what."""
    best = found.best
    ran = [each for each in found.tried if each.found is not None]
    return [
        f"{best.text}: the best of {len(found.tried)} combinations of design and plan, {len(ran)} of which can run",
        f"  {sum(len(each.found.records) for each in ran if each.found)} designs evaluated, "
        f"{sum(each.found.seconds for each in ran if each.found):.1f} s "
        f"({sum(each.found.cpu_seconds for each in ran if each.found):.1f} s of CPU); compared by what one device does",
    ]


def plans_table(found: PlanMining) -> TextTable:
    """All combinations, best first; those that cannot run say why."""
    rows = []
    for each in sorted(found.tried, key=lambda one: -one.worth):
        choice = each.choice
        if each.found is None or choice is None:
            rows.append((each.text, "", "", "", "", "", each.why or "no design can run it"))
            continue
        plan, metric = each.found.problem.plan, each.found.problem.metric
        unit = UNITS[metric]
        rows.append(
            (
                each.text, f"{plan.devices:,}", quantity(choice.throughput, "/s"), quantity(each.worth, unit),
                quantity(choice.perf_per_tdp, "/J"), f"{choice.area_mm2:,.0f} mm²",
                ", ".join(f"{name} {value}" for name, value in choice.designs[len(choice.designs) // 2].values.items()),
            )
        )  # fmt: skip
    worth = "a device" if found.best.found and found.best.found.problem.metric == "throughput" else "worth"
    heads = (Heading("options", "words"), "devices", "samples", worth, "per TDP", "area",
             Heading("design of the middle stage, or why not", "prose"))  # fmt: skip
    return TextTable("Combinations of design and plan", heads, rows)
