"""What every operator waits for: the last operator all of whose results something that it reads depends on.

A convolution behind a batch norm cannot begin, on whatever core and with whatever tile, before the convolution in front
of the norm has ended everywhere: each of its results needs all channels, each channel of the norm all samples and
pixels. From the results of every operator this follows through the loop nests, axis by axis, which of them a single
element of a later tensor needs: all positions of an axis, or, as long as nothing has mixed them, those that go with a
position of an axis of its own (a *link*), which cover the axis together. Where no link is left every element needs all.
What is not known for certain (part of a window, an axis cut up by a view) ends a path: then less is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from monet.arrays import I64
from monet.graph.loop_nest import Index, LoopNest, Operand
from monet.graph.tensor import Tensor
from monet.schedule.expansion.geometry import axis_range, make_steps
from monet.schedule.lower_bound.in_order import cut_groups
from monet.schedule.lower_bound.regions import View, view_of
from monet.schedule.lower_bound.traffic import distinct_bytes
from monet.schedule.workload import WAITED_FOR, Operator, Workload

FOLLOWED = 60  # operators behind one through which its results are followed
MIXED, LOST = -1, -2  # what becomes of the link on an axis: all positions are needed, or it is not known which
Links = Mapping[int, int]  # axis of a result → axis of a later storage that its positions go with


class _Way(NamedTuple):
    """From a storage that an operator reads to one that it writes: what becomes of links on each axis of the first."""

    read: str
    written: str
    axes: tuple[int, ...]


def waited_for(workload: Workload) -> I64:
    """By operator: the last one that has ended everywhere before any step of it begins; -1 if there is none."""
    found = workload.planned.get("waited for")
    if found is None:
        found = workload.planned["waited for"] = (_waited_for(workload),)
    known: I64 = found[0]
    return known


def _waited_for(workload: Workload) -> I64:
    ways = _ways(workload)
    whole = [_whole_results(workload, operator) for operator in workload.operators]
    reached: list[dict[str, int]] = [{} for _ in workload.operators]  # written → whose results it needs all of
    for source in workload.operators:
        for storage, axes in whole[source.number].items():
            for number, _, found in _followed(workload, ways, source.number, storage, axes):
                for name in (name for name, links in found.items() if not links):
                    reached[number][name] = max(source.number, reached[number].get(name, -1))
    waits, all_of = np.full(len(workload.operators), -1), dict[str, int]()
    for operator in workload.operators:
        number = operator.number
        seen = max((all_of.get(name, -1) for name in operator.large_reads), default=-1)
        waits[number] = seen
        for name in operator.written:
            least = -1 if name in whole[number] else all_of.get(name, -1)
            latest = max(seen, reached[number].get(name, -1))
            all_of[name] = latest if name in whole[number] else min(latest, least)
    return waits


def _followed(
    workload: Workload, ways: list[list[_Way]], source: int, storage: str, axes: int
) -> Iterator[tuple[int, dict[str, Links], dict[str, Links]]]:
    """How each element of later storages goes with results of an operator: for later operators the links of what they
    may read, and of what they write. What needs all results is not followed further."""
    links: dict[str, Links] = {storage: {axis: axis for axis in range(axes)}}
    for number in range(source + 1, min(source + 1 + FOLLOWED, len(ways))):
        found: dict[str, Links] = {}
        for way in ways[number]:
            if way.read in links and (moved := _moved(links[way.read], way.axes)) is not None:
                known = found.get(way.written)
                found[way.written] = moved if known is None or len(moved) < len(known) else known
        yield number, links, found
        links = {name: here for name, here in links.items() if name not in workload.operators[number].written}
        links |= {name: here for name, here in found.items() if here}
        if not links:
            return


def _moved(links: Links, axes: tuple[int, ...]) -> Links | None:
    """Links behind an operator; None if a position is lost, or two axes go with the same one."""
    found = {axis: axes[there] for axis, there in links.items() if axes[there] != MIXED}
    return None if LOST in found.values() or len(set(found.values())) < len(found) else found


def _whole_results(workload: Workload, operator: Operator) -> dict[str, int]:
    """Storages all of which an operator writes, and how many axes each has."""
    found = {}
    for operand, tensor in operator.operands:
        owner = workload.storages[tensor.storage].tensor
        if operand.written and distinct_bytes(operand, operator.nest) >= owner.bytes:
            found[tensor.storage] = len(owner.shape)
    return found


# --- of operators that run whole --------------------------------------------------------------------------------------


class _Cut(NamedTuple):
    """A group that an operator may be in, and the dimensions along which its tiles may cut it."""

    group: frozenset[int]
    dims: frozenset[str]


def waited_for_whole(workload: Workload) -> I64:
    """The same where no operator is split over cores: only tiles of groups cut them, of which no two share an operator.
    One step waits for all steps of another operator if, on every axis on which positions of both go together, one of
    the two is not cut."""
    found = workload.planned.get("waited for whole")
    if found is None:
        found = workload.planned["waited for whole"] = (_waited_for_whole(workload),)
    known: I64 = found[0]
    return known


def _waited_for_whole(workload: Workload) -> I64:
    ways, cuts = _ways(workload), _cuts(workload)
    waits = np.full(len(workload.operators), -1)
    sides = [_sides(workload, operator) for operator in workload.operators]
    for source in workload.operators:
        for storage, axes in _whole_results(workload, source).items():
            written = sides[source.number].get((storage, True))
            if written is None:
                continue
            for number, links, _ in _followed(workload, ways, source.number, storage, axes):
                for name, here in links.items():
                    read = sides[number].get((name, False))
                    if read and _all_wait(here, written, read, cuts[source.number], cuts[number]):
                        waits[number] = max(waits[number], source.number)
    return waits


def _cuts(workload: Workload) -> list[list[_Cut]]:
    """By operator: all groups that it may be in, and none."""
    found = [[_Cut(frozenset(), frozenset())] for _ in workload.operators]
    for group, dims in cut_groups(workload):
        for number in group:
            found[number].append(_Cut(frozenset(group), dims[number]))
    return found


def _sides(workload: Workload, operator: Operator) -> dict[tuple[str, bool], tuple[frozenset[str] | None, ...]]:
    """By storage that an operator reads or writes: the dimensions that move along each axis; None where it is not known
    or does not touch all positions."""
    found = {}
    for operand, tensor in operator.operands:
        if operand.bytes >= WAITED_FOR:
            owner = workload.storages[tensor.storage].tensor
            found[tensor.storage, operand.written] = _moving(
                operand, operator.nest, view_of(operand, tensor, owner), owner
            )
    return found


def _moving(operand: Operand, nest: LoopNest, view: View | None, owner: Tensor) -> tuple[frozenset[str] | None, ...]:
    places = _axes(operand, view)
    return tuple(
        frozenset[str]()
        if size == 1
        else _terms(operand.indices[place], nest)
        if (place := places.get(axis, -1)) >= 0 and _all_touched(operand.indices[place], operand.shape[place], nest)
        else None
        for axis, size in enumerate(owner.shape)
    )


def _all_wait(
    links: Links,
    written: tuple[frozenset[str] | None, ...],
    read: tuple[frozenset[str] | None, ...],
    of_source: list[_Cut],
    of_reader: list[_Cut],
) -> bool:
    """Whether every step of a reader waits for all steps of the source, whatever groups they are in."""
    pairs = [(written[axis], read[there]) for axis, there in links.items()]
    for one in of_source:
        for other in of_reader:
            if one.group != other.group and one.group & other.group:
                continue
            for makes, takes in pairs:
                in_parts = bool(one.dims) and (makes is None or bool(makes & one.dims))
                if in_parts and (takes is None or takes & other.dims):
                    return False
    return True


# --- through one operator ---------------------------------------------------------------------------------------------


def _ways(workload: Workload) -> list[list[_Way]]:
    """By operator: all ways from what it reads to what it writes."""
    known: dict[tuple[object, ...], list[tuple[int, int, tuple[int, ...]]]] = {}
    found = []
    for operator in workload.operators:
        owners = [workload.storages[tensor.storage].tensor for _, tensor in operator.operands]
        key = operator.alike, *(owner.shape for owner in owners)
        if key not in known:
            known[key] = list(_between(operator, owners))
        names = [tensor.storage for _, tensor in operator.operands]
        found.append([_Way(names[read], names[written], axes) for read, written, axes in known[key]])
    return found


def _between(operator: Operator, owners: list[Tensor]) -> list[tuple[int, int, tuple[int, ...]]]:
    """Positions of an operand that is read and one that is written, and what becomes of every axis of the first."""
    pairs = zip(operator.operands, owners, strict=True)
    seen = [_axes(operand, view_of(operand, tensor, owner)) for (operand, tensor), owner in pairs]
    found = []
    for read, (operand, _) in enumerate(operator.operands):
        if operand.written or operand.bytes < WAITED_FOR:
            continue
        for written, (result, _) in enumerate(operator.operands):
            if result.written:
                sizes = enumerate(owners[read].shape)
                axes = [
                    MIXED if size == 1 else _through(operator, operand, seen[read].get(axis), result, seen[written])
                    for axis, size in sizes
                ]
                found.append((read, written, tuple(axes)))
    return found


def _axes(operand: Operand, view: View | None) -> Links:
    """Axis of a storage → axis of an operand that is the same, of those longer than one; views may add or leave out
    axes of one."""
    if view is None or operand.picks:
        return {}
    long = [[axis for axis, size in enumerate(shape) if size > 1] for shape in (view.shape, view.operand)]
    if [view.shape[axis] for axis in long[0]] != [view.operand[axis] for axis in long[1]]:
        return {}
    same = dict(zip(*long, strict=True))
    return {axis: same[there] for axis, there in view.axes.items() if there in same}


def _through(operator: Operator, operand: Operand, here: int | None, result: Operand, seen: Links) -> int:
    """What becomes of a link on an axis of what is read: the axis of the written storage that it goes on to."""
    nest = operator.nest
    if here is None or not _all_touched(operand.indices[here], operand.shape[here], nest):
        return LOST
    terms = _terms(operand.indices[here], nest)
    others = [_terms(index, nest) for place, index in enumerate(operand.indices) if place != here]
    kept = (terms & result.dims) - operator.dimensions.whole
    if len(kept) > 1 or not terms.isdisjoint(frozenset().union(*others)):
        return LOST
    if not kept:
        return MIXED
    (name,) = kept
    places = [place for place, index in enumerate(result.indices) if name in _terms(index, nest)]
    owners = [axis for axis, place in seen.items() if places == [place]]
    if len(owners) != 1 or not _all_land(result.indices[places[0]], name, result.shape[places[0]], nest):
        return LOST
    return owners[0]


def _terms(index: Index, nest: LoopNest) -> frozenset[str]:
    """Dimensions that move along an axis."""
    return frozenset(name for name, factor in index.terms if factor and nest.sizes[name] > 1)


def _all_touched(index: Index, length: int, nest: LoopNest) -> bool:
    """Whether a nest touches every position of an axis."""
    if length == 1:
        return True
    low, high, _ = axis_range(index, length, nest, make_steps(nest, {}))
    reach = 1  # positions without a gap, from the smallest step on
    for factor, name in sorted((abs(factor), name) for name, factor in index.terms if factor and nest.sizes[name] > 1):
        if factor > reach:
            return False
        reach += factor * (nest.sizes[name] - 1)
    return bool(index.terms) and int(low) == 0 and int(high) == length


def _all_land(index: Index, name: str, length: int, nest: LoopNest) -> bool:
    """Whether every position of a dimension has a part in some position of an axis that is written."""
    low = high = index.offset
    step = 0
    for other, factor in index.terms:
        ends = sorted((0, factor * (nest.sizes[other] - 1)))
        if other == name:
            step = factor * (nest.sizes[other] - 1)
        else:
            low, high = low + ends[0], high + ends[1]
    return all(low + moved < length and high + moved >= 0 for moved in (0, step))
