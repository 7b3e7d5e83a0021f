"""``monet checkpoint --policies``: the same search in several precisions, with what each does to the gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from monet.commands.options import refuse_unused
from monet.errors import MonetError, OptionError
from monet.graph.graph import Graph
from monet.numerics.gradient_error import gradient_error
from monet.report.columns import Column, rows_table
from monet.report.table import TextTable
from monet.request import Request
from monet.search.pareto import front
from monet.transforms.checkpoint_plan import Impossible
from monet.transforms.precision import precision_named

Find = Callable[[Request, Graph], dict[str, Any]]


def by_policy(request: Request, names: str, find: Find, unused: Mapping[str, object]) -> dict[str, Any]:
    """What ``find`` chooses in each precision of a comma-separated list; ``unused`` options make no sense with it.

    ``on_front``: no other policy keeps less, costs less (repeated work, or latency and energy) and errs less.
    """
    refuse_unused("with --policies", dict(unused), request, "precision")
    listed = list(dict.fromkeys(part.strip() for part in names.split(",") if part.strip()))
    if not listed:
        raise MonetError(f"--policies {names!r}: give names of precision policies, divided by commas")
    for name in listed:
        try:
            precision_named(name)
        except OptionError as error:
            raise MonetError(f"--policies {name!r}: {error.reason}") from None
    reference = replace(request, precision="fp32").graph()
    rows = [_row(replace(request, precision=name), name, find, reference) for name in listed]
    feasible = [row for row in rows if row["feasible"]]
    goals = [key for key in GOALS if all(key in row for row in feasible)]
    if feasible:
        for place in front(np.array([[row[key] for key in goals] for row in feasible], float)):
            feasible[place]["on_front"] = True
    return {"model": reference.name, "objectives": goals, "policies": rows, "feasible": bool(feasible)}


GOALS = ("kept_bytes", "recompute_over_forward", "latency_s", "energy_j", "gradient_error")
SHOWN = ("kept_bytes", "keep_all_bytes", "recompute_over_forward", "latency_s", "energy_j", "plan")


def _row(request: Request, name: str, find: Find, reference: Graph) -> dict[str, Any]:
    step = request.graph()
    row: dict[str, Any] = {"policy": name, "on_front": False, "gradient_error": gradient_error(step, reference)}
    try:
        values = find(request, step)
    except Impossible as error:
        return row | {"feasible": False, "reason": str(error)}
    return row | {"feasible": values["feasible"]} | {key: values[key] for key in SHOWN if key in values}


def table(values: Mapping[str, Any]) -> TextTable:
    """One row for each policy."""
    rows: Sequence[Mapping[str, Any]] = values["policies"]
    columns: list[Column[Mapping[str, Any]]] = [
        Column("policy", "", lambda row: row["policy"]),
        Column("kept", "B", lambda row: row.get("kept_bytes")),
        Column("of", "B", lambda row: row.get("keep_all_bytes")),
        Column("again", "", lambda row: f"{100 * row['recompute_over_forward']:.2f} %" if row["feasible"] else ""),
        Column("latency", "s", lambda row: row.get("latency_s")),
        Column("energy", "J", lambda row: row.get("energy_j")),
        Column("gradient error", "", lambda row: f"{100 * row['gradient_error']:.3g} %"),
        Column("", "", lambda row: "front" if row["on_front"] else row.get("reason", ""), holds="words"),
    ]
    if not any("latency_s" in row for row in rows):
        columns = [column for column in columns if column.label not in ("latency", "energy")]
    title = f"{values['model']}: what each precision keeps, repeats and does to the gradients"
    return rows_table(title, columns, rows, lambda row: "bold" if row["on_front"] else "")
