"""Microscaling formats side by side: bits of an element, what one square copy saves against two vector copies, and the
error of rounding, by group shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from monet.formats import FORMATS, Format
from monet.graph.counts import role_bytes
from monet.graph.graph import Graph
from monet.graph.tensor import Role
from monet.report.html.study import Panel, axis, figure, table_panel, words_panel
from monet.report.table import TextTable
from monet.request import Request
from monet.search.checkpoint.liveness import peak_of
from monet.studies.mx_arrays import percent
from monet.studies.study import Options, Outcome

FAMILIES = tuple(name for name, entry in FORMATS.items() if entry.element)
SQUARES = (8, 16, 32)
SIDE = 64  # of the matrix whose rounding is measured, and of tensors whose bits are counted
# One square copy against two of runs of 32 with an 8-bit scale: 1 − (b + 8/64) / 2(b + 8/32). arXiv 2505.22404 says
# 51 %, in what was read of it not how that is counted.
CLAIMED_SAVING = 0.51
PAIRS = (("mxint8", "mx9"), ("mxfp8", "mx9"), ("mxfp6", "mx6"), ("mxfp4", "mx4"))  # a square format, DaCapo's beside it
MODELS = ("mlp-cartpole", "mlp-reacher", "mlp-pusher", "mlp-halfcheetah")
WIDE = "mlp:widths=64-512-512-64,input_gradient=yes"  # sides are multiples of 32, and each operand has two uses
BATCH = 32

ASSUMPTIONS = (
    "Errors are of a 64×64 matrix with heavy tails (Student's t with 3 degrees of freedom), relative in the "
    "Euclidean norm; the mean over seeds.",
    "Operand bytes are those of all tensors that quantize makes in a training step, padding and scales included: "
    "what is stored twice follows from the graph. Master weights, optimizer state, norms and activations that "
    "stay wide are not in them, but in the peak beside.",
    "51 % is what one square copy takes less than two vector copies of the same elements. Against DaCapo's own "
    "formats, of 9, 6 and 4 bits, it is 54.9, 49.0 and 48.4 %.",
)


def run(options: Options) -> Outcome:
    """All tables."""
    options.say("rounding")
    formats = [format_row(FORMATS[name], seeds=2 * options.effort, first=options.seed) for name in FAMILIES]
    options.say("copies of operands in training steps")
    copies = [copies_row(model, square, vector) for model in (WIDE, *MODELS) for square, vector in PAIRS]
    tables = (_format_table(formats), _copies_table(copies))
    aligned = [row for row in copies if row["model"] == WIDE]
    facts = (
        "one square copy against two of runs: "
        + ", ".join(f"{row['square']} {percent(row['saved'])} less" for row in aligned),
        f"arXiv 2505.22404 claims {percent(CLAIMED_SAVING, 0)}",
    )
    panels = (
        Panel(
            "Error of rounding",
            "By group shape; runs have 32 elements, of NVFP4 and MX9/6/4 16.",
            figure=_bars(formats),
        ),
        *(table_panel(made) for made in tables),
        words_panel("How it is counted", ASSUMPTIONS),
    )
    values = {"formats": formats, "copies": copies, "claimed_saving": CLAIMED_SAVING}
    return Outcome("Microscaling formats: bits, copies, errors", values, tables, facts, panels)


# --- formats ----------------------------------------------------------------------------------------------------------


def format_row(family: Format, seeds: int, first: int = 0) -> dict[str, Any]:
    """Bits of an element and errors, in runs and squares."""
    shapes = {"run": family, **{f"{side}x{side}": family.grouped((side, side)) for side in SQUARES}}
    element = family.element
    assert element is not None, "a microscaling format has elements"
    row: dict[str, Any] = {"format": family.name, "element_bits": family.bits, "largest": element.maximum}
    row["specials"] = list(element.specials)
    row["bits"] = {name: each.bits_per_element((SIDE, SIDE)) for name, each in shapes.items()}
    row["error"] = {name: rounding_error(each, seeds, first) for name, each in shapes.items()}
    return row


def rounding_error(held: Format, seeds: int, first: int = 0) -> float:
    """Relative error of a matrix with heavy tails, the mean over some seeds."""
    found = []
    for seed in range(first, first + seeds):
        matrix = np.random.default_rng(seed).standard_t(3, (SIDE, SIDE)).astype(np.float32)
        found.append(np.linalg.norm(held.cast(matrix) - matrix) / np.linalg.norm(matrix))
    return float(np.mean(found))


def _format_table(rows: list[dict[str, Any]]) -> TextTable:
    cells = [
        (
            row["format"], str(row["element_bits"]), f"{row['largest']:g}", ", ".join(row["specials"]) or "none",
            *(f"{row['bits'][name]:.3f}" for name in ("run", "8x8")),
            *(percent(row["error"][name], 2) for name in ("run", "8x8", "16x16", "32x32")),
        )
        for row in rows
    ]  # fmt: skip
    heads = (
        "format", "bits", "largest", "specials", "with scales: run", "8×8", "error: run", "8×8", "16×16", "32×32"
    )  # fmt: skip
    return TextTable("Formats: bits of an element and errors of rounding", heads, cells)


def _bars(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = [row["format"] for row in rows]
    data = [
        {"type": "bar", "name": group, "x": names, "y": [100 * row["error"][group] for row in rows]}
        for group in ("run", "8x8", "16x16", "32x32")
    ]
    return figure(data, yaxis=axis("relative error, %", type="log"))


# --- copies -----------------------------------------------------------------------------------------------------------


def operand_bytes(graph: Graph) -> tuple[int, int]:
    """Bytes of all that quantize makes, and how many tensors that are."""
    made = [graph.tensors[name] for op in graph.ops if op.kind == "quantize" for name in op.outputs]
    return sum(tensor.bytes for tensor in made), len(made)


def step_peak(graph: Graph) -> int:
    """Bytes of a whole step at its peak: what lasts through it, and what is alive of the rest."""
    lasting = sum(role_bytes(graph, role) for role in (Role.PARAMETER, Role.STATE, Role.BUFFER, Role.INPUT, Role.LABEL))
    return lasting + sum(graph.tensors[name].bytes for name in graph.gradients.values()) + peak_of(graph).bytes


def copies_row(model: str, family: str, dacapo: str) -> dict[str, Any]:
    """Operands of a training step in one square copy, in runs of the same elements, and in DaCapo's format."""
    found, peaks = {}, {}
    for name, policy in (("square", f"{family}-square"), ("vector", family), ("dacapo", dacapo)):
        graph = Request(model, precision=policy, batch=BATCH).graph()
        found[name] = *operand_bytes(graph), sum(_padding(graph).values())
        peaks[name] = step_peak(graph)
    square, vector, theirs = (found[name][0] for name in ("square", "vector", "dacapo"))
    return {
        "model": model, "square": f"{family}-square", "vector": family, "dacapo": dacapo,
        "bytes": {"square": square, "vector": vector, "dacapo": theirs},
        "tensors": {name: found[name][1] for name in found}, "padding": {name: found[name][2] for name in found},
        "peak_bytes": peaks, "saved": 1 - square / vector, "saved_against_dacapo": 1 - square / theirs,
    }  # fmt: skip


def _padding(graph: Graph) -> dict[str, int]:
    """Elements that pad quantised tensors to whole groups."""
    found = {}
    for op in graph.ops:
        for name in op.outputs if op.kind == "quantize" else ():
            tensor = graph.tensors[name]
            group = FORMATS[tensor.dtype].group
            found[name] = group.count(tensor.shape) * math.prod(group.shape) - tensor.elements if group else 0
    return found


def _copies_table(rows: list[dict[str, Any]]) -> TextTable:
    cells = [
        (
            f"{row['model']} {row['square']}", f"{row['bytes']['square']:,}", f"{row['bytes']['vector']:,}",
            percent(row["saved"]), f"{row['dacapo']}: {row['bytes']['dacapo']:,}", percent(row["saved_against_dacapo"]),
            f"{row['tensors']['square']} / {row['tensors']['vector']}",
            f"{row['padding']['square']:,} / {row['padding']['vector']:,}",
            " / ".join(f"{row['peak_bytes'][name] / 1024:,.0f}" for name in ("square", "vector", "dacapo")),
        )
        for row in rows
    ]  # fmt: skip
    heads = (
        "training step, batch 32", "one square copy, bytes", "runs, bytes", "saved", "DaCapo's, bytes", "saved",
        "tensors", "padding, elements", "peak of the step, KiB",
    )  # fmt: skip
    return TextTable("Operands of products: one square copy against two of runs", heads, cells)
