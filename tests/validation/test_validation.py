"""The registry of published figures and the command that prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from monet import validation
from monet.commands.validate import allowed, number, validate
from monet.errors import MonetError
from monet.validation import Figure, NotComputable, Rule, Verdict, check, select

app = typer.Typer()
app.command("validate")(validate)
app.callback()(lambda: None)
runner = CliRunner()


def figure(ours: float, tolerance: float = 0.05, rule: Rule = Rule.WITHIN, published: float = 100.0) -> Figure:
    return Figure("topic", "name", "pJ", published, tolerance, "source", lambda: ours, rule)


@pytest.mark.parametrize(
    ("one", "verdict"),
    [
        (figure(104), Verdict.OK),
        (figure(105), Verdict.OK),
        (figure(94), Verdict.EXCEEDED),
        (figure(100.001, 0.0), Verdict.EXCEEDED),
        (figure(50, rule=Rule.AT_MOST), Verdict.OK),
        (figure(106, rule=Rule.AT_MOST), Verdict.EXCEEDED),
        (figure(0, 0.0, published=0), Verdict.OK),
        (figure(1, 0.0, published=0), Verdict.EXCEEDED),
    ],
)
def test_verdicts(one: Figure, verdict: Verdict) -> None:
    assert check(one).verdict is verdict


def test_a_missing_part_is_a_row_that_says_so() -> None:
    def missing() -> float:
        raise NotComputable("waits for something\nmore")

    row = check(Figure("topic", "name", "", 1.0, 0.0, "source", missing))
    assert (row.verdict, row.ours, row.error, row.reason) == (Verdict.NOT_RUN, None, None, "waits for something")


def test_every_figure_is_named_once_and_has_a_source() -> None:
    everything = select()
    assert len({(one.topic, one.name) for one in everything}) == len(everything) > 100
    assert all(one.source and one.tolerance >= 0 for one in everything)


@pytest.mark.parametrize("topic", ["training graph", "training memory", "technology", "mapping"])
def test_no_stated_tolerance_is_exceeded(topic: str) -> None:
    rows = [check(one) for one in select(topic)]
    assert rows
    assert [(row.figure.name, row.ours) for row in rows if row.verdict is not Verdict.OK] == []


def test_selection_is_by_topic_name_or_source() -> None:
    assert {one.topic for one in select("SILICON")} == {"silicon"}
    assert all("gpt2-small" in one.name for one in select("gpt2-small"))
    assert {one.topic for one in select("zigzag-dse")} == {"mapping"}
    with pytest.raises(MonetError, match="topics: training graph"):
        select("nothing like this")


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    shown = runner.invoke(app, ["validate", "--only", "technology", "--json", str(tmp_path / "rows.json")])
    assert shown.exit_code == 0, shown.output
    assert "Horowitz, ISSCC 2014" in shown.output
    values = json.loads((tmp_path / "rows.json").read_text())
    assert values["totals"]["EXCEEDED"] == 0
    assert {"published", "ours", "error", "tolerance", "source", "verdict"} <= set(values["figures"][0])
    alone = json.loads(runner.invoke(app, ["validate", "--only", "int8 MAC", "--json", "-"]).stdout)
    assert len(alone["figures"]) == 1


def test_an_exceeded_tolerance_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "figures", lambda: iter([figure(50), figure(100)]))
    shown = runner.invoke(app, ["validate"])
    assert shown.exit_code == 1
    assert "1 EXCEEDED" in shown.output


def test_numbers_read_well() -> None:
    assert [number(value) for value in (11_689_512, 0.0672, 1_853_595_102.373, 3.628)] == [
        "11,689,512", "0.0672", "1,853,595,102", "3.628",
    ]  # fmt: skip
    assert [allowed("within", 0.0), allowed("within", 0.05), allowed("at most", 0.0), allowed("at most", 0.05)] == [
        "equal", "±5 %", "≤", "≤ +5 %",
    ]  # fmt: skip
