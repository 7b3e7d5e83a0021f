"""What a transfer to or from an endpoint outside of the chip costs: how long the port is occupied, what DRAM moves."""

from __future__ import annotations

from collections.abc import Sequence

from monet.errors import MonetError
from monet.graph.kind import kind_named
from monet.hardware.accelerator import Accelerator, CoreInstance, Endpoint
from monet.mapping.unfused.dram_route import OperandCost
from monet.schedule.costs.step_cost import StepCost
from monet.schedule.expansion.geometry import StepRanges, box_elements
from monet.schedule.workload import Operator

AHEAD_BYTES = 256 * 1024  # that a port has of what it sends before it begins


class NoEndpoint(MonetError):
    """A transfer on an accelerator that does not say where to."""


def endpoint_of(operator: Operator, accelerator: Accelerator) -> Endpoint:
    """The endpoint of a transfer: the one that its attribute ``endpoint`` names, else the first of its kind."""
    kind, named = kind_named(operator.op.kind).endpoint, str(operator.op.attrs.get("endpoint", ""))
    found = accelerator.endpoint(named or kind)
    if found is None or found.kind != kind:
        wanted = f"an endpoint {named!r} of kind {kind}" if named else f"an endpoint of kind {kind}"
        have = ", ".join(f"{each.name} ({each.kind})" for each in accelerator.endpoints) or "none"
        entry = f"{{kind: {kind}, bandwidth_bytes_per_s: 16 GB/s, latency_s: 1 us}}"
        raise NoEndpoint(
            f"operator {operator.op.name} ({operator.op.kind}) needs {wanted}, and {accelerator.name} has {have}; add "
            f"one to the hardware: endpoints: {{{named or kind}: {entry}}}"
        )
    return found


def transfer_step(
    operator: Operator, steps: StepRanges, number: int, port: CoreInstance, endpoint: Endpoint
) -> StepCost:
    """A step of a transfer. The port is occupied from when it has the first bytes until the last are through; results
    reach DRAM after that. ``seconds`` and ``energy_j`` among the attributes are of the whole operator."""
    attrs, share = operator.op.attrs, 1.0
    sizes = _bytes(operator, steps, number)
    if steps.ranges:
        whole = sum(operand.bytes for operand in operator.nest.operands)
        share = sum(sizes) / whole if whole else 0.0
    moved = _passing(operator, sizes)
    seconds = float(attrs["seconds"]) * share if "seconds" in attrs else _seconds(moved, endpoint)
    joules = float(attrs["energy_j"]) * share if "energy_j" in attrs else 8 * moved * endpoint.energy_j_per_bit
    outside, inputs = kind_named(operator.op.kind).stays_outside, len(operator.op.inputs)
    operands = []
    for operand, size in zip(operator.nest.operands, sizes, strict=True):
        stays = operand.written and operand.slot - inputs in outside
        first = size if operand.written else min(size, AHEAD_BYTES)
        operands.append(OperandCost("O" if operand.written else "I", size, first, 0, 0, operand.written and not stays))
    return StepCost(
        seconds * port.core.clock_hz, 0.0, 0.0, 0.0, tuple(operands), ((endpoint.name, joules),), endpoint.name
    )


def transfer_seconds(operator: Operator, endpoint: Endpoint) -> float:
    """How long a transfer occupies its port."""
    given = operator.op.attrs.get("seconds")
    return _seconds(passing_bytes(operator), endpoint) if given is None else float(given)


def passing_bytes(operator: Operator) -> int:
    """Bytes of a transfer: of what it reads or of what it writes, whichever is more."""
    return _passing(operator, [operand.bytes for operand in operator.nest.operands])


def _passing(operator: Operator, sizes: Sequence[int]) -> int:
    pairs = list(zip(operator.nest.operands, sizes, strict=True))
    return max(sum(size for operand, size in pairs if operand.written == written) for written in (False, True))


def _seconds(size: int, endpoint: Endpoint) -> float:
    return endpoint.latency_s + size / endpoint.bandwidth_bytes_per_s


def _bytes(operator: Operator, steps: StepRanges, number: int) -> list[int]:
    """Bytes of every operand that a step moves."""
    if not steps.ranges:
        return [operand.bytes for operand in operator.nest.operands]
    return [
        int(-(-box_elements(operand, operator.nest, steps)[number] * operand.bits_per_element // 8))
        for operand in operator.nest.operands
    ]
