"""Plans: read and written, checked, defaulted; barriers and saved tensors; infeasible is a result, not a crash."""

from __future__ import annotations

import json

import numpy as np
import pytest
import yaml
from typer import Typer
from typer.testing import CliRunner

from monet.commands.run import run
from monet.errors import MonetError
from monet.formats import format_named
from monet.frontends import load_model
from monet.frontends.zoo.published import convolution_chain
from monet.graph import GraphBuilder
from monet.hardware import load_hardware
from monet.schedule.engine import Scheduler
from monet.schedule.evaluation import evaluate
from monet.schedule.measurement.energy import energy_of
from monet.schedule.plan import Group, Placement, Plan, PlanError, load_plan, plan_text
from monet.schedule.planning.default_plan import default_plan
from monet.schedule.planning.splits import scattered_dims
from monet.schedule.result import Result
from monet.schedule.schedule import Schedule
from monet.schedule.simulation import records as d
from monet.training.step import training_step
from tests.schedule.cases import accelerator

CLI = Typer()
CLI.command()(run)


@pytest.fixture(scope="module")
def scheduler() -> Scheduler:
    return Scheduler(training_step(load_model("resnet18-cifar")), load_hardware("edge-tpu"))


def test_a_plan_survives_yaml(scheduler: Scheduler, tmp_path) -> None:
    plan = default_plan(scheduler)
    assert plan.groups
    path = tmp_path / "plan.yaml"
    path.write_text(plan_text(plan))
    assert load_plan(str(path)) == plan
    again = scheduler.schedule(load_plan(str(path)))
    assert again.timed.makespan == scheduler.schedule(plan).timed.makespan


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bondary": "keep"}, "did you mean 'boundary'"),
        ({"boundary": "l2"}, "allowed are keep, local, dram"),
        ({"prefetch": -1}, "prefetch"),
        ({"groups": [{"operators": []}]}, "groups.0"),
        ({"groups": [{"operators": ["a"], "tile": {"OY": 0}}]}, "groups.0.tile.OY"),
        ({"allocation": {"conv1": {"core": "x"}}}, "allocation.conv1"),
    ],
)
def test_bad_plans_say_where(values: dict[str, object], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        Plan.from_dict(values)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan((Group(("conv9",)),)), "conv1"),
        (Plan((Group(("conv1", "bn1"), (("OZ", 1),)),)), "no dimension 'OZ'"),
        (Plan((Group(("conv1", "bn1")), Group(("bn1", "relu")))), "also in groups.0"),
        (Plan((Group(("conv1", "relu"), (("A2", 4),)),)), "circle"),
        (Plan((), {"conv1": Placement(("pe",))}), "no core 'pe'"),
        (Plan((), {"conv1": Placement(("pe[0,0]", "pe[1,0]"), "FX")}), "split 'FX'"),
        (Plan((), {"fc": Placement(tuple(f"pe[{i},{j}]" for i in range(4) for j in range(4)), "N")}), "split|values"),
    ],
)
def test_plans_that_do_not_fit_the_graph(scheduler: Scheduler, plan: Plan, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        scheduler.schedule(plan)


def test_operators_of_a_group_from_a_file_are_connected() -> None:
    graph, hardware = training_step(load_model("mlp-robot")), load_hardware("edge-tpu")
    names = [op.name for op in graph.ops if op.name.endswith("/sgd_update")][:2]
    with pytest.raises(PlanError, match=rf"groups.0: {names[1]} shares no data with {names[0]}"):
        evaluate(graph, hardware, {"groups": [{"operators": names}]})
    default = evaluate(graph, hardware)
    again = evaluate(graph, hardware, default.plan)
    assert (again.ticks, again.energy_j) == (default.ticks, default.energy_j)


def test_rows_of_an_input_gradient_are_not_split_as_their_pieces_overlap(scheduler: Scheduler) -> None:
    operator = next(
        one
        for one in scheduler.workload.operators
        if one.op.phase == "backward" and scattered_dims(one) >= {"OY", "FY"}
    )
    name, cores = operator.op.name, ("pe[0,0]", "pe[1,0]")
    with pytest.raises(PlanError, match=r"split 'OY'.*allowed: C, K"):
        scheduler.schedule(Plan((), {name: Placement(cores, "OY")}))
    scheduler.schedule(Plan((), {name: Placement(cores, "C")}))


def test_batch_norm_waits_for_every_tile_of_its_producer() -> None:
    roomy = load_hardware("edge-tpu", {"cores.simd.memories.sram.size_bytes": 4194304})
    scheduler = Scheduler(training_step(load_model("resnet18-cifar")), roomy)
    plan = Plan(
        (Group(("conv1", "bn1", "relu"), (("A2", 8),)),),
        {"conv1": Placement(("pe[0,0]",)), "relu": Placement(("simd",))},
    )
    schedule = scheduler.schedule(plan)
    operators = {one.operator.op.name: one for one in schedule.expanded.operators}
    assert operators["conv1"].steps.tiles == operators["relu"].steps.tiles == 4
    assert operators["bn1"].steps.tiles == 1
    order = [int(one) for one in schedule.operator_of_gang[:9]]
    names = [scheduler.workload.operators[number].op.name for number in order]
    assert names[:6] == ["conv1"] * 4 + ["bn1", "relu"]


def test_rows_run_depth_first_and_cached_halo_computes_nothing_twice() -> None:
    graph = convolution_chain("chain", 4, 16, 16, [(4, 3), (4, 3), (4, 3)])
    names = tuple(op.name for op in graph.ops)
    results = {}
    for halo in ("cached", "recomputed"):
        scheduler = Scheduler(graph, accelerator("shared", sram=65536))
        plan = Plan((Group(names, (("OY", 2),), halo),))
        results[halo] = scheduler.schedule(plan)
    work = {
        halo: sum(
            int((one.steps.ranges["OY"][1] - one.steps.ranges["OY"][0]).sum()) for one in schedule.expanded.operators
        )
        for halo, schedule in results.items()
    }
    assert work["cached"] == 3 * 16
    assert work["recomputed"] == 16 + (6 * 4 + 2 * 3) + (6 * 6 + 2 * 4)
    first = results["recomputed"].operator_of_gang[:6].tolist()
    assert first == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("first", [True, False], ids=["halo first", "halo last"])
def test_a_recomputed_tile_serves_all_that_read_it(first: bool) -> None:
    """conv → conv → add: the first result is read with a halo by the second convolution and without by the addition,
    whichever comes first; its tiles are as large as the larger of the two needs."""
    builder = GraphBuilder("residual")
    geometry = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    weights = [builder.parameter(f"w{i}", (4, 4, 3, 3), "int8") for i in range(2)]
    y = builder.emit("conv", builder.input("x", (1, 4, 16, 16), "int8"), weights[0], name="made", **geometry)
    if first:
        z = builder.emit("conv", y, weights[1], name="halo", **geometry)
        out = builder.emit("add", z, y, name="plain")
    else:
        y2 = builder.emit("relu", y, name="plain")
        out = builder.emit("add", builder.emit("conv", y, weights[1], name="halo", **geometry), y2, name="sum")
    graph = builder.build([out])
    scheduler = Scheduler(graph, accelerator("shared", sram=65536))
    names, dim = tuple(op.name for op in graph.ops), "A2"
    schedule = scheduler.schedule(Plan((Group(names, ((dim, 2),), "recomputed"),)))
    ranges = {one.operator.op.name: one.steps.ranges for one in schedule.expanded.operators}
    low, high = ranges["made"]["OY"]
    starts = np.arange(8) * 2
    assert low.tolist() == np.maximum(starts - 1, 0).tolist()
    assert high.tolist() == np.minimum(starts + 3, 16).tolist()
    assert [len(one) for one in ranges["halo"]["OY"]] == [8, 8]
    assert (ranges["halo"]["OY"][1] - ranges["halo"]["OY"][0]).tolist() == [2] * 8


def test_fusing_a_chain_saves_the_traffic_between_its_layers() -> None:
    graph = convolution_chain("chain", 4, 32, 32, [(8, 3), (8, 3), (4, 3)])
    names = tuple(op.name for op in graph.ops)
    small = accelerator("shared", sram=8192)
    alone = evaluate(graph, small, Plan(boundary="dram"))
    fused = evaluate(graph, small, Plan((Group(names, (("OY", 1),)),), boundary="dram"))
    compulsory = fused.bounds.dram_s * small.dram.bandwidth_bytes_per_s
    assert fused.dram_bytes.total == pytest.approx(compulsory)
    assert fused.dram_bytes.total < 0.5 * alone.dram_bytes.total
    assert fused.energy_j < alone.energy_j


def test_results_stay_on_chip_under_keep_and_leave_it_under_dram() -> None:
    graph = convolution_chain("chain", 4, 8, 8, [(4, 3), (4, 3)])
    large = accelerator("shared", sram=65536)
    kept, written = (evaluate(graph, large, fusion="none", boundary=one) for one in ("keep", "dram"))
    between = 4 * 8 * 8
    assert written.dram_bytes.total - kept.dram_bytes.total >= 2 * between


def test_a_group_that_does_not_fit_reads_its_weights_with_every_tile() -> None:
    graph = convolution_chain("chain", 16, 16, 16, [(16, 3), (16, 3)])
    plan = Plan((Group(tuple(op.name for op in graph.ops), (("OY", 4),)),))
    weights = 16 * 16 * 9
    large, small = (Scheduler(graph, accelerator("shared", sram=size)) for size in (65536, 3072))
    resident, streamed = large.schedule(plan), small.schedule(plan)
    assert [one.held for one in resident.expanded.operators] == [True, True]
    assert [one.held for one in streamed.expanded.operators] == [False, False]
    between = [_read_bytes(one, graph.ops[1].name) for one in (resident, streamed)]
    assert between[0] == weights
    assert between[1] >= 4 * weights


def test_sums_that_do_not_fit_are_read_back_by_the_next_tile() -> None:
    builder = GraphBuilder("one")
    x = builder.input("image", (1, 16, 16, 16))
    weight = builder.parameter("weight", (16, 16, 3, 3))
    y = builder.emit("conv", x, weight, name="conv", stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1), groups=1)
    step = training_step(builder.build([builder.emit("relu", y, name="relu")]), loss="sum")
    gradient, masked = (
        next(op.name for op in step.ops if op.name.endswith(end)) for end in ("conv_weight_gradient", "relu_gradient")
    )
    plan = Plan((Group((masked, gradient), (("OY", 4),)),))
    schedule = Scheduler(step, accelerator("shared", sram=8192)).schedule(plan)
    found = next(one for one in schedule.expanded.operators if one.operator.op.name == gradient)
    assert not found.held
    nodes, size, tiles = schedule.decided.events.nodes, 16 * 16 * 9 * 4, 4
    mine = nodes.operator == found.operator.number
    written = int(nodes.bytes[mine & (nodes.kind == d.WRITE)].sum())
    assert written >= tiles * size  # (2T - 1)·|out| in all: T times out, T - 1 times back
    entries = entries_of(schedule, found.base + 1)
    sums = entries.block[np.isin(entries.kind, d.WRITES)][0]
    back = (entries.block == sums) & (entries.kind == d.STREAM_READ)
    assert entries.bytes[back].tolist() == [size]


def entries_of(schedule: Schedule, step: int) -> d.Entries:
    tables = schedule.expanded.tables
    return tables.entries.some(slice(tables.steps.entry_start[step], tables.steps.entry_end[step]))


def _read_bytes(schedule: Schedule, name: str) -> int:
    number = next(one.operator.number for one in schedule.expanded.operators if one.operator.op.name == name)
    nodes = schedule.decided.events.nodes
    return int(nodes.bytes[(nodes.kind == d.READ) & (nodes.operator == number)].sum())


def test_what_does_not_fit_is_a_result_with_a_reason() -> None:
    graph = convolution_chain("chain", 8, 16, 16, [(8, 3), (8, 3)])
    names = tuple(op.name for op in graph.ops)
    result = evaluate(graph, accelerator("shared", sram=32), Plan((Group(names, (("OY", 16),)),)))
    assert not result.feasible
    assert result.reason is not None
    assert result.reason.operator == "conv0"
    assert result.reason.level == "buffer"
    assert result.reason.bytes_short > 0
    assert "infeasible" in str(result)
    assert Result.from_json(json.loads(json.dumps(result.to_json()))).reason == result.reason


def test_dram_that_is_too_small_is_infeasible_and_still_measured() -> None:
    tiny = load_hardware("edge-tpu", {"dram.dram.capacity_bytes": 500000})
    result = evaluate(training_step(load_model("mlp-robot")), tiny)
    assert not result.feasible
    assert result.reason is not None
    assert result.reason.level == "dram"
    assert result.latency_s > 0


def test_phases_and_inference() -> None:
    step, hardware = training_step(load_model("mlp-robot")), load_hardware("edge-tpu")
    whole = evaluate(step, hardware, fusion="none")
    update = evaluate(step, hardware, fusion="none", phases=["update"])
    assert set(update.phases) == {"update"}
    assert update.latency_s < whole.latency_s
    inference = evaluate(load_model("mlp-robot"), hardware)
    assert inference.mode == "inference"
    assert set(inference.phases) == {"forward"}
    with pytest.raises(MonetError, match="forward"):
        evaluate(step, hardware, phases=["forwards"])


def test_the_command_writes_everything_and_says_when_it_does_not_fit(tmp_path) -> None:
    files = {name: tmp_path / f"out.{name}" for name in ("json", "html", "trace", "csv", "yaml")}
    arguments = [
        "mlp-robot", "--hardware", "edge-tpu", "--batch", "4", "--json", str(files["json"]),
        "--report", str(files["html"]), "--trace", str(files["trace"]), "--csv", str(files["csv"]),
        "--save-plan", str(files["yaml"]),
    ]  # fmt: skip
    done = CliRunner().invoke(CLI, arguments)
    assert done.exit_code == 0, done.output
    assert all(path.stat().st_size for path in files.values())
    values = json.loads(files["json"].read_text())
    wanted = (
        "latency_s cycles energy_j energy_breakdown memory_peak_bytes dram_bytes phases cores links operators feasible "
        "plan seconds_to_evaluate"
    )
    assert set(wanted.split()) <= set(values)
    assert Plan.from_dict(yaml.safe_load(files["yaml"].read_text())).to_dict() == values["plan"]
    again = CliRunner().invoke(
        CLI, ["mlp-robot", "--hardware", "edge-tpu", "--batch", "4", "--fusion", str(files["yaml"]), "--json", "-"]
    )
    assert json.loads(again.stdout)["latency_s"] == values["latency_s"]
    full = CliRunner().invoke(CLI, ["mlp-robot", "--hardware", "edge-tpu", "--set", "dram.dram.capacity_bytes=1000"])
    assert full.exit_code == 3


def test_a_weight_gradient_accumulates_in_place_over_the_tiles_of_its_group() -> None:
    builder = GraphBuilder("one")
    x = builder.input("image", (1, 4, 16, 16))
    weight = builder.parameter("weight", (4, 4, 3, 3))
    y = builder.emit("conv", x, weight, name="conv", stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1), groups=1)
    y = builder.emit("relu", y, name="relu")
    step = training_step(builder.build([y]), loss="sum")
    scheduler = Scheduler(step, accelerator("shared", sram=65536))
    names = [one.op.name for one in scheduler.workload.operators]
    gradient = next(name for name in names if name.endswith("conv_weight_gradient"))
    masked = next(name for name in names if name.endswith("relu_gradient"))
    plan = Plan((Group((masked, gradient), (("OY", 4),)),))
    schedule = scheduler.schedule(plan)
    found = next(one for one in schedule.expanded.operators if one.operator.op.name == gradient)
    assert found.steps.tiles == 4
    entries = [entries_of(schedule, step) for step in range(found.base, found.base + 4)]
    written = {int(block) for one in entries for block in one.block[one.kind == d.HOLD_WRITE]}
    assert len(written) == 1  # one accumulator, from the first tile to the last
    result = evaluate(step, accelerator("shared", sram=65536), plan)
    row = next(one for one in result.operators if one.name == gradient)
    assert row.dram_write_bytes == 0


def test_a_group_without_tiles_runs_one_after_another_and_keeps_the_gradient_on_chip(scheduler: Scheduler) -> None:
    names = ("layer4.1.conv2/conv_weight_gradient", "layer4.1.conv2.weight/sgd_update")
    alone, fused = (scheduler.schedule(Plan(groups, buffer_share=0.5)) for groups in ((), (Group(names),)))
    order = [scheduler.workload.operators[number].op.name for number in _operators(fused)]
    assert order[order.index(names[0]) + 1] == names[1]
    gradient = 512 * 512 * 9 * 4
    assert _dram_bytes(alone) - _dram_bytes(fused) >= 2 * gradient  # neither written nor read again


def test_an_update_by_tiles_finds_its_weights_in_blocks_of_that_size(scheduler: Scheduler) -> None:
    names = ("layer1.0.conv1/conv_weight_gradient", "layer1.0.conv1.weight/sgd_update")
    fused = scheduler.schedule(Plan((Group(names, (("A0", 16),)),)))
    update = next(one for one in fused.expanded.operators if one.operator.op.name == names[1])
    assert update.steps.tiles == 4
    mine = entries_of(fused, update.base)
    held = np.unique(mine.block[mine.kind == d.HOLD_WRITE])
    assert int(fused.expanded.tables.blocks.bytes[held].sum()) == 16 * 64 * 9 * 4  # its own rows, no more


@pytest.mark.parametrize(
    ("options", "message"), [({"clip_norm": 1.0}, "norm of all"), ({"micro_batches": 2}, "accumulated by")]
)
def test_an_update_does_not_run_ahead_of_clipping_or_accumulation(options: dict[str, float], message: str) -> None:
    step = training_step(load_model("mlp-robot"), **options)
    update = next(op for op in step.ops if op.kind == "sgd_update")
    maker = next(op.name for op in step.ops if step.tensors[update.inputs[1]].storage in op.outputs)
    with pytest.raises(PlanError, match=message):
        Scheduler(step, load_hardware("edge-tpu")).schedule(Plan((Group((maker, update.name)),)))


@pytest.mark.parametrize(
    ("ends", "tile"),
    [
        (("layer1.0.conv2/conv_transpose", "layer1.0.conv2/conv_weight_gradient"), (("OY", 8),)),
        (("layer1.0.conv2/conv_weight_gradient", "layer1.0.conv2.weight/sgd_update"), (("A0", 16),)),
        (("layer1.0.add", "layer1.0.relu2"), (("A2", 8),)),
        (("layer1.0.relu2/relu_gradient", "layer1.0.bn2/batch_norm_gradient"), (("A1", 16),)),
    ],
)
def test_groups_of_training_can_be_scheduled(scheduler: Scheduler, ends: tuple[str, ...], tile) -> None:
    names = [one.op.name for one in scheduler.workload.operators]
    assert set(ends) <= set(names)
    fused = scheduler.schedule(Plan((Group(ends, tile),)))
    mine = [one for one in fused.expanded.operators if one.operator.op.name in ends]
    assert len({one.group for one in mine}) == 1
    assert min(one.steps.tiles for one in mine) > 1


def test_cores_hold_what_every_tile_reads_and_share_the_weights_of_a_tile(scheduler: Scheduler) -> None:
    alone = _dram_bytes(scheduler.schedule(Plan()))
    layer, cores = "layer3.1.", tuple(f"pe[{x},{y}]" for y in range(4) for x in range(4))
    split = {layer + "conv1/conv_weight_gradient": Placement(cores, "C")}  # its input by channels, in every tile of K
    update = (layer + "conv1/conv_weight_gradient", layer + "conv1.weight/sgd_update")
    gradient = 256 * 256 * 9 * 4
    fused = scheduler.schedule(Plan((Group(update, (("A0", 16),)),), split, boundary="dram"))
    apart = scheduler.schedule(Plan((), split, boundary="dram"))
    assert _dram_bytes(apart) - _dram_bytes(fused) >= gradient
    names = (layer + "bn1/batch_norm_gradient", layer + "conv1/conv_transpose")
    assert _dram_bytes(scheduler.schedule(Plan((Group(names, (("K", 16),)),)))) < alone


def _operators(schedule: Schedule) -> list[int]:
    return [int(number) for number in schedule.operator_of_gang]


def _dram_bytes(schedule: Schedule) -> int:
    nodes = schedule.decided.events.nodes
    return int(nodes.bytes[np.isin(nodes.kind, (d.READ, d.WRITE, d.EVICT))].sum())


@pytest.mark.parametrize("tile", [(), (("OY", 4),)])
def test_split_along_a_sum_moves_all_sums_but_one_and_adds_them(tile: tuple[tuple[str, int], ...]) -> None:
    graph = convolution_chain("chain", 8, 8, 8, [(4, 3)])
    (op,) = graph.ops
    roomy = accelerator("mesh", sram=65536)
    cores = tuple(one.name for one in roomy.cores if one.core.modes)
    scheduler = Scheduler(graph, roomy)
    groups = (Group((op.name,), tile),) if tile else ()
    alone = scheduler.schedule(Plan(groups, {op.name: Placement(cores[:1])}))
    split = scheduler.schedule(Plan(groups, {op.name: Placement(cores, "C")}))
    nodes = split.decided.events.nodes
    result = 4 * 8 * 8 * 4  # sums are int32
    assert int(nodes.bytes[nodes.kind == d.MOVE].sum()) == (len(cores) - 1) * result
    (one,) = split.expanded.operators
    assert one.steps.count == len(cores) * (2 if tile else 1)
    # every core adds up a part of the result; where tiles cut it, one core all that a tile completes
    assert sorted(piece for piece, _ in one.addition_costs) == ([0, 2] if tile else list(range(len(cores))))
    adds = sum(cost.under_use for _, cost in one.addition_costs)
    assert adds == (len(cores) - 1) * 4 * 8 * 8 / 4  # the array has four outputs
    useful = [sum(schedule.expanded.parts.useful) for schedule in (alone, split)]
    assert useful[0] == pytest.approx(useful[1], rel=1e-3)  # ticks are rounded up in every step
    assert sum(len(schedule.expanded.tables.steps) for schedule in (split,)) == one.steps.count + len(
        one.addition_costs
    )


def test_matmul_and_weight_gradient_split_along_what_they_sum_over() -> None:
    step = training_step(load_model("mlp-robot", batch=8))
    hardware = load_hardware("edge-tpu")
    cores = tuple(one.name for one in hardware.cores if one.core.modes)[:4]
    scheduler = Scheduler(step, hardware)
    for operator in scheduler.workload.operators:
        for dim in sorted(operator.summed):
            if operator.is_matrix and operator.nest.sizes[dim] >= len(cores):
                schedule = scheduler.schedule(Plan((), {operator.op.name: Placement(cores, dim)}))
                found = next(one for one in schedule.expanded.operators if one.operator is operator)
                assert found.is_summed
                assert found.addition_costs
                energy = energy_of(schedule, scheduler.machine, len(scheduler.workload.operators))
                assert energy.total - energy.static == pytest.approx(float(energy.by_operator.sum()), rel=1e-9)


def test_dram_moves_whole_bursts_of_every_row() -> None:
    builder = GraphBuilder("transposed")
    x = builder.emit("relu", builder.input("image", (1, 8, 16, 16)), name="first")
    graph = builder.build([builder.emit("relu", x, name="second")])
    small = accelerator("bus", local=16384)  # bursts of 8 bytes
    scheduler = Scheduler(graph, small)
    # rows of A2 leave the chip in blocks; the second group wants columns of A3, two bytes of each row
    plan = Plan((Group(("first",), (("A2", 4),)), Group(("second",), (("A3", 2),))), boundary="dram")
    schedule = scheduler.schedule(plan)
    nodes = schedule.decided.events.nodes
    second = nodes.some((nodes.operator == 1) & (nodes.kind == d.READ))
    size = format_named(graph.tensors[graph.outputs[0]].dtype).bits // 8
    assert int(second.bytes.sum()) == 8 * 16 * 16 * size
    assert int(second.bursts.sum()) == 8 * 16 * 8 * max(8, 2 * size)  # channels, rows, pairs of columns
    whole = nodes.some((nodes.operator == 0) & (nodes.kind == d.READ))
    assert np.all((whole.bursts - whole.bytes) < 8)


@pytest.mark.parametrize("bandwidth", [16, 64, 4096])
def test_cores_on_one_memory_share_its_ports(bandwidth: int) -> None:
    builder = GraphBuilder("branches")
    x = builder.input("image", (1, 8, 16, 16))
    weight = builder.parameter("weight", (8, 8, 3, 3))
    y = builder.emit("conv", x, weight, name="conv", stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1), groups=1)
    z = builder.emit("relu", x, name="relu")
    graph = builder.build([y, z])
    scheduler = Scheduler(graph, accelerator("shared", sram=65536, port=bandwidth))
    schedule = scheduler.schedule(Plan((), {"conv": Placement(("pe",)), "relu": Placement(("simd",))}))
    (nodes, _, bookings), timed = schedule.decided.events, schedule.timed
    port = int(scheduler.machine.port_resources[1])
    assert scheduler.machine.resource_names[port] == "buffer (port)"
    spans = []
    for row, start in zip(nodes, timed.start, strict=True):
        for resource, ticks in bookings[row["book_start"] : row["book_end"]]:
            if resource == port:
                spans.append((int(start), int(start + ticks)))
    assert len(spans) == 2
    (begun, first), (second, _) = sorted(spans)
    assert first <= second  # one after another at the port
    runs = {
        int(row["operator"]): int(start)
        for row, start in zip(nodes, timed.start, strict=True)
        if row["kind"] == d.COMPUTE
    }
    waits = abs(runs[0] - runs[1])
    busy = sum(end - start for start, end in spans)
    cost = {one.operator.op.name: one.costs[0].ports for one in schedule.expanded.operators}
    assert busy <= 2 + 1024 * sum(cycles for ports in cost.values() for _, cycles in ports)
    if bandwidth == 16:  # the port is all that counts: neither core overlaps with the other
        assert waits >= 0.9 * (first - begun)
