"""From a request to its graph."""

from __future__ import annotations

from pathlib import Path

from monet.options import options_of
from monet.request import Request
from monet.request.graphs import AFTERWARDS, GRAPHS, graph_of


def test_the_graph_of_a_zoo_model_is_made_once() -> None:
    graph = Request("mlp", batch=3).graph()
    assert Request("mlp", "edge-tpu", batch=3, fusion="none").graph() is graph
    assert Request("mlp", batch=4).graph() is not graph
    assert Request("mlp", batch=3, mode="inference").graph() != graph


def test_a_file_is_read_again(tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("recompute: []\n")
    asked = Request("mlp", batch=3, checkpoint=str(plan))
    assert graph_of(asked) is not graph_of(asked)


def test_only_options_of_hardware_and_schedule_are_left_out() -> None:
    """An option that changes a graph is a part of its key."""
    groups = {name: option.group for name, option in options_of(Request).items()}
    assert {groups[name] for name in AFTERWARDS} == {"hardware", "schedule"}
    assert {name for name, group in groups.items() if group in ("hardware", "schedule")} - AFTERWARDS == {"phases"}


def test_few_graphs_are_kept() -> None:
    assert GRAPHS.weight is not None
    assert GRAPHS.most < 100_000
