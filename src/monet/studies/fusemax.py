"""The paper's second hardware study: a small GPT-2 on FuseMax-like designs, inference and training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from monet.report.quantities import percent, times
from monet.schedule.evaluation import evaluate
from monet.search.hardware.analysis import importance, objectives_of
from monet.search.hardware.evaluation import graph_of
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space
from monet.studies.findings import Finding, points_of, variants_outcome
from monet.studies.study import Options, Outcome

ENERGY_RATIO = (4.0, 5.0)  # training over inference, Fig. 9
BANDWIDTHS = {"dram_bandwidth": "Off-chip bandwidth", "buffer_bandwidth": "Buffer bandwidth"}


def run(options: Options) -> Outcome:
    """Explore both variants of the space and check the findings."""
    variants = {"memories priced": points_of("fusemax", options), "memories free": points_of("fusemax-free", options)}
    return variants_outcome("A small GPT-2 on FuseMax-like designs", variants, findings)


def findings(space: Space, records: Sequence[Record]) -> list[Finding]:
    """The paper's statements about this study."""
    return [
        energy_ratio(space, records),
        energy_ratio_by_phase(space),
        *(bandwidth_dominates(space, records, parameter, name) for parameter, name in BANDWIDTHS.items()),
    ]


def energy_ratio(space: Space, records: Sequence[Record]) -> Finding:
    """Fig. 9: a training step takes four to five times the energy of inference."""
    feasible = [record for record in records if record.ok]
    pairs = ((record.metrics["training.energy_j"], record.metrics["inference.energy_j"]) for record in feasible)
    ratios = np.sort([training / inference for training, inference in pairs])
    middle = float(np.median(ratios))
    return Finding(
        "Training GPT-2 takes 4–5 times the energy of inference",
        "≈ 4–5× (Fig. 9)",
        f"{times(middle)} in the middle of all designs, {times(float(ratios[0]))} to {times(float(ratios[-1]))}",
        ENERGY_RATIO[0] <= middle <= ENERGY_RATIO[1],
        {"median": middle, "smallest": float(ratios[0]), "largest": float(ratios[-1])},
    )


def energy_ratio_by_phase(space: Space) -> Finding:
    """Where the ratio comes from, on the design in the middle of the space, and what a plainer optimizer leaves of it.

    The paper's graph shares the weights of its four layers, so Adam updates 4.64 M of 11.9 M elements there.
    """
    middle = {parameter.name: parameter.values[len(parameter.values) // 2] for parameter in space.parameters}
    accelerator = space.hardware(middle)
    inference = evaluate(graph_of(space.workloads["inference"]), accelerator).energy_j
    ratios, parts = {}, {}
    for optimizer in ("adam", "sgd"):
        workload = replace(space.workloads["training"], optimizer=optimizer)
        result = evaluate(graph_of(workload), accelerator)
        ratios[optimizer] = result.energy_j / inference
        parts[optimizer] = {name: joules / inference for name, joules in result.energy_breakdown.by_phase.items()}
    shown = ", ".join(f"{name} {value:.2f}" for name, value in parts["adam"].items())
    return Finding(
        "… and with the lightest optimizer",
        "≈ 4–5× (with Adam on 4.64 M of 11.9 M weights: its graph shares those of its layers)",
        f"SGD {times(ratios['sgd'])}, Adam on all weights {times(ratios['adam'])} ({shown} of one inference), on the "
        "design in the middle",
        ENERGY_RATIO[0] <= ratios["sgd"] <= ENERGY_RATIO[1],
        {"ratio": ratios, "by_phase": parts, "design": middle},
    )


def shares_of(space: Space, records: Sequence[Record], figure: str) -> dict[str, float]:
    """Share of a training figure's variance that goes with each parameter, interactions included where known."""
    [goal] = objectives_of(space, "training", [figure])
    shares = importance(space, records, goal)
    return {share.parameter: share.main if share.total is None else share.total for share in shares}


def bandwidth_dominates(space: Space, records: Sequence[Record], parameter: str, name: str) -> Finding:
    """Buffer bandwidth and off-chip traffic decide what training costs: both should come before all else."""
    shares = {figure: shares_of(space, records, figure) for figure in ("latency", "energy")}
    ranks = {figure: 1 + sum(share > each[parameter] for share in each.values()) for figure, each in shares.items()}
    text = "; ".join(
        f"{figure}: " + ", ".join(f"{label} {percent(value)}" for label, value in each.items())
        for figure, each in shares.items()
    )
    return Finding(
        f"{name} dominates GPT-2 training",
        "buffer bandwidth and off-chip traffic dominate (text)",
        f"rank {ranks['latency']} of {len(shares['latency'])} for latency, {ranks['energy']} for energy; share of the "
        f"variance with interactions, {text}",
        all(rank <= len(BANDWIDTHS) for rank in ranks.values()),
        {"shares": shares, "rank": ranks},
    )
