"""Numba kernel: exact element counts of sliding-window tiles, by marking every position that a tile touches."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.mapping.compiled import kernel

Array = np.ndarray[Any, Any]


@kernel("Tuple((i8[:,::1], i8[:,::1], i8[:,:,::1], i8[:,:,::1], i8[::1]))(i8[::1], i8[::1], i8[::1])")
def window_tables(geometry: Array, tiles_u: Array, tiles_v: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Counts for all pairs of tiles; see ``footprint.WindowTables`` for their meaning."""
    a, b, offset, length = geometry[0], geometry[1], geometry[2], geometry[3]
    size_u, unrolled_u, inside_u = geometry[4], geometry[5], geometry[6]
    size_v, unrolled_v, inside_v = geometry[7], geometry[8], geometry[9]
    many_u, many_v = tiles_u.size, tiles_v.size
    largest = np.zeros((many_u, many_v), np.int64)
    total = np.zeros((many_u, many_v), np.int64)
    kept_u = np.zeros((many_u, many_u, many_v), np.int64)
    kept_v = np.zeros((many_v, many_v, many_u), np.int64)
    scalars = np.zeros(2, np.int64)
    marks = np.zeros(length, np.int64)
    stamp = 0
    for u in range(size_u):
        for v in range(size_v):
            position = a * u + b * v + offset
            if 0 <= position < length:
                scalars[0] += 1
                if marks[position] == 0:
                    marks[position] = 1
                    scalars[1] += 1
    marks[:] = 0
    steps_u, steps_v = -(-size_u // unrolled_u), -(-size_v // unrolled_v)
    for i in range(many_u):
        tile_u = tiles_u[i]
        count_u = -(-steps_u // tile_u)
        for j in range(many_v):
            tile_v = tiles_v[j]
            count_v = -(-steps_v // tile_v)
            for lane_u in range(unrolled_u // inside_u):
                for lane_v in range(unrolled_v // inside_v):
                    for p in range(count_u):
                        for q in range(count_v):
                            # pass 0: the tile alone; 1: with its next along u; 2: with its next along v
                            here = 0
                            for what in range(3):
                                if (what == 1 and p + 1 >= count_u) or (what == 2 and q + 1 >= count_v):
                                    continue
                                stamp += 1
                                seen, following = 0, 0
                                first_u, last_u = p * tile_u, min(steps_u, (p + 1) * tile_u)
                                first_v, last_v = q * tile_v, min(steps_v, (q + 1) * tile_v)
                                if what == 1:
                                    first_u, last_u = last_u, min(steps_u, last_u + tile_u)
                                if what == 2:
                                    first_v, last_v = last_v, min(steps_v, last_v + tile_v)
                                for repeat in range(1 if what == 0 else 2):
                                    if repeat == 1:  # add the tile itself to its successor: what is new was not kept
                                        first_u, last_u = p * tile_u, min(steps_u, (p + 1) * tile_u)
                                        first_v, last_v = q * tile_v, min(steps_v, (q + 1) * tile_v)
                                    for chunk_u in range(first_u, last_u):
                                        for within_u in range(inside_u):
                                            u = chunk_u * unrolled_u + lane_u * inside_u + within_u
                                            if u >= size_u:
                                                break
                                            for chunk_v in range(first_v, last_v):
                                                for within_v in range(inside_v):
                                                    v = chunk_v * unrolled_v + lane_v * inside_v + within_v
                                                    if v >= size_v:
                                                        break
                                                    position = a * u + b * v + offset
                                                    if 0 <= position < length and marks[position] != stamp:
                                                        marks[position] = stamp
                                                        seen += 1
                                    if repeat == 0:
                                        following = seen
                                if what == 0:
                                    here = seen
                                    total[i, j] += seen
                                    largest[i, j] = max(largest[i, j], seen)
                                elif what == 1:
                                    kept = here + following - seen
                                    for s in range(i + 1, many_u):
                                        if (p + 1) * tile_u % tiles_u[s] != 0:
                                            kept_u[i, s, j] += kept
                                else:
                                    kept = here + following - seen
                                    for s in range(j + 1, many_v):
                                        if (q + 1) * tile_v % tiles_v[s] != 0:
                                            kept_v[j, s, i] += kept
    return largest, total, kept_u, kept_v, scalars
