"""What joint mining found, as plain values and as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from monet.hardware.drawing import parameter_text
from monet.report.quantities import percent, quantity
from monet.report.table import Heading, TextTable
from monet.search.hardware.record import Record
from monet.search.mining.joint import Combination, JointMining

MOST_SHOWN = 8


def summary(found: JointMining) -> dict[str, Any]:
    """Plain values of everything: what ``--json`` writes."""
    problem, best = found.problem, found.best
    return {
        "template": problem.template.name,
        "method": "joint",
        "metric": problem.metric,
        "limits": {"area_mm2": problem.limits.area_mm2, "tdp_w": problem.limits.tdp_w, "floor": problem.floor or None},
        "workloads": {name: workload.to_json() for name, workload in problem.workloads.items()},
        "joint": {name: list(values) for name, values in found.options.items()},
        "best": design_values(found, best) if best else None,
        "gap": found.gap,
        "evaluations": len(found.records),
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
        "choices": [_combination(found, each) for each in found.combinations],
        "steps": [
            {"step": step.number, "evaluations": step.evaluations, "choice": step.combination, "did": step.did,
             "best": step.best if math.isfinite(step.best) else None}
            for step in found.steps
        ],
        "front": [design_values(found, record) for record in found.front()],
        "ranked": [design_values(found, record) for record in found.ranked[:MOST_SHOWN]],
        "interrupted": found.interrupted,
    }  # fmt: skip


def _combination(found: JointMining, each: Combination) -> dict[str, Any]:
    search = each.search
    return {
        "options": dict(each.options),
        "state": each.state,
        "why": each.why,
        "evaluations": len(search.evaluated) if search else 0,
        "least_bound": each.lowest if search and math.isfinite(each.lowest) else None,
        "best": _own_best(found, each),
        "on_best_design": on_best_design(found, each),
        "gap": search.gap if search else None,
        "standing": search.standing() if search else {},
        "cut_by": dict(search.cut_by) if search else {},
    }


def _own_best(found: JointMining, each: Combination) -> float | None:
    """The best cost per sample that was found with these options."""
    mine = [record for record in found.ranked if _options(found, record) == dict(each.options)]
    return found.cost(mine[0]) if mine else None


def on_best_design(found: JointMining, each: Combination) -> float | None:
    """The cost per sample of the best design with these options; none if it was not tried with them."""
    if found.best is None:
        return None
    cost = found.costs.get(found.space.key({**found.best.values, **each.options}))
    return cost if cost is not None and math.isfinite(cost) else None


def _options(found: JointMining, record: Record) -> dict[str, Any]:
    return {name: record.values[name] for name in found.options}


def design_values(found: JointMining, record: Record) -> dict[str, Any]:
    """One evaluated design with its options."""
    rates = _rates(found, record)
    return {
        "parameters": {name: value for name, value in record.values.items() if name not in found.options},
        "choice": _options(found, record),
        "throughput": mean_rate(found, record),
        "area_mm2": record.metrics["area_mm2"],
        "tdp_w": record.metrics["full_use_power_w"],
        "cost": found.cost(record),
        "workloads": {
            name: {
                "throughput": rates[name],
                "latency_s": record.metrics[f"{name}.latency_s"],
                "energy_j": record.metrics[f"{name}.energy_j"],
                "memory_bytes": record.metrics[f"{name}.memory_bytes"],
            }
            for name in rates
        },
    }


def _rates(found: JointMining, record: Record) -> dict[str, float]:
    return {name: count / record.metrics[f"{name}.latency_s"] for name, count in found.workloads(record).items()}


def mean_rate(found: JointMining, record: Record) -> float:
    """Samples per second, of several workloads their geometric mean by weight."""
    weights = found.problem.goal.weights
    logs = [weight * math.log(rate) for weight, rate in zip(weights, _rates(found, record).values(), strict=True)]
    return math.exp(sum(logs) / sum(weights))


def chosen_text(found: JointMining, record: Record) -> str:
    """The options on one line."""
    return ", ".join(f"{name} {value or 'usual'}" for name, value in _options(found, record).items())


# --- tables -----------------------------------------------------------------------------------------------------------


def headline(found: JointMining) -> list[str]:
    """A few lines that say what was found, how, and how sure it is."""
    best = found.best
    if best is None:
        return ["no design was evaluated"]
    each = ", ".join(f"{name} {quantity(rate, 'samples/s')}" for name, rate in _rates(found, best).items())
    cut = sum(one.state == "cut" for one in found.combinations)
    head = f"{found.problem.template.name}, {found.problem.metric}"
    proved = "proved the best" if found.gap <= 0 else f"nothing is better by more than {percent(found.gap)}"
    return [
        f"{head}: {chosen_text(found, best)}; {parameters_text(found, best)}",
        f"  {each}; {best.metrics['area_mm2']:.1f} mm², {best.metrics['full_use_power_w']:.3g} W at full use",
        f"  {len(found.combinations)} combinations, {cut} cut without a schedule; {len(found.records)} evaluations, "
        f"{found.seconds:.1f} s ({found.cpu_seconds:.1f} s of CPU)",
        f"  {proved}, by bounds over default plans",
    ]


def parameters_text(found: JointMining, record: Record) -> str:
    """The design on one line."""
    known = [each for each in found.space.parameters if each.name not in found.options]
    return ", ".join(f"{each.name} {parameter_text(each.path, record.values[each.name])}" for each in known)


def combinations_table(found: JointMining) -> TextTable:
    """What became of every combination."""
    rows, best = [], found.cost(found.best) if found.best else math.inf
    for each in found.combinations:
        own, same = _own_best(found, each), on_best_design(found, each)
        least = each.lowest / best if each.search and math.isfinite(each.lowest) else None
        rows.append(
            (
                *(str(value or "usual") for value in each.options.values()),
                each.state,
                str(len(each.search.evaluated)) if each.search else "0",
                f"{own / best:.3g}×" if own else "",
                f"{same / best:.3g}×" if same else "",
                f"{least:.3g}×" if least is not None else "",
                each.why,
            )
        )
    headings: tuple[Heading | str, ...] = (
        *found.options,
        "",
        "evaluated",
        "best of it",
        "on the best design",
        "bound",
        Heading("why", "prose"),
    )
    return TextTable("Combinations; costs per sample over the best's", headings, rows)


def steps_table(found: JointMining) -> TextTable:
    """The search step by step."""
    rows = [(str(step.number), str(step.evaluations), step.combination, step.did) for step in found.steps]
    headings = ("step", "evaluated", Heading("combination", "words"), Heading("what was done", "prose"))
    return TextTable("Steps", headings, rows)


def designs_table(found: JointMining, title: str, records: Sequence[Record]) -> TextTable:
    """Designs with their options."""
    rows = [
        (
            str(number),
            *(str(value or "usual") for value in _options(found, record).values()),
            f"{found.cost(record) / found.cost(found.ranked[0]):.3g}×",
            f"{record.metrics['area_mm2']:.1f} mm²",
            f"{record.metrics['full_use_power_w']:.3g} W",
            ", ".join(dict.fromkeys(found.limits(record).values())),
            parameters_text(found, record),
        )
        for number, record in enumerate(records, 1)
    ]
    headings: tuple[Heading | str, ...] = (
        "",
        *found.options,
        "cost",
        "area",
        "TDP",
        "limit",
        Heading("design", "prose"),
    )
    return TextTable(title, headings, rows)
