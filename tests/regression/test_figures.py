"""Figures and texts that a change of the code must not move. Where one is meant to: ``make regress``, read the diff."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.regression.commands import command_values, load_commands, slow_commands, stored_values
from tests.regression.comparison import differences, stored
from tests.regression.evaluate import evaluate_run, fresh_processes, load_runs
from tests.regression.golden import GOLDEN, golden_text, stored_text

RUNS = load_runs()
COMMANDS = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in slow_commands())) for name in load_commands()
]  # fmt: skip


@pytest.fixture(scope="session")
def process() -> Iterator[ProcessPoolExecutor]:
    with fresh_processes(1) as made:
        yield made


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * ("slow" in run)) for name, run in RUNS.items()]
)
def test_figures_have_not_moved(name: str, process: ProcessPoolExecutor) -> None:
    now = process.submit(evaluate_run, RUNS[name]).result()
    moved = differences(stored().get(name, {}), now)
    if moved:
        lines = "\n  ".join(moved)
        pytest.fail(f"{name}:\n  {lines}\nif this is meant: make regress, and read the diff", pytrace=False)


def test_every_stored_run_is_there() -> None:
    assert sorted(stored()) == sorted(RUNS), "make regress"


@pytest.mark.parametrize("name", GOLDEN)
def test_texts_have_not_moved(name: str, process: ProcessPoolExecutor) -> None:
    assert process.submit(golden_text, name).result() == stored_text(name), "if this is meant: make regress"


@pytest.mark.parametrize("name", COMMANDS)
def test_values_of_commands_have_not_moved(name: str, process: ProcessPoolExecutor) -> None:
    now = process.submit(command_values, load_commands()[name]).result()
    moved = differences(stored_values().get(name, {}), now)
    if moved:
        lines = "\n  ".join(moved[:20])
        pytest.fail(f"{name}: {len(moved)} moved\n  {lines}\nif this is meant: make regress, and read the diff", False)


def test_every_stored_command_is_there() -> None:
    assert sorted(stored_values()) == sorted(load_commands()), "make regress"


def test_a_moved_figure_is_seen() -> None:
    before = {"ticks": 10**9, "energy_j": 1.0, "peak_bytes": {"dram": {"total": 7}}}
    assert differences(before, before) == []
    assert differences(before, before | {"energy_j": 1.0 + 5e-10}) == []
    assert differences(before, before | {"energy_j": 1.0 + 2e-9}) == ["energy_j: 1.0 stored, 1.000000002 now"]
    assert differences(before, before | {"ticks": 10**9 + 1}) == [f"ticks: {10**9} stored, {10**9 + 1} now"]
    assert "peak_bytes/dram/total: 7 stored, absent now" in differences(before, before | {"peak_bytes": {}})
    assert differences({"rows": [{"a": 1}, {"a": 2}]}, {"rows": [{"a": 1}, {"a": 3}]}) == ["rows/1/a: 2 stored, 3 now"]
    assert differences({"rows": [1.0, 2.0]}, {"rows": [1.0]}) == ["rows/1: 2.0 stored, absent now"]
