"""Tiles of fused attention: how a step is cut into rows by keys, and the bytes that such tiles hold and move."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from monet.formats import format_named, whole_bytes
from monet.graph.loop_nest import LoopNest, Operand
from monet.graph.operators.attention import MASK
from monet.graph.operators.attention import SCORES as KEPT
from monet.graph.operators.attention_products import BACKWARD, FORWARD, SCORES, Side
from monet.hardware.core import Core

Pair = tuple[str, str]
Formats = tuple[Pair, ...]
MADE = ("probabilities", "dscores")  # operands that are made on chip
SMALLEST = 16  # rows and keys of a tile are not halved further


@dataclass(frozen=True, slots=True)
class Shape:
    """One step: ``groups`` of ``rows`` queries (of all heads that share a key head) by ``keys``."""

    groups: int
    heads: int  # of queries, over all samples
    rows: int
    keys: int
    width: int
    value_width: int
    backward: bool
    dtype: str
    accumulator: str
    formats: Formats  # of the operands of every product
    kept: int = 0  # bytes of a score that is kept for backward, 0 if none is

    @property
    def sides(self) -> tuple[tuple[Side, Side], ...]:
        """The products of a tile."""
        if not self.backward:
            return FORWARD
        return tuple(pair for pair in BACKWARD if not self.kept or pair != SCORES)

    @property
    def score_products(self) -> int:
        """How many products make scores or their gradients, which lanes read; all others add to sums."""
        return 2 if self.backward and not self.kept else 1

    @property
    def probability(self) -> int:
        """Bytes of a probability, or of the gradient of a score, as products read it."""
        made = [pair[0] for pair, (left, _) in zip(self.formats, self.sides, strict=True) if left.of in MADE]
        return max(whole_bytes(format_named(name).bits) for name in made)

    @property
    def grain(self) -> int:
        """Rows and keys that tiles keep together: groups that share a scale."""
        groups = (format_named(name).group for pair in self.formats for name in pair)
        return max((max(group.extents) for group in groups if group), default=1)

    @property
    def copied_bits(self) -> tuple[float, float]:
        """Bits of the narrow copies of a row of queries and gradients, and of a key and its value."""
        widths = {"query": (self.width, 0), "dout": (self.value_width, 0), "key": (0, self.width)}
        widths |= {"value": (0, self.value_width)}
        made = {
            (side.of, name)
            for pair, two in zip(self.formats, self.sides, strict=True)
            for side, name in zip(two, pair, strict=True)
            if side.of in widths and name != self.dtype
        }
        rows, keys = (
            math.fsum(widths[of][at] * format_named(name).bits_per_element((1024, 1024)) for of, name in made)
            for at in (0, 1)
        )
        return rows, keys

    @property
    def sum(self) -> int:
        """Bytes of a partial sum."""
        return whole_bytes(format_named(self.accumulator).bits)


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` × ``keys`` scores at a time, ``block`` keys kept over all rows; what it needs, and how often rows and
    keys come in."""

    rows: int
    keys: int
    block: int
    own_bytes: int  # scores, probabilities, statistics, sums of results that leave later
    row_passes: int
    key_passes: int


def shape_of(nest: LoopNest, core: Core, formats: Formats) -> Shape:
    """The step that a nest is."""
    sizes, backward = nest.sizes, len(nest.reads) >= 6
    query, value = (nest.operands[1], nest.operands[3]) if backward else (nest.operands[0], nest.operands[2])
    groups, shared = sizes["B"] * sizes["H"], sizes["J"]
    widths = query.shape[-1], value.shape[-1]
    kept = next((operand.dtype for operand in nest.operands if operand.name == KEPT), "")
    return Shape(
        groups, groups * shared, shared * sizes["N"], sizes["C"], *widths, backward, query.dtype,
        core.rate(*formats[0], either_way=True).accumulator, formats,
        whole_bytes(format_named(kept).bits) if kept else 0,
    )  # fmt: skip


def halves(size: int, grain: int = 1) -> tuple[int, ...]:
    """A size and what halving it gives, in whole grains."""
    found = [size]
    while found[-1] > max(SMALLEST, grain):
        found.append(-(-found[-1] // (2 * grain)) * grain)
    return tuple(found)


def every_tile(shape: Shape) -> Iterator[Tile]:
    """All tiles that are considered, whether they fit or not."""
    for rows in halves(shape.rows, shape.grain):
        row_tiles = -(-shape.rows // rows)
        for keys in halves(shape.keys, shape.grain):
            for block in halves(shape.keys, shape.grain) if shape.backward else (shape.keys, keys):
                if block < keys:
                    continue
                blocks = -(-shape.keys // block)
                # whoever does not fit as a whole comes once for every part of the other
                again = row_tiles > 1 and blocks > 1
                passes = (blocks if again else 1, 1) if shape.backward else (1, row_tiles if again else 1)
                yield Tile(rows, keys, block, _own_bytes(shape, rows, keys, block), *passes)


def tiles_within(nest: LoopNest, shape: Shape, room: float, streamed: bool) -> Iterator[Tile]:
    """Tiles that fit. A step whose operands are held has them in the memory anyway."""
    for tile in every_tile(shape):
        if not streamed or tile.own_bytes + buffers(nest, shape, tile) <= room:
            yield tile


def _own_bytes(shape: Shape, rows: int, keys: int, block: int) -> int:
    """Scores and probabilities of two tiles (one on the array, one on the lanes), statistics of the rows, sums."""
    made, of_row, of_key = shape.score_products, *shape.copied_bits
    copies = whole_bytes(rows * of_row + block * of_key)
    scores = 2 * rows * keys * (made * shape.sum + (2 if shape.backward else 1) * shape.probability)
    if not shape.backward:  # maximum, sum, correction; sums of the output
        return scores + rows * (3 + shape.value_width) * shape.sum + copies
    sum_elements = rows * shape.width + block * (shape.width + shape.value_width)  # dQ; dK, dV
    # scores and their gradients; log-sum-exp and delta
    return scores + (2 * rows + sum_elements) * shape.sum + copies


def buffers(nest: LoopNest, shape: Shape, tile: Tile) -> int:
    """Bytes of the operands' tiles; a mask comes with the scores, which are in a tile's own bytes."""
    return sum(buffer(shape, tile, operand) for operand in nest.operands if operand.name != MASK)


def buffer(shape: Shape, tile: Tile, operand: Operand) -> int:
    """Bytes of an operand's tile: two, if it changes."""
    first, parts = first_part(shape, tile, operand)
    return first * (2 if parts > 1 else 1)


def moved_bytes(shape: Shape, tile: Tile, operand: Operand) -> tuple[int, int]:
    """(bytes that cross the border for an operand, of them sums that come back)."""
    size = operand.bytes
    if operand.name == KEPT:
        return size, 0
    by_key = is_key(operand)
    passes = tile.key_passes if by_key else tile.row_passes
    if operand.name == MASK:  # read with the scores of every head that it holds for
        return size * max(1, shape.heads // math.prod(operand.shape[:-2])), 0
    if not operand.written:
        return size * passes, 0
    if by_key or passes == 1:
        return size, 0
    again = (passes - 1) * math.prod(operand.shape) * shape.sum  # dQ leaves as sums and comes back
    return size + again, again


def first_part(shape: Shape, tile: Tile, operand: Operand) -> tuple[int, int]:
    """(bytes of an operand in one tile, how many such parts there are)."""
    parts = shape.groups * (-(-shape.keys // tile.block) if is_key(operand) else -(-shape.rows // tile.rows))
    if operand.name == KEPT:
        parts *= -(-shape.keys // tile.keys)
    return -(-operand.bytes // parts), parts


def at_ends(shape: Shape, tile: Tile, operand: Operand) -> int:
    """Bytes of an operand that are there before the array starts, which is with the operands of its first product; of a
    result, that leave after it has ended."""
    if operand.written or operand.slot in _of_first_product(shape):
        return min(first_part(shape, tile, operand)[0], moved_bytes(shape, tile, operand)[0])
    return 0


def _of_first_product(shape: Shape) -> tuple[int, int]:
    """Query and key or, if backward reads scores, the incoming gradient and the value."""
    if not shape.backward:
        return 0, 1
    return (0, 3) if shape.kept else (1, 2)


def is_key(operand: Operand) -> bool:
    """Whether an operand is of keys: it has no rows of queries."""
    return "C" in operand.dims and "N" not in operand.dims
