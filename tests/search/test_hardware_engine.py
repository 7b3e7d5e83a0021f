from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest

from monet.search.hardware.engine import Engine
from monet.search.hardware.exploration import explore, objective_values
from monet.search.hardware.record import Record
from monet.search.hardware.store import open_store, read_store
from monet.search.pareto import hypervolume
from tests.search.evaluators import VERSION, metrics
from tests.search.spaces import grid

GOOD, FAULTY = "tests.search.evaluators:good", "tests.search.evaluators:faulty"
ROOT = Path(__file__).parents[2]


def contents(path: Path) -> list[tuple[object, ...]]:
    """Everything in a store except how long it took."""
    with read_store(path) as store:
        return [(dict(one.values), one.status, one.reason, dict(one.metrics), one.version) for one in store.records()]


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: ProcessPoolExecutor(2)])
def test_any_executor_gives_the_records_in_order(tmp_path: Path, make: Callable[[], Executor]) -> None:
    space = grid(3, 4)
    points = list(space.points())
    with (
        open_store(tmp_path / "s", space, VERSION, resume=False) as store,
        Engine(store, make, function=GOOD) as engine,
    ):
        arrived: list[Record] = []
        records = engine.evaluate(points, arrived.append)
        assert [dict(one.values) for one in records] == points
        assert all(dict(one.metrics) == metrics(one.values) for one in records)
        assert len(arrived) == len(store) == 12
        assert engine.evaluate(points, arrived.append) == records
        assert len(arrived) == 12  # nothing again


def test_a_worker_that_dies_hangs_or_lacks_memory_is_recorded_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONET_TEST_LOG", str(tmp_path / "log"))
    space = grid(3, 4)
    found = explore(
        space, str(tmp_path / "s"), jobs=2, timeout_s=1.5, memory_bytes=2**33, function=FAULTY,
    )  # fmt: skip
    assert len(found.records) == 12
    by_place = {(one.values["a"], one.values["b"]): one for one in found.records}
    assert by_place[2, 1].reason == "its process ended with signal 9 (tried twice)"
    assert by_place[2, 2].reason == "no answer within 1.5 s (tried twice)"
    assert by_place[2, 3].reason == "out of memory (tried twice)"
    assert by_place[2, 4].reason == "internal error: ZeroDivisionError: division by zero (tried twice)"
    assert {place for place, one in by_place.items() if one.status == "failed"} == {(2, 1), (2, 2), (2, 3), (2, 4)}
    assert (by_place[3, 1].status, by_place[3, 1].attempts) == ("ok", 2)
    tries = Counter((tmp_path / "log").read_text().splitlines())
    assert sorted(tries.values()) == [1] * 7 + [2] * 5


@pytest.mark.parametrize("search", ["exhaustive", "random", "qmc", "tpe", "nsga2"])
def test_same_seed_same_points_and_front_for_one_or_two_processes(tmp_path: Path, search: str) -> None:
    space = grid(8, 8)
    points = None if search == "exhaustive" else 24
    one, two = (
        explore(space, str(tmp_path / f"{jobs}"), search=search, points=points, seed=3, jobs=jobs, function=GOOD)
        for jobs in (1, 2)
    )
    assert [item.values for item in one.records] == [item.values for item in two.records]
    assert len(one.records) == (points or 64)
    assert one.front() == two.front()
    assert contents(tmp_path / "1") == contents(tmp_path / "2")
    again = explore(
        space, str(tmp_path / "1"), search=search, points=points, seed=3, resume=True, function="nothing:needed"
    )
    assert (again.evaluated, again.records) == (0, one.records)


def test_searches_that_learn_find_the_front_of_a_smooth_space(tmp_path: Path) -> None:
    space = grid(8, 8)
    whole = explore(space, str(tmp_path / "s"), jobs=2, function=GOOD)
    values = objective_values(space, whole.records, whole.objectives)
    reference = list(values.max(axis=0) * 1.01)
    for search in ("tpe", "nsga2"):
        found = explore(space, str(tmp_path / "s"), search=search, points=32, seed=1, resume=True, function=GOOD)
        seen = objective_values(space, found.records, found.objectives)
        assert hypervolume(seen, reference) >= 0.95 * hypervolume(values, reference)


def test_infeasible_points_do_not_stop_a_search_that_learns(tmp_path: Path) -> None:
    found = explore(grid(4, 4), str(tmp_path / "s"), search="nsga2", points=16, jobs=2, timeout_s=1.5, function=FAULTY)
    assert len(found.records) == 16


COORDINATOR = """
import sys
from monet.search.hardware.exploration import explore
from tests.search.spaces import grid
good = "tests.search.evaluators:good"
explore(grid(6, 8), sys.argv[1], search=sys.argv[2], points=48, seed=5, resume=True, jobs=2, function=good)
"""


def assert_kills_lose_nothing(tmp_path: Path, search: str, kills: int, seed: int) -> None:
    """Kill the coordinator at random moments, then let it end; compare with a run that was left alone."""
    environment = os.environ | {"MONET_TEST_SECONDS": "0.05", "MONET_TEST_LOG": str(tmp_path / "log")}
    store, moments = tmp_path / "killed", random.Random(seed)
    argv = [sys.executable, "-c", COORDINATOR, str(store), search]
    for _ in range(kills):
        process = subprocess.Popen(argv, env=environment, cwd=ROOT)
        before = len(contents(store)) if store.exists() else 0
        while process.poll() is None:  # let it do something first, then any moment
            time.sleep(0.02)
            if store.exists() and stored_points(store) > before + moments.randrange(8):
                time.sleep(moments.random() * 0.1)
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
    stored = [one[0] for one in contents(store)]
    done_before = Counter((tmp_path / "log").read_text().splitlines())
    subprocess.run(argv, env=environment, cwd=ROOT, check=True)
    explore(grid(6, 8), str(tmp_path / "whole"), search=search, points=48, seed=5, jobs=2, function=GOOD)
    assert contents(store) == contents(tmp_path / "whole")
    assert len(contents(store)) == 48
    # what was stored before the last run was not evaluated again by it
    after = Counter((tmp_path / "log").read_text().splitlines())
    for values in stored:
        line = json.dumps(values)
        assert after[line] == done_before[line]


def stored_points(store: Path) -> int:
    try:
        return int(sqlite3.connect(store, timeout=5).execute("SELECT count(*) FROM points").fetchone()[0])
    except sqlite3.Error:
        return 0


@pytest.mark.parametrize("search", [pytest.param("exhaustive", marks=pytest.mark.slow), "nsga2"])
def test_kill_and_resume(tmp_path: Path, search: str) -> None:
    assert_kills_lose_nothing(tmp_path, search, kills=2, seed=1)


@pytest.mark.slow
def test_kill_ten_times_and_resume(tmp_path: Path) -> None:
    assert_kills_lose_nothing(tmp_path, "exhaustive", kills=10, seed=2)


def test_two_coordinators_share_one_store(tmp_path: Path) -> None:
    environment = os.environ | {"MONET_TEST_SECONDS": "0.03", "MONET_TEST_LOG": str(tmp_path / "log")}
    argv = [sys.executable, "-c", COORDINATOR, str(tmp_path / "s"), "exhaustive"]
    both = [subprocess.Popen(argv, env=environment, cwd=ROOT) for _ in range(2)]
    assert [one.wait(120) for one in both] == [0, 0]
    assert len(contents(tmp_path / "s")) == 48
    assert set(Counter((tmp_path / "log").read_text().splitlines()).values()) == {1}  # each point once, by one of them


def test_a_process_that_has_grown_large_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from monet.search.hardware import engine

    started: list[object] = []
    monkeypatch.setattr(engine, "LARGE_BYTES", 1)
    first_line = engine._Child._line

    def counted(child: engine._Child, timeout_s: float) -> str:
        started.extend([child] if timeout_s == engine.START_S else [])
        return first_line(child, timeout_s)

    monkeypatch.setattr(engine._Child, "_line", counted)
    found = explore(grid(2, 2), str(tmp_path / "s"), function=GOOD)
    assert len(found.feasible) == len(started) == 4
