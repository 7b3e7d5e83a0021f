"""Does a larger machine ever look worse? Default plans while one resource grows and the rest stays.

Networks × accelerators × inference and training × resources: cores, each bandwidth, each memory. Of a step's latency
under the default plan the study tells by how much it rises, at most, when the resource grows. Two per cent are allowed:
plans are the best of a family, not optimal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from monet.graph.graph import Graph
from monet.report.html.study import Panel, table
from monet.report.quantities import seconds
from monet.report.table import Heading, TextTable
from monet.request.request import Request
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.planning.default_plan import default_schedule
from monet.studies.study import Options, Outcome

ALLOWED = 1.02
TITLE = "One resource grows, the rest stays"
HEADS = ("network", "mode", "accelerator", "resource", "from", "latency", "to", "latency", "largest rise")
MODES = ("training", "inference")

# small enough that a whole sweep takes seconds
NETWORKS: dict[str, dict[str, Any]] = {
    "resnet18-cifar": {"batch": 4},
    "mobilenet:image=96": {"batch": 2},
    "gpt:layers=4,hidden=256,heads=4,vocabulary=8192,sequence=128": {"batch": 2},
    "vit:layers=4,hidden=256,heads=4,image=96": {"batch": 4},
    "unet:width=16,image=64": {"batch": 2},
    "mlp-robot": {"batch": 256},
}


@dataclass(frozen=True, slots=True)
class Resource:
    """Something of an accelerator that can grow: what is set (several paths at once), from small to large."""

    name: str
    steps: tuple[Mapping[str, Any], ...]

    @classmethod
    def scaled(cls, name: str, paths: Mapping[str, float]) -> Resource:
        """Paths with the values that the preset has, times an eighth to eight."""
        factors = [2.0**power for power in range(-3, 4)]
        return cls(name, tuple({path: round(value * factor) for path, value in paths.items()} for factor in factors))


def _square(path: str) -> tuple[Mapping[str, Any], ...]:
    sizes = ((1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 4), (8, 8))
    return tuple({path: f"{x}x{y}"} for x, y in sizes)


def _counts(*paths: str) -> tuple[Mapping[str, Any], ...]:
    return tuple(dict.fromkeys(paths, 2**power) for power in range(7))


RESOURCES: dict[str, tuple[Resource, ...]] = {
    "edge-tpu": (
        Resource("cores", _square("cores.pe.mesh")),
        Resource.scaled("DRAM", {"dram.dram.bandwidth_bits_per_cycle": 64}),
        Resource.scaled("bus", {"network.bus.bandwidth_bits_per_cycle": 128}),
        Resource.scaled("mesh", {"network.noc.bandwidth_bits_per_cycle": 32}),
        Resource.scaled("DRAM, bus", {
            "dram.dram.bandwidth_bits_per_cycle": 512, "network.bus.bandwidth_bits_per_cycle": 1024}),
        Resource.scaled("SRAM ports", {"cores.pe.memories.sram.bandwidth_bits_per_cycle": 2048}),
        Resource.scaled("SRAM", {"cores.pe.memories.sram.size_bytes": 2 * 2**20}),
    ),
    "simba": (
        Resource("cores", _square("cores.pe.mesh")),
        Resource.scaled("off-chip link", {"network.off_chip.bandwidth_bytes_per_s": 100e9}),
        Resource.scaled("mesh", {"network.noc.bandwidth_bits_per_cycle": 64}),
        Resource.scaled("buffer link", {"network.to_buffer.bandwidth_bits_per_cycle": 128}),
        Resource.scaled("PE buffers", {
            "cores.pe.memories.weight_buffer.size_bytes": 32 * 2**10,
            "cores.pe.memories.accumulation_buffer.size_bytes": 3 * 2**10,
            "cores.pe.memories.input_buffer.size_bytes": 8 * 2**10}),
        Resource.scaled("global buffer", {"memories.global_buffer.size_bytes": 64 * 2**10}),
    ),
    "fusemax": (
        Resource("cores", _counts("cores.tensor.count", "cores.vector.count")),
        Resource.scaled("DRAM", {"dram.dram.bandwidth_bits_per_cycle": 9600}),
        Resource.scaled("bus", {"network.bus.bandwidth_bits_per_cycle": 512}),
        Resource.scaled("buffer ports", {"memories.buffer.bandwidth_bits_per_cycle": 8192}),
        Resource.scaled("buffer", {"memories.buffer.size_bytes": 2 * 2**20}),
    ),
    "tpu-v3": (
        Resource("matrix units", _counts("cores.mxu_0.count", "cores.mxu_1.count")),
        Resource.scaled("HBM", {
            "dram.hbm.bandwidth_bytes_per_s": 900e9, "network.core_0.bandwidth_bytes_per_s": 450e9,
            "network.core_1.bandwidth_bytes_per_s": 450e9}),
        Resource.scaled("vector memories", {
            "memories.vmem_0.size_bytes": 16 * 2**20, "memories.vmem_1.size_bytes": 16 * 2**20}),
        Resource.scaled("vector memory ports", {
            "memories.vmem_0.bandwidth_bits_per_cycle": 32768, "memories.vmem_1.bandwidth_bits_per_cycle": 32768}),
    ),
    "tpu-like-quad": (
        Resource("cores", _counts("cores.tensor.count")),
        Resource.scaled("DRAM", {"dram.dram.bandwidth_bits_per_cycle": 64}),
        Resource.scaled("SRAM", {"cores.tensor.memories.sram.size_bytes": 2 * 2**20}),
    ),
    "a100": (
        Resource("SMs", tuple({"sms": many} for many in (8, 15, 27, 32, 54, 64, 96, 107, 108, 128, 161, 216, 256))),
        Resource.scaled("L2", {"l2_bytes": 40 * 2**20}),
        Resource.scaled("HBM", {"hbm_bytes_per_s": 2039e9}),
        Resource.scaled("shared memory", {"shared_bytes": 192 * 2**10}),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sweep:
    """One resource of one accelerator grows under one network. ``latency_s`` is None where a step does not fit."""

    network: str
    mode: str
    accelerator: str
    resource: Resource
    latency_s: tuple[float | None, ...] = ()

    @property
    def largest_rise(self) -> float:
        """The largest latency over the least latency of any smaller machine; 1 where it never rises."""
        least, rise = float("inf"), 1.0
        for latency in self.latency_s:
            if latency is not None:
                rise, least = max(rise, latency / least), min(least, latency)
        return rise

    @property
    def lost(self) -> bool:
        """Whether a larger machine cannot run what a smaller one can."""
        fits = [latency is not None for latency in self.latency_s]
        return fits != sorted(fits)

    @property
    def holds(self) -> bool:
        """Whether a larger machine never looks worse."""
        return self.largest_rise <= ALLOWED and not self.lost


def sweeps(
    networks: Sequence[str] = tuple(NETWORKS), accelerators: Sequence[str] = tuple(RESOURCES)
) -> Iterator[Sweep]:
    """All sweeps of some networks and accelerators, to be run."""
    for accelerator in accelerators:
        for network in networks:
            for mode in MODES:
                for resource in RESOURCES[accelerator]:
                    yield Sweep(network, mode, accelerator, resource)


def swept(sweep: Sweep) -> Sweep:
    """A sweep with its latencies."""
    request = Request(sweep.network, sweep.accelerator, mode=sweep.mode, precision="bf16", **NETWORKS[sweep.network])
    graph = request.graph()
    return replace(sweep, latency_s=tuple(_latency(graph, replace(request, set=each)) for each in sweep.resource.steps))


def _latency(graph: Graph, request: Request) -> float | None:
    scheduler = Scheduler(graph, request.accelerator())
    try:
        return default_schedule(scheduler).makespan / scheduler.machine.ticks_per_second
    except NoSchedule:
        return None


def run(options: Options) -> Outcome:
    """Run all sweeps; ``effort`` below 5 takes the first two networks only."""
    asked = list(sweeps(tuple(NETWORKS)[: 2 if options.effort < 5 else None]))
    found = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        waiting = [pool.submit(swept, sweep) for sweep in asked]
        for number, done in enumerate(as_completed(waiting), 1):
            found.append(done.result())
            options.say(f"{number} of {len(asked)}: {_line(found[-1])}")
    found.sort(key=lambda sweep: -sweep.largest_rise)
    broken = [sweep for sweep in found if not sweep.holds]
    facts = (f"{len(found)} sweeps, {len(broken)} in which a larger machine looks worse by more than 2 %",)
    values = {
        "sweeps": len(found),
        "broken": len(broken),
        "rows": [
            {"network": sweep.network, "mode": sweep.mode, "accelerator": sweep.accelerator,
             "resource": sweep.resource.name, "latency_s": list(sweep.latency_s), "largest_rise": sweep.largest_rise}
            for sweep in found
        ],
    }  # fmt: skip
    cells = [_cells(sweep) for sweep in found]
    panel = Panel("Largest rises first", facts[0], body=table(HEADS, cells, names=4))
    headings = [Heading(name, "words" if number < 4 else "figure") for number, name in enumerate(HEADS)]
    return Outcome(TITLE, values, (TextTable(f"{TITLE}: {facts[0]}", headings, cells),), facts, (panel,))


def _cells(sweep: Sweep) -> list[str]:
    first, *_, last = sweep.latency_s
    ends = [next(iter(step.values())) for step in (sweep.resource.steps[0], sweep.resource.steps[-1])]
    shown = ["does not fit" if latency is None else seconds(latency) for latency in (first, last)]
    rise = "larger does not fit" if sweep.lost else f"{100 * (sweep.largest_rise - 1):.1f} %"
    return [
        sweep.network, sweep.mode, sweep.accelerator, sweep.resource.name, str(ends[0]), shown[0], str(ends[1]),
        shown[1], rise,
    ]  # fmt: skip


def _line(sweep: Sweep) -> str:
    return f"{sweep.network} {sweep.mode} on {sweep.accelerator}, {sweep.resource.name}: {_cells(sweep)[-1]}"
