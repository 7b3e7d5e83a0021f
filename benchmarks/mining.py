"""How many evaluations mining takes against black-box searches on the same template, evaluator and budget.

python -m benchmarks.mining [WORKLOAD] [BUDGET] [SEEDS] [CHECKED] [STORE] [OTHERS] [METHODS] mines a reduced template
(``bert``, ``resnet``, ``resnet18``, ``bert-2``: the 5,625 designs of ``edge``) or the full one (``wham-resnet``,
``wham-bert``) to the proof or for BUDGET evaluations; then every other method (METHODS, with commas between: only
these) has as many, or OTHERS, with
SEEDS seeds. All share one store, so no design is scheduled twice; evaluations are what a method asked for, seconds what
they took when they were made. Ours are made first, with no mapping known yet, and have the bounds of all designs in
them. Last, CHECKED designs that were cut by their bound are drawn
at random and scheduled: none may be faster than its bound, or than the best. With ``all`` in place of a number every
design within the limits is scheduled *first* (0.1 to 0.4 s of CPU each), the best of them is the optimum that all are
held against, and methods go on until they are within 1 % of it. STORE keeps evaluations, so that a run that was stopped
goes on. Figures in docs/mining.md come from here.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from monet.search.hardware.space import Values
from monet.search.mining.best_first import CUT
from monet.search.mining.candidates import candidates
from monet.search.mining.comparison import within
from monet.search.mining.methods import BLACK_BOX, mine_by
from monet.search.mining.mine import Bench, Mining, Problem, analysed, mine
from monet.search.mining.templates import load_template

CLOSE = 1.01
GAP = 0.01
PATIENCE = 8
AT_ONCE = 50  # designs between two lines of progress
LONGEST = 250  # evaluations that a method is given to come within 1 % of an optimum that is known
WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("edge", {"model": "bert:layers=1,hidden=128,heads=2", "sequence": 32, "batch": 2}),
    "resnet": ("edge", {"model": "resnet:blocks=2-2-2-2,width=16", "image": 16, "batch": 4}),
    "resnet18": ("edge", {"model": "resnet18", "batch": 1}),
    "bert-2": ("edge", {"model": "bert:layers=2", "batch": 1}),
    "wham-resnet": ("wham", {"model": "resnet18"}),
    "wham-bert": ("wham", {"model": "bert-base"}),
}


def main(
    name: str = "bert",
    budget: str = "60",
    seeds: str = "5",
    checked: str = "40",
    store: str = "",
    others: str = "",
    methods: str = ",".join(BLACK_BOX),
) -> None:
    """Mine to the proof or the budget, then let the others have a go."""
    template, values = WORKLOADS[name]
    loaded = load_template(template)
    problem = Problem(loaded, {"model": loaded.workload(values)}, loaded.limits)
    with tempfile.TemporaryDirectory() as folder:
        path = store or str(Path(folder) / "designs.sqlite")
        optimum = exhausted(problem, path) if checked == "all" else None
        ours = mine(
            problem, path, evaluations=int(budget), slack=GAP, patience=PATIENCE, front=False,
            resume=bool(store) or optimum is not None,
        )  # fmt: skip
        assert ours.best is not None
        best = problem.cost(ours.best)
        near, reached = (within(ours.records, problem, share * best) for share in (CLOSE, 1.0))
        print(f"{template}, {values['model']}: {ours.space.size or 0:,} designs, best {best * 1e3:.4g} ms", flush=True)
        print(
            f"bound: within 1 % of its best after {near} evaluations, {_spent(ours, near):.0f} s of CPU; found after "
            f"{reached}, ends after {len(ours.records)}, {ours.seconds:.0f} s ({ours.cpu_seconds:.0f} s of CPU), gap "
            f"{100 * (ours.gap or 0.0):.2f} %",
            flush=True,
        )
        if optimum is not None:
            print(f"which is {best / optimum:.4f}× the optimum, found by trying all", flush=True)
            assert best <= CLOSE * optimum
            assert best * (1 - (ours.gap or 0.0)) <= optimum * (1 + 1e-9)
        longest = int(others or (len(ours.records) if optimum is None else LONGEST))
        for method in methods.split(","):
            compared(method, ours, path, int(seeds), best if optimum is None else optimum, longest)
        if ours.search and checked != "all" and int(checked):
            _check(ours, path, int(checked))


def exhausted(problem: Problem, store: str) -> float:
    """The cost of the best design of all that are within the limits; each is scheduled."""
    space, began = problem.space(), time.process_time()
    most_area, most_power = problem.limits.area_mm2, problem.limits.tdp_w
    assert most_area is not None
    assert most_power is not None
    found = candidates(space, analysed(problem.workloads), most_area * 1e-6, most_power)
    points = sorted((found.values(row) for row in range(len(found))), key=_by_core)
    costs, spent, over = list[float](), 0.0, 0
    with Bench(space, store, resume=True).opened() as evaluate:
        for start in range(0, len(points), AT_ONCE):
            for record in evaluate(points[start : start + AT_ONCE]):
                spent += record.seconds
                over += not record.ok
                if record.ok:
                    costs.append(problem.cost(record))
            print(
                f"\r{start + AT_ONCE:,} of {len(points):,}, {spent:.0f} s of CPU", end="", file=sys.stderr, flush=True
            )
    best = min(costs)
    print(
        f"all: {len(costs):,} designs scheduled, {over:,} of {len(points):,} over a limit or unable to run; "
        f"{sum(cost <= CLOSE * best for cost in costs):,} within 1 % of the best; "
        f"{spent + time.process_time() - began:.0f} s of CPU",
        flush=True,
    )
    return best


def _by_core(values: Values) -> tuple[Any, ...]:
    """Designs of like cores together: what is known of a core is then at hand."""
    return tuple(values[name] for name in sorted(values, key=lambda name: ("count" in name, "dram" in name, name)))


def compared(method: str, ours: Mining, store: str, seeds: int, best: float, longest: int) -> None:
    """Another method with ``longest`` evaluations: when it is within 1 % of the best, and how far it is after as many
    as ours took, and at its end. Seconds are what its evaluations took when they were made."""
    problem, most = ours.problem, len(ours.records)
    runs = [mine_by(method, problem, store, evaluations=longest, seed=seed, resume=True) for seed in range(seeds)]
    reached = [within(found.records, problem, CLOSE * best) for found in runs]
    counts = sorted(count or math.inf for count in reached)
    seconds = [round(_spent(found, count)) if count else "never" for found, count in zip(runs, reached, strict=True)]
    print(
        f"{method}: within 1 % after {_median(counts)} ({[count or 'never' for count in reached]}, {seconds} s of CPU) "
        f"of {longest}; "
        f"{_reached(runs, problem, most, best)}× the best after {most}, {_reached(runs, problem, longest, best)}× "
        f"after {longest}; {statistics.mean(found.cpu_seconds for found in runs):.0f} s of CPU each",
        flush=True,
    )


def _spent(found: Mining, evaluations: int | None) -> float:
    """CPU seconds of so many evaluations, and of all that the search did beside them."""
    each = [record.seconds for record in found.records]
    return found.cpu_seconds - sum(each[evaluations or len(each) :])


def _median(counts: list[float]) -> str:
    """The middle one of some numbers of evaluations; never is more than any."""
    middle = statistics.median(counts)
    return f"median {middle:g}" if math.isfinite(middle) else "median never"


def _reached(runs: list[Mining], problem: Problem, most: int, best: float) -> str:
    """Cost over the best after some evaluations: median, least and most of several seeds."""
    found = sorted(min(problem.cost(each) for each in run.records[:most] if each.ok) / best for run in runs)
    return f"{statistics.median(found):.3f} ({found[0]:.3f}-{found[-1]:.3f})"


def _check(ours: Mining, store: str, count: int) -> None:
    """Schedule some designs that were cut."""
    assert ours.search is not None
    cut = [row for row, state in enumerate(ours.search.state.tolist()) if state == CUT]
    rows = random.Random(0).sample(cut, min(count, len(cut)))
    with Bench(ours.space, store, resume=True).opened() as evaluate:
        records = evaluate([ours.search.candidates.values(row) for row in rows])
    shares = [
        (ours.search.bound[row] / ours.cost(record), ours.search.best / ours.cost(record))
        for row, record in zip(rows, records, strict=True)
        if record.ok
    ]
    tight, fast = zip(*shares, strict=True)
    print(
        f"cut and scheduled all the same: {len(shares)} designs, bound {statistics.mean(tight):.2f} of the cost in the "
        f"mean and {max(tight):.3f} at most; the best of them costs {1 / max(fast):.2f}× the best"
    )
    assert max(tight) <= 1 + 1e-9
    assert max(fast) <= 1 / (1 - GAP)


if __name__ == "__main__":
    main(*sys.argv[1:])
