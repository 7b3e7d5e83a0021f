"""An empty space says which limit excludes everything and what the smallest design needs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from monet.errors import MonetError
from monet.search.hardware.space import Space
from monet.search.mining.bounds import bounded
from monet.search.mining.feasibility import check_feasible, excluded
from monet.search.mining.methods import BLACK_BOX, mine_by
from monet.search.mining.mine import Problem
from monet.search.mining.templates import Limits, Template, load_template


def small() -> Template:
    """Eight designs of ``edge``."""
    ranges = {
        "core_count": [1, 2],
        "rows": [4],
        "columns": [4],
        "lanes": [4, 8],
        "sram_kib": [32],
        "dram_gbps": [3.2, 6.4],
    }
    return load_template("edge").with_ranges(ranges)


def space_of(template: Template) -> Space:
    return template.space({"model": template.workload({"model": "mlp-robot"})})


def figures(space: Space) -> list[tuple[float, float]]:
    """Area in mm² and power of every design, by the whole of it."""
    designs = [bounded(space.hardware(point), {}) for point in space.points()]
    return [(design.area_m2 * 1e6, design.tdp_w) for design in designs]


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"[\d.]+(?= (?:mm²|W))", line)]


def test_the_limit_and_the_smallest_design_are_named() -> None:
    space = space_of(small())
    found = figures(space)
    area, power = min(area for area, _ in found), min(power for _, power in found)
    (said,) = excluded(space, Limits(0.9 * area, 10 * power))
    assert said.startswith("area: ")
    assert numbers(said) == [pytest.approx(area, rel=0.05), pytest.approx(0.9 * area)]
    (said,) = excluded(space, Limits(10 * area, 0.8 * power))
    assert said.startswith("power: ")
    assert numbers(said) == [pytest.approx(power, rel=0.1), pytest.approx(0.8 * power)]
    assert len(excluded(space, Limits(0.5 * area, 0.5 * power))) == 2
    assert excluded(space, Limits(1.01 * area, 1.01 * power)) == []
    assert excluded(space, Limits()) == []


def test_limits_that_exclude_everything_only_together() -> None:
    """Less DRAM bandwidth comes with more memory: one design is small, the other draws little."""
    template = small().with_ranges({"core_count": [1], "lanes": [4], "sram_kib": [64], "dram_gbps": [1, 12]})
    derived = template.model.derived | {"cores.core.memories.sram.size_bytes": "sram_kib * 1024 * (13 - dram_gbps)"}
    space = space_of(replace(template, model=template.model.model_copy(update={"derived": derived})))
    (large, frugal), (little, hungry) = figures(space)
    assert little < large
    assert frugal < hungry
    (said,) = excluded(space, Limits((little + large) / 2, (frugal + hungry) / 2))
    assert said.startswith("area and power together: ")
    _, least_power, _, least_area = numbers(said)
    assert least_power == pytest.approx(hungry, rel=0.1)
    assert least_area == pytest.approx(large, rel=0.05)


@pytest.mark.parametrize("method", [*BLACK_BOX, "wham"])
def test_other_methods_say_so_before_they_try(method: str) -> None:
    template = small()
    problem = Problem(template, {"model": template.workload({"model": "mlp-robot"})}, Limits(0.01, 1.0))
    with pytest.raises(MonetError, match="no design is feasible\n  area: the smallest design takes"):
        mine_by(method, problem, "never opened", evaluations=2)
    with pytest.raises(MonetError, match="power: the one that draws least"):
        check_feasible(template.name, problem.space(), Limits(10.0, 1e-3))
