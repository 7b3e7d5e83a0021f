"""Exploring a space: a search proposes points, the engine evaluates them, the store keeps them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Any

import numpy as np

from monet.display import Displayed
from monet.errors import MonetError
from monet.hardware.errors import HardwareError
from monet.request.attention import fastest
from monet.search.hardware.engine import EVALUATE, Engine, cluster, local
from monet.search.hardware.objectives import Objective, hardware_figures
from monet.search.hardware.record import Record
from monet.search.hardware.samplers import answered, search_named
from monet.search.hardware.space import Space, Values, numeric
from monet.search.hardware.store import open_store
from monet.search.pareto import front

MOST_KNOB_VALUES = 16  # of a workload's knob, built before anything runs
MOST_TRIED = 4096  # points whose constraints are tried before a search starts


@dataclass(frozen=True, repr=False)
class Exploration(Displayed):
    """The points a search looked at, in its order, and whether it was cut short."""

    space: Space
    objectives: tuple[Objective, ...]
    records: tuple[Record, ...]
    evaluated: int = 0  # of them, by this run; the others were in the store
    seconds: float = 0.0
    interrupted: bool = False

    @property
    def feasible(self) -> tuple[Record, ...]:
        """Those with figures."""
        return tuple(record for record in self.records if record.ok)

    def front(self, objectives: Sequence[Objective] | None = None) -> tuple[Record, ...]:
        """The designs that no other one beats in every objective, by the first one."""
        return pareto(self.space, self.records, objectives or self.objectives)


def pareto(space: Space, records: Sequence[Record], objectives: Sequence[Objective]) -> tuple[Record, ...]:
    """Records on the front of some objectives, in order of the first."""
    feasible = [record for record in records if record.ok]
    if not feasible:
        return ()
    values = objective_values(space, feasible, objectives)
    kept = front(values)
    return tuple(feasible[place] for place in sorted(kept, key=lambda place: tuple(values[place])))


def objective_values(
    space: Space, records: Sequence[Record], objectives: Sequence[Objective]
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Objectives of feasible records, a row each."""
    judged = [space.judged(record.metrics, objectives) for record in records]
    return np.array(judged, float).reshape(len(records), len(objectives))


@dataclass
class Progress:
    """What a display may show while a search runs."""

    total: int | None
    done: int = 0  # points with a record, those already in the store included
    evaluated: int = 0
    infeasible: int = 0
    failed: int = 0
    seconds: float = 0.0
    front: list[tuple[float, ...]] = field(default_factory=list)

    def add(self, record: Record, values: tuple[float, ...] | None) -> None:
        """Count a record; ``values`` are its objectives if it has any."""
        self.done += 1
        self.infeasible += record.status == "infeasible"
        self.failed += record.status == "failed"
        if values and not any(all(a <= b for a, b in zip(point, values, strict=True)) for point in self.front):
            beaten = [point for point in self.front if all(a <= b for a, b in zip(values, point, strict=True))]
            self.front = [point for point in self.front if point not in beaten] + [values]


def explore(
    space: Space,
    store_path: str,
    *,
    search: str = "exhaustive",
    points: int | None = None,
    seed: int = 0,
    objectives: Sequence[Objective] | None = None,
    resume: bool = False,
    jobs: int = 1,
    cluster_address: str = "",
    timeout_s: float = 600.0,
    memory_bytes: int = 0,
    function: str = EVALUATE,
    show: Callable[[Progress], None] = lambda progress: None,
) -> Exploration:
    """Search a space. Everything that can be wrong with the request is an error before anything runs.

    Interrupted (Ctrl-C), it returns what there is; the store has it too.
    """
    from monet.schedule.evaluation import model_version

    chosen = tuple(objectives or space.objectives)
    proposals = search_named(search, space, points, seed, chosen)
    require_satisfiable(space)
    require_workloads(space)
    workers = cluster(cluster_address) if cluster_address else local(jobs)
    began = time.monotonic()
    total = space.size if search == "exhaustive" else min(points or 10**9, space.size or 10**9)
    progress, records, early = Progress(total), dict[str, Record](), dict[str, Record]()

    def note(record: Record) -> None:
        progress.seconds = time.monotonic() - began
        progress.add(record, tuple(space.judged(record.metrics, chosen)) if record.ok else None)
        show(progress)

    def arrived(record: Record) -> None:
        progress.evaluated += 1
        early[space.key(record.values)] = record
        note(record)

    interrupted = False
    with workers as (make, slots), open_store(store_path, space, model_version(), resume=resume) as store:
        engine = Engine(store, make, 2 * slots, timeout_s, memory_bytes, function)
        with engine, _sigterm_as_interrupt():
            try:
                show(progress)
                for record in answered(proposals, lambda batch: engine.evaluate(batch, arrived)):
                    if early.pop(space.key(record.values), None) is None:
                        note(record)
                    records[space.key(record.values)] = record
            except KeyboardInterrupt:
                interrupted = True
    found, seconds = (*records.values(), *early.values()), time.monotonic() - began
    return Exploration(space, chosen, found, progress.evaluated, seconds, interrupted)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """A polite request to stop (SIGTERM, as batch systems send) ends a run like Ctrl-C does."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- constraints before anything runs ---------------------------------------------------------------------------------


def require_satisfiable(space: Space) -> None:
    """An error if no point satisfies the constraints that can be checked without an evaluation.

    Corners of the space are tried first, then all points, or a spread of them where there are too many for that.
    """
    checked = [constraint for constraint in space.constraints if not any("." in name for name in constraint.names)]
    if not checked:
        return
    nearest_miss: dict[str, tuple[float, str]] = {}
    tried = 0
    for point in _probes(space):
        tried += 1
        known: dict[str, Any] = numeric(point)
        try:
            known |= hardware_figures(space.hardware(point))
        except HardwareError:
            continue
        relevant = [constraint for constraint in checked if constraint.names <= known.keys()]
        missed = [
            (constraint.text, constraint.violation(known), constraint.explain(known))
            for constraint in relevant
            if not constraint.holds(known)
        ]
        if not missed:
            return
        for text, violation, shown in missed:
            nearest_miss[text] = min(nearest_miss.get(text, (float("inf"), "")), (violation, shown))
    whole = space.size is not None and tried >= space.size
    which = f"none of the {tried:,} points" if whole else f"none of {tried:,} points tried (corners and a spread)"
    misses = "\n".join(f"  closest to {text}: {shown}" for text, (_, shown) in nearest_miss.items())
    raise MonetError(f"{space.name}: {which} satisfies the constraints\n{misses}")


def require_workloads(space: Space) -> None:
    """An error if a workload cannot be built: an unknown model, precision, optimizer or size, which would otherwise be
    the reason that every point is infeasible. Every value of every knob is tried, one knob at a time."""
    from monet.search.hardware.evaluation import graph_of

    first = {knob.name: knob.values[0] if knob.values else knob.at(0.0) for knob in space.parameters}
    knobs = [knob for knob in space.parameters if any(path.startswith("workloads.") for path in knob.sets)]
    points = [first, *(first | {knob.name: value} for knob in knobs for value in knob.values[1:MOST_KNOB_VALUES])]
    for point in points:
        for name, workload in space.workloads_at(point).items():
            try:
                fastest(workload, lambda asked: (graph_of(asked), 0.0, ""))  # one implementation of attention is enough
            except MonetError as error:
                chosen = ", ".join(f"{knob.name} = {point[knob.name]}" for knob in knobs)
                raise MonetError(f"{space.name}: workloads.{name}{f' ({chosen})' if chosen else ''}: {error}") from None


def _probes(space: Space) -> Iterator[Values]:
    names = [parameter.name for parameter in space.parameters]
    ends = [
        (parameter.values[0], parameter.values[-1])
        if parameter.values
        else (parameter.at(0.0), parameter.at(1.0 - 1e-9))
        for parameter in space.parameters
    ]
    corners = (dict(zip(names, chosen, strict=True)) for chosen in product(*ends)) if len(ends) <= 10 else ()
    whole = space.size is not None and space.size <= MOST_TRIED
    spread = (point for batch in search_named("qmc", space, MOST_TRIED, 0) for point in batch)
    seen: set[str] = set()
    for point in chain(corners, space.points() if whole else spread):
        if space.key(point) not in seen and len(seen) < MOST_TRIED:
            seen.add(space.key(point))
            yield point
