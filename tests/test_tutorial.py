"""The tutorial runs from top to bottom and leaves its report behind."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.py"


def test_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(TUTORIAL))
    assert names["result"].feasible
    assert (tmp_path / "tutorial.html").stat().st_size > 100_000
    assert "sample/s" in capsys.readouterr().out
    assert "<table" in names["result"]._repr_html_()
