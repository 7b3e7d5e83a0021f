"""How many evaluations mining takes against black-box searches on the same template, evaluator and budget.

python -m benchmarks.mining [WORKLOAD] [BUDGET] [SEEDS] [CHECKED] mines a reduced template (``bert`` or ``resnet``: the
5,625 designs of ``edge``) or the full one (``wham-resnet``, ``wham-bert``) to the proof or for BUDGET evaluations; then
every other method has as many, with SEEDS seeds. All share one store, so no design is scheduled twice; evaluations are
what a method asked for. Last, CHECKED designs that were cut by their bound are drawn at random and scheduled: none may
be faster than its bound, or than the best. Figures in docs/mining.md come from here.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from monet.search.mining.best_first import CUT
from monet.search.mining.comparison import within
from monet.search.mining.methods import BLACK_BOX, mine_by
from monet.search.mining.mine import Bench, Mining, Problem, mine
from monet.search.mining.templates import load_template

CLOSE = 1.01
GAP = 0.01
PATIENCE = 8
WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("edge", {"model": "bert:layers=1,hidden=128,heads=2", "sequence": 32, "batch": 2}),
    "resnet": ("edge", {"model": "resnet:blocks=2-2-2-2,width=16", "image": 16, "batch": 4}),
    "wham-resnet": ("wham", {"model": "resnet18", "batch": 8}),
    "wham-bert": ("wham", {"model": "bert-base", "batch": 4}),
}


def main(name: str = "bert", budget: str = "60", seeds: str = "5", checked: str = "40") -> None:
    """Mine to the proof or the budget, then let the others have a go."""
    template, values = WORKLOADS[name]
    loaded = load_template(template)
    problem = Problem(loaded, {"model": loaded.workload(values)}, loaded.limits)
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "designs.sqlite")
        ours = mine(problem, store, evaluations=int(budget), slack=GAP, patience=PATIENCE, front=False)
        assert ours.best is not None
        best = problem.cost(ours.best)
        reached = within(ours.records, problem, best)
        print(f"{template}, {values['model']}: {ours.space.size or 0:,} designs, best {best * 1e3:.4g} ms", flush=True)
        print(
            f"bound: found after {reached}, ends after {len(ours.records)} evaluations, {ours.seconds:.0f} s "
            f"({ours.cpu_seconds:.0f} s of CPU), gap {100 * (ours.gap or 0.0):.2f} %",
            flush=True,
        )
        most = len(ours.records)
        for method in BLACK_BOX:
            began, runs = time.monotonic(), list[Mining]()
            for seed in range(int(seeds)):
                runs.append(mine_by(method, problem, store, evaluations=most, seed=seed, resume=True))
            print(f"{method}: {_said(runs, problem, best)}; {time.monotonic() - began:.0f} s", flush=True)
        if ours.search and int(checked):
            _check(ours, store, int(checked))


def _said(runs: list[Mining], problem: Problem, best: float) -> str:
    reached = [within(found.records, problem, CLOSE * best) for found in runs]
    known = [count for count in reached if count is not None]
    found = [problem.cost(each.best) / best for each in runs if each.best]
    times = f"median {statistics.median(known):g}" if known else "never"
    return f"within 1 % after {times} ({reached}), ends at {statistics.mean(found):.3f}× the best"


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
