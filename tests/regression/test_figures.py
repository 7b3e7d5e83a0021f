"""Figures and texts that a change of the code must not move. Where one is meant to: ``make regress``, read the diff."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

import pytest

from tests.regression.evaluate import HERE, Figures, evaluate_run, fresh_processes, load_runs
from tests.regression.golden import GOLDEN, golden_text, stored_text

RUNS = load_runs()
RELATIVE = 1e-9  # of joules, seconds and ratios; ticks and bytes are exact


@pytest.fixture(scope="session")
def process() -> Iterator[ProcessPoolExecutor]:
    with fresh_processes(1) as made:
        yield made


@cache
def stored() -> dict[str, Figures]:
    found: dict[str, Figures] = json.loads((HERE / "figures.json").read_text())
    return found


def flat(values: Any, path: str = "") -> dict[str, Any]:
    """Path → figure."""
    if not isinstance(values, dict):
        return {path: values}
    return {key: one for name, value in values.items() for key, one in flat(value, f"{path}/{name}".strip("/")).items()}


def same(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=RELATIVE, abs_tol=0.0)
    return type(first) is type(second) and bool(first == second)


def differences(before: Figures, now: Figures) -> list[str]:
    """One line per figure that moved."""
    first, second = flat(before), flat(now)
    return [
        f"{path}: {first.get(path, 'absent')} stored, {second.get(path, 'absent')} now"
        for path in sorted(first.keys() | second.keys())
        if path not in first or path not in second or not same(first[path], second[path])
    ]


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


def test_a_moved_figure_is_seen() -> None:
    before = {"ticks": 10**9, "energy_j": 1.0, "peak_bytes": {"dram": {"total": 7}}}
    assert differences(before, before) == []
    assert differences(before, before | {"energy_j": 1.0 + 5e-10}) == []
    assert differences(before, before | {"energy_j": 1.0 + 2e-9}) == ["energy_j: 1.0 stored, 1.000000002 now"]
    assert differences(before, before | {"ticks": 10**9 + 1}) == [f"ticks: {10**9} stored, {10**9 + 1} now"]
    assert differences(before, before | {"peak_bytes": {}}) == ["peak_bytes/dram/total: 7 stored, absent now"]
