"""ResNet-18 on tpu-like, layer by layer, beside ZigZag 3.9.1: cycles, energy, and CPU seconds as a ratio.

ZigZag's columns are those of its run of 21 layers (LOMA, lpf limit 6); its 65 CPU seconds are the faster of two
runs at objective energy on a two-core machine. To run ZigZag itself in the same run (minutes), name an interpreter that
has zigzag-dse 3.9.1 and six:

    python benchmarks/mapper_against_zigzag.py
    python benchmarks/mapper_against_zigzag.py --zigzag other-environment/bin/python
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["MONET_CACHE"] = "off"
sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.mapping.test_mapping_zigzag import LAYERS, ZIGZAG, ZIGZAG_ENERGY_PJ, ZIGZAG_LATENCY, table, totals

RUN_ZIGZAG = """
import logging, os, sys, time, zigzag
from zigzag.api import get_hardware_performance_zigzag
logging.disable(logging.CRITICAL)
inputs = os.path.join(os.path.dirname(zigzag.__file__), "inputs")
start = time.process_time()
energy, latency, *_ = get_hardware_performance_zigzag(
    f"{inputs}/workload/resnet18.onnx", f"{inputs}/hardware/tpu_like.yaml", f"{inputs}/mapping/tpu_like.yaml",
    opt=sys.argv[1], dump_folder=sys.argv[2], loma_show_progress_bar=False,
)
print("RESULT", energy, latency, time.process_time() - start)
"""


def run_zigzag(interpreter: str, objective: str) -> float:
    """CPU seconds of ZigZag for the same network and hardware, printed with its own totals."""
    with tempfile.TemporaryDirectory() as folder:
        command = [interpreter, "-c", RUN_ZIGZAG, objective, folder]
        printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder).stdout
    energy, latency, seconds = map(float, printed.split("RESULT")[1].split()[:3])
    print(f"  ZigZag, run now: {energy:,.0f} pJ, {latency:,.0f} cycles (with the systolic drain of its own file)")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zigzag", metavar="PYTHON", help="interpreter with zigzag-dse 3.9.1: run it too")
    given = parser.parse_args()
    table("edp")  # kernels compiled or loaded; results of another objective do not help these
    for column, objective in enumerate(("energy", "latency")):
        before = time.process_time()
        found = table(objective)
        seconds = time.process_time() - before
        print(f"objective {objective}")
        heads = f"{'cycles':>11} {'ZigZag':>11} {'ratio':>6} {'energy pJ':>13} {'ZigZag':>13} ratio"
        print(f"  {'layer':<20} {'×':>2} {heads}")
        for name, cost in found.items():
            cycles, picojoules = ZIGZAG[name][column]
            ours = cost.energy_j * 1e12
            print(
                f"  {name:<20} {LAYERS[name][-1]:>2} {cost.cycles:>11,.0f} {cycles:>11,} {cost.cycles / cycles:>6.3f} "
                f"{ours:>13,.0f} {picojoules:>13,} {ours / picojoules:.3f}"
            )
        cycles, picojoules = totals(found)
        reference = ZIGZAG_ENERGY_PJ if objective == "energy" else ZIGZAG_LATENCY
        ours = picojoules if objective == "energy" else cycles
        print(f"  total {objective}: {ours:,.0f} against {reference:,} ({ours / reference:.4f})")
        theirs = run_zigzag(given.zigzag, objective) if given.zigzag else 65.0
        print(f"  {seconds:.3f} CPU s against {theirs:.1f}: {theirs / seconds:,.0f} times less\n")


if __name__ == "__main__":
    main()
