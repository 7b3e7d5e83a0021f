"""The one lower bound over all plans of a graph on an accelerator: a function of these two, not of any plan."""

from __future__ import annotations

from monet.hardware.accelerator import Accelerator
from monet.schedule.lower_bound.channels import cheapest_link_j_per_byte, endpoints_bound_s, links_bound_s
from monet.schedule.lower_bound.traffic import least_traffic
from monet.schedule.lower_bound.work import compute_bound_j, compute_bound_s, ports_bound_s, work_of
from monet.schedule.result_rows import CATEGORIES, Bounds
from monet.schedule.workload import Workload


def bounds_of(workload: Workload, accelerator: Accelerator) -> Bounds:
    """What no plan is below."""
    resident = frozenset(name for memory in accelerator.memories for name in memory.resident)
    work, traffic = work_of(workload), least_traffic(workload, resident)
    kept = sum(memory.size_bytes for memory in accelerator.memories)
    read, written = traffic.over(kept)
    times = {
        "compute_s": compute_bound_s(work, accelerator),
        "ports_s": ports_bound_s(work, accelerator),
        "dram_s": (read + written) / accelerator.dram.bandwidth_bytes_per_s,
        "links_s": links_bound_s(traffic, accelerator),
        "endpoints_s": endpoints_bound_s(workload, accelerator),
    }
    return Bounds(
        **times,
        dram_bytes=read + written,
        forced_bytes=read + written - traffic.read - traffic.written,
        memory_bytes=sum(
            storage.tensor.bytes
            for storage in workload.storages.values()
            if storage.is_root and CATEGORIES[storage.category] not in resident
        ),
        energy_j=compute_bound_j(work, accelerator)
        + _moving_j(accelerator, read, written)
        + accelerator.static_power_w * max(times.values()),
    )


def _moving_j(accelerator: Accelerator, read: int, written: int) -> float:
    """Joules of DRAM, and of the first link, for bytes that have to be moved."""
    dram = accelerator.dram
    at_dram = 8 * (read * dram.read_energy_j_per_bit + written * dram.write_energy_j_per_bit)
    return at_dram + (read + written) * cheapest_link_j_per_byte(accelerator)
