"""Plans that people mistype: every one is an error that says where and what would do, never a traceback or a cost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from monet import load_hardware
from monet.frontends import load_model
from monet.graph.loop_nest import LoopNest
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Group, Placement, Plan, PlanError, load_plan

ODD_FILES = [
    ("allocation: [conv1]", "allocation: expected operator: cores"),
    ("allocation: conv1", "allocation: expected operator: cores"),
    ("allocation: {conv1: 3}", "allocation.conv1: expected a core"),
    ("allocation: {conv1: }", "allocation.conv1: expected a core"),
    ("allocation: {conv1: {cores: []}}", "allocation.conv1: expected a core"),
    ("allocation: {conv1: {cores: a}}", "allocation.conv1: expected a core"),
    ("allocation: {conv1: {cores: [a, b], split: [K, OY]}}", "allocation.conv1.split: expected a dimension, or parts"),
    ("allocation: {conv1: {cores: [a], splt: K}}", "unknown key 'splt'; did you mean 'split'"),
    ("groups: 3", "groups: expected a list of groups"),
    ("groups: [3]", "groups.0: expected a list 'operators'"),
    ("groups: [{operators: [conv1], tile: 3}]", "groups.0.tile: expected dimension: size"),
    ("groups: [{operators: [conv1], tile: {OY: 0}}]", "groups.0.tile.OY: 0 is not a tile size"),
    ("buffer_share: true", "buffer_share True"),
    ("memory_share: 0", "memory_share 0: more than 0, at most 1"),
    ("tiles: througput", "tiles 'througput': did you mean 'throughput'"),
    ("[1, 2]", "expected keys"),
    ("allocation: {conv1: [", "not YAML"),
]


@pytest.mark.parametrize(("text", "words"), ODD_FILES)
def test_odd_files(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(PlanError) as error:
        load_plan(str(path))
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"\x00\xff\xfe")
    with pytest.raises(PlanError, match="not a text file"):
        load_plan(str(path))


ODD_PLACEMENTS = [
    ("conv1", ("tensor[9]",), "", "no core 'tensor[9]'; allowed: pooling, simd, tensor[0]"),
    ("conv1", ("tensor",), "", "no core 'tensor'"),
    ("convX", ("tensor[0]",), "", "no operator 'convX'; did you mean 'conv1'"),
    ("layer1.0.add", ("tensor[0]",), "", "tensor[0] cannot run add: it has no vector lanes; pooling, simd can"),
    ("conv1", ("tensor[0]", "simd"), "K", "different designs"),
    ("layer1.0.add", ("pooling", "simd"), "A1", "different designs"),
    ("conv1", ("tensor[0]", "tensor[0]"), "K", "named twice"),
    ("conv1", ("tensor[0]",), "ZZ", "split 'ZZ': it has no such dimension"),
    ("conv1", ("tensor[0]", "tensor[1]"), "", "split '': allowed: C, K, OX, OY"),
    ("conv1", ("tensor[0]", "tensor[1]"), "N", "split 'N'"),
    ("conv1", ("tensor[0]", "tensor[1]"), "FX", "allowed: C, K, OX, OY"),
]


@pytest.mark.parametrize(("operator", "cores", "split", "words"), ODD_PLACEMENTS)
def test_odd_placements(operator: str, cores: tuple[str, ...], split: str, words: str) -> None:
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad"))
    for _ in range(2):  # the second time too
        with pytest.raises(PlanError) as error:
            scheduler.schedule(Plan(placements={operator: Placement(cores, split)}))
        assert words in str(error.value)


def test_lanes_that_cannot_multiply() -> None:
    plain = {"cores.simd.vector.only": ["add", "max"], "cores.pooling.vector.only": ["add", "max"]}
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad", plain))
    with pytest.raises(PlanError) as error:
        scheduler.schedule(Plan(placements={"conv1": Placement(("simd",))}))
    reason = "it has no array, and its lanes have no function mac, nor mul and add"
    assert f"simd cannot run conv: {reason}; tensor[0], tensor[1], tensor[2], tensor[3] can" in str(error.value)


def test_more_cores_than_values() -> None:
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad", {"cores.tensor.count": 8}))
    cores = tuple(f"tensor[{number}]" for number in range(8))
    with pytest.raises(PlanError, match="OY has 7 values for 8 cores"):
        scheduler.schedule(Plan(placements={"layer4.0.conv1": Placement(cores, "OY")}))


def test_tiles_with_fewer_rows_than_cores_cost_their_rows() -> None:
    """Cores without a row of a tile idle; the others do exactly what one core would do for it."""
    graph, hardware = load_model("resnet18-stream"), load_hardware("tpu-like-quad")
    group = Group(("conv1", "maxpool", "layer1.0.conv1"), (("OY", 1),))
    found = []
    for cores in (("tensor[2]",), ("tensor[2]", "tensor[3]")):
        scheduler = Scheduler(graph, hardware)
        placed = {"layer1.0.conv1": Placement(cores, "OY" if len(cores) > 1 else "")}
        one = scheduler.schedule(Plan((group,), placed)).expanded.operators[2]
        assert one.operator.op.name == "layer1.0.conv1"
        found.append(sum(np.array([cost.useful for cost in one.costs])[one.classes]))
    assert found[0] == found[1] > 0


def test_cores_without_rows_do_not_lead_a_multicast() -> None:
    """Weights too large for a core are streamed to all of them at once, also when the first has nothing to do."""
    graph, hardware = load_model("resnet18-stream"), load_hardware("tpu-like-quad")
    group = Group(("layer4.1.conv2", "layer4.1.add"), (("A2", 2),))  # 2.4 MB of weights, 2 MB a core
    cores = tuple(f"tensor[{number}]" for number in range(4))
    result = evaluate(graph, hardware, Plan((group,), {"layer4.1.conv2": Placement(cores, "OY")}))
    read = next(row.dram_read_bytes for row in result.operators if row.name == "layer4.1.conv2")
    assert read >= 512 * 512 * 9
    assert result.dram_bytes.total >= sum(one.bytes for one in graph.tensors.values() if one.role == "parameter")


def test_a_group_without_tiles_whose_operators_sum_over_several_cores() -> None:
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad"))
    cores = tuple(f"tensor[{number}]" for number in range(4))
    names = ("layer3.1.conv1", "layer3.1.conv2")
    placed = {name: Placement(cores, "C") for name in names}
    alone = scheduler.schedule(Plan(placements=placed)).timed.makespan
    assert scheduler.schedule(Plan((Group(names),), placed)).timed.makespan == alone


def test_an_empty_piece_is_not_a_unit_one() -> None:
    nest = stream_nest()
    empty = LoopNest(tuple((name, 0 if name == "OY" else size) for name, size in nest.dims), nest.operands)
    unit = LoopNest(tuple((name, 1 if name == "OY" else size) for name, size in nest.dims), nest.operands)
    assert empty.canonical() != unit.canonical()


def stream_nest() -> LoopNest:
    return Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad")).workload.operators[0].nest
