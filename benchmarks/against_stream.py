"""Stream's ResNet-18 on its quad-core accelerator, by its plans: where latency and energy differ, cause by cause.

python benchmarks/against_stream.py

Each line adds one of Stream's rules to the line before it. docs/stream.md reads the table.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Plan
from monet.schedule.result import Result
from monet.schedule.silicon import STREAM_LANES, STREAM_LINKS, stream_plan, stream_resnet18, without_overlap
from monet.validation.stream import NAMES, RUNS

RING = {name: value for name, value in STREAM_LINKS.items() if "ring" in name}


def lines(graph: Graph, run: tuple[bool, bool]) -> list[tuple[str, Plan, dict[str, Any]]]:
    """(what is added, plan, hardware) of every line."""
    plan = stream_plan(graph, *run)
    apart = without_overlap(graph, plan)
    return [
        ("ours", plan, {}),
        ("results stay on chip (boundary keep) instead", replace(plan, boundary="keep"), {}),
        ("+ no prefetching, strict order of tiles", replace(plan, prefetch=0), {}),
        ("+ single layers: operands first, then the array", apart, {}),
        ("+ a quarter of each ring link", apart, RING),
        ("+ a quarter of the bus to DRAM", apart, STREAM_LINKS),
        ("a quarter of all links, nothing else", plan, STREAM_LINKS),
    ]


def row(what: str, cycles: float, picojoules: float, stream: tuple[int, float], traffic: str = "") -> None:
    share, energy = cycles / stream[0] - 1, picojoules / stream[1] - 1
    print(f"  {what:<50} {cycles:>10,.0f} cc {share:>+7.1%}   {picojoules:.3e} pJ {energy:>+7.1%}   {traffic}")


def dynamic(result: Result) -> float:
    return 1e12 * float(result.energy_breakdown["dynamic"])


def main() -> None:
    graph = stream_resnet18(activations=True)
    for run, stream in RUNS.items():
        print(f"{NAMES[run]}: Stream {stream[0]:,} cc, {stream[1]:.3e} pJ")
        for what, plan, hardware in lines(graph, run):
            result = evaluate(graph, load_hardware("tpu-like-quad", STREAM_LANES | hardware), plan)
            moved = f"{result.dram_bytes['read'] / 1e6:.2f} MB read, {result.dram_bytes['write'] / 1e6:.2f} MB written"
            row(what, result.cycles, dynamic(result), stream, moved)
        if run[1]:
            row("ours, if every core fetched the input itself", *copies(graph, run), stream)
        print()


def copies(graph: Graph, run: tuple[bool, bool]) -> tuple[float, float]:
    """Arithmetic, not a run: inputs that come by multicast now, three times more from DRAM."""
    hardware = load_hardware("tpu-like-quad", STREAM_LANES)
    result = evaluate(graph, hardware, stream_plan(graph, *run))
    inputs = {op.name: graph.tensors[op.inputs[0]].bytes for op in graph.ops if op.kind == "conv"}
    read = {row["name"]: row["dram_read_bytes"] for row in result.operators}
    more = 3 * sum(size for name, size in inputs.items() if read[name] >= size)
    dram = hardware.drams[0]
    joules = 8 * more * dram.read_energy_j_per_bit
    return result.cycles + more / 8, dynamic(result) + 1e12 * joules


if __name__ == "__main__":
    main()
