"""What cores see of shared links, against the routes of the cores that a plan takes, counted one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from monet.hardware import load_hardware
from monet.hardware.accelerator import from_the_corner
from monet.mapping.cost_store import CostStore
from monet.schedule.machine import Machine

MESH = str(Path(__file__).parents[1] / "chips" / "mesh-behind-sram.yaml")


@pytest.mark.parametrize("hardware", ["simba", "tpu-v3", "edge-tpu", MESH])
def test_links_supply_the_cores_that_a_plan_takes(hardware: str) -> None:
    accelerator = load_hardware(hardware)
    machine = Machine(accelerator, CostStore())
    for like in accelerator.like_cores:
        cores = from_the_corner(like)
        dram, *links = machine.supplying.channels(like[0], 0)
        for count in range(1, len(cores) + 1):
            crossed = Counter(
                link for core in cores[:count] for link in accelerator.route(accelerator.dram.name, core.endpoint)
            )
            most: dict[float, int] = {}  # of links of equal bandwidth
            for link, users in crossed.items():
                width = accelerator.links[link].bandwidth_bits_per_s / like[0].core.clock_hz
                most[width] = max(most.get(width, 1), users)
            assert dram.reached(count) == count
            assert {way.bits_per_cycle: way.reached(count) for way in links if way.bits_per_cycle in most} == most


def test_the_corner_of_a_larger_mesh_is_a_smaller_one() -> None:
    small, large = (Machine(load_hardware(MESH, {"pes": size}), CostStore()).supplying for size in ("4x4", "6x6"))
    first = small.machine.cores[0]
    for here, there in zip(small.channels(first, 0), large.channels(large.machine.cores[0], 0), strict=True):
        assert here.served == there.served[: len(here.served)]
