"""Why a step takes as long as it does: the binding resource, the partition of time, the critical path."""

from __future__ import annotations

from typing import Any

from monet.report.info import critical_path, headline, time_partition
from monet.report.quantities import percent, seconds, times
from monet.schedule.result import Result

# what a kind of event on the critical path means
MEANING = {
    "compute": "computing",
    "read": "reading from DRAM",
    "write": "writing to DRAM",
    "move": "moving data between on-chip memories",
    "evict": "making room in a memory",
    "transfer": "transferring to and from what is outside of the chip",
    "gap": "waiting between steps",
}


def busiest(result: Result) -> list[tuple[str, str, float]]:
    """Resources (name, core or link, busy share), busiest first."""
    whole = result.latency_s or 1.0
    resources = [(row.name, "core", row.busy_s / whole) for row in result.cores]
    resources += [(row.name, "link", row.utilisation) for row in result.links]
    return sorted(resources, key=lambda resource: (-resource[2], resource[0]))


def sentences(result: Result) -> list[str]:
    """The answer in a few sentences, most important first."""
    bounds = result.bounds
    said = [
        f"The step takes {seconds(result.latency_s)}, {times(result.gap['latency'])} the lower bound of every plan, "
        f"{seconds(bounds.latency_s)} ({headline.strongest_bound(result)}); the longest chain of this plan takes "
        f"{seconds(result.longest_chain_s)}."
    ]
    if path := critical_path.shares(result):
        kind, took = next(iter(path.items()))
        said.append(
            f"{percent(took / (result.latency_s or 1.0))} of the critical path is {MEANING.get(kind, kind)}; the "
            f"operator with most of it is {next(iter(critical_path.by_operator(result)))}."
        )
    if ranked := busiest(result):
        name, _, busy = ranked[0]
        said.append(f"The busiest resource is {name}: {percent(busy)} of the step.")
    parts = time_partition.shares(result)
    lost = max((part for part in parts if part != "useful_compute"), key=lambda part: parts[part])
    said.append(
        f"Of the time of the cores that worked, {percent(parts['useful_compute'])} is useful compute; the "
        f"largest loss is {time_partition.words(lost)}, {percent(parts[lost])}."
    )
    limits = headline.limits(result)
    if limits:
        name, (took, number) = next(iter(limits.items()))
        share = took / (sum(duration for duration, _ in limits.values()) or 1.0)
        said.append(
            f"{number} of {len(result.operators)} operators are bound by {name} ({percent(share)} of their time)."
        )
    return said


def info(result: Result) -> dict[str, Any]:
    """Everything ``monet explain`` says about one result, as plain values."""
    operators = list(critical_path.by_operator(result).items())[:20]
    return {
        "model": result.model,
        "hardware": result.hardware,
        "latency_s": result.latency_s,
        "lower_bounds_s": {
            name.removesuffix("_s"): getattr(result.bounds, name) for name in headline.bound_names(result)
        },
        "longest_chain_s": result.longest_chain_s,
        "gap": result.gap,
        "explanation": sentences(result),
        "time_partition": time_partition.shares(result),
        "busiest": [{"name": name, "kind": kind, "busy": busy} for name, kind, busy in busiest(result)[:10]],
        "bound_by": {
            name: {"seconds": took, "operators": number} for name, (took, number) in headline.limits(result).items()
        },
        "critical_path": {
            "seconds_by_kind": critical_path.shares(result),
            "operators": [{"name": name, "seconds": took} for name, took in operators],
        },
    }
