"""ResNet-18 on tpu-like, layer by layer, beside ZigZag 3.9.1: cycles, energy, and CPU seconds as a ratio.

ZigZag's columns are those of its run of 21 layers (LOMA, lpf limit 6); its 65 CPU seconds are the faster of two
runs at objective energy on a two-core machine. Pass --zigzag-seconds to put in a run of your own on this machine.

    python benchmarks/mapper_against_zigzag.py
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ["MONET_CACHE"] = "off"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "mapping"))

from test_mapping_zigzag import LAYERS, ZIGZAG, ZIGZAG_ENERGY_PJ, ZIGZAG_LATENCY, table, totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--zigzag-seconds", type=float, default=65.0)
    given = parser.parse_args()
    table("edp")  # kernels compiled or loaded; results of another objective do not help these
    for column, objective in enumerate(("energy", "latency")):
        from monet.mapping.cache import default_cache

        default_cache().clear()
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
        faster = given.zigzag_seconds / seconds
        print(f"  {seconds:.3f} CPU s against {given.zigzag_seconds:g}: {faster:,.0f} times less\n")


if __name__ == "__main__":
    main()
