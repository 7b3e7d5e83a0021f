"""Small spaces for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from monet.search.hardware.space import Space, make_space


def document(**changes: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "hardware": "edge-tpu",
        "parameters": {
            "x_pes": {"values": [1, 2]},
            "lanes": {"sets": "cores.pe.axes.lanes.size", "values": [1, 2, 4]},
        },
        "workloads": {
            "inference": {"model": "mlp-robot", "mode": "inference", "batch": 2},
            "training": {"model": "mlp-robot", "batch": 2},
        },
    } | changes


def small_space(**changes: Any) -> Space:
    return make_space(document(**changes), "small", Path())


def grid(width: int, height: int, **changes: Any) -> Space:
    """A space of width × height points for evaluators that do not look at the hardware."""
    parameters = {
        "a": {"sets": "cores.pe.mesh.x", "values": list(range(1, width + 1))},
        "b": {"sets": "cores.pe.mesh.y", "values": list(range(1, height + 1))},
    }
    return small_space(parameters=parameters, **changes)
