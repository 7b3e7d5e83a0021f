"""Block quantisation: values per second on one core, by format and group. Asked for: 10 M.

OMP_NUM_THREADS=1 python benchmarks/quantisation.py
"""

from __future__ import annotations

import time

import numpy as np

from monet.block_scaling import quantise
from monet.formats import FORMATS, format_named

ASKED = 10e6
SIDE = 2048
GROUPS = {"vector": "", "along columns": "[32x1]", "square": "[8x8]"}


def rate(name: str, rounding: str = "nearest") -> float:
    values = np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype(np.float32)
    entry, best = format_named(name), 0.0
    assert entry.element is not None
    assert entry.group is not None
    for _ in range(3):
        start = time.process_time()
        quantise(values, entry.element, entry.group, rounding=rounding)
        best = max(best, values.size / (time.process_time() - start))
    return best


def main() -> None:
    print(f"{'format':24}{'M values/s':>12}{'of asked':>10}")
    names = [family + suffix for family in FORMATS if FORMATS[family].element for suffix in GROUPS.values()]
    for name in names:
        found = rate(name)
        print(f"{name:24}{found / 1e6:12.1f}{found / ASKED:9.1f}x")
    found = rate("mxfp8_e4m3", "stochastic")
    print(f"{'mxfp8_e4m3, stochastic':24}{found / 1e6:12.1f}{found / ASKED:9.1f}x")


if __name__ == "__main__":
    main()
