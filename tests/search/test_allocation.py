"""Allocation search: legal choices only, against exhaustive enumeration, and the bars on Stream's quad-core."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from monet import load_hardware
from monet.errors import MonetError
from monet.frontends import load_model
from monet.graph import Graph, GraphBuilder
from monet.schedule.engine import NoSchedule, Scheduler
from monet.schedule.measurement.figures import Figures, figures_of
from monet.schedule.plan import Group, Placement, Plan, PlanError
from monet.schedule.planning.placement import check_placement
from monet.search.allocation import allocate, bases
from monet.search.allocation.bases import allocate_fused
from monet.search.allocation.choices import space_of
from monet.search.allocation.comparison import comparison
from monet.search.allocation.constructive import starting_points
from monet.search.allocation.evaluator import plan_figures
from monet.search.allocation.search import Allocation, budget_of
from monet.search.allocation.stacks import stack_plans
from monet.search.progress import SearchProgress
from tests.schedule.cases import accelerator, random_graph


def chain(layers: int, channels: int = 8, size: int = 6) -> Graph:
    builder = GraphBuilder("chain")
    x = builder.input("image", (1, channels, size, size), "int8")
    for number in range(layers):
        weight = builder.parameter(f"weight{number}", (channels, channels, 3, 3), "int8")
        x = builder.emit(
            "conv", x, weight, name=f"conv{number}", stride=(1, 1), padding=((1, 1),) * 2, dilation=(1, 1), groups=1
        )
    return builder.build([x])


@pytest.mark.parametrize("number", range(6))
def test_every_choice_is_legal_and_distinct(number: int) -> None:
    seed = random.Random(number)
    scheduler = Scheduler(random_graph(seed), accelerator(seed.choice(("bus", "mesh", "shared"))))
    space = space_of(scheduler, shared=False)
    for members, forms in zip(space.classes, space.forms, strict=True):
        operator = scheduler.workload.operators[members[0]]
        options = [placement for form in forms for placement in form]
        assert len(options) == len(set(options))
        for placement in options:
            check_placement(operator, placement, scheduler.machine)
            assert len(set(placement.cores)) == len(placement.cores)
            plan_figures(scheduler, Plan(placements={operator.op.name: placement}))  # raises nothing


def test_genomes_and_placements_are_the_same_thing() -> None:
    scheduler = Scheduler(chain(3), accelerator("bus"))
    space = space_of(scheduler, shared=False)
    draw = random.Random(1)
    for _ in range(50):
        genome = space.repair(tuple(draw.randrange(count) for count in space.counts))
        assert space.genome(space.placements(genome)) == genome
    alike = space_of(scheduler, shared=True)
    assert len(alike.classes) == 1
    assert len(set(alike.placements((1, 0)).values())) == 1


def test_given_placements_outside_of_the_space_are_kept() -> None:
    scheduler = Scheduler(chain(2), accelerator("bus"))
    odd = Placement(("pe[2]", "pe[0]"), "K")  # not neighbours in order
    given = scheduler.complete(Plan(placements={"conv1": Placement(("pe[1]", "pe[0]"), "OY"), "conv0": odd})).placements
    space = space_of(scheduler, shared=False, given=[given])
    assert space.placements(space.genome(given)) == dict(given)


@pytest.mark.parametrize("objective", ["latency", "energy", "edp"])
def test_small_spaces_against_exhaustive_search(objective: str) -> None:
    scheduler = Scheduler(chain(2), accelerator("bus", sram=3072, dram=32))
    space = space_of(scheduler, shared=False)
    options = [[placement for form in forms for placement in form] for forms in space.forms]
    every = [
        plan_figures(scheduler, Plan(placements=dict(zip(space.names, some, strict=True))))
        for some in product(*options)
    ]
    best = min(one.objective(objective) for one in every if isinstance(one, Figures))
    found = allocate(scheduler, Plan(), objective=objective, effort=1, seed=0)
    assert len(found.points) + found.infeasible < len(every) == space.size
    assert found.found.figures.objective(objective) <= best * 1.001  # plans closer than this count as equal
    assert found.front
    assert min(one.figures.objective(objective) for one in found.front) == pytest.approx(best, rel=1e-12)


def test_same_seed_same_plan() -> None:
    graph, hardware = chain(3), accelerator("mesh")
    first, again, other = (
        allocate(Scheduler(graph, hardware), Plan(), effort=1, seed=seed, objective="edp") for seed in (3, 3, 4)
    )
    assert first.found.plan == again.found.plan
    assert first.points == again.points
    assert first.points != other.points


def test_found_costs_what_its_plan_costs_and_never_more_than_rules() -> None:
    scheduler = Scheduler(chain(3), accelerator("mesh"))
    given = Plan(placements={"conv0": Placement(("pe[1,1]",))})
    found = allocate(scheduler, given, effort=1)
    assert figures_of(scheduler, scheduler.schedule(found.found.plan)) == found.found.figures
    assert {one.name for one in found.constructive} >= {"default", "one core per layer", "given"}
    assert all(one.figures.latency_s >= found.found.figures.latency_s for one in found.constructive)
    latency, energy = found.bound
    assert latency <= found.found.figures.latency_s
    assert energy <= min(joules for _, joules in found.points)
    assert len(found.points) + found.infeasible <= budget_of(1) + len(found.constructive)


def test_groups_stay_as_given() -> None:
    scheduler = Scheduler(chain(3), accelerator("mesh"))
    base = Plan((Group(("conv0", "conv1", "conv2"), (("OY", 2),)),))
    found = allocate(scheduler, base, effort=1)
    assert found.found.plan.groups == base.groups
    assert all(one.plan.groups == base.groups for one in found.front)


def test_an_interrupt_of_the_first_stacks_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the other stacks nor the full search begin."""
    scheduler, calls = Scheduler(chain(3), accelerator("bus")), list[Plan]()
    some = allocate(scheduler, Plan(), effort=1)

    def interrupted(_: Scheduler, plan: Plan, **__: object) -> Allocation:
        calls.append(plan)
        return replace(some, interrupted=True)

    monkeypatch.setattr(bases, "fused_plans", lambda *_: [Plan(), Plan(boundary="dram")])
    monkeypatch.setattr(bases, "allocate", interrupted)
    assert allocate_fused(scheduler, "auto", effort=5).interrupted
    assert calls == [Plan()]


def test_interrupt_keeps_the_best_so_far() -> None:
    scheduler, seen = Scheduler(chain(3), accelerator("mesh")), []

    def watch(now: SearchProgress) -> None:
        seen.append(now)
        if len(seen) == 60:
            raise KeyboardInterrupt

    found = allocate(scheduler, Plan(), effort=1, watch=watch)
    assert found.interrupted
    assert len(found.points) + found.infeasible == 60
    assert found.found.figures.latency_s <= min(latency for latency, _ in found.points) * 1.001
    assert [now.tried for now in seen] == list(range(1, 61))
    assert [now.share for now in seen] == [tried / budget_of(1) for tried in range(1, 61)]
    bests = [now.best.latency_s for now in seen if now.best]
    assert bests == sorted(bests, reverse=True)
    assert bests[-1] == min(latency for latency, _ in found.points)


def test_what_cannot_run_anywhere_says_why() -> None:
    scheduler = Scheduler(chain(2), accelerator("bus"))
    base = Plan((Group(("conv0", "conv1"), (("OY", 6),)),))  # one tile: all of it on chip at once
    small = Scheduler(chain(2, channels=64), accelerator("bus", sram=16, local=16))
    assert allocate(scheduler, base, effort=1).found.figures.latency_s > 0
    with pytest.raises(NoSchedule, match="fit"):
        allocate(small, base, effort=1)


@pytest.mark.parametrize(("objective", "effort", "words"), [("latncy", 1, "latency"), ("edp", 0, "1 to 10")])
def test_bad_options(objective: str, effort: int, words: str) -> None:
    with pytest.raises(MonetError, match=words):
        allocate(Scheduler(chain(1), accelerator("bus")), Plan(), objective=objective, effort=effort)
    with pytest.raises(PlanError, match="stacks"):
        allocate_fused(Scheduler(chain(1), accelerator("bus")), "stack")


def test_stacks_end_after_residual_blocks() -> None:
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad"))
    plans = list(stack_plans(scheduler, Plan()))
    assert plans
    for plan in plans:
        assert all(len(group.operators) > 1 for group in plan.groups)
        assert plan.groups[0].operators[0] == "conv1"
        assert all(group.operators[-1].endswith((".add", "maxpool")) for group in plan.groups)


@pytest.mark.slow
def test_bars_on_the_quad_core() -> None:
    """Better in latency and in energy-delay product than one core per layer, than the default and than any rule."""
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad"))
    found = allocate_fused(scheduler, "auto", effort=1)
    rows = {row.name: row for row in comparison(scheduler, found)}
    mine = rows["found"]
    for name in ("one core per layer", "default", "constructive"):
        assert mine.latency_s < rows[name].latency_s
        assert mine.edp < rows[name].edp
    assert mine.latency_s >= rows["bound"].latency_s
    assert mine.energy_j >= rows["bound"].energy_j
    published = rows["Stream, fused, genetic algorithm"]
    assert (published.latency_s, published.energy_j) == (4.768463e-3, 2.422e-3)


def test_unfused_on_the_quad_core() -> None:
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad"))
    found = allocate(scheduler, Plan(), effort=1, objective="edp")
    assert all(found.found.figures.edp < one.figures.edp for one in found.constructive)


def test_auto_is_no_worse_than_what_it_starts_from() -> None:
    scheduler = Scheduler(chain(3), accelerator("mesh"))
    found = allocate_fused(scheduler, "auto", effort=1)
    plain = allocate(scheduler, Plan(), effort=1)
    assert found.found.figures.latency_s <= plain.found.figures.latency_s


def test_starting_points_place_every_operator() -> None:
    scheduler = Scheduler(load_model("resnet18-stream"), load_hardware("tpu-like-quad"))
    names = {one.op.name for one in scheduler.workload.operators}
    for placements in starting_points(space_of(scheduler, shared=True), scheduler.complete(Plan())).values():
        assert set(placements) == names
        for operator in scheduler.workload.operators:
            check_placement(operator, placements[operator.op.name], scheduler.machine)
