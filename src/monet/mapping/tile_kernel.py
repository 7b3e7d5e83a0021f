"""Numba kernel: rank the tiles in which an operator alone passes its operands between DRAM and the top memories."""

from __future__ import annotations

from typing import Any

import numpy as np

from monet.mapping.compiled import kernel

Array = np.ndarray[Any, Any]

SIGNATURE = (
    "Tuple((f8[::1], i8[:,::1]))("
    "i8[::1], f8[:,::1], f8[:,::1], u1[:,::1], u1[:,::1], f8[:,::1], i8[::1], i8[:,:,::1], f8[:,:,:,::1], "
    "f8[:,:,:,::1], f8[:,:,:,:,::1], f8[:,:,:,:,::1], f8[:,::1], f8[::1], i8)"
)


@kernel(SIGNATURE)
def rank_tiles(
    candidates: Array,  # [dim] how many tiles there are
    counts: Array,  # [dim, tile] tiles of that size along the dimension
    steps: Array,  # [dim, tile] array steps over all of them
    relevant: Array,  # [slot, dim]
    plain: Array,  # [slot, dim]
    widths: Array,  # [slot, dim * tile]
    windows_of: Array,  # [slot]
    window_dims: Array,  # [slot, window, 2]
    largest: Array,  # [slot, window, tile u, tile v]
    total: Array,
    kept_u: Array,  # [slot, window, tile u, span, tile v]
    kept_v: Array,
    per_slot: Array,  # [slot, 10] see alone._TileArrays.prices
    scalars: Array,  # [10] see there
    keep: int,
) -> tuple[Array, Array]:
    """The ``keep`` best (score; stationary slot, sliding dim, tiles …), best first; unused rows score infinity."""
    dims, slots, width = candidates.size, 3, counts.shape[1]
    per_bit, latency, joules_fixed, leak = scalars[0], scalars[1], scalars[2], scalars[3]
    objective, per_step, result_bits, overhead = int(scalars[4]), scalars[5], scalars[6], scalars[7]
    spare = scalars[8]
    scores = np.full(keep, np.inf)
    rows = np.full((keep, dims + 2), -1, np.int64)
    pick = np.zeros(dims, np.int64)
    size = np.zeros(slots)
    while True:
        fits = True
        for m in range(slots):
            size[m] = per_slot[m, 1]
            for d in range(dims):
                if plain[m, d]:
                    size[m] *= widths[m, d * width + pick[d]]
            for w in range(windows_of[m]):
                u, v = window_dims[m, w, 0], window_dims[m, w, 1]
                size[m] *= largest[m, w, pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0]
            if per_slot[m, 2] >= 0:
                taken = 0.0
                for other in range(m + 1):
                    if per_slot[other, 2] == per_slot[m, 2]:
                        twice = 1.0
                        for d in range(dims):
                            if relevant[other, d] and counts[d, pick[d]] > 1:
                                twice = 2.0
                        taken += size[other] * twice
                if taken > per_slot[m, 3]:
                    fits = False
                    break
        if fits:
            compute, tiles = per_step, 1.0
            for d in range(dims):
                compute *= steps[d, pick[d]]
                tiles *= counts[d, pick[d]]
            compute = max(compute, scalars[9]) + overhead * tiles
            for m in range(slots):  # every tile transposes its part
                turned = per_slot[m, 8]
                for d in range(dims):
                    if not relevant[m, d]:
                        turned *= counts[d, pick[d]]
                compute += turned
            for stationary in range(slots):
                for r in range(-1, dims):
                    if r >= 0:
                        if relevant[stationary, r] or counts[r, pick[r]] == 1:
                            continue
                        slides = False
                        for m in range(slots):
                            for w in range(windows_of[m]):
                                if window_dims[m, w, 0] == r or window_dims[m, w, 1] == r:
                                    slides = True
                        if not slides:
                            continue
                    moved, joules, first, last = 0.0, joules_fixed, 0.0, 0.0
                    allowed = True
                    for m in range(slots):
                        visits = 1.0
                        for d in range(dims):
                            if not relevant[m, d] and (m != stationary or per_slot[m, 2] < 0):
                                visits *= counts[d, pick[d]]
                        if per_slot[m, 9] > 0 and visits > 1:
                            allowed = False
                        if per_slot[m, 2] < 0:
                            bits = per_slot[m, 4] * visits
                            moved += bits
                            joules += (bits - per_slot[m, 4]) * per_slot[m, 5]
                            continue
                        whole, stays = per_slot[m, 0], 0.0
                        for w in range(windows_of[m]):
                            u, v = window_dims[m, w, 0], window_dims[m, w, 1]
                            i, j = pick[u] if u >= 0 else 0, pick[v] if v >= 0 else 0
                            here, kept = total[m, w, i, j], 0.0
                            if r >= 0 and r == u:
                                kept = kept_u[m, w, i, candidates[u] - 1, j]
                            elif r >= 0 and r == v:
                                kept = kept_v[m, w, j, candidates[v] - 1, i]
                            stays = stays * here + whole * kept
                            whole *= here
                        entries = visits * (whole - stays)
                        if m < 2:
                            moved += entries * per_slot[m, 1]
                            joules += entries * per_slot[m, 1] * per_slot[m, 5]
                            first += size[m]
                        else:
                            again = (entries - per_slot[m, 7]) * per_slot[m, 1]
                            out = again + per_slot[m, 7] * result_bits
                            moved += out + again
                            joules += out * per_slot[m, 6] + again * per_slot[m, 5]
                            last = size[m] / per_slot[m, 1] * result_bits
                    middle = max(compute, (moved - first - last) * per_bit)
                    cycles = latency + first * per_bit + middle + last * per_bit
                    score = cycles * (1 + spare * joules / joules_fixed)
                    if objective == 1:
                        score = joules + leak * cycles
                    elif objective == 2:
                        score = cycles * joules
                    if allowed and score < scores[keep - 1] * (1 - 1e-12):
                        at = keep - 1
                        while at > 0 and score < scores[at - 1] * (1 - 1e-12):
                            scores[at] = scores[at - 1]
                            rows[at] = rows[at - 1]
                            at -= 1
                        scores[at] = score
                        rows[at, 0], rows[at, 1] = stationary, r
                        for d in range(dims):
                            rows[at, 2 + d] = pick[d]
        d = 0
        while d < dims:
            pick[d] += 1
            if pick[d] < candidates[d]:
                break
            pick[d] = 0
            d += 1
        if d == dims:
            break
    return scores, rows
