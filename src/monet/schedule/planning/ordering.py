"""Depth-first order of the tiles of a fusion group: each tile as late as the first result that needs it allows, but
ahead by a tile for every change of cores that follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monet.arrays import I64, I64x2
from monet.schedule.costs.cost_table import OperatorSteps
from monet.schedule.expansion.operator_arrays import OperatorArrays
from monet.schedule.simulation.records import WRITES, Entries, Steps


def gang_order(
    members: Sequence[OperatorSteps],
    by_operator: Sequence[OperatorArrays],
    begins: Sequence[int],
    entries: Entries,
    n_blocks: int,
    ahead: int,
) -> I64x2:
    """(first step, last step) of every gang of a group in execution order, counted from its first step; ``begins``:
    where the steps of its operators begin. Cores run ``ahead`` tiles for every change of cores that follows."""
    need = np.concatenate(needed_by(members, by_operator, entries, n_blocks))
    many = [len(arrays.spans) for arrays in by_operator]
    position = np.repeat(np.arange(len(members)), many)
    within = np.concatenate([np.arange(count) for count in many])
    order = np.lexsort((within, position, need + ahead * np.array(stages(members))[position]))
    spans = np.concatenate([arrays.spans + begin for arrays, begin in zip(by_operator, begins, strict=True)])
    return np.asarray(spans[order])


def stages(members: Sequence[OperatorSteps]) -> list[int]:
    """How often the data has changed cores before it comes to each operator. In strict order two cores that take turns
    would wait for each other; in a pipeline the first one is a tile ahead."""
    made: dict[str, int] = {}
    touched: dict[str, int] = {}  # the last stage so far that reads or writes a storage: what overwrites it comes after
    found: list[int] = []
    for number, member in enumerate(members):
        stage = 0
        for operand, tensor in member.operator.operands:
            maker = made.get(tensor.storage)
            if operand.written:
                stage = max(stage, touched.get(tensor.storage, 0))
            elif maker is not None:
                same = set(members[maker].placement.cores) == set(member.placement.cores)
                stage = max(stage, found[maker] + (not same))
        found.append(stage)
        for operand, tensor in member.operator.operands:
            touched[tensor.storage] = max(stage, touched.get(tensor.storage, 0))
            if operand.written:
                made[tensor.storage] = number
    return found


def needed_by(
    members: Sequence[OperatorSteps], by_operator: Sequence[OperatorArrays], entries: Entries, n_blocks: int
) -> list[I64]:
    """For every gang of every operator the number of the first result tile that needs it."""
    late = max(member.steps.tiles for member in members)
    first = np.full(n_blocks, late, np.int64)  # by block: the first result tile that reads it
    result: list[I64] = [np.zeros(0, np.int64)] * len(members)
    ends = np.cumsum([arrays.counts[1] for arrays in by_operator])
    for index in reversed(range(len(members))):
        member, steps, spans = members[index], Steps.of(by_operator[index].steps), by_operator[index].spans
        mine = slice(ends[index] - by_operator[index].counts[1], ends[index])
        block, written = entries.block[mine], np.isin(entries.kind[mine], WRITES)
        tiles, adds = member.steps.tiles, spans[:, 0] >= by_operator[index].main
        gang_of = np.empty(len(steps), np.int64)
        gang_of[np.concatenate([np.arange(low, high) for low, high in spans])] = np.repeat(
            np.arange(len(spans)), spans[:, 1] - spans[:, 0]
        )
        gang = np.repeat(gang_of, steps.entry_end - steps.entry_start)
        tile = np.cumsum(~adds) - 1
        own = tile * late // tiles if tiles < late else tile
        need = np.full(len(spans), late, np.int64)
        for kind in (adds, ~adds):  # additions read what tiles before them write
            here = kind[gang]
            write, read = written & here, ~written & here
            np.minimum.at(need, gang[write], first[block[write]])
            need = np.where(kind & (need >= late), own, need)
            np.minimum.at(first, block[read], need[gang[read]])
        result[index] = need
    return result
