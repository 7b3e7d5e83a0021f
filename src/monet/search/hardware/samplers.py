"""Which points to look at: all, at random, evenly spread, or where earlier ones did well (Optuna's TPE and NSGA-II).

A search is a generator: it yields batches of points and is sent their records. Batches do not depend on how many
processes evaluate them, so the same seed visits the same points everywhere; a search that is run again over a store
finds its earlier points there and goes on where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from monet.errors import MonetError
from monet.quantities import plain_number
from monet.search.hardware.objectives import Objective
from monet.search.hardware.record import Record
from monet.search.hardware.space import MOST_EXHAUSTIVE, Parameter, Space, Values

if TYPE_CHECKING:
    import optuna

SEARCHES = ("exhaustive", "random", "qmc", "tpe", "nsga2")
DEFAULT_POINTS = 500
BATCH = 64  # of searches that do not learn
TPE_BATCH = 10
TPE_FIRST = 50  # points spread evenly before TPE starts to learn
MOST_REPEATS = 50  # batches in a row that may bring nothing new before a search is over

Search = Generator[list[Values], Sequence[Record], None]


def search_named(
    name: str, space: Space, points: int | None, seed: int, objectives: Sequence[Objective] | None = None
) -> Search:
    """The search called ``name`` for so many different points."""
    chosen = tuple(objectives or space.objectives)
    if name == "exhaustive":
        size = space.require_finite()
        if points is not None and points < size:
            raise MonetError(
                f"--points {points} with --search exhaustive: the space has {size:,}; take --search random"
            )
        return _given(space.points())
    count = min(points or DEFAULT_POINTS, space.size or MOST_EXHAUSTIVE)
    if count == space.size and name in ("random", "qmc"):
        return _given(space.points())
    match name:
        case "random":
            return _given(_random(space, count, seed))
        case "qmc":
            return _given(islice(_spread(space, seed), count))
        case "tpe":
            return _tpe(space, chosen, count, seed)
        case "nsga2":
            return _nsga2(space, chosen, count, seed)
    raise MonetError(f"--search {name!r}: allowed are {', '.join(SEARCHES)}")


def answered(search: Search, evaluate: Callable[[list[Values]], list[Record]]) -> Iterator[Record]:
    """The records of all points a search asks for, in its order; it learns from those of each batch."""
    try:
        batch = next(search)
        while True:
            records = evaluate(batch)
            yield from records
            batch = search.send(records)
    except StopIteration:
        return


def _given(points: Iterable[Values]) -> Search:
    """Points that do not depend on what is found."""
    rest = iter(points)
    while batch := list(islice(rest, BATCH)):
        yield batch


def _random(space: Space, count: int, seed: int) -> Iterator[Values]:
    """Different points, each equally likely; of a finite space."""
    generator = np.random.default_rng(seed)
    return islice(_different(space, lambda: [generator.random(len(space.parameters))]), count)


def _spread(space: Space, seed: int) -> Iterator[Values]:
    """Different points of a scrambled Sobol sequence."""
    from scipy.stats import qmc

    sobol = qmc.Sobol(len(space.parameters), rng=seed)
    return _different(space, lambda: sobol.random(256))


def _different(space: Space, draw: Callable[[], Iterable[Any]]) -> Iterator[Values]:
    """Different points at the drawn shares of each parameter's way, until there are no others."""
    seen: set[str] = set()
    while space.size is None or len(seen) < space.size:
        for shares in draw():
            drawn = zip(space.parameters, shares, strict=True)
            point = {parameter.name: parameter.at(float(share)) for parameter, share in drawn}
            if space.key(point) not in seen:
                seen.add(space.key(point))
                yield point


# --- searches that learn ----------------------------------------------------------------------------------------------


def _tpe(space: Space, objectives: Sequence[Objective], count: int, seed: int) -> Search:
    import optuna

    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True, constant_liar=True)
    first = min(TPE_FIRST, max(10, count // 5))
    return _learning(space, objectives, count, sampler, TPE_BATCH, islice(_spread(space, seed), first))


def _nsga2(space: Space, objectives: Sequence[Objective], count: int, seed: int) -> Search:
    import optuna

    population = max(10, min(30, count // 10))  # of 15 to 50, 30 was surest over 20 seeds on the space edge-tpu
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=population)
    first = islice(_spread(space, seed), population)
    return _learning(space, objectives, count, sampler, population, first)


def _learning(
    space: Space,
    objectives: Sequence[Objective],
    count: int,
    sampler: optuna.samplers.BaseSampler,
    batch_size: int,
    first: Iterable[Values],
) -> Search:
    """Ask Optuna for batches and tell it what came of them until ``count`` different points were seen."""
    import optuna

    quiet = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=["minimize"] * len(objectives), sampler=sampler)
    optuna.logging.set_verbosity(quiet)
    distributions = {parameter.name: distribution(parameter) for parameter in space.parameters}
    for point in first:
        study.enqueue_trial({knob.name: _encode(knob, point[knob.name]) for knob in space.parameters})
    waiting = len(study.trials)
    known: dict[str, Record] = {}
    repeats = 0
    while len(known) < count and repeats < MOST_REPEATS:
        size = min(waiting, BATCH) or batch_size
        waiting = max(0, waiting - size)
        trials = [study.ask(distributions) for _ in range(size)]
        points = [
            {parameter.name: _decode(parameter, trial.params[parameter.name]) for parameter in space.parameters}
            for trial in trials
        ]
        new: dict[str, Values] = {}
        for point in points:
            key = space.key(point)
            if key not in known and len(known) + len(new) < count:
                new[key] = point
        repeats = 0 if new else repeats + 1
        records = yield list(new.values())
        known |= zip(new, records, strict=True)
        for trial, point in zip(trials, points, strict=True):
            record = known.get(space.key(point))
            if record is not None and record.ok:
                study.tell(trial, space.judged(record.metrics, objectives))
            else:  # what is infeasible has no figures to learn from: a failed trial, which samplers pass over
                study.tell(trial, state=optuna.trial.TrialState.FAIL)


def distribution(parameter: Parameter) -> Any:
    """What Optuna is told of a parameter: numbers in order, or choices without one."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if parameter.is_continuous:
        return FloatDistribution(parameter.low, parameter.high, log=parameter.log)
    numbers = [plain_number(value) for value in parameter.values]  # '512 KiB' is one
    whole = all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    if whole and numbers == sorted(numbers):
        return IntDistribution(0, len(numbers) - 1)  # position in order: values may be unevenly spaced
    return CategoricalDistribution(list(range(len(numbers))))


def _encode(parameter: Parameter, value: Any) -> Any:
    return value if parameter.is_continuous else parameter.values.index(value)


def _decode(parameter: Parameter, chosen: Any) -> Any:
    return parameter.snap(chosen) if parameter.is_continuous else parameter.values[int(chosen)]
