"""Which programs stand for the chunks of a plan, so that plans share them: what a program does not depend on is as
usual in its plan.

Of a long row of equal blocks three programs do: the first chunk, one in between and the last, each with few blocks and
with one more. What replicas share is no part of a micro-batch unless they share gradients or parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from monet.distributed.plan import ParallelPlan

FEW = 2  # blocks that are scheduled together; and one more
WHOLE = 3 * (FEW + 1)  # up to so many blocks, all are scheduled
PARTS = 3  # programs of a long row: first, between, last
BETWEEN = 1


@dataclass(frozen=True)
class Program:
    """A chunk of a plan, cut down to ``most`` blocks of each run (0: none is). What it does in a micro-batch is that of
    ``micro``, a plan that shares less."""

    plan: ParallelPlan
    micro: ParallelPlan
    most: int
    number: int
    blocks: int


def of_long_row(plan: ParallelPlan) -> ParallelPlan:
    """The plan whose chunks stand for those of a plan of a long row of equal blocks."""
    parts = 1 if plan.chunks == 1 else PARTS
    cuts = tuple((FEW + 1) * number for number in range(1, parts))
    return replace(plan, pipeline=parts, interleave=1, pipeline_schedule="1f1b", cuts=cuts)


def sharing_less(plan: ParallelPlan, statistics: bool) -> tuple[ParallelPlan, ParallelPlan]:
    """A plan with as many replicas as make a difference to its programs, and what a micro-batch needs of it.
    ``statistics``: replicas exchange some in every pass."""
    few = replace(plan, data=min(plan.data, 2)) if plan.shard == "none" else plan
    micro = plain(plan, statistics) if plan.shard in ("none", "states") else few
    return few, replace(micro, offload="activations" if plan.activations_away else "none")


def plain(plan: ParallelPlan, statistics: bool) -> ParallelPlan:
    """A plan whose replicas share nothing: what a block does is all in its micro-batch."""
    away = "activations" if plan.activations_away else "none"
    return replace(plan, shard="none", offload=away, data=min(plan.data, 2) if statistics else 1)


def kind_of(number: int, chunks: int) -> int:
    """Of a long row: the program that stands for a chunk."""
    return 0 if number == 0 else PARTS - 1 if number == chunks - 1 else BETWEEN
