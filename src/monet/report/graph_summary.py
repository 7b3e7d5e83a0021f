"""Summary of a graph: the numbers (``summarise``, JSON-ready) and how they look in a terminal (``render``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from monet.graph import KINDS, Family, Graph, Phase, Role
from monet.graph.counts import (
    equal_classes,
    macs_by_kind,
    macs_by_part,
    macs_of,
    parameter_count,
    part_of,
    role_bytes,
    saved_for_backward,
    work_of,
)
from monet.report.quantities import count, nbytes, quantity
from monet.report.table import Heading, TextTable

PARTS = ("forward", "input_gradient", "weight_gradient", "update")
AGAIN = "recomputation"  # a part of its own where a checkpoint plan has been applied


def summarise(graph: Graph, largest: int = 10) -> dict[str, Any]:
    """Everything counted about ``graph``, as plain numbers. Bytes, multiply-accumulates and FLOPs are exact.

    ``flops`` counts the matmul and convolution families only, a multiply-add as 2. ``operators`` leaves out views.
    """
    macs, saved = macs_by_part(graph), saved_for_backward(graph)
    work = [op for op in graph.ops if KINDS[op.kind].family is not Family.VIEW]
    return {
        "model": graph.name,
        "parameters": parameter_count(graph),
        "trained_parameters": parameter_count(graph, trainable_only=True),
        "parameter_bytes": role_bytes(graph, Role.PARAMETER),
        "gradient_bytes": sum(graph.tensors[name].bytes for name in graph.gradients.values()),
        "optimizer_state_bytes": role_bytes(graph, Role.STATE),
        "macs": macs.as_dict(),
        "flops": macs.as_dict(2),
        "macs_by_kind": macs_by_kind(graph),
        "element_operations": _element_operations(graph),
        "saved_for_backward_bytes": sum(item.bytes for item in saved),
        "saved_storages": len(saved),
        "saved_by_kind": _saved_by_kind(graph),
        "largest_saved": [
            {
                "name": item.name,
                "bytes": item.bytes,
                "shape": list(item.tensor.shape),
                "dtype": item.tensor.dtype,
                "made_by": item.made_by,
                "kept_by": list(item.kept_by),
            }
            for item in saved[:largest]
        ],
        "operators": {phase.value: sum(op.phase is phase for op in work) for phase in Phase},
        "views": len(graph.ops) - len(work),
        "distinct_operators": len({key for key, ops in equal_classes(graph).items() if ops[0] in set(work)}),
        "heaviest_layers": _heaviest_layers(graph, largest),
    }


def _element_operations(graph: Graph) -> dict[str, int]:
    """Scalar operations other than multiply-accumulates, by part."""
    totals: Counter[str] = Counter()
    for op in graph.ops:
        totals[part_of(graph, op)] += sum(n for function, n in work_of(graph, op).items() if function != "mac")
    return {part: totals[part] for part in _parts(totals)}


def _parts(work: Mapping[str, int]) -> tuple[str, ...]:
    """Parts in the order of the step; recomputation only where there is some."""
    return (PARTS[0], AGAIN, *PARTS[1:]) if work.get(AGAIN) else PARTS


def _saved_by_kind(graph: Graph) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for item in saved_for_backward(graph):
        totals[item.made_by] += item.bytes
    return dict(totals.most_common())


def _heaviest_layers(graph: Graph, largest: int) -> list[dict[str, Any]]:
    """Layers by multiply-accumulates over the whole step, with the bytes they leave for backward."""
    macs: dict[str, Counter[str]] = defaultdict(Counter)
    for op in graph.ops:
        if work := macs_of(graph, op):
            macs[op.layer][part_of(graph, op)] += work
    saved: Counter[str] = Counter()
    for item in saved_for_backward(graph):
        saved[graph.producer[item.name].layer] += item.bytes
    rows = sorted(macs.items(), key=lambda row: (-row[1].total(), row[0]))[:largest]
    return [
        {"layer": layer, "macs": {part: parts[part] for part in _parts(parts)[:-1]}, "saved_bytes": saved[layer]}
        for layer, parts in rows
    ]


# --- terminal ---------------------------------------------------------------------------------------------------------


def _work_table(summary: dict[str, Any]) -> TextTable:
    others = summary["element_operations"]
    rows, parts = [], (*_parts(others), "total")
    for part in parts:
        macs, flops = (summary[name].get(part, 0) for name in ("macs", "flops"))
        cells = count(macs), quantity(flops, "FLOP"), count(others.get(part, sum(others.values())))
        rows.append((part.replace("_", " "), *cells))
    styles = ["bold" if part == "total" else "" for part in parts]
    return TextTable("Work per step", ("part", "MACs", "FLOPs", "other operations"), rows, styles)


def _memory_table(summary: dict[str, Any]) -> TextTable:
    kept = (
        ("parameters", "parameter_bytes"),
        ("gradients", "gradient_bytes"),
        ("optimizer state", "optimizer_state_bytes"),
        ("saved for backward", "saved_for_backward_bytes"),
    )
    rows = [(name, nbytes(summary[key]), f"{summary[key]:,}") for name, key in kept]
    return TextTable("Memory", ("what", "size", "bytes"), rows)


def _saved_table(summary: dict[str, Any]) -> TextTable:
    total = summary["saved_for_backward_bytes"] or 1
    title = f"Saved for backward, by what made it ({summary['saved_storages']} storages)"
    largest = list(summary["saved_by_kind"].items())[:8]
    rows = [(kind, nbytes(amount), f"{amount / total:.1%}") for kind, amount in largest]
    return TextTable(title, ("kind", "size", "share"), rows)


def _largest_table(summary: dict[str, Any]) -> TextTable:
    rows = [
        (
            item["name"],
            f"{'×'.join(map(str, item['shape']))} {item['dtype']}",
            nbytes(item["bytes"]),
            ", ".join(item["kept_by"]),
        )
        for item in summary["largest_saved"][:6]
    ]
    return TextTable("Largest saved tensors", ("name", "shape", "size", Heading("kept by", "words")), rows)


def _layer_table(summary: dict[str, Any]) -> TextTable:
    parts = _parts(summary["element_operations"])[:-1]
    names = (part.replace("_", " ") for part in parts)
    rows = [
        (row["layer"], *(count(row["macs"].get(part, 0)) for part in parts), nbytes(row["saved_bytes"]))
        for row in summary["heaviest_layers"][:8]
    ]
    return TextTable("Heaviest layers (MACs)", ("layer", *names, "saved"), rows)


def tables_of(summary: dict[str, Any]) -> list[TextTable]:
    """The summary as tables."""
    tables = [_work_table(summary), _memory_table(summary)]
    if summary["saved_by_kind"]:
        tables += [_saved_table(summary), _largest_table(summary)]
    return [*tables, _layer_table(summary)]


def render(summary: dict[str, Any]) -> RenderableType:
    """The summary as terminal tables."""
    trained = summary["trained_parameters"]
    operators = ", ".join(f"{number} {phase}" for phase, number in summary["operators"].items() if number)
    head = Text.assemble(
        (summary["model"], "bold"),
        f"  {summary['parameters']:,} parameters"
        + (f" ({trained:,} trained)" if trained != summary["parameters"] else ""),
        f"\n{operators} operators, {summary['distinct_operators']} distinct; {summary['views']} views",
    )
    blocks: list[RenderableType] = [head]
    for table in tables_of(summary):
        blocks += [Text(), table]
    return Group(*blocks)
