"""Arrays that work output tile by output tile: what a tile costs beyond its products.

Such an array keeps a tile of sums, one in every unit, takes in all that is summed over, and only then goes on to the
next tile (output-stationary). A systolic one pays for every tile the cycles until its last unit has begun, and waits
where its input queues are too short to hide that units are slower than their inputs arrive.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OutputTiles:
    """What an array says of its output tiles.

    ``flatten``: all dimensions of a side of the product count as one (C·FY·FX and N·OY·OX of a convolution, as after
    im2col), so that only the last tile of a side has idle units. ``col2im``: flattened input gradients of convolutions
    are dY·Wᵀ, whose C·FY·FX columns something else adds up; else, where it is possible, products over windows of dY.
    ``queue_steps``: steps that wait at the edge of a systolic array. ``overhead_cycles``: of every tile, in which
    results leave and nothing is taken in. ``setup_cycles``: to program the array before it starts on what lies in the
    core's memory. ``first_fill_cycles``: until the first operands are there, if nothing else says when they come.
    """

    flatten: bool = False
    col2im: bool = False
    queue_steps: int | None = None
    overhead_cycles: int = 0
    setup_cycles: int = 0
    first_fill_cycles: int = 0

    def tile_cycles(self, steps: int, cycles_per_step: float, skew: int) -> float:
        """Cycles of one tile of ``steps`` steps; ``skew``: cycles until the last unit has its first operands.

        Steps arrive one a cycle and leave one in ``cycles_per_step``: a queue of q steps is full after
        q·c/(c − 1) of them, and each of those that come before the last unit has begun then waits c − 1 cycles (a law
        that gives the cycles of DaCapo's simulator, casys-kaist/DaCapo, to the cycle).
        """
        waiting = 0.0
        if self.queue_steps is not None and cycles_per_step > 1:
            hidden = math.floor(self.queue_steps * cycles_per_step / (cycles_per_step - 1))
            waiting = (cycles_per_step - 1) * max(0, min(steps, skew) - hidden)
        return steps * cycles_per_step + skew + waiting + self.overhead_cycles


def bank_conflicts(banks: int, reads: tuple[int, ...], written: int, writes: int) -> float:
    """Cycles that a tile loses on average at a memory of ``banks``, which streams of so many words a cycle are read
    from and ``written`` words are written to ``writes`` times.

    Streams walk through consecutive words and begin at unrelated places. Runs of a and b words then meet in
    (a + b − 1) of ``banks`` cases. One that finds its bank taken waits a cycle, and is apart from the other from then
    on: read streams meet once in a tile, and with every write of results.
    """

    def meet(first: int, second: int) -> float:
        return min(1.0, (first + second - 1) / banks)

    pairs = sum(meet(one, other) for one, other in itertools.combinations(reads, 2))
    return pairs + writes * sum(meet(one, written) for one in reads)
