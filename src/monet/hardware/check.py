"""What a description must satisfy beyond the types of its fields. Returns every problem found, with its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from monet.errors import nearest
from monet.hardware.core import OPERANDS, Flow, flows_of
from monet.hardware.description import ConnectionModel, CoreModel, Description, LevelModel, PortModel, StorageModel
from monet.hardware.errors import DescriptionProblem
from monet.hardware.layout import copies, endpoints, shared_top, wires
from monet.hardware.technology import is_derivable


def check(description: Description) -> list[DescriptionProblem]:
    """All problems of a description whose fields are each valid."""
    problems = list(_names(description))
    for name, core in description.cores.items():
        path = f"cores.{name}"
        problems += _compute(path, core)
        for index, level in enumerate(core.memories):
            problems += _level(f"{path}.memories.{index}", level, core, description)
        problems += _slots(path, core)
    for name, memory in description.memories.items():
        problems += _banks(f"memories.{name}", memory)
    problems += _policies(description)
    for name, connection in description.network.items():
        problems += _connection(f"network.{name}", connection, description)
    problems += _paths(description)
    return problems


def _names(description: Description) -> Iterator[DescriptionProblem]:
    """A name stands for one thing, and every level of a core has its own."""
    seen: dict[str, str] = {}
    if description.host is not None and "host" in description.endpoints:
        yield DescriptionProblem("host", "short for endpoints.host, which is given too: leave out one of them")
    named: dict[str, Iterable[str]] = {
        "cores": description.cores,
        "memories": description.memories,
        "dram": description.dram,
        "endpoints": description.outside,
    }
    for section, names in named.items():
        for name in names:
            if name in seen:
                yield DescriptionProblem(f"{section}.{name}", f"the name is already taken by {seen[name]}.{name}")
            seen[name] = section
    for name, core in description.cores.items():
        levels = [level.name for level in core.memories]
        for index, level in enumerate(levels):
            if level in levels[:index]:
                yield DescriptionProblem(
                    f"cores.{name}.memories.{index}.name", "two levels of a core have this name", level
                )


def _compute(path: str, core: CoreModel) -> Iterator[DescriptionProblem]:
    """A core must be able to compute, and figures that nothing published supports must be given."""
    if core.mesh is not None and core.count > 1:
        yield DescriptionProblem(path, "give mesh or count, not both")
    if core.kind == "vector":
        if core.vector is None:
            yield DescriptionProblem(f"{path}.vector", "a vector core needs its lanes here")
    else:
        if not core.axes:
            yield DescriptionProblem(f"{path}.axes", f"a {core.kind} core needs at least one axis")
        if not core.rates:
            yield DescriptionProblem(f"{path}.rates", f"a {core.kind} core needs the number formats it multiplies")
    for mode, wires_by_axis in core.modes.items():
        for axis in wires_by_axis:
            if axis not in core.axes:
                yield DescriptionProblem(f"{path}.modes.{mode}.{axis}", f"no such axis; {nearest(axis, core.axes)}")
    yield from _tiles(path, core)
    yield from _blocks(path, core)
    if core.quantiser is not None and core.vector is not None:
        yield DescriptionProblem(f"{path}.quantiser", "lanes quantise already: give vector.functions.quantize instead")
    for pair, rate in core.rates.items():
        if rate.products_per_step is not None and rate.products_per_step % rate.products_per_cycle:
            why = f"a step must take whole cycles: no multiple of products_per_cycle, {rate.products_per_cycle:g}"
            yield DescriptionProblem(f"{path}.rates.{pair}.products_per_step", why, str(rate.products_per_step))
        if (not _is_derivable(pair) or core.kind == "analog") and rate.energy_j is None:
            why = "no published unit to derive it from"
            yield DescriptionProblem(f"{path}.rates.{pair}.energy_j", f"must be given: {why}")
    needs_area = core.kind == "analog" or not all(map(_is_derivable, core.rates))
    if needs_area and core.compute_area_m2 is None:
        yield DescriptionProblem(f"{path}.compute_area_m2", "must be given: no published unit to derive it from")


def _tiles(path: str, core: CoreModel) -> Iterator[DescriptionProblem]:
    """Output tiles stay in the array; a flattening one has an axis for each side of a product."""
    if core.output_tiles is None:
        return
    adding = [name for name, axis in core.axes.items() if axis.reduce]
    if adding:
        why = f"its units keep their sums, and axis {adding[0]} adds outputs up"
        yield DescriptionProblem(f"{path}.output_tiles", f"not for this array: {why}")
    if core.output_tiles.flatten and sorted(axis.multicast for axis in core.axes.values()) != [["I"], ["W"]]:
        why = "needs two axes, one that multicasts I and one that multicasts W"
        yield DescriptionProblem(f"{path}.output_tiles.flatten", why)


def _blocks(path: str, core: CoreModel) -> Iterator[DescriptionProblem]:
    """Blocks of threads multiply on an array, whose axes multicast both inputs."""
    if core.thread_blocks is None:
        return
    sent = {slot for axis in core.axes.values() for slot in axis.multicast}
    if sent != {"I", "W"}:
        why = "needs an axis that multicasts I and one that multicasts W: rows and columns of a tile"
        yield DescriptionProblem(f"{path}.thread_blocks", why)


def _is_derivable(pair: str) -> bool:
    return all(map(is_derivable, pair.split("*")))


def _level(path: str, level: LevelModel, core: CoreModel, description: Description) -> Iterator[DescriptionProblem]:
    for axis in level.per:
        if axis != "*" and axis not in core.axes:
            yield DescriptionProblem(f"{path}.per", f"no such axis; {nearest(axis, core.axes)}", axis)
    if level.memory is not None and level.memory not in description.memories:
        allowed = nearest(level.memory, description.memories) if description.memories else "the file has no memories"
        yield DescriptionProblem(f"{path}.memory", f"no such shared memory; {allowed}", level.memory)
    shared = description.memories.get(level.memory or "")
    ports = level.ports or (shared.ports if shared else [])
    yield from _banks(path, level)
    if ports:
        for operand in dict.fromkeys(level.operands):
            for flow in flows_of(operand):
                if port_of(ports, operand, flow) is None:
                    direction = "read" if flow.is_read else "write"
                    yield DescriptionProblem(f"{path}.ports", f"no {direction} port carries {operand}.{flow}")


def _banks(path: str, memory: StorageModel) -> Iterator[DescriptionProblem]:
    if memory.banks is not None and memory.size_bytes and memory.banks * memory.bank_bits > 8 * memory.size_bytes:
        words = f"{memory.banks:,} banks of {memory.bank_bits:,} bits hold a word each"
        why = f"{words}, more than {memory.size_bytes:,} bytes"
        yield DescriptionProblem(f"{path}.banks", why)


def _policies(description: Description) -> Iterator[DescriptionProblem]:
    """What a core works in is filled and emptied by plans; only a memory before it may be a cache."""
    owner = {level.memory: f"cores.{name}" for name, core in description.cores.items() for level in core.memories}
    for name, memory in description.memories.items():
        if memory.policy != "managed" and name in owner:
            why = f"it is a level of {owner[name]}, which is always managed; caches lie between cores and DRAM"
            yield DescriptionProblem(f"memories.{name}.policy", why, memory.policy)
        if memory.resident and name in owner:
            why = f"it is a level of {owner[name]}, whose tiles need it; what stays lies between cores and DRAM"
            yield DescriptionProblem(f"memories.{name}.resident", why, ", ".join(memory.resident))


def _slots(path: str, core: CoreModel) -> Iterator[DescriptionProblem]:
    """Every slot must have a memory."""
    for operand in OPERANDS:
        if not any(operand in level.operands for level in core.memories):
            yield DescriptionProblem(
                f"{path}.memories", f"no level holds operand {operand}, so it has no path to memory"
            )


def port_of(ports: list[PortModel], operand: str, flow: Flow) -> int | None:
    """Index of the port that carries a flow: one that lists it, else one open to all in that direction.

    Where several are open, the first faces the array (feed, collect), the last faces up (fill, drain).
    """
    direction = "read" if flow.is_read else "write"
    fits = [index for index, port in enumerate(ports) if port.direction in (direction, "read_write")]
    for index in fits:
        listed = ports[index].carries
        if listed is not None and {operand, str(flow), f"{operand}.{flow}"} & set(listed):
            return index
    open_to_all = [index for index in fits if ports[index].carries is None]
    if not open_to_all:
        return None
    return open_to_all[0] if flow in (Flow.FEED, Flow.COLLECT) else open_to_all[-1]


def _connection(path: str, connection: ConnectionModel, description: Description) -> Iterator[DescriptionProblem]:
    table = endpoints(description)
    shape = next(name for name in ("mesh", "ring", "chain", "bus", "link") if getattr(connection, name) is not None)
    unknown = [member for member in connection.members if member not in table]
    for member in unknown:
        yield DescriptionProblem(
            f"{path}.{shape}", f"no core, memory, DRAM or endpoint of that name; {nearest(member, table)}", member
        )
    if unknown:
        return
    if connection.mesh is not None and description.cores.get(connection.mesh, None) is not None:
        if description.cores[connection.mesh].mesh is None:
            yield DescriptionProblem(
                f"{path}.mesh", f"core {connection.mesh} is not laid out as a mesh: give cores.{connection.mesh}.mesh"
            )
    elif connection.mesh is not None:
        yield DescriptionProblem(f"{path}.mesh", "a mesh links the copies of a core", connection.mesh)
    if connection.link is not None:
        first, second = (len(table[member]) for member in connection.link)
        if first != second and 1 not in (first, second):
            yield DescriptionProblem(f"{path}.link", f"cannot pair {first} endpoints with {second}")


def _paths(description: Description) -> Iterator[DescriptionProblem]:
    """Every core must reach a DRAM and be reached by it."""
    down: dict[str, set[str]] = {}
    for wire in wires(description):
        model = description.network[wire.connection]
        for i, source in enumerate(wire.endpoints):
            ends = wire.endpoints[i + 1 :] if model.directed else wire.endpoints
            if model.hub is None or source == model.hub:
                down.setdefault(source, set()).update(ends)
            elif not model.directed or model.hub in ends:  # thousands may be on a bus with one
                down.setdefault(source, set()).add(model.hub)
    up: dict[str, set[str]] = {}
    for source, targets in down.items():
        for target in targets:
            up.setdefault(target, set()).add(source)
    joined = set(endpoints(description))
    for name in description.dram:  # each of several has a part of the data, and nothing passes through another
        apart = set(description.dram) - {name}
        if apart and name not in down and name not in up:
            yield DescriptionProblem(f"dram.{name}", "no part of the network leads to it")
            continue
        joined &= _reachable(name, down, apart) & _reachable(name, up, apart)
    dram = "a DRAM" if len(description.dram) == 1 else "every DRAM"
    for name, core in description.cores.items():
        shared = shared_top(core)
        cut = [copy.name for copy in copies(name, core) if (shared or copy.name) not in joined]
        if cut:
            which = cut[0] if len(cut) == 1 else f"{cut[0]} and {len(cut) - 1} more"
            yield DescriptionProblem(
                f"cores.{name}",
                f"no path to memory: the network does not join {which} to {dram} in both directions",
            )
    for name in description.memories:
        if name not in joined:
            yield DescriptionProblem(f"memories.{name}", f"the network does not join it to {dram} in both directions")
    for name in description.outside:
        if name in down.keys() | up.keys() and name not in joined:
            yield DescriptionProblem(f"endpoints.{name}", f"the network does not join it to {dram} in both directions")


def _reachable(start: str, steps: dict[str, set[str]], ends: set[str]) -> set[str]:
    """Endpoints reachable from one; nothing passes through ``ends``."""
    seen, frontier = {start}, [start]
    while frontier:
        for target in steps.get(frontier.pop(), set()) - seen:
            seen.add(target)
            if target not in ends:
                frontier.append(target)
    return seen
