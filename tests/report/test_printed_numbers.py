"""Every number that is printed is the field it says it is: terminal, plain text, CSV and HTML are read back and
compared with the result, by tables of what each heading means. A number or a column that no table lists fails."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from dataclasses import fields
from typing import Any

import pytest
from rich.console import Console

from monet.report.difference import info as difference
from monet.report.explanation import info as explanation
from monet.report.html import page
from monet.report.operator_csv import csv_text
from monet.report.terminal import render
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES, TIME_PARTS, MemoryTrace, OperatorRow
from tests.report.reading import Columns, check, check_table, check_words, shows
from tests.report.small import BATCH, small

WAITING = {"gap": "waiting"}
PHASES: Columns = {
    "phase": ("", lambda one: one[0]),
    "from": ("s", lambda one: one[1].start_s),
    "to": ("s", lambda one: one[1].end_s),
    "core time": ("s", lambda one: one[1].busy_s),
    "energy": ("J", lambda one: one[1].energy_j),
    "off-chip": ("B", lambda one: one[1].dram_bytes),
    "MACs": ("", lambda one: one[1].macs),
    "operators": ("n", lambda one: one[1].operators),
}
MEMORIES: Columns = {
    "memory": ("", lambda one: one.name),
    "peak": ("B", lambda one: one.peak_bytes),
    "of": ("B", lambda one: one.capacity_bytes),
    "full": ("%", lambda one: one.peak_bytes / one.capacity_bytes),
    "at": ("s", lambda one: one.peak_time_s),
    "in": ("", lambda one: one.peak_operator),
}


def named(row: OperatorRow) -> str:
    return f"{row.name} (again)" if row.recompute else row.name


def cores(row: OperatorRow) -> str:
    return row.cores[0] + (f" + {len(row.cores) - 1}" if len(row.cores) > 1 else "")


def operator_columns(result: Result) -> Columns:
    """By key of the HTML table: the terminal shows some of them under their headings."""
    return {
        "name": ("", named),
        "kind": ("", lambda row: row.kind),
        "phase": ("", lambda row: row.phase),
        "core": ("", cores),
        "group": ("", lambda row: str(row.group)),
        "span_s": ("s", lambda row: row.latency_s),
        "share": ("%", lambda row: row.latency_s / result.latency_s),
        "busy_s": ("s", lambda row: row.busy_s),
        "operations": ("op", lambda row: 2 * row.macs or sum(row.work.values())),
        "utilisation": ("%", lambda row: row.utilisation),
        "energy_j": ("J", lambda row: row.energy_j),
        "dram_bytes": ("B", lambda row: row.dram_read_bytes + row.dram_write_bytes),
        "link_bytes": ("B", lambda row: row.link_bytes),
        "tiles": ("n", lambda row: row.tiles),
        "bound_by": ("", lambda row: row.bound_by),
    }


HEADINGS = {
    "operator": "name", "phase": "phase", "core": "core", "time": "span_s", "share": "share", "used": "utilisation",
    "energy": "energy_j", "off-chip": "dram_bytes", "bound by": "bound_by",
}  # fmt: skip


@pytest.fixture(scope="module")
def result() -> Result:
    return small()


def test_the_schedule_tells_figures_apart(result: Result) -> None:
    assert result.batch == BATCH
    assert len(result.cores) == 5
    assert len({round(row.latency_s, 9) for row in result.operators}) > 40
    assert len({result.dram_bytes.read, result.dram_bytes.write, result.dram_bytes.total}) == 3
    spent = {part for part in TIME_PARTS if any(row.time_ticks[part] for row in result.cores)}
    assert spent == {*TIME_PARTS} - {"waiting_for_host"}  # there is none
    assert {row.recompute for row in result.operators} == {True, False}
    assert len({row.bound_by for row in result.operators}) > 2


# --- what stands at the top -------------------------------------------------------------------------------------------


def bound_rows(result: Result) -> dict[str, float]:
    """What is said of every plan's time, by its words."""
    bounds = result.bounds
    return {
        "all work at peak rate": bounds.compute_s, "operands through the ports": bounds.ports_s,
        "traffic over links to DRAM": bounds.links_s, "compulsory off-chip traffic": bounds.dram_s,
    }  # fmt: skip


def check_headline(result: Result, cards: list[tuple[str, str, str, str, str]]) -> None:
    """Cards: label, figure, bound, distance, words, as shown."""
    bounds, moved = result.bounds, result.dram_bytes
    least, forced = bounds.dram_bytes, ", {forced} of it for want of room" if bounds.forced_bytes else ""
    latency, strongest = max((value, words) for words, value in bound_rows(result).items())
    trace, gap = result.memory[0], result.latency_s / latency
    peak = sum(getattr(result.memory_peak_bytes["dram"], name) for name in CATEGORIES)
    expected = {
        "Latency": (
            (result.latency_s, "s"), (latency, "s"), gap,
            f"{{cycles}} cycles; {{rate}}; longest chain of this plan {{chain}}; bound: {strongest}",
            {
                "cycles": (result.cycles, "n"),
                "rate": (BATCH / result.latency_s, "sample/s"),
                "chain": (result.longest_chain_s, "s"),
            },
        ),
        "Energy": (
            (result.energy_j, "J"), (bounds.energy_j, "J"), result.energy_j / bounds.energy_j,
            "{each} per sample; {power} on average; bound: work, compulsory traffic, static power",
            {"each": (result.energy_j / BATCH, "J"), "power": (result.energy_j / result.latency_s, "W")},
        ),
        "Peak memory (dram)": (
            (peak, "B"), (bounds.memory_bytes, "B"), peak / bounds.memory_bytes,
            f"at {{time}}, in {trace.peak_operator}; bound: what has to be there", {"time": (trace.peak_time_s, "s")},
        ),
        "Off-chip traffic": (
            (moved.read + moved.write, "B"), (least, "B"), (moved.read + moved.write) / least,
            f"{{read}} read, {{write}} written; bound: compulsory{forced}",
            {"read": (moved.read, "B"), "write": (moved.write, "B")}
            | ({"forced": (bounds.forced_bytes, "B")} if forced else {}),
        ),
        "Utilisation": (
            (result.utilisation, "%"), (min(1.0, result.utilisation * gap), "%"), gap,
            "multiply-accumulates over the full rate of all arrays in the number formats used; "
            "bound: at the latency bound", {},
        ),
    }  # fmt: skip
    assert [card[0] for card in cards] == list(expected)
    for label, figure, bound, distance, words in cards:
        (value, unit), (least_value, _), ratio, template, values = expected[label]
        check(figure, value, unit, label)
        check(bound, least_value, unit, f"bound of {label}")
        check(distance, ratio, "×", f"distance of {label}")
        check_words(words, template, label, **values)


# --- terminal ---------------------------------------------------------------------------------------------------------


def sections(result: Result) -> list[list[str]]:
    console = Console(width=240, file=io.StringIO(), force_terminal=False)
    console.print(render(result))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [[line.rstrip() for line in block.splitlines()] for block in re.split(r"\n *\n", text.strip("\n"))]


def by_cause(result: Result) -> dict[str, float]:
    """Share of the time of the cores that worked, by cause in words."""
    working = [row for row in result.cores if row.tiles]
    words = {part: part.replace("_", " ").replace("under use", "under-use") for part in TIME_PARTS}
    return {
        words[part]: sum(row.time_ticks[part] for row in working) / len(working) / result.ticks for part in TIME_PARTS
    }


def by_kind_of_event(result: Result) -> dict[str, float]:
    """Share of the step by what happens on the critical path."""
    found: Counter[str] = Counter()
    for step in result.critical_path:
        found[step.kind] += (step.end_s - step.start_s) / result.latency_s
    rest = 1 - found.total()
    return dict(found) | ({"waiting": rest} if rest > 1e-12 else {})


def check_title(lines: list[str], result: Result) -> None:
    template = "small  one training step, batch {batch}, on small   {events} tiles and transfers in {took}"
    check_words(
        lines[0], template, "title", batch=(BATCH, "n"), events=(len(result.timeline.start), "n"),
        took=(result.seconds_to_evaluate, "s"),
    )  # fmt: skip


def check_time_and_energy(lines: list[str], result: Result) -> None:
    causes, levels = by_cause(result), dict(result.energy_breakdown.by_level)
    for line in lines:
        cells = re.split(r"  +", re.sub(r"[█▉▊▋▌▍▎▏]", " ", line).strip())
        if len(cells) in (2, 5):
            name, share = cells[:2]
            check(share, causes.pop(name), "%", f"time: {name}")
            cells = cells[2:]
        if cells:
            name, spent, share = cells
            check(spent, levels[name], "J", f"energy: {name}")
            check(share, levels.pop(name) / result.energy_j, "%", f"energy: {name}")
    assert not any(causes.values())
    assert not any(levels.values())


def check_limits(lines: list[str], result: Result) -> None:
    bound, path, meaning = lines
    working = sum(row.tiles > 0 for row in result.cores)
    check_words(
        meaning, "Shares of time are of the {cores} cores that worked, vector cores too; compute is useful while every "
        "multiplier or lane is busy. Utilisation is of all arrays, idle ones too.", "useful",
        cores=(working, "n"),
    )  # fmt: skip
    took: Counter[str] = Counter()
    number = Counter(row.bound_by for row in result.operators)
    for row in result.operators:
        took[row.bound_by] += row.latency_s  # type: ignore[assignment]
    shown = bound.removeprefix("Operators are bound by  ").split(", ")
    assert [one.split()[0] for one in shown] == [name for name, _ in took.most_common()]
    for one in shown:
        check_words(
            one, f"{one.split()[0]} {{share}} ({{number}})", "bound by",
            share=(took[one.split()[0]] / took.total(), "%"), number=(number[one.split()[0]], "n"),
        )  # fmt: skip
    kinds = by_kind_of_event(result)
    shown = path.removeprefix("On the critical path    ").split(", ")
    assert [one.split()[0] for one in shown] == sorted(kinds, key=lambda name: -kinds[name])
    for one in shown:
        check(one.partition(" ")[2], kinds[one.split()[0]], "%", one)


def fullest(result: Result) -> list[MemoryTrace]:
    first, *others = result.memory  # DRAM
    return [first, *sorted(others, key=lambda one: -one.peak_bytes / one.capacity_bytes)]


def test_every_number_in_the_terminal(result: Result) -> None:
    title, headline, phases, parts, limits, memory, operators = sections(result)
    check_title(title, result)
    assert headline[0].split() == ["lower", "bound", "gap"]
    check_headline(result, [tuple(re.split(r"  +", line.strip())) for line in headline[1:]])  # type: ignore[misc]
    assert phases[0] == "Phases"
    check_table(phases[1:], PHASES, result.phases.items(), "phases")
    assert parts[0].split("  ")[0] == "Where the cores' time goes"
    check_time_and_energy(parts[1:], result)
    check_limits(limits, result)
    check_table(memory[1:], MEMORIES, fullest(result), "memory")
    check_words(operators[0], "Slowest of {number} operators", "operators", number=(len(result.operators), "n"))
    columns = {head: operator_columns(result)[key] for head, key in HEADINGS.items()}
    slowest = sorted(result.operators, key=lambda row: (-row.latency_s, row.name))[:10]
    check_table(operators[1:], columns, slowest, "operators")


def test_every_number_of_the_plain_text(result: Result) -> None:
    latency, energy, off_chip, used, head, *rest = str(result).splitlines()[1:]
    bounds, moved, best = result.bounds, result.dram_bytes, max(bound_rows(result).values())
    check_words(
        latency, "  latency         {latency}   {cycles} cycles, {rate}; bound {bound} (compute {compute}, ports "
        "{ports}, links {links}, DRAM {dram}), gap {gap}; longest chain of this plan {chain}", "text",
        latency=(result.latency_s, "s"), cycles=(result.cycles, "n"), rate=(BATCH / result.latency_s, "sample/s"),
        bound=(best, "s"), compute=(bounds.compute_s, "s"), dram=(bounds.dram_s, "s"),
        ports=(bounds.ports_s, "s"), links=(bounds.links_s, "s"), gap=(result.latency_s / best, "×"),
        chain=(result.longest_chain_s, "s"),
    )  # fmt: skip
    check_words(
        energy, "  energy          {energy}   static {static}, {power} on average", "text",
        energy=(result.energy_j, "J"),
        static=(result.energy_breakdown.by_level["static"], "J"), power=(result.energy_j / result.latency_s, "W"),
    )  # fmt: skip
    check_words(
        off_chip, "  off-chip        {total}   read {read}, written {write}", "text",
        total=(moved.read + moved.write, "B"), read=(moved.read, "B"), write=(moved.write, "B"),
    )  # fmt: skip
    found = re.fullmatch(r"  utilisation +([\d.]+)%   of all arrays over the step", used)
    assert found
    assert abs(float(found[1]) / 100 - result.utilisation) < 5.1e-4
    columns: Columns = {name: PHASES[name] for name in ("phase", "from", "to", "energy", "off-chip")}
    check_table([head, *rest[: len(result.phases)]], columns, result.phases.items(), "text")
    for line, (name, peak) in zip(rest[len(result.phases) :], result.memory_peak_bytes.items(), strict=True):
        found = re.fullmatch(r"  peak of (\S+): (.+?) \((.+)\)", line)
        assert found
        assert found[1] == name
        check(found[2], peak.total, "B", line)
        parts = dict(one.split(" ", 1) for one in found[3].split(", "))
        assert list(parts) == [one for one in CATEGORIES if getattr(peak, one)]
        for category, size in parts.items():
            check(size, getattr(peak, category), "B", line)


# --- files ------------------------------------------------------------------------------------------------------------


def test_every_number_of_the_csv(result: Result) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(result))))
    assert [tuple(row) for row in rows[:1]] == [tuple(one.name for one in fields(OperatorRow))]
    for shown, row in zip(rows, result.operators, strict=True):
        plain: dict[str, Any] = {one.name: getattr(row, one.name) for one in fields(row)}
        plain |= {"cores": " ".join(row.cores), "work": sum(row.work.values()), "recompute": int(row.recompute)}
        assert {name: type(plain[name])(text) for name, text in shown.items()} == plain


def data_of(result: Result) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page(result), re.DOTALL)
    assert found
    values: dict[str, Any] = json.loads(found[1])
    return values


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9, abs=1e-30)


def check_bars(bars: list[dict[str, Any]], values: dict[str, float], whole: float, more: tuple[str, ...] = ()) -> None:
    assert {bar["name"]: bar["value"] for bar in bars} == near(values)
    for bar in bars:
        assert set(bar) == {"name", "value", "text", "note", *more}
        check(bar["text"], values[bar["name"]], "s", bar["name"])
        check(bar["note"], values[bar["name"]] / whole, "%", bar["name"])


def test_every_number_in_the_html(result: Result) -> None:
    data = data_of(result)
    checked = {
        "headline": html_headline, "bounds": html_bounds, "phases": html_phases, "gantt": html_gantt,
        "memory": html_memory, "energy": html_energy, "roofline": html_roofline, "operators": html_operators,
        "time_partition": html_time, "critical_path": html_path, "hardware": html_hardware,
    }  # fmt: skip
    assert set(data) == {"title", "feasible", *checked}
    assert data["title"] == f"small, one training step, batch {BATCH}, on small"
    for name, check_figure in checked.items():
        check_figure(data[name], result)


def html_headline(cards: list[dict[str, Any]], result: Result) -> None:
    shown = []
    for card in cards:
        assert set(card) == {"label", "value", "detail", "bound", "distance"}
        bound, words = card["bound"].split(": ")
        ratio = card["distance"]
        text = f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.3g}×"
        shown.append((card["label"], card["value"], bound, text, f"{card['detail']}; bound: {words}"))
    check_headline(result, shown)


def html_bounds(data: dict[str, Any], result: Result) -> None:
    values = bound_rows(result) | {
        "longest chain of this plan": result.longest_chain_s, "this schedule": result.latency_s,
    }  # fmt: skip
    assert {row["label"]: row["seconds"] for row in data["rows"]} == values
    assert set(data) == {"rows", "path", "limits"}
    for row in data["rows"]:
        assert set(row) == {"label", "seconds", "ours", "text", "note"}
        check(row["text"], values[row["label"]], "s", row["label"])
        assert row["ours"] == (row["label"] == "this schedule")
        if not row["ours"]:
            check_words(
                row["note"], "we take {ratio} that", row["label"], ratio=(result.latency_s / row["seconds"], "×")
            )
    check_path(data["path"], result)
    for row in data["limits"]:
        mine = [one for one in result.operators if one.bound_by == row["name"]]
        assert row["value"] == near(sum(one.latency_s for one in mine))
        check(row["text"], row["value"], "s", row["name"])
        assert row["note"] == f"{len(mine)} operator{'s' if len(mine) > 1 else ''}"
    assert {row["name"] for row in data["limits"]} == {one.bound_by for one in result.operators}


def check_path(bars: list[dict[str, Any]], result: Result) -> None:
    kinds = {
        "gap" if name == "waiting" else name: share * result.latency_s
        for name, share in by_kind_of_event(result).items()
    }
    check_bars(bars, kinds, result.latency_s)


def html_path(data: dict[str, Any], result: Result) -> None:
    assert set(data) == {"kinds", "operators", "steps"}
    assert data["steps"] == len(result.critical_path)
    check_path(data["kinds"], result)
    took: Counter[str] = Counter()
    for step in result.critical_path:
        took[step.operator] += step.end_s - step.start_s  # type: ignore[assignment]
    phases = {row.name: row.phase for row in result.operators}
    longest = dict(sorted(took.items(), key=lambda one: (-one[1], one[0]))[: len(data["operators"])])
    check_bars(data["operators"], longest, result.latency_s, ("phase",))
    assert [bar["phase"] for bar in data["operators"]] == [phases[bar["name"]] for bar in data["operators"]]


def html_phases(data: dict[str, Any], result: Result) -> None:
    values = {
        "span_s": ("s", lambda row: row.end_s - row.start_s), "busy_s": ("s", lambda row: row.busy_s),
        "energy_j": ("J", lambda row: row.energy_j), "dram_bytes": ("B", lambda row: row.dram_bytes),
        "macs": ("MAC", lambda row: row.macs), "operators": ("", lambda row: row.operators),
    }  # fmt: skip
    assert data["phases"] == list(result.phases)
    assert [one["key"] for one in data["measures"]] == list(values)
    for measure in data["measures"]:
        unit, value = values[measure["key"]]
        assert measure["unit"] == unit
        assert measure["values"] == near([value(row) for row in result.phases.values()])


def html_gantt(data: dict[str, Any], result: Result) -> None:
    timeline = result.timeline
    busy = {row.name: row.busy_s / result.latency_s for row in result.cores}
    busy |= {row.name: row.utilisation for row in result.links}
    events: Counter[str] = Counter(timeline.resources[one] for one in timeline.resource.tolist())
    for row in data["rows"]:
        mine = timeline.resource == timeline.resources.index(row["name"])
        assert row["busy"] == near(busy.get(row["name"], 0.0))
        assert len(row["start"]) == events.pop(row["name"])
        assert sum(row["length"]) == int((timeline.end - timeline.start)[mine].sum())
    assert not events
    seconds = {
        one["phase"]: (one["begin"] / result.ticks_per_second, one["end"] / result.ticks_per_second)
        for one in data["bands"]
    }
    assert seconds == {name: near((row.start_s, row.end_s)) for name, row in result.phases.items()}
    assert (data["end"], data["events"]) == (result.ticks, len(timeline.start))


def html_memory(data: dict[str, Any], result: Result) -> None:
    assert data["categories"] == list(CATEGORIES)
    assert [one["name"] for one in data["memories"]] == [one.name for one in fullest(result)]
    for shown, trace in zip(data["memories"], fullest(result), strict=True):
        peak = result.memory_peak_bytes[trace.name]
        assert (shown["capacity"], shown["peak_bytes"]) == (trace.capacity_bytes, peak.total)
        assert shown["at_peak"] == [getattr(peak, name) for name in CATEGORIES]
        assert shown["peak_time"] / result.ticks_per_second == near(trace.peak_time_s)
        assert (shown["peak_time_s"], shown["peak_operator"]) == (trace.peak_time_s, trace.peak_operator)
        assert max(map(sum, zip(*shown["bytes"], strict=True))) == peak.total


def html_energy(data: dict[str, Any], result: Result) -> None:
    breakdown, kinds = result.energy_breakdown, Counter[str]()
    for row in result.operators:
        kinds[row.kind] += row.energy_j  # type: ignore[assignment]
    views = {
        "level": breakdown.by_level, "core": breakdown.by_core, "operator kind": kinds | {"static": breakdown.static},
        "phase": {name: row.energy_j for name, row in result.phases.items()} | {"static": breakdown.static},
    }  # fmt: skip
    assert (data["total"], data["static"]) == (result.energy_j, breakdown.by_level["static"])
    assert data["dynamic"] == near(result.energy_j - data["static"])
    assert {view["by"] for view in data["views"]} == set(views)
    for view in data["views"]:
        assert {row["name"]: row["joules"] for row in view["rows"]} == near(
            {k: v for k, v in views[view["by"]].items() if v}
        )


def html_roofline(data: dict[str, Any], result: Result) -> None:
    assert data["bytes_per_s"] == result.hardware_summary.drams[0].bandwidth_bytes_per_s
    shown = {result.operators[point["operator"]].name: point for point in data["points"]}
    working = [row for row in result.operators if (row.macs or row.work) and row.latency_s]
    assert set(shown) == {row.name for row in working}
    assert len(working) > 60
    for row in working:
        point, work = shown[row.name], 2 * row.macs or sum(row.work.values())
        moved = row.dram_read_bytes + row.dram_write_bytes
        assert point["x"] == (near(work / moved) if moved else None)
        assert (point["y"], point["seconds"]) == (near(work / row.latency_s), row.latency_s)
        assert data["phases"][point["phase"]] == row.phase
        assert point["matrix"] == (row.macs > 0)
    for roof in data["roofs"]:
        names, rate = roof["text"].split(": ")
        assert {result.hardware_summary.peak_ops_per_s[name] for name in names.split(", ")} == {roof["ops_per_s"]}
        check(rate, roof["ops_per_s"], "op/s", roof["text"])


def html_operators(data: dict[str, Any], result: Result) -> None:
    columns = operator_columns(result)
    assert {one["key"]: one["unit"] for one in data["columns"]} == {key: unit for key, (unit, _) in columns.items()}
    assert HEADINGS.items() <= {one["label"]: one["key"] for one in data["columns"]}.items()
    for cells, row in zip(data["rows"], result.operators, strict=True):
        for cell, (unit, value) in zip(cells, columns.values(), strict=True):
            assert cell == (near(value(row)) if unit else value(row))


def html_time(data: dict[str, Any], result: Result) -> None:
    for shown, row in zip(data["rows"], result.cores, strict=True):
        assert (shown["name"], shown["ticks"]) == (row.name, [row.time_ticks[part] for part in TIME_PARTS])
    assert data["causes"] == list(by_cause(result))
    assert data["mean"]["ticks"] == near([share * result.ticks for share in by_cause(result).values()])
    assert data["mean"]["name"] == "mean of 5 cores"
    assert data["end"] == result.ticks


def html_hardware(data: dict[str, Any], result: Result) -> None:
    boxes = {box["name"]: box for box in data["boxes"]}
    rows = {row.name: row for row in result.cores}
    memories = {one.cores[0]: one for one in result.hardware_summary.memories}
    for core in result.hardware_summary.cores:
        box = boxes.pop(core.name)
        busy = rows[core.name].busy_s / result.latency_s
        assert box["load"] == near(busy)
        check_words(box["about"][-1], "busy {share} of the step", core.name, share=(busy, "%"))
        check_words(box["about"][0], f"{core.name} ({core.kind}, {{clock}})", core.name, clock=(core.clock_hz, "Hz"))
        check(box["lines"][2], memories[core.name].size_bytes, "B", core.name)
        assert box["lines"][:2] == [core.name, "4×4 MAC" if core.units else "4 lanes"]
        for line, level in zip(box["about"][2:-1], core.levels, strict=True):
            check_words(line, f"{level.name}: {{size}}", core.name, size=(level.bytes, "B"))
    dram, links = result.hardware_summary.drams[0], {row.name: row for row in result.links}
    box = boxes.pop("dram")
    assert box["load"] == near(links["dram"].utilisation)
    check_words(
        box["lines"][1],
        "{size}, {rate}",
        "dram",
        size=(dram.capacity_bytes, "B"),
        rate=(dram.bandwidth_bytes_per_s, "B/s"),
    )
    check_words(box["about"][-1], "{share} busy", "dram", share=(links["dram"].utilisation, "%"))
    assert not boxes
    for wire in data["wires"]:
        ways = [row for row in result.links if row.name.removesuffix(" (back)") == wire["name"]]
        check_words(
            wire["about"][1], "{rate}, {moved} moved, busy {share}", wire["name"],
            rate=(ways[0].bandwidth_bytes_per_s, "B/s"), moved=(sum(row.bytes for row in ways), "B"),
            share=(max(row.utilisation for row in ways), "%"),
        )  # fmt: skip


# --- explain and diff -------------------------------------------------------------------------------------------------


def test_every_number_of_an_explanation(result: Result) -> None:
    step, path, busiest, lost, bound = explanation(result)["explanation"]
    causes, kinds = by_cause(result), by_kind_of_event(result)
    best = max(bound_rows(result).values())
    check_words(
        step, "The step takes {latency}, {gap} the lower bound of every plan, {bound} ({what}); the longest chain of "
        "this plan takes {chain}.", "explanation",
        latency=(result.latency_s, "s"), gap=(result.latency_s / best, "×"), bound=(best, "s"),
        what=("all work at peak rate", ""), chain=(result.longest_chain_s, "s"),
    )  # fmt: skip
    kind = max(kinds, key=lambda name: kinds[name])
    took: Counter[str] = Counter()
    for one in result.critical_path:
        took[one.operator] += one.end_s - one.start_s  # type: ignore[assignment]
    doing = {"compute": "computing", "read": "reading from DRAM", "write": "writing to DRAM"}[kind]
    check_words(
        path, "{share} of the critical path is {doing}; the operator with most of it is {name}.", "explanation",
        share=(kinds[kind], "%"), doing=(doing, ""), name=(took.most_common()[0][0], ""),
    )  # fmt: skip
    busy = {row.name: row.busy_s / result.latency_s for row in result.cores} | {
        row.name: row.utilisation for row in result.links
    }
    name = max(busy, key=lambda one: busy[one])
    check_words(
        busiest, f"The busiest resource is {name}: {{share}} of the step.", "explanation", share=(busy[name], "%")
    )
    worst = max((part for part in causes if part != "useful compute"), key=lambda part: causes[part])
    check_words(
        lost, "Of the time of the cores that worked, {useful} is useful compute; the largest loss is {what}, {share}.",
        "explanation", useful=(causes["useful compute"], "%"), what=(worst, ""), share=(causes[worst], "%"),
    )  # fmt: skip
    limits: Counter[str] = Counter()
    for row in result.operators:
        limits[row.bound_by] += row.latency_s  # type: ignore[assignment]
    what, seconds = limits.most_common()[0]
    check_words(
        bound, "{number} of {all} operators are bound by {what} ({share} of their time).", "explanation",
        number=(sum(row.bound_by == what for row in result.operators), "n"), all=(len(result.operators), "n"),
        what=(what, ""), share=(seconds / limits.total(), "%"),
    )  # fmt: skip


def test_a_difference_compares_the_fields_it_names(result: Result) -> None:
    found = difference(result, result)
    headline = {row.name: (row.first, row.unit) for row in found["headline"]}
    assert headline == {
        "latency_s": (result.latency_s, "s"), "cycles": (result.cycles, "cycles"), "energy_j": (result.energy_j, "J"),
        "throughput_per_s": (result.throughput_per_s, "sample/s"), "utilisation": (result.utilisation, ""),
        "dram read": (result.dram_bytes.read, "B"), "dram write": (result.dram_bytes.write, "B"),
        "lower bound of latency": (max(bound_rows(result).values()), "s"),
    }  # fmt: skip
    phases = {row.name: row.first for row in found["phases"]}
    assert phases == near({
        f"{name} {word}": value
        for name, row in result.phases.items()
        for word, value in (
            ("span", row.end_s - row.start_s), ("busy", row.busy_s), ("energy", row.energy_j),
            ("dram", row.dram_bytes), ("macs", row.macs),
        )
    })  # fmt: skip
    assert {row.name: row.first for row in found["energy_by_level"]} == result.energy_breakdown.by_level
    assert {row.name: row.first for row in found["memory_peak"]} == {one.name: one.peak_bytes for one in result.memory}
    assert {row.name: row.first for row in found["time_partition"]} == near(by_cause(result))
    assert found["operators"]["same"] == len(result.operators)


@pytest.mark.parametrize(
    ("text", "value", "unit", "right"),
    [
        ("12.34 ms", 0.012344, "s", True), ("12.34 ms", 0.01236, "s", False), ("12.34 s", 0.01234, "s", False),
        ("0.012 s", 0.012, "s", False), ("811 k", 811_000, "", True), ("8.2 %", 0.082, "%", True),
        ("8.2 %", 0.083, "%", False), ("1,085", 1085, "n", True), ("1085", 1085, "n", False),
        ("3.63×", 3.633, "×", True),
    ],
)  # fmt: skip
def test_reading_is_strict(text: str, value: float, unit: str, right: bool) -> None:
    assert shows(text, value, unit) is right
