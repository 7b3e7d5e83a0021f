"""What mining found, as plain values and as tables for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from monet.hardware.drawing import parameter_text
from monet.report.quantities import percent, quantity, seconds, times
from monet.report.table import Heading, TextTable
from monet.search.hardware.record import Record
from monet.search.mining.comparison import Beside
from monet.search.mining.finalists import Finalist
from monet.search.mining.mine import Mining, samples

MOST_SHOWN = 8


def summary(found: Mining, beside: Sequence[Beside] = (), last: Sequence[Finalist] = ()) -> dict[str, Any]:
    """Plain values of everything: what ``--json`` writes."""
    problem, best = found.problem, found.best
    return {
        "template": problem.template.name,
        "method": found.method,
        "metric": problem.metric,
        "limits": {"area_mm2": problem.limits.area_mm2, "tdp_w": problem.limits.tdp_w, "floor": problem.floor or None},
        "workloads": {name: workload.to_json() for name, workload in problem.workloads.items()},
        "best": design_values(found, best) if best else None,
        "gap": found.gap,
        "evaluations": len(found.records),
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
        "designs": {"in the template": found.space.size, **(found.search.standing() if found.search else {})},
        "cut_by": dict(found.search.cut_by) if found.search else {},
        "ranked": [design_values(found, record) for record in found.ranked[:MOST_SHOWN]],
        "front": [design_values(found, record) for record in found.front()],
        "finalists": [
            {
                "parameters": dict(each.record.values),
                "gain": each.gain,
                "workloads": {
                    name: {
                        "latency_s": each.record.metrics[f"{name}.latency_s"],
                        "searched_latency_s": each.searched.metrics[f"{name}.latency_s"],
                        "searched_energy_j": each.searched.metrics[f"{name}.energy_j"],
                    }
                    for name in problem.workloads
                },
            }
            for each in last
        ],
        "beside": [
            {"name": each.name, "cost_over_best": each.cost / found.cost(best), **design_values(found, each.record)}
            for each in beside
            if best
        ],
        "notes": list(found.notes),
        "interrupted": found.interrupted,
    }


def design_values(found: Mining, record: Record) -> dict[str, Any]:
    """One evaluated design."""
    names, rates = tuple(found.problem.workloads), throughputs(found, record)
    return {
        "parameters": dict(record.values),
        "throughput": rates[names[0]] if len(names) == 1 else mean_rate(found, record),
        "area_mm2": record.metrics["area_mm2"],
        "tdp_w": record.metrics["full_use_power_w"],
        "cost": found.cost(record),
        "limited_by": limit_of(found, record),
        "workloads": {
            name: {
                "throughput": rates[name],
                "latency_s": record.metrics[f"{name}.latency_s"],
                "energy_j": record.metrics[f"{name}.energy_j"],
                "bound_s": found.bound(record).steps[name].latency_s,
            }
            for name in names
        },
    }


def throughputs(found: Mining, record: Record) -> dict[str, float]:
    """Samples per second by workload."""
    workloads = found.problem.workloads
    return {name: samples(workloads[name]) / record.metrics[f"{name}.latency_s"] for name in workloads}


def mean_rate(found: Mining, record: Record) -> float:
    """Weighted geometric mean of samples per second."""
    total, mean = sum(found.problem.goal.weights), 1.0
    for weight, rate in zip(found.problem.goal.weights, throughputs(found, record).values(), strict=True):
        mean *= rate ** (weight / total)
    return mean


def limit_of(found: Mining, record: Record) -> dict[str, Any]:
    """What holds a design back: what takes longest by the bounds of its slowest workload, and its distance from that;
    and how much of each limit it uses."""
    design, limits = found.bound(record), found.problem.limits
    name = max(design.steps, key=lambda name: design.steps[name].latency_s)
    step = design.steps[name]
    return {
        "what": step.limit,
        "share": step.latency_s / record.metrics[f"{name}.latency_s"],
        "area": record.metrics["area_mm2"] / limits.area_mm2 if limits.area_mm2 else None,
        "power": record.metrics["full_use_power_w"] / limits.tdp_w if limits.tdp_w else None,
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def headline(found: Mining) -> list[str]:
    """A few lines that say what was found, how, and how sure it is."""
    best = found.best
    if best is None:
        return ["no design was evaluated"]
    rate = throughputs(found, best)
    each = ", ".join(f"{name} {quantity(value, 'samples/s')}" for name, value in rate.items())
    area, power = best.metrics["area_mm2"], best.metrics["full_use_power_w"]
    lines = [
        f"{found.problem.template.name}, {found.problem.metric}: {parameters_text(found, best)}",
        f"  {each}; {area:.1f} mm², {power:.3g} W at full use",
        f"  {len(found.records):,} evaluations of {found.space.size or 0:,} designs, {found.seconds:.1f} s "
        f"({found.cpu_seconds:.1f} s of CPU)",
    ]
    lines += [f"  {note}" for note in found.notes]
    if found.gap is not None:
        proved = (
            "proved the best of the template"
            if found.gap <= 0
            else f"no design is better by more than {percent(found.gap)}"
        )
        lines.append(f"  {proved}, by bounds over all {'default ' if found.problem.in_order else ''}plans")
    return lines


def parameters_text(found: Mining, record: Record) -> str:
    """The parameters of a design on one line."""
    known = found.space.parameters
    return ", ".join(f"{each.name} {parameter_text(each.path, record.values[each.name])}" for each in known)


def designs_table(found: Mining, title: str, records: Sequence[Record]) -> TextTable:
    """Designs with their figures, parameters and what limits each."""
    known, rows = found.space.parameters, []
    for number, record in enumerate(records, 1):
        limit = limit_of(found, record)
        rows.append(
            (
                str(number),
                quantity(mean_rate(found, record), "/s"),
                f"{record.metrics['area_mm2']:.1f} mm²",
                f"{record.metrics['full_use_power_w']:.3g} W",
                *(parameter_text(each.path, record.values[each.name]) for each in known),
                f"{limit['what']} {percent(limit['share'])}",
            )
        )
    names = (each.name for each in known)
    headings: tuple[Heading | str, ...] = ("", "samples", "area", "TDP", *names, Heading("bound by", "words"))
    return TextTable(title, headings, rows)


def beside_table(found: Mining, beside: Sequence[Beside]) -> TextTable:
    """Hand-made designs, and one mined for inference, on the same evaluator and within the same limits."""
    best, rows = found.best, []
    assert best is not None
    for each in beside:
        figures = each.record.metrics
        rows.append(
            (
                each.name,
                quantity(mean_rate(found, each.record), "/s"),
                f"{figures['area_mm2']:.1f} mm²",
                f"{figures['full_use_power_w']:.3g} W",
                times(each.cost / found.cost(best)),
                "; ".join(text for text in (parameters_text(found, each.record), each.about) if text),
            )
        )
    headings = ("design", "samples", "area", "TDP", "cost of best's", Heading("", "prose"))
    return TextTable("Beside it, scaled to the same limits", headings, rows)


def finalists_table(found: Mining, last: Sequence[Finalist]) -> TextTable:
    """The best designs with searched fusion. What is proved is about default plans, so these may change places."""
    rows = []
    for number, each in enumerate(last, 1):
        after = replace(each.record, metrics=each.searched.metrics)
        rows.append(
            (
                str(number),
                quantity(mean_rate(found, each.record), "/s"),
                quantity(mean_rate(found, after), "/s"),
                percent(each.gain),
                parameters_text(found, each.record),
            )
        )
    headings = ("", "default plan", "searched fusion", "gain", Heading("design", "prose"))
    first = min(range(len(last)), key=lambda place: last[place].searched_cost)
    ahead = 1 - last[first].searched_cost / last[0].searched_cost
    more = f"with searched fusion design {first + 1} is {percent(ahead)} ahead of design 1" if first else ""
    return TextTable("Finalists, with their fusion searched", headings, rows, more=more)


def standing_table(found: Mining) -> TextTable:
    """What became of all designs, and which bound cut those that were looked at alone."""
    assert found.search is not None
    rows = [(name, f"{count:,}") for name, count in found.search.standing().items() if count]
    cut = ", ".join(f"{name} {count:,}" for name, count in found.search.cut_by.items() if count)
    return TextTable("Designs", ("", "number"), rows, more=f"cut by: {cut}" if cut else "")


def loss_table(found: Mining) -> TextTable:
    """What each workload loses by a common design, against the best one evaluated for it alone."""
    best, rows = found.best, []
    assert best is not None
    for name in found.problem.workloads:
        alone = min((record for record in found.ranked), key=lambda record: record.metrics[f"{name}.latency_s"])
        common, own = best.metrics[f"{name}.latency_s"], alone.metrics[f"{name}.latency_s"]
        rows.append((name, seconds(common), seconds(own), percent(1 - own / common), parameters_text(found, alone)))
    return TextTable(
        "What each workload loses by the common design",
        ("workload", "common", "own", "loses", Heading("its own design", "prose")),
        rows,
    )
