"""The manual plan to compare with: two forward stacks, everything else unfused.

MONET's baseline (arXiv 2603.15002; stacks of its StreamTest scripts) fuses the forward nodes 0-10 and 11-21 of
ResNet-18 by hand and leaves loss, backward and update alone. Here that is the first eleven and the other matrix
operators of the forward pass, each with the vector operators behind it; for other networks the two halves of the
forward's matrix operators. A stack runs row by row. Where it cannot, because a norm must see all of its input first or
because a part fits no memory, it is cut there, as whoever wrote it by hand would have to. Each part
has the fewest tiles that fit; if a plan so made is worse than unfused, the best of a few sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf

from monet.graph.op import Phase
from monet.schedule.plan import Plan
from monet.schedule.planning.grouping import common_cuts
from monet.schedule.workload import Operator
from monet.search.fusion.evaluation import FusionEvaluator, Variant, plan_with
from monet.search.fusion.structure import Structure, is_connected, is_convex, mask_of
from monet.search.fusion.variants import variants_of

FIRST_STACK = 11  # matrix operators of ResNet-18's first stack (nodes 0-10)
RESNET18 = 21


def manual_plan(evaluator: FusionEvaluator, of: Structure, base: Plan) -> Plan:
    """Two forward stacks as far as they can run in tiles."""
    operators = evaluator.scheduler.workload.operators
    forward = [operator for operator in operators if operator.op.phase is Phase.FORWARD]
    matrix = [position for position, operator in enumerate(forward) if operator.is_matrix]
    first = FIRST_STACK if len(matrix) == RESNET18 else -(-len(matrix) // 2)
    middle = matrix[first] if len(matrix) > first else len(forward)

    def made(sizes: int | None) -> Plan:
        tiles = StackTiles(evaluator, of, base, sizes)
        return plan_with(base, (*_stack(tiles, forward[:middle]), *_stack(tiles, forward[middle:])))

    plan = made(1)
    if evaluator.cost(plan) < evaluator.cost(base):
        return plan
    return min(plan, made(None), key=evaluator.cost)


@dataclass(frozen=True)
class StackTiles:
    """Tiles of parts of a stack: the best of the first ``sizes`` that fit, of all if None."""

    evaluator: FusionEvaluator
    of: Structure
    base: Plan
    sizes: int | None

    def best(self, run: Sequence[Operator]) -> Variant | None:
        """How a part runs in tiles; None if it cannot."""
        variants = variants_of(self.evaluator.scheduler, self.base, run)
        tiled = (
            (self.evaluator.cost(plan_with(self.base, (variant,))), variant)
            for variant in variants
            if variant.group.tile and not variant.moved
        )
        fits = islice((pair for pair in tiled if pair[0] < inf), self.sizes)
        return min(fits, key=lambda pair: pair[0], default=(inf, None))[1]


def _stack(tiles: StackTiles, stack: Sequence[Operator]) -> list[Variant]:
    """The longest runs of a stack that can be tiled, from its start on."""
    found: list[Variant] = []
    start = 0
    while start < len(stack):
        end = start + 1
        while end < len(stack) and _may_tile(tiles.of, stack[start : end + 1]):
            end += 1
        best: Variant | None = None
        while end - start > 1 and best is None:
            best = tiles.best(stack[start:end])
            end -= best is None
        found += [best] if best else []
        start = end
    return found


def _may_tile(of: Structure, run: Sequence[Operator]) -> bool:
    mask = mask_of(operator.number for operator in run)
    if not is_connected(of, mask) or not is_convex(of, mask):
        return False
    return any(common_cuts(run))
