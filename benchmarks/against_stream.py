"""Stream's ResNet-18 on its quad-core accelerator, by its plans: where latency and energy differ, cause by cause.

    python benchmarks/against_stream.py [--zigzag other-environment/bin/python]

Each line adds one of Stream's rules to the line before it. With an interpreter that has zigzag-dse 3.9.1 and six, also
what ZigZag, which costs layers for Stream, gives for their parts one by one. docs/stream.md reads the tables.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from dataclasses import replace
from typing import Any

from monet.frontends import load_model
from monet.graph.graph import Graph
from monet.hardware import load_hardware
from monet.schedule.evaluation import evaluate
from monet.schedule.plan import Plan
from monet.schedule.result import Result
from monet.validation.stream import RUNS, STREAM_LANES, STREAM_LINKS, StreamRun, parts_in_turn, stream_plan

BUS = {"network.bus.bandwidth_bits_per_cycle": 32}


def lines(graph: Graph, run: tuple[bool, bool]) -> list[tuple[str, Plan, dict[str, Any]]]:
    """(what is added, plan, hardware) of every line."""
    plan = stream_plan(graph, *run)
    found = [("ours", plan, {}), ("results stay on chip (boundary keep) instead", replace(plan, boundary="keep"), {})]
    if run[1]:
        plan = parts_in_turn(graph, plan)
        found.append(("+ single layers: the four parts in turn", plan, {}))
    late = replace(plan, prefetch=0)
    return [
        *found,
        ("+ no prefetching, strict order of tiles", late, {}),
        ("+ a quarter of each link between cores", late, STREAM_LINKS),
        ("+ a quarter of the bus to DRAM", late, STREAM_LINKS | BUS),
    ]


# Stream's core (weights in the SRAM, one accumulator a column) under its DRAM; a layer is [K, C, rows, window, stride]
RUN_ZIGZAG = """
import json, logging, os, sys, yaml, zigzag
from zigzag.api import get_hardware_performance_zigzag
logging.disable(logging.CRITICAL)
inputs = os.path.join(os.path.dirname(zigzag.__file__), "inputs")
core = yaml.safe_load(open(f"{inputs}/hardware/tpu_like.yaml"))
del core["operational_array"]["systolic_dimensions"]
sram, dram = core["memories"]["sram_2MB"], core["memories"]["dram"]
sram["operands"] = ["I1", "I2", "O"]
for port, way in zip(sram["ports"], ("tl", "fh")):
    port["allocation"].append(f"I2, {way}")
core["memories"]["rf_2B"]["served_dimensions"] = ["D2"]
dram["r_cost"] = dram["w_cost"] = 1000
layers = [
    {"id": i, "name": str(i), "operator_type": "Conv", "equation": "O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]",
     "dimension_relations": [f"ix={s}*ox+1*fx", f"iy={s}*oy+1*fy"],
     "loop_dims": ["B", "K", "C", "OY", "OX", "FY", "FX"], "loop_sizes": [1, k, c, o, o, f, f],
     "operand_precision": {"W": 8, "I": 8, "O": 16, "O_final": 8}, "operand_source": {"I": i, "W": i}}
    for i, (k, c, o, f, s) in enumerate(json.loads(sys.argv[1]))
]
yaml.safe_dump(core, open("core.yaml", "w"), sort_keys=False)
yaml.safe_dump(layers, open("layers.yaml", "w"), sort_keys=False)
energy, latency, *_ = get_hardware_performance_zigzag(
    "layers.yaml", "core.yaml", f"{inputs}/mapping/tpu_like.yaml", opt="latency", dump_folder="out",
    loma_show_progress_bar=False,
)
print("RESULT", energy, latency)
"""


def zigzag_parts(interpreter: str, graph: Graph) -> tuple[float, float]:
    """(cycles, picojoules) of a quarter of every convolution, summed, each through DRAM."""
    layers = []
    for op in graph.ops:
        if op.kind == "conv":
            k, c, window, _ = graph.tensors[op.inputs[1]].shape
            layers.append([k // 4, c, graph.tensors[op.outputs[0]].shape[2], window, op.attrs["stride"][0]])
    with tempfile.TemporaryDirectory() as folder:
        command = [interpreter, "-c", RUN_ZIGZAG, json.dumps(layers)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
    energy, latency = map(float, printed.split("RESULT")[1].split()[:2])
    return latency, energy


def row(what: str, cycles: float, picojoules: float, stream: StreamRun, traffic: str = "") -> None:
    share, energy = cycles / stream.cycles - 1, picojoules / stream.picojoules - 1
    print(f"  {what:<50} {cycles:>10,.0f} cc {share:>+7.1%}   {picojoules:.3e} pJ {energy:>+7.1%}   {traffic}")


def dynamic(result: Result) -> float:
    return 1e12 * float(result.energy_breakdown.dynamic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zigzag", metavar="PYTHON", help="interpreter with zigzag-dse 3.9.1")
    given = parser.parse_args()
    graph = load_model("resnet18-stream:activations=yes")
    for run, stream in RUNS.items():
        print(f"{stream.name}: Stream {stream.cycles:,} cc, {stream.picojoules:.3e} pJ")
        for what, plan, hardware in lines(graph, run):
            result = evaluate(graph, load_hardware("tpu-like-quad", STREAM_LANES | hardware), plan)
            moved = f"{result.dram_bytes.read / 1e6:.2f} MB read, {result.dram_bytes.write / 1e6:.2f} MB written"
            row(what, result.cycles, dynamic(result), stream, moved)
        if run[1]:
            row("ours, if every core fetched the input itself", *copies(graph, run), stream)
        if given.zigzag and not run[0]:
            cycles, picojoules = zigzag_parts(given.zigzag, graph)
            row("ZigZag, all parts of all convolutions in turn", 4 * cycles, 4 * picojoules, stream)
            row("ZigZag, four parts at once", cycles, 4 * picojoules, stream)
        print()


def copies(graph: Graph, run: tuple[bool, bool]) -> tuple[float, float]:
    """Arithmetic, not a run: inputs that come by multicast now, three times more from DRAM."""
    hardware = load_hardware("tpu-like-quad", STREAM_LANES)
    result = evaluate(graph, hardware, stream_plan(graph, *run))
    inputs = {op.name: graph.tensors[op.inputs[0]].bytes for op in graph.ops if op.kind == "conv"}
    read = {row.name: row.dram_read_bytes for row in result.operators}
    more = 3 * sum(size for name, size in inputs.items() if read[name] >= size)
    dram = hardware.dram
    joules = 8 * more * dram.read_energy_j_per_bit
    return result.cycles + more / 8, dynamic(result) + 1e12 * joules


if __name__ == "__main__":
    main()
