"""OpKind: everything monet knows about one operator kind, in one entry of one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

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
    TRANSFER = "transfer"  # to and from the memory of a host
    VIEW = "view"  # aliases its input; nothing is executed
    COLLECTIVE = "collective"  # bytes between devices: the network's work, not a core's


MAC_FAMILIES = frozenset({Family.CONVOLUTION, Family.MATMUL, Family.ATTENTION})
PORT_FAMILIES = frozenset({Family.TRANSFER, Family.COLLECTIVE})  # run on a port to what is outside of the chip


@dataclass(frozen=True, slots=True)
class Output:
    """What a shape rule says of one output. ``alias`` is the input whose storage it shares, if any; its first element
    lies ``offset`` elements behind that input's."""

    shape: tuple[int, ...]
    dtype: str
    label: str = ""
    alias: int | None = None
    strides: tuple[int, ...] | None = None
    role: Role | None = None
    offset: int = 0


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


@dataclass(frozen=True, slots=True)
class Dimensions:
    """What the dimensions of an operator's nest mean to whoever cuts the operator, or passes over what it reads.

    ``taps`` are positions of a filter or window, never cut. ``whole`` must be seen in full before the first result, so
    they are never cut either; an operator that takes more than one of the ``passes`` over its inputs keeps ``extent``
    elements from one to the next. ``combine`` is the function that merges the results of parts of a dimension that a
    result is summed over, which every such cut owes; without it such a dimension cannot be cut, and a further result
    that a cut dimension does not index comes out the same in every part.
    """

    taps: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    passes: int = 1
    extent: int = 0
    combine: str = ""


class Narrow(NamedTuple):
    """An output that compact saving may hold in a narrower type; ``attribute`` tells operators that make or read it."""

    output: int
    dtype: str
    attribute: str


class MaskForm(NamedTuple):
    """How compact saving replaces an output of which ``gradient`` reads but one bit an element: ``kind`` also writes
    these bits, and ``reader`` (with its attributes) takes the place of the gradient."""

    kind: str
    gradient: str
    reader: str
    attrs: Mapping[str, Any]


class Contracted(NamedTuple):
    """Axes of an operand of a product: the one that is summed over (taps and positions besides), and the one across
    it, which the result keeps."""

    summed: int
    kept: int


class Factor(NamedTuple):
    """One of the two layers of a low-rank path: the shape of its weight, its attributes."""

    shape: tuple[int, ...]
    attrs: Mapping[str, Any]


ShapeRule = Callable[[tuple[Tensor, ...], Attributes], tuple[Output, ...]]
NestRule = Callable[[Call], LoopNest]
DimensionRule = Callable[[Call, LoopNest], Dimensions]
WorkRule = Callable[[Call], Mapping[str, int]]
GradientRule = Callable[["Backward"], tuple[str | None, ...]]
NarrowRule = Callable[[Attributes], Narrow | None]
LowRankRule = Callable[[Call, int], tuple[Factor, Factor]]
ContractionRule = Callable[[Call], tuple["Contracted", "Contracted"]]
Exchanged = tuple[Array, ...]  # what one rank brings to a collective, or takes from it
ExchangeRule = Callable[[Attributes, Sequence[Exchanged]], list[Exchanged]]


def no_work(_: Call) -> Mapping[str, int]:
    """Views, moves and transfers compute nothing."""
    return {}


# --- shapes that many entries infer --------------------------------------------------------------------------------


def like_first(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    """One output like the first input."""
    return (Output(inputs[0].shape, inputs[0].dtype),)


def like_second(inputs: tuple[Tensor, ...], _: Attributes) -> tuple[Output, ...]:
    """One output like the second input."""
    return (Output(inputs[1].shape, inputs[1].dtype),)


def of_given_shape(inputs: tuple[Tensor, ...], attrs: Attributes) -> tuple[Output, ...]:
    """One output of the shape that an attribute gives, and of the first input's type."""
    return (Output(tuple(attrs["shape"]), inputs[0].dtype),)


# --- what most entries say of their dimensions ------------------------------------------------------------------------

TAPS = frozenset({"FX", "FY", "FZ"})  # what nests call the positions of a filter
PLAIN = Dimensions()


def pointwise(_: Call, __: LoopNest) -> Dimensions:
    """Every result depends on its own point: whatever indexes the results may be cut."""
    return PLAIN


def displaced(_: Call, __: LoopNest) -> Dimensions:
    """As many elements as the nest says, but others: flipped, resampled, looked up. Parts are costed as if in place."""
    return PLAIN


def reduces(_: Call, __: LoopNest) -> Dimensions:
    """What is reduced over stays whole; the other dimensions may be cut."""
    return PLAIN


def sums(_: Call, __: LoopNest) -> Dimensions:
    """Dimensions that are summed over may be cut too: the parts' sums are added."""
    return Dimensions(combine="add")


def windows(_: Call, __: LoopNest) -> Dimensions:
    """A window slides over the input."""
    return Dimensions(taps=TAPS)


def convolves(_: Call, __: LoopNest) -> Dimensions:
    """A filter slides over the input; what is summed over may be cut."""
    return Dimensions(taps=TAPS, combine="add")


def along(whole: Callable[[Call], Iterable[str]], passes: int = 1, combine: str = "") -> DimensionRule:
    """Results need all of the dimensions that ``whole`` names. In two passes: statistics first, then apply.
    ``combine``: merges what parts of other dimensions make of the same result (gradients of parameters)."""

    def rule(call: Call, nest: LoopNest) -> Dimensions:
        names = frozenset(whole(call))
        extent = math.prod(nest.sizes[name] for name in names) if passes > 1 else 0
        return Dimensions(whole=names, passes=passes, extent=extent, combine=combine)

    return rule


# --- why no operator of an ONNX file becomes a kind -------------------------------------------------------------------

BACKWARD = "differentiation makes it; files hold forward graphs"
UPDATE = "the optimizer makes it; files hold forward graphs"


@dataclass(frozen=True, slots=True)
class OpKind:
    """One entry of the operator table: whatever other stages ask of a kind, they ask here.

    ``infer`` is the shape rule, ``evaluate`` the NumPy meaning, ``nest`` the loop nest, ``dimensions`` what may be cut
    of it and how often it passes over its inputs, ``work`` the count of scalar operations by function (``mac`` is a
    multiply-accumulate), ``gradient`` the differentiation rule (absent: no gradient flows).

    ``onnx`` names the standard ONNX operators that become this kind on import, ``no_onnx`` says why there are none.
    ``retained`` lists inputs that the framework keeps alive for this operator without reading their elements, ``once``
    running values (an input, and at the same place its next value) that a recomputation leaves alone. ``in_place``:
    may overwrite its first input, of which its gradient reads nothing. ``is_update``: an optimizer's, of (weight,
    gradient, *state). ``narrow`` and ``mask`` are what compact saving may do to its outputs, ``low_rank`` the two
    layers of its adapter (absent: cannot be adapted), ``positions`` how many values its integer operand may take.
    ``contraction``: of a product, the axes of its first two operands.

    Of operators between ranks, ``exchange`` is the NumPy meaning over all ranks of the group and ``sent_bytes`` what
    each of them sends. ``ranked``: an operator of one rank of several, which no graph of one device has.

    ``endpoint`` is the kind of endpoint (``host``, ``network``) whose port a transfer occupies; its attribute
    ``endpoint`` may name one of several. It occupies the port for its attribute ``seconds``, of which ``energy_j`` are
    spent there; without them, for the port's latency and its bytes at the port's bandwidth and price. Meanwhile DRAM is
    read and written once for every operand of its nest; results that ``stays_outside`` lists stay behind the port. It
    does not begin before its ``awaited`` inputs are there, of which it reads nothing.
    """

    name: str
    family: Family
    infer: ShapeRule
    evaluate: Callable[..., Array | tuple[Array, ...]]
    nest: NestRule | None = None
    dimensions: DimensionRule | None = None
    work: WorkRule = no_work
    gradient: GradientRule | None = None
    onnx: tuple[str, ...] = ()
    no_onnx: str = ""
    retained: tuple[int, ...] = ()
    once: tuple[int, ...] = ()
    in_place: bool = False
    is_update: bool = False
    narrow: NarrowRule | None = None
    mask: MaskForm | None = None
    low_rank: LowRankRule | None = None
    positions: Callable[[Call], int] | None = None
    contraction: ContractionRule | None = None
    exchange: ExchangeRule | None = None
    sent_bytes: Callable[[Call], float] | None = None
    ranked: bool = False
    endpoint: str = ""
    awaited: tuple[int, ...] = ()
    stays_outside: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """An entry says all that other stages will ask; nothing is assumed of a kind that does not."""
        executed = self.family is not Family.VIEW
        computes = executed and self.family not in (Family.MOVE, *PORT_FAMILIES)
        missing = [
            what
            for what, lacks in (
                ("a loop nest", executed and self.nest is None),
                ("a rule of its dimensions", executed and self.dimensions is None),
                ("a work rule", computes and self.work is no_work),
                ("its ONNX operators, or why there are none", bool(self.onnx) == bool(self.no_onnx)),
                ("an endpoint", (self.family in PORT_FAMILIES) != bool(self.endpoint)),
            )
            if lacks
        ]
        if missing:
            raise ValueError(f"operator kind {self.name!r} needs {', '.join(missing)}")

    @property
    def of_one_device(self) -> bool:
        """Whether graphs of one device may have it; the others need ranks beside theirs."""
        return not self.ranked and self.family is not Family.COLLECTIVE

    def dimensions_of(self, call: Call, nest: LoopNest) -> Dimensions:
        """What may be cut of an application's nest; a view that has to copy does so element by element."""
        return self.dimensions(call, nest) if self.dimensions else PLAIN


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
