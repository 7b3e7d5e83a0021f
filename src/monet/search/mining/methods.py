"""Other ways to mine the same template on the same evaluator: WHAM's method, black-box searches, a two-level Bayesian
search in the manner of Spotlight. None of them proves anything; they are compared by what they find in how many
evaluations. Designs over a limit are known without scheduling them and cost no evaluation."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from monet.arrays import F64, F64x2, I64x2
from monet.errors import MonetError, nearest
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import Search, answered, search_named
from monet.search.hardware.space import Space, Values
from monet.search.mining.feasibility import check_feasible
from monet.search.mining.mine import Bench, Mining, Problem, Watch, analysed, nothing_within
from monet.search.mining.surrogate import predicted
from monet.search.mining.wham import Wham

BLACK_BOX = ("random", "tpe", "nsga2", "spotlight")
METHODS = ("bound", "wham", *BLACK_BOX)
WHAM_TOP = 3  # designs of WHAM's model that are scheduled in full
MOST_POINTS = 40  # designs looked at for every evaluation, those over a limit included
SPOTLIGHT_FIRST = 10  # designs at random before the Bayesian search learns
SPOTLIGHT_POOL = 2_000  # designs at random among which the most promising is chosen


def check_method(name: str) -> None:
    """An error if there is no such method."""
    if name not in METHODS:
        raise MonetError(f"--method {name!r}: {nearest(name, METHODS)}")


def mine_by(
    method: str,
    problem: Problem,
    store_path: str,
    *,
    evaluations: int,
    seed: int = 0,
    jobs: int = 1,
    resume: bool = False,
    watch: Watch = lambda *_: None,
) -> Mining:
    """Mine by one of ``METHODS`` other than the default."""
    check_method(method)
    began, cpu = time.monotonic(), time.process_time()
    space, notes, interrupted = problem.space(), list[str](), False
    check_feasible(problem.template.name, space, problem.limits)
    records: dict[str, Record] = {}
    chosen = _wham(problem, space, notes) if method == "wham" else None
    scheduled = 0
    with Bench(space, store_path, jobs, resume).opened() as evaluate:
        try:
            asked = _given(chosen) if chosen is not None else _black_box(method, problem, space, evaluations, seed)
            for record in answered(asked, evaluate):
                records[space.key(record.values)] = record
                scheduled += _scheduled(record)
                best = min((problem.cost(each) for each in records.values() if each.ok), default=np.inf)
                watch(scheduled, WHAM_TOP if chosen is not None else evaluations, best, 1.0)
                if chosen is None and scheduled >= evaluations:
                    break
        except KeyboardInterrupt:
            interrupted = True
    if not interrupted and not any(record.ok for record in records.values()):
        raise MonetError(nothing_within(problem, space, tuple(records.values())))
    kept = tuple(record for record in records.values() if _scheduled(record))
    spent = time.process_time() - cpu + sum(record.seconds for record in records.values())
    return Mining(problem, space, method, kept, None, time.monotonic() - began, spent, interrupted, tuple(notes))


def _scheduled(record: Record) -> bool:
    """Whether it took a schedule to know: not those that a limit excludes."""
    return record.ok or not record.reason.startswith("constraint: ")


def _given(points: Sequence[Values]) -> Search:
    yield list(points)


def _wham(problem: Problem, space: Space, notes: list[str]) -> list[Values]:
    model = Wham(space, analysed(problem.workloads), problem.goal, problem.limits)
    designs = model.search()
    if not designs:
        raise MonetError(nothing_within(problem, space, ()))
    best = designs[0]
    notes.append(f"in WHAM's model: {model.visited:,} designs scheduled operator by operator, {len(designs):,} kept")
    for name, seconds in best.steps_s.items():
        share = best.critical_s[name] / seconds
        notes.append(
            f"its best takes {seconds * 1e3:.4g} ms for {name} there, {100 * share:.1f} % of it the longest path"
        )
    return [design.values for design in designs[:WHAM_TOP]]


def _black_box(method: str, problem: Problem, space: Space, evaluations: int, seed: int) -> Search:
    if method == "spotlight":
        return _spotlight(space, problem, evaluations, seed)
    points = MOST_POINTS * evaluations
    if space.size is not None:  # fewer than all: these would come in the order of the space, whatever the seed
        points = max(1, min(points, space.size - 1))
    return search_named(method, space, points, seed, space.objectives)


def _spotlight(space: Space, problem: Problem, evaluations: int, seed: int) -> Search:
    """Hardware by Bayesian optimisation over features that a designer would name, with the schedule of each searched
    inside: here by the default plan, which is chosen among many."""
    generator = np.random.default_rng(seed)
    sizes = np.array([len(each.values) for each in space.parameters])
    known: list[F64] = []  # features of what has figures
    costs: list[float] = []
    seen: set[tuple[int, ...]] = set()
    while len(seen) < MOST_POINTS * evaluations:
        shares = generator.random((SPOTLIGHT_POOL if len(costs) >= SPOTLIGHT_FIRST else 1, len(sizes)))
        drawn = np.minimum((shares * sizes).astype(np.int64), sizes - 1)
        pool = drawn[[place not in seen for place in map(tuple, drawn.tolist())]]
        if not len(pool):
            return
        chosen = pool[0]
        if len(costs) >= SPOTLIGHT_FIRST:
            logs = np.log(costs)
            mean, deviation = predicted(np.array(known), logs, _features(pool))
            chosen = pool[int(np.argmax(_improvement(float(logs.min()), mean, deviation)))]
        place = tuple(chosen.tolist())
        seen.add(place)
        records = yield [{each.name: each.values[at] for each, at in zip(space.parameters, place, strict=True)}]
        if records[0].ok:
            known.append(_features(chosen[None, :])[0])
            costs.append(problem.cost(records[0]))


def _features(places: I64x2) -> F64x2:
    """Positions of all parameters, and their sum: how much hardware there is in all."""
    return np.concatenate((places, places.sum(1, keepdims=True)), axis=1).astype(float)


def _improvement(best: float, mean: F64x2, deviation: F64x2) -> F64x2:
    """Expected improvement below the best."""
    from scipy.stats import norm

    spread = np.maximum(deviation, 1e-9)
    share = (best - mean) / spread
    return np.asarray((best - mean) * norm.cdf(share) + spread * norm.pdf(share))


# --- designs made by hand ---------------------------------------------------------------------------------------------


def hand_designs(problem: Problem, space: Space) -> dict[str, Values]:
    """The template's hand-made designs, as large as the limits allow."""
    return {
        name: values
        for name, design in problem.template.model.designs.items()
        if (values := _scaled(problem, space, dict(design.values), design.scaled, design.shrunk)) is not None
    }


def _scaled(problem: Problem, space: Space, values: Values, counts: list[str], sizes: list[str]) -> Values | None:
    """A design with its numbers of cores doubled while it fits, halved until it does; then its sizes halved."""
    allowed = {each.name: each.values for each in space.parameters}
    values = {
        each.name: values[each.name] if values[each.name] in each.values else each.values[0]
        for each in space.parameters
    }

    def moved(names: list[str], by: int) -> Values | None:
        places = {name: allowed[name].index(values[name]) + by for name in names}
        if any(not 0 <= place < len(allowed[name]) for name, place in places.items()):
            return None
        return values | {name: allowed[name][place] for name, place in places.items()}

    while not problem.fits(space, values):
        smaller = moved(counts, -1)
        for name in sizes if smaller is None else ():
            smaller = smaller or moved([name], -1)
        if smaller is None:
            return None
        values = smaller
        sizes = sizes[1:] + sizes[:1]
    while (larger := moved(counts, 1)) is not None and problem.fits(space, larger):
        values = larger
    return values
