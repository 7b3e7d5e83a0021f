"""The store: equal content, equal key; bounded; a second process reads what the first wrote; a broken file is ignored;
sources that change find nothing."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest

from monet import sources
from monet.graph.loop_nest import LoopNest, Operand, index
from monet.mapping import cost_store
from monet.mapping.cost_store import CostStore, Kept, Key, Section
from monet.mapping.mapper.canonical import pack, unpack
from monet.mapping.mapper.search import search
from monet.mapping.mapper.tiling import Constraints
from tests.mapping.cores import two_level
from tests.mapping.nests import conv, linear


def named(n: int, k: int, c: int, dims: str = "PQR", operands: str = "abs") -> LoopNest:
    """The nest of ``linear`` under other names."""
    (N, K, C), (x, w, y) = dims, operands
    found = (
        Operand(x, 0, "int8", (n, c), (index(N), index(C)), False),
        Operand(w, 1, "int8", (k, c), (index(K), index(C)), False),
        Operand(y, 2, "int8", (n, k), (index(N), index(K)), True),
    )
    return LoopNest(((N, n), (K, k), (C, c)), found)


PLAIN = Section[dict[str, int]]("plain", 100)


def lasting(store: CostStore, key: str, value: dict[str, int]) -> dict[str, int]:
    """The value of a key that lasts, plain data as it is."""
    return store.lasting(PLAIN, key, lambda: value, dict, dict)


def key_of(nest: LoopNest, core, *rest, by_name: bool = False) -> Key:
    return CostStore().key("tiling", nest, core, *rest, by_name=by_name)


def test_names_and_unit_dimensions_do_not_matter() -> None:
    core = two_level()
    assert key_of(named(4, 6, 8), core) == key_of(named(4, 6, 8, "CDE", "xwy"), core)
    assert key_of(linear(4, 6, 8), core) != key_of(linear(4, 6, 9), core)
    longer = replace(linear(4, 6, 8), dims=(("N", 4), ("K", 6), ("C", 8), ("G", 1)))
    assert key_of(linear(4, 6, 8), core) == key_of(longer, core)


def test_the_order_of_names_matters_as_it_decides_between_equals() -> None:
    core = two_level()
    assert key_of(named(4, 6, 8, "PQR"), core) != key_of(named(4, 6, 8, "QPR"), core)


def test_names_matter_where_an_axis_or_a_constraint_asks_for_them() -> None:
    wired = two_level(dims=(("K",), ("C",)))
    assert key_of(named(4, 6, 8, "CKN"), wired) != key_of(named(4, 6, 8), wired)
    core, pinned = two_level(), Constraints(frozenset({"a"}))
    first, turned = named(4, 6, 8, operands="abs"), named(4, 6, 8, operands="bas")
    assert key_of(first, core, pinned, by_name=True) != key_of(turned, core, pinned, by_name=True)
    store = CostStore()
    for nest in (first, turned):
        held = nest.operands[0 if nest is first else 1].name
        assert held == "a"
        alone = search(nest, core, "energy", constraints=pinned, store=CostStore())
        assert search(nest, core, "energy", constraints=pinned, store=store) == alone


def test_energy_of_a_level_is_part_of_the_key() -> None:
    core = two_level()
    dearer = replace(core, levels=(replace(core.levels[0], read_energy_j=1e-9), *core.levels[1:]))
    assert key_of(linear(4, 6, 8), core) != key_of(linear(4, 6, 8), dearer)


def test_a_mapping_survives_packing_under_other_names() -> None:
    core, store = two_level(), CostStore()
    first = search(named(4, 6, 8), core, "energy", store=store)
    second = search(named(4, 6, 8, "CDE", "xwy"), core, "energy", store=store)
    assert (store.hits, store.misses) == (1, 1)
    assert second.cost.cycles == first.cost.cycles
    assert second.energy_j == first.energy_j
    nest = conv(K=4, C=2, OY=4, FY=3)
    mapping = search(nest, core, store=store).mapping
    assert unpack(pack(mapping, nest), nest) == mapping


def test_a_section_forgets_its_older_half() -> None:
    few = Kept(Section[int]("few", 4))
    assert [few.keep(key, 10 * key) for key in range(4)] == [0, 10, 20, 30]
    assert few.get_or(0, lambda: -1) == 0
    few.keep(4, 40)
    assert [few.get(key) for key in range(5)] == [None, None, 20, 30, 40]
    heavy = Kept(Section[str]("heavy", 10, len))
    for text in ("aaaa", "bbbb", "cccc", "dddd"):
        heavy.keep(text, text)
        assert sum(len(heavy.get(one) or "") for one in ("aaaa", "bbbb", "cccc", "dddd")) <= 10
    assert heavy.get("dddd") == "dddd"


def test_nothing_is_a_value_too() -> None:
    store, asked = CostStore(), list[int]()
    section = Section[int | None]("maybe", 10)
    for _ in range(3):
        assert store[section].get_or("key", lambda: asked.append(1)) is None
    assert len(asked) == 1
    store.clear()
    store[section].get_or("key", lambda: asked.append(1))
    assert len(asked) == 2


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.sqlite"
    script = (
        "import sys; from pathlib import Path; from monet.mapping.cost_store import CostStore, Section\n"
        "store, plain = CostStore(Path(sys.argv[1])), Section('plain', 100)\n"
        "for i in range(50): store.lasting(plain, f'{sys.argv[2]}{i}', lambda: {'value': i}, dict, dict)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "ab"]
    assert [one.wait() for one in running] == [0, 0]
    store = CostStore(path)
    assert lasting(store, "a7", {}) == {"value": 7}
    assert lasting(store, "b49", {}) == {"value": 49}
    assert store.misses == 0


def test_a_file_that_cannot_be_used_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text("this is not a database", encoding="utf-8")
    assert lasting(CostStore(path), "key", {"value": 1}) == {"value": 1}


def test_one_default_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost_store, "_default", None)
    assert cost_store.default_store() is cost_store.default_store()


def test_what_else_a_process_remembers_is_listed() -> None:
    remembered = set()
    for path in sources.PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
        for node in chain(tree.body, *(each.body for each in classes)):  # not what lasts for one call
            if isinstance(node, ast.FunctionDef) and any(
                re.fullmatch(r"(functools\.)?(lru_)?cache(\(.*\))?", ast.unparse(one)) for one in node.decorator_list
            ):
                remembered.add(f"{path.stem}.{node.name}")
    assert remembered == set(re.findall(r"``(\w+\.\w+)``", cost_store.__doc__ or ""))


# --- sources ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, as old as an installed one."""
    copy = tmp_path / "copied" / "monet"
    shutil.copytree(sources.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    age(copy, 1_000_000_000)
    return copy


def age(package: Path, seconds: int) -> None:
    for path in package.rglob("*.*"):
        os.utime(path, (seconds, seconds))


def test_the_digest_is_of_contents_wherever_they_lie(package: Path) -> None:
    here = sources.digest_of(sources.PACKAGE)
    assert sources.digest_of(package) == here
    age(package, 1_000_000_100)
    assert sources.digest_of(package) == here


@pytest.mark.parametrize("name", ["mapping/nest/cost.py", "schedule/simulation/decide.py", "hardware/technology.py"])
def test_a_change_of_what_decides_costs_is_another_digest(package: Path, name: str) -> None:
    before = sources.digest_of(package)
    source = package / name
    source.write_text(source.read_text(encoding="utf-8").replace("1", "2", 1), encoding="utf-8")  # of the same size
    age(package, 1_000_000_001)
    assert sources.digest_of(package) != before


def test_a_change_of_a_report_is_not(package: Path) -> None:
    before = sources.digest_of(package)
    (package / "report" / "more.py").write_text("", encoding="utf-8")
    assert sources.digest_of(package) == before


def test_sources_newer_than_the_process_belong_to_nobody_else(package: Path) -> None:
    before = sources.digest_of(package)
    os.utime(package / "mapping" / "nest" / "cost.py", (4e9, 4e9))
    assert sources.digest_of(package) != before


def test_costs_of_other_sources_are_not_found(package: Path, tmp_path: Path) -> None:
    program = (
        "from monet.mapping.cost_store import Section, stored_costs\n"
        "store = stored_costs(); store.lasting(Section('plain', 9), 'key', lambda: {'value': 1}, dict, dict)\n"
        "print(store.hits, store.misses)"
    )
    environment = os.environ | {"PYTHONPATH": str(package.parent), "MONET_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("MONET_CACHE", None)

    def run() -> str:
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.strip()

    assert [run(), run()] == ["0 1", "1 0"]
    with (package / "schedule" / "machine.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    age(package, 1_000_000_001)
    assert run() == "0 1"
    assert len(list((tmp_path / "cache" / "costs").iterdir())) == 2


def test_only_the_newest_digests_are_kept(tmp_path: Path) -> None:
    for number in range(10):
        store = CostStore(tmp_path / "costs" / f"digest{number}" / "costs.sqlite")
        lasting(store, "key", {"value": 1})
        os.utime(tmp_path / "costs" / f"digest{number}", (number, number))
    kept = sorted(one.name for one in (tmp_path / "costs").iterdir())
    assert kept == [f"digest{number}" for number in range(4, 10)]
