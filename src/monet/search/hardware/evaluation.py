"""One point: its design checked against the constraints, then every workload scheduled on it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from monet.errors import MonetError
from monet.graph.graph import Graph
from monet.hardware.accelerator import Accelerator
from monet.mapping.cost_store import Section, default_store
from monet.numerics.gradient_error import gradient_error
from monet.options import options_of
from monet.request import Request
from monet.request.attention import fastest
from monet.request.evaluation import schedule_of
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.evaluation import model_version
from monet.schedule.measurement.figures import Figures, figures_of
from monet.schedule.schedule import Schedule
from monet.search.hardware.objectives import hardware_figures, means
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space, numeric, space_from_text
from monet.search.hardware.workload import Workload

SPACES, GRAPHS = Section[Space]("spaces", 4), Section[Graph]("graphs of workloads", 64)
ERRORS = Section[float]("gradient errors of workloads", 4096)


class _Infeasible(Exception):
    """Why a point has no figures."""


Run = Callable[[Workload, Scheduler], Schedule]


def evaluate(space_text: str, values: Mapping[str, Any]) -> Record:
    """The record of a point. Never raises for a design that cannot do the work: that is a record too."""
    return evaluate_by(schedule_of, space_text, values)


def evaluate_by(run: Run, space_text: str, values: Mapping[str, Any]) -> Record:
    """The same with schedules that are made otherwise than workloads say."""
    began = time.process_time()
    space = default_store()[SPACES].get_or(space_text, lambda: space_from_text(space_text))
    metrics = dict[str, float]()
    status, reason = "ok", ""
    try:
        _evaluate(space, values, metrics, run)
    except _Infeasible as error:
        status, reason = "infeasible", str(error)
    except MonetError as error:
        status, reason = "infeasible", " ".join(str(error).split())
    return Record(values, status, reason, metrics, time.process_time() - began, 1, model_version())


def _evaluate(space: Space, values: Mapping[str, Any], metrics: dict[str, float], run: Run) -> None:
    known: dict[str, Any] = numeric(values)
    _require(space, known)
    accelerator = space.hardware(values)
    metrics |= hardware_figures(accelerator)
    known |= metrics
    _require(space, known)
    workloads = space.workloads_at(values)
    if space.model.pipeline is not None:
        metrics |= _pipelined(space, workloads, accelerator, metrics["full_use_power_w"])
        workloads = {}
    for name, workload in workloads.items():
        figures, workload = _run(name, workload, accelerator, run)
        metrics |= {
            f"{name}.latency_s": figures.latency_s,
            f"{name}.energy_j": figures.energy_j,
            f"{name}.edp_js": figures.edp,
            f"{name}.tdp_energy_j": figures.latency_s * metrics["full_use_power_w"],
            f"{name}.power_w": figures.energy_j / figures.latency_s if figures.latency_s else 0.0,
            f"{name}.dram_bytes": figures.dram_bytes,
            f"{name}.memory_bytes": figures.dram_peak_bytes,
        }
        if space.executes and workload.mode == "training":
            metrics[f"{name}.gradient_error"] = _gradient_error(name, workload)
        capacity = accelerator.dram.capacity_bytes
        if figures.dram_peak_bytes > capacity:
            short = figures.dram_peak_bytes - capacity
            raise _Infeasible(f"{name}: DRAM holds {capacity:,} bytes, {short:,} bytes short")
    known |= metrics | means(metrics, {name: each.weight for name, each in space.workloads_at(values).items()})
    _require(space, known)


def _pipelined(
    space: Space, workloads: Mapping[str, Workload], accelerator: Accelerator, tdp_w: float
) -> dict[str, float]:
    """Figures of steps over a system whose devices are this design."""
    from monet.search.hardware.pipeline_stages import pipeline_of, pipelined_figures

    assert space.model.pipeline is not None
    found: dict[str, float] = {}
    for name, workload in workloads.items():
        try:
            found |= pipelined_figures(name, pipeline_of(workload, space.model.pipeline), accelerator, tdp_w)
        except NoSchedule as error:
            raise _Infeasible(f"{name}: {error.reason.message}") from None
    return found


def _require(space: Space, known: Mapping[str, Any]) -> None:
    """Constraints of which everything is known by now."""
    for constraint in space.constraints:
        if constraint.names <= known.keys() and not constraint.holds(known):
            raise _Infeasible(f"constraint: {constraint.explain(known)}")


def _run(name: str, workload: Workload, accelerator: Accelerator, run: Run) -> tuple[Figures, Workload]:
    """Figures of a workload, and itself with the attention that is fastest on this design where it leaves that open."""

    def cost(asked: Workload) -> tuple[Figures, float | None, str]:
        scheduler = Scheduler(graph_of(asked), accelerator, asked.objective)
        try:
            scheduler.check_fits()
            schedule = run(asked, scheduler)
        except NoSchedule as error:
            raise MonetError(error.reason.message) from None
        figures = figures_of(scheduler, schedule)
        fits = figures.dram_peak_bytes <= accelerator.dram.capacity_bytes
        return figures, figures.latency_s if fits else None, ""

    try:
        figures, taken = fastest(workload, cost)
    except MonetError as error:
        raise _Infeasible(f"{name}: {' '.join(str(error).split())}") from None
    return figures, replace(workload, attention=taken.name)


def _gradient_error(name: str, workload: Workload) -> float:
    """Hardware and schedule change nothing of it, so it is found once per process for a graph."""
    narrow = replace(workload, checkpoint="", phases=())
    exact = replace(narrow, precision="fp32")
    try:
        return default_store()[ERRORS].get_or(
            _shaping(narrow), lambda: gradient_error(graph_of(narrow), graph_of(exact))
        )
    except MonetError as error:
        raise _Infeasible(f"{name}: gradient_error: {' '.join(str(error).split())}") from None


def graph_of(workload: Workload) -> Graph:
    """The graph of a workload, built once per process for all that schedule it differently."""
    text = _shaping(workload)
    return default_store()[GRAPHS].get_or(text, lambda: _graph(text))


def _shaping(workload: Workload) -> str:
    """All that decides what the graph is."""
    options = options_of(Workload).items()
    shaping = [name for name, option in options if option.group not in ("hardware", "schedule")]
    kept = {name: getattr(workload, name) for name in (*shaping, "phases", "model_digest")}
    return json.dumps(kept, sort_keys=True)


def _graph(text: str) -> Graph:
    return Request.from_json(json.loads(text)).graph()
