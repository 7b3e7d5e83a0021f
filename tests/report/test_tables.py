"""CSV of operators, and the summary in a terminal."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

from monet.report.operator_csv import csv_text, write_csv
from monet.report.quantities import nbytes, percent, quantity, seconds, step_name
from monet.report.table import bar
from monet.report.terminal import render
from tests.report.small import infeasible, small


def shown(renderable: object, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_csv_is_written_as_it_is(tmp_path: Path) -> None:
    write_csv(small(), str(tmp_path / "operators.csv"))
    assert (tmp_path / "operators.csv").read_text() == csv_text(small())


@pytest.mark.parametrize("width", [80, 140])
def test_summary_says_what_matters(width: int) -> None:
    text = shown(render(small()), width)
    for words in ("Latency", "lower", "Phases", "useful compute", "Energy by level", "bound by", "Slowest of 63"):
        assert words in text
    assert max(map(len, text.splitlines())) <= width


def test_summary_of_an_infeasible_result_is_its_reason() -> None:
    assert "8 bytes short" in " ".join(shown(render(infeasible()), 100).split())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (seconds(0.0), "0 s"), (seconds(1.234e-8), "12.34 ns"), (seconds(999.96), "1 ks"), (nbytes(12), "12 B"),
        (nbytes(0.5), "0 B"), (nbytes(46_758_048), "46.76 MB"), (quantity(3.2e-16, "J"), "0.32 fJ"),
        (percent(0.0423), "4.2 %"), (percent(0.734), "73 %"), (quantity(-1500, "J"), "-1.5 kJ"),
    ],
)  # fmt: skip
def test_quantities(text: str, wanted: str) -> None:
    assert text == wanted


def test_bars_fill_their_width() -> None:
    assert bar(0.0, 4) == "    "
    assert bar(1.0, 4) == "████"
    assert bar(0.5625, 2) == "█▏"
    assert all(len(bar(share / 100, 7)) == 7 for share in range(101))


def test_a_result_of_some_phases_says_which() -> None:
    whole = small()
    forward = {"forward": whole.phases["forward"]}
    assert step_name(whole) == "one training step"
    assert step_name(dataclasses.replace(whole, phases=forward)) == "forward of one training step"
    assert (
        step_name(dataclasses.replace(whole, phases={**forward, "loss": whole.phases["loss"]}))
        == "forward and loss of one training step"
    )
    assert step_name(dataclasses.replace(whole, mode="inference", phases=forward)) == "one inference step"
