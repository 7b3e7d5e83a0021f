"""Templates: shipped ones, the released areas, what is wrong with one."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from pathlib import Path

import pytest

from monet.errors import MonetError
from monet.search.hardware.space import Space, space_from_text
from monet.search.mining.methods import hand_designs
from monet.search.mining.mine import Problem, mine
from monet.search.mining.templates import Limits, load_template, template_names

ROOT = Path(__file__).parents[3]
# <arrays, vector cores, width, depth, buffer MiB> → mm²: check points of the 29,360 designs that Phaze's release prices
RELEASED = (
    (8, 2, 128, 128, 128, 278.827),
    (4, 4, 128, 128, 64, 140.624),
    (1, 1, 256, 256, 2, 54.990),
    (1, 1, 128, 128, 128, 188.428),
    (1, 1, 2, 2, 2, 3.355),
)


def space_of(name: str) -> Space:
    template = load_template(name)
    return template.space({"model": template.workload({"model": "mlp-robot"})})


def test_shipped_templates_are_whole() -> None:
    assert template_names() == ("edge", "phaze", "wham")
    for name in template_names():
        space = space_of(name)
        assert space.size is not None
        assert space.size > 4_000
        assert space.model.about


@pytest.mark.parametrize("name", template_names())
def test_a_space_as_workers_read_it_is_the_same(name: str) -> None:
    """Tables have numbers for keys, which JSON makes words of."""
    space = space_of(name)
    point = next(space.points())
    again = space_from_text(space.text)
    assert again.hardware(point) == space.hardware(point)


@pytest.mark.parametrize(("arrays", "vectors", "width", "depth", "buffer", "area"), RELEASED)
def test_released_areas(arrays: int, vectors: int, width: int, depth: int, buffer: int, area: float) -> None:
    design = {"tensor_cores": arrays, "vector_cores": vectors, "columns": width, "rows": depth, "buffer_mib": buffer}
    assert space_of("phaze").hardware(design).area_m2 * 1e6 == pytest.approx(area, rel=1e-3)


def priced_by_us() -> Space:
    """Phaze's template without its areas, with what its release prices: 16-bit integer MACs with 32 bytes of registers
    each, single-ported memories, a core's of a 64th of its MACs in KiB; no network and no PHY."""
    template = load_template("phaze")
    hardware = copy.deepcopy(template.model.hardware)
    narrow = {"ports": "1rw", "bandwidth_bits_per_cycle": 64, "min_access_bits": 64}
    registers = {"name": "registers", "operands": ["W"], "per": "mac", "size_bytes": 32, "kind": "register"}
    hardware["memories"]["buffer"] = {"size_bytes": "16 MiB", **narrow}
    for core, kept in (("tensor", [{**registers, "bandwidth_bits_per_cycle": 16}]), ("vector", [])):
        del hardware["cores"][core]["compute_area_m2"]
        hardware["cores"][core]["memories"] = [*kept, {"name": "local", "size_bytes": "1 KiB", **narrow}]
    hardware["cores"]["tensor"]["rates"] = {"int16": {}}
    hardware["cores"]["vector"]["vector"]["dtypes"] = ["int16"]
    derived = {
        "memories.buffer.size_bytes": "buffer_mib * 1048576",
        "cores.tensor.memories.local.size_bytes": "max(1024, rows * columns * 16)",
        "cores.vector.memories.local.size_bytes": "max(1024, columns * 16)",
    }
    changed = {"hardware": hardware, "derived": derived, "tables": {}, "workload": {}}
    own = replace(template, model=template.model.model_copy(update=changed))
    return own.space({"model": own.workload({"model": "mlp-robot"})})


@pytest.mark.parametrize(("arrays", "vectors", "width", "depth", "buffer", "area"), RELEASED)
def test_our_prices_of_released_designs(
    arrays: int, vectors: int, width: int, depth: int, buffer: int, area: float
) -> None:
    """Within 15 %, what ``monet validate --only technology`` allows areas of memories; that was set before these."""
    design = {"tensor_cores": arrays, "vector_cores": vectors, "columns": width, "rows": depth, "buffer_mib": buffer}
    assert priced_by_us().hardware(design).area_m2 * 1e6 == pytest.approx(area, rel=0.15)


def test_derived_values_follow_parameters() -> None:
    space = space_of("wham")
    point = {"tensor_cores": 4, "rows": 128, "columns": 256, "vector_cores": 2, "lanes": 64, "buffer_mib": 8}
    design = space.hardware(point)
    assert len(design.cores) == 6
    assert design.memory("buffer").size_bytes == 8 << 20
    assert design.designs["tensor"].level("local").size_bytes == 128 * 256 * 16
    assert design.designs["vector"].lanes == 64
    assert space.set_by["cores.tensor.memories.local.size_bytes"] == {"rows", "columns"}


def test_ranges_can_be_narrowed() -> None:
    narrowed = load_template("edge").with_ranges({"rows": [8, 16]})
    assert narrowed.model.parameters["rows"].values == [8, 16]
    with pytest.raises(MonetError, match="no parameter 'row'; did you mean 'rows'"):
        load_template("edge").with_ranges({"row": [8]})


def test_limits() -> None:
    limits = Limits(10.0, 1.0)
    assert limits.over(11.0, 0.5) == ("area",)
    assert limits.over(11.0, 1.5) == ("area", "power")
    assert not Limits().over(1e9, 1e9)
    assert limits.constraints == ["area_mm2 <= 10.0", "full_use_power_w <= 1.0"]


def test_bad_templates(tmp_path: Path) -> None:
    with pytest.raises(MonetError, match="no template called 'whem'; did you mean 'wham'"):
        load_template("whem")
    with pytest.raises(MonetError, match="no such file"):
        load_template(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nhardware: {}\nparameters: {a: {}}\nlimits: {area: 3}\n")
    with pytest.raises(MonetError, match=r"parameters\.a.*give either values or range") as error:
        load_template(bad)
    assert "limits.area: unknown key; did you mean 'area_mm2'" in str(error.value)


def test_derived_values_that_cannot_be() -> None:
    template = load_template("edge")
    wrong = template.model.model_copy(update={"derived": {"cores.core.memories.sram.size_bytes": "sram_kb * 1024"}})
    with pytest.raises(MonetError, match=r"unknown name 'sram_kb'; did you mean 'sram_kib'"):
        type(template)(wrong, "edge").space({"model": template.workload({"model": "mlp-robot"})})


@pytest.mark.slow
def test_the_template_of_the_docs_is_mined_as_it_stands(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(name: .*?)```", (ROOT / "docs" / "mining.md").read_text(), re.DOTALL)
    written = tmp_path / "own.yaml"
    written.write_text(text)
    template = load_template(written)
    problem = Problem(template, {"model": template.workload({"model": "mlp-robot", "batch": 4})}, template.limits)
    found = mine(problem, str(tmp_path / "designs.sqlite"), evaluations=4, front=False)
    assert found.best is not None
    assert found.best.metrics["area_mm2"] <= 6
    assert found.gap is not None
    assert found.gap < 1
    hand = hand_designs(problem, problem.space())
    assert problem.fits(problem.space(), hand["one-large"])
