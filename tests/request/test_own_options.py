"""Options that a command declares itself, beside those of a request: each reaches what it is about, as it was given.

``HANDED`` says of every such option how a command is called with it, and what then hands it on. An option that stands
neither there, nor among files that are written, nor in a test named in ``ELSEWHERE``, fails."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monet.cli import app, command_named
from monet.commands import COMMANDS, checkpoint, distribute, explain, fuse, mine, reproduce, train
from monet.commands import allocate as allocate_command
from monet.commands.options import flag_of
from monet.hardware import load_hardware
from monet.options import options_of
from monet.request import Request
from monet.request.system_request import SystemRequest
from tests.request.probes import PROBES

ROOT = Path(__file__).parents[2]
MLP = "mlp:widths=6-8-8-4"
TWO = ["mlp:widths=6-8-4", "mlp:widths=4-8-2"]
FILES = {
    "--json",
    "--report",
    "--csv",
    "--trace",
    "--save-plan",
    "--design",
    "--save-schedule",
    "--onnx",
    "--text",
    "--output",
    "--yaml",
    "--parquet",
    "--optuna",
}
# tested where the command is, by what it does
ELSEWHERE = {
    "map --core": "tests/mapping/test_map_command.py",
    "map --dims": "tests/mapping/test_map_command.py",
    "map --mapping": "tests/mapping/test_map_command.py",
    "map --constraint": "tests/mapping/test_map_command.py",
    "run --parallel": "tests/distributed/test_plan_file.py",
    "validate --only": "tests/validation/test_validation.py",
    "explore report --front-reports": "tests/search/test_hardware_command.py",
    **{
        f"explore search {flag}": "tests/request/test_wiring.py"
        for flag in ("--timeout", "--memory-limit", "--jobs", "--points", "--seed", "--search", "--cluster", "--store")
    },
    **{
        f"explore search {flag}": "tests/search/test_hardware_command.py"
        for flag in ("--resume", "--front-reports", "--objective")
    },
    "hardware show --set": "tests/hardware/test_command.py",
    "hardware new --cores": "tests/hardware/test_own_hardware.py",
}


class Handed(Exception):
    """Ends a command: what it handed on is known by then."""


Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


def told(command: list[str], patch: pytest.MonkeyPatch, targets: dict[str, Any]) -> Calls:
    """Run a command whose ``targets`` (module and name) only note what they are given, and what each returns; one that
    returns an exception ends the command."""
    calls: Calls = []

    def noting(name: str, answer: Any) -> Callable[..., Any]:
        def noted(*given: Any, **named: Any) -> Any:
            calls.append((name, given, named))
            if isinstance(answer, Exception):
                raise answer
            return answer

        return noted

    for target, answer in targets.items():
        module, _, name = target.rpartition(":")
        patch.setattr(MODULES[module], name, noting(name, answer))
    done = CliRunner().invoke(app, command)
    assert isinstance(done.exception, Handed) or done.exit_code in (0, 3), (command, done.output, done.exception)
    return calls


MODULES = {
    "mine": mine,
    "distribute": distribute,
    "train": train,
    "fuse": fuse,
    "allocate": allocate_command,
    "reproduce": reproduce,
    "checkpoint": checkpoint,
    "explain": explain,
}
NOTHING = SimpleNamespace(best=None, interrupted=False)
MINE = {
    "mine:mine_template": NOTHING,
    "mine:mine_by": NOTHING,
    "mine:finalists_of": [],
    "mine:beside_of": Handed(),
    "mine:run_stages": Handed(),
    "mine:run_joint": Handed(),
}
FUSED = SimpleNamespace(interrupted=False)
TARGETS: dict[str, dict[str, Any]] = {
    "mine": MINE,
    "distribute": {"distribute:search": NOTHING, "distribute:render": ""},
    "train": {"train:data_for": {}, "train:learn": Handed()},
    "fuse": {"fuse:find_fusion": FUSED, "fuse:_joint": Handed(), "fuse:summary": Handed()},
    "allocate": {"allocate:allocate_fused": Handed(), "allocate:search": Handed()},
    "checkpoint": {
        "checkpoint:by_schedule": Handed(),
        "checkpoint:_by_flops": Handed(),
        "checkpoint:by_peak": Handed(),
        "checkpoint:by_policy": Handed(),
    },
}
SMALL_SYSTEM = [
    "distribute",
    "gpt:layers=4,hidden=16,heads=2,vocabulary=32,positions=8,sequence=8",
    "--system",
    "edge-ethernet",
    "--batch",
    "8",
]
STAGES = ["mine", MLP, "--template", "edge", "--system", "edge-ethernet", "--batch", "4"]


def first(calls: Calls, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return next((given, named) for called, given, named in calls if called == name)


def named(function: str, keyword: str) -> Callable[[Calls], Any]:
    return lambda calls: first(calls, function)[1][keyword]


def placed(function: str, place: int) -> Callable[[Calls], Any]:
    return lambda calls: first(calls, function)[0][place]


def of_problem(look: Callable[[Any], Any]) -> Callable[[Calls], Any]:
    return lambda calls: look(next(given[1 if name == "mine_by" else 0] for name, given, _ in calls))


def of_space(look: Callable[[Any], Any]) -> Callable[[Calls], Any]:
    return lambda calls: look(placed("search", 2)(calls))


def names(calls: Calls) -> list[str]:
    return [name for name, *_ in calls]


MINED = ["mine", MLP, "--template", "edge"]
BY_CHANCE = [*MINED, "--method", "random"]
FUSE, ALLOCATE = (["fuse", MLP, "--hardware", "micro-npu"], ["allocate", MLP, "--hardware", "micro-npu"])
BY_SCHEDULE = ["checkpoint", MLP, "--hardware", "micro-npu"]
BY_FLOPS = ["checkpoint", MLP]
# command and option → how it is called without, what is added, what is looked at, and what is to be seen then
HANDED: dict[str, tuple[list[str], list[str], Callable[[Calls], Any], Any]] = {
    "mine --template": (["mine", MLP], ["--template", "edge"], of_problem(lambda p: p.template.name), "edge"),
    "mine --area": (MINED, ["--area", "7.5"], of_problem(lambda p: p.limits.area_mm2), 7.5),
    "mine --power": (MINED, ["--power", "0.7"], of_problem(lambda p: p.limits.tdp_w), 0.7),
    "mine --metric": (MINED, ["--metric", "edp"], of_problem(lambda p: p.metric), "edp"),
    "mine --floor": (MINED, ["--floor", "12"], of_problem(lambda p: p.floor), 12.0),
    "mine --range": (
        MINED,
        ["--range", "rows=8,16"],
        of_problem(lambda p: next(list(each.values) for each in p.space().parameters if each.name == "rows")),
        [8, 16],
    ),
    "mine --weight": (
        ["mine", *TWO, "--template", "edge"],
        ["--weight", "2", "--weight", "5"],
        of_problem(lambda p: [each.weight for each in p.workloads.values()]),
        [2.0, 5.0],
    ),
    "mine --method": (MINED, ["--method", "tpe"], lambda calls: calls[0][0] == "mine_by" and calls[0][1][0], "tpe"),
    "mine --seed": (BY_CHANCE, ["--seed", "9"], named("mine_by", "seed"), 9),
    "mine --evaluations": (MINED, ["--evaluations", "11"], named("mine_template", "evaluations"), 11),
    "mine --gap": (MINED, ["--gap", "0.25"], named("mine_template", "slack"), 0.25),
    "mine --patience": (MINED, ["--patience", "3"], named("mine_template", "patience"), 3),
    "mine --jobs": (MINED, ["--jobs", "3"], named("mine_template", "jobs"), 3),
    "mine --store": (MINED, ["--store", "kept.sqlite"], placed("mine_template", 1), "kept.sqlite"),
    "mine --resume": ([*MINED, "--store", "k.sqlite"], ["--resume"], named("mine_template", "resume"), True),
    "mine --baselines": (
        MINED,
        ["--baselines"],
        lambda calls: (named("beside_of", "hand")(calls), len(named("mine_template", "start")(calls)) > 0),
        (True, True),
    ),
    "mine --inference-mined": (MINED, ["--inference-mined"], named("beside_of", "inference"), True),
    "mine --finalists": (MINED, ["--finalists", "5"], placed("finalists_of", 2), 5),
    "mine --stages": (
        MINED,
        ["--system", "edge-ethernet", "--stages", "2"],
        lambda calls: names(calls) == ["run_stages"] and placed("run_stages", 0)(calls).plan.pipeline,
        2,
    ),
    "mine --top": ([*STAGES, "--stages", "2"], ["--top", "7"], named("run_stages", "top"), 7),
    "mine --per-stage": (
        [*STAGES, "--stages", "2"],
        ["--per-stage"],
        named("run_stages", "which"),
        ("heterogeneous", "thrifty"),
    ),
    "mine --homogeneous": (
        [*STAGES, "--stages", "2"],
        ["--homogeneous"],
        named("run_stages", "which"),
        ("homogeneous",),
    ),
    "mine --joint": (
        MINED,
        ["--joint", "batch=2,4"],
        lambda calls: names(calls) == ["run_joint"] and placed("run_joint", 1)(calls),
        {"batch": [2, 4]},
    ),
    "distribute --best": (SMALL_SYSTEM, ["--best", "energy"], placed("search", 4), "energy"),
    "distribute --front": (SMALL_SYSTEM, ["--front"], named("search", "whole_front"), True),
    "distribute --exhaustive": (SMALL_SYSTEM, ["--exhaustive"], named("search", "exhaustive"), True),
    "distribute --jobs": (SMALL_SYSTEM, ["--jobs", "3"], named("search", "jobs"), 3),
    "distribute --shard": (
        SMALL_SYSTEM,
        ["--shard", "none,states"],
        of_space(lambda s: s.sharding),
        ("none", "states"),
    ),
    "distribute --recompute": (SMALL_SYSTEM, ["--recompute", "full"], of_space(lambda s: s.recomputation), ("full",)),
    "distribute --offload": (
        SMALL_SYSTEM,
        ["--offload", "none,states"],
        of_space(lambda s: s.offloading),
        ("none", "states"),
    ),
    "distribute --schedules": (
        SMALL_SYSTEM,
        ["--schedules", "1f1b,zero-bubble"],
        of_space(lambda s: s.schedules),
        ("1f1b", "zero-bubble"),
    ),
    "distribute --most-tensor": (SMALL_SYSTEM, ["--most-tensor", "3"], of_space(lambda s: s.most_tensor), 3),
    "distribute --most-micro-batch": (
        SMALL_SYSTEM,
        ["--most-micro-batch", "5"],
        of_space(lambda s: (s.most_micro_batch, s.most_interleave)),
        (5, 16),
    ),
    "distribute --most-interleave": (
        SMALL_SYSTEM,
        ["--most-interleave", "5"],
        of_space(lambda s: (s.most_micro_batch, s.most_interleave)),
        (64, 5),
    ),
    "distribute --devices": (SMALL_SYSTEM, ["--devices", "2"], of_space(lambda s: s.devices), 2),
    "distribute --top": (SMALL_SYSTEM, ["--top", "3"], placed("render", 1), 3),
    "train --steps": (["train", MLP], ["--steps", "7"], placed("learn", 2), 7),
    "train --data": (["train", MLP], ["--data", "arm"], placed("data_for", 1), "arm"),
    "train --seed": (
        ["train", MLP],
        ["--seed", "5"],
        lambda calls: (placed("data_for", 2)(calls), named("learn", "seed")(calls)),
        (5, 5),
    ),
    "train --optimizer": (
        ["train", MLP],
        ["--optimizer", "momentum"],
        lambda calls: {op.kind for op in placed("learn", 0)(calls).ops if "update" in op.kind},
        {"momentum_update"},
    ),
    "fuse --limit": (FUSE, ["--limit", "3"], lambda calls: placed("find_fusion", 1)(calls).limit, 3),
    "fuse --effort": (FUSE, ["--effort", "2"], lambda calls: placed("find_fusion", 1)(calls).effort, 2),
    "fuse --seed": (FUSE, ["--seed", "4"], lambda calls: placed("find_fusion", 1)(calls).seed, 4),
    "fuse --manual": (
        FUSE,
        ["--manual", "plan.yaml"],
        lambda calls: (m := named("find_fusion", "manual")(calls)) and m.boundary,
        "dram",
    ),
    "fuse --joint": (FUSE, ["--joint"], lambda calls: "_joint" in names(calls), True),
    "allocate --effort": (ALLOCATE, ["--effort", "3"], named("allocate_fused", "effort"), 3),
    "allocate --seed": (ALLOCATE, ["--seed", "6"], named("allocate_fused", "seed"), 6),
    "allocate --fusion": (ALLOCATE, ["--fusion", "stacks"], placed("allocate_fused", 1), "stacks"),
    "checkpoint --budget": (BY_FLOPS, ["--budget", "1MB"], placed("_by_flops", 1), "1MB"),
    "checkpoint --memory": (BY_FLOPS, ["--memory", "peak"], lambda calls: names(calls), ["by_peak"]),
    "checkpoint --pareto": (BY_FLOPS, ["--pareto"], placed("_by_flops", 2), True),
    "checkpoint --method": (BY_FLOPS, ["--method", "per-block"], placed("_by_flops", 3), "per-block"),
    "checkpoint --cost": (
        ["checkpoint", MLP],
        ["--cost", "schedule", "--hardware", "micro-npu"],
        lambda calls: names(calls),
        ["by_schedule"],
    ),
    "checkpoint --choices": (BY_FLOPS, ["--choices", "keep,narrow"], placed("_by_flops", 4), ("keep", "narrow")),
    "checkpoint --joint": (BY_SCHEDULE, ["--joint"], lambda calls: placed("by_schedule", 1)(calls).joint, True),
    "checkpoint --effort": (BY_SCHEDULE, ["--effort", "2"], lambda calls: placed("by_schedule", 1)(calls).effort, 2),
    "checkpoint --seed": (BY_SCHEDULE, ["--seed", "8"], lambda calls: placed("by_schedule", 1)(calls).seed, 8),
    "checkpoint --jobs": (BY_SCHEDULE, ["--jobs", "2"], lambda calls: placed("by_schedule", 1)(calls).jobs, 2),
    "checkpoint --policies": (
        BY_FLOPS,
        ["--policies", "fp32,bf16"],
        lambda calls: names(calls) == ["by_policy"] and placed("by_policy", 1)(calls),
        "fp32,bf16",
    ),
}


@pytest.mark.parametrize("option", HANDED)
def test_an_option_is_handed_on(option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, more, look, seen = HANDED[option]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yaml").write_text("boundary: dram\ngroups: []\n")
    for arguments, expected in ((usual, False), ([*usual, *more], True)):
        with pytest.MonkeyPatch.context() as patch:
            calls = told(arguments, patch, TARGETS[arguments[0]])
        try:
            found = look(calls)
        except StopIteration:  # what is looked at was not called
            found = None
        assert (found == seen) is expected, (arguments, found, seen)


def taken(command: str) -> list[str]:
    """Options of a request that a command takes as they are declared."""
    flags = {parameter.opts[0] for parameter in command_named(command).params} - {"model"}
    own = {"train": {"optimizer"}}.get(command, set())
    return [name for name, option in options_of(Request).items() if flag_of(option) in flags and name not in own]


@pytest.mark.parametrize(
    ("command", "name"), [(command, name) for command in ("mine", "distribute", "train") for name in taken(command)]
)
def test_options_of_a_request_are_handed_on(command: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the workloads that are mined, and to what makes the programs that are distributed or trained."""
    option, given = options_of(Request)[name], PROBES[name].given
    more = {"lora_targets": ["--lora", "2"], "micro_batches": ["--batch", "4"]}.get(name, [])
    usual = {"mine": MINED, "distribute": SMALL_SYSTEM, "train": ["train", MLP]}[command] + more
    asked: list[Any] = []

    def noted(request: Any, *_: Any) -> None:
        asked.append(request)
        raise Handed

    if command == "mine":
        calls = told([*usual, flag_of(option), str(given)], monkeypatch, TARGETS[command])
        asked += calls[0][1][0].workloads.values()
    else:
        monkeypatch.setattr(*((train, "_curve") if command == "train" else (SystemRequest, "coster")), noted)
        done = CliRunner().invoke(app, [*usual, flag_of(option), str(given)])
        assert isinstance(done.exception, Handed), (done.output, done.exception)
    found = getattr(asked[0], name)
    assert found == option.read(given)
    assert found != option.default


def own_options() -> dict[str, set[str]]:
    """By command its own options; those of a request that it spells itself are its own too."""
    declared = {flag_of(option) for option in options_of(SystemRequest).values()}
    respelled = {
        "train": {"--optimizer"},
        "allocate": {"--fusion"},
        "distribute": {"--shard", "--recompute", "--offload", "--devices"},
        "explore search": {"--objective"},
        "hardware show": {"--set"},
    }
    found = {}
    for name in COMMANDS:
        command = command_named(name)
        for below, each in getattr(command, "commands", {"": command}).items():
            path = f"{name} {below}".strip()
            flags = {parameter.opts[0] for parameter in each.params if parameter.opts[0].startswith("--")}
            found[path] = (flags - declared - {"--help"}) | (respelled.get(path, set()) & flags)
    return found


def test_every_option_of_every_command_is_tested() -> None:
    here = Path(__file__).read_text()
    for command, flags in own_options().items():
        for flag in flags - FILES:
            option = f"{command} {flag}"
            if option in ELSEWHERE:
                assert flag in (ROOT / ELSEWHERE[option]).read_text(), option
            else:
                assert option in HANDED or f'"{flag}"' in here.partition("# --- what is shown")[2], option


# --- what is shown ----------------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200"})
    assert done.exit_code in (0, 1), (arguments, done.output, done.exception)
    return done.output


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("results")
    files = [str(folder / name) for name in ("a.json", "b.json")]
    for file, batch in zip(files, ("2", "4"), strict=True):
        run("run", MLP, "--hardware", "micro-npu", "--fusion", "none", "--batch", batch, "--json", file)
    return files[0], files[1]


def test_explain_shows_so_many(results: tuple[str, str]) -> None:
    few, many = (run("explain", results[0], "--no-what-if", "--top", count) for count in ("2", "30"))
    rows = [text.partition("Critical path")[2].partition("Busiest")[0].strip().splitlines() for text in (few, many)]
    assert len(rows[0]) < len(rows[1])
    assert "What if" not in few


def test_explain_asks_what_if(results: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "effects", lambda *_: [])
    for flag, reason in (("--what-if", ""), ("--no-what-if", "not asked for")):
        assert json.loads(run("explain", results[0], flag, "--json", "-"))["what_if_missing"] == reason


def test_diff_shows_so_many_and_all(results: tuple[str, str]) -> None:
    few, many, every = (run("diff", *results, *more) for more in (("--top", "1"), ("--top", "30"), ("--all",)))
    assert len(few.splitlines()) < len(many.splitlines())
    assert "±0" in every
    assert "±0" not in few


def test_rerun_shows_so_many_differences(results: tuple[str, str], tmp_path: Path) -> None:
    values = json.loads(Path(results[0]).read_text())
    for row in values["operators"]:
        row["energy_j"] *= 2
    (tmp_path / "changed.json").write_text(json.dumps(values))
    for top in (1, 3):
        shown = run("rerun", str(tmp_path / "changed.json"), "--top", str(top)).splitlines()
        assert sum(" → " in line for line in shown) == top


def test_models_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "saved" not in run("models").splitlines()[0]
    from monet.commands import models

    monkeypatch.setattr(models, "_counts", lambda chosen: f"counted {len(chosen)}")
    assert run("models", "--counts").startswith("counted ")


def test_a_new_file_has_what_is_asked_for(tmp_path: Path) -> None:
    usual = yaml.safe_load(run("hardware", "new"))
    for more, shape, ripples in ((["--array", "8x4"], [4, 8], False), (["--systolic"], [16, 16], True)):
        (tmp_path / "own.yaml").write_text(run("hardware", "new", *more))
        made = load_hardware(str(tmp_path / "own.yaml"))
        assert sorted(axis.size for axis in made.cores[0].core.axes) == shape
        assert any(axis.systolic for axis in made.cores[0].core.axes) is ripples
    run("hardware", "new", "--output", str(tmp_path / "chip.yaml"))
    assert yaml.safe_load((tmp_path / "chip.yaml").read_text()) == usual


@pytest.mark.parametrize(
    ("more", "look", "seen"),
    [
        (["--effort", "2"], "effort", 2),
        (["--full"], "effort", 10),
        (["--seed", "3"], "seed", 3),
        (["--jobs", "2"], "jobs", 2),
        (["--store", "folder"], "store", "folder"),
    ],
)
def test_studies_get_their_options(more: list[str], look: str, seen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def study(options: Any) -> None:
        given.append(options)
        raise Handed

    monkeypatch.setattr(reproduce, "study_named", lambda name: study)
    for arguments in ([], more):
        assert isinstance(CliRunner().invoke(app, ["reproduce", "some", *arguments]).exception, Handed)
    usual, asked = (getattr(options, look) for options in given)
    assert usual != seen == asked


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            ["mine", MLP, "--template", "edge", "--joint", "batch=2,4", "--patience", "2"],
            "--patience: has no effect with --joint",
        ),
        (
            ["mine", MLP, "--template", "edge", "--joint", "batch=2,4", "--finalists", "1"],
            "--finalists: has no effect with --joint",
        ),
        ([*STAGES, "--stages", "2", "--finalists", "1"], "--finalists: has no effect with --stages"),
        ([*STAGES, "--stages", "2", "--patience", "1"], "--patience: has no effect with --stages"),
        (["mine", MLP, "--weight", "2"], "--weight: has no effect on the mean of one model"),
        (["models", "resnet18", "--counts"], "--counts: has no effect on one model"),
    ],
)
def test_options_without_effect_are_refused(command: list[str], said: str) -> None:
    assert said in str(CliRunner().invoke(app, command).exception)
