"""The search through the schedule: what its front must hold, and that neither order nor processes change it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import monet
from monet.cli import app
from monet.commands.checkpoint_schedule import Asked, choose
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_plan
from monet.schedule.result import Result
from monet.schedule.result_rows import EVENT_KINDS
from monet.schedule.schedule import Schedule
from monet.schedule.simulation.records import COMPUTE, HOLD_READ, STREAM_READ, WRITES
from monet.search.checkpoint import scheduled_joint, scheduled_search
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.search.checkpoint.scheduled_search import NoPlanFits, ScheduledFront, search_front
from monet.search.genetic import Evolution, EvolutionSettings
from monet.transforms.checkpoint_plan import CheckpointError, CheckpointPlan
from monet.transforms.recompute import recompute

SMALL = EvolutionSettings(population=16, generations=2)
RESNET = "resnet:blocks=1-1,width=32,stem=cifar,classes=10"  # with all that a residual network saves


def costed_case(model: str = RESNET, hardware: str = "edge-tpu") -> ScheduledCost:
    graph = monet.training_step(monet.load_model(model, batch=1, image=16 if model == RESNET else 64))
    scheduler = Scheduler(graph, monet.load_hardware(hardware))
    return ScheduledCost(scheduler, default_plan(scheduler))


@pytest.fixture(scope="module")
def front() -> ScheduledFront:
    return search_front(costed_case(), settings=SMALL)


def test_front_is_a_front(front: ScheduledFront) -> None:
    points = [one.objectives for one in front.front]
    for one in points:
        assert not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in points)
    for _, one in (*front.baselines, *front.single_drops):  # nothing that was tried beats it
        assert any(all(a <= b for a, b in zip(other, one.objectives, strict=True)) for other in points)


def test_gap_is_above_what_is_proved(front: ScheduledFront) -> None:
    for one in front.front:
        assert 0 <= front.gap(one) <= one.work_share + 1e-12
    keep_all = dict(front.baselines)["keep-all"]
    assert front.gap(keep_all) == 0
    assert keep_all.figures == front.plain.figures


def test_the_winner_costs_what_its_graph_costs(front: ScheduledFront) -> None:
    """The plan and the schedule that a search hands out give the same step when they are applied from scratch."""
    costed = costed_case()
    best = front.front[0]
    _, schedule = costed.schedule(best.plan, best.fused)
    result = monet.evaluate(
        recompute(costed.graph, best.plan), monet.load_hardware("edge-tpu"), Plan.from_dict(schedule.plan.to_dict())
    )
    assert result.latency_s == best.figures.latency_s
    assert result.energy_j == pytest.approx(best.figures.energy_j, rel=1e-9)
    assert result.dram_bytes.total == best.figures.dram_bytes


def test_processes_do_not_change_the_front(front: ScheduledFront) -> None:
    assert search_front(costed_case(), settings=SMALL, jobs=2).front == front.front


def test_what_exceeds_dram_is_not_on_the_front(front: ScheduledFront) -> None:
    """With DRAM that is a byte too small for keeping everything, the search leaves out exactly what does not fit."""
    graph = monet.training_step(monet.load_model(RESNET, batch=1, image=16))
    needs = front.plain.figures.dram_peak_bytes

    def searched(capacity: int) -> ScheduledFront:
        accelerator = monet.load_hardware("edge-tpu", {"dram.dram.capacity_bytes": capacity})
        costed = ScheduledCost(scheduler := Scheduler(graph, accelerator), default_plan(scheduler))
        return search_front(costed, settings=EvolutionSettings(population=8, generations=1))

    found = searched(needs - 1)
    assert found.front
    assert all(one.figures.dram_peak_bytes < needs for one in found.front)
    assert found.unbudgeted.figures.dram_peak_bytes < needs
    with pytest.raises(NoPlanFits, match=r"DRAM dram holds .* bytes short"):
        searched(needs // 2)  # weights alone need more


def test_a_plan_that_saves_memory_at_no_loss_of_latency_is_named(front: ScheduledFront) -> None:
    plain = front.plain.figures
    free = [
        one
        for one in front.front
        if one.figures.latency_s <= plain.latency_s and one.figures.memory_peak_bytes < plain.memory_peak_bytes
    ]
    least = min((one.figures.memory_peak_bytes for one in free), default=None)
    assert (front.free.figures.memory_peak_bytes if front.free else None) == least


def test_narrowing_is_a_choice() -> None:
    costed = costed_case("resnet18")
    narrowed = costed.figures(CheckpointPlan({"maxpool:indices": "narrow"}))
    plain = costed.figures(CheckpointPlan())
    indices = costed.graph.tensors["maxpool:indices"]
    assert plain.kept_bytes - narrowed.kept_bytes == indices.bytes - indices.elements
    found = search_front(costed, choices=("keep", "narrow"), settings=EvolutionSettings(population=8, generations=1))
    assert any(one.plan.named("narrow") for one in found.front)
    assert not any(one.plan.named("recompute") for one in found.front if one.plan.named("narrow"))


def run_command(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["checkpoint", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_command_writes_json_and_page(tmp_path: Path) -> None:
    page, plan, saved = tmp_path / "c.html", tmp_path / "c.yaml", tmp_path / "s.yaml"
    text = run_command(
        RESNET, "--image", "16", "--hardware", "edge-tpu", "--effort", "1", "--budget", "80%", "--json", "-",
        "--report", str(page), "--save-plan", str(plan), "--save-schedule", str(saved),
    )  # fmt: skip
    values = json.loads(text)
    wanted = ("latency_s", "energy_j", "memory_peak_bytes", "dram_bytes", "kept_bytes", "recompute_over_forward")
    assert all(isinstance(values[name], int | float) for name in wanted)
    assert values["memory_peak_bytes"] <= values["budget_bytes"] == int(0.8 * values["plain"]["memory_peak_bytes"])
    assert values["proved_optimal"] is False
    assert len(values["front"]) > 10
    assert values["peak"]["operator"]
    assert "Memory and latency" in page.read_text()
    assert CheckpointPlan.from_dict(yaml.safe_load(plan.read_text())).to_dict() == values["plan"]
    assert Plan.from_dict(yaml.safe_load(saved.read_text())).to_dict() == values["schedule_plan"]


def test_exact_costs_static_optima_only_and_says_what_is_exact() -> None:
    arguments = (RESNET, "--image", "16", "--hardware", "edge-tpu", "--method", "exact", "--budget", "80%")
    values = json.loads(run_command(*arguments, "--json", "-"))
    assert values["method"] == "exact"
    assert values["proved_optimal"] is False  # the latency is not
    assert values["front"]
    for one in (values, *values["front"]):
        assert one["static"]
        assert all(each["proved_optimal"] and each["cost"] in ("flops", "time") for each in one["static"])
        assert all(one["kept_bytes"] <= each["budget_bytes"] for each in one["static"])
    text = " ".join(run_command(*arguments).split())
    assert "exact is the static choice" in text
    assert "not exact are its latency" in text
    with pytest.raises(CheckpointError, match="--method exact decides"):
        run_command(*arguments, "--choices", "keep,recompute,offload")


def test_a_baseline_is_costed_without_a_search() -> None:
    arguments = (RESNET, "--image", "16", "--hardware", "edge-tpu", "--method", "per-block", "--json", "-")
    values = json.loads(run_command(*arguments))
    named = {one["method"]: one for one in values["baselines"]}
    assert values["plan"] == named["per-block"]["plan"]
    assert values["evaluated"] == 2 * len(named)
    with pytest.raises(CheckpointError, match="did you mean 'per-block'"):
        run_command(RESNET, "--image", "16", "--hardware", "edge-tpu", "--method", "per-blok")


@pytest.mark.slow
def test_joint_is_no_slower_than_checkpointing_alone_and_within_the_budget() -> None:
    arguments = (
        "mlp-robot",
        "--batch",
        "64",
        "--hardware",
        "edge-tpu",
        "--effort",
        "1",
        "--budget",
        "90%",
        "--json",
        "-",
    )
    alone, joint = json.loads(run_command(*arguments)), json.loads(run_command(*arguments, "--joint"))
    assert joint["joint"]
    assert joint["latency_s"] <= alone["latency_s"]
    assert joint["memory_peak_bytes"] <= joint["budget_bytes"]
    # shares of the peak of a plain step under groups that are not the same; set after 1 % was seen
    assert joint["budget_bytes"] == pytest.approx(alone["budget_bytes"], rel=0.02)
    first = joint["joint"][0]
    assert first["latency_s"] == alone["latency_s"]  # the first round is the search alone
    assert first["taken"] in ("fused again", "checkpointed")
    # what is handed out costs what it says
    step = monet.training_step(monet.load_model("mlp-robot", batch=64))
    plan, schedule = CheckpointPlan.from_dict(joint["plan"]), Plan.from_dict(joint["schedule_plan"])
    result = monet.evaluate(recompute(step, plan), monet.load_hardware("edge-tpu"), schedule)
    assert result.latency_s == joint["latency_s"]


@pytest.mark.parametrize("more", [(), ("--joint",)])
def test_ctrl_c_keeps_the_best_so_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: tuple[str, ...]) -> None:
    """And ends the command there: a joint search does not go on with fusion."""
    monkeypatch.setattr(scheduled_search, "evolve", lambda *_, **__: Evolution({}, (), 0, True))
    monkeypatch.setattr(scheduled_joint, "find_fusion", None)
    place = tmp_path / "found.json"
    arguments = ["checkpoint", "mlp-robot", "--hardware", "edge-tpu", "--json", str(place), *more]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 130
    assert "the best so far" in shown.stdout
    values = json.loads(place.read_text())
    assert values["interrupted"]
    assert values["front"]
    assert values["latency_s"] > 0


def test_the_front_of_every_seed_covers_the_baselines() -> None:
    graph = monet.training_step(monet.load_model("mlp-robot", batch=64))
    costed = ScheduledCost(scheduler := Scheduler(graph, monet.load_hardware("edge-tpu")), default_plan(scheduler))
    for seed in range(2):
        found = search_front(costed, seed=seed, settings=SMALL)
        for name, one in found.baselines:
            assert any(
                all(a <= b for a, b in zip(other.objectives, one.objectives, strict=True)) for other in found.front
            ), (seed, name)


def test_an_impossible_budget_says_what_is_short(front: ScheduledFront) -> None:
    asked = Asked(monet.Request("mlp-robot", "edge-tpu"), "1kB", "auto", ("keep", "recompute"), 0, 1, 1, False)
    with pytest.raises(monet.errors.MonetError, match=r"reached in .* bytes short"):
        choose(front, asked)


# --- paging out -------------------------------------------------------------------------------------------------------


def paging_case(bandwidth: str = "4 GB/s", fusion: str = "none") -> ScheduledCost:
    graph = monet.training_step(monet.load_model("resnet18", batch=1, image=64))
    accelerator = monet.load_hardware("edge-tpu", {"endpoints.host.bandwidth_bytes_per_s": bandwidth})
    return ScheduledCost(scheduler := Scheduler(graph, accelerator), default_plan(scheduler, fusion))


def computes(result: Result, name: str) -> tuple[int, int]:
    """When an operator is on its core, or port, for the first and the last time, in ticks."""
    timeline = result.timeline
    runs = np.isin(timeline.kind, [EVENT_KINDS.index("compute"), EVENT_KINDS.index("transfer")])
    mine = (timeline.operator == timeline.operators.index(name)) & runs
    return int(timeline.start[mine].min()), int(timeline.end[mine].max())


def check_blocks_are_back(schedule: Schedule, page: int, readers: set[int]) -> None:
    """No tile of some operators that holds a block of a page, by the operators' numbers, starts before the block is
    back, and none that streams one ends before."""
    steps, entries = schedule.expanded.tables.steps, schedule.expanded.tables.entries
    nodes, timed = schedule.decided.events.nodes, schedule.timed
    runs = np.flatnonzero(nodes.kind == COMPUTE)
    start = dict(zip(nodes.step[runs].tolist(), timed.start[runs].tolist(), strict=True))
    end = dict(zip(nodes.step[runs].tolist(), timed.end[runs].tolist(), strict=True))
    back: dict[int, int] = {}
    checked = 0
    for step in start:
        for entry in range(steps.entry_start[step], steps.entry_end[step]):
            block, kind = int(entries.block[entry]), int(entries.kind[entry])
            if steps.operator[step] == page and kind in WRITES:
                back[block] = max(back.get(block, 0), end[step])
    for step in start:
        for entry in range(steps.entry_start[step], steps.entry_end[step]):
            block, kind = int(entries.block[entry]), int(entries.kind[entry])
            if steps.operator[step] in readers and block in back and kind in (HOLD_READ, STREAM_READ):
                assert (start[step] if kind == HOLD_READ else end[step]) >= back[block]
                checked += 1
    assert checked or not readers


def check_pages(costed: ScheduledCost, plan: CheckpointPlan) -> None:
    """No page is read before it was written, by port or backward; and the search's figures are those of the
    graph with pages, to the tick."""
    scheduler, schedule = costed.schedule(plan)
    graph, machine = recompute(costed.graph, plan), scheduler.machine
    result = monet.evaluate(graph, machine.accelerator, schedule.plan)
    figures, memory = costed.figures(plan), {trace.name: trace for trace in result.memory}
    assert (result.latency_s, result.dram_bytes.total) == (figures.latency_s, figures.dram_bytes)
    assert result.energy_j == pytest.approx(figures.energy_j, rel=1e-12)
    assert result.dram_peak_bytes == figures.dram_peak_bytes
    assert memory["host"].peak_bytes == figures.host_peak_bytes > 0
    assert int(memory["host"].bytes[:, -1].sum()) == 0  # nothing is left there
    pages, operators = [op for op in graph.ops if op.kind == "page_in"], scheduler.workload.operators
    ends = dict(zip((each.op.name for each in operators), schedule.last_end(len(operators)).tolist(), strict=True))
    known = {each.op.name: each.number for each in operators}
    assert pages
    for page in pages:
        out, back = computes(result, graph.producer[page.inputs[0]].name), computes(result, page.name)
        assert out[1] <= back[0]
        for awaited in page.inputs[1:]:
            assert computes(result, graph.producer[awaited].name)[1] <= back[0]
        for reader in graph.consumers[page.name]:
            if reader.name in result.timeline.operators:
                assert back[1] <= ends[reader.name]
        read_by = {known[reader.name] for reader in graph.consumers[page.name] if reader.name in known}
        check_blocks_are_back(schedule, known[page.name], read_by)
    assert result.bounds.latency_s <= result.latency_s


@pytest.mark.parametrize("fusion", ["none", "auto"])
@pytest.mark.parametrize("settled", [False, True])
def test_no_page_is_read_before_it_was_written(fusion: str, settled: bool) -> None:
    costed, rng = paging_case(fusion=fusion), random.Random(7)
    for _ in range(3):
        choices = {name: rng.choice(("keep", "recompute", "offload", "narrow")) for name in costed.saved_bytes}
        check_pages(costed, costed.settled(CheckpointPlan(choices)) if settled else CheckpointPlan(choices))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "sizes", "hardware", "precision"),
    [
        ("gpt2-mini", {"sequence": 64}, "a100", "fp16"),
        ("mobilenetv2", {"image": 32}, "edge-tpu", "fp32"),
    ],
)
def test_no_page_is_read_before_it_was_written_elsewhere(
    model: str, sizes: dict[str, int], hardware: str, precision: str
) -> None:
    graph, rng = monet.training_step(monet.load_model(model, batch=2, **sizes), precision=precision), random.Random(3)
    scheduler = Scheduler(graph, monet.load_hardware(hardware))
    costed = ScheduledCost(scheduler, default_plan(scheduler))
    choices = {name: rng.choice(("keep", "keep", "offload")) for name in costed.saved_bytes}
    check_pages(costed, CheckpointPlan(choices))


def test_paging_lowers_the_peak_and_pays_for_it() -> None:
    costed = paging_case()
    plain, away = (
        costed.figures(costed.settled(CheckpointPlan(dict.fromkeys(names, "offload"))))
        for names in ((), ("bn1", "maxpool"))
    )
    size = sum(costed.graph.tensors[name].bytes for name in ("bn1", "maxpool"))
    assert away.memory_peak_bytes < plain.memory_peak_bytes
    assert plain.kept_bytes - away.kept_bytes == size
    assert away.dram_bytes - plain.dram_bytes == 2 * size
    assert away.energy_j > plain.energy_j
    assert away.dram_peak_bytes < plain.dram_peak_bytes
    assert away.latency_s >= plain.latency_s


def test_no_host_no_paging() -> None:
    graph = monet.training_step(monet.load_model("mlp-pusher"))
    scheduler = Scheduler(graph, monet.load_hardware("fusemax"))
    costed = ScheduledCost(scheduler, default_plan(scheduler))
    with pytest.raises(CheckpointError, match="describes no host"):
        search_front(costed, choices=("keep", "offload"), settings=SMALL)


def test_a_plan_that_pages_runs_with_the_figures_of_its_search(tmp_path: Path) -> None:
    path, saved, schedule = (str(tmp_path / name) for name in ("plan.yaml", "saved.yaml", "schedule.yaml"))
    Path(path).write_text("offload: {bn1: 4, maxpool: null}\nrecompute: [layer1.0.bn1]\n")
    model = ("resnet18", "--image", "64", "--hardware", "edge-tpu")
    files = ("--save-plan", saved, "--save-schedule", schedule)
    values = json.loads(run_command(*model, "--method", path, "--json", "-", *files))
    assert values["plan"]["offload"]
    assert values["method"] == path
    assert values["memory_peak_bytes"] < values["plain"]["memory_peak_bytes"]
    arguments = ["run", *model, "--checkpoint", saved, "--fusion", schedule, "--json", "-"]
    result = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).stdout)
    assert result["latency_s"] == values["latency_s"]
    assert result["energy_j"] == pytest.approx(values["energy_j"], rel=1e-12)
    assert result["dram_bytes"]["total"] == values["dram_bytes"]
    assert result["memory_peak_bytes"]["host"]["total"] == values["host_peak_bytes"]
    assert {"bn1/page_out", "bn1/page_in"} <= {row["name"] for row in result["operators"]}


def test_all_four_choices_in_one_search() -> None:
    costed = paging_case()
    found = search_front(costed, choices=("keep", "recompute", "offload", "narrow"), settings=SMALL)
    assert found.front
    named = {choice for one in found.front for choice in one.plan.to_dict()}
    assert {"recompute", "narrow"} <= named  # whether pages are on the front is a matter of the accelerator
    for one in found.front[:2]:
        assert costed.figures(one.plan, one.fused) == one.figures
