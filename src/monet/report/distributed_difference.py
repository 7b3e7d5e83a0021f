"""What changed between two steps over systems: headline, where time goes, memory of stages, the network, the plan."""

from __future__ import annotations

from typing import Any

from monet.distributed.result import DistributedResult
from monet.report.difference import Compared, row
from monet.report.distributed import parts_of, plan_words, title_of

HEADLINE = (("latency_s", "s"), ("mfu", "share"), ("hfu", "share"), ("energy_j", "J"), ("throughput_per_s", "sample/s"))


def titles(first: DistributedResult, second: DistributedResult) -> list[str]:
    """What either is of."""
    return [f"{title_of(result)}: {plan_words(result)}" for result in (first, second)]


def plans(first: DistributedResult, second: DistributedResult) -> list[tuple[str, Any, Any]]:
    """Fields of the plan that differ, and system, devices and batch if they do."""
    found = [(name, getattr(first, name), getattr(second, name)) for name in ("model", "system", "devices", "batch")]
    found += [(name, first.parallel.get(name), second.parallel.get(name)) for name in first.parallel]
    return [(name, one, two) for name, one, two in found if one != two]


def compared(first: DistributedResult, second: DistributedResult) -> dict[str, list[Compared]]:
    """Figures of both, by section."""
    head = [row(name, unit, getattr(first, name), getattr(second, name)) for name, unit in HEADLINE]
    head.append(row("device_hours", "", first.device_hours, second.device_hours))
    times = [dict(parts_of(result.time)) for result in (first, second)]
    time = [row(name, "s", *(each.get(name, 0.0) for each in times)) for name in {**times[0], **times[1]}]
    memory = []
    for number in range(max(len(first.stages), len(second.stages))):
        sizes = [
            result.stages[number].peak_memory_bytes.total if number < len(result.stages) else 0
            for result in (first, second)
        ]
        memory.append(row(f"stage {number}", "B", sizes[0], sizes[1]))
    sent = [
        {f"{each.group} {each.kind}, {each.level}": each.total_bytes for each in result.communication}
        for result in (first, second)
    ]
    network = [row(name, "B", *(each.get(name, 0.0) for each in sent)) for name in {**sent[0], **sent[1]}]
    return {"Headline": head, "Where time goes": time, "Memory of a device": memory, "Network": network}
