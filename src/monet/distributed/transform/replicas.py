"""Data parallelism inside the forward graph: batch norm with statistics over all replicas, masks of dropout that are
parts of one, and parameters of which every replica has a part and gathers the rest where it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from monet.distributed.plan import ParallelPlan
from monet.errors import OptionError
from monet.graph import Graph, GraphBuilder, Op
from monet.graph.parts import Part
from monet.graph.rewrite import replay_op, with_roots
from monet.graph.tensor import Tensor, contiguous

RANDOM = frozenset({"dropout", "random"})
MASK = "bool"  # fused kernels keep a byte per element of a dropout mask (torch.ops.aten.native_dropout)


def over_replicas(graph: Graph, plan: ParallelPlan, byte_masks: bool) -> Graph:
    """``graph`` as each replica has it. Batch norm is written as sums and what is made of them if either are shared."""
    replicas = plan.data
    groups = {"data": replicas} if plan.batch_norm == "sync" and replicas > 1 else {}
    sums = bool(groups) or (plan.tensor > 1 and plan.tensor_split == "rows")
    if not any(op.kind in RANDOM or (op.kind == "batch_norm" and sums) for op in graph.ops):
        return graph
    builder, renamed = with_roots(graph)
    for op in graph.ops:
        if op.kind == "batch_norm" and sums:
            _synchronised(builder, op, renamed, groups)
        elif op.kind in RANDOM:
            attrs = dict(op.attrs)
            if op.kind == "dropout" and byte_masks:
                attrs.setdefault("mask_dtype", MASK)
            if replicas > 1:
                batch = graph.tensors[op.outputs[0]].shape[0]
                attrs["parts"] = (*attrs.get("parts", ()), tuple(Part.plain("data", replicas, 0, batch * replicas)))
            replay_op(builder, graph, op, renamed, attrs)
        else:
            replay_op(builder, graph, op, renamed)
    return builder.build([renamed[name] for name in graph.outputs], renamed[graph.loss] if graph.loss else "")


def _synchronised(builder: GraphBuilder, op: Op, renamed: dict[str, str], groups: Mapping[str, int]) -> None:
    """Sums of channels are added up over ranks, and everyone normalises by them."""
    if len(op.inputs) != 5:
        reason = f"{op.name!r} keeps no running statistics, which is how a step takes those of all ranks; use local"
        raise OptionError("batch_norm", "sync", reason)
    x, *others = (renamed[name] for name in op.inputs)
    tensor = builder.tensors[x]
    count, start = tensor.elements // tensor.shape[1], len(builder.ops)
    with builder.at(op.phase):
        sums = builder.emit("channel_sums", x, name=f"{op.name}/sums")
        for group, size in groups.items():
            sums = builder.emit("all_reduce", sums, name=f"{op.name}/all_reduce", group=group, size=size)
            count *= size
        for group, size in groups.items():
            sums = builder.emit("replicate", sums, name=f"{op.name}/replicate", group=group, size=size)
        attrs = {"count": count, "epsilon": op.attrs["epsilon"], "momentum": op.attrs["momentum"]}
        made = builder.emit_all("batch_norm_of_sums", x, *others, sums, name=op.name, **attrs)
    for position in range(start, len(builder.ops)):
        builder.ops[position] = replace(builder.ops[position], layer=op.layer)
    renamed.update(zip(op.outputs, made, strict=True))


# --- parameters in parts --------------------------------------------------------------------------------------------


def flat_length(elements: int, replicas: int) -> int:
    """Elements of a flattened tensor's part, the last part filled up."""
    return -(-elements // replicas)


def gather_parameters(graph: Graph, replicas: int) -> Graph:
    """Parameters become a flat part each, frozen ones too; what reads one gathers it first, once. The gradient of
    gathering is a scattered sum, so differentiation adds up gradients over replicas as well."""
    names = {tensor.name for tensor in graph.parameters}

    def cut(tensor: Tensor) -> Tensor:
        shape = (flat_length(tensor.elements, replicas),)
        return replace(tensor, shape=shape, strides=contiguous(shape)) if tensor.name in names else tensor

    builder, renamed = with_roots(graph, cut)
    waiting = set(names)
    for op in graph.ops:
        for name in dict.fromkeys(op.inputs):
            if name in waiting:
                waiting.remove(name)
                renamed[name] = _gathered(builder, op, graph.tensors[name], replicas)
        replay_op(builder, graph, op, renamed)
    return builder.build([renamed[name] for name in graph.outputs], renamed[graph.loss] if graph.loss else "")


def _gathered(builder: GraphBuilder, op: Op, whole: Tensor, replicas: int) -> str:
    start, name = len(builder.ops), f"{whole.name}/gathered"
    with builder.at(op.phase):
        made = builder.emit("all_gather", whole.name, name=name, axis=0, group="data", size=replicas, summed=True)
        made = unflattened(builder, made, whole.shape, f"{whole.name}/whole")
    for position in range(start, len(builder.ops)):
        builder.ops[position] = replace(builder.ops[position], layer=op.layer)
    return made


def unflattened(builder: GraphBuilder, flat: str, shape: tuple[int, ...], name: str) -> str:
    """A flattened tensor in its shape, without what it was filled up with."""
    elements = 1
    for size in shape:
        elements *= size
    if builder.tensors[flat].elements != elements:
        flat = builder.emit("slice", flat, name=f"{name}/cut", axes=(0,), starts=(0,), stops=(elements,), steps=(1,))
    return flat if shape == (elements,) else builder.emit("reshape", flat, name=name, shape=shape)


def flattened(builder: GraphBuilder, tensor: str, replicas: int, name: str) -> str:
    """A tensor in one axis, filled up with zeros so that replicas have equal parts."""
    elements = builder.tensors[tensor].elements
    flat = tensor
    if builder.tensors[tensor].shape != (elements,):
        flat = builder.emit("reshape", tensor, name=f"{name}/flat", shape=(elements,))
    missing = flat_length(elements, replicas) * replicas - elements
    if missing:
        flat = builder.emit("pad", flat, name=f"{name}/filled", padding=((0, missing),), mode="constant", value=0.0)
    return flat
