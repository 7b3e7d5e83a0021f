"""How graphs, accelerators, results, plans and outcomes of searches look in a notebook: a line, and small tables."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from monet.graph.counts import parameter_count
from monet.hardware.drawing import binary_bytes, facts, grouped_cores, parameter_text
from monet.report.columns import rows_table
from monet.report.graph_summary import summarise, tables_of
from monet.report.html.text_table import table_html
from monet.report.quantities import joules, nbytes, seconds, step_name
from monet.report.table import Heading, TextTable
from monet.report.terminal import PHASES, energy_table, headline_table, operators_table, time_table

MOST = 12  # rows of a table


@dataclass(frozen=True, slots=True)
class View:
    """One line, and the tables below it; ``tables`` are made when they are asked for."""

    line: str
    tables: Callable[[], tuple[TextTable, ...]]


def line(value: object) -> str:
    """A value in one line: its ``repr``."""
    return f"<{type(value).__name__} {_view(value).line}>"


def page(value: object) -> str:
    """A value as HTML of a screen or less."""
    shown = _view(value)
    parts = [f"<p><b>{html.escape(shown.line)}</b></p>"]
    for made in shown.tables():
        parts.append(f"<p>{html.escape(made.title)}</p>" if made.title else "")
        parts.append(table_html(made, "monet"))
    return f'<div style="max-height:36em;overflow:auto">{"".join(parts)}</div>'


def _view(value: object) -> View:
    return VIEWS[type(value).__name__](value)


def _graph(graph: Any) -> View:
    what = "a training step" if graph.loss else "a forward pass"
    said = f"{graph.name}: {what} of {len(graph.ops):,} operators, {parameter_count(graph):,} parameters"
    return View(said, lambda: tuple(tables_of(summarise(graph, 5))))


def _accelerator(accelerator: Any) -> View:
    row = facts(accelerator)
    said = f"{row.name}: {row.cores}; {row.peak}; {row.on_chip} on chip, {row.dram}, {row.area}, {row.node}"

    def tables() -> tuple[TextTable, ...]:
        rows = [
            (
                name,
                str(len(group)),
                f"{group[0].core.units:,}" if group[0].core.units else "",
                str(group[0].core.lanes or ""),
                ", ".join(f"{level.name} {binary_bytes(level.total_bytes)}" for level in group[0].core.levels),
            )
            for name, group in grouped_cores(accelerator).items()
        ]
        return (TextTable("", ("core", "copies", "multipliers", "lanes", Heading("memories", "prose")), rows),)

    return View(said, tables)


def _result(result: Any) -> View:
    said = f"{result.model} on {result.hardware}: "
    if not result.feasible:
        return View(said + f"infeasible: {result.reason.message if result.reason else ''}", lambda: ())
    said += f"{seconds(result.latency_s)}, {joules(result.energy_j)}, {nbytes(result.dram_peak_bytes)} in DRAM"
    return View(
        f"{said}; {step_name(result)}, batch {result.batch}",
        lambda: (
            headline_table(result),
            rows_table("Phases", PHASES, result.phases.items()),
            time_table(result),
            energy_table(result),
            operators_table(result, 5),
        ),
    )


def _plan(plan: Any) -> View:
    fused = sum(len(group.operators) for group in plan.groups)
    said = f"{len(plan.groups)} groups of {fused} operators, {len(plan.placements)} placed, boundary {plan.boundary}"

    def tables() -> tuple[TextTable, ...]:
        rows = [
            (
                str(number),
                ", ".join(group.operators),
                ", ".join(f"{dim} {size}" for dim, size in group.tile),
                group.halo,
            )
            for number, group in enumerate(plan.groups[:MOST], 1)
        ]
        rest = f"{len(plan.groups) - MOST} more" if len(plan.groups) > MOST else ""
        words = [Heading(name, "words") for name in ("operators", "tile", "halo")]
        return (TextTable("", ("group", *words), rows, more=rest),) if rows else ()

    return View(said, tables)


def _checkpoint_plan(plan: Any) -> View:
    counts = Counter(plan.choices.values())
    said = ", ".join(f"{number} {choice}" for choice, number in counts.items()) or "everything kept"

    def tables() -> tuple[TextTable, ...]:
        rows = [(choice, ", ".join(plan.named(choice)[:MOST])) for choice in counts]
        return (TextTable("", ("", Heading("storages", "prose")), rows),) if rows else ()

    return View(said, tables)


def _fusion(found: Any) -> View:
    plan, figures = found.plans["found"]
    against = found.plans["unfused"][1].latency_s
    said = (
        f"{seconds(figures.latency_s)}, {joules(figures.energy_j)}; {100 * (figures.latency_s / against - 1):+.1f} % "
    )
    return View(
        f"{said}latency against unfused, {len(plan.groups)} groups, {found.schedules:,} schedules",
        lambda: (_figures([(name, cost) for name, (_, cost) in found.plans.items()]),),
    )


def _allocation(found: Any) -> View:
    best = found.found.figures
    said = f"{seconds(best.latency_s)}, {joules(best.energy_j)}; {found.tried:,} plans tried"
    return View(said, lambda: (_figures([(one.name, one.figures) for one in (*found.constructive, found.found)]),))


def _figures(plans: list[tuple[str, Any]]) -> TextTable:
    rows = [
        (name, seconds(cost.latency_s), joules(cost.energy_j), nbytes(cost.dram_bytes), nbytes(cost.dram_peak_bytes))
        for name, cost in plans
    ]
    return TextTable("", ("plan", "latency", "energy", "off-chip", "DRAM peak"), rows)


def _checkpoint_front(front: Any) -> View:
    plain = front.plain.figures
    said = (
        f"{len(front.front)} plans of {front.evaluated:,} tried; plain step {seconds(plain.latency_s)}, "
        f"{nbytes(plain.memory_peak_bytes)} of activations"
    )

    def tables() -> tuple[TextTable, ...]:
        rows = [
            (
                nbytes(point.figures.memory_peak_bytes),
                seconds(point.figures.latency_s),
                joules(point.figures.energy_j),
                f"{100 * point.work_share:.2f} %",
            )
            for point in front.front[:MOST]
        ]
        return (TextTable("", ("peak", "latency", "energy", "again"), rows),)

    return View(said, tables)


def _checkpoint_outcome(outcome: Any) -> View:
    proof = "proved optimal" if outcome.proved_optimal else f"within {100 * outcome.gap:.2f} points"
    again = f"{100 * outcome.recompute_over_forward:.2f} % of the forward pass again"
    said = f"{nbytes(outcome.kept_bytes)} kept, {again}, {proof}"
    return View(said, lambda: _checkpoint_plan(outcome.plan).tables())


def _exploration(found: Any) -> View:
    front = found.front()
    points = f"{len(found.records):,} points, {len(found.feasible):,} with figures"
    said = f"{found.space.name}: {points}, front of {len(front)}"

    def tables() -> tuple[TextTable, ...]:
        from monet.search.hardware.exploration import objective_values
        from monet.search.hardware.objectives import shown

        parameters = found.space.parameters
        values = objective_values(found.space, front[:MOST], found.objectives)
        rows = [
            (
                str(number),
                *(shown(goal, value) for goal, value in zip(found.objectives, row, strict=True)),
                *(parameter_text(parameter.path, record.values[parameter.name]) for parameter in parameters),
            )
            for number, (record, row) in enumerate(zip(front[:MOST], values, strict=True), 1)
        ]
        names = (*(goal.text for goal in found.objectives), *(parameter.name for parameter in parameters))
        return (TextTable("", ("", *names), rows),)

    return View(said, tables)


def _distributed(result: Any) -> View:
    from monet.report import distributed

    said = f"{distributed.title_of(result)}: "
    if not result.feasible:
        return View(said + f"infeasible, {result.reason.message if result.reason else 'unknown reason'}", lambda: ())
    said += f"{seconds(result.latency_s)}, {joules(result.energy_j)}, {distributed.plan_words(result)}"
    stages = rows_table("Stages, a device of each", distributed.STAGES, result.stages[:MOST])
    return View(said, lambda: (distributed.headline(result), distributed.time_table(result), stages))


VIEWS: dict[str, Callable[[Any], View]] = {
    "Graph": _graph,
    "Accelerator": _accelerator,
    "Result": _result,
    "DistributedResult": _distributed,
    "Plan": _plan,
    "CheckpointPlan": _checkpoint_plan,
    "FoundFusion": _fusion,
    "Allocation": _allocation,
    "ScheduledFront": _checkpoint_front,
    "Outcome": _checkpoint_outcome,
    "Exploration": _exploration,
}
