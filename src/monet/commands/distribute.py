"""``monet distribute``: the best parallel plan of a training step on a system, the front, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from monet.commands import INFEASIBLE
from monet.commands.options import with_request
from monet.commands.progress import counted
from monet.distributed.evaluation import evaluate_plan
from monet.distributed.plan import OFFLOADING, RECOMPUTATION, SHARDING, parallel_plan_text
from monet.errors import MonetError, OptionError, nearest
from monet.processes import usable_cores
from monet.report.distribution import render
from monet.report.files import check_outputs, write_json, write_text
from monet.report.screen import screen
from monet.request.system_request import DEGREES, SystemRequest
from monet.search.distribution.search import OBJECTIVES, Distribution, Tried
from monet.search.distribution.search import distribute as search
from monet.search.distribution.space import PlanSpace

MOST_JOBS = 4  # processes unless told otherwise; each takes up to half a gigabyte
NAMED = {"shard": SHARDING, "recompute": RECOMPUTATION, "offload": OFFLOADING, "schedules": ("1f1b", "zero-bubble")}


@with_request(
    "model",
    "training",
    "fusion",
    "hardware",
    "system",
    of=SystemRequest,
    without=("hardware", "mode", "micro_batches", *DEGREES),
    devices="Devices to use. [default: all of the system]",
)
def distribute(
    request: SystemRequest,
    best: Annotated[str, typer.Option(help="What is to be least: time, memory (of a device) or energy.")] = "time",
    front: Annotated[bool, typer.Option("--front", help="Go on until nothing that is left can be on the front of time and memory.")] = False,
    shard: Annotated[str, typer.Option(help="Sharding to try, divided by commas: none, states, gradients, parameters.")] = ",".join(SHARDING),
    recompute: Annotated[str, typer.Option(help="Recomputation to try, divided by commas: none, selective, full.")] = ",".join(RECOMPUTATION),
    offload: Annotated[str, typer.Option(help="Offloading to the host to try, divided by commas: none, activations, states, both.")] = "none",
    schedules: Annotated[str, typer.Option(help="Pipeline schedules to try, divided by commas: 1f1b, zero-bubble.")] = "1f1b",
    most_tensor: Annotated[int, typer.Option(min=0, help="Largest tensor degree. [default: two groups of the innermost level]", show_default=False)] = 0,
    most_micro_batch: Annotated[int, typer.Option(min=1, help="Most samples of a pass.")] = 64,
    most_interleave: Annotated[int, typer.Option(min=1, help="Most chunks of a stage.")] = 16,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Cost every plan, also those whose bounds say that they are not best.")] = False,
    top: Annotated[int, typer.Option(min=1, help="How many plans to show.")] = 10,
    jobs: Annotated[int, typer.Option(min=0, help=f"Processes; does not change the answer. [default: one for each core, at most {MOST_JOBS}]", show_default=False)] = 0,
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the best plan as YAML, - for standard output; monet run --parallel takes it.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write JSON to FILE, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML page.")] = "",
) -> None:  # fmt: skip
    """Find the best way to lay a training step over the devices of a system: data, tensor, pipeline, sharding, recomputation."""
    check_outputs({"--report": report}, {"--json": json, "--save-plan": save_plan}, request.files())
    jobs = jobs or min(MOST_JOBS, usable_cores())
    if best not in OBJECTIVES:
        raise MonetError(f"--best {best!r}: allowed are {', '.join(OBJECTIVES)}; {nearest(best, OBJECTIVES)}")
    if not request.system:
        raise OptionError("system", "", "a preset name or the path of a YAML file is needed; monet systems lists them")
    if not request.batch:
        raise MonetError("--batch: samples of a step over all replicas are needed")
    system, coster = request.load_system(), request.coster()
    devices = request.devices or system.size
    if devices > system.size:
        more = devices - system.size
        raise OptionError("devices", devices, f"{system.name} has {system.size:,}: {more:,} fewer; at most that many")
    space = PlanSpace(
        devices, request.batch, sum(coster.blocks()),
        most_tensor or min(devices, 2 * system.levels[0].size), most_micro_batch, most_interleave,
        _names("shard", shard), _names("recompute", recompute), _names("schedules", schedules),
        offloading=_names("offload", offload),
    )  # fmt: skip
    model = str(request.model)
    with counted("plans", sum(1 for _ in space.plans())) as shown:
        found = search(
            coster, system, space, model, best, whole_front=front, exhaustive=exhaustive, jobs=jobs,
            watch=lambda done, plans, _: shown(done),
        )  # fmt: skip
    detailed = evaluate_plan(coster, system, found.best.plan, request.batch, model) if found.best and report else None
    if json:
        write_json(json, _plain(found, top))
    if report:
        from monet.report.html.distribution import write_distribution

        write_distribution(found, report, detailed)
    if save_plan and found.best:
        write_text(save_plan, parallel_plan_text(found.best.plan))
    if "-" not in (json, save_plan):
        screen().print(render(found, top))
    if found.best is None:
        raise typer.Exit(INFEASIBLE)


def _names(option: str, given: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    for name in names:
        if name not in NAMED[option]:
            raise MonetError(f"--{option} {given!r}: {name!r} is unknown; {nearest(name, NAMED[option])}")
    if not names:
        raise MonetError(f"--{option} {given!r}: at least one is needed of {', '.join(NAMED[option])}")
    return names


def _plain(found: Distribution, top: int) -> dict[str, Any]:
    def rows(chosen: tuple[Tried, ...]) -> list[dict[str, Any]]:
        return [{**one.result.to_json(), "plan": one.plan.to_dict()} for one in chosen]

    return {
        "objective": found.objective, "devices": found.space.devices, "batch": found.space.batch,
        "plans": found.plans, "costed": len(found.tried), "bounded": found.bounded, "too_large": found.too_large,
        "illegal": found.illegal, "interrupted": found.interrupted, "best": rows(found.tried[:1])[0] if found.tried else None,
        "top": rows(found.tried[:top]), "front": rows(found.front),
    }  # fmt: skip
