"""OpKind: everything monet knows about one operator kind, in one entry of one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from monet.errors import MonetError, nearest
from monet.graph.loop_nest import LoopNest
from monet.graph.op import Attributes
from monet.graph.tensor import Role, Tensor

if TYPE_CHECKING:
    from monet.graph.backward import Backward

Array = np.ndarray[Any, Any]


class Family(StrEnum):
    """Coarse classes of operators. FLOPs are counted for the first three only, as other tools do."""

    CONVOLUTION = "convolution"
    MATMUL = "matmul"
    ATTENTION = "attention"
    VECTOR = "vector"  # element-wise, reductions, norms, softmax, losses, optimizer updates
    MOVE = "move"  # copies, gathers, padding: bytes without arithmetic
    VIEW = "view"  # aliases its input; nothing is executed


MAC_FAMILIES = frozenset({Family.CONVOLUTION, Family.MATMUL, Family.ATTENTION})


@dataclass(frozen=True, slots=True)
class Output:
    """What a shape rule says of one output. ``alias`` is the input whose storage it shares, if any."""

    shape: tuple[int, ...]
    dtype: str
    label: str = ""
    alias: int | None = None
    strides: tuple[int, ...] | None = None
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """An operator application with its tensors resolved; what loop-nest and work rules look at."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attrs: Attributes

    @property
    def out(self) -> Tensor:
        """The first output."""
        return self.outputs[0]


ShapeRule = Callable[[tuple[Tensor, ...], Attributes], tuple[Output, ...]]
NestRule = Callable[[Call], LoopNest]
WorkRule = Callable[[Call], Mapping[str, int]]
GradientRule = Callable[["Backward"], tuple[str | None, ...]]


def no_work(_: Call) -> Mapping[str, int]:
    """Views and moves compute nothing."""
    return {}


@dataclass(frozen=True, slots=True)
class OpKind:
    """One entry of the operator table.

    ``infer`` is the shape rule, ``nest`` the loop nest, ``work`` the count of scalar operations by function (``mac``
    is a multiply-accumulate), ``evaluate`` the NumPy meaning, ``gradient`` the differentiation rule (absent: no
    gradient flows), ``onnx`` the standard ONNX operators that map to this kind one to one. ``retained`` lists inputs
    that the framework keeps alive for this operator without reading their elements.
    """

    name: str
    family: Family
    infer: ShapeRule
    evaluate: Callable[..., Array | tuple[Array, ...]]
    nest: NestRule | None = None
    work: WorkRule = no_work
    gradient: GradientRule | None = None
    onnx: tuple[str, ...] = ()
    retained: tuple[int, ...] = ()


KINDS: dict[str, OpKind] = {}


def register(*kinds: OpKind) -> None:
    """Add entries to the operator table."""
    for kind in kinds:
        if kind.name in KINDS:
            raise ValueError(f"operator kind {kind.name!r} is registered twice")
        KINDS[kind.name] = kind


def kind_named(name: str) -> OpKind:
    """The entry called ``name``."""
    try:
        return KINDS[name]
    except KeyError:
        raise MonetError(f"unknown operator kind {name!r}; {nearest(name, KINDS)}") from None
