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
    "network.ring.bandwidth_bits_per_cycle": 8,
    "network.bus.bandwidth_bits_per_cycle": 32,
}


def stream_plan(graph: Graph, fused: bool, split: bool) -> Plan:
    """Stream's schedules of it: two stacks fused row by row (layers 0-10 and 11-21 of its file) or layer by layer;
    convolutions and rectifiers split in K over the four cores, or one core after another; nothing stays on chip
    between stacks. Its 1,118 tiles with one core per layer, and 3,863 split, follow from these stacks alone."""
    names = [op.name for op in graph.ops]
    cores = tuple(f"tensor[{number}]" for number in range(4))
    first, second = names.index("layer1.1.add"), names.index("layer2.1.add")
    groups = (Group(tuple(names[:first]), (("OY", 1),)), Group(tuple(names[first:second]), (("OY", 1),)))
    placements: dict[str, Placement] = {}
    convolutions = 0
    for op in graph.ops:
        if op.kind in ("conv", "linear"):
            whole = Placement((cores[convolutions % 4],))
            convolutions += 1
            placements[op.name] = Placement(cores, "K") if split and op.kind == "conv" else whole
        elif op.kind == "relu":
            maker = placements.get(op.name.removesuffix(".relu"), Placement((cores[convolutions % 4],)))
            placements[op.name] = Placement(cores, "A1") if split else maker
        else:
            placements[op.name] = Placement(("simd" if op.kind == "add" else "pooling",))
    return Plan(groups if fused else (), placements, boundary="dram")


def without_overlap(graph: Graph, plan: Plan) -> Plan:
    """A plan as Stream times layers that are a stack of their own: all operands on the core before it starts, links not
    used meanwhile. Layers on the small cores are streamed as before: they would not fit."""
    inside = {name for one in plan.groups for name in one.operators}
    alone = [op for op in graph.ops if op.name not in inside and op.kind in ("conv", "relu", "linear")]
    whole = tuple(
        Group((op.name,), (("A1" if op.kind == "relu" else "K", graph.tensors[op.outputs[0]].shape[1]),))
        for op in alone
    )
    return replace(plan, groups=(*plan.groups, *whole), prefetch=0)


PUBLISHED = {"resnet18-stream": stream_resnet18}  # networks that commands take by name
