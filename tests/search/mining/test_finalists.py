"""Finalists: searched fusion is never slower than the default plan, and is shown beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from monet.report.mining import finalists_table, summary
from monet.search.fusion import search
from monet.search.mining.finalists import Finalist, finalists_of, searched
from monet.search.mining.mine import Problem, mine
from monet.search.mining.templates import Limits, load_template

RANGES = {"core_count": [1], "rows": [4], "columns": [8], "lanes": [4, 8], "sram_kib": [32], "dram_gbps": [6.4]}


@pytest.mark.slow
def test_searched_is_never_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "COSTED", 20_000)
    monkeypatch.setattr(search, "IMPROVED", 20_000)
    template = load_template("edge").with_ranges(RANGES)
    workload = template.workload({"model": "resnet:blocks=1,width=8,stem=cifar,classes=10", "image": 8, "batch": 2})
    problem = Problem(template, {"model": workload}, Limits(10.0, 1.0))
    found = mine(problem, str(tmp_path / "a.sqlite"), evaluations=2, front=False)
    assert finalists_of(found, str(tmp_path / "a.sqlite"), 0) == []
    assert found.best is not None
    again = searched(found.space.text, found.best.values)
    last = Finalist(found.best, again, found.cost(found.best), found.cost(again))
    assert last.gain >= 0
    assert again.metrics["model.latency_s"] <= found.best.metrics["model.latency_s"]
    values = summary(found, last=[last])["finalists"][0]
    assert values["workloads"]["model"]["searched_latency_s"] == again.metrics["model.latency_s"]
    table = finalists_table(found, [last, last])
    assert len(table.rows) == 2
