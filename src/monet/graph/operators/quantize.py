"""quantize: values rounded to a format whose elements share a scale. Precision policies put it before products."""

from __future__ import annotations

from monet.block_scaling import quantise
from monet.errors import ModelError
from monet.formats import FORMATS, is_format, unknown_format
from monet.graph.kind import Array, Call, Family, OpKind, Output, pointwise, register
from monet.graph.op import Attributes
from monet.graph.operators.nests import elementwise
from monet.graph.tensor import Role, Tensor


def _infer(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    (x,), name = inputs, attrs["dtype"]
    if not is_format(name):
        raise ModelError(unknown_format(name))
    group = FORMATS[name].group
    if group is None or FORMATS[name].element is None:
        raise ModelError(f"elements of {name} share no scale; cast converts to it")
    if len(group.shape) > len(x.shape):
        raise ModelError(f"groups of {name} need {len(group.shape)} axes, the tensor has {len(x.shape)}")
    kept = Role.GRADIENT if x.role is Role.GRADIENT else Role.ACTIVATION
    return (Output(x.shape, name, role=kept),)


def _evaluate(attrs: Attributes, x: Array) -> Array:
    held = FORMATS[attrs["dtype"]]
    if held.element is None or held.group is None:
        raise ValueError(f"{held} has no groups")
    rules = {name: attrs[name] for name in ("rule", "rounding", "seed") if name in attrs}
    return quantise(x, held.element, held.group, **rules)


def _work(call: Call) -> dict[str, int]:
    """Every element is quantised: its magnitude compared, scaled and rounded, which cores may have a unit for. Elements
    that pad a group to its size are worked on like others; a scale that is no power of two is divided by. A result
    depends on its group (``LoopNest.grain``); a scale of the whole tensor is taken as known beforehand."""
    group = FORMATS[call.out.dtype].group
    padded, count = (group.padded(call.out.shape), group.count(call.out.shape)) if group else (0, 0)
    extra = {"random": padded} if call.attrs.get("rounding") == "stochastic" else {}
    divided = {"div": count} if group and group.scale == "e4m3" else {}
    return {"quantize": padded, **divided, **extra}


register(
    OpKind(
        "quantize", Family.VECTOR, _infer, _evaluate, elementwise, pointwise, _work,
        no_onnx="precision policies put it before products",
    ),
)  # fmt: skip
