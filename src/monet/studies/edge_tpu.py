"""The paper's first hardware study: ResNet-18 on 10,000 Edge-TPU-like designs, inference and training.

Its findings are checked one by one, with memories priced by size (ours) and given away (the paper's).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from rich.console import RenderableType
from rich.text import Text

from monet.report.html import study as page
from monet.report.html.study import Panel
from monet.report.quantities import percent, times
from monet.report.table import Heading, TextTable
from monet.search.hardware.analysis import choices, objectives_of, overlap
from monet.search.hardware.efficiency import Efficiency, efficiency
from monet.search.hardware.exploration import pareto
from monet.search.hardware.objectives import Objective, parse_objective
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space
from monet.studies.findings import MODES, Finding, points_of, variants_outcome
from monet.studies.study import Options, Outcome

LARGE_MACS = 512  # of one processing element, of 16 to 1,024: the upper quarter of the sizes
SHARE_LEFT = 0.5  # of the inference front's share of large elements: what "leave" is taken to mean
SAME = 1.01  # figures closer than this are the same
SEEDS = (0, 1, 2, 3, 4)
SHARE_OF_POINTS, SHARE_OF_FRONT = 0.05, 0.99


def run(options: Options) -> Outcome:
    """Explore both variants of the space and check the findings."""
    space, records = points_of("edge-tpu", options)
    free = points_of("edge-tpu-free", replace(options, effort=min(options.effort, 5)))
    variants = {"memories priced": (space, records), "memories free": free}
    made = variants_outcome("ResNet-18 on Edge-TPU-like designs", variants, findings)
    searched = efficiencies(space, records, options)
    return replace(
        made,
        values={**made.values, "search_efficiency": [asdict(search) for search in searched]},
        tables=(*made.tables, efficiency_table(space, records, searched)),
        panels=(*made.panels, *efficiency_panels(searched)),
    )


def findings(space: Space, records: Sequence[Record]) -> list[Finding]:
    """The paper's statements about this study."""
    checks = (best_designs_differ, fronts_differ, large_leave_training, fastest_are_smaller, large_need_budget)
    return [check(space, records) for check in checks]


def best_designs_differ(space: Space, records: Sequence[Record]) -> Finding:
    """Fig. 1: the best design for inference is not the best for training."""
    both = choices(space, records, ("latency", "energy", "edp"))
    found = [choice for choice in both if choice.used_for == "training"]
    penalties = {choice.figure: choice.penalty for choice in found}
    same = [choice.figure for choice in found if choice.design.values == choice.best.values]
    text = ", ".join(f"{name} {times(value)}" for name, value in penalties.items())
    return Finding(
        "The design that is best for inference is not the best for training",
        "different designs (Fig. 1)",
        f"the inference-best design, used for training, takes of the best: {text}"
        + (f"; the same design is best for {', '.join(same)}" if same else ""),
        any(penalty > SAME for penalty in penalties.values()),
        {"penalty": penalties},
    )


def fronts_differ(space: Space, records: Sequence[Record]) -> Finding:
    """Fig. 8: the fronts are made of different designs."""
    fronts = overlap(space, records, "inference", "training")
    return Finding(
        "The latency-energy fronts of inference and training are made of different designs (fewer than half on both)",
        "different fronts (Fig. 8)",
        f"{fronts.first_size} and {fronts.second_size} designs, {fronts.common} on both ({percent(fronts.share)} of "
        f"either); the inference front reaches {percent(fronts.hypervolume_ratio)} of training's hypervolume",
        fronts.share < 0.5,
        {"inference": fronts.first_size, "training": fronts.second_size, "common": fronts.common, "share": fronts.share,
         "hypervolume_ratio": fronts.hypervolume_ratio},
    )  # fmt: skip


def macs_per_element(record: Record) -> int:
    """Size of a processing element."""
    return int(record.values["simd_units"]) * int(record.values["lanes"])


def _large(records: Sequence[Record]) -> int:
    return sum(macs_per_element(record) >= LARGE_MACS for record in records)


def _budget_goals(mode: str) -> list[Objective]:
    """Latency against the resources spent on it."""
    return [parse_objective(f"{mode}.latency", MODES), parse_objective("area", MODES)]


def large_leave_training(space: Space, records: Sequence[Record]) -> Finding:
    """Fig. 8: large processing elements are on the inference front but not on the training-latency front."""
    counts, shares = [], []
    for goals in (lambda mode: objectives_of(space, mode), _budget_goals):
        fronts = [pareto(space, records, goals(mode)) for mode in MODES]
        shares.append([_large(front) / len(front) for front in fronts])
        counts.append([f"{_large(front)} of {len(front)}" for front in fronts])
    (energy_inference, energy_training), (area_inference, area_training) = counts
    return Finding(
        f"Large processing elements (≥ {LARGE_MACS} MACs) leave the training front",
        "on the inference front, not on the training-latency front (Fig. 8)",
        f"latency against energy: {energy_inference} designs of the inference front have large elements, "
        f"{energy_training} of the training front; latency against area: {area_inference}, {area_training}",
        all(inference > 0 and training <= SHARE_LEFT * inference for inference, training in shares),
        {"latency_energy": shares[0], "latency_area": shares[1]},
    )


def fastest_are_smaller(space: Space, records: Sequence[Record]) -> Finding:
    """The latency end of both fronts."""
    sizes = {mode: macs_per_element(pareto(space, records, objectives_of(space, mode))[0]) for mode in MODES}
    return Finding(
        "The fastest design for training has smaller elements than the fastest for inference",
        "large elements only on the inference front (Fig. 8)",
        f"{sizes['inference']} MACs an element for inference, {sizes['training']} for training",
        sizes["training"] < sizes["inference"],
        {"macs_per_element": sizes},
    )


def large_need_budget(space: Space, records: Sequence[Record]) -> Finding:
    """Big processing elements are efficient only where there are resources for many MACs."""
    front = pareto(space, records, _budget_goals("training"))
    large = [float(record.metrics["macs"]) for record in front if macs_per_element(record) >= LARGE_MACS]
    small = [float(record.metrics["macs"]) for record in front if macs_per_element(record) < LARGE_MACS]
    text = (
        f"on the latency-area front of training, {len(large)} of {len(front)} designs have large elements"
        + (f"; the smallest of them has {min(large):,.0f} MACs in all, the smallest other {min(small):,.0f}"
           if large and small else "")
    )  # fmt: skip
    return Finding(
        "Large processing elements pay only at high resource budgets",
        "yes (Fig. 8)",
        text,
        not large or (bool(small) and min(large) > min(small)),
        {"large": len(large), "front": len(front)},
    )


# --- search -----------------------------------------------------------------------------------------------------------


def efficiencies(space: Space, records: Sequence[Record], options: Options) -> list[Efficiency]:
    """How well searches do on this space; needs every point of it."""
    if len(records) != space.size:
        return []
    points = round(SHARE_OF_POINTS * len(records))
    found = []
    for mode in MODES:
        goals = objectives_of(space, mode)
        for search in ("nsga2", "tpe", "random"):
            options.say(f"{search} on {mode}, {points} points, {len(SEEDS)} seeds")
            found.append(efficiency(space, records, search, goals, points, SEEDS))
    return found


def _described(search: Efficiency) -> list[str]:
    shares = (f"{100 * share:.2f} %" for share in search.shares)
    return [search.search, ", ".join(search.objectives), f"{search.points:,}", *shares]


def efficiency_table(space: Space, records: Sequence[Record], searched: Sequence[Efficiency]) -> RenderableType:
    """Searches for the terminal."""
    if not searched:
        return Text(
            f"Search efficiency is judged against the whole space: {len(records):,} of {space.size:,} points are "
            "evaluated so far; --effort 10 evaluates the rest (and goes on where it stopped).",
            style="dim",
        )
    title = f"Share of the whole front's hypervolume within {percent(SHARE_OF_POINTS)} of the points"
    seeds = (f"seed {seed}" for seed in SEEDS)
    rows = []
    for search in searched:
        worst = min(search.shares)
        bar = "" if search.search == "random" else "≥ 99 %" if worst >= SHARE_OF_FRONT else "below 99 %"
        rows.append((*_described(search), f"{100 * worst:.2f} %", bar))
    words, last = Heading("objectives", "words"), Heading("", "words")
    return TextTable(title, ("search", words, "points", *seeds, "smallest", last), rows)


def efficiency_panels(searched: Sequence[Efficiency]) -> list[Panel]:
    """Searches for the page; none if the space was not evaluated whole."""
    rows = [_described(search) for search in searched]
    heads = ("search", "objectives", "points", *(f"seed {seed}" for seed in SEEDS))
    body = page.table(heads, rows, names=2)
    return [Panel("Search efficiency", "Share of the whole front's hypervolume.", body=body)] if rows else []
