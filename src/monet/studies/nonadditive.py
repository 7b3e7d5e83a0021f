"""Recomputation costs do not add up: pairs of activations, dropped together against the sum of each alone.

Through the full schedule, dropping one activation changes what lies on chip and when, and two dropped together share
operators that are repeated. Programmes with linear costs miss both (the paper's argument for a genetic search).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from monet.report.html.study import Panel, figure, table
from monet.report.table import TextTable
from monet.search.checkpoint.scheduled_search import CheckpointEvaluator, workers
from monet.studies.checkpointing import HARDWARE, MODEL, PRECISION, costed_step
from monet.studies.study import Options, Outcome
from monet.transforms.checkpoint_plan import CheckpointPlan, saved_tensors
from monet.transforms.checkpoint_problem import problem_of

SHOWN = 12  # pairs in the table, half from each end


def run(options: Options) -> Outcome:
    """Cost every pair of the largest activations."""
    costed = costed_step()
    saved = saved_tensors(costed.graph)
    largest = sorted(saved, key=lambda tensor: (-tensor.bytes, tensor.storage))[: 6 + 2 * options.effort]
    names = [tensor.storage for tensor in saved if tensor in largest]
    asked: list[tuple[str, ...]] = [(), *((name,) for name in names), *combinations(names, 2)]
    options.say(f"{len(asked)} plans through the schedule")
    with workers(costed, options.jobs) as executor:
        evaluator = CheckpointEvaluator(costed, problem_of(costed.graph), executor)
        found = evaluator.all([(CheckpointPlan.dropping(dropped), True) for dropped in asked])
    points = {key: point.figures for key, point in zip(asked, found, strict=True) if point}
    return outcome(pairs(points, names), names)


def pairs(points: Mapping[tuple[str, ...], Any], names: list[str]) -> dict[str, Any]:
    """Changes of latency and energy, as shares of the plain step: alone, together, and together above the sum."""
    plain, changes = points[()], []
    for first, second in combinations(names, 2):
        both = points.get((first, second))
        if both is None or (first,) not in points or (second,) not in points:
            continue
        row: dict[str, Any] = {"pair": [first, second]}
        for what in ("latency_s", "energy_j", "dram_bytes", "memory_peak_bytes"):
            base = getattr(plain, what)
            each = [getattr(points[(name,)], what) / base - 1 for name in (first, second)]
            joint = getattr(both, what) / base - 1
            row[what] = {"alone": each, "sum": sum(each), "joint": joint, "joint_minus_sum": joint - sum(each)}
        changes.append(row)
    differ = [row for row in changes if abs(row["latency_s"]["joint_minus_sum"]) > 1e-6]
    return {
        "model": MODEL,
        "hardware": HARDWARE,
        "precision": PRECISION,
        "plain": {"latency_s": plain.latency_s, "energy_j": plain.energy_j},
        "activations": names,
        "pairs": changes,
        "pairs_not_additive": len(differ),
        "largest_latency_below_sum": min((row["latency_s"]["joint_minus_sum"] for row in changes), default=0.0),
        "largest_latency_above_sum": max((row["latency_s"]["joint_minus_sum"] for row in changes), default=0.0),
        "sign_changes": sum(_changes_sign(row["latency_s"]) for row in changes),
    }


def _changes_sign(changes: Mapping[str, float]) -> bool:
    """Whether the sum says slower and the pair is faster, or the other way round."""
    return changes["sum"] * changes["joint"] < 0


def outcome(values: Mapping[str, Any], names: list[str]) -> Outcome:
    """Table and heat maps of the study."""
    changes = sorted(values["pairs"], key=lambda row: row["latency_s"]["joint_minus_sum"])
    shown = changes if len(changes) <= SHOWN else changes[: SHOWN // 2] + changes[-SHOWN // 2 :]
    heads = ("activations", "sum of latencies", "together", "difference", "energy: difference", "DRAM: difference")
    cells = [
        (
            " + ".join(row["pair"]),
            *(f"{100 * row['latency_s'][key]:+.3f} %" for key in ("sum", "joint", "joint_minus_sum")),
            *(f"{100 * row[key]['joint_minus_sum']:+.3f} %" for key in ("energy_j", "dram_bytes")),
        )
        for row in shown
    ]
    made = TextTable(
        f"{values['pairs_not_additive']} of {len(changes)} pairs cost another latency than the sum of both; for "
        f"{values['sign_changes']} the sum has the wrong sign",
        heads,
        cells,
    )
    facts = (
        f"{values['pairs_not_additive']} of {len(changes)} pairs are not additive in latency",
        f"from {100 * values['largest_latency_below_sum']:+.2f} to {100 * values['largest_latency_above_sum']:+.2f} % "
        "of the step against the sum",
        f"wrong sign of the sum for {values['sign_changes']} pairs",
    )
    panels = (
        Panel("Latency: together less the sum", "Blue: cheaper together than the sum of both says; red: dearer.",
              figure=heat_map(values, names, "latency_s"), height_px=620),
        Panel("Energy: together less the sum", figure=heat_map(values, names, "energy_j"), height_px=620),
        Panel("The pairs that differ most", body=table(heads, cells)),
    )  # fmt: skip
    return Outcome("Recomputation costs do not add up: ResNet-18 on edge-tpu", values, (made,), facts, panels)


def heat_map(values: Mapping[str, Any], names: list[str], figure_name: str) -> dict[str, Any]:
    """Pairs of activations, coloured by the joint cost less the sum, in per cent of the plain step."""
    place = {name: number for number, name in enumerate(names)}
    grid: list[list[float | None]] = [[None] * len(names) for _ in names]
    for row in values["pairs"]:
        first, second = (place[name] for name in row["pair"])
        grid[first][second] = grid[second][first] = 100 * row[figure_name]["joint_minus_sum"]
    data = {
        "type": "heatmap", "x": names, "y": names, "z": grid, "zmid": 0, "colorscale": "RdBu", "reversescale": True,
        "colorbar": {"title": {"text": "% of the step"}},
        "hovertemplate": "%{x} + %{y}: %{z:+.3f} % against the sum<extra></extra>",
    }  # fmt: skip
    axis = {"tickfont": {"size": 10}}
    return figure([data], margin={"l": 190, "r": 20, "t": 20, "b": 150}, xaxis=axis, yaxis=axis)
