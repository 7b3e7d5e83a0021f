"""Every number that the pages of ``fuse``, ``allocate``, ``checkpoint`` and ``explore`` draw, and the plots of a
notebook, against the field that its label names. Inputs are written down here, with figures that are all different, so
that one field in place of another shows."""

from __future__ import annotations

import html
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from monet.report import plots
from monet.report.fusion import PlanRow
from monet.report.fusion import render as render_fusion
from monet.report.html import allocation, checkpoint, explore, fusion
from monet.report.html.study import Panel
from monet.report.info.memory import thinned
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.figures import Figures
from monet.schedule.plan import Plan
from monet.schedule.result_rows import CATEGORIES, TIME_PARTS, Timeline
from monet.search.allocation.comparison import ComparedPlan
from monet.search.hardware.analysis import choices, importance, objectives_of, overlap
from monet.search.hardware.exploration import pareto
from monet.search.hardware.objectives import parse_objective
from monet.search.hardware.record import Record
from tests.report.reading import check, check_words
from tests.report.small import small, small_graph
from tests.schedule.cases import accelerator
from tests.search.evaluators import metrics
from tests.search.spaces import grid

Points = list[tuple[float, float]]


def points(trace: dict[str, Any]) -> Points:
    return list(zip(trace["x"], trace["y"], strict=True))


def drawn(figure: dict[str, Any]) -> dict[str, Points]:
    return {trace["name"]: points(trace) for trace in figure["data"]}


def titles(figure: dict[str, Any]) -> tuple[str, ...]:
    layout = figure["layout"]
    return tuple(
        layout[name]["title"]["text"] for name in ("xaxis", "yaxis", "yaxis2") if "title" in layout.get(name, {})
    )


def close(found: Points, expected: Points) -> None:
    assert found == [pytest.approx(pair, rel=1e-12, abs=0) for pair in expected]


def cells(body: str) -> list[list[str]]:
    rows = [re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)]
    return [[html.unescape(re.sub(r"<.*?>", "", cell)) for cell in row] for row in rows]


# --- fuse -------------------------------------------------------------------------------------------------------------

PLANS = [
    PlanRow("unfused", 2e-3, 5e-3, 1e-5, 7e6, 9000, 0, 0),
    PlanRow("manual", 1.6e-3, 4.5e-3, 7.2e-6, 5e6, 8000, 3, 7),
    PlanRow("found", 1.5e-3, 4.1e-3, 6.15e-6, 4e6, 7000, 4, 11),
    PlanRow("bound", 0.5e-3, 1.1e-3, 5.5e-7, 2.5e6),
]
FUSED: dict[str, Any] = {
    "model": "net", "hardware": "chip", "operators": 31, "objective": "energy", "limit": 6, "effort": 2, "seed": 9,
    "interrupted": False, "plans": PLANS,
    "off_chip": {
        "unfused_bytes": 7_000_000, "found_bytes": 4_000_000, "compulsory_bytes": 2_500_000, "forced_bytes": 300_000,
    },
    "candidates": {
        "legal": 1234, "complete": True, "hopeful": 567, "distinct": 89, "costed": 45, "schedules": 123, "gaining": 21,
        "dominated": 8,
    },
    "partition": {"unit": "J", "additive_cost": 3.9e-3, "additive_bound": 3.7e-3, "optimal": False, "groups": 4},
    "rank_correlation": 0.87, "rank_correlation_of_best": 0.65,
    "ranked_plans": [[3.9e-3, 4.1e-3], [3.95e-3, 4.2e-3]], "schedules": 321,
}  # fmt: skip


def test_plans_of_fuse() -> None:
    bars = drawn(fusion.relative_figure(FUSED))
    close([(0.0, y) for _, y in bars["latency"]], [(0.0, each) for each in (100, 80, 75, 25)])
    close([(0.0, y) for _, y in bars["energy"]], [(0.0, each) for each in (100, 90, 82, 22)])
    assert [x for x, _ in bars["energy"]] == [plan.name for plan in PLANS]
    moved = drawn(fusion.traffic_figure(FUSED))
    assert [y for _, y in moved["off-chip"]] == pytest.approx([7, 5, 4, 2.5])
    assert [y for _, y in moved["compulsory"]] == [2.5] * 4
    assert titles(fusion.traffic_figure(FUSED)) == ("MB per step",)
    close(drawn(fusion.ranking_figure(FUSED))["plan"], [(3.9, 4.1), (3.95, 4.2)])
    assert titles(fusion.ranking_figure(FUSED)) == ("additive energy, mJ", "scheduled energy, mJ")
    product = FUSED | {"objective": "edp", "partition": {"unit": "Js"}}
    close(drawn(fusion.ranking_figure(product))["plan"], [(3.9e-3, 4.1e-3), (3.95e-3, 4.2e-3)])
    assert titles(fusion.ranking_figure(product))[0] == "additive edp, Js"


def test_the_search_of_fuse() -> None:
    shown = dict(row for row in cells(fusion._search(FUSED)) if row[0])
    assert shown == {
        "legal groups (convex, connected)": "1,234",
        "that may gain more than a part of them": "567",
        "distinct, repeated layers once": "89",
        "costed through the full schedule": "45 (123 schedules)",
        "gaining; dominated by a part of them": "21; 8",
        "exact partition proved optimal": "no",
        "rank correlation, additive and scheduled": "0.87",
        "the same among the better half": "0.65",
        "schedules in all": "321",
        "compulsory off-chip bytes that memories cannot keep": "300 kB",
    }


def test_lines_of_fuse(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    Console(width=300).print(render_fusion(FUSED))
    title, *_, off, groups, partition, trust, manual = (line for line in capsys.readouterr().out.splitlines() if line)
    assert title.strip() == "net on chip   31 operators, groups of at most 6, for energy"
    said = (
        "Off-chip  {unfused} unfused, {found} found, {least} compulsory ({forced} of it because memories cannot keep "
    )
    said += "it): {gone} of what could go is gone"
    check_words(
        off.strip(), said, "off-chip", unfused=(7e6, "B"), found=(4e6, "B"), least=(2.5e6, "B"), forced=(3e5, "B"),
        gone=(3e6 / 4.5e6, "%"),
    )  # fmt: skip
    said = "Groups 1,234 legal, 567 may gain, 89 distinct, 45 costed in 123 schedules, 21 gain, 8 of them dominated"
    assert re.sub(r" +", " ", groups.strip()) == said
    check_words(
        partition.strip(), "Partition {cost} if gains added up (bound {bound}); not a bound on the schedule",
        "partition", cost=(3.9e-3, "J"), bound=(3.7e-3, "J"),
    )  # fmt: skip
    said = "Trust rank correlation of additive and scheduled cost 0.87 (0.65 among the better half) over 2 plans;"
    assert re.sub(r" +", " ", trust.strip()) == f"{said} 321 schedules in all"
    assert manual.strip() == "Against manual: latency -6.2 %, energy -8.9 %"


# --- allocate ---------------------------------------------------------------------------------------------------------


def stage(name: str, count: int, latency_s: float, energy_j: float) -> SimpleNamespace:
    figures = Figures(latency_s, energy_j, 10 * count, 20 * count)
    return SimpleNamespace(name=name, evaluations=count, figures=figures)


FOUND: Any = SimpleNamespace(
    points=((3e-3, 7e-3), (2e-3, 9e-3), (4e-3, 8e-3)),
    front=(stage("a", 1, 2e-3, 9e-3), stage("b", 2, 3e-3, 7e-3)),
    rounds=(stage("rules", 12, 4e-3, 8e-3), stage("genetic", 90, 3e-3, 7e-3), stage("local", 140, 2e-3, 9e-3)),
)
COMPARED = (
    ComparedPlan("default", "", 5e-3, 6e-3, 100),
    ComparedPlan("found", "", 2e-3, 9e-3, 50),
    ComparedPlan("bound", "", 1e-3, 2e-3, None),
    ComparedPlan("theirs", "published", 6e-3, 5e-3, None, "a paper"),
)


def test_plans_of_allocate() -> None:
    shown = allocation.front_figure(FOUND, COMPARED)
    assert titles(shown) == ("latency, ms", "energy, mJ")
    found = drawn(shown)
    close(found.pop("tried"), [(3, 7), (2, 9), (4, 8)])
    close(found.pop("front"), [(2, 9), (3, 7)])
    close(found.pop("default"), [(5, 6)])
    close(found.pop("found"), [(2, 9)])
    assert not found  # a bound and published figures are no plans
    close(drawn(plots._allocation(FOUND))["tried"], [(3, 7), (2, 9), (4, 8)])
    close(drawn(plots._allocation(FOUND))["front"], [(2, 9), (3, 7)])
    rounds = allocation.rounds_figure(FOUND)
    assert titles(rounds) == ("plans tried", "latency, ms", "energy, mJ")
    close(drawn(rounds)["latency, ms"], [(12, 4), (90, 3), (140, 2)])
    close(drawn(rounds)["energy, mJ"], [(12, 8), (90, 7), (140, 9)])
    assert [trace.get("yaxis") for trace in rounds["data"]] == [None, "y2"]


def test_bars_of_cores() -> None:
    """Neighbours of one operator are one bar, unless another or a pause of more than 1/400 lies between."""
    start, end = np.array([0, 100, 203, 206, 400, 50, 998]), np.array([100, 200, 205, 300, 500, 90, 1000])
    resource, operator = np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 2, 2])
    kind = np.full(7, allocation.COMPUTE)
    kind[4] += 1  # no work of the core
    timeline = Timeline(1e3, ("core", "dram"), ("a", "b", "c"), start, end, resource, operator, kind)
    assert allocation.merged_bars(timeline, 0, computes=True) == [(0, 200, 0), (203, 205, 0), (206, 300, 1)]
    assert allocation.merged_bars(timeline, 0, computes=False)[-1] == (400, 500, 1)
    assert allocation.merged_bars(timeline, 1, computes=False) == [(50, 90, 2), (998, 1000, 2)]


def test_cores_of_a_plan_over_time() -> None:
    result, scheduler = small(), Scheduler(small_graph(), accelerator("mesh", sram=8192, dram=16))
    plan = scheduler.complete(Plan.from_dict(result.plan) if isinstance(result.plan, dict) else result.plan)
    events, second = result.timeline, result.ticks_per_second
    shown = allocation.gantt_figure(scheduler, plan)
    assert titles(shown) == ("time, ms",)
    rows = {trace["y"][0]: trace for trace in shown["data"] if trace["y"]}
    assert {row.name for row in result.cores if row.tiles} < set(rows)
    pause = 1e3 * result.latency_s / 400
    for row in result.cores:
        if row.tiles:
            bars = rows[row.name]
            mine = (events.resource == events.resources.index(row.name)) & (events.kind == allocation.COMPUTE)
            assert bars["base"][0] == pytest.approx(1e3 * events.start[mine].min() / second)
            assert bars["base"][-1] + bars["x"][-1] == pytest.approx(1e3 * events.end[mine].max() / second)
            busy = 1e3 * (events.end[mine] - events.start[mine]).sum() / second
            assert busy * (1 - 1e-9) <= sum(bars["x"]) <= busy + pause * mine.sum()
            assert set(bars["text"]) == {events.operators[number] for number in events.operator[mine]}


# --- checkpoint -------------------------------------------------------------------------------------------------------


def plan(method: str, peak: float, kept: float, latency: float, energy: float, again: float) -> dict[str, Any]:
    return {
        "method": method, "plan": {"recompute": ["a", "b"]}, "memory_peak_bytes": peak * 1e6, "kept_bytes": kept * 1e6,
        "latency_s": latency, "energy_j": energy, "dram_bytes": 1e6 * (peak + kept), "recompute_over_forward": again,
        "peak_operator": f"{method}.op", "gap": again / 4, "peak": {"bytes": peak * 1e6, "operator": f"{method}.op"},
    }  # fmt: skip


PLAIN = plan("keep-all", 8, 6, 1.0, 2.0, 0.0)
SCHEDULED: dict[str, Any] = plan("ga", 5, 4, 1.2, 1.8, 0.25) | {
    "plain": PLAIN,
    "front": [plan("ga", 5, 4, 1.2, 1.8, 0.25), plan("ga", 3, 2, 1.5, 2.6, 0.5), plan("exact", 4, 3, 1.6, 1.9, 0.3)],
    "baselines": [PLAIN, plan("per-block", 4.5, 3.5, 1.3, 2.1, 0.4)],
    "exact": [{"kept_bytes": 2e6, "bound": 0.45}, {"kept_bytes": 6e6, "bound": 0.0}],
}
VALUES = {"latency_s": {"ga": (5, 20), "small": (3, 50), "exact": (4, 60), "per-block": (4.5, 30)},
          "energy_j": {"ga": (5, -10), "small": (3, 30), "exact": (4, -5), "per-block": (4.5, 5)}}  # fmt: skip


@pytest.mark.parametrize(("value", "label", "on_line"), [
    ("latency_s", "latency", ("small", "ga")), ("energy_j", "energy", ("small", "exact", "ga")),
])  # fmt: skip
def test_plans_of_checkpoint_through_the_schedule(value: str, label: str, on_line: tuple[str, ...]) -> None:
    shown, known = checkpoint.scheduled_figure(SCHEDULED, value, label), VALUES[value]
    assert titles(shown) == ("peak of activations, MB", f"{label} against the plain step, %")
    found = drawn(shown)
    close(found[f"memory and {label}"], [known[name] for name in on_line])
    rest = [known[name] for name in ("ga", "small", "exact") if name not in on_line]
    close(found["on the front for the other figure"], rest)
    assert found["baselines"] == [pytest.approx((8, 0), abs=1e-9), pytest.approx(known["per-block"])]
    close(found["chosen"], [known["ga"]])


def test_repeated_work_of_checkpoint() -> None:
    shown = checkpoint.work_figure(SCHEDULED)
    assert titles(shown) == ("kept from forward to backward, MB", "repeated FLOPs of the forward pass, %")
    found = drawn(shown)
    close(found["proved least"], [(2, 45), (6, 0)])
    close(found["front through the schedule"], [(4, 25), (2, 50), (3, 30)])
    close(found["baselines"], [(6, 0), (3.5, 40)])
    head, first, second = cells(checkpoint.plan_table(SCHEDULED["baselines"], PLAIN))
    assert head == ["plan", "peak", "kept", "latency", "energy", "DRAM traffic", "again", "peak in"]
    assert first[0] == "keep-all"
    for text, (amount, unit, change) in zip(
        second[1:6], ((4.5e6, "B", ""), (3.5e6, "B", ""), (1.3, "s", "+30.00 %"), (2.1, "J", "+5.00 %"),
                      (8e6, "B", "-42.86 %")), strict=True,
    ):  # fmt: skip
        number, _, against = text.partition(" (")
        check(number, amount, unit, text)
        assert against.removesuffix(")") == change
    assert second[6:] == ["40.00 %", "per-block.op"]


@pytest.mark.parametrize("memory", ["kept", "peak"])
def test_plans_of_checkpoint_by_work(memory: str) -> None:
    values = SCHEDULED | {
        "model": "net", "memory": memory, "keep_all_bytes": 6e6, "counting": "", "timeline": {"proved_means": "all"},
    }  # fmt: skip
    _, facts, (panel, table) = checkpoint.static_page(values)
    assert facts[0] == "keeps 6 MB without a plan"
    found, place = drawn(dict(panel.figure or {})), {"kept": "kept_bytes", "peak": "memory_peak_bytes"}[memory]
    front = sorted(SCHEDULED["front"], key=lambda each: each[place])
    close(found["front"], [(each[place] / 1e6, 100 * each["recompute_over_forward"]) for each in front])
    close(found["proved least"], [(each[place] / 1e6, 75 * each["recompute_over_forward"]) for each in front])
    close(found["chosen"], [(SCHEDULED[place] / 1e6, 25)])
    close(found["baselines"], [(PLAIN[place] / 1e6, 0), (SCHEDULED["baselines"][1][place] / 1e6, 40)])
    row = cells(table.body)[-1]
    assert row == ["per-block", "3.5 MB", "40.00 %", "10.00", "4.5 MB", "per-block.op"]


# --- explore ----------------------------------------------------------------------------------------------------------


def records() -> tuple[Any, list[Record]]:
    space = grid(4, 3)
    made = [Record(point, "ok", "", metrics(point) | {"macs": 2.0 ** point["a"]}) for point in space.points()]
    return space, [*made, Record({"a": 1, "b": 9}, "infeasible", "constraint: x <= 1 (x is 9)")]


def test_designs_of_explore() -> None:
    space, every = records()
    feasible = every[:-1]
    shown = explore.front_figure(space, every, "training", {})
    assert titles(shown) == ("training latency, ms", "training energy, mJ")
    names = ("training.latency_s", "training.energy_j")
    found = drawn(shown)
    close(found["all designs"], [(1e3 * one.metrics[names[0]], 1e3 * one.metrics[names[1]]) for one in feasible])
    for scope in ("inference", "training"):
        best = pareto(space, feasible, objectives_of(space, scope))
        close(found[f"front for {scope}"], [(1e3 * one.metrics[names[0]], 1e3 * one.metrics[names[1]]) for one in best])
    assert shown["data"][0]["marker"]["color"] == [one.values["a"] for one in feasible]
    text = shown["data"][0]["text"][0].split("<br>")
    assert text[:2] == ["a = 1", "b = 1"]
    assert text[-1] == f"area {feasible[0].metrics['area_mm2']:.1f} mm²"
    for line, scope in zip(text[2:4], ("inference", "training"), strict=True):
        one = feasible[0].metrics
        check_words(
            line, f"{scope}: {{time}}, {{energy}}, {{memory}} in DRAM", scope, time=(one[f"{scope}.latency_s"], "s"),
            energy=(one[f"{scope}.energy_j"], "J"), memory=(one[f"{scope}.memory_bytes"], "B"),
        )  # fmt: skip
    goals = tuple(
        parse_objective(text, {"inference": "inference", "training": "training"})
        for text in ("inference.memory", "training.energy", "area", "training.edp")
    )
    dimensions = explore.lines_figure(space, every, goals)["data"][0]["dimensions"]
    best = pareto(space, feasible, goals)
    order = [*(one for one in feasible if one not in best), *best]
    for each, (key, scale) in zip(
        dimensions[2:6],
        (
            ("inference.memory_bytes", 1e-6),
            (names[1], 1e3),
            ("area_mm2", 1.0),
            ("training.edp_js", 1e6),
        ),
        strict=True,
    ):
        assert each["values"] == pytest.approx([scale * one.metrics[key] for one in order], rel=1e-12, abs=0)
    assert [each["label"] for each in dimensions[2:6]] == [
        "inference memory, MB", "training energy, mJ", "area, mm²", "training edp, µJ·s",
    ]  # fmt: skip
    assert [[each["tickvals"].index(value) + 1 for value in each["values"]] for each in dimensions[:2]] == [
        [one.values[name] for one in order] for name in ("a", "b")
    ]


def test_tables_of_explore() -> None:
    space, every = records()
    feasible = every[:-1]
    head, *rows = cells(explore.front_table(space, feasible))
    assert head == ["front for", "a", "b", "latency", "energy", "area"]
    expected = [
        [scope, str(one.values["a"]), str(one.values["b"]), f"{1e3 * one.metrics[f'{scope}.latency_s']:.4g} ms",
         f"{1e3 * one.metrics[f'{scope}.energy_j']:.4g} mJ", f"{one.metrics['area_mm2']:.1f} mm²"]
        for scope in ("inference", "training")
        for one in pareto(space, feasible, objectives_of(space, scope))
    ]  # fmt: skip
    assert rows == expected
    rows = cells(explore.overlap_table(space, feasible))
    fronts = overlap(space, feasible, "inference", "training")
    (row,) = [row for row in rows if row[0] == "designs of the inference front, used for training"]
    assert row[1:4] == [str(fronts.first_size), str(fronts.second_size), str(fronts.common)]
    check(row[4], fronts.share, "%", "of either")
    check(row[5], fronts.hypervolume_ratio, "%", "hypervolume")
    for choice in choices(space, feasible, ("latency", "energy", "edp")):
        name = f"best {choice.figure} for {choice.best_for}, used for {choice.used_for}"
        (row,) = [row for row in rows if row[0] == name]
        check(row[1], choice.penalty, "×", name)
        assert row[2:] == [", ".join(str(each) for each in one.values.values()) for one in (choice.design, choice.best)]
    goals = objectives_of(space, "training")
    for goal, trace in zip(goals, explore.importance_figure(space, feasible, goals)["data"], strict=True):
        shares = importance(space, feasible, goal)
        assert (trace["name"], trace["x"]) == (goal.text, [share.parameter for share in shares])
        assert trace["y"] == [share.main for share in shares]
        for text, hover, share in zip(trace["text"], trace["hovertext"], shares, strict=True):
            check(text, share.main, "%", "main")
            check_words(
                hover, "alone {main}, with interactions {total}", "shares", main=(share.main, "%"),
                total=(share.total, "%"),
            )  # fmt: skip
    assert explore.facts(space, every)[0] == f"13 of {space.size} points, 12 with figures"
    last: Panel = explore.panels(space, every, goals, {})[-1]
    assert cells(last.body)[1:] == [["infeasible: constraint: x <= 1", "1"]]


# --- plots of a notebook ----------------------------------------------------------------------------------------------


def test_plots_of_a_result() -> None:
    result = small()
    scale, events = 1e3 / result.ticks_per_second, result.timeline
    bars = sorted(
        (name, round(base, 9), round(length, 9), text)
        for trace in plots.timeline(result).data
        for name, base, length, text in zip(trace.y, trace.base, trace.x, trace.text, strict=True)
    )
    assert bars == sorted(
        (events.resources[r], round(scale * s, 9), round(scale * (e - s), 9), events.operators[o] if o >= 0 else "")
        for r, s, e, o in zip(*(each.tolist() for each in (events.resource, events.start, events.end, events.operator)),
                              strict=True)
    )  # fmt: skip
    phases = {row.name: row.phase for row in result.operators}
    for trace in plots.timeline(result).data:
        assert {phases.get(text, "other") for text in trace.text} == {trace.name}
    for memory in result.memory:
        keep = thinned(memory.time, memory.bytes)
        shown = {trace.name: trace for trace in plots.memory(result, memory.name).data}
        assert list(shown) == [name for name, row in zip(CATEGORIES, memory.bytes, strict=True) if row.any()]
        for name, trace in shown.items():
            assert list(trace.x) == pytest.approx((scale * memory.time[keep]).tolist())
            assert list(trace.y) == pytest.approx((memory.bytes[CATEGORIES.index(name)][keep] / 1e6).tolist())
    for by, parts in (("level", result.energy_breakdown.by_level), ("core", result.energy_breakdown.by_core)):
        (trace,) = plots.energy(result, by).data
        assert dict(zip(trace.x, trace.y, strict=True)) == {name: value for name, value in parts.items() if value}
    causes = {trace.name: dict(zip(trace.x, trace.y, strict=True)) for trace in plots.time(result).data}
    assert len(causes) == len(TIME_PARTS)
    for part, shown in zip(TIME_PARTS, causes.values(), strict=True):
        assert shown == pytest.approx({row.name: scale * row.time_ticks[part] for row in result.cores})


def test_roofs_and_operators_below_them() -> None:
    result = small()
    second = sum(dram.bandwidth_bytes_per_s for dram in result.hardware_summary.drams)
    seen, roofs = 0, sorted({float(each) for each in result.hardware_summary.peak_ops_per_s.values() if each})
    rows = {row.name: row for row in result.operators}
    for trace in plots.roofline(result).data:
        if trace.mode == "lines":
            (low, knee, _), (slope, *flat) = trace.x, trace.y
            assert slope == pytest.approx(low * second)
            assert flat == [roofs.pop()] * 2 == [pytest.approx(knee * second)] * 2
            continue
        for name, x, y in zip(trace.text, trace.x, trace.y, strict=True):
            row, seen = rows[name], seen + 1
            assert row.phase == trace.name
            assert (x, y) == pytest.approx((row.operations / row.dram_bytes, row.operations / row.latency_s))
    assert not roofs
    assert seen == sum(bool(row.operations and row.dram_bytes) for row in result.operators)


def test_front_of_checkpointing() -> None:
    point = [
        SimpleNamespace(figures=SimpleNamespace(memory_peak_bytes=each * 1e6, latency_s=each / 7)) for each in (2, 3, 5)
    ]
    found = SimpleNamespace(front=[point[0]], baselines=[("per-block", point[1])], plain=point[2])
    shown = plots._checkpointing(found)
    assert titles(shown) == ("peak of activations, MB", "latency, ms")
    assert drawn(shown) == {
        "front": [(2, 1e3 * 2 / 7)], "baselines": [(3, 1e3 * 3 / 7)], "plain": [(5, 1e3 * 5 / 7)],
    }  # fmt: skip
    assert [trace["text"] for trace in shown["data"]] == [[""], ["per-block"], ["keep-all"]]
