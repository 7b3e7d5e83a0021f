"""A result as plain text: headline figures with their bounds, phases, cores, memories."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monet.schedule.result import Result


def scaled(value: float, unit: str, step: float = 1000.0) -> str:
    """A figure with three to four digits and a prefixed unit: 12.3 ms, 4.56 MB."""
    if value == 0:
        return f"0 {unit}"
    prefixes = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P")
    position = 4
    while abs(value) >= step and position < len(prefixes) - 1:
        value, position = value / step, position + 1
    while abs(value) < 1 and position > 0 and unit != "B":
        value, position = value * step, position - 1
    return f"{value:.4g} {prefixes[position]}{unit}"


def format_result(result: Result) -> str:
    """The summary that ``print(result)`` shows."""
    title = f"{result.model} ({result.mode}, batch {result.batch}) on {result.hardware}"
    if not result.feasible:
        return f"{title}\n  infeasible: {result.reason.message if result.reason else 'unknown reason'}"
    bounds, gap = result.bounds, result.gap
    lines = [
        title,
        f"  latency     {scaled(result.latency_s, 's'):>12}   {result.cycles:,} cycles, "
        f"{result.throughput_per_s:.4g} samples/s; bound {scaled(bounds.latency_s, 's')} "
        f"(compute {scaled(bounds.compute_s, 's')}, DRAM {scaled(bounds.dram_s, 's')}), gap {gap['latency']:.2f}×; "
        f"longest chain of this plan {scaled(bounds.critical_path_s, 's')}",
        f"  energy      {scaled(result.energy_j, 'J'):>12}   static "
        f"{scaled(result.energy_breakdown['static'], 'J')}, {scaled(result.power_w, 'W')} on average",
        f"  off-chip    {scaled(result.dram_bytes['total'], 'B'):>12}   read {scaled(result.dram_bytes['read'], 'B')}, "
        f"written {scaled(result.dram_bytes['write'], 'B')}",
        f"  utilisation {result.utilisation:>12.1%}   of all arrays over the step",
        "  phase         from        to          energy      off-chip",
    ]
    for name, phase in result.phases.items():
        lines.append(
            f"  {name:<12}  {scaled(phase['start_s'], 's'):<10}  {scaled(phase['end_s'], 's'):<10}  "
            f"{scaled(phase['energy_j'], 'J'):<10}  {scaled(phase['dram_bytes'], 'B')}"
        )
    for name, peak in result.memory_peak_bytes.items():
        parts = ", ".join(f"{key} {scaled(value, 'B')}" for key, value in peak.items() if key != "total" and value)
        lines.append(f"  peak of {name}: {scaled(peak['total'], 'B')}{f' ({parts})' if parts else ''}")
    return "\n".join(lines)
