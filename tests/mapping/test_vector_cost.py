"""Vector operators: lanes by function, ports, DRAM; norms pass twice."""

from __future__ import annotations

import pytest

import monet
from monet.graph import GraphBuilder
from monet.graph.kind import Dimensions
from monet.hardware import load_description, load_hardware, replace
from monet.hardware.core import Flow
from monet.hardware.resolve import resolve
from monet.mapping.errors import MappingError
from monet.mapping.unfused.border import border_of
from monet.mapping.unfused.model_operators import map_graph
from monet.mapping.vector import vector_cost
from monet.schedule.workload import operator_of


@pytest.fixture(scope="module")
def step():  # type: ignore[no-untyped-def]
    return monet.training_step(monet.load_model("resnet18-cifar", batch=2), optimizer="adam", precision="bf16")


def test_every_operator_of_a_training_step_is_costed(step) -> None:  # type: ignore[no-untyped-def]
    costs, unmapped = map_graph(step, load_hardware("edge-tpu"))
    assert not unmapped
    kinds = {one.op.kind for one in costs}
    assert {"conv", "conv_transpose", "conv_weight_gradient", "batch_norm", "adam_update"} <= kinds
    for one in costs:
        assert one.cost.cycles >= one.cost.passing.dram_cycles * (1 - 1e-12)
        assert one.cost.energy_j > 0
    gradients = [one for one in costs if one.op.kind == "conv_weight_gradient"]
    assert sum(one.macs for one in costs) > 2.9 * sum(one.macs for one in gradients)


def test_lanes_functions_and_ports_set_the_time(step) -> None:  # type: ignore[no-untyped-def]
    accelerator = load_hardware("edge-tpu")
    simd = next(one for one in accelerator.cores if one.template == "simd")
    border = border_of(accelerator, simd)
    from monet.graph.counts import call_of
    from monet.graph.kind import kind_named

    relu = next(op for op in step.ops if op.kind == "relu")
    nest = kind_named("relu").nest(call_of(step, relu))
    one = vector_cost(nest, {"max": 6400}, simd.core, border)
    ten = vector_cost(nest, {"div": 6400}, simd.core, border)
    assert ten.compute_cycles == pytest.approx(10 * one.compute_cycles)
    assert one.compute_cycles == pytest.approx(6400 / simd.core.lanes)
    assert one.core_cycles >= max(cycles for _, cycles in one.port_cycles)
    norm = vector_cost(nest, {"max": 6400}, simd.core, border, Dimensions(passes=2, extent=10**9))
    fits = vector_cost(nest, {"max": 6400}, simd.core, border, Dimensions(passes=2, extent=64))
    assert norm.dram_read_bits == 2 * one.dram_read_bits
    assert fits.dram_read_bits == one.dram_read_bits
    assert sum(a.bits for a in fits.accesses) > sum(a.bits for a in one.accesses)


def group_norm(channels: int, groups: int):  # type: ignore[no-untyped-def]
    builder = GraphBuilder("norm")
    x, weight, bias = builder.input("x", (2, channels, 4, 4)), *(builder.parameter(n, (channels,)) for n in "wb")
    graph = builder.build([builder.emit("group_norm", x, weight, bias, groups=groups, epsilon=1e-5)])
    operator = operator_of(graph, graph.ops[0], 0)
    assert operator is not None
    return operator


@pytest.mark.parametrize("groups", [1, 2, 8], ids=["layer", "group", "instance"])
def test_a_norm_over_groups_passes_twice_over_all_of_its_input(groups: int) -> None:
    """Whatever the grouping, and however the nest spells it: every element for the statistics, and once more."""
    operator, accelerator = group_norm(8, groups), load_hardware("edge-tpu")
    simd = next(one for one in accelerator.cores if one.template == "simd")
    cost = vector_cost(operator.nest, dict(operator.work), simd.core, border_of(accelerator, simd), operator.dimensions)
    read = next(one for one in cost.accesses if one.flow is Flow.FEED)
    assert read.elements == 2 * (2 * 8 * 4 * 4 + 8 + 8)
    assert operator.dimensions.extent == 8 // groups * 4 * 4


def test_statistics_of_an_instance_are_apart_from_those_of_others() -> None:
    """Samples may be cut, and groups of channels; positions never, nor the channels of one group."""
    assert group_norm(8, 1).splittable == {"A0"}
    assert group_norm(8, 2).splittable == group_norm(8, 8).splittable == {"A0", "A1"}


def test_a_core_without_lanes_says_so(step) -> None:  # type: ignore[no-untyped-def]
    accelerator = load_hardware("tpu-like")
    core = accelerator.cores[0]
    from monet.graph.counts import call_of
    from monet.graph.kind import kind_named

    relu = next(op for op in step.ops if op.kind == "relu")
    with pytest.raises(MappingError, match="no vector lanes"):
        vector_cost(kind_named("relu").nest(call_of(step, relu)), {"max": 1}, core.core, border_of(accelerator, core))


def test_parameters_of_a_norm_come_once_though_its_input_comes_twice() -> None:
    builder = GraphBuilder("norm")
    x = builder.input("x", (2, 4, 64, 64), "bf16")
    weight, bias = (builder.parameter(name, (4,), "bf16") for name in ("weight", "bias"))
    mean, variance = (builder.buffer(name, (4,), "fp32") for name in ("running_mean", "running_var"))
    outputs = builder.emit_all("batch_norm", x, weight, bias, mean, variance, epsilon=1e-5, momentum=0.1)
    graph = builder.build([outputs[0]])
    small = replace(load_description("edge-tpu"), "cores.simd.memories.0.size_bytes", 4096)
    costs, unmapped = map_graph(graph, resolve(small))
    assert not unmapped
    (norm,) = [one.cost for one in costs if one.op.kind == "batch_norm"]
    op = graph.ops[0]
    reads = {name: graph.tensors[name].bytes for name in op.inputs}
    moved = dict(zip((*op.inputs, *op.outputs), (one.bytes for one in norm.operands), strict=True))
    assert {name: moved[name] for name in reads} == {**reads, "x": 2 * reads["x"]}
    assert norm.dram_read_bits == 8 * (sum(reads.values()) + reads["x"])
