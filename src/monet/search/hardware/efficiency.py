"""How much of the best front a search finds for how few points, judged on a space that was evaluated whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monet.search.hardware.analysis import reference_point
from monet.search.hardware.exploration import objective_values
from monet.search.hardware.objectives import Objective
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import answered, search_named
from monet.search.hardware.space import Space
from monet.search.pareto import hypervolume


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Share of the whole front's hypervolume that a search reached, by seed."""

    search: str
    objectives: tuple[str, ...]
    points: int
    shares: tuple[float, ...]


def efficiency(
    space: Space,
    records: Sequence[Record],
    search: str,
    objectives: Sequence[Objective],
    points: int,
    seeds: Sequence[int],
) -> Efficiency:
    """Run a search on known records, once per seed. Nothing is evaluated: every point it asks for must be known."""
    known = {space.key(record.values): record for record in records}
    values = objective_values(space, [record for record in records if record.ok], objectives)
    reference = reference_point(values)
    whole = hypervolume(values, reference)
    shares = []
    for seed in seeds:
        seen = visited(space, known, search, objectives, points, seed)
        reached = hypervolume(objective_values(space, [record for record in seen if record.ok], objectives), reference)
        shares.append(reached / whole)
    return Efficiency(search, tuple(objective.text for objective in objectives), points, tuple(shares))


def visited(
    space: Space, known: dict[str, Record], search: str, objectives: Sequence[Objective], points: int, seed: int
) -> list[Record]:
    """The records a search looks at, in its order."""
    proposals = search_named(search, space, points, seed, objectives)
    return list(answered(proposals, lambda batch: [known[space.key(point)] for point in batch]))
