"""The page: data of every figure, script and style, in one file."""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from monet.report.files import write_bytes
from monet.report.html import hardware
from monet.report.info import (
    critical_path,
    energy,
    gantt,
    headline,
    memory,
    operators,
    phases,
    quantisation,
    roofline,
    time_partition,
)
from monet.report.quantities import nbytes, quantity, step_name
from monet.schedule.result import Result
from monet.schedule.result_json import plain

FIGURES = (headline, gantt, memory, energy, roofline, operators, phases, time_partition, critical_path)
# In the order of loading: foundations, then one script per figure, then the page.
SCRIPTS = (
    "format.js", "figure.js", "gantt.js", "memory.js", "energy.js", "roofline.js", "operators.js", "hardware.js",
    "bars.js", "page.js",
)  # fmt: skip


def info(result: Result) -> dict[str, Any]:
    """Everything the page shows. An infeasible result has its reason and the hardware."""
    common = {"title": title(result), "feasible": result.feasible, "hardware": hardware.info(result)}
    if not result.feasible:
        return common
    figures = {module.__name__.rpartition(".")[2]: module.info(result) for module in FIGURES}
    return common | figures | {"bounds": headline.latency_bounds(result)}


def title(result: Result) -> str:
    """What was run on what."""
    return f"{result.model}, {step_name(result)}, batch {result.batch}, on {result.hardware}"


def _asset(name: str) -> str:
    return files("monet.report.html").joinpath("assets", name).read_text(encoding="utf-8")


def embedded(data: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=plain)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _facts(result: Result) -> str:
    """The line under the title: what a reader needs to place the numbers."""
    summary = result.hardware_summary
    facts = [quantity(summary.clock_hz, "Hz"), f"{summary.node_nm:g} nm", f"{summary.area_m2 * 1e6:.3g} mm²"]
    facts.append(f"{len(result.cores)} cores")
    facts += [f"{nbytes(dram.capacity_bytes)} {dram.kind} DRAM" for dram in summary.drams]
    facts.append(f"{len(result.operators)} operators, {len(result.timeline):,} tiles and transfers")
    facts.append(f"monet {result.version}, evaluated in {quantity(result.seconds_to_evaluate, 's')}")
    return " · ".join(html.escape(fact) for fact in facts)


def page(result: Result) -> str:
    """The report as one HTML document."""
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in (*quantisation.sentences(result), *result.notes))
    refused = "" if result.feasible else f'<p class="refused">{html.escape(_reason(result))}</p>'
    template = _asset("page.html")
    scripts = "\n".join(_asset(name) for name in SCRIPTS)
    parts = {
        "TITLE": html.escape(title(result)),
        "MODEL": html.escape(result.model),
        "FACTS": _facts(result),
        "NOTES": f'<ul class="notes">{notes}</ul>' if notes else "",
        "REFUSED": refused,
        "STYLE": _asset("style.css"),
        "SCRIPT": scripts,
        "DATA": embedded(info(result)),
    }
    pieces = template.split("@@")  # text and names of parts in turn
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _reason(result: Result) -> str:
    return f"This does not fit. {result.reason.message}" if result.reason else "This does not fit."


def write_html(result: Result, path: str | Path) -> None:
    """Write the report to ``path``, whole or not at all."""
    write_bytes(path, page(result).encode())
