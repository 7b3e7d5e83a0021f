"""A hardware file to begin with: commented, valid, and ready to run; ``monet hardware new`` prints it."""

from __future__ import annotations

import re

from monet.hardware.errors import HardwareError

MOST_CORES, MOST_SIDE = 64, 512
ARRAY = re.compile(r"^(\d+)x(\d+)$")

_HEAD = """\
# An accelerator for monet. Check it:   monet hardware show {name}.yaml
# Run a training step on it:            monet run resnet18-cifar --hardware {name}.yaml
# Every key there is:                   monet hardware schema; what they mean: docs/hardware.md
#
# Quantities take units (2 MiB, 800 MHz, 25.6 GB/s, 0.5 pJ). Energies, areas and leakage that are left out are derived
# from the node and the sizes, so that every size has its price.
name: {name}
about: {about}
source: figures of a skeleton, to be replaced by yours   # where the figures come from
node_nm: 16              # 3 to 130: what energies and areas are derived for
clock_hz: 1 GHz

# Named parameters: monet run … --set sram_bytes=4MiB, and what monet explore can search.
parameters:
  columns: {{sets: cores.matrix.axes.columns.size, values: [{half_columns}, {columns}, {twice_columns}]}}
  sram_bytes: {{sets: memories.{shared}.size_bytes, values: [1 MiB, 2 MiB, 4 MiB]}}

# Memories that several cores share. A core attaches to one by a level with `memory: NAME` (see below).
memories:
  {shared}: {{size_bytes: 2 MiB, ports: 2r2w, bandwidth_bits_per_cycle: 1024, min_access_bits: 64}}

cores:
  # Multiplies matrices: an array of {columns} × {rows} multipliers.
  matrix:
    kind: matrix
{count}\
    # An axis says what its wires do. `multicast: [I]`: every column gets the same input; `reduce: true`: the rows of a
    # column are added up. From this follows which loops may run side by side.
{wires}\
    axes:
      columns: {{size: {columns}, multicast: [I]{systolic}}}
      rows: {{size: {rows}, reduce: true{systolic}}}
    # Number formats it multiplies, each at products_per_cycle (1 if left out) of a multiplier.
    rates:
      bf16: {{}}
      int8: {{}}
      fp32: {{products_per_cycle: 0.25}}
    # Memory levels from the array outwards. I, W, O: the slots of inputs, weights and outputs. `per: mac`: one beside
    # every multiplier; `per: [columns]`: one for each column.
    memories:
      - {{name: weights, operands: [W], per: mac, size_bytes: 8, bandwidth_bits_per_cycle: 32, min_access_bits: 8,
         double_buffered: true}}
      - {{name: sums, operands: [O], per: [columns], size_bytes: {sums}, ports: 2r2w, bandwidth_bits_per_cycle: 32}}
{private}\
      - {{name: {shared}, memory: {shared}}}

  # Everything that is no matrix product: activations, norms, losses, optimizer updates.
  vector:
    kind: vector
    vector: {{lanes: {lanes}, dtypes: [fp32, bf16, int8, int32, int64, bool]}}
    memories:
      - {{name: {shared}, memory: {shared}}}

dram:
  dram:
    kind: LPDDR4           # or HBM2, DDR4 …: sets energy and latency; `custom` gives everything itself
    capacity_bytes: 8 GiB
    bandwidth_bytes_per_s: 25.6 GB/s

# Wires: link (two ends), bus, chain, ring, mesh. Every core has to reach DRAM, and DRAM every core.
network:
  off_chip: {{link: [{shared}, dram], bandwidth_bits_per_cycle: 256}}
"""
_SYSTOLIC = """\
    # `systolic: true`: data ripple through, one neighbour a cycle; filling and draining take as many cycles.
"""
_PRIVATE = """\
      # Its own memory, between the array and the one that all share.
      - {name: l1, size_bytes: 256 KiB, ports: 1r1w, bandwidth_bits_per_cycle: 512, min_access_bits: 64}
"""


def skeleton(name: str = "my-chip", cores: int = 1, array: str = "16x16", systolic: bool = False) -> str:
    """The text of a file: ``cores`` matrix cores with an array of COLUMNSxROWS, beside a vector core. Several cores
    have a memory each and share an L2; through a ``systolic`` array data ripple from neighbour to neighbour."""
    if not re.fullmatch(r"[\w.-]+", name):
        raise HardwareError(f"--name {name!r}: letters, digits, ., _ and - only")
    if not 1 <= cores <= MOST_CORES:
        raise HardwareError(f"--cores {cores}: from 1 to {MOST_CORES}; a larger grid is written as mesh: 16x16")
    match = ARRAY.match(array)
    columns, rows = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= columns <= MOST_SIDE and 1 <= rows <= MOST_SIDE):
        raise HardwareError(f"--array {array!r}: write COLUMNSxROWS, such as 16x16, at most {MOST_SIDE} each")
    design = f"{'a systolic' if systolic else 'an'} array of {columns}×{rows}"
    return _HEAD.format(
        name=name,
        about=f"{f'{cores} cores with' if cores > 1 else 'One core with'} {design} multipliers, a vector unit, LPDDR4.",
        shared="l2" if cores > 1 else "sram",
        columns=columns,
        half_columns=max(1, columns // 2),
        twice_columns=2 * columns,
        rows=rows,
        count=f"    count: {cores}             # copies; in a grid: mesh: 4x4\n" if cores > 1 else "",
        wires=_SYSTOLIC if systolic else "",
        systolic=", systolic: true" if systolic else "",
        sums="4 KiB" if systolic else "128",
        private=_PRIVATE if cores > 1 else "",
        lanes=min(256, max(16, columns)),
    )  # fmt: skip
