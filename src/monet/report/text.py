"""A result as plain text: headline figures with their bounds, phases, memories."""

from __future__ import annotations

from monet.report.quantities import joules, nbytes, quantity, seconds
from monet.schedule.result import Result
from monet.schedule.result_rows import CATEGORIES


def format_result(result: Result) -> str:
    """The summary that ``print(result)`` shows."""
    title = f"{result.model} ({result.mode}, batch {result.batch}) on {result.hardware}"
    if not result.feasible:
        return f"{title}\n  infeasible: {result.reason.message if result.reason else 'unknown reason'}"
    bounds, gap = result.bounds, result.gap
    lines = [
        title,
        f"  latency     {seconds(result.latency_s):>12}   {result.cycles:,} cycles, "
        f"{quantity(result.throughput_per_s, 'sample/s')}; bound {seconds(bounds.latency_s)} "
        f"(compute {seconds(bounds.compute_s)}, ports {seconds(bounds.ports_s)}, links {seconds(bounds.links_s)}, DRAM "
        f"{seconds(bounds.dram_s)}), gap {gap['latency']:.2f}×; longest chain of this plan "
        f"{seconds(result.longest_chain_s)}",
        f"  energy      {joules(result.energy_j):>12}   static "
        f"{joules(result.energy_breakdown.static)}, {quantity(result.power_w, 'W')} on average",
        f"  off-chip    {nbytes(result.dram_bytes.total):>12}   read {nbytes(result.dram_bytes.read)}, "
        f"written {nbytes(result.dram_bytes.write)}",
        f"  utilisation {result.utilisation:>12.1%}   of all arrays over the step",
        "  phase         from        to          energy      off-chip",
    ]
    for name, phase in result.phases.items():
        lines.append(
            f"  {name:<12}  {seconds(phase.start_s):<10}  {seconds(phase.end_s):<10}  "
            f"{joules(phase.energy_j):<10}  {nbytes(phase.dram_bytes)}"
        )
    for name, peak in result.memory_peak_bytes.items():
        parts = ", ".join(f"{key} {nbytes(size)}" for key in CATEGORIES if (size := getattr(peak, key)))
        lines.append(f"  peak of {name}: {nbytes(peak.total)}{f' ({parts})' if parts else ''}")
    return "\n".join(lines)
