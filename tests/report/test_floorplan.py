"""Designs drawn to scale: rectangles of parts are as large as their areas, cells as many as cores."""

from __future__ import annotations

import re

import pytest

from monet.hardware import load_hardware
from monet.report.html.floorplan import MOST_CELLS, SIDE_PX, floorplan, parts_of
from monet.search.mining.templates import load_template


def rectangles(group: str) -> list[tuple[float, float]]:
    """Width and height of each."""
    return [(float(w), float(h)) for w, h in re.findall(r'width="([\d.]+)" height="([\d.]+)"', group)]


@pytest.mark.parametrize("vectors", [16, 4096])
def test_areas_are_to_scale(vectors: int) -> None:
    template = load_template("wham")
    space = template.space({"model": template.workload({"model": "mlp-robot"})})
    point = {"tensor_cores": 4, "rows": 64, "columns": 32, "vector_cores": vectors, "lanes": 8, "buffer_mib": 8}
    design = space.hardware(point)
    parts = parts_of(design)
    assert sum(part.area_m2 for part in parts) == pytest.approx(design.area_m2)
    groups = re.findall(r"<g>.*?</g>", floorplan(design))
    assert len(groups) == len(parts)
    for part, group in zip(parts, groups, strict=True):
        width, height = rectangles(group)[0]
        assert width * height / SIDE_PX**2 == pytest.approx(part.area_m2 / design.area_m2, abs=1e-3)
        each = 2 if part.memory_share else 1
        cells = (len(rectangles(group)) - 1) / each
        assert cells == (part.count if part.count <= MOST_CELLS else 0)


def test_shipped_chips_can_be_drawn() -> None:
    accelerator = load_hardware("edge-tpu")
    drawn = floorplan(accelerator)
    assert drawn.startswith("<svg ")
    assert drawn.count("<title>") == len(parts_of(accelerator))
