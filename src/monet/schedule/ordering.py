"""Depth-first order of the tiles of a fusion group: each tile as late as the first result that needs it allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from monet.schedule import decide as d

if TYPE_CHECKING:
    from monet.schedule.expand import Expansion, OperatorSteps, Rows

Array = np.ndarray[Any, Any]


def gang_order(members: list[OperatorSteps], building: Expansion) -> list[tuple[int, int]]:
    """(first step, last step) of every gang of a group, in execution order; its operators were expanded last."""
    if len(members) == 1:
        one = members[0]
        pieces = one.steps.pieces
        return [(one.base + tile * pieces, one.base + (tile + 1) * pieces) for tile in range(one.steps.tiles)]
    many = len(members)
    rows = building.rows[-many:]
    touched = np.split(building.entries(many), np.cumsum([len(one.entries) for one in rows])[:-1])
    needs = needed_by(members, rows, touched, building.n_blocks)
    tiles = [one.steps.tiles for one in members]
    need = np.concatenate(needs)
    position = np.repeat(np.arange(len(members)), tiles)
    tile = np.concatenate([np.arange(count) for count in tiles])
    order = np.lexsort((tile, position, need))
    starts = (
        np.array([one.base for one in members])[position]
        + tile * np.array([one.steps.pieces for one in members])[position]
    )
    widths = np.array([one.steps.pieces for one in members])[position]
    return [(int(starts[i]), int(starts[i] + widths[i])) for i in order]


def needed_by(members: list[OperatorSteps], rows: list[Rows], touched: list[Array], n_blocks: int) -> list[Array]:
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
