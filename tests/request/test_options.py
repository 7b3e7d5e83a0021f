"""Every option of every command and of spaces: accepted, and with its effect. From the one declaration."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monet.cli import app
from monet.commands import allocate as allocate_command
from monet.commands import checkpoint_schedule
from monet.commands import fuse as fuse_command
from monet.commands.options import flag_of
from monet.graph import Graph
from monet.hardware import Accelerator
from monet.options import GROUPS, options_of
from monet.request import Request
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.search.hardware.evaluation import evaluate, graph_of
from monet.search.hardware.space import make_space
from tests.request.models import write_onnx, write_python
from tests.request.probes import PROBES, Seen

OPTIONS = {name: one for name, one in options_of(Request).items() if name != "model"}
SHAPING = [name for name, one in OPTIONS.items() if one.group != "schedule"]
SCHEDULE = [name for name, one in OPTIONS.items() if one.group == "schedule"]

# What a command does not take, and why.
WITHOUT = {
    "graph": {"hardware", "set", *SCHEDULE},  # it asks for no hardware
    "run": set(),
    "map": {"fusion", "allocation", "boundary"},  # every operator on its own
    "fuse": {"fusion"},  # that is what is searched
    "allocate": {"fusion", "allocation"},  # that is what is searched; what is fused is an option of its own
    "checkpoint": {"mode", "checkpoint", "phases"},  # it searches what a whole training step keeps
}
COMMANDS = list(WITHOUT)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, dict[str, Any]]]:
    """Name → the model and the sizes it is given."""
    folder = tmp_path_factory.mktemp("models")
    return {
        "net": (write_onnx(folder / "net.onnx"), {"batch": 2}),
        "torch": (write_python(folder / "two.py"), {"inputs": "2x8"}),
        "attention": ("gpt:layers=1,hidden=32,heads=2,vocabulary=64", {"sequence": 2}),
    }


@pytest.fixture(scope="module")
def seen(models: dict[str, tuple[str, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a command works on when it is called with these options."""
    known: dict[str, Seen] = {}
    folder = tmp_path_factory.mktemp("files")

    def look(command: str, model: str, options: dict[str, Any]) -> Seen:
        file, sizes = models[model]
        arguments = [command, file]
        for name, value in {**sizes, **options}.items():
            if name in WITHOUT[command]:
                continue
            arguments += [flag_of(OPTIONS[name]), _written(value, folder / f"{name}.yaml")]
        key = str(arguments)
        if key not in known:
            known[key] = called(command, arguments)
        return known[key]

    return look


def _written(value: Any, file: Path) -> str:
    """A value as it is typed; a plan by the file it stands in."""
    if not isinstance(value, dict):
        return str(value)
    file.write_text(yaml.safe_dump(value))
    return str(file)


class _Handed(Exception):
    """Stops a search before it begins: what it was handed is known by then."""


def called(command: str, arguments: list[str]) -> Seen:
    """Run a command; of a search look at what it is handed, as finding plans takes long."""
    caught: dict[str, Any] = {}

    def graph(self: Request) -> Graph:
        caught["graph"] = made["graph"](self)
        return caught["graph"]  # type: ignore[no-any-return]

    def accelerator(self: Request) -> Accelerator:
        caught["accelerator"] = made["accelerator"](self)
        return caught["accelerator"]  # type: ignore[no-any-return]

    def fusing(scheduler: Scheduler, settings: Any, base: Plan, manual: str) -> None:
        caught["outcome"] = handed(scheduler, base, settings.objective)
        raise _Handed

    def allocating(scheduler: Scheduler, fusion: str, boundary: str, objective: str, *_: Any) -> None:
        caught["outcome"] = handed(scheduler, Plan(boundary=boundary or "keep"), objective)
        raise _Handed

    def beginning(scheduler: Scheduler, request: Request) -> Plan:
        plan = made["base_plan"](scheduler, request)
        caught["begun"] = {"plan": plan.to_dict()}
        return plan  # type: ignore[no-any-return]

    made: dict[str, Any] = {
        "base_plan": checkpoint_schedule.base_plan,
        "graph": Request.graph,
        "accelerator": Request.accelerator,
    }
    more = {
        "run": ["--json", "-"], "graph": ["--json", "-"], "map": ["--json", "-"],
        "checkpoint": ["--json", "-", "--method", "keep-all"],
    }.get(command, [])  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Request, "graph", graph)
        patch.setattr(Request, "accelerator", accelerator)
        patch.setattr(checkpoint_schedule, "base_plan", beginning)
        patch.setattr(fuse_command, "_search", fusing)
        patch.setattr(allocate_command, "_search", allocating)
        shown = CliRunner().invoke(app, [*arguments, *more])
    if not isinstance(shown.exception, _Handed):
        assert shown.exit_code == 0, (arguments, shown.output, shown.exception)
        caught["outcome"] = outcome_of(json.loads(shown.stdout)) | caught.get("begun", {})
    return Seen(caught["graph"], caught.get("accelerator"), caught["outcome"])


def handed(scheduler: Scheduler, plan: Plan, objective: str) -> dict[str, Any]:
    """What a search would start with: the plan, and what it costs."""
    assert scheduler.costs.objective == objective
    schedule = scheduler.schedule(plan)
    return {"ticks": schedule.timed.makespan, "plan": schedule.plan.to_dict()}


def outcome_of(values: dict[str, Any]) -> dict[str, Any]:
    """What came out, without what repeats the question or the clock."""
    asked = ("inputs", "objective", "seconds_to_evaluate", "seconds")
    return {name: value for name, value in values.items() if name not in asked}


def test_every_option_has_a_probe() -> None:
    assert set(PROBES) == set(OPTIONS)


def test_every_option_belongs_to_a_group_and_says_what_it_is() -> None:
    for one in OPTIONS.values():
        assert one.group in GROUPS
        assert one.help[0].isupper() or one.help.split(",")[0].split(":")[0] in one.names()
        for name in one.names():
            plain = name.removesuffix("-square")  # said once for all of them
            assert plain in one.help, f"{one.name}: help does not name {name}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_every_option_but_those_listed(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], terminal_width=200).output
    taken = {name for name, one in OPTIONS.items() if re.search(rf"│\s{{1,6}}(\*\s+)?{flag_of(one)} ", shown)}
    own = {"fusion"} if command == "allocate" else set()  # not that of a request: it has stacks, too
    assert set(OPTIONS) - taken == WITHOUT[command] - own
    if command not in ("graph", "checkpoint"):
        assert set(SHAPING) <= taken


@pytest.mark.parametrize(
    ("command", "name"), [(one, name) for one in COMMANDS for name in OPTIONS if name not in WITHOUT[one]]
)
def test_an_option_has_its_effect(command: str, name: str, seen: Any) -> None:
    probe = PROBES[name]
    if command == "map" and name == "attention":
        pytest.skip("fused attention spans several nests, none of which is mapped alone")
    usual = {"hardware": "edge-tpu"} | probe.more
    if command == "checkpoint" and probe.model == "attention":
        del usual["hardware"]  # by FLOPs: a schedule of it takes long
    before = seen(command, probe.model, usual)
    after = seen(command, probe.model, {**usual, name: probe.given})
    assert probe.before is None or probe.look(before) == probe.before
    assert probe.after is None or probe.look(after) == probe.after
    assert probe.look(before) != probe.look(after)
    if probe.costs:
        assert before.outcome != after.outcome


@pytest.mark.parametrize("name", [one for one in OPTIONS if OPTIONS[one].group != "hardware"])
def test_a_workload_takes_every_option(name: str, models: dict[str, tuple[str, dict[str, Any]]]) -> None:
    probe = PROBES[name]
    model, sizes = models[probe.model]
    found = []
    for given in ({}, {name: probe.given["allocation"] if name == "allocation" else probe.given}):
        more = dict(probe.more)
        workload = {"model": model, **sizes, **{key: one for key, one in more.items() if key != "hardware"}, **given}
        document = {
            "name": "one", "hardware": more.pop("hardware", "edge-tpu"), "workloads": {"net": workload},
            "parameters": {"clock": {"sets": "clock_hz", "values": [8e8]}},
        }  # fmt: skip
        space = make_space(document, "space", Path())
        record = evaluate(space.text, {"clock": 8e8})
        assert record.ok, record.reason
        net = space.workloads["net"]
        plan = {"groups": net.fusion != "none", "boundary": net.boundary or "keep", "allocation": net.allocation or {}}
        outcome = {**record.metrics, "plan": plan}
        found.append(Seen(graph_of(net), None, outcome))
    before, after = found
    assert probe.before is None or probe.look(before) == probe.before
    assert probe.after is None or probe.look(after) == probe.after
    assert probe.look(before) != probe.look(after)
    if probe.costs:
        assert before.outcome != after.outcome
