"""The cache: equal content, equal key; a second process reads what the first wrote; a broken file is ignored."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from monet.graph.loop_nest import LoopNest, Operand, index
from monet.mapping import cache as cache_module
from monet.mapping.cache import ResultCache, key_of
from monet.mapping.mapper.canonical import pack, unpack
from monet.mapping.mapper.search import search
from tests.mapping.cores import two_level
from tests.mapping.nests import conv, linear


def renamed(n: int, k: int, c: int) -> LoopNest:
    operands = (
        Operand("a", 0, "int8", (n, c), (index("P"), index("R")), False),
        Operand("b", 1, "int8", (k, c), (index("Q"), index("R")), False),
        Operand("s", 2, "int8", (n, k), (index("P"), index("Q")), True),
    )
    return LoopNest((("P", n), ("Q", k), ("R", c)), operands)


def test_names_and_unit_dimensions_do_not_matter() -> None:
    core = two_level()
    assert key_of("tiling", linear(4, 6, 8), core) == key_of("tiling", renamed(4, 6, 8), core)
    assert key_of("tiling", linear(4, 6, 8), core) != key_of("tiling", linear(4, 6, 9), core)
    longer = replace(linear(4, 6, 8), dims=(("N", 4), ("K", 6), ("C", 8), ("G", 1)))
    assert key_of("tiling", linear(4, 6, 8), core) == key_of("tiling", longer, core)


def test_names_matter_where_an_axis_asks_for_them() -> None:
    core = two_level(dims=(("K",), ("C",)))
    assert key_of("tiling", linear(4, 6, 8), core) != key_of("tiling", renamed(4, 6, 8), core)


def test_energy_of_a_level_is_part_of_the_key() -> None:
    core = two_level()
    dearer = replace(core, levels=(replace(core.levels[0], read_energy_j=1e-9), *core.levels[1:]))
    assert key_of("tiling", linear(4, 6, 8), core) != key_of("tiling", linear(4, 6, 8), dearer)


def test_a_mapping_survives_packing_under_other_names(monkeypatch) -> None:
    monkeypatch.setattr(cache_module, "_default", ResultCache(None))
    core = two_level()
    first = search(linear(4, 6, 8), core, "energy")
    second = search(renamed(4, 6, 8), core, "energy")
    assert cache_module.default_cache().hits == 1
    assert second.cost.cycles == first.cost.cycles
    assert second.energy_j == first.energy_j
    nest = conv(K=4, C=2, OY=4, FY=3)
    mapping = search(nest, core).mapping
    assert unpack(pack(mapping, nest), nest) == mapping


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.sqlite"
    script = (
        "import sys; from monet.mapping.cache import ResultCache\n"
        "cache = ResultCache(sys.argv[1])\n"
        "for i in range(50): cache.get_or(f'{sys.argv[2]}{i}', lambda: {'value': i})\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "ab"]
    assert [one.wait() for one in running] == [0, 0]
    cache = ResultCache(str(path))
    assert cache.get_or("a7", dict) == {"value": 7}
    assert cache.get_or("b49", dict) == {"value": 49}
    assert cache.misses == 0


def test_a_file_that_cannot_be_used_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text("this is not a database", encoding="utf-8")
    assert ResultCache(str(path)).get_or("key", lambda: {"value": 1}) == {"value": 1}
