"""An operator alone, boundary ``dram``, goes through the scheduler and comes out as ``monet map`` says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monet.frontends import load_model
from monet.graph import Graph
from monet.hardware import load_hardware
from monet.mapping.operators import map_graph
from monet.schedule import decide as d
from monet.schedule import nodes as n
from monet.schedule import residency as r
from monet.schedule.energy import energy_of
from monet.schedule.engine import Schedule, Scheduler, run_decide, run_replay
from monet.schedule.expand import expand
from monet.schedule.grouping import TiledGroup
from monet.schedule.plan import Placement, Plan
from monet.training import training_step


def graph_of(model: str) -> Graph:
    return training_step(load_model(model, image=32) if "resnet" in model else load_model(model, sequence=32))


@pytest.mark.parametrize(
    ("model", "hardware"), [("resnet18-cifar", "edge-tpu"), ("gpt2-mini", "fusemax"), ("gpt2-mini", "micro-npu")]
)
def test_alone_as_mapped(model: str, hardware: str) -> None:
    graph, accelerator = graph_of(model), load_hardware(hardware)
    mapped = {cost.op.name: cost for cost in map_graph(graph, accelerator)[0]}
    scheduler = Scheduler(graph, accelerator)
    seen: set[str] = set()
    for operator in scheduler.workload.operators:
        if operator.key in seen or operator.op.name not in mapped or not operator.nest.reads:
            continue
        seen.add(operator.key)
        expected = mapped[operator.op.name]
        plan = Plan((), {operator.op.name: Placement((expected.core.name,))}, "dram", prefetch=0)
        group = TiledGroup((operator,), {operator.number: {}}, False)
        expanded = expand(scheduler.workload, scheduler.machine, plan, [group], scheduler.costs)
        expanded.blocks[:, r.IN_DRAM] = 1
        decided = run_decide(expanded, scheduler.machine, scheduler.workload)
        timed = run_replay(decided, scheduler.machine)
        cycles = scheduler.machine.ticks(expected.cost.cycles, expected.core)
        nodes = decided.nodes
        bursts = (nodes[:, n.BURSTS] - nodes[:, n.BYTES])[nodes[:, n.BURSTS] > 0]  # transfers end with whole bursts
        dram = accelerator.drams[0]
        more = bursts.sum() / dram.bandwidth_bytes_per_s * scheduler.machine.ticks_per_second
        assert bursts.max() < dram.burst_bytes
        bias = operator.operands[-1][1].bytes if operator.has_bias else 0  # which the mapper does not know
        if bias:
            border = scheduler.machine.borders[expected.core.name]
            more += scheduler.machine.ticks(bias * 8 / border.bits_per_cycle + border.latency_cycles, expected.core)
        assert cycles * (1 - 1e-4) - 4096 <= timed.makespan <= cycles * (1 + 1e-4) + 4096 + more, operator.op.name
        moved = {kind: int(nodes[nodes[:, n.KIND] == kind, n.BYTES].sum()) for kind in (n.READ, n.WRITE)}
        assert moved[n.READ] == pytest.approx(expected.cost.dram_read_bits / 8 + bias, abs=8)
        assert moved[n.WRITE] == pytest.approx(expected.cost.dram_write_bits / 8, abs=8)
        schedule = Schedule(plan, expanded, decided, timed)
        energy = energy_of(schedule, scheduler.machine, len(scheduler.workload.operators))
        per_bit = max(dram.read_energy_j_per_bit, dram.write_energy_j_per_bit)
        dynamic, least = energy.total - energy.static, expected.cost.energy_j
        if bias:
            core, top = expected.core.core, expected.core.core.top("O")
            each = core.rate(*(one.dtype for one in operator.nest.reads)).energy_j
            way = border.link_energy_j_per_bit + top.write_energy_j_per_bit + top.read_energy_j_per_bit
            least += math.prod(operator.nest.writes[0].shape) * each + 8 * bias * (per_bit + way)
        assert 0.999 * least <= dynamic <= 1.001 * least + 8 * bursts.sum() * per_bit
    assert len(seen) > 10


def test_every_operator_runs_once_and_views_that_copy_are_costed() -> None:
    graph = graph_of("gpt2-mini")
    scheduler = Scheduler(graph, load_hardware("fusemax"))
    schedule = scheduler.schedule(Plan(boundary="dram"))
    ran = set(schedule.expanded.steps[:, d.OPERATOR].tolist())
    assert ran == set(range(len(scheduler.workload.operators)))
    copies = [one for one in scheduler.workload.operators if one.op.kind == "reshape"]
    assert copies
    ticks = schedule.expanded.steps[
        np.isin(schedule.expanded.steps[:, d.OPERATOR], [o.number for o in copies]), d.TICKS
    ]
    assert ticks.min() > 0
