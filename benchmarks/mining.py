"""How many evaluations mining takes against black-box searches on the same template, evaluator and budget.

python -m benchmarks.mining [TEMPLATE] [MODEL] [BATCH] [BUDGET] [SEEDS] prints, for every method, the evaluations until
a design within 1 % of the best known was found. All share one store, so that no design is scheduled twice; evaluations
are what a method asked for. Figures in docs/mining.md come from here.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path

from monet.search.mining.comparison import within
from monet.search.mining.methods import BLACK_BOX, mine_by
from monet.search.mining.mine import Mining, Problem, mine
from monet.search.mining.templates import load_template

CLOSE = 1.01


def main(
    template: str = "edge",
    model: str = "bert:layers=1,hidden=128,heads=2",
    batch: str = "2",
    budget: str = "60",
    seeds: str = "5",
    sequence: str = "32",
) -> None:
    """Mine to the proof or the budget, then let the others have a go."""
    loaded = load_template(template)
    size = {"sequence": int(sequence)} if model.startswith(("bert", "gpt", "opt")) else {}
    workload = loaded.workload({"model": model, "batch": int(batch), **size})
    problem = Problem(loaded, {"model": workload}, loaded.limits)
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "designs.sqlite")
        began = time.process_time()
        ours = mine(problem, store, evaluations=int(budget), front=False)
        others = {
            method: [
                mine_by(method, problem, store, evaluations=int(budget), seed=seed, resume=True)
                for seed in range(int(seeds))
            ]
            for method in BLACK_BOX
        }
        others["wham"] = [mine_by("wham", problem, store, evaluations=3, resume=True)]
        best = min(problem.cost(found.best) for found in (ours, *itertools.chain(*others.values())) if found.best)
        print(f"{template}, {model}: {ours.space.size:,} designs; CPU {time.process_time() - began:.0f} s and workers")
        gap = 0.0 if ours.gap is None else ours.gap
        print(f"bound: {_said([ours], problem, best)}, {len(ours.records)} in all, gap {100 * gap:.1f} %")
        for method, runs in others.items():
            print(f"{method}: {_said(runs, problem, best)}")


def _said(runs: list[Mining], problem: Problem, best: float) -> str:
    reached = [within(found.records, problem, CLOSE * best) for found in runs]
    known = [count for count in reached if count is not None]
    found = [problem.cost(each.best) / best for each in runs if each.best]
    times = f"median {statistics.median(known):g}" if known else "never"
    return f"within 1 % after {times} ({reached}), ends at {statistics.mean(found):.3f}× the best"


if __name__ == "__main__":
    main(*sys.argv[1:])
