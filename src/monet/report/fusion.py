"""The outcome of a fusion search: as plain values for JSON, and as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from monet.report.columns import Column, rows_table
from monet.report.info.headline import BOUND_NAMES
from monet.report.quantities import joules, nbytes, percent, seconds
from monet.schedule.engine import Scheduler
from monet.schedule.lower_bound.bound import bounds_of
from monet.schedule.result_rows import Bounds
from monet.search.fusion.search import FoundFusion

UNITS = {"latency": "s", "energy": "J", "edp": "Js"}


def summary(scheduler: Scheduler, found: FoundFusion, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Everything worth keeping of a search."""
    bound, settings = bounds_of(scheduler.workload, scheduler.machine.accelerator), found.settings
    return {
        "model": scheduler.workload.graph.name,
        "hardware": scheduler.machine.accelerator.name,
        "operators": len(scheduler.workload.operators),
        "objective": settings.objective,
        "limit": settings.limit,
        "effort": settings.effort,
        "seed": settings.seed,
        "interrupted": found.interrupted,
        "plans": _plans(found, bound),
        "off_chip": _off_chip(found, bound),
        "candidates": asdict(found.census),
        "partition": {
            "unit": UNITS[settings.objective],
            "additive_cost": found.additive_cost,
            "additive_bound": found.additive_bound,
            "optimal": found.partition.optimal,
            "groups": len(found.partition.chosen),
            "cut_rounds": found.partition.rounds,
        },
        "rank_correlation": _number(found.correlation),
        "rank_correlation_of_best": _number(found.correlation_of_best),
        "ranked_plans": [list(pair) for pair in found.pairs],
        "schedules": found.schedules,
        "plan": found.plans["found"][0].to_dict(),
        "inputs": dict(inputs),
    }


@dataclass(frozen=True, slots=True)
class PlanRow:
    """Figures of one plan, or what no plan is below; None where a figure is not of that kind."""

    name: str
    latency_s: float
    energy_j: float
    edp_js: float
    dram_bytes: float
    dram_peak_bytes: int | None = None
    groups: int | None = None
    fused_operators: int | None = None
    compute_s: float | None = None  # of the bound: its parts
    ports_s: float | None = None
    links_s: float | None = None
    dram_s: float | None = None
    endpoints_s: float | None = None


def _plans(found: FoundFusion, bound: Bounds) -> list[PlanRow]:
    """Figures of every plan compared, and last what no plan is below."""
    plans = []
    for name, (plan, cost) in found.plans.items():
        fused = sum(len(group.operators) for group in plan.groups)
        figures = (cost.latency_s, cost.energy_j, cost.edp, cost.dram_bytes, cost.dram_peak_bytes)
        plans.append(PlanRow(name, *figures, len(plan.groups), fused))
    least = (bound.latency_s, bound.energy_j, bound.latency_s * bound.energy_j, bound.dram_bytes)
    parts = {name: getattr(bound, name) for name in BOUND_NAMES}
    return [*plans, PlanRow("bound", *least, **parts)]


def plan_columns(first: PlanRow) -> tuple[Column[PlanRow], ...]:
    """Figures of a plan, and how they compare to those of ``first``."""

    def against(figure: Callable[[PlanRow], float]) -> Column[PlanRow]:
        return Column("vs unfused", "", lambda row: "" if row is first else change(figure(row), figure(first)))

    return (
        Column("plan", "", lambda row: row.name),
        Column("latency", "s", lambda row: row.latency_s),
        against(lambda row: row.latency_s),
        Column("energy", "J", lambda row: row.energy_j),
        against(lambda row: row.energy_j),
        Column("off-chip", "B", lambda row: row.dram_bytes),
        against(lambda row: row.dram_bytes),
        Column("groups", "n", lambda row: row.groups),
        Column("fused", "n", lambda row: row.fused_operators),
    )


def _off_chip(found: FoundFusion, bound: Bounds) -> dict[str, int]:
    """Bytes that cross to and from DRAM: unfused, found, and what must."""
    return {
        "unfused_bytes": found.plans["unfused"][1].dram_bytes,
        "found_bytes": found.plans["found"][1].dram_bytes,
        "compulsory_bytes": bound.dram_bytes,
        "forced_bytes": bound.forced_bytes,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def render(values: Mapping[str, Any]) -> RenderableType:
    """The comparison, and how it was found."""
    title = Text.assemble(
        (values["model"], "bold"), " on ", (values["hardware"], "bold"),
        f"   {values['operators']} operators, groups of at most {values['limit']}, for {values['objective']}",
    )  # fmt: skip
    by_name = {row.name: row for row in values["plans"]}
    styles = {"found": "bold", "bound": "dim"}
    made = rows_table("", plan_columns(by_name["unfused"]), by_name.values(), lambda row: styles.get(row.name, ""))
    blocks: list[RenderableType] = [title, made, Text()]
    blocks += [Text(line) for line in _lines(values, by_name)]
    return Group(*blocks)


def change(value: float, reference: float) -> str:
    """A figure against another one: −12.3 %."""
    return f"{100 * (value / reference - 1):+.1f} %" if reference else ""


def amount(value: float, unit: str) -> str:
    """A cost in the unit of the objective."""
    return seconds(value) if unit == "s" else joules(value) if unit == "J" else f"{value:.4g} Js"


def facts_of(values: Mapping[str, Any]) -> list[str]:
    """One line on what was searched."""
    return [
        f"{values['operators']} operators",
        f"groups of at most {values['limit']}",
        f"for {values['objective']}",
        f"effort {values['effort']}, seed {values['seed']}",
    ]


def legal_groups(census: Mapping[str, Any]) -> str:
    """How many legal groups were enumerated, and whether there are more."""
    return f"{census['legal']:,}" + ("" if census["complete"] else " (the most promising of more)")


def _lines(values: Mapping[str, Any], by_name: Mapping[str, PlanRow]) -> list[str]:
    off, census, part = values["off_chip"], values["candidates"], values["partition"]
    removable = max(1, off["unfused_bytes"] - off["compulsory_bytes"])
    gone = off["unfused_bytes"] - off["found_bytes"]
    lines = [
        f"Off-chip  {nbytes(off['unfused_bytes'])} unfused, {nbytes(off['found_bytes'])} found, "
        f"{nbytes(off['compulsory_bytes'])} compulsory ({nbytes(off['forced_bytes'])} of it because memories cannot "
        f"keep it): {percent(gone / removable)} of what could go is gone",
        f"Groups    {legal_groups(census)} legal, {census['hopeful']:,} may gain, {census['distinct']:,} distinct, "
        f"{census['costed']:,} costed in {census['schedules']:,} schedules, {census['gaining']:,} gain, "
        f"{census['dominated']:,} of them dominated",
    ]
    if part["groups"]:
        proved = "optimal" if part["optimal"] else f"bound {amount(part['additive_bound'], part['unit'])}"
        cost = amount(part["additive_cost"], part["unit"])
        lines.append(f"Partition {cost} if gains added up ({proved}); not a bound on the schedule")
    if values["rank_correlation"] is not None:
        best = values["rank_correlation_of_best"]
        among = "" if best is None else f" ({best:.2f} among the better half)"
        lines.append(
            f"Trust     rank correlation of additive and scheduled cost {values['rank_correlation']:.2f}{among} "
            f"over {len(values['ranked_plans'])} plans; {values['schedules']:,} schedules in all"
        )
    if "manual" in by_name:
        lines.append(
            f"Against manual: latency {change(by_name['found'].latency_s, by_name['manual'].latency_s)}, "
            f"energy {change(by_name['found'].energy_j, by_name['manual'].energy_j)}"
        )
    return [*lines, *(["Interrupted: the best so far."] if values["interrupted"] else [])]
