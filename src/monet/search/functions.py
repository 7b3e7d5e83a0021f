"""The searches as functions of a graph and an accelerator: ``monet.fuse``, ``monet.allocate``, ``monet.checkpoint``,
``monet.explore``. Each takes a ``Request`` in the place of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from monet.errors import MonetError
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.hardware.loading import load_hardware
from monet.quantities import parse_bytes
from monet.request import Request
from monet.schedule.engine import Scheduler
from monet.schedule.plan import Plan
from monet.schedule.planning.default_plan import default_schedule
from monet.search.allocation.bases import allocate_fused
from monet.search.allocation.search import Allocation
from monet.search.allocation.search import allocate as allocate_plan
from monet.search.checkpoint.outcome import Outcome, outcome_of
from monet.search.checkpoint.scheduled import ScheduledCost
from monet.search.checkpoint.scheduled_search import ScheduledFront, search_front
from monet.search.checkpoint.static import best_under
from monet.search.fusion.search import FoundFusion, FusionSettings, find_fusion
from monet.search.genetic import EvolutionSettings
from monet.search.hardware.exploration import Exploration
from monet.search.hardware.exploration import explore as explore_space
from monet.search.hardware.objectives import parse_objective
from monet.search.hardware.space import Space, load_space, make_space
from monet.search.progress import Watch
from monet.transforms.checkpoint_problem import problem_of

Asked = Graph | Request
Hardware = Accelerator | str | None
POPULATION, GENERATIONS = 48, 4  # of checkpointing through the schedule; generations for each step of effort


def fuse(
    asked: Asked,
    hardware: Hardware = None,
    *,
    objective: str = "latency",
    limit: int = 6,
    effort: int = 5,
    seed: int = 0,
    manual: Plan | None = None,
    watch: Watch | None = None,
) -> FoundFusion:
    """Which operators to fuse, in what tiles: plans of at most ``limit`` operators a group, against unfused, the
    default and a manual plan. ``found.plans["found"]`` is the plan, and what it costs."""
    settings = FusionSettings(objective, limit, effort, seed)
    return find_fusion(_scheduler(asked, hardware, objective), settings, manual=manual, watch=watch)


def allocate(
    asked: Asked,
    hardware: Hardware = None,
    *,
    fusion: str | Plan = "auto",
    objective: str = "latency",
    effort: int = 5,
    seed: int = 0,
    watch: Watch | None = None,
) -> Allocation:
    """Which cores run which operators, and how operators are split over them. ``fusion``: auto, none or stacks; or the
    plan whose groups are kept."""
    scheduler = _scheduler(asked, hardware, objective)
    options: dict[str, Any] = {"objective": objective, "effort": effort, "seed": seed, "watch": watch}
    if isinstance(fusion, Plan):
        return allocate_plan(scheduler, fusion, **options)
    return allocate_fused(scheduler, fusion, **options)


def checkpoint(asked: Asked, budget: str = "50%", *, narrow: bool = False) -> Outcome:
    """What to keep for the backward pass: the plan that repeats least work with at most ``budget`` (``12MB``, or a
    share such as ``50%``) kept from forward to backward, with proof or gap. ``narrow``: also in half the bits."""
    step = asked.graph() if isinstance(asked, Request) else asked
    problem = problem_of(step)
    limit = parse_bytes("budget", budget, problem.keep_all_bytes)
    return outcome_of(step, best_under(problem, limit, narrow))


def checkpoint_front(
    asked: Asked,
    hardware: Hardware = None,
    *,
    choices: Sequence[str] = ("keep", "recompute"),
    effort: int = 5,
    seed: int = 0,
    jobs: int = 1,
    watch: Callable[[int], None] = lambda count: None,
) -> ScheduledFront:
    """The front of memory, latency and energy of checkpoint plans through the full schedule; ``front.under(bytes)`` is
    the fastest within a peak of activations."""
    scheduler = _scheduler(asked, hardware, "latency")
    costed = ScheduledCost(scheduler, default_schedule(scheduler).plan)
    settings = EvolutionSettings(POPULATION, GENERATIONS * effort)
    return search_front(costed, choices=tuple(choices), seed=seed, settings=settings, jobs=jobs, watch=watch)


def explore(
    space: str | Path | Mapping[str, Any] | Space,
    store: str = "",
    *,
    search: str = "exhaustive",
    points: int | None = None,
    objectives: Sequence[str] = (),
    seed: int = 0,
    jobs: int = 1,
    resume: bool = False,
) -> Exploration:
    """Designs of a space (a YAML file, a shipped name, or its plain values) evaluated, every one kept in ``store``, by
    default SPACE.sqlite."""
    if isinstance(space, Mapping):
        space = make_space(dict(space), "space", Path())
    loaded = space if isinstance(space, Space) else load_space(str(space))
    modes = {name: workload.mode for name, workload in loaded.workloads.items()}
    chosen = tuple(parse_objective(text, modes) for text in objectives) or loaded.objectives
    path = store or f"{loaded.name}.sqlite"
    return explore_space(
        loaded, path, search=search, points=points, seed=seed, objectives=chosen, jobs=jobs, resume=resume
    )


def _scheduler(asked: Asked, hardware: Hardware, objective: str) -> Scheduler:
    if isinstance(asked, Request):
        if hardware is not None:
            raise MonetError("a request says its hardware itself: give one of them, not both")
        return replace(asked, objective=objective).scheduler()
    if hardware is None:
        raise MonetError("hardware is needed: an accelerator, a preset name or the path of a YAML file")
    return Scheduler(asked, load_hardware(hardware) if isinstance(hardware, str) else hardware, objective)
