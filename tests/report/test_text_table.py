"""Tables at every width: figures are never cut, names are told apart, nothing is wider than the terminal."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from rich.console import Console, Group, RenderableType

from monet import load_model, training_step
from monet.commands.checkpoint import _by_flops
from monet.commands.explain import _busy_table, _effect_table, _path_table
from monet.commands.sensitivity import Change, Effect
from monet.report.checkpoint import render as render_checkpoint
from monet.report.graph_summary import render as render_graph
from monet.report.graph_summary import summarise
from monet.report.screen import LEAST_WIDTH, screen
from monet.report.table import Bar, Heading, TextTable, best_tail, shortened
from monet.report.terminal import render
from tests.report.small import small

# with its unit: bare digits are part of names, too
FIGURE = re.compile(r"[+−-]?\d[\d.,]*(?: (?:[fpnµmkMGTPE]?(?:s|J|B|W|FLOP|sample/s)|[kMGTPE]|%)(?!\w)|×)")


EFFECTS = [
    Effect(Change("cores.pe.memories.sram.size_bytes", 2**21, 2**22, "size"), 0.87654, 1.01234, 1.5),
    Effect(Change("dram.dram.bandwidth_bytes_per_s", 6.4e9, 12.8e9, "bandwidth"), 0.51234, 0.998, 1.0),
]


def shown(renderable: RenderableType, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), force_terminal=False, markup=False)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]


def figures(text: str) -> set[str]:
    """Every number with its unit, however lines break between words."""
    return set(FIGURE.findall(" ".join(re.sub(r"[█▉▊▋▌▍▎▏]", " ", text).split())))


WHOLE: dict[str, Callable[[], RenderableType]] = {
    "result": lambda: render(small()),
    "graph": lambda: render_graph(summarise(training_step(load_model("mlp-cartpole"), optimizer="adam"))),
    "checkpoint": lambda: render_checkpoint(
        _by_flops(training_step(load_model("mlp-pusher")), "", True, "auto", ("keep", "recompute"), 0, 5)
    ),
    "explain": lambda: Group(_path_table(small(), 8), _busy_table(small(), 8), _effect_table(EFFECTS, 8)),
}


@pytest.mark.parametrize("width", [80, 60, 40, LEAST_WIDTH])
@pytest.mark.parametrize("name", WHOLE)
def test_every_figure_of_a_wide_terminal_is_in_a_narrow_one(name: str, width: int) -> None:
    made = WHOLE[name]()
    narrow = shown(made, width)
    assert max(map(len, narrow.splitlines())) <= width
    wide = figures(shown(made, 400))
    assert len(wide) > 20
    assert not wide - figures(narrow)


cells = some.text("abc0123456789./-_ ", max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.tuples(cells, some.floats(0, 1e9), some.floats(0, 1), cells, cells), max_size=4),
    some.integers(LEAST_WIDTH, 90),
)
def test_any_table_keeps_its_figures(rows: list[tuple[str, float, float, str, str]], width: int) -> None:
    headings = ("name", "first figure", "share", Heading("words", "words"), Heading("", "bar"), Heading("all", "prose"))
    filled = [
        (name, f"{value:.4e} B", f"{share:.3%}", words, Bar(share), prose)
        for name, value, share, words, prose in rows
    ]  # fmt: skip
    text = shown(TextTable("some rows", headings, filled), width)
    assert max(map(len, text.splitlines())) <= width
    for row in filled:
        assert str(row[1]) in text
        assert str(row[2]) in text


def test_a_table_that_fits_is_one_table() -> None:
    rows = [("conv1", "1.5 ms", Bar(0.5)), ("conv2", "12 s", Bar(1))]
    made = TextTable("", ("name", "time", Heading("", "bar")), rows)
    assert [line.rstrip() for line in shown(made, 60).splitlines()] == [
        "name     time",
        "conv1  1.5 ms  ████████████",
        "conv2    12 s  ████████████████████████",
    ]
    assert shown(made, 32).splitlines()[1].rstrip() == "conv1  1.5 ms  ████"
    assert [line.rstrip() for line in shown(made, 16).splitlines()][1:] == ["conv1  1.5 ms", "conv2    12 s"]


def test_names_are_shortened_in_the_middle_and_told_apart() -> None:
    names = ["layer4.1.conv1.weight/sgd_update", "layer4.1.conv2.weight/sgd_update", "layer4.0.conv2/conv_transpose"]
    short = [shortened(name, 18, best_tail(names, 18)) for name in names]
    assert len(set(short)) == 3
    assert all(len(name) <= 18 and "…" in name for name in short)
    assert shortened("abcdefgh", 5) == "ab…gh"
    assert shortened("short", 5) == "short"


@pytest.mark.parametrize(("columns", "width"), [("0", 140), ("", 140), ("x", 140), ("3", LEAST_WIDTH), ("77", 77)])
def test_a_width_that_is_none_is_not_taken_for_one(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert screen().width == width


def test_what_is_printed_is_no_markup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen().print("install monet-train[parquet] :smile: [bold]", TextTable("", ("[red]",), [("pe[0,1]",)]), sep="\n")
    assert capsys.readouterr().out == "install monet-train[parquet] :smile: [bold]\n[red]\npe[0,1]\n"
