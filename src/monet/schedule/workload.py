"""A graph as the scheduler sees it: executed operators with their nests, storages with category and lifetime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from monet.arrays import I64, U8x2
from monet.graph.graph import Graph
from monet.graph.kind import PORT_FAMILIES, Call, Dimensions, Family, kind_named
from monet.graph.loop_nest import Index, LoopNest, Operand, index, known_nest
from monet.graph.op import Attributes, Op, Phase
from monet.graph.operators.attention_products import attended
from monet.graph.tensor import Role, Tensor, view_strides
from monet.hashed import Hashed
from monet.mapping.errors import MappingError
from monet.mapping.nest.bias import bias_of
from monet.schedule.result_rows import CATEGORIES

if TYPE_CHECKING:
    from monet.schedule.plan import Group
    from monet.schedule.planning.grouping import Ranges, TiledGroup

WEIGHTS, ACTIVATIONS, GRADIENTS, OPTIMIZER_STATE, WORKSPACE = range(len(CATEGORIES))
CATEGORY = 2  # column of ``flags_of`` storages
MATRIX = frozenset({Family.CONVOLUTION, Family.MATMUL})

_CATEGORY = {Role.PARAMETER: WEIGHTS, Role.BUFFER: WEIGHTS, Role.GRADIENT: GRADIENTS, Role.STATE: OPTIMIZER_STATE}
Pair = tuple[str, str]  # formats of the two operands of a product
WAITED_FOR = 4096  # bytes of an operand of which surely some are there before its operator starts
STAYS = frozenset({Role.PARAMETER, Role.BUFFER, Role.STATE})


@dataclass(frozen=True)
class Operator:
    """An executed operator: what it computes, touches, and waits for."""

    number: int
    op: Op
    family: Family
    nest: LoopNest
    work: tuple[tuple[str, int], ...]
    dimensions: Dimensions  # what may be cut of its nest, and what a cut owes
    operands: tuple[tuple[Operand, Tensor], ...]  # what its nest reads and writes, then the bias of its results
    waits: tuple[Tensor, ...]  # inputs that it needs but does not read through its nest
    untouched: tuple[Tensor, ...]  # outputs that its nest does not write
    key: str  # equal keys cost the same
    storages: tuple[str, ...]  # that it touches or waits for
    written: tuple[str, ...]  # storages that its nest writes
    identity: (
        str  # equal for the same operator on the same storages, wherever it stands in whichever variant of a graph
    )
    alike: tuple[object, ...]  # equal where the same is done to tensors of the same layout, shared in the same way
    splittable: frozenset[str]  # dimensions that can be cut into independent parts
    summed: frozenset[
        str
    ]  # dimensions that some result is summed over and that can be cut: parts have own sums, to add

    @property
    def tileable(self) -> frozenset[str]:
        """Dimensions along which it can run tile by tile: also those that it sums over, as the results then stay in
        place as accumulators from the first tile to the last."""
        return self.splittable | self.summed

    @property
    def apart(self) -> frozenset[str]:
        """Dimensions along which tiles make parts of the first result, whatever further ones (gradients of parameters
        beside that of the input) are summed up."""
        first = self.nest.writes[0].dims if self.nest.writes else frozenset()
        return self.splittable | (self.summed & first)

    def summed_up(self, dims: frozenset[str]) -> tuple[int, ...]:
        """Positions among its operands of the results that parts along some dimensions have sums of their own of."""
        cut = dims & self.summed
        return tuple(
            position
            for position, (operand, _) in enumerate(self.operands)
            if operand.written and not cut <= operand.dims
        )

    @cached_property
    def is_matrix(self) -> bool:
        """Whether it runs on a multiply-accumulate array."""
        return self.family in MATRIX

    @cached_property
    def is_transfer(self) -> bool:
        """Whether it runs on a port to something outside of the chip."""
        return self.family in PORT_FAMILIES

    @cached_property
    def has_bias(self) -> bool:
        """Whether it adds a bias to its results: the last of its operands, which is no part of the nest."""
        return len(self.operands) > len(self.nest.operands)

    @cached_property
    def is_attention(self) -> bool:
        """Whether it is fused attention, which takes an array and vector lanes."""
        return self.family is Family.ATTENTION

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates on an array."""
        if self.is_attention:
            return dict(self.work)["mac"]
        return self.nest.points if self.is_matrix else 0

    @cached_property
    def products(self) -> tuple[tuple[Pair, int], ...]:
        """Formats of what is multiplied, with multiply-accumulates: one product, or those inside fused attention."""
        if not self.macs:
            return ()
        if not self.is_attention:
            first, second = (operand.dtype for operand in self.nest.reads[:2])
            return (((first, second), self.macs),)
        return attended(self.op.kind, self.op.attrs, self.nest)

    @property
    def multiplied(self) -> Pair:
        """Formats of the operands of its (first) product."""
        return self.products[0][0]

    @cached_property
    def lane_work(self) -> tuple[tuple[str, int], ...]:
        """Vector work by function."""
        if self.is_attention:
            return tuple(entry for entry in self.work if entry[0] != "mac")
        return () if self.is_matrix else self.work

    @cached_property
    def large_reads(self) -> tuple[str, ...]:
        """Storages of which it surely waits for some bytes before it starts."""
        return tuple(
            tensor.storage for operand, tensor in self.operands if not operand.written and operand.bytes >= WAITED_FOR
        )

    @cached_property
    def input_bytes(self) -> int:
        """Bytes of all that its nest reads, each operand once."""
        return sum(operand.bytes for operand, _ in self.operands if not operand.written)

    @cached_property
    def output_bytes(self) -> int:
        """Bytes of all that its nest writes, each operand once."""
        return sum(tensor.bytes for operand, tensor in self.operands if operand.written)


@dataclass(frozen=True, slots=True)
class Storage:
    """What is allocated and freed. ``persistent``: it is in DRAM when the step ends (parameters, states, outputs)."""

    number: int
    tensor: Tensor
    category: int
    is_root: bool
    persistent: bool
    alike: int  # equal for storages of the same layout and format, persistent or not


@dataclass(frozen=True)
class Workload:
    """A graph, analysed once; plans and accelerators come afterwards."""

    graph: Graph
    operators: tuple[Operator, ...]  # executed ones in order; views execute nothing
    storages: dict[str, Storage]  # that executed operators touch, by the name of the tensor that owns them
    storage_flags: U8x2  # ``flags_of`` its storages
    ranges: dict[tuple[Any, ...], tuple[Ranges, ...]]  # tiles by group and operators: variants of a graph share them
    tiled: dict[Group, TiledGroup] = field(default_factory=dict)  # groups of plans, as far as they were asked for
    planned: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # what planning found, by what it looked for

    @cached_property
    def dependencies(self) -> tuple[tuple[int, int], ...]:
        """Pairs (earlier, later) of operators where the later reads or overwrites what the earlier wrote or read."""
        return tuple(sorted(dependencies_among(self.graph, self.operators)))

    @cached_property
    def by_name(self) -> dict[str, Operator]:
        """Operators by the names of their ops."""
        return {operator.op.name: operator for operator in self.operators}

    @cached_property
    def touched(self) -> tuple[I64, ...]:
        """By operator: the numbers of the storages that it touches or waits for."""
        known = self.storages
        return tuple(
            np.array([known[name].number for name in operator.storages], np.int64) for operator in self.operators
        )

    def overwritten(self, storages: frozenset[str]) -> frozenset[str]:
        """Those of some storages that an operator writes to after another has touched them."""
        seen, found = set[str](), set[str]()
        for operator in self.operators:
            if not storages.isdisjoint(operator.storages):
                found.update(seen.intersection(operator.written))
                seen.update(operator.storages)
        return frozenset(found & storages)

    @cached_property
    def has_transfers(self) -> bool:
        """Whether something runs on a port to what is outside of the chip."""
        return any(operator.is_transfer for operator in self.operators)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of its operators."""
        return tuple([operator.op.name for operator in self.operators])

    @cached_property
    def of_phases(self) -> dict[str, tuple[I64, I64, int]]:
        """By phase, in order, those that have operators: the numbers of these, of these the ones that cores run, and
        how many multiply-accumulates they have."""
        mine: dict[str, list[Operator]] = {phase.value: [] for phase in Phase}
        for operator in self.operators:
            mine[operator.op.phase.value].append(operator)
        return {
            phase: (
                np.array([each.number for each in some], np.int64),
                np.array([each.number for each in some if not each.is_transfer], np.int64),
                sum(each.macs for each in some),
            )
            for phase, some in mine.items()
            if some
        }

    @cached_property
    def batch(self) -> int:
        """Samples per step: the first axis of the first input, over all passes."""
        graph = self.graph
        passes = 1 + max((op.micro_batch for op in graph.ops), default=0)
        first = graph.tensors[graph.inputs[0]] if graph.inputs else None
        return (first.shape[0] if first and first.shape else 1) * passes


def dependencies_among(graph: Graph, operators: Sequence[Operator]) -> set[tuple[int, int]]:
    """Pairs (earlier, later) of some operators next to each other where the later reads or overwrites what the earlier
    wrote or read."""
    last_write: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    pairs: set[tuple[int, int]] = set()
    tensors = graph.tensors
    for operator in operators:
        here = operator.number
        for name in operator.op.inputs:
            storage = tensors[name].storage
            if storage in last_write:
                pairs.add((last_write[storage], here))
            readers.setdefault(storage, []).append(here)
        for name in operator.op.outputs:
            storage = tensors[name].storage
            pairs.update((reader, here) for reader in readers.get(storage, ()) if reader != here)
            if storage in last_write and last_write[storage] != here:
                pairs.add((last_write[storage], here))
            last_write[storage], readers[storage] = here, []
    return pairs


def _seen(operand: Operand, tensor: Tensor, family: Family) -> Tensor:
    """A tensor with the axes of the nest: a linear layer over sequences sees rows of all its tokens."""
    if family not in MATRIX or len(operand.indices) == len(tensor.shape):
        return tensor
    strides = view_strides(tensor.shape, tensor.strides, operand.shape)
    return tensor if strides is None else replace(tensor, shape=operand.shape, strides=strides)


class _Laid(NamedTuple):
    """A tensor of an operator but for its name: ``place`` is equal for those that share a storage."""

    shape: tuple[int, ...]
    dtype: str
    role: Role
    place: int
    strides: tuple[int, ...]
    offset: int


class _Form(NamedTuple):
    """What an operator is, whatever its tensors are called. Tensors are numbers: inputs, then outputs."""

    family: Family
    nest: LoopNest
    work: tuple[tuple[str, int], ...]
    dimensions: Dimensions
    operands: tuple[tuple[Operand, int, tuple[int, ...], tuple[int, ...]], ...]  # tensor, shape and strides seen
    waits: tuple[int, ...]
    untouched: tuple[int, ...]
    key: str
    alike: tuple[object, ...]
    storages: tuple[int, ...]  # of each the first of its tensors
    written: tuple[int, ...]
    splittable: frozenset[str]
    summed: frozenset[str]


@lru_cache(maxsize=10_000)
def _form(
    name: str, rules: tuple[object, ...], attrs: Attributes, text: str, laid: tuple[_Laid, ...], inputs: int
) -> _Form | None:
    """What an operator is; None for a view. Equal layers have equal ones. ``rules`` are those of its kind in the table;
    ``text`` is that of ``attrs``, as 1 equals True."""
    kind = kind_named(name)
    tensors = tuple(
        Tensor(str(number), shape, dtype, role, str(place), strides, offset=offset)
        for number, (shape, dtype, role, place, strides, offset) in enumerate(laid)
    )
    call = Call(tensors[:inputs], tensors[inputs:], attrs)
    copies = kind.family is Family.VIEW and _copies(call)
    if (not call.outputs and kind.family not in PORT_FAMILIES) or (kind.family is Family.VIEW and not copies):
        return None
    if kind.nest is None and not copies:
        raise MappingError("has no loop nest")
    nest = known_nest(kind.nest(call) if kind.nest else _copy_nest(call))
    bias = bias_of(call, nest) if kind.family in MATRIX else None
    operands = (*nest.operands, *((bias,) if bias else ()))
    touched = {operand.slot for operand in operands}
    seen = tuple((operand, _seen(operand, tensors[operand.slot], kind.family)) for operand in operands)
    waits = tuple(slot for slot in range(inputs) if slot not in touched and slot not in kind.retained)
    untouched = tuple(slot for slot in range(inputs, len(tensors)) if slot not in touched)
    family, dimensions = Family.MOVE if copies else kind.family, kind.dimensions_of(call, nest)
    key = repr((name, attrs, [(tensor.shape, tensor.dtype) for tensor in tensors]))
    groups = [tensor for _, tensor in seen], [tensors[slot] for slot in waits], [tensors[slot] for slot in untouched]
    first = {tensor.storage: int(tensor.name) for some in groups for tensor in some}
    storages = tuple(dict.fromkeys(tensor.storage for some in groups for tensor in some))
    place = {storage: position for position, storage in enumerate(storages)}
    layouts = (
        tuple((tensor.shape, tensor.strides, tensor.offset, place[tensor.storage]) for tensor in some)
        for some in groups
    )
    written = dict.fromkeys(tensor.storage for operand, tensor in seen if operand.written)
    transfers = family in PORT_FAMILIES
    return _Form(
        family,
        nest,
        tuple(kind.work(call).items()),
        dimensions,
        tuple((operand, operand.slot, tensor.shape, tensor.strides) for operand, tensor in seen),
        waits,
        untouched,
        key,
        Hashed((key, family, *layouts)),
        tuple(first[storage] for storage in storages),
        tuple(first[storage] for storage in written),
        frozenset() if transfers else _splittable(nest, dimensions, seen),
        frozenset() if transfers else _summed(nest, dimensions, seen),
    )


def operator_of(graph: Graph, op: Op, number: int) -> Operator | None:
    """The operator as it is executed; None for a view, which executes nothing."""
    known, places = graph.tensors, dict[str, int]()
    tensors = [known[name] for name in (*op.inputs, *op.outputs)]
    laid = tuple(
        _Laid(
            each.shape, each.dtype, each.role, places.setdefault(each.storage, len(places)), each.strides, each.offset
        )
        for each in tensors
    )
    kind = kind_named(op.kind)
    try:
        rules = kind.nest, kind.dimensions, kind.work
        form = _form(op.kind, rules, op.attrs, repr(op.attrs), laid, len(op.inputs))
    except MappingError as error:
        raise MappingError(f"operator {op.name} ({op.kind}) {error}") from None
    if form is None:
        return None
    storages = tuple(tensors[slot].storage for slot in form.storages)
    return Operator(
        number,
        op,
        form.family,
        form.nest,
        form.work,
        form.dimensions,
        tuple(
            (operand, tensor if tensor.shape == shape else replace(tensor, shape=shape, strides=strides))
            for operand, slot, shape, strides in form.operands
            for tensor in (tensors[slot],)
        ),
        tuple(tensors[slot] for slot in form.waits),
        tuple(tensors[slot] for slot in form.untouched),
        form.key,
        storages,
        written=tuple(tensors[slot].storage for slot in form.written),
        identity="\n".join((op.name, *op.inputs, *storages, form.key)),  # one text: it knows its hash
        alike=form.alike,
        splittable=form.splittable,
        summed=form.summed,
    )


def moving_dim(index: Index, nest: LoopNest, taps: frozenset[str]) -> str:
    """The dimension that moves an axis: the only one longer than one; of a window the one that slides it; where an axis
    holds blocks side by side (heads that share a key head), the one that goes from block to block."""
    terms = [(name, factor) for name, factor in index.terms if factor and nest.sizes[name] > 1]
    if len(terms) <= 1:
        return terms[0][0] if terms else ""
    rest = [(name, factor) for name, factor in terms if name not in taps]
    if len(rest) == 1:
        return rest[0][0]
    outer, stride = max(rest, key=lambda term: abs(term[1]), default=("", 0))
    return outer if _side_by_side(outer, stride, terms, nest) else ""


def _side_by_side(outer: str, stride: int, terms: Sequence[tuple[str, int]], nest: LoopNest) -> bool:
    """Whether what an axis has of one value of a dimension ends where that of the next begins."""
    return 1 + sum(abs(factor) * (nest.sizes[name] - 1) for name, factor in terms if name != outer) <= abs(stride)


def overlaps(index: Index, nest: LoopNest, taps: frozenset[str]) -> bool:
    """Whether parts of the dimension that moves an axis share positions of it, as windows do."""
    terms = [(name, factor) for name, factor in index.terms if factor and nest.sizes[name] > 1]
    outer = moving_dim(index, nest, taps)
    return len(terms) > 1 and not (outer and _side_by_side(outer, dict(terms)[outer], terms, nest))


def _has_axes(operands: Sequence[tuple[Operand, Tensor]]) -> bool:
    """Whether a nest says which of its dimensions move which axes of its tensors."""
    return all(len(operand.indices) == len(tensor.shape) for operand, tensor in operands)


def _moving(operand: Operand, nest: LoopNest, dims: Dimensions) -> frozenset[str]:
    """Dimensions whose parts have parts of a result."""
    return frozenset(moving_dim(index, nest, dims.taps) for index in operand.indices) - {""} - dims.taps - dims.whole


def _splittable(nest: LoopNest, dims: Dimensions, operands: Sequence[tuple[Operand, Tensor]]) -> frozenset[str]:
    """Dimensions that index the first result and that no result is summed over. Results that are not indexed by them
    and are no sums (the step count of an update) come out the same in every part."""
    if not _has_axes(operands) or not nest.writes:
        return frozenset()
    found = _moving(nest.writes[0], nest, dims)
    return found - _owed(nest) if dims.combine else found


def _owed(nest: LoopNest) -> frozenset[str]:
    """Dimensions that some result is not indexed by."""
    return frozenset(nest.sizes) - frozenset.intersection(*(operand.dims for operand in nest.writes))


def _summed(nest: LoopNest, dims: Dimensions, operands: Sequence[tuple[Operand, Tensor]]) -> frozenset[str]:
    """Dimensions that some result is summed over; the others have parts of their own."""
    if not dims.combine or not nest.writes or not _has_axes(operands):
        return frozenset()
    found = _owed(nest) - dims.taps - dims.whole
    for operand in nest.writes:
        found -= operand.dims - _moving(operand, nest, dims)
    return found


def left_behind(graph: Graph) -> frozenset[str]:
    """Storages of a graph's results. A training step leaves its loss behind; what the model put out on the way is
    free once backward has read it."""
    return frozenset(graph.tensors[name].storage for name in ((graph.loss,) if graph.loss else graph.outputs))


def storage_of(graph: Graph, name: str, number: int, results: frozenset[str]) -> Storage:
    """A storage by the name of the tensor that owns it."""
    owner = graph.tensors[name]
    persistent = owner.role in STAYS or name in results
    return Storage(
        number,
        owner,
        _CATEGORY.get(owner.role, ACTIVATIONS),
        name not in graph.producer,
        persistent,
        _number_of(persistent, owner.shape, owner.strides, owner.dtype),
    )


_numbers = count()


@lru_cache(maxsize=10_000)
def _number_of(persistent: bool, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str) -> int:
    """A number for a kind of storage: no other kind ever has it."""
    return next(_numbers)


def flags_of(storages: Mapping[str, Storage]) -> U8x2:
    """By number of a storage: whether it is a root, whether it is persistent, its category. The last row is for what is
    neither: sums that cores keep for themselves."""
    flags = [(storage.is_root, storage.persistent, storage.category) for storage in storages.values()]
    return np.array([*flags, (0, 0, WORKSPACE)], np.uint8)


def workload_of(graph: Graph) -> Workload:
    """The analysis of a graph, made once."""
    found = graph.analyses.get(Workload)
    if found is None:
        found = graph.analyses[Workload] = _analysed(graph)
    assert isinstance(found, Workload)
    return found


def _analysed(graph: Graph) -> Workload:
    operators: list[Operator] = []
    for op in graph.ops:
        executed = operator_of(graph, op, len(operators))
        if executed is not None:
            operators.append(executed)
    storages, results = dict[str, Storage](), left_behind(graph)
    for operator in operators:
        for name in (*operator.op.inputs, *operator.op.outputs):
            storage = graph.tensors[name].storage
            if storage not in storages:
                storages[storage] = storage_of(graph, storage, len(storages), results)
    return Workload(graph, tuple(operators), storages, flags_of(storages), {})


def _copies(call: Call) -> bool:
    """Whether a view has to copy (a reshape of what is not laid out that way): its result has a storage of its own."""
    taken = {tensor.storage for tensor in call.inputs}
    return any(tensor.storage not in taken for tensor in call.outputs)


def _copy_nest(call: Call) -> LoopNest:
    """Every element read and written once, over axes that both layouts are made of: (heads, width) of a merged axis.
    Where there are none, in no particular layout."""
    source, target = call.inputs[0], call.out
    sizes = _common_axes(source.shape, target.shape)
    names = [f"A{axis}" for axis in range(len(sizes))]
    operands = []
    for name, slot, tensor in (("in0", 0, source), ("out0", len(call.inputs), target)):
        plain = len(sizes) == 1
        shape = (tensor.elements,) if plain else tensor.shape
        indices = (index("A0"),) if plain else _merged(shape, sizes, names)
        operands.append(Operand(name, slot, tensor.dtype, shape, indices, slot > 0, tensor.bits_per_element))
    return LoopNest(tuple(zip(names, sizes, strict=True)), tuple(operands))


def _common_axes(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of the axes that two shapes of the same elements are both made of; one for all if there are none."""
    ends = sorted(set(_ends(first)) | set(_ends(second)), reverse=True)
    pairs = list(pairwise(ends))
    if any(outer % inner for outer, inner in pairs):
        return (math.prod(first),)
    return tuple(outer // inner for outer, inner in pairs) or (1,)


def _ends(shape: tuple[int, ...]) -> list[int]:
    """Elements from every axis on, in row-major order."""
    return [math.prod(shape[axis:]) for axis in range(len(shape) + 1)]


def _merged(shape: tuple[int, ...], sizes: tuple[int, ...], names: Sequence[str]) -> tuple[Index, ...]:
    """Index of every axis of a shape from the axes that it is made of."""
    ends, inner = _ends(shape), _ends(sizes)
    return tuple(
        Index(
            tuple(
                (name, inner[number + 1] // ends[axis + 1])
                for number, name in enumerate(names)
                if ends[axis + 1] <= inner[number + 1] < ends[axis]
            )
        )
        for axis in range(len(shape))
    )
