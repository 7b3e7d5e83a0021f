"""Networks and plans of two measured chips, as published with Stream's validation (KULeuven-MICAS/stream, branch
validation, commit 34853444). Each is a chain of convolutions, fused, with the tiles and cores of the chip."""

from __future__ import annotations

from monet.graph.builder import GraphBuilder
from monet.graph.graph import Graph
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
