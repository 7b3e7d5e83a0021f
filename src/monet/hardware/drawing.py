"""Text for people: one-line facts of an accelerator, its tree, and a drawing of cores, memories and links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monet.hardware.accelerator import Accelerator, CoreInstance, Endpoint, Link
from monet.hardware.core import Core, MemoryLevel
from monet.hardware.ports import BOUNDLESS

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"),
             (1e-9, "n"), (1e-12, "p"), (1e-15, "f"))  # fmt: skip


UNITS = {
    "_bytes_per_s": "B/s",
    "_j_per_bit": "J/bit",
    "_hz": "Hz",
    "_j": "J",
    "_s": "s",
    "_w": "W",
    "_m": "m",
}  # by how the name of a field ends; the longer endings first


def si(value: float, unit: str, digits: int = 3) -> str:
    """A value with an SI prefix: ``si(4.2e-12, "J")`` is ``4.2 pJ``."""
    if value == 0:
        return f"0 {unit}"
    factor, prefix = next(((f, p) for f, p in _PREFIXES if abs(value) >= f * 0.9995), _PREFIXES[-1])
    return f"{value / factor:.{digits}g} {prefix}{unit}"


def binary_bytes(size: float) -> str:
    """Bytes with a binary prefix: ``2 MiB``."""
    for factor, prefix in ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if size >= factor:
            return f"{size / factor:.4g} {prefix}"
    return f"{size:.4g} B"


def area(area_m2: float) -> str:
    """Area in square millimetres."""
    return f"{area_m2 * 1e6:.3g} mm²" if area_m2 < 1e-4 else f"{area_m2 * 1e6:.0f} mm²"


def parameter_text(path: str, value: object) -> str:
    """What a parameter is set to, in the unit that its path ends in: ``2 MiB``, ``800 MHz``, ``64``."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if path.endswith("_bytes"):
        return binary_bytes(value)
    unit = next((unit for ending, unit in UNITS.items() if path.endswith(ending)), "")
    return si(value, unit, 4) if unit else f"{value:,.6g}"


def peak_rates(accelerator: Accelerator) -> dict[str, float]:
    """Peak operations per second (a multiply-accumulate is two) by element type of both inputs."""
    rates = (rate for instance in accelerator.cores for rate in instance.core.rates)
    dtypes = dict.fromkeys(rate.inputs[0] for rate in rates if len(set(rate.inputs)) == 1)
    return {dtype: 2 * accelerator.peak_macs_per_s(dtype) for dtype in dtypes}


def stated_peaks(accelerator: Accelerator) -> dict[str, float]:
    """The same at the clock of the maker's peak rates, which products may not hold."""
    faster = (accelerator.stated_clock_hz or accelerator.clock_hz) / accelerator.clock_hz
    return {dtype: rate * faster for dtype, rate in peak_rates(accelerator).items()}


def rates_text(rates: Mapping[str, float]) -> str:
    """Rates by element type, in words."""
    return ", ".join(f"{dtype} {si(rate, 'op/s')}" for dtype, rate in rates.items())


@dataclass(frozen=True, slots=True)
class Facts:
    """What a list of accelerators shows of each."""

    name: str
    cores: str
    peak: str
    on_chip: str
    dram: str
    area: str
    node: str


def facts(accelerator: Accelerator) -> Facts:
    """The row of one accelerator."""
    counts = {name: len(group) for name, group in grouped_cores(accelerator).items()}
    return Facts(
        accelerator.name,
        ", ".join(f"{count}×{name}" if count > 1 else name for name, count in counts.items()),
        rates_text(stated_peaks(accelerator)),
        binary_bytes(accelerator.on_chip_bytes),
        f"{accelerator.dram.kind} {si(accelerator.dram.bandwidth_bytes_per_s, 'B/s')}",
        area(accelerator.area_m2),
        f"{accelerator.node_nm:g} nm",
    )


def level_line(level: MemoryLevel) -> str:
    """One memory level: what it holds, how much, how wide, at what energy."""
    copies = f"{level.instances:,} × " if level.instances > 1 else ""
    ports = ", ".join(f"{port.name} {port.bandwidth_bits_per_cycle} bit/cycle" for port in level.ports)
    shared = f" (shared: {level.memory})" if level.memory else ""
    size = binary_bytes(level.size_bytes) + (", double-buffered" if level.double_buffered else "")
    size += f" in {level.banks} banks of {level.bank_bits} bit" if level.banks else ""
    return (
        f"{level.name}{shared} [{' '.join(level.operands)}] {copies}{size}; {ports}; "
        f"read {si(level.read_energy_j, 'J')}, write {si(level.write_energy_j, 'J')} per {level.access_bits} bit; "
        f"{area(level.total_area_m2)}, leaks {si(level.total_leakage_w, 'W')}"
    )


def axis_lines(core: Core) -> list[str]:
    """One line for each axis of each mode."""
    lines = []
    for mode in core.modes:
        for axis in mode.axes:
            wires = [f"multicast {operand}" for operand in sorted(axis.multicast)] + (["reduce"] if axis.reduce else [])
            dims = "any legal dimension" if axis.dims is None else " ".join(axis.dims)
            mode_name = f" in mode {mode.name}" if len(core.modes) > 1 else ""
            lines.append(f"axis {axis.name}: {axis.size}, {' + '.join(wires) or 'unicast'}, takes {dims}{mode_name}")
    return lines


def tile_lines(core: Core) -> list[str]:
    """How an array works that goes from output tile to output tile."""
    tiles = core.output_tiles
    if tiles is None:
        return []
    parts = ["flattened (im2col)" + ", input gradients by col2im" * tiles.col2im] if tiles.flatten else []
    parts += [f"queues of {tiles.queue_steps} steps"] if tiles.queue_steps is not None else []
    parts += [f"{tiles.overhead_cycles} cycles more each"] if tiles.overhead_cycles else []
    parts += [f"{tiles.setup_cycles} cycles to set up"] if tiles.setup_cycles else []
    parts += [f"first fill {tiles.first_fill_cycles} cycles"] if tiles.first_fill_cycles else []
    return [f"output tile by output tile: {'; '.join(parts) or 'as unrolled'}"]


def block_lines(core: Core) -> list[str]:
    """How products run in blocks of threads."""
    blocks = core.thread_blocks
    if blocks is None:
        return []
    tiles = ", ".join(f"{rows}×{columns}" for rows, columns in blocks.tiles)
    return [
        f"kernels of blocks that make {tiles} results, by warps of {blocks.warp[0]}×{blocks.warp[1]}; "
        f"{blocks.stages} slices of {blocks.slice_bytes} bytes a row, {blocks.latency_cycles} cycles away"
    ]


def core_lines(core: Core) -> list[str]:
    """What a core can do and what it is made of."""
    lines = axis_lines(core)
    for rate in core.rates:
        pair = rate.inputs[0] if len(set(rate.inputs)) == 1 else "×".join(rate.inputs)
        lines.append(
            f"{pair} → {rate.accumulator}: {rate.products_per_cycle:g} products/cycle and unit, "
            f"{si(rate.energy_j, 'J')} each, peak {si(2 * core.peak_macs_per_s(rate), 'op/s')}"
        )
    lines += tile_lines(core) + block_lines(core)
    if core.lanes:
        dtypes = ", ".join(f"{rate.dtype} {si(rate.energy_j, 'J')}" for rate in core.vector_rates)
        what = f"quantiser of {core.lanes} elements" if core.only_quantises else f"{core.lanes} vector lanes"
        lines.append(f"{what}: {dtypes} per lane-cycle")
    return lines


def grouped_cores(accelerator: Accelerator) -> dict[str, list[CoreInstance]]:
    """Core instances by template."""
    groups: dict[str, list[CoreInstance]] = {}
    for instance in accelerator.cores:
        groups.setdefault(instance.template, []).append(instance)
    return groups


def link_line(link: Link) -> str:
    """One link or bus."""
    arrow = " → " if link.directed else " ↔ "
    if link.is_bus:
        shown = [*link.endpoints[:2], f"… {len(link.endpoints) - 3} more", link.endpoints[-1]]
        ends = "bus " + ", ".join(shown if len(link.endpoints) > 4 else link.endpoints)
    else:
        ends = arrow.join(link.endpoints)
    return (
        f"{link.name}: {ends}; {link.width_bits_per_cycle:g} bit/cycle = {si(link.bandwidth_bits_per_s / 8, 'B/s')}, "
        f"{si(link.energy_j_per_bit, 'J')}/bit"
    )


def endpoint_line(endpoint: Endpoint) -> str:
    """Something outside of the chip, and the port to it."""
    size = f" {binary_bytes(endpoint.capacity_bytes)}," if endpoint.capacity_bytes != BOUNDLESS else ""
    return (
        f"{endpoint.name} ({endpoint.kind}) at {endpoint.place}:{size} {si(endpoint.bandwidth_bytes_per_s, 'B/s')}, "
        f"{si(endpoint.latency_s, 's')}, {si(endpoint.energy_j_per_bit, 'J')}/bit"
    )


def drawing(accelerator: Accelerator) -> str:
    """Cores (grids as grids), what they hang on, and DRAM below."""
    lines: list[str] = []
    for template, group in grouped_cores(accelerator).items():
        lines += _grid(template, group) if len(group[0].position) == 2 else _row(template, group)
    for link in accelerator.links:
        if link.is_bus:
            lines.append(f"══╧══ {link.name} {link.width_bits_per_cycle:g} bit/cycle ══ {len(link.endpoints)} ends")
    for memory in accelerator.memories:
        if memory.level.memory:
            lines.append(f"[ {memory.name} {binary_bytes(memory.size_bytes)} ]")
    for dram in accelerator.drams:
        size = binary_bytes(dram.capacity_bytes)
        lines.append(f"[[ {dram.name} {dram.kind} {size}, {si(dram.bandwidth_bytes_per_s, 'B/s')} ]]")
    lines += [f"── {endpoint_line(endpoint)}" for endpoint in accelerator.endpoints]
    return "\n".join(lines)


def _box(instance: CoreInstance) -> str:
    top = max(instance.core.levels, key=lambda level: level.total_bytes)
    what = f"{instance.core.units} MAC" if instance.core.units else f"{instance.core.lanes} lanes"
    where = f" on {top.memory}" if top.memory else f" {binary_bytes(top.total_bytes)}"
    return f"[{what}{where}]"


def _grid(template: str, group: list[CoreInstance]) -> list[str]:
    rows = 1 + max(instance.position[1] for instance in group)
    columns = 1 + max(instance.position[0] for instance in group)
    box = _box(group[0])
    between = "   ".join("│".center(len(box)) for _ in range(columns))
    lines = [f"{template} {columns}×{rows}"]
    for row in range(rows):
        lines.append("───".join([box] * columns))
        if row + 1 < rows:
            lines.append(between)
    return lines


def _row(template: str, group: list[CoreInstance]) -> list[str]:
    box = _box(group[0])
    shown = " ".join([box] * len(group)) if len(group) <= 6 else f"{box} × {len(group)}"
    return [f"{template} {shown}"]
