"""The page of an allocation search: the table of plans, all plans tried with the front, who runs what when."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from monet.report.allocation import plan_columns
from monet.report.html.study import Panel, axis, figure, rows_table, scatter, table, write_study
from monet.schedule.engine import Scheduler
from monet.schedule.measurement.energy import energy_of
from monet.schedule.measurement.measure import Measures
from monet.schedule.plan import Plan, split_text
from monet.schedule.result_rows import EVENT_KINDS, Timeline
from monet.search.allocation.comparison import ComparedPlan
from monet.search.allocation.search import Allocation

COMPUTE = EVENT_KINDS.index("compute")
MOST_DRAWN = 4000  # dominated plans, evenly thinned
COLOURS = ((43, 76, 126), (58, 154, 119), (226, 192, 79), (217, 112, 58), (138, 63, 143))  # first operator to last
GAP = 1 / 400  # of the makespan: shorter pauses of an operator on a core are not drawn


def write_allocation(
    path: str | Path,
    scheduler: Scheduler,
    found: Allocation,
    compared: Sequence[ComparedPlan],
    settings: Mapping[str, Any],
) -> None:
    """Write the page."""
    graph, accelerator = scheduler.workload.graph, scheduler.machine.accelerator
    facts = [f"{name} {value}" for name, value in settings.items()]
    facts.append(f"{found.tried:,} plans tried")
    panels = [
        Panel(
            "Plans",
            "Every plan through the full schedule; × is against the found one. Published: others' figures.",
            body=_plans(compared, accelerator.clock_hz),
        ),
        Panel(
            "Latency and energy", "Each point is a plan that was scheduled.", front_figure(found, compared), half=True
        ),
        Panel("Best so far", "After every stage of the search.", rounds_figure(found), half=True),
        Panel(
            "Cores in the found plan",
            "When each core computes, and DRAM transfers. Pauses shorter than 1/400 of the time are not drawn.",
            gantt_figure(scheduler, found.found.plan),
            height_px=90 + 34 * (len(accelerator.cores) + 1),
        ),
        Panel("Placements", "The cores of every operator of the found plan.", body=_placements(scheduler, found)),
    ]
    write_study(path, f"{graph.name} on {accelerator.name}: allocation", facts, panels)


def _plans(compared: Sequence[ComparedPlan], clock_hz: float) -> str:
    plan, *figures, about = plan_columns(compared, clock_hz)
    sources = "; ".join(dict.fromkeys(row.source for row in compared if row.source))
    return rows_table((plan, about, *figures), compared, names=2) + (
        f'<p class="about">Published: {html.escape(sources)}.</p>' if sources else ""
    )


def front_figure(found: Allocation, compared: Sequence[ComparedPlan]) -> dict[str, Any]:
    """All plans tried, those that none dominates, and the named ones."""
    thin = max(1, -(-len(found.points) // MOST_DRAWN))
    front = [(point.figures.latency_s, point.figures.energy_j) for point in found.front]

    def marks(name: str, points: Sequence[tuple[float, float]], mode: str, **marker: Any) -> dict[str, Any]:
        x, y = ([1e3 * point[place] for point in points] for place in (0, 1))
        return scatter(name, x, y, mode, marker=marker, hovertemplate="%{x:.4g} ms, %{y:.4g} mJ")

    data = [
        marks("tried", found.points[::thin], "markers", color="#b8c0cc", size=4),
        marks("front", front, "lines+markers", color="#3f7fc1", size=7),
    ]
    for row in compared:
        if row.name != "bound" and not row.source:
            data.append(marks(row.name, [(row.latency_s, row.energy_j)], "markers", size=11))
    return figure(
        data,
        xaxis=axis("latency, ms", type="log"),
        yaxis=axis("energy, mJ", type="log"),
    )


def rounds_figure(found: Allocation) -> dict[str, Any]:
    """Best latency and energy after every stage, against plans tried."""
    x, text = [stage.evaluations for stage in found.rounds], [stage.name for stage in found.rounds]
    latency = [stage.figures.latency_s * 1e3 for stage in found.rounds]
    energy = [stage.figures.energy_j * 1e3 for stage in found.rounds]
    return figure(
        [
            scatter("latency, ms", x, latency, "lines+markers", text=text),
            scatter("energy, mJ", x, energy, "lines+markers", text=text, yaxis="y2"),
        ],
        xaxis=axis("plans tried"),
        yaxis=axis("latency, ms"),
        yaxis2=axis("energy, mJ", overlaying="y", side="right", showgrid=False),
    )


def gantt_figure(scheduler: Scheduler, plan: Plan) -> dict[str, Any]:
    """Who computes what when: bars per core, coloured along the network; transfers of DRAM below."""
    schedule, machine = scheduler.schedule(plan), scheduler.machine
    energy = energy_of(schedule, machine, len(scheduler.workload.operators))
    timeline = Measures(schedule, machine, scheduler.workload, energy).timeline()
    names = [instance.name for instance in machine.accelerator.cores]
    data = []
    drams = enumerate(machine.resource_names[machine.dram_resource :], machine.dram_resource)
    for resource, name in [*enumerate(names), *drams]:
        bars = merged_bars(timeline, resource, computes=resource < len(names))
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": [name] * len(bars),
                "base": [start for start, *_ in bars],
                "x": [end - start for start, end, _ in bars],
                "text": [timeline.operators[operator] for *_, operator in bars],
                "textposition": "none",
                "marker": {"color": [_colour(operator / len(timeline.operators)) for *_, operator in bars]},
                "hovertemplate": "%{text}<br>%{base:.4g} ms, %{x:.3g} ms long<extra></extra>",
                "showlegend": False,
            }
        )
    return figure(
        data,
        barmode="overlay",
        bargap=0.25,
        xaxis=axis("time, ms"),
        yaxis={"autorange": "reversed", "automargin": True},
    )


def _colour(share: float) -> str:
    """The colour at a share of the way through the network, 0 to 1."""
    place = min(max(share, 0.0), 1.0) * (len(COLOURS) - 1)
    first = min(int(place), len(COLOURS) - 2)
    mixed = (round(a + (place - first) * (b - a)) for a, b in zip(COLOURS[first], COLOURS[first + 1], strict=True))
    return f"rgb({','.join(map(str, mixed))})"


def merged_bars(timeline: Timeline, resource: int, computes: bool) -> list[tuple[float, float, int]]:
    """(start, end, operator) on a resource in milliseconds, neighbours of one operator merged."""
    mine = np.flatnonzero((timeline.resource == resource) & ((timeline.kind == COMPUTE) | (not computes)))
    mine = mine[np.argsort(timeline.start[mine], kind="stable")]
    gap = GAP * float(timeline.end.max(initial=0))
    found: list[tuple[int, int, int]] = []
    columns = (timeline.start, timeline.end, timeline.operator)
    for start, end, operator in zip(*(column[mine].tolist() for column in columns), strict=True):
        if found and found[-1][2] == operator and start - found[-1][1] <= gap:
            found[-1] = found[-1][0], max(end, found[-1][1]), operator
        else:
            found.append((start, end, operator))
    scale = 1e3 / timeline.ticks_per_second
    return [(start * scale, end * scale, operator) for start, end, operator in found]


def _placements(scheduler: Scheduler, found: Allocation) -> str:
    group = {name: str(i) for i, fused in enumerate(found.found.plan.groups, 1) for name in fused.operators}
    rows = []
    for operator in scheduler.workload.operators:
        placement = found.found.plan.placements[operator.op.name]
        rows.append(
            (operator.op.name, operator.op.kind, ", ".join(placement.cores), split_text(placement.split),
             group.get(operator.op.name, ""))
        )  # fmt: skip
    return table(("operator", "kind", "cores", "split", "group"), rows, names=5)
