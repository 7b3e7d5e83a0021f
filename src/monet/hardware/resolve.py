"""Description → Accelerator: everything that was left out is derived here, through the technology model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from monet.hardware.accelerator import Accelerator, CoreInstance, Dram, Endpoint, Interface, Link, Memory
from monet.hardware.check import port_of
from monet.hardware.core import (
    OPERANDS,
    ArrayMode,
    Axis,
    Core,
    CoreKind,
    Flow,
    MemoryLevel,
    Port,
    TransposedRead,
    flows_of,
)
from monet.hardware.description import (
    ConnectionModel,
    CoreModel,
    Description,
    DramModel,
    EndpointModel,
    LevelModel,
    PortModel,
    QuantiserModel,
    StorageModel,
    VectorModel,
    default_accumulator,
)
from monet.hardware.functions import DEFAULT_CYCLES
from monet.hardware.interfaces import Pads, dram_kind, serial_kind
from monet.hardware.interleaving import together, with_places
from monet.hardware.layout import Wire, copies, shared_top, wires
from monet.hardware.output_tiles import OutputTiles
from monet.hardware.ports import BOUNDLESS
from monet.hardware.rates import Rate, VectorRate
from monet.hardware.technology import REGISTER_LIMIT_BYTES, Technology, is_derivable
from monet.hardware.thread_blocks import ThreadBlocks

GIB = 2**30


def resolve(description: Description) -> Accelerator:
    """The accelerator that a checked description stands for."""
    technology = Technology(description.node_nm, description.process)
    shared = {
        name: _level(name, model, technology, operands=OPERANDS, replicas=1, shared_along=(), memory=name)
        for name, model in description.memories.items()
    }
    designs = {
        name: same_core(_core(core, description, technology, shared)) for name, core in description.cores.items()
    }
    instances = [
        instance for name, core in description.cores.items() for instance in _instances(name, core, designs[name])
    ]
    dram = _drams(description)
    interfaces = _interfaces(description, dram, technology)
    links = _links(description, instances, shared, technology)
    always_w, gated_w = _clocks(description, designs, instances, shared, links, interfaces, technology)
    accelerator = with_places(
        Accelerator(
            name=description.name,
            node_nm=description.node_nm,
            clock_hz=description.clock_hz,
            host_dispatch_s=description.host_dispatch_s,
            stated_clock_hz=max(description.stated_clock_hz or 0.0, description.clock_hz),
            cores=tuple(instances),
            memories=_memories(description, instances, shared),
            dram=dram,
            links=tuple(link for link, _ in links),
            other_area_m2=description.other_area_m2,
            other_leakage_w=technology.leakage_w(description.other_area_m2),
            endpoints=tuple(_endpoint(name, model, description) for name, model in description.outside.items()),
            interfaces=interfaces,
            tdp_w=description.tdp_w or 0.0,
            clock_power_w=always_w,
            gated_clock_w=gated_w,
        )
    )
    return accelerator.described_by(description._document) if description._document else accelerator


# --- memories ---------------------------------------------------------------------------------------------------------


def _ports(models: list[PortModel], operands: tuple[str, ...]) -> tuple[Port, ...]:
    """Ports with what each of them carries."""
    carried: list[set[tuple[str, Flow]]] = [set() for _ in models]
    for operand in operands:
        for flow in flows_of(operand):
            index = port_of(models, operand, flow)
            if index is not None:
                carried[index].add((operand, flow))
    return tuple(
        Port(model.name or f"port{index}", model.direction, model.bandwidth_bits_per_cycle, frozenset(carries))
        for index, (model, carries) in enumerate(zip(models, carried, strict=True))
    )


def _level(
    name: str,
    model: StorageModel,
    technology: Technology,
    *,
    operands: tuple[str, ...],
    replicas: int,
    shared_along: tuple[str, ...],
    memory: str = "",
    ports: list[PortModel] | None = None,
) -> MemoryLevel:
    """A memory with its price; a figure that the description gives is taken as it stands."""
    widest = max(port.bandwidth_bits_per_cycle for port in model.ports)
    access_bits = model.access_bits or widest
    moved = sum(port.bandwidth_bits_per_cycle for port in model.ports)
    if model.banks is None:
        register = _is_register(model)
        cost = technology.memory(model.size_bytes, access_bits, len(model.ports), moved, is_register=register)
    else:
        cost = technology.banked_sram(model.size_bytes, access_bits, model.banks, model.bank_bits)
    return MemoryLevel(
        name=name,
        operands=operands,
        size_bytes=model.size_bytes,
        shared_along=shared_along,
        instances=replicas,
        ports=_ports(ports or model.ports, operands),
        min_access_bits=model.min_access_bits or access_bits,
        access_bits=access_bits,
        read_energy_j=cost.read_energy_j if model.read_energy_j is None else model.read_energy_j,
        write_energy_j=cost.write_energy_j if model.write_energy_j is None else model.write_energy_j,
        area_m2=cost.area_m2 if model.area_m2 is None else model.area_m2,
        leakage_w=_leakage(model, technology, cost.area_m2, cost.leakage_w),
        double_buffered=model.double_buffered,
        latency_cycles=model.latency_cycles,
        memory=memory,
        banks=model.banks or 0,
        bank_bits=model.bank_bits,
    )


def _is_register(model: StorageModel) -> bool:
    return model.kind == "register" if model.kind else model.size_bytes <= REGISTER_LIMIT_BYTES


def _leakage(model: StorageModel, technology: Technology, derived_area: float, derived: float) -> float:
    """Given leakage, or that of the given area, or the derived one."""
    if model.leakage_w is not None:
        return model.leakage_w
    return derived if model.area_m2 in (None, derived_area) else technology.leakage_w(model.area_m2 or 0.0)


def _core_level(
    level: LevelModel, core: CoreModel, description: Description, technology: Technology, shared: dict[str, MemoryLevel]
) -> MemoryLevel:
    """A level of a core: its own, or its view of a shared memory."""
    axes = tuple(core.axes)
    operands = tuple(operand for operand in OPERANDS if operand in level.operands)
    if level.memory is not None:
        model = description.memories[level.memory]
        return _level(
            level.name, model, technology, operands=operands, replicas=1, shared_along=axes, memory=level.memory,
            ports=level.ports,
        )  # fmt: skip
    along = () if "*" in level.per else tuple(axis for axis in axes if axis not in level.per)
    replicas = math.prod(core.axes[axis].size for axis in axes if axis not in along)
    return _level(level.name, level, technology, operands=operands, replicas=replicas, shared_along=along)


def _memories(
    description: Description, instances: list[CoreInstance], shared: dict[str, MemoryLevel]
) -> tuple[Memory, ...]:
    """The memories that the scheduler owns: private tops by core, then shared ones."""
    found: dict[str, Memory] = {}
    for instance in instances:
        for operand, name in instance.memories:
            level = instance.core.top(operand)
            if not level.memory and name not in found:
                found[name] = Memory(name, level, (instance.name,), instance.name, instance.core.clock_hz)
    for name, level in shared.items():
        users = tuple(user.name for user in instances if any(name == used for _, used in user.memories))
        model = description.memories[name]
        clock = model.clock_hz or description.clock_hz
        found[name] = Memory(name, level, users, name, clock, model.policy == "lru", tuple(model.resident))
    return tuple(found.values())


# --- cores ------------------------------------------------------------------------------------------------------------


def _modes(core: CoreModel) -> tuple[ArrayMode, ...]:
    axes = tuple(
        Axis(name, axis.size, frozenset(axis.multicast), axis.reduce, _dims(axis.dims), axis.systolic)
        for name, axis in core.axes.items()
    )
    if not axes:
        return ()
    modes = [ArrayMode("default", axes)]
    for name, rewired in core.modes.items():
        changed = tuple(
            Axis(axis.name, axis.size, frozenset(new.multicast), new.reduce, _dims(new.dims), axis.systolic)
            if (new := rewired.get(axis.name))
            else axis
            for axis in axes
        )
        modes.append(ArrayMode(name, changed))
    return tuple(modes)


def _dims(dims: list[str] | None) -> tuple[str, ...] | None:
    return None if dims is None else tuple(dims)


def _rates(core: CoreModel, technology: Technology) -> tuple[Rate, ...]:
    found = []
    for pair, model in core.rates.items():
        first, _, second = pair.partition("*")
        second = second or first
        accumulator = model.accumulator or default_accumulator(first, second)
        energy = model.energy_j
        if energy is None:
            energy = technology.energy_j("mac", first, second, accumulator)
        products = model.products_per_step or max(1, round(model.products_per_cycle))
        cycles = max(1, round(products / model.products_per_cycle))
        found.append(Rate((first, second), accumulator, products, cycles, energy))
    return tuple(found)


def _vector_rates(vector: VectorModel | None, technology: Technology) -> tuple[VectorRate, ...]:
    if vector is None:
        return ()
    return tuple(
        VectorRate(
            dtype,
            model.elements_per_cycle,
            technology.energy_j("mac", dtype, dtype, dtype) if model.energy_j is None else model.energy_j,
        )
        for dtype, model in vector.dtypes.items()
    )


def _quantiser_rates(quantiser: QuantiserModel | None) -> tuple[VectorRate, ...]:
    if quantiser is None:
        return ()
    per_lane_cycle = quantiser.energy_j / (quantiser.block * quantiser.cycles_per_block)
    return tuple(VectorRate(dtype, 1.0, per_lane_cycle) for dtype in quantiser.dtypes)


def _functions(core: CoreModel) -> tuple[tuple[str, float], ...]:
    vector = core.vector
    if vector is None:
        return (("quantize", core.quantiser.cycles_per_block),) if core.quantiser else ()
    cycles = DEFAULT_CYCLES | vector.functions
    return tuple((name, cycles[name]) for name in (vector.only if vector.only is not None else cycles))


def _compute_area(core: CoreModel, rates: tuple[Rate, ...], technology: Technology) -> float:
    """Area of units and lanes: as large as the most demanding format. One at a quarter of the rate takes a quarter."""
    if core.compute_area_m2 is not None:
        return core.compute_area_m2
    unit = max(
        (
            technology.area_m2("mac", *rate.inputs, rate.accumulator) * rate.products_per_cycle
            for rate in rates
            if all(map(is_derivable, rate.inputs))
        ),
        default=0.0,
    )
    area = unit * math.prod(axis.size for axis in core.axes.values()) if core.axes else 0.0
    if core.vector is not None:
        area += core.vector.lanes * max(
            technology.area_m2("mac", dtype, dtype, dtype) * model.elements_per_cycle
            for dtype, model in core.vector.dtypes.items()
            if is_derivable(dtype)
        )
    return area


def _core(core: CoreModel, description: Description, technology: Technology, shared: dict[str, MemoryLevel]) -> Core:
    levels = tuple(_core_level(level, core, description, technology, shared) for level in core.memories)
    rates = _rates(core, technology)
    compute_area = _compute_area(core, rates, technology)
    leakage = technology.leakage_w(compute_area) if core.compute_leakage_w is None else core.compute_leakage_w
    return Core(
        kind=CoreKind(core.kind),
        clock_hz=core.clock_hz or description.clock_hz,
        modes=_modes(core),
        rates=rates,
        lanes=core.vector.lanes if core.vector else core.quantiser.block if core.quantiser else 0,
        vector_rates=_vector_rates(core.vector, technology) or _quantiser_rates(core.quantiser),
        functions=_functions(core),
        levels=levels,
        accumulator_level=next(level.name for level in levels if "O" in level.operands),
        swappable_inputs=core.swappable_inputs,
        zero_skipping=core.zero_skipping,
        transposed_read=TransposedRead(core.transposed_read.kind, core.transposed_read.cycles_per_element),
        mode_switch_cycles=core.mode_switch_cycles,
        dispatch_cycles=description.dispatch_cycles if core.dispatch_cycles is None else core.dispatch_cycles,
        refills_every_tile=core.refill == "tile",
        format_switch_cycles=core.format_switch_cycles,
        output_tiles=_output_tiles(core, description),
        thread_blocks=_thread_blocks(core),
        tile_buffers=core.tile_buffers or 0,
        area_m2=compute_area + sum(level.total_area_m2 for level in levels if not level.memory),
        compute_area_m2=compute_area,
        compute_leakage_w=leakage,
    )


def _output_tiles(core: CoreModel, description: Description) -> OutputTiles | None:
    model = core.output_tiles
    if model is None:
        return None
    clock = core.clock_hz or description.clock_hz
    dram = _drams(description)
    fill = math.ceil((model.first_fill_bytes or 0) * clock / dram.bandwidth_bytes_per_s)
    return OutputTiles(model.flatten, model.col2im, model.queue_steps, model.overhead_cycles, model.setup_cycles, fill)


def _thread_blocks(core: CoreModel) -> ThreadBlocks | None:
    model = core.thread_blocks
    if model is None:
        return None
    tiles, fp32, batched = (
        tuple(model.sizes(tile) for tile in these)
        for these in (model.tiles, model.fp32_tiles, model.fp32_batched_tiles)
    )
    slices = model.slice_bytes, model.stages, model.latency_cycles
    fetch = model.fetch_bits_per_cycle or 0
    blocks = ThreadBlocks(tiles, model.sizes(model.warp), *slices, fetch, fp32 or tiles, batched or fp32 or tiles)
    return replace(blocks, fp32_clock_share=model.fp32_clock_share)


@lru_cache(maxsize=256)
def same_core(core: Core) -> Core:
    """Of equal cores the first: one object, quick to compare, that keeps what was worked out about it."""
    return core


def _instances(template: str, model: CoreModel, core: Core) -> Iterator[CoreInstance]:
    """The copies of a core; there may be thousands."""
    shared = shared_top(model)
    tops = [(operand, core.top(operand)) for operand in OPERANDS if operand not in core.streamed]
    for copy in copies(template, model):
        memories = tuple((operand, top.memory or f"{copy.name}.{top.name}") for operand, top in tops)
        yield CoreInstance(copy.name, template, core, memories, shared or copy.name, copy.position)


# --- DRAM and network -------------------------------------------------------------------------------------------------


def _endpoint(name: str, model: EndpointModel, description: Description) -> Endpoint:
    linked = any(name in wire.endpoints for wire in wires(description))
    size = BOUNDLESS if model.capacity_bytes is None else model.capacity_bytes
    return Endpoint(
        name, model.kind, model.bandwidth_bytes_per_s, model.latency_s, model.energy_j_per_bit, size,
        name if linked else next(iter(description.dram)),
    )  # fmt: skip


def _drams(description: Description) -> Dram:
    """All DRAMs as one."""
    return together([_dram(name, model, description.clock_hz) for name, model in description.dram.items()])


def _dram(name: str, model: DramModel, clock_hz: float) -> Dram:
    if model.bandwidth_bytes_per_s is not None:
        bandwidth = model.bandwidth_bytes_per_s * 8
    elif model.bandwidth_bits_per_cycle is not None:
        bandwidth = model.bandwidth_bits_per_cycle * clock_hz
    else:
        bandwidth = dram_kind(model.kind).channel_bytes_per_s * 8 * model.channels
    derived = _dram_figures(model)
    given = {key: getattr(model, key) for key in derived}
    figures: dict[str, Any] = {key: derived[key] if given[key] is None else given[key] for key in derived}
    return Dram(
        name=name,
        kind=model.kind,
        capacity_bytes=model.capacity_bytes,
        channels=model.channels,
        bandwidth_bits_per_s=bandwidth,
        efficiency=tuple((row.bytes, row.share) for row in model.efficiency),
        **figures,
    )


def _dram_figures(model: DramModel) -> dict[str, float]:
    """What the kind of DRAM says; a custom one gives all of this itself."""
    if model.kind == "custom":
        return dict.fromkeys(
            ("latency_s", "burst_bytes", "read_energy_j_per_bit", "write_energy_j_per_bit", "static_power_w"), math.nan
        )
    kind = dram_kind(model.kind)
    per_bit = kind.energy_pj_per_bit[1] * 1e-12
    return {
        "latency_s": kind.latency_s,
        "burst_bytes": kind.burst_bytes,
        "read_energy_j_per_bit": per_bit,
        "write_energy_j_per_bit": per_bit,
        "static_power_w": kind.static_w_per_gib * model.capacity_bytes / GIB,
    }


def _interfaces(description: Description, dram: Dram, technology: Technology) -> tuple[Interface, ...]:
    """The chip's side of DRAM, and serial links: both leak, controllers are clocked, serial links are always driven."""
    found = []
    for each in dram.parts or (dram,):
        model = description.dram[each.name]
        kind = model.interface or (model.kind if model.kind != "custom" else "")
        pads = dram_kind(kind).interface(each.bandwidth_bytes_per_s) if kind else Pads(0.0, 0.0)
        rate, given = each.bandwidth_bytes_per_s, model.interface_area_m2
        found.append(_interface(f"{each.name} PHY", kind or "custom", rate, pads, technology, given))
    for name, serial in description.serial.items():
        of_kind, bandwidth = serial_kind(serial.kind), serial.bandwidth_bytes_per_s
        part = _interface(name, serial.kind, bandwidth, of_kind.interface(bandwidth), technology)
        found.append(replace(part, standing_w=part.standing_w + of_kind.power_w(bandwidth)))
    return tuple(found)


def _interface(
    name: str, kind: str, bandwidth: float, pads: Pads, technology: Technology, given_m2: float | None = None
) -> Interface:
    area = pads.area_m2(technology) if given_m2 is None else given_m2
    return Interface(name, kind, bandwidth, area, pads.controller_m2(technology), technology.leakage_w(area))


def _links(
    description: Description, instances: list[CoreInstance], shared: dict[str, MemoryLevel], technology: Technology
) -> list[tuple[Link, float]]:
    """Links, each with the area of its clocked logic. The floor plan is square cores and memories side by side."""
    pitch = {instance.endpoint: math.sqrt(instance.core.area_m2) for instance in instances}
    pitch |= {name: math.sqrt(level.total_area_m2) for name, level in shared.items()}
    side = math.sqrt(sum(instance.core.area_m2 for instance in instances))
    return [
        _link(wire, description.network[wire.connection], description.clock_hz, pitch, side, technology)
        for wire in wires(description)
    ]


def _link(
    wire: Wire, model: ConnectionModel, clock_hz: float, pitch: dict[str, float], side: float, technology: Technology
) -> tuple[Link, float]:
    clock = model.clock_hz or clock_hz
    if model.bandwidth_bytes_per_s is not None:
        bandwidth = model.bandwidth_bytes_per_s * 8
    else:
        bandwidth = (model.bandwidth_bits_per_cycle or 0.0) * clock
    width, is_bus = bandwidth / clock, model.bus is not None
    length = model.length_m
    if length is None:
        length = side if is_bus else max((pitch.get(end, 0.0) for end in wire.endpoints), default=0.0)
    shared_directions = is_bus if model.shared_directions is None else model.shared_directions
    ends = 1 if model.directed else len(wire.endpoints)
    cost = technology.link(width * (1 if model.directed or shared_directions else 2), length, width * ends)
    energy = technology.link_energy_j_per_bit(length) if model.energy_j_per_bit is None else model.energy_j_per_bit
    link = Link(
        name=wire.name,
        endpoints=wire.endpoints,
        bandwidth_bits_per_s=bandwidth,
        latency_s=model.latency_cycles / clock,
        energy_j_per_bit=energy,
        area_m2=cost.area_m2 if model.area_m2 is None else model.area_m2,
        width_bits_per_cycle=width,
        clock_hz=clock,
        shared_directions=shared_directions,
        directed=model.directed,
        hub=model.hub or "",
        leakage_w=cost.leakage_w if model.area_m2 is None else technology.leakage_w(model.area_m2),
    )
    return link, cost.logic_m2 if model.area_m2 is None else model.area_m2


# --- clock ------------------------------------------------------------------------------------------------------------


def _clocks(
    description: Description,
    designs: dict[str, Core],
    instances: list[CoreInstance],
    shared: dict[str, MemoryLevel],
    links: list[tuple[Link, float]],
    interfaces: tuple[Interface, ...],
    technology: Technology,
) -> tuple[float, tuple[tuple[str, float], ...]]:
    """Power of the clock that always runs, and of a core of each template whose clock runs while it is busy."""
    if description.clock_power_w is not None:
        return description.clock_power_w, ()
    outside = _other_clock_w(description, shared, links, interfaces, technology)
    of_core = _core_clocks(description, designs, technology)
    gating = description.process == "low_power" if description.clock_gating is None else description.clock_gating
    if gating:
        return outside, tuple(of_core.items())
    return outside + math.fsum(of_core[instance.template] for instance in instances), ()


def _core_clocks(description: Description, designs: dict[str, Core], technology: Technology) -> dict[str, float]:
    """Clock power of a core of each template: compute and registers. SRAM is clocked only when it is accessed."""
    found = {}
    for name, core in designs.items():
        registers = (
            level.total_area_m2
            for level, model in zip(core.levels, description.cores[name].memories, strict=True)
            if not level.memory and _is_register(model)
        )
        found[name] = technology.clock_w(core.compute_area_m2 + math.fsum(registers), core.clock_hz)
    return found


def _other_clock_w(
    description: Description,
    shared: dict[str, MemoryLevel],
    links: list[tuple[Link, float]],
    interfaces: tuple[Interface, ...],
    technology: Technology,
) -> float:
    """Clock power outside cores: links, controllers, shared registers, and what the description adds."""
    logic = description.other_area_m2 + math.fsum(part.logic_m2 for part in interfaces)
    power = technology.clock_w(logic, description.clock_hz)
    for name, level in shared.items():
        model = description.memories[name]
        if _is_register(model):
            power += technology.clock_w(level.total_area_m2, model.clock_hz or description.clock_hz)
    return power + math.fsum(technology.clock_w(logic, link.clock_hz) for link, logic in links)
