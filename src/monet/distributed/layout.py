"""A plan laid on a system: checked against its devices and the batch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from monet.distributed.plan import ParallelPlan
from monet.distributed.systems.network import Network
from monet.distributed.systems.system import Devices, System
from monet.errors import OptionError


@dataclass(frozen=True)
class Laid:
    """A plan laid on a system: who computes, over what network, how often."""

    plan: ParallelPlan
    network: Network
    devices: tuple[Devices, ...]  # by stage
    micro_batches: int


def _alike(system: System, devices: int) -> str:
    """Into how many stages so many devices can be cut, with like devices in each."""
    borders = [end for end in accumulate(part.count for part in system.devices) if end < devices]
    counts = [
        stages
        for stages in range(1, devices + 1)
        if not devices % stages and not any(end % (devices // stages) for end in borders)
    ]
    return f"of {devices} devices {' or '.join(map(str, counts[:3]))} stages can be made"


def lay(plan: ParallelPlan, system: System, batch: int) -> Laid:
    """Check that a plan goes with a system and a batch."""
    if plan.devices > system.size:
        product = f"data={plan.data} × tensor={plan.tensor} × pipeline={plan.pipeline} = {plan.devices:,}"
        most = max(1, system.size // (plan.tensor * plan.pipeline))
        fits = plan.tensor * plan.pipeline <= system.size
        near = f"data={most} would fit" if fits else f"tensor × pipeline of at most {system.size:,} would fit"
        raise OptionError(
            "devices",
            plan.devices,
            f"{product} devices, {plan.devices - system.size:,} more than {system.name} has ({system.size:,}); {near}",
        )
    per_stage, devices = plan.tensor * plan.data, []
    for stage in range(plan.pipeline):
        kinds = system.kinds(stage * per_stage, per_stage)
        if len(kinds) > 1:
            names = " and ".join(part.accelerator.name for part in kinds)
            counts = ", ".join(str(part.count) for part in system.devices)
            raise OptionError(
                "pipeline",
                plan.pipeline,
                f"the {per_stage} devices of stage {stage} are of two kinds ({names}); there are {counts} of each in a "
                f"row, and the devices of a stage must be alike; {_alike(system, plan.devices)}",
            )
        if plan.offload != "none" and kinds[0].accelerator.endpoint("host") is None:
            name = kinds[0].accelerator.name
            entry = "endpoints: {host: {kind: host, bandwidth_bytes_per_s: 16 GB/s, latency_s: 10 us}}"
            raise OptionError("offload", plan.offload, f"{name} describes no host; none, or add to the device: {entry}")
        devices.append(kinds[0])
    return Laid(plan, Network(system, plan), tuple(devices), plan.micro_batches(batch))
