"""What a report needs to draw an accelerator: ``Result.hardware_summary``."""

from __future__ import annotations

from typing import Any

from monet.hardware.accelerator import Accelerator, CoreInstance
from monet.hardware.drawing import peak_rates


def hardware_summary(accelerator: Accelerator) -> dict[str, Any]:
    """Cores, memories, links and DRAM as plain values: sizes in bytes, rates per second, places in the grid."""
    return {
        "name": accelerator.name,
        "node_nm": accelerator.node_nm,
        "clock_hz": accelerator.clock_hz,
        "area_m2": accelerator.area_m2,
        "static_power_w": accelerator.static_power_w,
        "peak_ops_per_s": peak_rates(accelerator),
        "cores": [_core(one) for one in accelerator.cores],
        "memories": [
            {
                "name": memory.name,
                "size_bytes": memory.size_bytes,
                "cores": list(memory.cores),
                "shared": bool(memory.level.memory),
                "endpoint": memory.endpoint,
            }
            for memory in accelerator.memories
        ],
        "links": [
            {
                "name": link.name,
                "endpoints": list(link.endpoints),
                "bandwidth_bytes_per_s": link.bandwidth_bits_per_s / 8,
                "directed": link.directed,
                "hub": link.hub,
            }
            for link in accelerator.links
        ],
        "drams": [
            {
                "name": dram.name,
                "kind": dram.kind,
                "capacity_bytes": dram.capacity_bytes,
                "bandwidth_bytes_per_s": dram.bandwidth_bytes_per_s,
                "channels": dram.channels,
            }
            for dram in accelerator.drams
        ],
    }


def _core(instance: CoreInstance) -> dict[str, Any]:
    core = instance.core
    return {
        "name": instance.name,
        "template": instance.template,
        "kind": core.kind.value,
        "clock_hz": core.clock_hz,
        "units": core.units,
        "axes": {axis.name: axis.size for axis in core.axes},
        "lanes": core.lanes,
        "position": list(instance.position),
        "endpoint": instance.endpoint,
        "area_m2": core.area_m2,
        "levels": [
            {"name": level.name, "operands": list(level.operands), "bytes": level.total_bytes, "memory": level.memory}
            for level in core.levels
        ],
    }
