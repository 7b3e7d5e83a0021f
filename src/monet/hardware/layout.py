"""Layout of a description: names of core copies, where they hang on the network, and the links that shorthands mean."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from monet.hardware.core import OPERANDS
from monet.hardware.description import ConnectionModel, CoreModel, Description, LevelModel


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy of a core: its name and its place in the grid or row."""

    name: str
    position: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wire:
    """One link or bus before its figures: the connection it came from, and its endpoints."""

    name: str
    connection: str
    endpoints: tuple[str, ...]


def copies(name: str, core: CoreModel) -> list[Copy]:
    """The copies of a core: ``pe[0,1]`` in a mesh, ``pe[3]`` in a row, ``pe`` alone."""
    if core.mesh is not None:
        places = [(x, y) for y in range(core.mesh.y) for x in range(core.mesh.x)]
        return [Copy(f"{name}[{x},{y}]", (x, y)) for x, y in places]
    if core.count > 1:
        return [Copy(f"{name}[{index}]", (index,)) for index in range(core.count)]
    return [Copy(name, ())]


def level_at_top(core: CoreModel, operand: str) -> LevelModel | None:
    """The outermost level that holds a slot, if any."""
    held = [level for level in core.memories if operand in level.operands]
    return held[-1] if held else None


def shared_top(core: CoreModel) -> str:
    """The shared memory that all slots of a core have their top in, at which its copies then hang on the network; empty
    if there is none: each has an endpoint of its own."""
    tops = {level.memory for operand in OPERANDS if (level := level_at_top(core, operand))}
    return (next(iter(tops)) if len(tops) == 1 else None) or ""


def endpoints(description: Description) -> dict[str, list[str]]:
    """Every name a connection may use → the endpoints it stands for."""
    table: dict[str, list[str]] = {}
    for name, core in description.cores.items():
        shared, named = shared_top(core), [copy.name for copy in copies(name, core)]
        table |= {copy: [shared or copy] for copy in named}
        table[name] = [shared] if shared else named
    for name in (*description.memories, *description.dram, *description.outside):
        table[name] = [name]
    return table


def wires(description: Description) -> list[Wire]:
    """The links and buses that the network's shorthands stand for. Unknown names are skipped (``check`` has them)."""
    table = endpoints(description)
    found = []
    for name, connection in description.network.items():
        if connection.mesh is not None:
            pairs = _mesh_pairs(connection.mesh, description)
        elif connection.bus is not None:
            pairs = iter([tuple(dict.fromkeys(_expand(connection.bus, table)))])
        else:
            pairs = _link_pairs(connection, table)
        named = list(pairs)
        for index, ends in enumerate(named):
            if len(ends) > 1:
                found.append(Wire(name if len(named) == 1 else f"{name}[{index}]", name, ends))
    return found


def _expand(members: list[str], table: dict[str, list[str]]) -> list[str]:
    return [endpoint for member in members for endpoint in table.get(member, ())]


def _mesh_pairs(name: str, description: Description) -> Iterator[tuple[str, ...]]:
    """Neighbours of a grid, all along x first: shortest paths by lowest link index then route x before y."""
    core = description.cores.get(name)
    if core is None or core.mesh is None:
        return
    for y in range(core.mesh.y):
        for x in range(core.mesh.x - 1):
            yield (f"{name}[{x},{y}]", f"{name}[{x + 1},{y}]")
    for y in range(core.mesh.y - 1):
        for x in range(core.mesh.x):
            yield (f"{name}[{x},{y}]", f"{name}[{x},{y + 1}]")


def _link_pairs(connection: ConnectionModel, table: dict[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """Pairs of a ring, a chain, or links between two (groups of) endpoints."""
    if connection.link is not None:
        first, second = (table.get(member, []) for member in connection.link)
        if len(first) == len(second):
            yield from zip(first, second, strict=True)
        elif len(first) == 1 or len(second) == 1:
            yield from ((a, b) for a in first for b in second)
        return
    members = _expand(connection.members, table)
    yield from itertools.pairwise(members)
    if connection.ring is not None and len(members) > 2:
        yield (members[-1], members[0])
