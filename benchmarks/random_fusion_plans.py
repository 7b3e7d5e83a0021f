"""Random legal plans, to compare a search with: groups grown at random, each run in a random way."""

from __future__ import annotations

import random

from monet.schedule.plan import Plan
from monet.search.fusion.candidates import variants_for
from monet.search.fusion.evaluation import Variant, plan_with
from monet.search.fusion.structure import Structure, bits, circle, is_convex
from monet.search.fusion.traffic import Baseline


def random_plan(of: Structure, baseline: Baseline, base: Plan, limit: int, rng: random.Random) -> Plan:
    """Operators in random order start groups of random length with what is still free; those that would wait for each
    other in a circle are left out."""
    free, chosen, variants = (1 << of.count) - 1, list[int](), list[Variant]()
    share = rng.random()
    for start in rng.sample(range(of.count), of.count):
        if not free >> start & 1 or rng.random() > share:
            continue
        mask = _grown(of, free, start, rng.randint(2, limit), rng)
        if mask.bit_count() < 2 or circle(of, [*chosen, mask]):
            continue
        chosen.append(mask)
        variants.append(rng.choice(variants_for(baseline, base, mask)))
        free &= ~mask
    return plan_with(base, tuple(variants))


def _grown(of: Structure, free: int, start: int, size: int, rng: random.Random) -> int:
    mask = 1 << start
    while mask.bit_count() < size:
        near = 0
        for one in bits(mask):
            near |= of.near[one]
        more = [one for one in bits(near & free & ~mask) if is_convex(of, mask | 1 << one)]
        if not more:
            break
        mask |= 1 << rng.choice(more)
    return mask
