"""The outcome of a checkpoint search through the schedule: as plain values for JSON, and as tables for the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from monet.report.checkpoint import counts, fine_percent
from monet.report.columns import Column, rows_table
from monet.report.quantities import joules, nbytes, seconds
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.search.checkpoint.scheduled_search import Point, ScheduledFront

MOST_ROWS = 24  # of the front on a terminal; all of it is in the JSON


def point_values(front: ScheduledFront, point: Point, method: str) -> dict[str, Any]:
    """One plan. ``gap`` is repeated work above the least that its kept bytes are proved to need; the latency of a
    schedule has no such proof, so ``proved_optimal`` is false. ``static`` says which costs that add up the plan is an
    exact optimum of, and under how many kept bytes."""
    figures = dataclasses.asdict(point.figures)
    static = [
        {
            "cost": optimum.cost,
            "budget_bytes": optimum.choice.budget,
            "proved_optimal": optimum.choice.proved,
            "gap": optimum.choice.gap,
            "found_by": optimum.choice.found_by,
        }
        for optimum in front.optima.get(point.plan, ())
    ]
    return {
        "method": method,
        "plan": point.plan.to_dict(),
        "fused": point.fused,
        **figures,
        "feasible": point.figures.dram_peak_bytes <= front.dram_capacity_bytes,
        "recompute_over_forward": point.work_share,
        "proved_optimal": False,
        "gap": front.gap(point),
        "static": static,
        "peak": {"operator": point.figures.peak_operator, "bytes": point.figures.memory_peak_bytes},
    }


def summary(costed: ScheduledCost, front: ScheduledFront, chosen: Point, method: str) -> dict[str, Any]:
    """Everything worth keeping of a search; the chosen plan's figures stand at the top."""
    _, schedule = costed.schedule(chosen.plan, chosen.fused)
    free = front.free
    front_method = method if method in ("ga", "exact") else "baseline"
    named = {baseline.plan: name for name, baseline in front.baselines} if front_method == "baseline" else {}
    return {
        "model": costed.graph.name,
        "hardware": costed.scheduler.machine.accelerator.name,
        **point_values(front, chosen, method),
        "dram_capacity_bytes": front.dram_capacity_bytes,
        "keep_all_bytes": front.plain.figures.kept_bytes,
        "plain": point_values(front, front.plain, "keep-all"),
        "free": point_values(front, free, front_method) if free else None,
        "front": [point_values(front, point, named.get(point.plan, front_method)) for point in front.front],
        "baselines": [point_values(front, baseline, name) for name, baseline in front.baselines],
        "alone": [
            {"storage": name, **dataclasses.asdict(point.figures), "recompute_over_forward": point.work_share}
            for name, point in front.single_drops
        ],
        "exact": [
            {
                "budget_bytes": optimum.budget,
                "kept_bytes": optimum.kept_bytes,
                "recompute_over_forward": optimum.share,
                "bound": optimum.bound / optimum.forward_cost,
                "proved_optimal": optimum.proved,
            }
            for optimum in front.exact
        ],
        "evaluated": front.evaluated,
        "interrupted": front.interrupted,
        "schedule_plan": schedule.plan.to_dict(),
    }


def change(value: float, plain: float) -> str:
    """Against the plain step, in per cent."""
    return f"{100 * (value / plain - 1):+.2f} %" if plain else ""


def thinned(front: Sequence[Mapping[str, Any]], most: int = MOST_ROWS) -> list[Mapping[str, Any]]:
    """An even choice of a long front, ends included."""
    if len(front) <= most:
        return list(front)
    return [front[round(i * (len(front) - 1) / (most - 1))] for i in range(most)]


def shortage(values: Mapping[str, Any]) -> str:
    """Says so if the plain step does not fit into DRAM; else empty."""
    short = values["plain"]["dram_peak_bytes"] - values["dram_capacity_bytes"]
    return f"\nkeeping everything does not fit: DRAM is {nbytes(short)} short" if short > 0 else ""


def _columns(plain: Mapping[str, Any]) -> tuple[Column[tuple[str, Mapping[str, Any]]], ...]:
    """A plan by its name, and its figures against the plain step."""

    def against(label: str, key: str) -> Column[tuple[str, Mapping[str, Any]]]:
        return Column(label, "", lambda row: change(row[1][key], plain[key]))

    return (
        Column("", "", lambda row: row[0]),
        Column("peak", "B", lambda row: row[1]["memory_peak_bytes"]),
        Column("kept", "B", lambda row: row[1]["kept_bytes"]),
        against("latency", "latency_s"),
        against("energy", "energy_j"),
        against("DRAM traffic", "dram_bytes"),
        Column("again", "", lambda row: fine_percent(row[1]["recompute_over_forward"])),
        Column("above least", "", lambda row: f"{100 * row[1]['gap']:.2f}"),
        Column("peak in", "", lambda row: row[1]["peak_operator"], holds="words"),
    )


def render(values: Mapping[str, Any]) -> RenderableType:
    """The summary as terminal tables."""
    plain, front = values["plain"], values["front"]
    budget = f", budget {nbytes(values['budget_bytes'])}" if values.get("budget_bytes") is not None else ""
    head = Text.assemble(
        (f"{values['model']} on {values['hardware']}", "bold"),
        f"  {seconds(plain['latency_s'])}, {joules(plain['energy_j'])}; activations peak at "
        f"{nbytes(plain['memory_peak_bytes'])} in {plain['peak_operator']}, {nbytes(plain['kept_bytes'])} "
        f"kept{budget}\n",
        ("chosen: ", "bold"),
        f"{counts(values['plan'])}; peak {nbytes(values['memory_peak_bytes'])} in {values['peak_operator']}, "
        f"{seconds(values['latency_s'])} ({change(values['latency_s'], plain['latency_s'])}), "
        f"{joules(values['energy_j'])} ({change(values['energy_j'], plain['energy_j'])})\n",
        free_line(values),
        shortage(values),
        static_line(values),
        "\nInterrupted: the best so far." if values["interrupted"] else "",
        ("\npeak: activations alive at one time, in DRAM and on chip; again: repeated FLOPs of the forward pass, and "
         "points above the least that the kept bytes are proved to need", "dim"),
    )  # fmt: skip
    rows = thinned([plan for plan in front if plan["plan"] != values["plan"]])
    of = {"exact": " among exact static optima", "ga": ""}.get(values["front"][0]["method"], " among baselines")
    title = f"Front of memory, latency and energy{of}: {len(rows)} of {len(front)} plans, {values['evaluated']} tried"
    columns, plans = _columns(plain), [("chosen", values), *(("", plan) for plan in rows)]
    beside = [
        (baseline["method"] + ("" if baseline["feasible"] else " (exceeds DRAM)"), baseline)
        for baseline in values["baselines"]
    ]
    made = rows_table(title, columns, plans, lambda row: "bold" if row[0] else "")
    blocks: list[RenderableType] = [head, Text(), made, Text(), rows_table("Baselines", columns, beside)]
    if values.get("joint"):
        blocks += [Text(), rows_table("Fusion and checkpointing in turn", JOINT, enumerate(values["joint"], 1))]
    return Group(*blocks)


WHAT = {"flops": "repeated FLOPs", "time": "time of what is repeated, as the plain schedule has it,"}


def static_line(values: Mapping[str, Any]) -> str:
    """What is exact about a chosen static optimum, and what is not; empty for other plans."""
    if not values["static"]:
        return ""
    exact = "; ".join(
        f"least {WHAT[optimum['cost']]} in {nbytes(optimum['budget_bytes'])} kept ("
        + (f"proved, {optimum['found_by']})" if optimum["proved_optimal"] else f"to {100 * optimum['gap']:.3f} points)")
        for optimum in values["static"]
    )
    return (
        f"\nexact is the static choice: {exact}\nnot exact are its latency, energy and peak: measured through the "
        f"schedule, {values['evaluated']} schedules of static optima compared; another plan may be faster"
    )


JOINT: tuple[Column[tuple[int, Mapping[str, Any]]], ...] = (
    Column("round", "n", lambda turn: turn[0]),
    Column("checkpointed", "s", lambda turn: turn[1]["latency_s"]),
    Column("peak", "B", lambda turn: turn[1]["memory_peak_bytes"]),
    Column("fused again", "s", lambda turn: turn[1]["fused_latency_s"]),
    Column("peak", "B", lambda turn: turn[1]["fused_memory_peak_bytes"]),
    Column("taken", "", lambda turn: turn[1]["taken"], holds="words"),
    Column("groups", "n", lambda turn: turn[1]["groups"]),
)


def free_line(values: Mapping[str, Any]) -> str:
    """What memory can be had at no loss of latency."""
    free, plain = values["free"], values["plain"]
    if free is None:
        return f"no plan of {values['evaluated']} lowers memory without loss of latency"
    saved = plain["memory_peak_bytes"] - free["memory_peak_bytes"]
    return (
        f"at no loss of latency: {nbytes(saved)} less ({change(free['latency_s'], plain['latency_s'])} latency, "
        f"{change(free['energy_j'], plain['energy_j'])} energy)"
    )
