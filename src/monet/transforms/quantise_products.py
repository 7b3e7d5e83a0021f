"""Quantised products: a graph whose products read narrow copies of their operands, made by ``quantize`` operators.

How many copies of a value there are follows from who reads it: a copy is made once for every layout and format that
some product asks for. A run of 32 lies along what a product sums over, so a weight that the forward pass sums over its
inputs and the input gradient over its outputs exists twice; of a square both read the same copy.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, NamedTuple

from monet.errors import nearest
from monet.formats import FORMATS
from monet.graph import Attributes, Graph, GraphBuilder, Op, Phase, Role
from monet.graph.counts import call_of
from monet.graph.kind import kind_named
from monet.graph.operators.attention_products import SCORES, Side, products_of
from monet.transforms.operand_layout import Layout, laid_out, layout_of, product_on
from monet.transforms.product_formats import PolicyError, ProductFormats


class Use(NamedTuple):
    """One operand of one product: which tensor, laid out how, in which format; ``role`` is its place in the policy."""

    position: int
    tensor: str
    layout: Layout
    dtype: str
    role: str

    @property
    def copy(self) -> tuple[str, Layout, str]:
        """Equal for uses that one copy serves."""
        return self.tensor, self.layout, self.dtype


def quantise_products(graph: Graph, policy: ProductFormats) -> Graph:
    """``graph`` (a forward pass or a whole training step) with the operands of products as ``policy`` says."""
    exempt = exempted_layers(graph, policy.exempt)
    uses = {
        op.name: found for op in graph.ops if op.layer not in exempt and any(found := tuple(_uses(graph, op, policy)))
    }
    return _Rewrite(graph, policy, uses, exempt).run()


def exempted_layers(graph: Graph, patterns: tuple[str, ...]) -> set[str]:
    """Layers whose products stay wide: ``first``, ``last``, ``embeddings`` (those that multiply by a table that is also
    looked up), or names with wildcards, each of which must choose one. ``norms`` have no products: wide anyway."""
    products = [op for op in graph.ops if op.phase is Phase.FORWARD and _is_product(op)]
    layers = list(dict.fromkeys(op.layer for op in products))
    looked_up = {name for op in graph.ops if kind_named(op.kind).positions for name in op.inputs[:1]}
    tied = [op.layer for op in products if looked_up & {graph.tensors[name].storage for name in op.inputs[:2]}]
    words = {"first": layers[:1], "last": layers[-1:], "embeddings": tied, "norms": []}
    found: set[str] = set()
    for pattern in patterns:
        chosen = words.get(pattern, [layer for layer in layers if fnmatchcase(layer, pattern)])
        if not chosen and pattern not in ("embeddings", "norms"):
            raise PolicyError(f"exempt {pattern!r}: no layer of {graph.name} is called so; {nearest(pattern, layers)}")
        found.update(chosen)
    return found


# --- which operand has which format -----------------------------------------------------------------------------------


def _is_product(op: Op) -> bool:
    return kind_named(op.kind).contraction is not None or bool(products_of(op.kind, op.attrs))


def _uses(graph: Graph, op: Op, policy: ProductFormats) -> Iterator[Use]:
    """What the policy asks for of an operator's operands, nothing where they stay wide."""
    rule = kind_named(op.kind).contraction
    if rule is None or _too_short(graph, op, policy):
        return
    product = _product(graph, op)
    for position, contracted in enumerate(rule(call_of(graph, op))):
        tensor = graph.tensors[op.inputs[position]]
        role = _role(graph, op, position)
        wanted = policy.format_of(product, role)
        held = FORMATS[tensor.dtype]
        if wanted and held.is_float and held.element is None:
            layout = layout_of(graph, op, position, policy)
            rank, axes = layout.placed(len(tensor.shape), contracted)
            yield Use(position, tensor.name, layout, FORMATS[wanted].along(rank, *axes).name, role)


def _too_short(graph: Graph, op: Op, policy: ProductFormats) -> bool:
    """Whether a convolution in groups has channels in each that do not fill groups that share a scale: of a depthwise
    one 31 in 32 would be padding. The same for all three products of a layer."""
    groups = op.attrs.get("groups", 1)
    if groups == 1:
        return False
    outputs, inputs = graph.tensors[op.outputs[0] if "weight_gradient" in op.kind else op.inputs[1]].shape[:2]
    extents = [group.extents for name in policy.narrow if (group := FORMATS[name].group)]
    return any(channels % extent for channels in (outputs // groups, inputs) for extent in chain(*extents))


def _product(graph: Graph, op: Op) -> str:
    if op.phase is not Phase.BACKWARD:
        return "forward"
    if "weight_gradient" in op.kind:
        return "weight_gradient"
    weighted = any(_role(graph, op, position) == "weight" for position in (0, 1))
    return "input_gradient" if weighted else "weight_gradient"


def _role(graph: Graph, op: Op, position: int) -> str:
    """Weights are parameters, gradients come from the backward pass; whatever else is multiplied is an input."""
    name = op.inputs[position]
    if graph.storage_of(name).role is Role.PARAMETER:
        return "weight"
    maker = graph.producer.get(name)
    return "gradient" if op.phase is Phase.BACKWARD and maker and maker.phase is Phase.BACKWARD else "input"


# --- the graph with copies --------------------------------------------------------------------------------------------


@dataclass
class _Rewrite:
    graph: Graph
    policy: ProductFormats
    uses: Mapping[str, tuple[Use, ...]]
    exempt: set[str]
    builder: GraphBuilder = field(init=False)
    copies: dict[tuple[str, Layout, str], str] = field(default_factory=dict)
    layouts: dict[tuple[str, Layout], str] = field(default_factory=dict)
    later: dict[str, list[Use]] = field(default_factory=dict)  # what backward asks for of a value, forward of it

    def __post_init__(self) -> None:
        self.builder = GraphBuilder.resume(self.graph)
        self.builder.ops = []
        for op in self.graph.ops:
            for use in self.uses.get(op.name, ()):
                if op.phase is Phase.BACKWARD and use.role != "gradient":
                    self.later.setdefault(use.tensor, []).append(use)

    def run(self) -> Graph:
        early: dict[str, list[tuple[Op, Use]]] = {}
        if self.policy.place == "producer":
            for op in self.graph.ops:
                for use in self.uses.get(op.name, ()):
                    if op.phase is not Phase.BACKWARD or use.role == "gradient":
                        early.setdefault(use.tensor, []).append((op, use))
        for name in [name for name in early if name not in self.graph.producer]:
            self._early(early[name])
        for op in self.graph.ops:
            self.builder.ops.append(self._product(op) if op.name in self.uses else self._inside(op))
            for name in op.outputs:
                self._early(early.get(name, []))
        graph = self.graph
        return self.builder.build(graph.outputs, graph.loss, graph.gradients)

    def _early(self, uses: list[tuple[Op, Use]]) -> None:
        for op, use in uses:
            self._copy(op, use)

    def _product(self, op: Op) -> Op:
        layouts = [layout_of(self.graph, op, position, self.policy) for position in (0, 1)]
        narrow = {use.position: self._copy(op, use) for use in self.uses[op.name]}
        read = [
            narrow.get(position) or self._laid_out(op, op.inputs[position], layout)
            for position, layout in enumerate(layouts)
        ]
        kind, attrs = product_on(self.graph, op, layouts)
        told = {**attrs, "dtype": self.graph.tensors[op.outputs[0]].dtype}
        if self.policy.accumulator:
            told["accumulator"] = self.policy.accumulator
        return replace(op, kind=kind, inputs=(*read, *op.inputs[2:]), attrs=Attributes(told))

    def _inside(self, op: Op) -> Op:
        """Fused attention rounds what its products read by itself; any other operator as it is."""
        sides = products_of(op.kind, op.attrs)
        if not sides or op.layer in self.exempt:
            return op
        formats: list[tuple[str, str]] = []
        for pair in sides:
            product = "weight_gradient" if op.kind == "attention_gradient" and pair != SCORES else "forward"
            first, second = (self._held(product, side) for side in pair)
            formats.append((first, second))
        if not any(name for pair in formats for name in pair):
            return op
        seeds = tuple(tuple(self._seed(op, side) for side in pair) for pair in sides)
        told = {**op.attrs, "formats": tuple(formats), "seeds": seeds, "rule": self.policy.rule}
        if self.policy.accumulator:
            told["accumulator"] = self.policy.accumulator
        return replace(op, attrs=Attributes(told))

    def _held(self, product: str, side: Side) -> str:
        name = self.policy.format_of(product, side.role)
        return FORMATS[name].along(4, side.summed, side.kept).name if name else ""

    def _seed(self, op: Op, side: Side) -> int | None:
        """Of stochastic rounding: of an operand the same for all products that read it."""
        if side.role not in self.policy.stochastic:
            return None
        return (zlib.crc32(f"{op.layer}.{side.of}".encode()) + self.policy.seed) % 2**32

    def _copy(self, op: Op, use: Use) -> str:
        if use.copy not in self.copies:
            self.copies[use.copy] = self._made(op, use)
            keep = self.policy.keep_weights if use.role == "weight" else self.policy.keep_inputs
            if op.phase is not Phase.BACKWARD and keep == "both":
                for further in self.later.get(use.tensor, ()):
                    self._copy(op, further)
        return self.copies[use.copy]

    def _made(self, op: Op, use: Use) -> str:
        source = self._narrow_source(op, use) or self._laid_out(op, use.tensor, use.layout)
        tensor, entry = self.builder.tensors[source], FORMATS[use.dtype]
        assert entry.group is not None  # of an operand's format
        if not self.policy.padding and entry.group.padded(tensor.shape) != tensor.elements:
            raise PolicyError(
                f"padding: {op.layer}: {use.tensor} of {list(tensor.shape)} does not divide into groups of "
                f"{use.dtype}; allow padding, or exempt the layer"
            )
        attrs: dict[str, Any] = {"dtype": use.dtype, "rule": self.policy.rule}
        if use.role in self.policy.stochastic:
            attrs |= {"rounding": "stochastic", "seed": (zlib.crc32(use.tensor.encode()) + self.policy.seed) % 2**32}
        with self.builder.at(op.phase, op.layer, use.tensor, op.micro_batch):
            return self.builder.emit("quantize", source, **attrs)

    def _narrow_source(self, op: Op, use: Use) -> str:
        """The forward pass's copy, where the policy makes backward's of it."""
        keep = self.policy.keep_weights if use.role == "weight" else self.policy.keep_inputs
        if op.phase is not Phase.BACKWARD or use.role == "gradient" or keep != "narrow":
            return ""
        made = {layout: name for (tensor, layout, _), name in self.copies.items() if tensor == use.tensor}
        if made and use.layout not in made:
            raise PolicyError(
                f"keep: {op.layer}: backward reads {use.tensor} laid out otherwise than the forward pass, so no narrow "
                "copy serves both; keep both or wide"
            )
        return made.get(use.layout, "")

    def _laid_out(self, op: Op, tensor: str, layout: Layout) -> str:
        key = tensor, layout
        if key not in self.layouts:
            with self.builder.at(op.phase, op.layer, tensor, op.micro_batch):
                self.layouts[key] = laid_out(self.builder, tensor, layout)
        return self.layouts[key]
