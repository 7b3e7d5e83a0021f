"""Random small graphs, accelerators and plans. Sizes come from short lists, so that mappings repeat and stay cheap."""

from __future__ import annotations

import random
from functools import cache

from monet.graph import Graph, GraphBuilder
from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import describe_text
from monet.hardware.resolve import resolve
from monet.schedule.clusters import LEAST
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.plan import Group, Placement, Plan, PlanError
from monet.schedule.schedule import Schedule
from monet.training.step import training_step

CORES = """
  pe:
    kind: matrix
    {layout}
    {buffers}
    axes:
      across: {{size: 4, multicast: [I]}}
      down: {{size: 4, reduce: true}}
    rates: {{int8: {{}}, fp32: {{products_per_cycle: 0.5}}}}
    zero_skipping: true
    memories:
      - {{name: sums, operands: [O], per: [across], size_bytes: 4, ports: 2r2w, bandwidth_bits_per_cycle: 32}}
      - {{name: sram, size_bytes: {sram}, bandwidth_bits_per_cycle: 128}}
  simd:
    kind: vector
    vector: {{lanes: 4, dtypes: [int8, int32, int64, bool, fp32]}}
    memories:
      - {{name: local, size_bytes: {local}, bandwidth_bits_per_cycle: 64}}
"""
SHARED = """
memories:
  buffer: {{size_bytes: {sram}, bandwidth_bits_per_cycle: {port}}}
cores:
  pe:
    kind: matrix
    {buffers}
    axes:
      across: {{size: 4, multicast: [I]}}
      down: {{size: 4, reduce: true}}
    rates: {{int8: {{}}, fp32: {{products_per_cycle: 0.5}}}}
    zero_skipping: true
    memories:
      - {{name: sums, operands: [O], per: [across], size_bytes: 4, ports: 2r2w, bandwidth_bits_per_cycle: 32}}
      - {{name: buffer, memory: buffer}}
  simd:
    kind: vector
    vector: {{lanes: 4, dtypes: [int8, int32, int64, bool, fp32]}}
    memories:
      - {{name: buffer, memory: buffer}}
"""
NETWORKS = {
    "bus": "  bus: {{bus: [pe, simd, dram], bandwidth_bits_per_cycle: {link}}}",
    "mesh": "  noc: {{mesh: pe, bandwidth_bits_per_cycle: 32}}\n"
    "  to_simd: {{link: ['pe[0,0]', simd], bandwidth_bits_per_cycle: 32}}\n"
    "  bus: {{bus: [pe, simd, dram], hub: dram, bandwidth_bits_per_cycle: {link}}}",
    "shared": "  port: {{link: [buffer, dram], bandwidth_bits_per_cycle: {link}, shared_directions: true}}",
    # one memory above all cores; and two clusters with a memory each, below one above both
    "level": "  inside: {{bus: [pe, simd, l2], hub: l2, bandwidth_bits_per_cycle: {link}}}\n"
    "  outside: {{link: [l2, dram], bandwidth_bits_per_cycle: {link}}}",
    "levels": "  first: {{bus: ['pe[0]', 'pe[1]', left], hub: left, bandwidth_bits_per_cycle: {link}}}\n"
    "  second: {{bus: ['pe[2]', simd, right], hub: right, bandwidth_bits_per_cycle: {link}}}\n"
    "  up: {{bus: [left, right, l3], hub: l3, bandwidth_bits_per_cycle: {link}}}\n"
    "  outside: {{link: [l3, dram], bandwidth_bits_per_cycle: {link}, shared_directions: true}}",
}
LEVELS = {
    "level": "memories:\n"
    "  l2: {{size_bytes: {level}, policy: {policy}, resident: [{resident}], bandwidth_bits_per_cycle: {port}}}\n",
    "levels": "memories:\n"
    "  left: {{size_bytes: {level}, policy: {policy}, bandwidth_bits_per_cycle: {port}}}\n"
    "  right: {{size_bytes: {level}, ports: 1rw, bandwidth_bits_per_cycle: {port}}}\n"
    "  l3: {{size_bytes: {level3}, policy: {policy}, bandwidth_bits_per_cycle: {port}}}\n",
}
HEAD = """
name: small
node_nm: 28
clock_hz: {clock} MHz
"""
DRAM = """
dram:
  dram: {{kind: custom, capacity_bytes: 1 GiB, bandwidth_bits_per_cycle: {dram}, latency_s: {latency} ns,
         burst_bytes: 8, efficiency: {efficiency},
         read_energy_j_per_bit: 5 pJ/bit, write_energy_j_per_bit: 6 pJ/bit, static_power_w: 0.01}}
network:
"""


@cache
def accelerator(
    network: str = "bus",
    *,
    sram: int = 8192,
    local: int = 4096,
    link: int = 32,
    dram: int = 16,
    latency: int = 40,
    clock: int = 500,
    count: int = 3,
    port: int = 128,
    buffers: int = 0,
    level: int = 8192,
    policy: str = "managed",
    resident: str = "",
    efficiency: str = "1",
) -> Accelerator:
    """A small accelerator: some matrix cores and a vector core, with memories between them and DRAM if wanted, or one
    of each on a shared memory."""
    layout = {"mesh": "mesh: 2x2", "shared": ""}.get(network, f"count: {count}")
    counted = f"tile_buffers: {buffers}" if buffers else ""
    cores = SHARED if network == "shared" else LEVELS.get(network, "") + "cores:" + CORES
    text = (HEAD + cores + DRAM + NETWORKS[network] + "\n").format(
        layout=layout, buffers=counted, sram=sram, local=local, link=link, dram=dram, latency=latency, clock=clock,
        port=port, level=level, level3=2 * level, policy=policy, resident=resident, efficiency=efficiency,
    )  # fmt: skip
    return resolve(describe_text(text, "small"))


def random_accelerator(seed: random.Random) -> Accelerator:
    """One of a few dozen."""
    return accelerator(
        seed.choice(sorted(NETWORKS)),
        sram=seed.choice((3072, 8192, 65536)),
        local=seed.choice((2048, 16384)),
        link=seed.choice((16, 64)),
        dram=seed.choice((8, 64)),
        latency=seed.choice((0, 40)),
        port=seed.choice((32, 128)),
        buffers=seed.choice((0, 0, 1, 2, 3)),
        level=seed.choice((1000, 8192, 65536)),
        policy=seed.choice(("managed", "lru")),
        efficiency=seed.choice(("1", "1", "[{bytes: 64, share: 0.5}, {bytes: 1024, share: 0.75}]")),
    )


def random_graph(seed: random.Random, prefix: str = "") -> Graph:
    """A handful of layers with a branch now and then; inference, or a whole training step."""
    builder = GraphBuilder("random")
    channels, size = seed.choice((4, 8)), seed.choice((6, 8))
    x = builder.input("image", (seed.choice((1, 2)), channels, size, size))
    earlier: list[str] = []
    for number in range(seed.randint(1, 4)):
        kind = seed.choice(("conv", "conv", "relu", "norm", "add", "pointwise"))
        with builder.scope(f"{prefix}layer{number}"):
            if kind in ("conv", "pointwise"):
                window = 3 if kind == "conv" else 1
                out = seed.choice((4, 8))
                weight = builder.parameter("weight", (out, channels, window, window))
                pad = ((window // 2,) * 2,) * 2
                x = builder.emit("conv", x, weight, stride=(1, 1), padding=pad, dilation=(1, 1), groups=1)
                channels = out
            elif kind == "relu":
                x = builder.emit("relu", x)
            elif kind == "norm":
                x = builder.emit("softmax", x, axis=1)
            else:
                same = [one for one in earlier if builder.tensors[one].shape == builder.tensors[x].shape]
                x = builder.emit("add", x, same[0] if same else x)
        earlier.append(x)
    if all(op.kind != "conv" for op in builder.ops):
        weight = builder.parameter("last.weight", (4, channels, 1, 1))
        x = builder.emit("conv", x, weight, stride=(1, 1), padding=((0, 0),) * 2, dilation=(1, 1), groups=1)
    graph = builder.build([x])
    return training_step(graph, loss="sum") if seed.random() < 0.5 else graph


def random_plan(seed: random.Random, scheduler: Scheduler) -> Plan:
    """Some chains fused, some operators placed or split by hand."""
    workload, cores = scheduler.workload, scheduler.machine.accelerator.cores
    groups: list[Group] = []
    current: list[str] = []
    for operator in workload.operators:
        if len(operator.operands[-1][1].shape) == 4 and seed.random() < 0.6:
            current.append(operator.op.name)
            continue
        groups += _group(seed, scheduler, current)
        current = []
    groups += _group(seed, scheduler, current)
    placements = {}
    for operator in workload.operators:
        if seed.random() < 0.3:
            wanted = [c for c in cores if (c.core.modes if operator.is_matrix else c.core.lanes)]
            wanted_dims = seed.choice((operator.splittable, operator.summed))
            dims = sorted(dim for dim in wanted_dims if operator.nest.sizes[dim] >= len(wanted) > 1)
            dim = seed.choice(dims) if dims else ""
            two = _several_dims(seed, operator, [c.name for c in wanted])
            if two and seed.random() < 0.5:
                placements[operator.op.name] = two
            elif dim and seed.random() < 0.5 and not _windowed(operator, dim):
                placements[operator.op.name] = Placement(tuple(c.name for c in wanted), dim)
            else:
                placements[operator.op.name] = Placement((seed.choice(wanted).name,))
    return Plan(
        tuple(groups),
        placements,
        boundary=seed.choice(("keep", "local", "dram")),
        prefetch=seed.choice((None, None, 0, 1, 2)),
        buffer_share=seed.choice((0.5, 1.0)),
        memory_share=seed.choice((1.0, 1.0, 0.5)),
    )


def _several_dims(seed: random.Random, operator, cores: list[str]) -> Placement | None:
    """A split of two dimensions, three if there are eight cores, of the result or summed over, each in two parts."""
    allowed = sorted(dim for dim in operator.tileable if operator.nest.sizes[dim] > 1 and not _windowed(operator, dim))
    if len(cores) < 4 or len(allowed) < 2:
        return None
    dims = seed.sample(allowed, 3 if len(cores) >= 8 and len(allowed) >= 3 else 2)
    return Placement(tuple(cores[: 2 ** len(dims)]), tuple((dim, 2) for dim in dims))


def _windowed(operator, dim: str) -> bool:
    return any(
        dim in {name for name, _ in index.terms} and len(index.terms) > 1
        for operand in operator.nest.writes
        for index in operand.indices
    )


def _group(seed: random.Random, scheduler: Scheduler, names: list[str]) -> list[Group]:
    if len(names) < 2:
        return []
    last = next(one for one in scheduler.workload.operators if one.op.name == names[-1])
    dims = [dim for dim in sorted(last.splittable) if last.nest.sizes[dim] > 1]
    if not dims:
        return []
    dim = seed.choice(dims)
    return [Group(tuple(names), ((dim, seed.choice((1, 2))),), seed.choice(("cached", "recomputed")))]


def random_schedule(number: int, least: int = LEAST) -> tuple[Scheduler, Schedule] | None:
    """A schedule from a seed, or None if the plan is not legal or does not fit. ``least``: cores that work together."""
    seed = random.Random(number)
    scheduler = Scheduler(random_graph(seed), random_accelerator(seed), least=least)
    try:
        return scheduler, scheduler.schedule(random_plan(seed, scheduler))
    except (NoSchedule, PlanError):
        return None
