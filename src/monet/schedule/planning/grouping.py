"""Fusion groups: legality, execution order of groups, and the tiles of every operator in one.

The plan gives tile sizes of the last operator's dimensions. Every other operator of the group is cut into as many
tiles along the dimension that indexes the same axis of the tensors between them; windows then reach into neighbouring
tiles, whose blocks are read again (cached halo), or a producer's tile is made large enough (recomputed halo).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from monet.arrays import I64
from monet.errors import nearest
from monet.graph.kind import kind_named
from monet.graph.loop_nest import Index, Operand
from monet.graph.tensor import Tensor
from monet.schedule.expansion.geometry import axis_map, even_cuts
from monet.schedule.plan import Group, Plan, PlanError
from monet.schedule.workload import Operator, Workload, dependencies_among, moving_dim

Ranges = Mapping[str, tuple[I64, I64]]
Members = tuple[Group | None, list[int]]  # a group and the numbers of its operators


class TiledGroup(NamedTuple):
    """A group ready to expand: operators in order, and for each the ranges of its cut dimensions by tile. ``identity``:
    equal for groups cut alike of the same operators, which read the same tensors."""

    operators: tuple[Operator, ...]
    tiles: Mapping[int, Ranges]
    held: bool  # operands lie in the memory; otherwise every operator streams, one after another
    key: Group | None = None  # the plan's group; None for operators that are not cut
    identity: tuple[Any, ...] | None = None


def tiled_groups(workload: Workload, plan: Plan) -> tuple[TiledGroup, ...]:
    """All groups of a plan in execution order, operators that it leaves out as groups of one."""
    alone = _alone(workload)
    if not plan.groups:
        return alone
    ordered = _group_order(workload, _members(workload, plan))
    return tuple([alone[ops[0]] if group is None else _tiled(workload, group, ops) for group, ops in ordered])


def _alone(workload: Workload) -> tuple[TiledGroup, ...]:
    """Every operator as a group of its own."""
    known = workload.planned
    if "alone" not in known:
        known["alone"] = tuple(TiledGroup((operator,), {}, False) for operator in workload.operators)
    return known["alone"]


def _members(workload: Workload, plan: Plan) -> list[Members]:
    number = {operator.op.name: operator.number for operator in workload.operators}
    taken: dict[int, str] = {}
    found: list[Members] = []
    for position, group in enumerate(plan.groups):
        ops = []
        for name in group.operators:
            if name not in number:
                raise PlanError(f"groups.{position}: the graph has no operator {name!r}; {nearest(name, number)}")
            if number[name] in taken:
                raise PlanError(f"groups.{position}: {name} is also in {taken[number[name]]}")
            taken[number[name]] = f"groups.{position}"
            ops.append(number[name])
        if group not in workload.tiled:
            _check_updates(workload, ops, f"groups.{position}")
        found.append((group, sorted(ops)))
    found += [(None, [operator.number]) for operator in workload.operators if operator.number not in taken]
    return found


def check_connected(workload: Workload, plan: Plan) -> None:
    """Raise if a group falls apart into operators that share no data. Searches make none; files may."""
    operators = {operator.op.name: operator for operator in workload.operators}
    for position, group in enumerate(plan.groups):
        left = [operators[name] for name in group.operators if name in operators]
        reached = set(left.pop(0).storages) if left else set[str]()
        while left:
            near = [operator for operator in left if not reached.isdisjoint(operator.storages)]
            if not near:
                raise PlanError(
                    f"groups.{position}: {left[0].op.name} shares no data with {group.operators[0]}, not even through "
                    "others of the group; operators of a group are connected"
                )
            reached.update(*(operator.storages for operator in near))
            left = [operator for operator in left if not reached.issuperset(operator.storages)]


def _check_updates(workload: Workload, members: Sequence[int], place: str) -> None:
    """An update may run right after its weight gradient only if nothing has to see the gradient in between."""
    tensors = workload.graph.tensors
    for update in (workload.operators[i] for i in members):
        if not kind_named(update.op.kind).is_update:
            continue
        gradient, name = tensors[update.op.inputs[1]].storage, update.op.name
        writers = [
            operator
            for operator in workload.operators
            if any(tensors[t].storage == gradient for t in operator.op.outputs)
        ]
        if not any(writer.number in members for writer in writers):
            continue
        if update.op.attrs.get("clipped"):
            raise PlanError(
                f"{place}: {name} cannot join its gradient's group: clipping needs the norm of all gradients"
            )
        if len(writers) > 1:
            raise PlanError(
                f"{place}: {name} cannot join its gradient's group: the gradient is accumulated by "
                f"{', '.join(writer.op.name for writer in writers[1:])}"
            )
        readers = (
            operator for operator in workload.operators if operator is not update and operator.number not in members
        )
        for reader in readers:
            if any(tensors[t].storage == gradient for t in reader.op.inputs):
                raise PlanError(
                    f"{place}: {name} cannot join its gradient's group: {reader.op.name} reads the gradient too"
                )


def _group_order(workload: Workload, members: list[Members]) -> list[Members]:
    """Groups in an order that respects all dependencies, as near to the graph's own as possible: that order itself
    wherever no group reaches over another."""
    members = sorted(members, key=lambda group: group[1][0])
    if all(ops[-1] - ops[0] + 1 == len(ops) for _, ops in members):
        return members
    ordered: list[Members] = []
    first = last = 0  # of groups that reach over each other, and where they all end
    for number, (_, ops) in enumerate(members):
        if ops[0] >= last:
            ordered += _tangle_order(workload, members[first:number])
            first = number
        last = max(last, ops[-1] + 1)
    return ordered + _tangle_order(workload, members[first:])


def _tangle_order(workload: Workload, members: list[Members]) -> list[Members]:
    """The order of groups that reach over each other; members are sorted by where they start."""
    if len(members) < 2:
        return members
    owner = {op: number for number, (_, ops) in enumerate(members) for op in ops}
    after: list[list[int]] = [[] for _ in members]
    waiting = [0] * len(members)
    pairs = dependencies_among(workload.graph, workload.operators[min(owner) : max(owner) + 1])
    for a, b in {(owner[earlier], owner[later]) for earlier, later in pairs}:
        if a != b:
            after[a].append(b)
            waiting[b] += 1
    ready = [(ops[0], number) for number, (_, ops) in enumerate(members) if not waiting[number]]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, number = heapq.heappop(ready)
        ordered.append(members[number])
        for other in after[number]:
            waiting[other] -= 1
            if not waiting[other]:
                heapq.heappush(ready, (members[other][1][0], other))
    if len(ordered) < len(members):
        stuck = [ops for number, (_, ops) in enumerate(members) if waiting[number] and len(ops) > 1]
        name = workload.operators[stuck[0][0]].op.name if stuck else "?"
        raise PlanError(f"groups wait for each other in a circle, for example the one of {name}; make groups convex")
    return ordered


# --- tiles ------------------------------------------------------------------------------------------------------------


MOST_TILED = 10_000  # groups kept to be looked up


def _tiled(workload: Workload, group: Group, members: list[int]) -> TiledGroup:
    """A group with its tiles; looked up if it was tiled before."""
    found = workload.tiled.get(group)
    if found is None:
        if len(workload.tiled) >= MOST_TILED:
            workload.tiled.clear()
        found = workload.tiled[group] = _tile(workload, group, tuple(workload.operators[i] for i in members))
    return found


def _tile(workload: Workload, group: Group, operators: tuple[Operator, ...]) -> TiledGroup:
    """A group with its tiles: those of another variant of the graph if its operators are the same there."""
    if not group.tile:
        return TiledGroup(operators, {}, False)
    known, key = workload.ranges, (group, *(operator.identity for operator in operators))
    found = known.get(key)
    if found is None:
        if len(known) >= MOST_TILED:
            known.clear()
        ranges = _ranges(group, operators)
        found = known[key] = tuple(ranges[operator.number] for operator in operators)
    tiles = {operator.number: cut for operator, cut in zip(operators, found, strict=True)}
    return TiledGroup(operators, tiles, True, group, key)


def _ranges(group: Group, operators: Sequence[Operator]) -> dict[int, Ranges]:
    """By number of an operator: the ranges of its cut dimensions by tile."""
    last = operators[-1]
    for dim, _ in group.tile:
        if dim not in last.nest.sizes:
            raise PlanError(f"group of {last.op.name}: it has no dimension {dim!r}; {nearest(dim, last.nest.sizes)}")
    dims = {operator.number: dict[int, str]() for operator in operators}
    dims[last.number] = {g: dim for g, (dim, _) in enumerate(group.tile)}
    _spread(operators, dims)
    grains = [_grain(operators, dims, g) for g in range(len(group.tile))]
    sizes = [-(-size // grain) * grain for (_, size), grain in zip(group.tile, grains, strict=True)]
    counts = [-(-last.nest.sizes[dim] // size) for (dim, _), size in zip(group.tile, sizes, strict=True)]
    tiles: dict[int, Ranges] = {}
    for operator in operators:
        cut = {}
        for g, dim in sorted(dims[operator.number].items()):
            size = operator.nest.sizes[dim]
            if dim not in operator.tileable or not size >= counts[g] > 1:
                continue
            if grains[g] == 1:
                cut[dim] = even_cuts(size, counts[g])
            elif size == last.nest.sizes[group.tile[g][0]]:
                cut[dim] = _cuts(size, sizes[g])
            elif dim not in operator.nest.grain:
                cut[dim] = even_cuts(size, counts[g])
        tiles[operator.number] = cut
    tiles[last.number] = {
        dim: _cuts(last.nest.sizes[dim], size)
        for (dim, _), size, count in zip(group.tile, sizes, counts, strict=True)
        if count > 1
    }
    if group.halo == "recomputed":
        tiles = _recomputed(operators, tiles)
    return tiles


def _grain(operators: Sequence[Operator], dims: Mapping[int, Mapping[int, str]], cut: int) -> int:
    """Positions that tiles of a group keep together along one of its cuts: edges of tiles lie on edges of groups that
    share a scale."""
    named = ((operator, dims[operator.number].get(cut, "")) for operator in operators)
    return math.lcm(*(operator.nest.grain.get(dim, 1) for operator, dim in named if dim))


def _cuts(size: int, step: int) -> tuple[I64, I64]:
    """Starts and ends of pieces of one length, the last perhaps shorter."""
    starts = np.arange(-(-size // step)) * step
    return starts, np.minimum(starts + step, size)


def _spread(operators: Sequence[Operator], dims: dict[int, dict[int, str]]) -> None:
    """Carry the cut dimensions from operator to operator along the axes of the tensors they share; also past one that
    cannot be cut there, which is then a barrier: it waits for all tiles before it and holds up all after it."""
    changed = True
    while changed:
        changed = False
        for here in reversed(operators):
            if not dims[here.number]:
                continue
            for there in operators:
                if there is here:
                    continue
                for g, dim in dims[here.number].items():
                    if g in dims[there.number]:
                        continue
                    found = corresponding(here, dim, there)
                    if found and found not in dims[there.number].values():
                        dims[there.number][g] = found
                        changed = True


def corresponding(here: Operator, dim: str, there: Operator) -> str:
    """The dimension of another operator that moves along the same axis of a tensor both touch; empty if none."""
    for operand, tensor in here.operands:
        for axis, index in enumerate(operand.indices):
            if main_dim(index, here) != dim:
                continue
            for other, seen in there.operands:
                if seen.storage != tensor.storage or len(other.indices) != len(seen.shape):
                    continue  # a nest that says nothing about axes
                axes = axis_map(seen, tensor)
                if axes is not None and axis in axes:
                    found = main_dim(other.indices[axes[axis]], there)
                    if found:
                        return found
    return ""


def common_cuts(operators: Sequence[Operator], over_sums: bool = True) -> Iterator[tuple[str, dict[int, str]]]:
    """Dimensions of the last operator, outermost first, along which all can be cut together, each with the dimension of
    every operator, by its number, that is cut then. Without ``over_sums``, none that an operator's first result is
    summed over."""
    last = operators[-1]
    allowed = {operator.number: operator.tileable if over_sums else operator.apart for operator in operators}
    for dim, size in last.nest.dims:
        if dim not in allowed[last.number] or size < 2:
            continue
        found, reached = {last.number: dim}, [last]
        while reached:
            here = reached.pop()
            for there in operators:
                if there.number not in found:
                    other = corresponding(here, found[here.number], there)
                    if other in allowed[there.number]:
                        found[there.number] = other
                        reached.append(there)
        if len(found) == len(operators):
            yield dim, found


def main_dim(index: Index, operator: Operator) -> str:
    """The dimension of an operator that moves an axis."""
    return moving_dim(index, operator.nest, operator.dimensions.taps)


def _recomputed(operators: Sequence[Operator], tiles: dict[int, Ranges]) -> dict[int, Ranges]:
    """Make every producer's tile as large as what the consumers' tiles of the same number read."""
    found = {number: dict(ranges) for number, ranges in tiles.items()}
    for position in reversed(range(len(operators))):
        producer = operators[position]
        written = {tensor.storage: (operand, tensor) for operand, tensor in producer.operands if operand.written}
        for consumer in operators[position + 1 :]:
            for operand, tensor in consumer.operands:
                if operand.written or tensor.storage not in written:
                    continue
                _enlarge(found, producer, *written[tensor.storage], consumer, operand, tensor)
    return dict(found)


def _enlarge(
    found: dict[int, dict[str, tuple[I64, I64]]],
    producer: Operator,
    made: Operand,
    source: Tensor,
    consumer: Operator,
    read: Operand,
    seen: Tensor,
) -> None:
    axes = axis_map(seen, source)
    if axes is None:
        return
    for axis, index in enumerate(made.indices):
        dim = main_dim(index, producer)
        reader = read.indices[axes[axis]] if axis in axes else None
        if dim not in found[producer.number] or reader is None or len(index.terms) != 1:
            continue
        inner = main_dim(reader, consumer)
        if inner not in found[consumer.number]:
            continue
        low, high = found[consumer.number][inner]
        taps = {name: consumer.nest.sizes[name] for name, _ in reader.terms if name != inner}
        factor = dict(reader.terms)[inner]
        reach = sum(dict(reader.terms)[name] * (size - 1) for name, size in taps.items())
        size = producer.nest.sizes[dim]
        start = np.clip(reader.offset + factor * low, 0, size - 1)
        end = np.clip(reader.offset + factor * (high - 1) + reach + 1, 1, size)
        old_low, old_high = found[producer.number][dim]
        found[producer.number][dim] = np.minimum(old_low, start), np.maximum(old_high, end)
