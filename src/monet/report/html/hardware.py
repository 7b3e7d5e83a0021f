"""The accelerator drawn: cores (grids as grids), memories, links and DRAM, each with how busy or full it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from monet.report.quantities import nbytes, percent, quantity
from monet.schedule.result import Result

ROOMY, TIGHT = (128, 74), (50, 36)  # size of a core's box; tight boxes carry no text but their load
MANY = 24
GAP = 26

Box = dict[str, Any]


def _groups(cores: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for core in cores:
        groups.setdefault(str(core["template"]), []).append(core)
    return groups


def _columns(group: Sequence[Mapping[str, Any]]) -> int:
    if len(group[0].get("position", ())) == 2:
        return 1 + max(int(core["position"][0]) for core in group)
    return len(group) if len(group) <= 8 else math.ceil(math.sqrt(1.8 * len(group)))


def _compute(core: Mapping[str, Any]) -> str:
    axes = core.get("axes") or {}
    if axes:
        return "×".join(str(size) for size in axes.values()) + " MAC"
    return f"{core.get('lanes', 0)} lanes"


def _core_box(core: Mapping[str, Any], busy: float, private: str, at: tuple[float, float], tight: bool) -> Box:
    width, height = TIGHT if tight else ROOMY
    levels = [f"{level['name']}: {nbytes(level['bytes'])}" for level in core.get("levels", ())]
    about = [f"{core['name']} ({core['kind']}, {quantity(core['clock_hz'], 'Hz')})", _compute(core), *levels]
    return {
        "name": core["name"],
        "kind": "core",
        "x": at[0],
        "y": at[1],
        "width": width,
        "height": height,
        "load": busy,
        "lines": [percent(busy)] if tight else [str(core["name"]), _compute(core), private],
        "about": [*about, f"busy {percent(busy)} of the step"],
    }


def _core_boxes(result: Result) -> list[Box]:
    """Groups side by side; a group that is a grid keeps its places."""
    cores = list(result.hardware_summary.get("cores", ()))
    busy = {row["name"]: float(row["busy_s"]) / (result.latency_s or 1.0) for row in result.cores}
    memories = result.hardware_summary.get("memories", ())
    private = {
        memory["cores"][0]: nbytes(memory["size_bytes"])
        for memory in memories
        if len(memory.get("cores", ())) == 1 and not memory.get("shared")
    }
    boxes, left = [], 0.0
    tight = len(cores) > MANY
    width, height = TIGHT if tight else ROOMY
    for group in _groups(cores).values():
        columns = _columns(group)
        for index, core in enumerate(group):
            place = core.get("position", ())
            column, row = (place[0], place[1]) if len(place) == 2 else (index % columns, index // columns)
            at = (left + column * (width + GAP), row * (height + GAP))
            boxes.append(_core_box(core, busy.get(core["name"], 0.0), private.get(core["name"], ""), at, tight))
        left += columns * (width + GAP) + GAP
    return boxes


def _shared_boxes(result: Result, below: float, width: float) -> list[Box]:
    """Memories that several cores or none own, one bar each under the cores, then DRAM."""
    summary = result.hardware_summary
    peak = {trace.name: trace.peak_bytes / (trace.capacity_bytes or 1) for trace in result.memory}
    busy = {row["name"]: float(row["utilisation"]) for row in result.links}
    rows = [
        (memory["name"], "memory", [f"{memory['name']}  {nbytes(memory['size_bytes'])}"], peak.get(memory["name"], 0.0))
        for memory in summary.get("memories", ())
        if memory.get("shared") or len(memory.get("cores", ())) != 1
    ]
    rows += [
        (
            dram["name"],
            "dram",
            [
                f"{dram['name']}  {dram.get('kind', '')}",
                f"{nbytes(dram['capacity_bytes'])}, {quantity(dram['bandwidth_bytes_per_s'], 'B/s')}",
            ],
            max([busy.get(dram["name"], 0.0)] + [v for k, v in busy.items() if k.startswith(f"{dram['name']}[")]),
        )
        for dram in summary.get("drams", ())
    ]
    boxes = []
    for index, (name, kind, lines, load) in enumerate(rows):
        fact = "busy" if kind == "dram" else "full at its peak"
        boxes.append(
            {
                "name": name,
                "kind": kind,
                "x": 0.0,
                "y": below + index * (52 + GAP),
                "width": max(width, 260.0),
                "height": 52,
                "load": load,
                "lines": lines,
                "about": [*lines, f"{percent(load)} {fact}", f"peak {percent(peak.get(name, 0.0))} of capacity"],
            }
        )
    return boxes


def _anchor(box: Box, towards: Box) -> tuple[float, float]:
    """Where a wire leaves a box: the middle of the side that faces the other."""
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    other_x, other_y = towards["x"] + towards["width"] / 2, towards["y"] + towards["height"] / 2
    if towards["kind"] != "core" or box["kind"] != "core":  # bars are as wide as the chip: straight down or up
        x = other_x if box["kind"] != "core" else x
        return (x, box["y"] + box["height"] if other_y > y else box["y"])
    if abs(other_x - x) >= abs(other_y - y):
        return (box["x"] + box["width"] if other_x > x else box["x"], y)
    return (x, box["y"] + box["height"] if other_y > y else box["y"])


def _wires(result: Result, boxes: list[Box]) -> list[dict[str, Any]]:
    """Point-to-point links as lines between boxes, buses as a bar with a stub to the lowest box of every column."""
    at = {box["name"]: box for box in boxes}
    endpoint = {core["name"]: core.get("endpoint", core["name"]) for core in result.hardware_summary.get("cores", ())}
    for name, place in endpoint.items():
        if place not in at and name in at:
            at[place] = at[name]
    load = {row["name"]: (float(row["utilisation"]), int(row["bytes"])) for row in result.links}
    wires = []
    for link in result.hardware_summary.get("links", ()):
        ends = [at[name] for name in link["endpoints"] if name in at]
        busy, moved = load.get(link["name"], (0.0, 0))
        wire = {
            "name": link["name"],
            "load": busy,
            "about": [
                f"{link['name']}: {' – '.join(link['endpoints'][:4])}{' …' if len(link['endpoints']) > 4 else ''}",
                f"{quantity(link['bandwidth_bytes_per_s'], 'B/s')}, {nbytes(moved)} moved, busy {percent(busy)}",
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
    buses = sum(len(link["endpoints"]) > 2 for link in result.hardware_summary.get("links", ()))
    boxes += _shared_boxes(result, bottom + GAP + 10 + 16 * max(1, buses), width)
    wires = _wires(result, boxes)
    _lay_buses(wires, boxes, bottom)
    return {
        "boxes": boxes,
        "wires": wires,
        "width": max(box["x"] + box["width"] for box in boxes),
        "height": max(box["y"] + box["height"] for box in boxes),
    }
