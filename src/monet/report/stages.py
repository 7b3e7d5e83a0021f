"""What mining for a pipeline found, as plain values and as tables."""

from __future__ import annotations

from typing import Any

from monet.hardware.drawing import parameter_text
from monet.report.quantities import percent, quantity, seconds
from monet.report.table import Heading, TextTable
from monet.search.hardware.record import Record
from monet.search.mining.stages.choice import Choice
from monet.search.mining.stages.mine_stages import StageMining

CHOICES = ("homogeneous", "heterogeneous")
WORDS = {"homogeneous": "one for all", "heterogeneous": "one per stage", "thrifty": "1 % slower, least power"}


def summary(found: StageMining) -> dict[str, Any]:
    """Plain values of everything: what ``--json`` writes."""
    problem = found.problem
    return {
        "template": problem.template.name,
        "model": str(problem.workload.model),
        "system": problem.system.name,
        "plan": problem.plan.to_dict(),
        "batch": problem.batch,
        "devices": problem.plan.devices,
        "metric": problem.metric,
        "limits": {"area_mm2": problem.limits.area_mm2, "tdp_w": problem.limits.tdp_w, "floor": problem.floor or None},
        "top": found.top_k,
        **{name: choice_values(found, getattr(found.chosen, name)) for name in WORDS},
        "by_top": [
            {"top": count, "homogeneous": one, "heterogeneous": each}
            for count, (one, each) in enumerate(found.chosen.by_top, 1)
        ],
        "stages": [
            {
                "stages": list(kind.stages),
                "layers": kind.layers,
                "gap": kind.search.gap,
                "designs": [design_values(record, f"stage{kind.kind}") for record in kind.top],
                "standing": kind.search.standing(),
                "cut_by": dict(kind.search.cut_by),
            }
            for kind in found.kinds
        ],
        "evaluations": len(found.records),
        "choices": found.tried,
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
        "notes": list(found.notes),
        "interrupted": found.interrupted,
    }


def choice_values(found: StageMining, choice: Choice | None) -> dict[str, Any] | None:
    """One choice, stage by stage."""
    if choice is None:
        return None
    spans = found.problem.pipeline.spans(choice.cuts)
    return {
        "throughput": choice.throughput,
        "perf_per_tdp": choice.perf_per_tdp,
        "area": choice.area_mm2,
        "area_mm2": choice.area_mm2,
        "tdp_w": choice.tdp_w,
        "step_s": choice.seconds,
        "energy_j": choice.energy_j,
        "cost": choice.cost,
        "cuts": list(choice.cuts),
        "designs": len({record.point for record in choice.designs}),
        "stages": [
            {
                "stage": number,
                "layers": len(span),
                "design": dict(record.values),
                "area_mm2": record.metrics["area_mm2"],
                "tdp_w": record.metrics["full_use_power_w"],
                "forward_s": stage.forward_s,
                "backward_s": stage.backward_s,
                "bubble": bubble,
            }
            for number, (span, record, stage, bubble) in enumerate(
                zip(spans, choice.designs, choice.stages, choice.bubble, strict=True)
            )
        ],
    }


def design_values(record: Record, stage: str) -> dict[str, Any]:
    """A design and what a stage takes on it."""
    return {
        "parameters": dict(record.values),
        "area_mm2": record.metrics["area_mm2"],
        "tdp_w": record.metrics["full_use_power_w"],
        "micro_batch_s": record.metrics[f"{stage}.latency_s"],
    }


# --- tables -----------------------------------------------------------------------------------------------------------


def headline(found: StageMining) -> list[str]:
    """A few lines that say what was found."""
    problem, plan = found.problem, found.problem.plan
    shared = f"{plan.pipeline} stages × tensor {plan.tensor} × data {plan.data} on the network of {problem.system.name}"
    passes = problem.pipeline.micro_batches
    lines = [
        f"{problem.workload.model}, {problem.template.name}, {problem.metric}: {shared}",
        f"  {problem.batch} samples a step, {passes} micro-batches of {plan.micro_batch}; {len(found.records)} designs "
        f"evaluated, {found.tried:,} choices costed, {found.seconds:.1f} s ({found.cpu_seconds:.1f} s of CPU)",
    ]
    lines += [f"  {note}" for note in found.notes]
    one, each = found.chosen.homogeneous, found.chosen.heterogeneous
    if one and each:
        gain = each.throughput / one.throughput - 1
        lines.append(
            f"  one design per stage: {percent(gain)} more throughput than one for all, "
            f"{percent(each.perf_per_tdp / one.perf_per_tdp - 1)} more of it per watt at full use, "
            f"{percent(each.area_mm2 / one.area_mm2)} of the area"
        )
    return lines


def choices_table(found: StageMining) -> TextTable:
    """Both choices side by side."""
    rows = []
    for name in WORDS:
        choice: Choice | None = getattr(found.chosen, name)
        if choice is None:
            continue
        rows.append(
            (
                WORDS[name],
                quantity(choice.throughput, "/s"),
                seconds(choice.seconds),
                quantity(choice.perf_per_tdp, "/J"),
                f"{choice.area_mm2:,.0f} mm²",
                f"{choice.tdp_w:,.4g} W",
                str(len({record.point for record in choice.designs})),
                percent(max(choice.bubble)),
            )
        )
    headings = ("design", "samples", "step", "per TDP", "area", "TDP", "kinds", "most waiting")
    return TextTable("The whole pipeline", headings, rows)


def stages_table(found: StageMining, name: str) -> TextTable:
    """The stages of a choice, like ones in a row together."""
    choice: Choice | None = getattr(found.chosen, name)
    assert choice is not None
    rows, spans = [], found.problem.pipeline.spans(choice.cuts)
    kinds = found.problem.pipeline.kinds
    first = 0
    for last in range(len(spans)):
        following = last + 1
        if following < len(spans) and _alike(choice, spans, kinds, last, following):
            continue
        stage, record = choice.stages[last], choice.designs[last]
        rows.append(
            (
                str(first) if first == last else f"{first}-{last}",
                str(len(spans[last])),
                seconds(stage.forward_s),
                seconds(stage.backward_s),
                f"{record.metrics['area_mm2']:.1f} mm²",
                f"{record.metrics['full_use_power_w']:.3g} W",
                *_parameters(found, record),
            )
        )
        first = following
    names = (each.name for each in found.space.parameters)
    title = f"Stages, {WORDS[name]}"
    headings: tuple[Heading | str, ...] = ("stage", "layers", "forward", "backward", "area", "TDP", *names)
    return TextTable(title, headings, rows)


def _alike(choice: Choice, spans: list[range], kinds: tuple[int, ...], one: int, other: int) -> bool:
    same = choice.designs[one] is choice.designs[other] and len(spans[one]) == len(spans[other])
    return same and kinds[one] == kinds[other]


def _parameters(found: StageMining, record: Record) -> tuple[str, ...]:
    return tuple(parameter_text(each.path, record.values[each.name]) for each in found.space.parameters)


def local_table(found: StageMining) -> TextTable:
    """The best designs of every kind of stage by themselves."""
    rows = []
    for kind in found.kinds:
        stages = str(kind.stages[0]) if len(kind.stages) == 1 else f"{kind.stages[0]}-{kind.stages[-1]}"
        for number, record in enumerate(kind.top, 1):
            rows.append(
                (
                    stages if number == 1 else "",
                    percent(kind.search.gap) if number == 1 else "",
                    str(number),
                    seconds(record.metrics[f"stage{kind.kind}.latency_s"]),
                    f"{record.metrics['area_mm2']:.1f} mm²",
                    *_parameters(found, record),
                )
            )
    names = (each.name for each in found.space.parameters)
    headings: tuple[Heading | str, ...] = ("stage", "gap", "", "micro-batch", "area", *names)
    return TextTable("Best designs of each stage by itself", headings, rows)


def top_table(found: StageMining) -> TextTable:
    """What keeping more designs of each stage brings."""
    both = enumerate(found.chosen.by_top, 1)
    rows = [(str(count), quantity(one, "/s"), quantity(each, "/s")) for count, (one, each) in both]
    return TextTable("Designs kept of each stage", ("top", "one for all", "one per stage"), rows)
