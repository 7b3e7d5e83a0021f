from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from monet.report.html.explore import front_figure, lines_figure, panels, write_exploration
from monet.search.hardware.analysis import choices, importance, objectives_of, overlap, reasons, scopes
from monet.search.hardware.exploration import pareto
from monet.search.hardware.objectives import parse_objective
from monet.search.hardware.record import Record
from monet.search.hardware.space import Space
from tests.search.evaluators import metrics
from tests.search.spaces import grid

MODES = {"inference": "inference", "training": "training"}


def records(space: Space) -> list[Record]:
    return [Record(point, "ok", "", metrics(point), 0.0, 1, "test") for point in space.points()]


def test_importance_on_a_whole_grid_is_the_sobol_index() -> None:
    space = grid(6, 9)
    every = records(space)
    found = importance(space, every, parse_objective("training.latency", MODES))
    table = np.log(np.array([one.metrics["training.latency_s"] for one in every]).reshape(6, 9))
    rows, columns = np.array([one.values["a"] for one in every]).reshape(6, 9), table
    assert (rows[:, 0] == np.arange(1, 7)).all()
    total_a = columns.var(axis=0).mean() / columns.var()
    total_b = columns.var(axis=1).mean() / columns.var()
    assert [one.total for one in found] == pytest.approx([total_a, total_b])
    # ω² corrects the plain share downwards, a little where every level has many points
    plain = columns.mean(axis=1).var() / columns.var()
    assert 0.9 * plain < found[0].main < plain
    for one, axis, levels in ((found[0], 1, 6), (found[1], 0, 9)):  # (SSb − dfb · MSw) / (SSt + MSw)
        whole, between = columns.var() * 54, columns.mean(axis=axis).var() * 54
        within = (whole - between) / (54 - levels)
        assert one.main == pytest.approx(max(0.0, (between - (levels - 1) * within) / (whole + within)))


def test_importance_of_what_does_not_matter_is_nothing() -> None:
    space = grid(8, 8)
    generator = np.random.default_rng(0)
    made = []
    for point in space.points():
        noise = math.exp(generator.normal(0, 0.1) + point["a"])
        made.append(Record(point, "ok", "", {"area_mm2": noise}))
    a, b = importance(space, made[::2] + made[1::4], parse_objective("area", MODES))
    assert a.main > 0.95
    assert b.main < 0.05
    assert a.total is None


def test_overlap_and_choices_compare_what_is_best_for_each() -> None:
    space = grid(5, 5)
    every = []
    for one in records(space):
        changed = dict(one.metrics)
        changed["training.latency_s"] = 1.0 + (one.values["b"] - 5) ** 2  # training wants what inference does not
        every.append(Record(one.values, "ok", "", changed))
    assert scopes(space) == ["inference", "training"]
    first, second = (pareto(space, every, objectives_of(space, name)) for name in ("inference", "training"))
    both = {space.key(one.values) for one in first} & {space.key(one.values) for one in second}
    found = overlap(space, every, "inference", "training")
    assert (found.first_size, found.second_size, found.common) == (len(first), len(second), len(both))
    assert found.share == len(both) / len({space.key(one.values) for one in (*first, *second)})
    assert 0.0 < found.share < 1.0
    assert 0.0 < found.hypervolume_ratio < 1.0
    latency = next(one for one in choices(space, every, ["latency"]) if one.used_for == "training")
    assert latency.best.values["b"] == 5
    assert latency.penalty == pytest.approx(17.0)  # b = 1 is best for inference: 1 + 16 against 1


def test_reasons_are_counted_by_kind() -> None:
    bad = [Record({"a": 9, "b": number}, "infeasible", f"constraint: x <= 1 (x is {number})") for number in (1, 2)]
    assert reasons(bad) == [("infeasible: constraint: x <= 1", 2)]


def test_the_page_shows_every_design_and_links_to_run_reports(tmp_path: Path) -> None:
    space = grid(4, 4)
    every = records(space)
    goals = objectives_of(space, "training")
    best = pareto(space, every, goals)
    links = {space.key(best[0].values): {"training": "designs/training-01.html"}}
    drawn = front_figure(space, every, "training", links)
    cloud, theirs, own = drawn["data"]
    assert len(cloud["x"]) == 16
    assert own["x"] == [one.metrics["training.latency_s"] * 1e3 for one in best]
    assert own["customdata"][0] == "designs/training-01.html"
    assert "a = " in own["text"][0]
    assert "run report" in own["text"][0]
    assert len(theirs["x"]) == len(pareto(space, every, objectives_of(space, "inference")))
    lines = lines_figure(space, every, goals)["data"][0]["dimensions"]
    assert [one["label"] for one in lines] == [
        "a", "b", "training latency, ms", "training energy, mJ", "on the front",
    ]  # fmt: skip
    assert sum(lines[-1]["values"]) == len(best)
    write_exploration(tmp_path / "page.html", space, every, goals, links)
    page = (tmp_path / "page.html").read_text()
    assert "What is lost by choosing for the other" in page
    start = page.index('id="plots">') + len('id="plots">')
    assert len(json.loads(page[start : page.index("</script>", start)].replace("\\u003c", "<"))) == 4


def test_the_page_shows_the_front_of_the_declared_objectives() -> None:
    space = grid(4, 4)
    every = records(space)
    declared = tuple(parse_objective(text, MODES) for text in ("training.latency", "inference.energy", "area"))
    first, table, *_ = panels(space, every, declared, {})
    assert first.figure is not None
    front = pareto(space, every, declared)
    assert first.figure["data"][1]["x"] == [record.metrics["training.latency_s"] * 1e3 for record in front]
    assert first.figure["data"][1]["y"] == [record.metrics["inference.energy_j"] * 1e3 for record in front]
    assert first.figure["data"][1]["name"] == "front of training.latency, inference.energy, area"
    assert table.body.count("<tr>") == 1 + len(front)
    assert panels(space, every, objectives_of(space, "training"), {})[0].title == "Front for inference"
    assert panels(space, every, declared[2:], {})[0].title == "Designs on the declared front"
