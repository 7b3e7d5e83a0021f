"""``monet run``: one training step (or inference) on an accelerator — time, energy, memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from monet.schedule.plan import Plan

INFEASIBLE = 3  # exit code


def run(
    model: Annotated[str, typer.Argument(help="Zoo name, path to an ONNX file, or file.py:function that returns a torch module.")],
    hardware: Annotated[str, typer.Option("--hardware", help="Preset name or path of a YAML file.")],
    batch: Annotated[int | None, typer.Option(help="Samples per step.")] = None,
    image: Annotated[int | None, typer.Option(help="Image height and width.")] = None,
    sequence: Annotated[int | None, typer.Option(help="Tokens per sample.")] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "sgd",
    precision: Annotated[str, typer.Option(help="fp32, bf16 or fp16 (mixed, fp32 master weights), int16, int8 (inference).")] = "fp32",
    attention: Annotated[str, typer.Option(help="explicit, or fused: scores stay on chip, only the log-sum-exp is kept.")] = "explicit",
    mode: Annotated[str, typer.Option(help="training, or inference: forward only.")] = "training",
    phases: Annotated[str, typer.Option(help="Only some of forward,loss,backward,update.")] = "",
    fusion: Annotated[str, typer.Option(help="auto, none, or a YAML file with a plan.")] = "auto",
    allocation: Annotated[str, typer.Option(metavar="FILE", help="YAML file that says which cores run which operators; of a whole plan its cores only.")] = "",
    checkpoint: Annotated[str, typer.Option(metavar="FILE", help="YAML file that says which activations are recomputed or narrowed.")] = "",
    boundary: Annotated[str, typer.Option(help="keep: results stay on chip until evicted; dram: written out. [default: keep, or the plan's]", show_default=False)] = "",
    objective: Annotated[str, typer.Option(help="What mappings are chosen for: latency, energy or edp.")] = "latency",
    set_values: Annotated[list[str] | None, typer.Option("--set", help="Set a hardware parameter or path: NAME=VALUE.")] = None,
    save_plan: Annotated[str, typer.Option(metavar="FILE", help="Write the plan that was used as YAML, - for standard output.")] = "",
    json: Annotated[str, typer.Option("--json", metavar="FILE", help="Write the result as JSON, - for standard output.")] = "",
    report: Annotated[str, typer.Option("--report", metavar="FILE", help="Write a self-contained HTML report.")] = "",
    trace: Annotated[str, typer.Option("--trace", metavar="FILE", help="Write a Perfetto/Chrome trace.")] = "",
    csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="Write the table of operators as CSV.")] = "",
) -> None:  # fmt: skip
    """Cost one training step: latency, energy, memory over time, by phase, operator, core and level."""
    from monet.commands.job import job_for
    from monet.errors import MonetError
    from monet.mapping.mapper.tiling import OBJECTIVES
    from monet.report.files import check_outputs

    if mode not in ("training", "inference"):
        raise MonetError(f"--mode {mode!r}: allowed are training, inference")
    if objective not in OBJECTIVES:
        raise MonetError(f"--objective {objective!r}: allowed are {', '.join(OBJECTIVES)}")
    check_outputs({"--report": report, "--trace": trace}, {"--json": json, "--csv": csv, "--save-plan": save_plan})
    sizes = {"batch": batch, "image": image, "sequence": sequence}
    job = job_for(
        model,
        hardware,
        mode=mode,
        sizes={key: value for key, value in sizes.items() if value is not None},
        training={"optimizer": optimizer, "precision": precision, "attention": attention},
        schedule=_schedule(fusion, allocation, boundary, phases, objective),
        overrides=overrides_of(set_values or []),
        checkpoint=_checkpoint(checkpoint, mode),
    )
    result = job.evaluate()
    _write(result, json, report, trace, csv, save_plan)
    if "-" not in (json, csv, save_plan):
        from monet.report.terminal import render, screen

        screen().print(render(result))
    if not result.feasible:
        raise typer.Exit(INFEASIBLE)


def _checkpoint(path: str, mode: str) -> dict[str, Any]:
    """The plain values of a checkpoint plan, empty without one."""
    from monet.errors import MonetError
    from monet.transforms.checkpoint_plan import load_checkpoint_plan

    if path and mode != "training":
        raise MonetError(f"--checkpoint {path}: inference keeps nothing for a backward pass")
    plan = load_checkpoint_plan(path).to_dict() if path else {}
    if "offload" in plan:
        raise MonetError(
            f"--checkpoint {path}: offload {', '.join(plan['offload'][:3])}{' …' if len(plan['offload']) > 3 else ''}: "
            "the tables of a result have no place for pages to the host; cost this plan, with latency, energy, traffic "
            f"and peak, by: monet checkpoint MODEL --hardware HW --method {path}"
        )
    return dict(plan)


def _schedule(fusion: str, allocation: str, boundary: str, phases: str, objective: str) -> dict[str, Any]:
    """Keywords of ``evaluate``, plain values only."""
    from pathlib import Path

    from monet.errors import nearest
    from monet.schedule.plan import BOUNDARIES, PlanError, load_plan

    if boundary and boundary not in BOUNDARIES:
        raise PlanError(f"--boundary {boundary!r}: allowed are {', '.join(BOUNDARIES)}")
    chosen: dict[str, Any] = {"objective": objective}
    if phases:
        chosen["phases"] = [one.strip() for one in phases.split(",") if one.strip()]
    if fusion in ("auto", "none"):
        chosen |= {"fusion": fusion, "boundary": boundary or "keep"}
    elif not fusion.endswith((".yaml", ".yml")) and not Path(fusion).is_file():
        raise PlanError(
            f"--fusion {fusion!r}: allowed are auto, none, or a YAML file with a plan; {nearest(fusion, ('auto', 'none'))}"
        )
    else:
        chosen["plan"] = load_plan(fusion).to_dict() | ({"boundary": boundary} if boundary else {})
    if allocation:
        placed = load_plan(allocation)
        chosen["allocation"] = placed.to_dict()["allocation"]
        if placed.groups and "plan" not in chosen:
            groups = f"{len(placed.groups)} groups of {allocation}"
            typer.echo(
                f"note: --allocation takes cores only; give --fusion {allocation} for the {groups} too", err=True
            )
    return chosen


def overrides_of(pairs: list[str]) -> dict[str, Any]:
    """Hardware parameters from NAME=VALUE pairs."""
    import yaml

    from monet.errors import MonetError

    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise MonetError(f"--set {pair!r}: write NAME=VALUE")
        found[name] = yaml.safe_load(value)
    return found


def _write(result: Any, json: str, report: str, trace: str, csv: str, save_plan: str) -> None:
    from monet.report.files import write_text
    from monet.report.result_file import write_result

    if json:
        write_result(result, json)
    if csv:
        from monet.report.table import write_csv

        write_csv(result, csv)
    if trace:
        from monet.report.perfetto import write_trace

        write_trace(result, trace)
    if report:
        from monet.report.html import write_html

        write_html(result, report)
    if save_plan:
        from monet.schedule.plan import Plan, plan_text

        plan: Plan = Plan.from_dict(result.plan)
        write_text(save_plan, plan_text(plan))
