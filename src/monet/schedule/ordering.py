"""Depth-first order of the tiles of a fusion group: each tile as late as the first result that needs it allows, but
ahead by a tile for every change of cores that follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from monet.schedule import decide as d
from monet.schedule.cost_table import OperatorSteps
from monet.schedule.rows import Rows

Array = np.ndarray[Any, Any]


def gang_order(
    members: Sequence[OperatorSteps], rows: Sequence[Rows], entries: Array, n_blocks: int, ahead: int
) -> Array:
    """(first step, last step) of every gang of a group in execution order, counted from its first step; cores run
    ``ahead`` tiles for every change of cores that follows."""
    touched = np.split(entries, np.cumsum([len(one.entries) for one in rows])[:-1])
    need = np.concatenate(needed_by(members, rows, touched, n_blocks))
    tiles = np.array([one.steps.tiles for one in members])
    position = np.repeat(np.arange(len(members)), tiles)
    tile = np.concatenate([np.arange(count) for count in tiles])
    order = np.lexsort((tile, position, need + ahead * np.array(stages(members))[position]))
    width = np.array([one.steps.pieces for one in members])[position]
    start = np.array([one.base - members[0].base for one in members])[position] + tile * width
    return np.stack([start[order], (start + width)[order]], axis=1)


def stages(members: Sequence[OperatorSteps]) -> list[int]:
    """How often the data has changed cores before it comes to each operator. In strict order two cores that take turns
    would wait for each other; in a pipeline the first one is a tile ahead."""
    made: dict[str, int] = {}
    touched: dict[str, int] = {}  # the last stage so far that reads or writes a storage: what overwrites it comes after
    found: list[int] = []
    for number, one in enumerate(members):
        stage = 0
        for operand, tensor in one.operator.operands:
            maker = made.get(tensor.storage)
            if operand.written:
                stage = max(stage, touched.get(tensor.storage, 0))
            elif maker is not None:
                same = set(members[maker].placement.cores) == set(one.placement.cores)
                stage = max(stage, found[maker] + (not same))
        found.append(stage)
        for operand, tensor in one.operator.operands:
            touched[tensor.storage] = max(stage, touched.get(tensor.storage, 0))
            if operand.written:
                made[tensor.storage] = number
    return found


def needed_by(
    members: Sequence[OperatorSteps], rows: Sequence[Rows], touched: Sequence[Array], n_blocks: int
) -> list[Array]:
    """For every tile of every operator the number of the first result tile that needs it."""
    late = max(one.steps.tiles for one in members)
    first = np.full(n_blocks, late, np.int64)  # by block: the first result tile that reads it
    result: list[Array] = [np.zeros(0, np.int64)] * len(members)
    for index in reversed(range(len(members))):
        one, entries, table = members[index], touched[index], rows[index].steps
        pieces, tiles = one.steps.pieces, one.steps.tiles
        tile_of = np.repeat(np.arange(one.steps.count) // pieces, table[:, d.ENTRY_END] - table[:, d.ENTRY_START])
        written = d.WRITES[entries[:, d.E_KIND]]
        need = np.full(tiles, late, np.int64)
        np.minimum.at(need, tile_of[written], first[entries[written, d.E_BLOCK]])
        own = np.arange(tiles) * late // tiles if tiles < late else np.arange(tiles)
        need = np.where(need >= late, own, need)
        result[index] = need
        np.minimum.at(first, entries[~written, d.E_BLOCK], need[tile_of[~written]])
    return result
