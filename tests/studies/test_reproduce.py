"""``monet reproduce``: the list of studies, and how one is run."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner

from monet.cli import app
from monet.errors import MonetError
from monet.report.html.study import Panel
from monet.studies import study
from monet.studies.study import Options, Outcome


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    made = types.ModuleType("monet.studies.small")

    def run(options: Options) -> Outcome:
        options.say("half way")
        return Outcome("Small", {"answer": options.seed}, (Text("a table"),), ("fact",), (Panel("Rows", body="x"),))

    made.run = run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "monet.studies.small", made)
    monkeypatch.setitem(study.STUDIES, "small", ("small", "a small study"))


@pytest.mark.usefixtures("known")
def test_a_study_prints_writes_and_lists(tmp_path: Path) -> None:
    arguments = ["reproduce", "small", "--seed", "7", "--json", f"{tmp_path}/a.json", "--report", f"{tmp_path}/a.html"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "a table" in result.stdout
    assert json.loads((tmp_path / "a.json").read_text())["answer"] == 7
    assert "Rows" in (tmp_path / "a.html").read_text()
    assert "a small study" in CliRunner().invoke(app, ["reproduce"]).stdout


@pytest.mark.usefixtures("known")
def test_an_unknown_study_names_the_nearest() -> None:
    with pytest.raises(MonetError, match="did you mean 'small'"):
        study.study_named("smal")


def test_every_study_that_is_listed_exists() -> None:
    for name in study.STUDIES:
        assert callable(study.study_named(name))
