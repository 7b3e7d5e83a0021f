"""How close to the truth mining's proofs are: bounds against schedules, and core counts against CP-SAT.

python -m benchmarks.mining_proofs [CASES] [EFFORT] schedules CASES random cases of design, graph and plan (1,000: about
ten minutes) and prints what share of the latency their bounds are, by template and by kind of plan; none is above. Then
it list-schedules random graphs and training steps in WHAM's model, and prints how much longer that takes than what
CP-SAT proves within EFFORT deterministic seconds. Figures in docs/mining.md come from here.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from tests.search.mining.test_bounds import cases
from tests.search.mining.test_criticality import PLENTY, random_tasks

from monet.search.mining.criticality import Tasks, best_listed, criticality, tasks_on
from monet.search.mining.exact_counts import exact_schedule
from monet.search.mining.mine import analysed
from monet.search.mining.templates import load_template

SEED = 2
FEW = ((1, 1), (2, 1), (1, 2), (2, 2))  # arrays and vector cores
STEPS: tuple[dict[str, Any], ...] = (
    {"model": "mlp-robot", "batch": 4},
    {"model": "bert:layers=1,hidden=64,heads=2", "batch": 4, "sequence": 16},
    {"model": "bert:layers=4,hidden=64,heads=2", "batch": 4, "sequence": 16},
    {"model": "resnet18", "batch": 4, "image": 64},
)
SIDES = (16, 64, 256)  # of arrays


def main(count: str = "1000", effort: str = "2") -> None:
    """Both."""
    _bounds(int(count))
    _counts(float(effort))


def _bounds(count: int) -> None:
    found = list(cases(count, SEED))
    _say("bounds over latency", [case.share for case in found])
    for name in sorted({case.template for case in found}):
        for default in (True, False):
            which = [case.share for case in found if (case.template, case.default) == (name, default)]
            if which:
                _say(f"  {name}, {'default plans' if default else 'given plans'}", which)


def _say(what: str, shares: Sequence[float]) -> None:
    least, middle, most = min(shares), statistics.median(shares), max(shares)
    print(
        f"{what}: {len(shares):,} cases, {statistics.mean(shares):.3f} in the mean, {middle:.3f} in the middle, "
        f"{least:.3f} to {most:.3f}",
        flush=True,
    )


def _graphs() -> Iterator[tuple[str, Tasks]]:
    for seed in range(40):
        yield "random graphs", random_tasks(seed)
    template = load_template("wham")
    space = template.space({"model": template.workload({"model": "mlp-robot"})})
    for step, side in product(STEPS, SIDES):
        workload = analysed({"model": template.workload(step)})["model"]
        point = {"tensor_cores": 1, "vector_cores": 1, "lanes": 16, "buffer_mib": 2, "rows": side, "columns": side}
        yield str(step["model"]), tasks_on(workload, space.hardware(point))[0]


def _counts(effort: float) -> None:
    """List schedules on few cores over the shortest there are, where that is proved."""
    over: dict[str, list[float]] = {}
    tried: dict[str, int] = {}
    for name, tasks in _graphs():
        found, after = criticality(tasks), tasks.after()
        assert best_listed(tasks, (PLENTY,) * tasks.kinds, found, after).makespan == found.length
        for counts in FEW:
            listed = best_listed(tasks, counts, found, after)
            exact = exact_schedule(tasks, counts, listed.start.tolist(), effort)
            tried[name] = tried.get(name, 0) + 1
            if exact is not None and exact.proved:
                assert listed.makespan >= exact.makespan
                over.setdefault(name, []).append(listed.makespan / exact.makespan - 1)
    for name, number in tried.items():
        shares = over.get(name, [])
        said = (
            f"{100 * statistics.mean(shares):.2f} % longer in the mean, {100 * max(shares):.2f} % at most; "
            if shares
            else ""
        )
        print(f"list schedules, {name}: {said}{len(shares)} of {number} proved", flush=True)
    every = [share for shares in over.values() for share in shares]
    print(f"list schedules: {100 * statistics.mean(every):.2f} % longer in the mean over {len(every)} proofs")


if __name__ == "__main__":
    main(*sys.argv[1:])
