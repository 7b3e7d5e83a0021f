"""The headline numbers, each with the lower bound that stands beside it and our distance to it."""

from __future__ import annotations

from typing import Any

from monet.report.html import critical_path
from monet.report.quantities import joules, nbytes, percent, quantity, seconds, times
from monet.report.spans import operator_spans
from monet.schedule.result import Result

BOUND_NAMES = {
    "compute_s": "all work at peak rate",
    "dram_s": "compulsory off-chip traffic",
    "critical_path_s": "longest chain of this plan",
}


def strongest_bound(result: Result) -> str:
    """In words, the bound on the latency of every plan that is strongest."""
    name = "compute_s" if result.bounds.compute_s > result.bounds.dram_s else "dram_s"
    return BOUND_NAMES[name]


def compulsory_bytes(result: Result) -> float:
    """Off-chip bytes that no schedule avoids: the DRAM bound times the bandwidth."""
    bandwidth = sum(float(dram.get("bandwidth_bytes_per_s", 0)) for dram in result.hardware_summary.get("drams", ()))
    return result.bounds.dram_s * bandwidth


def first_dram(result: Result) -> str:
    """Name of the (first) DRAM; empty where the summary has none."""
    return next((str(dram["name"]) for dram in result.hardware_summary.get("drams", ())), "")


def _card(label: str, value: str, detail: str, bound: str = "", distance: float = 0.0) -> dict[str, Any]:
    return {"label": label, "value": value, "detail": detail, "bound": bound, "distance": distance}


def info(result: Result) -> list[dict[str, Any]]:
    """One card per headline number. ``distance`` is ours over the bound; 0 where no bound is known."""
    bounds, gap = result.bounds, result.gap
    dram = first_dram(result)
    peak = result.memory_peak_bytes.get(dram, {}).get("total", 0)
    trace = next((one for one in result.memory if one.name == dram), None)
    least_bytes = compulsory_bytes(result)
    energy_bound = bounds.energy_j
    return [
        _card(
            "Latency",
            seconds(result.latency_s),
            f"{result.cycles:,} cycles; {quantity(result.throughput_per_s, 'sample/s')}; longest chain of this plan "
            f"{seconds(bounds.critical_path_s)}",
            f"{seconds(bounds.latency_s)}: {strongest_bound(result)}",
            gap["latency"],
        ),
        _card(
            "Energy",
            joules(result.energy_j),
            f"{joules(result.energy_j / max(1, result.batch))} per sample; {quantity(result.power_w, 'W')} on average",
            f"{joules(energy_bound)}: work and compulsory traffic" if energy_bound else "",
            result.energy_j / energy_bound if energy_bound else 0.0,
        ),
        _card(
            f"Peak memory ({dram or 'DRAM'})",
            nbytes(peak),
            f"at {seconds(trace.peak_time_s)}, in {trace.peak_operator}" if trace else "",
            f"{nbytes(bounds.memory_bytes)}: what has to be there" if bounds.memory_bytes else "",
            gap["memory"] if bounds.memory_bytes else 0.0,
        ),
        _card(
            "Off-chip traffic",
            nbytes(result.dram_bytes["total"]),
            f"{nbytes(result.dram_bytes['read'])} read, {nbytes(result.dram_bytes['write'])} written",
            f"{nbytes(least_bytes)}: compulsory" if least_bytes else "",
            result.dram_bytes["total"] / least_bytes if least_bytes else 0.0,
        ),
        _card(
            "Utilisation",
            percent(result.utilisation),
            "multiply-accumulates done over what all arrays could do",
            f"{percent(min(1.0, result.utilisation * gap['latency']))}: at the latency bound",
            gap["latency"],
        ),
    ]


def latency_bounds(result: Result) -> dict[str, Any]:
    """Bounds on the latency of all plans and of this one, and ours, as bars of one scale; and the critical path by what
    happens on it."""
    rows: list[dict[str, Any]] = [
        {"label": words, "seconds": float(getattr(result.bounds, name)), "ours": False}
        for name, words in BOUND_NAMES.items()
    ]
    rows.append({"label": "this schedule", "seconds": result.latency_s, "ours": True})
    return {
        "rows": [row | {"text": seconds(row["seconds"]), "note": _distance(result, row)} for row in rows],
        "path": critical_path.info(result)["kinds"],
        "limits": [
            {
                "name": name,
                "value": took,
                "text": seconds(took),
                "note": _number(number, "operator"),
            }
            for name, (took, number) in limits(result).items()
        ],
    }


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def limits(result: Result) -> dict[str, tuple[float, int]]:
    """What bounds the operators → (sum of their times, how many they are), largest first."""
    table: dict[str, tuple[float, int]] = {}
    spans = operator_spans(result)
    for row in result.operators:
        took, number = table.get(str(row["bound_by"]), (0.0, 0))
        table[str(row["bound_by"])] = (took + spans[row["name"]].seconds, number + 1)
    return dict(sorted(table.items(), key=lambda one: (-one[1][0], one[0])))


def _distance(result: Result, row: dict[str, Any]) -> str:
    if row["ours"] or not row["seconds"]:
        return ""
    return f"we take {times(result.latency_s / row['seconds'])} that"
