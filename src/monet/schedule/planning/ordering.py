"""Depth-first order of the tiles of a fusion group: each tile as late as the first result that needs it allows, but
ahead by a tile for every change of cores that follows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monet.arrays import I64, I64x2
from monet.compiled import kernel
from monet.schedule.costs.cost_table import OperatorSteps
from monet.schedule.expansion.operator_arrays import GangEntries, OperatorArrays
from monet.schedule.simulation.records import HOLD_WRITE, KEEP_WRITE, STREAM_WRITE, Entries


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
    need = needed_by(by_operator, [member.steps.tiles for member in members], entries, n_blocks)
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


def needed_by(by_operator: Sequence[OperatorArrays], tiles: Sequence[int], entries: Entries, n_blocks: int) -> I64:
    """For every gang of every operator, one operator after another, the number of the first result tile that needs it.
    ``tiles``: of every operator."""
    gangs = [arrays.gangs for arrays in by_operator]
    late, ends = max(tiles), np.cumsum([arrays.counts[1] for arrays in by_operator])
    for table, arrays, end, many in zip(gangs, by_operator, ends.tolist(), tiles, strict=True):
        table.first[:] += end - arrays.counts[1]
        table.last[:] += end - arrays.counts[1]
        if many < late:
            table.own[:] = table.own * late // many
    whose = np.repeat(np.arange(len(gangs)), list(map(len, gangs)))
    need = np.empty(len(whose), np.int64)
    first_needed(GangEntries.of(np.concatenate([table.plain for table in gangs])), whose, entries, late, n_blocks, need)
    return need


@kernel
def first_needed(gangs: GangEntries, whose: I64, entries: Entries, late: int, n_blocks: int, need: I64) -> None:
    """Fill in ``need``: of every gang the first result tile that needs it. ``whose``: the operator of each."""
    first = np.full(n_blocks, late, np.int64)  # by block: the first result tile that reads it
    end = whose.size
    while end > 0:
        begin = end
        while begin > 0 and whose[begin - 1] == whose[end - 1]:
            begin -= 1
        for adds in (1, 0):  # additions read what tiles before them write
            for g in range(begin, end):
                if gangs[g].adds == adds:
                    need[g] = late
                    for e in range(gangs[g].first, gangs[g].last):
                        if entries[e].kind in (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE):
                            need[g] = min(need[g], first[entries[e].block])
                    if need[g] >= late:
                        need[g] = gangs[g].own
            for g in range(begin, end):
                if gangs[g].adds == adds:
                    for e in range(gangs[g].first, gangs[g].last):
                        if entries[e].kind not in (HOLD_WRITE, STREAM_WRITE, KEEP_WRITE):
                            first[entries[e].block] = min(first[entries[e].block], need[g])
        end = begin
