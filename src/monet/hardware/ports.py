"""The port to an endpoint outside of the chip, as something that operators run on: a core that computes nothing, with
the memory behind it."""

from __future__ import annotations

from functools import lru_cache

from monet.hardware.accelerator import CoreInstance, Endpoint, Memory
from monet.hardware.core import OPERANDS, Core, CoreKind, MemoryLevel, Port, TransposedRead, flows_of

BOUNDLESS = 2**61  # bytes; of a memory whose size is not said


@lru_cache(maxsize=256)
def _level(endpoint: Endpoint, clock_hz: float) -> MemoryLevel:
    """The memory behind a port. What a transfer costs is counted once, with the operator that asks for it."""
    carried = frozenset((operand, flow) for operand in OPERANDS for flow in flows_of(operand))
    width = max(1, round(8 * endpoint.bandwidth_bytes_per_s / clock_hz))
    return MemoryLevel(
        name=endpoint.name, operands=OPERANDS, size_bytes=endpoint.capacity_bytes, shared_along=(), instances=1,
        ports=(Port("port", "read_write", width, carried),), min_access_bits=8, access_bits=8,
        read_energy_j=0.0, write_energy_j=0.0, area_m2=0.0, leakage_w=0.0,
    )  # fmt: skip


@lru_cache(maxsize=256)
def port_of(endpoint: Endpoint, clock_hz: float) -> CoreInstance:
    """What transfers to and from an endpoint run on."""
    core = Core(
        kind=CoreKind.PORT, clock_hz=clock_hz, modes=(), rates=(), lanes=0, vector_rates=(), functions=(),
        levels=(_level(endpoint, clock_hz),), accumulator_level=endpoint.name, swappable_inputs=False,
        zero_skipping=False, transposed_read=TransposedRead(), mode_switch_cycles=0, dispatch_cycles=0,
        area_m2=0.0, compute_area_m2=0.0, compute_leakage_w=0.0,
    )  # fmt: skip
    slots = tuple((operand, endpoint.name) for operand in OPERANDS)
    return CoreInstance(endpoint.name, endpoint.name, core, slots, endpoint.place)


def memory_behind(endpoint: Endpoint, clock_hz: float) -> Memory:
    """The memory of an endpoint, as one that a schedule fills."""
    return Memory(endpoint.name, _level(endpoint, clock_hz), (endpoint.name,), endpoint.place, clock_hz)
