"""Designs together with the parallel plan: every combination of options of a plan is mined for its own stages.

Numbers of devices may differ, so combinations are compared by what one device does. A combination whose parameters,
states and activations do not fit the template's DRAM is not mined; which bytes are short is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monet.errors import MonetError
from monet.search.mining.stages.choice import Choice
from monet.search.mining.stages.mine_stages import StageMining, Watch, mine_stages
from monet.search.mining.stages.problem import StageProblem, fitted


@dataclass(frozen=True)
class Tried:
    """One choice of options, and what was mined for it, or why nothing was."""

    options: Mapping[str, Any]
    found: StageMining | None
    why: str = ""

    @property
    def text(self) -> str:
        """The options on one line."""
        return ", ".join(f"{name} {value}" for name, value in self.options.items())

    @property
    def choice(self) -> Choice | None:
        """Its best choice of designs: one per stage, which is never worse than one for all."""
        return None if self.found is None else self.found.chosen.heterogeneous or self.found.chosen.homogeneous

    @property
    def worth(self) -> float:
        """What combinations are compared by, more is better: samples per second and device, per joule at full use, or
        squared samples per joule-second; 0 if it cannot run."""
        choice = self.choice
        if self.found is None or choice is None:
            return 0.0
        problem = self.found.problem
        if problem.metric == "throughput":
            return choice.throughput / problem.plan.devices
        if problem.metric == "throughput-per-tdp":
            return choice.perf_per_tdp
        return problem.batch**2 / (choice.seconds * choice.energy_j)


@dataclass(frozen=True)
class PlanMining:
    """What came of all combinations, in the order in which they were asked for."""

    tried: tuple[Tried, ...]

    @property
    def best(self) -> Tried:
        """The one that is worth most."""
        return max(self.tried, key=lambda each: each.worth)

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before all were mined."""
        return any(each.found is not None and each.found.interrupted for each in self.tried)


Asked = tuple[Mapping[str, Any], Callable[[], StageProblem]]


def mine_plans(
    combinations: Sequence[Asked],
    store_path: str,
    *,
    top: int,
    evaluations: int,
    slack: float = 0.0,
    jobs: int = 1,
    resume: bool = False,
    watch: Watch = lambda *_: None,
) -> PlanMining:
    """Mine for every combination of options of a plan that fits, each with an equal share of the evaluations."""
    made = [(options, *_made(make)) for options, make in combinations]
    runnable = sum(problem is not None for _, problem, _ in made)
    if not runnable:
        reasons = "\n".join(f"  {Tried(options, None).text}: {why}" for options, _, why in made)
        raise MonetError(f"--joint: no combination can run\n{reasons}")
    tried: list[Tried] = []
    for number, (options, problem, why) in enumerate(made):
        found = None
        if problem is not None and not PlanMining(tuple(tried)).interrupted:
            try:
                found = mine_stages(
                    problem, f"{store_path}-{number}", top=top, evaluations=evaluations // runnable, slack=slack,
                    jobs=jobs, resume=resume, watch=watch,
                )  # fmt: skip
            except MonetError as error:
                why = " ".join(str(error).split())
        tried.append(Tried(options, found, why))
    found_any = PlanMining(tuple(tried))
    if not found_any.interrupted and found_any.best.found is None:
        raise MonetError("--joint: no combination can run\n" + "\n".join(f"  {e.text}: {e.why}" for e in tried))
    return found_any


def _made(make: Callable[[], StageProblem]) -> tuple[StageProblem | None, str]:
    """The problem of a combination as it was asked for; or why there is none: options that do not go together, or that
    would have to change for the step to fit."""
    try:
        problem, changed = fitted(make())
    except MonetError as error:
        return None, " ".join(str(error).split())
    return (None, changed[0].partition(":")[0]) if changed else (problem, "")
