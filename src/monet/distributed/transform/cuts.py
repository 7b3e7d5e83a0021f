"""How operators may be cut: by the loop nests and dimension rules of the operator table, and by what views do to axes.

A cut of one operand's axis fixes how the operator's dimension is cut, and with it every other operand: those that the
dimension indexes are cut too, the others are whole, and a result that is summed over it is *owed* an addition.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from monet.graph.kind import Call, OpKind, displaced, kind_named
from monet.graph.op import Op
from monet.graph.operators.reduction import normalise_axes

Segments = tuple[int, ...]


class Cut(NamedTuple):
    """An axis of a tensor cut into equal parts, each of its segments by itself."""

    axis: int
    segments: Segments


class Place(NamedTuple):
    """Where a dimension is found: the axis of an operand is ``outer`` × the dimension × ``inner``."""

    slot: int
    axis: int
    outer: int = 1
    inner: int = 1

    def dimension(self, segments: Segments) -> Segments | None:
        """Segments of the dimension that give these of the axis; None if there are none."""
        if len(segments) % self.outer or segments != segments[: len(segments) // self.outer] * self.outer:
            return None
        own = segments[: len(segments) // self.outer]
        return None if any(length % self.inner for length in own) else tuple(length // self.inner for length in own)

    def cut(self, segments: Segments) -> Cut:
        """The axis cut as the dimension is."""
        return Cut(self.axis, tuple(length * self.inner for length in segments) * self.outer)


@dataclass(frozen=True)
class OpCut:
    """An operator cut along one dimension: how its operands are, by slot (whole if absent), and which of its outputs
    are owed a sum over the parts. ``form``: it is run as operators of another kind, see ``forms.py``."""

    places: Mapping[int, Cut]
    owes: frozenset[int] = frozenset()
    form: str = ""
    lengths: Segments = ()  # that have to be divided


@dataclass(frozen=True)
class Dimension:
    """A dimension of an operator that may be cut."""

    places: tuple[Place, ...]
    owes: frozenset[int] = frozenset()
    form: str = ""

    def cut(self, slot: int, given: Cut) -> OpCut | None:
        """The operator with the dimension cut so that an operand is as given."""
        for place in self.places:
            if (place.slot, place.axis) == (slot, given.axis):
                segments = place.dimension(given.segments)
                if segments is not None:
                    places = {other.slot: other.cut(segments) for other in self.places}
                    return OpCut(places, self.owes, self.form, segments) if len(places) == len(self.places) else None
        return None


@dataclass(frozen=True)
class Joint:
    """An axis that is the parts of others, one behind another: of ``split`` the input, of ``concat`` the output."""

    slot: int
    parts: tuple[int, ...]
    sizes: tuple[int, ...]
    axis: int

    def cut(self, slot: int, given: Cut) -> OpCut | None:
        """All parts cut. Those that nothing is known of are cut as one."""
        if given.axis != self.axis:
            return None
        pieces: dict[int, Segments] = {part: (size,) for part, size in zip(self.parts, self.sizes, strict=True)}
        if slot == self.slot:
            ends, borders = list(accumulate(given.segments)), list(accumulate(self.sizes))
            if not set(borders) <= set(ends):
                return None
            start = 0
            for part, border in zip(self.parts, borders, strict=True):
                stop = ends.index(border) + 1
                pieces[part], start = given.segments[start:stop], stop
        else:
            pieces[slot] = given.segments
        joint = tuple(length for part in self.parts for length in pieces[part])
        places = {part: Cut(self.axis, pieces[part]) for part in self.parts}
        return OpCut(places | {self.slot: Cut(self.axis, joint)}, lengths=joint)


Rule = Dimension | Joint


@dataclass
class Cuttable:
    """What may be cut of operators of one graph; remembered by kind, shapes and attributes."""

    _known: dict[object, tuple[Rule, ...]] = field(default_factory=dict)

    def rules(self, op: Op, call: Call) -> tuple[Rule, ...]:
        """The dimensions of an operator that may be cut."""
        key = op.kind, op.attrs, tuple(x.shape for x in (*call.inputs, *call.outputs))
        if key not in self._known:
            self._known[key] = tuple(_rules(kind_named(op.kind), call))
        return self._known[key]

    def cut(self, op: Op, call: Call, slot: int, given: Cut) -> OpCut | None:
        """The operator cut so that one operand is as given; None if that cannot be. An axis of several digits may be
        read as a cut of either of them: the one that leaves longer pieces is meant."""
        found = [cut for rule in self.rules(op, call) if (cut := rule.cut(slot, given)) and min(cut.lengths) > 1]
        return max(found, key=lambda cut: min(cut.lengths)) if found else None


def _rules(kind: OpKind, call: Call) -> Iterator[Rule]:
    view = _VIEWS.get(kind.name)
    if view is not None:
        yield from view(call)
        return
    yield from _FORMS[kind.name](call) if kind.name in _FORMS else ()
    yield from _linear(call) if kind.name == "linear" else _nested(kind, call)


# --- from loop nests ------------------------------------------------------------------------------------------------


def _nested(kind: OpKind, call: Call) -> Iterator[Rule]:
    """Dimensions of the nest that the table allows to be cut, and that no operand has in a window."""
    if kind.nest is None:
        return
    nest = kind.nest(call)
    dimensions, sizes = kind.dimensions_of(call, nest), nest.sizes
    tensors, many = (*call.inputs, *call.outputs), len(call.inputs)
    places: dict[str, list[Place]] = {name: [] for name, size in nest.dims if size > 1}
    refused = set(dimensions.taps | dimensions.whole)
    refused |= {f"A{axis}" for axis in _moved_axes(kind, call)} if kind.dimensions is displaced else set()
    for operand in nest.operands:
        shape = tensors[operand.slot].shape
        if len(shape) != len(operand.indices):
            refused |= operand.dims
            continue
        for axis, index in enumerate(operand.indices):
            terms = [(name, factor) for name, factor in index.terms if sizes[name] > 1]
            found = _radix(terms, index.offset, sizes, shape[axis])
            if found is None:
                refused |= {name for name, _ in terms}
            else:
                for name, outer, inner in found:
                    places[name].append(Place(operand.slot, axis, outer, inner))
    _add_bias(kind, call, places)
    for name, found_places in places.items():
        owed = frozenset(op.slot - many for op in nest.writes if name not in op.dims)
        if name in refused or (len(owed) == len(nest.writes) and dimensions.combine != "add"):
            continue
        if dimensions.combine != "add":  # results that it does not index come out the same in every part
            owed = frozenset()
        yield Dimension(tuple(found_places), owed - _ALIKE.get(kind.name, frozenset()))


def _radix(
    terms: list[tuple[str, int]], offset: int, sizes: Mapping[str, int], length: int
) -> list[tuple[str, int, int]] | None:
    """(dimension, outer, inner) where an axis runs over dimensions as digits of a number; None if it does not."""
    if offset or math.prod(sizes[name] for name, _ in terms) != (length if terms else 1):
        return None
    found, inner = [], 1
    for name, factor in sorted(terms, key=lambda term: term[1]):
        if factor != inner:
            return None
        found.append((name, length // (inner * sizes[name]), inner))
        inner *= sizes[name]
    return found


def _add_bias(kind: OpKind, call: Call, places: dict[str, list[Place]]) -> None:
    """A fused bias, which nests leave out, goes with what the product keeps of its weight."""
    if kind.contraction is None or len(call.inputs) < 3:
        return
    result = len(call.inputs)
    for name, found in places.items():
        outputs = [place for place in found if place.slot == result and place.axis == 1]
        if outputs and any(place.slot == 1 for place in found):
            places[name].append(Place(2, 0, outputs[0].outer, outputs[0].inner))


def _moved_axes(kind: OpKind, call: Call) -> set[int]:
    """Axes along which an operator takes elements from elsewhere."""
    rank, attrs = len(call.out.shape), call.attrs
    if kind.name == "rotary":
        return {rank - 1}
    if kind.name in ("flip", "roll"):
        return set(normalise_axes(tuple(attrs["axes"]), rank))
    if kind.name == "pad":
        return {axis for axis, pads in enumerate(attrs["padding"]) if tuple(pads) != (0, 0)}
    return {axis for axis in range(rank) if axis > 1} if rank > 2 else set(range(rank))


_ALIKE = {"nll_loss": frozenset({1})}  # results that every part has by itself: how many labels it counted


def _linear(call: Call) -> Iterator[Rule]:
    """Nests merge the leading axes of a linear layer; here each is one that may be cut."""
    if "rows" in call.attrs:
        return
    x, out, rank = call.inputs[0], len(call.inputs), len(call.inputs[0].shape)
    summed, kept = (0, 1) if call.attrs["transpose"] else (1, 0)
    for axis in range(rank - 1):
        if x.shape[axis] > 1:
            yield Dimension((Place(0, axis), Place(out, axis)))
    bias = (Place(2, 0),) if out == 3 else ()
    yield Dimension((Place(1, kept), *bias, Place(out, rank - 1)))
    yield Dimension((Place(0, rank - 1), Place(1, summed)), frozenset({0}))


# --- views and joints -----------------------------------------------------------------------------------------------


def _along(call: Call, pairs: Iterator[tuple[int, int]]) -> Iterator[Rule]:
    for before, after in pairs:
        if call.inputs[0].shape[before] == call.outputs[0].shape[after] > 1:
            yield Dimension((Place(0, before), *(Place(1 + n, after) for n in range(len(call.outputs)))))


def _transpose(call: Call) -> Iterator[Rule]:
    return _along(call, ((before, after) for after, before in enumerate(call.attrs["order"])))


def _same_axes(call: Call) -> Iterator[Rule]:
    return _along(call, ((axis, axis) for axis in range(len(call.out.shape))))


def _expand(call: Call) -> Iterator[Rule]:
    """Axes that are repeated may be cut too: every rank repeats less often."""
    before, after = call.inputs[0].shape, call.out.shape
    lead = len(after) - len(before)
    for axis, size in enumerate(after):
        if axis >= lead and before[axis - lead] == size > 1:
            yield Dimension((Place(0, axis - lead), Place(1, axis)))
        elif size > 1:
            yield Dimension((Place(1, axis),))


def _slice(call: Call) -> Iterator[Rule]:
    sliced = set(call.attrs["axes"])
    return _along(call, ((axis, axis) for axis in range(len(call.out.shape)) if axis not in sliced))


def _split(call: Call) -> Iterator[Rule]:
    (axis,) = normalise_axes((call.attrs["axis"],), len(call.inputs[0].shape))
    yield Joint(0, tuple(range(1, 1 + len(call.outputs))), tuple(call.attrs["sizes"]), axis)
    yield from _along(call, ((one, one) for one in range(len(call.out.shape)) if one != axis))


def _concat(call: Call) -> Iterator[Rule]:
    many, (axis,) = len(call.inputs), normalise_axes((call.attrs["axis"],), len(call.out.shape))
    yield Joint(many, tuple(range(many)), tuple(x.shape[axis] for x in call.inputs), axis)
    for one, size in enumerate(call.out.shape):
        if one != axis and size > 1:
            yield Dimension(tuple(Place(slot, one) for slot in range(many + 1)))


def _reshape(call: Call) -> Iterator[Rule]:
    """Runs of axes that hold the same elements on both sides, read as digits of one number: a digit lies within one
    axis of either side, and may be cut. Where lengths share no digits the outermost axes are cut together."""
    before, after = call.inputs[0].shape, call.out.shape
    for left, right in _runs(before, after):
        ends = sorted({*_ends(before, left), *_ends(after, right), 1})
        if any(high % low for low, high in pairwise(ends)):
            ends = [ends[-1] // math.gcd(before[left[0]], after[right[0]]), ends[-1]]
        for low, high in pairwise(ends):
            if high > low:
                yield Dimension((_digit(0, before, left, low, high), _digit(1, after, right, low, high)))


def _ends(shape: tuple[int, ...], axes: Sequence[int]) -> list[int]:
    """Elements from the innermost axis up to each."""
    return list(accumulate((shape[axis] for axis in reversed(axes)), operator.mul))


def _digit(slot: int, shape: tuple[int, ...], axes: Sequence[int], low: int, high: int) -> Place:
    """Where in a run of axes the digit lies that counts from ``low`` to ``high`` elements."""
    inner = 1
    for axis in reversed(axes):
        if low < inner * shape[axis]:
            return Place(slot, axis, inner * shape[axis] // high, low // inner)
        inner *= shape[axis]
    raise ValueError(f"axes {list(axes)} of {list(shape)} have no digit up to {high}")


def _runs(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """Axes of either side, without those of length one, that hold the same elements."""
    left = [axis for axis, size in enumerate(before) if size > 1]
    right = [axis for axis, size in enumerate(after) if size > 1]
    i = j = 0
    while i < len(left) and j < len(right):
        start, other = i, j
        mine, theirs = before[left[i]], after[right[j]]
        while mine != theirs:
            if mine < theirs:
                i += 1
                mine *= before[left[i]]
            else:
                j += 1
                theirs *= after[right[j]]
        i, j = i + 1, j + 1
        yield left[start:i], right[other:j]


_VIEWS: dict[str, Callable[[Call], Iterator[Rule]]] = {
    "transpose": _transpose,
    "expand": _expand,
    "slice": _slice,
    "split": _split,
    "concat": _concat,
    "reshape": _reshape,
    "detach": _same_axes,
    "replicate": _same_axes,
}


# --- forms: cuts that an operator of another kind makes possible, see forms.py --------------------------------------


def _rows_of_table(_: Call) -> Iterator[Rule]:
    yield Dimension((Place(0, 0),), frozenset({0}), "embedding")


def _classes(call: Call) -> Iterator[Rule]:
    axis = call.attrs["axis"] % len(call.inputs[0].shape)
    yield Dimension((Place(0, axis), Place(1, axis)), form="log_softmax")


def _scored_classes(call: Call) -> Iterator[Rule]:
    yield Dimension((Place(0, call.attrs["axis"]),), form="nll_loss")


_FORMS: dict[str, Callable[[Call], Iterator[Rule]]] = {
    "embedding": _rows_of_table,
    "log_softmax": _classes,
    "nll_loss": _scored_classes,
}
