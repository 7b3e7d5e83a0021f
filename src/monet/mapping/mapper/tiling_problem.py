"""What the branch and bound over tilings is given: one frame as arrays, priced for one core."""

from __future__ import annotations

from typing import NamedTuple

from monet.arrays import F64, I64, U8, F64x2, F64x4, F64x5, I64x2, I64x3, U8x2, U8x3


class TilingProblem(NamedTuple):
    """A frame. Slots are the operands I, W, O; a cut is one level of one slot; tiles are numbered from the smallest.

    A window is an index that two dimensions ``u`` and ``v`` share (output row and kernel row, say)."""

    candidates: I64  # [dim] how many tiles there are
    visits: F64x2  # [dim, tile] tiles of that size along the dimension
    nests: U8x3  # [dim, outer tile, inner tile] whether one may be cut from the other
    relevant: U8x2  # [slot, dim]
    plain: U8x2  # [slot, dim] relevant, and not part of a window
    slot_of: I64  # [cut]
    cut_at: I64x2  # [slot, n] cuts of a slot, outermost first
    cuts_of: I64  # [slot] how many
    widths: F64x2  # [cut, dim * tile] elements of a plain dimension in a tile, flattened
    windows_of: I64  # [slot] how many windows
    window_dims: I64x3  # [slot, window, 2] dimensions u and v, or -1
    largest: F64x4  # [cut, window, tile u, tile v] positions in the largest tile
    total: F64x4  # [cut, window, tile u, tile v] positions in all tiles
    kept_u: F64x5  # [cut, window, tile u, span, tile v] positions that stay when u is the loop right above
    kept_v: F64x5  # [cut, window, tile v, span, tile u]
    per_cut: F64x2  # [cut, column] see below
    memory_of: I64  # [cut]
    room: F64  # [memory] bits
    port_slope: F64x2  # [port, cut] cycles per entry
    port_base: F64  # [port] cycles
    limits: I64x2  # [cut, dim] largest tile allowed
    pinned: U8  # [cut] entries must be the fewest possible
    scalars: F64  # see below


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
