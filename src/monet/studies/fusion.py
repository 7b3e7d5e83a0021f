"""Fusion by length of groups: ResNet-18 training on the 4×4 edge template, limits 1 to 8, against the manual plan.

The paper (arXiv 2603.15002, its figure of fusion strategies) reports for ResNet-18 on 3×32×32 images that automatic
fusion of groups of at most six operators is about 15 % faster and 12 % lower in energy than manual fusion, that four is
still better than manual, and that more than six bring nothing. Batch 4 is that of its released training graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.processes import workers
from monet.report.html.study import Panel, axis, figure, table
from monet.report.quantities import joules, nbytes, seconds
from monet.report.table import Heading, TextTable
from monet.schedule.engine import Scheduler
from monet.schedule.lower_bound.bound import bounds_of
from monet.search.fusion.search import FusionSettings, find_fusion
from monet.studies.study import Options, Outcome
from monet.training.step import training_step

MODEL, HARDWARE, BATCH = "resnet18-cifar", "edge-tpu", 4
LIMITS = range(1, 9)
PUBLISHED = {"latency": -0.15, "energy": -0.12}  # at limit 6, against manual
AT = 6
TITLE = "Fusion by length of groups"
SOURCE = "MONET (arXiv 2603.15002), ResNet-18, 3×32×32: about −15 % latency, −12 % energy at limit 6"


def run(options: Options) -> Outcome:
    """Search at every limit, for latency and for energy; in two processes if there are more than one."""
    if options.jobs > 1:
        with workers(len(PUBLISHED), "spawn") as pool:
            futures = [pool.submit(search, objective, options.effort, options.seed) for objective in PUBLISHED]
            parts = [future.result() for future in futures]
        for row in (row for part in parts for row in part["rows"]):
            options.say(_line(row))
    else:
        parts = [search(objective, options.effort, options.seed, options.say) for objective in PUBLISHED]
    values = parts[0] | {"rows": [row for part in parts for row in part["rows"]]}
    values["ours"] = {name: _at(values["rows"], name, AT)[f"{name}_vs_manual"] for name in PUBLISHED}
    return Outcome(TITLE, values, (_table(values),), _facts(values), tuple(_panels(values)))


def search(objective: str, effort: int, seed: int, say: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """All limits for one objective. Mappings are chosen for latency in both, so that only fusion differs."""
    scheduler = Scheduler(training_step(load_model(MODEL, batch=BATCH)), load_hardware(HARDWARE))
    rows, plans, known = list[dict[str, Any]](), dict[str, Any](), list[Any]()
    for limit in LIMITS:
        found = find_fusion(scheduler, FusionSettings(objective, limit, effort, seed), known=known)
        plan, figures = found.within
        known = [plan]  # what a shorter limit allows, a longer one allows too
        plans = {name: cost for name, (_, cost) in found.plans.items() if name != "found"}
        rows.append(
            {
                "objective": objective, "limit": limit, "latency_s": figures.latency_s, "energy_j": figures.energy_j,
                "dram_bytes": figures.dram_bytes, "groups": len(plan.groups),
                "latency_vs_manual": figures.latency_s / plans["manual"].latency_s - 1,
                "energy_vs_manual": figures.energy_j / plans["manual"].energy_j - 1,
                "rank_correlation": None if math.isnan(found.correlation) else found.correlation,
            }
        )  # fmt: skip
        say(_line(rows[-1]))
    bound = bounds_of(scheduler.workload, scheduler.machine.accelerator)
    return {
        "model": MODEL, "hardware": HARDWARE, "batch": BATCH, "limits": list(LIMITS), "rows": rows,
        "references": {
            name: {"latency_s": cost.latency_s, "energy_j": cost.energy_j, "dram_bytes": cost.dram_bytes}
            for name, cost in plans.items()
        },
        "bound": {"latency_s": bound.latency_s, "energy_j": bound.energy_j, "dram_bytes": bound.dram_bytes},
        "published": {"source": SOURCE, "limit": AT, **PUBLISHED},
    }  # fmt: skip


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['objective']}, limit {row['limit']}: {seconds(row['latency_s'])} "
        f"({100 * row['latency_vs_manual']:+.1f} % against manual), {joules(row['energy_j'])} "
        f"({100 * row['energy_vs_manual']:+.1f} %)"
    )


def _at(rows: list[dict[str, Any]], objective: str, limit: int) -> dict[str, Any]:
    return next(row for row in rows if (row["objective"], row["limit"]) == (objective, limit))


def _facts(values: dict[str, Any]) -> tuple[str, ...]:
    return (f"{values['model']}, batch {values['batch']}, one SGD step", f"on {values['hardware']} (4×4 cores)", SOURCE)


def _cells(values: dict[str, Any]) -> list[list[str]]:
    found = []
    for name, cost in values["references"].items():
        found.append(
            ["", name, seconds(cost["latency_s"]), "", joules(cost["energy_j"]), "", nbytes(cost["dram_bytes"]), ""]
        )
    for row in values["rows"]:
        found.append(
            [
                f"for {row['objective']}", f"limit {row['limit']}", seconds(row["latency_s"]),
                f"{100 * row['latency_vs_manual']:+.1f} %", joules(row["energy_j"]),
                f"{100 * row['energy_vs_manual']:+.1f} %", nbytes(row["dram_bytes"]), str(row["groups"]),
            ]
        )  # fmt: skip
    latency, energy = (f"{100 * values['published'][name]:+.0f} %" for name in PUBLISHED)
    found.append(["published", f"limit {AT}", "", latency, "", energy, "", ""])
    return found


def _table(values: dict[str, Any]) -> TextTable:
    headings = [Heading(name, "words" if name in ("objective", "plan") else "figure") for name in HEADS]
    return TextTable(TITLE, headings, _cells(values))


HEADS = ("objective", "plan", "latency", "vs manual", "energy", "vs manual", "off-chip", "groups")


def _panels(values: dict[str, Any]) -> list[Panel]:
    panels = []
    for objective, unit, key in (("latency", "ms", "latency_s"), ("energy", "mJ", "energy_j")):
        rows = [row for row in values["rows"] if row["objective"] == objective]
        limits, manual = [row["limit"] for row in rows], 1e3 * values["references"]["manual"][key]
        unfused = 1e3 * values["references"]["unfused"][key]
        lines: list[dict[str, Any]] = [
            {"name": "found", "x": limits, "y": [1e3 * row[key] for row in rows], "mode": "lines+markers"},
            {"name": "manual", "x": limits, "y": [manual] * len(limits), "mode": "lines", "line": {"dash": "dash"}},
            {"name": "unfused", "x": limits, "y": [unfused] * len(limits), "mode": "lines", "line": {"dash": "dot"}},
            {
                "name": "published: manual less its gain", "x": [AT], "y": [manual * (1 + PUBLISHED[objective])],
                "mode": "markers", "marker": {"symbol": "star", "size": 15},
            },
        ]  # fmt: skip
        drawn = figure(
            [{"type": "scatter"} | line for line in lines],
            xaxis=axis("most operators of a group", dtick=1),
            yaxis=axis(f"{objective} of a step ({unit})"),
        )
        panels.append(Panel(objective.capitalize(), f"Searched for {objective}.", drawn, half=True))
    panels.append(Panel("Figures", SOURCE, body=table(HEADS, _cells(values), names=2)))
    return panels
