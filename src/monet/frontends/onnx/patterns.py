"""Recover what the exporter took apart: its own spellings of coarse operators, and nothing looser.

A model that spells a function out by hand (RMSNorm, GELU by powers) runs operator by operator in the framework too and
keeps what those operators keep, so only the exporter's exact spelling is put together again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from monet.graph import Graph, GraphBuilder, Op
from monet.graph.rewrite import prune, replay_op, with_roots
from monet.graph.tensor import Role, view_strides


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a replacement. An input "#n" is the result of the n-th step before it."""

    kind: str
    inputs: tuple[str, ...]
    attrs: dict[str, Any]


Match = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A graph as patterns read it: upwards from an operator to what made its inputs."""

    graph: Graph

    def made(self, name: str, kind: str, read_once: bool = True) -> Op | None:
        """The operator of that kind that made ``name``; ``read_once``: and only one operator reads it."""
        op = self.graph.producer.get(name)
        if op is None or op.kind != kind or op.outputs[0] != name:
            return None
        if read_once and (len(self.graph.consumers[name]) != 1 or name in self.graph.outputs):
            return None
        return op

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor."""
        return self.graph.tensors[name].shape

    def vector(self, name: str, size: int) -> str:
        """The parameter of ``size`` elements that ``name`` is, seen through views; "" if it is not one."""
        tensor = self.graph.tensors[name]
        root = self.graph.tensors[tensor.storage]
        if root.role not in (Role.PARAMETER, Role.CONSTANT) or root.shape != (size,) or tensor.elements != size:
            return ""
        return root.name


def _orders(op: Op) -> Iterator[tuple[str, str]]:
    left, right = op.inputs
    yield left, right
    if left != right:
        yield right, left


# --- linear ----------------------------------------------------------------------------------------------------------


def _linear_bias(view: View, op: Op) -> Match | None:
    """A product with a matrix plus a vector."""
    for x, other in _orders(op):
        shaped = view.made(x, "reshape")
        linear = view.made(shaped.inputs[0] if shaped else x, "linear")
        if linear is None or len(linear.inputs) != 2 or len(view.shape(other)) > 1:
            continue
        bias = view.vector(other, view.shape(x)[-1])
        if bias and bias == other and view.graph.tensors[bias].role is Role.PARAMETER:
            fused = Step("linear", (*linear.inputs, bias), dict(linear.attrs))
            return (fused, Step("reshape", ("#0",), dict(shaped.attrs))) if shaped else (fused,)
    return None


# --- norms -----------------------------------------------------------------------------------------------------------


def _layer_norm(view: View, op: Op) -> Match | None:
    """(x − mean) / sqrt(mean((x − mean)²) + ε), over the last axes."""
    top, bottom = op.inputs
    centred, root = view.made(top, "sub", read_once=False), view.made(bottom, "sqrt")
    shifted = view.made(root.inputs[0], "shift") if root else None
    variance = view.made(shifted.inputs[0], "reduce_mean") if shifted else None
    square = view.made(variance.inputs[0], "pow_scalar") if variance else None
    if centred is None or shifted is None or variance is None or square is None:
        return None
    mean = view.made(centred.inputs[1], "reduce_mean")
    x, rank = centred.inputs[0], len(view.shape(top))
    if mean is None or mean.inputs[0] != x or square.inputs[0] != top or square.attrs["exponent"] != 2:
        return None
    axes = sorted(axis % rank for axis in mean.attrs["axes"])
    if axes != list(range(rank - len(axes), rank)) or axes != sorted(axis % rank for axis in variance.attrs["axes"]):
        return None
    if len(view.graph.consumers[top]) != 2 or not mean.attrs["keepdims"]:
        return None
    epsilon = float(f"{shifted.attrs['offset']:.6g}")
    return (Step("layer_norm", (x,), {"axes": len(axes), "epsilon": epsilon}),)


def _norm_weight(view: View, op: Op) -> Match | None:
    """A norm times its weight."""
    for x, other in _orders(op):
        norm = view.made(x, "layer_norm") or view.made(x, "group_norm")
        if norm is None or len(norm.inputs) != 1:
            continue
        if norm.kind == "group_norm":
            weight = _per_channel(view, other, x)
        else:
            fits = _is_parameter(view, other) and view.shape(other) == view.shape(x)[-norm.attrs["axes"] :]
            weight = other if fits else ""
        if weight:
            return (Step(norm.kind, (*norm.inputs, weight), dict(norm.attrs)),)
    return None


def _norm_bias(view: View, op: Op) -> Match | None:
    """A weighted norm plus its bias."""
    for x, other in _orders(op):
        norm = view.made(x, "layer_norm") or view.made(x, "group_norm")
        if norm is None or len(norm.inputs) != 2:
            continue
        bias = other if norm.kind == "layer_norm" and _is_parameter(view, other) else _per_channel(view, other, x)
        if bias and view.shape(bias) == view.shape(norm.inputs[1]):
            return (Step(norm.kind, (*norm.inputs, bias), dict(norm.attrs)),)
    return None


def _group_norm(view: View, op: Op) -> Match | None:
    """Groups flattened, normalised one by one, and given their shape back; without weights."""
    norm = view.made(op.inputs[0], "group_norm")
    inner = view.made(norm.inputs[0], "reshape") if norm and len(norm.inputs) == 1 else None
    if norm is None or inner is None:
        return None
    shape, flat = view.shape(inner.inputs[0]), view.shape(norm.inputs[0])
    if view.shape(op.outputs[0]) != shape or flat[:2] != (shape[0], norm.attrs["groups"]) or shape[1] % flat[1]:
        return None
    return (Step("group_norm", inner.inputs, dict(norm.attrs)),)


def _per_channel(view: View, name: str, x: str) -> str:
    channels, rank, shape = view.shape(x)[1], len(view.shape(x)), view.shape(name)
    lined_up = (1,) * (rank - len(shape)) + shape
    if len(lined_up) != rank or lined_up[1] != channels or math.prod(lined_up) != channels:
        return ""
    return view.vector(name, channels)


def _is_parameter(view: View, name: str) -> bool:
    return view.graph.tensors[name].role is Role.PARAMETER and name not in view.graph.producer


# --- activations -----------------------------------------------------------------------------------------------------


def _gelu(view: View, op: Op) -> Match | None:
    """½ · (x · (1 + f(x))): the exporter's spelling of both forms, the half applied last."""
    outer = view.made(op.inputs[0], "mul") if math.isclose(op.attrs["factor"], 0.5) else None
    orders = _orders(outer) if outer else ()
    return next((match for x, other in orders if (match := _one_plus(view, other, x))), None)


def _gelu_product(view: View, op: Op) -> Match | None:
    """x · (½ · (1 + f(x))): the dynamo exporter's spelling, below opset 20."""
    for x, other in _orders(op):
        half = view.made(other, "scale")
        if half and math.isclose(half.attrs["factor"], 0.5) and (match := _one_plus(view, half.inputs[0], x)):
            return match
    return None


def _one_plus(view: View, name: str, x: str) -> Match | None:
    """GELU of ``x`` where ``name`` is 1 + f(x), exact or by tanh."""
    shifted = view.made(name, "shift")
    if shifted is None or shifted.attrs["offset"] != 1:
        return None
    if _is_erf(view, shifted.inputs[0], x):
        return (Step("gelu", (x,), {"approximate": False}),)
    return (Step("gelu", (x,), {"approximate": True}),) if _is_tanh(view, shifted.inputs[0], x) else None


def _is_erf(view: View, name: str, x: str) -> bool:
    erf = view.made(name, "erf")
    scale = view.made(erf.inputs[0], "scale") if erf else None
    return (
        scale is not None
        and scale.inputs[0] == x
        and math.isclose(scale.attrs["factor"], 1 / math.sqrt(2), rel_tol=1e-5)
    )


def _is_tanh(view: View, name: str, x: str) -> bool:
    tanh = view.made(name, "tanh")
    scale = view.made(tanh.inputs[0], "scale") if tanh else None
    total = view.made(scale.inputs[0], "add") if scale else None
    if scale is None or total is None or not math.isclose(scale.attrs["factor"], math.sqrt(2 / math.pi), rel_tol=1e-5):
        return False
    for left, right in _orders(total):
        small = view.made(right, "scale")
        if left == x and small is not None and math.isclose(small.attrs["factor"], 0.044715, rel_tol=1e-5):
            power = view.made(small.inputs[0], "pow_scalar")
            if power is not None and power.inputs[0] == x and power.attrs["exponent"] == 3:
                return True
            cube = view.made(small.inputs[0], "mul")
            for first, second in _orders(cube) if cube else ():
                square = view.made(second, "mul")
                if first == x and square is not None and square.inputs == (x, x):
                    return True
    return False


def _gated(view: View, op: Op) -> Match | None:
    """x · f(x): SiLU, Mish, hard swish; and a · sigmoid(b) of two halves of one tensor, the gated linear unit."""
    for x, other in _orders(op):
        sigmoid, tanh, hard = (view.made(other, kind) for kind in ("sigmoid", "tanh", "hard_sigmoid"))
        if sigmoid is not None and sigmoid.inputs[0] == x:
            return (Step("silu", (x,), {}),)
        if sigmoid is not None and (glu := _halves(view, x, sigmoid.inputs[0])) is not None:
            return (glu,)
        softplus = view.made(tanh.inputs[0], "softplus") if tanh else None
        if softplus is not None and softplus.inputs[0] == x:
            return (Step("mish", (x,), {}),)
        if (
            hard is not None
            and hard.inputs[0] == x
            and math.isclose(hard.attrs["alpha"], 1 / 6)
            and hard.attrs["beta"] == 0.5
        ):
            return (Step("hard_swish", (x,), {}),)
    return None


def _halves(view: View, value: str, gate: str) -> Step | None:
    split = view.graph.producer.get(value)
    if split is None or split.kind != "split" or split.outputs != (value, gate):
        return None
    if len(set(split.attrs["sizes"])) != 1 or any(len(view.graph.consumers[name]) != 1 for name in split.outputs):
        return None
    return Step("glu", split.inputs, {"axis": split.attrs["axis"] % len(view.shape(value))})


# --- attention -------------------------------------------------------------------------------------------------------


def _scores(view: View, op: Op) -> Match | None:
    """Query and key each scaled by the root of the scale: the exporter's spelling of scaled dot-product attention."""
    left, right = (view.made(name, "scale") for name in op.inputs)
    if left is None or right is None or op.attrs["transpose_a"] or op.attrs["transpose_b"]:
        return None
    first, second = left.attrs["factor"], right.attrs["factor"]
    if not math.isclose(first, second, rel_tol=1e-6):
        return None
    inputs = (left.inputs[0], right.inputs[0])
    return Step("matmul", inputs, dict(op.attrs)), Step("scale", ("#0",), {"factor": first * second})


def _swapped(view: View, op: Op) -> Match | None:
    """Leading axes merged, the last two swapped, leading axes taken apart again: one transposition."""
    swap = view.made(op.inputs[0], "transpose")
    merge = view.made(swap.inputs[0], "reshape") if swap and swap.attrs["order"] == (0, 2, 1) else None
    if merge is None:
        return None
    *lead, rows, columns = view.shape(merge.inputs[0])
    if view.shape(op.outputs[0]) != (*lead, columns, rows) or view.shape(merge.outputs[0])[1:] != (rows, columns):
        return None
    rank = len(lead) + 2
    return (Step("transpose", merge.inputs, {"order": (*range(rank - 2), rank - 1, rank - 2)}),)


def _copied(view: View, op: Op) -> Match | None:
    """A batched product with part of a tensor whose batch axes cannot be merged: the framework copies that part."""
    steps: list[Step] = []
    inputs = []
    for name in op.inputs:
        tensor = view.graph.tensors[name]
        owner = view.graph.tensors[tensor.storage]
        merged = (math.prod(tensor.shape[:-2]), *tensor.shape[-2:])
        part = owner.role is Role.ACTIVATION and owner.elements > tensor.elements
        if part and view_strides(tensor.shape, tensor.strides, merged) is None:
            steps.append(Step("reshape", (name,), {"shape": merged}))
            steps.append(Step("reshape", (f"#{len(steps) - 1}",), {"shape": tensor.shape}))
            name = f"#{len(steps) - 1}"
        inputs.append(name)
    return (*steps, Step("matmul", tuple(inputs), dict(op.attrs))) if steps else None


PATTERNS: dict[str, tuple[Callable[[View, Op], Match | None], ...]] = {
    "add": (_linear_bias, _norm_bias),
    "mul": (_norm_weight, _gated, _gelu_product),
    "div": (_layer_norm,),
    "scale": (_gelu,),
    "reshape": (_group_norm, _swapped),
    "matmul": (_scores,),
}


COPIES: dict[str, tuple[Callable[[View, Op], Match | None], ...]] = {"matmul": (_copied,)}


def recover(graph: Graph) -> Graph:
    """Apply the patterns until none matches, then say where the framework copies."""
    return _applied(_applied(graph, PATTERNS), COPIES)


def _applied(graph: Graph, patterns: Mapping[str, tuple[Callable[[View, Op], Match | None], ...]]) -> Graph:
    while True:
        view = View(graph)
        found = {}
        for op in graph.ops:
            match = next((m for pattern in patterns.get(op.kind, ()) if (m := pattern(view, op)) is not None), None)
            if match is not None:
                found[op.name] = match
        if not found:
            return prune(graph)
        graph = prune(_replaced(graph, found))


def _replaced(graph: Graph, found: dict[str, Match]) -> Graph:
    builder, renamed = with_roots(graph)
    for op in graph.ops:
        if op.name in found:
            renamed[op.outputs[0]] = _emitted(builder, op, found[op.name], renamed)
        else:
            replay_op(builder, graph, op, renamed)
    return builder.build([renamed[name] for name in graph.outputs])


def _emitted(builder: GraphBuilder, op: Op, match: Match, renamed: dict[str, str]) -> str:
    results: list[str] = []
    for step in match:
        inputs = [results[int(name[1:])] if name.startswith("#") else renamed[name] for name in step.inputs]
        stem = op.layer if op.layer != op.name else op.name.rpartition(".")[0]
        with builder.at(op.phase):
            results.append(
                builder.emit(step.kind, *inputs, name=f"{stem}.{step.kind}" if stem else step.kind, **step.attrs)
            )
        builder.ops[-1] = replace(builder.ops[-1], layer=stem or builder.ops[-1].name)
    return results[-1]
