"""Networks and plans that others have published figures for: two measured chips of Stream's validation
(KULeuven-MICAS/stream, branch validation, commit 34853444), and Stream's own ResNet-18 on its quad-core accelerator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
from monet.graph.tensor import Role
from monet.schedule.plan import Group, Placement, Plan


def convolution_chain(name: str, channels: int, height: int, width: int, layers: list[tuple[int, int]]) -> Graph:
    """int8 convolutions one after another, each (output channels, window), stride one, padded to keep the size."""
    builder = GraphBuilder(name)
    x = builder.input("image", (1, channels, height, width), "int8")
    for number, (out, window) in enumerate(layers):
        with builder.scope(f"conv{number}"):
            weight = builder.parameter("weight", (out, channels, window, window), "int8")
        pad = (window // 2, window // 2)
        x = builder.emit(
            "conv", x, weight, name=f"conv{number}", stride=(1, 1), padding=(pad, pad), dilation=(1, 1), groups=1
        )
        channels = out
    return builder.build([x])


def depfin_fsrcnn() -> tuple[Graph, Plan]:
    """FSRCNN at 540×960 on ``depfin``: all eight layers fused, one output row at a time; its link serves reads and
    writes strictly in order (an output row is queued before the next input row)."""
    layers = [(56, 5), (12, 1), (12, 3), (12, 3), (12, 3), (12, 3), (56, 1), (16, 3)]
    graph = convolution_chain("fsrcnn", 1, 540, 960, layers)
    group = Group(tuple(op.name for op in graph.ops), (("OY", 1),))
    return graph, Plan((group,), {}, boundary="keep", prefetch=0)


def aimc_segment() -> tuple[Graph, Plan]:
    """Five layers of ResNet-50 at 56×56 on ``aimc-4x4``: one layer per core, tiles of two pixels of a row."""
    graph = convolution_chain("resnet50-segment", 256, 56, 56, [(64, 1), (64, 3), (256, 1), (64, 1), (64, 3)])
    group = Group(tuple(op.name for op in graph.ops), (("OY", 1), ("OX", 2)))
    cores = {op.name: Placement((f"cimu_{number}",)) for number, op in enumerate(graph.ops)}
    return graph, Plan((group,), cores, boundary="keep", prefetch=1)


def stream_resnet18(activations: bool = False) -> Graph:
    """ResNet-18 as Stream schedules it: int8, batch one, norms folded into the convolutions. With ``activations`` all
    layers of its file: rectifiers on their own and the classifier (49 nodes there, one of them a view)."""
    builder = GraphBuilder("resnet18-stream")

    def conv(name: str, x: str, out: int, window: int, stride: int) -> str:
        shape = (out, builder.tensors[x].shape[1], window, window)
        weight = builder.root(f"{name}.weight", shape, "int8", Role.PARAMETER)
        pad = (window // 2, window // 2)
        return builder.emit(
            "conv", x, weight, name=name, stride=(stride, stride), padding=(pad, pad), dilation=(1, 1), groups=1
        )

    def rectified(x: str, name: str) -> str:
        return builder.emit("relu", x, name=f"{name}.relu") if activations else x

    x = rectified(conv("conv1", builder.input("image", (1, 3, 224, 224), "int8"), 64, 7, 2), "conv1")
    x = builder.emit(
        "max_pool", x, name="maxpool", kernel=(3, 3), stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1),
        ceil=False, index_dtype="int8",
    )  # fmt: skip
    for stage, (channels, stride) in enumerate(((64, 1), (128, 2), (256, 2), (512, 2)), 1):
        for block in range(2):
            name, step = f"layer{stage}.{block}", stride if block == 0 else 1
            y = rectified(conv(f"{name}.conv1", x, channels, 3, step), f"{name}.conv1")
            y = conv(f"{name}.conv2", y, channels, 3, 1)
            if step == 2:
                x = conv(f"{name}.downsample", x, channels, 1, 2)
            x = rectified(builder.emit("add", y, x, name=f"{name}.add"), f"{name}.add")
    x = builder.emit("reduce_mean", x, name="avgpool", axes=(2, 3), keepdims=False)
    if activations:
        weight = builder.root("fc.weight", (512, 1000), "int8", Role.PARAMETER)
        x = builder.emit("linear", x, weight, name="fc", transpose=True)
    return builder.build([x])


# Stream costs a rectifier on the array of the core that made its input: a channel a column, one of 32 rows in use.
STREAM_LANES: dict[str, Any] = {
    "cores.tensor.vector": {
        "lanes": 32,
        "only": ["max", "compare", "select", "copy"],
        "dtypes": {"int8": {"energy_j": 0.04e-12}},
    }
}
# Stream gives every transfer of a split layer a fixed share of a link, one over the cores it is split over.
STREAM_LINKS: dict[str, Any] = {
    f"network.{name}.bandwidth_bits_per_cycle": 8 for name in ("ring", "to_pooling", "to_simd")
}


def stream_plan(graph: Graph, fused: bool, split: bool) -> Plan:
    """Stream's schedules of it: two stacks fused row by row (layers 0-10 and 11-21 of its file) or layer by layer;
    convolutions and rectifiers split in K over the four cores, or each whole on the first of them, which is what Stream
    gives a layer that is not split; nothing stays on chip between stacks. Its 1,118 tiles with one core per layer, and
    3,863 split, follow from these stacks alone."""
    names = [op.name for op in graph.ops]
    cores = tuple(f"tensor[{number}]" for number in range(4))
    first, second = names.index("layer1.1.add"), names.index("layer2.1.add")
    groups = (Group(tuple(names[:first]), (("OY", 1),)), Group(tuple(names[first:second]), (("OY", 1),)))
    axes = {"conv": "K", "relu": "A1"} if split else {}
    others = {"add": "simd", "max_pool": "pooling", "reduce_mean": "pooling"}
    placements = {
        op.name: Placement(cores, axes[op.kind]) if op.kind in axes else Placement((others.get(op.kind, cores[0]),))
        for op in graph.ops
    }
    return Plan(groups if fused else (), placements, boundary="dram")


def parts_in_turn(graph: Graph, plan: Plan) -> Plan:
    """A plan as Stream runs layers that are a stack of their own: a part holds the way to DRAM while it runs, so the
    parts of a split convolution come one after another, as they do on one core."""
    inside = {name for one in plan.groups for name in one.operators}
    alone = [op for op in graph.ops if op.name not in inside and len(plan.placements[op.name].cores) > 1]
    parts = tuple(
        Group((op.name,), (("K", graph.tensors[op.outputs[0]].shape[1] // 4),)) for op in alone if op.kind == "conv"
    )
    first = {op.name: Placement(plan.placements[op.name].cores[:1]) for op in alone}
    return replace(plan, groups=(*plan.groups, *parts), placements={**plan.placements, **first})


def stream_rules(graph: Graph, plan: Plan) -> tuple[Plan, dict[str, Any]]:
    """A plan of Stream, and changes of the hardware, by the rules of its scheduler."""
    ruled = parts_in_turn(graph, plan)
    if not plan.groups:
        return ruled, {}  # every layer is a stack of its own: nothing goes from core to core
    return replace(ruled, prefetch=0), STREAM_LINKS


PUBLISHED = {"resnet18-stream": stream_resnet18}  # networks that commands take by name
