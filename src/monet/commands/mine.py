"""``monet mine``: the accelerator to build for some models, under an area and a power limit."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from monet.commands import MOST_SEED
from monet.commands.mine_joint import joint_options, run_joint
from monet.commands.mine_outcome import Outputs, designs_bar
from monet.commands.mine_plans import combinations_of, plan_options, run_plans
from monet.commands.mine_stages import DEFAULT_TOP, run_stages, stage_problem
from monet.commands.options import refuse_unused, with_request
from monet.errors import MonetError
from monet.options import options_of
from monet.processes import usable_cores
from monet.quantities import plain_number
from monet.report.files import check_outputs, store_files
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
from monet.search.mining.finalists import Finalist, finalists_of, with_finalists
from monet.search.mining.methods import check_method, hand_designs, mine_by
from monet.search.mining.mine import Mining, Problem, Watch
from monet.search.mining.mine import mine as mine_template
from monet.search.mining.templates import Limits, Template, load_template, template_names

DEFAULT_EVALUATIONS = 60
DEFAULT_GAP = 0.01
DEFAULT_PATIENCE = 8
DEFAULT_FINALISTS = 2
MOST_JOBS = 4  # processes unless told otherwise; each takes up to a gigabyte


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
    joint: Annotated[list[str] | None, typer.Option("--joint", metavar="NAME=V,V", help="Choose an option of training together with the design: precision=bf16,fp16, checkpoint=none,per-block, batch=4,8; with --stages also of the parallel plan: stages=4,8, tensor=1,2, recompute=none,full. Repeatable.")] = None,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Of random, tpe, nsga2 and spotlight.")] = 0,
    evaluations: Annotated[int, typer.Option(min=1, help="Designs that are scheduled at most.")] = DEFAULT_EVALUATIONS,
    gap: Annotated[float, typer.Option(min=0, max=0.99, help="Stop when no design can be better by more than this share. [default: 0.01]", show_default=False)] = DEFAULT_GAP,
    patience: Annotated[int, typer.Option(min=0, help="Stop after so many designs none of which was better by 1 %, where a proof is out of reach; 0: go on.")] = DEFAULT_PATIENCE,
    finalists: Annotated[int, typer.Option(min=0, max=20, help="Best designs whose fusion is then searched, as monet fuse does.")] = DEFAULT_FINALISTS,
    store: Annotated[str, typer.Option(metavar="FILE", help="SQLite file that keeps every design. [default: none]", show_default=False)] = "",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a store.")] = False,
    jobs: Annotated[int, typer.Option(min=0, help=f"Processes on this machine; does not change the answer. [default: one for each core, at most {MOST_JOBS}]", show_default=False)] = 0,
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write what was found as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write an HTML page: designs, front, limits, what was cut.")] = "",
    design: Annotated[str, typer.Option("--design", metavar="FILE", help="Write the best design as a hardware file: monet run MODEL --hardware FILE.")] = "",
) -> None:  # fmt: skip
    """Mine a template for the accelerator to build for some models, within area and power, and how far from the best it is."""
    if resume and not store:
        raise MonetError("--resume: which store? give --store FILE")
    jobs = jobs or min(MOST_JOBS, usable_cores())
    _check_method(method, seed, gap, patience)
    check_outputs(
        {**store_files(store, "-fused", "-inference"), "--report": report, "--design": design}, {"--json": json}
    )
    if stages or requests[0].system:
        refuse_unused("with --stages, which finds several designs", {"--design": design})
    else:
        refuse_unused("without --stages", {"--top": top, "--per-stage": per_stage, "--homogeneous": homogeneous})
    _check_one_search(stages, joint, patience, finalists)
    problem = _problem(load_template(template), requests, area, power, metric, floor, only or [], weight or [])
    outputs, effort = Outputs(json, report, design), dict[str, Any](evaluations=evaluations, jobs=jobs, resume=resume)
    with _kept(store) as path:
        if stages or requests[0].system:
            _check_stages(requests, stages, method, per_stage and homogeneous, baselines, inference)
            if joint:
                refuse_unused("with --joint", {"--per-stage": per_stage, "--homogeneous": homogeneous})
            which = ("heterogeneous", "thrifty") if per_stage else ("homogeneous",) if homogeneous else tuple(WORDS)
            rest = {"top": top or DEFAULT_TOP, "gap": gap, "outputs": outputs, **effort}
            _mine_stages(problem, requests[0], stages, which, joint or [], path, rest)
        elif joint:
            if method != "bound":
                raise MonetError(f"--method {method!r}: designs and options are mined together by bound")
            refuse_unused("with --joint", {"--baselines": baselines, "--inference-mined": inference})
            options = joint_options(joint, tuple(problem.template.model.parameters))
            run_joint(problem, options, path, gap=gap, outputs=outputs, **effort)
        else:
            how = {"slack": gap, "patience": patience} if method == "bound" else {"seed": seed}
            _mine_one(problem, method, path, baselines, inference, finalists, outputs, {**how, **effort})


def _mine_stages(
    problem: Problem,
    request: SystemRequest,
    stages: int,
    which: tuple[str, ...],
    joint: Sequence[str],
    path: str,
    rest: dict[str, Any],
) -> None:
    """Designs for a pipeline, with ``joint`` together with options of its plan."""
    name, workload = next(iter(problem.workloads.items()))
    asked = problem.template, name, workload, request, stages, problem.limits, problem.metric, problem.floor
    if not joint:
        pipeline, notes = stage_problem(*asked)
        run_stages(pipeline, notes, path, which=which, **rest)
        return
    run_plans(tuple(combinations_of(*asked, plan_options(joint))), path, **rest)


def _mine_one(
    problem: Problem,
    method: str,
    path: str,
    hand: bool,
    inference: bool,
    finalists: int,
    outputs: Outputs,
    effort: dict[str, Any],
) -> None:
    """A design for one device: searched for, its finalists fused, others beside it."""
    jobs = effort["jobs"]
    with _display() as watch:
        if method == "bound":
            start = tuple(hand_designs(problem, problem.space()).values()) if hand else ()
            found = mine_template(problem, path, start=start, watch=watch, **effort)
        else:
            found = mine_by(method, problem, path, watch=watch, **effort)
        searched = time.monotonic()
        last = finalists_of(found, path, finalists, jobs)
        found = with_finalists(found, last, time.monotonic() - searched)
        beside = beside_of(found, path, jobs, hand=hand, inference=inference)
    outputs.hand_over(
        summary=lambda: summary(found, beside, last),
        page=(lambda path: write_mining(path, found, beside, last)) if found.best else None,
        tables=lambda: _print(found, beside, last),
        interrupted=found.interrupted,
        best=(found.space, found.best),
    )


def _check_method(method: str, seed: int, gap: float, patience: int) -> None:
    """A method, and what has no effect on it."""
    check_method(method)
    if method == "bound":
        refuse_unused("with --method bound, which draws nothing at random", {"--seed": seed})
        return
    unused: dict[str, object] = {"--gap": gap != DEFAULT_GAP, "--patience": patience != DEFAULT_PATIENCE}
    refuse_unused(f"with --method {method}, which proves nothing", unused)


def _check_one_search(stages: int, joint: Sequence[str] | None, patience: int, finalists: int) -> None:
    """What has no effect on pipelines and options; 0 asks for what is done anyway."""
    if stages or joint:
        unused: dict[str, object] = {"--patience": patience not in (0, DEFAULT_PATIENCE)}
        unused["--finalists"] = finalists not in (0, DEFAULT_FINALISTS)
        refuse_unused(f"with {'--stages' if stages else '--joint'}", unused)


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
    if len(requests) == 1:
        refuse_unused("on the mean of one model", {"--weight": weights})
    if any(weight <= 0 for weight in weights):
        raise MonetError(f"--weight {min(weights):g}: above 0 is needed")
    for flag, given in (("--area", area), ("--power", power), ("--floor", floor)):
        if given is not None and not math.isfinite(given):
            raise MonetError(f"{flag} {given}: a finite number is needed")
    template = template.with_ranges(_ranges(ranges)) if ranges else template
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
    stem = Path(model.partition(":")[0]).stem
    word = "".join(letter if letter.isalnum() else "_" for letter in stem if letter not in "'\"")
    word = word if word[:1].isalpha() and word not in ("training", "inference") else f"model_{word}"
    return word if word not in taken else f"{word}_{len(taken) + 1}"


def _ranges(texts: Sequence[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for text in texts:
        name, values = _range(text)
        if name in found:
            raise MonetError(f"--range {text!r}: {name} is given twice")
        found[name] = values
    return found


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
    with designs_bar("bounding all designs") as tell:

        def watch(done: int, most: int, best: float, gap: float) -> None:
            said = f"best {best:.4g}, at most {percent(gap)} from the optimum" if best < float("inf") else "none yet"
            tell(done, most, said)

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
