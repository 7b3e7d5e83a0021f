"""The headline numbers, each with the lower bound that stands beside it and our distance to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monet.report.info import critical_path
from monet.report.quantities import joules, nbytes, percent, quantity, seconds, times
from monet.schedule.result import Result
from monet.schedule.result_rows import MemoryTrace

BOUND_NAMES = {
    "compute_s": "all work at peak rate",
    "ports_s": "operands through the ports",
    "links_s": "traffic over links to DRAM",
    "dram_s": "compulsory off-chip traffic",
    "endpoints_s": "transfers over the port they share",
}
CHAIN = "longest chain of this plan"


def bound_names(result: Result) -> dict[str, str]:
    """Bounds of the latency in words; that of transfers only where there are any."""
    return {name: words for name, words in BOUND_NAMES.items() if name != "endpoints_s" or result.bounds.endpoints_s}


def strongest_bound(result: Result) -> str:
    """In words, the bound on the latency of every plan that is strongest."""
    return BOUND_NAMES[max(BOUND_NAMES, key=lambda name: float(getattr(result.bounds, name)))]


def compulsory_bytes(result: Result) -> str:
    """Off-chip bytes that no plan avoids, and how many of them only because memories are too small to keep them."""
    bounds = result.bounds
    forced = f", {nbytes(bounds.forced_bytes)} of it for want of room" if bounds.forced_bytes else ""
    return f"{nbytes(bounds.dram_bytes)}: compulsory{forced}" if bounds.dram_bytes else ""


@dataclass(frozen=True, slots=True)
class Card:
    """One headline number. ``distance`` is ours over the bound; 0 where no bound is known."""

    label: str
    value: str
    detail: str
    bound: str = ""  # a figure, a colon and what it is
    distance: float = 0.0


def info(result: Result) -> list[Card]:
    """One card per headline number."""
    bounds, gap, moved = result.bounds, result.gap, result.dram_bytes
    drams = [dram.name for dram in result.hardware_summary.drams]
    traces = [memory for memory in result.memory if memory.name in drams]
    return [
        Card(
            "Latency",
            seconds(result.latency_s),
            f"{result.cycles:,} cycles; {quantity(result.throughput_per_s, 'sample/s')}; longest chain of this plan "
            f"{seconds(result.longest_chain_s)}",
            f"{seconds(bounds.latency_s)}: {strongest_bound(result)}",
            gap["latency"],
        ),
        Card(
            "Energy",
            joules(result.energy_j),
            f"{joules(result.energy_j / max(1, result.batch))} per sample; {quantity(result.power_w, 'W')} on average",
            f"{joules(bounds.energy_j)}: work, compulsory traffic, static power" if bounds.energy_j else "",
            result.energy_j / bounds.energy_j if bounds.energy_j else 0.0,
        ),
        Card(
            f"Peak memory ({' + '.join(drams)})",
            nbytes(result.dram_peak_bytes),
            "; ".join(f"{trace.name}: " * (len(traces) > 1) + _peak(trace) for trace in traces),
            f"{nbytes(bounds.memory_bytes)}: what has to be there" if bounds.memory_bytes else "",
            gap["memory"] if bounds.memory_bytes else 0.0,
        ),
        *_outside(result),
        Card(
            "Off-chip traffic",
            nbytes(moved.total),
            f"{nbytes(moved.read)} read, {nbytes(moved.write)} written",
            compulsory_bytes(result),
            moved.total / bounds.dram_bytes if bounds.dram_bytes else 0.0,
        ),
        Card(
            "Utilisation",
            percent(result.utilisation),
            "multiply-accumulates over the full rate of all arrays in the number formats used",
            f"{percent(min(1.0, result.utilisation * gap['latency']))}: at the latency bound",
            gap["latency"],
        ),
    ]


def _outside(result: Result) -> list[Card]:
    """What is outside of the chip, where something is transferred: memory at its peak, or bytes sent."""
    ports, traces = {row.name: row for row in result.links}, {trace.name: trace for trace in result.memory}
    cards = []
    for endpoint in result.hardware_summary.endpoints:
        port, trace = ports.get(endpoint.name), traces.get(endpoint.name)
        if port is None or not port.bytes:
            continue
        sent = f"{nbytes(port.bytes)} over its port, busy {percent(port.utilisation)}"
        if trace is not None:
            detail = f"{_peak(trace)}; {sent}"
            cards.append(Card(f"Peak memory ({endpoint.name})", nbytes(trace.peak_bytes), detail))
        else:
            cards.append(Card(f"Sent over {endpoint.name}", nbytes(port.bytes), sent.partition(", ")[2]))
    return cards


def _peak(trace: MemoryTrace) -> str:
    where = f"in {trace.peak_operator}" if trace.peak_operator else "before the first operator"
    return f"at {seconds(trace.peak_time_s)}, {where}"


def latency_bounds(result: Result) -> dict[str, Any]:
    """Bounds on the latency of all plans and of this one, and ours, as bars of one scale; and the critical path by what
    happens on it."""
    rows: list[dict[str, Any]] = [
        {"label": words, "seconds": float(getattr(result.bounds, name)), "ours": False}
        for name, words in bound_names(result).items()
    ]
    rows.append({"label": CHAIN, "seconds": result.longest_chain_s, "ours": False})
    rows.append({"label": "this schedule", "seconds": result.latency_s, "ours": True})
    return {
        "rows": [row | {"text": seconds(row["seconds"]), "note": _distance(result, row)} for row in rows],
        "path": critical_path.info(result)["kinds"],
        "limits": [
            {"name": name, "value": took, "text": seconds(took), "note": f"{number:,} operator{'s' * (number != 1)}"}
            for name, (took, number) in limits(result).items()
        ],
    }


def limits(result: Result) -> dict[str, tuple[float, int]]:
    """What bounds the operators → (sum of their times, how many they are), largest first."""
    table: dict[str, tuple[float, int]] = {}
    for row in result.operators:
        took, number = table.get(row.bound_by, (0.0, 0))
        table[row.bound_by] = (took + row.latency_s, number + 1)
    return dict(sorted(table.items(), key=lambda item: (-item[1][0], item[0])))


def _distance(result: Result, row: dict[str, Any]) -> str:
    if row["ours"] or not row["seconds"]:
        return ""
    return f"we take {times(result.latency_s / row['seconds'])} that"
