"""Every number that is said of a step over a system, and of a search over plans: terminal, page, trace and diff are
read back and compared with the fields they show. A heading, a trace or an event that no table lists fails."""

from __future__ import annotations

import html
import io
import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from monet.cli import app
from monet.commands.distribute import _plain
from monet.distributed.result import TASKS, DistributedResult
from monet.distributed.systems.system import system_from_text
from monet.report.distributed import plan_words, render, time_table, title_of
from monet.report.distributed_difference import compared, plans
from monet.report.distributed_trace import info
from monet.report.distribution import counts_line, headline, why
from monet.report.distribution import render as render_search
from monet.report.html import distributed as page
from monet.report.html import distribution as search_page
from monet.report.table import TextTable
from monet.request.system_request import SystemRequest
from monet.search.distribution.search import ONE_THING, Distribution, Tried, distribute
from monet.search.distribution.space import PlanSpace
from tests.report.reading import Columns, check, check_table, check_words

GPT = "gpt:layers=4,hidden=32,heads=4,vocabulary=64,positions=16,sequence=16"
TEXT = """
name: boards
devices: {hardware: micro-npu}
network:
  board: {size: 2, bandwidth_bytes_per_s: 10 GB/s, latency_s: 1 us, energy_j_per_bit: 1 pJ}
  rack: {size: 4, bandwidth_bytes_per_s: 1 GB/s, latency_s: 5 us, energy_j_per_bit: 10 pJ}
"""
BATCH, SAMPLES = 12, 2  # of a step, of a pass
PARTS = ("weights", "gradients", "optimizer_state", "activations", "workspace")


def asked(**given: Any) -> SystemRequest:
    values = {"batch": BATCH, "micro_batch": SAMPLES, "optimizer": "adam", "fusion": "none", **given}
    return SystemRequest(GPT, system=dict(system_from_text(TEXT).document), **values)


@cache
def result() -> DistributedResult:
    """Two unequal stages of two replicas of two ranks: no two figures of a row are the same."""
    return asked(data=2, tensor=2, pipeline=2, cuts="3", recompute="full", pipeline_schedule="zero-bubble").distribute()


@cache
def other() -> DistributedResult:
    return asked(data=2, tensor=2, shard="states").distribute()


def texts(shown: RenderableType) -> list[list[str]]:
    """What is printed, by blocks between empty lines."""
    console = Console(width=300, file=io.StringIO(), force_terminal=False)
    console.print(shown)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [[line.rstrip() for line in block.splitlines()] for block in re.split(r"\n *\n", text.strip("\n"))]


def cells_of(body: str) -> list[list[str]]:
    """The rows of a table of a page."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    found = [
        [html.unescape(re.sub(r"<.*?>", "", one)) for one in re.findall(r"<td.*?>(.*?)</td>", row)] for row in rows
    ]
    return [row for row in found if row]


def test_the_step_tells_figures_apart() -> None:
    stages = result().stages
    assert len(stages) == 2
    for row in stages:
        figures = (row.forward_s, row.backward_s, row.last_s, row.busy_s, row.bubble_s)
        assert len({round(figure, 12) for figure in figures}) == 5
        assert min(getattr(row.peak_memory_bytes, part) for part in PARTS) > 0
    time = result().time
    assert min(time.compute, time.recomputation, time.update, time.bubble, *time.communication.values()) > 0
    assert 0 < result().mfu < result().hfu
    for sent in result().communication:
        assert sent.bytes < sent.total_bytes
    most = [max(stages, key=lambda row: getattr(row.peak_memory_bytes, part)).number for part in (*PARTS, "total")]
    assert most[-1] != most[PARTS.index("activations")] or len(set(most)) > 1


STAGES: Columns = {
    "stage": ("", lambda row: f"{row.number} ({row.device})"),
    "layers": ("n", lambda row: row.blocks),
    "forward": ("s", lambda row: row.forward_s),
    "backward": ("s", lambda row: row.backward_s),
    "busy": ("s", lambda row: row.busy_s),
    "bubble": ("s", lambda row: row.bubble_s),
    "held": ("n", lambda row: row.micro_batches_held),
    "weights": ("B", lambda row: row.peak_memory_bytes.weights),
    "gradients": ("B", lambda row: row.peak_memory_bytes.gradients),
    "states": ("B", lambda row: row.peak_memory_bytes.optimizer_state),
    "activations": ("B", lambda row: row.peak_memory_bytes.activations),
    "workspace": ("B", lambda row: row.peak_memory_bytes.workspace),
    "memory": ("B", lambda row: sum(getattr(row.peak_memory_bytes, part) for part in PARTS)),
    "full": ("%", lambda row: row.peak_memory_bytes.total / row.capacity_bytes),
}
NETWORK: Columns = {
    "collective": ("", lambda row: f"{row.group} {row.kind}"),
    "level": ("", lambda row: row.level),
    "calls": ("", lambda row: row.calls),
    "a device sends": ("B", lambda row: row.bytes),
    "all": ("B", lambda row: row.total_bytes),
    "on the port": ("s", lambda row: row.seconds),
    "exposed": ("s", lambda row: row.exposed_s),
}


def time_parts(time: Any) -> dict[str, float]:
    """Where time goes, by its words."""
    found = {"compute": time.compute, "recomputation": time.recomputation, "update": time.update}
    found |= {f"exposed {kind.replace('_', '-')}": value for kind, value in time.communication.items()}
    return found | {"bubble": time.bubble}


def check_headline(rows: list[list[str]], of: DistributedResult) -> None:
    most = max(of.stages, key=lambda row: sum(getattr(row.peak_memory_bytes, part) for part in PARTS))
    expected: dict[str, tuple[float, str, str, dict[str, tuple[Any, str]]]] = {
        "step": (of.latency_s, "s", "{rate} samples/s", {"rate": (of.batch / of.latency_s, "")}),
        "MFU": (of.mfu, "%", "of the devices' peak; with recomputation {hfu}", {"hfu": (of.hfu, "%")}),
        "energy": (
            of.energy_j,
            "J",
            "of all devices and the network; {power}",
            {"power": (of.energy_j / of.latency_s, "W")},
        ),
        "memory": (
            most.peak_memory_bytes.total,
            "B",
            f"of {{all}} on a device of stage {most.number}",
            {"all": (most.capacity_bytes, "B")},
        ),
    }
    assert [row[0] for row in rows] == ["step", "MFU", "energy", "device-hours", "memory"]
    for label, figure, words in rows:
        if label == "device-hours":
            assert float(figure) == pytest.approx(of.devices * of.latency_s / 3600, rel=1e-3)
            assert words == "of one step"
            continue
        value, unit, template, values = expected[label]
        check(figure, value, unit, label)
        check_words(words, template, label, **values)


def check_time(rows: list[list[str]], of: DistributedResult) -> None:
    parts = {name: value for name, value in time_parts(of.time).items() if value > 0}
    assert [row[0] for row in rows] == list(parts)
    for name, took, share in rows:
        check(took, parts[name], "s", name)
        check(share, parts[name] / of.latency_s, "%", name)


def test_every_number_in_the_terminal() -> None:
    title, headline_lines, time, stages, network = texts(render(result()))
    assert title == [
        f"{GPT} on 8 devices of boards, batch {BATCH}",
        f"data 2, tensor 2, pipeline 2 zero-bubble, micro-batch {SAMPLES} × {BATCH // (2 * SAMPLES)}, recompute full",
    ]
    check_headline([re.split(r"  +", line.strip()) for line in headline_lines], result())
    assert time[0].startswith("Where a device's time goes")
    bars = [re.split(r"  +", re.sub(r"[█▉▊▋▌▍▎▏]", " ", line).strip()) for line in time[1:]]
    check_time(bars, result())
    assert stages[0] == "Stages, a device of each"
    check_table(stages[1:], STAGES, result().stages, "stages")
    assert network[0] == "Network"
    check_table(network[1:], NETWORK, result().communication, "network")


def test_words_of_the_plan() -> None:
    shown = plan_words(other())
    assert shown == f"data 2, tensor 2, pipeline 1, micro-batch {SAMPLES} × {BATCH // (2 * SAMPLES)}, shard states"
    varied = replace(other(), parallel={**other().parallel, "interleave": 3, "sequence_parallel": True, "pipeline": 4})
    assert plan_words(varied).startswith("data 2, tensor 2 + sequence, pipeline 4 × 3 chunks, ")


def test_every_number_on_the_page() -> None:
    of = result()
    made = {panel.title: panel for panel in page.panels(of)}
    assert set(made) == {
        "",
        "Where a device's time goes, on the average over stages",
        "Pipeline",
        "Where time goes, by stage",
        "Memory at its peak, by stage",
        "Memory over time",
        "Communication between stages",
        "Stages, a device of each",
        "Network",
    }
    check_headline(cells_of(made[""].body), of)
    check_time([row[:3] for row in cells_of(made["Where a device's time goes, on the average over stages"].body)], of)
    for title, columns, rows in (
        ("Stages, a device of each", STAGES, of.stages),
        ("Network", NETWORK, of.communication),
    ):
        for cells, row in zip(cells_of(made[title].body), rows, strict=True):
            for cell, (head, (unit, value)) in zip(cells, columns.items(), strict=True):
                check(cell, value(row), unit, f"{title}, {head}")
    numbers = [row.number for row in of.stages]
    for trace in data(made["Where time goes, by stage"]):
        assert trace["x"] == numbers
        assert trace["y"] == [time_parts(row.time).get(trace["name"], 0.0) for row in of.stages]
    *stacked, capacity = data(made["Memory at its peak, by stage"])
    assert [trace["name"] for trace in stacked] == [part.replace("_", " ") for part in PARTS]
    for part, trace in zip(PARTS, stacked, strict=True):
        assert trace["y"] == [getattr(row.peak_memory_bytes, part) / 1e9 for row in of.stages]
    assert (capacity["name"], capacity["y"]) == ("capacity", [row.capacity_bytes / 1e9 for row in of.stages])


def data(panel: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = panel.figure["data"]
    return found


def test_every_bar_and_line_of_the_page() -> None:
    of = result()
    chart = of.chart
    assert chart is not None
    drawn = {
        (trace["name"], stage, round(base, 9), round(length, 9), text)
        for trace in page.pipeline_figure(of)["data"]
        for stage, base, length, text in zip(trace["y"], trace["base"], trace["x"], trace["text"], strict=True)
    }
    columns = (chart.kind, chart.stage, chart.start, chart.end, chart.micro_batch, chart.chunk)
    expected = {
        (
            TASKS[kind],
            stage,
            round(start / 1e6, 9),
            round((end - start) / 1e6, 9),
            f"{TASKS[kind]} of micro-batch {micro}, chunk {chunk}" if micro >= 0 else TASKS[kind],
        )
        for kind, stage, start, end, micro, chunk in zip(*(column.tolist() for column in columns), strict=True)
    }
    assert drawn == expected
    for trace, memory in zip(page.memory_over_time(of)["data"], of.memory, strict=True):
        assert trace["name"] == f"stage {memory.stage}"
        assert trace["x"] == pytest.approx((memory.time / 1e6).tolist())
        assert trace["y"] == pytest.approx(((memory.stays + memory.activations + memory.workspace) / 1e9).tolist())
    (cells,) = page.matrix_figure(of)["data"]
    for line, said, values in zip(cells["z"], cells["text"], of.matrix, strict=True):
        for drawn_value, text, value in zip(line, said, values, strict=True):
            assert drawn_value == pytest.approx(np.log10(value))
            assert float(text.removesuffix(" GB").replace(",", "")) == pytest.approx(value / 1e9, rel=1e-3)


def test_bytes_from_stage_to_stage_are_all_that_is_sent() -> None:
    of, table = result(), np.array(result().matrix)
    inside = sum(row.total_bytes for row in of.communication if row.group in ("data", "tensor"))
    between = sum(row.total_bytes for row in of.communication if row.group in ("pipeline", "tied"))
    assert np.trace(table) == pytest.approx(inside)
    assert table.sum() - np.trace(table) == pytest.approx(between)
    assert table[0, 1] == pytest.approx(
        table[1, 0]
    )  # what goes forward comes back as a gradient; tied weights both ways
    assert {row.group for row in of.communication} == {"data", "tensor", "pipeline", "tied"}


def test_every_event_of_the_trace() -> None:
    of = result()
    chart = of.chart
    assert chart is not None
    events = info(of)["traceEvents"]
    passes = [event for event in events if event["ph"] == "X"]
    columns = (chart.kind, chart.stage, chart.chunk, chart.micro_batch, chart.start, chart.end)
    for event, row in zip(passes, zip(*(column.tolist() for column in columns), strict=True), strict=True):
        kind, stage, chunk, micro, start, end = row
        assert event["name"] == (f"{TASKS[kind]} {micro}" if micro >= 0 else TASKS[kind])
        assert (event["cat"], event["tid"]) == (TASKS[kind], stage + 1)
        assert event["ts"] == pytest.approx(start / 1e3)
        assert event["dur"] == pytest.approx((end - start) / 1e3)
        assert event["args"] == {"chunk": chunk, "micro-batch": micro}
    counters = [event for event in events if event["ph"] == "C"]
    expected = [
        (f"stage {memory.stage} (bytes)", time / 1e3, {"stays": memory.stays, "activations": kept, "workspace": used})
        for memory in of.memory
        for time, kept, used in zip(
            memory.time.tolist(), memory.activations.tolist(), memory.workspace.tolist(), strict=True
        )
    ]
    assert [(event["name"], event["args"]) for event in counters] == [(name, values) for name, _, values in expected]
    assert [event["ts"] for event in counters] == pytest.approx([time for _, time, _ in expected])
    named = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert named == {f"stage {row.number} ({row.devices} × {row.device})" for row in of.stages}
    assert {event["ph"] for event in events} == {"M", "X", "C"}


def test_every_number_of_a_diff() -> None:
    one, two = result(), other()
    tables = compared(one, two)
    assert list(tables) == ["Headline", "Where time goes", "Memory of a device", "Network"]
    assert [row.name for row in tables["Headline"]] == [
        "latency_s",
        "mfu",
        "hfu",
        "energy_j",
        "throughput_per_s",
        "device_hours",
    ]
    for row in tables["Headline"]:
        assert (row.first, row.second) == (getattr(one, row.name), getattr(two, row.name))
    for row in tables["Where time goes"]:
        assert (row.first, row.second) == tuple(time_parts(each.time).get(row.name, 0.0) for each in (one, two))
    sizes = [[stage.peak_memory_bytes.total for stage in each.stages] for each in (one, two)]
    assert [(row.first, row.second) for row in tables["Memory of a device"]] == [
        (sizes[0][0], sizes[1][0]),
        (sizes[0][1], 0),
    ]
    sent = [
        {f"{row.group} {row.kind}, {row.level}": row.total_bytes for row in each.communication} for each in (one, two)
    ]
    assert {row.name: (row.first, row.second) for row in tables["Network"]} == {
        name: (sent[0].get(name, 0.0), sent[1].get(name, 0.0)) for name in {**sent[0], **sent[1]}
    }
    for rows in tables.values():
        for row in rows:
            ratio = 1.0 if row.first == row.second else row.second / row.first if row.first else None
            assert row.ratio == ratio
    changed = {name: (before, after) for name, before, after in plans(one, two)}
    assert changed["devices"] == (8, 4)
    assert changed["shard"] == ("none", "states")


# --- a search over plans ----------------------------------------------------------------------------------------------


@cache
def found() -> Distribution:
    """Few plans of a model of four layers on four devices, of which one kind does not fit."""
    request = asked(batch=4, micro_batch=1)
    document = dict(
        system_from_text(TEXT.replace("micro-npu}", "micro-npu, set: {dram.external.capacity_bytes: 540 kB}}")).document
    )
    request = replace(request, system=document)
    space = PlanSpace(
        4,
        4,
        4,
        2,
        most_micro_batch=1,
        most_interleave=1,
        sharding=("none", "states"),
        recomputation=("none", "full"),
        sequence_parallel=(False,),
    )
    return distribute(request.coster(), request.load_system(), space, GPT, whole_front=True)


PLANS: Columns = {
    "data": ("", lambda one: str(one.plan.data)),
    "tensor": ("", lambda one: f"{one.plan.tensor}" + (" + seq" if one.plan.sequence_parallel else "")),
    "pipeline": ("", lambda one: str(one.plan.pipeline)),
    "micro": ("n", lambda one: one.plan.micro_batch),
    "shard": ("", lambda one: one.plan.shard),
    "recompute": ("", lambda one: one.plan.recompute),
    "offload": ("", lambda one: one.plan.offload),
    "step": ("s", lambda one: one.result.latency_s),
    "MFU": ("%", lambda one: one.result.mfu),
    "memory": ("B", lambda one: max(stage.peak_memory_bytes.total for stage in one.result.stages)),
    "energy": ("J", lambda one: one.result.energy_j),
    "bubble": ("%", lambda one: one.result.time.bubble / one.result.latency_s),
    "exposed": ("%", lambda one: sum(one.result.time.communication.values()) / one.result.latency_s),
    "again": ("%", lambda one: one.result.time.recomputation / one.result.latency_s),
}


def same_but_one(best: Tried, name: str) -> Tried:
    """The fastest plan costed that has something else there, and what has to follow."""
    follows = {"tensor": {"data"}, "pipeline": {"data"}}.get(name, set())
    others = [one for one in found().tried if getattr(one.plan, name) != getattr(best.plan, name)]
    fields = set(best.plan.to_dict()) - {name} - follows
    alike = [one for one in others if all(getattr(one.plan, each) == getattr(best.plan, each) for each in fields)]
    return (alike or others)[0]


def value_words(one: Tried, name: str) -> str:
    """What a plan has, as it is said."""
    value = getattr(one.plan, name)
    if name == "sequence_parallel":
        return "sequence parallel" if value else "no sequence parallel"
    return f"{name.replace('_', ' ')} {value}"


def test_every_number_of_a_search() -> None:
    of = found()
    best = of.best
    assert best is not None
    assert len(of.tried) > 3
    counted = counts_line(replace(of, plans=1234, bounded=17, too_large=5, illegal={"a": 2, "b": 1}))
    words = f"1,234 plans: {len(of.tried)} costed, 17 left out by their bounds, 5 do not fit memory, 3 cannot be cut so"
    assert counted == words
    assert "memory" not in counts_line(replace(of, too_large=0))
    blocks = texts(render_search(of, 50))
    tables = {block[0]: block[1:] for block in blocks}
    check_table(tables["Best plans"], PLANS, of.tried, "plans")
    if len(of.front) > 1:
        check_table(tables["Front of time, memory and energy"], PLANS, of.front, "front")
    assert headline(of).startswith(f"{title_of(best.result)}: ")
    took, _, used = headline(of).removeprefix(f"{title_of(best.result)}: ").partition(", MFU ")
    check(took, best.result.latency_s, "s", "headline")
    check(used, best.result.mfu, "%", "headline")


def test_every_number_of_why() -> None:
    best, table = found().best, why(found())
    assert best is not None
    assert isinstance(table, TextTable)
    assert len(table.rows) >= 3
    before = time_parts(best.result.time)
    for row in table.rows:
        words, change, memory, reason = map(str, row)
        first, _, others = words.partition(", with ")
        name = first.rpartition(" ")[0].replace(" ", "_") if "sequence parallel" not in first else "sequence_parallel"
        one = same_but_one(best, name)
        assert first == value_words(one, name)
        names = ("data", *ONE_THING)
        unlike = [each for each in names if getattr(one.plan, each) != getattr(best.plan, each) and each != name]
        follows = set(unlike) <= ({"data"} if name in ("tensor", "pipeline") else set())
        assert others == ("" if follows else ", ".join(value_words(one, each) for each in unlike))
        slower = 100 * (one.result.latency_s / best.result.latency_s - 1)
        assert float(change.removesuffix(" %").replace("−", "-")) == pytest.approx(slower, abs=0.051)
        check(memory, one.result.peak_memory_bytes, "B", words)
        after = time_parts(one.result.time)
        moved = {part: after.get(part, 0.0) - before.get(part, 0.0) for part in {**before, **after}}
        part, more = max(moved.items(), key=lambda each: each[1])
        if more > 0:
            check_words(reason, f"{part} {{more}} more", words, more=(more, "s"))
    assert time_table(best.result).title.startswith("Where a device's time goes")


def test_every_line_of_the_page_of_plans() -> None:
    tried = found().tried
    (lines,) = search_page.lines_figure(tried)["data"]
    shown = {each["label"]: each for each in lines["dimensions"]}
    degrees = {
        "data": "data",
        "tensor": "tensor",
        "pipeline": "pipeline",
        "chunks": "interleave",
        "micro-batch": "micro_batch",
        "pipeline schedule": "pipeline_schedule",
        "shard": "shard",
        "recompute": "recompute",
        "offload": "offload",
    }
    for label, name in degrees.items():
        ticks = dict(zip(shown[label]["tickvals"], shown[label]["ticktext"], strict=True))
        assert [ticks[value] for value in shown[label]["values"]] == [str(getattr(one.plan, name)) for one in tried]
    figures = {
        "sequence": [int(one.plan.sequence_parallel) for one in tried],
        "memory, GB": [one.result.peak_memory_bytes / 1e9 for one in tried],
        "energy, J": [one.result.energy_j for one in tried],
        "step, s": [one.result.latency_s for one in tried],
    }
    assert set(shown) == {*degrees, *figures}
    for label, values in figures.items():
        assert shown[label]["values"] == values
    plans_trace, front_trace = search_page.front_figure(found())["data"]
    for trace, chosen in ((plans_trace, tried), (front_trace, found().front)):
        points = {(x, y) for x, y in zip(trace["x"], trace["y"], strict=True)}
        assert points == {(one.result.peak_memory_bytes / 1e9, one.result.latency_s) for one in chosen}


def test_plain_values_of_a_search() -> None:
    of = found()
    values = json.loads(json.dumps(_plain(of, 2)))
    assert (values["plans"], values["costed"], values["bounded"], values["too_large"]) == (
        of.plans,
        len(of.tried),
        of.bounded,
        of.too_large,
    )
    assert len(values["top"]) == 2
    assert values["best"]["latency_s"] == min(one.result.latency_s for one in of.tried)
    assert [row["energy_j"] for row in values["front"]] == [one.result.energy_j for one in of.front]


def test_bus_bandwidth_of_a_level() -> None:
    """Of an all-reduce every device sends and receives 2 (n − 1)/n of the bytes (docs/systems.md)."""
    done = CliRunner().invoke(app, ["systems", "show", "edge-ethernet"], env={"COLUMNS": "200"})
    table = done.output[done.output.index("All-reduce") :].splitlines()[2:]
    rows = [re.split(r"  +", line.strip()) for line in table if line.strip()]
    assert rows
    for _, devices, size, took, bus, _ in rows:
        count, amount, spent, rate = int(devices.replace(",", "")), *map(_value, (size, took, bus))
        assert rate == pytest.approx(2 * (count - 1) / count * amount / spent, rel=0.02)


def _value(text: str) -> float:
    number, unit = text.split(" ")
    scale = {"n": 1e-9, "µ": 1e-6, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    return float(number) * (scale[unit[0]] if unit not in ("s", "B", "B/s") else 1.0)
