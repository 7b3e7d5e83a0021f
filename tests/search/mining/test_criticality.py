"""WHAM's model: criticality, list schedules on so many cores, and CP-SAT's proof of how good they are."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest

from monet.search.mining.criticality import Tasks, best_listed, criticality, list_schedule, tasks_on
from monet.search.mining.exact_counts import exact_numbers, exact_schedule
from monet.search.mining.mine import analysed
from monet.search.mining.templates import load_template

PLENTY = 10**6


def random_tasks(seed: int, count: int = 14) -> Tasks:
    chosen = random.Random(seed)
    before = tuple(
        tuple(sorted(chosen.sample(range(number), min(number, chosen.choice((0, 1, 1, 2)))))) for number in range(count)
    )
    ticks = np.array([chosen.randint(1, 40) for _ in range(count)], np.int64)
    kinds = np.array([chosen.randint(0, 1) for _ in range(count)], np.int64)
    return Tasks(tuple(map(str, range(count))), ticks, kinds, before, 2)


def check(tasks: Tasks, counts: tuple[int, ...], start: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """Nothing starts before what it waits for is done, and no more run at once than there are cores."""
    end = start + tasks.ticks
    for number, earlier in enumerate(tasks.before):
        assert all(end[one] <= start[number] for one in earlier)
    for kind, cores in enumerate(counts):
        mine = np.flatnonzero(tasks.kind == kind)
        for moment in start[mine]:
            assert ((start[mine] <= moment) & (moment < end[mine])).sum() <= cores


@pytest.mark.parametrize("seed", range(8))
def test_list_schedules_against_the_proof(seed: int) -> None:
    tasks = random_tasks(seed)
    found, after = criticality(tasks), tasks.after()
    assert (found.mobility >= 0).all()
    assert (found.mobility == 0).any()
    assert list_schedule(tasks, (PLENTY, PLENTY), found, after).makespan == found.length
    serial = int(tasks.ticks.sum())
    for counts in ((1, 1), (1, 2), (2, 2)):
        listed = best_listed(tasks, counts, found, after)
        check(tasks, counts, listed.start)
        exact = exact_schedule(tasks, counts, effort=0.5)
        assert exact is not None
        assert found.length <= exact.bound <= exact.makespan
        assert exact.bound <= listed.makespan <= serial


def test_what_is_most_critical_goes_first_and_waiting_weighs_as_much_as_it_is() -> None:
    """On one core: a task lets two others go, of which the second has ten ticks behind it and none to lose. The first
    may move by 10 of 16 ticks, so that its 15 ticks of waiting count 6/16."""
    tasks = Tasks(tuple("abcd"), np.array([1, 5, 5, 10]), np.zeros(4, np.int64), ((), (0,), (0,), (2,)), 1)
    found = criticality(tasks)
    assert (found.asap.tolist(), found.alap.tolist(), found.length) == ([0, 1, 1, 6], [0, 11, 1, 6], 16)
    listed = list_schedule(tasks, (1,), found, tasks.after())
    assert (listed.start.tolist(), listed.makespan) == ([0, 16, 1, 6], 21)
    assert listed.waited.tolist() == [15 * 6 / 16]


def test_within_three_percent_of_the_proof_on_training_steps() -> None:
    template = load_template("wham")
    space = template.space({"model": template.workload({"model": "mlp-robot"})})
    point = {"tensor_cores": 1, "vector_cores": 1, "lanes": 16, "buffer_mib": 2}
    distances = []
    for model, size in (("mlp-robot", {}), ("bert:layers=1,hidden=64,heads=2", {"sequence": 16})):
        workload = analysed({"model": template.workload({"model": model, "batch": 4, **size})})["model"]
        for side in (16, 64):
            tasks, _, _ = tasks_on(workload, space.hardware(point | {"rows": side, "columns": side}))
            found, after = criticality(tasks), tasks.after()
            for counts in ((1, 1), (2, 1), (1, 2), (2, 2)):
                listed = best_listed(tasks, counts, found, after)
                exact = exact_schedule(tasks, counts, listed.start.tolist(), 0.5)
                if exact is not None and exact.proved:
                    assert listed.makespan >= exact.makespan
                    distances.append(listed.makespan / exact.makespan - 1)
            assert best_listed(tasks, (PLENTY, PLENTY), found, after).makespan == found.length
    assert len(distances) >= 12
    assert statistics.mean(distances) <= 0.03


def test_numbers_of_cores_within_a_room() -> None:
    tasks = random_tasks(3)
    choices = ([1, 2, 4], [1, 2, 4])
    exact = exact_numbers(tasks, choices, (3, 1), 8, 0.5)
    assert exact is not None
    assert 3 * exact.counts[0] + exact.counts[1] <= 8
    possible = [(a, b) for a in (1, 2, 4) for b in (1, 2, 4) if 3 * a + b <= 8]
    best = min(found.makespan for counts in possible if (found := exact_schedule(tasks, counts, effort=0.5)))
    assert exact.makespan == best


def test_of_equal_schedules_the_smaller_numbers_are_taken() -> None:
    tasks = Tasks(("a",), np.array([10], np.int64), np.array([0], np.int64), ((),), 2)
    exact = exact_numbers(tasks, ([1, 2], [1, 5]), (3, 1), 8, 0.5)  # 2 and 1 cores take 7, 1 and 5 take 8
    assert exact is not None
    assert (exact.makespan, exact.counts) == (10, (2, 1))


def test_waiting_is_counted_where_cores_are_few() -> None:
    ticks = np.array([10, 10, 10, 5], np.int64)
    tasks = Tasks(("a", "b", "c", "d"), ticks, np.array([0, 0, 0, 1], np.int64), ((), (), (), (0, 1, 2)), 2)
    found, after = criticality(tasks), tasks.after()
    few = list_schedule(tasks, (1, 1), found, after)
    assert few.makespan == 35
    assert few.waited.tolist() == [30.0, 0.0]
    assert list_schedule(tasks, (3, 1), found, after).waited.tolist() == [0.0, 0.0]
