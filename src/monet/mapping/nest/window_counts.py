"""Numba kernel: exact element counts of sliding-window tiles, by marking every position that a tile touches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from monet.arrays import I64, I64x2, I64x3
from monet.compiled import kernel, part


class Geometry(NamedTuple):
    """Position a·u + b·v + offset of a tensor of ``length``. Lanes of ``inside`` neighbours are unrolled along u and v;
    a tile is some chunks of all that is unrolled."""

    a: int
    b: int
    offset: int
    length: int
    size_u: int
    unrolled_u: int
    inside_u: int
    chunks_u: int
    size_v: int
    unrolled_v: int
    inside_v: int
    chunks_v: int


class Tile(NamedTuple):
    """Chunks of one tile along u and v, and the lanes that are looked at."""

    size_u: int
    size_v: int
    lane_u: int
    lane_v: int


class Counts(NamedTuple):
    """What is counted, by tile of u and tile of v, and the stamp of the tile that last touched each position."""

    tiles_u: I64
    tiles_v: I64
    largest: I64x2
    total: I64x2
    kept_u: I64x3
    kept_v: I64x3
    marks: I64


@kernel
def window_tables(g: Geometry, tiles_u: I64, tiles_v: I64) -> tuple[I64x2, I64x2, I64x3, I64x3, I64]:
    """Counts for all pairs of tiles; see ``footprint.WindowTables`` for their meaning."""
    many_u, many_v = tiles_u.size, tiles_v.size
    counts = Counts(
        tiles_u,
        tiles_v,
        np.zeros((many_u, many_v), np.int64),
        np.zeros((many_u, many_v), np.int64),
        np.zeros((many_u, many_u, many_v), np.int64),
        np.zeros((many_v, many_v, many_u), np.int64),
        np.zeros(g.length, np.int64),
    )
    scalars = np.zeros(2, np.int64)
    scalars[0], scalars[1] = whole_window(g, counts.marks)
    stamp = 1
    for i in range(many_u):
        for j in range(many_v):
            for lane_u in range(g.unrolled_u // g.inside_u):
                for lane_v in range(g.unrolled_v // g.inside_v):
                    tile = Tile(tiles_u[i], tiles_v[j], lane_u, lane_v)
                    stamp = count_tiles(i, j, tile, stamp, g, counts)
    return counts.largest, counts.total, counts.kept_u, counts.kept_v, scalars


@part(allocates=False)
def whole_window(g: Geometry, marks: I64) -> tuple[int, int]:
    """Pairs (u, v) that fall inside the tensor, and positions that they touch; marks those with 1."""
    points, distinct = 0, 0
    for u in range(g.size_u):
        for v in range(g.size_v):
            position = g.a * u + g.b * v + g.offset
            if 0 <= position < g.length:
                points += 1
                if marks[position] == 0:
                    marks[position] = 1
                    distinct += 1
    return points, distinct


@part(allocates=False)
def count_tiles(i: int, j: int, tile: Tile, stamp: int, g: Geometry, counts: Counts) -> int:
    """Count all tiles of a size, each alone and with its next along u and along v; returns the last stamp used."""
    count_u, count_v = -(-g.chunks_u // tile.size_u), -(-g.chunks_v // tile.size_v)
    for p in range(count_u):
        for q in range(count_v):
            stamp += 1
            here = mark(stamp, p, q, tile, g, counts.marks)
            counts.total[i, j] += here
            counts.largest[i, j] = max(counts.largest[i, j], here)
            for along_u in (True, False):
                next_p, next_q = (p + 1, q) if along_u else (p, q + 1)
                if next_p >= count_u or next_q >= count_v:
                    continue
                stamp += 1
                mark(stamp, next_p, next_q, tile, g, counts.marks)
                kept = here - mark(stamp, p, q, tile, g, counts.marks)  # what the tile does not add to its successor
                if along_u:
                    keep_within_spans(i, next_p * tile.size_u, kept, counts.tiles_u, counts.kept_u[:, :, j])
                else:
                    keep_within_spans(j, next_q * tile.size_v, kept, counts.tiles_v, counts.kept_v[:, :, i])
    return stamp


@part(allocates=False)
def keep_within_spans(tile: int, start: int, kept: int, tiles: I64, counts: I64x2) -> None:
    """What stays for the tile that starts at ``start`` counts in all larger tiles that do not begin there as well."""
    for span in range(tile + 1, tiles.size):
        if start % tiles[span] != 0:
            counts[tile, span] += kept


@part(allocates=False)
def mark(stamp: int, p: int, q: int, tile: Tile, g: Geometry, marks: I64) -> int:
    """Mark the positions that tile (p, q) touches in its lanes; how many did not have the stamp yet."""
    new = 0
    for chunk_u in range(p * tile.size_u, min(g.chunks_u, (p + 1) * tile.size_u)):
        for within_u in range(g.inside_u):
            u = chunk_u * g.unrolled_u + tile.lane_u * g.inside_u + within_u
            if u >= g.size_u:
                break
            for chunk_v in range(q * tile.size_v, min(g.chunks_v, (q + 1) * tile.size_v)):
                for within_v in range(g.inside_v):
                    v = chunk_v * g.unrolled_v + tile.lane_v * g.inside_v + within_v
                    if v >= g.size_v:
                        break
                    position = g.a * u + g.b * v + g.offset
                    if 0 <= position < g.length and marks[position] != stamp:
                        marks[position] = stamp
                        new += 1
    return new
