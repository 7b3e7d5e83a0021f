"""Every number that the page's scripts write is the field it says it is (tooltips included), read back without a
browser. Skipped where there is no node: monet does not need it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import monet
from monet.schedule.result import Result
from monet.schedule.result_rows import TIME_PARTS
from tests.report.reading import check, check_words
from tests.report.small import small
from tests.report.test_printed_numbers import bound_rows, by_cause, check_headline, data_of, operator_columns

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(not NODE, reason="no node on PATH: the page's scripts are not run")
Panel = dict[str, list[Any]]


@pytest.fixture(scope="module")
def result() -> Result:
    return small()


@pytest.fixture(scope="module")
def drawn(result: Result) -> dict[str, Panel]:
    assets = Path(monet.__file__).parent / "report" / "html" / "assets"
    done = subprocess.run(
        [str(NODE), str(Path(__file__).parent / "drawn.js"), str(assets)], input=json.dumps(data_of(result)),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    panels: dict[str, Panel] = json.loads(done.stdout)
    return panels


def test_cards(drawn: dict[str, Panel], result: Result) -> None:
    shown = []
    for label, value, detail, bound in drawn["headline"]["cards"]:
        figure, _, rest = bound.removeprefix("bound ").partition(", ")
        words, _, distance = rest.rpartition("distance ")
        shown.append((label, value, figure, distance, f"{detail}; bound: {words}"))
    check_headline(result, shown)


def test_bars_of_the_bounds(drawn: dict[str, Panel], result: Result) -> None:
    bounds = dict(drawn["bounds"]["bars"][:6])
    for name, value in (*bound_rows(result).items(), ("longest chain of this plan", result.longest_chain_s)):
        check_words(
            bounds.pop(name), "{time} we take {ratio} that", name,
            time=(value, "s"), ratio=(result.latency_s / value, "×"),
        )  # fmt: skip
    check(bounds.pop("this schedule"), result.latency_s, "s", "this schedule")
    assert not bounds


def test_phases(drawn: dict[str, Panel], result: Result) -> None:
    rows = {
        "time span": ("s", [row.end_s - row.start_s for row in result.phases.values()]),
        "core time": ("s", [row.busy_s for row in result.phases.values()]),
        "energy": ("J", [row.energy_j for row in result.phases.values()]),
        "off-chip traffic": ("B", [row.dram_bytes for row in result.phases.values()]),
        "work on arrays": ("MAC", [row.macs for row in result.phases.values()]),
        "operators": ("", [row.operators for row in result.phases.values()]),
    }
    head, *shown = drawn["phases"]["rows"]
    assert [name.strip() for name in head] == ["", *result.phases]
    assert [row[0] for row in shown] == [name for name, _ in drawn["phases"]["bars"]] == list(rows)
    for (name, *cells), (_, total) in zip(shown, drawn["phases"]["bars"], strict=True):
        unit, values = rows[name]
        check(total, sum(values), unit, name)
        for cell, value in zip(cells, values, strict=True):
            check(cell, value, unit, name)
    hovers = iter(drawn["phases"]["hovers"])
    for name, (unit, values) in rows.items():
        for phase, value in zip(result.phases, values, strict=True):
            label, text = next(hovers)
            assert label == name
            check_words(
                text, f"{phase}: {{value}} ({{share}})", name, value=(value, unit), share=(value / sum(values), "%")
            )


def test_energy(drawn: dict[str, Panel], result: Result) -> None:
    breakdown, kinds = result.energy_breakdown, {"static": result.energy_breakdown.static}
    check_words(
        drawn["energy"]["about"][0],
        "{total} in all: {dynamic} dynamic, {static} static ({share}). Every list adds up to the same total.",
        "energy", total=(result.energy_j, "J"), dynamic=(result.energy_j - breakdown.static, "J"),
        static=(breakdown.static, "J"), share=(breakdown.static / result.energy_j, "%"),
    )  # fmt: skip
    for row in result.operators:
        kinds[row.kind] = kinds.get(row.kind, 0.0) + row.energy_j
    shown = iter(drawn["energy"]["bars"])
    for view in (breakdown.by_level, breakdown.by_phase, kinds, breakdown.by_core):
        for name, value in sorted(view.items(), key=lambda one: (-one[1], one[0])):
            label, text = next(shown)
            assert label == name
            joules, _, share = text.partition("J ")
            check(f"{joules}J", value, "J", name)
            check(share, value / result.energy_j, "%", name)
    assert not list(shown)


def test_time_of_the_cores(drawn: dict[str, Panel], result: Result) -> None:
    mean = dict(zip(TIME_PARTS, by_cause(result).values(), strict=True))
    shares = {"mean of 5 cores": mean} | {
        row.name: {part: ticks / result.ticks for part, ticks in row.time_ticks.items()} for row in result.cores
    }
    for name, text in drawn["time_partition"]["bars"]:
        check(text, shares[name]["useful_compute"] + shares[name]["spatial_under_use"], "%", name)
    hovers = iter(drawn["time_partition"]["hovers"])
    for name, parts in shares.items():
        for cause, share in zip(by_cause(result), parts.values(), strict=True):
            if share:
                label, text = next(hovers)
                assert label == name
                check_words(
                    text, f"{cause}: {{time}} ({{share}})", name,
                    time=(share * result.latency_s, "s"), share=(share, "%"),
                )  # fmt: skip
    assert not list(hovers)


def test_operators(drawn: dict[str, Panel], result: Result) -> None:
    columns = operator_columns(result)
    _, *rows = drawn["operators"]["rows"]
    assert len(rows) == len(result.operators)
    by_name = {columns["name"][1](row): row for row in result.operators}
    for cells in rows:
        for cell, (key, (unit, value)) in zip(cells, columns.items(), strict=True):
            check(cell, value(by_name[cells[0]]), unit, f"{cells[0]}, {key}")
    times = [by_name[cells[0]].latency_s for cells in rows]
    assert times == sorted(times, reverse=True)
