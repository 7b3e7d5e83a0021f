"""A default plan that was found before is the one that would be found again, and only for the same question."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from monet.frontends import load_model
from monet.hardware import load_hardware
from monet.mapping.cost_store import CostStore
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Placement
from monet.schedule.planning import default_plan
from monet.schedule.planning.default_plan import default_schedule
from monet.training.step import training_step

MODEL, CHIP = "mlp:widths=64-96-32", "edge-tpu"


def scheduler_of(path: Path | None, settings: dict[str, Any] | None = None, batch: int = 8) -> Scheduler:
    step = training_step(load_model(MODEL, batch=batch))
    return Scheduler(step, load_hardware(CHIP, settings or {}), store=CostStore(path))


def test_found_before_is_what_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "costs.sqlite"
    alone, first = default_schedule(scheduler_of(None)), default_schedule(scheduler_of(path))
    asked: list[object] = []
    race = default_plan.best_by_cores
    monkeypatch.setattr(default_plan, "best_by_cores", lambda *given: asked.append(given) or race(*given))
    again = default_schedule(scheduler_of(path))  # another store on the same file
    assert not asked
    assert alone.plan == first.plan == again.plan
    assert alone.makespan == first.makespan == again.makespan
    other_chip = scheduler_of(path, {"dram.dram.bandwidth_bits_per_cycle": 33})
    others = [(other_chip, "", None), (scheduler_of(path, batch=9), "", None), (scheduler_of(path), "dram", None)]
    others.append((scheduler_of(path), "", {"0": Placement(("pe[1,1]",))}))
    for number, (scheduler, boundary, given) in enumerate(others, 1):
        default_schedule(scheduler, boundary=boundary, placements=given)
        assert len(asked) == number
    default_schedule(scheduler_of(None))  # nothing lasts there
    assert len(asked) == len(others) + 1
