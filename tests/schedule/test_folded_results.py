"""A result that was measured on fewer of many equal layers: row by row the one of all of them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from monet.hardware.export import as_json
from monet.request import Request
from monet.schedule import engine
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.evaluation import evaluate, measure
from monet.schedule.folding.shortened import NotRepeating
from monet.schedule.plan import BOUNDARIES, Plan
from monet.schedule.planning import default_plan
from monet.schedule.result import Result
from monet.schedule.result_rows import Timeline
from tests.schedule.test_folding import MODES, RANGES, request, scheduler_of, with_fewer

CLOCKED = ("seconds_to_evaluate",)  # of this run, not of what was asked


def flat(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of plain values, with the way to it."""
    if isinstance(values, dict):
        for name, value in values.items():
            yield from flat(value, f"{path}/{name}")
    elif isinstance(values, list | tuple):
        for number, value in enumerate(values):
            yield from flat(value, f"{path}/{number}")
    else:
        yield path, values


def bars(timeline: Timeline) -> np.ndarray[Any, Any]:
    """What a timeline shows, in one order."""
    found = np.stack([timeline.start, timeline.end, timeline.resource, timeline.operator, timeline.kind])
    return found[:, np.lexsort(found)]


def without_bars(result: Result) -> Result:
    """A result without what is large: its timeline, and memories over time."""
    nothing = np.zeros(0, np.int64)
    of = result.timeline
    empty = Timeline(of.ticks_per_second, of.resources, of.operators, nothing, nothing, nothing, nothing, nothing)
    return replace(result, timeline=empty, memory=())


def assert_same(folded: Result, plain: Result) -> None:
    """All figures and rows: ticks and bytes exactly, sums of joules and seconds but for the order they are added in."""
    assert np.array_equal(bars(folded.timeline), bars(plain.timeline))
    for mine, theirs in zip(folded.memory, plain.memory, strict=True):
        assert np.array_equal(mine.time, theirs.time)
        assert np.array_equal(mine.bytes, theirs.bytes)
        nothing = np.zeros((1, 1), np.int64)
        assert repr(replace(mine, time=nothing, bytes=nothing)) == repr(replace(theirs, time=nothing, bytes=nothing))
    first, second = (
        {path: value for path, value in flat(without_bars(result).to_json()) if path[1:] not in CLOCKED}
        for result in (folded, plain)
    )
    assert first.keys() == second.keys()
    for path, value in second.items():
        if isinstance(value, float):
            assert math.isclose(first[path], value, rel_tol=1e-11, abs_tol=1e-18), path
        else:
            assert first[path] == value, path


def both(scheduler: Scheduler, few: Scheduler, plan: Plan) -> tuple[Result, Result]:
    """Results of a plan for all layers, folded and not."""
    folded, plain = few.folded(plan), scheduler.schedule(plan)
    assert folded.repeated is not None
    assert len(folded.timed.start) < len(plain.timed.start)
    return measure(scheduler, folded, {}, 0.0), measure(scheduler, plain, {}, 0.0)


@pytest.mark.parametrize("options", [{}, {"mode": "inference"}])
def test_a_result_of_fewer_layers_is_that_of_all(options: dict[str, Any]) -> None:
    scheduler = scheduler_of(request(26, **options))
    few = with_fewer(scheduler)
    folded, plain = both(scheduler, few, scheduler.complete(Plan()))
    assert_same(folded, plain)
    assert any("repeat to the tick" in note for note in folded.notes)


def test_what_is_evaluated_is_folded_and_says_so_nowhere_but_in_its_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(26, mode="inference", fusion="none")
    folded = asked.evaluate()
    monkeypatch.setattr(engine, "KEPT", ())
    assert_same(folded, asked.evaluate())


def test_layers_with_plans_of_their_own_are_not_folded() -> None:
    scheduler = scheduler_of(request(26, mode="inference"))
    few = with_fewer(scheduler)
    plan = scheduler.complete(Plan())
    names = [name for name in plan.placements if name.endswith("c_fc")]
    assert len(names) == 26
    other = plan.placements[names[13]]._replace(cores=plan.placements[names[13]].cores[:1], split=())
    with pytest.raises(NotRepeating, match="different plans"):
        few.folded(replace(plan, placements={**plan.placements, names[13]: other}))
    again = few.folded(replace(plan, placements={**plan.placements, **dict.fromkeys(names, other)}))
    assert again.makespan > few.folded(plan).makespan


def test_what_depends_on_all_layers_is_not_folded() -> None:
    """Weights that stay on chip have to fit there, all of them."""
    asked = request(26, mode="inference")
    description: dict[str, Any] = dict(asked.accelerator().description or as_json(asked.accelerator()))
    level = {**description["memories"]["l2"], "resident": "weights"}
    description["memories"] = {**description["memories"], "l2": level}
    result = Request(asked.model, description, mode="inference", precision="fp16", sequence=256).evaluate()
    assert not result.feasible
    assert result.reason is not None
    assert "resident" in result.reason.message


@pytest.mark.slow
def test_results_of_random_networks_chips_and_plans_are_those_of_all_layers() -> None:
    equal = 0
    for seed in range(30):
        draw = random.Random(seed)
        chip = draw.choice(("a100", "a100", "a100", "h100", "t4", "tpu-v4"))
        settings = {name: round(low * (high / low) ** draw.random()) for name, (low, high) in RANGES.items()}
        width = draw.choice(({"hidden": 256, "heads": 4}, *2 * ({"hidden": 768, "heads": 12},)))
        shape = ",".join(f"{name}={value}" for name, value in width.items())
        mode = draw.choice((*MODES, {"optimizer": "sgd"}, {"micro_batches": 2, "batch": 2}))
        asked = Request(
            f"gpt:layers={draw.randint(26, 48)},{shape}",
            chip,
            **{
                "precision": "bf16" if chip == "tpu-v4" else "fp16",
                "sequence": draw.choice((128, 256, 512)),
                "set": settings if chip == "a100" else {},
                **mode,
            },
        )
        scheduler = scheduler_of(asked)
        few = with_fewer(scheduler)
        assert few.short is not None
        for fused in (False, True):
            plan = Plan(boundary=draw.choice(BOUNDARIES), tiles=draw.choice(("latency", "throughput")))
            try:
                plan = few.complete(plan)
                plans = list(default_plan.fused_plans(few, plan, {})) if fused else [plan]
                whole = few.short.lengthened(few.complete(draw.choice(plans)))
                pair = both(scheduler, few, whole)
            except (NotRepeating, NoSchedule):
                continue
            assert_same(*pair)
            equal += 1
    assert equal >= 15  # those that are not extrapolated are what ``test_folding`` says why of


def test_evaluate_takes_a_plan_for_all_layers() -> None:
    scheduler = scheduler_of(request(26, mode="inference"))
    plan = scheduler.complete(Plan(boundary="local"))
    given = evaluate(scheduler.workload.graph, scheduler.machine.accelerator, plan, scheduler=scheduler)
    assert given.plan == plan.to_dict()
    assert given.ticks == scheduler.schedule(plan).makespan
