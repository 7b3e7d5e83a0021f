"""The study of WHAM's claims, on a template narrowed to a few designs and small models."""

from __future__ import annotations

from pathlib import Path

import pytest

from monet.frontends.zoo import is_zoo
from monet.search.mining import templates
from monet.studies import wham, wham_pipelines
from monet.studies.study import STUDIES, Options
from tests.search.mining.stages.test_mine_stages import GPT
from tests.search.mining.test_mine import RANGES


def test_its_workloads_are_in_the_zoo() -> None:
    names = [*wham.MODELS, *(model for model, _ in wham_pipelines.PIPELINES)]
    assert len(names) == 11
    assert all(map(is_zoo, names))


def test_effort_decides_how_much_is_run() -> None:
    assert [wham.level_of(effort) for effort in (1, 5, 6, 8, 9, 10)] == [0, 0, 1, 1, 2, 2]


def test_every_claim_has_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = templates.load_template("edge").with_ranges(RANGES | {"columns": [16], "dram_gbps": [6.4]})
    for module in (wham, wham_pipelines):
        monkeypatch.setattr(module, "load_template", lambda name: narrow)
    monkeypatch.setattr(wham, "MODELS", ("mlp-robot", "mlp-cartpole"))
    monkeypatch.setattr(wham, "OTHERS_BY_LEVEL", (4, 4, 4))
    monkeypatch.setattr(wham_pipelines, "PIPELINES", ((GPT, 2),))
    monkeypatch.setattr(wham_pipelines, "SYSTEM", "edge-ethernet")
    found = wham.run(Options(effort=1, store=str(tmp_path)))
    claims = {each["claim"]: each for each in found.values["findings"]}
    assert len(claims) == 6
    assert all(each["ours"] and each["published"] for each in claims.values())
    assert set(found.values["designs"]) == {"mlp-robot", "mlp-cartpole"}
    assert "wham" in STUDIES
    gains = claims["throughput over a TPU-like design"]["values"]["gain"]
    assert all(gain >= 1 - 1e-9 for gain in gains.values())
    assert not claims["search effort against a Spotlight-like search"]["holds"]
    unlike = claims["a design for each stage against one for all"]["values"]["gain"]
    assert all(gain >= 1 for gain in unlike.values())
    assert [panel.title for panel in found.panels][:3] == ["Findings", "Search", "Throughput"]
