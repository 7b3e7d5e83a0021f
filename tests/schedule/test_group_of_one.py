"""An operator alone, boundary ``dram``, goes through the scheduler and comes out as ``monet map`` says."""

from __future__ import annotations

import numpy as np
import pytest

from monet.frontends import load_model
from monet.graph import Graph
from monet.hardware import load_hardware
from monet.hardware.core import Core
from monet.mapping.unfused.model_operators import OperatorCost, map_graph
from monet.mapping.unfused.operator import Unfused
from monet.schedule.engine import Scheduler, run_decide
from monet.schedule.expansion.expand import expand
from monet.schedule.measurement.energy import energy_of
from monet.schedule.plan import Placement, Plan
from monet.schedule.planning.grouping import TiledGroup
from monet.schedule.schedule import Schedule
from monet.schedule.serving import run_replay
from monet.schedule.simulation import records as n
from monet.schedule.workload import Operator
from monet.training.options import TrainingOptions
from monet.training.step import prepare, training_step

TICKS = 8  # a group of one has four transfers and one run, each rounded up to a tick
SIZES = {"resnet18-cifar": {"image": 32}, "mobilenetv2": {"image": 64}}
# all but a100: what comes by way of its L2 stays there, while ``monet map`` has operands in DRAM
PRESETS = ("edge-tpu", "tpu-like", "tpu-like-quad", "tpu-v3", "fusemax", "micro-npu", "simba")
LOOKED_UP = {"nll_loss"}  # values that lie apart in DRAM: the scheduler has a burst for each, the mapper counts bytes
INFERENCE = {"depfin": "int8", "aimc-4x4": "int8", "eyeriss": "int16"}  # no types to train in


def graph_of(model: str, precision: str = "fp32") -> Graph:
    forward, options = load_model(model, **SIZES.get(model, {"sequence": 32})), TrainingOptions(precision=precision)
    return prepare(forward, options) if precision.startswith("int") else training_step(forward, options)


def alone_schedule(scheduler: Scheduler, operator: Operator, core: str) -> Schedule:
    """A group of one, boundary ``dram``, with nothing before and after it."""
    plan = Plan((), {operator.op.name: Placement((core,))}, "dram", prefetch=0)
    group = TiledGroup((operator,), {operator.number: {}}, False)
    expanded = expand(scheduler.workload, plan, [group], scheduler.costs)
    expanded.tables.blocks.in_dram[:] = 1
    decided = run_decide(expanded, scheduler.machine, scheduler.workload)
    return Schedule(plan, expanded, decided, run_replay(decided, scheduler.machine))


def by_memory(joules: dict[str, float], core: Core) -> dict[str, float]:
    """A level of a core that is a memory of several cores goes by the name of that memory."""
    names, found = {level.name: level.memory or level.name for level in core.levels}, dict[str, float]()
    for level, spent in joules.items():
        found[names.get(level, level)] = found.get(names.get(level, level), 0.0) + spent
    return {level: spent for level, spent in found.items() if spent}


def compare(scheduler: Scheduler, operator: Operator, expected: OperatorCost) -> None:
    schedule, cost, core = alone_schedule(scheduler, operator, expected.core.name), expected.cost, expected.core.core
    nodes, name = schedule.decided.events.nodes, operator.op.name
    moved = [int(nodes.bytes[np.isin(nodes.kind, kinds)].sum()) for kinds in ([n.READ], [n.WRITE, n.EVICT])]
    copied = cost.copied_bytes if isinstance(cost, Unfused) else 0  # explicit transposes: the schedule has none
    assert moved == [cost.passing.read_bytes - copied, cost.passing.write_bytes - copied], name
    if copied or operator.op.kind in LOOKED_UP:
        return
    ticks = cost.cycles * scheduler.machine.ticks_per_second / core.clock_hz
    tops = {core.top(slot).name for slot in "IWO" if core.levels_of(slot) and slot not in core.streamed}
    own_memory = len(tops) == 1 and not core.streamed
    assert abs(schedule.timed.makespan - ticks) <= TICKS, name
    energy = energy_of(schedule, scheduler.machine, len(scheduler.workload.operators))
    by_time = ("static", "clock")  # what is drawn over time; the mapper prices what is done
    spent = by_memory({level: joules for level, joules in energy.by_level.items() if level not in by_time}, core)
    mapped = dict(cost.energy_j_by_level)
    for level, joules in cost.border_energy_j.items():
        mapped[level] = mapped.get(level, 0.0) + joules
    mapped = by_memory(mapped, core)
    assert spent.keys() == mapped.keys()
    for level in spent.keys() - (set() if own_memory else tops):  # one transfer fills one memory: that of its first
        assert spent[level] == pytest.approx(mapped[level], rel=1e-9), (name, level)


CASES = [("resnet18-cifar", hardware) for hardware in (*PRESETS, *INFERENCE) if hardware != "simba"]
CASES += [("gpt2-mini", hardware) for hardware in ("tpu-v3", "fusemax", "micro-npu", "simba", "depfin")]
CASES += [("mobilenetv2", "eyeriss")]
LARGER = [
    ("bert-base", "tpu-like-quad"),
    ("bert-base", "eyeriss"),
    ("gpt2-mini", "edge-tpu"),
    ("gpt2-mini", "tpu-like"),
]
LARGER += [("resnet18-cifar", "simba"), ("mobilenetv2", "tpu-v3"), ("mobilenetv2", "edge-tpu")]
LARGE = [pytest.param(*case, marks=pytest.mark.slow) for case in LARGER]


@pytest.mark.parametrize(("model", "hardware"), [*CASES, *LARGE])
def test_alone_as_mapped(model: str, hardware: str) -> None:
    """Every operator of a training step (of inference, where there are no types to train in): cycles to the tick, bytes
    exactly, joules by level."""
    accelerator = load_hardware(hardware)
    rates = {rate.inputs[0] for one in accelerator.cores for rate in one.core.rates}
    precision = INFERENCE.get(hardware) or next(one for one in ("fp32", "bf16") if one in rates)
    graph = graph_of(model, precision)
    mapped = {cost.op.name: cost for cost in map_graph(graph, accelerator)[0]}
    scheduler = Scheduler(graph, accelerator)
    seen: set[str] = set()
    for operator in scheduler.workload.operators:
        if operator.key not in seen and operator.op.name in mapped and operator.nest.reads:
            seen.add(operator.key)
            compare(scheduler, operator, mapped[operator.op.name])
    assert len(seen) > (5 if hardware in INFERENCE else 10)


def test_every_operator_runs_once_and_views_that_copy_are_costed() -> None:
    graph = graph_of("gpt2-mini")
    scheduler = Scheduler(graph, load_hardware("fusemax"))
    schedule = scheduler.schedule(Plan(boundary="dram"))
    steps = schedule.expanded.tables.steps
    ran = set(steps.operator.tolist())
    assert ran == set(range(len(scheduler.workload.operators)))
    copies = [one for one in scheduler.workload.operators if one.op.kind == "reshape"]
    assert copies
    ticks = steps.ticks[np.isin(steps.operator, [o.number for o in copies])]
    assert ticks.min() > 0
