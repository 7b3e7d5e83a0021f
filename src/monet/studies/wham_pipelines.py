"""The distributed workloads of WHAM's study: designs mined for the stages of pipelines, one for all or one for each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.system import load_system
from monet.report.quantities import percent, quantity
from monet.report.stages import choice_values
from monet.report.table import Heading, TextTable
from monet.search.mining.stages.mine_stages import StageMining, mine_stages
from monet.search.mining.stages.problem import StageProblem, fitted
from monet.search.mining.templates import load_template
from monet.sources import cache_directory
from monet.studies.findings import Finding
from monet.studies.study import Options

TEMPLATE, SYSTEM = "wham", "tpu-v4-pod"
# model → stages; the paper's distributed workloads, as remembered
PIPELINES = (("opt-1.3b", 8), ("gpt2-xl", 8), ("gpt3-175b", 32))
# By level of effort: pipelines, evaluations (at least a few for each kind of stage), designs kept of each stage.
PIPELINES_BY_LEVEL = (1, len(PIPELINES), len(PIPELINES))
EVALUATIONS_BY_LEVEL = (1, 1, 60)
TOP_BY_LEVEL = (5, 5, 10)
QUICK, MORE = 5, 8  # highest efforts of the first two levels
MICRO_BATCHES = 4  # for each stage
WORTHWHILE = 1.01


@dataclass(frozen=True)
class Laid:
    """What mining for pipelines came to."""

    findings: list[Finding]
    table: TextTable
    values: dict[str, Any]


def level_of(effort: int) -> int:
    """How much of the study is run: 0 two workloads, the default; 1 all of them with small inputs; 2 all of it."""
    return 0 if effort <= QUICK else 1 if effort <= MORE else 2


def store_of(options: Options, name: str) -> str:
    """Where the study keeps designs that were evaluated, by version of the cost model and by effort."""
    from monet.schedule.evaluation import model_version

    folder = Path(options.store) if options.store else cache_directory() / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    version = model_version().replace("/", "-").replace(" ", "")
    return str(folder / f"wham-{name}-{level_of(options.effort)}-{version}.sqlite")


def pipelines_of(options: Options) -> Laid:
    """Mine for every pipeline, and what the paper asks of them."""
    found: dict[str, StageMining] = {}
    level = level_of(options.effort)
    for model, stages in PIPELINES[: PIPELINES_BY_LEVEL[level]]:
        options.say(f"mining {TEMPLATE} for {stages} stages of {model}")
        problem, notes = fitted(_problem(model, stages))
        found[model] = mine_stages(
            problem, store_of(options, f"{model}-{stages}"), top=TOP_BY_LEVEL[level],
            evaluations=EVALUATIONS_BY_LEVEL[level], jobs=options.jobs, resume=True, notes=notes,
        )  # fmt: skip
    values = {model: _values(each) for model, each in found.items()}
    return Laid([_unlike(found), _kept(found)], _table(found), values)


def _problem(model: str, stages: int) -> StageProblem:
    template, system = load_template(TEMPLATE), load_system(SYSTEM)
    workload = template.workload({"model": model, "optimizer": "adam"})
    plan = ParallelPlan(pipeline=stages)
    return StageProblem(template, "model", workload, system, plan, MICRO_BATCHES * stages, template.limits)


def _values(found: StageMining) -> dict[str, Any]:
    chosen = found.chosen
    return {
        "plan": found.problem.plan.to_dict(),
        "homogeneous": choice_values(found, chosen.homogeneous),
        "heterogeneous": choice_values(found, chosen.heterogeneous),
        "by_top": [list(row) for row in chosen.by_top],
        "evaluations": len(found.records),
        "cpu_seconds": found.cpu_seconds,
    }


def _unlike(found: dict[str, StageMining]) -> Finding:
    """One design per stage against one for all."""
    gains, said = {}, []
    for model, each in found.items():
        one, many, least = each.chosen.homogeneous, each.chosen.heterogeneous, each.chosen.thrifty
        if one is None or many is None or least is None:
            continue
        gains[model] = many.throughput / one.throughput
        power = 1 - least.tdp_w / one.tdp_w
        said.append(f"{model} {percent(gains[model] - 1)} (1 % slower: {percent(power)} less power at full use)")
    reason = "stages of equal layers want the same design; only the first (table) and the last (head) differ"
    text = f"more throughput: {', '.join(said)}; {reason}"
    holds = bool(gains) and max(gains.values()) > WORTHWHILE
    return Finding("a design for each stage against one for all", "a question of the paper, figure unread", text, holds,
                   {"gain": gains})  # fmt: skip


def _kept(found: dict[str, StageMining]) -> Finding:
    """More designs kept of each stage against one."""
    gains = {model: each.chosen.by_top[-1][0] / each.chosen.by_top[0][0] for model, each in found.items()}
    kept = max(len(each.chosen.by_top) for each in found.values())
    said = ", ".join(f"{model} {percent(gain - 1)}" for model, gain in gains.items())
    reason = "the best design of the slowest stage is already near the best of all where stages are alike"
    text = f"one design for all, {kept} kept instead of 1: {said}; {reason}"
    return Finding("several designs kept of each stage (top-k)", "k above 1 helps, figure unread", text,
                   max(gains.values()) > WORTHWHILE, {"gain": gains})  # fmt: skip


def _table(found: dict[str, StageMining]) -> TextTable:
    rows = []
    for model, each in found.items():
        plan, one, many = each.problem.plan, each.chosen.homogeneous, each.chosen.heterogeneous
        if one is None or many is None:
            continue
        values = one.designs[0].values
        rows.append(
            (
                model, f"{plan.pipeline} × {plan.tensor}", quantity(one.throughput, "/s"),
                quantity(many.throughput, "/s"), quantity(one.perf_per_tdp, "/J"), quantity(many.perf_per_tdp, "/J"),
                str(len(each.records)), f"{each.cpu_seconds:.0f} s",
                ", ".join(f"{name} {value}" for name, value in values.items()),
            )
        )  # fmt: skip
    heads = ("model", "stages × tensor", "one for all", "one per stage", "per TDP", "per TDP", "evaluated", "CPU",
             Heading("design for all", "prose"))  # fmt: skip
    return TextTable("Pipelines", heads, rows)
