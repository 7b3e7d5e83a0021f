"""The paper's first figure: what is best for inference is not best for training, on both of its accelerators, and what
it costs to take the one for the other. With memories priced by size, and given away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from monet.report.html.explore import front_figure
from monet.report.html.study import Panel, table
from monet.report.quantities import percent, times
from monet.report.table import Heading, TextTable
from monet.search.hardware.analysis import Choice, Overlap, choices, overlap
from monet.studies.findings import MODES, Finding, Points, findings_html, findings_table, points_of, sample_text
from monet.studies.study import Options, Outcome

SPACES = {
    "ResNet-18, Edge-TPU-like, memories priced": "edge-tpu",
    "ResNet-18, Edge-TPU-like, memories free": "edge-tpu-free",
    "GPT-2, FuseMax-like, memories priced": "fusemax",
    "GPT-2, FuseMax-like, memories free": "fusemax-free",
}
SAME = 1.01  # figures closer than this are the same
FIGURES = ("latency", "energy", "edp")
CHOICES = "What it costs to choose for the other"
HEADS = ("space", "figure", "chosen for", "used for", "of the best", "chosen design", "best design")


def run(options: Options) -> Outcome:
    """Compare the best designs of both modes on every space."""
    spaces = {name: points_of(space, options) for name, space in SPACES.items()}
    chosen = {name: choices(space, records, FIGURES) for name, (space, records) in spaces.items()}
    fronts = {name: overlap(space, records, "inference", "training") for name, (space, records) in spaces.items()}
    findings = [finding(name, chosen[name], fronts[name]) for name in spaces]
    rows = [[name, *_described(choice)] for name, each in chosen.items() for choice in each]
    samples = tuple(sample_text(*each) for each in spaces.values())
    title = f"Is the best hardware for inference also the best for training? ({'; '.join(samples)})"
    return Outcome(
        "Inference against training",
        {"findings": [asdict(statement) for statement in findings],
         "choices": {name: [_plain(choice) for choice in each] for name, each in chosen.items()},
         "points": {name: len(records) for name, (_, records) in spaces.items()}},
        (findings_table(title, findings), choices_table(rows)),
        samples,
        panels(spaces, findings, rows),
    )  # fmt: skip


def finding(name: str, chosen: Sequence[Choice], fronts: Overlap) -> Finding:
    """Fig. 1 on one space."""
    wrong = {choice.figure: choice.penalty for choice in chosen if choice.used_for == "training"}
    text = ", ".join(f"{figure} {times(value)}" for figure, value in wrong.items())
    return Finding(
        name,
        "inference-best is not training-best (Fig. 1)",
        f"inference-best used for training takes of the best {text}; {fronts.common} of {fronts.first_size} designs of "
        f"the inference front are on training's front ({percent(fronts.hypervolume_ratio)} of its hypervolume)",
        any(value > SAME for value in wrong.values()),
        {"penalty": wrong, "common": fronts.common, "inference_front": fronts.first_size,
         "training_front": fronts.second_size, "hypervolume_ratio": fronts.hypervolume_ratio},
    )  # fmt: skip


def _plain(choice: Choice) -> dict[str, Any]:
    return {
        "figure": choice.figure, "best_for": choice.best_for, "used_for": choice.used_for, "penalty": choice.penalty,
        "design": dict(choice.design.values), "best": dict(choice.best.values),
    }  # fmt: skip


def choices_table(rows: Sequence[Sequence[str]]) -> TextTable:
    """The best design of each mode, used for the other."""
    headings = [Heading(name, "figure" if name == "of the best" else "words") for name in HEADS]
    return TextTable(CHOICES, headings, rows)


def _described(choice: Choice) -> list[str]:
    designs = (", ".join(map(str, record.values.values())) for record in (choice.design, choice.best))
    return [choice.figure, choice.best_for, choice.used_for, times(choice.penalty), *designs]


def panels(
    spaces: Mapping[str, Points], findings: Sequence[Finding], rows: Sequence[Sequence[str]]
) -> tuple[Panel, ...]:
    """The page: verdicts, then both modes of every space side by side."""
    made = [
        Panel("Findings", body=findings_html(findings)),
        Panel(CHOICES, body=table(HEADS, rows, names=4)),
    ]
    for name, (space, records) in spaces.items():
        for mode in MODES:
            about = "Diamonds are the front of the other mode; above the line they would be the wrong choice."
            made.append(Panel(f"{name}: {mode}", about, front_figure(space, records, mode, {}), half=True))
    return tuple(made)
