"""The accelerator drawn: cores (grids as grids), memories, links and DRAM, each with how busy or full it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from monet.hardware.summary import CoreSummary, HardwareSummary, MemorySummary
from monet.report.quantities import nbytes, percent, quantity
from monet.schedule.result import Result

ROOMY, TIGHT = (128, 74), (50, 36)  # size of a core's box; tight boxes carry no text but their load
MANY = 24
GAP = 26
BAR_HEIGHT = 52

Box = dict[str, Any]


def _shared_memories(summary: HardwareSummary) -> list[MemorySummary]:
    """Memories that several cores or none own, those of cores first."""
    return sorted((memory for memory in summary.memories if not memory.private), key=lambda memory: not memory.cores)


def _groups(summary: HardwareSummary) -> list[list[CoreSummary]]:
    """Cores by template; groups on the same shared memory stand together."""
    place = {core: index for index, memory in enumerate(_shared_memories(summary)) for core in memory.cores}
    groups: dict[str, list[CoreSummary]] = {}
    for core in summary.cores:
        groups.setdefault(core.template, []).append(core)
    return sorted(groups.values(), key=lambda group: place.get(group[0].name, -1))


def _columns(group: Sequence[CoreSummary]) -> int:
    if len(group[0].position) == 2:
        return 1 + max(core.position[0] for core in group)
    return len(group) if len(group) <= 8 else math.ceil(math.sqrt(1.8 * len(group)))


def _compute(core: CoreSummary) -> str:
    sides = "×".join(str(size) for size in core.axes.values())
    if sides and len(sides) <= 11:
        return f"{sides} MAC"
    return f"{quantity(core.units, '')} MAC" if core.units else f"{core.lanes} lanes"


def _box(name: str, kind: str, place: tuple[float, ...], load: float, lines: list[str], about: list[str]) -> Box:
    """A box at ``place``: left, top, width, height."""
    where = dict(zip(("x", "y", "width", "height"), place, strict=True))
    return {"name": name, "kind": kind, **where, "load": load, "lines": lines, "about": about}


def _core_box(core: CoreSummary, busy: float, private: str, at: tuple[float, float], tight: bool) -> Box:
    levels = [f"{level.name}: {nbytes(level.bytes)}" for level in core.levels]
    about = [f"{core.name} ({core.kind}, {quantity(core.clock_hz, 'Hz')})", _compute(core), *levels]
    about.append(f"busy {percent(busy)} of the step")
    lines = [percent(busy)] if tight else [core.name, _compute(core), private]
    return _box(core.name, "core", (*at, *(TIGHT if tight else ROOMY)), busy, lines, about)


def _core_boxes(result: Result) -> list[Box]:
    """Groups side by side; a group that is a grid keeps its places."""
    summary = result.hardware_summary
    busy = {row.name: row.busy_s / (result.latency_s or 1.0) for row in result.cores}
    private = {memory.cores[0]: nbytes(memory.size_bytes) for memory in summary.memories if memory.private}
    boxes, left = [], 0.0
    tight = len(summary.cores) > MANY
    width, height = TIGHT if tight else ROOMY
    for group in _groups(summary):
        columns = _columns(group)
        for index, core in enumerate(group):
            place = core.position
            column, row = (place[0], place[1]) if len(place) == 2 else (index % columns, index // columns)
            at = (left + column * (width + GAP), row * (height + GAP))
            boxes.append(_core_box(core, busy.get(core.name, 0.0), private.get(core.name, ""), at, tight))
        left += columns * (width + GAP) + GAP
    return boxes


def _bar(name: str, kind: str, lines: list[str], load: float, span: tuple[float, float], y: float) -> Box:
    fact = "full at its peak" if kind == "memory" else "busy"
    about = [*lines, f"{percent(load)} {fact}"]
    return _box(name, kind, (span[0], y, span[1] - span[0], BAR_HEIGHT), load, lines, about)


def _memory_boxes(result: Result, cores: list[Box], top: float, width: float) -> list[Box]:
    """Shared memories under their cores; side by side where they do not overlap."""
    peak = {trace.name: trace.full for trace in result.memory}
    at = {box["name"]: box for box in cores}
    linked: dict[str, list[str]] = {}
    for link in result.hardware_summary.links:
        for endpoint in link.endpoints:
            linked.setdefault(endpoint, []).extend(link.endpoints)
    rows: list[list[tuple[float, float]]] = []
    boxes = []
    for memory in _shared_memories(result.hardware_summary):
        mine = [at[name] for name in (*memory.cores, *linked.get(memory.name, ())) if name in at]
        span = (min(b["x"] for b in mine), max(b["x"] + b["width"] for b in mine)) if mine else (0.0, width)
        row = next((r for r, taken in enumerate(rows) if all(span[1] < a or span[0] > b for a, b in taken)), len(rows))
        if not mine:
            row = len(rows)
        rows += [[]] * (row - len(rows)) + ([[]] if row == len(rows) else [])
        rows[row].append(span)
        name, y = memory.name, top + row * (BAR_HEIGHT + GAP)
        boxes.append(_bar(name, "memory", [name, nbytes(memory.size_bytes)], peak.get(name, 0.0), span, y))
    return boxes


def _dram_boxes(result: Result, top: float, width: float) -> list[Box]:
    busy = {row.name: row.utilisation for row in result.links}
    boxes = []
    for index, dram in enumerate(result.hardware_summary.drams):
        name = dram.name
        load = max([busy.get(name, 0.0)] + [value for port, value in busy.items() if port.startswith(f"{name}[")])
        lines = [
            f"{name}  {dram.kind}".rstrip(),
            f"{nbytes(dram.capacity_bytes)}, {quantity(dram.bandwidth_bytes_per_s, 'B/s')}",
        ]
        boxes.append(_bar(name, "dram", lines, load, (0.0, width), top + index * (BAR_HEIGHT + GAP)))
    return boxes


def _endpoint_boxes(result: Result, top: float, width: float) -> list[Box]:
    """What is outside of the chip, below DRAM, side by side."""
    busy, endpoints = {row.name: row.utilisation for row in result.links}, result.hardware_summary.endpoints
    each = (width - GAP * (len(endpoints) - 1)) / max(1, len(endpoints))
    boxes = []
    for index, endpoint in enumerate(endpoints):
        size = f"{nbytes(endpoint.capacity_bytes)}, " if endpoint.capacity_bytes else ""
        rate = quantity(endpoint.bandwidth_bytes_per_s, "B/s")
        lines, left = [f"{endpoint.name}  {endpoint.kind}", f"{size}{rate}"], index * (each + GAP)
        boxes.append(_bar(endpoint.name, "endpoint", lines, busy.get(endpoint.name, 0.0), (left, left + each), top))
    return boxes


def _ports(result: Result, boxes: list[Box]) -> list[dict[str, Any]]:
    """Wires from DRAM to what is outside of the chip beside it."""
    at, wires = {box["name"]: box for box in boxes}, list[dict[str, Any]]()
    for endpoint in result.hardware_summary.endpoints:
        box, place = at[endpoint.name], at.get(endpoint.place)
        if place is None or place is box:
            continue  # links lead there
        about = [f"port to {endpoint.name}", *box["about"][1:]]
        points = [_anchor(place, box), _anchor(box, place)]
        wires.append({"name": endpoint.name, "load": box["load"], "bus": False, "points": points, "about": about})
    return wires


def _attachments(result: Result, boxes: list[Box]) -> list[dict[str, Any]]:
    """Short wires from shared memories up to the lowest of their cores in every column."""
    at = {box["name"]: box for box in boxes}
    wires = []
    for memory in _shared_memories(result.hardware_summary):
        box = at[memory.name]
        lowest: dict[float, Box] = {}
        for core in (at[name] for name in memory.cores if name in at):
            if core["x"] not in lowest or core["y"] > lowest[core["x"]]["y"]:
                lowest[core["x"]] = core
        for core in lowest.values():
            x = core["x"] + core["width"] / 2
            points = [(x, core["y"] + core["height"]), (x, box["y"])]
            about = [f"{core['name']} on {box['name']}", "attached by its ports: no link to cross"]
            wires.append({"name": "", "load": 0.0, "bus": False, "points": points, "about": about})
    return wires


def _anchor(box: Box, towards: Box) -> tuple[float, float]:
    """Where a wire leaves a box: the middle of the side that faces the other."""
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    other_x, other_y = towards["x"] + towards["width"] / 2, towards["y"] + towards["height"] / 2
    if y != other_y and not towards["kind"] == box["kind"] == "core":
        x = x if box["width"] <= towards["width"] else other_x  # straight down or up, at the narrower of the two
        return (x, box["y"] + box["height"] if other_y > y else box["y"])
    if abs(other_x - x) >= abs(other_y - y):
        return (box["x"] + box["width"] if other_x > x else box["x"], y)
    return (x, box["y"] + box["height"] if other_y > y else box["y"])


def _wires(result: Result, boxes: list[Box]) -> list[dict[str, Any]]:
    """Point-to-point links as lines between boxes, buses as a bar with a stub to the lowest box of every column."""
    at = {box["name"]: box for box in boxes}
    for core in result.hardware_summary.cores:
        if core.endpoint not in at and core.name in at:
            at[core.endpoint] = at[core.name]
    load = {row.name: (row.utilisation, row.bytes) for row in result.links}
    wires = []
    for link in result.hardware_summary.links:
        ends = [at[name] for name in link.endpoints if name in at]
        directions = [load[name] for name in (link.name, f"{link.name} (back)") if name in load]
        busy, moved = max((share for share, _ in directions), default=0.0), sum(count for _, count in directions)
        wire = {
            "name": link.name,
            "load": busy,
            "about": [
                f"{link.name}: {' – '.join(link.endpoints[:4])}{' …' if len(link.endpoints) > 4 else ''}",
                f"{quantity(link.bandwidth_bytes_per_s, 'B/s')}, {nbytes(moved)} moved, busy {percent(busy)}",
            ],
        }
        if len(ends) == 2:
            wires.append(wire | {"bus": False, "points": [_anchor(ends[0], ends[1]), _anchor(ends[1], ends[0])]})
        elif len(ends) > 2:
            wires.append(wire | {"bus": True, "points": [], "ends": [box["name"] for box in ends]})
    return wires


def _lay_buses(wires: list[dict[str, Any]], boxes: list[Box], top: float) -> None:
    """Give every bus a level of its own below the cores."""
    at = {box["name"]: box for box in boxes}
    for index, wire in enumerate(wire for wire in wires if wire["bus"]):
        ends = [at[name] for name in wire.pop("ends")]
        y = top + 18 + 16 * index
        lowest: dict[float, Box] = {}
        for box in ends:
            middle = box["x"] + box["width"] / 2 + 6 * index
            if middle not in lowest or box["y"] > lowest[middle]["y"]:
                lowest[middle] = box
        wire["points"] = [(min(lowest), y), (max(lowest), y)]
        wire["stubs"] = [
            [(x, box["y"] + (box["height"] if box["y"] < y else 0)), (x, y)] for x, box in sorted(lowest.items())
        ]


def info(result: Result) -> dict[str, Any]:
    """Boxes and wires with their places in a drawing of ``width`` × ``height``."""
    boxes = _core_boxes(result)
    if not boxes:
        return {"boxes": [], "wires": [], "width": 0, "height": 0}
    width = max(box["x"] + box["width"] for box in boxes)
    bottom = max(box["y"] + box["height"] for box in boxes)
    width = max(width, 260.0)
    buses = sum(len(link.endpoints) > 2 for link in result.hardware_summary.links)
    top = bottom + GAP + 10 + 16 * max(1, buses)
    boxes += _memory_boxes(result, boxes, top, width)
    lowest = max(box["y"] + box["height"] for box in boxes)
    boxes += _dram_boxes(result, top if lowest == bottom else lowest + GAP, width)
    if result.hardware_summary.endpoints:
        boxes += _endpoint_boxes(result, max(box["y"] + box["height"] for box in boxes) + GAP, width)
    wires = [*_attachments(result, boxes), *_wires(result, boxes), *_ports(result, boxes)]
    _lay_buses(wires, boxes, bottom)
    return {
        "boxes": boxes,
        "wires": wires,
        "width": max(box["x"] + box["width"] for box in boxes),
        "height": max(box["y"] + box["height"] for box in boxes),
    }
