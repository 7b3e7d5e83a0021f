"""``monet mine``: the accelerator to build for some models, under an area and a power limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from monet.commands import INTERRUPTED, MOST_SEED
from monet.commands.mine_joint import joint_options, run_joint
from monet.commands.mine_stages import DEFAULT_TOP, run_stages, stage_problem
from monet.commands.options import refuse_unused, with_request
from monet.commands.progress import bars
from monet.errors import MonetError
from monet.options import options_of
from monet.quantities import plain_number
from monet.report.files import check_outputs, write_json
from monet.report.html.mining import write_mining
from monet.report.mining import (
    MOST_SHOWN,
    beside_table,
    designs_table,
    finalists_table,
    headline,
    loss_table,
    standing_table,
    summary,
)
from monet.report.quantities import percent
from monet.report.screen import screen
from monet.report.stages import WORDS
from monet.request import Request
from monet.request.system_request import SystemRequest
from monet.search.hardware.workload import Workload
from monet.search.mining.comparison import Beside, beside_of
from monet.search.mining.finalists import Finalist, finalists_of
from monet.search.mining.methods import check_method, hand_designs, mine_by
from monet.search.mining.mine import Mining, Problem, Watch
from monet.search.mining.mine import mine as mine_template
from monet.search.mining.templates import Limits, Template, load_template, template_names

DEFAULT_EVALUATIONS = 60
DEFAULT_GAP = 0.01
DEFAULT_PATIENCE = 8


@with_request(
    "model",
    "training",
    "checkpoint",
    "schedule",
    "system",
    without=("allocation", "devices", "pipeline", "interleave", "cuts"),
    needs_hardware=False,
    several=True,
    of=SystemRequest,
    system="Preset name or path of a YAML file (monet systems): its network joins the stages of --stages.",
)
def mine(
    requests: list[SystemRequest],
    template: Annotated[str, typer.Option(help=f"{', '.join(template_names())}, or a YAML file.")] = "wham",
    area: Annotated[float | None, typer.Option(min=0, help="Largest chip area, mm². [default: the template's]", show_default=False)] = None,
    power: Annotated[float | None, typer.Option(min=0, help="Largest power at full use, W. [default: the template's]", show_default=False)] = None,
    metric: Annotated[str, typer.Option(help="throughput, throughput-per-tdp or edp.")] = "throughput",
    floor: Annotated[float, typer.Option(min=0, help="Samples per second that every model has to reach.")] = 0.0,
    only: Annotated[list[str] | None, typer.Option("--range", metavar="NAME=V,V", help="Values that a parameter of the template may take: rows=16,32. Repeatable.")] = None,
    weight: Annotated[list[float] | None, typer.Option(help="Weight of a model in the geometric mean, in their order. Repeatable.")] = None,
    method: Annotated[str, typer.Option(help="bound (proves how far it is), wham, random, tpe, nsga2 or spotlight.")] = "bound",
    baselines: Annotated[bool, typer.Option("--baselines", help="Start from hand-made designs, scaled to the limits (TPU-, NVDLA-, A100-like), and compare with them.")] = False,
    inference: Annotated[bool, typer.Option("--inference-mined", help="Also mine for inference, and use that design for these models.")] = False,
    stages: Annotated[int, typer.Option(min=0, help="Mine for a pipeline of so many stages over the network of --system. [default: one device]", show_default=False)] = 0,
    top: Annotated[int, typer.Option(min=0, help=f"Designs kept of each stage for the choice over all stages. [default: {DEFAULT_TOP}]", show_default=False)] = 0,
    per_stage: Annotated[bool, typer.Option("--per-stage", help="Of a pipeline: only one design per stage. [default: also one for all]")] = False,
    homogeneous: Annotated[bool, typer.Option("--homogeneous", help="Of a pipeline: only one design for all stages.")] = False,
    joint: Annotated[list[str] | None, typer.Option("--joint", metavar="NAME=V,V", help="Choose an option of training together with the design: precision=bf16,fp16, checkpoint=none,per-block, batch=4,8. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of random, tpe, nsga2 and spotlight.")] = 0,
    evaluations: Annotated[int, typer.Option(min=1, help="Designs that are scheduled at most.")] = DEFAULT_EVALUATIONS,
    gap: Annotated[float, typer.Option(min=0, max=0.99, help="Stop when no design can be better by more than this share. [default: 0.01]", show_default=False)] = DEFAULT_GAP,
    patience: Annotated[int, typer.Option(min=0, help="Stop after so many designs none of which was better by 1 %, where a proof is out of reach; 0: go on.")] = DEFAULT_PATIENCE,
    finalists: Annotated[int, typer.Option(min=0, max=20, help="Best designs whose fusion is then searched, as monet fuse does.")] = 2,
    store: Annotated[str, typer.Option(metavar="FILE", help="SQLite file that keeps every design. [default: none]", show_default=False)] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a store.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes on this machine.")] = 1,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write what was found as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write an HTML page: designs, front, limits, what was cut.")] = "",
) -> None:  # fmt: skip
    """Mine a template for the accelerator to build for some models, within area and power, and how far from the best it is."""
    if resume and not store:
        raise MonetError("--resume: which store? give --store FILE")
    check_method(method)
    if method != "bound":
        unused: dict[str, object] = {"--gap": gap != DEFAULT_GAP, "--patience": patience != DEFAULT_PATIENCE}
        refuse_unused(f"with --method {method}, which proves nothing", unused)
    else:
        refuse_unused("with --method bound, which draws nothing at random", {"--seed": seed})
    check_outputs({"--report": report}, {"--json": json}, (store,) if store else ())
    if not stages:
        refuse_unused("without --stages", {"--top": top, "--per-stage": per_stage, "--homogeneous": homogeneous})
    problem = _problem(load_template(template), requests, area, power, metric, floor, only or [], weight or [])
    if stages or requests[0].system:
        refuse_unused("with --stages", {"--joint": joint})
        _check_stages(requests, stages, method, per_stage and homogeneous, baselines, inference)
        which = ("heterogeneous", "thrifty") if per_stage else ("homogeneous",) if homogeneous else tuple(WORDS)
        name, workload = next(iter(problem.workloads.items()))
        pipeline, notes = stage_problem(
            problem.template, name, workload, requests[0], stages, problem.limits, metric, floor
        )
        with _kept(store) as path:
            run_stages(
                pipeline, notes, path, top=top or DEFAULT_TOP, which=which, evaluations=evaluations, gap=gap, jobs=jobs,
                resume=resume, json=json, report=report,
            )  # fmt: skip
        return
    if joint:
        if method != "bound":
            raise MonetError(f"--method {method!r}: designs and options are mined together by bound")
        refuse_unused("with --joint", {"--baselines": baselines, "--inference-mined": inference})
        options = joint_options(joint, tuple(problem.template.model.parameters))
        with _kept(store) as path:
            run_joint(
                problem, options, path, evaluations=evaluations, gap=gap, jobs=jobs, resume=resume, json=json,
                report=report,
            )  # fmt: skip
        return
    with _kept(store) as path, _display() as watch:
        if method == "bound":
            by_hand = hand_designs(problem, problem.space()) if baselines else {}
            found = mine_template(
                problem,
                path,
                evaluations=evaluations,
                slack=gap,
                patience=patience,
                jobs=jobs,
                resume=resume,
                start=tuple(by_hand.values()),
                watch=watch,
            )
        else:
            found = mine_by(
                method, problem, path, evaluations=evaluations, seed=seed, jobs=jobs, resume=resume, watch=watch
            )
        last = finalists_of(found, path, finalists, jobs)
        beside = beside_of(found, path, jobs, hand=baselines, inference=inference)
    if json:
        write_json(json, summary(found, beside, last))
    if report and found.best:
        write_mining(report, found, beside, last)
    if json != "-":
        _print(found, beside, last)
    if found.interrupted:
        raise typer.Exit(INTERRUPTED)


def _check_stages(
    requests: Sequence[SystemRequest], stages: int, method: str, both: bool, baselines: bool, inference: bool
) -> None:
    """What does not go with mining for a pipeline."""
    if not stages:
        raise MonetError("--system: is for the stages of a pipeline: give --stages too")
    if len(requests) > 1:
        raise MonetError(f"--stages: one model is mined for a pipeline, {len(requests)} are given")
    if method != "bound":
        raise MonetError(f"--method {method!r}: stages are mined by bound")
    if both:
        raise MonetError("--per-stage, --homogeneous: give one of them, or none for both")
    refuse_unused("with --stages", {"--baselines": baselines, "--inference-mined": inference})


def _problem(
    template: Template,
    requests: Sequence[Request],
    area: float | None,
    power: float | None,
    metric: str,
    floor: float,
    ranges: Sequence[str],
    weights: Sequence[float],
) -> Problem:
    """What is asked for, checked."""
    if weights and len(weights) != len(requests):
        raise MonetError(f"--weight: {len(weights)} given for {len(requests)} models; give one for each, or none")
    if any(weight <= 0 for weight in weights):
        raise MonetError(f"--weight {min(weights):g}: above 0 is needed")
    template = template.with_ranges(dict(_range(text) for text in ranges)) if ranges else template
    own, workloads = template.limits, dict[str, Workload]()
    for number, request in enumerate(requests):
        values = _values(request) | ({"weight": weights[number]} if weights else {})
        workloads[_name(str(request.model), workloads)] = template.workload(values)
    limits = Limits(own.area_mm2 if area is None else area, own.tdp_w if power is None else power)
    problem = Problem(template, workloads, limits, metric, floor)
    _ = problem.goal
    return problem


def _values(request: Request) -> dict[str, Any]:
    """What of a request is not as usual."""
    known = {name: each for name, each in options_of(Request).items() if each.group != "hardware"}
    return {name: getattr(request, name) for name, each in known.items() if getattr(request, name) != each.default}


def _name(model: str, taken: dict[str, Workload]) -> str:
    """A plain word for a model."""
    word = "".join(letter if letter.isalnum() else "_" for letter in Path(model).stem if letter not in "'\"")
    word = word if word[:1].isalpha() and word not in ("training", "inference") else f"model_{word}"
    return word if word not in taken else f"{word}_{len(taken) + 1}"


def _range(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    found = [plain_number(value.strip()) for value in values.split(",") if value.strip()]
    if not equals or not found:
        raise MonetError(f"--range {text!r}: write NAME=VALUE,VALUE, as in rows=16,32")
    return name.strip(), found


@contextmanager
def _kept(store: str) -> Iterator[str]:
    """The store to work with: as named, or one that goes with the run."""
    if store:
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="monet-mine-") as folder:
        yield str(Path(folder) / "designs.sqlite")


@contextmanager
def _display() -> Iterator[Watch]:
    columns = (TextColumn("[bold]designs"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    with bars(*columns, TimeElapsedColumn()) as shown:
        task = shown.add_task("designs", total=None, said="bounding all designs")

        def watch(done: int, most: int, best: float, gap: float) -> None:
            said = f"best {best:.4g}, at most {percent(gap)} from the optimum" if best < float("inf") else "none yet"
            shown.update(task, completed=done, total=most, said=said)

        yield watch


def _print(found: Mining, beside: Sequence[Beside], last: Sequence[Finalist]) -> None:
    console = screen()
    for line in headline(found):
        console.print(line, soft_wrap=True)
    if found.best is None:
        return
    console.print()
    console.print(designs_table(found, "Best designs", found.ranked[:MOST_SHOWN]))
    console.print()
    console.print(designs_table(found, "Front over area", found.front()))
    if last:
        console.print()
        console.print(finalists_table(found, last))
    if beside:
        console.print()
        console.print(beside_table(found, beside))
    if len(found.problem.workloads) > 1:
        console.print()
        console.print(loss_table(found))
    if found.search:
        console.print()
        console.print(standing_table(found))
