"""Numba kernel: branch and bound over uneven tilings of one frame.

A node has placed the cuts of the outermost levels. A child places one more: it picks a slot, and for the dimensions
that index it a tile that fits. Dimensions that do not index the slot stay inside its cut: moving their loops inward
costs that slot nothing and constrains no other. So the order of cuts takes the place of loop orders (stationarity
classes), and entries follow from tiles alone; only the innermost loop of a block matters beyond that, for windows that
slide.

Bound: exact cost of the cuts placed, and for the others the fewest entries that the tile reached allows. Children are
visited in order of their bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.mapping.compiled import kernel

Array = np.ndarray[Any, Any]

SIGNATURE = (
    "Tuple((f8[::1], i8[:,::1]))("
    "i8[::1], f8[:,::1], u1[:,:,::1], u1[:,::1], u1[:,::1], i8[::1], i8[:,::1], i8[::1], f8[:,::1], i8[::1], "
    "i8[:,:,::1], f8[:,:,:,::1], f8[:,:,:,::1], f8[:,:,:,:,::1], f8[:,:,:,:,::1], f8[:,::1], i8[::1], f8[::1], "
    "f8[:,::1], f8[::1], i8[:,::1], u1[::1], f8[::1])"
)


@kernel(SIGNATURE)
def best_tiling(
    candidates: Array,  # [dim] how many tiles there are
    visits: Array,  # [dim, tile] tiles of that size along the dimension
    nests: Array,  # [dim, outer tile, inner tile] whether one may be cut from the other
    relevant: Array,  # [slot, dim]
    plain: Array,  # [slot, dim] relevant, and not part of a window
    slot_of: Array,  # [cut]
    cut_at: Array,  # [slot, n] cuts of a slot, outermost first
    cuts_of: Array,  # [slot] how many
    widths: Array,  # [cut, dim * tile] elements of a plain dimension in a tile, flattened
    windows_of: Array,  # [slot] how many windows
    window_dims: Array,  # [slot, window, 2] dimensions u and v, or -1
    largest: Array,  # [cut, window, tile u, tile v]
    total: Array,  # [cut, window, tile u, tile v]
    kept_u: Array,  # [cut, window, tile u, span, tile v]
    kept_v: Array,  # [cut, window, tile v, span, tile u]
    per_cut: Array,  # [cut, 11] see tiling.py
    memory_of: Array,  # [cut]
    room: Array,  # [memory] bits
    port_slope: Array,  # [port, cut] cycles per entry
    port_base: Array,  # [port] cycles
    limits: Array,  # [cut, dim] largest tile allowed
    pinned: Array,  # [cut] entries must be the fewest possible
    scalars: Array,  # compute, constant fill, inputs share a port, base energy, objective, tie weight, score to beat
) -> tuple[Array, Array]:
    """(score, cycles, energy, nodes) and per cut, outermost first: [cut, innermost dim, tiles …].

    Cycles are infinite if nothing fits or nothing beats the score given.
    """
    dims, cuts, ports = candidates.size, slot_of.size, port_base.size
    width = visits.shape[1]
    compute, constant_fill, shared, base_energy = scalars[0], scalars[1], scalars[2], scalars[3]
    objective, tie = int(scalars[4]), scalars[5]
    slots = relevant.shape[0]
    has_window = np.zeros((slots, dims), np.uint8)
    for s in range(slots):
        for w in range(windows_of[s]):
            for side in range(2):
                if window_dims[s, w, side] >= 0:
                    has_window[s, window_dims[s, w, side]] = 1

    at = np.zeros((cuts + 1, dims), np.int64)
    placed = np.zeros((cuts + 1, slots), np.int64)
    energy = np.zeros(cuts + 1)
    load = np.zeros((cuts + 1, ports))
    exposed = np.zeros(cuts + 1)
    chain = np.zeros((cuts + 1, slots))
    used = np.zeros((cuts + 1, room.size))
    inner = np.full(cuts + 1, -1, np.int64)
    span = np.zeros(cuts + 1, np.int64)
    for d in range(dims):
        at[0, d] = candidates[d] - 1
    energy[0] = base_energy
    for p in range(ports):
        load[0, p] = port_base[p]

    capacity = 1024
    bounds = np.empty((max(cuts, 1), capacity))
    records = np.empty((max(cuts, 1), capacity, dims + 4), np.int64)
    values = np.empty((max(cuts, 1), capacity, 4))
    many = np.zeros(cuts + 1, np.int64)
    turn = np.zeros(cuts + 1, np.int64)
    orders = np.empty((max(cuts, 1), capacity), np.int64)
    result = np.array([scalars[6], np.inf, np.inf, 0.0])
    path = np.full((max(cuts, 1), dims + 2), -1, np.int64)
    trail = np.full((max(cuts, 1), dims + 2), -1, np.int64)
    free = np.zeros(dims, np.uint8)
    pick = np.zeros(dims, np.int64)
    rest = np.empty(slots)

    if cuts == 0:
        peak = compute
        for p in range(ports):
            peak = max(peak, port_base[p])
        cycles = peak + constant_fill
        score = cycles + tie * base_energy if objective == 0 else base_energy + tie * cycles
        if objective == 2:
            score = cycles * base_energy
        if score < result[0]:
            result[0], result[1], result[2] = score, cycles, base_energy
        return result, path

    depth = 0
    expand = True
    while depth >= 0:
        if expand:
            # --- all children of the node at this depth
            count = 0
            result[3] += 1
            for x in range(slots):
                if placed[depth, x] >= cuts_of[x]:
                    continue
                k = cut_at[x, placed[depth, x]]
                other = -1  # a later slot whose window could slide through this cut
                for s in range(slots):
                    if s != x and windows_of[s] > 0 and placed[depth, s] < cuts_of[s]:
                        other = s
                k2 = cut_at[other, placed[depth, other]] if other >= 0 else -1
                for passing in range(2 if other >= 0 else 1):
                    for d in range(dims):
                        free[d] = relevant[x, d] or (passing == 1 and relevant[other, d])
                        pick[d] = 0 if free[d] else at[depth, d]
                    while True:
                        # --- is this tile allowed, and does it fit?
                        allowed = True
                        for d in range(dims):
                            if not nests[d, at[depth, d], pick[d]] or pick[d] > limits[k, d]:
                                allowed = False
                                break
                        elements = per_cut[k, 1]
                        if allowed:
                            for d in range(dims):
                                if plain[x, d]:
                                    elements *= widths[k, d * width + pick[d]]
                            for w in range(windows_of[x]):
                                u, v = window_dims[x, w, 0], window_dims[x, w, 1]
                                elements *= largest[k, w, pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0]
                            allowed = used[depth, memory_of[k]] + elements * per_cut[k, 2] <= room[memory_of[k]]
                        if allowed and passing == 1:  # the window must fit the very same tile, or it cannot slide here
                            wide = per_cut[k2, 1]
                            for d in range(dims):
                                if plain[other, d]:
                                    wide *= widths[k2, d * width + pick[d]]
                            for w in range(windows_of[other]):
                                u, v = window_dims[other, w, 0], window_dims[other, w, 1]
                                wide *= largest[k2, w, pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0]
                            allowed = used[depth, memory_of[k2]] + wide * per_cut[k2, 2] <= room[memory_of[k2]]
                        if allowed:
                            seen = 1.0
                            changed, only = 0, -1
                            one_step = True
                            for d in range(dims):
                                if not relevant[x, d]:
                                    seen *= visits[d, pick[d]]
                                elif pick[d] > 0:
                                    one_step = False
                                if pick[d] != at[depth, d]:
                                    changed += 1
                                    only = d
                            for s in range(slots):
                                rest[s] = 1.0
                                for d in range(dims):
                                    if not relevant[s, d]:
                                        rest[s] *= visits[d, pick[d]]
                            if not (pinned[k] and seen > 1.0):
                                for choice in range(-1, dims):
                                    # the innermost loop of the block above this cut
                                    r, reach = choice, 0
                                    if choice < 0:
                                        if passing == 1:
                                            continue
                                        if changed == 0:
                                            r, reach = inner[depth], span[depth]
                                    else:
                                        if pick[choice] == at[depth, choice]:
                                            continue
                                        if passing == 1 and not has_window[other, choice]:
                                            continue
                                        if passing == 0 and not has_window[x, choice]:
                                            continue
                                        reach = at[depth, choice]
                                        if changed == 1 and only == choice and inner[depth] == choice:
                                            reach = span[depth]
                                        keeper, kept_cut = (other, k2) if passing == 1 else (x, k)
                                        if placed[depth, keeper] + 1 >= cuts_of[keeper]:
                                            slides = False  # nothing would stay: as good as any other loop
                                            for w in range(windows_of[keeper]):
                                                u, v = window_dims[keeper, w, 0], window_dims[keeper, w, 1]
                                                i, j = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
                                                if u == choice and kept_u[kept_cut, w, i, reach, j] > 0:
                                                    slides = True
                                                if v == choice and kept_v[kept_cut, w, j, reach, i] > 0:
                                                    slides = True
                                            if not slides:
                                                continue
                                    whole, stays = per_cut[k, 0], 0.0
                                    for w in range(windows_of[x]):
                                        u, v = window_dims[x, w, 0], window_dims[x, w, 1]
                                        i, j = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
                                        here = total[k, w, i, j]
                                        keep = 0.0
                                        if r >= 0 and r == u:
                                            keep = kept_u[k, w, i, reach, j]
                                        elif r >= 0 and r == v:
                                            keep = kept_v[k, w, j, reach, i]
                                        stays = stays * here + whole * keep
                                        whole *= here
                                    entries = seen * (whole - stays)
                                    # --- bound of this child
                                    joules = energy[depth] + per_cut[k, 3] * entries
                                    waits = exposed[depth]
                                    if not one_step and elements * per_cut[k, 2] > per_cut[k, 10]:
                                        waits += per_cut[k, 4] * entries + per_cut[k, 5]
                                    fill = per_cut[k, 6] * elements
                                    chain_i, chain_w, chain_o = chain[depth, 0], chain[depth, 1], chain[depth, 2]
                                    if x == 0:
                                        chain_i += fill
                                    elif x == 1:
                                        chain_w += fill
                                    else:
                                        chain_o += fill
                                    for s in range(slots):
                                        first = placed[depth, s] + (1 if s == x else 0)
                                        for n in range(first, cuts_of[s]):
                                            later = cut_at[s, n]
                                            joules += per_cut[later, 3] * rest[s] * per_cut[later, 7]
                                            least = per_cut[later, 6] * per_cut[later, 8]
                                            if s == 0:
                                                chain_i += least
                                            elif s == 1:
                                                chain_w += least
                                            else:
                                                chain_o += least
                                    peak = compute + waits
                                    for p in range(ports):
                                        busy = load[depth, p] + port_slope[p, k] * entries
                                        for s in range(slots):
                                            first = placed[depth, s] + (1 if s == x else 0)
                                            for n in range(first, cuts_of[s]):
                                                later = cut_at[s, n]
                                                slope = port_slope[p, later]
                                                fewest = rest[s] * per_cut[later, 7]
                                                busy += slope * (fewest if slope >= 0 else per_cut[later, 9])
                                        peak = max(peak, busy)
                                    fills = chain_i + chain_w if shared > 0 else max(chain_i, chain_w)
                                    cycles = peak + constant_fill + fills + chain_o
                                    score = cycles + tie * joules if objective == 0 else joules + tie * cycles
                                    if objective == 2:
                                        score = cycles * joules
                                    if score >= result[0] * (1 - 1e-12):
                                        continue
                                    if depth + 1 == cuts:
                                        result[0], result[1], result[2] = score, cycles, joules
                                        path[:] = trail
                                        path[depth, 0] = k
                                        path[depth, 1] = r
                                        for d in range(dims):
                                            path[depth, 2 + d] = pick[d]
                                        continue
                                    if count == capacity:
                                        bounds_new = np.empty((cuts, 2 * capacity))
                                        records_new = np.empty((cuts, 2 * capacity, dims + 4), np.int64)
                                        values_new = np.empty((cuts, 2 * capacity, 4))
                                        orders_new = np.empty((cuts, 2 * capacity), np.int64)
                                        bounds_new[:, :capacity] = bounds
                                        records_new[:, :capacity] = records
                                        values_new[:, :capacity] = values
                                        orders_new[:, :capacity] = orders
                                        bounds, records, values, orders = (
                                            bounds_new,
                                            records_new,
                                            values_new,
                                            orders_new,
                                        )
                                        capacity *= 2
                                    bounds[depth, count] = score
                                    records[depth, count, 0] = k
                                    records[depth, count, 1] = r
                                    records[depth, count, 2] = reach
                                    records[depth, count, 3] = 1 if one_step else 0
                                    for d in range(dims):
                                        records[depth, count, 4 + d] = pick[d]
                                    values[depth, count, 0] = entries
                                    values[depth, count, 1] = elements
                                    values[depth, count, 2] = fill
                                    values[depth, count, 3] = waits
                                    count += 1
                        # --- next tile
                        d = 0
                        while d < dims:
                            if free[d]:
                                pick[d] += 1
                                if pick[d] <= at[depth, d]:
                                    break
                                pick[d] = 0
                            d += 1
                        if d == dims:
                            break
            many[depth] = count
            turn[depth] = 0
            orders[depth, :count] = np.argsort(bounds[depth, :count])
        # --- go down into the best child left, or back up
        if turn[depth] >= many[depth]:
            depth -= 1
            expand = False
            continue
        child = orders[depth, turn[depth]]
        turn[depth] += 1
        if bounds[depth, child] >= result[0] * (1 - 1e-12):
            depth -= 1
            expand = False
            continue
        k = records[depth, child, 0]
        x = slot_of[k]
        entries = values[depth, child, 0]
        for d in range(dims):
            at[depth + 1, d] = records[depth, child, 4 + d]
            trail[depth, 2 + d] = records[depth, child, 4 + d]
        trail[depth, 0], trail[depth, 1] = k, records[depth, child, 1]
        for s in range(slots):
            placed[depth + 1, s] = placed[depth, s] + (1 if s == x else 0)
            chain[depth + 1, s] = chain[depth, s] + (values[depth, child, 2] if s == x else 0.0)
        for m in range(room.size):
            used[depth + 1, m] = used[depth, m]
        used[depth + 1, memory_of[k]] += values[depth, child, 1] * per_cut[k, 2]
        energy[depth + 1] = energy[depth] + per_cut[k, 3] * entries
        exposed[depth + 1] = values[depth, child, 3]
        for p in range(ports):
            load[depth + 1, p] = load[depth, p] + port_slope[p, k] * entries
        inner[depth + 1], span[depth + 1] = records[depth, child, 1], records[depth, child, 2]
        depth += 1
        expand = True
    return result, path
