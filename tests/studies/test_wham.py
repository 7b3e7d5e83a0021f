"""The study of WHAM's claims, on a template narrowed to a few designs and small models."""

from __future__ import annotations

from pathlib import Path

import pytest

from monet.search.mining import templates
from monet.studies import wham
from monet.studies.study import STUDIES, Options
from tests.search.mining.test_mine import RANGES


def test_every_claim_has_a_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = templates.load_template("edge").with_ranges(RANGES | {"columns": [16], "dram_gbps": [6.4]})
    monkeypatch.setattr(wham, "load_template", lambda name: narrow)
    monkeypatch.setattr(wham, "MODELS", ("mlp-robot", "mlp-cartpole"))
    found = wham.run(Options(effort=1, store=str(tmp_path)))
    claims = {each["claim"]: each for each in found.values["findings"]}
    assert len(claims) == 4
    assert all(each["ours"] and each["published"] for each in claims.values())
    assert set(found.values["designs"]) == {"mlp-robot", "mlp-cartpole"}
    assert "wham" in STUDIES
    gains = claims["throughput over a TPU-like design"]["values"]["gain"]
    assert all(gain >= 1 - 1e-9 for gain in gains.values())
