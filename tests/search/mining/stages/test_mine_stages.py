"""Mining for a pipeline: stages cost what ``distributed`` says, and the same comes out however it is run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from monet.distributed.evaluation import evaluate_plan
from monet.distributed.layout import lay
from monet.distributed.memory.fitting import memory_of
from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.system import Devices, load_system
from monet.errors import MonetError
from monet.report.stages import summary
from monet.search.hardware.evaluation import evaluate
from monet.search.hardware.record import Record
from monet.search.hardware.store import StoreError
from monet.search.mining.bounds import bounded
from monet.search.mining.clock import clocked
from monet.search.mining.stages.choice import Chooser
from monet.search.mining.stages.mine_stages import Profiles, mine_stages
from monet.search.mining.stages.problem import StageProblem, fitted, stage_bytes
from monet.search.mining.templates import load_template

MLP = "mlp:widths=16-32-32-24-16-8"
GPT = "gpt:layers=10,hidden=16,heads=2,vocabulary=32,sequence=8,positions=8"
SMALL = {
    "core_count": [1, 2],
    "rows": [4, 8],
    "columns": [4, 8],
    "lanes": [4],
    "sram_kib": [64],
    "dram_gbps": [3.2, 6.4],
}


def problem(model: str = MLP, metric: str = "throughput", **plan: object) -> StageProblem:
    template = load_template("edge").with_ranges(SMALL)
    workload = template.workload({"model": model, "fusion": "none"})
    laid = ParallelPlan(**{"pipeline": 3, **plan})  # type: ignore[arg-type]
    return StageProblem(template, "model", workload, load_system("edge-ethernet"), laid, 8, template.limits, metric)


def design(**values: object) -> dict[str, object]:
    return {name: values.get(name, choices[0]) for name, choices in SMALL.items()}


def costed(asked: StageProblem, *designs: dict[str, object]) -> list[Record]:
    records = [evaluate(asked.space().text, values) for values in designs]
    assert all(record.ok for record in records), [record.reason for record in records]
    return records


@pytest.mark.parametrize(("model", "cuts"), [(MLP, (1, 3)), (MLP, (2, 4)), (GPT, (3, 7)), (GPT, (1, 8))])
def test_unlike_devices_take_as_long_as_the_plan_on_such_a_system(model: str, cuts: tuple[int, ...]) -> None:
    asked = problem(model)
    space, pipeline = asked.space(), asked.pipeline
    small, large = costed(asked, design(), design(core_count=2, rows=8))
    chooser = Chooser(pipeline, Profiles(asked, space).at, "throughput", 1e12)
    choice = chooser.choice((small, large, small), cuts)
    assert choice is not None
    devices = tuple(
        Devices(1, replace(space.hardware(each.values), endpoints=()), str(each.values)) for each in choice.designs
    )
    system = replace(asked.system, devices=devices)
    plan = replace(asked.plan, cuts=cuts)
    result = evaluate_plan(pipeline.coster, system, plan, asked.batch, model, details=False)
    assert choice.seconds == pytest.approx(result.latency_s, rel=1e-9)
    assert choice.energy_j == pytest.approx(result.energy_j, rel=1e-6)


SHARED = pytest.param(GPT, {"pipeline": 2, "tensor": 2}, marks=pytest.mark.slow)


@pytest.mark.parametrize(("model", "plan"), [(MLP, {}), (GPT, {}), SHARED])
def test_bounds_of_stages_are_never_above_their_passes(model: str, plan: dict[str, int]) -> None:
    asked = problem(model, **plan)
    works, space = asked.bounded_workloads(), asked.space()
    for values in (design(), design(core_count=2, dram_gbps=6.4)):
        record = costed(asked, values)[0]
        for name, step in bounded(space.hardware(values), works).steps.items():
            assert step.latency_s <= record.metrics[f"{name}.latency_s"]


@pytest.mark.slow
def test_the_same_comes_out_with_more_processes_and_after_an_interruption(tmp_path: Path) -> None:
    asked = problem()

    def mined(store: str, **options: object) -> dict[str, object]:
        found = summary(mine_stages(asked, str(tmp_path / store), top=2, evaluations=24, **options))  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if "seconds" not in name}

    def stopped(said: str, done: int, most: int) -> None:
        if done == 5:
            raise RuntimeError("killed")

    alone = mined("one.sqlite")
    with pytest.raises(RuntimeError):
        mined("two.sqlite", watch=stopped)
    with pytest.raises(StoreError, match="--resume"):
        mined("two.sqlite")
    assert mined("two.sqlite", jobs=2, resume=True) == alone
    homogeneous, heterogeneous = alone["homogeneous"], alone["heterogeneous"]
    assert isinstance(homogeneous, dict)
    assert isinstance(heterogeneous, dict)
    assert heterogeneous["throughput"] >= homogeneous["throughput"]
    assert len({str(stage["design"]) for stage in homogeneous["stages"]}) == 1
    assert sum(stage["layers"] for stage in heterogeneous["stages"]) == asked.pipeline.layers
    with pytest.raises(StoreError, match="plan differs"):
        mine_stages(replace(asked, batch=16), str(tmp_path / "one.sqlite"), resume=True)


def test_a_plan_that_does_not_fit_shares_more_and_says_so() -> None:
    asked = problem(GPT)
    document = {**asked.template.model.hardware}
    name = next(iter(document["dram"]))
    needed = max(_bytes(asked))
    smaller = {**document, "dram": {name: {**document["dram"][name], "capacity_bytes": int(0.7 * needed)}}}
    model = asked.template.model.model_copy(update={"hardware": smaller})
    tight = replace(asked, template=replace(asked.template, model=model), plan=ParallelPlan(pipeline=2))
    found, notes = fitted(tight)
    assert found.plan.tensor * found.plan.pipeline <= asked.system.size
    assert (found.plan.tensor, found.plan.recompute) != (1, "none")
    assert "taken" in notes[0]
    with pytest.raises(MonetError, match="bytes short"):
        fitted(replace(tight, plan=ParallelPlan(pipeline=2, recompute="selective")))


def _bytes(asked: StageProblem) -> list[float]:
    plan = replace(asked, plan=ParallelPlan(pipeline=2))
    return stage_bytes(plan.pipeline, plan.pipeline.spans())


def test_stage_memory_is_that_of_the_plan() -> None:
    for model in (MLP, GPT):
        asked = problem(model)
        cut = replace(asked.plan, cuts=asked.pipeline.cuts)
        peaks = memory_of(asked.pipeline.coster, lay(cut, asked.system, asked.batch))
        sizes = stage_bytes(asked.pipeline, asked.pipeline.spans())
        assert np.allclose(sizes, [peak.total for peak in peaks])


def test_the_clock_takes_collectives_as_they_are_guessed() -> None:
    """A design without its system has no port to a network, so that nothing of it can run them."""
    asked = problem(GPT, pipeline=2, tensor=2)
    hardware = asked.space().hardware(design(core_count=2))
    for work in asked.bounded_workloads().values():
        seconds, working = clocked(work, hardware)
        assert 0 < max(working.values()) <= seconds
