"""Published figures of distributed training: memory and collectives within tolerance, runs as they are asked for."""

from __future__ import annotations

import pytest

from monet.validation import Rule, Verdict, check
from monet.validation import distributed as published
from monet.validation import distributed_runs as runs_published


def test_activation_memory_of_megatron_is_within_two_per_cent() -> None:
    rows = [check(figure) for figure in published.figures() if figure.name.startswith("activations")]
    assert len(rows) == 20
    assert all(row.verdict is Verdict.OK for row in rows), [(row.figure.name, row.error) for row in rows]
    assert all(row.figure.tolerance == 0.02 for row in rows)


def test_collectives_are_as_measured() -> None:
    rows = [check(figure) for figure in published.figures() if figure.name.startswith("all-reduce")]
    errors = [abs(row.error or 0.0) for row in rows]
    assert len(rows) == 9
    assert sum(errors) / len(errors) < 0.1
    assert all(row.verdict is Verdict.OK for row in rows)


def test_every_run_is_a_legal_plan_on_one_system_file() -> None:
    runs = [*runs_published.RUNS, *published._weak_scaling(), *published._multi_node(), *published._one_node()]
    assert len(runs) > 35
    for run in runs:
        request = published.request_of(run)
        plan = request.parallel_plan()
        assert request.system == published.SYSTEM
        assert plan.micro_batches(run.batch) >= 1
        assert run.network.layers % plan.chunks == 0
    steps = [figure for figure in published.figures() if figure.name.startswith("step of")]
    assert all(figure.rule is Rule.BESIDE for figure in steps)


@pytest.mark.slow
def test_two_node_tensor_groups_are_not_worse_than_one_node_ones() -> None:
    """Hierarchical collectives: the mean error of rows whose tensor group spans two nodes, against the others'."""
    errors: dict[bool, list[float]] = {True: [], False: []}
    for run in published._multi_node():
        if run.network is runs_published.B3_6:
            seconds = published.request_of(run).distribute().latency_s
            errors[run.tensor > 8].append(abs(seconds / run.measured_s - 1))
    wide, near = (sum(errors[key]) / len(errors[key]) for key in (True, False))
    assert wide <= near + 0.05
