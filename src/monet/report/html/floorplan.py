"""A design drawn to scale: every part of a chip as a rectangle as large as its area, cores of a kind side by side."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monet.hardware.accelerator import Accelerator
from monet.hardware.core import Core
from monet.hardware.drawing import area as area_text
from monet.hardware.drawing import binary_bytes, drawing

SIDE_PX = 320  # of the die
MOST_CELLS = 1_024  # cores of a kind that are drawn one by one
KEY_PX = 460  # beside the die
COLOURS = {"matrix": "#d9703a", "vector": "#3f7fc1", "memory": "#5a9f68", "other": "#9aa3ad"}


@dataclass(frozen=True, slots=True)
class Part:
    """Some like rectangles of a chip: how many, how large together, and the share of each that is its memories."""

    kind: str  # of COLOURS
    text: str
    count: int
    area_m2: float
    memory_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float


def parts_of(accelerator: Accelerator) -> list[Part]:
    """Kinds of cores, shared memories, and the rest, largest first; their areas are those of the chip together."""
    found = []
    counts = Counter(instance.template for instance in accelerator.cores)
    for template, count in counts.items():
        core = accelerator.designs[template]
        share = 1 - core.compute_area_m2 / core.area_m2 if core.area_m2 else 0.0
        found.append(
            Part(core.kind.value, f"{count:,} × {template}: {_inside(core)}", count, count * core.area_m2, share)
        )
    for memory in accelerator.memories:
        if memory.level.memory:
            text = f"{memory.name}: {binary_bytes(memory.size_bytes)}"
            found.append(Part("memory", text, 1, memory.level.total_area_m2))
    rest = accelerator.area_m2 - math.fsum(part.area_m2 for part in found)
    found.append(Part("other", "wires, interfaces, control", 1, max(0.0, rest)))
    return sorted((part for part in found if part.area_m2 > 0), key=lambda part: -part.area_m2)


def _inside(core: Core) -> str:
    """What a core computes with and holds."""
    array = " × ".join(str(axis.size) for axis in core.modes[0].axes) if core.units and core.modes else ""
    said = [f"array {array}"] if array else []
    said += [f"{core.lanes} lanes"] if core.lanes else []
    own = [level for level in core.levels if not level.memory]
    held = max((level.total_bytes for level in own), default=0)
    return ", ".join([*said, binary_bytes(held)] if held else said)


def drawn(accelerator: Accelerator) -> str:
    """A design to scale, and its cores, memories and links in words."""
    return f"{floorplan(accelerator)}<pre>{html.escape(drawing(accelerator))}</pre>"


def floorplan(accelerator: Accelerator) -> str:
    """The drawing as SVG, with a key; empty if nothing of the chip has an area."""
    parts = parts_of(accelerator)
    whole = math.fsum(part.area_m2 for part in parts)
    if not whole:
        return ""
    drawn = [_drawn(part, box) for part, box in zip(parts, _cut(Box(1, 1, SIDE_PX, SIDE_PX), parts), strict=True)]
    key = [_key(part, number, part.area_m2 / whole) for number, part in enumerate(parts)]
    height, width = max(SIDE_PX + 2, 26 * len(parts) + 30), SIDE_PX + KEY_PX
    total = f'<text x="{SIDE_PX + 20}" y="{26 * len(parts) + 22}">{area_text(accelerator.area_m2)} in all</text>'
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'style="max-width:100%;font:13px sans-serif" fill="currentColor">{"".join(drawn)}{"".join(key)}{total}</svg>'
    )


def _cut(box: Box, parts: Sequence[Part]) -> Iterator[Box]:
    """A rectangle cut into one for each part, along its longer side, the parts halved by area each time."""
    if len(parts) < 2:
        yield box
        return
    whole = math.fsum(part.area_m2 for part in parts)
    before = [abs(math.fsum(part.area_m2 for part in parts[:many]) - whole / 2) for many in range(1, len(parts))]
    many = 1 + before.index(min(before))
    share = math.fsum(part.area_m2 for part in parts[:many]) / whole
    if box.width >= box.height:
        first = Box(box.x, box.y, box.width * share, box.height)
        second = Box(box.x + first.width, box.y, box.width - first.width, box.height)
    else:
        first = Box(box.x, box.y, box.width, box.height * share)
        second = Box(box.x, box.y + first.height, box.width, box.height - first.height)
    yield from _cut(first, parts[:many])
    yield from _cut(second, parts[many:])


def _drawn(part: Part, box: Box) -> str:
    colour, cells = COLOURS[part.kind], _cells(box, part.count)
    rectangles = [_rectangle(box, colour, 0.25 if cells else 0.8)]
    for cell in cells:
        rectangles.append(_rectangle(cell, colour, 0.8))
        if part.memory_share > 0:
            own = Box(
                cell.x, cell.y + cell.height * (1 - part.memory_share), cell.width, cell.height * part.memory_share
            )
            rectangles.append(_rectangle(own, COLOURS["memory"], 0.9))
    return f"<g><title>{html.escape(part.text)}</title>{''.join(rectangles)}</g>"


def _cells(box: Box, count: int) -> list[Box]:
    """Equal cells of a rectangle in rows, as square as they can be; none where there are too many to be seen."""
    if count > MOST_CELLS or not box.width or not box.height:
        return []
    columns = min(range(1, count + 1), key=lambda many: _stretched(box, count, many))
    rows = -(-count // columns)
    width, height = box.width / columns, box.height / rows
    gap = min(1.5, width / 8, height / 8)
    return [
        Box(box.x + gap + (each % columns) * width, box.y + gap + (each // columns) * height, width - 2 * gap,
            height - 2 * gap)
        for each in range(count)
    ]  # fmt: skip


def _stretched(box: Box, count: int, columns: int) -> float:
    """How far cells are from squares, and what share of them stays empty."""
    rows = -(-count // columns)
    return abs(math.log((box.width / columns) / (box.height / rows))) + 4 * (columns * rows - count) / count


def _rectangle(box: Box, colour: str, opacity: float) -> str:
    return (
        f'<rect x="{box.x:.2f}" y="{box.y:.2f}" width="{box.width:.2f}" height="{box.height:.2f}" fill="{colour}" '
        f'fill-opacity="{opacity}" stroke="#fff" stroke-width="0.5"/>'
    )


def _key(part: Part, number: int, share: float) -> str:
    x, y = SIDE_PX + 20, 26 * number + 8
    square = _rectangle(Box(x, y, 14, 14), COLOURS[part.kind], 0.8)
    text = f"{part.text}; {area_text(part.area_m2)}, {100 * share:.0f} %"
    return f'{square}<text x="{x + 22}" y="{y + 12}">{html.escape(text)}</text>'
