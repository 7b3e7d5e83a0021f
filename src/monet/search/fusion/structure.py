"""The executed operators of a step as bit sets: who waits for whom, who shares data; all legal groups of them.

A group is legal if it is connected (through data that one makes and another reads, that one overwrites after another
has read it, or that several read) and convex: nothing outside of it lies on a path between two of its operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from monet.graph.tensor import Role
from monet.schedule.workload import Workload


@dataclass(frozen=True)
class Structure:
    """Operators by number; bit i of an integer stands for operator i."""

    before: tuple[int, ...]  # operators that one waits for, directly
    ancestors: tuple[int, ...]
    descendants: tuple[int, ...]
    near: tuple[int, ...]  # operators that one shares data with

    @property
    def count(self) -> int:
        """Number of operators."""
        return len(self.before)


def structure(count: int, dependencies: Iterable[tuple[int, int]], sharing: Iterable[Sequence[int]] = ()) -> Structure:
    """Bit sets of ``count`` operators. ``dependencies``: pairs (earlier, later), each with the smaller number first;
    ``sharing``: operators that read the same data."""
    before, after, near = [0] * count, [0] * count, [0] * count
    for earlier, later in dependencies:
        before[later] |= 1 << earlier
        after[earlier] |= 1 << later
        near[later] |= 1 << earlier
        near[earlier] |= 1 << later
    for some in sharing:
        every = sum(1 << number for number in set(some))
        for number in some:
            near[number] |= every & ~(1 << number)
    ancestors, descendants = before.copy(), after.copy()
    for number in range(count):
        for other in bits(before[number]):
            ancestors[number] |= ancestors[other]
    for number in reversed(range(count)):
        for other in bits(after[number]):
            descendants[number] |= descendants[other]
    return Structure(tuple(before), tuple(ancestors), tuple(descendants), tuple(near))


def structure_of(workload: Workload) -> Structure:
    """Bit sets of a graph's executed operators. Reading the same parameter does not connect: what is tied (an embedding
    and the head) is far apart."""
    readers: dict[str, list[int]] = {}
    for operator in workload.operators:
        for operand, tensor in operator.operands:
            owner = workload.storages[tensor.storage].tensor
            if not operand.written and owner.role not in (Role.PARAMETER, Role.BUFFER, Role.STATE):
                readers.setdefault(tensor.storage, []).append(operator.number)
    return structure(len(workload.operators), workload.dependencies, readers.values())


def bits(mask: int) -> Iterator[int]:
    """Numbers in a bit set, smallest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(numbers: Iterable[int]) -> int:
    """The bit set of some numbers."""
    return sum(1 << number for number in set(numbers))


def is_convex(of: Structure, mask: int) -> bool:
    """Whether no path leaves a set of operators and comes back."""
    above = below = 0
    for number in bits(mask):
        above |= of.ancestors[number]
        below |= of.descendants[number]
    return not above & below & ~mask


def is_connected(of: Structure, mask: int) -> bool:
    """Whether all of a set hangs together through shared data."""
    reached = mask & -mask
    while True:
        more = reached
        for number in bits(reached):
            more |= of.near[number] & mask
        if more == reached:
            return reached == mask
        reached = more


Level = dict[
    int, tuple[int, int, int]
]  # groups of one size: ancestors, descendants and neighbours of all their operators


def single_operators(of: Structure) -> Level:
    """The groups of one operator, which all others grow from."""
    return {1 << number: (of.ancestors[number], of.descendants[number], of.near[number]) for number in range(of.count)}


def one_larger(of: Structure, level: Level, most: int = 0) -> Level:
    """Legal groups with an operator more than those of ``level``, sorted: all, or those met first, until there are
    ``most``."""
    larger: Level = {}
    for mask, (above, below, near) in level.items():
        if most and len(larger) >= most:
            break
        for number in bits(near & ~mask):
            grown = mask | 1 << number
            if grown in larger:
                continue
            up, down = above | of.ancestors[number], below | of.descendants[number]
            if not up & down & ~grown:
                larger[grown] = up, down, near | of.near[number]
    return dict(sorted(larger.items()))


def legal_groups(of: Structure, limit: int) -> list[int]:
    """All legal groups of two to ``limit`` operators, by size.

    A legal group of more than two always contains one with an operator less: some source or sink of it can go without
    cutting it in two (take a block at the end of its block-cut tree: of the block's sources and sinks at least one is
    not the cut vertex). So growing by one operator at a time finds all.
    """
    level = single_operators(of)
    found: list[int] = []
    for _ in range(2, limit + 1):
        level = one_larger(of, level)
        found += level
    return found


def circle(of: Structure, groups: Sequence[int]) -> tuple[int, ...]:
    """Groups (as positions) that wait for each other in a circle, shortest first found; empty if they can be ordered.
    Operators in no group stand alone and may be part of the circle, but are not listed."""
    owner = list(range(of.count))
    for position, mask in enumerate(groups):
        for number in bits(mask):
            owner[number] = of.count + position
    waits: dict[int, set[int]] = {}
    for number in range(of.count):
        here = owner[number]
        waits.setdefault(here, set()).update(owner[other] for other in bits(of.before[number]) if owner[other] != here)
    state: dict[int, int] = {}
    for root in waits:
        found = _walk(root, waits, state)
        if found:
            return tuple(sorted(node - of.count for node in found if node >= of.count))
    return ()


def _walk(root: int, waits: dict[int, set[int]], state: dict[int, int]) -> list[int]:
    """Depth first from ``root``; the nodes of the first circle met."""
    if root in state:
        return []
    path, rest = [root], [iter(sorted(waits[root]))]
    state[root] = 1
    while path:
        after = next(rest[-1], None)
        if after is None:
            state[path.pop()] = 2
            rest.pop()
        elif state.get(after) == 1:
            return path[path.index(after) :]
        elif after not in state:
            state[after] = 1
            path.append(after)
            rest.append(iter(sorted(waits[after])))
    return []
