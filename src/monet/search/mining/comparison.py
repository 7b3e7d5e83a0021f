"""What a mined design is compared with: designs made by hand, and one mined for inference but used for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from monet.errors import MonetError
from monet.search.hardware.record import Record
from monet.search.mining.methods import hand_designs
from monet.search.mining.mine import Bench, Mining, Problem, mine

INFERENCE_EVALUATIONS = 24


@dataclass(frozen=True, slots=True)
class Beside:
    """A design that was not mined for these workloads, and its cost for them."""

    name: str
    about: str
    record: Record
    cost: float


def beside_of(
    found: Mining,
    store_path: str,
    jobs: int = 1,
    *,
    hand: bool,
    inference: bool,
    most: int = INFERENCE_EVALUATIONS,
) -> list[Beside]:
    """Designs to compare with, evaluated in the same store; those that cannot run are left out."""
    problem, space = found.problem, found.space
    designs = {}
    if hand:
        known = problem.template.model.designs
        designs = {name: (known[name].about, values) for name, values in hand_designs(problem, space).items()}
    if inference:
        mined = mined_for_inference(problem, f"{store_path}-inference", jobs, most)
        if mined.best is not None:
            designs["mined for inference"] = (
                "the best found for inference of the same models",
                dict(mined.best.values),
            )
    if not designs:
        return []
    with Bench(space, store_path, jobs, resume=True).opened() as evaluate:
        records = evaluate([values for _, values in designs.values()])
    return [
        Beside(name, about, record, problem.cost(record))
        for (name, (about, _)), record in zip(designs.items(), records, strict=True)
        if record.ok
    ]


def mined_for_inference(
    problem: Problem, store_path: str, jobs: int, evaluations: int = INFERENCE_EVALUATIONS
) -> Mining:
    """The same template and limits mined for inference of the same models."""
    if all(workload.mode == "inference" for workload in problem.workloads.values()):
        raise MonetError("--inference-mined: the models are mined for inference already; leave it out")
    workloads = {
        name: replace(workload, mode="inference", optimizer="sgd", checkpoint="", phases=())
        for name, workload in problem.workloads.items()
    }
    return mine(
        replace(problem, workloads=workloads, floor=0.0),
        store_path,
        evaluations=evaluations,
        jobs=jobs,
        resume=True,
        front=False,
    )


def within(records: Sequence[Record], problem: Problem, target: float) -> int | None:
    """How many evaluations it took to come within a cost; None if it was not reached."""
    costs = (problem.cost(record) if record.ok else float("inf") for record in records)
    return next((number for number, cost in enumerate(costs, 1) if cost <= target), None)
