"""The outcome of a checkpoint search: as plain values for JSON, and as tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from monet.graph.graph import Graph
from monet.report.columns import Column, rows_table
from monet.report.quantities import nbytes
from monet.search.checkpoint.liveness import peak_of
from monet.search.checkpoint.outcome import Outcome
from monet.search.checkpoint.static import PROOF
from monet.transforms.checkpoint_problem import COUNTING, CheckpointProblem

FRONTS = {"exact": "Exact front", "ga": "Front of NSGA-II", "blocks": "Front of chains of blocks"}


def summary(
    step: Graph,
    problem: CheckpointProblem,
    chosen: Outcome,
    front: Sequence[Outcome],
    baselines: Sequence[Outcome],
    budget_bytes: int | None,
    choices: Sequence[str],
) -> dict[str, Any]:
    """Everything worth keeping of a search by repeated work. The chosen plan's figures stand at the top."""
    return {
        "model": step.name,
        "cost": "flops",
        "counting": COUNTING,
        "budget_bytes": budget_bytes,
        "choices": list(choices),
        "forward_work": problem.forward_cost,
        **chosen.to_json(),
        "feasible": True,
        "keep_all_bytes": problem.keep_all_bytes,
        "plain_peak": asdict(peak_of(step)),
        "baselines": [outcome.to_json() for outcome in baselines],
        "front": [outcome.to_json() for outcome in front or [chosen]],
    }


def counts(plan: Mapping[str, Sequence[str]]) -> str:
    """How much a plan does of what."""
    return ", ".join(f"{len(names)} {choice}" for choice, names in plan.items()) or "everything kept"


def fine_percent(share: float) -> str:
    """A share to a hundredth of a point: where the first half of the memory costs a tenth, that is what matters."""
    return f"{100 * share:.2f} %"


def proof(values: Mapping[str, Any]) -> str:
    """What is known about the distance to the optimum."""
    if values["gap"] is None:
        return "–"
    if values["proved_optimal"]:
        return "optimal"
    if values["gap"] < 0.0001:
        return "< 0.01 points"
    return f"≤ {100 * values['gap']:.2f} points"


def _over_time(values: Mapping[str, Any]) -> str:
    """What is proved when the budget bounds the peak."""
    over = values["timeline"]
    means = "" if over["solved_by"] == "chain of blocks" else "proved means that "
    finer = "; nor does any schedule that runs an operator at most twice" if over["proved_for_schedules"] else ""
    return (
        f"the budget bounds the peak, {nbytes(values['plain_peak']['bytes'])} without a plan; {over['nodes']} nodes, "
        f"solved by {over['solved_by']}\n{'proved' if values['proved_optimal'] else 'not proved'}, "
        f"gap {100 * values['gap']:.2f} points; {means}{over['proved_means']}{finer}"
    )


def render(values: Mapping[str, Any]) -> RenderableType:
    """The summary as terminal tables."""
    keep_all = values["keep_all_bytes"]
    budget = f", budget {nbytes(values['budget_bytes'])}" if values.get("budget_bytes") is not None else ""
    head = Text.assemble(
        (f"{values['model']}", "bold"),
        f"  keeps {nbytes(keep_all)} from forward to backward{budget}\n",
        ("chosen: ", "bold"),
        f"{counts(values['plan'])}; {nbytes(values['kept_bytes'])} kept, "
        f"{fine_percent(values['recompute_over_forward'])} of the forward pass again ({proof(values)})\n",
        (f"work: {values['counting']}; proof to {100 * PROOF:.3g} points", "dim"),
    )
    if values.get("memory") == "peak":
        head.append(f"\n{_over_time(values)}", "dim")
    columns: tuple[Column[tuple[str, Mapping[str, Any]]], ...] = (
        Column("", "", lambda row: row[0]),
        Column("kept", "B", lambda row: row[1]["kept_bytes"]),
        Column("of all", "", lambda row: f"{100 * (row[1]['kept_bytes'] / keep_all if keep_all else 0.0):.1f} %"),
        Column("again", "", lambda row: fine_percent(row[1]["recompute_over_forward"])),
        Column("above optimum", "", lambda row: proof(row[1])),
        Column("peak", "B", lambda row: row[1]["peak"]["bytes"]),
        Column("in", "", lambda row: row[1]["peak"]["operator"], holds="words"),
    )
    tables = {"Beside the baselines": [(f"chosen ({values['method']})", values)]}
    tables["Beside the baselines"] += [(baseline["method"], baseline) for baseline in values["baselines"]]
    if len(values["front"]) > 1:
        front = [("chosen" if point["plan"] == values["plan"] else "", point) for point in values["front"]]
        tables = {FRONTS.get(values["front"][-1]["method"], "Front"): front} | tables
    blocks: list[RenderableType] = [head]
    for title, rows in tables.items():
        made = rows_table(title, columns, rows, lambda row: "bold" if row[0].startswith("chosen") else "")
        blocks += [Text(), made]
    return Group(*blocks)
