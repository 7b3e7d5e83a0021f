"""Names beside the points of a plot, placed so that none covers another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CHARACTER_PX, LINE_PX, AWAY_PX = 7.0, 16.0, 9.0  # of the house font at 13 px; distance from the middle of a marker
# where a name may stand: Plotly's word, and the side of the point in x and y (y upwards)
SIDES = {
    "top center": (0, 1), "bottom center": (0, -1), "middle right": (1, 0), "middle left": (-1, 0),
    "top right": (1, 1), "top left": (-1, 1), "bottom right": (1, -1), "bottom left": (-1, -1),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels, y upwards."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """Area that two boxes share."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return wide * high if wide > 0 and high > 0 else 0.0


def with_labels_apart(figure: Mapping[str, Any], width_px: float, height_px: float) -> dict[str, Any]:
    """A figure whose named points (traces with ``text`` in their mode) have their names on sides where no name covers
    another, in a plot of about this size. A name that has no such side is left to the hover text."""
    data = [dict(trace) for trace in figure["data"]]
    place = _scale(data, figure["layout"], width_px, height_px)
    points = [(x, y) for trace in data for x, y in zip(trace["x"], trace["y"], strict=True)]
    marks = [Box(x - 5, y - 5, x + 5, y + 5) for x, y in (place(*point) for point in points)]
    taken: list[Box] = []
    for trace in data:
        if "text" in trace["mode"]:
            chosen = list(_sides(trace, place, marks, taken, Box(0, 0, width_px, height_px)))
            trace["text"] = [name if side else "" for name, side in zip(trace["text"], chosen, strict=True)]
            trace["textposition"] = [side or "top center" for side in chosen]
    return {"data": data, "layout": figure["layout"]}


def label_box(name: str, side: str, x: float, y: float) -> Box:
    """Where a name stands beside a point."""
    across, up = SIDES[side]
    wide = CHARACTER_PX * len(name)
    middle_x = x + across * (AWAY_PX + wide / 2)
    middle_y = y + up * (AWAY_PX + LINE_PX / 2)
    return Box(middle_x - wide / 2, middle_y - LINE_PX / 2, middle_x + wide / 2, middle_y + LINE_PX / 2)


def _sides(
    trace: Mapping[str, Any], place: Any, marks: Sequence[Box], taken: list[Box], plot: Box
) -> Iterator[str | None]:  # fmt: skip
    """The side of every name of a trace; None for one that has no room."""
    for name, x, y in zip(trace["text"], trace["x"], trace["y"], strict=True):
        boxes = {side: label_box(name, side, *place(x, y)) for side in SIDES}
        free = [
            side
            for side, box in boxes.items()
            if box.left >= plot.left and box.right <= plot.right and not any(box.overlap(other) for other in taken)
        ]
        if not free:
            yield None
            continue
        best = min(free, key=lambda side: sum(boxes[side].overlap(mark) for mark in marks))
        taken.append(boxes[best])
        yield best


def _scale(data: Sequence[Mapping[str, Any]], layout: Mapping[str, Any], width_px: float, height_px: float) -> Any:
    """From the values of a point to pixels of a plot that shows all points, with Plotly's margin around them."""
    ways = []
    for name, size in (("x", width_px), ("y", height_px)):
        flat = math.log10 if layout.get(f"{name}axis", {}).get("type") == "log" else float
        values = [flat(value) for trace in data for value in trace[name]]
        low, high = min(values, default=0.0), max(values, default=1.0)
        margin = 0.06 * (high - low) or 1.0
        ways.append((flat, low - margin, size / (high - low + 2 * margin)))

    def place(x: float, y: float) -> tuple[float, float]:
        (flat_x, left, across), (flat_y, bottom, up) = ways
        return (flat_x(x) - left) * across, (flat_y(y) - bottom) * up

    return place
