"""Unlike cores on one memory: what one core makes the others read without a transfer. A file, a plan, the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from monet.cli import app
from monet.frontends import load_model
from monet.frontends.zoo.published import convolution_chain
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Group, Placement, Plan, plan_text
from monet.schedule.schedule import Schedule
from monet.schedule.simulation import records as n
from monet.training.step import training_step

CHIP = str(Path(__file__).parents[1] / "chips" / "shared-l1.yaml")
CORES = ("digital", "analog", "analog", "digital")


def stack() -> tuple[Graph, dict[str, Placement]]:
    graph = convolution_chain("stack", 3, 64, 64, [(64, 3), (64, 3), (64, 3), (16, 1)])
    return graph, {op.name: Placement((core,)) for op, core in zip(graph.ops, CORES, strict=True)}


def scheduled(prefetch: int) -> tuple[Scheduler, Schedule]:
    graph, cores = stack()
    scheduler = Scheduler(graph, load_hardware(CHIP))
    rows = Group(tuple(op.name for op in graph.ops), (("OY", 1),))
    return scheduler, scheduler.schedule(Plan((rows,), cores, prefetch=prefetch))


@pytest.mark.parametrize("prefetch", [0, 1])
def test_cores_on_one_memory_exchange_rows_at_no_cost(prefetch: int) -> None:
    _, schedule = scheduled(prefetch)
    nodes = schedule.decided.events.nodes
    assert not (nodes.kind == n.MOVE).any()
    traffic = {kind: int(nodes.bytes[nodes.kind == kind].sum()) for kind in (n.READ, n.WRITE, n.EVICT)}
    weights = 9 * (3 * 64 + 64 * 64 + 64 * 64) + 64 * 16
    assert traffic == {n.READ: 3 * 64 * 64 + weights, n.WRITE: 16 * 64 * 64, n.EVICT: 0}


def test_strict_order_serves_a_row_of_results_before_the_next_row_of_inputs() -> None:
    _, strict = scheduled(0)
    _, eager = scheduled(1)
    assert strict.timed.makespan > eager.timed.makespan
    # a core asks for a tile's operands when it is done with the tile before: no two tiles' rows wait on chip
    nodes, timed = strict.decided.events.nodes, strict.timed
    first = nodes.operator == 0
    reads = np.flatnonzero(first & (nodes.kind == n.READ) & (nodes.bytes == 3 * 64))
    runs = np.flatnonzero(first & (nodes.kind == n.COMPUTE))
    # row r of the image is first needed by row r - 1 of the result, which may only ask once row r - 2 is made
    for read, run in zip(reads[2:], runs, strict=False):
        assert timed.start[read] >= timed.end[run]


def test_unlike_cores_work_at_the_same_time() -> None:
    _, schedule = scheduled(1)
    busy = np.zeros(2)
    steps = schedule.expanded.tables.steps
    for core in (0, 1):
        busy[core] = steps.ticks[steps.core == core].sum()
    assert busy.max() < schedule.timed.makespan < busy.sum()


def test_what_the_array_does_best_is_placed_there() -> None:
    graph, _ = stack()
    placed = Scheduler(graph, load_hardware(CHIP)).complete(Plan()).placements
    assert placed["conv1"].cores == ("analog",)


def segment(path: Path) -> None:
    """The first layers of ResNet-18 as an ONNX file."""
    weights = {"w1": (64, 3, 7, 7), "w2": (64, 64, 3, 3), "w3": (64, 64, 3, 3)}

    def conv(x: str, w: str, y: str, stride: int, pad: int):
        return helper.make_node("Conv", [x, w], [y], pads=[pad] * 4, strides=[stride] * 2)

    pool = helper.make_node("MaxPool", ["c1"], ["p1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    nodes = [
        conv("image", "w1", "c1", 2, 3),
        pool,
        conv("p1", "w2", "c2", 1, 1),
        helper.make_node("Relu", ["c2"], ["r2"]),
    ]
    nodes += [conv("r2", "w3", "c3", 1, 1), helper.make_node("Add", ["c3", "p1"], ["out"])]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 64, 16, 16])
    stored = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "segment", [image], [out], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


PLAN = """
boundary: keep
prefetch: 0
groups:
  - {operators: [conv, max_pool, conv_2, relu, conv_3, add], tile: {A2: 1}}
allocation: {conv: digital, max_pool: lanes, conv_2: analog, relu: lanes, conv_3: analog, add: lanes}
"""


def test_from_the_command_line(tmp_path: Path) -> None:
    segment(tmp_path / "segment.onnx")
    (tmp_path / "plan.yaml").write_text(PLAN)
    command = ["run", str(tmp_path / "segment.onnx"), "--hardware", CHIP, "--mode", "inference", "--precision", "int8"]
    done = CliRunner().invoke(
        app, [*command, "--fusion", str(tmp_path / "plan.yaml"), "--json", str(tmp_path / "r.json")]
    )
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "r.json").read_text())
    weights = 64 * (3 * 49 + 2 * 64 * 9)
    assert result["dram_bytes"] == {
        "read": 3 * 64 * 64 + weights,
        "write": 64 * 16 * 16,
        "total": 3 * 64 * 64 + weights + 64 * 16 * 16,
    }
    assert {row["name"]: row["cores"] for row in result["operators"]}["conv_2"] == ["analog"]


def test_nobody_queues_for_a_memory_that_only_one_core_shares() -> None:
    """Simba's global buffer is described as shared, but has one core: its port is no resource."""
    scheduler = Scheduler(training_step(load_model("mlp-robot")), load_hardware("simba"))
    schedule = scheduler.schedule(Plan())
    assert schedule.decided.events.bookings.resource.min() >= 0
    assert evaluate(scheduler.workload.graph, load_hardware("simba")).latency_s > 0


def test_a_whole_plan_as_an_allocation_says_what_is_not_taken(tmp_path: Path) -> None:
    place = tmp_path / "plan.yaml"
    first, *_, last = [op.name for op in load_model("mlp-robot").ops][:2]
    place.write_text(plan_text(Plan((Group((first, last)),))))
    command = ["run", "mlp-robot", "--hardware", "edge-tpu", "--mode", "inference"]
    shown = CliRunner().invoke(app, [*command, "--allocation", str(place)])
    assert shown.exit_code == 0
    assert "takes cores only" in shown.stderr
    shown = CliRunner().invoke(app, [*command, "--allocation", str(place), "--fusion", str(place)])
    assert "takes cores only" not in shown.stderr
