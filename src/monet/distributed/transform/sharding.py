"""Tensor and sequence parallelism: the forward graph (with its loss) as one tensor rank has it.

Operators of the chosen axis sets are cut; what they owe is added up right behind them, and what they read whole is
marked so that its gradient is added up (``replicate``). With sequence parallelism the sums are scattered along tokens
instead, everything up to the next cut operator works on its own tokens, and there they are gathered. Differentiation of
the result makes the collectives of the backward pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from monet.distributed.plan import check_divides
from monet.distributed.transform.choice import shared_axes
from monet.distributed.transform.cuts import Cut, Cuttable, OpCut
from monet.distributed.transform.rows import ROWS, halo
from monet.distributed.transform.vocabulary import filled_up
from monet.errors import ModelError, OptionError
from monet.graph import Graph, GraphBuilder, Op, Role
from monet.graph.counts import call_of
from monet.graph.kind import kind_named
from monet.graph.parts import Part
from monet.graph.rewrite import is_inplace
from monet.graph.tensor import Tensor
from monet.training.differentiate import requires_gradient

MEANS = frozenset({"reduce_mean", "nll_loss", "mse_loss"})  # a whole is the mean of its equal parts, not their sum
RANDOM = frozenset({"dropout", "random"})


@dataclass(frozen=True)
class Sharded:
    """The program of a tensor rank: its graph, how roots were cut, and parameters of whose gradients every rank has
    but its share (they are added up once per step)."""

    graph: Graph
    parts: Mapping[str, tuple[Part, ...]]
    partial: frozenset[str] = frozenset()


def shard(graph: Graph, ranks: int, sequence: bool = False, rows: bool = False) -> Sharded:
    """``graph``, a forward pass with its loss, over so many tensor ranks: features, or ``rows`` of images."""
    if ranks == 1:
        return Sharded(graph, {})
    cuts, roots = dict[str, OpCut](), dict[str, Cut]()
    if rows:
        roots = _images(graph, ranks)
    else:
        graph, found = filled_up(graph, ranks)
        cuts = {name: cut for axes in shared_axes(graph, ranks, found) for name, cut in axes.ops.items()}
    writer = Writer(graph, ranks, sequence, cuts, roots)
    sharded = writer.write()
    while writer.mixed != writer.summed & writer.alike:
        writer = Writer(graph, ranks, sequence, cuts, roots, mixed=writer.summed & writer.alike)
        sharded = writer.write()
    return sharded


def _images(graph: Graph, ranks: int) -> dict[str, Cut]:
    """Inputs with rows, each rank its own."""
    tensors = [graph.tensors[name] for name in graph.inputs if graph.tensors[name].role is Role.INPUT]
    images = [tensor for tensor in tensors if len(tensor.shape) == ROWS + 2]
    if not images:
        raise OptionError("tensor_split", "rows", f"{graph.name} has no input with rows (N, C, H, W); use features")
    for tensor in images:
        check_divides("tensor", ranks, tensor.shape[ROWS], f"rows of input {tensor.name!r}")
    return {tensor.name: Cut(ROWS, (tensor.shape[ROWS],)) for tensor in images}


@dataclass
class Writer:
    """Writes the program of a rank operator by operator. ``layout`` says how a tensor of the original graph is cut.

    ``summed`` and ``alike`` collect parameters by how ranks read them: each for its own share of the work, or all for
    the same; ``mixed`` are those known to be read both ways.
    """

    graph: Graph
    ranks: int
    sequence: bool
    cuts: Mapping[str, OpCut]
    roots: Mapping[str, Cut]
    mixed: frozenset[str] = frozenset()
    summed: frozenset[str] = frozenset()
    alike: frozenset[str] = frozenset()
    group: str = "tensor"
    layout: dict[str, Cut | None] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    parts: dict[str, tuple[Part, ...]] = field(default_factory=dict)
    fetched: dict[object, str] = field(default_factory=dict)
    owed: dict[str, Op] = field(default_factory=dict)  # results still to be added up, and of which operator
    gathered: set[str] = field(default_factory=set)  # whole tensors whose gradients are scattered sums already
    cuttable: Cuttable = field(default_factory=Cuttable)

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.graph.name)
        self.builder.usual_loss = self.graph.usual_loss
        targets = [tensor.name for tensor in self.graph.parameters if tensor.trainable]
        self.trained = requires_gradient(GraphBuilder.resume(self.graph), self.graph.ops, targets)

    def write(self) -> Sharded:
        """The whole program."""
        graph = self.graph
        roots = {
            name: place
            for op in graph.ops
            if op.name in self.cuts
            for slot, place in self.cuts[op.name].places.items()
            if (name := (*op.inputs, *op.outputs)[slot]) not in graph.producer
        } | dict(self.roots)
        for name, tensor in graph.tensors.items():
            if name not in graph.producer:
                self._root(tensor, roots.get(name))
        for op in graph.ops:
            self._operator(op)
        outputs = [self.named[name] for name in graph.outputs if name in self.named]
        made = self.builder.build(outputs, self.named[graph.loss] if graph.loss else "")
        return Sharded(made, self.parts, self.summed - self.mixed)

    def _root(self, tensor: Tensor, cut: Cut | None) -> None:
        shape = tensor.shape
        if cut is not None:
            part = self._part(cut)
            self.parts[tensor.name] = (part,)
            shape = part.shape(shape)
        self.builder.root(tensor.name, shape, tensor.dtype, tensor.role, tensor.trainable)
        if tensor.role in (Role.INPUT, Role.LABEL):
            self.builder.inputs.append(tensor.name)
        if tensor.name in self.graph.values and cut is None:
            self.builder.values[tensor.name] = self.graph.values[tensor.name]
        self.named[tensor.name], self.layout[tensor.name] = tensor.name, cut

    def _part(self, cut: Cut) -> Part:
        return Part(self.group, self.ranks, cut.axis, cut.segments)

    # --- reading: a tensor in the layout that its reader needs -------------------------------------------------------

    def read(self, op: Op, name: str, want: Cut | None, cut_reader: bool) -> str:
        """What ``name`` is called in the layout ``want``; collectives are written on the way, once for all readers."""
        have = self.layout[name]
        if want == have:
            return self._replicated(op, name) if have is None and cut_reader else self.named[name]
        key = name, want, cut_reader
        if key not in self.fetched:
            source = self.named[name]
            if have is not None:
                source = self._gathered(op, name, have, summed=cut_reader and want is None)
            if want is not None:
                source = self.emit(op, "shard", source, suffix="shard", parts=(tuple(self._part(want)),))
                self._note(name, True)
            self.fetched[key] = source
        return self.fetched[key]

    def _gathered(self, op: Op, name: str, have: Cut, summed: bool) -> str:
        key = name, "gathered", summed
        if key not in self.fetched:
            if len(have.segments) > 1:
                raise ModelError(f"{name!r} is cut segment by segment, and {op.name!r} needs all of it")
            attrs = {"axis": have.axis, "group": self.group, "size": self.ranks, "summed": summed}
            self.fetched[key] = self.emit(op, "all_gather", self.named[name], suffix="all_gather", **attrs)
        return self.fetched[key]

    def _replicated(self, op: Op, name: str) -> str:
        """A whole tensor that ranks read for work of their own: what each finds of its gradient is but a share.
        Of parameters these are added up once per step, unless others read them for work that all do alike."""
        self._note(name, False)
        if name in self.gathered or name not in self.trained or (name not in self.mixed and name in self._parameters):
            return self.named[name]
        key = name, "replicated"
        if key not in self.fetched:
            attrs = {"group": self.group, "size": self.ranks}
            self.fetched[key] = self.emit(op, "replicate", self.named[name], suffix="replicate", **attrs)
        return self.fetched[key]

    @cached_property
    def _parameters(self) -> set[str]:
        return {name for name in self.trained if name not in self.graph.producer}

    def _note(self, name: str, alike: bool) -> None:
        if name in self.trained and name not in self.graph.producer:
            if alike:
                self.alike |= {name}
            else:
                self.summed |= {name}

    # --- writing -----------------------------------------------------------------------------------------------------

    def emit(self, op: Op, kind: str, *inputs: str, suffix: str, **attrs: Any) -> str:
        """An operator on behalf of ``op``."""
        return self.emit_all(op, kind, *inputs, name=f"{op.name}/{suffix}", **attrs)[0]

    def emit_all(
        self, op: Op, kind: str, *inputs: str, name: str, inplace: bool = False, **attrs: Any
    ) -> tuple[str, ...]:
        """The same with all its outputs."""
        with self.builder.at(op.phase):
            names = self.builder.emit_all(kind, *inputs, name=name, inplace=inplace, **attrs)
        self.builder.ops[-1] = replace(self.builder.ops[-1], layer=op.layer)
        return names

    def _operator(self, op: Op) -> None:
        cut = self.cuts.get(op.name) or self._by_tokens(op)
        if cut is None and (self._with_halo(op) or self._merges_rows(op)):
            return
        if cut is None:
            inputs = [self.read(op, name, None, False) for name in op.inputs]
            for name in op.inputs:
                self._note(name, True)
            self._take(op, self.emit_all(op, op.kind, *inputs, name=op.name, inplace=self._inplace(op), **op.attrs), {})
        elif cut.form == "log_softmax":  # the loss takes the scores themselves
            self.named[op.outputs[0]], self.layout[op.outputs[0]] = self.named[op.inputs[0]], cut.places[1]
        elif cut.form == "nll_loss":
            self._class_loss(op, cut)
        else:
            self._cut_operator(op, cut)

    def _inplace(self, op: Op) -> bool:
        """Whether it may still overwrite its first input: not what others read in another layout."""
        return is_inplace(self.graph, op) and len(self.graph.consumers[op.inputs[0]]) == 1

    def _cut_operator(self, op: Op, cut: OpCut) -> None:
        many, call = len(op.inputs), call_of(self.graph, op)
        biased = kind_named(op.kind).contraction is not None and many == 3 and 0 in cut.owes
        read = op.inputs[:2] if biased else op.inputs
        inputs = [self.read(op, name, cut.places.get(slot), True) for slot, name in enumerate(read)]
        kind, attrs = "embedding_part" if cut.form == "embedding" else op.kind, self._local_attrs(op, cut)
        names = self.emit_all(op, kind, *inputs, name=op.name, inplace=self._inplace(op), **attrs)
        places = {number: cut.places.get(many + number) for number in range(len(op.outputs))}
        self._take(op, names, places)
        for number in sorted(cut.owes):
            name = op.outputs[number]
            if self._splits_rows(name):
                self.owed[name] = op
                continue
            self._settle(op, name, call.outputs[number].shape)
            if biased:
                self._add_bias(op, name, op.inputs[2])

    def _take(self, op: Op, names: tuple[str, ...], places: Mapping[int, Cut | None]) -> None:
        for number, (name, made) in enumerate(zip(op.outputs, names, strict=True)):
            cut, shape = places.get(number), self.graph.tensors[name].shape
            expected = self._part(cut).shape(shape) if cut else shape
            if self.builder.tensors[made].shape != expected:
                found = list(self.builder.tensors[made].shape)
                raise ModelError(f"{op.name!r} ({op.kind}) of one rank gives {found}, {list(expected)} was expected")
            self.named[name], self.layout[name] = made, cut

    def _settle(self, op: Op, name: str, shape: tuple[int, ...]) -> None:
        """Add up what ranks have of a result: all of it for everyone, or each its own tokens."""
        partial, attrs = self.named[name], {"group": self.group, "size": self.ranks}
        if op.kind in MEANS:
            partial = self.emit(op, "scale", partial, suffix="share", factor=1.0 / self.ranks)
        axis = self._token_axis(shape)
        if axis is None:
            self.named[name] = self.emit(op, "all_reduce", partial, suffix="all_reduce", **attrs)
        else:
            self.named[name] = self.emit(op, "reduce_scatter", partial, suffix="reduce_scatter", axis=axis, **attrs)
            self.layout[name] = Cut(axis, (shape[axis],))

    def _token_axis(self, shape: tuple[int, ...]) -> int | None:
        """The axis before the features, where tokens are."""
        if not self.sequence or len(shape) < 3 or shape[-2] % self.ranks:
            return None
        return len(shape) - 2

    def _add_bias(self, op: Op, name: str, bias: str) -> None:
        """A bias is added once, to the sum."""
        made, layout = self.named[name], self.layout[name]
        rank, shape = len(self.graph.tensors[name].shape), self.graph.tensors[bias].shape
        read = self._replicated(op, bias) if layout else self.named[bias]
        if not layout:
            self._note(bias, True)
        if op.kind != "linear":  # channels come second
            read = self.emit(op, "reshape", read, suffix="bias_shape", shape=(*shape, *([1] * (rank - 2))))
        self.named[name] = self.emit(op, "add", made, read, suffix="bias")

    # --- sequence parallelism ----------------------------------------------------------------------------------------

    def _by_tokens(self, op: Op) -> OpCut | None:
        """An operator outside of the axis sets that reads what is cut along tokens, cut the same way if it can be."""
        call = call_of(self.graph, op)
        for slot, name in enumerate(op.inputs):
            have = self.layout[name]
            if have is None:
                continue
            found = self.cuttable.cut(op, call, slot, have)
            if found is None or found.form or any(length % self.ranks for length in found.lengths):
                continue
            if all(len(place.segments) == 1 for place in found.places.values()):  # what can be gathered again
                return found
        return None

    def _splits_rows(self, name: str) -> bool:
        """Whether a result has samples and tokens in one axis, and its only reader takes them apart: it is added up
        there, where tokens can be scattered."""
        readers = self.graph.consumers[name]
        if not self.sequence or len(readers) != 1 or readers[0].kind != "reshape":
            return False
        before, after = (self.graph.tensors[one].shape for one in (name, readers[0].outputs[0]))
        return len(before) == 2 and before[-1] == after[-1] and self._token_axis(after) is not None

    def _merges_rows(self, op: Op) -> bool:
        """A view that joins samples and tokens for cut products (they are gathered for these), or takes apart what
        such a product still owes."""
        if op.kind != "reshape":
            return False
        source, made = op.inputs[0], op.outputs[0]
        if source in self.owed:
            owing = self.owed.pop(source)
            self._take(op, self.emit_all(op, op.kind, self.named[source], name=op.name, **op.attrs), {})
            self._settle(owing, made, self.graph.tensors[made].shape)
            if len(owing.inputs) == 3:
                self._add_bias(owing, made, owing.inputs[2])
            return True
        if self.layout[source] is None or not all(one.name in self.cuts for one in self.graph.consumers[made]):
            return False
        whole = self.read(op, source, None, True)
        self._take(op, self.emit_all(op, op.kind, whole, name=op.name, **op.attrs), {})
        self.gathered.add(made)
        return True

    def _with_halo(self, op: Op) -> bool:
        """A window over rows: rows of the neighbours are fetched first, and every rank slides over its own."""
        have = self.layout[op.inputs[0]] if op.inputs else None
        if have is None or have.axis != ROWS:
            return False
        call = call_of(self.graph, op)
        found = halo(op, call, self.ranks)
        if found is None:
            return False
        x = self.named[op.inputs[0]]
        if found.before or found.after:
            attrs = dict[str, Any](axis=ROWS, before=found.before, after=found.after, beyond=found.beyond)
            x = self.emit(op, "exchange_halo", x, suffix="halo", group=self.group, size=self.ranks, **attrs)
        others = [self.read(op, name, None, True) for name in op.inputs[1:]]
        made = self.emit_all(op, op.kind, x, *others, name=op.name, **found.attrs)
        cut = Cut(ROWS, (call.out.shape[ROWS],))
        self._take(op, made, dict.fromkeys(range(len(made)), cut))
        return True

    # --- what an operator's attributes say of sizes ------------------------------------------------------------------

    def _local_attrs(self, op: Op, cut: OpCut) -> dict[str, Any]:
        attrs, many = dict(op.attrs), len(op.inputs)
        first = cut.places.get(many)
        if first is not None and "shape" in attrs:
            attrs["shape"] = self._part(first).shape(self.graph.tensors[op.outputs[0]].shape)
        if first is not None and "spatial" in attrs:
            attrs["spatial"] = self._part(first).shape(self.graph.tensors[op.outputs[0]].shape)[2:]
        if op.kind == "split":
            local = [
                self._part(cut.places[many + n]).shape(self.graph.tensors[x].shape) for n, x in enumerate(op.outputs)
            ]
            attrs["sizes"] = tuple(shape[attrs["axis"]] for shape in local)
        if attrs.get("groups", 1) > 1 and {0, 1, many} <= cut.places.keys() and first is not None and first.axis == 1:
            attrs["groups"] //= self.ranks
        if op.kind in RANDOM and first is not None:
            attrs["parts"] = (*attrs.get("parts", ()), tuple(self._part(first)))
        if cut.form == "embedding":
            attrs["parts"] = (tuple(self._part(cut.places[0])),)
        return attrs

    # --- the loss over parts of the classes --------------------------------------------------------------------------

    def _class_loss(self, op: Op, cut: OpCut) -> None:
        """Cross-entropy of scores of which each rank has some classes: see ``graph/operators/parallel.py``."""
        scores, label, place = self.named[op.inputs[0]], self.read(op, op.inputs[1], None, False), cut.places[0]
        axis, group = place.axis, dict[str, Any](group=self.group, size=self.ranks)
        own = self.emit(op, "reduce_max", scores, suffix="own_largest", axes=(axis,), keepdims=False)
        own = self.emit(op, "detach", own, suffix="detached")
        largest = self.emit(op, "all_reduce", own, suffix="largest", function="max", **group)
        attrs = dict[str, Any](
            axis=axis, classes=op.attrs.get("classes", sum(place.segments)), parts=(tuple(self._part(place)),)
        )
        name = f"{op.name}/class_scores"
        exponentials, picked = self.emit_all(op, "class_scores", scores, largest, label, name=name, **attrs)
        total = self.emit_all(op, "all_reduce", exponentials, picked, name=f"{op.name}/all_reduce", **group)
        self.named[op.outputs[0]] = self.emit_all(op, "class_loss", *total, name=op.name)[0]
        self.layout[op.outputs[0]] = None
