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

from monet.mapping.compiled import kernel, part

Array = np.ndarray[Any, Any]

SIGNATURE = (
    "Tuple((f8[::1], i8[:,::1]))("
    "i8[::1], f8[:,::1], u1[:,:,::1], u1[:,::1], u1[:,::1], i8[::1], i8[:,::1], i8[::1], f8[:,::1], i8[::1], "
    "i8[:,:,::1], f8[:,:,:,::1], f8[:,:,:,::1], f8[:,:,:,:,::1], f8[:,:,:,:,::1], f8[:,::1], i8[::1], f8[::1], "
    "f8[:,::1], f8[::1], i8[:,::1], u1[::1], f8[::1])"
)


@part(allocates=False)
def tile_size(
    k: int, x: int, pick: Array, plain: Array, widths: Array, width: int, windows_of: Array, window_dims: Array,
    largest: Array, fixed: float,
) -> float:  # fmt: skip
    """Elements of the largest tile of cut ``k``."""
    elements = fixed
    for d in range(pick.size):
        if plain[x, d]:
            elements *= widths[k, d * width + pick[d]]
    for w in range(windows_of[x]):
        u, v = window_dims[x, w, 0], window_dims[x, w, 1]
        elements *= largest[k, w, pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0]
    return elements


@part(allocates=True)
def window_floors(total: Array, kept_u: Array, kept_v: Array) -> tuple[Array, Array]:
    """[cut, window, tile u, tile v]: the fewest positions that enter with these tiles or smaller ones, and the fewest
    if this window slides."""
    cuts, windows, wide, _ = total.shape
    whole, slid = total.copy(), total.copy()
    for k in range(cuts):
        for w in range(windows):
            for a in range(wide):
                for b in range(wide):
                    most = 0.0
                    for s in range(wide):
                        most = max(most, kept_u[k, w, a, s, b], kept_v[k, w, b, s, a])
                    slid[k, w, a, b] -= most
                    if a > 0:
                        whole[k, w, a, b] = min(whole[k, w, a, b], whole[k, w, a - 1, b])
                        slid[k, w, a, b] = min(slid[k, w, a, b], slid[k, w, a - 1, b])
                    if b > 0:
                        whole[k, w, a, b] = min(whole[k, w, a, b], whole[k, w, a, b - 1])
                        slid[k, w, a, b] = min(slid[k, w, a, b], slid[k, w, a, b - 1])
    return whole, slid


@part(allocates=False)
def fewest(
    k: int, x: int, pick: Array, windows_of: Array, window_dims: Array, whole: Array, slid: Array, per_cut: Array
) -> float:
    """Fewest entries of cut ``k`` in one visit, with the tiles picked or smaller ones. At most one window slides."""
    all_whole, one_slides = per_cut[k, 0], per_cut[k, 0]
    for w in range(windows_of[x]):
        u, v = window_dims[x, w, 0], window_dims[x, w, 1]
        a, b = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
        one_slides = min(one_slides * whole[k, w, a, b], all_whole * slid[k, w, a, b])
        all_whole *= whole[k, w, a, b]
    return float(max(one_slides, per_cut[k, 7]))


@part(allocates=False)
def conflict(
    x: int, pick: Array, placed: Array, depth: int, relevant: Array, visits: Array, cut_at: Array, cuts_of: Array,
    per_cut: Array, rest: Array, least: Array, caps: Array,
) -> float:  # fmt: skip
    """Joules that cannot be saved because of two innermost cuts one lies inside the other, whose small tile then makes
    the inner one's operand come more often; the dearest pair counts."""
    slots, dims = relevant.shape
    dearest = 0.0
    for s in range(slots):
        if placed[depth, s] + (1 if s == x else 0) >= cuts_of[s]:
            continue
        for t in range(s + 1, slots):
            if placed[depth, t] + (1 if t == x else 0) >= cuts_of[t]:
                continue
            p, q = cut_at[s, cuts_of[s] - 1], cut_at[t, cuts_of[t] - 1]
            inner_p, inner_q = 1.0, 1.0
            for d in range(dims):
                if not relevant[s, d]:
                    inner_p *= visits[d, min(pick[d], caps[q, d])]
                if not relevant[t, d]:
                    inner_q *= visits[d, min(pick[d], caps[p, d])]
            more_p = per_cut[p, 3] * least[p] * (inner_p / rest[s] - 1.0)
            more_q = per_cut[q, 3] * least[q] * (inner_q / rest[t] - 1.0)
            dearest = max(dearest, min(more_p, more_q))
    return dearest


@part(allocates=True)
def largest_alone(
    candidates: Array, slot_of: Array, relevant: Array, plain: Array, widths: Array, width: int, windows_of: Array,
    window_dims: Array, largest: Array, per_cut: Array, memory_of: Array, room: Array,
) -> Array:  # fmt: skip
    """[cut, dim] the largest tile of a dimension that fits with all others at their smallest."""
    cuts, dims = slot_of.size, candidates.size
    caps = np.empty((cuts, dims), np.int64)
    pick = np.zeros(dims, np.int64)
    for k in range(cuts):
        x = slot_of[k]
        for d in range(dims):
            caps[k, d] = candidates[d] - 1
            while relevant[x, d] and caps[k, d] > 0:
                pick[d] = caps[k, d]
                size = tile_size(k, x, pick, plain, widths, width, windows_of, window_dims, largest, per_cut[k, 1])
                if size * per_cut[k, 2] <= room[memory_of[k]]:
                    break
                caps[k, d] -= 1
            pick[d] = 0
    return caps


@part(allocates=False)
def bound(
    x: int, k: int, entries: float, fill: float, waits: float, pick: Array, energy: float, load: Array, chain: Array,
    placed: Array, depth: int, relevant: Array, visits: Array, cut_at: Array, cuts_of: Array, per_cut: Array,
    port_slope: Array, scalars: Array, rest: Array, least: Array, windows_of: Array, window_dims: Array, whole: Array,
    slid: Array, caps: Array,
) -> tuple[float, float, float]:  # fmt: skip
    """(score, cycles, joules) once cut ``k`` is placed, with the fewest entries for all cuts still to come."""
    slots, dims = relevant.shape
    joules = energy + per_cut[k, 3] * entries
    chain_i, chain_w, chain_o = chain[depth, 0], chain[depth, 1], chain[depth, 2]
    if x == 0:
        chain_i += fill
    elif x == 1:
        chain_w += fill
    else:
        chain_o += fill
    for s in range(slots):
        rest[s] = 1.0
        for d in range(dims):
            if not relevant[s, d]:
                rest[s] *= visits[d, pick[d]]
        for n in range(placed[depth, s] + (1 if s == x else 0), cuts_of[s]):
            later = cut_at[s, n]
            least[later] = rest[s] * fewest(later, s, pick, windows_of, window_dims, whole, slid, per_cut)
            joules += per_cut[later, 3] * least[later]
            first = per_cut[later, 6] * per_cut[later, 8]
            if s == 0:
                chain_i += first
            elif s == 1:
                chain_w += first
            else:
                chain_o += first
    joules += conflict(x, pick, placed, depth, relevant, visits, cut_at, cuts_of, per_cut, rest, least, caps)
    peak = scalars[0] + waits
    for p in range(load.shape[1]):
        busy = load[depth, p] + port_slope[p, k] * entries
        for s in range(slots):
            for n in range(placed[depth, s] + (1 if s == x else 0), cuts_of[s]):
                later = cut_at[s, n]
                slope = port_slope[p, later]
                busy += slope * (least[later] if slope >= 0 else per_cut[later, 9])
        peak = max(peak, busy)
    fills = chain_i + chain_w if scalars[2] > 0 else max(chain_i, chain_w)
    cycles = peak + scalars[1] + fills + chain_o
    return score_of(cycles, joules, scalars), cycles, joules


@part(allocates=False)
def score_of(cycles: float, joules: float, scalars: Array) -> float:
    """What is minimised, by objective; the weight of the other quantity breaks ties."""
    if scalars[4] == 0:
        return float(cycles + scalars[5] * joules)
    if scalars[4] == 1:
        return float(joules + scalars[5] * cycles)
    return cycles * joules


@part(allocates=False)
def would_slide(
    k: int, x: int, moving: int, reach: int, pick: Array, windows_of: Array, window_dims: Array, kept_u: Array,
    kept_v: Array,
) -> bool:  # fmt: skip
    """Whether anything of a tile of cut ``k`` stays when ``moving`` is the loop right above it."""
    for w in range(windows_of[x]):
        u, v = window_dims[x, w, 0], window_dims[x, w, 1]
        a, b = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
        if u == moving and kept_u[k, w, a, reach, b] > 0:
            return True
        if v == moving and kept_v[k, w, b, reach, a] > 0:
            return True
    return False


@part(allocates=False)
def entries_into(
    k: int, x: int, moving: int, reach: int, pick: Array, windows_of: Array, window_dims: Array, total: Array,
    kept_u: Array, kept_v: Array, per_cut: Array,
) -> float:  # fmt: skip
    """Elements that enter cut ``k`` in one visit, with ``moving`` (-1: any) the loop right above it."""
    whole, stays = per_cut[k, 0], 0.0
    for w in range(windows_of[x]):
        u, v = window_dims[x, w, 0], window_dims[x, w, 1]
        a, b = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
        here, keep = total[k, w, a, b], 0.0
        if moving >= 0 and moving == u:
            keep = kept_u[k, w, a, reach, b]
        elif moving >= 0 and moving == v:
            keep = kept_v[k, w, b, reach, a]
        stays = stays * here + whole * keep
        whole *= here
    return float(whole - stays)


@part(allocates=False)
def descend(
    depth: int, child: int, records: Array, values: Array, slot_of: Array, memory_of: Array, per_cut: Array,
    port_slope: Array, at: Array, trail: Array, placed: Array, chain: Array, used: Array, energy: Array,
    exposed: Array, load: Array, inner: Array, span: Array,
) -> None:  # fmt: skip
    """The node of a child, one deeper: what is placed, used and spent once its cut is."""
    k = records[depth, child, 0]
    x, entries = slot_of[k], values[depth, child, 0]
    for d in range(at.shape[1]):
        at[depth + 1, d] = records[depth, child, 4 + d]
        trail[depth, 2 + d] = records[depth, child, 4 + d]
    trail[depth, 0], trail[depth, 1] = k, records[depth, child, 1]
    for s in range(placed.shape[1]):
        placed[depth + 1, s] = placed[depth, s] + (1 if s == x else 0)
        chain[depth + 1, s] = chain[depth, s] + (values[depth, child, 2] if s == x else 0.0)
    for m in range(used.shape[1]):
        used[depth + 1, m] = used[depth, m]
    used[depth + 1, memory_of[k]] += values[depth, child, 1] * per_cut[k, 2]
    energy[depth + 1] = energy[depth] + per_cut[k, 3] * entries
    exposed[depth + 1] = values[depth, child, 3]
    for p in range(load.shape[1]):
        load[depth + 1, p] = load[depth, p] + port_slope[p, k] * entries
    inner[depth + 1], span[depth + 1] = records[depth, child, 1], records[depth, child, 2]


@part(allocates=True)
def wider(bounds: Array, records: Array, values: Array, orders: Array) -> tuple[Array, Array, Array, Array]:
    """Twice the room for children at every depth."""
    cuts, many = bounds.shape
    bounds_new, orders_new = np.empty((cuts, 2 * many)), np.empty((cuts, 2 * many), np.int64)
    records_new = np.empty((cuts, 2 * many, records.shape[2]), np.int64)
    values_new = np.empty((cuts, 2 * many, values.shape[2]))
    bounds_new[:, :many], orders_new[:, :many] = bounds, orders
    records_new[:, :many], values_new[:, :many] = records, values
    return bounds_new, records_new, values_new, orders_new


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
    scalars: Array,  # compute, constant fill, shared port, base energy, objective, tie weight, score to beat, prune,
    # and two dimensions that may change places, or -1
) -> tuple[Array, Array]:
    """(score, cycles, energy, nodes) and per cut, outermost first: [cut, innermost dim, tiles …].

    Cycles are infinite if nothing fits or nothing beats the score given.
    """
    dims, cuts, ports = candidates.size, slot_of.size, port_base.size
    width = visits.shape[1]
    compute, constant_fill, base_energy = scalars[0], scalars[1], scalars[3]
    mirrored, twin = int(scalars[8]), int(scalars[9])
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
    free = np.zeros(dims, np.int64)
    pick = np.zeros(dims, np.int64)
    rest, least = np.empty(slots), np.empty(max(cuts, 1))
    whole_floor, slid_floor = window_floors(total, kept_u, kept_v)
    caps = largest_alone(
        candidates, slot_of, relevant, plain, widths, width, windows_of, window_dims, largest, per_cut, memory_of, room
    )

    if cuts == 0:
        peak = compute
        for p in range(ports):
            peak = max(peak, port_base[p])
        cycles = peak + constant_fill
        score = score_of(cycles, base_energy, scalars)
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
                    frees = 0
                    seen = 1.0
                    for d in range(dims):
                        pick[d] = at[depth, d]
                        if relevant[x, d] or (passing == 1 and relevant[other, d]):
                            free[frees] = d
                            frees += 1
                        elif not relevant[x, d]:
                            seen *= visits[d, pick[d]]
                    fixed_seen = seen
                    i = 0  # tiles dimension by dimension, the largest first
                    ready = frees == 0
                    if not ready:
                        pick[free[0]] += 1
                    while i >= 0:
                        if not ready:
                            d = free[i]
                            pick[d] -= 1
                            if pick[d] < 0:
                                pick[d] = at[depth, d]
                                i -= 1
                                continue
                            if not nests[d, at[depth, d], pick[d]] or (relevant[x, d] and pick[d] > limits[k, d]):
                                continue
                            if depth == 0 and d == twin and pick[mirrored] < pick[d]:
                                continue  # the same with rows and columns changed over
                            # the dimensions to come at their smallest: does it fit?
                            for n in range(i + 1, frees):
                                pick[free[n]] = 0
                            elements = tile_size(
                                k, x, pick, plain, widths, width, windows_of, window_dims, largest, per_cut[k, 1]
                            )
                            fits = used[depth, memory_of[k]] + elements * per_cut[k, 2] <= room[memory_of[k]]
                            if fits and passing == 1:  # the window must fit the very same tile, or it cannot slide here
                                wide = tile_size(
                                    k2, other, pick, plain, widths, width, windows_of, window_dims, largest,
                                    per_cut[k2, 1],
                                )  # fmt: skip
                                fits = used[depth, memory_of[k2]] + wide * per_cut[k2, 2] <= room[memory_of[k2]]
                            # and at their largest: could it win? smaller tiles of this dimension cannot do better
                            for n in range(i + 1, frees):
                                pick[free[n]] = at[depth, free[n]]
                            if not fits:
                                continue
                            seen = fixed_seen
                            for n in range(frees):
                                if not relevant[x, free[n]]:
                                    seen *= visits[free[n], pick[free[n]]]
                            few = seen * fewest(k, x, pick, windows_of, window_dims, whole_floor, slid_floor, per_cut)
                            floor = bound(
                                x, k, few, per_cut[k, 6] * per_cut[k, 8], exposed[depth], pick, energy[depth],
                                load, chain, placed, depth, relevant, visits, cut_at, cuts_of, per_cut,
                                port_slope, scalars, rest, least, windows_of, window_dims, whole_floor, slid_floor,
                                caps,
                            )[0]  # fmt: skip
                            if floor >= result[0] * scalars[7]:
                                pick[d] = at[depth, d]
                                i -= 1
                                continue
                            if i + 1 < frees:
                                i += 1
                                pick[free[i]] = at[depth, free[i]] + 1
                                continue
                        else:
                            i = -1  # no dimension to choose: one tile only
                            elements = tile_size(
                                k, x, pick, plain, widths, width, windows_of, window_dims, largest, per_cut[k, 1]
                            )
                            if used[depth, memory_of[k]] + elements * per_cut[k, 2] > room[memory_of[k]]:
                                continue
                        if pinned[k] and seen > 1.0:
                            continue
                        changed, only = 0, -1
                        one_step = True
                        for d in range(dims):
                            if relevant[x, d] and pick[d] > 0:
                                one_step = False
                            if pick[d] != at[depth, d]:
                                changed += 1
                                only = d
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
                                if placed[depth, keeper] + 1 >= cuts_of[keeper] and not would_slide(
                                    kept_cut, keeper, choice, reach, pick, windows_of, window_dims, kept_u, kept_v
                                ):
                                    continue  # nothing would stay: as good as any other loop
                            entries = seen * entries_into(
                                k, x, r, reach, pick, windows_of, window_dims, total, kept_u, kept_v, per_cut
                            )
                            # --- bound of this child
                            waits = exposed[depth]
                            if not one_step and elements * per_cut[k, 2] > per_cut[k, 10]:
                                waits += per_cut[k, 4] * entries + per_cut[k, 5]
                            fill = per_cut[k, 6] * elements
                            score, cycles, joules = bound(
                                x, k, entries, fill, waits, pick, energy[depth], load, chain, placed, depth,
                                relevant, visits, cut_at, cuts_of, per_cut, port_slope, scalars,
                                rest, least, windows_of, window_dims, whole_floor, slid_floor,
                                caps,
                            )  # fmt: skip
                            if score >= result[0] * scalars[7]:
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
                                bounds, records, values, orders = wider(bounds, records, values, orders)
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
        if bounds[depth, child] >= result[0] * scalars[7]:
            depth -= 1
            expand = False
            continue
        descend(
            depth, child, records, values, slot_of, memory_of, per_cut, port_slope, at, trail, placed, chain, used,
            energy, exposed, load, inner, span,
        )  # fmt: skip
        depth += 1
        expand = True
    return result, path
