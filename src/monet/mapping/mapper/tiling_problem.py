"""What the branch and bound over tilings is given: one frame as arrays, priced for one core."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Problem(NamedTuple):
    """A frame. Slots are the operands I, W, O; a cut is one level of one slot; tiles are numbered from the smallest.

    A window is an index that two dimensions ``u`` and ``v`` share (output row and kernel row, say)."""

    candidates: Array  # [dim] how many tiles there are
    visits: Array  # [dim, tile] tiles of that size along the dimension
    nests: Array  # [dim, outer tile, inner tile] whether one may be cut from the other
    relevant: Array  # [slot, dim]
    plain: Array  # [slot, dim] relevant, and not part of a window
    slot_of: Array  # [cut]
    cut_at: Array  # [slot, n] cuts of a slot, outermost first
    cuts_of: Array  # [slot] how many
    widths: Array  # [cut, dim * tile] elements of a plain dimension in a tile, flattened
    windows_of: Array  # [slot] how many windows
    window_dims: Array  # [slot, window, 2] dimensions u and v, or -1
    largest: Array  # [cut, window, tile u, tile v] positions in the largest tile
    total: Array  # [cut, window, tile u, tile v] positions in all tiles
    kept_u: Array  # [cut, window, tile u, span, tile v] positions that stay when u is the loop right above
    kept_v: Array  # [cut, window, tile v, span, tile u]
    per_cut: Array  # [cut, column] see below
    memory_of: Array  # [cut]
    room: Array  # [memory] bits
    port_slope: Array  # [port, cut] cycles per entry
    port_base: Array  # [port] cycles
    limits: Array  # [cut, dim] largest tile allowed
    pinned: Array  # [cut] entries must be the fewest possible
    scalars: Array  # see below


TYPES = (
    "i8[::1], f8[:,::1], u1[:,:,::1], u1[:,::1], u1[:,::1], i8[::1], i8[:,::1], i8[::1], f8[:,::1], i8[::1], "
    "i8[:,:,::1], f8[:,:,:,::1], f8[:,:,:,::1], f8[:,:,:,:,::1], f8[:,:,:,:,::1], f8[:,::1], i8[::1], f8[::1], "
    "f8[:,::1], f8[::1], i8[:,::1], u1[::1], f8[::1]"
)

# columns of ``per_cut``
(
    PLAIN_ELEMENTS,  # elements over plain dimensions
    FIXED_ELEMENTS,  # the part of a tile that never varies
    BITS,  # of an element
    JOULES_PER_ENTRY,
    WAITS_PER_ENTRY,  # exposed cycles
    WAITS_ONCE,
    FILL_PER_ELEMENT,  # cycles
    FEWEST_ENTRIES,
    SMALLEST_TILE,  # elements
    MOST_ENTRIES,
    OVERLAPPED_BITS,  # of the largest tile whose exchange overlaps with compute
) = range(11)
CUT_COLUMNS = 11

# ``scalars``
(
    COMPUTE_CYCLES,
    FILL_CYCLES,  # that every tiling has
    SHARED_PORT,  # 1: I and W fill one after the other
    BASE_JOULES,
    OBJECTIVE,
    TIE_WEIGHT,  # of the quantity that is not the objective
    BEAT,  # score that a tiling must stay below
    PRUNE,  # what is not below this part of the best score is left out
    MIRRORED,  # two dimensions that may change places, or -1
    TWIN,
) = range(10)
LATENCY, ENERGY, ENERGY_DELAY = range(3)  # objectives
